/*
 * Matrix operations of sm_100: operands in shared memory by descriptors or the first one in tensor memory, accumulators in tensor
 * memory. One thread issues them, the same one that commits; a pair's leader issues for both CTAs.
 *
 * Source: PTX ISA, TensorCore 5th Generation Family Instructions: tcgen05.mma, Instruction descriptor, tcgen05.commit
 */
#include "base/debug.h"
#include "src/plan/hazard.h"
#include "src/plan/lower.h"
#include "src/plan/memory/access.h"
#include "src/plan/scalar.h"
#include "src/plan/sync.h"
#include "src/plan/tensor/operand.h"
#include "src/plan/tensor/tmem.h"

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
    {PL_F16, 0, PL_ST_f16},   {PL_BF16, 1, PL_ST_bf16}, {PL_TF32, 2, PL_ST_tf32},
    {PL_F32, 2, PL_ST_tf32},  {PL_E4M3, 0, PL_ST_e4m3}, {PL_E5M2, 1, PL_ST_e5m2},
    {PL_E2M1, 1, PL_ST_e2m1}, {PL_U8, 0, PL_ST_u8},     {PL_I8, 1, PL_ST_s8},
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
    bool is_a_in_tmem, is_scaled;
    bool has_e8m0;     /* type of the scales, else e4m3 */
    uint32_t n_scales; /* of a row in a step */
    struct pl_opnd d_addr, a_addr;
    struct pl_opnd scales[2]; /* addresses of those of A and of B */
    uint32_t idesc;
};

/* Of the operation; that of a step adds which scale of a column of 32 bits is its first (scales_at). */
static uint32_t instruction_descriptor(const struct pl_lower *l, const struct mma *o)
{
    const uint32_t acc = o->is_scaled            ? 0
                         : o->d->dtype == PL_F16 ? 0
                         : o->d->dtype == PL_I32 ? 2
                                                 : 1;
    const uint32_t m = (uint32_t)o->d->shape.d[0] * (l->is_pair ? 2 : 1),
                   n = (uint32_t)o->d->shape.d[1];
    return acc << 4 | (uint32_t)o->has_e8m0 << 23 |
           (uint32_t)operand_types[row_of(o->x->dtype)].number << 7 |
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
    o->is_scaled = op->refs[3] != 0;
    if (o->is_scaled) {
        o->has_e8m0 = pl_ir_ref(l->fn, op->refs[3])->dtype == PL_E8M0;
        o->n_scales = pl_operand_step_elems(o->x->dtype) / (uint32_t)op->n;
    }
    for (int i = 0; o->is_scaled && i < 2; i++)
        o->scales[i] = pl_tmem_addr(l, op->refs[3 + i]);
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

/* The scales of step k: four along K share a column of 32 bits, the next four lie behind those of all rows. */
static uint32_t scales_at(const struct pl_lower *l, const struct pl_op *op, uint32_t first,
                          struct pl_opnd addr[2])
{
    for (int i = 0; i < 2; i++)
        addr[i].imm += (int64_t)(first / 4) * (pl_ir_ref(l->fn, op->refs[3 + i])->shape.d[0] / 32);
    return first % 4 << 4 | first % 4 << 29;
}

static enum pl_step_op step_op(const struct mma *o)
{
    if (!o->is_scaled)
        return o->is_a_in_tmem ? PL_STEP_tensor_mma_ta : PL_STEP_tensor_mma;
    if (o->n_scales > 1)
        return o->n_scales == 2 ? PL_STEP_tensor_mma_scaled2 : PL_STEP_tensor_mma_scaled4;
    return o->is_a_in_tmem ? PL_STEP_tensor_mma_scaled_ta : PL_STEP_tensor_mma_scaled;
}

/* Step k of K: one instruction of the leader. */
static void put_step(struct pl_lower *l, const struct pl_op *op, const struct mma *o, uint32_t k,
                     pl_reg keeps)
{
    struct pl_opnd a = o->a_addr, scales[2] = {o->scales[0], o->scales[1]};
    const uint32_t first = o->is_scaled ? scales_at(l, op, k * o->n_scales, scales) : 0;
    a.imm += (int64_t)k * STEP_COLUMNS;
    if (!o->is_a_in_tmem)
        a = pl_opnd_reg(pl_operand_desc(l, &o->a, 0, k));
    struct pl_sdesc d = {
        .op = (uint8_t)step_op(o),
        .type = operand_types[row_of(o->x->dtype)].type,
        .attrs = {(uint8_t)pl_tensor_group(l)},
        .n = 5,
        .opnds = {o->d_addr, a, pl_opnd_reg(pl_operand_desc(l, &o->b, 0, k)),
                  pl_opnd_reg(pl_build_in_reg(&l->b, PL_ST_b32, pl_opnd_imm(o->idesc | first))),
                  pl_opnd_reg(keeps)}};
    if (o->is_scaled) {
        d.n = 7;
        d.opnds[4] = scales[0];
        d.opnds[5] = scales[1];
        d.opnds[6] = pl_opnd_reg(keeps);
    }
    set_guard(l, pl_lower_leader(l));
    pl_build_step(&l->b, &d);
    set_guard(l, (pl_reg){0});
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
    const pl_reg first = accumulates(l, op), rest = constant_pred(l, true);
    for (uint32_t k = 0; k < n_steps; k++)
        put_step(l, op, &o, k, k == 0 ? first : rest);
}

/* ---- copies from shared memory, executed in order with the products of the same thread ---- */

static void put_copy(struct pl_lower *l, enum pl_sattr block, enum pl_sattr copies,
                     struct pl_opnd to, pl_reg desc)
{
    set_guard(l, pl_lower_leader(l));
    pl_build_step(&l->b, &(struct pl_sdesc){.op = PL_STEP_tmem_copy,
                                            .attrs = {(uint8_t)pl_tensor_group(l), (uint8_t)block,
                                                      (uint8_t)copies},
                                            .n = 2,
                                            .opnds = {to, pl_opnd_reg(desc)}});
    set_guard(l, (pl_reg){0});
}

/* 128 rows, 32 bytes of each at a time. */
void pl_lower_copy_tmem(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    struct pl_operand from;
    const struct pl_ref_info *s = pl_ir_ref(l->fn, op->refs[0]);
    if (!is_issued_by_one(l, id, op))
        return;
    order_before(l, op);
    if (!pl_operand_make(l, op, op->refs[0], 1, &from))
        return;
    struct pl_opnd to = pl_tmem_addr(l, op->refs[1]);
    const uint32_t n_steps = (uint32_t)s->shape.d[1] / pl_operand_step_elems(s->dtype);
    for (uint32_t k = 0; k < n_steps; k++, to.imm += STEP_COLUMNS)
        put_copy(l, PL_SA_BLOCK_b128x256, PL_SA_NONE, to, pl_operand_desc(l, &from, 0, k));
}

/* Blocks of 128 rows and 4 columns, 512 bytes each: 32 rows of 16 bytes, to every quarter of the lanes. */
void pl_lower_copy_scales(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    const pl_shape *s = &pl_ir_ref(l->fn, op->refs[0])->shape;
    const struct pl_opnd to = pl_tmem_addr(l, op->refs[1]);
    if (!is_issued_by_one(l, id, op))
        return;
    order_before(l, op);
    for (int64_t i = 0; i < s->d[0]; i++)
        for (int64_t k = 0; k < s->d[1]; k++) {
            const struct pl_coord at[PL_MAX_RANK] = {{pl_opnd_imm(0), 1, i},
                                                     {pl_opnd_imm(0), 1, k},
                                                     {pl_opnd_imm(0), 1, 0},
                                                     {pl_opnd_imm(0), 1, 0}};
            struct pl_opnd there = to;
            there.imm += 4 * i + 4 * s->d[0] * k;
            put_copy(l, PL_SA_BLOCK_b32x128, PL_SA_COPIES_q0123, there,
                     pl_rows_desc(l, pl_shared_addr(l, op->refs[0], at)));
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
