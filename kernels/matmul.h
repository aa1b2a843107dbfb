#ifndef PL_KERNELS_MATMUL_H
#define PL_KERNELS_MATMUL_H
/*
 * matmul: what its bodies share. matmul.c arranges the arguments, lists the configurations and chooses one; each body is a file
 * (matmul_<path>.c) and serves some chips. The whole is described in docs/matmul.md.
 *
 * A body sees arranged arguments: y and c are (…, m, n) with as many axes each, whatever they were; a is (…, m, k), or
 * (…, k, m) when it is *across*; b is (…, n, k), or (…, k, n) when it is across. Across says that K is the row axis of the
 * stored matrix. Operands of fewer axes have strides of 0 where they are broadcast. The bias goes along bias_axis of y.
 */
#include <plaunch.h>

#include "kernels/tiling.h"

/* Parameters of the kernel. */
enum { PL_MM_A, PL_MM_B, PL_MM_Y, PL_MM_C, PL_MM_BIAS, PL_MM_ALPHA, PL_MM_BETA, PL_MM_N_PARAMS };

/* What pl_request.arrangement holds. */
enum {
    PL_MM_A_IS_ACROSS = 1,
    PL_MM_B_IS_ACROSS = 2,
    PL_MM_IS_MIRRORED =
        4 /* y is column-major: its transpose is computed, a and b have changed places */
};

enum pl_mm_path { PL_MM_SIMPLE, PL_MM_HOPPER, PL_MM_PORTABLE, PL_MM_BLACKWELL, PL_MM_PATH_COUNT };

/* One configuration, as a body sees it: a row of the list, and what the arguments add. */
struct pl_mm_config {
    int32_t path;
    int32_t tile_m, tile_n, tile_k; /* elements, of a CTA */
    int32_t stages;                 /* slots of the operand pipe */
    int32_t cluster_m,
        cluster_n; /* CTAs along M, which share tiles of b, and along N, which share tiles of a */
    int32_t n_consumers;  /* warpgroups that multiply */
    int32_t raster_width; /* of the strips that tiles are walked in */
    int32_t activation;   /* pl_activation */
    int32_t a_is_across, b_is_across;
    int32_t bias_axis; /* of a matrix y: 1, or 0 when y is mirrored */
};

/* A row of the list. tile_k counts bytes there: a row of the widest swizzle, whatever the type. */
struct pl_mm_row {
    struct pl_mm_config config;
    int32_t first_arch, last_arch;
};

/* True when the path serves this request in this configuration of it; the row's chips and the user's wishes were looked at. */
typedef bool pl_mm_serves(const pl_request *request, const struct pl_mm_config *p);
pl_mm_serves pl_mm_simple_serves, pl_mm_hopper_serves, pl_mm_portable_serves,
    pl_mm_blackwell_serves;
typedef void pl_mm_body(pl_builder *b, const struct pl_mm_config *p);
pl_mm_body pl_mm_simple_body, pl_mm_hopper_body, pl_mm_portable_body, pl_mm_blackwell_body;

/* Grids: a tile a CTA, or at most one cluster for each that the chip holds at once. */
void pl_mm_tile_dims(const pl_request *request, const struct pl_mm_config *p, pl_launch_dims *out);
void pl_mm_persistent_dims(const pl_request *request, const struct pl_mm_config *p,
                           pl_launch_dims *out);

/* ---- for bodies ---- */

/* Type of the sums: i32 for i8, else f32. */
pl_dtype pl_mm_acc_dtype(pl_dtype operand);

/* The problem as values; all of y's index type. */
struct pl_mm_problem {
    pl_val m, n, k;
    pl_val m_tiles, n_tiles; /* clusters' tiles */
    pl_val n_all;            /* m_tiles * n_tiles * batch */
    int32_t n_lead;          /* leading axes */
};
struct pl_mm_problem pl_mm_problem_of(pl_builder *b, const struct pl_mm_config *p);

/* Tile t (0..n_all-1) of a cluster: indices of the leading axes, and row and column in tiles, neighbours sharing operands. */
struct pl_mm_place {
    pl_val lead[PL_MAX_RANK];
    int32_t n_lead;
    pl_val row, col;
};
struct pl_mm_place pl_mm_place_of(pl_builder *b, const struct pl_mm_config *p,
                                  const struct pl_mm_problem *q, pl_val t);
/* The matrix of a parameter at the place's leading indices; none (id 0) when the argument is absent. */
pl_ref pl_mm_plane(pl_builder *b, int32_t param, const struct pl_mm_place *at);

/*
 * The epilogue on a value: act(alpha * sum + beta * c + bias) as y's type.
 *
 *   sum     part of the tile's sums, shape s of rank 2, in the layout it came in
 *   m, n    where it begins in y, in elements
 */
pl_val pl_mm_epilogue(pl_builder *b, const struct pl_mm_config *p, const struct pl_mm_place *at,
                      pl_val sum, pl_offs mn, pl_shape s);

/*
 * Is what follows the sums long as text: operands or an activation, or a y that leaves element by element? Then the parts of a tile are
 * written by a loop, though their sums are in registers that have no index: part i of n is chosen among all of them.
 */
bool pl_mm_is_long(pl_builder *b, const struct pl_mm_config *p);
pl_val pl_mm_choose(pl_builder *b, pl_val i, const pl_val *parts, int32_t n);

/* The same for a body that brings c in its own way: c is its part of shape s, or none where the argument is absent. */
struct pl_mm_part {
    pl_val sum, c;
    pl_offs mn;
    pl_shape s;
};
pl_val pl_mm_finish(pl_builder *b, const struct pl_mm_config *p, const struct pl_mm_part *part);
#endif
