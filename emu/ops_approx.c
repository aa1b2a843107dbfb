/*
 * The approximate functions; levels base and avx2.
 *
 * PTX ISA, "Floating Point Instructions: rcp, sqrt, rsqrt, sin, cos, lg2, ex2, tanh, div" give an error bound and exact
 * special values. Everything is evaluated in double, far inside the bounds, by polynomials of our own, so that results do not
 * depend on the host's library or ISA level.
 */
#include "emu/ops_float.h"

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

/* sin(x + quarter * pi / 2); Cody-Waite reduction with pi / 2 in two parts, for |x| below 2^24. */
static inline double sin_quarter(double x, int32_t quarter)
{
    const double shifter = 0x1.8p52, sum = x * 0x1.45f306dc9c883p-1 + shifter, n = sum - shifter;
    const double r = (x - n * 0x1.921fb544p+0) - n * 0x1.0b4611a626331p-34, r2 = r * r;
    const uint32_t q = (uint32_t)f64_bits(sum) + (uint32_t)quarter;
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

/* Beyond 2^24 nothing is promised; the value of the nearest such argument keeps results in [-1, 1]. */
static inline double bounded_angle(double x)
{
    double b = x > 0x1p24 ? 0x1p24 : x;
    b = b < -0x1p24 ? -0x1p24 : b;
    return x - x == 0.0 ? b : (double)NAN;
}

/* sin flushes subnormal operands to a zero of their sign, with .ftz or without. */
static inline uint32_t sin_f32(uint32_t a)
{
    const uint32_t u = f32_flush(a);
    const uint32_t r = finish(sin_quarter(bounded_angle((double)f32_of(u)), 0), false);
    return (u & 0x7fffffffu) == 0 ? u : r;
}

#define APPROX1(id, value)                                                                         \
    KERNEL1(id##_f32, uint32_t, uint32_t, value(A, false))                                         \
    KERNEL1(id##_ftz_f32, uint32_t, uint32_t, value(A, true))

#define V(u, ftz)     ((double)f32_of(flush_if(u, ftz)))
#define EX2(u, ftz)   finish(ex2(V(u, ftz)), ftz)
#define LG2(u, ftz)   finish(lg2(V(u, ftz)), ftz)
#define RCP(u, ftz)   finish(1.0 / V(u, ftz), ftz)
#define SQRT(u, ftz)  finish(sqrt(V(u, ftz)), ftz)
#define RSQRT(u, ftz) finish(1.0 / sqrt(V(u, ftz)), ftz)
#define COS(u, ftz)   finish(sin_quarter(bounded_angle(V(u, ftz)), 1), ftz)
#define SIN(u, ftz)   ((ftz) ? flush_if(sin_f32(u), true) : sin_f32(u))

APPROX1(ex2_approx, EX2)
APPROX1(lg2_approx, LG2)
APPROX1(rcp_approx, RCP)
APPROX1(sqrt_approx, SQRT)
APPROX1(rsqrt_approx, RSQRT)
APPROX1(cos_approx, COS)
APPROX1(sin_approx, SIN)
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
