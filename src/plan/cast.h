#ifndef PL_SRC_PLAN_CAST_H
#define PL_SRC_PLAN_CAST_H
/* Conversions of one element. */
#include "src/plan/lower.h"

struct pl_opnd pl_elem_cast(struct pl_lower *l, pl_dtype from, pl_dtype to, struct pl_opnd x);
#endif
