/*
 * Matrix operations of sm_100: operands in shared memory by descriptors or the first one in tensor memory, accumulators in tensor
 * memory. One thread issues them, the same one that commits; a pair's leader issues for both CTAs.
 *
 * Source: PTX ISA, TensorCore 5th Generation Family Instructions: tcgen05.mma, Instruction descriptor, tcgen05.commit
 */
#include "src/plan/lower.h"

#include "base/debug.h"

enum { STEP_COLUMNS = 8 }; /* of a step of K in tensor memory: 32 bytes */

static void set_guard(struct pl_lower *l, pl_reg p)
{
    l->b.guard = p;
    l->b.guard_is_negated = false;
}

/* How the instruction descriptor numbers an operand's type, and the type that chooses the kind of instruction. */
static const struct {
    pl_dtype t;
    uint8_t number;
    uint8_t type; /* enum pl_stype */
} operand_types[] = {
    {PL_F16, 0, PL_ST_f16},  {PL_BF16, 1, PL_ST_bf16}, {PL_TF32, 2, PL_ST_tf32},
    {PL_F32, 2, PL_ST_tf32}, {PL_E4M3, 0, PL_ST_e4m3}, {PL_E5M2, 1, PL_ST_e5m2},
    {PL_U8, 0, PL_ST_u8},    {PL_I8, 1, PL_ST_s8},
};

static uint32_t row_of(pl_dtype t)
{
    uint32_t i = 0;
    while (i + 1 < PL_COUNT(operand_types) && operand_types[i].t != t)
        i++;
    return i;
}

struct mma {
    const struct pl_ref_info *d, *x, *y;
    struct pl_operand a, b;
    bool is_a_in_tmem;
    struct pl_opnd d_addr, a_addr;
    uint32_t idesc;
};

static uint32_t instruction_descriptor(const struct pl_lower *l, const struct mma *o)
{
    const uint32_t acc = o->d->dtype == PL_F16 ? 0 : o->d->dtype == PL_I32 ? 2 : 1;
    const uint32_t m = (uint32_t)o->d->shape.d[0] * (l->is_pair ? 2 : 1),
                   n = (uint32_t)o->d->shape.d[1];
    return acc << 4 | (uint32_t)operand_types[row_of(o->x->dtype)].number << 7 |
           (uint32_t)operand_types[row_of(o->y->dtype)].number << 10 |
           (uint32_t)o->a.is_across << 15 | (uint32_t)o->b.is_across << 16 | n >> 3 << 17 |
           m >> 4 << 24;
}

/* Outside roles several warpgroups would issue, and a commit speaks of its own thread's operations only. */
static bool is_issued_by_one(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    if (l->role_warpgroup >= 0 || pl_ir_issue_level(l->fn, id) <= PL_LEVEL_CTA ||
        l->n_threads <= 128)
        return true;
    pl_d_tensor_unit(l->diags, pl_lower_where(op), pl_op_infos[op->code].name);
    l->status = PL_E_INVALID;
    return false;
}

/* What the unit's threads wrote, for the tensor core to see. */
static void order_before(struct pl_lower *l, const struct pl_op *op)
{
    for (int i = 0; i < PL_OP_MAX_REFS; i++)
        if (op->refs[i] != 0 && pl_ir_ref(l->fn, op->refs[i])->space == PL_SPACE_SMEM)
            pl_hazard_async(l, pl_ir_ref(l->fn, op->refs[i])->array, false);
    pl_tmem_before_tensor(l);
}

static bool make_mma(struct pl_lower *l, const struct pl_op *op, struct mma *o)
{
    *o = (struct mma){.d = pl_ir_ref(l->fn, op->refs[0]),
                      .x = pl_ir_ref(l->fn, op->refs[1]),
                      .y = pl_ir_ref(l->fn, op->refs[2])};
    o->is_a_in_tmem = o->x->space == PL_SPACE_TMEM;
    o->d_addr = pl_tmem_addr(l, op->refs[0]);
    if (o->is_a_in_tmem)
        o->a_addr = pl_tmem_addr(l, op->refs[1]);
    else if (!pl_operand_make(l, op, op->refs[1], 1, &o->a))
        return false;
    if (!pl_operand_make(l, op, op->refs[2], 0, &o->b))
        return false;
    o->idesc = instruction_descriptor(l, o);
    return true;
}

static pl_reg constant_pred(struct pl_lower *l, bool v)
{
    return pl_build_op1(&l->b, PL_STEP_mov, PL_ST_pred, pl_opnd_imm(v));
}

/* The accumulator is kept in the first step: a predicate. */
static pl_reg accumulates(struct pl_lower *l, const struct pl_op *op)
{
    if (op->n_args == 0 || op->args[0] == 0)
        return constant_pred(l, true);
    const struct pl_opnd p = pl_lower_scalar(l, op->args[0]);
    return pl_opnd_is_imm(p) ? constant_pred(l, p.imm != 0) : pl_build_in_reg(&l->b, PL_ST_pred, p);
}

void pl_lower_tcgen05_mma(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    struct mma o;
    if (!is_issued_by_one(l, id, op))
        return;
    order_before(l, op);
    if (!make_mma(l, op, &o))
        return;
    const uint32_t n_steps = (uint32_t)o.x->shape.d[1] / pl_operand_step_elems(o.x->dtype);
    const pl_reg leader = pl_lower_leader(l), first = accumulates(l, op),
                 rest = constant_pred(l, true);
    const pl_reg idesc = pl_build_in_reg(&l->b, PL_ST_b32, pl_opnd_imm(o.idesc));
    for (uint32_t k = 0; k < n_steps; k++) {
        struct pl_opnd a = o.a_addr;
        a.imm += (int64_t)k * STEP_COLUMNS;
        if (!o.is_a_in_tmem)
            a = pl_opnd_reg(pl_operand_desc(l, &o.a, 0, k));
        const struct pl_opnd b = pl_opnd_reg(pl_operand_desc(l, &o.b, 0, k));
        set_guard(l, leader);
        pl_build_step(&l->b, &(struct pl_sdesc){.op = o.is_a_in_tmem ? PL_STEP_tensor_mma_ta
                                                                     : PL_STEP_tensor_mma,
                                                .type = operand_types[row_of(o.x->dtype)].type,
                                                .attrs = {(uint8_t)pl_tensor_group(l)},
                                                .n = 5,
                                                .opnds = {o.d_addr, a, b, pl_opnd_reg(idesc),
                                                          pl_opnd_reg(k == 0 ? first : rest)}});
        set_guard(l, (pl_reg){0});
    }
}

/* One arrival when all is done: of a pair in both CTAs, or in the one where the barrier is waited for. */
void pl_lower_tcgen05_commit(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    if (!is_issued_by_one(l, id, op))
        return;
    pl_hazard_arrival(l);
    const bool is_at_leader = pl_bar_is_at_leader(l, op->bar);
    struct pl_sdesc d = {
        .op = PL_STEP_tensor_commit,
        .attrs = {(uint8_t)pl_tensor_group(l)},
        .n = 1,
        .opnds = {is_at_leader ? pl_bar_leader_addr(l, op->bar) : pl_bar_addr(l, op->bar)}};
    if (l->is_pair && !is_at_leader) {
        d.op = PL_STEP_tensor_commit_multi;
        d.n = 2;
        d.opnds[1] = pl_opnd_reg(pl_pair_mask(l));
    }
    set_guard(l, pl_lower_leader(l));
    pl_build_step(&l->b, &d);
    set_guard(l, (pl_reg){0});
}
