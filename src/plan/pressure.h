#ifndef PL_SRC_PLAN_PRESSURE_H
#define PL_SRC_PLAN_PRESSURE_H
/* How many registers a thread needs at once. */
#include "src/plan/lower.h"

uint32_t pl_pressure(struct pl_arena *arena, const struct pl_steps *steps); /* 32-bit ones */
#endif
