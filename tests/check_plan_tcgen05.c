/*
 * Matrix operations of sm_100, end to end on the emulated driver: random matrices of small whole numbers, for which every product and
 * sum is exact, against a triple loop in float64; over element types, sizes, swizzles, majors, places of A, pipes, pairs of CTAs and
 * asynchronous policies.
 */
#include "tests/product_run.h"
#include "tests/tcgen05_case.h"

static const char *const policies[] = {"eager", "late", "random:5", "random:6"};

START_TEST(products_of_whole_numbers_are_exact)
{
    random_turn(&rnd, _i);
    const struct mm_case *c = &mm_cases[_i];
    const struct mm_params *p = &c->p;
    struct factors f = {.a = c->a,
                        .b = c->b,
                        .m = p->m,
                        .n = p->n,
                        .k = (int64_t)p->k * p->n_steps,
                        .a_is_across = p->a_is_across,
                        .b_is_across = p->b_is_across,
                        .start = p->starts_at_5 ? 5 : 0};
    for (size_t policy = 0; policy < PL_COUNT(policies); policy++) {
        const struct product_run r = {.kernel = &mm,
                                      .params = p,
                                      .params_bytes = sizeof *p,
                                      .arch = 100,
                                      .number = _i,
                                      .policy = policies[policy],
                                      .checks_races = true,
                                      .out = c->out,
                                      .f = &f};
        run_product(&r);
    }
}
END_TEST

START_TEST(pipes_and_pairs_multiply)
{
    random_turn(&rnd, _i);
    const struct tiles_case *c = &tiles_cases[_i];
    struct factors f = {.a = c->t, .b = c->t, .m = c->m, .n = c->n, .k = c->k, .b_is_across = true};
    for (size_t policy = 0; policy < PL_COUNT(policies); policy++) {
        const struct product_run r = {.kernel = &tiled,
                                      .params = &c->p,
                                      .params_bytes = sizeof c->p,
                                      .arch = 100,
                                      .number = _i,
                                      .policy = policies[policy],
                                      .checks_races = true,
                                      .n_blocks = c->n_blocks,
                                      .out = PL_F32,
                                      .f = &f};
        run_product(&r);
    }
}
END_TEST

/* A sum of a pair that the threads of both CTAs begin. They meet in each CTA before the CTAs meet, behind which the leader multiplies. */
static void begun_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_block_cluster(b, 2, 1, 1);
    pl_ref acc = pl_tmem(b, PL_F32, PL_SHAPE(128, 32), 1),
           xs = pl_smem(b, PL_BF16, PL_SHAPE(128, 32), PL_SWIZZLE_AUTO),
           ys = pl_smem(b, PL_BF16, PL_SHAPE(16, 32), PL_SWIZZLE_AUTO);
    pl_bar done = pl_barrier(b, 1);
    pl_val rank = pl_cluster_rank(b);
    const pl_mma_opt o = {.is_pair = 1};
    pl_async_store_tmem(b, acc, 5.0f);
    pl_commit_tmem(b);
    pl_store(b, xs, pl_load(b, pl_tile(b, pl_param(b, 0), PL_OFF(b, rank, 0), PL_SHAPE(128, 32))));
    pl_store(b, ys, pl_load(b, pl_tile(b, pl_param(b, 1), PL_OFF(b, rank, 0), PL_SHAPE(16, 32))));
    pl_commit_smem(b);
    pl_bar_sync(b, PL_SCOPE_WARPGROUP);
    pl_cluster_sync(b);
    PL_IF(b, pl_eq(b, rank, 0))
    {
        pl_tcgen05_mma(b, acc, xs, pl_transpose(b, ys), &o);
        pl_tcgen05_commit(b, done);
    }
    pl_barrier_wait(b, done);
    pl_store(b, pl_tile(b, pl_param(b, 2), PL_OFF(b, rank, 0), PL_SHAPE(128, 32)),
             pl_async_load_tmem(b, acc));
}
TENSORS(begun, 2, 1);

START_TEST(threads_of_both_begin_the_sum_of_a_pair)
{
    random_turn(&rnd, _i);
    struct factors f = {.a = PL_BF16, .b = PL_BF16, .m = 256, .n = 32, .k = 32, .start = 5};
    const struct product_run r = {.kernel = &begun,
                                  .arch = 100,
                                  .number = _i,
                                  .policy = policies[_i],
                                  .checks_races = true,
                                  .n_blocks = 2,
                                  .out = PL_F32,
                                  .f = &f};
    run_product(&r);
}
END_TEST

/* ---- scales ---- */

/* The scale of row (or column) i for block j of K, of n_blocks. */
static double scale_of(const void *scales, pl_dtype t, int64_t i, int64_t j, int64_t n_blocks)
{
    const int64_t block = i / 128 * (n_blocks / 4) + j / 4;
    return get_elem(scales, t, block * 512 + i % 32 * 16 + i % 128 / 32 * 4 + j % 4);
}

struct scaled_factors {
    struct factors f;
    const void *x_scales, *y_scales;
    pl_dtype scale;
    int64_t block;
};

static double scaled_product(const void *user, int64_t i, int64_t j)
{
    const struct scaled_factors *s = user;
    const int64_t n_blocks = s->f.k / s->block;
    double sum = 0;
    for (int64_t k = 0; k < s->f.k; k++)
        sum += get_elem(s->f.x, s->f.a, i * s->f.k + k) * get_elem(s->f.y, s->f.b, j * s->f.k + k) *
               scale_of(s->x_scales, s->scale, i, k / s->block, n_blocks) *
               scale_of(s->y_scales, s->scale, j, k / s->block, n_blocks);
    return sum;
}

/* Powers of two from 1/2 to 4. */
static void *fill_scales(const pl_tensor *t)
{
    char *host = calloc(1, tensor_span(t));
    for (int64_t i = 0; i < pl_tensor_n_elems(t); i++)
        set_elem(host, t->dtype, i, ldexp(1, (int)random_below(&rnd, 4) - 1));
    ck_assert_int_eq(emu.HtoD(t->address, host, tensor_span(t)), 0);
    return host;
}

START_TEST(scales_multiply)
{
    random_turn(&rnd, _i);
    const struct scaled_case *c = &scaled_cases[_i];
    const struct scaled_params *p = &c->p;
    const int64_t m = p->is_pair ? 256 : 128, k = (int64_t)p->k * p->n_steps;
    const pl_dtype scale = (pl_dtype)p->scale;
    for (size_t policy = 0; policy < PL_COUNT(policies); policy++) {
        driver_use(100, policies[policy]);
        ck_assert_int_eq(emu.configure("check", "race"), 0);
        pl_tensor t[5] = {
            tensor_new(c->a, PL_SHAPE(m, k), 0, 0), tensor_new(c->b, PL_SHAPE(p->n, k), 0, 0),
            tensor_new(scale, PL_SHAPE(m / 128, k / p->block / 4, 32, 16), 0, 0),
            tensor_new(scale, PL_SHAPE((p->n + 127) / 128, k / p->block / 4, 32, 16), 0, 0),
            tensor_new(PL_F32, PL_SHAPE(m, p->n), 0, 0)};
        void *x = fill_random(&t[0]), *y = fill_random(&t[1]), *xs = fill_scales(&t[2]),
             *ys = fill_scales(&t[3]);
        struct ask a = {.kernel = &scaled,
                        .params = p,
                        .params_bytes = sizeof *p,
                        .arch = 100,
                        .grid = {p->is_pair ? 2 : 1, 1, 1},
                        .facts = all_facts};
        for (int i = 0; i < 5; i++)
            a.args[i] = pl_arg_tensor(t[i]);
        run_ok(&a);
        void *got = fetch(&t[4]);
        const struct scaled_factors f = {
            {.x = x, .y = y, .a = c->a, .b = c->b, .m = m, .n = p->n, .k = k},
            xs,
            ys,
            scale,
            p->block};
        char what[64];
        snprintf(what, sizeof what, "case %d %s", _i, policies[policy]);
        ck_product(got, PL_F32, m, p->n, scaled_product, &f, what);
        void *hosts[] = {x, y, xs, ys, got};
        for (int i = 0; i < 5; i++) {
            free(hosts[i]);
            free_tensor(&t[i]);
        }
    }
}
END_TEST

/* ---- what the plan refuses ---- */

static pl_ref operand(pl_builder *b, pl_dtype t, pl_shape s)
{
    return pl_smem(b, t, s, pl_mma_transforms(b, t, s.d[1]));
}

/* y as (k, n) in memory: 32-bit operands are read across from rows of 128 bytes only. */
static void major_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_tcgen05_mma(b, pl_tmem(b, PL_F32, PL_SHAPE(128, 16), 0),
                   operand(b, PL_TF32, PL_SHAPE(128, 32)), operand(b, PL_TF32, PL_SHAPE(32, 16)),
                   NULL);
}
TENSORS(major, 0, 0);

/* Rows from the 4th on are no whole swizzle atoms. */
static void view_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref y =
        pl_window(b, operand(b, PL_BF16, PL_SHAPE(72, 64)), PL_OFF(b, 4, 0), PL_SHAPE(64, 64));
    pl_tcgen05_mma(b, pl_tmem(b, PL_F32, PL_SHAPE(128, 64), 0),
                   operand(b, PL_BF16, PL_SHAPE(128, 64)), pl_transpose(b, y), NULL);
}
TENSORS(view, 0, 0);

/* Each warpgroup an accumulator of its own: two threads would issue. */
static void unit_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_block_warpgroups(b, 2);
    pl_ref acc = pl_tmem(b, PL_F32, PL_SHAPE(2, 128, 64), 0);
    pl_tcgen05_mma(b, pl_at(b, acc, pl_warpgroup_id(b)), operand(b, PL_BF16, PL_SHAPE(128, 64)),
                   operand(b, PL_BF16, PL_SHAPE(64, 64)), NULL);
}
TENSORS(unit, 0, 0);

/* Only sm_100 multiplies whole numbers so. */
static void integers_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_tcgen05_mma(b, pl_tmem(b, PL_I32, PL_SHAPE(128, 64), 0),
                   operand(b, PL_I8, PL_SHAPE(128, 64)), operand(b, PL_I8, PL_SHAPE(64, 64)), NULL);
}
TENSORS(integers, 0, 0);

/* 40 columns: of whole numbers 32 or 48 are made. */
static void columns_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_tcgen05_mma(b, pl_tmem(b, PL_I32, PL_SHAPE(128, 40), 0),
                   operand(b, PL_I8, PL_SHAPE(128, 64)),
                   pl_transpose(b, operand(b, PL_I8, PL_SHAPE(40, 64))), NULL);
}
TENSORS(columns, 0, 0);

START_TEST(operations_that_cannot_be_made_are_refused)
{
    static const struct {
        int code;
        const pl_kernel *kernel;
    } cases[] = {{4190, &major}, {4191, &view}, {4192, &unit}, {2091, &integers}, {4012, &columns}};
    struct ask a = {
        .kernel = cases[_i].kernel, .arch = cases[_i].code == 4012 ? 100 : 103, .grid = {1, 1, 1}};
    struct build *b = build_new(&a, 0);
    ck_assert_int_eq(b->status, PL_E_INVALID);
    ck_assert_int_eq(b->diags.list.data[0].info->code, cases[_i].code);
    ck_assert_ptr_null(b->out.text);
    build_free(b);
}
END_TEST

static Suite *make_suite(void)
{
    rnd = random_start("check_plan_tcgen05");
    Suite *s = suite_create("plan_tcgen05");
    TCase *t = tcase_create("results");
    tcase_set_timeout(t, 400);
    tcase_add_loop_test(t, products_of_whole_numbers_are_exact, 0, PL_COUNT(mm_cases));
    tcase_add_loop_test(t, pipes_and_pairs_multiply, 0, PL_COUNT(tiles_cases));
    tcase_add_loop_test(t, threads_of_both_begin_the_sum_of_a_pair, 0, PL_COUNT(policies));
    tcase_add_loop_test(t, scales_multiply, 0, PL_COUNT(scaled_cases));
    tcase_add_loop_test(t, operations_that_cannot_be_made_are_refused, 0, 5);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
