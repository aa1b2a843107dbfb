/*
 * matmul on the emulated driver, against float64 with the bounds of tools/case_matmul.c: every pair of operand type, output type,
 * chip, shape, majors, placement, epilogue, batch and asynchrony (PL_LONG=1: a large random sample of the product); whole numbers,
 * whose sums must be exact; one around each tile; sizes of 0; every listed configuration; what is refused.
 */
#include "tests/pairwise.h"
#include "tools/case.h"
#include "tools/driver.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof(a)[0]))

static const char *const archs[] = {"sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"};
static const pl_dtype dtypes[] = {PL_BF16, PL_F16, PL_TF32, PL_F32, PL_E4M3, PL_E5M2, PL_I8};
static const pl_dtype outs[] = {PL_DTYPE_NONE, PL_F32, PL_F16, PL_BF16};
static const char *const policies[] = {"eager", "late", "random:1", "random:77"};
/* MxKxN */
static const int64_t shapes[][3] = {
    {1, 1, 1},       {3, 5, 7},      {64, 64, 64},    {127, 129, 65},
    {256, 128, 384}, {136, 72, 264}, {1, 1024, 1024}, {200, 16, 200},
    {33, 300, 129},  {128, 256, 16}, {144, 160, 131},
};
/* base_offset in elements, surplus of the pitches */
static const int places[][2] = {{0, 0}, {1, 0}, {0, 3}, {16, 16}};
static const struct {
    const char *op;
    bool has_c, has_bias, has_alpha, has_beta, is_exact;
} ends[] = {
    {NULL, 0, 0, 0, 0, 0},   {"relu", 0, 1, 0, 0, 0}, {NULL, 1, 0, 1, 1, 0},
    {"gelu", 1, 1, 1, 1, 0}, {"silu", 0, 1, 1, 0, 1}, {"none", 1, 0, 0, 0, 0},
};

static pl_context *contexts[COUNT(archs)];
static struct pl_tool_driver driver;
static uint64_t seed;

static void open_contexts(void)
{
    setenv("PLAUNCH_EMU_DEVICES", "sm_80,sm_89,sm_90a,sm_100a,sm_120a", 1);
    char why[512];
    pl_error err = {0};
    for (int i = 0; i < COUNT(archs); i++) {
        const pl_context_options options = {
            .struct_size = sizeof options, .device = i, .cache_dir = ""};
        ck_assert_msg(pl_context_create(&contexts[i], &options, &err) == PL_OK, "%s: %s", archs[i],
                      err.text);
    }
    ck_assert_msg(pl_tool_driver_load(&driver, getenv("PLAUNCH_DRIVER"), why, sizeof why), "%s",
                  why);
    const char *given = getenv("PL_SEED");
    seed = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
    printf("PL_SEED=%" PRIu64 "\n", seed);
}

static void close_contexts(void)
{
    for (int i = 0; i < COUNT(archs); i++)
        pl_context_destroy(contexts[i]);
}

static const struct pl_case_kernel *matmul(void) { return pl_case_find("matmul"); }

static void set(struct pl_case_spec *spec, const char *key, double value)
{
    ck_assert_int_lt(spec->n_extra, PL_CASE_MAX_EXTRAS);
    snprintf(spec->extra[spec->n_extra].key, sizeof spec->extra[0].key, "%s", key);
    spec->extra[spec->n_extra++].value = value;
}

static struct pl_case_spec spec_of(pl_dtype t, const int64_t shape[3])
{
    return (struct pl_case_spec){
        .shape = PL_SHAPE(shape[0], shape[1], shape[2]), .dtype = t, .seed = seed++};
}

static void describe(const struct pl_case_spec *s, int arch, const char *policy, char *out,
                     size_t n_bytes)
{
    int n = snprintf(out, n_bytes,
                     "%s %s out %s %s op %s base %" PRId64 " pitch %" PRId64 " batch %" PRId64
                     " shape %" PRId64 "x%" PRId64 "x%" PRId64 " seed %" PRIu64,
                     archs[arch], pl_dtype_name(s->dtype), pl_dtype_name(s->out_dtype), policy,
                     s->op == NULL ? "-" : s->op, s->base_offset_bytes, s->pitch_elems, s->batch,
                     s->shape.d[0], s->shape.d[1], s->shape.d[2], s->seed);
    for (int i = 0; i < s->n_extra; i++)
        n += snprintf(out + n, n_bytes - (size_t)n, " %s=%g", s->extra[i].key, s->extra[i].value);
}

/* Runs one configuration (+ 1; 0: the best) and compares. */
static void run(const struct pl_case_spec *spec, int arch, int32_t config, const char *policy)
{
    struct pl_case c;
    char why[512], what[700], fault[2000] = "";
    describe(spec, arch, policy, what, sizeof what);
    ck_assert_msg(pl_case_make(matmul(), spec, &c, why, sizeof why), "%s: %s", what, why);
    ck_assert_int_eq(driver.emu_configure("async", policy), 0);
    pl_error err = {0};
    const pl_launch_options options = {.struct_size = sizeof options, .config = config};
    const pl_status st = pl_case_run(&c, contexts[arch], &options, &err);
    if (st != PL_OK)
        driver.last_fault(fault, sizeof fault);
    ck_assert_msg(st == PL_OK, "%s: %s %s\n%s", what, pl_status_name(st), err.text, fault);
    const struct pl_case_result r = pl_case_compare(&c);
    ck_assert_msg(r.is_gap_intact, "%s: bytes outside the tensors were written", what);
    ck_assert_msg(r.is_ok,
                  "%s: %" PRId64 " wrong, first %" PRId64 ": got %.9g, wanted %.9g within %.3g",
                  what, r.n_wrong, r.first_wrong, r.first_got, r.first_want, r.first_bound);
    pl_case_fini(&c);
}

/* ---- the matrix ---- */

enum { F_DTYPE, F_OUT, F_ARCH, F_SHAPE, F_MAJOR, F_PLACE, F_END, F_BATCH, F_POLICY, F_COUNT };
static const int n_levels[F_COUNT] = {COUNT(dtypes), COUNT(outs), COUNT(archs),
                                      COUNT(shapes), 8,           COUNT(places),
                                      COUNT(ends),   2,           COUNT(policies)};

/* i8 gives i32 where the epilogue leaves the sums as they are. */
static void set_end(struct pl_case_spec *spec, int end)
{
    spec->op = ends[end].op;
    set(spec, "c", ends[end].has_c);
    set(spec, "bias", ends[end].has_bias);
    set(spec, "exact", ends[end].is_exact);
    if (ends[end].has_alpha)
        set(spec, "alpha", 0.75);
    if (ends[end].has_beta)
        set(spec, "beta", -1.5);
    const bool is_plain = !ends[end].has_bias && !ends[end].has_alpha && !ends[end].has_beta;
    if (spec->dtype == PL_I8 && spec->out_dtype == PL_DTYPE_NONE && !is_plain)
        spec->out_dtype = PL_F32;
}

static void run_row(const int row[PW_MAX_FACTORS])
{
    struct pl_case_spec spec = spec_of(dtypes[row[F_DTYPE]], shapes[row[F_SHAPE]]);
    const int major = row[F_MAJOR];
    spec.out_dtype = outs[row[F_OUT]];
    spec.batch = row[F_BATCH] * 3;
    spec.base_offset_bytes = places[row[F_PLACE]][0] * pl_dtype_bits(spec.dtype) / 8;
    if (places[row[F_PLACE]][1] != 0)
        spec.pitch_elems = spec.shape.d[1] + places[row[F_PLACE]][1];
    set(&spec, "a_major", major & 1);
    set(&spec, "b_major", major >> 1 & 1);
    set(&spec, "y_major", major >> 2);
    set_end(&spec, row[F_END]);
    run(&spec, row[F_ARCH], 0, policies[row[F_POLICY]]);
}

START_TEST(every_pair_agrees_with_float64)
{
    static struct pairwise p;
    memset(&p, 0, sizeof p);
    p.n_factors = F_COUNT;
    memcpy(p.n_levels, n_levels, sizeof n_levels);
    for (int row[PW_MAX_FACTORS]; pw_next(&p, row);)
        run_row(row);
}
END_TEST

START_TEST(a_large_sample_agrees_with_float64)
{
    enum { N_ROWS = 20000 };
    struct pl_rng rng = {seed};
    for (int i = 0; i < N_ROWS; i++) {
        int row[PW_MAX_FACTORS];
        for (int f = 0; f < F_COUNT; f++)
            row[f] = (int)(pl_rng_next(&rng) % (uint64_t)n_levels[f]);
        run_row(row);
    }
}
END_TEST

/* ---- exactness, edges, zeros ---- */

START_TEST(sums_of_whole_numbers_are_exact)
{
    const int64_t shape[3] = {130, 200, 72};
    for (int arch = 0; arch < COUNT(archs); arch++)
        for (int major = 0; major < 4; major++) {
            struct pl_case_spec spec = spec_of(dtypes[_i], shape);
            spec.has_whole_values = true;
            spec.out_dtype = dtypes[_i] == PL_I8 ? PL_I32 : PL_F32;
            set(&spec, "a_major", major & 1);
            set(&spec, "b_major", major >> 1);
            run(&spec, arch, 0, policies[major]);
        }
}
END_TEST

/* One below, at and above what tiles and the hardware's steps count in. */
START_TEST(edges_of_tiles_are_right)
{
    static const int64_t edges[] = {7,  8,  9,   15,  16,  17,  31,  63,
                                    64, 65, 127, 128, 129, 255, 256, 257};
    const int64_t n = edges[_i];
    for (int arch = 0; arch < COUNT(archs); arch++)
        for (int axis = 0; axis < 3; axis++) {
            int64_t shape[3] = {72, 80, 136};
            shape[axis] = n;
            struct pl_case_spec spec = spec_of(dtypes[(_i + axis + arch) % COUNT(dtypes)], shape);
            spec.has_whole_values = true;
            run(&spec, arch, 0, policies[(_i + arch) % COUNT(policies)]);
        }
}
END_TEST

START_TEST(sizes_of_zero_are_right)
{
    static const int64_t zeros[][3] = {{0, 8, 8}, {8, 8, 0}, {8, 0, 8}, {0, 0, 0}, {130, 0, 70}};
    for (int arch = 0; arch < COUNT(archs); arch++)
        for (int i = 0; i < COUNT(zeros); i++)
            for (int end = 0; end < COUNT(ends); end++) {
                struct pl_case_spec spec = spec_of(dtypes[(i + end) % 4], zeros[i]);
                set_end(&spec, end);
                run(&spec, arch, 0, "late");
                spec.pitch_elems = 64; /* aligned rows, as tensor copies want them */
                run(&spec, arch, 0, "late");
            }
}
END_TEST

START_TEST(listed_shapes_are_right)
{
    static const int64_t listed[][3] = {{256, 512, 384}, {1, 4096, 4096}, {1000, 1000, 1000}};
    const bool is_long = getenv("PL_LONG") != NULL;
    for (int arch = 0; arch < COUNT(archs); arch++)
        for (int t = 0; t < COUNT(dtypes); t++) {
            if (!is_long && (t != 0 || arch != _i)) /* each shape on one chip */
                continue;
            struct pl_case_spec spec = spec_of(dtypes[t], listed[_i]);
            run(&spec, arch, 0, "eager");
        }
}
END_TEST

/* ---- configurations and builds ---- */

/* Once with everything aligned, in each order of asynchrony; once with operands that are, and a y that is not. */
START_TEST(every_configuration_is_right_where_it_serves)
{
    const int64_t shape[3] = {200, 264, 328}, odd_y[3] = {200, 264, 327};
    for (int arch = 0; arch < COUNT(archs); arch++) {
        struct pl_case_spec spec = spec_of(PL_BF16, shape);
        struct pl_case c;
        char why[512];
        ck_assert(pl_case_make(matmul(), &spec, &c, why, sizeof why));
        const pl_launch_options options = {.struct_size = sizeof options, .config = _i + 1};
        pl_error err = {0};
        const pl_status st = pl_case_run(&c, contexts[arch], &options, &err);
        pl_case_fini(&c);
        char fault[2000] = "";
        if (st != PL_OK)
            driver.last_fault(fault, sizeof fault);
        ck_assert_msg(st == PL_OK || err.code == 6121, "%s: PL%04d %s\n%s", archs[arch],
                      (int)err.code, err.text, fault);
        if (st != PL_OK) /* no_config: the kernel says that it does not serve */
            continue;
        for (int i = 0; i < COUNT(policies); i++)
            run(&spec, arch, _i + 1, policies[i]);
        spec = spec_of(PL_BF16, odd_y);
        set(&spec, "b_major", 1);
        set(&spec, "bias", 1);
        run(&spec, arch, _i + 1, policies[(_i + arch) % COUNT(policies)]);
    }
}
END_TEST

START_TEST(one_build_serves_eight_shapes)
{
    for (int arch = 0; arch < COUNT(archs); arch++) {
        int64_t shape[3] = {64, 64, 64};
        struct pl_case_spec spec = spec_of(PL_F16, shape);
        run(&spec, arch, 1, "eager");
        const uint64_t builds = pl_context_stats(contexts[arch]).builds;
        for (int64_t i = 1; i <= 8; i++) {
            shape[0] = 8 * i, shape[1] = 16 * i, shape[2] = 8 * (i * i % 7 + 1);
            spec = spec_of(PL_F16, shape);
            run(&spec, arch, 1, "eager");
        }
        ck_assert_uint_eq(pl_context_stats(contexts[arch]).builds, builds);
    }
}
END_TEST

/* ---- calls ---- */

/* A call in short: three tensors; the optional arguments that are left out are absent. */
static pl_status launch3(pl_dtype ta, pl_dtype tb, pl_dtype ty, const pl_matmul_options *wishes,
                         pl_error *err)
{
    static const pl_shape square = {2, {16, 16}};
    const pl_dtype t[3] = {ta, tb, ty};
    uint64_t at[3];
    pl_arg args[3];
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(pl_alloc(contexts[2], 4096, &at[i], err), PL_OK);
        args[i] = pl_arg_tensor(pl_tensor_make(at[i], t[i], square));
        const char zero[4096] = {0};
        ck_assert_int_eq(pl_upload(contexts[2], at[i], zero, sizeof zero, err), PL_OK);
    }
    const pl_launch_options o = {.struct_size = sizeof o, .params = wishes};
    const pl_status st = pl_launch(contexts[2], &pl_kernel_matmul, NULL, args, 3, &o, err);
    ck_assert_int_eq(pl_synchronize(contexts[2], NULL), PL_OK);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pl_free(contexts[2], at[i], NULL), PL_OK);
    return st;
}

START_TEST(what_does_not_go_together_is_refused)
{
    static const struct {
        pl_dtype a, b, y;
        pl_matmul_options wishes;
        int32_t code; /* 0: served */
    } calls[] = {
        {PL_BF16, PL_BF16, PL_BF16, {0}, 0},
        {PL_E4M3, PL_E5M2, PL_F32, {0}, 0},
        {PL_F32, PL_TF32, PL_F32, {0}, 0},
        {PL_I8, PL_I8, PL_I32, {0}, 0},
        {PL_BF16, PL_F16, PL_F32, {0}, 6121},
        {PL_BF16, PL_BF16, PL_I32, {0}, 6121},
        {PL_I8, PL_I8, PL_I32, {.activation = PL_ACTIVATION_RELU}, 6121},
        {PL_BF16, PL_BF16, PL_F32, {.activation = 17}, 6121},
        {PL_BF16, PL_BF16, PL_F32, {.tile_m = 7}, 6121},
        {PL_F64, PL_F64, PL_F64, {0}, 6005},
    };
    for (int i = 0; i < COUNT(calls); i++) {
        pl_error err = {0};
        const pl_status st = launch3(calls[i].a, calls[i].b, calls[i].y, &calls[i].wishes, &err);
        ck_assert_msg(err.code == calls[i].code && (st == PL_OK) == (calls[i].code == 0),
                      "call %d: %s PL%04d %s", i, pl_status_name(st), (int)err.code, err.text);
    }
}
END_TEST

/* A prepared product takes other extents of the same kind; a column-major operand is another kind, found at each launch. */
START_TEST(prepared_products_know_their_majors)
{
    pl_error err = {0};
    pl_prepared *p = NULL;
    uint64_t at;
    ck_assert_int_eq(pl_alloc(contexts[2], 1 << 20, &at, &err), PL_OK);
    static const char zeros[1 << 20];
    ck_assert_int_eq(pl_upload(contexts[2], at, zeros, sizeof zeros, &err), PL_OK);
    const pl_tensor a = pl_tensor_make(at, PL_BF16, PL_SHAPE(128, 64)),
                    b = pl_tensor_make(at + (1 << 18), PL_BF16, PL_SHAPE(64, 128)),
                    y = pl_tensor_make(at + (1 << 19), PL_BF16, PL_SHAPE(128, 128));
    pl_arg args[3] = {pl_arg_tensor(a), pl_arg_tensor(b), pl_arg_tensor(y)};
    ck_assert_int_eq(pl_prepare(contexts[2], &pl_kernel_matmul, args, 3, NULL, &p, &err), PL_OK);
    ck_assert_int_eq(pl_launch_prepared(p, NULL, args, 3, &err), PL_OK);
    args[0] = pl_arg_tensor(pl_tensor_make(at, PL_BF16, PL_SHAPE(72, 40)));
    args[1] = pl_arg_tensor(pl_tensor_make(at + (1 << 18), PL_BF16, PL_SHAPE(40, 200)));
    args[2] = pl_arg_tensor(pl_tensor_make(at + (1 << 19), PL_BF16, PL_SHAPE(72, 200)));
    ck_assert_msg(pl_launch_prepared(p, NULL, args, 3, &err) == PL_OK, "%s", err.text);
    args[1].u.tensor.strides[0] = 1;
    args[1].u.tensor.strides[1] = 40;
    ck_assert_int_eq(pl_launch_prepared(p, NULL, args, 3, &err), PL_E_VARIANT);
    ck_assert_int_eq(pl_synchronize(contexts[2], &err), PL_OK);
    pl_prepared_destroy(p);
    ck_assert_int_eq(pl_free(contexts[2], at, &err), PL_OK);
}
END_TEST

static float small_number(int64_t i) { return (float)(i * 2654435761 % 7) - 3; }

/* Fills a host tensor with small whole numbers and puts it on the device. */
static uint64_t put(int arch, struct pl_host *t, pl_dtype dtype, pl_shape s)
{
    uint64_t at;
    ck_assert(pl_host_init(t, dtype, s, NULL));
    for (int64_t i = 0; i < pl_host_n_elems(t); i++)
        pl_host_set(t, i, (double)small_number(i + s.rank));
    ck_assert_int_eq(pl_alloc(contexts[arch], t->n_bytes, &at, NULL), PL_OK);
    ck_assert_int_eq(pl_upload(contexts[arch], at, t->bytes, t->n_bytes, NULL), PL_OK);
    return at;
}

/* One b and one c for all batches of a. */
START_TEST(operands_of_two_axes_are_every_batchs)
{
    enum { B = 3, M = 72, K = 40, N = 136 };
    struct pl_host a, b, y, c;
    const uint64_t at[4] = {
        put(_i, &a, PL_F16, PL_SHAPE(B, M, K)), put(_i, &b, PL_F16, PL_SHAPE(K, N)),
        put(_i, &y, PL_F32, PL_SHAPE(B, M, N)), put(_i, &c, PL_F32, PL_SHAPE(M, N))};
    const struct pl_host *hosts[4] = {&a, &b, &y, &c};
    pl_arg args[4];
    pl_error err = {0};
    for (int i = 0; i < 4; i++)
        args[i] = pl_arg_tensor(pl_host_tensor(hosts[i], at[i]));
    ck_assert_msg(pl_launch(contexts[_i], &pl_kernel_matmul, NULL, args, 4, NULL, &err) == PL_OK,
                  "%s: %s", archs[_i], err.text);
    ck_assert_int_eq(pl_download(contexts[_i], y.bytes, at[2], y.n_bytes, &err), PL_OK);
    for (int64_t i = 0; i < (int64_t)B * M * N; i++) {
        double want = pl_host_get(&c, i % (M * N));
        for (int64_t k = 0; k < K; k++)
            want += pl_host_get(&a, i / N * K + k) * pl_host_get(&b, k * N + i % N);
        ck_assert_msg(pl_host_get(&y, i) == want, "%s (%d): %g, not %g", archs[_i], (int)i,
                      pl_host_get(&y, i), want);
    }
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pl_free(contexts[_i], at[i], NULL), PL_OK);
    pl_host_fini(&a), pl_host_fini(&b), pl_host_fini(&y), pl_host_fini(&c);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("matmul");
    TCase *t = tcase_create("matmul");
    tcase_set_timeout(t, 0);
    tcase_add_checked_fixture(t, open_contexts, close_contexts);
    tcase_add_test(t, every_pair_agrees_with_float64);
    if (getenv("PL_LONG") != NULL)
        tcase_add_test(t, a_large_sample_agrees_with_float64);
    tcase_add_loop_test(t, sums_of_whole_numbers_are_exact, 0, COUNT(dtypes));
    tcase_add_loop_test(t, edges_of_tiles_are_right, 0, 16);
    tcase_add_test(t, sizes_of_zero_are_right);
    tcase_add_loop_test(t, listed_shapes_are_right, 0, 3);
    tcase_add_loop_test(t, every_configuration_is_right_where_it_serves, 0,
                        (int)matmul()->kernel->n_configs);
    tcase_add_test(t, one_build_serves_eight_shapes);
    tcase_add_test(t, what_does_not_go_together_is_refused);
    tcase_add_test(t, prepared_products_know_their_majors);
    tcase_add_loop_test(t, operands_of_two_axes_are_every_batchs, 0, COUNT(archs));
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
