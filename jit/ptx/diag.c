#include "jit/ptx/diag.h"

#define PL_DIAG_ROWS "jit/ptx/ptx_diag.def"
#define PL_DIAG_MODE_DEFINE
#include "base/diag_rows.h"
