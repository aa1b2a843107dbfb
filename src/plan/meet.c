/*
 * Barriers that order nothing are taken out of the finished steps: one that is followed by the same barrier with only registers in
 * between, and one behind which every thread only leaves.
 *
 * The lowering of each operation puts the barriers that it needs itself, without a look at the next one.
 */
#include "src/plan/lower.h"

static bool is_barrier(const struct pl_step *s)
{
    return s->op == PL_STEP_sync_threads && s->guard.id == 0;
}

/* The same threads meet at the same barrier. */
static bool is_same(const struct pl_steps *steps, const struct pl_step *a, const struct pl_step *b)
{
    for (uint32_t i = 0; i < 2; i++) {
        const struct pl_opnd *x = &steps->pool.data[a->opnds + i],
                             *y = &steps->pool.data[b->opnds + i];
        const bool is_equal =
            x->kind == y->kind &&
            (x->kind == PL_OPND_IMM ? x->imm == y->imm : x->u.reg.id == y->u.reg.id);
        if (!is_equal)
            return false;
    }
    return true;
}

/* The first step behind `at` that does more than fill registers; is_past_labels: nor is a place to jump to. */
static uint32_t next_act(const struct pl_steps *steps, uint32_t at, bool is_past_labels)
{
    for (at++; at < steps->list.n; at++) {
        const struct pl_step *s = &steps->list.data[at];
        const bool is_label = is_past_labels && s->op == PL_STEP_label;
        if (!is_label && (pl_step_infos[s->op].flags & PL_STEP_F_PURE) == 0)
            break;
    }
    return at;
}

static bool is_idle(const struct pl_steps *steps, uint32_t at)
{
    const struct pl_step *s = &steps->list.data[at];
    if (!is_barrier(s))
        return false;
    const uint32_t next = next_act(steps, at, false), end = next_act(steps, at, true);
    if (next < steps->list.n && is_barrier(&steps->list.data[next]) &&
        is_same(steps, s, &steps->list.data[next]))
        return true;
    return end < steps->list.n && steps->list.data[end].op == PL_STEP_leave &&
           steps->list.data[end].guard.id == 0;
}

void pl_lower_drop_barriers(struct pl_steps *steps)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < steps->list.n; i++)
        if (!is_idle(steps, i))
            steps->list.data[n++] = steps->list.data[i];
    steps->list.n = n;
}
