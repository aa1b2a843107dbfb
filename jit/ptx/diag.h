#ifndef PL_JIT_PTX_DIAG_H
#define PL_JIT_PTX_DIAG_H
/* The diagnostics of the PTX parser, codes 8001 to 8049: rows in ptx_diag.def. */
#define PL_DIAG_ROWS "jit/ptx/ptx_diag.def"
#define PL_DIAG_MODE_DECLARE
#include "base/diag_rows.h"
#endif
