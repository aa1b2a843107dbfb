#ifndef PL_TESTS_TRACE_CASE_H
#define PL_TESTS_TRACE_CASE_H
/*
 * Traces one body for a fixed request, for the tests of the builder and the checks:
 *
 *   0 x  in     bf16 [?,?]     1 y  out   bf16 [?,?]    2 w  in, absent
 *   3 s  scalar f32            4 n  scalar i32          5 z  inout f32 [?,64], axis 1 baked
 *   6 c  inout  u32 [1] baked  7 q  in    i32 [?]
 */
#include "src/check/check.h"
#include "src/ir/print.h"

#include <stdlib.h>
#include <string.h>

typedef void (*trace_body)(pl_builder *b, const void *params);

static const pl_param_decl trace_params[8] = {
    {.name = "x", .role = PL_ROLE_IN, .min_rank = 2, .max_rank = 2, .dtypes = PL_DT(BF16)},
    {.name = "y", .role = PL_ROLE_OUT, .min_rank = 2, .max_rank = 2, .dtypes = PL_DT(BF16)},
    {.name = "w",
     .role = PL_ROLE_IN,
     .min_rank = 1,
     .max_rank = 1,
     .dtypes = PL_DT(F32),
     .is_optional = true},
    {.name = "s", .role = PL_ROLE_SCALAR, .dtypes = PL_DT(F32)},
    {.name = "n", .role = PL_ROLE_SCALAR, .dtypes = PL_DT(I32)},
    {.name = "z",
     .role = PL_ROLE_INOUT,
     .min_rank = 2,
     .max_rank = 2,
     .dtypes = PL_DT(F32),
     .baked_dims = 2},
    {.name = "c",
     .role = PL_ROLE_INOUT,
     .min_rank = 1,
     .max_rank = 1,
     .dtypes = PL_DT(U32),
     .baked_dims = 1},
    {.name = "q", .role = PL_ROLE_IN, .min_rank = 1, .max_rank = 1, .dtypes = PL_DT(I32)},
};

struct trace_case {
    struct pl_arena arena;
    struct pl_diags diags;
    struct pl_fn fn;
    pl_kernel kernel;
    struct pl_trace_request request;
    bool traced, checked;
};

static void trace_request_make(struct trace_case *c, trace_body body, int32_t arch,
                               pl_fact_set facts)
{
    c->kernel = (pl_kernel){.struct_size = sizeof(pl_kernel),
                            .name = "test",
                            .params = trace_params,
                            .n_params = 8,
                            .n_configs = 1,
                            .body = body};
    c->request = (struct pl_trace_request){
        .kernel = &c->kernel, .n_args = 8, .target = pl_target_find(arch)};
    for (int i = 0; i < 8; i++) {
        const pl_param_decl *p = &trace_params[i];
        struct pl_arg_facts *a = &c->request.args[i];
        *a = (struct pl_arg_facts){.is_present = i != 2,
                                   .is_scalar = p->role == PL_ROLE_SCALAR,
                                   .rank = p->max_rank,
                                   .facts = facts};
        for (int t = 1; t < PL_DTYPE_COUNT; t++)
            if ((p->dtypes >> t & 1) != 0)
                a->dtype = (pl_dtype)t;
        for (int d = 0; d < PL_MAX_RANK; d++)
            a->dims[d] = -1;
    }
    c->request.args[5].dims[1] = 64;
    c->request.args[6].dims[0] = 1;
}

/* Traces and checks; limit_bytes 0: no limit. The caller frees with trace_free(). */
static struct trace_case *trace_limited(trace_body body, int32_t arch, pl_fact_set facts,
                                        size_t limit_bytes)
{
    struct trace_case *c = calloc(1, sizeof *c);
    trace_request_make(c, body, arch, facts);
    pl_arena_init(&c->arena, NULL, limit_bytes);
    pl_diags_init(&c->diags, &c->arena);
    if (pl_fn_init(&c->fn, &c->arena, &c->diags, &c->request)) {
        c->traced = pl_trace_run(&c->fn);
        c->checked = pl_check(&c->fn) && c->traced;
    }
    return c;
}

static inline struct trace_case *trace_on(trace_body body, int32_t arch)
{
    return trace_limited(body, arch, 15, 0);
}

static inline void trace_free(struct trace_case *c)
{
    pl_arena_fini(&c->arena);
    free(c);
}

/* How many diagnostics have the code. */
static inline int trace_count(const struct trace_case *c, int code)
{
    int n = 0;
    for (uint32_t i = 0; i < c->diags.list.n; i++)
        n += c->diags.list.data[i].info->code == code;
    return n;
}
#endif
