#ifndef PLAUNCH_KERNELS_H
#define PLAUNCH_KERNELS_H
/*
 * The kernel library: constant descriptions for pl_launch(), written against the public headers only (kernels/).
 *
 * Any extents, 0 included (then there is nothing to do), any strides unless stated, any base that is aligned to its element.
 * Floats are computed in f32 and rounded once to the output's type (to nearest even; fp8 saturates). Errors: a rank, dtype
 * or extent that does not fit is PL60xx with argument, dimension, value seen and value wanted.
 */
#include <plaunch/launch.h>

#ifdef __cplusplus
extern "C" {
#endif

/* y = x.   x, y (d0 … dn), n 1..5 axes, one dtype of 8 to 64 bits: elements are moved as bits. */
extern PL_API const pl_kernel pl_kernel_copy;

/* y = s * x.   x, y (d0 … dn), 1..5 axes, f32 f16 bf16; s f32. */
extern PL_API const pl_kernel pl_kernel_scale;

/* y = a + b.   a, b, y (d0 … dn), 1..5 axes, f32 f16 bf16; a stride of 0 broadcasts an input. */
extern PL_API const pl_kernel pl_kernel_add;

/* y = x in another dtype.   x, y (d0 … dn), 1..5 axes, f32 f16 bf16 in any pair. */
extern PL_API const pl_kernel pl_kernel_cast;

/* y(…, j, i) = x(…, i, j).   x (…, m, n), y (…, n, m), 2..5 axes, one dtype of 8 to 32 bits. */
extern PL_API const pl_kernel pl_kernel_transpose;

/*
 * y = op of x along one axis, which y has with extent 1.   x, y of equal rank, 1..5 axes, f32 f16 bf16 each.
 * An empty axis gives 0 for sum, NaN for mean, -inf for max, +inf for min. max and min pass over NaNs.
 */
typedef enum pl_reduce_op {
    PL_REDUCE_SUM,
    PL_REDUCE_MEAN,
    PL_REDUCE_MAX,
    PL_REDUCE_MIN,
    PL_REDUCE_OP_COUNT
} pl_reduce_op;
typedef struct pl_reduce_options {
    int32_t op;      /* pl_reduce_op */
    int32_t axis;    /* 0..rank-1, or negative from the end */
} pl_reduce_options; /* default: sum over the last axis */
extern PL_API const pl_kernel pl_kernel_reduce;

/* y = exp(x - max) / sum(exp(x - max)) along the last axis.   x, y (d0 … dn), 1..5 axes, f32 f16 bf16 each. */
extern PL_API const pl_kernel pl_kernel_softmax;

/*
 * y = x / sqrt(mean(x^2) + eps) * w along the last axis; a row whose sum of squares overflows f32 gives 0.   x, y (d0 … dn), 1..5 axes, f32 f16 bf16 each; w (dn), optional;
 * eps f32.
 */
extern PL_API const pl_kernel pl_kernel_rmsnorm;

#ifdef __cplusplus
}
#endif
#endif
