/*
 * Tensor maps and boxes: the image against the table of bits that compiled code writes, every rule of the encoders, swizzles
 * against chunk permutations, and the box walk against a model that computes each element of the tile by itself.
 */
#include "emu/async/box.h"
#include "emu/tensormap.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- random numbers ---------------------------------------------------------------------------------------------------- */

static uint64_t rng;

static uint64_t draw(void)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return rng;
}

static uint32_t below(uint32_t n) { return (uint32_t)(draw() >> 20) % n; }

/* ---- the image --------------------------------------------------------------------------------------------------------------- */

static struct pl_tensormap plain(void)
{
    return (struct pl_tensormap){.type = PL_TMAP_BF16,
                                 .swizzle = PL_TMAP_SWIZZLE_128B,
                                 .rank = 2,
                                 .address = 0x10000,
                                 .dims = {640, 480},
                                 .strides_bytes = {0, 1280},
                                 .box = {64, 32},
                                 .elem_strides = {1, 1}};
}

static uint64_t image_bits(const uint8_t *image, uint32_t byte, uint32_t bit, uint32_t width)
{
    uint64_t v = 0;
    for (uint32_t i = 0; i < width; i++)
        v |= (uint64_t)(image[byte + (bit + i) / 8] >> ((bit + i) % 8) & 1) << i;
    return v;
}

/* One field of the table: the value that the row says is stored, for element i of an array field. */
static uint64_t wanted_bits(const char *field, const struct pl_tensormap *m, uint32_t i)
{
    static const uint8_t type_codes[] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8, 7, 8, 11, 12, 13};
    static const uint8_t swizzle_modes[] = {0, 1, 2, 3, 3, 3, 3, 0},
                         atomicities[] = {0, 0, 0, 0, 1, 2, 3, 0};
    bool is_in = i < m->rank;
    if (strcmp(field, "globalAddress") == 0)
        return m->address;
    if (strcmp(field, "rank") == 0)
        return m->rank - 1;
    if (strcmp(field, "elemtype") == 0)
        return type_codes[m->type];
    if (strcmp(field, "tf32 flag") == 0)
        return m->type == PL_TMAP_TF32 || m->type == PL_TMAP_TF32_FTZ;
    if (strcmp(field, "interleave_layout") == 0)
        return m->interleave;
    if (strcmp(field, "swizzle_mode") == 0)
        return swizzle_modes[m->swizzle];
    if (strcmp(field, "swizzle_atomicity") == 0)
        return atomicities[m->swizzle];
    if (strcmp(field, "swizzle 96B flag") == 0)
        return m->swizzle == PL_TMAP_SWIZZLE_96B;
    if (strcmp(field, "fill_mode") == 0)
        return m->fill;
    if (strncmp(field, "globalStride", 12) == 0 && i + 1 >= m->rank)
        return 0;
    if (strcmp(field, "globalStride[0..3] low") == 0)
        return m->strides_bytes[i + 1] >> 4 & 0xffffffff;
    if (strcmp(field, "globalStride[0..3] high") == 0)
        return m->strides_bytes[i + 1] >> 36;
    if (strcmp(field, "globalDim[0..4]") == 0)
        return is_in ? m->dims[i] - 1 : 0;
    if (strcmp(field, "elementStride[0..4]") == 0)
        return is_in ? m->elem_strides[i] - 1 : 0;
    if (strcmp(field, "boxDim[0]") == 0)
        return m->box[0] - 1;
    if (strcmp(field, "boxDim[1..4]") == 0)
        return i + 1 < m->rank ? m->box[i + 1] - 1 : 0;
    ck_abort_msg("a field of the table is not known to the test: %s", field);
    return 0;
}

static FILE *open_table(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tests/ptx/tables/%s", PL_SRCDIR, name);
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL, "no %s", path);
    char header[512];
    ck_assert_ptr_nonnull(fgets(header, sizeof header, f));
    return f;
}

static struct pl_tensormap random_image_map(void)
{
    struct pl_tensormap m = {.type = below(PL_TMAP_TYPE_COUNT),
                             .interleave = below(PL_TMAP_INTERLEAVE_COUNT),
                             .swizzle = below(PL_TMAP_SWIZZLE_COUNT),
                             .l2_promotion = below(4),
                             .fill = below(2),
                             .rank = 1 + below(5),
                             .address = draw() & ~UINT64_C(15)};
    for (uint32_t i = 0; i < m.rank; i++) {
        m.dims[i] = 1 + (draw() & 0xffffffff);
        m.strides_bytes[i] = i == 0 ? 0 : draw() & 0xfffffffff0;
        m.box[i] = 1 + below(256);
        m.elem_strides[i] = 1 + below(8);
    }
    return m;
}

static void check_row_of_table(char *line, const struct pl_tensormap *m, const uint8_t *image)
{
    char *columns[6] = {0};
    int n = 0;
    for (char *p = line; p != NULL && n < 6;
         p = strchr(p, '\t'), p = p != NULL ? (*p = 0, p + 1) : NULL)
        columns[n++] = p;
    if (n < 5 || columns[0][0] == '(' || strcmp(columns[3], "-") == 0)
        return; /* fields that no document explains */
    const char *plus = strchr(columns[1], '+'), *times = strchr(columns[2], '*');
    uint32_t byte = (uint32_t)atoi(columns[1]),
             bit = times != NULL ? 0 : (uint32_t)atoi(columns[2]);
    uint32_t n_elems = plus == NULL && times == NULL                                      ? 1
                       : strstr(columns[0], "0..3") != NULL || strstr(columns[0], "1..4") ? 4
                                                                                          : 5;
    if (strcmp(columns[0], "elementStride[0..4]") == 0)
        n_elems = 5;
    bool is_from_1 = strcmp(columns[0], "boxDim[1..4]") == 0; /* its i is the dimension */
    for (uint32_t i = 0; i < n_elems; i++) {
        uint32_t at_byte =
            byte + (plus == NULL ? 0 : (strchr(plus, '*') != NULL ? 4 : 1) * (i + is_from_1));
        uint32_t at_bit = bit + (times == NULL ? 0 : (uint32_t)atoi(columns[2]) * i);
        ck_assert_msg(image_bits(image, at_byte, at_bit, (uint32_t)atoi(columns[3])) ==
                          wanted_bits(columns[0], m, i),
                      "%s, element %u", columns[0], i);
    }
}

START_TEST(image_has_the_bits_that_compiled_code_writes)
{
    rng = 0x1234567 + (uint64_t)_i;
    struct pl_tensormap m = random_image_map(), back;
    uint8_t image[PL_TMAP_N_BYTES];
    pl_tensormap_pack(&m, image);
    FILE *f = open_table("tensormap_image.tsv");
    for (char line[512]; fgets(line, sizeof line, f) != NULL;)
        check_row_of_table(line, &m, image);
    fclose(f);
    ck_assert(pl_tensormap_unpack(image, &back));
    ck_assert_uint_eq(back.type, m.type);
    ck_assert_uint_eq(back.swizzle, m.swizzle);
    ck_assert_uint_eq(back.l2_promotion, m.l2_promotion);
    ck_assert_uint_eq(back.rank, m.rank);
    for (uint32_t i = 0; i < m.rank; i++) {
        ck_assert_uint_eq(back.dims[i], m.dims[i]);
        ck_assert_uint_eq(back.strides_bytes[i], m.strides_bytes[i]);
        ck_assert_uint_eq(back.box[i], m.box[i]);
        ck_assert_uint_eq(back.elem_strides[i], m.elem_strides[i]);
    }
}
END_TEST

START_TEST(im2col_fields_come_back)
{
    rng = 99 + (uint64_t)_i;
    struct pl_tensormap m = random_image_map(), back;
    m.mode = PL_TMAP_IM2COL + below(3);
    for (int i = 0; i < 3; i++) {
        m.lower[i] = (int32_t)below(65536) - 32768;
        m.upper[i] = (int32_t)below(65536) - 32768;
    }
    m.n_channels = 1 + below(256);
    m.n_pixels = 1 + below(1024);
    uint8_t image[PL_TMAP_N_BYTES];
    pl_tensormap_pack(&m, image);
    ck_assert(pl_tensormap_unpack(image, &back));
    ck_assert_uint_eq(back.mode, m.mode);
    ck_assert_mem_eq(back.lower, m.lower, sizeof m.lower);
    ck_assert_mem_eq(back.upper, m.upper, sizeof m.upper);
    ck_assert_uint_eq(back.n_channels, m.n_channels);
    ck_assert_uint_eq(back.n_pixels, m.n_pixels);
}
END_TEST

static void replace_all(uint8_t *image, const struct pl_tensormap *to)
{
    static const uint8_t ptx_types[] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8, 11, 12, 13, 14, 15};
    static const uint8_t modes[] = {0, 1, 2, 3, 3, 3, 3, 4},
                         atomicities[] = {0, 0, 0, 0, 1, 2, 3, 0};
    pl_tensormap_replace(image, PL_TMAP_FIELD_GLOBAL_ADDRESS, 0, to->address);
    pl_tensormap_replace(image, PL_TMAP_FIELD_RANK, 0, to->rank - 1);
    pl_tensormap_replace(image, PL_TMAP_FIELD_ELEMTYPE, 0, ptx_types[to->type]);
    pl_tensormap_replace(image, PL_TMAP_FIELD_INTERLEAVE_LAYOUT, 0, to->interleave);
    pl_tensormap_replace(image, PL_TMAP_FIELD_SWIZZLE_MODE, 0, modes[to->swizzle]);
    pl_tensormap_replace(image, PL_TMAP_FIELD_SWIZZLE_ATOMICITY, 0, atomicities[to->swizzle]);
    pl_tensormap_replace(image, PL_TMAP_FIELD_FILL_MODE, 0, to->fill);
    for (uint32_t i = 0; i < 5; i++) {
        pl_tensormap_replace(image, PL_TMAP_FIELD_BOX_DIM, i, to->box[i]);
        pl_tensormap_replace(image, PL_TMAP_FIELD_GLOBAL_DIM, i, to->dims[i]);
        pl_tensormap_replace(image, PL_TMAP_FIELD_ELEMENT_STRIDE, i, to->elem_strides[i]);
        pl_tensormap_replace(image, PL_TMAP_FIELD_GLOBAL_STRIDE, i,
                             i == 4 ? 0x123450 : to->strides_bytes[i + 1]);
    }
}

/* tensormap.replace of every field equals encoding with the new value, whether a map was there or zeros. */
START_TEST(replace_equals_encode)
{
    rng = 7 + (uint64_t)_i;
    struct pl_tensormap from = random_image_map(), to = random_image_map();
    uint8_t image[PL_TMAP_N_BYTES], wanted[PL_TMAP_N_BYTES], empty[PL_TMAP_N_BYTES] = {0};
    from.rank = to.rank = 5;
    from.l2_promotion = to.l2_promotion;
    for (uint32_t i = 0; i < 5; i++) { /* those above the first ranks too */
        from.dims[i] = 1 + below(1000), to.dims[i] = 1 + (draw() & 0xffffffff);
        from.box[i] = to.box[i] = 1 + below(256);
        from.elem_strides[i] = 1, to.elem_strides[i] = 1 + below(8);
        from.strides_bytes[i] = 16, to.strides_bytes[i] = i == 0 ? 0 : draw() & 0xfffffffff0;
    }
    pl_tensormap_pack(&from, image);
    pl_tensormap_pack(&to, wanted);
    replace_all(image, &to);
    ck_assert_mem_eq(image, wanted, sizeof image);
    to.l2_promotion = 0; /* no field of the instruction */
    pl_tensormap_pack(&to, wanted);
    replace_all(empty, &to);
    ck_assert_mem_eq(empty, wanted, sizeof empty);
}
END_TEST

START_TEST(memory_that_no_encoder_wrote_is_no_map)
{
    uint8_t image[PL_TMAP_N_BYTES] = {0};
    struct pl_tensormap m;
    ck_assert(!pl_tensormap_unpack(image, &m));
    memset(image, 0xff, sizeof image);
    ck_assert(!pl_tensormap_unpack(image, &m));
}
END_TEST

/* ---- the rules ---------------------------------------------------------------------------------------------------------------- */

static void to_im2col(struct pl_tensormap *m)
{
    m->mode = PL_TMAP_IM2COL;
    m->rank = 4;
    m->dims[0] = 64, m->dims[1] = 32, m->dims[2] = 16, m->dims[3] = 2;
    m->strides_bytes[1] = 128, m->strides_bytes[2] = 4096, m->strides_bytes[3] = 65536;
    for (int i = 0; i < 4; i++)
        m->elem_strides[i] = 1;
    m->lower[0] = m->lower[1] = m->upper[0] = m->upper[1] = -1;
    m->n_channels = 64;
    m->n_pixels = 32;
}

static void to_wide(struct pl_tensormap *m)
{
    to_im2col(m);
    m->mode = PL_TMAP_IM2COL_W;
}

static void to_align16(struct pl_tensormap *m)
{
    m->type = PL_TMAP_U4_ALIGN16;
    m->box[0] = 128;
}

static void to_rank3(struct pl_tensormap *m)
{
    m->rank = 3;
    m->dims[2] = 4;
    m->strides_bytes[2] = 1280 * 480;
    m->box[2] = 1;
    m->elem_strides[2] = 1;
}

static void rank_0(struct pl_tensormap *m) { m->rank = 0; }
static void rank_6(struct pl_tensormap *m) { m->rank = 6; }
static void im2col_rank_2(struct pl_tensormap *m) { to_im2col(m), m->rank = 2; }
static void type_16(struct pl_tensormap *m) { m->type = 16; }
static void type_256(struct pl_tensormap *m) { m->type = 256; }
static void interleave_3(struct pl_tensormap *m) { m->interleave = 3; }
static void swizzle_7(struct pl_tensormap *m) { m->swizzle = 7; }
static void l2_4(struct pl_tensormap *m) { m->l2_promotion = 4; }
static void fill_2(struct pl_tensormap *m) { m->fill = 2; }
static void interleave_rank_2(struct pl_tensormap *m) { m->interleave = 1; }
static void address_8(struct pl_tensormap *m) { m->address += 8; }
static void address_16_align16(struct pl_tensormap *m) { to_align16(m), m->address += 16; }
static void address_16_interleave(struct pl_tensormap *m)
{
    to_rank3(m), m->interleave = 2, m->swizzle = 1, m->address += 16;
}
static void dim_0(struct pl_tensormap *m) { m->dims[1] = 0; }
static void dim_too_long(struct pl_tensormap *m) { m->dims[1] = (UINT64_C(1) << 32) + 1; }
static void dim0_odd_nibbles(struct pl_tensormap *m)
{
    m->type = PL_TMAP_U4_ALIGN8, m->box[0] = 256, m->dims[0] = 641;
}
static void dim0_not_128(struct pl_tensormap *m) { to_align16(m), m->dims[0] = 642; }
static void stride_8(struct pl_tensormap *m) { m->strides_bytes[1] = 1288; }
static void stride_16_align16(struct pl_tensormap *m) { to_align16(m), m->strides_bytes[1] = 1296; }
static void stride_big(struct pl_tensormap *m) { m->strides_bytes[1] = UINT64_C(1) << 40; }
static void box_0(struct pl_tensormap *m) { m->box[1] = 0; }
static void box_257(struct pl_tensormap *m) { m->box[1] = 257; }
static void box_bytes(struct pl_tensormap *m) { m->swizzle = 0, m->box[0] = 12; }
static void box_not_128(struct pl_tensormap *m) { to_align16(m), m->box[0] = 64; }
static void box_wide(struct pl_tensormap *m) { m->box[0] = 128; }
static void box_narrow(struct pl_tensormap *m) { m->box[0] = 32; }
static void elem_stride_0(struct pl_tensormap *m) { m->elem_strides[1] = 0; }
static void elem_stride_9(struct pl_tensormap *m) { m->elem_strides[1] = 9; }
static void interleave_swizzle(struct pl_tensormap *m) { to_rank3(m), m->interleave = 2; }
static void fill_int(struct pl_tensormap *m) { m->type = PL_TMAP_U16, m->fill = 1; }
static void fill_packed(struct pl_tensormap *m) { to_align16(m), m->fill = 1; }
static void packed_swizzle(struct pl_tensormap *m)
{
    to_align16(m), m->swizzle = PL_TMAP_SWIZZLE_64B;
}
static void packed_swizzle_64(struct pl_tensormap *m)
{
    to_align16(m), m->swizzle = PL_TMAP_SWIZZLE_128B_ATOM_64B;
}
static void packed_interleave(struct pl_tensormap *m)
{
    to_rank3(m), to_align16(m), m->interleave = 1;
}
static void corner_low(struct pl_tensormap *m) { to_im2col(m), m->lower[1] = -129; }
static void corner_high(struct pl_tensormap *m) { to_im2col(m), m->upper[0] = 128; }
static void corner_empty(struct pl_tensormap *m) { to_im2col(m), m->upper[1] = -17; }
static void channels_257(struct pl_tensormap *m) { to_im2col(m), m->n_channels = 257; }
static void channels_0(struct pl_tensormap *m) { to_im2col(m), m->n_channels = 0; }
static void pixels_1025(struct pl_tensormap *m) { to_im2col(m), m->n_pixels = 1025; }
static void channels_wide(struct pl_tensormap *m) { to_im2col(m), m->n_channels = 128; }
static void wide_swizzle(struct pl_tensormap *m) { to_wide(m), m->swizzle = 0; }
static void wide_interleave(struct pl_tensormap *m) { to_wide(m), m->interleave = 1; }

static const struct rule_case {
    int code; /* 0: none is broken */
    void (*change)(struct pl_tensormap *);
} rule_cases[] = {
    {8202, rank_0},
    {8202, rank_6},
    {8202, im2col_rank_2},
    {8201, type_16},
    {8201, type_256},
    {8201, interleave_3},
    {8201, swizzle_7},
    {8201, l2_4},
    {8201, fill_2},
    {8203, interleave_rank_2},
    {8204, address_8},
    {8204, address_16_align16},
    {8204, address_16_interleave},
    {8205, dim_0},
    {8205, dim_too_long},
    {8206, dim0_odd_nibbles},
    {8206, dim0_not_128},
    {8207, stride_8},
    {8207, stride_16_align16},
    {8208, stride_big},
    {8209, box_0},
    {8209, box_257},
    {8210, box_bytes},
    {8211, box_not_128},
    {8212, box_wide},
    {8213, box_narrow},
    {8214, elem_stride_0},
    {8214, elem_stride_9},
    {8215, interleave_swizzle},
    {8216, fill_int},
    {8216, fill_packed},
    {8217, packed_swizzle},
    {8217, packed_swizzle_64},
    {8218, packed_interleave},
    {8219, corner_low},
    {8219, corner_high},
    {8220, corner_empty},
    {8221, channels_257},
    {8221, channels_0},
    {8222, pixels_1025},
    {8212, channels_wide},
    {8223, wide_swizzle},
    {8224, wide_interleave},
    {0, to_im2col},
    {0, to_wide},
    {0, to_align16},
    {0, to_rank3},
};

/* Each rule alone: exactly one diagnostic, with its code, and no image written. */
START_TEST(each_rule_is_named)
{
    const struct rule_case *c = &rule_cases[_i];
    struct pl_tmap_request r = {.map = plain(), .image_address = 0x1000};
    c->change(&r.map);
    struct pl_arena arena = {0};
    struct pl_diags ds;
    pl_diags_init(&ds, &arena);
    uint8_t image[PL_TMAP_N_BYTES];
    memset(image, 0xa5, sizeof image);
    ck_assert(pl_tensormap_encode(&r, &ds, image) == (c->code == 0));
    ck_assert_uint_eq(ds.list.n, c->code == 0 ? 0 : 1);
    if (c->code != 0) {
        ck_assert_msg(ds.list.data[0].info->code == c->code, "%d: %s", ds.list.data[0].info->code,
                      ds.list.data[0].text);
        ck_assert_uint_eq(image[0], 0xa5);
        ck_assert_uint_eq(image[127], 0xa5);
    }
    pl_arena_fini(&arena);
}
END_TEST

START_TEST(every_broken_rule_is_listed)
{
    struct pl_tmap_request r = {.map = plain(), .image_address = 0x1008};
    r.map.address = 4, r.map.strides_bytes[1] = 9, r.map.box[0] = 96, r.map.dims[1] = 0;
    struct pl_arena arena = {0};
    struct pl_diags ds;
    pl_diags_init(&ds, &arena);
    uint8_t image[PL_TMAP_N_BYTES];
    ck_assert(!pl_tensormap_encode(&r, &ds, image));
    const int codes[] = {8200, 8204, 8205, 8207, 8212};
    ck_assert_uint_eq(ds.list.n, 5);
    for (uint32_t i = 0; i < 5; i++)
        ck_assert_int_eq(ds.list.data[i].info->code, codes[i]);
    ck_assert_int_eq(ds.list.data[3].where.seen, 9);
    ck_assert_int_eq(ds.list.data[3].where.wanted, 16);
    ck_assert_int_eq(ds.list.data[3].where.dim_plus1, 2);
    pl_arena_fini(&arena);
}
END_TEST

/* ---- swizzles --------------------------------------------------------------------------------------------------------------------- */

/* Independent form: chunk number within its span, permuted by the number of the 128-byte line. */
static uint32_t chunk_model(uint32_t swizzle, uint32_t a)
{
    uint32_t line = a / 128, in_line = a % 128;
    switch (swizzle) {
    case PL_TMAP_SWIZZLE_32B:
        return line * 128 + in_line / 32 * 32 + ((in_line / 16 % 2) ^ (line % 2)) * 16 + a % 16;
    case PL_TMAP_SWIZZLE_64B:
        return line * 128 + in_line / 64 * 64 + ((in_line / 16 % 4) ^ (line % 4)) * 16 + a % 16;
    case PL_TMAP_SWIZZLE_128B: return line * 128 + ((in_line / 16) ^ (line % 8)) * 16 + a % 16;
    case PL_TMAP_SWIZZLE_128B_ATOM_32B:
        return line * 128 + ((in_line / 32) ^ (line % 4)) * 32 + a % 32;
    case PL_TMAP_SWIZZLE_128B_ATOM_32B_FLIP_8B:
        return line * 128 + ((in_line / 32) ^ (line % 4)) * 32 + a % 32 / 16 * 16 +
               ((a / 8 % 2) ^ (line % 2)) * 8 + a % 8;
    case PL_TMAP_SWIZZLE_128B_ATOM_64B:
        return line * 128 + ((in_line / 64) ^ (line % 2)) * 64 + a % 64;
    default: return a;
    }
}

START_TEST(swizzle_permutes_chunks)
{
    enum pl_tmap_swizzle s = (enum pl_tmap_swizzle)_i;
    for (uint32_t a = 0; a < 8192; a++) {
        uint32_t b = pl_tmap_swizzle_address(s, a);
        ck_assert_uint_eq(b, chunk_model(s, a));
        ck_assert_uint_eq(pl_tmap_swizzle_address(s, b), a);
        ck_assert_uint_eq(b / 128, a / 128);
    }
}
END_TEST

/* ---- boxes ---------------------------------------------------------------------------------------------------------------------------- */

enum { MAX_TILE = 1 << 18, TENSOR_BYTES = 1 << 20 };
static uint8_t tensor[TENSOR_BYTES], wanted_tensor[TENSOR_BYTES], tile[MAX_TILE],
    wanted_tile[MAX_TILE];

static const uint8_t box_types[] = {PL_TMAP_U8,  PL_TMAP_U16,  PL_TMAP_F32,
                                    PL_TMAP_F64, PL_TMAP_BF16, PL_TMAP_U4_ALIGN8};

/* A small tensor and a box over it, anywhere around it. */
static void random_box(struct pl_tensormap *m, int32_t *coords)
{
    *m = (struct pl_tensormap){.type = box_types[below(sizeof box_types)], .rank = 1 + below(5)};
    uint32_t bits = pl_tmap_type_bits((enum pl_tmap_type)m->type), per_16 = 128 / bits;
    uint64_t pitch = 0;
    for (uint32_t i = 0; i < m->rank; i++) {
        m->dims[i] = i == 0 ? 2 * (1 + below(40)) : 1 + below(7);
        m->elem_strides[i] = i == 0 ? 1 : 1 + below(3);
        m->box[i] = i == 0 ? per_16 * (1 + below(3)) : 1 + below(5);
        m->strides_bytes[i] = pitch;
        pitch = i == 0 ? (m->dims[0] * bits / 8 + 15) / 16 * 16 + 16 * below(2)
                       : pitch * m->dims[i] + 16 * below(2);
        coords[i] = (int32_t)below(12) - 4;
    }
    coords[0] = 2 * (coords[0] / 2);
    m->fill = m->type == PL_TMAP_F32 || m->type == PL_TMAP_BF16 ? below(2) : 0;
    ck_assert_uint_lt(pitch, TENSOR_BYTES);
}

static uint32_t get_bits(const uint8_t *p, uint64_t bit, uint32_t n)
{
    uint32_t v = 0;
    for (uint32_t i = 0; i < n; i++)
        v |= (uint32_t)(p[(bit + i) / 8] >> ((bit + i) % 8) & 1) << i;
    return v;
}

static void set_bits(uint8_t *p, uint64_t bit, uint32_t n, uint64_t v)
{
    for (uint32_t i = 0; i < n; i++) {
        uint8_t mask = (uint8_t)(1u << ((bit + i) % 8));
        p[(bit + i) / 8] =
            (uint8_t)(v >> i & 1 ? p[(bit + i) / 8] | mask : p[(bit + i) / 8] & ~mask);
    }
}

/* Every element of the tile by itself. is_load: wanted_tile from tensor, else wanted_tensor from tile. Returns elements. */
static uint32_t model(const struct pl_tensormap *m, const int32_t *coords, bool is_load)
{
    uint32_t bits = pl_tmap_type_bits((enum pl_tmap_type)m->type), n[5] = {1, 1, 1, 1, 1},
             total = 1;
    for (uint32_t i = 0; i < m->rank; i++) {
        n[i] = (m->box[i] + m->elem_strides[i] - 1) / m->elem_strides[i];
        total *= n[i];
    }
    for (uint32_t e = 0; e < total; e++) {
        bool is_inside = true;
        uint64_t bit = 0;
        for (uint32_t i = 0, rest = e; i < m->rank; rest /= n[i], i++) {
            int64_t c = coords[i] + (int64_t)(rest % n[i]) * m->elem_strides[i];
            is_inside &= c >= 0 && c < (int64_t)m->dims[i];
            bit += (uint64_t)c * (i == 0 ? bits : m->strides_bytes[i] * 8);
        }
        for (uint32_t k = 0; k < bits; k += 4) {
            uint32_t outside = m->fill == 0 ? 0u : 0x7ff7u >> k % 16 & 15u;
            if (is_load)
                set_bits(wanted_tile, (uint64_t)e * bits + k, 4,
                         is_inside ? get_bits(tensor, bit + k, 4) : outside);
            else if (is_inside)
                set_bits(wanted_tensor, bit + k, 4, get_bits(tile, (uint64_t)e * bits + k, 4));
        }
    }
    return total;
}

static void fill_random(uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)draw();
}

START_TEST(box_walk_equals_a_walk_of_elements)
{
    rng = 4242 + (uint64_t)_i * 7919;
    struct pl_tensormap m;
    int32_t coords[5];
    random_box(&m, coords);
    fill_random(tensor, 1 << 16);
    memset(wanted_tile, 0, sizeof wanted_tile);
    uint32_t n_elems = model(&m, coords, true);
    struct pl_box b;
    pl_box_start(&b, &m, PL_BOX_TILE, coords, NULL);
    uint32_t n_bytes = n_elems * pl_tmap_type_bits((enum pl_tmap_type)m.type) / 8;
    ck_assert_uint_eq(pl_box_payload_bytes(&b), n_bytes);
    ck_assert_uint_eq(pl_box_shared_bytes(&b), n_bytes);
    uint32_t n_rows = 0;
    for (struct pl_box_row row; pl_box_next(&b, &row); n_rows++) {
        int64_t offset;
        uint32_t n = pl_box_row_global_bytes(&row, &m, &offset);
        pl_box_row_load(&b, &row, n == 0 ? NULL : tensor + offset, tile + row.shared_offset_bytes);
    }
    ck_assert_uint_eq(n_rows, b.n_rows);
    ck_assert_mem_eq(tile, wanted_tile, n_bytes);
}
END_TEST

START_TEST(store_writes_the_elements_inside_and_nothing_else)
{
    rng = 777 + (uint64_t)_i * 104729;
    struct pl_tensormap m;
    int32_t coords[5];
    random_box(&m, coords);
    fill_random(tensor, 1 << 16);
    fill_random(tile, 1 << 16);
    memcpy(wanted_tensor, tensor, sizeof tensor);
    model(&m, coords, false);
    struct pl_box b;
    pl_box_start(&b, &m, PL_BOX_TILE, coords, NULL);
    for (struct pl_box_row row; pl_box_next(&b, &row);) {
        int64_t offset;
        uint32_t n = pl_box_row_global_bytes(&row, &m, &offset);
        if (n != 0)
            pl_box_row_store(&b, &row, tile + row.shared_offset_bytes, tensor + offset);
    }
    ck_assert_mem_eq(tensor, wanted_tensor, sizeof tensor);
}
END_TEST

START_TEST(tf32_maps_round_what_they_load)
{
    struct pl_tensormap m = {
        .type = PL_TMAP_TF32, .rank = 1, .dims = {6}, .box = {8}, .elem_strides = {1}, .fill = 1};
    const uint32_t in[6] = {0x3f800fff, 0x3f801000, 0x3f803000, 0xff800000, 0x7f800001, 0x7f7fffff};
    const uint32_t want[8] = {0x3f800000, 0x3f800000, 0x3f804000, 0xff800000,
                              0x7fffe000, 0x7f800000, 0x7ff77ff7, 0x7ff77ff7};
    uint32_t out[8];
    struct pl_box b;
    struct pl_box_row row;
    pl_box_start(&b, &m, PL_BOX_TILE, (const int32_t[]){0}, NULL);
    ck_assert(pl_box_next(&b, &row));
    uint8_t bytes[sizeof in];
    memcpy(bytes, in, sizeof in);
    pl_box_row_load(&b, &row, bytes, (uint8_t *)out);
    for (int i = 0; i < 8; i++)
        ck_assert_uint_eq(out[i], want[i]);
}
END_TEST

/* ---- tables: packed types, gather4, im2col ------------------------------------------------------------------------------------------------ */

static uint32_t type_of_table(const char *name, bool *is_store)
{
    *is_store = strcmp(name, "b6p2x16_store") == 0;
    if (strncmp(name, "16U4_ALIGN8B", 12) == 0)
        return PL_TMAP_U4_ALIGN8;
    return strncmp(name, "16U4_ALIGN16B", 13) == 0 ? PL_TMAP_U4_ALIGN16 : PL_TMAP_U6_ALIGN16;
}

/* One element set to all ones at the place that the table gives; it must arrive at the other place, alone. */
static void check_packed(uint32_t type, bool is_store, const unsigned v[7])
{
    struct pl_tensormap m = {
        .type = type, .rank = 1, .dims = {128}, .box = {128}, .elem_strides = {1}};
    struct pl_box b;
    struct pl_box_row row;
    pl_box_start(&b, &m, PL_BOX_TILE, (const int32_t[]){0}, NULL);
    ck_assert(pl_box_next(&b, &row));
    ck_assert_uint_eq(pl_box_payload_bytes(&b), v[5]);
    uint32_t bits = pl_tmap_type_bits((enum pl_tmap_type)type);
    uint8_t global[128] = {0}, shared[128] = {0}, want[128] = {0};
    set_bits(is_store ? shared : global, is_store ? 8 * v[3] + v[4] : 8 * v[1] + v[2], bits, ~0u);
    set_bits(want, is_store ? 8 * v[1] + v[2] : 8 * v[3] + v[4], bits, ~0u);
    if (is_store) {
        pl_box_row_store(&b, &row, shared, global);
        ck_assert_mem_eq(global, want, v[5]);
        return;
    }
    ck_assert_uint_eq(pl_box_shared_bytes(&b), v[6]);
    pl_box_row_load(&b, &row, global, shared);
    ck_assert_mem_eq(shared, want, v[6]);
    ck_assert(!pl_box_byte_is_gap(&m, v[3]));
}

START_TEST(packed_elements_are_where_the_table_says)
{
    FILE *f = open_table("packed_types_smem.tsv");
    int n = 0;
    for (char line[256]; fgets(line, sizeof line, f) != NULL; n++) {
        char name[64];
        unsigned v[7];
        bool is_store;
        ck_assert_int_eq(sscanf(line, "%63s %u %u %u %u %u %u %u", name, &v[0], &v[1], &v[2], &v[3],
                                &v[4], &v[5], &v[6]),
                         8);
        uint32_t type = type_of_table(name, &is_store);
        check_packed(type, is_store, v);
    }
    fclose(f);
    ck_assert_int_eq(n, 512);
}
END_TEST

START_TEST(gather4_rows_are_where_the_table_says)
{
    FILE *f = open_table("tma_gather4.tsv");
    struct pl_tensormap m = {.type = PL_TMAP_U16,
                             .rank = 2,
                             .dims = {64, 10},
                             .strides_bytes = {0, 128},
                             .box = {16, 1},
                             .elem_strides = {1, 1}};
    uint16_t x[10 * 64];
    for (uint32_t i = 0; i < 640; i++)
        x[i] = (uint16_t)(1000 + i);
    uint8_t bytes[sizeof x];
    memcpy(bytes, x, sizeof x);
    for (char line[256]; fgets(line, sizeof line, f) != NULL;) {
        char name[64], column[16];
        int col, row_coordinate, i, c, smem;
        ck_assert_int_eq(sscanf(line, "%63s %d %d %d %d %15s %d", name, &col, &row_coordinate, &i,
                                &c, column, &smem),
                         7);
        const int32_t rows[2][5] = {{1, 2, 5, 0, 9}, {0, 3, -1, 10, 3}};
        struct pl_box b;
        uint8_t out[4 * 32];
        pl_box_start(&b, &m, PL_BOX_GATHER4, rows[strcmp(name, "gather4_box16_2B") != 0], NULL);
        ck_assert_uint_eq(pl_box_payload_bytes(&b), sizeof out);
        for (struct pl_box_row row; pl_box_next(&b, &row);) {
            int64_t offset;
            uint32_t n = pl_box_row_global_bytes(&row, &m, &offset);
            pl_box_row_load(&b, &row, n == 0 ? NULL : bytes + offset,
                            out + row.shared_offset_bytes);
        }
        uint16_t got;
        memcpy(&got, out + smem, 2);
        ck_assert_uint_eq(got,
                          strcmp(column, "zero") == 0 ? 0 : x[row_coordinate * 64 + atoi(column)]);
    }
    fclose(f);
}
END_TEST

static const struct im2col_case {
    const char *name;
    uint32_t n_spatial, n_pixels;
    uint64_t size[3], n;
    int32_t lower[3], upper[3];
    uint32_t stride[3];
    int32_t start[4]; /* w (h (d)) n */
    uint16_t offsets[3];
} im2col_cases[] = {
    {"triton_ex1", 2, 16, {4, 4}, 1, {0, 0}, {0, 0}, {1, 1}, {0, 0, 0}, {0, 0}},
    {"triton_ex2", 2, 16, {4, 4}, 1, {-1, -1}, {-1, -1}, {1, 1}, {-1, -1, 0}, {0, 0}},
    {"triton_ex3", 2, 16, {4, 4}, 1, {-1, -1}, {-1, -1}, {1, 1}, {-1, -1, 0}, {1, 1}},
    {"triton_ex4", 2, 16, {4, 4}, 2, {0, 0}, {0, 0}, {1, 1}, {3, 1, 0}, {0, 0}},
    {"triton_ex5", 2, 16, {4, 4}, 2, {-1, -1}, {-1, -1}, {1, 1}, {2, 1, 0}, {0, 0}},
    {"manual_ex1_4d", 2, 64, {14, 9}, 64, {-1, -1}, {-1, -1}, {1, 1}, {4, 7, 7}, {0, 0}},
    {"manual_ex2_start_h6", 2, 64, {14, 9}, 64, {0, 0}, {-2, -2}, {1, 1}, {4, 6, 7}, {2, 2}},
    {"manual_ex3_start_h5_stride2",
     2,
     32,
     {14, 8},
     64,
     {-1, -1},
     {-1, -1},
     {2, 2},
     {5, 5, 7},
     {1, 1}},
    {"3d_past_end", 1, 8, {5}, 2, {-1}, {-1}, {1}, {2, 1}, {2}},
    {"5d", 3, 24, {3, 3, 2}, 2, {-1, -1, 0}, {-1, -1, -1}, {1, 1, 1}, {1, 1, 0, 0}, {1, 1, 1}},
};

/* Pixel numbers in NDHW order that the copy reads, -1 for filled ones. */
static void im2col_pixels(const struct im2col_case *c, int64_t *out)
{
    struct pl_tensormap m = {
        .mode = PL_TMAP_IM2COL, .type = PL_TMAP_U32, .rank = c->n_spatial + 2, .n_channels = 4};
    m.n_pixels = c->n_pixels;
    m.dims[0] = 4;
    uint64_t pitch = 16;
    int32_t coords[5] = {0};
    for (uint32_t i = 1; i < m.rank; i++) {
        m.dims[i] = i == m.rank - 1 ? c->n : c->size[i - 1];
        m.strides_bytes[i] = pitch;
        pitch *= m.dims[i];
        m.elem_strides[i] = i == m.rank - 1 ? 1 : c->stride[i - 1];
        coords[i] = c->start[i - 1];
    }
    memcpy(m.lower, c->lower, sizeof m.lower);
    memcpy(m.upper, c->upper, sizeof m.upper);
    struct pl_box b;
    pl_box_start(&b, &m, PL_BOX_IM2COL, coords, c->offsets);
    ck_assert_uint_eq(pl_box_payload_bytes(&b), c->n_pixels * 16);
    struct pl_box_row row;
    for (uint32_t p = 0; pl_box_next(&b, &row); p++) {
        ck_assert_uint_eq(row.shared_offset_bytes, p * 16);
        out[p] = row.first == row.end ? -1 : row.offset_bits / 128;
    }
}

START_TEST(im2col_pixels_are_those_of_the_table)
{
    const struct im2col_case *c = &im2col_cases[_i];
    int64_t got[64];
    im2col_pixels(c, got);
    FILE *f = open_table("tma_im2col.tsv");
    uint32_t n = 0;
    for (char line[256]; fgets(line, sizeof line, f) != NULL;) {
        char name[64], xy[64];
        int p, image, is_inside, pixel;
        ck_assert_int_eq(
            sscanf(line, "%63s %d %d %63s %d %d", name, &p, &image, xy, &is_inside, &pixel), 6);
        if (strcmp(name, c->name) != 0)
            continue;
        ck_assert_msg(got[p] == pixel, "%s pixel %d: %d, not %d", name, p, (int)got[p], pixel);
        n++;
    }
    fclose(f);
    ck_assert_uint_eq(n, c->n_pixels);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("tensormap");
    TCase *t = tcase_create("image");
    tcase_add_loop_test(t, image_has_the_bits_that_compiled_code_writes, 0, 200);
    tcase_add_loop_test(t, im2col_fields_come_back, 0, 20);
    tcase_add_loop_test(t, replace_equals_encode, 0, 50);
    tcase_add_test(t, memory_that_no_encoder_wrote_is_no_map);
    suite_add_tcase(s, t);
    t = tcase_create("rules");
    tcase_add_loop_test(t, each_rule_is_named, 0, (int)(sizeof rule_cases / sizeof rule_cases[0]));
    tcase_add_test(t, every_broken_rule_is_listed);
    suite_add_tcase(s, t);
    t = tcase_create("boxes");
    tcase_add_loop_test(t, swizzle_permutes_chunks, 0, PL_TMAP_SWIZZLE_96B);
    tcase_add_loop_test(t, box_walk_equals_a_walk_of_elements, 0, 200);
    tcase_add_loop_test(t, store_writes_the_elements_inside_and_nothing_else, 0, 100);
    tcase_add_test(t, tf32_maps_round_what_they_load);
    tcase_add_test(t, packed_elements_are_where_the_table_says);
    tcase_add_test(t, gather4_rows_are_where_the_table_says);
    tcase_add_loop_test(t, im2col_pixels_are_those_of_the_table, 0,
                        (int)(sizeof im2col_cases / sizeof im2col_cases[0]));
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
