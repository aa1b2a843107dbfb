/*
 * The layout walk. Array values that meet elementwise share one layout, so values and variables fall into groups (union-find,
 * one forward pass); each group takes the layout that one of its members fixes, else STRIDED with the widest chunk that an
 * access of the group can use in one instruction. A backward pass finds loads of variables that need no copy.
 *
 * Requirement on new ops: an op whose array result is elementwise in its array operands joins them here.
 */
#include "src/plan/layout.h"

#include "base/debug.h"
#include "src/plan/memory/smem.h"
#include "src/plan/scalar.h"
#include "src/plan/tensor/frag.h"
#include "src/plan/tensor/tmem.h"

#include <string.h>

struct group {
    uint32_t parent;
    uint8_t frag;       /* enum pl_frag: goes before every wish of a vec */
    uint8_t reduced;    /* 1 << axis: what the fragment leaves without it */
    bool is_set;        /* frag is not only a wish */
    bool is_single;     /* acts on memory an element at a time: no element is in two threads */
    uint16_t fixed_vec; /* of strided chunks; 0: free */
    uint16_t best_vec;
    uint16_t least_vec; /* that every member can use: of an asynchronous store */
};

struct walk {
    struct pl_lower *l;
    const struct pl_fn *fn;
    struct group *groups; /* ops, then arrays */
    uint32_t n_ops;
};

static uint32_t find(struct walk *w, uint32_t x)
{
    while (w->groups[x].parent != x) {
        w->groups[x].parent = w->groups[w->groups[x].parent].parent;
        x = w->groups[x].parent;
    }
    return x;
}

static bool is_fixed(const struct group *g) { return g->is_set || g->fixed_vec != 0; }

static void join(struct walk *w, uint32_t x, uint32_t y)
{
    uint32_t a = find(w, x), b = find(w, y);
    if (a == b)
        return;
    if (a > b) {
        uint32_t swap = a;
        a = b;
        b = swap;
    }
    struct group *ga = &w->groups[a], *gb = &w->groups[b];
    const bool is_same =
        ga->frag == gb->frag && ga->reduced == gb->reduced && ga->fixed_vec == gb->fixed_vec;
    if (is_fixed(ga) && is_fixed(gb) && !is_same)
        return; /* where they meet the operand is converted */
    gb->parent = a;
    if (gb->best_vec > ga->best_vec)
        ga->best_vec = gb->best_vec;
    if (gb->least_vec > ga->least_vec)
        ga->least_vec = gb->least_vec;
    ga->is_single |= gb->is_single;
    if (is_fixed(gb) || (!is_fixed(ga) && ga->frag == PL_FRAG_STRIDED)) {
        ga->frag = gb->frag;
        ga->reduced = gb->reduced;
        ga->is_set = gb->is_set;
        ga->fixed_vec = gb->fixed_vec;
    }
}

static uint32_t pow2_divisor(int64_t v, uint32_t limit)
{
    uint32_t p = 1;
    while (p < limit && v % (2 * (int64_t)p) == 0)
        p *= 2;
    return p;
}

static uint32_t min_u32(uint32_t x, uint32_t y) { return x < y ? x : y; }

/* ---- how wide an access can be ---- */

static uint32_t global_align_bytes(const struct pl_lower *l, const struct pl_ref_info *r,
                                   const struct pl_array *a, int axis)
{
    const uint32_t es = pl_elem_bytes(a->dtype);
    const bool is_aligned = pl_array_has_fact(l, a, PL_FACT_ALIGN16);
    uint32_t bytes = is_aligned ? 16 : es;
    const int last = a->shape.rank - 1;
    if (!pl_array_has_fact(l, a, PL_FACT_UNIT_STRIDE) && !pl_array_has_fact(l, a, PL_FACT_DENSE))
        return es;
    if (r->axis_of[axis] != last)
        return es;
    int64_t m = pl_affine_multiple(l->fn, &r->offset[last]);
    return min_u32(bytes, (uint32_t)(m > 16 ? 16 : m) * es);
}

static uint32_t shared_align_bytes(const struct pl_lower *l, const struct pl_ref_info *r,
                                   const struct pl_array *a, int axis)
{
    const struct pl_ref_info *base = pl_ir_ref(l->fn, r->base);
    const uint32_t es = pl_elem_bytes(a->dtype);
    const int last = base->shape.rank - 1;
    const struct pl_smem_place *p = &l->places[r->array];
    if (r->axis_of[axis] != last)
        return es;
    if (base->view == PL_VIEW_RESHAPE &&
        (p->swizzle != PL_PLAN_SWIZZLE_NONE || p->panel_elems != p->n_cols) &&
        base->shape.d[last] != a->shape.d[a->shape.rank - 1])
        return es;
    uint32_t bytes =
        pow2_divisor(base->view == PL_VIEW_RESHAPE ? base->shape.d[last] * es : p->row_bytes, 16);
    int64_t m = pl_affine_multiple(l->fn, &r->offset[last]);
    return min_u32(bytes, (uint32_t)(m > 16 ? 16 : m) * es);
}

uint32_t pl_access_run(const struct pl_lower *l, uint32_t ref, int axis)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, ref);
    const struct pl_ref_info *base = pl_ir_ref(l->fn, r->base);
    const struct pl_array *a = &l->fn->arrays.data[r->array];
    const uint32_t es = pl_elem_bytes(a->dtype);
    if (r->shape.rank == 0)
        return 1;
    uint32_t bytes = es;
    if (r->space == PL_SPACE_GMEM)
        bytes = base->view == PL_VIEW_RESHAPE ? es : global_align_bytes(l, r, a, axis);
    else if (r->space == PL_SPACE_SMEM)
        bytes = shared_align_bytes(l, r, a, axis);
    return pow2_divisor(r->shape.d[axis], bytes < es ? 1 : bytes / es);
}

uint32_t pl_access_vec(const struct pl_lower *l, uint32_t ref)
{
    return pl_access_run(l, ref, pl_ir_ref(l->fn, ref)->shape.rank - 1);
}

uint32_t pl_send_min_vec(pl_dtype t)
{
    const uint32_t es = pl_elem_bytes(t);
    return es >= 4 ? 1 : 4 / es;
}

struct pl_lay pl_lay_strided(int64_t n_elems, uint32_t vec, uint32_t n_threads)
{
    const int64_t per_round = (int64_t)vec * n_threads;
    struct pl_lay lay = {.vec = (uint16_t)vec,
                         .n_chunks = (uint32_t)((n_elems + per_round - 1) / per_round)};
    lay.is_ragged = n_elems % per_round != 0;
    return lay;
}

/* ---- groups ---- */

static bool is_array_val(const struct walk *w, uint32_t val)
{
    return val != 0 && w->fn->ops.data[val].shape.rank > 0;
}

static void offer(struct walk *w, uint32_t node, uint32_t vec)
{
    struct group *g = &w->groups[find(w, node)];
    if (vec > g->best_vec)
        g->best_vec = (uint16_t)vec;
}

/* What is fixed first counts: a second layout is met by a conversion. */
static void fix(struct walk *w, uint32_t node, pl_layout layout, pl_dtype t)
{
    struct group *g = &w->groups[find(w, node)];
    const bool is_strided = layout.kind == PL_LAYOUT_STRIDED && layout.vec > 0;
    const enum pl_frag frag = pl_frag_of(layout.kind, pl_dtype_bits(t));
    if (is_fixed(g) || (!is_strided && frag == PL_FRAG_STRIDED))
        return;
    g->frag = (uint8_t)frag;
    g->reduced = (uint8_t)layout.reduced_axes;
    g->is_set = !is_strided;
    g->fixed_vec = (uint16_t)(is_strided ? layout.vec : 0);
}

static void fix_kind(struct walk *w, uint32_t val, pl_layout_kind kind)
{
    if (is_array_val(w, val))
        fix(w, val, pl_layout_of(kind), w->fn->ops.data[val].dtype);
}

/* A fragment, or what it leaves, that saves a conversion: for a group that has none. */
static void wish_frag(struct walk *w, uint32_t node, enum pl_frag frag, uint32_t reduced)
{
    struct group *g = &w->groups[find(w, node)];
    if (is_fixed(g) || g->frag != PL_FRAG_STRIDED)
        return;
    g->frag = (uint8_t)frag;
    g->reduced = (uint8_t)reduced;
}

/*
 * What a fragment is reduced to, and what is spread over one, has the layout that is left of it: then neither moves an element to another
 * warp. Not so columns of which every thread would hold all, nor those that a reduction over the warps makes anyway.
 */
static void wish_left(struct walk *w, uint32_t id)
{
    const struct pl_op *op = &w->fn->ops.data[id];
    const bool is_reduce = op->code == PL_OP_REDUCE;
    if ((!is_reduce && op->code != PL_OP_BROADCAST) || !is_array_val(w, op->args[0]) ||
        !is_array_val(w, id))
        return;
    const uint32_t wide = is_reduce ? op->args[0] : id, left = is_reduce ? id : op->args[0],
                   reduced = 1u << op->axis;
    const struct group *g = &w->groups[find(w, wide)];
    const enum pl_frag frag = (enum pl_frag)g->frag;
    if (g->reduced != 0 || !pl_frag_fits(frag, &w->fn->ops.data[wide].shape))
        return;
    const struct pl_lay lay = pl_lay_reduced(frag, reduced, &w->fn->ops.data[left].shape);
    const enum pl_reduce_way way = pl_reduce_way(frag, &lay);
    if (way == PL_REDUCE_IN_LANES || (way == PL_REDUCE_OVER_WARPS && !is_reduce))
        wish_frag(w, left, frag, reduced);
}

static void mark_single(struct walk *w, uint32_t node)
{
    w->groups[find(w, node)].is_single = true;
}

/* All array operands, with each other. */
static void join_all(struct walk *w, const struct pl_op *op)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < op->n_args; i++) {
        if (!is_array_val(w, op->args[i]))
            continue;
        if (first != 0)
            join(w, first, op->args[i]);
        first = op->args[i];
    }
}

static void visit(struct walk *w, uint32_t id)
{
    const struct pl_op *op = &w->fn->ops.data[id];
    const bool is_regs = op->refs[0] != 0 && w->fn->refs.data[op->refs[0]].space == PL_SPACE_REGS;
    const uint32_t var = is_regs ? w->n_ops + w->fn->refs.data[op->refs[0]].array : 0;
    switch ((int)op->code) { /* the others have no array result, or one of their own */
    case PL_OP_UNARY:
    case PL_OP_BINARY:
    case PL_OP_FMA:
    case PL_OP_CAST:
    case PL_OP_BITCAST:
    case PL_OP_SELECT:
        for (uint32_t i = 0; i < op->n_args; i++)
            if (is_array_val(w, op->args[i]) && op->shape.rank > 0)
                join(w, id, op->args[i]);
        break;
    case PL_OP_INLINE_PTX:
        join_all(w, op);
        for (uint32_t i = 0; i < op->n_args && op->mask != PL_EFFECT_NONE; i++)
            if (is_array_val(w, op->args[i]))
                mark_single(w, op->args[i]);
        break;
    case PL_OP_BROADCAST: /* one more axis, of one element, before the last */
        if (op->shape.d[op->axis] == 1 && op->axis + 1 < op->shape.rank &&
            is_array_val(w, op->args[0]))
            join(w, id, op->args[0]);
        break;
    case PL_OP_PTX_OUT:
        for (uint32_t i = 0; i < w->fn->ops.data[op->owner].n_args; i++)
            if (is_array_val(w, w->fn->ops.data[op->owner].args[i]))
                join(w, id, w->fn->ops.data[op->owner].args[i]);
        break;
    case PL_OP_LOAD:
        if (op->shape.rank == 0)
            break;
        if (is_regs)
            join(w, id, var);
        else
            offer(w, id, pl_access_vec(w->l, op->refs[0]));
        fix(w, id, op->layout, op->dtype);
        break;
    case PL_OP_SWAP:
        if (is_array_val(w, id) && is_regs)
            join(w, id, var);
        if (is_array_val(w, id) && is_array_val(w, op->args[0]))
            join(w, id, op->args[0]);
        if (is_array_val(w, id) && !is_regs) {
            offer(w, id, pl_access_vec(w->l, op->refs[0]));
            mark_single(w, id);
        }
        break;
    case PL_OP_STORE:
        if (is_array_val(w, op->args[0])) {
            if (is_regs)
                join(w, op->args[0], var);
            else
                offer(w, op->args[0], pl_access_vec(w->l, op->refs[0]));
        }
        break;
    case PL_OP_ATOMIC:
        for (uint32_t i = 0; i < op->n_args; i++)
            if (is_array_val(w, op->args[i]) && is_array_val(w, id))
                join(w, id, op->args[i]);
        join_all(w, op);
        if (op->is_flag)
            mark_single(w, id);
        break;
    case PL_OP_LOAD_TMEM: wish_frag(w, id, pl_tmem_frag(&op->shape), 0); break;
    case PL_OP_STORE_TMEM:
        if (is_array_val(w, op->args[0]))
            wish_frag(w, op->args[0], pl_tmem_frag(&w->fn->refs.data[op->refs[0]].shape), 0);
        break;
    case PL_OP_MMA:
        fix_kind(w, op->args[0], PL_LAYOUT_MMA_A);
        fix_kind(w, op->args[1], PL_LAYOUT_MMA_B);
        fix_kind(w, op->args[2], PL_LAYOUT_MMA_ACC);
        fix_kind(w, id, PL_LAYOUT_MMA_ACC);
        break;
    case PL_OP_WGMMA_VAL: fix_kind(w, op->args[0], PL_LAYOUT_MMA_A); break;
    case PL_OP_ACC_LOAD: fix_kind(w, id, PL_LAYOUT_WGMMA); break;
    case PL_OP_ACC_INIT: fix_kind(w, op->args[0], PL_LAYOUT_WGMMA); break;
    case PL_OP_ASYNC_STORE_SMEM:
        if (is_array_val(w, op->args[0])) {
            struct group *g = &w->groups[find(w, op->args[0])];
            const uint32_t least = pl_send_min_vec(w->fn->ops.data[op->args[0]].dtype);
            offer(w, op->args[0], pl_access_vec(w->l, op->refs[0]));
            if (least > g->least_vec && pl_access_vec(w->l, op->refs[0]) >= least)
                g->least_vec = (uint16_t)least;
        }
        break;
    case PL_OP_ARRAY:
        if (is_regs) {
            const struct pl_array *a = &w->fn->arrays.data[w->fn->refs.data[op->refs[0]].array];
            fix(w, var, a->layout, a->dtype);
            if (is_array_val(w, op->args[0]))
                join(w, op->args[0], var);
        }
        break;
    case PL_OP_LAYOUT_CAST: fix(w, id, op->layout, op->dtype); break;
    default: break;
    }
}

static struct pl_lay lay_of(struct walk *w, uint32_t node, const pl_shape *s)
{
    const struct group *g = &w->groups[find(w, node)];
    const int64_t n = pl_shape_n_elems(s);
    struct pl_lay lay = {.frag = PL_FRAG_STRIDED};
    if (g->reduced == 0 && pl_frag_fits((enum pl_frag)g->frag, s))
        lay = pl_lay_frag((enum pl_frag)g->frag, s);
    else if (g->reduced != 0 && pl_reduced_fits((enum pl_frag)g->frag, g->reduced, s))
        lay = pl_lay_reduced((enum pl_frag)g->frag, g->reduced, s);
    if (lay.vec != 0 && !(g->is_single && pl_lay_has_peers(&lay)))
        return lay;
    const uint32_t limit = pow2_divisor(s->d[s->rank - 1], 16);
    uint32_t vec = g->fixed_vec != 0 ? g->fixed_vec : g->best_vec;
    if (g->fixed_vec == 0)
        while (vec > 1 && vec > g->least_vec && (int64_t)vec * 128 > n)
            vec /= 2; /* every thread has work */
    return pl_lay_strided(n, min_u32(vec < 1 ? 1 : vec, limit), 128);
}

/* ---- loads of variables ---- */

static uint32_t region_end(const struct pl_fn *fn, uint32_t id)
{
    while (id != 0) {
        const struct pl_op *op = &fn->ops.data[id];
        if (op->next != 0)
            return op->next - 1;
        id = fn->blocks.data[op->block].owner;
    }
    return fn->ops.n - 1;
}

/* The last op that may read `val` when `user` does: the end of the outermost loop around the user that does not contain val. */
static uint32_t use_end(const struct pl_fn *fn, uint32_t val, uint32_t user)
{
    uint32_t end = user;
    for (uint32_t b = fn->ops.data[user].block; b != 0 && b != fn->ops.data[val].block;
         b = fn->blocks.data[b].parent)
        if (fn->blocks.data[b].kind == PL_BLOCK_FOR || fn->blocks.data[b].kind == PL_BLOCK_LOOP)
            end = region_end(fn, fn->blocks.data[b].owner);
    return end;
}

/* Its result may be made of the very registers of its operand. */
static bool passes_on(const struct pl_fn *fn, const struct pl_op *op)
{
    return op->code == PL_OP_BROADCAST || op->code == PL_OP_LAYOUT_CAST ||
           (op->code == PL_OP_REDUCE && fn->ops.data[op->args[0]].shape.d[op->axis] == 1);
}

/* Variables and accumulators: registers of which a value may be a view, until they are written again. */
static bool reads_variable(const struct pl_op *op)
{
    return op->code == PL_OP_LOAD || op->code == PL_OP_ACC_LOAD;
}

static bool writes_variable(const struct pl_op *op)
{
    return op->code == PL_OP_STORE || op->code == PL_OP_SWAP || op->code == PL_OP_WGMMA ||
           op->code == PL_OP_WGMMA_VAL || op->code == PL_OP_ACC_INIT;
}

static bool find_copies(struct walk *w)
{
    const struct pl_fn *fn = w->fn;
    uint32_t *last_use = pl_arena_array(w->l->arena, fn->ops.n, sizeof *last_use);
    uint32_t *next_store = pl_arena_array(w->l->arena, fn->arrays.n, sizeof *next_store);
    if (last_use == NULL || next_store == NULL)
        return false;
    for (uint32_t id = fn->ops.n - 1; id >= 1; id--) /* users before what they use */
        for (uint32_t i = 0; i < fn->ops.data[id].n_args; i++) {
            const uint32_t val = fn->ops.data[id].args[i];
            const struct pl_op *op = &fn->ops.data[val];
            if (val == 0 || op->shape.rank == 0 || (!reads_variable(op) && !passes_on(fn, op)))
                continue;
            uint32_t end = use_end(fn, val, id);
            if (passes_on(fn, &fn->ops.data[id]) && last_use[id] > end)
                end = last_use[id];
            if (end > last_use[val])
                last_use[val] = end;
        }
    for (uint32_t id = fn->ops.n - 1; id >= 1; id--) {
        const struct pl_op *op = &fn->ops.data[id];
        if (!reads_variable(op) && !writes_variable(op))
            continue;
        uint32_t array = fn->refs.data[op->refs[0]].array;
        if (reads_variable(op))
            w->l->is_copied[id] =
                op->shape.rank == 0 || (next_store[array] != 0 && next_store[array] < last_use[id]);
        else
            next_store[array] = id;
    }
    return true;
}

void pl_layout_walk(struct pl_lower *l)
{
    struct walk w = {.l = l, .fn = l->fn, .n_ops = l->fn->ops.n};
    const uint32_t n = l->fn->ops.n + l->fn->arrays.n;
    w.groups = pl_arena_array(l->arena, n, sizeof *w.groups);
    if (w.groups == NULL)
        return;
    for (uint32_t i = 0; i < n; i++)
        w.groups[i] = (struct group){.parent = i, .best_vec = 1};
    for (uint32_t id = 1; id < l->fn->ops.n; id++)
        visit(&w, id);
    for (uint32_t id = 1; id < l->fn->ops.n; id++)
        wish_left(&w, id);
    for (uint32_t id = 1; id < l->fn->ops.n; id++)
        if (is_array_val(&w, id))
            l->lays[id] = lay_of(&w, id, &l->fn->ops.data[id].shape);
    for (uint32_t a = 1; a < l->fn->arrays.n; a++)
        if (l->fn->arrays.data[a].space == PL_SPACE_REGS && l->fn->arrays.data[a].shape.rank > 0)
            l->var_lays[a] = lay_of(&w, w.n_ops + a, &l->fn->arrays.data[a].shape);
    find_copies(&w);
}
