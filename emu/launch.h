#ifndef PL_EMU_LAUNCH_H
#define PL_EMU_LAUNCH_H
/*
 * The emulated device as the Driver API layer sees it: devices, programs loaded from PTX text, launches, faults, counters.
 * No environment is read here and nothing is printed; every choice comes in struct pl_emu_config.
 */
#include "emu/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pl_emu_device;
struct pl_emu_program;
struct pl_emu_func;

enum pl_emu_check { PL_EMU_CHECK_OFF, PL_EMU_CHECK_FAULTS, PL_EMU_CHECK_RACE };
enum pl_emu_policy { PL_EMU_ASYNC_EAGER, PL_EMU_ASYNC_LATE, PL_EMU_ASYNC_RANDOM };

struct pl_emu_config {
    uint16_t sm;    /* compute capability * 10: 90 */
    uint32_t index; /* of the device among the process's: gives it addresses of its own */
    uint32_t n_sms;
    uint32_t threads_per_sm, ctas_per_sm,
        regs_per_sm; /* residency; 0: the least of the supported chips */
    uint32_t shared_per_sm_bytes,
        shared_per_cta_bytes; /* the second: most that a CTA may opt in to; 0: 227 KiB */
    uint64_t memory_bytes;
    enum pl_emu_check check;
    enum pl_emu_policy policy;
    uint64_t seed;
    uint32_t n_threads;  /* host threads that run clusters; 0: one a CPU */
    uint64_t step_limit; /* warp instructions of one cluster; 0: none. Beyond it: livelock */
    uint32_t
        stack_bytes; /* local memory a thread for calls whose depth is unknown (recursion, pointers); 0: 64 KiB */
    uint64_t heap_bytes; /* device-side malloc; 0: 8 MiB */
    /* Text of printf in kernels, whole calls, any thread, serialised; NULL: dropped. */
    void (*print)(const char *text, size_t n_bytes, void *user);
    void *print_user;
};

/* What ended a launch, or refused a load. Values of `result` are those of CUresult. */
struct pl_emu_fault {
    int code;   /* diagnostic number; 0: none */
    int result; /* CUDA_ERROR_… that the Driver API reports */
    uint32_t line;
    uint32_t cta[3], warp, lane;
    char entry[64];
    char text[1024]; /* whole report, several lines for a deadlock */
};

struct pl_emu_counters {
    uint64_t launches, instructions, lane_ops, clusters; /* instructions: of warps */
};

/* ---- device --------------------------------------------------------------------------------------------------------------- */

struct pl_emu_device *pl_emu_device_create(const struct pl_emu_config *config);
void pl_emu_device_destroy(struct pl_emu_device *d); /* programs must be unloaded */
struct pl_emu_memory *pl_emu_device_memory(struct pl_emu_device *d);
const struct pl_emu_config *pl_emu_device_config(const struct pl_emu_device *d);
/* Change what may change between launches: check, policy, seed, n_threads, step_limit, stack_bytes, print. */
void pl_emu_device_configure(struct pl_emu_device *d, const struct pl_emu_config *config);
struct pl_emu_counters pl_emu_device_counters(const struct pl_emu_device *d);

/* ---- program ----------------------------------------------------------------------------------------------------------------- */

struct pl_emu_param_info {
    uint32_t offset_bytes, n_bytes, align_bytes;
};

struct pl_emu_func_info {
    const char *name;
    bool is_entry;
    uint32_t n_params;
    const struct pl_emu_param_info *params;
    uint32_t param_n_bytes;
    uint32_t static_shared_bytes;
    uint32_t const_bytes;
    uint32_t local_bytes; /* a thread */
    uint32_t
        n_regs; /* an estimate: most 32-bit registers alive at once, capped at 255 and .maxnreg */
    uint32_t least_regs;     /* what an assembler can hardly do without: half of the estimate */
    uint32_t max_threads;    /* of a CTA: .maxntid or .reqntid, else 1024 */
    uint32_t req_block[3];   /* .reqntid; 0: none */
    uint32_t req_cluster[3]; /* .reqnctapercluster; 0: none */
    uint32_t max_cluster;    /* .maxclusterrank; 0: none */
    bool is_explicit_cluster;
    uint32_t min_ctas_per_sm;
};

struct pl_emu_global_info {
    const char *name;
    uint64_t address, n_bytes;
    bool is_const, is_managed, is_visible;
};

/* Does a device of compute capability sm / 10 run code for .target sm_<target><suffix>? suffix: 0, 'a' or 'f'. */
bool pl_emu_runs_target(uint16_t sm, uint16_t target, char suffix);
/*
 * Parse, gate, decode and place the variables of one module.
 *
 *   text   in   PTX, n_bytes (a NUL inside ends it); kept no longer than the call
 *   out    out  program, destroyed by pl_emu_program_unload
 *   fault  out  why not: line, code, text, result (218 invalid PTX, 209 no binary for GPU: .target does not fit, 2 memory, …)
 */
bool pl_emu_program_load(struct pl_emu_device *d, const char *text, size_t n_bytes,
                         struct pl_emu_program **out, struct pl_emu_fault *fault);
void pl_emu_program_unload(struct pl_emu_program *p); /* no grid of it may run */

uint32_t pl_emu_program_n_funcs(
    const struct pl_emu_program *p); /* entries and device functions with a body */
const struct pl_emu_func *pl_emu_program_func(const struct pl_emu_program *p, uint32_t i);
const struct pl_emu_func *pl_emu_program_find(const struct pl_emu_program *p,
                                              const char *name); /* NULL: none */
const struct pl_emu_func_info *pl_emu_func_info(const struct pl_emu_func *f);
uint32_t pl_emu_program_n_globals(const struct pl_emu_program *p);
const struct pl_emu_global_info *pl_emu_program_global(const struct pl_emu_program *p, uint32_t i);

/* ---- launch --------------------------------------------------------------------------------------------------------------------- */

struct pl_emu_launch {
    const struct pl_emu_func *func;
    const void *params; /* the parameter block, func's param_n_bytes */
    uint32_t grid[3], block[3];
    uint32_t cluster[3]; /* 0 or 1: the entry's own, else none */
    uint32_t dynamic_shared_bytes;
    bool is_cooperative; /* gets a workspace, whose address is in %envreg1 (high) and %envreg2 */
    uint64_t stack_bytes, heap_bytes; /* at least so much stack for calls of unknown depth; what
                                         malloc may give in all, 0: as the device is configured */
};

/*
 * Run a grid to its end on this thread and the device's pool. Stream order is the caller's business: several threads may
 * launch at once. Sizes must have been checked against the device (a zero or impossible one is a fault with result 1).
 * False: *fault says what ended it; device memory then holds what was written so far.
 */
bool pl_emu_launch(struct pl_emu_device *d, const struct pl_emu_launch *launch,
                   struct pl_emu_fault *fault);

/* CTAs of func that fit an SM at once, for the given block and dynamic shared memory; 0: none does. */
uint32_t pl_emu_occupancy(const struct pl_emu_device *d, const struct pl_emu_func *func,
                          uint32_t n_threads, uint32_t dynamic_shared_bytes);
#endif
