/*
 * f32 and f32x2 arithmetic, min and max; levels base and avx2.
 *
 * PTX ISA, "Floating Point Instructions". The host's operation in the instruction's rounding mode is the exact one, except
 * where .ftz meets a result that rounds up to the least normal: there PTX flushes if the value rounded to 24 bits with
 * unbounded exponent is smaller. Only a result of exactly 2^-126 can be such a case; those lanes are done again by exact
 * integer arithmetic (pl_emu_exact_lane).
 */
#include "emu/ops/exact.h"
#include "emu/ops/float.h"

#define LEAST_NORMAL 0x00800000u

/*
 * One operation in its plain, .ftz, .sat and .ftz.sat forms, for f32 and, as two runs of 32 elements, for f32x2. `host` is an
 * expression of the floats a, b, c. is_doubtful: the result can be inexact near the least normal (not so for add and sub).
 */
#define ARITH(id, exact_op, n_src, is_doubtful, host)                                              \
    static inline void id##_run(struct run g, bool is_full, uint16_t flags)                        \
    {                                                                                              \
        const uint32_t *pa = __builtin_assume_aligned(g.a, 64);                                    \
        const uint32_t *pb = __builtin_assume_aligned((n_src) > 1 ? g.b : g.a, 64);                \
        const uint32_t *pc = __builtin_assume_aligned((n_src) > 2 ? g.c : g.a, 64);                \
        uint32_t *d = __builtin_assume_aligned(g.d, 64);                                           \
        _Alignas(64) uint32_t results[32];                                                         \
        const bool is_ftz = flags & PL_EMU_M_FTZ, is_sat = flags & PL_EMU_M_SAT;                   \
        const bool is_staged = is_ftz && (is_doubtful);                                            \
        uint32_t doubt = 0, *out = is_staged ? results : d;                                        \
        unsigned saved = round_enter(g.m.round);                                                   \
        LANES(32)                                                                                  \
        {                                                                                          \
            const uint32_t A = is_ftz ? f32_flush(pa[i]) : pa[i];                                  \
            const uint32_t B = is_ftz ? f32_flush(pb[i]) : pb[i];                                  \
            const uint32_t C = is_ftz ? f32_flush(pc[i]) : pc[i];                                  \
            const float a = f32_of(A), b = f32_of(B), c = f32_of(C);                               \
            (void)b, (void)c;                                                                      \
            uint32_t r = f32_bits(host);                                                           \
            if (is_staged)                                                                         \
                doubt |= (r & 0x7fffffffu) == LEAST_NORMAL ? UINT32_MAX : 0;                       \
            r = is_ftz ? f32_flush(r) : r;                                                         \
            r = is_sat ? f32_sat(r) : f32_canonical(r);                                            \
            const uint32_t old = d[i];                                                             \
            out[i] = is_full || is_staged || (g.mask & g.bits[i]) ? r : old;                       \
        }                                                                                          \
        round_leave(g.m.round, saved);                                                             \
        if (!is_staged)                                                                            \
            return;                                                                                \
        if (doubt)                                                                                 \
            redo_doubtful(results, (const uint32_t *const[]){pa, pb, pc}, exact_op, g.m);          \
        LANES(32)                                                                                  \
        {                                                                                          \
            const uint32_t r = results[i], old = d[i];                                             \
            d[i] = is_full || (g.mask & g.bits[i]) ? r : old;                                      \
        }                                                                                          \
    }                                                                                              \
    ARITH_FORM(id##_f32, id##_run, 1, 0)                                                           \
    ARITH_FORM(id##_ftz_f32, id##_run, 1, PL_EMU_M_FTZ)                                            \
    ARITH_FORM(id##_sat_f32, id##_run, 1, PL_EMU_M_SAT)                                            \
    ARITH_FORM(id##_ftz_sat_f32, id##_run, 1, PL_EMU_M_FTZ | PL_EMU_M_SAT)

#define ARITH_PAIRS(id)                                                                            \
    ARITH_FORM(id##_f32x2, id##_run, 2, 0)                                                         \
    ARITH_FORM(id##_ftz_f32x2, id##_run, 2, PL_EMU_M_FTZ)

#define ARITH_FORM(form, run, n_runs, flags)                                                       \
    void FULL(form)(ARGS)                                                                          \
    {                                                                                              \
        (void)mask;                                                                                \
        for (unsigned k = 0; k < (n_runs); k++)                                                    \
            run(run_of(vd, va, vb, vc, x, UINT32_MAX, k, n_runs), true, flags);                    \
    }                                                                                              \
    void MASKED(form)(ARGS)                                                                        \
    {                                                                                              \
        for (unsigned k = 0; k < (n_runs); k++)                                                    \
            run(run_of(vd, va, vb, vc, x, mask, k, n_runs), false, flags);                         \
    }

/* 32 elements of an instruction's operands. */
struct run {
    uint32_t *d;
    const uint32_t *a, *b, *c, *bits;
    uint32_t mask;
    struct pl_emu_mode m;
};

static inline struct run run_of(void *vd, const void *va, const void *vb, const void *vc,
                                struct pl_emu_opx *x, uint32_t mask, unsigned k, unsigned n_runs)
{
    return (struct run){(uint32_t *)vd + 32 * k,
                        (const uint32_t *)va + 32 * k,
                        vb == NULL ? NULL : (const uint32_t *)vb + 32 * k,
                        vc == NULL ? NULL : (const uint32_t *)vc + 32 * k,
                        n_runs == 1 ? pl_emu_lane_bit : pl_emu_pair_bit + 32 * k,
                        mask,
                        pl_emu_mode_of(x->imm)};
}

/* A result of exactly the least normal stands in the run: all its elements are done again, exactly. */
static __attribute__((noinline)) void redo_doubtful(uint32_t *results,
                                                    const uint32_t *const sources[3],
                                                    enum pl_emu_exact_op op, struct pl_emu_mode m)
{
    m.op = (uint8_t)op;
    m.to = m.from = PL_NUM_F32;
    for (unsigned i = 0; i < 32; i++)
        results[i] = (uint32_t)pl_emu_exact_lane(m, sources[0][i], sources[1][i], sources[2][i]);
}

ARITH(add, PL_EMU_EXACT_ADD, 2, false, a + b)
ARITH(sub, PL_EMU_EXACT_SUB, 2, false, a - b)
ARITH(mul, PL_EMU_EXACT_MUL, 2, true, (a) * (b))
ARITH(fma, PL_EMU_EXACT_FMA, 3, true, fmaf(a, b, c))
ARITH(div, PL_EMU_EXACT_DIV, 2, true, a / b)
ARITH(rcp, PL_EMU_EXACT_RCP, 1, true, 1.0f / a)
ARITH(sqrt, PL_EMU_EXACT_SQRT, 1, false, sqrtf(a))
ARITH_PAIRS(add)
ARITH_PAIRS(sub)
ARITH_PAIRS(mul)
ARITH_PAIRS(fma)

/* ---- "Floating Point Instructions: min, max": a NaN operand is dropped, -0 is less than +0 ---- */

static inline bool is_nan32(uint32_t u) { return (u & 0x7fffffffu) > 0x7f800000u; }

static inline uint32_t min_f32(uint32_t a, uint32_t b)
{
    uint32_t r = f32_key(a) < f32_key(b) ? a : b;
    r = is_nan32(a) ? b : r;
    r = is_nan32(b) ? a : r;
    return f32_canonical(r);
}

static inline uint32_t max_f32(uint32_t a, uint32_t b)
{
    uint32_t r = f32_key(a) > f32_key(b) ? a : b;
    r = is_nan32(a) ? b : r;
    r = is_nan32(b) ? a : r;
    return f32_canonical(r);
}

static inline uint32_t nan_or(uint32_t r, uint32_t a, uint32_t b)
{
    r = is_nan32(a) ? F32_NAN : r;
    return is_nan32(b) ? F32_NAN : r;
}

KERNEL2(min_f32, uint32_t, uint32_t, uint32_t, min_f32(A, B))
KERNEL2(max_f32, uint32_t, uint32_t, uint32_t, max_f32(A, B))
KERNEL2(min_ftz_f32, uint32_t, uint32_t, uint32_t, min_f32(f32_flush(A), f32_flush(B)))
KERNEL2(max_ftz_f32, uint32_t, uint32_t, uint32_t, max_f32(f32_flush(A), f32_flush(B)))
KERNEL2(min_nan_f32, uint32_t, uint32_t, uint32_t, nan_or(min_f32(A, B), A, B))
KERNEL2(max_nan_f32, uint32_t, uint32_t, uint32_t, nan_or(max_f32(A, B), A, B))

/* ---- "Floating Point Instructions: abs, neg": arithmetic in the hardware, so NaNs are made canonical ---- */

KERNEL1(abs_f32, uint32_t, uint32_t, f32_canonical(A & 0x7fffffffu))
KERNEL1(abs_ftz_f32, uint32_t, uint32_t, f32_canonical(f32_flush(A) & 0x7fffffffu))
KERNEL1(neg_f32, uint32_t, uint32_t, f32_canonical(A ^ 0x80000000u))
KERNEL1(neg_ftz_f32, uint32_t, uint32_t, f32_canonical(f32_flush(A) ^ 0x80000000u))
