/*
 * Fast lane kernels on fresh random operands: arithmetic and conversions against exact arithmetic (base/num.h, itself tested
 * against MPFR) in every rounding mode, approximate functions against MPFR within the bounds of the PTX manual.
 */
#include "base/debug.h"
#include "base/num.h"
#include "tests/ops_rows.h"
#include "tests/random.h"

#include <check.h>
#include <math.h>
#include <string.h>
#ifdef PL_HAVE_MPFR
#include <mpfr.h>
#endif

static struct random_source rnd;

/* ---- arithmetic ---- */

static const struct {
    const char *type;
    enum pl_num_fmt fmt;
    char bank;
    uint8_t n; /* elements a register */
    bool has_modes, has_ftz, has_sat;
} types[] = {
    {"f32", PL_NUM_F32, 'r', 1, true, true, true},
    {"f64", PL_NUM_F64, 'd', 1, true, false, false},
    {"f32x2", PL_NUM_F32, 'd', 2, true, true, false},
    {"f16", PL_NUM_F16, 'h', 1, false, true, true},
    {"f16x2", PL_NUM_F16, 'r', 2, false, true, true},
    {"bf16", PL_NUM_BF16, 'h', 1, false, false, false},
    {"bf16x2", PL_NUM_BF16, 'r', 2, false, false, false},
};

static const struct {
    const char *name;
    uint8_t n_src;
    bool is_wide_only; /* f32 and f64 */
} ops[] = {{"add", 2, false}, {"sub", 2, false}, {"mul", 2, false}, {"fma", 3, false},
           {"div", 2, true},  {"rcp", 1, true},  {"sqrt", 1, true}};
enum { ADD, SUB, MUL, FMA, DIV, RCP, SQRT };

static struct pl_num apply(size_t op, const struct pl_num *v, enum pl_num_round round)
{
    switch (op) {
    case ADD: return pl_num_add(v[0], v[1], round);
    case SUB: return pl_num_add(v[0], pl_num_neg(v[1]), round);
    case MUL: return pl_num_mul(v[0], v[1]);
    case FMA: return pl_num_fma(v[0], v[1], v[2], round);
    case DIV: return pl_num_div(v[0], v[1]);
    case RCP: return pl_num_div(pl_num_of_u64(1), v[0]);
    default: return pl_num_sqrt(v[0]);
    }
}

struct form {
    size_t type, op;
    enum pl_num_round round;
    bool is_ftz, is_sat;
    char body[128];
};

static struct form make_form(size_t type, size_t op, unsigned variant)
{
    static const char *const rounds[] = {".rn", ".rz", ".rm", ".rp"};
    struct form f = {type, op, (enum pl_num_round)(variant & 3), variant & 4, variant & 8, ""};
    char b = types[type].bank, src[64] = "";
    for (unsigned i = 0; i < ops[op].n_src; i++)
        snprintf(src + strlen(src), sizeof src - strlen(src), ", %%%c%u", b, i + 1);
    snprintf(f.body, sizeof f.body, "%s%s%s%s.%s %%%c0%s;", ops[op].name, rounds[f.round],
             f.is_ftz ? ".ftz" : "", f.is_sat ? ".sat" : "", types[type].type, b, src);
    return f;
}

static bool exists(size_t type, size_t op, unsigned variant)
{
    bool is_wide =
        types[type].n == 1 && (types[type].fmt == PL_NUM_F32 || types[type].fmt == PL_NUM_F64);
    bool takes_sat = op <= FMA;
    return (types[type].has_modes || !(variant & 3)) && (types[type].has_ftz || !(variant & 4)) &&
           ((types[type].has_sat && takes_sat) || !(variant & 8)) &&
           (is_wide || !ops[op].is_wide_only);
}

/* Operands of one element, often of the kind that makes rounding hard: near cancellation, results near the least normal. */
static void make_operands(enum pl_num_fmt fmt, uint64_t v[3])
{
    const struct pl_num_fmt_info *f = &pl_num_fmts[fmt];
    uint64_t sign = (uint64_t)1 << (f->bits - 1);
    for (int i = 0; i < 3; i++)
        v[i] = random_float(&rnd, f->exp_bits, f->man_bits);
    switch (random_below(&rnd, 6)) {
    case 0: v[1] = v[0] ^ sign ^ random_below(&rnd, 3); break;
    case 1: { /* a product near the least normal */
        uint64_t exp_sum = (uint64_t)f->bias + random_below(&rnd, 3),
                 man = ((uint64_t)1 << f->man_bits) - 1;
        uint64_t e = (uint64_t)f->bias / 2 + random_below(&rnd, (uint64_t)f->bias / 2);
        v[0] = e << f->man_bits | (random_u64(&rnd) & man);
        v[1] = (exp_sum - e + random_below(&rnd, 2)) << f->man_bits | (random_u64(&rnd) & man);
        v[2] = random_below(&rnd, 3) ? random_below(&rnd, 4) : v[2];
        break;
    }
    case 2: { /* an addend that undoes the rounded product */
        const struct pl_num_rule nearest = {0};
        struct pl_num p = pl_num_mul(pl_num_unpack(fmt, v[0]), pl_num_unpack(fmt, v[1]));
        v[2] = pl_num_pack(fmt, pl_num_neg(p), &nearest);
        break;
    }
    default: break;
    }
}

static uint64_t expected(const struct form *f, const uint64_t v[3])
{
    enum pl_num_fmt fmt = types[f->type].fmt;
    struct pl_num x[3];
    for (int i = 0; i < 3; i++) {
        x[i] = pl_num_unpack(fmt, v[i]);
        x[i] = f->is_ftz ? pl_num_flush(fmt, x[i]) : x[i];
    }
    const struct pl_num_rule rule = {
        .round = (uint8_t)f->round, .is_ftz = f->is_ftz, .is_sat = f->is_sat};
    return pl_num_pack(fmt, apply(f->op, x, f->round), &rule);
}

static bool is_same(enum pl_num_fmt fmt, uint64_t got, uint64_t want)
{
    /* f64 NaNs keep payloads: only that it is one */
    return got == want || (fmt == PL_NUM_F64 && ops_is_nan(got, 16) && ops_is_nan(want, 16));
}

static void check_form(const struct form *f, unsigned n_rounds)
{
    static struct ops_frame frame;
    static uint64_t v[32][2][3];
    char why[300];
    enum pl_num_fmt fmt = types[f->type].fmt;
    unsigned n = types[f->type].n, bits = pl_num_fmts[fmt].bits;
    struct ops_code *code = ops_compile(f->body, why);
    ck_assert_msg(code != NULL, "%s: %s", f->body, why);
    for (unsigned k = 0; k < n_rounds; k++) {
        for (unsigned lane = 0; lane < 32; lane++) {
            for (unsigned e = 0; e < n; e++)
                make_operands(fmt, v[lane][e]);
            for (unsigned i = 0; i < 3; i++)
                ops_set_lane(&frame, types[f->type].bank, i + 1, lane,
                             v[lane][0][i] | (n == 2 ? v[lane][1][i] << bits : 0));
        }
        ops_run(code, &frame, UINT32_MAX, true);
        for (unsigned lane = 0; lane < 32; lane++)
            for (unsigned e = 0; e < n; e++) {
                uint64_t got = ops_get_lane(&frame, types[f->type].bank, 0, lane) >> (e * bits);
                got &= UINT64_MAX >> (64 - bits);
                uint64_t want = expected(f, v[lane][e]);
                ck_assert_msg(is_same(fmt, got, want), "%s of %llx %llx %llx: %llx, want %llx",
                              f->body, (unsigned long long)v[lane][e][0],
                              (unsigned long long)v[lane][e][1], (unsigned long long)v[lane][e][2],
                              (unsigned long long)got, (unsigned long long)want);
            }
    }
    ops_free(code);
}

START_TEST(arithmetic_rounds_once_in_every_mode)
{
    random_turn(&rnd, _i);
    pl_emu_ops_init((enum pl_emu_isa)_i);
    for (size_t type = 0; type < PL_COUNT(types); type++)
        for (size_t op = 0; op < PL_COUNT(ops); op++)
            for (unsigned variant = 0; variant < 16; variant++)
                if (exists(type, op, variant)) {
                    struct form f = make_form(type, op, variant);
                    check_form(&f, 150);
                }
}
END_TEST

/* ---- conversions: the fast kernels, every code of 16 bits or random words ---- */

static const struct {
    const char *form;
    enum pl_num_fmt to, from;
} conversions[] = {
    {"cvt.rn.f16.f32 %h0, %r1;", PL_NUM_F16, PL_NUM_F32},
    {"cvt.rn.bf16.f32 %h0, %r1;", PL_NUM_BF16, PL_NUM_F32},
    {"cvt.rn.f32.f64 %r0, %d1;", PL_NUM_F32, PL_NUM_F64},
    {"cvt.f64.f32 %d0, %r1;", PL_NUM_F64, PL_NUM_F32},
    {"cvt.f32.f16 %r0, %h1;", PL_NUM_F32, PL_NUM_F16},
    {"cvt.rn.f16.f64 %h0, %d1;", PL_NUM_F16, PL_NUM_F64},
};

START_TEST(conversions_of_floats_round_once)
{
    random_turn(&rnd, _i);
    static struct ops_frame frame;
    char why[300];
    const char *form = conversions[_i].form;
    char d = form[strcspn(form, "%") + 1], a = form[strlen(form) - 3];
    const struct pl_num_fmt_info *from = &pl_num_fmts[conversions[_i].from],
                                 *to = &pl_num_fmts[conversions[_i].to];
    struct ops_code *code = ops_compile(form, why);
    ck_assert_msg(code != NULL, "%s: %s", form, why);
    for (unsigned k = 0; k < 1u << 16; k += 32) {
        for (unsigned lane = 0; lane < 32; lane++) {
            uint64_t u =
                from->bits == 16 ? k + lane : random_float(&rnd, from->exp_bits, from->man_bits);
            if (from->bits == 32 && k & 32) /* ties of f16, and around them */
                u = (u & 0xffffe000u) + 0x1000 + random_below(&rnd, 3) - 1;
            ops_set_lane(&frame, a, 1, lane, u);
        }
        ops_run(code, &frame, UINT32_MAX, true);
        for (unsigned lane = 0; lane < 32; lane++) {
            const struct pl_num_rule nearest = {0};
            uint64_t u = ops_get_lane(&frame, a, 1, lane), got = ops_get_lane(&frame, d, 0, lane);
            uint64_t want = pl_num_convert(conversions[_i].to, conversions[_i].from, u, &nearest);
            bool are_nans = ops_is_nan(got, to->bits / 4u) && ops_is_nan(want, to->bits / 4u);
            ck_assert_msg(got == want || are_nans, "%s of %llx: %llx, want %llx", form,
                          (unsigned long long)u, (unsigned long long)got, (unsigned long long)want);
        }
    }
    ops_free(code);
}
END_TEST

START_TEST(floats_to_s32_round_and_clamp)
{
    random_turn(&rnd, _i);
    static const char *const forms[] = {"cvt.rni.s32.f32 %r0, %r1;", "cvt.rzi.s32.f32 %r0, %r1;",
                                        "cvt.rmi.s32.f32 %r0, %r1;", "cvt.rpi.s32.f32 %r0, %r1;"};
    static struct ops_frame frame;
    char why[300];
    struct ops_code *code = ops_compile(forms[_i], why);
    ck_assert_msg(code != NULL, "%s", why);
    for (unsigned k = 0; k < 2000; k++) {
        for (unsigned lane = 0; lane < 32; lane++)
            frame.r[1][lane] = (uint32_t)random_float(&rnd, 8, 23);
        ops_run(code, &frame, UINT32_MAX, true);
        for (unsigned lane = 0; lane < 32; lane++) {
            const struct pl_num_int_rule rule = {
                .round = (uint8_t)_i, .n_bits = 32, .is_signed = true, .nan = 0};
            uint64_t want = pl_num_to_int(pl_num_unpack(PL_NUM_F32, frame.r[1][lane]), &rule);
            ck_assert_msg(frame.r[0][lane] == want, "%s of %x: %x", forms[_i], frame.r[1][lane],
                          frame.r[0][lane]);
        }
    }
    ops_free(code);
}
END_TEST

#ifdef PL_HAVE_MPFR

/* ---- approximate functions ---- */

enum bound {
    ULPS_1,
    ULPS_2,
    REL_23,
    REL_22_9,
    REL_11,
    LG2,
    TRIG,
    HALF_EX2,
    BHALF_EX2,
    HALF_TANH,
    BHALF_TANH
};

/* PTX ISA, the sections of the functions; half: "maximum relative error 2^-9.9", "2^-7"; tanh "maximum absolute error 2^-10.987",
 * "2^-8". */
static const struct {
    const char *form;
    enum bound bound;
    int (*exact)(mpfr_t, const mpfr_t, mpfr_rnd_t);
    double low, high; /* magnitudes of operands, as powers of two */
} functions[] = {
    {"ex2.approx.f32 %r0, %r1;", ULPS_2, mpfr_exp2, -30, 7},
    {"ex2.approx.ftz.f32 %r0, %r1;", ULPS_2, mpfr_exp2, -30, 7},
    {"lg2.approx.f32 %r0, %r1;", LG2, mpfr_log2, -149, 128},
    {"sin.approx.f32 %r0, %r1;", TRIG, mpfr_sin, -30, 8.2},
    {"cos.approx.f32 %r0, %r1;", TRIG, mpfr_cos, -30, 8.2},
    {"tanh.approx.f32 %r0, %r1;", REL_11, mpfr_tanh, -40, 7},
    {"sqrt.approx.f32 %r0, %r1;", REL_23, mpfr_sqrt, -149, 128},
    {"rsqrt.approx.f32 %r0, %r1;", REL_22_9, mpfr_rec_sqrt, -149, 128},
    {"ex2.approx.f16 %h0, %h1;", HALF_EX2, mpfr_exp2, 0, 0},
    {"tanh.approx.f16 %h0, %h1;", HALF_TANH, mpfr_tanh, 0, 0},
    {"ex2.approx.ftz.bf16 %h0, %h1;", BHALF_EX2, mpfr_exp2, 0, 0},
    {"tanh.approx.bf16 %h0, %h1;", BHALF_TANH, mpfr_tanh, 0, 0},
};

static bool is_near(enum bound b, double got, double want, enum pl_num_fmt fmt, double x)
{
    const struct pl_num_fmt_info *f = &pl_num_fmts[fmt];
    double error = fabs(got - want), least = ldexp(1.0, 1 - f->bias - f->man_bits);
    double ulp = want == 0.0 ? least : fmax(ldexp(1.0, ilogb(want) - f->man_bits), least);
    if (!isfinite(got)) /* beyond the largest finite value, give or take the bound */
        return fabs(want) >= pl_num_to_double(fmt, f->max);
    switch (b) {
    case ULPS_1: return error <= ulp;
    case ULPS_2: return error <= 2 * ulp;
    case REL_23: return error <= fmax(0x1p-23 * fabs(want), least / 2);
    case REL_22_9: return error <= exp2(-22.9) * fabs(want);
    case REL_11: return error <= fmax(0x1p-11 * fabs(want), least / 2);
    case LG2: return error <= (x > 0.5 && x < 2.0 ? 0x1p-22 : 0x1p-22 * fabs(want));
    case TRIG: return error <= (fabs(x) <= 6.2831853 ? exp2(-20.5) : exp2(-14.7));
    case HALF_EX2: return error <= fmax(exp2(-9.9) * fabs(want), least / 2);
    case BHALF_EX2: return error <= 0x1p-7 * fabs(want) || (got == 0.0 && fabs(want) < 0x1p-126);
    case HALF_TANH: return error <= exp2(-10.987);
    case BHALF_TANH: return error <= 0x1p-8;
    }
    return false;
}

START_TEST(approximate_functions_keep_their_bounds)
{
    random_turn(&rnd, _i);
    static struct ops_frame frame;
    char why[300];
    const char *form = functions[_i].form;
    bool is_half = strstr(form, "16 ") != NULL;
    enum pl_num_fmt fmt = !is_half                       ? PL_NUM_F32
                          : strstr(form, "bf16") != NULL ? PL_NUM_BF16
                                                         : PL_NUM_F16;
    struct ops_code *code = ops_compile(form, why);
    ck_assert_msg(code != NULL, "%s: %s", form, why);
    mpfr_t x, y;
    mpfr_init2(x, 64);
    mpfr_init2(y, 128);
    for (unsigned k = 0; k < 1u << 16; k += 32) {
        for (unsigned lane = 0; lane < 32; lane++) {
            double power = functions[_i].low + (functions[_i].high - functions[_i].low) *
                                                   (double)random_below(&rnd, 1 << 20) / (1 << 20);
            float v = (float)exp2(power) * (random_below(&rnd, 2) ? 1.0f : -1.0f);
            if (functions[_i].exact == mpfr_log2 || functions[_i].exact == mpfr_sqrt ||
                functions[_i].exact == mpfr_rec_sqrt)
                v = fabsf(v);
            memcpy(&frame.r[1][lane], &v, sizeof v);
            frame.h[1][lane] = (uint16_t)(k + lane);
        }
        ops_run(code, &frame, UINT32_MAX, true);
        for (unsigned lane = 0; lane < 32; lane++) {
            double a = pl_num_to_double(fmt, is_half ? frame.h[1][lane] : frame.r[1][lane]);
            double got = pl_num_to_double(fmt, is_half ? frame.h[0][lane] : frame.r[0][lane]);
            if (!isfinite(a) || a == 0.0 || (strstr(form, "ftz") != NULL && fabs(a) < 0x1p-126))
                continue; /* special values have vectors */
            mpfr_set_d(x, a, MPFR_RNDN);
            functions[_i].exact(y, x, MPFR_RNDN);
            double want = mpfr_get_d(y, MPFR_RNDN);
            bool is_flushed = got == 0.0 && strstr(form, "ftz") != NULL && fabs(want) < 0x1p-126;
            ck_assert_msg(is_flushed || is_near(functions[_i].bound, got, want, fmt, a),
                          "%s of %a: %a, exactly %a", form, a, got, want);
        }
    }
    mpfr_clears(x, y, (mpfr_ptr)NULL);
    mpfr_free_cache();
    ops_free(code);
}
END_TEST

START_TEST(approximate_quotients_keep_their_bounds)
{
    random_turn(&rnd, _i);
    static const char *const forms[] = {"div.approx.f32 %r0, %r1, %r2;",
                                        "div.full.f32 %r0, %r1, %r2;", "rcp.approx.f32 %r0, %r2;"};
    static struct ops_frame frame;
    char why[300];
    struct ops_code *code = ops_compile(forms[_i], why);
    ck_assert_msg(code != NULL, "%s", why);
    for (unsigned k = 0; k < 3000; k++) {
        for (unsigned lane = 0; lane < 32; lane++) {
            frame.r[1][lane] = (uint32_t)random_float(&rnd, 8, 23);
            frame.r[2][lane] = (uint32_t)random_float(&rnd, 8, 23);
        }
        ops_run(code, &frame, UINT32_MAX, true);
        for (unsigned lane = 0; lane < 32; lane++) {
            double a = _i == 2 ? 1.0 : pl_num_to_double(PL_NUM_F32, frame.r[1][lane]);
            double b = pl_num_to_double(PL_NUM_F32, frame.r[2][lane]),
                   got = pl_num_to_double(PL_NUM_F32, frame.r[0][lane]);
            if (!isfinite(a) || !isfinite(b) || fabs(b) < 0x1p-126 || fabs(b) > 0x1p126)
                continue;
            ck_assert_msg(is_near(_i == 2 ? ULPS_1 : ULPS_2, got, a / b, PL_NUM_F32, b),
                          "%s of %a, %a: %a", forms[_i], a, b, got);
        }
    }
    ops_free(code);
}
END_TEST
#endif

static Suite *make_suite(void)
{
    rnd = random_start("check_ops_exact");
    pl_emu_ops_init(PL_EMU_ISA_COUNT);
    Suite *s = suite_create("ops_exact");
    TCase *t = tcase_create("exact");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, arithmetic_rounds_once_in_every_mode, 0, PL_EMU_ISA_COUNT);
    tcase_add_loop_test(t, conversions_of_floats_round_once, 0, PL_COUNT(conversions));
    tcase_add_loop_test(t, floats_to_s32_round_and_clamp, 0, 4);
#ifdef PL_HAVE_MPFR
    tcase_add_loop_test(t, approximate_functions_keep_their_bounds, 0, PL_COUNT(functions));
    tcase_add_loop_test(t, approximate_quotients_keep_their_bounds, 0, 3);
#endif
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
