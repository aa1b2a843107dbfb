/* Statements of tensor memory, and of accumulators in registers, through the public builder. */
#include "tests/body_trace.h"

#include <string.h>

/* ---- allocation ---- */

static bool is_used(const struct body *p, int32_t array)
{
    for (int32_t i = 0; i < p->n_stmts; i++)
        if (!p->stmts[i].is_dropped && p->stmts[i].view.is_tmem && p->stmts[i].view.base == array)
            return true;
    return false;
}

void trace_allocate_tmem(struct tracer *t)
{
    for (int32_t k = 0; k < t->p->n_tmem; k++)
        if (is_used(t->p, k))
            t->tmem[k] = pl_tmem(t->b, t->p->tmem[k].t, body_tmem_shape(t->p, k), t->p->is_pair);
}

static pl_dtype operand_type(const struct tracer *t, int32_t i)
{
    return t->p->tensors[trace_stmt(t, i + 1)->view.base].t;
}

static bool is_issued_by_unit(const struct tracer *t, int32_t i)
{
    return !t->p->tmem[trace_stmt(t, i)->view.base].is_shared;
}

/* Those of the SLOTs behind the statement, n times. */
void trace_allocate_operands(struct tracer *t, int32_t i, int32_t n)
{
    const pl_dtype operand = operand_type(t, i);
    for (int k = 1; k <= 2; k++) {
        const pl_shape *shape = &trace_stmt(t, i + k)->view.s;
        t->buf[i + k] = pl_smem(t->b, operand, trace_with_leading(n, *shape),
                                pl_mma_transforms(t->b, operand, shape->d[1]));
    }
}

/* Of each unit where it issues for itself. */
void trace_allocate_mma(struct tracer *t, int32_t i)
{
    pl_builder *b = t->b;
    const struct body_stmt *s = trace_stmt(t, i);
    const pl_dtype operand = operand_type(t, i);
    const int n = is_issued_by_unit(t, i) ? t->p->n_warpgroups : 1;
    trace_allocate_operands(t, i, n);
    if (s->op >= BODY_TMEM_BY_THREADS)
        t->buf[i] = pl_tmem(b, operand, trace_with_leading(n, trace_stmt(t, i + 1)->view.s), 0);
    const pl_barrier_desc done = {.n_barriers = n, .n_arrivals = 1};
    const pl_barrier_desc full = {
        .n_barriers = n, .n_arrivals = s->op == BODY_BY_COPY || s->op == BODY_TMEM_BY_COPY ? 2 : 1};
    t->bar[i] = pl_barriers(b, &done);
    t->bar[i + 1] = pl_barriers(b, &full);
}

/* Zeros. What is the CTA's, its first warpgroup clears. */
void trace_clear_tmem(struct tracer *t)
{
    pl_builder *b = t->b;
    bool has_shared = false;
    for (int32_t k = 0; k < t->p->n_tmem; k++) {
        const struct body_tmem *a = &t->p->tmem[k];
        pl_val zero = pl_cast(b, 0, a->t);
        for (int i = 0; t->tmem[k].id != 0 && !a->is_shared && i < a->n_slots; i++)
            pl_async_store_tmem(
                b, pl_at(b, t->tmem[k], pl_add(b, pl_mul(b, t->val[1], a->n_slots), i)), zero);
        if (t->tmem[k].id == 0 || !a->is_shared)
            continue;
        has_shared = true;
        PL_IF(b, pl_eq(b, t->val[1], 0))
        {
            for (int i = 0; i < a->n_slots; i++)
                pl_async_store_tmem(b, pl_at(b, t->tmem[k], i), zero);
            pl_commit_tmem(b);
        }
    }
    if (has_shared)
        pl_bar_sync(b, PL_SCOPE_CTA);
}

/* ---- statements ---- */

void trace_TMEM_STORE(struct tracer *t, int32_t i)
{
    const struct body_stmt *s = trace_stmt(t, i);
    pl_ref to = trace_view(t, &s->view);
    pl_wait_load_tmem(t->b);
    pl_async_store_tmem(t->b, to, trace_arg(t, s, 0, 0));
    if (s->op != 0)
        pl_commit_tmem(t->b);
}

void trace_TMEM_LOAD(struct tracer *t, int32_t i)
{
    pl_builder *b = t->b;
    const struct body_stmt *s = trace_stmt(t, i);
    t->val[i] = pl_async_load_tmem(b, trace_view(t, &s->view));
    if (s->op == 1)
        pl_wait_load_tmem(b);
    if (s->op != 2)
        return;
    pl_ref r = pl_regs(b, s->t, s->s, pl_layout_of(PL_LAYOUT_TCGEN05), pl_cast(b, 0, s->t));
    pl_store(b, r, t->val[i]);
    t->val[i] = pl_load(b, r);
}

static pl_ref slot(struct tracer *t, int32_t i, pl_ref all)
{
    return pl_at(t->b, all, is_issued_by_unit(t, i) ? t->val[1] : pl_lit_i(t->b, 0));
}

static pl_bar own(struct tracer *t, int32_t i, pl_bar all)
{
    return is_issued_by_unit(t, i) && t->p->n_warpgroups > 1 ? pl_bar_at(t->b, all, t->val[1])
                                                             : all;
}

pl_bar trace_done(struct tracer *t, int32_t i) { return own(t, i, t->bar[i]); }

/* Both operands, and the first of them perhaps in tensor memory. */
static pl_ref bring(struct tracer *t, int32_t i, pl_ref y)
{
    pl_builder *b = t->b;
    const enum body_way way = (enum body_way)trace_stmt(t, i)->op;
    pl_ref from = trace_view(t, &trace_stmt(t, i + 1)->view),
           y_from = trace_view(t, &trace_stmt(t, i + 2)->view), x = slot(t, i, t->buf[i + 1]),
           in_tmem = {0};
    pl_bar full = own(t, i, t->bar[i + 1]);
    if (way >= BODY_TMEM_BY_THREADS)
        in_tmem = slot(t, i, t->buf[i]);
    pl_commit_smem(b);
    pl_copy_gmem_to_smem(b, y_from, y, full);
    if (way == BODY_BY_COPY || way == BODY_TMEM_BY_COPY)
        pl_copy_gmem_to_smem(b, from, x, full);
    else if (way == BODY_BY_THREADS)
        pl_store(b, x, pl_load(b, from));
    else
        pl_async_store_tmem(b, in_tmem, pl_load(b, from));
    if (way == BODY_TMEM_BY_THREADS)
        pl_commit_tmem(b);
    pl_barrier_wait(b, full);
    if (way == BODY_BY_THREADS)
        pl_commit_smem(b);
    if (way == BODY_TMEM_BY_COPY)
        pl_copy_smem_to_tmem(b, x, in_tmem);
    return way >= BODY_TMEM_BY_THREADS ? in_tmem : x;
}

static void issue(struct tracer *t, int32_t i, pl_ref sum, pl_ref x, pl_ref y, const pl_mma_opt *o)
{
    pl_tcgen05_mma(t->b, sum, x, pl_transpose(t->b, y), o);
    pl_tcgen05_commit(t->b, trace_done(t, i));
}

void trace_TMEM_MMA(struct tracer *t, int32_t i)
{
    pl_builder *b = t->b;
    const struct body_stmt *s = trace_stmt(t, i);
    pl_ref y = slot(t, i, t->buf[i + 2]), x = bring(t, i, y);
    pl_mma_opt o = {.accumulate = pl_lit_i(b, s->axis)};
    if (s->args[0] >= 0)
        o.accumulate = trace_arg(t, s, 0, 0);
    pl_wait_load_tmem(b);
    pl_commit_tmem(b);
    if (t->p->is_pair)
        pl_cluster_sync(b); /* both have theirs */
    else if (!is_issued_by_unit(t, i))
        pl_bar_sync(b, PL_SCOPE_CTA); /* the others have read */
    pl_ref sum = trace_view(t, &s->view);
    if (t->p->is_pair) {
        o.is_pair = 1;
        PL_IF(b, pl_eq(b, pl_rem(b, pl_cluster_rank(b), 2), 0)) { issue(t, i, sum, x, y, &o); }
    } else {
        issue(t, i, sum, x, y, &o);
    }
    if (s->n == 0)
        pl_barrier_wait(b, trace_done(t, i));
}

/* ---- accumulators of wgmma ---- */

static bool adds_to(const struct body *p, int32_t acc)
{
    for (int32_t i = 0; i < p->n_stmts; i++) {
        const struct body_stmt *s = &p->stmts[i];
        const bool is_use =
            s->kind == BODY_ACC_ADD || s->kind == BODY_ACC_LOAD || s->kind == BODY_ACC_INIT;
        if (is_use && !s->is_dropped && s->n == acc)
            return true;
    }
    return false;
}

void trace_allocate_accs(struct tracer *t)
{
    for (int32_t k = 0; k < t->p->n_accs; k++)
        if (adds_to(t->p, k))
            t->accs[k] = pl_acc(t->b, t->p->accs[k].t, PL_SHAPE(64, t->p->accs[k].n_columns));
}

/* The operands of a statement are written again only when its own products have read them. */
void trace_ACC_ADD(struct tracer *t, int32_t i)
{
    pl_builder *b = t->b;
    const struct body_stmt *s = trace_stmt(t, i);
    pl_ref left = pl_at(b, t->buf[i + 1], t->val[1]), right = pl_at(b, t->buf[i + 2], t->val[1]);
    pl_val x = pl_load(b, trace_view(t, &trace_stmt(t, i + 1)->view)),
           y = pl_load(b, trace_view(t, &trace_stmt(t, i + 2)->view));
    pl_wgmma_wait(b, 0);
    if (s->op == 0)
        pl_store(b, left, x);
    pl_store(b, right, y);
    pl_commit_smem(b);
    if (s->op == 1)
        pl_wgmma_val(b, t->accs[s->n], x, pl_transpose(b, right));
    else
        pl_wgmma_if(b, t->accs[s->n], left, pl_transpose(b, right),
                    s->args[0] >= 0 ? trace_arg(t, s, 0, 0) : pl_lit_i(b, s->axis));
    if (s->lit_i >= 0)
        pl_wgmma_wait(b, (int32_t)s->lit_i);
}

void trace_ACC_LOAD(struct tracer *t, int32_t i)
{
    t->val[i] = pl_acc_load(t->b, t->accs[trace_stmt(t, i)->n]);
}

void trace_ACC_INIT(struct tracer *t, int32_t i)
{
    const struct body_stmt *s = trace_stmt(t, i);
    pl_acc_init(t->b, t->accs[s->n], trace_arg(t, s, 0, 0));
}
