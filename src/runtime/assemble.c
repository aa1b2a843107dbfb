#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "src/runtime/assemble.h"

#include "base/buf.h"
#include "base/os.h"
#include "src/runtime/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOG_BYTES = 8192 };
static const struct pl_where nowhere = {0};

/* ---- remarks that mean slow code ---- */

static const char *const slow_words[] = {"serialized", "spill", "setmaxnreg"};

/* The log's lines that mean slow code; "0 bytes spill" is praise. "" when none. */
static const char *slow_notes(struct pl_arena *arena, const char *log)
{
    struct pl_buf out;
    pl_buf_init(&out, arena, 64);
    while (*log != '\0') {
        size_t n = strcspn(log, "\n");
        char line[256];
        snprintf(line, sizeof line, "%.*s", (int)(n < sizeof line ? n : sizeof line - 1), log);
        for (size_t i = 0; i < sizeof slow_words / sizeof *slow_words; i++) {
            if (strstr(line, slow_words[i]) == NULL ||
                strstr(line, " 0 bytes spill stores") != NULL)
                continue;
            if (out.n_bytes != 0)
                pl_buf_puts(&out, "; ");
            pl_buf_puts(&out, line);
            break;
        }
        log += n + (log[n] == '\n');
    }
    return out.n_bytes != 0 ? out.text : "";
}

/* ---- identity, and the driver's own loader ---- */

static pl_status keep_text(const struct pl_assembler *a, const struct pl_driver *driver,
                           const struct pl_asm_request *q, struct pl_asm_result *out,
                           struct pl_call *call)
{
    (void)a, (void)driver, (void)call;
    *out = (struct pl_asm_result){.code = q->text, .notes = ""};
    return PL_OK;
}

/* ---- the driver's linker ---- */

struct link_logs {
    int options[5];
    void *values[5];
    char error[LOG_BYTES], info[LOG_BYTES];
};

static pl_status link_text(const struct pl_driver *d, pl_cu_link link,
                           const struct pl_asm_request *q, struct link_logs *logs,
                           struct pl_asm_result *out, struct pl_call *call)
{
    void *cubin = NULL;
    size_t n_bytes = 0;
    pl_cu_result r = d->cu.LinkAddData(link, PL_CU_JIT_INPUT_PTX, (void *)(uintptr_t)q->text.data,
                                       q->text.n_bytes + 1, q->kernel, 0, NULL, NULL);
    if (r == PL_CU_SUCCESS)
        r = d->cu.LinkComplete(link, &cubin, &n_bytes);
    if (r != PL_CU_SUCCESS) {
        call->driver_code = r;
        return pl_e_assembler(call, PL_E_ASSEMBLER, nowhere, "the driver's linker", q->kernel,
                              logs->error[0] != '\0' ? logs->error : pl_driver_error_name(d, r));
    }
    if (n_bytes == 0)
        return pl_e_assembler_empty(call, PL_E_ASSEMBLER, nowhere, "the driver's linker",
                                    q->kernel);
    char *copy = pl_arena_strndup(q->arena, cubin, n_bytes);
    if (copy == NULL)
        return pl_e_out_of_memory(call, PL_E_NOMEM, nowhere, "the binary");
    *out =
        (struct pl_asm_result){.code = {copy, n_bytes}, .notes = slow_notes(q->arena, logs->info)};
    return PL_OK;
}

static pl_status run_driver(const struct pl_assembler *a, const struct pl_driver *d,
                            const struct pl_asm_request *q, struct pl_asm_result *out,
                            struct pl_call *call)
{
    (void)a;
    struct link_logs logs = {
        .options = {PL_CU_JIT_ERROR_LOG_BUFFER, PL_CU_JIT_ERROR_LOG_BYTES,
                    PL_CU_JIT_INFO_LOG_BUFFER, PL_CU_JIT_INFO_LOG_BYTES, PL_CU_JIT_LOG_VERBOSE},
    };
    logs.values[0] = logs.error;
    logs.values[1] = logs.values[3] = (void *)(uintptr_t)(LOG_BYTES - 1);
    logs.values[2] = logs.info;
    logs.values[4] = (void *)(uintptr_t)1; /* without it spills are not told */
    pl_cu_link link;
    pl_cu_result r = d->cu.LinkCreate(5, logs.options, logs.values, &link);
    if (r != PL_CU_SUCCESS) {
        call->driver_code = r;
        return pl_e_assembler_absent(call, PL_E_ASSEMBLER, nowhere, "the driver's linker",
                                     pl_driver_error_name(d, r));
    }
    pl_status st = link_text(d, link, q, &logs, out, call);
    (void)d->cu.LinkDestroy(link);
    return st;
}

/* ---- nvJitLink, by name. Source: nvJitLink documentation, API reference ---- */

typedef struct nvjitlink *nvjitlink_handle;
enum { NVJITLINK_PTX = 2 };

struct nvjitlink_api {
    int (*create)(nvjitlink_handle *, uint32_t, const char **);
    int (*destroy)(nvjitlink_handle *);
    int (*add)(nvjitlink_handle, int, const void *, size_t, const char *);
    int (*complete)(nvjitlink_handle);
    int (*cubin_size)(nvjitlink_handle, size_t *);
    int (*cubin)(nvjitlink_handle, void *);
    int (*error_size)(nvjitlink_handle, size_t *);
    int (*error)(nvjitlink_handle, char *);
    int (*info_size)(nvjitlink_handle, size_t *);
    int (*info)(nvjitlink_handle, char *);
    int (*version)(unsigned *, unsigned *);
};

static const char *const nvjitlink_names[] = {"nvJitLinkCreate",
                                              "nvJitLinkDestroy",
                                              "nvJitLinkAddData",
                                              "nvJitLinkComplete",
                                              "nvJitLinkGetLinkedCubinSize",
                                              "nvJitLinkGetLinkedCubin",
                                              "nvJitLinkGetErrorLogSize",
                                              "nvJitLinkGetErrorLog",
                                              "nvJitLinkGetInfoLogSize",
                                              "nvJitLinkGetInfoLog",
                                              "nvJitLinkVersion"};
_Static_assert(sizeof nvjitlink_names / sizeof *nvjitlink_names * sizeof(void *) ==
                   sizeof(struct nvjitlink_api),
               "a name for each function, in order");

static bool find_nvjitlink(void *lib, struct nvjitlink_api *api)
{
    for (size_t i = 0; i < sizeof nvjitlink_names / sizeof *nvjitlink_names; i++) {
        void *f = pl_os_lib_sym(lib, nvjitlink_names[i]);
        if (f == NULL)
            return false;
        memcpy((char *)api + i * sizeof f, &f, sizeof f);
    }
    return true;
}

static const char *read_log(struct pl_arena *arena, nvjitlink_handle h,
                            int (*size)(nvjitlink_handle, size_t *),
                            int (*get)(nvjitlink_handle, char *))
{
    size_t n_bytes = 0;
    if (size(h, &n_bytes) != 0 || n_bytes == 0)
        return "";
    char *text = pl_arena_alloc(arena, n_bytes + 1);
    return text != NULL && get(h, text) == 0 ? text : "";
}

static pl_status link_nvjitlink(const struct pl_assembler *a, const struct nvjitlink_api *api,
                                nvjitlink_handle h, const struct pl_asm_request *q,
                                struct pl_asm_result *out, struct pl_call *call)
{
    size_t n_bytes = 0;
    int r = api->add(h, NVJITLINK_PTX, q->text.data, q->text.n_bytes + 1, q->kernel);
    if (r == 0)
        r = api->complete(h);
    if (r != 0) {
        const char *log = read_log(q->arena, h, api->error_size, api->error);
        return pl_e_assembler(call, PL_E_ASSEMBLER, nowhere, a->id, q->kernel,
                              log[0] != '\0' ? log : "no log");
    }
    if (api->cubin_size(h, &n_bytes) != 0 || n_bytes == 0)
        return pl_e_assembler_empty(call, PL_E_ASSEMBLER, nowhere, a->id, q->kernel);
    void *cubin = pl_arena_alloc(q->arena, n_bytes);
    if (cubin == NULL)
        return pl_e_out_of_memory(call, PL_E_NOMEM, nowhere, "the binary");
    if (api->cubin(h, cubin) != 0)
        return pl_e_assembler_empty(call, PL_E_ASSEMBLER, nowhere, a->id, q->kernel);
    const char *info = read_log(q->arena, h, api->info_size, api->info);
    *out = (struct pl_asm_result){.code = {cubin, n_bytes}, .notes = slow_notes(q->arena, info)};
    return PL_OK;
}

static pl_status run_nvjitlink(const struct pl_assembler *a, const struct pl_driver *d,
                               const struct pl_asm_request *q, struct pl_asm_result *out,
                               struct pl_call *call)
{
    (void)d;
    struct nvjitlink_api api;
    nvjitlink_handle h;
    char arch[32];
    snprintf(arch, sizeof arch, "-arch=%s", q->target);
    const char *options[2] = {arch, "-verbose"}; /* without it spills are not told */
    if (!find_nvjitlink(a->lib, &api) || api.create(&h, 2, options) != 0)
        return pl_e_assembler_absent(call, PL_E_ASSEMBLER, nowhere, a->id, "it does not start");
    pl_status st = link_nvjitlink(a, &api, h, q, out, call);
    (void)api.destroy(&h);
    return st;
}

static bool open_nvjitlink(struct pl_assembler *a, const struct pl_driver *driver)
{
    char name[32];
    for (int major = driver->version / 1000; major >= 12; major--) {
        struct nvjitlink_api api;
        unsigned v[2] = {0, 0};
        snprintf(name, sizeof name, "libnvJitLink.so.%d", major);
        void *lib = pl_os_lib_open(name, NULL, 0);
        if (lib == NULL)
            continue;
        if (find_nvjitlink(lib, &api) && api.version(&v[0], &v[1]) == 0) {
            *a = (struct pl_assembler){.run = run_nvjitlink, .lib = lib, .is_cacheable = true};
            snprintf(a->id, sizeof a->id, "nvjitlink %u.%u", v[0], v[1]);
            return true;
        }
        pl_os_lib_close(lib);
    }
    return false;
}

/* ---- ptxas, in a process of its own ---- */

extern char **environ;

/* Beside exit statuses. Unknown: the program ignores SIGCHLD, or some thread of it waits for all children. */
enum { NOT_STARTED = -1, STATUS_UNKNOWN = -2 };

/* Run a program with its output collected (cut to n_bytes); its exit status, or NOT_STARTED with errno. No shell is involved. */
static int run_program(char *const argv[], char *log, size_t n_bytes)
{
    int pipe_fds[2], status = -1;
    pid_t pid;
    posix_spawn_file_actions_t actions;
    log[0] = '\0';
    if (pipe2(pipe_fds, O_CLOEXEC) != 0)
        return NOT_STARTED;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDERR_FILENO);
    int r = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_fds[1]);
    for (size_t n = 0; r == 0;) {
        char rest[256];
        bool is_full = n + 1 >= n_bytes;
        ssize_t got = is_full ? read(pipe_fds[0], rest, sizeof rest)
                              : read(pipe_fds[0], log + n, n_bytes - 1 - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        if (!is_full)
            log[n += (size_t)got] = '\0';
    }
    close(pipe_fds[0]);
    if (r != 0) {
        errno = r;
        return NOT_STARTED;
    }
    while (r = waitpid(pid, &status, 0), r < 0 && errno == EINTR)
        ;
    if (r < 0)
        return STATUS_UNKNOWN;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

struct files {
    char folder[64], text[80], cubin[80];
};

static bool write_text(struct files *f, struct pl_blob text)
{
    const char *where = pl_os_getenv("TMPDIR");
    if (where == NULL || strlen(where) > 32)
        where = "/tmp";
    snprintf(f->folder, sizeof f->folder, "%s/plaunch.XXXXXX", where);
    if (mkdtemp(f->folder) == NULL)
        return false;
    snprintf(f->text, sizeof f->text, "%s/k.ptx", f->folder);
    snprintf(f->cubin, sizeof f->cubin, "%s/k.cubin", f->folder);
    FILE *out = fopen(f->text, "wbx");
    if (out == NULL)
        return false;
    bool is_written = fwrite(text.data, 1, text.n_bytes, out) == text.n_bytes;
    return fclose(out) == 0 && is_written;
}

static void remove_files(const struct files *f)
{
    (void)unlink(f->text);
    (void)unlink(f->cubin);
    (void)rmdir(f->folder);
}

/* A whole file in the arena; n_bytes 0 when it is absent or empty. */
static struct pl_blob read_file(const char *path, struct pl_arena *arena)
{
    struct pl_blob none = {NULL, 0};
    FILE *in = fopen(path, "rb");
    struct stat st;
    if (in == NULL)
        return none;
    char *data = fstat(fileno(in), &st) == 0 && st.st_size > 0
                     ? pl_arena_alloc(arena, (size_t)st.st_size)
                     : NULL;
    size_t n_bytes = data != NULL ? fread(data, 1, (size_t)st.st_size, in) : 0;
    fclose(in);
    return data != NULL && n_bytes == (size_t)st.st_size ? (struct pl_blob){data, n_bytes} : none;
}

static pl_status run_ptxas(const struct pl_assembler *a, const struct pl_driver *d,
                           const struct pl_asm_request *q, struct pl_asm_result *out,
                           struct pl_call *call)
{
    (void)d;
    struct files f = {.text = ""};
    char arch[32], program[sizeof a->path], log[LOG_BYTES];
    if (!write_text(&f, q->text)) {
        remove_files(&f);
        return pl_e_assembler_absent(call, PL_E_ASSEMBLER, nowhere, a->id,
                                     "no temporary file can be written");
    }
    snprintf(arch, sizeof arch, "-arch=%s", q->target);
    snprintf(program, sizeof program, "%s", a->path);
    char verbose[] = "-v", to[] = "-o";
    char *argv[] = {program, arch, verbose, to, f.cubin, f.text, NULL};
    int status = run_program(argv, log, sizeof log), error = errno;
    bool may_be_there = status == 0 || status == STATUS_UNKNOWN;
    struct pl_blob code = may_be_there ? read_file(f.cubin, q->arena) : (struct pl_blob){NULL, 0};
    remove_files(&f);
    if (status == NOT_STARTED)
        return pl_e_assembler_absent(call, PL_E_ASSEMBLER, nowhere, a->id, strerrordesc_np(error));
    if (!may_be_there)
        return pl_e_assembler(call, PL_E_ASSEMBLER, nowhere, a->id, q->kernel,
                              log[0] != '\0' ? log : "no log");
    bool is_binary = code.n_bytes >= 4 && memcmp(code.data, "\177ELF", 4) == 0;
    if (!is_binary && status == STATUS_UNKNOWN)
        return pl_e_assembler_absent(call, PL_E_ASSEMBLER, nowhere, a->id,
                                     "it wrote no binary, and how it ended cannot be told, since "
                                     "the program ignores SIGCHLD or waits for all children");
    if (!is_binary)
        return pl_e_assembler_empty(call, PL_E_ASSEMBLER, nowhere, a->id, q->kernel);
    *out = (struct pl_asm_result){.code = code, .notes = slow_notes(q->arena, log)};
    return PL_OK;
}

/* "release 13.0, V13.0.88" in the version text. */
static bool read_version(const char *text, int *major, int *minor)
{
    const char *p = strstr(text, "release ");
    return p != NULL && sscanf(p, "release %d.%d", major, minor) == 2;
}

/* CUDA_HOME/bin/ptxas, else the first on PATH. */
static bool find_ptxas(char *out, size_t n_bytes)
{
    const char *home = pl_os_getenv("CUDA_HOME");
    if (home != NULL) {
        snprintf(out, n_bytes, "%s/bin/ptxas", home);
        if (access(out, X_OK) == 0)
            return true;
    }
    const char *path = pl_os_getenv("PATH");
    while (path != NULL && *path != '\0') {
        size_t n = strcspn(path, ":");
        if (n != 0 && (size_t)snprintf(out, n_bytes, "%.*s/ptxas", (int)n, path) < n_bytes &&
            access(out, X_OK) == 0)
            return true;
        path += n + (path[n] == ':');
    }
    return false;
}

pl_status pl_assembler_find_isolated(struct pl_assembler *a, const struct pl_driver *driver,
                                     struct pl_call *call)
{
    char log[LOG_BYTES], flag[] = "--version";
    int major = 0, minor = 0, status;
    if (driver->is_emulated) {
        pl_assembler_choose(a, driver);
        return PL_OK;
    }
    *a = (struct pl_assembler){.run = run_ptxas, .is_cacheable = true};
    if (!find_ptxas(a->path, sizeof a->path))
        return pl_e_assembler_absent(call, PL_E_ASSEMBLER, nowhere, "ptxas",
                                     "it is neither in CUDA_HOME/bin nor on PATH");
    char *argv[] = {a->path, flag, NULL};
    status = run_program(argv, log, sizeof log);
    if ((status != 0 && status != STATUS_UNKNOWN) || !read_version(log, &major, &minor))
        return pl_e_assembler_absent(call, PL_E_ASSEMBLER, nowhere, "ptxas",
                                     "it does not tell its version");
    if (major > driver->version / 1000)
        return pl_e_assembler_absent(call, PL_E_ASSEMBLER, nowhere, "ptxas",
                                     "its CUDA is newer than the driver's");
    snprintf(a->id, sizeof a->id, "ptxas %d.%d", major, minor);
    return PL_OK;
}

/* ---- choice ---- */

void pl_assembler_choose(struct pl_assembler *a, const struct pl_driver *driver)
{
    *a = (struct pl_assembler){.run = keep_text};
    if (driver->is_emulated) {
        snprintf(a->id, sizeof a->id, "ptx");
        a->is_cacheable = true;
        return;
    }
    if (open_nvjitlink(a, driver))
        return;
    if (driver->cu.LinkCreate != NULL && driver->cu.LinkAddData != NULL &&
        driver->cu.LinkComplete != NULL && driver->cu.LinkDestroy != NULL) {
        *a = (struct pl_assembler){.run = run_driver, .is_cacheable = true};
        snprintf(a->id, sizeof a->id, "driver %d.%d", driver->version / 1000,
                 driver->version % 1000 / 10);
        return;
    }
    snprintf(a->id, sizeof a->id, "jit");
}

bool pl_assembler_has_refused(const pl_error *e)
{
    return e->code == pl_di_assembler.code || e->code == pl_di_slow_code.code;
}

pl_status pl_assemble(const struct pl_assembler *a, const struct pl_driver *driver,
                      const struct pl_asm_request *request, struct pl_asm_result *result,
                      struct pl_call *call)
{
    return a->run(a, driver, request, result, call);
}
