#ifndef PL_EMU_EXEC_MMA_H
#define PL_EMU_EXEC_MMA_H
/* Executors of the warp and warpgroup matrix instructions; which rows of ptx.def each serves: emu/exec/mma.def. */
#include "emu/exec.h"
#include "emu/machine.h"

/* emu/exec/mma.c: PTX ISA, mma */
pl_emu_exec_fn pl_emu_exec_mma;
/* Of an integer or b1 product (types D, A, B, C): a row of A times a column of B, n elements; C and that, which .satfinite clamps to
 * .s32 and which wraps otherwise. */
int64_t pl_emu_dot_int(const struct pl_ptx_ins *p, unsigned n, const uint64_t *a,
                       const uint64_t *b);
int64_t pl_emu_sum_int(const struct pl_ptx_ins *p, uint64_t c, int64_t dot);
/* Register i of a vector operand, which may have one. */
static inline const struct pl_emu_arg *pl_emu_vector_of(const struct pl_emu_ins *ins,
                                                        unsigned operand, unsigned i)
{
    const struct pl_emu_arg *a = &ins->args[operand];
    return a->kind == PL_EMU_ARG_VECTOR ? &ins->args[a->first + i] : a;
}
/* emu/exec/wmma.c: PTX ISA, wmma */
pl_emu_exec_fn pl_emu_exec_wmma, pl_emu_exec_wmma_load, pl_emu_exec_wmma_store;
/* emu/exec/matrix.c: PTX ISA, ldmatrix, stmatrix, movmatrix */
pl_emu_exec_fn pl_emu_exec_ldmatrix, pl_emu_exec_stmatrix, pl_emu_exec_movmatrix;
/* emu/exec/wgmma.c: PTX ISA, wgmma */
pl_emu_exec_fn pl_emu_exec_wgmma, pl_emu_exec_wgmma_fence, pl_emu_exec_wgmma_commit,
    pl_emu_exec_wgmma_wait;

#define PL_DIAG_ROWS "emu/matrix.def"
#define PL_DIAG_MODE_DECLARE
#include "base/diag_rows.h"

#endif
