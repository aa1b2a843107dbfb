#include "src/ir/trace.h"

#include "base/buf.h"
#include "base/debug.h"
#include "src/ir/print.h"

#include <string.h>

#define PL_DIAG_ROWS "src/ir/trace.def"
#define PL_DIAG_MODE_DEFINE
#include "base/diag_rows.h"

/* ---- small helpers ---- */

struct pl_where pl_trace_at(pl_loc l) { return (struct pl_where){.file = l.file, .line = l.line}; }

const char *pl_trace_shape(pl_builder *b, const pl_shape *s)
{
    return pl_ir_shape_text(b->fn->arena, s);
}

const char *pl_trace_block_name(enum pl_block_kind kind)
{
    static const char *const names[PL_BLOCK_COUNT] = {
        "body", "PL_FOR", "loop", "PL_IF", "PL_ELSE", "role", "PL_PRODUCE", "PL_CONSUME"};
    return names[kind];
}

static const char *name_of_block(pl_builder *b, uint32_t block)
{
    return pl_trace_block_name(b->fn->blocks.data[block].kind);
}

/* ---- use of handles ---- */

static bool is_in_scope(pl_builder *b, uint32_t made_in, const char *what, pl_loc l)
{
    if (made_in == 0 || pl_ir_block_is_in(b->fn, b->block, made_in))
        return true;
    pl_d_value_out_of_scope(b->fn->diags, pl_trace_at(l), what, name_of_block(b, made_in),
                            b->fn->blocks.data[made_in].loc.line);
    return false;
}

/* Poison comes from a mistake that was reported, or from memory that ran out; anything else was never made. */
void pl_trace_empty(pl_builder *b, const char *what, pl_loc l)
{
    if (b->fn->diags->n_errors == 0 && !pl_arena_is_exhausted(b->fn->arena))
        pl_d_empty_handle(b->fn->diags, pl_trace_at(l), what);
}

/* An id of an operation that gives no value is no handle either: it was never handed out. */
static bool is_value(const struct pl_op *op)
{
    return pl_op_infos[op->code].result == PL_RESULT_VAL &&
           (op->code != PL_OP_ATOMIC || op->is_flag);
}

uint32_t pl_trace_use(pl_builder *b, pl_val v, pl_loc l)
{
    if (v.id == 0 || v.id >= b->fn->ops.n || !is_value(&b->fn->ops.data[v.id])) {
        pl_trace_empty(b, "value", l);
        return 0;
    }
    return is_in_scope(b, b->fn->ops.data[v.id].block, "value", l) ? v.id : 0;
}

uint32_t pl_trace_use_ref(pl_builder *b, pl_ref r, pl_loc l)
{
    if (r.id == 0 || r.id >= b->fn->refs.n) {
        pl_trace_empty(b, "ref", l);
        return 0;
    }
    return is_in_scope(b, b->fn->refs.data[r.id].block, "ref", l) ? r.id : 0;
}

uint32_t pl_trace_use_bar(pl_builder *b, pl_bar bar, bool needs_one, pl_loc l)
{
    if (bar.id == 0 || bar.id >= b->fn->bars.n) {
        pl_trace_empty(b, "barrier", l);
        return 0;
    }
    if (!is_in_scope(b, b->fn->bars.data[bar.id].block, "barrier", l))
        return 0;
    int32_t n = pl_ir_group_of(b->fn, bar.id)->n_barriers;
    if (needs_one && n > 1 && b->fn->bars.data[bar.id].index == 0) {
        pl_d_barrier_is_group(b->fn->diags, pl_trace_at(l), n);
        return 0;
    }
    return bar.id;
}

/* ---- adding ops ---- */

struct pl_op *pl_trace_add(pl_builder *b, enum pl_opcode code, pl_loc l, uint32_t *id)
{
    struct pl_fn *fn = b->fn;
    *id = 0;
    struct pl_op *op = pl_vec_push(fn->arena, &fn->ops);
    if (op == NULL)
        return NULL;
    *id = fn->ops.n - 1;
    *op = (struct pl_op){.code = code, .block = b->block, .loc = l};
    struct pl_block_info *block = &fn->blocks.data[b->block];
    if (block->last == 0)
        block->first = *id;
    else
        fn->ops.data[block->last].next = *id;
    block->last = *id;
    b->last_if = 0;
    b->has_ops = true;
    return op;
}

struct pl_op *pl_trace_add_val(pl_builder *b, enum pl_opcode code, pl_dtype t, const pl_shape *s,
                               pl_loc l, uint32_t *id)
{
    struct pl_op *op = pl_trace_add(b, code, l, id);
    if (op != NULL) {
        op->dtype = t;
        if (s != NULL)
            op->shape = *s;
    }
    return op;
}

/* ---- literals ---- */

/* In no block, so usable everywhere; becomes a constant where it meets a dtype. */
static pl_val add_weak(pl_builder *b, pl_dtype t, int64_t i, double f)
{
    struct pl_op *op = pl_vec_push(b->fn->arena, &b->fn->ops);
    if (op == NULL)
        return pl_val_none();
    *op = (struct pl_op){.code = PL_OP_CONST, .dtype = t, .i = i, .f = f, .is_weak = true};
    return pl_trace_val(b->fn->ops.n - 1);
}

pl_val pl_lit_i(pl_builder *b, long long v)
{
    return add_weak(b, v >= INT32_MIN && v <= INT32_MAX ? PL_I32 : PL_I64, v, (double)v);
}

pl_val pl_lit_u(pl_builder *b, unsigned long long v)
{
    return v <= INT64_MAX ? pl_lit_i(b, (long long)v) : add_weak(b, PL_U64, (int64_t)v, (double)v);
}

pl_val pl_lit_f(pl_builder *b, double v) { return add_weak(b, PL_F32, 0, v); }

static bool integer_fits(pl_dtype t, pl_dtype literal, int64_t v)
{
    int bits = pl_dtype_bits(t);
    if (pl_dtype_kind_of(t) == PL_KIND_UINT)
        return literal == PL_U64 ? bits == 64 : v >= 0 && (bits == 64 || v >> bits == 0);
    return literal != PL_U64 &&
           (bits == 64 || (v >= -((int64_t)1 << (bits - 1)) && v < (int64_t)1 << (bits - 1)));
}

static uint32_t add_const(pl_builder *b, pl_dtype t, int64_t i, double f, pl_loc l)
{
    const pl_shape scalar = PL_SHAPE_SCALAR;
    uint32_t id;
    struct pl_op *op = pl_trace_add_val(b, PL_OP_CONST, t, &scalar, l, &id);
    if (op != NULL) {
        op->i = i;
        op->f = f;
        op->is_index = t == PL_I32 || t == PL_I64;
    }
    return id;
}

uint32_t pl_trace_const_i(pl_builder *b, pl_dtype t, int64_t v, pl_loc l)
{
    return add_const(b, t, v, (double)v, l);
}

uint32_t pl_trace_strong(pl_builder *b, const char *what, uint32_t id, pl_dtype t, pl_loc l)
{
    if (id == 0 || !b->fn->ops.data[id].is_weak)
        return id;
    const struct pl_op lit = b->fn->ops.data[id];
    bool is_float = lit.dtype == PL_F32;
    switch (pl_dtype_kind_of(t)) {
    case PL_KIND_FLOAT:
    case PL_KIND_SCALE: return add_const(b, t, 0, lit.f, l);
    case PL_KIND_INT:
    case PL_KIND_UINT:
        if (is_float) {
            pl_d_literal_float_on_integer(b->fn->diags, pl_trace_at(l), what, pl_dtype_name(t));
            return 0;
        }
        if (!integer_fits(t, lit.dtype, lit.i)) {
            pl_d_literal_range(b->fn->diags, pl_trace_at(l), what, (long long)lit.i,
                               pl_dtype_name(t));
            return 0;
        }
        return add_const(b, t, lit.i, 0, l);
    case PL_KIND_BOOL:
        if (is_float || (lit.i != 0 && lit.i != 1)) {
            pl_d_literal_range(b->fn->diags, pl_trace_at(l), what, (long long)lit.i,
                               pl_dtype_name(t));
            return 0;
        }
        return add_const(b, t, lit.i, 0, l);
    case PL_KIND_NONE: return 0;
    }
    return 0;
}

uint32_t pl_trace_strong_default(pl_builder *b, uint32_t id, pl_loc l)
{
    return id == 0 ? 0 : pl_trace_strong(b, "literal", id, b->fn->ops.data[id].dtype, l);
}

/* ---- checks that the result of a call depends on ---- */

static bool is_scalar(pl_builder *b, const char *what, uint32_t id, pl_loc l)
{
    const pl_shape s = b->fn->ops.data[id].shape;
    if (s.rank == 0)
        return true;
    pl_d_not_scalar(b->fn->diags, pl_trace_at(l), what, pl_trace_shape(b, &s));
    return false;
}

uint32_t pl_trace_integer(pl_builder *b, const char *what, pl_val v, pl_loc l)
{
    uint32_t id = pl_trace_use(b, v, l);
    if (id == 0 || !is_scalar(b, what, id, l))
        return 0;
    pl_dtype_kind kind = pl_dtype_kind_of(b->fn->ops.data[id].dtype);
    if (kind != PL_KIND_INT && kind != PL_KIND_UINT) {
        pl_d_not_integer(b->fn->diags, pl_trace_at(l), what,
                         pl_dtype_name(b->fn->ops.data[id].dtype));
        return 0;
    }
    return pl_trace_strong_default(b, id, l);
}

uint32_t pl_trace_pred(pl_builder *b, const char *what, pl_val v, pl_loc l)
{
    uint32_t id = pl_trace_use(b, v, l);
    if (id == 0 || !is_scalar(b, what, id, l))
        return 0;
    const struct pl_op *op = &b->fn->ops.data[id];
    if (op->is_weak && op->dtype != PL_F32 && (op->i == 0 || op->i == 1))
        return pl_trace_strong(b, what, id, PL_PRED, l);
    if (op->dtype != PL_PRED) {
        pl_d_not_pred(b->fn->diags, pl_trace_at(l), what, pl_dtype_name(op->dtype));
        return 0;
    }
    return id;
}

bool pl_trace_axis(pl_builder *b, const char *what, int32_t axis, int32_t rank, pl_loc l)
{
    if (axis >= 0 && axis < rank)
        return true;
    pl_d_axis_range(b->fn->diags, pl_trace_at(l), what, axis, rank);
    return false;
}

bool pl_trace_extents(pl_builder *b, const char *what, const pl_shape *s, pl_loc l)
{
    const int64_t most = (int64_t)1 << 24;
    int64_t n = 1;
    bool ok = s->rank >= 0 && s->rank <= PL_MAX_RANK;
    for (int i = 0; ok && i < s->rank; i++) {
        ok = s->d[i] > 0 && s->d[i] <= most && n * s->d[i] <= most;
        n *= ok ? s->d[i] : 1;
    }
    if (!ok) {
        pl_shape shown = *s;
        shown.rank = s->rank < 0 ? 0 : s->rank > PL_MAX_RANK ? PL_MAX_RANK : s->rank;
        pl_d_value_shape(b->fn->diags, pl_trace_at(l), what, pl_trace_shape(b, &shown));
    }
    return ok;
}

bool pl_trace_static(pl_builder *b, const char *what, uint32_t ref, pl_loc l)
{
    const struct pl_ref_info *r = pl_ir_ref(b->fn, ref);
    for (int i = 0; i < r->shape.rank; i++)
        if (r->shape.d[i] < 0) {
            pl_d_dynamic_extent(b->fn->diags, pl_trace_at(l), what, i);
            return false;
        }
    return true;
}

bool pl_trace_layout(pl_builder *b, const pl_layout *layout, pl_loc l)
{
    bool is_kind = (unsigned)layout->kind < PL_LAYOUT_COUNT;
    bool is_vec = layout->vec >= 0 && layout->vec <= 16 && (layout->vec & (layout->vec - 1)) == 0;
    if (!is_kind || !is_vec)
        pl_d_bad_choice(b->fn->diags, pl_trace_at(l), is_kind ? "the vec of a layout" : "a layout",
                        is_kind ? layout->vec : (int)layout->kind);
    return is_kind && is_vec;
}

bool pl_trace_is_top(pl_builder *b, const char *what, pl_loc l)
{
    const struct pl_block_info *block = &b->fn->blocks.data[b->block];
    if (block->kind == PL_BLOCK_BODY)
        return true;
    pl_d_alloc_inside(b->fn->diags, pl_trace_at(l), what, name_of_block(b, b->block),
                      block->loc.line);
    return false;
}

/* ---- blocks ---- */

bool pl_trace_can_open(pl_builder *b, pl_loc l)
{
    int depth = 0;
    for (uint32_t o = b->open; o != 0; o = b->opens.data[o].outer)
        depth++;
    if (depth >= PL_MAX_BLOCK_DEPTH)
        pl_d_nested_too_deep(b->fn->diags, pl_trace_at(l), PL_MAX_BLOCK_DEPTH);
    return depth < PL_MAX_BLOCK_DEPTH;
}

uint32_t pl_trace_open(pl_builder *b, enum pl_open_kind kind, enum pl_block_kind block_kind,
                       uint32_t owner, int which, pl_loc l)
{
    struct pl_fn *fn = b->fn;
    const struct pl_block_info parent = fn->blocks.data[b->block];
    struct pl_block_info *block = pl_vec_push(fn->arena, &fn->blocks);
    struct pl_open *open = pl_vec_push(fn->arena, &b->opens);
    if (block == NULL || open == NULL)
        return 0;
    uint32_t id = fn->blocks.n - 1;
    *block = (struct pl_block_info){.kind = block_kind,
                                    .parent = b->block,
                                    .owner = owner,
                                    .role_warpgroup = parent.role_warpgroup,
                                    .n_role_warpgroups = parent.n_role_warpgroups,
                                    .role_warp = parent.role_warp,
                                    .loc = l};
    *open = (struct pl_open){.kind = kind, .block = id, .outer = b->open, .loc = l};
    fn->ops.data[owner].regions[which] = id;
    b->block = id;
    b->open = b->opens.n - 1;
    b->last_if = 0;
    return id;
}

/* What a begin function gives back; a block that could not be opened is traced into its surroundings, silently. */
pl_block pl_trace_handle(pl_builder *b, uint32_t block, uint32_t iv)
{
    return (pl_block){.b = b, .iv = {iv}, .id = block == 0 ? 0 : b->open};
}

static uint32_t add_iv(pl_builder *b, uint32_t owner, pl_dtype t, bool is_index, pl_loc l)
{
    const pl_shape scalar = PL_SHAPE_SCALAR;
    uint32_t id;
    struct pl_op *op = pl_trace_add_val(b, PL_OP_IV, t, &scalar, l, &id);
    if (op != NULL) {
        op->owner = owner;
        op->is_index = is_index;
    }
    return id;
}

/* The bounds of a loop in one dtype: literals adapt, i32 indexes widen. Poison in any gives 0 in *t. */
static void unify_bounds(pl_builder *b, uint32_t v[3], pl_dtype *t, pl_loc l)
{
    *t = PL_DTYPE_NONE;
    bool is_wide = false;
    for (int i = 0; i < 3; i++) {
        const struct pl_op *op = &b->fn->ops.data[v[i]];
        if (!op->is_weak && *t == PL_DTYPE_NONE)
            *t = op->dtype;
        is_wide = is_wide || op->dtype == PL_I64;
    }
    if (*t == PL_DTYPE_NONE || (*t == PL_I32 && is_wide))
        *t = is_wide ? PL_I64 : b->index_dtype;
    for (int i = 0; i < 3; i++) {
        v[i] = pl_trace_strong(b, "the loop", v[i], *t, l);
        if (v[i] != 0 && b->fn->ops.data[v[i]].dtype == PL_I32 && *t == PL_I64 &&
            b->fn->ops.data[v[i]].is_index)
            v[i] = pl_cast_at(b, pl_trace_val(v[i]), PL_I64, l).id;
        if (v[i] != 0 && b->fn->ops.data[v[i]].dtype != *t) {
            pl_d_dtype_mismatch(b->fn->diags, pl_trace_at(l), "the loop", pl_dtype_name(*t),
                                pl_dtype_name(b->fn->ops.data[v[i]].dtype));
            v[i] = 0;
        }
    }
}

/* A bound for the loop: an integer of rank 0, weak literals still weak. */
static uint32_t loop_bound(pl_builder *b, pl_val v, pl_loc l)
{
    uint32_t id = pl_trace_use(b, v, l);
    if (id != 0 && b->fn->ops.data[id].is_weak && b->fn->ops.data[id].dtype != PL_F32)
        return id;
    return pl_trace_integer(b, "a loop bound", v, l);
}

pl_block pl_for_begin(pl_builder *b, pl_val lo, pl_val hi, pl_val step, pl_loc l)
{
    if (!pl_trace_can_open(b, l))
        return pl_trace_handle(b, 0, 0);
    uint32_t v[3] = {loop_bound(b, lo, l), loop_bound(b, hi, l), loop_bound(b, step, l)};
    pl_dtype t = b->index_dtype;
    bool is_index = true;
    if (v[0] != 0 && v[1] != 0 && v[2] != 0)
        unify_bounds(b, v, &t, l);
    else
        memset(v, 0, sizeof v); /* one is poison: the loop is */
    int64_t c;
    if (v[2] != 0 && pl_ir_is_const(b->fn, v[2], &c) && c <= 0)
        pl_d_loop_step(b->fn->diags, pl_trace_at(l), (long long)c);
    for (int i = 0; i < 3; i++)
        is_index = is_index && v[i] != 0 && b->fn->ops.data[v[i]].is_index;
    uint32_t id;
    struct pl_op *op = pl_trace_add(b, PL_OP_FOR, l, &id);
    if (op != NULL) {
        memcpy(op->args, v, sizeof v);
        op->n_args = 3;
    }
    uint32_t block = pl_trace_open(b, PL_OPEN_PLAIN, PL_BLOCK_FOR, id, 0, l);
    return pl_trace_handle(b, block, block == 0 ? 0 : add_iv(b, id, t, is_index, l));
}

pl_block pl_loop_begin(pl_builder *b, pl_loc l)
{
    if (!pl_trace_can_open(b, l))
        return pl_trace_handle(b, 0, 0);
    uint32_t id;
    pl_trace_add(b, PL_OP_LOOP, l, &id);
    return pl_trace_handle(b, pl_trace_open(b, PL_OPEN_PLAIN, PL_BLOCK_LOOP, id, 0, l), 0);
}

static void add_break(pl_builder *b, pl_val cond, bool when_false, pl_loc l)
{
    uint32_t o = b->open;
    while (o != 0 && b->fn->blocks.data[b->opens.data[o].block].kind != PL_BLOCK_FOR &&
           b->fn->blocks.data[b->opens.data[o].block].kind != PL_BLOCK_LOOP)
        o = b->opens.data[o].outer;
    if (o == 0) {
        pl_d_break_outside_loop(b->fn->diags, pl_trace_at(l));
        return;
    }
    if (b->opens.data[o].kind == PL_OPEN_TILES) {
        pl_d_break_in_tiles(b->fn->diags, pl_trace_at(l), b->opens.data[o].loc.line);
        return;
    }
    b->opens.data[o].has_break = true;
    uint32_t c = pl_trace_pred(b, "the condition of a break", cond, l), id;
    struct pl_op *op = c == 0 ? NULL : pl_trace_add(b, PL_OP_BREAK_IF, l, &id);
    if (op != NULL) {
        op->args[0] = c;
        op->n_args = 1;
        op->is_flag = when_false;
    }
}

void pl_break_if_at(pl_builder *b, pl_val cond, pl_loc l) { add_break(b, cond, false, l); }

int pl_break_unless_at(pl_builder *b, pl_val cond, pl_loc l)
{
    add_break(b, cond, true, l);
    return 1;
}

pl_block pl_if_begin(pl_builder *b, pl_val cond, pl_loc l)
{
    if (!pl_trace_can_open(b, l))
        return pl_trace_handle(b, 0, 0);
    uint32_t c = pl_trace_pred(b, "the condition of PL_IF", cond, l), id;
    struct pl_op *op = pl_trace_add(b, PL_OP_IF, l, &id);
    if (op != NULL) {
        op->args[0] = c;
        op->n_args = 1;
    }
    return pl_trace_handle(b, pl_trace_open(b, PL_OPEN_IF, PL_BLOCK_IF, id, 0, l), 0);
}

pl_block pl_else_begin(pl_builder *b, pl_loc l)
{
    if (!pl_trace_can_open(b, l))
        return pl_trace_handle(b, 0, 0);
    uint32_t owner = b->last_if;
    if (owner == 0) {
        pl_d_else_without_if(b->fn->diags, pl_trace_at(l));
        return pl_if_begin(b, pl_val_none(), l); /* keeps the nesting right for what follows */
    }
    return pl_trace_handle(b, pl_trace_open(b, PL_OPEN_PLAIN, PL_BLOCK_ELSE, owner, 1, l), 0);
}

/* n: warpgroups from the first on; the op says so in its mask when there are more than one. */
static pl_block open_role(pl_builder *b, int32_t warpgroup, int32_t n, int32_t warp, pl_loc l)
{
    if (!pl_trace_can_open(b, l))
        return pl_trace_handle(b, 0, 0);
    uint32_t id;
    struct pl_op *op = pl_trace_add(b, PL_OP_ROLE, l, &id);
    if (op != NULL) {
        op->n = warpgroup;
        op->axis = warp;
        op->mask = n > 1 ? (uint32_t)n : 0;
    }
    uint32_t block = pl_trace_open(b, PL_OPEN_PLAIN, PL_BLOCK_ROLE, id, 0, l);
    if (block != 0) {
        b->fn->blocks.data[block].role_warpgroup = warpgroup;
        b->fn->blocks.data[block].n_role_warpgroups = n;
        b->fn->blocks.data[block].role_warp = warp;
    }
    return pl_trace_handle(b, block, 0);
}

pl_block pl_role_begin(pl_builder *b, int32_t warpgroup, int32_t warp, pl_loc l)
{
    return open_role(b, warpgroup, 1, warp, l);
}

pl_block pl_roles_begin(pl_builder *b, int32_t first, int32_t n, pl_loc l)
{
    return open_role(b, first, n < 1 ? 1 : n, -1, l);
}

static void close_innermost(pl_builder *b)
{
    struct pl_open *o = &b->opens.data[b->open];
    const struct pl_block_info *block = &b->fn->blocks.data[o->block];
    if (block->kind == PL_BLOCK_LOOP && !o->has_break)
        pl_d_loop_never_ends(b->fn->diags, pl_trace_at(o->loc));
    o->is_closed = true;
    b->block = block->parent;
    b->last_if = o->kind == PL_OPEN_IF ? block->owner : 0;
    b->open = o->outer;
}

void pl_block_end(pl_block *k)
{
    pl_builder *b = k->b;
    if (k->id == 0 || k->id >= b->opens.n)
        return;
    if (b->opens.data[k->id].is_closed) {
        const struct pl_open *o = &b->opens.data[k->id];
        if (!o->was_left) /* that is reported already */
            pl_d_block_ended_twice(b->fn->diags, pl_trace_at(o->loc), name_of_block(b, o->block));
        return;
    }
    while (b->open !=
           k->id) { /* a return or goto left an inner block open: report it, close it, go on */
        struct pl_open *inner = &b->opens.data[b->open];
        pl_d_block_order(b->fn->diags, pl_trace_at(b->opens.data[k->id].loc),
                         name_of_block(b, inner->block), inner->loc.line);
        inner->was_left = true;
        close_innermost(b);
    }
    struct pl_open o = b->opens.data[k->id];
    switch (o.kind) {
    case PL_OPEN_PRODUCE: pl_trace_end_produce(b, &o); break;
    case PL_OPEN_CONSUME: pl_trace_end_consume(b, &o); break;
    case PL_OPEN_PIPELINE: pl_trace_end_pipeline(b, &o); break;
    case PL_OPEN_TILES: pl_trace_end_tiles(b, &o); break;
    case PL_OPEN_IF:
    case PL_OPEN_PLAIN: break;
    }
    close_innermost(b);
}

/* ---- running a body ---- */

static pl_dtype index_dtype(const struct pl_trace_request *r)
{
    for (size_t i = 0; i < r->n_args; i++)
        if (r->args[i].is_present && !r->args[i].is_scalar && (r->args[i].facts & PL_FACT_I32) == 0)
            return PL_I64;
    return PL_I32;
}

bool pl_builder_init(struct pl_builder *b, struct pl_fn *fn)
{
    *b = (struct pl_builder){.fn = fn, .block = 1, .index_dtype = index_dtype(&fn->request)};
    if (pl_vec_push(fn->arena, &b->opens) == NULL)
        return false;
    pl_trace_params(b);
    return true;
}

void pl_builder_finish(struct pl_builder *b)
{
    for (; b->open != 0; close_innermost(b))
        pl_d_block_not_closed(b->fn->diags, pl_trace_at(b->opens.data[b->open].loc),
                              name_of_block(b, b->opens.data[b->open].block));
    pl_ir_levels(b->fn);
}

bool pl_trace_run(struct pl_fn *fn)
{
    struct pl_builder b;
    if (!pl_builder_init(&b, fn))
        return false;
    fn->request.kernel->body(&b, fn->request.params);
    pl_builder_finish(&b);
    return fn->diags->n_errors == 0 && !pl_arena_is_exhausted(fn->arena);
}

const char *pl_builder_status_name(const pl_builder *b)
{
    if (pl_arena_is_exhausted(b->fn->arena))
        return pl_status_name(PL_E_NOMEM);
    return pl_status_name(b->fn->diags->n_errors == 0 ? PL_OK : PL_E_INVALID);
}
