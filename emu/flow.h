#ifndef PL_EMU_FLOW_H
#define PL_EMU_FLOW_H
/* Control flow of one function: where the sides of each branch meet again. */
#include "emu/cfg.h"
#include "jit/ptx/ptx.h"

struct pl_emu_flow {
    const uint32_t *
        meet; /* of each instruction that can split a group: the instruction where it meets again, else PL_EMU_NO_NODE */
    const uint8_t *is_meet; /* of each instruction: it is one */
    /* Basic blocks, for liveness: block b holds instructions first[b] … first[b + 1] - 1, counted from the function's first. */
    uint32_t n_blocks;
    const uint32_t *first;
    const uint32_t *first_succ, *succ;
};

/* In the scratch arena; NULL: no memory. */
const struct pl_emu_flow *pl_emu_flow_of(const struct pl_ptx_module *m, const struct pl_ptx_func *f,
                                         struct pl_arena *scratch);
#endif
