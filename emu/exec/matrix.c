/*
 * ldmatrix, stmatrix, movmatrix: PTX ISA, "Warp Level Matrix Instructions".
 *
 * A matrix is 8 or 16 rows of 16 bytes; each row's address comes from a lane. In lane t of the results:
 *   m8n8 .b16           register i: row t/4 of matrix i (lane 8 i + t/4), elements 2 (t % 4) + {0, 1}
 *   m8n8 .trans .b16    rows 2 (t % 4) + {0, 1}, element t/4
 *   m16n16 .trans .b8   register 2 i + r, byte b: row 4 (t % 4) + b of matrix i (lane 16 i + …), byte t/4 + 8 r
 *   m8n16               register i, byte b: element 4 (t % 4) + b of row t/4 (lane 8 i + t/4)
 *   stmatrix m16n8 .trans .b8   register i, byte b: row 2 (t % 4) + (b & 1) of matrix i, byte t/4 + 8 (b >> 1)
 * .b6x16_p32 and .b4x16_p64 rows hold 16 elements of 6 or 4 bits in their first 12 or 8 bytes, each widened to a byte.
 */
#include "emu/exec/mma.h"

#include "base/diag.h"
#include "emu/access.h"
#include "emu/faults.h"
#include "emu/machine.h"
#include "emu/race.h"

#include <string.h>

enum { ROW_BYTES = 16, N_ROWS = 32 };

static unsigned n_matrices(const struct pl_ptx_ins *p)
{
    uint8_t num = p->mods[PL_PTX_CAT_NUM];
    return num == PL_PTX_MOD_NUM_X1 ? 1 : num == PL_PTX_MOD_NUM_X2 ? 2 : 4;
}

/* Host memory of the row that a lane names, of which n_bytes are accessed; NULL: fault raised. */
static uint8_t *row_at(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                       const struct pl_emu_arg *address, unsigned lane, uint32_t n_bytes,
                       bool is_store)
{
    const char *what = pl_ptx_infos[ins->ptx->form].mnemonic;
    uint64_t at = pl_emu_address(w, address, lane);
    if (at % ROW_BYTES != 0) {
        pl_emu_fault_misaligned(w, lane, at, ROW_BYTES, what);
        return NULL;
    }
    uint8_t *row = pl_emu_shared_at(w, lane, (uint32_t)at, ROW_BYTES, what);
    if (row == NULL)
        return NULL;
    struct pl_emu_cta *cta = pl_emu_shared_cta(w->cta->cluster, (uint32_t)at);
    uint32_t offset = pl_emu_shared_offset(cta, (uint32_t)at);
    struct pl_async_place place = {cta, offset};
    if (pl_race_is_on(w) && pl_race_shared(w, 1u << lane, place, n_bytes, is_store) != PL_EMU_NEXT)
        return NULL;
    if (is_store)
        pl_emu_shared_mark(w->cta, offset, n_bytes);
    else if (!pl_emu_shared_is_written(w->cta, offset, n_bytes)) {
        pl_emu_fault_unwritten(w, lane, (uint32_t)at, n_bytes, what);
        return NULL;
    }
    return row;
}

/* ---- ldmatrix ---- */

/* Of a row of 16 elements of 6 or 4 bits the rest is not read. */
static uint32_t row_bytes(const struct pl_ptx_ins *p)
{
    return p->n_types == 1 ? ROW_BYTES : p->types[1] == PL_PTX_TYPE_B6X16_P32 ? 12 : 8;
}

/* 16 elements of 6 or 4 bits to a byte each. */
static void widen_row(uint8_t *row, unsigned n_bits)
{
    uint8_t wide[ROW_BYTES];
    for (unsigned e = 0; e < ROW_BYTES; e++) {
        unsigned bit = e * n_bits, v = (unsigned)row[bit / 8] |
                                       (unsigned)row[bit / 8 + 1 < 16 ? bit / 8 + 1 : 15] << 8;
        wide[e] = (uint8_t)(v >> (bit % 8) & ((1u << n_bits) - 1));
    }
    memcpy(row, wide, sizeof wide);
}

static uint32_t bytes_of(const uint8_t rows[N_ROWS][ROW_BYTES], const uint8_t row[4],
                         const uint8_t byte[4])
{
    uint32_t v = 0;
    for (unsigned b = 0; b < 4; b++)
        v |= (uint32_t)rows[row[b]][byte[b]] << (8 * b);
    return v;
}

/* The row (by the lane that names it) and byte that byte b of register i of lane t takes. */
static void source_of(const struct pl_ptx_ins *p, unsigned i, unsigned t, unsigned b, uint8_t *row,
                      uint8_t *byte)
{
    bool is_trans = p->mods[PL_PTX_CAT_TRANS] != PL_PTX_MOD_NONE;
    unsigned q = t % 4, g = t / 4;
    if (p->form == PL_PTX_ldmatrix_m16n16 || p->form == PL_PTX_ldmatrix_m16n16_pad) {
        *row = (uint8_t)(16 * (i / 2) + 4 * q + b);
        *byte = (uint8_t)(g + 8 * (i % 2));
    } else if (p->form == PL_PTX_ldmatrix_m8n16_pad || !is_trans) {
        *row = (uint8_t)(8 * i + g);
        *byte = (uint8_t)(4 * q + b);
    } else {
        *row = (uint8_t)(8 * i + 2 * q + b / 2);
        *byte = (uint8_t)(2 * g + b % 2);
    }
}

enum pl_emu_status pl_emu_exec_ldmatrix(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    const struct pl_ptx_ins *p = ins->ptx;
    bool is_16 = p->form == PL_PTX_ldmatrix_m16n16 || p->form == PL_PTX_ldmatrix_m16n16_pad;
    unsigned n_rows = n_matrices(p) * (is_16 ? 16 : 8), n_regs = n_matrices(p) * (is_16 ? 2 : 1);
    uint8_t rows[N_ROWS][ROW_BYTES], row[4], byte[4];
    for (unsigned lane = 0; lane < n_rows; lane++) {
        const uint8_t *from = row_at(w, ins, &ins->args[1], lane, row_bytes(p), false);
        if (from == NULL)
            return PL_EMU_FAULT;
        memcpy(rows[lane], from, row_bytes(p));
        if (row_bytes(p) < ROW_BYTES)
            widen_row(rows[lane], row_bytes(p) / 2);
    }
    for (unsigned i = 0; i < n_regs; i++)
        for (unsigned t = 0; t < 32; t++) {
            for (unsigned b = 0; b < 4; b++)
                source_of(p, i, t, b, &row[b], &byte[b]);
            pl_emu_set_lane(w, pl_emu_vector_of(ins, 0, i), t,
                            bytes_of((const uint8_t(*)[ROW_BYTES])rows, row, byte));
        }
    return PL_EMU_NEXT;
}

/* ---- stmatrix ---- */

enum pl_emu_status pl_emu_exec_stmatrix(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    const struct pl_ptx_ins *p = ins->ptx;
    bool is_trans = p->mods[PL_PTX_CAT_TRANS] != PL_PTX_MOD_NONE,
         is_b8 = p->form == PL_PTX_stmatrix_m16n8;
    unsigned n = n_matrices(p);
    uint8_t *rows[N_ROWS];
    for (unsigned lane = 0; lane < 8 * n; lane++)
        if ((rows[lane] = row_at(w, ins, &ins->args[0], lane, ROW_BYTES, true)) == NULL)
            return PL_EMU_FAULT;
    for (unsigned i = 0; i < n; i++)
        for (unsigned t = 0; t < 32; t++) {
            uint32_t v = (uint32_t)pl_emu_lane(w, pl_emu_vector_of(ins, 1, i), t);
            for (unsigned b = 0; b < 4; b++) {
                unsigned q = t % 4, g = t / 4;
                unsigned row = is_b8 ? 2 * q + (b & 1) : is_trans ? 2 * q + b / 2 : g;
                unsigned byte = is_b8 ? g + 8 * (b >> 1) : is_trans ? 2 * g + b % 2 : 4 * q + b;
                rows[8 * i + row][byte] = (uint8_t)(v >> (8 * b));
            }
        }
    return PL_EMU_NEXT;
}

/* ---- movmatrix: an 8 x 8 matrix of b16, transposed between registers ---- */

enum pl_emu_status pl_emu_exec_movmatrix(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    uint16_t matrix[8][8];
    for (unsigned t = 0; t < 32; t++) {
        uint64_t v = pl_emu_lane(w, &ins->args[1], t);
        matrix[t / 4][2 * (t % 4)] = (uint16_t)v;
        matrix[t / 4][2 * (t % 4) + 1] = (uint16_t)(v >> 16);
    }
    for (unsigned t = 0; t < 32; t++) {
        uint32_t low = matrix[2 * (t % 4)][t / 4], high = matrix[2 * (t % 4) + 1][t / 4];
        pl_emu_set_lane(w, &ins->args[0], t, low | high << 16);
    }
    return PL_EMU_NEXT;
}
