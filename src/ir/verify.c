/* Invariants of the trace (ours, not the user's): every id in range, used in its scope, ops as their rows say. */
#include "src/ir/ir.h"

#include <stdio.h>

struct verify {
    const struct pl_fn *fn;
    char *why;
    size_t n_bytes;
    bool is_ok;
    uint32_t n_seen;
};

static void fail(struct verify *v, uint32_t id, const char *what)
{
    if (v->is_ok)
        snprintf(v->why, v->n_bytes, "op %u (%s): %s", id,
                 pl_op_infos[pl_ir_op(v->fn, id)->code].name, what);
    v->is_ok = false;
}

static void check_operands(struct verify *v, uint32_t block, uint32_t id, const struct pl_op *op)
{
    const struct pl_op_info *info = &pl_op_infos[op->code];
    const struct pl_fn *fn = v->fn;
    if (op->n_args > PL_OP_MAX_ARGS || (int32_t)op->n_args < info->min_args ||
        (int32_t)op->n_args > info->max_args)
        fail(v, id, "number of operands");
    for (uint32_t i = 0; v->is_ok && i < op->n_args; i++) {
        uint32_t a = op->args[i];
        if (a == 0)
            continue;
        if (a >= id)
            fail(v, id, "operand made later");
        else if (pl_ir_op(fn, a)->is_weak)
            fail(v, id, "weak operand");
        else if (!pl_ir_block_is_in(fn, block, pl_ir_op(fn, a)->block))
            fail(v, id, "operand out of scope");
    }
    for (int i = 0; v->is_ok && i < PL_OP_MAX_REFS; i++)
        if (op->refs[i] >= fn->refs.n ||
            (op->refs[i] != 0 && !pl_ir_block_is_in(fn, block, pl_ir_ref(fn, op->refs[i])->block)))
            fail(v, id, "ref out of range or scope");
    if (op->bar >= fn->bars.n || op->pipe >= fn->pipes.n)
        fail(v, id, "barrier or pipe out of range");
}

static void check_result(struct verify *v, uint32_t id, const struct pl_op *op)
{
    bool is_val = pl_op_infos[op->code].result == PL_RESULT_VAL;
    if (is_val && (op->dtype == PL_DTYPE_NONE || pl_shape_n_elems(&op->shape) < 1) &&
        op->code != PL_OP_ATOMIC)
        fail(v, id, "value without dtype or static shape");
    if (!is_val && op->dtype != PL_DTYPE_NONE)
        fail(v, id, "dtype without a value");
    if (pl_op_infos[op->code].result == PL_RESULT_REGION && op->regions[0] == 0)
        fail(v, id, "region op without a block");
}

/* The outputs of inline PTX follow it, in order. */
static void check_outputs(struct verify *v, uint32_t id, const struct pl_op *op)
{
    if (op->code == PL_OP_PTX_OUT && pl_ir_op(v->fn, op->owner)->code != PL_OP_INLINE_PTX)
        fail(v, id, "output of nothing");
    for (int32_t i = 0; op->code == PL_OP_INLINE_PTX && i < op->n; i++) {
        const uint32_t o = id + 1 + (uint32_t)i;
        if (o >= v->fn->ops.n || pl_ir_op(v->fn, o)->code != PL_OP_PTX_OUT ||
            pl_ir_op(v->fn, o)->owner != id || pl_ir_op(v->fn, o)->n != i)
            fail(v, id, "outputs do not follow");
    }
}

static void walk(struct verify *v, uint32_t block)
{
    for (PL_IR_FOREACH(v->fn, block, id)) {
        const struct pl_op *op = pl_ir_op(v->fn, id);
        if (!v->is_ok)
            return;
        if (++v->n_seen > v->fn->ops.n || id >= v->fn->ops.n || op->code <= PL_OP_NONE ||
            op->code >= PL_OP_COUNT) {
            fail(v, id, "broken list");
            return;
        }
        if (op->block != block)
            fail(v, id, "stands in another block than it says");
        check_operands(v, block, id, op);
        check_result(v, id, op);
        check_outputs(v, id, op);
        for (int i = 0; i < 2; i++)
            if (op->regions[i] != 0) {
                if (v->fn->blocks.data[op->regions[i]].parent != block)
                    fail(v, id, "region with another parent");
                else
                    walk(v, op->regions[i]);
            }
    }
}

bool pl_ir_verify(const struct pl_fn *fn, char *why, size_t n_bytes)
{
    struct verify v = {.fn = fn, .why = why, .n_bytes = n_bytes, .is_ok = true};
    if (n_bytes > 0)
        why[0] = '\0';
    walk(&v, 1);
    return v.is_ok;
}
