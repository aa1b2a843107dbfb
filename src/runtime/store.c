#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "src/runtime/store.h"

#include "base/debug.h"
#include "base/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char magic[8] = {'P', 'L', 'A', 'U', 'N', 'C', 'H', 2};
static const char temporary[] = "tmp.";
static const char sweep_mark[] = "swept";
enum {
    HEAD_BYTES = 32,
    SUM_BYTES = 16,
    NAME_BYTES = 72, /* "ab/" and 62 digits */
    HOUR_S = 3600,
    ENTRY_LIMIT_BYTES = 256 << 20, /* a larger file is not one of ours */
};

/* ---- folders ---- */

static void refuse(struct pl_store *s, const char *why)
{
    snprintf(s->why_off, sizeof s->why_off, "%s", why);
    if (s->folder >= 0)
        close(s->folder);
    s->folder = -1;
}

/* mkdir -p with 0700 for what is new. */
static bool make_folders(const char *path)
{
    char part[PL_STORE_PATH_BYTES];
    snprintf(part, sizeof part, "%s", path);
    for (char *p = part + 1; *p != '\0'; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(part, 0700) != 0 && errno != EEXIST)
            return false;
        *p = '/';
    }
    return mkdir(part, 0700) == 0 || errno == EEXIST;
}

/* The cache is code: only folders that nobody else can write to. A read-only tier may also be root's. */
static const char *why_not_trusted(const struct stat *st, bool is_read_only)
{
    if (st->st_uid != geteuid() && !(is_read_only && st->st_uid == 0))
        return "it belongs to another user";
    if ((st->st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return "others may write to it";
    return NULL;
}

void pl_store_open(struct pl_store *s, const char *path, bool is_read_only)
{
    *s = (struct pl_store){
        .folder = -1, .is_read_only = is_read_only, .limit_bytes = (uint64_t)1 << 30};
    if (path == NULL || path[0] == '\0')
        return;
    if (strlen(path) >= sizeof s->path) {
        refuse(s, "its path is too long");
        return;
    }
    snprintf(s->path, sizeof s->path, "%s", path);
    if (!is_read_only && !make_folders(path)) {
        refuse(s, strerrordesc_np(errno));
        return;
    }
    s->folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (s->folder < 0 || fstat(s->folder, &st) != 0) {
        refuse(s, errno == ELOOP || errno == ENOTDIR ? "it is not a folder (or a symbolic link)"
                                                     : strerrordesc_np(errno));
        return;
    }
    const char *why = why_not_trusted(&st, is_read_only);
    if (why != NULL)
        refuse(s, why);
}

void pl_store_close(struct pl_store *s)
{
    if (s->folder >= 0)
        close(s->folder);
    s->folder = -1;
}

void pl_store_default_path(char *out, size_t n_bytes)
{
    const char *own = pl_os_getenv("PLAUNCH_CACHE_DIR");
    const char *xdg = pl_os_getenv("XDG_CACHE_HOME");
    const char *home = pl_os_getenv("HOME");
    out[0] = '\0';
    if (own != NULL)
        snprintf(out, n_bytes, "%s", own);
    else if (xdg != NULL && xdg[0] == '/')
        snprintf(out, n_bytes, "%s/plaunch", xdg);
    else if (home != NULL && home[0] == '/')
        snprintf(out, n_bytes, "%s/.cache/plaunch", home);
}

/* ---- entries ---- */

bool pl_content_make(struct pl_content *out, struct pl_arena *arena, const char *target,
                     const char *assembler, const char *options, struct pl_blob text)
{
    char *head = pl_arena_printf(arena, "%s\n%s\n%s\n", target, assembler, options);
    if (head == NULL)
        return false;
    *out = (struct pl_content){
        .head = head, .head_bytes = strlen(head), .text = text.data, .text_bytes = text.n_bytes};
    const void *parts[2] = {head, text.data};
    size_t n_bytes[2] = {out->head_bytes, text.n_bytes};
    out->hash = pl_sha256_of_parts(2, parts, n_bytes);
    return true;
}

/* "ab/cdef…": two-digit folders keep directories small. */
static void entry_name(const struct pl_content *c, char name[NAME_BYTES])
{
    char hex[65];
    pl_sha256_hex(&c->hash, hex);
    snprintf(name, NAME_BYTES, "%.2s/%s", hex, hex + 2);
}

static void put_u64(uint8_t *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static uint64_t get_u64(const uint8_t *p)
{
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static void checksum(const uint8_t *data, size_t n_bytes, uint8_t out[SUM_BYTES])
{
    put_u64(out, pl_hash64(data, n_bytes, 1));
    put_u64(out + 8, pl_hash64(data, n_bytes, 2));
}

static bool read_all(int fd, uint8_t *to, size_t n_bytes)
{
    while (n_bytes != 0) {
        ssize_t n = read(fd, to, n_bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        to += n;
        n_bytes -= (size_t)n;
    }
    return true;
}

static bool write_all(int fd, const uint8_t *from, size_t n_bytes)
{
    while (n_bytes != 0) {
        ssize_t n = write(fd, from, n_bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        from += n;
        n_bytes -= (size_t)n;
    }
    return true;
}

/* NULL when the file is an entry for this content, whole and unchanged; else what is wrong. */
static const char *why_not_entry(const uint8_t *file, size_t n_bytes, const struct pl_content *c,
                                 struct pl_stored *out)
{
    if (n_bytes < HEAD_BYTES + SUM_BYTES || memcmp(file, magic, sizeof magic) != 0)
        return "not an entry";
    uint64_t key_bytes = get_u64(file + 8), notes_bytes = get_u64(file + 16);
    uint64_t code_bytes = get_u64(file + 24);
    if (key_bytes > n_bytes || notes_bytes > n_bytes || code_bytes > n_bytes ||
        HEAD_BYTES + key_bytes + notes_bytes + code_bytes + SUM_BYTES != n_bytes)
        return "cut short";
    uint8_t sum[SUM_BYTES];
    checksum(file, n_bytes - SUM_BYTES, sum);
    if (memcmp(sum, file + n_bytes - SUM_BYTES, SUM_BYTES) != 0)
        return "checksum differs";
    const uint8_t *key = file + HEAD_BYTES;
    if (key_bytes != c->head_bytes + c->text_bytes || memcmp(key, c->head, c->head_bytes) != 0 ||
        memcmp(key + c->head_bytes, c->text, c->text_bytes) != 0)
        return "made from other text";
    const uint8_t *notes = key + key_bytes;
    out->notes = (struct pl_blob){notes, (size_t)notes_bytes};
    out->code = (struct pl_blob){notes + notes_bytes, (size_t)code_bytes};
    return NULL;
}

/* Keeps the sweep's order right with relatime or noatime, at no more than one write an hour. */
static void touch(int fd, const struct stat *st)
{
    if (time(NULL) - st->st_mtime > HOUR_S)
        (void)futimens(fd, NULL);
}

static enum pl_store_result read_entry(struct pl_store *s, int fd, const struct pl_content *c,
                                       struct pl_arena *arena, struct pl_stored *out, char *why)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return PL_STORE_MISS;
    const char *wrong = S_ISREG(st.st_mode) ? why_not_trusted(&st, s->is_read_only) : "not a file";
    /* 0: another writer has just renamed its equal entry over this one, which is as good as before */
    if (wrong == NULL && st.st_nlink > 1 && !s->is_read_only)
        wrong = "it has several names";
    if (wrong == NULL && (st.st_size <= 0 || st.st_size > ENTRY_LIMIT_BYTES))
        wrong = "cut short";
    if (wrong == NULL) {
        size_t n_bytes = (size_t)st.st_size;
        uint8_t *file = pl_arena_alloc(arena, n_bytes);
        if (file == NULL)
            return PL_STORE_MISS;
        if (!read_all(fd, file, n_bytes))
            return PL_STORE_MISS;
        wrong = why_not_entry(file, n_bytes, c, out);
        if (wrong == NULL) {
            file[n_bytes - SUM_BYTES] = 0; /* PTX is handed to the driver with a NUL behind it */
            if (!s->is_read_only)
                touch(fd, &st);
            return PL_STORE_HIT;
        }
    }
    snprintf(why, PL_STORE_WHY_BYTES, "%s", wrong);
    return PL_STORE_CORRUPT;
}

enum pl_store_result pl_store_get(struct pl_store *s, const struct pl_content *c,
                                  struct pl_arena *arena, struct pl_stored *out, char *why)
{
    if (s->folder < 0)
        return PL_STORE_MISS;
    char name[NAME_BYTES];
    entry_name(c, name);
    int fd = openat(s->folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return PL_STORE_MISS;
    enum pl_store_result r = read_entry(s, fd, c, arena, out, why);
    close(fd);
    if (r == PL_STORE_CORRUPT && !s->is_read_only)
        (void)unlinkat(s->folder, name, 0);
    return r;
}

/* ---- writing ---- */

/* A new file of ours in the cache folder; -1 with errno. */
static int make_temporary(struct pl_store *s, char name[NAME_BYTES])
{
    struct timespec now;
    for (int i = 0; i < 100; i++) {
        clock_gettime(CLOCK_REALTIME, &now);
        snprintf(name, NAME_BYTES, "%s%lx.%lx.%x", temporary, (unsigned long)getpid(),
                 (unsigned long)now.tv_nsec, atomic_fetch_add(&s->serial, 1));
        int fd =
            openat(s->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

static uint8_t *put_bytes(uint8_t *p, const void *data, size_t n_bytes)
{
    if (n_bytes != 0)
        memcpy(p, data, n_bytes);
    return p + n_bytes;
}

/* The whole file in the arena; n_bytes 0 when there is no memory for it. */
static struct pl_blob make_entry(const struct pl_content *c, const struct pl_stored *what,
                                 struct pl_arena *arena)
{
    size_t key_bytes = c->head_bytes + c->text_bytes;
    size_t n_bytes = HEAD_BYTES + key_bytes + what->notes.n_bytes + what->code.n_bytes + SUM_BYTES;
    uint8_t *file = pl_arena_alloc(arena, n_bytes);
    if (file == NULL)
        return (struct pl_blob){NULL, 0};
    memcpy(file, magic, sizeof magic);
    put_u64(file + 8, key_bytes);
    put_u64(file + 16, what->notes.n_bytes);
    put_u64(file + 24, what->code.n_bytes);
    uint8_t *p = put_bytes(file + HEAD_BYTES, c->head, c->head_bytes);
    p = put_bytes(p, c->text, c->text_bytes);
    p = put_bytes(p, what->notes.data, what->notes.n_bytes);
    p = put_bytes(p, what->code.data, what->code.n_bytes);
    checksum(file, n_bytes - SUM_BYTES, p);
    return (struct pl_blob){file, n_bytes};
}

static bool write_entry(int fd, const struct pl_content *c, const struct pl_stored *what,
                        const struct pl_arena *like)
{
    struct pl_arena own; /* a build that is nearly out of scratch memory is none the poorer */
    pl_arena_init(&own, like->hooks, like->limit_bytes);
    const struct pl_blob file = make_entry(c, what, &own);
    bool is_written = file.n_bytes != 0 && write_all(fd, file.data, file.n_bytes) && fsync(fd) == 0;
    int error = file.n_bytes != 0 ? errno : ENOMEM;
    pl_arena_fini(&own);
    errno = error;
    return is_written;
}

bool pl_store_put(struct pl_store *s, const struct pl_content *c, const struct pl_stored *what,
                  const struct pl_arena *arena, char *why)
{
    if (s->folder < 0 || s->is_read_only)
        return true;
    char name[NAME_BYTES], temp[NAME_BYTES], folder[3];
    entry_name(c, name);
    memcpy(folder, name, 2);
    folder[2] = '\0';
    int fd = make_temporary(s, temp);
    bool is_written = fd >= 0 && write_entry(fd, c, what, arena);
    int error = errno;
    if (fd >= 0 && close(fd) != 0 && is_written) {
        is_written = false;
        error = errno;
    }
    if (is_written && mkdirat(s->folder, folder, 0700) != 0 && errno != EEXIST) {
        is_written = false;
        error = errno;
    }
    if (is_written && renameat(s->folder, temp, s->folder, name) != 0) {
        is_written = false;
        error = errno;
    }
    if (!is_written) {
        if (fd >= 0)
            (void)unlinkat(s->folder, temp, 0);
        const char *text = strerrordesc_np(error);
        snprintf(why, PL_STORE_WHY_BYTES, "%s", text != NULL ? text : "unknown error");
        return false;
    }
    pl_store_sweep(s, arena->hooks, false);
    return true;
}

/* ---- sweep ---- */

struct swept_file {
    time_t used_at;
    uint64_t n_bytes;
    char name[NAME_BYTES];
};

/* Linked while the folders are read, an array when it is known how many there are. */
struct swept_link {
    struct swept_link *next;
    struct swept_file file;
};

struct sweep {
    struct pl_arena arena;
    struct swept_link *links;
    size_t n;
    uint64_t total_bytes;
};

static void add_swept(struct sweep *w, const char *folder, const char *file, const struct stat *st)
{
    struct swept_file f = {.used_at = st->st_atime > st->st_mtime ? st->st_atime : st->st_mtime,
                           .n_bytes = (uint64_t)st->st_size};
    if ((size_t)snprintf(f.name, sizeof f.name, "%s/%s", folder, file) >= sizeof f.name)
        return;
    struct swept_link *l = PL_NEW(&w->arena, struct swept_link);
    if (l == NULL)
        return;
    *l = (struct swept_link){.next = w->links, .file = f};
    w->links = l;
    w->total_bytes += f.n_bytes;
    w->n++;
}

/* Calls fn for each name in a folder below the cache's ("." is that itself). */
static void each_name(struct pl_store *s, const char *folder,
                      void (*fn)(struct pl_store *, struct sweep *, const char *folder,
                                 const char *name),
                      struct sweep *w)
{
    int fd = openat(s->folder, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (d == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.')
            fn(s, w, folder, e->d_name);
    closedir(d);
}

static void sweep_entry(struct pl_store *s, struct sweep *w, const char *folder, const char *name)
{
    char path[NAME_BYTES];
    struct stat st;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path)
        return; /* not one of ours */
    if (fstatat(s->folder, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
        add_swept(w, folder, name, &st);
}

static void sweep_top(struct pl_store *s, struct sweep *w, const char *folder, const char *name)
{
    (void)folder;
    struct stat st;
    if (strlen(name) == 2) {
        each_name(s, name, sweep_entry, w);
    } else if (strncmp(name, temporary, strlen(temporary)) == 0) {
        if (fstatat(s->folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            time(NULL) - st.st_mtime > HOUR_S)
            (void)unlinkat(s->folder, name, 0);
    }
}

static int by_age(const void *a, const void *b)
{
    const struct swept_file *x = a, *y = b;
    return (x->used_at > y->used_at) - (x->used_at < y->used_at);
}

/* One process an hour: the mark's time decides; when two pass together, both only remove old files. */
static bool take_sweep_turn(struct pl_store *s)
{
    struct stat st;
    if (fstatat(s->folder, sweep_mark, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        time(NULL) - st.st_mtime < HOUR_S)
        return false;
    int fd = openat(s->folder, sweep_mark, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    (void)futimens(fd, NULL);
    close(fd);
    return true;
}

/* The list as an array, oldest first; NULL without memory. */
static struct swept_file *sort_swept(struct sweep *w)
{
    struct swept_file *files = pl_arena_array(&w->arena, w->n, sizeof *files), *f = files;
    if (files == NULL)
        return NULL;
    for (const struct swept_link *l = w->links; l != NULL; l = l->next)
        *f++ = l->file;
    qsort(files, w->n, sizeof *files, by_age);
    return files;
}

static void remove_oldest(struct pl_store *s, struct sweep *w)
{
    const struct swept_file *files = sort_swept(w);
    uint64_t keep_bytes = s->limit_bytes / 5 * 4;
    for (size_t i = 0; files != NULL && i < w->n && w->total_bytes > keep_bytes; i++) {
        (void)unlinkat(s->folder, files[i].name, 0);
        w->total_bytes -= files[i].n_bytes;
    }
}

void pl_store_sweep(struct pl_store *s, const struct pl_alloc_hooks *hooks, bool is_forced)
{
    if (s->folder < 0 || s->is_read_only || (!take_sweep_turn(s) && !is_forced))
        return;
    struct sweep w = {.n = 0};
    pl_arena_init(&w.arena, hooks, 0);
    each_name(s, ".", sweep_top, &w);
    if (w.total_bytes > s->limit_bytes)
        remove_oldest(s, &w);
    pl_arena_fini(&w.arena);
}
