// f64: division, square root, fused multiply-add; results are integers.
extern "C" __global__ void double_math(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    double x = (double)i + 1;
    double root = sqrt(x * x), third = fma(x / 3, 3.0, 0.25), hyp = sqrt(9 * x * x + 16 * x * x);
    if (i < n)
        out[i] = (unsigned)root + (unsigned)third + (unsigned)hyp + (unsigned)__dmul_rz(x, 0.5);
}
