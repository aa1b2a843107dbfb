/*
 * The race check: its life, and the accesses of threads.
 */
#include "emu/race/state.h"

#include "emu/access.h"
#include "emu/program.h"

#include <stdlib.h>
#include <string.h>

/* ---- life ------------------------------------------------------------------------------------------------------------ */

struct pl_emu_race_grid *pl_race_grid_create(void)
{
    return calloc(1, sizeof(struct pl_emu_race_grid));
}

void pl_race_grid_destroy(struct pl_emu_race_grid *g)
{
    if (g == NULL)
        return;
    pl_race_locations_fini(g);
    pl_race_space_fini(&g->device);
    for (uint32_t i = 0; i < g->n_chunks; i++)
        free(g->chunks[i]);
    free(g->chunks);
    free(g->reads);
    free(g);
}

static bool start_ctas(struct pl_emu_race *r)
{
    r->ctas = calloc(r->cl->n_ctas, sizeof *r->ctas);
    r->warps = calloc(r->n_warps, sizeof *r->warps);
    if (r->ctas == NULL || r->warps == NULL)
        return false;
    for (uint32_t i = 0; i < r->cl->n_ctas; i++)
        if (!pl_race_space_init(&r->ctas[i].shared, r->cl->ctas[i].shared.n_bytes))
            return false;
    for (uint32_t i = 0; i < r->n_warps; i++)
        r->warps[i].now = 1;
    return true;
}

/* Clocks of the async proxy and of tensor memory are kept for programs that use either. */
static bool uses_async_proxy(const struct pl_emu_cluster *cl)
{
    const struct pl_ptx_module *m = &cl->grid->program->module;
    if (cl->async->has_proxy)
        return true;
    for (uint32_t i = 0; i < m->ins.n; i++)
        if (strncmp(pl_ptx_infos[m->ins.data[i].form].mnemonic, "tcgen05", 7) == 0)
            return true;
    return false;
}

bool pl_race_start(struct pl_emu_cluster *cl)
{
    struct pl_emu_race *r = calloc(1, sizeof *r);
    if (r == NULL)
        return false;
    cl->race = r;
    r->cl = cl;
    r->grid = cl->grid->race;
    r->cluster = cl->index;
    r->n_warps = cl->n_ctas * cl->ctas[0].n_warps;
    r->has_proxy = uses_async_proxy(cl);
    return start_ctas(r);
}

static void end_warp(struct pl_race_warp *rw)
{
    for (uint32_t i = 0; i < PL_EMU_LANES; i++) {
        pl_race_view_drop(rw->views[i]);
        if (rw->tensor != NULL)
            pl_race_set_drop(&rw->tensor[i]);
    }
    free(rw->tensor);
    free(rw->wgmma_regs);
    free(rw->slots);
}

static void end_cta(struct pl_race_cta *c)
{
    pl_race_space_fini(&c->shared);
    free(c->tensor);
    for (uint32_t i = 0; i < PL_EMU_N_BARRIERS; i++) {
        pl_race_set_drop(&c->barriers[i]);
        pl_race_set_drop(&c->ended[i]);
    }
}

void pl_race_end(struct pl_emu_cluster *cl)
{
    struct pl_emu_race *r = cl->race;
    if (r == NULL)
        return;
    for (uint32_t i = 0; r->ctas != NULL && i < cl->n_ctas; i++)
        end_cta(&r->ctas[i]);
    for (uint32_t i = 0; r->warps != NULL && i < r->n_warps; i++)
        end_warp(&r->warps[i]);
    for (uint32_t i = 0; i < r->n_slots; i++)
        pl_race_set_drop(&r->slots[i].end);
    for (uint32_t i = 0; i < r->n_bars; i++) {
        pl_race_set_drop(&r->bars[i].now);
        pl_race_set_drop(&r->bars[i].done);
    }
    pl_race_set_drop(&r->gathering);
    pl_race_set_drop(&r->ended);
    free(r->ctas);
    free(r->warps);
    free(r->slots);
    free(r->bars);
    free(r);
    cl->race = NULL;
}

/* ---- accesses of threads ------------------------------------------------------------------------------------------------ */

/* An access of lanes that act one by one. False: no memory, a fault was raised. */
bool pl_race_thread_actor(struct pl_emu_warp *w, const char *name, bool is_write, bool is_strong,
                          struct pl_race_actor *x)
{
    struct pl_emu_race *r = pl_race_of(w);
    struct pl_race_warp *rw = pl_race_warp_of(w);
    *x = (struct pl_race_actor){.r = r,
                                .w = w,
                                .lanes = w->mask,
                                .sees = PL_RACE_G,
                                .sees_write = PL_RACE_G,
                                .is_write = is_write};
    const struct pl_race_access *last =
        rw->last_load != 0 ? pl_race_access_at(r->grid, rw->last_load) : NULL;
    if (!is_write && last != NULL && rw->last_load_tick == rw->now && last->line == w->pc->line &&
        last->name == name) {
        x->number = rw->last_load; /* nothing can tell it from the one before */
        x->access = last;
        return true;
    }
    struct pl_race_access a = {.cluster = r->cluster,
                               .agent = pl_race_index(w),
                               .tick = rw->now,
                               .warp = pl_race_index(w),
                               .lanes = w->mask,
                               .line = w->pc->line,
                               .name = name,
                               .is_write = is_write,
                               .is_strong = is_strong,
                               .is_generic = true,
                               .is_per_lane = true};
    x->number = pl_race_access_add(r->grid, &a);
    if (x->number == 0 || r->is_lost || r->grid->is_lost) {
        pl_async_no_memory(w);
        return false;
    }
    x->access = pl_race_access_at(r->grid, x->number);
    if (!is_write) {
        rw->last_load = x->number;
        rw->last_load_tick = rw->now;
    }
    return true;
}

static enum pl_emu_status touch_shared(struct pl_race_actor *x, struct pl_emu_cta *cta,
                                       uint32_t offset, uint32_t n_bytes)
{
    pl_race_place_shared(x, cta);
    return pl_race_touch_range(x, &x->r->ctas[cta->rank].shared, offset, n_bytes);
}

enum pl_emu_status pl_race_shared(struct pl_emu_warp *w, uint32_t lanes, struct pl_async_place p,
                                  uint32_t n_bytes, bool is_write)
{
    struct pl_race_actor x;
    if (!pl_race_thread_actor(w, pl_ptx_infos[w->pc->ptx->form].id, is_write, false, &x))
        return PL_EMU_FAULT;
    enum pl_emu_status s = PL_EMU_NEXT;
    PL_EMU_FOR_LANES (lane, lanes) {
        x.lanes = 1u << lane;
        if (s == PL_EMU_NEXT)
            s = touch_shared(&x, p.cta, p.offset_bytes, n_bytes);
    }
    return s;
}

enum pl_emu_status pl_race_shared_by_warp(struct pl_emu_warp *w, struct pl_async_place p,
                                          uint32_t n_bytes)
{
    struct pl_race_actor x;
    if (!pl_race_thread_actor(w, pl_ptx_infos[w->pc->ptx->form].id, true, false, &x))
        return PL_EMU_FAULT;
    struct pl_race_access *a = pl_race_access_at(x.r->grid, x.number);
    a->is_per_lane = false;
    a->is_by_warp = true;
    return touch_shared(&x, p.cta, p.offset_bytes, n_bytes);
}

/* An operation on an mbarrier, or a copy that is to signal it: behind its initialisation. */
enum pl_emu_status pl_race_bar_use(struct pl_emu_warp *w, uint32_t lane, struct pl_async_place p)
{
    struct pl_race_actor x;
    if (!pl_race_thread_actor(w, "mbarrier operation", false, true, &x))
        return PL_EMU_FAULT;
    x.lanes = 1u << lane;
    return touch_shared(&x, p.cta, p.offset_bytes, PL_MBAR_N_BYTES);
}

/* Where a lane's access is. */
struct where {
    struct pl_emu_cta *cta; /* shared memory; NULL: device memory */
    uint64_t address;       /* an offset in shared memory */
    uint64_t key;           /* of the place, for strong operations */
};

/* False: memory that threads do not share, or none. */
static bool find_place(struct pl_emu_warp *w, const struct pl_emu_access *a, uint64_t at,
                       struct where *out)
{
    enum pl_emu_window in = PL_EMU_IN_GLOBAL;
    if (a->space == PL_EMU_SPACE_LOCAL || a->space == PL_EMU_SPACE_PARAM || at % a->n_bytes != 0)
        return false;
    if (a->space == PL_EMU_SPACE_SHARED || a->space == PL_EMU_SPACE_CLUSTER)
        in = PL_EMU_IN_SHARED;
    else if (a->space == PL_EMU_SPACE_GENERIC)
        in = pl_emu_window_of(at);
    if (in == PL_EMU_IN_GLOBAL) {
        *out = (struct where){.address = at, .key = at};
        return true;
    }
    if (in != PL_EMU_IN_SHARED)
        return false;
    uint32_t address =
        a->space == PL_EMU_SPACE_SHARED ? pl_async_own(w, (uint32_t)at) : (uint32_t)at;
    struct pl_emu_cta *cta = pl_emu_shared_cta(w->cta->cluster, address);
    if (cta == NULL || !pl_emu_shared_in(cta, address, a->n_bytes))
        return false;
    *out = (struct where){cta, pl_emu_shared_offset(cta, address),
                          (uint64_t)1 << 63 | (uint64_t)w->cta->cluster->index << 32 | address};
    return true;
}

static enum pl_emu_status touch_place(struct pl_race_actor *x, const struct where *p,
                                      uint32_t n_bytes)
{
    if (p->cta != NULL)
        return touch_shared(x, p->cta, (uint32_t)p->address, n_bytes);
    pl_race_place_device(x);
    return pl_race_touch_range(x, &x->r->grid->device, p->address, n_bytes);
}

/* Order through a strong operation: what it reads comes before what it writes. */
static void synchronise(struct pl_emu_warp *w, const struct pl_emu_access *a, uint32_t lanes,
                        uint64_t key, bool is_read, bool is_write)
{
    PL_EMU_FOR_LANES (lane, lanes) {
        if (is_read)
            pl_race_location_read(w, lane, key, a->is_acquire);
        if (is_write)
            pl_race_location_write(w, lane, key, a->is_release, is_read);
    }
}

/* Lanes that access the address of `lane` too. */
static uint32_t same_address(const uint64_t at[PL_EMU_LANES], uint32_t lanes, uint32_t lane)
{
    uint32_t same = 0;
    for (uint32_t i = 0; i < PL_EMU_LANES; i++)
        same |= (uint32_t)(at[i] == at[lane]) << i;
    return same & lanes;
}

enum pl_emu_status pl_race_access(struct pl_emu_warp *w, const struct pl_emu_access *a,
                                  const uint64_t at[PL_EMU_LANES], bool is_read, bool is_write)
{
    struct pl_race_actor x;
    struct where p;
    bool is_atomic = is_read && is_write, is_strong = a->is_strong || is_atomic;
    if (!pl_race_thread_actor(w,
                              is_atomic  ? "atomic"
                              : is_write ? "store"
                                         : "load",
                              is_write, is_strong, &x))
        return PL_EMU_FAULT;
    for (uint32_t left = w->mask; left != 0;) {
        uint32_t lane = (uint32_t)__builtin_ctz(left), same = same_address(at, left, lane);
        left &= ~same;
        if (!find_place(w, a, at[lane], &p))
            continue;
        x.lanes = same;
        if (is_write && !is_strong) /* which lane's value stays is open; each of them wrote */
            x.lanes = 1u << (31 - __builtin_clz(same));
        if (touch_place(&x, &p, a->n_bytes) != PL_EMU_NEXT)
            return PL_EMU_FAULT;
        if (is_strong)
            synchronise(w, a, same, p.key, is_read, is_write);
    }
    return PL_EMU_NEXT;
}
