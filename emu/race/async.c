/*
 * Asynchronous operations in the race check: slots, what they read and write, how their end is learned.
 *
 * An operation happens behind its issue, and before whatever follows a wait for it; between those it may happen at any time.
 * So its accesses are checked and remembered when it is issued, under a tick that only a wait makes known.
 */
#include "emu/race/state.h"

#include "emu/tmem.h"

#include <stdlib.h>
#include <string.h>

/* ---- slots ----------------------------------------------------------------------------------------------------------- */

/* Operations that are ordered among themselves by where they were issued, and otherwise by tcgen05 fences. */
static bool is_tensor(const struct pl_async_kind *k)
{
    return k == &pl_tmem_mma || k == &pl_tmem_cp || k == &pl_tmem_shift;
}

/*
 * Its end is known by all that order it. Who has heard of the end of an mma without a tcgen05 fence behind still needs its place in the
 * pipeline. Source: PTX ISA, tcgen05: Pipelined Instructions
 */
static bool may_reuse(const struct pl_emu_race *r, const struct pl_race_slot *s,
                      const struct pl_race_view *v, bool is_generic)
{
    return v != NULL && s->is_generic == is_generic && !s->is_collective &&
           pl_race_clock_covers(v->c[PL_RACE_G], pl_race_agent(r, s), PL_EMU_ALL_LANES,
                                s->tick | 1) &&
           (!is_tensor(s->kind) || pl_race_clock_covers(v->c[PL_RACE_T], pl_race_agent(r, s),
                                                        PL_EMU_ALL_LANES, s->tick | 1));
}

static uint32_t add_slot(struct pl_emu_race *r, struct pl_race_warp *rw)
{
    if (r->n_slots == r->cap_slots) {
        uint32_t cap = r->cap_slots == 0 ? 64 : r->cap_slots * 2;
        struct pl_race_slot *grown = realloc(r->slots, cap * sizeof *grown);
        if (grown == NULL)
            return UINT32_MAX;
        r->slots = grown;
        r->cap_slots = cap;
    }
    if (rw->n_slots == rw->cap_slots) {
        uint32_t cap = rw->cap_slots == 0 ? 16 : rw->cap_slots * 2;
        uint32_t *grown = realloc(rw->slots, cap * sizeof *grown);
        if (grown == NULL)
            return UINT32_MAX;
        rw->slots = grown;
        rw->cap_slots = cap;
    }
    r->slots[r->n_slots] = (struct pl_race_slot){0};
    rw->slots[rw->n_slots++] = r->n_slots;
    return r->n_slots++;
}

/* A slot whose operation the issuer knows to have ended, or a new one. */
static uint32_t find_slot(struct pl_emu_race *r, struct pl_race_warp *rw,
                          const struct pl_async_op *op)
{
    uint32_t lanes = op->lanes;
    for (uint32_t i = 0; i < rw->n_slots; i++) {
        const struct pl_race_slot *s = &r->slots[rw->slots[i]];
        bool is_free = true;
        if (s->is_collective && s->lanes == lanes && s->kind == op->kind && s->has_ended == lanes)
            return rw->slots[i];
        PL_EMU_FOR_LANES (lane, lanes)
            is_free = is_free && may_reuse(r, s, rw->views[lane], op->is_generic_proxy);
        if (is_free)
            return rw->slots[i];
    }
    return add_slot(r, rw);
}

static bool is_collective(const struct pl_async_op *op)
{
    return op->kind != &pl_async_cp && (op->lanes & (op->lanes - 1)) != 0;
}

/* The registers that an operation fills later, or reads. */
static const uint8_t *frame_of(const struct pl_async_op *op)
{
    return op->kind == &pl_tmem_ld          ? op->u.tmem.frame
           : op->owner == PL_ASYNC_BY_WGMMA ? op->u.wgmma.frame
                                            : NULL;
}

struct pl_race_slot *pl_race_slot_of(struct pl_async_op *op)
{
    struct pl_emu_race *r = pl_race_of(op->w);
    struct pl_race_warp *rw = pl_race_warp_of(op->w);
    if (op->race_slot != 0)
        return &r->slots[op->race_slot - 1];
    uint32_t i = find_slot(r, rw, op);
    if (i == UINT32_MAX) {
        r->is_lost = true;
        pl_async_no_memory(op->w);
        return NULL;
    }
    struct pl_race_slot *s = &r->slots[i];
    pl_race_set_drop(&s->end);
    uint32_t is_out = s->is_collective && s->is_out_end == s->lanes;
    *s = (struct pl_race_slot){.tick = s->tick + 2,
                               .out_before = is_out ? s->tick | 1 : s->out_before,
                               .warp = pl_race_index(op->w),
                               .lanes = op->lanes,
                               .group = op->group,
                               .owner = op->owner,
                               .kind = op->kind,
                               .pc = op->pc,
                               .frame = frame_of(op),
                               .is_generic = op->is_generic_proxy,
                               .is_collective = is_collective(op)};
    op->race_slot = i + 1;
    op->w->is_watched |= s->frame != NULL;
    return s;
}

/* Who learns of the end of an operation by other means than a wait of its own knows what its issuer knew, and the end. */
static void make_end(struct pl_async_op *op, struct pl_race_slot *s)
{
    struct pl_emu_race *r = pl_race_of(op->w);
    struct pl_race_set followed = s->end;
    uint32_t agent = pl_race_agent(r, s), n_kinds = s->is_generic ? 1 : PL_RACE_N_SET;
    pl_race_release(op->w, op->lanes, &s->end);
    pl_race_set_join(r, &s->end, &followed);
    pl_race_set_drop(&followed);
    for (uint32_t k = 0; k < n_kinds; k++) {
        if (k == PL_RACE_R) /* G has it */
            continue;
        struct pl_race_clock *c =
            pl_race_clock_copy(s->end.c[k], r->n_warps + r->n_slots, &r->is_lost);
        pl_race_clock_add(c, agent, s->lanes, s->lanes, s->tick | 1, &r->is_lost);
        pl_race_clock_drop(s->end.c[k]);
        s->end.c[k] = c;
    }
}

/* ---- accesses -------------------------------------------------------------------------------------------------------------- */

bool pl_race_op_actor(struct pl_async_op *op, bool is_write, bool is_first_step,
                      struct pl_race_actor *x)
{
    struct pl_emu_race *r = pl_race_of(op->w);
    struct pl_race_slot *s = pl_race_slot_of(op);
    if (s == NULL)
        return false;
    struct pl_race_access a = {.cluster = r->cluster,
                               .agent = pl_race_agent(r, s),
                               .tick = is_first_step ? s->tick : s->tick | 1,
                               .warp = s->warp,
                               .lanes = op->lanes,
                               .line = op->line,
                               .name = op->kind->name,
                               .is_write = is_write,
                               .is_strong = op->reduce.is_on,
                               .is_async = true,
                               .is_generic = op->is_generic_proxy,
                               .is_per_lane = op->kind == &pl_async_cp,
                               .owner = op->owner};
    *x = (struct pl_race_actor){.r = r,
                                .w = op->w,
                                .lanes = op->lanes,
                                .number = pl_race_access_add(r->grid, &a),
                                .sees = PL_RACE_G,
                                .sees_write = PL_RACE_G,
                                .is_write = is_write,
                                .slot = s};
    if (x->number == 0 || r->is_lost || r->grid->is_lost) {
        pl_async_no_memory(op->w);
        return false;
    }
    x->access = pl_race_access_at(r->grid, x->number);
    return true;
}

static enum pl_emu_status shared_range(struct pl_async_op *op, const struct pl_async_range *range,
                                       bool is_write)
{
    struct pl_race_actor x;
    bool is_first = !is_write && op->kind->read != NULL;
    if (!pl_race_op_actor(op, is_write, is_first, &x))
        return PL_EMU_FAULT;
    pl_race_place_shared(&x, range->cta);
    x.sees_write = op->is_generic_proxy ? PL_RACE_R : PL_RACE_S;
    return pl_race_touch_range(&x, &x.r->ctas[range->cta->rank].shared, range->first,
                               range->end - range->first);
}

enum pl_emu_status pl_race_piece(struct pl_async_op *op, const struct pl_async_range *r,
                                 bool is_write)
{
    return shared_range(op, r, is_write);
}

static bool device_actor(struct pl_async_op *op, bool is_write, struct pl_race_actor *x)
{
    if (!pl_race_op_actor(op, is_write, false, x))
        return false;
    pl_race_place_device(x);
    x->sees_write = op->is_generic_proxy ? PL_RACE_G : PL_RACE_D;
    return true;
}

static enum pl_emu_status device_range(struct pl_async_op *op, uint64_t address, uint64_t n_bytes,
                                       bool is_write)
{
    struct pl_race_actor x;
    if (!device_actor(op, is_write, &x))
        return PL_EMU_FAULT;
    return pl_race_touch_range(&x, &x.r->grid->device, address, n_bytes);
}

/* The elements of a box that lie inside the tensor. */
static enum pl_emu_status device_box(struct pl_async_op *op, bool is_write)
{
    struct pl_race_actor x;
    struct pl_box b;
    if (!device_actor(op, is_write, &x))
        return PL_EMU_FAULT;
    pl_box_start(&b, &op->u.tensor.map, (enum pl_box_mode)op->u.tensor.mode, op->u.tensor.coords,
                 op->u.tensor.offsets);
    enum pl_emu_status s = PL_EMU_NEXT;
    for (struct pl_box_row row; s == PL_EMU_NEXT && pl_box_next(&b, &row);) {
        int64_t offset;
        uint32_t n_bytes = pl_box_row_global_bytes(&row, &op->u.tensor.map, &offset);
        if (n_bytes != 0)
            s = pl_race_touch_range(&x, &x.r->grid->device,
                                    op->u.tensor.map.address + (uint64_t)offset, n_bytes);
    }
    return s;
}

/* cp.async: each lane its own piece. */
static enum pl_emu_status lanes_of_cp(struct pl_async_op *op)
{
    struct pl_race_actor from, to;
    enum pl_emu_status s = PL_EMU_NEXT;
    if (!device_actor(op, false, &from) || !pl_race_op_actor(op, true, false, &to))
        return PL_EMU_FAULT;
    PL_EMU_FOR_LANES (lane, op->lanes) {
        struct pl_async_place p = op->u.cp.to[lane];
        from.lanes = to.lanes = 1u << lane;
        pl_race_place_shared(&to, p.cta);
        if (s == PL_EMU_NEXT && op->u.cp.n_copied[lane] != 0)
            s = pl_race_touch_range(&from, &from.r->grid->device, op->u.cp.address[lane],
                                    op->u.cp.n_copied[lane]);
        if (s == PL_EMU_NEXT)
            s = pl_race_touch_range(&to, &to.r->ctas[p.cta->rank].shared, p.offset_bytes,
                                    op->u.cp.n_bytes);
    }
    return s;
}

/*
 * Has a lower lane stored the same bytes to the same place by the same instruction? CUTLASS and the CuTe DSL let all lanes of a
 * warp execute the store of a tile. Nothing orders them, and nothing depends on their order.
 */
static bool is_same_store(const struct pl_async_op *op)
{
    struct pl_race_warp *rw = pl_race_warp_of(op->w);
    struct pl_race_store last = rw->last_store, *now = &rw->last_store;
    *now = (struct pl_race_store){.pc = op->pc,
                                  .serial = op->serial,
                                  .lane = (uint32_t)__builtin_ctz(op->lanes),
                                  .first = op->source.first};
    if (op->kind == &pl_async_tensor_store) {
        now->address = op->u.tensor.map.address;
        memcpy(now->coords, op->u.tensor.coords, sizeof now->coords);
    } else {
        now->address = op->u.bulk.address;
        now->n_bytes = op->u.bulk.n_bytes;
    }
    return last.pc == now->pc && last.serial + 1 == now->serial && last.lane < now->lane &&
           last.first == now->first && last.n_bytes == now->n_bytes &&
           last.address == now->address &&
           memcmp(last.coords, now->coords, sizeof now->coords) == 0;
}

static enum pl_emu_status device_side(struct pl_async_op *op)
{
    bool is_store = op->kind == &pl_async_bulk_store || op->kind == &pl_async_tensor_store;
    if (is_store && !op->reduce.is_on && is_same_store(op))
        return PL_EMU_NEXT;
    if (op->kind == &pl_async_bulk_load)
        return device_range(op, op->u.bulk.address, op->u.bulk.n_bytes, false);
    if (op->kind == &pl_async_bulk_store)
        return device_range(op, op->u.bulk.address, op->u.bulk.n_bytes, true);
    if (op->kind == &pl_async_store_global)
        return device_range(op, op->u.store.address, op->u.store.n_bytes, true);
    if (op->kind == &pl_async_tensor_load || op->kind == &pl_async_tensor_store)
        return device_box(op, op->kind == &pl_async_tensor_store);
    return op->kind == &pl_async_cp ? lanes_of_cp(op) : PL_EMU_NEXT;
}

/* What a commit, or an arrive of cp.async, makes known. */
static void take_issued(struct pl_async_op *op, struct pl_race_slot *s)
{
    struct pl_emu_race *r = pl_race_of(op->w);
    struct pl_race_warp *rw = pl_race_warp_of(op->w);
    uint32_t lane = (uint32_t)__builtin_ctz(op->lanes);
    if (op->kind == &pl_tmem_commit) {
        if (rw->tensor != NULL)
            pl_race_set_copy(&s->end, &rw->tensor[lane]);
        return;
    }
    pl_race_release(op->w, op->lanes, &s->end);
    for (uint32_t i = 0; i < rw->n_slots; i++) {
        const struct pl_race_slot *cp = &r->slots[rw->slots[i]];
        if (cp->kind == &pl_async_cp && (cp->lanes & op->lanes) != 0)
            pl_race_clock_add(s->end.c[PL_RACE_G], pl_race_agent(r, cp), op->lanes, cp->lanes,
                              cp->tick | 1, &r->is_lost);
    }
}

/* tcgen05 operations of a lane that its next commit covers. */
static enum pl_emu_status note_issued(struct pl_async_op *op, struct pl_race_slot *s)
{
    struct pl_emu_race *r = pl_race_of(op->w);
    struct pl_race_warp *rw = pl_race_warp_of(op->w);
    if (rw->tensor == NULL)
        rw->tensor = calloc(PL_EMU_LANES, sizeof *rw->tensor);
    if (rw->tensor == NULL)
        return pl_async_no_memory(op->w);
    pl_race_set_join(r, &rw->tensor[__builtin_ctz(op->lanes)], &s->end);
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_race_submit(struct pl_async_op *op)
{
    enum pl_emu_status s = PL_EMU_NEXT;
    struct pl_race_slot *slot = pl_race_slot_of(op);
    if (slot == NULL)
        return PL_EMU_FAULT;
    if (op->kind == &pl_tmem_commit || op->kind == &pl_async_cp_arrive) {
        take_issued(op, slot);
    } else {
        if (op->source.cta != NULL && !op->is_scattered)
            s = shared_range(op, &op->source, false);
        if (s == PL_EMU_NEXT && op->target.cta != NULL && op->kind != &pl_async_cp)
            s = shared_range(op, &op->target, true);
        if (s == PL_EMU_NEXT)
            s = device_side(op);
        slot = pl_race_slot_of(op); /* slots may have moved */
        if (s == PL_EMU_NEXT && (op->has_signal || is_tensor(op->kind)))
            make_end(op, slot);
        if (s == PL_EMU_NEXT && is_tensor(op->kind))
            s = note_issued(op, slot);
    }
    if (s == PL_EMU_NEXT && op->has_signal)
        s = pl_race_bar_use(op->w, (uint32_t)__builtin_ctz(op->lanes), op->signal);
    return s;
}

/* ---- waits of the issuer --------------------------------------------------------------------------------------------------- */

void pl_race_wait_groups(struct pl_emu_warp *w, uint32_t lane, uint8_t owner, uint32_t end,
                         bool is_read)
{
    struct pl_emu_race *r = pl_race_of(w);
    struct pl_race_warp *rw = pl_race_warp_of(w);
    for (uint32_t i = 0; i < rw->n_slots; i++) {
        struct pl_race_slot *s = &r->slots[rw->slots[i]];
        uint32_t lanes = s->is_collective ? s->lanes : 1u << lane;
        if (s->owner != owner || s->group >= end || (s->lanes >> lane & 1) == 0)
            continue;
        s->has_read |= lanes;
        s->has_ended |= is_read ? 0 : lanes;
    }
    if (owner == PL_ASYNC_BY_WGMMA)
        pl_race_update_watch(w);
}
