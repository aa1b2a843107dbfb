/*
 * Attention: o = softmax(q k^T / sqrt(d)) v for each head, with no matrix of scores in memory. A block takes 64 queries of a head and
 * walks over the keys; what it has summed up so far is shrunk whenever a step brings a larger score. One body for two kinds of tensor
 * core: wgmma where the chip has it, mma.sync elsewhere. Build it against an installed plaunch:
 *
 *   cc attention.c $(pkg-config --cflags --libs plaunch) -lm -o attention && ./attention
 */
#include <plaunch.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { QUERIES = 64, KEYS = 64, STAGES = 2 }; /* of a block; of a step */
enum arg { Q, K, V, O, N_ARGS }; /* (heads, n_queries, d), (heads, n_keys, d) twice, as q */

struct keys {
    pl_ref k, v, k_slots, v_slots;
    pl_shape s; /* of a slot: (KEYS, d) */
};

static void copy_keys(pl_builder *b, pl_val step, pl_val slot, pl_bar full, void *user)
{
    const struct keys *t = user;
    pl_copy_gmem_to_smem(b, pl_tile(b, t->k, PL_OFF(b, step, 0), t->s), pl_at(b, t->k_slots, slot),
                         full);
    pl_copy_gmem_to_smem(b, pl_tile(b, t->v, PL_OFF(b, step, 0), t->s), pl_at(b, t->v_slots, slot),
                         full);
}

/* x y + c. acc: where wgmma adds up. */
static pl_val multiply(pl_builder *b, pl_ref acc, pl_val x, pl_ref y, pl_val c)
{
    if (pl_arch(b) != 90)
        return pl_mma(b, x, pl_load(b, y), c);
    pl_acc_init(b, acc, c);
    pl_wgmma_val(b, acc, x, y);
    return pl_acc_load(b, acc);
}

/* Scores as powers of 2; those of keys past the last one are no keys at all. */
static pl_val scale_and_mask(pl_builder *b, pl_val scores, int64_t d, pl_val step, pl_val n_keys)
{
    const float log2_e = 1.44269504f;
    pl_val first = pl_cast(b, pl_mul(b, step, KEYS), PL_I32),
           key = pl_add(b, pl_iota(b, PL_I32, PL_SHAPE(QUERIES, KEYS), 1), first);
    scores = pl_mul(b, scores, log2_e / sqrtf((float)d));
    return pl_select(b, pl_lt(b, key, pl_cast(b, n_keys, PL_I32)), scores, -INFINITY);
}

static void attention_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_val head = pl_program_id(b, 1), block = pl_program_id(b, 0);
    pl_ref q = pl_at(b, pl_param(b, Q), head), o = pl_at(b, pl_param(b, O), head);
    const pl_dtype t = pl_dtype_of(b, q);
    const int64_t d = pl_dim_const(b, q, 1);
    const pl_shape rows = PL_SHAPE(QUERIES), values = PL_SHAPE(QUERIES, d);
    const pl_scope unit = PL_SCOPE_WARPGROUP;
    struct keys keys = {.k = pl_at(b, pl_param(b, K), head),
                        .v = pl_at(b, pl_param(b, V), head),
                        .k_slots = pl_smem(b, t, PL_SHAPE(STAGES, KEYS, d), PL_SWIZZLE_AUTO),
                        .v_slots = pl_smem(b, t, PL_SHAPE(STAGES, KEYS, d), PL_SWIZZLE_AUTO),
                        .s = PL_SHAPE(KEYS, d)};
    pl_ref q_tile = pl_smem(b, t, values, PL_SWIZZLE_AUTO), score_acc = {0}, sum_acc = {0};
    if (pl_arch(b) == 90) {
        score_acc = pl_acc(b, PL_F32, PL_SHAPE(QUERIES, KEYS));
        sum_acc = pl_acc(b, PL_F32, values);
    }
    pl_ref sum = pl_regs(b, PL_F32, values, pl_layout_auto(), 0.0f),
           most = pl_regs(b, PL_F32, rows, pl_layout_auto(), -INFINITY),
           weight = pl_regs(b, PL_F32, rows, pl_layout_auto(), 0.0f);
    pl_bar has_q = pl_barrier(b, 1);
    pl_copy_gmem_to_smem(b, pl_tile(b, q, PL_OFF(b, block, 0), values), q_tile, has_q);
    pl_barrier_wait(b, has_q);

    pl_val queries = pl_load(b, q_tile), n_keys = pl_dim(b, keys.k, 0);
    const pl_pipeline_desc d_keys = {
        .stages = STAGES, .n_copies = 2, .copies = copy_keys, .user = &keys};
    PL_PIPELINE(b, step, slot, pl_cdiv(b, n_keys, KEYS), &d_keys)
    {
        pl_val s = multiply(b, score_acc, queries, pl_transpose(b, pl_at(b, keys.k_slots, slot)),
                            pl_lit_f(b, 0));
        s = scale_and_mask(b, s, d, step, n_keys);
        pl_val before = pl_load(b, most), now = pl_max(b, before, pl_reduce(b, PL_MAX, s, 1, unit)),
               shrink = pl_exp2(b, pl_sub(b, before, now)),
               p = pl_exp2(b, pl_sub(b, s, pl_broadcast(b, now, 1, KEYS)));
        pl_store(b, most, now);
        pl_store(b, weight,
                 pl_fma(b, pl_load(b, weight), shrink, pl_reduce(b, PL_ADD, p, 1, unit)));
        pl_val so_far = pl_mul(b, pl_load(b, sum), pl_broadcast(b, shrink, 1, d));
        pl_store(b, sum,
                 multiply(b, sum_acc, pl_cast(b, p, t), pl_at(b, keys.v_slots, slot), so_far));
    }
    pl_val mean = pl_div(b, pl_load(b, sum), pl_broadcast(b, pl_load(b, weight), 1, d));
    pl_store(b, pl_tile(b, o, PL_OFF(b, block, 0), values), pl_cast(b, mean, t));
}

static void a_block_for_64_queries(const pl_request *request, const void *params,
                                   pl_launch_dims *out)
{
    const int64_t *s = request->args[Q].u.tensor.shape;
    (void)params;
    *out = (pl_launch_dims){{(s[1] + QUERIES - 1) / QUERIES, s[0], 1}};
}

/* d is a number of the code: a variant each. */
#define TENSOR(name_, role_)                                                                       \
    {                                                                                              \
        .name = name_, .role = role_, .min_rank = 3, .max_rank = 3,                                \
        .dtypes = PL_DT(BF16) | PL_DT(F16), .baked_dims = 1 << 2,                                  \
        .specialised = PL_FACT_ALIGN16 | PL_FACT_UNIT_STRIDE | PL_FACT_I32                         \
    }
static const pl_param_decl attention_params[N_ARGS] = {
    TENSOR("q", PL_ROLE_IN), TENSOR("k", PL_ROLE_IN), TENSOR("v", PL_ROLE_IN),
    TENSOR("o", PL_ROLE_OUT)};

static const pl_kernel attention = {
    .struct_size = sizeof(pl_kernel),
    .name = "my_attention",
    .params = attention_params,
    .n_params = N_ARGS,
    .n_configs = 1,
    .body = attention_body,
    .launch_dims = a_block_for_64_queries,
};

/* ---- a run, and the same in double ---- */

enum { HEADS = 3, N_QUERIES = 150, N_KEYS = 200, D = 64 };
static const int n_rows[N_ARGS] = {N_QUERIES, N_KEYS, N_KEYS, N_QUERIES};

struct run {
    uint16_t *host[N_ARGS]; /* bf16: the upper half of a float */
    uint64_t device[N_ARGS];
};

static double value(uint16_t bf16)
{
    const uint32_t bits = (uint32_t)bf16 << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

/* Between -1 and 1. */
static uint16_t random_value(void)
{
    const float f = (float)rand() / (float)RAND_MAX * 2 - 1;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static pl_status launch(struct run *r, pl_context *ctx, pl_error *err)
{
    pl_arg args[N_ARGS];
    pl_status st = PL_OK;
    for (int i = 0; i < N_ARGS && st == PL_OK; i++) {
        const size_t n_bytes = sizeof(uint16_t) * HEADS * D * (size_t)n_rows[i];
        st = pl_alloc(ctx, n_bytes, &r->device[i], err);
        if (st == PL_OK)
            st = pl_upload(ctx, r->device[i], r->host[i], n_bytes, err);
        args[i] =
            pl_arg_tensor(pl_tensor_make(r->device[i], PL_BF16, PL_SHAPE(HEADS, n_rows[i], D)));
    }
    if (st == PL_OK)
        st = pl_launch(ctx, &attention, NULL, args, N_ARGS, NULL, err);
    if (st == PL_OK)
        st = pl_download(ctx, r->host[O], r->device[O],
                         sizeof(uint16_t) * HEADS * D * (size_t)n_rows[O], err);
    for (int i = 0; i < N_ARGS; i++)
        if (r->device[i] != 0 && pl_free(ctx, r->device[i], NULL) != PL_OK)
            return PL_E_DRIVER;
    return st;
}

/* The largest error of a row's values. */
static double error_of_row(const struct run *r, int head, int row)
{
    const uint16_t *q = r->host[Q] + (head * N_QUERIES + row) * D,
                   *o = r->host[O] + (head * N_QUERIES + row) * D,
                   *k = r->host[K] + head * N_KEYS * D, *v = r->host[V] + head * N_KEYS * D;
    double p[N_KEYS], total = 0, worst = 0;
    for (int j = 0; j < N_KEYS; j++) {
        double s = 0;
        for (int c = 0; c < D; c++)
            s += value(q[c]) * value(k[j * D + c]);
        total += p[j] = exp(s / sqrt(D));
    }
    for (int c = 0; c < D; c++) {
        double sum = 0;
        for (int j = 0; j < N_KEYS; j++)
            sum += p[j] * value(v[j * D + c]);
        worst = fmax(worst, fabs(sum / total - value(o[c])));
    }
    return worst;
}

/* The weights and the results are each rounded to 8 bits, and no value is above 1; what is in float counts for little beside that. */
static const double bound = 2 * 0x1p-9 + 0x1p-14;

int main(void)
{
    const unsigned seed = (unsigned)time(NULL);
    pl_context *ctx = NULL;
    pl_error err = {0};
    struct run r = {0};
    int status = 1;
    srand(seed);
    for (int i = 0; i < N_ARGS; i++) {
        const int n = HEADS * D * n_rows[i];
        r.host[i] = malloc(sizeof(uint16_t) * (size_t)n);
        if (r.host[i] == NULL)
            return 1;
        for (int j = 0; j < n; j++)
            r.host[i][j] = random_value();
    }
    if (pl_context_create(&ctx, NULL, &err) != PL_OK || launch(&r, ctx, &err) != PL_OK) {
        fprintf(stderr, "%s\n", err.text);
    } else {
        double worst = 0;
        for (int i = 0; i < HEADS * N_QUERIES; i++)
            worst = fmax(worst, error_of_row(&r, i / N_QUERIES, i % N_QUERIES));
        status = !(worst <= bound);
        printf("%d heads of %d queries and %d keys on %s: largest error %.2g of %.2g (seed %u)\n",
               HEADS, N_QUERIES, N_KEYS, pl_context_info(ctx).device_name, worst, bound, seed);
    }
    pl_context_destroy(ctx);
    for (int i = 0; i < N_ARGS; i++)
        free(r.host[i]);
    return status;
}
