/*
 * Warp-level matrix operations and fragment layouts, end to end on the emulated driver: random matrices of small whole numbers, for
 * which every product and sum is exact, against a triple loop in float64; over element types, chips, sizes, swizzles, majors and
 * asynchronous policies. Values go through every pair of layouts and come back. Each text also goes through the assembler, where
 * there is one.
 */
#include "tests/plan_data.h"
#include "tests/plan_ptxas.h"

static const char *const policies[] = {"eager", "late", "random:5"};
static const int chips[] = {80, 89, 90, 100, 120};
enum { N_POLICIES = 3, N_CHIPS = 5 };

/* ---- products ---- */

enum out_way { OUT_GMEM, OUT_SMEM, OUT_STRIDED, OUT_ROW_SUMS };

struct mm_params {
    int32_t m, n, k;                  /* of a warpgroup and a step */
    int32_t a_swizzle, b_swizzle;     /* 0: none, -1: left to the plan */
    int32_t a_is_across, b_is_across; /* K is the row axis of the SMEM array */
    int32_t n_warpgroups, n_steps, out, acc;
};

static pl_transforms operand_transforms(pl_dtype t, int32_t swizzle)
{
    return swizzle < 0    ? PL_SWIZZLE_AUTO
           : swizzle == 0 ? PL_SWIZZLE_NONE
                          : pl_transforms_make(8, swizzle * 8 / pl_dtype_bits(t), swizzle);
}

struct tile {
    pl_ref gmem, smem;
    int32_t rows, k, is_across;
};

static struct tile make_tile(pl_builder *b, pl_ref gmem, int32_t rows, const struct mm_params *p,
                             bool is_a)
{
    struct tile t = {.gmem = gmem, .rows = rows, .k = p->k};
    const pl_dtype dt = pl_dtype_of(b, gmem);
    t.is_across = is_a ? p->a_is_across : p->b_is_across;
    t.smem = pl_smem(b, dt, t.is_across ? PL_SHAPE(2, p->k, rows) : PL_SHAPE(2, rows, p->k),
                     operand_transforms(dt, is_a ? p->a_swizzle : p->b_swizzle));
    return t;
}

static void fill_tile(pl_builder *b, const struct tile *t, pl_val step, pl_val slot, pl_bar bar)
{
    const pl_shape s = t->is_across ? PL_SHAPE(t->k, t->rows) : PL_SHAPE(t->rows, t->k);
    const pl_offs at = t->is_across ? PL_OFF(b, step, 0) : PL_OFF(b, 0, step);
    pl_copy_gmem_to_smem(b, pl_tile(b, t->gmem, at, s), pl_at(b, t->smem, slot), bar);
}

static void write_out(pl_builder *b, const struct mm_params *p, pl_ref to, pl_val v)
{
    const pl_dtype t = pl_dtype_of(b, to);
    v = pl_cast(b, v, t);
    if (p->out == OUT_SMEM) { /* through shared memory, and by a copy */
        pl_ref all = pl_smem(b, t, PL_SHAPE(p->n_warpgroups, p->m, p->n), PL_SWIZZLE_AUTO);
        pl_ref stage = pl_at(b, all, pl_warpgroup_id(b));
        pl_store(b, stage, v);
        pl_commit_smem(b);
        pl_copy_smem_to_gmem(b, stage, to);
        pl_wait_smem_to_gmem(b, 0);
    } else if (p->out == OUT_STRIDED) {
        pl_store(b, to, pl_layout_cast(b, v, pl_layout_strided(4)));
    } else if (p->out == OUT_ROW_SUMS) { /* each row less its sum: a reduction and a broadcast */
        pl_val sum = pl_reduce(b, PL_ADD, v, 1, PL_SCOPE_WARPGROUP);
        pl_store(b, to, pl_sub(b, v, pl_broadcast(b, sum, 1, p->n)));
    } else {
        pl_store(b, to, v);
    }
}

static void mm_body(pl_builder *b, const void *params)
{
    const struct mm_params *p = params;
    pl_block_warpgroups(b, p->n_warpgroups);
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1), z = pl_param(b, 2);
    struct tile a = make_tile(b, x, p->m * p->n_warpgroups, p, true),
                bt = make_tile(b, y, p->n, p, false);
    pl_bar full = pl_barrier(b, 2);
    pl_ref acc = pl_regs(b, (pl_dtype)p->acc, PL_SHAPE(p->m, p->n), pl_layout_auto(), 0);
    pl_val first = pl_mul(b, pl_warpgroup_id(b), p->m);
    pl_ref to = pl_window(b, z, PL_OFF(b, first, 0), PL_SHAPE(p->m, p->n));
    PL_FOR(b, step, 0, p->n_steps)
    {
        pl_val slot = pl_rem(b, step, 2);
        fill_tile(b, &a, step, slot, full);
        fill_tile(b, &bt, step, slot, full);
        pl_barrier_wait(b, full);
        pl_ref as = pl_at(b, a.smem, slot), bs = pl_at(b, bt.smem, slot);
        as = p->a_is_across
                 ? pl_transpose(b, pl_window(b, as, PL_OFF(b, 0, first), PL_SHAPE(p->k, p->m)))
                 : pl_window(b, as, PL_OFF(b, first, 0), PL_SHAPE(p->m, p->k));
        bs = p->b_is_across ? bs : pl_transpose(b, bs);
        pl_store(b, acc, pl_mma(b, pl_load(b, as), pl_load(b, bs), pl_load(b, acc)));
        pl_bar_sync(b, PL_SCOPE_CTA); /* all have read the slot */
    }
    write_out(b, p, to, pl_load(b, acc));
}
TENSORS(mm, 2, 1);

struct mm_case {
    pl_dtype a, b, out;
    struct mm_params p;
};

/* {m, n, k}, swizzles, across, warpgroups, steps, way out, accumulator */
#define F32_ PL_F32
static const struct mm_case mm_cases[] = {
    {PL_BF16, PL_BF16, F32_, {64, 8, 16, 0, 0, 0, 0, 1, 1, OUT_GMEM, F32_}},
    {PL_F16, PL_F16, F32_, {64, 64, 64, 128, 128, 0, 0, 1, 3, OUT_GMEM, F32_}},
    {PL_BF16, PL_BF16, PL_BF16, {128, 72, 32, 64, 64, 0, 0, 1, 2, OUT_SMEM, F32_}},
    {PL_F16, PL_F16, PL_F16, {64, 128, 32, 128, 128, 1, 1, 2, 2, OUT_SMEM, F32_}},
    {PL_BF16, PL_BF16, F32_, {64, 40, 48, 32, 32, 1, 0, 1, 2, OUT_STRIDED, F32_}},
    {PL_BF16, PL_BF16, F32_, {64, 64, 64, 0, 128, 0, 1, 2, 2, OUT_GMEM, F32_}},
    {PL_F16, PL_F16, PL_F16, {64, 24, 32, -1, -1, 1, 1, 1, 1, OUT_GMEM, PL_F16}},
    {PL_TF32, PL_TF32, F32_, {64, 24, 32, 128, 128, 0, 0, 1, 2, OUT_GMEM, F32_}},
    {PL_F32, PL_F32, F32_, {64, 64, 40, 32, 32, 0, 0, 2, 2, OUT_ROW_SUMS, F32_}},
    {PL_TF32, PL_TF32, F32_, {64, 16, 16, 0, 64, 1, 1, 1, 2, OUT_SMEM, F32_}},
    {PL_E4M3, PL_E4M3, F32_, {64, 104, 128, 128, 128, 0, 0, 1, 2, OUT_GMEM, F32_}},
    {PL_E5M2, PL_E4M3, F32_, {64, 64, 64, 64, 64, 1, 1, 1, 2, OUT_GMEM, F32_}},
    {PL_E4M3, PL_E5M2, PL_F16, {64, 32, 32, 32, 0, 0, 1, 1, 1, OUT_SMEM, PL_F16}},
    {PL_I8, PL_I8, PL_I32, {64, 64, 64, 64, 64, 0, 0, 1, 3, OUT_GMEM, PL_I32}},
    {PL_I8, PL_I8, PL_I32, {128, 8, 96, 32, 0, 1, 0, 1, 2, OUT_STRIDED, PL_I32}},
};
enum { N_MM_CASES = sizeof mm_cases / sizeof mm_cases[0] };

static double product(const struct mm_case *c, const void *x, const void *y, int64_t i, int64_t j)
{
    const struct mm_params *p = &c->p;
    const int64_t m = (int64_t)p->m * p->n_warpgroups, n_k = (int64_t)p->k * p->n_steps;
    double sum = 0;
    for (int64_t k = 0; k < n_k; k++)
        sum += get_elem(x, c->a, p->a_is_across ? k * m + i : i * n_k + k) *
               get_elem(y, c->b, p->b_is_across ? k * p->n + j : j * n_k + k);
    return sum;
}

static double expected(const struct mm_case *c, const void *x, const void *y, int64_t i, int64_t j)
{
    double v = product(c, x, y, i, j), least[1] = {0};
    for (int64_t q = 0; c->p.out == OUT_ROW_SUMS && q < c->p.n; q++)
        v -= product(c, x, y, i, q);
    set_elem(least, c->out, 0, v); /* as the result's type rounds it */
    return get_elem(least, c->out, 0);
}

static bool is_served(const struct mm_case *c, int chip)
{
    return chip >= 89 || (pl_dtype_bits(c->a) != 8 || c->a == PL_I8);
}

static void run_product(const struct mm_case *c, int chip, const char *policy)
{
    const struct mm_params *p = &c->p;
    const int64_t m = (int64_t)p->m * p->n_warpgroups, n_k = (int64_t)p->k * p->n_steps;
    driver_use(chip, policy);
    pl_tensor x = tensor_new(c->a, p->a_is_across ? PL_SHAPE(n_k, m) : PL_SHAPE(m, n_k), 0, 0);
    pl_tensor y =
        tensor_new(c->b, p->b_is_across ? PL_SHAPE(n_k, p->n) : PL_SHAPE(p->n, n_k), 0, 0);
    pl_tensor z = tensor_new(c->out, PL_SHAPE(m, p->n), 0, 0);
    void *hx = fill_random(&x), *hy = fill_random(&y);
    struct ask a = {.kernel = &mm,
                    .params = p,
                    .params_bytes = sizeof *p,
                    .arch = chip,
                    .args = {pl_arg_tensor(x), pl_arg_tensor(y), pl_arg_tensor(z)},
                    .grid = {1, 1, 1},
                    .facts = all_facts};
    run_ok(&a);
    if (policy == policies[0])
        assembles(&a);
    void *got = fetch(&z);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            const double want = expected(c, hx, hy, i, j),
                         have = get_elem(got, c->out, i * p->n + j);
            ck_assert_msg(have == want, "case %d sm_%d %s (%lld, %lld): %g, not %g",
                          (int)(c - mm_cases), chip, policy, (long long)i, (long long)j, have,
                          want);
        }
    free(hx);
    free(hy);
    free(got);
    free_tensor(&x);
    free_tensor(&y);
    free_tensor(&z);
}

START_TEST(products_of_whole_numbers_are_exact)
{
    const struct mm_case *c = &mm_cases[_i / N_CHIPS];
    const int chip = chips[_i % N_CHIPS];
    for (int p = 0; p < N_POLICIES && is_served(c, chip); p++)
        run_product(c, chip, policies[p]);
}
END_TEST

/* ---- through every pair of layouts ---- */

struct through_params {
    int32_t from, to, rows, cols, by_smem;
};

/* z = 3 x, where x is loaded as `from` and multiplied by a variable kept as `to`; bytes are multiplied as i32. */
static void through_body(pl_builder *b, const void *params)
{
    const struct through_params *p = params;
    const pl_shape s = PL_SHAPE(p->rows, p->cols);
    pl_ref x = pl_window(b, pl_param(b, 0), PL_OFF(b, 0, 0), s),
           z = pl_window(b, pl_param(b, 1), PL_OFF(b, 0, 0), s);
    const pl_dtype t = pl_dtype_of(b, x), wide = pl_dtype_bits(t) == 8 ? PL_I32 : t;
    const pl_load_opt from = {.layout = p->from == PL_LAYOUT_STRIDED
                                            ? pl_layout_strided(2)
                                            : pl_layout_of((pl_layout_kind)p->from)};
    const pl_layout to =
        p->to == PL_LAYOUT_STRIDED ? pl_layout_strided(4) : pl_layout_of((pl_layout_kind)p->to);
    pl_ref three = pl_regs(b, wide, s, to, pl_cast(b, 1, wide)),
           tile = pl_smem(b, t, s, PL_SWIZZLE_AUTO);
    pl_store(b, three, pl_add(b, pl_load(b, three), pl_cast(b, 2, wide)));
    pl_val v = pl_load_ex(b, x, &from);
    if (p->by_smem) {
        pl_store(b, tile, v);
        v = pl_load_ex(b, tile, &from);
    }
    v = pl_cast(b, pl_mul(b, pl_load(b, three), pl_cast(b, v, wide)), t);
    if (p->by_smem) {
        pl_store(b, tile, v);
        v = pl_load(b, tile);
    }
    pl_store(b, z, v);
}
TENSORS(through, 1, 1);

static const pl_layout_kind kinds[] = {
    PL_LAYOUT_STRIDED,         PL_LAYOUT_WGMMA,   PL_LAYOUT_WGMMA_8BIT,  PL_LAYOUT_WGMMA_UPCAST_2X,
    PL_LAYOUT_WGMMA_UPCAST_4X, PL_LAYOUT_TCGEN05, PL_LAYOUT_TMEM_NATIVE, PL_LAYOUT_MMA_A,
    PL_LAYOUT_MMA_B,           PL_LAYOUT_MMA_ACC};
static const pl_dtype through_types[] = {PL_I8, PL_F16, PL_F32, PL_BF16, PL_U8};
enum { N_KINDS = sizeof kinds / sizeof kinds[0], N_THROUGH_TYPES = 5 };

START_TEST(values_pass_every_pair_of_layouts)
{
    for (int to = 0; to < N_KINDS; to++) {
        const int n = _i * N_KINDS + to;
        const int chip = chips[n % N_CHIPS];
        const pl_dtype t = through_types[n % N_THROUGH_TYPES];
        const struct through_params p = {(int32_t)kinds[_i], (int32_t)kinds[to], 128,
                                         n % 2 == 0 ? 64 : 96, n / 2 % 2};
        driver_use(chip, policies[n % N_POLICIES]);
        pl_tensor x = tensor_new(t, PL_SHAPE(p.rows, p.cols), 0, 0),
                  z = tensor_new(t, PL_SHAPE(p.rows - 3, p.cols - 5), 0, 0);
        void *hx = fill_random(&x);
        struct ask a = {.kernel = &through,
                        .params = &p,
                        .params_bytes = sizeof p,
                        .arch = chip,
                        .args = {pl_arg_tensor(x), pl_arg_tensor(z)},
                        .grid = {1, 1, 1},
                        .facts = all_facts};
        run_ok(&a);
        assembles(&a);
        void *got = fetch(&z);
        for (int i = 0; i < p.rows - 3; i++)
            for (int j = 0; j < p.cols - 5; j++)
                ck_assert_msg(get_elem(got, t, (int64_t)i * (p.cols - 5) + j) ==
                                  3 * get_elem(hx, t, (int64_t)i * p.cols + j),
                              "layout %d to %d, %s on sm_%d: (%d, %d)", (int)kinds[_i],
                              (int)kinds[to], pl_dtype_name(t), chip, i, j);
        free(hx);
        free(got);
        free_tensor(&x);
        free_tensor(&z);
    }
}
END_TEST

static Suite *make_suite(void)
{
    rnd = random_start("check_plan_mma");
    Suite *s = suite_create("plan_mma");
    TCase *t = tcase_create("results");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, products_of_whole_numbers_are_exact, 0, N_MM_CASES * N_CHIPS);
    tcase_add_loop_test(t, values_pass_every_pair_of_layouts, 0, N_KINDS);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
