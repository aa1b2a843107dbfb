#ifndef PL_EMU_CLUSTER_H
#define PL_EMU_CLUSTER_H
/*
 * A cluster while it runs: its storage, made once and used for one cluster after the other of a grid, and its round robin.
 */
#include "emu/machine.h"

struct pl_emu_launch;

enum pl_emu_run {
    PL_EMU_RUN_DONE,      /* every thread has exited */
    PL_EMU_RUN_SUSPENDED, /* the quantum is used up */
    PL_EMU_RUN_FAULT,     /* cluster->faults holds the diagnostic */
};

/* Storage for the clusters of a grid; NULL: no memory. */
struct pl_emu_cluster *pl_emu_cluster_create(struct pl_emu_grid *g);
void pl_emu_cluster_destroy(struct pl_emu_cluster *cl);

/* Make it the cluster `index` of its grid, on SM `sm`. False: no memory. */
bool pl_emu_cluster_start(struct pl_emu_cluster *cl, uint32_t index, uint32_t sm);
/* Run for about n_steps warp instructions. */
enum pl_emu_run pl_emu_cluster_run(struct pl_emu_cluster *cl, uint64_t n_steps);
#endif
