#include "src/runtime/load.h"

#include "src/runtime/context.h"

#include <sched.h>
#include <string.h>

enum { LOG_BYTES = 4096 };

/* ---- capture mode ---- */

/* Loads are forbidden while any thread captures in GLOBAL mode, unless this thread's mode is RELAXED. */
static int exchange_mode(struct pl_context *ctx, int mode)
{
    (void)ctx->driver.cu.ThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

/* ---- modules ---- */

static struct pl_module *find_module(struct pl_context *ctx, const struct pl_sha256 *hash)
{
    struct pl_module *m = ctx->modules.all;
    while (m != NULL && memcmp(&m->hash, hash, sizeof *hash) != 0)
        m = m->next;
    return m;
}

static struct pl_module *use_module(struct pl_context *ctx, const struct pl_sha256 *hash)
{
    pthread_mutex_lock(&ctx->modules.lock);
    struct pl_module *m = find_module(ctx, hash);
    if (m != NULL)
        m->n_users++;
    pthread_mutex_unlock(&ctx->modules.lock);
    return m;
}

/* DEINITIALIZED: the process is ending and the driver has gone first. */
static void unload(struct pl_context *ctx, pl_cu_library library)
{
    int mode = exchange_mode(ctx, PL_CU_CAPTURE_MODE_RELAXED);
    (void)ctx->driver.cu.LibraryUnload(library);
    (void)exchange_mode(ctx, mode);
}

static pl_cu_result load_library(struct pl_context *ctx, const void *code, pl_cu_library *library,
                                 char log[LOG_BYTES])
{
    int options[2] = {PL_CU_JIT_ERROR_LOG_BUFFER, PL_CU_JIT_ERROR_LOG_BYTES};
    void *values[2] = {log, (void *)(uintptr_t)LOG_BYTES};
    log[0] = '\0';
    pl_cu_result r =
        ctx->driver.cu.LibraryLoadData(library, code, options, values, 2, NULL, NULL, 0);
    log[LOG_BYTES - 1] = '\0';
    return r;
}

/* Publish a library under its content; when another thread was quicker, its module serves and ours goes. */
static struct pl_module *add_module(struct pl_context *ctx, const struct pl_sha256 *hash,
                                    pl_cu_library library)
{
    struct pl_module *fresh = ctx->hooks.alloc(sizeof *fresh, ctx->hooks.user);
    if (fresh == NULL) {
        unload(ctx, library);
        return NULL;
    }
    *fresh = (struct pl_module){.hash = *hash, .library = library, .n_users = 1};
    pthread_mutex_lock(&ctx->modules.lock);
    struct pl_module *m = find_module(ctx, hash);
    if (m == NULL) {
        fresh->next = ctx->modules.all;
        ctx->modules.all = fresh;
    } else {
        m->n_users++;
    }
    pthread_mutex_unlock(&ctx->modules.lock);
    if (m == NULL)
        return fresh;
    unload(ctx, library);
    ctx->hooks.free(fresh, ctx->hooks.user);
    return m;
}

static void leave_module(struct pl_context *ctx, struct pl_module *m)
{
    pthread_mutex_lock(&ctx->modules.lock);
    bool is_last = --m->n_users == 0;
    if (is_last) {
        struct pl_module **link = &ctx->modules.all;
        while (*link != m)
            link = &(*link)->next;
        *link = m->next;
    }
    pthread_mutex_unlock(&ctx->modules.lock);
    if (!is_last)
        return;
    unload(ctx, m->library);
    ctx->hooks.free(m, ctx->hooks.user);
}

static pl_status get_module(struct pl_module **out, struct pl_context *ctx,
                            const struct pl_load_request *q, struct pl_call *call)
{
    char log[LOG_BYTES];
    pl_cu_library library;
    *out = use_module(ctx, &q->hash);
    if (*out != NULL)
        return PL_OK;
    pl_cu_result r = load_library(ctx, q->code, &library, log);
    if (r == PL_CU_OUT_OF_MEMORY && pl_evict_idle(ctx) != 0)
        r = load_library(ctx, q->code, &library, log);
    if (r == PL_CU_OUT_OF_MEMORY || pl_driver_is_sticky(r))
        return pl_context_fail(call, "cuLibraryLoadData", r);
    if (r != PL_CU_SUCCESS) {
        call->driver_code = r;
        return pl_e_load(call, PL_E_DRIVER, (struct pl_where){0}, q->kernel->name, r,
                         pl_driver_error_name(&ctx->driver, r),
                         log[0] != '\0' ? log : pl_driver_error_text(&ctx->driver, r));
    }
    *out = add_module(ctx, &q->hash, library);
    return *out != NULL ? PL_OK
                        : pl_e_out_of_memory(call, PL_E_NOMEM, (struct pl_where){0}, "a module");
}

void pl_modules_fini(struct pl_modules *m, struct pl_context *ctx, bool is_child)
{
    struct pl_module *next;
    for (struct pl_module *p = m->all; p != NULL; p = next) {
        next = p->next;
        if (!is_child)
            unload(ctx, p->library);
        ctx->hooks.free(p, ctx->hooks.user);
    }
    struct pl_variant *next_retired;
    for (struct pl_variant *v = m->retired; v != NULL; v = next_retired) {
        next_retired = v->next_retired;
        ctx->hooks.free(v, ctx->hooks.user);
    }
    pthread_mutex_destroy(&m->lock);
}

/* ---- variants ---- */

/* One block: the struct, its parameters, maps and configuration. */
static struct pl_variant *make_variant(struct pl_context *ctx, const struct pl_load_request *q)
{
    const struct pl_plan *plan = q->plan;
    size_t params_bytes = plan->params.n * sizeof *plan->params.data;
    size_t maps_bytes = plan->maps.n * sizeof *plan->maps.data;
    size_t config_bytes = q->kernel->params_bytes;
    struct pl_variant *v =
        ctx->hooks.alloc(sizeof *v + params_bytes + maps_bytes + config_bytes + 8, ctx->hooks.user);
    if (v == NULL)
        return NULL;
    memset(v, 0, sizeof *v);
    char *p = (char *)(v + 1);
    v->kernel = q->kernel;
    v->facts = q->facts;
    v->launch = plan->launch;
    v->n_params = plan->params.n;
    v->n_maps = plan->maps.n;
    /* Most aligned first; the configuration is the user's struct and gets 8. */
    size_t config_room = (config_bytes + 7) / 8 * 8;
    if (config_bytes != 0)
        memcpy(p, q->config, config_bytes);
    v->config = p;
    p += config_room;
    if (params_bytes != 0)
        memcpy(p, plan->params.data, params_bytes);
    v->params = (const struct pl_plan_param *)(void *)p;
    p += params_bytes;
    if (maps_bytes != 0)
        memcpy(p, plan->maps.data, maps_bytes);
    v->maps = (const struct pl_plan_map *)(void *)p;
    size_t n = strlen(q->entry);
    memcpy(v->entry, q->entry, n < sizeof v->entry ? n : sizeof v->entry - 1);
    return v;
}

static pl_cu_result set_limits(const struct pl_variant *v, struct pl_context *ctx)
{
    const struct pl_plan_launch *l = &v->launch;
    pl_cu_result r = PL_CU_SUCCESS;
    if (l->smem_bytes != 0)
        r = ctx->driver.cu.KernelSetAttribute(PL_CU_FUNC_MAX_DYNAMIC_SMEM, (int)l->smem_bytes,
                                              v->handle, ctx->ordinal);
    if (r == PL_CU_SUCCESS && l->cluster[0] * l->cluster[1] * l->cluster[2] > 8)
        r = ctx->driver.cu.KernelSetAttribute(PL_CU_FUNC_NON_PORTABLE_CLUSTER, 1, v->handle,
                                              ctx->ordinal);
    return r;
}

/* Everything that would else be done lazily at the first launch. The CUDA context is current, the mode RELAXED. */
static pl_cu_result finalise(const struct pl_variant *v, struct pl_context *ctx)
{
    pl_cu_function function;
    pl_cu_result r = set_limits(v, ctx);
    if (r == PL_CU_SUCCESS)
        r = ctx->driver.cu.KernelGetFunction(&function, v->handle);
    if (r == PL_CU_SUCCESS && ctx->driver.cu.FuncLoad != NULL)
        return ctx->driver.cu.FuncLoad(function);
    int n_regs;
    if (r == PL_CU_SUCCESS) /* before CUDA 12.4 a query loads the function */
        r = ctx->driver.cu.FuncGetAttribute(&n_regs, PL_CU_FUNC_N_REGS, function);
    return r;
}

static void mark_loaded(struct pl_variant *v, int slot)
{
    if (slot >= 0)
        atomic_fetch_or_explicit(&v->loaded_in, (uint64_t)1 << slot, memory_order_release);
}

static pl_status load_variant(struct pl_variant *v, struct pl_context *ctx,
                              const struct pl_load_request *q, const struct pl_place *place,
                              struct pl_call *call)
{
    pl_status st = get_module(&v->module, ctx, q, call);
    if (st != PL_OK)
        return st;
    pl_cu_result r = ctx->driver.cu.LibraryGetKernel(&v->handle, v->module->library, v->entry);
    if (r != PL_CU_SUCCESS)
        return pl_context_fail(call, "cuLibraryGetKernel", r);
    r = finalise(v, ctx);
    if (r != PL_CU_SUCCESS)
        return pl_context_fail(call, "cuFuncLoad", r);
    mark_loaded(v, place->slot);
    return PL_OK;
}

pl_status pl_variant_load(struct pl_variant **out, struct pl_context *ctx,
                          const struct pl_load_request *q, const struct pl_place *place,
                          struct pl_call *call)
{
    struct pl_variant *v = make_variant(ctx, q);
    if (v == NULL)
        return pl_e_out_of_memory(call, PL_E_NOMEM, (struct pl_where){0}, "a variant");
    int mode = exchange_mode(ctx, PL_CU_CAPTURE_MODE_RELAXED);
    pl_status st = load_variant(v, ctx, q, place, call);
    (void)exchange_mode(ctx, mode);
    if (st != PL_OK) {
        pl_variant_destroy(v, ctx);
        v = NULL;
    }
    *out = v;
    return st;
}

pl_status pl_variant_finalise(struct pl_variant *v, struct pl_context *ctx, struct pl_place *place,
                              struct pl_call *call)
{
    pl_status st = pl_place_push(place, ctx, call);
    if (st != PL_OK)
        return st;
    int mode = exchange_mode(ctx, PL_CU_CAPTURE_MODE_RELAXED);
    pl_cu_result r = finalise(v, ctx);
    (void)exchange_mode(ctx, mode);
    if (r != PL_CU_SUCCESS)
        return pl_context_fail(call, "cuFuncLoad", r);
    mark_loaded(v, place->slot);
    return PL_OK;
}

void pl_variant_destroy(struct pl_variant *v, struct pl_context *ctx)
{
    if (v->module != NULL)
        leave_module(ctx, v->module);
    ctx->hooks.free(v, ctx->hooks.user);
}

/* ---- eviction ---- */

enum { MAX_VICTIMS = 64 };

struct victims {
    struct pl_entry *entries[MAX_VICTIMS];
    unsigned n;
};

static void choose_victim(struct pl_entry *e, void *user)
{
    struct victims *w = user;
    struct pl_variant *v = atomic_load(&e->variant);
    if (v != NULL && w->n < MAX_VICTIMS && !atomic_load(&v->is_pinned))
        w->entries[w->n++] = e;
}

/* Wait for all work in every CUDA context we launched in; false when one cannot be waited for (a capture is open there). */
static bool wait_for_all(struct pl_context *ctx)
{
    int n = atomic_load(&ctx->n_slots);
    for (int i = 0; i < n; i++) {
        pl_cu_context popped;
        if (ctx->driver.cu.CtxPushCurrent(atomic_load(&ctx->slots[i].handle)) != PL_CU_SUCCESS)
            continue; /* destroyed by its owner, and its work with it */
        pl_cu_result r = ctx->driver.cu.CtxSynchronize();
        (void)ctx->driver.cu.CtxPopCurrent(&popped);
        if (r != PL_CU_SUCCESS)
            return false;
    }
    return true;
}

/* Keep what may not be unloaded now until the context ends; it is rebuilt when asked for again. */
static void retire(struct pl_context *ctx, struct pl_variant *v)
{
    pthread_mutex_lock(&ctx->modules.lock);
    v->next_retired = ctx->modules.retired;
    ctx->modules.retired = v;
    pthread_mutex_unlock(&ctx->modules.lock);
}

/*
 * Out of the table first; then wait until no thread that had found it is still handing it to the driver; then for the GPU,
 * where a launched kernel may still run.
 */
unsigned pl_evict_idle(struct pl_context *ctx)
{
    struct victims w = {.n = 0};
    struct pl_variant *taken[MAX_VICTIMS];
    unsigned n = 0;
    pl_cache_each(&ctx->cache, choose_victim, &w);
    for (unsigned i = 0; i < w.n; i++) {
        taken[n] = pl_cache_take(&ctx->cache, w.entries[i]);
        n += taken[n] != NULL;
    }
    for (unsigned i = 0; i < n; i++)
        while (pl_threads_use(&ctx->threads, taken[i]))
            sched_yield();
    bool is_idle = n != 0 && wait_for_all(ctx);
    for (unsigned i = 0; i < n; i++) {
        if (is_idle)
            pl_variant_destroy(taken[i], ctx);
        else
            retire(ctx, taken[i]);
    }
    if (!is_idle)
        return 0;
    struct pl_thread *t = pl_thread_get(&ctx->threads);
    if (t != NULL)
        pl_thread_count(t, PL_STAT_evicted, n);
    pl_context_tell(ctx, PL_EVENT_EVICTED, PL_LEVEL_NOTE, "", "idle modules were unloaded", 0);
    return n;
}
