#include "src/runtime/call.h"

#include "src/runtime/context.h"
#include "src/runtime/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DIAG(code, id, severity, parameters, arguments, format, remedy, source)                    \
    const struct pl_diag_info pl_di_##id = {code,  PL_SEVERITY_##severity, #id, format, remedy,    \
                                            source};                                               \
    pl_status pl_e_##id(struct pl_call *call, pl_status status, struct pl_where where parameters)  \
    {                                                                                              \
        return pl_call_fail(call, status, &pl_di_##id, where, format arguments);                   \
    }
#define P(...) , __VA_ARGS__
#define A(...) , __VA_ARGS__
#define NONE
#include "src/runtime/runtime.def"
#undef DIAG
#undef P
#undef A
#undef NONE

struct pl_call pl_call_make(const char *function, struct pl_context *ctx, pl_error *err)
{
    if (err != NULL) {
        memset(err, 0, offsetof(pl_error, file));
        err->argument = err->dimension = -1;
        err->file[0] = err->text[0] = '\0';
    }
    return (struct pl_call){.ctx = ctx, .err = err, .function = function, .kernel = ""};
}

/* The last n_bytes - 1 characters of a path. */
static void copy_tail(char *to, size_t n_bytes, const char *from)
{
    size_t n = strlen(from);
    snprintf(to, n_bytes, "%s", n < n_bytes ? from : from + (n - n_bytes + 1));
}

static void fill_error(const struct pl_call *call, pl_status status, const struct pl_diag *d)
{
    pl_error *e = call->err;
    const char *file = d->where.file != NULL ? d->where.file : call->file;
    e->status = status;
    e->code = d->info->code;
    e->argument = d->where.arg_plus1 - 1;
    e->dimension = d->where.dim_plus1 - 1;
    e->has_values = d->where.has_values;
    e->actual = d->where.seen;
    e->expected = d->where.wanted;
    e->driver_code = call->driver_code;
    e->line = d->where.file != NULL ? d->where.line : call->line;
    if (file != NULL)
        copy_tail(e->file, sizeof e->file, file);
    snprintf(e->text, sizeof e->text, "%s. Fix: %s.", d->text, d->info->remedy);
}

static pl_severity_level level_of(enum pl_severity s)
{
    switch (s) {
    case PL_SEVERITY_NOTE: return PL_LEVEL_NOTE;
    case PL_SEVERITY_WARNING: return PL_LEVEL_WARNING;
    case PL_SEVERITY_ERROR: break;
    }
    return PL_LEVEL_ERROR;
}

static void tell(struct pl_call *call, pl_status status, const struct pl_diag *d)
{
    bool is_error = d->info->severity == PL_SEVERITY_ERROR;
    if (is_error && !call->has_failed) {
        call->has_failed = true;
        if (call->err != NULL)
            fill_error(call, status, d);
    }
    if (call->report != NULL)
        pl_report_add(call->report, d);
    if (call->ctx != NULL && call->ctx->log != NULL)
        call->ctx->log(level_of(d->info->severity), call->function, d->text, call->ctx->user);
}

pl_status pl_call_fail(struct pl_call *call, pl_status status, const struct pl_diag_info *info,
                       struct pl_where where, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    struct pl_diag d = {.info = info, .where = where, .text = text};
    tell(call, status, &d);
    return status;
}

pl_status pl_call_refuse_size(struct pl_call *call, const char *what, size_t seen, size_t wanted)
{
    const struct pl_where where = {
        .has_values = true, .seen = (int64_t)seen, .wanted = (int64_t)wanted};
    return pl_e_struct_size(call, PL_E_INVALID, where, call->function, what, seen, wanted);
}

pl_status pl_call_refuse_value(struct pl_call *call, const char *what, int64_t seen,
                               const char *wanted)
{
    return pl_e_bad_value(call, PL_E_INVALID, (struct pl_where){0}, call->function, what,
                          (long long)seen, wanted);
}

pl_status pl_call_fail_diags(struct pl_call *call, pl_status status, const struct pl_diags *ds)
{
    for (uint32_t i = 0; i < ds->list.n; i++)
        tell(call, status, &ds->list.data[i]);
    return status;
}
