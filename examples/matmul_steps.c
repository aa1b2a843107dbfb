/* What the matmul tutorials share: matmul_steps.h. */
#include "matmul_steps.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const int64_t shapes[][3] = {{128, 64, 128}, {300, 136, 200}, {520, 64, 768}}; /* m, k, n */

#define OPERAND(name_, role_, dtypes_)                                                             \
    {                                                                                              \
        .name = name_, .role = role_, .min_rank = 2, .max_rank = 2, .dtypes = dtypes_,             \
        .required = PL_FACT_ALIGN16 | PL_FACT_UNIT_STRIDE                                          \
    }
static const pl_param_decl decls[] = {OPERAND("a", PL_ROLE_IN, PL_DT(BF16)),
                                      OPERAND("b", PL_ROLE_IN, PL_DT(BF16)),
                                      OPERAND("c", PL_ROLE_OUT, PL_DT(F32))};

static const struct step *running; /* whose grid is asked for */

static void launch_dims(const pl_request *request, const void *params, pl_launch_dims *out)
{
    const pl_tensor *c = &request->args[ARG_C].u.tensor;
    (void)params;
    *out = running->dims(c->shape[0], c->shape[1], request->device->n_sms);
}

struct problem {
    int64_t m, k, n;
    uint16_t *a, *b; /* bf16: the upper halves of small whole numbers */
    float *c;
    uint64_t at[3];
};

static uint16_t small_number(int64_t i)
{
    const float v = (float)((i * 2654435761 >> 7) % 8) - 3.0f;
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static float as_float(uint16_t v)
{
    const uint32_t bits = (uint32_t)v << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static pl_status make_problem(pl_context *ctx, struct problem *p, const int64_t shape[3],
                              pl_error *err)
{
    *p = (struct problem){.m = shape[0], .k = shape[1], .n = shape[2]};
    const size_t n_a = (size_t)(p->m * p->k), n_b = (size_t)(p->k * p->n),
                 n_c = (size_t)(p->m * p->n);
    p->a = malloc(n_a * sizeof *p->a);
    p->b = malloc(n_b * sizeof *p->b);
    p->c = malloc(n_c * sizeof *p->c);
    if (p->a == NULL || p->b == NULL || p->c == NULL)
        return PL_E_NOMEM;
    for (size_t i = 0; i < n_a; i++)
        p->a[i] = small_number((int64_t)i);
    for (size_t i = 0; i < n_b; i++)
        p->b[i] = small_number((int64_t)i + 12345);
    pl_status st = pl_alloc(ctx, n_a * sizeof *p->a, &p->at[ARG_A], err);
    if (st == PL_OK)
        st = pl_alloc(ctx, n_b * sizeof *p->b, &p->at[ARG_B], err);
    if (st == PL_OK)
        st = pl_alloc(ctx, n_c * sizeof *p->c, &p->at[ARG_C], err);
    if (st == PL_OK)
        st = pl_upload(ctx, p->at[ARG_A], p->a, n_a * sizeof *p->a, err);
    return st == PL_OK ? pl_upload(ctx, p->at[ARG_B], p->b, n_b * sizeof *p->b, err) : st;
}

static void free_problem(pl_context *ctx, struct problem *p)
{
    for (int i = 0; i < 3; i++)
        if (p->at[i] != 0 && pl_free(ctx, p->at[i], NULL) != PL_OK)
            fprintf(stderr, "not freed\n");
    free(p->a);
    free(p->b);
    free(p->c);
}

/* The first wrong element, or -1. */
static int64_t first_wrong(const struct problem *p)
{
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            float sum = 0;
            for (int64_t k = 0; k < p->k; k++)
                sum += as_float(p->a[i * p->k + k]) * as_float(p->b[k * p->n + j]);
            if (p->c[i * p->n + j] != sum)
                return i * p->n + j;
        }
    return -1;
}

static double seconds(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static pl_status run_step(pl_context *ctx, struct problem *p, double *taken, pl_error *err)
{
    const pl_kernel kernel = {.struct_size = sizeof kernel,
                              .name = running->name,
                              .params = decls,
                              .n_params = 3,
                              .n_configs = 1,
                              .body = running->body,
                              .launch_dims = launch_dims};
    const size_t n_bytes = (size_t)(p->m * p->n) * sizeof *p->c;
    const pl_arg args[3] = {
        pl_arg_tensor(pl_tensor_make(p->at[ARG_A], PL_BF16, PL_SHAPE(p->m, p->k))),
        pl_arg_tensor(pl_tensor_make(p->at[ARG_B], PL_BF16, PL_SHAPE(p->k, p->n))),
        pl_arg_tensor(pl_tensor_make(p->at[ARG_C], PL_F32, PL_SHAPE(p->m, p->n)))};
    memset(p->c, 0xff, n_bytes);
    pl_status st = pl_upload(ctx, p->at[ARG_C], p->c, n_bytes, err);
    if (st == PL_OK) /* builds it */
        st = pl_launch(ctx, &kernel, NULL, args, 3, NULL, err);
    if (st == PL_OK)
        st = pl_download(ctx, p->c, p->at[ARG_C], n_bytes, err);
    const double start = seconds();
    if (st == PL_OK)
        st = pl_launch(ctx, &kernel, NULL, args, 3, NULL, err);
    if (st == PL_OK)
        st = pl_download(ctx, p->c, p->at[ARG_C], n_bytes, err);
    *taken = seconds() - start;
    return st;
}

static int run_shape(pl_context *ctx, const struct step *const *steps, int n_steps,
                     const int64_t shape[3], pl_error *err)
{
    struct problem p;
    int n_failed = 0;
    if (make_problem(ctx, &p, shape, err) != PL_OK)
        n_failed = n_steps;
    for (int i = 0; i < n_steps && n_failed < n_steps; i++) {
        double taken;
        running = steps[i];
        const pl_status st = run_step(ctx, &p, &taken, err);
        const int64_t wrong = st == PL_OK ? first_wrong(&p) : 0;
        n_failed += st != PL_OK || wrong >= 0;
        printf("%lld x %lld x %lld  %-11s %s", (long long)p.m, (long long)p.k, (long long)p.n,
               running->name,
               st != PL_OK  ? err->text
               : wrong >= 0 ? "wrong"
                            : "right");
        if (st == PL_OK && wrong < 0)
            printf("  %.3f ms", 1e3 * taken);
        putchar('\n');
    }
    free_problem(ctx, &p);
    return n_failed;
}

int run_steps(const struct step *const *steps, int n_steps, int generation)
{
    pl_context *ctx = NULL;
    pl_error err = {0};
    int n_failed = 0;
    if (pl_context_create(&ctx, NULL, &err) != PL_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    if (pl_context_info(ctx).device.arch / 10 != generation) {
        printf("SKIP: this device is not of compute capability %d\n", generation);
        pl_context_destroy(ctx);
        return 77;
    }
    printf("on %s\n", pl_context_info(ctx).device_name);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        n_failed += run_shape(ctx, steps, n_steps, shapes[i], &err);
    pl_context_destroy(ctx);
    return n_failed != 0;
}
