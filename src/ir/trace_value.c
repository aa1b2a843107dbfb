/* Elementwise operations, arrays and inline PTX: the functions of ops.h whose result is a pure function of values. */
#include "src/ir/trace.h"

#include "base/debug.h"

#include <string.h>

static const struct pl_op *op_of(pl_builder *b, uint32_t id) { return &b->fn->ops.data[id]; }

static bool takes(const char *kinds, pl_dtype t)
{
    switch (t) {
    case PL_F64:
    case PL_F32:
    case PL_F16:
    case PL_BF16: return strchr(kinds, 'F') != NULL;
    case PL_I16:
    case PL_I32:
    case PL_I64:
    case PL_U16:
    case PL_U32:
    case PL_U64: return strchr(kinds, 'I') != NULL;
    case PL_PRED: return strchr(kinds, 'B') != NULL;
    case PL_TF32: /* storage formats: cast first */
    case PL_E4M3:
    case PL_E5M2:
    case PL_E8M0:
    case PL_E2M1:
    case PL_E2M3:
    case PL_E3M2:
    case PL_I8:
    case PL_U8:
    case PL_DTYPE_NONE:
    case PL_DTYPE_COUNT: return false;
    }
    return false;
}

static bool check_dtype(pl_builder *b, const char *what, const char *kinds, uint32_t id, pl_loc l)
{
    if (takes(kinds, op_of(b, id)->dtype))
        return true;
    pl_d_dtype_has_no_op(b->fn->diags, pl_trace_at(l), what, pl_dtype_name(op_of(b, id)->dtype));
    return false;
}

/* The common shape of operands: equal, or rank 0 beside anything. */
static bool join_shapes(pl_builder *b, const char *what, size_t n, const uint32_t ids[],
                        pl_shape *out, pl_loc l)
{
    *out = op_of(b, ids[0])->shape;
    for (size_t i = 1; i < n; i++) {
        const pl_shape s = op_of(b, ids[i])->shape;
        if (s.rank == 0)
            continue;
        if (out->rank == 0) {
            *out = s;
        } else if (!pl_shape_equal(out, &s)) {
            pl_d_shape_mismatch(b->fn->diags, pl_trace_at(l), what, pl_trace_shape(b, out),
                                pl_trace_shape(b, &s));
            return false;
        }
    }
    return true;
}

/*
 * Operands of one dtype: literals take the strong operands' (or, all weak, f32 if one is a float, else the wider default); i32 indexes
 * widen to i64. False when one is poison or they do not agree.
 */
static bool join_dtypes(pl_builder *b, const char *what, size_t n, uint32_t ids[], pl_loc l)
{
    pl_dtype strong = PL_DTYPE_NONE, weak = PL_DTYPE_NONE;
    for (size_t i = 0; i < n; i++) {
        if (ids[i] == 0)
            return false;
        const struct pl_op *op = op_of(b, ids[i]);
        if (op->is_weak)
            weak = weak == PL_F32 || op->dtype == PL_F32          ? PL_F32
                   : weak == PL_DTYPE_NONE || op->dtype != PL_I32 ? op->dtype
                                                                  : weak;
        else if (strong == PL_DTYPE_NONE || (strong == PL_I32 && op->dtype == PL_I64))
            strong = op->dtype;
    }
    pl_dtype t = strong != PL_DTYPE_NONE ? strong : weak;
    for (size_t i = 0; i < n; i++) {
        ids[i] = pl_trace_strong(b, what, ids[i], t, l);
        if (ids[i] == 0)
            return false;
        const struct pl_op *op = op_of(b, ids[i]);
        if (op->dtype == PL_I32 && t == PL_I64 && op->is_index && op->shape.rank == 0)
            ids[i] = pl_cast_at(b, pl_trace_val(ids[i]), PL_I64, l).id;
        if (ids[i] != 0 && op_of(b, ids[i])->dtype != t) {
            pl_d_dtype_mismatch(b->fn->diags, pl_trace_at(l), what, pl_dtype_name(t),
                                pl_dtype_name(op_of(b, ids[i])->dtype));
            return false;
        }
    }
    return true;
}

static pl_val add_op(pl_builder *b, enum pl_opcode code, pl_dtype t, const pl_shape *s, size_t n,
                     const uint32_t args[], int32_t sub, pl_loc l)
{
    bool is_index = s->rank == 0 && (t == PL_I32 || t == PL_I64);
    for (size_t i = 0; i < n; i++)
        is_index = is_index && (op_of(b, args[i])->is_index || op_of(b, args[i])->dtype == PL_PRED);
    uint32_t id;
    struct pl_op *op = pl_trace_add_val(b, code, t, s, l, &id);
    if (op != NULL) {
        op->n_args = (uint32_t)n;
        for (size_t i = 0; i < n; i++)
            op->args[i] = args[i];
        op->sub = sub;
        op->is_index = is_index;
    }
    return pl_trace_val(id);
}

pl_val pl_op1_at(pl_builder *b, pl_op1 fn, pl_val x, pl_loc l)
{
    if (fn <= PL_OP1_NONE || fn >= PL_OP1_COUNT) {
        pl_d_bad_choice(b->fn->diags, pl_trace_at(l), "a unary operation", (int)fn);
        return pl_val_none();
    }
    uint32_t id = pl_trace_strong_default(b, pl_trace_use(b, x, l), l);
    if (id == 0 || !check_dtype(b, pl_op1_name(fn), pl_op1_kinds(fn), id, l))
        return pl_val_none();
    const pl_shape s = op_of(b, id)->shape;
    return add_op(b, PL_OP_UNARY, op_of(b, id)->dtype, &s, 1, &id, (int32_t)fn, l);
}

/* ---- constant folding of index arithmetic: what keeps unrolled C loops and baked extents free ---- */

static bool fold(pl_op2 fn, int64_t x, int64_t y, int64_t *out)
{
    switch (fn) {
    case PL_ADD: return !__builtin_add_overflow(x, y, out);
    case PL_SUB: return !__builtin_sub_overflow(x, y, out);
    case PL_MUL: return !__builtin_mul_overflow(x, y, out);
    case PL_DIV:
    case PL_REM:
        if (y == 0 || (x == INT64_MIN && y == -1))
            return false;
        *out = fn == PL_DIV ? x / y : x % y;
        return true;
    case PL_CDIV:
        if (y <= 0 || x < 0)
            return false;
        *out = x / y + (x % y != 0);
        return true;
    case PL_MIN: *out = x < y ? x : y; return true;
    case PL_MAX: *out = x > y ? x : y; return true;
    case PL_EQ: *out = x == y; return true;
    case PL_NE: *out = x != y; return true;
    case PL_LT: *out = x < y; return true;
    case PL_LE: *out = x <= y; return true;
    case PL_GT: *out = x > y; return true;
    case PL_GE: *out = x >= y; return true;
    case PL_AND:
    case PL_OR:
    case PL_XOR:
    case PL_SHL:
    case PL_SHR:
    case PL_OP2_NONE:
    case PL_OP2_COUNT: return false;
    }
    return false;
}

/* Two constants, or a neutral element: gives the id of the answer, or 0. Signed 32- and 64-bit only. */
static uint32_t simplify(pl_builder *b, pl_op2 fn, const uint32_t ids[2], pl_loc l)
{
    int64_t x = 0, y = 0, v;
    pl_dtype t = op_of(b, ids[0])->dtype;
    bool x_const = pl_ir_is_const(b->fn, ids[0], &x), y_const = pl_ir_is_const(b->fn, ids[1], &y);
    if (t != PL_I32 && t != PL_I64)
        return 0;
    if (x_const && y_const && fold(fn, x, y, &v)) {
        if (pl_op2_is_compare(fn))
            return pl_trace_const_i(b, PL_PRED, v, l);
        return t == PL_I32 && (v < INT32_MIN || v > INT32_MAX) ? 0 : pl_trace_const_i(b, t, v, l);
    }
    const bool y_is_0 = y_const && y == 0, y_is_1 = y_const && y == 1;
    if ((y_is_0 && (fn == PL_ADD || fn == PL_SUB)) ||
        (y_is_1 && (fn == PL_MUL || fn == PL_DIV || fn == PL_CDIV)))
        return op_of(b, ids[0])->shape.rank == 0 ? ids[0] : 0;
    if ((x_const && x == 0 && fn == PL_ADD) || (x_const && x == 1 && fn == PL_MUL))
        return op_of(b, ids[1])->shape.rank == 0 ? ids[1] : 0;
    return 0;
}

/* Two literals make a literal, so that pl_mul(b, 2, 3) stays weak. */
static pl_val fold_literals(pl_builder *b, pl_op2 fn, const uint32_t ids[2])
{
    int64_t v;
    const struct pl_op *x = op_of(b, ids[0]), *y = op_of(b, ids[1]);
    bool are_ints = x->is_weak && y->is_weak && pl_dtype_kind_of(x->dtype) == PL_KIND_INT &&
                    pl_dtype_kind_of(y->dtype) == PL_KIND_INT;
    if (!are_ints || pl_op2_is_compare(fn) || !fold(fn, x->i, y->i, &v))
        return pl_val_none();
    return pl_lit_i(b, v);
}

pl_val pl_op2_at(pl_builder *b, pl_op2 fn, pl_val x, pl_val y, pl_loc l)
{
    if (fn <= PL_OP2_NONE || fn >= PL_OP2_COUNT) {
        pl_d_bad_choice(b->fn->diags, pl_trace_at(l), "a binary operation", (int)fn);
        return pl_val_none();
    }
    uint32_t ids[2] = {pl_trace_use(b, x, l), pl_trace_use(b, y, l)};
    if (ids[0] == 0 || ids[1] == 0)
        return pl_val_none();
    pl_val folded = fold_literals(b, fn, ids);
    pl_shape s;
    if (folded.id != 0)
        return folded;
    if (!join_dtypes(b, pl_op2_name(fn), 2, ids, l) ||
        !join_shapes(b, pl_op2_name(fn), 2, ids, &s, l) ||
        !check_dtype(b, pl_op2_name(fn), pl_op2_kinds(fn), ids[0], l))
        return pl_val_none();
    uint32_t simple = simplify(b, fn, ids, l);
    if (simple != 0)
        return pl_trace_val(simple);
    return add_op(b, PL_OP_BINARY, pl_op2_is_compare(fn) ? PL_PRED : op_of(b, ids[0])->dtype, &s, 2,
                  ids, (int32_t)fn, l);
}

pl_val pl_fma_at(pl_builder *b, pl_val x, pl_val y, pl_val z, pl_loc l)
{
    uint32_t ids[3] = {pl_trace_use(b, x, l), pl_trace_use(b, y, l), pl_trace_use(b, z, l)};
    pl_shape s;
    if (!join_dtypes(b, "fma", 3, ids, l) || !join_shapes(b, "fma", 3, ids, &s, l) ||
        !check_dtype(b, "fma", "FI", ids[0], l))
        return pl_val_none();
    return add_op(b, PL_OP_FMA, op_of(b, ids[0])->dtype, &s, 3, ids, 0, l);
}

pl_val pl_cast_at(pl_builder *b, pl_val x, pl_dtype t, pl_loc l)
{
    if (t <= PL_DTYPE_NONE || t >= PL_DTYPE_COUNT) {
        pl_d_bad_choice(b->fn->diags, pl_trace_at(l), "pl_cast to a dtype", (int)t);
        return pl_val_none();
    }
    uint32_t id = pl_trace_use(b, x, l);
    if (id == 0)
        return pl_val_none();
    const struct pl_op *op = op_of(b, id);
    if (op->is_weak) {
        bool to_int = pl_dtype_kind_of(t) == PL_KIND_INT || pl_dtype_kind_of(t) == PL_KIND_UINT;
        id = op->dtype == PL_F32 && to_int ? pl_trace_strong_default(b, id, l)
                                           : pl_trace_strong(b, "pl_cast", id, t, l);
    }
    int64_t v;
    if (id == 0 || op_of(b, id)->dtype == t)
        return pl_trace_val(id);
    if (t == PL_I64 && op_of(b, id)->dtype == PL_I32 && pl_ir_is_const(b->fn, id, &v))
        return pl_trace_val(pl_trace_const_i(b, t, v, l));
    const pl_shape s = op_of(b, id)->shape;
    pl_val r = add_op(b, PL_OP_CAST, t, &s, 1, &id, 0, l);
    if (r.id != 0 &&
        t == PL_I32) /* narrowed by hand: no longer an index that may widen by itself */
        b->fn->ops.data[r.id].is_index = false;
    return r;
}

pl_val pl_bitcast_at(pl_builder *b, pl_val x, pl_dtype t, pl_loc l)
{
    uint32_t id = pl_trace_strong_default(b, pl_trace_use(b, x, l), l);
    if (id == 0)
        return pl_val_none();
    pl_dtype from = op_of(b, id)->dtype;
    if (pl_dtype_bits(from) != pl_dtype_bits(t) || from == PL_PRED || t == PL_PRED) {
        pl_d_bitcast_width(b->fn->diags, pl_trace_at(l), pl_dtype_name(from), pl_dtype_bits(from),
                           pl_dtype_name(t), pl_dtype_bits(t));
        return pl_val_none();
    }
    const pl_shape s = op_of(b, id)->shape;
    return from == t ? pl_trace_val(id) : add_op(b, PL_OP_BITCAST, t, &s, 1, &id, 0, l);
}

pl_val pl_select_at(pl_builder *b, pl_val cond, pl_val x, pl_val y, pl_loc l)
{
    uint32_t ids[3] = {pl_trace_use(b, cond, l), pl_trace_use(b, x, l), pl_trace_use(b, y, l)};
    pl_shape s;
    if (ids[0] == 0 || !join_dtypes(b, "select", 2, ids + 1, l))
        return pl_val_none();
    if (op_of(b, ids[0])->is_weak)
        ids[0] = pl_trace_strong(b, "the condition of pl_select", ids[0], PL_PRED, l);
    if (ids[0] == 0)
        return pl_val_none();
    if (op_of(b, ids[0])->dtype != PL_PRED) {
        pl_d_not_pred(b->fn->diags, pl_trace_at(l), "the condition of pl_select",
                      pl_dtype_name(op_of(b, ids[0])->dtype));
        return pl_val_none();
    }
    if (!join_shapes(b, "select", 3, ids, &s, l))
        return pl_val_none();
    return add_op(b, PL_OP_SELECT, op_of(b, ids[1])->dtype, &s, 3, ids, 0, l);
}

pl_val pl_assume_multiple_at(pl_builder *b, pl_val v, int64_t n, pl_loc l)
{
    uint32_t id = pl_trace_integer(b, "pl_assume_multiple", v, l);
    if (n <= 0)
        pl_d_assume_multiple(b->fn->diags, pl_trace_at(l), (long long)n);
    if (id == 0 || n <= 0)
        return pl_val_none();
    const pl_shape s = PL_SHAPE_SCALAR;
    pl_val r = add_op(b, PL_OP_ASSUME_MULTIPLE, op_of(b, id)->dtype, &s, 1, &id, 0, l);
    if (r.id != 0)
        b->fn->ops.data[r.id].i = n;
    return r;
}

/* ---- arrays ---- */

pl_val pl_iota_at(pl_builder *b, pl_dtype t, pl_shape s, int32_t axis, pl_loc l)
{
    if (!pl_trace_extents(b, "pl_iota", &s, l) || !pl_trace_axis(b, "pl_iota", axis, s.rank, l))
        return pl_val_none();
    if (!takes("FI", t)) {
        pl_d_dtype_has_no_op(b->fn->diags, pl_trace_at(l), "iota", pl_dtype_name(t));
        return pl_val_none();
    }
    pl_val r = add_op(b, PL_OP_IOTA, t, &s, 0, NULL, 0, l);
    if (r.id != 0)
        b->fn->ops.data[r.id].axis = axis;
    return r;
}

pl_val pl_broadcast_at(pl_builder *b, pl_val x, int32_t axis, int64_t n_elems, pl_loc l)
{
    uint32_t id = pl_trace_strong_default(b, pl_trace_use(b, x, l), l);
    if (id == 0)
        return pl_val_none();
    pl_shape s = op_of(b, id)->shape;
    if (!pl_trace_axis(b, "pl_broadcast", axis, s.rank < PL_MAX_RANK ? s.rank + 1 : s.rank, l) ||
        s.rank == PL_MAX_RANK)
        return pl_val_none();
    for (int i = s.rank; i > axis; i--)
        s.d[i] = s.d[i - 1];
    s.d[axis] = n_elems;
    s.rank++;
    if (!pl_trace_extents(b, "pl_broadcast", &s, l))
        return pl_val_none();
    pl_val r = add_op(b, PL_OP_BROADCAST, op_of(b, id)->dtype, &s, 1, &id, 0, l);
    if (r.id != 0)
        b->fn->ops.data[r.id].axis = axis;
    return r;
}

pl_val pl_reduce_at(pl_builder *b, pl_op2 fn, pl_val x, int32_t axis, pl_scope scope, pl_loc l)
{
    uint32_t id = pl_trace_use(b, x, l);
    if (!pl_op2_is_reduction(fn)) {
        pl_d_reduce_function(b->fn->diags, pl_trace_at(l), pl_op2_name(fn));
        return pl_val_none();
    }
    if (scope != PL_SCOPE_WARPGROUP && scope != PL_SCOPE_CTA && scope != PL_SCOPE_CLUSTER) {
        pl_d_bad_choice(b->fn->diags, pl_trace_at(l),
                        "the scope of pl_reduce (warpgroup, CTA, cluster)", (int)scope);
        return pl_val_none();
    }
    if (id == 0)
        return pl_val_none();
    pl_shape s = op_of(b, id)->shape;
    if (s.rank == 0) {
        pl_d_not_array(b->fn->diags, pl_trace_at(l), "pl_reduce");
        return pl_val_none();
    }
    if (!pl_trace_axis(b, "pl_reduce", axis, s.rank, l) ||
        !check_dtype(b, pl_op2_name(fn), pl_op2_kinds(fn), id, l))
        return pl_val_none();
    for (int i = axis; i + 1 < s.rank; i++)
        s.d[i] = s.d[i + 1];
    s.d[--s.rank] = 0;
    pl_val r = add_op(b, PL_OP_REDUCE, op_of(b, id)->dtype, &s, 1, &id, (int32_t)fn, l);
    if (r.id != 0) {
        b->fn->ops.data[r.id].axis = axis;
        b->fn->ops.data[r.id].scope = scope;
    }
    return r;
}

pl_val pl_layout_cast_at(pl_builder *b, pl_val x, pl_layout layout, pl_loc l)
{
    uint32_t id = pl_trace_use(b, x, l);
    if (id == 0 || !pl_trace_layout(b, &layout, l))
        return pl_val_none();
    const pl_shape s = op_of(b, id)->shape;
    if (s.rank == 0) {
        pl_d_not_array(b->fn->diags, pl_trace_at(l), "pl_layout_cast");
        return pl_val_none();
    }
    pl_val r = add_op(b, PL_OP_LAYOUT_CAST, op_of(b, id)->dtype, &s, 1, &id, 0, l);
    if (r.id != 0)
        b->fn->ops.data[r.id].layout = layout;
    return r;
}

pl_val pl_extract_at(pl_builder *b, pl_val x, pl_offs index, pl_loc l)
{
    uint32_t args[1 + PL_MAX_RANK] = {pl_trace_use(b, x, l)};
    if (args[0] == 0)
        return pl_val_none();
    int32_t rank = op_of(b, args[0])->shape.rank;
    if (rank == 0 || index.rank != rank) {
        pl_d_extract_index(b->fn->diags, pl_trace_at(l), index.rank, rank);
        return pl_val_none();
    }
    for (int i = 0; i < rank; i++) {
        args[1 + i] = pl_trace_integer(b, "the index of pl_extract", index.o[i], l);
        if (args[1 + i] == 0 ||
            !pl_trace_inside(b, "pl_extract", i, args[1 + i], op_of(b, args[0])->shape.d[i], l))
            return pl_val_none();
    }
    const pl_shape s = PL_SHAPE_SCALAR;
    return add_op(b, PL_OP_EXTRACT, op_of(b, args[0])->dtype, &s, (size_t)rank + 1, args, 0, l);
}

/* ---- escape ---- */

static bool check_ptx(pl_builder *b, const pl_ptx_desc *d, pl_loc l)
{
    const unsigned all =
        PL_EFFECT_NONE | PL_EFFECT_READ_MEMORY | PL_EFFECT_WRITE_MEMORY | PL_EFFECT_SYNC;
    if (d == NULL || d->text == NULL) {
        pl_d_null_argument(b->fn->diags, pl_trace_at(l), "the text of inline PTX");
        return false;
    }
    bool ok = d->n_outs >= 0 && d->n_outs <= 4 && d->n_ins >= 0 && d->n_ins <= 8;
    for (int i = 0; ok && i < d->n_outs; i++)
        ok = pl_dtype_bits(d->out_dtypes[i]) != 0;
    if (!ok)
        pl_d_inline_ptx_operands(b->fn->diags, pl_trace_at(l), d->n_outs, d->n_ins);
    bool effects_ok = d->effects != 0 && (d->effects & ~all) == 0 &&
                      ((d->effects & PL_EFFECT_NONE) == 0 || d->effects == PL_EFFECT_NONE);
    if (!effects_ok)
        pl_d_inline_ptx_effects(b->fn->diags, pl_trace_at(l), d->effects);
    return ok && effects_ok;
}

void pl_inline_ptx_at(pl_builder *b, const pl_ptx_desc *d, pl_val *outs, pl_loc l)
{
    for (int i = 0; d != NULL && outs != NULL && i < d->n_outs && i < 4; i++)
        outs[i] = pl_val_none();
    if (!check_ptx(b, d, l))
        return;
    if (outs == NULL && d->n_outs > 0) {
        pl_d_null_argument(b->fn->diags, pl_trace_at(l), "the outputs of inline PTX");
        return;
    }
    uint32_t ins[8];
    pl_shape s = PL_SHAPE_SCALAR;
    for (int i = 0; i < d->n_ins; i++) {
        ins[i] = pl_trace_strong_default(b, pl_trace_use(b, d->ins[i], l), l);
        if (ins[i] == 0)
            return;
    }
    if (d->n_ins > 0 && !join_shapes(b, "inline PTX", (size_t)d->n_ins, ins, &s, l))
        return;
    uint32_t id, out;
    struct pl_op *op = pl_trace_add(b, PL_OP_INLINE_PTX, l, &id);
    if (op == NULL)
        return;
    op->n_args = (uint32_t)d->n_ins;
    memcpy(op->args, ins, (size_t)d->n_ins * sizeof ins[0]);
    op->n = d->n_outs;
    op->mask = d->effects;
    op->text = pl_arena_strdup(b->fn->arena, d->text);
    for (int i = 0; i < d->n_outs; i++) {
        op = pl_trace_add_val(b, PL_OP_PTX_OUT, d->out_dtypes[i], &s, l, &out);
        if (op == NULL)
            return;
        op->owner = id;
        op->n = i;
        outs[i] = pl_trace_val(out);
    }
}
