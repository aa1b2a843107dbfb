#ifndef PL_SRC_PLAN_WORK_H
#define PL_SRC_PLAN_WORK_H
/* Is there work for this CTA? */
#include "src/plan/lower.h"

/* A CTA without work goes to the end at once, where that can be told. */
void pl_lower_work(struct pl_lower *l);
#endif
