#include "emu/exec/mem.h"

#include "base/arena.h"
#include "base/diag.h"
#include "emu/access.h"
#include "emu/address.h"
#include "emu/async.h"
#include "emu/faults.h"
#include "emu/program.h"
#include "emu/race.h"

#include <stdatomic.h>
#include <string.h>

/* ---- decode ---------------------------------------------------------------------------------------------------------------------- */

static enum pl_emu_space space_of(uint8_t mod)
{
    switch (mod) {
    case PL_PTX_MOD_SPACE_GLOBAL:
    case PL_PTX_MOD_SPACE_CONST: return PL_EMU_SPACE_GLOBAL;
    case PL_PTX_MOD_SPACE_LOCAL: return PL_EMU_SPACE_LOCAL;
    case PL_PTX_MOD_SPACE_SHARED:
    case PL_PTX_MOD_SPACE_SHARED_CTA: return PL_EMU_SPACE_SHARED;
    case PL_PTX_MOD_SPACE_SHARED_CLUSTER: return PL_EMU_SPACE_CLUSTER;
    case PL_PTX_MOD_SPACE_PARAM:
    case PL_PTX_MOD_SPACE_PARAM_ENTRY:
    case PL_PTX_MOD_SPACE_PARAM_FUNC: return PL_EMU_SPACE_PARAM;
    default: return PL_EMU_SPACE_GENERIC;
    }
}

static uint8_t n_elems_of(uint8_t mod)
{
    switch (mod) {
    case PL_PTX_MOD_VEC_V2: return 2;
    case PL_PTX_MOD_VEC_V4: return 4;
    case PL_PTX_MOD_VEC_V8: return 8;
    default: return 1;
    }
}

/* The .param variables of device functions live in local memory (emu/program.h). */
static bool is_param_of_func(const struct pl_ptx_module *m, const struct pl_ptx_ins *p)
{
    for (uint32_t k = 0; k < p->n_operands; k++) {
        const struct pl_ptx_operand *o = &m->pool.data[p->operands + k];
        if (o->kind != PL_PTX_OP_ADDR || o->var == 0)
            continue;
        const struct pl_ptx_var *v = &m->vars.data[o->var - 1];
        bool is_of_entry =
            v->func != 0 && m->funcs.data[v->func - 1].is_entry && v->param_offset >= 0;
        return v->space == PL_PTX_SPACE_PARAM && !is_of_entry;
    }
    return false;
}

static bool is_plain(const struct pl_emu_ins *ins, const struct pl_emu_access *a)
{
    for (uint32_t k = 0; k < ins->n_args; k++) {
        const struct pl_emu_arg *g = &ins->args[k];
        if (g->kind == PL_EMU_ARG_VALUE)
            return a->n_elems == 1 && g->bits == a->elem_bytes * 8;
        if (g->kind != PL_EMU_ARG_VECTOR)
            continue;
        for (uint32_t i = 0; i < g->n; i++) {
            const struct pl_emu_arg *e = &ins->args[g->first + i];
            if (e->kind != PL_EMU_ARG_VALUE || e->bits != a->elem_bytes * 8)
                return false;
        }
        return g->n == a->n_elems;
    }
    return false;
}

bool pl_emu_prepare_access(struct pl_arena *arena, const struct pl_ptx_module *m,
                           struct pl_emu_ins *ins)
{
    struct pl_emu_access *a = PL_NEW(arena, struct pl_emu_access);
    if (a == NULL)
        return false;
    const struct pl_ptx_ins *p = ins->ptx;
    const struct pl_ptx_type_info *t = &pl_ptx_types[p->types[0]];
    uint8_t sem = p->mods[PL_PTX_CAT_SEM];
    a->space = (uint8_t)space_of(p->mods[PL_PTX_CAT_SPACE]);
    if (a->space == PL_EMU_SPACE_PARAM && is_param_of_func(m, p))
        a->space = PL_EMU_SPACE_LOCAL;
    a->elem_bytes = (uint8_t)(t->bits < 8 ? 1 : t->bits / 8);
    a->n_elems = n_elems_of(p->mods[PL_PTX_CAT_VEC]);
    a->is_signed = t->class == PL_PTX_CLASS_SINT;
    a->is_strong = (sem != PL_PTX_MOD_NONE && sem != PL_PTX_MOD_SEM_WEAK) ||
                   p->mods[PL_PTX_CAT_MMIO] != PL_PTX_MOD_NONE;
    a->is_acquire = sem == PL_PTX_MOD_SEM_ACQUIRE || sem == PL_PTX_MOD_SEM_ACQ_REL;
    a->is_release = sem == PL_PTX_MOD_SEM_RELEASE || sem == PL_PTX_MOD_SEM_ACQ_REL;
    a->n_bytes = (uint32_t)a->elem_bytes * a->n_elems;
    a->is_plain = is_plain(ins, a);
    ins->extra = a;
    return true;
}

/* ---- one lane, every check -------------------------------------------------------------------------------------------------------- */

static void *shared_lane(struct pl_emu_warp *w, const struct pl_emu_access *a, uint32_t lane,
                         uint32_t address, bool is_read, bool is_write, const char *what)
{
    struct pl_emu_cta *cta = pl_emu_shared_cta(w->cta->cluster, address);
    if (cta == NULL || !pl_emu_shared_in(cta, address, a->n_bytes)) {
        pl_emu_fault_shared(w, lane, address, a->n_bytes, what);
        return NULL;
    }
    uint32_t offset = pl_emu_shared_offset(cta, address);
    if (is_read && !pl_emu_shared_is_written(cta, offset, a->n_bytes)) {
        pl_emu_fault_unwritten(w, lane, address, a->n_bytes, what);
        return NULL;
    }
    if (cta->async != NULL && cta->shared.written != NULL) {
        if (is_read &&
            pl_emu_async_on_shared(w, cta, lane, address, a->n_bytes, false) == PL_EMU_FAULT)
            return NULL;
        if (is_write &&
            pl_emu_async_on_shared(w, cta, lane, address, a->n_bytes, true) == PL_EMU_FAULT)
            return NULL;
    }
    if (is_write)
        pl_emu_shared_mark(cta, offset, a->n_bytes);
    return cta->shared.data + offset;
}

static void *global_lane(struct pl_emu_warp *w, const struct pl_emu_access *a, uint32_t lane,
                         uint64_t address, bool is_write, const char *what)
{
    const struct pl_emu_allocation *al = pl_emu_allocation_at(w, address);
    if (al == NULL || a->n_bytes > al->n_bytes - (address - al->address)) {
        pl_emu_fault_global(w, lane, address, a->n_bytes, what);
        return NULL;
    }
    if (is_write && al->is_const) {
        pl_d_emu_const_store(pl_emu_faults(w, lane), pl_emu_where(w), what,
                             al->name != NULL ? al->name : "memory");
        return NULL;
    }
    return al->host + (address - al->address);
}

/* A .shared access of the own CTA: the rank bits are its own, or absent as in an absolute address. */
static uint32_t own_address(const struct pl_emu_warp *w, uint32_t address)
{
    return address >> PL_EMU_RANK_SHIFT == 0 ? address | w->cta->rank << PL_EMU_RANK_SHIFT
                                             : address;
}

void *pl_emu_access_lane(struct pl_emu_warp *w, const struct pl_emu_access *a, uint32_t lane,
                         uint64_t address, bool is_read, bool is_write, const char *what)
{
    if ((address & (a->n_bytes - 1)) != 0) {
        pl_emu_fault_misaligned(w, lane, address, a->n_bytes, what);
        return NULL;
    }
    enum pl_emu_window in = PL_EMU_IN_GLOBAL;
    switch ((enum pl_emu_space)a->space) {
    case PL_EMU_SPACE_SHARED:
        return shared_lane(w, a, lane, own_address(w, (uint32_t)address), is_read, is_write, what);
    case PL_EMU_SPACE_CLUSTER: in = PL_EMU_IN_SHARED; break;
    case PL_EMU_SPACE_LOCAL: in = PL_EMU_IN_LOCAL; break;
    case PL_EMU_SPACE_PARAM: /* an offset, or the generic address of a device function's parameter */
        in = pl_emu_window_of(address) == PL_EMU_IN_LOCAL ? PL_EMU_IN_LOCAL : PL_EMU_IN_PARAM;
        break;
    case PL_EMU_SPACE_GENERIC: in = pl_emu_window_of(address); break;
    case PL_EMU_SPACE_GLOBAL: break;
    }
    switch (in) {
    case PL_EMU_IN_SHARED:
        return shared_lane(w, a, lane, (uint32_t)address, is_read, is_write, what);
    case PL_EMU_IN_LOCAL: return pl_emu_local_at(w, lane, (uint32_t)address, a->n_bytes, what);
    case PL_EMU_IN_PARAM:
        if (!is_write)
            return pl_emu_param_at(w, lane, (uint32_t)address, a->n_bytes);
        pl_d_emu_const_store(pl_emu_faults(w, lane), pl_emu_where(w), what, "kernel parameters");
        return NULL;
    case PL_EMU_IN_FUNC:
        pl_d_emu_bad_space(pl_emu_faults(w, lane), pl_emu_where(w), what, address);
        return NULL;
    case PL_EMU_IN_GLOBAL: break;
    }
    return global_lane(w, a, lane, address, is_write, what);
}

/* ---- whole warps ---------------------------------------------------------------------------- */

/*
 * The bytes that the active lanes touch, checked as a whole: lane i is at host + (address i - first).
 * Nothing is raised here: where a check fails, the lane-by-lane path finds out which lane it is, or
 * that all is well.
 */
struct span {
    uint8_t *host;
    uint64_t first;
    bool is_run; /* consecutive, in the order of lanes */
};

/* Bits of an access in the initialised-bytes map: aligned to its size, it lies in one word. */
static inline uint64_t access_bits(uint32_t n_bytes, uint32_t offset)
{
    return (((uint64_t)1 << n_bytes) - 1) << (offset & 63);
}

static bool are_written(const struct pl_emu_cta *cta, const struct pl_emu_access *a,
                        const uint64_t at[PL_EMU_LANES], uint32_t lo, uint32_t n_bytes)
{
    enum { NEAR_BYTES = 1024 };
    const uint64_t *map = cta->shared.written;
    if (map == NULL || (n_bytes <= NEAR_BYTES && pl_emu_shared_is_written(cta, lo, n_bytes)))
        return true;
    uint64_t missing = 0;
    for (uint32_t i = 0; i < PL_EMU_LANES; i++) {
        uint32_t offset = pl_emu_shared_offset(cta, (uint32_t)at[i]);
        missing |= access_bits(a->n_bytes, offset) & ~map[offset / 64];
    }
    return missing == 0;
}

static void mark_all(struct pl_emu_warp *w, struct pl_emu_cta *cta, const struct pl_emu_access *a,
                     const uint64_t at[PL_EMU_LANES], bool is_run)
{
    uint64_t *map = cta->shared.written;
    if (map == NULL)
        return;
    if (is_run)
        pl_emu_shared_mark(cta, pl_emu_shared_offset(cta, (uint32_t)at[0]),
                           a->n_bytes * PL_EMU_LANES);
    for (uint32_t i = 0; !is_run && i < PL_EMU_LANES; i++) {
        uint32_t offset = pl_emu_shared_offset(cta, (uint32_t)at[i]);
        map[offset / 64] |= access_bits(a->n_bytes, offset);
    }
    PL_EMU_FOR_LANES (lane, cta->async != NULL && !is_run ? w->mask : 0)
        pl_emu_async_note_write(w, cta, lane, (uint32_t)at[lane], a->n_bytes);
}

static uint8_t *global_span(struct pl_emu_warp *w, uint64_t lo, uint64_t n_bytes, bool is_write)
{
    const struct pl_emu_allocation *al = pl_emu_allocation_at(w, lo);
    if (al == NULL || n_bytes > al->n_bytes - (lo - al->address) || (is_write && al->is_const))
        return NULL;
    return al->host + (lo - al->address);
}

static uint8_t *shared_span(struct pl_emu_warp *w, const struct pl_emu_access *a,
                            const uint64_t at[PL_EMU_LANES], uint64_t lo, uint64_t n_bytes,
                            bool is_run, bool is_write)
{
    uint32_t address = (uint32_t)lo;
    if (a->space == PL_EMU_SPACE_SHARED)
        address = own_address(w, address);
    struct pl_emu_cta *cta = pl_emu_shared_cta(w->cta->cluster, address);
    if (cta == NULL || !pl_emu_shared_in(cta, address, n_bytes))
        return NULL;
    bool is_watched = cta->async != NULL && cta->shared.written != NULL;
    if (is_watched && is_run && !pl_emu_async_on_shared_run(w, cta, address, a->n_bytes, is_write))
        return NULL;
    if (is_watched && !is_run && !pl_emu_async_is_quiet(cta, address, (uint32_t)n_bytes, is_write))
        return NULL;
    uint32_t offset = pl_emu_shared_offset(cta, address);
    if (is_write)
        mark_all(w, cta, a, at, is_run);
    else if (!are_written(cta, a, at, offset, (uint32_t)n_bytes))
        return NULL;
    return cta->shared.data + offset;
}

static bool find_span(struct pl_emu_warp *w, const struct pl_emu_access *a,
                      const uint64_t at[PL_EMU_LANES], const struct pl_emu_extent *e, bool is_write,
                      struct span *s)
{
    if ((e->bits & (a->n_bytes - 1)) != 0)
        return false;
    enum pl_emu_window in = PL_EMU_IN_GLOBAL;
    if (a->space == PL_EMU_SPACE_SHARED || a->space == PL_EMU_SPACE_CLUSTER)
        in = PL_EMU_IN_SHARED;
    else if (a->space == PL_EMU_SPACE_GENERIC)
        in = pl_emu_window_of(e->lo);
    else if (a->space != PL_EMU_SPACE_GLOBAL)
        return false;
    uint64_t n_bytes = e->hi - e->lo + a->n_bytes;
    s->first = e->lo;
    s->is_run = e->is_run;
    s->host = in == PL_EMU_IN_GLOBAL   ? global_span(w, e->lo, n_bytes, is_write)
              : in == PL_EMU_IN_SHARED ? shared_span(w, a, at, e->lo, n_bytes, s->is_run, is_write)
                                       : NULL;
    return s->host != NULL;
}

/* Registers of a plain access: the lane array of element i. */
static void *element(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                     const struct pl_emu_arg *g, uint32_t i)
{
    return pl_emu_lanes(w, g->kind == PL_EMU_ARG_VECTOR ? &ins->args[g->first + i] : g);
}

static void spread32(const uint8_t *from, uint32_t *to, uint32_t n_elems)
{
    for (uint32_t i = 0; i < PL_EMU_LANES; i++)
        memcpy(&to[i], from + (size_t)i * n_elems * 4, 4);
}

static void gather32(uint8_t *to, const uint32_t *from, uint32_t n_elems)
{
    for (uint32_t i = 0; i < PL_EMU_LANES; i++)
        memcpy(to + (size_t)i * n_elems * 4, &from[i], 4);
}

static void spread(const uint8_t *from, uint8_t *to, uint32_t n_elems, uint32_t elem_bytes)
{
    for (uint32_t i = 0; i < PL_EMU_LANES; i++)
        memcpy(to + (size_t)i * elem_bytes, from + (size_t)i * n_elems * elem_bytes, elem_bytes);
}

static void gather(uint8_t *to, const uint8_t *from, uint32_t n_elems, uint32_t elem_bytes)
{
    for (uint32_t i = 0; i < PL_EMU_LANES; i++)
        memcpy(to + (size_t)i * n_elems * elem_bytes, from + (size_t)i * elem_bytes, elem_bytes);
}

static void load_run(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                     const struct pl_emu_access *a, const uint8_t *from)
{
    const struct pl_emu_arg *g = &ins->args[0];
    for (uint32_t k = 0; k < a->n_elems; k++) {
        const uint8_t *at = from + (size_t)k * a->elem_bytes;
        void *to = element(w, ins, g, k);
        if (a->n_elems == 1)
            memcpy(to, at, (size_t)a->elem_bytes * PL_EMU_LANES);
        else if (a->elem_bytes == 4)
            spread32(at, to, a->n_elems);
        else
            spread(at, to, a->n_elems, a->elem_bytes);
    }
}

static void store_run(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                      const struct pl_emu_access *a, uint8_t *to)
{
    const struct pl_emu_arg *g = &ins->args[1];
    for (uint32_t k = 0; k < a->n_elems; k++) {
        uint8_t *at = to + (size_t)k * a->elem_bytes;
        const void *from = element(w, ins, g, k);
        if (a->n_elems == 1)
            memcpy(at, from, (size_t)a->elem_bytes * PL_EMU_LANES);
        else if (a->elem_bytes == 4)
            gather32(at, from, a->n_elems);
        else
            gather(at, from, a->n_elems, a->elem_bytes);
    }
}

/* Lanes anywhere in a span. */
static void load_span(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                      const struct pl_emu_access *a, const struct span *s,
                      const uint64_t at[PL_EMU_LANES])
{
    for (uint32_t k = 0; k < a->n_elems; k++) {
        const uint8_t *from = s->host + (size_t)k * a->elem_bytes;
        uint8_t *to = element(w, ins, &ins->args[0], k);
        if (a->elem_bytes == 4 && w->mask == PL_EMU_ALL_LANES) {
            for (uint32_t i = 0; i < PL_EMU_LANES; i++)
                memcpy(to + (size_t)i * 4, from + (at[i] - s->first), 4);
            continue;
        }
        PL_EMU_FOR_LANES (i, w->mask)
            memcpy(to + (size_t)i * a->elem_bytes, from + (at[i] - s->first), a->elem_bytes);
    }
}

static void store_span(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                       const struct pl_emu_access *a, const struct span *s,
                       const uint64_t at[PL_EMU_LANES])
{
    for (uint32_t k = 0; k < a->n_elems; k++) {
        uint8_t *to = s->host + (size_t)k * a->elem_bytes;
        const uint8_t *from = element(w, ins, &ins->args[1], k);
        PL_EMU_FOR_LANES (i, w->mask)
            memcpy(to + (at[i] - s->first), from + (size_t)i * a->elem_bytes, a->elem_bytes);
    }
}

/*
 * Each lane's own local memory at one common address, which is how compilers address local variables and parameters of
 * calls. False: take the lane-by-lane path.
 */
static bool move_local(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                       const struct pl_emu_access *a, uint64_t address, bool is_write)
{
    bool is_generic =
        a->space == PL_EMU_SPACE_GENERIC && pl_emu_window_of(address) == PL_EMU_IN_LOCAL;
    uint32_t stride = w->cta->cluster->local_stride_bytes, at = (uint32_t)address;
    if ((a->space != PL_EMU_SPACE_LOCAL && !is_generic) || w->local == NULL ||
        (at & (a->n_bytes - 1)) != 0 || at < PL_EMU_LOCAL_BASE || at >= stride ||
        a->n_bytes > stride - at)
        return false;
    for (uint32_t k = 0; k < a->n_elems; k++) {
        uint8_t *memory = w->local + at + (size_t)k * a->elem_bytes;
        uint8_t *lanes = element(w, ins, &ins->args[is_write ? 1 : 0], k);
        PL_EMU_FOR_LANES (i, w->mask) {
            uint8_t *m = memory + (size_t)i * stride, *r = lanes + (size_t)i * a->elem_bytes;
            memcpy(is_write ? m : r, is_write ? r : m, a->elem_bytes);
        }
    }
    return true;
}

/* ---- elements of one lane ------------------------------------------------------------------------------------------------------------ */

static uint64_t load_elem(const uint8_t *p, const struct pl_emu_access *a)
{
    uint64_t v = 0;
    if (a->is_strong) {
        switch (a->elem_bytes) {
        case 1: v = __atomic_load_n(p, __ATOMIC_RELAXED); break;
        case 2: v = __atomic_load_n((const uint16_t *)(const void *)p, __ATOMIC_RELAXED); break;
        case 4: v = __atomic_load_n((const uint32_t *)(const void *)p, __ATOMIC_RELAXED); break;
        default: v = __atomic_load_n((const uint64_t *)(const void *)p, __ATOMIC_RELAXED); break;
        }
    } else {
        switch (a->elem_bytes) {
        case 1: v = *p; break;
        case 2: v = *(const uint16_t *)(const void *)p; break;
        case 4: v = *(const uint32_t *)(const void *)p; break;
        default: v = *(const uint64_t *)(const void *)p; break;
        }
    }
    if (!a->is_signed)
        return v;
    uint32_t shift = 64 - a->elem_bytes * 8u;
    return (uint64_t)((int64_t)(v << shift) >> shift);
}

static void store_elem(uint8_t *p, const struct pl_emu_access *a, uint64_t v)
{
    if (a->is_strong) {
        switch (a->elem_bytes) {
        case 1: __atomic_store_n(p, (uint8_t)v, __ATOMIC_RELAXED); break;
        case 2: __atomic_store_n((uint16_t *)(void *)p, (uint16_t)v, __ATOMIC_RELAXED); break;
        case 4: __atomic_store_n((uint32_t *)(void *)p, (uint32_t)v, __ATOMIC_RELAXED); break;
        default: __atomic_store_n((uint64_t *)(void *)p, v, __ATOMIC_RELAXED); break;
        }
        return;
    }
    switch (a->elem_bytes) {
    case 1: *p = (uint8_t)v; break;
    case 2: *(uint16_t *)(void *)p = (uint16_t)v; break;
    case 4: *(uint32_t *)(void *)p = (uint32_t)v; break;
    default: *(uint64_t *)(void *)p = v; break;
    }
}

static void load_lane(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                      const struct pl_emu_access *a, uint32_t lane, const uint8_t *p)
{
    const struct pl_emu_arg *g = &ins->args[0];
    for (uint32_t k = 0; k < a->n_elems; k++, p += a->elem_bytes) {
        const struct pl_emu_arg *e = g->kind == PL_EMU_ARG_VECTOR ? &ins->args[g->first + k] : g;
        if (a->elem_bytes < 16) {
            pl_emu_set_lane(w, e, lane, load_elem(p, a));
        } else if (e->kind == PL_EMU_ARG_VALUE) {
            struct pl_emu_u128 *to = pl_emu_lanes(w, e);
            memcpy(&to[lane], p, sizeof to[lane]);
        }
    }
}

static void store_lane(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                       const struct pl_emu_access *a, uint32_t lane, uint8_t *p)
{
    const struct pl_emu_arg *g = &ins->args[1];
    for (uint32_t k = 0; k < a->n_elems; k++, p += a->elem_bytes) {
        const struct pl_emu_arg *e = g->kind == PL_EMU_ARG_VECTOR ? &ins->args[g->first + k] : g;
        if (a->elem_bytes < 16) {
            store_elem(p, a, pl_emu_lane(w, e, lane));
        } else {
            const struct pl_emu_u128 *from = pl_emu_lanes(w, e);
            memcpy(p, &from[lane], sizeof from[lane]);
        }
    }
}

/* The element at p in every lane of a lane array. */
static void splat(void *to, const uint8_t *p, uint32_t elem_bytes)
{
    if (elem_bytes == 4) {
        uint32_t v = *(const uint32_t *)(const void *)p;
        for (uint32_t i = 0; i < PL_EMU_LANES; i++)
            ((uint32_t *)to)[i] = v;
    } else if (elem_bytes == 8) {
        uint64_t v = *(const uint64_t *)(const void *)p;
        for (uint32_t i = 0; i < PL_EMU_LANES; i++)
            ((uint64_t *)to)[i] = v;
    } else {
        for (uint32_t i = 0; i < PL_EMU_LANES; i++)
            memcpy((uint8_t *)to + (size_t)i * elem_bytes, p, elem_bytes);
    }
}

/* Every lane reads the same address: one load, spread. */
static bool load_uniform(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                         const struct pl_emu_access *a, uint64_t at)
{
    const uint8_t *p = pl_emu_access_lane(w, a, pl_emu_first_lane(w), at, true, false, "load");
    if (p == NULL)
        return false;
    if (w->mask == PL_EMU_ALL_LANES && a->is_plain) {
        for (uint32_t k = 0; k < a->n_elems; k++)
            splat(element(w, ins, &ins->args[0], k), p + (size_t)k * a->elem_bytes, a->elem_bytes);
        return true;
    }
    PL_EMU_FOR_LANES (lane, w->mask)
        load_lane(w, ins, a, lane, p);
    return true;
}

/* Data Movement and Conversion Instructions: ld */
enum pl_emu_status pl_emu_exec_ld(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    const struct pl_emu_access *a = ins->extra;
    uint64_t at[PL_EMU_LANES];
    struct span s;
    struct pl_emu_extent e;
    if (a->space == PL_EMU_SPACE_PARAM && ins->args[1].bits == 0)
        return load_uniform(w, ins, a, (uint64_t)ins->args[1].displacement) ? PL_EMU_NEXT
                                                                            : PL_EMU_FAULT;
    pl_emu_addresses(w, &ins->args[1], at);
    if (pl_race_is_on(w) && pl_race_access(w, a, at, true, false) != PL_EMU_NEXT)
        return PL_EMU_FAULT;
    if (a->is_plain && !a->is_strong) {
        pl_emu_extent_of(w, at, a->n_bytes, &e);
        if (e.is_same && a->space != PL_EMU_SPACE_LOCAL && a->space != PL_EMU_SPACE_GENERIC)
            return load_uniform(w, ins, a, at[0]) ? PL_EMU_NEXT : PL_EMU_FAULT;
        if (e.is_same && move_local(w, ins, a, at[0], false))
            return PL_EMU_NEXT;
        if (find_span(w, a, at, &e, false, &s)) {
            if (s.is_run)
                load_run(w, ins, a, s.host);
            else
                load_span(w, ins, a, &s, at);
            return PL_EMU_NEXT;
        }
    }
    PL_EMU_FOR_LANES (lane, w->mask) {
        const void *p = pl_emu_access_lane(w, a, lane, at[lane], true, false, "load");
        if (p == NULL)
            return PL_EMU_FAULT;
        load_lane(w, ins, a, lane, p);
    }
    if (a->is_acquire)
        atomic_thread_fence(memory_order_acquire);
    return PL_EMU_NEXT;
}

/* Data Movement and Conversion Instructions: st. Lanes store in order: the highest wins a common address. */
enum pl_emu_status pl_emu_exec_st(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    const struct pl_emu_access *a = ins->extra;
    uint64_t at[PL_EMU_LANES];
    struct span s;
    struct pl_emu_extent e;
    pl_emu_addresses(w, &ins->args[0], at);
    if (pl_race_is_on(w) && pl_race_access(w, a, at, false, true) != PL_EMU_NEXT)
        return PL_EMU_FAULT;
    if (a->is_release)
        atomic_thread_fence(memory_order_release);
    if (a->is_plain && !a->is_strong) {
        pl_emu_extent_of(w, at, a->n_bytes, &e);
        if (e.is_same && move_local(w, ins, a, at[0], true))
            return PL_EMU_NEXT;
        if (find_span(w, a, at, &e, true, &s)) {
            if (s.is_run)
                store_run(w, ins, a, s.host);
            else
                store_span(w, ins, a, &s, at);
            return PL_EMU_NEXT;
        }
    }
    PL_EMU_FOR_LANES (lane, w->mask) {
        void *p = pl_emu_access_lane(w, a, lane, at[lane], false, true, "store");
        if (p == NULL)
            return PL_EMU_FAULT;
        store_lane(w, ins, a, lane, p);
    }
    return PL_EMU_NEXT;
}
