#ifndef PL_EMU_SCHED_H
#define PL_EMU_SCHED_H
/*
 * Running a grid: its clusters on the threads of the device's pool.
 *
 * As many clusters are resident as fit the SMs; resident ones take turns, so that those which spin on each other through
 * device memory make progress. A cluster that runs to its end without using up its turn never leaves its thread.
 */
#include "emu/machine.h"

struct pl_emu_fault;
struct pl_emu_pool;

/* n_threads counts the launching one; threads are made when first needed. NULL: no memory. */
struct pl_emu_pool *pl_emu_pool_create(void);
void pl_emu_pool_destroy(struct pl_emu_pool *p);

/* Run all clusters of a grid with at most n_threads threads and n_resident clusters at once. False: *fault. */
bool pl_emu_sched_run(struct pl_emu_pool *pool, struct pl_emu_grid *g, uint32_t n_threads,
                      uint32_t n_resident, struct pl_emu_fault *fault);

/* Take the next cluster of a running grid off those to launch (clusterlaunchcontrol.try_cancel); false: none is left. */
bool pl_emu_sched_cancel(struct pl_emu_grid *g, uint32_t *index);
#endif
