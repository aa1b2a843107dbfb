/*
 * Defects that others have met, as tests of ours: each test says in its name what must happen, and in its comment the number of the case
 * in the log of cases. The areas are tensor copies, barriers, strides, large tensors, shared memory, empty tensors, dtypes, dynamic extents.
 * Those that stand elsewhere:
 *
 *   case        test
 *   20          check_runtime_launch: one_build_for_all_sizes; check_kernels: one_build_serves_eight_shapes
 *   37          check_runtime_launch: maps_of_some_drivers_are_mended; check_runtime_assemble: mended_maps
 *   43          check_tensormap: each_rule_is_named (the emulated driver's side)
 *   46          check_async_run: broken_program_raises_the_diagnostic_of_its_name (e8260_no_init)
 *   48, 49, 50  check_pipes: sums_are_exact (stages 1..5, 0..11 steps)
 *   64, 65      check_num: saturating_conversions_treat_specials_as_the_manual_says, every_code_of_a_narrow_format_… (the arithmetic)
 *   66          check_ops, check_ops_exact (forms with .ftz)
 *   71          check_runtime_launch: nothing_to_do_is_success
 *
 * Cases 39 and 47 are of matrix products (check_matmul: products of depth 0).
 * Rules that a body breaks are in check_builder: all_that_is_wrong_is_reported_and_nothing_written; those of arguments are here.
 */
#include "base/os.h"

#include <plaunch.h>
#include <plaunch/kernels.h>

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const archs[] = {"sm_80", "sm_90a", "sm_100a", "sm_120a"};
enum { SM_80, SM_90, SM_100, SM_120, N_CHIPS };

static pl_context *contexts[N_CHIPS], *ctx;
static pl_error err;
static size_t (*last_fault)(char *text, size_t n_bytes);

static void open_contexts(void)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/emu/.libs/libplaunch-emu.so", PL_BUILDDIR);
    setenv("PLAUNCH_EMU_DEVICES", "sm_80,sm_90a,sm_100a,sm_120a", 1);
    setenv("PLAUNCH_EMU_ASYNC", "late", 1);
    for (int i = 0; i < N_CHIPS; i++) {
        const pl_context_options o = {
            .struct_size = sizeof o, .driver = path, .device = i, .cache_dir = ""};
        ck_assert_msg(pl_context_create(&contexts[i], &o, &err) == PL_OK, "%s", err.text);
        ck_assert_str_eq(pl_context_info(contexts[i]).arch_name, archs[i]);
    }
    void *lib = pl_os_lib_open(path, NULL, 0);
    *(void **)&last_fault = pl_os_lib_sym(lib, "plaunch_emu_last_fault");
    ctx = contexts[SM_90];
}

static void close_contexts(void)
{
    for (int i = 0; i < N_CHIPS; i++)
        pl_context_destroy(contexts[i]);
}

static pl_stats stats(void) { return pl_context_stats(ctx); }

static void launch_ok(const pl_kernel *k, const pl_arg *args, const pl_launch_options *o)
{
    char fault[2000] = "";
    pl_status st = pl_launch(ctx, k, NULL, args, k->n_params, o, &err);
    if (st == PL_OK)
        st = pl_synchronize(ctx, &err);
    if (st != PL_OK)
        last_fault(fault, sizeof fault);
    ck_assert_msg(st == PL_OK, "%s on %s: %s %s\n%s", k->name, pl_context_info(ctx).arch_name,
                  pl_status_name(st), err.text, fault);
}

/* ---- tensors on the device with a copy here; bytes of no element are RED ---- */

enum { RED = 0xa5, RED_BYTES = 256 };

struct array {
    pl_tensor t;
    uint64_t base;
    size_t n_bytes;
    unsigned char *host; /* of base */
};

/* strides.rank 0: dense. */
static struct array array_new(pl_dtype dtype, pl_shape shape, pl_shape strides, size_t offset_bytes)
{
    struct array a = {.t = pl_tensor_make(0, dtype, shape)};
    int64_t n_elems = 1;
    if (strides.rank != 0)
        a.t = pl_tensor_strided(0, dtype, shape, strides);
    for (int i = 0; i < shape.rank; i++)
        n_elems += (shape.d[i] - 1) * a.t.strides[i];
    a.n_bytes = (size_t)(n_elems * pl_dtype_bits(dtype) / 8) + offset_bytes + 2 * RED_BYTES;
    a.host = malloc(a.n_bytes);
    memset(a.host, RED, a.n_bytes);
    ck_assert_msg(pl_alloc(ctx, a.n_bytes, &a.base, &err) == PL_OK, "%s", err.text);
    a.t.address = a.base + RED_BYTES + offset_bytes;
    return a;
}

static void array_free(struct array *a)
{
    ck_assert_int_eq(pl_free(ctx, a->base, &err), PL_OK);
    free(a->host);
}

/* Element i, in row-major order of the shape. */
static void *element(const struct array *a, int64_t i)
{
    int64_t at = 0;
    for (int d = a->t.rank - 1; d >= 0; d--) {
        at += i % a->t.shape[d] * a->t.strides[d];
        i /= a->t.shape[d];
    }
    return a->host + (a->t.address - a->base) + at * pl_dtype_bits(a->t.dtype) / 8;
}

static void upload(const struct array *a)
{
    ck_assert_int_eq(pl_upload(ctx, a->base, a->host, a->n_bytes, &err), PL_OK);
}

static void download(const struct array *a)
{
    ck_assert_int_eq(pl_download(ctx, a->host, a->base, a->n_bytes, &err), PL_OK);
}

static uint64_t mixed(int64_t i) { return ((uint64_t)i + 1) * 0x9e3779b97f4a7c15 >> 7; }

static void fill_bits(const struct array *a)
{
    const size_t es = (size_t)pl_dtype_bits(a->t.dtype) / 8;
    for (int64_t i = 0, n = pl_tensor_n_elems(&a->t); i < n; i++) {
        const uint64_t bits = mixed(i);
        memcpy(element(a, i), &bits, es);
    }
    upload(a);
}

/* Integers -8..7: exact in every type here, doubled too. */
static float small(int64_t i) { return (float)(mixed(i) & 15) - 8; }

static uint16_t bf16_of(float v) /* exact values only */
{
    uint32_t bits;
    memcpy(&bits, &v, 4);
    ck_assert_uint_eq(bits & 0xffff, 0);
    return (uint16_t)(bits >> 16);
}

static void fill_small_bf16(const struct array *a, int64_t first)
{
    for (int64_t i = 0, n = pl_tensor_n_elems(&a->t); i < n; i++)
        memcpy(element(a, i), &(uint16_t){bf16_of(small(first + i))}, 2);
    upload(a);
}

/* After the elements were checked: nothing else was written. Overwrites the elements. */
static void check_gaps(const struct array *a)
{
    const size_t es = (size_t)pl_dtype_bits(a->t.dtype) / 8;
    for (int64_t i = 0, n = pl_tensor_n_elems(&a->t); i < n; i++)
        memset(element(a, i), RED, es);
    size_t at = 0; /* one assertion a tensor: each is a system call */
    while (at < a->n_bytes && a->host[at] == RED)
        at++;
    ck_assert_msg(at == a->n_bytes, "byte %zu of no element was written", at);
}

static void copy_and_check(struct array *x, struct array *y, int32_t config)
{
    const size_t es = (size_t)pl_dtype_bits(x->t.dtype) / 8;
    const pl_arg args[] = {pl_arg_tensor(x->t), pl_arg_tensor(y->t)};
    const pl_launch_options o = {.struct_size = sizeof o, .config = config};
    upload(y);
    launch_ok(&pl_kernel_copy, args, &o);
    download(y);
    int64_t i = 0, n = pl_tensor_n_elems(&x->t);
    while (i < n && memcmp(element(x, i), element(y, i), es) == 0)
        i++;
    ck_assert_msg(i == n, "%s: element %lld", pl_context_info(ctx).arch_name, (long long)i);
    check_gaps(y);
}

/* Copies between the two arrangements on every chip, from and to each of them. */
static void check_arrangement(pl_dtype dtype, pl_shape shape, pl_shape strides, size_t offset_bytes,
                              bool has_map)
{
    for (int i = 0; i < N_CHIPS; i++) {
        ctx = contexts[i];
        struct array x = array_new(dtype, shape, strides, offset_bytes),
                     y = array_new(dtype, shape, (pl_shape){0}, 0),
                     z = array_new(dtype, shape, strides, offset_bytes);
        fill_bits(&x);
        const uint64_t before = stats().maps_encoded;
        copy_and_check(&x, &y, 0);
        ck_assert_int_eq(stats().maps_encoded != before, has_map && i != SM_80);
        fill_bits(&y);
        copy_and_check(&y, &z, 0);
        array_free(&x), array_free(&y), array_free(&z);
    }
}

/* ---- kernels of these tests ---- */

struct params {
    int32_t n; /* what it is, the body says */
};

enum { FACTS = PL_FACT_ALIGN16 | PL_FACT_I32 | PL_FACT_UNIT_STRIDE };
#define TENSOR(name_, role_)                                                                       \
    {                                                                                              \
        .name = name_, .role = role_, .min_rank = 1, .max_rank = 2, .dtypes = PL_DT_ANY,           \
        .specialised = FACTS                                                                       \
    }
static const pl_param_decl x_y[] = {TENSOR("x", PL_ROLE_IN), TENSOR("y", PL_ROLE_OUT)};
static const pl_param_decl s_x_y[] = {
    {.name = "s", .role = PL_ROLE_SCALAR, .dtypes = PL_DT(I32)},
    TENSOR("x", PL_ROLE_IN),
    TENSOR("y", PL_ROLE_OUT),
};

static bool take_options(const pl_request *request, int32_t config, void *params)
{
    (void)config;
    memcpy(params, request->options, sizeof(struct params));
    return true;
}

#define KERNEL(id, decls, dims)                                                                    \
    static const pl_kernel id = {.struct_size = sizeof(pl_kernel),                                 \
                                 .name = #id,                                                      \
                                 .params = decls,                                                  \
                                 .n_params = sizeof decls / sizeof *decls,                         \
                                 .params_bytes = sizeof(struct params),                            \
                                 .options_bytes = sizeof(struct params),                           \
                                 .n_configs = 1,                                                   \
                                 .configure = take_options,                                        \
                                 .body = id##_body,                                                \
                                 .launch_dims = dims}

static pl_launch_options with(const struct params *p)
{
    return (pl_launch_options){.struct_size = sizeof(pl_launch_options), .params = p};
}

static void put_text(const char *text, size_t n_bytes, void *user) { strncat(user, text, n_bytes); }

/* Up to 64 KiB of text. */
static const char *text_of(const pl_kernel *k, const pl_arg *args, const struct params *p)
{
    static char text[1 << 16];
    const pl_emit_options o = {
        .struct_size = sizeof o, .arch = pl_context_info(ctx).arch_name, .params = p};
    text[0] = '\0';
    const pl_status st = pl_emit(k, args, k->n_params, &o, put_text, text, &err);
    ck_assert_msg(st == PL_OK, "%s", err.text);
    return text;
}

/* ---- tensor copies ---- */

enum { ROWS = 8, COLS = 32 };

static void one_tile_a_block(const pl_request *request, const void *params, pl_launch_dims *out)
{
    const pl_tensor *x = &request->args[1].u.tensor;
    (void)params;
    *out = (pl_launch_dims){{(x->shape[1] + COLS - 1) / COLS, (x->shape[0] + ROWS - 1) / ROWS, 1}};
}

/* y = s * x by tiles; n: bytes of the swizzle. The barrier is declared before the buffers. */
static void staged_body(pl_builder *b, const void *params)
{
    const struct params *p = params;
    const pl_shape tile = PL_SHAPE(ROWS, COLS);
    pl_bar full = pl_barrier(b, 1);
    pl_ref in = pl_smem(b, PL_F32, tile, PL_SWIZZLE(p->n)),
           out = pl_smem(b, PL_F32, tile, PL_SWIZZLE(p->n));
    const pl_offs at = PL_OFF(b, pl_program_id(b, 1), pl_program_id(b, 0));
    pl_copy_gmem_to_smem(b, pl_tile(b, pl_param(b, 1), at, tile), in, full);
    pl_barrier_wait(b, full);
    pl_store(b, out, pl_mul(b, pl_load(b, in), pl_cast(b, pl_scalar(b, 0), PL_F32)));
    pl_commit_smem(b);
    pl_copy_smem_to_gmem(b, out, pl_tile(b, pl_param(b, 2), at, tile));
    pl_wait_smem_to_gmem(b, 0);
}
KERNEL(staged, s_x_y, one_tile_a_block);

/* Cases 38 and 44: maps are aligned behind a scalar, and buffers of tensor copies behind a barrier. The emulated driver faults if not. */
START_TEST(maps_and_buffers_are_aligned_behind_smaller_things)
{
    static const int32_t swizzles[] = {0, 128};
    const struct params p = {swizzles[_i % 2]};
    ctx = contexts[1 + _i / 2];
    struct array x = array_new(PL_F32, PL_SHAPE(20, 72), (pl_shape){0}, 0),
                 y = array_new(PL_F32, PL_SHAPE(20, 72), (pl_shape){0}, 0);
    for (int64_t i = 0; i < 20 * 72; i++)
        memcpy(element(&x, i), &(float){small(i)}, 4);
    upload(&x), upload(&y);
    const pl_arg args[] = {pl_arg_i32(3), pl_arg_tensor(x.t), pl_arg_tensor(y.t)};
    const pl_launch_options o = with(&p);
    const char *text = text_of(&staged, args, &p);
    ck_assert_ptr_nonnull(strstr(text, "cp.async.bulk.tensor"));
    ck_assert_msg(strstr(text, ".param .align 64 .b8") != NULL ||
                      strstr(text, ".param .align 128 .b8") != NULL,
                  "%s", text);
    launch_ok(&staged, args, &o);
    ck_assert_uint_eq(stats().maps_encoded, 2);
    download(&y);
    for (int64_t i = 0; i < 20 * 72; i++)
        ck_assert_float_eq(*(float *)element(&y, i), 3 * small(i));
    check_gaps(&y);
    array_free(&x), array_free(&y);
}
END_TEST

/* Case 40: an absent tensor needs nothing; a NULL one that is required is named. */
START_TEST(absent_is_not_null)
{
    for (int chip = 0; chip < N_CHIPS; chip++) {
        ctx = contexts[chip];
        struct array x = array_new(PL_F32, PL_SHAPE(3, 512), (pl_shape){0}, 0),
                     y = array_new(PL_F32, PL_SHAPE(3, 512), (pl_shape){0}, 0);
        for (int64_t i = 0; i < 3 * 512; i++)
            memcpy(element(&x, i), &(float){i % 2 == 0 ? 3 : -3}, 4);
        upload(&x), upload(&y);
        pl_arg args[4];
        size_t n = 0, w = 0;
        for (; n < pl_kernel_rmsnorm.n_params; n++) {
            const pl_param_decl *d = &pl_kernel_rmsnorm.params[n];
            if (d->is_optional)
                w = n;
            args[n] = d->is_optional              ? pl_arg_none()
                      : d->role == PL_ROLE_SCALAR ? pl_arg_f32(0)
                      : d->role == PL_ROLE_OUT    ? pl_arg_tensor(y.t)
                                                  : pl_arg_tensor(x.t);
        }
        ck_assert_uint_ne(w, 0);
        launch_ok(&pl_kernel_rmsnorm, args, NULL);
        download(&y);
        for (int64_t i = 0; i < 3 * 512; i++)
            ck_assert_float_eq_tol(*(float *)element(&y, i), i % 2 == 0 ? 1 : -1, 0x1p-20f);
        args[w] = pl_arg_tensor(pl_tensor_make(0, PL_F32, PL_SHAPE(512)));
        ck_assert_int_eq(pl_launch(ctx, &pl_kernel_rmsnorm, NULL, args, n, NULL, &err),
                         PL_E_INVALID);
        ck_assert_int_eq(err.code, 6007);
        ck_assert_int_eq(err.argument, (int)w);
        array_free(&x), array_free(&y);
    }
}
END_TEST

/* Case 41: a view that begins at element 2 is served without tensor maps; one that begins on 16 bytes with them. */
START_TEST(views_off_16_bytes_take_no_tensor_map)
{
    const pl_kernel *const kernels[] = {&pl_kernel_copy, &pl_kernel_scale, &pl_kernel_add,
                                        &pl_kernel_transpose};
    const pl_kernel *k = kernels[_i];
    const pl_shape shape = PL_SHAPE(128, 192), turned = PL_SHAPE(192, 128);
    for (int chip = 0; chip < N_CHIPS; chip++)
        for (int off_elems = 0; off_elems <= 2; off_elems += 2) {
            ctx = contexts[chip];
            const size_t off = (size_t)off_elems * 2;
            struct array a = array_new(PL_BF16, shape, (pl_shape){0}, off),
                         b = array_new(PL_BF16, shape, (pl_shape){0}, off),
                         y = array_new(PL_BF16, _i == 3 ? turned : shape, (pl_shape){0}, off);
            fill_small_bf16(&a, 0), fill_small_bf16(&b, 5000), upload(&y);
            pl_arg args[3] = {pl_arg_tensor(a.t), pl_arg_tensor(y.t), pl_arg_f32(2)};
            if (_i == 2)
                args[1] = pl_arg_tensor(b.t), args[2] = pl_arg_tensor(y.t);
            const uint64_t before = stats().maps_encoded;
            launch_ok(k, args, NULL);
            ck_assert_int_eq(stats().maps_encoded != before, chip != SM_80 && off == 0);
            download(&y);
            for (int64_t i = 0; i < 128 * 192; i++) {
                const int64_t to = _i == 3 ? i % 192 * 128 + i / 192 : i;
                const float want = small(i) * (_i == 1 ? 2 : 1) + (_i == 2 ? small(5000 + i) : 0);
                ck_assert_uint_eq(*(uint16_t *)element(&y, to), bf16_of(want));
            }
            check_gaps(&y);
            array_free(&a), array_free(&b), array_free(&y);
        }
}
END_TEST

/* Case 42: rows of 66 elements are stored whole, by whatever way; also where their pitch allows a tensor map. */
START_TEST(rows_of_66_elements_are_stored_whole)
{
    check_arrangement(PL_BF16, PL_SHAPE(64, 66), (pl_shape){0}, 0, false);
    check_arrangement(PL_BF16, PL_SHAPE(64, 66), PL_SHAPE(66, 1), 0, false);
    for (int chip = 0; chip < N_CHIPS; chip++) {
        ctx = contexts[chip];
        struct array x = array_new(PL_BF16, PL_SHAPE(64, 66), PL_SHAPE(72, 1), 0),
                     y = array_new(PL_BF16, PL_SHAPE(64, 66), PL_SHAPE(72, 1), 0);
        fill_bits(&x);
        const uint64_t before = stats().maps_encoded;
        copy_and_check(&x, &y, 0);
        ck_assert_int_eq(stats().maps_encoded != before, chip != SM_80);
        array_free(&x), array_free(&y);
    }
}
END_TEST

/* Case 45: a row stride of 18 bytes fits no tensor map: element copies, to be seen in the text, and the result is right. */
START_TEST(row_stride_of_9_elements_is_served_by_elements)
{
    check_arrangement(PL_BF16, PL_SHAPE(40, 9), PL_SHAPE(9, 1), 0, false);
    const pl_arg args[] = {pl_arg_tensor(pl_tensor_make(4096, PL_BF16, PL_SHAPE(40, 9))),
                           pl_arg_tensor(pl_tensor_make(65536, PL_BF16, PL_SHAPE(40, 9)))};
    ctx = contexts[SM_90];
    ck_assert_ptr_null(strstr(text_of(&pl_kernel_copy, args, NULL), "cp.async.bulk"));
}
END_TEST

/* n: elements of bf16 in a row of the tile */
static void wide_body(pl_builder *b, const void *params)
{
    const struct params *p = params;
    pl_bar full = pl_barrier(b, 1);
    pl_ref in = pl_smem(b, PL_BF16, PL_SHAPE(8, p->n), PL_SWIZZLE(128));
    pl_copy_gmem_to_smem(b, pl_window(b, pl_param(b, 1), PL_OFF(b, 0, 0), PL_SHAPE(8, p->n)), in,
                         full);
    pl_barrier_wait(b, full);
    pl_store(b, pl_window(b, pl_param(b, 2), PL_OFF(b, 0, 0), PL_SHAPE(8, p->n)), pl_load(b, in));
}
KERNEL(wide, s_x_y, one_tile_a_block);

/* Case 43: the row of a swizzled array is exactly as wide as the swizzle; anything else is named before there is a text. */
START_TEST(rows_wider_or_narrower_than_the_swizzle_are_refused)
{
    static const int32_t widths[] = {128, 32, 64};
    const pl_arg args[] = {pl_arg_i32(0),
                           pl_arg_tensor(pl_tensor_make(4096, PL_BF16, PL_SHAPE(8, 256))),
                           pl_arg_tensor(pl_tensor_make(65536, PL_BF16, PL_SHAPE(8, 256)))};
    for (int i = 0; i < 3; i++) {
        const struct params p = {widths[i]};
        const pl_launch_options o = with(&p);
        if (widths[i] == 64) {
            ck_assert_ptr_nonnull(strstr(text_of(&wide, args, &p), "cp.async.bulk.tensor"));
            continue;
        }
        ck_assert_int_eq(pl_launch(ctx, &wide, NULL, args, 3, &o, &err), PL_E_INVALID);
        ck_assert_int_eq(err.code, 3002);
        ck_assert_uint_eq(stats().emitted, 0);
        ck_assert_uint_eq(stats().maps_encoded, 0);
    }
}
END_TEST

enum { TILE = 256, LENGTH = 1000 };

static void four_blocks(const pl_request *request, const void *params, pl_launch_dims *out)
{
    (void)request, (void)params;
    *out = (pl_launch_dims){{(LENGTH + TILE - 1) / TILE, 1, 1}};
}

/* One tile a block, brought by an asynchronous copy. n: 0 sum of all, 1 maximum, 2 sum of logarithms of what is inside */
static void tile_body(pl_builder *b, const void *params)
{
    const struct params *p = params;
    pl_ref x = pl_param(b, 0);
    pl_val i = pl_program_id(b, 0);
    pl_bar full = pl_barrier(b, 1);
    pl_ref in = pl_smem(b, PL_F32, PL_SHAPE(TILE), PL_SWIZZLE_NONE);
    pl_copy_gmem_to_smem(b, pl_tile(b, x, PL_OFF(b, i), PL_SHAPE(TILE)), in, full);
    pl_barrier_wait(b, full);
    const pl_load_opt filled = {.oob = PL_OOB_FILL, .fill = p->n == 1 ? (double)-INFINITY : 1};
    pl_val left = pl_sub(b, LENGTH, pl_mul(b, i, TILE));
    pl_val v = p->n == 0 ? pl_load(b, in) : pl_load_ex(b, pl_clip(b, in, 0, left), &filled);
    if (p->n == 2)
        v = pl_log2(b, v);
    pl_store(b, pl_at(b, pl_param(b, 1), i),
             pl_reduce(b, p->n == 1 ? PL_MAX : PL_ADD, v, 0, PL_SCOPE_CTA));
}
KERNEL(tile, x_y, four_blocks);

/* Case 75: what lies beyond the tensor's edge arrives as zeros, is masked for what is not a sum, and is never stored. */
START_TEST(beyond_the_edge_is_zero_and_masked)
{
    const struct params p = {_i};
    const pl_launch_options o = with(&p);
    for (int chip = 0; chip < N_CHIPS; chip++) {
        ctx = contexts[chip];
        struct array x = array_new(PL_F32, PL_SHAPE(LENGTH), (pl_shape){0}, 0),
                     y = array_new(PL_F32, PL_SHAPE(4), (pl_shape){0}, 0);
        float want[4] = {0};
        for (int64_t i = 0; i < LENGTH; i++) {
            /* the largest is below zero; logarithms are whole numbers */
            const float e = (float)(mixed(i) % 7) + 1, v = _i == 2 ? exp2f(e) : -e;
            memcpy(element(&x, i), &v, 4);
            float *w = &want[i / TILE];
            *w = _i == 0 ? *w + v : _i == 2 ? *w + e : i % TILE == 0 || v > *w ? v : *w;
        }
        upload(&x), upload(&y);
        const pl_arg args[] = {pl_arg_tensor(x.t), pl_arg_tensor(y.t)};
        launch_ok(&tile, args, &o);
        download(&y);
        for (int i = 0; i < 4; i++)
            /* 256 logarithms, each within 2^-22 (PTX ISA, "lg2") */
            ck_assert_float_le(fabsf(*(float *)element(&y, i) - want[i]), _i == 2 ? 0x1p-14f : 0);
        check_gaps(&y);
        array_free(&x), array_free(&y);
    }
}
END_TEST

/* Case 75, in the library: the maximum of values below zero, in every configuration. */
START_TEST(maximum_of_negative_rows_is_negative)
{
    const pl_reduce_options how = {.op = PL_REDUCE_MAX, .axis = -1};
    for (int chip = 0; chip < N_CHIPS; chip++)
        for (int32_t config = 0; config <= pl_kernel_reduce.n_configs; config++) {
            ctx = contexts[chip];
            struct array x = array_new(PL_F32, PL_SHAPE(2, LENGTH), (pl_shape){0}, 0),
                         y = array_new(PL_F32, PL_SHAPE(2, 1), (pl_shape){0}, 0);
            for (int64_t i = 0; i < 2 * LENGTH; i++)
                memcpy(element(&x, i), &(float){-2 - (float)(i % LENGTH)}, 4);
            upload(&x), upload(&y);
            const pl_arg args[] = {pl_arg_tensor(x.t), pl_arg_tensor(y.t)};
            const pl_launch_options o = {.struct_size = sizeof o, .params = &how, .config = config};
            const pl_status st = pl_launch(ctx, &pl_kernel_reduce, NULL, args, 2, &o, &err);
            ck_assert_msg(st == PL_OK || config != 0, "%s", err.text);
            download(&y);
            for (int i = 0; i < 2 && st == PL_OK; i++)
                ck_assert_float_eq(*(float *)element(&y, i), -2);
            array_free(&x), array_free(&y);
        }
}
END_TEST

/* ---- strides ---- */

/* Case 69: column-major, and rows of an odd length with a wide pitch. */
START_TEST(odd_rows_and_wide_pitches_are_copied)
{
    check_arrangement(PL_F32, PL_SHAPE(128, 256), PL_SHAPE(1, 128), 0, false);
    check_arrangement(PL_F32, PL_SHAPE(64, 1953), PL_SHAPE(7920, 1), 0, false);
    if (getenv("PL_LONG") == NULL)
        return;
    check_arrangement(PL_F32, PL_SHAPE(1024, 2048), PL_SHAPE(1, 1024), 0, false);
    check_arrangement(PL_F32, PL_SHAPE(2048, 1953), PL_SHAPE(7920, 1), 0, false);
}
END_TEST

/* Case 70: a stride that is a multiple of 16 says nothing of a base that is not. */
START_TEST(multiples_of_16_apart_from_an_unaligned_base)
{
    check_arrangement(PL_F32, PL_SHAPE(1000), PL_SHAPE(16), 4, false);
    check_arrangement(PL_F32, PL_SHAPE(60, 64), PL_SHAPE(80, 1), 4, false);
    check_arrangement(PL_BF16, PL_SHAPE(60, 64), PL_SHAPE(80, 1), 2, false);
    check_arrangement(PL_I8, PL_SHAPE(60, 64), PL_SHAPE(80, 1), 3, false);
}
END_TEST

/* Case 76: the last tile of a column-major tensor with a padded pitch is masked. */
START_TEST(last_tile_of_a_padded_column_is_masked)
{
    const int64_t n_cols = getenv("PL_LONG") == NULL ? 2 : 64;
    check_arrangement(PL_BF16, PL_SHAPE(50257, n_cols), PL_SHAPE(1, 50304), 0, false);
    for (int chip = 0; chip < N_CHIPS; chip++)
        for (int32_t config = 0; config <= (chip == SM_80 ? 3 : 5); config++) {
            ctx = contexts[chip];
            struct array x = array_new(PL_BF16, PL_SHAPE(3, 5025), PL_SHAPE(5032, 1), 0),
                         y = array_new(PL_BF16, PL_SHAPE(3, 5025), PL_SHAPE(5032, 1), 0);
            fill_bits(&x);
            copy_and_check(&x, &y, config);
            array_free(&x), array_free(&y);
        }
}
END_TEST

/* ---- large tensors ---- */

/* Rows of 64 bytes, `apart` elements from each other, through the copy kernel and back to another such pair of rows. */
static void copy_far_rows(int64_t apart)
{
    enum { WIDTH = 64 };
    unsigned char rows[2][WIDTH], got[2][WIDTH];
    uint64_t far[2], near;
    const size_t n_bytes = (size_t)apart + WIDTH;
    for (int i = 0; i < 2; i++)
        ck_assert_msg(pl_alloc(ctx, n_bytes, &far[i], &err) == PL_OK, "%s", err.text);
    ck_assert_int_eq(pl_alloc(ctx, sizeof rows, &near, &err), PL_OK);
    for (int i = 0; i < 2 * WIDTH; i++)
        rows[i / WIDTH][i % WIDTH] = (unsigned char)mixed(i + apart);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(
            pl_upload(ctx, far[0] + (uint64_t)(i * apart), rows[i], sizeof rows[i], &err), PL_OK);
    const pl_shape shape = PL_SHAPE(2, WIDTH), strides = PL_SHAPE(apart, 1);
    const pl_arg out[] = {pl_arg_tensor(pl_tensor_strided(far[0], PL_U8, shape, strides)),
                          pl_arg_tensor(pl_tensor_make(near, PL_U8, shape))},
                 back[] = {out[1], pl_arg_tensor(pl_tensor_strided(far[1], PL_U8, shape, strides))};
    launch_ok(&pl_kernel_copy, out, NULL);
    launch_ok(&pl_kernel_copy, back, NULL);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(
            pl_download(ctx, got[i], far[1] + (uint64_t)(i * apart), sizeof got[i], &err), PL_OK);
    ck_assert_int_eq(memcmp(rows, got, sizeof rows), 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pl_free(ctx, far[i], &err), PL_OK);
    ck_assert_int_eq(pl_free(ctx, near, &err), PL_OK);
}

/* Cases 67 and 68: offsets below, at and above 2^31 and 2^32 elements. */
START_TEST(offsets_of_more_than_31_bits_do_not_wrap)
{
    const int64_t two31 = INT64_C(1) << 31;
    const int64_t apart[] = {two31 - 128,   two31 - 64,     two31 - 1,          two31,
                             two31 + 5,     two31 + 64 * 3, 2 * two31 - 64 + 1, 2 * two31 + 3,
                             2 * two31 + 16};
    for (int chip = 0; chip < N_CHIPS; chip += 1) {
        ctx = contexts[chip];
        for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
            copy_far_rows(apart[i]);
    }
}
END_TEST

/* Case 67, as it stands: PL_LONG, for it moves 2 GiB. */
START_TEST(more_than_31_bits_of_elements_are_copied)
{
    const int64_t n = (INT64_C(1) << 31) + 5;
    uint64_t x, y;
    char got[8];
    ck_assert_int_eq(pl_alloc(ctx, (size_t)n, &x, &err), PL_OK);
    ck_assert_int_eq(pl_alloc(ctx, (size_t)n, &y, &err), PL_OK);
    ck_assert_int_eq(pl_upload(ctx, x + (uint64_t)n - 8, "the last", 8, &err), PL_OK);
    const pl_arg args[] = {pl_arg_tensor(pl_tensor_make(x, PL_U8, PL_SHAPE(n))),
                           pl_arg_tensor(pl_tensor_make(y, PL_U8, PL_SHAPE(n)))};
    launch_ok(&pl_kernel_copy, args, NULL);
    ck_assert_int_eq(pl_download(ctx, got, y + (uint64_t)n - 8, 8, &err), PL_OK);
    ck_assert_int_eq(memcmp(got, "the last", 8), 0);
    ck_assert_int_eq(pl_free(ctx, x, &err), PL_OK);
    ck_assert_int_eq(pl_free(ctx, y, &err), PL_OK);
}
END_TEST

/* ---- shared memory ---- */

static void one_block(const pl_request *request, const void *params, pl_launch_dims *out)
{
    (void)request, (void)params;
    *out = (pl_launch_dims){{1, 1, 1}};
}

/* n: bytes of shared memory; the last 128 of them are written, read and stored. */
static void smem_body(pl_builder *b, const void *params)
{
    const struct params *p = params;
    pl_ref s = pl_smem(b, PL_U8, PL_SHAPE(p->n), PL_SWIZZLE_NONE);
    pl_ref end = pl_window(b, s, PL_OFF(b, p->n - 128), PL_SHAPE(128));
    pl_store(b, end, pl_load(b, pl_window(b, pl_param(b, 0), PL_OFF(b, 0), PL_SHAPE(128))));
    pl_bar_sync(b, PL_SCOPE_CTA);
    pl_store(b, pl_window(b, pl_param(b, 1), PL_OFF(b, 0), PL_SHAPE(128)), pl_load(b, end));
}
KERNEL(smem, x_y, one_block);

/* Case 59: more than 48 KiB is asked for by itself; one byte more than the chip has is an error before any launch. */
START_TEST(shared_memory_up_to_the_chips_limit_and_no_further)
{
    ctx = contexts[_i];
    const int32_t most = (int32_t)pl_context_info(ctx).device.smem_bytes;
    const int32_t sizes[] = {49152, 49153, most, most + 1};
    ck_assert_int_gt(most, 49153);
    struct array x = array_new(PL_U8, PL_SHAPE(128), (pl_shape){0}, 0),
                 y = array_new(PL_U8, PL_SHAPE(128), (pl_shape){0}, 0);
    fill_bits(&x);
    const pl_arg args[] = {pl_arg_tensor(x.t), pl_arg_tensor(y.t)};
    for (int i = 0; i < 4; i++) {
        const struct params p = {sizes[i]};
        const pl_launch_options o = with(&p);
        if (i == 3) {
            const pl_stats before = stats();
            ck_assert_int_eq(pl_launch(ctx, &smem, NULL, args, 2, &o, &err), PL_E_INVALID);
            ck_assert_int_ne(err.code, 0);
            ck_assert_uint_eq(stats().launches, before.launches);
            ck_assert_uint_eq(stats().emitted, before.emitted);
            break;
        }
        upload(&y);
        launch_ok(&smem, args, &o);
        download(&y);
        for (int64_t e = 0; e < 128; e++)
            ck_assert_uint_eq(*(unsigned char *)element(&y, e), mixed(e) & 0xff);
    }
    array_free(&x), array_free(&y);
}
END_TEST

/* ---- dtypes ---- */

/* y = x in y's dtype, n elements */
static void convert_body(pl_builder *b, const void *params)
{
    const struct params *p = params;
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    pl_val v = pl_load(b, pl_window(b, x, PL_OFF(b, 0), PL_SHAPE(p->n)));
    pl_store(b, pl_window(b, y, PL_OFF(b, 0), PL_SHAPE(p->n)), pl_cast(b, v, pl_dtype_of(b, y)));
}
KERNEL(convert, x_y, one_block);

static void convert_all(struct array *x, struct array *y)
{
    const struct params p = {(int32_t)x->t.shape[0]};
    const pl_launch_options o = with(&p);
    const pl_arg args[] = {pl_arg_tensor(x->t), pl_arg_tensor(y->t)};
    upload(x), upload(y);
    launch_ok(&convert, args, &o);
    download(y);
}

/* Case 64: what is too large for e4m3 becomes its largest value, infinities too; NaN stays NaN. */
START_TEST(casts_to_e4m3_saturate)
{
    static const float from[] = {448,      464,       465, 1000, -1000,
                                 INFINITY, -INFINITY, NAN, 449,  0x1p-10f};
    static const uint8_t want[] = {0x7e, 0x7e, 0x7e, 0x7e, 0xfe, 0x7e, 0xfe, 0x7f, 0x7e, 0x00};
    for (int chip = SM_90; chip < N_CHIPS; chip++) {
        ctx = contexts[chip];
        struct array x = array_new(PL_F32, PL_SHAPE(128), (pl_shape){0}, 0),
                     y = array_new(PL_E4M3, PL_SHAPE(128), (pl_shape){0}, 0);
        for (int64_t i = 0; i < 128; i++)
            memcpy(element(&x, i), &from[i % 10], 4);
        convert_all(&x, &y);
        for (int64_t i = 0; i < 128; i++) /* a NaN has either sign */
            ck_assert_uint_eq(*(uint8_t *)element(&y, i) & (i % 10 == 7 ? 0x7f : 0xff),
                              want[i % 10]);
        check_gaps(&y);
        array_free(&x), array_free(&y);
    }
}
END_TEST

/* By the definition of the formats (OCP 8-bit floating point, table 1). */
static float fp8_value(pl_dtype t, int code)
{
    const int n_man = t == PL_E4M3 ? 3 : 2, bias = t == PL_E4M3 ? 7 : 15;
    const int e = (code & 0x7f) >> n_man, m = code & ((1 << n_man) - 1);
    const float sign = (code & 0x80) != 0 ? -1 : 1;
    if (t == PL_E4M3 && (code & 0x7f) == 0x7f)
        return NAN;
    if (t == PL_E5M2 && e == 31)
        return m == 0 ? sign * INFINITY : NAN;
    return sign * (e == 0 ? ldexpf((float)m, 1 - bias - n_man)
                          : ldexpf((float)(m + (1 << n_man)), e - bias - n_man));
}

/* Case 65: all 256 codes, to f32 and to bf16. */
START_TEST(every_fp8_code_has_its_value)
{
    static const pl_dtype from[] = {PL_E4M3, PL_E5M2}, to[] = {PL_F32, PL_BF16};
    const pl_dtype f = from[_i % 2], t = to[_i / 2];
    for (int chip = SM_90; chip < N_CHIPS; chip++) {
        ctx = contexts[chip];
        struct array x = array_new(f, PL_SHAPE(256), (pl_shape){0}, 0),
                     y = array_new(t, PL_SHAPE(256), (pl_shape){0}, 0);
        for (int i = 0; i < 256; i++)
            *(uint8_t *)element(&x, i) = (uint8_t)i;
        convert_all(&x, &y);
        for (int i = 0; i < 256; i++) {
            uint32_t bits = 0, want;
            memcpy(t == PL_F32 ? (char *)&bits : (char *)&bits + 2, element(&y, i),
                   t == PL_F32 ? 4 : 2);
            const float v = fp8_value(f, i);
            memcpy(&want, &v, 4);
            if (isnan(v))
                ck_assert_uint_gt(bits & 0x7fffffff, 0x7f800000);
            else
                ck_assert_msg(bits == want, "%s %02x: %08x, not %08x", pl_dtype_name(f), i, bits,
                              want);
        }
        array_free(&x), array_free(&y);
    }
}
END_TEST

/* Case 66: the smallest bf16 values and the sign of zero survive everything that does not change them. */
START_TEST(subnormal_values_and_signed_zeros_survive)
{
    static const uint16_t values[] = {0x0001, 0x8001, 0x8000, 0x007f,
                                      0x807f, 0x0000, 0x0080, 0x0040};
    const pl_kernel *const kernels[] = {&pl_kernel_copy, &pl_kernel_scale, &pl_kernel_add,
                                        &pl_kernel_cast, &pl_kernel_transpose};
    const pl_kernel *k = kernels[_i];
    for (int chip = 0; chip < N_CHIPS; chip++) {
        ctx = contexts[chip];
        const pl_dtype to = _i == 3 ? PL_F32 : PL_BF16;
        struct array x = array_new(PL_BF16, PL_SHAPE(16, 64), (pl_shape){0}, 0),
                     z = array_new(PL_BF16, PL_SHAPE(16, 64), (pl_shape){0}, 0),
                     y = array_new(to, _i == 4 ? PL_SHAPE(64, 16) : PL_SHAPE(16, 64), (pl_shape){0},
                                   0);
        for (int64_t i = 0; i < 16 * 64; i++) {
            memcpy(element(&x, i), &values[i % 8], 2);
            memcpy(element(&z, i), &(uint16_t){0x8000}, 2); /* x + -0 is x */
        }
        upload(&x), upload(&y), upload(&z);
        pl_arg args[3] = {pl_arg_tensor(x.t), pl_arg_tensor(y.t), pl_arg_f32(1)};
        if (_i == 2)
            args[1] = pl_arg_tensor(z.t), args[2] = pl_arg_tensor(y.t);
        ck_assert_ptr_null(strstr(text_of(k, args, NULL), ".ftz"));
        launch_ok(k, args, NULL);
        download(&y);
        for (int64_t i = 0; i < 16 * 64; i++) {
            uint32_t bits = 0;
            memcpy((char *)&bits + (to == PL_F32 ? 0 : 2),
                   element(&y, _i == 4 ? i % 64 * 16 + i / 64 : i), to == PL_F32 ? 4 : 2);
            ck_assert_uint_eq(bits, (uint32_t)values[i % 8] << 16);
        }
        array_free(&x), array_free(&y), array_free(&z);
    }
}
END_TEST

/* ---- refusals ---- */

/* The extents of an output are those of the inputs: argument, dimension, seen and wanted. */
START_TEST(output_of_other_extents_is_named)
{
    const pl_tensor a = pl_tensor_make(0x100000, PL_F32, PL_SHAPE(8, 16)),
                    b = pl_tensor_make(0x200000, PL_F32, PL_SHAPE(8, 16)),
                    y = pl_tensor_make(0x300000, PL_F32, PL_SHAPE(8, 17));
    const pl_arg args[] = {pl_arg_tensor(a), pl_arg_tensor(b), pl_arg_tensor(y)};
    ck_assert_int_eq(pl_launch(ctx, &pl_kernel_add, NULL, args, 3, NULL, &err), PL_E_INVALID);
    ck_assert_int_eq(err.code, 6011);
    ck_assert_int_eq(err.argument, 2);
    ck_assert_int_eq(err.dimension, 1);
    ck_assert(err.has_values);
    ck_assert_int_eq(err.actual, 17);
    ck_assert_int_eq(err.expected, 16);
    ck_assert_uint_eq(stats().emitted, 0);
}
END_TEST

/* Every rule that a launch breaks is reported, with its values and the caller's place, and no text is written. */
START_TEST(all_broken_rules_of_a_launch_are_reported)
{
    static const struct {
        int32_t code, argument, dimension;
        int64_t actual, expected;
        bool has_values;
    } want[] = {
        {6008, 0, -1, 2, 0, true},                /* not on an element */
        {6006, 1, 0, -3, INT64_C(1) << 40, true}, /* a negative extent */
        {6004, 2, -1, 6, 1, true},                /* six axes */
    };
    pl_report *report;
    pl_report_item item;
    ck_assert_int_eq(pl_report_create(&report), PL_OK);
    const pl_launch_options o = {
        .struct_size = sizeof o, .report = report, .file = "program.c", .line = 42};
    const pl_arg args[] = {
        pl_arg_tensor(pl_tensor_make(0x100002, PL_F32, PL_SHAPE(8, 16))),
        pl_arg_tensor(pl_tensor_make(0x200000, PL_F32, PL_SHAPE(-3, 16))),
        pl_arg_tensor(pl_tensor_make(0x300000, PL_F32, PL_SHAPE(1, 1, 1, 1, 8, 16)))};
    ck_assert_int_eq(pl_launch(ctx, &pl_kernel_add, NULL, args, 3, &o, &err), PL_E_INVALID);
    ck_assert_uint_eq(pl_report_n_errors(report), 3);
    for (size_t i = 0; i < 3; i++) {
        ck_assert(pl_report_get(report, i, &item));
        ck_assert_int_eq(item.code, want[i].code);
        ck_assert_int_eq(item.argument, want[i].argument);
        ck_assert_int_eq(item.dimension, want[i].dimension);
        ck_assert_int_eq(item.has_values, want[i].has_values);
        ck_assert_int_eq(item.actual, want[i].actual);
        ck_assert_int_eq(item.expected, want[i].expected);
        ck_assert_str_eq(item.file, "program.c");
        ck_assert_int_eq(item.line, 42);
    }
    ck_assert_int_eq(err.code, 6008);
    ck_assert_uint_eq(stats().emitted, 0);
    ck_assert_uint_eq(stats().rejected, 1);
    pl_report_destroy(report);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("cases");
    TCase *t = tcase_create("cases");
    tcase_add_checked_fixture(t, open_contexts, close_contexts);
    tcase_set_timeout(t, getenv("PL_LONG") == NULL ? 120 : 3000);
    tcase_add_loop_test(t, maps_and_buffers_are_aligned_behind_smaller_things, 0, 6);
    tcase_add_test(t, absent_is_not_null);
    tcase_add_loop_test(t, views_off_16_bytes_take_no_tensor_map, 0, 4);
    tcase_add_test(t, rows_of_66_elements_are_stored_whole);
    tcase_add_test(t, row_stride_of_9_elements_is_served_by_elements);
    tcase_add_test(t, rows_wider_or_narrower_than_the_swizzle_are_refused);
    tcase_add_loop_test(t, beyond_the_edge_is_zero_and_masked, 0, 3);
    tcase_add_test(t, maximum_of_negative_rows_is_negative);
    tcase_add_test(t, odd_rows_and_wide_pitches_are_copied);
    tcase_add_test(t, multiples_of_16_apart_from_an_unaligned_base);
    tcase_add_test(t, last_tile_of_a_padded_column_is_masked);
    tcase_add_test(t, offsets_of_more_than_31_bits_do_not_wrap);
    if (getenv("PL_LONG") != NULL)
        tcase_add_test(t, more_than_31_bits_of_elements_are_copied);
    tcase_add_loop_test(t, shared_memory_up_to_the_chips_limit_and_no_further, 0, N_CHIPS);
    tcase_add_test(t, casts_to_e4m3_saturate);
    tcase_add_loop_test(t, every_fp8_code_has_its_value, 0, 4);
    tcase_add_loop_test(t, subnormal_values_and_signed_zeros_survive, 0, 5);
    tcase_add_test(t, output_of_other_extents_is_named);
    tcase_add_test(t, all_broken_rules_of_a_launch_are_reported);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
