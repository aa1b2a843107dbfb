/*
 * Tensor maps as memory: tensormap.replace, the copy that publishes an edited map, prefetch and the acquiring fence.
 *
 * Source: PTX ISA, Data Movement and Conversion Instructions: tensormap.replace, prefetch; Parallel Synchronization and
 * Communication Instructions: tensormap.cp_fenceproxy, membar / fence
 */
#include "emu/async/state.h"
#include "emu/exec/async.h"
#include "emu/race.h"

#include "base/debug.h"

#include <string.h>

static enum pl_tmap_field field_of(uint8_t mod)
{
    switch (mod) {
    case PL_PTX_MOD_TMAP_GLOBAL_ADDRESS: return PL_TMAP_FIELD_GLOBAL_ADDRESS;
    case PL_PTX_MOD_TMAP_RANK: return PL_TMAP_FIELD_RANK;
    case PL_PTX_MOD_TMAP_BOX_DIM: return PL_TMAP_FIELD_BOX_DIM;
    case PL_PTX_MOD_TMAP_GLOBAL_DIM: return PL_TMAP_FIELD_GLOBAL_DIM;
    case PL_PTX_MOD_TMAP_GLOBAL_STRIDE: return PL_TMAP_FIELD_GLOBAL_STRIDE;
    case PL_PTX_MOD_TMAP_ELEMENT_STRIDE: return PL_TMAP_FIELD_ELEMENT_STRIDE;
    case PL_PTX_MOD_TMAP_ELEMTYPE: return PL_TMAP_FIELD_ELEMTYPE;
    case PL_PTX_MOD_TMAP_INTERLEAVE_LAYOUT: return PL_TMAP_FIELD_INTERLEAVE_LAYOUT;
    case PL_PTX_MOD_TMAP_SWIZZLE_MODE: return PL_TMAP_FIELD_SWIZZLE_MODE;
    case PL_PTX_MOD_TMAP_SWIZZLE_ATOMICITY: return PL_TMAP_FIELD_SWIZZLE_ATOMICITY;
    default: return PL_TMAP_FIELD_FILL_MODE;
    }
}

/* The 128 bytes that an instruction edits, as a generic access to them. */
static uint8_t *image_at(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                         const struct pl_emu_arg *a, uint32_t lane)
{
    uint64_t address = pl_emu_address(w, a, lane);
    bool is_shared = pl_emu_mod(ins, PL_PTX_CAT_SPACE) == PL_PTX_MOD_SPACE_SHARED_CTA;
    if (address % PL_TMAP_N_BYTES != 0) {
        pl_d_tmap_replace_align(pl_emu_faults(w, lane), pl_emu_where(w), address);
        return NULL;
    }
    if (!is_shared && address - PL_EMU_SHARED_WINDOW > UINT32_MAX)
        return pl_emu_generic_at(w, lane, address, PL_TMAP_N_BYTES);
    struct pl_async_place p;
    if (!pl_async_place_at(w, lane, pl_async_own(w, (uint32_t)address), PL_TMAP_N_BYTES,
                           PL_TMAP_N_BYTES, "tensormap.replace", &p))
        return NULL;
    if (p.cta->async != NULL && pl_emu_async_on_shared(w, p.cta, lane, pl_async_address(p),
                                                       PL_TMAP_N_BYTES, true) != PL_EMU_NEXT)
        return NULL;
    if (pl_race_is_on(w) && pl_race_shared(w, 1u << lane, p, PL_TMAP_N_BYTES, true) != PL_EMU_NEXT)
        return NULL;
    return pl_async_data(p);
}

static bool has_ordinal(const struct pl_emu_ins *ins)
{
    return ins->ptx->form == PL_PTX_tensormap_replace_dim ||
           ins->ptx->form == PL_PTX_tensormap_replace_stride;
}

enum pl_emu_status pl_emu_exec_tmap_replace(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    enum pl_tmap_field field = field_of(pl_emu_mod(ins, PL_PTX_CAT_TMAP));
    PL_EMU_FOR_LANES (lane, w->mask) {
        uint8_t *image = image_at(w, ins, &ins->args[0], lane);
        if (image == NULL)
            return PL_EMU_FAULT;
        uint32_t ordinal = has_ordinal(ins) ? (uint32_t)pl_emu_lane(w, &ins->args[1], lane) : 0;
        pl_tensormap_replace(image, field, ordinal,
                             pl_emu_lane(w, &ins->args[has_ordinal(ins) ? 2 : 1], lane));
    }
    return PL_EMU_NEXT;
}

/* The warp copies one map together; its release is the order that the emulator always keeps. */
enum pl_emu_status pl_emu_exec_tmap_cp_fenceproxy(struct pl_emu_warp *w,
                                                  const struct pl_emu_ins *ins)
{
    uint32_t lane = pl_emu_first_lane(w);
    uint64_t to = pl_emu_address(w, &ins->args[0], lane);
    struct pl_async_place from;
    if (!pl_async_place_at(w, lane,
                           pl_async_own(w, (uint32_t)pl_emu_address(w, &ins->args[1], lane)),
                           PL_TMAP_N_BYTES, PL_TMAP_N_BYTES, "tensormap.cp_fenceproxy", &from))
        return PL_EMU_FAULT;
    if (to % PL_TMAP_N_BYTES != 0)
        return (enum pl_emu_status)pl_emu_fault_misaligned(w, lane, to, PL_TMAP_N_BYTES,
                                                           "tensormap.cp_fenceproxy");
    uint8_t *image = pl_emu_global_at(w, to, PL_TMAP_N_BYTES);
    if (image == NULL)
        return (enum pl_emu_status)pl_emu_fault_global(w, lane, to, PL_TMAP_N_BYTES,
                                                       "tensormap.cp_fenceproxy");
    if (!pl_emu_shared_is_written(from.cta, from.offset_bytes, PL_TMAP_N_BYTES))
        return (enum pl_emu_status)pl_emu_fault_unwritten(
            w, lane, pl_async_address(from), PL_TMAP_N_BYTES, "tensormap.cp_fenceproxy");
    if (pl_race_is_on(w) && pl_race_shared(w, w->mask, from, PL_TMAP_N_BYTES, false) != PL_EMU_NEXT)
        return PL_EMU_FAULT;
    memcpy(image, pl_async_data(from), PL_TMAP_N_BYTES);
    return pl_async_map_change(w->cta->cluster->async, to) ? PL_EMU_NEXT : pl_async_no_memory(w);
}

enum pl_emu_status pl_emu_exec_tmap_prefetch(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    if (pl_emu_mod(ins, PL_PTX_CAT_SPACE) != PL_PTX_MOD_NONE)
        return PL_EMU_NEXT; /* in parameter space the layout is ours, and aligned */
    PL_EMU_FOR_LANES (lane, w->mask) {
        uint64_t address = pl_emu_address(w, &ins->args[0], lane);
        if (address % PL_TMAP_ALIGN_BYTES != 0)
            return (enum pl_emu_status)pl_emu_fault_misaligned(
                w, lane, address, PL_TMAP_ALIGN_BYTES, "prefetch.tensormap");
        if (pl_emu_generic_at(w, lane, address, PL_TMAP_N_BYTES) == NULL)
            return PL_EMU_FAULT;
    }
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_tmap_acquire(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    PL_EMU_FOR_LANES (lane, w->mask)
        pl_async_map_forget(w->cta->cluster->async, pl_emu_address(w, &ins->args[0], lane));
    return PL_EMU_NEXT;
}
