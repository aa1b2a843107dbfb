#ifndef PL_EMU_OPS_FLOAT_H
#define PL_EMU_OPS_FLOAT_H
/*
 * Bit-level float helpers for lane kernels (private to emu/ops/). All are branch-free on integers, so that loops over
 * them vectorise at every ISA level.
 */
#include "emu/ops/lanes.h"

#include <math.h>

#ifdef PL_HOST_X86_64
#include <immintrin.h>
#else
#include <fenv.h>
#endif

/* PTX ISA, "Floating Point Instructions": arithmetic gives this NaN whatever its operands' payloads. */
#define F32_NAN  0x7fffffffu
#define F16_NAN  0x7fffu
#define BF16_NAN 0x7fffu

static inline uint32_t f32_canonical(uint32_t u)
{
    return (u & 0x7fffffffu) > 0x7f800000u ? F32_NAN : u;
}

/* .ftz of an operand or of a result: a subnormal becomes a zero of its sign. */
static inline uint32_t f32_flush(uint32_t u)
{
    return (u & 0x7f800000u) == 0 ? u & 0x80000000u : u;
}

/* .sat: clamp to [+0, 1]; NaN, -0 and negatives give +0. */
static inline uint32_t f32_sat(uint32_t u)
{
    float v = f32_of(u);
    uint32_t low = v > 0.0f ? u : 0;
    return v > 1.0f ? 0x3f800000u : low;
}

/* Integers that order like the floats do, with -0 below +0; NaNs are the caller's. */
static inline int32_t f32_key(uint32_t u)
{
    return (int32_t)(u ^ ((uint32_t)((int32_t)u >> 31) & 0x7fffffffu));
}
static inline int64_t f64_key(uint64_t u)
{
    return (int64_t)(u ^ ((u >> 63) ? 0x7fffffffffffffffu : 0));
}

static inline uint32_t f16_to_f32(uint32_t u)
{
    uint32_t magnitude = (u & 0x7fffu) << 13;
    uint32_t scaled = f32_bits(f32_of(magnitude) * 0x1p112f); /* exact, subnormals too */
    uint32_t wide = magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : scaled;
    return wide | (u & 0x8000u) << 16;
}

static inline uint32_t bf16_to_f32(uint32_t u) { return u << 16; }

/* Round to nearest even; NaN canonical, overflow to Inf. */
static inline uint16_t f32_to_f16(uint32_t u)
{
    uint32_t magnitude = u & 0x7fffffffu;
    uint32_t normal = (magnitude + 0xfffu + (magnitude >> 13 & 1) - ((127u - 15u) << 23)) >> 13;
    uint32_t tiny = f32_bits(f32_of(magnitude) + 0.5f) - 0x3f000000u; /* the sum rounds at 2^-24 */
    uint32_t h = magnitude < 0x38800000u ? tiny : normal;
    h = magnitude >= 0x477ff000u ? 0x7c00u : h; /* 65520 and up */
    h |= u >> 16 & 0x8000u;
    return (uint16_t)(magnitude > 0x7f800000u ? F16_NAN : h);
}

static inline uint16_t f32_to_bf16(uint32_t u)
{
    uint32_t h = (u + 0x7fffu + (u >> 16 & 1)) >> 16;
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? BF16_NAN : h);
}

/*
 * A double to f16 (10, 15) or bf16 (7, 127) in one rounding to nearest even. Normal results: round the mantissa in place and
 * rebias. Subnormal ones: adding 2^(52 + exponent of the last place) makes the host round there.
 */
static inline uint16_t f64_to_half(double v, unsigned man_bits, uint64_t bias)
{
    uint64_t u = f64_bits(v), magnitude = u & 0x7fffffffffffffffu;
    unsigned drop = 52 - man_bits;
    uint64_t odd = magnitude >> drop & 1;
    uint64_t normal =
        ((magnitude + ((uint64_t)1 << (drop - 1)) - 1 + odd) >> drop) - ((1023 - bias) << man_bits);
    uint64_t magic = (1023 + 52 - (bias - 1) - man_bits) << 52;
    uint64_t tiny = f64_bits(f64_of(magnitude) + f64_of(magic)) - magic;
    uint64_t least_normal = (1024 - bias) << 52, inf = (2 * bias + 1) << man_bits;
    uint64_t h = magnitude < least_normal ? tiny : normal;
    h = magnitude >= (1024 + bias) << 52 || h > inf ? inf : h;
    h |= u >> 48 & 0x8000u;
    return (uint16_t)(magnitude > 0x7ff0000000000000u ? 0x7fffu : h);
}

/*
 * Directed rounding: the host's rounding mode is switched around a loop whose operands are loaded after the switch and stored
 * before the switch back (the barriers keep the compiler to that), and only if the instruction asks for it.
 */
static inline unsigned round_enter(uint8_t round)
{
    unsigned saved = 0;
    if (round == PL_NUM_RN)
        return saved;
#ifdef PL_HOST_X86_64
    static const unsigned modes[] = {
        [PL_NUM_RN] = 0, [PL_NUM_RZ] = 3, [PL_NUM_RM] = 1, [PL_NUM_RP] = 2};
    saved = _mm_getcsr();
    _mm_setcsr((saved & ~0x6000u) | modes[round] << 13);
#else
    static const int modes[] = {[PL_NUM_RN] = FE_TONEAREST,
                                [PL_NUM_RZ] = FE_TOWARDZERO,
                                [PL_NUM_RM] = FE_DOWNWARD,
                                [PL_NUM_RP] = FE_UPWARD};
    saved = (unsigned)fegetround();
    fesetround(modes[round]);
#endif
    __asm__ volatile("" ::: "memory");
    return saved;
}

static inline void round_leave(uint8_t round, unsigned saved)
{
    if (round == PL_NUM_RN)
        return;
    __asm__ volatile("" ::: "memory");
#ifdef PL_HOST_X86_64
    _mm_setcsr(saved);
#else
    fesetround((int)saved);
#endif
}

#endif
