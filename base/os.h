#ifndef PL_BASE_OS_H
#define PL_BASE_OS_H
/* The one place that knows the operating system beyond C11 and POSIX threads: clocks, shared libraries, processes. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t pl_os_now_ns(void);                /* monotonic */
uint64_t pl_os_thread_id(void);             /* never 0 */
unsigned pl_os_n_cpus(void);                /* usable by this process; at least 1 */
const char *pl_os_getenv(const char *name); /* NULL in a set-uid process; never on the warm path */

/*
 * A word that is 1 in this process and reads 0 in a forked child: the cheapest test for "am I still who I was". NULL where the
 * system has none (then compare process ids). Given back with pl_os_fork_mark_destroy.
 */
const uint32_t *pl_os_fork_mark_create(void);
void pl_os_fork_mark_destroy(const uint32_t *mark);

/* A file of n_bytes that exists in memory only, to be mapped more than once; -1: the system gives none. Closed with close(). */
int pl_os_memory_file(uint64_t n_bytes);

/* Shared libraries, RTLD_LOCAL | RTLD_NOW. `why` (may be NULL) receives the loader's text, cut to n_bytes. */
void *pl_os_lib_open(const char *path, char *why, size_t n_bytes);
void *pl_os_lib_sym(void *lib, const char *name);
void pl_os_lib_close(void *lib);
/* Folder of the library or program that holds `address`; false when unknown. */
bool pl_os_folder_of(const void *address, char *out, size_t n_bytes);
#endif
