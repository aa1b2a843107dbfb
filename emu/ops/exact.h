#ifndef PL_EMU_OPS_EXACT_H
#define PL_EMU_OPS_EXACT_H
/* Floating arithmetic of one lane by exact integer arithmetic (base/num.h), for any format and modes. */
#include "emu/ops/mode.h"

enum pl_emu_exact_op {
    PL_EMU_EXACT_ADD,
    PL_EMU_EXACT_SUB,
    PL_EMU_EXACT_MUL,
    PL_EMU_EXACT_FMA,
    PL_EMU_EXACT_DIV,
    PL_EMU_EXACT_RCP,
    PL_EMU_EXACT_SQRT,
};

/* m.op: enum pl_emu_exact_op; m.to: format of the result and of the last operand; m.from: format of the others. Bits in the
 * low end of the arguments and of the result. */
uint64_t pl_emu_exact_lane(struct pl_emu_mode m, uint64_t a, uint64_t b, uint64_t c);

#endif
