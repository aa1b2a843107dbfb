#include "src/runtime/report.h"

#include <stdlib.h>

struct pl_report {
    struct pl_arena arena;
    struct pl_diags diags;
};

pl_status pl_report_create(pl_report **out)
{
    if (out == NULL)
        return PL_E_INVALID;
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return PL_E_NOMEM;
    pl_diags_init(&(*out)->diags, &(*out)->arena);
    return PL_OK;
}

void pl_report_destroy(pl_report *r)
{
    if (r == NULL)
        return;
    pl_arena_fini(&r->arena);
    free(r);
}

void pl_report_clear(pl_report *r)
{
    if (r == NULL)
        return;
    pl_arena_fini(&r->arena);
    pl_diags_init(&r->diags, &r->arena);
}

size_t pl_report_count(const pl_report *r) { return r != NULL ? r->diags.list.n : 0; }
size_t pl_report_n_errors(const pl_report *r) { return r != NULL ? r->diags.n_errors : 0; }

void pl_report_add(pl_report *r, const struct pl_diag *d)
{
    struct pl_where where = d->where;
    if (where.file != NULL)
        where.file = pl_arena_strdup(&r->arena, where.file);
    pl_diag_add(&r->diags, d->info, where, "%s", d->text);
}

bool pl_report_get(const pl_report *r, size_t i, pl_report_item *out)
{
    if (r == NULL || out == NULL || i >= r->diags.list.n)
        return false;
    const struct pl_diag *d = &r->diags.list.data[i];
    *out = (pl_report_item){
        .code = d->info->code,
        .level = d->info->severity == PL_SEVERITY_ERROR     ? PL_LEVEL_ERROR
                 : d->info->severity == PL_SEVERITY_WARNING ? PL_LEVEL_WARNING
                                                            : PL_LEVEL_NOTE,
        .id = d->info->id,
        .text = d->text,
        .remedy = d->info->remedy,
        .file = d->where.file != NULL ? d->where.file : "",
        .line = d->where.line,
        .argument = d->where.arg_plus1 - 1,
        .dimension = d->where.dim_plus1 - 1,
        .actual = d->where.seen,
        .expected = d->where.wanted,
        .has_values = d->where.has_values,
    };
    return true;
}
