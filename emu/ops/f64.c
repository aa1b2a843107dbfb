/*
 * f64 arithmetic, min and max; levels base and avx2.
 *
 * PTX ISA, "Floating Point Instructions": f64 has neither .ftz nor .sat, subnormals are supported. NaN payloads pass through;
 * which operand wins is not said. Here: the first NaN operand, quieted; the negative default NaN when none is one.
 */
#include "emu/ops/float.h"

#define F64_DEFAULT_NAN 0xfff8000000000000u
#define F64_QUIET       0x0008000000000000u

static inline bool is_nan64(uint64_t u) { return (u & 0x7fffffffffffffffu) > 0x7ff0000000000000u; }

static inline uint64_t settle_nan(double r, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t n = F64_DEFAULT_NAN;
    n = is_nan64(c) ? c | F64_QUIET : n;
    n = is_nan64(b) ? b | F64_QUIET : n;
    n = is_nan64(a) ? a | F64_QUIET : n;
    return r != r ? n : f64_bits(r);
}

#define ARITH64(id, n_src, host)                                                                   \
    static inline void id(ARGS, bool is_full)                                                      \
    {                                                                                              \
        struct pl_emu_mode m = pl_emu_mode_of(x->imm);                                             \
        const uint64_t *pa = __builtin_assume_aligned(va, 64);                                     \
        const uint64_t *pb = __builtin_assume_aligned((n_src) > 1 ? vb : va, 64);                  \
        const uint64_t *pc = __builtin_assume_aligned((n_src) > 2 ? vc : va, 64);                  \
        uint64_t *d = __builtin_assume_aligned(vd, 64);                                            \
        unsigned saved = round_enter(m.round);                                                     \
        LANES(32)                                                                                  \
        {                                                                                          \
            const uint64_t A = pa[i], B = pb[i], C = pc[i], old = d[i];                            \
            const double a = f64_of(A), b = f64_of(B), c = f64_of(C);                              \
            (void)b, (void)c;                                                                      \
            const uint64_t r = settle_nan(host, A, B, C);                                          \
            d[i] = is_full || (mask & pl_emu_lane_bit[i]) ? r : old;                               \
        }                                                                                          \
        round_leave(m.round, saved);                                                               \
    }                                                                                              \
    void FULL(id)(ARGS)                                                                            \
    {                                                                                              \
        (void)mask;                                                                                \
        id(vd, va, vb, vc, UINT32_MAX, x, true);                                                   \
    }                                                                                              \
    void MASKED(id)(ARGS) { id(vd, va, vb, vc, mask, x, false); }

ARITH64(add_f64, 2, a + b)
ARITH64(sub_f64, 2, a - b)
ARITH64(mul_f64, 2, (a) * (b))
ARITH64(fma_f64, 3, fma(a, b, c))
ARITH64(div_f64, 2, a / b)
ARITH64(rcp_f64, 1, 1.0 / a)
ARITH64(sqrt_f64, 1, sqrt(a))

/* "min, max": no modifiers; a NaN operand is dropped, of two the first is the result */

static inline uint64_t min_f64(uint64_t a, uint64_t b)
{
    uint64_t r = f64_key(a) < f64_key(b) ? a : b;
    r = is_nan64(a) ? b : r;
    r = is_nan64(b) ? a : r;
    return is_nan64(r) ? r | F64_QUIET : r;
}

static inline uint64_t max_f64(uint64_t a, uint64_t b)
{
    uint64_t r = f64_key(a) > f64_key(b) ? a : b;
    r = is_nan64(a) ? b : r;
    r = is_nan64(b) ? a : r;
    return is_nan64(r) ? r | F64_QUIET : r;
}

KERNEL2(min_f64, uint64_t, uint64_t, uint64_t, min_f64(A, B))
KERNEL2(max_f64, uint64_t, uint64_t, uint64_t, max_f64(A, B))
KERNEL1(abs_f64, uint64_t, uint64_t, A & 0x7fffffffffffffffu)
KERNEL1(neg_f64, uint64_t, uint64_t, A ^ 0x8000000000000000u)
