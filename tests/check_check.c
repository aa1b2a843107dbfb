/* The checks on traces: each row raised, in place; the matrix of operations and spaces cell by cell; the order of the report. */
#include "src/ir/read.h"
#include "tests/trace_case.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>

/* ---- one body for each row ---- */

static int expected_line;
#define MARK       (expected_line = __LINE__)
#define BODY(code) static void body_##code(pl_builder *b, const void *params)
#define TILE       PL_SHAPE(16, 64)
#define SMEM(t)    pl_smem(b, t, TILE, PL_SWIZZLE_NONE)
#define X_TILE     pl_tile(b, pl_param(b, 0), PL_OFF(b, 0, 0), TILE)
#define Y_TILE     pl_tile(b, pl_param(b, 1), PL_OFF(b, 0, 0), TILE)

static pl_ref tmem_tile(pl_builder *b) { return pl_tmem(b, PL_F32, PL_SHAPE(128, 64), 0); }

BODY(2001)
{
    (void)params, MARK,
        pl_atomic_add(b, pl_regs(b, PL_I32, PL_SHAPE_SCALAR, pl_layout_auto(), 0), 1);
}
BODY(2002) { (void)params, MARK, pl_load(b, tmem_tile(b)); }
BODY(2003) { (void)params, MARK, pl_store(b, tmem_tile(b), 0.0f); }
BODY(2004) { (void)params, MARK, pl_swap(b, tmem_tile(b), 0.0f); }
BODY(2005) { (void)params, MARK, pl_load(b, pl_acc(b, PL_F32, PL_SHAPE(64, 64))); }
BODY(2006) { (void)params, MARK, pl_store(b, pl_at(b, pl_semaphore(b, pl_param(b, 6)), 0), 1); }
BODY(2007)
{
    (void)params;
    pl_block_cluster(b, 2, 1, 1);
    pl_ref r = pl_peer(b, pl_smem(b, PL_F32, PL_SHAPE_SCALAR, PL_SWIZZLE_NONE), 1);
    pl_bar bar = pl_barrier(b, 1);
    MARK, pl_async_store_smem(b, r, pl_scalar(b, 3), bar);
    pl_barrier_wait(b, bar);
}
BODY(2010) { (void)params, MARK, pl_store(b, X_TILE, 0.0f); }
BODY(2011) { (void)params, MARK, pl_peer(b, SMEM(PL_F32), 1); }
BODY(2012)
{
    (void)params;
    pl_block_cluster(b, 2, 1, 1);
    pl_ref t = pl_peer(b, SMEM(PL_BF16), 1);
    MARK, pl_copy_smem_to_gmem(b, t, Y_TILE);
}
BODY(2013)
{
    (void)params;
    pl_ref r = pl_window(b, pl_param(b, 5), PL_OFF(b, 0, 0), TILE);
    MARK, pl_atomic_max(b, r, 1.0f);
}
BODY(2014)
{
    (void)params;
    pl_ref r = pl_clip(b, SMEM(PL_F32), 0, pl_scalar(b, 4));
    MARK, pl_swap(b, r, 1.0f);
}
BODY(2091) { (void)params, MARK, pl_commit_tmem(b); }
BODY(3001) { (void)params, MARK, pl_smem(b, PL_F32, TILE, PL_SWIZZLE(48)); }
BODY(3002) { (void)params, MARK, pl_smem(b, PL_F32, TILE, PL_SWIZZLE(128)); }
BODY(3003) { (void)params, MARK, pl_smem(b, PL_F32, TILE, pl_transforms_make(7, 32, 128)); }
static void copy_with(pl_builder *b, const pl_copy_opt *o, pl_ref src, pl_ref dst)
{
    pl_bar bar = pl_barrier(b, 1);
    MARK, pl_copy_gmem_to_smem_ex(b, src, dst, bar, o);
    pl_barrier_wait(b, bar);
}
BODY(2094)
{
    (void)params;
    const pl_pipe_desc d = {.stages = 2, .consumer = PL_BY_THREADS, .empty_at = PL_LEADER};
    pl_block_cluster(b, 2, 1, 1);
    MARK, pl_pipe_make(b, &d);
}
BODY(3004)
{
    (void)params;
    const pl_copy_opt o = {.multicast_mask = 4};
    pl_block_cluster(b, 2, 1, 1);
    copy_with(b, &o, X_TILE, SMEM(PL_BF16));
}
BODY(3005)
{
    (void)params;
    const pl_copy_opt o = {.pair_axis_plus1 = 1};
    copy_with(b, &o, pl_tile(b, pl_param(b, 0), PL_OFF(b, 0, 0), PL_SHAPE(32, 64)), SMEM(PL_BF16));
}
BODY(3006)
{
    (void)params;
    const pl_copy_opt o = {.reduce = PL_ADD};
    copy_with(b, &o, X_TILE, SMEM(PL_BF16));
}
BODY(3007)
{
    (void)params;
    const pl_copy_opt o = {.reduce = PL_MUL};
    MARK, pl_copy_smem_to_gmem_ex(b, SMEM(PL_BF16), Y_TILE, &o);
}
BODY(3008)
{
    (void)params;
    const pl_copy_opt o = {.how = PL_HOW_TMA};
    copy_with(b, &o, X_TILE, SMEM(PL_BF16));
}
static const pl_copy_opt by_tma = {.how = PL_HOW_TMA};
BODY(3010)
{
    (void)params;
    copy_with(b, &by_tma, pl_window(b, pl_param(b, 0), PL_OFF(b, 0, 0), PL_SHAPE(512, 8)),
              pl_smem(b, PL_BF16, PL_SHAPE(512, 8), PL_SWIZZLE_NONE));
}
BODY(3011)
{
    (void)params;
    copy_with(b, &by_tma, pl_window(b, pl_param(b, 0), PL_OFF(b, 0, 0), PL_SHAPE(16, 4)),
              pl_smem(b, PL_BF16, PL_SHAPE(16, 4), PL_SWIZZLE_NONE));
}
BODY(3012) { (void)params, copy_with(b, &by_tma, X_TILE, SMEM(PL_BF16)); }
static void async_store(pl_builder *b, pl_ref dst, pl_op2 op)
{
    pl_val v = pl_broadcast(b, pl_cast(b, 1, pl_dtype_of(b, dst)), 0, pl_dim_const(b, dst, 0));
    pl_bar bar = pl_barrier(b, 1);
    MARK, pl_async_store_smem_at(b, dst, v, bar, op, PL_LOC);
    pl_barrier_wait(b, bar);
}
static pl_ref peer_array(pl_builder *b, pl_dtype t, int n)
{
    pl_block_cluster(b, 2, 1, 1);
    return pl_peer(b, pl_smem(b, t, PL_SHAPE(n), PL_SWIZZLE_NONE), 1);
}
BODY(3013) { (void)params, async_store(b, peer_array(b, PL_U8, 6), PL_OP2_NONE); }
BODY(3014)
{
    (void)params;
    pl_block_cluster(b, 2, 1, 1);
    async_store(b, pl_smem(b, PL_I32, PL_SHAPE(4), PL_SWIZZLE_NONE), PL_OP2_NONE);
}
BODY(3015) { (void)params, async_store(b, peer_array(b, PL_F32, 4), PL_ADD); }
BODY(3016)
{
    (void)params;
    pl_bar bar = pl_barrier(b, 1);
    pl_val rows = pl_iota(b, PL_I64, PL_SHAPE(16), 0);
    MARK, pl_gather_rows(b, X_TILE, rows, SMEM(PL_BF16), bar);
    pl_barrier_wait(b, bar);
}
BODY(3017)
{
    (void)params;
    copy_with(b, NULL, X_TILE, pl_clip(b, SMEM(PL_BF16), 0, pl_scalar(b, 4)));
}
BODY(3020)
{
    (void)params;
    pl_val v = pl_load(b, pl_tile(b, pl_param(b, 0), PL_OFF(b, pl_program_id(b, 0), 0), TILE));
    MARK, pl_reduce(b, PL_MAX, v, 1, PL_SCOPE_WARPGROUP);
}
BODY(4001) { (void)params, MARK, pl_tmem(b, PL_F32, PL_SHAPE(128), 0); }
BODY(4002) { (void)params, MARK, pl_tmem(b, PL_F32, PL_SHAPE(32, 64), 0); }
BODY(4003)
{
    (void)params;
    tmem_tile(b);
    MARK, pl_tmem(b, PL_F32, PL_SHAPE(128, 512), 0);
}
BODY(4004)
{
    (void)params;
    pl_block_cluster(b, 2, 1, 1);
    tmem_tile(b);
    MARK, pl_tmem(b, PL_F32, PL_SHAPE(128, 64), 1);
}
BODY(4005) { (void)params, MARK, pl_tmem(b, PL_F32, PL_SHAPE(128, 64), 1); }
BODY(4006)
{
    (void)params;
    pl_ref t = tmem_tile(b);
    MARK, pl_window(b, t, PL_OFF(b, 0, 0), PL_SHAPE(64, 64));
}
/* D of f16 has a column for each element, A of f16 half of one. */
BODY(4007)
{
    (void)params;
    MARK;
    pl_ref d = pl_tmem(b, PL_F16, PL_SHAPE(128, 64), 0);
    pl_ref x = pl_smem(b, PL_F16, PL_SHAPE(128, 64), PL_SWIZZLE_AUTO),
           y = pl_smem(b, PL_F16, PL_SHAPE(64, 64), PL_SWIZZLE_AUTO);
    pl_tcgen05_mma(b, d, x, y, NULL);
    pl_tcgen05_mma(b, pl_tmem(b, PL_F32, PL_SHAPE(128, 64), 0), d, y, NULL);
}
BODY(4008) { (void)params, MARK, pl_tmem(b, PL_F64, PL_SHAPE(128, 32), 0); }
BODY(4009)
{
    (void)params;
    pl_ref t = pl_tmem(b, PL_F32, PL_SHAPE(2, 128, 32), 0);
    MARK, pl_async_load_tmem(b, t);
}
BODY(4017)
{
    (void)params;
    pl_ref t = pl_tmem(b, PL_BF16, PL_SHAPE(128, 32), 0);
    MARK, pl_window(b, t, PL_OFF(b, 0, 1), PL_SHAPE(128, 16));
}
BODY(4018)
{
    (void)params;
    pl_block_cluster(b, 2, 1, 1);
    MARK, pl_tmem(b, PL_F32, PL_SHAPE(64, 64), 1);
}
BODY(4019)
{
    (void)params;
    pl_ref t = pl_tmem(b, PL_F32, PL_SHAPE(64, 12), 0);
    MARK, pl_async_load_tmem(b, t);
}
static pl_ref operand(pl_builder *b, pl_dtype t, int rows, int cols)
{
    return pl_smem(b, t, PL_SHAPE(rows, cols), PL_SWIZZLE_AUTO);
}
static void wgmma(pl_builder *b, pl_dtype d, pl_dtype t, int m, int n, int k)
{
    pl_ref x = operand(b, t, m, k), y = operand(b, t, k, n), acc = pl_acc(b, d, PL_SHAPE(m, n));
    MARK, pl_wgmma(b, acc, x, y);
}
BODY(4010) { (void)params, wgmma(b, PL_F16, PL_BF16, 64, 64, 64); }
BODY(4011) { (void)params, wgmma(b, PL_F32, PL_BF16, 32, 64, 64); }
BODY(4012) { (void)params, wgmma(b, PL_F32, PL_BF16, 64, 320, 64); }
BODY(4013) { (void)params, wgmma(b, PL_F32, PL_E4M3, 64, 64, 48); }
BODY(4014)
{
    (void)params;
    pl_ref d = pl_tmem(b, PL_F32, PL_SHAPE(128, 64), 0),
           y = pl_tmem(b, PL_BF16, PL_SHAPE(64, 64), 0);
    pl_ref x = operand(b, PL_BF16, 128, 64);
    MARK, pl_tcgen05_mma(b, d, x, y, NULL);
}
BODY(4015)
{
    (void)params;
    pl_ref d = tmem_tile(b), scale = pl_tmem(b, PL_E8M0, PL_SHAPE(128, 4), 0);
    const pl_mma_opt o = {.a_scale = scale};
    pl_ref x = operand(b, PL_E4M3, 128, 128), y = operand(b, PL_E4M3, 128, 64);
    MARK, pl_tcgen05_mma(b, d, x, y, &o);
}
static void product(pl_builder *b, pl_ref d, pl_dtype t, const pl_mma_opt *o)
{
    const int n = (int)pl_dim_const(b, d, 1), k = 128;
    pl_ref x = operand(b, t, (int)pl_dim_const(b, d, 0), k), y = operand(b, t, k, n);
    MARK, pl_tcgen05_mma(b, d, x, y, o);
}
static pl_ref scales(pl_builder *b, int rows) { return pl_tmem(b, PL_E8M0, PL_SHAPE(rows, 4), 0); }
BODY(4020)
{
    (void)params;
    pl_block_cluster(b, 2, 1, 1);
    product(b, pl_tmem(b, PL_F32, PL_SHAPE(128, 64), 1), PL_BF16, NULL);
}
BODY(4021)
{
    (void)params;
    const pl_mma_opt o = {.a_scale = scales(b, 128), .b_scale = scales(b, 128)};
    product(b, tmem_tile(b), PL_E4M3, &o);
}
BODY(4022)
{
    (void)params;
    const pl_mma_opt o = {.a_scale = scales(b, 256), .b_scale = scales(b, 128), .scale_block = 32};
    product(b, tmem_tile(b), PL_E4M3, &o);
}
BODY(4023)
{
    (void)params;
    const pl_mma_opt o = {.a_scale = scales(b, 128), .b_scale = scales(b, 128), .scale_block = 32};
    product(b, pl_tmem(b, PL_F32, PL_SHAPE(64, 64), 0), PL_E4M3, &o);
}
BODY(4024)
{
    (void)params;
    pl_ref to = pl_tmem(b, PL_BF16, PL_SHAPE(64, 64), 0), from = operand(b, PL_BF16, 64, 64);
    MARK, pl_copy_smem_to_tmem(b, from, to);
}
BODY(4025)
{
    (void)params;
    pl_ref to = scales(b, 128), from = pl_smem(b, PL_E8M0, PL_SHAPE(128, 4), PL_SWIZZLE_NONE);
    MARK, pl_copy_scales_to_tmem(b, from, to);
}
BODY(4026)
{
    (void)params;
    pl_ref d = pl_tmem(b, PL_F32, PL_SHAPE(128, 24), 0),
           x = pl_tmem(b, PL_BF16, PL_SHAPE(128, 64), 0), y = operand(b, PL_BF16, 64, 24);
    MARK, pl_tcgen05_mma(b, d, x, y, NULL);
}
BODY(4016)
{
    (void)params;
    pl_ref x = pl_smem(b, PL_BF16, PL_SHAPE(64, 64), PL_SWIZZLE_NONE),
           y = operand(b, PL_BF16, 64, 64);
    MARK, pl_wgmma(b, pl_acc(b, PL_F32, PL_SHAPE(64, 64)), x, y);
}
BODY(4030)
{
    (void)params;
    MARK, pl_regs(b, PL_F32, PL_SHAPE(32, 64), pl_layout_of(PL_LAYOUT_WGMMA), 0.0f);
}
BODY(5001)
{
    (void)params;
    PL_IF(b, pl_lt(b, pl_scalar(b, 4), 1))
    {
        MARK;
        PL_WARPGROUP(b, 0) { pl_fence(b, PL_FENCE_CTA); }
    }
}
BODY(5002)
{
    (void)params;
    PL_WARP(b, 0, 2) { pl_fence(b, PL_FENCE_CTA); }
    MARK;
    PL_WARPGROUP(b, 0) { pl_fence(b, PL_FENCE_CTA); }
}
BODY(5003)
{
    (void)params, MARK;
    PL_WARPGROUP(b, 1) { pl_fence(b, PL_FENCE_CTA); }
}
BODY(5004)
{
    (void)params;
    PL_WARP(b, 0, 0) { MARK, pl_iota(b, PL_F32, PL_SHAPE(64), 0); }
}
BODY(5005)
{
    (void)params;
    PL_WARPGROUP(b, 0) { MARK, pl_bar_sync(b, PL_SCOPE_CTA); }
}
BODY(5006)
{
    (void)params;
    pl_bar bar = pl_barrier(b, 1);
    pl_barrier_arrive(b, bar);
    MARK, pl_barrier_test(b, bar);
}
BODY(5007) { (void)params, MARK, pl_set_max_registers(b, 240); }
BODY(5010)
{
    (void)params;
    MARK;
    pl_bar bar = pl_barrier(b, 1);
    pl_barrier_wait(b, bar);
}
BODY(5011)
{
    (void)params;
    MARK;
    pl_bar bar = pl_barrier(b, 1);
    pl_barrier_arrive(b, bar);
}
static pl_pipe thread_pipe(pl_builder *b, int n_consumers)
{
    const pl_pipe_desc d = {.stages = 2,
                            .producer = PL_BY_THREADS,
                            .consumer = PL_BY_THREADS,
                            .n_consumers = n_consumers};
    return MARK, pl_pipe_make(b, &d);
}
BODY(5012)
{
    (void)params;
    pl_pipe p = thread_pipe(b, 1);
    PL_CONSUME(b, p, s) {}
}
BODY(5013)
{
    (void)params;
    pl_pipe p = thread_pipe(b, 1);
    PL_PRODUCE(b, p, s) {}
}
BODY(5014)
{
    (void)params;
    pl_pipe p = thread_pipe(b, 1);
    PL_WARP(b, 0, 0)
    {
        PL_PRODUCE(b, p, s) {}
    }
    PL_WARP(b, 0, 1)
    {
        MARK;
        PL_PRODUCE(b, p, s) {}
    }
    PL_WARP(b, 0, 2)
    {
        PL_CONSUME(b, p, s) {}
    }
}
BODY(5015)
{
    (void)params;
    pl_block_warpgroups(b, 2);
    PL_FOR(b, i, 0, pl_warpgroup_id(b))
    {
        MARK, pl_reduce(b, PL_ADD, pl_iota(b, PL_F32, PL_SHAPE(128), 0), 0, PL_SCOPE_CTA);
    }
}
BODY(5017)
{
    (void)params;
    MARK;
    pl_bar bar = pl_cluster_barrier(b, 1);
    pl_barrier_arrive(b, bar);
    pl_barrier_wait(b, bar);
}
BODY(5018)
{
    (void)params;
    pl_ref t = SMEM(PL_BF16);
    pl_store(b, t, 1.0f);
    MARK, pl_copy_smem_to_gmem(b, t, Y_TILE);
}
BODY(5019)
{
    (void)params;
    pl_pipe p = thread_pipe(b, 2);
    PL_WARP(b, 0, 0)
    {
        PL_PRODUCE(b, p, s) {}
    }
    PL_WARP(b, 0, 1)
    {
        PL_CONSUME(b, p, s) {}
    }
}
BODY(5020)
{
    (void)params;
    pl_ref t = SMEM(PL_BF16);
    pl_bar bar = pl_barrier(b, 1);
    pl_copy_gmem_to_smem(b, X_TILE, t, bar);
    MARK, pl_load(b, t);
    pl_barrier_wait(b, bar);
}
BODY(5021)
{
    (void)params;
    pl_ref t = SMEM(PL_BF16);
    pl_bar bar = pl_barrier(b, 1);
    pl_val first = pl_ge(b, pl_program_id(b, 0), 1);
    PL_IF(b, first) { pl_griddep_wait(b); } /* not on every path */
    MARK, pl_copy_gmem_to_smem(b, X_TILE, t, bar);
    pl_barrier_wait(b, bar);
    pl_griddep_wait(b);
    pl_copy_smem_to_gmem(b, t, Y_TILE);
    pl_wait_smem_to_gmem(b, 0);
}

struct raising {
    int code;
    trace_body body;
    int32_t arch;
    pl_fact_set facts;
};
static const struct raising raisings[] = {
#define R(code, arch) {code, body_##code, arch, 15},
    R(2001, 90) R(2002, 100) R(2003, 100) R(2004, 100) R(2005, 90) R(2006, 90) R(2007, 90)
        R(2010, 90) R(2011, 90) R(2012, 90) R(2013, 90) R(2014, 90) R(2091, 90) R(2094, 90)
            R(3001, 90) R(3002, 90) R(3003, 90) R(3004, 90) R(3005, 90) R(3006, 90) R(3007, 90)
                R(3008, 80) R(3010, 90) R(3011, 90){3012, body_3012, 90, PL_FACT_UNIT_STRIDE},
    R(3013, 90) R(3014, 90) R(3015, 90) R(3016, 90) R(3017, 90) R(3020, 90) R(4001, 100)
        R(4002, 100) R(4003, 100) R(4004, 100) R(4005, 100) R(4006, 100) R(4007, 100) R(4008, 100)
            R(4009, 100) R(4017, 100) R(4018, 100) R(4019, 100) R(4010, 90) R(4011, 90) R(4012, 90)
                R(4013, 90) R(4014, 100) R(4015, 100) R(4016, 90) R(4020, 100) R(4021, 100)
                    R(4022, 100) R(4023, 100) R(4024, 100) R(4025, 100) R(4026, 100) R(4030, 90)
                        R(5001, 90) R(5002, 90) R(5003, 90) R(5004, 90) R(5005, 90) R(5006, 90)
                            R(5007, 90) R(5010, 90) R(5011, 90) R(5012, 90) R(5013, 90) R(5014, 90)
                                R(5015, 90) R(5017, 90) R(5018, 90) R(5019, 90) R(5020, 90)
                                    R(5021, 90)
#undef R
};
enum { N_RAISINGS = sizeof raisings / sizeof raisings[0] };

static void print_all(const struct trace_case *c)
{
    for (uint32_t i = 0; i < c->diags.list.n; i++)
        fprintf(stderr, "PL%d line %d: %s\n", c->diags.list.data[i].info->code,
                c->diags.list.data[i].where.line, c->diags.list.data[i].text);
}

START_TEST(each_row_is_raised_alone_and_in_place)
{
    const struct raising *r = &raisings[_i];
    struct trace_case *c = trace_limited(r->body, r->arch, r->facts, 0);
    if (trace_count(c, r->code) != 1)
        print_all(c);
    ck_assert(c->traced);
    ck_assert_msg(trace_count(c, r->code) == 1, "PL%d: %d times", r->code, trace_count(c, r->code));
    for (uint32_t i = 0; i < c->diags.list.n; i++) {
        const struct pl_diag *d = &c->diags.list.data[i];
        bool is_unserved =
            d->info->code >= 2090 && d->info->code <= 2099; /* true beside it, until it is served */
        ck_assert_msg(d->info->code == r->code || is_unserved, "PL%d too: %s", d->info->code,
                      d->text);
        if (d->info->code == r->code)
            ck_assert_msg(d->where.line == expected_line || d->where.line == expected_line + 1,
                          "line %d, not %d", d->where.line, expected_line);
    }
    trace_free(c);
}
END_TEST

static const int check_rows[] = {
#define DIAG(code, id, severity, parameters, arguments, format, remedy, source) code,
#include "src/check/copy.def"
#include "src/check/place.def"
#include "src/check/served.def"
#include "src/check/space.def"
#include "src/check/sync.def"
#include "src/check/tensor.def"
#undef DIAG
};

START_TEST(each_row_has_a_body)
{
    int code = check_rows[_i];
    bool has = code == 2093 || code == 3009; /* need another kernel: tests of their own below */
    for (int i = 0; i < N_RAISINGS; i++)
        has = has || raisings[i].code == code;
    ck_assert_msg(has, "PL%d is not raised", code);
}
END_TEST

static void own_memory_body(pl_builder *b, const void *params)
{
    (void)params;
    (void)pl_tmem(b, PL_F32, PL_SHAPE(128, 64), 0);
    (void)pl_acc(b, PL_F32, PL_SHAPE(64, 64));
}

/* Also where no operation follows that would say so. */
START_TEST(memory_that_the_chip_lacks_is_refused_where_it_is_asked_for)
{
    static const struct {
        int arch, n_lacks;
        const char *first;
    } chips[] = {{80, 2, "pl_tmem needs tcgen05 and tensor memory, which sm_80 has not"},
                 {90, 1, "pl_tmem needs tcgen05 and tensor memory, which sm_90 has not"},
                 {100, 1, "pl_acc needs wgmma, which sm_100 has not"},
                 {120, 2, "pl_tmem needs tcgen05 and tensor memory, which sm_120 has not"}};
    struct trace_case *c = trace_limited(own_memory_body, chips[_i].arch, 15, 0);
    ck_assert_int_eq(trace_count(c, 2091), chips[_i].n_lacks);
    ck_assert_uint_eq(c->diags.list.n, (uint32_t)chips[_i].n_lacks);
    ck_assert_str_eq(c->diags.list.data[0].text, chips[_i].first);
    ck_assert_int_gt(c->diags.list.data[0].where.line, 0);
    trace_free(c);
}
END_TEST

static void body_nothing(pl_builder *b, const void *params) { (void)b, (void)params; }

START_TEST(the_tpu_model_is_refused)
{
    struct trace_case *c = trace_on(body_nothing, 90);
    ck_assert(c->checked);
    c->kernel.model = PL_MODEL_TPU;
    ck_assert(!pl_check(&c->fn));
    ck_assert_int_eq(trace_count(c, 2093), 1);
    ck_assert(pl_check_is_unsupported(&c->diags));
    trace_free(c);
}
END_TEST

/* ---- reads and the grid before ---- */

enum grid_order {
    NO_WAIT,
    WAIT_FIRST,
    WAIT_LAST,
    IN_BOTH_BRANCHES,
    BEHIND_A_LOOP, /* which may have no round */
    IN_A_LOOP,
    IN_ANOTHER_ROLE,
    BEHIND_A_BARRIER,
    WRITTEN_ONLY
};

static void read_in_roles(pl_builder *b, bool has_barrier)
{
    pl_block_warpgroups(b, 2);
    pl_ref t = SMEM(PL_BF16);
    pl_bar bar = pl_barrier(b, 1);
    PL_WARPGROUP(b, 0)
    {
        pl_griddep_wait(b);
        pl_copy_gmem_to_smem(b, X_TILE, t, bar);
    }
    PL_WARPGROUP(b, 1)
    {
        if (has_barrier)
            pl_barrier_wait(b, bar);
        pl_load(b, X_TILE);
    }
}

static void body_grid_order(pl_builder *b, const void *params)
{
    const enum grid_order order = *(const enum grid_order *)params;
    switch (order) {
    case NO_WAIT: pl_load(b, X_TILE); break;
    case WAIT_FIRST:
        pl_griddep_wait(b);
        pl_load(b, X_TILE);
        break;
    case WAIT_LAST:
        pl_load(b, X_TILE);
        pl_griddep_wait(b);
        break;
    case IN_BOTH_BRANCHES:
        PL_IF(b, pl_eq(b, pl_program_id(b, 0), 0)) { pl_griddep_wait(b); }
        PL_ELSE(b) { pl_griddep_wait(b); }
        pl_load(b, X_TILE);
        break;
    case BEHIND_A_LOOP:
        PL_FOR(b, i, 0, pl_scalar(b, 4)) { pl_griddep_wait(b); }
        pl_load(b, X_TILE);
        break;
    case IN_A_LOOP:
        PL_FOR(b, i, 0, pl_scalar(b, 4))
        {
            pl_griddep_wait(b);
            pl_load(b, X_TILE);
        }
        break;
    case IN_ANOTHER_ROLE:
    case BEHIND_A_BARRIER: read_in_roles(b, order == BEHIND_A_BARRIER); break;
    case WRITTEN_ONLY:
        pl_store(b, Y_TILE, 0.0f);
        pl_griddep_wait(b);
        break;
    }
}

static const struct {
    enum grid_order order;
    bool is_constant;
    int n_expected;
} grid_orders[] = {
    {NO_WAIT, false, 0},        {WAIT_FIRST, false, 0},       {WAIT_LAST, false, 1},
    {WAIT_LAST, true, 0},       {IN_BOTH_BRANCHES, false, 0}, {BEHIND_A_LOOP, false, 1},
    {BEHIND_A_LOOP, true, 0},   {IN_A_LOOP, false, 0},        {IN_ANOTHER_ROLE, false, 1},
    {IN_ANOTHER_ROLE, true, 0}, {BEHIND_A_BARRIER, false, 0}, {WRITTEN_ONLY, false, 0}};
enum { N_GRID_ORDERS = sizeof grid_orders / sizeof grid_orders[0] };

START_TEST(reads_ahead_of_the_grid_before_are_told)
{
    struct trace_case *c = calloc(1, sizeof *c);
    pl_param_decl params[8];
    memcpy(params, trace_params, sizeof params);
    params[0].is_constant = grid_orders[_i].is_constant;
    trace_request_make(c, body_grid_order, 90, 15);
    c->kernel.params = params;
    memcpy(c->request.params, &grid_orders[_i].order, sizeof grid_orders[_i].order);
    pl_diags_init(&c->diags, &c->arena);
    ck_assert(pl_fn_init(&c->fn, &c->arena, &c->diags, &c->request) && pl_trace_run(&c->fn));
    (void)pl_check(&c->fn);
    ck_assert_int_eq(trace_count(c, 5021), grid_orders[_i].n_expected);
    trace_free(c);
}
END_TEST

/* ---- options that are traced and not served ---- */

static void led_pipe(pl_builder *b, pl_where_at full, pl_where_at empty)
{
    const pl_pipe_desc d = {.stages = 2,
                            .producer = PL_BY_COPIES,
                            .consumer = PL_BY_THREADS,
                            .full_at = full,
                            .empty_at = empty};
    pl_block_warpgroups(b, 2);
    pl_block_cluster(b, 2, 1, 1);
    pl_ref buf = pl_smem(b, PL_BF16, PL_SHAPE(2, 16, 64), PL_SWIZZLE_NONE);
    pl_pipe pipe = pl_pipe_make(b, &d);
    PL_WARP(b, 0, 0)
    {
        PL_PRODUCE(b, pipe, slot)
        {
            pl_copy_gmem_to_smem(b, X_TILE, pl_at(b, buf, slot), pl_full_now(b));
        }
    }
    PL_WARPGROUP(b, 1)
    {
        PL_CONSUME(b, pipe, slot) { pl_load(b, pl_at(b, buf, slot)); }
    }
}
static void body_full_led(pl_builder *b, const void *params)
{
    (void)params, led_pipe(b, PL_LEADER, PL_EACH_CTA);
}
static void body_empty_led(pl_builder *b, const void *params)
{
    (void)params, led_pipe(b, PL_EACH_CTA, PL_LEADER);
}

START_TEST(unserved_options_are_refused)
{
    static const struct {
        trace_body body;
        const char *what;
    } cases[] = {{body_full_led, "full_at"}, {body_empty_led, "empty_at"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct trace_case *c = trace_on(cases[i].body, 90);
        if (c->diags.list.n != 1)
            print_all(c);
        ck_assert(c->traced && !c->checked);
        ck_assert_int_eq(trace_count(c, 2094), 1);
        ck_assert_uint_eq(c->diags.list.n, 1);
        ck_assert_ptr_nonnull(strstr(c->diags.list.data[0].text, cases[i].what));
        ck_assert(pl_check_is_unsupported(&c->diags));
        trace_free(c);
    }
}
END_TEST

/* Roles 6 and 7 are not those of 0 and 1: each of eight warpgroups consumes, and each counts, in roles of their own or in one. */
static void consume_by_seven(pl_builder *b, bool is_one_role)
{
    const pl_pipe_desc d = {
        .stages = 2, .producer = PL_BY_COPIES, .consumer = PL_BY_THREADS, .n_consumers = 7};
    pl_block_warpgroups(b, 8);
    pl_ref buf = pl_smem(b, PL_BF16, PL_SHAPE(2, 16, 64), PL_SWIZZLE_NONE);
    pl_pipe pipe = pl_pipe_make(b, &d);
    PL_WARP(b, 0, 0)
    {
        PL_PRODUCE(b, pipe, slot)
        {
            pl_copy_gmem_to_smem(b, X_TILE, pl_at(b, buf, slot), pl_full_now(b));
        }
    }
    for (int w = 1; w < (is_one_role ? 2 : 8); w++)
        PL_WARPGROUPS(b, w, is_one_role ? 7 : 1)
        {
            PL_CONSUME(b, pipe, slot) { pl_load(b, pl_at(b, buf, slot)); }
        }
}
static void body_eight(pl_builder *b, const void *params)
{
    (void)params, consume_by_seven(b, false);
}
static void body_one_role(pl_builder *b, const void *params)
{
    (void)params, consume_by_seven(b, true);
}

START_TEST(all_of_eight_warpgroups_count_as_consumers)
{
    struct trace_case *c = trace_on(_i == 0 ? body_eight : body_one_role, 90);
    if (!c->checked)
        print_all(c);
    ck_assert(c->checked);
    trace_free(c);
}
END_TEST

/* Each of two warpgroups would fill the slot. */
static void body_two_fill(pl_builder *b, const void *params)
{
    (void)params;
    const pl_pipe_desc d = {.stages = 2, .producer = PL_BY_COPIES, .consumer = PL_BY_THREADS};
    pl_block_warpgroups(b, 3);
    pl_ref buf = pl_smem(b, PL_BF16, PL_SHAPE(2, 16, 64), PL_SWIZZLE_NONE);
    pl_pipe pipe = pl_pipe_make(b, &d);
    PL_WARPGROUPS(b, 0, 2)
    {
        PL_PRODUCE(b, pipe, slot)
        {
            pl_copy_gmem_to_smem(b, X_TILE, pl_at(b, buf, slot), pl_full_now(b));
        }
    }
    PL_WARPGROUP(b, 2)
    {
        PL_CONSUME(b, pipe, slot) { pl_load(b, pl_at(b, buf, slot)); }
    }
}

START_TEST(one_unit_alone_fills_a_pipe)
{
    struct trace_case *c = trace_on(body_two_fill, 90);
    ck_assert_int_eq(trace_count(c, 5014), 1);
    trace_free(c);
}
END_TEST

/* A tensor of rank 6 in the place of parameter 5. */
static void body_rank_6(pl_builder *b, const void *params)
{
    (void)params;
    const pl_shape s = PL_SHAPE(2, 2, 2, 2, 2, 8);
    pl_offs zero = {.rank = 6};
    for (int i = 0; i < 6; i++)
        zero.o[i] = pl_lit_i(b, 0);
    copy_with(b, &by_tma, pl_window(b, pl_param(b, 5), zero, s),
              pl_smem(b, PL_F32, s, PL_SWIZZLE_NONE));
}

START_TEST(tma_has_at_most_five_axes)
{
    struct trace_case *c = calloc(1, sizeof *c);
    trace_request_make(c, body_rank_6, 90, 15);
    c->request.args[5].rank = 6;
    c->request.args[5].dims[1] = -1;
    pl_diags_init(&c->diags, &c->arena);
    ck_assert(pl_fn_init(&c->fn, &c->arena, &c->diags, &c->request) && pl_trace_run(&c->fn));
    ck_assert(!pl_check(&c->fn));
    ck_assert_int_eq(trace_count(c, 3009), 1);
    trace_free(c);
}
END_TEST

/* ---- data: tests/ir ---- */

/*
 * Each file is a trace, with what the checks say in comments:   ; expect: PL2002 line 9   or   ; expect: nothing
 */
enum { MAX_FILES = 200 };
static char files[MAX_FILES][80];
static int n_files;

static int by_name(const void *x, const void *y) { return strcmp(x, y); }

static void find_files(void)
{
    DIR *d = opendir(PL_SRCDIR "/tests/ir");
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
        if (strstr(e->d_name, ".ir") != NULL && n_files < MAX_FILES)
            snprintf(files[n_files++], sizeof files[0], "%.79s", e->d_name);
    if (d != NULL)
        closedir(d);
    qsort(files, (size_t)n_files, sizeof files[0], by_name);
}

static char *text_of_file(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tests/ir/%s", PL_SRCDIR, name);
    FILE *f = fopen(path, "rb");
    ck_assert_ptr_nonnull(f);
    char *text = calloc(1, 1 << 16);
    size_t n = fread(text, 1, (1 << 16) - 1, f);
    ck_assert_uint_gt(n, 0);
    fclose(f);
    return text;
}

START_TEST(files_say_what_they_expect)
{
    char *text = text_of_file(files[_i]);
    struct pl_arena arena = {0};
    struct pl_diags diags;
    struct pl_fn fn;
    struct pl_ir_read_error err;
    pl_diags_init(&diags, &arena);
    ck_assert_msg(pl_ir_read(&fn, &arena, &diags, files[_i], text, &err), "%s:%d: %s", files[_i],
                  err.line, err.text);
    pl_check(&fn);
    uint32_t n_expected = 0;
    for (const char *p = strstr(text, "; expect: "); p != NULL; p = strstr(p + 1, "; expect: ")) {
        int code = 0, line = 0;
        if (sscanf(p, "; expect: PL%d line %d", &code, &line) != 2)
            continue;
        ck_assert_msg(n_expected < diags.list.n, "%s: PL%d line %d is not raised", files[_i], code,
                      line);
        const struct pl_diag *d = &diags.list.data[n_expected++];
        ck_assert_msg(d->info->code == code && d->where.line == line,
                      "%s: PL%d line %d where PL%d line %d is expected", files[_i], d->info->code,
                      d->where.line, code, line);
    }
    ck_assert_msg(n_expected == diags.list.n, "%s: PL%d line %d is not expected: %s", files[_i],
                  diags.list.data[n_expected].info->code, diags.list.data[n_expected].where.line,
                  diags.list.data[n_expected].text);
    struct pl_buf out;
    pl_buf_init(&out, &arena, 1024);
    pl_ir_print(&fn, &out);
    struct pl_fn again;
    ck_assert_msg(pl_ir_read(&again, &arena, &diags, files[_i], out.text, &err),
                  "%s: its print, line %d: %s", files[_i], err.line, err.text);
    pl_arena_fini(&arena);
    free(text);
}
END_TEST

START_TEST(there_are_files) { ck_assert_int_gt(n_files, 5); }
END_TEST

/* Every broken text is refused with a line, and never crashes: all prefixes of a good one, and each line cut in the middle. */
START_TEST(broken_texts_are_refused)
{
    char *text = text_of_file(files[_i]);
    size_t n = strlen(text);
    for (size_t cut = 0; cut < n; cut += 1 + cut / 64) {
        char *prefix = calloc(1, n + 2);
        memcpy(prefix, text, cut);
        prefix[cut] = "%$!#{}x9"[cut % 8];
        struct pl_arena arena = {0};
        struct pl_diags diags;
        struct pl_fn fn;
        struct pl_ir_read_error err;
        pl_diags_init(&diags, &arena);
        if (pl_ir_read(&fn, &arena, &diags, "prefix", prefix, &err))
            pl_check(&fn);
        else
            ck_assert_str_ne(err.text, "");
        pl_arena_fini(&arena);
        free(prefix);
    }
    free(text);
}
END_TEST

/* ---- the order of the report, and that all of it is there ---- */

static void body_many(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref t = pl_tmem(b, PL_F32, PL_SHAPE(32, 64), 0), s = SMEM(PL_BF16);
    pl_bar bar = pl_barrier(b, 1);
    pl_barrier_wait(b, bar);
    pl_store(b, t, 0.0f);
    PL_WARPGROUP(b, 0) { pl_bar_sync(b, PL_SCOPE_CTA); }
    const pl_copy_opt o = {.reduce = PL_MUL};
    pl_copy_smem_to_gmem_ex(b, s, Y_TILE, &o);
}

START_TEST(all_violations_are_reported_in_the_documented_order)
{
    static const int codes[] = {2003, 5005, 3007, 4002, 5010};
    struct trace_case *c = trace_on(body_many, 100);
    ck_assert_uint_eq(c->diags.list.n, 5);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(c->diags.list.data[i].info->code, codes[i]);
    ck_assert(!pl_check_is_unsupported(&c->diags));
    trace_free(c);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("check");
    TCase *t = tcase_create("rows");
    tcase_add_loop_test(t, each_row_is_raised_alone_and_in_place, 0, N_RAISINGS);
    tcase_add_loop_test(t, each_row_has_a_body, 0, (int)(sizeof check_rows / sizeof check_rows[0]));
    tcase_add_loop_test(t, memory_that_the_chip_lacks_is_refused_where_it_is_asked_for, 0, 4);
    tcase_add_test(t, the_tpu_model_is_refused);
    tcase_add_test(t, tma_has_at_most_five_axes);
    tcase_add_loop_test(t, reads_ahead_of_the_grid_before_are_told, 0, N_GRID_ORDERS);
    tcase_add_test(t, unserved_options_are_refused);
    tcase_add_loop_test(t, all_of_eight_warpgroups_count_as_consumers, 0, 2);
    tcase_add_test(t, one_unit_alone_fills_a_pipe);
    tcase_add_test(t, all_violations_are_reported_in_the_documented_order);
    suite_add_tcase(s, t);
    find_files();
    t = tcase_create("files");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, there_are_files);
    tcase_add_loop_test(t, files_say_what_they_expect, 0, n_files);
    tcase_add_loop_test(t, broken_texts_are_refused, 0, n_files);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
