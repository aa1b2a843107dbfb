/*
 * Schedules: which tiles a cluster works on. Static ones are a loop. A dynamic one (cluster launch control) asks the hardware for the
 * tile of a cluster that has not started yet, while it works on the tile before:
 *
 *   its own tile first; each round: ask, work, wait for the answer, read it, say that it was read
 *
 * Every role that walks the tiles reads the same answer, from one 16-byte place in shared memory. Two barriers go with it: *full*
 * completes when the answer has come; *empty* when everybody who walks, in all CTAs of the cluster, has read it. One role, the first
 * that was traced, asks.
 */
#include "src/ir/trace.h"

pl_sched pl_sched_static_at(pl_builder *b, pl_val n_tiles, pl_loc l)
{
    const int32_t *c = b->fn->cluster;
    pl_sched s = {.end = n_tiles};
    pl_val ctas = pl_lit_i(b, c[0] * c[1] * c[2]);
    s.first = pl_op2_at(b, PL_DIV, pl_program_id_at(b, 0, l), ctas, l);
    s.step = pl_op2_at(b, PL_DIV, pl_num_programs_at(b, 0, l), ctas, l);
    return s;
}

static struct pl_bar_group *group_of(pl_builder *b, pl_bar bar)
{
    return &b->fn->groups.data[b->fn->bars.data[bar.id].group];
}

pl_sched pl_sched_clc_at(pl_builder *b, pl_val n_tiles, pl_loc l)
{
    const int32_t *c = b->fn->cluster;
    pl_sched s = pl_sched_static_at(b, n_tiles, l);
    if (!pl_trace_is_top(b, "pl_sched_clc", l))
        return s;
    struct pl_bar_group full = {.n_barriers = 1, .n_arrivals = 1};
    struct pl_bar_group empty = {.n_barriers = 1,
                                 .n_arrivals = 1,
                                 .starts_ready = true,
                                 .is_cluster = c[0] * c[1] * c[2] > 1};
    struct pl_queue q = {.loc = l};
    q.answer = pl_smem_at(b, PL_I32, PL_SHAPE(4), PL_SWIZZLE_NONE, l);
    q.full = (pl_bar){pl_trace_group(b, &full, l)};
    q.empty = (pl_bar){pl_trace_group(b, &empty, l)};
    if (b->queues.n == 0)
        (void)pl_vec_push(b->fn->arena, &b->queues); /* [0] is unused */
    struct pl_queue *at = pl_vec_push(b->fn->arena, &b->queues);
    if (at == NULL || q.answer.id == 0 || q.full.id == 0 || q.empty.id == 0)
        return s;
    *at = q;
    s.is_dynamic = (int32_t)b->queues.n - 1;
    return s;
}

/* Asks for the tile after this one, in the role that asks; the answer before was read by all. */
static void ask(pl_builder *b, const struct pl_queue *q, pl_loc l)
{
    uint32_t id;
    pl_barrier_wait_at(b, q->empty, l);
    struct pl_op *op = pl_trace_add(b, PL_OP_CLC_ASK, l, &id);
    if (op == NULL)
        return;
    op->refs[0] = q->answer.id;
    op->bar = q->full.id;
    group_of(b, q->full)->n_copy_arrivals++;
}

/* Who is here: its arrivals when an answer was read, and that it comes only once. */
static bool enter(pl_builder *b, struct pl_queue *q, pl_loc l)
{
    const struct pl_block_info *block = &b->fn->blocks.data[b->block];
    const bool is_in_role = block->role_warpgroup >= 0;
    const uint64_t bit =
        !is_in_role ? 1
                    : UINT64_C(2) << (block->role_warpgroup % 8 * 5 + (block->role_warp + 1) % 5);
    if ((q->walkers & bit) != 0) {
        pl_d_tiles_walked_twice(b->fn->diags, pl_trace_at(l), q->loc.line);
        return false;
    }
    q->walkers |= bit;
    q->n_walkers += is_in_role ? block->n_role_warpgroups : b->fn->n_warpgroups;
    group_of(b, q->empty)->n_arrivals = q->n_walkers;
    return true;
}

static pl_block begin_dynamic(pl_builder *b, pl_sched s, pl_loc l)
{
    struct pl_queue *q = &b->queues.data[s.is_dynamic];
    const bool asks = q->walkers == 0;
    if (!enter(b, q, l))
        return pl_trace_handle(b, 0, 0);
    pl_ref var = pl_regs_at(b, b->index_dtype, PL_SHAPE_SCALAR, pl_layout_auto(), s.first, l);
    pl_block k = pl_loop_begin(b, l);
    if (k.id == 0)
        return k;
    k.iv = pl_load_at(b, var, NULL, l);
    if (k.iv.id != 0)
        b->fn->ops.data[k.iv.id].is_index = true;
    pl_break_if_at(b, pl_op2_at(b, PL_GE, k.iv, s.end, l), l);
    if (asks)
        ask(b, q, l);
    struct pl_open *o = &b->opens.data[k.id];
    o->kind = PL_OPEN_TILES;
    o->queue = (uint32_t)s.is_dynamic;
    o->slot_var = var;
    o->n_steps = s.end;
    return k;
}

void pl_trace_end_tiles(pl_builder *b, struct pl_open *o)
{
    const struct pl_queue q = b->queues.data[o->queue];
    const pl_shape scalar = PL_SHAPE_SCALAR;
    uint32_t id;
    pl_barrier_wait_at(b, q.full, o->loc);
    const uint32_t end = pl_trace_integer(b, "the tiles of pl_sched_clc", o->n_steps, o->loc);
    struct pl_op *op =
        end == 0 ? NULL : pl_trace_add_val(b, PL_OP_CLC_NEXT, b->index_dtype, &scalar, o->loc, &id);
    if (op == NULL)
        return;
    op->refs[0] = q.answer.id;
    op->args[0] = end;
    op->n_args = 1;
    op->is_index = true;
    pl_barrier_arrive_at(b, q.empty, o->loc);
    pl_store_at(b, o->slot_var, pl_trace_val(id), NULL, o->loc);
}

pl_block pl_tiles_begin(pl_builder *b, pl_sched s, pl_loc l)
{
    if (s.is_dynamic > 0 && (uint32_t)s.is_dynamic < b->queues.n)
        return begin_dynamic(b, s, l);
    return pl_for_begin(b, s.first, s.end, s.step, l);
}

/* A tile is never below zero, which its arithmetic does not tell the plan. */
static pl_val at_least_0(pl_builder *b, pl_val v, pl_loc l)
{
    pl_val claimed = pl_assume_multiple_at(b, v, 1, l);
    if (claimed.id != 0)
        b->fn->ops.data[claimed.id].is_flag = true;
    return claimed;
}

void pl_snake_at(pl_builder *b, pl_val t, pl_val rows, pl_val cols, int32_t minor, int32_t width,
                 pl_val *row, pl_val *col, pl_loc l)
{
    pl_val n_minor = minor ? cols : rows, n_major = minor ? rows : cols,
           w = pl_lit_i(b, width < 1 ? 1 : width);
    pl_val strip = pl_op2_at(b, PL_DIV, t, pl_op2_at(b, PL_MUL, n_major, w, l), l);
    pl_val within = pl_op2_at(b, PL_REM, t, pl_op2_at(b, PL_MUL, n_major, w, l), l);
    pl_val first = pl_op2_at(b, PL_MUL, strip, w, l);
    pl_val this_w = pl_op2_at(b, PL_MIN, pl_op2_at(b, PL_SUB, n_minor, first, l), w,
                              l); /* the last strip may be narrow */
    pl_val along = pl_op2_at(b, PL_DIV, within, this_w, l),
           across = pl_op2_at(b, PL_REM, within, this_w, l);
    pl_val is_odd =
        pl_op2_at(b, PL_EQ, pl_op2_at(b, PL_REM, strip, pl_lit_i(b, 2), l), pl_lit_i(b, 1), l);
    pl_val back = pl_op2_at(b, PL_SUB, pl_op2_at(b, PL_SUB, n_major, pl_lit_i(b, 1), l), along, l);
    pl_val major_at = pl_select_at(b, is_odd, back, along, l),
           minor_at = pl_op2_at(b, PL_ADD, first, across, l);
    if (row != NULL)
        *row = at_least_0(b, minor ? major_at : minor_at, l);
    if (col != NULL)
        *col = at_least_0(b, minor ? minor_at : major_at, l);
}
