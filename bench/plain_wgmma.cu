/*
 * The plain kernel that ours are compared with: c = a b in bf16 by warpgroup products, as one writes it first. A block is one warpgroup
 * and a tile of 64 x 64; its threads fill two swizzled tiles of shared memory, then multiply them; nothing overlaps.
 *
 *   a (m, k), b (n, k) bf16, row-major; c (m, n) f32. Grid: (n / 64, m / 64), rounded up.
 *
 * plaunch bench matmul has NVRTC compile it, and runs it on the emulated driver; bench/sass.sh has nvcc do so.
 */
enum { TILE = 64, N_THREADS = 128 };

/* K-major, swizzled over 128 bytes: 8 rows are 1024 bytes apart. */
__device__ unsigned long long descriptor(const void *tile)
{
    unsigned long long at = __cvta_generic_to_shared(tile);
    return (at & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
__device__ void multiply(float *d, unsigned long long a, unsigned long long b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,"
                 "%31}, %32, %33, 1, 1, 1, 0, 0;"
                 : D4(0), D4(4), D4(8), D4(12), D4(16), D4(20), D4(24), D4(28)
                 : "l"(a), "l"(b));
}

/* The tile at (row, k) of x (n_rows, n_k), zero outside. */
__device__ void fill(unsigned short *tile, const unsigned short *x, long row, long k, long n_rows, long n_k)
{
    for (int i = threadIdx.x; i < TILE * TILE; i += N_THREADS) {
        int r = i / TILE, col = i % TILE;
        bool is_inside = row + r < n_rows && k + col < n_k;
        tile[r * TILE + (col ^ (r & 7) << 3)] = is_inside ? x[(row + r) * n_k + k + col] : 0;
    }
}

extern "C" __global__ void __launch_bounds__(N_THREADS)
    plain(const unsigned short *a, const unsigned short *b, float *c, long m, long n, long k)
{
    __shared__ __align__(1024) unsigned short a_tile[TILE * TILE], b_tile[TILE * TILE];
    float d[32] = {};
    const int t = threadIdx.x;
    const long row = blockIdx.y * (long)TILE, col = blockIdx.x * (long)TILE;
    for (long at = 0; at < k; at += TILE) {
        fill(a_tile, a, row, at, m, k);
        fill(b_tile, b, col, at, n, k);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int s = 0; s < 4; s++)
            multiply(d, descriptor(a_tile) + 2 * s, descriptor(b_tile) + 2 * s);
        asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
        __syncthreads();
    }
    for (int j = 0; j < 32; j++) {
        long r = row + t / 32 * 16 + t % 32 / 4 + j / 2 % 2 * 8, x = col + j / 4 * 8 + t % 4 * 2 + j % 2;
        if (r < m && x < n)
            c[r * n + x] = d[j];
    }
}
