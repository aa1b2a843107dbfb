/* All entries of the disk cache: the sweep that keeps it small, and what the command does with it. */
#include "src/runtime/store_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char sweep_mark[] = "swept";

/* ---- sweep ---- */

struct swept_file {
    time_t used_at;
    uint64_t n_bytes;
    char name[PL_ENTRY_NAME_BYTES];
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
    char path[PL_ENTRY_NAME_BYTES];
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
    } else if (strncmp(name, pl_store_temporary, strlen(pl_store_temporary)) == 0) {
        if (fstatat(s->folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            time(NULL) - st.st_mtime > PL_STORE_HOUR_S)
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
        time(NULL) - st.st_mtime < PL_STORE_HOUR_S)
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

/* ---- every entry, for who looks after the cache ---- */

/* What is known of a file when it was read and checked. */
static struct pl_store_item look(struct pl_store *s, const struct swept_file *f,
                                 struct pl_arena *arena)
{
    struct pl_store_item item = {.name = f->name, .n_bytes = f->n_bytes, .used_s = f->used_at};
    struct pl_entry_file file;
    struct pl_stored stored;
    char name[PL_ENTRY_NAME_BYTES];
    if (pl_store_read(s, f->name, arena, &file) == PL_STORE_MISS) {
        item.wrong = "it cannot be read";
        return item;
    }
    item.wrong = file.wrong;
    if (item.wrong == NULL)
        item.wrong = pl_entry_parse(file.data, file.n_bytes, &item.content, &stored);
    if (item.wrong != NULL)
        return item;
    pl_entry_name(&item.content, name);
    item.wrong = strcmp(name, f->name) == 0 ? NULL : "it has the name of another entry";
    item.file = (struct pl_blob){file.data, file.n_bytes};
    return item;
}

void pl_store_each(struct pl_store *s, bool (*fn)(const struct pl_store_item *item, void *user),
                   void *user)
{
    struct sweep w = {.n = 0};
    if (s->folder < 0)
        return;
    pl_arena_init(&w.arena, NULL, 0);
    each_name(s, ".", sweep_top, &w);
    const struct swept_file *files = sort_swept(&w);
    bool goes_on = true;
    for (size_t i = 0; files != NULL && i < w.n && goes_on; i++) {
        struct pl_arena one = {0};
        const struct pl_store_item item = look(s, &files[i], &one);
        goes_on = fn(&item, user);
        pl_arena_fini(&one);
    }
    pl_arena_fini(&w.arena);
}

bool pl_store_remove(struct pl_store *s, const char *name)
{
    return s->folder >= 0 && !s->is_read_only && unlinkat(s->folder, name, 0) == 0;
}

bool pl_store_add(struct pl_store *s, struct pl_blob file, char *why)
{
    struct pl_content content;
    struct pl_stored stored;
    char name[PL_ENTRY_NAME_BYTES];
    const char *wrong = s->folder < 0 ? "the cache is off"
                        : s->is_read_only
                            ? "the folder is read-only"
                            : pl_entry_parse(file.data, file.n_bytes, &content, &stored);
    if (wrong != NULL) {
        snprintf(why, PL_STORE_WHY_BYTES, "%s", wrong);
        return false;
    }
    pl_entry_name(&content, name);
    return pl_store_write(s, name, file, why);
}
