// d[256][64] = a[256][64] * b[64][64] transposed, bf16 to f32, by two CTAs with one tcgen05.mma of cta_group::2 a step.
struct alignas(128) pair_map {
    unsigned long long opaque[16];
};
namespace tcgen05_pair_ {
__device__ __forceinline__ unsigned address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void cluster_sync()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ __forceinline__ void load(const pair_map *map, void *to, int row, unsigned bar)
{
    asm volatile("cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(address(to)),
                 "l"(map), "r"(0), "r"(row), "r"(bar)
                 : "memory");
}
__device__ __forceinline__ void wait(const void *bar)
{
    unsigned is_done = 0;
    while (!is_done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(is_done)
                     : "r"(address(bar))
                     : "memory");
}
__device__ __forceinline__ unsigned long long descriptor(const void *tile)
{
    return (address(tile) >> 4 & 0x3fff) | 1ull << 16 | 64ull << 32 | 1ull << 46 | 2ull << 61;
}
__device__ __forceinline__ void multiply(unsigned d, unsigned long long a, unsigned long long b, unsigned kind, int is_sum)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;\n\t"
                 "tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, {%5, %5, %5, %5, %5, %5, %5, %5}, p; }" ::"r"(d),
                 "l"(a), "l"(b), "r"(kind), "r"(is_sum), "r"(0)
                 : "memory");
}
} // namespace tcgen05_pair_
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128)
    tcgen05_pair(const __grid_constant__ pair_map map_a, const __grid_constant__ pair_map map_b, float *out)
{
    using namespace tcgen05_pair_;
    __shared__ alignas(1024) unsigned short a[128 * 64];
    __shared__ alignas(1024) unsigned short b[32 * 64];
    __shared__ alignas(8) unsigned long long full, ready;
    __shared__ unsigned columns;
    unsigned t = threadIdx.x, rank, first_full;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(&full)) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(&ready)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncwarp();
    if (t < 32) {
        asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], 64;" ::"r"(address(&columns)) : "memory");
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;" ::: "memory");
    }
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    cluster_sync();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    unsigned d = columns;
    if (t == 0) {
        asm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(first_full) : "r"(address(&full)));
        if (rank == 0)
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(&full)),
                         "r"(2 * (unsigned)(sizeof a + sizeof b))
                         : "memory");
        load(&map_a, a, (int)rank * 128, first_full);
        load(&map_b, b, (int)rank * 32, first_full);
        if (rank == 0) {
            wait(&full);
            asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
            for (int k = 0; k < 4; k++) // kind: M 256, N 64, bf16 times bf16 to f32
                multiply(d, descriptor(a) + 2 * k, descriptor(b) + 2 * k, 0x10100490, k != 0);
            asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(
                             address(&ready)),
                         "h"((short)3)
                         : "memory");
        }
    }
    __syncwarp();
    wait(&ready);
    __syncwarp();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    for (unsigned c = 0; c < 64; c += 8) {
        float v[8];
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
                     : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]), "=f"(v[4]), "=f"(v[5]), "=f"(v[6]), "=f"(v[7])
                     : "r"(d + (t / 32 << 21) + c)
                     : "memory");
        asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
        for (int j = 0; j < 8; j++)
            out[(rank * 128 + t) * 64 + c + j] = v[j];
    }
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    cluster_sync();
    if (t < 32)
        asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 64;" ::"r"(d) : "memory");
}
