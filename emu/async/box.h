#ifndef PL_EMU_ASYNC_BOX_H
#define PL_EMU_ASYNC_BOX_H
/*
 * From a tensor map and coordinates to bytes: the rows of a box, one after the other, as a bulk tensor copy visits them.
 *
 * A row is what lies along dimension 0: in tile mode one line of the box, in im2col mode the channels of one pixel, in
 * gather and scatter one of the four rows. Rows are dense in the shared tile; the swizzle is applied to the absolute
 * shared address afterwards (pl_tmap_swizzle_address), in pieces of 16 bytes or less.
 *
 * Source: PTX ISA, Tensors (Tiled Mode, im2col mode, tile::gather4, Data types); cp.async.bulk.tensor
 */
#include "emu/tensormap.h"

enum pl_box_mode { PL_BOX_TILE, PL_BOX_IM2COL, PL_BOX_GATHER4 };

struct pl_box {
    const struct pl_tensormap *map;
    enum pl_box_mode mode;
    int64_t start
        [PL_TMAP_MAX_RANK]; /* coordinates of the operand; gather4: column, then the four rows */
    uint32_t offsets[3]; /* im2col: added to W, H, D of a pixel for the access, not for the walk */
    uint32_t
        n_loaded[PL_TMAP_MAX_RANK]; /* elements along each dimension; [0] is the length of a row */
    uint32_t n_rows;
    /* the walk */
    uint32_t row;
    uint32_t index[PL_TMAP_MAX_RANK]; /* tile: in elements loaded */
    int64_t pixel[PL_TMAP_MAX_RANK];  /* im2col: w, (h, (d)), n of the next pixel at [1]… */
};

struct pl_box_row {
    uint32_t shared_offset_bytes; /* in the tile, before the swizzle */
    uint32_t n_elems;
    uint32_t first,
        end; /* the elements [first, end) lie inside the tensor; equal where none does */
    int64_t
        offset_bits; /* of element 0 from the map's address; meaningful for elements inside only */
};

/* coords: rank entries, or 5 in gather4 mode; offsets: rank - 2 entries in im2col mode, else NULL. The map passed its check. */
void pl_box_start(struct pl_box *b, const struct pl_tensormap *m, enum pl_box_mode mode,
                  const int32_t *coords, const uint16_t *offsets);
bool pl_box_next(struct pl_box *b, struct pl_box_row *row);

uint32_t pl_box_row_shared_bytes(const struct pl_box *b); /* pitch of a row in shared memory */
uint32_t pl_box_shared_bytes(
    const struct pl_box *b); /* footprint, undefined gaps of padded types included */
uint32_t pl_box_payload_bytes(
    const struct pl_box *b); /* what the mbarrier counts: the full box, without gaps */
uint32_t pl_box_row_global_bytes(const struct pl_box_row *row, const struct pl_tensormap *m,
                                 int64_t *offset_bytes);

/*
 * The shared image of one row.
 *
 *   global       bytes of the elements inside, from pl_box_row_global_bytes()'s offset on; not read where there are none
 *   out          pl_box_row_shared_bytes() bytes: elements outside filled (zero or NaN), TF32 types rounded, gaps zero
 *
 * Source: PTX ISA, Tensors: Out-of-bound access, Packed format; TF32 rounding: docs/hardware-assumptions.md
 */
void pl_box_row_load(const struct pl_box *b, const struct pl_box_row *row, const uint8_t *global,
                     uint8_t *out);

/* The inverse for stores: the elements inside, from the shared image `in`, into `global`; other bits of it stay. */
void pl_box_row_store(const struct pl_box *b, const struct pl_box_row *row, const uint8_t *in,
                      uint8_t *global);

/* True for bytes of the shared image that no load defines (the gaps of the padded packed types). */
bool pl_box_byte_is_gap(const struct pl_tensormap *m, uint32_t row_byte);
#endif
