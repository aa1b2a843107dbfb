#include "src/runtime/cache.h"

#include "base/debug.h"
#include "base/os.h"

struct pl_cache_table {
    struct pl_cache_table *older; /* kept for readers that still look there */
    uint32_t mask;
    _Atomic(struct pl_entry *) slots[];
};

enum { FIRST_SLOTS = 64 };

static void *alloc(struct pl_cache *c, size_t n_bytes)
{
    void *p = c->hooks->alloc(n_bytes, c->hooks->user);
    if (p != NULL)
        memset(p, 0, n_bytes);
    return p;
}

static struct pl_cache_table *make_table(struct pl_cache *c, uint32_t n_slots)
{
    struct pl_cache_table *t = alloc(c, sizeof *t + n_slots * sizeof t->slots[0]);
    if (t != NULL)
        t->mask = n_slots - 1;
    return t;
}

bool pl_cache_init(struct pl_cache *c, const struct pl_alloc_hooks *hooks)
{
    memset(c, 0, sizeof *c);
    c->hooks = hooks;
    for (int i = 0; i < PL_CACHE_SHARDS; i++) {
        struct pl_cache_shard *s = &c->shards[i];
        pthread_mutex_init(&s->lock, NULL);
        pthread_cond_init(&s->changed, NULL);
    }
    for (int i = 0; i < PL_CACHE_SHARDS; i++) {
        struct pl_cache_table *t = make_table(c, FIRST_SLOTS);
        if (t == NULL) {
            pl_cache_fini(c, false);
            return false;
        }
        atomic_init(&c->shards[i].table, t);
    }
    return true;
}

static void free_entry(struct pl_entry *e, void *user)
{
    struct pl_cache *c = user;
    if (e->refusal != NULL)
        c->hooks->free(e->refusal, c->hooks->user);
    c->hooks->free(e, c->hooks->user);
}

void pl_cache_fini(struct pl_cache *c, bool is_child)
{
    pl_cache_each_alone(c, free_entry, c);
    for (int i = 0; i < PL_CACHE_SHARDS; i++) {
        struct pl_cache_table *older;
        for (struct pl_cache_table *t = atomic_load(&c->shards[i].table); t != NULL; t = older) {
            older = t->older;
            c->hooks->free(t, c->hooks->user);
        }
        if (is_child) /* held, or waited for, by threads that are not here */
            continue;
        pthread_cond_destroy(&c->shards[i].changed);
        pthread_mutex_destroy(&c->shards[i].lock);
    }
}

static struct pl_cache_shard *shard_of(struct pl_cache *c, uint64_t hash)
{
    return &c->shards[hash >> 60];
}
_Static_assert(PL_CACHE_SHARDS == 16, "shard_of takes four bits");

static bool is_entry_of(const struct pl_entry *e, const struct pl_key *key, uint64_t hash)
{
    return e->hash == hash && e->n_words == key->n_words &&
           memcmp(e->words, key->words, key->n_words * sizeof *key->words) == 0;
}

/* Linear probing; tables are at most three quarters full, so a free slot ends every search. */
static struct pl_entry *search(const struct pl_cache_table *t, const struct pl_key *key,
                               uint64_t hash)
{
    for (uint32_t i = (uint32_t)hash & t->mask;; i = (i + 1) & t->mask) {
        struct pl_entry *e = atomic_load_explicit(&t->slots[i], memory_order_acquire);
        if (e == NULL || is_entry_of(e, key, hash))
            return e;
    }
}

struct pl_entry *pl_cache_find(struct pl_cache *c, const struct pl_key *key, uint64_t hash)
{
    return search(atomic_load_explicit(&shard_of(c, hash)->table, memory_order_acquire), key, hash);
}

/* ---- under the shard's lock ---- */

static void put(struct pl_cache_table *t, struct pl_entry *e)
{
    uint32_t i = (uint32_t)e->hash & t->mask;
    while (atomic_load_explicit(&t->slots[i], memory_order_relaxed) != NULL)
        i = (i + 1) & t->mask;
    atomic_store_explicit(&t->slots[i], e, memory_order_release);
}

static struct pl_cache_table *grow(struct pl_cache *c, struct pl_cache_shard *s)
{
    struct pl_cache_table *old = atomic_load(&s->table);
    if (s->n_entries < (old->mask + 1) / 4 * 3)
        return old;
    struct pl_cache_table *t = make_table(c, (old->mask + 1) * 2);
    if (t == NULL)
        return NULL;
    for (uint32_t i = 0; i <= old->mask; i++) {
        struct pl_entry *e = atomic_load_explicit(&old->slots[i], memory_order_relaxed);
        if (e != NULL)
            put(t, e);
    }
    t->older = old;
    atomic_store_explicit(&s->table, t, memory_order_release);
    return t;
}

static struct pl_entry *add_entry(struct pl_cache *c, struct pl_cache_shard *s,
                                  const struct pl_key *key, uint64_t hash)
{
    struct pl_cache_table *t = grow(c, s);
    struct pl_entry *e = t != NULL ? alloc(c, sizeof *e + key->n_words * sizeof *key->words) : NULL;
    if (e == NULL)
        return NULL;
    e->hash = hash;
    e->n_words = key->n_words;
    memcpy(e->words, key->words, key->n_words * sizeof *key->words);
    put(t, e);
    s->n_entries++;
    return e;
}

enum pl_claim pl_cache_claim(struct pl_cache *c, const struct pl_key *key, uint64_t hash,
                             bool can_wait, struct pl_entry **entry, uint64_t *wait_ns)
{
    struct pl_cache_shard *s = shard_of(c, hash);
    enum pl_claim claim = PL_CLAIM_BUILD;
    uint64_t start_ns = 0;
    pthread_mutex_lock(&s->lock);
    struct pl_entry *e = search(atomic_load(&s->table), key, hash);
    if (e == NULL)
        e = add_entry(c, s, key, hash);
    while (can_wait && e != NULL && e->state == PL_ENTRY_BUILDING) {
        if (start_ns == 0)
            start_ns = pl_os_now_ns();
        pthread_cond_wait(&s->changed, &s->lock);
    }
    if (e == NULL)
        claim = PL_CLAIM_NOMEM;
    else if (e->state == PL_ENTRY_READY)
        claim = PL_CLAIM_READY;
    else if (e->state == PL_ENTRY_REFUSED)
        claim = PL_CLAIM_REFUSED;
    else if (e->state == PL_ENTRY_BUILDING)
        claim = PL_CLAIM_BUSY;
    else
        e->state = PL_ENTRY_BUILDING;
    pthread_mutex_unlock(&s->lock);
    if (start_ns != 0)
        *wait_ns += pl_os_now_ns() - start_ns;
    *entry = e;
    return claim;
}

void pl_cache_settle(struct pl_cache *c, struct pl_entry *e, struct pl_variant *v,
                     const pl_error *refusal)
{
    struct pl_cache_shard *s = shard_of(c, e->hash);
    pl_error *kept = refusal != NULL ? alloc(c, sizeof *kept) : NULL;
    if (kept != NULL)
        *kept = *refusal;
    pthread_mutex_lock(&s->lock);
    PL_ASSERT(e->state == PL_ENTRY_BUILDING);
    atomic_store_explicit(&e->variant, v, memory_order_release);
    e->refusal = kept;
    e->state = v != NULL ? PL_ENTRY_READY : kept != NULL ? PL_ENTRY_REFUSED : PL_ENTRY_EMPTY;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

struct pl_variant *pl_cache_take(struct pl_cache *c, struct pl_entry *e)
{
    struct pl_cache_shard *s = shard_of(c, e->hash);
    pthread_mutex_lock(&s->lock);
    struct pl_variant *v = atomic_exchange(&e->variant, NULL);
    if (v != NULL)
        e->state = PL_ENTRY_EMPTY;
    pthread_mutex_unlock(&s->lock);
    return v;
}

static void each_of(struct pl_cache_shard *s, void (*fn)(struct pl_entry *e, void *user),
                    void *user)
{
    struct pl_cache_table *t = atomic_load(&s->table);
    for (uint32_t k = 0; t != NULL && k <= t->mask; k++) {
        struct pl_entry *e = atomic_load_explicit(&t->slots[k], memory_order_relaxed);
        if (e != NULL)
            fn(e, user);
    }
}

void pl_cache_each(struct pl_cache *c, void (*fn)(struct pl_entry *e, void *user), void *user)
{
    for (int i = 0; i < PL_CACHE_SHARDS; i++) {
        struct pl_cache_shard *s = &c->shards[i];
        pthread_mutex_lock(&s->lock);
        each_of(s, fn, user);
        pthread_mutex_unlock(&s->lock);
    }
}

void pl_cache_each_alone(struct pl_cache *c, void (*fn)(struct pl_entry *e, void *user), void *user)
{
    for (int i = 0; i < PL_CACHE_SHARDS; i++)
        each_of(&c->shards[i], fn, user);
}
