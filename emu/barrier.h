#ifndef PL_EMU_BARRIER_H
#define PL_EMU_BARRIER_H
/* The 16 named barriers of a CTA: PTX ISA, "bar, barrier". The executors are in emu/exec.def. */
#include "emu/machine.h"

/* Threads of the CTA have exited: barriers that waited for them only are complete. */
void pl_emu_barriers_on_exit(struct pl_emu_cta *cta);
#endif
