/*
 * cvt in every pair of types and every mode, one lane at a time. The frequent pairs have kernels in emu/ops/cvt.c.
 *
 * PTX ISA, "Data Movement and Conversion Instructions: cvt", "cvt.pack", and "Operand Size Exceeding Instruction-Type Size":
 * a source register wider than its type is chopped; a destination wider than its type is sign-extended for signed types and
 * zero-extended otherwise.
 */
#include "emu/ops/convert.h"
#include "emu/ops/lanes.h"

/* Lane i of a register whose container has 2^log2 * 8 bits. */
static uint64_t get(const void *lanes, unsigned log2, unsigned i)
{
    switch (log2) {
    case 1: return ((const uint16_t *)lanes)[i];
    case 2: return ((const uint32_t *)lanes)[i];
    default: return ((const uint64_t *)lanes)[i];
    }
}

static void put(void *lanes, unsigned log2, unsigned i, uint64_t v)
{
    switch (log2) {
    case 1: ((uint16_t *)lanes)[i] = (uint16_t)v; break;
    case 2: ((uint32_t *)lanes)[i] = (uint32_t)v; break;
    default: ((uint64_t *)lanes)[i] = v; break;
    }
}

static uint64_t extend(uint64_t v, unsigned n_bits, bool is_signed)
{
    unsigned up = 64 - n_bits;
    v <<= up;
    return is_signed ? (uint64_t)((int64_t)v >> up) : v >> up;
}

static uint64_t all_bits(unsigned n_bits) { return UINT64_MAX >> (64 - n_bits); }

/* Clamp the exact value v, of a signed or unsigned type, to the destination's range; extended to 64 bits. */
static uint64_t saturate(uint64_t v, bool v_signed, unsigned n_bits, bool is_signed)
{
    bool is_negative = v_signed && v >> 63;
    uint64_t max = is_signed ? all_bits(n_bits) >> 1 : all_bits(n_bits);
    if (!is_negative)
        return v > max ? max : v;
    if (!is_signed)
        return 0;
    uint64_t min = ~max;
    return (int64_t)v < (int64_t)min ? min : v;
}

static uint64_t int_to_int(uint64_t a, struct pl_emu_mode m)
{
    bool from_signed = m.from & PL_EMU_CVT_SIGNED, to_signed = m.to & PL_EMU_CVT_SIGNED;
    uint64_t v = extend(a, pl_emu_cvt_bits(m.from), from_signed);
    if (m.flags & PL_EMU_M_SAT)
        v = saturate(v, from_signed, pl_emu_cvt_bits(m.to), to_signed);
    return extend(v, pl_emu_cvt_bits(m.to), to_signed);
}

static struct pl_num float_operand(uint64_t a, struct pl_emu_mode m)
{
    enum pl_num_fmt from = (enum pl_num_fmt)m.from;
    struct pl_num v = pl_num_unpack(from, a);
    return m.flags & PL_EMU_M_FTZ && from == PL_NUM_F32 ? pl_num_flush(from, v) : v;
}

/* "cvt": a NaN becomes 0 where neither side has 64 bits, else the most significant bit alone. */
static uint64_t float_to_int(uint64_t a, struct pl_emu_mode m)
{
    unsigned n_bits = pl_emu_cvt_bits(m.to);
    bool is_signed = m.to & PL_EMU_CVT_SIGNED;
    bool is_wide = m.from == PL_NUM_F64 || n_bits == 64;
    const struct pl_num_int_rule rule = {.round = m.round,
                                         .n_bits = (uint8_t)n_bits,
                                         .is_signed = is_signed,
                                         .nan = is_wide ? (uint64_t)1 << (n_bits - 1) : 0};
    return extend(pl_num_to_int(float_operand(a, m), &rule), n_bits, is_signed);
}

static struct pl_num_rule rule_of(struct pl_emu_mode m)
{
    return (struct pl_num_rule){.round = m.round,
                                .is_ftz = m.flags & PL_EMU_M_FTZ && m.to == PL_NUM_F32,
                                .is_sat = m.flags & PL_EMU_M_SAT,
                                .is_relu = m.flags & PL_EMU_M_RELU,
                                .is_satfinite = m.flags & PL_EMU_M_SATFINITE};
}

static uint64_t int_to_float(uint64_t a, struct pl_emu_mode m)
{
    bool is_signed = m.from & PL_EMU_CVT_SIGNED;
    uint64_t v = extend(a, pl_emu_cvt_bits(m.from), is_signed);
    struct pl_num_rule rule = rule_of(m);
    return pl_num_pack((enum pl_num_fmt)m.to,
                       is_signed ? pl_num_of_i64((int64_t)v) : pl_num_of_u64(v), &rule);
}

/* f32 and f64 keep the top of a NaN's payload between each other, quieted; bf16 to f32 is a shift; every other pair gives the
 * canonical NaN. */
static uint64_t nan_between_f32_and_f64(uint64_t a, bool to_f64)
{
    if (to_f64)
        return (a & 0x80000000u) << 32 | 0x7ff8000000000000u | (a & 0x7fffffu) << 29;
    return (a >> 32 & 0x80000000u) | 0x7fc00000u | (a >> 29 & 0x7fffffu);
}

static uint64_t float_to_float(uint64_t a, struct pl_emu_mode m)
{
    enum pl_num_fmt to = (enum pl_num_fmt)m.to, from = (enum pl_num_fmt)m.from;
    struct pl_num v = float_operand(a, m);
    struct pl_num_rule rule = rule_of(m);
    bool is_f32_f64 =
        (to == PL_NUM_F32 && from == PL_NUM_F64) || (to == PL_NUM_F64 && from == PL_NUM_F32);
    if (v.class == PL_NUM_NAN && is_f32_f64 && !rule.is_sat)
        return nan_between_f32_and_f64(a, to == PL_NUM_F64);
    if (v.class == PL_NUM_NAN && to == PL_NUM_F32 && from == PL_NUM_BF16)
        return a << 16;
    if (m.extra & PL_EMU_CVT_INTEGRAL)
        v = pl_num_round_integral(v, (enum pl_num_round)m.round);
    return pl_num_pack(to, v, &rule);
}

static uint64_t convert(uint64_t a, struct pl_emu_mode m)
{
    if (m.to & PL_EMU_CVT_INT)
        return m.from & PL_EMU_CVT_INT ? int_to_int(a, m) : float_to_int(a, m);
    return m.from & PL_EMU_CVT_INT ? int_to_float(a, m) : float_to_float(a, m);
}

static void scalar_cvt(ARGS)
{
    struct pl_emu_mode m = pl_emu_mode_of(x->imm);
    unsigned d_log2 = m.extra & 3, a_log2 = m.extra >> 2 & 3;
    (void)vb, (void)vc;
    for (unsigned i = 0; i < 32; i++)
        if (mask >> i & 1)
            put(vd, d_log2, i, convert(get(va, a_log2, i), m));
}

/* ---- packed forms: two sources, the first in the upper half ---- */

/* bits an element takes in its packed register: fp6 has a byte of its own, fp4 half a byte */
static unsigned slot_bits(enum pl_num_fmt fmt)
{
    unsigned n_bits = pl_num_fmts[fmt].bits;
    return n_bits == 6 ? 8 : n_bits;
}

/* f32 operands a (upper) and b (lower) */
static void pack2_cvt(ARGS)
{
    struct pl_emu_mode m = pl_emu_mode_of(x->imm);
    unsigned up = slot_bits((enum pl_num_fmt)m.to), d_log2 = m.extra & 3;
    const uint32_t *a = va, *b = vb;
    (void)vc;
    for (unsigned i = 0; i < 32; i++)
        if (mask >> i & 1)
            put(vd, d_log2, i, float_to_float(a[i], m) << up | float_to_float(b[i], m));
}

/* A packed source of two elements to a packed destination: halves stay where they are. */
static void x2_cvt(ARGS)
{
    struct pl_emu_mode m = pl_emu_mode_of(x->imm);
    unsigned up = slot_bits((enum pl_num_fmt)m.to), down = slot_bits((enum pl_num_fmt)m.from);
    unsigned d_log2 = m.extra & 3, a_log2 = m.extra >> 2 & 3;
    (void)vb, (void)vc;
    for (unsigned i = 0; i < 32; i++) {
        if (!(mask >> i & 1))
            continue;
        uint64_t a = get(va, a_log2, i), low = a & all_bits(down),
                 high = a >> down & all_bits(down);
        put(vd, d_log2, i, float_to_float(high, m) << up | float_to_float(low, m));
    }
}

/*
 * ".rs": the random bits stand directly below the last kept mantissa bit. Two results of 16 bits: a takes the upper half of
 * rbits and b the lower, f16 only 13 bits of each. Four results: the first two share the upper 16 bits, the others the lower.
 */
static uint64_t stochastic(uint32_t a, struct pl_emu_mode m, uint32_t rand_bits, uint8_t n_bits)
{
    struct pl_num_rule rule = rule_of(m);
    rule.round = PL_NUM_RS;
    rule.n_rand_bits = n_bits;
    rule.rand_bits = rand_bits & ((1u << n_bits) - 1);
    return pl_num_pack((enum pl_num_fmt)m.to, float_operand(a, m), &rule);
}

static void rs2_cvt(ARGS)
{
    struct pl_emu_mode m = pl_emu_mode_of(x->imm);
    const uint32_t *a = va, *b = vb, *r = vc;
    uint8_t n_bits = m.to == PL_NUM_F16 ? 13 : 16;
    for (unsigned i = 0; i < 32; i++)
        if (mask >> i & 1)
            put(vd, 2, i,
                stochastic(a[i], m, r[i] >> 16, n_bits) << 16 | stochastic(b[i], m, r[i], n_bits));
}

static void rs4_cvt(ARGS)
{
    struct pl_emu_mode m = pl_emu_mode_of(x->imm);
    const uint32_t *sources[4] = {va, vb, vc, x->e}, *r = x->f;
    unsigned slot = slot_bits((enum pl_num_fmt)m.to);
    for (unsigned i = 0; i < 32; i++) {
        if (!(mask >> i & 1))
            continue;
        uint64_t v = 0;
        for (unsigned k = 0; k < 4; k++)
            v = v << slot | stochastic(sources[k][i], m, k < 2 ? r[i] >> 16 : r[i], 16);
        put(vd, m.extra & 3, i, v);
    }
}

/* "cvt.pack": b lowest, a above it, c shifted up over both where there is one. */
static void pack_int(ARGS)
{
    struct pl_emu_mode m = pl_emu_mode_of(x->imm);
    const uint32_t *a = va, *b = vb, *c = vc;
    uint32_t *d = vd;
    unsigned n_bits = m.n;
    bool is_signed = m.flags & PL_EMU_M_SIGNED;
    for (unsigned i = 0; i < 32; i++) {
        if (!(mask >> i & 1))
            continue;
        uint64_t high =
            saturate(extend(a[i], 32, true), true, n_bits, is_signed) & all_bits(n_bits);
        uint64_t low = saturate(extend(b[i], 32, true), true, n_bits, is_signed) & all_bits(n_bits);
        uint32_t rest = n_bits < 16 ? c[i] << (2 * n_bits) : 0;
        d[i] = rest | (uint32_t)(high << n_bits | low);
    }
}

#define BOTH(id)                                                                                   \
    void FULL(id)(ARGS)                                                                            \
    {                                                                                              \
        (void)mask;                                                                                \
        id(vd, va, vb, vc, UINT32_MAX, x);                                                         \
    }                                                                                              \
    void MASKED(id)(ARGS) { id(vd, va, vb, vc, mask, x); }
BOTH(scalar_cvt)
BOTH(pack2_cvt)
BOTH(x2_cvt)
BOTH(rs2_cvt)
BOTH(rs4_cvt)
BOTH(pack_int)
