/* Launch arguments: each rule alone with argument, dimension and values; all at once; the answer without a report is the same. */
#include "src/check/check.h"
#include "src/ir/fact.h"

#include <check.h>

static const pl_param_decl params[] = {
    {.name = "x",
     .role = PL_ROLE_IN,
     .min_rank = 1,
     .max_rank = 3,
     .dtypes = PL_DT(F32) | PL_DT(BF16),
     .required = PL_FACT_UNIT_STRIDE},
    {.name = "w",
     .role = PL_ROLE_IN,
     .min_rank = 1,
     .max_rank = 1,
     .dtypes = PL_DT(F32),
     .is_optional = true},
    {.name = "s", .role = PL_ROLE_SCALAR, .dtypes = PL_DT(F32)},
    {.name = "y",
     .role = PL_ROLE_OUT,
     .min_rank = 1,
     .max_rank = 3,
     .dtypes = PL_DT(F32) | PL_DT(BF16)},
};
enum { X, W, S, Y, N_ARGS };

static void like_x(const pl_request *r, size_t arg, pl_shape *want)
{
    const pl_tensor *x = &r->args[X].u.tensor;
    want->rank = arg == Y ? x->rank : -1;
    for (int i = 0; arg == Y && i < x->rank; i++)
        want->d[i] = x->shape[i];
}

static pl_kernel kernel_of(bool may_alias)
{
    return (pl_kernel){.struct_size = sizeof(pl_kernel),
                       .name = "test",
                       .params = params,
                       .n_params = N_ARGS,
                       .n_configs = 1,
                       .expect_shape = like_x,
                       .may_alias = may_alias};
}

static void good_args(pl_arg a[N_ARGS])
{
    a[X] = pl_arg_tensor(pl_tensor_make(0x10000, PL_F32, PL_SHAPE(8, 16)));
    a[W] = pl_arg_none();
    a[S] = pl_arg_f32(2.0f);
    a[Y] = pl_arg_tensor(pl_tensor_make(0x20000, PL_F32, PL_SHAPE(8, 16)));
}

/* ---- one change for each row ---- */

static void c6002(pl_arg *a) { a[X] = pl_arg_i32(1); }
static void c6003(pl_arg *a) { a[X] = pl_arg_none(); }
static void c6004(pl_arg *a)
{
    a[X].u.tensor = pl_tensor_make(0x10000, PL_F32, PL_SHAPE(1, 1, 8, 16));
}
static void c6005(pl_arg *a) { a[S] = pl_arg_i64(2); }
static void c6006(pl_arg *a) { a[X].u.tensor.shape[1] = -1; }
static void c6007(pl_arg *a) { a[Y].u.tensor.address = 0; }
static void c6008(pl_arg *a) { a[X].u.tensor.address = 0x10002; }
static void c6009(pl_arg *a) { a[Y].u.tensor.strides[0] = 0; }
static void c6010(pl_arg *a)
{
    a[X].u.tensor = pl_tensor_strided(0x10000, PL_F32, PL_SHAPE(8, 16), PL_SHAPE(32, 2));
}
static void c6011(pl_arg *a) { a[Y].u.tensor = pl_tensor_make(0x20000, PL_F32, PL_SHAPE(8, 15)); }
static void c6012(pl_arg *a) { a[Y].u.tensor = pl_tensor_make(0x20000, PL_F32, PL_SHAPE(128)); }
static void c6013(pl_arg *a) { a[Y].u.tensor.address = 0x10000 + 64; }
static void c6014(pl_arg *a) { a[X].u.tensor.dtype = PL_DTYPE_NONE; }

static const struct {
    int code;
    void (*change)(pl_arg *a);
    int arg, dim; /* -1: none */
    int64_t seen, wanted;
    bool has_values;
} changes[] = {
    {6002, c6002, X, -1, 0, 0, false},
    {6003, c6003, X, -1, 0, 0, false},
    {6004, c6004, X, -1, 4, 1, true},
    {6005, c6005, S, -1, 0, 0, false},
    {6006, c6006, X, 1, -1, INT64_C(1) << 40, true},
    {6007, c6007, Y, -1, 0, 0, false},
    {6008, c6008, X, -1, 2, 0, true},
    {6009, c6009, Y, 0, 0, 0, false},
    {6010, c6010, X, -1, 0, 0, false},
    {6011, c6011, Y, 1, 15, 16, true},
    {6012, c6012, Y, -1, 1, 2, true},
    {6013, c6013, Y, -1, 0, 0, false},
    {6014, c6014, X, -1, 0, 0, false},
};
enum { N_CHANGES = sizeof changes / sizeof changes[0] };

static const int args_rows[] = {
#define DIAG(code, id, severity, parameters, arguments, format, remedy, source) code,
#include "src/check/args.def"
#undef DIAG
};

START_TEST(each_rule_alone)
{
    pl_kernel k = kernel_of(false);
    pl_arg a[N_ARGS];
    good_args(a);
    struct pl_arena arena = {0};
    struct pl_diags ds;
    pl_diags_init(&ds, &arena);
    const struct pl_args_request q = {
        .kernel = &k, .args = a, .n_args = N_ARGS, .file = "caller.c", .line = 77};
    ck_assert(pl_check_args(&q, &ds) && pl_check_args(&q, NULL));
    ck_assert_uint_eq(ds.list.n, 0);
    changes[_i].change(a);
    ck_assert(!pl_check_args(&q, &ds));
    ck_assert(!pl_check_args(&q, NULL));
    ck_assert_uint_eq(ds.list.n, 1);
    const struct pl_diag *d = &ds.list.data[0];
    ck_assert_int_eq(d->info->code, changes[_i].code);
    ck_assert_int_eq(d->where.arg_plus1 - 1, changes[_i].arg);
    ck_assert_int_eq(d->where.dim_plus1 - 1, changes[_i].dim);
    ck_assert_int_eq(d->where.has_values, changes[_i].has_values);
    ck_assert_int_eq(d->where.seen, changes[_i].seen);
    ck_assert_int_eq(d->where.wanted, changes[_i].wanted);
    ck_assert_str_eq(d->where.file, "caller.c");
    ck_assert_int_eq(d->where.line, 77);
    pl_arena_fini(&arena);
}
END_TEST

START_TEST(each_row_is_raised)
{
    bool has = args_rows[_i] == 6001; /* in the next test */
    for (int i = 0; i < N_CHANGES; i++)
        has = has || changes[i].code == args_rows[_i];
    ck_assert_msg(has, "PL%d is not raised", args_rows[_i]);
}
END_TEST

START_TEST(the_count_comes_first_and_then_all_of_them)
{
    pl_kernel k = kernel_of(false);
    pl_arg a[N_ARGS];
    good_args(a);
    struct pl_arena arena = {0};
    struct pl_diags ds;
    pl_diags_init(&ds, &arena);
    struct pl_args_request q = {.kernel = &k, .args = a, .n_args = 3};
    ck_assert(!pl_check_args(&q, &ds));
    ck_assert_int_eq(ds.list.data[0].info->code, 6001);
    q.n_args = N_ARGS;
    c6008(a), c6005(a), c6007(a);
    ck_assert(!pl_check_args(&q, &ds));
    ck_assert_uint_eq(ds.list.n, 4);
    ck_assert_int_eq(ds.list.data[1].info->code, 6008);
    ck_assert_int_eq(ds.list.data[2].info->code, 6005);
    ck_assert_int_eq(ds.list.data[3].info->code, 6007);
    pl_arena_fini(&arena);
}
END_TEST

START_TEST(a_parameter_has_the_extents_of_the_one_it_is_like)
{
    pl_param_decl like[N_ARGS];
    pl_kernel k = kernel_of(false);
    pl_arg a[N_ARGS];
    memcpy(like, params, sizeof like);
    like[Y].like = X + 1;
    k.params = like;
    k.expect_shape = NULL;
    for (int code = 6010; code <= 6012; code++) {
        struct pl_arena arena = {0};
        struct pl_diags ds;
        pl_diags_init(&ds, &arena);
        good_args(a);
        if (code > 6010)
            (code == 6011 ? c6011 : c6012)(a);
        const struct pl_args_request q = {.kernel = &k, .args = a, .n_args = N_ARGS};
        ck_assert_int_eq(pl_check_args(&q, NULL), code == 6010);
        ck_assert_int_eq(pl_check_args(&q, &ds), code == 6010);
        ck_assert_uint_eq(ds.list.n, code != 6010);
        ck_assert(ds.list.n == 0 || ds.list.data[0].info->code == code);
        pl_arena_fini(&arena);
    }
}
END_TEST

/* ---- aliasing ---- */

static bool aliases(pl_tensor x, pl_tensor y, bool may_alias)
{
    pl_kernel k = kernel_of(may_alias);
    k.expect_shape = NULL;
    pl_arg a[N_ARGS];
    good_args(a);
    a[X].u.tensor = x;
    a[Y].u.tensor = y;
    const struct pl_args_request q = {.kernel = &k, .args = a, .n_args = N_ARGS};
    return !pl_check_args(&q, NULL);
}

static pl_tensor at(uint64_t address, pl_shape shape, pl_shape strides)
{
    return pl_tensor_strided(address, PL_F32, shape, strides);
}

START_TEST(overlap_is_found_where_it_is_certain)
{
    const pl_shape s = PL_SHAPE(8, 16), dense = PL_SHAPE(16, 1), wide = PL_SHAPE(64, 1);
    pl_tensor x = at(0x10000, s, dense);
    ck_assert(aliases(x, x, false));
    ck_assert(!aliases(x, x, true)); /* exactly the same tensor, and the kernel allows it */
    ck_assert(aliases(x, at(0x10004, s, dense), true));
    ck_assert(!aliases(x, at(0x10000 + 8 * 16 * 4, s, dense), false)); /* directly behind */
    ck_assert(!aliases(at(0x10000, s, wide), at(0x10000 + 16 * 4, s, wide),
                       false)); /* two column blocks of one matrix */
    ck_assert(aliases(at(0x10000, s, wide), at(0x10000 + 15 * 4, s, wide),
                      false)); /* which share a column */
    ck_assert(
        aliases(at(0x10000, s, wide), at(0x10000 + 64 * 4, s, wide), false)); /* one row further */
    ck_assert(!aliases(at(0x10000, s, wide), at(0x10000 + 8 * 64 * 4, s, wide), false));
    ck_assert(aliases(at(0x10000, s, wide), at(0x10000 + (64 - 15) * 4, s, wide),
                      false)); /* wraps into the next row's first column */
    ck_assert(!aliases(at(0x10000, PL_SHAPE(0, 16), dense), x, false));
    ck_assert(aliases(at(0x10000, s, wide), at(0x10000, s, PL_SHAPE(48, 1)),
                      true)); /* different strides: element 0 is shared */
    ck_assert(aliases(at(0x10000, s, PL_SHAPE(1, 64)), at(0x10000, s, wide), true));
}
END_TEST

/* Against counting elements, for all small strided pairs. */
START_TEST(overlap_agrees_with_counting)
{
    const int64_t n0 = 3, n1 = 2;
    for (int64_t s0 = 2; s0 <= 5; s0++)
        for (int64_t delta = -12; delta <= 12; delta++) {
            bool shares = false;
            for (int64_t i = 0; i < n0 * n1; i++)
                for (int64_t j = 0; j < n0 * n1; j++)
                    shares = shares || i / n1 * s0 + i % n1 == delta + j / n1 * s0 + j % n1;
            pl_tensor x = at(0x10000, PL_SHAPE(n0, n1), PL_SHAPE(s0, 1));
            pl_tensor y = at(0x10000 + (uint64_t)(delta * 4), PL_SHAPE(n0, n1), PL_SHAPE(s0, 1));
            ck_assert_msg(aliases(x, y, false) == shares, "stride %d, delta %d", (int)s0,
                          (int)delta);
        }
}
END_TEST

/* Does counting find two elements at one address? */
static bool overlaps_itself(const int64_t n[3], const int64_t s[3])
{
    bool is_taken[256] = {false};
    for (int64_t i = 0; i < n[0] * n[1] * n[2]; i++) {
        const int64_t at = i / (n[1] * n[2]) * s[0] + i / n[2] % n[1] * s[1] + i % n[2] * s[2];
        if (is_taken[128 + at])
            return true;
        is_taken[128 + at] = true;
    }
    return false;
}

static bool is_refused(const int64_t n[3], const int64_t s[3])
{
    static const pl_param_decl out = {
        .name = "y", .role = PL_ROLE_OUT, .min_rank = 3, .max_rank = 3, .dtypes = PL_DT_ANY};
    const pl_kernel k = {
        .struct_size = sizeof k, .name = "out", .params = &out, .n_params = 1, .n_configs = 1};
    const pl_arg a = pl_arg_tensor(
        pl_tensor_strided(0x10000, PL_F32, PL_SHAPE(n[0], n[1], n[2]), PL_SHAPE(s[0], s[1], s[2])));
    const struct pl_args_request q = {.kernel = &k, .args = &a, .n_args = 1};
    return !pl_check_args(&q, NULL);
}

/* Whoever is refused does overlap; of two axes, and of three that are nested or nearly so, whoever overlaps is refused. */
START_TEST(outputs_that_overlap_themselves)
{
    static const int64_t strides[] = {1, 2, 3, 4, 5, 6, 7, -1, -3, 0};
    unsigned n_missed = 0, n_found = 0;
    for (int i = 0; i < 10 * 10 * 10 * 8; i++) {
        const int64_t n[3] = {1 + (i & 1) * 2, 2 + (i >> 1 & 1), 2 + (i >> 2 & 1) * 3},
                      s[3] = {strides[i / 8 % 10], strides[i / 80 % 10], strides[i / 800]};
        const bool wanted = overlaps_itself(n, s), seen = is_refused(n, s);
        ck_assert_msg(!seen || wanted, "(%d,%d,%d) by (%d,%d,%d)", (int)n[0], (int)n[1], (int)n[2],
                      (int)s[0], (int)s[1], (int)s[2]);
        ck_assert_msg(n[0] > 1 || seen == wanted, "(%d,%d) by (%d,%d)", (int)n[1], (int)n[2],
                      (int)s[1], (int)s[2]);
        n_missed += wanted && !seen;
        n_found += wanted && seen;
    }
    ck_assert_uint_gt(n_found, 0);
    ck_assert_msg(n_missed * 100 <= n_found, "%u missed, %u found", n_missed, n_found);
}
END_TEST

/* ---- facts, empty launches ---- */

START_TEST(facts_of_tensors)
{
    pl_tensor t = pl_tensor_make(0x1000, PL_BF16, PL_SHAPE(4, 24));
    ck_assert_uint_eq(pl_fact_among(&t, 15),
                      PL_FACT_ALIGN16 | PL_FACT_I32 | PL_FACT_UNIT_STRIDE | PL_FACT_DENSE);
    for (int dtype = 1; dtype < PL_DTYPE_COUNT; dtype++)
        for (int64_t n = 0; n < 200; n++) {
            const pl_tensor x = pl_tensor_make(0x1000, (pl_dtype)dtype, PL_SHAPE(24, n));
            ck_assert_int_eq(pl_fact_among(&x, PL_FACT_WHOLE16) != 0,
                             n * pl_dtype_bits((pl_dtype)dtype) % 128 == 0);
        }
    ck_assert_uint_eq(pl_fact_among(&t, PL_FACT_I32), PL_FACT_I32);
    t.strides[0] = 25;
    ck_assert_uint_eq(pl_fact_among(&t, 15), PL_FACT_I32 | PL_FACT_UNIT_STRIDE);
    t.strides[0] = 32;
    ck_assert_uint_eq(pl_fact_among(&t, 15), PL_FACT_ALIGN16 | PL_FACT_I32 | PL_FACT_UNIT_STRIDE);
    t.address = 0x1008;
    ck_assert_uint_eq(pl_fact_among(&t, PL_FACT_ALIGN16), 0);
    t = pl_tensor_make(0x1000, PL_U8, PL_SHAPE(INT64_C(1) << 31));
    ck_assert_uint_eq(pl_fact_among(&t, PL_FACT_I32), 0);
    const int64_t most =
        (INT64_C(1) << 31) - (1 << 20) - 1; /* room for a tile that hangs over the end */
    t = pl_tensor_make(0x1000, PL_U8, PL_SHAPE(most));
    ck_assert_uint_eq(pl_fact_among(&t, PL_FACT_I32), PL_FACT_I32);
    t = pl_tensor_make(0x1000, PL_U8, PL_SHAPE(most + 1));
    ck_assert_uint_eq(pl_fact_among(&t, PL_FACT_I32), 0);
    t = pl_tensor_strided(0x1000, PL_U8, PL_SHAPE(2, 2), PL_SHAPE(most - 2, 1));
    ck_assert_uint_eq(pl_fact_among(&t, PL_FACT_I32), PL_FACT_I32);
    t.strides[0] += 1;
    ck_assert_uint_eq(pl_fact_among(&t, PL_FACT_I32), 0);
    t = pl_tensor_strided(0x1000, PL_U8, PL_SHAPE(most + 1, 2), PL_SHAPE(0, 1));
    ck_assert_uint_eq(pl_fact_among(&t, PL_FACT_I32), 0);
    t = pl_tensor_strided(0x1000, PL_F32, PL_SHAPE(5, 1),
                          PL_SHAPE(1, 7)); /* an axis of one element has any stride */
    ck_assert_uint_eq(pl_fact_among(&t, PL_FACT_UNIT_STRIDE | PL_FACT_DENSE),
                      PL_FACT_UNIT_STRIDE | PL_FACT_DENSE);
}
END_TEST

START_TEST(empty_outputs_need_no_launch)
{
    pl_kernel k = kernel_of(false);
    pl_arg a[N_ARGS];
    good_args(a);
    ck_assert(!pl_args_are_empty(&k, a));
    a[X].u.tensor = a[Y].u.tensor = pl_tensor_make(0, PL_F32, PL_SHAPE(0, 16));
    const struct pl_args_request q = {.kernel = &k, .args = a, .n_args = N_ARGS};
    ck_assert(pl_check_args(&q, NULL)); /* the address of an empty tensor may be 0 */
    ck_assert(pl_args_are_empty(&k, a));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("args");
    TCase *t = tcase_create("args");
    tcase_add_loop_test(t, each_rule_alone, 0, N_CHANGES);
    tcase_add_loop_test(t, each_row_is_raised, 0, (int)(sizeof args_rows / sizeof args_rows[0]));
    tcase_add_test(t, the_count_comes_first_and_then_all_of_them);
    tcase_add_test(t, a_parameter_has_the_extents_of_the_one_it_is_like);
    tcase_add_test(t, overlap_is_found_where_it_is_certain);
    tcase_add_test(t, overlap_agrees_with_counting);
    tcase_add_test(t, outputs_that_overlap_themselves);
    tcase_add_test(t, facts_of_tensors);
    tcase_add_test(t, empty_outputs_need_no_launch);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
