/* Roles and pipes through the public builder. */
#include "tests/body_trace.h"

#include <string.h>

/* ---- allocation ---- */

static bool has_links(const struct body *p)
{
    for (int32_t i = 0; i < p->n_stmts; i++)
        if (p->stmts[i].is_link && !p->stmts[i].is_dropped)
            return true;
    return false;
}

static pl_transforms transforms_of(pl_builder *b, const struct body_pipe *p, const pl_shape *s)
{
    return p->second.rank > 0 ? pl_mma_transforms(b, p->t, s->d[1]) : p->tr;
}

void trace_allocate_pipes(struct tracer *t)
{
    pl_builder *b = t->b;
    const struct body_walk *w = &t->p->walk;
    for (int32_t k = 0; has_links(t->p) && k < t->p->n_pipes; k++) {
        const struct body_pipe *p = &t->p->pipes[k];
        const pl_shape s = trace_with_leading(p->stages, p->s);
        const pl_pipe_desc d = {.stages = p->stages,
                                .lag = p->lag,
                                .producer = p->producer,
                                .consumer = p->consumer,
                                .n_producers = p->n_producers,
                                .n_consumers = p->n_consumers};
        t->pipe[k] = pl_pipe_make(b, &d);
        t->slots[k] =
            p->is_tmem ? pl_tmem(b, p->t, s, 0) : pl_smem(b, p->t, s, transforms_of(b, p, &p->s));
        if (p->second.rank > 0)
            t->second[k] = pl_smem(b, p->t, trace_with_leading(p->stages, p->second),
                                   transforms_of(b, p, &p->second));
    }
    for (int32_t i = 0; i < t->p->n_stmts; i++) {
        const struct body_stmt *s = trace_stmt(t, i);
        if (s->kind == BODY_ACCUMULATE && !s->is_dropped)
            t->acc[i] = pl_acc(
                b, pl_dtype_kind_of(t->p->pipes[s->n].t) == PL_KIND_FLOAT ? PL_F32 : PL_I32, s->s);
    }
    if (w->has_tiles)
        t->sched = pl_sched_static(b, w->n_outer * w->n);
}

/* ---- roles and loops ---- */

static void trace_inside(struct tracer *t, int32_t i)
{
    trace_block(t, i + 1, trace_stmt(t, i)->end);
}

static bool has_drain(const struct tracer *t, int32_t role)
{
    for (int32_t i = role; i < trace_stmt(t, role)->end; i++)
        if (trace_stmt(t, i)->kind == BODY_DRAIN && !trace_stmt(t, i)->is_dropped)
            return true;
    return false;
}

void trace_ROLE(struct tracer *t, int32_t i)
{
    const struct body_stmt *s = trace_stmt(t, i);
    pl_block k = s->axis < 0 && (s->op > 1 || s->lit_i != 0)
                     ? pl_roles_begin(t->b, s->n, s->op, PL_LOC)
                     : pl_role_begin(t->b, s->n, s->axis, PL_LOC);
    trace_inside(t, i);
    if (has_drain(t, i))
        pl_wait_smem_to_gmem(t->b, 0);
    pl_block_end(&k);
}

/* One step: whether the loop goes on, and whether the step is taken. */
static void trace_step(struct tracer *t, int32_t i, pl_val k)
{
    pl_builder *b = t->b;
    const struct body_walk *w = &t->p->walk;
    t->val[i] = pl_cast(b, k, PL_I32);
    if (w->stop < 1000)
        pl_break_if(b, pl_ge(b, t->val[i], w->stop));
    if (w->skip < 0) {
        trace_inside(t, i);
        return;
    }
    PL_IF(b, pl_ne(b, pl_rem(b, t->val[i], 3), w->skip)) { trace_inside(t, i); }
}

static void walk_nested(struct tracer *t, int32_t i, pl_val n)
{
    pl_builder *b = t->b;
    PL_FOR(b, o, 0, t->p->walk.n_outer)
    {
        pl_val first = pl_mul(b, pl_cast(b, o, PL_I32), n);
        PL_FOR(b, k, 0, n) { trace_step(t, i, pl_add(b, first, pl_cast(b, k, PL_I32))); }
    }
}

static void walk_while(struct tracer *t, int32_t i, pl_val n)
{
    pl_builder *b = t->b;
    pl_ref next = pl_regs(b, PL_I32, PL_SHAPE_SCALAR, pl_layout_auto(), 0);
    PL_LOOP(b)
    {
        pl_val k = pl_load(b, next);
        pl_break_if(b, pl_ge(b, k, pl_mul(b, n, t->p->walk.n_outer)));
        pl_store(b, next, pl_add(b, k, 1));
        trace_step(t, i, k);
    }
}

void trace_WALK(struct tracer *t, int32_t i)
{
    pl_builder *b = t->b;
    const struct body_stmt *s = trace_stmt(t, i);
    const struct body_walk *w = &t->p->walk;
    pl_val n = w->count == BODY_LIT ? pl_cast(b, w->n, PL_I32) : trace_arg(t, s, 0, 0);
    if (w->has_tiles)
        PL_TILES(b, k, t->sched) { trace_step(t, i, k); }
    else if (s->op == 0)
        walk_nested(t, i, n);
    else if (s->op == 1)
        PL_FOR(b, k, 0, pl_mul(b, n, w->n_outer)) { trace_step(t, i, k); }
    else
        walk_while(t, i, n);
}

/* ---- slots ---- */

void trace_PRODUCE(struct tracer *t, int32_t i)
{
    const int32_t pipe = trace_stmt(t, i)->n;
    pl_block k = pl_produce_begin(t->b, t->pipe[pipe], PL_LOC);
    t->out[pipe] = k.iv;
    trace_inside(t, i);
    pl_block_end(&k);
}

void trace_CONSUME(struct tracer *t, int32_t i)
{
    const int32_t pipe = trace_stmt(t, i)->n;
    pl_block k = pl_consume_begin(t->b, t->pipe[pipe], PL_LOC);
    t->in[pipe] = k.iv;
    trace_inside(t, i);
    if (t->p->pipes[pipe].is_tmem)
        pl_wait_load_tmem(t->b); /* the next product overwrites it */
    pl_block_end(&k);
}

static pl_ref held(struct tracer *t, int32_t pipe)
{
    return pl_at(t->b, t->slots[pipe], t->in[pipe]);
}

static pl_ref held_second(struct tracer *t, int32_t pipe)
{
    return pl_transpose(t->b, pl_at(t->b, t->second[pipe], t->in[pipe]));
}

void trace_FILL(struct tracer *t, int32_t i)
{
    pl_builder *b = t->b;
    const struct body_stmt *s = trace_stmt(t, i);
    pl_copy_gmem_to_smem(b, trace_view(t, &s->view), pl_at(b, t->slots[s->n], t->out[s->n]),
                         pl_full_now(b));
    if (t->p->pipes[s->n].second.rank > 0)
        pl_copy_gmem_to_smem(b, trace_view(t, &trace_stmt(t, i + 1)->view),
                             pl_at(b, t->second[s->n], t->out[s->n]), pl_full_now(b));
}

void trace_PUT(struct tracer *t, int32_t i)
{
    const struct body_stmt *s = trace_stmt(t, i);
    pl_ref slot = pl_at(t->b, t->slots[s->n], t->out[s->n]);
    if (t->p->pipes[s->n].n_producers > 1)
        slot = pl_at(t->b, slot, pl_sub(t->b, t->val[1], s->op));
    pl_store(t->b, slot, trace_arg(t, s, 0, 0));
    if (t->p->pipes[s->n].consumer == PL_BY_COPY_OUT)
        pl_commit_smem(t->b);
}

void trace_TAKE(struct tracer *t, int32_t i)
{
    const struct body_stmt *s = trace_stmt(t, i);
    const bool is_tmem = t->p->pipes[s->n].is_tmem;
    t->val[i] = is_tmem ? pl_async_load_tmem(t->b, held(t, s->n)) : pl_load(t->b, held(t, s->n));
    if (is_tmem && s->op == 1)
        pl_wait_load_tmem(t->b);
}

/* The first product of a group overwrites. */
static pl_val adds(struct tracer *t, const struct body_stmt *s)
{
    return s->args[0] >= 0 ? pl_gt(t->b, t->val[s->args[0]], 0) : pl_lit_i(t->b, 0);
}

void trace_MULTIPLY(struct tracer *t, int32_t i)
{
    const struct body_stmt *s = trace_stmt(t, i);
    const pl_mma_opt o = {.accumulate = adds(t, s)};
    pl_ref to = pl_at(t->b, t->slots[s->op], t->out[s->op]), x = held(t, s->n);
    pl_tcgen05_mma(t->b, to, x, held_second(t, s->n), &o);
}

void trace_ACCUMULATE(struct tracer *t, int32_t i)
{
    const struct body_stmt *s = trace_stmt(t, i);
    pl_val flag = adds(t, s);
    pl_ref x = held(t, s->n);
    pl_wgmma_if(t->b, t->acc[i], x, held_second(t, s->n), flag);
}

void trace_SUM(struct tracer *t, int32_t i)
{
    t->val[i] = pl_acc_load(t->b, t->acc[trace_stmt(t, i)->n]);
}

void trace_DRAIN(struct tracer *t, int32_t i)
{
    const struct body_stmt *s = trace_stmt(t, i);
    pl_ref from = held(t, s->n);
    pl_copy_smem_to_gmem(t->b, from, trace_view(t, &s->view));
}
