#ifndef PL_EMU_BUILTIN_H
#define PL_EMU_BUILTIN_H
/* Functions that the device runtime provides to compiled kernels: vprintf, malloc, free, __assertfail. */
#include "emu/program.h"

/* NULL: not one of them. */
pl_emu_builtin_fn *pl_emu_builtin_find(const char *name);
#endif
