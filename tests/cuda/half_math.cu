// f16 and f16x2 arithmetic on small integers.
#include <cuda_fp16.h>
extern "C" __global__ void half_math(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    __half a = __uint2half_rn(i % 64), b = __float2half(3.0f);
    __half2 v = __hfma2(__halves2half2(a, b), __halves2half2(b, a), __float2half2_rn(1.0f));
    __half m = __hmax(a, __float2half(10.0f));
    if (i < n)
        out[i] = __half2uint_rn(__low2half(v)) + 1000 * __half2uint_rn(__high2half(v)) +
                 1000000 * __half2uint_rn(m);
}
