/*
 * How long a warm launch takes. Over the driver that PLAUNCH_DRIVER names; the do-nothing driver of the tests leaves only our own
 * work. Instruction counts, which do not vary, are counted by bench/launch_counts.sh under callgrind.
 */
#include "base/os.h"
#include "bench/bench.h"
#include "tools/case.h"

#include <stdio.h>

enum { N_SAMPLES = 201, N_EACH = 20 };

struct warm {
    pl_context *ctx;
    struct pl_case c;
    pl_arg args[PL_CASE_MAX_ARGS];
    uint64_t device[PL_CASE_MAX_ARGS];
    pl_prepared *prepared;
};

static bool start(struct pl_bench *b, struct warm *w)
{
    pl_error err = {0};
    const pl_context_options options = {.struct_size = sizeof options};
    const struct pl_case_spec spec = {
        .shape = PL_SHAPE(64, 64), .dtype = PL_F32, .axis = -1, .seed = 1};
    if (!pl_case_make(pl_case_find("add"), &spec, &w->c, b->note, sizeof b->note))
        return false;
    b->note[0] = '\0';
    if (pl_context_create(&w->ctx, &options, &err) == PL_OK &&
        pl_case_upload(&w->c, w->ctx, w->args, w->device, &err) == PL_OK &&
        pl_launch(w->ctx, w->c.kernel, NULL, w->args, w->c.n_args, NULL, &err) == PL_OK &&
        pl_prepare(w->ctx, w->c.kernel, w->args, w->c.n_args, NULL, &w->prepared, &err) == PL_OK)
        return true;
    snprintf(b->note, sizeof b->note, "%.250s", err.text);
    return false;
}

static bool sample(struct warm *w, bool is_prepared, double *ns)
{
    for (int i = 0; i < N_SAMPLES; i++) {
        const uint64_t first = pl_os_now_ns();
        for (int k = 0; k < N_EACH; k++) {
            pl_status st =
                is_prepared
                    ? pl_launch_prepared(w->prepared, NULL, w->args, w->c.n_args, NULL)
                    : pl_launch(w->ctx, w->c.kernel, NULL, w->args, w->c.n_args, NULL, NULL);
            if (st != PL_OK)
                return false;
        }
        ns[i] = (double)(pl_os_now_ns() - first) / N_EACH;
        if (pl_synchronize(w->ctx, NULL) != PL_OK)
            return false;
    }
    return true;
}

bool pl_bench_launch(struct pl_bench *b)
{
    struct warm w = {0};
    double ns[N_SAMPLES];
    bool is_ok = start(b, &w);
    for (int is_prepared = 0; is_prepared < 2 && is_ok; is_prepared++) {
        is_ok = sample(&w, is_prepared, ns);
        if (is_ok)
            pl_bench_add(b, "ns", ns, N_SAMPLES, "launch/add/%s",
                         is_prepared ? "prepared" : "warm");
    }
    pl_prepared_destroy(w.prepared);
    if (w.ctx != NULL)
        pl_case_free(w.ctx, w.device);
    pl_context_destroy(w.ctx);
    pl_case_fini(&w.c);
    return is_ok;
}
