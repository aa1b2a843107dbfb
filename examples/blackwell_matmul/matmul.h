#ifndef EXAMPLE_BLACKWELL_MATMUL_H
#define EXAMPLE_BLACKWELL_MATMUL_H
/*
 * What the steps of the tutorial share: c = a * b, a (m, k) and b (k, n) of bf16, c (m, n) of f32; any m and n, and k of at least 1. A
 * step is a kernel in a file of its own: it has all that the one before it had, and one thing more (README.md says which and why).
 */
#include "../matmul_steps.h"

/* A CTA's tile of c; a pair of CTAs makes one of twice the rows and columns. K comes 128 bytes at a time, the widest swizzle. */
enum { TILE_M = 128, TILE_N = 128, TILE_K = 64 };
/* Columns of c that are staged at a time: 128 bytes. */
enum { CHUNK = 32 };

extern const struct step step_basic, step_warps, step_epilogue, step_pair, step_persistent,
    step_overlapped, step_order;

/* Slots for tiles of an operand in shared memory, as the tensor core reads them. */
static inline pl_ref operand_slots(pl_builder *b, int32_t n_slots, int32_t rows, int32_t cols)
{
    return pl_smem(b, PL_BF16, PL_SHAPE(n_slots, rows, cols), pl_mma_transforms(b, PL_BF16, cols));
}
#endif
