/* rmsnorm over the last axis, in two passes over a row: the sum of squares, then the scaled products. */
#include "kernels/rows.h"

static void body(pl_builder *b, const void *params)
{
    const struct pl_row_params *p = params;
    const bool has_weight = pl_has_arg(b, 1);
    pl_ref y = pl_param(b, 2);
    struct pl_row r = pl_row_start(b, 0, p);
    pl_ref squares = pl_row_regs(b, &r, 0.0);

    PL_FOR_STEP(b, c, pl_row_first(b, &r), pl_row_n_chunks(b, &r), p->n_warpgroups)
    {
        pl_val v = pl_row_chunk(b, &r, c, 0.0, true);
        pl_store(b, squares, pl_fma(b, v, v, pl_load(b, squares)));
    }
    pl_val total = pl_reduce(b, PL_ADD, pl_load(b, squares), 0, PL_SCOPE_CTA);
    pl_val mean = pl_div(b, total, pl_cast(b, r.n, PL_F32));
    pl_val scale = pl_rsqrt(b, pl_add(b, mean, pl_scalar(b, 3)));
    pl_ref out = pl_at_indices(b, y, r.n_lead, r.lead);
    PL_FOR_STEP(b, c, pl_row_first(b, &r), pl_row_n_chunks(b, &r), p->n_warpgroups)
    {
        pl_val v = pl_mul(b, pl_row_chunk(b, &r, c, 0.0, false), scale);
        if (has_weight)
            v = pl_mul(b, v,
                       pl_cast(b, pl_load(b, pl_row_window(b, &r, pl_param(b, 1), c)), PL_F32));
        pl_store(b, pl_row_window(b, &r, out, c), pl_cast(b, v, pl_dtype_of(b, y)));
    }
}

static void expect_shape(const pl_request *request, size_t arg, pl_shape *want)
{
    const pl_tensor *x = &request->args[0].u.tensor;
    if (arg == 1)
        *want = PL_SHAPE(x->shape[x->rank - 1]);
}

static const pl_param_decl params_[] = {
    PL_PARAM("x", PL_ROLE_IN, 1, 5, PL_DT_FLOATS),
    {.name = "w",
     .role = PL_ROLE_IN,
     .min_rank = 1,
     .max_rank = 1,
     .dtypes = PL_DT_FLOATS,
     .is_optional = true,
     .specialised = PL_VECTOR_FACTS},
    PL_PARAM_LIKE("y", PL_ROLE_OUT, PL_DT_FLOATS),
    PL_PARAM("eps", PL_ROLE_SCALAR, 0, 0, PL_DT(F32)),
};

const pl_kernel pl_kernel_rmsnorm = {
    .struct_size = sizeof(pl_kernel),
    .name = "rmsnorm",
    .params = params_,
    .n_params = 4,
    .params_bytes = sizeof(struct pl_row_params),
    .n_configs = PL_ROWS_N_CONFIGS,
    .configure = pl_rows_configure,
    .body = body,
    .launch_dims = pl_rows_launch_dims,
    .expect_shape = expect_shape,
    .doc = "y = x / sqrt(mean(x^2) + eps) * w along the last axis",
};
