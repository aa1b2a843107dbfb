#ifndef PL_RUNTIME_TENSORMAP_H
#define PL_RUNTIME_TENSORMAP_H
/*
 * Tensor maps: the plan's descriptors as data become the driver's 128 bytes. Every rule of the driver's encode call is checked
 * here first, since that answers a bare INVALID_VALUE to all of them. Encoded maps are kept by a small table of each thread,
 * whose key is *every* input of the encoding, so an entry needs no tie to the tensor's life.
 *
 * Source  CUDA Driver API, Tensor Map Object Management: cuTensorMapEncodeTiled
 */
#include "src/plan/plan.h"
#include "src/runtime/call.h"
#include "src/runtime/cuda_abi.h"

/* All inputs of one encoding, as the plan and the tensor give them. No padding: compared and hashed as bytes. */
struct pl_tmap_key {
    uint64_t address;
    int64_t dims[PL_PLAN_MAP_RANK];    /* elements, innermost first; 0 from rank on */
    int64_t strides[PL_PLAN_MAP_RANK]; /* elements */
    uint16_t box[PL_PLAN_MAP_RANK];    /* elements */
    uint16_t l2_bytes;
    uint8_t rank, dtype, swizzle; /* pl_dtype, enum pl_plan_swizzle */
    bool fills_nan;
};
_Static_assert(sizeof(struct pl_tmap_key) == 11 * 8 + 6 * 2 + 4, "no padding");

enum { PL_TMAP_LINES = 64 };

struct pl_tmap_line {
    struct pl_tmap_key key; /* rank 0: empty */
    uint64_t words[16];     /* the encoded map */
};

struct pl_tmap_cache {
    struct pl_tmap_line lines[PL_TMAP_LINES]; /* direct-mapped */
};

/* The inputs of a descriptor's encoding for a tensor. Nothing is checked: a key that is found encoded was checked before. */
void pl_tmap_key_make(struct pl_tmap_key *key, const struct pl_plan_map *map, const pl_tensor *t);

/* The line in which a key lives, encoded or not. */
struct pl_tmap_line *pl_tmap_line_of(struct pl_tmap_cache *cache, const struct pl_tmap_key *key);

/*
 * Drivers up to 13.3 encode maps of Blackwell chips with a bit too many when the tensor's memory is small and not dense, and
 * copies then fault now and then: the bit is taken out, as their maker advises, of maps that this may concern. By the tensor's own
 * extent, since an allocation is not smaller, so the answer depends on the key alone.
 *
 * Source  NVIDIA Data Center GPU Driver 595.71.05 release notes, Known Issues: cuTensorMapEncodeTiled (bit 85, below 128 KB)
 */
enum { PL_TMAP_MENDED_DRIVER = 13030 };
void pl_tmap_mend(const struct pl_tmap_key *key, uint64_t words[16]);

/* What the driver's encode call is given. */
struct pl_tmap_inputs {
    uint64_t dims[PL_PLAN_MAP_RANK];
    uint64_t stride_bytes[PL_PLAN_MAP_RANK]; /* of dimensions 1 up; [0] is 0 */
    uint32_t box[PL_PLAN_MAP_RANK], ones[PL_PLAN_MAP_RANK];
    int dtype, swizzle, l2, fill; /* PL_CU_TMAP_... */
};

/*
 * Check every rule and translate.
 *
 *   map   the plan's descriptor, for the argument and axes in messages
 *
 * Errors   PL6140 ... PL6147 (argument, dimension, value), PL_E_INVALID; PL6148, PL_E_UNSUPPORTED, for an element type without maps
 */
PL_MUST_CHECK pl_status pl_tmap_inputs_make(struct pl_tmap_inputs *out,
                                            const struct pl_tmap_key *key,
                                            const struct pl_plan_map *map, struct pl_call *call);

#endif
