#include "src/check/check.h"

#include "base/debug.h"

static void walk(struct pl_fn *fn, uint32_t block,
                 void (*f)(struct pl_fn *fn, uint32_t id, void *user), void *user)
{
    for (PL_IR_FOREACH(fn, block, id)) {
        f(fn, id, user);
        for (int i = 0; i < 2; i++)
            if (pl_ir_op(fn, id)->regions[i] != 0)
                walk(fn, pl_ir_op(fn, id)->regions[i], f, user);
    }
}

void pl_check_walk(struct pl_fn *fn, void (*f)(struct pl_fn *fn, uint32_t id, void *user),
                   void *user)
{
    walk(fn, 1, f, user);
}

bool pl_check(struct pl_fn *fn)
{
    char why[160];
    PL_ASSERT(pl_arena_is_exhausted(fn->arena) || pl_ir_verify(fn, why, sizeof why));
    (void)why;
    pl_check_served(fn);
    pl_check_spaces(fn);
    pl_check_places(fn);
    pl_check_copies(fn);
    pl_check_tensor(fn);
    pl_check_tcgen05(fn);
    pl_check_sync(fn);
    return fn->diags->n_errors == 0 && !pl_arena_is_exhausted(fn->arena);
}

bool pl_check_is_unsupported(const struct pl_diags *ds)
{
    bool has_error = false;
    for (uint32_t i = 0; i < ds->list.n; i++) {
        const struct pl_diag_info *info = ds->list.data[i].info;
        if (info->severity != PL_SEVERITY_ERROR)
            continue;
        if (info->code < 2090 || info->code > 2099)
            return false;
        has_error = true;
    }
    return has_error;
}
