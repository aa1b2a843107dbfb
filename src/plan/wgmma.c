/*
 * Warpgroup matrix operations of sm_90a: operands in shared memory by descriptors, accumulators in registers.
 *
 * An SMEM array of the plan (smem.c) is what the tensor core reads: panels as wide as the swizzle span W, 8 rows of a panel are one
 * swizzle atom of 8 W bytes. Read along its rows (K is the last axis), the atoms of 8 rows follow each other (stride 8 W), and K goes
 * on inside the panel, then in the next one. Read across (K is the row axis, 16-bit types only), 8 rows of K are an atom (stride 8
 * W), and the panels are what follows along M or N (the leading stride).
 */
#include "src/plan/lower.h"

#include "base/debug.h"

enum { STEP_BYTES = 32, BLOCK_ROWS = 64 };

struct operand {
    const struct pl_smem_place *place;
    uint32_t elem_bytes;
    bool is_across; /* K is the array's row axis */
    uint32_t first; /* elements of the start in its panel, along K (0 when across) */
    pl_reg desc;    /* of the panel's begin at the first element */
};

static uint32_t step_elems(const struct operand *o) { return STEP_BYTES / o->elem_bytes; }

/* What the fields of a descriptor hold: PTX ISA, Asynchronous Warpgroup Level Matrix Shared Memory Layout, Matrix Descriptor. */
static pl_reg descriptor(struct pl_lower *l, const struct operand *o, struct pl_opnd addr)
{
    const uint32_t span = pl_swizzle_span(o->place->swizzle);
    const uint32_t mode = span == 128 ? 1 : span == 64 ? 2 : 3;
    const uint32_t leading = o->is_across ? o->place->panel_bytes : 16, stride = 8 * span;
    struct pl_opnd base =
        addr.u.reg.id != 0 ? pl_opnd_reg(addr.u.reg) : pl_opnd_reg(pl_shared_base(l));
    struct pl_opnd at = pl_ix_add(&l->b, PL_ST_u32, base, pl_opnd_imm(addr.imm));
    struct pl_opnd halves[2];
    halves[0] = pl_ix_add(&l->b, PL_ST_u32, pl_ix_shr(&l->b, PL_ST_u32, at, 4),
                          pl_opnd_imm((int64_t)(leading / 16) << 16));
    halves[1] = pl_opnd_imm((int64_t)mode << 30 | stride / 16);
    for (int i = 0; i < 2; i++)
        halves[i] = pl_opnd_reg(pl_build_in_reg(&l->b, PL_ST_b32, halves[i]));
    return pl_build_value(&l->b, &(struct pl_sdesc){.op = PL_STEP_pack,
                                                    .type = PL_ST_b64,
                                                    .from = PL_ST_b32,
                                                    .n = 1,
                                                    .opnds = {pl_build_list(&l->b, halves, 2)}});
}

static bool refuse_view(struct pl_lower *l, const struct pl_op *op, const char *which)
{
    pl_d_wgmma_view(l->diags, pl_lower_where(op), which);
    l->status = PL_E_INVALID;
    return false;
}

/* k_axis: of the ref. False when the tensor core cannot read it so, which is reported. */
static bool make_operand(struct pl_lower *l, const struct pl_op *op, uint32_t ref, int k_axis,
                         struct operand *o)
{
    const char *which = k_axis == 1 ? "first" : "second";
    const struct pl_ref_info *r = pl_ir_ref(l->fn, ref);
    const int last = pl_ir_ref(l->fn, r->base)->shape.rank - 1;
    *o = (struct operand){.place = &l->places[r->array], .elem_bytes = pl_elem_bytes(r->dtype)};
    const bool is_whole = r->axis_of[0] + r->axis_of[1] == 2 * last - 1 &&
                          r->axis_of[0] >= last - 1 && r->axis_of[1] >= last - 1;
    if (last < 1 || !is_whole || r->peer != 0 || o->place->swizzle == PL_PLAN_SWIZZLE_NONE ||
        pl_ir_ref(l->fn, r->base)->view == PL_VIEW_RESHAPE)
        return refuse_view(l, op, which);
    o->is_across = r->axis_of[k_axis] != last;
    if (o->is_across && o->elem_bytes != 2) {
        pl_d_wgmma_major(l->diags, pl_lower_where(op), pl_dtype_name(r->dtype), which);
        l->status = PL_E_INVALID;
        return false;
    }
    const struct pl_affine *row = &r->offset[last - 1], *col = &r->offset[last];
    int64_t konst = 0;
    const bool is_panel = pl_affine_multiple(l->fn, col) >= o->place->panel_elems;
    const bool is_step =
        !o->is_across && pl_affine_is_const(col, &konst) && konst % step_elems(o) == 0;
    if (pl_affine_multiple(l->fn, row) < 8 || (!is_panel && !is_step))
        return refuse_view(l, op, which);
    o->first = is_panel ? 0 : (uint32_t)(konst % o->place->panel_elems);
    struct pl_coord at[PL_MAX_RANK] = {{pl_opnd_imm(0), 1, 0}, {pl_opnd_imm(0), 1, 0}};
    at[k_axis].konst = -(int64_t)o->first;
    o->desc = descriptor(l, o, pl_shared_addr(l, ref, at));
    return true;
}

/* The descriptor of block `block` of 64 along M (0 for the second operand) and step `k`. */
static pl_reg descriptor_at(struct pl_lower *l, const struct operand *o, uint32_t block, uint32_t k)
{
    const struct pl_smem_place *p = o->place;
    uint32_t n_bytes;
    if (o->is_across) {
        n_bytes = k * step_elems(o) * p->row_bytes +
                  block * (BLOCK_ROWS * o->elem_bytes / p->row_bytes) * p->panel_bytes;
    } else {
        const uint32_t along = (o->first + k * step_elems(o)) * o->elem_bytes;
        n_bytes = along / p->row_bytes * p->panel_bytes + along % p->row_bytes +
                  block * BLOCK_ROWS * p->row_bytes;
    }
    return pl_ix_add(&l->b, PL_ST_s64, pl_opnd_reg(o->desc), pl_opnd_imm(n_bytes / 16)).u.reg;
}

static void do_wait(struct pl_lower *l, int64_t n_pending)
{
    pl_build_do1(&l->b, PL_STEP_wgmma_wait, pl_opnd_imm(n_pending));
}

void pl_lower_wgmma(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    const struct pl_ref_info *d = pl_ir_ref(l->fn, op->refs[0]), *x = pl_ir_ref(l->fn, op->refs[1]),
                             *y = pl_ir_ref(l->fn, op->refs[2]);
    const struct pl_lval *acc = &l->vars[d->array];
    struct operand a, b;
    if (acc->regs == NULL || d->view != PL_VIEW_ROOT) {
        pl_lower_refuse(l, op);
        return;
    }
    for (int i = 1; i < 3; i++) {
        const uint32_t ref = op->refs[i];
        pl_hazard_async(l, pl_ir_ref(l->fn, ref)->array, false);
        pl_hazard_access(l, ref, false, 0); /* threads may write it when all have waited */
    }
    if (!make_operand(l, op, op->refs[1], 1, &a) || !make_operand(l, op, op->refs[2], 0, &b))
        return;
    const uint32_t n_blocks = (uint32_t)d->shape.d[0] / BLOCK_ROWS, n_regs = acc->n_regs / n_blocks;
    const uint32_t n_steps = (uint32_t)x->shape.d[1] / step_elems(&a);
    pl_reg yes = pl_build_op1(&l->b, PL_STEP_mov, PL_ST_pred, pl_opnd_imm(1));
    pl_build_do(&l->b, PL_STEP_wgmma_fence);
    for (uint32_t k = 0; k < n_steps; k++)
        for (uint32_t m = 0; m < n_blocks; m++)
            pl_build_step(&l->b,
                          &(struct pl_sdesc){
                              .op = acc->dtype == PL_F16 ? PL_STEP_wgmma_half : PL_STEP_wgmma,
                              .type = (uint8_t)pl_matrix_operand_type(x->dtype),
                              .from = (uint8_t)pl_matrix_operand_type(y->dtype),
                              .n = 6,
                              .opnds = {pl_build_list(&l->b, acc->regs + m * n_regs, n_regs),
                                        pl_opnd_reg(descriptor_at(l, &a, m, k)),
                                        pl_opnd_reg(descriptor_at(l, &b, 0, k)), pl_opnd_reg(yes),
                                        pl_opnd_imm(a.is_across), pl_opnd_imm(b.is_across)}});
    pl_build_do(&l->b, PL_STEP_wgmma_commit);
}

void pl_lower_wgmma_wait(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    do_wait(l, op->n);
}

void pl_lower_acc_load(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, op->refs[0]);
    if (l->vars[r->array].regs == NULL || r->view != PL_VIEW_ROOT) {
        pl_lower_refuse(l, op);
        l->vals[id] = pl_lval_scalar(op->dtype, pl_opnd_imm(0));
        return;
    }
    do_wait(l, 0);
    pl_load_variable(l, id, r->array);
}

void pl_lower_acc_init(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    const struct pl_ref_info *r = pl_ir_ref(l->fn, op->refs[0]);
    if (l->vars[r->array].regs == NULL || r->view != PL_VIEW_ROOT) {
        pl_lower_refuse(l, op);
        return;
    }
    const struct pl_lval v = pl_lval_of(l, op->args[0]);
    do_wait(l, 0); /* operations in flight still write the registers */
    pl_store_variable(l, r->array, &v);
}
