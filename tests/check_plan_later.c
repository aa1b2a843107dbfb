/*
 * Copies into shared memory that the chip finishes later, by words of 4, 8 or 16 bytes (chips without TMA): whether they are made where
 * the facts allow, and that what arrives is right at every edge, whoever issues, whatever else arrives at the barrier, and when.
 */
#include "tests/plan_data.h"
#include "tests/plan_ptxas.h"

static const char *const policies[] = {"eager", "late", "random:3", "random:9"};
static const int chips[] = {80, 89};

enum who { BY_CTA, BY_WARPGROUP, BY_WARP };

struct later_params {
    int32_t rows, cols, swizzle, stages, who;
    int32_t also_threads; /* a second arrival, of threads */
    int32_t below[2];     /* rows and columns by which the windows begin before the tensor */
    int32_t skips;        /* copies of odd steps have a false predicate: the slot keeps its zeros */
};

static pl_ref place(pl_builder *b, pl_dtype t, const struct later_params *p)
{
    const pl_transforms tr =
        p->swizzle == 0 ? PL_SWIZZLE_NONE
                        : pl_transforms_make(8, p->swizzle * 8 / pl_dtype_bits(t), p->swizzle);
    return pl_smem(b, t, PL_SHAPE(p->stages, p->rows, p->cols), tr);
}

struct stage {
    pl_ref x, buf;
    pl_bar full;
    const struct later_params *p;
};

static void send(pl_builder *b, const struct stage *s, pl_val step)
{
    const struct later_params *p = s->p;
    pl_val slot = pl_rem(b, step, p->stages);
    pl_val row = pl_sub(b, pl_mul(b, step, p->rows), p->below[0]),
           col = pl_mul(b, pl_sub(b, pl_program_id(b, 0), 1), p->below[1]);
    pl_ref from = pl_window(b, s->x, PL_OFF(b, row, col), PL_SHAPE(p->rows, p->cols));
    pl_bar bar = pl_bar_at(b, s->full, slot);
    pl_copy_opt o = {0};
    if (p->skips)
        o.pred = pl_eq(b, pl_rem(b, step, 2), 0);
    if (p->also_threads)
        pl_barrier_arrive(b, bar);
    pl_copy_gmem_to_smem_ex(b, from, pl_at(b, s->buf, slot), bar, &o);
}

static void receive(pl_builder *b, const struct stage *s, pl_ref y, pl_val step)
{
    const struct later_params *p = s->p;
    pl_val slot = pl_rem(b, step, p->stages);
    pl_barrier_wait(b, pl_bar_at(b, s->full, slot));
    pl_store(b, pl_tile(b, y, PL_OFF(b, step, 0), PL_SHAPE(p->rows, p->cols)),
             pl_load(b, pl_at(b, s->buf, slot)));
}

/* y = x, shifted, tile by tile: as many tiles as there are slots, all sent before one is received. */
static void later_body(pl_builder *b, const void *params)
{
    const struct later_params *p = params;
    pl_block_warpgroups(b, p->who == BY_WARPGROUP ? 1 : 2);
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    const int32_t n_units = p->who == BY_CTA ? 2 : 1; /* warpgroups that arrive for themselves */
    const pl_barrier_desc full = {.n_barriers = p->stages,
                                  .n_arrivals = 1 + p->also_threads * n_units};
    const struct stage s = {x, place(b, pl_dtype_of(b, x), p), pl_barriers(b, &full), p};
    for (int32_t i = 0; i < p->stages && p->skips; i++)
        pl_store(b, pl_at(b, s.buf, i), pl_cast(b, 0, pl_dtype_of(b, x)));
    pl_bar_sync(b, PL_SCOPE_CTA);
    if (p->who == BY_WARP) {
        PL_WARP(b, 1, 2)
        {
            PL_FOR(b, step, 0, p->stages) { send(b, &s, step); }
        }
        PL_WARPGROUP(b, 0)
        {
            PL_FOR(b, step, 0, p->stages) { receive(b, &s, y, step); }
        }
        return;
    }
    for (int32_t i = 0; i < p->stages; i++)
        send(b, &s, PL_V(b, i));
    PL_FOR(b, step, 0, p->stages) { receive(b, &s, y, step); }
}
TENSORS(later, 1, 1);

struct later_case {
    pl_dtype t;
    int32_t pitch_extra; /* elements between rows, beyond the columns */
    bool is_later;       /* expected */
    struct later_params p;
};

/* type, pitch, later?, {rows, cols, swizzle, stages, who, threads too, {below}, skips} */
static const struct later_case cases[] = {
    {PL_F32, 0, true, {16, 64, 0, 3, BY_WARPGROUP, 0, {0, 0}, 0}},
    {PL_BF16, 8, true, {64, 64, 128, 2, BY_CTA, 0, {0, 0}, 0}},
    {PL_F16, 0, true, {32, 32, 64, 4, BY_WARP, 1, {0, 0}, 0}},
    {PL_F32, 3, true, {24, 40, 0, 2, BY_CTA, 1, {0, 0}, 0}}, /* rows at multiples of 4 bytes only */
    {PL_F64, 1, true, {8, 24, 0, 2, BY_WARP, 0, {0, 0}, 0}}, /* of 8 */
    {PL_BF16, 1, false, {16, 32, 0, 2, BY_CTA, 1, {0, 0}, 0}},      /* of 2: no word */
    {PL_U8, 0, true, {64, 128, 128, 2, BY_CTA, 0, {0, 0}, 0}},      /* 16 bytes */
    {PL_U8, 4, false, {8, 16, 0, 2, BY_WARP, 0, {0, 0}, 0}},        /* the facts know of 1 byte */
    {PL_I32, 0, true, {64, 128, 0, 2, BY_WARPGROUP, 0, {0, 0}, 0}}, /* a loop of rounds */
    {PL_F32, 0, true, {16, 16, 64, 4, BY_WARPGROUP, 0, {0, 0}, 1}},
    {PL_F16, 0, true, {16, 64, 0, 4, BY_WARP, 1, {0, 0}, 1}},
    {PL_F32, 0, true, {16, 64, 0, 2, BY_WARPGROUP, 0, {3, 8}, 0}},
    {PL_BF16, 0, true, {32, 32, 64, 3, BY_WARP, 0, {0, 16}, 0}},
    {PL_F32, 1, true, {16, 24, 0, 2, BY_CTA, 0, {1, 5}, 0}},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what))
        n++;
    return n;
}

static void text_is_as_expected(const struct later_case *c, const struct ask *a)
{
    struct build *b = build_ok(a);
    const char *text = b->out.text;
    ck_assert_msg((count(text, "cp.async.c") > 0) == c->is_later, "case %d", (int)(c - cases));
    ck_assert_int_eq(count(text, "cp.async.mbarrier.arrive.noinc") > 0, c->is_later);
    ck_assert_int_eq(count(text, "cp.async.wait"), 0);
    text_assembles(b);
    build_free(b);
}

static void run_case(const struct later_case *c, int chip, const char *policy, int32_t less)
{
    const struct later_params *p = &c->p;
    const int64_t rows = (int64_t)p->rows * p->stages - less, cols = p->cols - less % 7;
    driver_use(chip, policy);
    pl_tensor x = tensor_new(c->t, PL_SHAPE(rows, cols), p->cols - cols + c->pitch_extra, 0);
    pl_tensor y = tensor_new(c->t, PL_SHAPE(rows, cols), 0, 0);
    void *hx = fill_random(&x);
    fill_bytes(&y, 0x5a);
    struct ask a = {.kernel = &later,
                    .params = p,
                    .params_bytes = sizeof *p,
                    .arch = chip,
                    .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                    .grid = {1, 1, 1},
                    .facts = all_facts};
    if (less == 0)
        text_is_as_expected(c, &a);
    run_ok(&a);
    void *got = fetch(&y);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            const int64_t from_row = i - p->below[0], from_col = j - p->below[1];
            const bool is_zero = (p->skips && i / p->rows % 2 != 0) || from_row < 0 || from_col < 0;
            const double want =
                is_zero ? 0 : get_elem(hx, c->t, from_row * x.strides[0] + from_col);
            ck_assert_msg(get_elem(got, c->t, i * cols + j) == want,
                          "case %d sm_%d %s -%d: (%lld, %lld)", (int)(c - cases), chip, policy,
                          less, (long long)i, (long long)j);
        }
    free(got);
    free(hx);
    free_tensor(&x);
    free_tensor(&y);
}

START_TEST(copies_arrive_whole)
{
    random_turn(&rnd, _i);
    for (size_t i = 0; i < PL_COUNT(policies); i++)
        for (size_t chip = 0; chip < PL_COUNT(chips); chip++)
            for (int32_t less = 0; less < 12; less += less == 0 ? 1 : 2)
                run_case(&cases[_i], chips[chip], policies[i], less);
}
END_TEST

static Suite *make_suite(void)
{
    rnd = random_start("check_plan_later");
    Suite *s = suite_create("plan_later");
    TCase *t = tcase_create("later");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, copies_arrive_whole, 0, N_CASES);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
