/*
 * Bytes to builder calls: whatever a body does, it is traced, checked, verified and printed without a crash, and what prints reads back
 * and prints the same. Handles are drawn from those made so far, poison among them, and from anywhere (a handle of another block, or none).
 */
#include "src/ir/read.h"
#include "tests/trace_case.h"

#include <stdio.h>

enum { MAX_HANDLES = 16, MAX_CALLS = 200, MAX_DEPTH = 12 };

struct input {
    const uint8_t *bytes;
    size_t n;
    int n_calls, depth;
    uint32_t vals[MAX_HANDLES], refs[MAX_HANDLES], bars[MAX_HANDLES], pipes[MAX_HANDLES];
};
static struct input in; /* the body takes no argument: one input at a time */

static uint8_t byte(void)
{
    if (in.n == 0)
        return 0;
    in.n--;
    return *in.bytes++;
}

static int small(int n) { return byte() % n; }
static pl_val val(void) { return (pl_val){in.vals[byte() % MAX_HANDLES]}; }
static pl_ref ref(void) { return (pl_ref){in.refs[byte() % MAX_HANDLES]}; }
static pl_bar bar(void) { return (pl_bar){in.bars[byte() % MAX_HANDLES]}; }
static void keep_val(pl_val v) { in.vals[byte() % MAX_HANDLES] = v.id; }
static void keep_ref(pl_ref r) { in.refs[byte() % MAX_HANDLES] = r.id; }
static void keep_bar(pl_bar x) { in.bars[byte() % MAX_HANDLES] = x.id; }

static pl_shape shape(void)
{
    static const int64_t extents[] = {1,  2, 8, 16, 64, 128, 3, 0, -1, 1 << 20, INT64_C(1) << 40,
                                      256};
    pl_shape s = {.rank = small(4)};
    for (int i = 0; i < s.rank; i++)
        s.d[i] = extents[small(12)];
    return s;
}

static pl_offs offsets(void)
{
    pl_offs o = {.rank = small(4)};
    for (int i = 0; i < o.rank; i++)
        o.o[i] = val();
    return o;
}

static pl_dtype dtype(void) { return (pl_dtype)small(PL_DTYPE_COUNT + 1); }
static pl_loc loc(void) { return pl_loc_make("fuzz", in.n_calls); }

static pl_layout layout(void)
{
    pl_layout l = pl_layout_of((pl_layout_kind)small(PL_LAYOUT_COUNT + 1));
    l.vec = small(5);
    return l;
}

static void copies(pl_builder *b, pl_val step, pl_val slot, pl_bar full, void *user)
{
    (void)user;
    keep_val(step);
    keep_val(slot);
    pl_copy_gmem_to_smem_at(b, ref(), ref(), full, NULL, loc());
}

static void values(pl_builder *b, int which)
{
    switch (which) {
    case 0: keep_val(pl_lit_i(b, (int8_t)byte())); break;
    case 1: keep_val(pl_lit_f(b, (int8_t)byte() / 4.0)); break;
    case 2: keep_val(pl_lit_u(b, (unsigned long long)byte() << 56)); break;
    case 3: keep_val(pl_op1_at(b, (pl_op1)small(PL_OP1_COUNT + 1), val(), loc())); break;
    case 4:
    case 5: keep_val(pl_op2_at(b, (pl_op2)small(PL_OP2_COUNT + 1), val(), val(), loc())); break;
    case 6: keep_val(pl_fma_at(b, val(), val(), val(), loc())); break;
    case 7: keep_val(pl_cast_at(b, val(), dtype(), loc())); break;
    case 8: keep_val(pl_bitcast_at(b, val(), dtype(), loc())); break;
    case 9: keep_val(pl_select_at(b, val(), val(), val(), loc())); break;
    case 10: keep_val(pl_iota_at(b, dtype(), shape(), small(4) - 1, loc())); break;
    case 11: keep_val(pl_broadcast_at(b, val(), small(4) - 1, small(64), loc())); break;
    case 12:
        keep_val(pl_reduce_at(b, (pl_op2)small(PL_OP2_COUNT), val(), small(4) - 1,
                              (pl_scope)small(7), loc()));
        break;
    case 13: keep_val(pl_layout_cast_at(b, val(), layout(), loc())); break;
    case 14: keep_val(pl_extract_at(b, val(), offsets(), loc())); break;
    case 15: keep_val(pl_assume_multiple_at(b, val(), (int8_t)byte(), loc())); break;
    case 16: keep_val(pl_dim_at(b, ref(), small(4) - 1, loc())); break;
    case 17: keep_val(pl_program_id_at(b, small(5) - 1, loc())); break;
    case 18: keep_val(pl_scalar_at(b, small(10) - 1, loc())); break;
    case 19: keep_val(pl_warpgroup_id_at(b, loc())); break;
    case 20: keep_val(pl_cluster_rank_at(b, loc())); break;
    default: {
        const pl_ptx_desc d = {.text = "x\n\"\\;",
                               .n_outs = small(6),
                               .out_dtypes = {dtype(), dtype()},
                               .n_ins = small(10),
                               .effects = byte()};
        pl_val outs[4];
        pl_inline_ptx_at(b, &d, outs, loc());
        keep_val(outs[0]);
    }
    }
}

static void places(pl_builder *b, int which)
{
    const pl_transforms tr = {small(3) * 8, small(3) * 32, small(6) * 32 - 32, small(2)};
    switch (which) {
    case 0: keep_ref(pl_param_at(b, small(10) - 1, loc())); break;
    case 1: keep_ref(pl_smem_at(b, dtype(), shape(), tr, loc())); break;
    case 2: keep_ref(pl_tmem_at(b, dtype(), shape(), small(2), loc())); break;
    case 3: keep_ref(pl_regs_at(b, dtype(), shape(), layout(), val(), loc())); break;
    case 4: keep_ref(pl_acc_at(b, dtype(), shape(), loc())); break;
    case 5: keep_ref(pl_at_at(b, ref(), val(), loc())); break;
    case 6: keep_ref(pl_window_at(b, ref(), offsets(), shape(), loc())); break;
    case 7: keep_ref(pl_tile_at(b, ref(), offsets(), shape(), loc())); break;
    case 8: keep_ref(pl_clip_at(b, ref(), small(4) - 1, val(), loc())); break;
    case 9: keep_ref(pl_transpose_at(b, ref(), loc())); break;
    case 10: keep_ref(pl_reshape_at(b, ref(), shape(), loc())); break;
    case 11: keep_ref(pl_union_at(b, ref(), dtype(), shape(), tr, loc())); break;
    case 12: keep_ref(pl_peer_at(b, ref(), val(), loc())); break;
    case 13: keep_ref(pl_semaphore_at(b, ref(), loc())); break;
    case 14: keep_bar(pl_barrier_at(b, small(4), loc())); break;
    case 15: keep_bar(pl_cluster_barrier_at(b, small(4), loc())); break;
    case 16: {
        const pl_barrier_desc d = {small(40) - 2, small(4), small(2) != 0, small(2) != 0};
        keep_bar(pl_barriers_at(b, &d, loc()));
        break;
    }
    case 17: keep_bar(pl_bar_at_at(b, bar(), val(), loc())); break;
    case 18: keep_bar(pl_full_now_at(b, loc())); break;
    default: {
        const pl_pipe_desc d = {small(6), (pl_by)small(5),       (pl_by)small(5),       small(3),
                                small(3), (pl_where_at)small(2), (pl_where_at)small(2), small(3)};
        in.pipes[byte() % MAX_HANDLES] = pl_pipe_make_at(b, &d, loc()).id;
    }
    }
}

static void effects(pl_builder *b, int which)
{
    const pl_copy_opt copy = {.pred = val(),
                              .pair_axis_plus1 = small(4) - 1,
                              .multicast_mask = byte(),
                              .oob = (pl_oob)small(4),
                              .reduce = (pl_op2)small(PL_OP2_COUNT),
                              .how = (pl_how)small(5)};
    const pl_load_opt load = {(pl_oob)small(4), small(3), layout()};
    const pl_atomic_opt atomic = {(pl_scope)small(7), small(2), val()};
    const pl_mma_opt mma = {
        .accumulate = val(), .is_pair = small(2), .a_scale = ref(), .b_scale = ref()};
    switch (which) {
    case 0:
    case 1: keep_val(pl_load_at(b, ref(), small(2) ? &load : NULL, loc())); break;
    case 2:
    case 3: pl_store_at(b, ref(), val(), NULL, loc()); break;
    case 4: keep_val(pl_swap_at(b, ref(), val(), loc())); break;
    case 5:
        keep_val(pl_atomic_at(b, (pl_atomic)small(PL_ATOMIC_COUNT + 1), ref(), val(),
                              small(2) ? &atomic : NULL, loc()));
        break;
    case 6: pl_copy_gmem_to_smem_at(b, ref(), ref(), bar(), small(2) ? &copy : NULL, loc()); break;
    case 7: pl_copy_smem_to_gmem_at(b, ref(), ref(), small(2) ? &copy : NULL, loc()); break;
    case 8: pl_wait_smem_to_gmem_at(b, small(4) - 1, small(2), loc()); break;
    case 9: pl_commit_smem_at(b, loc()); break;
    case 10:
        pl_async_store_smem_at(b, ref(), val(), bar(), (pl_op2)small(PL_OP2_COUNT), loc());
        break;
    case 11: pl_gather_rows_at(b, ref(), val(), ref(), bar(), loc()); break;
    case 12: keep_val(pl_async_load_tmem_at(b, ref(), loc())); break;
    case 13: pl_async_store_tmem_at(b, ref(), val(), loc()); break;
    case 14: pl_copy_smem_to_tmem_at(b, ref(), ref(), loc()); break;
    case 15: pl_tcgen05_mma_at(b, ref(), ref(), ref(), small(2) ? &mma : NULL, loc()); break;
    case 16: pl_tcgen05_commit_at(b, bar(), loc()); break;
    case 17: pl_wgmma_at(b, ref(), ref(), ref(), loc()); break;
    case 18: pl_wgmma_val_at(b, ref(), val(), ref(), loc()); break;
    case 19: keep_val(pl_acc_load_at(b, ref(), loc())); break;
    case 20: keep_val(pl_mma_at(b, val(), val(), val(), loc())); break;
    case 21: pl_barrier_arrive_at(b, bar(), loc()); break;
    case 22: pl_barrier_wait_at(b, bar(), loc()); break;
    case 23: keep_val(pl_barrier_test_at(b, bar(), loc())); break;
    case 24: pl_bar_sync_at(b, (pl_scope)small(7), loc()); break;
    case 25: pl_cluster_sync_at(b, loc()); break;
    case 26: pl_fence_at(b, (pl_fence_kind)small(PL_FENCE_COUNT + 1), loc()); break;
    case 27: pl_semaphore_signal_at(b, ref(), val(), loc()); break;
    case 28: keep_val(pl_semaphore_read_at(b, ref(), loc())); break;
    case 29: pl_set_max_registers_at(b, byte(), loc()); break;
    case 30: pl_break_if_at(b, val(), loc()); break;
    default: {
        pl_val row, col;
        pl_snake_at(b, val(), val(), val(), small(2), small(4), &row, &col, loc());
        keep_val(row);
    }
    }
}

static void calls(pl_builder *b);

/* A block with calls inside; one time in 16 it is left open, or ended twice. */
static void block(pl_builder *b, int which)
{
    const pl_pipeline_desc d = {
        .stages = small(4), .n_copies = small(3), .lag = small(3), .copies = copies};
    const pl_pipe p = {in.pipes[byte() % MAX_HANDLES]};
    pl_block k;
    switch (which) {
    case 0: k = pl_for_begin(b, val(), val(), val(), loc()); break;
    case 1: k = pl_loop_begin(b, loc()); break;
    case 2: k = pl_if_begin(b, val(), loc()); break;
    case 3: k = pl_else_begin(b, loc()); break;
    case 4: k = pl_role_begin(b, small(4) - 1, small(6) - 1, loc()); break;
    case 5: k = pl_produce_begin(b, p, loc()); break;
    case 6: k = pl_consume_begin(b, p, loc()); break;
    case 7: k = pl_tiles_begin(b, pl_sched_static_at(b, val(), loc()), loc()); break;
    case 8: k = pl_tiles_begin(b, pl_sched_clc_at(b, val(), loc()), loc()); break;
    default: k = pl_pipeline_begin(b, val(), &d, loc()); break;
    }
    keep_val(k.iv);
    keep_val(k.iv2);
    in.depth++;
    calls(b);
    in.depth--;
    int how = small(16);
    if (how != 0)
        pl_block_end(&k);
    if (how == 1)
        pl_block_end(&k);
}

static void calls(pl_builder *b)
{
    while (in.n > 0 && in.n_calls < MAX_CALLS) {
        in.n_calls++;
        int what = small(16);
        if (what == 0)
            return;
        if (what < 6)
            values(b, small(22));
        else if (what < 10)
            places(b, small(20));
        else if (what < 14 || in.depth >= MAX_DEPTH)
            effects(b, small(32));
        else
            block(b, small(10));
    }
}

static void body(pl_builder *b, const void *params)
{
    (void)params;
    if (small(2))
        pl_block_warpgroups_at(b, small(10), loc());
    if (small(2))
        pl_block_cluster_at(b, small(4), 1, 1, loc());
    const pl_shape tile = PL_SHAPE(16, 64);
    const pl_val start[] = {pl_lit_i(b, 0),
                            pl_lit_i(b, 1),
                            pl_lit_f(b, 2.0),
                            pl_scalar_at(b, 4, loc()),
                            pl_scalar_at(b, 3, loc()),
                            pl_program_id_at(b, 0, loc()),
                            pl_iota_at(b, PL_F32, tile, 0, loc())};
    const pl_ref refs[] = {pl_param_at(b, 0, loc()), pl_param_at(b, 1, loc()),
                           pl_smem_at(b, PL_BF16, tile, PL_SWIZZLE_AUTO, loc()),
                           pl_regs_at(b, PL_F32, tile, pl_layout_auto(), start[2], loc())};
    for (int i = 0; i < MAX_HANDLES - 1; i++) { /* the last ones stay poison */
        in.vals[i] = start[i % 7].id;
        in.refs[i] = refs[i % 4].id;
        in.bars[i] = i == 0 ? pl_barrier_at(b, 1, loc()).id : in.bars[0];
    }
    while (in.n > 0 && in.n_calls < MAX_CALLS)
        calls(b);
}

static const char *text_of(const struct pl_fn *fn, struct pl_arena *arena)
{
    struct pl_buf t;
    pl_buf_init(&t, arena, 4096);
    pl_ir_print(fn, &t);
    return t.text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int32_t archs[] = {80, 90, 100, 120};
    in = (struct input){.bytes = data, .n = size};
    int32_t arch = archs[small(4)];
    pl_fact_set facts = byte() % 16;
    struct trace_case *c =
        trace_limited(body, arch, facts, small(8) == 0 ? 70000 + 256 * (size_t)byte() : 0);
    char why[160];
    if (!pl_arena_is_exhausted(&c->arena)) {
        if (!pl_ir_verify(&c->fn, why, sizeof why))
            abort();
        const char *first = text_of(&c->fn, &c->arena);
        struct pl_fn again;
        struct pl_ir_read_error err = {0};
        bool is_read = c->traced && pl_ir_read(&again, &c->arena, &c->diags, "text", first, &err);
        const char *second = is_read ? text_of(&again, &c->arena) : first;
        bool is_whole = !pl_arena_is_exhausted(&c->arena);
        if (is_whole && c->traced && !is_read)
            fprintf(stderr, "line %d: %s\n%s", err.line, err.text, first);
        if (is_whole && c->traced && (!is_read || strcmp(first, second) != 0))
            abort();
    }
    trace_free(c);
    return 0;
}
