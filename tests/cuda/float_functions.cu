// f32 library functions against identities.
extern "C" __global__ void float_functions(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = (float)(int)(i - n / 2) * 0.37f;
    float s = sinf(x), c = cosf(x), e = expf(x * 0.01f), l = logf(e);
    bool ok = fabsf(s * s + c * c - 1) < 1e-6f && fabsf(l - x * 0.01f) < 1e-6f &&
              fabsf(tanhf(x) - (1 - 2 / (expf(2 * x) + 1))) < 1e-6f && fabsf(erff(x)) <= 1 &&
              fabsf(rsqrtf(x * x + 1) * sqrtf(x * x + 1) - 1) < 1e-6f && powf(2, 10) == 1024;
    if (i < n)
        out[i] = ok;
}
