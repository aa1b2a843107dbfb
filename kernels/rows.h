#ifndef PL_KERNELS_ROWS_H
#define PL_KERNELS_ROWS_H
/*
 * What the row kernels (softmax, rmsnorm, reduce over the last axis) share: one row a block, read in chunks that its warpgroups
 * take in turn. Resident configurations bring the whole row to SMEM once, by asynchronous copies (bulk copies, by the plan),
 * and read it there as often as needed; streaming ones read global memory in each pass.
 */
#include "kernels/tiling.h"

struct pl_row_params {
    int32_t n_warpgroups;
    int32_t chunk;      /* elements that a warpgroup takes at once */
    int32_t max_chunks; /* of a resident row; 0: streaming */
    int32_t extra;      /* the kernel's own */
};

enum { PL_ROWS_N_CONFIGS = 6 };

bool pl_rows_configure(const pl_request *request, int32_t config, void *params);
void pl_rows_launch_dims(const pl_request *request, const void *params, pl_launch_dims *out);

/* One row as the body reads it. */
struct pl_row {
    const struct pl_row_params *p;
    pl_ref x; /* the row, rank 1 */
    pl_val n; /* its extent */
    pl_val lead[PL_MAX_RANK];
    int32_t n_lead;
    pl_ref smem; /* (max_chunks, chunk) when resident */
    pl_bar full;
};

/* The executing block's row of parameter `param`; a resident row is on its way when this returns. */
struct pl_row pl_row_start(pl_builder *b, int32_t param, const struct pl_row_params *p);
/* Chunk `c` as f32, `fill` past the end. is_first: the first pass, which waits for the chunk. */
pl_val pl_row_chunk(pl_builder *b, const struct pl_row *r, pl_val c, double fill, bool is_first);
/* Chunk c of another row of the same extents (an output, a weight). */
pl_ref pl_row_window(pl_builder *b, const struct pl_row *r, pl_ref row, pl_val c);
/* Number of chunks, and the executing warpgroup's first. */
pl_val pl_row_n_chunks(pl_builder *b, const struct pl_row *r);
pl_val pl_row_first(pl_builder *b, const struct pl_row *r);

/* A chunk-wide f32 accumulator. */
pl_ref pl_row_regs(pl_builder *b, const struct pl_row *r, double init);
#endif
