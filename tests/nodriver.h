#ifndef PL_TESTS_NODRIVER_H
#define PL_TESTS_NODRIVER_H
/*
 * The do-nothing driver: a shared library with every function of src/runtime/cuda.def, each answering success with plausible
 * values, counting its calls, and failing on request. For tests of the runtime alone and for instruction counts.
 *
 * A test opens it by path, as the runtime does (one process, one copy), and finds nodriver_state() in it.
 */
#include "src/runtime/cuda_abi.h"

#include <stdbool.h>

enum nodriver_call {
#define CUDA(name, symbol, need, first, parameters, plausible) ND_##name,
#include "src/runtime/cuda.def"
#undef CUDA
    ND_COUNT
};

enum { ND_STACK = 64 };

struct nodriver {
    int driver_version, n_devices, arch; /* settable before a context is made */
    int capture_status;                  /* cuStreamIsCapturing */
    bool fits_no_cluster;                /* cuOccupancyMaxActiveClusters gives 0 */
    int fail_call, fail_code,
        fail_after;         /* nodriver_call + 1: its calls after fail_after fail with fail_code */
    unsigned fail_count;    /* so many times; 0: for ever */
    unsigned max_libraries; /* loaded at once, above that OUT_OF_MEMORY; 0: no limit */
    unsigned n_unloaded_launches; /* launches of a kernel whose library was unloaded */
    unsigned load_ns;             /* what a load takes */
    unsigned n_failed[ND_COUNT];  /* calls that failed on request */
    unsigned n_calls[ND_COUNT];   /* atomically counted */
    /* the last launch, while is_recording (one thread) */
    bool is_recording;
    pl_cu_launch_config config;
    pl_cu_launch_attr attrs[8];
    unsigned char block[4096]; /* the parameters */
    size_t block_bytes;
};

/* Exported by the library: struct nodriver *nodriver_state(void). */
typedef struct nodriver *(*nodriver_state_function)(void);

#endif
