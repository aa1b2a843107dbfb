#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "emu/api/state.h"

#include "base/debug.h"
#include "base/os.h"
#include "emu/api/capture.h"
#include "emu/api/event.h"
#include "emu/api/mem.h"
#include "emu/api/module.h"
#include "emu/api/work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULTS                                                                                   \
    {                                                                                              \
        .n_devices = 1, .sms = {90}, .n_sms = 4, .driver_version = 13000,                          \
        .check = PL_EMU_CHECK_FAULTS, .printf_fd = 1                                               \
    }
const struct pl_settings pl_settings_default = DEFAULTS;

struct pl_process pl_process = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .done = PTHREAD_COND_INITIALIZER,
    .ready = PTHREAD_COND_INITIALIZER,
    .settings = DEFAULTS,
};

static _Thread_local struct pl_thread this_thread;

struct pl_thread *pl_thread_get(void)
{
    if (this_thread.id == 0)
        this_thread.id = pl_os_thread_id();
    return &this_thread;
}

void pl_lock(void) { pthread_mutex_lock(&pl_process.lock); }
void pl_unlock(void) { pthread_mutex_unlock(&pl_process.lock); }

/* ---- fork and exit ------------------------------------------------------------------------------ */

/* A child of fork has no workers and may not use the driver: Driver API reference, Initialization. */
static void at_fork_child(void)
{
    pthread_mutex_init(&pl_process.lock, NULL);
    pthread_cond_init(&pl_process.done, NULL);
    pthread_cond_init(&pl_process.ready, NULL);
    int ready = PL_PHASE_READY;
    atomic_compare_exchange_strong(&pl_process.phase, &ready, PL_PHASE_FORKED);
}

__attribute__((constructor)) static void at_load(void)
{
    pthread_atfork(pl_lock, pl_unlock, at_fork_child);
}

__attribute__((destructor)) static void at_exit(void)
{
    int ready = PL_PHASE_READY;
    atomic_compare_exchange_strong(&pl_process.phase, &ready, PL_PHASE_ENDED);
}

/* ---- entering and leaving an exported function ----------------------------------------------------- */

static CUresult find_rule(enum pl_api api, uint64_t call)
{
    CUresult r = CUDA_SUCCESS;
    pl_lock();
    for (uint32_t i = 0; i < pl_process.n_rules; i++) {
        const struct pl_rule *rule = &pl_process.rules[i];
        if (rule->api == api &&
            (call == rule->at_call || (rule->is_lasting && call > rule->at_call)))
            r = rule->code;
    }
    pl_unlock();
    return r;
}

static CUresult check_phase(const struct pl_api_info *f)
{
    if (f->version > pl_process.settings.driver_version)
        return CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER;
    if (f->need == PL_NEED_ANY)
        return CUDA_SUCCESS;
    switch ((enum pl_phase)atomic_load(&pl_process.phase)) {
    case PL_PHASE_COLD: return CUDA_ERROR_NOT_INITIALIZED;
    case PL_PHASE_FORKED: return CUDA_ERROR_NOT_INITIALIZED;
    case PL_PHASE_ENDED: return CUDA_ERROR_DEINITIALIZED;
    case PL_PHASE_READY: break;
    }
    /* Driver API reference, cuLaunchHostFunc: host functions must not make CUDA calls. */
    return pl_thread_get()->is_in_callback ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

CUresult pl_api_enter(enum pl_api api, bool is_per_thread)
{
    const struct pl_api_info *f = &pl_api_infos[api];
    uint64_t call =
        atomic_fetch_add_explicit(&pl_process.n_calls[api], 1, memory_order_relaxed) + 1;
    CUresult r = CUDA_SUCCESS;
    if (atomic_load_explicit(&pl_process.n_rules, memory_order_acquire) != 0)
        r = find_rule(api, call);
    if (r == CUDA_SUCCESS)
        r = check_phase(f);
    if (r != CUDA_SUCCESS || f->need == PL_NEED_ANY)
        return r;
    pl_lock();
    pl_thread_get()->is_per_thread_call = is_per_thread;
    if (f->need == PL_NEED_CTX)
        r = pl_ctx_check(pl_ctx_current());
    if (r == CUDA_SUCCESS && f->capture == PL_CAPTURE_UNSAFE)
        r = pl_capture_check_unsafe();
    if (r != CUDA_SUCCESS)
        pl_unlock();
    return r;
}

void pl_api_leave(enum pl_api api)
{
    if (pl_api_infos[api].need != PL_NEED_ANY)
        pl_unlock();
}

/* ---- devices ------------------------------------------------------------------------------------------- */

static const struct pl_chip chips[] = {
#define CHIP(...) {__VA_ARGS__},
#include "emu/chips.def"
#undef CHIP
};

const struct pl_chip *pl_chip_find(int sm)
{
    for (size_t i = 0; i < PL_COUNT(chips); i++)
        if (chips[i].sm == sm)
            return &chips[i];
    return NULL;
}

struct pl_device *pl_device_find(CUdevice ordinal)
{
    return ordinal >= 0 && ordinal < pl_process.n_devices ? &pl_process.devices[ordinal] : NULL;
}

static void print_text(const char *text, size_t n_bytes, void *user)
{
    (void)user;
    int fd = pl_process.settings.printf_fd;
    if (fd == 1) { /* through stdio, so that it keeps its place among the program's own output */
        fwrite(text, 1, n_bytes, stdout);
        fflush(stdout);
    } else if (fd == 2) {
        fwrite(text, 1, n_bytes, stderr);
    }
}

static struct pl_emu_config device_config(const struct pl_device *d)
{
    const struct pl_settings *s = &pl_process.settings;
    const struct pl_chip *c = d->chip;
    return (struct pl_emu_config){
        .sm = (uint16_t)c->sm,
        .index = (uint32_t)d->ordinal,
        .n_sms = (uint32_t)d->n_sms,
        .threads_per_sm = (uint32_t)c->n_threads_sm,
        .ctas_per_sm = (uint32_t)c->n_blocks_sm,
        .regs_per_sm = 65536,
        .shared_per_sm_bytes = (uint32_t)c->smem_sm_kib * 1024,
        .shared_per_cta_bytes = (uint32_t)c->smem_optin_kib * 1024,
        .memory_bytes = s->memory_bytes != 0 ? s->memory_bytes : (uint64_t)c->memory_gib << 30,
        .check = s->check,
        .policy = s->policy,
        .seed = s->seed,
        .n_threads = s->n_threads,
        .step_limit = s->step_limit,
        .stack_bytes = s->stack_bytes,
        .print = print_text,
    };
}

void pl_process_configure_devices(void)
{
    for (int i = 0; i < pl_process.n_devices; i++) {
        struct pl_emu_config config = device_config(&pl_process.devices[i]);
        pl_emu_device_configure(pl_process.devices[i].emu, &config);
    }
}

CUresult pl_process_init(void)
{
    struct pl_process *p = &pl_process;
    for (int i = 0; i < p->settings.n_devices; i++) {
        struct pl_device *d = &p->devices[i];
        *d = (struct pl_device){.ordinal = i, .n_sms = p->settings.n_sms};
        d->chip = pl_chip_find(p->settings.sms[i]);
        PL_ASSERT(d->chip != NULL);
        struct pl_emu_config config = device_config(d);
        d->emu = pl_emu_device_create(&config);
        if (d->emu == NULL)
            return CUDA_ERROR_OUT_OF_MEMORY;
        p->n_devices = i + 1;
    }
    return p->n_devices == 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

static void destroy_devices(void)
{
    struct pl_process *p = &pl_process;
    for (int i = 0; i < p->n_devices; i++) {
        struct pl_device *d = &p->devices[i];
        if (d->emu != NULL)
            pl_emu_device_destroy(d->emu);
        *d = (struct pl_device){0};
    }
    p->n_devices = 0;
}

void pl_process_reset(void)
{
    struct pl_process *p = &pl_process;
    uint32_t i = 0;
    for (struct pl_context *ctx; (ctx = pl_obj_next(&i, PL_OBJ_CONTEXT)) != NULL;)
        pl_ctx_destroy(ctx);
    pl_module_reset();
    pl_graph_reset();
    pl_mem_reset();
    destroy_devices();
    *pl_thread_get() = (struct pl_thread){0};
    p->n_rules = 0;
    for (int api = 0; api < PL_API_COUNT; api++)
        atomic_store(&p->n_calls[api], 0);
    p->fault_text[0] = '\0';
    p->n_loads = p->n_unloads = p->n_pushes = p->n_pops = p->n_submitted = p->n_completed = 0;
    p->n_copies = p->n_host_functions = p->n_faults = 0;
    atomic_store(&p->phase, PL_PHASE_COLD);
}

struct pl_emu_counters pl_process_counters(const struct pl_process *p)
{
    struct pl_emu_counters sum = {0};
    for (int i = 0; i < p->n_devices; i++) {
        struct pl_emu_counters c = pl_emu_device_counters(p->devices[i].emu);
        sum.launches += c.launches;
        sum.instructions += c.instructions;
        sum.lane_ops += c.lane_ops;
        sum.clusters += c.clusters;
    }
    return sum;
}

void pl_process_note(const char *text)
{
    struct pl_process *p = &pl_process;
    snprintf(p->fault_text, sizeof p->fault_text, "%s", text);
    if (p->settings.is_reporting)
        fprintf(stderr, "plaunch-emu: %s\n", text);
}

/* A deadlock's text names its waiters itself; a load has a line and no thread. */
void pl_fault_print(const struct pl_emu_fault *f, char *out, size_t out_n_bytes)
{
    int n = f->code != 0 ? snprintf(out, out_n_bytes, "PL%04d ", f->code) : 0;
    if (f->line != 0 && f->entry[0] != '\0')
        n += snprintf(out + n, out_n_bytes - (size_t)n,
                      "line %u of %s, CTA (%u, %u, %u), warp %u, lane %u: ", f->line, f->entry,
                      f->cta[0], f->cta[1], f->cta[2], f->warp, f->lane);
    else if (f->line != 0)
        n += snprintf(out + n, out_n_bytes - (size_t)n, "line %u: ", f->line);
    snprintf(out + n, out_n_bytes - (size_t)n, "%s", f->text);
}

void pl_process_report(const char *text)
{
    pl_process.n_faults++;
    pl_process_note(text);
}

/* ---- contexts ------------------------------------------------------------------------------------------- */

struct pl_context *pl_ctx_current(void)
{
    const struct pl_thread *t = pl_thread_get();
    return t->depth == 0 ? NULL : pl_obj_find(t->stack[t->depth - 1], PL_OBJ_CONTEXT);
}

CUresult pl_ctx_check(const struct pl_context *ctx)
{
    if (ctx == NULL) {
        const struct pl_thread *t = pl_thread_get();
        return t->depth != 0 && t->stack[t->depth - 1] != NULL ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                                               : CUDA_ERROR_INVALID_CONTEXT;
    }
    if (!ctx->is_active)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return ctx->sticky;
}

bool pl_ctx_open(struct pl_context *ctx)
{
    static const size_t defaults[PL_N_LIMITS] = {
        [CU_LIMIT_STACK_SIZE] = 1024,
        [CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20,
        [CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20,
        [CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2,
        [CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
        [CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64,
    };
    memcpy(ctx->limits, defaults, sizeof defaults);
    ctx->id = ++pl_process.next_id;
    ctx->sticky = CUDA_SUCCESS;
    ctx->is_active = true;
    ctx->legacy = pl_stream_create(ctx, 0, 0);
    if (ctx->legacy != NULL)
        pl_obj_remove(&ctx->legacy->obj);
    return ctx->legacy != NULL;
}

CUresult pl_ctx_create(struct pl_device *d, unsigned flags, struct pl_context **out)
{
    struct pl_context *ctx = calloc(1, sizeof *ctx);
    if (ctx == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    ctx->device = d;
    ctx->flags = flags;
    ctx->api_version = 3020;
    if (!pl_obj_add(&ctx->obj, PL_OBJ_CONTEXT) || !pl_ctx_open(ctx)) {
        pl_obj_remove(&ctx->obj);
        free(ctx);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = ctx;
    return CUDA_SUCCESS;
}

void pl_ctx_close(struct pl_context *ctx)
{
    if (!ctx->is_active)
        return;
    ctx->is_active = false;
    pl_ctx_drain(ctx);
    pl_capture_drop_context(ctx);
    pl_module_drop_context(ctx);
    pl_event_drop_context(ctx);
    pl_mem_drop_context(ctx);
    while (ctx->streams != NULL)
        pl_stream_destroy(ctx->streams);
    ctx->legacy = NULL;
}

void pl_ctx_destroy(struct pl_context *ctx)
{
    pl_ctx_close(ctx);
    pl_obj_remove(&ctx->obj);
    free(ctx);
}
