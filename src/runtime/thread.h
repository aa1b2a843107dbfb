#ifndef PL_RUNTIME_THREAD_H
#define PL_RUNTIME_THREAD_H
/*
 * What one thread keeps in one context, so that a launch writes no cache line that another core reads: counters, encoded tensor
 * maps, the last launches, and the mark of the variant it is using. Made on a thread's first call, handed on to a later thread
 * when its owner ends, freed with the context.
 */
#include <plaunch/launch.h>

#include "src/runtime/memo.h"
#include "src/runtime/tensormap.h"

#include <pthread.h>
#include <stdatomic.h>

enum pl_stat {
#define PL_STAT_ENUM_(name, text) PL_STAT_##name,
    PL_STAT_LIST(PL_STAT_ENUM_)
#undef PL_STAT_ENUM_
        PL_STAT_COUNT
};

enum { PL_RECENT_COUNT = 32, PL_CACHE_LINE = 64 };

struct pl_variant;

enum { PL_RECENT_WORDS = sizeof(pl_launch_record) / sizeof(uint64_t) };
_Static_assert(sizeof(pl_launch_record) % sizeof(uint64_t) == 0, "a record is whole words");

/* A launch as its thread leaves it and any thread may read it meanwhile: whole when `serial` is even and stands still. */
struct pl_recent {
    _Atomic uint32_t serial;
    _Atomic uint64_t words[PL_RECENT_WORDS];
};

struct pl_thread {
    char pad_front[PL_CACHE_LINE]; /* no line of it is shared with a neighbour */
    void *start;                   /* what the allocator gave: hooks align less than a memo wants */
    struct pl_thread *next;        /* all threads of the context; only ever grows */
    atomic_bool is_taken;
    _Atomic(const struct pl_variant *) in_use; /* the evictor leaves it alone; NULL between calls */
    _Atomic uint64_t counts[PL_STAT_COUNT];    /* written by the owner only */
    _Atomic uint32_t n_recent; /* launches so far; the last PL_RECENT_COUNT are kept */
    struct pl_recent recent[PL_RECENT_COUNT];
    struct pl_tmap_cache maps;
    struct pl_memo memos[PL_MEMO_LINES];
    char pad_back[PL_CACHE_LINE];
};

struct pl_threads {
    pthread_key_t key;
    _Atomic(struct pl_thread *) all;
    const struct pl_alloc_hooks *hooks;
};

PL_MUST_CHECK bool pl_threads_init(struct pl_threads *ts, const struct pl_alloc_hooks *hooks);
void pl_threads_fini(struct pl_threads *ts);

/* This thread's block; NULL when there is no memory for a first one. No lock. */
struct pl_thread *pl_thread_get(struct pl_threads *ts);

static inline void pl_thread_count(struct pl_thread *t, enum pl_stat what, uint64_t n)
{
    uint64_t old = atomic_load_explicit(&t->counts[what], memory_order_relaxed);
    atomic_store_explicit(&t->counts[what], old + n, memory_order_relaxed);
}

/* The owner's next launch. */
void pl_thread_remember(struct pl_thread *t, const pl_launch_record *r);

/* Launch number i of the thread; false when it has been overwritten, or is being overwritten. Any thread. */
bool pl_thread_recall(const struct pl_thread *t, uint32_t i, pl_launch_record *r);

/* Sum over all threads, ended ones too. */
uint64_t pl_threads_sum(const struct pl_threads *ts, enum pl_stat what);

/* True when some thread is between finding `v` and handing it to the driver. */
bool pl_threads_use(const struct pl_threads *ts, const struct pl_variant *v);

/*
 * What this thread of the process is inside of, whatever the context: a kernel's functions run while it builds (which must
 * not launch), or a host function that the driver runs (where CUDA calls are not allowed). NULL, false outside.
 */
struct pl_inside {
    const char *building; /* kernel name */
    bool is_callback;
};
struct pl_inside *pl_inside_get(void);

/* From now on this thread builds `kernel` (NULL: nothing); gives what it built before, to be put back. */
static inline const char *pl_inside_build(const char *kernel)
{
    struct pl_inside *in = pl_inside_get();
    const char *outer = in->building;
    in->building = kernel;
    return outer;
}

#endif
