/*
 * Taking over the work of a cluster that has not been launched: clusterlaunchcontrol.
 *
 * A request takes the next unlaunched cluster of the grid, in the order of launch, when it is issued; the 16-byte response
 * arrives later. Its words: ctaid.x; ctaid.y and ctaid.z, 16 bits each; bit 0 of the third is 1 for a success.
 *
 * Source: PTX ISA, Parallel Synchronization and Communication Instructions: clusterlaunchcontrol.try_cancel, .query_cancel
 */
#include "emu/async/state.h"
#include "emu/exec/async.h"
#include "emu/race.h"
#include "emu/sched.h"

#include "base/debug.h"

#include <string.h>

enum { RESPONSE_BYTES = 16, WORD_IS_CANCELED = 2 };

static enum pl_emu_status write_response(struct pl_async_op *op)
{
    uint32_t words[4];
    memcpy(words, op->u.store.value, sizeof words);
    memcpy(op->target.cta->shared.data + op->target.first, words, sizeof words);
    pl_emu_shared_mark(op->target.cta, op->target.first, RESPONSE_BYTES);
    if (words[WORD_IS_CANCELED] == 0)
        op->w->cta->cluster->async->has_clc_failed = true;
    return PL_EMU_NEXT;
}

static const struct pl_async_kind response = {"clusterlaunchcontrol response", NULL,
                                              write_response};

/* The first CTA of the cluster taken. */
static bool take_cluster(struct pl_emu_cluster *cl, uint32_t words[4])
{
    const struct pl_emu_grid *g = cl->grid;
    uint32_t index;
    memset(words, 0, RESPONSE_BYTES);
    if (!pl_emu_sched_cancel(cl->grid, &index))
        return false;
    uint32_t n_x = g->grid[0] / g->cluster[0], n_y = g->grid[1] / g->cluster[1];
    uint32_t y = index / n_x % n_y * g->cluster[1], z = index / n_x / n_y * g->cluster[2];
    words[0] = index % n_x * g->cluster[0];
    words[1] = y | z << 16;
    words[WORD_IS_CANCELED] = 1;
    return true;
}

static enum pl_emu_status respond(struct pl_emu_warp *w, uint32_t lane, const uint32_t words[4],
                                  uint32_t to, uint32_t bar)
{
    struct pl_async_op *op = pl_async_new(w, 1u << lane, &response);
    if (op == NULL)
        return PL_EMU_FAULT;
    struct pl_async_place p;
    op->owner = PL_ASYNC_BY_BARRIER;
    memcpy(op->u.store.value, words, RESPONSE_BYTES);
    if (pl_async_place_at(w, lane, to, RESPONSE_BYTES, RESPONSE_BYTES,
                          "clusterlaunchcontrol.try_cancel", &p) &&
        pl_async_place_at(w, lane, bar, PL_MBAR_N_BYTES, PL_MBAR_N_BYTES,
                          "clusterlaunchcontrol.try_cancel", &op->signal) &&
        pl_async_bar_check_signal(w, lane, op->signal)) {
        op->target =
            (struct pl_async_range){p.cta, p.offset_bytes, p.offset_bytes + RESPONSE_BYTES};
        op->has_signal = true;
        op->signal_bytes = RESPONSE_BYTES;
        return pl_async_submit(op);
    }
    pl_async_drop(op);
    return PL_EMU_FAULT;
}

static enum pl_emu_status try_lane(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                   uint32_t lane)
{
    struct pl_emu_cluster *cl = w->cta->cluster;
    uint32_t to, bar, words[4];
    if (cl->async->has_clc_failed) {
        pl_d_clc_after_failure(pl_emu_faults(w, lane), pl_emu_where(w));
        return PL_EMU_FAULT;
    }
    if (!pl_async_shared_address(w, ins, &ins->args[0], lane, &to) ||
        !pl_async_shared_address(w, ins, &ins->args[1], lane, &bar))
        return PL_EMU_FAULT;
    take_cluster(cl, words);
    if (pl_emu_mod(ins, PL_PTX_CAT_MCAST_ALL) == PL_PTX_MOD_NONE)
        return respond(w, lane, words, to, bar);
    enum pl_emu_status s = PL_EMU_NEXT;
    for (uint32_t rank = 0; rank < cl->n_ctas && s == PL_EMU_NEXT; rank++) {
        uint32_t base = rank << PL_EMU_RANK_SHIFT;
        s = respond(w, lane, words, base | (to & 0xffffff), base | (bar & 0xffffff));
    }
    return s;
}

enum pl_emu_status pl_emu_exec_clc_try_cancel(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    enum pl_emu_status s = PL_EMU_NEXT;
    PL_EMU_FOR_LANES (lane, w->mask)
        if (s == PL_EMU_NEXT)
            s = try_lane(w, ins, lane);
    return s;
}

static struct pl_emu_u128 response_of(const struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                      uint32_t lane)
{
    return ((const struct pl_emu_u128 *)pl_emu_lanes(w, &ins->args[1]))[lane];
}

static bool is_canceled(struct pl_emu_u128 r) { return (r.hi & 1) != 0; }

enum pl_emu_status pl_emu_exec_clc_is_canceled(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    uint32_t result = 0;
    PL_EMU_FOR_LANES (lane, w->mask)
        result |= (uint32_t)is_canceled(response_of(w, ins, lane)) << lane;
    pl_emu_set_pred(w, &ins->args[0], result);
    return PL_EMU_NEXT;
}

/* Of a response that is no success, all ones: code that compilers make asks before it tests, and does not use them then. */
static uint32_t ctaid(struct pl_emu_u128 r, uint32_t dim)
{
    if (!is_canceled(r))
        return UINT32_MAX;
    return dim == 0   ? (uint32_t)r.lo
           : dim == 1 ? (uint32_t)(r.lo >> 32) & 0xffff
           : dim == 2 ? (uint32_t)(r.lo >> 48)
                      : 0;
}

enum pl_emu_status pl_emu_exec_clc_first_ctaid(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    const struct pl_emu_arg *d = &ins->args[0];
    uint8_t mod = pl_emu_mod(ins, PL_PTX_CAT_CTAID);
    PL_EMU_FOR_LANES (lane, w->mask) {
        struct pl_emu_u128 r = response_of(w, ins, lane);
        if (!is_canceled(r) && pl_race_is_on(w)) {
            pl_d_clc_not_canceled(pl_emu_faults(w, lane), pl_emu_where(w));
            return PL_EMU_FAULT;
        }
        if (mod != PL_PTX_MOD_NONE)
            pl_emu_set_lane(w, d, lane, ctaid(r, mod - PL_PTX_MOD_CTAID_X));
        else
            for (uint32_t i = 0; i < d->n; i++)
                pl_emu_set_lane(w, &ins->args[d->first + i], lane, ctaid(r, i));
    }
    return PL_EMU_NEXT;
}
