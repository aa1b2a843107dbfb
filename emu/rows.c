#include "emu/rows.h"

#include "emu/device.h"
#include "emu/machine.h"

#include <stdio.h>
#include <stdlib.h>

struct pl_emu_rows {
    const char *path;
    bool is_seen[PL_PTX_COUNT];
};

struct pl_emu_rows *pl_emu_rows_create(void)
{
    const char *path = getenv("PLAUNCH_EMU_ROWS");
    struct pl_emu_rows *r = path != NULL ? calloc(1, sizeof *r) : NULL;
    if (r != NULL)
        r->path = path;
    return r;
}

void pl_emu_rows_destroy(struct pl_emu_rows *r)
{
    FILE *f = r != NULL ? fopen(r->path, "a") : NULL;
    for (unsigned i = 0; f != NULL && i < PL_PTX_COUNT; i++)
        if (r->is_seen[i])
            fprintf(f, "%s\n", pl_ptx_infos[i].id);
    if (f != NULL)
        fclose(f);
    free(r);
}

static void see(struct pl_emu_rows *r, uint16_t form)
{
    __atomic_store_n(&r->is_seen[form], true, __ATOMIC_RELAXED);
}

/* A fault is no result, but of trap. */
static enum pl_emu_status count(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    enum pl_emu_status s = pl_emu_forms[ins->ptx->form].exec(w, ins);
    if (s == PL_EMU_NEXT || s == PL_EMU_JUMP || s == PL_EMU_YIELD || ins->ptx->form == PL_PTX_trap)
        see(w->cta->cluster->grid->device->rows, ins->ptx->form);
    return s;
}

pl_emu_exec_fn *pl_emu_rows_wrap(struct pl_emu_rows *r, uint16_t form, pl_emu_exec_fn *exec)
{
    if (r == NULL || form == PL_PTX_NONE)
        return exec;
    if (pl_emu_forms[form].how == PL_EMU_HOW_OP ||
        form == PL_PTX_bra) /* the interpreter's loop has them */
        see(r, form);
    bool is_inserted = exec == NULL || pl_emu_forms[form].exec != exec;
    return is_inserted ? exec : count;
}
