#ifndef PL_EMU_EXEC_CONTROL_H
#define PL_EMU_EXEC_CONTROL_H
/* Executors of control, barriers, warp exchange and moves; which rows each serves: emu/exec/core.def. */
#include "emu/exec.h"

/* emu/exec/control.c */
pl_emu_exec_fn pl_emu_exec_brx, pl_emu_exec_call, pl_emu_exec_ret, pl_emu_exec_exit,
    pl_emu_exec_trap, pl_emu_exec_nanosleep, pl_emu_exec_nothing, pl_emu_exec_createpolicy;
/* emu/exec/bar.c */
pl_emu_exec_fn pl_emu_exec_bar_sync, pl_emu_exec_bar_arrive, pl_emu_exec_bar_red,
    pl_emu_exec_bar_warp_sync, pl_emu_exec_fence;
/* emu/exec/warp.c */
pl_emu_exec_fn pl_emu_exec_shfl, pl_emu_exec_shfl_active, pl_emu_exec_vote, pl_emu_exec_vote_active,
    pl_emu_exec_match, pl_emu_exec_activemask, pl_emu_exec_elect, pl_emu_exec_redux;
/* One step of the reduction that the instruction's ATOM modifier and type name, as redux.sync and tcgen05.ld.red make it: two
 * values of 32 bits; of two NaNs, or with .NaN of one, the canonical NaN. */
uint32_t pl_emu_combine(const struct pl_emu_ins *ins, uint32_t a, uint32_t b);
/* emu/exec/mov.c */
pl_emu_exec_fn pl_emu_exec_mov_pack, pl_emu_exec_mov_unpack, pl_emu_exec_mov_vec, pl_emu_exec_cvta,
    pl_emu_exec_cvta_to, pl_emu_exec_isspacep, pl_emu_exec_alloca, pl_emu_exec_stacksave,
    pl_emu_exec_stackrestore;
/* Inserted by the decoder: a special register that changes (clock, timers), the address of a local variable. */
pl_emu_exec_fn pl_emu_exec_read_sreg, pl_emu_exec_local_address, pl_emu_exec_index;

/* Lane kernels of mov; false: not a mov. bits: container of the destination. */
bool pl_emu_mov_select(unsigned bits, struct pl_emu_op *out);
#endif
