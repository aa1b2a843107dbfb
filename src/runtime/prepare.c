/*
 * Prepared variants: built once, then launched with no lock and no allocation. A prepared variant is pinned: its code is never
 * unloaded before the context ends, since a graph may hold it.
 */
#include "src/runtime/launch.h"

struct pl_prepared {
    pl_context *ctx;
    uint64_t serial; /* odd: tells it from kernels, and from an earlier one at its address */
    struct pl_variant *variant;
    pl_launch_options options; /* params: the copy below */
    int32_t config;    /* index among the listed ones, PL_CONFIG_BEST when it is none of them */
    struct pl_key key; /* with the variant's facts */
    unsigned char params[]; /* the kernel's options */
};

static const struct pl_where nowhere = {0};

static pl_prepared *make_prepared(pl_context *ctx, const struct pl_ask *ask, struct pl_variant *v)
{
    size_t n_bytes = ask->request.options != NULL ? v->kernel->options_bytes : 0;
    pl_prepared *p = ctx->hooks.alloc(sizeof *p + n_bytes, ctx->hooks.user);
    if (p == NULL)
        return NULL;
    p->ctx = ctx;
    p->serial = atomic_fetch_add(&ctx->n_prepared, 2) + 1;
    p->variant = v;
    p->options = ask->options;
    p->options.report = NULL;
    p->options.stages = NULL;
    if (n_bytes != 0)
        memcpy(p->params, ask->request.options, n_bytes);
    p->options.params = n_bytes != 0 ? p->params : NULL;
    p->config = pl_ask_config_index(ask);
    pl_ask_key(ask, &p->key);
    return p;
}

/* Begin of every call that builds: the request, this thread's block, and the CUDA context to load in. */
struct preparation {
    struct pl_call call;
    struct pl_ask ask;
    struct pl_run run;
};

static pl_status begin(struct preparation *w, const pl_kernel *kernel, const pl_arg *args,
                       size_t n_args, const pl_launch_options *options)
{
    struct pl_context *ctx = w->call.ctx;
    w->run = (struct pl_run){.call = &w->call};
    pl_status st = pl_context_check(ctx, &w->call);
    if (st != PL_OK)
        return st;
    w->run.thread = pl_thread_get(&ctx->threads);
    if (w->run.thread == NULL)
        return pl_e_out_of_memory(&w->call, PL_E_NOMEM, nowhere, "the thread's block");
    w->ask.ptx_cap = ctx->ptx_cap;
    st = pl_ask_make(&w->ask, kernel, args, n_args, options, &ctx->device, &w->call);
    if (st == PL_OK)
        st = pl_place_find(&w->run.place, ctx, NULL, &w->call);
    w->run.place.is_capturing = false; /* loads run with this thread's capture mode RELAXED */
    return st == PL_OK ? PL_OK : pl_run_end(&w->run, st);
}

static pl_status end(struct preparation *w, pl_status st)
{
    atomic_store_explicit(&w->run.thread->in_use, NULL, memory_order_release);
    pl_place_leave(&w->run.place, w->call.ctx);
    return pl_run_end(&w->run, st);
}

pl_status pl_prepare_at(pl_loc at, pl_context *ctx, const pl_kernel *kernel, const pl_arg *args,
                        size_t n_args, const pl_launch_options *options, pl_prepared **out,
                        pl_error *err)
{
    struct preparation w = {.call = pl_call_make_at("pl_prepare", at, ctx, err)};
    struct pl_variant *v = NULL;
    if (out == NULL)
        return pl_e_bad_call(&w.call, PL_E_INVALID, nowhere, w.call.function, "out is NULL");
    *out = NULL;
    pl_status st = begin(&w, kernel, args, n_args, options);
    if (st != PL_OK)
        return st;
    st = pl_variant_get(&v, &w.ask, &w.run);
    if (st == PL_OK) {
        atomic_store(&v->is_pinned, true);
        *out = make_prepared(ctx, &w.ask, v);
        if (*out == NULL)
            st = pl_e_out_of_memory(&w.call, PL_E_NOMEM, nowhere, "a prepared kernel");
    }
    return end(&w, st);
}

pl_status(pl_prepare)(pl_context *ctx, const pl_kernel *kernel, const pl_arg *args, size_t n_args,
                      const pl_launch_options *options, pl_prepared **out, pl_error *err)
{
    return pl_prepare_at(pl_loc_make(NULL, 0), ctx, kernel, args, n_args, options, out, err);
}

void pl_prepared_destroy(pl_prepared *p)
{
    if (p != NULL)
        p->ctx->hooks.free(p, p->ctx->hooks.user);
}

/* ---- every variant ---- */

/* The specialised facts of the parameters that are given. */
static pl_fact_set named_facts(const pl_kernel *k, const pl_arg *args)
{
    pl_fact_set facts = 0;
    for (size_t i = 0; i < k->n_params; i++)
        if (args[i].kind == PL_ARG_TENSOR)
            facts |= k->params[i].specialised;
    return facts;
}

/* All fact combinations of one configuration; *n_built counts the variants that are there afterwards. */
static pl_status prepare_config(struct preparation *w, int32_t config, unsigned *n_built)
{
    const pl_fact_set named = named_facts(w->ask.request.kernel, w->ask.request.args);
    for (pl_fact_set facts = named;; facts = (facts - 1) & named) {
        struct pl_variant *v = NULL;
        w->ask.request.facts = facts;
        if (pl_ask_configure(&w->ask, config)) {
            pl_status st = pl_variant_get(&v, &w->ask, &w->run);
            if (st != PL_OK)
                return st;
            atomic_store(&v->is_pinned, true);
            ++*n_built;
        }
        if (facts == 0)
            return PL_OK;
    }
}

pl_status pl_prepare_all(pl_context *ctx, const pl_kernel *kernel, const pl_arg *args,
                         size_t n_args, const pl_launch_options *options, pl_error *err)
{
    struct preparation w = {.call = pl_call_make("pl_prepare_all", ctx, err)};
    unsigned n_built = 0;
    pl_status st = begin(&w, kernel, args, n_args, options);
    if (st != PL_OK)
        return st;
    for (int32_t i = 0; st == PL_OK && i < kernel->n_configs; i++)
        st = prepare_config(&w, i, &n_built);
    if (st == PL_OK && n_built == 0)
        st = pl_e_no_config(&w.call, PL_E_INVALID, nowhere, kernel->name, PL_CONFIG_BEST,
                            (int)kernel->n_configs - 1);
    return end(&w, st);
}

/* ---- launching a prepared one ---- */

static pl_status fail_variant(const pl_prepared *p, const char *what, struct pl_call *call)
{
    return pl_e_variant(call, PL_E_VARIANT, nowhere, p->variant->kernel->name, what);
}

/* The request for new arguments of the prepared variant. */
static pl_status ask_prepared(struct pl_ask *ask, const pl_prepared *p, const pl_arg *args,
                              size_t n_args, struct pl_call *call)
{
    const struct pl_variant *v = p->variant;
    ask->ptx_cap = p->ctx->ptx_cap;
    ask->options = p->options;
    ask->request = (pl_request){.kernel = v->kernel,
                                .options = p->options.params,
                                .args = args,
                                .n_args = n_args,
                                .device = &p->ctx->device};
    call->kernel = v->kernel->name;
    if (args == NULL && n_args != 0)
        return pl_e_bad_call(call, PL_E_INVALID, nowhere, call->function, "args is NULL");
    pl_status st = pl_ask_check_args(ask, call);
    if (st != PL_OK)
        return st;
    ask->request.facts &= v->facts;
    if (ask->request.facts != v->facts)
        return fail_variant(p, "they lack a fact that its code relies on", call);
    if (p->config == PL_CONFIG_BEST)
        memcpy(ask->config, v->config, v->kernel->params_bytes);
    else if (!pl_ask_configure(ask, p->config))
        return fail_variant(p, "its configuration does not serve them", call);
    struct pl_key key;
    pl_ask_key(ask, &key);
    if (!pl_key_equals(&key, &p->key))
        return fail_variant(p, "another dtype, rank, presence or baked extent", call);
    return PL_OK;
}

static pl_status launch_here(const pl_prepared *p, const struct pl_ask *ask,
                             const pl_launch_dims *dims, struct pl_run *run)
{
    struct pl_context *ctx = p->ctx;
    pl_status st = PL_OK;
    if (!pl_variant_is_loaded_in(p->variant, run->place.slot))
        st = run->place.is_capturing
                 ? pl_e_capturing(run->call, PL_E_CAPTURING, nowhere, run->call->kernel)
                 : pl_variant_finalise(p->variant, ctx, &run->place, run->call);
    return st == PL_OK ? pl_launch_variant(p->variant, ask, dims, run) : st;
}

/* This thread's block and the stream's place, for a call on a prepared variant. */
static pl_status begin_run(struct pl_run *run, pl_context *ctx, struct pl_call *call)
{
    run->call = call;
    run->thread = pl_thread_get(&ctx->threads);
    if (run->thread == NULL)
        return pl_e_out_of_memory(call, PL_E_NOMEM, nowhere, "the thread's block");
    return pl_place_find(&run->place, ctx, run->stream, call);
}

static pl_status launch_new(const pl_prepared *p, const struct pl_memo_key *key, struct pl_run *run)
{
    struct pl_ask ask;
    pl_status st = ask_prepared(&ask, p, key->args, key->n_args, run->call);
    if (st != PL_OK)
        return st;
    pl_launch_dims dims = pl_ask_dims(&ask, p->variant->config);
    if (pl_dims_are_empty(&dims))
        return PL_OK;
    st = pl_place_find(&run->place, p->ctx, run->stream, run->call);
    if (st != PL_OK)
        return st;
    st = launch_here(p, &ask, &dims, run);
    pl_place_leave(&run->place, p->ctx);
    if (st == PL_OK)
        pl_memo_fill(run->memo, key, 0);
    return st;
}

/* Equal to a launch before: only the place is new. */
static pl_status launch_again(const pl_prepared *p, struct pl_run *run, bool *is_done)
{
    pl_status st = pl_place_find(&run->place, p->ctx, run->stream, run->call);
    if (st != PL_OK)
        return st;
    *is_done = pl_variant_is_loaded_in(p->variant, run->place.slot);
    if (*is_done)
        st = pl_launch_packed(p->variant, &run->memo->packed, p->options.pdl, run);
    pl_place_leave(&run->place, p->ctx);
    return st;
}

/* The handle's context may be used: PL_OK. */
static pl_status check_handle(const pl_prepared *p, struct pl_call *call)
{
    if (p == NULL)
        return pl_e_bad_call(call, PL_E_INVALID, nowhere, call->function,
                             "the prepared kernel is NULL");
    call->ctx = p->ctx;
    return pl_context_check(p->ctx, call);
}

pl_status pl_launch_prepared_at(pl_loc at, const pl_prepared *p, pl_stream stream,
                                const pl_arg *args, size_t n_args, pl_error *err)
{
    struct pl_call call = pl_call_make_at("pl_launch_prepared", at, NULL, err);
    struct pl_run run = {.call = &call, .stream = stream};
    pl_status st = check_handle(p, &call);
    if (st != PL_OK)
        return st;
    const struct pl_memo_key key = {.owner = p->serial, .args = args, .n_args = n_args};
    run.thread = pl_thread_get(&p->ctx->threads);
    if (run.thread == NULL)
        return pl_e_out_of_memory(&call, PL_E_NOMEM, nowhere, "the thread's block");
    run.memo = pl_memo_line_of(run.thread->memos, &key);
    if (pl_memo_matches(run.memo, &key)) {
        bool is_done = false;
        st = launch_again(p, &run, &is_done);
        if (is_done || st != PL_OK)
            return st;
    }
    return pl_run_end(&run, launch_new(p, &key, &run));
}

pl_status(pl_launch_prepared)(const pl_prepared *p, pl_stream stream, const pl_arg *args,
                              size_t n_args, pl_error *err)
{
    return pl_launch_prepared_at(pl_loc_make(NULL, 0), p, stream, args, n_args, err);
}

/* ---- graphs ---- */

static void fill_pack(pl_pack *out, const struct pl_variant *v, const struct pl_packed *packed,
                      pl_cu_function function)
{
    out->function = (void *)function;
    for (int i = 0; i < 3; i++) {
        out->grid[i] = packed->grid[i];
        out->cluster[i] = v->launch.cluster[i];
        out->block[i] = i == 0 ? v->launch.n_threads : 1;
    }
    out->smem_bytes = v->launch.smem_bytes;
    out->n_params = v->n_params;
    memcpy(out->storage, packed->block, v->launch.params_bytes);
    for (uint32_t i = 0; i < v->n_params; i++)
        out->params[i] = out->storage + v->offsets[i];
}

static pl_status pack_here(const pl_prepared *p, const struct pl_ask *ask,
                           const pl_launch_dims *dims, pl_pack *out, struct pl_run *run)
{
    struct pl_packed packed;
    pl_cu_function function;
    pl_status st = pl_pack_params(&packed, p->variant, ask, dims, run);
    if (st == PL_OK)
        st = pl_place_push(&run->place, p->ctx, run->call);
    if (st != PL_OK)
        return st;
    pl_cu_result r = p->ctx->driver.cu.KernelGetFunction(&function, p->variant->handle);
    if (r != PL_CU_SUCCESS)
        return pl_context_fail(run->call, "cuKernelGetFunction", r);
    fill_pack(out, p->variant, &packed, function);
    return PL_OK;
}

pl_status pl_prepared_pack(const pl_prepared *p, const pl_arg *args, size_t n_args, pl_pack *out,
                           pl_error *err)
{
    struct pl_call call = pl_call_make("pl_prepared_pack", NULL, err);
    struct pl_ask ask;
    pl_status st = check_handle(p, &call);
    if (st == PL_OK && out == NULL)
        st = pl_e_bad_call(&call, PL_E_INVALID, nowhere, call.function, "out is NULL");
    if (st == PL_OK)
        st = ask_prepared(&ask, p, args, n_args, &call);
    if (st != PL_OK)
        return st;
    pl_launch_dims dims = pl_ask_dims(&ask, p->variant->config);
    out->is_empty = pl_dims_are_empty(&dims);
    out->n_params = 0;
    struct pl_run run = {.stream = NULL};
    if (out->is_empty)
        return PL_OK;
    st = begin_run(&run, p->ctx, &call);
    if (st != PL_OK)
        return st;
    st = pack_here(p, &ask, &dims, out, &run);
    pl_place_leave(&run.place, p->ctx);
    return st;
}
