#ifndef PL_BASE_ARENA_H
#define PL_BASE_ARENA_H
/*
 * Arena: zeroed, max-aligned memory freed all at once. `{0}` is a valid empty arena on malloc with no limit.
 *
 * The three lifetimes of the library (context, kernel, scratch) are each one arena; a function that allocates takes the
 * arena as a parameter. An arena that ran out, of memory or of its byte limit, stays exhausted: every later allocation
 * gives NULL too, so a pass may test once, at its end (pl_arena_is_exhausted).
 *
 * Threads: one at a time.
 */
#include <stdbool.h>
#include <stddef.h>

struct pl_alloc_hooks {
    void *(*alloc)(size_t n_bytes, void *user); /* max-aligned; NULL when there is none */
    void (*free)(void *p, void *user);
    void *user;
};

struct pl_arena_chunk;

struct pl_arena {
    struct pl_arena_chunk *chunks;      /* newest first */
    const struct pl_alloc_hooks *hooks; /* NULL: malloc and free */
    size_t limit_bytes;                 /* 0: no limit */
    size_t used_bytes;                  /* handed out, padding included */
    bool is_exhausted;
};

void pl_arena_init(struct pl_arena *a, const struct pl_alloc_hooks *hooks, size_t limit_bytes);
void pl_arena_fini(struct pl_arena *a); /* frees everything; the arena is empty and usable again */

/* Zeroed, max-aligned; NULL when exhausted. n_bytes 0 gives a unique non-NULL pointer. */
void *pl_arena_alloc(struct pl_arena *a, size_t n_bytes);
/* The same, not zeroed: for what is written whole. */
void *pl_arena_raw(struct pl_arena *a, size_t n_bytes);
void *pl_arena_array(struct pl_arena *a, size_t n_elems, size_t elem_bytes); /* overflow-checked */
char *pl_arena_strdup(struct pl_arena *a, const char *s);
char *pl_arena_strndup(struct pl_arena *a, const char *s, size_t n_bytes);
char *pl_arena_printf(struct pl_arena *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static inline bool pl_arena_is_exhausted(const struct pl_arena *a) { return a->is_exhausted; }

#define PL_NEW(arena, T) ((T *)pl_arena_alloc((arena), sizeof(T)))
#endif
