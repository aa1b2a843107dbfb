/*
 * The kernel library on the emulated driver, against float64 with the bounds of tools/case_make.c: every pair of kernel, dtype,
 * chip, shape, placement and asynchrony (PL_LONG=1: the whole product); all sizes 1..70 of an axis and one around each tile; one
 * build for eight shapes; outputs of size 0.
 */
#include "tests/pairwise.h"
#include "tools/case.h"
#include "tools/driver.h"

#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const archs[] = {"sm_80", "sm_90a", "sm_100a", "sm_120a"};
static const pl_dtype dtypes[] = {PL_F32, PL_F16, PL_BF16};
static const char *const policies[] = {"eager", "late", "random:1", "random:77"};
static const char *const ops[] = {"sum", "mean", "max", "min"};

static const struct {
    int rank;
    int64_t d[5];
} shapes[] = {
    {2, {1, 1}},    {2, {1, 70000}},     {2, {333, 777}},       {2, {0, 5}},     {2, {5, 0}},
    {2, {64, 64}},  {2, {65, 129}},      {2, {7, 4096}},        {2, {2, 40000}}, {3, {3, 70, 130}},
    {3, {2, 0, 8}}, {4, {2, 3, 17, 33}}, {5, {2, 1, 3, 9, 40}}, {2, {1000, 3}},
};

/* base_offset in elements; surplus of the pitch over a row; 0 surplus with dense rows. */
static const struct {
    int base_elems, surplus;
} places[] = {{0, 0}, {1, 0}, {0, 3}, {8, 8}, {3, 5}};

static pl_context *contexts[4];
static struct pl_tool_driver driver;

static void open_contexts(void)
{
    setenv("PLAUNCH_EMU_DEVICES", "sm_80,sm_90a,sm_100a,sm_120a", 1);
    char why[512];
    pl_error err = {0};
    for (int i = 0; i < 4; i++) {
        const pl_context_options options = {
            .struct_size = sizeof options, .device = i, .cache_dir = ""};
        ck_assert_msg(pl_context_create(&contexts[i], &options, &err) == PL_OK, "%s: %s", archs[i],
                      err.text);
        ck_assert_str_eq(pl_context_info(contexts[i]).arch_name, archs[i]);
    }
    ck_assert_msg(pl_tool_driver_load(&driver, getenv("PLAUNCH_DRIVER"), why, sizeof why), "%s",
                  why);
    ck_assert_ptr_nonnull((void *)(uintptr_t)driver.emu_configure);
}

static void close_contexts(void)
{
    for (int i = 0; i < 4; i++)
        pl_context_destroy(contexts[i]);
}

static uint64_t fresh_seed(void)
{
    const char *given = getenv("PL_SEED");
    return given != NULL ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
}

/* Rows of NaN, infinities, zeros, subnormals and the largest numbers, alone or (is_mixed) among ones. */
static void fill_with_extremes(struct pl_host *t, double most, bool is_mixed)
{
    static const double values[] = {NAN,      INFINITY, -INFINITY, 0.0,     -0.0,
                                    0x1p-149, -1e-40,   6e-8,      -3e-5,   65504.0,
                                    -65520.0, 2049.0,   0x1p-126,  -3.3e38, 0x1.fffffep127};
    const int64_t n = pl_host_n_elems(t), n_cols = t->shape[t->rank - 1];
    for (int64_t i = 0; i < n; i++) {
        const double v = values[(size_t)(i / n_cols) % (sizeof values / sizeof values[0])];
        const bool is_one = (is_mixed && i % 3 == 0) || (isfinite(v) && fabs(v) > most);
        pl_host_set(t, i, is_one ? 1.0 : v);
    }
}

/* Kernels that take any shape; products have tests of their own (check_matmul.c). */
static int n_shaped(void)
{
    int n = 0;
    for (size_t i = 0; i < pl_case_n_kernels; i++)
        n += pl_case_kernels[i].n_axes == 2;
    return n;
}

static const struct pl_case_kernel *shaped(int which)
{
    size_t i = 0;
    for (; pl_case_kernels[i].n_axes != 2 || which-- > 0; i++)
        ck_assert_uint_lt(i + 1, pl_case_n_kernels);
    return &pl_case_kernels[i];
}

enum values { RANDOM, EXTREMES, MIXED_EXTREMES };

/* Runs and compares; the caller finishes the case. */
static struct pl_case run_kept(const struct pl_case_kernel *k, const struct pl_case_spec *spec,
                               int arch, int32_t config, const char *policy, enum values values)
{
    struct pl_case c;
    char why[512], what[400];
    int n = snprintf(what, sizeof what,
                     "%s %s %s %s config %d base %" PRId64 " pitch %" PRId64
                     " axis %d op %s seed %" PRIu64 " shape",
                     k->name, pl_dtype_name(spec->dtype), archs[arch], policy, (int)config - 1,
                     spec->base_offset_bytes, spec->pitch_elems, spec->axis,
                     spec->op == NULL ? "-" : spec->op, spec->seed);
    for (int i = 0; i < spec->shape.rank; i++)
        n += snprintf(what + n, sizeof what - (size_t)n, " %" PRId64, spec->shape.d[i]);
    ck_assert_msg(pl_case_make(k, spec, &c, why, sizeof why), "%s: %s", what, why);
    for (size_t i = 0; values != RANDOM && i < c.n_args; i++)
        if (c.args[i].kind == PL_ARG_TENSOR && !c.args[i].is_output)
            fill_with_extremes(&c.args[i].host,
                               strcmp(k->name, "rmsnorm") == 0 ? 1e18 : INFINITY, /* of squares */
                               values == MIXED_EXTREMES);
    if (values != RANDOM)
        c.reference(&c);
    ck_assert_int_eq(driver.emu_configure("async", policy), 0);
    pl_error err = {0};
    const pl_launch_options options = {.struct_size = sizeof options, .config = config};
    const pl_status st = pl_case_run(&c, contexts[arch], &options, &err);
    char fault[2000] = "";
    if (st != PL_OK)
        driver.last_fault(fault, sizeof fault);
    ck_assert_msg(st == PL_OK, "%s: %s %s\n%s", what, pl_status_name(st), err.text, fault);
    const struct pl_case_result r = pl_case_compare(&c);
    ck_assert_msg(r.is_gap_intact, "%s: bytes outside the tensors were written", what);
    ck_assert_msg(r.is_ok,
                  "%s: %" PRId64 " wrong, first %" PRId64 ": got %.9g, wanted %.9g within %.3g",
                  what, r.n_wrong, r.first_wrong, r.first_got, r.first_want, r.first_bound);
    return c;
}

static void run(const struct pl_case_kernel *k, const struct pl_case_spec *spec, int arch,
                int32_t config, const char *policy)
{
    struct pl_case c = run_kept(k, spec, arch, config, policy, RANDOM);
    pl_case_fini(&c);
}

/* Levels of one row of the matrix, by factor. */
enum { F_DTYPE, F_ARCH, F_SHAPE, F_PLACE, F_POLICY, F_OUT, F_AXIS, F_COUNT };
static const int n_levels[F_COUNT] = {
    3, 4, sizeof shapes / sizeof shapes[0], sizeof places / sizeof places[0], 4, 3, 4};

static void run_row(const struct pl_case_kernel *k, const int row[PW_MAX_FACTORS], uint64_t seed)
{
    struct pl_case_spec spec = {.dtype = dtypes[row[F_DTYPE]], .seed = seed};
    spec.shape.rank = shapes[row[F_SHAPE]].rank;
    for (int i = 0; i < spec.shape.rank; i++)
        spec.shape.d[i] = shapes[row[F_SHAPE]].d[i];
    spec.base_offset_bytes = places[row[F_PLACE]].base_elems * pl_dtype_bits(spec.dtype) / 8;
    if (places[row[F_PLACE]].surplus != 0)
        spec.pitch_elems = spec.shape.d[spec.shape.rank - 1] + places[row[F_PLACE]].surplus;
    if (k->keys[0] != '\0')
        spec.out_dtype = dtypes[row[F_OUT]];
    spec.axis = -1 - row[F_AXIS] % spec.shape.rank;
    spec.op = ops[(row[F_AXIS] + row[F_OUT]) % 4];
    if (pl_case_find("reduce") != k)
        spec.op = NULL;
    run(k, &spec, row[F_ARCH], 0, policies[row[F_POLICY]]);
}

/* A kernel without the key runs the same at all levels of that factor: one is enough. */
static void count_levels(const struct pl_case_kernel *k, int out[F_COUNT])
{
    memcpy(out, n_levels, sizeof n_levels);
    if (strstr(k->keys, "out_dtype") == NULL)
        out[F_OUT] = 1;
    if (strstr(k->keys, "axis") == NULL)
        out[F_AXIS] = 1;
}

START_TEST(every_pair_agrees_with_float64)
{
    const struct pl_case_kernel *k = shaped(_i);
    uint64_t seed = fresh_seed();
    printf("%s: PL_SEED=%" PRIu64 "\n", k->name, seed);
    static struct pairwise p;
    memset(&p, 0, sizeof p);
    p.n_factors = F_COUNT;
    count_levels(k, p.n_levels);
    for (int row[PW_MAX_FACTORS]; pw_next(&p, row);)
        run_row(k, row, seed++);
}
END_TEST

START_TEST(the_whole_product_agrees_with_float64)
{
    const struct pl_case_kernel *k = shaped(_i);
    uint64_t seed = fresh_seed();
    int row[PW_MAX_FACTORS] = {0}, levels[F_COUNT], f;
    count_levels(k, levels);
    do {
        run_row(k, row, seed++);
        for (f = 0; f < F_COUNT && ++row[f] == levels[f]; f++)
            row[f] = 0;
    } while (f < F_COUNT);
}
END_TEST

START_TEST(all_small_sizes_and_tile_edges_are_right)
{
    static const int64_t edges[] = {127, 128,  129,  255,  256,  257,  511, 512,
                                    513, 1023, 1024, 1025, 4095, 4096, 4097};
    const struct pl_case_kernel *k = shaped(_i);
    uint64_t seed = fresh_seed();
    for (int64_t n = 1; n <= 70; n++) {
        struct pl_case_spec spec = {
            .dtype = dtypes[n % 3], .axis = -1 - (int)(n & 1), .seed = seed + (uint64_t)n};
        spec.shape = PL_SHAPE(n, 71 - n);
        run(k, &spec, (int)(n % 4), 0, policies[n % 4]);
        spec.shape = PL_SHAPE(71 - n % 9, n);
        run(k, &spec, (int)(n / 4 % 4), 0, policies[n % 3]);
    }
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
        struct pl_case_spec spec = {.dtype = dtypes[i % 3], .axis = -1, .seed = seed + i};
        spec.shape = PL_SHAPE(3, edges[i]);
        run(k, &spec, (int)(i % 4), 0, policies[i % 4]);
        spec.shape = PL_SHAPE(edges[i], 9);
        run(k, &spec, (int)((i + 1) % 4), 0, policies[(i + 1) % 4]);
    }
}
END_TEST

/* Configurations in order: direct ones, which serve every chip; staged ones, from sm_90 on; direct ones again. */
static const struct {
    const char *kernel;
    int32_t n_direct, n_staged, n_more;
} served[] = {{"copy", 3, 2, 0},    {"scale", 3, 2, 0},     {"add", 3, 2, 0},
              {"cast", 3, 2, 0},    {"transpose", 1, 1, 0}, {"reduce", 3, 3, 1},
              {"softmax", 3, 3, 0}, {"rmsnorm", 3, 3, 0}};

static bool is_staged(const struct pl_case_kernel *k, int32_t config)
{
    size_t i = 0;
    while (i < sizeof served / sizeof served[0] && strcmp(served[i].kernel, k->name) != 0)
        i++;
    ck_assert_msg(i < sizeof served / sizeof served[0], "%s: no row says what it serves", k->name);
    const int32_t first = served[i].n_direct, n = served[i].n_staged;
    ck_assert_int_eq(first + n + served[i].n_more, k->kernel->n_configs);
    return config - 1 >= first && config - 1 < first + n;
}

START_TEST(extreme_values_are_right)
{
    for (int row = 0; row < 3 * 3 * 4; row++) {
        const struct pl_case_spec spec = {.shape = PL_SHAPE(30, 48),
                                          .dtype = dtypes[row % 3],
                                          .out_dtype = dtypes[row / 3 % 3],
                                          .axis = -1,
                                          .seed = 1};
        struct pl_case c = run_kept(shaped(_i), &spec, row / 18, 0, "eager",
                                    row / 9 % 2 == 0 ? EXTREMES : MIXED_EXTREMES);
        pl_case_fini(&c);
    }
}
END_TEST

START_TEST(every_configuration_is_right_where_it_serves)
{
    const struct pl_case_kernel *k = shaped(_i);
    for (int32_t config = 1; config <= k->kernel->n_configs; config++)
        for (int arch = 0; arch < 4; arch++) {
            struct pl_case_spec spec = {.shape = PL_SHAPE(72, 200), /* rows of 16 bytes both ways */
                                        .dtype = PL_BF16,
                                        .axis = config == k->kernel->n_configs ? 0 : -1,
                                        .seed = fresh_seed()};
            if (is_staged(k, config) && strcmp(k->name, "reduce") == 0)
                spec.shape = PL_SHAPE(200); /* one sum: a column of them is not of 16-byte rows */
            struct pl_case c;
            char why[512];
            ck_assert(pl_case_make(k, &spec, &c, why, sizeof why));
            const pl_launch_options options = {.struct_size = sizeof options, .config = config};
            pl_error err = {0};
            const pl_status st = pl_case_run(&c, contexts[arch], &options, &err);
            ck_assert_msg((st == PL_OK) == (arch > 0 || !is_staged(k, config)),
                          "%s config %d %s: %s %s", k->name, (int)config - 1, archs[arch],
                          pl_status_name(st), err.text);
            pl_case_fini(&c);
            if (st == PL_OK)
                run(k, &spec, arch, config, "late");
            else
                ck_assert_int_eq(err.code, 6121); /* no_config: the kernel says so */
        }
}
END_TEST

/* Infinities and NaNs of any payload: moved bit by bit, else as IEEE 754 has it, and max and min pass over NaNs. */
START_TEST(infinities_and_nans_are_what_they_must_be)
{
    static const char *const names[] = {"copy", "transpose", "scale", "add", "cast", "reduce"};
    const struct pl_case_kernel *k = pl_case_find(names[_i]);
    uint64_t seed = fresh_seed();
    for (int i = 0; i < 24; i++) {
        const int arch = i % 4;
        struct pl_case_spec spec = {.shape = PL_SHAPE(72, i < 12 ? 200 : 77),
                                    .dtype = dtypes[i / 4 % 3],
                                    .axis = -1 - (i & 1),
                                    .op = _i == 5 ? ops[i % 5 % 4] : NULL,
                                    .has_specials = true,
                                    .seed = seed + (uint64_t)i};
        if (strcmp(k->name, "cast") == 0)
            spec.out_dtype = dtypes[i % 3];
        struct pl_case c = run_kept(k, &spec, arch, 0, policies[i % 4], RANDOM);
        const struct pl_host *x = &c.args[0].host, *y = &c.args[c.output].host;
        const int64_t n = _i < 2 ? pl_host_n_elems(x) : 0, cols = x->shape[1];
        for (int64_t e = 0; e < n; e++) {
            const int64_t to = _i == 0 ? e : e % cols * x->shape[0] + e / cols;
            ck_assert_uint_eq(pl_host_bits(x, e), pl_host_bits(y, to));
        }
        pl_case_fini(&c);
    }
}
END_TEST

/* With options.pdl: the same values. */
START_TEST(overlapping_launches_agree)
{
    const struct pl_case_kernel *k = shaped(_i);
    for (int arch = 0; arch < 4; arch++) {
        const struct pl_case_spec spec = {
            .shape = PL_SHAPE(70, 1032), .dtype = PL_BF16, .axis = -1, .seed = fresh_seed()};
        const pl_launch_options options = {.struct_size = sizeof options, .pdl = true};
        struct pl_case c;
        char why[512];
        pl_error err = {0};
        ck_assert_msg(pl_case_make(k, &spec, &c, why, sizeof why), "%s", why);
        ck_assert_int_eq(driver.emu_configure("async", policies[arch]), 0);
        ck_assert_msg(pl_case_run(&c, contexts[arch], &options, &err) == PL_OK, "%s", err.text);
        ck_assert_msg(pl_case_compare(&c).is_ok, "%s on %s", k->name, archs[arch]);
        pl_case_fini(&c);
    }
}
END_TEST

/* Sixteen combinations for a dtype set, as the public headers say. */
START_TEST(at_most_four_facts_are_named)
{
    const pl_kernel *k = pl_case_kernels[_i].kernel;
    pl_fact_set named = 0;
    for (size_t p = 0; p < k->n_params; p++)
        named |= k->params[p].specialised;
    int n = 0;
    for (; named != 0; named &= named - 1)
        n++;
    ck_assert_int_le(n, 4);
}
END_TEST

START_TEST(one_build_serves_eight_shapes)
{
    const struct pl_case_kernel *k = shaped(_i);
    for (int arch = 0; arch < 4; arch++) {
        struct pl_case_spec spec = {.dtype = PL_F16, .axis = -1, .seed = fresh_seed()};
        spec.shape = PL_SHAPE(64, 64);
        run(k, &spec, arch, 1, "eager");
        const uint64_t builds = pl_context_stats(contexts[arch]).builds,
                       emitted = pl_context_stats(contexts[arch]).emitted;
        for (int64_t i = 1; i <= 8; i++) {
            spec.shape = PL_SHAPE(8 * i, 64 + 8 * (i * i % 7));
            run(k, &spec, arch, 1, "eager");
        }
        ck_assert_uint_eq(pl_context_stats(contexts[arch]).builds, builds);
        ck_assert_uint_eq(pl_context_stats(contexts[arch]).emitted, emitted);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("kernels");
    TCase *t = tcase_create("kernels");
    tcase_set_timeout(t, 0);
    tcase_add_checked_fixture(t, open_contexts, close_contexts);
    const int n = n_shaped();
    if (getenv("PL_LONG") != NULL)
        tcase_add_loop_test(t, the_whole_product_agrees_with_float64, 0, n);
    else
        tcase_add_loop_test(t, every_pair_agrees_with_float64, 0, n);
    tcase_add_loop_test(t, all_small_sizes_and_tile_edges_are_right, 0, n);
    tcase_add_loop_test(t, extreme_values_are_right, 0, n);
    tcase_add_loop_test(t, every_configuration_is_right_where_it_serves, 0, n);
    tcase_add_loop_test(t, infinities_and_nans_are_what_they_must_be, 0, 6);
    tcase_add_loop_test(t, overlapping_launches_agree, 0, n);
    tcase_add_loop_test(t, at_most_four_facts_are_named, 0, (int)pl_case_n_kernels);
    tcase_add_loop_test(t, one_build_serves_eight_shapes, 0, n);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
