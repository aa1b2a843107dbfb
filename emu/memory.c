#include "emu/memory.h"

#include "base/debug.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Device addresses: above what a 32-bit mistake reaches, below the host's own mappings; an equal part for each device. */
#define FIRST_ADDRESS 0x200000000000u
#define DEVICE_BYTES  0x030000000000u

enum {
    MAP_AT_BYTES =
        1 << 16,        /* from here on storage is mapped, so that only touched pages cost memory */
    N_FREED_KEPT = 256, /* freed allocations that reports still know */
};

struct pl_emu_memory {
    pthread_rwlock_t lock;
    struct pl_emu_allocation **live; /* by address */
    size_t n_live, cap_live;
    struct pl_emu_allocation *freed[N_FREED_KEPT]; /* ring */
    _Atomic uint64_t n_freed;
    uint64_t next_address, last_address, next_serial;
    uint64_t total_bytes, used_bytes;
};

struct pl_emu_memory *pl_emu_memory_create(uint64_t total_bytes, uint32_t index)
{
    struct pl_emu_memory *m = calloc(1, sizeof *m);
    if (m == NULL)
        return NULL;
    if (pthread_rwlock_init(&m->lock, NULL) != 0) {
        free(m);
        return NULL;
    }
    m->total_bytes = total_bytes;
    PL_ASSERT(index < PL_EMU_MAX_DEVICES);
    m->next_address = FIRST_ADDRESS + index * DEVICE_BYTES;
    m->last_address = m->next_address + DEVICE_BYTES;
    m->next_serial = 1;
    return m;
}

static uint8_t *map_storage(uint64_t n_bytes)
{
    if (n_bytes < MAP_AT_BYTES) {
        void *p = aligned_alloc(256, (size_t)(n_bytes + 255) / 256 * 256);
        if (p != NULL)
            memset(p, 0, (size_t)n_bytes);
        return p;
    }
    void *p = mmap(NULL, (size_t)n_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static void unmap_storage(struct pl_emu_allocation *a)
{
    if (a->is_foreign || a->is_mapped || a->host == NULL)
        return;
    if (a->n_bytes < MAP_AT_BYTES)
        free(a->host);
    else
        munmap(a->host, (size_t)a->n_bytes);
    a->host = NULL;
}

void pl_emu_memory_destroy(struct pl_emu_memory *m)
{
    if (m == NULL)
        return;
    for (size_t i = 0; i < m->n_live; i++) {
        unmap_storage(m->live[i]);
        free(m->live[i]);
    }
    for (size_t i = 0; i < N_FREED_KEPT; i++)
        free(m->freed[i]);
    free(m->live);
    pthread_rwlock_destroy(&m->lock);
    free(m);
}

/* Index of the first live allocation above `address`. */
static size_t upper(const struct pl_emu_memory *m, uint64_t address)
{
    size_t lo = 0, hi = m->n_live;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (m->live[mid]->address <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool insert(struct pl_emu_memory *m, struct pl_emu_allocation *a)
{
    if (m->n_live == m->cap_live) {
        size_t cap = m->cap_live == 0 ? 64 : m->cap_live * 2;
        struct pl_emu_allocation **p = realloc(m->live, cap * sizeof *p);
        if (p == NULL)
            return false;
        m->live = p;
        m->cap_live = cap;
    }
    size_t at = upper(m, a->address);
    memmove(&m->live[at + 1], &m->live[at], (m->n_live - at) * sizeof *m->live);
    m->live[at] = a;
    m->n_live++;
    return true;
}

static uint64_t round_up(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }

static struct pl_emu_allocation *alloc_locked(struct pl_emu_memory *m, uint64_t n_bytes,
                                              uint64_t align_bytes, const char *name)
{
    if (n_bytes == 0 || n_bytes > m->total_bytes - m->used_bytes)
        return NULL;
    uint64_t address = round_up(m->next_address, align_bytes < 512 ? 512 : align_bytes);
    if (address + n_bytes + PL_EMU_RED_ZONE_BYTES > m->last_address)
        return NULL;
    struct pl_emu_allocation *a = calloc(1, sizeof *a);
    if (a == NULL)
        return NULL;
    *a = (struct pl_emu_allocation){
        .address = address, .n_bytes = n_bytes, .name = name, .serial = m->next_serial};
    a->host = map_storage(n_bytes);
    if (a->host == NULL || !insert(m, a)) {
        unmap_storage(a);
        free(a);
        return NULL;
    }
    m->next_serial++;
    m->next_address = address + n_bytes + PL_EMU_RED_ZONE_BYTES;
    m->used_bytes += n_bytes;
    return a;
}

const struct pl_emu_allocation *pl_emu_memory_alloc(struct pl_emu_memory *m, uint64_t n_bytes,
                                                    uint64_t align_bytes, const char *name)
{
    pthread_rwlock_wrlock(&m->lock);
    struct pl_emu_allocation *a = alloc_locked(m, n_bytes, align_bytes, name);
    pthread_rwlock_unlock(&m->lock);
    return a;
}

/* One more allocation where there is none; its storage is the caller's. */
static const struct pl_emu_allocation *add_storage(struct pl_emu_memory *m,
                                                   const struct pl_emu_allocation *what)
{
    struct pl_emu_allocation *a = malloc(sizeof *a);
    if (a == NULL)
        return NULL;
    *a = *what;
    pthread_rwlock_wrlock(&m->lock);
    size_t at = upper(m, a->address);
    bool is_free = a->n_bytes != 0 &&
                   (at == m->n_live || a->address + a->n_bytes <= m->live[at]->address) &&
                   (at == 0 || m->live[at - 1]->address + m->live[at - 1]->n_bytes <= a->address);
    bool is_ok = is_free && insert(m, a);
    if (is_ok)
        a->serial = m->next_serial++;
    pthread_rwlock_unlock(&m->lock);
    if (is_ok)
        return a;
    free(a);
    return NULL;
}

const struct pl_emu_allocation *pl_emu_memory_register(struct pl_emu_memory *m, void *host,
                                                       uint64_t n_bytes)
{
    return add_storage(
        m, &(struct pl_emu_allocation){
               .address = (uintptr_t)host, .n_bytes = n_bytes, .host = host, .is_foreign = true});
}

const struct pl_emu_allocation *pl_emu_memory_map(struct pl_emu_memory *m, uint64_t address,
                                                  void *host, uint64_t n_bytes)
{
    return add_storage(
        m, &(struct pl_emu_allocation){
               .address = address, .n_bytes = n_bytes, .host = host, .is_mapped = true});
}

uint64_t pl_emu_memory_reserve(struct pl_emu_memory *m, uint64_t n_bytes, uint64_t align_bytes)
{
    pthread_rwlock_wrlock(&m->lock);
    uint64_t address = round_up(m->next_address, align_bytes);
    bool is_ok =
        address < m->last_address && n_bytes < m->last_address - address - PL_EMU_RED_ZONE_BYTES;
    if (is_ok)
        m->next_address = address + n_bytes + PL_EMU_RED_ZONE_BYTES;
    pthread_rwlock_unlock(&m->lock);
    return is_ok ? address : 0;
}

bool pl_emu_memory_take(struct pl_emu_memory *m, uint64_t n_bytes)
{
    pthread_rwlock_wrlock(&m->lock);
    bool is_ok = n_bytes <= m->total_bytes - m->used_bytes;
    if (is_ok)
        m->used_bytes += n_bytes;
    pthread_rwlock_unlock(&m->lock);
    return is_ok;
}

void pl_emu_memory_give(struct pl_emu_memory *m, uint64_t n_bytes)
{
    pthread_rwlock_wrlock(&m->lock);
    m->used_bytes -= n_bytes;
    pthread_rwlock_unlock(&m->lock);
}

bool pl_emu_memory_free(struct pl_emu_memory *m, uint64_t address)
{
    pthread_rwlock_wrlock(&m->lock);
    size_t at = upper(m, address);
    bool is_found = at != 0 && m->live[at - 1]->address == address;
    if (is_found) {
        struct pl_emu_allocation *a = m->live[at - 1];
        memmove(&m->live[at - 1], &m->live[at], (m->n_live - at) * sizeof *m->live);
        m->n_live--;
        if (!a->is_foreign && !a->is_mapped)
            m->used_bytes -= a->n_bytes;
        unmap_storage(a);
        a->is_freed = true;
        a->name = NULL;
        struct pl_emu_allocation **slot = &m->freed[m->n_freed++ % N_FREED_KEPT];
        free(*slot);
        *slot = a;
    }
    pthread_rwlock_unlock(&m->lock);
    return is_found;
}

uint64_t pl_emu_memory_generation(const struct pl_emu_memory *m)
{
    return atomic_load_explicit(&m->n_freed, memory_order_acquire);
}

static struct pl_emu_allocation *find_locked(const struct pl_emu_memory *m, uint64_t address)
{
    size_t at = upper(m, address);
    if (at == 0 || address - m->live[at - 1]->address >= m->live[at - 1]->n_bytes)
        return NULL;
    return m->live[at - 1];
}

/* The lock is not part of the value: readers of a const set take it too. */
static pthread_rwlock_t *lock_of(const struct pl_emu_memory *m)
{
    return (pthread_rwlock_t *)(uintptr_t)&m->lock;
}

void pl_emu_memory_set_const(struct pl_emu_memory *m, uint64_t address)
{
    pthread_rwlock_wrlock(&m->lock);
    struct pl_emu_allocation *a = find_locked(m, address);
    if (a != NULL)
        a->is_const = true;
    pthread_rwlock_unlock(&m->lock);
}

const struct pl_emu_allocation *pl_emu_memory_find(const struct pl_emu_memory *m, uint64_t address)
{
    pthread_rwlock_rdlock(lock_of(m));
    const struct pl_emu_allocation *a = find_locked(m, address);
    pthread_rwlock_unlock(lock_of(m));
    return a;
}

void *pl_emu_memory_host(const struct pl_emu_memory *m, uint64_t address, uint64_t n_bytes)
{
    const struct pl_emu_allocation *a = pl_emu_memory_find(m, address);
    if (a == NULL || n_bytes > a->n_bytes - (address - a->address))
        return NULL;
    return a->host + (address - a->address);
}

/* Bytes between an address outside an allocation and its nearest edge. */
static uint64_t distance(const struct pl_emu_allocation *a, uint64_t address)
{
    if (address < a->address)
        return a->address - address;
    uint64_t end = a->address + a->n_bytes;
    return address >= end ? address - end : 0;
}

static const struct pl_emu_allocation *nearest(const struct pl_emu_memory *m, uint64_t address)
{
    const struct pl_emu_allocation *best = NULL;
    size_t at = upper(m, address);
    if (at != 0)
        best = m->live[at - 1];
    if (at < m->n_live &&
        (best == NULL || distance(m->live[at], address) < distance(best, address)))
        best = m->live[at];
    for (size_t i = 0; i < N_FREED_KEPT; i++) {
        const struct pl_emu_allocation *f = m->freed[i];
        if (f != NULL && (best == NULL || distance(f, address) < distance(best, address)))
            best = f;
    }
    return best;
}

static void describe_locked(const struct pl_emu_memory *m, uint64_t address, char *text,
                            size_t n_bytes)
{
    const struct pl_emu_allocation *a = nearest(m, address);
    if (a == NULL || distance(a, address) > (uint64_t)1 << 32) {
        snprintf(text, n_bytes, "no allocation is near");
        return;
    }
    char name[96], what[160];
    if (a->name != NULL)
        snprintf(name, sizeof name, "variable %s", a->name);
    else
        snprintf(name, sizeof name, "allocation %" PRIu64, a->serial);
    snprintf(what, sizeof what, "%s%s (%" PRIu64 " bytes at 0x%" PRIx64 ")",
             a->is_freed ? "freed " : "", name, a->n_bytes, a->address);
    uint64_t by = distance(a, address);
    if (address < a->address)
        snprintf(text, n_bytes, "%" PRIu64 " bytes before %s", by, what);
    else if (address >= a->address + a->n_bytes)
        snprintf(text, n_bytes, "%" PRIu64 " bytes past the end of %s", by, what);
    else
        snprintf(text, n_bytes, "at byte %" PRIu64 " of %s", address - a->address, what);
}

void pl_emu_memory_describe(const struct pl_emu_memory *m, uint64_t address, char *text,
                            size_t text_n_bytes)
{
    pthread_rwlock_rdlock(lock_of(m));
    describe_locked(m, address, text, text_n_bytes);
    pthread_rwlock_unlock(lock_of(m));
}

uint64_t pl_emu_memory_total_bytes(const struct pl_emu_memory *m) { return m->total_bytes; }

uint64_t pl_emu_memory_free_bytes(const struct pl_emu_memory *m)
{
    pthread_rwlock_rdlock(lock_of(m));
    uint64_t n = m->total_bytes - m->used_bytes;
    pthread_rwlock_unlock(lock_of(m));
    return n;
}

uint64_t pl_emu_memory_n_live(const struct pl_emu_memory *m)
{
    pthread_rwlock_rdlock(lock_of(m));
    uint64_t n = m->n_live;
    pthread_rwlock_unlock(lock_of(m));
    return n;
}
