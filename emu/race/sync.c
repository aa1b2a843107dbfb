/*
 * Barriers of all kinds in the race check: who arrives gives what it knows, who passes takes what was given for its phase.
 */
#include "emu/race/state.h"

#include <stdlib.h>
#include <string.h>

/* ---- warps, CTAs, clusters ------------------------------------------------------------------------------------------- */

void pl_race_warp_sync(struct pl_emu_warp *w, uint32_t lanes)
{
    struct pl_race_set set;
    if ((lanes & (lanes - 1)) == 0)
        return;
    pl_race_release(w, lanes, &set);
    pl_race_acquire(w, lanes, &set);
    pl_race_set_drop(&set);
}

static void give(struct pl_emu_warp *w, uint32_t lanes, struct pl_race_set *to)
{
    struct pl_race_set set;
    pl_race_release(w, lanes, &set);
    pl_race_set_join(pl_race_of(w), to, &set);
    pl_race_set_drop(&set);
}

void pl_race_barrier_arrive(struct pl_emu_warp *w, uint32_t i)
{
    give(w, w->mask, &pl_race_of(w)->ctas[w->cta->rank].barriers[i]);
}

void pl_race_barrier_end(struct pl_emu_cta *cta, uint32_t i)
{
    struct pl_race_cta *c = &cta->cluster->race->ctas[cta->rank];
    pl_race_set_drop(&c->ended[i]);
    c->ended[i] = c->barriers[i];
    memset(&c->barriers[i], 0, sizeof c->barriers[i]);
}

void pl_race_barrier_pass(struct pl_emu_warp *w, uint32_t lanes, uint32_t i)
{
    pl_race_acquire(w, lanes, &pl_race_of(w)->ctas[w->cta->rank].ended[i]);
}

/* What was known at the last fence. */
static void give_fenced(struct pl_emu_warp *w, uint32_t lane, struct pl_race_set *to)
{
    struct pl_race_set set;
    pl_race_release_fenced(w, lane, &set);
    pl_race_set_join(pl_race_of(w), to, &set);
    pl_race_set_drop(&set);
}

/* The mbarriers that active lanes have initialised. PTX ISA, fence.mbarrier_init: "applied only to the prior mbarrier.init
 * operations executed by the same thread", and ordered with whoever passes the barrier.cluster behind it. */
static void advance_inits(struct pl_emu_warp *w, int from, int to)
{
    struct pl_emu_race *r = pl_race_of(w);
    for (uint32_t i = 0; i < r->n_bars; i++) {
        struct pl_race_bar *b = &r->bars[i];
        if ((int)b->init == from && b->init_warp == pl_race_index(w) &&
            (w->mask >> b->init_lane & 1) != 0)
            b->init = to;
    }
}

void pl_race_fence_init(struct pl_emu_warp *w)
{
    advance_inits(w, PL_RACE_INIT_NEW, PL_RACE_INIT_FENCED);
}

static void settle_inits(struct pl_emu_race *r)
{
    for (uint32_t i = 0; i < r->n_bars; i++) {
        struct pl_race_bar *b = &r->bars[i];
        if (b->init != PL_RACE_INIT_TOLD)
            continue;
        pl_race_settle_write(&r->ctas[b->key >> 32].shared, (uint32_t)b->key, PL_MBAR_N_BYTES);
        b->init = PL_RACE_INIT_OLD;
    }
}

/* Relaxed, it passes on what a fence before it has released. */
void pl_race_cluster_arrive(struct pl_emu_warp *w, bool is_release)
{
    struct pl_emu_race *r = pl_race_of(w);
    if (is_release)
        give(w, w->mask, &r->gathering);
    else
        PL_EMU_FOR_LANES (lane, w->mask)
            give_fenced(w, lane, &r->gathering);
    advance_inits(w, PL_RACE_INIT_FENCED, PL_RACE_INIT_TOLD);
}

void pl_race_cluster_end(struct pl_emu_cluster *cl)
{
    struct pl_emu_race *r = cl->race;
    settle_inits(r);
    pl_race_set_drop(&r->ended);
    r->ended = r->gathering;
    memset(&r->gathering, 0, sizeof r->gathering);
}

void pl_race_cluster_wait(struct pl_emu_warp *w, bool is_acquire)
{
    if (is_acquire)
        pl_race_acquire(w, w->mask, &pl_race_of(w)->ended);
}

/* ---- mbarriers --------------------------------------------------------------------------------------------------------- */

static uint64_t key_of(struct pl_async_place p)
{
    return (uint64_t)p.cta->rank << 32 | p.offset_bytes;
}

static struct pl_race_bar *bar_of(struct pl_emu_race *r, struct pl_async_place p)
{
    for (uint32_t i = 0; i < r->n_bars; i++)
        if (r->bars[i].key == key_of(p))
            return &r->bars[i];
    if (r->n_bars == r->cap_bars) {
        uint32_t cap = r->cap_bars == 0 ? 16 : r->cap_bars * 2;
        struct pl_race_bar *grown = realloc(r->bars, cap * sizeof *grown);
        if (grown == NULL) {
            r->is_lost = true;
            return NULL;
        }
        r->bars = grown;
        r->cap_bars = cap;
    }
    r->bars[r->n_bars] = (struct pl_race_bar){.key = key_of(p)};
    return &r->bars[r->n_bars++];
}

enum pl_emu_status pl_race_bar_init(struct pl_emu_warp *w, uint32_t lane, struct pl_async_place p)
{
    struct pl_race_bar *b = bar_of(pl_race_of(w), p);
    if (b == NULL)
        return pl_async_no_memory(w);
    pl_race_set_drop(&b->now);
    pl_race_set_drop(&b->done);
    b->init = PL_RACE_INIT_NEW;
    b->init_warp = pl_race_index(w);
    b->init_lane = lane;
    return pl_race_shared(w, 1u << lane, p, PL_MBAR_N_BYTES, true);
}

static void end_phase(struct pl_race_bar *b) { pl_race_set_copy(&b->done, &b->now); }

void pl_race_bar_arrive(struct pl_emu_warp *w, uint32_t lane, struct pl_async_place p,
                        bool is_release, bool has_completed)
{
    struct pl_race_bar *b = bar_of(pl_race_of(w), p);
    if (b == NULL)
        return;
    if (is_release)
        give(w, 1u << lane, &b->now);
    else
        give_fenced(w, lane, &b->now);
    if (has_completed)
        end_phase(b);
}

void pl_race_signal(struct pl_async_op *op, bool has_completed)
{
    struct pl_emu_race *r = pl_race_of(op->w);
    struct pl_race_bar *b = bar_of(r, op->signal);
    if (b == NULL || op->race_slot == 0)
        return;
    pl_race_set_join(r, &b->now, &r->slots[op->race_slot - 1].end);
    if (has_completed)
        end_phase(b);
}

void pl_race_bar_wait(struct pl_emu_warp *w, uint32_t lanes, struct pl_async_place p,
                      bool is_acquire)
{
    struct pl_race_bar *b = bar_of(pl_race_of(w), p);
    if (b != NULL && is_acquire)
        pl_race_acquire(w, lanes, &b->done);
    else if (b != NULL)
        pl_race_see(w, lanes, &b->done);
}
