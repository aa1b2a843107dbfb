// printf in the kernel: one line a thread, every kind of argument.
#include <cstdio>
extern "C" __global__ void prints(unsigned *out, unsigned n)
{
    if (threadIdx.x == 2)
        printf("thread %u of %d: %s %c %5.2f %lld %x %%\n", threadIdx.x, (int)blockDim.x, "text", 'z', 2.5,
               -5000000000ll, 0xabcdu);
    out[threadIdx.x] = threadIdx.x;
}
