/*
 * Video instructions on whole operands (no selectors, no masks), compiled once. PTX ISA, "Scalar Video Instructions", "SIMD
 * Video Instructions".
 *
 * mode: op enum pl_emu_video, flags SIGNED (of the destination), SAT, WRAP; from: bit 0 a is signed, bit 1 b; n: parts of a
 * register (1, 2, 4); extra: the secondary operation; to: accepted outcomes of vset, or the shift of vmad, bit 7 its plus one.
 */
#include "emu/ops_lanes.h"

/* Part i of n of an operand, extended by its type; sums and differences of two fit easily. */
static int64_t part(uint32_t v, unsigned i, unsigned n, bool is_signed)
{
    unsigned n_bits = 32 / n;
    uint32_t up = v << (32 - n_bits * (i + 1));
    return is_signed ? (int32_t)up >> (32 - n_bits) : (int64_t)(up >> (32 - n_bits));
}

static int64_t clamp_to(int64_t v, unsigned n_bits, bool is_signed)
{
    int64_t max = is_signed ? ((int64_t)1 << (n_bits - 1)) - 1 : ((int64_t)1 << n_bits) - 1;
    int64_t min = is_signed ? -max - 1 : 0;
    return v > max ? max : v < min ? min : v;
}

/* "vshl, vshr": amounts above 32 count as 32, or only their low five bits do. */
static int64_t shift(int64_t a, uint32_t n, bool is_left, bool is_wrap)
{
    n = is_wrap ? n & 31 : n > 32 ? 32 : n;
    return is_left ? (int64_t)((uint64_t)a << n) : a >> n;
}

static int64_t primary(struct pl_emu_mode m, int64_t a, int64_t b)
{
    bool is_wrap = m.flags & PL_EMU_M_WRAP;
    unsigned outcome = a < b ? PL_EMU_LT : a == b ? PL_EMU_EQ : PL_EMU_GT;
    switch ((enum pl_emu_video)m.op) {
    case PL_EMU_VADD: return a + b;
    case PL_EMU_VSUB: return a - b;
    case PL_EMU_VABSDIFF: return a > b ? a - b : b - a;
    case PL_EMU_VMIN: return a < b ? a : b;
    case PL_EMU_VMAX: return a > b ? a : b;
    case PL_EMU_VSHL: return shift(a, (uint32_t)b, true, is_wrap);
    case PL_EMU_VSHR: return shift(a, (uint32_t)b, false, is_wrap);
    case PL_EMU_VAVRG: return a + b >= 0 ? (a + b + 1) >> 1 : (a + b) >> 1;
    case PL_EMU_VSET: return (m.to & outcome) != 0;
    case PL_EMU_VMAD: return 0; /* multiply_add */
    }
    return 0;
}

/* Secondary operation on 32-bit values of the destination's type. */
static uint32_t secondary(struct pl_emu_mode m, uint32_t v, uint32_t c)
{
    bool is_less = m.flags & PL_EMU_M_SIGNED ? (int32_t)v < (int32_t)c : v < c;
    switch ((enum pl_emu_video_second)m.extra) {
    case PL_EMU_VSECOND_NONE: return v;
    case PL_EMU_VSECOND_ADD: return v + c;
    case PL_EMU_VSECOND_MIN: return is_less ? v : c;
    case PL_EMU_VSECOND_MAX: return is_less ? c : v;
    }
    return v;
}

static uint32_t scalar(struct pl_emu_mode m, uint32_t a, uint32_t b, uint32_t c)
{
    int64_t v = primary(m, part(a, 0, 1, m.from & 1), part(b, 0, 1, m.from & 2));
    if (m.flags & PL_EMU_M_SAT)
        v = clamp_to(v, 32, m.flags & PL_EMU_M_SIGNED);
    return secondary(m, (uint32_t)v, c);
}

/* Without .add, results stand in their parts; with it, their sum is added to c. */
static uint32_t simd(struct pl_emu_mode m, uint32_t a, uint32_t b, uint32_t c)
{
    unsigned n_bits = 32u / m.n;
    uint32_t d = m.extra == PL_EMU_VSECOND_ADD ? c : 0;
    for (unsigned i = 0; i < m.n; i++) {
        int64_t v = primary(m, part(a, i, m.n, m.from & 1), part(b, i, m.n, m.from & 2));
        if (m.flags & PL_EMU_M_SAT)
            v = clamp_to(v, n_bits, m.flags & PL_EMU_M_SIGNED);
        if (m.extra == PL_EMU_VSECOND_ADD)
            d += (uint32_t)v;
        else
            d |= ((uint32_t)v & (UINT32_MAX >> (32 - n_bits))) << (i * n_bits);
    }
    return d;
}

/* "vmad": the sum is exact, then shifted, then clamped; it is signed if an operand is. */
static uint32_t multiply_add(struct pl_emu_mode m, uint32_t a, uint32_t b, uint32_t c)
{
    bool is_signed = (m.from & 3) != 0;
    uint64_t product = (uint64_t)part(a, 0, 1, m.from & 1) * (uint64_t)part(b, 0, 1, m.from & 2);
    uint64_t sum =
        product + (uint64_t)part(c, 0, 1, is_signed) + (m.to >> 7); /* fits, by either sign */
    int64_t v = (int64_t)sum;
    unsigned n = m.to & 0x7f;
    uint64_t shifted = is_signed ? (uint64_t)(v >> n) : sum >> n;
    if (!(m.flags & PL_EMU_M_SAT))
        return (uint32_t)shifted;
    if (!is_signed)
        return shifted > UINT32_MAX ? UINT32_MAX : (uint32_t)shifted;
    return (uint32_t)clamp_to((int64_t)shifted, 32, true);
}

static void video(uint32_t *d, const void *const sources[3], uint32_t mask, struct pl_emu_mode m)
{
    const uint32_t *a = sources[0], *b = sources[1], *c = sources[2];
    for (unsigned i = 0; i < 32; i++) {
        uint32_t third = c != NULL ? c[i] : 0;
        if (!(mask >> i & 1))
            continue;
        if (m.op == PL_EMU_VMAD)
            d[i] = multiply_add(m, a[i], b[i], third);
        else
            d[i] = m.n == 1 ? scalar(m, a[i], b[i], third) : simd(m, a[i], b[i], third);
    }
}

void FULL(video)(ARGS)
{
    (void)mask;
    video(vd, (const void *const[]){va, vb, vc}, UINT32_MAX, pl_emu_mode_of(x->imm));
}

void MASKED(video)(ARGS)
{
    video(vd, (const void *const[]){va, vb, vc}, mask, pl_emu_mode_of(x->imm));
}
