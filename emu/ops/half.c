/*
 * f16, bf16 and their packed pairs; levels base and avx2.
 *
 * PTX ISA, "Half Precision Floating-Point Instructions". Each result is computed once in a wider type and rounded to nearest
 * even once more, where that is the same as one rounding:
 *   f16 mul, through float     the product has 22 bits: exact
 *   add, sub, through float    24 >= 2 * 11 + 2 (and 2 * 8 + 2): rounding twice does no harm
 *   bf16 mul, through double   exact; a float would lose bits of subnormal products
 *   f16 fma, through double    the sum is exact, or one operand is too small to reach a rounding boundary of the other
 *   bf16 fma, through double   the sum rounded to odd, since a tiny addend may decide a tie of the product
 * .ftz forms go to the exact kernel.
 */
#include "emu/ops/float.h"

/* .relu: a set sign (NaNs have none by now) clears the value. .sat: clamp to [+0, 1], NaN to 0. */
static inline uint16_t clamp_half(uint16_t r, bool is_relu, bool is_sat, uint16_t one, uint16_t inf)
{
    const uint16_t positive = r & 0x8000 ? 0 : r;
    const uint16_t unit = positive > inf ? 0 : positive > one ? one : positive;
    r = is_relu ? positive : r;
    return is_sat ? unit : r;
}

/* a * b + c rounded to odd: the error of the sum moves an even last bit towards the exact value. */
static inline double fma_odd(double a, double b, double c)
{
    const double p = a * b; /* exact: two 8-bit significands */
    const double s = p + c, t = s - p;
    const double error = (p - (s - t)) + (c - t);
    const uint64_t u = f64_bits(s), e = f64_bits(error);
    const uint64_t is_inexact = error != 0.0 && s - s == 0.0 ? 1 : 0;
    const uint64_t is_even = (u & 1) ^ 1;
    const uint64_t step =
        (u ^ e) >> 63 ? UINT64_MAX : 1; /* away from the error's sign: one less in magnitude */
    return f64_of(is_inexact & is_even ? u + step : u);
}

struct run {
    uint16_t *d;
    const uint16_t *a, *b, *c;
    const uint32_t *bits;
    uint32_t mask;
    struct pl_emu_mode m;
};

static inline struct run run_of(void *vd, const void *va, const void *vb, const void *vc,
                                struct pl_emu_opx *x, uint32_t mask, unsigned k, unsigned n_runs)
{
    return (struct run){(uint16_t *)vd + 32 * k,
                        (const uint16_t *)va + 32 * k,
                        vb == NULL ? NULL : (const uint16_t *)vb + 32 * k,
                        vc == NULL ? NULL : (const uint16_t *)vc + 32 * k,
                        n_runs == 1 ? pl_emu_lane_bit : pl_emu_pair_bit + 32 * k,
                        mask,
                        pl_emu_mode_of(x->imm)};
}

#define HALF(id, n_src, one, inf, expr)                                                            \
    static inline void id##_run(struct run g, bool is_full)                                        \
    {                                                                                              \
        const uint16_t *pa = __builtin_assume_aligned(g.a, 64);                                    \
        const uint16_t *pb = __builtin_assume_aligned((n_src) > 1 ? g.b : g.a, 64);                \
        const uint16_t *pc = __builtin_assume_aligned((n_src) > 2 ? g.c : g.a, 64);                \
        uint16_t *d = __builtin_assume_aligned(g.d, 64);                                           \
        const bool is_relu = g.m.flags & PL_EMU_M_RELU, is_sat = g.m.flags & PL_EMU_M_SAT;         \
        LANES(32)                                                                                  \
        {                                                                                          \
            const uint32_t A = pa[i], B = pb[i], C = pc[i];                                        \
            (void)B, (void)C;                                                                      \
            const uint16_t r = clamp_half(expr, is_relu, is_sat, one, inf), old = d[i];            \
            d[i] = is_full || (g.mask & g.bits[i]) ? r : old;                                      \
        }                                                                                          \
    }                                                                                              \
    HALF_FORM(id, id##_run, 1)                                                                     \
    HALF_FORM(id##x2, id##_run, 2)

#define HALF_FORM(form, run, n_runs)                                                               \
    void FULL(form)(ARGS)                                                                          \
    {                                                                                              \
        (void)mask;                                                                                \
        for (unsigned k = 0; k < (n_runs); k++)                                                    \
            run(run_of(vd, va, vb, vc, x, UINT32_MAX, k, n_runs), true);                           \
    }                                                                                              \
    void MASKED(form)(ARGS)                                                                        \
    {                                                                                              \
        for (unsigned k = 0; k < (n_runs); k++)                                                    \
            run(run_of(vd, va, vb, vc, x, mask, k, n_runs), false);                                \
    }

#define H(u)  f32_of(f16_to_f32(u))
#define BF(u) f32_of(bf16_to_f32(u))
#define HD(u) ((double)H(u))
#define BD(u) ((double)BF(u))

HALF(add_f16, 2, 0x3c00, 0x7c00, f32_to_f16(f32_bits(H(A) + H(B))))
HALF(sub_f16, 2, 0x3c00, 0x7c00, f32_to_f16(f32_bits(H(A) - H(B))))
HALF(mul_f16, 2, 0x3c00, 0x7c00, f32_to_f16(f32_bits(H(A) * H(B))))
HALF(fma_f16, 3, 0x3c00, 0x7c00, f64_to_half(HD(A) * HD(B) + HD(C), 10, 15))
HALF(add_bf16, 2, 0x3f80, 0x7f80, f32_to_bf16(f32_bits(BF(A) + BF(B))))
HALF(sub_bf16, 2, 0x3f80, 0x7f80, f32_to_bf16(f32_bits(BF(A) - BF(B))))
HALF(mul_bf16, 2, 0x3f80, 0x7f80, f64_to_half(BD(A) * BD(B), 7, 127))
HALF(fma_bf16, 3, 0x3f80, 0x7f80, f64_to_half(fma_odd(BD(A), BD(B), BD(C)), 7, 127))

/* ---- "min, max" without modifiers or with .NaN alone: as for f32 ---- */

static inline int32_t half_key(uint32_t u) { return (int32_t)(u & 0x8000u ? u ^ 0xffff7fffu : u); }

static inline uint16_t min_max_half(uint32_t a, uint32_t b, uint32_t inf, bool is_max, bool is_nan)
{
    const bool a_nan = (a & 0x7fffu) > inf, b_nan = (b & 0x7fffu) > inf;
    const bool takes_a = (half_key(a) < half_key(b)) != is_max;
    uint32_t r = takes_a ? a : b;
    r = a_nan ? b : r;
    r = b_nan ? a : r;
    r = is_nan ? (a_nan || b_nan ? 0x7fffu : r) : r;
    return (uint16_t)((r & 0x7fffu) > inf ? 0x7fffu : r);
}

#define IS_NAN_MODE ((g.m.flags & PL_EMU_M_NAN) != 0)
HALF(min_f16, 2, 0, 0, min_max_half(A, B, 0x7c00, false, IS_NAN_MODE))
HALF(max_f16, 2, 0, 0, min_max_half(A, B, 0x7c00, true, IS_NAN_MODE))
HALF(min_bf16, 2, 0, 0, min_max_half(A, B, 0x7f80, false, IS_NAN_MODE))
HALF(max_bf16, 2, 0, 0, min_max_half(A, B, 0x7f80, true, IS_NAN_MODE))

/* ---- "neg, abs": of a NaN some NaN; here, as the assembler folds, with its payload. .ftz (f16) flushes ---- */

static inline uint16_t sign_op(uint32_t u, bool is_abs, bool is_ftz)
{
    u = is_ftz && (u & 0x7c00u) == 0 ? u & 0x8000u : u;
    return (uint16_t)(is_abs ? u & 0x7fffu : u ^ 0x8000u);
}

#define IS_FTZ ((g.m.flags & PL_EMU_M_FTZ) != 0)
HALF(abs_f16, 1, 0, 0, (sign_op(A, true, IS_FTZ)))
HALF(neg_f16, 1, 0, 0, (sign_op(A, false, IS_FTZ)))
HALF(abs_bf16, 1, 0, 0, (sign_op(A, true, false)))
HALF(neg_bf16, 1, 0, 0, (sign_op(A, false, false)))
