/*
 * copy, scale, add, cast: one tile a block. The staged form is a load by asynchronous copy, a wait, arithmetic in registers, and
 * a store by asynchronous copy; the direct form loads and stores registers.
 */
#include "kernels/tiling.h"

struct loader {
    pl_ref smem[2];
    pl_bar full;
    int32_t n_inputs;
};

/* Brings the tile of each input on its way; the values come by take(). */
static struct loader start_loads(pl_builder *b, const struct pl_tiling *t,
                                 const struct pl_tile_place *at, int32_t n_inputs)
{
    struct loader l = {.n_inputs = n_inputs};
    if (!t->is_staged)
        return l;
    l.full = pl_barrier(b, n_inputs);
    for (int32_t i = 0; i < n_inputs; i++) {
        pl_ref x = pl_param(b, i);
        l.smem[i] = pl_smem(b, pl_dtype_of(b, x), at->shape, PL_SWIZZLE_AUTO);
        pl_copy_gmem_to_smem(b, pl_tile_of(b, x, at), l.smem[i], l.full);
    }
    pl_barrier_wait(b, l.full);
    return l;
}

static pl_val take(pl_builder *b, const struct loader *l, const struct pl_tile_place *at, int32_t i)
{
    return pl_load(b, l->full.id != 0 ? l->smem[i] : pl_tile_of(b, pl_param(b, i), at));
}

static void put(pl_builder *b, const struct pl_tiling *t, const struct pl_tile_place *at, pl_ref y,
                pl_val v)
{
    if (!t->is_staged) {
        pl_store(b, pl_tile_of(b, y, at), v);
        return;
    }
    pl_ref smem = pl_smem(b, pl_dtype_of(b, y), at->shape, PL_SWIZZLE_AUTO);
    pl_store(b, smem, v);
    pl_commit_smem(b);
    pl_copy_smem_to_gmem(b, smem, pl_tile_of(b, y, at));
    pl_wait_smem_to_gmem(b, 0);
}

static void copy_body(pl_builder *b, const void *params)
{
    const struct pl_tiling *t = params;
    struct pl_tile_place at = pl_tile_find(b, pl_param(b, 0), t);
    struct loader in = start_loads(b, t, &at, 1);
    if (t->is_staged) { /* what came in goes out: no thread touches it */
        pl_copy_smem_to_gmem(b, in.smem[0], pl_tile_of(b, pl_param(b, 1), &at));
        pl_wait_smem_to_gmem(b, 0);
        return;
    }
    put(b, t, &at, pl_param(b, 1), take(b, &in, &at, 0));
}

static void scale_body(pl_builder *b, const void *params)
{
    const struct pl_tiling *t = params;
    pl_ref y = pl_param(b, 1);
    struct pl_tile_place at = pl_tile_find(b, pl_param(b, 0), t);
    struct loader in = start_loads(b, t, &at, 1);
    pl_val v = pl_mul(b, pl_cast(b, take(b, &in, &at, 0), PL_F32), pl_scalar(b, 2));
    put(b, t, &at, y, pl_cast(b, v, pl_dtype_of(b, y)));
}

/* Of one dtype the sum is rounded once in it, as it would be from an exact one: two elements of 16 bits an instruction. */
static void add_body(pl_builder *b, const void *params)
{
    const struct pl_tiling *t = params;
    pl_ref y = pl_param(b, 2);
    const pl_dtype dtype = pl_dtype_of(b, y);
    const bool is_one =
        pl_dtype_of(b, pl_param(b, 0)) == dtype && pl_dtype_of(b, pl_param(b, 1)) == dtype;
    const pl_dtype in_what = is_one ? dtype : PL_F32;
    struct pl_tile_place at = pl_tile_find(b, pl_param(b, 0), t);
    struct loader in = start_loads(b, t, &at, 2);
    pl_val v = pl_add(b, pl_cast(b, take(b, &in, &at, 0), in_what),
                      pl_cast(b, take(b, &in, &at, 1), in_what));
    put(b, t, &at, y, pl_cast(b, v, dtype));
}

static void cast_body(pl_builder *b, const void *params)
{
    const struct pl_tiling *t = params;
    pl_ref y = pl_param(b, 1);
    struct pl_tile_place at = pl_tile_find(b, pl_param(b, 0), t);
    struct loader in = start_loads(b, t, &at, 1);
    put(b, t, &at, y, pl_cast(b, take(b, &in, &at, 0), pl_dtype_of(b, y)));
}

#define PL_DT_MOVED                                                                                \
    (PL_DT_FLOATS | PL_DT(F64) | PL_DT(E4M3) | PL_DT(E5M2) | PL_DT(E8M0) | PL_DT(I8) |             \
     PL_DT(I16) | PL_DT(I32) | PL_DT(I64) | PL_DT(U8) | PL_DT(U16) | PL_DT(U32) | PL_DT(U64))

static const pl_param_decl copy_params[] = {
    PL_PARAM("x", PL_ROLE_IN, 1, 5, PL_DT_MOVED),
    PL_PARAM_LIKE("y", PL_ROLE_OUT, PL_DT_MOVED),
};
static const pl_param_decl scale_params[] = {
    PL_PARAM("x", PL_ROLE_IN, 1, 5, PL_DT_FLOATS),
    PL_PARAM_LIKE("y", PL_ROLE_OUT, PL_DT_FLOATS),
    PL_PARAM("s", PL_ROLE_SCALAR, 0, 0, PL_DT(F32)),
};
static const pl_param_decl add_params[] = {
    PL_PARAM("a", PL_ROLE_IN, 1, 5, PL_DT_FLOATS),
    PL_PARAM_LIKE("b", PL_ROLE_IN, PL_DT_FLOATS),
    PL_PARAM_LIKE("y", PL_ROLE_OUT, PL_DT_FLOATS),
};
static const pl_param_decl cast_params[] = {
    PL_PARAM("x", PL_ROLE_IN, 1, 5, PL_DT_FLOATS),
    PL_PARAM_LIKE("y", PL_ROLE_OUT, PL_DT_FLOATS),
};

#define TILE_KERNEL(id, text)                                                                      \
    const pl_kernel pl_kernel_##id = {                                                             \
        .struct_size = sizeof(pl_kernel),                                                          \
        .name = #id,                                                                               \
        .params = id##_params,                                                                     \
        .n_params = sizeof id##_params / sizeof id##_params[0],                                    \
        .params_bytes = sizeof(struct pl_tiling),                                                  \
        .n_configs = PL_TILING_N_CONFIGS,                                                          \
        .configure = pl_tiling_configure,                                                          \
        .body = id##_body,                                                                         \
        .launch_dims = pl_tiling_launch_dims,                                                      \
        .may_alias = true,                                                                         \
        .doc = text,                                                                               \
    }

TILE_KERNEL(copy, "y = x");
TILE_KERNEL(scale, "y = s * x");
TILE_KERNEL(add, "y = a + b");
TILE_KERNEL(cast, "y = x in another dtype");
