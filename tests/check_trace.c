/* The builder: each of its diagnostics raised alone and in place, and what a right body becomes. */
#include "src/ir/read.h"
#include "tests/trace_case.h"

#include <check.h>
#include <stdio.h>

/* ---- one body for each row of src/ir/trace.def: it raises that row, at the line of MARK, and nothing else ---- */

static int expected_line;
#define MARK       (expected_line = __LINE__)
#define BODY(code) static void body_##code(pl_builder *b, const void *params)
#define TILE       PL_SHAPE(16, 64)

BODY(1001)
{
    (void)params;
    pl_val v = {0};
    PL_FOR(b, i, 0, 4) { v = pl_add(b, i, pl_program_id(b, 0)); }
    MARK, pl_mul(b, v, 2);
}
BODY(1002)
{
    (void)params;
    MARK;
    PL_FOR(b, i, 0, pl_dim(b, pl_param(b, 0), 0)) { return; }
}
BODY(1003)
{
    (void)params;
    MARK;
    PL_FOR(b, i, 0, pl_dim(b, pl_param(b, 0), 0))
    {
        PL_IF(b, pl_lt(b, pl_scalar(b, 4), 3)) { goto out; }
    out:
        break;
    }
}
BODY(1004)
{
    (void)params, MARK;
    PL_ELSE(b) {}
}
BODY(1005) { (void)params, MARK, pl_break_if(b, pl_lt(b, pl_scalar(b, 4), 1)); }
BODY(1006)
{
    (void)params, MARK;
    PL_LOOP(b) {}
}
BODY(1007)
{
    (void)params, MARK;
    PL_FOR_STEP(b, i, 0, 10, -1) {}
}
BODY(1008)
{
    (void)params;
    pl_block_warpgroups(b, 2);
    MARK, pl_block_warpgroups(b, 2);
}
BODY(1009) { (void)params, MARK, pl_block_warpgroups(b, 9); }
BODY(1010) { (void)params, MARK, pl_add(b, pl_scalar(b, 3), pl_scalar(b, 4)); }
BODY(1011) { (void)params, MARK, pl_add(b, pl_scalar(b, 4), 1.5); }
BODY(1012) { (void)params, MARK, pl_add(b, pl_cast(b, pl_scalar(b, 4), PL_I16), 40000); }
BODY(1013)
{
    (void)params;
    pl_val x = pl_iota(b, PL_F32, PL_SHAPE(64), 0), y = pl_iota(b, PL_F32, PL_SHAPE(32), 0);
    MARK, pl_add(b, x, y);
}
BODY(1014) { (void)params, MARK, pl_sqrt(b, pl_scalar(b, 4)); }
BODY(1015)
{
    (void)params;
    pl_val x = pl_iota(b, PL_I32, PL_SHAPE(64), 0);
    MARK;
    PL_IF(b, pl_lt(b, x, 3)) {}
}
BODY(1016)
{
    (void)params, MARK;
    PL_IF(b, pl_scalar(b, 4)) {}
}
BODY(1017) { (void)params, MARK, pl_at(b, pl_param(b, 0), pl_scalar(b, 3)); }
BODY(1018) { (void)params, MARK, pl_bitcast(b, pl_scalar(b, 3), PL_I64); }
BODY(1019) { (void)params, MARK, pl_reduce(b, PL_ADD, pl_scalar(b, 3), 0, PL_SCOPE_WARPGROUP); }
BODY(1020) { (void)params, MARK, pl_dim(b, pl_param(b, 0), 2); }
BODY(1021)
{
    (void)params, MARK,
        pl_reduce(b, PL_SUB, pl_iota(b, PL_F32, PL_SHAPE(64), 0), 0, PL_SCOPE_WARPGROUP);
}
BODY(1022) { (void)params, MARK, pl_iota(b, PL_F32, PL_SHAPE(0), 0); }
BODY(1023) { (void)params, MARK, pl_bar_sync(b, PL_SCOPE_SYSTEM); }
BODY(1024)
{
    (void)params;
    pl_val never = {0};
    MARK, pl_add(b, never, 1);
}
BODY(1030) { (void)params, MARK, pl_param(b, 8); }
BODY(1031) { (void)params, MARK, pl_param(b, 3); }
BODY(1032) { (void)params, MARK, pl_param(b, 2); }
BODY(1033) { (void)params, MARK, (void)pl_dim_const(b, pl_param(b, 0), 0); }
BODY(1040) { (void)params, MARK, pl_window(b, pl_param(b, 0), PL_OFF(b, 0), PL_SHAPE(16)); }
BODY(1041)
{
    (void)params;
    pl_ref r = pl_regs(b, PL_F32, PL_SHAPE_SCALAR, pl_layout_auto(), 0.0f);
    MARK, pl_at(b, r, 0);
}
BODY(1042) { (void)params, MARK, pl_at(b, pl_smem(b, PL_F32, TILE, PL_SWIZZLE_NONE), 16); }
BODY(1043)
{
    (void)params;
    pl_ref r = pl_clip(b, pl_param(b, 0), 0, pl_scalar(b, 4));
    MARK, pl_clip(b, r, 0, pl_scalar(b, 4));
}
BODY(1044) { (void)params, MARK, pl_reshape(b, pl_param(b, 0), TILE); }
BODY(1045)
{
    (void)params, MARK, pl_reshape(b, pl_smem(b, PL_F32, TILE, PL_SWIZZLE_NONE), PL_SHAPE(16, 65));
}
BODY(1046)
{
    (void)params;
    pl_ref r = pl_param(b, 0);
    for (int i = 0; i < PL_MAX_TERMS; i++)
        r = pl_window(b, r, PL_OFF(b, pl_add(b, pl_scalar(b, 4), i + 1), 0),
                      PL_SHAPE(1000 - i, 64));
    MARK, pl_window(b, r, PL_OFF(b, pl_scalar(b, 4), 0), PL_SHAPE(16, 64));
}
BODY(1047) { (void)params, MARK, pl_smem(b, PL_F32, PL_SHAPE(-1, 64), PL_SWIZZLE_NONE); }
BODY(1048)
{
    (void)params;
    PL_IF(b, pl_lt(b, pl_scalar(b, 4), 1)) { MARK, pl_smem(b, PL_F32, TILE, PL_SWIZZLE_NONE); }
}
BODY(1049) { (void)params, MARK, pl_union(b, pl_param(b, 0), PL_F32, TILE, PL_SWIZZLE_NONE); }
BODY(1050)
{
    (void)params;
    pl_ref r =
        pl_window(b, pl_smem(b, PL_F32, TILE, PL_SWIZZLE_NONE), PL_OFF(b, 0, 0), PL_SHAPE(16, 32));
    MARK, pl_reshape(b, r, PL_SHAPE(32, 16));
}
BODY(1051) { (void)params, MARK, pl_load(b, pl_param(b, 0)); }
BODY(1052)
{
    (void)params, MARK,
        pl_semaphore(b, pl_window(b, pl_param(b, 0), PL_OFF(b, 0, 0), PL_SHAPE(1, 1)));
}
BODY(1060) { (void)params, MARK, pl_barrier(b, 0); }
BODY(1061) { (void)params, MARK, (void)pl_full_now(b); }
BODY(1062)
{
    (void)params;
    const pl_pipe_desc d = {.stages = 2, .producer = PL_BY_COPY_OUT, .consumer = PL_BY_THREADS};
    MARK, (void)pl_pipe_make(b, &d);
}
BODY(1063)
{
    (void)params;
    const pl_pipe_desc d = {.stages = 2, .producer = PL_BY_COPIES, .consumer = PL_BY_THREADS};
    pl_pipe p = pl_pipe_make(b, &d);
    MARK;
    PL_PRODUCE(b, p, s) {}
    PL_CONSUME(b, p, s) {}
}
static void copies_none(pl_builder *b, pl_val step, pl_val slot, pl_bar full, void *user)
{
    (void)b, (void)step, (void)slot, (void)full, (void)user;
}
BODY(1064)
{
    (void)params;
    const pl_pipeline_desc d = {.stages = 1, .n_copies = 1, .copies = copies_none};
    MARK;
    PL_PIPELINE(b, k, s, pl_scalar(b, 4), &d) {}
}
BODY(1065)
{
    (void)params;
    const pl_barrier_desc d = {.n_barriers = 4, .n_arrivals = 1};
    pl_bar g = pl_barriers(b, &d);
    MARK, (void)pl_bar_at(b, g, 4);
}
BODY(1066)
{
    (void)params;
    const pl_barrier_desc d = {.n_barriers = 4, .n_arrivals = 1};
    pl_bar g = pl_barriers(b, &d);
    MARK, pl_barrier_wait(b, g);
}
BODY(1067) { (void)params, MARK, (void)pl_barriers(b, NULL); }
BODY(1068)
{
    (void)params;
    const pl_pipe_desc d = {.stages = 2, .producer = PL_BY_COPIES, .consumer = PL_BY_THREADS};
    pl_ref t = pl_smem(b, PL_BF16, TILE, PL_SWIZZLE_NONE);
    pl_pipe p = pl_pipe_make(b, &d);
    PL_PRODUCE(b, p, s)
    {
        PL_IF(b, pl_lt(b, pl_scalar(b, 4), 1))
        {
            MARK, pl_copy_gmem_to_smem(b, pl_tile(b, pl_param(b, 0), PL_OFF(b, 0, 0), TILE), t,
                                       pl_full_now(b));
        }
    }
    PL_CONSUME(b, p, s) {}
}
BODY(1069)
{
    (void)params;
    pl_block k[61];
    for (int i = 0; i < 61; i++) {
        MARK, k[i] = pl_loop_begin(b, PL_LOC);
        pl_break_if(b, true);
    }
    for (int i = 61; i-- > 0;)
        pl_block_end(&k[i]);
}
BODY(1077)
{
    (void)params;
    MARK;
    pl_block k = pl_if_begin(b, pl_lt(b, pl_scalar(b, 4), 1), PL_LOC);
    pl_block again = k;
    pl_block_end(&k);
    pl_block_end(&again);
}
BODY(1078)
{
    (void)params;
    pl_sched s = pl_sched_clc(b, 10);
    PL_TILES(b, t, s) {}
    MARK;
    PL_TILES(b, u, s) {}
}
BODY(1079)
{
    (void)params;
    pl_sched s = pl_sched_clc(b, 10);
    PL_TILES(b, t, s) { MARK, pl_break_if(b, pl_gt(b, t, 3)); }
}
BODY(1070)
{
    (void)params;
    pl_ref t = pl_smem(b, PL_BF16, PL_SHAPE(16, 32), PL_SWIZZLE_NONE);
    MARK, pl_copy_smem_to_gmem(b, t, pl_tile(b, pl_param(b, 1), PL_OFF(b, 0, 0), TILE));
}
BODY(1071)
{
    (void)params;
    pl_ref t = pl_smem(b, PL_F32, TILE, PL_SWIZZLE_NONE);
    MARK, pl_copy_smem_to_gmem(b, t, pl_tile(b, pl_param(b, 1), PL_OFF(b, 0, 0), TILE));
}
BODY(1072)
{
    (void)params;
    const pl_ptx_desc d = {.text = "mov.u32 $0, 1;", .n_outs = 1, .out_dtypes = {PL_U32}};
    pl_val out;
    MARK, pl_inline_ptx(b, &d, &out);
}
BODY(1073)
{
    (void)params;
    const pl_ptx_desc d = {.text = "", .n_outs = 5, .effects = PL_EFFECT_NONE};
    MARK, pl_inline_ptx(b, &d, NULL);
}
BODY(1074)
{
    (void)params;
    pl_ref t = pl_smem(b, PL_BF16, TILE, PL_SWIZZLE_AUTO);
    MARK, pl_wgmma(b, pl_acc(b, PL_F32, PL_SHAPE(64, 64)), t, t);
}
BODY(1075)
{
    (void)params, MARK, pl_extract(b, pl_iota(b, PL_F32, PL_SHAPE(64), 0), PL_OFF(b, 0, 0));
}
BODY(1076) { (void)params, MARK, pl_assume_multiple(b, pl_scalar(b, 4), 0); }
BODY(1081)
{
    (void)params;
    pl_block_cluster(b, 2, 1, 1);
    pl_ref t = pl_smem(b, PL_BF16, PL_SHAPE(2, 16, 64), PL_SWIZZLE_AUTO);
    const pl_pipe_desc d = {.stages = 2, .producer = PL_BY_COPIES, .consumer = PL_BY_THREADS};
    const pl_copy_opt o = {.multicast_mask = 2};
    pl_pipe p = pl_pipe_make(b, &d);
    PL_PRODUCE(b, p, s)
    {
        pl_ref src = pl_tile(b, pl_param(b, 0), PL_OFF(b, 0, 0), TILE), dst = pl_at(b, t, s);
        pl_bar full = pl_full_now(b);
        MARK, pl_copy_gmem_to_smem_ex(b, src, dst, full, &o);
    }
    PL_CONSUME(b, p, s) {}
}

struct raising {
    int code;
    trace_body body;
};
static const struct raising raisings[] = {
#define R(code) {code, body_##code},
    R(1001) R(1002) R(1003) R(1004) R(1005) R(1006) R(1007) R(1008) R(1009) R(1010) R(1011) R(1012)
        R(1013) R(1014) R(1015) R(1016) R(1017) R(1018) R(1019) R(1020) R(1021) R(1022) R(1023)
            R(1024) R(1030) R(1031) R(1032) R(1033) R(1040) R(1041) R(1042) R(1043) R(1044) R(1045)
                R(1046) R(1047) R(1048) R(1049) R(1050) R(1051) R(1052) R(1060) R(1061) R(1062)
                    R(1063) R(1064) R(1065) R(1066) R(1067) R(1068) R(1069) R(1070) R(1071) R(1072)
                        R(1073) R(1074) R(1075) R(1076) R(1077) R(1078) R(1079) R(1081)
#undef R
};
enum { N_RAISINGS = sizeof raisings / sizeof raisings[0] };

static const int trace_rows[] = {
#define DIAG(code, id, severity, parameters, arguments, format, remedy, source) code,
#include "src/ir/trace.def"
#undef DIAG
};

START_TEST(each_row_is_raised_alone_and_in_place)
{
    const struct raising *r = &raisings[_i];
    struct trace_case *c = trace_on(r->body, 90);
    ck_assert(!c->traced);
    for (uint32_t i = 0; i < c->diags.list.n; i++) {
        const struct pl_diag *d = &c->diags.list.data[i];
        bool is_consequence =
            d->info->code >= 2090; /* the checks run too: what is not served yet says so */
        ck_assert_msg(d->info->code == r->code || is_consequence, "PL%d instead of PL%d: %s",
                      d->info->code, r->code, d->text);
        if (d->info->code == r->code) {
            ck_assert(d->where.line == expected_line ||
                      d->where.line == expected_line + 1); /* the call may be folded */
            ck_assert_ptr_nonnull(strstr(d->where.file, "check_trace.c"));
        }
    }
    ck_assert_int_eq(trace_count(c, r->code), 1);
    trace_free(c);
}
END_TEST

static void beyond_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_val x = pl_iota(b, PL_F32, PL_SHAPE(4, 8), 0);
    (void)pl_extract(b, x, PL_OFF(b, 3, 7));
    (void)pl_extract(b, x, PL_OFF(b, 4, 0));
    (void)pl_extract(b, x, PL_OFF(b, 0, -1));
}

START_TEST(constant_indexes_lie_inside)
{
    struct trace_case *c = trace_on(beyond_body, 90);
    ck_assert_int_eq(trace_count(c, 1042), 2);
    ck_assert_uint_eq(c->diags.list.n, 2);
    ck_assert_str_eq(c->diags.list.data[0].text, "pl_extract: axis 0: elements 4 to 4 of 4");
    ck_assert_str_eq(c->diags.list.data[1].text, "pl_extract: axis 1: elements -1 to -1 of 8");
    trace_free(c);
}
END_TEST

START_TEST(each_row_has_a_body)
{
    bool has = false;
    for (int i = 0; i < N_RAISINGS; i++)
        has = has || raisings[i].code == trace_rows[_i];
    ck_assert_msg(has, "PL%d is not raised", trace_rows[_i]);
}
END_TEST

/* ---- right bodies ---- */

static void copies_one(pl_builder *b, pl_val step, pl_val slot, pl_bar full, void *user)
{
    pl_ref *buf = user;
    pl_copy_gmem_to_smem(b, pl_tile(b, pl_param(b, 0), PL_OFF(b, 0, step), TILE),
                         pl_at(b, *buf, slot), full);
}

static void body_pipeline(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref buf = pl_smem(b, PL_BF16, PL_SHAPE(3, 16, 64), PL_SWIZZLE_AUTO);
    pl_ref sum = pl_regs(b, PL_F32, TILE, pl_layout_strided(0), 0.0f);
    const pl_pipeline_desc d = {
        .stages = 3, .n_copies = 1, .lag = 1, .copies = copies_one, .user = &buf};
    PL_PIPELINE(b, k, slot, pl_cdiv(b, pl_dim(b, pl_param(b, 0), 1), 64), &d)
    {
        pl_val v = pl_cast(b, pl_load(b, pl_at(b, buf, slot)), PL_F32);
        pl_store(b, sum, pl_fma(b, v, pl_cast(b, k, PL_F32), pl_load(b, sum)));
    }
    pl_store(b, pl_tile(b, pl_param(b, 1), PL_OFF(b, 0, 0), TILE),
             pl_cast(b, pl_load(b, sum), PL_BF16));
}

static void body_roles(pl_builder *b, const void *params)
{
    (void)params;
    pl_block_warpgroups(b, 3);
    pl_block_cluster(b, 2, 1, 1);
    pl_ref buf = pl_smem(b, PL_BF16, PL_SHAPE(4, 16, 64), PL_SWIZZLE(128));
    const pl_pipe_desc d = {.stages = 4,
                            .producer = PL_BY_COPIES,
                            .consumer = PL_BY_THREADS,
                            .n_consumers = 2,
                            .lag = 1};
    pl_pipe p = pl_pipe_make(b, &d);
    pl_sched sched = pl_sched_static(b, pl_scalar(b, 4));
    PL_WARP(b, 0, 0)
    {
        PL_TILES(b, t, sched)
        {
            PL_PRODUCE(b, p, s)
            {
                pl_copy_gmem_to_smem(b, pl_tile(b, pl_param(b, 0), PL_OFF(b, t, 0), TILE),
                                     pl_at(b, buf, s), pl_full_now(b));
            }
        }
    }
    for (int wg = 1; wg < 3; wg++)
        PL_WARPGROUP(b, wg)
        {
            pl_val row = {0}, col = {0};
            PL_TILES(b, t, sched)
            {
                pl_snake(b, t, 8, 8, 1, 4, &row, &col);
                PL_CONSUME(b, p, s)
                {
                    pl_store(b, pl_tile(b, pl_param(b, 1), PL_OFF(b, row, col), TILE),
                             pl_load(b, pl_at(b, buf, s)));
                }
            }
        }
}

static void body_flow(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref n = pl_regs(b, PL_I32, PL_SHAPE_SCALAR, pl_layout_auto(), pl_scalar(b, 4));
    PL_WHILE(b, pl_gt(b, pl_load(b, n), 0))
    {
        PL_IF(b, pl_eq(b, pl_rem(b, pl_load(b, n), 2), 0))
        {
            pl_store(b, n, pl_div(b, pl_load(b, n), 2));
        }
        PL_ELSE(b) { pl_store(b, n, pl_sub(b, pl_load(b, n), 1)); }
        pl_break_if(b, pl_eq(b, pl_load(b, n), 7));
    }
    PL_FOR(b, i, 0, 4)
    {
        pl_store(b, n, pl_add(b, pl_load(b, n), 1));
        break; /* ends the trace of the block only */
    }
    pl_val v = pl_select(b, pl_lt(b, pl_load(b, n), 3), pl_scalar(b, 3), 2.5);
    pl_store(b, pl_window(b, pl_param(b, 5), PL_OFF(b, pl_load(b, n), 0), PL_SHAPE(1, 64)), v);
    pl_ref bits = pl_regs(b, PL_F32, PL_SHAPE(64), pl_layout_splat(), -0.0);
    pl_store(b, pl_at(b, pl_window(b, pl_param(b, 5), PL_OFF(b, 3, 0), PL_SHAPE(2, 64)), 1),
             pl_load(b, bits));
    pl_store(
        b,
        pl_clip(b, pl_window(b, pl_transpose(b, pl_param(b, 5)), PL_OFF(b, 0, 2), PL_SHAPE(64, 2)),
                1, pl_scalar(b, 4)),
        1);
}

static const struct {
    const char *name;
    trace_body body;
    int32_t arch;
} right[] = {{"pipeline", body_pipeline, 90},
             {"pipeline", body_pipeline, 80},
             {"roles", body_roles, 90},
             {"roles", body_roles, 100},
             {"flow", body_flow, 86}};
enum { N_RIGHT = sizeof right / sizeof right[0] };

static const char *text_of(struct trace_case *c)
{
    struct pl_buf t;
    pl_buf_init(&t, &c->arena, 1024);
    pl_ir_print(&c->fn, &t);
    return t.text;
}

START_TEST(right_bodies_say_nothing)
{
    struct trace_case *c = trace_on(right[_i].body, right[_i].arch);
    char why[160];
    for (uint32_t i = 0; i < c->diags.list.n; i++)
        fprintf(stderr, "PL%d %d: %s\n", c->diags.list.data[i].info->code,
                c->diags.list.data[i].where.line, c->diags.list.data[i].text);
    ck_assert_uint_eq(c->diags.list.n, 0);
    ck_assert(c->checked);
    ck_assert_msg(pl_ir_verify(&c->fn, why, sizeof why), "%s", why);
    trace_free(c);
}
END_TEST

START_TEST(text_reads_back)
{
    struct trace_case *c = trace_on(right[_i].body, right[_i].arch);
    const char *first = text_of(c);
    struct pl_fn again;
    struct pl_ir_read_error err;
    ck_assert_msg(pl_ir_read(&again, &c->arena, &c->diags, "text", first, &err), "line %d: %s\n%s",
                  err.line, err.text, first);
    struct pl_buf t;
    pl_buf_init(&t, &c->arena, 1024);
    pl_ir_print(&again, &t);
    ck_assert_str_eq(t.text, first);
    ck_assert(pl_check(&again));
    trace_free(c);
}
END_TEST

START_TEST(same_body_same_text)
{
    struct trace_case *x = trace_on(right[_i].body, right[_i].arch),
                      *y = trace_on(right[_i].body, right[_i].arch);
    ck_assert_str_eq(text_of(x), text_of(y));
    trace_free(x);
    trace_free(y);
}
END_TEST

/* Every limit from nothing up: never a crash, never success without all of it. */
START_TEST(memory_may_run_out_anywhere)
{
    struct trace_case *whole = trace_on(right[_i].body, right[_i].arch);
    size_t used = whole->arena.used_bytes;
    for (size_t limit = 1; limit < used; limit += limit < 4096 ? 97 : 1531) {
        struct trace_case *c = trace_limited(right[_i].body, right[_i].arch, 15, limit);
        ck_assert(!c->checked);
        ck_assert(pl_arena_is_exhausted(&c->arena));
        trace_free(c);
    }
    trace_free(whole);
}
END_TEST

/* ---- poison ---- */

static void body_poison(pl_builder *b, const void *params)
{
    (void)params;
    pl_val bad = pl_add(b, pl_scalar(b, 3), pl_scalar(b, 4)); /* the one mistake */
    pl_ref r = pl_window(b, pl_param(b, 0), PL_OFF(b, bad, bad), TILE);
    pl_store(b, r, pl_mul(b, pl_load(b, r), bad));
    PL_FOR(b, i, bad, bad) { pl_store(b, pl_at(b, r, i), pl_exp(b, bad)); }
    PL_IF(b, pl_lt(b, bad, 1)) { pl_barrier_wait(b, pl_bar_none()); }
    PL_ELSE(b) { pl_reduce(b, PL_ADD, bad, 0, PL_SCOPE_CTA); }
    PL_CONSUME(b, ((pl_pipe){0}), s) { pl_broadcast(b, s, 0, 4); }
    pl_async_store_tmem(b, r, bad);
    pl_regs(b, PL_F32, TILE, pl_layout_auto(), bad);
}

START_TEST(poison_is_silent)
{
    struct trace_case *c = trace_on(body_poison, 90);
    ck_assert_int_eq(trace_count(c, 1010), 1);
    ck_assert_uint_eq(c->diags.n_errors, 1);
    trace_free(c);
}
END_TEST

/* ---- values ---- */

static void body_levels(pl_builder *b, const void *params)
{
    (void)params;
    pl_block_warpgroups(b, 2);
    pl_ref var = pl_regs(b, PL_I32, PL_SHAPE_SCALAR, pl_layout_auto(), 0);
    pl_ref cta = pl_regs(b, PL_I32, PL_SHAPE_SCALAR, pl_layout_auto(), 0);
    PL_FOR(b, i, 0, 4)
    {
        pl_val v = pl_load(b, var); /* looks uniform here, is not: the store below comes round */
        pl_store(b, cta, pl_cast(b, i, PL_I32));
        pl_store(b, var, pl_add(b, v, pl_cast(b, pl_warpgroup_id(b), PL_I32)));
    }
    pl_store(b, pl_at(b, pl_at(b, pl_param(b, 5), 0), 0), pl_cast(b, pl_load(b, cta), PL_F32));
}

START_TEST(levels_reach_a_fixed_point)
{
    struct trace_case *c = trace_on(body_levels, 90);
    int n_narrow = 0, n_wide = 0;
    for (uint32_t i = 1; i < c->fn.ops.n; i++) {
        const struct pl_op *op = pl_ir_op(&c->fn, i);
        if (op->code != PL_OP_LOAD)
            continue;
        n_narrow += op->level == PL_LEVEL_WARPGROUP;
        n_wide += op->level == PL_LEVEL_GRID;
    }
    ck_assert_int_eq(n_narrow, 1);
    ck_assert_int_eq(n_wide, 1);
    trace_free(c);
}
END_TEST

static void body_index(pl_builder *b, const void *params)
{
    (void)params;
    pl_val n = pl_dim(b, pl_param(b, 0), 0), short_ = pl_scalar(b, 4);
    pl_val sum =
        pl_add(b, pl_add(b, n, short_), pl_program_id(b, 0)); /* i32 scalar meets index dtype */
    PL_FOR(b, i, short_, sum) { pl_at(b, pl_param(b, 0), pl_add(b, i, 1)); }
    pl_cast(b, sum, PL_F32);
}

START_TEST(indexes_are_32_bits_only_where_everything_fits)
{
    struct trace_case *narrow = trace_limited(body_index, 90, PL_FACT_I32, 0),
                      *wide = trace_limited(body_index, 90, 0, 0);
    ck_assert(narrow->checked && wide->checked);
    for (uint32_t i = 1; i < narrow->fn.ops.n; i++)
        ck_assert_int_ne(pl_ir_op(&narrow->fn, i)->dtype, PL_I64);
    bool has_wide_dim = false;
    for (uint32_t i = 1; i < wide->fn.ops.n; i++)
        has_wide_dim = has_wide_dim || (pl_ir_op(&wide->fn, i)->code == PL_OP_DIM &&
                                        pl_ir_op(&wide->fn, i)->dtype == PL_I64);
    ck_assert(has_wide_dim);
    trace_free(narrow);
    trace_free(wide);
}
END_TEST

static void body_views(pl_builder *b, const void *params)
{
    (void)params;
    pl_val i = pl_program_id(b, 0);
    pl_ref tile = pl_tile(b, pl_param(b, 0), PL_OFF(b, i, 2), PL_SHAPE(64, 32));
    pl_ref inner = pl_window(b, tile, PL_OFF(b, i, 5), PL_SHAPE(8, 16));
    pl_transpose(b, pl_clip(b, inner, 1, pl_scalar(b, 4)));
    pl_assume_multiple(b, pl_scalar(b, 4), 24);
}

START_TEST(views_resolve_to_exact_offsets)
{
    struct trace_case *c = trace_on(body_views, 90);
    const struct pl_ref_info *r = pl_ir_ref(&c->fn, c->fn.refs.n - 1);
    ck_assert(c->checked);
    ck_assert_int_eq(r->view, PL_VIEW_TRANSPOSE);
    ck_assert_int_eq(r->axis_of[0], 1);
    ck_assert_int_eq(r->axis_of[1], 0);
    ck_assert_int_eq(r->shape.d[0], 16);
    ck_assert_int_eq(r->offset[0].n_terms, 1); /* 64*i + i */
    ck_assert_int_eq(r->offset[0].terms[0].scale, 65);
    ck_assert_int_eq(r->offset[1].n_terms, 0); /* 2*32 + 5 */
    ck_assert_int_eq(r->offset[1].konst, 69);
    ck_assert(r->has_clip[1] && !r->has_clip[0]);
    ck_assert_int_eq(r->clip[1].konst, 69);
    ck_assert_int_eq(r->clip[1].n_terms, 1);
    ck_assert_int_eq(pl_affine_multiple(&c->fn, &r->offset[1]), 1);
    ck_assert_int_eq(pl_ir_multiple(&c->fn, c->fn.ops.n - 1), 8); /* 24 claimed: its power of two */
    trace_free(c);
}
END_TEST

/* One source, one text: operands are traced as they are written, whatever the compiler does with the arguments of a call. */
static void body_order(pl_builder *b, const void *params)
{
    (void)params;
    pl_at(b, pl_at(b, pl_param(b, 0), pl_sub(b, pl_program_id(b, 0), pl_program_id(b, 1))),
          pl_program_id(b, 2));
    pl_fma(b, pl_program_id(b, 0), pl_program_id(b, 1), pl_program_id(b, 2));
    pl_tile(b, pl_param(b, 0), PL_OFF(b, pl_program_id(b, 0), pl_program_id(b, 1)), TILE);
    PL_FOR_STEP(b, i, pl_program_id(b, 2), pl_program_id(b, 0), pl_program_id(b, 1))
    {
        pl_add(b, i, 1);
    }
}

START_TEST(operands_are_traced_from_left_to_right)
{
    static const int32_t axes[] = {0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1};
    struct trace_case *c = trace_on(body_order, 90);
    int n = 0;
    for (uint32_t i = 1; i < c->fn.ops.n; i++)
        if (pl_ir_op(&c->fn, i)->code == PL_OP_PROGRAM_ID)
            ck_assert_int_eq(pl_ir_op(&c->fn, i)->axis, axes[n++]);
    ck_assert_int_eq(n, 11);
    trace_free(c);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("trace");
    TCase *t = tcase_create("diagnostics");
    tcase_add_loop_test(t, each_row_is_raised_alone_and_in_place, 0, N_RAISINGS);
    tcase_add_test(t, constant_indexes_lie_inside);
    tcase_add_loop_test(t, each_row_has_a_body, 0, (int)(sizeof trace_rows / sizeof trace_rows[0]));
    tcase_add_test(t, poison_is_silent);
    suite_add_tcase(s, t);
    t = tcase_create("right");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, right_bodies_say_nothing, 0, N_RIGHT);
    tcase_add_loop_test(t, text_reads_back, 0, N_RIGHT);
    tcase_add_loop_test(t, same_body_same_text, 0, N_RIGHT);
    tcase_add_loop_test(t, memory_may_run_out_anywhere, 0, N_RIGHT);
    tcase_add_test(t, operands_are_traced_from_left_to_right);
    tcase_add_test(t, levels_reach_a_fixed_point);
    tcase_add_test(t, indexes_are_32_bits_only_where_everything_fits);
    tcase_add_test(t, views_resolve_to_exact_offsets);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
