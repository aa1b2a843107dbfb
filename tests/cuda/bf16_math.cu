// bf16 arithmetic on small integers.
#include <cuda_bf16.h>
extern "C" __global__ void bf16_math(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    __nv_bfloat16 a = __float2bfloat16((float)(i % 16)), b = __float2bfloat16(2.0f);
    __nv_bfloat16 c = __hadd(__hmul(a, b), b);
    if (i < n)
        out[i] = (unsigned)__bfloat162float(c);
}
