#include "bench/toolkit.h"

#include "base/os.h"

#include <string.h>

/* The functions of the first library that is there, into `table` in order. */
static bool find(const char *const *libraries, size_t n_libraries, const char *const *functions,
                 size_t n_functions, void *table)
{
    void *lib = NULL;
    for (size_t i = 0; i < n_libraries && lib == NULL; i++)
        lib = pl_os_lib_open(libraries[i], NULL, 0);
    for (size_t i = 0; i < n_functions; i++) {
        void *f = lib == NULL ? NULL : pl_os_lib_sym(lib, functions[i]);
        if (f == NULL)
            return false;
        memcpy((char *)table + i * sizeof f, &f, sizeof f);
    }
    return true;
}

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

bool pl_bench_find_nvrtc(struct pl_bench_nvrtc *n)
{
    static const char *const libraries[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    static const char *const functions[] = {"nvrtcCreateProgram", "nvrtcCompileProgram",
                                            "nvrtcGetCUBINSize",  "nvrtcGetPTXSize",
                                            "nvrtcGetPTX",        "nvrtcDestroyProgram"};
    _Static_assert(sizeof *n == COUNT(functions) * sizeof(void *), "a name for each function");
    return find(libraries, COUNT(libraries), functions, COUNT(functions), n);
}

bool pl_bench_find_nvjitlink(struct pl_bench_nvjitlink *n)
{
    static const char *const libraries[] = {"libnvJitLink.so.13", "libnvJitLink.so.12",
                                            "libnvJitLink.so"};
    static const char *const functions[] = {
        "nvJitLinkCreate",         "nvJitLinkAddData",
        "nvJitLinkComplete",       "nvJitLinkGetLinkedCubinSize",
        "nvJitLinkGetInfoLogSize", "nvJitLinkGetInfoLog",
        "nvJitLinkDestroy"};
    _Static_assert(sizeof *n == COUNT(functions) * sizeof(void *), "a name for each function");
    return find(libraries, COUNT(libraries), functions, COUNT(functions), n);
}
