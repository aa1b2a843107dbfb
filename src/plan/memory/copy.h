#ifndef PL_SRC_PLAN_MEMORY_COPY_H
#define PL_SRC_PLAN_MEMORY_COPY_H
/* One copy between global and shared memory, as the ways of lowering it share it. copy.c tells of the ways. */
#include "src/plan/memory/smem.h"

struct pl_copy {
    struct pl_lower *l;
    const struct pl_op *op;
    bool is_in;
    uint32_t global, shared; /* refs */
    const struct pl_ref_info *g, *s;
    const struct pl_array *ga;
    const struct pl_smem_place *place;
    uint32_t es;
    uint32_t n_bytes;
};

struct pl_copy pl_copy_make(struct pl_lower *l, const struct pl_op *op);
/* May some of it go by the copy engine? */
bool pl_copy_is_async(struct pl_lower *l, const struct pl_op *op);
/* The copy's predicate; none: always. */
pl_reg pl_copy_predicate(const struct pl_copy *c);
/*
 * is_outside: the view is known to hang over an edge, and elsewhere the copy is asynchronous. True when the unit's threads have met
 * behind it, or each arrives for itself.
 */
bool pl_copy_by_elements(const struct pl_copy *c, bool is_outside);
/* The chunk in which each thread of the unit must copy in what it alone will read (own.c); 0: others may read it. */
uint32_t pl_copy_own_vec(const struct pl_copy *c, bool may_be_async);
/* Do threads read what the copy takes out of shared memory, or may they at run time? */
bool pl_copy_out_is_by_threads(struct pl_lower *l, const struct pl_op *op);
/* What an arrival counts for, where threads arrive for themselves; after the shared-memory map. */
void pl_bar_scales(struct pl_lower *l);
#endif
