// Votes: ballot, any, all, active mask.
extern "C" __global__ void ballot(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned lane = threadIdx.x % 32, w = i / 32;
    unsigned b = __ballot_sync(0xffffffffu, lane % 3 == 0);
    unsigned a = __any_sync(0xffffffffu, lane == 40), all = __all_sync(0xffffffffu, lane < 32);
    unsigned odd = 0;
    if (lane % 2)
        odd = __popc(__activemask());
    if (lane == 1)
        out[w] = __popc(b) + 100 * a + 1000 * all + 10000 * odd;
}
