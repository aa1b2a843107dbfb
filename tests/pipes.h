#ifndef PL_TESTS_PIPES_H
#define PL_TESTS_PIPES_H
/*
 * Kernels that stage tiles through shared memory at the three levels of the builder: PL_PIPELINE in one role, a pipe between
 * two roles, a ring of copies out. All compute y[t] = sum over k of (k + 1) * x[t] tile k, in the order of k, by f32 fma.
 */
#include <plaunch.h>

enum { ROWS = 16, COLS = 64 };
#define TILE PL_SHAPE(ROWS, COLS)

struct pipe_params {
    int32_t stages, lag;
};

/* x (outer, rows, width), y (outer, rows, cols), steps */
static const pl_param_decl decls[] = {
    {.name = "x",
     .role = PL_ROLE_IN,
     .min_rank = 3,
     .max_rank = 3,
     .dtypes = PL_DT(F32),
     .required = PL_FACT_ALIGN16 | PL_FACT_UNIT_STRIDE | PL_FACT_I32},
    {.name = "y",
     .role = PL_ROLE_OUT,
     .min_rank = 3,
     .max_rank = 3,
     .dtypes = PL_DT(F32),
     .required = PL_FACT_ALIGN16 | PL_FACT_UNIT_STRIDE | PL_FACT_I32},
    {.name = "steps", .role = PL_ROLE_SCALAR, .dtypes = PL_DT(I32)},
};

static void one_block(const pl_request *request, const void *params, pl_launch_dims *out)
{
    (void)request, (void)params;
    *out = (pl_launch_dims){{1, 1, 1}};
}

/* sum += (k + 1) * tile */
static void accumulate(pl_builder *b, pl_ref sum, pl_ref slot, pl_val k)
{
    pl_val weight = pl_cast(b, pl_add(b, k, 1), PL_F32);
    pl_store(b, sum, pl_fma(b, pl_load(b, slot), weight, pl_load(b, sum)));
}

/* ---- level 2: PL_PIPELINE ---- */

struct staging {
    pl_ref x, buf;
};

static void load_tile(pl_builder *b, pl_val step, pl_val slot, pl_bar full, void *user)
{
    const struct staging *s = user;
    pl_copy_gmem_to_smem(b, pl_tile(b, s->x, PL_OFF(b, 0, step), TILE), pl_at(b, s->buf, slot),
                         full);
}

static void pipeline_body(pl_builder *b, const void *params)
{
    const struct pipe_params *p = params;
    pl_ref buf = pl_smem(b, PL_F32, PL_SHAPE(p->stages, ROWS, COLS), PL_SWIZZLE_AUTO);
    PL_FOR(b, t, 0, pl_dim(b, pl_param(b, 0), 0))
    {
        struct staging s = {pl_at(b, pl_param(b, 0), t), buf};
        const pl_pipeline_desc d = {
            .stages = p->stages, .lag = p->lag, .copies = load_tile, .user = &s};
        pl_ref sum = pl_regs(b, PL_F32, TILE, pl_layout_auto(), 0.0f);
        PL_PIPELINE(b, k, slot, pl_scalar(b, 2), &d) { accumulate(b, sum, pl_at(b, buf, slot), k); }
        pl_commit_smem(b); /* all have read the last slot before the next tile's copies */
        pl_store(b, pl_window(b, pl_at(b, pl_param(b, 1), t), PL_OFF(b, 0, 0), TILE),
                 pl_load(b, sum));
    }
}

/* Outside roles, by two warpgroups: the copies are the CTA's, each warpgroup sums half of the rows. */
static void halves_body(pl_builder *b, const void *params)
{
    const struct pipe_params *p = params;
    const pl_shape half = PL_SHAPE(ROWS / 2, COLS);
    pl_block_warpgroups(b, 2);
    pl_ref buf = pl_smem(b, PL_F32, PL_SHAPE(p->stages, ROWS, COLS), PL_SWIZZLE_AUTO);
    pl_val row = pl_mul(b, pl_warpgroup_id(b), ROWS / 2);
    PL_FOR(b, t, 0, pl_dim(b, pl_param(b, 0), 0))
    {
        struct staging s = {pl_at(b, pl_param(b, 0), t), buf};
        const pl_pipeline_desc d = {
            .stages = p->stages, .lag = p->lag, .copies = load_tile, .user = &s};
        pl_ref sum = pl_regs(b, PL_F32, half, pl_layout_auto(), 0.0f);
        PL_PIPELINE(b, k, slot, pl_scalar(b, 2), &d)
        {
            accumulate(b, sum, pl_window(b, pl_at(b, buf, slot), PL_OFF(b, row, 0), half), k);
        }
        pl_commit_smem(b); /* all have read the last slot before the next tile's copies */
        pl_store(b, pl_window(b, pl_at(b, pl_param(b, 1), t), PL_OFF(b, row, 0), half),
                 pl_load(b, sum));
    }
}

/* ---- level 1: a pipe between a loading warp and a computing warpgroup ---- */

static void roles_body(pl_builder *b, const void *params)
{
    const struct pipe_params *p = params;
    pl_block_warpgroups(b, 2);
    pl_ref buf = pl_smem(b, PL_F32, PL_SHAPE(p->stages, ROWS, COLS), PL_SWIZZLE_AUTO);
    const pl_pipe_desc d = {
        .stages = p->stages, .producer = PL_BY_COPIES, .consumer = PL_BY_THREADS, .lag = p->lag};
    pl_pipe pipe = pl_pipe_make(b, &d);
    pl_val n = pl_dim(b, pl_param(b, 0), 0), steps = pl_scalar(b, 2);
    PL_WARP(b, 0, 0)
    {
        PL_FOR(b, t, 0, n)
        {
            pl_ref x = pl_at(b, pl_param(b, 0), t);
            PL_FOR(b, k, 0, steps)
            {
                PL_PRODUCE(b, pipe, slot)
                {
                    pl_copy_gmem_to_smem(b, pl_tile(b, x, PL_OFF(b, 0, k), TILE),
                                         pl_at(b, buf, slot), pl_full_now(b));
                }
            }
        }
    }
    PL_WARPGROUP(b, 1)
    {
        PL_FOR(b, t, 0, n)
        {
            pl_ref sum = pl_regs(b, PL_F32, TILE, pl_layout_auto(), 0.0f);
            PL_FOR(b, k, 0, steps)
            {
                PL_CONSUME(b, pipe, slot) { accumulate(b, sum, pl_at(b, buf, slot), k); }
            }
            pl_store(b, pl_window(b, pl_at(b, pl_param(b, 1), t), PL_OFF(b, 0, 0), TILE),
                     pl_load(b, sum));
        }
    }
}

/* ---- a ring of copies out: threads fill a slot, its copy empties it ---- */

static void ring_body(pl_builder *b, const void *params)
{
    const struct pipe_params *p = params;
    pl_ref buf = pl_smem(b, PL_F32, PL_SHAPE(p->stages, ROWS, COLS), PL_SWIZZLE_AUTO);
    const pl_pipe_desc d = {
        .stages = p->stages, .producer = PL_BY_THREADS, .consumer = PL_BY_COPY_OUT, .lag = p->lag};
    pl_pipe pipe = pl_pipe_make(b, &d);
    PL_FOR(b, t, 0, pl_dim(b, pl_param(b, 0), 0))
    {
        pl_ref x = pl_at(b, pl_param(b, 0), t),
               sum = pl_regs(b, PL_F32, TILE, pl_layout_auto(), 0.0f);
        PL_FOR(b, k, 0, pl_scalar(b, 2))
        {
            accumulate(b, sum, pl_tile(b, x, PL_OFF(b, 0, k), TILE), k);
        }
        PL_PRODUCE(b, pipe, slot)
        {
            pl_store(b, pl_at(b, buf, slot), pl_load(b, sum));
            pl_commit_smem(b);
        }
        PL_CONSUME(b, pipe, slot)
        {
            pl_copy_smem_to_gmem(b, pl_at(b, buf, slot),
                                 pl_window(b, pl_at(b, pl_param(b, 1), t), PL_OFF(b, 0, 0), TILE));
        }
    }
    pl_wait_smem_to_gmem(b, 0);
}

static const pl_kernel pipe_kernels[] = {
#define PIPE_KERNEL(id)                                                                            \
    {                                                                                              \
        .struct_size = sizeof(pl_kernel), .name = #id, .params = decls, .n_params = 3,             \
        .params_bytes = sizeof(struct pipe_params), .options_bytes = sizeof(struct pipe_params),   \
        .n_configs = 1, .body = id##_body, .launch_dims = one_block                                \
    }
    PIPE_KERNEL(pipeline),
    PIPE_KERNEL(roles),
    PIPE_KERNEL(ring),
    PIPE_KERNEL(halves),
#undef PIPE_KERNEL
};
enum { N_PIPE_KERNELS = sizeof pipe_kernels / sizeof pipe_kernels[0] };
#endif
