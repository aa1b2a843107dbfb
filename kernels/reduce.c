/*
 * reduce over one axis. The last axis: one row a block, as the row kernels. Any other: a block takes `COLS` neighbours along the
 * last axis and walks the reduced axis `STEP` at a time, so that reads stay contiguous.
 */
#include "kernels/rows.h"

#include <math.h>

enum { STEP = 16, COLS = 64, N_CONFIGS = PL_ROWS_N_CONFIGS + 1 };

struct params {               /* begins with what the row kernels read */
    struct pl_row_params row; /* n_warpgroups 0: the column form */
    int32_t op, axis;         /* axis >= 0 */
};

static int32_t axis_of(const pl_request *request)
{
    const pl_reduce_options *o = request->options;
    return o->axis < 0 ? o->axis + request->args[0].u.tensor.rank : o->axis;
}

static bool configure(const pl_request *request, int32_t config, void *params)
{
    struct params *p = params;
    const pl_reduce_options *o = request->options;
    const int32_t rank = request->args[0].u.tensor.rank, axis = axis_of(request);
    p->op = o->op;
    p->axis = axis;
    if (axis < 0 || axis >= rank || o->op < 0 || o->op >= PL_REDUCE_OP_COUNT)
        return false;
    const bool is_row = axis == rank - 1;
    if (config == PL_CONFIG_BEST)
        return is_row ? pl_rows_configure(request, config, &p->row) : true;
    if (config == N_CONFIGS - 1)
        return !is_row;
    return is_row && pl_rows_configure(request, config, &p->row);
}

static void launch_dims(const pl_request *request, const void *params, pl_launch_dims *out)
{
    const struct params *p = params;
    const pl_tensor *x = &request->args[0].u.tensor;
    if (p->row.n_warpgroups != 0) {
        pl_rows_launch_dims(request, &p->row, out);
        return;
    }
    int64_t n = pl_ceil_div(x->shape[x->rank - 1], COLS);
    for (int32_t i = 0; i < x->rank - 1; i++)
        n *= i == p->axis ? 1 : x->shape[i];
    *out = (pl_launch_dims){{n, 1, 1}};
}

static pl_op2 combine_op(int32_t op)
{
    return op == PL_REDUCE_MAX ? PL_MAX : op == PL_REDUCE_MIN ? PL_MIN : PL_ADD;
}

static double neutral(int32_t op)
{
    return op == PL_REDUCE_MAX ? -INFINITY : op == PL_REDUCE_MIN ? INFINITY : 0.0;
}

/* The mean's division, and the cast to the output. */
static pl_val finish(pl_builder *b, int32_t op, pl_val v, pl_val n, pl_dtype to)
{
    if (op == PL_REDUCE_MEAN)
        v = pl_div(b, v, pl_cast(b, n, PL_F32));
    return pl_cast(b, v, to);
}

static void row_body(pl_builder *b, const struct params *p)
{
    pl_ref y = pl_param(b, 1);
    struct pl_row r = pl_row_start(b, 0, &p->row);
    pl_ref acc = pl_row_regs(b, &r, neutral(p->op));
    PL_FOR_STEP(b, c, pl_row_first(b, &r), pl_row_n_chunks(b, &r), p->row.n_warpgroups)
    {
        pl_val v = pl_row_chunk(b, &r, c, neutral(p->op), true);
        pl_store(b, acc, pl_op2_at(b, combine_op(p->op), pl_load(b, acc), v, PL_LOC));
    }
    pl_val total = pl_reduce(b, combine_op(p->op), pl_load(b, acc), 0, PL_SCOPE_CTA);
    const pl_ref to = pl_at(b, pl_at_indices(b, y, r.n_lead, r.lead), 0);
    const pl_val result = finish(b, p->op, total, r.n, pl_dtype_of(b, y));
    if (p->row.n_warpgroups == 1)
        pl_store(b, to, result);
    else
        PL_IF(b, pl_eq(b, pl_row_first(b, &r), 0)) /* each has the total; one of them stores it */
    pl_store(b, to, result);
}

/* Windows over the axes from the reduced one on: STEP or 1 along it, 1 along those between, COLS along the last. */
static pl_ref column_window(pl_builder *b, pl_ref t, int32_t axis, const pl_val at[PL_MAX_RANK],
                            pl_val first, int64_t extent)
{
    pl_ref r = pl_at_indices(b, t, axis, at);
    const int32_t rank = pl_rank_of(b, r);
    pl_offs offsets = {.rank = rank};
    pl_shape shape = {.rank = rank};
    for (int32_t i = 0; i < rank; i++) {
        offsets.o[i] = i == 0 ? first : at[axis + i];
        shape.d[i] = i == 0 ? extent : i == rank - 1 ? COLS : 1;
    }
    return pl_window(b, r, offsets, shape);
}

static void column_body(pl_builder *b, const struct params *p)
{
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    const int32_t rank = pl_rank_of(b, x), last = rank - 1;
    pl_val at[PL_MAX_RANK], linear = pl_as_index(b, x, pl_program_id(b, 0));
    pl_val n_tiles = pl_cdiv(b, pl_dim(b, x, last), COLS);
    at[last] = pl_mul(b, pl_rem(b, linear, n_tiles), COLS);
    linear = pl_div(b, linear, n_tiles);
    for (int32_t i = last - 1; i >= 0; i--) {
        if (i == p->axis)
            continue;
        at[i] = pl_rem(b, linear, pl_dim(b, x, i));
        linear = pl_div(b, linear, pl_dim(b, x, i));
    }
    pl_val n = pl_dim(b, x, p->axis);
    pl_shape tile = {.rank = rank - p->axis};
    for (int32_t i = 0; i < tile.rank; i++)
        tile.d[i] = i == 0 ? STEP : i == tile.rank - 1 ? COLS : 1;
    const pl_load_opt filled = {.oob = PL_OOB_FILL, .fill = neutral(p->op)};
    pl_ref acc = pl_regs(b, PL_F32, tile, pl_layout_auto(), neutral(p->op));
    PL_FOR_STEP(b, i, 0, n, STEP)
    {
        pl_val v =
            pl_cast(b, pl_load_ex(b, column_window(b, x, p->axis, at, i, STEP), &filled), PL_F32);
        pl_store(b, acc, pl_op2_at(b, combine_op(p->op), pl_load(b, acc), v, PL_LOC));
    }
    pl_val total = pl_reduce(b, combine_op(p->op), pl_load(b, acc), 0, PL_SCOPE_WARPGROUP);
    pl_val out = finish(b, p->op, pl_broadcast(b, total, 0, 1), n, pl_dtype_of(b, y));
    pl_store(b, column_window(b, y, p->axis, at, pl_lit_i(b, 0), 1), out);
}

static void body(pl_builder *b, const void *params)
{
    const struct params *p = params;
    if (p->row.n_warpgroups != 0)
        row_body(b, p);
    else
        column_body(b, p);
}

static void expect_shape(const pl_request *request, size_t arg, pl_shape *want)
{
    const int32_t axis = axis_of(request);
    *want = pl_shape_of(&request->args[0].u.tensor);
    if (arg == 1 && axis >= 0 && axis < want->rank)
        want->d[axis] = 1;
}

/* y is written one element a row: its alignment changes no code, and a narrow y must not cost x its staged form. */
static const pl_param_decl params_[] = {
    PL_PARAM("x", PL_ROLE_IN, 1, 5, PL_DT_FLOATS),
    {.name = "y",
     .role = PL_ROLE_OUT,
     .min_rank = 1,
     .max_rank = 5,
     .dtypes = PL_DT_FLOATS,
     .specialised = PL_FACT_I32 | PL_FACT_UNIT_STRIDE},
};
static const pl_reduce_options defaults = {.op = PL_REDUCE_SUM, .axis = -1};

const pl_kernel pl_kernel_reduce = {
    .struct_size = sizeof(pl_kernel),
    .name = "reduce",
    .params = params_,
    .n_params = 2,
    .params_bytes = sizeof(struct params),
    .options_bytes = sizeof(pl_reduce_options),
    .default_options = &defaults,
    .n_configs = N_CONFIGS,
    .configure = configure,
    .body = body,
    .launch_dims = launch_dims,
    .expect_shape = expect_shape,
    .doc = "y = sum, mean, max or min of x along one axis",
};
