/*
 * mbarrier objects in shared memory: which places hold a live one, and how operations signal them. The words themselves are
 * in shared memory in a chip's layout (emu/async/mbar.h), so a raw copy of one looks right.
 */
#include "emu/async/state.h"
#include "emu/race.h"

#include "base/debug.h"

#include <stdio.h>
#include <string.h>

struct pl_mbar pl_async_bar_get(struct pl_async_place p)
{
    uint64_t word;
    memcpy(&word, pl_async_data(p), sizeof word);
    return pl_mbar_unpack(word);
}

void pl_async_bar_set(struct pl_async_place p, const struct pl_mbar *b)
{
    uint64_t word = pl_mbar_pack(b);
    memcpy(pl_async_data(p), &word, sizeof word);
    p.cta->cluster->async->n_changes++;
}

struct pl_async_bar *pl_async_bar_find(struct pl_async_place p)
{
    struct pl_async_cta *c = p.cta->async;
    for (uint32_t i = 0; c != NULL && i < c->n_bars; i++)
        if (c->bars[i].offset_bytes == p.offset_bytes)
            return &c->bars[i];
    return NULL;
}

struct pl_async_bar *pl_async_bar_at(struct pl_emu_warp *w, uint32_t lane, struct pl_async_place p,
                                     const char *what)
{
    struct pl_async_bar *bar = pl_async_bar_find(p);
    if (bar != NULL && bar->is_live)
        return bar;
    if (bar == NULL)
        pl_d_mbar_uninitialised(pl_emu_faults(w, lane), pl_emu_where(w), what, pl_async_address(p));
    else
        pl_d_mbar_invalidated(pl_emu_faults(w, lane), pl_emu_where(w), what, pl_async_address(p),
                              bar->last_line);
    return NULL;
}

/*
 * The manual wants a fence between the init and the use through another proxy. Compilers for single CTAs leave it out after a
 * barrier, and chips bear with them: that is an error only where races are looked for.
 */
static bool is_init_published(const struct pl_emu_async *a, const struct pl_async_bar *bar)
{
    if (a->segments == NULL || a->n_init_fences[bar->init_thread] != bar->init_fences ||
        bar->init_segment < a->n_published[bar->init_thread])
        return true;
    return !a->is_strict && bar->init_segment < a->segments[bar->init_thread];
}

bool pl_async_bar_check_signal(struct pl_emu_warp *w, uint32_t lane, struct pl_async_place p)
{
    const struct pl_emu_async *a = w->cta->cluster->async;
    struct pl_async_bar *bar = pl_async_bar_at(w, lane, p, "an asynchronous copy");
    if (bar == NULL)
        return false;
    if (!a->is_checking || is_init_published(a, bar))
        return true;
    pl_d_mbar_init_unfenced(pl_emu_faults(w, lane), pl_emu_where(w), pl_async_address(p),
                            bar->init_line);
    return false;
}

enum pl_emu_status pl_async_bar_error(struct pl_diags *ds, struct pl_where where,
                                      struct pl_async_place p, enum pl_mbar_error e,
                                      const struct pl_mbar *b)
{
    switch (e) {
    case PL_MBAR_OK: return PL_EMU_NEXT;
    case PL_MBAR_BAD_COUNT: pl_d_mbar_count(ds, where, pl_async_address(p)); break;
    case PL_MBAR_OVER_ARRIVED:
        pl_d_mbar_over_arrived(ds, where, pl_async_address(p), b->pending, b->expected);
        break;
    case PL_MBAR_TX_RANGE: pl_d_mbar_tx_range(ds, where, pl_async_address(p), b->tx); break;
    case PL_MBAR_COMPLETES:
        pl_d_mbar_no_complete(ds, where, pl_async_address(p), b->pending);
        break;
    case PL_MBAR_DROPPED_BELOW:
        pl_d_mbar_dropped(ds, where, pl_async_address(p), b->expected);
        break;
    }
    return PL_EMU_FAULT;
}

/* The barrier that a finished operation signals; NULL: a fault was raised. */
static struct pl_async_bar *signalled(struct pl_async_op *op)
{
    struct pl_async_bar *bar = pl_async_bar_find(op->signal);
    if (bar != NULL && bar->is_live)
        return bar;
    pl_d_mbar_signal_lost(pl_async_faults(op), pl_async_where(op), op->kind->name,
                          pl_async_address(op->signal));
    return NULL;
}

static void settle(struct pl_async_op *op, struct pl_async_bar *bar, const struct pl_mbar *b,
                   bool has_completed)
{
    bar->last_line = op->line;
    bar->n_phases += has_completed;
    if (has_completed)
        pl_async_wake(op->signal);
    if (pl_race_is_on(op->w))
        pl_race_signal(op, has_completed);
    pl_async_bar_set(op->signal, b);
}

enum pl_emu_status pl_async_signal_tx(struct pl_async_op *op)
{
    struct pl_async_bar *bar = signalled(op);
    if (bar == NULL)
        return PL_EMU_FAULT;
    struct pl_mbar b = pl_async_bar_get(op->signal);
    bool has_completed;
    enum pl_mbar_error e = pl_mbar_complete_tx(&b, op->signal_bytes, &has_completed);
    if (e == PL_MBAR_OK)
        settle(op, bar, &b, has_completed);
    return pl_async_bar_error(pl_async_faults(op), pl_async_where(op), op->signal, e, &b);
}

enum pl_emu_status pl_async_signal_arrive(struct pl_async_op *op, uint32_t n_arrivals)
{
    struct pl_async_bar *bar = signalled(op);
    if (bar == NULL)
        return PL_EMU_FAULT;
    struct pl_mbar b = pl_async_bar_get(op->signal);
    bool has_completed;
    enum pl_mbar_error e =
        pl_mbar_arrive(&b, &(struct pl_mbar_arrive){.n_arrivals = n_arrivals}, &has_completed);
    if (e == PL_MBAR_OK)
        settle(op, bar, &b, has_completed);
    return pl_async_bar_error(pl_async_faults(op), pl_async_where(op), op->signal, e, &b);
}

void pl_async_bar_describe(struct pl_async_place p, char *text, size_t n_bytes)
{
    struct pl_mbar b = pl_async_bar_get(p);
    const struct pl_async_bar *bar = pl_async_bar_find(p);
    snprintf(text, n_bytes,
             "mbarrier 0x%x of CTA %u (init line %u): phase %llu (parity %u), %u of %u arrivals "
             "pending, %d bytes pending",
             pl_async_address(p), p.cta->rank, bar != NULL ? bar->init_line : 0,
             bar != NULL ? (unsigned long long)bar->n_phases : 0, b.parity, b.pending, b.expected,
             b.tx);
}
