#include "src/runtime/thread.h"

#include <string.h>

static _Thread_local struct pl_inside inside;

struct pl_inside *pl_inside_get(void) { return &inside; }

/* Runs when a thread ends: its block, with its counters, waits for the next thread. */
static void release(void *p)
{
    struct pl_thread *t = p;
    atomic_store_explicit(&t->is_taken, false, memory_order_release);
}

bool pl_threads_init(struct pl_threads *ts, const struct pl_alloc_hooks *hooks)
{
    ts->hooks = hooks;
    atomic_init(&ts->all, NULL);
    return pthread_key_create(&ts->key, release) == 0;
}

void pl_threads_fini(struct pl_threads *ts)
{
    pthread_key_delete(ts->key);
    struct pl_thread *next;
    for (struct pl_thread *t = atomic_load(&ts->all); t != NULL; t = next) {
        next = t->next;
        ts->hooks->free(t->start, ts->hooks->user);
    }
}

static struct pl_thread *take_ended(struct pl_threads *ts)
{
    for (struct pl_thread *t = atomic_load(&ts->all); t != NULL; t = t->next) {
        bool expected = false;
        if (atomic_compare_exchange_strong(&t->is_taken, &expected, true))
            return t;
    }
    return NULL;
}

static struct pl_thread *make_block(const struct pl_alloc_hooks *hooks)
{
    const size_t align = _Alignof(struct pl_thread);
    char *start = hooks->alloc(sizeof(struct pl_thread) + align, hooks->user);
    if (start == NULL)
        return NULL;
    struct pl_thread *t = (void *)(start + (align - (uintptr_t)start % align));
    memset(t, 0, sizeof *t);
    t->start = start;
    return t;
}

static struct pl_thread *make_first(struct pl_threads *ts)
{
    struct pl_thread *t = take_ended(ts);
    if (t == NULL) {
        t = make_block(ts->hooks);
        if (t == NULL)
            return NULL;
        atomic_init(&t->is_taken, true);
        t->next = atomic_load(&ts->all);
        while (!atomic_compare_exchange_weak(&ts->all, &t->next, t))
            ;
    }
    if (pthread_setspecific(ts->key, t) != 0) {
        release(t);
        return NULL;
    }
    return t;
}

struct pl_thread *pl_thread_get(struct pl_threads *ts)
{
    struct pl_thread *t = pthread_getspecific(ts->key);
    return t != NULL ? t : make_first(ts);
}

uint64_t pl_threads_sum(const struct pl_threads *ts, enum pl_stat what)
{
    uint64_t sum = 0;
    for (const struct pl_thread *t = atomic_load(&ts->all); t != NULL; t = t->next)
        sum += atomic_load_explicit(&t->counts[what], memory_order_relaxed);
    return sum;
}

bool pl_threads_use(const struct pl_threads *ts, const struct pl_variant *v)
{
    for (const struct pl_thread *t = atomic_load(&ts->all); t != NULL; t = t->next)
        if (atomic_load(&t->in_use) == v)
            return true;
    return false;
}
