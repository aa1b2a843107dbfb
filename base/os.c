#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/os.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint64_t pl_os_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t pl_os_thread_id(void) { return (uint64_t)syscall(SYS_gettid); }

unsigned pl_os_n_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return (unsigned)CPU_COUNT(&set);
    return 1;
}

const char *pl_os_getenv(const char *name) { return secure_getenv(name); }

enum { MARK_BYTES = 4096 };

const uint32_t *pl_os_fork_mark_create(void)
{
#ifdef MADV_WIPEONFORK
    uint32_t *mark =
        mmap(NULL, MARK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mark == MAP_FAILED)
        return NULL;
    if (madvise(mark, MARK_BYTES, MADV_WIPEONFORK) == 0) {
        *mark = 1;
        return mark;
    }
    munmap(mark, MARK_BYTES);
#endif
    return NULL;
}

void pl_os_fork_mark_destroy(const uint32_t *mark)
{
    if (mark != NULL)
        munmap((void *)(uintptr_t)mark, MARK_BYTES);
}

int pl_os_memory_file(uint64_t n_bytes)
{
    int file = memfd_create("plaunch", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, (off_t)n_bytes) != 0) {
        close(file);
        return -1;
    }
    return file;
}

void *pl_os_lib_open(const char *path, char *why, size_t n_bytes)
{
    void *lib = dlopen(path, RTLD_LOCAL | RTLD_NOW);
    if (lib == NULL && why != NULL && n_bytes != 0) {
        const char *text = dlerror();
        snprintf(why, n_bytes, "%s", text != NULL ? text : "unknown loader error");
    }
    return lib;
}

void *pl_os_lib_sym(void *lib, const char *name) { return dlsym(lib, name); }
void pl_os_lib_close(void *lib) { dlclose(lib); }

bool pl_os_folder_of(const void *address, char *out, size_t n_bytes)
{
    Dl_info info;
    if (dladdr(address, &info) == 0 || info.dli_fname == NULL)
        return false;
    char real[4096];
    if (realpath(info.dli_fname, real) == NULL)
        return false;
    char *slash = strrchr(real, '/');
    if (slash == NULL || (size_t)(slash - real) + 1 > n_bytes)
        return false;
    *slash = '\0';
    memcpy(out, real, (size_t)(slash - real) + 1);
    return true;
}
