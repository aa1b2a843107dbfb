/*
 * Plans of the library's kernels and of small ones: the table of steps, shared-memory maps, text form, memory limits, equality over
 * dynamic shapes.
 */
#include "base/debug.h"
#include "src/plan/lower.h"
#include "src/plan/meet.h"
#include "tests/plan_run.h"
#include "tests/random.h"

static struct random_source rnd;

extern const pl_kernel pl_kernel_copy, pl_kernel_scale, pl_kernel_add, pl_kernel_cast,
    pl_kernel_transpose, pl_kernel_reduce, pl_kernel_softmax, pl_kernel_rmsnorm;
static const pl_kernel *const kernels[] = {
    &pl_kernel_copy,      &pl_kernel_scale,  &pl_kernel_add,     &pl_kernel_cast,
    &pl_kernel_transpose, &pl_kernel_reduce, &pl_kernel_softmax, &pl_kernel_rmsnorm};
static const int chips[] = {80, 90, 100, 120};
enum { N_KERNELS = PL_COUNT(kernels), N_CHIPS = PL_COUNT(chips) };

/* A request of rank 2 with random extents; config -1: the best. False when the configuration does not serve it. */
static bool make_ask(struct ask *a, unsigned char *params, const pl_kernel *k, int arch, pl_dtype t,
                     pl_fact_set facts, int config)
{
    const struct pl_target *target = pl_target_find(arch);
    const pl_device_info device = {.arch = arch,
                                   .n_sms = 4,
                                   .smem_bytes = target->smem_bytes,
                                   .max_cluster = target->max_cluster};
    const int64_t rows = 1 + (int64_t)random_below(&rnd, 5000),
                  cols = 16 * (1 + (int64_t)random_below(&rnd, 60));
    *a = (struct ask){
        .kernel = k, .params = params, .arch = arch, .facts = facts, .grid = {1, 1, 1}};
    for (size_t i = 0; i < k->n_params; i++) {
        if (k->params[i].role == PL_ROLE_SCALAR) {
            a->args[i] = (k->params[i].dtypes & PL_DT(F32)) != 0 ? pl_arg_f32(1.5f) : pl_arg_i32(1);
            continue;
        }
        const int rank = k->params[i].max_rank < 2 ? k->params[i].max_rank : 2;
        a->args[i] = pl_arg_tensor(
            pl_tensor_make(4096, t, rank == 2 ? PL_SHAPE(rows, cols) : PL_SHAPE(cols)));
    }
    const pl_request q = {.kernel = k,
                          .options = k->default_options,
                          .args = a->args,
                          .n_args = k->n_params,
                          .device = &device,
                          .facts = facts};
    memset(params, 0, PL_MAX_PARAMS_BYTES);
    return k->configure == NULL || k->configure(&q, config < 0 ? PL_CONFIG_BEST : config, params);
}

/* ---- rows ---- */

START_TEST(step_row_is_complete)
{
    const struct pl_step_info *info = &pl_step_infos[_i];
    ck_assert_uint_gt(strlen(info->name), 0);
    ck_assert_uint_gt(strlen(info->meaning), 0);
    ck_assert_uint_le(strlen(info->operands), PL_STEP_MAX_OPNDS);
    for (const char *c = info->operands; *c != '\0'; c++)
        ck_assert_ptr_nonnull(strchr("dspfPrRqQHILWVwvCDEOJmgaxNSTtU", *c));
    ck_assert_int_eq(info->has_from, (strpbrk(info->operands, "fvwD") != NULL ||
                                      strstr(info->operands, "EC") != NULL));
    for (int i = 1; i < PL_STEP_COUNT; i++)
        ck_assert(i == _i || strcmp(info->name, pl_step_infos[i].name) != 0);
}
END_TEST

START_TEST(every_operation_is_lowered)
{
    for (int i = 1; i < PL_OP_COUNT; i++)
        ck_assert_msg(pl_plan_lowers((enum pl_opcode)i), "%s", pl_op_infos[i].name);
}
END_TEST

/* ---- whole plans ---- */

START_TEST(plans_verify_and_read_back)
{
    random_turn(&rnd, _i);
    const pl_kernel *k = kernels[_i];
    unsigned char params[PL_MAX_PARAMS_BYTES];
    struct ask a;
    for (int c = 0; c < N_CHIPS; c++)
        for (int config = 0; config < k->n_configs; config++) {
            if (!make_ask(&a, params, k, chips[c], PL_BF16, config % 2 == 0 ? 7 : 3, config))
                continue;
            struct build *b = build_ok(&a);
            expect_read_back(b);
            build_free(b);
        }
}
END_TEST

START_TEST(broken_plan_texts_are_refused_with_their_line)
{
    static const struct {
        const char *text;
        uint32_t line;
    } cases[] = {
        {"", 1},
        {"plan x sm 90\nnonsense\n", 2},
        {"plan x sm 90\nsteps pred 0 b16 0 b32 1 b64 0 b128 0 labels 0\n    fly b32 r0\n", 3},
        {"steps pred 0 b16 0 b32 1 b64 0 b128 0 labels 0\n    mov.wide b32 r0 #1\n", 2},
        {"steps pred 0 b16 0 b32 1 b64 0 b128 0 labels 0\n    mov b32 r0 {r0 r0\n", 2},
        {"param address arg 0\n", 1},
        {"note \"a\n", 1},
    };
    struct pl_arena arena = {0};
    struct pl_plan plan;
    struct pl_plan_error error;
    for (size_t i = 0; i < PL_COUNT(cases); i++) {
        ck_assert(!pl_plan_read(cases[i].text, strlen(cases[i].text), &arena, &plan, &error));
        ck_assert_uint_eq(error.line, cases[i].line);
    }
    /* No prefix or flipped byte of a good text may do more than fail. */
    unsigned char params[PL_MAX_PARAMS_BYTES];
    struct ask a;
    ck_assert(make_ask(&a, params, &pl_kernel_softmax, 90, PL_F32, 7, -1));
    struct build *b = build_ok(&a);
    struct pl_buf text;
    pl_buf_init(&text, &b->arena, 0);
    pl_plan_print(&b->plan, &text);
    for (int i = 0; i < 400; i++) {
        char *copy = malloc(text.n_bytes);
        memcpy(copy, text.text, text.n_bytes);
        copy[random_below(&rnd, text.n_bytes)] = (char)random_u64(&rnd);
        struct pl_arena scratch = {0};
        (void)pl_plan_read(copy,
                           i % 2 == 0 ? text.n_bytes : (size_t)random_below(&rnd, text.n_bytes),
                           &scratch, &plan, &error);
        pl_arena_fini(&scratch);
        free(copy);
    }
    build_free(b);
    pl_arena_fini(&arena);
}
END_TEST

/* The same variant at 8 random shapes: the same text. */
START_TEST(dynamic_shapes_do_not_change_the_text)
{
    random_turn(&rnd, _i);
    const pl_kernel *k = kernels[_i];
    unsigned char params[PL_MAX_PARAMS_BYTES];
    char *first = NULL;
    for (int n = 0; n < 8; n++) {
        struct ask a;
        if (!make_ask(&a, params, k, 90, PL_F32, 7, 0))
            return;
        struct build *b = build_ok(&a);
        if (first == NULL)
            first = strdup(b->out.text);
        ck_assert_str_eq(first, b->out.text);
        build_free(b);
    }
    free(first);
}
END_TEST

START_TEST(memory_that_ends_anywhere_is_a_clean_failure)
{
    random_turn(&rnd, _i);
    unsigned char params[PL_MAX_PARAMS_BYTES];
    struct ask a;
    ck_assert(make_ask(&a, params, kernels[_i], 90, PL_BF16, 7, -1));
    struct build *whole = build_ok(&a);
    const size_t need = whole->arena.used_bytes;
    build_free(whole);
    for (size_t limit = 1; limit < need; limit += 1 + limit / 16) {
        struct build *b = build_new(&a, limit);
        ck_assert_int_eq(b->status, PL_E_NOMEM);
        build_free(b);
    }
}
END_TEST

/* ---- shared memory ---- */

static int too_large_line;

static void too_large_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref x = pl_param(b, 0);
    (void)pl_smem(b, PL_F32, PL_SHAPE(16), PL_SWIZZLE_NONE);
    too_large_line = __LINE__ + 1;
    pl_ref s = pl_smem(b, PL_F32, PL_SHAPE(64, 64, 16), PL_SWIZZLE_NONE);
    pl_store(b, s, 0.0f);
    pl_store(b, pl_at(b, x, 0), pl_load(b, pl_at(b, pl_at(b, pl_at(b, s, 0), 0), 0)));
}

static void views_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref x = pl_param(b, 0);
    pl_ref plain = pl_smem(b, PL_F32, PL_SHAPE(3), PL_SWIZZLE_NONE);
    pl_ref swizzled = pl_smem(b, PL_BF16, PL_SHAPE(2, 8, 64), PL_SWIZZLE(128));
    pl_ref over = pl_union(b, swizzled, PL_F32, PL_SHAPE(1024), PL_SWIZZLE_NONE);
    pl_barrier_desc d = {.n_barriers = 3, .n_arrivals = 1};
    pl_bar bars = pl_barriers(b, &d);
    pl_barrier_arrive(b, pl_bar_at(b, bars, 2));
    pl_barrier_wait(b, pl_bar_at(b, bars, 2));
    pl_store(b, plain, 1.0f);
    pl_store(b, over, 2.0f);
    pl_store(b, pl_at(b, x, 0), pl_load(b, pl_at(b, plain, 0)));
}

static const pl_param_decl one_param[] = {
    {.name = "x", .role = PL_ROLE_OUT, .min_rank = 1, .max_rank = 1, .dtypes = PL_DT(F32)}};
static const pl_kernel too_large = {.struct_size = sizeof(pl_kernel),
                                    .name = "too_large",
                                    .params = one_param,
                                    .n_params = 1,
                                    .n_configs = 1,
                                    .body = too_large_body};
static const pl_kernel views = {.struct_size = sizeof(pl_kernel),
                                .name = "views",
                                .params = one_param,
                                .n_params = 1,
                                .n_configs = 1,
                                .body = views_body};

static const struct pl_plan_area *area_at(const struct pl_plan *p, uint32_t i)
{
    ck_assert_uint_lt(i, p->areas.n);
    return &p->areas.data[i];
}

START_TEST(shared_memory_is_mapped_by_alignment)
{
    struct ask a = {.kernel = &views,
                    .arch = 90,
                    .args = {pl_arg_tensor(pl_tensor_make(4096, PL_F32, PL_SHAPE(16)))}};
    struct build *b = build_ok(&a);
    /* The union is as large as its larger member and first, by alignment; then the small array, then three barriers. */
    ck_assert_uint_eq(area_at(&b->plan, 0)->offset_bytes, 0);
    ck_assert_uint_eq(area_at(&b->plan, 0)->n_bytes, 4096);
    ck_assert_uint_eq(area_at(&b->plan, 0)->align_bytes, 1024);
    ck_assert_uint_eq(area_at(&b->plan, 1)->offset_bytes, 4096);
    ck_assert_uint_eq(area_at(&b->plan, 1)->n_bytes, 12);
    ck_assert_str_eq(area_at(&b->plan, 2)->name, "barriers");
    ck_assert_uint_eq(area_at(&b->plan, 2)->n_bytes, 24);
    ck_assert_uint_eq(area_at(&b->plan, 2)->offset_bytes % 8, 0);
    build_free(b);
}
END_TEST

START_TEST(too_much_shared_memory_is_a_diagnostic)
{
    struct ask a = {.kernel = &too_large,
                    .arch = 90,
                    .args = {pl_arg_tensor(pl_tensor_make(4096, PL_F32, PL_SHAPE(16)))}};
    struct build *b = build_new(&a, 0);
    ck_assert_int_eq(b->status, PL_E_INVALID);
    ck_assert_ptr_eq(b->diags.list.data[b->diags.list.n - 1].info, &pl_di_smem_over_limit);
    ck_assert_int_eq(b->diags.list.data[b->diags.list.n - 1].where.line, too_large_line);
    ck_assert_ptr_null(b->out.text);
    build_free(b);
}
END_TEST

/* ---- what is refused ---- */

static void to_fp8_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref x = pl_param(b, 0);
    pl_val v = pl_load(b, pl_window(b, x, PL_OFF(b, 0), PL_SHAPE(16)));
    pl_store(b, pl_window(b, x, PL_OFF(b, 0), PL_SHAPE(16)),
             pl_cast(b, pl_cast(b, v, PL_E4M3), PL_F32));
}

static void adding_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref x = pl_param(b, 0);
    pl_ref s = pl_smem(b, PL_F32, PL_SHAPE(256), PL_SWIZZLE_NONE);
    const pl_copy_opt o = {.reduce = PL_ADD};
    pl_store(b, s, 1.0f);
    pl_commit_smem(b);
    pl_copy_smem_to_gmem_ex(b, s, pl_window(b, x, PL_OFF(b, 0), PL_SHAPE(256)), &o);
    pl_wait_smem_to_gmem(b, 0);
}

static const pl_param_decl both_ways[] = {
    {.name = "x", .role = PL_ROLE_INOUT, .min_rank = 1, .max_rank = 1, .dtypes = PL_DT(F32)}};
static const pl_kernel to_fp8 = {.struct_size = sizeof(pl_kernel),
                                 .name = "to_fp8",
                                 .params = both_ways,
                                 .n_params = 1,
                                 .n_configs = 1,
                                 .body = to_fp8_body};
static const pl_kernel adding = {.struct_size = sizeof(pl_kernel),
                                 .name = "adding",
                                 .params = both_ways,
                                 .n_params = 1,
                                 .n_configs = 1,
                                 .body = adding_body};

static void check_refused(const pl_kernel *k, int arch, pl_fact_set facts,
                          const struct pl_diag_info *want, const char *text)
{
    struct ask a = {.kernel = k,
                    .arch = arch,
                    .facts = facts,
                    .args = {pl_arg_tensor(pl_tensor_make(4096, PL_F32, PL_SHAPE(256)))}};
    struct build *b = build_new(&a, 0);
    ck_assert_int_eq(b->status, PL_E_UNSUPPORTED);
    ck_assert_int_eq(b->diags.list.data[b->diags.list.n - 1].info->code, want->code);
    if (text != NULL)
        ck_assert_str_eq(b->diags.list.data[b->diags.list.n - 1].text, text);
    ck_assert_int_gt(b->diags.list.data[b->diags.list.n - 1].where.line, 0);
    build_free(b);
}

START_TEST(what_the_chip_cannot_convert_is_refused)
{
    check_refused(&to_fp8, 80, 7, &pl_di_op_not_lowered,
                  "cast is not lowered for sm_80: from f32 to e4m3");
}
END_TEST

static int what_is_asked; /* of refused_body */

static void refused_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref x = pl_param(b, 0), to = pl_window(b, x, PL_OFF(b, 0), PL_SHAPE(4)),
           var = pl_regs(b, PL_F32, PL_SHAPE(2, 4), pl_layout_auto(), 0.0f);
    switch (what_is_asked) {
    case 0: pl_store(b, to, pl_load(b, pl_at(b, var, 1))); break;
    case 1: pl_store(b, pl_at(b, var, 1), 1.0f); break;
    case 2:
        (void)pl_load(b, pl_smem(b, PL_E2M1, PL_SHAPE(8), PL_SWIZZLE_NONE));
        pl_store(b, to, 0.0f);
        break;
    }
}

static void odd_acc_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref acc = pl_acc(b, PL_F32, PL_SHAPE(64, 12));
    pl_acc_init(b, acc, pl_acc_load(b, acc));
}

START_TEST(what_is_refused_says_why)
{
    static const char *const texts[] = {
        "load is not lowered for sm_90: a view of a pl_regs variable (take it whole, or keep its "
        "parts in variables of their own)",
        "store is not lowered for sm_90: a view of a pl_regs variable (take it whole, or keep its "
        "parts in variables of their own)",
        "load is not lowered for sm_90: e2m1, which fills no byte"};
    pl_kernel k = to_fp8;
    k.body = refused_body;
    what_is_asked = _i;
    check_refused(&k, 90, 7, &pl_di_op_not_lowered, texts[_i]);
}
END_TEST

START_TEST(accumulators_are_whole_fragments)
{
    pl_kernel k = to_fp8;
    k.body = odd_acc_body;
    struct ask a = {.kernel = &k,
                    .arch = 90,
                    .args = {pl_arg_tensor(pl_tensor_make(4096, PL_F32, PL_SHAPE(256)))}};
    struct build *b = build_new(&a, 0);
    ck_assert_int_eq(b->status, PL_E_INVALID);
    ck_assert_uint_eq(b->diags.list.n, 1); /* its uses add none */
    ck_assert_ptr_eq(b->diags.list.data[0].info, &pl_di_acc_shape);
    ck_assert_str_eq(b->diags.list.data[0].text, "pl_acc of shape 64x12");
    build_free(b);
}
END_TEST

START_TEST(reducing_copies_without_their_facts_are_refused)
{
    check_refused(&adding, 90, 0, &pl_di_copy_not_lowered, NULL);
}
END_TEST

/* Election is not an instruction of sm_80: PL7102. */
START_TEST(plans_that_no_target_takes_are_refused)
{
    static const char text[] =
        "plan x sm 80\n"
        "launch threads 128 x 1 y 1 z 1 smem 0 params 0 registers 0 fold 0 waits 0\n"
        "steps pred 1 b16 0 b32 0 b64 0 b128 0 labels 0\n    elect p0 #-1\n    leave\n";
    struct pl_arena arena = {0};
    struct pl_diags diags;
    struct pl_plan plan;
    struct pl_plan_error error;
    struct pl_emitted out;
    pl_diags_init(&diags, &arena);
    ck_assert_msg(pl_plan_read(text, sizeof text - 1, &arena, &plan, &error), "line %u: %s",
                  error.line, error.text);
    ck_assert_int_eq(pl_emit_plan(&plan, "pl_test", 0, &arena, &diags, &out), PL_E_UNSUPPORTED);
    ck_assert_int_eq(diags.list.data[0].info->code, 7102);
    plan.sm = 90;
    ck_assert_int_eq(pl_emit_plan(&plan, "pl_test", 0, &arena, &diags, &out), PL_OK);
    pl_arena_fini(&arena);
}
END_TEST

/* ---- barriers that order nothing (src/plan/meet.c) ---- */

#define MEET_HEAD                                                                                  \
    "plan x sm 80\nlaunch threads 128 x 1 y 1 z 1 smem 16 params 0 registers 0 fold 0 waits 0\n"   \
    "steps pred 1 b16 0 b32 2 b64 0 b128 0 labels 1\n"

/* Of the steps, those of this kind that stay. */
static uint32_t count_left(const char *steps, enum pl_step_op op)
{
    struct pl_arena arena = {0};
    struct pl_plan plan;
    struct pl_plan_error error;
    char text[1000];
    uint32_t n_left = 0;
    int n = snprintf(text, sizeof text, "%s%s", MEET_HEAD, steps);
    ck_assert_msg(pl_plan_read(text, (size_t)n, &arena, &plan, &error), "line %u: %s\n%s",
                  error.line, error.text, text);
    pl_lower_drop_barriers(&arena, &plan.steps);
    for (uint32_t i = 0; i < plan.steps.list.n; i++)
        n_left += plan.steps.list.data[i].op == op;
    pl_arena_fini(&arena);
    return n_left;
}

START_TEST(barriers_that_order_nothing_are_taken_out)
{
    static const struct {
        const char *steps;
        uint32_t n_left; /* barriers */
    } cases[] = {
        {"    sync_threads #0 #128\n    sync_threads #0 #128\n    load.shared b32 {r0} [smem 0]\n  "
         "  leave\n",
         1},
        {"    sync_threads #0 #128\n    mov b32 r0 #1\n    sync_threads #0 #128\n"
         "    load.shared b32 {r1} [smem 0]\n    leave\n",
         1},
        {"    sync_threads #0 #128\n    sync_threads #1 #128\n    load.shared b32 {r0} [smem 0]\n  "
         "  leave\n",
         2},
        {"    sync_threads #0 #128\n    load.shared b32 {r0} [smem 0]\n    sync_threads #0 #128\n"
         "    load.shared b32 {r1} [smem 0]\n    leave\n",
         2},
        {"    sync_threads #0 #128\n label L0\n    sync_threads #0 #128\n    load.shared b32 {r0} "
         "[smem 0]\n"
         "    @p0 jump L0\n    leave\n",
         2},
        {"    load.shared b32 {r0} [smem 0]\n    sync_threads #0 #128\n    mov b32 r1 #1\n label "
         "L0\n    "
         "leave\n",
         0},
        {"    sync_threads #0 #128\n    @p0 jump L0\n label L0\n    leave\n", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_msg(count_left(cases[i].steps, PL_STEP_sync_threads) == cases[i].n_left,
                      "case %zu", i);
}
END_TEST

/* Of warps: a lane speaks for the others only of what they did before they last met. */
START_TEST(meetings_of_warps_that_order_nothing_are_taken_out)
{
#define WAIT "label L0\n bar_try p0 [smem 0] r0\n @!p0 jump L0\n"
#define MEET "sync_warp #-1\n bar_arrive1 [smem 8]\n"
#define LOAD "load.shared b32 {r1} [smem 16]\n"
    static const struct {
        const char *steps;
        uint32_t n_left;
    } cases[] = {
        {WAIT "wgmma_fence\n wgmma_wait #0\n" MEET "leave\n", 0},
        {WAIT MEET "leave\n", 1},
        {WAIT "wgmma_wait #0\n" LOAD MEET "leave\n", 1},
        {LOAD "sync_threads #1 #128\n tensor_before\n bulk_commit\n" MEET "leave\n", 0},
        {LOAD "@p0 sync_threads #1 #128\n" MEET "leave\n", 1},
        {LOAD MEET MEET "leave\n", 1},                         /* the second */
        {"label L0\n" MEET LOAD "@p0 jump L0\n leave\n", 1},   /* from the round before */
        {"label L0\n" MEET "@p0 jump L0\n" LOAD "leave\n", 0}, /* the load is behind it */
        {LOAD "sync_threads #1 #128\n@p0 jump L0\n" LOAD "label L0\n" MEET "leave\n", 1},
        {"jump L0\n" LOAD "label L0\n" MEET "leave\n",
         1}, /* nobody comes by the load, as nobody can tell */
        {"fence.acq_rel.gpu\n" MEET "leave\n", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_msg(count_left(cases[i].steps, PL_STEP_sync_warp) == cases[i].n_left, "case %zu",
                      i);
#undef LOAD
#undef MEET
#undef WAIT
}
END_TEST

/* ---- steps made again for other registers (pl_repeat) ---- */

static struct pl_build *repeat_build;

static struct pl_opnd step2(enum pl_step_op op, struct pl_opnd x, struct pl_opnd y)
{
    return pl_opnd_reg(pl_build_op2(repeat_build, op, PL_ST_u32, x, y));
}

/* (x + y) * y for the first operands, and then for these: were the steps made again? */
static bool repeats(const struct pl_opnd first[2], const struct pl_opnd then[2])
{
    struct pl_repeat rep;
    struct pl_opnd out, again;
    pl_repeat_start(&rep, 2);
    ck_assert(!pl_repeat_make(repeat_build, &rep, first, &out, 1));
    pl_repeat_begin(repeat_build, &rep, first);
    out = step2(PL_STEP_mul, step2(PL_STEP_add, first[0], first[1]), first[1]);
    pl_repeat_end(repeat_build, &rep, &out, 1);
    const uint32_t n = repeat_build->steps[0].n;
    if (!pl_repeat_make(repeat_build, &rep, then, &again, 1))
        return false;
    ck_assert_uint_eq(repeat_build->steps[0].n, n + 2);
    const struct pl_step *s = &repeat_build->steps[0].data[n];
    const struct pl_opnd *add = &repeat_build->out->pool.data[s[0].opnds],
                         *mul = &repeat_build->out->pool.data[s[1].opnds];
    ck_assert(s[0].op == PL_STEP_add && s[1].op == PL_STEP_mul);
    ck_assert_uint_eq(add[1].u.reg.id, then[0].u.reg.id);
    ck_assert_uint_eq(add[2].u.reg.id, then[1].u.reg.id);
    ck_assert_uint_eq(mul[1].u.reg.id, add[0].u.reg.id);
    ck_assert_uint_eq(mul[2].u.reg.id, then[1].u.reg.id);
    ck_assert_uint_eq(mul[0].u.reg.id, again.u.reg.id);
    ck_assert(mul[0].u.reg.id != out.u.reg.id);
    return true;
}

START_TEST(steps_are_made_again_only_where_they_are_the_same)
{
    struct pl_arena arena = {0};
    struct pl_steps out = {0};
    struct pl_build b = {0};
    struct pl_opnd r[8];
    pl_build_init(&b, &arena, &out);
    repeat_build = &b;
    for (int i = 0; i < 8; i++)
        r[i] = pl_opnd_reg(pl_build_reg(&b, PL_RC_B32));
    const struct pl_opnd in_entry = pl_opnd_reg(
        pl_build_op1(&b, PL_STEP_special, PL_ST_NONE, pl_opnd_index(PL_OPND_SREG, PL_SR_tid_x)));
    ck_assert(repeats((struct pl_opnd[]){r[0], r[1]}, (struct pl_opnd[]){r[2], r[3]}));
    /* Known from the last time: there is nothing to learn from. */
    ck_assert(!repeats((struct pl_opnd[]){r[0], r[1]}, (struct pl_opnd[]){r[4], r[5]}));
    /* The sum is known, the product is not: that of another register would be of the same sum. */
    step2(PL_STEP_add, r[1], r[2]);
    ck_assert(!repeats((struct pl_opnd[]){r[1], r[2]}, (struct pl_opnd[]){r[4], r[5]}));
    /* One register twice does not say which of the two operands is meant. */
    ck_assert(repeats((struct pl_opnd[]){r[4], r[4]}, (struct pl_opnd[]){r[5], r[5]}));
    ck_assert(!repeats((struct pl_opnd[]){r[6], r[6]}, (struct pl_opnd[]){r[5], r[4]}));
    /* Of what is known in the entry steps go there, and of constants there are none. */
    ck_assert(!repeats((struct pl_opnd[]){r[2], r[4]}, (struct pl_opnd[]){in_entry, r[7]}));
    ck_assert(!repeats((struct pl_opnd[]){r[2], r[5]}, (struct pl_opnd[]){r[7], pl_opnd_imm(0)}));
    pl_arena_fini(&arena);
}
END_TEST

/* ---- headers ---- */

START_TEST(text_has_the_lowest_header_and_respects_a_cap)
{
    unsigned char params[PL_MAX_PARAMS_BYTES];
    struct ask a;
    ck_assert(make_ask(&a, params, &pl_kernel_scale, 80, PL_F32, 7, 0));
    struct build *b = build_ok(&a);
    ck_assert_int_eq(strncmp(b->out.text, ".version 7.0\n.target sm_80\n", 27), 0);
    build_free(b);
    ck_assert(make_ask(&a, params, &pl_kernel_scale, 90, PL_F32, 7, 3));
    b = build_ok(&a);
    ck_assert_int_eq(strncmp(b->out.text, ".version 8.0\n.target sm_90\n", 27), 0);
    struct pl_emitted out;
    ck_assert_int_eq(pl_emit_plan(&b->plan, "pl_test", 78, &b->arena, &b->diags, &out),
                     PL_E_UNSUPPORTED);
    ck_assert_int_eq(b->diags.list.data[b->diags.list.n - 1].info->code, 7101);
    build_free(b);
}
END_TEST

static Suite *make_suite(void)
{
    rnd = random_start("check_plan");
    Suite *s = suite_create("plan");
    TCase *t = tcase_create("plan");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, step_row_is_complete, 1, PL_STEP_COUNT);
    tcase_add_test(t, every_operation_is_lowered);
    tcase_add_loop_test(t, plans_verify_and_read_back, 0, N_KERNELS);
    tcase_add_test(t, broken_plan_texts_are_refused_with_their_line);
    tcase_add_loop_test(t, dynamic_shapes_do_not_change_the_text, 0, N_KERNELS);
    tcase_add_loop_test(t, memory_that_ends_anywhere_is_a_clean_failure, 0, N_KERNELS);
    tcase_add_test(t, shared_memory_is_mapped_by_alignment);
    tcase_add_test(t, too_much_shared_memory_is_a_diagnostic);
    tcase_add_test(t, what_the_chip_cannot_convert_is_refused);
    tcase_add_loop_test(t, what_is_refused_says_why, 0, 3);
    tcase_add_test(t, accumulators_are_whole_fragments);
    tcase_add_test(t, reducing_copies_without_their_facts_are_refused);
    tcase_add_test(t, plans_that_no_target_takes_are_refused);
    tcase_add_test(t, barriers_that_order_nothing_are_taken_out);
    tcase_add_test(t, meetings_of_warps_that_order_nothing_are_taken_out);
    tcase_add_test(t, steps_are_made_again_only_where_they_are_the_same);
    tcase_add_test(t, text_has_the_lowest_header_and_respects_a_cap);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
