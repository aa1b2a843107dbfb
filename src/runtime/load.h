#ifndef PL_RUNTIME_LOAD_H
#define PL_RUNTIME_LOAD_H
/*
 * Loaded code. A module is one library of the driver, found by what it was made from, so two variants with one text share it; a
 * variant is what a launch needs of one kernel in it: a copy of the plan's launch side, independent of the build's memory.
 *
 * Loading is the step that may wait for the GPU and that a stream capture forbids, so it happens once, outside of captures, and
 * everything that a driver does lazily (load on first launch) is done at once, before a variant is published.
 */
#include "base/hash.h"
#include "src/plan/plan.h"
#include "src/runtime/call.h"
#include "src/runtime/cuda_abi.h"

#include <pthread.h>
#include <stdatomic.h>

struct pl_module {
    struct pl_module *next;
    struct pl_sha256 hash; /* content: target, assembler, options, text */
    pl_cu_library library;
    uint32_t n_users; /* variants; under the lock of pl_modules */
};

struct pl_modules {
    pthread_mutex_t lock;
    struct pl_module *all;
    struct pl_variant *retired; /* evicted, but not safe to unload */
    atomic_uint n_evicting;     /* threads that are at it */
    atomic_uint n_evictions;    /* that made room */
};

/* Time of each step of a build, for tools. */
struct pl_build_ns {
    uint64_t trace, check, plan, emit, assemble, load;
};

/*
 * How the parameter block is filled, made once from the plan. Addresses, extents, strides and scalars are plain copies from
 * the array of pl_arg (little endian: a narrow parameter is the low half); the rest is listed by index.
 */
struct pl_copy_op {
    uint16_t to;   /* byte offset in the block */
    uint32_t from; /* byte offset in the arguments */
};

struct pl_variant {
    const pl_kernel *kernel;
    struct pl_module *module;
    pl_cu_kernel handle;
    _Atomic uint64_t loaded_in; /* bit i: finalised in the CUDA context of slot i */
    atomic_bool is_pinned;      /* prepared, or launched in a capture: its code is never unloaded */
    pl_fact_set facts;
    const void *config; /* kernel->params_bytes */
    struct pl_plan_launch launch;
    uint16_t n_params, n_copies8, n_copies4,
        n_others; /* copies of 8 bytes stand before those of 4 */
    const struct pl_copy_op *copies;
    const struct pl_plan_param *others; /* maps, the grid, the workspace, what is absent */
    const uint16_t *offsets;            /* of all parameters, in order */
    const struct pl_plan_map *maps;
    struct pl_build_ns ns;
    bool is_from_disk;
    struct pl_variant *next_retired;
    char entry[64]; /* "pl_scale_1f2e3d4c" */
};

struct pl_context;
struct pl_place;

/* What a variant is loaded from. */
struct pl_load_request {
    const pl_kernel *kernel;
    const struct pl_plan *plan;
    const void *config;
    const pl_arg *args; /* presence and kinds only */
    pl_fact_set facts;
    const char *entry;
    struct pl_sha256 hash;
    const void *code; /* cubin, or PTX with a NUL behind it */
};

/*
 * Load and finalise in the place's CUDA context, which is current. On PL_CU_OUT_OF_MEMORY idle modules are evicted and the load
 * tried once more.
 *
 * Errors   PL6160 (PL_E_DRIVER), PL6114
 */
PL_MUST_CHECK pl_status pl_variant_load(struct pl_variant **out, struct pl_context *ctx,
                                        const struct pl_load_request *request,
                                        const struct pl_place *place, struct pl_call *call);

/* Finalise a loaded variant in another CUDA context. Not legal while the stream captures. */
PL_MUST_CHECK pl_status pl_variant_finalise(struct pl_variant *v, struct pl_context *ctx,
                                            struct pl_place *place, struct pl_call *call);

static inline bool pl_variant_is_loaded_in(const struct pl_variant *v, int slot)
{
    return slot >= 0 &&
           (atomic_load_explicit(&v->loaded_in, memory_order_acquire) >> slot & 1) != 0;
}

/* Drop a variant: its module is unloaded with its last user. */
void pl_variant_destroy(struct pl_variant *v, struct pl_context *ctx);

/* Unload variants that nobody uses, that are not pinned, with all launched work done. Returns how many. */
unsigned pl_evict_idle(struct pl_context *ctx);

/* is_child: after fork, where the driver may not be called. */
void pl_modules_fini(struct pl_modules *m, struct pl_context *ctx, bool is_child);

#endif
