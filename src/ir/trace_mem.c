/* Loads, stores, atomics, copies, tensor memory and matrix operations of ops.h. */
#include "src/ir/trace.h"

#include "base/debug.h"

#include <string.h>

static const struct pl_ref_info *ref_of(pl_builder *b, uint32_t ref)
{
    return pl_ir_ref(b->fn, ref);
}

/* ---- loads and stores ---- */

pl_val pl_load_at(pl_builder *b, pl_ref r, const pl_load_opt *o, pl_loc l)
{
    uint32_t ref = pl_trace_use_ref(b, r, l), id;
    if (ref == 0 || !pl_trace_static(b, "pl_load", ref, l))
        return pl_val_none();
    if (o != NULL && (unsigned)o->oob > PL_OOB_PROMISE) {
        pl_d_bad_choice(b->fn->diags, pl_trace_at(l), "the out-of-bounds mode of pl_load",
                        (int)o->oob);
        return pl_val_none();
    }
    if (o != NULL && !pl_trace_layout(b, &o->layout, l))
        return pl_val_none();
    const pl_shape s = ref_of(b, ref)->shape;
    struct pl_op *op = pl_trace_add_val(b, PL_OP_LOAD, ref_of(b, ref)->dtype, &s, l, &id);
    if (op == NULL)
        return pl_val_none();
    op->refs[0] = ref;
    if (o != NULL) {
        op->oob = o->oob;
        op->f = o->oob == PL_OOB_FILL ? o->fill : 0;
        op->layout = o->layout;
    }
    return pl_trace_val(id);
}

/* A value to be written to a ref: its dtype, its shape or rank 0. 0 when it cannot. */
static uint32_t value_for(pl_builder *b, const char *what, uint32_t ref, pl_val v, pl_loc l)
{
    uint32_t id = pl_trace_use(b, v, l);
    pl_dtype t = ref_of(b, ref)->dtype;
    id = pl_trace_strong(b, what, id, t, l);
    if (id == 0)
        return 0;
    if (b->fn->ops.data[id].dtype == PL_I32 && t == PL_I64 && b->fn->ops.data[id].is_index)
        id = pl_cast_at(b, pl_trace_val(id), PL_I64, l).id;
    const struct pl_op *op = pl_ir_op(b->fn, id);
    const pl_shape s = op->shape;
    if (op->dtype != t) {
        pl_d_dtype_mismatch(b->fn->diags, pl_trace_at(l), what, pl_dtype_name(t),
                            pl_dtype_name(op->dtype));
        return 0;
    }
    if (s.rank != 0 && !pl_shape_equal(&s, &ref_of(b, ref)->shape)) {
        pl_d_shape_mismatch(b->fn->diags, pl_trace_at(l), what,
                            pl_trace_shape(b, &ref_of(b, ref)->shape), pl_trace_shape(b, &s));
        return 0;
    }
    return id;
}

static struct pl_op *add_write(pl_builder *b, enum pl_opcode code, const char *what, pl_ref r,
                               pl_val v, pl_loc l, uint32_t *id)
{
    uint32_t ref = pl_trace_use_ref(b, r, l);
    *id = 0;
    if (ref == 0 || !pl_trace_static(b, what, ref, l))
        return NULL;
    uint32_t val = value_for(b, what, ref, v, l);
    struct pl_op *op = val == 0 ? NULL : pl_trace_add(b, code, l, id);
    if (op == NULL)
        return NULL;
    op->refs[0] = ref;
    op->args[0] = val;
    op->n_args = 1;
    return op;
}

void pl_store_at(pl_builder *b, pl_ref r, pl_val v, const pl_store_opt *o, pl_loc l)
{
    uint32_t id;
    struct pl_op *op = add_write(b, PL_OP_STORE, "pl_store", r, v, l, &id);
    if (op != NULL && o != NULL && o->oob == PL_OOB_PROMISE)
        op->oob = PL_OOB_PROMISE;
}

/* The result of an op that writes and gives back what was there. */
static pl_val as_value(pl_builder *b, struct pl_op *op, uint32_t id)
{
    if (op == NULL)
        return pl_val_none();
    op->dtype = ref_of(b, op->refs[0])->dtype;
    op->shape = ref_of(b, op->refs[0])->shape;
    return pl_trace_val(id);
}

pl_val pl_swap_at(pl_builder *b, pl_ref r, pl_val v, pl_loc l)
{
    uint32_t id;
    struct pl_op *op = add_write(b, PL_OP_SWAP, "pl_swap", r, v, l, &id);
    return as_value(b, op, id);
}

pl_val pl_atomic_at(pl_builder *b, pl_atomic fn, pl_ref r, pl_val v, const pl_atomic_opt *o,
                    pl_loc l)
{
    if ((unsigned)fn >= PL_ATOMIC_COUNT) {
        pl_d_bad_choice(b->fn->diags, pl_trace_at(l), "pl_atomic", (int)fn);
        return pl_val_none();
    }
    if (o != NULL && (unsigned)o->scope > PL_SCOPE_SYSTEM) {
        pl_d_bad_choice(b->fn->diags, pl_trace_at(l), "the scope of pl_atomic", (int)o->scope);
        return pl_val_none();
    }
    uint32_t id, ref = pl_trace_use_ref(b, r, l), compare = 0;
    if (fn == PL_ATOMIC_CAS && ref != 0) {
        compare = o == NULL ? 0 : value_for(b, "the comparison of an atomic", ref, o->compare, l);
        if (o == NULL)
            pl_d_null_argument(b->fn->diags, pl_trace_at(l), "the comparison of PL_ATOMIC_CAS");
        if (compare == 0)
            return pl_val_none();
    }
    struct pl_op *op = add_write(b, PL_OP_ATOMIC, "pl_atomic", r, v, l, &id);
    if (op == NULL)
        return pl_val_none();
    op->sub = (int32_t)fn;
    op->scope = o != NULL && o->scope != PL_SCOPE_WARP   ? o->scope
                : ref_of(b, ref)->space == PL_SPACE_SMEM ? PL_SCOPE_CTA
                                                         : PL_SCOPE_GPU;
    op->is_flag = o != NULL && o->want_old != 0;
    op->args[1] = compare;
    op->n_args = compare != 0 ? 2 : 1;
    return op->is_flag ? as_value(b, op, id) : pl_val_none();
}

/* ---- copies ---- */

/* Same dtype, and same extents but for the axis that a pair shares. */
static bool check_copy(pl_builder *b, const char *what, uint32_t src, uint32_t dst,
                       int32_t pair_axis, pl_loc l)
{
    const struct pl_ref_info *s = ref_of(b, src), *d = ref_of(b, dst);
    if (!pl_trace_static(b, what, src, l) || !pl_trace_static(b, what, dst, l))
        return false;
    bool ok = s->shape.rank == d->shape.rank && pair_axis <= s->shape.rank && pair_axis >= 0;
    for (int i = 0; ok && i < s->shape.rank; i++)
        ok = s->shape.d[i] == d->shape.d[i] * (i + 1 == pair_axis ? 2 : 1);
    if (!ok)
        pl_d_copy_shape(b->fn->diags, pl_trace_at(l), what, pl_trace_shape(b, &s->shape),
                        pl_trace_shape(b, &d->shape));
    if (s->dtype != d->dtype)
        pl_d_copy_dtype(b->fn->diags, pl_trace_at(l), what, pl_dtype_name(s->dtype),
                        pl_dtype_name(d->dtype));
    return ok && s->dtype == d->dtype;
}

/*
 * This CTA's half of a view that a pair shares along `axis`: rank & 1 says which. From here on it is a copy like any other.
 */
static uint32_t half_of_pair(pl_builder *b, uint32_t ref, int axis, pl_loc l)
{
    const struct pl_ref_info *r = ref_of(b, ref);
    pl_shape s = r->shape;
    pl_offs at = {.rank = s.rank};
    for (int i = 0; i < s.rank; i++)
        at.o[i] = pl_lit_i(b, 0);
    s.d[axis] /= 2;
    at.o[axis] = pl_op2_at(b, PL_REM, pl_cluster_rank_at(b, l), pl_lit_i(b, 2), l);
    at.o[axis] = pl_op2_at(b, PL_MUL, at.o[axis], pl_lit_i(b, s.d[axis]), l);
    return pl_window_at(b, pl_trace_ref(ref), at, s, l).id;
}

static struct pl_op *add_copy(pl_builder *b, enum pl_opcode code, const char *what, pl_ref src,
                              pl_ref dst, const pl_copy_opt *o, pl_loc l)
{
    static const pl_copy_opt defaults;
    uint32_t s = pl_trace_use_ref(b, src, l), d = pl_trace_use_ref(b, dst, l), pred = 0, id;
    if (o == NULL)
        o = &defaults;
    if (s == 0 || d == 0 || !check_copy(b, what, s, d, o->pair_axis_plus1, l))
        return NULL;
    if ((unsigned)o->oob > PL_OOB_PROMISE || (unsigned)o->how > PL_HOW_ELEMENTS ||
        (o->reduce != PL_OP2_NONE && !pl_op2_is_reduction(o->reduce))) {
        pl_d_bad_choice(b->fn->diags, pl_trace_at(l), "the options of a copy", (int)o->how);
        return NULL;
    }
    if (o->pred.id != 0) {
        pred = pl_trace_pred(b, "the predicate of a copy", o->pred, l);
        if (pred == 0)
            return NULL;
    }
    if (o->keep_in_l2 < -1 || o->keep_in_l2 > 1) {
        pl_d_bad_choice(b->fn->diags, pl_trace_at(l), "keep_in_l2 of a copy (-1, 0, 1)",
                        o->keep_in_l2);
        return NULL;
    }
    if (o->pair_axis_plus1 != 0) {
        s = half_of_pair(b, s, o->pair_axis_plus1 - 1, l);
        if (s == 0)
            return NULL;
    }
    struct pl_op *op = pl_trace_add(b, code, l, &id);
    if (op == NULL)
        return NULL;
    op->refs[0] = s;
    op->refs[1] = d;
    op->args[0] = pred;
    op->n_args = pred != 0;
    op->axis = o->pair_axis_plus1;
    op->mask = o->multicast_mask;
    op->oob = o->oob;
    op->sub = (int32_t)o->reduce;
    op->how = o->how;
    op->n = o->keep_in_l2;
    return op;
}

void pl_copy_gmem_to_smem_at(pl_builder *b, pl_ref src, pl_ref dst, pl_bar bar,
                             const pl_copy_opt *o, pl_loc l)
{
    uint32_t id = pl_trace_use_bar(b, bar, true, l);
    if (id != 0)
        pl_trace_copy_arrives(b, id, o != NULL ? o->multicast_mask : 0, l);
    struct pl_op *op =
        id == 0 ? NULL : add_copy(b, PL_OP_COPY_IN, "pl_copy_gmem_to_smem", src, dst, o, l);
    if (op != NULL)
        op->bar = id;
}

void pl_copy_smem_to_gmem_at(pl_builder *b, pl_ref src, pl_ref dst, const pl_copy_opt *o, pl_loc l)
{
    (void)add_copy(b, PL_OP_COPY_OUT, "pl_copy_smem_to_gmem", src, dst, o, l);
}

/* An op on refs alone; n of them, all static. */
static struct pl_op *add_on_refs(pl_builder *b, enum pl_opcode code, int n, const pl_ref refs[],
                                 pl_loc l, uint32_t *id)
{
    uint32_t ids[PL_OP_MAX_REFS] = {0};
    *id = 0;
    for (int i = 0; i < n; i++) {
        ids[i] = pl_trace_use_ref(b, refs[i], l);
        if (ids[i] == 0 || !pl_trace_static(b, pl_op_infos[code].name, ids[i], l))
            return NULL;
    }
    struct pl_op *op = pl_trace_add(b, code, l, id);
    if (op != NULL)
        memcpy(op->refs, ids, sizeof ids);
    return op;
}

void pl_prefetch_at(pl_builder *b, pl_ref src, pl_loc l)
{
    uint32_t id;
    (void)add_on_refs(b, PL_OP_PREFETCH, 1, &src, l, &id);
}

void pl_async_store_smem_at(pl_builder *b, pl_ref dst, pl_val v, pl_bar bar, pl_op2 reduce,
                            pl_loc l)
{
    uint32_t bar_id = pl_trace_use_bar(b, bar, true, l), id;
    if (bar_id == 0)
        return;
    pl_trace_copy_arrives(b, bar_id, 0, l);
    struct pl_op *op = add_write(b, PL_OP_ASYNC_STORE_SMEM, "pl_async_store_smem", dst, v, l, &id);
    if (op == NULL)
        return;
    op->bar = bar_id;
    op->sub = (int32_t)reduce;
}

void pl_gather_rows_at(pl_builder *b, pl_ref src, pl_val rows, pl_ref dst, pl_bar bar, pl_loc l)
{
    uint32_t s = pl_trace_use_ref(b, src, l), d = pl_trace_use_ref(b, dst, l),
             bar_id = pl_trace_use_bar(b, bar, true, l), id;
    uint32_t r = pl_trace_use(b, rows, l);
    if (s == 0 || d == 0 || bar_id == 0 || r == 0)
        return;
    pl_trace_copy_arrives(b, bar_id, 0, l);
    const struct pl_ref_info *from = ref_of(b, s), *to = ref_of(b, d);
    const pl_shape index = pl_ir_op(b->fn, r)->shape;
    if (from->dtype != to->dtype)
        pl_d_copy_dtype(b->fn->diags, pl_trace_at(l), "pl_gather_rows", pl_dtype_name(from->dtype),
                        pl_dtype_name(to->dtype));
    else if (from->shape.rank != 2 || to->shape.rank != 2 || index.rank != 1 ||
             index.d[0] != to->shape.d[0])
        pl_d_copy_shape(b->fn->diags, pl_trace_at(l), "pl_gather_rows",
                        pl_trace_shape(b, &from->shape), pl_trace_shape(b, &to->shape));
    else {
        struct pl_op *op = pl_trace_add(b, PL_OP_GATHER_ROWS, l, &id);
        if (op == NULL)
            return;
        op->refs[0] = s;
        op->refs[1] = d;
        op->args[0] = r;
        op->n_args = 1;
        op->bar = bar_id;
    }
}

/* ---- tensor memory ---- */

pl_val pl_async_load_tmem_at(pl_builder *b, pl_ref r, pl_loc l)
{
    uint32_t id;
    struct pl_op *op = add_on_refs(b, PL_OP_LOAD_TMEM, 1, &r, l, &id);
    return as_value(b, op, id);
}

void pl_async_store_tmem_at(pl_builder *b, pl_ref r, pl_val v, pl_loc l)
{
    uint32_t id;
    (void)add_write(b, PL_OP_STORE_TMEM, "pl_async_store_tmem", r, v, l, &id);
}

static void copy_to_tmem(pl_builder *b, enum pl_opcode code, pl_ref src, pl_ref dst, pl_loc l)
{
    const pl_ref refs[2] = {src, dst};
    uint32_t id;
    (void)add_on_refs(b, code, 2, refs, l, &id);
}

void pl_copy_smem_to_tmem_at(pl_builder *b, pl_ref src, pl_ref dst, pl_loc l)
{
    copy_to_tmem(b, PL_OP_COPY_TMEM, src, dst, l);
}
void pl_copy_scales_to_tmem_at(pl_builder *b, pl_ref src, pl_ref dst, pl_loc l)
{
    copy_to_tmem(b, PL_OP_COPY_SCALES, src, dst, l);
}

/* ---- matrix operations ---- */

static bool check_mma(pl_builder *b, const char *what, const pl_shape *d, const pl_shape *x,
                      const pl_shape *y, int pair, pl_loc l)
{
    bool ok = d->rank == 2 && x->rank == 2 && y->rank == 2 && d->d[0] == x->d[0] &&
              x->d[1] == y->d[0] && d->d[1] == y->d[1] * (pair ? 2 : 1);
    if (!ok)
        pl_d_mma_shapes(b->fn->diags, pl_trace_at(l), what, pl_trace_shape(b, d),
                        pl_trace_shape(b, x), pl_trace_shape(b, y));
    return ok;
}

void pl_tcgen05_mma_at(pl_builder *b, pl_ref d, pl_ref x, pl_ref y, const pl_mma_opt *o, pl_loc l)
{
    static const pl_mma_opt defaults;
    const pl_ref refs[3] = {d, x, y};
    if (o == NULL)
        o = &defaults;
    const pl_ref more[3] = {o->a_scale, o->b_scale, o->sparsity};
    uint32_t id, extra[3] = {0}, accumulate = 0;
    for (int i = 0; i < 3; i++)
        extra[i] = more[i].id == 0 ? 0 : pl_trace_use_ref(b, more[i], l);
    if (o->accumulate.id != 0) {
        accumulate = pl_trace_pred(b, "the accumulate flag", o->accumulate, l);
        if (accumulate == 0)
            return;
    }
    for (int i = 0; i < 3; i++)
        if (pl_trace_use_ref(b, refs[i], l) == 0)
            return;
    if (!check_mma(b, "pl_tcgen05_mma", &ref_of(b, d.id)->shape, &ref_of(b, x.id)->shape,
                   &ref_of(b, y.id)->shape, o->is_pair, l))
        return;
    struct pl_op *op = add_on_refs(b, PL_OP_TCGEN05_MMA, 3, refs, l, &id);
    if (op == NULL)
        return;
    memcpy(op->refs + 3, extra, sizeof extra);
    op->args[0] = accumulate;
    op->n_args = accumulate != 0;
    op->is_flag = o->is_pair != 0;
    op->n = o->scale_block;
}

void pl_wgmma_at(pl_builder *b, pl_ref acc, pl_ref x, pl_ref y, pl_loc l)
{
    pl_wgmma_if_at(b, acc, x, y, pl_val_none(), l);
}

void pl_wgmma_if_at(pl_builder *b, pl_ref acc, pl_ref x, pl_ref y, pl_val accumulate, pl_loc l)
{
    const pl_ref refs[3] = {acc, x, y};
    uint32_t id, flag = 0;
    for (int i = 0; i < 3; i++)
        if (pl_trace_use_ref(b, refs[i], l) == 0)
            return;
    if (accumulate.id != 0) {
        flag = pl_trace_pred(b, "the accumulate flag", accumulate, l);
        if (flag == 0)
            return;
    }
    if (!check_mma(b, "pl_wgmma", &ref_of(b, acc.id)->shape, &ref_of(b, x.id)->shape,
                   &ref_of(b, y.id)->shape, 0, l))
        return;
    struct pl_op *op = add_on_refs(b, PL_OP_WGMMA, 3, refs, l, &id);
    if (op != NULL && flag != 0) {
        op->args[0] = flag;
        op->n_args = 1;
    }
}

void pl_wgmma_val_at(pl_builder *b, pl_ref acc, pl_val x, pl_ref y, pl_loc l)
{
    const pl_ref refs[2] = {acc, y};
    uint32_t val = pl_trace_use(b, x, l), id;
    if (val == 0 || pl_trace_use_ref(b, acc, l) == 0 || pl_trace_use_ref(b, y, l) == 0)
        return;
    const pl_shape s = pl_ir_op(b->fn, val)->shape;
    if (!check_mma(b, "pl_wgmma_val", &ref_of(b, acc.id)->shape, &s, &ref_of(b, y.id)->shape, 0, l))
        return;
    struct pl_op *op = add_on_refs(b, PL_OP_WGMMA_VAL, 2, refs, l, &id);
    if (op == NULL)
        return;
    op->args[0] = val;
    op->n_args = 1;
}

pl_val pl_acc_load_at(pl_builder *b, pl_ref acc, pl_loc l)
{
    uint32_t id;
    struct pl_op *op = add_on_refs(b, PL_OP_ACC_LOAD, 1, &acc, l, &id);
    return as_value(b, op, id);
}

void pl_acc_init_at(pl_builder *b, pl_ref acc, pl_val v, pl_loc l)
{
    uint32_t id;
    (void)add_write(b, PL_OP_ACC_INIT, "pl_acc_init", acc, v, l, &id);
}

/* c of rank 0, as everywhere, stands for all elements: of x's rows and y's columns. */
static pl_val spread(pl_builder *b, pl_val c, pl_val x, pl_val y, pl_loc l)
{
    const uint32_t ids[3] = {pl_trace_use(b, c, l), pl_trace_use(b, x, l), pl_trace_use(b, y, l)};
    if (ids[0] == 0 || ids[1] == 0 || ids[2] == 0)
        return pl_val_none();
    const pl_shape xs = pl_ir_op(b->fn, ids[1])->shape, ys = pl_ir_op(b->fn, ids[2])->shape;
    if (pl_ir_op(b->fn, ids[0])->shape.rank != 0 || xs.rank != 2 || ys.rank != 2)
        return c;
    return pl_broadcast_at(b, pl_broadcast_at(b, c, 0, ys.d[1], l), 0, xs.d[0], l);
}

pl_val pl_mma_at(pl_builder *b, pl_val x, pl_val y, pl_val c, pl_loc l)
{
    c = spread(b, c, x, y, l);
    uint32_t ids[3] = {pl_trace_use(b, x, l), pl_trace_use(b, y, l), pl_trace_use(b, c, l)}, id;
    if (ids[0] == 0 || ids[1] == 0 || ids[2] == 0)
        return pl_val_none();
    const pl_shape xs = pl_ir_op(b->fn, ids[0])->shape, ys = pl_ir_op(b->fn, ids[1])->shape,
                   cs = pl_ir_op(b->fn, ids[2])->shape;
    if (!check_mma(b, "pl_mma", &cs, &xs, &ys, 0, l))
        return pl_val_none();
    struct pl_op *op = pl_trace_add_val(b, PL_OP_MMA, pl_ir_op(b->fn, ids[2])->dtype, &cs, l, &id);
    if (op == NULL)
        return pl_val_none();
    memcpy(op->args, ids, sizeof ids);
    op->n_args = 3;
    return pl_trace_val(id);
}
