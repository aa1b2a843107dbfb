/*
 * Asynchronous PTX on the emulated machine, each program under eager, late and several random orders: a correct program gives
 * the same, closed-form result under all of them; a broken one raises the diagnostic that its entry is named after.
 */
#include "emu/launch.h"
#include "emu/tensormap.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_POLICIES = 8, BUFFER_BYTES = 1 << 16 };

/* ---- a device, a program, memory ---------------------------------------------------------------------------------------- */

static struct pl_emu_device *device;
static struct pl_emu_program *program;
static struct pl_emu_fault fault;

/* policy: 0 eager, 1 late, above: a seed */
static void open_checked(int policy, uint16_t sm, enum pl_emu_check check)
{
    struct pl_emu_config c = {.sm = sm,
                              .n_sms = 2,
                              .memory_bytes = 1 << 26,
                              .check = check,
                              .policy = policy == 0   ? PL_EMU_ASYNC_EAGER
                                        : policy == 1 ? PL_EMU_ASYNC_LATE
                                                      : PL_EMU_ASYNC_RANDOM,
                              .seed = (uint64_t)policy * 977,
                              .n_threads = policy % 2 == 0 ? 1 : 3,
                              .step_limit = 1 << 22};
    device = pl_emu_device_create(&c);
    ck_assert_ptr_nonnull(device);
}

static void open_device(int policy, uint16_t sm) { open_checked(policy, sm, PL_EMU_CHECK_FAULTS); }

static void load_file(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tests/ptx/%s", PL_SRCDIR, name);
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL, "no %s", path);
    static char text[1 << 17];
    size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    ck_assert_uint_lt(n, sizeof text);
    ck_assert_msg(pl_emu_program_load(device, text, n, &program, &fault), "%s:%u: %s", name,
                  fault.line, fault.text);
}

static void close_all(void)
{
    pl_emu_program_unload(program);
    pl_emu_device_destroy(device);
}

static const struct pl_emu_allocation *new_memory(uint64_t n_bytes)
{
    const struct pl_emu_allocation *a =
        pl_emu_memory_alloc(pl_emu_device_memory(device), n_bytes, 0, NULL);
    ck_assert_ptr_nonnull(a);
    return a;
}

static uint64_t rng;
static uint32_t below(uint32_t n)
{
    rng = rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(rng >> 33) % n;
}

static void fill_random(uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)below(256);
}

/* Parameters are laid out by hand: put(&params, offset, &value, size). */
struct launch {
    const char *entry;
    uint8_t params[256];
    uint32_t grid, block, cluster, dynamic_bytes;
};

static bool run(struct launch *l)
{
    const struct pl_emu_func *f = pl_emu_program_find(program, l->entry);
    ck_assert_msg(f != NULL, "no entry %s", l->entry);
    struct pl_emu_launch e = {.func = f,
                              .params = l->params,
                              .grid = {l->grid, 1, 1},
                              .block = {l->block, 1, 1},
                              .cluster = {l->cluster, l->cluster != 0, l->cluster != 0},
                              .dynamic_shared_bytes = l->dynamic_bytes};
    memset(&fault, 0, sizeof fault);
    return pl_emu_launch(device, &e, &fault);
}

static void run_well(struct launch *l)
{
    ck_assert_msg(run(l), "%s: PL%d line %u warp %u lane %u: %s", l->entry, fault.code, fault.line,
                  fault.warp, fault.lane, fault.text);
}

static void put(struct launch *l, size_t offset, const void *v, size_t n)
{
    memcpy(l->params + offset, v, n);
}
static void put_u32(struct launch *l, size_t offset, uint32_t v) { put(l, offset, &v, sizeof v); }
static void put_u64(struct launch *l, size_t offset, uint64_t v) { put(l, offset, &v, sizeof v); }

/* ---- tensor copies ------------------------------------------------------------------------------------------------------------- */

enum { COLUMNS = 80, ROWS = 50, PITCH = 176 }; /* of 16-bit elements, bytes */

struct tile_case {
    uint32_t swizzle, box_columns, box_rows;
    int32_t x, y;
};

static const struct tile_case tile_cases[] = {
    {PL_TMAP_SWIZZLE_NONE, 64, 16, 0, 0},
    {PL_TMAP_SWIZZLE_NONE, 24, 7, 61, 45},
    {PL_TMAP_SWIZZLE_32B, 16, 32, 16, 3},
    {PL_TMAP_SWIZZLE_64B, 32, 32, 56, 20},
    {PL_TMAP_SWIZZLE_128B, 64, 32, 0, 0},
    {PL_TMAP_SWIZZLE_128B, 64, 40, 30, 30},
    {PL_TMAP_SWIZZLE_128B_ATOM_32B, 64, 16, 0, 8},
    {PL_TMAP_SWIZZLE_128B_ATOM_32B_FLIP_8B, 64, 16, 0, 8},
    {PL_TMAP_SWIZZLE_128B_ATOM_64B, 64, 16, 8, 8},
    {PL_TMAP_SWIZZLE_128B, 64, 8, 200, 200},
};
enum { N_TILES = sizeof tile_cases / sizeof tile_cases[0] };

static struct pl_tensormap map_of(const struct tile_case *c, uint64_t address, uint32_t type)
{
    return (struct pl_tensormap){.type = type,
                                 .swizzle = c->swizzle,
                                 .rank = 2,
                                 .address = address,
                                 .dims = {COLUMNS, ROWS},
                                 .strides_bytes = {0, PITCH},
                                 .box = {c->box_columns, c->box_rows},
                                 .elem_strides = {1, 1}};
}

static void put_map(struct launch *l, const struct pl_tensormap *m)
{
    struct pl_arena arena = {0};
    struct pl_diags ds;
    pl_diags_init(&ds, &arena);
    uint8_t image[PL_TMAP_N_BYTES];
    struct pl_tmap_request r = {.map = *m};
    ck_assert_msg(pl_tensormap_encode(&r, &ds, image), "%s",
                  ds.list.n != 0 ? ds.list.data[0].text : "");
    put(l, 64, image, sizeof image);
    pl_arena_fini(&arena);
}

/* Byte of the swizzled tile that holds element (r, c): chunks permuted by the 128-byte line, as in check_tensormap. */
static uint32_t place_in_tile(const struct tile_case *c, uint32_t row, uint32_t column)
{
    uint32_t a = (row * c->box_columns + column) * 2, line = a / 128;
    switch (c->swizzle) {
    case PL_TMAP_SWIZZLE_32B: return a / 32 * 32 + ((a / 16 % 2) ^ (line % 2)) * 16 + a % 16;
    case PL_TMAP_SWIZZLE_64B: return a / 64 * 64 + ((a / 16 % 4) ^ (line % 4)) * 16 + a % 16;
    case PL_TMAP_SWIZZLE_128B: return a / 128 * 128 + ((a / 16 % 8) ^ (line % 8)) * 16 + a % 16;
    case PL_TMAP_SWIZZLE_128B_ATOM_32B:
        return a / 128 * 128 + ((a / 32 % 4) ^ (line % 4)) * 32 + a % 32;
    case PL_TMAP_SWIZZLE_128B_ATOM_32B_FLIP_8B:
        return a / 128 * 128 + ((a / 32 % 4) ^ (line % 4)) * 32 + a % 32 / 16 * 16 +
               ((a / 8 % 2) ^ (line % 2)) * 8 + a % 8;
    case PL_TMAP_SWIZZLE_128B_ATOM_64B:
        return a / 128 * 128 + ((a / 64 % 2) ^ (line % 2)) * 64 + a % 64;
    default: return a;
    }
}

static void tile_launch(struct launch *l, const struct tile_case *c, const char *entry,
                        uint64_t buffer)
{
    *l = (struct launch){.entry = entry, .grid = 1, .block = 32, .dynamic_bytes = 1 << 14};
    put_u64(l, 0, buffer);
    put_u32(l, 192, (uint32_t)c->x);
    put_u32(l, 196, (uint32_t)c->y);
    put_u32(l, 200, c->box_columns * c->box_rows * 2);
}

static uint16_t element(const uint8_t *p, uint64_t byte)
{
    uint16_t v;
    memcpy(&v, p + byte, sizeof v);
    return v;
}

static bool is_inside(int32_t x, int32_t y) { return x >= 0 && x < COLUMNS && y >= 0 && y < ROWS; }

static void check_tile(const struct tile_case *c, const uint8_t *tensor, const uint8_t *got)
{
    for (uint32_t r = 0; r < c->box_rows; r++)
        for (uint32_t k = 0; k < c->box_columns; k++) {
            int32_t x = c->x + (int32_t)k, y = c->y + (int32_t)r;
            uint16_t want =
                is_inside(x, y) ? element(tensor, (uint64_t)y * PITCH + (uint64_t)x * 2) : 0;
            ck_assert_uint_eq(element(got, place_in_tile(c, r, k)), want);
        }
}

START_TEST(tensor_load_brings_the_box_swizzled_and_filled)
{
    rng = 5 + (uint64_t)_i;
    open_device(_i % N_POLICIES, 90);
    load_file("async_tma.ptx");
    const struct tile_case *c = &tile_cases[_i / N_POLICIES];
    const struct pl_emu_allocation *tensor = new_memory(PITCH * ROWS),
                                   *buffer = new_memory(BUFFER_BYTES);
    fill_random(tensor->host, PITCH * ROWS);
    struct launch l;
    tile_launch(&l, c, "load", buffer->address);
    struct pl_tensormap m = map_of(c, tensor->address, PL_TMAP_U16);
    put_map(&l, &m);
    run_well(&l);
    check_tile(c, tensor->host, buffer->host);
    close_all();
}
END_TEST

START_TEST(tensor_load_fills_with_nan_on_request)
{
    open_device(_i, 90);
    load_file("async_tma.ptx");
    const struct tile_case *c = &tile_cases[N_TILES - 1]; /* wholly outside */
    const struct pl_emu_allocation *tensor = new_memory(PITCH * ROWS),
                                   *buffer = new_memory(BUFFER_BYTES);
    struct launch l;
    tile_launch(&l, c, "load", buffer->address);
    struct pl_tensormap m = map_of(c, tensor->address, PL_TMAP_BF16);
    m.fill = 1;
    put_map(&l, &m);
    run_well(&l);
    for (uint32_t i = 0; i < c->box_columns * c->box_rows; i++)
        ck_assert_uint_eq(element(buffer->host, i * 2) & 0x7f80, 0x7f80);
    close_all();
}
END_TEST

/* Store and reduction write what lies inside; all else of the tensor, its padding too, stays. */
START_TEST(tensor_store_is_clipped)
{
    rng = 15 + (uint64_t)_i;
    open_device(_i % N_POLICIES, 90);
    load_file("async_tma.ptx");
    const struct tile_case *c = &tile_cases[_i / N_POLICIES % N_TILES];
    bool is_add = _i / N_POLICIES >= N_TILES;
    const struct pl_emu_allocation *tensor = new_memory(PITCH * ROWS),
                                   *buffer = new_memory(BUFFER_BYTES);
    static uint8_t want[PITCH * ROWS];
    fill_random(tensor->host, PITCH * ROWS);
    fill_random(buffer->host, BUFFER_BYTES);
    for (uint32_t i = 0; i < PITCH * ROWS && is_add;
         i += 2) { /* small exact bf16 numbers: 1, 2 and their sums */
        static const uint16_t ones[] = {0x3f80, 0x4000};
        memcpy(tensor->host + i, &ones[below(2)], 2);
        memcpy(buffer->host + i, &ones[below(2)], 2);
    }
    memcpy(want, tensor->host, sizeof want);
    for (uint32_t r = 0; r < c->box_rows; r++)
        for (uint32_t k = 0; k < c->box_columns; k++) {
            int32_t x = c->x + (int32_t)k, y = c->y + (int32_t)r;
            uint16_t v = element(buffer->host, place_in_tile(c, r, k));
            if (!is_inside(x, y))
                continue;
            uint64_t at = (uint64_t)y * PITCH + (uint64_t)x * 2;
            if (is_add) /* 1+1 = 2, 1+2 = 3, 2+2 = 4 */
                v = element(want, at) != v ? 0x4040 : v == 0x3f80 ? 0x4000 : 0x4080;
            memcpy(want + at, &v, 2);
        }
    struct launch l;
    tile_launch(&l, c, is_add ? "add" : "store", buffer->address);
    struct pl_tensormap m = map_of(c, tensor->address, PL_TMAP_BF16);
    put_map(&l, &m);
    run_well(&l);
    ck_assert_mem_eq(tensor->host, want, sizeof want);
    close_all();
}
END_TEST

/* ---- other modes --------------------------------------------------------------------------------------------------------------- */

static const struct tile_case mode_case = {PL_TMAP_SWIZZLE_128B, 64, 1, 24, 0};
static const struct pl_emu_allocation *mode_tensor, *mode_buffer;

static struct launch mode_launch(int i, const char *entry, const struct tile_case *c)
{
    rng = 75 + (uint64_t)i;
    open_device(i, 100);
    load_file("async_modes.ptx");
    mode_tensor = new_memory(PITCH * ROWS);
    mode_buffer = new_memory(BUFFER_BYTES);
    fill_random(mode_tensor->host, PITCH * ROWS);
    fill_random(mode_buffer->host, BUFFER_BYTES);
    struct launch l;
    tile_launch(&l, c, entry, mode_buffer->address);
    struct pl_tensormap m = map_of(c, mode_tensor->address, PL_TMAP_U16);
    put_map(&l, &m);
    return l;
}

START_TEST(gather_brings_four_rows)
{
    const int32_t rows[4] = {2, 5, -1, 9};
    struct launch l = mode_launch(_i, "gather", &mode_case);
    put_u32(&l, 200, 4 * 128);
    run_well(&l);
    for (uint32_t r = 0; r < 4; r++)
        for (uint32_t k = 0; k < 64; k++) {
            int32_t x = mode_case.x + (int32_t)k;
            uint64_t at = (uint64_t)rows[r] * PITCH + (uint64_t)x * 2;
            ck_assert_uint_eq(element(mode_buffer->host, place_in_tile(&mode_case, r, k)),
                              is_inside(x, rows[r]) ? element(mode_tensor->host, at) : 0);
        }
    close_all();
}
END_TEST

START_TEST(scatter_writes_the_rows_inside)
{
    const int32_t rows[4] = {9, 0, 50, 4};
    struct launch l = mode_launch(_i, "scatter", &mode_case);
    put_u32(&l, 200, 4 * 128);
    static uint8_t want[PITCH * ROWS];
    memcpy(want, mode_tensor->host, sizeof want);
    for (uint32_t r = 0; r < 4; r++)
        for (uint32_t k = 0; k < 64; k++) {
            int32_t x = mode_case.x + (int32_t)k;
            uint16_t v = element(mode_buffer->host, place_in_tile(&mode_case, r, k));
            if (is_inside(x, rows[r]))
                memcpy(want + rows[r] * PITCH + x * 2, &v, 2);
        }
    run_well(&l);
    ck_assert_mem_eq(mode_tensor->host, want, sizeof want);
    close_all();
}
END_TEST

/* 5 x 4 x 2 pixels of 8 channels, padding 1: the walk of the bounding box, a filter position of (1, 2). */
START_TEST(im2col_brings_pixels_in_order)
{
    struct launch l = mode_launch(_i, "im2col", &mode_case);
    struct pl_tensormap m = {
        .mode = PL_TMAP_IM2COL, .type = PL_TMAP_U16, .rank = 4, .address = mode_tensor->address};
    const uint64_t dims[4] = {8, 5, 4, 2}, strides[4] = {0, 16, 80, 320};
    for (uint32_t i = 0; i < 4; i++) {
        m.dims[i] = dims[i];
        m.strides_bytes[i] = strides[i];
        m.elem_strides[i] = 1;
    }
    m.lower[0] = m.lower[1] = m.upper[0] = m.upper[1] = -1;
    m.n_channels = 8;
    m.n_pixels = 30;
    put_map(&l, &m);
    put_u32(&l, 192, (uint32_t)-1);
    put_u32(&l, 196, (uint32_t)-1);
    put_u32(&l, 200, 30 * 16);
    run_well(&l);
    for (int32_t p = 0; p < 30;
         p++) { /* 5 x 4 positions an image: w from -1 to 3, h from -1 to 2 */
        int32_t w = p % 5 - 1 + 1, h = p / 5 % 4 - 1 + 2, n = p / 20;
        bool is_in = w >= 0 && w < 5 && h >= 0 && h < 4;
        for (int32_t c = 0; c < 8; c++)
            ck_assert_uint_eq(
                element(mode_buffer->host, (uint64_t)p * 16 + (uint64_t)c * 2),
                is_in ? element(mode_tensor->host, (uint64_t)(n * 320 + h * 80 + w * 16 + c * 2))
                      : 0);
    }
    close_all();
}
END_TEST

START_TEST(pair_signals_the_even_cta)
{
    const struct tile_case c = {PL_TMAP_SWIZZLE_128B, 64, 8, 8, 3};
    struct launch l = mode_launch(_i, "pair", &c);
    l.grid = l.cluster = 2;
    run_well(&l);
    for (uint32_t r = 0; r < 2; r++) {
        struct tile_case half = c;
        half.y += (int32_t)(8 * r);
        check_tile(&half, mode_tensor->host, mode_buffer->host + r * 1024);
    }
    close_all();
}
END_TEST

START_TEST(map_edited_on_the_device_is_used)
{
    const struct tile_case c = {PL_TMAP_SWIZZLE_NONE, 64, 16, 0, 5}; /* y: the new height */
    struct launch l = mode_launch(_i, "replace", &c);
    run_well(&l);
    for (uint32_t r = 0; r < 16; r++)
        for (uint32_t k = 0; k < 64; k++)
            ck_assert_uint_eq(element(mode_buffer->host, 128 + (r * 64 + k) * 2),
                              r < 5 ? element(mode_tensor->host, r * PITCH + k * 2) : 0);
    close_all();
}
END_TEST

/* ---- clusters -------------------------------------------------------------------------------------------------------------------- */

static const uint32_t cluster_sizes[] = {2, 4, 8};

START_TEST(multicast_reaches_every_cta)
{
    rng = 25 + (uint64_t)_i;
    open_device(_i % N_POLICIES, 90);
    load_file("async_cluster.ptx");
    uint32_t n = cluster_sizes[_i / N_POLICIES];
    const struct tile_case c = {PL_TMAP_SWIZZLE_128B, 64, 16, 40, 40};
    const struct pl_emu_allocation *tensor = new_memory(PITCH * ROWS),
                                   *buffer = new_memory(BUFFER_BYTES);
    fill_random(tensor->host, PITCH * ROWS);
    struct launch l;
    tile_launch(&l, &c, "multicast", buffer->address);
    struct pl_tensormap m = map_of(&c, tensor->address, PL_TMAP_U16);
    put_map(&l, &m);
    l.grid = 2 * n;
    l.cluster = n;
    run_well(&l);
    for (uint32_t i = 0; i < 2 * n; i++)
        check_tile(&c, tensor->host, buffer->host + i * 2048);
    close_all();
}
END_TEST

static const struct pl_emu_allocation *run_cluster(int i, const char *entry, uint32_t *n)
{
    open_device(i % N_POLICIES, 90);
    load_file("async_cluster.ptx");
    *n = cluster_sizes[i / N_POLICIES];
    const struct pl_emu_allocation *buffer = new_memory(BUFFER_BYTES);
    struct launch l = {.entry = entry, .grid = 2 * *n, .block = 32, .cluster = *n};
    put_u64(&l, 0, buffer->address);
    run_well(&l);
    return buffer;
}

/* Who sends to CTA i: the one before it in its ring of n. */
static uint32_t sender(uint32_t i, uint32_t n) { return i / n * n + (i + n - 1) % n; }

static uint32_t word(const struct pl_emu_allocation *a, uint64_t i)
{
    uint32_t v;
    memcpy(&v, a->host + 4 * i, sizeof v);
    return v;
}

START_TEST(ring_through_shared_memory_of_peers)
{
    uint32_t n;
    const struct pl_emu_allocation *buffer = run_cluster(_i, "ring", &n);
    for (uint32_t i = 0; i < 2 * n; i++)
        for (uint32_t t = 0; t < 32; t++)
            ck_assert_uint_eq(word(buffer, i * 32 + t), sender(i, n) * 1000 + t);
    close_all();
}
END_TEST

START_TEST(generic_addresses_reach_peers)
{
    uint32_t n;
    const struct pl_emu_allocation *buffer = run_cluster(_i, "generic", &n);
    for (uint32_t i = 0; i < 2 * n; i++)
        for (uint32_t t = 0; t < 32; t++)
            ck_assert_uint_eq(word(buffer, i * 32 + t), 32 * n * 100000 + sender(i, n) * 1000 + t);
    close_all();
}
END_TEST

START_TEST(st_async_is_counted_by_the_peer)
{
    uint32_t n;
    const struct pl_emu_allocation *buffer = run_cluster(_i, "st_async", &n);
    for (uint32_t i = 0; i < 2 * n; i++)
        for (uint32_t t = 0; t < 32; t++)
            ck_assert_uint_eq(word(buffer, i * 32 + t), 4 * (sender(i, n) * 1000 + t) + 6);
    close_all();
}
END_TEST

START_TEST(red_async_adds_in_the_peer)
{
    uint32_t n;
    const struct pl_emu_allocation *buffer = run_cluster(_i, "red_async", &n);
    ck_assert_uint_eq(word(buffer, 0), 7 + (n - 1) * (31 * 32 / 2));
    close_all();
}
END_TEST

START_TEST(bulk_copies_between_peers)
{
    uint32_t n;
    const struct pl_emu_allocation *buffer = run_cluster(_i, "peer_copy", &n);
    for (uint32_t i = 0; i < 2 * n; i++)
        for (uint32_t t = 0; t < 32; t++) {
            uint32_t sum = 0; /* of the peers' 100 r + t */
            for (uint32_t r = 1; r < n; r++)
                sum += 100 * r + t;
            ck_assert_uint_eq(word(buffer, 2 * (i * 32 + t)), i % n == 0 ? sum : t);
            ck_assert_uint_eq(word(buffer, 2 * (i * 32 + t) + 1), i % n == 0 ? n - 1 : 1);
        }
    close_all();
}
END_TEST

/* ---- bulk copies, cp.async, barriers ------------------------------------------------------------------------------------------- */

static const struct pl_emu_allocation *from, *to;

static struct launch bulk_launch(int policy, const char *entry, uint32_t a, uint32_t b)
{
    open_device(policy, 100);
    load_file("async_bulk.ptx");
    from = new_memory(BUFFER_BYTES);
    to = new_memory(BUFFER_BYTES);
    struct launch l = {.entry = entry, .grid = 1, .block = 32, .dynamic_bytes = 8192};
    put_u64(&l, 0, from->address);
    put_u64(&l, 8, to->address);
    put_u32(&l, 16, a);
    put_u32(&l, 20, b);
    return l;
}

/* Stages 1 to 5, steps 0 to 11: no deadlock, no wrong value. */
START_TEST(ring_of_stages_adds_every_tile)
{
    rng = 35 + (uint64_t)_i;
    int policy = _i % N_POLICIES;
    uint32_t stages = 1 + (uint32_t)_i / N_POLICIES % 5, steps = (uint32_t)_i / N_POLICIES / 5;
    struct launch l = bulk_launch(policy, "ring", stages, steps);
    l.block = 64;
    fill_random(from->host, steps * 512);
    run_well(&l);
    for (uint32_t i = 0; i < 128; i++) {
        uint32_t sum = 0;
        for (uint32_t s = 0; s < steps; s++)
            sum += word(from, s * 128 + i);
        ck_assert_uint_eq(word(to, i), sum);
    }
    close_all();
}
END_TEST

static float as_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

START_TEST(bulk_stores_copy_mask_and_reduce)
{
    rng = 45 + (uint64_t)_i;
    const uint16_t mask = 0xa5f0;
    struct launch l = bulk_launch(_i, "stores", mask, 0);
    for (uint32_t i = 0; i < 128; i++) { /* f32 1…4, whose halves are exact bf16 too */
        static const uint32_t values[] = {0x3f800000, 0x40000000, 0x40400000, 0x40800000};
        memcpy(from->host + 4 * i, &values[below(4)], 4);
    }
    fill_random(to->host, 1024);
    for (uint32_t i = 0; i < 512; i++) {
        static const uint32_t values[] = {0x3f800000, 0x40800000};
        memcpy(to->host + 1024 + 4 * i, &values[below(2)], 4);
    }
    static uint8_t before[4096];
    memcpy(before, to->host, sizeof before);
    run_well(&l);
    ck_assert_mem_eq(to->host, from->host, 512);
    for (uint32_t i = 0; i < 512; i++)
        ck_assert_uint_eq(to->host[512 + i],
                          (mask >> (i % 16) & 1) != 0 ? from->host[i] : before[512 + i]);
    for (uint32_t i = 0; i < 128; i++) {
        uint32_t old_f32, old_s32;
        uint64_t a, b, sum;
        memcpy(&old_f32, before + 1024 + 4 * i, 4);
        ck_assert(as_float(word(to, 256 + i)) == as_float(old_f32) + as_float(word(from, i)));
        memcpy(&a, before + 1536 + i / 2 * 8, 8);
        memcpy(&b, from->host + i / 2 * 8, 8);
        memcpy(&sum, to->host + 1536 + i / 2 * 8, 8);
        ck_assert_uint_eq(sum, a + b);
        /* bf16: the low halves are zero, the high ones add like the f32 they are the top of */
        memcpy(&old_f32, before + 2048 + 4 * i, 4);
        ck_assert(as_float(word(to, 512 + i)) == as_float(old_f32) + as_float(word(from, i)));
        memcpy(&old_s32, before + 2560 + 4 * i, 4);
        ck_assert_int_eq((int32_t)word(to, 640 + i), (int32_t)old_s32 > (int32_t)word(from, i)
                                                         ? (int32_t)old_s32
                                                         : (int32_t)word(from, i));
    }
    close_all();
}
END_TEST

START_TEST(cp_async_copies_and_zero_fills)
{
    rng = 55 + (uint64_t)_i;
    uint32_t n_copied = (uint32_t)_i / N_POLICIES * 4;
    struct launch l = bulk_launch(_i % N_POLICIES, "cp", n_copied, 0);
    fill_random(from->host, 512);
    run_well(&l);
    for (uint32_t i = 0; i < 512; i++)
        ck_assert_uint_eq(to->host[i], i % 16 < n_copied ? from->host[i] : 0);
    for (uint32_t t = 0; t < 32; t++)
        ck_assert_uint_eq(word(to, 128 + t), t % 2 == 0 ? word(from, t) : 0);
    close_all();
}
END_TEST

START_TEST(cp_async_arrives_on_a_barrier)
{
    rng = 65 + (uint64_t)_i;
    struct launch l = bulk_launch(_i % N_POLICIES, "cp_arrive", (uint32_t)_i / N_POLICIES, 0);
    fill_random(from->host, 128);
    run_well(&l);
    for (uint32_t t = 0; t < 32; t++)
        ck_assert_uint_eq(word(to, t), word(from, 31 - t));
    close_all();
}
END_TEST

START_TEST(barrier_forms_give_the_manuals_values)
{
    struct launch l = bulk_launch(_i, "forms", 0, 0);
    l.block = 1;
    run_well(&l);
    /* 5 pending, 3 pending, not complete; complete by state and parity; 4 pending after the drop; bytes missing; complete; fresh */
    const uint32_t want[] = {5, 3, 0, 1, 1, 4, 0, 1, 1};
    for (uint32_t i = 0; i < sizeof want / sizeof want[0]; i++)
        ck_assert_msg(word(to, i) == want[i], "result %u is %u, not %u", i, word(to, i), want[i]);
    close_all();
}
END_TEST

START_TEST(work_of_unlaunched_ctas_is_taken_over_once)
{
    struct launch l = bulk_launch(_i, "steal", 0, 0);
    l.grid = 300;
    run_well(&l);
    for (uint32_t i = 0; i < 300; i++)
        ck_assert_uint_eq(word(to, i), 1);
    ck_assert_msg(word(to, 1023) > 0, "nothing was taken over");
    close_all();
}
END_TEST

START_TEST(registers_move_between_warpgroups)
{
    struct launch l = bulk_launch(_i, "regs", 0, 0);
    l.block = 384;
    run_well(&l);
    for (uint32_t i = 0; i < 384; i++)
        ck_assert_uint_eq(word(to, i), i / 128);
    close_all();
}
END_TEST

/* ---- broken programs --------------------------------------------------------------------------------------------------------------- */

enum { MAX_BAD = 128 };
static char bad_names[MAX_BAD][64];
static int n_bad;

static void list_bad(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tests/ptx/async_bad.ptx", PL_SRCDIR);
    FILE *f = fopen(path, "r");
    for (char line[512]; f != NULL && fgets(line, sizeof line, f) != NULL;)
        if (n_bad < MAX_BAD && sscanf(line, ".visible .entry %63[a-z0-9_]", bad_names[n_bad]) == 1)
            n_bad++;
    if (f != NULL)
        fclose(f);
}

START_TEST(broken_program_raises_the_diagnostic_of_its_name)
{
    const char *name = bad_names[_i / N_POLICIES];
    int policy = _i % N_POLICIES;
    if (strstr(name, "late_") != NULL)
        policy = 1; /* the only order that always shows it */
    open_checked(policy, 100,
                 strstr(name, "race_") != NULL ? PL_EMU_CHECK_RACE : PL_EMU_CHECK_FAULTS);
    load_file("async_bad.ptx");
    const struct pl_emu_allocation *buffer = new_memory(BUFFER_BYTES);
    struct launch l = {.entry = name, .grid = 1, .block = strstr(name, "warp_") != NULL ? 32 : 1};
    if (strstr(name, "cluster_") == name)
        l.grid = l.cluster = 2;
    const struct tile_case c = {PL_TMAP_SWIZZLE_NONE, 64, 8, 0, 0};
    struct pl_tensormap m = map_of(&c, buffer->address, PL_TMAP_BF16);
    put_map(&l, &m);
    put_u64(&l, 0, buffer->address);
    bool is_well = run(&l);
    ck_assert_msg(!is_well, "%s ran to its end", name);
    int code = atoi(strstr(name, "e8") + 1);
    ck_assert_msg(fault.code == code, "%s: PL%d line %u: %s", name, fault.code, fault.line,
                  fault.text);
    ck_assert_uint_ne(fault.line, 0);
    close_all();
}
END_TEST

/* Packed types: PL8246, a direction that the type does not have; PL8247, a start inside a group. */
static const struct packed_case {
    const char *entry;
    int32_t x;
    uint32_t type, swizzle;
    int code;
} packed_cases[] = {
    {"store", 0, PL_TMAP_U4_ALIGN16, PL_TMAP_SWIZZLE_NONE, 8246},
    {"load", 0, PL_TMAP_U6_ALIGN16, PL_TMAP_SWIZZLE_128B_ATOM_64B, 8246},
    {"load", 64, PL_TMAP_U4_ALIGN16, PL_TMAP_SWIZZLE_NONE, 8247},
    {"load", 1, PL_TMAP_U4_ALIGN8, PL_TMAP_SWIZZLE_NONE, 8247},
    {"load", 128, PL_TMAP_U6_ALIGN16, PL_TMAP_SWIZZLE_NONE, 0},
};

START_TEST(packed_maps_keep_to_their_direction_and_groups)
{
    const struct packed_case *c = &packed_cases[_i];
    open_device(0, 90);
    load_file("async_tma.ptx");
    const struct pl_emu_allocation *tensor = new_memory(1 << 14),
                                   *buffer = new_memory(BUFFER_BYTES);
    struct launch l;
    const struct tile_case box = {c->swizzle, 128, 1, c->x, 0};
    tile_launch(&l, &box, c->entry, buffer->address);
    put_u32(&l, 200, 96); /* 128 elements of 6 bits; the gaps of the tile are not read back */
    struct pl_tensormap m = {.type = c->type,
                             .swizzle = c->swizzle,
                             .rank = 2,
                             .address = tensor->address,
                             .dims = {256, 8},
                             .strides_bytes = {0, 256},
                             .box = {128, 1},
                             .elem_strides = {1, 1}};
    put_map(&l, &m);
    bool is_well = run(&l);
    /* The load that keeps to the rules then reads gaps, which hold nothing: PL8073 */
    ck_assert(!is_well);
    ck_assert_msg(fault.code == (c->code != 0 ? c->code : 8073), "PL%d: %s", fault.code,
                  fault.text);
    close_all();
}
END_TEST

static Suite *make_suite(void)
{
    list_bad();
    Suite *s = suite_create("async_run");
    TCase *t = tcase_create("tensor");
    tcase_add_loop_test(t, tensor_load_brings_the_box_swizzled_and_filled, 0, N_TILES * N_POLICIES);
    tcase_add_loop_test(t, tensor_load_fills_with_nan_on_request, 0, N_POLICIES);
    tcase_add_loop_test(t, tensor_store_is_clipped, 0, 2 * N_TILES * N_POLICIES);
    tcase_add_loop_test(t, gather_brings_four_rows, 0, N_POLICIES);
    tcase_add_loop_test(t, scatter_writes_the_rows_inside, 0, N_POLICIES);
    tcase_add_loop_test(t, im2col_brings_pixels_in_order, 0, N_POLICIES);
    tcase_add_loop_test(t, pair_signals_the_even_cta, 0, N_POLICIES);
    tcase_add_loop_test(t, map_edited_on_the_device_is_used, 0, N_POLICIES);
    suite_add_tcase(s, t);
    t = tcase_create("cluster");
    tcase_add_loop_test(t, multicast_reaches_every_cta, 0, 2 * N_POLICIES);
    tcase_add_loop_test(t, ring_through_shared_memory_of_peers, 0, 3 * N_POLICIES);
    tcase_add_loop_test(t, generic_addresses_reach_peers, 0, 3 * N_POLICIES);
    tcase_add_loop_test(t, st_async_is_counted_by_the_peer, 0, 3 * N_POLICIES);
    tcase_add_loop_test(t, red_async_adds_in_the_peer, 0, 3 * N_POLICIES);
    tcase_add_loop_test(t, bulk_copies_between_peers, 0, 3 * N_POLICIES);
    suite_add_tcase(s, t);
    t = tcase_create("bulk");
    tcase_add_loop_test(t, ring_of_stages_adds_every_tile, 0, 12 * 5 * N_POLICIES);
    tcase_add_loop_test(t, bulk_stores_copy_mask_and_reduce, 0, N_POLICIES);
    tcase_add_loop_test(t, cp_async_copies_and_zero_fills, 0, 5 * N_POLICIES);
    tcase_add_loop_test(t, cp_async_arrives_on_a_barrier, 0, 2 * N_POLICIES);
    tcase_add_loop_test(t, barrier_forms_give_the_manuals_values, 0, N_POLICIES);
    tcase_add_loop_test(t, work_of_unlaunched_ctas_is_taken_over_once, 0, N_POLICIES);
    tcase_add_loop_test(t, registers_move_between_warpgroups, 0, N_POLICIES);
    suite_add_tcase(s, t);
    t = tcase_create("broken");
    tcase_add_loop_test(t, packed_maps_keep_to_their_direction_and_groups, 0,
                        (int)(sizeof packed_cases / sizeof packed_cases[0]));
    tcase_add_loop_test(t, broken_program_raises_the_diagnostic_of_its_name, 0, n_bad * N_POLICIES);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
