#ifndef PL_EMU_API_DIAG_H
#define PL_EMU_API_DIAG_H
/*
 * Diagnostics of the Driver API layer: collected for one call, then made into the text that the JIT error log and
 * plaunch_emu_last_fault give.
 */
#include "base/diag.h"

struct pl_say {
    struct pl_arena arena;
    struct pl_diags diags;
};
void pl_say_init(struct pl_say *s);
/* "PL8400: text\n  fix: remedy", one paragraph for each; empty when there is none. Frees what s holds. */
void pl_say_finish(struct pl_say *s, char *text, size_t n_bytes);

#define PL_DIAG_ROWS "emu/api/diag.def"
#define PL_DIAG_MODE_DECLARE
#include "base/diag_rows.h"
#endif
