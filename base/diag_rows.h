/*
 * Expands the rows of one diagnostics table; included once for each table, so it has no guard. Before it:
 *
 *   #define PL_DIAG_ROWS "src/check/builder.def"
 *   #define PL_DIAG_MODE_DECLARE     declarations only (in a header), or
 *   #define PL_DIAG_MODE_DEFINE      objects and functions too (in the one .c file that owns the table)
 */
#include "base/diag.h"

#ifdef PL_DIAG_MODE_DECLARE
#define DIAG(code, id, severity, parameters, arguments, format, remedy, source)                    \
    extern const struct pl_diag_info pl_di_##id;                                                   \
    void pl_d_##id(struct pl_diags *ds, struct pl_where where parameters);
#else
#define DIAG(code, id, severity, parameters, arguments, format, remedy, source)                    \
    const struct pl_diag_info pl_di_##id = {code,  PL_SEVERITY_##severity, #id, format, remedy,    \
                                            source};                                               \
    void pl_d_##id(struct pl_diags *ds, struct pl_where where parameters)                          \
    {                                                                                              \
        pl_diag_add(ds, &pl_di_##id, where, format arguments);                                     \
    }
#endif
#define P(...) , __VA_ARGS__
#define A(...) , __VA_ARGS__
#define NONE
#include PL_DIAG_ROWS
#undef DIAG
#undef P
#undef A
#undef NONE
#undef PL_DIAG_ROWS
#undef PL_DIAG_MODE_DECLARE
#undef PL_DIAG_MODE_DEFINE
