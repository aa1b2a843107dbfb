#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "src/runtime/store_file.h"

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

const char pl_store_temporary[5] = "tmp.";

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
const char *pl_store_why_not_trusted(const struct stat *st, bool is_read_only)
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
    const char *why = pl_store_why_not_trusted(&st, is_read_only);
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

/* Keeps the sweep's order right with relatime or noatime, at no more than one write an hour. */
static void touch(struct pl_store *s, const char *name, const struct stat *st)
{
    if (!s->is_read_only && time(NULL) - st->st_mtime > PL_STORE_HOUR_S)
        (void)utimensat(s->folder, name, NULL, AT_SYMLINK_NOFOLLOW);
}

static const char *why_not_file(const struct pl_store *s, const struct stat *st)
{
    const char *wrong =
        S_ISREG(st->st_mode) ? pl_store_why_not_trusted(st, s->is_read_only) : "not a file";
    if (wrong != NULL)
        return wrong;
    /* 0: another writer has just renamed its equal entry over this one, which is as good as before */
    if (st->st_nlink > 1 && !s->is_read_only)
        return "it has several names";
    return st->st_size <= 0 || st->st_size > PL_ENTRY_LIMIT_BYTES ? "cut short" : NULL;
}

enum pl_store_result pl_store_read(struct pl_store *s, const char *name, struct pl_arena *arena,
                                   struct pl_entry_file *out)
{
    *out = (struct pl_entry_file){.n_bytes = 0};
    int fd = openat(s->folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return PL_STORE_MISS;
    enum pl_store_result r = PL_STORE_MISS;
    if (fstat(fd, &out->st) == 0) {
        out->wrong = why_not_file(s, &out->st);
        r = out->wrong != NULL ? PL_STORE_CORRUPT : PL_STORE_HIT;
    }
    if (r == PL_STORE_HIT) {
        out->n_bytes = (size_t)out->st.st_size;
        out->data = pl_arena_raw(arena, out->n_bytes);
        if (out->data == NULL || !read_all(fd, out->data, out->n_bytes))
            r = PL_STORE_MISS;
    }
    close(fd);
    return r;
}

enum pl_store_result pl_store_get(struct pl_store *s, const struct pl_content *c,
                                  struct pl_arena *arena, struct pl_stored *out, char *why)
{
    if (s->folder < 0)
        return PL_STORE_MISS;
    char name[PL_ENTRY_NAME_BYTES];
    struct pl_entry_file f;
    pl_entry_name(c, name);
    enum pl_store_result r = pl_store_read(s, name, arena, &f);
    if (r == PL_STORE_HIT) {
        f.wrong = pl_entry_why_not(f.data, f.n_bytes, c, out);
        r = f.wrong != NULL ? PL_STORE_CORRUPT : PL_STORE_HIT;
    }
    if (r == PL_STORE_HIT) {
        f.data[f.n_bytes - PL_ENTRY_SUM_BYTES] =
            0; /* PTX is handed to the driver with a NUL behind it */
        touch(s, name, &f.st);
    }
    if (r == PL_STORE_CORRUPT) {
        snprintf(why, PL_STORE_WHY_BYTES, "%s", f.wrong);
        if (!s->is_read_only)
            (void)unlinkat(s->folder, name, 0);
    }
    return r;
}

/* ---- writing ---- */

/* A new file of ours in the cache folder; -1 with errno. */
static int make_temporary(struct pl_store *s, char name[PL_ENTRY_NAME_BYTES])
{
    struct timespec now;
    for (int i = 0; i < 100; i++) {
        clock_gettime(CLOCK_REALTIME, &now);
        snprintf(name, PL_ENTRY_NAME_BYTES, "%s%lx.%lx.%x", pl_store_temporary,
                 (unsigned long)getpid(), (unsigned long)now.tv_nsec,
                 atomic_fetch_add(&s->serial, 1));
        int fd =
            openat(s->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

/* In errno what went wrong. */
static bool write_named(struct pl_store *s, const char *temp, int fd, const char *name,
                        struct pl_blob file)
{
    const char folder[3] = {name[0], name[1], '\0'};
    bool is_written = write_all(fd, file.data, file.n_bytes) && fsync(fd) == 0;
    int error = errno;
    if (close(fd) != 0 && is_written) {
        is_written = false;
        error = errno;
    }
    errno = error;
    return is_written && (mkdirat(s->folder, folder, 0700) == 0 || errno == EEXIST) &&
           renameat(s->folder, temp, s->folder, name) == 0;
}

bool pl_store_write(struct pl_store *s, const char name[PL_ENTRY_NAME_BYTES], struct pl_blob file,
                    char *why)
{
    char temp[PL_ENTRY_NAME_BYTES];
    int fd = make_temporary(s, temp);
    if (fd >= 0 && write_named(s, temp, fd, name, file))
        return true;
    const char *text = strerrordesc_np(errno);
    if (fd >= 0)
        (void)unlinkat(s->folder, temp, 0);
    snprintf(why, PL_STORE_WHY_BYTES, "%s", text != NULL ? text : "unknown error");
    return false;
}

bool pl_store_put(struct pl_store *s, const struct pl_content *c, const struct pl_stored *what,
                  const struct pl_arena *arena, char *why)
{
    if (s->folder < 0 || s->is_read_only)
        return true;
    char name[PL_ENTRY_NAME_BYTES];
    struct pl_arena own; /* a build that is nearly out of scratch memory is none the poorer */
    pl_arena_init(&own, arena->hooks, arena->limit_bytes);
    pl_entry_name(c, name);
    const struct pl_blob file = pl_entry_make(c, what, &own);
    bool is_written = false;
    if (file.n_bytes == 0)
        snprintf(why, PL_STORE_WHY_BYTES, "%s", strerrordesc_np(ENOMEM));
    else
        is_written = pl_store_write(s, name, file, why);
    pl_arena_fini(&own);
    if (is_written)
        pl_store_sweep(s, arena->hooks, false);
    return is_written;
}
