#ifndef PL_TOOLS_HOST_H
#define PL_TOOLS_HOST_H
/*
 * Host copies of tensors: what the command and the kernel tests make, upload, download and compare. A host tensor holds the
 * whole device allocation: a red zone, the tensor with its own strides, a red zone. Bytes that belong to no element are
 * filled with a pattern, so that a stray write of a kernel is seen (pl_host_is_gap_intact).
 */
#include <plaunch/core.h>

#include "tools/npy.h"

enum { PL_HOST_RED_BYTES = 256 };

struct pl_host {
    pl_dtype dtype; /* of 8 bits or more */
    int rank;
    int64_t shape[PL_MAX_RANK];
    int64_t strides[PL_MAX_RANK]; /* elements, >= 0 */
    size_t offset_bytes;          /* of element 0 in bytes[] */
    size_t n_bytes;               /* of the allocation */
    unsigned char *bytes;         /* owned */
};

/* Where a tensor lies: pitch is the stride of the second-to-last axis (0: dense), base_offset is added to the red zone. */
struct pl_host_place {
    int64_t pitch_elems;
    int64_t base_offset_bytes;
    bool is_transposed; /* the last two axes are stored the other way round (column-major) */
    bool
        has_no_bytes; /* extents and strides only: bytes is NULL, and elements cannot be asked for */
};

/*
 * False when out of memory, when the size does not fit in 63 bits, when elements are smaller than a byte, when the pitch is shorter
 * than a row, or when the base is not a multiple of the element.
 */
bool pl_host_init(struct pl_host *t, pl_dtype dtype, pl_shape shape,
                  const struct pl_host_place *place);
void pl_host_fini(struct pl_host *t);
int64_t pl_host_n_elems(const struct pl_host *t);

/* Element i in row-major order of the shape, as its bits and as a double (exact for every float of at most 64 bits and for
 * integers below 2^53). Setting rounds to nearest even; fp8 saturates; integers clamp. */
uint64_t pl_host_bits(const struct pl_host *t, int64_t i);
void pl_host_set_bits(struct pl_host *t, int64_t i, uint64_t bits);
double pl_host_get(const struct pl_host *t, int64_t i);
void pl_host_set(struct pl_host *t, int64_t i, double v);
double pl_host_round(pl_dtype dtype, double v); /* v as that dtype holds it */
double pl_host_epsilon(
    pl_dtype dtype); /* unit roundoff: half the distance of 1 to its successor; 0 for integers */
double pl_host_tiny(
    pl_dtype dtype); /* smallest positive value (subnormal included); 0 for integers */

/*
 * Fresh random values: floats normal(0,1) mostly, with some small, large, subnormal, zero of both signs; integers over [-100, 100].
 */
struct pl_rng {
    uint64_t state;
};
uint64_t pl_rng_next(struct pl_rng *r);
double pl_rng_uniform(struct pl_rng *r); /* [0, 1) */
double pl_rng_normal(struct pl_rng *r);
void pl_host_fill_random(struct pl_host *t, struct pl_rng *r);
/* Makes one element in eight of a float tensor infinite, of both signs, or a NaN of random sign and payload. */
void pl_host_add_specials(struct pl_host *t, struct pl_rng *r);

bool pl_host_is_gap_intact(const struct pl_host *t);
pl_tensor pl_host_tensor(const struct pl_host *t,
                         uint64_t device_address); /* device_address of bytes[0] */

/* .npy interchange; bf16 travels as <u2, fp8 as |u1. Shapes must agree on load. */
const char *pl_host_npy_descr(pl_dtype dtype); /* NULL: the dtype does not travel */
bool pl_host_load_npy(struct pl_host *t, const char *path, char *why, size_t why_bytes);
bool pl_host_save_npy(const struct pl_host *t, const char *path, char *why, size_t why_bytes);
#endif
