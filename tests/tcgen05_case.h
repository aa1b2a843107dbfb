#ifndef PL_TESTS_TCGEN05_CASE_H
#define PL_TESTS_TCGEN05_CASE_H
/*
 * Bodies that multiply on sm_100, and the cases in which they are run and assembled: element types, sizes, swizzles, majors, places of
 * A; then a persistent kernel of three roles, by one CTA and by pairs.
 */
#include "tests/operand_tiles.h"
#include "tests/plan_data.h"

/* ---- one CTA, step by step ---- */

enum { BY_THREADS = 1, BY_COPY }; /* how A comes into tensor memory */

struct mm_params {
    int32_t m, n, k;                  /* of a step */
    int32_t a_swizzle, b_swizzle;     /* -1: left to the plan */
    int32_t a_is_across, b_is_across; /* K is the row axis of the SMEM array */
    int32_t n_steps, acc;
    int32_t starts_at_5, is_a_in_tmem, n_warpgroups;
};

static void mm_body(pl_builder *b, const void *params)
{
    const struct mm_params *p = params;
    pl_block_warpgroups(b, p->n_warpgroups);
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1), z = pl_param(b, 2);
    const pl_dtype t = pl_dtype_of(b, x);
    struct tile a = make_tile(b, x, (struct tile_form){p->m, p->k, p->a_swizzle, p->a_is_across}),
                bt = make_tile(b, y, (struct tile_form){p->n, p->k, p->b_swizzle, p->b_is_across});
    pl_bar full = pl_barrier(b, 2), done = pl_barrier(b, 1);
    pl_ref acc = pl_tmem(b, (pl_dtype)p->acc, PL_SHAPE(p->m, p->n), 0), a_tmem = {0};
    if (p->is_a_in_tmem)
        a_tmem = pl_tmem(b, t, PL_SHAPE(p->m, p->k), 0);
    if (p->starts_at_5) {
        pl_async_store_tmem(b, acc, pl_cast(b, 5, (pl_dtype)p->acc));
        pl_commit_tmem(b);
    }
    PL_FOR(b, step, 0, p->n_steps)
    {
        pl_val slot = pl_rem(b, step, 2);
        fill_tile(b, &a, step, slot, full);
        fill_tile(b, &bt, step, slot, full);
        pl_barrier_wait(b, full);
        pl_ref as = tile_rows(b, &a, slot, pl_lit_i(b, 0), p->m);
        if (p->is_a_in_tmem == BY_THREADS) {
            pl_async_store_tmem(b, a_tmem, pl_load(b, as));
            pl_commit_tmem(b);
        } else if (p->is_a_in_tmem == BY_COPY) { /* in order with the products */
            pl_copy_smem_to_tmem(b, as, a_tmem);
        }
        const pl_mma_opt o = {.accumulate = p->starts_at_5 ? pl_val_none() : pl_gt(b, step, 0)};
        pl_tcgen05_mma(b, acc, p->is_a_in_tmem ? a_tmem : as, tile_columns(b, &bt, slot), &o);
        pl_tcgen05_commit(b, done);
        pl_barrier_wait(b, done);
    }
    const int width = p->n % 64 == 0 ? 64 : p->n; /* what registers hold at a time */
    for (int i = 0; i < p->n / width; i++) {
        const pl_shape s = PL_SHAPE(p->m, width);
        PL_IF(b, pl_eq(b, pl_warpgroup_id(b), i % p->n_warpgroups)) /* one of them */
        {
            pl_val v = pl_async_load_tmem(b, pl_tile(b, acc, PL_OFF(b, 0, i), s));
            pl_store(b, pl_tile(b, z, PL_OFF(b, 0, i), s), pl_cast(b, v, pl_dtype_of(b, z)));
        }
    }
}
TENSORS(mm, 2, 1);

struct mm_case {
    pl_dtype a, b, out;
    struct mm_params p;
};

/* {m, n, k}, swizzles, across, steps, accumulator, starts at 5, A in tensor memory, warpgroups */
static const struct mm_case mm_cases[] = {
    {PL_BF16, PL_BF16, PL_F32, {128, 64, 64, 128, 128, 0, 0, 3, PL_F32, 0, 0, 1}},
    {PL_F16, PL_F16, PL_F32, {128, 256, 32, 64, 64, 0, 0, 2, PL_F32, 1, 0, 1}},
    {PL_F16, PL_F16, PL_F16, {128, 24, 16, 32, 32, 0, 0, 2, PL_F16, 0, 0, 1}},
    {PL_BF16, PL_BF16, PL_F32, {64, 72, 48, 32, 32, 0, 0, 2, PL_F32, 0, 0, 1}},
    {PL_BF16, PL_BF16, PL_F32, {128, 64, 64, 128, 128, 1, 0, 2, PL_F32, 0, 0, 1}},
    {PL_BF16, PL_BF16, PL_F32, {64, 64, 64, 128, 128, 0, 1, 2, PL_F32, 0, 0, 1}},
    {PL_F16, PL_F16, PL_F32, {128, 128, 32, 128, 128, 1, 1, 2, PL_F32, 0, 0, 2}},
    {PL_F16, PL_F16, PL_F32, {128, 96, 32, 64, 64, 1, 1, 2, PL_F32, 0, 0, 1}},
    {PL_BF16, PL_BF16, PL_F32, {64, 48, 80, 32, 32, 1, 1, 2, PL_F32, 0, 0, 1}},
    {PL_BF16, PL_BF16, PL_F32, {128, 40, 64, -1, -1, 0, 0, 2, PL_F32, 0, 0, 1}},
    {PL_BF16, PL_BF16, PL_F32, {128, 64, 16, -1, -1, 1, 1, 2, PL_F32, 0, 0, 1}},
    {PL_BF16, PL_BF16, PL_F32, {128, 64, 64, 128, 64, 0, 0, 2, PL_F32, 0, 0, 1}},
    {PL_TF32, PL_TF32, PL_F32, {128, 24, 32, 128, 128, 0, 0, 2, PL_F32, 0, 0, 1}},
    {PL_F32, PL_F32, PL_F32, {64, 64, 40, 32, 32, 0, 0, 2, PL_F32, 0, 0, 1}},
    {PL_TF32, PL_TF32, PL_F32, {128, 64, 32, 128, 128, 1, 1, 2, PL_F32, 0, 0, 1}},
    {PL_F32, PL_F32, PL_F32, {64, 96, 16, -1, 128, 0, 1, 2, PL_F32, 0, 0, 1}},
    {PL_F32, PL_F32, PL_F32, {128, 32, 48, 128, -1, 1, 0, 2, PL_F32, 1, 0, 1}},
    {PL_TF32, PL_TF32, PL_F32, {128, 128, 32, 128, 128, 0, 1, 2, PL_F32, 0, BY_THREADS, 1}},
    {PL_E4M3, PL_E4M3, PL_F32, {128, 104, 128, 128, 128, 0, 0, 2, PL_F32, 0, 0, 1}},
    {PL_E5M2, PL_E4M3, PL_F32, {64, 16, 64, 64, 64, 0, 0, 2, PL_F32, 0, 0, 1}},
    {PL_E4M3, PL_E5M2, PL_F16, {128, 32, 32, 32, 32, 0, 0, 1, PL_F16, 0, 0, 1}},
    {PL_E4M3, PL_E4M3, PL_F32, {128, 128, 64, 128, 128, 1, 1, 2, PL_F32, 0, 0, 1}},
    {PL_E5M2, PL_E5M2, PL_F32, {64, 64, 32, 64, 64, 1, 1, 2, PL_F32, 0, 0, 1}},
    {PL_E4M3, PL_E4M3, PL_F32, {128, 32, 32, 32, 32, 1, 1, 2, PL_F32, 0, 0, 1}},
    {PL_I8, PL_I8, PL_I32, {128, 64, 64, 64, 64, 0, 0, 3, PL_I32, 1, 0, 1}},
    {PL_U8, PL_I8, PL_I32, {64, 32, 128, 128, 128, 0, 0, 2, PL_I32, 0, 0, 1}},
    {PL_I8, PL_I8, PL_I32, {128, 128, 32, 128, 128, 1, 1, 2, PL_I32, 0, 0, 1}},
    {PL_BF16, PL_BF16, PL_F32, {128, 64, 64, 128, 128, 0, 0, 3, PL_F32, 0, 1, 1}},
    {PL_F16, PL_F16, PL_F32, {128, 32, 32, 64, 64, 0, 0, 2, PL_F32, 1, 1, 1}},
    {PL_BF16, PL_BF16, PL_F32, {64, 32, 32, 64, 64, 0, 0, 2, PL_F32, 0, 1, 1}},
    {PL_TF32, PL_TF32, PL_F32, {128, 32, 16, 64, 64, 0, 0, 2, PL_F32, 0, 1, 1}},
    {PL_E4M3, PL_E4M3, PL_F32, {128, 16, 64, 64, 64, 0, 0, 2, PL_F32, 0, 1, 1}},
    {PL_I8, PL_I8, PL_I32, {128, 16, 32, 32, 32, 0, 0, 2, PL_I32, 0, 1, 1}},
    {PL_BF16, PL_BF16, PL_F32, {128, 64, 64, 128, 128, 0, 0, 3, PL_F32, 0, BY_COPY, 1}},
    {PL_F16, PL_F16, PL_F32, {128, 32, 128, 64, 64, 0, 1, 2, PL_F32, 0, BY_COPY, 1}},
    {PL_TF32, PL_TF32, PL_F32, {128, 32, 16, 64, 64, 0, 0, 2, PL_F32, 1, BY_COPY, 1}},
    {PL_E4M3, PL_E5M2, PL_F32, {128, 16, 64, 32, 64, 0, 0, 2, PL_F32, 0, BY_COPY, 1}},
};

/* ---- pipes and pairs: a persistent kernel of three roles ---- */

struct tiles_params {
    int32_t tile_m, tile_n, tile_k; /* of a CTA: a pair multiplies 2 tile_m x tile_n */
    int32_t stages, slots, epi_n, is_pair, width;
};

struct tiles {
    const struct tiles_params *p;
    pl_ref x, y, z, x_s, y_s, z_s, acc;
    pl_pipe operands, sums;
    pl_val m_tiles, n_tiles, k_tiles, rank;
    pl_sched sched;
    int pair_m, pair_n;
};

static void load_role(pl_builder *b, const struct tiles *t)
{
    const struct tiles_params *p = t->p;
    const pl_copy_opt rows = {.pair_axis_plus1 = p->is_pair ? 1 : 0},
                      cols = {.pair_axis_plus1 = p->is_pair ? 2 : 0};
    pl_val mi, ni;
    PL_TILES(b, i, t->sched)
    {
        pl_snake(b, i, t->m_tiles, t->n_tiles, 0, p->width, &mi, &ni);
        PL_FOR(b, k, 0, t->k_tiles)
        {
            PL_PRODUCE(b, t->operands, s)
            {
                pl_copy_gmem_to_smem_ex(
                    b, pl_tile(b, t->x, PL_OFF(b, mi, k), PL_SHAPE(t->pair_m, p->tile_k)),
                    pl_at(b, t->x_s, s), pl_full_now(b), &rows);
                pl_copy_gmem_to_smem_ex(
                    b, pl_tile(b, t->y, PL_OFF(b, k, ni), PL_SHAPE(p->tile_k, t->pair_n)),
                    pl_at(b, t->y_s, s), pl_full_now(b), &cols);
            }
        }
    }
}

static void multiply(pl_builder *b, const struct tiles *t)
{
    PL_TILES(b, i, t->sched)
    {
        PL_PRODUCE(b, t->sums, c)
        {
            PL_FOR(b, k, 0, t->k_tiles)
            {
                PL_CONSUME(b, t->operands, s)
                {
                    const pl_mma_opt o = {.accumulate = pl_gt(b, k, 0), .is_pair = t->p->is_pair};
                    pl_tcgen05_mma(b, pl_at(b, t->acc, c), pl_at(b, t->x_s, s), pl_at(b, t->y_s, s),
                                   &o);
                }
            }
        }
    }
}

static void store_role(pl_builder *b, const struct tiles *t)
{
    const struct tiles_params *p = t->p;
    pl_val mi, ni;
    PL_TILES(b, i, t->sched)
    {
        pl_snake(b, i, t->m_tiles, t->n_tiles, 0, p->width, &mi, &ni);
        pl_val row = p->is_pair ? pl_add(b, pl_mul(b, mi, 2), t->rank) : mi;
        pl_ref to = pl_tile(b, t->z, PL_OFF(b, row, ni), PL_SHAPE(p->tile_m, t->pair_n));
        PL_CONSUME(b, t->sums, c)
        {
            for (int e = 0; e < t->pair_n / p->epi_n; e++) {
                const pl_shape s = PL_SHAPE(p->tile_m, p->epi_n);
                pl_ref stage = pl_at(b, t->z_s, e % 2);
                pl_wait_smem_to_gmem_read(b, 1);
                pl_val v =
                    pl_async_load_tmem(b, pl_tile(b, pl_at(b, t->acc, c), PL_OFF(b, 0, e), s));
                pl_store(b, stage, pl_cast(b, v, pl_dtype_of(b, t->z)));
                pl_commit_smem(b);
                pl_copy_smem_to_gmem(b, stage, pl_tile(b, to, PL_OFF(b, 0, e), s));
            }
            pl_wait_load_tmem(b);
        }
    }
    pl_wait_smem_to_gmem(b, 0);
}

static void tiled_body(pl_builder *b, const void *params)
{
    const struct tiles_params *p = params;
    const int n_ctas = p->is_pair ? 2 : 1;
    pl_block_warpgroups(b, 2);
    if (p->is_pair)
        pl_block_cluster(b, 2, 1, 1);
    struct tiles t = {.p = p,
                      .x = pl_param(b, 0),
                      .y = pl_param(b, 1),
                      .z = pl_param(b, 2),
                      .pair_m = n_ctas * p->tile_m,
                      .pair_n = p->tile_n};
    const pl_dtype dt = pl_dtype_of(b, t.x), out = pl_dtype_of(b, t.z);
    const int own_n = p->tile_n / n_ctas;
    t.x_s = pl_smem(b, dt, PL_SHAPE(p->stages, p->tile_m, p->tile_k),
                    pl_mma_transforms(b, dt, p->tile_k));
    t.y_s = pl_smem(b, dt, PL_SHAPE(p->stages, p->tile_k, own_n), pl_mma_transforms(b, dt, own_n));
    t.z_s = pl_smem(b, out, PL_SHAPE(2, p->tile_m, p->epi_n), pl_mma_transforms(b, out, p->epi_n));
    t.acc = pl_tmem(b, PL_F32, PL_SHAPE(p->slots, p->tile_m, p->tile_n), p->is_pair);
    const pl_pipe_desc operands = {.stages = p->stages,
                                   .producer = PL_BY_COPIES,
                                   .consumer = PL_BY_MMA,
                                   .full_at = PL_LEADER},
                       sums = {.stages = p->slots,
                               .producer = PL_BY_MMA,
                               .consumer = PL_BY_THREADS,
                               .empty_at = PL_LEADER};
    t.operands = pl_pipe_make(b, &operands);
    t.sums = pl_pipe_make(b, &sums);
    t.m_tiles = pl_cdiv(b, pl_dim(b, t.x, 0), t.pair_m);
    t.n_tiles = pl_cdiv(b, pl_dim(b, t.y, 1), t.pair_n);
    t.k_tiles = pl_cdiv(b, pl_dim(b, t.x, 1), p->tile_k);
    t.rank = pl_cluster_rank(b);
    t.sched = pl_sched_static(b, pl_mul(b, t.m_tiles, t.n_tiles));
    PL_WARP(b, 0, 0) { load_role(b, &t); }
    PL_WARP(b, 0, 1)
    {
        PL_IF(b, pl_eq(b, t.rank, 0)) { multiply(b, &t); }
    }
    PL_WARPGROUP(b, 1) { store_role(b, &t); }
}
TENSORS(tiled, 2, 1);

struct tiles_case {
    pl_dtype t;
    int64_t m, n, k;
    uint32_t n_blocks;
    struct tiles_params p;
};

/* m, n, k, blocks; {tile_m, tile_n, tile_k, stages, slots, epi_n, pair, width} */
static const struct tiles_case tiles_cases[] = {
    {PL_BF16, 200, 120, 160, 2, {128, 64, 64, 2, 2, 32, 0, 2}},
    {PL_F16, 128, 256, 64, 1, {128, 128, 32, 3, 2, 64, 0, 1}},
    {PL_BF16, 300, 96, 128, 1, {64, 32, 64, 2, 1, 16, 0, 4}},
    {PL_BF16, 500, 136, 192, 2, {128, 64, 64, 2, 2, 32, 1, 2}},
    {PL_F16, 256, 256, 64, 4, {128, 128, 32, 3, 2, 64, 1, 1}},
    {PL_E4M3, 256, 512, 256, 2, {128, 256, 128, 2, 1, 64, 1, 2}},
};

/* ---- block-scaled products ---- */

/* Scales (rows, columns) of e8m0 lie in GMEM and SMEM as (rows / 128, columns / 4, 32, 16): pl_copy_scales_to_tmem. */
struct scaled_params {
    int32_t n, k, n_steps, is_pair, a_swizzle, b_swizzle;
    int32_t scale, block; /* type of the scales, elements of K for each */
};

static pl_ref scale_slots(pl_builder *b, const struct scaled_params *p, int32_t rows)
{
    return pl_smem(b, (pl_dtype)p->scale, PL_SHAPE(rows / 128, p->k / p->block / 4, 32, 16),
                   PL_SWIZZLE_NONE);
}

static void bring_scales(pl_builder *b, pl_ref gmem, pl_ref to, pl_offs at, pl_bar bar)
{
    const pl_shape s = PL_SHAPE(pl_dim_const(b, to, 0), pl_dim_const(b, to, 1), 32, 16);
    pl_copy_gmem_to_smem(b, pl_tile(b, gmem, at, s), to, bar);
}

static void scaled_body(pl_builder *b, const void *params)
{
    const struct scaled_params *p = params;
    const int n_ctas = p->is_pair ? 2 : 1, own_n = p->n / n_ctas,
              n_scaled = (p->n + 127) / 128 * 128;
    if (p->is_pair)
        pl_block_cluster(b, 2, 1, 1);
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1), z = pl_param(b, 4);
    const pl_dtype xt = pl_dtype_of(b, x), yt = pl_dtype_of(b, y);
    pl_ref xs = pl_smem(b, xt, PL_SHAPE(128, p->k), operand_transforms(xt, p->a_swizzle)),
           ys = pl_smem(b, yt, PL_SHAPE(own_n, p->k), operand_transforms(yt, p->b_swizzle));
    pl_ref x_scales = scale_slots(b, p, 128), y_scales = scale_slots(b, p, n_scaled);
    pl_ref acc = pl_tmem(b, PL_F32, PL_SHAPE(128, p->n), p->is_pair),
           x_sc = pl_tmem(b, (pl_dtype)p->scale, PL_SHAPE(128, p->k / p->block), p->is_pair),
           y_sc = pl_tmem(b, (pl_dtype)p->scale, PL_SHAPE(n_scaled, p->k / p->block), p->is_pair);
    pl_bar full = pl_barrier(b, 4), done = pl_barrier(b, 1);
    pl_val rank = p->is_pair ? pl_cluster_rank(b) : pl_lit_i(b, 0);
    PL_FOR(b, i, 0, p->n_steps)
    {
        pl_copy_gmem_to_smem(b, pl_tile(b, x, PL_OFF(b, rank, i), PL_SHAPE(128, p->k)), xs, full);
        pl_copy_gmem_to_smem(b, pl_tile(b, y, PL_OFF(b, rank, i), PL_SHAPE(own_n, p->k)), ys, full);
        bring_scales(b, pl_param(b, 2), x_scales, PL_OFF(b, rank, i, 0, 0), full);
        bring_scales(b, pl_param(b, 3), y_scales, PL_OFF(b, 0, i, 0, 0), full);
        pl_barrier_wait(b, full);
        if (p->is_pair)
            pl_cluster_sync(b); /* both CTAs have theirs */
        const pl_mma_opt o = {.accumulate = pl_gt(b, i, 0),
                              .is_pair = p->is_pair,
                              .a_scale = x_sc,
                              .b_scale = y_sc,
                              .scale_block = p->block};
        PL_IF(b, pl_eq(b, rank, 0))
        {
            pl_copy_scales_to_tmem(b, x_scales, x_sc);
            pl_copy_scales_to_tmem(b, y_scales, y_sc);
            pl_tcgen05_mma(b, acc, xs, pl_transpose(b, ys), &o);
            pl_tcgen05_commit(b, done);
        }
        pl_barrier_wait(b, done);
    }
    for (int c = 0; c < p->n / 32; c++) {
        const pl_shape s = PL_SHAPE(128, 32);
        pl_store(b, pl_tile(b, z, PL_OFF(b, rank, c), s),
                 pl_async_load_tmem(b, pl_tile(b, acc, PL_OFF(b, 0, c), s)));
    }
}

#define SCALED_OPERAND(name_, role_)                                                               \
    {                                                                                              \
        .name = name_, .role = role_, .min_rank = 2, .max_rank = 4, .dtypes = PL_DT_ANY            \
    }
static const pl_param_decl scaled_params[] = {
    SCALED_OPERAND("x", PL_ROLE_IN), SCALED_OPERAND("y", PL_ROLE_IN),
    SCALED_OPERAND("x_scales", PL_ROLE_IN), SCALED_OPERAND("y_scales", PL_ROLE_IN),
    SCALED_OPERAND("z", PL_ROLE_OUT)};
static const pl_kernel scaled = {.struct_size = sizeof(pl_kernel),
                                 .name = "scaled",
                                 .params = scaled_params,
                                 .n_params = 5,
                                 .params_bytes = sizeof(struct scaled_params),
                                 .n_configs = 1,
                                 .body = scaled_body};

struct scaled_case {
    pl_dtype a, b;
    struct scaled_params p;
};

/* {n, k, steps, pair, swizzles, type of the scales, block} */
static const struct scaled_case scaled_cases[] = {
    {PL_E4M3, PL_E4M3, {64, 128, 2, 0, 128, 128, PL_E8M0, 32}},
    {PL_E5M2, PL_E4M3, {256, 128, 1, 0, 64, 128, PL_E8M0, 32}},
    {PL_E4M3, PL_E5M2, {96, 256, 2, 0, 128, 64, PL_E8M0, 32}},
    {PL_E4M3, PL_E4M3, {128, 128, 2, 1, 128, 128, PL_E8M0, 32}},
    {PL_E5M2, PL_E5M2, {256, 256, 1, 1, 128, 128, PL_E8M0, 32}},
    {PL_E2M1, PL_E2M1, {128, 256, 2, 0, 128, 128, PL_E8M0, 32}},
    {PL_E2M1, PL_E2M1, {64, 128, 2, 0, 64, 64, PL_E8M0, 32}},
    {PL_E2M1, PL_E2M1, {256, 256, 1, 0, 128, 64, PL_E4M3, 16}},
    {PL_E2M1, PL_E2M1, {96, 512, 1, 0, 128, 128, PL_E8M0, 16}},
    {PL_E2M1, PL_E2M1, {128, 256, 2, 1, 128, 128, PL_E4M3, 16}},
};
#endif
