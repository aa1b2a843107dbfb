#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
/* See nodriver.h. Generated from cuda.def: adding a driver function is a row there, and nothing here unless it has an output. */
#include "tests/nodriver.h"

#include "base/debug.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

static struct nodriver nd = {.driver_version = 13000, .n_devices = 1, .arch = 90};
static unsigned n_loaded;

EXPORT struct nodriver *nodriver_state(void);
EXPORT struct nodriver *nodriver_state(void) { return &nd; }

/* Says that text is its own binary here, as on the emulated driver: no assembler has a part in these tests. */
EXPORT int plaunch_emu_version(void);
EXPORT int plaunch_emu_version(void) { return 0; }

/* ---- contexts: handles are small numbers with the device in them ---- */

static _Thread_local pl_cu_context stack[ND_STACK];
static _Thread_local int depth;

static pl_cu_context nd_primary(int device)
{
    return (pl_cu_context)(uintptr_t)(0x1000 + device * 16);
}
static pl_cu_context nd_current(void) { return depth != 0 ? stack[depth - 1] : NULL; }
static void nd_push(pl_cu_context c) { stack[depth++] = c; }
static pl_cu_context nd_pop(void) { return depth != 0 ? stack[--depth] : NULL; }
static int nd_device(void) { return (int)(((uintptr_t)nd_current() >> 4) & 0xf); }

/* A stream's address names its context: 0x5000 + context. */
static pl_cu_context nd_stream_context(pl_cu_stream s)
{
    return (pl_cu_context)((uintptr_t)s - 0x4000);
}

static void nd_exchange_mode(int *mode)
{
    static _Thread_local int current;
    int old = current;
    current = *mode;
    *mode = old;
}

/* ---- devices ---- */

static void nd_name(char *name, int n_bytes)
{
    if (n_bytes > 0)
        strncpy(name, "do-nothing device", (size_t)n_bytes - 1)[n_bytes - 1] = '\0';
}

static int nd_attribute(int attribute)
{
    switch (attribute) {
    case PL_CU_ATTR_CC_MAJOR: return nd.arch / 10;
    case PL_CU_ATTR_CC_MINOR: return nd.arch % 10;
    case PL_CU_ATTR_N_SMS: return 132;
    case PL_CU_ATTR_MAX_SMEM_OPTIN: return 232448;
    case PL_CU_ATTR_MAX_THREADS_PER_SM: return 2048;
    default: return 1;
    }
}

/* ---- code: a library is a number; so are its kernel and function ---- */

enum { MAX_LIBRARIES = 1 << 16 };
static char is_unloaded[MAX_LIBRARIES];

static size_t number_of(const void *handle)
{
    return ((uintptr_t)handle - 0x10000) / 16 % MAX_LIBRARIES;
}
static void nd_unload(pl_cu_library l)
{
    __atomic_store_n(&is_unloaded[number_of(l)], 1, __ATOMIC_SEQ_CST);
}

static pl_cu_library nd_library(const void *code)
{
    (void)code;
    if (nd.load_ns != 0) {
        struct timespec t = {.tv_nsec = (long)nd.load_ns};
        nanosleep(&t, NULL);
    }
    return (pl_cu_library)(uintptr_t)(0x10000 +
                                      16 * __atomic_add_fetch(&n_loaded, 1, __ATOMIC_SEQ_CST));
}
static pl_cu_kernel nd_kernel(pl_cu_library l) { return (pl_cu_kernel)((uintptr_t)l + 1); }
static pl_cu_function nd_function(pl_cu_kernel k) { return (pl_cu_function)((uintptr_t)k + 1); }

/* The linker's binary is the text. */
static _Thread_local void *linked;
static _Thread_local size_t linked_bytes;

static pl_cu_link nd_link(void) { return (pl_cu_link)(uintptr_t)1; }
static void nd_link_add(void *data, size_t n_bytes)
{
    free(linked);
    linked = malloc(n_bytes);
    linked_bytes = linked != NULL ? n_bytes : 0;
    if (linked != NULL)
        memcpy(linked, data, n_bytes);
}
static void nd_link_complete(void **out, size_t *n_bytes)
{
    *out = linked;
    *n_bytes = linked_bytes;
}

/* ---- launch and memory ---- */

static void nd_launch(const pl_cu_launch_config *config, pl_cu_function function, void **params,
                      void **extra)
{
    if (__atomic_load_n(&is_unloaded[number_of(function)], __ATOMIC_SEQ_CST))
        __atomic_add_fetch(&nd.n_unloaded_launches, 1, __ATOMIC_SEQ_CST);
    if (!nd.is_recording)
        return;
    nd.config = *config;
    for (unsigned i = 0; i < config->n_attrs && i < PL_COUNT(nd.attrs); i++)
        nd.attrs[i] = config->attrs[i];
    nd.block_bytes = 0;
    if (params == NULL && extra != NULL && extra[0] == PL_CU_PARAM_BUFFER)
        nd.block_bytes = *(size_t *)extra[3];
    if (nd.block_bytes != 0 && nd.block_bytes <= sizeof nd.block)
        memcpy(nd.block, extra[1], nd.block_bytes);
}

static void nd_encode(pl_cu_tensor_map *map, const void *address, const uint64_t *dims)
{
    memset(map, 0, sizeof *map);
    map->words[0] = (uint64_t)(uintptr_t)address;
    map->words[1] = dims[0] | (uint64_t)1 << (85 - 64); /* the bit of case 37 */
}

static pl_cu_ptr nd_alloc(size_t n_bytes)
{
    static pl_cu_ptr next = 0x7000000000;
    return __atomic_fetch_add(&next, (n_bytes + 511) / 256 * 256, __ATOMIC_SEQ_CST);
}
static int nd_ordinal_of(pl_cu_ptr address) { return (int)(address >> 60); }

/* ---- the exports ---- */

static const char *const call_names[] = {
#define CUDA(name, symbol, need, first, parameters, plausible) #name,
#include "src/runtime/cuda.def"
#undef CUDA
};

/* NODRIVER_FAIL=Init:100 in the environment, for processes that a test starts. */
__attribute__((constructor)) static void read_environment(void)
{
    const char *text = getenv("NODRIVER_FAIL"), *colon = text != NULL ? strchr(text, ':') : NULL;
    for (int i = 0; colon != NULL && i < ND_COUNT; i++) {
        if (strncmp(text, call_names[i], (size_t)(colon - text)) == 0 &&
            call_names[i][colon - text] == '\0') {
            nd.fail_call = i + 1;
            nd.fail_code = (int)strtol(colon + 1, NULL, 10);
        }
    }
}

/* Counts a call; the code that the test asked for, or success. */
static int enter(enum nodriver_call call)
{
    unsigned n = __atomic_add_fetch(&nd.n_calls[call], 1, __ATOMIC_RELAXED);
    if (nd.fail_call == (int)call + 1 && n > (unsigned)nd.fail_after &&
        (nd.fail_count == 0 || n <= (unsigned)nd.fail_after + nd.fail_count)) {
        nd.n_failed[call]++;
        return nd.fail_code;
    }
    if (call == ND_LibraryLoadData && nd.max_libraries != 0 &&
        nd.n_calls[ND_LibraryLoadData] - nd.n_calls[ND_LibraryUnload] > nd.max_libraries) {
        __atomic_sub_fetch(&nd.n_calls[call], 1, __ATOMIC_RELAXED);
        return PL_CU_OUT_OF_MEMORY;
    }
    return PL_CU_SUCCESS;
}

#define NONE (void)0
#define CUDA(name, symbol, need, first, parameters, plausible)                                     \
    EXPORT pl_cu_result symbol parameters;
#include "src/runtime/cuda.def"
#undef CUDA

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define CUDA(name, symbol, need, first, parameters, plausible)                                     \
    pl_cu_result symbol parameters                                                                 \
    {                                                                                              \
        int r = enter(ND_##name);                                                                  \
        if (r == PL_CU_SUCCESS)                                                                    \
            plausible;                                                                             \
        return r;                                                                                  \
    }
#include "src/runtime/cuda.def"
