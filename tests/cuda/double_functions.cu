// f64 library functions against identities.
extern "C" __global__ void double_functions(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    double x = (double)(int)(i - n / 2) * 0.37;
    double s = sin(x), c = cos(x), e = exp(x * 0.01), l = log(e), p = pow(1.5, x * 0.01);
    bool ok = fabs(s * s + c * c - 1) < 1e-14 && fabs(l - x * 0.01) < 1e-14 && p > 0 &&
              fabs(cbrt(x * x * x) - x) <= 1e-14 * fabs(x) && fabs(tan(x) * c - s) < 1e-13;
    if (i < n)
        out[i] = ok;
}
