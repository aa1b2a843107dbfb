/* Places: what a body may ask about its launch, parameters, allocations, and views of them. */
#include "src/ir/trace.h"

#include "base/debug.h"

#include <string.h>

/* ---- the launch ---- */

int32_t pl_arch(pl_builder *b) { return b->fn->request.target->arch; }
bool pl_has_tma(pl_builder *b) { return (b->fn->request.target->features & PL_F_TMA) != 0; }

static const struct pl_arg_facts *arg_of(pl_builder *b, int32_t i)
{
    return i >= 0 && (size_t)i < b->fn->request.n_args ? &b->fn->request.args[i] : NULL;
}

bool pl_has_arg(pl_builder *b, int32_t i)
{
    const struct pl_arg_facts *a = arg_of(b, i);
    return a != NULL && a->is_present;
}

bool pl_has_fact(pl_builder *b, int32_t i, pl_fact fact)
{
    return pl_has_arg(b, i) && (arg_of(b, i)->facts & fact) == (pl_fact_set)fact;
}
int32_t pl_arg_rank(pl_builder *b, int32_t i) { return pl_has_arg(b, i) ? arg_of(b, i)->rank : 0; }

void pl_block_warpgroups_at(pl_builder *b, int32_t n, pl_loc l)
{
    if (b->has_ops || b->has_warpgroups)
        pl_d_block_shape_late(b->fn->diags, pl_trace_at(l), "pl_block_warpgroups");
    else if (n < 1 || n > 8)
        pl_d_block_shape_range(b->fn->diags, pl_trace_at(l), "warpgroups of a block", n, 8);
    else
        b->fn->n_warpgroups = n;
    b->has_warpgroups = true;
}

void pl_block_cluster_at(pl_builder *b, int32_t x, int32_t y, int32_t z, pl_loc l)
{
    int32_t most = b->fn->request.target->max_cluster;
    bool in_range =
        x >= 1 && y >= 1 && z >= 1 && x <= most && y <= most && z <= most && x * y * z <= most;
    if (b->has_ops || b->has_cluster) {
        pl_d_block_shape_late(b->fn->diags, pl_trace_at(l), "pl_block_cluster");
    } else if (!in_range) {
        int seen = x >= 1 && y >= 1 && z >= 1 && x <= 64 && y <= 64 && z <= 64 ? x * y * z : 0;
        pl_d_block_shape_range(b->fn->diags, pl_trace_at(l), "CTAs of a cluster", seen, most);
    } else {
        b->fn->cluster[0] = x, b->fn->cluster[1] = y, b->fn->cluster[2] = z;
    }
    b->has_cluster = true;
}

static uint32_t add_id(pl_builder *b, enum pl_opcode code, int32_t axis, pl_loc l)
{
    const pl_shape scalar = PL_SHAPE_SCALAR;
    uint32_t id;
    struct pl_op *op = pl_trace_add_val(b, code, b->index_dtype, &scalar, l, &id);
    if (op != NULL) {
        op->axis = axis;
        op->is_index = true;
    }
    return id;
}

pl_val pl_program_id_at(pl_builder *b, int32_t axis, pl_loc l)
{
    if (!pl_trace_axis(b, "pl_program_id", axis, 3, l))
        return pl_val_none();
    b->fn->uses_program_axis[axis] = true;
    return pl_trace_val(add_id(b, PL_OP_PROGRAM_ID, axis, l));
}

pl_val pl_num_programs_at(pl_builder *b, int32_t axis, pl_loc l)
{
    if (!pl_trace_axis(b, "pl_num_programs", axis, 3, l))
        return pl_val_none();
    b->fn->uses_program_axis[axis] = true;
    return pl_trace_val(add_id(b, PL_OP_NUM_PROGRAMS, axis, l));
}

pl_val pl_cluster_rank_at(pl_builder *b, pl_loc l)
{
    const int32_t *c = b->fn->cluster;
    if (c[0] * c[1] * c[2] == 1)
        return pl_trace_val(pl_trace_const_i(b, b->index_dtype, 0, l));
    return pl_trace_val(add_id(b, PL_OP_CLUSTER_RANK, 0, l));
}

pl_val pl_warpgroup_id_at(pl_builder *b, pl_loc l)
{
    int32_t role = b->fn->blocks.data[b->block].role_warpgroup;
    bool is_one = role >= 0 && b->fn->blocks.data[b->block].n_role_warpgroups == 1;
    if (b->fn->n_warpgroups == 1 || is_one)
        return pl_trace_val(pl_trace_const_i(b, b->index_dtype, role < 0 ? 0 : role, l));
    return pl_trace_val(add_id(b, PL_OP_WARPGROUP_ID, 0, l));
}

/* ---- parameters ---- */

static const struct pl_arg_facts *param(pl_builder *b, int32_t i, bool wants_scalar, pl_loc l)
{
    const struct pl_arg_facts *a = arg_of(b, i);
    if (a == NULL) {
        pl_d_no_such_param(b->fn->diags, pl_trace_at(l), i, (int)b->fn->request.n_args);
        return NULL;
    }
    if (a->is_scalar != wants_scalar) {
        pl_d_param_kind(b->fn->diags, pl_trace_at(l), i, a->is_scalar ? "scalar" : "tensor",
                        wants_scalar ? "pl_scalar" : "pl_param");
        return NULL;
    }
    if (!a->is_present) {
        pl_d_param_absent(b->fn->diags, pl_trace_at(l), i);
        return NULL;
    }
    return a;
}

pl_ref pl_param_at(pl_builder *b, int32_t i, pl_loc l)
{
    const struct pl_arg_facts *a = param(b, i, false, l);
    if (a == NULL)
        return pl_trace_ref(0);
    return pl_trace_ref(b->fn->param_refs[i]);
}

/* Parameters are there before the first op: their refs are made for all of them, asked for or not. */
void pl_trace_params(pl_builder *b)
{
    const struct pl_trace_request *req = &b->fn->request;
    for (size_t i = 0; i < req->n_args; i++) {
        const struct pl_arg_facts *a = &req->args[i];
        if (!a->is_present || a->is_scalar)
            continue;
        struct pl_array array = {.space = PL_SPACE_GMEM, .dtype = a->dtype, .param = (int32_t)i};
        array.shape.rank = a->rank;
        memcpy(array.shape.d, a->dims, (size_t)a->rank * sizeof a->dims[0]);
        b->fn->param_refs[i] = pl_trace_array(b, &array, 0, pl_loc_make("", 0));
    }
    b->has_ops = false;
}

pl_val pl_scalar_at(pl_builder *b, int32_t i, pl_loc l)
{
    const struct pl_arg_facts *a = param(b, i, true, l);
    const pl_shape scalar = PL_SHAPE_SCALAR;
    uint32_t id;
    struct pl_op *op =
        a == NULL ? NULL : pl_trace_add_val(b, PL_OP_SCALAR, a->dtype, &scalar, l, &id);
    if (op == NULL)
        return pl_val_none();
    op->n = i;
    op->is_index = a->dtype == PL_I32 || a->dtype == PL_I64;
    return pl_trace_val(id);
}

pl_val pl_dim_at(pl_builder *b, pl_ref r, int32_t axis, pl_loc l)
{
    uint32_t ref = pl_trace_use_ref(b, r, l);
    if (ref == 0 || !pl_trace_axis(b, "pl_dim", axis, pl_ir_ref(b->fn, ref)->shape.rank, l))
        return pl_val_none();
    const struct pl_ref_info *info = pl_ir_ref(b->fn, ref);
    if (info->shape.d[axis] >= 0)
        return pl_trace_val(pl_trace_const_i(b, b->index_dtype, info->shape.d[axis], l));
    int32_t base_axis = info->axis_of[axis], n = b->fn->arrays.data[info->array].param;
    const pl_shape scalar = PL_SHAPE_SCALAR;
    uint32_t id;
    struct pl_op *op = pl_trace_add_val(b, PL_OP_DIM, b->index_dtype, &scalar, l, &id);
    if (op == NULL)
        return pl_val_none();
    op->n = n;
    op->axis = base_axis;
    op->is_index = true;
    return pl_trace_val(id);
}

int64_t pl_dim_const_at(pl_builder *b, pl_ref r, int32_t axis, pl_loc l)
{
    uint32_t ref = pl_trace_use_ref(b, r, l);
    if (ref == 0 || !pl_trace_axis(b, "pl_dim_const", axis, pl_ir_ref(b->fn, ref)->shape.rank, l))
        return 1;
    int64_t d = pl_ir_ref(b->fn, ref)->shape.d[axis];
    if (d < 0)
        pl_d_dim_is_dynamic(b->fn->diags, pl_trace_at(l), axis);
    return d < 0 ? 1 : d;
}

pl_dtype pl_dtype_of_at(pl_builder *b, pl_ref r, pl_loc l)
{
    uint32_t ref = pl_trace_use_ref(b, r, l);
    return ref == 0 ? PL_DTYPE_NONE : pl_ir_ref(b->fn, ref)->dtype;
}

pl_dtype pl_dtype_of_val_at(pl_builder *b, pl_val v, pl_loc l)
{
    uint32_t id = pl_trace_use(b, v, l);
    return id == 0 ? PL_DTYPE_NONE : pl_ir_op(b->fn, id)->dtype;
}

int32_t pl_rank_of_at(pl_builder *b, pl_ref r, pl_loc l)
{
    uint32_t ref = pl_trace_use_ref(b, r, l);
    return ref == 0 ? 0 : pl_ir_ref(b->fn, ref)->shape.rank;
}

/* ---- allocation ---- */

static bool check_alloc(pl_builder *b, const char *what, pl_dtype t, const pl_shape *s, pl_loc l)
{
    const int64_t most = (int64_t)1 << 28;
    int64_t n = 1;
    bool ok = s->rank >= 0 && s->rank <= PL_MAX_RANK;
    for (int i = 0; ok && i < s->rank; i++) {
        ok = s->d[i] > 0 && s->d[i] <= most / n;
        n *= ok ? s->d[i] : 1;
    }
    if (!ok)
        pl_d_alloc_extent(b->fn->diags, pl_trace_at(l), what,
                          s->rank >= 0 && s->rank <= PL_MAX_RANK ? pl_trace_shape(b, s) : "?");
    if (t <= PL_DTYPE_NONE || t >= PL_DTYPE_COUNT) {
        pl_d_bad_choice(b->fn->diags, pl_trace_at(l), "the dtype of an allocation", (int)t);
        ok = false;
    }
    return ok;
}

pl_transforms pl_mma_transforms(pl_builder *b, pl_dtype t, int64_t inner_elems)
{
    (void)b;
    int32_t bits = pl_dtype_bits(t);
    for (int32_t swizzle = 128; bits != 0 && swizzle >= 32; swizzle /= 2)
        if (inner_elems > 0 && inner_elems * bits / 8 % swizzle == 0)
            return pl_transforms_make(8, swizzle * 8 / bits, swizzle);
    return pl_transforms_make(8, bits == 0 ? 0 : 128 / bits, 0);
}

uint32_t pl_trace_array(pl_builder *b, const struct pl_array *array, uint32_t init, pl_loc l)
{
    struct pl_fn *fn = b->fn;
    uint32_t id;
    struct pl_op *op = pl_trace_add(b, PL_OP_ARRAY, l, &id);
    struct pl_array *a = pl_vec_push(fn->arena, &fn->arrays);
    struct pl_ref_info *r = pl_vec_push(fn->arena, &fn->refs);
    if (op == NULL || a == NULL || r == NULL)
        return 0;
    uint32_t ref = fn->refs.n - 1;
    *a = *array;
    a->ref = ref;
    a->block = b->block;
    *r = (struct pl_ref_info){
        .space = a->space, .dtype = a->dtype, .shape = a->shape, .array = fn->arrays.n - 1};
    r->base = ref;
    r->offset = pl_affine_zeros;
    r->block = b->block;
    r->loc = l;
    for (int i = 0; i < PL_MAX_RANK; i++)
        r->axis_of[i] = i;
    op->refs[0] = ref;
    op->args[0] = init;
    op->n_args = init != 0;
    return ref;
}

pl_ref pl_smem_at(pl_builder *b, pl_dtype t, pl_shape s, pl_transforms tr, pl_loc l)
{
    bool ok = pl_trace_is_top(b, "pl_smem", l);
    if (!check_alloc(b, "pl_smem", t, &s, l) || !ok)
        return pl_trace_ref(0);
    struct pl_array array = {
        .space = PL_SPACE_SMEM, .dtype = t, .shape = s, .param = -1, .tr = tr, .loc = l};
    return pl_trace_ref(pl_trace_array(b, &array, 0, l));
}

pl_ref pl_tmem_at(pl_builder *b, pl_dtype t, pl_shape s, int32_t is_pair, pl_loc l)
{
    bool ok = pl_trace_is_top(b, "pl_tmem", l);
    if (!check_alloc(b, "pl_tmem", t, &s, l) || !ok)
        return pl_trace_ref(0);
    struct pl_array array = {.space = PL_SPACE_TMEM,
                             .dtype = t,
                             .shape = s,
                             .param = -1,
                             .is_pair = is_pair != 0,
                             .loc = l};
    return pl_trace_ref(pl_trace_array(b, &array, 0, l));
}

pl_ref pl_regs_at(pl_builder *b, pl_dtype t, pl_shape s, pl_layout layout, pl_val init, pl_loc l)
{
    if (!check_alloc(b, "pl_regs", t, &s, l) || !pl_trace_layout(b, &layout, l))
        return pl_trace_ref(0);
    uint32_t id =
        pl_trace_strong(b, "the initial value of pl_regs", pl_trace_use(b, init, l), t, l);
    if (id != 0) {
        const struct pl_op *op = pl_ir_op(b->fn, id);
        const pl_shape init_shape = op->shape;
        if (op->dtype != t)
            pl_d_dtype_mismatch(b->fn->diags, pl_trace_at(l), "pl_regs", pl_dtype_name(t),
                                pl_dtype_name(op->dtype));
        else if (init_shape.rank != 0 && !pl_shape_equal(&init_shape, &s))
            pl_d_shape_mismatch(b->fn->diags, pl_trace_at(l), "pl_regs", pl_trace_shape(b, &s),
                                pl_trace_shape(b, &init_shape));
    }
    struct pl_array array = {
        .space = PL_SPACE_REGS, .dtype = t, .shape = s, .param = -1, .layout = layout, .loc = l};
    return pl_trace_ref(pl_trace_array(b, &array, id, l));
}

pl_ref pl_acc_at(pl_builder *b, pl_dtype t, pl_shape s, pl_loc l)
{
    if (!check_alloc(b, "pl_acc", t, &s, l))
        return pl_trace_ref(0);
    struct pl_array array = {.space = PL_SPACE_ACC,
                             .dtype = t,
                             .shape = s,
                             .param = -1,
                             .layout = pl_layout_of(PL_LAYOUT_WGMMA),
                             .loc = l};
    return pl_trace_ref(pl_trace_array(b, &array, 0, l));
}

/* ---- views ---- */

/* False when there are too many terms, or a number does not fit. */
static bool add_term(struct pl_affine *a, uint32_t val, int64_t scale)
{
    for (int i = 0; i < a->n_terms; i++)
        if (a->terms[i].val == val)
            return !__builtin_add_overflow(a->terms[i].scale, scale, &a->terms[i].scale);
    if (a->n_terms == PL_MAX_TERMS)
        return false;
    a->terms[a->n_terms].val = val;
    a->terms[a->n_terms++].scale = scale;
    return true;
}

/* a += val * scale; constants go to konst. */
static bool add_scaled(pl_builder *b, struct pl_affine *a, uint32_t val, int64_t scale)
{
    int64_t c, product;
    if (!pl_ir_is_const(b->fn, val, &c))
        return add_term(a, val, scale);
    return !__builtin_mul_overflow(c, scale, &product) &&
           !__builtin_add_overflow(a->konst, product, &a->konst);
}

static const char *view_name(enum pl_view_kind kind)
{
    static const char *const names[PL_VIEW_COUNT] = {"the whole",  "pl_at",   "pl_window",
                                                     "pl_tile",    "pl_clip", "pl_transpose",
                                                     "pl_reshape", "pl_peer", "pl_semaphore"};
    return names[kind];
}

bool pl_trace_inside(pl_builder *b, const char *what, int axis, uint32_t index, int64_t n, pl_loc l)
{
    int64_t i;
    if (!pl_ir_is_const(b->fn, index, &i) || (i >= 0 && i < n))
        return true;
    pl_d_view_outside(b->fn->diags, pl_trace_at(l), what, axis, (long long)i, (long long)i,
                      (long long)n);
    return false;
}

/* Constant offsets must lie inside, except that a window of GMEM may hang over the edge. */
static bool check_inside(pl_builder *b, const struct pl_ref_info *v, int axis, int64_t n_have,
                         int64_t n_want, int64_t scale, pl_loc l)
{
    int64_t first;
    bool may_hang = v->space == PL_SPACE_GMEM && v->view != PL_VIEW_AT;
    if (n_have < 0 || may_hang || !pl_ir_is_const(b->fn, v->args[axis], &first))
        return true;
    if (first >= 0 && first <= n_have / scale && first * scale + n_want <= n_have)
        return true;
    first = first > n_have || first < 0 ? first : first * scale;
    pl_d_view_outside(b->fn->diags, pl_trace_at(l), view_name(v->view), axis, (long long)first,
                      (long long)((uint64_t)first + (uint64_t)n_want - 1), (long long)n_have);
    return false;
}

/* Offsets of a view's own, to be changed: those of its parent so far. NULL when memory ran out. */
static struct pl_affine *own(pl_builder *b, const struct pl_ref_info *v)
{
    const int32_t rank = pl_ir_ref(b->fn, v->base)->shape.rank;
    struct pl_affine *a = pl_arena_array(b->fn->arena, (size_t)rank, sizeof *a);
    if (a != NULL)
        memcpy(a, v->offset, (size_t)rank * sizeof *a);
    return a;
}

static bool resolve_at(pl_builder *b, struct pl_ref_info *v, pl_loc l)
{
    if (!check_inside(b, v, 0, v->shape.d[0], 1, 1, l))
        return false;
    struct pl_affine *offset = own(b, v);
    if (offset == NULL)
        return false;
    if (!add_scaled(b, &offset[v->axis_of[0]], v->args[0], 1)) {
        pl_d_view_too_deep(b->fn->diags, pl_trace_at(l), 0);
        return false;
    }
    v->offset = offset;
    v->shape.rank--;
    for (int i = 0; i < v->shape.rank; i++) {
        v->shape.d[i] = v->shape.d[i + 1];
        v->axis_of[i] = v->axis_of[i + 1];
    }
    v->shape.d[v->shape.rank] = 0;
    return true;
}

static bool resolve_window(pl_builder *b, struct pl_ref_info *v, const pl_shape *want, pl_loc l)
{
    struct pl_affine *offset = own(b, v);
    if (offset == NULL)
        return false;
    for (int i = 0; i < want->rank; i++) {
        int64_t scale = v->view == PL_VIEW_TILE ? want->d[i] : 1;
        if (!check_inside(b, v, i, v->shape.d[i], want->d[i], scale, l))
            return false;
        if (!add_scaled(b, &offset[v->axis_of[i]], v->args[i], scale)) {
            pl_d_view_too_deep(b->fn->diags, pl_trace_at(l), i);
            return false;
        }
    }
    v->offset = offset;
    v->shape = *want;
    return true;
}

static bool resolve_clip(pl_builder *b, struct pl_ref_info *v, pl_loc l)
{
    int32_t axis = v->axis_of[v->axis];
    if (v->has_clip[axis]) {
        pl_d_clip_twice(b->fn->diags, pl_trace_at(l), v->axis);
        return false;
    }
    struct pl_affine *clip = own(b, v); /* the offset of this axis; the clips of the others */
    if (clip == NULL)
        return false;
    for (int i = 0; v->clip != NULL && i < PL_MAX_RANK; i++)
        if (v->has_clip[i])
            clip[i] = v->clip[i];
    if (!add_scaled(b, &clip[axis], v->args[0], 1)) {
        pl_d_view_too_deep(b->fn->diags, pl_trace_at(l), v->axis);
        return false;
    }
    v->has_clip[axis] = true;
    v->clip = clip;
    return true;
}

/* Whole along every axis that it still has: then its elements are contiguous and a reshape of it has an address. */
static bool is_whole(pl_builder *b, const struct pl_ref_info *v)
{
    const struct pl_ref_info *base = pl_ir_ref(b->fn, v->base);
    int32_t n_dropped = base->shape.rank - v->shape.rank;
    for (int i = 0; i < v->shape.rank; i++)
        if (v->axis_of[i] != n_dropped + i || v->shape.d[i] != base->shape.d[n_dropped + i])
            return false;
    return v->peer == 0;
}

static bool resolve_reshape(pl_builder *b, struct pl_ref_info *v, const pl_shape *want, pl_loc l)
{
    const pl_transforms tr = b->fn->arrays.data[v->array].tr;
    bool keeps_last = tr.swizzle_bytes == 0 && tr.tile_cols == 0;
    bool same_last = want->rank > 0 && v->shape.rank > 0 &&
                     want->d[want->rank - 1] == v->shape.d[v->shape.rank - 1];
    if (!is_whole(b, v)) {
        pl_d_contiguous_parent(b->fn->diags, pl_trace_at(l), "pl_reshape");
        return false;
    }
    if (pl_shape_n_elems(want) != pl_shape_n_elems(&v->shape) || !(keeps_last || same_last)) {
        pl_d_reshape_count(b->fn->diags, pl_trace_at(l), pl_trace_shape(b, &v->shape),
                           pl_trace_shape(b, want));
        return false;
    }
    v->shape = *want;
    v->base = 0; /* becomes its own id */
    v->offset = pl_affine_zeros;
    for (int i = 0; i < PL_MAX_RANK; i++)
        v->axis_of[i] = i;
    return true;
}

static bool resolve(pl_builder *b, struct pl_ref_info *v, const pl_shape *want, pl_loc l)
{
    int32_t n = v->shape.rank;
    switch (v->view) {
    case PL_VIEW_AT: return resolve_at(b, v, l);
    case PL_VIEW_WINDOW:
    case PL_VIEW_TILE: return resolve_window(b, v, want, l);
    case PL_VIEW_CLIP: return resolve_clip(b, v, l);
    case PL_VIEW_RESHAPE: return resolve_reshape(b, v, want, l);
    case PL_VIEW_PEER: v->peer = v->args[0]; return true;
    case PL_VIEW_SEMAPHORE: v->space = PL_SPACE_SEMAPHORE; return true;
    case PL_VIEW_TRANSPOSE: {
        int32_t axis = v->axis_of[n - 1];
        int64_t d = v->shape.d[n - 1];
        v->axis_of[n - 1] = v->axis_of[n - 2], v->axis_of[n - 2] = axis;
        v->shape.d[n - 1] = v->shape.d[n - 2], v->shape.d[n - 2] = d;
        return true;
    }
    case PL_VIEW_ROOT:
    case PL_VIEW_COUNT: return false;
    }
    return false;
}

uint32_t pl_trace_view(pl_builder *b, const struct pl_ref_info *want, pl_loc l)
{
    struct pl_fn *fn = b->fn;
    struct pl_ref_info v = fn->refs.data[want->parent];
    v.view = want->view;
    v.parent = want->parent;
    memcpy(v.args, want->args, sizeof v.args);
    v.n_args = want->n_args;
    v.axis = want->axis;
    v.block = b->block;
    v.loc = l;
    if (!resolve(b, &v, &want->shape, l))
        return 0;
    uint32_t id;
    struct pl_op *op = pl_trace_add(b, PL_OP_VIEW, l, &id);
    struct pl_ref_info *r = pl_vec_push(fn->arena, &fn->refs);
    if (op == NULL || r == NULL)
        return 0;
    *r = v;
    if (r->base == 0)
        r->base = fn->refs.n - 1;
    op->refs[0] = fn->refs.n - 1;
    return fn->refs.n - 1;
}

static bool is_space_allowed(pl_builder *b, uint32_t ref, enum pl_view_kind view, unsigned spaces,
                             pl_loc l)
{
    enum pl_space space = pl_ir_ref(b->fn, ref)->space;
    if ((spaces & 1u << space) != 0)
        return true;
    pl_d_view_space(b->fn->diags, pl_trace_at(l), view_name(view), pl_space_infos[space].name);
    return false;
}

pl_ref pl_at_at(pl_builder *b, pl_ref r, pl_val i, pl_loc l)
{
    struct pl_ref_info want = {
        .view = PL_VIEW_AT, .parent = pl_trace_use_ref(b, r, l), .n_args = 1};
    want.args[0] = pl_trace_integer(b, "the index of pl_at", i, l);
    if (want.parent == 0 || want.args[0] == 0)
        return pl_trace_ref(0);
    if (pl_ir_ref(b->fn, want.parent)->shape.rank == 0) {
        pl_d_view_of_scalar(b->fn->diags, pl_trace_at(l), "pl_at");
        return pl_trace_ref(0);
    }
    return pl_trace_ref(pl_trace_view(b, &want, l));
}

static pl_ref window(pl_builder *b, enum pl_view_kind view, pl_ref r, const pl_offs *offsets,
                     const pl_shape *s, pl_loc l)
{
    struct pl_ref_info want = {.view = view, .parent = pl_trace_use_ref(b, r, l), .shape = *s};
    if (want.parent == 0)
        return pl_trace_ref(0);
    int32_t rank = pl_ir_ref(b->fn, want.parent)->shape.rank;
    if (s->rank != rank || offsets->rank != rank || rank == 0) {
        pl_d_view_rank(b->fn->diags, pl_trace_at(l), view_name(view),
                       s->rank != rank ? s->rank : offsets->rank, rank);
        return pl_trace_ref(0);
    }
    if (!pl_trace_extents(b, view_name(view), s, l))
        return pl_trace_ref(0);
    want.n_args = rank;
    for (int i = 0; i < rank; i++) {
        want.args[i] = pl_trace_integer(b, "the offset of a window", offsets->o[i], l);
        if (want.args[i] == 0)
            return pl_trace_ref(0);
    }
    return pl_trace_ref(pl_trace_view(b, &want, l));
}

pl_ref pl_window_at(pl_builder *b, pl_ref r, pl_offs offsets, pl_shape s, pl_loc l)
{
    return window(b, PL_VIEW_WINDOW, r, &offsets, &s, l);
}
pl_ref pl_tile_at(pl_builder *b, pl_ref r, pl_offs offsets, pl_shape s, pl_loc l)
{
    return window(b, PL_VIEW_TILE, r, &offsets, &s, l);
}

pl_ref pl_clip_at(pl_builder *b, pl_ref r, int32_t axis, pl_val end, pl_loc l)
{
    struct pl_ref_info want = {
        .view = PL_VIEW_CLIP, .parent = pl_trace_use_ref(b, r, l), .axis = axis, .n_args = 1};
    want.args[0] = pl_trace_integer(b, "the end of pl_clip", end, l);
    if (want.parent == 0 || want.args[0] == 0 ||
        !is_space_allowed(b, want.parent, PL_VIEW_CLIP, 1u << PL_SPACE_GMEM | 1u << PL_SPACE_SMEM,
                          l) ||
        !pl_trace_axis(b, "pl_clip", axis, pl_ir_ref(b->fn, want.parent)->shape.rank, l))
        return pl_trace_ref(0);
    return pl_trace_ref(pl_trace_view(b, &want, l));
}

pl_ref pl_transpose_at(pl_builder *b, pl_ref r, pl_loc l)
{
    struct pl_ref_info want = {.view = PL_VIEW_TRANSPOSE, .parent = pl_trace_use_ref(b, r, l)};
    if (want.parent == 0 || !is_space_allowed(b, want.parent, PL_VIEW_TRANSPOSE,
                                              1u << PL_SPACE_GMEM | 1u << PL_SPACE_SMEM, l))
        return pl_trace_ref(0);
    if (pl_ir_ref(b->fn, want.parent)->shape.rank < 2) {
        pl_d_view_rank(b->fn->diags, pl_trace_at(l), "pl_transpose", 2,
                       pl_ir_ref(b->fn, want.parent)->shape.rank);
        return pl_trace_ref(0);
    }
    return pl_trace_ref(pl_trace_view(b, &want, l));
}

pl_ref pl_reshape_at(pl_builder *b, pl_ref r, pl_shape s, pl_loc l)
{
    struct pl_ref_info want = {
        .view = PL_VIEW_RESHAPE, .parent = pl_trace_use_ref(b, r, l), .shape = s};
    if (want.parent == 0 ||
        !is_space_allowed(b, want.parent, PL_VIEW_RESHAPE, 1u << PL_SPACE_SMEM, l) ||
        !pl_trace_extents(b, "pl_reshape", &s, l))
        return pl_trace_ref(0);
    return pl_trace_ref(pl_trace_view(b, &want, l));
}

pl_ref pl_peer_at(pl_builder *b, pl_ref r, pl_val rank, pl_loc l)
{
    struct pl_ref_info want = {
        .view = PL_VIEW_PEER, .parent = pl_trace_use_ref(b, r, l), .n_args = 1};
    want.args[0] = pl_trace_integer(b, "the rank of pl_peer", rank, l);
    if (want.parent == 0 || want.args[0] == 0 ||
        !is_space_allowed(b, want.parent, PL_VIEW_PEER, 1u << PL_SPACE_SMEM, l))
        return pl_trace_ref(0);
    return pl_trace_ref(pl_trace_view(b, &want, l));
}

pl_ref pl_union_at(pl_builder *b, pl_ref over, pl_dtype t, pl_shape s, pl_transforms tr, pl_loc l)
{
    uint32_t ref = pl_trace_use_ref(b, over, l);
    bool ok = pl_trace_is_top(b, "pl_union", l);
    if (ref == 0 || !check_alloc(b, "pl_union", t, &s, l) || !ok)
        return pl_trace_ref(0);
    const struct pl_ref_info *info = pl_ir_ref(b->fn, ref);
    if (info->view != PL_VIEW_ROOT ||
        (info->space != PL_SPACE_SMEM && info->space != PL_SPACE_TMEM)) {
        pl_d_union_space(b->fn->diags, pl_trace_at(l),
                         info->view != PL_VIEW_ROOT ? "windowed"
                                                    : pl_space_infos[info->space].name);
        return pl_trace_ref(0);
    }
    const struct pl_array *first = &b->fn->arrays.data[info->array];
    struct pl_array array = {.space = info->space,
                             .dtype = t,
                             .shape = s,
                             .param = -1,
                             .tr = tr,
                             .is_pair = first->is_pair,
                             .loc = l};
    array.alias_of = first->alias_of != 0 ? first->alias_of : info->array;
    return pl_trace_ref(pl_trace_array(b, &array, 0, l));
}

pl_ref pl_semaphore_at(pl_builder *b, pl_ref r, pl_loc l)
{
    uint32_t ref = pl_trace_use_ref(b, r, l);
    if (ref == 0 || !is_space_allowed(b, ref, PL_VIEW_SEMAPHORE, 1u << PL_SPACE_GMEM, l) ||
        !pl_trace_static(b, "pl_semaphore", ref, l))
        return pl_trace_ref(0);
    const struct pl_ref_info *info = pl_ir_ref(b->fn, ref);
    if (pl_shape_n_elems(&info->shape) != 1 || (info->dtype != PL_I32 && info->dtype != PL_U32)) {
        pl_d_semaphore_element(b->fn->diags, pl_trace_at(l), pl_trace_shape(b, &info->shape),
                               pl_dtype_name(info->dtype));
        return pl_trace_ref(0);
    }
    struct pl_ref_info want = {.view = PL_VIEW_SEMAPHORE, .parent = ref};
    return pl_trace_ref(pl_trace_view(b, &want, l));
}
