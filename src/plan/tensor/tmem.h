#ifndef PL_SRC_PLAN_TENSOR_TMEM_H
#define PL_SRC_PLAN_TENSOR_TMEM_H
/* Tensor memory: where arrays lie, and what threads still owe to it. */
#include "src/plan/lower.h"

/* Where a TMEM array lies. */
struct pl_tmem_place {
    uint32_t first, slot_columns;
    uint32_t per_column; /* elements of a column */
};

void pl_tmem_map(struct pl_lower *l);
uint32_t pl_tmem_scratch_need(const struct pl_lower *l, uint32_t id); /* as pl_scratch_need */
enum pl_frag pl_tmem_frag(const pl_shape *s); /* in which it is loaded and stored, unless told */
void pl_tmem_take(struct pl_lower *l); /* in the entry, before the barrier that ends the prologue */
void pl_tmem_taken(struct pl_lower *l); /* after it: the base is known */
void pl_tmem_give(struct pl_lower *l);  /* after the barrier of the epilogue */
struct pl_opnd pl_tmem_addr(struct pl_lower *l, uint32_t ref); /* of its first lane and column */
/* Loads, stores and tensor operations: waits that the threads owe, and the fences around a barrier of threads. */
void pl_tmem_settle_loads(struct pl_lower *l);
void pl_tmem_settle(struct pl_lower *l); /* stores too */
/* Stores to these columns, not waited for; all of them where it is not known which. */
void pl_tmem_note_stores(struct pl_tmem_state *t, struct pl_columns c);
struct pl_columns pl_tmem_all_columns(void);
void pl_tmem_before_barrier(struct pl_lower *l);
void pl_tmem_after_barrier(struct pl_lower *l,
                           bool is_whole);      /* all who use its columns have met */
void pl_tmem_before_tensor(struct pl_lower *l); /* the unit's threads have done theirs */
bool pl_block_has_tensor(const struct pl_lower *l, int32_t warpgroup, int32_t warp);
enum pl_sattr pl_tensor_group(const struct pl_lower *l);
#endif
