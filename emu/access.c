#include "emu/access.h"

#include "base/diag.h"
#include "emu/device.h"
#include "emu/faults.h"
#include "emu/program.h"

#include <string.h>

/* ---- the initialised-bytes map of shared memory: one bit a byte ------------------------------------------------------------- */

/* Mask of the bits of word `i` that lie in [first, end). */
static inline uint64_t bits_in_word(uint32_t i, uint32_t first, uint32_t end)
{
    uint32_t lo = i * 64 > first ? 0 : first - i * 64;
    uint32_t hi = end - i * 64 >= 64 ? 64 : end - i * 64;
    uint64_t below_hi = hi == 64 ? UINT64_MAX : ((uint64_t)1 << hi) - 1;
    return below_hi & ~(((uint64_t)1 << lo) - 1);
}

bool pl_emu_shared_is_written(const struct pl_emu_cta *cta, uint32_t offset_bytes, uint32_t n_bytes)
{
    const uint64_t *map = cta->shared.written;
    if (map == NULL || n_bytes == 0)
        return true;
    uint32_t end = offset_bytes + n_bytes;
    for (uint32_t i = offset_bytes / 64; i <= (end - 1) / 64; i++) {
        uint64_t want = bits_in_word(i, offset_bytes, end);
        if ((map[i] & want) != want)
            return false;
    }
    return true;
}

void pl_emu_shared_mark(struct pl_emu_cta *cta, uint32_t offset_bytes, uint32_t n_bytes)
{
    uint64_t *map = cta->shared.written;
    if (map == NULL || n_bytes == 0)
        return;
    uint32_t end = offset_bytes + n_bytes;
    for (uint32_t i = offset_bytes / 64; i <= (end - 1) / 64; i++)
        map[i] |= bits_in_word(i, offset_bytes, end);
}

/* ---- where an address is ------------------------------------------------------------------------------------------------------- */

struct pl_emu_cta *pl_emu_shared_cta(const struct pl_emu_cluster *cl, uint32_t address)
{
    uint32_t rank = address >> PL_EMU_RANK_SHIFT;
    if (rank >= cl->n_ctas || cl->ctas[rank].is_done)
        return NULL;
    return &cl->ctas[rank];
}

bool pl_emu_shared_in(const struct pl_emu_cta *cta, uint32_t address, uint64_t n_bytes)
{
    uint32_t offset = pl_emu_shared_offset(cta, address);
    return offset < cta->shared.n_bytes && n_bytes <= cta->shared.n_bytes - offset;
}

const struct pl_emu_allocation *pl_emu_allocation_at(struct pl_emu_warp *w, uint64_t address)
{
    const struct pl_emu_memory *m = w->cta->cluster->grid->device->memory;
    uint64_t generation = pl_emu_memory_generation(m);
    if (w->generation != generation) {
        memset(w->last, 0, sizeof w->last);
        w->generation = generation;
    }
    const struct pl_emu_allocation **last =
        &w->last[w->pc != NULL ? w->pc->line % PL_EMU_N_LAST : 0];
    const struct pl_emu_allocation *a = *last;
    if (a != NULL && address - a->address < a->n_bytes)
        return a;
    a = pl_emu_memory_find(m, address);
    if (a != NULL)
        *last = a;
    return a;
}

void *pl_emu_global_at(struct pl_emu_warp *w, uint64_t address, uint64_t n_bytes)
{
    const struct pl_emu_allocation *a = pl_emu_allocation_at(w, address);
    if (a == NULL || n_bytes > a->n_bytes - (address - a->address))
        return NULL;
    return a->host + (address - a->address);
}

void *pl_emu_shared_at(struct pl_emu_warp *w, uint32_t lane, uint32_t address, uint64_t n_bytes,
                       const char *what)
{
    struct pl_emu_cta *cta = pl_emu_shared_cta(w->cta->cluster, address);
    if (cta == NULL || !pl_emu_shared_in(cta, address, n_bytes)) {
        pl_emu_fault_shared(w, lane, address, n_bytes, what);
        return NULL;
    }
    return cta->shared.data + pl_emu_shared_offset(cta, address);
}

void *pl_emu_local_at(struct pl_emu_warp *w, uint32_t lane, uint64_t address, uint64_t n_bytes,
                      const char *what)
{
    uint32_t limit = w->cta->cluster->local_stride_bytes;
    if (w->local == NULL || address < PL_EMU_LOCAL_BASE || address >= limit ||
        n_bytes > limit - address) {
        pl_d_emu_local_bounds(pl_emu_faults(w, lane), pl_emu_where(w), what, n_bytes, address,
                              limit);
        return NULL;
    }
    return w->local + (size_t)lane * limit + address;
}

void *pl_emu_param_at(struct pl_emu_warp *w, uint32_t lane, uint64_t offset, uint64_t n_bytes)
{
    const struct pl_emu_grid *g = w->cta->cluster->grid;
    if (offset >= g->params_n_bytes || n_bytes > g->params_n_bytes - offset) {
        pl_d_emu_param_bounds(pl_emu_faults(w, lane), pl_emu_where(w), n_bytes, offset,
                              g->params_n_bytes);
        return NULL;
    }
    return g->params + offset;
}

void *pl_emu_generic_at(struct pl_emu_warp *w, uint32_t lane, uint64_t address, uint64_t n_bytes)
{
    switch (pl_emu_window_of(address)) {
    case PL_EMU_IN_SHARED: return pl_emu_shared_at(w, lane, (uint32_t)address, n_bytes, "access");
    case PL_EMU_IN_LOCAL: return pl_emu_local_at(w, lane, (uint32_t)address, n_bytes, "access");
    case PL_EMU_IN_PARAM: return pl_emu_param_at(w, lane, (uint32_t)address, n_bytes);
    case PL_EMU_IN_FUNC:
        pl_d_emu_bad_space(pl_emu_faults(w, lane), pl_emu_where(w), "access", address);
        return NULL;
    case PL_EMU_IN_GLOBAL: break;
    }
    void *p = pl_emu_global_at(w, address, n_bytes);
    if (p == NULL)
        pl_emu_fault_global(w, lane, address, n_bytes, "access");
    return p;
}

/* ---- faults -------------------------------------------------------------------------------------------------------------------- */

int pl_emu_fault_global(struct pl_emu_warp *w, uint32_t lane, uint64_t address, uint64_t n_bytes,
                        const char *what)
{
    char near[256];
    pl_emu_memory_describe(w->cta->cluster->grid->device->memory, address, near, sizeof near);
    pl_d_emu_out_of_bounds(pl_emu_faults(w, lane), pl_emu_where(w), what, n_bytes, address, near);
    return PL_EMU_FAULT;
}

int pl_emu_fault_shared(struct pl_emu_warp *w, uint32_t lane, uint32_t address, uint64_t n_bytes,
                        const char *what)
{
    const struct pl_emu_cluster *cl = w->cta->cluster;
    uint32_t rank = address >> PL_EMU_RANK_SHIFT;
    if (rank >= cl->n_ctas || cl->ctas[rank].is_done) {
        pl_d_emu_shared_rank(pl_emu_faults(w, lane), pl_emu_where(w), what, address, rank,
                             rank < cl->n_ctas ? "has exited" : "is not in the cluster");
        return PL_EMU_FAULT;
    }
    const struct pl_emu_cta *cta = &cl->ctas[rank];
    uint32_t first = pl_emu_shared_address(cta, 0);
    pl_d_emu_shared_bounds(pl_emu_faults(w, lane), pl_emu_where(w), what, n_bytes, address, first,
                           first + cta->shared.n_bytes);
    return PL_EMU_FAULT;
}

int pl_emu_fault_misaligned(struct pl_emu_warp *w, uint32_t lane, uint64_t address,
                            uint64_t align_bytes, const char *what)
{
    pl_d_emu_misaligned(pl_emu_faults(w, lane), pl_emu_where(w), what, address,
                        (unsigned)align_bytes);
    return PL_EMU_FAULT;
}

int pl_emu_fault_unwritten(struct pl_emu_warp *w, uint32_t lane, uint32_t address, uint64_t n_bytes,
                           const char *what)
{
    pl_d_emu_shared_unwritten(pl_emu_faults(w, lane), pl_emu_where(w), what, (unsigned)n_bytes,
                              address);
    return PL_EMU_FAULT;
}
