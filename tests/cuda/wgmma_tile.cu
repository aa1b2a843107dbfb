// d[64][32] = a[64][64] * b[32][64] transposed, bf16 to f32: TMA with a swizzle of 128 bytes, then four wgmma of depth 16.
struct alignas(128) matrix_map {
    unsigned long long opaque[16];
};
namespace wgmma_tile_ {
__device__ __forceinline__ void load(const matrix_map *map, void *to, unsigned bar)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %2}], [%3];" ::"r"(
                     (unsigned)__cvta_generic_to_shared(to)),
                 "l"(map), "r"(0), "r"(bar)
                 : "memory");
}
__device__ __forceinline__ unsigned long long descriptor(const void *tile)
{
    unsigned long long at = (unsigned)__cvta_generic_to_shared(tile);
    return (at >> 4 & 0x3fff) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
__device__ __forceinline__ void multiply(float *d, unsigned long long a, unsigned long long b, int is_sum)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %18, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, p, 1, 1, 0, 0; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
                   "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
                 : "l"(a), "l"(b), "r"(is_sum)
                 : "memory");
}
} // namespace wgmma_tile_
extern "C" __global__ void __launch_bounds__(128)
    wgmma_tile(const __grid_constant__ matrix_map map_a, const __grid_constant__ matrix_map map_b, float *out)
{
    using namespace wgmma_tile_;
    __shared__ alignas(1024) unsigned short a[64 * 64];
    __shared__ alignas(1024) unsigned short b[32 * 64];
    __shared__ alignas(8) unsigned long long full;
    unsigned bar = (unsigned)__cvta_generic_to_shared(&full), t = threadIdx.x, is_done = 0;
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"((unsigned)(sizeof a + sizeof b))
                     : "memory");
        load(&map_a, a, bar);
        load(&map_b, b, bar);
    }
    __syncthreads();
    while (!is_done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(is_done)
                     : "r"(bar)
                     : "memory");
    __syncwarp();
    float d[16] = {};
    unsigned long long da = descriptor(a), db = descriptor(b);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int k = 0; k < 4; k++)
        multiply(d, da + 2 * k, db + 2 * k, k != 0);
    asm volatile("wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;" ::: "memory");
    unsigned row = t / 32 * 16 + t % 32 / 4, col = t % 4 * 2;
    for (int j = 0; j < 16; j++)
        out[(row + j / 2 % 2 * 8) * 32 + col + j / 4 * 8 + j % 2] = d[j];
}
