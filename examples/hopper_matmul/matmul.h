#ifndef EXAMPLE_HOPPER_MATMUL_H
#define EXAMPLE_HOPPER_MATMUL_H
/*
 * What the steps of the tutorial share: c = a * b, a (m, k) and b (k, n) of bf16, c (m, n) of f32, of any extents. A step is a kernel in
 * a file of its own: it has what the one before it had, and one thing more (README.md says which and why).
 */
#include "../matmul_steps.h"

/* A CTA's tile of c is 128 x 128, a warpgroup's part of it 64 rows. K comes 128 bytes at a time, the widest swizzle. */
enum { TILE_M = 128, TILE_N = 128, TILE_K = 64, ROWS = 64 };
/* Columns of c that are staged at a time: 128 bytes. */
enum { CHUNK = 32 };

extern const struct step step_basic, step_ahead, step_roles, step_staged, step_persistent,
    step_cluster;

/* Slots for tiles of an operand in shared memory, as the tensor core reads them. */
static inline pl_ref operand_slots(pl_builder *b, int32_t n_slots, int32_t rows, int32_t cols)
{
    return pl_smem(b, PL_BF16, PL_SHAPE(n_slots, rows, cols), pl_mma_transforms(b, PL_BF16, cols));
}

/* A tile a CTA. */
static inline pl_launch_dims one_tile_each(int64_t m, int64_t n, int32_t n_sms)
{
    (void)n_sms;
    return (pl_launch_dims){{n_tiles(m, TILE_M), n_tiles(n, TILE_N), 1}};
}
#endif
