#ifndef PL_BENCH_TOOLKIT_H
#define PL_BENCH_TOOLKIT_H
/* What benches compare with: NVRTC and nvJitLink, opened by name where they are. Source: their documentation, API reference. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pl_bench_nvrtc {
    int (*create)(void **, const char *, const char *, int, const char *const *,
                  const char *const *);
    int (*compile)(void *, int, const char *const *);
    int (*cubin_size)(void *, size_t *);
    int (*ptx_size)(void *, size_t *);
    int (*ptx)(void *, char *);
    int (*destroy)(void **);
};
bool pl_bench_find_nvrtc(struct pl_bench_nvrtc *n);

struct pl_bench_nvjitlink {
    int (*create)(void **, uint32_t, const char **);
    int (*add)(void *, int, const void *, size_t, const char *);
    int (*complete)(void *);
    int (*cubin_size)(void *, size_t *);
    int (*info_size)(void *, size_t *);
    int (*info)(void *, char *);
    int (*destroy)(void **);
};
enum { PL_BENCH_NVJITLINK_PTX = 2 };
bool pl_bench_find_nvjitlink(struct pl_bench_nvjitlink *n);
#endif
