/*
 * pl_inline_ptx: the user's own instructions, once for each element, in a scope of their own. The plan names the registers; what
 * the text says is read when it is printed (jit/ptx/fragment.h).
 */
#include "src/plan/inline.h"

#include "base/debug.h"
#include "src/plan/array.h"
#include "src/plan/elem.h"
#include "src/plan/scalar.h"

enum { MAX_OUTS = 4, MAX_INS = 8 };

struct text {
    struct pl_lower *l;
    const struct pl_op *op;
    uint32_t index;          /* of the plan's texts */
    uint32_t outs[MAX_OUTS]; /* op ids */
    pl_dtype dtypes[MAX_OUTS];
    struct pl_lval ins[MAX_INS];
};

static enum pl_stype register_type(pl_dtype t) { return pl_stype_bits(pl_rep_of(t, 1)); }

/* One element: fresh registers for the outputs, and the inputs in registers. */
static void put_instance(const struct text *t, uint32_t elem, struct pl_opnd out[MAX_OUTS])
{
    struct pl_build *b = &t->l->b;
    struct pl_opnd in[MAX_INS];
    for (int32_t i = 0; i < t->op->n; i++) {
        const enum pl_stype st = register_type(t->dtypes[i]);
        out[i] = pl_opnd_reg(pl_build_reg(b, (enum pl_rclass)pl_stypes[st].class));
    }
    for (uint32_t i = 0; i < t->op->n_args; i++) {
        const struct pl_lval *v = &t->ins[i];
        struct pl_opnd x = pl_lval_elem(t->l, v, elem);
        in[i] = pl_opnd_reg(pl_build_in_reg(b, register_type(v->dtype), x));
    }
    const struct pl_opnd outs = pl_build_list(b, out, (uint32_t)t->op->n),
                         ins = pl_build_list(b, in, t->op->n_args);
    pl_build_step(b,
                  &(struct pl_sdesc){.op = PL_STEP_text,
                                     .n = 3,
                                     .opnds = {pl_opnd_index(PL_OPND_TEXT, t->index), outs, ins}});
    for (int32_t i = 0; i < t->op->n; i++)
        out[i] = pl_elem_canonical(t->l, t->dtypes[i], out[i]);
}

/* Chunks that lie beyond the array for some threads: with effects, the text is passed over there. */
static void put_elements(const struct text *t, const pl_shape *s, const struct pl_lay *lay)
{
    struct pl_lower *l = t->l;
    const uint32_t n = lay->n_chunks * lay->vec;
    const bool is_pure = t->op->mask == PL_EFFECT_NONE;
    struct pl_opnd *elems[MAX_OUTS] = {0}, out[MAX_OUTS];
    for (int32_t i = 0; i < t->op->n; i++)
        if ((elems[i] = pl_arena_array(l->arena, n, sizeof *elems[i])) == NULL)
            return;
    for (uint32_t k = 0; k < lay->n_chunks; k++) {
        const pl_reg p = is_pure ? (pl_reg){0} : pl_lay_guard(l, lay, pl_shape_n_elems(s), k);
        const uint32_t beyond = p.id == 0 ? 0 : pl_build_label(&l->b), mark = pl_build_open(&l->b);
        if (p.id != 0)
            pl_build_jump(&l->b, beyond, p, true);
        for (uint32_t e = k * lay->vec; e < (k + 1) * lay->vec; e++) {
            put_instance(t, e, out);
            for (int32_t i = 0; i < t->op->n; i++)
                elems[i][e] = out[i];
        }
        pl_build_close(&l->b, mark);
        if (p.id != 0)
            pl_build_put_label(&l->b, beyond);
    }
    for (int32_t i = 0; i < t->op->n; i++) {
        struct pl_lval v = pl_lval_make(l, t->dtypes[i], *lay);
        pl_lval_set_elems(l, &v, elems[i]);
        l->vals[t->outs[i]] = v;
    }
}

uint32_t pl_inline_array(const struct pl_lower *l, const struct pl_op *op)
{
    for (uint32_t i = 0; i < op->n_args; i++)
        if (pl_ir_op(l->fn, op->args[i])->shape.rank > 0)
            return op->args[i];
    return 0;
}

void pl_lower_inline_ptx(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    struct text t = {.l = l, .op = op, .index = l->plan->steps.texts.n};
    struct pl_step_text *at = pl_vec_push(l->arena, &l->plan->steps.texts);
    if (at == NULL)
        return;
    *at = (struct pl_step_text){op->text, op->loc.file != NULL ? op->loc.file : "", op->loc.line};
    for (int32_t i = 0; i < op->n; i++) { /* they follow, in order */
        t.outs[i] = id + 1 + (uint32_t)i;
        t.dtypes[i] = pl_ir_op(l->fn, t.outs[i])->dtype;
    }
    for (uint32_t i = 0; i < op->n_args; i++)
        t.ins[i] = pl_lval_of(l, op->args[i]);
    const uint32_t array = pl_inline_array(l, op);
    if (array != 0) {
        put_elements(&t, &pl_ir_op(l->fn, array)->shape, &l->lays[array]);
        return;
    }
    struct pl_opnd out[MAX_OUTS];
    put_instance(&t, 0, out);
    for (int32_t i = 0; i < op->n; i++)
        l->vals[t.outs[i]] = pl_lval_scalar(t.dtypes[i], out[i]);
}
