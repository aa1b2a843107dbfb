#include "base/diag.h"

#include <stdarg.h>
#include <stdio.h>

void pl_diags_init(struct pl_diags *ds, struct pl_arena *arena)
{
    *ds = (struct pl_diags){.arena = arena};
}

void pl_diag_add(struct pl_diags *ds, const struct pl_diag_info *info, struct pl_where where,
                 const char *fmt, ...)
{
    if (info->severity == PL_SEVERITY_ERROR)
        ds->n_errors++;
    else if (info->severity == PL_SEVERITY_WARNING)
        ds->n_warnings++;
    struct pl_diag *d = pl_vec_push(ds->arena, &ds->list);
    if (d == NULL)
        return; /* counted above: out of memory never turns an error into success */
    va_list ap;
    va_start(ap, fmt);
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *text = n < 0 ? NULL : pl_arena_alloc(ds->arena, (size_t)n + 1);
    if (text != NULL)
        vsnprintf(text, (size_t)n + 1, fmt, again);
    va_end(again);
    *d = (struct pl_diag){.info = info, .where = where, .text = text != NULL ? text : info->format};
}
