/*
 * Any bytes as an entry of the disk cache: never a crash, and a hit only with the key text and the checksum in place. The first
 * byte chooses: even, the rest is the file; odd, the rest edits a good entry (offset, value pairs) whose checksum is then made
 * right again, so that what lies behind the checksum is reached too.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "src/runtime/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

enum { MAX_FILE_BYTES = 1 << 16, HEAD_BYTES = 32, SUM_BYTES = 16 };

static struct pl_store store;
static char folder[64];
static uint8_t good[1024];
static size_t n_good_bytes;

static struct pl_content make_content(struct pl_arena *arena)
{
    struct pl_content c;
    if (!pl_content_make(&c, arena, "sm_90a", "ptx", "", (struct pl_blob){"some text", 9}))
        abort();
    return c;
}

static void path_of(const struct pl_content *c, char path[160])
{
    char hex[65];
    pl_sha256_hex(&c->hash, hex);
    snprintf(path, 160, "%s/%.2s/%s", folder, hex, hex + 2);
}

static void remove_folder(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0)
        perror(folder);
}

/* A good entry of one payload byte, kept as bytes. */
static void start(const struct pl_content *c)
{
    char why[PL_STORE_WHY_BYTES], path[160];
    strcpy(folder, "/tmp/plaunch-fuzz.XXXXXX");
    if (mkdtemp(folder) == NULL)
        abort();
    atexit(remove_folder);
    pl_store_open(&store, folder, false);
    const struct pl_stored what = {.code = {"P", 1}, .notes = {"N", 1}};
    const struct pl_arena arena = {0};
    if (!pl_store_put(&store, c, &what, &arena, why))
        abort();
    path_of(c, path);
    FILE *f = fopen(path, "rb");
    n_good_bytes = f != NULL ? fread(good, 1, sizeof good, f) : 0;
    if (f == NULL || n_good_bytes < SUM_BYTES)
        abort();
    fclose(f);
}

static size_t make_file(uint8_t *file, const uint8_t *data, size_t n_bytes)
{
    if (n_bytes == 0 || data[0] % 2 == 0) {
        size_t n = n_bytes == 0 ? 0 : n_bytes - 1;
        n = n < MAX_FILE_BYTES ? n : MAX_FILE_BYTES;
        memcpy(file, data + (n_bytes != 0), n);
        return n;
    }
    memcpy(file, good, n_good_bytes);
    for (size_t i = 1; i + 1 < n_bytes; i += 2)
        file[data[i] % n_good_bytes] = data[i + 1];
    for (uint64_t seed = 1; seed <= 2; seed++) {
        uint64_t sum = pl_hash64(file, n_good_bytes - SUM_BYTES, seed);
        memcpy(file + n_good_bytes - SUM_BYTES + 8 * (seed - 1), &sum, 8);
    }
    return n_good_bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static uint8_t file[MAX_FILE_BYTES];
    struct pl_arena arena = {0};
    struct pl_stored got = {.code = {NULL, 0}};
    char why[PL_STORE_WHY_BYTES] = "", path[160];
    struct pl_content c = make_content(&arena);
    if (folder[0] == '\0')
        start(&c);
    path_of(&c, path);
    size_t n_file_bytes = make_file(file, data, n_bytes);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(file, 1, n_file_bytes, f) != n_file_bytes)
        abort();
    fclose(f);
    bool has_key = n_file_bytes > HEAD_BYTES + c.head_bytes + c.text_bytes &&
                   memcmp(file + HEAD_BYTES, c.head, c.head_bytes) == 0 &&
                   memcmp(file + HEAD_BYTES + c.head_bytes, c.text, c.text_bytes) == 0;
    switch (pl_store_get(&store, &c, &arena, &got, why)) {
    case PL_STORE_HIT:
        if (!has_key || ((const char *)got.code.data)[got.code.n_bytes] != '\0')
            abort();
        break;
    case PL_STORE_CORRUPT:
        if (access(path, F_OK) == 0 || why[0] == '\0')
            abort();
        break;
    case PL_STORE_MISS: break;
    }
    pl_arena_fini(&arena);
    return 0;
}
