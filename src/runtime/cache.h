#ifndef PL_RUNTIME_CACHE_H
#define PL_RUNTIME_CACHE_H
/*
 * The cache in memory: request key -> variant. A hit takes no lock and writes nothing shared. A miss is built once: the first
 * asker builds, the others wait for it, and no lock is held while it builds.
 *
 * An entry, once in a table, stays until the context ends; its variant may come, go (eviction) and come again:
 *
 *     EMPTY -> BUILDING -> READY -> EMPTY (evicted)
 *                 \-> EMPTY (failed in a way that may pass)      \-> REFUSED (assembler said no: kept, with its text)
 *
 * Tables are replaced by larger copies and the old ones kept, so that a reader never meets freed memory.
 */
#include "base/arena.h"
#include "src/runtime/key.h"

#include <pthread.h>
#include <stdatomic.h>

struct pl_variant;

enum pl_entry_state { PL_ENTRY_EMPTY, PL_ENTRY_BUILDING, PL_ENTRY_READY, PL_ENTRY_REFUSED };

struct pl_entry {
    uint64_t hash;
    _Atomic(struct pl_variant *) variant; /* not NULL exactly when READY */
    enum pl_entry_state state;            /* under the shard's lock */
    pl_error *refusal;                    /* REFUSED */
    uint32_t n_words;
    uint64_t words[];
};

struct pl_cache_table;

struct pl_cache_shard {
    _Atomic(struct pl_cache_table *) table; /* read by all */
    char pad[64];                           /* what follows is written by misses */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* some entry left BUILDING */
    uint32_t n_entries;
    char pad_back[64];
};

enum { PL_CACHE_SHARDS = 16 };

struct pl_cache {
    const struct pl_alloc_hooks *hooks;
    struct pl_cache_shard shards[PL_CACHE_SHARDS];
};

PL_MUST_CHECK bool pl_cache_init(struct pl_cache *c, const struct pl_alloc_hooks *hooks);
/* Variants are the caller's: pl_cache_each_alone first. is_child: after a fork, where locks may be held for ever. */
void pl_cache_fini(struct pl_cache *c, bool is_child);

/* The entry of a key, or NULL. No lock. */
struct pl_entry *pl_cache_find(struct pl_cache *c, const struct pl_key *key, uint64_t hash);

enum pl_claim {
    PL_CLAIM_READY,   /* someone built it meanwhile */
    PL_CLAIM_BUILD,   /* the caller builds, and must settle the entry */
    PL_CLAIM_REFUSED, /* *refusal says why, for ever */
    PL_CLAIM_BUSY,    /* being built by another thread, and can_wait is false */
    PL_CLAIM_NOMEM
};

/*
 * Find or make the entry and become its builder unless it is READY, REFUSED or being built; in the last case wait.
 * wait_ns (never NULL) grows by the time spent waiting.
 */
enum pl_claim pl_cache_claim(struct pl_cache *c, const struct pl_key *key, uint64_t hash,
                             bool can_wait, struct pl_entry **entry, uint64_t *wait_ns);

/* The builder's last word: a variant, or NULL with (kept for ever) or without (may be tried again) a refusal. */
void pl_cache_settle(struct pl_cache *c, struct pl_entry *e, struct pl_variant *v,
                     const pl_error *refusal);

/* Take a READY entry's variant out (eviction); NULL when it has none. The caller makes sure that nobody uses it any more. */
struct pl_variant *pl_cache_take(struct pl_cache *c, struct pl_entry *e);

/* Calls fn for every entry; fn must not call back into the cache. */
void pl_cache_each(struct pl_cache *c, void (*fn)(struct pl_entry *e, void *user), void *user);

/* The same without a lock, for the end: no other thread is in the cache, or it was left behind by a fork. */
void pl_cache_each_alone(struct pl_cache *c, void (*fn)(struct pl_entry *e, void *user),
                         void *user);

#endif
