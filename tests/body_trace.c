/* A random program through the public builder. */
#include "tests/body_trace.h"

#include <string.h>

static bool is_float(pl_dtype t) { return pl_dtype_kind_of(t) == PL_KIND_FLOAT; }

static pl_val literal(struct tracer *t, const struct body_stmt *s, pl_dtype dtype)
{
    return is_float(dtype) ? pl_lit_f(t->b, s->lit_f) : pl_lit_i(t->b, s->lit_i);
}

/* Operand k; a literal takes the type of operand `beside`. */
pl_val trace_arg(struct tracer *t, const struct body_stmt *s, int k, int beside)
{
    if (s->args[k] != BODY_LIT)
        return t->val[s->args[k]];
    return literal(t, s, s->args[beside] >= 0 ? trace_stmt(t, s->args[beside])->t : PL_I32);
}

static pl_val index_of(struct tracer *t, const struct body_index *x)
{
    if (x->val < 0)
        return pl_lit_i(t->b, x->add);
    pl_val v = pl_add(t->b, pl_mul(t->b, t->val[x->val], x->scale), x->add);
    return x->multiple > 0 ? pl_assume_multiple(t->b, v, x->multiple) : v;
}

static pl_offs offsets_of(struct tracer *t, const struct body_index *at, int32_t rank)
{
    pl_offs o = {.rank = rank};
    for (int i = 0; i < rank; i++)
        o.o[i] = index_of(t, &at[i]);
    return o;
}

static pl_ref view_step(struct tracer *t, pl_ref r, const struct body_view_step *s)
{
    pl_builder *b = t->b;
    switch (s->kind) {
    case BODY_AT: return pl_at(b, r, index_of(t, &s->at[0]));
    case BODY_WINDOW: return pl_window(b, r, offsets_of(t, s->at, s->s.rank), s->s);
    case BODY_TILE: return pl_tile(b, r, offsets_of(t, s->at, s->s.rank), s->s);
    case BODY_CLIP: return pl_clip(b, r, s->axis, index_of(t, &s->at[0]));
    case BODY_TRANSPOSE: return pl_transpose(b, r);
    case BODY_RESHAPE: return pl_reshape(b, r, s->s);
    }
    return r;
}

pl_ref trace_view(struct tracer *t, const struct body_view *v)
{
    pl_ref r = v->is_smem   ? t->smem[v->base]
               : v->is_tmem ? t->tmem[v->base]
                            : pl_param(t->b, v->base);
    for (int i = 0; i < v->n_steps; i++)
        r = view_step(t, r, &v->steps[i]);
    return r;
}

static void trace_inside(struct tracer *t, int32_t i, pl_block k)
{
    trace_block(t, i + 1, trace_stmt(t, i)->end);
    pl_block_end(&k);
}

/* ---- one function a kind ---- */

void trace_ID(struct tracer *t, int32_t i)
{
    pl_builder *b = t->b;
    const struct body_stmt *s = trace_stmt(t, i);
    switch (s->op) {
    case 0: t->val[i] = pl_program_id(b, 0); break;
    case 1: t->val[i] = pl_warpgroup_id(b); break;
    case 2: t->val[i] = pl_num_programs(b, 0); break;
    case 3: t->val[i] = pl_cluster_rank(b); break;
    case 4: t->val[i] = pl_scalar(b, t->p->n_tensors + s->n); break;
    default: t->val[i] = pl_dim(b, pl_param(b, s->n), s->axis);
    }
    t->val[i] = pl_cast(b, t->val[i], PL_I32); /* i64 where a tensor may be larger than I32 says */
}

void trace_CONST(struct tracer *t, int32_t i)
{
    t->val[i] =
        pl_cast(t->b, literal(t, trace_stmt(t, i), trace_stmt(t, i)->t), trace_stmt(t, i)->t);
}

void trace_IOTA(struct tracer *t, int32_t i)
{
    t->val[i] = pl_iota(t->b, trace_stmt(t, i)->t, trace_stmt(t, i)->s, trace_stmt(t, i)->axis);
}

void trace_UNARY(struct tracer *t, int32_t i)
{
    const struct body_stmt *s = trace_stmt(t, i);
    t->val[i] = pl_op1_at(t->b, (pl_op1)s->op, trace_arg(t, s, 0, 0), PL_LOC);
}

void trace_BINARY(struct tracer *t, int32_t i)
{
    const struct body_stmt *s = trace_stmt(t, i);
    t->val[i] =
        pl_op2_at(t->b, (pl_op2)s->op, trace_arg(t, s, 0, 0), trace_arg(t, s, 1, 0), PL_LOC);
}

void trace_FMA(struct tracer *t, int32_t i)
{
    const struct body_stmt *s = trace_stmt(t, i);
    t->val[i] = pl_fma(t->b, trace_arg(t, s, 0, 0), trace_arg(t, s, 1, 0), trace_arg(t, s, 2, 0));
}

void trace_SELECT(struct tracer *t, int32_t i)
{
    const struct body_stmt *s = trace_stmt(t, i);
    t->val[i] =
        pl_select(t->b, trace_arg(t, s, 0, 0), trace_arg(t, s, 1, 1), trace_arg(t, s, 2, 1));
}

void trace_CAST(struct tracer *t, int32_t i)
{
    t->val[i] = pl_cast(t->b, trace_arg(t, trace_stmt(t, i), 0, 0), trace_stmt(t, i)->t);
}

void trace_BITCAST(struct tracer *t, int32_t i)
{
    t->val[i] = pl_bitcast(t->b, trace_arg(t, trace_stmt(t, i), 0, 0), trace_stmt(t, i)->t);
}

static const char *const ptx_texts[] = {
    "add.s32 $0, $1, $2;",        "{ .reg .b32 t; xor.b32 t, $1, $2; not.b32 $0, t; }",
    "fma.rn.f32 $0, $1, $2, $1;", "mul.lo.s64 $0, $1, $2;",
    "sub.s32 $0, $1, $2;",        "setp.lt.s32 $0, $1, $2;",
    "add.rn.f64 $0, $1, $2;",     "mad.lo.s32 $0, $1, $2, $2;",
};

void trace_PTX(struct tracer *t, int32_t i)
{
    const struct body_stmt *s = trace_stmt(t, i);
    const pl_ptx_desc d = {.text = ptx_texts[s->op],
                           .n_outs = 1,
                           .out_dtypes = {s->t},
                           .n_ins = 2,
                           .ins = {trace_arg(t, s, 0, 0), trace_arg(t, s, 1, 0)},
                           .effects = PL_EFFECT_NONE};
    pl_inline_ptx(t->b, &d, &t->val[i]);
}

void trace_BROADCAST(struct tracer *t, int32_t i)
{
    const struct body_stmt *s = trace_stmt(t, i);
    t->val[i] = pl_broadcast(t->b, trace_arg(t, s, 0, 0), s->axis, s->n);
}

void trace_REDUCE(struct tracer *t, int32_t i)
{
    const struct body_stmt *s = trace_stmt(t, i);
    t->val[i] = pl_reduce(t->b, (pl_op2)s->op, trace_arg(t, s, 0, 0), s->axis, (pl_scope)s->n);
}

void trace_GATHER(struct tracer *t, int32_t i) { trace_REDUCE(t, i); }

void trace_EXTRACT(struct tracer *t, int32_t i)
{
    const struct body_stmt *s = trace_stmt(t, i);
    t->val[i] = pl_extract(t->b, trace_arg(t, s, 0, 0),
                           offsets_of(t, s->index, trace_stmt(t, s->args[0])->s.rank));
}

void trace_LAYOUT_CAST(struct tracer *t, int32_t i)
{
    t->val[i] =
        pl_layout_cast(t->b, trace_arg(t, trace_stmt(t, i), 0, 0), trace_stmt(t, i)->layout);
}

void trace_LOAD(struct tracer *t, int32_t i)
{
    t->val[i] = pl_load_ex(t->b, trace_view(t, &trace_stmt(t, i)->view), &trace_stmt(t, i)->load);
}

void trace_STORE(struct tracer *t, int32_t i)
{
    pl_store(t->b, trace_view(t, &trace_stmt(t, i)->view), trace_arg(t, trace_stmt(t, i), 0, 0));
}

void trace_SWAP(struct tracer *t, int32_t i)
{
    t->val[i] =
        pl_swap(t->b, trace_view(t, &trace_stmt(t, i)->view), trace_arg(t, trace_stmt(t, i), 0, 0));
}

void trace_VAR(struct tracer *t, int32_t i)
{
    const struct body_stmt *s = trace_stmt(t, i);
    t->var[i] = pl_regs(t->b, s->t, s->s, s->layout, trace_arg(t, s, 0, 0));
}

void trace_GET(struct tracer *t, int32_t i)
{
    t->val[i] = pl_load(t->b, t->var[trace_stmt(t, i)->args[0]]);
}

void trace_SET(struct tracer *t, int32_t i)
{
    pl_store(t->b, t->var[trace_stmt(t, i)->args[0]], trace_arg(t, trace_stmt(t, i), 1, 1));
}

/* The unit's of a copy's barriers. */
static pl_bar own_bar(struct tracer *t, int32_t i)
{
    return t->p->n_warpgroups > 1 ? pl_bar_at(t->b, t->bar[i], t->val[1]) : t->bar[i];
}

void trace_COPY_IN(struct tracer *t, int32_t i)
{
    pl_builder *b = t->b;
    const struct body_stmt *s = trace_stmt(t, i);
    pl_ref from = trace_view(t, &trace_stmt(t, i + 1)->view), to = trace_view(t, &s->view);
    pl_copy_opt o = {.how = (pl_how)s->op};
    if (s->args[0] >= 0)
        o.pred = trace_arg(t, s, 0, 0);
    pl_commit_smem(b);
    pl_copy_gmem_to_smem_ex(b, from, to, own_bar(t, i), &o);
    if (s->n == 0)
        pl_barrier_wait(b, own_bar(t, i));
}

void trace_ROWS(struct tracer *t, int32_t i)
{
    pl_builder *b = t->b;
    const struct body_stmt *s = trace_stmt(t, i);
    pl_ref from = trace_view(t, &trace_stmt(t, i + 1)->view), to = trace_view(t, &s->view);
    pl_commit_smem(b);
    pl_gather_rows(b, from, trace_arg(t, s, 0, 0), to, own_bar(t, i));
    pl_barrier_wait(b, own_bar(t, i));
}

void trace_WAIT(struct tracer *t, int32_t i)
{
    const int32_t of = trace_stmt(t, i)->args[0];
    pl_barrier_wait(t->b,
                    trace_stmt(t, of)->kind == BODY_TMEM_MMA ? trace_done(t, of) : own_bar(t, of));
}

void trace_COPY_OUT(struct tracer *t, int32_t i)
{
    pl_builder *b = t->b;
    pl_ref from = trace_view(t, &trace_stmt(t, i)->view),
           to = trace_view(t, &trace_stmt(t, i + 1)->view);
    pl_commit_smem(b);
    pl_copy_smem_to_gmem(b, from, to);
    pl_wait_smem_to_gmem(b, 0);
}

void trace_ATOMIC(struct tracer *t, int32_t i)
{
    const struct body_stmt *s = trace_stmt(t, i);
    const pl_atomic_opt o = {.want_old = s->t != PL_DTYPE_NONE};
    t->val[i] =
        pl_atomic_ex(t->b, (pl_atomic)s->op, trace_view(t, &s->view), trace_arg(t, s, 0, 0), &o);
}

static void meet(struct tracer *t, pl_scope scope)
{
    if (scope == PL_SCOPE_CLUSTER)
        pl_cluster_sync(t->b);
    else
        pl_bar_sync(t->b, PL_SCOPE_CTA);
}

/* At the statement's barrier, where it has one. */
static void meet_at(struct tracer *t, int32_t i, pl_scope scope)
{
    if (t->bar[i].id == 0) {
        meet(t, scope);
        return;
    }
    pl_barrier_arrive(t->b, t->bar[i]);
    pl_barrier_wait(t->b, t->bar[i]);
}

/* An array of the CTA, which its first warpgroup sets. */
void trace_POOL(struct tracer *t, int32_t i)
{
    pl_builder *b = t->b;
    const struct body_stmt *s = trace_stmt(t, i);
    PL_IF(b, pl_eq(b, t->val[1], 0)) { pl_store(b, t->buf[i], pl_lit_i(b, s->lit_i)); }
    meet(t, PL_SCOPE_CTA);
    const pl_atomic_opt o = {0};
    (void)pl_atomic_ex(b, (pl_atomic)s->op, t->buf[i], trace_arg(t, s, 0, 0), &o);
    meet(t, PL_SCOPE_CTA);
    t->val[i] = pl_load(b, t->buf[i]);
    meet(t, PL_SCOPE_CTA);
}

void trace_REDUCE_OUT(struct tracer *t, int32_t i)
{
    pl_builder *b = t->b;
    const struct body_stmt *s = trace_stmt(t, i);
    pl_ref from = trace_view(t, &s->view), to = trace_view(t, &trace_stmt(t, i + 1)->view);
    const pl_copy_opt o = {.reduce = (pl_op2)s->op};
    pl_commit_smem(b);
    pl_copy_smem_to_gmem_ex(b, from, to, &o);
    pl_wait_smem_to_gmem(b, 0);
}

void trace_MULTICAST(struct tracer *t, int32_t i)
{
    pl_builder *b = t->b;
    const struct body_stmt *s = trace_stmt(t, i);
    const pl_copy_opt o = {.multicast_mask = (1u << t->p->cluster) - 1};
    pl_ref from = trace_view(t, &s->view);
    PL_IF(b, pl_eq(b, pl_cluster_rank(b), s->n))
    {
        pl_copy_gmem_to_smem_ex(b, from, t->buf[i], t->bar[i], &o);
    }
    pl_barrier_wait(b, t->bar[i]);
    t->val[i] = pl_load(b, t->buf[i]);
    pl_commit_smem(b);
    meet(t, PL_SCOPE_CLUSTER); /* it is read before it is sent again */
}

/* What was there is gone. */
void trace_UNION(struct tracer *t, int32_t i)
{
    pl_builder *b = t->b;
    const struct body_stmt *s = trace_stmt(t, i);
    const pl_dtype under = t->p->smem[s->view.base].t;
    pl_store(b, t->buf[i], trace_arg(t, s, 0, 0));
    t->val[i] = pl_load(b, t->buf[i]);
    pl_store(b, t->smem[s->view.base],
             under == PL_PRED ? pl_ne(b, t->val[0], t->val[0]) : pl_lit_i(b, 0));
}

void trace_PREFETCH(struct tracer *t, int32_t i)
{
    pl_prefetch(t->b, trace_view(t, &trace_stmt(t, i)->view));
}

void trace_EXCHANGE(struct tracer *t, int32_t i)
{
    pl_builder *b = t->b;
    const struct body_stmt *s = trace_stmt(t, i);
    const pl_scope scope = (pl_scope)s->n;
    pl_val wg = t->val[1];
    pl_store(b, pl_at(b, t->buf[i], wg), trace_arg(t, s, 0, 0));
    meet_at(t, i, scope);
    if (scope == PL_SCOPE_CLUSTER) {
        pl_val other = pl_rem(b, pl_add(b, pl_cluster_rank(b), s->op), t->p->cluster);
        t->val[i] = pl_load(b, pl_at(b, pl_peer(b, t->buf[i], other), wg));
    } else {
        t->val[i] =
            pl_load(b, pl_at(b, t->buf[i], pl_rem(b, pl_add(b, wg, s->op), t->p->n_warpgroups)));
    }
    meet_at(t, i, scope);
}

/* Both operands in shared memory, K innermost. */
static pl_val by_wgmma(struct tracer *t, int32_t i, pl_val x, pl_val y)
{
    pl_builder *b = t->b;
    pl_ref left = pl_at(b, t->buf[i], t->val[1]), right = pl_at(b, t->buf[i + 1], t->val[1]);
    pl_store(b, left, x);
    pl_store(b, right, y);
    pl_commit_smem(b);
    pl_wgmma_if(b, t->acc[i], left, pl_transpose(b, right), 0);
    pl_wgmma_wait(b, 0);
    return pl_acc_load(b, t->acc[i]);
}

void trace_PRODUCT(struct tracer *t, int32_t i)
{
    pl_builder *b = t->b;
    const struct body_stmt *s = trace_stmt(t, i);
    pl_ref x = trace_view(t, &s->view), y = trace_view(t, &trace_stmt(t, i + 1)->view);
    if (s->op == 1) {
        pl_val left = pl_load(b, x);
        t->val[i] = by_wgmma(t, i, left, pl_load(b, y));
        return;
    }
    pl_val left = pl_load(b, x), right = pl_load(b, pl_transpose(b, y));
    t->val[i] = pl_mma(b, left, right, is_float(s->t) ? pl_lit_f(b, 0.0) : pl_lit_i(b, 0));
}

void trace_SEND(struct tracer *t, int32_t i)
{
    pl_builder *b = t->b;
    const struct body_stmt *s = trace_stmt(t, i);
    pl_ref own = pl_at(b, t->buf[i], t->val[1]);
    pl_val next = pl_rem(b, pl_add(b, pl_cluster_rank(b), s->op), t->p->cluster);
    if (s->axis != PL_OP2_NONE) {
        pl_store(b, own, pl_lit_i(b, s->lit_i));
        meet(t, PL_SCOPE_CLUSTER);
    }
    pl_async_store_smem_at(b, pl_at(b, pl_peer(b, t->buf[i], next), t->val[1]),
                           trace_arg(t, s, 0, 0), own_bar(t, i), (pl_op2)s->axis, PL_LOC);
    pl_barrier_wait(b, own_bar(t, i));
    t->val[i] = pl_load(b, pl_at(b, t->buf[i], t->val[1]));
    pl_cluster_sync(b); /* it is read before it is sent again */
}

void trace_OUT(struct tracer *t, int32_t i)
{
    pl_store(t->b, trace_view(t, &trace_stmt(t, i)->view), trace_arg(t, trace_stmt(t, i), 0, 0));
}

/* ---- regions ---- */

void trace_FOR(struct tracer *t, int32_t i)
{
    const struct body_stmt *s = trace_stmt(t, i);
    pl_block k = pl_for_begin(t->b, pl_lit_i(t->b, s->axis), trace_arg(t, s, 0, 0),
                              pl_lit_i(t->b, s->n), PL_LOC);
    t->val[i] = pl_cast(t->b, k.iv, PL_I32);
    trace_inside(t, i, k);
}

void trace_WHILE(struct tracer *t, int32_t i)
{
    pl_builder *b = t->b;
    const struct body_stmt *s = trace_stmt(t, i);
    pl_val limit = s->args[0] == BODY_LIT ? pl_lit_i(b, s->lit_i) : trace_arg(t, s, 0, 0);
    pl_ref count = pl_regs(b, PL_I32, PL_SHAPE_SCALAR, pl_layout_auto(), 0);
    pl_block k = pl_loop_begin(b, PL_LOC);
    pl_val goes_on = pl_lt(b, pl_load(b, count), limit);
    if (s->args[1] >= 0)
        goes_on = pl_and(b, goes_on, pl_eq(b, pl_and(b, pl_load(b, t->var[s->args[1]]), 1), 0));
    if (s->op == 0)
        pl_break_unless_at(b, goes_on, PL_LOC);
    else
        pl_break_if(b, pl_not(b, goes_on));
    pl_store(b, count, pl_add(b, pl_load(b, count), 1));
    trace_inside(t, i, k);
}

void trace_IF(struct tracer *t, int32_t i)
{
    trace_inside(t, i, pl_if_begin(t->b, trace_arg(t, trace_stmt(t, i), 0, 0), PL_LOC));
}

void trace_ELSE(struct tracer *t, int32_t i) { trace_inside(t, i, pl_else_begin(t->b, PL_LOC)); }

struct staging {
    struct tracer *t;
    int32_t i;
};

static void copy_stage(pl_builder *b, pl_val step, pl_val slot, pl_bar full, void *user)
{
    const struct staging *g = user;
    g->t->val[g->i] = pl_cast(b, step, PL_I32);
    pl_copy_gmem_to_smem(b, trace_view(g->t, &trace_stmt(g->t, g->i)->view),
                         pl_at(b, g->t->buf[g->i], slot), full);
}

/* The slots of the region's first statement. */
static void trace_slot(struct tracer *t, int32_t i, int32_t owner, pl_val slot)
{
    if (!trace_stmt(t, i)->is_dropped)
        t->val[i] = pl_load(t->b, pl_at(t->b, t->buf[owner], slot));
}

void trace_PIPELINE(struct tracer *t, int32_t i)
{
    pl_builder *b = t->b;
    const struct body_stmt *s = trace_stmt(t, i);
    struct staging g = {t, i};
    const pl_pipeline_desc d = {.stages = s->n, .lag = s->op, .copies = copy_stage, .user = &g};
    pl_val n = s->args[0] == BODY_LIT ? pl_lit_i(b, s->lit_i) : trace_arg(t, s, 0, 0);
    pl_commit_smem(b);
    if (t->p->n_warpgroups > 1)
        pl_bar_sync(b, PL_SCOPE_CTA);
    pl_block k = pl_pipeline_begin(b, n, &d, PL_LOC);
    trace_slot(t, i + 1, i, k.iv2);
    trace_inside(t, i, k);
}

void trace_SLOT(struct tracer *t, int32_t i) { (void)t, (void)i; }

/* ---- blocks ---- */

static void (*const tracers[])(struct tracer *t, int32_t i) = {
#define BODY(id, weight, level) [BODY_##id] = trace_##id,
#include "tests/body.def"
#undef BODY
};

void trace_block(struct tracer *t, int32_t first, int32_t end)
{
    for (int32_t i = first; i < end; i = trace_stmt(t, i)->end)
        if (!trace_stmt(t, i)->is_dropped)
            tracers[trace_stmt(t, i)->kind](t, i);
}

/* ---- allocation ---- */

pl_shape trace_with_leading(int64_t n, pl_shape s)
{
    memmove(s.d + 1, s.d, 7 * sizeof s.d[0]);
    s.d[0] = n;
    s.rank++;
    return s;
}

static void allocate_product(struct tracer *t, int32_t i)
{
    pl_builder *b = t->b;
    const struct body_stmt *s = trace_stmt(t, i);
    const pl_dtype operand = t->p->tensors[s->view.base].t;
    for (int k = 0; k < 2; k++)
        t->buf[i + k] = pl_smem(
            b, operand,
            trace_with_leading(t->p->n_warpgroups, PL_SHAPE(k == 0 ? s->s.d[0] : s->s.d[1], s->n)),
            pl_mma_transforms(b, operand, s->n));
    t->acc[i] = pl_acc(b, s->t, s->s);
}

static void allocate_for(struct tracer *t, int32_t i)
{
    pl_builder *b = t->b;
    const struct body_stmt *s = trace_stmt(t, i);
    const pl_barrier_desc each = {.n_barriers = t->p->n_warpgroups, .n_arrivals = 1};
    if (s->kind == BODY_PRODUCT && s->op == 1)
        allocate_product(t, i);
    if (s->kind == BODY_ACC_ADD)
        trace_allocate_operands(t, i, t->p->n_warpgroups);
    if (s->kind == BODY_TMEM_MMA)
        trace_allocate_mma(t, i);
    if (s->kind == BODY_COPY_IN || s->kind == BODY_ROWS || s->kind == BODY_SEND)
        t->bar[i] = pl_barriers(b, &each);
    if (s->kind == BODY_EXCHANGE || s->kind == BODY_SEND)
        t->buf[i] = pl_smem(b, s->t, trace_with_leading(t->p->n_warpgroups, s->s), PL_SWIZZLE_NONE);
    if (s->kind == BODY_EXCHANGE && s->axis != 0)
        t->bar[i] = s->n == PL_SCOPE_CLUSTER ? pl_cluster_barrier(b, t->p->n_warpgroups)
                                             : pl_barrier(b, t->p->n_warpgroups);
    if (s->kind == BODY_POOL)
        t->buf[i] = pl_smem(b, s->t, s->s, PL_SWIZZLE_NONE);
    if (s->kind == BODY_MULTICAST) {
        t->buf[i] = pl_smem(b, s->t, s->s, s->tr);
        t->bar[i] = pl_barrier(b, 1);
    }
    if (s->kind == BODY_UNION)
        t->buf[i] = pl_union(b, t->smem[s->view.base], s->t, s->s, s->tr);
    if (s->kind == BODY_PIPELINE)
        t->buf[i] = pl_smem(b, s->t, trace_with_leading(s->n, s->s), s->tr);
}

static bool uses_array(const struct body_stmt *s, int32_t array)
{
    return !s->is_dropped && s->view.is_smem && s->view.base == array && s->view.n_steps >= 0;
}

static void allocate(struct tracer *t)
{
    const struct body *p = t->p;
    for (int32_t k = 0; k < p->n_smem; k++) {
        const struct body_smem *a = &p->smem[k];
        bool is_used = false;
        for (int32_t i = 0; i < p->n_stmts; i++)
            is_used = is_used || uses_array(trace_stmt(t, i), k);
        if (is_used)
            t->smem[k] =
                pl_smem(t->b, a->t,
                        a->has_leading ? trace_with_leading(p->n_warpgroups, a->s) : a->s, a->tr);
    }
    trace_allocate_tmem(t);
    trace_allocate_accs(t);
    trace_allocate_pipes(t);
    for (int32_t i = 0; i < p->n_stmts; i++)
        if (!trace_stmt(t, i)->is_dropped)
            allocate_for(t, i);
}

/* Shared memory starts as zeros: each unit clears its own part. */
static void clear(struct tracer *t)
{
    pl_builder *b = t->b;
    for (int32_t k = 0; k < t->p->n_smem; k++) {
        const struct body_smem *a = &t->p->smem[k];
        if (t->smem[k].id == 0)
            continue;
        pl_val zero = a->t == PL_PRED ? pl_ne(b, t->val[0], t->val[0]) : pl_lit_i(b, 0);
        pl_store(b, a->has_leading ? pl_at(b, t->smem[k], t->val[1]) : t->smem[k], zero);
    }
}

void body_trace(pl_builder *b, const struct body *p)
{
    struct tracer t = {.b = b, .p = p};
    if (p->n_warpgroups > 1)
        pl_block_warpgroups(b, p->n_warpgroups);
    if (p->cluster > 1)
        pl_block_cluster(b, p->cluster, 1, 1);
    allocate(&t);
    trace_block(&t, 0, 2); /* the ids that views and barriers take */
    clear(&t);
    trace_clear_tmem(&t);
    trace_block(&t, 2, p->n_stmts);
}
