#ifndef PL_TESTS_PLAN_PTXAS_H
#define PL_TESTS_PLAN_PTXAS_H
/* The assembler's word on the text of a request, where there is one. */
#include "tests/plan_run.h"
#include "tests/ptxas.h"

static inline void text_assembles(const struct build *b)
{
    if (ptxas_path() == NULL)
        return;
    size_t n_bytes;
    char why[512] = "";
    unsigned char *cubin = ptxas_assemble(b->out.text, b->out.target, &n_bytes, why);
    ck_assert_msg(cubin != NULL, "%s for %s: %s", b->plan.kernel, b->out.target, why);
    free(cubin);
}

static inline void assembles(const struct ask *a)
{
    struct build *b = build_ok(a);
    text_assembles(b);
    build_free(b);
}
#endif
