/* Barriers, pipes, the pipeline helper and the other synchronisation of ops.h. */
#include "src/ir/trace.h"

#include "base/debug.h"

static pl_bar bar_of(uint32_t id) { return (pl_bar){id}; }
static struct pl_pipe_info *pipe_info(pl_builder *b, uint32_t id) { return &b->fn->pipes.data[id]; }
static struct pl_bar_group *group_of(pl_builder *b, uint32_t bar)
{
    return &b->fn->groups.data[b->fn->bars.data[bar].group];
}
static bool has(pl_builder *b, unsigned feature)
{
    return (b->fn->request.target->features & feature) != 0;
}

static bool check_count(pl_builder *b, const char *what, int32_t n, int32_t least, int32_t most,
                        pl_loc l)
{
    if (n >= least && n <= most)
        return true;
    pl_d_barrier_count(b->fn->diags, pl_trace_at(l), what, n, least, most);
    return false;
}

/* ---- barriers ---- */

enum {
    MAX_ARRIVALS = 1 << 13
}; /* so that 128 arrivals for one unit stay below mbarrier's 2^20 - 1 */

uint32_t pl_trace_group(pl_builder *b, const struct pl_bar_group *group, pl_loc l)
{
    struct pl_fn *fn = b->fn;
    uint32_t id;
    struct pl_op *op = pl_trace_add(b, PL_OP_BARRIERS, l, &id);
    struct pl_bar_group *g = pl_vec_push(fn->arena, &fn->groups);
    struct pl_bar_info *bar = pl_vec_push(fn->arena, &fn->bars);
    if (op == NULL || g == NULL || bar == NULL)
        return 0;
    *g = *group;
    g->loc = l;
    *bar = (struct pl_bar_info){.group = fn->groups.n - 1, .block = b->block, .loc = l};
    op->bar = fn->bars.n - 1;
    return op->bar;
}

pl_bar pl_barriers_at(pl_builder *b, const pl_barrier_desc *d, pl_loc l)
{
    if (d == NULL) {
        pl_d_null_argument(b->fn->diags, pl_trace_at(l), "the descriptor of pl_barriers");
        return pl_bar_none();
    }
    int32_t n = d->n_barriers == 0 ? 1 : d->n_barriers;
    bool ok = pl_trace_is_top(b, "pl_barriers", l);
    ok = check_count(b, "barriers of a group", n, 1, 32, l) && ok;
    ok = check_count(b, "arrivals of a barrier", d->n_arrivals, 1, MAX_ARRIVALS, l) && ok;
    if (!ok)
        return pl_bar_none();
    struct pl_bar_group g = {.n_barriers = n,
                             .n_arrivals = d->n_arrivals,
                             .starts_ready = d->starts_ready,
                             .orders_tensor_core = d->orders_tensor_core};
    return bar_of(pl_trace_group(b, &g, l));
}

pl_bar pl_barrier_at(pl_builder *b, int32_t n_arrivals, pl_loc l)
{
    const pl_barrier_desc d = {.n_barriers = 1, .n_arrivals = n_arrivals};
    return pl_barriers_at(b, &d, l);
}

pl_bar pl_cluster_barrier_at(pl_builder *b, int32_t n_arrivals, pl_loc l)
{
    pl_bar bar = pl_barrier_at(b, n_arrivals, l);
    if (bar.id != 0)
        group_of(b, bar.id)->is_cluster = true;
    return bar;
}

pl_bar pl_bar_at_at(pl_builder *b, pl_bar group, pl_val i, pl_loc l)
{
    uint32_t g = pl_trace_use_bar(b, group, false, l),
             index = pl_trace_integer(b, "the index of pl_bar_at", i, l), id;
    int64_t c;
    if (g == 0 || index == 0)
        return pl_bar_none();
    if (pl_ir_is_const(b->fn, index, &c) && (c < 0 || c >= group_of(b, g)->n_barriers)) {
        pl_d_barrier_index(b->fn->diags, pl_trace_at(l), (long long)c, group_of(b, g)->n_barriers);
        return pl_bar_none();
    }
    struct pl_op *op = pl_trace_add(b, PL_OP_BAR_AT, l, &id);
    struct pl_bar_info *bar = pl_vec_push(b->fn->arena, &b->fn->bars);
    if (op == NULL || bar == NULL)
        return pl_bar_none();
    *bar = (struct pl_bar_info){
        .group = b->fn->bars.data[g].group, .index = index, .block = b->block, .loc = l};
    op->bar = b->fn->bars.n - 1;
    op->args[0] = index;
    op->n_args = 1;
    return bar_of(op->bar);
}

static void add_bar_op(pl_builder *b, enum pl_opcode code, uint32_t bar, pl_loc l)
{
    uint32_t id;
    struct pl_op *op = bar == 0 ? NULL : pl_trace_add(b, code, l, &id);
    if (op != NULL)
        op->bar = bar;
}

void pl_barrier_arrive_at(pl_builder *b, pl_bar bar, pl_loc l)
{
    uint32_t id = pl_trace_use_bar(b, bar, true, l);
    if (id != 0)
        group_of(b, id)->n_unit_arrivals++;
    add_bar_op(b, PL_OP_BARRIER_ARRIVE, id, l);
}

void pl_barrier_wait_at(pl_builder *b, pl_bar bar, pl_loc l)
{
    add_bar_op(b, PL_OP_BARRIER_WAIT, pl_trace_use_bar(b, bar, true, l), l);
}

pl_val pl_barrier_test_at(pl_builder *b, pl_bar bar, pl_loc l)
{
    const pl_shape scalar = PL_SHAPE_SCALAR;
    uint32_t bar_id = pl_trace_use_bar(b, bar, true, l), id;
    struct pl_op *op =
        bar_id == 0 ? NULL : pl_trace_add_val(b, PL_OP_BARRIER_TEST, PL_PRED, &scalar, l, &id);
    if (op == NULL)
        return pl_val_none();
    op->bar = bar_id;
    return pl_trace_val(id);
}

void pl_tcgen05_commit_at(pl_builder *b, pl_bar bar, pl_loc l)
{
    uint32_t id = pl_trace_use_bar(b, bar, true, l);
    if (id != 0)
        group_of(b, id)->n_mma_arrivals++;
    add_bar_op(b, PL_OP_TCGEN05_COMMIT, id, l);
}

/*
 * A copy to all CTAs of the cluster inside PL_PRODUCE: every CTA makes one, so each full barrier has as many arrivals, and a slot is
 * free when the consumers of all CTAs have said so. A copy to some of them would give each CTA's barrier another count.
 */
static void multicast_arrives(pl_builder *b, struct pl_open *produce, uint32_t mask, pl_loc l)
{
    const int32_t *c = b->fn->cluster, n = c[0] * c[1] * c[2];
    if (mask != (n >= 32 ? UINT32_MAX : (1u << n) - 1))
        pl_d_multicast_in_pipe(b->fn->diags, pl_trace_at(l), mask, n);
    produce->n_copies += n - 1;
    b->fn->groups.data[pipe_info(b, produce->pipe)->empty].is_cluster = true;
}

void pl_trace_copy_arrives(pl_builder *b, uint32_t bar, uint32_t mask, pl_loc l)
{
    struct pl_bar_group *g = group_of(b, bar);
    g->n_copy_arrivals++;
    bool is_nested = false;
    for (uint32_t o = b->open; o != 0; o = b->opens.data[o].outer) {
        struct pl_open *open = &b->opens.data[o];
        bool is_ours = open->kind == PL_OPEN_PRODUCE &&
                       pipe_info(b, open->pipe)->full == b->fn->bars.data[bar].group;
        if (is_ours) {
            open->n_copies++;
            if (mask != 0)
                multicast_arrives(b, open, mask, l);
            if (is_nested)
                pl_d_loop_copies_nested(b->fn->diags, pl_trace_at(l));
            return;
        }
        is_nested = is_nested || open->kind != PL_OPEN_PRODUCE;
    }
}

/* ---- plain synchronisation ---- */

static struct pl_op *add_plain(pl_builder *b, enum pl_opcode code, pl_loc l)
{
    uint32_t id;
    return pl_trace_add(b, code, l, &id);
}

void pl_bar_sync_at(pl_builder *b, pl_scope scope, pl_loc l)
{
    if (scope != PL_SCOPE_WARP && scope != PL_SCOPE_WARPGROUP && scope != PL_SCOPE_CTA) {
        pl_d_bad_choice(b->fn->diags, pl_trace_at(l),
                        "the scope of pl_bar_sync (warp, warpgroup, CTA)", (int)scope);
        return;
    }
    struct pl_op *op = add_plain(b, PL_OP_BAR_SYNC, l);
    if (op != NULL)
        op->scope = scope;
}

void pl_cluster_sync_at(pl_builder *b, pl_loc l) { (void)add_plain(b, PL_OP_CLUSTER_SYNC, l); }
void pl_commit_smem_at(pl_builder *b, pl_loc l) { (void)add_plain(b, PL_OP_COMMIT_SMEM, l); }
void pl_griddep_wait_at(pl_builder *b, pl_loc l) { (void)add_plain(b, PL_OP_GRIDDEP_WAIT, l); }
void pl_griddep_launch_at(pl_builder *b, pl_loc l) { (void)add_plain(b, PL_OP_GRIDDEP_LAUNCH, l); }
void pl_wait_load_tmem_at(pl_builder *b, pl_loc l) { (void)add_plain(b, PL_OP_WAIT_LOAD_TMEM, l); }
void pl_commit_tmem_at(pl_builder *b, pl_loc l) { (void)add_plain(b, PL_OP_COMMIT_TMEM, l); }

void pl_fence_at(pl_builder *b, pl_fence_kind kind, pl_loc l)
{
    if ((unsigned)kind >= PL_FENCE_COUNT) {
        pl_d_bad_choice(b->fn->diags, pl_trace_at(l), "pl_fence", (int)kind);
        return;
    }
    struct pl_op *op = add_plain(b, PL_OP_FENCE, l);
    if (op != NULL)
        op->sub = (int32_t)kind;
}

static void add_counted(pl_builder *b, enum pl_opcode code, const char *what, int32_t n,
                        int32_t most, pl_loc l)
{
    struct pl_op *op = check_count(b, what, n, 0, most, l) ? add_plain(b, code, l) : NULL;
    if (op != NULL)
        op->n = n;
}

void pl_wgmma_wait_at(pl_builder *b, int32_t n, pl_loc l)
{
    add_counted(b, PL_OP_WGMMA_WAIT, "pending groups of pl_wgmma_wait", n, 7, l);
}

void pl_wait_smem_to_gmem_at(pl_builder *b, int32_t n, int32_t is_read_only, pl_loc l)
{
    uint32_t before = b->fn->ops.n;
    add_counted(b, PL_OP_WAIT_OUT, "pending copies of pl_wait_smem_to_gmem", n, 63, l);
    if (b->fn->ops.n > before)
        b->fn->ops.data[b->fn->ops.n - 1].is_flag = is_read_only != 0;
}

void pl_set_max_registers_at(pl_builder *b, int32_t n, pl_loc l)
{
    if (!check_count(b, "registers of pl_set_max_registers", n, 24, 256, l))
        return;
    if (n % 8 != 0)
        pl_d_barrier_count(b->fn->diags, pl_trace_at(l),
                           "registers of pl_set_max_registers (multiples of 8)", n, 24, 256);
    else
        add_counted(b, PL_OP_SET_MAX_REGISTERS, "registers", n, 256, l);
}

/* A semaphore op; v: the i32 or u32 operand, taken as the counter's dtype. */
static void add_semaphore(pl_builder *b, enum pl_opcode code, pl_ref s, pl_val v, pl_loc l)
{
    uint32_t ref = pl_trace_use_ref(b, s, l), val = pl_trace_use(b, v, l), id;
    if (ref == 0 || val == 0)
        return;
    pl_dtype t = pl_ir_ref(b->fn, ref)->dtype;
    val = pl_trace_strong(b, "a semaphore", val, t, l);
    if (val == 0)
        return;
    if (b->fn->ops.data[val].dtype != t || b->fn->ops.data[val].shape.rank != 0) {
        pl_d_dtype_mismatch(b->fn->diags, pl_trace_at(l), "a semaphore", pl_dtype_name(t),
                            pl_dtype_name(b->fn->ops.data[val].dtype));
        return;
    }
    struct pl_op *op = pl_trace_add(b, code, l, &id);
    if (op == NULL)
        return;
    op->refs[0] = ref;
    op->args[0] = val;
    op->n_args = 1;
}

void pl_semaphore_signal_at(pl_builder *b, pl_ref s, pl_val by, pl_loc l)
{
    add_semaphore(b, PL_OP_SEM_SIGNAL, s, by, l);
}
void pl_semaphore_wait_at(pl_builder *b, pl_ref s, pl_val at_least, pl_loc l)
{
    add_semaphore(b, PL_OP_SEM_WAIT, s, at_least, l);
}

pl_val pl_semaphore_read_at(pl_builder *b, pl_ref s, pl_loc l)
{
    const pl_shape scalar = PL_SHAPE_SCALAR;
    uint32_t ref = pl_trace_use_ref(b, s, l), id;
    struct pl_op *op = ref == 0 ? NULL
                                : pl_trace_add_val(b, PL_OP_SEM_READ, pl_ir_ref(b->fn, ref)->dtype,
                                                   &scalar, l, &id);
    if (op == NULL)
        return pl_val_none();
    op->refs[0] = ref;
    return pl_trace_val(id);
}

/* ---- pipes ---- */

static pl_ref slot_variable(pl_builder *b, int64_t first, pl_loc l)
{
    return pl_regs_at(b, PL_I32, PL_SHAPE_SCALAR, pl_layout_auto(), pl_lit_i(b, first), l);
}

static bool check_pipe(pl_builder *b, const pl_pipe_desc *d, pl_loc l)
{
    bool ok = check_count(b, "stages of a pipe", d->stages, 1, 32, l);
    ok = check_count(b, "producers of a pipe", d->n_producers, 0, 64, l) && ok;
    ok = check_count(b, "consumers of a pipe", d->n_consumers, 0, 64, l) && ok;
    ok = check_count(b, "the lag of a pipe", d->lag, 0, 1, l) && ok;
    if (ok && d->lag == 1 && d->stages < 2) {
        pl_d_pipe_kind(b->fn->diags, pl_trace_at(l), "a pipe with lag 1 needs at least 2 stages");
        ok = false;
    }
    if (d->producer != PL_BY_COPIES && d->producer != PL_BY_MMA && d->producer != PL_BY_THREADS) {
        pl_d_pipe_kind(b->fn->diags, pl_trace_at(l), "a pipe cannot be filled that way");
        ok = false;
    }
    if (d->consumer != PL_BY_MMA && d->consumer != PL_BY_THREADS && d->consumer != PL_BY_COPY_OUT) {
        pl_d_pipe_kind(b->fn->diags, pl_trace_at(l), "a pipe cannot be emptied that way");
        ok = false;
    }
    return ok;
}

pl_pipe pl_pipe_make_at(pl_builder *b, const pl_pipe_desc *d, pl_loc l)
{
    pl_pipe none = {0};
    struct pl_fn *fn = b->fn;
    if (d == NULL) {
        pl_d_null_argument(fn->diags, pl_trace_at(l), "the descriptor of pl_pipe_make");
        return none;
    }
    bool ok = pl_trace_is_top(b, "pl_pipe_make", l);
    if (!check_pipe(b, d, l) || !ok)
        return none;
    if (fn->pipes.n == 0)
        return none; /* memory ran out at the start */
    uint32_t pipe = fn->pipes.n, id;
    int32_t n_full = d->producer == PL_BY_THREADS && d->n_producers > 1 ? d->n_producers : 1;
    int32_t n_empty = d->n_consumers > 1 ? d->n_consumers : 1;
    bool by_tcgen05 = has(b, PL_F_TCGEN05);
    struct pl_bar_group full = {.n_barriers = d->stages,
                                .n_arrivals = n_full,
                                .at = d->full_at,
                                .pipe = pipe,
                                .is_full = true,
                                .orders_tensor_core = d->producer == PL_BY_MMA && by_tcgen05};
    struct pl_bar_group empty = {
        .n_barriers = d->stages,
        .n_arrivals = n_empty,
        .at = d->empty_at,
        .pipe = pipe,
        .starts_ready = true,
        .orders_tensor_core = (d->producer == PL_BY_MMA || d->consumer == PL_BY_MMA) && by_tcgen05};
    uint32_t full_bar = pl_trace_group(b, &full, l), empty_bar = pl_trace_group(b, &empty, l);
    pl_ref producer = slot_variable(b, 0, l), consumer = slot_variable(b, 0, l);
    pl_ref held = d->lag == 1 ? slot_variable(b, -1, l) : pl_trace_ref(0);
    struct pl_op *op = pl_trace_add(b, PL_OP_PIPE, l, &id);
    struct pl_pipe_info *p = pl_vec_push(fn->arena, &fn->pipes);
    if (op == NULL || p == NULL || full_bar == 0 || empty_bar == 0)
        return none;
    op->pipe = pipe;
    *p = (struct pl_pipe_info){.desc = *d,
                               .full = fn->bars.data[full_bar].group,
                               .empty = fn->bars.data[empty_bar].group,
                               .full_bar = full_bar,
                               .empty_bar = empty_bar,
                               .producer_slot = producer.id,
                               .consumer_slot = consumer.id,
                               .held_slot = held.id,
                               .n_produce_copies = -1,
                               .loc = l};
    return (pl_pipe){pipe};
}

static pl_val load_slot(pl_builder *b, uint32_t var, int32_t stages, pl_loc l)
{
    if (stages == 1)
        return pl_trace_val(pl_trace_const_i(b, PL_I32, 0, l));
    pl_val v = pl_load_at(b, pl_trace_ref(var), NULL, l);
    if (v.id != 0)
        b->fn->ops.data[v.id].is_index = true;
    return v;
}

static void advance_slot(pl_builder *b, uint32_t var, pl_val slot, int32_t stages, pl_loc l)
{
    if (stages == 1)
        return;
    pl_val next = pl_op2_at(b, PL_ADD, slot, pl_lit_i(b, 1), l);
    pl_val wraps = pl_op2_at(b, PL_EQ, next, pl_lit_i(b, stages), l);
    pl_store_at(b, pl_trace_ref(var), pl_select_at(b, wraps, pl_lit_i(b, 0), next, l), NULL, l);
}

static pl_block open_pipe(pl_builder *b, pl_pipe p, bool is_produce, pl_loc l)
{
    if (!pl_trace_can_open(b, l))
        return pl_trace_handle(b, 0, 0);
    uint32_t pipe = p.id < b->fn->pipes.n ? p.id : 0, id;
    if (pipe == 0)
        pl_trace_empty(b, "pipe", l);
    if (pipe == 0)
        pl_trace_empty(b, "pipe", l);
    enum pl_opcode code = is_produce ? PL_OP_PRODUCE : PL_OP_CONSUME;
    struct pl_op *op = pl_trace_add(b, code, l, &id);
    if (op != NULL)
        op->pipe = pipe;
    enum pl_open_kind kind = pipe == 0    ? PL_OPEN_PLAIN
                             : is_produce ? PL_OPEN_PRODUCE
                                          : PL_OPEN_CONSUME;
    uint32_t block =
        pl_trace_open(b, kind, is_produce ? PL_BLOCK_PRODUCE : PL_BLOCK_CONSUME, id, 0, l);
    if (block == 0 || pipe == 0)
        return pl_trace_handle(b, block, 0);
    struct pl_pipe_info *info = pipe_info(b, pipe);
    uint32_t *first = is_produce ? &info->producer_block : &info->consumer_block;
    if (*first == 0)
        *first = block;
    pl_val slot =
        load_slot(b, is_produce ? info->producer_slot : info->consumer_slot, info->desc.stages, l);
    pl_bar full = pl_bar_at_at(b, bar_of(info->full_bar), slot, l);
    pl_barrier_wait_at(b, is_produce ? pl_bar_at_at(b, bar_of(info->empty_bar), slot, l) : full, l);
    struct pl_open *o = &b->opens.data[b->open];
    o->pipe = pipe;
    o->slot = slot;
    o->full = full;
    return pl_trace_handle(b, block, slot.id);
}

pl_block pl_produce_begin(pl_builder *b, pl_pipe p, pl_loc l) { return open_pipe(b, p, true, l); }
pl_block pl_consume_begin(pl_builder *b, pl_pipe p, pl_loc l) { return open_pipe(b, p, false, l); }

pl_bar pl_full_now_at(pl_builder *b, pl_loc l)
{
    for (uint32_t o = b->open; o != 0; o = b->opens.data[o].outer)
        if (b->opens.data[o].kind == PL_OPEN_PRODUCE)
            return b->opens.data[o].full;
    pl_d_full_outside_produce(b->fn->diags, pl_trace_at(l));
    return pl_bar_none();
}

void pl_trace_end_produce(pl_builder *b, struct pl_open *o)
{
    const pl_pipe_desc d = pipe_info(b, o->pipe)->desc;
    if (d.producer == PL_BY_COPIES) {
        struct pl_pipe_info *p = pipe_info(b, o->pipe);
        if (o->n_copies == 0 || (p->n_produce_copies >= 0 && o->n_copies != p->n_produce_copies))
            pl_d_produce_copies(b->fn->diags, pl_trace_at(o->loc), o->n_copies,
                                p->n_produce_copies < 0 ? 0 : p->n_produce_copies);
        p->n_produce_copies = o->n_copies;
        b->fn->groups.data[p->full].n_arrivals = o->n_copies > 0 ? o->n_copies : 1;
    } else if (d.producer == PL_BY_MMA && has(b, PL_F_TCGEN05)) {
        pl_tcgen05_commit_at(b, o->full, o->loc);
    } else {
        if (d.producer == PL_BY_MMA && has(b, PL_F_WGMMA))
            pl_wgmma_wait_at(b, 0, o->loc);
        pl_barrier_arrive_at(b, o->full, o->loc);
    }
    advance_slot(b, pipe_info(b, o->pipe)->producer_slot, o->slot, d.stages, o->loc);
}

/* Gives slot `slot` back to the producer, in the way the consumer's kind asks for. */
static void release(pl_builder *b, uint32_t pipe, pl_val slot, pl_loc l)
{
    pl_bar empty = pl_bar_at_at(b, bar_of(pipe_info(b, pipe)->empty_bar), slot, l);
    if (pipe_info(b, pipe)->desc.consumer == PL_BY_MMA && has(b, PL_F_TCGEN05))
        pl_tcgen05_commit_at(b, empty, l);
    else
        pl_barrier_arrive_at(b, empty, l);
}

void pl_trace_end_consume(pl_builder *b, struct pl_open *o)
{
    const struct pl_pipe_info p = *pipe_info(b, o->pipe);
    pl_loc l = o->loc;
    if (p.desc.consumer == PL_BY_COPY_OUT)
        pl_wait_smem_to_gmem_at(b, p.desc.lag, 1, l);
    else if (p.desc.consumer == PL_BY_MMA && has(b, PL_F_WGMMA))
        pl_wgmma_wait_at(b, p.desc.lag, l);
    if (p.desc.lag == 0) {
        release(b, o->pipe, o->slot, l);
    } else { /* one iteration late: the slot of the iteration before, if there was one */
        pl_val held = pl_load_at(b, pl_trace_ref(p.held_slot), NULL, l);
        pl_block k = pl_if_begin(b, pl_op2_at(b, PL_GE, held, pl_lit_i(b, 0), l), l);
        release(b, o->pipe, held, l);
        pl_block_end(&k);
        pl_store_at(b, pl_trace_ref(p.held_slot), o->slot, NULL, l);
    }
    advance_slot(b, p.consumer_slot, o->slot, p.desc.stages, l);
}

/* ---- the pipeline helper ---- */

/* One call of the copies callback; its arrivals must be the ones that the barrier counts. */
static void issue(pl_builder *b, const pl_pipeline_desc *d, pl_val step, pl_val slot, pl_bar group,
                  pl_loc l)
{
    pl_bar full = pl_bar_at_at(b, group, slot, l);
    if (full.id == 0)
        return;
    uint32_t before = group_of(b, full.id)->n_copy_arrivals;
    d->copies(b, step, slot, full, d->user);
    int32_t seen = (int32_t)(group_of(b, full.id)->n_copy_arrivals - before);
    if (seen != group_of(b, full.id)->n_arrivals && b->fn->diags->n_errors == 0)
        pl_d_copies_missing(b->fn->diags, pl_trace_at(l), seen, group_of(b, full.id)->n_arrivals);
}

/* The first steps, as many as there are slots: a loop, whatever a copy is in the end, since its text is not free. */
static void fill_slots(pl_builder *b, const pl_pipeline_desc *d, pl_val n_steps, pl_bar group,
                       pl_loc l)
{
    pl_block k =
        pl_for_begin(b, pl_lit_i(b, 0), pl_op2_at(b, PL_MIN, n_steps, pl_lit_i(b, d->stages), l),
                     pl_lit_i(b, 1), l);
    issue(b, d, k.iv, pl_cast_at(b, k.iv, PL_I32, l), group, l);
    pl_block_end(&k);
}

/* Refills `slot` with step + stages, once every thread of the unit is done with it. */
static void refill(pl_builder *b, const pl_pipeline_desc *d, pl_val step, pl_val n_steps,
                   pl_val slot, pl_bar group, pl_loc l)
{
    pl_val later = pl_op2_at(b, PL_ADD, step, pl_lit_i(b, d->stages), l);
    pl_block k = pl_if_begin(b, pl_op2_at(b, PL_LT, later, n_steps, l), l);
    pl_commit_smem_at(b, l);
    issue(b, d, later, slot, group, l);
    pl_block_end(&k);
}

pl_block pl_pipeline_begin(pl_builder *b, pl_val n_steps, const pl_pipeline_desc *d, pl_loc l)
{
    uint32_t n = pl_trace_integer(b, "the steps of PL_PIPELINE", n_steps, l);
    if (d == NULL || d->copies == NULL)
        pl_d_null_argument(b->fn->diags, pl_trace_at(l), "the copies callback of PL_PIPELINE");
    if (d == NULL || d->copies == NULL || n == 0 ||
        !check_count(b, "stages of PL_PIPELINE", d->stages, 1, 32, l) ||
        !check_count(b, "the lag of PL_PIPELINE", d->lag, 0, 1, l))
        return pl_for_begin(b, pl_val_none(), pl_val_none(), pl_val_none(), l);
    struct pl_bar_group g = {.n_barriers = d->stages,
                             .n_arrivals = d->n_copies > 1 ? d->n_copies : 1};
    pl_bar group = bar_of(pl_trace_group(b, &g, l));
    pl_ref slot_var = d->stages > 1 ? slot_variable(b, 0, l) : pl_trace_ref(0);
    fill_slots(b, d, pl_trace_val(n), group, l);
    pl_block k = pl_for_begin(b, pl_lit_i(b, 0), pl_trace_val(n), pl_lit_i(b, 1), l);
    if (k.id == 0)
        return k;
    pl_val slot = load_slot(b, slot_var.id, d->stages, l);
    pl_barrier_wait_at(b, pl_bar_at_at(b, group, slot, l), l);
    const bool is_late =
        d->lag == 1 && d->stages > 1; /* with one slot this step's copy would come after its wait */
    if (is_late) { /* the slot of the step before: done with since this step's wait */
        pl_val last = pl_op2_at(b, PL_SUB, k.iv, pl_lit_i(b, 1), l);
        pl_val before = pl_select_at(b, pl_op2_at(b, PL_EQ, slot, pl_lit_i(b, 0), l),
                                     pl_lit_i(b, d->stages - 1),
                                     pl_op2_at(b, PL_SUB, slot, pl_lit_i(b, 1), l), l);
        pl_block later = pl_if_begin(b, pl_op2_at(b, PL_GT, k.iv, pl_lit_i(b, 0), l), l);
        refill(b, d, last, pl_trace_val(n), before, group, l);
        pl_block_end(&later);
    }
    struct pl_open *o = &b->opens.data[k.id];
    o->kind = PL_OPEN_PIPELINE;
    o->pipeline = *d;
    o->pipeline.lag = is_late;
    o->slot = slot;
    o->step = k.iv;
    o->n_steps = pl_trace_val(n);
    o->group = group;
    o->slot_var = slot_var;
    k.iv2 = slot;
    return k;
}

void pl_trace_end_pipeline(pl_builder *b, struct pl_open *o)
{
    if (o->pipeline.lag == 0)
        refill(b, &o->pipeline, o->step, o->n_steps, o->slot, o->group, o->loc);
    advance_slot(b, o->slot_var.id, o->slot, o->pipeline.stages, o->loc);
}
