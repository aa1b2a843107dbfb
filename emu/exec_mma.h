#ifndef PL_EMU_EXEC_MMA_H
#define PL_EMU_EXEC_MMA_H
/* Executors of the warp and warpgroup matrix instructions; which rows of ptx.def each serves: emu/exec_mma.def. */
#include "emu/exec.h"

/* exec_mma.c: PTX ISA, mma */
pl_emu_exec_fn pl_emu_exec_mma;
/* exec_matrix.c: PTX ISA, ldmatrix, stmatrix, movmatrix */
pl_emu_exec_fn pl_emu_exec_ldmatrix, pl_emu_exec_stmatrix, pl_emu_exec_movmatrix;
/* exec_wgmma.c: PTX ISA, wgmma */
pl_emu_exec_fn pl_emu_exec_wgmma, pl_emu_exec_wgmma_fence, pl_emu_exec_wgmma_commit,
    pl_emu_exec_wgmma_wait;

#define PL_DIAG_ROWS "emu/matrix.def"
#define PL_DIAG_MODE_DECLARE
#include "base/diag_rows.h"

#endif
