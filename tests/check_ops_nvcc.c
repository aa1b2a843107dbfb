/*
 * What nvcc makes of the CUDA math library, executed on the emulated device, against the host's library in higher precision: the
 * errors must stay within those that the CUDA C++ Programming Guide ("Mathematical Functions", "Standard Functions") states.
 * Skipped (77) without nvcc.
 */
#include "base/debug.h"
#include "base/num.h"
#include "emu/launch.h"
#include "tests/ptxas.h"
#include "tests/random.h"

#include <check.h>
#include <math.h>
#include <string.h>

enum { N = 4096, N_FLOATS = 24, N_DOUBLES = 8, N_BUFFERS = 5 };

static struct random_source rnd;

struct params {
    uint64_t buffers[N_BUFFERS]; /* x, y, out, dx, dout */
    int32_t n;
};

static double uniform(double low, double high)
{
    return low + (high - low) * (double)(random_u64(&rnd) >> 11) * 0x1p-53;
}

static float rounded(enum pl_num_fmt fmt, double v)
{
    return pl_num_to_float(fmt, pl_num_of_double(fmt, v));
}

/* Reference and largest error in ulps of each result; the last four are exact roundings. */
static void float_references(float x, float y, double want[N_FLOATS], double ulps[N_FLOATS])
{
    static const double most[N_FLOATS] = {2, 1, 4, 2, 2, 4, 2, 2, 0.5, 0.5, 0, 2,
                                          1, 1, 3, 2, 0, 3, 2, 0, 0,   0,   0, 0};
    double a = (double)x, b = (double)y,
           h = (double)rounded(PL_NUM_F16, a) * (double)rounded(PL_NUM_F16, b) + 1.0;
    const double values[N_FLOATS] = {exp(a),
                                     log(fabs(a)),
                                     pow(fabs(a), b),
                                     sin(a),
                                     cos(a),
                                     tan(a),
                                     tanh(a),
                                     erf(a),
                                     sqrt(fabs(a)),
                                     a / b,
                                     fmod(a, b),
                                     exp2(a),
                                     log2(fabs(a)),
                                     cbrt(a),
                                     atan2(a, b),
                                     1.0 / sqrt(fabs(a)),
                                     floor(a) + ceil(b) + rint(a) + trunc(b),
                                     hypot(a, b),
                                     asin((double)(x / (1.0f + fabsf(x)))),
                                     (double)(float)(long long)(x * 1000.0f),
                                     (double)rounded(PL_NUM_F16, h),
                                     (double)rounded(PL_NUM_BF16, a),
                                     (double)rounded(PL_NUM_E4M3, a),
                                     (double)rounded(PL_NUM_E5M2, b)};
    memcpy(want, values, sizeof values);
    memcpy(ulps, most, sizeof most);
}

static void double_references(double d, long double want[N_DOUBLES], double ulps[N_DOUBLES])
{
    static const double most[N_DOUBLES] = {1, 1, 2, 1, 2, 0.5, 0.5, 10};
    long double q = d;
    const long double values[N_DOUBLES] = {expl(q),
                                           logl(fabsl(q)),
                                           sinl(q),
                                           cbrtl(q),
                                           powl(fabsl(q), (long double)0.3),
                                           sqrtl(fabsl(q)),
                                           1.0L / q,
                                           tgammal((long double)(fabs(d) + 0.5))};
    memcpy(want, values, sizeof values);
    memcpy(ulps, most, sizeof most);
}

/* Error in units of the last place of `bits` of precision; the reference has a little of its own. */
static bool is_within(double got, long double want, double ulps, int bits)
{
    if (isinf(got) || fabsl(want) < 0x1p-120L)
        return isinf(got) ? fabsl(want) > 0x1.fffffep127L : fabs(got) < 0x1p-119;
    long double ulp = ldexpl(1.0L, ilogbl(want) - bits + 1);
    return fabsl((long double)got - want) <= ((long double)ulps * 1.001L + 1e-3L) * ulp;
}

START_TEST(the_math_library_keeps_its_errors)
{
    char source[1024], why[200];
    size_t n_bytes;
    snprintf(source, sizeof source, "%s/tests/nvcc/math.cu", PL_SRCDIR);
    char *text = nvcc_compile(source, "sm_90", &n_bytes, why);
    ck_assert_msg(text != NULL, "nvcc: %s", why);
    const struct pl_emu_config config = {.sm = 90,
                                         .n_sms = 2,
                                         .memory_bytes = 1 << 26,
                                         .check = PL_EMU_CHECK_FAULTS,
                                         .n_threads = 1};
    struct pl_emu_device *device = pl_emu_device_create(&config);
    struct pl_emu_program *program;
    struct pl_emu_fault fault;
    if (!pl_emu_program_load(device, text, n_bytes, &program, &fault))
        ck_abort_msg("line %u: %s", fault.line, fault.text);
    const size_t sizes[N_BUFFERS] = {N * 4, N * 4, N * 4 * N_FLOATS, N * 8, N * 8 * N_DOUBLES};
    struct params params = {.n = N};
    void *host[N_BUFFERS];
    for (unsigned i = 0; i < N_BUFFERS; i++) {
        params.buffers[i] =
            pl_emu_memory_alloc(pl_emu_device_memory(device), sizes[i], 0, NULL)->address;
        host[i] = pl_emu_memory_host(pl_emu_device_memory(device), params.buffers[i], sizes[i]);
    }
    float *x = host[0], *y = host[1], *out = host[2];
    double *dx = host[3], *dout = host[4];
    for (unsigned i = 0; i < N; i++) {
        x[i] = (float)(uniform(-0.5, 0.5) * pow(10.0, (double)random_below(&rnd, 5) - 2.0));
        y[i] = (float)uniform(-10.0, 10.0);
        dx[i] = uniform(-20.0, 20.0);
    }
    const struct pl_emu_launch l = {.func = pl_emu_program_find(program, "math"),
                                    .params = &params,
                                    .grid = {N / 128, 1, 1},
                                    .block = {128, 1, 1}};
    if (!pl_emu_launch(device, &l, &fault))
        ck_abort_msg("%s", fault.text);
    for (unsigned i = 0; i < N; i++) {
        double want[N_FLOATS], ulps[N_FLOATS];
        long double dwant[N_DOUBLES];
        float_references(x[i], y[i], want, ulps);
        for (unsigned k = 0; k < N_FLOATS; k++)
            ck_assert_msg(
                is_within((double)out[i * N_FLOATS + k], (long double)want[k], ulps[k], 24),
                "function %u of %a, %a: %a, want %a", k, (double)x[i], (double)y[i],
                (double)out[i * N_FLOATS + k], want[k]);
        double_references(dx[i], dwant, ulps);
        for (unsigned k = 0; k < N_DOUBLES; k++)
            ck_assert_msg(is_within(dout[i * N_DOUBLES + k], dwant[k], ulps[k], 53),
                          "double function %u of %a: %a, want %La", k, dx[i],
                          dout[i * N_DOUBLES + k], dwant[k]);
    }
    pl_emu_program_unload(program);
    pl_emu_device_destroy(device);
    free(text);
}
END_TEST

static Suite *make_suite(void)
{
    if (nvcc_path() == NULL) {
        puts("skipped: no nvcc");
        exit(77);
    }
    rnd = random_start("check_ops_nvcc");
    Suite *s = suite_create("ops_nvcc");
    TCase *t = tcase_create("nvcc");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, the_math_library_keeps_its_errors);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
