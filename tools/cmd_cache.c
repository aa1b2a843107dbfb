/* plaunch cache: what lies in the disk cache, and keeping it. */
#include "src/runtime/store.h"
#include "tools/cmd.h"
#include "tools/tar.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_BYTES = 256 << 20 }; /* of an entry */

struct job {
    struct pl_store store;
    const char *file; /* export, import */
    bool is_json;
    json_t *list; /* --json */
    FILE *tar;
    int64_t now_s;
    uint64_t n_entries, n_bytes, n_bad, n_done;
    bool has_failed;
};

/* Line `n` of an entry's head, and the name of its kernel. */
static void head_line(const struct pl_content *c, int n, char out[64])
{
    const char *s = c->head, *end = c->head + c->head_bytes;
    for (; n > 0 && s < end; s++)
        n -= *s == '\n';
    const char *stop = memchr(s, '\n', (size_t)(end - s));
    snprintf(out, 64, "%.*s", stop == NULL ? 0 : (int)(stop - s < 63 ? stop - s : 63), s);
}

static void entry_of(const struct pl_content *c, char out[64])
{
    static const char word[] = ".entry ";
    const char *s = memmem(c->text, c->text_bytes, word, sizeof word - 1);
    out[0] = '\0';
    if (s == NULL)
        return;
    s += sizeof word - 1;
    size_t n = 0;
    while (n < 63 && s + n < c->text + c->text_bytes && s[n] != '(' && s[n] > ' ')
        n++;
    snprintf(out, 64, "%.*s", (int)n, s);
}

static void count(struct job *j, const struct pl_store_item *item)
{
    j->n_entries++;
    j->n_bytes += item->n_bytes;
    j->n_bad += item->wrong != NULL;
}

static bool list_item(const struct pl_store_item *item, void *user)
{
    struct job *j = user;
    char entry[64] = "", target[64] = "", assembler[64] = "";
    count(j, item);
    if (item->wrong == NULL) {
        entry_of(&item->content, entry);
        head_line(&item->content, 0, target);
        head_line(&item->content, 1, assembler);
    }
    if (j->is_json)
        json_array_append_new(j->list,
                              json_pack("{s:s, s:I, s:I, s:b, s:s, s:s, s:s, s:s}", "name",
                                        item->name, "bytes", (json_int_t)item->n_bytes, "used",
                                        (json_int_t)item->used_s, "ok", (int)(item->wrong == NULL),
                                        "entry", entry, "target", target, "assembler", assembler,
                                        "wrong", item->wrong == NULL ? "" : item->wrong));
    else
        printf("%.11s %9" PRIu64 " B %7" PRId64 " s  %s\n", item->name, item->n_bytes,
               j->now_s - item->used_s,
               item->wrong != NULL ? item->wrong
               : entry[0] != '\0'  ? entry
                                   : "(no entry)");
    return true;
}

static int list(struct job *j)
{
    j->list = j->is_json ? json_array() : NULL;
    pl_store_each(&j->store, list_item, j);
    if (j->is_json)
        return pl_cmd_print_json(json_pack("{s:s, s:I, s:I, s:o}", "path", j->store.path, "entries",
                                           (json_int_t)j->n_entries, "bytes",
                                           (json_int_t)j->n_bytes, "list", j->list));
    printf("%s: %" PRIu64 " entries, %" PRIu64 " bytes\n", j->store.path, j->n_entries, j->n_bytes);
    return PL_CMD_OK;
}

static bool verify_item(const struct pl_store_item *item, void *user)
{
    struct job *j = user;
    count(j, item);
    if (item->wrong != NULL && !j->is_json)
        printf("%s: %s\n", item->name, item->wrong);
    return true;
}

static int verify(struct job *j)
{
    pl_store_each(&j->store, verify_item, j);
    int status = PL_CMD_OK;
    if (j->is_json)
        status = pl_cmd_print_json(json_pack("{s:s, s:I, s:I, s:b}", "path", j->store.path,
                                             "entries", (json_int_t)j->n_entries, "bad",
                                             (json_int_t)j->n_bad, "ok", (int)(j->n_bad == 0)));
    else
        printf("%s: %" PRIu64 " entries, %" PRIu64 " of them bad\n", j->store.path, j->n_entries,
               j->n_bad);
    return j->n_bad != 0 ? PL_CMD_FAILED : status;
}

/* --json of what changes something: where, how many, and whether all went well. */
static int tell_json(struct job *j, int status, const char *key, uint64_t n)
{
    const int printed = pl_cmd_print_json(json_pack("{s:s, s:I, s:b}", "path", j->store.path, key,
                                                    (json_int_t)n, "ok", status == PL_CMD_OK));
    return status != PL_CMD_OK ? status : printed;
}

static bool remove_bad(const struct pl_store_item *item, void *user)
{
    struct job *j = user;
    count(j, item);
    if (item->wrong != NULL)
        j->n_done += pl_store_remove(&j->store, item->name);
    return true;
}

static bool remove_any(const struct pl_store_item *item, void *user)
{
    struct job *j = user;
    count(j, item);
    j->n_done += pl_store_remove(&j->store, item->name);
    return true;
}

static int gc(struct job *j)
{
    pl_store_each(&j->store, remove_bad, j);
    pl_store_sweep(&j->store, NULL, true);
    const uint64_t before = j->n_bytes, n_bad = j->n_bad;
    j->n_bytes = j->n_entries = j->n_bad = 0;
    pl_store_each(&j->store, verify_item, j);
    const int status = j->n_bad != 0 ? PL_CMD_FAILED : PL_CMD_OK;
    if (j->is_json)
        return tell_json(j, status, "removed", n_bad);
    printf("%s: %" PRIu64 " bad entries removed, %" PRIu64 " of %" PRIu64 " bytes left\n",
           j->store.path, n_bad, j->n_bytes, before);
    return status;
}

static int clear(struct job *j)
{
    pl_store_each(&j->store, remove_any, j);
    const int status = j->n_done == j->n_entries ? PL_CMD_OK : PL_CMD_FAILED;
    if (j->is_json)
        return tell_json(j, status, "removed", j->n_done);
    printf("%s: %" PRIu64 " of %" PRIu64 " entries removed\n", j->store.path, j->n_done,
           j->n_entries);
    return status;
}

static bool export_item(const struct pl_store_item *item, void *user)
{
    struct job *j = user;
    count(j, item);
    if (item->wrong != NULL) {
        fprintf(stderr, "plaunch cache: %s is left out: %s\n", item->name, item->wrong);
        return true;
    }
    j->has_failed = !pl_tar_add(j->tar, item->name, item->file.data, item->file.n_bytes);
    j->n_done += !j->has_failed;
    return !j->has_failed;
}

static int export_all(struct job *j)
{
    j->tar = fopen(j->file, "wb");
    if (j->tar == NULL)
        return pl_cmd_fail("cache", "%s cannot be written", j->file);
    pl_store_each(&j->store, export_item, j);
    bool is_written = !j->has_failed && pl_tar_end(j->tar);
    is_written = fclose(j->tar) == 0 && is_written;
    if (!is_written)
        return pl_cmd_fail("cache", "%s could not be written whole", j->file);
    if (j->is_json)
        return tell_json(j, PL_CMD_OK, "exported", j->n_done);
    printf("%s: %" PRIu64 " entries of %s\n", j->file, j->n_done, j->store.path);
    return PL_CMD_OK;
}

static int import_all(struct job *j)
{
    char name[100], why[PL_STORE_WHY_BYTES];
    uint8_t *data;
    size_t n_bytes;
    enum pl_tar_result r;
    j->tar = fopen(j->file, "rb");
    if (j->tar == NULL)
        return pl_cmd_fail("cache", "%s cannot be read", j->file);
    while ((r = pl_tar_next(j->tar, name, &data, &n_bytes, MOST_BYTES)) == PL_TAR_FILE) {
        const bool is_added = pl_store_add(&j->store, (struct pl_blob){data, n_bytes}, why);
        j->n_done += is_added;
        j->n_bad += !is_added;
        if (!is_added)
            fprintf(stderr, "plaunch cache: %s is left out: %s\n", name, why);
        free(data);
    }
    fclose(j->tar);
    const int status = r == PL_TAR_BROKEN || j->n_bad != 0 ? PL_CMD_FAILED : PL_CMD_OK;
    if (!j->is_json)
        printf("%s: %" PRIu64 " entries into %s\n", j->file, j->n_done, j->store.path);
    if (r == PL_TAR_BROKEN)
        (void)pl_cmd_fail("cache", "%s is no archive of plaunch cache export, or cut short",
                          j->file);
    return j->is_json ? tell_json(j, status, "imported", j->n_done) : status;
}

static const struct action {
    const char *name;
    int (*run)(struct job *j);
    bool takes_file;
} actions[] = {
    {"ls", list, false},     {"verify", verify, false},    {"gc", gc, false},
    {"clear", clear, false}, {"export", export_all, true}, {"import", import_all, true},
};

static const struct action *find_action(const char *name)
{
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(actions[i].name, name) == 0)
            return &actions[i];
    return NULL;
}

int pl_cmd_cache(int argc, char **argv)
{
    struct job j = {.now_s = (int64_t)time(NULL)};
    char path[PL_STORE_PATH_BYTES] = "";
    const struct action *a = argc > 1 ? find_action(argv[1]) : NULL;
    if (a == NULL)
        return pl_cmd_usage("cache", "wanted one of ls verify gc clear export import");
    pl_store_default_path(path, sizeof path);
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            j.is_json = true;
        else if (strcmp(argv[i], "--dir") == 0 && i + 1 < argc && strlen(argv[i + 1]) < sizeof path)
            strcpy(path, argv[++i]);
        else if (a->takes_file && j.file == NULL && argv[i][0] != '-')
            j.file = argv[i];
        else
            return pl_cmd_usage("cache", "%s is one word too many", argv[i]);
    }
    if (a->takes_file && j.file == NULL)
        return pl_cmd_usage("cache", "%s wants a file", a->name);
    pl_store_open(&j.store, path, false);
    int status = PL_CMD_FAILED;
    if (j.store.folder < 0)
        pl_cmd_fail("cache", "%s",
                    j.store.why_off[0] != '\0' ? j.store.why_off : "there is no cache folder");
    else
        status = a->run(&j);
    pl_store_close(&j.store);
    return status;
}
