/*
 * Asynchronous stores to cluster peers, end to end on the emulated driver: every width of element, sizes from 1 element on, swizzles,
 * windows, layouts that must be widened, the reductions, and all-to-all exchanges; under every asynchronous policy.
 */
#include "tests/plan_data.h"

static const char *const policies[] = {"eager", "late", "random:3", "random:4"};

/* ---- one ring step after another: each CTA sends to the next ---- */

struct ring_params {
    int32_t cluster, rank, op, swizzle_bytes, vec;
    int64_t d[2];
    int32_t is_transposed,
        is_window;    /* a window of a larger array, 4 bytes further than its corner */
    int32_t is_splat; /* the number of the step instead of data */
};

static pl_shape ring_shape(const struct ring_params *p)
{
    return p->rank == 1 ? PL_SHAPE(p->d[0]) : PL_SHAPE(p->d[0], p->d[1]);
}

/* Element i of the leading axis of a parameter, whose other extents are s. */
static pl_ref slice(pl_builder *b, pl_ref r, pl_val i, pl_shape s)
{
    return pl_window(b, pl_at(b, r, i), s.rank == 1 ? PL_OFF(b, 0) : PL_OFF(b, 0, 0), s);
}

/* x (cluster, steps, shape) sent to the next CTA's buffer, which begins as z (cluster, shape); y: what came. */
static void ring_body(pl_builder *b, const void *params)
{
    const struct ring_params *p = params;
    pl_block_cluster(b, p->cluster, 1, 1);
    pl_ref x = pl_param(b, 0), z = pl_param(b, 1), y = pl_param(b, 2);
    const pl_dtype t = pl_dtype_of(b, x);
    const int64_t word = t == PL_F64 ? 1 : 32 / pl_dtype_bits(t);
    pl_shape s = ring_shape(p), whole = s;
    if (p->is_transposed)
        whole = PL_SHAPE(s.d[1], s.d[0]);
    if (p->is_window)
        whole.d[s.rank - 1] += 2 * word;
    pl_ref all = pl_smem(b, t, whole, swizzled(t, p->swizzle_bytes));
    pl_ref buf = p->is_transposed ? pl_transpose(b, all) : all;
    pl_ref to = pl_peer(b, all, pl_rem(b, pl_add(b, pl_cluster_rank(b), 1), p->cluster));
    if (p->is_transposed)
        to = pl_transpose(b, to);
    if (p->is_window) {
        const pl_offs at = s.rank == 1 ? PL_OFF(b, word) : PL_OFF(b, 0, word);
        buf = pl_window(b, buf, at, s);
        to = pl_window(b, to, at, s);
    }
    pl_bar bar = pl_barrier(b, 1);
    pl_ref mine = pl_at(b, x, pl_cluster_rank(b)), out = pl_at(b, y, pl_cluster_rank(b));
    pl_store(b, buf, pl_load(b, slice(b, z, pl_cluster_rank(b), s)));
    pl_cluster_sync(b);
    PL_FOR(b, step, 0, 3)
    {
        const pl_load_opt o = {.layout = p->vec > 0 ? pl_layout_strided(p->vec) : pl_layout_auto()};
        pl_val v = pl_load_ex(b, slice(b, mine, step, s), &o);
        if (p->is_splat) {
            v = pl_broadcast(b, pl_cast(b, step, t), 0, s.d[s.rank - 1]);
            if (s.rank == 2)
                v = pl_broadcast(b, v, 0, s.d[0]);
        }
        pl_async_store_smem_at(b, to, v, bar, (pl_op2)p->op, PL_LOC);
        pl_barrier_wait(b, bar);
        pl_store(b, slice(b, out, step, s), pl_load(b, buf));
        pl_cluster_sync(b); /* everybody has read before anybody sends again */
    }
}
TENSORS(ring, 2, 1);

struct ring_case {
    pl_dtype t;
    struct ring_params p;
};

/* {cluster, rank, op, swizzle, vec, {shape}, transposed, window, splat} */
static const struct ring_case ring_cases[] = {
    {PL_F32, {2, 1, 0, 0, 0, {1, 0}, 0, 0, 0}},
    {PL_F32, {2, 1, 0, 0, 0, {100, 0}, 0, 0, 0}},
    {PL_I32, {4, 1, 0, 0, 0, {4096, 0}, 0, 0, 0}},
    {PL_BF16, {2, 1, 0, 0, 0, {2, 0}, 0, 0, 0}},
    {PL_BF16, {2, 1, 0, 0, 0, {100, 0}, 0, 0, 0}},
    {PL_F16, {4, 1, 0, 0, 0, {4096, 0}, 0, 0, 0}},
    {PL_U16, {2, 1, 0, 0, 0, {258, 0}, 0, 0, 0}},
    {PL_I8, {2, 1, 0, 0, 0, {4, 0}, 0, 0, 0}},
    {PL_U8, {2, 1, 0, 0, 0, {100, 0}, 0, 0, 0}},
    {PL_E4M3, {8, 1, 0, 0, 0, {4096, 0}, 0, 0, 0}},
    {PL_F64, {2, 1, 0, 0, 0, {1, 0}, 0, 0, 0}},
    {PL_I64, {2, 1, 0, 0, 0, {300, 0}, 0, 0, 0}},
    {PL_F32, {2, 2, 0, 0, 0, {5, 7}, 0, 0, 0}},
    {PL_F32, {2, 2, 0, 128, 0, {8, 64}, 0, 0, 0}},
    {PL_BF16, {2, 2, 0, 128, 0, {16, 64}, 0, 0, 0}},
    {PL_BF16, {2, 2, 0, 32, 8, {16, 64}, 0, 0, 0}},
    {PL_F32, {2, 2, 0, 0, 0, {12, 5}, 1, 0, 0}},
    {PL_F32, {2, 2, 0, 64, 0, {16, 32}, 1, 0, 0}},
    {PL_BF16, {2, 2, 0, 0, 0, {9, 12}, 0, 1, 0}},
    {PL_F64, {2, 2, 0, 0, 0, {3, 5}, 0, 1, 0}},
    {PL_BF16, {2, 1, 0, 0, 1, {300, 0}, 0, 0, 0}}, /* chunks of 2 bytes are joined first */
    {PL_U8, {2, 2, 0, 0, 2, {4, 100}, 0, 0, 0}},
    {PL_BF16, {2, 1, 0, 0, 0, {100, 0}, 0, 0, 1}},
    {PL_U8, {2, 2, 0, 0, 0, {3, 4}, 0, 0, 1}},
    {PL_I32, {2, 1, PL_ADD, 0, 0, {1, 0}, 0, 0, 0}},
    {PL_U32, {4, 1, PL_ADD, 0, 0, {1000, 0}, 0, 0, 0}},
    {PL_I32, {2, 1, PL_MIN, 0, 4, {100, 0}, 0, 0, 0}},
    {PL_U32, {2, 2, PL_MAX, 0, 0, {6, 9}, 0, 0, 0}},
    {PL_I32, {2, 2, PL_AND, 128, 0, {8, 32}, 0, 0, 0}},
    {PL_U32, {2, 1, PL_OR, 0, 0, {77, 0}, 0, 0, 1}},
    {PL_I32, {2, 1, PL_XOR, 0, 0, {130, 0}, 0, 1, 0}},
};
enum { N_RING_CASES = sizeof ring_cases / sizeof ring_cases[0] };

static double combined(int op, double x, double y)
{
    const int64_t i = (int64_t)x, j = (int64_t)y;
    return op == PL_ADD   ? x + y
           : op == PL_MIN ? (x < y ? x : y)
           : op == PL_MAX ? (x > y ? x : y)
           : op == PL_AND ? (double)(i & j)
           : op == PL_OR  ? (double)(i | j)
           : op == PL_XOR ? (double)(i ^ j)
                          : y;
}

START_TEST(stores_to_a_peer_arrive_whole)
{
    random_turn(&rnd, _i);
    const struct ring_case *c = &ring_cases[_i];
    const struct ring_params *p = &c->p;
    const int64_t n = p->rank == 1 ? p->d[0] : p->d[0] * p->d[1];
    const pl_shape s = ring_shape(p);
    const pl_shape by_rank =
        p->rank == 1 ? PL_SHAPE(p->cluster, s.d[0]) : PL_SHAPE(p->cluster, s.d[0], s.d[1]);
    const pl_shape by_step =
        p->rank == 1 ? PL_SHAPE(p->cluster, 3, s.d[0]) : PL_SHAPE(p->cluster, 3, s.d[0], s.d[1]);
    for (size_t policy = 0; policy < PL_COUNT(policies); policy++) {
        driver_use(_i % 2 == 0 ? 90 : 100, policies[policy]);
        pl_tensor x = tensor_new(c->t, by_step, 0, 0), z = tensor_new(c->t, by_rank, 0, 0),
                  y = tensor_new(c->t, by_step, 0, 0);
        void *sent = fill_random(&x), *before = fill_random(&z);
        struct ask a = {.kernel = &ring,
                        .params = p,
                        .params_bytes = sizeof *p,
                        .arch = _i % 2 == 0 ? 90 : 100,
                        .args = {pl_arg_tensor(x), pl_arg_tensor(z), pl_arg_tensor(y)},
                        .grid = {(uint32_t)p->cluster, 1, 1},
                        .facts = all_facts};
        run_ok(&a);
        void *got = fetch(&y);
        for (int64_t rank = 0; rank < p->cluster; rank++)
            for (int64_t i = 0; i < n; i++) {
                const int64_t from = (rank + p->cluster - 1) % p->cluster;
                double want = get_elem(before, c->t, rank * n + i);
                for (int64_t step = 0; step < 3; step++) {
                    const int64_t at = (rank * 3 + step) * n + i;
                    want = combined(p->op, want,
                                    p->is_splat ? (double)step
                                                : get_elem(sent, c->t, (from * 3 + step) * n + i));
                    ck_assert_msg(get_elem(got, c->t, at) == want,
                                  "case %d %s %s rank %lld step %lld [%lld]: %g, not %g", _i,
                                  pl_dtype_name(c->t), policies[policy], (long long)rank,
                                  (long long)step, (long long)i, get_elem(got, c->t, at), want);
                }
            }
        free(sent);
        free(before);
        free(got);
        free_tensor(&x);
        free_tensor(&z);
        free_tensor(&y);
    }
}
END_TEST

/* ---- everybody sends to everybody ---- */

struct gather_params {
    int32_t cluster, n, n_warpgroups;
};

/* Each CTA's part goes to slot `rank` of every CTA; one warpgroup of each CTA sends. */
static void gather_body(pl_builder *b, const void *params)
{
    const struct gather_params *p = params;
    pl_block_warpgroups(b, p->n_warpgroups);
    pl_block_cluster(b, p->cluster, 1, 1);
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    pl_ref all = pl_smem(b, pl_dtype_of(b, x), PL_SHAPE(p->cluster, p->n), PL_SWIZZLE_NONE);
    pl_bar bar = pl_barrier(b, p->cluster);
    PL_WARPGROUP(b, p->n_warpgroups - 1)
    {
        pl_val v = pl_load(b, slice(b, x, pl_cluster_rank(b), PL_SHAPE(p->n)));
        for (int to = 0; to < p->cluster; to++)
            pl_async_store_smem(b, pl_at(b, pl_peer(b, all, to), pl_cluster_rank(b)), v, bar);
        pl_barrier_wait(b, bar);
        pl_store(b, slice(b, y, pl_cluster_rank(b), PL_SHAPE(p->cluster, p->n)), pl_load(b, all));
    }
}
TENSORS(gather, 1, 1);

START_TEST(every_cta_reaches_every_other)
{
    random_turn(&rnd, _i);
    static const pl_dtype types[] = {PL_F32, PL_F16, PL_I64, PL_U8};
    for (size_t policy = 0; policy < PL_COUNT(policies); policy++) {
        const pl_dtype t = types[_i];
        struct gather_params p = {.cluster = 2 << random_below(&rnd, 3),
                                  .n = 4 * (1 + (int)random_below(&rnd, 90)),
                                  .n_warpgroups = 1 + (int)random_below(&rnd, 2)};
        driver_use(90, policies[policy]);
        pl_tensor x = tensor_new(t, PL_SHAPE(p.cluster, p.n), 0, 0),
                  y = tensor_new(t, PL_SHAPE(p.cluster, p.cluster, p.n), 0, 0);
        void *host = fill_random(&x);
        struct ask a = {.kernel = &gather,
                        .params = &p,
                        .params_bytes = sizeof p,
                        .arch = 90,
                        .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                        .grid = {(uint32_t)p.cluster, 1, 1},
                        .facts = all_facts};
        run_ok(&a);
        void *got = fetch(&y);
        for (int rank = 0; rank < p.cluster; rank++)
            ck_assert_msg(
                memcmp((char *)got + (size_t)rank * tensor_span(&x), host, tensor_span(&x)) == 0,
                "%s n %d cluster %d rank %d", pl_dtype_name(t), p.n, p.cluster, rank);
        free(host);
        free(got);
        free_tensor(&x);
        free_tensor(&y);
    }
}
END_TEST

/* ---- what the plan refuses ---- */

/* A window that begins at an odd 16-bit element. */
static void odd_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_block_cluster(b, 2, 1, 1);
    pl_ref all = pl_smem(b, PL_BF16, PL_SHAPE(16), PL_SWIZZLE_NONE);
    pl_bar bar = pl_barrier(b, 1);
    pl_val v = pl_load(b, pl_window(b, pl_param(b, 0), PL_OFF(b, 0), PL_SHAPE(8)));
    pl_async_store_smem(b, pl_window(b, pl_peer(b, all, 1), PL_OFF(b, 1), PL_SHAPE(8)), v, bar);
    pl_barrier_wait(b, bar);
}
TENSORS(odd, 1, 0);

START_TEST(a_peer_window_off_its_words_is_refused)
{
    struct ask a = {.kernel = &odd,
                    .arch = 90,
                    .args = {pl_arg_tensor(pl_tensor_make(4096, PL_BF16, PL_SHAPE(64)))},
                    .grid = {2, 1, 1},
                    .facts = all_facts};
    struct build *b = build_new(&a, 0);
    ck_assert_int_eq(b->status, PL_E_INVALID);
    ck_assert_int_eq(b->diags.list.data[0].info->code, 3191);
    ck_assert_ptr_null(b->out.text);
    build_free(b);
}
END_TEST

static Suite *make_suite(void)
{
    rnd = random_start("check_plan_peer");
    Suite *s = suite_create("plan_peer");
    TCase *t = tcase_create("results");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, stores_to_a_peer_arrive_whole, 0, N_RING_CASES);
    tcase_add_loop_test(t, every_cta_reaches_every_other, 0, 4);
    tcase_add_test(t, a_peer_window_off_its_words_is_refused);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
