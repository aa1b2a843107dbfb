// A tensor copy of one 16 x 8 box of f32 into shared memory, through a tensor map in a parameter.
#include <cuda/barrier>
struct alignas(128) tensor_map {
    unsigned long long opaque[16];
};
extern "C" __global__ void tensor_copy(const __grid_constant__ tensor_map map, unsigned *out, int x, int y)
{
    __shared__ alignas(128) float s[8][16];
    __shared__ alignas(8) unsigned long long bar;
    unsigned b = (unsigned)__cvta_generic_to_shared(&bar), d = (unsigned)__cvta_generic_to_shared(s);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(b) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" ::"r"(b) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(d),
                     "l"(&map), "r"(x), "r"(y), "r"(b)
                     : "memory");
    }
    __syncthreads();
    unsigned is_done = 0;
    while (!is_done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(is_done)
                     : "r"(b)
                     : "memory");
    for (unsigned i = threadIdx.x; i < 128; i += blockDim.x)
        out[i] = (unsigned)s[i / 16][i % 16];
}
