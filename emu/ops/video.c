/*
 * Video instructions, compiled once: struct pl_emu_video_mode says what an instruction takes and does. Intermediate results are
 * exact; then comes saturation to the part that is written, then the second operation, or c where no part is written.
 *
 * PTX ISA, "Scalar Video Instructions", "SIMD Video Instructions"
 */
#include "emu/ops/lanes.h"

/* Part i of n_bits of v, extended by the type; sums and differences of two fit easily. */
static int64_t part(uint64_t v, unsigned i, unsigned n_bits, bool is_signed)
{
    uint64_t up = v << (64 - n_bits * (i + 1));
    return is_signed ? (int64_t)up >> (64 - n_bits) : (int64_t)(up >> (64 - n_bits));
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
    if (is_left && n == 32 &&
        a > INT32_MAX) /* no int64_t: what ends in 32 zeros and is as large will do */
        return INT64_C(1) << 62;
    return is_left ? (int64_t)((uint64_t)a << n) : a >> n;
}

static int64_t primary(struct pl_emu_video_mode m, int64_t a, int64_t b)
{
    unsigned outcome = a < b ? PL_EMU_LT : a == b ? PL_EMU_EQ : PL_EMU_GT;
    switch ((enum pl_emu_video)m.op) {
    case PL_EMU_VADD: return a + b;
    case PL_EMU_VSUB: return a - b;
    case PL_EMU_VABSDIFF: return a > b ? a - b : b - a;
    case PL_EMU_VMIN: return a < b ? a : b;
    case PL_EMU_VMAX: return a > b ? a : b;
    case PL_EMU_VSHL: return shift(a, (uint32_t)b, true, m.is_wrap);
    case PL_EMU_VSHR: return shift(a, (uint32_t)b, false, m.is_wrap);
    case PL_EMU_VAVRG: return a + b >= 0 ? (a + b + 1) >> 1 : (a + b) >> 1;
    case PL_EMU_VSET: return (m.accept & outcome) != 0;
    case PL_EMU_VMAD: return 0; /* multiply_add */
    }
    return 0;
}

/* Secondary operation on 32-bit values of the destination's type. */
static uint32_t secondary(struct pl_emu_video_mode m, uint32_t v, uint32_t c)
{
    bool is_less = m.is_signed ? (int32_t)v < (int32_t)c : v < c;
    switch ((enum pl_emu_video_second)m.second) {
    case PL_EMU_VSECOND_NONE: return v;
    case PL_EMU_VSECOND_ADD: return v + c;
    case PL_EMU_VSECOND_MIN: return is_less ? v : c;
    case PL_EMU_VSECOND_MAX: return is_less ? c : v;
    }
    return v;
}

/* v in part i of c. */
static uint32_t merge(uint32_t c, unsigned i, unsigned n_bits, uint32_t v)
{
    uint32_t mask = (UINT32_MAX >> (32 - n_bits)) << (i * n_bits);
    return (c & ~mask) | (v << (i * n_bits) & mask);
}

static uint32_t scalar(struct pl_emu_video_mode m, uint32_t a, uint32_t b, uint32_t c)
{
    int64_t v = primary(m, part(a, m.a, 32u >> m.a_width, m.a_signed),
                        part(b, m.b, 32u >> m.b_width, m.b_signed));
    if (m.is_sat)
        v = clamp_to(v, 32u >> m.d_width, m.is_signed);
    return m.d_width != 0 ? merge(c, m.d, 32u >> m.d_width, (uint32_t)v)
                          : secondary(m, (uint32_t)v, c);
}

/* Without .add, results stand in their parts of c; with it, their sum is added to c. */
static uint32_t simd(struct pl_emu_video_mode m, uint32_t a, uint32_t b, uint32_t c)
{
    unsigned n_bits = 32u / m.n_parts;
    uint64_t both = (uint64_t)b << 32 | a;
    const uint32_t parts_a = m.a, parts_b = m.b;
    for (unsigned i = 0; i < m.n_parts; i++) {
        int64_t v = primary(m, part(both, parts_a >> 3 * i & 7u, n_bits, m.a_signed),
                            part(both, parts_b >> 3 * i & 7u, n_bits, m.b_signed));
        if (!(m.d >> i & 1))
            continue;
        if (m.is_sat)
            v = clamp_to(v, n_bits, m.is_signed);
        c = m.second == PL_EMU_VSECOND_ADD ? c + (uint32_t)v : merge(c, i, n_bits, (uint32_t)v);
    }
    return c;
}

/*
 * "vmad": the sum is exact, then shifted, then clamped; it is signed if an operand is or anything is negated. A negation is the
 * complement, and one more at the end.
 */
static uint32_t multiply_add(struct pl_emu_video_mode m, uint32_t a, uint32_t b, uint32_t c)
{
    __extension__ typedef __int128 wide;
    bool is_signed = m.a_signed || m.b_signed || m.is_product_negated || m.is_c_negated;
    wide v = (wide)part(a, m.a, 32u >> m.a_width, m.a_signed) *
             part(b, m.b, 32u >> m.b_width, m.b_signed);
    if (m.is_product_negated)
        v = ~v;
    v += part(m.is_c_negated ? ~c : c, 0, 32, is_signed);
    v += m.is_plus_one || m.is_product_negated || m.is_c_negated;
    v >>= m.shift;
    wide max = is_signed ? INT32_MAX : UINT32_MAX, min = is_signed ? INT32_MIN : 0;
    if (m.is_sat)
        v = v > max ? max : v < min ? min : v;
    return (uint32_t)v;
}

static void video(uint32_t *d, const void *const sources[3], uint32_t mask, uint64_t imm)
{
    const uint32_t *a = sources[0], *b = sources[1], *c = sources[2];
    struct pl_emu_video_mode m;
    memcpy(&m, &imm, sizeof m);
    for (unsigned i = 0; i < 32; i++) {
        uint32_t third = c != NULL ? c[i] : 0;
        if (!(mask >> i & 1))
            continue;
        if (m.op == PL_EMU_VMAD)
            d[i] = multiply_add(m, a[i], b[i], third);
        else
            d[i] = m.n_parts == 1 ? scalar(m, a[i], b[i], third) : simd(m, a[i], b[i], third);
    }
}

void FULL(video)(ARGS)
{
    (void)mask;
    video(vd, (const void *const[]){va, vb, vc}, UINT32_MAX, x->imm);
}

void MASKED(video)(ARGS) { video(vd, (const void *const[]){va, vb, vc}, mask, x->imm); }
