#ifndef PLAUNCH_CORE_H
#define PLAUNCH_CORE_H
/*
 * What every part of plaunch speaks: statuses, errors, reports, element types, shapes, tensors, arguments.
 * C11 and C++17. No CUDA header is needed: an address is a uint64_t, a stream a pointer to an incomplete struct.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define PL_API        __attribute__((visibility("default")))
#define PL_MUST_CHECK __attribute__((warn_unused_result))
#else
#define PL_API
#define PL_MUST_CHECK
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- statuses ---- */

/*
 * No call of this version answers E_IO or E_INTERNAL; they keep their numbers. A folder of the cache or of PLAUNCH_DUMP that cannot be
 * used costs a kernel nothing but time, so it is a warning (PL6150, PL6152). Be ready for both all the same: a call whose purpose is a
 * file, and a check that finds plaunch at fault, would answer them.
 */
#define PL_STATUS_LIST(X)                                                                          \
    X(OK, "success")                                                                               \
    X(E_INVALID, "an argument or the kernel breaks a rule; see the report")                        \
    X(E_UNSUPPORTED, "valid, but not served on this chip or by this version")                      \
    X(E_NOMEM, "out of host or device memory")                                                     \
    X(E_DRIVER, "the driver failed; its own code is in pl_error.driver_code")                      \
    X(E_ASSEMBLER, "the assembler refused the text")                                               \
    X(E_IO, "a file could not be read or written")                                                 \
    X(E_NOT_CACHED, "not built yet, and the policy is PL_COMPILE_NEVER")                           \
    X(E_PENDING, "being built elsewhere; try again")                                               \
    X(E_CAPTURING, "not built yet, and the stream is capturing; the capture stays valid")          \
    X(E_VARIANT, "the arguments belong to another variant than the prepared one")                  \
    X(E_FORKED, "the context was made before fork()")                                              \
    X(E_IN_CALLBACK, "called from a host callback of the driver")                                  \
    X(E_RECURSION, "called from inside a kernel body or a callback of the same build")             \
    X(E_NOEXEC, "no executable memory for a closure")                                              \
    X(E_FAULT, "a kernel faulted; the context is lost")                                            \
    X(E_INTERNAL, "a bug of plaunch")

typedef enum pl_status {
#define PL_STATUS_ENUM_(name, text) PL_##name,
    PL_STATUS_LIST(PL_STATUS_ENUM_)
#undef PL_STATUS_ENUM_
        PL_STATUS_COUNT
} pl_status;

PL_API const char *pl_status_name(pl_status s); /* "PL_E_INVALID"; never NULL */
PL_API const char *pl_status_text(pl_status s); /* the sentence above; never NULL */

/*
 * The first error of a call, in the caller's storage; NULL is accepted wherever one is asked for, and filling it never
 * allocates. file is a string of the program that made the call (or "" when unknown).
 */
typedef struct pl_error {
    pl_status status;
    int32_t code;      /* diagnostic number (shown as PL2041); 0 when none */
    int32_t argument;  /* index of the argument at fault; -1 when none */
    int32_t dimension; /* its dimension; -1 when none */
    int64_t actual;    /* value seen and value wanted; both 0 when has_values is false */
    int64_t expected;
    bool has_values;
    int32_t driver_code; /* the driver's own result, 0 when none */
    int32_t line;
    char file[128]; /* tail of the path */
    char text[512]; /* complete sentence with values, NUL-terminated, then what to do about it */
} pl_error;

/* ---- places in the caller's source ---- */

typedef struct pl_loc {
    const char *file; /* a string literal, or as long-lived; NULL: unknown */
    int line;
} pl_loc;

static inline pl_loc pl_loc_make(const char *file, int line)
{
    pl_loc l;
    l.file = file;
    l.line = line;
    return l;
}
#define PL_LOC pl_loc_make(__FILE__, __LINE__)

/* ---- reports: every diagnostic of a request ---- */

typedef enum pl_severity_level {
    PL_LEVEL_NOTE,
    PL_LEVEL_WARNING,
    PL_LEVEL_ERROR
} pl_severity_level;

typedef struct pl_report
    pl_report; /* the caller makes one, passes it in the options, reads it after the call */

typedef struct pl_report_item {
    int32_t code;
    pl_severity_level level;
    const char *id;     /* "tmem_plain_store" */
    const char *text;   /* with values */
    const char *remedy; /* what to do */
    const char *file;   /* "" when unknown */
    int32_t line;
    int32_t argument, dimension; /* -1 when none */
    int64_t actual, expected;
    bool has_values;
} pl_report_item;

/* Belongs to no context, so its memory is malloc's, also while a context with functions of its own adds to it. */
PL_API PL_MUST_CHECK pl_status pl_report_create(pl_report **out);
PL_API void pl_report_destroy(pl_report *r); /* NULL is fine */
PL_API void pl_report_clear(pl_report *r);
PL_API size_t pl_report_count(const pl_report *r); /* 0 for NULL */
PL_API size_t pl_report_n_errors(const pl_report *r);
/* Strings live until the report is cleared, used by another call, or destroyed. False when i is out of range. */
PL_API bool pl_report_get(const pl_report *r, size_t i, pl_report_item *out);

/* ---- element types ---- */

typedef enum pl_dtype {
    PL_DTYPE_NONE,
#define PL_DTYPE(id, name, bits, kind) PL_##id,
#include <plaunch/dtype.def>
#undef PL_DTYPE
    PL_DTYPE_COUNT
} pl_dtype;

typedef enum pl_dtype_kind {
    PL_KIND_NONE,
    PL_KIND_FLOAT,
    PL_KIND_SCALE,
    PL_KIND_INT,
    PL_KIND_UINT,
    PL_KIND_BOOL
} pl_dtype_kind;

PL_API const char *pl_dtype_name(pl_dtype t); /* "bf16"; "none" for anything else */
PL_API int32_t pl_dtype_bits(pl_dtype t);     /* storage bits; 0 for none */
PL_API pl_dtype_kind pl_dtype_kind_of(pl_dtype t);
PL_API pl_dtype pl_dtype_find(const char *name); /* PL_DTYPE_NONE when unknown, or NULL */

/* A set of dtypes: PL_DT(F32) | PL_DT(BF16). */
typedef uint32_t pl_dtype_set;
#define PL_DT(id) (1u << PL_##id) /* no cast: C++ programs may forbid those of C */
#define PL_DT_ANY (~0u)

/* ---- shapes ---- */

enum { PL_MAX_RANK = 8 };

typedef struct pl_shape {
    int32_t rank;
    int64_t d[PL_MAX_RANK]; /* elements; entries from rank on are 0 */
} pl_shape;

static inline pl_shape pl_shape_make(int32_t rank, int64_t d0, int64_t d1, int64_t d2, int64_t d3,
                                     int64_t d4, int64_t d5, int64_t d6, int64_t d7)
{
    pl_shape s;
    s.rank = rank;
    s.d[0] = d0, s.d[1] = d1, s.d[2] = d2, s.d[3] = d3;
    s.d[4] = d4, s.d[5] = d5, s.d[6] = d6, s.d[7] = d7;
    return s;
}

#define PL_CAT_(a, b)                                    a##b
#define PL_CAT(a, b)                                     PL_CAT_(a, b)
#define PL_NARG_(_1, _2, _3, _4, _5, _6, _7, _8, N, ...) N
#define PL_NARG(...)                                     PL_NARG_(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define PL_SHAPE_1(a)                                    pl_shape_make(1, a, 0, 0, 0, 0, 0, 0, 0)
#define PL_SHAPE_2(a, b)                                 pl_shape_make(2, a, b, 0, 0, 0, 0, 0, 0)
#define PL_SHAPE_3(a, b, c)                              pl_shape_make(3, a, b, c, 0, 0, 0, 0, 0)
#define PL_SHAPE_4(a, b, c, d)                           pl_shape_make(4, a, b, c, d, 0, 0, 0, 0)
#define PL_SHAPE_5(a, b, c, d, e)                        pl_shape_make(5, a, b, c, d, e, 0, 0, 0)
#define PL_SHAPE_6(a, b, c, d, e, f)                     pl_shape_make(6, a, b, c, d, e, f, 0, 0)
#define PL_SHAPE_7(a, b, c, d, e, f, g)                  pl_shape_make(7, a, b, c, d, e, f, g, 0)
#define PL_SHAPE_8(a, b, c, d, e, f, g, h)               pl_shape_make(8, a, b, c, d, e, f, g, h)
/* PL_SHAPE(m, k): one to eight extents, outermost first. PL_SHAPE_SCALAR: rank 0, one element. */
#define PL_SHAPE(...)   PL_CAT(PL_SHAPE_, PL_NARG(__VA_ARGS__))(__VA_ARGS__)
#define PL_SHAPE_SCALAR pl_shape_make(0, 0, 0, 0, 0, 0, 0, 0, 0)

/* ---- tensors and arguments ---- */

/*
 * A device array. Not owned. Invariants: 0 <= rank <= 8, shape[i] >= 0, strides in elements of dtype (may be 0 or negative
 * where a kernel allows it); entries from rank on are 0. Sub-byte types count elements, not bytes.
 */
typedef struct pl_tensor {
    uint64_t address; /* device address; 0 is only valid for an empty tensor */
    pl_dtype dtype;
    int32_t rank;
    int64_t shape[PL_MAX_RANK];
    int64_t strides[PL_MAX_RANK];
} pl_tensor;

/* Row-major, dense. */
static inline pl_tensor pl_tensor_make(uint64_t address, pl_dtype dtype, pl_shape shape)
{
    pl_tensor t;
    t.address = address;
    t.dtype = dtype;
    t.rank = shape.rank;
    int64_t stride = 1;
    for (int i = PL_MAX_RANK - 1; i >= 0; i--) {
        t.shape[i] = i < shape.rank ? shape.d[i] : 0;
        t.strides[i] = i < shape.rank ? stride : 0;
        if (i < shape.rank)
            stride *= shape.d[i] > 1 ? shape.d[i] : 1;
    }
    return t;
}

/* Any strides, in elements, outermost first. */
static inline pl_tensor pl_tensor_strided(uint64_t address, pl_dtype dtype, pl_shape shape,
                                          pl_shape strides)
{
    pl_tensor t = pl_tensor_make(address, dtype, shape);
    for (int i = 0; i < shape.rank; i++)
        t.strides[i] = i < strides.rank ? strides.d[i] : 0;
    return t;
}

PL_API int64_t pl_tensor_n_elems(const pl_tensor *t); /* product of the extents; 1 for rank 0 */

typedef enum pl_arg_kind {
    PL_ARG_NONE, /* an absent optional argument */
    PL_ARG_TENSOR,
    PL_ARG_I32,
    PL_ARG_I64,
    PL_ARG_F32
} pl_arg_kind;

typedef struct pl_arg {
    pl_arg_kind kind;
    union {
        pl_tensor tensor;
        int32_t i32;
        int64_t i64;
        float f32;
    } u;
} pl_arg;

static inline pl_arg pl_arg_none(void)
{
    pl_arg a;
    a.kind = PL_ARG_NONE;
    a.u.i64 = 0;
    return a;
}
static inline pl_arg pl_arg_tensor(pl_tensor t)
{
    pl_arg a;
    a.kind = PL_ARG_TENSOR;
    a.u.tensor = t;
    return a;
}
static inline pl_arg pl_arg_i32(int32_t v)
{
    pl_arg a;
    a.kind = PL_ARG_I32;
    a.u.i32 = v;
    return a;
}
static inline pl_arg pl_arg_i64(int64_t v)
{
    pl_arg a;
    a.kind = PL_ARG_I64;
    a.u.i64 = v;
    return a;
}
static inline pl_arg pl_arg_f32(float v)
{
    pl_arg a;
    a.kind = PL_ARG_F32;
    a.u.f32 = v;
    return a;
}

#ifdef __cplusplus
}
#endif
#endif
