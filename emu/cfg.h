#ifndef PL_EMU_CFG_H
#define PL_EMU_CFG_H
/*
 * Immediate post-dominators of a control-flow graph: where the groups that a branch splits meet again.
 *
 * Exits are treated so that lanes which leave early do not keep the others from meeting: paths that cannot reach a *main*
 * exit (the return, or an entry's last one) are left out while the others are computed, then handled among themselves. A
 * node from which no exit can be reached (an endless loop) has none, nor has one with a successor that was left out: those who
 * go there never meet the rest.
 *
 * Source: Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm", on the reversed graph.
 */
#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

#define PL_EMU_NO_NODE UINT32_MAX

enum pl_emu_exit { PL_EMU_EXIT_NONE, PL_EMU_EXIT_MAIN, PL_EMU_EXIT_EARLY };

struct pl_emu_cfg {
    uint32_t n_nodes;
    const uint32_t *first_succ; /* n_nodes + 1: successors of n are succ[first_succ[n]] … */
    const uint32_t *succ;
    const uint8_t *exit; /* enum pl_emu_exit of each node */
};

/* ipdom[n]: the immediate post-dominator of n, PL_EMU_NO_NODE where it is the exit or there is none. False: no memory. */
bool pl_emu_cfg_ipdom(const struct pl_emu_cfg *g, struct pl_arena *scratch, uint32_t *ipdom);
#endif
