// Lanes with equal values.
extern "C" __global__ void match(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned m = __match_any_sync(0xffffffffu, threadIdx.x % 5);
    int is_one;
    __match_all_sync(0xffffffffu, i / 32, &is_one);
    if (i < n)
        out[i] = __popc(m) + 100 * is_one;
}
