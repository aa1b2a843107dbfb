/*
 * A host of the Driver API written from NVIDIA's cuda.h alone: it knows nothing of plaunch, and would run on a GPU too.
 * tests/emu_hosts.sh compiles it against the toolkit and runs it on the emulated driver.
 *
 *   emu_hosts FOLDER    runs what the device is made for of FOLDER's kernels: a vector add, a copy of a swizzled tile, and a
 *                       product of matrices by wgmma (9.0), or by tcgen05 in one CTA and in a pair (10.0)
 *
 * All inputs are random, and all results exact: the factors are integers of -8 to 8, whose sums of 64 products fit a float.
 */
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(CUresult r, const char *what)
{
    const char *name = "?";
    if (r == CUDA_SUCCESS)
        return;
    cuGetErrorName(r, &name);
    fprintf(stderr, "%s: %s\n", what, name);
    exit(1);
}
#define CHECK(call) check(call, #call)

static uint32_t next_random(void)
{
    static uint64_t state = 20240607;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

/* ---- what the kernels need ------------------------------------------------------------------------------------------ */

static const char *folder;

/* The kernel has its file's name. */
static CUfunction load(const char *name, CUmodule *module)
{
    char path[1000];
    CUfunction f;
    snprintf(path, sizeof path, "%s/%s.ptx", folder, name);
    CHECK(cuModuleLoad(module, path));
    CHECK(cuModuleGetFunction(&f, *module, name));
    return f;
}

static CUdeviceptr upload(const void *data, size_t n_bytes)
{
    CUdeviceptr p;
    CHECK(cuMemAlloc(&p, n_bytes));
    CHECK(cuMemcpyHtoD(p, data, n_bytes));
    return p;
}

static void download(void *data, CUdeviceptr p, size_t n_bytes)
{
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH(data, p, n_bytes));
    CHECK(cuMemFree(p));
}

/* A matrix of n_rows x n_cols 16-bit elements, rows one after the other, in boxes of box_rows x 64 with a swizzle of 128 bytes. */
static CUtensorMap map_of(CUdeviceptr p, uint32_t n_rows, uint32_t n_cols, uint32_t box_rows)
{
    CUtensorMap map;
    const cuuint64_t sizes[2] = {n_cols, n_rows}, strides[1] = {2 * (cuuint64_t)n_cols};
    const cuuint32_t box[2] = {64, box_rows}, steps[2] = {1, 1};
    CHECK(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void *)(uintptr_t)p,
                                 sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                 CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    return map;
}

struct launch {
    unsigned n_ctas, n_threads, n_ctas_in_cluster, dynamic_bytes;
};

static void launch(CUfunction f, const struct launch *l, void **params)
{
    CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    cluster.value.clusterDim.x = l->n_ctas_in_cluster;
    cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1;
    CUlaunchConfig config = {.gridDimX = l->n_ctas,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = l->n_threads,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .sharedMemBytes = l->dynamic_bytes,
                             .attrs = &cluster,
                             .numAttrs = l->n_ctas_in_cluster > 1};
    CHECK(cuLaunchKernelEx(&config, f, params, NULL));
}

static int report(const char *name, unsigned n_wrong, unsigned n)
{
    printf("%s: %u of %u wrong\n", name, n_wrong, n);
    return n_wrong != 0;
}

/* ---- the cases -------------------------------------------------------------------------------------------------------- */

static int run_vector_add(void)
{
    enum { N = 1000 };
    static float a[N], b[N], sum[N];
    CUmodule module;
    CUfunction f = load("vector_add", &module);
    unsigned n = N, n_wrong = 0;
    for (int i = 0; i < N; i++) {
        a[i] = (float)next_random() / 1000;
        b[i] = (float)next_random() / 3000;
    }
    CUdeviceptr da = upload(a, sizeof a), db = upload(b, sizeof b), dsum = upload(sum, sizeof sum);
    void *params[] = {&da, &db, &dsum, &n};
    launch(f, &(struct launch){(N + 127) / 128, 128, 1, 0}, params);
    download(sum, dsum, sizeof sum);
    for (int i = 0; i < N; i++)
        n_wrong += sum[i] != a[i] + b[i];
    CHECK(cuMemFree(da));
    CHECK(cuMemFree(db));
    CHECK(cuModuleUnload(module));
    return report("vector_add", n_wrong, N);
}

/* The box at (x, y) of a matrix of 100 x 104 elements; what lies outside is 0. */
static unsigned count_wrong_copies(CUfunction f, const uint16_t *from, CUdeviceptr dfrom, int x,
                                   int y)
{
    enum { ROWS = 100, COLS = 104, BOX = 64 };
    static uint16_t to[BOX * BOX], image[BOX * BOX];
    CUdeviceptr dto = upload(to, sizeof to), dimage = upload(image, sizeof image);
    CUtensorMap from_map = map_of(dfrom, ROWS, COLS, BOX), to_map = map_of(dto, BOX, BOX, BOX);
    void *params[] = {&from_map, &to_map, &dimage, &x, &y};
    unsigned n_wrong = 0;
    launch(f, &(struct launch){1, 128, 1, 0}, params);
    download(image, dimage, sizeof image);
    download(to, dto, sizeof to);
    for (int r = 0; r < BOX; r++)
        for (int c = 0; c < BOX; c++) {
            /* 16-byte piece p of row r lies where piece p ^ r % 8 would lie without the swizzle */
            uint16_t in_image = image[r * BOX + ((c / 8) ^ (r % 8)) * 8 + c % 8];
            int row = y + r, col = x + c;
            int is_in = row >= 0 && row < ROWS && col >= 0 && col < COLS;
            uint16_t want = is_in ? from[row * COLS + col] : 0;
            n_wrong += in_image != want || to[r * BOX + c] != want;
        }
    return n_wrong;
}

static int run_tile_copy(void)
{
    static uint16_t from[100 * 104];
    CUmodule module;
    CUfunction f = load("tile_copy", &module);
    unsigned n_wrong = 0;
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++)
        from[i] = (uint16_t)(next_random() | 1);
    CUdeviceptr dfrom = upload(from, sizeof from);
    n_wrong += count_wrong_copies(f, from, dfrom, 0, 0);
    n_wrong += count_wrong_copies(f, from, dfrom, 40, 7);
    n_wrong += count_wrong_copies(f, from, dfrom, -5, 61);
    CHECK(cuMemFree(dfrom));
    CHECK(cuModuleUnload(module));
    return report("tile_copy", n_wrong, 3 * 64 * 64);
}

/* d[m][n] = a[m][64] * b[n][64] transposed, of 16-bit floats. */
struct product {
    const char *kernel;
    unsigned m, n;
    unsigned box_rows_a, box_rows_b;
    struct launch launch;
};

enum { K = 64, MAX_M = 256, MAX_N = 128 };

static void fill(uint16_t *bf16, int *value, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        uint32_t bits;
        value[i] = (int)(next_random() % 17) - 8;
        float f = (float)value[i];
        memcpy(&bits, &f, sizeof bits);
        bf16[i] = (uint16_t)(bits >> 16);
    }
}

static int run_product(const struct product *p)
{
    static uint16_t a[MAX_M * K], b[MAX_N * K];
    static int va[MAX_M * K], vb[MAX_N * K];
    static float d[MAX_M * MAX_N];
    CUmodule module;
    CUfunction f = load(p->kernel, &module);
    unsigned n_wrong = 0;
    fill(a, va, p->m * K);
    fill(b, vb, p->n * K);
    memset(d, 0xff, sizeof d);
    CUdeviceptr da = upload(a, 2u * p->m * K), db = upload(b, 2u * p->n * K);
    CUdeviceptr dd = upload(d, 4u * p->m * p->n);
    CUtensorMap map_a = map_of(da, p->m, K, p->box_rows_a);
    CUtensorMap map_b = map_of(db, p->n, K, p->box_rows_b);
    void *params[] = {&map_a, &map_b, &dd};
    launch(f, &p->launch, params);
    download(d, dd, 4u * p->m * p->n);
    for (unsigned row = 0; row < p->m; row++)
        for (unsigned col = 0; col < p->n; col++) {
            int sum = 0;
            for (int k = 0; k < K; k++)
                sum += va[row * K + k] * vb[col * K + k];
            n_wrong += d[row * p->n + col] != (float)sum;
        }
    CHECK(cuMemFree(da));
    CHECK(cuMemFree(db));
    CHECK(cuModuleUnload(module));
    return report(p->kernel, n_wrong, p->m * p->n);
}

int main(int argc, char **argv)
{
    static const struct product wgmma = {"wgmma_tile", 64, 128, 64, 128, {1, 128, 1, 0}};
    static const struct product tcgen05 = {"tcgen05_tile", 128, 128, 128, 128, {1, 128, 1, 32768}};
    static const struct product pair = {"tcgen05_pair", 256, 128, 128, 64, {2, 128, 2, 0}};
    CUdevice device;
    CUcontext ctx;
    int major, n_failed = 0;
    if (argc != 2)
        return 2;
    folder = argv[1];
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    CHECK(cuDevicePrimaryCtxRetain(&ctx, device));
    CHECK(cuCtxSetCurrent(ctx));
    n_failed += run_vector_add();
    n_failed += run_tile_copy();
    if (major == 9)
        n_failed += run_product(&wgmma);
    if (major == 10) {
        n_failed += run_product(&tcgen05);
        n_failed += run_product(&pair);
    }
    CHECK(cuDevicePrimaryCtxRelease(device));
    return n_failed != 0;
}
