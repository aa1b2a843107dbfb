/* The kernels of pipes.h as cases for mutation: their loops use each slot and each barrier again, which the library's do not. */
#include "tests/mutate_pipes.h"

#include "tests/pipes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void reference(struct pl_case *c)
{
    const struct pl_host *x = &c->args[0].host;
    const int64_t width = x->shape[2];
    for (int64_t i = 0; i < pl_host_n_elems(&c->args[1].host); i++) {
        float sum = 0; /* as the kernels do: exact */
        for (int64_t k = 0; k < width / COLS; k++)
            sum = fmaf((float)pl_host_get(x, i / COLS * width + k * COLS + i % COLS),
                       (float)(k + 1), sum);
        c->want[i] = (double)sum;
    }
}

static bool make(int kernel, struct pipe_params p, const struct pl_case_spec *spec,
                 struct pl_case *c)
{
    const struct pl_host_place dense = {0};
    const pl_shape x = spec->shape, y = PL_SHAPE(x.d[0], ROWS, COLS);
    struct pl_rng rng = {spec->seed};
    c->kernel = &pipe_kernels[kernel];
    c->n_args = 3;
    c->output = 1;
    c->reference = reference;
    c->args[0].kind = c->args[1].kind = PL_ARG_TENSOR;
    c->args[1].is_output = true;
    c->args[2] = (struct pl_case_arg){.kind = PL_ARG_I32, .i32 = (int32_t)(x.d[2] / COLS)};
    memcpy(c->options, &p, sizeof p);
    c->has_options = true;
    if (!pl_host_init(&c->args[0].host, PL_F32, x, &dense) ||
        !pl_host_init(&c->args[1].host, PL_F32, y, &dense))
        return false;
    pl_host_fill_random(&c->args[0].host, &rng);
    return true;
}

/* PIPE(index in pipe_kernels, name, stages, lag) */
#define PIPES                                                                                      \
    PIPE(0, pipeline, 1, 0)                                                                        \
    PIPE(0, pipeline, 3, 0)                                                                        \
    PIPE(0, pipeline, 3, 1)                                                                        \
    PIPE(1, roles, 1, 0)                                                                           \
    PIPE(1, roles, 3, 0)                                                                           \
    PIPE(1, roles, 3, 1)                                                                           \
    PIPE(2, ring, 1, 0)                                                                            \
    PIPE(2, ring, 2, 0)                                                                            \
    PIPE(2, ring, 2, 1)

#define PIPE(i, name, stages, lag)                                                                 \
    static bool make_##name##_##stages##_##lag(const struct pl_case_spec *spec, struct pl_case *c, \
                                               char *why, size_t why_bytes)                        \
    {                                                                                              \
        (void)why, (void)why_bytes;                                                                \
        return make(i, (struct pipe_params){stages, lag}, spec, c);                                \
    }
PIPES
#undef PIPE

const struct pl_case_kernel mutate_pipes[] = {
#define PIPE(i, name, stages, lag)                                                                 \
    {#name "(" #stages "," #lag ")", &pipe_kernels[i], 3, "", make_##name##_##stages##_##lag},
    PIPES
#undef PIPE
};
const size_t mutate_n_pipes = sizeof mutate_pipes / sizeof mutate_pipes[0];
