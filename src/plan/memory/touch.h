#ifndef PL_SRC_PLAN_MEMORY_TOUCH_H
#define PL_SRC_PLAN_MEMORY_TOUCH_H
/* Who touches shared memory, and how, over the whole program. */
#include "src/plan/lower.h"

/* What the whole program does to the memory of an SMEM array. */
struct pl_touch {
    bool is_async;  /* accessed by the copy engine or the tensor core */
    bool is_stored; /* by threads that fence nothing themselves */
};

void pl_touch_find(struct pl_lower *l); /* after the shared-memory map */
bool pl_array_is_async(const struct pl_lower *l, uint32_t array);
/* What threads stored to this array, or to any, for the asynchronous accesses of it: a fence, or nothing where there are none. */
void pl_fence_array(struct pl_lower *l, uint32_t array);
void pl_fence_stores(struct pl_lower *l);
#endif
