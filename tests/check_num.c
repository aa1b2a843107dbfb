#include "base/debug.h"
#include "base/num.h"
#include "tests/random.h"

#include <check.h>
#include <math.h>
#include <string.h>
#ifdef PL_HAVE_MPFR
#include <mpfr.h>
#endif

static struct random_source rnd;

/* ---- an independent view of the narrow formats: every code's value from the format's definition ---- */

struct narrow {
    enum pl_num_fmt fmt;
    int exp_bits, man_bits, bias, n_bits;
    double top; /* largest finite */
    bool has_inf;
};

static const struct narrow narrows[] = {
    {PL_NUM_F16, 5, 10, 15, 16, 65504.0, true}, {PL_NUM_BF16, 8, 7, 127, 16, 0x1.fep127, true},
    {PL_NUM_E5M2, 5, 2, 15, 8, 57344.0, true},  {PL_NUM_E4M3, 4, 3, 7, 8, 448.0, false},
    {PL_NUM_E3M2, 3, 2, 3, 6, 28.0, false},     {PL_NUM_E2M3, 2, 3, 1, 6, 7.5, false},
    {PL_NUM_E2M1, 2, 1, 1, 4, 6.0, false},
};
enum { N_NARROW = sizeof narrows / sizeof narrows[0] };

/* NAN where the code is one, HUGE_VAL for Inf */
static double value_of_code(const struct narrow *f, unsigned code)
{
    int man = (int)(code & ((1u << f->man_bits) - 1)),
        exp = (int)(code >> f->man_bits & ((1u << f->exp_bits) - 1));
    double sign = code >> (f->n_bits - 1) & 1 ? -1.0 : 1.0;
    double v = exp == 0 ? ldexp(man, 1 - f->bias - f->man_bits)
                        : ldexp(man + (1 << f->man_bits), exp - f->bias - f->man_bits);
    if (v > f->top)
        return f->has_inf && man == 0 ? sign * HUGE_VAL : (double)NAN;
    return sign * v;
}

static uint64_t bits_of(double v)
{
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

START_TEST(every_code_of_a_narrow_format_has_the_value_of_its_definition)
{
    const struct narrow *f = &narrows[_i];
    for (unsigned code = 0; code < 1u << f->n_bits; code++) {
        double want = value_of_code(f, code), got = pl_num_to_double(f->fmt, code);
        if (isnan(want))
            ck_assert_msg(isnan(got), "%s %x", pl_num_fmts[f->fmt].name, code);
        else
            ck_assert_msg(bits_of(got) == bits_of(want), "%s %x: %a, want %a",
                          pl_num_fmts[f->fmt].name, code, got, want);
    }
}
END_TEST

/* The codes of the two neighbours of |v|: below or equal, above or equal (top code + 1 where v is beyond the top). */
static void neighbours(const struct narrow *f, double v, unsigned *low, unsigned *high)
{
    unsigned a = 0, b = 1u << (f->n_bits - 1);
    while (value_of_code(f, b - 1) != f->top)
        b--; /* b: one past the largest finite code */
    while (b - a > 1) {
        unsigned m = (a + b) / 2;
        if (value_of_code(f, m) <= v)
            a = m;
        else
            b = m;
    }
    *low = a;
    *high = value_of_code(f, a) == v ? a : b;
}

/* Rounding by looking at the neighbours; the value after the largest one stands for overflow and decides as if it existed. */
static unsigned round_by_neighbours(const struct narrow *f, double v, enum pl_num_round round,
                                    bool is_satfinite)
{
    unsigned low, high, sign = signbit(v) ? 1u << (f->n_bits - 1) : 0;
    double a = fabs(v);
    neighbours(f, a, &low, &high);
    double low_value = value_of_code(f, low);
    double high_value = value_of_code(f, high);
    if (high != low && low_value == f->top)
        high_value = f->top + (f->top - value_of_code(f, low - 1));
    double to_low = a - low_value, to_high = high_value - a;
    bool is_up = false;
    switch (round) {
    case PL_NUM_RN: is_up = to_high < to_low || (to_high == to_low && (high & 1) == 0); break;
    case PL_NUM_RA: is_up = to_high <= to_low; break;
    case PL_NUM_RZ: is_up = false; break;
    case PL_NUM_RM: is_up = signbit(v); break;
    case PL_NUM_RP: is_up = !signbit(v); break;
    case PL_NUM_RS: break;
    }
    unsigned code = low == high || !is_up ? low : high;
    if (code == high && high != low && low_value == f->top && (is_satfinite || !f->has_inf))
        code = f->fmt == PL_NUM_E4M3 && !is_satfinite ? 0x7f : low;
    return code | sign;
}

START_TEST(narrowing_takes_the_right_neighbour_in_every_mode)
{
    random_turn(&rnd, _i);
    const struct narrow *f = &narrows[_i];
    for (int k = 0; k < 20000; k++) {
        double v;
        uint64_t u = random_float(&rnd, 8, 23) << 29;
        uint64_t code = random_u64(&rnd) & ((1u << f->n_bits) - 2);
        double near = value_of_code(f, (unsigned)code), next = value_of_code(f, (unsigned)code + 1);
        memcpy(&v, &u, sizeof v);
        v = k % 3 == 0   ? (near + next) / 2
            : k % 3 == 1 ? nextafter((near + next) / 2, k % 2 ? 1e9 : -1e9)
                         : v;
        v = k % 12 == 2 ? (f->top + ldexp(f->top, -f->man_bits - 1)) * (k % 24 == 2 ? 1 : 1.001)
                        : v;
        if (!isfinite(v))
            continue;
        for (int round = PL_NUM_RN; round <= PL_NUM_RA; round++) {
            struct pl_num_rule rule = {.round = (uint8_t)round, .is_satfinite = k & 1};
            uint64_t got = pl_num_convert(f->fmt, PL_NUM_F64, bits_of(v), &rule);
            unsigned want = round_by_neighbours(f, v, (enum pl_num_round)round, k & 1);
            ck_assert_msg(got == want, "%s of %a, mode %d satfinite %d: %llx, want %x",
                          pl_num_fmts[f->fmt].name, v, round, k & 1, (unsigned long long)got, want);
        }
    }
}
END_TEST

START_TEST(saturating_conversions_treat_specials_as_the_manual_says)
{
    static const struct {
        enum pl_num_fmt fmt;
        uint64_t inf, minus_inf, nan;
    } rows[] = {
        {PL_NUM_E4M3, 0x7e, 0xfe, 0x7f},      {PL_NUM_E5M2, 0x7b, 0xfb, 0x7f},
        {PL_NUM_E3M2, 0x1f, 0x3f, 0x1f},      {PL_NUM_E2M3, 0x1f, 0x3f, 0x1f},
        {PL_NUM_E2M1, 0x7, 0xf, 0x7},         {PL_NUM_UE8M0, 0xfe, 0xfe, 0xff},
        {PL_NUM_F16, 0x7bff, 0xfbff, 0x7fff}, {PL_NUM_BF16, 0x7f7f, 0xff7f, 0x7fff},
    };
    const struct pl_num_rule rule = {.is_satfinite = true};
    for (size_t i = 0; i < PL_COUNT(rows); i++) {
        ck_assert_uint_eq(pl_num_convert(rows[i].fmt, PL_NUM_F32, 0x7f800000, &rule), rows[i].inf);
        ck_assert_uint_eq(pl_num_convert(rows[i].fmt, PL_NUM_F32, 0xff800000, &rule),
                          rows[i].minus_inf);
        ck_assert_uint_eq(pl_num_convert(rows[i].fmt, PL_NUM_F32, 0xff812345, &rule), rows[i].nan);
    }
}
END_TEST

/* Adding random bits below the last place and truncating: the chance to go up is the part cut off. All 13 bits, f32 to f16. */
START_TEST(stochastic_rounding_goes_up_as_often_as_the_part_cut_off)
{
    for (int k = 0; k < 50; k++) {
        uint32_t u = (uint32_t)(0x38800000 + random_below(&rnd, 0x0e000000)), cut = u & 0x1fff,
                 n_up = 0;
        uint64_t low =
            pl_num_convert(PL_NUM_F16, PL_NUM_F32, u, &(struct pl_num_rule){.round = PL_NUM_RZ});
        for (uint32_t bits = 0; bits < 1u << 13; bits++) {
            struct pl_num_rule rule = {.round = PL_NUM_RS, .n_rand_bits = 13, .rand_bits = bits};
            uint64_t got = pl_num_convert(PL_NUM_F16, PL_NUM_F32, u, &rule);
            ck_assert(got == low || got == low + 1);
            n_up += got != low;
        }
        ck_assert_uint_eq(n_up, cut);
    }
}
END_TEST

START_TEST(integers_are_clamped_and_rounded)
{
    for (int k = 0; k < 100000; k++) {
        uint64_t u = random_float(&rnd, 11, 52);
        double v;
        memcpy(&v, &u, sizeof v);
        if (k & 1)
            v = (double)(int64_t)random_u64(&rnd) / 8.0 /
                (double)((uint64_t)1 << random_below(&rnd, 58));
        static const struct pl_num_int_rule rules[] = {
            {PL_NUM_RN, 32, true, 0}, {PL_NUM_RZ, 32, false, 0}, {PL_NUM_RM, 16, true, 0},
            {PL_NUM_RP, 8, false, 0}, {PL_NUM_RZ, 64, true, 0},  {PL_NUM_RM, 8, true, 0},
        };
        for (size_t i = 0; i < PL_COUNT(rules); i++) {
            const struct pl_num_int_rule *r = &rules[i];
            long double w = r->round == PL_NUM_RN   ? rintl(v)
                            : r->round == PL_NUM_RZ ? truncl(v)
                            : r->round == PL_NUM_RM ? floorl(v)
                                                    : ceill(v);
            long double max = ldexpl(1.0L, r->n_bits - (r->is_signed ? 1 : 0)) - 1,
                        min = r->is_signed ? -max - 1 : 0;
            w = isnan(v) ? 0 : w > max ? max : w < min ? min : w;
            uint64_t all = UINT64_MAX >> (64 - r->n_bits),
                     want = w < 0 ? -(uint64_t)-w : (uint64_t)w;
            struct pl_num x = pl_num_unpack(PL_NUM_F64, bits_of(v));
            ck_assert_msg(pl_num_to_int(x, r) == (want & all), "%a rule %zu", v, i);
        }
    }
}
END_TEST

#ifdef PL_HAVE_MPFR

static const mpfr_rnd_t mpfr_modes[] = {[PL_NUM_RN] = MPFR_RNDN,
                                        [PL_NUM_RZ] = MPFR_RNDZ,
                                        [PL_NUM_RM] = MPFR_RNDD,
                                        [PL_NUM_RP] = MPFR_RNDU};

/* Results with the range and subnormals of f32 or f64. */
static void set_range(enum pl_num_fmt fmt)
{
    mpfr_set_emin(fmt == PL_NUM_F32 ? -148 : -1073);
    mpfr_set_emax(fmt == PL_NUM_F32 ? 128 : 1024);
}

static uint64_t mpfr_bits(enum pl_num_fmt fmt, mpfr_t r)
{
    if (mpfr_nan_p(r))
        return pl_num_fmts[fmt].nan;
    if (fmt == PL_NUM_F64)
        return bits_of(mpfr_get_d(r, MPFR_RNDN));
    float f = mpfr_get_flt(r, MPFR_RNDN);
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

enum { ADD, MUL, FMA, DIV, SQRT, N_OPS };

static struct pl_num apply(int op, const struct pl_num *v, enum pl_num_round round)
{
    switch (op) {
    case ADD: return pl_num_add(v[0], v[1], round);
    case MUL: return pl_num_mul(v[0], v[1]);
    case FMA: return pl_num_fma(v[0], v[1], v[2], round);
    case DIV: return pl_num_div(v[0], v[1]);
    default: return pl_num_sqrt(v[0]);
    }
}

static int apply_mpfr(int op, mpfr_t r, mpfr_t v[3], mpfr_rnd_t mode)
{
    switch (op) {
    case ADD: return mpfr_add(r, v[0], v[1], mode);
    case MUL: return mpfr_mul(r, v[0], v[1], mode);
    case FMA: return mpfr_fma(r, v[0], v[1], v[2], mode);
    case DIV: return mpfr_div(r, v[0], v[1], mode);
    default: return mpfr_sqrt(r, v[0], mode);
    }
}

/* One operation of f32 or f64 in every mode against MPFR. */
START_TEST(arithmetic_is_correctly_rounded_in_every_mode)
{
    random_turn(&rnd, _i);
    int op = _i % N_OPS;
    enum pl_num_fmt fmt = _i < N_OPS ? PL_NUM_F32 : PL_NUM_F64;
    const struct pl_num_fmt_info *f = &pl_num_fmts[fmt];
    mpfr_t v[3], r;
    for (int i = 0; i < 3; i++)
        mpfr_init2(v[i], 53);
    mpfr_init2(r, f->man_bits + 1);
    for (int k = 0; k < 30000; k++) {
        struct pl_num x[3];
        uint64_t bits[3];
        mpfr_set_emin(mpfr_get_emin_min());
        mpfr_set_emax(mpfr_get_emax_max());
        for (int i = 0; i < 3; i++) {
            bits[i] = random_float(&rnd, f->exp_bits, f->man_bits);
            if (i > 0 && k % 5 == 0)
                bits[i] = bits[0] ^ (uint64_t)1 << (f->bits - 1) ^
                          random_below(&rnd, 4); /* cancellation */
            x[i] = pl_num_unpack(fmt, bits[i]);
            mpfr_set_d(v[i], pl_num_to_double(fmt, bits[i]), MPFR_RNDN);
        }
        for (int round = PL_NUM_RN; round <= PL_NUM_RP; round++) {
            const struct pl_num_rule rule = {.round = (uint8_t)round};
            uint64_t got = pl_num_pack(fmt, apply(op, x, (enum pl_num_round)round), &rule);
            set_range(fmt);
            int ternary = apply_mpfr(op, r, v, mpfr_modes[round]);
            mpfr_subnormalize(r, ternary, mpfr_modes[round]);
            uint64_t want = mpfr_bits(fmt, r);
            mpfr_set_emin(mpfr_get_emin_min());
            mpfr_set_emax(mpfr_get_emax_max());
            ck_assert_msg(got == want, "op %d mode %d of %llx %llx %llx: %llx, want %llx", op,
                          round, (unsigned long long)bits[0], (unsigned long long)bits[1],
                          (unsigned long long)bits[2], (unsigned long long)got,
                          (unsigned long long)want);
        }
    }
    for (int i = 0; i < 3; i++)
        mpfr_clear(v[i]);
    mpfr_clear(r);
    mpfr_free_cache();
}
END_TEST
#endif

START_TEST(quick_conversions_agree_with_the_general_one)
{
    const struct pl_num_rule nearest = {0};
    for (unsigned u = 0; u < 1u << 16; u++) {
        float h = pl_num_f16_to_float((uint16_t)u), b = pl_num_bf16_to_float((uint16_t)u);
        uint32_t hu, bu;
        memcpy(&hu, &h, sizeof hu);
        memcpy(&bu, &b, sizeof bu);
        ck_assert_uint_eq(hu, pl_num_convert(PL_NUM_F32, PL_NUM_F16, u, &nearest));
        ck_assert_uint_eq(bu, pl_num_convert(PL_NUM_F32, PL_NUM_BF16, u, &nearest));
    }
    for (int k = 0; k < 100000; k++) {
        uint32_t u = (uint32_t)random_float(&rnd, 8, 23);
        float x;
        memcpy(&x, &u, sizeof x);
        ck_assert_uint_eq(pl_num_bf16_of_float(x),
                          pl_num_convert(PL_NUM_BF16, PL_NUM_F32, u, &nearest));
        ck_assert_uint_eq(pl_num_f16_of_float(x),
                          pl_num_convert(PL_NUM_F16, PL_NUM_F32, u, &nearest));
        ck_assert_uint_eq(pl_num_of_double(PL_NUM_E4M3, x),
                          pl_num_convert(PL_NUM_E4M3, PL_NUM_F32, u,
                                         &(struct pl_num_rule){.is_satfinite = true}));
    }
}
END_TEST

static Suite *make_suite(void)
{
    rnd = random_start("check_num");
    Suite *s = suite_create("num");
    TCase *t = tcase_create("num");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, every_code_of_a_narrow_format_has_the_value_of_its_definition, 0,
                        N_NARROW);
    tcase_add_loop_test(t, narrowing_takes_the_right_neighbour_in_every_mode, 0, N_NARROW);
    tcase_add_test(t, saturating_conversions_treat_specials_as_the_manual_says);
    tcase_add_test(t, stochastic_rounding_goes_up_as_often_as_the_part_cut_off);
    tcase_add_test(t, integers_are_clamped_and_rounded);
#ifdef PL_HAVE_MPFR
    tcase_add_loop_test(t, arithmetic_is_correctly_rounded_in_every_mode, 0, 2 * N_OPS);
#endif
    tcase_add_test(t, quick_conversions_agree_with_the_general_one);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
