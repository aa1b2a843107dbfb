/* The tables of the trace, and the layouts against tables written from the manual, element by element. */
#include "src/ir/ir.h"
#include "src/ir/layout.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* ---- tables ---- */

START_TEST(op_rows_are_whole)
{
    const struct pl_op_info *x = &pl_op_infos[_i];
    ck_assert(x->name != NULL && x->name[0] != '\0');
    ck_assert(x->min_args >= 0 && x->min_args <= x->max_args && x->max_args <= PL_OP_MAX_ARGS);
    for (int i = 1; i < _i; i++)
        ck_assert_str_ne(pl_op_infos[i].name, x->name);
    for (int i = 1; i < PL_OP1_COUNT; i++)
        ck_assert_str_ne(pl_op1_name((pl_op1)i), x->name);
    for (int i = 1; i < PL_OP2_COUNT; i++)
        ck_assert_str_ne(pl_op2_name((pl_op2)i), x->name);
    for (int i = 1; i < PL_OP_MAX_REFS; i++) /* no gaps in the refs */
        ck_assert(x->spaces[i] == 0 || x->spaces[i - 1] != 0);
}
END_TEST

START_TEST(elementwise_rows_are_whole)
{
    for (int i = 1; i < PL_OP1_COUNT; i++)
        ck_assert_msg(strspn(pl_op1_kinds((pl_op1)i), "FIB") == strlen(pl_op1_kinds((pl_op1)i)),
                      "%s", pl_op1_name((pl_op1)i));
    for (int i = 1; i < PL_OP2_COUNT; i++) {
        pl_op2 op = (pl_op2)i;
        ck_assert_uint_gt(strlen(pl_op2_kinds(op)), 0);
        ck_assert(!(pl_op2_is_compare(op) && pl_op2_is_reduction(op)));
    }
    ck_assert_str_eq(pl_op1_name((pl_op1)99), "?");
    ck_assert_str_eq(pl_op2_kinds((pl_op2)99), "");
}
END_TEST

START_TEST(targets_are_those_served)
{
    static const int32_t archs[] = {80, 86, 89, 90, 100, 103, 120, 121};
    ck_assert_uint_eq(pl_n_targets, 8);
    for (size_t i = 0; i < 8; i++) {
        const struct pl_target *t = pl_target_find(archs[i]);
        ck_assert_ptr_nonnull(t);
        bool is_blackwell = archs[i] == 100 || archs[i] == 103, has_tma = archs[i] >= 90;
        ck_assert_int_eq((t->features & PL_F_TMA) != 0, has_tma);
        ck_assert_int_eq((t->features & PL_F_WGMMA) != 0, archs[i] == 90);
        ck_assert_int_eq((t->features & PL_F_TCGEN05) != 0, is_blackwell);
        ck_assert_int_eq(t->n_tmem_columns, is_blackwell ? 512 : 0);
        ck_assert_int_eq(t->max_cluster, has_tma ? 8 : 1);
    }
    ck_assert_ptr_null(pl_target_find(75));
    ck_assert_ptr_null(pl_target_find(0));
}
END_TEST

START_TEST(dtypes_and_statuses_have_names)
{
    for (int t = 1; t < PL_DTYPE_COUNT; t++) {
        ck_assert_int_eq(pl_dtype_find(pl_dtype_name((pl_dtype)t)), t);
        ck_assert_int_gt(pl_dtype_bits((pl_dtype)t), 0);
        ck_assert_int_ne(pl_dtype_kind_of((pl_dtype)t), PL_KIND_NONE);
    }
    ck_assert_int_eq(pl_dtype_find("f31"), PL_DTYPE_NONE);
    ck_assert_int_eq(pl_dtype_find(NULL), PL_DTYPE_NONE);
    ck_assert_int_eq(pl_dtype_bits((pl_dtype)1000), 0);
    for (int s = 0; s < PL_STATUS_COUNT; s++)
        ck_assert_ptr_nonnull(strstr(pl_status_name((pl_status)s), "PL_"));
    ck_assert_str_eq(pl_status_name(PL_E_VARIANT), "PL_E_VARIANT");
    ck_assert_str_eq(pl_status_name((pl_status)-5), "PL_E_?");
}
END_TEST

START_TEST(tensors_are_dense_by_default)
{
    pl_tensor t = pl_tensor_make(16, PL_F16, PL_SHAPE(2, 3, 5));
    ck_assert(t.rank == 3 && t.strides[0] == 15 && t.strides[1] == 5 && t.strides[2] == 1 &&
              t.strides[3] == 0);
    ck_assert_int_eq(pl_tensor_n_elems(&t), 30);
    t = pl_tensor_make(0, PL_F16, PL_SHAPE(4, 0, 5));
    ck_assert_int_eq(pl_tensor_n_elems(&t), 0);
    ck_assert_int_eq(t.strides[0], 5); /* as if the empty axis had one element: no stride is 0 */
    t = pl_tensor_make(0, PL_F16, PL_SHAPE_SCALAR);
    ck_assert_int_eq(pl_tensor_n_elems(&t), 1);
    t = pl_tensor_strided(0, PL_F16, PL_SHAPE(4, 5), PL_SHAPE(1, 4));
    ck_assert(t.strides[0] == 1 && t.strides[1] == 4);
}
END_TEST

/* ---- layouts ---- */

/* Where element (r, c) lies, written from the manual's figures: warp, lane, and the position in that lane's list. */
typedef void holder(int r, int c, int cols, int bits, int *w, int *l, int *e);

static void of_wgmma(int r, int c, int cols, int bits, int *w, int *l, int *e)
{
    (void)bits;
    *w = r % 64 / 16;
    *l = r % 8 * 4 + c % 8 / 2;
    *e = (r / 64 * (cols / 8) + c / 8) * 4 + r % 16 / 8 * 2 + c % 2;
}
static void of_8bit(int r, int c, int cols, int bits, int *w, int *l, int *e)
{
    (void)bits;
    *w = r % 64 / 16;
    *l = r % 8 * 4 + c % 16 / 4;
    *e = (r / 64 * (cols / 16) + c / 16) * 8 + r % 16 / 8 * 4 + c % 4;
}
static void of_upcast_2x(int r, int c, int cols, int bits, int *w, int *l, int *e)
{
    (void)bits;
    *w = r % 64 / 16;
    *l = 4 * (r % 8) + 2 * (c % 8 / 4) + c % 16 / 8;
    *e = (r / 64 * (cols / 16) + c / 16) * 8 + r % 16 / 8 * 4 + c % 4;
}
static void of_upcast_4x(int r, int c, int cols, int bits, int *w, int *l, int *e)
{
    (void)bits;
    *w = r % 64 / 16;
    *l = 4 * (r % 8) + c % 32 / 8;
    *e = (r / 64 * (cols / 32) + c / 32) * 16 + r % 16 / 8 * 8 + c % 8;
}
static void of_tcgen05(int r, int c, int cols, int bits, int *w, int *l, int *e)
{
    (void)bits;
    *w = r % 128 / 32;
    *l = 4 * (r % 8) + c % 8 / 2;
    *e = (r / 128 * (cols / 8) + c / 8) * 8 + r % 32 / 8 * 2 + c % 2;
}
static void of_native(int r, int c, int cols, int bits, int *w, int *l, int *e)
{
    (void)bits;
    *w = r % 128 / 32;
    *l = r % 32;
    *e = r / 128 * cols + c;
}
static void of_mma_a(int r, int c, int cols, int bits, int *w, int *l, int *e)
{
    int k = 256 / bits, slots = 32 / bits; /* K of an instruction; elements of a register */
    int half = c % k >= k / 2, in_half = c % (k / 2);
    *w = r % 64 / 16;
    *l = r % 8 * 4 + in_half / slots;
    *e = (r / 64 * (cols / k) + c / k) * (4 * slots) + (2 * half + r % 16 / 8) * slots +
         in_half % slots;
}
static void of_mma_b(int r, int c, int cols, int bits, int *w, int *l, int *e)
{
    int k = 256 / bits, slots = 32 / bits;
    int half = r % k >= k / 2, in_half = r % (k / 2);
    *w = 0;
    *l = c % 8 * 4 + in_half / slots;
    *e = (r / k * (cols / 8) + c / 8) * (2 * slots) + half * slots + in_half % slots;
}

static const struct {
    pl_layout_kind kind;
    holder *where;
    int rows, cols, bits, copies;
} fragments[] = {
    {PL_LAYOUT_WGMMA, of_wgmma, 128, 24, 32, 1},
    {PL_LAYOUT_WGMMA_8BIT, of_8bit, 64, 48, 8, 1},
    {PL_LAYOUT_WGMMA_UPCAST_2X, of_upcast_2x, 128, 32, 8, 1},
    {PL_LAYOUT_WGMMA_UPCAST_4X, of_upcast_4x, 64, 64, 8, 1},
    {PL_LAYOUT_TCGEN05, of_tcgen05, 256, 16, 32, 1},
    {PL_LAYOUT_TMEM_NATIVE, of_native, 128, 5, 32, 1},
    {PL_LAYOUT_MMA_ACC, of_wgmma, 64, 16, 32, 1},
    {PL_LAYOUT_MMA_A, of_mma_a, 128, 32, 16, 1},
    {PL_LAYOUT_MMA_A, of_mma_a, 64, 64, 8, 1},
    {PL_LAYOUT_MMA_A, of_mma_a, 64, 16, 32, 1},
    {PL_LAYOUT_MMA_B, of_mma_b, 32, 24, 16, 4},
    {PL_LAYOUT_MMA_B, of_mma_b, 64, 8, 8, 4},
    {PL_LAYOUT_MMA_B, of_mma_b, 16, 16, 32, 4},
};

START_TEST(fragments_are_the_manuals)
{
    const int rows = fragments[_i].rows, cols = fragments[_i].cols, bits = fragments[_i].bits;
    const struct pl_layout_value v = {
        .layout = pl_layout_of(fragments[_i].kind), .shape = PL_SHAPE(rows, cols), .bits = bits};
    ck_assert(pl_layout_fits(&v));
    const int64_t n = pl_layout_n_elems(&v);
    ck_assert_int_eq(n * PL_LAYOUT_THREADS, (int64_t)rows * cols * fragments[_i].copies);
    int64_t at[PL_MAX_RANK];
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < cols; c++) {
            int w, l, e;
            fragments[_i].where(r, c, cols, bits, &w, &l, &e);
            ck_assert(pl_layout_forward(&v, 32 * w + l, e, at));
            ck_assert_msg(at[0] == r && at[1] == c,
                          "(%d,%d): warp %d lane %d element %d holds (%d,%d)", r, c, w, l, e,
                          (int)at[0], (int)at[1]);
        }
    for (int i = 0; i < 40; i++) {
        const int64_t index[PL_MAX_RANK] = {rand() % rows, rand() % cols};
        int32_t thread;
        int64_t elem;
        pl_layout_backward(&v, index, &thread, &elem);
        ck_assert(pl_layout_forward(&v, thread, elem, at) && at[0] == index[0] &&
                  at[1] == index[1]);
    }
}
END_TEST

START_TEST(strided_holds_every_element_once)
{
    static const struct {
        pl_shape shape;
        int vec;
    } cases[] = {
        {{1, {1024}}, 4}, {{2, {16, 64}}, 8}, {{1, {300}}, 1}, {{3, {3, 5, 8}}, 2}, {{1, {1}}, 1}};
    const struct pl_layout_value v = {
        .layout = pl_layout_strided(cases[_i].vec), .shape = cases[_i].shape, .bits = 16};
    int64_t total = pl_shape_n_elems(&v.shape), at[PL_MAX_RANK];
    ck_assert(pl_layout_fits(&v));
    unsigned char *seen = calloc((size_t)total, 1);
    for (int32_t t = 0; t < PL_LAYOUT_THREADS; t++)
        for (int64_t e = 0; e < pl_layout_n_elems(&v); e++) {
            if (!pl_layout_forward(&v, t, e, at))
                continue;
            int64_t flat = 0, elem;
            int32_t thread;
            for (int i = 0; i < v.shape.rank; i++)
                flat = flat * v.shape.d[i] + at[i];
            seen[flat]++;
            ck_assert_int_eq(flat / v.layout.vec % PL_LAYOUT_THREADS, t);
            pl_layout_backward(&v, at, &thread, &elem);
            ck_assert(thread == t && elem == e);
        }
    for (int64_t i = 0; i < total; i++)
        ck_assert_int_eq(seen[i], 1);
    free(seen);
}
END_TEST

/* The row, or column, of what each thread holds, by the tables above. */
static void find_held(int fragment, int left, int held[PL_LAYOUT_THREADS][256])
{
    const int rows = fragments[fragment].rows, cols = fragments[fragment].cols;
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < cols; c++) {
            int w, l, e;
            fragments[fragment].where(r, c, cols, fragments[fragment].bits, &w, &l, &e);
            for (int copy = 0; copy < fragments[fragment].copies; copy++)
                held[32 * (w + copy) + l][e] = left == 0 ? r : c;
        }
}

/* Without an axis each thread holds what it held along the other one, once, in the same order. */
START_TEST(reduced_fragments_are_what_is_left)
{
    const int fragment = _i / 2, axis = _i % 2, rows = fragments[fragment].rows,
              cols = fragments[fragment].cols;
    const struct pl_layout_value v = {
        .layout = pl_layout_reduce(pl_layout_of(fragments[fragment].kind), axis),
        .shape = PL_SHAPE(axis == 1 ? rows : cols),
        .bits = fragments[fragment].bits};
    const int n = rows * cols * fragments[fragment].copies / PL_LAYOUT_THREADS;
    static int held[PL_LAYOUT_THREADS][256];
    int64_t at[PL_MAX_RANK];
    ck_assert_int_le(n, 256);
    ck_assert(pl_layout_fits(&v));
    find_held(fragment, 1 - axis, held);
    for (int32_t t = 0; t < PL_LAYOUT_THREADS; t++) {
        int64_t n_left = 0;
        for (int e = 0; e < n; e++) {
            int first = 0;
            while (held[t][first] != held[t][e])
                first++;
            if (first != e)
                continue;
            ck_assert(pl_layout_forward(&v, t, n_left, at));
            ck_assert_msg(at[0] == held[t][e], "fragment %d axis %d thread %d: %d holds %d, not %d",
                          fragment, axis, (int)t, (int)n_left, (int)at[0], held[t][e]);
            n_left++;
        }
        ck_assert_int_eq(pl_layout_n_elems(&v), n_left);
    }
}
END_TEST

/* Reducing columns of a wgmma fragment leaves the rows: each thread holds its two of every 64, four lanes hold the same. */
START_TEST(reduced_fragments_keep_one_of_each)
{
    const struct pl_layout_value v = {.layout = pl_layout_reduce(pl_layout_of(PL_LAYOUT_WGMMA), 1),
                                      .shape = PL_SHAPE(128),
                                      .bits = 32};
    int64_t at[PL_MAX_RANK];
    ck_assert(pl_layout_fits(&v));
    ck_assert_int_eq(pl_layout_n_elems(&v), 4);
    for (int32_t t = 0; t < PL_LAYOUT_THREADS; t++)
        for (int64_t e = 0; e < 4; e++) {
            ck_assert(pl_layout_forward(&v, t, e, at));
            ck_assert_int_eq(at[0], e / 2 * 64 + t / 32 * 16 + t % 32 / 4 + e % 2 * 8);
        }
    const struct pl_layout_value rows = {.layout =
                                             pl_layout_reduce(pl_layout_of(PL_LAYOUT_WGMMA), 0),
                                         .shape = PL_SHAPE(16),
                                         .bits = 32};
    ck_assert_int_eq(pl_layout_n_elems(&rows), 4);
    for (int64_t e = 0; e < 4; e++) {
        ck_assert(pl_layout_forward(&rows, 37, e, at)); /* warp 1, lane 5: columns 2, 3 of each 8 */
        ck_assert_int_eq(at[0], e / 2 * 8 + 2 + e % 2);
    }
}
END_TEST

START_TEST(layouts_refuse_what_they_cannot_hold)
{
    struct pl_layout_value v = {
        .layout = pl_layout_of(PL_LAYOUT_WGMMA), .shape = PL_SHAPE(64, 12), .bits = 32};
    ck_assert(!pl_layout_fits(&v));
    v.shape = PL_SHAPE(64, 8, 1);
    ck_assert(!pl_layout_fits(&v));
    v.layout = pl_layout_strided(3);
    ck_assert(!pl_layout_fits(&v));
    v.layout = pl_layout_auto();
    ck_assert(!pl_layout_fits(&v));
    v.layout = pl_layout_splat();
    ck_assert(pl_layout_fits(&v) && pl_layout_n_elems(&v) == 1);
    v = (struct pl_layout_value){
        .layout = pl_layout_of(PL_LAYOUT_MMA_A), .shape = PL_SHAPE(64, 16), .bits = 64};
    ck_assert(!pl_layout_fits(&v));
    pl_shape s = PL_SHAPE(1024);
    ck_assert_int_eq(pl_layout_resolve(pl_layout_strided(0), &s, 16).vec,
                     8); /* 16 would leave threads idle */
    ck_assert_int_eq(pl_layout_resolve(pl_layout_strided(0), &s, 4).vec, 4);
    s = PL_SHAPE(300);
    ck_assert_int_eq(pl_layout_resolve(pl_layout_strided(0), &s, 16).vec, 2);
    ck_assert_int_eq(pl_layout_resolve(pl_layout_strided(4), &s, 16).vec, 4);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("ir");
    TCase *t = tcase_create("tables");
    tcase_add_loop_test(t, op_rows_are_whole, 1, PL_OP_COUNT);
    tcase_add_test(t, elementwise_rows_are_whole);
    tcase_add_test(t, targets_are_those_served);
    tcase_add_test(t, dtypes_and_statuses_have_names);
    tcase_add_test(t, tensors_are_dense_by_default);
    suite_add_tcase(s, t);
    t = tcase_create("layouts");
    tcase_add_loop_test(t, fragments_are_the_manuals, 0,
                        (int)(sizeof fragments / sizeof fragments[0]));
    tcase_add_loop_test(t, strided_holds_every_element_once, 0, 5);
    tcase_add_test(t, reduced_fragments_keep_one_of_each);
    tcase_add_loop_test(t, reduced_fragments_are_what_is_left, 0,
                        2 * (int)(sizeof fragments / sizeof fragments[0]));
    tcase_add_test(t, layouts_refuse_what_they_cannot_hold);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
