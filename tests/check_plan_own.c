/*
 * Copies by elements whose data each thread reads back itself (src/plan/memory/own.c): neither fence nor barrier where that can be proved, and
 * both in each program that is one step away from it. All of them run under the race check.
 */
#include "tests/plan_data.h"
#include "tests/plan_ptxas.h"

static const char *const policies[] = {"eager", "late", "random:3", "random:8"};
static const int chips[] = {90, 100};

/* What a program does beside filling slots from a row of x and storing them to y. */
enum twist {
    PLAIN,
    TWO_LOADS,     /* z takes the slots again, in chunks of another width */
    AGAIN,         /* z takes the slots again, in the same chunks */
    SHIFTED,       /* z takes the second half of each slot */
    OTHER_SLOT,    /* z takes the slot of the next warpgroup */
    TWICE,         /* everything twice, in the same slots */
    COPIED_OUT,    /* z takes the slots by copies */
    STORED,        /* y goes through the slots, too */
    ALIASED,       /* there is another array over the slots */
    IN_TEXT,       /* the user's own instructions may reach memory */
    BY_OTHER_ROLE, /* one warpgroup copies, another loads */
};

struct own_params {
    int32_t twist, n_warpgroups, how, n_slots, cols, vec, other_vec;
    int32_t is_own; /* expected */
};

static bool has_z(const struct own_params *p)
{
    return p->twist != PLAIN && p->twist != TWICE && p->twist != BY_OTHER_ROLE;
}

struct parts {
    const struct own_params *p;
    pl_ref x, y, z, slots;
    pl_bar full;
    pl_val row, n, first;
};

static pl_ref chunk_of(pl_builder *b, const struct parts *k, pl_ref t, pl_val c)
{
    return pl_tile(b, pl_at(b, t, k->row), PL_OFF(b, c), PL_SHAPE(k->p->cols));
}

static pl_val load_in(pl_builder *b, pl_ref r, int32_t vec)
{
    const pl_load_opt o = {.layout = pl_layout_strided(vec)};
    return pl_load_ex(b, r, &o);
}

static void fill(pl_builder *b, const struct parts *k)
{
    const pl_copy_opt o = {.how = (pl_how)k->p->how};
    PL_FOR_STEP(b, c, k->first, k->n, k->p->n_warpgroups)
    {
        pl_copy_gmem_to_smem_ex(b, chunk_of(b, k, k->x, c), pl_at(b, k->slots, c),
                                pl_bar_at(b, k->full, c), &o);
    }
}

static void take(pl_builder *b, const struct parts *k)
{
    PL_FOR_STEP(b, c, k->first, k->n, k->p->n_warpgroups)
    {
        pl_barrier_wait(b, pl_bar_at(b, k->full, c));
        pl_val v = load_in(b, pl_at(b, k->slots, c), k->p->vec);
        if (k->p->twist == STORED) {
            pl_store(b, pl_at(b, k->slots, c), v);
            v = load_in(b, pl_at(b, k->slots, c), k->p->other_vec);
        }
        pl_store(b, chunk_of(b, k, k->y, c), v);
    }
}

/* What z gets of slot c, when all have waited. */
static void take_again(pl_builder *b, const struct parts *k, pl_val c)
{
    const struct own_params *p = k->p;
    pl_ref slot = pl_at(b, k->slots, c), z = chunk_of(b, k, k->z, c);
    const pl_shape half = PL_SHAPE(p->cols / 2);
    switch ((enum twist)p->twist) {
    case TWO_LOADS: pl_store(b, z, load_in(b, slot, p->other_vec)); return;
    case SHIFTED:
        pl_store(b, pl_tile(b, z, PL_OFF(b, 1), half),
                 load_in(b, pl_tile(b, slot, PL_OFF(b, 1), half), p->vec));
        return;
    case OTHER_SLOT:
        pl_store(b, z,
                 load_in(b, pl_at(b, k->slots, pl_rem(b, pl_add(b, c, 1), k->p->n_slots)), p->vec));
        return;
    case COPIED_OUT:
        pl_copy_smem_to_gmem(b, slot, z);
        pl_wait_smem_to_gmem(b, 0);
        return;
    case PLAIN:
    case TWICE:
    case BY_OTHER_ROLE: return;
    case AGAIN:
    case STORED:
    case ALIASED:
    case IN_TEXT: pl_store(b, z, load_in(b, slot, p->vec)); return;
    }
}

static void text_that_reaches_memory(pl_builder *b)
{
    const pl_ptx_desc d = {.text = "membar.cta;", .effects = PL_EFFECT_READ_MEMORY};
    pl_inline_ptx(b, &d, NULL);
}

static void fill_and_take(pl_builder *b, const struct parts *k)
{
    fill(b, k);
    take(b, k);
    if (k->p->twist == IN_TEXT)
        text_that_reaches_memory(b);
    if (k->p->twist == OTHER_SLOT)
        pl_bar_sync(b, PL_SCOPE_CTA); /* the others have waited too */
    if (has_z(k->p))
        PL_FOR_STEP(b, c, k->first, k->n, k->p->n_warpgroups) { take_again(b, k, c); }
}

static void own_body(pl_builder *b, const void *params)
{
    const struct own_params *p = params;
    const bool has_roles = p->twist == BY_OTHER_ROLE;
    const pl_barrier_desc full = {.n_barriers = p->n_slots, .n_arrivals = 1};
    pl_block_warpgroups(b, has_roles ? 2 : p->n_warpgroups);
    struct parts k = {.p = p, .x = pl_param(b, 0), .y = pl_param(b, 1), .z = pl_param(b, 2)};
    const pl_dtype t = pl_dtype_of(b, k.x);
    const pl_shape all = PL_SHAPE(p->n_slots, p->cols);
    k.slots = pl_smem(b, t, all, PL_SWIZZLE_NONE);
    if (p->twist == ALIASED)
        (void)pl_union(b, k.slots, t, all, PL_SWIZZLE_NONE);
    k.full = pl_barriers(b, &full);
    k.row = pl_program_id(b, 0);
    k.n = pl_lit_i(b, p->n_slots);
    k.first = p->n_warpgroups > 1 ? pl_warpgroup_id(b) : pl_lit_i(b, 0);
    if (has_roles) {
        PL_WARPGROUP(b, 0) { fill(b, &k); }
        PL_WARPGROUP(b, 1) { take(b, &k); }
    } else if (p->twist == TWICE) {
        PL_FOR(b, pass, 0, 2) { fill_and_take(b, &k); }
    } else {
        fill_and_take(b, &k);
    }
}
TENSORS(own, 1, 2);

/* twist, warpgroups, how, slots, columns, chunk, other chunk, own? */
static const struct own_params cases[] = {
    {PLAIN, 1, PL_HOW_AUTO, 5, 256, 2, 0, true},
    {PLAIN, 1, PL_HOW_AUTO, 3, 1024, 4, 0, true},
    {PLAIN, 1, PL_HOW_AUTO, 2, 384, 1, 0, true}, /* chunks narrower than the copy would have */
    {PLAIN, 4, PL_HOW_AUTO, 8, 512, 4, 0, true},
    {PLAIN, 1, PL_HOW_ELEMENTS, 4, 256, 2, 0, true},
    {PLAIN, 3, PL_HOW_AUTO, 6, 256, 2, 0, false}, /* residues are only told modulo powers of two */
    {AGAIN, 1, PL_HOW_AUTO, 4, 512, 4, 0, true},
    {AGAIN, 2, PL_HOW_AUTO, 4, 256, 2, 0, true},
    {TWO_LOADS, 1, PL_HOW_AUTO, 4, 512, 4, 2, false},
    {SHIFTED, 1, PL_HOW_AUTO, 4, 512, 2, 0, false},
    {OTHER_SLOT, 1, PL_HOW_AUTO, 4, 256, 2, 0, true}, /* all slots belong to the one warpgroup */
    {OTHER_SLOT, 2, PL_HOW_AUTO, 4, 256, 2, 0, false},
    {TWICE, 1, PL_HOW_AUTO, 3, 256, 2, 0, false},
    {TWICE, 2, PL_HOW_AUTO, 4, 256, 2, 0, false},
    {TWICE, 1, PL_HOW_ELEMENTS, 3, 256, 2, 0, true},
    {COPIED_OUT, 1, PL_HOW_AUTO, 3, 256, 2, 0, false},
    {STORED, 1, PL_HOW_AUTO, 3, 512, 4, 2, false},
    {ALIASED, 1, PL_HOW_AUTO, 3, 256, 2, 0, false},
    {IN_TEXT, 1, PL_HOW_AUTO, 3, 256, 2, 0, false},
    {BY_OTHER_ROLE, 1, PL_HOW_AUTO, 3, 256, 2, 0, false},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

/* Where the copy by elements ends: on from the last plain store to shared memory before an arrival, is there fence and barrier? */
static void text_is_as_expected(const struct own_params *p, const struct ask *a)
{
    struct build *b = build_ok(a);
    const char *end = strstr(b->out.text, "mbarrier.arrive.shared.b64"), *from = end;
    ck_assert_msg(end != NULL, "case %d has no copy by elements", (int)(p - cases));
    while (from > b->out.text && strncmp(from, "st.shared", 9) != 0)
        from--;
    ck_assert_msg(from > b->out.text, "case %d stores nothing", (int)(p - cases));
    const char *fence = strstr(from, "fence.proxy.async"), *bar = strstr(from, "bar.sync");
    const bool has_fence = fence != NULL && fence < end, has_barrier = bar != NULL && bar < end;
    ck_assert_msg(has_fence == !p->is_own, "case %d: fence %d", (int)(p - cases), has_fence);
    /* before the second pass the unit meets in any case: nobody may miss a phase */
    ck_assert_msg(has_barrier == (!p->is_own || p->twist == TWICE), "case %d: barrier %d",
                  (int)(p - cases), has_barrier);
    text_assembles(b);
    build_free(b);
}

static double wanted_again(const struct own_params *p, int64_t col)
{
    const int64_t width = (int64_t)p->n_slots * p->cols;
    if (p->twist == SHIFTED && col % p->cols < p->cols / 2)
        return -1;
    return (double)(p->twist == OTHER_SLOT ? (col + p->cols) % width : col);
}

/* less: columns that the tensors have not. */
static void run_case(const struct own_params *p, int chip, const char *policy, int64_t less)
{
    enum { ROWS = 3 };
    const int64_t width = (int64_t)p->n_slots * p->cols, cols = width - less;
    driver_use(chip, policy);
    ck_assert_int_eq(emu.configure("check", "race"), 0);
    pl_tensor t[3];
    for (int i = 0; i < 3; i++)
        t[i] = tensor_new(PL_F32, PL_SHAPE(ROWS, cols), less, 0);
    void *hx = fill_random(&t[0]);
    fill_bytes(&t[1], 0x5a);
    fill_bytes(&t[2], 0x5a);
    struct ask a = {.kernel = &own,
                    .params = p,
                    .params_bytes = sizeof *p,
                    .arch = chip,
                    .args = {pl_arg_tensor(t[0]), pl_arg_tensor(t[1]), pl_arg_tensor(t[2])},
                    .grid = {ROWS, 1, 1},
                    .facts = all_facts};
    if (less == 0)
        text_is_as_expected(p, &a);
    run_ok(&a);
    emu.configure("check", "faults");
    void *y = fetch(&t[1]), *z = fetch(&t[2]);
    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t j = 0; j < cols; j++) {
            const double again = wanted_again(p, j);
            ck_assert_msg(get_elem(y, PL_F32, i * width + j) == get_elem(hx, PL_F32, i * width + j),
                          "case %d sm_%d %s -%d: y (%d, %d)", (int)(p - cases), chip, policy,
                          (int)less, (int)i, (int)j);
            if (has_z(p) && again >= 0)
                ck_assert_msg(get_elem(z, PL_F32, i * width + j) ==
                                  (again < (double)cols
                                       ? get_elem(hx, PL_F32, i * width + (int64_t)again)
                                       : 0),
                              "case %d sm_%d %s -%d: z (%d, %d)", (int)(p - cases), chip, policy,
                              (int)less, (int)i, (int)j);
        }
    free(z);
    free(y);
    free(hx);
    for (int i = 0; i < 3; i++)
        free_tensor(&t[i]);
}

START_TEST(each_thread_reads_back_what_it_stored)
{
    random_turn(&rnd, _i);
    const struct own_params *p = &cases[_i];
    for (size_t i = 0; i < PL_COUNT(policies); i++)
        for (size_t chip = 0; chip < PL_COUNT(chips); chip++) {
            run_case(p, chips[chip], policies[i], 0);
            for (int k = 0; k < 3; k++)
                run_case(p, chips[chip], policies[i],
                         1 + (int64_t)random_below(&rnd, (uint64_t)p->cols * 2));
        }
}
END_TEST

static Suite *make_suite(void)
{
    rnd = random_start("check_plan_own");
    Suite *s = suite_create("plan_own");
    TCase *t = tcase_create("own");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, each_thread_reads_back_what_it_stored, 0, N_CASES);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
