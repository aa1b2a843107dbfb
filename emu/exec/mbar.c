/*
 * mbarrier instructions. Lanes act one after the other, lowest first.
 *
 * A try_wait whose phase is not complete puts its group to sleep: the manual lets it suspend for a time of the system's choice,
 * and then end with false. Under eager it ends so only when the whole cluster sleeps (pl_async_time_out); under the other
 * policies the first one after any change does at once, so that a program without a loop around it shows. A test_wait never
 * sleeps; a loop around one lets the others run.
 *
 * Source: PTX ISA, Parallel Synchronization and Communication Instructions: mbarrier
 */
#include "emu/async/state.h"
#include "emu/exec/async.h"
#include "emu/race.h"

#include "base/debug.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- operands ---------------------------------------------------------------------------------------------------------- */

static bool place_of(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                     const struct pl_emu_arg *a, uint32_t lane, struct pl_async_place *out)
{
    uint32_t address;
    return pl_async_shared_address(w, ins, a, lane, &address) &&
           pl_async_place_at(w, lane, address, PL_MBAR_N_BYTES, PL_MBAR_N_BYTES, "mbarrier access",
                             out);
}

static enum pl_emu_status error_at(struct pl_emu_warp *w, uint32_t lane, struct pl_async_place p,
                                   enum pl_mbar_error e, const struct pl_mbar *b)
{
    return e == PL_MBAR_OK ? PL_EMU_NEXT
                           : pl_async_bar_error(pl_emu_faults(w, lane), pl_emu_where(w), p, e, b);
}

/* ---- init, inval ---------------------------------------------------------------------------------------------------------- */

static struct pl_async_bar *add_bar(struct pl_async_place p)
{
    struct pl_async_cta *c = pl_async_cta_of(p.cta);
    if (c == NULL)
        return NULL;
    if (c->n_bars == c->cap_bars) {
        uint32_t cap = c->cap_bars == 0 ? 16 : c->cap_bars * 2;
        struct pl_async_bar *bars = realloc(c->bars, cap * sizeof *bars);
        if (bars == NULL)
            return NULL;
        c->bars = bars;
        c->cap_bars = cap;
    }
    c->bars[c->n_bars] = (struct pl_async_bar){.offset_bytes = p.offset_bytes};
    return &c->bars[c->n_bars++];
}

/* The smallest range that holds every live barrier: generic accesses outside it need no look at the list. */
static void update_range(struct pl_async_cta *c)
{
    c->bars_first = UINT32_MAX;
    c->bars_end = 0;
    for (uint32_t i = 0; i < c->n_bars; i++) {
        uint32_t first = c->bars[i].offset_bytes;
        if (!c->bars[i].is_live)
            continue;
        c->bars_first = first < c->bars_first ? first : c->bars_first;
        c->bars_end = first + PL_MBAR_N_BYTES > c->bars_end ? first + PL_MBAR_N_BYTES : c->bars_end;
    }
}

static enum pl_emu_status init_lane(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                    uint32_t lane)
{
    const struct pl_emu_async *a = w->cta->cluster->async;
    struct pl_async_place p;
    if (!place_of(w, ins, &ins->args[0], lane, &p))
        return PL_EMU_FAULT;
    struct pl_async_bar *bar = pl_async_bar_find(p);
    if (bar != NULL && bar->is_live) {
        pl_d_mbar_init_live(pl_emu_faults(w, lane), pl_emu_where(w), pl_async_address(p),
                            bar->init_line);
        return PL_EMU_FAULT;
    }
    if (bar == NULL && (bar = add_bar(p)) == NULL)
        return pl_async_no_memory(w);
    struct pl_mbar b;
    enum pl_mbar_error e = pl_mbar_init(&b, (uint32_t)pl_emu_lane(w, &ins->args[1], lane));
    if (e != PL_MBAR_OK)
        return error_at(w, lane, p, e, &b);
    if (pl_race_is_on(w) && pl_race_bar_init(w, lane, p) != PL_EMU_NEXT)
        return PL_EMU_FAULT;
    uint32_t thread = pl_async_thread(w, lane);
    *bar = (struct pl_async_bar){.offset_bytes = p.offset_bytes,
                                 .is_live = true,
                                 .init_line = ins->line,
                                 .last_line = ins->line,
                                 .init_thread = thread,
                                 .init_fences = a->segments == NULL ? 0 : a->n_init_fences[thread],
                                 .init_segment = a->segments == NULL ? 0 : a->segments[thread]};
    update_range(p.cta->async);
    pl_async_bar_set(p, &b);
    pl_emu_shared_mark(p.cta, p.offset_bytes, PL_MBAR_N_BYTES);
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_mbar_init(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    enum pl_emu_status s = PL_EMU_NEXT;
    PL_EMU_FOR_LANES (lane, w->mask)
        if (s == PL_EMU_NEXT)
            s = init_lane(w, ins, lane);
    return s;
}

static enum pl_emu_status inval_lane(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                     uint32_t lane)
{
    struct pl_async_place p;
    if (!place_of(w, ins, &ins->args[0], lane, &p))
        return PL_EMU_FAULT;
    struct pl_async_bar *bar = pl_async_bar_at(w, lane, p, "mbarrier.inval");
    if (bar == NULL || (pl_race_is_on(w) &&
                        pl_race_shared(w, 1u << lane, p, PL_MBAR_N_BYTES, true) != PL_EMU_NEXT))
        return PL_EMU_FAULT;
    bar->is_live = false;
    bar->last_line = ins->line;
    update_range(p.cta->async);
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_mbar_inval(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    enum pl_emu_status s = PL_EMU_NEXT;
    PL_EMU_FOR_LANES (lane, w->mask)
        if (s == PL_EMU_NEXT)
            s = inval_lane(w, ins, lane);
    return s;
}

/* ---- expect_tx, complete_tx, arrive ------------------------------------------------------------------------------------------ */

static void note_change(struct pl_async_bar *bar, struct pl_async_place p,
                        const struct pl_emu_ins *ins, bool has_completed)
{
    bar->last_line = ins->line;
    bar->n_phases += has_completed;
    if (has_completed)
        pl_async_wake(p);
}

static enum pl_emu_status tx_lane(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                  uint32_t lane)
{
    bool is_expect = ins->ptx->form == PL_PTX_mbarrier_expect_tx, has_completed = false;
    struct pl_async_place p;
    if (!place_of(w, ins, &ins->args[0], lane, &p))
        return PL_EMU_FAULT;
    struct pl_async_bar *bar =
        pl_async_bar_at(w, lane, p, is_expect ? "mbarrier.expect_tx" : "mbarrier.complete_tx");
    if (bar == NULL || (pl_race_is_on(w) && pl_race_bar_use(w, lane, p) != PL_EMU_NEXT))
        return PL_EMU_FAULT;
    struct pl_mbar b = pl_async_bar_get(p);
    uint32_t n_bytes = (uint32_t)pl_emu_lane(w, &ins->args[1], lane);
    enum pl_mbar_error e = is_expect ? pl_mbar_expect_tx(&b, n_bytes)
                                     : pl_mbar_complete_tx(&b, n_bytes, &has_completed);
    if (e != PL_MBAR_OK)
        return error_at(w, lane, p, e, &b);
    note_change(bar, p, ins, has_completed);
    if (pl_race_is_on(w))
        pl_race_bar_arrive(w, lane, p, false, has_completed);
    pl_async_bar_set(p, &b);
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_mbar_tx(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    enum pl_emu_status s = PL_EMU_NEXT;
    PL_EMU_FOR_LANES (lane, w->mask)
        if (s == PL_EMU_NEXT)
            s = tx_lane(w, ins, lane);
    return s;
}

static struct pl_mbar_arrive arrive_op(const struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                       uint32_t lane)
{
    struct pl_mbar_arrive op = {.n_arrivals = 1};
    uint32_t value = ins->n_args > 2 ? (uint32_t)pl_emu_lane(w, &ins->args[2], lane) : 1;
    switch (ins->ptx->form) {
    case PL_PTX_mbarrier_arrive_expect_tx: op.tx_bytes = value; break;
    case PL_PTX_mbarrier_arrive_drop_expect_tx:
        op.tx_bytes = value;
        op.is_drop = true;
        break;
    default:
        op.n_arrivals = value;
        op.is_no_complete = ins->ptx->form == PL_PTX_mbarrier_arrive_no_complete ||
                            ins->ptx->form == PL_PTX_mbarrier_arrive_drop_no_complete;
        op.is_drop = ins->ptx->form == PL_PTX_mbarrier_arrive_drop ||
                     ins->ptx->form == PL_PTX_mbarrier_arrive_drop_no_complete;
        break;
    }
    return op;
}

static bool is_relaxed(const struct pl_emu_ins *ins)
{
    return pl_emu_mod(ins, PL_PTX_CAT_SEM) == PL_PTX_MOD_SEM_RELAXED;
}

static enum pl_emu_status arrive_lane(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                      uint32_t lane)
{
    struct pl_async_place p;
    if (!place_of(w, ins, &ins->args[1], lane, &p))
        return PL_EMU_FAULT;
    struct pl_async_bar *bar = pl_async_bar_at(w, lane, p, pl_ptx_infos[ins->ptx->form].mnemonic);
    if (bar == NULL || (pl_race_is_on(w) && pl_race_bar_use(w, lane, p) != PL_EMU_NEXT))
        return PL_EMU_FAULT;
    if (p.cta != w->cta && ins->args[0].kind == PL_EMU_ARG_VALUE) {
        pl_d_mbar_remote_state(pl_emu_faults(w, lane), pl_emu_where(w), pl_async_address(p));
        return PL_EMU_FAULT;
    }
    struct pl_mbar b = pl_async_bar_get(p);
    uint64_t state = pl_mbar_pack(&b);
    struct pl_mbar_arrive op = arrive_op(w, ins, lane);
    bool has_completed;
    enum pl_mbar_error e = pl_mbar_arrive(&b, &op, &has_completed);
    if (e != PL_MBAR_OK)
        return error_at(w, lane, p, e, &b);
    note_change(bar, p, ins, has_completed);
    if (pl_race_is_on(w))
        pl_race_bar_arrive(w, lane, p, !is_relaxed(ins), has_completed);
    pl_async_bar_set(p, &b);
    pl_emu_set_lane(w, &ins->args[0], lane, state);
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_mbar_arrive(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    enum pl_emu_status s = PL_EMU_NEXT;
    PL_EMU_FOR_LANES (lane, w->mask)
        if (s == PL_EMU_NEXT)
            s = arrive_lane(w, ins, lane);
    pl_emu_async_on_release(w, w->mask);
    return s;
}

enum pl_emu_status pl_emu_exec_mbar_pending_count(struct pl_emu_warp *w,
                                                  const struct pl_emu_ins *ins)
{
    PL_EMU_FOR_LANES (lane, w->mask)
        pl_emu_set_lane(w, &ins->args[0], lane,
                        pl_mbar_pending_count(pl_emu_lane(w, &ins->args[1], lane)));
    return PL_EMU_NEXT;
}

/* ---- test_wait, try_wait ------------------------------------------------------------------------------------------------------- */

/* Stages of a sleeping try_wait: it is to end with false; the phase that it waits for is over, whatever came after it. */
enum { IS_TIMED_OUT = 1, IS_OVER = 2 };

static struct pl_async_place waited(const struct pl_emu_group *g)
{
    return (struct pl_async_place){g->wait.where, (uint32_t)g->wait.a};
}

static bool poll_bar(struct pl_emu_warp *w, struct pl_emu_group *g)
{
    (void)w;
    struct pl_mbar b = pl_async_bar_get(waited(g));
    return g->stage != 0 || pl_mbar_test_parity(&b, (uint32_t)g->wait.b);
}

static bool sleeps_on(const struct pl_emu_group *g, struct pl_async_place p)
{
    return g->state == PL_EMU_GROUP_BLOCKED && g->wait.poll == poll_bar && g->stage == 0 &&
           g->wait.where == p.cta && g->wait.a == p.offset_bytes;
}

void pl_async_wake(struct pl_async_place p)
{
    for (uint32_t i = 0; i < p.cta->n_warps; i++) {
        struct pl_emu_warp *w = &p.cta->warps[i];
        struct pl_emu_group *only = w->n_groups == 1 ? &w->groups[w->turn] : NULL;
        if (only != NULL && only->state != PL_EMU_GROUP_FREE) {
            if (sleeps_on(only, p))
                only->stage = IS_OVER;
            continue;
        }
        for (uint32_t k = 0; k < PL_EMU_LANES; k++)
            if (sleeps_on(&w->groups[k], p))
                w->groups[k].stage = IS_OVER;
    }
}

static void describe_wait(struct pl_emu_warp *w, struct pl_emu_group *g, char *text, size_t n_bytes)
{
    (void)w;
    int n = snprintf(text, n_bytes, "waits for the phase of parity %u of ", (unsigned)g->wait.b);
    if (n > 0 && (size_t)n < n_bytes)
        pl_async_bar_describe(waited(g), text + n, n_bytes - (size_t)n);
}

bool pl_async_time_out(struct pl_emu_warp *w)
{
    bool has_woken = false;
    struct pl_async_warp *t = w->async;
    uint64_t now = w->cta->cluster->async->n_changes + 1;
    for (uint32_t i = 0; i < PL_EMU_LANES; i++) {
        struct pl_emu_group *g = &w->groups[i];
        if (g->state != PL_EMU_GROUP_BLOCKED || g->wait.poll != poll_bar)
            continue;
        has_woken |= g->stage == IS_OVER;
        if (g->stage == IS_OVER || t->timed_out_at[i] == now)
            continue;
        t->timed_out_at[i] = now;
        g->stage = IS_TIMED_OUT;
        has_woken = true;
    }
    return has_woken;
}

/* The group may sleep now: under eager always, else once it has had an ending with false since the last change. */
static bool may_sleep(struct pl_emu_warp *w)
{
    const struct pl_emu_async *a = w->cta->cluster->async;
    struct pl_async_warp *t = pl_async_warp_of(w);
    uint64_t *last = t == NULL ? NULL : &t->timed_out_at[w->group - w->groups];
    if (last == NULL || a->policy == PL_EMU_ASYNC_EAGER || *last == a->n_changes + 1)
        return true;
    *last = a->n_changes + 1;
    return false;
}

static bool is_try(const struct pl_emu_ins *ins)
{
    return ins->ptx->form == PL_PTX_mbarrier_try_wait ||
           ins->ptx->form == PL_PTX_mbarrier_try_wait_parity;
}

static bool has_parity(const struct pl_emu_ins *ins)
{
    return ins->ptx->form == PL_PTX_mbarrier_try_wait_parity ||
           ins->ptx->form == PL_PTX_mbarrier_test_wait_parity;
}

/* The barrier and the parity of the phase that a lane asks for. */
static bool wait_operands(struct pl_emu_warp *w, const struct pl_emu_ins *ins, uint32_t lane,
                          struct pl_async_place *p, uint32_t *parity)
{
    if (!place_of(w, ins, &ins->args[1], lane, p))
        return false;
    if (p->cta != w->cta) {
        pl_d_mbar_remote_wait(pl_emu_faults(w, lane), pl_emu_where(w), pl_async_address(*p));
        return false;
    }
    uint64_t v = pl_emu_lane(w, &ins->args[2], lane);
    *parity = has_parity(ins) ? (uint32_t)v & 1 : (uint32_t)(v >> 63);
    return pl_async_bar_at(w, lane, *p, is_try(ins) ? "mbarrier.try_wait" : "mbarrier.test_wait") !=
           NULL;
}

/* Put the group to sleep on the barrier that its first lane asks for. */
static enum pl_emu_status sleep_on(struct pl_emu_warp *w, struct pl_async_place p, uint32_t parity)
{
    if (pl_async_warp_of(w) == NULL)
        return pl_async_no_memory(w);
    w->group->wait = (struct pl_emu_wait){.poll = poll_bar,
                                          .describe = describe_wait,
                                          .a = p.offset_bytes,
                                          .b = parity,
                                          .where = p.cta};
    return PL_EMU_BLOCKED;
}

enum pl_emu_status pl_emu_exec_mbar_wait(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    uint32_t n_true = 0, parity = 0, first_parity = 0, result = 0;
    struct pl_async_place p = {0}, first = {0};
    PL_EMU_FOR_LANES (lane, w->mask) {
        if (!wait_operands(w, ins, lane, &p, &parity) ||
            (pl_race_is_on(w) && pl_race_bar_use(w, lane, p) != PL_EMU_NEXT))
            return PL_EMU_FAULT;
        if (first.cta == NULL) {
            first = p;
            first_parity = parity;
        }
        struct pl_mbar b = pl_async_bar_get(p);
        bool is_over = w->group->stage == IS_OVER && w->group->wait.a == p.offset_bytes &&
                       w->group->wait.b == parity;
        uint32_t is_complete = is_over || pl_mbar_test_parity(&b, parity);
        n_true += is_complete;
        if (is_complete && pl_race_is_on(w))
            pl_race_bar_wait(w, 1u << lane, p, !is_relaxed(ins));
        result |= is_complete << lane;
    }
    if (n_true == 0 && is_try(ins) && w->group->stage != IS_TIMED_OUT && may_sleep(w))
        return sleep_on(w, first, first_parity);
    w->group->stage = 0;
    pl_emu_set_pred(w, &ins->args[0], result);
    if (n_true != 0)
        return PL_EMU_NEXT;
    return pl_async_poke(w->cta->cluster, first) == PL_EMU_FAULT ? PL_EMU_FAULT : PL_EMU_YIELD;
}
