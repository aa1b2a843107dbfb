// Cooperative groups: tiles of 8 threads reduce and broadcast.
#include <cooperative_groups.h>
extern "C" __global__ void tiles(unsigned *out, unsigned n)
{
    namespace cg = cooperative_groups;
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    unsigned v = i;
    for (int d = 4; d != 0; d /= 2)
        v += tile.shfl_xor(v, d);
    unsigned first = tile.shfl(i, 0);
    if (i < n)
        out[i] = v + 1000 * first + tile.thread_rank();
}
