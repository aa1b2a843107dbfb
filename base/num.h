#ifndef PL_BASE_NUM_H
#define PL_BASE_NUM_H
/*
 * Exact arithmetic on the number formats of GPUs, by value and in integers only: no host floating point, no rounding mode.
 *
 * A bit pattern is unpacked to a struct pl_num, operations on it keep every bit that later rounding can need (a sticky bit
 * stands for the rest), and pl_num_pack() rounds once to the destination. So each of these is correctly rounded for any
 * pair of formats: pack(fmt, unpack(a) op unpack(b)). It is the slow, sure path: the emulated driver takes it for rare
 * forms and for the corner cases of fast ones, reference code and tests take it everywhere.
 *
 *   format  layout (sign exponent mantissa)  largest        specials
 *   f64 f32 f16 bf16 e5m2                    IEEE           Inf, NaN
 *   tf32    1 8 10, in the top of 32 bits    as f32         Inf, NaN; the low 13 bits are zero after rounding
 *   e4m3    1 4 3                            448            NaN is S.1111.111, no Inf
 *   e3m2 e2m3 e2m1   6, 6, 4 bits            28, 7.5, 6     neither Inf nor NaN
 *   ue8m0   8 exponent bits, 2^(e-127)       2^127          NaN is 0xff, no zero, no sign
 *
 * Canonical NaNs: f32 and tf32 0x7fffffff, f16 and bf16 0x7fff, e4m3 and e5m2 0x7f, ue8m0 0xff, f64 0x7fffffffe0000000
 * (f32's, widened); fp6 and fp4 give their largest positive value. Source: PTX ISA, "Floating Point Instructions" and
 * "Data Movement and Conversion Instructions: cvt".
 */
#include <stdbool.h>
#include <stdint.h>

enum pl_num_fmt {
    PL_NUM_F64,
    PL_NUM_F32,
    PL_NUM_TF32,
    PL_NUM_F16,
    PL_NUM_BF16,
    PL_NUM_E5M2,
    PL_NUM_E4M3,
    PL_NUM_E3M2,
    PL_NUM_E2M3,
    PL_NUM_E2M1,
    PL_NUM_UE8M0,
    PL_NUM_FMT_COUNT
};

enum pl_num_special { PL_NUM_HAS_INF, PL_NUM_HAS_NAN_ONLY, PL_NUM_HAS_NONE };

struct pl_num_fmt_info {
    const char *name;
    uint8_t bits;     /* of the container value */
    uint8_t exp_bits; /* 0 sign bits where the format is unsigned */
    uint8_t man_bits; /* stored mantissa bits */
    uint8_t pad_bits; /* zero bits below the mantissa (tf32) */
    int16_t bias;
    uint8_t special; /* enum pl_num_special */
    uint64_t nan;    /* what a NaN becomes */
    uint64_t max;    /* largest finite, positive */
};
extern const struct pl_num_fmt_info pl_num_fmts[PL_NUM_FMT_COUNT];

enum pl_num_round {
    PL_NUM_RN, /* to nearest, ties to even */
    PL_NUM_RZ, /* towards zero */
    PL_NUM_RM, /* towards minus infinity */
    PL_NUM_RP, /* towards plus infinity */
    PL_NUM_RA, /* to nearest, ties away from zero (PTX .rna) */
    PL_NUM_RS, /* stochastic: random bits are added below the last kept bit, the sum is truncated (PTX .rs) */
};

enum pl_num_class { PL_NUM_ZERO, PL_NUM_FINITE, PL_NUM_INF, PL_NUM_NAN };

__extension__ typedef unsigned __int128 pl_u128;

/* FINITE: the value is mant * 2^(exp - 125), bit 125 of mant is its highest set bit, bit 0 is sticky. */
struct pl_num {
    uint8_t class; /* enum pl_num_class */
    bool is_negative;
    int32_t exp;
    pl_u128 mant;
};

/* How pl_num_pack() rounds and clamps; {0} is plain rounding to nearest even. */
struct pl_num_rule {
    uint8_t round; /* enum pl_num_round */
    bool
        is_ftz; /* a result below the least normal, rounded with unbounded exponent, becomes a zero of its sign */
    bool is_sat;         /* clamp to [+0, 1], NaN to +0 */
    bool is_satfinite;   /* overflow and Inf become the largest finite value of their sign */
    bool is_relu;        /* negative values, -0 too, become +0 */
    uint8_t n_rand_bits; /* RS: how many */
    uint32_t rand_bits;  /* RS: right-aligned */
};

struct pl_num pl_num_unpack(enum pl_num_fmt fmt, uint64_t bits);
uint64_t pl_num_pack(enum pl_num_fmt fmt, struct pl_num x, const struct pl_num_rule *rule);

struct pl_num pl_num_of_u64(uint64_t v);
struct pl_num pl_num_of_i64(int64_t v);
struct pl_num pl_num_flush(enum pl_num_fmt fmt,
                           struct pl_num x); /* .ftz of an input: subnormals of fmt to zero */
struct pl_num pl_num_neg(struct pl_num x);
struct pl_num pl_num_abs(struct pl_num x);

/* Exact up to the sticky bit. round matters only for the sign of an exact zero sum: -0 in RM, else +0. */
struct pl_num pl_num_add(struct pl_num a, struct pl_num b, enum pl_num_round round);
struct pl_num pl_num_mul(struct pl_num a, struct pl_num b);
struct pl_num pl_num_fma(struct pl_num a, struct pl_num b, struct pl_num c,
                         enum pl_num_round round);
struct pl_num pl_num_div(struct pl_num a, struct pl_num b);
struct pl_num pl_num_sqrt(struct pl_num a);

/* An integral value; the sign of a zero result is that of x. RN RZ RM RP RA. */
struct pl_num pl_num_round_integral(struct pl_num x, enum pl_num_round round);

/* -1, 0, 1; 2 where one is a NaN. -0 equals +0. */
int pl_num_cmp(struct pl_num a, struct pl_num b);

/* Rounded to an integer of n_bits (8 to 64) and clamped to its range; the result in the low n_bits, the rest zero.
 * nan is what a NaN gives. */
struct pl_num_int_rule {
    uint8_t round; /* enum pl_num_round */
    uint8_t n_bits;
    bool is_signed;
    uint64_t nan;
};
uint64_t pl_num_to_int(struct pl_num x, const struct pl_num_int_rule *rule);

/* One format to another in one rounding. */
uint64_t pl_num_convert(enum pl_num_fmt to, enum pl_num_fmt from, uint64_t bits,
                        const struct pl_num_rule *rule);

/* The common ones: nearest even, NaN canonical; every narrow value is exact in float. */
float pl_num_f16_to_float(uint16_t bits);
float pl_num_bf16_to_float(uint16_t bits);
float pl_num_to_float(enum pl_num_fmt from, uint64_t bits);
uint16_t pl_num_f16_of_float(float x);
uint16_t pl_num_bf16_of_float(float x);
uint64_t pl_num_of_double(enum pl_num_fmt to,
                          double x); /* nearest even; fp8 and narrower saturate */
double pl_num_to_double(enum pl_num_fmt from, uint64_t bits);

#endif
