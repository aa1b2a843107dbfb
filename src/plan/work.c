/*
 * Is there work for this CTA? A persistent kernel is a loop over tiles, in each of its roles; where its grid is larger than the work,
 * some CTAs find the loop empty. They need no barriers, no tensor memory and no tensor maps, so the question is asked before.
 *
 * It is asked when everything that the body does stands in blocks with one condition, the same in every role: `if c`, or `for` from lo
 * to hi; and when all CTAs that the prologue joins answer it alike.
 */
#include "src/plan/work.h"

#include "src/plan/scalar.h"

/* The condition under which a block does something: an if's value, or a loop's bounds. */
struct work {
    bool is_found;
    enum pl_opcode code; /* IF or FOR */
    uint32_t args[2];
};

static bool is_same_value(const struct pl_fn *fn, uint32_t x, uint32_t y)
{
    int64_t i, k;
    return x == y || (x != 0 && y != 0 && pl_ir_is_const(fn, x, &i) && pl_ir_is_const(fn, y, &k) &&
                      i == k && pl_ir_op(fn, x)->dtype == pl_ir_op(fn, y)->dtype);
}

/* Without work, nobody notices that it was left out. */
static bool is_idle(const struct pl_fn *fn, const struct pl_op *op)
{
    const bool is_regs = op->refs[0] != 0 && pl_ir_ref(fn, op->refs[0])->space == PL_SPACE_REGS;
    switch ((int)op->code) {
    case PL_OP_LOAD:
    case PL_OP_STORE: return is_regs;
    case PL_OP_WAIT_OUT:
    case PL_OP_COMMIT_SMEM:
    case PL_OP_COMMIT_TMEM:
    case PL_OP_WGMMA_WAIT:
    case PL_OP_ACC_INIT:
    case PL_OP_BAR_SYNC:
    case PL_OP_CLUSTER_SYNC:
    case PL_OP_FENCE:
    case PL_OP_GRIDDEP_LAUNCH:
    case PL_OP_SET_MAX_REGISTERS: return true;
    default: return pl_op_infos[op->code].effects == PL_EFF_PURE;
    }
}

static bool join_work(const struct pl_fn *fn, struct work *w, struct work found)
{
    if (!w->is_found) {
        *w = found;
        return true;
    }
    return w->code == found.code && is_same_value(fn, w->args[0], found.args[0]) &&
           is_same_value(fn, w->args[1], found.args[1]);
}

/* False: something in the block is done in any case. */
static bool find_work(const struct pl_fn *fn, uint32_t block, struct work *w)
{
    for (PL_IR_FOREACH(fn, block, id)) {
        const struct pl_op *op = pl_ir_op(fn, id);
        const bool is_condition =
            op->code == PL_OP_FOR || (op->code == PL_OP_IF && op->regions[1] == 0);
        bool ok = true;
        if (op->code == PL_OP_ROLE)
            ok = find_work(fn, op->regions[0], w);
        else if (is_condition)
            ok = join_work(
                fn, w,
                (struct work){.is_found = true,
                              .code = op->code,
                              .args = {op->args[0], op->code == PL_OP_FOR ? op->args[1] : 0}});
        else
            ok = is_idle(fn, op);
        if (!ok)
            return false;
    }
    return true;
}

/* A rank-0 value that follows from ids, extents and scalars alone, so it can be worked out before anything else. */
static bool is_early(const struct pl_fn *fn, uint32_t val)
{
    const struct pl_op *op = pl_ir_op(fn, val);
    if (pl_op_infos[op->code].effects != PL_EFF_PURE || op->code == PL_OP_IV ||
        op->code == PL_OP_PTX_OUT || op->shape.rank > 0)
        return false;
    for (uint32_t i = 0; i < op->n_args; i++)
        if (op->args[i] != 0 && !is_early(fn, op->args[i]))
            return false;
    return true;
}

static void lower_early(struct pl_lower *l, uint32_t val)
{
    const struct pl_op *op = pl_ir_op(l->fn, val);
    for (uint32_t i = 0; i < op->n_args; i++)
        if (op->args[i] != 0)
            lower_early(l, op->args[i]);
    pl_lower_op(l, val);
}

void pl_lower_work(struct pl_lower *l)
{
    const struct pl_fn *fn = l->fn;
    const enum pl_level widest = l->n_ctas > 1 ? PL_LEVEL_CLUSTER : PL_LEVEL_CTA;
    struct work w = {0};
    if (!find_work(fn, 1, &w) || !w.is_found)
        return;
    const uint32_t n = w.code == PL_OP_FOR ? 2 : 1;
    for (uint32_t i = 0; i < n; i++)
        if (!is_early(fn, w.args[i]) || pl_ir_op(fn, w.args[i])->level > widest)
            return;
    for (uint32_t i = 0; i < n; i++)
        lower_early(l, w.args[i]);
    struct pl_opnd x = pl_lower_scalar(l, w.args[0]);
    pl_reg is_idle_here;
    if (w.code == PL_OP_FOR) {
        const enum pl_stype t = pl_lower_int_type(l, w.args[0]);
        struct pl_opnd hi = pl_lower_scalar(l, w.args[1]);
        if (pl_opnd_is_imm(x) && pl_opnd_is_imm(hi))
            return;
        is_idle_here =
            pl_build_compare(&l->b, PL_SA_CMP_ge, t, pl_opnd_reg(pl_build_in_reg(&l->b, t, x)), hi);
    } else {
        if (pl_opnd_is_imm(x))
            return;
        is_idle_here = pl_build_in_reg(&l->b, PL_ST_pred, x);
    }
    l->idle_label = pl_build_label(&l->b);
    l->has_idle_label = true;
    pl_build_jump(&l->b, l->idle_label, is_idle_here, w.code == PL_OP_IF);
}
