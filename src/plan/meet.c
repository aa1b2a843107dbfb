/*
 * Meetings that order nothing are taken out of the finished steps: a barrier that is followed by the same barrier with only registers in
 * between, one behind which every thread only leaves, and a warp's meeting before which, on every way to it, its lanes have done nothing
 * since they last met that another lane could speak for.
 *
 * The lowering of each operation puts the meetings that it needs itself, without a look at the next one.
 */
#include "src/plan/meet.h"

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

/* ---- meetings of warps ---- */

/* What the lanes of a warp may have done since they last met, so that an arrival of one of them does not speak for the others. */
enum {
    LANES_ACCESSED = 1, /* memory, or something else that a lane does for itself */
    LANES_WAITED = 2    /* for a phase, which a lane that lags behind may not have seen yet */
};

static bool is_wgmma(enum pl_step_op op)
{
    return op == PL_STEP_wgmma || op == PL_STEP_wgmma_half || op == PL_STEP_wgmma_val ||
           op == PL_STEP_wgmma_val_half || op == PL_STEP_wgmma_fence ||
           op == PL_STEP_wgmma_commit || op == PL_STEP_wgmma_wait;
}

/*
 * Products are a warp's, not a lane's: each instruction waits until all lanes execute it, and the groups and the waits for them are of the
 * executing warp (PTX ISA, wgmma.mma_async, wgmma.commit_group, wgmma.wait_group). So the lanes have passed their waits before it.
 */
static uint8_t behind(const struct pl_step *s, uint8_t lanes)
{
    const enum pl_step_op op = (enum pl_step_op)s->op;
    if ((op == PL_STEP_sync_threads || op == PL_STEP_sync_warp || op == PL_STEP_cluster_wait) &&
        s->guard.id == 0)
        return 0;
    if (is_wgmma(op))
        return lanes & (uint8_t)~LANES_WAITED;
    if (op == PL_STEP_bar_try || op == PL_STEP_bar_test)
        return lanes | LANES_WAITED;
    const bool is_neutral = (pl_step_infos[op].flags & (PL_STEP_F_PURE | PL_STEP_F_NEUTRAL)) != 0;
    return is_neutral ? lanes : lanes | LANES_ACCESSED;
}

/* at_labels: what is known at each label, from all ways to it; is_idle_meeting: of each step. False: something became known at a label. */
static bool follow_lanes(const struct pl_steps *steps, uint8_t *at_labels, bool *is_idle_meeting)
{
    bool is_settled = true;
    uint8_t lanes = 0;
    for (uint32_t i = 0; i < steps->list.n; i++) {
        const struct pl_step *s = &steps->list.data[i];
        if (s->op == PL_STEP_label || s->op == PL_STEP_jump) {
            uint8_t *there = &at_labels[steps->pool.data[s->opnds].u.index];
            is_settled &= (lanes & ~*there) == 0;
            *there |= lanes;
            if (s->op == PL_STEP_label)
                lanes = *there;
            else if (s->guard.id == 0) /* nobody goes on here */
                lanes = 0;
        }
        is_idle_meeting[i] = s->op == PL_STEP_sync_warp && s->guard.id == 0 && lanes == 0;
        lanes = behind(s, lanes);
    }
    return is_settled;
}

static bool has_warp_meetings(const struct pl_steps *steps)
{
    for (uint32_t i = 0; i < steps->list.n; i++)
        if (steps->list.data[i].op == PL_STEP_sync_warp)
            return true;
    return false;
}

/* NULL: there is none. */
static const bool *find_idle_meetings(struct pl_arena *arena, const struct pl_steps *steps)
{
    if (!has_warp_meetings(steps))
        return NULL;
    uint8_t *at_labels = pl_arena_alloc(arena, steps->n_labels + 1);
    bool *is_idle_meeting = pl_arena_array(arena, steps->list.n, sizeof *is_idle_meeting);
    while (at_labels != NULL && is_idle_meeting != NULL &&
           !follow_lanes(steps, at_labels, is_idle_meeting))
        ;
    return is_idle_meeting;
}

void pl_lower_drop_barriers(struct pl_arena *arena, struct pl_steps *steps)
{
    uint32_t n = 0;
    const bool *is_idle_meeting = find_idle_meetings(arena, steps);
    for (uint32_t i = 0; i < steps->list.n; i++)
        if (!is_idle(steps, i) && (is_idle_meeting == NULL || !is_idle_meeting[i]))
            steps->list.data[n++] = steps->list.data[i];
    steps->list.n = n;
}
