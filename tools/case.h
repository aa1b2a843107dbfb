#ifndef PL_TOOLS_CASE_H
#define PL_TOOLS_CASE_H
/*
 * A case: one launch of one kernel of the library with made inputs, and what must come out, from float64 arithmetic on the
 * CPU with a stated bound for each element. `plaunch run`, the kernel tests and the benches all make their arguments here.
 *
 * kernel.def has a row for each kernel; adding a kernel adds its row, its make function and its reference.
 */
#include <plaunch.h>

#include "tools/host.h"

enum { PL_CASE_MAX_ARGS = 8, PL_CASE_MAX_EXTRAS = 16, PL_CASE_OPTION_BYTES = 64 };

/* What the user asked for. */
struct pl_case_spec {
    pl_shape shape;
    pl_dtype dtype;
    pl_dtype out_dtype; /* PL_DTYPE_NONE: dtype, or what the kernel prefers */
    int axis;           /* negative counts from the end */
    const char *op;     /* "sum", "max", …; NULL: the kernel's first */
    int64_t batch;      /* > 0: an extra leading extent */
    int64_t base_offset_bytes, pitch_elems;
    uint64_t seed;
    bool has_specials;     /* some inputs are infinite or NaN */
    bool has_no_values;    /* extents only, no inputs and no reference: to print the text */
    bool has_whole_values; /* matmul: small whole numbers, so that sums are exact */
    struct {               /* the kernel's other keys of --set */
        char key[16];
        double value;
    } extra[PL_CASE_MAX_EXTRAS];
    int n_extra;
    const char *in_npy[PL_CASE_MAX_ARGS]; /* for the inputs in order; NULL: random */
};

struct pl_case_arg {
    pl_arg_kind kind;
    bool is_output;
    struct pl_host host; /* TENSOR */
    float f32;
    int32_t i32;
};

struct pl_case {
    const struct pl_kernel *kernel;
    struct pl_case_arg args[PL_CASE_MAX_ARGS];
    size_t n_args;
    size_t output; /* index of the one output */
    _Alignas(16) unsigned char options[PL_CASE_OPTION_BYTES];
    bool has_options, has_whole_values;
    void (*reference)(struct pl_case *c); /* fills want and bound from the inputs */
    double *want;                         /* of output, row-major order; owned */
    double *bound; /* largest |got - want| allowed, element by element; 0 = exact; owned */
};

struct pl_case_kernel {
    const char *name;
    const struct pl_kernel *kernel;
    int n_axes;       /* of --shape: 3 for MxKxN, else 2, which stands for any */
    const char *keys; /* of --set, separated by spaces, beside base_offset, pitch and batch */
    bool (*make)(const struct pl_case_spec *spec, struct pl_case *c, char *why, size_t why_bytes);
};
extern const struct pl_case_kernel pl_case_kernels[];
extern const size_t pl_case_n_kernels;
const struct pl_case_kernel *pl_case_find(const char *name);

/* The value of a kernel's own key, or `otherwise`. */
double pl_case_extra(const struct pl_case_spec *spec, const char *key, double otherwise);
/* matmul's make function: case_matmul.c. */
bool pl_case_make_matmul(const struct pl_case_spec *spec, struct pl_case *c, char *why,
                         size_t why_bytes);

/* Makes arguments and reference. False: why[] has one line naming the value seen and wanted; *c is empty. */
bool pl_case_make(const struct pl_case_kernel *k, const struct pl_case_spec *spec,
                  struct pl_case *c, char *why, size_t why_bytes);
void pl_case_fini(struct pl_case *c);

struct pl_case_result {
    bool is_ok;
    double max_abs_err,
        max_rel_err; /* over finite elements; rel only where |want| is above the type's smallest normal */
    int64_t n_wrong, first_wrong; /* elements past their bound */
    double first_got, first_want, first_bound;
    bool is_gap_intact; /* no byte outside the tensors changed */
};
/* Compares the downloaded output (c->args[c->output].host) and the gaps of every argument. */
struct pl_case_result pl_case_compare(const struct pl_case *c);

/* Uploads, launches on the NULL stream, waits, downloads, frees. launch_options may be NULL; its params are replaced. */
pl_status pl_case_run(struct pl_case *c, pl_context *ctx, const pl_launch_options *launch_options,
                      pl_error *err);
/* The same in pieces, for benches: device copies of all arguments. */
pl_status pl_case_upload(const struct pl_case *c, pl_context *ctx, pl_arg args[PL_CASE_MAX_ARGS],
                         uint64_t device[PL_CASE_MAX_ARGS], pl_error *err);
pl_status pl_case_download(struct pl_case *c, pl_context *ctx,
                           const uint64_t device[PL_CASE_MAX_ARGS], pl_error *err);
void pl_case_free(pl_context *ctx, uint64_t device[PL_CASE_MAX_ARGS]);
#endif
