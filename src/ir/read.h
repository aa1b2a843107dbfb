#ifndef PL_SRC_IR_READ_H
#define PL_SRC_IR_READ_H
/*
 * Reads the text form of a trace (src/ir/print.h) back. A test's language: it is checked for syntax, ids and the verifier's invariants,
 * not for what the builder would have said. Places of diagnostics are lines of the text.
 */
#include "src/ir/ir.h"

struct pl_ir_read_error {
    int line;
    char text[160];
};

/*
 * Fills fn, as pl_trace_run() does; the kernel of its request is made in the arena (name, parameters, no functions). `file` outlives it.
 * False with err filled on a broken text.
 */
bool pl_ir_read(struct pl_fn *fn, struct pl_arena *arena, struct pl_diags *diags, const char *file,
                const char *text, struct pl_ir_read_error *err);
#endif
