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

/*
 * y = act(alpha * a b + beta * c + bias).   a (…, m, k), b (…, k, n), y (…, m, n), 2..5 axes.
 *
 *   a, b       f32 (as tf32, unless is_exact) tf32 f16 bf16 e4m3 e5m2 i8; the same type, or e4m3 with e5m2, f32 with tf32.
 *              Sums are f32, of i8 i32. docs/matmul.md says for each chip how a type is multiplied
 *   y          f32 f16 bf16; i32 for i8, then with c alone
 *   c          like y and of its type, or one matrix (m, n) for all batches. Optional
 *   bias       (n) f32 f16 bf16. Optional
 *   alpha      f32, absent: 1.   beta f32, absent: 1
 *
 * An operand of 2 axes is the same matrix for all batches. Any strides; rows or columns of each matrix that are runs of memory,
 * 16-byte aligned, are what the fast paths take. k = 0 gives act(beta * c + bias). Optional arguments at the end may be left out.
 */
typedef enum pl_activation {
    PL_ACTIVATION_NONE,
    PL_ACTIVATION_RELU,
    PL_ACTIVATION_GELU, /* with tanh: x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
    PL_ACTIVATION_SILU, /* x / (1 + exp(-x)) */
    PL_ACTIVATION_COUNT
} pl_activation;
typedef struct pl_matmul_options {
    int32_t activation; /* pl_activation */
    int32_t is_exact;   /* 1: f32 operands are multiplied as they are, without tensor cores */
    /* Wishes for the configuration, 0: the library's choice. One that no listed configuration has is PL6121. */
    int32_t tile_m, tile_n, tile_k; /* elements of y, y and k that a CTA takes at once */
    int32_t stages;
    int32_t cluster_m, cluster_n; /* CTAs of a cluster along m and n */
} pl_matmul_options;
extern PL_API const pl_kernel pl_kernel_matmul;

#ifdef __cplusplus
}
#endif
#endif
