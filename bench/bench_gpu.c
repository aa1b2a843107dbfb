/*
 * Floating-point operations a second of matmul on the GPU, beside cuBLAS where it is found, for large bf16 products in this run. Where
 * there is no GPU: nothing, and the note says so. Source: cuBLAS documentation, cublasGemmEx; its enumerators are those of
 * library_types.h and cublas_api.h.
 */
#include "base/os.h"
#include "bench/bench.h"

#include <plaunch.h>

#include <stdio.h>
#include <string.h>

enum { N_SAMPLES = 5, N_LAUNCHES = 20, R_16BF = 14, COMPUTE_32F = 68, OP_N = 0 };

struct cublas {
    int (*create)(void **);
    int (*destroy)(void *);
    int (*gemm)(void *, int, int, int, int, int, const void *, const void *, int, int, const void *,
                int, int, const void *, void *, int, int, int, int);
};

static bool find_cublas(struct cublas *c)
{
    static const char *const libraries[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
    static const char *const functions[] = {"cublasCreate_v2", "cublasDestroy_v2", "cublasGemmEx"};
    void *lib = NULL;
    for (int i = 0; i < 3 && lib == NULL; i++)
        lib = pl_os_lib_open(libraries[i], NULL, 0);
    for (size_t i = 0; i < 3; i++) {
        void *f = lib == NULL ? NULL : pl_os_lib_sym(lib, functions[i]);
        if (f == NULL)
            return false;
        memcpy((char *)c + i * sizeof f, &f, sizeof f);
    }
    return true;
}

/* Square matrices of one size on the device, and how to multiply them. */
struct product {
    pl_context *ctx;
    int64_t n;
    uint64_t at[3];
    const struct cublas *cublas; /* NULL: ours */
    void *handle;
};

static bool multiply(const struct product *p)
{
    const float one = 1, zero = 0;
    const int n = (int)p->n;
    pl_arg args[3];
    if (p->cublas != NULL) /* column-major: the transposed product is the row-major one */
        return p->cublas->gemm(p->handle, OP_N, OP_N, n, n, n, &one, (const void *)p->at[1], R_16BF,
                               n, (const void *)p->at[0], R_16BF, n, &zero, (void *)p->at[2],
                               R_16BF, n, COMPUTE_32F, -1) == 0;
    for (int i = 0; i < 3; i++)
        args[i] = pl_arg_tensor(pl_tensor_make(p->at[i], PL_BF16, PL_SHAPE(p->n, p->n)));
    return pl_launch(p->ctx, &pl_kernel_matmul, NULL, args, 3, NULL, NULL) == PL_OK;
}

/* TFLOP/s of N_LAUNCHES in a row, after one that builds and warms up. */
static bool measure(struct pl_bench *b, const struct product *p, const char *who)
{
    double rate[N_SAMPLES];
    if (!multiply(p) || pl_synchronize(p->ctx, NULL) != PL_OK)
        return false;
    for (int i = 0; i < N_SAMPLES; i++) {
        const uint64_t start = pl_os_now_ns();
        for (int k = 0; k < N_LAUNCHES; k++)
            if (!multiply(p))
                return false;
        if (pl_synchronize(p->ctx, NULL) != PL_OK)
            return false;
        const double seconds = (double)(pl_os_now_ns() - start) * 1e-9;
        rate[i] = 2e-12 * (double)p->n * (double)p->n * (double)p->n * N_LAUNCHES / seconds;
    }
    pl_bench_add(b, "TFLOP/s", rate, N_SAMPLES, "gpu/matmul/bf16/%lld/%s", (long long)p->n, who);
    return true;
}

/* Zeros draw less power than numbers do, and would be measured at a higher clock: small numbers of both signs instead. */
static bool fill(const struct product *p)
{
    static uint16_t row[16384];
    const size_t n_bytes = (size_t)p->n * sizeof row[0];
    uint32_t state = 1;
    bool is_ok = true;
    for (int i = 0; i < 2; i++)
        for (int64_t r = 0; is_ok && r < p->n; r++) {
            for (int64_t k = 0; k < p->n; k++) {
                state = state * 1664525u + 1013904223u;
                row[k] = (uint16_t)(0x3f00 | (state >> 16 & 0x807f));
            }
            is_ok =
                pl_upload(p->ctx, p->at[i] + (uint64_t)r * n_bytes, row, n_bytes, NULL) == PL_OK;
        }
    return is_ok;
}

static bool run_size(struct pl_bench *b, pl_context *ctx, const struct cublas *cublas, int64_t n)
{
    struct product p = {.ctx = ctx, .n = n};
    bool is_ok = true;
    for (int i = 0; i < 3; i++)
        is_ok = is_ok && pl_alloc(ctx, (size_t)(2 * n * n), &p.at[i], NULL) == PL_OK;
    is_ok = is_ok && fill(&p) && measure(b, &p, "plaunch");
    if (is_ok && cublas != NULL && cublas->create(&p.handle) == 0) {
        p.cublas = cublas;
        is_ok = measure(b, &p, "cublas");
        cublas->destroy(p.handle);
    }
    for (int i = 0; i < 3; i++)
        if (pl_free(ctx, p.at[i], NULL) != PL_OK)
            is_ok = false;
    if (!is_ok)
        snprintf(b->note, sizeof b->note, "a product of %lld failed", (long long)n);
    return is_ok;
}

bool pl_bench_gpu(struct pl_bench *b)
{
    static const int64_t sizes[] = {2048, 4096, 8192};
    const pl_context_options options = {.struct_size = sizeof options, .driver = "cuda"};
    struct cublas cublas;
    pl_context *ctx = NULL;
    pl_error err = {0};
    bool is_ok = true;
    if (pl_context_create(&ctx, &options, &err) != PL_OK) {
        snprintf(b->note, sizeof b->note, "SKIP: no GPU: %.180s", err.text);
        return true;
    }
    const bool has_cublas = find_cublas(&cublas);
    for (size_t i = 0; is_ok && i < sizeof sizes / sizeof sizes[0]; i++)
        is_ok = run_size(b, ctx, has_cublas ? &cublas : NULL, sizes[i]);
    if (is_ok && !has_cublas)
        snprintf(b->note, sizeof b->note, "SKIP: cuBLAS was not found; no comparison");
    pl_context_destroy(ctx);
    return is_ok;
}
