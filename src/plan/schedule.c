/*
 * Dynamic schedules (src/ir/trace_sched.c): asking for the next tile, and reading the answer. The waits and arrivals around them are
 * ordinary operations.
 */
#include "base/debug.h"
#include "src/plan/cast.h"
#include "src/plan/elem.h"
#include "src/plan/lower.h"
#include "src/plan/memory/access.h"
#include "src/plan/scalar.h"
#include "src/plan/sync.h"

enum { ANSWER_BYTES = 16 };

static void set_guard(struct pl_lower *l, pl_reg p)
{
    l->b.guard = p;
    l->b.guard_is_negated = false;
}

static struct pl_opnd answer_addr(struct pl_lower *l, uint32_t ref)
{
    const struct pl_coord first = {.thread = pl_opnd_imm(0), .bound = 1};
    return pl_shared_addr(l, ref, &first);
}

/*
 * One thread of each CTA announces the bytes of the answer, one of the cluster asks. Threads have read the answer before, plainly,
 * and the hardware writes the next one.
 */
void pl_lower_clc_ask(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    const struct pl_opnd bar = pl_bar_addr(l, op->bar), answer = answer_addr(l, op->refs[0]);
    pl_reg guard = pl_lower_leader(l);
    (void)id;
    set_guard(l, guard);
    pl_build_step(&l->b,
                  &(struct pl_sdesc){.op = PL_STEP_fence_async, .attrs = {PL_SA_SPACE_shared}});
    pl_build_do2(&l->b, PL_STEP_bar_arrive_tx, bar, pl_opnd_imm(ANSWER_BYTES));
    set_guard(l, (pl_reg){0});
    if (l->n_ctas > 1) {
        const struct pl_opnd rank = pl_opnd_reg(pl_lower_sreg(l, PL_SR_cluster_rank));
        const pl_reg is_first =
            pl_build_compare(&l->b, PL_SA_CMP_eq, PL_ST_u32, rank, pl_opnd_imm(0));
        guard =
            pl_build_op2(&l->b, PL_STEP_and, PL_ST_pred, pl_opnd_reg(guard), pl_opnd_reg(is_first));
    }
    set_guard(l, guard);
    pl_build_do2(&l->b, l->n_ctas > 1 ? PL_STEP_ask_next_multi : PL_STEP_ask_next, answer, bar);
    set_guard(l, (pl_reg){0});
}

/* Of a refusal nothing else may be asked. The grid is one row of clusters, a tile each. */
void pl_lower_clc_next(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    const pl_reg answer = pl_build_reg(&l->b, PL_RC_B128),
                 granted = pl_build_reg(&l->b, PL_RC_PRED), block = pl_build_reg(&l->b, PL_RC_B32);
    const struct pl_opnd a = pl_opnd_reg(answer);
    pl_build_step(&l->b, &(struct pl_sdesc){
                             .op = PL_STEP_load,
                             .type = PL_ST_b128,
                             .attrs = {PL_SA_SPACE_shared},
                             .n = 2,
                             .opnds = {pl_build_list(&l->b, &a, 1), answer_addr(l, op->refs[0])}});
    pl_build_step(&l->b, &(struct pl_sdesc){.op = PL_STEP_next_is_granted,
                                            .type = PL_ST_b128,
                                            .n = 2,
                                            .opnds = {pl_opnd_reg(granted), a}});
    pl_build_mov(&l->b, PL_ST_b32, block, pl_opnd_imm(0));
    set_guard(l, granted);
    pl_build_step(&l->b, &(struct pl_sdesc){.op = PL_STEP_next_block,
                                            .type = PL_ST_b128,
                                            .n = 2,
                                            .opnds = {pl_opnd_reg(block), a}});
    set_guard(l, (pl_reg){0});
    struct pl_opnd tile = pl_ix_div(&l->b, PL_ST_u32, pl_opnd_reg(block), pl_opnd_imm(l->n_ctas));
    const struct pl_lval none = pl_lval_of(l, op->args[0]);
    const enum pl_stype bits = pl_stype_bits(pl_rep_of(op->dtype, 1));
    tile = pl_elem_cast(l, PL_U32, op->dtype, tile);
    struct pl_opnd end = pl_elem_cast(l, none.dtype, op->dtype, none.one);
    l->vals[id] = pl_lval_scalar(
        op->dtype,
        pl_opnd_reg(pl_build_op3(&l->b, PL_STEP_select, bits, tile, end, pl_opnd_reg(granted))));
}
