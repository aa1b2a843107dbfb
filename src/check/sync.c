/* Barriers, pipes, levels of uniformity, the order of SMEM accesses in straight lines of code, and what waits for the grid before. */
#include "src/check/check.h"

#include "src/check/where.h"
#include "src/ir/print.h"

#include <string.h>

#define PL_DIAG_ROWS "src/check/sync.def"
#define PL_DIAG_MODE_DECLARE
#include "base/diag_rows.h"
#define PL_DIAG_ROWS "src/check/sync.def"
#define PL_DIAG_MODE_DEFINE
#include "base/diag_rows.h"

/* ---- barriers and pipes ---- */

struct uses {
    uint32_t *n_waits;  /* by group */
    uint32_t *producer; /* by pipe: the producing role + 1 */
    uint64_t *roles;    /* by pipe: bit set of the consuming roles */
    pl_loc *producer_loc;
};

/*
 * A role as a number below 64: 0 outside roles, else one of at most 8 warpgroups, and its whole or one of its 4 warps. A role out of
 * range, which place.c reports, counts as none.
 */
static uint32_t role_of(const struct pl_fn *fn, uint32_t block)
{
    const struct pl_block_info *b = &fn->blocks.data[block];
    if (b->role_warpgroup < 0 || b->role_warpgroup >= 8 || b->role_warp < -1 || b->role_warp >= 4)
        return 0;
    return 1 + (uint32_t)b->role_warpgroup * 5 + (uint32_t)(b->role_warp + 1);
}

static void count_op(struct pl_fn *fn, uint32_t id, void *user)
{
    struct uses *u = user;
    const struct pl_op *op = pl_ir_op(fn, id);
    uint32_t role = role_of(fn, op->block);
    if (op->code == PL_OP_BARRIER_WAIT || op->code == PL_OP_BARRIER_TEST)
        u->n_waits[fn->bars.data[op->bar].group]++;
    const int32_t n_units = role == 0 ? 1 : fn->blocks.data[op->block].n_role_warpgroups;
    for (int32_t i = 0; op->code == PL_OP_CONSUME && op->pipe != 0 && i < n_units; i++)
        if (role + 5 * (uint32_t)i < 64)
            u->roles[op->pipe] |= UINT64_C(1) << (role + 5 * (uint32_t)i);
    if (op->code != PL_OP_PRODUCE || op->pipe == 0)
        return;
    const pl_pipe_desc *desc = &fn->pipes.data[op->pipe].desc;
    if (n_units > 1 && (desc->producer != PL_BY_THREADS || desc->n_producers != n_units))
        pl_d_pipe_two_producers(fn->diags, at(op->loc), op->loc.line);
    if (u->producer[op->pipe] != 0 && u->producer[op->pipe] != role + 1)
        pl_d_pipe_two_producers(fn->diags, at(op->loc), u->producer_loc[op->pipe].line);
    else if (u->producer[op->pipe] == 0)
        u->producer_loc[op->pipe] = op->loc;
    u->producer[op->pipe] = role + 1;
}

static int32_t n_bits(uint64_t set)
{
    int32_t n = 0;
    for (; set != 0; set &= set - 1)
        n++;
    return n;
}

static void check_pipe(struct pl_fn *fn, uint32_t pipe, const struct uses *u)
{
    const struct pl_pipe_info *p = &fn->pipes.data[pipe];
    if (p->producer_block == 0 && p->consumer_block != 0)
        pl_d_pipe_no_producer(fn->diags, at(p->loc));
    if (p->consumer_block == 0 && p->producer_block != 0)
        pl_d_pipe_no_consumer(fn->diags, at(p->loc));
    int32_t wanted = p->desc.n_consumers > 1 ? p->desc.n_consumers : 1,
            seen = n_bits(u->roles[pipe]);
    bool outside = (u->roles[pipe] & 1) != 0; /* run by every warpgroup */
    if (p->desc.consumer == PL_BY_THREADS && outside)
        seen += fn->n_warpgroups - 1;
    if (p->desc.consumer == PL_BY_THREADS && seen != wanted && p->consumer_block != 0)
        pl_d_consumer_arrivals(fn->diags, at(p->loc), seen, wanted);
}

static void check_barriers(struct pl_fn *fn)
{
    struct uses u = {
        .n_waits = pl_arena_array(fn->arena, fn->groups.n, sizeof(uint32_t)),
        .producer = pl_arena_array(fn->arena, fn->pipes.n, sizeof(uint32_t)),
        .roles = pl_arena_array(fn->arena, fn->pipes.n, sizeof(uint64_t)),
        .producer_loc = pl_arena_array(fn->arena, fn->pipes.n, sizeof(pl_loc)),
    };
    if (pl_arena_is_exhausted(fn->arena))
        return;
    pl_check_walk(fn, count_op, &u);
    for (uint32_t i = 1; i < fn->groups.n; i++) {
        const struct pl_bar_group *g = &fn->groups.data[i];
        uint32_t n_arrivals = g->n_copy_arrivals + g->n_unit_arrivals + g->n_mma_arrivals;
        if (g->is_cluster && pl_fn_n_ctas(fn) == 1)
            pl_d_cluster_barrier_alone(fn->diags, at(g->loc));
        if (g->pipe != 0)
            continue; /* the pipe's own rules */
        if (u.n_waits[i] > 0 && n_arrivals == 0)
            pl_d_barrier_never_arrives(fn->diags, at(g->loc));
        if (u.n_waits[i] == 0 && n_arrivals > 0)
            pl_d_barrier_never_waited(fn->diags, at(g->loc));
    }
    for (uint32_t i = 1; i < fn->pipes.n; i++)
        check_pipe(fn, i, &u);
}

/* ---- levels of uniformity ---- */

static bool needs_level(const struct pl_op *op, enum pl_level *level, const char **scope)
{
    bool is_cta =
        (op->code == PL_OP_REDUCE || op->code == PL_OP_BAR_SYNC) && op->scope == PL_SCOPE_CTA;
    bool is_cluster = op->code == PL_OP_CLUSTER_SYNC ||
                      (op->code == PL_OP_REDUCE && op->scope == PL_SCOPE_CLUSTER);
    *level = is_cluster ? PL_LEVEL_CLUSTER : PL_LEVEL_CTA;
    *scope = is_cluster ? "cluster" : "CTA";
    return is_cta || is_cluster;
}

static void check_level(struct pl_fn *fn, uint32_t id, void *user)
{
    (void)user;
    const struct pl_op *op = pl_ir_op(fn, id);
    const struct pl_block_info *block = &fn->blocks.data[op->block];
    enum pl_level level;
    const char *scope;
    if (needs_level(op, &level, &scope) && block->role_warpgroup < 0 && block->level > level &&
        (fn->n_warpgroups > 1 || level < PL_LEVEL_CTA))
        pl_d_sync_under_narrow_condition(fn->diags, at(op->loc), pl_op_infos[op->code].name, scope,
                                         pl_level_name(block->level));
}

/* ---- order of SMEM accesses ---- */

/*
 * Straight lines only: what happens in a loop or condition is judged inside it, and forgotten after. Within that it is certain: threads
 * wrote an array, nothing committed it, and a copy or matrix operation reads it; or a copy fills it, nobody waited, and threads read it.
 */
struct order {
    struct {
        pl_loc written; /* uncommitted write by threads; file NULL: none */
        uint32_t written_ref;
        pl_loc filling; /* copy whose barrier was not waited for */
        uint32_t filling_ref;
        uint32_t filling_by; /* barrier group; 0: none */
    } * of;                  /* by array */
};

static uint32_t array_at(const struct pl_fn *fn, uint32_t ref)
{
    const struct pl_ref_info *r = pl_ir_ref(fn, ref);
    return ref != 0 && r->space == PL_SPACE_SMEM && r->peer == 0 ? r->array : 0;
}

/* Certainly the same memory: one view, or one of them the whole array. */
static bool is_same_place(const struct pl_fn *fn, uint32_t x, uint32_t y)
{
    return x == y || pl_ir_ref(fn, x)->view == PL_VIEW_ROOT ||
           pl_ir_ref(fn, y)->view == PL_VIEW_ROOT;
}

static bool reads_by_agent(enum pl_opcode code)
{
    return code == PL_OP_COPY_OUT || code == PL_OP_WGMMA || code == PL_OP_WGMMA_VAL ||
           code == PL_OP_TCGEN05_MMA || code == PL_OP_COPY_TMEM || code == PL_OP_COPY_SCALES;
}

static bool is_thread_access(enum pl_opcode code)
{
    return code == PL_OP_LOAD || code == PL_OP_STORE || code == PL_OP_SWAP || code == PL_OP_ATOMIC;
}

static void forget(struct pl_fn *fn, struct order *o)
{
    memset(o->of, 0, fn->arrays.n * sizeof o->of[0]);
}

static void check_uses(struct pl_fn *fn, const struct pl_op *op, struct order *o)
{
    const char *name = pl_op_infos[op->code].name;
    for (int i = 0; i < PL_OP_MAX_REFS; i++) {
        uint32_t a = array_at(fn, op->refs[i]);
        if (a == 0)
            continue;
        if (o->of[a].filling_by != 0 && is_same_place(fn, op->refs[i], o->of[a].filling_ref)) {
            pl_d_wait_missing(fn->diags, at(op->loc), name, o->of[a].filling.line);
            o->of[a].filling_by = 0;
        }
        if (reads_by_agent(op->code) && o->of[a].written.file != NULL &&
            is_same_place(fn, op->refs[i], o->of[a].written_ref)) {
            pl_d_commit_missing(fn->diags, at(op->loc), name, o->of[a].written.line);
            o->of[a].written.file = NULL;
        }
    }
}

static void order_op(struct pl_fn *fn, const struct pl_op *op, struct order *o)
{
    uint32_t first = array_at(fn, op->refs[0]), second = array_at(fn, op->refs[1]);
    if (is_thread_access(op->code) || reads_by_agent(op->code))
        check_uses(fn, op, o);
    if (is_thread_access(op->code) && op->code != PL_OP_LOAD && first != 0) {
        o->of[first].written = op->loc;
        o->of[first].written_ref = op->refs[0];
    }
    if ((op->code == PL_OP_COPY_IN || op->code == PL_OP_GATHER_ROWS) && second != 0 &&
        op->bar != 0) {
        o->of[second].filling = op->loc;
        o->of[second].filling_ref = op->refs[1];
        o->of[second].filling_by = fn->bars.data[op->bar].group;
    }
    bool commits =
        op->code == PL_OP_COMMIT_SMEM || (op->code == PL_OP_FENCE && op->sub == PL_FENCE_ASYNC);
    for (uint32_t a = 0; a < fn->arrays.n; a++) {
        if (commits)
            o->of[a].written.file = NULL;
        if (op->code == PL_OP_BARRIER_WAIT && o->of[a].filling_by == fn->bars.data[op->bar].group)
            o->of[a].filling_by = 0;
    }
}

static void check_order(struct pl_fn *fn, uint32_t block, struct order *o)
{
    forget(fn, o);
    for (PL_IR_FOREACH(fn, block, id)) {
        const struct pl_op *op = pl_ir_op(fn, id);
        if (op->regions[0] == 0) {
            order_op(fn, op, o);
            continue;
        }
        for (int i = 0; i < 2; i++)
            if (op->regions[i] != 0)
                check_order(fn, pl_ir_op(fn, id)->regions[i], o);
        forget(fn, o);
    }
}

/* ---- reads and the grid before ---- */

/*
 * In a body with pl_griddep_wait: a read of GMEM that can come ahead of it. A path on which threads wait for others may be ordered by
 * them (a role that waits for a copy whose issuer waited for the grid), so only what precedes every wait of its path is certain.
 */
static bool orders_after_others(enum pl_opcode code)
{
    return code == PL_OP_GRIDDEP_WAIT || code == PL_OP_BARRIER_WAIT || code == PL_OP_BAR_SYNC ||
           code == PL_OP_CLUSTER_SYNC || code == PL_OP_SEM_WAIT;
}

static void check_ahead_of_wait(struct pl_fn *fn, const struct pl_op *op)
{
    const struct pl_op_info *info = &pl_op_infos[op->code];
    for (int i = 0; i < PL_OP_MAX_REFS && (info->effects & PL_EFF_READ) != 0; i++) {
        const struct pl_ref_info *r = op->refs[i] != 0 ? pl_ir_ref(fn, op->refs[i]) : NULL;
        const bool is_read = r != NULL && r->space == PL_SPACE_GMEM &&
                             (op->code != PL_OP_COPY_OUT || op->sub != PL_OP2_NONE) &&
                             op->code != PL_OP_PREFETCH;
        if (!is_read)
            continue;
        const pl_param_decl *p = &fn->request.kernel->params[fn->arrays.data[r->array].param];
        if (!p->is_constant)
            pl_d_read_ahead_of_wait(fn->diags, at(op->loc), info->name, p->name);
    }
}

/* has_waited: on every path to the block's start; answers whether on every path through its end. */
static bool check_grid_order(struct pl_fn *fn, uint32_t block, bool has_waited)
{
    for (PL_IR_FOREACH(fn, block, id)) {
        const struct pl_op *op = pl_ir_op(fn, id);
        has_waited |= orders_after_others((enum pl_opcode)op->code);
        if (op->regions[0] == 0) {
            if (!has_waited)
                check_ahead_of_wait(fn, op);
            continue;
        }
        const bool is_always_run = op->code == PL_OP_PRODUCE || op->code == PL_OP_CONSUME,
                   has_else = op->regions[1] != 0,
                   first = check_grid_order(fn, op->regions[0], has_waited),
                   second =
                       has_else ? check_grid_order(fn, op->regions[1], has_waited) : is_always_run;
        has_waited |= first && second;
    }
    return has_waited;
}

static void note_grid_wait(struct pl_fn *fn, uint32_t id, void *has_wait)
{
    *(bool *)has_wait |= pl_ir_op(fn, id)->code == PL_OP_GRIDDEP_WAIT;
}

void pl_check_sync(struct pl_fn *fn)
{
    bool has_grid_wait = false;
    check_barriers(fn);
    pl_check_walk(fn, check_level, NULL);
    struct order o = {.of = pl_arena_array(fn->arena, fn->arrays.n, sizeof *o.of)};
    if (!pl_arena_is_exhausted(fn->arena))
        check_order(fn, 1, &o);
    pl_check_walk(fn, note_grid_wait, &has_grid_wait);
    if (has_grid_wait)
        (void)check_grid_order(fn, 1, false);
}
