#ifndef PL_JIT_PTX_SHORT_H
#define PL_JIT_PTX_SHORT_H
/*
 * Text of short operands: those of an emitter's instruction that need no name and no list. They go straight into a buffer that has
 * room: each function writes at s and gives the end of what it wrote. Inline, since they are most of what emitting costs.
 */
#include "base/buf.h"
#include "base/debug.h"
#include "jit/ptx/ptx.h"

#include <string.h>

/* Room for n more characters and the NUL behind s, which is where the text ends; NULL when the arena is exhausted. */
static inline char *pl_ptx_more(struct pl_buf *buf, char *s, size_t n)
{
    if ((size_t)(buf->text + buf->cap_bytes - s) > n)
        return s;
    pl_buf_commit(buf, s);
    return pl_buf_room(buf, n);
}

/* n characters, where that is a constant. */
static inline char *pl_ptx_put_n(char *s, const char *text, size_t n)
{
    memcpy(s, text, n);
    return s + n;
}

static inline char *pl_ptx_put_text(char *s, const char *text)
{
    while (*text != 0)
        *s++ = *text++;
    return s;
}

static inline char *pl_ptx_put_pair(char *s, uint32_t v)
{
    static const char pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
        "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
        "8081828384858687888990919293949596979899";
    return pl_ptx_put_n(s, pairs + 2 * v, 2);
}

static inline char *pl_ptx_put_digit(char *s, uint32_t v)
{
    *s = (char)('0' + v);
    return s + 1;
}

static inline char *pl_ptx_put_long(char *s, uint64_t v)
{
    char digits[20], *at = digits + sizeof digits;
    for (; v >= 100; v /= 100)
        pl_ptx_put_pair(at -= 2, (uint32_t)(v % 100));
    if (v >= 10)
        pl_ptx_put_pair(at -= 2, (uint32_t)v);
    else
        pl_ptx_put_digit(at -= 1, (uint32_t)v);
    const size_t n = (size_t)(digits + sizeof digits - at);
    memcpy(s, at, n);
    return s + n;
}

/* Most numbers are those of registers, and short. */
static inline char *pl_ptx_put_u64(char *s, uint64_t v)
{
    const uint32_t n = (uint32_t)v;
    if (v < 10)
        return pl_ptx_put_digit(s, n);
    if (v < 100)
        return pl_ptx_put_pair(s, n);
    return v < 1000 ? pl_ptx_put_pair(pl_ptx_put_digit(s, n / 100), n % 100)
                    : pl_ptx_put_long(s, v);
}

static inline char *pl_ptx_put_i64(char *s, int64_t v)
{
    if (v < 0)
        *s++ = '-';
    return pl_ptx_put_u64(s, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

static inline char *pl_ptx_put_hex(char *s, uint64_t v, int n_digits)
{
    for (int i = n_digits - 1; i >= 0; i--)
        *s++ = "0123456789ABCDEF"[v >> (4 * i) & 15];
    return s;
}

enum { PL_PTX_LONGEST_SHORT = 48 }; /* text of a register, a constant, an address without a name */

/* %r12: the emitter's registers. s has room for 4 characters more than the name. */
static inline char *pl_ptx_put_numbered(char *s, uint32_t type, uint32_t index)
{
    static const struct {
        char text[4];
        uint8_t n_bytes;
    } prefixes[PL_PTX_TYPE_COUNT] = {
        [PL_PTX_TYPE_PRED] = {"%p", 2},  [PL_PTX_TYPE_B16] = {"%h", 2},
        [PL_PTX_TYPE_B32] = {"%r", 2},   [PL_PTX_TYPE_B64] = {"%rd", 3},
        [PL_PTX_TYPE_B128] = {"%rq", 3}, [PL_PTX_TYPE_F32] = {"%f", 2},
        [PL_PTX_TYPE_F64] = {"%fd", 3}};
    PL_ASSERT(type < PL_PTX_TYPE_COUNT && prefixes[type].n_bytes != 0);
    memcpy(s, prefixes[type].text, sizeof prefixes[type].text);
    return pl_ptx_put_u64(s + prefixes[type].n_bytes, index);
}

static inline char *pl_ptx_put_reg(char *s, uint32_t id)
{
    return pl_ptx_put_numbered(s, (id - 1) >> 24, (id - 1) & 0xffffff);
}

static inline char *pl_ptx_put_constant(char *s, const struct pl_ptx_operand *op)
{
    if (!op->is_float)
        return pl_ptx_put_i64(s, (int64_t)op->imm);
    *s++ = '0';
    *s++ = op->sub == 4 ? 'f' : 'd';
    return pl_ptx_put_hex(s, op->imm, op->sub * 2);
}

/* ".b3120", the highest digit first. */
static inline char *pl_ptx_put_selector(char *s, uint16_t select)
{
    if (select == 0)
        return s;
    *s++ = '.';
    *s++ = (select & PL_PTX_SELECT_BYTES) != 0 ? 'b' : 'h';
    for (unsigned i = pl_ptx_select_count(select); i-- > 0;)
        *s++ = (char)('0' + pl_ptx_select_digit(select, i));
    return s;
}

static inline char *pl_ptx_put_short(char *s, const struct pl_ptx_operand *op)
{
    if (op->is_negated || op->is_minus)
        *s++ = op->is_minus ? '-' : '!';
    switch (op->kind) {
    case PL_PTX_OP_REG: return pl_ptx_put_selector(pl_ptx_put_reg(s, op->reg), op->select);
    case PL_PTX_OP_IMM: return pl_ptx_put_constant(s, op);
    case PL_PTX_OP_LABEL: return pl_ptx_put_u64(pl_ptx_put_n(s, "$L", 2), op->first);
    case PL_PTX_OP_SINK: *s++ = '_'; return s;
    }
    *s++ = '['; /* an address */
    if (op->reg != 0) {
        s = pl_ptx_put_reg(s, op->reg);
        if (op->offset != 0)
            *s++ = '+'; /* the assembler wants it before a minus too: [%rd1+-4] */
    }
    if (op->reg == 0 || op->offset != 0)
        s = pl_ptx_put_i64(s, op->offset);
    *s++ = ']';
    return s;
}

/* "@!%p1 add.s32" of an emitter: guard 0 is none. s has room for two short operands and the mnemonic. */
static inline char *pl_ptx_put_start(char *s, const struct pl_ptx_ins *ins, const char *mnemonic,
                                     size_t n_bytes)
{
    if (ins->guard != 0) {
        *s++ = '@';
        if (ins->guard_is_negated)
            *s++ = '!';
        s = pl_ptx_put_reg(s, ins->guard);
        *s++ = ' ';
    }
    memcpy(s, mnemonic, n_bytes);
    return s + n_bytes;
}

static inline char *pl_ptx_put_short_list(char *s, const struct pl_ptx_operand *ops, uint32_t n)
{
    *s++ = '{';
    for (uint32_t i = 0; i < n; i++) {
        if (i != 0)
            s = pl_ptx_put_n(s, ", ", 2);
        s = pl_ptx_put_short(s, &ops[i]);
    }
    *s++ = '}';
    return s;
}
#endif
