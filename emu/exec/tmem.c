/*
 * Tensor memory: allocation, loads and stores between registers and it, and their waits.
 *
 * A load is an operation of the queue: it reads tensor memory when it finishes, and until then its registers hold a NaN; a
 * store takes its registers at issue and writes when it finishes. So a missing wait::ld or wait::st shows.
 *
 * Element of (thread t of the warp, register r), relative to the address:
 *   32x32b    lane t                          column r
 *   16x64b    lane t/4 + 8 (t & 1)            column 2 r + (t >> 1 & 1)
 *   16x128b   lane t/4 + 8 (r & 1)            column 4 (r >> 1) + t % 4
 *   16x256b   lane t/4 + 8 (r >> 1 & 1)       column 8 (r >> 2) + 2 (t % 4) + (r & 1)
 *   16x32bx2  lane t % 16                     column r, + split from thread 16 on
 * With .pack::16b and .unpack::16b a register is the low halves of two columns, 2 c and 2 c + 1.
 * tcgen05.ld.red gives, beside the registers, the least or greatest of each thread's own.
 *
 * Source: PTX ISA, TensorCore 5th Generation Family Instructions: tcgen05.alloc, .dealloc, .ld, .st, .wait; Access restrictions
 */
#include "emu/tmem.h"
#include "emu/exec/async.h"
#include "emu/exec/control.h"
#include "emu/race.h"

#include "base/debug.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- allocation ---------------------------------------------------------------------------------------------------------- */

static struct pl_tmem *tmem_made(struct pl_emu_cta *cta)
{
    struct pl_async_cta *c = pl_async_cta_of(cta);
    if (c != NULL && c->tmem == NULL)
        c->tmem = calloc(1, sizeof(struct pl_tmem));
    return c == NULL ? NULL : c->tmem;
}

bool pl_tmem_is_allocated(const struct pl_tmem *t, uint32_t first, uint32_t n_columns)
{
    if (n_columns == 0 || first + n_columns > PL_TMEM_COLUMNS)
        return false;
    for (uint32_t u = first / PL_TMEM_UNIT; u <= (first + n_columns - 1) / PL_TMEM_UNIT; u++)
        if (t->owner[u] == 0)
            return false;
    return true;
}

/* The first run of free units at a multiple of its own size, or -1. */
static int find_free(const struct pl_tmem *t, uint32_t n_units)
{
    for (uint32_t first = 0; first + n_units <= PL_TMEM_N_UNITS; first += n_units) {
        uint32_t n = 0;
        while (n < n_units && t->owner[first + n] == 0)
            n++;
        if (n == n_units)
            return (int)first;
    }
    return -1;
}

bool pl_tmem_check_group(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    struct pl_tmem *t = tmem_made(w->cta);
    uint8_t group = pl_emu_mod(ins, PL_PTX_CAT_CTA_GROUP) == PL_PTX_MOD_CTA_GROUP_G2 ? 2 : 1;
    if (t == NULL) {
        pl_async_no_memory(w);
        return false;
    }
    if (t->cta_group == 0)
        t->cta_group = group;
    if (t->cta_group == group)
        return true;
    pl_d_tmem_group(pl_emu_faults(w, pl_emu_first_lane(w)), pl_emu_where(w), group, t->cta_group);
    return false;
}

static bool is_column_count(uint64_t n)
{
    return n >= PL_TMEM_UNIT && n <= PL_TMEM_COLUMNS && (n & (n - 1)) == 0;
}

static bool poll_columns(struct pl_emu_warp *w, struct pl_emu_group *g)
{
    return find_free(pl_tmem_of(w->cta), (uint32_t)g->wait.a) >= 0;
}

static void describe_columns(struct pl_emu_warp *w, struct pl_emu_group *g, char *text,
                             size_t n_bytes)
{
    uint32_t n_free = 0;
    for (uint32_t u = 0; u < PL_TMEM_N_UNITS; u++)
        n_free += pl_tmem_of(w->cta)->owner[u] == 0;
    snprintf(text, n_bytes, "tcgen05.alloc waits for %u columns of tensor memory; %u are free",
             (unsigned)g->wait.a * PL_TMEM_UNIT, n_free * PL_TMEM_UNIT);
}

static bool check_alloc(struct pl_emu_warp *w, const struct pl_tmem *t, uint64_t n_columns)
{
    struct pl_diags *ds = pl_emu_faults(w, pl_emu_first_lane(w));
    if (!is_column_count(n_columns))
        pl_d_tmem_columns(ds, pl_emu_where(w), n_columns);
    else if (t->is_relinquished)
        pl_d_tmem_relinquished(ds, pl_emu_where(w));
    else if (t->last_n_columns != 0 && n_columns > t->last_n_columns)
        pl_d_tmem_growing(ds, pl_emu_where(w), n_columns, t->last_n_columns);
    else
        return true;
    return false;
}

static enum pl_emu_status write_slot(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                     uint32_t value)
{
    uint32_t address, lane = pl_emu_first_lane(w);
    struct pl_async_place p;
    if (!pl_async_shared_address(w, ins, &ins->args[0], lane, &address) ||
        !pl_async_place_at(w, lane, address, 4, 4, "tcgen05.alloc", &p) ||
        pl_emu_async_on_shared(w, p.cta, lane, address, 4, true) != PL_EMU_NEXT)
        return PL_EMU_FAULT;
    if (pl_race_is_on(w) && pl_race_shared_by_warp(w, p, 4) != PL_EMU_NEXT)
        return PL_EMU_FAULT;
    memcpy(pl_async_data(p), &value, sizeof value);
    pl_emu_shared_mark(p.cta, p.offset_bytes, 4);
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_tmem_alloc(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    uint64_t n_columns = pl_emu_lane(w, &ins->args[1], pl_emu_first_lane(w));
    if (!pl_tmem_check_group(w, ins))
        return PL_EMU_FAULT;
    struct pl_tmem *t = pl_tmem_of(w->cta);
    if (!check_alloc(w, t, n_columns))
        return PL_EMU_FAULT;
    uint32_t n_units = (uint32_t)n_columns / PL_TMEM_UNIT;
    int first = find_free(t, n_units);
    if (first < 0) {
        w->group->wait = (struct pl_emu_wait){
            .poll = poll_columns, .describe = describe_columns, .a = n_units, .where = w->cta};
        return PL_EMU_BLOCKED;
    }
    t->n_allocations = (uint8_t)(t->n_allocations % 255 + 1);
    memset(t->owner + first, t->n_allocations, n_units);
    t->last_n_columns = (uint32_t)n_columns;
    for (uint32_t lane = 0; lane < PL_TMEM_LANES; lane++)
        for (uint32_t u = 0; u < n_units; u++) { /* a unit is half a word of the map */
            uint32_t column = ((uint32_t)first + u) * PL_TMEM_UNIT;
            t->written[lane][column / 64] &= ~(UINT64_C(0xffffffff) << column % 64);
        }
    if (pl_race_is_on(w))
        pl_race_tmem_alloc(w->cta, (uint32_t)first * PL_TMEM_UNIT, (uint32_t)n_columns);
    return write_slot(w, ins, (uint32_t)first * PL_TMEM_UNIT);
}

enum pl_emu_status pl_emu_exec_tmem_dealloc(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    uint32_t lane = pl_emu_first_lane(w), address = (uint32_t)pl_emu_lane(w, &ins->args[0], lane);
    uint64_t n_columns = pl_emu_lane(w, &ins->args[1], lane);
    if (!pl_tmem_check_group(w, ins))
        return PL_EMU_FAULT;
    struct pl_tmem *t = pl_tmem_of(w->cta);
    uint32_t first = address / PL_TMEM_UNIT, n_units = (uint32_t)n_columns / PL_TMEM_UNIT, n = 0;
    bool is_good = is_column_count(n_columns) && address % PL_TMEM_UNIT == 0 &&
                   first + n_units <= PL_TMEM_N_UNITS && t->owner[first] != 0 &&
                   (first == 0 || t->owner[first - 1] != t->owner[first]);
    for (uint32_t u = 0; is_good && u < PL_TMEM_N_UNITS;
         u++) /* all of the allocation that begins here */
        n += t->owner[u] == t->owner[first];
    if (!is_good || n != n_units) {
        pl_d_tmem_dealloc(pl_emu_faults(w, lane), pl_emu_where(w), address, n_columns);
        return PL_EMU_FAULT;
    }
    if (pl_race_is_on(w) &&
        pl_race_tmem_dealloc(w, w->cta, address, (uint32_t)n_columns) != PL_EMU_NEXT)
        return PL_EMU_FAULT;
    memset(t->owner + first, 0, n_units);
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_tmem_relinquish(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    if (!pl_tmem_check_group(w, ins))
        return PL_EMU_FAULT;
    pl_tmem_of(w->cta)->is_relinquished = true;
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_tmem_check_exit(struct pl_emu_cta *cta)
{
    const struct pl_tmem *t = pl_tmem_of(cta);
    for (uint32_t u = 0; t != NULL && u < PL_TMEM_N_UNITS; u++)
        if (t->owner[u] != 0) {
            pl_d_tmem_leak(pl_emu_faults(&cta->warps[0], 0), pl_emu_where(&cta->warps[0]),
                           u * PL_TMEM_UNIT);
            return PL_EMU_FAULT;
        }
    return PL_EMU_NEXT;
}

/* ---- loads and stores ------------------------------------------------------------------------------------------------------ */

struct access {
    uint8_t shape; /* enum pl_ptx_mod of TSHAPE; NONE: 16x32bx2 */
    bool is_packed;
    uint32_t split;
    uint32_t n_regs, n_lanes, n_columns; /* footprint */
};

struct cell {
    uint32_t lane, column;
};

static struct cell cell_of(const struct access *a, uint32_t t, uint32_t r)
{
    switch (a->shape) {
    case PL_PTX_MOD_TSHAPE_S32X32B: return (struct cell){t, r};
    case PL_PTX_MOD_TSHAPE_S16X64B: return (struct cell){t / 4 + 8 * (t & 1), 2 * r + (t >> 1 & 1)};
    case PL_PTX_MOD_TSHAPE_S16X128B:
        return (struct cell){t / 4 + 8 * (r & 1), 4 * (r >> 1) + t % 4};
    case PL_PTX_MOD_TSHAPE_S16X256B:
        return (struct cell){t / 4 + 8 * (r >> 1 & 1), 8 * (r >> 2) + 2 * (t % 4) + (r & 1)};
    default: return (struct cell){t % 16, r};
    }
}

/* Column of half `half` of a packed register, or of the whole one; the split of 16x32bx2 counts real columns. */
static uint32_t real_column(const struct access *a, uint32_t t, uint32_t column, uint32_t half)
{
    uint32_t c = a->is_packed ? 2 * column + half : column;
    return a->shape == PL_PTX_MOD_NONE && t >= 16 ? c + a->split : c;
}

static bool is_red(const struct pl_emu_ins *ins)
{
    uint16_t form = ins->ptx->form;
    return form == PL_PTX_tcgen05_ld_red_int || form == PL_PTX_tcgen05_ld_red_f32 ||
           form == PL_PTX_tcgen05_ld_red_16x32bx2_int || form == PL_PTX_tcgen05_ld_red_16x32bx2_f32;
}

static bool is_bx2(const struct pl_emu_ins *ins)
{
    uint16_t form = ins->ptx->form;
    return form == PL_PTX_tcgen05_ld_16x32bx2 || form == PL_PTX_tcgen05_st_16x32bx2 ||
           form == PL_PTX_tcgen05_ld_red_16x32bx2_int || form == PL_PTX_tcgen05_ld_red_16x32bx2_f32;
}

/* Operands of a load: registers, reduced one, address, split; of a store: address, split, registers. */
static uint32_t i_address(const struct pl_emu_ins *ins, bool is_load)
{
    return !is_load ? 0 : is_red(ins) ? 2 : 1;
}

static uint8_t shape_mod(const struct pl_emu_ins *ins)
{
    uint8_t shape = pl_emu_mod(ins, PL_PTX_CAT_TSHAPE);
    return shape == PL_PTX_MOD_NONE && !is_bx2(ins) ? PL_PTX_MOD_TSHAPE_S32X32B : shape;
}

static struct access access_of(const struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                               bool is_load)
{
    const struct pl_emu_arg *regs = &ins->args[is_load ? 0 : ins->n_args - 1];
    struct access a = {.shape = shape_mod(ins),
                       .is_packed = pl_emu_mod(ins, is_load ? PL_PTX_CAT_PACK
                                                            : PL_PTX_CAT_UNPACK) != PL_PTX_MOD_NONE,
                       .n_regs = regs->kind == PL_EMU_ARG_VECTOR ? regs->n : 1};
    if (a.shape == PL_PTX_MOD_NONE)
        a.split = (uint32_t)pl_emu_lane(w, &ins->args[i_address(ins, is_load) + 1], 0);
    a.n_lanes = a.shape == PL_PTX_MOD_TSHAPE_S32X32B ? 32 : 16;
    for (uint32_t t = 0; t < PL_EMU_LANES; t++) {
        uint32_t last = real_column(&a, t, cell_of(&a, t, a.n_regs - 1).column, a.is_packed);
        a.n_columns = last + 1 > a.n_columns ? last + 1 : a.n_columns;
    }
    return a;
}

bool pl_tmem_check(struct pl_async_op *op, const struct pl_emu_cta *cta, uint32_t address,
                   uint32_t n_lanes, uint32_t n_columns)
{
    const struct pl_tmem *t = pl_tmem_of(cta);
    uint32_t lane = address >> 16, column = address & 0xffff;
    if (t != NULL && lane + n_lanes <= PL_TMEM_LANES && pl_tmem_is_allocated(t, column, n_columns))
        return true;
    pl_d_tmem_bounds(pl_async_faults(op), pl_async_where(op), op->kind->name, n_lanes, n_columns,
                     address);
    return false;
}

bool pl_tmem_check_written(struct pl_async_op *op, const struct pl_tmem *t, uint32_t lane,
                           uint32_t column)
{
    if (!op->w->cta->cluster->async->is_checking || pl_tmem_is_written(t, lane, column))
        return true;
    pl_d_tmem_unwritten(pl_async_faults(op), pl_async_where(op), op->kind->name,
                        lane << 16 | column);
    return false;
}

/*
 * A warp reaches the 32 lanes of its number modulo 4, and begins there (or, in the 16-lane shapes, in the middle). An address that
 * names no quarter means the own one: DeepGEMM and tilelang leave it out.
 */
static bool find_quarter(struct pl_emu_warp *w, const struct access *a, uint32_t *address)
{
    uint32_t lane = *address >> 16, own = w->index % 4 * 32;
    if (lane < 32) {
        lane += own;
        *address += own << 16;
    }
    if (lane == own || (a->n_lanes == 16 && lane == own + 16))
        return true;
    pl_d_tmem_quarter(pl_emu_faults(w, pl_emu_first_lane(w)), pl_emu_where(w), w->index, own,
                      own + 31, lane);
    return false;
}

/* Lane arrays of the registers, in the frame of the issue. */
static uint32_t *reg_lanes(const struct pl_async_op *op, const struct pl_emu_ins *ins,
                           uint32_t i_regs, uint32_t r)
{
    const struct pl_emu_arg *regs = &ins->args[i_regs];
    const struct pl_emu_arg *a =
        regs->kind == PL_EMU_ARG_VECTOR ? &ins->args[regs->first + r] : regs;
    if (a->kind != PL_EMU_ARG_VALUE)
        return NULL;
    return (uint32_t *)(void *)((a->bank == PL_EMU_BANK_FRAME ? op->u.tmem.frame
                                                              : op->w->bank[a->bank]) +
                                a->offset_bytes);
}

/* For the race check: the cells that an access touches, as columns of each 16 lanes. */
static bool note_cells(struct pl_async_op *op, const struct access *a, bool is_write)
{
    uint8_t is_used[PL_RACE_TMEM_ROWS][PL_RACE_TMEM_COLUMNS] = {{0}};
    uint32_t lane0 = op->u.tmem.address >> 16, column0 = op->u.tmem.address & 0xffff;
    for (uint32_t r = 0; r < a->n_regs; r++)
        for (uint32_t t = 0; t < PL_EMU_LANES; t++)
            for (uint32_t half = 0; half <= a->is_packed; half++) {
                struct cell c = cell_of(a, t, r);
                is_used[(lane0 + c.lane) / 16][column0 + real_column(a, t, c.column, half)] = 1;
            }
    for (uint32_t row = 0; row < PL_RACE_TMEM_ROWS; row++)
        for (uint32_t col = 0; col < PL_RACE_TMEM_COLUMNS; col++) {
            struct pl_race_cells c = {.cta = op->w->cta,
                                      .rows = 1u << row,
                                      .first = col,
                                      .end = col,
                                      .is_write = is_write};
            while (c.end < PL_RACE_TMEM_COLUMNS && is_used[row][c.end] != 0)
                c.end++;
            if (c.end != c.first && pl_race_tmem(op, &c) != PL_EMU_NEXT)
                return false;
            col = c.end;
        }
    return true;
}

static struct pl_async_op *new_access(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                      const struct pl_async_kind *kind, struct access *a)
{
    bool is_load = kind == &pl_tmem_ld;
    *a = access_of(w, ins, is_load);
    uint32_t address =
        (uint32_t)pl_emu_address(w, &ins->args[i_address(ins, is_load)], pl_emu_first_lane(w));
    if (!find_quarter(w, a, &address))
        return NULL;
    struct pl_async_op *op = pl_async_new(w, w->mask, kind);
    if (op == NULL)
        return NULL;
    op->owner = PL_ASYNC_BY_TMEM;
    op->is_generic_proxy = true;
    op->u.tmem.address = address;
    op->u.tmem.frame = w->bank[PL_EMU_BANK_FRAME];
    if (pl_tmem_check(op, w->cta, address, a->n_lanes, a->n_columns) &&
        (!pl_race_is_on(w) || note_cells(op, a, !is_load)))
        return op;
    pl_async_drop(op);
    return NULL;
}

/* Of the values read so far and one more; the first is reduced with itself, which makes a NaN canonical. */
static uint32_t reduce(const struct pl_emu_ins *ins, bool is_first, uint32_t so_far, uint32_t v)
{
    if (pl_emu_mod(ins, PL_PTX_CAT_ABS) != PL_PTX_MOD_NONE)
        v &= 0x7fffffffu;
    return pl_emu_combine(ins, is_first ? v : so_far, v);
}

static enum pl_emu_status write_ld(struct pl_async_op *op)
{
    const struct pl_tmem *t = pl_tmem_of(op->w->cta);
    struct access a = access_of(op->w, op->pc, true);
    uint32_t lane0 = op->u.tmem.address >> 16, column0 = op->u.tmem.address & 0xffff;
    for (uint32_t r = 0; r < a.n_regs; r++) {
        uint32_t *out = reg_lanes(op, op->pc, 0, r),
                 *reduced = is_red(op->pc) ? reg_lanes(op, op->pc, 1, 0) : NULL;
        PL_EMU_FOR_LANES (i, op->lanes) {
            struct cell c = cell_of(&a, i, r);
            uint32_t v = 0;
            for (uint32_t half = 0; half <= a.is_packed; half++) {
                uint32_t column = column0 + real_column(&a, i, c.column, half);
                if (!pl_tmem_check_written(op, t, lane0 + c.lane, column))
                    return PL_EMU_FAULT;
                uint32_t cell = t->cells[lane0 + c.lane][column];
                v |= a.is_packed ? (cell & 0xffff) << 16 * half : cell;
            }
            if (out != NULL)
                out[i] = v;
            if (reduced != NULL)
                reduced[i] = reduce(op->pc, r == 0, reduced[i], v);
        }
    }
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_tmem_ld(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    struct access a;
    struct pl_async_op *op = new_access(w, ins, &pl_tmem_ld, &a);
    if (op == NULL)
        return PL_EMU_FAULT;
    for (uint32_t r = 0; r < a.n_regs + is_red(ins); r++) {
        uint32_t *out = r < a.n_regs ? reg_lanes(op, ins, 0, r) : reg_lanes(op, ins, 1, 0);
        PL_EMU_FOR_LANES (i, w->mask)
            if (out != NULL)
                out[i] = PL_TMEM_POISON;
    }
    enum pl_emu_status s = pl_async_submit(op);
    return s == PL_EMU_NEXT && pl_race_is_on(w) ? PL_EMU_YIELD : s; /* what follows is looked at */
}

static enum pl_emu_status write_st(struct pl_async_op *op)
{
    struct pl_tmem *t = pl_tmem_of(op->w->cta);
    struct access a = access_of(op->w, op->pc, false);
    uint32_t lane0 = op->u.tmem.address >> 16, column0 = op->u.tmem.address & 0xffff;
    for (uint32_t r = 0; r < a.n_regs; r++)
        PL_EMU_FOR_LANES (i, op->lanes) {
            struct cell c = cell_of(&a, i, r);
            uint32_t v;
            memcpy(&v, op->held + (r * PL_EMU_LANES + i) * 4, sizeof v);
            for (uint32_t half = 0; half <= a.is_packed; half++)
                pl_tmem_put(t, lane0 + c.lane, column0 + real_column(&a, i, c.column, half),
                            a.is_packed ? v >> 16 * half & 0xffff : v);
        }
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_tmem_st(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    struct access a;
    struct pl_async_op *op = new_access(w, ins, &pl_tmem_st, &a);
    if (op == NULL)
        return PL_EMU_FAULT;
    if (!pl_async_hold(op, a.n_regs * PL_EMU_LANES * 4)) {
        pl_async_drop(op);
        return PL_EMU_FAULT;
    }
    for (uint32_t r = 0; r < a.n_regs; r++)
        memcpy(op->held + r * PL_EMU_LANES * 4, reg_lanes(op, ins, ins->n_args - 1u, r),
               PL_EMU_LANES * 4);
    return pl_async_submit(op);
}

const struct pl_async_kind pl_tmem_ld = {"tcgen05.ld", NULL, write_ld};
const struct pl_async_kind pl_tmem_st = {"tcgen05.st", NULL, write_st};

/* wait::ld and wait::st: all such operations of the executing threads. */
enum pl_emu_status pl_emu_exec_tmem_wait(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    const struct pl_async_kind *kind =
        ins->ptx->form == PL_PTX_tcgen05_wait_ld ? &pl_tmem_ld : &pl_tmem_st;
    enum pl_emu_status s = PL_EMU_NEXT;
    if (pl_race_is_on(w))
        pl_race_tmem_wait(w, kind);
    for (struct pl_async_op *op = w->cta->cluster->async->first, *next;
         op != NULL && s == PL_EMU_NEXT; op = next) {
        next = op->next;
        if (op->w == w && op->kind == kind && (op->lanes & w->mask) != 0)
            s = pl_async_finish(op);
    }
    return s;
}
