#ifndef PL_RUNTIME_STORE_FILE_H
#define PL_RUNTIME_STORE_FILE_H
/* Inside the disk cache: the file of an entry (its format is told in store.h), and what the files of the store share. */
#include "src/runtime/store.h"

#include <sys/stat.h>

enum {
    PL_ENTRY_NAME_BYTES = 72, /* "ab/" and 62 digits */
    PL_ENTRY_SUM_BYTES = 16,
    PL_ENTRY_LIMIT_BYTES = 256 << 20, /* a larger file is not one of ours */
    PL_STORE_HOUR_S = 3600
};
extern const char pl_store_temporary[5]; /* how the names of files begin that are being written */

/* "ab/cdef…": two-digit folders keep directories small. */
void pl_entry_name(const struct pl_content *c, char name[PL_ENTRY_NAME_BYTES]);

/* What a file holds, in place. NULL when it is whole and unchanged; else what is wrong. */
const char *pl_entry_parse(const uint8_t *file, size_t n_bytes, struct pl_content *content,
                           struct pl_stored *out);

/* The same, and it is an entry for this content. */
const char *pl_entry_why_not(const uint8_t *file, size_t n_bytes, const struct pl_content *c,
                             struct pl_stored *out);

/* The whole file in the arena; n_bytes 0 when there is no memory for it. */
struct pl_blob pl_entry_make(const struct pl_content *c, const struct pl_stored *what,
                             struct pl_arena *arena);

/* The cache is code: only files that nobody else can write to. A read-only tier may also be root's. NULL: fine. */
const char *pl_store_why_not_trusted(const struct stat *st, bool is_read_only);

/* Writes a file under a name of the tier, whole or not at all. False: `why` says what happened. */
bool pl_store_write(struct pl_store *s, const char name[PL_ENTRY_NAME_BYTES], struct pl_blob file,
                    char *why);

/* A file of the tier as it lies there. MISS: it is not there, or cannot be read; CORRUPT: `wrong` says why it is not looked at. */
struct pl_entry_file {
    uint8_t *data; /* in the arena */
    size_t n_bytes;
    struct stat st;
    const char *wrong;
};
enum pl_store_result pl_store_read(struct pl_store *s, const char *name, struct pl_arena *arena,
                                   struct pl_entry_file *out);
#endif
