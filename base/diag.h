#ifndef PL_BASE_DIAG_H
#define PL_BASE_DIAG_H
/*
 * Diagnostics: what a user is told. Each layer keeps rows beside the checks that raise them:
 *
 *   DIAG(2041, tmem_plain_store, ERROR, P(const char *op), A(op), "%s on a TMEM ref ...", "use pl_async_store_tmem ...", "source")
 *
 * code        permanent number, shown as PL2041; the first digit is the family (DESIGN.md, section 5)
 * parameters  P(...) of the typed function pl_d_<id>(diags, where, parameters...), or NONE
 * arguments   A(...) how the parameters enter the format, or NONE; printf-checked by the compiler at the row's line
 * remedy      what to do; source  the rule's origin
 *
 * base/diag_rows.h expands a table: declarations in the layer's header, objects and functions in the one .c file that owns it.
 * There is no central enum: base names no layer above it.
 */
#include "base/arena.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

enum pl_severity { PL_SEVERITY_NOTE, PL_SEVERITY_WARNING, PL_SEVERITY_ERROR };

struct pl_diag_info {
    int code;
    enum pl_severity severity;
    const char *id;
    const char *format;
    const char *remedy;
    const char *source;
};

/* Where and with what value a rule broke. {0} fields mean "not known"; arg and dim are stored plus one. */
struct pl_where {
    const char *file; /* outlives the diagnostics: a string literal or an arena string */
    int line;
    int arg_plus1; /* argument (parameter) index + 1 */
    int dim_plus1; /* dimension index + 1 */
    bool has_values;
    int64_t seen, wanted;
};

struct pl_diag {
    const struct pl_diag_info *info;
    struct pl_where where;
    const char *text; /* formatted, in the arena of the list */
};

struct pl_diags {
    struct pl_arena *arena;
    PL_VEC(struct pl_diag) list; /* in the order raised */
    uint32_t n_errors, n_warnings;
};

void pl_diags_init(struct pl_diags *ds, struct pl_arena *arena);
void pl_diag_add(struct pl_diags *ds, const struct pl_diag_info *info, struct pl_where where,
                 const char *fmt, ...) __attribute__((format(printf, 4, 5)));
#endif
