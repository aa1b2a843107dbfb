/*
 * Where sizes stop fitting: tensors around the edge of 32-bit indexes, whose last tiles alone are copied, and grids that fold y and z
 * into x. Through pl_launch on the emulated driver; its memory is sparse, so gigabytes cost what is touched.
 */
#include <plaunch.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_ARCHS = 2, TILE = 4096, N_LAST = 3 };
static pl_context *contexts[N_ARCHS];
static pl_error err;

static void open_contexts(void)
{
    setenv("PLAUNCH_EMU_DEVICES", "sm_80,sm_90a", 1);
    for (int i = 0; i < N_ARCHS; i++) {
        const pl_context_options o = {.struct_size = sizeof o, .device = i, .cache_dir = ""};
        ck_assert_msg(pl_context_create(&contexts[i], &o, &err) == PL_OK, "%s", err.text);
    }
}

static void close_contexts(void)
{
    for (int i = 0; i < N_ARCHS; i++)
        pl_context_destroy(contexts[i]);
}

/* ---- the last tiles of a long vector ---- */

static const pl_fact_set facts = PL_FACT_ALIGN16 | PL_FACT_UNIT_STRIDE | PL_FACT_I32;
static const pl_param_decl last_params[] = {
    {.name = "x",
     .role = PL_ROLE_IN,
     .min_rank = 1,
     .max_rank = 1,
     .dtypes = PL_DT(U8),
     .specialised = facts},
    {.name = "y",
     .role = PL_ROLE_OUT,
     .min_rank = 1,
     .max_rank = 1,
     .dtypes = PL_DT(U8),
     .specialised = facts},
};

/* Tile n_tiles - 1 - block; by copies through shared memory in configuration 1. */
static void last_body(pl_builder *b, const void *params)
{
    const int32_t is_staged = *(const int32_t *)params;
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    pl_val n = pl_cdiv(b, pl_dim(b, x, 0), TILE);
    pl_offs at = PL_OFF(b, pl_sub(b, pl_sub(b, n, 1), pl_program_id(b, 0)));
    if (!is_staged) {
        pl_store(b, pl_tile(b, y, at, PL_SHAPE(TILE)),
                 pl_load(b, pl_tile(b, x, at, PL_SHAPE(TILE))));
        return;
    }
    pl_ref s = pl_smem(b, PL_U8, PL_SHAPE(TILE), PL_SWIZZLE_NONE);
    pl_bar full = pl_barrier(b, 1);
    pl_copy_gmem_to_smem(b, pl_tile(b, x, at, PL_SHAPE(TILE)), s, full);
    pl_barrier_wait(b, full);
    pl_copy_smem_to_gmem(b, s, pl_tile(b, y, at, PL_SHAPE(TILE)));
    pl_wait_smem_to_gmem(b, 0);
}

static bool last_configure(const pl_request *r, int32_t config, void *params)
{
    (void)r;
    const int32_t is_staged = config == 1;
    memcpy(params, &is_staged, sizeof is_staged);
    return config < 2;
}

static void last_dims(const pl_request *r, const void *params, pl_launch_dims *out)
{
    (void)r, (void)params;
    *out = (pl_launch_dims){{N_LAST, 1, 1}};
}

static const pl_kernel last_tiles = {.struct_size = sizeof(pl_kernel),
                                     .name = "last_tiles",
                                     .params = last_params,
                                     .n_params = 2,
                                     .params_bytes = sizeof(int32_t),
                                     .n_configs = 2,
                                     .configure = last_configure,
                                     .body = last_body,
                                     .launch_dims = last_dims};

/* The largest extent of PL_FACT_I32, one more, the last that 31 bits hold, and past 2^31. */
static const int64_t long_sizes[] = {INT64_C(0x7fefffff), INT64_C(0x7ff00000), INT64_C(0x7ffffffb),
                                     INT64_C(0x80000005)};
enum { N_LONG = sizeof long_sizes / sizeof long_sizes[0] };

static void check_last_tiles(pl_context *ctx, int32_t config, int64_t n)
{
    /* The tiles that are copied, and a tile of guard before and after. */
    const int64_t first = ((n + TILE - 1) / TILE - N_LAST) * TILE, n_seen = n - first;
    const size_t n_window = (size_t)n_seen + 2 * TILE;
    unsigned char *sent = malloc(n_window), *got = malloc(n_window);
    uint64_t x = 0, y = 0;
    ck_assert_msg(pl_alloc(ctx, (size_t)n + TILE, &x, &err) == PL_OK, "%s", err.text);
    ck_assert_msg(pl_alloc(ctx, (size_t)n + TILE, &y, &err) == PL_OK, "%s", err.text);
    for (size_t i = 0; i < n_window; i++)
        sent[i] = (unsigned char)(i * 7 + i / 251);
    memset(got, 0xa5, n_window);
    const uint64_t window = (uint64_t)(first - TILE);
    ck_assert_int_eq(pl_upload(ctx, x + window, sent, n_window, &err), PL_OK);
    ck_assert_int_eq(pl_upload(ctx, y + window, got, n_window, &err), PL_OK);
    const pl_arg args[2] = {pl_arg_tensor(pl_tensor_make(x, PL_U8, PL_SHAPE(n))),
                            pl_arg_tensor(pl_tensor_make(y, PL_U8, PL_SHAPE(n)))};
    const pl_launch_options o = {.struct_size = sizeof o, .config = config + 1};
    ck_assert_msg(pl_launch(ctx, &last_tiles, NULL, args, 2, &o, &err) == PL_OK, "%s", err.text);
    ck_assert_msg(pl_download(ctx, got, y + window, n_window, &err) == PL_OK, "%s", err.text);
    for (size_t i = 0; i < n_window; i++) {
        const bool is_inside = i >= TILE && i < TILE + (size_t)n_seen;
        ck_assert_msg(got[i] == (is_inside ? sent[i] : 0xa5),
                      "configuration %d, %lld bytes: byte %lld", config, (long long)n,
                      (long long)(window + i));
    }
    ck_assert_int_eq(pl_free(ctx, x, &err), PL_OK);
    ck_assert_int_eq(pl_free(ctx, y, &err), PL_OK);
    free(sent);
    free(got);
}

START_TEST(last_tiles_of_long_vectors_are_right)
{
    for (int32_t config = 0; config < 2; config++)
        check_last_tiles(contexts[_i % N_ARCHS], config, long_sizes[_i / N_ARCHS]);
}
END_TEST

static void put_text(const char *text, size_t n_bytes, void *user)
{
    char *all = user;
    const size_t n = strlen(all);
    ck_assert_uint_lt(n + n_bytes, 1 << 16);
    memcpy(all + n, text, n_bytes);
    all[n + n_bytes] = '\0';
}

/* Strides count as well: rows of 2^20 elements, and so many that the last begins before or beyond the edge. */
START_TEST(wide_indexes_begin_where_a_tile_could_overflow)
{
    static const struct {
        int64_t rows, stride;
        bool is_wide;
    } cases[] = {{2046, 1 << 20, false}, {2048, 1 << 20, true},  {3, 0x3ff00000, false},
                 {3, 0x40000000, true},  {0x7fefffff, 1, false}, {0x7ff00000, 1, true}};
    static char text[1 << 16];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const pl_tensor t = pl_tensor_strided(4096, PL_U8, PL_SHAPE(cases[i].rows, 1),
                                              PL_SHAPE(cases[i].stride, 1));
        pl_tensor u = t;
        u.address += (uint64_t)1 << 40;
        const pl_arg args[2] = {pl_arg_tensor(t), pl_arg_tensor(u)};
        const pl_emit_options o = {.struct_size = sizeof o, .arch = "sm_80"};
        text[0] = '\0';
        ck_assert_msg(pl_emit(&pl_kernel_copy, args, 2, &o, put_text, text, &err) == PL_OK, "%s",
                      err.text);
        ck_assert_msg((strstr(text, ".param .u64 extent") != NULL) == cases[i].is_wide &&
                          (strstr(text, ".param .u32 extent") != NULL) == !cases[i].is_wide,
                      "case %d", (int)i);
    }
}
END_TEST

/* ---- folded grids ---- */

static const pl_param_decl fold_params[] = {
    {.name = "y", .role = PL_ROLE_OUT, .min_rank = 4, .max_rank = 4, .dtypes = PL_DT(I32)}};

/* y[z, y, x] = {x, y, z, number of blocks along z}, each block its own. */
static void fold_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref at = pl_param(b, 0);
    for (int axis = 2; axis >= 0; axis--)
        at = pl_at(b, at, pl_program_id(b, axis));
    for (int axis = 0; axis < 3; axis++)
        pl_store(b, pl_at(b, at, axis), pl_cast(b, pl_program_id(b, axis), PL_I32));
    pl_val n = pl_mul(b, pl_cast(b, pl_num_programs(b, 2), PL_I32), 1000);
    pl_store(
        b, pl_at(b, at, 3),
        pl_add(b, n, pl_cast(b, pl_mul(b, pl_num_programs(b, 0), pl_num_programs(b, 1)), PL_I32)));
}

static void fold_dims(const pl_request *r, const void *params, pl_launch_dims *out)
{
    (void)params;
    for (int i = 0; i < 3; i++)
        out->grid[i] = r->args[0].u.tensor.shape[2 - i];
}

static const pl_kernel fold = {.struct_size = sizeof(pl_kernel),
                               .name = "fold",
                               .params = fold_params,
                               .n_params = 1,
                               .n_configs = 1,
                               .body = fold_body,
                               .launch_dims = fold_dims};

START_TEST(every_block_of_a_folded_grid_knows_its_place)
{
    static const int32_t grids[][3] = {{1, 1, 70000}, {1, 65536, 1}, {3, 2, 5}, {2, 1, 65536}};
    const int32_t *g = grids[_i];
    const size_t n_blocks = (size_t)g[0] * (size_t)g[1] * (size_t)g[2], n_bytes = n_blocks * 16;
    int32_t *got = malloc(n_bytes);
    memset(got, 0xff, n_bytes);
    pl_context *ctx = contexts[_i % N_ARCHS];
    uint64_t y = 0;
    ck_assert_int_eq(pl_alloc(ctx, n_bytes, &y, &err), PL_OK);
    ck_assert_int_eq(pl_upload(ctx, y, got, n_bytes, &err), PL_OK);
    const pl_arg args[1] = {
        pl_arg_tensor(pl_tensor_make(y, PL_I32, PL_SHAPE(g[2], g[1], g[0], 4)))};
    ck_assert_msg(pl_launch(ctx, &fold, NULL, args, 1, NULL, &err) == PL_OK, "%s", err.text);
    ck_assert_msg(pl_download(ctx, got, y, n_bytes, &err) == PL_OK, "%s", err.text);
    for (size_t i = 0; i < n_blocks; i++) {
        const int32_t at = (int32_t)i, z = at / (g[0] * g[1]);
        const int32_t want[4] = {at % g[0], at / g[0] % g[1], z, g[2] * 1000 + g[0] * g[1]};
        for (int k = 0; k < 4; k++)
            ck_assert_msg(got[4 * i + (size_t)k] == want[k], "block %d, number %d: %d, not %d", at,
                          k, got[4 * i + (size_t)k], want[k]);
    }
    ck_assert_int_eq(pl_free(ctx, y, &err), PL_OK);
    free(got);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("limits");
    TCase *t = tcase_create("limits");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, open_contexts, close_contexts);
    tcase_add_loop_test(t, last_tiles_of_long_vectors_are_right, 0, N_LONG * N_ARCHS);
    tcase_add_test(t, wide_indexes_begin_where_a_tile_could_overflow);
    tcase_add_loop_test(t, every_block_of_a_folded_grid_knows_its_place, 0, 4);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
