/*
 * Tensor memory, end to end on the emulated driver: random arrays through it and back, over element types, rows, layouts, slots and
 * windows of columns, under every asynchronous policy. What comes back is what went in, changed as the body says.
 */
#include "tests/plan_data.h"

static const char *const policies[] = {"eager", "late", "random:3"};

enum way { WAY_PLAIN, WAY_SMEM, WAY_RELAYOUT, WAY_ROW_MAX, WAY_TWICE, WAY_LOOP, WAY_OVER };

struct trip_params {
    int32_t rows, cols, t, way, layout, slots;
};

static void put(pl_builder *b, pl_ref to, pl_ref from, const struct trip_params *p)
{
    pl_val v = pl_load(b, from);
    if (p->layout != PL_LAYOUT_AUTO) {
        pl_ref r = pl_regs(b, (pl_dtype)p->t, PL_SHAPE(p->rows, p->cols),
                           pl_layout_of((pl_layout_kind)p->layout), 0);
        pl_store(b, r, v);
        v = pl_load(b, r);
    }
    pl_async_store_tmem(b, to, v);
    pl_commit_tmem(b);
}

/* The right half of the columns, then the left one, by windows. */
static void halves(pl_builder *b, pl_ref t, pl_ref to, const struct trip_params *p)
{
    const pl_shape s = PL_SHAPE(p->rows, p->cols / 2);
    PL_FOR(b, i, 0, 2)
    {
        pl_val at = pl_sub(b, 1, i);
        pl_val v = pl_async_load_tmem(b, pl_tile(b, t, PL_OFF(b, 0, at), s));
        pl_async_store_tmem(b, pl_tile(b, t, PL_OFF(b, 0, at), s), pl_add(b, v, v));
        pl_commit_tmem(b);
        v = pl_async_load_tmem(b, pl_tile(b, t, PL_OFF(b, 0, at), s));
        pl_store(b, pl_tile(b, to, PL_OFF(b, 0, at), s), v);
        pl_wait_load_tmem(b);
    }
}

/* Over what was stored before and not committed: in a row, and in each round of a loop. */
static void over(pl_builder *b, pl_ref t, pl_ref from, const struct trip_params *p)
{
    const pl_shape half = PL_SHAPE(p->rows, p->cols / 2);
    pl_val v = pl_load(b, from);
    pl_async_store_tmem(b, pl_tile(b, t, PL_OFF(b, 0, 0), half),
                        pl_load(b, pl_tile(b, from, PL_OFF(b, 0, 1), half)));
    PL_FOR(b, i, 0, 3) { pl_async_store_tmem(b, t, pl_mul(b, v, pl_cast(b, i, (pl_dtype)p->t))); }
}

static void trip_body(pl_builder *b, const void *params)
{
    const struct trip_params *p = params;
    const pl_dtype t = (pl_dtype)p->t;
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    const pl_shape s = PL_SHAPE(p->rows, p->cols);
    pl_ref all = pl_tmem(b, t, PL_SHAPE(p->slots, p->rows, p->cols), 0);
    pl_ref tm = pl_at(b, all, pl_sub(b, p->slots - 1, pl_program_id(b, 0)));
    pl_ref from = pl_window(b, x, PL_OFF(b, 0, 0), s),
           to = pl_tile(b, y, PL_OFF(b, pl_program_id(b, 0), 0), s);
    if (p->way == WAY_OVER)
        over(b, tm, from, p);
    else
        put(b, tm, from, p);
    if (p->way == WAY_LOOP) {
        halves(b, tm, to, p);
        return;
    }
    pl_val v = pl_async_load_tmem(b, tm);
    if (p->way == WAY_SMEM) { /* swizzled, and out by a copy */
        pl_ref stage = pl_smem(b, t, s, PL_SWIZZLE_AUTO);
        pl_store(b, stage, pl_add(b, v, v));
        pl_commit_smem(b);
        pl_copy_smem_to_gmem(b, stage, to);
        pl_wait_smem_to_gmem(b, 0);
    } else if (p->way == WAY_RELAYOUT) {
        pl_store(b, to, pl_layout_cast(b, v, pl_layout_strided(1)));
    } else if (p->way == WAY_ROW_MAX) {
        pl_val most = pl_reduce(b, PL_MAX, v, 1, PL_SCOPE_WARPGROUP);
        pl_store(b, to, pl_sub(b, pl_broadcast(b, most, 1, p->cols), v));
    } else if (p->way == WAY_TWICE) { /* two loads in flight, the older one used last */
        pl_val w = pl_async_load_tmem(b, tm);
        pl_store(b, to, pl_sub(b, pl_mul(b, w, pl_cast(b, 3, t)), v));
    } else {
        pl_store(b, to, v);
    }
    pl_wait_load_tmem(b);
}
TENSORS(trip, 1, 1);

/* rows, columns, type, way, layout, slots */
static const struct trip_params trips[] = {
    {128, 64, PL_F32, WAY_PLAIN, 0, 1},
    {128, 256, PL_F32, WAY_SMEM, 0, 2},
    {128, 8, PL_I32, WAY_RELAYOUT, 0, 3},
    {128, 16, PL_F32, WAY_ROW_MAX, 0, 1},
    {128, 128, PL_F32, WAY_ROW_MAX, 0, 1},
    {128, 24, PL_F32, WAY_TWICE, 0, 2},
    {128, 40, PL_F32, WAY_LOOP, 0, 1},
    {128, 64, PL_F32, WAY_LOOP, PL_LAYOUT_TCGEN05, 1},
    {128, 32, PL_F32, WAY_SMEM, PL_LAYOUT_TCGEN05, 1},
    {128, 3, PL_U32, WAY_PLAIN, 0, 1},
    {128, 64, PL_BF16, WAY_SMEM, 0, 2},
    {128, 48, PL_F16, WAY_LOOP, PL_LAYOUT_TCGEN05, 1},
    {128, 16, PL_I16, WAY_PLAIN, 0, 2},
    {128, 32, PL_I8, WAY_PLAIN, 0, 1},
    {128, 64, PL_E4M3, WAY_PLAIN, PL_LAYOUT_TMEM_NATIVE, 1},
    {64, 64, PL_F32, WAY_SMEM, 0, 2},
    {64, 48, PL_I32, WAY_LOOP, 0, 1},
    {64, 32, PL_BF16, WAY_TWICE, 0, 2},
    {64, 16, PL_F32, WAY_ROW_MAX, 0, 1},
    {128, 16, PL_F32, WAY_OVER, 0, 2},
    {64, 32, PL_I32, WAY_OVER, 0, 1},
};

static double wanted(const struct trip_params *p, const void *x, int64_t i, int64_t j)
{
    const double v = get_elem(x, (pl_dtype)p->t, i * p->cols + j);
    double most = v;
    switch ((enum way)p->way) {
    case WAY_PLAIN:
    case WAY_RELAYOUT: return v;
    case WAY_SMEM:
    case WAY_TWICE:
    case WAY_LOOP:
    case WAY_OVER: return v + v;
    case WAY_ROW_MAX:
        for (int64_t k = 0; k < p->cols; k++)
            most = fmax(most, get_elem(x, (pl_dtype)p->t, i * p->cols + k));
        return most - v;
    }
    return 0;
}

START_TEST(arrays_come_back)
{
    random_turn(&rnd, _i);
    const struct trip_params *p = &trips[_i];
    for (size_t policy = 0; policy < PL_COUNT(policies); policy++) {
        driver_use(100, policies[policy]);
        ck_assert_int_eq(emu.configure("check", "race"), 0);
        pl_tensor x = tensor_new((pl_dtype)p->t, PL_SHAPE(p->rows, p->cols), 0, 0);
        pl_tensor y = tensor_new((pl_dtype)p->t, PL_SHAPE(p->slots * p->rows, p->cols), 0, 0);
        void *hx = fill_random(&x);
        struct ask a = {.kernel = &trip,
                        .params = p,
                        .params_bytes = sizeof *p,
                        .arch = 100,
                        .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                        .grid = {(uint32_t)p->slots, 1, 1},
                        .facts = all_facts};
        struct build *b = build_ok(&a);
        if (p->way == WAY_ROW_MAX && p->rows == 128) /* a row is in one thread: nothing is shared */
            ck_assert_uint_le(b->plan.launch.smem_bytes, 16);
        launch_ok(b, &a);
        build_free(b);
        void *got = fetch(&y);
        for (int64_t i = 0; i < p->slots * p->rows; i++)
            for (int64_t j = 0; j < p->cols; j++) {
                const double want = wanted(p, hx, i % p->rows, j),
                             have = get_elem(got, (pl_dtype)p->t, i * p->cols + j);
                ck_assert_msg(have == want, "case %d %s (%lld, %lld): %g, not %g", _i,
                              policies[policy], (long long)i, (long long)j, have, want);
            }
        free(hx);
        free(got);
        free_tensor(&x);
        free_tensor(&y);
    }
}
END_TEST

static Suite *make_suite(void)
{
    rnd = random_start("check_plan_tmem");
    Suite *s = suite_create("plan_tmem");
    TCase *t = tcase_create("results");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, arrays_come_back, 0, PL_COUNT(trips));
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
