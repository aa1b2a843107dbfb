#include "tools/case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct pl_case_kernel *pl_case_find(const char *name)
{
    for (size_t i = 0; i < pl_case_n_kernels; i++)
        if (strcmp(pl_case_kernels[i].name, name) == 0)
            return &pl_case_kernels[i];
    return NULL;
}

static bool load_inputs(const struct pl_case_spec *spec, struct pl_case *c, char *why,
                        size_t why_bytes)
{
    size_t n_inputs = 0;
    for (size_t i = 0; i < c->n_args; i++) {
        struct pl_case_arg *a = &c->args[i];
        if (a->kind != PL_ARG_TENSOR || a->is_output)
            continue;
        const char *path = spec->in_npy[n_inputs++];
        char text[200];
        if (path != NULL && !pl_host_load_npy(&a->host, path, text, sizeof text)) {
            snprintf(why, why_bytes, "%s: %s", path, text);
            return false;
        }
    }
    if (n_inputs < PL_CASE_MAX_ARGS && spec->in_npy[n_inputs] != NULL) {
        snprintf(why, why_bytes, "%s: kernel %s has only %zu tensor inputs", spec->in_npy[n_inputs],
                 c->kernel->name, n_inputs);
        return false;
    }
    return true;
}

bool pl_case_make(const struct pl_case_kernel *k, const struct pl_case_spec *spec,
                  struct pl_case *c, char *why, size_t why_bytes)
{
    *c = (struct pl_case){.kernel = k->kernel};
    snprintf(why, why_bytes, "out of memory");
    bool is_ok = k->make(spec, c, why, why_bytes) && load_inputs(spec, c, why, why_bytes);
    if (is_ok && !spec->has_no_values) {
        const size_t n = (size_t)pl_host_n_elems(&c->args[c->output].host);
        c->want = calloc(n + 1, sizeof *c->want);
        c->bound = calloc(n + 1, sizeof *c->bound);
        is_ok = c->want != NULL && c->bound != NULL;
    }
    if (!is_ok)
        pl_case_fini(c);
    else if (!spec->has_no_values)
        c->reference(c);
    return is_ok;
}

void pl_case_fini(struct pl_case *c)
{
    for (size_t i = 0; i < c->n_args; i++)
        pl_host_fini(&c->args[i].host);
    free(c->want);
    free(c->bound);
    *c = (struct pl_case){0};
}

struct pl_case_result pl_case_compare(const struct pl_case *c)
{
    const struct pl_host *out = &c->args[c->output].host;
    struct pl_case_result r = {.is_gap_intact = true, .first_wrong = -1};
    const int64_t n = pl_host_n_elems(out);
    for (int64_t i = 0; i < n; i++) {
        const double got = pl_host_get(out, i), want = c->want[i];
        const double held = pl_host_round(out->dtype, want);
        bool is_ok;
        if (!isfinite(held)) /* NaN or infinite: the same one */
            is_ok = isnan(held) ? isnan(got) : got == held;
        else if (c->bound[i] == 0)
            is_ok = got == held && signbit(got) == signbit(held);
        else
            is_ok = fabs(got - want) <= c->bound[i]; /* false for a NaN */
        if (isfinite(got) && isfinite(want)) {
            r.max_abs_err = fmax(r.max_abs_err, fabs(got - want));
            if (fabs(want) > 1e-30)
                r.max_rel_err = fmax(r.max_rel_err, fabs(got - want) / fabs(want));
        }
        if (!is_ok && r.n_wrong++ == 0) {
            r.first_wrong = i;
            r.first_got = got;
            r.first_want = want;
            r.first_bound = c->bound[i];
        }
    }
    for (size_t i = 0; i < c->n_args; i++)
        if (c->args[i].kind == PL_ARG_TENSOR && !pl_host_is_gap_intact(&c->args[i].host))
            r.is_gap_intact = false;
    r.is_ok = r.n_wrong == 0 && r.is_gap_intact;
    return r;
}

pl_status pl_case_upload(const struct pl_case *c, pl_context *ctx, pl_arg args[PL_CASE_MAX_ARGS],
                         uint64_t device[PL_CASE_MAX_ARGS], pl_error *err)
{
    memset(device, 0, sizeof(uint64_t) * PL_CASE_MAX_ARGS);
    for (size_t i = 0; i < c->n_args; i++) {
        const struct pl_case_arg *a = &c->args[i];
        if (a->kind == PL_ARG_NONE)
            args[i] = pl_arg_none();
        else if (a->kind == PL_ARG_F32)
            args[i] = pl_arg_f32(a->f32);
        else if (a->kind == PL_ARG_I32)
            args[i] = pl_arg_i32(a->i32);
        if (a->kind != PL_ARG_TENSOR)
            continue;
        pl_status st = pl_alloc(ctx, a->host.n_bytes, &device[i], err);
        if (st == PL_OK)
            st = pl_upload(ctx, device[i], a->host.bytes, a->host.n_bytes, err);
        if (st != PL_OK) {
            pl_case_free(ctx, device);
            return st;
        }
        args[i] = pl_arg_tensor(pl_host_tensor(&a->host, device[i]));
    }
    return PL_OK;
}

pl_status pl_case_download(struct pl_case *c, pl_context *ctx,
                           const uint64_t device[PL_CASE_MAX_ARGS], pl_error *err)
{
    for (size_t i = 0; i < c->n_args; i++) {
        struct pl_host *h = &c->args[i].host;
        pl_status st = c->args[i].kind == PL_ARG_TENSOR
                           ? pl_download(ctx, h->bytes, device[i], h->n_bytes, err)
                           : PL_OK;
        if (st != PL_OK)
            return st;
    }
    return PL_OK;
}

void pl_case_free(pl_context *ctx, uint64_t device[PL_CASE_MAX_ARGS])
{
    for (size_t i = 0; i < PL_CASE_MAX_ARGS; i++)
        if (device[i] != 0) {
            pl_status st = pl_free(
                ctx, device[i], NULL); /* after a fault the context is lost and so is the memory */
            (void)st;
            device[i] = 0;
        }
}

pl_status pl_case_run(struct pl_case *c, pl_context *ctx, const pl_launch_options *launch_options,
                      pl_error *err)
{
    pl_launch_options o =
        launch_options != NULL ? *launch_options : (pl_launch_options){.struct_size = sizeof o};
    o.params = c->has_options ? c->options : NULL;
    pl_arg args[PL_CASE_MAX_ARGS];
    uint64_t device[PL_CASE_MAX_ARGS];
    pl_status st = pl_case_upload(c, ctx, args, device, err);
    if (st != PL_OK)
        return st;
    st = (pl_launch)(ctx, c->kernel, NULL, args, c->n_args, &o, err); /* no place of ours */
    if (st == PL_OK)
        st = pl_synchronize(ctx, err);
    if (st == PL_OK)
        st = pl_case_download(c, ctx, device, err);
    pl_case_free(ctx, device);
    return st;
}
