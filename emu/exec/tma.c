/*
 * Bulk copies and bulk tensor copies: operands are checked here, at issue; the data moves when the operation finishes.
 *
 * Each active lane issues a copy of its own (programs elect one). A multicast becomes one operation a destination CTA, since
 * each part arrives and signals by itself.
 *
 * Source: PTX ISA, Data Movement and Conversion Instructions: cp.async.bulk, cp.reduce.async.bulk, cp.async.bulk.tensor,
 * cp.reduce.async.bulk.tensor, cp.async.bulk.commit_group, cp.async.bulk.wait_group
 */
#include "emu/async/state.h"
#include "emu/exec/async.h"
#include "emu/race.h"

#include "base/debug.h"

#include <string.h>

typedef enum pl_emu_status lane_fn(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                   uint32_t lane);

static enum pl_emu_status for_lanes(struct pl_emu_warp *w, const struct pl_emu_ins *ins, lane_fn *f)
{
    enum pl_emu_status s = PL_EMU_NEXT;
    PL_EMU_FOR_LANES (lane, w->mask)
        if (s == PL_EMU_NEXT)
            s = f(w, ins, lane);
    return s;
}

static bool has(const struct pl_emu_ins *ins, enum pl_ptx_cat cat)
{
    return pl_emu_mod(ins, cat) != PL_PTX_MOD_NONE;
}

/* ---- parts that the forms share ---------------------------------------------------------------------------------------------- */

static bool bulk_bytes(struct pl_emu_warp *w, uint32_t lane, const struct pl_emu_arg *a,
                       uint32_t *n_bytes)
{
    *n_bytes = (uint32_t)pl_emu_lane(w, a, lane);
    if (*n_bytes % 16 == 0)
        return true;
    pl_d_bulk_size(pl_emu_faults(w, lane), pl_emu_where(w), *n_bytes);
    return false;
}

/* Device memory of an untyped copy. */
static uint8_t *bulk_global(struct pl_emu_warp *w, uint32_t lane, const struct pl_emu_arg *a,
                            uint32_t n_bytes, const char *what)
{
    uint64_t address = pl_emu_address(w, a, lane);
    if (address % 16 != 0) {
        pl_emu_fault_misaligned(w, lane, address, 16, what);
        return NULL;
    }
    uint8_t *p = pl_emu_global_at(w, address, n_bytes);
    if (p == NULL)
        pl_emu_fault_global(w, lane, address, n_bytes, what);
    return p;
}

static struct pl_async_range range_of(struct pl_async_place p, uint32_t n_bytes)
{
    return (struct pl_async_range){p.cta, p.offset_bytes, p.offset_bytes + n_bytes};
}

/* The barrier that a load signals. For cta_group::2 it is that of the pair's CTA with the parity of mbar's own CTA; else it
 * must lie beside the data. */
static bool take_signal(struct pl_async_op *op, uint32_t lane, uint32_t address, uint32_t n_bytes,
                        bool is_pair)
{
    struct pl_emu_warp *w = op->w;
    uint32_t rank = address >> PL_EMU_RANK_SHIFT, target = op->target.cta->rank;
    if (is_pair)
        address = ((target & ~1u) | (rank & 1)) << PL_EMU_RANK_SHIFT | (address & 0xffffff);
    if (!pl_async_place_at(w, lane, address, PL_MBAR_N_BYTES, PL_MBAR_N_BYTES, op->kind->name,
                           &op->signal))
        return false;
    if (!is_pair && op->signal.cta != op->target.cta) {
        pl_d_bulk_signal_elsewhere(pl_emu_faults(w, lane), pl_emu_where(w), op->kind->name, target,
                                   op->signal.cta->rank);
        return false;
    }
    op->has_signal = true;
    op->signal_bytes = n_bytes;
    op->owner = PL_ASYNC_BY_BARRIER;
    return pl_async_bar_check_signal(w, lane, op->signal);
}

static enum pl_emu_status submit_or_drop(struct pl_async_op *op, bool is_good)
{
    if (is_good)
        return pl_async_submit(op);
    pl_async_drop(op);
    return PL_EMU_FAULT;
}

/* A copy out of shared memory belongs to the open bulk group of its thread. */
static bool join_bulk_group(struct pl_async_op *op, uint32_t lane)
{
    struct pl_async_warp *t = pl_async_warp_of(op->w);
    if (t == NULL) {
        pl_async_no_memory(op->w);
        return false;
    }
    op->owner = PL_ASYNC_BY_BULK;
    op->group = t->bulk_group[lane];
    t->has_source |= 1u << lane;
    t->has_bulk_in_group |= 1u << lane;
    return true;
}

/* Ranks that a load writes to: the multicast mask, or that of the destination address alone. */
static bool target_ranks(struct pl_emu_warp *w, const struct pl_emu_ins *ins, uint32_t lane,
                         uint32_t i_mask, uint32_t address, uint32_t *ranks)
{
    uint32_t n_ctas = w->cta->cluster->n_ctas;
    *ranks = 1u << (address >> PL_EMU_RANK_SHIFT & 15);
    if (!has(ins, PL_PTX_CAT_MCAST))
        return true;
    *ranks = (uint32_t)pl_emu_lane(w, &ins->args[i_mask], lane) & 0xffff;
    if (*ranks >> n_ctas == 0 && *ranks != 0)
        return true;
    pl_d_bulk_mask(pl_emu_faults(w, lane), pl_emu_where(w), *ranks, n_ctas);
    return false;
}

/* Destination or barrier of a load; in the shared::cta forms it is the own CTA's. */
static uint32_t load_address(const struct pl_emu_warp *w, const struct pl_emu_ins *ins, uint32_t i,
                             uint32_t lane)
{
    uint32_t address = (uint32_t)pl_emu_address(w, &ins->args[i], lane);
    bool is_own = ins->ptx->form == PL_PTX_cp_async_bulk_g2s_cta ||
                  ins->ptx->form == PL_PTX_cp_async_bulk_tensor_g2s_cta;
    return is_own ? pl_async_own(w, address) : address;
}

static uint32_t at_rank(const struct pl_emu_ins *ins, uint32_t address, uint32_t rank)
{
    return has(ins, PL_PTX_CAT_MCAST) ? rank << PL_EMU_RANK_SHIFT | (address & 0xffffff) : address;
}

/* ---- cp.async.bulk, cp.reduce.async.bulk --------------------------------------------------------------------------------------- */

static enum pl_emu_status bulk_load_lane(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                         uint32_t lane)
{
    uint32_t n_bytes, ranks, to = load_address(w, ins, 0, lane),
                             bar = load_address(w, ins, 3, lane);
    if (!bulk_bytes(w, lane, &ins->args[2], &n_bytes) || !target_ranks(w, ins, lane, 4, to, &ranks))
        return PL_EMU_FAULT;
    if (n_bytes == 0)
        return PL_EMU_NEXT;
    uint8_t *from = bulk_global(w, lane, &ins->args[1], n_bytes, "bulk load");
    enum pl_emu_status s = from == NULL ? PL_EMU_FAULT : PL_EMU_NEXT;
    for (uint32_t rank = 0; rank < PL_EMU_MAX_CLUSTER && s == PL_EMU_NEXT; rank++) {
        if ((ranks >> rank & 1) == 0)
            continue;
        struct pl_async_op *op = pl_async_new(w, 1u << lane, &pl_async_bulk_load);
        if (op == NULL)
            return PL_EMU_FAULT;
        struct pl_async_place p;
        op->u.bulk.global = from;
        op->u.bulk.address = pl_emu_address(w, &ins->args[1], lane);
        op->u.bulk.n_bytes = n_bytes;
        bool is_good =
            pl_async_place_at(w, lane, at_rank(ins, to, rank), n_bytes, 16, "bulk load", &p);
        if (is_good) {
            op->target = range_of(p, n_bytes);
            is_good = take_signal(op, lane, at_rank(ins, bar, rank), n_bytes, false);
        }
        s = submit_or_drop(op, is_good);
    }
    return s;
}

enum pl_emu_status pl_emu_exec_bulk_load(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    return for_lanes(w, ins, bulk_load_lane);
}

/* f32 add of the reducing copies flushes subnormals. */
static struct pl_async_reduce reduction_of(const struct pl_emu_ins *ins)
{
    if (!has(ins, PL_PTX_CAT_ATOM))
        return (struct pl_async_reduce){0};
    uint8_t type = pl_emu_type(ins, 0);
    return (struct pl_async_reduce){.is_on = true,
                                    .op = pl_emu_mod(ins, PL_PTX_CAT_ATOM),
                                    .type = type,
                                    .is_ftz = type == PL_PTX_TYPE_F32};
}

static bool peer_operands(struct pl_async_op *op, const struct pl_emu_ins *ins, uint32_t lane,
                          uint32_t n_bytes)
{
    struct pl_emu_warp *w = op->w;
    struct pl_async_place to, from;
    if (!pl_async_place_at(w, lane, (uint32_t)pl_emu_address(w, &ins->args[0], lane), n_bytes, 16,
                           op->kind->name, &to) ||
        !pl_async_place_at(w, lane,
                           pl_async_own(w, (uint32_t)pl_emu_address(w, &ins->args[1], lane)),
                           n_bytes, 16, op->kind->name, &from))
        return false;
    if (to.cta == from.cta) {
        pl_d_bulk_same_cta(pl_emu_faults(w, lane), pl_emu_where(w), op->kind->name);
        return false;
    }
    op->target = range_of(to, n_bytes);
    op->source = range_of(from, n_bytes);
    return take_signal(op, lane, (uint32_t)pl_emu_address(w, &ins->args[3], lane), n_bytes, false);
}

/* One bulk copy or reduction of one lane: operands completes it, or raises a fault. None for no bytes. */
static enum pl_emu_status bulk_lane(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                    uint32_t lane, const struct pl_async_kind *kind,
                                    bool (*operands)(struct pl_async_op *,
                                                     const struct pl_emu_ins *, uint32_t, uint32_t))
{
    uint32_t n_bytes;
    if (!bulk_bytes(w, lane, &ins->args[2], &n_bytes))
        return PL_EMU_FAULT;
    if (n_bytes == 0)
        return PL_EMU_NEXT;
    struct pl_async_op *op = pl_async_new(w, 1u << lane, kind);
    if (op == NULL)
        return PL_EMU_FAULT;
    op->reduce = reduction_of(ins);
    return submit_or_drop(op, operands(op, ins, lane, n_bytes));
}

static enum pl_emu_status bulk_peer_lane(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                         uint32_t lane)
{
    return bulk_lane(w, ins, lane, &pl_async_bulk_peer, peer_operands);
}

enum pl_emu_status pl_emu_exec_bulk_peer(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    return for_lanes(w, ins, bulk_peer_lane);
}

static bool store_operands(struct pl_async_op *op, const struct pl_emu_ins *ins, uint32_t lane,
                           uint32_t n_bytes)
{
    struct pl_emu_warp *w = op->w;
    struct pl_async_place from;
    op->u.bulk.n_bytes = n_bytes;
    op->u.bulk.byte_mask = 0xffff;
    if (has(ins, PL_PTX_CAT_CP_MASK))
        op->u.bulk.byte_mask = (uint16_t)pl_emu_lane(w, &ins->args[ins->n_args - 1], lane);
    op->u.bulk.address = pl_emu_address(w, &ins->args[0], lane);
    op->u.bulk.global = bulk_global(w, lane, &ins->args[0], n_bytes, op->kind->name);
    if (op->u.bulk.global == NULL ||
        !pl_async_place_at(w, lane,
                           pl_async_own(w, (uint32_t)pl_emu_address(w, &ins->args[1], lane)),
                           n_bytes, 16, op->kind->name, &from))
        return false;
    op->source = range_of(from, n_bytes);
    return join_bulk_group(op, lane);
}

static enum pl_emu_status bulk_store_lane(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                          uint32_t lane)
{
    return bulk_lane(w, ins, lane, &pl_async_bulk_store, store_operands);
}

enum pl_emu_status pl_emu_exec_bulk_store(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    return for_lanes(w, ins, bulk_store_lane);
}

/* A hint: the operands are checked, nothing moves. */
static enum pl_emu_status bulk_prefetch_lane(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                             uint32_t lane)
{
    uint32_t n_bytes;
    if (!bulk_bytes(w, lane, &ins->args[1], &n_bytes))
        return PL_EMU_FAULT;
    if (n_bytes == 0)
        return PL_EMU_NEXT;
    return bulk_global(w, lane, &ins->args[0], n_bytes, "bulk prefetch") == NULL ? PL_EMU_FAULT
                                                                                 : PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_bulk_prefetch(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    return for_lanes(w, ins, bulk_prefetch_lane);
}

/* ---- bulk groups -------------------------------------------------------------------------------------------------------------------- */

enum pl_emu_status pl_emu_exec_bulk_commit(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    (void)ins;
    struct pl_async_warp *t = pl_async_warp_of(w);
    if (t == NULL)
        return pl_async_no_memory(w);
    PL_EMU_FOR_LANES (lane, w->mask)
        t->bulk_group[lane]++;
    t->has_bulk_in_group &= ~w->mask;
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_bulk_wait(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    struct pl_async_warp *t = w->async;
    enum pl_emu_status s = PL_EMU_NEXT;
    if (t == NULL)
        return s;
    PL_EMU_FOR_LANES (lane, w->mask) {
        uint64_t n_left = pl_emu_lane(w, &ins->args[0], lane);
        if (s != PL_EMU_NEXT || n_left > t->bulk_group[lane])
            continue;
        uint32_t end = t->bulk_group[lane] - (uint32_t)n_left;
        s = pl_async_wait_groups(w, lane, PL_ASYNC_BY_BULK, end, has(ins, PL_PTX_CAT_READ));
        if (pl_race_is_on(w))
            pl_race_wait_groups(w, lane, PL_ASYNC_BY_BULK, end, has(ins, PL_PTX_CAT_READ));
        t->bulk_free[lane] = end > t->bulk_free[lane] ? end : t->bulk_free[lane];
        if (t->bulk_free[lane] == t->bulk_group[lane] && (t->has_bulk_in_group >> lane & 1) == 0)
            t->has_source &= ~(1u << lane);
    }
    return s;
}

/* ---- tensor copies: operands ------------------------------------------------------------------------------------------------------------ */

static uint32_t n_dims(const struct pl_emu_ins *ins)
{
    return pl_emu_mod(ins, PL_PTX_CAT_DIM) - PL_PTX_MOD_DIM_D1 + 1u;
}

static bool check_mode(struct pl_emu_warp *w, uint32_t lane, const struct pl_tensormap *m,
                       uint8_t tmode, uint32_t n)
{
    struct pl_diags *ds = pl_emu_faults(w, lane);
    bool is_im2col = tmode == PL_PTX_MOD_TMODE_IM2COL || tmode == PL_PTX_MOD_TMODE_IM2COL_NO_OFFS;
    if (tmode == PL_PTX_MOD_TMODE_IM2COL_W || tmode == PL_PTX_MOD_TMODE_IM2COL_W_128)
        pl_d_tmap_unserved(ds, pl_emu_where(w), "im2col::w");
    else if ((m->mode == PL_TMAP_IM2COL) != is_im2col)
        pl_d_tmap_mode(ds, pl_emu_where(w), is_im2col ? "im2col" : "tiled");
    else if (m->rank != n)
        pl_d_tmap_rank_differs(ds, pl_emu_where(w), m->rank, n);
    else if ((tmode == PL_PTX_MOD_TMODE_GATHER4 || tmode == PL_PTX_MOD_TMODE_SCATTER4) &&
             m->box[1] != 1)
        pl_d_tmap_gather_box(ds, pl_emu_where(w), m->box[1]);
    else
        return true;
    return false;
}

/* What the packed types and a swizzle allow in one direction only. Source: PTX ISA, Tensors: Packed format; cuTensorMapEncodeTiled */
static bool check_packed(struct pl_emu_warp *w, uint32_t lane, const struct pl_tensormap *m,
                         int32_t coord0, bool is_load)
{
    struct pl_diags *ds = pl_emu_faults(w, lane);
    const char *type = pl_tmap_type_name((enum pl_tmap_type)m->type);
    if (m->type == PL_TMAP_U4_ALIGN16 && !is_load)
        pl_d_tmap_direction(ds, pl_emu_where(w), type, "a store");
    else if (m->type == PL_TMAP_U6_ALIGN16 && is_load &&
             m->swizzle == PL_TMAP_SWIZZLE_128B_ATOM_64B)
        pl_d_tmap_direction(ds, pl_emu_where(w), type, "a load with swizzle 128B_ATOM_64B");
    else if (m->type == PL_TMAP_U4_ALIGN8 && coord0 % 2 != 0)
        pl_d_tmap_packed_coord(ds, pl_emu_where(w), coord0, 2);
    else if ((m->type == PL_TMAP_U4_ALIGN16 || m->type == PL_TMAP_U6_ALIGN16) && coord0 % 128 != 0)
        pl_d_tmap_packed_coord(ds, pl_emu_where(w), coord0, 128);
    else
        return true;
    return false;
}

/* Map, mode, coordinates and im2col offsets of one lane. i_tensor: operand that holds map and coordinates; i_offsets: where
 * the offsets stand, if the form has them. */
static bool tensor_operands(struct pl_async_op *op, const struct pl_emu_ins *ins, uint32_t lane,
                            uint32_t i_tensor, uint32_t i_offsets)
{
    struct pl_emu_warp *w = op->w;
    const struct pl_emu_arg *map = &ins->args[ins->args[i_tensor].first], *coords = map + 1;
    uint8_t tmode = pl_emu_mod(ins, PL_PTX_CAT_TMODE);
    const struct pl_tensormap *m = pl_async_map_at(w, lane, pl_emu_address(w, map, lane));
    if (m == NULL || !check_mode(w, lane, m, tmode, n_dims(ins)))
        return false;
    op->u.tensor.map = *m;
    op->u.tensor.mode = m->mode == PL_TMAP_IM2COL ? PL_BOX_IM2COL : PL_BOX_TILE;
    if (tmode == PL_PTX_MOD_TMODE_GATHER4 || tmode == PL_PTX_MOD_TMODE_SCATTER4)
        op->u.tensor.mode = PL_BOX_GATHER4;
    memset(op->u.tensor.coords, 0, sizeof op->u.tensor.coords);
    for (uint32_t i = 0; i < coords->n && i < PL_TMAP_MAX_RANK; i++)
        op->u.tensor.coords[i] = (int32_t)pl_emu_lane(w, &ins->args[coords->first + i], lane);
    memset(op->u.tensor.offsets, 0, sizeof op->u.tensor.offsets);
    const struct pl_emu_arg *offsets =
        tmode == PL_PTX_MOD_TMODE_IM2COL ? &ins->args[i_offsets] : NULL;
    for (uint32_t i = 0; offsets != NULL && i < offsets->n && i < 3; i++)
        op->u.tensor.offsets[i] = (uint16_t)pl_emu_lane(w, &ins->args[offsets->first + i], lane);
    return check_packed(w, lane, m, op->u.tensor.coords[0], op->u.tensor.is_load);
}

/*
 * Shared memory of the box: 128-byte aligned. A swizzle moves bytes within lines of its own width, of which the last may be filled in part.
 * Source: PTX ISA, Tensors: Swizzling modes
 */
static bool tile_at(struct pl_async_op *op, uint32_t lane, uint32_t address,
                    struct pl_async_range *out)
{
    struct pl_box b;
    pl_box_start(&b, &op->u.tensor.map, (enum pl_box_mode)op->u.tensor.mode, op->u.tensor.coords,
                 op->u.tensor.offsets);
    uint32_t n_bytes = pl_box_shared_bytes(&b);
    const uint32_t span =
        pl_tmap_swizzle_span_bytes((enum pl_tmap_swizzle)op->u.tensor.map.swizzle);
    if (span != 0)
        n_bytes = (n_bytes + span - 1) / span * span;
    struct pl_async_place p;
    if (!pl_async_place_at(op->w, lane, address, n_bytes, 128, op->kind->name, &p))
        return false;
    *out = range_of(p, n_bytes);
    return true;
}

static uint32_t payload_of(const struct pl_async_op *op)
{
    struct pl_box b;
    pl_box_start(&b, &op->u.tensor.map, (enum pl_box_mode)op->u.tensor.mode, op->u.tensor.coords,
                 op->u.tensor.offsets);
    return pl_box_payload_bytes(&b);
}

/* ---- tensor load ------------------------------------------------------------------------------------------------------------------------- */

static bool load_operands(struct pl_async_op *op, const struct pl_emu_ins *ins, uint32_t lane,
                          uint32_t to, uint32_t bar)
{
    op->u.tensor.is_load = true;
    return tensor_operands(op, ins, lane, 1, 3) && tile_at(op, lane, to, &op->target) &&
           take_signal(op, lane, bar, payload_of(op),
                       pl_emu_mod(ins, PL_PTX_CAT_CTA_GROUP) == PL_PTX_MOD_CTA_GROUP_G2);
}

static enum pl_emu_status tensor_load_lane(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                           uint32_t lane)
{
    bool has_offsets = ins->n_args > 3 && ins->args[3].kind == PL_EMU_ARG_VECTOR;
    uint32_t ranks, to = load_address(w, ins, 0, lane), bar = load_address(w, ins, 2, lane);
    if (!target_ranks(w, ins, lane, has_offsets ? 4 : 3, to, &ranks))
        return PL_EMU_FAULT;
    enum pl_emu_status s = PL_EMU_NEXT;
    bool is_pair = pl_emu_mod(ins, PL_PTX_CAT_CTA_GROUP) == PL_PTX_MOD_CTA_GROUP_G2;
    for (uint32_t rank = 0; rank < PL_EMU_MAX_CLUSTER && s == PL_EMU_NEXT; rank++) {
        if ((ranks >> rank & 1) == 0)
            continue;
        struct pl_async_op *op = pl_async_new(w, 1u << lane, &pl_async_tensor_load);
        if (op == NULL)
            return PL_EMU_FAULT;
        s = submit_or_drop(op, load_operands(op, ins, lane, at_rank(ins, to, rank),
                                             is_pair ? bar : at_rank(ins, bar, rank)));
    }
    return s;
}

enum pl_emu_status pl_emu_exec_tensor_load(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    return for_lanes(w, ins, tensor_load_lane);
}

static enum pl_emu_status tensor_prefetch_lane(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                               uint32_t lane)
{
    struct pl_async_op *op = pl_async_new(w, 1u << lane, &pl_async_tensor_load);
    if (op == NULL)
        return PL_EMU_FAULT;
    op->u.tensor.is_load = true;
    bool is_good = tensor_operands(op, ins, lane, 0, 1);
    pl_async_drop(op);
    return is_good ? PL_EMU_NEXT : PL_EMU_FAULT;
}

enum pl_emu_status pl_emu_exec_tensor_prefetch(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    return for_lanes(w, ins, tensor_prefetch_lane);
}

/* ---- tensor store and reduction ------------------------------------------------------------------------------------------------------------ */

enum { OPS_ADD = 1, OPS_MINMAX = 2, OPS_INCDEC = 4, OPS_LOGIC = 8 };

/* The PTX type that a reduction works on, and the operations it serves, by the map's type. */
static const struct reduce_facts {
    uint8_t type, ops;
} reduce_types[PL_TMAP_TYPE_COUNT] = {
    [PL_TMAP_U32] = {PL_PTX_TYPE_U32, OPS_ADD | OPS_MINMAX | OPS_INCDEC | OPS_LOGIC},
    [PL_TMAP_S32] = {PL_PTX_TYPE_S32, OPS_ADD | OPS_MINMAX | OPS_LOGIC},
    [PL_TMAP_U64] = {PL_PTX_TYPE_U64, OPS_ADD | OPS_MINMAX | OPS_LOGIC},
    [PL_TMAP_S64] = {PL_PTX_TYPE_S64, OPS_MINMAX | OPS_LOGIC},
    [PL_TMAP_F16] = {PL_PTX_TYPE_F16, OPS_ADD | OPS_MINMAX},
    [PL_TMAP_BF16] = {PL_PTX_TYPE_BF16, OPS_ADD | OPS_MINMAX},
    [PL_TMAP_F32] = {PL_PTX_TYPE_F32, OPS_ADD},
    [PL_TMAP_F32_FTZ] = {PL_PTX_TYPE_F32, OPS_ADD},
};

static uint8_t ops_of(uint8_t atom)
{
    switch (atom) {
    case PL_PTX_MOD_ATOM_ADD: return OPS_ADD;
    case PL_PTX_MOD_ATOM_MIN:
    case PL_PTX_MOD_ATOM_MAX: return OPS_MINMAX;
    case PL_PTX_MOD_ATOM_INC:
    case PL_PTX_MOD_ATOM_DEC: return OPS_INCDEC;
    default: return OPS_LOGIC;
    }
}

static bool take_reduction(struct pl_async_op *op, const struct pl_emu_ins *ins, uint32_t lane)
{
    uint8_t atom = pl_emu_mod(ins, PL_PTX_CAT_ATOM);
    if (atom == PL_PTX_MOD_NONE)
        return true;
    const struct reduce_facts *f = &reduce_types[op->u.tensor.map.type];
    if ((f->ops & ops_of(atom)) == 0) {
        pl_d_tmap_reduce_type(pl_emu_faults(op->w, lane), pl_emu_where(op->w),
                              pl_ptx_mods[atom].text,
                              pl_tmap_type_name((enum pl_tmap_type)op->u.tensor.map.type));
        return false;
    }
    op->reduce = (struct pl_async_reduce){
        .is_on = true, .op = atom, .type = f->type, .is_ftz = f->type == PL_PTX_TYPE_F32};
    return true;
}

static bool check_start(const struct pl_async_op *op, uint32_t lane)
{
    for (uint32_t i = 0; i < op->u.tensor.map.rank && op->u.tensor.mode != PL_BOX_GATHER4; i++)
        if (op->u.tensor.coords[i] < 0) {
            pl_d_tmap_store_coord(pl_emu_faults(op->w, lane), pl_emu_where(op->w), (int)i,
                                  op->u.tensor.coords[i]);
            return false;
        }
    return true;
}

static enum pl_emu_status tensor_store_lane(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                            uint32_t lane)
{
    struct pl_async_op *op = pl_async_new(w, 1u << lane, &pl_async_tensor_store);
    if (op == NULL)
        return PL_EMU_FAULT;
    op->u.tensor.is_load = false;
    return submit_or_drop(
        op, tensor_operands(op, ins, lane, 0, 0) && check_start(op, lane) &&
                tile_at(op, lane, pl_async_own(w, (uint32_t)pl_emu_address(w, &ins->args[1], lane)),
                        &op->source) &&
                take_reduction(op, ins, lane) && join_bulk_group(op, lane));
}

enum pl_emu_status pl_emu_exec_tensor_store(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    return for_lanes(w, ins, tensor_store_lane);
}
