#ifndef PL_SRC_PLAN_MEET_H
#define PL_SRC_PLAN_MEET_H
/* Meetings that order nothing. */
#include "src/plan/lower.h"

/* Of the whole program: take out barriers that order nothing. */
void pl_lower_drop_barriers(struct pl_arena *arena, struct pl_steps *steps);
#endif
