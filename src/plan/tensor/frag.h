#ifndef PL_SRC_PLAN_TENSOR_FRAG_H
#define PL_SRC_PLAN_TENSOR_FRAG_H
/* Fragment layouts, of matrices and of what is left of them without an axis; values brought from one layout to another. */
#include "src/plan/memory/access.h"

bool pl_lay_same(const struct pl_lay *x, const struct pl_lay *y);
bool pl_frag_fits(enum pl_frag frag, const pl_shape *s);
struct pl_lay pl_lay_frag(enum pl_frag frag, const pl_shape *s);
/* What is left of a fragment without an axis (reduced: 1 << axis), of an array of rank 1. */
bool pl_reduced_fits(enum pl_frag frag, uint32_t reduced, const pl_shape *s);
struct pl_lay pl_lay_reduced(enum pl_frag frag, uint32_t reduced, const pl_shape *s);
/* REDUCE and BROADCAST between a fragment and what is left of it without their axis: that layout; false: their array is no fragment. */
bool pl_lay_left(const struct pl_lower *l, uint32_t id, struct pl_lay *out);
/* For each element of a thread in a fragment, the one that is left of it without an axis: map[e]; their number. */
uint32_t pl_lay_map_left(const pl_shape *s, const struct pl_lay *lay, int axis, uint32_t *map);
/* How the threads reduce a fragment to what is left of it. */
enum pl_reduce_way {
    PL_REDUCE_IN_LANES,   /* in the lanes of each warp */
    PL_REDUCE_OVER_WARPS, /* there, and then the results of the four warps */
    PL_REDUCE_WALK        /* a thread walks along the axis, in shared memory */
};
enum pl_reduce_way pl_reduce_way(enum pl_frag frag, const struct pl_lay *left);
/* Who holds the same: lanes that differ in these bits of their number only, and all warps of the unit. */
struct pl_peers {
    uint32_t lanes;
    bool is_in_warps;
};
struct pl_peers pl_lay_peers(const struct pl_lay *lay);
bool pl_lay_has_peers(const struct pl_lay *lay);
/* Axis along which a chunk's elements follow each other. */
int pl_lay_run_axis(const struct pl_lay *lay, int rank);
/* Where several threads hold the same: the one that counts, a predicate; else none. */
pl_reg pl_lay_owner(struct pl_lower *l, const struct pl_lay *lay);
/* Row and column of chunk k less those of chunk 0. */
void pl_frag_offset(const pl_shape *s, const struct pl_lay *lay, uint32_t k, int64_t offset[2]);
void pl_frag_coords(struct pl_lower *l, const pl_shape *s, const struct pl_lay *lay, uint32_t k,
                    struct pl_coord out[2]);
/* The layout in which op `id` needs its i-th operand; false: in any. */
bool pl_lay_wanted(const struct pl_lower *l, uint32_t id, uint32_t i, struct pl_lay *out);
/* Do the lanes of each quad make the one layout from the other by trading bytes? */
bool pl_lay_is_trade(pl_dtype t, const struct pl_lay *from, const struct pl_lay *to);
struct pl_lval pl_lval_trade(struct pl_lower *l, const struct pl_lval *in, struct pl_lay lay);
/* Bring operands into the layouts that their op needs, and back (a value has one layout for all its other users). */
void pl_operands_convert(struct pl_lower *l, uint32_t id, struct pl_lval saved[PL_OP_MAX_ARGS]);
void pl_operands_restore(struct pl_lower *l, uint32_t id,
                         const struct pl_lval saved[PL_OP_MAX_ARGS]);
void pl_note_relayout(struct pl_lower *l, const struct pl_op *op, const struct pl_lay *from,
                      const struct pl_lay *to);
#endif
