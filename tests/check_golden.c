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

static void emit(const pl_kernel *k, const char *arch, bool pdl, struct text *out)
{
    pl_arg args[8];
    pl_error err = {0};
    const pl_emit_options o = {.struct_size = sizeof o, .arch = arch, .pdl = pdl};
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
    emit(k, arch, false, &got);
    if (getenv("PL_UPDATE") != NULL)
        write_text(path, &got);
    read_text(path, &want);
    ck_assert_msg(strcmp(got.data, want.data) == 0,
                  "%s differs from line %d on; PL_UPDATE=1 rewrites it", path,
                  line_of_difference(got.data, want.data));
}
END_TEST

/* Takes every line with the word out of the text; how many there were. */
static int drop_lines(struct text *t, const char *word)
{
    int n = 0;
    for (char *at; (at = strstr(t->data, word)) != NULL; n++) {
        while (at[-1] != '\n')
            at--;
        const char *end = strchr(at, '\n') + 1;
        memmove(at, end, strlen(end) + 1);
    }
    return n;
}

/* The name of the entry ends in eight digits that follow from the text. */
static void blank_name(struct text *t)
{
    char *end = strchr(strstr(t->data, ".entry"), '(');
    memset(end - 8, '0', 8);
}

/*
 * A launch that may overlap the grid before has the same text, and two lines more: it waits ahead of the first access of GMEM, then
 * lets the next grid set up. A CTA that leaves early, for want of work, waits too.
 */
START_TEST(an_overlapping_launch_waits_before_it_reads)
{
    static const char *const accesses[] = {"ld.global", "st.global", "atom.global", "red.global",
                                           "cp.async"};
    static struct text plain, pdl;
    const pl_kernel *k = kernels[_i / N_ARCHS];
    const char *arch = archs[_i % N_ARCHS];
    emit(k, arch, false, &plain);
    emit(k, arch, true, &pdl);
    const bool is_served = strcmp(arch, "sm_80") != 0;
    const char *wait = strstr(pdl.data, "griddepcontrol.wait;");
    ck_assert_int_eq(wait != NULL, is_served);
    for (size_t i = 0; is_served && i < sizeof accesses / sizeof *accesses; i++) {
        const char *at = strstr(pdl.data, accesses[i]);
        ck_assert_msg(at == NULL || at > wait, "%s for %s: %.60s", k->name, arch, at);
    }
    if (is_served)
        ck_assert_ptr_eq(strstr(wait, "griddepcontrol.launch_dependents;"),
                         strstr(wait + 1, "griddepcontrol"));
    const int n_launches = drop_lines(&pdl, "griddepcontrol.launch_dependents"),
              n_waits = drop_lines(&pdl, "griddepcontrol.wait");
    ck_assert_int_eq(n_launches, is_served);
    ck_assert_int_ge(n_waits, is_served);
    ck_assert_int_le(n_waits, is_served + 1);
    blank_name(&pdl);
    blank_name(&plain);
    const int line = line_of_difference(pdl.data, plain.data);
    ck_assert_msg(strcmp(pdl.data, plain.data) == 0, "%s for %s: line %d", k->name, arch, line);
}
END_TEST

/*
 * Between the CTAs that share a pipe: shared memory alone is ordered where the consumer takes 8.6, so that no step of the main loop waits
 * for device memory; before that, the cluster's order.
 */
static const struct {
    int32_t cap;
    bool is_narrow;
} caps[] = {{0, true}, {86, true}, {85, false}, {80, false}};

START_TEST(clusters_order_shared_memory_alone)
{
    static struct text t;
    const pl_shape s = PL_SHAPE(8192, 8192);
    pl_arg args[3];
    pl_error err = {0};
    for (size_t i = 0; i < 3; i++)
        args[i] = pl_arg_tensor(pl_tensor_make((i + 1) << 40, PL_BF16, s));
    const pl_emit_options o = {
        .struct_size = sizeof o, .arch = "sm_90a", .max_ptx_version = caps[_i].cap};
    memset(&t, 0, sizeof t);
    ck_assert_msg(pl_emit(&pl_kernel_matmul, args, 3, &o, put, &t, &err) == PL_OK, "%s", err.text);
    const bool has_cluster = strstr(t.data, ".reqnctapercluster 2") != NULL,
               has_narrow = strstr(t.data, "fence.acquire.sync_restrict") != NULL &&
                            strstr(t.data, "fence.release.sync_restrict") != NULL,
               has_wide = strstr(t.data, "acquire.cluster.shared::cta") != NULL ||
                          strstr(t.data, "release.cluster.shared::cluster") != NULL;
    ck_assert(has_cluster);
    ck_assert_int_eq(has_narrow, caps[_i].is_narrow);
    ck_assert_int_eq(has_wide, !caps[_i].is_narrow);
    ck_assert(strstr(t.data, caps[_i].is_narrow ? ".version 8.6" : ".version 8.0") == t.data);
}
END_TEST

/* a (512, 1024); b (1024, 512) column-major, y (512, 512); one element off where it says so. */
static const struct {
    bool is_a_off, is_b_off, is_y_off;
} places[] = {{0, 0, 0}, {0, 0, 1}, {1, 0, 0}, {0, 1, 1}, {1, 1, 0}};

/* What is aligned moves by the copy engine; an unaligned y leaves element by element and does not take the operands' way from them. */
START_TEST(operands_and_results_move_each_in_its_own_way)
{
    static struct text t;
    pl_arg args[3];
    pl_error err = {0};
    matmul_args(args);
    args[1].u.tensor.strides[0] = 1;
    args[1].u.tensor.strides[1] = COLS;
    args[0].u.tensor.address += places[_i].is_a_off * 2u;
    args[1].u.tensor.address += places[_i].is_b_off * 2u;
    args[2].u.tensor.address += places[_i].is_y_off * 2u;
    for (size_t i = 1; i < N_ARCHS; i++) {
        const pl_emit_options o = {.struct_size = sizeof o, .arch = archs[i]};
        memset(&t, 0, sizeof t);
        ck_assert_msg(pl_emit(&pl_kernel_matmul, args, 3, &o, put, &t, &err) == PL_OK, "%s: %s",
                      archs[i], err.text);
        const bool is_in = strstr(t.data, "cp.async.bulk.tensor.2d.shared") != NULL,
                   is_out = strstr(t.data, "cp.async.bulk.tensor.2d.global") != NULL;
        ck_assert_int_eq(is_in, !places[_i].is_a_off && !places[_i].is_b_off);
        ck_assert_int_eq(is_out, !places[_i].is_y_off);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("golden");
    TCase *t = tcase_create("golden");
    tcase_add_loop_test(t, text_is_the_golden_one, 0, N_KERNELS * N_ARCHS);
    tcase_add_loop_test(t, an_overlapping_launch_waits_before_it_reads, 0, N_KERNELS * N_ARCHS);
    tcase_add_loop_test(t, clusters_order_shared_memory_alone, 0, sizeof caps / sizeof *caps);
    tcase_add_loop_test(t, operands_and_results_move_each_in_its_own_way, 0,
                        sizeof places / sizeof *places);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
