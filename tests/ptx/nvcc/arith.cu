// Arithmetic in every width, with the half types and the special functions.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__global__ void wide(double *d, unsigned long long *u, long long *l)
{
    int i = threadIdx.x;
    d[i] = fma(d[i], 3.0, sqrt(d[i])) / d[i + 1] + exp(d[i]) + floor(d[i]) + (double)l[i];
    u[i] = u[i] * u[i + 1] / 7 + u[i] % 13 + __umul64hi(u[i], u[i + 2]);
    l[i] = (l[i] / (l[i + 1] | 1)) >> 3;
}

__global__ void narrow(signed char *c, unsigned short *s, int *n, float *f)
{
    int i = threadIdx.x;
    c[i] = (signed char)(c[i] * 3 + (int)f[i]);
    s[i] = (unsigned short)(s[i] + s[i + 1] / 5);
    n[i] = __popc(n[i]) + __clz(n[i]) + __ffs(n[i]) + __brev(n[i]) + __byte_perm(n[i], i, 0x5410) + __dp4a(n[i], i, 3);
    f[i] = fmaf(f[i], 2.0f, expf(f[i])) / (1.0f + sqrtf(f[i])) + sinf(f[i]) + tanhf(f[i]) + rsqrtf(f[i]) + rintf(f[i]);
}

__global__ void halves(__half *h, __nv_bfloat16 *b)
{
    int i = threadIdx.x;
    h[i] = __hadd(h[i], __float2half(2.0f)) * h[i + 1];
    b[i] = b[i] * b[i + 1] + __float2bfloat16(1.0f);
    __half2 hh = __halves2half2(h[0], h[1]);
    h[i] = __low2half(__hfma2(hh, hh, hh));
    b[i] = __hmax(b[i], b[i + 2]);
}
