#ifndef PL_SRC_IR_PRINT_H
#define PL_SRC_IR_PRINT_H
/*
 * The text form of a trace: what PLAUNCH_DEBUG=trace shows and the language of tests/ir. It reads back (src/ir/read.h) to an equal
 * trace, and printing that gives the same text. Ids are numbered from 1 in order of appearance: %value $ref !barrier #pipe.
 *
 *   kernel NAME sm_90            the request: one line each for arguments, block shape
 *   arg x in bf16[?,64] facts=3
 *   %3 = add i32 %1 %2           result, operation, type, operands, attributes that are not 0
 *   for %4 %5 %6 {               regions
 *   }
 *
 * A comment runs from ';' to the end of the line; the printer puts the level of uniformity there.
 */
#include "base/buf.h"
#include "src/ir/ir.h"

void pl_ir_print(const struct pl_fn *fn, struct pl_buf *out);

/* Text of a shape, "64x64", "()" or "?x64", in an arena. */
const char *pl_ir_shape_text(struct pl_arena *arena, const pl_shape *s);

/* Words of the text form, for its reader; NULL past the end. */
const char *pl_ir_layout_word(pl_layout_kind kind);
const char *pl_ir_scope_word(pl_scope scope);
const char *pl_ir_view_word(enum pl_view_kind view);
const char *pl_ir_atomic_word(pl_atomic op);
const char *pl_ir_fence_word(pl_fence_kind kind);
const char *pl_ir_by_word(pl_by by);
#endif
