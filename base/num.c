#include "base/num.h"

#include "base/debug.h"

#include <string.h>

const struct pl_num_fmt_info pl_num_fmts[PL_NUM_FMT_COUNT] = {
    /* name, bits, exp, man, pad, bias, special, nan, max */
    [PL_NUM_F64] = {"f64", 64, 11, 52, 0, 1023, PL_NUM_HAS_INF, 0x7fffffffe0000000,
                    0x7fefffffffffffff},
    [PL_NUM_F32] = {"f32", 32, 8, 23, 0, 127, PL_NUM_HAS_INF, 0x7fffffff, 0x7f7fffff},
    [PL_NUM_TF32] = {"tf32", 32, 8, 10, 13, 127, PL_NUM_HAS_INF, 0x7fffffff, 0x7f7fe000},
    [PL_NUM_F16] = {"f16", 16, 5, 10, 0, 15, PL_NUM_HAS_INF, 0x7fff, 0x7bff},
    [PL_NUM_BF16] = {"bf16", 16, 8, 7, 0, 127, PL_NUM_HAS_INF, 0x7fff, 0x7f7f},
    [PL_NUM_E5M2] = {"e5m2", 8, 5, 2, 0, 15, PL_NUM_HAS_INF, 0x7f, 0x7b},
    [PL_NUM_E4M3] = {"e4m3", 8, 4, 3, 0, 7, PL_NUM_HAS_NAN_ONLY, 0x7f, 0x7e},
    [PL_NUM_E3M2] = {"e3m2", 6, 3, 2, 0, 3, PL_NUM_HAS_NONE, 0x1f, 0x1f},
    [PL_NUM_E2M3] = {"e2m3", 6, 2, 3, 0, 1, PL_NUM_HAS_NONE, 0x1f, 0x1f},
    [PL_NUM_E2M1] = {"e2m1", 4, 2, 1, 0, 1, PL_NUM_HAS_NONE, 0x7, 0x7},
    [PL_NUM_UE8M0] = {"ue8m0", 8, 8, 0, 0, 127, PL_NUM_HAS_NAN_ONLY, 0xff, 0xfe},
};

enum { TOP = 125 }; /* position of the highest set bit of a finite mantissa */

static int highest_bit(pl_u128 v)
{
    uint64_t hi = (uint64_t)(v >> 64);
    return hi ? 127 - __builtin_clzll(hi) : 63 - __builtin_clzll((uint64_t)v);
}

/* v * 2^exp with any v != 0, brought to the normal position. Shifting right keeps lost bits in bit 0. */
static struct pl_num normalise(bool is_negative, pl_u128 v, int32_t exp)
{
    int shift = TOP - highest_bit(v);
    struct pl_num r = {PL_NUM_FINITE, is_negative, exp + TOP - shift, 0};
    if (shift >= 0) {
        r.mant = v << shift;
    } else {
        pl_u128 lost = v & (((pl_u128)1 << -shift) - 1);
        r.mant = (v >> -shift) | (lost != 0);
    }
    return r;
}

/* v >> n, lost bits kept in bit 0; n >= 0. */
static pl_u128 shift_right_sticky(pl_u128 v, int n)
{
    if (n >= 128)
        return v != 0;
    if (n == 0)
        return v;
    return (v >> n) | ((v & (((pl_u128)1 << n) - 1)) != 0);
}

static struct pl_num special(enum pl_num_class class, bool is_negative)
{
    return (struct pl_num){(uint8_t) class, is_negative, 0, 0};
}

struct pl_num pl_num_unpack(enum pl_num_fmt fmt, uint64_t bits)
{
    const struct pl_num_fmt_info *f = &pl_num_fmts[fmt];
    if (fmt == PL_NUM_UE8M0) {
        if ((bits & 0xff) == 0xff)
            return special(PL_NUM_NAN, false);
        return normalise(false, 1, (int32_t)(bits & 0xff) - 127);
    }
    bits >>= f->pad_bits;
    uint64_t man = bits & (((uint64_t)1 << f->man_bits) - 1);
    uint64_t exp = (bits >> f->man_bits) & (((uint64_t)1 << f->exp_bits) - 1);
    bool is_negative = (bits >> (f->man_bits + f->exp_bits)) & 1;
    uint64_t exp_max = ((uint64_t)1 << f->exp_bits) - 1;
    if (f->special == PL_NUM_HAS_INF && exp == exp_max)
        return special(man ? PL_NUM_NAN : PL_NUM_INF, is_negative);
    if (f->special == PL_NUM_HAS_NAN_ONLY && exp == exp_max &&
        man == ((uint64_t)1 << f->man_bits) - 1)
        return special(PL_NUM_NAN, is_negative);
    if (exp == 0 && man == 0)
        return special(PL_NUM_ZERO, is_negative);
    if (exp != 0)
        man |= (uint64_t)1 << f->man_bits;
    return normalise(is_negative, man, (int32_t)(exp ? exp : 1) - f->bias - f->man_bits);
}

static uint64_t sign_bit(const struct pl_num_fmt_info *f, bool is_negative)
{
    return is_negative ? (uint64_t)1 << (f->bits - 1) : 0;
}

static uint64_t inf_bits(const struct pl_num_fmt_info *f)
{
    return (((uint64_t)1 << f->exp_bits) - 1) << (f->man_bits + f->pad_bits);
}

/* mant >> n_drop rounded as the mode says. n_drop in 1..127, or more (everything is dropped). */
static pl_u128 round_mant(pl_u128 mant, int n_drop, bool is_negative,
                          const struct pl_num_rule *rule)
{
    if (n_drop > 127) {
        mant = mant != 0;
        n_drop = 127;
    }
    pl_u128 kept = mant >> n_drop;
    pl_u128 rest = mant & (((pl_u128)1 << n_drop) - 1);
    pl_u128 half = (pl_u128)1 << (n_drop - 1);
    switch ((enum pl_num_round)rule->round) {
    case PL_NUM_RN: return kept + (rest > half || (rest == half && (kept & 1)));
    case PL_NUM_RA: return kept + (rest >= half);
    case PL_NUM_RZ: return kept;
    case PL_NUM_RM: return kept + (is_negative && rest != 0);
    case PL_NUM_RP: return kept + (!is_negative && rest != 0);
    case PL_NUM_RS: {
        int down =
            n_drop - rule->n_rand_bits; /* the random bits stand directly below the last kept bit */
        pl_u128 rand =
            down >= 0 ? (pl_u128)rule->rand_bits << down : (pl_u128)rule->rand_bits >> -down;
        return (mant + rand) >> n_drop;
    }
    }
    PL_ASSERT(0 && "rounding mode");
    return kept;
}

static uint64_t overflow(const struct pl_num_fmt_info *f, bool is_negative,
                         const struct pl_num_rule *rule)
{
    bool is_to_finite = rule->is_satfinite || rule->round == PL_NUM_RZ ||
                        (rule->round == PL_NUM_RM && !is_negative) ||
                        (rule->round == PL_NUM_RP && is_negative);
    uint64_t magnitude = f->max;
    if (!is_to_finite && f->special == PL_NUM_HAS_INF)
        magnitude = inf_bits(f);
    else if (!is_to_finite && f->special == PL_NUM_HAS_NAN_ONLY)
        magnitude = f->nan;
    return magnitude | sign_bit(f, is_negative);
}

/* Only an exponent: the sign is dropped, a zero or anything up to 2^-127 is code 0. */
static uint64_t pack_ue8m0(struct pl_num x, const struct pl_num_rule *rule)
{
    if (x.class == PL_NUM_NAN)
        return 0xff;
    if (x.class == PL_NUM_INF)
        return rule->is_satfinite ? 0xfe : 0xff;
    if (x.class == PL_NUM_ZERO)
        return 0;
    int32_t code = x.exp + 127;
    if (rule->round == PL_NUM_RP && x.mant != (pl_u128)1 << TOP)
        code++;
    if (code < 0)
        return 0;
    if (code > 0xfe)
        return rule->is_satfinite ? 0xfe : 0xff;
    return (uint64_t)code;
}

static bool is_tiny_when_rounded(const struct pl_num_fmt_info *f, struct pl_num x,
                                 const struct pl_num_rule *rule)
{
    pl_u128 m = round_mant(x.mant, TOP - f->man_bits, x.is_negative, rule);
    int32_t exp = x.exp + (m >> (f->man_bits + 1) ? 1 : 0);
    return exp < 1 - f->bias;
}

static uint64_t pack_finite(const struct pl_num_fmt_info *f, struct pl_num x,
                            const struct pl_num_rule *rule)
{
    int32_t exp_min = 1 - f->bias;
    if (rule->is_ftz && is_tiny_when_rounded(f, x, rule))
        return sign_bit(f, x.is_negative);
    int n_drop = TOP - f->man_bits;
    bool is_subnormal = x.exp < exp_min;
    if (is_subnormal)
        n_drop += exp_min - x.exp > 200 ? 200 : exp_min - x.exp;
    uint64_t man = (uint64_t)round_mant(x.mant, n_drop, x.is_negative, rule);
    /* man counts units of the last place; a carry out of it moves on into the exponent by itself */
    uint64_t biased =
        is_subnormal ? 0 : (uint64_t)(x.exp + f->bias - 1 > 2047 ? 2047 : x.exp + f->bias - 1);
    uint64_t magnitude = ((biased << f->man_bits) + man) << f->pad_bits;
    if (magnitude > f->max)
        return overflow(f, x.is_negative, rule);
    return magnitude | sign_bit(f, x.is_negative);
}

static uint64_t pack_any(const struct pl_num_fmt_info *f, struct pl_num x,
                         const struct pl_num_rule *rule)
{
    switch ((enum pl_num_class)x.class) {
    case PL_NUM_NAN: return f->nan;
    case PL_NUM_ZERO: return sign_bit(f, x.is_negative);
    case PL_NUM_INF:
        if (f->special == PL_NUM_HAS_INF && !rule->is_satfinite)
            return inf_bits(f) | sign_bit(f, x.is_negative);
        if (f->special == PL_NUM_HAS_NAN_ONLY && !rule->is_satfinite)
            return f->nan | sign_bit(f, x.is_negative);
        return f->max | sign_bit(f, x.is_negative);
    case PL_NUM_FINITE: return pack_finite(f, x, rule);
    }
    PL_ASSERT(0 && "class");
    return 0;
}

uint64_t pl_num_pack(enum pl_num_fmt fmt, struct pl_num x, const struct pl_num_rule *rule)
{
    const struct pl_num_fmt_info *f = &pl_num_fmts[fmt];
    if (fmt == PL_NUM_UE8M0)
        return pack_ue8m0(x, rule);
    if (rule->is_relu && x.class != PL_NUM_NAN && x.is_negative)
        return 0;
    if (!rule->is_sat)
        return pack_any(f, x, rule);
    uint64_t one = (uint64_t)f->bias << (f->man_bits + f->pad_bits);
    if (x.class == PL_NUM_NAN || x.is_negative)
        return 0;
    uint64_t bits = pack_any(f, x, rule);
    return bits > one ? one : bits;
}

struct pl_num pl_num_of_u64(uint64_t v)
{
    return v ? normalise(false, v, 0) : special(PL_NUM_ZERO, false);
}

struct pl_num pl_num_of_i64(int64_t v)
{
    if (v >= 0)
        return pl_num_of_u64((uint64_t)v);
    return pl_num_neg(pl_num_of_u64(-(uint64_t)v));
}

struct pl_num pl_num_flush(enum pl_num_fmt fmt, struct pl_num x)
{
    if (x.class == PL_NUM_FINITE && x.exp < 1 - pl_num_fmts[fmt].bias)
        return special(PL_NUM_ZERO, x.is_negative);
    return x;
}

struct pl_num pl_num_neg(struct pl_num x)
{
    x.is_negative = !x.is_negative;
    return x;
}

struct pl_num pl_num_abs(struct pl_num x)
{
    x.is_negative = false;
    return x;
}

static struct pl_num add_finite(struct pl_num a, struct pl_num b, enum pl_num_round round)
{
    if (a.exp < b.exp) {
        struct pl_num t = a;
        a = b;
        b = t;
    }
    pl_u128 low = shift_right_sticky(b.mant, a.exp - b.exp);
    if (a.is_negative == b.is_negative)
        return normalise(a.is_negative, a.mant + low, a.exp - TOP);
    if (a.mant == low)
        return special(PL_NUM_ZERO, round == PL_NUM_RM);
    return a.mant > low ? normalise(a.is_negative, a.mant - low, a.exp - TOP)
                        : normalise(b.is_negative, low - a.mant, a.exp - TOP);
}

struct pl_num pl_num_add(struct pl_num a, struct pl_num b, enum pl_num_round round)
{
    if (a.class == PL_NUM_NAN || b.class == PL_NUM_NAN)
        return special(PL_NUM_NAN, false);
    if (a.class == PL_NUM_INF)
        return b.class == PL_NUM_INF && a.is_negative != b.is_negative ? special(PL_NUM_NAN, false)
                                                                       : a;
    if (b.class == PL_NUM_INF)
        return b;
    if (a.class == PL_NUM_ZERO && b.class == PL_NUM_ZERO)
        return special(PL_NUM_ZERO,
                       a.is_negative == b.is_negative ? a.is_negative : round == PL_NUM_RM);
    if (a.class == PL_NUM_ZERO)
        return b;
    if (b.class == PL_NUM_ZERO)
        return a;
    return add_finite(a, b, round);
}

/* Both factors have at most 62 significant bits and no sticky bit (every format's significand fits), so the 128-bit product
 * of the two high halves is exact. */
struct pl_num pl_num_mul(struct pl_num a, struct pl_num b)
{
    bool is_negative = a.is_negative != b.is_negative;
    if (a.class == PL_NUM_NAN || b.class == PL_NUM_NAN)
        return special(PL_NUM_NAN, false);
    if (a.class == PL_NUM_INF || b.class == PL_NUM_INF)
        return a.class == PL_NUM_ZERO || b.class == PL_NUM_ZERO ? special(PL_NUM_NAN, false)
                                                                : special(PL_NUM_INF, is_negative);
    if (a.class == PL_NUM_ZERO || b.class == PL_NUM_ZERO)
        return special(PL_NUM_ZERO, is_negative);
    PL_ASSERT(!(uint64_t)a.mant && !(uint64_t)b.mant);
    pl_u128 product = (pl_u128)(uint64_t)(a.mant >> 64) * (uint64_t)(b.mant >> 64);
    return normalise(is_negative, product, a.exp + b.exp - 2 * (TOP - 64));
}

struct pl_num pl_num_fma(struct pl_num a, struct pl_num b, struct pl_num c, enum pl_num_round round)
{
    if (c.class == PL_NUM_NAN)
        return special(PL_NUM_NAN, false);
    return pl_num_add(pl_num_mul(a, b), c, round);
}

struct pl_num pl_num_div(struct pl_num a, struct pl_num b)
{
    bool is_negative = a.is_negative != b.is_negative;
    if (a.class == PL_NUM_NAN || b.class == PL_NUM_NAN)
        return special(PL_NUM_NAN, false);
    if (a.class == PL_NUM_INF)
        return special(b.class == PL_NUM_INF ? PL_NUM_NAN : PL_NUM_INF, is_negative);
    if (b.class == PL_NUM_INF)
        return special(PL_NUM_ZERO, is_negative);
    if (b.class == PL_NUM_ZERO)
        return special(a.class == PL_NUM_ZERO ? PL_NUM_NAN : PL_NUM_INF, is_negative);
    if (a.class == PL_NUM_ZERO)
        return special(PL_NUM_ZERO, is_negative);
    uint64_t divisor = (uint64_t)(b.mant >> 64); /* at most 62 bits, as for mul */
    PL_ASSERT(!(uint64_t)b.mant);
    pl_u128 quotient =
        a.mant / divisor; /* at least 63 bits: more than any format keeps, plus two */
    pl_u128 rest = a.mant % divisor;
    return normalise(is_negative, quotient << 1 | (rest != 0), a.exp - b.exp - 65);
}

struct pl_num pl_num_sqrt(struct pl_num a)
{
    if (a.class == PL_NUM_NAN || (a.is_negative && a.class != PL_NUM_ZERO))
        return special(PL_NUM_NAN, false);
    if (a.class != PL_NUM_FINITE)
        return a;
    /* mant * 2^(exp - 125): make the power even, then take the integer root bit by bit (63 result bits) */
    pl_u128 v = a.mant;
    int32_t exp = a.exp - TOP;
    if (exp & 1) {
        v <<= 1;
        exp--;
    }
    pl_u128 root = 0, rest = v;
    for (pl_u128 bit = (pl_u128)1 << 126; bit; bit >>= 2) {
        if (rest >= root + bit) {
            rest -= root + bit;
            root = (root >> 1) + bit;
        } else {
            root >>= 1;
        }
    }
    return normalise(false, root << 1 | (rest != 0), exp / 2 - 1);
}

struct pl_num pl_num_round_integral(struct pl_num x, enum pl_num_round round)
{
    if (x.class != PL_NUM_FINITE || x.exp >= TOP)
        return x;
    struct pl_num_rule rule = {.round = (uint8_t)round};
    int n_drop = TOP - x.exp;
    pl_u128 v = round_mant(x.mant, n_drop > 128 ? 128 : n_drop, x.is_negative, &rule);
    return v ? normalise(x.is_negative, v, 0) : special(PL_NUM_ZERO, x.is_negative);
}

static int cmp_magnitude(struct pl_num a, struct pl_num b)
{
    if (a.class != b.class)
        return a.class < b.class ? -1 : 1;
    if (a.class != PL_NUM_FINITE)
        return 0;
    if (a.exp != b.exp)
        return a.exp < b.exp ? -1 : 1;
    return a.mant < b.mant ? -1 : a.mant > b.mant;
}

int pl_num_cmp(struct pl_num a, struct pl_num b)
{
    if (a.class == PL_NUM_NAN || b.class == PL_NUM_NAN)
        return 2;
    if (a.class == PL_NUM_ZERO && b.class == PL_NUM_ZERO)
        return 0;
    if (a.is_negative != b.is_negative)
        return a.is_negative ? -1 : 1;
    int c = cmp_magnitude(a, b);
    return a.is_negative ? -c : c;
}

uint64_t pl_num_to_int(struct pl_num x, const struct pl_num_int_rule *rule)
{
    uint64_t all = rule->n_bits == 64 ? UINT64_MAX : ((uint64_t)1 << rule->n_bits) - 1;
    uint64_t max = rule->is_signed ? all >> 1 : all;
    uint64_t min_magnitude = rule->is_signed ? max + 1 : 0;
    if (x.class == PL_NUM_NAN)
        return rule->nan & all;
    x = pl_num_round_integral(x, (enum pl_num_round)rule->round);
    if (x.class == PL_NUM_ZERO)
        return 0;
    uint64_t limit = x.is_negative ? min_magnitude : max;
    uint64_t v = limit;
    if (x.class == PL_NUM_FINITE && x.exp < 64) {
        v = (uint64_t)(x.mant >> (TOP - x.exp));
        v = v > limit ? limit : v;
    }
    return (x.is_negative ? -v : v) & all;
}

uint64_t pl_num_convert(enum pl_num_fmt to, enum pl_num_fmt from, uint64_t bits,
                        const struct pl_num_rule *rule)
{
    return pl_num_pack(to, pl_num_unpack(from, bits), rule);
}

static uint32_t float_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static float float_of_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

float pl_num_to_float(enum pl_num_fmt from, uint64_t bits)
{
    const struct pl_num_rule nearest = {0};
    return float_of_bits((uint32_t)pl_num_convert(PL_NUM_F32, from, bits, &nearest));
}

double pl_num_to_double(enum pl_num_fmt from, uint64_t bits)
{
    const struct pl_num_rule nearest = {0};
    uint64_t u = pl_num_convert(PL_NUM_F64, from, bits, &nearest);
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

float pl_num_f16_to_float(uint16_t bits)
{
    uint32_t magnitude = bits & 0x7fffu;
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    if (magnitude - 0x400u < 0x7800u) /* normal */
        return float_of_bits(sign | ((magnitude << 13) + ((127u - 15u) << 23)));
    if (magnitude < 0x400u) { /* zero, subnormal: multiples of 2^-24 */
        float v = (float)magnitude * 0x1p-24f;
        return sign != 0 ? -v : v;
    }
    return pl_num_to_float(PL_NUM_F16, bits);
}

float pl_num_bf16_to_float(uint16_t bits)
{
    if ((bits & 0x7fffu) > 0x7f80u)
        return float_of_bits(0x7fffffff);
    return float_of_bits((uint32_t)bits << 16);
}

uint16_t pl_num_f16_of_float(float x)
{
    const struct pl_num_rule nearest = {0};
    return (uint16_t)pl_num_convert(PL_NUM_F16, PL_NUM_F32, float_bits(x), &nearest);
}

uint16_t pl_num_bf16_of_float(float x)
{
    uint32_t u = float_bits(x);
    if ((u & 0x7fffffff) > 0x7f800000)
        return 0x7fff;
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

uint64_t pl_num_of_double(enum pl_num_fmt to, double x)
{
    struct pl_num_rule rule = {.is_satfinite = pl_num_fmts[to].bits <= 8};
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return pl_num_convert(to, PL_NUM_F64, u, &rule);
}
