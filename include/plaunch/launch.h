#ifndef PLAUNCH_LAUNCH_H
#define PLAUNCH_LAUNCH_H
/*
 * Kernels as data, contexts, and launching. Every function may be called from any thread; none needs a current CUDA context,
 * and the caller's context stack is unchanged afterwards. Nothing here aborts, exits, prints or changes the locale.
 */
#include <plaunch/core.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;
typedef struct CUstream_st *pl_stream; /* a CUstream; NULL is the legacy default stream */

typedef struct pl_context pl_context;
typedef struct pl_builder pl_builder;

/* ---- what a kernel is ---- */

typedef enum pl_param_role { PL_ROLE_IN, PL_ROLE_OUT, PL_ROLE_INOUT, PL_ROLE_SCALAR } pl_param_role;

/*
 * Properties of a tensor that change the code. A kernel names the ones it requires (a violation is a diagnostic) and the ones
 * it specialises on. A variant has one bit for each specialised fact: it holds when *every* present tensor whose parameter
 * names that fact has it. A kernel names at most four facts, so that it has at most 16 fact combinations for one dtype set.
 */
typedef enum pl_fact {
    PL_FACT_ALIGN16 =
        1, /* address, and every stride but the last axis's in bytes, are multiples of 16 */
    PL_FACT_I32 = 2,         /* every extent, stride and element offset is below 2^31 - 2^20 */
    PL_FACT_UNIT_STRIDE = 4, /* the last axis has stride 1 (or extent 0 or 1) */
    PL_FACT_DENSE = 8,       /* row-major without gaps: the strides follow from the extents */
    PL_FACT_ALIGN16_OUT =
        16, /* ALIGN16 of a second group of parameters, specialised in this instead: neither group loses it for the other's sake */
    PL_FACT_WHOLE16 = 32 /* the last extent is a multiple of 16 bytes: no edge cuts a vector */
} pl_fact;
typedef uint32_t pl_fact_set;

/*
 * One parameter. Invariants: 0 <= min_rank <= max_rank <= 8; a scalar has rank 0 and dtypes among i32, i64, f32.
 *
 *   like   1 + index of an earlier tensor parameter, not optional, whose rank and extents this one has; 0: none. Every launch compares
 *          them (PL6011, PL6012), before expect_shape(), and the code counts on it: the extents are passed once, and what one tensor's
 *          edge says of an index holds for the other. Not in kernels with arrange().
 */
typedef struct pl_param_decl {
    const char *name;
    pl_param_role role;
    int32_t min_rank, max_rank;
    pl_dtype_set dtypes; /* accepted element types; PL_DT_ANY for all */
    bool is_optional;    /* pl_arg_none() is accepted */
    bool
        is_constant; /* no grid ahead in the stream writes it (weights): may be read before pl_griddep_wait() */
    int16_t like;
    uint32_t
        baked_dims; /* bit i: extent i is part of the variant, and a C integer for the body (pl_dim_const) */
    pl_fact_set required;
    pl_fact_set specialised;
} pl_param_decl;

typedef enum pl_model { PL_MODEL_GPU, PL_MODEL_TPU } pl_model;

/* Facts of a device, the same for all launches through a context. */
typedef struct pl_device_info {
    int32_t arch; /* 80, 86, 89, 90, 100, 103, 120, 121 */
    int32_t n_sms;
    int64_t smem_bytes;  /* most dynamic shared memory a block may ask for */
    int32_t max_cluster; /* CTAs in a cluster, portable limit; 1 when the chip has none */
    int32_t max_threads_per_sm;
    bool is_emulated;
} pl_device_info;

/*
 * What configure() and launch_dims() see. Configuring may look at extents (to choose among the listed configurations);
 * pointers are valid during the call only.
 */
typedef struct pl_request {
    const struct pl_kernel *kernel;
    const void *
        options; /* options_bytes of the caller's, or the kernel's defaults; NULL when the kernel has none */
    const pl_arg *args;
    size_t n_args;
    const pl_device_info *device;
    pl_fact_set facts;    /* the specialised facts that hold */
    uint32_t arrangement; /* what arrange() gave; 0 without one */
} pl_request;

enum { PL_CONFIG_BEST = -1 };

/* Most parameters of a kernel that has arrange(), or whose last optional arguments may be left out of a call. */
enum { PL_ARRANGE_MAX_ARGS = 8 };

/* Blocks in each axis. A 0 anywhere: success without a launch. y and z may exceed 65,535. */
typedef struct pl_launch_dims {
    int64_t grid[3];
} pl_launch_dims;

/*
 * A kernel: a constant object, valid as long as any context that has seen it.
 *
 * The three functions are pure: same inputs, same outputs, no I/O, any thread.
 *
 *   configure    fills params (zeroed before, params_bytes long, POD) with configuration `config` of 0..n_configs-1 for this
 *                request, or with the best one for PL_CONFIG_BEST; false when that configuration cannot serve the request.
 *                NULL: params are the options, or zeros; n_configs is then 1.
 *   body         traced; reads params and calls the builder (plaunch/trace.h, plaunch/ops.h)
 *   launch_dims  every launch, integer arithmetic only
 *   expect_shape the extents that tensor argument `arg` must have, given the others: want->rank and want->d, rank -1 for "free";
 *                called for present tensors whose rank is in range, before configure; a difference is PL6011, or PL6012 of ranks, with argument,
 *                dimension, value seen and value wanted. NULL: every tensor is free.
 *   arrange      at each launch, after the arguments were checked: may rewrite `args` (n_args of them, a copy of the caller's)
 *                into another way to say the same, such as a column-major matrix as the row-major matrix with its axes
 *                exchanged. Facts, configure, launch_dims and the body see what it leaves; what it returns is
 *                request->arrangement from then on. Kinds and dtypes of arguments stay. NULL: nothing is rewritten.
 */
typedef struct pl_kernel {
    size_t struct_size; /* sizeof(pl_kernel) */
    const char *name;   /* [a-z][a-z0-9_]*, at most 40 bytes; the entry is pl_<name>_<key8> */
    const pl_param_decl *params;
    size_t n_params;
    size_t params_bytes;         /* of the configuration that body sees, at most 256 */
    size_t options_bytes;        /* of pl_launch_options.params, 0 when the kernel takes none */
    const void *default_options; /* options_bytes; NULL: zeros */
    int32_t n_configs;           /* size of the listed, finite set of configurations; at least 1 */
    bool (*configure)(const pl_request *request, int32_t config, void *params);
    void (*body)(pl_builder *b, const void *params);
    void (*launch_dims)(const pl_request *request, const void *params, pl_launch_dims *out);
    void (*expect_shape)(const pl_request *request, size_t arg, pl_shape *want);
    uint32_t (*arrange)(const pl_request *request, pl_arg *args);
    pl_model model;
    bool
        may_alias; /* outputs may overlap inputs exactly (same address, shape, strides); else it is PL6xxx */
    const char *doc; /* one line for listings; may be NULL */
} pl_kernel;

/* ---- contexts ---- */

typedef struct pl_alloc_functions {
    void *(*alloc)(size_t n_bytes, void *user); /* max-aligned; NULL when there is none */
    void (*free)(void *p, void *user);
    void *user;
} pl_alloc_functions;

typedef enum pl_event_kind {
    PL_EVENT_BUILD,     /* a variant was traced, emitted, assembled and loaded; n_ns = total */
    PL_EVENT_DISK_HIT,  /* its binary came from the disk cache */
    PL_EVENT_CORRUPT,   /* a cache entry was refused */
    PL_EVENT_EMULATED,  /* WARNING: no real device was found, the emulated driver is used */
    PL_EVENT_SLOW_CODE, /* WARNING: an assembler note that means slow code */
    PL_EVENT_EVICTED,
    PL_EVENT_REJECTED /* ERROR: a request broke a rule (PL_E_INVALID); the text is that of pl_error when the call has one */
} pl_event_kind;

typedef struct pl_event {
    pl_event_kind kind;
    pl_severity_level level;
    const char *kernel; /* "" when none */
    const char *text;
    uint64_t n_ns;
} pl_event;

/*
 * Callbacks are never called under a lock of plaunch's. They may be called from any thread that is inside a pl_ function, and
 * from the workers of PL_COMPILE_ASYNC. While their thread builds a kernel (BUILD, DISK_HIT, CORRUPT, SLOW_CODE, EVICTED and the
 * topics of PLAUNCH_DEBUG) a call that takes a context is answered PL_E_RECURSION: launch after the call that builds.
 */
typedef void (*pl_log_function)(pl_severity_level level, const char *topic, const char *text,
                                void *user);
typedef void (*pl_event_function)(const pl_event *event, void *user);

/* `{0}` with struct_size set means: all defaults. NULL strings are defaults too; the environment fills those. */
typedef struct pl_context_options {
    size_t struct_size;
    const char *driver; /* "auto", "cuda", "emulator" or a path; NULL: PLAUNCH_DRIVER, else auto */
    int32_t device;     /* ordinal */
    const char
        *cache_dir; /* NULL: PLAUNCH_CACHE_DIR, else the user's cache folder; "": no disk cache */
    const char *cache_ro_dir;        /* NULL: PLAUNCH_CACHE_RO_DIR */
    const pl_alloc_functions *alloc; /* host memory; copied; NULL: malloc */
    pl_log_function log;
    pl_event_function event;
    void *user;        /* for both callbacks */
    int32_t n_threads; /* workers for PL_COMPILE_ASYNC; 0: one, started when first needed */
    size_t scratch_limit_bytes; /* memory of one build; 0: no limit */
} pl_context_options;

typedef struct pl_context_facts {
    char driver_path[256];
    int32_t driver_version; /* 12090 for 12.9 */
    char device_name[128];
    char arch_name[16];  /* "sm_90a" */
    char assembler[64];  /* "ptx", "nvjitlink 12.9", "driver" */
    char cache_dir[512]; /* of the disk cache; "" when it is off */
    char
        cache_why_off[128]; /* why a wanted folder is not used; "" when it is, or none was wanted */
    bool is_emulated;
    pl_device_info device;
} pl_context_facts;

#define PL_STAT_LIST(X)                                                                            \
    X(hit_memory, "launches served by a loaded variant")                                           \
    X(hit_disk, "builds whose binary came from the disk cache")                                    \
    X(miss, "requests with no loaded variant")                                                     \
    X(builds, "completed builds, trace to load")                                                   \
    X(emitted, "PTX texts written")                                                                \
    X(assembled, "PTX texts assembled")                                                            \
    X(rejected, "requests that broke a rule")                                                      \
    X(build_ns, "time in builds")                                                                  \
    X(load_ns, "time in loading modules")                                                          \
    X(wait_ns, "time waiting for a build by another thread")                                       \
    X(corrupt, "disk entries refused")                                                             \
    X(evicted, "modules unloaded to make room")                                                    \
    X(capture_miss, "misses while the stream was capturing")                                       \
    X(launches, "kernels launched")                                                                \
    X(maps_encoded, "tensor maps encoded")

typedef struct pl_stats {
#define PL_STAT_FIELD_(name, text) uint64_t name;
    PL_STAT_LIST(PL_STAT_FIELD_)
#undef PL_STAT_FIELD_
} pl_stats;

/* options NULL: all defaults. *out is NULL on failure. */
PL_API PL_MUST_CHECK pl_status pl_context_create(pl_context **out,
                                                 const pl_context_options *options, pl_error *err);
/* All prepared handles of the context must be gone and its streams idle. NULL is fine. */
PL_API void pl_context_destroy(pl_context *ctx);
PL_API pl_context_facts pl_context_info(const pl_context *ctx); /* all zero for NULL */
PL_API pl_stats pl_context_stats(const pl_context *ctx);        /* all zero for NULL */
/* Prometheus text format through `put` (called with pieces of text); the names are plaunch_<stat>. */
PL_API void pl_context_write_prometheus(const pl_context *ctx,
                                        void (*put)(const char *text, size_t n_bytes, void *user),
                                        void *user);

/* One of the last launches, for a look after a fault. */
typedef struct pl_launch_record {
    char entry[64]; /* "pl_scale_1f2e3d4c", as profilers and core dumps show it */
    uint32_t grid[3];
    uint32_t n_threads; /* of a block */
} pl_launch_record;

/*
 * The last launches of the context: each thread's newest first, at most 32 of a thread. Reads no driver; may be called at any
 * time, also after a fault. Returns how many there are; fills at most n_records.
 */
PL_API size_t pl_context_last_launches(const pl_context *ctx, pl_launch_record *records,
                                       size_t n_records);

/* ---- launching ---- */

typedef enum pl_compile_policy {
    PL_COMPILE_BLOCK, /* build in this call */
    PL_COMPILE_NEVER, /* PL_E_NOT_CACHED, unless a prepared variant serves the request */
    PL_COMPILE_ASYNC /* PL_E_PENDING; built by a worker of the context, started when first needed */
} pl_compile_policy;

enum {
    PL_ASSEMBLE_ISOLATED = 1, /* the assembler runs in a process of its own */
    PL_STRICT_NOTES = 2       /* assembler notes that mean slow code are errors */
};

/* Nanoseconds of each stage of one call; 0 where a stage did not run (a hit runs only the launch). */
typedef struct pl_stage_ns {
    uint64_t trace, check, plan, emit, assemble, load, launch;
} pl_stage_ns;

/* `{0}` with struct_size set means: all defaults. */
typedef struct pl_launch_options {
    size_t struct_size;
    const void
        *params; /* the kernel's options (pl_kernel.options_bytes of POD); NULL: its defaults */
    pl_compile_policy policy;
    bool
        pdl; /* programmatic dependent launch, from sm_90: the grid sets up while the one before it in the stream still runs, and waits
                for its end where the body says pl_griddep_wait(), else ahead of the body */
    uint32_t flags;     /* PL_ASSEMBLE_ISOLATED, PL_STRICT_NOTES */
    uint64_t workspace; /* device address, for kernels that ask for one; 0: none */
    size_t workspace_bytes;
    pl_report *report;   /* receives all diagnostics; may be NULL */
    pl_stage_ns *stages; /* receives the times; may be NULL */
    int32_t config;      /* configuration + 1; 0: the best one */
    const char *file;    /* the place that messages name; NULL: that of the call itself */
    int32_t line;
} pl_launch_options;

/*
 * Launch a kernel: find its variant for these arguments, build it when there is none yet, and hand it to the driver. Returns as
 * soon as the launch is queued.
 *
 *   kernel   must live as long as the context
 *   stream   of the context's device; its CUDA context is used, whatever is current. NULL: the legacy stream of the current
 *            context when that is on the device, else of the primary one
 *   args     one for each parameter of the kernel, pl_arg_none() for an absent optional one; looked at during the call only.
 *            Optional ones at the end may be left out
 *            Extents of 0 are fine: where nothing is to be written, nothing is launched
 *   options  NULL: all defaults
 *   err      NULL: only the status is wanted
 *
 * Nothing is launched unless PL_OK is given:
 *   PL_E_INVALID      arguments, options, kernel or body break a rule (all of them in options->report), or the stream or a
 *                     tensor is of another device
 *   PL_E_UNSUPPORTED  not served on this chip
 *   PL_E_NOT_CACHED, PL_E_PENDING   not built, and options->policy is NEVER or ASYNC
 *   PL_E_CAPTURING    not built, and the stream is capturing; the capture stays valid. Prepare it before the capture
 *   PL_E_ASSEMBLER, PL_E_DRIVER, PL_E_NOMEM   driver_code of err is the driver's own
 *   PL_E_FAULT        an earlier kernel faulted
 *   PL_E_FORKED, PL_E_IN_CALLBACK, PL_E_RECURSION   called where launches are not possible
 *
 * Threads: any number at a time; several that miss on one variant build it once. A warm launch takes no lock and allocates nothing.
 * Capture: a variant that is built becomes a node of the graph, and its code stays loaded until the context ends.
 */
PL_API PL_MUST_CHECK pl_status pl_launch(pl_context *ctx, const struct pl_kernel *kernel,
                                         pl_stream stream, const pl_arg *args, size_t n_args,
                                         const struct pl_launch_options *options, pl_error *err);

/*
 * The same from a named place, for error messages. A call written pl_launch(...) in C or C++ is this one with the place of the
 * call; (pl_launch)(...) or a pointer to it is the plain function, which knows no place.
 */
PL_API PL_MUST_CHECK pl_status pl_launch_at(pl_loc at, pl_context *ctx,
                                            const struct pl_kernel *kernel, pl_stream stream,
                                            const pl_arg *args, size_t n_args,
                                            const struct pl_launch_options *options, pl_error *err);
#define pl_launch(...) pl_launch_at(PL_LOC, __VA_ARGS__)

typedef enum pl_text_kind { PL_TEXT_PTX, PL_TEXT_PLAN, PL_TEXT_TRACE } pl_text_kind;

/* `{0}` with struct_size and arch set means: the PTX of the best configuration. */
typedef struct pl_emit_options {
    size_t struct_size;
    const char *arch; /* "sm_80" … "sm_121a"; the suffix may be left out */
    pl_text_kind kind;
    const void *params; /* as in pl_launch_options */
    int32_t config;     /* configuration + 1; 0: the best one */
    bool pdl;
    int32_t max_ptx_version; /* 80 for 8.0; 0: no limit */
    pl_report *report;
    pl_stage_ns *stages;
} pl_emit_options;

/*
 * The text that pl_launch() would build for these arguments, without a driver or a device: trace, check, plan, emit.
 * Addresses in args are looked at for their alignment only. `put` is called with pieces of the text.
 * Errors: as pl_launch() before any driver call; then nothing is put.
 */
PL_API PL_MUST_CHECK pl_status pl_emit(const struct pl_kernel *kernel, const pl_arg *args,
                                       size_t n_args, const pl_emit_options *options,
                                       void (*put)(const char *text, size_t n_bytes, void *user),
                                       void *user, pl_error *err);

/* One built variant: immutable, shareable between threads, valid until destroyed. Takes tensors of any dims of that variant. */
typedef struct pl_prepared pl_prepared;

/*
 * Build the variant that serves a request, load it in the current CUDA context (the primary one when none of the device is
 * current), and keep it loaded until the context ends. Nothing is launched.
 *
 *   args     as for pl_launch(); of tensors, what the variant depends on: element types, ranks, baked extents, and alignment,
 *            strides and size as far as the kernel specialises on them
 *   options  as for pl_launch(); what is said about pdl, workspace and params holds for each launch of the handle. NULL: defaults
 *   out      the handle, to be destroyed before the context; NULL on failure
 *
 * Errors: those of pl_launch() before the launch. Threads: any. Capture: loads are made in the RELAXED capture mode of this
 * thread, so that a capture elsewhere stays valid; a stream of this thread may be capturing too.
 */
PL_API PL_MUST_CHECK pl_status pl_prepare(pl_context *ctx, const struct pl_kernel *kernel,
                                          const pl_arg *args, size_t n_args,
                                          const struct pl_launch_options *options,
                                          pl_prepared **out, pl_error *err);
/* The same from a named place: see pl_launch_at(). */
PL_API PL_MUST_CHECK pl_status pl_prepare_at(pl_loc at, pl_context *ctx,
                                             const struct pl_kernel *kernel, const pl_arg *args,
                                             size_t n_args, const struct pl_launch_options *options,
                                             pl_prepared **out, pl_error *err);
#define pl_prepare(...) pl_prepare_at(PL_LOC, __VA_ARGS__)
PL_API void pl_prepared_destroy(pl_prepared *p); /* NULL is fine */
/*
 * Launch a prepared variant with other tensors of the same kind. Takes no lock, allocates nothing, builds nothing; in a CUDA
 * context that it has not been launched in before, the first launch loads it there (PL_E_CAPTURING when the stream captures).
 *
 * Errors: PL_E_VARIANT when the arguments belong to another variant; else as pl_launch(). Threads: any, also with one handle.
 */
PL_API PL_MUST_CHECK pl_status pl_launch_prepared(const pl_prepared *p, pl_stream stream,
                                                  const pl_arg *args, size_t n_args, pl_error *err);
/* The same from a named place: see pl_launch_at(). */
PL_API PL_MUST_CHECK pl_status pl_launch_prepared_at(pl_loc at, const pl_prepared *p,
                                                     pl_stream stream, const pl_arg *args,
                                                     size_t n_args, pl_error *err);
#define pl_launch_prepared(...) pl_launch_prepared_at(PL_LOC, __VA_ARGS__)

/*
 * Builds and keeps every variant (configurations x fact combinations) for the dtypes and baked dims of args, so that no later
 * launch of such tensors misses. Configurations that do not serve them are left out. Errors, threads, capture: as pl_prepare();
 * what was built before an error stays.
 */
PL_API PL_MUST_CHECK pl_status pl_prepare_all(pl_context *ctx, const struct pl_kernel *kernel,
                                              const pl_arg *args, size_t n_args,
                                              const struct pl_launch_options *options,
                                              pl_error *err);

enum { PL_PACK_MAX_PARAMS = 64 };

/*
 * What cuGraphAddKernelNode and cuGraphExecKernelNodeSetParams want: function, dims, and kernel parameters whose values live
 * in `storage`. params[i] points into storage, so a pack must not be copied; the driver copies the values when it is called.
 */
typedef struct pl_pack {
    void *function; /* CUfunction */
    uint32_t grid[3], block[3], cluster[3];
    uint32_t smem_bytes;
    uint32_t n_params;
    bool is_empty; /* the launch would do nothing (an extent of 0) */
    void *params[PL_PACK_MAX_PARAMS];
#ifdef __cplusplus
    alignas(128)
#else
    _Alignas(128)
#endif
        unsigned char storage[4096];
} pl_pack;

/* Fill a pack for a launch of the prepared variant with these arguments; launches nothing. Errors: as pl_launch_prepared(). */
PL_API PL_MUST_CHECK pl_status pl_prepared_pack(const pl_prepared *p, const pl_arg *args,
                                                size_t n_args, pl_pack *out, pl_error *err);

/*
 * ---- memory helpers for small programs ----
 *
 * On the device's primary CUDA context, and synchronous: they wait for the default stream, and may not be called while a stream
 * captures. n_bytes 0 is fine and does nothing. Threads: any.
 *
 * Errors: PL_E_INVALID for a NULL pointer, PL_E_NOMEM, PL_E_DRIVER (bad address or size; driver_code says), PL_E_FAULT, and
 * PL_E_FORKED, PL_E_IN_CALLBACK, PL_E_RECURSION as pl_launch().
 */

/* Device memory, aligned to 256 bytes at least, not cleared. *address is 0 for 0 bytes and on failure. */
PL_API PL_MUST_CHECK pl_status pl_alloc(pl_context *ctx, size_t n_bytes, uint64_t *address,
                                        pl_error *err);
/* Gives back what pl_alloc() gave; waits for the GPU. 0 is fine. */
PL_API PL_MUST_CHECK pl_status pl_free(pl_context *ctx, uint64_t address, pl_error *err);
/* Host to device; `from` may be changed when it returns. */
PL_API PL_MUST_CHECK pl_status pl_upload(pl_context *ctx, uint64_t to, const void *from,
                                         size_t n_bytes, pl_error *err);
/* Device to host; what the default stream was doing is in it. */
PL_API PL_MUST_CHECK pl_status pl_download(pl_context *ctx, void *to, uint64_t from, size_t n_bytes,
                                           pl_error *err);
/* Waits for all work of the primary context; PL_E_FAULT when a kernel faulted. */
PL_API PL_MUST_CHECK pl_status pl_synchronize(pl_context *ctx, pl_error *err);

/* ---- host functions in stream order ---- */

typedef enum pl_c_type {
    PL_C_I32,
    PL_C_U32,
    PL_C_I64,
    PL_C_U64,
    PL_C_F32,
    PL_C_F64,
    PL_C_POINTER
} pl_c_type;

typedef struct pl_c_value {
    pl_c_type type;
    union {
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        uint64_t u64;
        float f32;
        double f64;
        void *pointer;
    } u;
} pl_c_value;

/*
 * Calls fn(values...) on a thread of the driver when all work before it in the stream is done. fn is any C function of these
 * argument types, cast to void (*)(void); what it returns is not looked at. No executable memory is made. While it runs, no
 * function of plaunch or CUDA may be called (PL_E_IN_CALLBACK), and a lock that a launching thread holds must not be waited for.
 * It is not called when the context faults. In a capture it becomes a node of the graph, and is called at each replay.
 *
 *   values   n_values of them, at most 16; copied
 *
 * Errors   PL6110, PL6114, PL6115
 */
PL_API PL_MUST_CHECK pl_status pl_host_callback(pl_context *ctx, pl_stream stream, void (*fn)(void),
                                                const pl_c_value *values, size_t n_values,
                                                pl_error *err);

#ifdef __cplusplus
}
#endif
#endif
