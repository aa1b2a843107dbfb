/*
 * The three levels of staging, through pl_launch on the emulated driver: PL_PIPELINE in one role, a pipe between two roles, a ring of
 * copies out. Stages 1..5, steps 0..11, outer tiles 1..3, both lags, each asynchrony: no deadlock, and the exact sum.
 */
#include "tests/pipes.h"

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 11, MAX_OUTER = 3, WIDTH = COLS * MAX_STEPS };

/* ---- launching ---- */

static const char *const archs[] = {"sm_80", "sm_90a", "sm_120a"};
static const char *const policies[] = {"eager", "late", "random:1", "random:2", "random:3"};
enum { N_ARCHS = 3, N_POLICIES = 5, N_X = MAX_OUTER * ROWS * WIDTH, N_Y = MAX_OUTER * ROWS * COLS };

static pl_context *contexts[N_ARCHS];
static uint64_t x_at[N_ARCHS], y_at[N_ARCHS];
static float x[N_X], y[N_Y];
static int (*configure)(const char *key, const char *value);
static size_t (*last_fault)(char *text, size_t n_bytes);

static void open_contexts(void)
{
    pl_error err = {0};
    setenv("PLAUNCH_EMU_DEVICES", "sm_80,sm_90a,sm_120a", 1);
    for (int i = 0; i < N_X; i++)
        x[i] = (float)(i * 37 % 101 - 50); /* small integers: every sum is exact */
    for (int i = 0; i < N_ARCHS; i++) {
        const pl_context_options o = {.struct_size = sizeof o, .device = i, .cache_dir = ""};
        ck_assert_msg(pl_context_create(&contexts[i], &o, &err) == PL_OK, "%s", err.text);
        ck_assert_int_eq(pl_alloc(contexts[i], sizeof x, &x_at[i], &err), PL_OK);
        ck_assert_int_eq(pl_alloc(contexts[i], sizeof y, &y_at[i], &err), PL_OK);
        ck_assert_int_eq(pl_upload(contexts[i], x_at[i], x, sizeof x, &err), PL_OK);
    }
    void *lib = dlopen(getenv("PLAUNCH_DRIVER"), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    ck_assert_ptr_nonnull(lib);
    *(void **)&configure = dlsym(lib, "plaunch_emu_configure");
    *(void **)&last_fault = dlsym(lib, "plaunch_emu_last_fault");
}

static void close_contexts(void)
{
    for (int i = 0; i < N_ARCHS; i++)
        pl_context_destroy(contexts[i]);
}

static float wanted(int t, int r, int c, int steps)
{
    float sum = 0;
    for (int k = 0; k < steps; k++)
        sum += (float)(k + 1) * x[(t * ROWS + r) * WIDTH + k * COLS + c];
    return sum;
}

static void run(const pl_kernel *kernel, const struct pipe_params *p, int arch, const char *policy,
                int outer, int steps)
{
    char what[160], fault[4000] = "";
    snprintf(what, sizeof what, "%s %s %s stages %d lag %d outer %d steps %d", kernel->name,
             archs[arch], policy, p->stages, p->lag, outer, steps);
    pl_error err = {0};
    const pl_launch_options o = {.struct_size = sizeof o, .params = p};
    const pl_arg args[3] = {
        pl_arg_tensor(pl_tensor_make(x_at[arch], PL_F32, PL_SHAPE(outer, ROWS, WIDTH))),
        pl_arg_tensor(pl_tensor_make(y_at[arch], PL_F32, PL_SHAPE(outer, ROWS, COLS))),
        pl_arg_i32(steps)};
    ck_assert_int_eq(configure("async", policy), 0);
    memset(y, 0x55, sizeof y);
    ck_assert_int_eq(pl_upload(contexts[arch], y_at[arch], y, sizeof y, &err), PL_OK);
    pl_status st = pl_launch(contexts[arch], kernel, NULL, args, 3, &o, &err);
    if (st == PL_OK)
        st = pl_download(contexts[arch], y, y_at[arch], sizeof y, &err);
    if (st != PL_OK)
        last_fault(fault, sizeof fault);
    ck_assert_msg(st == PL_OK, "%s: %s %s (%s:%d)\n%s", what, pl_status_name(st), err.text,
                  err.file, err.line, fault);
    for (int t = 0; t < outer; t++)
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLS; c++) {
                float got = y[(t * ROWS + r) * COLS + c], want = wanted(t, r, c, steps);
                ck_assert_msg(got == want, "%s: (%d,%d,%d) is %g, not %g", what, t, r, c,
                              (double)got, (double)want);
            }
}

/* PL_LONG=1: all; else every step count with the other factors turning. */
START_TEST(sums_are_exact)
{
    const pl_kernel *kernel = &pipe_kernels[_i];
    bool is_long = getenv("PL_LONG") != NULL;
    int turn = 0;
    for (int stages = 1; stages <= 5; stages++)
        for (int lag = 0; lag <= (stages > 1); lag++)
            for (int steps = 0; steps <= MAX_STEPS; steps++)
                for (int i = 0; i < (is_long ? N_ARCHS * N_POLICIES * MAX_OUTER : 1); i++, turn++) {
                    const struct pipe_params p = {stages, lag};
                    run(kernel, &p, turn % N_ARCHS, policies[turn / N_ARCHS % N_POLICIES],
                        1 + turn / 2 % MAX_OUTER, steps);
                }
}
END_TEST

static void count_meetings(const char *text, size_t n_bytes, void *user)
{
    static const char word[] = "bar.sync";
    for (size_t i = 0; i + sizeof word <= n_bytes; i++)
        *(int *)user += memcmp(text + i, word, sizeof word - 1) == 0;
}

/* When the barriers are made, before a slot is filled again, and where the body asks for it; the first copies need none. */
START_TEST(a_pipeline_meets_only_before_a_slot_is_filled_again)
{
    for (int stages = 1; stages <= 5; stages++)
        for (int lag = 0; lag <= (stages > 1); lag++) {
            const struct pipe_params p = {stages, lag};
            const pl_emit_options o = {.struct_size = sizeof o, .arch = archs[_i], .params = &p};
            const pl_arg args[] = {
                pl_arg_tensor(pl_tensor_make(1 << 20, PL_F32, PL_SHAPE(2, ROWS, WIDTH))),
                pl_arg_tensor(pl_tensor_make(1 << 24, PL_F32, PL_SHAPE(2, ROWS, COLS))),
                pl_arg_i32(MAX_STEPS)};
            pl_error err = {0};
            int n = 0;
            ck_assert_msg(pl_emit(&pipe_kernels[0], args, 3, &o, count_meetings, &n, &err) == PL_OK,
                          "%s", err.text);
            ck_assert_msg(n == 3, "%s: %d stages, lag %d: %d barriers", archs[_i], stages, lag, n);
        }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("pipes");
    TCase *t = tcase_create("pipes");
    tcase_add_checked_fixture(t, open_contexts, close_contexts);
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, sums_are_exact, 0, N_PIPE_KERNELS);
    tcase_add_loop_test(t, a_pipeline_meets_only_before_a_slot_is_filled_again, 0, N_ARCHS);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
