#ifndef PL_TESTS_BODY_TRACE_H
#define PL_TESTS_BODY_TRACE_H
/* What the parts of body_trace.c share. */
#include "tests/body.h"

struct tracer {
    pl_builder *b;
    const struct body *p;
    pl_val val[BODY_MAX_STMTS];
    pl_ref var[BODY_MAX_STMTS], smem[BODY_MAX_SMEM];
    pl_ref buf[BODY_MAX_STMTS]; /* stages; what units exchange */
    pl_bar bar[BODY_MAX_STMTS];
    pl_pipe pipe[BODY_MAX_PIPES];
    pl_ref slots[BODY_MAX_PIPES], second[BODY_MAX_PIPES];
    pl_val in[BODY_MAX_PIPES], out[BODY_MAX_PIPES]; /* slot that is held */
    pl_sched sched;
    pl_ref acc[BODY_MAX_STMTS], tmem[BODY_MAX_TMEM], accs[BODY_MAX_ACCS];
};

static inline const struct body_stmt *trace_stmt(const struct tracer *t, int32_t i)
{
    return &t->p->stmts[i];
}

void trace_block(struct tracer *t, int32_t first, int32_t end);
pl_val trace_arg(struct tracer *t, const struct body_stmt *s, int k, int beside);
pl_ref trace_view(struct tracer *t, const struct body_view *v);
pl_shape trace_with_leading(int64_t n, pl_shape s);

#define BODY(id, weight, level) void trace_##id(struct tracer *t, int32_t i);
#include "tests/body.def"
#undef BODY

/* ---- body_trace_role.c ---- */

void trace_allocate_pipes(struct tracer *t);

/* ---- body_trace_tensor.c ---- */

void trace_allocate_tmem(struct tracer *t);
void trace_allocate_accs(struct tracer *t);
void trace_allocate_operands(struct tracer *t, int32_t i, int32_t n);
void trace_allocate_mma(struct tracer *t, int32_t i);
void trace_clear_tmem(struct tracer *t);
pl_bar trace_done(struct tracer *t, int32_t i); /* where a product of tensor memory arrives */
#endif
