#ifndef PL_EMU_REGS_H
#define PL_EMU_REGS_H
/*
 * How many registers a function would take: the most 32-bit registers alive at one instruction, predicates not counted, between
 * 16 and 255, and at most what .maxnreg, .maxntid and .reqntid leave. An estimate: a register counts as alive from its first to its last instruction in
 * text order, and through every loop that it enters. An assembler allocates better, and spills.
 */
#include "jit/ptx/ptx.h"

struct pl_arena;

/* 16 when the arena is exhausted. */
uint32_t pl_emu_regs_estimate(const struct pl_ptx_module *m, const struct pl_ptx_func *f,
                              struct pl_arena *scratch);
#endif
