/* Rank-0 values, parameters, special registers, affine offsets. */
#include "src/plan/scalar.h"

#include "base/debug.h"
#include "base/num.h"

#include <string.h>

/* ---- dtypes ---- */

enum pl_stype pl_stype_of(pl_dtype t)
{
    switch (t) {
    case PL_F64: return PL_ST_f64;
    case PL_F32:
    case PL_TF32: return PL_ST_f32;
    case PL_F16: return PL_ST_f16;
    case PL_BF16: return PL_ST_bf16;
    case PL_I8:
    case PL_I16:
    case PL_I32: return PL_ST_s32;
    case PL_U8:
    case PL_U16:
    case PL_U32: return PL_ST_u32;
    case PL_I64: return PL_ST_s64;
    case PL_U64: return PL_ST_u64;
    case PL_PRED: return PL_ST_pred;
    case PL_E4M3:
    case PL_E5M2:
    case PL_E8M0:
    case PL_E2M1:
    case PL_E2M3:
    case PL_E3M2:
    case PL_DTYPE_NONE:
    case PL_DTYPE_COUNT: break;
    }
    return PL_ST_b32;
}

enum pl_stype pl_stype_bits(enum pl_rep rep)
{
    static const uint8_t bits[] = {PL_ST_pred, PL_ST_b16, PL_ST_b32, PL_ST_b32, PL_ST_b64};
    return (enum pl_stype)bits[rep];
}

enum pl_rep pl_rep_of(pl_dtype t, uint32_t vec)
{
    if (t == PL_PRED)
        return PL_REP_PRED;
    if (t == PL_F16 || t == PL_BF16)
        return vec % 2 == 0 ? PL_REP_HALF2 : PL_REP_HALF;
    return pl_dtype_bits(t) == 64 ? PL_REP_DOUBLE : PL_REP_WORD;
}

uint32_t pl_elem_bytes(pl_dtype t)
{
    uint32_t bits = (uint32_t)pl_dtype_bits(t);
    return bits < 8 ? 1 : bits / 8;
}

int64_t pl_shared_bytes(pl_dtype t, int64_t n)
{
    return t == PL_E2M1 ? n / 2 : n * pl_elem_bytes(t);
}

uint32_t pl_regs_per_chunk(enum pl_rep rep, uint32_t vec)
{
    return rep == PL_REP_HALF2 ? vec / 2 : vec;
}

static enum pl_num_fmt num_format(pl_dtype t)
{
    switch (t) {
    case PL_F64: return PL_NUM_F64;
    case PL_TF32: return PL_NUM_TF32;
    case PL_F16: return PL_NUM_F16;
    case PL_BF16: return PL_NUM_BF16;
    case PL_E4M3: return PL_NUM_E4M3;
    case PL_E5M2: return PL_NUM_E5M2;
    case PL_E8M0: return PL_NUM_UE8M0;
    case PL_E2M1: return PL_NUM_E2M1;
    case PL_E2M3: return PL_NUM_E2M3;
    case PL_E3M2: return PL_NUM_E3M2;
    case PL_F32:
    case PL_I8:
    case PL_I16:
    case PL_I32:
    case PL_I64:
    case PL_U8:
    case PL_U16:
    case PL_U32:
    case PL_U64:
    case PL_PRED:
    case PL_DTYPE_NONE:
    case PL_DTYPE_COUNT: break;
    }
    return PL_NUM_F32;
}

struct pl_opnd pl_const_of(pl_dtype t, int64_t i, double f)
{
    const pl_dtype_kind kind = pl_dtype_kind_of(t);
    if (kind != PL_KIND_FLOAT && kind != PL_KIND_SCALE) {
        if (kind == PL_KIND_BOOL)
            return pl_opnd_imm(i != 0);
        if (pl_dtype_bits(t) >= 32)
            return pl_opnd_imm(pl_ix_canonical(pl_stype_of(t), i));
        uint64_t mask = ((uint64_t)1 << pl_dtype_bits(t)) - 1;
        uint64_t v = (uint64_t)i & mask;
        if (kind == PL_KIND_INT && (v >> (pl_dtype_bits(t) - 1)) != 0)
            v |= ~mask;
        return pl_opnd_imm((int64_t)v);
    }
    const float narrow = (float)f;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof narrow);
    if (t == PL_F32)
        return pl_opnd_imm(bits);
    if (t == PL_BF16 && (double)narrow == f && (bits & 0xffff) == 0) /* an f32's upper half */
        return pl_opnd_imm(bits >> 16);
    return pl_opnd_imm((int64_t)pl_num_of_double(num_format(t), f));
}

/* ---- special registers ---- */

pl_reg pl_lower_sreg(struct pl_lower *l, enum pl_ssreg r)
{
    return pl_build_op1(&l->b, PL_STEP_special, PL_ST_NONE, pl_opnd_index(PL_OPND_SREG, r));
}

struct pl_opnd pl_lower_rank(struct pl_lower *l)
{
    struct pl_opnd tid = pl_opnd_reg(pl_lower_sreg(l, PL_SR_tid_x));
    if (l->unit_threads >= l->n_threads)
        return tid;
    return pl_ix_and(&l->b, PL_ST_u32, tid, (int64_t)l->unit_threads - 1);
}

struct pl_opnd pl_lower_warpgroup(struct pl_lower *l)
{
    if (l->role_warpgroup >= 0 && l->n_role_warpgroups == 1)
        return pl_opnd_imm(l->role_warpgroup);
    if (l->n_threads <= 128)
        return pl_opnd_imm(0);
    return pl_ix_shr(&l->b, PL_ST_u32, pl_opnd_reg(pl_lower_sreg(l, PL_SR_tid_x)), 7);
}

/*
 * The leader: one elected lane of the unit's first warp. The election is done once, at the start, so that it is the same
 * lane for every operation of a role.
 */
static pl_reg elect_lane(struct pl_lower *l)
{
    if (!l->has_tma) {
        struct pl_opnd lane =
            pl_ix_and(&l->b, PL_ST_u32, pl_opnd_reg(pl_lower_sreg(l, PL_SR_tid_x)), 31);
        return pl_build_compare(&l->b, PL_SA_CMP_eq, PL_ST_u32, lane, pl_opnd_imm(0));
    }
    pl_reg p = pl_build_reg(&l->b, PL_RC_PRED);
    l->b.is_in_entry = true;
    pl_build_do2(&l->b, PL_STEP_elect, pl_opnd_reg(p), pl_opnd_imm(-1));
    l->b.is_in_entry = false;
    pl_build_settle(&l->b, p);
    return p;
}

pl_reg pl_lower_warp_leader(struct pl_lower *l)
{
    if (l->warp_leader.id == 0)
        l->warp_leader = elect_lane(l);
    return l->warp_leader;
}

pl_reg pl_lower_leader(struct pl_lower *l)
{
    pl_lower_warp_leader(l);
    if (l->unit_threads == 32)
        return l->warp_leader;
    /* Of a warpgroup, or of the CTA: then it is the first warpgroup's. All pure, so made once. */
    pl_reg first =
        pl_build_compare(&l->b, PL_SA_CMP_lt, PL_ST_u32, pl_lower_rank(l), pl_opnd_imm(32));
    return pl_build_op2(&l->b, PL_STEP_and, PL_ST_pred, pl_opnd_reg(first),
                        pl_opnd_reg(l->warp_leader));
}

/* ---- parameters ---- */

static bool same_param(const struct pl_plan_param *x, const struct pl_plan_param *y)
{
    return x->kind == y->kind && x->arg == y->arg && x->axis == y->axis && x->map == y->map &&
           x->n_bytes == y->n_bytes;
}

uint32_t pl_lower_param_index(struct pl_lower *l, struct pl_plan_param p)
{
    for (uint32_t i = 0; i < l->plan->params.n; i++)
        if (same_param(&l->plan->params.data[i], &p))
            return i;
    struct pl_plan_param *at = pl_vec_push(l->arena, &l->plan->params);
    if (at == NULL)
        return 0;
    p.align_bytes = p.n_bytes;
    *at = p;
    return l->plan->params.n - 1;
}

pl_reg pl_lower_param(struct pl_lower *l, struct pl_plan_param p)
{
    uint32_t i = pl_lower_param_index(l, p);
    return pl_build_op1(&l->b, PL_STEP_param, p.n_bytes == 8 ? PL_ST_b64 : PL_ST_b32,
                        pl_opnd_index(PL_OPND_PARAM, i));
}

/* ---- GMEM arrays ---- */

bool pl_array_has_fact(const struct pl_lower *l, const struct pl_array *a, pl_fact fact)
{
    return a->param >= 0 && (l->fn->request.args[a->param].facts & (pl_fact_set)fact) != 0;
}

enum pl_stype pl_lower_index_type(const struct pl_lower *l, const struct pl_array *a)
{
    return pl_array_has_fact(l, a, PL_FACT_I32) ? PL_ST_s32 : PL_ST_s64;
}

static struct pl_plan_param array_param(const struct pl_lower *l, const struct pl_array *a,
                                        enum pl_plan_param_kind kind, int axis)
{
    return (struct pl_plan_param){.kind = kind,
                                  .arg = (uint16_t)a->param,
                                  .axis = (uint8_t)axis,
                                  .n_bytes = pl_lower_index_type(l, a) == PL_ST_s32 ? 4 : 8};
}

/* The array whose extents are passed for this one's too: that of the parameter that it is like. */
static const struct pl_array *extents_of(const struct pl_lower *l, const struct pl_array *a)
{
    const struct pl_fn *fn = l->fn;
    const int32_t like = a->param >= 0 ? fn->request.args[a->param].like : 0;
    if (like == 0)
        return a;
    const struct pl_array *of = &fn->arrays.data[pl_ir_ref(fn, fn->param_refs[like - 1])->array];
    const bool is_passed_alike =
        of->shape.rank == a->shape.rank && pl_lower_index_type(l, of) == pl_lower_index_type(l, a);
    return is_passed_alike ? extents_of(l, of) : a;
}

bool pl_has_extents_of(const struct pl_lower *l, const struct pl_array *x, const struct pl_array *y)
{
    return extents_of(l, x) == extents_of(l, y);
}

struct pl_opnd pl_lower_extent(struct pl_lower *l, const struct pl_array *a, int axis)
{
    return pl_lower_own_extent(l, extents_of(l, a), axis);
}

struct pl_opnd pl_lower_own_extent(struct pl_lower *l, const struct pl_array *a, int axis)
{
    if (a->shape.d[axis] >= 0)
        return pl_opnd_imm(a->shape.d[axis]);
    return pl_opnd_reg(pl_lower_param(l, array_param(l, a, PL_PLAN_EXTENT, axis)));
}

struct pl_opnd pl_lower_stride(struct pl_lower *l, const struct pl_array *a, int axis)
{
    const bool is_last = axis == a->shape.rank - 1;
    if (is_last &&
        (pl_array_has_fact(l, a, PL_FACT_UNIT_STRIDE) || pl_array_has_fact(l, a, PL_FACT_DENSE)))
        return pl_opnd_imm(1);
    if (pl_array_has_fact(l, a, PL_FACT_DENSE)) {
        int64_t stride = 1;
        for (int i = a->shape.rank - 1; i > axis && stride > 0; i--)
            stride = a->shape.d[i] > 0 ? stride * a->shape.d[i] : -1;
        if (stride > 0)
            return pl_opnd_imm(stride);
    }
    return pl_opnd_reg(pl_lower_param(l, array_param(l, a, PL_PLAN_STRIDE, axis)));
}

/* ---- affine offsets ---- */

bool pl_affine_is_const(const struct pl_affine *a, int64_t *v)
{
    *v = a->konst;
    return a->n_terms == 0;
}

bool pl_affine_same(const struct pl_affine *x, const struct pl_affine *y)
{
    if (x->konst != y->konst || x->n_terms != y->n_terms)
        return false;
    for (int i = 0; i < x->n_terms; i++)
        if (x->terms[i].val != y->terms[i].val || x->terms[i].scale != y->terms[i].scale)
            return false;
    return true;
}

/* The number of a warpgroup in its role: the id without the role's first, or less. */
static bool counts_from_role(const struct pl_lower *l, const struct pl_op *op)
{
    const struct pl_op *x = pl_ir_op(l->fn, op->args[0]);
    int64_t c;
    return op->sub == PL_SUB && x->code == PL_OP_WARPGROUP_ID &&
           pl_ir_is_const(l->fn, op->args[1], &c) &&
           c <= l->fn->blocks.data[x->block].role_warpgroup;
}

static bool is_nonneg(const struct pl_lower *l, uint32_t val, int depth)
{
    const struct pl_op *op = pl_ir_op(l->fn, val);
    if (pl_dtype_kind_of(op->dtype) == PL_KIND_UINT)
        return true;
    if (depth == 0)
        return false;
    switch ((int)op->code) { /* not known of the others */
    case PL_OP_CONST: return op->i >= 0;
    case PL_OP_DIM:
    case PL_OP_PROGRAM_ID:
    case PL_OP_NUM_PROGRAMS:
    case PL_OP_CLUSTER_RANK:
    case PL_OP_WARPGROUP_ID: return true;
    case PL_OP_ASSUME_MULTIPLE: return op->is_flag || is_nonneg(l, op->args[0], depth - 1);
    case PL_OP_IV: {
        const struct pl_op *owner = pl_ir_op(l->fn, op->owner);
        return owner->code == PL_OP_FOR && is_nonneg(l, owner->args[0], depth - 1);
    }
    case PL_OP_LOAD: { /* the slot of a pipe */
        for (uint32_t p = 1; p < l->fn->pipes.n; p++)
            if (op->refs[0] == l->fn->pipes.data[p].producer_slot ||
                op->refs[0] == l->fn->pipes.data[p].consumer_slot)
                return true;
        return false;
    }
    case PL_OP_BINARY:
        if (op->sub == PL_ADD || op->sub == PL_MUL || op->sub == PL_DIV || op->sub == PL_CDIV ||
            op->sub == PL_MIN)
            return is_nonneg(l, op->args[0], depth - 1) && is_nonneg(l, op->args[1], depth - 1);
        if (counts_from_role(l, op))
            return true;
        return (op->sub == PL_REM || op->sub == PL_SHR) && is_nonneg(l, op->args[0], depth - 1);
    default: return false;
    }
}

bool pl_val_is_nonneg(const struct pl_lower *l, uint32_t val) { return is_nonneg(l, val, 6); }

bool pl_affine_is_nonneg(const struct pl_lower *l, const struct pl_affine *a)
{
    if (a->konst < 0)
        return false;
    for (int i = 0; i < a->n_terms; i++)
        if (a->terms[i].scale < 0 || !pl_val_is_nonneg(l, a->terms[i].val))
            return false;
    return true;
}

enum pl_stype pl_lower_int_type(const struct pl_lower *l, uint32_t val)
{
    return pl_stype_of(pl_ir_op(l->fn, val)->dtype);
}

struct pl_opnd pl_lower_affine_on(struct pl_lower *l, const struct pl_affine *a, enum pl_stype t,
                                  struct pl_opnd sum)
{
    for (int i = 0; i < a->n_terms; i++) {
        enum pl_stype vt = pl_lower_int_type(l, a->terms[i].val);
        struct pl_opnd v = pl_lower_scalar(l, a->terms[i].val);
        struct pl_opnd scale = pl_opnd_imm(a->terms[i].scale);
        sum = t == PL_ST_s64 ? pl_ix_add(&l->b, t, sum, pl_ix_mul64(&l->b, vt, v, PL_ST_s64, scale))
                             : pl_ix_mad(&l->b, t, pl_ix_convert(&l->b, t, vt, v), scale, sum);
    }
    return pl_ix_add(&l->b, t, sum, pl_opnd_imm(pl_ix_canonical(t, a->konst)));
}

struct pl_opnd pl_lower_affine(struct pl_lower *l, const struct pl_affine *a, enum pl_stype t)
{
    return pl_lower_affine_on(l, a, t, pl_opnd_imm(0));
}

bool pl_affine_is_entry(struct pl_lower *l, const struct pl_affine *a)
{
    for (int i = 0; i < a->n_terms; i++) {
        const struct pl_opnd v = pl_lower_scalar(l, a->terms[i].val);
        if (!pl_opnd_is_imm(v) && !pl_build_is_entry(&l->b, v.u.reg))
            return false;
    }
    return true;
}

/* ---- ops ---- */

struct pl_opnd pl_lower_scalar(struct pl_lower *l, uint32_t val)
{
    const struct pl_op *op = pl_ir_op(l->fn, val);
    if (op->code == PL_OP_CONST)
        return pl_const_of(op->dtype, op->i, op->f);
    return l->vals[val].one;
}

struct pl_lval pl_lval_scalar(pl_dtype t, struct pl_opnd o)
{
    return (struct pl_lval){
        .dtype = t, .rep = pl_rep_of(t, 1), .lay = {.is_splat = true, .vec = 1}, .one = o};
}

static void set_scalar(struct pl_lower *l, uint32_t id, const struct pl_op *op, struct pl_opnd o)
{
    l->vals[id] = pl_lval_scalar(op->dtype, o);
}

/* A count or index that the machine gives in 32 bits, in the type the trace wants. */
static void set_u32(struct pl_lower *l, uint32_t id, const struct pl_op *op, struct pl_opnd o)
{
    set_scalar(l, id, op, pl_ix_convert(&l->b, pl_stype_of(op->dtype), PL_ST_u32, o));
}

void pl_lower_const(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    set_scalar(l, id, op, pl_const_of(op->dtype, op->i, op->f));
}

void pl_lower_scalar_arg(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    struct pl_plan_param p = {.kind = PL_PLAN_SCALAR,
                              .arg = (uint16_t)op->n,
                              .n_bytes = pl_dtype_bits(op->dtype) == 64 ? 8 : 4};
    set_scalar(l, id, op, pl_opnd_reg(pl_lower_param(l, p)));
}

void pl_lower_dim(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, l->fn->param_refs[op->n]);
    const struct pl_array *a = &l->fn->arrays.data[r->array];
    enum pl_stype from = pl_lower_index_type(l, a);
    struct pl_opnd o = pl_lower_extent(l, a, op->axis);
    set_scalar(l, id, op, pl_ix_convert(&l->b, pl_stype_of(op->dtype), from, o));
}

/*
 * Block index and number of blocks along an axis. The host folds a grid that is too large in y or z into x, and says so by
 * non-zero PL_PLAN_GRID parameters; then the entry unfolds it, behind a jump that other launches take.
 */
static struct pl_opnd grid_extent(struct pl_lower *l, int axis)
{
    return pl_opnd_reg(pl_lower_param(
        l, (struct pl_plan_param){.kind = PL_PLAN_GRID, .axis = (uint8_t)axis, .n_bytes = 4}));
}

static void divide(struct pl_lower *l, enum pl_step_op op, pl_reg to, pl_reg x, struct pl_opnd y)
{
    pl_build_step(&l->b, &(struct pl_sdesc){.op = (uint8_t)op,
                                            .type = PL_ST_u32,
                                            .n = 3,
                                            .opnds = {pl_opnd_reg(to), pl_opnd_reg(x), y}});
}

static void unfold_grid(struct pl_lower *l)
{
    static const uint8_t plain[] = {PL_SR_block_x, PL_SR_block_y, PL_SR_block_z};
    struct pl_opnd nx = grid_extent(l, 0), ny = grid_extent(l, 1);
    pl_reg is_folded = pl_build_compare(&l->b, PL_SA_CMP_ne, PL_ST_u32, nx, pl_opnd_imm(0));
    struct pl_opnd from[3];
    for (int i = 0; i < 3; i++)
        from[i] = pl_opnd_reg(pl_lower_sreg(l, (enum pl_ssreg)plain[i]));
    grid_extent(l, 2);
    l->b.is_in_entry = true;
    for (int i = 0; i < 3; i++) {
        l->block[i] = pl_build_mutable(&l->b, PL_RC_B32);
        pl_build_mov(&l->b, PL_ST_b32, l->block[i], from[i]);
    }
    uint32_t done = pl_build_label(&l->b);
    pl_build_jump(&l->b, done, is_folded, true);
    divide(l, PL_STEP_div, l->block[1], l->block[0], nx);
    divide(l, PL_STEP_rem, l->block[0], l->block[0], nx);
    divide(l, PL_STEP_div, l->block[2], l->block[1], ny);
    divide(l, PL_STEP_rem, l->block[1], l->block[1], ny);
    pl_build_put_label(&l->b, done);
    l->b.is_in_entry = false;
    for (int i = 0; i < 3; i++)
        pl_build_settle(&l->b, l->block[i]);
}

static bool can_fold(const struct pl_lower *l)
{
    return l->fn->uses_program_axis[1] || l->fn->uses_program_axis[2];
}

void pl_lower_program_id(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    if (!can_fold(l)) {
        set_u32(l, id, op, pl_opnd_reg(pl_lower_sreg(l, PL_SR_block_x)));
        return;
    }
    if (l->block[0].id == 0)
        unfold_grid(l);
    set_u32(l, id, op, pl_opnd_reg(l->block[op->axis]));
}

void pl_lower_num_programs(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    static const uint8_t plain[] = {PL_SR_n_blocks_x, PL_SR_n_blocks_y, PL_SR_n_blocks_z};
    struct pl_opnd n = pl_opnd_reg(pl_lower_sreg(l, (enum pl_ssreg)plain[op->axis]));
    if (can_fold(l)) {
        for (int i = 0; i < 3; i++)
            grid_extent(l, i);
        pl_reg is_folded =
            pl_build_compare(&l->b, PL_SA_CMP_ne, PL_ST_u32, grid_extent(l, 0), pl_opnd_imm(0));
        n = pl_opnd_reg(pl_build_op3(&l->b, PL_STEP_select, PL_ST_b32, grid_extent(l, op->axis), n,
                                     pl_opnd_reg(is_folded)));
    }
    set_u32(l, id, op, n);
}

void pl_lower_cluster_rank(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    set_u32(l, id, op,
            l->n_ctas == 1 ? pl_opnd_imm(0) : pl_opnd_reg(pl_lower_sreg(l, PL_SR_cluster_rank)));
}

void pl_lower_warpgroup_id(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    set_u32(l, id, op, pl_lower_warpgroup(l));
}

void pl_lower_assume_multiple(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    set_scalar(l, id, op, pl_lower_scalar(l, op->args[0]));
}
