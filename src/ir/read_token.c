#include "src/ir/read_token.h"

#include "src/ir/print.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void pl_read_fail(struct pl_reader *r, const char *fmt, ...)
{
    if (!r->is_ok)
        return;
    r->is_ok = false;
    r->err->line = r->line;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r->err->text, sizeof r->err->text, fmt, ap);
    va_end(ap);
}

/* ---- tokens ---- */

void pl_read_skip_blanks(struct pl_reader *r)
{
    while (*r->p == ' ' || *r->p == '\t' || *r->p == '\r')
        r->p++;
}

bool pl_read_at_line_end(struct pl_reader *r)
{
    pl_read_skip_blanks(r);
    return *r->p == '\n' || *r->p == '\0' || *r->p == ';';
}

void pl_read_next_line(struct pl_reader *r)
{
    while (*r->p != '\n' && *r->p != '\0')
        r->p++;
    if (*r->p == '\n')
        r->p++;
    r->line++;
}

bool pl_read_take_char(struct pl_reader *r, char c)
{
    pl_read_skip_blanks(r);
    if (*r->p != c)
        return false;
    r->p++;
    return true;
}

void pl_read_char(struct pl_reader *r, char c)
{
    if (!pl_read_take_char(r, c))
        pl_read_fail(r, "'%c' expected", c);
}

static bool is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

void pl_read_take_word(struct pl_reader *r, char out[48])
{
    size_t n = 0;
    pl_read_skip_blanks(r);
    for (; is_word_char(*r->p); r->p++)
        if (n < 47)
            out[n++] = *r->p;
    out[n] = '\0';
}

static bool take_int(struct pl_reader *r, int64_t *v)
{
    pl_read_skip_blanks(r);
    bool is_negative = *r->p == '-';
    const char *digits = r->p + is_negative;
    uint64_t u = 0;
    if (*digits < '0' || *digits > '9')
        return false;
    for (; *digits >= '0' && *digits <= '9'; digits++)
        u = u * 10 + (uint64_t)(*digits - '0');
    r->p = digits;
    *v = is_negative ? (int64_t)(0 - u) : (int64_t)u;
    return true;
}

int64_t pl_read_int(struct pl_reader *r, int64_t least, int64_t most)
{
    int64_t v = 0;
    if (!take_int(r, &v) || v < least || v > most) {
        pl_read_fail(r, "a number from %lld to %lld expected", (long long)least, (long long)most);
        return least;
    }
    return v;
}

static double need_double(struct pl_reader *r)
{
    uint64_t bits = 0;
    double f;
    pl_read_skip_blanks(r);
    if (r->p[0] != '0' || r->p[1] != 'd') {
        pl_read_fail(r, "0d and 16 hexadecimal digits expected");
        return 0;
    }
    r->p += 2;
    for (int i = 0; i < 16; i++, r->p++) {
        const char *hex = "0123456789ABCDEF", *d = *r->p == '\0' ? NULL : strchr(hex, *r->p);
        if (d == NULL) {
            pl_read_fail(r, "0d and 16 hexadecimal digits expected");
            return 0;
        }
        bits = bits << 4 | (uint64_t)(d - hex);
    }
    memcpy(&f, &bits, sizeof f);
    return f;
}

pl_dtype pl_read_dtype(struct pl_reader *r)
{
    char w[48];
    pl_read_take_word(r, w);
    pl_dtype t = pl_dtype_find(w);
    if (t == PL_DTYPE_NONE)
        pl_read_fail(r, "dtype expected, not '%s'", w);
    return t;
}

pl_shape pl_read_shape(struct pl_reader *r, bool may_be_dynamic)
{
    pl_shape s = PL_SHAPE_SCALAR;
    pl_read_char(r, '[');
    if (pl_read_take_char(r, ']'))
        return s;
    do {
        if (s.rank == PL_MAX_RANK) {
            pl_read_fail(r, "more than %d axes", PL_MAX_RANK);
            return s;
        }
        if (may_be_dynamic && pl_read_take_char(r, '?'))
            s.d[s.rank++] = -1;
        else
            s.d[s.rank++] = pl_read_int(r, 0, (int64_t)1 << 40);
    } while (r->is_ok && pl_read_take_char(r, ','));
    pl_read_char(r, ']');
    return s;
}

/* ---- ids ---- */

static uint32_t look_up(struct pl_reader *r, const uint32_t *ids, uint32_t n, const char *what)
{
    uint32_t i = (uint32_t)pl_read_int(r, 0, INT32_MAX);
    if (i != 0 && (i >= n || ids[i] == 0)) {
        pl_read_fail(r, "%s %u is used before it is made", what, i);
        return 0;
    }
    return i == 0 ? 0 : ids[i];
}

uint32_t pl_read_val(struct pl_reader *r)
{
    pl_read_char(r, '%');
    return look_up(r, r->vals.data, r->vals.n, "value");
}

uint32_t pl_read_ref(struct pl_reader *r)
{
    pl_read_char(r, '$');
    return look_up(r, r->refs.data, r->refs.n, "ref");
}

uint32_t pl_read_bar(struct pl_reader *r)
{
    pl_read_char(r, '!');
    return look_up(r, r->bars.data, r->bars.n, "barrier");
}

uint32_t pl_read_pipe(struct pl_reader *r)
{
    pl_read_char(r, '#');
    return (uint32_t)pl_read_int(r, 1, (int64_t)r->fn->pipes.n - 1);
}

void pl_read_define(struct pl_reader *r, char sigil, int64_t number, uint32_t id)
{
    uint32_t *slot = NULL, n = 0;
    if (sigil == '%')
        slot = pl_vec_push(r->arena, &r->vals), n = r->vals.n;
    else if (sigil == '$')
        slot = pl_vec_push(r->arena, &r->refs), n = r->refs.n;
    else if (sigil == '!')
        slot = pl_vec_push(r->arena, &r->bars), n = r->bars.n;
    if (slot == NULL)
        return;
    *slot = id;
    if (number != (int64_t)n - 1)
        pl_read_fail(r, "%c%lld is out of order: %c%u is next", sigil, (long long)number, sigil,
                     n - 1);
}

/* ---- attributes ---- */

/* The index of a word in a family of words, or -1. */
#define FIND_WORD(w, function, T)                                                                  \
    int found = -1;                                                                                \
    for (int i = 0; found < 0 && function((T)i) != NULL; i++)                                      \
        found = strcmp(w, function((T)i)) == 0 ? i : -1;

static int find_layout(const char *w)
{
    FIND_WORD(w, pl_ir_layout_word, pl_layout_kind)
    return found;
}
static int find_scope(const char *w)
{
    FIND_WORD(w, pl_ir_scope_word, pl_scope)
    return found;
}
int pl_read_find_view(const char *w)
{
    FIND_WORD(w, pl_ir_view_word, enum pl_view_kind)
    return found;
}
static int find_atomic(const char *w)
{
    FIND_WORD(w, pl_ir_atomic_word, pl_atomic)
    return found;
}
static int find_fence(const char *w)
{
    FIND_WORD(w, pl_ir_fence_word, pl_fence_kind)
    return found;
}
int pl_read_find_by(const char *w)
{
    FIND_WORD(w, pl_ir_by_word, pl_by)
    return found;
}

int pl_read_find_op1(const char *w)
{
    for (int i = 1; i < PL_OP1_COUNT; i++)
        if (strcmp(w, pl_op1_name((pl_op1)i)) == 0)
            return i;
    return -1;
}

int pl_read_find_op2(const char *w)
{
    for (int i = 1; i < PL_OP2_COUNT; i++)
        if (strcmp(w, pl_op2_name((pl_op2)i)) == 0)
            return i;
    return -1;
}

int pl_read_word(struct pl_reader *r, int (*find)(const char *w))
{
    char w[48];
    pl_read_take_word(r, w);
    int i = find(w);
    if (i < 0)
        pl_read_fail(r, "'%s' is not one of the words that belong here", w);
    return i < 0 ? 0 : i;
}

pl_layout pl_read_layout(struct pl_reader *r)
{
    pl_layout l = {.kind = (pl_layout_kind)pl_read_word(r, find_layout)};
    pl_read_char(r, '/');
    l.vec = (int32_t)pl_read_int(r, INT32_MIN, INT32_MAX);
    pl_read_char(r, '/');
    l.reduced_axes = (uint32_t)pl_read_int(r, 0, UINT32_MAX);
    return l;
}

static char *need_text(struct pl_reader *r)
{
    pl_read_char(r, '"');
    char *out = pl_arena_alloc(r->arena, strcspn(r->p, "\n") + 1);
    size_t n = 0;
    for (; out != NULL && *r->p != '"' && *r->p != '\n' && *r->p != '\0'; r->p++) {
        if (*r->p == '\\' && r->p[1] != '\0' && r->p[1] != '\n')
            r->p++, out[n++] = *r->p == 'n' ? '\n' : *r->p;
        else
            out[n++] = *r->p;
    }
    pl_read_char(r, '"');
    return out;
}

static int32_t find_sub(struct pl_reader *r, enum pl_opcode code)
{
    return code == PL_OP_ATOMIC  ? pl_read_word(r, find_atomic)
           : code == PL_OP_FENCE ? pl_read_word(r, find_fence)
                                 : pl_read_word(r, pl_read_find_op2);
}

void pl_read_op_attribute(struct pl_reader *r, struct pl_op *op, const char *key)
{
    if (strcmp(key, "flag") == 0)
        op->is_flag = true;
    else if (strcmp(key, "index") == 0)
        op->is_index = true;
    else
        pl_read_char(r, '=');
    if (strcmp(key, "op") == 0)
        op->sub = find_sub(r, op->code);
    else if (strcmp(key, "axis") == 0)
        op->axis = (int32_t)pl_read_int(r, INT32_MIN, INT32_MAX);
    else if (strcmp(key, "n") == 0)
        op->n = (int32_t)pl_read_int(r, INT32_MIN, INT32_MAX);
    else if (strcmp(key, "scope") == 0)
        op->scope = (pl_scope)pl_read_word(r, find_scope);
    else if (strcmp(key, "oob") == 0)
        op->oob = (pl_oob)pl_read_int(r, 0, PL_OOB_PROMISE);
    else if (strcmp(key, "how") == 0)
        op->how = (pl_how)pl_read_int(r, 0, PL_HOW_ELEMENTS);
    else if (strcmp(key, "mask") == 0)
        op->mask = (uint32_t)pl_read_int(r, 0, UINT32_MAX);
    else if (strcmp(key, "i") == 0)
        op->i = pl_read_int(r, INT64_MIN, INT64_MAX);
    else if (strcmp(key, "f") == 0)
        op->f = need_double(r);
    else if (strcmp(key, "layout") == 0)
        op->layout = pl_read_layout(r);
    else if (strcmp(key, "text") == 0)
        op->text = need_text(r);
    else if (strcmp(key, "flag") != 0 && strcmp(key, "index") != 0)
        pl_read_fail(r, "unknown attribute '%s'", key);
}
