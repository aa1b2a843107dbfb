#ifndef PL_EMU_API_STATE_H
#define PL_EMU_API_STATE_H
/*
 * The state of the emulated driver: one process, its devices, contexts and threads. This is the library's one mutable global,
 * as a driver's is.
 *
 * One lock guards all of it. An exported function runs between pl_api_enter and pl_api_leave (emu/api/exports.c), which hold
 * the lock; what takes long (running work, loading a program, calling the user) happens with the lock released. Fields below
 * are under the lock unless they say otherwise.
 */
#include "emu/api/obj.h"
#include "emu/cuda_abi.h"
#include "emu/launch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct pl_capture;
struct pl_pool;
struct pl_stream;

enum { PL_MAX_DEVICES = PL_EMU_MAX_DEVICES, PL_MAX_RULES = 16, PL_CTX_STACK = 32, PL_N_LIMITS = 8 };

enum pl_api {
#define CU(name, version, symbol, need, capture, variant, params, args) PL_API_##symbol,
#include "emu/api.def"
#undef CU
    PL_API_COUNT
};

enum pl_api_need { PL_NEED_ANY, PL_NEED_INIT, PL_NEED_CTX };
enum pl_api_capture { PL_CAPTURE_SAFE, PL_CAPTURE_UNSAFE };
enum pl_api_variant { PL_VARIANT_PLAIN, PL_VARIANT_PTSZ, PL_VARIANT_PTDS };

struct pl_api_info {
    const char *name, *symbol;
    int version;
    enum pl_api_need need;
    enum pl_api_capture capture;
    enum pl_api_variant variant;
    void *function, *per_thread_function; /* the second is NULL for PLAIN */
};
extern const struct pl_api_info pl_api_infos[PL_API_COUNT];

/* The figures of emu/chips.def. */
struct pl_chip {
    int sm, major, minor;
    int smem_sm_kib, smem_optin_kib;
    int n_threads_sm, n_blocks_sm;
    int max_cluster;
    int l2_mib, clock_mhz, mem_clock_mhz, bus_bits, f64_ratio, memory_gib, is_integrated;
    const char *name;
};
const struct pl_chip *pl_chip_find(int sm); /* NULL: none */

struct pl_device {
    int ordinal, n_sms;
    const struct pl_chip *chip;
    struct pl_emu_device *emu;
    struct pl_context
        *primary; /* made at the first retain; its handle stays the same from then on */
    uint32_t primary_refs;
    unsigned primary_flags;
    struct pl_pool *default_pool, *pool;         /* NULL until asked for */
    uint64_t graph_used_bytes, graph_high_bytes; /* memory of allocation nodes */
};

struct pl_context {
    struct pl_obj obj;
    struct pl_device *device;
    uint64_t id;
    unsigned flags, api_version;
    unsigned n_attached;        /* cuCtxAttach without its cuCtxDetach */
    bool is_primary, is_active; /* a primary context that nobody retains is not active */
    CUresult sticky;            /* what a fault left: every later call in this context gives it */
    struct pl_stream *streams;  /* all of them, newest first */
    struct pl_stream *legacy;
    struct pl_module *modules;
    size_t limits[PL_N_LIMITS];
    CUfunc_cache cache_config;
};

/* "the n-th call of a function gives this code". */
struct pl_rule {
    enum pl_api api;
    uint64_t at_call; /* of the call counter */
    bool is_lasting;  /* and all later calls */
    CUresult code;
};

/* Set by plaunch_emu_configure or the environment; plaunch_emu.h describes the keys. */
struct pl_settings {
    int n_devices;
    int sms[PL_MAX_DEVICES]; /* compute capability * 10 of each device */
    int n_sms;
    uint64_t memory_bytes; /* 0: the chip's */
    int driver_version;
    enum pl_emu_check check;
    enum pl_emu_policy policy;
    uint64_t seed, step_limit;
    uint32_t n_threads, stack_bytes, max_libraries;
    bool is_reporting; /* faults on stderr */
    int printf_fd;     /* 0: dropped */
};

enum pl_phase { PL_PHASE_COLD, PL_PHASE_READY, PL_PHASE_FORKED, PL_PHASE_ENDED };

struct pl_process {
    pthread_mutex_t lock;
    pthread_cond_t done;  /* a piece of work was completed */
    pthread_cond_t ready; /* a stream has work that may run; workers wait here */
    _Atomic int phase;    /* enum pl_phase */
    int n_devices;
    struct pl_device devices[PL_MAX_DEVICES];
    struct pl_settings settings;
    uint64_t keys_set; /* bit of each configuration key that was set by hand */
    struct pl_rule rules[PL_MAX_RULES];
    _Atomic uint32_t n_rules;
    _Atomic uint64_t n_calls[PL_API_COUNT];
    uint64_t next_id; /* of contexts, streams, captures, buffers */
    struct pl_capture *captures;
    struct pl_stream *ready_head, *ready_tail;
    uint32_t n_workers, n_idle, n_ready;
    char fault_text[1400];
    uint64_t n_loads, n_unloads, n_pushes, n_pops, n_allocations, n_allocated_bytes, n_submitted,
        n_completed, n_copies, n_host_functions, n_faults;
};
extern struct pl_process pl_process;
extern const struct pl_settings pl_settings_default;

/* What a thread of the user's has. */
struct pl_thread {
    uint64_t id;
    CUcontext stack[PL_CTX_STACK];
    uint32_t depth;
    CUstreamCaptureMode mode;
    bool is_in_callback;     /* this is a worker that calls a host function */
    bool is_per_thread_call; /* the function that runs is a _ptsz or _ptds one */
};
struct pl_thread *pl_thread_get(void);

/*
 * Every exported function. enter counts the call, applies the fault injection, checks phase, driver version, callback,
 * context and capture rules, and, where the function needs more than ANY, takes the lock; on success leave gives it back.
 */
CUresult pl_api_enter(enum pl_api api, bool is_per_thread);
void pl_api_leave(enum pl_api api);

/* Release the lock around something long. */
void pl_lock(void);
void pl_unlock(void);

/* cuInit: read the environment, make the devices. 0, or why not. */
CUresult pl_process_init(void);
/* Back to before cuInit: waits for all work, destroys everything. */
void pl_process_reset(void);
struct pl_emu_counters pl_process_counters(const struct pl_process *p);
void pl_process_configure_devices(void); /* after a change of settings */

/* Keep the text of a refusal or fault, print it where reports are on. report: it is a fault, count it. */
void pl_process_note(const char *text);
/* The words of a fault or a refused load with its code and place. */
void pl_fault_print(const struct pl_emu_fault *f, char *out, size_t out_n_bytes);
void pl_process_report(const char *text);

/* Device of an ordinal, or NULL. */
struct pl_device *pl_device_find(CUdevice ordinal);

/* The current context of this thread, or NULL; it may be inactive or have a sticky error. */
struct pl_context *pl_ctx_current(void);
/* 0, 709 for an inactive one, the sticky code, 201 for NULL. */
CUresult pl_ctx_check(const struct pl_context *ctx);
bool pl_ctx_open(struct pl_context *ctx); /* give a closed one its default stream and limits */
CUresult pl_ctx_create(struct pl_device *d, unsigned flags, struct pl_context **out);
void pl_ctx_close(struct pl_context *ctx); /* wait for its work; free what it has; ctx stays */
void pl_ctx_destroy(struct pl_context *ctx);

/* What wraps all: the implementation of each exported function, under the lock unless it needs ANY. */
#define CU(name, version, symbol, need, capture, variant, params, args) CUresult pl_##symbol params;
#include "emu/api.def"
#undef CU
#endif
