#ifndef PL_EMU_TENSORMAP_H
#define PL_EMU_TENSORMAP_H
/*
 * The 128-byte tensor map: what cuTensorMapEncode* writes, tensormap.replace edits and a bulk tensor copy reads.
 *
 * The first 60 bytes have the bit layout that tensormap.replace uses on a chip (found by reading ptxas' immediates and by
 * decoding driver-made maps; emu/tensormap.c, at the field table). The rest of a real map is unknown; ours holds a marker and the
 * im2col fields there, so that memory which neither an encoder nor tensormap.replace wrote is never taken for a map.
 *
 * Numbering of types, interleave, swizzle, L2 promotion and fill is the Driver API's (CUtensorMapDataType and so on), except
 * PL_TMAP_SWIZZLE_96B, which only tensormap.replace can ask for. Dimension 0 is the innermost everywhere.
 */
#include "base/diag.h"

#include <stdbool.h>
#include <stdint.h>

enum { PL_TMAP_N_BYTES = 128, PL_TMAP_ALIGN_BYTES = 64, PL_TMAP_MAX_RANK = 5 };

enum pl_tmap_mode {
    PL_TMAP_TILED,
    PL_TMAP_IM2COL,
    PL_TMAP_IM2COL_W,
    PL_TMAP_IM2COL_W128,
    PL_TMAP_MODE_COUNT
};

enum pl_tmap_type {
    PL_TMAP_U8,
    PL_TMAP_U16,
    PL_TMAP_U32,
    PL_TMAP_S32,
    PL_TMAP_U64,
    PL_TMAP_S64,
    PL_TMAP_F16,
    PL_TMAP_F32,
    PL_TMAP_F64,
    PL_TMAP_BF16,
    PL_TMAP_F32_FTZ,
    PL_TMAP_TF32,
    PL_TMAP_TF32_FTZ,
    PL_TMAP_U4_ALIGN8, /* 16 x 4 bits, dense in shared memory */
    PL_TMAP_U4_ALIGN16, /* 16 x 4 bits in each 16 bytes of shared memory: 8 used, 8 undefined; loads only */
    PL_TMAP_U6_ALIGN16, /* 16 x 6 bits: loads leave 12 used and 4 undefined bytes; stores read one element a byte */
    PL_TMAP_TYPE_COUNT
};

enum pl_tmap_interleave {
    PL_TMAP_INTERLEAVE_NONE,
    PL_TMAP_INTERLEAVE_16B,
    PL_TMAP_INTERLEAVE_32B,
    PL_TMAP_INTERLEAVE_COUNT
};

enum pl_tmap_swizzle {
    PL_TMAP_SWIZZLE_NONE,
    PL_TMAP_SWIZZLE_32B,
    PL_TMAP_SWIZZLE_64B,
    PL_TMAP_SWIZZLE_128B,
    PL_TMAP_SWIZZLE_128B_ATOM_32B,
    PL_TMAP_SWIZZLE_128B_ATOM_32B_FLIP_8B,
    PL_TMAP_SWIZZLE_128B_ATOM_64B,
    PL_TMAP_SWIZZLE_96B,
    PL_TMAP_SWIZZLE_COUNT
};

/* A map in the open. box and element strides are those of tiled maps; the fields after them those of im2col maps. */
struct pl_tensormap {
    uint32_t mode;         /* enum pl_tmap_mode */
    uint32_t type;         /* enum pl_tmap_type */
    uint32_t interleave;   /* enum pl_tmap_interleave */
    uint32_t swizzle;      /* enum pl_tmap_swizzle */
    uint32_t l2_promotion; /* 0 none, 1 64 B, 2 128 B, 3 256 B: a hint, no effect here */
    uint32_t fill;         /* 0 zero, 1 NaN: what a load writes for elements outside the tensor */
    uint32_t rank;         /* 1..5 */
    uint64_t address;      /* of element (0, …, 0) in global memory */
    uint64_t dims[PL_TMAP_MAX_RANK]; /* elements, 1..2^32 */
    uint64_t strides_bytes
        [PL_TMAP_MAX_RANK]; /* of dimension i; [0] is not used: the element size rules */
    uint32_t
        box[PL_TMAP_MAX_RANK]; /* elements traversed, 1..256; in im2col maps box[0] is not used */
    uint32_t elem_strides[PL_TMAP_MAX_RANK]; /* 1..8 */
    int32_t lower[3], upper[3];              /* im2col corners; index 0 is W, then H, then D */
    uint32_t n_channels, n_pixels;           /* im2col: channels per pixel, pixels per column */
};

/* What the encoders check beyond the map itself. */
struct pl_tmap_request {
    struct pl_tensormap map;
    uint64_t image_address; /* where the caller wants the 128 bytes: 64-byte aligned */
};

/*
 * The Driver API's encode functions: check every precondition, then write the image.
 *
 *   r      in   the request, enumerations as the caller gave them (out-of-range ones are found here); entries of dims, box … at
 *               and above rank are ignored
 *   ds     out  one diagnostic for each rule broken, naming it with the value seen (emu/async.def, PL82xx)
 *   image  out  128 bytes, written only if all rules hold
 *
 * Source   CUDA Driver API, cuTensorMapEncodeTiled, cuTensorMapEncodeIm2col, cuTensorMapEncodeIm2colWide
 */
bool pl_tensormap_encode(const struct pl_tmap_request *r, struct pl_diags *ds, uint8_t *image);

/* The rules alone, for a map from any source (tensormap.replace can break them). True if none is broken. */
bool pl_tensormap_check(const struct pl_tensormap *m, struct pl_diags *ds);

/* Pack a map that passes the check; unpack an image. Unpack is false where no encoder wrote these bytes. */
void pl_tensormap_pack(const struct pl_tensormap *m, uint8_t *image);
bool pl_tensormap_unpack(const uint8_t *image, struct pl_tensormap *m);

/* Fields of tensormap.replace, in the text order of its table. */
enum pl_tmap_field {
    PL_TMAP_FIELD_GLOBAL_ADDRESS,
    PL_TMAP_FIELD_RANK,
    PL_TMAP_FIELD_BOX_DIM,
    PL_TMAP_FIELD_GLOBAL_DIM,
    PL_TMAP_FIELD_GLOBAL_STRIDE,
    PL_TMAP_FIELD_ELEMENT_STRIDE,
    PL_TMAP_FIELD_ELEMTYPE,
    PL_TMAP_FIELD_INTERLEAVE_LAYOUT,
    PL_TMAP_FIELD_SWIZZLE_MODE,
    PL_TMAP_FIELD_SWIZZLE_ATOMICITY,
    PL_TMAP_FIELD_FILL_MODE,
    PL_TMAP_FIELD_COUNT
};

/* Edit one field of an image in place (zeroed memory becomes an image by that), with the value as the instruction gives it (rank minus one; PTX element type codes).
 * ordinal: dimension, where the field has one. Source: Data Movement and Conversion Instructions: tensormap.replace */
void pl_tensormap_replace(uint8_t *image, enum pl_tmap_field field, uint32_t ordinal,
                          uint64_t value);

uint32_t pl_tmap_type_bits(enum pl_tmap_type t); /* of one element in global memory: 4, 6, 8 … 64 */
const char *pl_tmap_type_name(enum pl_tmap_type t);
bool pl_tmap_type_is_packed(enum pl_tmap_type t);            /* 4- and 6-bit elements */
uint32_t pl_tmap_swizzle_span_bytes(enum pl_tmap_swizzle s); /* 0 for none */

/* The byte that holds logical byte `a` of a swizzled tile: an XOR of absolute shared-memory address bits, its own inverse. */
uint32_t pl_tmap_swizzle_address(enum pl_tmap_swizzle s, uint32_t a);

#define PL_DIAG_ROWS "emu/async.def"
#define PL_DIAG_MODE_DECLARE
#include "base/diag_rows.h"
#endif
