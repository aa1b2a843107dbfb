/*
 * Operations with a lowering of their own, end to end on the emulated driver: prefetches, copies that say what L2 keeps, tests of
 * barriers, gathered rows. On every chip that has them, under every asynchronous policy.
 */
#include "tests/plan_data.h"

static const char *const policies[] = {"eager", "late", "random:5", "random:6"};
static const int chips[] = {80, 90, 100, 120};
enum { N_POLICIES = 4, N_CHIPS = 4 };

static unsigned count(const char *text, const char *what)
{
    unsigned n = 0;
    for (const char *p = strstr(text, what); p != NULL; p = strstr(p + 1, what))
        n++;
    return n;
}

/* ---- prefetches ---- */

struct prefetch_params {
    int64_t d[3]; /* of the window, 0 ends */
    int64_t at;   /* first element along the last axis */
};

static pl_shape window_shape(const struct prefetch_params *p)
{
    pl_shape s = {0};
    while (s.rank < 3 && p->d[s.rank] != 0) {
        s.d[s.rank] = p->d[s.rank];
        s.rank++;
    }
    return s;
}

static void prefetch_body(pl_builder *b, const void *params)
{
    const struct prefetch_params *p = params;
    const pl_shape s = window_shape(p);
    const pl_offs at = s.rank == 1   ? PL_OFF(b, p->at)
                       : s.rank == 2 ? PL_OFF(b, 0, p->at)
                                     : PL_OFF(b, 0, 0, p->at);
    pl_ref x = pl_window(b, pl_param(b, 0), at, s), y = pl_window(b, pl_param(b, 1), at, s);
    pl_prefetch(b, x);
    pl_store(b, y, pl_load(b, x));
}
TENSORS(prefetch, 1, 1);

static const struct {
    pl_dtype t;
    pl_shape tensor;
    struct prefetch_params p;
    pl_fact_set facts;
    unsigned n_runs, n_boxes; /* instructions wanted */
} prefetch_cases[] = {
    {PL_F32, {1, {4096}}, {{1024}, 0}, 7, 1, 0},
    {PL_F32, {1, {1000}}, {{1024}, 4}, 7, 1, 0}, /* hangs over: guarded */
    {PL_F32, {1, {4096}}, {{1024}, 1}, 7, 0, 4}, /* not at a multiple of 16 bytes: boxes of 256 */
    {PL_F32, {1, {4096}}, {{1022}, 0}, 7, 0, 0}, /* no box of 16-byte words divides 1022 */
    {PL_BF16, {2, {200, 264}}, {{64, 64}, 0}, 7, 0, 1},
    {PL_BF16, {2, {20, 40}}, {{64, 64}, 8}, 7, 0, 1}, /* hangs over both edges */
    {PL_U8, {2, {300, 512}}, {{300, 512}, 0}, 7, 0, 4},
    {PL_F16, {3, {3, 10, 80}}, {{2, 8, 16}, 8}, 7, 0, 1},
    {PL_F16, {2, {64, 64}}, {{64, 64}, 0}, PL_FACT_I32, 0, 0}, /* nothing is known */
};
enum { N_PREFETCH = sizeof prefetch_cases / sizeof prefetch_cases[0] };

START_TEST(prefetches_ask_for_what_is_there)
{
    random_turn(&rnd, _i);
    for (int chip = 0; chip < N_CHIPS; chip++) {
        const bool has_bulk = chips[chip] >= 90;
        driver_use(chips[chip], policies[_i % N_POLICIES]);
        pl_tensor x = tensor_new(prefetch_cases[_i].t, prefetch_cases[_i].tensor, 0, 0),
                  y = tensor_new(prefetch_cases[_i].t, prefetch_cases[_i].tensor, 0, 0);
        void *want = fill_random(&x);
        fill_bytes(&y, 0);
        const struct ask a = {.kernel = &prefetch,
                              .params = &prefetch_cases[_i].p,
                              .params_bytes = sizeof prefetch_cases[_i].p,
                              .arch = chips[chip],
                              .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                              .grid = {1, 1, 1},
                              .facts = prefetch_cases[_i].facts};
        struct build *b = build_ok(&a);
        ck_assert_uint_eq(count(b->out.text, "cp.async.bulk.prefetch.L2"),
                          has_bulk ? prefetch_cases[_i].n_runs : 0);
        ck_assert_uint_eq(count(b->out.text, "cp.async.bulk.prefetch.tensor"),
                          has_bulk ? prefetch_cases[_i].n_boxes : 0);
        ck_assert_uint_eq(count(b->out.text, "prefetch.tensormap"),
                          has_bulk && prefetch_cases[_i].n_boxes != 0);
        expect_read_back(b);
        launch_ok(b, &a);
        void *got = fetch(&y);
        const pl_shape s = window_shape(&prefetch_cases[_i].p);
        for (int64_t i = 0; i < pl_tensor_n_elems(&x); i++) {
            int64_t rest = i;
            bool is_in = true;
            for (int d = x.rank - 1; d >= 0; d--) {
                const int64_t at = d == x.rank - 1 ? prefetch_cases[_i].p.at : 0,
                              k = rest % x.shape[d] - at;
                is_in = is_in && k >= 0 && k < s.d[d];
                rest /= x.shape[d];
            }
            ck_assert(get_elem(got, x.dtype, i) == (is_in ? get_elem(want, x.dtype, i) : 0.0));
        }
        free(got);
        free(want);
        free_tensor(&x);
        free_tensor(&y);
        build_free(b);
    }
}
END_TEST

/* ---- edges that cut no vector ---- */

struct whole_params {
    int32_t row, col, clip; /* clip: columns of the window that count */
    double fill;
};

enum { WHOLE_ROWS = 8, WHOLE_VECTORS = 32 }; /* two vectors a thread */

/* The window of x at (row, col) to the same one of y, and with what fills it to z. */
static void whole_body(pl_builder *b, const void *params)
{
    const struct whole_params *p = params;
    const pl_load_opt filled = {.oob = PL_OOB_FILL, .fill = p->fill};
    pl_ref x = pl_param(b, 0);
    const pl_shape s = PL_SHAPE(WHOLE_ROWS, WHOLE_VECTORS * 128 / pl_dtype_bits(pl_dtype_of(b, x)));
    const pl_offs at = PL_OFF(b, p->row, p->col), from = PL_OFF(b, 0, 0);
    pl_ref window = pl_window(b, x, at, s);
    if (p->clip > 0)
        window = pl_clip(b, window, 1, p->clip);
    pl_val v = pl_load_ex(b, window, &filled);
    pl_store(b, pl_window(b, pl_param(b, 1), at, s), v);
    pl_store(b, pl_window(b, pl_param(b, 2), from, s), v);
}
TENSORS(whole, 1, 2);

/* Rows begin at multiples of 16 bytes, whether they are whole vectors or not. */
static void check_whole(const struct whole_params *p, int arch, pl_dtype t, pl_shape s)
{
    const int64_t vec = 128 / pl_dtype_bits(t), cols = WHOLE_VECTORS * vec,
                  gap = (vec - s.d[1] % vec) % vec;
    pl_tensor x = tensor_new(t, s, gap, 0), y = tensor_new(t, s, gap, 0),
              z = tensor_new(t, PL_SHAPE(WHOLE_ROWS, cols), 0, 0);
    void *hx = fill_random(&x), *before = fill_random(&y);
    fill_bytes(&z, 0x5a);
    const struct ask a = {.kernel = &whole,
                          .params = p,
                          .params_bytes = sizeof *p,
                          .arch = arch,
                          .args = {pl_arg_tensor(x), pl_arg_tensor(y), pl_arg_tensor(z)},
                          .grid = {1, 1, 1},
                          .facts = all_facts};
    struct build *b = build_ok(&a);
    if (gap == 0) {
        ck_assert_uint_eq(count(b->out.text, "ld.global"), 2);
        ck_assert_uint_eq(count(b->out.text, "st.global"), 4);
    }
    expect_read_back(b);
    launch_ok(b, &a);
    void *gy = fetch(&y), *gz = fetch(&z);
    for (int64_t i = 0; i < WHOLE_ROWS * cols; i++) {
        const int64_t r = i / cols + p->row, c = i % cols + p->col;
        const bool is_in = r >= 0 && r < s.d[0] && c >= 0 && c < s.d[1],
                   is_read = is_in && (p->clip <= 0 || i % cols < p->clip);
        const double want = is_read ? get_elem(hx, t, r * x.strides[0] + c) : p->fill;
        ck_assert_msg(get_elem(gz, t, i) == want, "sm_%d %s z %lld: %g, not %g", arch,
                      pl_dtype_name(t), (long long)i, get_elem(gz, t, i), want);
        if (is_in)
            set_elem(before, t, r * y.strides[0] + c, want);
    }
    for (int64_t i = 0; i < pl_tensor_n_elems(&y); i++)
        ck_assert(get_elem(gy, t, place_of(&y, i)) == get_elem(before, t, place_of(&y, i)));
    free(hx), free(before), free(gy), free(gz);
    free_tensor(&x), free_tensor(&y), free_tensor(&z);
    build_free(b);
}

/* Random windows; where rows are whole vectors they begin and end between two, else anywhere or between two in turn. */
static void check_windows(int test, bool has_whole_rows)
{
    static const pl_dtype types[] = {PL_U8, PL_I16, PL_BF16, PL_F32, PL_F64};
    const int arch = chips[test % N_CHIPS];
    driver_use(arch, policies[test % N_POLICIES]);
    for (int i = 0; i < test; i++) /* each test is a process of its own: other numbers in each */
        (void)random_below(&rnd, 2);
    for (int n = 0; n < 30; n++) {
        const pl_dtype t = types[random_below(&rnd, PL_COUNT(types))];
        const int32_t vec = 128 / pl_dtype_bits(t), step = has_whole_rows || n % 2 == 0 ? vec : 1;
        const struct whole_params p = {.row = (int32_t)random_below(&rnd, 16) - 6,
                                       .col = ((int32_t)random_below(&rnd, 24) - 8) * step,
                                       .clip = (int32_t)random_below(&rnd, 24) * step,
                                       .fill = (double)random_below(&rnd, 7)};
        const int64_t rows = 1 + (int64_t)random_below(&rnd, 12),
                      up_to = (int64_t)random_below(&rnd, 40) * vec,
                      rest = 1 + (int64_t)random_below(&rnd, (uint64_t)vec - 1);
        check_whole(&p, arch, t, PL_SHAPE(rows, up_to + (has_whole_rows ? vec : rest)));
    }
}

START_TEST(edges_between_vectors_take_one_predicate_a_vector) { check_windows(_i, true); }
END_TEST

START_TEST(edges_inside_vectors_take_one_predicate_an_element) { check_windows(_i, false); }
END_TEST

/* ---- what L2 keeps ---- */

/* x (64, 64) to y and a run of it to z, by the engine, all with a policy or none. */
static void kept_body(pl_builder *b, const void *params)
{
    const int32_t keep = *(const int32_t *)params;
    const pl_copy_opt in = {.keep_in_l2 = keep}, out = {.keep_in_l2 = -keep},
                      sum = {.keep_in_l2 = keep, .reduce = PL_ADD};
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1), z = pl_param(b, 2);
    pl_ref tile = pl_smem(b, PL_F32, PL_SHAPE(64, 64), PL_SWIZZLE_AUTO),
           run = pl_smem(b, PL_F32, PL_SHAPE(256), PL_SWIZZLE_NONE);
    pl_bar full = pl_barrier(b, 2);
    pl_copy_gmem_to_smem_ex(b, pl_window(b, x, PL_OFF(b, 0, 0), PL_SHAPE(64, 64)), tile, full, &in);
    pl_copy_gmem_to_smem_ex(b, pl_window(b, z, PL_OFF(b, 0), PL_SHAPE(256)), run, full, &in);
    pl_barrier_wait(b, full);
    pl_copy_smem_to_gmem_ex(b, tile, pl_window(b, y, PL_OFF(b, 0, 0), PL_SHAPE(64, 64)), &sum);
    pl_copy_smem_to_gmem_ex(b, run, pl_window(b, z, PL_OFF(b, 256), PL_SHAPE(256)), &out);
    pl_copy_smem_to_gmem_ex(b, run, pl_window(b, z, PL_OFF(b, 512), PL_SHAPE(256)), &sum);
    pl_wait_smem_to_gmem(b, 0);
}

START_TEST(copies_say_what_l2_keeps)
{
    random_turn(&rnd, _i);
    static const pl_param_decl decls[] = {{.name = "x",
                                           .role = PL_ROLE_IN,
                                           .min_rank = 2,
                                           .max_rank = 2,
                                           .dtypes = PL_DT_ANY,
                                           .baked_dims = 3},
                                          {.name = "y",
                                           .role = PL_ROLE_OUT,
                                           .min_rank = 2,
                                           .max_rank = 2,
                                           .dtypes = PL_DT_ANY,
                                           .baked_dims = 3},
                                          {.name = "z",
                                           .role = PL_ROLE_INOUT,
                                           .min_rank = 1,
                                           .max_rank = 1,
                                           .dtypes = PL_DT_ANY,
                                           .baked_dims = 1}};
    static const pl_kernel kept = {.struct_size = sizeof(pl_kernel),
                                   .name = "kept",
                                   .params = decls,
                                   .n_params = 3,
                                   .params_bytes = 4,
                                   .n_configs = 1,
                                   .body = kept_body};
    const int arch = chips[1 + _i / 2];
    const int32_t keep = _i % 2;
    driver_use(arch, policies[_i % N_POLICIES]);
    pl_tensor x = tensor_new(PL_F32, PL_SHAPE(64, 64), 0, 0),
              y = tensor_new(PL_F32, PL_SHAPE(64, 64), 0, 0),
              z = tensor_new(PL_F32, PL_SHAPE(768), 0, 0);
    void *a = fill_random(&x), *before = fill_random(&y), *c = fill_random(&z);
    const struct ask ask = {.kernel = &kept,
                            .params = &keep,
                            .arch = arch,
                            .args = {pl_arg_tensor(x), pl_arg_tensor(y), pl_arg_tensor(z)},
                            .grid = {1, 1, 1},
                            .facts = all_facts};
    struct build *b = build_ok(&ask);
    ck_assert_uint_eq(count(b->out.text, "L2::cache_hint"), keep ? 5 : 0);
    ck_assert_uint_eq(count(b->out.text, "createpolicy.fractional.L2::evict_last"), keep != 0);
    ck_assert_uint_eq(count(b->out.text, "createpolicy.fractional.L2::evict_first"), keep != 0);
    expect_read_back(b);
    launch_ok(b, &ask);
    void *got = fetch(&y), *runs = fetch(&z);
    for (int64_t i = 0; i < 64 * 64; i++)
        ck_assert(get_elem(got, PL_F32, i) == get_elem(a, PL_F32, i) + get_elem(before, PL_F32, i));
    for (int64_t i = 0; i < 256; i++) {
        ck_assert(get_elem(runs, PL_F32, 256 + i) == get_elem(c, PL_F32, i));
        ck_assert(get_elem(runs, PL_F32, 512 + i) ==
                  get_elem(c, PL_F32, i) + get_elem(c, PL_F32, 512 + i));
    }
    free(a);
    free(before);
    free(c);
    free(got);
    free(runs);
    free_tensor(&x);
    free_tensor(&y);
    free_tensor(&z);
    build_free(b);
}
END_TEST

/* ---- tests of a barrier ---- */

/* A warp fetches row after row, asks for each until it is there, and the CTA stores it; n counts the times it was not. */
static void poll_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_block_warpgroups(b, 2);
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1), n = pl_param(b, 2);
    pl_ref buf = pl_smem(b, PL_F32, PL_SHAPE(2, 256), PL_SWIZZLE_NONE);
    const pl_barrier_desc two = {.n_barriers = 2, .n_arrivals = 1};
    pl_bar full = pl_barriers(b, &two), go = pl_barrier(b, 1), empty = pl_barrier(b, 1);
    PL_WARP(b, 0, 0)
    {
        pl_ref n_waits = pl_regs(b, PL_I32, PL_SHAPE_SCALAR, pl_layout_auto(), 0);
        PL_FOR(b, i, 0, pl_dim(b, x, 0))
        {
            pl_val slot = pl_rem(b, pl_cast(b, i, PL_I32), 2);
            pl_bar mine = pl_bar_at(b, full, slot);
            pl_copy_gmem_to_smem(b, pl_window(b, pl_at(b, x, i), PL_OFF(b, 0), PL_SHAPE(256)),
                                 pl_at(b, buf, slot), mine);
            PL_LOOP(b)
            {
                pl_break_if(b, pl_barrier_test(b, mine));
                pl_store(b, n_waits, pl_add(b, pl_load(b, n_waits), 1));
            }
            pl_barrier_wait(b, mine); /* does not wait: takes its phase */
            pl_barrier_arrive(b, go);
            pl_barrier_wait(b, empty);
        }
        pl_store(b, pl_at(b, n, 0), pl_load(b, n_waits));
    }
    PL_WARPGROUP(b, 1)
    {
        PL_FOR(b, i, 0, pl_dim(b, x, 0))
        {
            pl_barrier_wait(b, go);
            pl_ref row = pl_at(b, buf, pl_rem(b, pl_cast(b, i, PL_I32), 2));
            pl_store(b, pl_window(b, pl_at(b, y, i), PL_OFF(b, 0), PL_SHAPE(256)), pl_load(b, row));
            pl_barrier_arrive(b, empty);
        }
    }
}
TENSORS(poll, 1, 2);

START_TEST(a_barrier_can_be_asked)
{
    random_turn(&rnd, _i);
    const int arch = chips[_i / N_POLICIES];
    const char *policy = policies[_i % N_POLICIES];
    driver_use(arch, policy);
    pl_tensor x = tensor_new(PL_F32, PL_SHAPE(7, 256), 0, 0),
              y = tensor_new(PL_F32, PL_SHAPE(7, 256), 0, 0),
              n = tensor_new(PL_I32, PL_SHAPE(1), 0, 0);
    void *want = fill_random(&x);
    fill_bytes(&y, 0xff);
    fill_bytes(&n, 0xff);
    run_ok(&(struct ask){.kernel = &poll,
                         .arch = arch,
                         .args = {pl_arg_tensor(x), pl_arg_tensor(y), pl_arg_tensor(n)},
                         .grid = {1, 1, 1},
                         .facts = all_facts});
    void *got = fetch(&y), *times = fetch(&n);
    for (int64_t i = 0; i < 7 * 256; i++)
        ck_assert(get_elem(got, PL_F32, i) == get_elem(want, PL_F32, i));
    if (arch >= 90 && strcmp(policy, "late") == 0) /* as late as allowed: it was asked in vain */
        ck_assert(get_elem(times, PL_I32, 0) > 0);
    ck_assert(get_elem(times, PL_I32, 0) >= 0);
    free(times);
    free(got);
    free(want);
    free_tensor(&x);
    free_tensor(&y);
    free_tensor(&n);
}
END_TEST

/* ---- gathered rows ---- */

struct gather_params {
    int32_t n, width, swizzle_bytes, col, clip, row; /* clip: of the rows, 0: none; row: first */
    int32_t is_one;                                  /* every index is the first */
};

static void gathered_body(pl_builder *b, const void *params)
{
    const struct gather_params *p = params;
    pl_ref x = pl_param(b, 0), rows = pl_param(b, 1), y = pl_param(b, 2);
    const pl_dtype t = pl_dtype_of(b, x);
    const pl_shape s = PL_SHAPE(p->n, p->width);
    pl_ref buf = pl_smem(b, t, s, swizzled(t, p->swizzle_bytes));
    pl_bar full = pl_barrier(b, 1);
    if (p->col != 0 || p->row != 0) /* as large as any tensor here */
        x = pl_window(b, x, PL_OFF(b, p->row, p->col), PL_SHAPE(64, p->width));
    if (p->clip != 0)
        x = pl_clip(b, x, 0, p->clip);
    PL_FOR(b, i, 0, pl_dim(b, rows, 0))
    {
        pl_val index = pl_load(b, pl_window(b, pl_at(b, rows, i), PL_OFF(b, 0), PL_SHAPE(p->n)));
        if (p->is_one)
            index = pl_broadcast(b, pl_load(b, pl_at(b, pl_at(b, rows, i), 0)), 0, p->n);
        pl_gather_rows(b, x, index, buf, full);
        pl_barrier_wait(b, full);
        pl_store(b, pl_window(b, pl_at(b, y, i), PL_OFF(b, 0, 0), s), pl_load(b, buf));
    }
}
TENSORS(gathered, 2, 1);

static const struct gather_case {
    pl_dtype t;
    pl_shape tensor;
    struct gather_params p;
    pl_fact_set facts;
    uint32_t baked;
    bool is_bulk; /* where the chip has bulk copies */
} gather_cases[] = {
    {PL_F32, {2, {50, 64}}, {16, 64, 0, 0, 0, 0, 0}, 7, 0, true},
    {PL_F32, {2, {50, 64}}, {200, 64, 0, 0, 0, 0, 0}, 7, 0, true},
    {PL_BF16, {2, {50, 64}}, {16, 64, 0, 0, 0, 0, 0}, 7, 3, true}, /* static extents */
    {PL_BF16, {2, {50, 64}}, {64, 64, 128, 0, 0, 0, 0}, 7, 0, false},
    {PL_F16, {2, {50, 40}}, {32, 64, 0, 0, 0, 0, 0}, 7, 0, true}, /* wider than the tensor */
    {PL_F16, {2, {50, 80}}, {32, 32, 0, 8, 0, 0, 0}, 7, 0, true},
    {PL_F16, {2, {50, 80}}, {30, 32, 0, 5, 0, 0, 0}, 7, 0, false},
    {PL_F32, {2, {50, 64}}, {16, 64, 0, 0, 20, 0, 0}, 7, 0, true}, /* a clip */
    {PL_F32, {2, {50, 64}}, {16, 64, 0, 0, 0, 7, 0}, 7, 0, true},  /* a window of rows */
    {PL_U8, {2, {50, 48}}, {16, 48, 0, 0, 0, 0, 0}, PL_FACT_I32, 0, false},
    {PL_I8, {2, {50, 33}}, {9, 33, 0, 0, 0, 0, 0}, 7, 0, false},
    {PL_F64, {2, {50, 6}}, {132, 6, 0, 0, 0, 0, 0}, 7, 0, true},
    {PL_F32, {2, {50, 64}}, {16, 64, 0, 0, 0, 0, 1}, 7, 0, true},
    {PL_F32, {2, {1, 4}}, {4, 4, 0, 0, 0, 0, 0}, 7, 0, true},
    {PL_F16, {2, {50, 80}}, {32, 32, 0, -8, 0, 0, 0}, 7, 0, true}, /* begins ahead of the row */
    {PL_F32, {2, {50, 64}}, {16, 64, 0, -4, 0, 0, 0}, 7 | PL_FACT_WHOLE16, 0, true},
    {PL_F32, {2, {50, 64}}, {16, 32, 0, -32, 0, 0, 0}, 7, 3, true}, /* all of it does */
    {PL_F32, {2, {50, 64}}, {16, 24, 0, -5, 0, -3, 0}, 7, 0, false},
};
enum { N_GATHER = sizeof gather_cases / sizeof gather_cases[0], N_ROUNDS = 3 };

/* Indexes of rows, some of them of none. */
static void *fill_indexes(const pl_tensor *t, int64_t n_rows)
{
    static const double odd[] = {-1, INT32_MIN, INT32_MAX, 50, 64, 1 << 20};
    char *host = calloc(1, tensor_span(t) + 1);
    for (int64_t i = 0; i < pl_tensor_n_elems(t); i++)
        set_elem(host, PL_I32, i,
                 i % 5 == 3 ? odd[random_below(&rnd, 6)]
                            : (double)random_below(&rnd, (uint64_t)n_rows));
    ck_assert_int_eq(emu.HtoD(t->address, host, tensor_span(t)), 0);
    return host;
}

static void run_gather(const struct gather_case *c, int arch)
{
    const struct gather_params *p = &c->p;
    const pl_param_decl decls[] = {
        {.name = "x",
         .role = PL_ROLE_IN,
         .min_rank = 2,
         .max_rank = 2,
         .dtypes = PL_DT_ANY,
         .baked_dims = c->baked},
        {.name = "rows", .role = PL_ROLE_IN, .min_rank = 2, .max_rank = 2, .dtypes = PL_DT_ANY},
        {.name = "y", .role = PL_ROLE_OUT, .min_rank = 3, .max_rank = 3, .dtypes = PL_DT_ANY}};
    pl_kernel k = gathered;
    k.params = decls;
    pl_tensor x = tensor_new(c->t, c->tensor, 0, 0),
              rows = tensor_new(PL_I32, PL_SHAPE(N_ROUNDS, p->n), 0, 0),
              y = tensor_new(c->t, PL_SHAPE(N_ROUNDS, p->n, p->width), 0, 0);
    void *from = fill_random(&x), *index = fill_indexes(&rows, c->tensor.d[0]);
    fill_bytes(&y, 0x3f);
    const struct ask a = {.kernel = &k,
                          .params = p,
                          .params_bytes = sizeof *p,
                          .arch = arch,
                          .args = {pl_arg_tensor(x), pl_arg_tensor(rows), pl_arg_tensor(y)},
                          .grid = {1, 1, 1},
                          .facts = c->facts};
    struct build *b = build_ok(&a);
    ck_assert_int_eq(count(b->out.text, "cp.async.bulk.shared") > 0, c->is_bulk && arch >= 90);
    expect_read_back(b);
    launch_ok(b, &a);
    void *got = fetch(&y);
    for (int64_t i = 0; i < pl_tensor_n_elems(&y); i++) {
        const int64_t col = i % p->width, k_row = i / p->width;
        const int64_t at =
            (int64_t)get_elem(index, PL_I32, p->is_one ? k_row / p->n * p->n : k_row);
        const int64_t end = p->clip != 0 ? p->clip : c->tensor.d[0],
                      limit = p->col != 0 || p->row != 0 ? 64 : INT64_MAX;
        const bool is_in = at >= 0 && at < limit && at + p->row >= 0 && at + p->row < end &&
                           col + p->col >= 0 && col + p->col < c->tensor.d[1];
        const double want =
            is_in ? get_elem(from, c->t, (at + p->row) * c->tensor.d[1] + col + p->col) : 0.0;
        ck_assert_msg(get_elem(got, c->t, i) == want, "case %d sm_%d element %lld: got %g, not %g",
                      (int)(c - gather_cases), arch, (long long)i, get_elem(got, c->t, i), want);
    }
    free(got);
    free(from);
    free(index);
    free_tensor(&x);
    free_tensor(&rows);
    free_tensor(&y);
    build_free(b);
}

START_TEST(rows_are_gathered)
{
    random_turn(&rnd, _i);
    for (int chip = 0; chip < N_CHIPS; chip++)
        for (int policy = 0; policy < N_POLICIES; policy++) {
            driver_use(chips[chip], policies[policy]);
            run_gather(&gather_cases[_i], chips[chip]);
        }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("plan_ops");
    TCase *t = tcase_create("ops");
    tcase_set_timeout(t, 120);
    rnd = random_start("plan_ops");
    tcase_add_loop_test(t, prefetches_ask_for_what_is_there, 0, N_PREFETCH);
    tcase_add_loop_test(t, edges_between_vectors_take_one_predicate_a_vector, 0,
                        N_CHIPS * N_POLICIES);
    tcase_add_loop_test(t, edges_inside_vectors_take_one_predicate_an_element, 0,
                        N_CHIPS * N_POLICIES);
    tcase_add_loop_test(t, copies_say_what_l2_keeps, 0, 2 * (N_CHIPS - 1));
    tcase_add_loop_test(t, a_barrier_can_be_asked, 0, N_CHIPS * N_POLICIES);
    tcase_add_loop_test(t, rows_are_gathered, 0, N_GATHER);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
