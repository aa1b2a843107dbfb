/*
 * Warpgroup matrix operations of sm_90a: operands in shared memory by descriptors (operand.c), accumulators in registers.
 */
#include "src/plan/tensor/wgmma.h"

#include "base/debug.h"
#include "src/plan/elem.h"
#include "src/plan/hazard.h"
#include "src/plan/memory/mem.h"
#include "src/plan/scalar.h"
#include "src/plan/tensor/frag.h"
#include "src/plan/tensor/mma.h"
#include "src/plan/tensor/operand.h"

enum { BLOCK_ROWS = 64 };

static void do_wait(struct pl_lower *l, int64_t n_pending)
{
    if (n_pending != 0 || !l->has_no_wgmma)
        pl_build_do1(&l->b, PL_STEP_wgmma_wait, pl_opnd_imm(n_pending));
    pl_hazard_products_end(l, n_pending == 0);
    if (n_pending == 0) {
        l->has_no_wgmma = true;
        l->has_values_in_flight = l->has_products = false;
    }
}

void pl_wgmma_drain(struct pl_lower *l)
{
    if (l->has_products)
        do_wait(l, 0);
}

void pl_wgmma_settle(struct pl_lower *l)
{
    if (l->has_values_in_flight)
        do_wait(l, 0);
}

/* Does the op write a whole accumulator? One without registers was refused where it is made, or memory ran out. */
static bool check_whole(struct pl_lower *l, const struct pl_op *op)
{
    const struct pl_ref_info *d = pl_ir_ref(l->fn, op->refs[0]);
    if (l->vars[d->array].regs == NULL)
        return false;
    if (d->view != PL_VIEW_ROOT)
        pl_lower_refuse(l, op, "a view of the accumulator: take it whole");
    return d->view == PL_VIEW_ROOT;
}

void pl_lower_wgmma(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    const struct pl_ref_info *d = pl_ir_ref(l->fn, op->refs[0]), *x = pl_ir_ref(l->fn, op->refs[1]),
                             *y = pl_ir_ref(l->fn, op->refs[2]);
    const struct pl_lval *acc = &l->vars[d->array];
    struct pl_operand a, b;
    if (!check_whole(l, op))
        return;
    pl_hazard_product(l, op->refs[1]);
    pl_hazard_product(l, op->refs[2]);
    if (!pl_operand_make(l, op, op->refs[1], 1, &a) || !pl_operand_make(l, op, op->refs[2], 0, &b))
        return;
    const uint32_t n_blocks = (uint32_t)d->shape.d[0] / BLOCK_ROWS, n_regs = acc->n_regs / n_blocks;
    const uint32_t n_steps = (uint32_t)x->shape.d[1] / pl_operand_step_elems(x->dtype);
    const pl_reg yes = pl_build_op1(&l->b, PL_STEP_mov, PL_ST_pred, pl_opnd_imm(1));
    const pl_reg first =
        op->n_args == 0 ? yes : pl_build_in_reg(&l->b, PL_ST_pred, pl_lower_scalar(l, op->args[0]));
    l->has_no_wgmma = false;
    l->has_products = true;
    pl_build_do(&l->b, PL_STEP_wgmma_fence);
    for (uint32_t k = 0; k < n_steps; k++)
        for (uint32_t m = 0; m < n_blocks; m++)
            pl_build_step(
                &l->b,
                &(struct pl_sdesc){.op = acc->dtype == PL_F16 ? PL_STEP_wgmma_half : PL_STEP_wgmma,
                                   .type = (uint8_t)pl_matrix_operand_type(x->dtype),
                                   .from = (uint8_t)pl_matrix_operand_type(y->dtype),
                                   .n = 6,
                                   .opnds = {pl_build_list(&l->b, acc->regs + m * n_regs, n_regs),
                                             pl_opnd_reg(pl_operand_desc(l, &a, m, k)),
                                             pl_opnd_reg(pl_operand_desc(l, &b, 0, k)),
                                             pl_opnd_reg(k == 0 ? first : yes),
                                             pl_opnd_imm(a.is_across), pl_opnd_imm(b.is_across)}});
    pl_build_do(&l->b, PL_STEP_wgmma_commit);
}

/* Registers that nothing writes until the operation has read them: those of a variable are copied. */
static pl_reg *stable_words(struct pl_lower *l, uint32_t val, uint32_t n)
{
    pl_reg *words = pl_matrix_operand_words(l, val, PL_LAYOUT_MMA_A);
    for (uint32_t i = 0; words != NULL && i < n; i++)
        if (pl_build_is_mutable(&l->b, words[i])) {
            pl_reg copy = pl_build_reg(&l->b, PL_RC_B32);
            pl_build_mov(&l->b, PL_ST_b32, copy, pl_opnd_reg(words[i]));
            words[i] = copy;
        }
    return words;
}

void pl_lower_wgmma_val(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    enum { A_WORDS = 4 };
    (void)id;
    const struct pl_ref_info *d = pl_ir_ref(l->fn, op->refs[0]), *y = pl_ir_ref(l->fn, op->refs[1]);
    const struct pl_op *x = pl_ir_op(l->fn, op->args[0]);
    const struct pl_lval *acc = &l->vars[d->array];
    struct pl_operand b;
    if (!check_whole(l, op))
        return;
    pl_hazard_product(l, op->refs[1]);
    if (!pl_operand_make(l, op, op->refs[1], 0, &b))
        return;
    const uint32_t n_blocks = (uint32_t)d->shape.d[0] / BLOCK_ROWS, n_regs = acc->n_regs / n_blocks;
    const uint32_t n_steps = (uint32_t)x->shape.d[1] / pl_operand_step_elems(x->dtype);
    const pl_reg *words = stable_words(l, op->args[0], n_blocks * n_steps * A_WORDS);
    if (words == NULL)
        return;
    pl_reg yes = pl_build_op1(&l->b, PL_STEP_mov, PL_ST_pred, pl_opnd_imm(1));
    l->has_no_wgmma = false;
    l->has_products = true;
    pl_build_do(&l->b, PL_STEP_wgmma_fence);
    for (uint32_t k = 0; k < n_steps; k++)
        for (uint32_t m = 0; m < n_blocks; m++) {
            struct pl_opnd a[A_WORDS];
            for (uint32_t i = 0; i < A_WORDS; i++)
                a[i] = pl_opnd_reg(words[(m * n_steps + k) * A_WORDS + i]);
            pl_build_step(
                &l->b, &(struct pl_sdesc){
                           .op = acc->dtype == PL_F16 ? PL_STEP_wgmma_val_half : PL_STEP_wgmma_val,
                           .type = (uint8_t)pl_matrix_operand_type(x->dtype),
                           .from = (uint8_t)pl_matrix_operand_type(y->dtype),
                           .n = 5,
                           .opnds = {pl_build_list(&l->b, acc->regs + m * n_regs, n_regs),
                                     pl_build_list(&l->b, a, A_WORDS),
                                     pl_opnd_reg(pl_operand_desc(l, &b, 0, k)), pl_opnd_reg(yes),
                                     pl_opnd_imm(b.is_across)}});
        }
    pl_build_do(&l->b, PL_STEP_wgmma_commit);
    l->has_values_in_flight = true;
}

void pl_lower_wgmma_wait(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    do_wait(l, op->n);
}

/* The registers of a window of whole fragments: 64 rows, 8 columns. They follow each other column group by column group. */
static bool take_window(struct pl_lower *l, const struct pl_ref_info *r, struct pl_lval *v)
{
    const pl_shape *whole = &l->fn->arrays.data[r->array].shape;
    const uint32_t n_blocks = (uint32_t)whole->d[0] / BLOCK_ROWS,
                   n_groups = (uint32_t)whole->d[1] / 8,
                   per_group = v->n_regs / n_blocks / n_groups;
    int64_t row, col;
    if (!pl_affine_is_const(&r->offset[0], &row) || !pl_affine_is_const(&r->offset[1], &col) ||
        row % BLOCK_ROWS != 0 || col % 8 != 0 || r->shape.d[0] % BLOCK_ROWS != 0 ||
        r->shape.d[1] % 8 != 0 || row < 0 || col < 0 || row + r->shape.d[0] > whole->d[0] ||
        col + r->shape.d[1] > whole->d[1])
        return false;
    const struct pl_opnd *all = v->regs;
    const uint32_t n = (uint32_t)r->shape.d[1] / 8 * per_group;
    *v = pl_lval_make(l, v->dtype, pl_lay_frag(PL_FRAG_WGMMA, &r->shape));
    for (uint32_t i = 0; v->regs != NULL && i < v->n_regs; i++)
        v->regs[i] = all[((uint32_t)row / BLOCK_ROWS + i / n) * n_groups * per_group +
                         (uint32_t)col / 8 * per_group + i % n];
    return true;
}

void pl_lower_acc_load(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, op->refs[0]);
    if (l->vars[r->array].regs == NULL) { /* refused where it is made, or memory ran out */
        l->vals[id] = pl_lval_scalar(op->dtype, pl_opnd_imm(0));
        return;
    }
    do_wait(l, 0);
    pl_load_variable(l, id, r->array);
    if (r->view != PL_VIEW_ROOT && !take_window(l, r, &l->vals[id])) {
        pl_d_acc_window(l->diags, pl_lower_where(op));
        l->status = PL_E_INVALID;
    }
}

void pl_lower_acc_init(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    const struct pl_ref_info *r = pl_ir_ref(l->fn, op->refs[0]);
    if (!check_whole(l, op))
        return;
    const struct pl_lval v = pl_lval_of(l, op->args[0]);
    do_wait(l, 0); /* operations in flight still write the registers */
    pl_store_variable(l, r->array, &v);
}
