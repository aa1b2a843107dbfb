// NaN, infinities, signed zeros, rounding modes of conversions.
extern "C" __global__ void float_corners(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float z = (float)blockIdx.y, nan = z / z, inf = 1 / z;
    unsigned v = isnan(nan) + 2 * isinf(inf) + 4 * (fminf(nan, 3) == 3) + 8 * (nan != nan) +
                 16 * (signbit(-z) != 0) + 32 * (__float2int_rn(2.5f + z) == 2) +
                 64 * (__float2int_ru(2.1f + z) == 3) + 128 * (__float2int_rd(-2.1f + z) == -3) +
                 256 * (__float2int_rz(-2.9f + z) == -2) + 512 * (__float2uint_rn(-5.0f + z) == 0) +
                 1024 * (__float2int_rn(inf) == 0x7fffffff) + 2048 * (fmaf(inf, z, 1) != 1) +
                 4096 * (1e-45f + z > 0) + 8192 * (copysignf(3, -z) == -3);
    if (i < n)
        out[i] = v;
}
