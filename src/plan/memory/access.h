#ifndef PL_SRC_PLAN_MEMORY_ACCESS_H
#define PL_SRC_PLAN_MEMORY_ACCESS_H
/* From elements to addresses and bounds. */
#include "src/plan/lower.h"

/* One axis index of an element: a register part below `bound`, the same for all chunks, plus a constant of the chunk. */
struct pl_coord {
    struct pl_opnd thread; /* u32 */
    uint32_t bound;        /* thread < bound; 1: thread is 0 */
    int64_t konst;
};

/* Indices of the first element of chunk k. */
void pl_chunk_coords(struct pl_lower *l, const pl_shape *s, const struct pl_lay *lay, uint32_t k,
                     struct pl_coord out[PL_MAX_RANK]);
/* Indices of element `lin` (row-major) of a shape. */
void pl_linear_coords(struct pl_lower *l, const pl_shape *s, struct pl_coord lin,
                      struct pl_coord out[PL_MAX_RANK]);

/* The same of a ref, for addresses alone: where its elements follow each other in shared memory all of them are one row. */
void pl_chunk_place(struct pl_lower *l, uint32_t ref, const struct pl_lay *lay, uint32_t k,
                    struct pl_coord out[PL_MAX_RANK]);
void pl_linear_place(struct pl_lower *l, uint32_t ref, struct pl_coord lin,
                     struct pl_coord out[PL_MAX_RANK]);

/* Address of an element of a ref. */
struct pl_opnd pl_global_addr(struct pl_lower *l, uint32_t ref, const struct pl_coord *at);
struct pl_opnd pl_shared_addr(struct pl_lower *l, uint32_t ref, const struct pl_coord *at);
pl_reg pl_shared_base(struct pl_lower *l); /* shared address of the dynamic area */
pl_reg pl_peer_address(struct pl_lower *l, uint32_t ref,
                       pl_reg shared); /* of a shared address, in the CTA that a peer ref names */

/* Bounds of a GMEM ref: does any of its elements possibly lie outside its tensor or clip? */
bool pl_bounds_needed(const struct pl_lower *l, uint32_t ref);
/* Predicate: the whole ref is inside (uniform). */
pl_reg pl_bounds_fit(struct pl_lower *l, uint32_t ref);
/*
 * Of the chunk at `at`, which goes on along the last axis or along axis `run`, elements v with lo <= konst + v < hi are inside, s32,
 * where ok holds. Chunks that differ in the constants of their places only share lo and hi. run -1: all axes are in ok. is_own: by the
 * tensor's own extents, which no other tensor's chunks share.
 */
struct pl_inside {
    pl_reg ok; /* none: holds */
    struct pl_opnd lo, hi;
    int64_t konst;
    bool has_lo, has_hi; /* else there is no such bound */
    bool
        is_whole; /* all elements are inside, or none: the caller's, who asks pl_bounds_whole once */
};
struct pl_inside pl_bounds_chunk(struct pl_lower *l, uint32_t ref, const struct pl_coord *at);
struct pl_inside pl_bounds_run(struct pl_lower *l, uint32_t ref, const struct pl_coord *at, int run,
                               bool is_own);
/* No bound cuts chunks of vec elements along axis `run`, which begin at multiples of vec. */
bool pl_bounds_whole(const struct pl_lower *l, uint32_t ref, int run, uint32_t vec);
/* Where predicate p holds too. */
void pl_inside_also(struct pl_lower *l, struct pl_inside *in, pl_reg p);
/* Element v is inside: a predicate, none when always. is_one: no other element of the chunk is asked for. */
pl_reg pl_inside_guard(struct pl_lower *l, const struct pl_inside *in, uint32_t v, bool is_one);
#endif
