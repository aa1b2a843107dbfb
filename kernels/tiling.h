#ifndef PL_KERNELS_TILING_H
#define PL_KERNELS_TILING_H
/*
 * What the tile kernels (copy, scale, add, cast, transpose) share: a one-dimensional grid of tiles over the last two axes, the
 * leading axes folded into it, and the listed configurations.
 *
 * A tensor of rank 1 has tiles of rows * cols elements. A block is one warpgroup and one tile. Staged configurations go through
 * SMEM by asynchronous copies (which the plan lowers to TMA or bulk copies); direct ones load and store registers.
 */
#include <plaunch.h>

struct pl_tiling { /* params of a tile kernel */
    int32_t rows, cols;
    int32_t is_staged;
};

enum { PL_TILING_N_CONFIGS = 5 };

/* The first tensor argument gives the extents. */
bool pl_tiling_configure(const pl_request *request, int32_t config, void *params);
void pl_tiling_launch_dims(const pl_request *request, const void *params, pl_launch_dims *out);

/* The tile of the executing block. */
struct pl_tile_place {
    pl_val lead[PL_MAX_RANK]; /* indices along the leading axes */
    int32_t n_lead;
    int32_t rank;    /* of the tile: 1 or 2 */
    pl_val row, col; /* in tiles; row is unused for rank 1 */
    pl_shape shape;
};

struct pl_tile_place pl_tile_find(pl_builder *b, pl_ref like, const struct pl_tiling *t);
pl_ref pl_tile_of(pl_builder *b, pl_ref tensor, const struct pl_tile_place *at);

/* Splits a row-major index over the first n_axes axes of `like`; the result has the dtype of its extents. */
void pl_split_index(pl_builder *b, pl_ref like, int32_t n_axes, pl_val linear,
                    pl_val out[PL_MAX_RANK]);
/* tensor at the first n indices. */
pl_ref pl_at_indices(pl_builder *b, pl_ref tensor, int32_t n, const pl_val indices[PL_MAX_RANK]);
/* Index value v in the dtype of the extents of `like`. */
pl_val pl_as_index(pl_builder *b, pl_ref like, pl_val v);

/* The extents of a tensor. */
pl_shape pl_shape_of(const pl_tensor *t);
/* Host side: product of the first n_axes extents. */
int64_t pl_count_rows(const pl_tensor *t, int32_t n_axes);
static inline int64_t pl_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Element types that the arithmetic kernels take. */
#define PL_DT_FLOATS (PL_DT(F32) | PL_DT(F16) | PL_DT(BF16))
/* Facts that change the code of every kernel here. */
#define PL_KERNEL_FACTS (PL_FACT_ALIGN16 | PL_FACT_I32 | PL_FACT_UNIT_STRIDE)
/* The same where rows are read and written by vectors. */
#define PL_VECTOR_FACTS (PL_KERNEL_FACTS | PL_FACT_WHOLE16)

#define PL_PARAM(name_, role_, min_rank_, max_rank_, dtypes_)                                      \
    {                                                                                              \
        .name = name_, .role = role_, .min_rank = min_rank_, .max_rank = max_rank_,                \
        .dtypes = dtypes_, .specialised = (role_) == PL_ROLE_SCALAR ? 0 : PL_VECTOR_FACTS          \
    }
/* A tensor with the extents of the first parameter. */
#define PL_PARAM_LIKE(name_, role_, dtypes_)                                                       \
    {                                                                                              \
        .name = name_, .role = role_, .min_rank = 1, .max_rank = 5, .dtypes = dtypes_,             \
        .specialised = PL_VECTOR_FACTS, .like = 1                                                  \
    }
#endif
