/*
 * Warpgroup matrix operations, end to end on the emulated driver: random matrices of small whole numbers, for which every product and
 * sum is exact, against a triple loop in float64; over element types, sizes, swizzles, majors, warpgroups and asynchronous policies.
 */
#include "tests/operand_tiles.h"
#include "tests/product_run.h"

static const char *const policies[] = {"eager", "late", "random:5"};

struct mm_params {
    int32_t m, n, k;                  /* of a warpgroup and a step */
    int32_t a_swizzle, b_swizzle;     /* -1: left to the plan */
    int32_t a_is_across, b_is_across; /* K is the row axis of the SMEM array */
    int32_t n_warpgroups, n_steps, out, acc, starts_from_y, is_clipped;
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
    pl_ref acc = pl_acc(b, (pl_dtype)p->acc, PL_SHAPE(p->m, p->n));
    pl_val first = pl_mul(b, pl_warpgroup_id(b), p->m);
    pl_ref to = pl_window(b, z, PL_OFF(b, first, 0), PL_SHAPE(p->m, p->n));
    if (p->starts_from_y) /* 2 everywhere, then twice 3: an accumulator is a variable */
        pl_acc_init(b, acc, pl_cast(b, 2, (pl_dtype)p->acc));
    PL_FOR(b, step, 0, p->n_steps)
    {
        pl_val slot = pl_rem(b, step, 2);
        fill_tile(b, &a, step, slot, full);
        fill_tile(b, &bt, step, slot, full);
        pl_barrier_wait(b, full);
        pl_wgmma(b, acc, tile_rows(b, &a, slot, first, p->m), tile_columns(b, &bt, slot));
        pl_wgmma_wait(b, 0);
        pl_bar_sync(b, PL_SCOPE_CTA); /* all have read the slot */
    }
    pl_val v = pl_acc_load(b, acc);
    if (p->starts_from_y) { /* the value read before stays what it was */
        pl_acc_init(b, acc, pl_cast(b, 3, (pl_dtype)p->acc));
        v = pl_add(b, v, pl_mul(b, pl_acc_load(b, acc), pl_cast(b, 2, (pl_dtype)p->acc)));
    }
    write_out(b, (enum out_way)p->out, p->n_warpgroups, to, v, PL_SHAPE(p->m, p->n));
}
TENSORS(mm, 2, 1);

struct mm_case {
    pl_dtype a, b, out;
    struct mm_params p;
};

/* {m, n, k}, swizzles, across, warpgroups, steps, way out, accumulator, initialised, clipped */
#define F32_ PL_F32
static const struct mm_case mm_cases[] = {
    {PL_BF16, PL_BF16, F32_, {64, 8, 16, 32, 32, 0, 0, 1, 1, OUT_GMEM, F32_, 0, 0}},
    {PL_BF16, PL_BF16, F32_, {64, 64, 64, 128, 128, 0, 0, 1, 3, OUT_GMEM, F32_, 0, 0}},
    {PL_F16, PL_F16, F32_, {128, 128, 128, 128, 128, 0, 0, 1, 2, OUT_GMEM, F32_, 1, 0}},
    {PL_F16, PL_F16, F32_, {64, 256, 32, 64, 64, 0, 0, 2, 2, OUT_SMEM, F32_, 0, 0}},
    {PL_BF16, PL_BF16, F32_, {64, 72, 48, 32, 32, 0, 0, 2, 1, OUT_GMEM, F32_, 0, 0}},
    {PL_BF16, PL_BF16, F32_, {64, 64, 64, 128, 128, 1, 0, 1, 2, OUT_GMEM, F32_, 0, 0}},
    {PL_BF16, PL_BF16, F32_, {64, 64, 64, 128, 128, 0, 1, 1, 2, OUT_GMEM, F32_, 0, 0}},
    {PL_F16, PL_F16, F32_, {64, 128, 32, 128, 128, 1, 1, 2, 2, OUT_SMEM, F32_, 1, 0}},
    {PL_F16, PL_F16, F32_, {128, 96, 32, 64, 64, 1, 1, 1, 2, OUT_GMEM, F32_, 0, 0}},
    {PL_BF16, PL_BF16, F32_, {64, 48, 80, 32, 32, 1, 1, 1, 2, OUT_STRIDED, F32_, 0, 0}},
    {PL_BF16, PL_BF16, F32_, {64, 40, 64, -1, -1, 0, 0, 1, 2, OUT_STRIDED, F32_, 0, 0}},
    {PL_BF16, PL_BF16, F32_, {64, 64, 16, -1, -1, 1, 1, 1, 2, OUT_ROW_SUMS, F32_, 0, 0}},
    {PL_TF32, PL_TF32, F32_, {64, 24, 32, 128, 128, 0, 0, 1, 2, OUT_GMEM, F32_, 0, 0}},
    {PL_F32, PL_F32, F32_, {64, 64, 40, 32, 32, 0, 0, 2, 2, OUT_GMEM, F32_, 0, 0}},
    {PL_E4M3, PL_E4M3, F32_, {64, 104, 128, 128, 128, 0, 0, 1, 2, OUT_GMEM, F32_, 0, 0}},
    {PL_E5M2, PL_E4M3, F32_, {64, 16, 64, 64, 64, 0, 0, 1, 2, OUT_GMEM, F32_, 0, 0}},
    {PL_E4M3, PL_E5M2, PL_F16, {64, 32, 32, 32, 32, 0, 0, 1, 1, OUT_GMEM, PL_F16, 0, 0}},
    {PL_F16, PL_F16, PL_F16, {128, 16, 32, 64, 64, 0, 0, 1, 1, OUT_SMEM, PL_F16, 1, 0}},
    {PL_I8, PL_I8, PL_I32, {64, 64, 64, 64, 64, 0, 0, 1, 3, OUT_GMEM, PL_I32, 1, 0}},
    {PL_BF16, PL_BF16, F32_, {64, 64, 64, 128, 64, 0, 0, 1, 2, OUT_GMEM, F32_, 0, 1}},
};
enum { N_MM_CASES = sizeof mm_cases / sizeof mm_cases[0] };

START_TEST(products_of_whole_numbers_are_exact)
{
    random_turn(&rnd, _i);
    const struct mm_case *c = &mm_cases[_i];
    const struct mm_params *p = &c->p;
    struct factors f = {.a = c->a,
                        .b = c->b,
                        .m = (int64_t)p->m * p->n_warpgroups,
                        .n = p->n,
                        .k = (int64_t)p->k * p->n_steps,
                        .a_is_across = p->a_is_across,
                        .b_is_across = p->b_is_across,
                        .start = p->starts_from_y ? 2 + 2 * 3 : 0};
    struct product_run r = {.kernel = &mm,
                            .params = p,
                            .params_bytes = sizeof *p,
                            .arch = 90,
                            .number = _i,
                            .checks_races = true,
                            .out = c->out,
                            .want = p->out == OUT_ROW_SUMS ? product_less_its_row : product,
                            .f = &f};
    if (p->is_clipped) { /* the result has fewer rows and columns than the tiles */
        r.m_out = f.m - 3;
        r.n_out = f.n - 5;
    }
    for (size_t policy = 0; policy < PL_COUNT(policies); policy++) {
        r.policy = policies[policy];
        run_product(&r);
    }
}
END_TEST

/* ---- the first operand in registers ---- */

enum from { FROM_SMEM, FROM_GMEM, FROM_VARIABLE, FROM_PRODUCT };

struct val_params {
    int32_t m, n, k; /* of a step */
    int32_t from, b_is_across, n_steps;
    int32_t n_pending; /* operations that may still run when the next step begins */
    int32_t acc;
};

/* The step's tile of x: loaded, or by way of a variable that is overwritten at once, while the operation may still read it. */
static pl_val value_of_x(pl_builder *b, const struct val_params *p, pl_ref tile, pl_ref var)
{
    if (p->from != FROM_VARIABLE)
        return pl_load(b, tile);
    pl_store(b, var, pl_load(b, tile));
    return pl_load(b, var);
}

/* z = x y; or, as in attention, z = r(x y / 64) y, rounded to x's type in between. */
static void val_body(pl_builder *b, const void *params)
{
    const struct val_params *p = params;
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1), z = pl_param(b, 2);
    const pl_dtype t = pl_dtype_of(b, x);
    const pl_shape xs = PL_SHAPE(p->m, p->k),
                   ys = p->b_is_across ? PL_SHAPE(p->k, p->n) : PL_SHAPE(p->n, p->k);
    pl_ref xb = pl_smem(b, t, PL_SHAPE(2, p->m, p->k), PL_SWIZZLE_AUTO),
           yb = pl_smem(b, pl_dtype_of(b, y), PL_SHAPE(2, ys.d[0], ys.d[1]), PL_SWIZZLE_AUTO);
    pl_bar full = pl_barrier(b, 2);
    pl_ref acc = pl_acc(b, (pl_dtype)p->acc, PL_SHAPE(p->m, p->n));
    pl_ref first = pl_acc(b, (pl_dtype)p->acc, PL_SHAPE(p->m, p->n));
    pl_ref var = pl_regs(b, t, xs, pl_layout_auto(), pl_cast(b, 0, t));
    PL_FOR(b, step, 0, p->n_steps)
    {
        pl_val slot = pl_rem(b, step, 2);
        pl_ref from = pl_tile(b, x, PL_OFF(b, 0, step), xs), tile = pl_at(b, xb, slot);
        pl_copy_gmem_to_smem(b, from, tile, full);
        pl_copy_gmem_to_smem(
            b, pl_tile(b, y, p->b_is_across ? PL_OFF(b, step, 0) : PL_OFF(b, 0, step), ys),
            pl_at(b, yb, slot), full);
        pl_barrier_wait(b, full);
        pl_ref right = p->b_is_across ? pl_at(b, yb, slot) : pl_transpose(b, pl_at(b, yb, slot));
        if (p->from == FROM_PRODUCT) {
            pl_acc_init(b, first, pl_cast(b, 0, (pl_dtype)p->acc));
            pl_wgmma(b, first, tile, right);
            pl_wgmma_val(b, acc, pl_cast(b, pl_mul(b, pl_acc_load(b, first), 1.0f / 64), t), right);
        } else {
            pl_wgmma_val(b, acc, value_of_x(b, p, p->from == FROM_GMEM ? from : tile, var), right);
        }
        if (p->from == FROM_VARIABLE)
            pl_store(b, var, pl_cast(b, 1, t));
        pl_wgmma_wait(b, p->n_pending);
        pl_bar_sync(b, PL_SCOPE_CTA);
    }
    pl_store(b, pl_window(b, z, PL_OFF(b, 0, 0), PL_SHAPE(p->m, p->n)), pl_acc_load(b, acc));
}
TENSORS(val, 2, 1);

struct val_case {
    pl_dtype a, b, out;
    struct val_params p;
};
/* types, {m, n, k, from, across, steps, pending, accumulator} */
static const struct val_case val_cases[] = {
    {PL_F16, PL_F16, F32_, {64, 64, 64, FROM_SMEM, 0, 3, 0, F32_}},
    {PL_BF16, PL_BF16, F32_, {128, 32, 32, FROM_SMEM, 1, 5, 1, F32_}},
    {PL_F16, PL_F16, PL_F16, {64, 16, 32, FROM_GMEM, 0, 1, 1, PL_F16}},
    {PL_BF16, PL_BF16, F32_, {64, 80, 64, FROM_GMEM, 1, 4, 1, F32_}},
    {PL_TF32, PL_TF32, F32_, {64, 24, 32, FROM_SMEM, 0, 4, 1, F32_}},
    {PL_E4M3, PL_E5M2, F32_, {64, 40, 64, FROM_SMEM, 0, 4, 1, F32_}},
    {PL_E5M2, PL_E4M3, PL_F16, {128, 32, 32, FROM_GMEM, 0, 1, 0, PL_F16}},
    {PL_I8, PL_I8, PL_I32, {64, 64, 96, FROM_SMEM, 0, 3, 1, PL_I32}},
    {PL_F16, PL_F16, F32_, {64, 32, 32, FROM_VARIABLE, 0, 4, 1, F32_}},
    {PL_I8, PL_I8, PL_I32, {64, 16, 64, FROM_VARIABLE, 0, 3, 1, PL_I32}},
    {PL_F16, PL_F16, F32_, {64, 64, 64, FROM_PRODUCT, 0, 3, 1, F32_}},
    {PL_BF16, PL_BF16, F32_, {128, 32, 32, FROM_PRODUCT, 1, 2, 1, F32_}},
    {PL_E4M3, PL_E4M3, F32_, {64, 64, 64, FROM_PRODUCT, 0, 3, 1, F32_}},
};
enum { N_VAL_CASES = sizeof val_cases / sizeof val_cases[0] };

struct val_factors {
    struct factors f;
    const struct val_params *p;
};

/* FROM_PRODUCT: element (i, k) of the step's own product, as x's type keeps it. */
static double first_product(const struct val_factors *v, int64_t i, int64_t k)
{
    const int64_t base = k - k % v->p->k;
    double sum = 0, rounded[1] = {0};
    for (int64_t q = 0; q < v->p->k; q++)
        sum += x_elem(&v->f, i, base + q) * y_elem(&v->f, base + q, k % v->p->k);
    set_elem(rounded, v->f.a, 0, sum / 64);
    return get_elem(rounded, v->f.a, 0);
}

static double val_product(const void *user, int64_t i, int64_t j)
{
    const struct val_factors *v = user;
    double sum = 0;
    for (int64_t k = 0; k < v->f.k; k++)
        sum += (v->p->from == FROM_PRODUCT ? first_product(v, i, k) : x_elem(&v->f, i, k)) *
               y_elem(&v->f, k, j);
    return sum;
}

START_TEST(values_are_multiplied_as_memory_is)
{
    random_turn(&rnd, _i);
    const struct val_case *c = &val_cases[_i];
    const struct val_params *p = &c->p;
    struct val_factors v = {.f = {.a = c->a,
                                  .b = c->b,
                                  .m = p->m,
                                  .n = p->n,
                                  .k = (int64_t)p->k * p->n_steps,
                                  .b_is_across = p->b_is_across},
                            .p = p};
    for (size_t policy = 0; policy < PL_COUNT(policies); policy++) {
        const struct product_run r = {.kernel = &val,
                                      .params = p,
                                      .params_bytes = sizeof *p,
                                      .arch = 90,
                                      .number = _i,
                                      .policy = policies[policy],
                                      .checks_races = true,
                                      .assembles = policy == 0,
                                      .out = c->out,
                                      .want = val_product,
                                      .f = &v.f};
        run_product(&r);
    }
}
END_TEST

/* ---- what products still read when the threads meet, or leave a loop ---- */

enum slow {
    WAITS_BEHIND_MEETING,
    MEETS_IN_STRAIGHT_TEXT,
    IS_SETTLED,
    LEAVES_LOOP,
    WAITS_ON_A_BRANCH,
    WAITS_FOR_SOME,
    N_SLOW
};
enum { SLOW_STEPS = 3 };

static void slow_step(pl_builder *b, enum slow how, pl_ref acc, pl_ref left, pl_ref right,
                      pl_val step)
{
    const pl_shape s = PL_SHAPE(64, 64);
    if (how ==
        WAITS_FOR_SOME) { /* the threads meet before each warp has waited for what was left */
        pl_bar_sync(b, PL_SCOPE_WARPGROUP);
        pl_wgmma_wait(b, 0);
    }
    pl_store(b, left, pl_load(b, pl_tile(b, pl_param(b, 0), PL_OFF(b, 0, step), s)));
    pl_store(b, right, pl_load(b, pl_tile(b, pl_param(b, 1), PL_OFF(b, step, 0), s)));
    pl_commit_smem(b);
    switch (how) {
    case WAITS_BEHIND_MEETING:
    case MEETS_IN_STRAIGHT_TEXT:
        pl_wgmma(b, acc, left, right);
        pl_commit_smem(b);
        pl_wgmma_wait(b, 0);
        break;
    case IS_SETTLED:
        pl_wgmma_val(b, acc, pl_load(b, left), right);
        pl_commit_smem(b);
        break;
    case LEAVES_LOOP:
        PL_LOOP(b)
        {
            pl_wgmma_val(b, acc, pl_load(b, left), right);
            pl_break_if(b, pl_ge(b, step, 0));
        }
        break;
    case WAITS_ON_A_BRANCH:
        pl_wgmma_val(b, acc, pl_load(b, left), right);
        PL_IF(b, pl_lt(b, step, 0)) { pl_wgmma_wait(b, 0); }
        break;
    case WAITS_FOR_SOME:
        pl_wgmma(b, acc, left, right);
        pl_wgmma_wait(b, 1);
        break;
    case N_SLOW: break;
    }
}

/* z = x y, a product a step, whose operands threads store over those of the step before. */
static void slow_body(pl_builder *b, const void *params)
{
    const enum slow how = *(const enum slow *)params;
    const pl_shape s = PL_SHAPE(64, 64);
    pl_ref acc = pl_acc(b, PL_F32, s), left = pl_smem(b, PL_BF16, s, PL_SWIZZLE_AUTO),
           right = pl_smem(b, PL_BF16, s, PL_SWIZZLE_AUTO);
    if (how == MEETS_IN_STRAIGHT_TEXT)
        for (int step = 0; step < SLOW_STEPS; step++)
            slow_step(b, how, acc, left, right, pl_lit_i(b, step));
    else
        PL_FOR(b, step, 0, SLOW_STEPS) { slow_step(b, how, acc, left, right, step); }
    pl_store(b, pl_tile(b, pl_param(b, 2), PL_OFF(b, 0, 0), s), pl_acc_load(b, acc));
}
TENSORS(slow, 2, 1);

START_TEST(stores_come_behind_the_products_of_all_warps)
{
    random_turn(&rnd, _i);
    const enum slow how = (enum slow)_i;
    struct factors f = {
        .a = PL_BF16, .b = PL_BF16, .m = 64, .n = 64, .k = 64 * SLOW_STEPS, .b_is_across = true};
    struct product_run r = {.kernel = &slow,
                            .params = &how,
                            .params_bytes = sizeof how,
                            .arch = 90,
                            .number = _i,
                            .checks_races = true,
                            .out = PL_F32,
                            .f = &f};
    for (size_t policy = 0; policy < PL_COUNT(policies); policy++) {
        r.policy = policies[policy];
        run_product(&r);
    }
}
END_TEST

/* Two warpgroups with 64 rows each, of which only the second waits for its product. */
static void one_waits_body(pl_builder *b, const void *params)
{
    const pl_shape s = PL_SHAPE(64, 64);
    (void)params;
    pl_block_warpgroups(b, 2);
    pl_ref acc = pl_acc(b, PL_F32, s);
    for (int i = 0; i < 2; i++) {
        pl_ref left = pl_smem(b, PL_BF16, s, PL_SWIZZLE_AUTO),
               right = pl_smem(b, PL_BF16, s, PL_SWIZZLE_AUTO);
        PL_WARPGROUP(b, i)
        {
            pl_store(b, left, pl_load(b, pl_tile(b, pl_param(b, 0), PL_OFF(b, i, 0), s)));
            pl_store(b, right, pl_load(b, pl_tile(b, pl_param(b, 1), PL_OFF(b, 0, 0), s)));
            pl_commit_smem(b);
            pl_wgmma(b, acc, left, right);
            if (i == 1)
                pl_wgmma_wait(b, 0);
        }
    }
    pl_store(b, pl_tile(b, pl_param(b, 2), PL_OFF(b, pl_warpgroup_id(b), 0), s),
             pl_acc_load(b, acc));
}
TENSORS(one_waits, 2, 1);

START_TEST(a_wait_in_a_role_is_for_its_own_products)
{
    random_turn(&rnd, _i);
    struct factors f = {
        .a = PL_BF16, .b = PL_BF16, .m = 128, .n = 64, .k = 64, .b_is_across = true};
    const struct product_run r = {.kernel = &one_waits,
                                  .arch = 90,
                                  .policy = policies[_i],
                                  .checks_races = true,
                                  .out = PL_F32,
                                  .f = &f};
    run_product(&r);
}
END_TEST

/* Products that nobody waits for, or on one way only, before the body ends: outside roles, in one, in a loop that is left. */
enum unwaited {
    UNWAITED,
    UNWAITED_ON_A_BRANCH,
    UNWAITED_IN_A_ROLE,
    UNWAITED_IN_A_LOOP,
    N_UNWAITED
};

static void unwaited_body(pl_builder *b, const void *params)
{
    const enum unwaited how = *(const enum unwaited *)params;
    const pl_shape s = PL_SHAPE(64, 64);
    pl_ref acc = pl_acc(b, PL_F32, s), left = pl_smem(b, PL_BF16, s, PL_SWIZZLE_AUTO),
           right = pl_smem(b, PL_BF16, s, PL_SWIZZLE_AUTO), z = pl_param(b, 2);
    pl_val block = pl_program_id(b, 0); /* 0 */
    pl_store(b, left, pl_load(b, pl_tile(b, pl_param(b, 0), PL_OFF(b, 0, 0), s)));
    pl_store(b, right, pl_load(b, pl_tile(b, pl_param(b, 1), PL_OFF(b, 0, 0), s)));
    pl_commit_smem(b);
    pl_wgmma(b, acc, left, right);
    pl_store(b, pl_tile(b, z, PL_OFF(b, 0, 0), s), pl_acc_load(b, acc));
    if (how == UNWAITED || how == UNWAITED_ON_A_BRANCH)
        pl_wgmma(b, acc, left, right);
    if (how == UNWAITED_ON_A_BRANCH)
        PL_IF(b, pl_gt(b, block, 0)) { pl_wgmma_wait(b, 0); }
    if (how == UNWAITED_IN_A_ROLE)
        PL_WARPGROUP(b, 0) { pl_wgmma(b, acc, left, right); }
    if (how == UNWAITED_IN_A_LOOP)
        PL_LOOP(b)
        {
            pl_wgmma(b, acc, left, right);
            pl_break_if(b, pl_eq(b, block, 0));
            pl_wgmma_wait(b, 0);
        }
}
TENSORS(unwaited, 2, 1);

START_TEST(products_end_before_the_body_does)
{
    random_turn(&rnd, _i);
    const enum unwaited how = (enum unwaited)_i;
    struct factors f = {.a = PL_BF16, .b = PL_BF16, .m = 64, .n = 64, .k = 64, .b_is_across = true};
    const struct product_run r = {.kernel = &unwaited,
                                  .params = &how,
                                  .params_bytes = sizeof how,
                                  .arch = 90,
                                  .number = _i,
                                  .policy = "late",
                                  .checks_races = true,
                                  .out = PL_F32,
                                  .f = &f};
    run_product(&r);
}
END_TEST

/* ---- registers moved between warpgroups ---- */

struct share_params {
    int32_t n_registers[3];
};

static void share_body(pl_builder *b, const void *params)
{
    const struct share_params *p = params;
    pl_block_warpgroups(b, 3);
    for (int i = 0; i < 3; i++)
        PL_WARPGROUP(b, i)
        {
            if (p->n_registers[i] != 0)
                pl_set_max_registers(b, p->n_registers[i]);
            pl_store(b, pl_at(b, pl_param(b, 0), i), i + 1);
        }
}
TENSORS(share, 0, 1);

START_TEST(registers_are_shared_out_within_the_pool)
{
    static const struct share_params cases[] = {{{40, 232, 232}},  {{24, 240, 240}},
                                                {{168, 168, 168}}, {{152, 0, 184}},
                                                {{24, 240, 248}},  {{0, 176, 0}}};
    const bool fits = _i < 4;
    driver_use(90, "late");
    pl_tensor y = tensor_new(PL_I32, PL_SHAPE(3), 0, 0);
    struct ask a = {.kernel = &share,
                    .params = &cases[_i],
                    .params_bytes = sizeof cases[_i],
                    .arch = 90,
                    .args = {pl_arg_tensor(y)},
                    .grid = {1, 1, 1},
                    .facts = all_facts};
    if (fits) {
        run_ok(&a);
        void *got = fetch(&y);
        for (int i = 0; i < 3; i++)
            ck_assert(get_elem(got, PL_I32, i) == i + 1);
        free(got);
    } else {
        struct build *b = build_new(&a, 0);
        ck_assert_int_eq(b->status, PL_E_INVALID);
        ck_assert_int_eq(b->diags.list.data[0].info->code, 5190);
        build_free(b);
    }
    free_tensor(&y);
}
END_TEST

/* ---- more values at once than there are registers ---- */

static void wide_body(pl_builder *b, const void *params)
{
    const struct share_params *p = params;
    const pl_shape s = PL_SHAPE(128, p->n_registers[0]);
    const pl_offs at = PL_OFF(b, 0, 0);
    pl_block_warpgroups(b, p->n_registers[1]);
    pl_val v = pl_load(b, pl_window(b, pl_param(b, 0), at, s));
    pl_store(b, pl_window(b, pl_param(b, 1), at, s), pl_mul(b, v, 2.0f));
}
TENSORS(wide, 1, 1);

/* An element of each column a thread; of two warpgroups each has all. */
START_TEST(spills_are_foreseen)
{
    static const struct share_params cases[] = {{{512, 1}}, {{416, 1}}, {{128, 1}}, {{128, 2}}};
    driver_use(90, "eager");
    pl_tensor x = tensor_new(PL_F32, PL_SHAPE(128, 512), 0, 0),
              y = tensor_new(PL_F32, PL_SHAPE(128, 512), 0, 0);
    struct ask a = {.kernel = &wide,
                    .params = &cases[_i],
                    .params_bytes = sizeof cases[_i],
                    .arch = 90,
                    .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                    .facts = all_facts};
    struct build *b = build_new(&a, 0);
    ck_assert_int_eq(b->status, PL_OK);
    ck_assert_uint_eq(b->diags.n_warnings, _i < 2);
    if (_i < 2)
        ck_assert_int_eq(b->diags.list.data[0].info->code, 2192);
    build_free(b);
    free_tensor(&x);
    free_tensor(&y);
}
END_TEST

/* ---- what the plan refuses ---- */

static pl_ref operand(pl_builder *b, pl_dtype t, pl_shape s)
{
    return pl_smem(b, t, s, pl_mma_transforms(b, t, s.d[1]));
}

/* y as (k, n) in memory: for 32-bit types the tensor core wants K last. */
static void major_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_wgmma(b, pl_acc(b, PL_F32, PL_SHAPE(64, 32)), operand(b, PL_TF32, PL_SHAPE(64, 32)),
             operand(b, PL_TF32, PL_SHAPE(32, 32)));
}
TENSORS(major, 0, 0);

/* Rows from the 4th on are no whole swizzle atoms. */
static void view_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref y =
        pl_window(b, operand(b, PL_BF16, PL_SHAPE(72, 64)), PL_OFF(b, 4, 0), PL_SHAPE(64, 64));
    pl_wgmma(b, pl_acc(b, PL_F32, PL_SHAPE(64, 64)), operand(b, PL_BF16, PL_SHAPE(64, 64)),
             pl_transpose(b, y));
}
TENSORS(view, 0, 0);

/* Half a fragment. */
static void window_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref acc = pl_acc(b, PL_F32, PL_SHAPE(64, 32));
    (void)pl_acc_load(b, pl_window(b, acc, PL_OFF(b, 0, 4), PL_SHAPE(64, 8)));
}
TENSORS(window, 0, 0);

static const struct {
    int code;
    const pl_kernel *kernel;
} refusals[] = {{4190, &major}, {4191, &view}, {4193, &window}};

START_TEST(operands_that_cannot_be_read_are_refused)
{
    struct ask a = {.kernel = refusals[_i].kernel, .arch = 90, .grid = {1, 1, 1}};
    struct build *b = build_new(&a, 0);
    ck_assert_int_eq(b->status, PL_E_INVALID);
    ck_assert_int_eq(b->diags.list.data[0].info->code, refusals[_i].code);
    ck_assert_ptr_null(b->out.text);
    build_free(b);
}
END_TEST

static Suite *make_suite(void)
{
    rnd = random_start("check_plan_wgmma");
    Suite *s = suite_create("plan_wgmma");
    TCase *t = tcase_create("results");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, products_of_whole_numbers_are_exact, 0, N_MM_CASES);
    tcase_add_loop_test(t, values_are_multiplied_as_memory_is, 0, N_VAL_CASES);
    tcase_add_loop_test(t, stores_come_behind_the_products_of_all_warps, 0, N_SLOW);
    tcase_add_loop_test(t, a_wait_in_a_role_is_for_its_own_products, 0, PL_COUNT(policies));
    tcase_add_loop_test(t, products_end_before_the_body_does, 0, N_UNWAITED);
    tcase_add_loop_test(t, registers_are_shared_out_within_the_pool, 0, 6);
    tcase_add_loop_test(t, spills_are_foreseen, 0, 4);
    tcase_add_loop_test(t, operands_that_cannot_be_read_are_refused, 0, 3);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
