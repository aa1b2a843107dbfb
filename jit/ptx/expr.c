/*
 * Constant expressions: C's operators over 64-bit integers, signed unless a literal has U or does not fit, and + - * / over
 * floats. PTX ISA, "Constants: Constant Expressions".
 */
#include "jit/ptx/parser.h"

#include <string.h>

static bool fail_const(struct pl_ptx_parser *p, const char *at, const char *what)
{
    pl_d_ptx_constant(&p->diags, pl_ptx_at(p, at), what);
    return false;
}

static double as_double(const struct pl_ptx_const *c)
{
    if (!c->is_float)
        return c->is_unsigned ? (double)c->bits : (double)(int64_t)c->bits;
    double d;
    float f;
    uint32_t low = (uint32_t)c->bits;
    memcpy(&d, &c->bits, sizeof d);
    memcpy(&f, &low, sizeof f);
    return c->float_bytes == 4 ? (double)f : d;
}

static void set_double(struct pl_ptx_const *c, double d)
{
    *c = (struct pl_ptx_const){.is_float = true, .float_bytes = 8};
    memcpy(&c->bits, &d, sizeof d);
}

static bool read_ternary(struct pl_ptx_parser *p, struct pl_ptx_const *out);
static bool read_unary(struct pl_ptx_parser *p, struct pl_ptx_const *out);

static bool read_primary(struct pl_ptx_parser *p, struct pl_ptx_const *out)
{
    if (!pl_ptx_skip(p))
        return false;
    const char *at = p->s;
    if (pl_ptx_accept(p, '(')) {
        if (pl_ptx_accept_word(p, ".s64") || pl_ptx_accept_word(p, ".u64")) {
            bool is_unsigned = p->s[-3] == 'u';
            if (!pl_ptx_expect(p, ')') || !read_unary(p, out))
                return false;
            if (out->is_float)
                return fail_const(p, at, "a float has no integer cast");
            out->is_unsigned = is_unsigned;
            return true;
        }
        return read_ternary(p, out) && pl_ptx_expect(p, ')');
    }
    if (pl_ptx_accept_word(p, "WARP_SZ")) {
        *out = (struct pl_ptx_const){.bits = 32};
        return true;
    }
    struct pl_ptx_number n;
    if (!(pl_ptx_chars[(unsigned char)*p->s] & PL_PTX_C_DIGIT) && *p->s != '.')
        return pl_ptx_fail_syntax(p, "a constant");
    if (!pl_ptx_read_number(p, &n))
        return false;
    *out = (struct pl_ptx_const){n.is_float, n.float_bytes,
                                 n.is_unsigned || (!n.is_float && n.bits > INT64_MAX), n.bits};
    return true;
}

static bool read_unary(struct pl_ptx_parser *p, struct pl_ptx_const *out)
{
    if (++p->expr_depth > PL_PTX_MAX_DEPTH)
        return fail_const(p, p->s, "nested too deeply");
    const char *at = p->s;
    bool ok;
    if (pl_ptx_accept(p, '-')) {
        ok = read_unary(p, out);
        if (ok && out->is_float)
            out->bits ^= out->float_bytes == 4 ? UINT64_C(1) << 31 : UINT64_C(1) << 63;
        else if (ok)
            out->bits = 0 - out->bits;
    } else if (pl_ptx_accept(p, '+')) {
        ok = read_unary(p, out);
    } else if (pl_ptx_accept(p, '~') || pl_ptx_accept(p, '!')) {
        bool is_not = p->s[-1] == '!';
        ok = read_unary(p, out);
        if (ok && out->is_float)
            ok = fail_const(p, at, "~ and ! take integers");
        else if (ok)
            out->bits = is_not ? out->bits == 0 : ~out->bits;
    } else {
        ok = read_primary(p, out);
    }
    p->expr_depth--;
    return ok;
}

struct op {
    char text[3];
    uint8_t level;
};

/* Binary operators, tightest first in the text match (two characters before one). */
static const struct op ops[] = {{"<<", 7}, {">>", 7}, {"<=", 6}, {">=", 6}, {"==", 5}, {"!=", 5},
                                {"&&", 1}, {"||", 0}, {"*", 9},  {"/", 9},  {"%", 9},  {"+", 8},
                                {"-", 8},  {"<", 6},  {">", 6},  {"&", 4},  {"^", 3},  {"|", 2}};

static const struct op *find_op(const char *s)
{
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (strncmp(s, ops[i].text, strlen(ops[i].text)) == 0)
            return &ops[i];
    return NULL;
}

static bool apply_float(struct pl_ptx_parser *p, const char *at, const struct op *op,
                        struct pl_ptx_const *a, const struct pl_ptx_const *b)
{
    double x = as_double(a), y = as_double(b);
    if (op->level < 8 || op->text[0] == '%')
        return fail_const(p, at, "floats take + - * / only");
    set_double(a, op->text[0] == '+'   ? x + y
                  : op->text[0] == '-' ? x - y
                  : op->text[0] == '*' ? x * y
                                       : x / y);
    return true;
}

static uint64_t compare(const struct op *op, const struct pl_ptx_const *a,
                        const struct pl_ptx_const *b, bool is_unsigned)
{
    bool lt = is_unsigned ? a->bits < b->bits : (int64_t)a->bits < (int64_t)b->bits;
    bool eq = a->bits == b->bits;
    bool has_eq = op->text[1] == '=';
    return op->text[0] == '<' ? lt || (eq && has_eq) : (!lt && !eq) || (eq && has_eq);
}

static uint64_t divide(uint64_t a, uint64_t b, bool is_unsigned, bool is_rem)
{
    if (is_unsigned)
        return is_rem ? a % b : a / b;
    if (b == UINT64_MAX) /* by -1: the one quotient that can overflow wraps */
        return is_rem ? 0 : 0 - a;
    return (uint64_t)(is_rem ? (int64_t)a % (int64_t)b : (int64_t)a / (int64_t)b);
}

static uint64_t shift_right(uint64_t a, uint64_t n, bool is_unsigned)
{
    bool is_negative = !is_unsigned && (int64_t)a < 0;
    if (n > 63)
        return is_negative ? UINT64_MAX : 0;
    uint64_t fill = is_negative && n != 0 ? UINT64_MAX << (64 - n) : 0;
    return a >> n | fill;
}

static bool apply(struct pl_ptx_parser *p, const char *at, const struct op *op,
                  struct pl_ptx_const *a, const struct pl_ptx_const *b)
{
    if (a->is_float || b->is_float)
        return apply_float(p, at, op, a, b);
    bool is_unsigned = a->is_unsigned || b->is_unsigned;
    uint64_t x = a->bits, y = b->bits;
    switch (op->level) {
    case 9:
        if (op->text[0] != '*' && y == 0)
            return fail_const(p, at, "division by zero");
        x = op->text[0] == '*' ? x * y : divide(x, y, is_unsigned, op->text[0] == '%');
        break;
    case 8: x = op->text[0] == '+' ? x + y : x - y; break;
    case 7:
        x = op->text[0] == '<' ? (y > 63 ? 0 : x << y) : shift_right(x, y, a->is_unsigned);
        is_unsigned = a->is_unsigned;
        break;
    case 6:
        x = compare(op, a, b, is_unsigned);
        is_unsigned = false;
        break;
    case 5:
        x = (x == y) == (op->text[0] == '=');
        is_unsigned = false;
        break;
    case 4: x &= y; break;
    case 3: x ^= y; break;
    case 2: x |= y; break;
    case 1:
        x = x != 0 && y != 0;
        is_unsigned = false;
        break;
    case 0:
        x = x != 0 || y != 0;
        is_unsigned = false;
        break;
    }
    a->bits = x;
    a->is_unsigned = is_unsigned;
    return true;
}

/* Operators of at least this level, left to right. */
static bool read_binary(struct pl_ptx_parser *p, unsigned level, struct pl_ptx_const *out)
{
    if (!read_unary(p, out))
        return false;
    for (;;) {
        if (!pl_ptx_skip(p))
            return false;
        const struct op *op = find_op(p->s);
        if (op == NULL || op->level < level)
            return true;
        const char *at = p->s;
        p->s += strlen(op->text);
        struct pl_ptx_const right;
        if (!read_binary(p, op->level + 1u, &right) || !apply(p, at, op, out, &right))
            return false;
    }
}

static bool read_ternary(struct pl_ptx_parser *p, struct pl_ptx_const *out)
{
    const char *at = p->s;
    if (++p->expr_depth > PL_PTX_MAX_DEPTH)
        return fail_const(p, at, "nested too deeply");
    bool ok = read_binary(p, 0, out);
    if (ok && pl_ptx_accept(p, '?')) {
        struct pl_ptx_const yes, no;
        ok = read_ternary(p, &yes) && pl_ptx_expect(p, ':') && read_ternary(p, &no);
        if (ok && out->is_float)
            ok = fail_const(p, at, "?: takes an integer condition");
        else if (ok)
            *out = out->bits != 0 ? yes : no;
    }
    p->expr_depth--;
    return ok;
}

bool pl_ptx_read_const(struct pl_ptx_parser *p, struct pl_ptx_const *out)
{
    p->expr_depth = 0;
    return read_ternary(p, out);
}

bool pl_ptx_read_int(struct pl_ptx_parser *p, int64_t *out)
{
    struct pl_ptx_const c;
    if (!pl_ptx_skip(p))
        return false;
    const char *at = p->s;
    if (!pl_ptx_read_const(p, &c))
        return false;
    if (c.is_float)
        return fail_const(p, at, "an integer is wanted");
    *out = (int64_t)c.bits;
    return true;
}

bool pl_ptx_const_as(const struct pl_ptx_const *c, enum pl_ptx_type type, uint64_t *bits)
{
    const struct pl_ptx_type_info *t = &pl_ptx_types[type];
    if (t->class == PL_PTX_CLASS_FLOAT && t->bits >= 32) {
        if (t->bits == 32 && c->is_float && c->float_bytes == 4) {
            *bits = c->bits;
            return true;
        }
        double d = as_double(c);
        float f = (float)d;
        uint32_t low;
        memcpy(&low, &f, sizeof low);
        memcpy(bits, &d, sizeof d);
        if (t->bits == 32)
            *bits = low;
        return true;
    }
    if (c->is_float && (t->class != PL_PTX_CLASS_BITS || t->bits != c->float_bytes * 8u))
        return false;
    *bits = c->bits;
    return true;
}
