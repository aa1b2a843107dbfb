#ifndef PL_RUNTIME_CALL_H
#define PL_RUNTIME_CALL_H
/*
 * One call of the public API: who asked, and where the answer to "why not" goes. Every public function makes one on its
 * stack; whatever fails below says so through pl_e_<id>() (a row of runtime.def), which fills the caller's pl_error without
 * allocating, adds to the caller's report, and gives the status back for `return`.
 */
#include <plaunch/launch.h>

#include "base/diag.h"

struct pl_call {
    struct pl_context *ctx; /* NULL before there is one */
    pl_error *err;          /* may be NULL */
    pl_report *report;      /* may be NULL */
    const char *function;   /* "pl_launch" */
    const char *kernel;     /* "" when none */
    const char *file;       /* the caller's place, NULL when unknown */
    int line;
    int driver_code; /* kept for the next error; 0 when none */
    bool has_failed; /* err holds the first failure */
};

#define DIAG(code, id, severity, parameters, arguments, format, remedy, source)                    \
    extern const struct pl_diag_info pl_di_##id;                                                   \
    pl_status pl_e_##id(struct pl_call *call, pl_status status, struct pl_where where parameters);
#define P(...) , __VA_ARGS__
#define A(...) , __VA_ARGS__
#define NONE
#include "src/runtime/runtime.def"
#undef DIAG
#undef P
#undef A
#undef NONE

/* Begin a call: *err is cleared when given. */
struct pl_call pl_call_make(const char *function, struct pl_context *ctx, pl_error *err);

static inline struct pl_call pl_call_make_at(const char *function, pl_loc at,
                                             struct pl_context *ctx, pl_error *err)
{
    struct pl_call call = pl_call_make(function, ctx, err);
    call.file = at.file;
    call.line = at.line;
    return call;
}

/* The general form under pl_e_<id>(); returns `status`. Warnings and notes go to the report and the log, not to the error. */
pl_status pl_call_fail(struct pl_call *call, pl_status status, const struct pl_diag_info *info,
                       struct pl_where where, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* PL6118: a struct of the caller's is not of this version; `what`: "the options". */
pl_status pl_call_refuse_size(struct pl_call *call, const char *what, size_t seen, size_t wanted);
/* PL6119 with the value. */
pl_status pl_call_refuse_value(struct pl_call *call, const char *what, int64_t seen,
                               const char *wanted);

/* Give the caller all diagnostics of a list; the first error fills pl_error. Returns `status`. */
pl_status pl_call_fail_diags(struct pl_call *call, pl_status status, const struct pl_diags *ds);

#endif
