#ifndef PL_RUNTIME_CONTEXT_H
#define PL_RUNTIME_CONTEXT_H
/*
 * pl_context: one device through one driver, with its caches. Everything that lives longer than one call hangs here; the
 * library has no other state. Lock order: none is ever taken while another is held, and none is held across a driver call or
 * a callback.
 */
#include "src/runtime/assemble.h"
#include "src/runtime/async.h"
#include "src/runtime/cache.h"
#include "src/runtime/driver.h"
#include "src/runtime/load.h"
#include "src/runtime/store.h"
#include "src/runtime/thread.h"

/* A CUDA context that launches have come through. Its id survives the reuse of its address. */
struct pl_cu_slot {
    _Atomic(pl_cu_context) handle;
    unsigned long long id; /* 0 where the driver has none */
    int device;
};

enum { PL_CU_SLOTS = 64, PL_NO_SLOT = -1 };

struct pl_context {
    struct pl_alloc_hooks hooks;
    struct pl_driver driver;
    pl_device_info device;
    pl_cu_device ordinal;
    char device_name[128];
    bool mends_maps;  /* the driver encodes tensor maps wrongly (tensormap.h) */
    uint16_t ptx_cap; /* highest .version that the driver takes: 10 * major + minor */

    pl_log_function log;
    pl_event_function event;
    void *user;
    size_t scratch_limit_bytes;

    pl_cu_context primary;     /* retained until the end */
    const uint32_t *fork_mark; /* reads 0 in a forked child (base/os.h); NULL: compare pids */
    int pid;

    _Atomic(struct pl_callback *) kept_callbacks; /* those in graphs (callback.c) */

    pthread_mutex_t slots_lock; /* adding one */
    struct pl_cu_slot slots[PL_CU_SLOTS];
    atomic_int n_slots;

    struct pl_threads threads;
    _Atomic uint64_t n_prepared; /* serial numbers */
    struct pl_cache cache;
    struct pl_async async;
    struct pl_modules modules;
    struct pl_store store, read_only_store;
    struct pl_assembler assembler; /* the one chosen for this device */
    char dump_folder[256];         /* PLAUNCH_DUMP; "" when off */
    uint32_t topics;               /* PLAUNCH_DEBUG, bits of enum pl_topic */
};

/* What PLAUNCH_DEBUG may list; each prints the state after that step through the log callback. */
enum pl_topic { PL_TOPIC_TRACE = 1, PL_TOPIC_PLAN = 2, PL_TOPIC_PTX = 4, PL_TOPIC_CACHE = 8 };

struct pl_callback;
void pl_callbacks_fini(struct pl_context *ctx);

/* Where a launch goes. */
struct pl_place {
    pl_cu_context cu;
    int slot;          /* index in pl_context.slots, PL_NO_SLOT when the table is full */
    bool is_pushed;    /* `cu` was pushed and must be popped */
    bool is_capturing; /* the stream is in a capture */
};

/*
 * Every public function with a context begins with this.
 *
 * Errors   PL6111 in a forked child, PL6112 in a host function of the driver, PL6110 without a context
 */
PL_MUST_CHECK pl_status pl_context_check(struct pl_context *ctx, struct pl_call *call);

/*
 * Find the CUDA context of a stream and whether it captures. The legacy and per-thread default streams (NULL, 1, 2) mean the
 * current context when that is on our device, else the device's primary one, which is then pushed.
 *
 * Errors   PL6131 for a stream of another device; PL6115, PL6116
 */
PL_MUST_CHECK pl_status pl_place_find(struct pl_place *p, struct pl_context *ctx, pl_stream stream,
                                      struct pl_call *call);
/* Make p->cu current for calls that need it so; pl_place_leave pops whatever was pushed. */
PL_MUST_CHECK pl_status pl_place_push(struct pl_place *p, struct pl_context *ctx,
                                      struct pl_call *call);
void pl_place_leave(struct pl_place *p, struct pl_context *ctx);

/* Turn a driver's answer into a status and a text: faults (sticky) become PL_E_FAULT with the last launches. */
pl_status pl_context_fail(struct pl_call *call, const char *function, pl_cu_result r);

/* Tell the event callback, if there is one. */
void pl_context_tell(struct pl_context *ctx, pl_event_kind kind, pl_severity_level level,
                     const char *kernel, const char *text, uint64_t n_ns);

/* The names of the last launches of all threads, newest first within a thread, cut to n_bytes. */
void pl_context_recent(const struct pl_context *ctx, char *out, size_t n_bytes);

#endif
