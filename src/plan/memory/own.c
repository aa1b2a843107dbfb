/*
 * Copies in whose data each thread reads back itself.
 *
 * A copy by elements puts elements into shared memory by plain stores. The threads of its unit then meet before its leader arrives, and
 * fence what they stored against asynchronous accesses, because anybody who waits on the barrier may read all of it. Neither is
 * needed where this is proved from the whole trace:
 *
 *   one hand    the memory is touched by this copy and by loads alone: nothing asynchronous but the copy itself, no other view of it
 *   one thread  the loads lie in chunks as the copy does, of the same part of the array, so an element is read by the thread that
 *               stored it, which sees its own stores in program order
 *   one unit    they are executed by the unit of the copy; where each warpgroup executes them, a warpgroup has planes of its own:
 *               those whose index is its number, modulo the number of warpgroups
 *   one time    where the copy may also go asynchronously, no plane is filled twice: else the engine could overwrite what threads stored
 *
 * The arrival still says that the data are there: it is the leader's, who has stored its own part.
 */
#include "src/plan/memory/copy.h"

#include "src/plan/scalar.h"

enum { CHUNK_BYTES = 16 };

/* ---- which warpgroup's an index is ---- */

/* `val` modulo the number of warpgroups, a power of two: the warpgroup's number times n_own, plus rest. */
struct residue {
    bool is_known;
    uint32_t n_own, rest;
};

static struct residue residue_of(const struct pl_lower *l, uint32_t val)
{
    const struct pl_op *op = pl_ir_op(l->fn, val);
    const uint32_t n = (uint32_t)l->fn->n_warpgroups;
    int64_t c;
    if (pl_ir_is_const(l->fn, val, &c))
        return (struct residue){true, 0, (uint32_t)c % n};
    if (op->code == PL_OP_WARPGROUP_ID)
        return (struct residue){true, 1, 0};
    if (op->code == PL_OP_CAST) /* keeps the lowest bits */
        return pl_dtype_kind_of(pl_ir_op(l->fn, op->args[0])->dtype) == PL_KIND_FLOAT
                   ? (struct residue){0}
                   : residue_of(l, op->args[0]);
    const struct pl_op *loop = op->code == PL_OP_IV ? pl_ir_op(l->fn, op->owner) : NULL;
    const bool is_in_turn = loop != NULL && op->n == 0 && loop->code == PL_OP_FOR &&
                            pl_ir_is_const(l->fn, loop->args[2], &c) && (uint32_t)c % n == 0;
    return is_in_turn ? residue_of(l, loop->args[0]) : (struct residue){0};
}

/* The plane is one of the executing warpgroup's own. */
static bool is_own_plane(const struct pl_lower *l, const struct pl_affine *a)
{
    const uint32_t n = (uint32_t)l->fn->n_warpgroups;
    uint32_t n_own = 0, rest = (uint32_t)a->konst;
    for (int i = 0; i < a->n_terms; i++) {
        const struct residue r = residue_of(l, a->terms[i].val);
        if (!r.is_known)
            return false;
        n_own += r.n_own * (uint32_t)a->terms[i].scale;
        rest += r.rest * (uint32_t)a->terms[i].scale;
    }
    return n_own % n == 1 && rest % n == 0;
}

/* An axis that the view has not, so that an index on it chooses a plane. */
static bool is_dropped(const struct pl_ref_info *r, int base_axis)
{
    for (int i = 0; i < r->shape.rank; i++)
        if (r->axis_of[i] == base_axis)
            return false;
    return true;
}

/* The axis whose index tells the warpgroup; -1: none, and all planes belong to all. */
static int own_axis(const struct pl_lower *l, const struct pl_ref_info *r)
{
    const uint32_t n = (uint32_t)l->fn->n_warpgroups;
    for (int j = 0; (n & (n - 1)) == 0 && j < pl_ir_ref(l->fn, r->base)->shape.rank; j++)
        if (is_dropped(r, j) && is_own_plane(l, &r->offset[j]))
            return j;
    return -1;
}

/* ---- one thread, one unit ---- */

/* The same part of each plane, along the same axes. */
static bool is_same_part(const struct pl_lower *l, const struct pl_ref_info *x,
                         const struct pl_ref_info *y)
{
    if (x->base != y->base || x->peer != 0 || y->peer != 0 || !pl_shape_equal(&x->shape, &y->shape))
        return false;
    for (int i = 0; i < x->shape.rank; i++) {
        const int j = x->axis_of[i];
        int64_t at, other;
        if (j != y->axis_of[i] || !pl_affine_is_const(&x->offset[j], &at) ||
            !pl_affine_is_const(&y->offset[j], &other) || at != other)
            return false;
    }
    return pl_ir_ref(l->fn, x->base)->view == PL_VIEW_ROOT;
}

static bool is_same_role(const struct pl_lower *l, const struct pl_op *x, const struct pl_op *y)
{
    const struct pl_block_info *a = &l->fn->blocks.data[x->block],
                               *b = &l->fn->blocks.data[y->block];
    return a->role_warpgroup == b->role_warpgroup && a->role_warp == b->role_warp &&
           a->n_role_warpgroups == b->n_role_warpgroups;
}

/* A load by the threads that store, each of what it stored: elements of a chunk, or 0. */
static uint32_t own_load_vec(const struct pl_copy *c, uint32_t id, int axis)
{
    const struct pl_lower *l = c->l;
    const struct pl_op *op = pl_ir_op(l->fn, id);
    const struct pl_lay *lay = &l->lays[id];
    const struct pl_ref_info *r = pl_ir_ref(l->fn, op->refs[0]);
    const bool is_own = op->code == PL_OP_LOAD && op->shape.rank != 0 && !lay->is_splat &&
                        lay->frag == PL_FRAG_STRIDED && is_same_part(l, r, c->s) &&
                        is_same_role(l, op, c->op) &&
                        (axis < 0 || is_own_plane(l, &r->offset[axis]));
    return is_own && lay->vec * c->es <= CHUNK_BYTES ? lay->vec : 0;
}

/* ---- one hand ---- */

static bool touches(const struct pl_lower *l, const struct pl_op *op, uint32_t array)
{
    for (int i = 0; i < PL_OP_MAX_REFS; i++)
        if (op->refs[i] != 0 && pl_ir_ref(l->fn, op->refs[i])->array == array)
            return op->code != PL_OP_ARRAY && op->code != PL_OP_VIEW;
    return op->code == PL_OP_INLINE_PTX && op->mask != PL_EFFECT_NONE; /* whatever it may touch */
}

static bool has_aliases(const struct pl_lower *l, uint32_t array)
{
    bool has = l->fn->arrays.data[array].alias_of != 0;
    for (uint32_t i = 1; i < l->fn->arrays.n; i++)
        has |= l->fn->arrays.data[i].alias_of == array;
    return has;
}

/* ---- one time ---- */

static uint32_t uncast(const struct pl_fn *fn, uint32_t val)
{
    while (pl_ir_op(fn, val)->code == PL_OP_CAST)
        val = pl_ir_op(fn, val)->args[0];
    return val;
}

/* Rounds of the loop have planes of their own: an index is the loop's variable, times a constant, plus what stays the same. */
static bool has_plane_each_round(const struct pl_copy *c, uint32_t loop, uint32_t body)
{
    const struct pl_fn *fn = c->l->fn;
    const struct pl_ref_info *r = c->s;
    int64_t step;
    if (pl_ir_op(fn, loop)->code != PL_OP_FOR ||
        !pl_ir_is_const(fn, pl_ir_op(fn, loop)->args[2], &step) || step == 0)
        return false;
    for (int j = 0; j < pl_ir_ref(fn, r->base)->shape.rank; j++) {
        const struct pl_affine *a = &r->offset[j];
        bool has_round = false, is_steady = is_dropped(r, j);
        for (int i = 0; i < a->n_terms; i++) {
            const struct pl_op *t = pl_ir_op(fn, uncast(fn, a->terms[i].val));
            if (t->code == PL_OP_IV && t->owner == loop && t->n == 0)
                has_round = a->terms[i].scale != 0 && !has_round;
            else
                is_steady = is_steady && !pl_ir_block_is_in(fn, t->block, body);
        }
        if (has_round && is_steady)
            return true;
    }
    return false;
}

static bool fills_once(const struct pl_copy *c)
{
    const struct pl_fn *fn = c->l->fn;
    int n_loops = 0;
    for (uint32_t block = c->op->block; block != 0; block = fn->blocks.data[block].parent) {
        const struct pl_block_info *b = &fn->blocks.data[block];
        if (b->kind != PL_BLOCK_FOR && b->kind != PL_BLOCK_LOOP)
            continue;
        if (n_loops++ != 0 || !has_plane_each_round(c, b->owner, block))
            return false;
    }
    return true;
}

uint32_t pl_copy_own_vec(const struct pl_copy *c, bool may_be_async)
{
    const struct pl_lower *l = c->l;
    const uint32_t array = c->s->array;
    const struct pl_block_info *b = &l->fn->blocks.data[c->op->block];
    const bool is_one_unit = l->unit_threads == 128 && b->role_warp < 0;
    const bool has_many =
        b->role_warpgroup < 0 ? l->fn->n_warpgroups > 1 : b->n_role_warpgroups > 1;
    const int axis = has_many ? own_axis(l, c->s) : -1;
    uint32_t vec = 0;
    if (!c->is_in || !is_one_unit || (has_many && axis < 0) || has_aliases(l, array) ||
        !is_same_part(l, c->s, c->s) || (may_be_async && !fills_once(c)))
        return 0;
    for (uint32_t id = 1; id < l->fn->ops.n; id++) {
        const struct pl_op *op = pl_ir_op(l->fn, id);
        if (op == c->op || !touches(l, op, array))
            continue;
        const uint32_t v = own_load_vec(c, id, axis);
        if (v == 0 || (vec != 0 && v != vec))
            return 0;
        vec = v;
    }
    return vec;
}
