/*
 * Runs every step. Build it against an installed plaunch:
 *
 *   cc *.c ../matmul_steps.c $(pkg-config --cflags --libs plaunch) -o hopper_matmul && ./hopper_matmul
 *
 * It needs a GPU of compute capability 9.0, or the emulated driver with PLAUNCH_EMU_DEVICES=sm_90a; times on the latter say nothing.
 */
#include "matmul.h"

static const struct step *const steps[] = {&step_basic,  &step_ahead,      &step_roles,
                                           &step_staged, &step_persistent, &step_cluster};

int main(void) { return run_steps(steps, sizeof steps / sizeof steps[0], 9); }
