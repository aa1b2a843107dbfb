// 64-bit division, high products, counts of bits, funnel shifts.
extern "C" __global__ void integers(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long a = 0x123456789abcdefull * (i + 1), b = i + 3;
    unsigned long long q = a / b, r = a % b;
    long long sq = -(long long)(a >> 1) / (long long)b;
    unsigned v = (unsigned)(q ^ r ^ (unsigned long long)sq) + (unsigned)((q * b + r) == a);
    v += __umulhi((unsigned)a, 77777) + (unsigned)__umul64hi(a, b << 40) + __clzll(a) + __ffs(i + 1) +
         __funnelshift_l((unsigned)a, i, 9) + (unsigned)__popcll(a);
    if (i < n)
        out[i] = v;
}
