#include "src/runtime/load.h"

#include "src/runtime/context.h"
#include "src/runtime/launch.h"

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

/*
 * Load, making room as often as that helps. Another thread may have taken all that was idle out of the table just now, and not
 * yet unloaded it: then its eviction is waited for.
 */
static pl_cu_result load_with_room(struct pl_context *ctx, const void *code, pl_cu_library *library,
                                   char log[LOG_BYTES])
{
    for (;;) {
        unsigned n_before = atomic_load(&ctx->modules.n_evictions);
        pl_cu_result r = load_library(ctx, code, library, log);
        if (r != PL_CU_OUT_OF_MEMORY)
            return r;
        if (pl_evict_idle(ctx) != 0)
            continue;
        while (atomic_load(&ctx->modules.n_evicting) != 0)
            sched_yield();
        if (atomic_load(&ctx->modules.n_evictions) == n_before)
            return r;
    }
}

static pl_status get_module(struct pl_module **out, struct pl_context *ctx,
                            const struct pl_load_request *q, struct pl_call *call)
{
    char log[LOG_BYTES];
    pl_cu_library library;
    *out = use_module(ctx, &q->hash);
    if (*out != NULL)
        return PL_OK;
    pl_cu_result r = load_with_room(ctx, q->code, &library, log);
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
    if (!is_child)
        pthread_mutex_destroy(&m->lock);
}

/* ---- variants ---- */

/* Where in the arguments a parameter's value lies; false when it is not a plain copy. */
static bool find_source(const struct pl_plan_param *p, const pl_arg *args, uint32_t *from)
{
    uint32_t arg = (uint32_t)(p->arg * sizeof(pl_arg)), axis = p->axis * (uint32_t)sizeof(int64_t);
    const pl_arg_kind kind = args[p->arg].kind;
    switch (p->kind) {
    case PL_PLAN_ADDRESS:
        *from = arg + (uint32_t)offsetof(pl_arg, u.tensor.address);
        return kind == PL_ARG_TENSOR;
    case PL_PLAN_EXTENT:
        *from = arg + (uint32_t)offsetof(pl_arg, u.tensor.shape) + axis;
        return kind == PL_ARG_TENSOR;
    case PL_PLAN_STRIDE:
        *from = arg + (uint32_t)offsetof(pl_arg, u.tensor.strides) + axis;
        return kind == PL_ARG_TENSOR;
    case PL_PLAN_SCALAR:
        *from = arg + (uint32_t)offsetof(pl_arg, u.i64);
        return p->n_bytes == (kind == PL_ARG_I64 ? 8 : 4) && kind != PL_ARG_NONE;
    case PL_PLAN_TENSOR_MAP:
    case PL_PLAN_GRID:
    case PL_PLAN_WORKSPACE:
    case PL_PLAN_PARAM_KIND_COUNT: break;
    }
    return false;
}

/* The variable parts of a variant, behind the struct in its block; each a multiple of 8 bytes. */
struct parts {
    void *config, *copies, *others, *offsets, *maps;
    size_t n_bytes;
};

static void *take_part(char *block, struct parts *parts, size_t n_bytes)
{
    void *p = block != NULL ? block + parts->n_bytes : NULL;
    parts->n_bytes += (n_bytes + 7) / 8 * 8;
    return p;
}

/* With block NULL only the size is found. */
static struct parts lay_out(char *block, const struct pl_load_request *q)
{
    const struct pl_plan *plan = q->plan;
    struct parts p = {.n_bytes = sizeof(struct pl_variant)};
    p.config = take_part(block, &p, q->kernel->params_bytes);
    p.copies = take_part(block, &p, plan->params.n * sizeof(struct pl_copy_op));
    p.others = take_part(block, &p, plan->params.n * sizeof(struct pl_plan_param));
    p.offsets = take_part(block, &p, plan->params.n * sizeof(uint16_t));
    p.maps = take_part(block, &p, plan->maps.n * sizeof(struct pl_plan_map));
    return p;
}

static void make_copies(struct pl_variant *v, const struct pl_load_request *q,
                        const struct parts *parts)
{
    struct pl_copy_op *copies = parts->copies;
    struct pl_plan_param *others = parts->others;
    uint16_t *offsets = parts->offsets;
    uint16_t n = 0;
    for (uint32_t n_bytes = 8; n_bytes >= 4; n_bytes -= 4) {
        for (uint32_t i = 0; i < q->plan->params.n; i++) {
            const struct pl_plan_param *p = &q->plan->params.data[i];
            uint32_t from;
            if (p->n_bytes == n_bytes && find_source(p, q->args, &from))
                copies[n++] = (struct pl_copy_op){(uint16_t)p->offset_bytes, from};
        }
        if (n_bytes == 8)
            v->n_copies8 = n;
    }
    v->n_copies4 = (uint16_t)(n - v->n_copies8);
    for (uint32_t i = 0; i < q->plan->params.n; i++) {
        const struct pl_plan_param *p = &q->plan->params.data[i];
        uint32_t from;
        offsets[i] = (uint16_t)p->offset_bytes;
        if (!find_source(p, q->args, &from))
            others[v->n_others++] = *p;
    }
    v->n_params = (uint16_t)q->plan->params.n;
    v->copies = copies;
    v->others = others;
    v->offsets = offsets;
}

static struct pl_variant *make_variant(struct pl_context *ctx, const struct pl_load_request *q)
{
    size_t n_bytes = lay_out(NULL, q).n_bytes;
    char *block = ctx->hooks.alloc(n_bytes, ctx->hooks.user);
    if (block == NULL)
        return NULL;
    memset(block, 0, n_bytes);
    struct pl_variant *v = (void *)block;
    struct parts parts = lay_out(block, q);
    v->kernel = q->kernel;
    v->facts = q->facts;
    v->launch = q->plan->launch;
    if (q->kernel->params_bytes != 0)
        memcpy(parts.config, q->config, q->kernel->params_bytes);
    if (q->plan->maps.n != 0)
        memcpy(parts.maps, q->plan->maps.data, q->plan->maps.n * sizeof *q->plan->maps.data);
    v->config = parts.config;
    v->maps = parts.maps;
    make_copies(v, q, &parts);
    size_t n = strlen(q->entry);
    memcpy(v->entry, q->entry, n < sizeof v->entry ? n : sizeof v->entry - 1);
    return v;
}

/* Of a cluster. */
static uint32_t n_blocks_of(const struct pl_plan_launch *l)
{
    return l->cluster[0] * l->cluster[1] * l->cluster[2];
}

static pl_cu_result set_limits(const struct pl_variant *v, struct pl_context *ctx)
{
    const struct pl_plan_launch *l = &v->launch;
    pl_cu_result r = PL_CU_SUCCESS;
    if (l->smem_bytes != 0)
        r = ctx->driver.cu.KernelSetAttribute(PL_CU_FUNC_MAX_DYNAMIC_SMEM, (int)l->smem_bytes,
                                              v->handle, ctx->ordinal);
    if (r == PL_CU_SUCCESS && n_blocks_of(l) > 8)
        r = ctx->driver.cu.KernelSetAttribute(PL_CU_FUNC_NON_PORTABLE_CLUSTER, 1, v->handle,
                                              ctx->ordinal);
    return r;
}

/* Everything that would else be done lazily at the first launch; gives the kernel's function. The CUDA context is current, the mode RELAXED. */
static pl_cu_result finalise(const struct pl_variant *v, struct pl_context *ctx,
                             pl_cu_function *function)
{
    pl_cu_result r = set_limits(v, ctx);
    if (r == PL_CU_SUCCESS)
        r = ctx->driver.cu.KernelGetFunction(function, v->handle);
    if (r == PL_CU_SUCCESS && ctx->driver.cu.FuncLoad != NULL)
        return ctx->driver.cu.FuncLoad(*function);
    int n_regs;
    if (r == PL_CU_SUCCESS) /* before CUDA 12.4 a query loads the function */
        r = ctx->driver.cu.FuncGetAttribute(&n_regs, PL_CU_FUNC_N_REGS, *function);
    return r;
}

/* False: no launch can succeed, whatever its grid; the driver would say so of each, without a reason. */
static bool fits_a_cluster(const struct pl_variant *v, struct pl_context *ctx,
                           pl_cu_function function)
{
    const struct pl_plan_launch *l = &v->launch;
    pl_cu_launch_attr cluster = {.id = PL_CU_LAUNCH_CLUSTER_DIMENSION};
    int n_clusters = 0;
    if (n_blocks_of(l) == 1 || ctx->driver.cu.OccupancyMaxActiveClusters == NULL)
        return true;
    cluster.value.cluster.x = l->cluster[0];
    cluster.value.cluster.y = l->cluster[1];
    cluster.value.cluster.z = l->cluster[2];
    const pl_cu_launch_config config = {.grid = {l->cluster[0], l->cluster[1], l->cluster[2]},
                                        .block = {l->n_threads, 1, 1},
                                        .dynamic_smem_bytes = l->smem_bytes,
                                        .attrs = &cluster,
                                        .n_attrs = 1};
    return ctx->driver.cu.OccupancyMaxActiveClusters(&n_clusters, function, &config) !=
               PL_CU_SUCCESS ||
           n_clusters > 0;
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
    pl_cu_function function;
    r = finalise(v, ctx, &function);
    if (r != PL_CU_SUCCESS)
        return pl_context_fail(call, "cuFuncLoad", r);
    if (!fits_a_cluster(v, ctx, function))
        return pl_e_cluster_fit(call, PL_E_UNSUPPORTED, (struct pl_where){0}, q->kernel->name,
                                (int)n_blocks_of(&v->launch), v->launch.smem_bytes);
    mark_loaded(v, place->slot);
    return PL_OK;
}

pl_status pl_variant_load(struct pl_variant **out, struct pl_context *ctx,
                          const struct pl_load_request *q, const struct pl_place *place,
                          struct pl_call *call)
{
    if (q->plan->params.n > PL_PACK_MAX_PARAMS ||
        q->plan->launch.params_bytes > PL_PARAM_BLOCK_BYTES)
        return pl_e_params(call, PL_E_UNSUPPORTED, (struct pl_where){0}, q->kernel->name,
                           (int)q->plan->params.n, (int)q->plan->launch.params_bytes);
    if (q->plan->launch.smem_bytes > ctx->device.smem_bytes)
        return pl_e_smem(call, PL_E_UNSUPPORTED,
                         (struct pl_where){.has_values = true,
                                           .seen = q->plan->launch.smem_bytes,
                                           .wanted = ctx->device.smem_bytes},
                         q->kernel->name, q->plan->launch.smem_bytes, ctx->device.smem_bytes);
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
    pl_cu_function function;
    pl_cu_result r = finalise(v, ctx, &function);
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
 * A variant is pinned by a thread that has it in use, so once nobody does, the mark stands still: those that were pinned after
 * they had been chosen stay. Gives the number of the others, which move to the front.
 */
static unsigned retire_pinned(struct pl_context *ctx, struct pl_variant **taken, unsigned n)
{
    unsigned n_idle = 0;
    for (unsigned i = 0; i < n; i++) {
        if (atomic_load(&taken[i]->is_pinned))
            retire(ctx, taken[i]);
        else
            taken[n_idle++] = taken[i];
    }
    return n_idle;
}

/*
 * Out of the table first; then wait until no thread that had found it is still handing it to the driver; then for the GPU,
 * where a launched kernel may still run.
 */
static unsigned evict(struct pl_context *ctx)
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
    n = retire_pinned(ctx, taken, n);
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

unsigned pl_evict_idle(struct pl_context *ctx)
{
    atomic_fetch_add(&ctx->modules.n_evicting, 1);
    unsigned n = evict(ctx);
    if (n != 0)
        atomic_fetch_add(&ctx->modules.n_evictions, 1);
    atomic_fetch_sub(&ctx->modules.n_evicting, 1);
    return n;
}
