#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "src/runtime/context.h"

#include "base/debug.h"
#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what a call does first ---- */

static bool is_forked(const struct pl_context *ctx)
{
    return ctx->fork_mark != NULL ? *ctx->fork_mark == 0 : ctx->pid != (int)getpid();
}

pl_status pl_context_check(struct pl_context *ctx, struct pl_call *call)
{
    const struct pl_where nowhere = {0};
    if (ctx == NULL)
        return pl_e_bad_call(call, PL_E_INVALID, nowhere, call->function, "the context is NULL");
    if (is_forked(ctx))
        return pl_e_forked(call, PL_E_FORKED, nowhere, call->function);
    const struct pl_inside *in = pl_inside_get();
    if (in->is_callback)
        return pl_e_in_callback(call, PL_E_IN_CALLBACK, nowhere, call->function);
    if (in->building != NULL)
        return pl_e_recursion(call, PL_E_RECURSION, nowhere, call->function, in->building);
    return PL_OK;
}

pl_status pl_context_fail(struct pl_call *call, const char *function, pl_cu_result r)
{
    struct pl_context *ctx = call->ctx;
    const char *name = pl_driver_error_name(&ctx->driver, r);
    call->driver_code = r;
    if (pl_driver_is_sticky(r)) {
        char recent[256], why[312];
        pl_driver_fault_text(&ctx->driver, why, sizeof why);
        if (why[0] != '\0')
            return pl_e_fault_place(call, PL_E_FAULT, (struct pl_where){0}, function, r, name, why);
        pl_context_recent(ctx, recent, sizeof recent);
        return pl_e_fault(call, PL_E_FAULT, (struct pl_where){0}, function, r, name, recent);
    }
    if (r == PL_CU_OUT_OF_MEMORY)
        return pl_e_out_of_memory(call, PL_E_NOMEM, (struct pl_where){0}, function);
    return pl_e_driver_call(call, PL_E_DRIVER, (struct pl_where){0}, function, r, name,
                            pl_driver_error_text(&ctx->driver, r));
}

void pl_context_tell(struct pl_context *ctx, pl_event_kind kind, pl_severity_level level,
                     const char *kernel, const char *text, uint64_t n_ns)
{
    if (ctx->event == NULL)
        return;
    const pl_event e = {.kind = kind, .level = level, .kernel = kernel, .text = text, .n_ns = n_ns};
    ctx->event(&e, ctx->user);
}

size_t pl_context_last_launches(const pl_context *ctx, pl_launch_record *records, size_t n_records)
{
    size_t n = 0;
    if (ctx == NULL)
        return 0;
    for (const struct pl_thread *t = atomic_load(&ctx->threads.all); t != NULL; t = t->next) {
        uint32_t end = atomic_load(&t->n_recent);
        uint32_t first = end > PL_RECENT_COUNT ? end - PL_RECENT_COUNT : 0;
        for (uint32_t i = end; i > first; i--) {
            pl_launch_record r;
            if (!pl_thread_recall(t, i - 1, &r))
                continue; /* its thread launches right now, and that was its oldest */
            if (records != NULL && n < n_records)
                records[n] = r;
            n++;
        }
    }
    return n;
}

void pl_context_recent(const struct pl_context *ctx, char *out, size_t n_bytes)
{
    pl_launch_record last[8];
    size_t n = pl_context_last_launches(ctx, last, PL_COUNT(last)), used = 0;
    snprintf(out, n_bytes, "none of plaunch's");
    for (size_t i = 0; i < n && i < PL_COUNT(last) && used + 1 < n_bytes; i++) {
        int w = snprintf(out + used, n_bytes - used, "%s%s<%ux%ux%u>", used != 0 ? ", " : "",
                         last[i].entry, last[i].grid[0], last[i].grid[1], last[i].grid[2]);
        used += w < 0 ? n_bytes : (size_t)w;
    }
}

/* ---- CUDA contexts ---- */

static int find_slot(struct pl_context *ctx, pl_cu_context cu, unsigned long long id)
{
    int n = atomic_load_explicit(&ctx->n_slots, memory_order_acquire);
    for (int i = 0; i < n; i++)
        if (atomic_load_explicit(&ctx->slots[i].handle, memory_order_relaxed) == cu &&
            ctx->slots[i].id == id)
            return i;
    return PL_NO_SLOT;
}

/* Learn a context's device by making it current for a moment, and remember it. *slot may stay PL_NO_SLOT: the table is full. */
static pl_status add_slot(struct pl_context *ctx, pl_cu_context cu, unsigned long long id,
                          int *slot, int *device, struct pl_call *call)
{
    pl_cu_context popped;
    pl_cu_result r = ctx->driver.cu.CtxPushCurrent(cu);
    if (r != PL_CU_SUCCESS)
        return pl_context_fail(call, "cuCtxPushCurrent", r);
    r = ctx->driver.cu.CtxGetDevice(device);
    (void)ctx->driver.cu.CtxPopCurrent(&popped);
    if (r != PL_CU_SUCCESS)
        return pl_context_fail(call, "cuCtxGetDevice", r);
    pthread_mutex_lock(&ctx->slots_lock);
    *slot = find_slot(ctx, cu, id);
    int n = atomic_load(&ctx->n_slots);
    if (*slot == PL_NO_SLOT && n < PL_CU_SLOTS) {
        ctx->slots[n].id = id;
        ctx->slots[n].device = *device;
        atomic_store_explicit(&ctx->slots[n].handle, cu, memory_order_relaxed);
        atomic_store_explicit(&ctx->n_slots, n + 1, memory_order_release);
        *slot = n;
    }
    pthread_mutex_unlock(&ctx->slots_lock);
    return PL_OK;
}

static pl_status identify(struct pl_context *ctx, pl_cu_context cu, int *slot, int *device,
                          struct pl_call *call)
{
    unsigned long long id = 0;
    if (ctx->driver.cu.CtxGetId != NULL) {
        pl_cu_result r = ctx->driver.cu.CtxGetId(cu, &id);
        if (r != PL_CU_SUCCESS)
            return pl_context_fail(call, "cuCtxGetId", r);
    }
    *slot = find_slot(ctx, cu, id);
    if (*slot == PL_NO_SLOT)
        return add_slot(ctx, cu, id, slot, device, call);
    *device = ctx->slots[*slot].device;
    return PL_OK;
}

static bool is_default_stream(pl_stream stream) { return (uintptr_t)stream <= 2; }

/* 906: another stream of this context captures, and the legacy stream would join it. */
static pl_status find_capture(struct pl_place *p, struct pl_context *ctx, pl_stream stream,
                              struct pl_call *call)
{
    int status = PL_CU_CAPTURE_NONE;
    pl_cu_result r = ctx->driver.cu.StreamIsCapturing(stream, &status);
    if (r != PL_CU_SUCCESS && r != PL_CU_STREAM_CAPTURE_IMPLICIT)
        return pl_context_fail(call, "cuStreamIsCapturing", r);
    p->is_capturing = r != PL_CU_SUCCESS || status != PL_CU_CAPTURE_NONE;
    return PL_OK;
}

static pl_status find_default(struct pl_place *p, struct pl_context *ctx, struct pl_call *call)
{
    int device = -1;
    pl_cu_result r = ctx->driver.cu.CtxGetCurrent(&p->cu);
    if (r != PL_CU_SUCCESS)
        return pl_context_fail(call, "cuCtxGetCurrent", r);
    if (p->cu != NULL) {
        pl_status st = identify(ctx, p->cu, &p->slot, &device, call);
        if (st != PL_OK)
            return st;
    }
    if (device == ctx->ordinal)
        return PL_OK;
    p->cu = ctx->primary;
    pl_status st = identify(ctx, p->cu, &p->slot, &device, call);
    return st == PL_OK ? pl_place_push(p, ctx, call) : st;
}

pl_status pl_place_find(struct pl_place *p, struct pl_context *ctx, pl_stream stream,
                        struct pl_call *call)
{
    *p = (struct pl_place){.slot = PL_NO_SLOT};
    pl_status st;
    if (is_default_stream(stream)) {
        st = find_default(p, ctx, call);
    } else {
        int device = -1;
        pl_cu_result r = ctx->driver.cu.StreamGetCtx(stream, &p->cu);
        if (r != PL_CU_SUCCESS)
            return pl_context_fail(call, "cuStreamGetCtx", r);
        st = identify(ctx, p->cu, &p->slot, &device, call);
        if (st == PL_OK && device != ctx->ordinal)
            st = pl_e_stream_device(
                call, PL_E_INVALID,
                (struct pl_where){.has_values = true, .seen = device, .wanted = ctx->ordinal},
                device, ctx->ordinal);
    }
    if (st == PL_OK)
        st = find_capture(p, ctx, stream, call);
    if (st != PL_OK)
        pl_place_leave(p, ctx);
    return st;
}

pl_status pl_place_push(struct pl_place *p, struct pl_context *ctx, struct pl_call *call)
{
    if (p->is_pushed)
        return PL_OK;
    pl_cu_result r = ctx->driver.cu.CtxPushCurrent(p->cu);
    if (r != PL_CU_SUCCESS)
        return pl_context_fail(call, "cuCtxPushCurrent", r);
    p->is_pushed = true;
    return PL_OK;
}

void pl_place_leave(struct pl_place *p, struct pl_context *ctx)
{
    pl_cu_context popped;
    if (p->is_pushed)
        (void)ctx->driver.cu.CtxPopCurrent(&popped);
    p->is_pushed = false;
}

/* ---- creation ---- */

static void *malloc_hook(size_t n_bytes, void *user)
{
    (void)user;
    return malloc(n_bytes);
}

static void free_hook(void *p, void *user)
{
    (void)user;
    free(p);
}

/* PTX ISA version that a driver's compiler takes, by cuDriverGetVersion. Source: PTX ISA, Release Notes. */
static const struct {
    int driver;
    uint16_t ptx;
} ptx_caps[] = {{13010, 91}, {13000, 90}, {12090, 88}, {12080, 87}, {12070, 86}, {12050, 85},
                {12040, 84}, {12030, 83}, {12020, 82}, {12010, 81}, {12000, 80}, {0, 78}};

static uint16_t ptx_cap_of(int driver_version)
{
    size_t i = 0;
    while (ptx_caps[i].driver > driver_version)
        i++;
    return ptx_caps[i].ptx;
}

static pl_status read_attribute(struct pl_context *ctx, int attribute, int *value,
                                struct pl_call *call)
{
    pl_cu_result r = ctx->driver.cu.DeviceGetAttribute(value, attribute, ctx->ordinal);
    return r == PL_CU_SUCCESS ? PL_OK : pl_context_fail(call, "cuDeviceGetAttribute", r);
}

static pl_status read_device(struct pl_context *ctx, int ordinal, struct pl_call *call)
{
    if (ordinal < 0 || ordinal >= ctx->driver.n_devices)
        return pl_e_device_ordinal(
            call, PL_E_INVALID,
            (struct pl_where){.has_values = true, .seen = ordinal, .wanted = ctx->driver.n_devices},
            ordinal, ctx->driver.n_devices);
    pl_cu_result r = ctx->driver.cu.DeviceGet(&ctx->ordinal, ordinal);
    if (r != PL_CU_SUCCESS)
        return pl_context_fail(call, "cuDeviceGet", r);
    if (ctx->driver.cu.DeviceGetName(ctx->device_name, (int)sizeof ctx->device_name,
                                     ctx->ordinal) != PL_CU_SUCCESS)
        ctx->device_name[0] = '\0';
    static const int attributes[] = {PL_CU_ATTR_CC_MAJOR, PL_CU_ATTR_CC_MINOR, PL_CU_ATTR_N_SMS,
                                     PL_CU_ATTR_MAX_SMEM_OPTIN, PL_CU_ATTR_MAX_THREADS_PER_SM};
    int v[PL_COUNT(attributes)];
    for (size_t i = 0; i < PL_COUNT(attributes); i++) {
        pl_status st = read_attribute(ctx, attributes[i], &v[i], call);
        if (st != PL_OK)
            return st;
    }
    int arch = v[0] * 10 + v[1];
    const struct pl_target *target = pl_target_find(arch);
    ctx->device = (pl_device_info){.arch = arch,
                                   .n_sms = v[2],
                                   .smem_bytes = v[3],
                                   .max_cluster = target != NULL ? target->max_cluster : 1,
                                   .max_threads_per_sm = v[4],
                                   .is_emulated = ctx->driver.is_emulated};
    return target != NULL ? PL_OK
                          : pl_e_device_arch(call, PL_E_UNSUPPORTED, (struct pl_where){0}, arch);
}

static void open_store(struct pl_context *ctx, struct pl_store *s, const char *path, bool is_ro,
                       struct pl_call *call)
{
    pl_store_open(s, path, is_ro);
    if (s->why_off[0] == '\0')
        return;
    (void)pl_e_cache_folder(call, PL_OK, (struct pl_where){0}, path, s->why_off);
    pl_context_tell(ctx, PL_EVENT_CORRUPT, PL_LEVEL_WARNING, "", s->why_off, 0);
}

static void open_stores(struct pl_context *ctx, const pl_context_options *o, struct pl_call *call)
{
    char path[PL_STORE_PATH_BYTES];
    const char *ro =
        o->cache_ro_dir != NULL ? o->cache_ro_dir : pl_os_getenv("PLAUNCH_CACHE_RO_DIR");
    pl_store_default_path(path, sizeof path);
    open_store(ctx, &ctx->store, o->cache_dir != NULL ? o->cache_dir : path, false, call);
    open_store(ctx, &ctx->read_only_store, ro, true, call);
}

static void read_topics(struct pl_context *ctx, const char *topics, struct pl_call *call)
{
    static const struct {
        const char *word;
        uint32_t bit;
    } words[] = {{"trace", PL_TOPIC_TRACE},
                 {"plan", PL_TOPIC_PLAN},
                 {"ptx", PL_TOPIC_PTX},
                 {"cache", PL_TOPIC_CACHE}};
    for (const char *at = topics; *at != '\0';) {
        const size_t n = strcspn(at, ", ");
        size_t i = 0;
        while (i < PL_COUNT(words) &&
               !(strlen(words[i].word) == n && strncmp(at, words[i].word, n) == 0))
            i++;
        if (i < PL_COUNT(words)) {
            ctx->topics |= words[i].bit;
        } else if (n != 0) {
            char topic[40];
            snprintf(topic, sizeof topic, "%.*s", (int)(n < sizeof topic ? n : sizeof topic), at);
            (void)pl_e_debug_topic(call, PL_OK, (struct pl_where){0}, topic);
        }
        at += n + (at[n] != '\0');
    }
}

static void read_environment(struct pl_context *ctx, struct pl_call *call)
{
    const char *topics = pl_os_getenv("PLAUNCH_DEBUG");
    if (topics != NULL)
        read_topics(ctx, topics, call);
    const char *dump = pl_os_getenv("PLAUNCH_DUMP");
    if (dump != NULL)
        snprintf(ctx->dump_folder, sizeof ctx->dump_folder, "%s", dump);
}

static void take_options(struct pl_context *ctx, const pl_context_options *o)
{
    ctx->log = o->log;
    ctx->event = o->event;
    ctx->user = o->user;
    ctx->scratch_limit_bytes = o->scratch_limit_bytes;
}

/* The steps of creation after the memory and the driver; what they made is undone by destroy(). */
static pl_status start(struct pl_context *ctx, const pl_context_options *o, struct pl_call *call)
{
    pl_status st = read_device(ctx, o->device, call);
    if (st != PL_OK)
        return st;
    pl_cu_result r = ctx->driver.cu.DevicePrimaryCtxRetain(&ctx->primary, ctx->ordinal);
    if (r != PL_CU_SUCCESS) {
        ctx->primary = NULL;
        return pl_context_fail(call, "cuDevicePrimaryCtxRetain", r);
    }
    ctx->ptx_cap = ptx_cap_of(ctx->driver.version);
    ctx->mends_maps = (pl_target_find(ctx->device.arch)->features & PL_F_MAP_BIT) != 0 &&
                      ctx->driver.version <= PL_TMAP_MENDED_DRIVER;
    ctx->pid = (int)getpid();
    ctx->fork_mark = pl_os_fork_mark_create();
    pl_assembler_choose(&ctx->assembler, &ctx->driver);
    read_environment(ctx, call);
    open_stores(ctx, o, call);
    if (ctx->driver.fallback_why[0] != '\0') {
        (void)pl_e_emulated_fallback(call, PL_OK, (struct pl_where){0}, ctx->driver.fallback_why);
        pl_context_tell(ctx, PL_EVENT_EMULATED, PL_LEVEL_WARNING, "", ctx->driver.fallback_why, 0);
    }
    return PL_OK;
}

static void free_variant(struct pl_entry *e, void *user)
{
    struct pl_context *ctx = user;
    struct pl_variant *v = atomic_load(&e->variant);
    if (v != NULL)
        ctx->hooks.free(v, ctx->hooks.user);
}

static void destroy(struct pl_context *ctx, bool is_child)
{
    struct pl_alloc_hooks hooks = ctx->hooks;
    pl_async_fini(&ctx->async, ctx, is_child);
    pl_cache_each_alone(&ctx->cache, free_variant, ctx);
    pl_cache_fini(&ctx->cache, is_child);
    pl_modules_fini(&ctx->modules, ctx, is_child);
    pl_threads_fini(&ctx->threads);
    pl_callbacks_fini(ctx);
    pl_store_close(&ctx->store);
    pl_store_close(&ctx->read_only_store);
    if (ctx->primary != NULL && !is_child)
        (void)ctx->driver.cu.DevicePrimaryCtxRelease(ctx->ordinal);
    pl_os_fork_mark_destroy(ctx->fork_mark);
    if (!is_child)
        pthread_mutex_destroy(&ctx->slots_lock);
    hooks.free(ctx, hooks.user);
}

static struct pl_context *make_empty(const pl_context_options *o)
{
    struct pl_alloc_hooks hooks = {.alloc = malloc_hook, .free = free_hook};
    if (o->alloc != NULL)
        hooks = (struct pl_alloc_hooks){
            .alloc = o->alloc->alloc, .free = o->alloc->free, .user = o->alloc->user};
    struct pl_context *ctx = hooks.alloc(sizeof *ctx, hooks.user);
    if (ctx == NULL)
        return NULL;
    memset(ctx, 0, sizeof *ctx);
    ctx->hooks = hooks;
    ctx->store.folder = ctx->read_only_store.folder = -1;
    if (!pl_cache_init(&ctx->cache, &ctx->hooks))
        goto no_cache;
    if (!pl_threads_init(&ctx->threads, &ctx->hooks))
        goto no_threads;
    pthread_mutex_init(&ctx->slots_lock, NULL);
    pl_async_init(&ctx->async, o->n_threads);
    pthread_mutex_init(&ctx->modules.lock, NULL);
    return ctx;
no_threads:
    pl_cache_fini(&ctx->cache, false);
no_cache:
    hooks.free(ctx, hooks.user);
    return NULL;
}

static pl_status take_given(pl_context_options *o, const pl_context_options *given,
                            struct pl_call *call)
{
    if (given->struct_size != sizeof *given)
        return pl_call_refuse_size(call, "the options", given->struct_size, sizeof *given);
    if (given->n_threads < 0)
        return pl_call_refuse_value(call, "options->n_threads", given->n_threads, "0 or more");
    if (given->alloc != NULL && (given->alloc->alloc == NULL || given->alloc->free == NULL))
        return pl_e_bad_call(call, PL_E_INVALID, (struct pl_where){0}, call->function,
                             "options->alloc lacks a function: both are needed");
    *o = *given;
    return PL_OK;
}

pl_status pl_context_create(pl_context **out, const pl_context_options *options, pl_error *err)
{
    struct pl_call call = pl_call_make("pl_context_create", NULL, err);
    pl_context_options o = {.struct_size = sizeof o};
    const struct pl_where nowhere = {0};
    if (out == NULL)
        return pl_e_bad_call(&call, PL_E_INVALID, nowhere, call.function, "out is NULL");
    *out = NULL;
    pl_status st = options != NULL ? take_given(&o, options, &call) : PL_OK;
    if (st != PL_OK)
        return st;
    if (pl_inside_get()->is_callback)
        return pl_e_in_callback(&call, PL_E_IN_CALLBACK, nowhere, call.function);
    struct pl_context *ctx = make_empty(&o);
    if (ctx == NULL)
        return pl_e_out_of_memory(&call, PL_E_NOMEM, nowhere, "the context");
    take_options(ctx, &o);
    call.ctx = ctx;
    st = pl_driver_open(&ctx->driver, o.driver, &call);
    if (st == PL_OK)
        st = start(ctx, &o, &call);
    if (st != PL_OK) {
        destroy(ctx, false);
        return st;
    }
    *out = ctx;
    return PL_OK;
}

void pl_context_destroy(pl_context *ctx)
{
    if (ctx != NULL)
        destroy(ctx, is_forked(ctx));
}

/* ---- queries ---- */

pl_context_facts pl_context_info(const pl_context *ctx)
{
    if (ctx == NULL)
        return (pl_context_facts){.driver_version = 0};
    pl_context_facts f = {.driver_version = ctx->driver.version,
                          .is_emulated = ctx->driver.is_emulated,
                          .device = ctx->device};
    snprintf(f.driver_path, sizeof f.driver_path, "%s", ctx->driver.path);
    snprintf(f.device_name, sizeof f.device_name, "%s", ctx->device_name);
    snprintf(f.arch_name, sizeof f.arch_name, "sm_%d%s", ctx->device.arch,
             ctx->device.arch >= 90 ? "a" : "");
    snprintf(f.assembler, sizeof f.assembler, "%s", ctx->assembler.id);
    snprintf(f.cache_dir, sizeof f.cache_dir, "%s", ctx->store.path);
    snprintf(f.cache_why_off, sizeof f.cache_why_off, "%s", ctx->store.why_off);
    return f;
}

pl_stats pl_context_stats(const pl_context *ctx)
{
    pl_stats s = {0};
    if (ctx == NULL)
        return s;
#define PL_STAT_SUM_(name, text) s.name = pl_threads_sum(&ctx->threads, PL_STAT_##name);
    PL_STAT_LIST(PL_STAT_SUM_)
#undef PL_STAT_SUM_
    return s;
}

void pl_context_write_prometheus(const pl_context *ctx,
                                 void (*put)(const char *text, size_t n_bytes, void *user),
                                 void *user)
{
    static const struct {
        const char *name, *text;
    } rows[] = {
#define PL_STAT_ROW_(name, text) {#name, text},
        PL_STAT_LIST(PL_STAT_ROW_)
#undef PL_STAT_ROW_
    };
    for (int i = 0; ctx != NULL && put != NULL && i < PL_STAT_COUNT; i++) {
        char line[256];
        int n = snprintf(line, sizeof line,
                         "# HELP plaunch_%s %s\n# TYPE plaunch_%s counter\nplaunch_%s %llu\n",
                         rows[i].name, rows[i].text, rows[i].name, rows[i].name,
                         (unsigned long long)pl_threads_sum(&ctx->threads, (enum pl_stat)i));
        put(line, (size_t)n, user);
    }
}
