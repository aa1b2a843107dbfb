// Every shuffle, with widths, in part of a warp.
extern "C" __global__ void shuffles(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned lane = threadIdx.x % 32, v = 0;
    v += __shfl_sync(0xffffffffu, i, lane * 3, 8);
    v += __shfl_xor_sync(0xffffffffu, i, 5, 16) * 3;
    v += __shfl_up_sync(0xffffffffu, i, 2, 4) * 5;
    v += __shfl_down_sync(0xffffffffu, i, 3, 32) * 7;
    if (lane < 16)
        v += (unsigned)__shfl_sync(0x0000ffffu, (double)i, 15 - lane);
    if (i < n)
        out[i] = v;
}
