/*
 * What a report of a race says: both accesses with their threads and lines, the place, and the edge that is missing.
 */
#include "emu/race/state.h"

#include "emu/device.h"
#include "emu/program.h"
#include "emu/tmem.h"

#define PL_DIAG_ROWS "emu/race.def"
#define PL_DIAG_MODE_DECLARE
#include "base/diag_rows.h"
#undef PL_DIAG_ROWS
#undef PL_DIAG_MODE_DECLARE
#define PL_DIAG_ROWS "emu/race.def"
#define PL_DIAG_MODE_DEFINE
#include "base/diag_rows.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 200 };

/* ---- who ------------------------------------------------------------------------------------------------------------- */

static void name_cta(const struct pl_emu_race *r, uint32_t cluster, uint32_t rank, char *text,
                     size_t n_bytes)
{
    const struct pl_emu_grid *g = r->cl->grid;
    uint32_t in[2][3], index[2] = {cluster, rank}, id[3];
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 3; k++) {
            uint32_t n = i == 0 ? g->grid[k] / g->cluster[k] : g->cluster[k];
            in[i][k] = index[i] % n;
            index[i] /= n;
        }
    for (int k = 0; k < 3; k++)
        id[k] = in[0][k] * g->cluster[k] + in[1][k];
    snprintf(text, n_bytes, "CTA (%u,%u,%u)", id[0], id[1], id[2]);
}

static void name_access(const struct pl_emu_race *r, const struct pl_race_access *a, uint32_t lanes,
                        char text[TEXT_BYTES])
{
    char cta[48], lane[32];
    uint32_t n_warps = r->cl->ctas[0].n_warps;
    name_cta(r, a->cluster, a->warp / n_warps, cta, sizeof cta);
    if ((lanes & (lanes - 1)) == 0)
        snprintf(lane, sizeof lane, "lane %d", __builtin_ctz(lanes));
    else
        snprintf(lane, sizeof lane, "lanes 0x%08x", lanes);
    snprintf(text, TEXT_BYTES, "the %s of line %u (%s warp %u %s%s)", a->name, a->line, cta,
             a->warp % n_warps, lane, a->is_async && !a->is_generic ? ", async proxy" : "");
}

/* ---- where ------------------------------------------------------------------------------------------------------------- */

/* The variable of the entry that holds an offset of shared memory, or NULL. */
static const struct pl_ptx_var *variable_at(const struct pl_emu_race *r, uint32_t address,
                                            uint32_t *offset)
{
    const struct pl_emu_grid *g = r->cl->grid;
    const struct pl_ptx_var *found = NULL;
    for (uint32_t i = 0; i < g->program->module.vars.n; i++) {
        const struct pl_ptx_var *v = &g->program->module.vars.data[i];
        uint32_t at = v->space == PL_PTX_SPACE_SHARED ? g->entry->shared_offsets[i] : UINT32_MAX;
        if (at == UINT32_MAX || at > address || (v->n_bytes != 0 && address - at >= v->n_bytes))
            continue;
        found = v;
        *offset = address - at;
    }
    return found;
}

static void name_place(const struct pl_race_actor *x, uint64_t address, char text[TEXT_BYTES])
{
    if (strcmp(x->space, "tensor") == 0) {
        snprintf(text, TEXT_BYTES, "tensor memory 0x%x of CTA rank %u", (unsigned)address,
                 x->cta->rank);
        return;
    }
    if (x->cta == NULL) {
        char near[120];
        pl_emu_memory_describe(x->r->cl->grid->device->memory, address, near, sizeof near);
        snprintf(text, TEXT_BYTES, "global memory 0x%llx (%s)", (unsigned long long)address, near);
        return;
    }
    uint32_t offset = 0, in_window = (uint32_t)address + x->cta->shared.base_bytes;
    const struct pl_ptx_var *v = variable_at(x->r, in_window, &offset);
    if (v != NULL)
        snprintf(text, TEXT_BYTES, "shared memory 0x%x of CTA rank %u (%s+%u)", in_window,
                 x->cta->rank, v->name, offset);
    else
        snprintf(text, TEXT_BYTES, "shared memory 0x%x of CTA rank %u", in_window, x->cta->rank);
}

/* ---- what is missing ----------------------------------------------------------------------------------------------------- */

static bool is_named(const struct pl_race_access *a, const struct pl_async_kind *kind)
{
    return a->name == kind->name;
}

/* The wait that tells of the end of an operation. */
static const char *edge_of(const struct pl_race_access *a)
{
    if (!a->is_async)
        return "a barrier, or an arrive of the first thread and a wait of the second, is missing";
    if (is_named(a, &pl_tmem_st))
        return "tcgen05.wait::st of the storing warp is missing";
    if (is_named(a, &pl_tmem_ld))
        return "tcgen05.wait::ld of the loading warp is missing";
    switch ((enum pl_async_owner)a->owner) {
    case PL_ASYNC_BY_BARRIER: return "a wait for the phase of its mbarrier is missing";
    case PL_ASYNC_BY_BULK:
        return a->is_write
                   ? "cp.async.bulk.wait_group by the thread that committed it is missing (not "
                     ".read)"
                   : "cp.async.bulk.wait_group(.read) by the thread that committed it is missing";
    case PL_ASYNC_BY_CP_ASYNC: return "cp.async.wait_group by the thread that copied is missing";
    case PL_ASYNC_BY_WGMMA: return "wgmma.wait_group by the warp that issued it is missing";
    case PL_ASYNC_BY_TMEM:
        return "tcgen05.commit behind it and a wait for its mbarrier are missing";
    case PL_ASYNC_BY_NOBODY: break;
    }
    return "nothing tells of its end before its grid ends";
}

static const char *fence_of(const struct pl_race_actor *x)
{
    if (strcmp(x->space, "tensor") == 0)
        return "a tcgen05 fence between the two is missing";
    return x->cta != NULL
               ? "fence.proxy.async.shared::cta between the two is missing"
               : "fence.proxy.async or fence.proxy.async.global between the two is missing";
}

void pl_race_report(const struct pl_race_actor *x, const struct pl_race_access *a, uint32_t lanes,
                    uint64_t address, bool is_known)
{
    char now[TEXT_BYTES], place[TEXT_BYTES], before[TEXT_BYTES];
    struct pl_diags *ds = pl_emu_faults(x->w, (uint32_t)__builtin_ctz(x->lanes));
    struct pl_where where = {.line = (int)x->access->line};
    bool is_tensor = strcmp(x->space, "tensor") == 0;
    name_access(x->r, x->access, x->lanes, now);
    name_place(x, address, place);
    name_access(x->r, a, lanes, before);
    if (a->cluster != x->r->cluster)
        pl_d_race_grid(ds, where, now, place, before, edge_of(a));
    else if (is_known && is_tensor)
        pl_d_race_tensor_fence(ds, where, now, place, before, fence_of(x));
    else if (is_known)
        pl_d_race_unfenced(ds, where, now, place, before, fence_of(x));
    else if (is_tensor)
        pl_d_race_tensor(ds, where, now, place, before, edge_of(a));
    else if (strcmp(a->name, pl_ptx_infos[PL_PTX_mbarrier_init].id) == 0)
        pl_d_race_init(ds, where, now, place, before, edge_of(a));
    else if (x->access->is_async)
        pl_d_race_async(ds, where, now, place, before, edge_of(a));
    else if (a->is_async)
        pl_d_race_unwaited(ds, where, now, place, before, edge_of(a));
    else
        pl_d_race_generic(ds, where, now, place, before, edge_of(a));
}

void pl_race_report_register(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                             const struct pl_race_slot *s)
{
    pl_d_race_register(pl_emu_faults(w, (uint32_t)__builtin_ctz(w->group->mask)), pl_emu_where(w),
                       pl_ptx_infos[ins->ptx->form].id, s->kind->name, s->pc->line);
}

void pl_race_report_wgmma(struct pl_emu_warp *w, uint32_t use_line)
{
    struct pl_diags *ds = pl_emu_faults(w, pl_emu_first_lane(w));
    char use[64] = "at all";
    if (use_line != 0)
        snprintf(use, sizeof use, "since line %u used them", use_line);
    pl_d_race_wgmma(ds, pl_emu_where(w), use);
}
