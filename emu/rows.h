#ifndef PL_EMU_ROWS_H
#define PL_EMU_ROWS_H
/*
 * Which rows of ptx.def a device has executed: for the test that no row is executed without one (tests/emu_rows.sh). Off unless
 * PLAUNCH_EMU_ROWS names a file, to which the device then appends the names of the rows, once each, when it is destroyed.
 * Scalar rows are counted as they are decoded; their vectors are tests/ptx/vectors*.tsv.
 */
#include "emu/exec.h"

struct pl_emu_rows;

struct pl_emu_rows *pl_emu_rows_create(void); /* NULL: nobody asks */
void pl_emu_rows_destroy(struct pl_emu_rows *r);

/* The executor of a decoded instruction of that row: its own, or with `r` not NULL one that counts. */
pl_emu_exec_fn *pl_emu_rows_wrap(struct pl_emu_rows *r, uint16_t form, pl_emu_exec_fn *exec);
#endif
