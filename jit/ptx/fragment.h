#ifndef PL_JIT_PTX_FRAGMENT_H
#define PL_JIT_PTX_FRAGMENT_H
/*
 * Instructions that a user wrote, for the middle of somebody else's function: "add.s32 $0, $1, $2; not.b32 $0, $0;". $0, $1, ... are
 * registers of the surrounding function (print.h numbers them by type); $$ is a dollar sign. The text stands in braces, so that
 * its own registers and labels are seen by nobody else, and it may stand there several times.
 */
#include "jit/ptx/print.h"

/* At most this many operands. */
enum { PL_PTX_FRAGMENT_OPERANDS = 16 };

struct pl_ptx_fragment {
    const char *text;
    uint32_t n_operands;
    const uint32_t *operands; /* pl_ptx_reg_id of each */
};

/* The text in braces, its operands by name; a $ number that names no operand stays as it is, which no PTX reader takes. */
void pl_ptx_fragment_print(struct pl_buf *buf, const struct pl_ptx_fragment *f);

/*
 * What its instructions need, on a chip of compute capability sm: the text is read as the assembler would. False: *error says why, with
 * the line counted from the text's first.
 */
bool pl_ptx_fragment_gate(const struct pl_ptx_fragment *f, uint16_t sm, struct pl_arena *arena,
                          struct pl_ptx_gate *out, struct pl_ptx_error *error);
#endif
