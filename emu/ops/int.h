#ifndef PL_EMU_OPS_INT_H
#define PL_EMU_OPS_INT_H
/* Integer arithmetic on one lane that C does not have (private to emu/ops/). */
#include "base/num.h"

#include <stdbool.h>
#include <stdint.h>

static inline uint64_t mul_hi_u64(uint64_t a, uint64_t b)
{
    return (uint64_t)((pl_u128)a * b >> 64);
}

static inline uint64_t mul_hi_s64(uint64_t a, uint64_t b)
{
    return mul_hi_u64(a, b) - (a >> 63 ? b : 0) - (b >> 63 ? a : 0);
}

/* ---- PTX ISA, "Integer Arithmetic Instructions" ---- */

/* add.sat, sub.sat, mad.hi.sat: clamp to .s32 */
static inline uint32_t sat_s32(int64_t v)
{
    v = v > INT32_MAX ? INT32_MAX : v;
    return (uint32_t)(v < INT32_MIN ? INT32_MIN : v);
}

/* mul24: the low 24 bits of each operand, sign-extended for .s32, multiplied to 48 bits. */
static inline int64_t mul24(uint32_t a, uint32_t b, bool is_signed)
{
    if (is_signed)
        return (int64_t)((int32_t)(a << 8) >> 8) * ((int32_t)(b << 8) >> 8);
    return (int64_t)((uint64_t)(a & 0xffffffu) * (b & 0xffffffu));
}

/*
 * Division by zero is not specified: the quotient and the remainder are all ones, as the assembler folds them. The least
 * integer by -1 gives itself and remainder 0. Neither may trap the host.
 */
static inline uint64_t div_u(uint64_t a, uint64_t b) { return b == 0 ? UINT64_MAX : a / b; }
static inline uint64_t rem_u(uint64_t a, uint64_t b) { return b == 0 ? UINT64_MAX : a % b; }
static inline uint64_t div_s(int64_t a, int64_t b)
{
    if (b == 0)
        return UINT64_MAX;
    return b == -1 ? -(uint64_t)a : (uint64_t)(a / b);
}
static inline uint64_t rem_s(int64_t a, int64_t b)
{
    if (b == 0)
        return UINT64_MAX;
    return b == -1 ? 0 : (uint64_t)(a % b);
}

static inline uint32_t clz32(uint32_t a) { return a == 0 ? 32 : (uint32_t)__builtin_clz(a); }
static inline uint32_t clz64(uint64_t a) { return a == 0 ? 64 : (uint32_t)__builtin_clzll(a); }

static inline uint32_t brev32(uint32_t a)
{
    a = (a >> 1 & 0x55555555u) | (a & 0x55555555u) << 1;
    a = (a >> 2 & 0x33333333u) | (a & 0x33333333u) << 2;
    a = (a >> 4 & 0x0f0f0f0fu) | (a & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(a);
}
static inline uint64_t brev64(uint64_t a)
{
    return (uint64_t)brev32((uint32_t)a) << 32 | brev32((uint32_t)(a >> 32));
}

/* bfind: position of the highest non-sign bit, or with .shiftamt the shift that brings it to the top; -1 when there is none. */
static inline uint32_t bfind(uint64_t a, unsigned n_bits, bool is_signed, bool is_shiftamt)
{
    if (is_signed && a >> (n_bits - 1) & 1)
        a = ~a & (UINT64_MAX >> (64 - n_bits));
    if (a == 0)
        return UINT32_MAX;
    uint32_t position = 63 - clz64(a);
    return is_shiftamt ? n_bits - 1 - position : position;
}

/* fns: the n-th set bit of mask counted from base, upwards for n > 0, downwards for n < 0; base itself for 0. */
static inline uint32_t fns(uint32_t mask, uint32_t base, int32_t offset)
{
    if (base > 31)
        return UINT32_MAX;
    if (offset == 0)
        return mask >> base & 1 ? base : UINT32_MAX;
    int64_t left = offset > 0 ? (int64_t)offset : -(int64_t)offset;
    int step = offset > 0 ? 1 : -1;
    for (int i = (int)base; i >= 0 && i < 32; i += step)
        if (mask >> i & 1 && --left == 0)
            return (uint32_t)i;
    return UINT32_MAX;
}

/* bfe: position and length are the low 8 bits of their operands; bits past the top are the sign, or 0. */
static inline uint64_t bfe(uint64_t a, uint32_t pos, uint32_t len, unsigned n_bits, bool is_signed)
{
    pos &= 0xff;
    len &= 0xff;
    if (len == 0)
        return 0;
    uint32_t sign_at = pos + len - 1 > n_bits - 1 ? n_bits - 1 : pos + len - 1;
    uint64_t fill = is_signed && a >> sign_at & 1 ? UINT64_MAX : 0;
    uint64_t field = pos < n_bits ? a >> pos : 0;
    uint32_t have = pos < n_bits ? n_bits - pos : 0;
    have = have > len ? len : have;
    uint64_t low = have >= 64 ? UINT64_MAX : ((uint64_t)1 << have) - 1;
    return (field & low) | (fill & ~low);
}

static inline uint64_t bfi(uint64_t a, uint64_t b, uint32_t pos, uint32_t len, unsigned n_bits)
{
    pos &= 0xff;
    len &= 0xff;
    if (len == 0 || pos >= n_bits)
        return b;
    uint64_t field = (len >= 64 ? UINT64_MAX : ((uint64_t)1 << len) - 1) << pos;
    return (b & ~field) | (a << pos & field);
}

/* szext: sign- or zero-extend the low n bits; 0 bits give 0, .clamp takes more than 31 as the whole word. */
static inline uint32_t szext(uint32_t a, uint32_t n, bool is_signed, bool is_wrap)
{
    if (is_wrap)
        n &= 31;
    else if (n >= 32)
        return a;
    if (n == 0)
        return 0;
    uint32_t low = (1u << n) - 1;
    return (a & low) | (is_signed && a >> (n - 1) & 1 ? ~low : 0);
}

static inline uint32_t bmsk(uint32_t start, uint32_t n, bool is_wrap)
{
    if (is_wrap) {
        start &= 31;
        n &= 31;
    }
    if (start >= 32)
        return 0;
    return (n >= 32 ? UINT32_MAX : (1u << n) - 1) << start;
}

/* One element of a packed register, extended by its own signedness. */
static inline int32_t element(uint32_t a, unsigned i, unsigned n_bits, bool is_signed)
{
    uint32_t v = a >> (i * n_bits) << (32 - n_bits);
    return is_signed ? (int32_t)v >> (32 - n_bits) : (int32_t)(v >> (32 - n_bits));
}

static inline uint32_t dp4a(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed)
{
    for (unsigned i = 0; i < 4; i++)
        c += (uint32_t)(element(a, i, 8, a_signed) * element(b, i, 8, b_signed));
    return c;
}

static inline uint32_t dp2a(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed,
                            bool is_hi)
{
    for (unsigned i = 0; i < 2; i++)
        c += (uint32_t)(element(a, i, 16, a_signed) * element(b, i + (is_hi ? 2 : 0), 8, b_signed));
    return c;
}

/* ---- "Logic and Shift Instructions", "Data Movement and Conversion Instructions: prmt" ---- */

/* lop3: bit k of the table is the result for (a, b, c) = the bits of k. */
static inline uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table)
{
    uint32_t r = 0;
    r |= table & 0x01 ? ~a & ~b & ~c : 0;
    r |= table & 0x02 ? ~a & ~b & c : 0;
    r |= table & 0x04 ? ~a & b & ~c : 0;
    r |= table & 0x08 ? ~a & b & c : 0;
    r |= table & 0x10 ? a & ~b & ~c : 0;
    r |= table & 0x20 ? a & ~b & c : 0;
    r |= table & 0x40 ? a & b & ~c : 0;
    r |= table & 0x80 ? a & b & c : 0;
    return r;
}

/* shf: b is the high word of the pair. */
static inline uint32_t shf(uint32_t a, uint32_t b, uint32_t n, bool is_left, bool is_wrap)
{
    n = is_wrap ? n & 31 : n > 32 ? 32 : n;
    uint64_t pair = (uint64_t)b << 32 | a;
    return is_left ? (uint32_t)((pair << n) >> 32) : (uint32_t)(pair >> n);
}

/* The byte that result byte i takes: low 3 bits its index in {b, a}, bit 3 replicates its sign. */
static inline uint32_t prmt_selector(uint32_t c, unsigned mode)
{
    uint32_t k = c & 3;
    switch (mode) {
    case 1: return k | (k + 1) << 4 | (k + 2) << 8 | (k + 3) << 12;                   /* f4e */
    case 2: return k | ((k + 7) & 7) << 4 | ((k + 6) & 7) << 8 | ((k + 5) & 7) << 12; /* b4e */
    case 3: return k * 0x1111;                                                        /* rc8 */
    case 4: return k | (k > 1 ? k : 1) << 4 | (k > 2 ? k : 2) << 8 | 3u << 12;        /* ecl */
    case 5: return 0 | (k < 1 ? k : 1) << 4 | (k < 2 ? k : 2) << 8 | k << 12;         /* ecr */
    case 6: return k & 1 ? 0x3232 : 0x1010;                                           /* rc16 */
    default: return c;
    }
}

static inline uint32_t prmt(uint32_t a, uint32_t b, uint32_t c, unsigned mode)
{
    uint64_t pair = (uint64_t)b << 32 | a;
    uint32_t selector = prmt_selector(c, mode), r = 0;
    for (unsigned i = 0; i < 4; i++) {
        uint32_t s = selector >> (4 * i) & 15;
        uint32_t byte = (uint32_t)(pair >> (8 * (s & 7))) & 0xff;
        if (s & 8)
            byte = byte & 0x80 ? 0xff : 0;
        r |= byte << (8 * i);
    }
    return r;
}

#endif
