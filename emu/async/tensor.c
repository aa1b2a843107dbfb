/*
 * Bulk tensor copies: a box of a tensor map between device and shared memory, and the maps that a cluster has seen.
 *
 * The rows come from emu/async/box.c; here they meet addresses: bounds on the global side, the swizzle on absolute shared
 * addresses. A load writes the whole box (elements outside the tensor are filled), a store only the elements inside.
 *
 * Source: PTX ISA, cp.async.bulk.tensor, cp.reduce.async.bulk.tensor; Tensors: Swizzling Modes
 */
#include "emu/async/state.h"

#include "base/debug.h"
#include "jit/ptx/ptx.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ROW_BYTES = 256 * 8, N_MAPS = 16 };

/* ---- maps --------------------------------------------------------------------------------------------------------------- */

/* What a chip keeps in its descriptor cache: a map that changes in memory is seen only after a tensormap-proxy fence. */
struct pl_async_map {
    uint64_t address; /* 0: free */
    bool is_changed;  /* by this cluster, since its last acquire */
    uint8_t image[PL_TMAP_N_BYTES];
    struct pl_tensormap map;
};

void pl_async_map_forget(struct pl_emu_async *a, uint64_t address)
{
    for (uint32_t i = 0; a->maps != NULL && i < N_MAPS; i++)
        if (a->maps[i].address == address)
            a->maps[i].address = 0;
}

static struct pl_async_map *slot_of(struct pl_emu_async *a, uint64_t address)
{
    if (a->maps == NULL)
        a->maps = calloc(N_MAPS, sizeof *a->maps);
    return a->maps == NULL ? NULL : &a->maps[address / PL_TMAP_N_BYTES % N_MAPS];
}

bool pl_async_map_change(struct pl_emu_async *a, uint64_t address)
{
    struct pl_async_map *m = slot_of(a, address);
    if (m != NULL)
        *m = (struct pl_async_map){.address = address, .is_changed = true};
    return m != NULL;
}

static bool decode(struct pl_emu_warp *w, uint32_t lane, struct pl_async_map *m)
{
    if (!pl_tensormap_unpack(m->image, &m->map)) {
        pl_d_tmap_not_a_map(pl_emu_faults(w, lane), pl_emu_where(w), m->address);
        return false;
    }
    struct pl_arena scratch = {0};
    struct pl_diags broken;
    pl_diags_init(&broken, &scratch);
    bool is_good = pl_tensormap_check(&m->map, &broken);
    if (!is_good)
        pl_d_tmap_broken(pl_emu_faults(w, lane), pl_emu_where(w), m->address,
                         broken.list.n != 0 ? broken.list.data[0].text
                                            : "no memory to say which rule");
    else if (m->map.interleave != PL_TMAP_INTERLEAVE_NONE ||
             m->map.swizzle == PL_TMAP_SWIZZLE_96B) {
        pl_d_tmap_unserved(pl_emu_faults(w, lane), pl_emu_where(w),
                           m->map.swizzle == PL_TMAP_SWIZZLE_96B ? "swizzle 96B"
                                                                 : "an interleaved layout");
        is_good = false;
    }
    pl_arena_fini(&scratch);
    return is_good;
}

const struct pl_tensormap *pl_async_map_at(struct pl_emu_warp *w, uint32_t lane, uint64_t address)
{
    struct pl_emu_async *a = w->cta->cluster->async;
    if (address % PL_TMAP_ALIGN_BYTES != 0) {
        pl_emu_fault_misaligned(w, lane, address, PL_TMAP_ALIGN_BYTES, "tensor map access");
        return NULL;
    }
    const uint8_t *image = pl_emu_generic_at(w, lane, address, PL_TMAP_N_BYTES);
    if (image == NULL)
        return NULL;
    struct pl_async_map *m = slot_of(a, address);
    if (m == NULL) {
        pl_async_no_memory(w);
        return NULL;
    }
    if (m->address == address) {
        if (!m->is_changed && memcmp(m->image, image, PL_TMAP_N_BYTES) == 0)
            return &m->map;
        pl_d_tmap_stale(pl_emu_faults(w, lane), pl_emu_where(w), address);
        return NULL;
    }
    m->address = address;
    m->is_changed = false;
    memcpy(m->image, image, PL_TMAP_N_BYTES);
    if (decode(w, lane, m))
        return &m->map;
    m->address = 0;
    return NULL;
}

/* ---- shared side ------------------------------------------------------------------------------------------------------------ */

/* Bytes that stay together under a swizzle. */
static uint32_t piece_bytes(const struct pl_tensormap *m)
{
    return m->swizzle == PL_TMAP_SWIZZLE_128B_ATOM_32B_FLIP_8B ? 8 : 16;
}

/* Copy one row between its place in the tile and `row`, a dense buffer. */
static void move_row(const struct pl_async_range *tile, const struct pl_box *b, uint32_t row_offset,
                     uint8_t *row, bool is_load)
{
    uint32_t n_bytes = pl_box_row_shared_bytes(b), step = piece_bytes(b->map);
    uint32_t base = tile->cta->shared.base_bytes;
    uint8_t *data = tile->cta->shared.data;
    if (b->map->swizzle == PL_TMAP_SWIZZLE_NONE)
        step = n_bytes;
    for (uint32_t i = 0; i < n_bytes; i += step) {
        uint32_t address = pl_tmap_swizzle_address((enum pl_tmap_swizzle)b->map->swizzle,
                                                   base + tile->first + row_offset + i);
        uint8_t *p = data + address - base;
        memcpy(is_load ? p : row + i, is_load ? row + i : p, step);
    }
}

/* Padded packed types leave gaps that hold nothing: they count as unwritten. */
static void mark_tile(const struct pl_async_op *op, const struct pl_box *b)
{
    const struct pl_async_range *t = &op->target;
    if (b->map->type != PL_TMAP_U4_ALIGN16 && b->map->type != PL_TMAP_U6_ALIGN16) {
        pl_emu_shared_mark(t->cta, t->first, t->end - t->first);
        return;
    }
    uint32_t n_used = 2 * pl_tmap_type_bits((enum pl_tmap_type)b->map->type);
    for (uint32_t i = t->first; i + 16 <= t->end; i += 16)
        pl_emu_shared_mark(t->cta, i, n_used); /* a swizzle moves whole 16-byte groups */
}

static void start(const struct pl_async_op *op, struct pl_box *b)
{
    pl_box_start(b, &op->u.tensor.map, (enum pl_box_mode)op->u.tensor.mode, op->u.tensor.coords,
                 op->u.tensor.offsets);
}

/* Device memory of the elements of a row that lie inside the tensor; *is_fault where they are outside every allocation. */
static uint8_t *row_global(const struct pl_async_op *op, const struct pl_box_row *row,
                           bool *is_fault)
{
    int64_t offset;
    uint32_t n_bytes = pl_box_row_global_bytes(row, &op->u.tensor.map, &offset);
    if (n_bytes == 0)
        return NULL;
    uint64_t address = op->u.tensor.map.address + (uint64_t)offset;
    uint8_t *p = pl_emu_global_at(op->w, address, n_bytes);
    if (p == NULL) {
        pl_emu_fault_global(op->w, (uint32_t)__builtin_ctz(op->lanes), address, n_bytes,
                            op->kind->name);
        *is_fault = true;
    }
    return p;
}

/* ---- load ---------------------------------------------------------------------------------------------------------------------- */

static enum pl_emu_status write_load(struct pl_async_op *op)
{
    struct pl_box b;
    start(op, &b);
    uint8_t image[MAX_ROW_BYTES];
    bool is_fault = false;
    for (struct pl_box_row row; pl_box_next(&b, &row);) {
        const uint8_t *global = row_global(op, &row, &is_fault);
        if (is_fault)
            return PL_EMU_FAULT;
        pl_box_row_load(&b, &row, global, image);
        move_row(&op->target, &b, row.shared_offset_bytes, image, true);
    }
    mark_tile(op, &b);
    return PL_EMU_NEXT;
}

/* ---- store, reduce --------------------------------------------------------------------------------------------------------------- */

static enum pl_emu_status read_store(struct pl_async_op *op)
{
    struct pl_box b;
    start(op, &b);
    if (!pl_async_hold(op, pl_box_shared_bytes(&b)))
        return PL_EMU_FAULT;
    for (struct pl_box_row row; pl_box_next(&b, &row);)
        move_row(&op->source, &b, row.shared_offset_bytes, op->held + row.shared_offset_bytes,
                 false);
    return PL_EMU_NEXT;
}

static void reduce_row(const struct pl_async_op *op, const struct pl_box_row *row,
                       const uint8_t *in, uint8_t *global)
{
    uint32_t elem_bytes = pl_async_reduce_bytes(&op->reduce);
    for (uint32_t e = row->first; e < row->end; e++)
        pl_async_reduce_apply(&op->reduce, global + (e - row->first) * elem_bytes,
                              in + e * elem_bytes);
}

static enum pl_emu_status write_store(struct pl_async_op *op)
{
    struct pl_box b;
    start(op, &b);
    bool is_fault = false;
    for (struct pl_box_row row; pl_box_next(&b, &row);) {
        uint8_t *global = row_global(op, &row, &is_fault);
        if (is_fault)
            return PL_EMU_FAULT;
        if (global == NULL)
            continue;
        if (op->reduce.is_on)
            reduce_row(op, &row, op->held + row.shared_offset_bytes, global);
        else
            pl_box_row_store(&b, &row, op->held + row.shared_offset_bytes, global);
    }
    return PL_EMU_NEXT;
}

const struct pl_async_kind pl_async_tensor_load = {"bulk tensor load", NULL, write_load};
const struct pl_async_kind pl_async_tensor_store = {"bulk tensor store", read_store, write_store};
