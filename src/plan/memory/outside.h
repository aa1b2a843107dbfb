#ifndef PL_SRC_PLAN_MEMORY_OUTSIDE_H
#define PL_SRC_PLAN_MEMORY_OUTSIDE_H
/* Elements of a window that lie outside its tensor. */
#include "src/plan/lower.h"

/* What load `id` gives for elements outside the tensor reaches no memory and no other element. */
bool pl_outside_is_unseen(const struct pl_lower *l, uint32_t id);
#endif
