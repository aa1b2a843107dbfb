#ifndef PL_SRC_PLAN_REDUCE_H
#define PL_SRC_PLAN_REDUCE_H
/* The second half of a reduction over a CTA or a cluster (reduce_units.c). */
#include "src/plan/lower.h"

/* What a warpgroup reduced, v in the type of the accumulation, with the parts of all that are in the op's scope. */
struct pl_lval pl_reduce_units(struct pl_lower *l, const struct pl_op *op, struct pl_lval v);
#endif
