/* The disk tier: round trips, damage, permissions, killed and failing writers, read-only tier, sweep. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "src/runtime/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/suite.h"

/* ---- failing system calls: linked with --wrap ---- */

static int rename_errno, fsync_errno, unlink_errno, write_errno;

int __real_renameat(int, const char *, int, const char *);
int __wrap_renameat(int, const char *, int, const char *);
int __wrap_renameat(int a, const char *b, int c, const char *d)
{
    if (rename_errno == 0)
        return __real_renameat(a, b, c, d);
    errno = rename_errno;
    return -1;
}
int __real_fsync(int);
int __wrap_fsync(int);
int __wrap_fsync(int fd)
{
    if (fsync_errno == 0)
        return __real_fsync(fd);
    errno = fsync_errno;
    return -1;
}
int __real_unlinkat(int, const char *, int);
int __wrap_unlinkat(int, const char *, int);
int __wrap_unlinkat(int a, const char *b, int c)
{
    if (unlink_errno == 0)
        return __real_unlinkat(a, b, c);
    errno = unlink_errno;
    return -1;
}
ssize_t __real_write(int, const void *, size_t);
ssize_t __wrap_write(int, const void *, size_t);
ssize_t __wrap_write(int fd, const void *p, size_t n)
{
    if (write_errno == 0)
        return __real_write(fd, p, n);
    errno = write_errno;
    return -1;
}

/* ---- a folder and a content ---- */

static char folder[64];
static struct pl_store store;
static struct pl_arena arena;
static char why[PL_STORE_WHY_BYTES];
static const char notes[] = "20 bytes spill stores";

static void setup(void)
{
    strcpy(folder, "/tmp/plaunch-store.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    pl_store_open(&store, folder, false);
    ck_assert_str_eq(store.why_off, "");
    rename_errno = fsync_errno = unlink_errno = write_errno = 0;
}

static void teardown(void)
{
    char command[128];
    pl_store_close(&store);
    pl_arena_fini(&arena);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static struct pl_content content_of(const char *text)
{
    struct pl_content c;
    ck_assert(
        pl_content_make(&c, &arena, "sm_90a", "ptx", "", (struct pl_blob){text, strlen(text)}));
    return c;
}

static bool put(const char *text, const char *payload)
{
    struct pl_content c = content_of(text);
    const struct pl_stored what = {{payload, strlen(payload)}, {notes, strlen(notes)}};
    return pl_store_put(&store, &c, &what, &arena, why);
}

static enum pl_store_result get(const char *text, struct pl_blob *out)
{
    struct pl_content c = content_of(text);
    struct pl_stored what;
    enum pl_store_result r = pl_store_get(&store, &c, &arena, &what, why);
    if (r == PL_STORE_HIT) {
        ck_assert_uint_eq(what.notes.n_bytes, strlen(notes));
        ck_assert_mem_eq(what.notes.data, notes, strlen(notes));
        *out = what.code;
    }
    return r;
}

static void path_of(const char *text, char path[256])
{
    char hex[65];
    struct pl_content c = content_of(text);
    pl_sha256_hex(&c.hash, hex);
    snprintf(path, 256, "%s/%.2s/%s", folder, hex, hex + 2);
}

static unsigned n_files(const char *prefix)
{
    unsigned n = 0;
    DIR *d = opendir(folder);
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        n += strncmp(e->d_name, prefix, strlen(prefix)) == 0;
    closedir(d);
    return n;
}

/* ---- tests ---- */

START_TEST(what_was_put_is_got)
{
    struct pl_blob b;
    ck_assert_int_eq(get("text", &b), PL_STORE_MISS);
    ck_assert(put("text", "binary"));
    ck_assert_int_eq(get("text", &b), PL_STORE_HIT);
    ck_assert_uint_eq(b.n_bytes, 6);
    ck_assert_str_eq(b.data, "binary"); /* NUL behind it */
    ck_assert_int_eq(get("other", &b), PL_STORE_MISS);
    ck_assert_uint_eq(n_files("tmp."), 0);
}
END_TEST

START_TEST(key_is_text_target_assembler_options)
{
    struct pl_blob text = {"text", 4}, more = {"text2", 5};
    struct pl_content c[6];
    ck_assert(pl_content_make(&c[0], &arena, "sm_90a", "ptx", "", text));
    ck_assert(pl_content_make(&c[1], &arena, "sm_90", "ptx", "", text));
    ck_assert(pl_content_make(&c[2], &arena, "sm_90a", "nvjitlink 12.9", "", text));
    ck_assert(pl_content_make(&c[3], &arena, "sm_90a", "ptx", "-O1", text));
    ck_assert(pl_content_make(&c[4], &arena, "sm_90a", "ptx", "", more));
    ck_assert(pl_content_make(&c[5], &arena, "sm_90a", "ptx", "", text));
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < i; k++)
            ck_assert_mem_ne(&c[i].hash, &c[k].hash, sizeof c[i].hash);
    ck_assert_mem_eq(&c[0].hash, &c[5].hash, sizeof c[0].hash);
}
END_TEST

/* Cases 5 and 7: times are in no key. */
START_TEST(old_times_change_nothing)
{
    struct pl_blob b;
    char path[256];
    ck_assert(put("text", "binary"));
    path_of("text", path);
    const struct timespec t[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    ck_assert_int_eq(utimensat(AT_FDCWD, path, t, 0), 0);
    ck_assert_int_eq(get("text", &b), PL_STORE_HIT);
}
END_TEST

/* Case 12: every single-byte change, truncation and extension is a miss, and the file is gone afterwards. */
START_TEST(damage_is_a_miss)
{
    struct pl_blob b;
    char path[256];
    unsigned char whole[512];
    path_of("text", path);
    ck_assert(put("text", "binary"));
    FILE *f = fopen(path, "rb");
    size_t n = fread(whole, 1, sizeof whole, f);
    fclose(f);
    for (size_t i = 0; i < n * 3 + 1; i++) {
        unsigned char bad[600] = {0};
        size_t n_bad = n;
        memcpy(bad, whole, n);
        if (i < n)
            bad[i] ^= 0x40;
        else if (i < 2 * n)
            n_bad = i - n;
        else if (i < 3 * n)
            memset(bad + (i - 2 * n), 0, n - (i - 2 * n)), n_bad = n;
        else
            n_bad = n + 1;
        if (n_bad == n && memcmp(bad, whole, n) == 0)
            continue;
        f = fopen(path, "wb");
        ck_assert_uint_eq(fwrite(bad, 1, n_bad, f), n_bad);
        fclose(f);
        chmod(path, 0600);
        ck_assert_int_eq(get("text", &b), PL_STORE_CORRUPT);
        ck_assert_int_ne(access(path, F_OK), 0);
        ck_assert_int_eq(get("text", &b), PL_STORE_MISS);
    }
    ck_assert(put("text", "binary"));
    ck_assert_int_eq(get("text", &b), PL_STORE_HIT);
}
END_TEST

/* A whole entry under another's name: the stored key text decides. */
START_TEST(entry_under_a_wrong_name_is_refused)
{
    struct pl_blob b;
    char from[256], to[256];
    ck_assert(put("one", "binary of one"));
    ck_assert(put("two", "binary of two"));
    path_of("one", from);
    path_of("two", to);
    ck_assert_int_eq(rename(from, to), 0);
    ck_assert_int_eq(get("two", &b), PL_STORE_CORRUPT);
    ck_assert_str_eq(why, "made from other text");
}
END_TEST

/* Case 14. */
START_TEST(loose_folder_is_refused)
{
    struct pl_store s;
    ck_assert_int_eq(chmod(folder, 0777), 0);
    pl_store_open(&s, folder, false);
    ck_assert_int_eq(s.folder, -1);
    ck_assert_str_eq(s.why_off, "others may write to it");
    struct pl_content c = content_of("text");
    struct pl_stored what = {.code = {"x", 1}};
    ck_assert(pl_store_put(&s, &c, &what, &arena, why)); /* off: nothing to report */
    ck_assert_int_eq(pl_store_get(&s, &c, &arena, &what, why), PL_STORE_MISS);
    if (geteuid() == 0) {
        ck_assert_int_eq(chmod(folder, 0700), 0);
        ck_assert_int_eq(chown(folder, 12345, 12345), 0);
        pl_store_open(&s, folder, false);
        ck_assert_str_eq(s.why_off, "it belongs to another user");
    }
}
END_TEST

START_TEST(symbolic_link_is_refused)
{
    char link[80];
    struct pl_store s;
    snprintf(link, sizeof link, "%s.link", folder);
    ck_assert_int_eq(symlink(folder, link), 0);
    pl_store_open(&s, link, false);
    ck_assert_int_eq(s.folder, -1);
    ck_assert_str_ne(s.why_off, "");
    unlink(link);
}
END_TEST

/* Case 15. */
START_TEST(planted_entries_are_refused)
{
    struct pl_blob b;
    char path[256], other[280];
    ck_assert(put("text", "binary"));
    path_of("text", path);
    snprintf(other, sizeof other, "%s/second-name", folder);
    ck_assert_int_eq(link(path, other), 0);
    ck_assert_int_eq(get("text", &b), PL_STORE_CORRUPT);
    unlink(other);
    ck_assert(put("text", "binary"));
    ck_assert_int_eq(chmod(path, 0666), 0);
    ck_assert_int_eq(get("text", &b), PL_STORE_CORRUPT);
    ck_assert(put("text", "binary"));
    ck_assert_int_eq(rename(path, other), 0);
    ck_assert_int_eq(symlink(other, path), 0);
    ck_assert_int_eq(get("text", &b), PL_STORE_MISS); /* not followed */
    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(get("text", &b), PL_STORE_CORRUPT); /* and no hang on it */
    if (geteuid() == 0) {
        ck_assert(put("text", "binary"));
        ck_assert_int_eq(chown(path, 12345, 12345), 0);
        ck_assert_int_eq(get("text", &b), PL_STORE_CORRUPT);
    }
}
END_TEST

/* Cases 2 and 3, ENOSPC, EROFS, EDQUOT, ESTALE: told, nothing published, nothing left. */
static const int errors[] = {ENOSPC, EROFS, EDQUOT, ESTALE, EBUSY, EACCES, EIO};

START_TEST(failing_writes_leave_nothing)
{
    struct pl_blob b;
    int *const places[] = {&rename_errno, &fsync_errno, &write_errno};
    for (int p = 0; p < 3; p++) {
        *places[p] = errors[_i];
        ck_assert(!put("text", "binary"));
        ck_assert_str_ne(why, "");
        *places[p] = 0;
        ck_assert_int_eq(get("text", &b), PL_STORE_MISS);
        ck_assert_uint_eq(n_files("tmp."), 0);
    }
    unlink_errno = errors[_i]; /* cleaning up fails too */
    rename_errno = errors[_i];
    ck_assert(!put("text", "binary"));
    unlink_errno = rename_errno = 0;
    ck_assert(put("text", "binary"));
    ck_assert_int_eq(get("text", &b), PL_STORE_HIT);
}
END_TEST

/* A file limit cuts the write short: a real short write, not a shim. */
START_TEST(short_write_publishes_nothing)
{
    struct pl_blob b;
    const struct rlimit low = {40, RLIM_INFINITY}, high = {RLIM_INFINITY, RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &low), 0);
    ck_assert(!put("text", "a binary of more than forty bytes with its header"));
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &high), 0);
    ck_assert_int_eq(get("text", &b), PL_STORE_MISS);
}
END_TEST

/* Cases 1 and 17: writers killed at any moment, readers beside them; an entry is whole or absent, and nobody waits. */
START_TEST(killed_writers_do_no_harm)
{
    static char payload[200000];
    struct pl_blob b;
    memset(payload, 'x', sizeof payload - 1);
    unsigned n_hits = 0;
    /* on a busy machine no writer comes to its end so soon: then later ones are given longer */
    for (int round = 0; round < 60 || (n_hits == 0 && round < 600); round++) {
        char text[16];
        snprintf(text, sizeof text, "text%d", round % 4);
        pid_t pid = fork();
        if (pid == 0) {
            for (;;)
                (void)put(text, payload);
        }
        usleep((300 + (useconds_t)(round * 37 % 900)) << round / 60);
        enum pl_store_result before = get(text, &b);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        enum pl_store_result after = get(text, &b);
        ck_assert_int_ne(before, PL_STORE_CORRUPT);
        ck_assert_int_ne(after, PL_STORE_CORRUPT);
        if (after == PL_STORE_HIT) {
            n_hits++;
            ck_assert_uint_eq(b.n_bytes, sizeof payload - 1);
            ck_assert_mem_eq(b.data, payload, b.n_bytes);
        }
        pl_arena_fini(&arena);
    }
    ck_assert_uint_gt(n_hits, 0);
}
END_TEST

/* Case 1: two processes, one key, 200 rounds. */
START_TEST(two_processes_one_key)
{
    pid_t pid = fork();
    int n_bad = 0;
    for (int round = 0; round < 200; round++) {
        char text[16];
        struct pl_blob b;
        snprintf(text, sizeof text, "text%d", round);
        n_bad += !put(text, "binary");
        n_bad += get(text, &b) != PL_STORE_HIT;
    }
    if (pid == 0)
        _exit(n_bad == 0 ? 0 : 1);
    int status;
    waitpid(pid, &status, 0);
    ck_assert_int_eq(n_bad, 0);
    ck_assert_int_eq(status, 0);
}
END_TEST

/* Case 10 of runtime.md 11: a tier for containers. */
START_TEST(read_only_tier)
{
    struct pl_stored what;
    struct pl_store ro;
    struct pl_content c = content_of("text");
    char path[256];
    ck_assert(put("text", "binary"));
    pl_store_open(&ro, folder, true);
    ck_assert_str_eq(ro.why_off, "");
    ck_assert_int_eq(pl_store_get(&ro, &c, &arena, &what, why), PL_STORE_HIT);
    path_of("text", path);
    ck_assert_int_eq(truncate(path, 30), 0);
    ck_assert_int_eq(pl_store_get(&ro, &c, &arena, &what, why), PL_STORE_CORRUPT);
    ck_assert_int_eq(access(path, F_OK), 0); /* not ours to remove */
    what = (struct pl_stored){.code = {"new", 3}};
    ck_assert(pl_store_put(&ro, &c, &what, &arena, why));
    ck_assert_int_eq(pl_store_get(&ro, &c, &arena, &what, why),
                     PL_STORE_CORRUPT); /* and not written */
    pl_store_close(&ro);
    pl_store_open(&ro, "/nonexistent/plaunch", true);
    ck_assert_int_eq(ro.folder, -1);
}
END_TEST

/* Case 16: the limit holds within a fifth, the oldest go first, leftovers of killed writers after an hour. */
START_TEST(sweep_keeps_the_newest)
{
    struct pl_blob b;
    char text[16], path[256], payload[1001];
    memset(payload, 'x', 1000);
    payload[1000] = '\0';
    for (int i = 0; i < 20; i++) {
        snprintf(text, sizeof text, "text%d", i);
        ck_assert(put(text, payload));
        path_of(text, path);
        const struct timespec t[2] = {{.tv_sec = 1000000000 + i}, {.tv_sec = 1000000000 + i}};
        ck_assert_int_eq(utimensat(AT_FDCWD, path, t, 0), 0);
    }
    snprintf(path, sizeof path, "%s/tmp.old", folder);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    const struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    ck_assert_int_eq(futimens(fd, old), 0);
    close(fd);
    snprintf(path, sizeof path, "%s/tmp.new", folder);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    store.limit_bytes = 10000;
    pl_store_sweep(&store, NULL, true);
    ck_assert_uint_eq(n_files("tmp.old"), 0);
    ck_assert_uint_eq(n_files("tmp.new"), 1);
    for (int i = 0; i < 20; i++) {
        snprintf(text, sizeof text, "text%d", i);
        /* about 1100 bytes each: seven of them are within 8000 */
        ck_assert_int_eq(get(text, &b), i < 13 ? PL_STORE_MISS : PL_STORE_HIT);
    }
}
END_TEST

START_TEST(makes_its_folder_private)
{
    char path[128];
    struct stat st;
    struct pl_store s;
    snprintf(path, sizeof path, "%s/a/b/c", folder);
    mode_t old = umask(0);
    pl_store_open(&s, path, false);
    umask(old);
    ck_assert_str_eq(s.why_off, "");
    ck_assert_int_eq(fstat(s.folder, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0700);
    pl_store_close(&s);
}
END_TEST

START_TEST(default_folder)
{
    char path[256];
    setenv("PLAUNCH_CACHE_DIR", "/own", 1);
    setenv("XDG_CACHE_HOME", "/xdg", 1);
    setenv("HOME", "/a/place", 1);
    pl_store_default_path(path, sizeof path);
    ck_assert_str_eq(path, "/own");
    unsetenv("PLAUNCH_CACHE_DIR");
    pl_store_default_path(path, sizeof path);
    ck_assert_str_eq(path, "/xdg/plaunch");
    unsetenv("XDG_CACHE_HOME");
    pl_store_default_path(path, sizeof path);
    ck_assert_str_eq(path, "/a/place/.cache/plaunch");
    unsetenv("HOME");
    pl_store_default_path(path, sizeof path);
    ck_assert_str_eq(path, "");
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("runtime_store");
    TCase *t = tcase_create("store");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, what_was_put_is_got);
    tcase_add_test(t, key_is_text_target_assembler_options);
    tcase_add_test(t, old_times_change_nothing);
    tcase_add_test(t, damage_is_a_miss);
    tcase_add_test(t, entry_under_a_wrong_name_is_refused);
    tcase_add_test(t, loose_folder_is_refused);
    tcase_add_test(t, symbolic_link_is_refused);
    tcase_add_test(t, planted_entries_are_refused);
    tcase_add_loop_test(t, failing_writes_leave_nothing, 0, (int)(sizeof errors / sizeof *errors));
    tcase_add_test(t, short_write_publishes_nothing);
    tcase_add_test(t, killed_writers_do_no_harm);
    tcase_add_test(t, two_processes_one_key);
    tcase_add_test(t, read_only_tier);
    tcase_add_test(t, sweep_keeps_the_newest);
    tcase_add_test(t, makes_its_folder_private);
    tcase_add_test(t, default_folder);
    suite_add_tcase(s, t);
    return s;
}
