#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "emu/api/work.h"

#include "base/debug.h"
#include "base/os.h"
#include "emu/api/capture.h"
#include "emu/api/mem.h"
#include "emu/api/module.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_WORKERS = 64 };

/* ---- marks --------------------------------------------------------------------------------------------- */

struct pl_mark *pl_mark_create(void)
{
    struct pl_mark *m = calloc(1, sizeof *m);
    if (m != NULL)
        m->n_refs = 1;
    return m;
}

struct pl_mark *pl_mark_retain(struct pl_mark *m)
{
    m->n_refs++;
    return m;
}

void pl_mark_release(struct pl_mark *m)
{
    if (m != NULL && --m->n_refs == 0)
        free(m);
}

/* ---- work ----------------------------------------------------------------------------------------------- */

bool pl_work_copy(struct pl_work *to, const struct pl_work *from)
{
    *to = *from;
    PL_ASSERT(from->kind != PL_WORK_COPY ||
              from->copy.held == NULL); /* graphs read at their launch */
    if (from->kind == PL_WORK_GRAPH_ALLOC || from->kind == PL_WORK_GRAPH_FREE)
        pl_graph_memory_retain(from->graph_memory);
    if (from->kind != PL_WORK_KERNEL || from->kernel.n_params_bytes == 0)
        return true;
    to->kernel.params = malloc(from->kernel.n_params_bytes);
    if (to->kernel.params == NULL) {
        to->kind = PL_WORK_EMPTY;
        return false;
    }
    memcpy(to->kernel.params, from->kernel.params, from->kernel.n_params_bytes);
    return true;
}

void pl_work_fini(struct pl_work *w)
{
    if (w->kind == PL_WORK_KERNEL)
        free(w->kernel.params);
    if (w->kind == PL_WORK_COPY)
        free(w->copy.held);
    if (w->kind == PL_WORK_GRAPH_ALLOC || w->kind == PL_WORK_GRAPH_FREE)
        pl_graph_memory_release(w->graph_memory);
    *w = (struct pl_work){0};
}

static CUresult fault(const char *text, CUresult code)
{
    pl_lock();
    pl_process_report(text);
    pl_unlock();
    return code;
}

static CUresult run_kernel(struct pl_context *ctx, const struct pl_kernel_work *k)
{
    struct pl_emu_launch launch = {
        .func = pl_function_code(k->function),
        .params = k->params,
        .grid = {k->grid[0], k->grid[1], k->grid[2]},
        .block = {k->block[0], k->block[1], k->block[2]},
        .cluster = {k->cluster[0], k->cluster[1], k->cluster[2]},
        .dynamic_shared_bytes = k->dynamic_bytes,
        .is_cooperative = k->is_cooperative,
        .stack_bytes = k->stack_bytes,
        .heap_bytes = k->heap_bytes,
    };
    struct pl_emu_fault f = {0};
    if (pl_emu_launch(ctx->device->emu, &launch, &f))
        return CUDA_SUCCESS;
    char text[sizeof f.text + 200];
    pl_fault_print(&f, text, sizeof text);
    return fault(text, f.result != 0 ? (CUresult)f.result : CUDA_ERROR_LAUNCH_FAILED);
}

/* A row, or NULL when the memory has been freed since the copy was checked. */
static void *row_at(const struct pl_side *s, size_t y, size_t z, size_t n_bytes)
{
    uint64_t address = s->address + z * s->slice_bytes + y * s->pitch_bytes;
    if (s->device == NULL)
        return (void *)(uintptr_t)address;
    return pl_emu_memory_host(pl_emu_device_memory(s->device->emu), address, n_bytes);
}

static CUresult run_copy(const struct pl_copy *c)
{
    for (size_t z = 0; z < c->depth; z++) {
        for (size_t y = 0; y < c->height; y++) {
            void *to = row_at(&c->dst, y, z, c->width_bytes);
            const void *from = row_at(&c->src, y, z, c->width_bytes);
            if (to == NULL || from == NULL)
                return fault("copy: the memory has been freed before the copy ran",
                             CUDA_ERROR_ILLEGAL_ADDRESS);
            memmove(to, from, c->width_bytes);
        }
    }
    return CUDA_SUCCESS;
}

static void fill_row(void *row, uint32_t value, uint32_t elem_bytes, size_t n_elems)
{
    if (elem_bytes == 1) {
        memset(row, (int)(value & 0xff), n_elems);
        return;
    }
    uint8_t *p = row;
    uint16_t half = (uint16_t)value;
    const void *elem = elem_bytes == 2 ? (const void *)&half : (const void *)&value;
    for (size_t i = 0; i < n_elems; i++)
        memcpy(p + i * elem_bytes, elem, elem_bytes);
}

static CUresult run_fill(const struct pl_fill *f)
{
    struct pl_side side = {f->device, f->address, f->pitch_bytes, 0};
    for (size_t y = 0; y < f->height; y++) {
        void *row = row_at(&side, y, 0, f->width_elems * f->elem_bytes);
        if (row == NULL)
            return fault("memset: the memory has been freed before it ran",
                         CUDA_ERROR_ILLEGAL_ADDRESS);
        fill_row(row, f->value, f->elem_bytes, f->width_elems);
    }
    return CUDA_SUCCESS;
}

static CUresult run_host(const struct pl_host_work *h, CUresult status)
{
    struct pl_thread *t = pl_thread_get();
    t->is_in_callback = true;
    if (h->callback != NULL)
        h->callback(h->stream, status, h->user);
    else
        h->fn(h->user);
    t->is_in_callback = false;
    return CUDA_SUCCESS;
}

static uint64_t load_value(const void *p, uint32_t n_bytes)
{
    return n_bytes == 4 ? __atomic_load_n((const uint32_t *)p, __ATOMIC_ACQUIRE)
                        : __atomic_load_n((const uint64_t *)p, __ATOMIC_ACQUIRE);
}

static bool is_value_there(const struct pl_value_work *v, uint64_t seen)
{
    uint64_t mask = v->n_bytes == 4 ? UINT32_MAX : UINT64_MAX;
    switch (v->flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return v->n_bytes == 4 ? (int32_t)((uint32_t)seen - (uint32_t)v->value) >= 0
                               : (int64_t)(seen - v->value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ: return seen == v->value;
    case CU_STREAM_WAIT_VALUE_AND: return (seen & v->value) != 0;
    default: return (~(seen | v->value) & mask) != 0;
    }
}

static CUresult run_value(const struct pl_value_work *v, bool is_write)
{
    struct pl_side side = {v->device, v->address, 0, 0};
    void *p = row_at(&side, 0, 0, v->n_bytes);
    if (p == NULL)
        return fault("stream memory operation: the memory has been freed before it ran",
                     CUDA_ERROR_ILLEGAL_ADDRESS);
    if (is_write && v->n_bytes == 4)
        __atomic_store_n((uint32_t *)p, (uint32_t)v->value, __ATOMIC_RELEASE);
    else if (is_write)
        __atomic_store_n((uint64_t *)p, v->value, __ATOMIC_RELEASE);
    while (!is_write && !is_value_there(v, load_value(p, v->n_bytes)))
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    return CUDA_SUCCESS;
}

static CUresult run_free(uint64_t address)
{
    pl_lock();
    CUresult r = pl_mem_free_now(address);
    pl_unlock();
    return r;
}

CUresult pl_work_run(struct pl_context *ctx, const struct pl_work *w)
{
    switch (w->kind) {
    case PL_WORK_EMPTY:
    case PL_WORK_GRAPH_ALLOC:
    case PL_WORK_GRAPH_FREE: return CUDA_SUCCESS;
    case PL_WORK_KERNEL: return run_kernel(ctx, &w->kernel);
    case PL_WORK_COPY: return run_copy(&w->copy);
    case PL_WORK_FILL: return run_fill(&w->fill);
    case PL_WORK_HOST: return run_host(&w->host, CUDA_SUCCESS);
    case PL_WORK_FREE: return run_free(w->free_address);
    case PL_WORK_WRITE_VALUE: return run_value(&w->value, true);
    case PL_WORK_WAIT_VALUE: return run_value(&w->value, false);
    }
    return CUDA_ERROR_UNKNOWN;
}

/* Behind a fault nothing runs, but a stream callback is told the code. */
static void skip_work(const struct pl_work *w, CUresult sticky)
{
    if (w->kind == PL_WORK_HOST && w->host.callback != NULL)
        run_host(&w->host, sticky);
}

/* ---- ops -------------------------------------------------------------------------------------------------- */

static bool add_dep(struct pl_op *op, struct pl_mark *m)
{
    if (m == NULL || m->is_done)
        return true;
    struct pl_mark **deps = realloc(op->deps, (op->n_deps + 1) * sizeof(struct pl_mark *));
    if (deps == NULL)
        return false;
    op->deps = deps;
    op->deps[op->n_deps++] = pl_mark_retain(m);
    return true;
}

static void destroy_op(struct pl_op *op)
{
    for (uint32_t i = 0; i < op->n_deps; i++)
        pl_mark_release(op->deps[i]);
    free(op->deps);
    pl_mark_release(op->mark);
    pl_work_fini(&op->work);
    free(op);
}

/* The legacy default stream waits for all blocking streams of its context, and they for it. */
static bool add_legacy_deps(struct pl_stream *s, struct pl_op *op)
{
    struct pl_context *ctx = s->ctx;
    if (s != ctx->legacy)
        return !pl_stream_is_blocking(s) || add_dep(op, ctx->legacy->last);
    for (struct pl_stream *other = ctx->streams; other != NULL; other = other->next)
        if (other != s && pl_stream_is_blocking(other) && !add_dep(op, other->last))
            return false;
    return true;
}

static struct pl_op *create_op(struct pl_stream *s, struct pl_mark *extra)
{
    struct pl_op *op = calloc(1, sizeof *op);
    if (op == NULL)
        return NULL;
    op->mark = pl_mark_create();
    if (op->mark == NULL || !add_dep(op, extra) || !add_legacy_deps(s, op)) {
        destroy_op(op);
        return NULL;
    }
    return op;
}

/* ---- scheduling --------------------------------------------------------------------------------------------- */

static bool can_run(const struct pl_stream *s)
{
    if (s->head == NULL || s->is_running)
        return false;
    for (uint32_t i = 0; i < s->head->n_deps; i++)
        if (!s->head->deps[i]->is_done)
            return false;
    return true;
}

static void *work_for_ever(void *arg);

static void start_worker(void)
{
    struct pl_process *p = &pl_process;
    /* A worker that was woken is still idle until it has the lock: count the streams that want one. */
    if (p->n_ready <= p->n_idle || p->n_workers == MAX_WORKERS)
        return;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the application's own business */
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_t thread;
    if (pthread_create(&thread, &attr, work_for_ever, NULL) == 0)
        p->n_workers++;
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void make_ready(struct pl_stream *s)
{
    struct pl_process *p = &pl_process;
    if (s->is_ready || !can_run(s))
        return;
    s->is_ready = true;
    p->n_ready++;
    s->next_ready = NULL;
    if (p->ready_head == NULL)
        p->ready_head = s;
    else
        p->ready_tail->next_ready = s;
    p->ready_tail = s;
    start_worker();
    pthread_cond_signal(&p->ready);
}

static void remove_ready(struct pl_stream *s)
{
    struct pl_process *p = &pl_process;
    struct pl_stream *last = NULL;
    if (!s->is_ready)
        return;
    for (struct pl_stream **at = &p->ready_head; *at != NULL; last = *at, at = &(*at)->next_ready) {
        if (*at != s)
            continue;
        *at = s->next_ready;
        if (p->ready_tail == s)
            p->ready_tail = last;
        break;
    }
    s->is_ready = false;
    p->n_ready--;
}

static void free_stream(struct pl_stream *s)
{
    PL_ASSERT(s->head == NULL && !s->is_ready);
    for (struct pl_stream **at = &s->ctx->streams; *at != NULL; at = &(*at)->next) {
        if (*at != s)
            continue;
        *at = s->next;
        break;
    }
    pl_mark_release(s->last);
    free(s->tips);
    free(s);
}

/* A mark of this context is done: streams that waited for it may run. Events order streams of other contexts too. */
static void wake_all(void)
{
    uint32_t i = 0;
    for (struct pl_context *ctx; (ctx = pl_obj_next(&i, PL_OBJ_CONTEXT)) != NULL;)
        for (struct pl_stream *s = ctx->streams; s != NULL; s = s->next)
            make_ready(s);
    pthread_cond_broadcast(&pl_process.done);
}

/* Run the first op of s on this thread; the lock is released meanwhile. s may be gone afterwards if it is dead. */
static void run_first(struct pl_stream *s)
{
    struct pl_context *ctx = s->ctx;
    struct pl_op *op = s->head;
    CUresult sticky = ctx->sticky;
    s->is_running = true;
    remove_ready(s);
    if (op->work.kind != PL_WORK_EMPTY) {
        pl_unlock();
        CUresult r = CUDA_SUCCESS;
        if (sticky == CUDA_SUCCESS)
            r = pl_work_run(ctx, &op->work);
        else
            skip_work(&op->work, sticky);
        pl_lock();
        if (r != CUDA_SUCCESS && ctx->sticky == CUDA_SUCCESS)
            ctx->sticky = r;
    }
    s->is_running = false;
    s->head = op->next;
    if (s->head == NULL)
        s->tail = NULL;
    op->mark->is_done = true;
    op->mark->t_ns = pl_os_now_ns();
    pl_process.n_completed++;
    destroy_op(op);
    if (s->head == NULL && s->is_dead)
        free_stream(s);
    wake_all();
}

static void *work_for_ever(void *arg)
{
    struct pl_process *p = &pl_process;
    (void)arg;
    pl_lock();
    for (;;) {
        while (p->ready_head == NULL) {
            p->n_idle++;
            pthread_cond_wait(&p->ready, &p->lock);
            p->n_idle--;
        }
        run_first(p->ready_head);
    }
    return NULL;
}

/* ---- streams ---------------------------------------------------------------------------------------------------- */

struct pl_stream *pl_stream_create(struct pl_context *ctx, unsigned flags, int priority)
{
    struct pl_stream *s = calloc(1, sizeof *s);
    if (s == NULL || !pl_obj_add(&s->obj, PL_OBJ_STREAM)) {
        free(s);
        return NULL;
    }
    s->ctx = ctx;
    s->flags = flags;
    s->priority = priority;
    s->id = ++pl_process.next_id;
    s->next = ctx->streams;
    ctx->streams = s;
    return s;
}

void pl_stream_destroy(struct pl_stream *s)
{
    pl_obj_remove(&s->obj);
    s->is_dead = true;
    if (s->head == NULL)
        free_stream(s);
}

bool pl_stream_is_blocking(const struct pl_stream *s)
{
    return (s->flags & CU_STREAM_NON_BLOCKING) == 0;
}

CUstream pl_stream_handle(const struct pl_stream *s)
{
    if (s->obj.kind == PL_OBJ_STREAM)
        return pl_obj_handle(&s->obj);
    return s->thread_id != 0 ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

static struct pl_stream *find_per_thread(struct pl_context *ctx)
{
    uint64_t me = pl_thread_get()->id;
    for (struct pl_stream *s = ctx->streams; s != NULL; s = s->next)
        if (s->thread_id == me && !s->is_dead)
            return s;
    struct pl_stream *s = pl_stream_create(ctx, 0, 0);
    if (s != NULL) {
        pl_obj_remove(&s->obj);
        s->thread_id = me;
    }
    return s;
}

CUresult pl_stream_find(CUstream handle, struct pl_stream **out)
{
    const struct pl_thread *t = pl_thread_get();
    if (handle == NULL)
        handle = t->is_per_thread_call ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    if (handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
        *out = pl_obj_find(handle, PL_OBJ_STREAM);
        return *out != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    }
    struct pl_context *ctx = pl_ctx_current();
    if (ctx == NULL || !ctx->is_active)
        return pl_ctx_check(ctx);
    *out = handle == CU_STREAM_LEGACY ? ctx->legacy : find_per_thread(ctx);
    return *out != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult pl_stream_submit(struct pl_stream *s, struct pl_work *w, struct pl_mark *extra,
                          struct pl_mark **mark)
{
    CUresult r = pl_ctx_check(s->ctx);
    if (r == CUDA_SUCCESS)
        r = pl_capture_check_legacy(s);
    if (r == CUDA_SUCCESS && s->capture != NULL) {
        r = pl_capture_add(s, w);
        pl_work_fini(w);
        return r;
    }
    struct pl_op *op = r == CUDA_SUCCESS ? create_op(s, extra) : NULL;
    if (op == NULL) {
        pl_work_fini(w);
        return r != CUDA_SUCCESS ? r : CUDA_ERROR_OUT_OF_MEMORY;
    }
    op->work = *w;
    *w = (struct pl_work){0};
    if (mark != NULL)
        *mark = pl_mark_retain(op->mark);
    pl_mark_release(s->last);
    s->last = pl_mark_retain(op->mark);
    if (s->tail != NULL)
        s->tail->next = op;
    else
        s->head = op;
    s->tail = op;
    pl_process.n_submitted++;
    pl_process.n_copies += op->work.kind == PL_WORK_COPY;
    pl_process.n_host_functions += op->work.kind == PL_WORK_HOST;
    make_ready(s);
    return CUDA_SUCCESS;
}

/* Host functions run on a thread of the driver's: never here. */
static bool can_help(const struct pl_stream *s)
{
    return can_run(s) && s->head->work.kind != PL_WORK_HOST;
}

void pl_mark_wait(struct pl_mark *m)
{
    while (!m->is_done)
        pthread_cond_wait(&pl_process.done, &pl_process.lock);
}

void pl_stream_drain(struct pl_stream *s)
{
    if (s->last == NULL)
        return;
    struct pl_mark *last = pl_mark_retain(s->last);
    while (!last->is_done) {
        if (can_help(s)) /* s lives on while its last op has not run */
            run_first(s);
        else
            pthread_cond_wait(&pl_process.done, &pl_process.lock);
    }
    pl_mark_release(last);
}

CUresult pl_stream_run(struct pl_stream *s, struct pl_work *w)
{
    struct pl_context *ctx = s->ctx;
    if (s->capture != NULL) {
        pl_work_fini(w);
        return pl_capture_invalidate(s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    CUresult r = pl_stream_submit(s, w, NULL, NULL);
    if (r != CUDA_SUCCESS)
        return r;
    pl_stream_drain(s);
    return ctx->sticky;
}

bool pl_stream_is_idle(const struct pl_stream *s) { return s->last == NULL || s->last->is_done; }

void pl_ctx_drain(struct pl_context *ctx)
{
    for (struct pl_stream *s = ctx->streams; s != NULL;) {
        if (pl_stream_is_idle(s)) {
            s = s->next;
            continue;
        }
        pl_stream_drain(s);
        s = ctx->streams; /* the list may have changed meanwhile */
    }
}
