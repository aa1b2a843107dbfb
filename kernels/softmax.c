/*
 * softmax over the last axis, in two passes over a row: the running maximum and sum lane by lane (each new maximum rescales its
 * lane's sum), then the quotients. Source of the online form: Milakov, Gimelshein, "Online normalizer calculation for softmax", 2018.
 */
#include "kernels/rows.h"

#include <float.h>
#include <math.h>

static void body(pl_builder *b, const void *params)
{
    const double log2e = 1.4426950408889634;
    const double low = -FLT_MAX; /* finite: (-inf) - (-inf) is NaN; and no number is below it */
    const struct pl_row_params *p = params;
    pl_ref y = pl_param(b, 1);
    struct pl_row r = pl_row_start(b, 0, p);
    pl_ref top = pl_row_regs(b, &r, low), sum = pl_row_regs(b, &r, 0.0);

    PL_FOR_STEP(b, c, pl_row_first(b, &r), pl_row_n_chunks(b, &r), p->n_warpgroups)
    {
        pl_val v = pl_row_chunk(b, &r, c, -INFINITY, true);
        pl_val before = pl_load(b, top), now = pl_max(b, before, v);
        pl_val keep = pl_exp2(b, pl_mul(b, pl_sub(b, before, now), log2e));
        pl_val term = pl_exp2(b, pl_mul(b, pl_sub(b, v, now), log2e));
        pl_store(b, sum, pl_fma(b, pl_load(b, sum), keep, term));
        pl_store(b, top, now);
    }
    pl_val row_top = pl_reduce(b, PL_MAX, pl_load(b, top), 0, PL_SCOPE_CTA);
    pl_val part = pl_mul(b, pl_load(b, sum),
                         pl_exp2(b, pl_mul(b, pl_sub(b, pl_load(b, top), row_top), log2e)));
    pl_val inverse = pl_div(b, 1.0f, pl_reduce(b, PL_ADD, part, 0, PL_SCOPE_CTA));
    pl_ref out = pl_at_indices(b, y, r.n_lead, r.lead);
    PL_FOR_STEP(b, c, pl_row_first(b, &r), pl_row_n_chunks(b, &r), p->n_warpgroups)
    {
        pl_val v = pl_row_chunk(b, &r, c, -INFINITY, false);
        pl_val e = pl_mul(b, pl_exp2(b, pl_mul(b, pl_sub(b, v, row_top), log2e)), inverse);
        pl_store(b, pl_row_window(b, &r, out, c), pl_cast(b, e, pl_dtype_of(b, y)));
    }
}

static const pl_param_decl params_[] = {
    PL_PARAM("x", PL_ROLE_IN, 1, 5, PL_DT_FLOATS),
    PL_PARAM_LIKE("y", PL_ROLE_OUT, PL_DT_FLOATS),
};

const pl_kernel pl_kernel_softmax = {
    .struct_size = sizeof(pl_kernel),
    .name = "softmax",
    .params = params_,
    .n_params = 2,
    .params_bytes = sizeof(struct pl_row_params),
    .n_configs = PL_ROWS_N_CONFIGS,
    .configure = pl_rows_configure,
    .body = body,
    .launch_dims = pl_rows_launch_dims,
    .doc = "y = softmax of x along the last axis",
};
