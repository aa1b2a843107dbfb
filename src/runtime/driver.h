#ifndef PL_RUNTIME_DRIVER_H
#define PL_RUNTIME_DRIVER_H
/*
 * A driver: the table of CUDA Driver API functions (cuda.def), loaded by name from a shared library. The real libcuda, the
 * emulated driver and the do-nothing driver of the tests are all just this; the runtime knows no other kind of device.
 *
 * A driver that started stays mapped for the life of the process: its threads and its exit handlers may run code in it.
 */
#include "src/runtime/call.h"
#include "src/runtime/cuda_abi.h"

#include <stdbool.h>

struct pl_cuda {
#define CUDA(name, symbol, need, first, parameters, plausible) pl_cu_result(*name) parameters;
#include "src/runtime/cuda.def"
#undef CUDA
};

struct pl_driver {
    struct pl_cuda cu;
    char path[256];
    int version; /* 12090 for 12.9 */
    int n_devices;
    bool is_emulated;
    char fallback_why[160]; /* why "auto" came to the emulated driver; "" when it did not */
    size_t (*last_fault)(char *text,
                         size_t n_bytes); /* of the emulated driver; NULL: a code is all */
};

/*
 * Open the chosen driver and start it (cuInit).
 *
 *   choice   "auto", "cuda", "emulator" or a path; NULL: PLAUNCH_DRIVER, else auto
 *
 * auto takes libcuda.so.1 and falls back to the emulated driver only when that cannot be opened or reports no device.
 *
 * Errors   PL6101 … PL6104, PL_E_DRIVER with the driver's code
 * Threads  any
 */
PL_MUST_CHECK pl_status pl_driver_open(struct pl_driver *d, const char *choice,
                                       struct pl_call *call);

/* "CUDA_ERROR_INVALID_VALUE"; never NULL. */
const char *pl_driver_error_name(const struct pl_driver *d, pl_cu_result r);
const char *pl_driver_error_text(const struct pl_driver *d, pl_cu_result r);
/* What the emulated driver reports of the fault that came last, as many whole lines as fit; "" when it says nothing. */
void pl_driver_fault_text(const struct pl_driver *d, char *out, size_t n_bytes);

/* True for results after which the CUDA context is lost: every later call in it fails too. */
bool pl_driver_is_sticky(pl_cu_result r);

#endif
