/* Schedules, end to end on the emulated driver: tiles that the hardware hands out, and CTAs for which there are none. */
#include "tests/plan_data.h"

static const char *const policies[] = {"eager", "late", "random:5", "random:6"};
static const int chips[] = {80, 90, 100, 120};
enum { N_POLICIES = 4, N_CHIPS = 4 };

/* ---- dynamic schedules ---- */

struct tiles_params {
    int32_t cluster, form; /* form: 0 outside roles, 1 two warpgroups outside roles, 2 roles */
};

/* Counts in row `who` of y that the tile was worked on. */
static void work(pl_builder *b, pl_ref y, int32_t who, pl_val tile)
{
    pl_ref at = pl_at(b, pl_at(b, y, who), pl_cast(b, tile, PL_I32));
    (void)pl_atomic_in_(b, PL_ATOMIC_ADD, (pl_rv_){at, pl_lit_i(b, 1)}, NULL, PL_LOC);
}

static void tiles_body(pl_builder *b, const void *params)
{
    const struct tiles_params *p = params;
    pl_block_cluster(b, p->cluster, 1, 1);
    pl_block_warpgroups(b, p->form == 0 ? 1 : 2);
    pl_ref y = pl_param(b, 0);
    pl_sched s = pl_sched_clc(b, pl_dim(b, y, 1));
    if (p->form < 2) {
        PL_TILES(b, t, s) { work(b, y, 0, t); }
        return;
    }
    PL_WARP(b, 0, 1)
    {
        PL_TILES(b, t, s) { work(b, y, 0, t); }
    }
    PL_WARP(b, 0, 3)
    {
        PL_TILES(b, t, s) { work(b, y, 1, t); }
    }
    PL_WARPGROUP(b, 1)
    {
        PL_TILES(b, t, s) { work(b, y, 2, t); }
    }
}
TENSORS(tiles, 0, 1);

START_TEST(every_tile_is_handed_out_once)
{
    static const int n_tiles[] = {1, 2, 3, 7, 40, 111};
    const struct tiles_params p = {.cluster = _i / 3 == 0   ? 1
                                              : _i / 3 == 1 ? 2
                                                            : 4,
                                   .form = _i % 3};
    for (int chip = 2; chip < N_CHIPS; chip++)
        for (size_t n = 0; n < sizeof n_tiles / sizeof n_tiles[0]; n++) {
            driver_use(chips[chip], policies[((size_t)_i + n) % N_POLICIES]);
            pl_tensor y = tensor_new(PL_I32, PL_SHAPE(3, n_tiles[n]), 0, 0);
            fill_bytes(&y, 0);
            run_ok(&(struct ask){.kernel = &tiles,
                                 .params = &p,
                                 .params_bytes = sizeof p,
                                 .arch = chips[chip],
                                 .args = {pl_arg_tensor(y)},
                                 .grid = {(uint32_t)(n_tiles[n] * p.cluster), 1, 1},
                                 .facts = all_facts});
            void *got = fetch(&y);
            for (int64_t i = 0; i < 3 * n_tiles[n]; i++) {
                const int64_t who = i / n_tiles[n];
                const double want = p.form == 2 ? p.cluster
                                    : who > 0   ? 0
                                                : p.cluster * (p.form + 1);
                ck_assert_msg(get_elem(got, PL_I32, i) == want, "tile %lld: %g times, not %g",
                              (long long)i, get_elem(got, PL_I32, i), want);
            }
            free(got);
            free_tensor(&y);
        }
}
END_TEST

/* ---- CTAs without work ---- */

struct idle_params {
    int32_t cluster,
        form; /* form: 0 a loop, 1 a condition, 2 roles; 3 roles of which one does more */
};

/* y[tile] = x[tile] for the tiles there are, through a barrier. */
static void copy_tile(pl_builder *b, pl_ref buf, pl_bar full, pl_val tile)
{
    pl_copy_gmem_to_smem(b, pl_tile(b, pl_param(b, 0), PL_OFF(b, tile), PL_SHAPE(128)), buf, full);
    pl_barrier_wait(b, full);
    pl_store(b, pl_tile(b, pl_param(b, 1), PL_OFF(b, tile), PL_SHAPE(128)), pl_load(b, buf));
    pl_commit_smem(b);
}

static void idle_body(pl_builder *b, const void *params)
{
    const struct idle_params *p = params;
    pl_block_cluster(b, p->cluster, 1, 1);
    pl_block_warpgroups(b, p->form < 2 ? 1 : 2);
    pl_ref x = pl_param(b, 0);
    pl_ref buf = pl_smem(b, PL_F32, PL_SHAPE(128), PL_SWIZZLE_NONE);
    pl_bar full = pl_barrier(b, 1), ready = pl_barrier(b, 1);
    pl_sched s = pl_sched_static(b, pl_cdiv(b, pl_dim(b, x, 0), 128));
    if (p->form == 0)
        PL_TILES(b, t, s) { copy_tile(b, buf, full, t); }
    if (p->form == 1)
        PL_IF(b, pl_lt(b, s.first, s.end)) { copy_tile(b, buf, full, s.first); }
    if (p->form < 2)
        return;
    PL_WARPGROUP(b, 0)
    {
        PL_TILES(b, t, s)
        {
            copy_tile(b, buf, full, t);
            pl_barrier_arrive(b, ready);
        }
    }
    PL_WARPGROUP(b, 1)
    {
        PL_TILES(b, t, s) { pl_barrier_wait(b, ready); }
        if (p->form == 3)
            (void)pl_atomic_in_(b, PL_ATOMIC_ADD,
                                (pl_rv_){pl_at(b, pl_param(b, 2), 0), pl_lit_i(b, 1)}, NULL,
                                PL_LOC);
    }
}
TENSORS(idle, 1, 2);

START_TEST(a_cta_without_work_does_nothing)
{
    random_turn(&rnd, _i);
    const struct idle_params p = {.cluster = 1 + _i / 4, .form = _i % 4};
    driver_use(90, policies[_i % N_POLICIES]);
    const int64_t n = 128 * 5 - 7; /* 5 tiles for 12 clusters */
    pl_tensor x = tensor_new(PL_F32, PL_SHAPE(n), 0, 0), y = tensor_new(PL_F32, PL_SHAPE(n), 0, 0),
              z = tensor_new(PL_I32, PL_SHAPE(1), 0, 0);
    void *want = fill_random(&x);
    fill_bytes(&y, 0xff);
    fill_bytes(&z, 0);
    const struct ask a = {.kernel = &idle,
                          .params = &p,
                          .params_bytes = sizeof p,
                          .arch = 90,
                          .args = {pl_arg_tensor(x), pl_arg_tensor(y), pl_arg_tensor(z)},
                          .grid = {12 * (uint32_t)p.cluster, 1, 1},
                          .facts = all_facts};
    struct build *b = build_ok(&a);
    const char *init = strstr(b->out.text, "mbarrier.init"), *jump = strstr(b->out.text, " bra ");
    ck_assert_ptr_nonnull(init);
    ck_assert_int_eq(jump != NULL && jump < init, p.form != 3);
    expect_read_back(b);
    launch_ok(b, &a);
    void *got = fetch(&y), *more = fetch(&z);
    for (int64_t i = 0; i < n; i++)
        ck_assert(get_elem(got, PL_F32, i) == get_elem(want, PL_F32, i));
    ck_assert(get_elem(more, PL_I32, 0) == (p.form == 3 ? 12 * p.cluster : 0));
    free(got);
    free(more);
    free(want);
    free_tensor(&x);
    free_tensor(&y);
    free_tensor(&z);
    build_free(b);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("plan_sched");
    TCase *t = tcase_create("sched");
    tcase_set_timeout(t, 120);
    rnd = random_start("plan_sched");
    tcase_add_loop_test(t, every_tile_is_handed_out_once, 0, 9);
    tcase_add_loop_test(t, a_cta_without_work_does_nothing, 0, 8);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
