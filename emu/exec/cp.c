/*
 * Copies and stores that complete later in the generic proxy: cp.async and its groups, st.async, red.async; and st.bulk.
 *
 * Groups are counted per thread: `cp_group` is the number of the open one, and an operation belongs to the group that was
 * open when it was issued. wait_group N leaves the N youngest committed groups alone.
 *
 * Source: PTX ISA, Data Movement and Conversion Instructions: cp.async, st.async, st.bulk; red.async
 */
#include "emu/async/state.h"
#include "emu/exec/async.h"
#include "emu/race.h"

#include "base/debug.h"

#include <string.h>

/* ---- cp.async -------------------------------------------------------------------------------------------------------------- */

static bool is_ca(const struct pl_emu_ins *ins)
{
    uint16_t f = ins->ptx->form;
    return f == PL_PTX_cp_async_ca || f == PL_PTX_cp_async_ca_cta || f == PL_PTX_cp_async_ca_pred ||
           f == PL_PTX_cp_async_ca_cta_pred;
}

static bool is_predicated(const struct pl_emu_ins *ins)
{
    uint16_t f = ins->ptx->form;
    return f == PL_PTX_cp_async_ca_pred || f == PL_PTX_cp_async_cg_pred ||
           f == PL_PTX_cp_async_ca_cta_pred || f == PL_PTX_cp_async_cg_cta_pred;
}

/* Bytes that a lane takes from memory: the whole size, src-size, or none where ignore-src is true. */
static bool copied_bytes(struct pl_emu_warp *w, const struct pl_emu_ins *ins, uint32_t lane,
                         uint32_t size, uint8_t *out)
{
    uint32_t n_fixed = 3u + (pl_emu_mod(ins, PL_PTX_CAT_L2HINT) != PL_PTX_MOD_NONE);
    uint64_t n = size;
    if (is_predicated(ins))
        n = pl_emu_lane(w, &ins->args[3], lane) != 0 ? 0 : size;
    else if (ins->n_args > n_fixed)
        n = pl_emu_lane(w, &ins->args[3], lane);
    if (n > size) {
        pl_d_cp_size(pl_emu_faults(w, lane), pl_emu_where(w), (unsigned)n, size);
        return false;
    }
    *out = (uint8_t)n;
    return true;
}

static bool cp_lane(struct pl_async_op *op, const struct pl_emu_ins *ins, uint32_t lane)
{
    struct pl_emu_warp *w = op->w;
    uint32_t size = op->u.cp.n_bytes;
    uint64_t from = pl_emu_address(w, &ins->args[1], lane);
    if (!pl_async_place_at(w, lane,
                           pl_async_own(w, (uint32_t)pl_emu_address(w, &ins->args[0], lane)), size,
                           size, "cp.async", &op->u.cp.to[lane]) ||
        !copied_bytes(w, ins, lane, size, &op->u.cp.n_copied[lane]))
        return false;
    op->u.cp.from[lane] = NULL;
    if (op->u.cp.n_copied[lane] == 0)
        return true;
    if (from % size != 0) {
        pl_emu_fault_misaligned(w, lane, from, size, "cp.async");
        return false;
    }
    op->u.cp.address[lane] = from;
    op->u.cp.from[lane] = pl_emu_global_at(w, from, op->u.cp.n_copied[lane]);
    if (op->u.cp.from[lane] == NULL)
        pl_emu_fault_global(w, lane, from, op->u.cp.n_copied[lane], "cp.async");
    return op->u.cp.from[lane] != NULL;
}

static enum pl_emu_status cp_group(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                   uint32_t lanes, uint32_t group)
{
    struct pl_async_op *op = pl_async_new(w, lanes, &pl_async_cp);
    if (op == NULL)
        return PL_EMU_FAULT;
    op->owner = PL_ASYNC_BY_CP_ASYNC;
    op->group = group;
    op->is_generic_proxy = true;
    op->u.cp.n_bytes =
        is_ca(ins) ? (uint8_t)pl_emu_lane(w, &ins->args[2], pl_emu_first_lane(w)) : 16;
    PL_EMU_FOR_LANES (lane, lanes)
        if (!cp_lane(op, ins, lane)) {
            pl_async_drop(op);
            return PL_EMU_FAULT;
        }
    return pl_async_submit(op);
}

enum pl_emu_status pl_emu_exec_cp_async(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    struct pl_async_warp *t = pl_async_warp_of(w);
    if (t == NULL)
        return pl_async_no_memory(w);
    enum pl_emu_status s = PL_EMU_NEXT;
    /* One operation for the lanes whose open group has the same number: nearly always all of them. */
    for (uint32_t left = w->mask; left != 0 && s == PL_EMU_NEXT;) {
        uint32_t group = t->cp_group[__builtin_ctz(left)], same = 0;
        PL_EMU_FOR_LANES (lane, left)
            same |= (uint32_t)(t->cp_group[lane] == group) << lane;
        s = cp_group(w, ins, same, group);
        left &= ~same;
    }
    return s;
}

enum pl_emu_status pl_emu_exec_cp_commit(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    (void)ins;
    struct pl_async_warp *t = pl_async_warp_of(w);
    if (t == NULL)
        return pl_async_no_memory(w);
    PL_EMU_FOR_LANES (lane, w->mask)
        t->cp_group[lane]++;
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_cp_wait(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    struct pl_async_warp *t = w->async;
    bool is_all = ins->ptx->form == PL_PTX_cp_async_wait_all;
    enum pl_emu_status s = PL_EMU_NEXT;
    if (t == NULL)
        return s;
    PL_EMU_FOR_LANES (lane, w->mask) {
        uint64_t n_left = is_all ? 0 : pl_emu_lane(w, &ins->args[0], lane);
        uint32_t n_groups = t->cp_group[lane] + is_all; /* wait_all commits first */
        t->cp_group[lane] = n_groups;
        if (pl_race_is_on(w) && n_left < n_groups)
            pl_race_wait_groups(w, lane, PL_ASYNC_BY_CP_ASYNC, n_groups - (uint32_t)n_left, false);
        if (s == PL_EMU_NEXT && n_left < n_groups)
            s = pl_async_wait_groups(w, lane, PL_ASYNC_BY_CP_ASYNC, n_groups - (uint32_t)n_left,
                                     false);
    }
    return s;
}

static enum pl_emu_status cp_arrive_lane(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                         uint32_t lane)
{
    uint32_t address;
    struct pl_async_place p;
    if (!pl_async_shared_address(w, ins, &ins->args[0], lane, &address) ||
        !pl_async_place_at(w, lane, address, PL_MBAR_N_BYTES, PL_MBAR_N_BYTES, "mbarrier access",
                           &p) ||
        pl_async_bar_at(w, lane, p, "cp.async.mbarrier.arrive") == NULL)
        return PL_EMU_FAULT;
    if (pl_emu_mod(ins, PL_PTX_CAT_NOINC) == PL_PTX_MOD_NONE) {
        struct pl_mbar b = pl_async_bar_get(p);
        enum pl_mbar_error e = pl_mbar_add_pending(&b);
        if (e != PL_MBAR_OK)
            return pl_async_bar_error(pl_emu_faults(w, lane), pl_emu_where(w), p, e, &b);
        pl_async_bar_set(p, &b);
    }
    struct pl_async_op *op = pl_async_new(w, 1u << lane, &pl_async_cp_arrive);
    if (op == NULL)
        return PL_EMU_FAULT;
    op->owner = PL_ASYNC_BY_BARRIER;
    op->is_generic_proxy = true;
    op->has_signal = true;
    op->signal = p;
    return pl_async_submit(op);
}

enum pl_emu_status pl_emu_exec_cp_mbar_arrive(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    enum pl_emu_status s = PL_EMU_NEXT;
    PL_EMU_FOR_LANES (lane, w->mask)
        if (s == PL_EMU_NEXT)
            s = cp_arrive_lane(w, ins, lane);
    return s;
}

/* ---- st.async, red.async ------------------------------------------------------------------------------------------------------ */

static void take_value(struct pl_async_op *op, const struct pl_emu_ins *ins,
                       const struct pl_emu_arg *v, uint32_t lane)
{
    uint32_t elem_bytes = pl_ptx_types[pl_emu_type(ins, 0)].bits / 8u;
    uint32_t n = v->kind == PL_EMU_ARG_VECTOR ? v->n : 1;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t x =
            pl_emu_lane(op->w, v->kind == PL_EMU_ARG_VECTOR ? &ins->args[v->first + i] : v, lane);
        memcpy(op->u.store.value + i * elem_bytes, &x, elem_bytes);
    }
    op->u.store.n_bytes = (uint8_t)(n * elem_bytes);
}

static struct pl_async_reduce reduction_of(const struct pl_emu_ins *ins)
{
    uint8_t op = pl_emu_mod(ins, PL_PTX_CAT_ATOM);
    return (struct pl_async_reduce){
        .is_on = op != PL_PTX_MOD_NONE, .op = op, .type = pl_emu_type(ins, 0)};
}

/* Where the value goes and which barrier learns of it: both in one CTA of the cluster; a reduction's in another one. */
static bool store_places(struct pl_async_op *op, const struct pl_emu_ins *ins, uint32_t lane)
{
    struct pl_emu_warp *w = op->w;
    const char *what = op->reduce.is_on ? "red.async" : "st.async";
    uint32_t n_bytes = op->u.store.n_bytes;
    struct pl_async_place p;
    uint32_t address, barrier;
    if (!pl_async_shared_address(w, ins, &ins->args[0], lane, &address) ||
        !pl_async_shared_address(w, ins, &ins->args[2], lane, &barrier) ||
        !pl_async_place_at(w, lane, address, n_bytes, n_bytes, what, &p) ||
        !pl_async_place_at(w, lane, barrier, PL_MBAR_N_BYTES, PL_MBAR_N_BYTES, what, &op->signal))
        return false;
    if (p.cta != op->signal.cta) {
        pl_d_bulk_signal_elsewhere(pl_emu_faults(w, lane), pl_emu_where(w), what, p.cta->rank,
                                   op->signal.cta->rank);
        return false;
    }
    if (op->reduce.is_on && p.cta == w->cta) {
        pl_d_bulk_same_cta(pl_emu_faults(w, lane), pl_emu_where(w), what);
        return false;
    }
    op->target = (struct pl_async_range){p.cta, p.offset_bytes, p.offset_bytes + n_bytes};
    op->has_signal = true;
    op->signal_bytes = n_bytes;
    return pl_async_bar_at(w, lane, op->signal, what) != NULL;
}

static enum pl_emu_status store_lane(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                     uint32_t lane)
{
    struct pl_async_op *op = pl_async_new(w, 1u << lane, &pl_async_store);
    if (op == NULL)
        return PL_EMU_FAULT;
    op->owner = PL_ASYNC_BY_BARRIER;
    op->is_generic_proxy = true;
    op->reduce = reduction_of(ins);
    take_value(op, ins, &ins->args[1], lane);
    if (store_places(op, ins, lane))
        return pl_async_submit(op);
    pl_async_drop(op);
    return PL_EMU_FAULT;
}

enum pl_emu_status pl_emu_exec_st_async(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    if (w->cta->cluster->n_ctas < 2) {
        pl_d_cluster_of_one(pl_emu_faults(w, pl_emu_first_lane(w)), pl_emu_where(w),
                            pl_ptx_infos[ins->ptx->form].mnemonic);
        return PL_EMU_FAULT;
    }
    enum pl_emu_status s = PL_EMU_NEXT;
    PL_EMU_FOR_LANES (lane, w->mask)
        if (s == PL_EMU_NEXT)
            s = store_lane(w, ins, lane);
    return s;
}

static enum pl_emu_status store_global_lane(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                            uint32_t lane)
{
    const char *what = pl_ptx_infos[ins->ptx->form].mnemonic;
    uint64_t address = pl_emu_address(w, &ins->args[0], lane);
    struct pl_async_op *op = pl_async_new(w, 1u << lane, &pl_async_store_global);
    if (op == NULL)
        return PL_EMU_FAULT;
    op->owner = PL_ASYNC_BY_NOBODY;
    op->is_generic_proxy = true;
    op->reduce = reduction_of(ins);
    take_value(op, ins, &ins->args[1], lane);
    op->u.store.address = address;
    op->u.store.global = pl_emu_global_at(w, address, op->u.store.n_bytes);
    if (op->u.store.global != NULL && address % op->u.store.n_bytes == 0)
        return pl_async_submit(op);
    if (op->u.store.global == NULL)
        pl_emu_fault_global(w, lane, address, op->u.store.n_bytes, what);
    else
        pl_emu_fault_misaligned(w, lane, address, op->u.store.n_bytes, what);
    pl_async_drop(op);
    return PL_EMU_FAULT;
}

enum pl_emu_status pl_emu_exec_st_async_global(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    enum pl_emu_status s = PL_EMU_NEXT;
    PL_EMU_FOR_LANES (lane, w->mask)
        if (s == PL_EMU_NEXT)
            s = store_global_lane(w, ins, lane);
    return s;
}

/* ---- st.bulk: a plain, large store of zeros ------------------------------------------------------------------------------------- */

static enum pl_emu_status st_bulk_lane(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                       uint32_t lane)
{
    uint64_t n_bytes = pl_emu_lane(w, &ins->args[1], lane);
    uint32_t address;
    struct pl_async_place p;
    if (n_bytes % 8 != 0 || n_bytes > UINT32_MAX) {
        pl_d_st_bulk_size(pl_emu_faults(w, lane), pl_emu_where(w), n_bytes);
        return PL_EMU_FAULT;
    }
    if (!pl_async_shared_address(w, ins, &ins->args[0], lane, &address) ||
        !pl_async_place_at(w, lane, address, (uint32_t)n_bytes, 8, "st.bulk", &p))
        return PL_EMU_FAULT;
    if (n_bytes == 0)
        return PL_EMU_NEXT;
    if (p.cta->async != NULL &&
        pl_emu_async_on_shared(w, p.cta, lane, address, (uint32_t)n_bytes, true) != PL_EMU_NEXT)
        return PL_EMU_FAULT;
    if (pl_race_is_on(w) &&
        pl_race_shared(w, 1u << lane, p, (uint32_t)n_bytes, true) != PL_EMU_NEXT)
        return PL_EMU_FAULT;
    memset(pl_async_data(p), 0, n_bytes);
    pl_emu_shared_mark(p.cta, p.offset_bytes, (uint32_t)n_bytes);
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_st_bulk(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    enum pl_emu_status s = PL_EMU_NEXT;
    PL_EMU_FOR_LANES (lane, w->mask)
        if (s == PL_EMU_NEXT)
            s = st_bulk_lane(w, ins, lane);
    return s;
}
