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

/* All inputs of one encoding. No padding: compared and hashed as bytes. */
struct pl_tmap_key {
    uint64_t address;
    uint64_t dims[PL_PLAN_MAP_RANK];
    uint64_t stride_bytes[PL_PLAN_MAP_RANK]; /* of dimensions 1 up; [0] is 0 */
    uint16_t box[PL_PLAN_MAP_RANK];
    uint16_t rank;
    uint8_t dtype, swizzle, l2, fill; /* PL_CU_TMAP_… */
};
_Static_assert(sizeof(struct pl_tmap_key) == 11 * 8 + 5 * 2 + 2 + 4, "no padding");

enum { PL_TMAP_LINES = 64 };

struct pl_tmap_line {
    struct pl_tmap_key key; /* rank 0: empty */
    uint64_t words[16];     /* the encoded map */
};

struct pl_tmap_cache {
    struct pl_tmap_line lines[PL_TMAP_LINES]; /* direct-mapped */
};

struct pl_thread;

/*
 * The inputs of a descriptor's encoding for a tensor, with every rule checked.
 *
 *   map   descriptor of the plan; t  the argument that it names
 *
 * Errors   PL6140 … PL6147 (argument, dimension, value), PL_E_INVALID; PL_E_UNSUPPORTED for an element type without a map
 */
PL_MUST_CHECK pl_status pl_tmap_key_make(struct pl_tmap_key *key, const struct pl_plan_map *map,
                                         const pl_tensor *t, struct pl_call *call);

/* The line in which a key lives, encoded or not. */
struct pl_tmap_line *pl_tmap_line_of(struct pl_tmap_cache *cache, const struct pl_tmap_key *key);

#endif
