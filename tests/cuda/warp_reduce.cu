// Reduction by shuffles.
extern "C" __global__ void warp_reduce(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned v = i;
    for (int d = 16; d != 0; d /= 2)
        v += __shfl_down_sync(0xffffffffu, v, d);
    if (threadIdx.x % 32 == 0)
        out[i / 32] = v;
}
