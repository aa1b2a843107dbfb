/*
 * Fragments reduced along an axis, and what is left of them: random arrays over layouts, axes, functions, element types, chips and
 * asynchronous policies, end to end on the emulated driver with the race check, against float64. What is left is spread out again, kept
 * in variables, moved through memory, reduced to one number and added into memory by atomics. Each text also goes through the assembler,
 * where there is one.
 */
#include "tests/plan_data.h"
#include "tests/plan_ptxas.h"

static const char *const policies[] = {"eager", "late", "random:5"};
static const int chips[] = {80, 89, 90, 100, 120};
enum { N_POLICIES = 3, N_CHIPS = 5, ROUNDS = 3 };

enum way {
    WAY_SPREAD,    /* y = max(x, left spread along the axis) */
    WAY_VARIABLE,  /* y = sum over the rounds of x and of what a variable held before each */
    WAY_SMEM,      /* y = spread(left), through shared memory and back */
    WAY_IN_PLACE,  /* z += left, in each round */
    WAY_FACTOR,    /* y = x + spread(z) */
    WAY_TOTAL,     /* y = left reduced to a number; x at once */
    WAY_ATOMIC,    /* z += left, by atomics */
    WAY_OLD,       /* the same, and y = spread(z before) */
    WAY_PREDICATE, /* y = are all, or any, even? x : 9 */
    WAY_ELEMENT,   /* y = an element of left */
    WAY_HALVES,    /* as WAY_SPREAD, by two warpgroups with half of the rows each, over both */
    N_WAYS
};

struct rows_params {
    int32_t kind, axis, way, t, op, rows, cols;
    int32_t is_told; /* variables and loads ask for the layout */
};

/* Rows of a warpgroup. */
static int32_t rows_of(const struct rows_params *p)
{
    return p->way == WAY_HALVES ? p->rows / 2 : p->rows;
}

static pl_shape left_shape(const struct rows_params *p)
{
    return PL_SHAPE(p->axis == 1 ? p->rows : p->cols);
}

static pl_layout left_layout(const struct rows_params *p)
{
    return p->is_told ? pl_layout_reduce(pl_layout_of((pl_layout_kind)p->kind), p->axis)
                      : pl_layout_auto();
}

static pl_val spread(pl_builder *b, const struct rows_params *p, pl_val left)
{
    return pl_broadcast(b, left, p->axis, p->axis == 1 ? p->cols : rows_of(p));
}

static pl_val everywhere(pl_builder *b, const struct rows_params *p, pl_val v)
{
    return pl_broadcast(b, pl_broadcast(b, v, 0, p->rows), 1, p->cols);
}

static pl_val reduce(pl_builder *b, const struct rows_params *p, pl_val v, int32_t axis)
{
    return pl_reduce(b, (pl_op2)p->op, v, axis,
                     p->way == WAY_HALVES ? PL_SCOPE_CTA : PL_SCOPE_WARPGROUP);
}

/* The variable's values before the stores are used behind them. */
static pl_val by_variable(pl_builder *b, const struct rows_params *p, pl_val x)
{
    const pl_dtype t = (pl_dtype)p->t;
    pl_ref most = pl_regs(b, t, left_shape(p), left_layout(p), pl_cast(b, 1, t)),
           sum = pl_regs(b, t, PL_SHAPE(p->rows, p->cols), pl_layout_auto(), pl_cast(b, 0, t));
    PL_FOR(b, i, 0, ROUNDS)
    {
        pl_val before = pl_load(b, most), wide = spread(b, p, before),
               left = reduce(b, p, pl_add(b, x, pl_cast(b, i, t)), p->axis);
        pl_store(b, most, pl_add(b, before, left));
        pl_store(b, sum, pl_add(b, pl_load(b, sum), pl_add(b, x, wide)));
    }
    return pl_load(b, sum);
}

static pl_val by_smem(pl_builder *b, const struct rows_params *p, pl_val left)
{
    const pl_load_opt told = {.layout = left_layout(p)};
    pl_ref s = pl_smem(b, (pl_dtype)p->t, left_shape(p), PL_SWIZZLE_AUTO);
    pl_store(b, s, left);
    pl_val v = pl_load_ex(b, s, &told);
    pl_val old = pl_swap(b, s, pl_add(b, v, pl_cast(b, 1, (pl_dtype)p->t)));
    return pl_max(b, old, pl_load(b, s));
}

static void in_place(pl_builder *b, const struct rows_params *p, pl_ref z, pl_val left)
{
    const pl_load_opt told = {.layout = left_layout(p)};
    PL_FOR(b, i, 0, ROUNDS)
    {
        (void)i;
        pl_store(b, z, pl_add(b, pl_load_ex(b, z, &told), left));
    }
}

static pl_val evenness(pl_builder *b, const struct rows_params *p, pl_val x)
{
    pl_val even = pl_eq(b, pl_rem(b, pl_cast(b, x, PL_I32), 2), 0),
           left = pl_reduce(b, p->op == PL_MIN ? PL_AND : PL_OR, even, p->axis, PL_SCOPE_WARPGROUP);
    return pl_select(b, spread(b, p, left), x, pl_cast(b, 9, (pl_dtype)p->t));
}

static void rows_body(pl_builder *b, const void *params)
{
    const struct rows_params *p = params;
    const pl_load_opt from = {.oob = PL_OOB_PROMISE,
                              .layout = pl_layout_of((pl_layout_kind)p->kind)};
    const pl_shape s = PL_SHAPE(rows_of(p), p->cols);
    pl_block_warpgroups(b, p->rows / rows_of(p));
    pl_val first = pl_mul(b, pl_warpgroup_id(b), rows_of(p));
    pl_ref y = pl_window(b, pl_param(b, 1), PL_OFF(b, first, 0), s),
           z = pl_window(b, pl_param(b, 2), PL_OFF(b, 0), left_shape(p));
    pl_val x = pl_load_ex(b, pl_window(b, pl_param(b, 0), PL_OFF(b, first, 0), s), &from),
           left = {0}, old;
    if (p->way != WAY_VARIABLE && p->way != WAY_FACTOR && p->way != WAY_PREDICATE)
        left = reduce(b, p, x, p->axis);
    const pl_atomic_opt wants_old = {.want_old = 1};
    switch ((enum way)p->way) {
    case WAY_SPREAD:
    case WAY_HALVES: pl_store(b, y, pl_max(b, x, spread(b, p, left))); break;
    case WAY_VARIABLE: pl_store(b, y, by_variable(b, p, x)); break;
    case WAY_SMEM: pl_store(b, y, spread(b, p, by_smem(b, p, left))); break;
    case WAY_IN_PLACE: in_place(b, p, z, left); break;
    case WAY_FACTOR: pl_store(b, y, pl_add(b, x, spread(b, p, pl_load(b, z)))); break;
    case WAY_TOTAL: pl_store(b, y, everywhere(b, p, reduce(b, p, left, 0))); break;
    case WAY_ATOMIC: pl_atomic_add(b, z, left); break;
    case WAY_OLD:
        old = pl_atomic_ex(b, PL_ATOMIC_ADD, z, left, &wants_old);
        pl_store(b, y, spread(b, p, old));
        break;
    case WAY_PREDICATE: pl_store(b, y, evenness(b, p, x)); break;
    case WAY_ELEMENT: pl_store(b, y, everywhere(b, p, pl_extract(b, left, PL_OFF(b, 17)))); break;
    case N_WAYS: break;
    }
}

#define TENSOR(name_, role_)                                                                       \
    {                                                                                              \
        .name = name_, .role = role_, .min_rank = 1, .max_rank = 2, .dtypes = PL_DT_ANY            \
    }
static const pl_param_decl rows_decls[] = {TENSOR("x", PL_ROLE_IN), TENSOR("y", PL_ROLE_INOUT),
                                           TENSOR("z", PL_ROLE_INOUT)};
static const pl_kernel rows = {.struct_size = sizeof(pl_kernel),
                               .name = "rows",
                               .params = rows_decls,
                               .n_params = 3,
                               .params_bytes = sizeof(struct rows_params),
                               .n_configs = 1,
                               .body = rows_body};

/* ---- the same in double ---- */

static double combine(pl_op2 op, double x, double y)
{
    switch ((int)op) {
    case PL_ADD: return x + y;
    case PL_MUL: return x * y;
    case PL_MIN: return fmin(x, y);
    case PL_MAX: return fmax(x, y);
    case PL_AND: return (double)((uint32_t)x & (uint32_t)y);
    case PL_OR: return (double)((uint32_t)x | (uint32_t)y);
    case PL_XOR: return (double)((uint32_t)x ^ (uint32_t)y);
    default: return NAN;
    }
}

static double rounded(pl_dtype t, double v)
{
    uint64_t cell = 0;
    set_elem(&cell, t, 0, v);
    return get_elem(&cell, t, 0);
}

struct arrays {
    const struct rows_params *p;
    const void *x, *z; /* before the launch */
};

static double x_at(const struct arrays *a, int64_t line, int64_t k)
{
    const struct rows_params *p = a->p;
    return get_elem(a->x, (pl_dtype)p->t, p->axis == 1 ? line * p->cols + k : k * p->cols + line);
}

/* Of a row, or column, of x + more. */
static double left_of(const struct arrays *a, int64_t line, double more)
{
    const int64_t n = a->p->axis == 1 ? a->p->cols : a->p->rows;
    double v = x_at(a, line, 0) + more;
    for (int64_t k = 1; k < n; k++)
        v = combine((pl_op2)a->p->op, v, x_at(a, line, k) + more);
    return rounded((pl_dtype)a->p->t, v);
}

/* A row is combined with the one in its place in the other half. */
static double left_of_halves(const struct arrays *a, int64_t line)
{
    const int64_t n = a->p->rows / 2;
    if (a->p->axis == 0)
        return left_of(a, line, 0);
    return combine((pl_op2)a->p->op, left_of(a, line % n, 0), left_of(a, line % n + n, 0));
}

static double by_rounds(const struct arrays *a, int64_t line)
{
    double most = 1, sum = 0;
    for (int i = 0; i < ROUNDS; i++) {
        sum += most;
        most = rounded((pl_dtype)a->p->t, most + left_of(a, line, i));
    }
    return sum;
}

static double total(const struct arrays *a)
{
    double v = left_of(a, 0, 0);
    for (int64_t line = 1; line < left_shape(a->p).d[0]; line++)
        v = combine((pl_op2)a->p->op, v, left_of(a, line, 0));
    return v;
}

static bool is_even(const struct arrays *a, int64_t line)
{
    const int64_t n = a->p->axis == 1 ? a->p->cols : a->p->rows;
    int64_t n_even = 0;
    for (int64_t k = 0; k < n; k++)
        n_even += fmod(x_at(a, line, k), 2) == 0;
    return n_even == n || (a->p->op != PL_MIN && n_even != 0);
}

static double wanted_y(const struct arrays *a, int64_t i, int64_t j)
{
    const int64_t line = a->p->axis == 1 ? i : j;
    const double z = get_elem(a->z, (pl_dtype)a->p->t, line),
                 x = get_elem(a->x, (pl_dtype)a->p->t, i * a->p->cols + j);
    switch ((enum way)a->p->way) {
    case WAY_SPREAD: return fmax(x, left_of(a, line, 0));
    case WAY_HALVES: return fmax(x, left_of_halves(a, line));
    case WAY_VARIABLE: return by_rounds(a, line) + ROUNDS * x;
    case WAY_SMEM: return left_of(a, line, 0) + 1;
    case WAY_FACTOR: return x + z;
    case WAY_TOTAL: return total(a);
    case WAY_OLD: return z;
    case WAY_PREDICATE: return is_even(a, line) ? x : 9;
    case WAY_ELEMENT: return left_of(a, 17, 0);
    case WAY_IN_PLACE:
    case WAY_ATOMIC:
    case N_WAYS: break;
    }
    return 0; /* as it was */
}

static double wanted_z(const struct arrays *a, int64_t line)
{
    double z = get_elem(a->z, (pl_dtype)a->p->t, line);
    const int n =
        a->p->way == WAY_IN_PLACE ? ROUNDS : a->p->way == WAY_ATOMIC || a->p->way == WAY_OLD;
    for (int i = 0; i < n; i++)
        z = rounded((pl_dtype)a->p->t, z + left_of(a, line, 0));
    return z;
}

/* ---- running it ---- */

static const pl_layout_kind kinds[] = {
    PL_LAYOUT_WGMMA,           PL_LAYOUT_WGMMA_8BIT, PL_LAYOUT_WGMMA_UPCAST_2X,
    PL_LAYOUT_WGMMA_UPCAST_4X, PL_LAYOUT_TCGEN05,    PL_LAYOUT_TMEM_NATIVE,
    PL_LAYOUT_MMA_A,           PL_LAYOUT_MMA_B,      PL_LAYOUT_MMA_ACC};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

/* Sums and products that a type can hold: of bits, and of numbers. */
static const struct {
    pl_dtype t;
    pl_op2 op;
} functions[] = {{PL_F32, PL_ADD}, {PL_BF16, PL_MAX}, {PL_I32, PL_XOR},  {PL_F16, PL_ADD},
                 {PL_F64, PL_MIN}, {PL_F32, PL_MAX},  {PL_U32, PL_OR},   {PL_I32, PL_ADD},
                 {PL_F16, PL_MIN}, {PL_U32, PL_AND},  {PL_BF16, PL_ADD}, {PL_F32, PL_MUL},
                 {PL_I16, PL_ADD}, {PL_U64, PL_MAX}};

static bool has_atomic(pl_dtype t) { return t == PL_F32 || t == PL_I32 || t == PL_U32; }

static bool is_exact_in_steps(pl_dtype t) { return pl_dtype_bits(t) >= 32; }

static bool is_served(const struct rows_params *p)
{
    const pl_dtype t = (pl_dtype)p->t;
    if ((p->kind == PL_LAYOUT_MMA_A || p->kind == PL_LAYOUT_MMA_B) && pl_dtype_bits(t) == 64)
        return false; /* no such fragment */
    if (p->kind == PL_LAYOUT_TMEM_NATIVE && p->axis == 0 && pl_dtype_bits(t) == 64)
        return false; /* goes through shared memory as a whole: too large for some chips */
    if (p->way == WAY_ATOMIC || p->way == WAY_OLD)
        return has_atomic(t) && p->op != PL_MUL;
    return (p->way != WAY_VARIABLE && p->way != WAY_TOTAL && p->way != WAY_IN_PLACE &&
            p->way != WAY_HALVES) ||
           (is_exact_in_steps(t) && p->op != PL_MUL);
}

/* Ones and twos where they are multiplied. */
static void *fill(const struct rows_params *p, const pl_tensor *x)
{
    if (p->op != PL_MUL)
        return fill_random(x);
    void *host = calloc(1, tensor_span(x));
    for (int64_t i = 0; i < pl_tensor_n_elems(x); i++)
        set_elem(host, x->dtype, i, random_below(&rnd, 8) == 0 ? 2 : 1);
    ck_assert_int_eq(emu.HtoD(x->address, host, tensor_span(x)), 0);
    return host;
}

static void compare(const struct arrays *a, const void *y, const void *z, const char *what)
{
    const struct rows_params *p = a->p;
    const pl_dtype t = (pl_dtype)p->t;
    for (int64_t i = 0; i < p->rows; i++)
        for (int64_t j = 0; j < p->cols; j++) {
            const double want = rounded(t, wanted_y(a, i, j)),
                         have = get_elem(y, t, i * p->cols + j);
            ck_assert_msg(have == want, "%s: y(%lld, %lld) is %g, not %g", what, (long long)i,
                          (long long)j, have, want);
        }
    for (int64_t i = 0; i < left_shape(p).d[0]; i++)
        ck_assert_msg(get_elem(z, t, i) == wanted_z(a, i), "%s: z(%lld) is %g, not %g", what,
                      (long long)i, get_elem(z, t, i), wanted_z(a, i));
}

/* Lanes of a warp hold all of a row. */
static bool is_in_registers(const struct rows_params *p)
{
    const bool is_within = p->way == WAY_SPREAD || p->way == WAY_VARIABLE || p->way == WAY_FACTOR ||
                           p->way == WAY_ATOMIC || p->way == WAY_PREDICATE;
    return is_within && p->axis == 1;
}

/* All warps hold the same of MMA_B: they have loaded it before one of them stores. */
static void expect_no_meeting(const struct build *b, bool may_meet, const char *what)
{
    ck_assert_msg(b->plan.launch.smem_bytes == 0, "%s: %u bytes are shared", what,
                  b->plan.launch.smem_bytes);
    for (uint32_t i = 0; i < b->plan.steps.list.n && !may_meet; i++)
        ck_assert_msg(b->plan.steps.list.data[i].op != PL_STEP_sync_threads, "%s: threads meet",
                      what);
}

static void run_rows(const struct rows_params *p, int chip, const char *policy)
{
    const pl_dtype t = (pl_dtype)p->t;
    char what[160];
    snprintf(what, sizeof what, "layout %d axis %d way %d told %d %s op %d %dx%d on sm_%d %s",
             p->kind, p->axis, p->way, p->is_told, pl_dtype_name(t), p->op, p->rows, p->cols, chip,
             policy);
    driver_use(chip, policy);
    ck_assert_int_eq(emu.configure("check", "race"), 0);
    pl_tensor x = tensor_new(t, PL_SHAPE(p->rows, p->cols), 0, 0),
              y = tensor_new(t, PL_SHAPE(p->rows, p->cols), 0, 0),
              z = tensor_new(t, left_shape(p), 0, 0);
    const struct arrays before = {.p = p, .x = fill(p, &x), .z = fill_random(&z)};
    fill_bytes(&y, 0);
    struct ask a = {.kernel = &rows,
                    .params = p,
                    .params_bytes = sizeof *p,
                    .arch = chip,
                    .args = {pl_arg_tensor(x), pl_arg_tensor(y), pl_arg_tensor(z)},
                    .grid = {1, 1, 1},
                    .facts = all_facts};
    struct build *b = build_ok(&a);
    if (is_in_registers(p))
        expect_no_meeting(b, p->kind == PL_LAYOUT_MMA_B, what);
    expect_read_back(b);
    if (policy == policies[0]) /* a third of them: it takes the time */
        text_assembles(b);
    launch_ok(b, &a);
    build_free(b);
    void *hy = fetch(&y), *hz = fetch(&z);
    compare(&before, hy, hz, what);
    free((void *)(uintptr_t)before.x);
    free((void *)(uintptr_t)before.z);
    free(hy);
    free(hz);
    free_tensor(&x);
    free_tensor(&y);
    free_tensor(&z);
}

START_TEST(what_is_left_is_right)
{
    rnd.state += (uint64_t)_i << 32; /* each its own */
    for (int way = 0; way < N_WAYS; way++)
        for (int axis = 0; axis < 2; axis++) {
            struct rows_params p = {.kind = (int32_t)kinds[_i],
                                    .axis = axis,
                                    .way = way,
                                    .rows = way == WAY_HALVES ? 256 : 128 << random_below(&rnd, 2),
                                    .cols = 32 << random_below(&rnd, 2),
                                    .is_told = (int32_t)random_below(&rnd, 2)};
            do {
                const uint64_t n = random_below(&rnd, PL_COUNT(functions));
                p.t = (int32_t)functions[n].t;
                p.op = (int32_t)functions[n].op;
            } while (!is_served(&p));
            run_rows(&p, chips[random_below(&rnd, N_CHIPS)],
                     policies[random_below(&rnd, N_POLICIES)]);
        }
}
END_TEST

static Suite *make_suite(void)
{
    rnd = random_start("check_plan_rows");
    Suite *s = suite_create("plan_rows");
    TCase *t = tcase_create("results");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, what_is_left_is_right, 0, N_KINDS);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
