#include "emu/exec.h"

#include "emu/exec/async.h"
#include "emu/exec/control.h"
#include "emu/exec/mem.h"
#include "emu/exec/mma.h"

#include <assert.h>

/* A row of ptx.def without one here leaves its HAS_ constant undefined: it does not compile. */
#define EXEC(id, fn)       HAS_##id,
#define ACCESS(id, fn)     HAS_##id,
#define OP(id)             HAS_##id,
#define REFUSE(id, reason) HAS_##id,
#define INS(id, ...)       HAS_##id,
enum {
    HAS_NONE,
#include "emu/exec/async.def"
#include "emu/exec/core.def"
#include "emu/exec/mma.def"
#include "emu/exec/special.def"
#include "jit/ptx/arith.def"
#include "jit/ptx/convert.def"
    HAS_COUNT
};
#undef EXEC
#undef ACCESS
#undef OP
#undef REFUSE
#undef INS

static_assert(HAS_COUNT == (int)PL_PTX_COUNT,
              "each row of ptx.def has exactly one executor or reason");
#define INS(id, ...) static_assert(HAS_##id > 0, "the row has an executor or a reason");
#include "jit/ptx/ptx.def"
#undef INS

const struct pl_emu_form pl_emu_forms[PL_PTX_COUNT] = {
#define EXEC(id, fn)     [PL_PTX_##id] = {.how = PL_EMU_HOW_EXEC, .exec = fn},
#define ACCESS(id, fn)   [PL_PTX_##id] = {.how = PL_EMU_HOW_ACCESS, .exec = fn},
#define OP(id)           [PL_PTX_##id] = {.how = PL_EMU_HOW_OP},
#define REFUSE(id, text) [PL_PTX_##id] = {.how = PL_EMU_HOW_REFUSED, .reason = text},
#define INS(id, ...)     [PL_PTX_##id] = {.how = PL_EMU_HOW_OP},
#include "emu/exec/async.def"
#include "emu/exec/core.def"
#include "emu/exec/mma.def"
#include "emu/exec/special.def"
#include "jit/ptx/arith.def"
#include "jit/ptx/convert.def"
#undef EXEC
#undef ACCESS
#undef OP
#undef REFUSE
#undef INS
};
