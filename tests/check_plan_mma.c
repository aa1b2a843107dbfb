/*
 * Warp-level matrix operations and fragment layouts, end to end on the emulated driver: random matrices of small whole numbers, for
 * which every product and sum is exact, against a triple loop in float64; over element types, chips, sizes, swizzles, majors and
 * asynchronous policies. Values go through every pair of layouts and come back. Each text also goes through the assembler, where
 * there is one.
 */
#include "tests/operand_tiles.h"
#include "tests/product_run.h"

static const char *const policies[] = {"eager", "late", "random:5"};
static const int chips[] = {80, 89, 90, 100, 120};
enum { N_POLICIES = 3, N_CHIPS = 5 };

/* ---- products ---- */

struct mm_params {
    int32_t m, n, k;                  /* of a warpgroup and a step */
    int32_t a_swizzle, b_swizzle;     /* 0: none, -1: left to the plan */
    int32_t a_is_across, b_is_across; /* K is the row axis of the SMEM array */
    int32_t n_warpgroups, n_steps, out, acc;
};

static void mm_body(pl_builder *b, const void *params)
{
    const struct mm_params *p = params;
    pl_block_warpgroups(b, p->n_warpgroups);
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1), z = pl_param(b, 2);
    struct tile a = make_tile(
                    b, x,
                    (struct tile_form){p->m * p->n_warpgroups, p->k, p->a_swizzle, p->a_is_across}),
                bt = make_tile(b, y, (struct tile_form){p->n, p->k, p->b_swizzle, p->b_is_across});
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
        pl_val av = pl_load(b, tile_rows(b, &a, slot, first, p->m)),
               bv = pl_load(b, tile_columns(b, &bt, slot));
        pl_store(b, acc, pl_mma(b, av, bv, pl_load(b, acc)));
        pl_bar_sync(b, PL_SCOPE_CTA); /* all have read the slot */
    }
    write_out(b, (enum out_way)p->out, p->n_warpgroups, to, pl_load(b, acc), PL_SHAPE(p->m, p->n));
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

static bool is_served(const struct mm_case *c, int chip)
{
    return chip >= 89 || (pl_dtype_bits(c->a) != 8 || c->a == PL_I8);
}

static void run_case(int number, int chip, const char *policy)
{
    const struct mm_case *c = &mm_cases[number];
    const struct mm_params *p = &c->p;
    struct factors f = {.a = c->a,
                        .b = c->b,
                        .m = (int64_t)p->m * p->n_warpgroups,
                        .n = p->n,
                        .k = (int64_t)p->k * p->n_steps,
                        .a_is_across = p->a_is_across,
                        .b_is_across = p->b_is_across};
    const struct product_run r = {.kernel = &mm,
                                  .params = p,
                                  .params_bytes = sizeof *p,
                                  .arch = chip,
                                  .number = number,
                                  .policy = policy,
                                  .assembles = policy == policies[0],
                                  .out = c->out,
                                  .want = p->out == OUT_ROW_SUMS ? product_less_its_row : product,
                                  .f = &f};
    run_product(&r);
}

START_TEST(products_of_whole_numbers_are_exact)
{
    random_turn(&rnd, _i);
    const int chip = chips[_i % N_CHIPS];
    for (int p = 0; p < N_POLICIES && is_served(&mm_cases[_i / N_CHIPS], chip); p++)
        run_case(_i / N_CHIPS, chip, policies[p]);
}
END_TEST

/* z = x y + 3: a sum may start from one number. */
static void from_one_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_val x = pl_load(b, pl_tile(b, pl_param(b, 0), PL_OFF(b, 0, 0), PL_SHAPE(64, 32))),
           y = pl_load(b, pl_tile(b, pl_param(b, 1), PL_OFF(b, 0, 0), PL_SHAPE(32, 24)));
    pl_store(b, pl_tile(b, pl_param(b, 2), PL_OFF(b, 0, 0), PL_SHAPE(64, 24)),
             pl_mma(b, x, y, 3.0f));
}
TENSORS(from_one, 2, 1);

START_TEST(a_sum_starts_from_one_number)
{
    random_turn(&rnd, _i);
    struct factors f = {
        .a = PL_BF16, .b = PL_BF16, .m = 64, .n = 24, .k = 32, .b_is_across = true, .start = 3};
    const struct product_run r = {.kernel = &from_one,
                                  .arch = chips[_i],
                                  .policy = policies[0],
                                  .assembles = true,
                                  .out = PL_F32,
                                  .f = &f};
    run_product(&r);
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
    random_turn(&rnd, _i);
    for (int to = 0; to < N_KINDS; to++) {
        const int n = _i * N_KINDS + to;
        const int chip = chips[n % N_CHIPS];
        const pl_dtype t = through_types[n % N_THROUGH_TYPES];
        const struct through_params p = {(int32_t)kinds[_i], (int32_t)kinds[to], 128,
                                         n % 2 == 0 ? 64 : 96, n / 2 % 2};
        driver_use(chip, policies[n % N_POLICIES]);
        ck_assert_int_eq(emu.configure("check", "race"), 0);
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

/* z = x, loaded as an accumulator lies and stored as an operand of bytes. */
static void trade_body(pl_builder *b, const void *params)
{
    const struct through_params *p = params;
    const pl_shape s = PL_SHAPE(p->rows, p->cols);
    const pl_load_opt from = {.layout = pl_layout_of(PL_LAYOUT_WGMMA)};
    pl_val v = pl_load_ex(b, pl_window(b, pl_param(b, 0), PL_OFF(b, 0, 0), s), &from);
    pl_store(b, pl_window(b, pl_param(b, 1), PL_OFF(b, 0, 0), s),
             pl_layout_cast(b, v, pl_layout_of(PL_LAYOUT_MMA_A)));
}
TENSORS(trade, 1, 1);

START_TEST(quads_trade_bytes_without_shared_memory)
{
    static const pl_dtype types[] = {PL_I8, PL_U8, PL_E4M3, PL_E5M2};
    const pl_dtype t = types[_i];
    const struct through_params p = {.rows = 64 << random_below(&rnd, 2),
                                     .cols = 32 + 32 * (int32_t)random_below(&rnd, 4)};
    driver_use(90, policies[0]);
    ck_assert_int_eq(emu.configure("check", "race"), 0);
    pl_tensor x = tensor_new(t, PL_SHAPE(p.rows, p.cols), 0, 0),
              z = tensor_new(t, PL_SHAPE(p.rows, p.cols), 0, 0);
    void *hx = fill_random(&x);
    struct ask a = {.kernel = &trade,
                    .params = &p,
                    .params_bytes = sizeof p,
                    .arch = 90,
                    .args = {pl_arg_tensor(x), pl_arg_tensor(z)},
                    .grid = {1, 1, 1},
                    .facts = all_facts};
    struct build *b = build_ok(&a);
    ck_assert_uint_eq(b->plan.launch.smem_bytes, 0);
    expect_read_back(b);
    text_assembles(b);
    launch_ok(b, &a);
    build_free(b);
    void *got = fetch(&z);
    ck_assert_mem_eq(got, hx, tensor_span(&x));
    free(hx);
    free(got);
    free_tensor(&x);
    free_tensor(&z);
}
END_TEST

static Suite *make_suite(void)
{
    rnd = random_start("check_plan_mma");
    Suite *s = suite_create("plan_mma");
    TCase *t = tcase_create("results");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, products_of_whole_numbers_are_exact, 0, N_MM_CASES * N_CHIPS);
    tcase_add_loop_test(t, a_sum_starts_from_one_number, 0, N_CHIPS);
    tcase_add_loop_test(t, values_pass_every_pair_of_layouts, 0, N_KINDS);
    tcase_add_loop_test(t, quads_trade_bytes_without_shared_memory, 0, 4);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
