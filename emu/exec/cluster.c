/*
 * Cluster barrier, addresses of peers, register budgets, fences.
 *
 * The cluster barrier counts threads that have not exited; an arrive and the wait that follows it belong to one phase. A
 * thread is in one of three states: nothing owed, arrived in the current phase, or owed a wait for the last one.
 *
 * Source: PTX ISA, Parallel Synchronization and Communication Instructions: barrier.cluster, griddepcontrol, membar / fence; Data
 * Movement and Conversion Instructions: mapa, getctarank; Miscellaneous Instructions: setmaxnreg
 */
#include "emu/async/state.h"
#include "emu/exec/async.h"
#include "emu/program.h"
#include "emu/race.h"

#include "base/debug.h"

#include <stdio.h>

/* ---- mapa, getctarank ------------------------------------------------------------------------------------------------------ */

static bool is_window(uint64_t address)
{
    return address >= PL_EMU_SHARED_WINDOW && address - PL_EMU_SHARED_WINDOW <= UINT32_MAX;
}

enum pl_emu_status pl_emu_exec_mapa(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    PL_EMU_FOR_LANES (lane, w->mask) {
        uint64_t address = pl_emu_lane(w, &ins->args[1], lane),
                 rank = pl_emu_lane(w, &ins->args[2], lane);
        uint64_t window = is_window(address) ? PL_EMU_SHARED_WINDOW : 0;
        pl_emu_set_lane(w, &ins->args[0], lane,
                        window + ((rank & 0xff) << PL_EMU_RANK_SHIFT | (address & 0xffffff)));
    }
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_getctarank(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    PL_EMU_FOR_LANES (lane, w->mask)
        pl_emu_set_lane(w, &ins->args[0], lane,
                        pl_emu_lane(w, &ins->args[1], lane) >> PL_EMU_RANK_SHIFT & 0xff);
    return PL_EMU_NEXT;
}

/* ---- barrier.cluster ---------------------------------------------------------------------------------------------------------- */

static bool is_aligned_broken(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    return pl_emu_mod(ins, PL_PTX_CAT_ALIGN) != PL_PTX_MOD_NONE && w->mask != w->live;
}

static enum pl_emu_status fault_aligned(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    pl_d_cluster_not_converged(pl_emu_faults(w, pl_emu_first_lane(w)), pl_emu_where(w),
                               pl_ptx_infos[ins->ptx->form].mnemonic, w->mask, w->live);
    return PL_EMU_FAULT;
}

static void complete_if_due(struct pl_emu_async *a)
{
    if (a->n_cluster_arrived == 0 || a->n_cluster_arrived < a->n_cluster_live)
        return;
    if (a->cl->race != NULL)
        pl_race_cluster_end(a->cl);
    a->n_cluster_arrived = 0;
    a->cluster_phase++;
    a->n_changes++;
    for (uint32_t c = 0; c < a->cl->n_ctas; c++)
        for (uint32_t i = 0; i < a->cl->ctas[c].n_warps; i++) {
            struct pl_emu_warp *w = &a->cl->ctas[c].warps[i];
            struct pl_async_warp *t = w->async;
            if (t == NULL)
                continue;
            pl_emu_async_on_release(w, t->cluster_arrived);
            t->cluster_arrived = 0;
        }
}

enum pl_emu_status pl_emu_exec_cluster_arrive(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    struct pl_emu_async *a = w->cta->cluster->async;
    struct pl_async_warp *t = pl_async_warp_of(w);
    if (t == NULL)
        return pl_async_no_memory(w);
    if (is_aligned_broken(w, ins))
        return fault_aligned(w, ins);
    if ((t->cluster_owed & w->mask) != 0) {
        pl_d_cluster_arrive_twice(
            pl_emu_faults(w, (uint32_t)__builtin_ctz(t->cluster_owed & w->mask)), pl_emu_where(w));
        return PL_EMU_FAULT;
    }
    if (pl_race_is_on(w))
        pl_race_cluster_arrive(w, pl_emu_mod(ins, PL_PTX_CAT_SEM) != PL_PTX_MOD_SEM_RELAXED);
    t->cluster_arrived |= w->mask;
    t->cluster_owed |= w->mask;
    a->n_cluster_arrived += (uint32_t)__builtin_popcount(w->mask);
    complete_if_due(a);
    return PL_EMU_NEXT;
}

static bool poll_cluster(struct pl_emu_warp *w, struct pl_emu_group *g)
{
    const struct pl_async_warp *t = w->async;
    return (t->cluster_arrived & g->mask) == 0;
}

static void describe_cluster(struct pl_emu_warp *w, struct pl_emu_group *g, char *text,
                             size_t n_bytes)
{
    (void)g;
    const struct pl_emu_async *a = w->cta->cluster->async;
    snprintf(text, n_bytes,
             "waits at the cluster barrier, phase %llu: %u of %u threads have arrived",
             (unsigned long long)a->cluster_phase, a->n_cluster_arrived, a->n_cluster_live);
}

enum pl_emu_status pl_emu_exec_cluster_wait(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    struct pl_async_warp *t = w->async;
    uint32_t owed = t == NULL ? 0 : t->cluster_owed;
    if (is_aligned_broken(w, ins))
        return fault_aligned(w, ins);
    if ((owed & w->mask) != w->mask) {
        pl_d_cluster_wait_alone(pl_emu_faults(w, (uint32_t)__builtin_ctz(w->mask & ~owed)),
                                pl_emu_where(w));
        return PL_EMU_FAULT;
    }
    if ((t->cluster_arrived & w->mask) != 0) { /* the phase they arrived in is still open */
        w->group->wait = (struct pl_emu_wait){.poll = poll_cluster, .describe = describe_cluster};
        return PL_EMU_BLOCKED;
    }
    t->cluster_owed &= ~w->mask;
    if (pl_race_is_on(w))
        pl_race_cluster_wait(w, true);
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_async_on_exit(struct pl_emu_warp *w, uint32_t lanes)
{
    struct pl_emu_async *a = w->cta->cluster->async;
    struct pl_async_warp *t = w->async;
    a->n_cluster_live -= (uint32_t)__builtin_popcount(lanes);
    if (t != NULL) { /* a thread that arrived and exits is no longer counted on either side */
        a->n_cluster_arrived -= (uint32_t)__builtin_popcount(t->cluster_arrived & lanes);
        t->cluster_arrived &= ~lanes;
        t->cluster_owed &= ~lanes;
    }
    complete_if_due(a);
    return PL_EMU_NEXT;
}

/* ---- griddepcontrol: grids of a stream run one after the other, so what it waits for is over --------------------------------- */

enum pl_emu_status pl_emu_exec_griddepcontrol(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    (void)w;
    (void)ins;
    return PL_EMU_NEXT;
}

/* ---- setmaxnreg --------------------------------------------------------------------------------------------------------------- */

static bool poll_pool(struct pl_emu_warp *w, struct pl_emu_group *g)
{
    const struct pl_async_cta *c = w->cta->async;
    const struct pl_async_warp *t = w->async;
    return c->n_pool_regs + t->n_regs >= g->wait.a;
}

static void describe_pool(struct pl_emu_warp *w, struct pl_emu_group *g, char *text, size_t n_bytes)
{
    const struct pl_async_cta *c = w->cta->async;
    const struct pl_async_warp *t = w->async;
    snprintf(
        text, n_bytes,
        "setmaxnreg.inc waits for %u registers a thread; it has %u, and the CTA's pool holds %u",
        (unsigned)g->wait.a, t->n_regs, c->n_pool_regs);
}

static bool start_pool(struct pl_emu_warp *w, uint32_t n_launch)
{
    struct pl_async_cta *c = pl_async_cta_of(w->cta);
    if (c == NULL)
        return false;
    for (uint32_t i = 0; i < w->cta->n_warps && !c->has_pool; i++) {
        struct pl_async_warp *t = pl_async_warp_of(&w->cta->warps[i]);
        if (t == NULL)
            return false;
        t->n_regs = n_launch;
    }
    c->has_pool = true;
    return true;
}

enum pl_emu_status pl_emu_exec_setmaxnreg(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    uint32_t n_launch = w->cta->cluster->grid->entry->launch_regs,
             n = (uint32_t)pl_emu_lane(w, &ins->args[0], pl_emu_first_lane(w));
    bool is_inc = pl_emu_mod(ins, PL_PTX_CAT_REGS) == PL_PTX_MOD_REGS_INC;
    struct pl_diags *ds = pl_emu_faults(w, pl_emu_first_lane(w));
    PL_ASSERT(n >= 24 && n <= 256 && n % 8 == 0); /* jit/ptx/value.def */
    if (n_launch == 0)
        return PL_EMU_NEXT;
    if (!start_pool(w, n_launch))
        return pl_async_no_memory(w);
    struct pl_async_cta *c = w->cta->async;
    struct pl_async_warp *t = w->async;
    if (is_inc ? n < t->n_regs : n > t->n_regs) {
        pl_d_setmaxnreg_direction(ds, pl_emu_where(w), is_inc ? "inc" : "dec", t->n_regs, n);
        return PL_EMU_FAULT;
    }
    if (is_inc && c->n_pool_regs + t->n_regs < n) {
        w->group->wait = (struct pl_emu_wait){
            .poll = poll_pool, .describe = describe_pool, .a = n, .where = w->cta};
        return PL_EMU_BLOCKED;
    }
    c->n_pool_regs = c->n_pool_regs + t->n_regs - n;
    t->n_regs = n;
    return PL_EMU_NEXT;
}

/* ---- fences -------------------------------------------------------------------------------------------------------------------- */

/* Fences within one proxy order what the emulator never reorders: it executes accesses when they are issued. */
enum pl_emu_status pl_emu_exec_fence_order(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    (void)w;
    (void)ins;
    return PL_EMU_NEXT;
}

/* fence.acquire and fence.release, restricted to shared memory. */
enum pl_emu_status pl_emu_exec_fence_half(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    const bool is_acquire = ins->ptx->form == PL_PTX_fence_acquire_restrict;
    if (!is_acquire)
        pl_emu_async_on_release(w, w->mask);
    if (pl_race_is_on(w))
        pl_race_fence_shared(w, is_acquire);
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_tensor_fence(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    if (pl_race_is_on(w))
        pl_race_tensor_fence(w, ins->ptx->form == PL_PTX_tcgen05_fence_before);
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_fence_proxy_async(struct pl_emu_warp *w,
                                                 const struct pl_emu_ins *ins)
{
    uint8_t space = pl_emu_mod(ins, PL_PTX_CAT_SPACE);
    bool is_shared = space != PL_PTX_MOD_SPACE_GLOBAL;
    if (is_shared)
        pl_async_fence_proxy(w);
    if (pl_race_is_on(w))
        pl_race_fence_proxy(w, is_shared, !is_shared || space == PL_PTX_MOD_NONE);
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_fence_mbarrier_init(struct pl_emu_warp *w,
                                                   const struct pl_emu_ins *ins)
{
    (void)ins;
    pl_async_fence_init(w);
    if (pl_race_is_on(w))
        pl_race_fence_init(w);
    return PL_EMU_NEXT;
}
