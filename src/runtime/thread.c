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

/* Releases and acquires word by word: a reader that has seen one new word sees the odd number too. */
void pl_thread_remember(struct pl_thread *t, const pl_launch_record *r)
{
    uint32_t n = atomic_load_explicit(&t->n_recent, memory_order_relaxed);
    struct pl_recent *to = &t->recent[n % PL_RECENT_COUNT];
    uint32_t serial = atomic_load_explicit(&to->serial, memory_order_relaxed);
    uint64_t words[PL_RECENT_WORDS];
    memcpy(words, r, sizeof words);
    atomic_store_explicit(&to->serial, serial + 1, memory_order_relaxed);
    for (int i = 0; i < PL_RECENT_WORDS; i++)
        atomic_store_explicit(&to->words[i], words[i], memory_order_release);
    atomic_store_explicit(&to->serial, serial + 2, memory_order_release);
    atomic_store_explicit(&t->n_recent, n + 1, memory_order_release);
}

bool pl_thread_recall(const struct pl_thread *t, uint32_t i, pl_launch_record *r)
{
    const struct pl_recent *from = &t->recent[i % PL_RECENT_COUNT];
    uint64_t words[PL_RECENT_WORDS];
    uint32_t before = atomic_load_explicit(&from->serial, memory_order_acquire);
    for (int k = 0; k < PL_RECENT_WORDS; k++)
        words[k] = atomic_load_explicit(&from->words[k], memory_order_acquire);
    uint32_t after = atomic_load_explicit(&from->serial, memory_order_relaxed);
    memcpy(r, words, sizeof words);
    return before == after && before == 2 * (i / PL_RECENT_COUNT + 1);
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
