#ifndef PL_SRC_PLAN_TENSOR_WGMMA_H
#define PL_SRC_PLAN_TENSOR_WGMMA_H
/* Warpgroup matrix operations in flight. */
#include "src/plan/lower.h"

/* Until no matrix operation reads a value of this loop from registers; until none is in flight. */
void pl_wgmma_settle(struct pl_lower *l);
void pl_wgmma_drain(struct pl_lower *l);
#endif
