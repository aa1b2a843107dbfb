#ifndef PL_JIT_EMIT_H
#define PL_JIT_EMIT_H
/*
 * From a finished plan to PTX text. Nothing is decided here but the header: the lowest .version that the steps' forms need, and the
 * plain target of the chip unless a form needs its family or architecture target. jit/emit.def maps steps to forms; the text
 * comes from jit/ptx/print.h. The same plan gives the same bytes, in any locale.
 */
#include "base/arena.h"
#include "base/diag.h"
#include "jit/ptx/gate.h"
#include "src/plan/plan.h"

#include <stddef.h>
#include <stdint.h>

struct pl_emitted {
    char *text; /* NUL-terminated, in the arena */
    size_t n_bytes;
    uint16_t version; /* 10 * major + minor: 80 is 8.0 */
    char target[16];  /* "sm_90a" */
};

/*
 * Emit a plan.
 *
 *   entry        in   name of the kernel's entry; a C identifier
 *   max_version  in   newest .version that the consumer reads, 0: any
 *   arena        in   of the text
 *   diags        out  PL7101 when the consumer cannot read what the forms need
 *
 * Errors   PL_E_UNSUPPORTED (with a diagnostic), PL_E_NOMEM
 * Threads  any; one per arena
 */
PL_MUST_CHECK pl_status pl_emit_plan(const struct pl_plan *plan, const char *entry,
                                     uint32_t max_version, struct pl_arena *arena,
                                     struct pl_diags *diags, struct pl_emitted *out);
#endif
