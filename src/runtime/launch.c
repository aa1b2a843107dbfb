#include "src/runtime/launch.h"

#include "base/os.h"
#include "src/runtime/compile.h"

/* ---- finding a variant ---- */

/* Take the entry's variant and mark it in use. The mark is seen by an evictor before it looks, or we see that it was taken. */
static struct pl_variant *use_variant(struct pl_entry *e, struct pl_thread *thread)
{
    struct pl_variant *v = atomic_load_explicit(&e->variant, memory_order_acquire);
    while (v != NULL) {
        atomic_store(&thread->in_use, v);
        struct pl_variant *again = atomic_load(&e->variant);
        if (again == v)
            return v;
        v = again;
    }
    /* A mark left behind would make an evictor wait for a thread that goes on to build, and may wait for it. */
    atomic_store_explicit(&thread->in_use, NULL, memory_order_release);
    return NULL;
}

static void note_entry(struct pl_run *run, struct pl_entry *e)
{
    if (run->memo != NULL)
        run->memo->entry = e;
}

static struct pl_variant *find_built(const struct pl_ask *ask, struct pl_run *run)
{
    struct pl_key key;
    pl_ask_key(ask, &key);
    struct pl_entry *e = pl_cache_find(&run->call->ctx->cache, &key, pl_key_hash(&key));
    note_entry(run, e);
    return e != NULL ? use_variant(e, run->thread) : NULL;
}

/*
 * Under PL_COMPILE_NEVER: another built variant that serves this request. Configurations nearest to the best one first, and
 * for each the largest set of facts that holds. On success ask->config and facts are those of the variant.
 */
static struct pl_variant *find_nearest(struct pl_ask *ask, struct pl_run *run)
{
    const pl_fact_set held = ask->request.facts;
    int32_t n = ask->request.kernel->n_configs, best = pl_ask_config_index(ask);
    for (int32_t distance = 0; distance < n; distance++) {
        for (int32_t side = 0; side < (distance == 0 ? 1 : 2); side++) {
            int32_t i = (best < 0 ? 0 : best) + (side == 0 ? distance : -distance);
            if (i < 0 || i >= n)
                continue;
            /* All subsets of the facts that hold, largest number first. */
            for (pl_fact_set facts = held;; facts = (facts - 1) & held) {
                ask->request.facts = facts;
                struct pl_variant *v = pl_ask_configure(ask, i) ? find_built(ask, run) : NULL;
                if (v != NULL) {
                    ask->is_nearest = true;
                    return v;
                }
                if (facts == 0)
                    break;
            }
        }
    }
    ask->request.facts = held;
    return NULL;
}

static pl_status refused(const struct pl_entry *e, struct pl_call *call)
{
    if (call->err != NULL)
        *call->err = *e->refusal;
    return e->refusal->status;
}

/* Build under the entry's claim and settle it. The error is kept aside: a refusal is remembered with its text. */
static pl_status build(struct pl_entry *e, struct pl_ask *ask, struct pl_run *run)
{
    pl_error local = {.status = PL_OK};
    struct pl_call inner = *run->call;
    struct pl_run inner_run = *run;
    struct pl_variant *v = NULL;
    inner.err = &local;
    inner_run.call = &inner;
    pl_status st = pl_variant_build(&v, ask, &inner_run);
    run->place = inner_run.place;
    bool is_refused = st == PL_E_ASSEMBLER && pl_assembler_has_refused(&local);
    pl_cache_settle(&run->call->ctx->cache, e, v, is_refused ? &local : NULL);
    if (st != PL_OK && run->call->err != NULL)
        *run->call->err = local;
    return st;
}

/* Under PL_COMPILE_ASYNC: hand the build over, unless someone has it already. */
static pl_status start_build(struct pl_entry *e, enum pl_claim claim, struct pl_ask *ask,
                             struct pl_run *run)
{
    if (claim == PL_CLAIM_BUILD)
        return pl_async_add(run->call->ctx, e, ask, run->call);
    return pl_e_pending(run->call, PL_E_PENDING, (struct pl_where){0}, run->call->kernel);
}

static pl_status build_or_wait(struct pl_variant **out, struct pl_ask *ask, struct pl_run *run)
{
    struct pl_cache *cache = &run->call->ctx->cache;
    const bool is_async = ask->options.policy == PL_COMPILE_ASYNC;
    struct pl_key key;
    pl_ask_key(ask, &key);
    uint64_t hash = pl_key_hash(&key);
    for (;;) {
        struct pl_entry *e;
        uint64_t wait_ns = 0;
        pl_status st = PL_OK;
        enum pl_claim claim = pl_cache_claim(cache, &key, hash, !is_async, &e, &wait_ns);
        pl_thread_count(run->thread, PL_STAT_wait_ns, wait_ns);
        switch (claim) {
        case PL_CLAIM_READY: break;
        case PL_CLAIM_BUILD:
            st = is_async ? start_build(e, claim, ask, run) : build(e, ask, run);
            break;
        case PL_CLAIM_BUSY: st = start_build(e, claim, ask, run); break;
        case PL_CLAIM_REFUSED: return refused(e, run->call);
        case PL_CLAIM_NOMEM:
            return pl_e_out_of_memory(run->call, PL_E_NOMEM, (struct pl_where){0}, "the cache");
        }
        if (st != PL_OK)
            return st;
        *out = use_variant(e, run->thread);
        if (*out != NULL) {
            note_entry(run, e);
            return PL_OK; /* else it was evicted again already */
        }
    }
}

static pl_status fail_capturing(struct pl_run *run)
{
    pl_thread_count(run->thread, PL_STAT_capture_miss, 1);
    return pl_e_capturing(run->call, PL_E_CAPTURING, (struct pl_where){0}, run->call->kernel);
}

/* Every tensor on the context's device? Asked once per variant, since the question costs a driver call each. */
static pl_status check_devices(const struct pl_ask *ask, struct pl_run *run)
{
    struct pl_context *ctx = run->call->ctx;
    if (ctx->driver.cu.PointerGetAttribute == NULL)
        return PL_OK;
    pl_status st = pl_place_push(&run->place, ctx, run->call);
    for (size_t i = 0; st == PL_OK && i < ask->request.n_args; i++) {
        const pl_arg *a = &ask->request.args[i];
        int on = ctx->ordinal;
        /* What the driver does not know (an empty tensor's NULL, memory of another library) is not its business. */
        if (a->kind == PL_ARG_TENSOR && a->u.tensor.address != 0 &&
            ctx->driver.cu.PointerGetAttribute(&on, PL_CU_POINTER_DEVICE_ORDINAL,
                                               a->u.tensor.address) == PL_CU_SUCCESS &&
            on != ctx->ordinal)
            st = pl_e_tensor_device(run->call, PL_E_INVALID,
                                    (struct pl_where){.arg_plus1 = (int)i + 1,
                                                      .has_values = true,
                                                      .seen = on,
                                                      .wanted = ctx->ordinal},
                                    (int)i, on, ctx->ordinal);
    }
    return st;
}

static pl_status miss(struct pl_variant **out, struct pl_ask *ask, struct pl_run *run)
{
    struct pl_call *call = run->call;
    pl_thread_count(run->thread, PL_STAT_miss, 1);
    if (ask->options.policy == PL_COMPILE_NEVER) {
        *out = find_nearest(ask, run);
        return *out != NULL
                   ? PL_OK
                   : pl_e_not_cached(call, PL_E_NOT_CACHED, (struct pl_where){0}, call->kernel);
    }
    if (run->place.is_capturing)
        return fail_capturing(run);
    pl_status st = check_devices(ask, run);
    return st == PL_OK ? build_or_wait(out, ask, run) : st;
}

pl_status pl_variant_get(struct pl_variant **out, struct pl_ask *ask, struct pl_run *run)
{
    *out = find_built(ask, run);
    if (*out != NULL) {
        pl_thread_count(run->thread, PL_STAT_hit_memory, 1);
    } else {
        pl_status st = miss(out, ask, run);
        if (st != PL_OK)
            return st;
    }
    struct pl_variant *v = *out;
    if (run->place.is_capturing && !atomic_load_explicit(&v->is_pinned, memory_order_relaxed))
        atomic_store(&v->is_pinned, true); /* a graph will hold its code */
    if (pl_variant_is_loaded_in(v, run->place.slot))
        return PL_OK;
    if (run->place.is_capturing)
        return fail_capturing(run);
    return pl_variant_finalise(v, run->call->ctx, &run->place, run->call);
}

/* ---- pl_launch ---- */

pl_status pl_run_end(struct pl_run *run, pl_status st)
{
    struct pl_call *call = run->call;
    if (st != PL_E_INVALID)
        return st;
    pl_thread_count(run->thread, PL_STAT_rejected, 1);
    pl_context_tell(call->ctx, PL_EVENT_REJECTED, PL_LEVEL_ERROR, call->kernel,
                    call->err != NULL ? call->err->text : "", 0);
    return st;
}

static pl_status launch_timed(struct pl_variant *v, const struct pl_ask *ask,
                              const pl_launch_dims *dims, struct pl_run *run)
{
    pl_stage_ns *stages = ask->options.stages;
    uint64_t start_ns = stages != NULL ? pl_os_now_ns() : 0;
    pl_status st = pl_launch_variant(v, ask, dims, run);
    if (stages != NULL)
        stages->launch = pl_os_now_ns() - start_ns;
    return st;
}

/* With a place found: get the variant and launch it. */
static pl_status launch_here(struct pl_ask *ask, pl_launch_dims *dims, struct pl_run *run)
{
    struct pl_variant *v = NULL;
    pl_status st = pl_variant_get(&v, ask, run);
    if (st == PL_OK) {
        if (ask->is_nearest) /* another configuration, and maybe another grid with it */
            *dims = pl_ask_dims(ask, v->config);
        if (!pl_dims_are_empty(dims))
            st = launch_timed(v, ask, dims, run);
    }
    atomic_store_explicit(&run->thread->in_use, NULL, memory_order_release);
    return st;
}

static pl_status launch_asked(struct pl_ask *ask, struct pl_run *run)
{
    pl_launch_dims dims = pl_ask_dims(ask, ask->config);
    run->memo->variant = NULL;
    if (pl_dims_are_empty(&dims))
        return PL_OK; /* an output of size 0: nothing to do, nothing to build */
    pl_status st = pl_place_find(&run->place, run->call->ctx, run->stream, run->call);
    if (st != PL_OK)
        return st;
    st = launch_here(ask, &dims, run);
    pl_place_leave(&run->place, run->call->ctx);
    return st;
}

/* The launch is equal to one before: only the place is new. */
static pl_status launch_again(struct pl_memo *m, bool is_pdl, struct pl_run *run, bool *is_done)
{
    struct pl_context *ctx = run->call->ctx;
    pl_status st = pl_place_find(&run->place, ctx, run->stream, run->call);
    if (st != PL_OK)
        return st;
    struct pl_variant *v = use_variant(m->entry, run->thread);
    *is_done = v == m->variant && pl_variant_is_loaded_in(v, run->place.slot);
    if (*is_done) {
        if (run->place.is_capturing)
            atomic_store(&v->is_pinned, true); /* a graph will hold its code */
        pl_thread_count(run->thread, PL_STAT_hit_memory, 1);
        st = pl_launch_packed(v, &m->packed, is_pdl, run);
    }
    atomic_store_explicit(&run->thread->in_use, NULL, memory_order_release);
    pl_place_leave(&run->place, ctx);
    return st;
}

static pl_status launch_new(const pl_kernel *kernel, const struct pl_memo_key *key,
                            struct pl_run *run)
{
    struct pl_context *ctx = run->call->ctx;
    struct pl_ask ask;
    ask.ptx_cap = ctx->ptx_cap;
    run->memo->owner = 0;
    pl_status st =
        pl_ask_make(&ask, kernel, key->args, key->n_args, key->options, &ctx->device, run->call);
    if (st == PL_OK)
        st = launch_asked(&ask, run);
    if (st == PL_OK && run->memo->variant != NULL && !ask.is_nearest)
        pl_memo_fill(run->memo, key, kernel->options_bytes);
    return pl_run_end(run, st);
}

pl_status pl_launch_at(pl_loc at, pl_context *ctx, const pl_kernel *kernel, pl_stream stream,
                       const pl_arg *args, size_t n_args, const pl_launch_options *options,
                       pl_error *err)
{
    struct pl_call call = pl_call_make_at("pl_launch", at, ctx, err);
    struct pl_run run = {.call = &call, .stream = stream};
    const struct pl_memo_key key = {
        .owner = (uint64_t)(uintptr_t)kernel, .args = args, .n_args = n_args, .options = options};
    pl_status st = pl_context_check(ctx, &call);
    if (st != PL_OK)
        return st;
    if (kernel == NULL)
        return pl_e_kernel_struct(&call, PL_E_INVALID, (struct pl_where){0}, "it is NULL");
    run.thread = pl_thread_get(&ctx->threads);
    if (run.thread == NULL)
        return pl_e_out_of_memory(&call, PL_E_NOMEM, (struct pl_where){0}, "the thread's block");
    run.memo = pl_memo_line_of(run.thread->memos, &key);
    if (pl_memo_matches(run.memo, &key)) {
        bool is_done = false;
        st = launch_again(run.memo, options != NULL && options->pdl, &run, &is_done);
        if (is_done || st != PL_OK)
            return st;
    }
    return launch_new(kernel, &key, &run);
}

pl_status(pl_launch)(pl_context *ctx, const pl_kernel *kernel, pl_stream stream, const pl_arg *args,
                     size_t n_args, const pl_launch_options *options, pl_error *err)
{
    return pl_launch_at(pl_loc_make(NULL, 0), ctx, kernel, stream, args, n_args, options, err);
}
