#ifndef PL_SRC_IR_READ_TOKEN_H
#define PL_SRC_IR_READ_TOKEN_H
/*
 * Words of the text form of a trace (read.c reads its lines). The first failure is kept with its line; after it every function gives
 * something harmless, so that callers need not look.
 */
#include "src/ir/read.h"
#include "src/ir/trace.h"

struct pl_reader {
    struct pl_builder b;
    struct pl_fn *fn;
    struct pl_arena *arena;
    struct pl_ir_read_error *err;
    const char *file;
    const char *p; /* next character */
    int line;
    bool is_ok;
    pl_param_decl params[PL_MAX_ARGS];
    PL_VEC(uint32_t) vals, refs, bars; /* ids by printed number; [0] is none */
};

void pl_read_fail(struct pl_reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void pl_read_skip_blanks(struct pl_reader *r);
bool pl_read_at_line_end(struct pl_reader *r);
void pl_read_next_line(struct pl_reader *r);
bool pl_read_take_char(struct pl_reader *r, char c);
void pl_read_char(struct pl_reader *r, char c);
/* The next word, cut to its buffer; empty when there is none. */
void pl_read_take_word(struct pl_reader *r, char out[48]);
int64_t pl_read_int(struct pl_reader *r, int64_t least, int64_t most);
pl_dtype pl_read_dtype(struct pl_reader *r);
pl_shape pl_read_shape(struct pl_reader *r, bool may_be_dynamic);
uint32_t pl_read_val(struct pl_reader *r);
uint32_t pl_read_ref(struct pl_reader *r);
uint32_t pl_read_bar(struct pl_reader *r);
uint32_t pl_read_pipe(struct pl_reader *r);
/* The result of a line; numbers come in order. */
void pl_read_define(struct pl_reader *r, char sigil, int64_t number, uint32_t id);
int pl_read_find_view(const char *w);
int pl_read_find_op1(const char *w);
int pl_read_find_op2(const char *w);
/* One of the words that `find` knows; find gives -1 for the others. */
int pl_read_word(struct pl_reader *r, int (*find)(const char *w));
int pl_read_find_by(const char *w);
pl_layout pl_read_layout(struct pl_reader *r);
void pl_read_op_attribute(struct pl_reader *r, struct pl_op *op, const char *key);
#endif
