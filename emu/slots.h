#ifndef PL_EMU_SLOTS_H
#define PL_EMU_SLOTS_H
/*
 * Registers share places in the frame: compilers write each value to a register of its own, and thousands of lane arrays do
 * not fit a host's caches. Registers whose values are never needed at the same time get one place.
 *
 * Liveness is computed over the basic blocks, then each register takes the stretch of the text from where it is first to where
 * it is last alive; stretches of one container size are allotted greedily. Registers of asynchronous instructions, which are
 * read and written later, and those by which functions pass values keep places of their own for the whole function, and
 * so do all when the function is too large to analyse.
 */
#include "emu/flow.h"

/* Offsets of all registers but predicates, whose offsets stand already; *frame_bytes grows. False: no memory. */
bool pl_emu_assign_slots(const struct pl_ptx_module *m, const struct pl_ptx_func *f,
                         const struct pl_emu_flow *flow, struct pl_arena *scratch,
                         uint32_t *offsets, uint32_t *frame_bytes);
#endif
