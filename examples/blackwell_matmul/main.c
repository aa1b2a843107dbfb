/*
 * Runs every step. Build it against an installed plaunch:
 *
 *   cc *.c ../matmul_steps.c $(pkg-config --cflags --libs plaunch) -o blackwell_matmul && ./blackwell_matmul
 *
 * It needs a GPU of compute capability 10.0, or the emulated driver with PLAUNCH_EMU_DEVICES=sm_100a; times on the latter say nothing.
 */
#include "matmul.h"

static const struct step *const steps[] = {&step_basic, &step_warps,      &step_epilogue,
                                           &step_pair,  &step_persistent, &step_overlapped,
                                           &step_order};

int main(void) { return run_steps(steps, sizeof steps / sizeof steps[0], 10); }
