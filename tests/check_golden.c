/*
 * The text of every kernel of the library in bf16, best configuration, one shape, as pl_emit() gives it: compared with
 * tests/golden/<kernel>.<chip>.ptx. PL_UPDATE=1 writes them anew; the difference is reviewed.
 */
#include <plaunch.h>
#include <plaunch/kernels.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const pl_kernel *const kernels[] = {
    &pl_kernel_copy,    &pl_kernel_scale,     &pl_kernel_add,
    &pl_kernel_cast,    &pl_kernel_transpose, &pl_kernel_reduce,
    &pl_kernel_softmax, &pl_kernel_rmsnorm,   &pl_kernel_matmul};
static const char *const archs[] = {"sm_80", "sm_90a", "sm_100a", "sm_120a"};
enum {
    N_KERNELS = sizeof kernels / sizeof *kernels,
    N_ARCHS = sizeof archs / sizeof *archs,
    MAX_TEXT_BYTES = 1 << 18,
    ROWS = 512,
    COLS = 1024
};

struct text {
    char data[MAX_TEXT_BYTES];
    size_t n_bytes;
};

static void put(const char *text, size_t n_bytes, void *user)
{
    struct text *t = user;
    ck_assert_uint_lt(t->n_bytes + n_bytes, MAX_TEXT_BYTES);
    memcpy(t->data + t->n_bytes, text, n_bytes);
    t->n_bytes += n_bytes;
}

/* a (512, 1024), b (1024, 512), y (512, 512); the others are left out. */
static size_t matmul_args(pl_arg args[3])
{
    static const pl_shape shapes[3] = {{2, {ROWS, COLS}}, {2, {COLS, ROWS}}, {2, {ROWS, ROWS}}};
    for (size_t i = 0; i < 3; i++)
        args[i] = pl_arg_tensor(pl_tensor_make((i + 1) << 24, PL_BF16, shapes[i]));
    return 3;
}

/* Dense and aligned. A weight is a row, a transposed output has the extents swapped, a reduced one has one column. */
static pl_arg arg_of(const pl_kernel *k, size_t i)
{
    const pl_param_decl *p = &k->params[i];
    const uint64_t address = (i + 1) << 24;
    if (p->role == PL_ROLE_SCALAR)
        return pl_arg_f32(1.5f);
    pl_shape shape = PL_SHAPE(ROWS, COLS);
    if (p->max_rank == 1)
        shape = PL_SHAPE(COLS);
    else if (p->role == PL_ROLE_OUT && k == &pl_kernel_transpose)
        shape = PL_SHAPE(COLS, ROWS);
    else if (p->role == PL_ROLE_OUT && k == &pl_kernel_reduce)
        shape = PL_SHAPE(ROWS, 1);
    return pl_arg_tensor(pl_tensor_make(address, PL_BF16, shape));
}

static void emit(const pl_kernel *k, const char *arch, struct text *out)
{
    pl_arg args[8];
    pl_error err = {0};
    const pl_emit_options o = {.struct_size = sizeof o, .arch = arch};
    size_t n_args = k == &pl_kernel_matmul ? matmul_args(args) : k->n_params;
    for (size_t i = 0; k != &pl_kernel_matmul && i < n_args; i++)
        args[i] = arg_of(k, i);
    memset(out, 0, sizeof *out);
    const pl_status st = pl_emit(k, args, n_args, &o, put, out, &err);
    ck_assert_msg(st == PL_OK, "%s for %s: %s", k->name, arch, err.text);
}

static void read_text(const char *path, struct text *out)
{
    memset(out, 0, sizeof *out);
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return;
    out->n_bytes = fread(out->data, 1, MAX_TEXT_BYTES - 1, f);
    fclose(f);
}

static void write_text(const char *path, const struct text *t)
{
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(t->data, 1, t->n_bytes, f), t->n_bytes);
    ck_assert_int_eq(fclose(f), 0);
}

static int line_of_difference(const char *x, const char *y)
{
    int line = 1;
    for (; *x == *y && *x != '\0'; x++, y++)
        line += *x == '\n';
    return line;
}

START_TEST(text_is_the_golden_one)
{
    static struct text got, want;
    const pl_kernel *k = kernels[_i / N_ARCHS];
    const char *arch = archs[_i % N_ARCHS];
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/golden/%s.%s.ptx", PL_SRCDIR, k->name, arch);
    emit(k, arch, &got);
    if (getenv("PL_UPDATE") != NULL)
        write_text(path, &got);
    read_text(path, &want);
    ck_assert_msg(strcmp(got.data, want.data) == 0,
                  "%s differs from line %d on; PL_UPDATE=1 rewrites it", path,
                  line_of_difference(got.data, want.data));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("golden");
    TCase *t = tcase_create("golden");
    tcase_add_loop_test(t, text_is_the_golden_one, 0, N_KERNELS * N_ARCHS);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
