/* PTX ISA, "Parallel Synchronization and Communication Instructions": bar, barrier, bar.warp.sync, membar, fence. */
#include "emu/barrier.h"
#include "emu/exec/control.h"

#include "base/diag.h"
#include "emu/async.h"
#include "emu/faults.h"
#include "emu/race.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Stages of a group at a barrier. */
enum { ARRIVED = 1, RELEASED = 2 };

/* What lanes of a warp add to a count. A warp that has come whole counts as 32, as on hardware, where counts are of warps. */
static uint32_t weight(const struct pl_emu_barrier *b, uint32_t came, uint32_t live)
{
    bool is_whole = came != 0 && (came | ~live) == PL_EMU_ALL_LANES;
    if (b->n_expected != 0)
        return is_whole ? PL_EMU_LANES : (uint32_t)__builtin_popcount(came);
    return (uint32_t)__builtin_popcount(came & live);
}

static uint32_t n_arrived(const struct pl_emu_cta *cta, const struct pl_emu_barrier *b)
{
    uint32_t n = b->n_again;
    for (uint32_t i = 0; i < cta->n_warps; i++)
        n += weight(b, b->arrived[i], cta->warps[i].live);
    return n;
}

static bool poll_released(struct pl_emu_warp *w, struct pl_emu_group *g)
{
    (void)w;
    return g->stage == RELEASED;
}

static void describe_barrier(struct pl_emu_warp *w, struct pl_emu_group *g, char *text,
                             size_t n_bytes)
{
    const struct pl_emu_barrier *b = (const struct pl_emu_barrier *)(uintptr_t)g->wait.a;
    uint32_t want = b->n_expected != 0 ? b->n_expected : w->cta->n_live;
    snprintf(text, n_bytes, "barrier %u, phase %u: %u of %u threads have arrived",
             (unsigned)(b - w->cta->barriers), b->phase, n_arrived(w->cta, b), want);
}

static bool is_at(const struct pl_emu_group *g, const struct pl_emu_barrier *b)
{
    return g->state != PL_EMU_GROUP_FREE && g->wait.poll == poll_released && g->stage == ARRIVED &&
           g->wait.a == (uintptr_t)b;
}

/* The phase is over: every group that sleeps on the barrier takes the reduction with it and goes on. */
static void complete(struct pl_emu_cta *cta, struct pl_emu_barrier *b)
{
    const uint32_t number = (uint32_t)(b - cta->barriers);
    const bool has_race = cta->cluster->race != NULL;
    if (has_race)
        pl_race_barrier_end(cta, number);
    for (uint32_t i = 0; i < cta->n_warps && b->n_waiting != 0; i++)
        for (uint32_t k = 0; k < PL_EMU_LANES && b->n_waiting != 0; k++) {
            struct pl_emu_group *g = &cta->warps[i].groups[k];
            if (!is_at(g, b))
                continue;
            g->stage = RELEASED;
            if (has_race)
                pl_race_barrier_pass(&cta->warps[i], g->mask, number);
            g->wait.b = (uint64_t)b->n_true << 32 | b->n_voted;
            b->n_waiting--;
        }
    for (uint32_t i = 0; i < cta->n_warps; i++)
        if (b->arrived[i] != 0)
            pl_emu_async_on_release(&cta->warps[i], b->arrived[i]);
    uint32_t phase = b->phase + 1;
    memset(b, 0, sizeof *b);
    b->phase = phase;
}

static bool is_complete(const struct pl_emu_cta *cta, const struct pl_emu_barrier *b)
{
    return b->is_busy && n_arrived(cta, b) >= (b->n_expected != 0 ? b->n_expected : cta->n_live);
}

void pl_emu_barriers_on_exit(struct pl_emu_cta *cta)
{
    for (uint32_t i = 0; i < PL_EMU_N_BARRIERS; i++)
        if (is_complete(cta, &cta->barriers[i]))
            complete(cta, &cta->barriers[i]);
}

/* ---- arriving --------------------------------------------------------------------------------------------------------------------------- */

struct arrival {
    const struct pl_emu_arg *number, *count; /* count NULL: all threads */
    const struct pl_emu_arg *pred;           /* red */
    bool is_sync;
};

/* Barrier number and count of the first lane, checked; NULL: fault raised. *n_expected 0: all threads. */
static struct pl_emu_barrier *barrier_of(struct pl_emu_warp *w, const struct arrival *a,
                                         uint32_t *n_expected)
{
    uint32_t lane = pl_emu_first_lane(w);
    uint64_t number = (uint32_t)pl_emu_lane(w, a->number, lane);
    if (number >= PL_EMU_N_BARRIERS) {
        pl_d_emu_barrier_number(pl_emu_faults(w, lane), pl_emu_where(w), number);
        return NULL;
    }
    struct pl_emu_cta *cta = w->cta;
    uint64_t n = a->count != NULL ? (uint32_t)pl_emu_lane(w, a->count, lane) : 0;
    const char *why = NULL;
    if (a->count != NULL && (n == 0 || n % PL_EMU_LANES != 0))
        why = "which is not a multiple of 32";
    else if (n > (uint64_t)cta->n_warps * PL_EMU_LANES)
        why = "more than the CTA has";
    if (why != NULL) {
        pl_d_emu_barrier_count(pl_emu_faults(w, lane), pl_emu_where(w), (unsigned)number, n, why);
        return NULL;
    }
    *n_expected = n == (uint64_t)cta->n_warps * PL_EMU_LANES ? 0 : (uint32_t)n;
    return &cta->barriers[number];
}

/* The active lanes arrive. BLOCKED: they wait (is_sync); NEXT: the phase is over, or they need not wait. */
static enum pl_emu_status arrive(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                 const struct arrival *a)
{
    struct pl_emu_group *g = w->group;
    uint32_t n_expected = 0;
    enum pl_emu_status s = ins->is_for_warp ? pl_emu_group_converge(w, ins) : PL_EMU_NEXT;
    if (s != PL_EMU_NEXT)
        return s;
    struct pl_emu_barrier *b = barrier_of(w, a, &n_expected);
    if (b == NULL)
        return PL_EMU_FAULT;
    const char *differs = !b->is_busy                                    ? NULL
                          : b->n_expected != n_expected                  ? "another thread count"
                          : b->is_red != (a->pred != NULL) && a->is_sync ? "another operation"
                                                                         : NULL;
    if (differs != NULL) {
        pl_d_emu_barrier_differs(pl_emu_faults(w, pl_emu_first_lane(w)), pl_emu_where(w),
                                 (unsigned)(b - w->cta->barriers), differs, b->line);
        return PL_EMU_FAULT;
    }
    if (!b->is_busy) {
        b->is_busy = true;
        b->n_expected = n_expected;
        b->is_red = a->pred != NULL;
        b->line = ins->line;
    }
    /* PTX ISA, bar: each arrival adds to the count, a warp's second one in a phase too (arrive first, then sync). */
    b->n_again += weight(b, b->arrived[w->index] & w->mask, w->live);
    b->arrived[w->index] |= w->mask;
    if (pl_race_is_on(w))
        pl_race_barrier_arrive(w, (uint32_t)(b - w->cta->barriers));
    if (a->pred != NULL) {
        b->n_voted += (uint32_t)__builtin_popcount(w->mask);
        b->n_true += (uint32_t)__builtin_popcount(pl_emu_pred(w, a->pred) & w->mask);
    }
    g->wait = (struct pl_emu_wait){
        .poll = poll_released, .describe = describe_barrier, .a = (uintptr_t)b};
    g->wait.b = (uint64_t)b->n_true << 32 | b->n_voted;
    if (is_complete(w->cta, b)) {
        complete(w->cta, b);
        if (a->is_sync && pl_race_is_on(w))
            pl_race_barrier_pass(w, w->mask, (uint32_t)(b - w->cta->barriers));
        return PL_EMU_NEXT;
    }
    if (!a->is_sync)
        return PL_EMU_NEXT;
    g->stage = ARRIVED;
    b->n_waiting++;
    return PL_EMU_BLOCKED;
}

enum pl_emu_status pl_emu_exec_bar_sync(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    if (w->group->stage == RELEASED)
        return PL_EMU_NEXT;
    struct arrival a = {
        .number = &ins->args[0], .count = ins->n_args > 1 ? &ins->args[1] : NULL, .is_sync = true};
    return arrive(w, ins, &a);
}

enum pl_emu_status pl_emu_exec_bar_arrive(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    struct arrival a = {.number = &ins->args[0], .count = &ins->args[1]};
    return arrive(w, ins, &a);
}

/* d, number(, count), p */
enum pl_emu_status pl_emu_exec_bar_red(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    struct arrival a = {.number = &ins->args[1],
                        .count = ins->n_args > 3 ? &ins->args[2] : NULL,
                        .pred = &ins->args[ins->n_args - 1],
                        .is_sync = true};
    if (w->group->stage != RELEASED) {
        enum pl_emu_status s = arrive(w, ins, &a);
        if (s != PL_EMU_NEXT)
            return s;
    }
    uint32_t n_true = (uint32_t)(w->group->wait.b >> 32), n_voted = (uint32_t)w->group->wait.b;
    if (ins->args[0].bits != 1) {
        PL_EMU_FOR_LANES (lane, w->mask)
            pl_emu_set_lane(w, &ins->args[0], lane, n_true);
        return PL_EMU_NEXT;
    }
    bool is_and = pl_emu_mod(ins, PL_PTX_CAT_BOOL) == PL_PTX_MOD_BOOL_AND;
    bool result = is_and ? n_true == n_voted : n_true != 0;
    pl_emu_set_pred(w, &ins->args[0], result ? PL_EMU_ALL_LANES : 0);
    return PL_EMU_NEXT;
}

/* ---- fences ----------------------------------------------------------------------------------------------------------------------------- */

/* Only clusters on other threads can tell: a host fence serves every scope. */
enum pl_emu_status pl_emu_exec_fence(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    (void)ins;
    atomic_thread_fence(memory_order_seq_cst);
    pl_emu_async_on_release(w, w->mask);
    if (pl_race_is_on(w))
        pl_race_fence(w);
    return PL_EMU_NEXT;
}
