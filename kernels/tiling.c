#include "kernels/tiling.h"

static const struct pl_tiling configs[PL_TILING_N_CONFIGS] = {
    {64, 64, 0}, {1, 4096, 0}, {8, 512, 0}, {64, 64, 1}, {1, 4096, 1},
};

static bool can_stage(const pl_request *request)
{
    const pl_fact_set need = PL_FACT_ALIGN16 | PL_FACT_UNIT_STRIDE;
    return request->device->arch >= 90 && (request->facts & need) == need;
}

static int32_t best_config(const pl_request *request)
{
    const pl_tensor *x = &request->args[0].u.tensor;
    const int64_t rows = x->rank >= 2 ? x->shape[x->rank - 2] : 1, cols = x->shape[x->rank - 1];
    if (rows < 8)
        return can_stage(request) ? 4 : 1;
    if (cols >= 512 && !can_stage(request))
        return 2;
    return can_stage(request) ? 3 : 0;
}

bool pl_tiling_configure(const pl_request *request, int32_t config, void *params)
{
    const struct pl_tiling t = configs[config == PL_CONFIG_BEST ? best_config(request) : config];
    *(struct pl_tiling *)params = t;
    return !t.is_staged || can_stage(request);
}

pl_shape pl_shape_of(const pl_tensor *t)
{
    pl_shape s = {.rank = t->rank};
    for (int32_t i = 0; i < t->rank; i++)
        s.d[i] = t->shape[i];
    return s;
}

int64_t pl_count_rows(const pl_tensor *t, int32_t n_axes)
{
    int64_t n = 1;
    for (int32_t i = 0; i < n_axes; i++)
        n *= t->shape[i];
    return n;
}

void pl_tiling_launch_dims(const pl_request *request, const void *params, pl_launch_dims *out)
{
    const struct pl_tiling *t = params;
    const pl_tensor *x = &request->args[0].u.tensor;
    const int32_t last = x->rank - 1;
    const int64_t n_lead = pl_count_rows(x, last > 0 ? last - 1 : 0);
    const int64_t n_tiles =
        last > 0 ? pl_ceil_div(x->shape[last - 1], t->rows) * pl_ceil_div(x->shape[last], t->cols)
                 : pl_ceil_div(x->shape[0], (int64_t)t->rows * t->cols);
    *out = (pl_launch_dims){{n_lead * n_tiles, 1, 1}};
}

pl_val pl_as_index(pl_builder *b, pl_ref like, pl_val v)
{
    return pl_cast(b, v, pl_dtype_of_val(b, pl_dim(b, like, 0)));
}

void pl_split_index(pl_builder *b, pl_ref like, int32_t n_axes, pl_val linear,
                    pl_val out[PL_MAX_RANK])
{
    for (int32_t i = n_axes - 1; i > 0; i--) {
        pl_val extent = pl_dim(b, like, i);
        out[i] = pl_rem(b, linear, extent);
        linear = pl_div(b, linear, extent);
    }
    if (n_axes > 0)
        out[0] = linear;
}

pl_ref pl_at_indices(pl_builder *b, pl_ref tensor, int32_t n, const pl_val indices[PL_MAX_RANK])
{
    for (int32_t i = 0; i < n; i++)
        tensor = pl_at(b, tensor, indices[i]);
    return tensor;
}

struct pl_tile_place pl_tile_find(pl_builder *b, pl_ref like, const struct pl_tiling *t)
{
    const int32_t rank = pl_rank_of(b, like);
    struct pl_tile_place at = {.rank = rank > 1 ? 2 : 1, .n_lead = rank > 2 ? rank - 2 : 0};
    pl_val linear = pl_as_index(b, like, pl_program_id(b, 0));
    if (at.rank == 1) {
        at.shape = PL_SHAPE(t->rows * t->cols);
        at.col = linear;
        return at;
    }
    at.shape = PL_SHAPE(t->rows, t->cols);
    pl_val n_cols = pl_cdiv(b, pl_dim(b, like, rank - 1), t->cols);
    at.col = pl_rem(b, linear, n_cols);
    at.row = pl_div(b, linear, n_cols);
    if (at.n_lead > 0) {
        pl_val n_rows = pl_cdiv(b, pl_dim(b, like, rank - 2), t->rows);
        pl_split_index(b, like, at.n_lead, pl_div(b, at.row, n_rows), at.lead);
        at.row = pl_rem(b, at.row, n_rows);
    }
    return at;
}

pl_ref pl_tile_of(pl_builder *b, pl_ref tensor, const struct pl_tile_place *at)
{
    pl_ref plane = pl_at_indices(b, tensor, at->n_lead, at->lead);
    return pl_tile(b, plane, at->rank == 1 ? PL_OFF(b, at->col) : PL_OFF(b, at->row, at->col),
                   at->shape);
}
