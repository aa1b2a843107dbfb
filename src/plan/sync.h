#ifndef PL_SRC_PLAN_SYNC_H
#define PL_SRC_PLAN_SYNC_H
/* Barriers, arrivals, fences, and the two ends of a kernel. */
#include "src/plan/lower.h"

/* All threads of the unit meet; clears the hazards. meet: for shared memory; barrier: for tensor memory, too. */
void pl_unit_meet(struct pl_lower *l);
void pl_unit_barrier(struct pl_lower *l);
void pl_cta_barrier(struct pl_lower *l);
void pl_cluster_barrier_steps(struct pl_lower *l);
pl_reg pl_bar_value(struct pl_lower *l, uint32_t bar);
struct pl_opnd pl_bar_addr(struct pl_lower *l, uint32_t bar); /* shared address operand */
/* A barrier that only the leader of a pair waits for: arrivals of both CTAs go there. */
bool pl_bar_is_at_leader(const struct pl_lower *l, uint32_t bar);
struct pl_opnd pl_bar_leader_addr(struct pl_lower *l, uint32_t bar); /* cluster address operand */
pl_reg pl_pair_mask(struct pl_lower *l); /* both CTAs of this one's pair */
void pl_lower_prologue(struct pl_lower *l);
void pl_lower_grid_order(struct pl_lower *l); /* the wait for the grid before */
void pl_lower_epilogue(struct pl_lower *l);
void pl_drain_out(struct pl_lower *l);
void pl_arrive_leader(struct pl_lower *l, uint32_t bar);
/* One arrival at a barrier of the cluster, expecting n more bytes, under the guard. */
void pl_arrive_tx_peer(struct pl_lower *l, uint32_t bar, struct pl_opnd addr, struct pl_opnd n);
/* n arrivals of the leader that leave the phase open: more of the same event follow. */
void pl_arrive_part(struct pl_lower *l, struct pl_opnd addr, uint32_t n);

int32_t pl_registers_at_launch(const struct pl_lower *l); /* of a thread, at most */
#endif
