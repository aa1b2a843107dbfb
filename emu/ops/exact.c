/*
 * Floating-point instructions by exact integer arithmetic, one lane at a time: rare forms, and the doubtful lanes of fast
 * kernels. PTX ISA, "Floating Point Instructions", "Half Precision Floating-Point Instructions", "Mixed Precision
 * Floating-Point Instructions".
 */
#include "emu/ops/exact.h"
#include "emu/ops/lanes.h"

static struct pl_num operand(enum pl_num_fmt fmt, uint64_t bits, uint16_t flags)
{
    struct pl_num v = pl_num_unpack(fmt, bits);
    return flags & PL_EMU_M_FTZ ? pl_num_flush(fmt, v) : v;
}

uint64_t pl_emu_exact_lane(struct pl_emu_mode m, uint64_t a_bits, uint64_t b_bits, uint64_t c_bits)
{
    enum pl_num_fmt to = (enum pl_num_fmt)m.to, from = (enum pl_num_fmt)m.from;
    enum pl_num_round round = (enum pl_num_round)m.round;
    /* mixed precision: the last operand has the type of the result */
    bool is_b_last = m.op == PL_EMU_EXACT_ADD || m.op == PL_EMU_EXACT_SUB;
    struct pl_num a = operand(from, a_bits, m.flags), r = a;
    struct pl_num b = operand(is_b_last ? to : from, b_bits, m.flags), c;
    switch ((enum pl_emu_exact_op)m.op) {
    case PL_EMU_EXACT_ADD: r = pl_num_add(a, b, round); break;
    case PL_EMU_EXACT_SUB: r = pl_num_add(a, pl_num_neg(b), round); break;
    case PL_EMU_EXACT_MUL: r = pl_num_mul(a, b); break;
    case PL_EMU_EXACT_FMA:
        c = operand(to, c_bits, m.flags);
        r = pl_num_fma(a, b, c, round);
        break;
    case PL_EMU_EXACT_DIV: r = pl_num_div(a, b); break;
    case PL_EMU_EXACT_RCP: r = pl_num_div(pl_num_of_u64(1), a); break;
    case PL_EMU_EXACT_SQRT: r = pl_num_sqrt(a); break;
    }
    const struct pl_num_rule rule = {.round = m.round,
                                     .is_ftz = m.flags & PL_EMU_M_FTZ,
                                     .is_sat = m.flags & PL_EMU_M_SAT,
                                     .is_relu = m.flags & PL_EMU_M_RELU};
    return pl_num_pack(to, r, &rule);
}

/* Element k of n in lane i of a register of 16, 32 or 64 bits. */
static uint64_t element_of(const void *lanes, unsigned reg_bits, unsigned i, unsigned k, unsigned n)
{
    uint64_t v = reg_bits == 16 ? ((const uint16_t *)lanes)[i] : 0;
    v = reg_bits == 32 ? ((const uint32_t *)lanes)[i] : v;
    v = reg_bits == 64 ? ((const uint64_t *)lanes)[i] : v;
    unsigned n_bits = reg_bits / n;
    return n == 1 ? v : v >> (k * n_bits) & (((uint64_t)1 << n_bits) - 1);
}

static void put(void *lanes, unsigned reg_bits, unsigned i, uint64_t v)
{
    switch (reg_bits) {
    case 16: ((uint16_t *)lanes)[i] = (uint16_t)v; break;
    case 32: ((uint32_t *)lanes)[i] = (uint32_t)v; break;
    default: ((uint64_t *)lanes)[i] = v; break;
    }
}

static unsigned sources_of(enum pl_emu_exact_op op)
{
    switch (op) {
    case PL_EMU_EXACT_ADD:
    case PL_EMU_EXACT_SUB:
    case PL_EMU_EXACT_MUL:
    case PL_EMU_EXACT_DIV: return 2;
    case PL_EMU_EXACT_FMA: return 3;
    case PL_EMU_EXACT_RCP:
    case PL_EMU_EXACT_SQRT: return 1;
    }
    return 1;
}

/*
 * mode: op, formats, flags, n elements a register. PL_EMU_M_OOB (fma.rn.oob): an operand that is the out-of-bounds NaN makes
 * the result +0; its pattern is the one that tensor copies with NaN fill write.
 */
#define OOB_NAN 0x7ff7u

static void arith(void *d, const void *const sources[3], uint32_t mask, struct pl_emu_mode m)
{
    unsigned n = m.n, to_bits = pl_num_fmts[m.to].bits * n,
             from_bits = pl_num_fmts[m.from].bits * n;
    unsigned n_src = sources_of((enum pl_emu_exact_op)m.op);
    for (unsigned i = 0; i < 32; i++) {
        if (!(mask >> i & 1))
            continue;
        uint64_t r = 0;
        for (unsigned k = 0; k < n; k++) {
            uint64_t v[3] = {0};
            bool is_oob = false;
            for (unsigned s = 0; s < n_src; s++) {
                bool is_last = s == n_src - 1 && n_src > 1 && m.op != PL_EMU_EXACT_MUL &&
                               m.op != PL_EMU_EXACT_DIV;
                v[s] = element_of(sources[s], is_last ? to_bits : from_bits, i, k, n);
                is_oob |= v[s] == OOB_NAN;
            }
            uint64_t e =
                m.flags & PL_EMU_M_OOB && is_oob ? 0 : pl_emu_exact_lane(m, v[0], v[1], v[2]);
            r |= e << (k * (to_bits / n));
        }
        put(d, to_bits, i, r);
    }
}

void FULL(exact)(ARGS)
{
    (void)mask;
    arith(vd, (const void *const[]){va, vb, vc}, UINT32_MAX, pl_emu_mode_of(x->imm));
}

void MASKED(exact)(ARGS)
{
    arith(vd, (const void *const[]){va, vb, vc}, mask, pl_emu_mode_of(x->imm));
}

/*
 * ---- "min, max" in every form that has no kernel of its own ----
 *
 * A NaN operand is dropped unless .NaN; -0 < +0. .abs compares magnitudes; .xorsign gives the result the product of the
 * operands' signs, except to a NaN. Three operands with .abs as well.
 */
struct choice {
    uint64_t bits;
    bool is_nan;
};

static bool is_nan_of(const struct pl_num_fmt_info *f, uint64_t bits)
{
    uint64_t magnitude = bits & ~((uint64_t)1 << (f->bits - 1));
    return magnitude > ((((uint64_t)1 << f->exp_bits) - 1) << f->man_bits);
}

static bool is_less(const struct pl_num_fmt_info *f, uint64_t a, uint64_t b)
{
    bool a_negative = a >> (f->bits - 1) & 1, b_negative = b >> (f->bits - 1) & 1;
    if (a_negative != b_negative)
        return a_negative;
    return a_negative ? a > b : a < b;
}

static uint64_t min_max(struct pl_emu_mode m, const uint64_t *v, unsigned n_src)
{
    const struct pl_num_fmt_info *f = &pl_num_fmts[m.to];
    uint64_t sign_bit = (uint64_t)1 << (f->bits - 1), least_normal = (uint64_t)1 << f->man_bits,
             sign = 0;
    struct choice best = {0, true};
    for (unsigned s = 0; s < n_src; s++) {
        uint64_t e = v[s];
        if (m.flags & PL_EMU_M_FTZ && (e & ~sign_bit) < least_normal)
            e &= sign_bit;
        sign ^= e & sign_bit;
        if (m.flags & PL_EMU_M_ABS)
            e &= ~sign_bit;
        if (is_nan_of(f, e)) {
            if (m.flags & PL_EMU_M_NAN)
                return f->nan;
            continue;
        }
        bool is_max = m.op == PL_EMU_MAX;
        if (best.is_nan || (is_max ? is_less(f, best.bits, e) : is_less(f, e, best.bits)))
            best = (struct choice){e, false};
    }
    if (best.is_nan)
        return f->nan;
    return m.flags & PL_EMU_M_XORSIGN ? (best.bits & ~sign_bit) | sign : best.bits;
}

static void min_max_lanes(void *d, const void *const sources[3], uint32_t mask,
                          struct pl_emu_mode m)
{
    unsigned n = m.n, reg_bits = pl_num_fmts[m.to].bits * n, n_src = m.extra;
    for (unsigned i = 0; i < 32; i++) {
        if (!(mask >> i & 1))
            continue;
        uint64_t r = 0;
        for (unsigned k = 0; k < n; k++) {
            uint64_t v[3] = {0};
            for (unsigned s = 0; s < n_src; s++)
                v[s] = element_of(sources[s], reg_bits, i, k, n);
            r |= min_max(m, v, n_src) << (k * (reg_bits / n));
        }
        put(d, reg_bits, i, r);
    }
}

void FULL(min_max)(ARGS)
{
    (void)mask;
    min_max_lanes(vd, (const void *const[]){va, vb, vc}, UINT32_MAX, pl_emu_mode_of(x->imm));
}

void MASKED(min_max)(ARGS)
{
    min_max_lanes(vd, (const void *const[]){va, vb, vc}, mask, pl_emu_mode_of(x->imm));
}
