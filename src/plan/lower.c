/* The pass over the ops: control flow here, everything else in the functions of the table. */
#include "src/plan/lower.h"

#include "base/debug.h"
#include "src/ir/print.h"
#include "src/plan/array.h"
#include "src/plan/elem.h"
#include "src/plan/hazard.h"
#include "src/plan/layout.h"
#include "src/plan/meet.h"
#include "src/plan/memory/copy.h"
#include "src/plan/memory/smem.h"
#include "src/plan/memory/touch.h"
#include "src/plan/pressure.h"
#include "src/plan/scalar.h"
#include "src/plan/sync.h"
#include "src/plan/tensor/frag.h"
#include "src/plan/tensor/tmem.h"
#include "src/plan/tensor/wgmma.h"

#include <string.h>

#define PL_DIAG_ROWS "src/plan/plan_diag.def"
#define PL_DIAG_MODE_DEFINE
#include "base/diag_rows.h"

struct pl_where pl_lower_where(const struct pl_op *op)
{
    return (struct pl_where){.file = op->loc.file, .line = op->loc.line};
}

void pl_lower_note(struct pl_lower *l, const struct pl_op *op, const char *text)
{
    struct pl_plan_note *n = pl_vec_push(l->arena, &l->plan->notes);
    if (n != NULL)
        *n = (struct pl_plan_note){op->loc.file != NULL ? op->loc.file : "", op->loc.line, text};
}

void pl_lower_refuse(struct pl_lower *l, const struct pl_op *op, const char *what)
{
    pl_d_op_not_lowered(l->diags, pl_lower_where(op), pl_op_infos[op->code].name,
                        l->fn->request.target->arch, what);
    if (l->status == PL_OK)
        l->status = PL_E_UNSUPPORTED;
}

void pl_refuse_copy(struct pl_lower *l, const struct pl_op *op)
{
    pl_d_copy_not_lowered(l->diags, pl_lower_where(op));
    if (l->status == PL_OK)
        l->status = PL_E_UNSUPPORTED;
}

static void lower_block(struct pl_lower *l, uint32_t block);

/* ---- regions ---- */

static pl_reg condition(struct pl_lower *l, uint32_t val)
{
    return pl_build_in_reg(&l->b, PL_ST_pred, pl_lower_scalar(l, val));
}

/* A region's ops in a scope of their own. */
static void lower_scoped(struct pl_lower *l, uint32_t block)
{
    uint32_t mark = pl_build_open(&l->b);
    lower_block(l, block);
    pl_build_close(&l->b, mark);
}

static void lower_loop_body(struct pl_lower *l, uint32_t block, uint32_t end_label)
{
    PL_ASSERT(l->n_loops < (int)PL_COUNT(l->break_labels));
    l->break_states[l->n_loops] = NULL;
    l->break_labels[l->n_loops++] = end_label;
    l->has_values_in_flight = false;
    l->loop_depth++;
    l->has_no_wgmma = false;
    lower_block(l, block);
    l->has_no_wgmma = false;
    l->loop_depth--;
    pl_wgmma_settle(l); /* the next round makes the values anew, in the same registers */
    l->n_loops--;
}

static void put3(struct pl_lower *l, enum pl_step_op op, enum pl_stype t, pl_reg to,
                 struct pl_opnd x, struct pl_opnd y)
{
    pl_build_step(&l->b, &(struct pl_sdesc){.op = (uint8_t)op,
                                            .type = (uint8_t)t,
                                            .n = 3,
                                            .opnds = {pl_opnd_reg(to), x, y}});
}

/*
 * for: the test stands at the end, and asks whether more than one step is left, as an unsigned difference, so that an
 * induction variable near the end of its type does not wrap. The variable is constant in a round, so it may be shared there.
 */
static void lower_for(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    const uint32_t body = op->regions[0];
    const uint32_t iv_op = l->fn->blocks.data[body].first;
    const enum pl_stype t = pl_lower_int_type(l, op->args[0]);
    const bool is_wide = pl_stypes[t].bits == 64;
    const enum pl_stype bits = is_wide ? PL_ST_b64 : PL_ST_b32;
    struct pl_opnd lo = pl_lower_scalar(l, op->args[0]), hi = pl_lower_scalar(l, op->args[1]),
                   step = pl_lower_scalar(l, op->args[2]);
    const uint32_t again = pl_build_label(&l->b), end = pl_build_label(&l->b);
    if (pl_opnd_is_imm(lo) && pl_opnd_is_imm(hi)) {
        if (lo.imm >= hi.imm)
            return;
    } else {
        struct pl_opnd x = pl_opnd_reg(pl_build_in_reg(&l->b, t, lo));
        pl_build_jump(&l->b, end, pl_build_compare(&l->b, PL_SA_CMP_ge, t, x, hi), false);
    }
    struct pl_hazard_state *before = pl_hazard_save(l);
    pl_hazard_loop(l, id);
    pl_reg iv = pl_build_reg(&l->b, is_wide ? PL_RC_B64 : PL_RC_B32);
    pl_build_mov(&l->b, bits, iv, lo);
    pl_build_put_label(&l->b, again);
    uint32_t mark = pl_build_open(&l->b);
    l->vals[iv_op] = pl_lval_scalar(l->fn->ops.data[iv_op].dtype, pl_opnd_reg(iv));
    lower_loop_body(l, body, end);
    struct pl_opnd left = pl_opnd_reg(pl_build_op2(
        &l->b, PL_STEP_sub, t, pl_opnd_reg(pl_build_in_reg(&l->b, t, hi)), pl_opnd_reg(iv)));
    pl_reg more =
        pl_build_compare(&l->b, PL_SA_CMP_gt, is_wide ? PL_ST_u64 : PL_ST_u32, left, step);
    put3(l, PL_STEP_add, t, iv, pl_opnd_reg(iv), step);
    pl_build_close(&l->b, mark);
    pl_build_jump(&l->b, again, more, false);
    pl_build_put_label(&l->b, end);
    pl_hazard_merge(l, before);
    pl_hazard_merge(l, l->break_states[l->n_loops]);
}

static void lower_loop(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    const uint32_t again = pl_build_label(&l->b), end = pl_build_label(&l->b);
    struct pl_hazard_state *before = pl_hazard_save(l);
    pl_hazard_loop(l, id);
    pl_build_put_label(&l->b, again);
    uint32_t mark = pl_build_open(&l->b);
    lower_loop_body(l, op->regions[0], end);
    pl_build_close(&l->b, mark);
    pl_build_jump(&l->b, again, (pl_reg){0}, false);
    pl_build_put_label(&l->b, end);
    pl_hazard_merge(l, before);
    pl_hazard_merge(l, l->break_states[l->n_loops]);
}

static void lower_break_if(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    struct pl_opnd c = pl_lower_scalar(l, op->args[0]);
    const uint32_t end = l->break_labels[l->n_loops - 1];
    pl_hazard_add(l, &l->break_states[l->n_loops - 1]);
    if (pl_opnd_is_imm(c)) {
        if ((c.imm != 0) != op->is_flag)
            pl_build_jump(&l->b, end, (pl_reg){0}, false);
        return;
    }
    pl_build_jump(&l->b, end, condition(l, op->args[0]), op->is_flag);
}

static void lower_if(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    struct pl_opnd c = pl_lower_scalar(l, op->args[0]);
    if (pl_opnd_is_imm(c)) {
        const uint32_t taken = op->regions[c.imm != 0 ? 0 : 1];
        if (taken != 0)
            lower_scoped(l, taken);
        return;
    }
    const bool has_else = op->regions[1] != 0;
    const uint32_t other = pl_build_label(&l->b), end = has_else ? pl_build_label(&l->b) : other;
    struct pl_hazard_state *before = pl_hazard_save(l);
    pl_build_jump(&l->b, other, condition(l, op->args[0]), true);
    lower_scoped(l, op->regions[0]);
    if (has_else) {
        struct pl_hazard_state *then = pl_hazard_save(l);
        pl_build_jump(&l->b, end, (pl_reg){0}, false);
        pl_build_put_label(&l->b, other);
        pl_hazard_restore(l, before);
        lower_scoped(l, op->regions[1]);
        before = then;
    }
    pl_build_put_label(&l->b, end);
    pl_hazard_merge(l, before);
}

/* The threads of the role, everybody else goes on. A role drains what it sent out: its leader is no other unit's. */
static void lower_role(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    const uint32_t end = pl_build_label(&l->b);
    struct pl_opnd tid = pl_opnd_reg(pl_lower_sreg(l, PL_SR_tid_x));
    const bool is_warp = op->axis >= 0;
    struct pl_opnd mine = pl_ix_shr(&l->b, PL_ST_u32, tid, is_warp ? 5 : 7);
    const int32_t wanted = is_warp ? op->n * 4 + op->axis : op->n;
    const uint32_t threads = l->unit_threads;
    const int32_t outer = l->role_warpgroup, n_outer = l->n_role_warpgroups,
                  outer_warp = l->role_warp;
    struct pl_hazard_state *before = pl_hazard_save(l);
    const int32_t n = op->mask > 1 ? (int32_t)op->mask : 1;
    const bool is_rest = n > 1 && op->n + n == (int32_t)(l->n_threads / 128);
    pl_reg is_other =
        n == 1 ? pl_build_compare(&l->b, PL_SA_CMP_ne, PL_ST_u32, mine, pl_opnd_imm(wanted))
        : is_rest
            ? pl_build_compare(&l->b, PL_SA_CMP_lt, PL_ST_u32, mine, pl_opnd_imm(wanted))
            : pl_build_compare(&l->b, PL_SA_CMP_ge, PL_ST_u32,
                               pl_ix_add(&l->b, PL_ST_u32, mine, pl_opnd_imm(-(int64_t)wanted)),
                               pl_opnd_imm(n));
    pl_build_jump(&l->b, end, is_other, false);
    l->role_warpgroup = op->n;
    l->n_role_warpgroups = n;
    l->role_warp = op->axis;
    l->unit_threads = is_warp ? 32 : 128;
    l->has_pending_out = l->has_products = l->has_no_wgmma = false;
    l->unit_has_tensor = pl_block_has_tensor(l, op->n, op->axis);
    lower_scoped(l, op->regions[0]);
    pl_drain_out(l);
    l->unit_has_tensor = pl_block_has_tensor(l, outer, outer_warp);
    l->role_warpgroup = outer;
    l->n_role_warpgroups = n_outer;
    l->role_warp = outer_warp;
    l->unit_threads = threads;
    pl_build_put_label(&l->b, end);
    pl_hazard_merge(l, before);
}

static void lower_scope(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    lower_block(l, op->regions[0]);
}

/*
 * Only the leader of a warpgroup that fills a pipe arrives on it. Its other warps wait for the slots all the same, and one that fell a
 * whole turn of the ring behind would see a later phase of the same parity, for ever: so they meet in each turn, unless the copies
 * made them.
 */
static void lower_produce(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    const bool is_by_leader = l->fn->pipes.data[op->pipe].desc.producer == PL_BY_COPIES &&
                              l->role_warpgroup >= 0 && l->role_warp < 0;
    l->has_met = false;
    lower_scope(l, id, op);
    if (is_by_leader && !l->has_met)
        pl_unit_barrier(l);
}

static void lower_nothing(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)l;
    (void)id;
    (void)op;
}

/* ---- variables ---- */

void pl_lower_array(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    const uint32_t array = pl_ir_ref(l->fn, op->refs[0])->array;
    const struct pl_array *a = &l->fn->arrays.data[array];
    if (a->space != PL_SPACE_REGS && a->space != PL_SPACE_ACC)
        return;
    if (a->space == PL_SPACE_ACC && !pl_frag_fits(PL_FRAG_WGMMA, &a->shape)) {
        pl_d_acc_shape(l->diags, pl_lower_where(op), pl_ir_shape_text(l->arena, &a->shape));
        if (l->status == PL_OK)
            l->status = PL_E_INVALID;
        return;
    }
    struct pl_lval init = pl_lval_scalar(a->dtype, pl_const_of(a->dtype, 0, 0.0));
    if (op->n_args != 0 && op->args[0] != 0)
        init = pl_lval_of(l, op->args[0]);
    struct pl_lval v = a->shape.rank == 0 ? pl_lval_scalar(a->dtype, pl_opnd_imm(0))
                       : a->space == PL_SPACE_ACC
                           ? pl_lval_make(l, a->dtype, pl_lay_frag(PL_FRAG_WGMMA, &a->shape))
                           : pl_lval_make(l, a->dtype, l->var_lays[array]);
    const enum pl_stype bits = pl_stype_bits(v.rep);
    const enum pl_rclass class = (enum pl_rclass)pl_stypes[bits].class;
    if (a->shape.rank == 0) {
        pl_reg r = pl_build_mutable(&l->b, class);
        pl_build_mov(&l->b, bits, r, init.one);
        v.one = pl_opnd_reg(r);
    }
    for (uint32_t i = 0; i < v.n_regs; i++) {
        pl_reg r = pl_build_mutable(&l->b, class);
        pl_build_mov(&l->b, bits, r, pl_lval_unit(l, &init, v.rep, i));
        v.regs[i] = pl_opnd_reg(r);
    }
    l->vars[array] = v;
}

/* ---- the table ---- */

static pl_lower_function *const functions[PL_OP_COUNT] = {
    [PL_OP_CONST] = pl_lower_const,
    [PL_OP_IV] = lower_nothing,
    [PL_OP_SCALAR] = pl_lower_scalar_arg,
    [PL_OP_DIM] = pl_lower_dim,
    [PL_OP_PROGRAM_ID] = pl_lower_program_id,
    [PL_OP_NUM_PROGRAMS] = pl_lower_num_programs,
    [PL_OP_CLUSTER_RANK] = pl_lower_cluster_rank,
    [PL_OP_WARPGROUP_ID] = pl_lower_warpgroup_id,
    [PL_OP_ASSUME_MULTIPLE] = pl_lower_assume_multiple,
    [PL_OP_ARRAY] = pl_lower_array,
    [PL_OP_VIEW] = lower_nothing,
    [PL_OP_BARRIERS] = lower_nothing,
    [PL_OP_BAR_AT] = lower_nothing,
    [PL_OP_PIPE] = lower_nothing,
    [PL_OP_UNARY] = pl_lower_unary,
    [PL_OP_BINARY] = pl_lower_binary,
    [PL_OP_FMA] = pl_lower_fma,
    [PL_OP_CAST] = pl_lower_cast,
    [PL_OP_BITCAST] = pl_lower_bitcast,
    [PL_OP_SELECT] = pl_lower_select,
    [PL_OP_IOTA] = pl_lower_iota,
    [PL_OP_BROADCAST] = pl_lower_broadcast,
    [PL_OP_REDUCE] = pl_lower_reduce,
    [PL_OP_LAYOUT_CAST] = pl_lower_layout_cast,
    [PL_OP_EXTRACT] = pl_lower_extract,
    [PL_OP_LOAD] = pl_lower_load,
    [PL_OP_STORE] = pl_lower_store,
    [PL_OP_SWAP] = pl_lower_swap,
    [PL_OP_COPY_IN] = pl_lower_copy_in,
    [PL_OP_COPY_OUT] = pl_lower_copy_out,
    [PL_OP_WAIT_OUT] = pl_lower_wait_out,
    [PL_OP_PREFETCH] = pl_lower_prefetch,
    [PL_OP_GATHER_ROWS] = pl_lower_gather_rows,
    [PL_OP_COMMIT_SMEM] = pl_lower_commit_smem,
    [PL_OP_ASYNC_STORE_SMEM] = pl_lower_async_store,
    [PL_OP_WGMMA] = pl_lower_wgmma,
    [PL_OP_WGMMA_VAL] = pl_lower_wgmma_val,
    [PL_OP_WGMMA_WAIT] = pl_lower_wgmma_wait,
    [PL_OP_ACC_LOAD] = pl_lower_acc_load,
    [PL_OP_ACC_INIT] = pl_lower_acc_init,
    [PL_OP_TCGEN05_MMA] = pl_lower_tcgen05_mma,
    [PL_OP_TCGEN05_COMMIT] = pl_lower_tcgen05_commit,
    [PL_OP_COPY_TMEM] = pl_lower_copy_tmem,
    [PL_OP_COPY_SCALES] = pl_lower_copy_scales,
    [PL_OP_LOAD_TMEM] = pl_lower_load_tmem,
    [PL_OP_WAIT_LOAD_TMEM] = pl_lower_wait_load_tmem,
    [PL_OP_STORE_TMEM] = pl_lower_store_tmem,
    [PL_OP_COMMIT_TMEM] = pl_lower_commit_tmem,
    [PL_OP_MMA] = pl_lower_mma,
    [PL_OP_BARRIER_ARRIVE] = pl_lower_barrier_arrive,
    [PL_OP_BARRIER_WAIT] = pl_lower_barrier_wait,
    [PL_OP_BARRIER_TEST] = pl_lower_barrier_test,
    [PL_OP_BAR_SYNC] = pl_lower_bar_sync,
    [PL_OP_CLUSTER_SYNC] = pl_lower_cluster_sync,
    [PL_OP_FENCE] = pl_lower_fence,
    [PL_OP_GRIDDEP_WAIT] = pl_lower_griddep_wait,
    [PL_OP_GRIDDEP_LAUNCH] = pl_lower_griddep_launch,
    [PL_OP_SET_MAX_REGISTERS] = pl_lower_set_max_registers,
    [PL_OP_ATOMIC] = pl_lower_atomic,
    [PL_OP_SEM_SIGNAL] = pl_lower_semaphore_signal,
    [PL_OP_SEM_WAIT] = pl_lower_semaphore_wait,
    [PL_OP_SEM_READ] = pl_lower_semaphore_read,
    [PL_OP_FOR] = lower_for,
    [PL_OP_LOOP] = lower_loop,
    [PL_OP_BREAK_IF] = lower_break_if,
    [PL_OP_IF] = lower_if,
    [PL_OP_ROLE] = lower_role,
    [PL_OP_PRODUCE] = lower_produce,
    [PL_OP_CONSUME] = lower_scope,
    [PL_OP_CLC_ASK] = pl_lower_clc_ask,
    [PL_OP_CLC_NEXT] = pl_lower_clc_next,
    [PL_OP_INLINE_PTX] = pl_lower_inline_ptx,
    [PL_OP_PTX_OUT] = lower_nothing,
};

bool pl_plan_lowers(enum pl_opcode code) { return functions[code] != NULL; }

void pl_lower_op(struct pl_lower *l, uint32_t id)
{
    const struct pl_op *op = pl_ir_op(l->fn, id);
    functions[op->code](l, id, op);
}

/* Does the op use a value of tensor memory, or stand where another path joins? Then the loads must have come. */
static bool needs_tmem_loads(const struct pl_lower *l, const struct pl_op *op)
{
    if (op->regions[0] != 0 && op->code != PL_OP_PRODUCE && op->code != PL_OP_CONSUME)
        return true;
    for (uint32_t i = 0; i < op->n_args; i++)
        if (op->args[i] != 0 && pl_ir_op(l->fn, op->args[i])->code == PL_OP_LOAD_TMEM)
            return true;
    return op->code == PL_OP_BREAK_IF;
}

/* Outside roles an op that is the same for all warpgroups is executed by the whole CTA as one unit. */
static bool is_issued_once(const struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    const bool is_issue = op->code == PL_OP_COPY_IN || op->code == PL_OP_COPY_OUT ||
                          op->code == PL_OP_COMMIT_SMEM || op->code == PL_OP_WAIT_OUT ||
                          op->code == PL_OP_PREFETCH || op->code == PL_OP_CLC_ASK ||
                          op->code == PL_OP_TCGEN05_MMA || op->code == PL_OP_TCGEN05_COMMIT ||
                          op->code == PL_OP_COPY_TMEM || op->code == PL_OP_COPY_SCALES;
    return is_issue && l->role_warpgroup < 0 && l->n_threads > 128 &&
           pl_ir_issue_level(l->fn, id) <= PL_LEVEL_CTA;
}

/*
 * An operation by elements that has nothing to do, as adding 0, gives back its operand, which may be a variable's registers: a copy, since
 * the variable may be written before the result is used. What moves whole values is told from its uses (layout.c).
 */
static void part_from_variables(struct pl_lower *l, const struct pl_op *op, struct pl_lval *v)
{
    const bool is_by_elements = op->code == PL_OP_UNARY || op->code == PL_OP_BINARY ||
                                op->code == PL_OP_CAST || op->code == PL_OP_BITCAST ||
                                op->code == PL_OP_SELECT;
    const enum pl_stype bits = pl_stype_bits(v->rep);
    if (!is_by_elements || v->lay.is_splat || v->regs == NULL || v->words != NULL)
        return;
    struct pl_opnd *regs = NULL;
    for (uint32_t i = 0; i < v->n_regs; i++) {
        if (pl_opnd_is_imm(v->regs[i]) || !pl_build_is_mutable(&l->b, v->regs[i].u.reg))
            continue;
        if (regs == NULL) { /* theirs are the variable's own list */
            regs = pl_arena_array(l->arena, v->n_regs, sizeof *regs);
            if (regs == NULL)
                return;
            memcpy(regs, v->regs, v->n_regs * sizeof *regs);
        }
        const pl_reg copy = pl_build_reg(&l->b, (enum pl_rclass)pl_stypes[bits].class);
        pl_build_mov(&l->b, bits, copy, v->regs[i]);
        regs[i] = pl_opnd_reg(copy);
    }
    if (regs != NULL)
        v->regs = regs;
}

static void lower_block(struct pl_lower *l, uint32_t block)
{
    for (PL_IR_FOREACH(l->fn, block, id)) {
        const struct pl_op *op = pl_ir_op(l->fn, id);
        if (pl_arena_is_exhausted(l->arena))
            return;
        if (functions[op->code] == NULL) {
            pl_lower_refuse(l, op, "the plan has no function for it");
            continue;
        }
        const uint32_t threads = l->unit_threads;
        if (is_issued_once(l, id, op))
            l->unit_threads = l->n_threads;
        if (l->tmem.has_loads && needs_tmem_loads(l, op))
            pl_tmem_settle_loads(l);
        struct pl_lval saved[PL_OP_MAX_ARGS];
        pl_operands_convert(l, id, saved);
        functions[op->code](l, id, op);
        part_from_variables(l, op, &l->vals[id]);
        pl_operands_restore(l, id, saved);
        l->unit_threads = threads;
    }
    pl_tmem_settle_loads(l);
}

/* ---- parameters in their final order ---- */

static int compare_params(const struct pl_plan_param *x, const struct pl_plan_param *y)
{
    if (x->n_bytes != y->n_bytes)
        return x->n_bytes > y->n_bytes ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->arg != y->arg)
        return x->arg < y->arg ? -1 : 1;
    return x->axis != y->axis ? (x->axis < y->axis ? -1 : 1) : (int)x->map - (int)y->map;
}

/* Insertion sort: there are few. order[new] = old. */
static void sort_params(struct pl_lower *l)
{
    struct pl_plan *p = l->plan;
    const uint32_t n = p->params.n;
    struct pl_plan_param *sorted = pl_arena_array(l->arena, n, sizeof *sorted);
    uint32_t *new_of = pl_arena_array(l->arena, n, sizeof *new_of);
    if (sorted == NULL || new_of == NULL)
        return;
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rank = 0;
        for (uint32_t j = 0; j < n; j++)
            rank += compare_params(&p->params.data[j], &p->params.data[i]) < 0;
        new_of[i] = rank;
        sorted[rank] = p->params.data[i];
    }
    for (uint32_t i = 0; i < n; i++) {
        p->params.data[i] = sorted[i];
        p->params.data[i].offset_bytes = at;
        at += sorted[i].n_bytes;
    }
    p->launch.params_bytes = at;
    for (uint32_t i = 0; i < p->steps.pool.n; i++)
        if (p->steps.pool.data[i].kind == PL_OPND_PARAM)
            p->steps.pool.data[i].u.index = new_of[p->steps.pool.data[i].u.index];
}

/* ---- the whole ---- */

static bool allocate(struct pl_lower *l)
{
    const struct pl_fn *fn = l->fn;
    l->vals = pl_arena_array(l->arena, fn->ops.n, sizeof *l->vals);
    l->lays = pl_arena_array(l->arena, fn->ops.n, sizeof *l->lays);
    l->is_copied = pl_arena_array(l->arena, fn->ops.n, sizeof *l->is_copied);
    l->vars = pl_arena_array(l->arena, fn->arrays.n, sizeof *l->vars);
    l->var_lays = pl_arena_array(l->arena, fn->arrays.n, sizeof *l->var_lays);
    l->places = pl_arena_array(l->arena, fn->arrays.n, sizeof *l->places);
    l->columns = pl_arena_array(l->arena, fn->arrays.n, sizeof *l->columns);
    l->touches = pl_arena_array(l->arena, fn->arrays.n, sizeof *l->touches);
    l->hazards = pl_arena_array(l->arena, fn->arrays.n, sizeof *l->hazards);
    l->bar_offsets = pl_arena_array(l->arena, fn->groups.n, sizeof *l->bar_offsets);
    l->bar_scales = pl_arena_array(l->arena, fn->groups.n, sizeof *l->bar_scales);
    for (uint32_t g = 0; l->bar_scales != NULL && g < fn->groups.n; g++)
        l->bar_scales[g] = 1;
    l->phases = pl_arena_array(l->arena, fn->groups.n, sizeof *l->phases);
    l->warp_arrivals = pl_arena_array(l->arena, fn->groups.n, sizeof *l->warp_arrivals);
    return !pl_arena_is_exhausted(l->arena);
}

/* Where the body asks for the most shared memory at once. */
static struct pl_where where_smem_is_largest(const struct pl_fn *fn)
{
    struct pl_where w = {0};
    int64_t most = 0;
    for (uint32_t i = 1; i < fn->arrays.n; i++) {
        const struct pl_array *a = &fn->arrays.data[i];
        const int64_t n_bits = pl_shape_n_elems(&a->shape) * pl_dtype_bits(a->dtype);
        if (a->space == PL_SPACE_SMEM && n_bits > most) {
            most = n_bits;
            w = (struct pl_where){.file = a->loc.file, .line = a->loc.line};
        }
    }
    return w;
}

/* The scratch area, whose size follows from the ops and their layouts; then the total. */
static void size_scratch(struct pl_lower *l)
{
    uint64_t need = 0;
    for (uint32_t id = 1; id < l->fn->ops.n; id++) {
        const struct pl_op *op = pl_ir_op(l->fn, id);
        const uint32_t bytes = pl_scratch_need(l, id);
        need = bytes > need ? bytes : need;
        if (op->code == PL_OP_REDUCE && op->scope >= PL_SCOPE_CTA)
            l->cta_scratch_bytes = l->n_threads / 32 * 8;
        if (op->code == PL_OP_REDUCE && op->scope >= PL_SCOPE_CLUSTER)
            l->cluster_scratch_bytes = (l->n_ctas * 8 + 15) / 16 * 16;
    }
    l->scratch_bytes = (uint32_t)(need + 15) / 16 * 16;
    const uint64_t n = (uint64_t)l->scratch_bytes * (l->n_threads / 128) + l->cta_scratch_bytes +
                       l->cluster_scratch_bytes;
    uint64_t end = l->scratch_offset + n;
    if (n != 0) {
        struct pl_plan_area *a = pl_vec_push(l->arena, &l->plan->areas);
        if (a != NULL)
            *a = (struct pl_plan_area){"scratch", l->scratch_offset, (uint32_t)n, 16};
    } else {
        const uint32_t last = l->plan->areas.n;
        end = last == 0 ? 0
                        : l->plan->areas.data[last - 1].offset_bytes +
                              l->plan->areas.data[last - 1].n_bytes;
    }
    const uint64_t limit = (uint64_t)l->fn->request.target->smem_bytes;
    if (end > limit) {
        struct pl_where where = where_smem_is_largest(l->fn);
        where.has_values = true;
        where.seen = (int64_t)end;
        where.wanted = (int64_t)limit;
        pl_d_smem_over_limit(l->diags, where, end, limit);
        l->status = PL_E_INVALID;
    }
    l->plan->launch.smem_bytes = (uint32_t)end;
}

static void set_launch(struct pl_lower *l)
{
    struct pl_plan_launch *launch = &l->plan->launch;
    launch->n_threads = l->n_threads;
    for (int i = 0; i < 3; i++)
        launch->cluster[i] = (uint32_t)l->fn->cluster[i];
    for (uint32_t i = 0; i < l->plan->params.n; i++)
        launch->can_fold_grid |= l->plan->params.data[i].kind == PL_PLAN_GRID;
}

/* The largest budget that a warpgroup asks for; 0: none does. */
static uint32_t register_budget(const struct pl_lower *l)
{
    int32_t most = 0;
    for (uint32_t id = 1; id < l->fn->ops.n; id++) {
        const struct pl_op *op = pl_ir_op(l->fn, id);
        if (op->code == PL_OP_SET_MAX_REGISTERS && op->n > most)
            most = op->n;
    }
    return (uint32_t)most;
}

/*
 * Left alone, assemblers spill a few registers where that lets more threads run at once. A kernel that needs many is one that keeps
 * them busy: it is told that they may all be used (told from 96 on, ptxas 13.0 spilled in two configurations of matmul for fp8). Where
 * warpgroups move registers among themselves that says how many there are.
 *
 * The estimate was never more than 3/2 of what ptxas used, or 80 more than that (13.0, every text of tests/matmul_ptxas.c, which holds
 * it to that), so where it is more than both of what there is some will be spilled.
 */
static void allow_registers(struct pl_lower *l)
{
    enum { MANY = 64, MOST_OVER = 80 };
    const uint32_t n = pl_pressure(l->arena, &l->plan->steps), budget = register_budget(l),
                   available = budget != 0 ? budget : (uint32_t)pl_registers_at_launch(l);
    if (budget == 0 && n > MANY)
        l->plan->launch.max_registers = available;
    if (2 * n > 3 * available && n > available + MOST_OVER) {
        const struct pl_where where = {.has_values = true, .seen = n, .wanted = available};
        pl_d_registers_over(l->diags, where, n, available);
    }
    struct pl_plan_note *note = pl_vec_push(l->arena, &l->plan->notes);
    struct pl_buf text;
    pl_buf_init(&text, l->arena, 48);
    pl_buf_puts(&text, "about ");
    pl_buf_u64(&text, n);
    pl_buf_puts(&text, " registers a thread at once");
    if (note != NULL)
        *note = (struct pl_plan_note){"", 0, text.text};
}

static void start(struct pl_lower *l)
{
    const struct pl_fn *fn = l->fn;
    l->plan->kernel = fn->request.kernel != NULL && fn->request.kernel->name != NULL
                          ? fn->request.kernel->name
                          : "kernel";
    l->plan->sm = (uint16_t)fn->request.target->arch;
    l->has_tma = (fn->request.target->features & PL_F_TMA) != 0;
    l->has_cluster = (fn->request.target->features & PL_F_CLUSTER) != 0;
    l->has_shared_order = l->has_cluster && !fn->request.has_no_shared_order;
    l->n_threads = 128 * (uint32_t)fn->n_warpgroups;
    l->n_ctas = (uint32_t)pl_fn_n_ctas(fn);
    l->role_warpgroup = l->role_warp = -1;
    l->unit_threads = 128;
    l->unit_has_tensor = pl_block_has_tensor(l, -1, -1);
}

pl_status pl_plan_make(const struct pl_fn *fn, struct pl_arena *arena, struct pl_diags *diags,
                       struct pl_plan *out)
{
    struct pl_lower *l = PL_NEW(arena, struct pl_lower);
    memset(out, 0, sizeof *out);
    out->kernel = "";
    if (l == NULL)
        return PL_E_NOMEM;
    l->fn = fn;
    l->arena = arena;
    l->diags = diags;
    l->plan = out;
    pl_build_init(&l->b, arena, &out->steps);
    start(l);
    if (!allocate(l))
        return PL_E_NOMEM;
    pl_tmem_map(l);
    if (!pl_smem_map(l)) {
        pl_d_smem_over_limit(diags, where_smem_is_largest(fn), UINT32_MAX,
                             (uint64_t)fn->request.target->smem_bytes);
        return PL_E_INVALID;
    }
    pl_bar_scales(l);
    pl_touch_find(l);
    pl_layout_walk(l);
    if (pl_arena_is_exhausted(arena))
        return PL_E_NOMEM;
    size_scratch(l);
    if (l->status != PL_OK)
        return l->status;
    pl_lower_prologue(l);
    pl_lower_grid_order(l);
    lower_block(l, 1);
    pl_lower_epilogue(l);
    pl_build_finish(&l->b);
    pl_lower_drop_barriers(arena, &out->steps);
    if (pl_arena_is_exhausted(arena))
        return PL_E_NOMEM;
    sort_params(l);
    set_launch(l);
    allow_registers(l);
    return pl_arena_is_exhausted(arena) ? PL_E_NOMEM : l->status;
}
