/*
 * Loops, branches, variables and the hazards between their rounds, and transposed views, end to end on the emulated driver.
 */
#include "tests/plan_data.h"

enum { N_CHIPS = 4 };
static const int chips[N_CHIPS] = {80, 90, 100, 120};

/* Rounds that exchange an array by other threads than stored it: what is stored is the same everywhere, whatever its layout. */
static void rounds_body(pl_builder *b, const void *params)
{
    (void)params;
    const pl_shape s = PL_SHAPE(64);
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    pl_ref buf = pl_smem(b, pl_dtype_of(b, x), s, PL_SWIZZLE_NONE);
    pl_ref sum = pl_regs(b, pl_dtype_of(b, x), s, pl_layout_strided(2), 0);
    pl_val first = pl_load(b, pl_window(b, x, PL_OFF(b, 0), s));
    pl_store(b, buf, pl_layout_cast(b, first, pl_layout_strided(2)));
    PL_FOR(b, i, 0, 3)
    {
        pl_val same = pl_broadcast(b, pl_cast(b, i, pl_dtype_of(b, x)), 0, 64);
        pl_val pairs = pl_layout_cast(b, same, pl_layout_strided(2));
        pl_val old = pl_swap(b, buf, pl_sub(b, pairs, pairs));
        pl_store(b, sum, pl_add(b, pl_load(b, sum), old));
    }
    pl_store(b, pl_window(b, y, PL_OFF(b, 0), s), pl_load(b, sum));
}
TENSORS(rounds, 1, 1);

START_TEST(rounds_wait_for_what_is_the_same_everywhere)
{
    driver_use(90, "late");
    ck_assert_int_eq(emu.configure("check", "race"), 0);
    pl_tensor x = tensor_new(PL_I32, PL_SHAPE(64), 0, 0),
              y = tensor_new(PL_I32, PL_SHAPE(64), 0, 0);
    void *in = fill_random(&x);
    const struct ask a = {.kernel = &rounds,
                          .arch = 90,
                          .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                          .grid = {1, 1, 1},
                          .facts = all_facts};
    run_ok(&a);
    ck_assert_int_eq(emu.configure("check", "faults"), 0);
    void *got = fetch(&y);
    for (int i = 0; i < 64; i++)
        ck_assert(get_elem(got, PL_I32, i) == get_elem(in, PL_I32, i));
    free(in);
    free(got);
    free_tensor(&x);
    free_tensor(&y);
}
END_TEST

enum { N_SEEN = 128, N_COUNTS = 5 };

/* A counter in GMEM, one up by a store and one by an atomic in each round: every thread sees what the unit did before. */
static void count_in(pl_builder *b, pl_ref counter, pl_ref seen)
{
    PL_FOR(b, i, 0, N_COUNTS)
    {
        pl_val before = pl_load(b, counter);
        pl_store(b, counter, pl_add(b, before, 1));
        pl_val after = pl_load(b, counter);
        pl_atomic_add(b, counter, 1);
        pl_store(b, seen, pl_add(b, pl_load(b, seen), pl_add(b, before, after)));
    }
}

static void counted_body(pl_builder *b, const void *params)
{
    const int32_t *is_warp = params;
    pl_ref counters = pl_param(b, 0), to = pl_param(b, 1);
    pl_ref seen = pl_regs(b, PL_I32, PL_SHAPE_SCALAR, pl_layout_auto(), 0);
    if (*is_warp) {
        PL_WARP(b, 0, 1)
        {
            count_in(b, pl_at(b, counters, 0), seen);
            pl_store(b, pl_at(b, to, 0), pl_load(b, seen));
        }
        return;
    }
    count_in(b, pl_at(b, counters, 0), seen);
    pl_store(b, pl_window(b, to, PL_OFF(b, 0), PL_SHAPE(N_SEEN)), pl_load(b, seen));
}
TENSORS(counted, 0, 2);

START_TEST(elements_are_read_and_written_in_the_order_of_the_unit)
{
    const int32_t is_warp = _i % 2, arch = chips[_i / 2];
    driver_use(arch, "late");
    ck_assert_int_eq(emu.configure("check", "race"), 0);
    pl_tensor counters = tensor_new(PL_I32, PL_SHAPE(1), 0, 0),
              to = tensor_new(PL_I32, PL_SHAPE(is_warp ? 1 : N_SEEN), 0, 0);
    fill_bytes(&counters, 0);
    const struct ask a = {.kernel = &counted,
                          .params = &is_warp,
                          .params_bytes = sizeof is_warp,
                          .arch = arch,
                          .args = {pl_arg_tensor(counters), pl_arg_tensor(to)},
                          .grid = {1, 1, 1},
                          .facts = all_facts};
    run_ok(&a);
    ck_assert_int_eq(emu.configure("check", "faults"), 0);
    void *count = fetch(&counters), *seen = fetch(&to);
    ck_assert_int_eq((int)get_elem(count, PL_I32, 0), 2 * N_COUNTS);
    for (int i = 0; i < (is_warp ? 1 : N_SEEN); i++) /* 0 + 1, 2 + 3, ... */
        ck_assert_int_eq((int)get_elem(seen, PL_I32, i), N_COUNTS * (2 * N_COUNTS - 1));
    free(count);
    free(seen);
    free_tensor(&counters);
    free_tensor(&to);
}
END_TEST

/* ---- control flow, iota, extract, transposed views ---- */

struct flow_params {
    int32_t n;
};

/* y[i] = i < k ? x[k - 1 - i'] ... : a while loop that counts, an if and an else, and iota against a bound */
static void flow_body(pl_builder *b, const void *params)
{
    const struct flow_params *p = params;
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    if (pl_has_tma(b)) {
        pl_griddep_wait(b);
        pl_griddep_launch(b);
    }
    pl_ref count = pl_regs(b, PL_I32, PL_SHAPE_SCALAR, pl_layout_auto(), 0);
    pl_ref odd = pl_regs(b, PL_I32, PL_SHAPE_SCALAR, pl_layout_auto(), 0);
    pl_val first = pl_cast(b, pl_load(b, pl_at(b, x, 0)), PL_I32);
    PL_WHILE(b, pl_lt(b, pl_load(b, count), first))
    {
        pl_val c = pl_load(b, count);
        PL_IF(b, pl_eq(b, pl_rem(b, c, 2), 1)) { pl_store(b, odd, pl_add(b, pl_load(b, odd), 10)); }
        PL_ELSE(b) { pl_store(b, odd, pl_add(b, pl_load(b, odd), 1)); }
        pl_break_if(b, pl_eq(b, c, 5));
        pl_store(b, count, pl_add(b, c, 1));
    }
    const pl_shape s = PL_SHAPE(p->n);
    pl_val i = pl_iota(b, PL_I32, s, 0);
    pl_val v = pl_cast(b, pl_load(b, pl_window(b, x, PL_OFF(b, 0), s)), PL_I32);
    pl_val w =
        pl_select(b, pl_lt(b, i, pl_load(b, count)), pl_add(b, v, pl_load(b, odd)), pl_neg(b, i));
    pl_store(b, pl_window(b, y, PL_OFF(b, 0), s), w);
}
TENSORS(flow, 1, 1);

START_TEST(control_flow_and_variables_are_right)
{
    for (int first = 0; first < 8; first++) {
        const int arch = chips[random_below(&rnd, N_CHIPS)];
        const struct flow_params p = {.n = 50 + 13 * first};
        driver_use(arch, "late");
        pl_tensor x = tensor_new(PL_F32, PL_SHAPE(p.n), 0, 0),
                  y = tensor_new(PL_I32, PL_SHAPE(p.n), 0, 0);
        void *host = fill_random(&x);
        set_elem(host, PL_F32, 0, first);
        ck_assert_int_eq(emu.HtoD(x.address, host, tensor_span(&x)), 0);
        struct ask a = {.kernel = &flow,
                        .params = &p,
                        .params_bytes = sizeof p,
                        .arch = arch,
                        .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                        .grid = {1, 1, 1},
                        .facts = all_facts};
        run_ok(&a);
        int32_t *got = fetch(&y);
        int count = 0, odd = 0;
        while (count < first) {
            odd += count % 2 == 1 ? 10 : 1;
            if (count == 5)
                break;
            count++;
        }
        for (int i = 0; i < p.n; i++)
            ck_assert_int_eq(got[i], i < count ? (int)get_elem(host, PL_F32, i) + odd : -i);
        free(host);
        free(got);
        free_tensor(&x);
        free_tensor(&y);
    }
}
END_TEST

struct turn_params {
    int32_t rows, cols, swizzle_bytes;
};

enum { TURN_ROUNDS = 5, TURN_ROWS = 8, TURN_COLS = 64 };

/* Rounds that turn a tile in one buffer: threads store what others copy out, and the next round's stores come behind those copies. */
static void turn_rounds_body(pl_builder *b, const void *params)
{
    const pl_copy_opt out = {.how = PL_HOW_ELEMENTS};
    (void)params;
    pl_ref tile = pl_smem(b, PL_F32, PL_SHAPE(TURN_ROWS, TURN_COLS), PL_SWIZZLE(0));
    PL_FOR(b, i, 0, TURN_ROUNDS)
    {
        const pl_offs at = PL_OFF(b, i, 0);
        pl_val v = pl_load(b, pl_tile(b, pl_param(b, 0), at, PL_SHAPE(TURN_COLS, TURN_ROWS)));
        pl_store(b, pl_transpose(b, tile), v);
        pl_commit_smem(b);
        pl_copy_smem_to_gmem_ex(
            b, tile, pl_tile(b, pl_param(b, 1), at, PL_SHAPE(TURN_ROWS, TURN_COLS)), &out);
        pl_wait_smem_to_gmem(b, 0);
    }
}
TENSORS(turn_rounds, 1, 1);

START_TEST(copies_of_a_round_are_made_before_the_next_stores)
{
    random_turn(&rnd, _i);
    driver_use(chips[_i], "eager");
    pl_tensor x = tensor_new(PL_F32, PL_SHAPE(TURN_ROUNDS * TURN_COLS, TURN_ROWS), 0, 0),
              y = tensor_new(PL_F32, PL_SHAPE(TURN_ROUNDS * TURN_ROWS, TURN_COLS), 0, 0);
    struct ask a = {.kernel = &turn_rounds,
                    .arch = chips[_i],
                    .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                    .grid = {1, 1, 1},
                    .facts = all_facts};
    void *from = fill_random(&x);
    run_ok(&a);
    void *to = fetch(&y);
    for (int64_t i = 0; i < TURN_ROUNDS * TURN_ROWS * TURN_COLS; i++) {
        const int64_t round = i / (TURN_ROWS * TURN_COLS), row = i / TURN_COLS % TURN_ROWS,
                      col = i % TURN_COLS;
        ck_assert_msg(get_elem(to, PL_F32, i) ==
                          get_elem(from, PL_F32, (round * TURN_COLS + col) * TURN_ROWS + row),
                      "sm_%d: round %d row %d column %d", chips[_i], (int)round, (int)row,
                      (int)col);
    }
    free(from);
    free(to);
    free_tensor(&x);
    free_tensor(&y);
}
END_TEST

/* A loop left in the middle of a round: what its threads read there from each other is read before they store again. */
static void leave_body(pl_builder *b, const void *params)
{
    const pl_shape whole = PL_SHAPE(TURN_COLS, TURN_ROWS);
    (void)params;
    pl_ref tile = pl_smem(b, PL_F32, whole, PL_SWIZZLE(0)),
           x = pl_tile(b, pl_param(b, 0), PL_OFF(b, 0, 0), whole),
           y = pl_tile(b, pl_param(b, 1), PL_OFF(b, 0, 0), whole);
    pl_ref sum =
        pl_regs(b, PL_F32, PL_SHAPE(TURN_ROWS, TURN_COLS), pl_layout_auto(), pl_lit_f(b, 0));
    pl_ref round = pl_regs(b, PL_I32, PL_SHAPE_SCALAR, pl_layout_auto(), pl_lit_i(b, 0));
    pl_store(b, tile, pl_load(b, x));
    pl_commit_smem(b);
    PL_LOOP(b)
    {
        pl_store(b, sum, pl_add(b, pl_load(b, sum), pl_load(b, pl_transpose(b, tile))));
        pl_store(b, round, pl_add(b, pl_load(b, round), 1));
        pl_break_if(b, pl_ge(b, pl_load(b, round), TURN_ROUNDS));
        pl_commit_smem(b);
    }
    pl_store(b, tile, pl_neg(b, pl_load(b, tile)));
    pl_store(b, pl_transpose(b, y), pl_add(b, pl_load(b, sum), pl_load(b, pl_transpose(b, tile))));
}
TENSORS(leave, 1, 1);

START_TEST(loads_before_the_end_of_a_loop_are_made_before_the_stores_behind_it)
{
    random_turn(&rnd, _i);
    driver_use(chips[_i], "eager");
    ck_assert_int_eq(emu.configure("check", "race"), 0);
    pl_tensor x = tensor_new(PL_F32, PL_SHAPE(TURN_COLS, TURN_ROWS), 0, 0),
              y = tensor_new(PL_F32, PL_SHAPE(TURN_COLS, TURN_ROWS), 0, 0);
    struct ask a = {.kernel = &leave,
                    .arch = chips[_i],
                    .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                    .grid = {1, 1, 1},
                    .facts = all_facts};
    float *from = fill_random(&x);
    run_ok(&a);
    emu.configure("check", "faults");
    float *to = fetch(&y);
    for (int i = 0; i < TURN_COLS * TURN_ROWS; i++) {
        float want = 0; /* in the order of the rounds */
        for (int round = 0; round < TURN_ROUNDS; round++)
            want += from[i];
        ck_assert_msg(to[i] == want - from[i], "sm_%d: element %d", chips[_i], i);
    }
    free(from);
    free(to);
    free_tensor(&x);
    free_tensor(&y);
}
END_TEST

/* Copies out that only one way through the body waits for: shared memory outlives them on the others too. */
enum { PENDING_BRANCH, PENDING_BREAK, PENDING_NO_ROUNDS, N_PENDING };

static void pending_body(pl_builder *b, const void *params)
{
    const int32_t *where = params;
    const pl_shape whole = PL_SHAPE(TURN_ROWS, TURN_COLS);
    pl_ref y = pl_tile(b, pl_param(b, 1), PL_OFF(b, 0, 0), whole),
           tile = pl_smem(b, PL_F32, whole, PL_SWIZZLE(0));
    pl_val block = pl_program_id(b, 0); /* 0 */
    pl_store(b, tile, pl_load(b, pl_tile(b, pl_param(b, 0), PL_OFF(b, 0, 0), whole)));
    pl_commit_smem(b);
    if (*where != PENDING_BREAK)
        pl_copy_smem_to_gmem(b, tile, y);
    if (*where == PENDING_BRANCH)
        PL_IF(b, pl_gt(b, block, 0)) { pl_wait_smem_to_gmem(b, 0); }
    if (*where == PENDING_NO_ROUNDS)
        PL_FOR(b, i, 0, block) { pl_wait_smem_to_gmem(b, 0); }
    if (*where == PENDING_BREAK)
        PL_LOOP(b)
        {
            pl_copy_smem_to_gmem(b, tile, y);
            pl_break_if(b, pl_eq(b, block, 0));
            pl_wait_smem_to_gmem(b, 0);
        }
}
TENSORS(pending, 1, 1);

START_TEST(copies_out_are_made_on_every_way_to_the_end)
{
    random_turn(&rnd, _i);
    const int32_t where = _i / N_CHIPS;
    const int arch = chips[_i % N_CHIPS];
    driver_use(arch, "late");
    pl_tensor x = tensor_new(PL_F32, PL_SHAPE(TURN_ROWS, TURN_COLS), 0, 0),
              y = tensor_new(PL_F32, PL_SHAPE(TURN_ROWS, TURN_COLS), 0, 0);
    struct ask a = {.kernel = &pending,
                    .params = &where,
                    .params_bytes = sizeof where,
                    .arch = arch,
                    .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                    .grid = {1, 1, 1},
                    .facts = all_facts};
    float *from = fill_random(&x);
    run_ok(&a);
    float *to = fetch(&y);
    ck_assert_int_eq(memcmp(to, from, tensor_span(&y)), 0);
    free(from);
    free(to);
    free_tensor(&x);
    free_tensor(&y);
}
END_TEST

static void turn_body(pl_builder *b, const void *params)
{
    const struct turn_params *p = params;
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    pl_offs at = PL_OFF(b, pl_program_id(b, 1), pl_program_id(b, 0)),
            to = PL_OFF(b, pl_program_id(b, 0), pl_program_id(b, 1));
    pl_ref tile = pl_smem(b, pl_dtype_of(b, x), PL_SHAPE(p->rows, p->cols),
                          swizzled(pl_dtype_of(b, x), p->swizzle_bytes));
    pl_bar full = pl_barrier(b, 1);
    pl_copy_gmem_to_smem(b, pl_tile(b, x, at, PL_SHAPE(p->rows, p->cols)), tile, full);
    pl_barrier_wait(b, full);
    pl_store(b, pl_tile(b, y, to, PL_SHAPE(p->cols, p->rows)), pl_load(b, pl_transpose(b, tile)));
}
TENSORS(turn, 1, 1);

START_TEST(transposed_views_of_swizzled_arrays_are_right)
{
    random_turn(&rnd, _i);
    static const int swizzles[] = {0, 32, 64, 128, PL_SWIZZLE_CHOOSE};
    static const pl_dtype types[] = {PL_BF16, PL_F32, PL_I8};
    for (int n = 0; n < 6; n++) {
        const pl_dtype t = types[random_below(&rnd, 3)];
        const int arch = chips[random_below(&rnd, N_CHIPS)], es = pl_dtype_bits(t) / 8;
        const struct turn_params p = {
            .rows = 32, .cols = 128 / es, .swizzle_bytes = swizzles[random_below(&rnd, 5)]};
        const int64_t rows = 1 + (int64_t)random_below(&rnd, 80),
                      cols = 16 / es * (1 + (int64_t)random_below(&rnd, 20));
        driver_use(arch, "random:5");
        pl_tensor x = tensor_new(t, PL_SHAPE(rows, cols), 0, 0),
                  y = tensor_new(t, PL_SHAPE(cols, rows), 0, 0);
        void *host = fill_random(&x);
        struct ask a = {.kernel = &turn,
                        .params = &p,
                        .params_bytes = sizeof p,
                        .arch = arch,
                        .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                        .grid = {(uint32_t)cdiv(cols, p.cols), (uint32_t)cdiv(rows, p.rows), 1},
                        .facts = all_facts};
        run_ok(&a);
        void *got = fetch(&y);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < cols; c++)
                ck_assert_msg(get_elem(got, t, c * rows + r) == get_elem(host, t, r * cols + c),
                              "sm_%d %s swizzle %d (%lld, %lld)", arch, pl_dtype_name(t),
                              p.swizzle_bytes, (long long)r, (long long)c);
        free(host);
        free(got);
        free_tensor(&x);
        free_tensor(&y);
    }
}
END_TEST

/* ---- what was read of a variable ---- */

enum pass { BITCAST, CAST, LAYOUT_CAST, ADD_0, SHIFT_0, DIVIDE_BY_1, SELECT, ABS, AXIS, N_PASSES };

/* The same numbers, by an operation that may have nothing to do. */
static pl_val pass_on(pl_builder *b, enum pass pass, pl_val x)
{
    switch (pass) {
    case BITCAST: return pl_bitcast(b, pl_bitcast(b, x, PL_F32), PL_U32);
    case CAST: return pl_cast(b, x, PL_U32);
    case LAYOUT_CAST: return pl_layout_cast(b, x, pl_layout_strided(1));
    case ADD_0: return pl_add(b, x, 0);
    case SHIFT_0: return pl_shl(b, x, 0);
    case DIVIDE_BY_1: return pl_div(b, x, 1);
    case SELECT: return pl_select(b, pl_eq(b, pl_cast(b, 1, PL_I32), 1), x, pl_add(b, x, 5));
    case ABS: return pl_abs(b, x);
    case AXIS: return pl_reduce(b, PL_ADD, pl_broadcast(b, x, 0, 1), 0, PL_SCOPE_WARPGROUP);
    case N_PASSES: break;
    }
    return x;
}

static void stays_body(pl_builder *b, const void *params)
{
    const int32_t *pass = params;
    const pl_shape s = PL_SHAPE(256);
    pl_ref x = pl_window(b, pl_param(b, 0), PL_OFF(b, 0), s),
           y = pl_window(b, pl_param(b, 1), PL_OFF(b, 0), s);
    pl_ref var = pl_regs(b, PL_U32, s, pl_layout_strided(1), 0);
    pl_store(b, var, pl_load(b, x));
    pl_val before = pass_on(b, (enum pass) * pass, pl_load(b, var));
    pl_store(b, var, 77);
    pl_store(b, y, before);
}
TENSORS(stays, 1, 1);

START_TEST(what_was_read_of_a_variable_stays)
{
    const int32_t pass = _i;
    driver_use(80, "late");
    pl_tensor x = tensor_new(PL_U32, PL_SHAPE(256), 0, 0),
              y = tensor_new(PL_U32, PL_SHAPE(256), 0, 0);
    void *host = fill_random(&x);
    struct ask a = {.kernel = &stays,
                    .params = &pass,
                    .params_bytes = sizeof pass,
                    .arch = 80,
                    .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                    .grid = {1, 1, 1},
                    .facts = all_facts};
    run_ok(&a);
    void *got = fetch(&y);
    ck_assert_mem_eq(got, host, tensor_span(&y));
    free(host);
    free(got);
    free_tensor(&x);
    free_tensor(&y);
}
END_TEST

static Suite *make_suite(void)
{
    rnd = random_start("check_plan_flow");
    Suite *s = suite_create("plan_flow");
    TCase *t = tcase_create("results");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, copies_of_a_round_are_made_before_the_next_stores, 0, N_CHIPS);
    tcase_add_loop_test(t, loads_before_the_end_of_a_loop_are_made_before_the_stores_behind_it, 0,
                        N_CHIPS);
    tcase_add_loop_test(t, copies_out_are_made_on_every_way_to_the_end, 0, N_PENDING * N_CHIPS);
    tcase_add_test(t, rounds_wait_for_what_is_the_same_everywhere);
    tcase_add_loop_test(t, elements_are_read_and_written_in_the_order_of_the_unit, 0, 2 * N_CHIPS);
    tcase_add_test(t, control_flow_and_variables_are_right);
    tcase_add_loop_test(t, transposed_views_of_swizzled_arrays_are_right, 0, 3);
    tcase_add_loop_test(t, what_was_read_of_a_variable_stays, 0, N_PASSES);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
