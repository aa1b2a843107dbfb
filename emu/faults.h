#ifndef PL_EMU_FAULTS_H
#define PL_EMU_FAULTS_H
/* Diagnostics of loading and running programs: PL8050 … PL8199, emu/emu.def. */
#define PL_DIAG_ROWS "emu/emu.def"
#define PL_DIAG_MODE_DECLARE
#include "base/diag_rows.h"

/* The CUresult that the Driver API reports for a diagnostic, of this or another table: emu/result.def. */
int pl_emu_result_of(int code);
#endif
