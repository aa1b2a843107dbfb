/* Atomic operations and semaphores, end to end on the emulated driver: many CTAs on the same elements, in both spaces. */
#include "tests/plan_data.h"

static const char *const policies[] = {"eager", "late", "random:6"};

struct atomic_params {
    int32_t op, n, is_scalar, wants_old, is_smem, vec;
};

/* Element i of y by element i of row `program` of x, or (rank 0) by x[program, 0]; z: the old values, row by row. */
static void atomic_body(pl_builder *b, const void *params)
{
    const struct atomic_params *p = params;
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1), z = pl_param(b, 2);
    pl_val me = pl_program_id(b, 0);
    const pl_shape s = PL_SHAPE(p->n);
    pl_ref row = pl_window(b, pl_at(b, x, me), PL_OFF(b, 0), s);
    pl_ref to = pl_window(b, y, PL_OFF(b, 0), s),
           old_to = pl_window(b, pl_at(b, z, me), PL_OFF(b, 0), s);
    const pl_load_opt o = {.layout = p->vec > 0 ? pl_layout_strided(p->vec) : pl_layout_auto()};
    pl_val v = pl_load_ex(b, row, &o);
    if (p->is_scalar) {
        to = pl_at(b, to, 0);
        old_to = pl_at(b, old_to, 0);
        v = pl_load(b, pl_at(b, row, 0));
    }
    pl_ref target = to;
    if (p->is_smem) { /* twice on an array of the CTA's, which begins as y */
        pl_ref own = pl_smem(b, pl_dtype_of(b, x), s, PL_SWIZZLE_NONE);
        pl_store(b, own, pl_load(b, pl_window(b, y, PL_OFF(b, 0), s)));
        target = p->is_scalar ? pl_at(b, own, 0) : own;
        (void)pl_atomic_ex(b, (pl_atomic)p->op, target, v, NULL);
    }
    const pl_atomic_opt opt = {.want_old = p->wants_old};
    pl_val old = pl_atomic_ex(b, (pl_atomic)p->op, target, v, &opt);
    if (p->wants_old)
        pl_store(b, old_to, old);
    else if (p->is_smem)
        pl_store(b, old_to, pl_load(b, target));
}
TENSORS(atomic, 1, 2);

static const struct {
    pl_dtype t;
    struct atomic_params p;
} atomic_cases[] = {
    /* {operation, n, rank 0, old value, SMEM, vec} */
    {PL_I32, {PL_ATOMIC_ADD, 1, 0, 0, 0, 0}},   {PL_U32, {PL_ATOMIC_ADD, 300, 0, 0, 0, 0}},
    {PL_I64, {PL_ATOMIC_ADD, 100, 0, 0, 0, 0}}, {PL_F32, {PL_ATOMIC_ADD, 1000, 0, 0, 0, 4}},
    {PL_F16, {PL_ATOMIC_ADD, 77, 0, 0, 0, 0}},  {PL_BF16, {PL_ATOMIC_ADD, 256, 0, 0, 0, 2}},
    {PL_I32, {PL_ATOMIC_MIN, 130, 0, 0, 0, 0}}, {PL_U64, {PL_ATOMIC_MAX, 33, 0, 0, 0, 0}},
    {PL_I64, {PL_ATOMIC_MIN, 33, 0, 0, 0, 0}},  {PL_U32, {PL_ATOMIC_AND, 64, 0, 0, 0, 0}},
    {PL_I64, {PL_ATOMIC_OR, 200, 0, 0, 0, 0}},  {PL_I32, {PL_ATOMIC_XOR, 50, 0, 0, 0, 0}},
    {PL_I32, {PL_ATOMIC_ADD, 1, 1, 0, 0, 0}},   {PL_F32, {PL_ATOMIC_ADD, 8, 1, 0, 0, 0}},
    {PL_I32, {PL_ATOMIC_ADD, 100, 0, 1, 1, 0}}, {PL_F32, {PL_ATOMIC_ADD, 300, 0, 1, 1, 0}},
    {PL_U64, {PL_ATOMIC_MAX, 5, 1, 1, 1, 0}},   {PL_I32, {PL_ATOMIC_XOR, 1, 1, 1, 1, 0}},
    {PL_F16, {PL_ATOMIC_ADD, 64, 0, 0, 1, 2}},  {PL_F32, {PL_ATOMIC_EXCH, 40, 0, 1, 1, 0}},
    {PL_F16, {PL_ATOMIC_ADD, 64, 1, 1, 1, 0}},
};
enum { N_ATOMIC_CASES = sizeof atomic_cases / sizeof atomic_cases[0], N_CTAS = 5 };

static double applied(int op, double x, double y)
{
    const int64_t i = (int64_t)x, j = (int64_t)y;
    return op == PL_ATOMIC_ADD   ? x + y
           : op == PL_ATOMIC_MIN ? (x < y ? x : y)
           : op == PL_ATOMIC_MAX ? (x > y ? x : y)
           : op == PL_ATOMIC_AND ? (double)(i & j)
           : op == PL_ATOMIC_OR  ? (double)(i | j)
           : op == PL_ATOMIC_XOR ? (double)(i ^ j)
                                 : y;
}

START_TEST(atomics_add_up)
{
    random_turn(&rnd, _i);
    const struct atomic_params *p = &atomic_cases[_i].p;
    const pl_dtype t = atomic_cases[_i].t;
    const int arch = _i % 2 == 0 ? 80 : 90;
    driver_use(arch, "late");
    pl_tensor x = tensor_new(t, PL_SHAPE(N_CTAS, p->n), 0, 0),
              y = tensor_new(t, PL_SHAPE(p->n), 0, 0),
              z = tensor_new(t, PL_SHAPE(N_CTAS, p->n), 0, 0);
    void *hx = fill_random(&x), *hy = fill_random(&y);
    struct ask a = {.kernel = &atomic,
                    .params = p,
                    .params_bytes = sizeof *p,
                    .arch = arch,
                    .args = {pl_arg_tensor(x), pl_arg_tensor(y), pl_arg_tensor(z)},
                    .grid = {N_CTAS, 1, 1},
                    .facts = all_facts};
    run_ok(&a);
    void *got = fetch(&y), *olds = fetch(&z);
    for (int64_t i = 0; i < (p->is_scalar ? 1 : p->n); i++) {
        double want = get_elem(hy, t, i);
        for (int64_t c = 0; c < N_CTAS; c++) {
            const double by = get_elem(hx, t, c * p->n + i);
            const double once = applied(p->op, get_elem(hy, t, i), by),
                         have = get_elem(olds, t, c * p->n + i);
            if (!p->is_smem)
                want = applied(p->op, want, by);
            else
                ck_assert_msg(have == (p->wants_old ? once : applied(p->op, once, by)),
                              "case %d [%lld] of CTA %lld: %g", _i, (long long)i, (long long)c,
                              have);
        }
        ck_assert_msg(get_elem(got, t, i) == want, "case %d [%lld]: %g, not %g", _i, (long long)i,
                      get_elem(got, t, i), want);
    }
    free(hx);
    free(hy);
    free(got);
    free(olds);
    free_tensor(&x);
    free_tensor(&y);
    free_tensor(&z);
}
END_TEST

/* x goes where y is 3; z: what y was. */
static void swap_body(pl_builder *b, const void *params)
{
    (void)params;
    const pl_shape s = PL_SHAPE(150);
    const pl_atomic_opt o = {.want_old = 1, .compare = pl_lit_i(b, 3)};
    pl_val v = pl_load(b, pl_window(b, pl_param(b, 0), PL_OFF(b, 0), s));
    pl_val old =
        pl_atomic_ex(b, PL_ATOMIC_CAS, pl_window(b, pl_param(b, 1), PL_OFF(b, 0), s), v, &o);
    pl_store(b, pl_window(b, pl_param(b, 2), PL_OFF(b, 0), s), old);
}
TENSORS(swap, 1, 2);

START_TEST(swaps_happen_where_the_value_is_expected)
{
    random_turn(&rnd, _i);
    const pl_dtype t = _i == 0 ? PL_I32 : PL_U64;
    driver_use(90, "eager");
    pl_tensor x = tensor_new(t, PL_SHAPE(140), 0, 0), y = tensor_new(t, PL_SHAPE(140), 0, 0),
              z = tensor_new(t, PL_SHAPE(140), 0, 0);
    void *hx = fill_random(&x), *hy = fill_random(&y);
    struct ask a = {.kernel = &swap,
                    .arch = 90,
                    .args = {pl_arg_tensor(x), pl_arg_tensor(y), pl_arg_tensor(z)},
                    .grid = {1, 1, 1},
                    .facts = all_facts};
    run_ok(&a);
    void *got = fetch(&y), *old = fetch(&z);
    for (int64_t i = 0; i < 140; i++) {
        const double before = get_elem(hy, t, i);
        ck_assert(get_elem(old, t, i) == before);
        ck_assert(get_elem(got, t, i) == (before == 3 ? get_elem(hx, t, i) : before));
    }
    free(hx);
    free(hy);
    free(got);
    free(old);
    free_tensor(&x);
    free_tensor(&y);
    free_tensor(&z);
}
END_TEST

/* ---- tickets and turns ---- */

struct turns_params {
    int32_t is_warp, is_window;
};

/*
 * Each CTA takes a ticket (also in a warp role), and writes in the order of the tickets: its turn is when the semaphore says so. The
 * semaphore is an element, or a window of one, which has axes.
 */
static void turns_body(pl_builder *b, const void *params)
{
    const struct turns_params *p = params;
    pl_ref counters = pl_param(b, 0), tickets = pl_at(b, pl_at(b, counters, 0), 0),
           out = pl_param(b, 1);
    pl_ref turns =
        pl_semaphore(b, p->is_window ? pl_window(b, counters, PL_OFF(b, 0, 1), PL_SHAPE(1, 1))
                                     : pl_at(b, pl_at(b, counters, 0), 1));
    const pl_atomic_opt old = {.want_old = 1};
    if (p->is_warp) {
        PL_WARP(b, 0, 2)
        {
            pl_val mine = pl_atomic_ex(b, PL_ATOMIC_ADD, tickets, 1, &old);
            pl_semaphore_wait(b, turns, mine);
            pl_store(b, pl_at(b, out, mine), pl_add(b, pl_semaphore_read(b, turns), 100));
            pl_semaphore_signal(b, turns, 1);
        }
        return;
    }
    pl_val mine = pl_atomic_ex(b, PL_ATOMIC_ADD, tickets, 1, &old);
    pl_semaphore_wait(b, turns, mine);
    pl_store(b, pl_at(b, out, mine), pl_add(b, pl_semaphore_read(b, turns), 100));
    pl_semaphore_signal(b, turns, 1);
}
TENSORS(turns, 0, 2);

START_TEST(semaphores_give_turns)
{
    const struct turns_params params = {_i % 2, _i / 2};
    for (size_t policy = 0; policy < PL_COUNT(policies); policy++) {
        driver_use(90, policies[policy]);
        pl_tensor counters = tensor_new(PL_I32, PL_SHAPE(1, 2), 0, 0),
                  out = tensor_new(PL_I32, PL_SHAPE(8), 0, 0);
        fill_bytes(&counters, 0);
        struct ask a = {.kernel = &turns,
                        .params = &params,
                        .params_bytes = sizeof params,
                        .arch = 90,
                        .args = {pl_arg_tensor(counters), pl_arg_tensor(out)},
                        .grid = {8, 1, 1},
                        .facts = all_facts};
        run_ok(&a);
        void *got = fetch(&out);
        for (int i = 0; i < 8; i++)
            ck_assert_int_eq((int)get_elem(got, PL_I32, i), 100 + i);
        free(got);
        free_tensor(&counters);
        free_tensor(&out);
    }
}
END_TEST

static Suite *make_suite(void)
{
    rnd = random_start("check_plan_atomic");
    Suite *s = suite_create("plan_atomic");
    TCase *t = tcase_create("results");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, atomics_add_up, 0, N_ATOMIC_CASES);
    tcase_add_loop_test(t, swaps_happen_where_the_value_is_expected, 0, 2);
    tcase_add_loop_test(t, semaphores_give_turns, 0, 4);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
