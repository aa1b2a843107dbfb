#include "emu/api/diag.h"

#include <stdio.h>

#define PL_DIAG_ROWS "emu/api/diag.def"
#define PL_DIAG_MODE_DEFINE
#include "base/diag_rows.h"

void pl_say_init(struct pl_say *s)
{
    s->arena = (struct pl_arena){0};
    pl_diags_init(&s->diags, &s->arena);
}

void pl_say_finish(struct pl_say *s, char *text, size_t n_bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < s->diags.list.n && used < n_bytes; i++) {
        const struct pl_diag *d = &s->diags.list.data[i];
        int n = snprintf(text + used, n_bytes - used, "%sPL%d: %s\n  fix: %s", i == 0 ? "" : "\n",
                         d->info->code, d->text, d->info->remedy);
        used += n > 0 ? (size_t)n : 0;
    }
    pl_arena_fini(&s->arena);
}
