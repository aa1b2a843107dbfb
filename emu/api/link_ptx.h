#ifndef PL_EMU_API_LINK_PTX_H
#define PL_EMU_API_LINK_PTX_H
/*
 * Several PTX modules as one: what the device linker does with objects, done to parsed modules. Names of file scope stay
 * apart (the later one of two alike is renamed), a declaration and its definition become one symbol, and the result is printed.
 *
 * Source   PTX ISA, "Linking Directives": .extern, .visible, .weak, .common
 */
#include "base/buf.h"
#include "base/diag.h"
#include "jit/ptx/ptx.h"

struct pl_emu_link {
    struct pl_arena arena;
    struct pl_ptx_module out; /* what the parts make so far; its texts lie in the arena */
    uint32_t n_parts;
    uint32_t n_renamed;
};

/*
 * Parse one module and add it.
 *
 *   text    in   PTX; may be freed afterwards
 *   error   out  where it does not parse; else untouched
 *
 * False: it does not parse, contradicts an earlier one (a diagnostic says how), or memory ended. The link is of no use then.
 * Errors   PL8415 LINK_TWICE, PL8416 LINK_MISMATCH
 */
bool pl_emu_link_add(struct pl_emu_link *l, const char *text, size_t n_bytes,
                     struct pl_diags *diags, struct pl_ptx_error *error);

/* Print the result. False: a name is declared, used and defined nowhere (PL8417 LINK_UNRESOLVED). */
bool pl_emu_link_finish(struct pl_emu_link *l, struct pl_diags *diags, struct pl_buf *out);

void pl_emu_link_fini(struct pl_emu_link *l);
#endif
