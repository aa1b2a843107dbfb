#include "base/arena.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pl_arena_chunk {
    struct pl_arena_chunk *next;
    size_t n_bytes; /* capacity of data */
    size_t used_bytes;
    max_align_t data[];
};

#ifdef PL_ARENA_PER_OBJECT
enum {
    FIRST_CHUNK_BYTES = 0,
    LAST_CHUNK_BYTES = 0
}; /* one malloc an object: overruns are seen by the sanitizers */
#else
enum { FIRST_CHUNK_BYTES = 64 * 1024, LAST_CHUNK_BYTES = 4 * 1024 * 1024 };
#endif

void pl_arena_init(struct pl_arena *a, const struct pl_alloc_hooks *hooks, size_t limit_bytes)
{
    *a = (struct pl_arena){.hooks = hooks, .limit_bytes = limit_bytes};
}

void pl_arena_fini(struct pl_arena *a)
{
    for (struct pl_arena_chunk *c = a->chunks; c != NULL;) {
        struct pl_arena_chunk *next = c->next;
        if (a->hooks != NULL)
            a->hooks->free(c, a->hooks->user);
        else
            free(c);
        c = next;
    }
    pl_arena_init(a, a->hooks, a->limit_bytes);
}

/*
 * Each chunk is four times the one before. Few are made, and the C library keeps what they were for the next arena: one of 128 KiB
 * or more that is freed raises the size up to which freed memory stays mapped (mallopt(3), M_MMAP_THRESHOLD). Chunks of one
 * small size went back to the system when an arena ended, and the next one took a page fault for each of their pages.
 */
static size_t chunk_bytes(const struct pl_arena *a)
{
    size_t n_bytes = FIRST_CHUNK_BYTES;
    for (const struct pl_arena_chunk *c = a->chunks; c != NULL && n_bytes < LAST_CHUNK_BYTES;
         c = c->next)
        n_bytes *= 4;
    return n_bytes;
}

static struct pl_arena_chunk *add_chunk(struct pl_arena *a, size_t need_bytes)
{
    const size_t head_bytes = sizeof(struct pl_arena_chunk) + 16; /* and malloc's own */
    size_t n_bytes = chunk_bytes(a);
    n_bytes = need_bytes + head_bytes > n_bytes ? need_bytes : n_bytes - head_bytes;
    size_t total = sizeof(struct pl_arena_chunk) + n_bytes;
    struct pl_arena_chunk *c =
        a->hooks != NULL ? a->hooks->alloc(total, a->hooks->user) : malloc(total);
    if (c == NULL)
        return NULL;
    *c = (struct pl_arena_chunk){.next = a->chunks, .n_bytes = n_bytes};
    a->chunks = c;
    return c;
}

void *pl_arena_raw(struct pl_arena *a, size_t n_bytes)
{
    const size_t align = _Alignof(max_align_t);
    if (a->is_exhausted || n_bytes > SIZE_MAX / 2) {
        a->is_exhausted = true;
        return NULL;
    }
    size_t need = n_bytes == 0 ? align : (n_bytes + align - 1) / align * align;
    if (a->limit_bytes != 0 &&
        need > a->limit_bytes - (a->used_bytes < a->limit_bytes ? a->used_bytes : a->limit_bytes)) {
        a->is_exhausted = true;
        return NULL;
    }
    struct pl_arena_chunk *c = a->chunks;
    if (c == NULL || c->n_bytes - c->used_bytes < need)
        c = add_chunk(a, need);
    if (c == NULL) {
        a->is_exhausted = true;
        return NULL;
    }
    char *p = (char *)c->data + c->used_bytes;
    c->used_bytes += need;
    a->used_bytes += need;
    return p;
}

void *pl_arena_alloc(struct pl_arena *a, size_t n_bytes)
{
    void *p = pl_arena_raw(a, n_bytes);
    if (p != NULL)
        memset(p, 0, n_bytes);
    return p;
}

void *pl_arena_array(struct pl_arena *a, size_t n_elems, size_t elem_bytes)
{
    if (elem_bytes != 0 && n_elems > SIZE_MAX / elem_bytes) {
        a->is_exhausted = true;
        return NULL;
    }
    return pl_arena_alloc(a, n_elems * elem_bytes);
}

char *pl_arena_strndup(struct pl_arena *a, const char *s, size_t n_bytes)
{
    char *p = pl_arena_alloc(a, n_bytes + 1);
    if (p != NULL)
        memcpy(p, s, n_bytes);
    return p;
}

char *pl_arena_strdup(struct pl_arena *a, const char *s)
{
    return pl_arena_strndup(a, s, strlen(s));
}

char *pl_arena_printf(struct pl_arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = n < 0 ? NULL : pl_arena_alloc(a, (size_t)n + 1);
    if (p != NULL)
        vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}
