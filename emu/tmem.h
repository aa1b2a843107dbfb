#ifndef PL_EMU_TMEM_H
#define PL_EMU_TMEM_H
/*
 * Tensor memory of a CTA: 128 lanes of 512 columns of 32 bits, addressed as lane << 16 | column; and its allocator.
 *
 * Columns are given out in units of 32. A cell knows whether it was written since its column was allocated.
 *
 * Source: PTX ISA, TensorCore 5th Generation Family Instructions: Tensor Memory, Tensor Memory Allocation
 */
#include "emu/async/state.h"

enum {
    PL_TMEM_LANES = 128,
    PL_TMEM_COLUMNS = 512,
    PL_TMEM_UNIT = 32,
    PL_TMEM_N_UNITS = PL_TMEM_COLUMNS / PL_TMEM_UNIT,
    PL_TMEM_POISON = 0x7fbadbad, /* a NaN: registers of a load that was not waited for */
};

struct pl_tmem {
    uint32_t cells[PL_TMEM_LANES][PL_TMEM_COLUMNS];
    uint64_t written[PL_TMEM_LANES][PL_TMEM_COLUMNS / 64];
    uint8_t owner[PL_TMEM_N_UNITS]; /* number of the allocation that has it; 0: free */
    uint8_t n_allocations;          /* made so far, modulo 255, from 1 */
    uint32_t last_n_columns;        /* of the latest allocation; 0: none yet */
    uint8_t cta_group;              /* 1 or 2, by the first instruction that says so; 0: none yet */
    bool is_relinquished;
};

/* The CTA's tensor memory, or NULL before its first allocation. */
static inline struct pl_tmem *pl_tmem_of(const struct pl_emu_cta *cta)
{
    const struct pl_async_cta *c = cta->async;
    return c == NULL ? NULL : c->tmem;
}

static inline bool pl_tmem_is_written(const struct pl_tmem *t, uint32_t lane, uint32_t column)
{
    return (t->written[lane][column / 64] >> (column % 64) & 1) != 0;
}

static inline void pl_tmem_put(struct pl_tmem *t, uint32_t lane, uint32_t column, uint32_t v)
{
    t->cells[lane][column] = v;
    t->written[lane][column / 64] |= UINT64_C(1) << (column % 64);
}

/* Columns [first, first + n) are all allocated. */
bool pl_tmem_is_allocated(const struct pl_tmem *t, uint32_t first, uint32_t n_columns);

/* Operand of an operation in the queue: op->u.tmem.address and the CTA of the issuer must hold n_lanes lanes from the
 * address's lane and n_columns columns; false: a fault was raised. */
bool pl_tmem_check(struct pl_async_op *op, const struct pl_emu_cta *cta, uint32_t address,
                   uint32_t n_lanes, uint32_t n_columns);
/* The same cell by cell: false and a fault for one that nothing has written. */
bool pl_tmem_check_written(struct pl_async_op *op, const struct pl_tmem *t, uint32_t lane,
                           uint32_t column);

/* All instructions of a CTA name one cta_group; false: a fault was raised. */
bool pl_tmem_check_group(struct pl_emu_warp *w, const struct pl_emu_ins *ins);

/* CTA exit: everything must have been given back. */
enum pl_emu_status pl_tmem_check_exit(struct pl_emu_cta *cta);

/* What executes in order before op: earlier mma, cp, shift and commit of the same thread, and the pipelined pairs across threads.
 * Source: PTX ISA, tcgen05: Pipelined Instructions */
enum pl_emu_status pl_tmem_finish_before(struct pl_async_op *op);
extern const struct pl_async_kind pl_tmem_ld, pl_tmem_st, pl_tmem_mma, pl_tmem_cp, pl_tmem_shift,
    pl_tmem_commit;
#endif
