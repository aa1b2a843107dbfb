/*
 * Windows that hang over the edges of their tensors, on all four sides: addresses and bounds of their chunks, what a load gives for
 * elements outside and who may see it (src/plan/memory/outside.c), and extents that parameters share (pl_param_decl.like).
 */
#include "src/plan/lower.h"
#include "src/plan/scalar.h"
#include "tests/plan_data.h"

enum { N_CHIPS = 4, ROWS = 8, COLS = 64, FILL = 9 };
static const int chips[N_CHIPS] = {80, 90, 100, 120};

struct outside_params {
    int32_t in[2], out[2]; /* first row and column of the first window */
    int32_t n_across;      /* windows beside each other */
};

static void outside_body(pl_builder *b, const void *params)
{
    const struct outside_params *p = params;
    const pl_shape s = PL_SHAPE(ROWS, COLS);
    const pl_load_opt o = {.oob = PL_OOB_FILL, .fill = FILL};
    const bool is_moved = p->in[0] != p->out[0] || p->in[1] != p->out[1];
    pl_val id = pl_program_id(b, 0), row = pl_mul(b, pl_div(b, id, p->n_across), ROWS),
           col = pl_mul(b, pl_rem(b, id, p->n_across), COLS);
    const pl_offs from = PL_OFF(b, pl_add(b, row, p->in[0]), pl_add(b, col, p->in[1])),
                  to = PL_OFF(b, pl_add(b, row, p->out[0]), pl_add(b, col, p->out[1]));
    pl_val v = pl_load_ex(b, pl_window(b, pl_param(b, 0), from, s), &o), w = pl_cast(b, v, PL_F32);
    pl_store(b, pl_window(b, pl_param(b, 1), is_moved ? to : from, s),
             pl_cast(b, pl_add(b, w, w), pl_dtype_of_val(b, v)));
}

#define TENSOR(name_, role_, like_)                                                                \
    {                                                                                              \
        .name = name_, .role = role_, .min_rank = 2, .max_rank = 2, .dtypes = PL_DT_ANY,           \
        .like = like_                                                                              \
    }
static const pl_param_decl decls[2][2] = {
    {TENSOR("x", PL_ROLE_IN, 0), TENSOR("y", PL_ROLE_OUT, 0)},
    {TENSOR("x", PL_ROLE_IN, 0), TENSOR("y", PL_ROLE_OUT, 1)},
};

#define KERNEL(is_like_)                                                                           \
    {                                                                                              \
        .struct_size = sizeof(pl_kernel), .name = "outside", .params = decls[is_like_],            \
        .n_params = 2, .params_bytes = sizeof(struct outside_params), .n_configs = 1,              \
        .body = outside_body                                                                       \
    }
static const pl_kernel kernels[2] = {KERNEL(0), KERNEL(1)}; /* [is_like] */

static bool is_inside(const pl_tensor *t, int64_t r, int64_t c)
{
    return r >= 0 && r < t->shape[0] && c >= 0 && c < t->shape[1];
}

/* What the kernel writes, into `want`. */
static void refer(const struct outside_params *p, int64_t n_down, const pl_tensor *x,
                  const void *xs, const pl_tensor *y, void *want)
{
    for (int64_t r = 0; r < n_down * ROWS; r++)
        for (int64_t c = 0; c < (int64_t)p->n_across * COLS; c++) {
            const int64_t xr = r + p->in[0], xc = c + p->in[1], yr = r + p->out[0],
                          yc = c + p->out[1];
            if (!is_inside(y, yr, yc))
                continue;
            const double v = is_inside(x, xr, xc)
                                 ? get_elem(xs, x->dtype, xr * x->strides[0] + xc * x->strides[1])
                                 : FILL;
            set_elem(want, y->dtype, yr * y->strides[0] + yc * y->strides[1], 2 * v);
        }
}

static pl_tensor any_tensor(pl_dtype t, pl_shape s, bool is_aligned)
{
    const int64_t es = pl_dtype_bits(t) / 8;
    return is_aligned ? tensor_new(t, s, 16 / es * (int64_t)random_below(&rnd, 3), 0)
                      : tensor_new(t, s, (int64_t)random_below(&rnd, 5),
                                   es * (int64_t)random_below(&rnd, 4));
}

static void check_outside(int arch, pl_dtype t, bool is_like)
{
    static const int32_t moves[] = {0, 0, 0, 1, 8, -1, -8};
    const bool is_aligned = random_below(&rnd, 2) == 0, is_moved = random_below(&rnd, 2) == 0;
    const int64_t n = is_aligned ? 16 : 1;
    pl_shape s = PL_SHAPE(1 + (int64_t)random_below(&rnd, 11),
                          n * (1 + (int64_t)random_below(&rnd, 160 / (uint64_t)n)));
    pl_tensor x = any_tensor(t, s, is_aligned);
    if (!is_like)
        s = PL_SHAPE(s.d[0] + (int64_t)random_below(&rnd, 3),
                     s.d[1] + n * (int64_t)random_below(&rnd, 3));
    pl_tensor y = any_tensor(t, s, is_aligned);
    struct outside_params p = {.n_across = (int32_t)cdiv(s.d[1] + 8, COLS)};
    for (int i = 0; i < 2; i++) {
        p.in[i] = moves[random_below(&rnd, PL_COUNT(moves))];
        p.out[i] = is_moved ? moves[random_below(&rnd, PL_COUNT(moves))] : p.in[i];
    }
    const int64_t n_down = cdiv(s.d[0] + 8, ROWS);
    void *xs = fill_random(&x);
    fill_bytes(&y, 0x5a);
    void *want = fetch(&y);
    refer(&p, n_down, &x, xs, &y, want);
    run_ok(&(struct ask){.kernel = &kernels[is_like],
                         .params = &p,
                         .arch = arch,
                         .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                         .grid = {(uint32_t)(n_down * p.n_across), 1, 1},
                         .facts = random_below(&rnd, 3) != 0
                                      ? all_facts
                                      : (pl_fact_set)random_below(&rnd, 64) & all_facts});
    void *got = fetch(&y);
    ck_assert_msg(memcmp(got, want, tensor_span(&y)) == 0,
                  "sm_%d %s (%d,%d) by %d windows of it: from (%d,%d) to (%d,%d), like %d", arch,
                  pl_dtype_name(t), (int)x.shape[0], (int)x.shape[1], p.n_across, p.in[0], p.in[1],
                  p.out[0], p.out[1], is_like);
    free(xs);
    free(want);
    free(got);
    free_tensor(&x);
    free_tensor(&y);
}

START_TEST(windows_over_every_edge_are_right)
{
    random_turn(&rnd, _i);
    static const pl_dtype types[] = {PL_F32, PL_BF16, PL_I8, PL_F64, PL_U16, PL_F16};
    driver_use(chips[_i % N_CHIPS], "late");
    for (int n = 0; n < 12; n++)
        check_outside(chips[_i % N_CHIPS], types[random_below(&rnd, PL_COUNT(types))],
                      random_below(&rnd, 2) == 0);
}
END_TEST

/* ---- what the plans hold ---- */

static struct build *plan_of(bool is_like, const struct outside_params *p, pl_fact_set facts)
{
    const pl_tensor x = pl_tensor_make(0x10000, PL_F32, PL_SHAPE(64, 256)),
                    y = pl_tensor_make(0x90000, PL_F32, PL_SHAPE(64, 256));
    return build_ok(&(struct ask){.kernel = &kernels[is_like],
                                  .params = p,
                                  .arch = 80,
                                  .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                                  .facts = facts});
}

static uint32_t count_params(const struct build *b, enum pl_plan_param_kind kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->plan.params.n; i++)
        n += b->plan.params.data[i].kind == kind;
    return n;
}

static uint32_t count_steps(const struct build *b, enum pl_step_op op)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->plan.steps.list.n; i++)
        n += b->plan.steps.list.data[i].op == op;
    return n;
}

static uint32_t count_fills(const struct build *b)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->plan.steps.list.n; i++) {
        const struct pl_step *s = &b->plan.steps.list.data[i];
        n += s->op == PL_STEP_mov &&
             b->plan.steps.pool.data[s->opnds + 1].imm == pl_const_of(PL_F32, 0, FILL).imm;
    }
    return n;
}

START_TEST(extents_are_passed_once_for_parameters_that_are_like)
{
    const struct outside_params p = {.n_across = 4};
    struct build *b = plan_of(true, &p, all_facts);
    ck_assert_uint_eq(count_params(b, PL_PLAN_EXTENT), 2);
    expect_read_back(b);
    const uint32_t n_compares = count_steps(b, PL_STEP_compare_and);
    build_free(b);
    b = plan_of(false, &p, all_facts);
    ck_assert_uint_eq(count_params(b, PL_PLAN_EXTENT), 4);
    ck_assert_uint_eq(count_steps(b, PL_STEP_compare_and), 2 * n_compares);
    build_free(b);
}
END_TEST

/* Two kinds of index would be two parameters of one name. */
START_TEST(extents_of_other_index_types_are_passed_apart)
{
    const struct outside_params p = {.n_across = 4};
    const pl_tensor x = pl_tensor_make(0x10000, PL_F32, PL_SHAPE(64, 256));
    struct ask a = {.kernel = &kernels[1],
                    .params = &p,
                    .arch = 80,
                    .args = {pl_arg_tensor(x), pl_arg_tensor(x)}};
    struct pl_trace_request r;
    struct build *b = build_new(&a, 0);
    build_request(&r, &a);
    r.args[0].facts = PL_FACT_I32;
    ck_assert(pl_fn_init(&b->fn, &b->arena, &b->diags, &r) && pl_trace_run(&b->fn));
    ck_assert_int_eq(pl_plan_make(&b->fn, &b->arena, &b->diags, &b->plan), PL_OK);
    ck_assert_uint_eq(count_params(b, PL_PLAN_EXTENT), 4);
    build_free(b);
}
END_TEST

/* The elements outside get a value where the store may put it into a tensor, and else none. */
START_TEST(elements_that_nobody_sees_get_no_value)
{
    static const struct {
        bool is_like;
        int32_t in, out;
        bool has_fill;
    } cases[] = {{true, 0, 0, false}, {true, 4, 4, false},   {true, 4, 0, true},
                 {false, 0, 0, true}, {true, -4, -4, false}, {true, 0, 4, true}};
    for (size_t i = 0; i < PL_COUNT(cases); i++) {
        const struct outside_params p = {
            .in = {0, cases[i].in}, .out = {0, cases[i].out}, .n_across = 4};
        struct build *b = plan_of(cases[i].is_like, &p, all_facts);
        ck_assert_msg((count_fills(b) != 0) == cases[i].has_fill, "case %zu", i);
        build_free(b);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("plan_outside");
    TCase *t = tcase_create("outside");
    tcase_set_timeout(t, 120);
    rnd = random_start("plan_outside");
    tcase_add_loop_test(t, windows_over_every_edge_are_right, 0, 3 * N_CHIPS);
    tcase_add_test(t, extents_are_passed_once_for_parameters_that_are_like);
    tcase_add_test(t, extents_of_other_index_types_are_passed_apart);
    tcase_add_test(t, elements_that_nobody_sees_get_no_value);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
