#ifndef PL_SRC_PLAN_INLINE_H
#define PL_SRC_PLAN_INLINE_H
/* The user's own instructions. */
#include "src/plan/lower.h"

/* The array among its inputs whose layout all of them get; 0: all are of rank 0. */
uint32_t pl_inline_array(const struct pl_lower *l, const struct pl_op *op);
#endif
