// Reductions of a warp in one instruction.
extern "C" __global__ void redux(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned s = __reduce_add_sync(0xffffffffu, i), mx = __reduce_max_sync(0xffffffffu, i);
    unsigned x = __reduce_xor_sync(0xffffffffu, i * i), mn = __reduce_min_sync(0xffffffffu, i ^ 7);
    if (i < n)
        out[i] = s + 3 * mx + 5 * x + 7 * mn;
}
