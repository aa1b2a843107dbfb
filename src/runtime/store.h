#ifndef PL_RUNTIME_STORE_H
#define PL_RUNTIME_STORE_H
/*
 * The disk cache: assembled code by content. One file an entry, whole or invisible (temporary file, then rename), checked from
 * end to end when read. Nothing here ever fails a launch: a bad, unreadable or unwritable entry is a miss.
 *
 *   key     SHA-256 over target, assembler id, options and the PTX text; all of these are stored in the entry too and compared,
 *           so that not even a hash collision gives wrong code. No path, time, address or locale is in it.
 *   folder  must be the user's own and closed to others, since the cache is code: else the tier is not used. A checksum is
 *           not an authentication.
 *   tiers   one writable folder, and optionally a read-only one (containers), asked first
 *
 * Format of an entry, little endian:
 *   "PLAUNCH\2" | u64 n_key_bytes | u64 n_notes_bytes | u64 n_code_bytes | key text | notes | code |
 *   two XXH3-64 with seeds 1 and 2 over all before
 *
 * XXH3 is frozen since xxHash 0.8; the format's digit changes with anything above.
 */
#include "base/arena.h"
#include "base/hash.h"

#include <stdatomic.h>
#include <stdbool.h>

enum { PL_STORE_PATH_BYTES = 512, PL_STORE_WHY_BYTES = 120 };

struct pl_store {
    char path[PL_STORE_PATH_BYTES]; /* "" when the tier is off */
    int folder;                     /* descriptor, -1 when off */
    bool is_read_only;
    char why_off[PL_STORE_WHY_BYTES]; /* reason of a refusal; "" when not wanted or fine */
    atomic_uint serial;               /* makes temporary names unique in the process */
    uint64_t limit_bytes;             /* a sweep removes the oldest entries down to 80 % of it */
};

/* What a binary is made from. */
struct pl_content {
    struct pl_sha256 hash;
    const char *head; /* target, assembler and options, a line each */
    size_t head_bytes;
    const char *text; /* PTX */
    size_t text_bytes;
};

struct pl_blob {
    const void *data;
    size_t n_bytes;
};

/* What an entry holds. The notes are the assembler's remarks: a later process may be stricter about them than the writer was. */
struct pl_stored {
    struct pl_blob code, notes;
};

enum pl_store_result { PL_STORE_MISS, PL_STORE_HIT, PL_STORE_CORRUPT };

/*
 * Open (and, unless read-only, make) a tier. On refusal the tier is off and why_off says why.
 *
 *   path   NULL or "": off
 */
void pl_store_open(struct pl_store *s, const char *path, bool is_read_only);
void pl_store_close(struct pl_store *s);

/* $PLAUNCH_CACHE_DIR, else $XDG_CACHE_HOME/plaunch, else $HOME/.cache/plaunch; "" when none (never a shared folder). */
void pl_store_default_path(char *out, size_t n_bytes);

/* The key of a text; head in the arena. False: out of memory. */
bool pl_content_make(struct pl_content *out, struct pl_arena *arena, const char *target,
                     const char *assembler, const char *options, struct pl_blob text);

/*
 * Look an entry up. HIT: *out in the arena (one NUL behind the code). CORRUPT: `why` (PL_STORE_WHY_BYTES) says what was wrong,
 * and the entry was removed, unless the tier is read-only. Threads: any.
 */
enum pl_store_result pl_store_get(struct pl_store *s, const struct pl_content *c,
                                  struct pl_arena *arena, struct pl_stored *out, char *why);

/*
 * Publish an entry. False: it could not be written; `why` (PL_STORE_WHY_BYTES) says what happened. Threads: any.
 *
 *   arena   its hooks and limit are used for memory of the call's own, given back before it returns
 */
bool pl_store_put(struct pl_store *s, const struct pl_content *c, const struct pl_stored *what,
                  const struct pl_arena *arena, char *why);

/*
 * Remove the oldest entries until 80 % of the limit are left, and leftovers of killed writers; at most once an hour unless
 * forced. Without memory for the whole list, what was listed is swept.
 */
void pl_store_sweep(struct pl_store *s, const struct pl_alloc_hooks *hooks, bool is_forced);

/* ---- for who looks after the cache (plaunch cache) ---- */

struct pl_store_item {
    const char *name; /* "ab/cdef…", below the folder */
    uint64_t n_bytes;
    int64_t used_s;            /* seconds since 1970, of its last use */
    const char *wrong;         /* NULL: whole; else what is wrong, and nothing below is set */
    struct pl_content content; /* what it was made from */
    struct pl_blob file;
};

/* Every entry of the tier, the one that was not used for longest first, each checked from end to end; until fn gives false. */
void pl_store_each(struct pl_store *s, bool (*fn)(const struct pl_store_item *item, void *user),
                   void *user);
bool pl_store_remove(struct pl_store *s, const char *name);
/* An entry's file from elsewhere, under the name that its content has. False: `why` (PL_STORE_WHY_BYTES) says what is wrong. */
bool pl_store_add(struct pl_store *s, struct pl_blob file, char *why);

#endif
