#include "tests/ptxas.h"

#include <elf.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* PL_CUDA_HOME/bin/NAME, else NAME on PATH. */
static const char *find_tool(const char *name, char path[1024])
{
    const char *home = getenv("PL_CUDA_HOME"), *search = getenv("PATH");
    if (home != NULL && *home != '\0') {
        snprintf(path, 1024, "%s/bin/%s", home, name);
        if (access(path, X_OK) == 0)
            return path;
    }
    for (const char *p = search; p != NULL && *p != '\0';) {
        size_t n = strcspn(p, ":");
        snprintf(path, 1024, "%.*s/%s", (int)n, p, name);
        if (access(path, X_OK) == 0)
            return path;
        p += n + (p[n] == ':');
    }
    return NULL;
}

const char *ptxas_path(void)
{
    static char path[1024];
    return find_tool("ptxas", path);
}

const char *nvcc_path(void)
{
    static char path[1024];
    return find_tool("nvcc", path);
}

static bool write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    return f != NULL && fputs(text, f) >= 0 && fclose(f) == 0;
}

static unsigned char *read_file(const char *path, size_t *n_bytes)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return NULL;
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    unsigned char *data = calloc(1, (size_t)n + 1);
    *n_bytes = fread(data, 1, (size_t)n, f);
    fclose(f);
    return data;
}

static bool run(const char *const argv[], const char *log)
{
    posix_spawn_file_actions_t to_log;
    posix_spawn_file_actions_init(&to_log);
    posix_spawn_file_actions_addopen(&to_log, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&to_log, 1, 2);
    pid_t pid;
    int status = -1;
    char *args[8];
    memcpy(args, argv, sizeof args);
    bool is_run = posix_spawn(&pid, argv[0], &to_log, NULL, args, environ) == 0 &&
                  waitpid(pid, &status, 0) == pid;
    posix_spawn_file_actions_destroy(&to_log);
    return is_run && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Run a tool that makes a file named out; args end with NULL. The file's bytes, or NULL with the first line it said in why. */
static unsigned char *make_file(const char *const argv[8], const char *out, const char *log,
                                size_t *n_bytes, char *why)
{
    unsigned char *made = run(argv, log) ? read_file(out, n_bytes) : NULL;
    if (made == NULL) {
        size_t n_log;
        unsigned char *said = read_file(log, &n_log);
        snprintf(why, 200, "%.*s", said == NULL ? 0 : (int)strcspn((char *)said, "\n"),
                 said == NULL ? "" : (char *)said);
        free(said);
    }
    unlink(out);
    unlink(log);
    return made;
}

unsigned char *ptxas_assemble(const char *text, const char *arch, size_t *n_bytes, char *why)
{
    char dir[] = "/tmp/plaunch-ptxas-XXXXXX", in[64], out[64], log[64], target[32];
    unsigned char *cubin = NULL;
    if (mkdtemp(dir) == NULL)
        return NULL;
    snprintf(in, sizeof in, "%s/k.ptx", dir);
    snprintf(out, sizeof out, "%s/k.cubin", dir);
    snprintf(log, sizeof log, "%s/log", dir);
    snprintf(target, sizeof target, "-arch=%s", arch);
    const char *const argv[8] = {ptxas_path(), "-O3", target, in, "-o", out, NULL};
    if (write_file(in, text))
        cubin = make_file(argv, out, log, n_bytes, why);
    unlink(in);
    rmdir(dir);
    return cubin;
}

char *nvcc_compile(const char *source, const char *arch, size_t *n_bytes, char *why)
{
    char dir[] = "/tmp/plaunch-nvcc-XXXXXX", out[64], log[64], target[32];
    if (mkdtemp(dir) == NULL)
        return NULL;
    snprintf(out, sizeof out, "%s/k.ptx", dir);
    snprintf(log, sizeof log, "%s/log", dir);
    snprintf(target, sizeof target, "-arch=%s", arch);
    const char *const argv[8] = {nvcc_path(), "-ptx", target, source, "-o", out, NULL};
    char *text = (char *)make_file(argv, out, log, n_bytes, why);
    rmdir(dir);
    return text;
}

const unsigned char *elf_section(const unsigned char *elf, size_t elf_n_bytes, const char *name,
                                 size_t *n_bytes)
{
    Elf64_Ehdr head;
    if (elf_n_bytes < sizeof head)
        return NULL;
    memcpy(&head, elf, sizeof head);
    if (head.e_shoff + (uint64_t)head.e_shnum * sizeof(Elf64_Shdr) > elf_n_bytes)
        return NULL;
    Elf64_Shdr names, s;
    memcpy(&names, elf + head.e_shoff + head.e_shstrndx * sizeof names, sizeof names);
    for (unsigned i = 0; i < head.e_shnum; i++) {
        memcpy(&s, elf + head.e_shoff + i * sizeof s, sizeof s);
        if (strcmp((const char *)elf + names.sh_offset + s.sh_name, name) == 0) {
            *n_bytes = s.sh_size;
            return elf + s.sh_offset;
        }
    }
    return NULL;
}
