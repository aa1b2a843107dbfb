/*
 * The approximate functions; levels base and avx2.
 *
 * PTX ISA, "Floating Point Instructions: rcp, sqrt, rsqrt, sin, cos, lg2, ex2, tanh, div" give an error bound and exact
 * special values. Everything is evaluated in double, far inside the bounds, by polynomials of our own, so that results do not
 * depend on the host's library or ISA level.
 */
#include "emu/ops/float.h"

static inline uint32_t flush_if(uint32_t u, bool is_ftz) { return is_ftz ? f32_flush(u) : u; }

/* The end of every one: round to f32, flush if asked, NaN canonical. */
static inline uint32_t finish(double v, bool is_ftz)
{
    return f32_canonical(flush_if(f32_bits((float)v), is_ftz));
}

/* 2^x for |x| < 1000: 2^n * e^(f ln 2), n nearest to x. The shifter leaves n in the low bits of the sum. */
static inline double exp2_double(double x)
{
    const double shifter = 0x1.8p52;
    const double sum = x + shifter, t = (x - (sum - shifter)) * 0x1.62e42fefa39efp-1;
    const double scale = f64_of((f64_bits(sum) + 1023) << 52);
    double p = 1.0 / 39916800;
    p = p * t + 1.0 / 3628800;
    p = p * t + 1.0 / 362880;
    p = p * t + 1.0 / 40320;
    p = p * t + 1.0 / 5040;
    p = p * t + 1.0 / 720;
    p = p * t + 1.0 / 120;
    p = p * t + 1.0 / 24;
    p = p * t + 1.0 / 6;
    p = p * t + 0.5;
    p = p * t + 1.0;
    p = p * t + 1.0;
    return p * scale;
}

static inline double ex2(double x)
{
    double clamped = x < -200.0 ? -200.0 : x;
    clamped = clamped > 200.0 ? 200.0 : clamped;
    return exp2_double(clamped); /* a NaN stays one */
}

/* log2 of x > 0: exponent and mantissa in [sqrt(1/2), sqrt(2)), then the series of atanh. */
static inline double lg2(double x)
{
    const uint64_t u = f64_bits(x) - 0x3fe6a09e667f3bcdu;
    const int64_t n = (int64_t)((u >> 52) << 53) >> 53; /* sign-extended from 11 bits */
    const double m = f64_of((u & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu);
    const double e = (double)(int32_t)n, s = (m - 1.0) / (m + 1.0), s2 = s * s;
    double p = 1.0 / 19;
    p = p * s2 + 1.0 / 17;
    p = p * s2 + 1.0 / 15;
    p = p * s2 + 1.0 / 13;
    p = p * s2 + 1.0 / 11;
    p = p * s2 + 1.0 / 9;
    p = p * s2 + 1.0 / 7;
    p = p * s2 + 1.0 / 5;
    p = p * s2 + 1.0 / 3;
    p = p * s2 + 1.0;
    double r = e + s * p * 0x1.71547652b82fep+1; /* 2 / ln 2 */
    r = x == HUGE_VAL ? x : r;
    r = x == 0.0 ? -HUGE_VAL : r;
    return x < 0.0 || x != x ? (double)NAN : r;
}

/* tanh: a short series near 0, where (e - 1) / (e + 1) would lose its relative accuracy */
static inline double tanh_double(double x)
{
    const double a = fabs(x), c = a > 20.0 ? 20.0 : a, x2 = x * x;
    const double e = exp2_double(c * 0x1.71547652b82fep+1), big = (e - 1.0) / (e + 1.0);
    const double small = a * (1.0 - x2 * (1.0 / 3 - x2 * (2.0 / 15 - x2 * (17.0 / 315))));
    const double r = a < 0.0625 ? small : big;
    return x != x ? x : f64_of(f64_bits(r) | (f64_bits(x) & 0x8000000000000000u));
}

/* The sine of r in [-pi/4, pi/4] plus q quarters of a turn. */
static inline double sin_reduced(double r, uint32_t q)
{
    const double r2 = r * r;
    double s = -1.0 / 39916800;
    s = s * r2 + 1.0 / 362880;
    s = s * r2 - 1.0 / 5040;
    s = s * r2 + 1.0 / 120;
    s = s * r2 - 1.0 / 6;
    s = r + r * r2 * s;
    double c = 1.0 / 479001600;
    c = c * r2 - 1.0 / 3628800;
    c = c * r2 + 1.0 / 40320;
    c = c * r2 - 1.0 / 720;
    c = c * r2 + 1.0 / 24;
    c = c * r2 - 0.5;
    c = 1.0 + r2 * c;
    const double v = q & 1 ? c : s;
    return q & 2 ? -v : v;
}

/* sin(x + quarter * pi / 2); Cody-Waite reduction with pi / 2 in two parts, for |x| below 2^25. */
static inline double sin_quarter(double x, uint32_t quarter)
{
    const double shifter = 0x1.8p52, sum = x * 0x1.45f306dc9c883p-1 + shifter, n = sum - shifter;
    const double r = (x - n * 0x1.921fb4p+0) - n * 0x1.4442d18469899p-24;
    return sin_reduced(r, (uint32_t)f64_bits(sum) + quarter);
}

#define FAR_ANGLE 0x4c000000u /* 2^25 */

/*
 * Beyond: |x| = m * 2^e with an integer m. The bits of 2/pi of weight 2^(1 - e) and less times m give the quarters modulo 4;
 * 96 of them are enough for any f32.
 */
static double sin_far(uint32_t u, uint32_t quarter)
{
    static const uint64_t two_over_pi[] = {0xa2f9836e4e441529, 0xfc2757d1f534ddc0,
                                           0xdb6295993c439041, 0xfe5163abdebbc561};
    const uint32_t m = (u & 0x7fffffu) | 0x800000u, first = (u >> 23 & 0xff) - 150 - 2;
    pl_u128 window = 0;
    for (uint32_t i = first; i < first + 96; i++)
        window = window << 1 | (two_over_pi[i / 64] >> (63 - i % 64) & 1);
    const pl_u128 turn = window * m << 32; /* 2^128 is four quarters */
    const uint64_t top = (uint64_t)(turn >> 64), q = (top + ((uint64_t)1 << 61)) >> 62;
    const double r = (double)(int64_t)(top - (q << 62)) * 0x1p-62 * 0x1.921fb54442d18p+0;
    const double v = sin_reduced(r, (uint32_t)q + quarter);
    return u >> 31 && quarter == 0 ? -v : v;
}

/* sin flushes subnormal operands to a zero of their sign, with .ftz or without; cos of them is 1 either way. */
static inline uint32_t sine(double v, uint32_t u, bool is_sin)
{
    const uint32_t r = u == 0x7f800000u || u == 0xff800000u ? F32_NAN : finish(v, false);
    return is_sin && (u & 0x7fffffffu) == 0 ? u : r;
}

static inline void sine_lanes(uint32_t *d, const uint32_t *a, uint32_t mask, bool is_full,
                              bool is_sin)
{
    _Alignas(64) uint32_t results[32];
    uint32_t far = 0;
    const uint32_t quarter = is_sin ? 0 : 1;
    LANES(32)
    {
        const uint32_t u = f32_flush(a[i]);
        far |= (u & 0x7fffffffu) >= FAR_ANGLE ? UINT32_MAX : 0;
        results[i] = sine(sin_quarter((double)f32_of(u), quarter), u, is_sin);
    }
    for (unsigned i = 0; far && i < 32; i++)
        if ((a[i] & 0x7fffffffu) >= FAR_ANGLE && (a[i] & 0x7f800000u) != 0x7f800000u)
            results[i] = sine(sin_far(a[i], quarter), a[i], is_sin);
    LANES(32)
    {
        const uint32_t r = results[i], old = d[i];
        d[i] = is_full || (mask & pl_emu_lane_bit[i]) ? r : old;
    }
}

#define SINE(id, is_sin)                                                                           \
    void FULL(id)(ARGS)                                                                            \
    {                                                                                              \
        (void)vb, (void)vc, (void)mask, (void)x;                                                   \
        sine_lanes(vd, va, UINT32_MAX, true, is_sin);                                              \
    }                                                                                              \
    void MASKED(id)(ARGS)                                                                          \
    {                                                                                              \
        (void)vb, (void)vc, (void)x;                                                               \
        sine_lanes(vd, va, mask, false, is_sin);                                                   \
    }
SINE(sin_approx_f32, true)
SINE(cos_approx_f32, false)

#define APPROX1(id, value)                                                                         \
    KERNEL1(id##_f32, uint32_t, uint32_t, value(A, false))                                         \
    KERNEL1(id##_ftz_f32, uint32_t, uint32_t, value(A, true))

#define V(u, ftz)     ((double)f32_of(flush_if(u, ftz)))
#define EX2(u, ftz)   finish(ex2(V(u, ftz)), ftz)
#define LG2(u, ftz)   finish(lg2(V(u, ftz)), ftz)
#define RCP(u, ftz)   finish(1.0 / V(u, ftz), ftz)
#define SQRT(u, ftz)  finish(sqrt(V(u, ftz)), ftz)
#define RSQRT(u, ftz) finish(1.0 / sqrt(V(u, ftz)), ftz)

APPROX1(ex2_approx, EX2)
APPROX1(lg2_approx, LG2)
APPROX1(rcp_approx, RCP)
APPROX1(sqrt_approx, SQRT)
APPROX1(rsqrt_approx, RSQRT)
KERNEL1(tanh_approx_f32, uint32_t, uint32_t, finish(tanh_double(V(A, false)), false))

/* "div.approx": for a divisor above 2^126 the quotient is a zero, of an infinite dividend a NaN; "div.full" has the whole range */
static inline uint32_t div_approx(uint32_t a, uint32_t b, bool is_ftz)
{
    const uint32_t u = flush_if(a, is_ftz), v = flush_if(b, is_ftz), magnitude = v & 0x7fffffffu;
    const uint32_t r = finish((double)f32_of(u) / (double)f32_of(v), is_ftz),
                   sign = (u ^ v) & 0x80000000u;
    const bool is_large = magnitude > 0x7e800000u && magnitude < 0x7f800000u;
    const uint32_t lost = (u & 0x7fffffffu) >= 0x7f800000u ? F32_NAN : sign;
    return is_large ? lost : r;
}

KERNEL2(div_approx_f32, uint32_t, uint32_t, uint32_t, div_approx(A, B, false))
KERNEL2(div_approx_ftz_f32, uint32_t, uint32_t, uint32_t, div_approx(A, B, true))
KERNEL2(div_full_f32, uint32_t, uint32_t, uint32_t, finish(V(A, false) / V(B, false), false))
KERNEL2(div_full_ftz_f32, uint32_t, uint32_t, uint32_t, finish(V(A, true) / V(B, true), true))

/* ---- "rcp.approx.ftz.f64, rsqrt.approx.ftz.f64": only the upper word of operand and result; "rsqrt.approx.f64" ---- */

#define UPPER 0xffffffff00000000u

static inline uint64_t flush_f64(uint64_t u)
{
    return (u & 0x7ff0000000000000u) == 0 ? u & 0x8000000000000000u : u;
}
static inline uint64_t upper(double v)
{
    const uint64_t u = flush_f64(f64_bits(v));
    return v != v ? 0x7fffffff00000000u : u & UPPER;
}

KERNEL1(rcp_approx_ftz_f64, uint64_t, uint64_t, upper(1.0 / f64_of(flush_f64(A & UPPER))))
KERNEL1(rsqrt_approx_ftz_f64, uint64_t, uint64_t, upper(1.0 / sqrt(f64_of(flush_f64(A & UPPER)))))
KERNEL1(rsqrt_approx_f64, uint64_t, uint64_t, f64_bits(1.0 / sqrt(f64_of(A))))

/* ---- "Half Precision Floating-Point Instructions: tanh, ex2" ---- */

#define F16V(u)  ((double)f32_of(f16_to_f32(u)))
#define BF16V(u) ((double)f32_of(bf16_to_f32(u)))
#define BF16F(u) ((double)f32_of(f32_flush(bf16_to_f32(u))))

static inline uint16_t bf16_flush(uint32_t u)
{
    return (uint16_t)((u & 0x7f80u) == 0 ? u & 0x8000u : u);
}

KERNEL1(ex2_approx_f16, uint16_t, uint16_t, f64_to_half(ex2(F16V(A)), 10, 15))
KERNEL1(tanh_approx_f16, uint16_t, uint16_t, f64_to_half(tanh_double(F16V(A)), 10, 15))
KERNEL1(ex2_approx_ftz_bf16, uint16_t, uint16_t, bf16_flush(f64_to_half(ex2(BF16F(A)), 7, 127)))
KERNEL1(tanh_approx_bf16, uint16_t, uint16_t, f64_to_half(tanh_double(BF16V(A)), 7, 127))
PAIRS1(ex2_approx_f16x2, uint16_t, f64_to_half(ex2(F16V(A)), 10, 15))
PAIRS1(tanh_approx_f16x2, uint16_t, f64_to_half(tanh_double(F16V(A)), 10, 15))
PAIRS1(ex2_approx_ftz_bf16x2, uint16_t, bf16_flush(f64_to_half(ex2(BF16F(A)), 7, 127)))
PAIRS1(tanh_approx_bf16x2, uint16_t, f64_to_half(tanh_double(BF16V(A)), 7, 127))
