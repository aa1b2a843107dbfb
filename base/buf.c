#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void pl_buf_init(struct pl_buf *b, struct pl_arena *arena, size_t first_bytes)
{
    *b = (struct pl_buf){.arena = arena};
    b->text = pl_arena_raw(arena, first_bytes < 16 ? 16 : first_bytes);
    b->cap_bytes = b->text == NULL ? 0 : (first_bytes < 16 ? 16 : first_bytes);
    if (b->text != NULL)
        b->text[0] = '\0';
}

char *pl_buf_room(struct pl_buf *b, size_t n_bytes)
{
    if (b->cap_bytes - b->n_bytes > n_bytes)
        return b->text + b->n_bytes;
    size_t cap = b->cap_bytes < 64 ? 64 : b->cap_bytes;
    while (cap - b->n_bytes <= n_bytes) {
        if (cap > SIZE_MAX / 4)
            return NULL;
        cap *= 2;
    }
    char *p = pl_arena_raw(b->arena, cap);
    if (p == NULL)
        return NULL;
    if (b->n_bytes != 0)
        memcpy(p, b->text, b->n_bytes);
    p[b->n_bytes] = '\0';
    b->text = p;
    b->cap_bytes = cap;
    return p + b->n_bytes;
}

void pl_buf_putn(struct pl_buf *b, const char *s, size_t n_bytes)
{
    char *p = pl_buf_room(b, n_bytes);
    if (p == NULL)
        return;
    memcpy(p, s, n_bytes);
    p[n_bytes] = '\0';
    b->n_bytes += n_bytes;
}

void pl_buf_puts(struct pl_buf *b, const char *s) { pl_buf_putn(b, s, strlen(s)); }
void pl_buf_putc(struct pl_buf *b, char c) { pl_buf_putn(b, &c, 1); }

void pl_buf_u64(struct pl_buf *b, uint64_t v)
{
    char t[20];
    size_t i = sizeof t;
    do
        t[--i] = (char)('0' + v % 10);
    while ((v /= 10) != 0);
    pl_buf_putn(b, t + i, sizeof t - i);
}

void pl_buf_i64(struct pl_buf *b, int64_t v)
{
    if (v < 0)
        pl_buf_putc(b, '-');
    pl_buf_u64(b, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

void pl_buf_hex(struct pl_buf *b, uint64_t v, int n_digits)
{
    char t[16];
    for (int i = 0; i < n_digits; i++)
        t[i] = "0123456789ABCDEF"[v >> (4 * (n_digits - 1 - i)) & 15];
    pl_buf_putn(b, t, (size_t)n_digits);
}

void pl_buf_printf(struct pl_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = n < 0 ? NULL : pl_buf_room(b, (size_t)n + 1);
    if (p != NULL) {
        vsnprintf(p, (size_t)n + 1, fmt, again);
        b->n_bytes += (size_t)n;
    }
    va_end(again);
}
