#include "jit/ptx/parser.h"

#include <stdlib.h>
#include <string.h>

#define D (PL_PTX_C_DIGIT | PL_PTX_C_HEX | PL_PTX_C_NAME)
#define H (PL_PTX_C_HEX | PL_PTX_C_NAME | PL_PTX_C_FIRST)
#define L (PL_PTX_C_NAME | PL_PTX_C_FIRST)
const uint8_t pl_ptx_chars[256] = {
    ['\t'] = PL_PTX_C_SPACE,
    ['\n'] = PL_PTX_C_SPACE,
    ['\v'] = PL_PTX_C_SPACE,
    ['\f'] = PL_PTX_C_SPACE,
    ['\r'] = PL_PTX_C_SPACE,
    [' '] = PL_PTX_C_SPACE,
    ['0'] = D,
    ['1'] = D,
    ['2'] = D,
    ['3'] = D,
    ['4'] = D,
    ['5'] = D,
    ['6'] = D,
    ['7'] = D,
    ['8'] = D,
    ['9'] = D,
    ['A'] = H,
    ['B'] = H,
    ['C'] = H,
    ['D'] = H,
    ['E'] = H,
    ['F'] = H,
    ['G'] = L,
    ['H'] = L,
    ['I'] = L,
    ['J'] = L,
    ['K'] = L,
    ['L'] = L,
    ['M'] = L,
    ['N'] = L,
    ['O'] = L,
    ['P'] = L,
    ['Q'] = L,
    ['R'] = L,
    ['S'] = L,
    ['T'] = L,
    ['U'] = L,
    ['V'] = L,
    ['W'] = L,
    ['X'] = L,
    ['Y'] = L,
    ['Z'] = L,
    ['a'] = H,
    ['b'] = H,
    ['c'] = H,
    ['d'] = H,
    ['e'] = H,
    ['f'] = H,
    ['g'] = L,
    ['h'] = L,
    ['i'] = L,
    ['j'] = L,
    ['k'] = L,
    ['l'] = L,
    ['m'] = L,
    ['n'] = L,
    ['o'] = L,
    ['p'] = L,
    ['q'] = L,
    ['r'] = L,
    ['s'] = L,
    ['t'] = L,
    ['u'] = L,
    ['v'] = L,
    ['w'] = L,
    ['x'] = L,
    ['y'] = L,
    ['z'] = L,
    ['_'] = L,
    ['$'] = L,
    ['%'] = PL_PTX_C_FIRST,
};
#undef D
#undef H
#undef L

static unsigned class_of(char c) { return pl_ptx_chars[(unsigned char)c]; }

struct pl_where pl_ptx_at(struct pl_ptx_parser *p, const char *at)
{
    if (p->error_at == NULL)
        p->error_at = at;
    struct pl_where w = {0};
    return w;
}

const char *pl_ptx_excerpt(struct pl_ptx_parser *p, const char *at, size_t n_bytes)
{
    enum { LONGEST = 80 };
    size_t n = n_bytes < LONGEST ? n_bytes : LONGEST;
    char *s = pl_arena_strndup(p->arena, at, n);
    if (s == NULL)
        return "";
    for (char *c = s; *c != 0; c++)
        if (*c < ' ' || *c > '~')
            *c = class_of(*c) == PL_PTX_C_SPACE ? ' ' : '?';
    return s;
}

/* What stands at s, for "found '…'". */
static const char *next_word(struct pl_ptx_parser *p)
{
    if (p->s >= p->end)
        return "end of text";
    size_t n = 1;
    if (class_of(*p->s) & (PL_PTX_C_NAME | PL_PTX_C_FIRST) || *p->s == '.')
        while (class_of(p->s[n]) & PL_PTX_C_NAME || p->s[n] == '.')
            n++;
    return pl_ptx_excerpt(p, p->s, n);
}

bool pl_ptx_fail_syntax(struct pl_ptx_parser *p, const char *wanted)
{
    if (!pl_ptx_skip(p))
        return false;
    const unsigned char c = (unsigned char)*p->s;
    if (p->s < p->end && (c > '~' || c < ' ')) {
        char what[16] = "0x";
        what[2] = "0123456789abcdef"[c >> 4];
        what[3] = "0123456789abcdef"[c & 15];
        pl_d_ptx_character(&p->diags, pl_ptx_at(p, p->s), what);
    } else {
        pl_d_ptx_syntax(&p->diags, pl_ptx_at(p, p->s), wanted, next_word(p));
    }
    return false;
}

/* Past a block comment whose opening is at s. */
static bool skip_block_comment(struct pl_ptx_parser *p)
{
    const char *start = p->s;
    for (p->s += 2; p->s < p->end; p->s++) {
        if (*p->s == '\n')
            p->line++;
        if (p->s[0] == '*' && p->s[1] == '/') {
            p->s += 2;
            return true;
        }
    }
    pl_d_ptx_syntax(&p->diags, pl_ptx_at(p, start), "the end of the comment", "end of text");
    return false;
}

bool pl_ptx_skip(struct pl_ptx_parser *p)
{
    for (;;) {
        while (class_of(*p->s) == PL_PTX_C_SPACE) {
            if (*p->s == '\n')
                p->line++;
            p->s++;
        }
        if (*p->s != '/')
            return true;
        if (p->s[1] == '/') {
            while (p->s < p->end && *p->s != '\n')
                p->s++;
        } else if (p->s[1] == '*') {
            if (!skip_block_comment(p))
                return false;
        } else {
            return true;
        }
    }
}

bool pl_ptx_accept(struct pl_ptx_parser *p, char c)
{
    if (*p->s != c && (!pl_ptx_skip(p) || *p->s != c))
        return false;
    p->s++;
    return true;
}

bool pl_ptx_expect(struct pl_ptx_parser *p, char c)
{
    if (pl_ptx_accept(p, c))
        return true;
    const char wanted[4] = {'\'', c, '\'', 0};
    return pl_ptx_fail_syntax(p, wanted);
}

size_t pl_ptx_name_length(const char *s)
{
    if (!(class_of(*s) & PL_PTX_C_FIRST))
        return 0;
    size_t n = 1;
    while (class_of(s[n]) & PL_PTX_C_NAME)
        n++;
    return n;
}

bool pl_ptx_accept_word(struct pl_ptx_parser *p, const char *word)
{
    size_t n = strlen(word);
    if (!pl_ptx_skip(p) || strncmp(p->s, word, n) != 0 || class_of(p->s[n]) & PL_PTX_C_NAME)
        return false;
    p->s += n;
    return true;
}

bool pl_ptx_read_string(struct pl_ptx_parser *p)
{
    if (!pl_ptx_expect(p, '"'))
        return false;
    const char *start = p->s - 1;
    for (; p->s < p->end && *p->s != '\n'; p->s++) {
        if (*p->s == '\\' && p->s + 1 < p->end)
            p->s++;
        else if (*p->s == '"') {
            p->s++;
            return true;
        }
    }
    pl_d_ptx_syntax(&p->diags, pl_ptx_at(p, start), "a closing '\"'", "end of line");
    return false;
}

static unsigned digit_value(char c)
{
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a') + 10;
}

static bool fail_number(struct pl_ptx_parser *p, const char *start)
{
    size_t n = 1;
    while (class_of(start[n]) & PL_PTX_C_NAME || start[n] == '.')
        n++;
    pl_d_ptx_number(&p->diags, pl_ptx_at(p, start), pl_ptx_excerpt(p, start, n));
    return false;
}

/* Digits of a base at *s; false when there are none or they do not fit in 64 bits. */
static bool read_digits(const char **s, unsigned base, uint64_t *out)
{
    const char *start = *s;
    uint64_t v = 0;
    for (; class_of(**s) & PL_PTX_C_HEX && digit_value(**s) < base; ++*s) {
        uint64_t d = digit_value(**s);
        if (v > (UINT64_MAX - d) / base)
            return false;
        v = v * base + d;
    }
    *out = v;
    return *s > start;
}

/* Decimal float at s. The text goes to strtod without its point ("1.25" as "125e-2"), so no locale can matter. */
static bool read_decimal_float(struct pl_ptx_parser *p, struct pl_ptx_number *out)
{
    const char *start = p->s;
    char digits[320];
    size_t n = 0;
    long exponent = 0;
    bool has_point = false;
    for (; class_of(*p->s) & PL_PTX_C_DIGIT || (*p->s == '.' && !has_point); p->s++) {
        if (*p->s == '.') {
            has_point = true;
            continue;
        }
        if (n > 300)
            return fail_number(p, start);
        digits[n++] = *p->s;
        exponent -= has_point;
    }
    if ((*p->s | 0x20) == 'e') {
        const char *e = p->s + 1;
        bool is_negative = *e == '-';
        if (*e == '-' || *e == '+')
            e++;
        uint64_t v;
        if (!read_digits(&e, 10, &v) || v > 100000)
            return fail_number(p, start);
        exponent += is_negative ? -(long)v : (long)v;
        p->s = e;
    }
    if (n == 0 || class_of(*p->s) & PL_PTX_C_NAME)
        return fail_number(p, start);
    digits[n++] = 'e';
    if (exponent < 0)
        digits[n++] = '-';
    unsigned long e = (unsigned long)(exponent < 0 ? -exponent : exponent);
    for (unsigned long power = 1000000; power != 0; power /= 10)
        digits[n++] = (char)('0' + e / power % 10);
    digits[n] = 0;
    double d = strtod(digits, NULL);
    out->is_float = true;
    out->float_bytes = 8;
    memcpy(&out->bits, &d, sizeof d);
    return true;
}

bool pl_ptx_read_number(struct pl_ptx_parser *p, struct pl_ptx_number *out)
{
    const char *start = p->s;
    *out = (struct pl_ptx_number){0};
    char second = p->s[0] == '0' ? (char)(p->s[1] | 0x20) : 0;
    if (second == 'f' || second == 'd') {
        int n = second == 'f' ? 8 : 16;
        const char *s = p->s + 2;
        for (int i = 0; i < n; i++, s++) {
            if (!(class_of(*s) & PL_PTX_C_HEX))
                return fail_number(p, start);
            out->bits = out->bits << 4 | digit_value(*s);
        }
        out->is_float = true;
        out->float_bytes = (uint8_t)(n / 2);
        p->s = s;
        return class_of(*s) & PL_PTX_C_NAME ? fail_number(p, start) : true;
    }
    const char *s = p->s;
    while (class_of(*s) & PL_PTX_C_DIGIT)
        s++;
    if (second != 'x' && second != 'b' && (*s == '.' || (*s | 0x20) == 'e'))
        return read_decimal_float(p, out);
    unsigned base = second == 'x' ? 16 : second == 'b' ? 2 : p->s[0] == '0' ? 8 : 10;
    p->s += base == 16 || base == 2 ? 2 : 0;
    if (!read_digits(&p->s, base, &out->bits))
        return fail_number(p, start);
    if (*p->s == 'U') {
        out->is_unsigned = true;
        p->s++;
    }
    return class_of(*p->s) & PL_PTX_C_NAME ? fail_number(p, start) : true;
}
