#include "emu/faults.h"

#define PL_DIAG_ROWS "emu/emu.def"
#define PL_DIAG_MODE_DEFINE
#include "base/diag_rows.h"

#include "base/debug.h"
#include "emu/machine.h"

struct pl_diags *pl_emu_faults(struct pl_emu_warp *w, uint32_t lane)
{
    w->fault_lane = lane;
    w->cta->cluster->fault_warp = w;
    return w->cta->cluster->faults;
}

struct pl_where pl_emu_where(const struct pl_emu_warp *w)
{
    return (struct pl_where){.line = w->pc != NULL ? (int)w->pc->line : 0};
}

int pl_emu_result_of(int code)
{
    static const struct {
        int first, last, result;
    } rows[] = {
#define RESULT(first, last, result) {first, last, result},
#include "emu/result.def"
#undef RESULT
    };
    enum { LAUNCH_FAILED = 719 };
    for (unsigned i = 0; i < PL_COUNT(rows); i++)
        if (code >= rows[i].first && code <= rows[i].last)
            return rows[i].result;
    return LAUNCH_FAILED;
}
