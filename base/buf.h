#ifndef PL_BASE_BUF_H
#define PL_BASE_BUF_H
/*
 * Text buffer over an arena, always NUL-terminated once something was put. Nothing here depends on the locale: integers and
 * hexadecimal only; there is no decimal float. When the arena is exhausted the text stops growing (test the arena once).
 */
#include "base/arena.h"

#include <stdint.h>

struct pl_buf {
    struct pl_arena *arena;
    char *text;
    size_t n_bytes; /* without the NUL */
    size_t cap_bytes;
};

void pl_buf_init(struct pl_buf *b, struct pl_arena *arena, size_t first_bytes);
/* Where n_bytes characters and their NUL may be written next, NULL when the arena is exhausted; pl_buf_commit says how many came. */
char *pl_buf_room(struct pl_buf *b, size_t n_bytes);
/* The text ends at `end` now. */
static inline void pl_buf_commit(struct pl_buf *b, char *end)
{
    *end = '\0';
    b->n_bytes = (size_t)(end - b->text);
}
void pl_buf_putn(struct pl_buf *b, const char *s, size_t n_bytes);
void pl_buf_puts(struct pl_buf *b, const char *s);
void pl_buf_putc(struct pl_buf *b, char c);
void pl_buf_u64(struct pl_buf *b, uint64_t v);
void pl_buf_i64(struct pl_buf *b, int64_t v);
void pl_buf_hex(struct pl_buf *b, uint64_t v,
                int n_digits); /* upper case, exactly n_digits (1..16) */
void pl_buf_printf(struct pl_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#endif
