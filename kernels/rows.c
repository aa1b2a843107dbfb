#include "kernels/rows.h"

static const struct pl_row_params configs[PL_ROWS_N_CONFIGS] = {
    {1, 256, 0, 0}, {1, 1024, 0, 0}, {4, 1024, 0, 0},
    {1, 256, 4, 0}, {1, 1024, 8, 0}, {4, 1024, 32, 0},
};

static bool can_hold(const pl_request *request, const struct pl_row_params *p)
{
    const pl_fact_set need = PL_FACT_ALIGN16 | PL_FACT_UNIT_STRIDE;
    const pl_tensor *x = &request->args[0].u.tensor;
    const int64_t row_bytes = (int64_t)p->chunk * p->max_chunks * pl_dtype_bits(x->dtype) / 8;
    return request->device->arch >= 90 && (request->facts & need) == need &&
           x->shape[x->rank - 1] <= (int64_t)p->chunk * p->max_chunks &&
           row_bytes + 4096 <= request->device->smem_bytes;
}

static int32_t best_config(const pl_request *request)
{
    const pl_tensor *x = &request->args[0].u.tensor;
    const int64_t n = x->shape[x->rank - 1];
    const int32_t size = n <= 256 ? 0 : n <= 4096 ? 1 : 2;
    return n > 0 && can_hold(request, &configs[size + 3]) ? size + 3 : size;
}

bool pl_rows_configure(const pl_request *request, int32_t config, void *params)
{
    const struct pl_row_params *c =
        &configs[config == PL_CONFIG_BEST ? best_config(request) : config];
    *(struct pl_row_params *)params = *c;
    return c->max_chunks == 0 || can_hold(request, c);
}

void pl_rows_launch_dims(const pl_request *request, const void *params, pl_launch_dims *out)
{
    (void)params;
    const pl_tensor *x = &request->args[0].u.tensor;
    const int64_t n_rows = pl_count_rows(x, x->rank - 1);
    *out = (pl_launch_dims){{n_rows, 1, 1}};
}

pl_val pl_row_n_chunks(pl_builder *b, const struct pl_row *r)
{
    return pl_cdiv(b, r->n, r->p->chunk);
}

pl_val pl_row_first(pl_builder *b, const struct pl_row *r)
{
    return pl_cast(b, pl_warpgroup_id(b), pl_dtype_of_val(b, r->n));
}

pl_ref pl_row_window(pl_builder *b, const struct pl_row *r, pl_ref row, pl_val c)
{
    return pl_tile(b, row, PL_OFF(b, c), PL_SHAPE(r->p->chunk));
}

struct pl_row pl_row_start(pl_builder *b, int32_t param, const struct pl_row_params *p)
{
    pl_block_warpgroups(b, p->n_warpgroups);
    pl_ref x = pl_param(b, param);
    const int32_t rank = pl_rank_of(b, x);
    struct pl_row r = {.p = p, .n_lead = rank - 1};
    pl_split_index(b, x, r.n_lead, pl_as_index(b, x, pl_program_id(b, 0)), r.lead);
    r.x = pl_at_indices(b, x, r.n_lead, r.lead);
    r.n = pl_dim(b, r.x, 0);
    if (p->max_chunks == 0)
        return r;
    const pl_barrier_desc full = {.n_barriers = p->max_chunks, .n_arrivals = 1};
    r.smem = pl_smem(b, pl_dtype_of(b, x), PL_SHAPE(p->max_chunks, p->chunk), PL_SWIZZLE_NONE);
    r.full = pl_barriers(b, &full);
    PL_FOR_STEP(b, c, pl_row_first(b, &r), pl_row_n_chunks(b, &r), p->n_warpgroups)
    {
        pl_val slot = pl_cast(b, c, PL_I32);
        pl_copy_gmem_to_smem(b, pl_row_window(b, &r, r.x, c), pl_at(b, r.smem, slot),
                             pl_bar_at(b, r.full, slot));
    }
    return r;
}

pl_val pl_row_chunk(pl_builder *b, const struct pl_row *r, pl_val c, double fill, bool is_first)
{
    const pl_load_opt filled = {.oob = PL_OOB_FILL, .fill = fill};
    if (r->p->max_chunks == 0)
        return pl_cast(b, pl_load_ex(b, pl_row_window(b, r, r->x, c), &filled), PL_F32);
    pl_val slot = pl_cast(b, c, PL_I32);
    if (is_first)
        pl_barrier_wait(b, pl_bar_at(b, r->full, slot));
    pl_val left = pl_cast(b, pl_sub(b, r->n, pl_mul(b, c, r->p->chunk)), PL_I32);
    return pl_cast(b, pl_load_ex(b, pl_clip(b, pl_at(b, r->smem, slot), 0, left), &filled), PL_F32);
}

pl_ref pl_row_regs(pl_builder *b, const struct pl_row *r, double init)
{
    return pl_regs(b, PL_F32, PL_SHAPE(r->p->chunk), pl_layout_auto(), init);
}
