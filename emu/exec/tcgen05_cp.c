/*
 * tcgen05.cp, tcgen05.shift and tcgen05.commit: from shared memory to tensor memory, within it, and the word that a chain of
 * operations has ended.
 *
 * Source: PTX ISA, TensorCore 5th Generation Family Instructions: tcgen05.cp, tcgen05.shift, tcgen05.commit
 */
#include "emu/exec/async.h"
#include "emu/race.h"
#include "emu/tcgen05.h"

#include <string.h>

/* ---- cp ---------------------------------------------------------------------------------------------------------------------------------- */

struct cp_shape {
    uint32_t n_rows, n_bytes; /* of the source matrix */
};

static struct cp_shape cp_shape_of(const struct pl_emu_ins *ins)
{
    switch (pl_emu_mod(ins, PL_PTX_CAT_TCP)) {
    case PL_PTX_MOD_TCP_S128X256B: return (struct cp_shape){128, 32};
    case PL_PTX_MOD_TCP_S4X256B: return (struct cp_shape){4, 32};
    case PL_PTX_MOD_TCP_S128X128B: return (struct cp_shape){128, 16};
    case PL_PTX_MOD_TCP_S64X128B: return (struct cp_shape){64, 16};
    default: return (struct cp_shape){32, 16};
    }
}

/* Lanes that row r of the source goes to; returns how many. Source: PTX ISA, tcgen05.cp: Multicast */
static uint32_t cp_lanes(const struct pl_emu_ins *ins, uint32_t r, uint32_t lanes[4])
{
    lanes[0] = pl_emu_mod(ins, PL_PTX_CAT_TCP) == PL_PTX_MOD_TCP_S4X256B ? 32 * r : r;
    switch (pl_emu_mod(ins, PL_PTX_CAT_WARPX)) {
    case PL_PTX_MOD_WARPX_X4: lanes[1] = r + 32, lanes[2] = r + 64, lanes[3] = r + 96; return 4;
    case PL_PTX_MOD_WARPX_X2_02_13: lanes[1] = r + 64; return 2;
    case PL_PTX_MOD_WARPX_X2_01_23:
        lanes[0] = r % 32 + r / 32 * 64, lanes[1] = lanes[0] + 32;
        return 2;
    default: return 1;
    }
}

/* Bits of an element below a byte, 16 of which begin each 16 bytes of the source. */
static uint32_t packed_bits(const struct pl_emu_ins *ins)
{
    return pl_emu_type(ins, 1) == PL_PTX_TYPE_B4X16_P64 ? 4 : 6;
}

/* .b8x16: 16 elements of 4 or 6 bits, packed from bit 0 of the chunk, to a byte each; where in the byte: pl_tc_decode_cell. */
static void expand(const struct pl_emu_ins *ins, uint8_t chunk[PL_TC_CHUNK_BYTES])
{
    uint32_t n_bits = packed_bits(ins);
    uint8_t packed[PL_TC_CHUNK_BYTES + 1] = {0};
    memcpy(packed, chunk, PL_TC_CHUNK_BYTES);
    for (uint32_t e = 0; e < PL_TC_CHUNK_BYTES; e++) {
        uint32_t at = e * n_bits, word = packed[at / 8] | (uint32_t)packed[at / 8 + 1] << 8,
                 v = word >> at % 8 & ((1u << n_bits) - 1);
        chunk[e] = (uint8_t)(n_bits == 4 ? v << 2 : v);
    }
}

static void put_chunk(struct pl_async_op *op, struct pl_tmem *t, const struct pl_tc_chunk *k,
                      uint32_t column)
{
    uint32_t words[4], lanes[4], n = cp_lanes(op->pc, k->i, lanes);
    uint8_t chunk[PL_TC_CHUNK_BYTES];
    memcpy(chunk, pl_async_data(k->place), sizeof chunk);
    if (op->pc->ptx->form == PL_PTX_tcgen05_cp_pad)
        expand(op->pc, chunk);
    memcpy(words, chunk, sizeof words);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < 4; j++)
            pl_tmem_put(t, (op->u.tmem.address >> 16) + lanes[i], column + j, words[j]);
}

static bool cp_chunks(struct pl_async_op *op, struct pl_emu_cta *cta, struct pl_tc_chunks *c)
{
    struct cp_shape shape = cp_shape_of(op->pc);
    *c = (struct pl_tc_chunks){
        .cta = cta, .n_rows = shape.n_rows, .n_k = shape.n_bytes, .m = {.es = 1}};
    if (op->pc->ptx->form == PL_PTX_tcgen05_cp_pad)
        c->n_pad_bytes = PL_TC_CHUNK_BYTES - 2 * packed_bits(op->pc);
    return pl_tc_matrix_of(op, op->u.tmem.a_desc, &c->m);
}

static enum pl_emu_status write_cp(struct pl_async_op *op)
{
    struct pl_emu_cta *ctas[2];
    pl_tc_ctas_of(op, ctas);
    bool is_fault = pl_tmem_finish_before(op) != PL_EMU_NEXT;
    for (uint32_t i = 0; i < 2 && ctas[i] != NULL && !is_fault; i++) {
        struct pl_tc_chunks c;
        if (!cp_chunks(op, ctas[i], &c))
            return PL_EMU_FAULT;
        for (struct pl_tc_chunk k; pl_tc_next_chunk(op, &c, &k, &is_fault);)
            put_chunk(op, pl_tmem_of(ctas[i]), &k, (op->u.tmem.address & 0xffff) + k.k / 4);
    }
    return is_fault ? PL_EMU_FAULT : PL_EMU_NEXT;
}

const struct pl_async_kind pl_tmem_cp = {"tcgen05.cp", NULL, write_cp};

/* For the race check: rows of 16 lanes that a copy writes; the form of four rows counts for its groups. */
static bool note_cells(struct pl_async_op *op, struct pl_emu_cta *cta,
                       const struct pl_tc_chunks *chunks)
{
    uint32_t first = op->u.tmem.address & 0xffff, row = op->u.tmem.address >> 20;
    struct pl_race_cells c = {.cta = cta,
                              .rows = (chunks->n_rows == 4 ? 0x55u : 0xffu) << row & 0xff,
                              .first = first,
                              .end = first + chunks->n_k / 4,
                              .pipe = PL_RACE_PIPE_CP,
                              .is_write = true};
    return !pl_race_is_on(op->w) || pl_race_tmem(op, &c) == PL_EMU_NEXT;
}

static bool cp_operands(struct pl_async_op *op, const struct pl_emu_ins *ins, uint32_t lane)
{
    struct pl_emu_cta *ctas[2];
    op->owner = PL_ASYNC_BY_TMEM;
    op->is_scattered = true;
    op->u.tmem.is_pair = pl_emu_mod(ins, PL_PTX_CAT_CTA_GROUP) == PL_PTX_MOD_CTA_GROUP_G2;
    op->u.tmem.address = (uint32_t)pl_emu_address(op->w, &ins->args[0], lane);
    op->u.tmem.a_desc = pl_emu_lane(op->w, &ins->args[1], lane);
    if (!pl_tc_check_pair(op))
        return false;
    pl_tc_ctas_of(op, ctas);
    for (uint32_t i = 0; i < 2 && ctas[i] != NULL; i++) {
        struct pl_tc_chunks c;
        if (!cp_chunks(op, ctas[i], &c) ||
            !pl_tmem_check(op, ctas[i], op->u.tmem.address, c.n_rows == 4 ? 97 : 128, c.n_k / 4) ||
            !pl_tc_check_chunks(op, c, &op->source) || !note_cells(op, ctas[i], &c))
            return false;
    }
    return true;
}

/* One operation for each lane that executes it: operands fills it in, or raises a fault. */
static enum pl_emu_status issue(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                const struct pl_async_kind *kind,
                                bool (*operands)(struct pl_async_op *, const struct pl_emu_ins *,
                                                 uint32_t))
{
    enum pl_emu_status s = pl_tmem_check_group(w, ins) ? PL_EMU_NEXT : PL_EMU_FAULT;
    PL_EMU_FOR_LANES (lane, w->mask) {
        struct pl_async_op *op = s == PL_EMU_NEXT ? pl_async_new(w, 1u << lane, kind) : NULL;
        if (op == NULL)
            return PL_EMU_FAULT;
        s = pl_tc_submit(op, operands(op, ins, lane));
    }
    return s;
}

enum pl_emu_status pl_emu_exec_tc_cp(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    return issue(w, ins, &pl_tmem_cp, cp_operands);
}

/* ---- shift ------------------------------------------------------------------------------------------------------------------------------- */

enum { SHIFT_LANES = 32, SHIFT_COLUMNS = 8 };

/* Cells of 32 bytes move to the lane before theirs; the last lane keeps its own. A cell that nothing has written moves too. */
static void shift_lanes(struct pl_tmem *t, uint32_t lane, uint32_t column)
{
    for (uint32_t i = lane; i + 1 < lane + SHIFT_LANES; i++)
        for (uint32_t c = column; c < column + SHIFT_COLUMNS; c++) {
            pl_tmem_put(t, i, c, t->cells[i + 1][c]);
            if (!pl_tmem_is_written(t, i + 1, c))
                t->written[i][c / 64] &= ~(UINT64_C(1) << (c % 64));
        }
}

static enum pl_emu_status write_shift(struct pl_async_op *op)
{
    struct pl_emu_cta *ctas[2];
    pl_tc_ctas_of(op, ctas);
    if (pl_tmem_finish_before(op) != PL_EMU_NEXT)
        return PL_EMU_FAULT;
    for (uint32_t i = 0; i < 2 && ctas[i] != NULL; i++)
        shift_lanes(pl_tmem_of(ctas[i]), op->u.tmem.address >> 16, op->u.tmem.address & 0xffff);
    return PL_EMU_NEXT;
}

const struct pl_async_kind pl_tmem_shift = {"tcgen05.shift", NULL, write_shift};

/* For the race check. */
static bool note_shift(struct pl_async_op *op, struct pl_emu_cta *cta)
{
    uint32_t first = op->u.tmem.address & 0xffff;
    struct pl_race_cells c = {.cta = cta,
                              .rows = 3u << (op->u.tmem.address >> 20) & 0xff,
                              .first = first,
                              .end = first + SHIFT_COLUMNS,
                              .pipe = PL_RACE_PIPE_SHIFT,
                              .is_write = true};
    return !pl_race_is_on(op->w) || pl_race_tmem(op, &c) == PL_EMU_NEXT;
}

static bool shift_operands(struct pl_async_op *op, const struct pl_emu_ins *ins, uint32_t lane)
{
    struct pl_emu_cta *ctas[2];
    op->owner = PL_ASYNC_BY_TMEM;
    op->is_scattered = true;
    op->u.tmem.is_pair = pl_emu_mod(ins, PL_PTX_CAT_CTA_GROUP) == PL_PTX_MOD_CTA_GROUP_G2;
    op->u.tmem.address = (uint32_t)pl_emu_address(op->w, &ins->args[0], lane);
    if (!pl_tc_check_pair(op))
        return false;
    if ((op->u.tmem.address >> 16) % SHIFT_LANES != 0) {
        pl_d_tmem_shift(pl_async_faults(op), pl_async_where(op), op->u.tmem.address >> 16);
        return false;
    }
    pl_tc_ctas_of(op, ctas);
    for (uint32_t i = 0; i < 2 && ctas[i] != NULL; i++)
        if (!pl_tmem_check(op, ctas[i], op->u.tmem.address, SHIFT_LANES, SHIFT_COLUMNS) ||
            !note_shift(op, ctas[i]))
            return false;
    return true;
}

enum pl_emu_status pl_emu_exec_tc_shift(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    return issue(w, ins, &pl_tmem_shift, shift_operands);
}

/* ---- commit, fences ------------------------------------------------------------------------------------------------------------------------- */

static enum pl_emu_status write_commit(struct pl_async_op *op)
{
    return pl_tmem_finish_before(op) != PL_EMU_NEXT ? PL_EMU_FAULT : pl_async_signal_arrive(op, 1);
}

const struct pl_async_kind pl_tmem_commit = {"tcgen05.commit", NULL, write_commit};

/* The arrival is of the generic proxy, so that the init of the barrier needs no proxy fence (PTX ISA, Async proxy). */
static enum pl_emu_status commit_to(struct pl_emu_warp *w, uint32_t lane, uint32_t address)
{
    struct pl_async_op *op = pl_async_new(w, 1u << lane, &pl_tmem_commit);
    if (op == NULL)
        return PL_EMU_FAULT;
    op->owner = PL_ASYNC_BY_BARRIER;
    op->is_generic_proxy = true;
    op->has_signal = true;
    return pl_tc_submit(op, pl_async_place_at(w, lane, address, PL_MBAR_N_BYTES, PL_MBAR_N_BYTES,
                                              "tcgen05.commit", &op->signal) &&
                                pl_async_bar_at(w, lane, op->signal, "tcgen05.commit") != NULL);
}

static enum pl_emu_status commit_lane(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                      uint32_t lane)
{
    uint32_t address, n_ctas = w->cta->cluster->n_ctas;
    if (!pl_async_shared_address(w, ins, &ins->args[0], lane, &address))
        return PL_EMU_FAULT;
    if (pl_emu_mod(ins, PL_PTX_CAT_MCAST) == PL_PTX_MOD_NONE)
        return commit_to(w, lane, address);
    uint32_t mask = (uint32_t)pl_emu_lane(w, &ins->args[1], lane) & 0xffff;
    if (mask == 0 || mask >> n_ctas != 0) {
        pl_d_bulk_mask(pl_emu_faults(w, lane), pl_emu_where(w), mask, n_ctas);
        return PL_EMU_FAULT;
    }
    enum pl_emu_status s = PL_EMU_NEXT;
    for (uint32_t rank = 0; rank < n_ctas && s == PL_EMU_NEXT; rank++)
        if ((mask >> rank & 1) != 0)
            s = commit_to(w, lane, rank << PL_EMU_RANK_SHIFT | (address & 0xffffff));
    return s;
}

enum pl_emu_status pl_emu_exec_tc_commit(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    enum pl_emu_status s = pl_tmem_check_group(w, ins) ? PL_EMU_NEXT : PL_EMU_FAULT;
    PL_EMU_FOR_LANES (lane, w->mask)
        if (s == PL_EMU_NEXT)
            s = commit_lane(w, ins, lane);
    return s;
}
