/*
 * CUDA C++ kernels of our own (tests/cuda), compiled by nvcc and run on the emulated driver, against results that are known in
 * closed form or by the same arithmetic on the host. The PTX in the folder is always run; where nvcc is there, fresh PTX of
 * all kernels in one module too. To add a kernel: its file, its row and its function here; then
 * tests/cuda/compile.sh.
 */
#include "tests/emu_driver.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- what each kernel must give in word i --------------------------------------------------------------------------- */

static uint32_t fill(uint32_t i) { return i < 390 ? i * 2654435761u : 0; }
static uint32_t atomic_sum(uint32_t i) { return i == 0 ? 499500 : 0; }
static uint32_t block_reduce(uint32_t i) { return i < 5 ? 65536 * i + 255 * 128 : 0; }
static uint32_t warp_reduce(uint32_t i) { return 1024 * i + 496; }
static uint32_t warp_scan(uint32_t i) { return (i % 32 + 1) * (i % 32 + 2) / 2; }
static uint32_t block_scan(uint32_t i) { return (i + 1) * (i + 1); }
static uint32_t histogram_shared(uint32_t i) { return i < 64 ? 10 : 0; }
static uint32_t transpose(uint32_t i) { return i % 64 * 96 + i / 64; }

static uint32_t fib(uint32_t n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static uint32_t recursion(uint32_t i) { return fib(i % 16); }
static uint32_t mutual_recursion(uint32_t i) { return i % 2 == 0; }

static uint32_t function_pointers(uint32_t i)
{
    const uint32_t all[4] = {i + 3, i - 3, i * 3, i << 3};
    return all[i % 4];
}

static uint32_t virtual_functions(uint32_t i) { return i % 2 ? i * i : i * 3; }
static uint32_t struct_by_value(uint32_t i) { return i * i + i + i % 7 + 1; }
static uint32_t double_math(uint32_t i) { return 7 * (i + 1) + (i + 1) / 2; }
static uint32_t all_true(uint32_t i) { return i < 256; }

static uint32_t half_math(uint32_t i)
{
    uint32_t a = i % 64;
    return (3 * a + 1) * 1001 + 1000000 * (a > 10 ? a : 10);
}

static uint32_t bf16_math(uint32_t i) { return i % 16 * 2 + 2; }

static uint32_t constants(uint32_t i)
{
    static const uint32_t table[8] = {3, 1, 4, 1, 5, 9, 2, 6};
    uint32_t v = 0;
    for (uint32_t j = 0; j < 8; j++)
        v = v * 3 + table[(i + j) % 8];
    return v;
}

static uint32_t local_array(uint32_t i) { return 1240 + i % 16; }

static uint32_t reversed_bits(uint32_t v)
{
    uint32_t r = 0;
    for (int b = 0; b < 32; b++)
        r |= (v >> b & 1) << (31 - b);
    return r;
}

static uint32_t switch_table(uint32_t i)
{
    const uint32_t all[10] = {i + 11,           i * 3, i ^ 5, ~i,
                              i << 4,           i / 3, i % 3, (uint32_t)__builtin_popcount(i),
                              reversed_bits(i), 0};
    return all[i % 10];
}

static uint32_t dynamic_shared(uint32_t i) { return i / 128 * 128 + 127 - i % 128; }
static uint32_t ballot(uint32_t i) { return i < 4 ? 161011 : 0; }

static uint32_t match(uint32_t i)
{
    uint32_t n = 0, t = i % 64;
    for (uint32_t l = t / 32 * 32; l < t / 32 * 32 + 32; l++)
        n += l % 5 == t % 5;
    return n + 100;
}

static uint32_t redux(uint32_t i)
{
    uint32_t s = 0, mx = 0, x = 0, mn = UINT32_MAX;
    for (uint32_t j = i / 32 * 32; j < i / 32 * 32 + 32; j++) {
        s += j;
        mx = j > mx ? j : mx;
        x ^= j * j;
        mn = (j ^ 7) < mn ? j ^ 7 : mn;
    }
    return s + 3 * mx + 5 * x + 7 * mn;
}

static uint32_t tiles(uint32_t i)
{
    uint32_t base = i / 8 * 8;
    return 8 * base + 28 + 1000 * base + i % 8;
}

static uint32_t grid_barrier(uint32_t i) { return i < 256 ? 255 - i : 4; }
static uint32_t spin_lock(uint32_t i) { return i == 0 ? 128 : 0; }

static uint32_t atomics(uint32_t i)
{
    static const uint32_t all[16] = {8128, 0u - 8128, 0u - 127, 127,        0, 255, 0,         8, 2,
                                     5,    0,         256,      0x42800000, 0, 0,   0x40400000};
    return all[i];
}

static uint32_t collatz(uint32_t i)
{
    uint32_t steps = 0;
    for (uint32_t v = i + 1; v != 1; steps++)
        v = v % 2 ? 3 * v + 1 : v / 2;
    return steps;
}

static uint32_t early_return(uint32_t i) { return i < 50 ? 97 : 0; }

static uint32_t divergent_return(uint32_t i)
{
    uint32_t v = 100 - i, yes = 0;
    for (uint32_t j = 0; j < 100; j++)
        yes += j % 3 != 2 && j % 2 == 0;
    if (i >= 100)
        return 0;
    if (i % 3 == 2) {
        for (uint32_t j = 0; j < i; j++)
            v = v * 5 + j;
        return v;
    }
    return i < 7 || (i % 3 == 1 && i > 50) ? 0 : v + 1000 * yes + 300000;
}

static uint32_t bytes(uint32_t i)
{
    uint32_t v = 0;
    for (uint32_t j = 0; j < 4; j++)
        v = v << 8 | ((i * 3 + (i % 9 + j) * 17) & 0xff);
    return v;
}

/* ISO C has no 128-bit integers; gcc and clang have. */
__extension__ typedef unsigned __int128 u128;

static uint32_t integers(uint32_t i)
{
    uint64_t a = 0x123456789abcdefu * (i + 1u), b = i + 3u, q = a / b, r = a % b;
    int64_t sq = -(int64_t)(a >> 1) / (int64_t)b;
    uint32_t v = (uint32_t)(q ^ r ^ (uint64_t)sq) + 1;
    v += (uint32_t)((uint64_t)(uint32_t)a * 77777 >> 32);
    v += (uint32_t)(uint64_t)((u128)a * (b << 40) >> 64);
    v += (uint32_t)__builtin_clzll(a) + (uint32_t)__builtin_ffs((int)i + 1);
    v += (uint32_t)(((uint64_t)i << 32 | (uint32_t)a) << 9 >> 32);
    return v + (uint32_t)__builtin_popcountll(a);
}

static uint32_t int128(uint32_t i)
{
    u128 p = (u128)(0xfedcba9876543210u + i) * (0x123456789abcdefu * (i + 1u));
    p += (u128)i << 100;
    return (uint32_t)(p >> 96) ^ (uint32_t)(p >> 64) ^ (uint32_t)(p >> 32) ^ (uint32_t)p;
}

static uint32_t float_corners(uint32_t i) { return i < 64 ? 16383 : 0; }

static uint32_t vectors(uint32_t i)
{
    static const uint32_t add[4] = {0, 1, 3, 2};
    return i / 4 + add[i % 4];
}

static uint32_t matmul(uint32_t i)
{
    uint32_t row = i / 48, col = i % 48, sum = 0;
    for (uint32_t k = 0; k < 48; k++)
        sum += (row + k) % 7 * (k * col % 5);
    return sum;
}

static uint32_t producer_consumer(uint32_t i) { return i < 32 ? 32 * 28 + 8 * (31 - i) : 0; }

static uint32_t async_copy(uint32_t i)
{
    uint32_t sum = 0, l = 31 - i;
    for (uint32_t j = 0; j < 4; j++)
        sum += j + l + j * l + 1;
    return sum;
}

static uint32_t block_barrier(uint32_t i) { return (i + 5) % 64 + 5; }
static uint32_t identity(uint32_t i) { return i; }
static uint32_t generic_pointers(uint32_t i) { return (i % 2 ? i + i % 4 : i * 2) + 1 + 3; }

static uint32_t device_malloc(uint32_t i)
{
    uint32_t sum = 0;
    for (uint32_t j = 5; j-- > 0;)
        sum = sum * 2 + i + j;
    return sum;
}

static uint32_t simd_bytes(uint32_t i)
{
    uint32_t a = i * 0x01030507u, b = i * 0x00020406u + 0x10101010u, dot = i, sum = 0, max = 0;
    for (int s = 0; s < 32; s += 8) {
        uint32_t x = a >> s & 0xff, y = b >> s & 0xff;
        dot += x * y;
        sum |= ((x + y) & 0xff) << s;
        max |= (x > y ? x : y) << s;
    }
    return dot + sum + max + (a > b ? a - b : b - a) + 1;
}

static uint32_t templates(uint32_t i)
{
    uint32_t v = 1;
    for (int e = 0; e < 13; e++)
        v *= i;
    return v + (((i ^ 100) + 1) ^ 100);
}

static uint32_t quicksort(uint32_t i)
{
    uint32_t v = 0;
    for (uint32_t j = 0; j < 24; j++)
        v = v * 31 + j;
    return v + i * 0;
}

static uint32_t shuffles(uint32_t i)
{
    uint32_t base = i / 32 * 32, l = i % 32;
    uint32_t v = base + (l / 8 * 8 | (l * 3) % 8) + 3 * (base + (l ^ 5));
    v += 5 * (base + (l % 4 >= 2 ? l - 2 : l)) + 7 * (base + (l + 3 < 32 ? l + 3 : l));
    return v + (l < 16 ? base + 15 - l : 0);
}

static uint32_t clocks(uint32_t i) { return i < 32 ? 3 : 0; }
static uint32_t cluster_ring(uint32_t i)
{
    uint32_t block = i / 64, next = block / 4 * 4 + (block + 1) % 4;
    return next * 64 + 63 - i % 64 + 400000;
}
static uint32_t bulk_copy(uint32_t i) { return i / 128 * 1000 + 127 - i % 128 + 7; }

static uint32_t cluster_exchange(uint32_t i)
{
    uint32_t peer = (i / 64) ^ 1, lane = i % 64;
    return (peer * 1000 + lane) * 3 + 10000 * lane;
}

static uint32_t copy_pipeline(uint32_t i) { return 16 * (63 - i) + 100 * 120; }

/* ---- the table ------------------------------------------------------------------------------------------------------- */

static const struct row {
    const char *name;
    int sm; /* least chip */
    unsigned grid[2], block[2], dynamic_bytes, n, n_words, n_checked;
    uint32_t (*expect)(uint32_t i);
    bool
        is_shipped; /* its PTX is in the folder: not where it holds code of NVIDIA's mathematical library */
} rows[] = {
    {"fill", 80, {4, 1}, {100, 1}, 0, 390, 400, 400, fill, true},
    {"atomic_sum", 80, {3, 1}, {64, 1}, 0, 1000, 4, 4, atomic_sum, true},
    {"block_reduce", 80, {5, 1}, {256, 1}, 0, 5, 8, 8, block_reduce, true},
    {"warp_reduce", 80, {2, 1}, {96, 1}, 0, 6, 6, 6, warp_reduce, true},
    {"warp_scan", 80, {2, 1}, {64, 1}, 0, 128, 128, 128, warp_scan, true},
    {"block_scan", 80, {1, 1}, {256, 1}, 0, 256, 256, 256, block_scan, true},
    {"histogram_shared", 80, {4, 1}, {160, 1}, 0, 64, 80, 80, histogram_shared, true},
    {"transpose", 80, {3, 2}, {32, 8}, 0, 6144, 6144, 6144, transpose, true},
    {"recursion", 80, {1, 1}, {64, 1}, 0, 64, 64, 64, recursion, true},
    {"mutual_recursion", 80, {1, 1}, {40, 1}, 0, 40, 40, 40, mutual_recursion, true},
    {"function_pointers", 80, {2, 1}, {64, 1}, 0, 128, 128, 128, function_pointers, true},
    {"virtual_functions", 80, {2, 1}, {64, 1}, 0, 128, 128, 128, virtual_functions, true},
    {"struct_by_value", 80, {2, 1}, {64, 1}, 0, 128, 128, 128, struct_by_value, true},
    {"double_math", 80, {4, 1}, {64, 1}, 0, 256, 256, 256, double_math, true},
    {"double_functions", 80, {4, 1}, {64, 1}, 0, 256, 256, 256, all_true, false},
    {"float_functions", 80, {4, 1}, {64, 1}, 0, 256, 256, 256, all_true, false},
    {"half_math", 80, {2, 1}, {64, 1}, 0, 128, 128, 128, half_math, true},
    {"bf16_math", 80, {2, 1}, {64, 1}, 0, 128, 128, 128, bf16_math, true},
    {"constants", 80, {2, 1}, {64, 1}, 0, 128, 128, 128, constants, true},
    {"local_array", 80, {2, 1}, {64, 1}, 0, 128, 128, 128, local_array, true},
    {"switch_table", 80, {4, 1}, {64, 1}, 0, 256, 256, 256, switch_table, true},
    {"dynamic_shared", 80, {3, 1}, {128, 1}, 512, 384, 384, 384, dynamic_shared, true},
    {"ballot", 80, {2, 1}, {64, 1}, 0, 4, 8, 8, ballot, true},
    {"match", 80, {2, 1}, {64, 1}, 0, 128, 128, 128, match, true},
    {"redux", 80, {2, 1}, {64, 1}, 0, 128, 128, 128, redux, true},
    {"tiles", 80, {2, 1}, {64, 1}, 0, 128, 128, 128, tiles, true},
    {"grid_barrier", 80, {4, 1}, {64, 1}, 0, 256, 258, 258, grid_barrier, true},
    {"spin_lock", 80, {2, 1}, {64, 1}, 0, 0, 2, 2, spin_lock, true},
    {"atomics", 80, {2, 1}, {64, 1}, 0, 0, 16, 16, atomics, true},
    {"collatz", 80, {4, 1}, {64, 1}, 0, 256, 256, 256, collatz, true},
    {"early_return", 80, {1, 1}, {128, 1}, 0, 128, 128, 128, early_return, true},
    {"divergent_return", 80, {1, 1}, {128, 1}, 0, 100, 128, 128, divergent_return, true},
    {"bytes", 80, {2, 1}, {64, 1}, 0, 128, 128, 128, bytes, true},
    {"integers", 80, {4, 1}, {64, 1}, 0, 256, 256, 256, integers, true},
    {"int128", 80, {4, 1}, {64, 1}, 0, 256, 256, 256, int128, true},
    {"float_corners", 80, {1, 1}, {64, 1}, 0, 64, 64, 64, float_corners, true},
    {"vectors", 80, {2, 1}, {64, 1}, 0, 512, 512, 512, vectors, true},
    {"matmul", 80, {3, 3}, {16, 16}, 0, 2304, 2304, 2304, matmul, true},
    {"producer_consumer", 80, {1, 1}, {64, 1}, 0, 32, 32, 32, producer_consumer, true},
    {"async_copy", 80, {1, 1}, {32, 1}, 0, 32, 544, 32, async_copy, true},
    {"block_barrier", 80, {1, 1}, {64, 1}, 0, 64, 64, 64, block_barrier, true},
    {"bitonic_sort", 80, {1, 1}, {256, 1}, 0, 256, 256, 256, identity, true},
    {"generic_pointers", 80, {2, 1}, {64, 1}, 0, 128, 128, 128, generic_pointers, true},
    {"device_malloc", 80, {2, 1}, {64, 1}, 0, 128, 128, 128, device_malloc, true},
    {"simd_bytes", 80, {4, 1}, {64, 1}, 0, 256, 256, 256, simd_bytes, true},
    {"templates", 80, {2, 1}, {64, 1}, 0, 100, 128, 100, templates, true},
    {"quicksort", 80, {1, 1}, {64, 1}, 0, 64, 64, 64, quicksort, true},
    {"shuffles", 80, {2, 1}, {64, 1}, 0, 128, 128, 128, shuffles, true},
    {"clocks", 80, {1, 1}, {32, 1}, 0, 32, 40, 40, clocks, true},
    {"cluster_ring", 90, {8, 1}, {64, 1}, 0, 512, 512, 512, cluster_ring, true},
    {"bulk_copy", 90, {2, 1}, {128, 1}, 0, 256, 256, 256, bulk_copy, true},
    {"cluster_exchange", 90, {4, 1}, {64, 1}, 0, 256, 256, 256, cluster_exchange, true},
    {"copy_pipeline", 80, {1, 1}, {64, 1}, 0, 0, 64 + 16 * 64, 64, copy_pipeline, true},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

/* ---- fresh PTX of all kernels ----------------------------------------------------------------------------- */

/* `what`: a chip, for all that it takes, or one kernel. */
static bool compile(const char *what, char *path, size_t n_bytes)
{
    char command[1200];
    snprintf(path, n_bytes, "%s/emu_cuda_%s_%ld.ptx", getenv("PL_BUILDDIR"), what, (long)getpid());
    snprintf(command, sizeof command, "sh '%s/tests/cuda/compile.sh' %s '%s' >/dev/null 2>&1",
             getenv("PL_SRCDIR"), what, path);
    if (system(command) == 0)
        return true;
    path[0] = '\0';
    return false;
}

/* ---- running ------------------------------------------------------------------------------------------------------------ */

static const char *shipped_path(const char *name, char *path, size_t n_bytes)
{
    snprintf(path, n_bytes, "%s/tests/cuda/%s.ptx", getenv("PL_SRCDIR"), name);
    return path;
}

static CUmodule load_module(const char *path)
{
    CUcontext ctx;
    CUmodule m;
    char text[1500];
    ok(cu.cuInit(0));
    ok(cu.cuCtxCreate_v2(&ctx, 0, 0));
    CUresult r = cu.cuModuleLoad(&m, path);
    cu.last_fault(text, sizeof text);
    ck_assert_msg(r == CUDA_SUCCESS, "%s: %d, %s", path, r, text);
    return m;
}

static CUfunction load(const char *path, const char *name)
{
    CUfunction f;
    ok(cu.cuModuleGetFunction(&f, load_module(path), name));
    return f;
}

static void run(const struct row *row, CUmodule m)
{
    static uint32_t out[8192];
    char text[1500];
    CUdeviceptr p;
    unsigned n = row->n;
    CUfunction f;
    ok(cu.cuModuleGetFunction(&f, m, row->name));
    ok(cu.cuMemAlloc_v2(&p, row->n_words * 4u));
    ok(cu.cuMemsetD32_v2(p, 0, row->n_words));
    void *params[] = {&p, &n};
    ok(cu.cuLaunchKernel(f, row->grid[0], row->grid[1], 1, row->block[0], row->block[1], 1,
                         row->dynamic_bytes, NULL, params, NULL));
    CUresult r = cu.cuCtxSynchronize();
    cu.last_fault(text, sizeof text);
    ck_assert_msg(r == CUDA_SUCCESS, "%s: %d, %s", row->name, r, text);
    ok(cu.cuMemcpyDtoH_v2(out, p, row->n_words * 4u));
    for (uint32_t i = 0; i < row->n_checked; i++)
        ck_assert_msg(out[i] == row->expect(i), "%s: word %u is %u, not %u", row->name, i, out[i],
                      row->expect(i));
    ok(cu.cuMemFree_v2(p));
}

START_TEST(shipped_ptx)
{
    char path[400];
    if (rows[_i].is_shipped)
        run(&rows[_i], load_module(shipped_path(rows[_i].name, path, sizeof path)));
}
END_TEST

/* None of them has a race, whatever the order of asynchrony. */
START_TEST(shipped_ptx_has_no_race)
{
    static const char *const policies[] = {"eager", "late", "random:5"};
    char path[400];
    if (!rows[_i].is_shipped)
        return;
    ck_assert_int_eq(cu.configure("check", "race"), 0);
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        ck_assert_int_eq(cu.configure("async", policies[i]), 0);
        run(&rows[_i], load_module(shipped_path(rows[_i].name, path, sizeof path)));
    }
}
END_TEST

static const struct {
    int sm;
    const char *options;
} builds[] = {{80, ""}, {90, ""}, {90, "-G"}, {80, "-Xcicc -O0"}, {100, "-Xcicc -O1"}};
enum { N_BUILDS = sizeof builds / sizeof builds[0] };

/* All kernels in one module, and in one context one after the other. */
START_TEST(fresh_ptx)
{
    char path[300], arch[10];
    snprintf(arch, sizeof arch, "%d", builds[_i].sm);
    setenv("NVCC_FLAGS", builds[_i].options, 1);
    if (!compile(arch, path, sizeof path)) {
        fprintf(stderr, "no nvcc: only the PTX of the folder is run\n");
        return;
    }
    ck_assert_int_eq(cu.configure("arch", arch), 0);
    CUmodule m = load_module(path);
    unlink(path);
    for (size_t i = 0; i < N_ROWS; i++)
        if (rows[i].sm <= builds[_i].sm)
            run(&rows[i], m);
}
END_TEST

START_TEST(printf_goes_to_stdout)
{
    char path[400], line[200] = "";
    CUdeviceptr p;
    unsigned n = 0;
    FILE *file = tmpfile();
    int saved = dup(1);
    CUfunction f = load(shipped_path("prints", path, sizeof path), "prints");
    ok(cu.cuMemAlloc_v2(&p, 16));
    void *params[] = {&p, &n};
    fflush(stdout);
    dup2(fileno(file), 1);
    ok(cu.cuLaunchKernel(f, 1, 1, 1, 4, 1, 1, 0, NULL, params, NULL));
    ok(cu.cuCtxSynchronize());
    fflush(stdout);
    dup2(saved, 1);
    rewind(file);
    ck_assert_ptr_nonnull(fgets(line, sizeof line, file));
    ck_assert_str_eq(line, "thread 2 of 4: text z  2.50 -5000000000 abcd %\n");
    ck_assert_ptr_null(fgets(line, sizeof line, file));
    fclose(file);
    close(saved);
}
END_TEST

START_TEST(assertion_sticks)
{
    char path[400], text[1500];
    CUdeviceptr p;
    unsigned n = 0;
    CUfunction f = load(shipped_path("asserts", path, sizeof path), "asserts");
    ok(cu.cuMemAlloc_v2(&p, 16));
    void *params[] = {&p, &n};
    ok(cu.cuLaunchKernel(f, 1, 1, 1, 3, 1, 1, 0, NULL, params, NULL));
    ok(cu.cuCtxSynchronize());
    ok(cu.cuLaunchKernel(f, 1, 1, 1, 4, 1, 1, 0, NULL, params, NULL));
    gives(cu.cuCtxSynchronize(), ASSERT);
    cu.last_fault(text, sizeof text);
    ck_assert_msg(strstr(text, "threadIdx.x != 3") != NULL, "%s", text);
}
END_TEST

/* A box of 16 x 8 at (x, y) of a tensor of 40 x 20 f32: outside it is 0. */
static void copy_box(CUfunction f, const CUtensorMap *map, CUdeviceptr out, int x, int y)
{
    uint32_t got[128];
    CUtensorMap copy = *map;
    void *params[] = {&copy, &out, &x, &y};
    ok(cu.cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
    ok(cu.cuMemcpyDtoH_v2(got, out, sizeof got));
    for (int i = 0; i < 128; i++) {
        int cx = x + i % 16, cy = y + i / 16;
        bool is_in = cx >= 0 && cx < 40 && cy >= 0 && cy < 20;
        ck_assert_uint_eq(got[i], is_in ? (uint32_t)(cy * 40 + cx) : 0);
    }
}

START_TEST(tensor_map_as_a_parameter)
{
    static float data[20 * 40];
    char path[400];
    CUtensorMap map;
    CUdeviceptr p, out;
    const cuuint64_t dims[] = {40, 20}, strides[] = {160};
    const cuuint32_t box[] = {16, 8}, steps[] = {1, 1};
    CUfunction f = load(shipped_path("tensor_copy", path, sizeof path), "tensor_copy");
    for (int i = 0; i < 800; i++)
        data[i] = (float)i;
    ok(cu.cuMemAlloc_v2(&p, sizeof data));
    ok(cu.cuMemAlloc_v2(&out, 512));
    ok(cu.cuMemcpyHtoD_v2(p, data, sizeof data));
    ok(cu.cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, (void *)(uintptr_t)p,
                                 dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                 CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    copy_box(f, &map, out, 8, 4);
    copy_box(f, &map, out, -3, 15);
    copy_box(f, &map, out, 30, -2);
}
END_TEST

/* ---- products of matrices by tensor cores ------------------------------------------------------------------------------- */

/* d[m][n] = a[m][64] * b[n][64] transposed; each CTA loads boxes of these rows. */
static const struct product {
    const char *name, *arch;
    unsigned m, n, box_rows_a, box_rows_b, n_ctas;
} products[] = {
    {"wgmma_tile", "sm_90a", 64, 32, 64, 32, 1},
    {"tcgen05_pair", "sm_100a", 256, 64, 128, 32, 2},
};
enum { N_PRODUCTS = sizeof products / sizeof products[0], K = 64, MAX_ELEMS = 256 * 64 };

static int a_at(unsigned row, unsigned k) { return (int)((row * 3 + k * k) % 11) - 5; }
static int b_at(unsigned col, unsigned k) { return (int)((col * col + k * 5) % 13) - 6; }

/* n_rows x 64 of bf16 on the device, and its map with a swizzle of 128 bytes. */
static CUdeviceptr upload(unsigned n_rows, int (*at)(unsigned, unsigned), unsigned box_rows,
                          CUtensorMap *map)
{
    static uint16_t data[MAX_ELEMS];
    CUdeviceptr p;
    const cuuint64_t dims[] = {K, n_rows}, strides[] = {K * 2};
    const cuuint32_t box[] = {K, box_rows}, steps[] = {1, 1};
    for (unsigned i = 0; i < n_rows * K; i++) {
        union {
            float f;
            uint32_t bits;
        } v = {(float)at(i / K, i % K)};
        data[i] = (uint16_t)(v.bits >> 16); /* small integers are exact */
    }
    ok(cu.cuMemAlloc_v2(&p, n_rows * K * 2));
    ok(cu.cuMemcpyHtoD_v2(p, data, n_rows * K * 2));
    ok(cu.cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void *)(uintptr_t)p,
                                 dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                 CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    return p;
}

static void multiply(const struct product *p, CUfunction f, const char *policy)
{
    static float d[MAX_ELEMS];
    char text[1500];
    CUtensorMap map_a, map_b;
    CUdeviceptr da = upload(p->m, a_at, p->box_rows_a, &map_a), dd;
    CUdeviceptr db = upload(p->n, b_at, p->box_rows_b, &map_b);
    ok(cu.cuMemAlloc_v2(&dd, p->m * p->n * 4));
    ok(cu.cuMemsetD32_v2(dd, UINT32_MAX, p->m * p->n));
    void *params[] = {&map_a, &map_b, &dd};
    ck_assert_int_eq(cu.configure("async", policy), 0);
    ok(cu.cuLaunchKernel(f, p->n_ctas, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
    CUresult r = cu.cuCtxSynchronize();
    cu.last_fault(text, sizeof text);
    ck_assert_msg(r == CUDA_SUCCESS, "%s, %s: %d, %s", p->name, policy, r, text);
    ok(cu.cuMemcpyDtoH_v2(d, dd, p->m * p->n * 4));
    for (unsigned i = 0; i < p->m * p->n; i++) {
        int sum = 0;
        for (unsigned k = 0; k < K; k++)
            sum += a_at(i / p->n, k) * b_at(i % p->n, k);
        ck_assert_msg(d[i] == (float)sum, "%s, %s: element %u is %g, not %d", p->name, policy, i,
                      (double)d[i], sum);
    }
    ok(cu.cuMemFree_v2(da));
    ok(cu.cuMemFree_v2(db));
    ok(cu.cuMemFree_v2(dd));
}

/* The PTX of the folder, then fresh PTX. */
START_TEST(products_are_exact)
{
    static const char *const policies[] = {"eager", "late", "random:1", "random:2"};
    const struct product *p = &products[_i];
    char path[400];
    ck_assert_int_eq(cu.configure("arch", p->arch), 0);
    CUfunction f = load(shipped_path(p->name, path, sizeof path), p->name);
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++)
        multiply(p, f, policies[i]);
    ck_assert_int_eq(cu.configure("check", "race"), 0);
    multiply(p, f, "late");
    if (!compile(p->name, path, sizeof path)) {
        fprintf(stderr, "no nvcc: only the PTX of the folder is run\n");
        return;
    }
    f = load(path, p->name);
    unlink(path);
    multiply(p, f, "late");
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("emu_cuda");
    TCase *t = tcase_create("shipped");
    tcase_add_checked_fixture(t, driver_open, NULL);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, shipped_ptx, 0, N_ROWS);
    tcase_add_loop_test(t, shipped_ptx_has_no_race, 0, N_ROWS);
    tcase_add_test(t, printf_goes_to_stdout);
    tcase_add_test(t, assertion_sticks);
    tcase_add_test(t, tensor_map_as_a_parameter);
    suite_add_tcase(s, t);
    t = tcase_create("fresh");
    tcase_add_checked_fixture(t, driver_open, NULL);
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, fresh_ptx, 0, N_BUILDS);
    tcase_add_loop_test(t, products_are_exact, 0, N_PRODUCTS);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
