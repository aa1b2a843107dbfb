#include "emu/async/box.h"

#include "base/debug.h"

#include <string.h>

/* ---- sizes --------------------------------------------------------------------------------------------------------- */

/* Bytes of shared memory that 16 elements take. */
static uint32_t group_bytes(const struct pl_tensormap *m)
{
    bool is_padded = m->type == PL_TMAP_U4_ALIGN16 || m->type == PL_TMAP_U6_ALIGN16;
    return is_padded ? 16 : 2 * pl_tmap_type_bits(m->type);
}

uint32_t pl_box_row_shared_bytes(const struct pl_box *b)
{
    return b->n_loaded[0] * group_bytes(b->map) / 16;
}
uint32_t pl_box_shared_bytes(const struct pl_box *b)
{
    return b->n_rows * pl_box_row_shared_bytes(b);
}

uint32_t pl_box_payload_bytes(const struct pl_box *b)
{
    return b->n_rows * (b->n_loaded[0] * pl_tmap_type_bits(b->map->type) / 8);
}

uint32_t pl_box_row_global_bytes(const struct pl_box_row *row, const struct pl_tensormap *m,
                                 int64_t *offset_bytes)
{
    uint32_t bits = pl_tmap_type_bits(m->type);
    int64_t first_bit = row->offset_bits + (int64_t)row->first * bits;
    int64_t end_bit = row->offset_bits + (int64_t)row->end * bits;
    *offset_bytes = first_bit / 8;
    return row->first == row->end ? 0 : (uint32_t)((end_bit + 7) / 8 - first_bit / 8);
}

/* ---- the walk ------------------------------------------------------------------------------------------------------ */

void pl_box_start(struct pl_box *b, const struct pl_tensormap *m, enum pl_box_mode mode,
                  const int32_t *coords, const uint16_t *offsets)
{
    *b = (struct pl_box){.map = m, .mode = mode};
    uint32_t n_coords = mode == PL_BOX_GATHER4 ? 5 : m->rank;
    for (uint32_t i = 0; i < n_coords; i++)
        b->start[i] = coords[i];
    memcpy(b->pixel, b->start, sizeof b->pixel);
    switch (mode) {
    case PL_BOX_TILE:
        b->n_rows = 1;
        for (uint32_t i = 0; i < m->rank; i++) {
            uint32_t stride =
                i == 0 && m->interleave == PL_TMAP_INTERLEAVE_NONE ? 1 : m->elem_strides[i];
            b->n_loaded[i] = (m->box[i] + stride - 1) / stride;
            b->n_rows *= i == 0 ? 1 : b->n_loaded[i];
        }
        break;
    case PL_BOX_IM2COL:
        b->n_loaded[0] = m->n_channels;
        b->n_rows = m->n_pixels;
        for (uint32_t i = 0; i + 2 < m->rank && offsets != NULL; i++)
            b->offsets[i] = offsets[i];
        break;
    case PL_BOX_GATHER4:
        b->n_loaded[0] = m->box[0];
        b->n_rows = 4;
        break;
    }
}

/* Coordinate of dimension i for the row at hand. */
static int64_t coordinate(const struct pl_box *b, uint32_t i)
{
    const struct pl_tensormap *m = b->map;
    switch (b->mode) {
    case PL_BOX_TILE: return b->start[i] + (int64_t)b->index[i] * m->elem_strides[i];
    case PL_BOX_IM2COL: return b->pixel[i] + (i < m->rank - 1 ? (int64_t)b->offsets[i - 1] : 0);
    case PL_BOX_GATHER4: return b->start[1 + b->row];
    }
    return 0;
}

static uint32_t clamp_to_row(int64_t v, uint32_t n_elems)
{
    return v < 0 ? 0 : v > n_elems ? n_elems : (uint32_t)v;
}

static void fill_row(const struct pl_box *b, struct pl_box_row *row)
{
    const struct pl_tensormap *m = b->map;
    uint32_t n = b->n_loaded[0];
    *row = (struct pl_box_row){.shared_offset_bytes = b->row * pl_box_row_shared_bytes(b),
                               .n_elems = n};
    row->offset_bits = b->start[0] * (int64_t)pl_tmap_type_bits(m->type);
    bool is_inside = true;
    for (uint32_t i = 1; i < m->rank; i++) {
        int64_t c = coordinate(b, i);
        is_inside &= c >= 0 && (uint64_t)c < m->dims[i];
        row->offset_bits += c * (int64_t)m->strides_bytes[i] * 8;
    }
    if (!is_inside)
        return;
    row->first = clamp_to_row(-b->start[0], n);
    row->end = clamp_to_row((int64_t)m->dims[0] - b->start[0], n);
    if (row->end < row->first)
        row->end = row->first;
}

static void advance_tile(struct pl_box *b)
{
    for (uint32_t i = 1; i < b->map->rank; i++) {
        if (++b->index[i] < b->n_loaded[i])
            return;
        b->index[i] = 0;
    }
}

/* The next filter position: the spatial dimensions run from the lower corner to the upper one (both included), W fastest; then
 * the next image. Source: PTX ISA, Tensors: im2col mode, Bounding Box and Traversal Stride */
static void advance_pixel(struct pl_box *b)
{
    const struct pl_tensormap *m = b->map;
    for (uint32_t i = 1; i < m->rank - 1; i++) {
        b->pixel[i] += m->elem_strides[i];
        if (b->pixel[i] <= (int64_t)m->dims[i] - 1 + m->upper[i - 1])
            return;
        b->pixel[i] = m->lower[i - 1];
    }
    b->pixel[m->rank - 1]++;
}

bool pl_box_next(struct pl_box *b, struct pl_box_row *row)
{
    if (b->row == b->n_rows)
        return false;
    fill_row(b, row);
    if (b->mode == PL_BOX_TILE)
        advance_tile(b);
    else if (b->mode == PL_BOX_IM2COL)
        advance_pixel(b);
    b->row++;
    return true;
}

/* ---- the bytes of a row -------------------------------------------------------------------------------------------- */

bool pl_box_byte_is_gap(const struct pl_tensormap *m, uint32_t row_byte)
{
    if (m->type != PL_TMAP_U4_ALIGN16 && m->type != PL_TMAP_U6_ALIGN16)
        return false;
    return row_byte % 16 >= 2 * pl_tmap_type_bits(m->type);
}

static uint32_t get_bits(const uint8_t *p, uint64_t bit, uint32_t n_bits)
{
    uint32_t v = 0;
    for (uint32_t i = 0; i < n_bits; i++, bit++)
        v |= (uint32_t)(p[bit / 8] >> (bit % 8) & 1) << i;
    return v;
}

static void put_bits(uint8_t *p, uint64_t bit, uint32_t n_bits, uint32_t v)
{
    for (uint32_t i = 0; i < n_bits; i++, bit++)
        p[bit / 8] = (uint8_t)((p[bit / 8] & ~(1u << (bit % 8))) | (v >> i & 1) << (bit % 8));
}

/* The 16-bit pattern that a NaN fill repeats over an element; what fma.oob recognises. Not in the manual's text; see
 * docs/hardware-assumptions.md. */
enum { NAN_FILL_16 = 0x7ff7 };

/* f32 to tf32 as the copy does it for TF32 maps: to nearest even, NaN canonical. */
static uint32_t tf32_round(uint32_t bits)
{
    if ((bits & 0x7f800000) == 0x7f800000)
        return (bits & 0x7fffff) != 0 ? 0x7fffe000 : bits;
    return (bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000;
}

static bool is_tf32(const struct pl_tensormap *m)
{
    return m->type == PL_TMAP_TF32 || m->type == PL_TMAP_TF32_FTZ;
}

static void fill_outside(const struct pl_tensormap *m, uint8_t *out, uint32_t n_bytes)
{
    memset(out, 0, n_bytes);
    if (m->fill == 1)
        for (uint32_t i = 0; i < n_bytes; i++)
            out[i] = (uint8_t)(i % 2 == 0 ? NAN_FILL_16 & 0xff : NAN_FILL_16 >> 8);
}

static void load_packed(const struct pl_box *b, const struct pl_box_row *row, const uint8_t *global,
                        uint8_t *out)
{
    uint32_t bits = pl_tmap_type_bits(b->map->type), group = group_bytes(b->map);
    int64_t offset_bytes;
    pl_box_row_global_bytes(row, b->map, &offset_bytes);
    for (uint32_t e = row->first; e < row->end; e++) {
        uint64_t from = (uint64_t)(row->offset_bits + (int64_t)e * bits - 8 * offset_bytes);
        put_bits(out, (uint64_t)(e / 16) * group * 8 + (e % 16) * bits, bits,
                 get_bits(global, from, bits));
    }
}

void pl_box_row_load(const struct pl_box *b, const struct pl_box_row *row, const uint8_t *global,
                     uint8_t *out)
{
    const struct pl_tensormap *m = b->map;
    uint32_t n_bytes = pl_box_row_shared_bytes(b);
    if (row->end - row->first != row->n_elems || pl_tmap_type_is_packed(m->type))
        fill_outside(m, out, n_bytes);
    if (row->first == row->end)
        return;
    if (pl_tmap_type_is_packed(m->type)) {
        load_packed(b, row, global, out);
        return;
    }
    uint32_t elem_bytes = pl_tmap_type_bits(m->type) / 8;
    uint32_t first_byte = row->first * elem_bytes,
             n_inside_bytes = (row->end - row->first) * elem_bytes;
    memcpy(out + first_byte, global, n_inside_bytes);
    if (!is_tf32(m))
        return;
    for (uint32_t i = first_byte; i < first_byte + n_inside_bytes; i += 4) {
        uint32_t v;
        memcpy(&v, out + i, 4);
        v = tf32_round(v);
        memcpy(out + i, &v, 4);
    }
}

/* Stores of 6-bit elements read one element a byte (the b6p2x16 form of the type); 4-bit ones as loads write them. */
static void store_packed(const struct pl_box *b, const struct pl_box_row *row, const uint8_t *in,
                         uint8_t *global)
{
    uint32_t bits = pl_tmap_type_bits(b->map->type);
    int64_t offset_bytes;
    pl_box_row_global_bytes(row, b->map, &offset_bytes);
    for (uint32_t e = row->first; e < row->end; e++) {
        uint64_t from = bits == 6 ? (uint64_t)e * 8 : (uint64_t)e * bits;
        uint64_t to = (uint64_t)(row->offset_bits + (int64_t)e * bits - 8 * offset_bytes);
        put_bits(global, to, bits, get_bits(in, from, bits));
    }
}

void pl_box_row_store(const struct pl_box *b, const struct pl_box_row *row, const uint8_t *in,
                      uint8_t *global)
{
    if (row->first == row->end)
        return;
    if (pl_tmap_type_is_packed(b->map->type)) {
        store_packed(b, row, in, global);
        return;
    }
    uint32_t elem_bytes = pl_tmap_type_bits(b->map->type) / 8;
    memcpy(global, in + row->first * elem_bytes, (row->end - row->first) * elem_bytes);
}
