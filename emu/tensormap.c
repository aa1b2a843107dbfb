#include "emu/tensormap.h"

#include "base/debug.h"

#include <string.h>

#define PL_DIAG_ROWS "emu/async.def"
#define PL_DIAG_MODE_DEFINE
#include "base/diag_rows.h"

/* ---- facts a type, a swizzle --------------------------------------------------------------------------------------- */

static const struct type_facts {
    const char *name;
    uint8_t bits;
    uint8_t ptx_code; /* .elemtype of tensormap.replace */
    uint8_t stored;   /* in bits 7..10 of word 2 */
    bool has_tf32_flag, is_float;
} types[PL_TMAP_TYPE_COUNT] = {
    [PL_TMAP_U8] = {"u8", 8, 0, 0, false, false},
    [PL_TMAP_U16] = {"u16", 16, 1, 1, false, false},
    [PL_TMAP_U32] = {"u32", 32, 2, 2, false, false},
    [PL_TMAP_S32] = {"s32", 32, 3, 3, false, false},
    [PL_TMAP_U64] = {"u64", 64, 4, 4, false, false},
    [PL_TMAP_S64] = {"s64", 64, 5, 5, false, false},
    [PL_TMAP_F16] = {"f16", 16, 6, 6, false, true},
    [PL_TMAP_F32] = {"f32", 32, 7, 7, false, true},
    [PL_TMAP_F64] = {"f64", 64, 9, 9, false, true},
    [PL_TMAP_BF16] = {"bf16", 16, 10, 10, false, true},
    [PL_TMAP_F32_FTZ] = {"f32.ftz", 32, 8, 8, false, true},
    [PL_TMAP_TF32] = {"tf32", 32, 11, 7, true, true},
    [PL_TMAP_TF32_FTZ] = {"tf32.ftz", 32, 12, 8, true, true},
    [PL_TMAP_U4_ALIGN8] = {"16U4_ALIGN8B", 4, 13, 11, false, false},
    [PL_TMAP_U4_ALIGN16] = {"16U4_ALIGN16B", 4, 14, 12, false, false},
    [PL_TMAP_U6_ALIGN16] = {"16U6_ALIGN16B", 6, 15, 13, false, false},
};

/* mode and atomicity as stored; the XOR moves the bits of mask down by shift (README of the PTX reference, section 2.5). */
static const struct swizzle_facts {
    const char *name;
    uint16_t span_bytes, xor_mask;
    uint8_t xor_shift, mode, atomicity;
} swizzles[PL_TMAP_SWIZZLE_COUNT] = {
    [PL_TMAP_SWIZZLE_NONE] = {"none", 0, 0, 0, 0, 0},
    [PL_TMAP_SWIZZLE_32B] = {"32B", 32, 0x080, 3, 1, 0},
    [PL_TMAP_SWIZZLE_64B] = {"64B", 64, 0x180, 3, 2, 0},
    [PL_TMAP_SWIZZLE_128B] = {"128B", 128, 0x380, 3, 3, 0},
    [PL_TMAP_SWIZZLE_128B_ATOM_32B] = {"128B_ATOM_32B", 128, 0x180, 2, 3, 1},
    [PL_TMAP_SWIZZLE_128B_ATOM_32B_FLIP_8B] = {"128B_ATOM_32B_FLIP_8B", 128, 0x180, 2, 3, 2},
    [PL_TMAP_SWIZZLE_128B_ATOM_64B] = {"128B_ATOM_64B", 128, 0x080, 1, 3, 3},
    [PL_TMAP_SWIZZLE_96B] = {"96B", 96, 0x080, 3, 0, 0},
};

uint32_t pl_tmap_type_bits(enum pl_tmap_type t) { return types[t].bits; }
const char *pl_tmap_type_name(enum pl_tmap_type t) { return types[t].name; }
bool pl_tmap_type_is_packed(enum pl_tmap_type t) { return types[t].bits < 8; }
uint32_t pl_tmap_swizzle_span_bytes(enum pl_tmap_swizzle s) { return swizzles[s].span_bytes; }

uint32_t pl_tmap_swizzle_address(enum pl_tmap_swizzle s, uint32_t a)
{
    a ^= (a & swizzles[s].xor_mask) >> swizzles[s].xor_shift;
    if (s == PL_TMAP_SWIZZLE_128B_ATOM_32B_FLIP_8B)
        a ^= (a & 0x80) >>
             4; /* 8-byte halves swap on alternate 128-byte lines; which ones is an assumption */
    return a;
}

/* ---- the rules ----------------------------------------------------------------------------------------------------- */

static struct pl_where at(uint32_t dim, uint64_t seen, uint64_t wanted)
{
    return (struct pl_where){.dim_plus1 = (int)dim + 1,
                             .has_values = true,
                             .seen = (int64_t)seen,
                             .wanted = (int64_t)wanted};
}

static struct pl_where values(uint64_t seen, uint64_t wanted)
{
    return (struct pl_where){.has_values = true, .seen = (int64_t)seen, .wanted = (int64_t)wanted};
}

static bool is_im2col(const struct pl_tensormap *m) { return m->mode != PL_TMAP_TILED; }
static bool is_wide(const struct pl_tensormap *m)
{
    return m->mode == PL_TMAP_IM2COL_W || m->mode == PL_TMAP_IM2COL_W128;
}
static bool is_align16(const struct pl_tensormap *m)
{
    return m->type == PL_TMAP_U4_ALIGN16 || m->type == PL_TMAP_U6_ALIGN16;
}

/* Enumerations and rank first: the other rules index tables and arrays by them. */
static bool check_enums(const struct pl_tensormap *m, struct pl_diags *ds)
{
    const struct {
        const char *field;
        unsigned value, most;
    } e[] = {
        {"tensorDataType", m->type, PL_TMAP_TYPE_COUNT - 1},
        {"interleave", m->interleave, PL_TMAP_INTERLEAVE_COUNT - 1},
        {"swizzle", m->swizzle, PL_TMAP_SWIZZLE_COUNT - 1},
        {"l2Promotion", m->l2_promotion, 3},
        {"oobFill", m->fill, 1},
        {"mode", m->mode, PL_TMAP_MODE_COUNT - 1},
    };
    uint32_t n_before = ds->n_errors;
    for (size_t i = 0; i < PL_COUNT(e); i++)
        if (e[i].value > e[i].most)
            pl_d_tmap_enum(ds, values(e[i].value, e[i].most), e[i].field, e[i].value, e[i].most);
    uint32_t least = is_im2col(m) ? 3 : 1;
    if (m->rank < least || m->rank > PL_TMAP_MAX_RANK)
        pl_d_tmap_rank(ds, values(m->rank, least), m->rank, (int)least);
    else if (m->interleave != PL_TMAP_INTERLEAVE_NONE && m->interleave < PL_TMAP_INTERLEAVE_COUNT &&
             m->rank < 3)
        pl_d_tmap_interleave_rank(ds, values(m->rank, 3), m->rank);
    return ds->n_errors == n_before;
}

static void check_global(const struct pl_tensormap *m, struct pl_diags *ds)
{
    uint32_t align = m->interleave == PL_TMAP_INTERLEAVE_32B || is_align16(m) ? 32 : 16;
    if (m->address % align != 0)
        pl_d_tmap_address_align(ds, values(m->address, align), m->address, (int)align);
    for (uint32_t i = 0; i < m->rank; i++)
        if (m->dims[i] == 0 || m->dims[i] > UINT64_C(1) << 32)
            pl_d_tmap_dim(ds, at(i, m->dims[i], 1), (int)i, m->dims[i]);
    uint32_t multiple = is_align16(m) ? 128 : m->type == PL_TMAP_U4_ALIGN8 ? 2 : 1;
    if (m->dims[0] % multiple != 0)
        pl_d_tmap_dim0_packed(ds, at(0, m->dims[0], multiple), m->dims[0], types[m->type].name,
                              (int)multiple);
    for (uint32_t i = 1; i < m->rank; i++) {
        if (m->strides_bytes[i] % align != 0)
            pl_d_tmap_stride_align(ds, at(i, m->strides_bytes[i], align), (int)i,
                                   m->strides_bytes[i], (int)align);
        if (m->strides_bytes[i] >= UINT64_C(1) << 40)
            pl_d_tmap_stride_range(ds, at(i, m->strides_bytes[i], (UINT64_C(1) << 40) - 1), (int)i,
                                   m->strides_bytes[i]);
    }
    for (uint32_t i = m->interleave == PL_TMAP_INTERLEAVE_NONE; i < m->rank; i++)
        if (m->elem_strides[i] < 1 || m->elem_strides[i] > 8)
            pl_d_tmap_elem_stride(ds, at(i, m->elem_strides[i], 1), (int)i, m->elem_strides[i]);
}

/* Width of one row of the box against the swizzle span; n_rows > 1 where the row pitch matters. */
static void check_inner(const struct pl_tensormap *m, uint32_t n_elems, bool has_rows,
                        struct pl_diags *ds)
{
    if (is_align16(m)) {
        if (n_elems != 128)
            pl_d_tmap_box_packed(ds, at(0, n_elems, 128), n_elems, types[m->type].name);
        return;
    }
    if (m->interleave != PL_TMAP_INTERLEAVE_NONE)
        return;
    uint32_t n_bits = n_elems * types[m->type].bits, span = swizzles[m->swizzle].span_bytes;
    if (n_bits % 128 != 0)
        pl_d_tmap_box_bytes(ds, at(0, n_bits / 8, 16), n_bits);
    else if (span != 0 && n_bits / 8 > span)
        pl_d_tmap_box_wide(ds, at(0, n_bits / 8, span), n_bits / 8, span);
    else if (span != 0 && n_bits / 8 < span && has_rows)
        pl_d_tmap_box_narrow(ds, at(0, n_bits / 8, span), n_bits / 8, span);
}

static void check_box(const struct pl_tensormap *m, struct pl_diags *ds)
{
    bool has_rows = false;
    for (uint32_t i = 0; i < m->rank; i++) {
        if (m->box[i] < 1 || m->box[i] > 256) {
            pl_d_tmap_box(ds, at(i, m->box[i], 1), (int)i, m->box[i]);
            return;
        }
        has_rows |= i > 0 && m->box[i] > 1;
    }
    check_inner(m, m->box[0], has_rows, ds);
}

static void check_corners(const struct pl_tensormap *m, struct pl_diags *ds)
{
    static const int limits[6] = {[3] = 32768, [4] = 128, [5] = 16};
    uint32_t n_spatial = is_wide(m) ? 1 : m->rank - 2;
    int limit = is_wide(m) ? 32768 : limits[m->rank];
    for (uint32_t i = 0; i < n_spatial; i++) {
        bool is_lower_bad = m->lower[i] < -limit || m->lower[i] >= limit;
        bool is_upper_bad = m->upper[i] < -limit || m->upper[i] >= limit;
        if (is_lower_bad)
            pl_d_tmap_corner(ds, at(i, (uint64_t)(int64_t)m->lower[i], 0), "lower", (int)i,
                             m->lower[i], -limit, limit - 1);
        if (is_upper_bad)
            pl_d_tmap_corner(ds, at(i, (uint64_t)(int64_t)m->upper[i], 0), "upper", (int)i,
                             m->upper[i], -limit, limit - 1);
        int64_t n = (int64_t)m->dims[1 + i] + m->upper[i] - m->lower[i];
        if (!is_lower_bad && !is_upper_bad && n < 1)
            pl_d_tmap_corner_empty(ds, at(i, (uint64_t)n, 1), (int)i, n);
    }
}

static void check_im2col(const struct pl_tensormap *m, struct pl_diags *ds)
{
    check_corners(m, ds);
    if (m->n_pixels < 1 || m->n_pixels > 1024)
        pl_d_tmap_pixels(ds, values(m->n_pixels, 1024), m->n_pixels);
    if (m->n_channels < 1 || m->n_channels > 256)
        pl_d_tmap_channels(ds, values(m->n_channels, 256), m->n_channels);
    else
        check_inner(m, m->n_channels, m->n_pixels > 1, ds);
    if (!is_wide(m))
        return;
    if (m->interleave != PL_TMAP_INTERLEAVE_NONE)
        pl_d_tmap_wide_interleave(ds, values(m->interleave, 0), m->interleave);
    if (m->swizzle != PL_TMAP_SWIZZLE_64B && m->swizzle != PL_TMAP_SWIZZLE_128B &&
        m->swizzle != PL_TMAP_SWIZZLE_128B_ATOM_32B)
        pl_d_tmap_wide_swizzle(ds, values(m->swizzle, PL_TMAP_SWIZZLE_128B),
                               swizzles[m->swizzle].name);
}

static void check_combinations(const struct pl_tensormap *m, struct pl_diags *ds)
{
    const struct type_facts *t = &types[m->type];
    if (m->interleave == PL_TMAP_INTERLEAVE_32B && m->swizzle != PL_TMAP_SWIZZLE_32B)
        pl_d_tmap_interleave_swizzle(ds, values(m->swizzle, PL_TMAP_SWIZZLE_32B),
                                     swizzles[m->swizzle].name);
    if (m->fill == 1 && !t->is_float)
        pl_d_tmap_fill_type(ds, values(m->type, PL_TMAP_F32), t->name);
    if (!is_align16(m))
        return;
    bool is_swizzle_fine =
        m->swizzle == PL_TMAP_SWIZZLE_NONE || m->swizzle == PL_TMAP_SWIZZLE_128B ||
        m->swizzle == PL_TMAP_SWIZZLE_128B_ATOM_32B ||
        (m->type == PL_TMAP_U6_ALIGN16 && m->swizzle == PL_TMAP_SWIZZLE_128B_ATOM_64B);
    if (!is_swizzle_fine)
        pl_d_tmap_packed_swizzle(ds, values(m->swizzle, PL_TMAP_SWIZZLE_128B), t->name,
                                 swizzles[m->swizzle].name);
    if (m->interleave != PL_TMAP_INTERLEAVE_NONE)
        pl_d_tmap_packed_interleave(ds, values(m->interleave, 0), t->name);
}

bool pl_tensormap_check(const struct pl_tensormap *m, struct pl_diags *ds)
{
    uint32_t n_before = ds->n_errors;
    if (!check_enums(m, ds))
        return false;
    check_global(m, ds);
    if (is_im2col(m))
        check_im2col(m, ds);
    else
        check_box(m, ds);
    check_combinations(m, ds);
    return ds->n_errors == n_before;
}

bool pl_tensormap_encode(const struct pl_tmap_request *r, struct pl_diags *ds, uint8_t *image)
{
    uint32_t n_before = ds->n_errors;
    if (r->image_address % PL_TMAP_ALIGN_BYTES != 0)
        pl_d_tmap_image_align(ds, values(r->image_address, PL_TMAP_ALIGN_BYTES), r->image_address);
    if (r->map.swizzle == PL_TMAP_SWIZZLE_96B) /* ours, not in the Driver API's enumeration */
        pl_d_tmap_enum(ds, values(r->map.swizzle, PL_TMAP_SWIZZLE_96B - 1), "swizzle",
                       r->map.swizzle, PL_TMAP_SWIZZLE_96B - 1);
    else
        pl_tensormap_check(&r->map, ds);
    if (ds->n_errors != n_before)
        return false;
    pl_tensormap_pack(&r->map, image);
    return true;
}

/* ---- the image ----------------------------------------------------------------------------------------------------- */

/* Where tensormap.replace puts each field: first byte, bit in it, width. Ordinal i adds to the byte or the bit. */
struct place {
    uint8_t byte, bit, n_bits;
};
static const struct place p_address = {0, 0, 64}, p_rank = {8, 4, 3}, p_type = {8, 7, 4},
                          p_interleave = {8, 11, 2}, p_swizzle = {8, 13, 2}, p_fill = {8, 15, 1},
                          p_tf32 = {8, 16, 1}, p_l2 = {8, 17, 2}, p_atomicity = {8, 19, 3},
                          p_96b = {8, 22, 1};

/* Ours: after the 60 known bytes. */
enum { TAIL = 64, MODE = 68, LOWER = 72, UPPER = 78, CHANNELS = 84, PIXELS = 86 };
static const char marker[4] = {'P', 'L', 'T', 'M'};

static uint64_t place_mask(struct place p)
{
    return p.n_bits == 64 ? ~UINT64_C(0) : ((UINT64_C(1) << p.n_bits) - 1) << p.bit;
}

/* No field crosses 8 bytes, and none starts in the last 8; the image is little-endian, as the hosts we build for are. Byte by
 * byte: gcc 12.2 at -O2 vectorises loops over overlapping 8-byte read-modify-writes wrongly. */
static void put(uint8_t *image, struct place p, uint64_t v)
{
    uint64_t mask = place_mask(p), bits = v << p.bit & mask;
    for (uint32_t i = 0; i < 8 && mask >> 8 * i != 0; i++)
        image[p.byte + i] = (uint8_t)((image[p.byte + i] & ~(mask >> 8 * i)) | bits >> 8 * i);
}

static uint64_t get(const uint8_t *image, struct place p)
{
    uint64_t word;
    memcpy(&word, image + p.byte, sizeof word);
    return (word & place_mask(p)) >> p.bit;
}

static struct place stride_low(uint32_t i) { return (struct place){(uint8_t)(12 + 4 * i), 0, 32}; }
static struct place stride_high(uint32_t i) { return (struct place){28, (uint8_t)(4 * i), 4}; }
static struct place dim_place(uint32_t i) { return (struct place){(uint8_t)(32 + 4 * i), 0, 32}; }
static struct place elem_stride_place(uint32_t i)
{
    return (struct place){52, (uint8_t)(3 * i), 3};
}
static struct place box_place(uint32_t i) { return (struct place){(uint8_t)(55 + i), 0, 8}; }
static struct place tail(uint32_t byte, uint8_t n_bits)
{
    return (struct place){(uint8_t)byte, 0, n_bits};
}

static void put_stride(uint8_t *image, uint32_t i, uint64_t n_bytes)
{
    put(image, stride_low(i), n_bytes >> 4);
    put(image, stride_high(i), n_bytes >> 36);
}

static void put_type(uint8_t *image, const struct type_facts *t)
{
    put(image, p_type, t->stored);
    put(image, p_tf32, t->has_tf32_flag);
}

void pl_tensormap_pack(const struct pl_tensormap *m, uint8_t *image)
{
    memset(image, 0, PL_TMAP_N_BYTES);
    put(image, p_address, m->address);
    put(image, p_rank, m->rank - 1);
    put_type(image, &types[m->type]);
    put(image, p_interleave, m->interleave);
    put(image, p_swizzle, swizzles[m->swizzle].mode);
    put(image, p_atomicity, swizzles[m->swizzle].atomicity);
    put(image, p_96b, m->swizzle == PL_TMAP_SWIZZLE_96B);
    put(image, p_fill, m->fill);
    put(image, p_l2, m->l2_promotion);
    for (uint32_t i = 0; i < m->rank; i++) {
        put(image, dim_place(i), m->dims[i] - 1);
        put(image, elem_stride_place(i),
            i == 0 && m->elem_strides[0] == 0 ? 0 : m->elem_strides[i] - 1);
        if (i > 0)
            put_stride(image, i - 1, m->strides_bytes[i]);
        if (!is_im2col(m))
            put(image, box_place(i), m->box[i] - 1);
    }
    memcpy(image + TAIL, marker, sizeof marker);
    image[MODE] = (uint8_t)m->mode;
    if (!is_im2col(m))
        return;
    for (uint32_t i = 0; i < 3; i++) {
        put(image, tail(LOWER + 2 * i, 16), (uint16_t)m->lower[i]);
        put(image, tail(UPPER + 2 * i, 16), (uint16_t)m->upper[i]);
    }
    put(image, tail(CHANNELS, 16), m->n_channels);
    put(image, tail(PIXELS, 16), m->n_pixels);
}

static uint32_t find_type(uint64_t stored, bool has_tf32_flag)
{
    for (uint32_t t = 0; t < PL_TMAP_TYPE_COUNT; t++)
        if (types[t].stored == stored && types[t].has_tf32_flag == has_tf32_flag)
            return t;
    return PL_TMAP_TYPE_COUNT;
}

static uint32_t find_swizzle(uint64_t mode, uint64_t atomicity, bool is_96b)
{
    if (is_96b)
        return mode == 0 && atomicity == 0 ? PL_TMAP_SWIZZLE_96B : PL_TMAP_SWIZZLE_COUNT;
    for (uint32_t s = 0; s < PL_TMAP_SWIZZLE_96B; s++)
        if (swizzles[s].mode == mode && swizzles[s].atomicity == atomicity)
            return s;
    return PL_TMAP_SWIZZLE_COUNT;
}

bool pl_tensormap_unpack(const uint8_t *image, struct pl_tensormap *m)
{
    if (memcmp(image + TAIL, marker, sizeof marker) != 0)
        return false;
    *m = (struct pl_tensormap){
        .mode = image[MODE],
        .type = find_type(get(image, p_type), get(image, p_tf32) != 0),
        .interleave = (uint32_t)get(image, p_interleave),
        .swizzle =
            find_swizzle(get(image, p_swizzle), get(image, p_atomicity), get(image, p_96b) != 0),
        .l2_promotion = (uint32_t)get(image, p_l2),
        .fill = (uint32_t)get(image, p_fill),
        .rank = (uint32_t)get(image, p_rank) + 1,
        .address = get(image, p_address),
        .n_channels = (uint32_t)get(image, tail(CHANNELS, 16)),
        .n_pixels = (uint32_t)get(image, tail(PIXELS, 16)),
    };
    for (uint32_t i = 0; i < PL_TMAP_MAX_RANK; i++) {
        m->dims[i] = get(image, dim_place(i)) + 1;
        m->elem_strides[i] = (uint32_t)get(image, elem_stride_place(i)) + 1;
        m->box[i] = (uint32_t)get(image, box_place(i)) + 1;
        if (i > 0)
            m->strides_bytes[i] =
                get(image, stride_low(i - 1)) << 4 | get(image, stride_high(i - 1)) << 36;
    }
    for (uint32_t i = 0; i < 3; i++) {
        m->lower[i] = (int16_t)get(image, tail(LOWER + 2 * i, 16));
        m->upper[i] = (int16_t)get(image, tail(UPPER + 2 * i, 16));
    }
    return true;
}

static void replace_type(uint8_t *image, uint64_t ptx_code)
{
    for (uint32_t t = 0; t < PL_TMAP_TYPE_COUNT; t++)
        if (types[t].ptx_code == ptx_code)
            put_type(image, &types[t]);
}

/* Zeroed memory becomes a tiled map with its first field: programs build maps so, and no other mode can be edited. */
static void mark_if_empty(uint8_t *image)
{
    static const uint8_t nothing[PL_TMAP_N_BYTES - TAIL];
    if (memcmp(image + TAIL, nothing, sizeof nothing) != 0)
        return;
    memcpy(image + TAIL, marker, sizeof marker);
    image[MODE] = PL_TMAP_TILED;
}

void pl_tensormap_replace(uint8_t *image, enum pl_tmap_field field, uint32_t ordinal,
                          uint64_t value)
{
    mark_if_empty(image);
    switch (field) {
    case PL_TMAP_FIELD_GLOBAL_ADDRESS: put(image, p_address, value); break;
    case PL_TMAP_FIELD_RANK: put(image, p_rank, value); break;
    case PL_TMAP_FIELD_BOX_DIM: put(image, box_place(ordinal), value - 1); break;
    case PL_TMAP_FIELD_GLOBAL_DIM: put(image, dim_place(ordinal), value - 1); break;
    case PL_TMAP_FIELD_GLOBAL_STRIDE:
        if (ordinal < PL_TMAP_MAX_RANK - 1) /* ordinal 4 assembles and reaches unused bits only */
            put_stride(image, ordinal, value);
        break;
    case PL_TMAP_FIELD_ELEMENT_STRIDE: put(image, elem_stride_place(ordinal), value - 1); break;
    case PL_TMAP_FIELD_ELEMTYPE: replace_type(image, value); break;
    case PL_TMAP_FIELD_INTERLEAVE_LAYOUT: put(image, p_interleave, value); break;
    case PL_TMAP_FIELD_SWIZZLE_MODE:
        put(image, p_swizzle, value == 4 ? 0 : value);
        put(image, p_96b, value == 4);
        break;
    case PL_TMAP_FIELD_SWIZZLE_ATOMICITY: put(image, p_atomicity, value); break;
    case PL_TMAP_FIELD_FILL_MODE: put(image, p_fill, value); break;
    case PL_TMAP_FIELD_COUNT: PL_ASSERT(false); break;
    }
}
