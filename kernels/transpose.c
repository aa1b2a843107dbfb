/*
 * transpose: one 64 x 64 tile a block, turned through SMEM. Direct: registers to a padded SMEM tile, read back by columns.
 * Staged: the tile comes and goes by asynchronous copies, swizzled so that neither side has bank conflicts.
 */
#include "kernels/tiling.h"

enum { TILE = 64, PAD = 2, N_CONFIGS = 2 };

static bool configure(const pl_request *request, int32_t config, void *params)
{
    const pl_fact_set need = PL_FACT_ALIGN16 | PL_FACT_UNIT_STRIDE;
    const bool can_stage = request->device->arch >= 90 && (request->facts & need) == need;
    const bool is_staged = config == PL_CONFIG_BEST ? can_stage : config == 1;
    *(struct pl_tiling *)params = (struct pl_tiling){TILE, TILE, is_staged};
    return !is_staged || can_stage;
}

static void body(pl_builder *b, const void *params)
{
    const struct pl_tiling *t = params;
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    const pl_dtype dtype = pl_dtype_of(b, x);
    struct pl_tile_place from = pl_tile_find(b, x, t), to = from;
    to.row = from.col;
    to.col = from.row;
    if (!t->is_staged) {
        pl_ref padded = pl_smem(b, dtype, PL_SHAPE(TILE, TILE + PAD), PL_SWIZZLE_NONE);
        pl_ref tile = pl_window(b, padded, PL_OFF(b, 0, 0), PL_SHAPE(TILE, TILE));
        pl_store(b, tile, pl_load(b, pl_tile_of(b, x, &from)));
        pl_bar_sync(b, PL_SCOPE_WARPGROUP);
        pl_store(b, pl_tile_of(b, y, &to), pl_load(b, pl_transpose(b, tile)));
        return;
    }
    pl_ref in = pl_smem(b, dtype, PL_SHAPE(TILE, TILE), PL_SWIZZLE_AUTO);
    pl_ref out = pl_smem(b, dtype, PL_SHAPE(TILE, TILE), PL_SWIZZLE_AUTO);
    pl_bar full = pl_barrier(b, 1);
    pl_copy_gmem_to_smem(b, pl_tile_of(b, x, &from), in, full);
    pl_barrier_wait(b, full);
    pl_store(b, out, pl_load(b, pl_transpose(b, in)));
    pl_commit_smem(b);
    pl_copy_smem_to_gmem(b, out, pl_tile_of(b, y, &to));
    pl_wait_smem_to_gmem(b, 0);
}

static void expect_shape(const pl_request *request, size_t arg, pl_shape *want)
{
    *want = pl_shape_of(&request->args[0].u.tensor);
    if (arg == 1) {
        const int64_t rows = want->d[want->rank - 2];
        want->d[want->rank - 2] = want->d[want->rank - 1];
        want->d[want->rank - 1] = rows;
    }
}

#define PL_DT_MOVED                                                                                \
    (PL_DT_FLOATS | PL_DT(E4M3) | PL_DT(E5M2) | PL_DT(I8) | PL_DT(I16) | PL_DT(I32) | PL_DT(U8) |  \
     PL_DT(U16) | PL_DT(U32))

static const pl_param_decl params_[] = {
    PL_PARAM("x", PL_ROLE_IN, 2, 5, PL_DT_MOVED),
    PL_PARAM("y", PL_ROLE_OUT, 2, 5, PL_DT_MOVED),
};

const pl_kernel pl_kernel_transpose = {
    .struct_size = sizeof(pl_kernel),
    .name = "transpose",
    .params = params_,
    .n_params = 2,
    .params_bytes = sizeof(struct pl_tiling),
    .n_configs = N_CONFIGS,
    .configure = configure,
    .body = body,
    .launch_dims = pl_tiling_launch_dims,
    .expect_shape = expect_shape,
    .doc = "y = x with its last two axes exchanged",
};
