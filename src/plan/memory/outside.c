/*
 * Elements of a window that lie outside its tensor: a load gives each of them a value, which is a move a register. Nobody sees it where
 * all that is made of the loaded array, element by element, only goes to windows that are cut off in the same places: then chunks of
 * 16 bytes that are outside as a whole get none. Where less is loaded at a time the moves stay: without them ptxas 13.0 keeps all loads in
 * flight at once, in up to twice the registers.
 */
#include "src/plan/memory/outside.h"

#include "src/plan/scalar.h"

static bool is_by_elements(const struct pl_op *op)
{
    return op->code == PL_OP_UNARY || op->code == PL_OP_BINARY || op->code == PL_OP_FMA ||
           op->code == PL_OP_CAST || op->code == PL_OP_BITCAST || op->code == PL_OP_SELECT;
}

/* Of two windows of the same shape the same elements are outside. */
static bool are_cut_alike(const struct pl_lower *l, const struct pl_ref_info *x,
                          const struct pl_ref_info *y)
{
    const struct pl_array *a = &l->fn->arrays.data[x->array], *b = &l->fn->arrays.data[y->array];
    if (x->space != PL_SPACE_GMEM || y->space != PL_SPACE_GMEM || !pl_has_extents_of(l, a, b) ||
        pl_ir_ref(l->fn, x->base)->view != PL_VIEW_ROOT ||
        pl_ir_ref(l->fn, y->base)->view != PL_VIEW_ROOT || !pl_shape_equal(&x->shape, &y->shape))
        return false;
    for (int i = 0; i < x->shape.rank; i++)
        if (x->axis_of[i] != y->axis_of[i])
            return false;
    for (int j = 0; j < a->shape.rank; j++)
        if (!pl_affine_same(&x->offset[j], &y->offset[j]) || x->has_clip[j] || y->has_clip[j])
            return false;
    return true;
}

bool pl_outside_is_unseen(const struct pl_lower *l, uint32_t id)
{
    const struct pl_fn *fn = l->fn;
    const struct pl_op *load = pl_ir_op(fn, id);
    const struct pl_ref_info *from = pl_ir_ref(fn, load->refs[0]);
    bool *is_made_of = pl_arena_array(l->arena, fn->ops.n - id, sizeof *is_made_of);
    if (is_made_of == NULL)
        return false;
    is_made_of[0] = true;
    for (uint32_t u = id + 1; u < fn->ops.n; u++) {
        const struct pl_op *op = pl_ir_op(fn, u);
        bool is_use = false;
        for (uint32_t i = 0; i < op->n_args; i++)
            is_use |= op->args[i] >= id && is_made_of[op->args[i] - id];
        if (!is_use)
            continue;
        const bool is_store = op->code == PL_OP_STORE && op->oob != PL_OOB_PROMISE &&
                              are_cut_alike(l, from, pl_ir_ref(fn, op->refs[0]));
        is_made_of[u - id] = is_by_elements(op) && pl_shape_equal(&op->shape, &load->shape);
        if (!is_store && !is_made_of[u - id])
            return false;
    }
    return true;
}
