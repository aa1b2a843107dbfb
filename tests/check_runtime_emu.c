/* The runtime on the emulated driver, with results: contexts, devices, captures, graphs, forks, faults, callbacks, driver choice. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <plaunch.h>
#include <plaunch/kernels.h>

#include "base/os.h"
#include "src/runtime/cuda_abi.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/suite.h"

/* ---- the driver's functions that a program calls beside plaunch ---- */

static struct {
    int (*configure)(const char *, const char *);
    uint64_t (*query)(const char *);
    int (*ctx_create)(pl_cu_context *, unsigned, int);
    int (*ctx_destroy)(pl_cu_context);
    int (*ctx_get_current)(pl_cu_context *);
    int (*ctx_pop)(pl_cu_context *);
    int (*ctx_push)(pl_cu_context);
    int (*stream_create)(pl_stream *, unsigned);
    int (*stream_sync)(pl_stream);
    int (*begin_capture)(pl_stream, int);
    int (*end_capture)(pl_stream, void **);
    int (*instantiate)(void **, void *, unsigned long long);
    int (*graph_launch)(void *, pl_stream);
} cu;

static const char *const names[] = {"plaunch_emu_configure", "plaunch_emu_query",
                                    "cuCtxCreate_v2",        "cuCtxDestroy_v2",
                                    "cuCtxGetCurrent",       "cuCtxPopCurrent_v2",
                                    "cuCtxPushCurrent_v2",   "cuStreamCreate",
                                    "cuStreamSynchronize",   "cuStreamBeginCapture_v2",
                                    "cuStreamEndCapture",    "cuGraphInstantiateWithFlags",
                                    "cuGraphLaunch"};

static pl_error err;
static char cache_folder[64];
static char emulator[300];

static void load_driver(const char *devices)
{
    snprintf(emulator, sizeof emulator, "%s/emu/.libs/libplaunch-emu.so", PL_BUILDDIR);
    setenv("PLAUNCH_EMU_DEVICES", devices, 1);
    void *lib = pl_os_lib_open(emulator, NULL, 0);
    ck_assert_msg(lib != NULL, "%s", emulator);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *f = pl_os_lib_sym(lib, names[i]);
        ck_assert_msg(f != NULL, "%s", names[i]);
        memcpy((char *)&cu + i * sizeof f, &f, sizeof f);
    }
}

static pl_context *open_context(int device, const char *cache)
{
    pl_context *ctx;
    const pl_context_options o = {
        .struct_size = sizeof o, .driver = emulator, .device = device, .cache_dir = cache};
    ck_assert_msg(pl_context_create(&ctx, &o, &err) == PL_OK, "%s", err.text);
    return ctx;
}

static pl_stream make_stream(void)
{
    pl_stream s;
    ck_assert_int_eq(cu.stream_create(&s, 1), 0); /* non-blocking */
    return s;
}

/* ---- scale on the device, checked ---- */

enum { M = 5, N = 333, N_ELEMS = M * N };

struct work {
    pl_context *ctx;
    uint64_t x, y;
    float host[N_ELEMS];
};

static void make_work(struct work *w, pl_context *ctx)
{
    w->ctx = ctx;
    for (int i = 0; i < N_ELEMS; i++)
        w->host[i] = (float)(i % 97) - 40;
    ck_assert_int_eq(pl_alloc(ctx, sizeof w->host, &w->x, &err), PL_OK);
    ck_assert_int_eq(pl_alloc(ctx, sizeof w->host, &w->y, &err), PL_OK);
    ck_assert_int_eq(pl_upload(ctx, w->x, w->host, sizeof w->host, &err), PL_OK);
}

static pl_status scale(const struct work *w, pl_stream s, float factor, pl_error *e)
{
    const pl_arg args[3] = {pl_arg_tensor(pl_tensor_make(w->x, PL_F32, PL_SHAPE(M, N))),
                            pl_arg_tensor(pl_tensor_make(w->y, PL_F32, PL_SHAPE(M, N))),
                            pl_arg_f32(factor)};
    return pl_launch(w->ctx, &pl_kernel_scale, s, args, 3, NULL, e);
}

static void clear(const struct work *w)
{
    static const float zeros[N_ELEMS];
    ck_assert_int_eq(pl_upload(w->ctx, w->y, zeros, sizeof zeros, &err), PL_OK);
}

static void check(const struct work *w, pl_stream s, float factor)
{
    static float y[N_ELEMS];
    if (s != NULL)
        ck_assert_int_eq(cu.stream_sync(s), 0);
    ck_assert_msg(pl_synchronize(w->ctx, &err) == PL_OK, "%s", err.text);
    ck_assert_int_eq(pl_download(w->ctx, y, w->y, sizeof y, &err), PL_OK);
    for (int i = 0; i < N_ELEMS; i++)
        ck_assert_float_eq(y[i], w->host[i] * factor);
}

static void scale_and_check(const struct work *w, pl_stream s, float factor)
{
    clear(w);
    ck_assert_msg(scale(w, s, factor, &err) == PL_OK, "%s", err.text);
    check(w, s, factor);
}

static void setup(void)
{
    load_driver("sm_90a,sm_100a");
    strcpy(cache_folder, "/tmp/plaunch-emu.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(cache_folder));
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", cache_folder);
    ck_assert_int_eq(system(command), 0);
}

/* ---- contexts and devices ---- */

/* Case 23: two CUDA contexts of one device, alternating streams. */
START_TEST(two_cuda_contexts)
{
    pl_cu_context own[2], current;
    pl_stream streams[2];
    struct work w;
    make_work(&w, open_context(0, ""));
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(cu.ctx_create(&own[i], 0, 0), 0);
        streams[i] = make_stream();
        ck_assert_int_eq(cu.ctx_pop(&current), 0);
    }
    for (int i = 0; i < 6; i++)
        scale_and_check(&w, streams[i % 2], (float)(i + 2));
    scale_and_check(&w, NULL, 9);
    ck_assert_uint_eq(pl_context_stats(w.ctx).builds, 1);
    ck_assert_int_eq(cu.ctx_get_current(&current), 0);
    ck_assert_ptr_null(current);                                 /* as before */
    ck_assert_uint_eq(cu.query("pushes") + 2, cu.query("pops")); /* creating one is no push */
    pl_context_destroy(w.ctx);
}
END_TEST

/* The caller's stack of contexts is as it was, whatever is current. */
START_TEST(context_stack_is_unchanged)
{
    pl_cu_context other, current;
    struct work w;
    make_work(&w, open_context(0, ""));
    ck_assert_int_eq(cu.ctx_create(&other, 0, 1), 0); /* of the other device */
    scale_and_check(&w, NULL, 3);
    ck_assert_int_eq(cu.ctx_get_current(&current), 0);
    ck_assert_ptr_eq(current, other);
    ck_assert_int_eq(cu.ctx_pop(&current), 0);
    ck_assert_ptr_eq(current, other);
    pl_context_destroy(w.ctx);
}
END_TEST

/* Case 24. */
START_TEST(devices_are_not_mixed_up)
{
    struct work w0, w1;
    pl_cu_context other;
    make_work(&w0, open_context(0, ""));
    make_work(&w1, open_context(1, ""));
    ck_assert_int_eq(cu.ctx_create(&other, 0, 0), 0); /* device 0 is current */
    scale_and_check(&w1, NULL, 5);
    pl_stream s0 = make_stream();
    ck_assert_int_eq(scale(&w1, s0, 5, &err), PL_E_INVALID);
    ck_assert_int_eq(err.code, 6131);
    w0.x = w1.x;
    ck_assert_int_eq(scale(&w0, NULL, 5, &err), PL_E_INVALID);
    ck_assert_int_eq(err.code, 6130);
    ck_assert_int_eq(err.argument, 0);
    ck_assert_int_eq(cu.ctx_pop(&other), 0);
    pl_context_destroy(w0.ctx);
    pl_context_destroy(w1.ctx);
}
END_TEST

/* Cases 9 to 11: two chips, one cache folder. */
START_TEST(one_folder_two_chips)
{
    for (int pass = 0; pass < 2; pass++) {
        for (int device = 0; device < 2; device++) {
            struct work w;
            make_work(&w, open_context(device, cache_folder));
            scale_and_check(&w, NULL, (float)(2 + pass));
            ck_assert_uint_eq(pl_context_stats(w.ctx).hit_disk, (unsigned)pass);
            pl_context_destroy(w.ctx);
        }
    }
}
END_TEST

static void *launch_many(void *p)
{
    pl_error e;
    for (int i = 0; i < 20; i++)
        if (scale(p, NULL, 4, &e) != PL_OK)
            return p;
    return NULL;
}

START_TEST(threads_launch)
{
    struct work w[8];
    pthread_t threads[8];
    pl_context *ctx = open_context(0, "");
    for (int i = 0; i < 8; i++) {
        make_work(&w[i], ctx);
        ck_assert_int_eq(pthread_create(&threads[i], NULL, launch_many, &w[i]), 0);
    }
    for (int i = 0; i < 8; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    for (int i = 0; i < 8; i++)
        check(&w[i], NULL, 4);
    ck_assert_uint_eq(pl_context_stats(ctx).builds, 1);
    pl_context_destroy(ctx);
}
END_TEST

/* Case 18: many sizes, few variants, no growth. */

/* What malloc has given this thread and not got back; pages of the process would count other threads and the machine's load. */
static size_t bytes_in_use(void) { return mallinfo2().uordblks; }

enum { MOST_NEW_BYTES = 256 << 10 };

START_TEST(many_sizes)
{
    struct work w;
    size_t before = 0;
    make_work(&w, open_context(0, ""));
    for (int64_t n = 1; n <= N_ELEMS; n++) {
        const pl_arg args[3] = {pl_arg_tensor(pl_tensor_make(w.x, PL_F32, PL_SHAPE(n))),
                                pl_arg_tensor(pl_tensor_make(w.y, PL_F32, PL_SHAPE(n))),
                                pl_arg_f32(2)};
        ck_assert_int_eq(pl_launch(w.ctx, &pl_kernel_scale, NULL, args, 3, NULL, &err), PL_OK);
        if (n % 100 == 0)
            ck_assert_int_eq(pl_synchronize(w.ctx, &err), PL_OK);
        if (n == 400)
            before = bytes_in_use();
    }
    check(&w, NULL, 2);
    ck_assert_uint_le(pl_context_stats(w.ctx).builds, 5);
    ck_assert_uint_lt(bytes_in_use(), before + MOST_NEW_BYTES);
    pl_context_destroy(w.ctx);
}
END_TEST

/* ---- edited bodies ---- */

static int body_version;

static void edited_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    pl_offs at = PL_OFF(b, pl_program_id(b, 0));
    pl_val v = pl_load(b, pl_tile(b, x, at, PL_SHAPE(128)));
    pl_store(b, pl_tile(b, y, at, PL_SHAPE(128)), pl_mul(b, v, (float)body_version));
}

static void edited_dims(const pl_request *r, const void *params, pl_launch_dims *out)
{
    (void)params;
    *out = (pl_launch_dims){{(r->args[0].u.tensor.shape[0] + 127) / 128, 1, 1}};
}

/* A body edited 100 times, under one name, with a warm disk cache: each time the new body's result. */
START_TEST(edited_bodies_give_new_results)
{
    static const pl_param_decl decls[2] = {
        {.name = "x", .role = PL_ROLE_IN, .min_rank = 1, .max_rank = 1, .dtypes = PL_DT(F32)},
        {.name = "y", .role = PL_ROLE_OUT, .min_rank = 1, .max_rank = 1, .dtypes = PL_DT(F32)}};
    const pl_kernel kernel = {.struct_size = sizeof kernel,
                              .name = "edited",
                              .params = decls,
                              .n_params = 2,
                              .n_configs = 1,
                              .body = edited_body,
                              .launch_dims = edited_dims};
    for (int i = 0; i < 100; i++) {
        struct work w;
        body_version = 1 + i % 50; /* the second half is on disk already */
        make_work(&w, open_context(0, cache_folder));
        const pl_arg args[2] = {pl_arg_tensor(pl_tensor_make(w.x, PL_F32, PL_SHAPE(N_ELEMS))),
                                pl_arg_tensor(pl_tensor_make(w.y, PL_F32, PL_SHAPE(N_ELEMS)))};
        ck_assert_msg(pl_launch(w.ctx, &kernel, NULL, args, 2, NULL, &err) == PL_OK, "%s",
                      err.text);
        check(&w, NULL, (float)body_version);
        ck_assert_uint_eq(pl_context_stats(w.ctx).hit_disk, i < 50 ? 0 : 1);
        pl_context_destroy(w.ctx);
    }
}
END_TEST

/* ---- capture and graphs ---- */

/* Case 29, and a replay. */
START_TEST(capture_of_a_cold_kernel)
{
    void *graph = NULL, *exec = NULL;
    pl_cu_context own;
    struct work w;
    make_work(&w, open_context(0, ""));
    ck_assert_int_eq(cu.ctx_create(&own, 0, 0), 0);
    pl_stream s = make_stream();
    ck_assert_int_eq(cu.begin_capture(s, PL_CU_CAPTURE_MODE_GLOBAL), 0);
    ck_assert_int_eq(scale(&w, s, 7, &err), PL_E_CAPTURING);
    ck_assert_int_eq(cu.end_capture(s, &graph), 0);

    pl_prepared *p;
    const pl_arg args[3] = {pl_arg_tensor(pl_tensor_make(w.x, PL_F32, PL_SHAPE(M, N))),
                            pl_arg_tensor(pl_tensor_make(w.y, PL_F32, PL_SHAPE(M, N))),
                            pl_arg_f32(7)};
    ck_assert_int_eq(pl_prepare(w.ctx, &pl_kernel_scale, args, 3, NULL, &p, &err), PL_OK);
    ck_assert_int_eq(cu.begin_capture(s, PL_CU_CAPTURE_MODE_GLOBAL), 0);
    ck_assert_msg(scale(&w, s, 7, &err) == PL_OK, "%s", err.text);
    ck_assert_int_eq(cu.end_capture(s, &graph), 0);
    clear(&w);
    ck_assert_int_eq(cu.instantiate(&exec, graph, 0), 0);
    ck_assert_int_eq(cu.graph_launch(exec, s), 0);
    check(&w, s, 7);
    ck_assert_int_eq(cu.ctx_pop(&own), 0);
    pl_prepared_destroy(p);
    pl_context_destroy(w.ctx);
}
END_TEST

static void *launch_cold(void *p)
{
    pl_error e;
    return scale(p, NULL, 8, &e) == PL_OK ? NULL : p;
}

/* Case 30: another thread's GLOBAL capture does not stop a cold launch, nor is it broken by it. */
START_TEST(cold_launch_beside_a_capture)
{
    void *graph = NULL, *failed;
    pthread_t thread;
    pl_cu_context own;
    struct work w;
    make_work(&w, open_context(0, ""));
    ck_assert_int_eq(cu.ctx_create(&own, 0, 0), 0);
    pl_stream s = make_stream();
    ck_assert_int_eq(cu.begin_capture(s, PL_CU_CAPTURE_MODE_GLOBAL), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, launch_cold, &w), 0);
    pthread_join(thread, &failed);
    ck_assert_ptr_null(failed);
    ck_assert_int_eq(cu.end_capture(s, &graph), 0);
    ck_assert_int_eq(cu.ctx_pop(&own), 0);
    check(&w, NULL, 8);
    pl_context_destroy(w.ctx);
}
END_TEST

/* ---- fork, faults ---- */

/* Case 25. */
START_TEST(forked_child)
{
    struct work w;
    make_work(&w, open_context(0, ""));
    scale_and_check(&w, NULL, 2);
    pid_t pid = fork();
    if (pid == 0) {
        pl_error e;
        _exit(scale(&w, NULL, 3, &e) == PL_E_FORKED && e.code == 6111 ? 0 : 1);
    }
    int status = 1;
    waitpid(pid, &status, 0);
    ck_assert_int_eq(status, 0);
    scale_and_check(&w, NULL, 3);
    pl_context_destroy(w.ctx);
}
END_TEST

START_TEST(fault_names_the_kernel)
{
    struct work w;
    make_work(&w, open_context(0, ""));
    scale_and_check(&w, NULL, 2);
    w.y = 0x10; /* no allocation there */
    pl_status st = scale(&w, NULL, 2, &err);
    if (st == PL_OK)
        st = pl_synchronize(w.ctx, &err);
    ck_assert_int_eq(st, PL_E_FAULT);
    ck_assert_int_eq(err.code, 6117);
    ck_assert_ptr_nonnull(strstr(err.text, "of pl_scale_"));
    ck_assert_ptr_nonnull(strstr(err.text, "CTA (0, 0, 0), warp 0, lane 0"));
    ck_assert_ptr_nonnull(strstr(err.text, "0x10"));
    ck_assert_ptr_nonnull(strstr(err.text, " Fix: "));
    pl_context_destroy(w.ctx);
}
END_TEST

static void wait_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_bar two = pl_barrier(b, 2);
    pl_barrier_arrive(b, two);
    pl_barrier_wait(b, two);
}

static void one_block(const pl_request *request, const void *params, pl_launch_dims *out)
{
    (void)request;
    (void)params;
    *out = (pl_launch_dims){{1, 1, 1}};
}

static const pl_param_decl wait_params[] = {
    {.name = "x", .role = PL_ROLE_OUT, .min_rank = 1, .max_rank = 1, .dtypes = PL_DT(F32)}};
static const pl_kernel waits = {.struct_size = sizeof(pl_kernel),
                                .name = "waits",
                                .params = wait_params,
                                .n_params = 1,
                                .n_configs = 1,
                                .body = wait_body,
                                .launch_dims = one_block};

START_TEST(hang_is_a_report)
{
    struct work w;
    make_work(&w, open_context(0, ""));
    const pl_arg arg = pl_arg_tensor(pl_tensor_make(w.y, PL_F32, PL_SHAPE(4)));
    pl_status st = pl_launch(w.ctx, &waits, NULL, &arg, 1, NULL, &err);
    if (st == PL_OK)
        st = pl_synchronize(w.ctx, &err);
    ck_assert_int_eq(st, PL_E_FAULT);
    ck_assert_int_eq(err.code, 6117);
    ck_assert_ptr_nonnull(strstr(err.text, "deadlock"));
    ck_assert_msg(strstr(err.text, "4 of 8 arrivals pending") != NULL, "%s", err.text);
    ck_assert_ptr_nonnull(strstr(err.text, " Fix: "));
    pl_context_destroy(w.ctx);
}
END_TEST

/* ---- host functions ---- */

static double seen_sum;

static void add_up(int32_t a, double b, float c, int64_t d, double *out)
{
    *out = a + b + (double)c + (double)d;
}

static void ask_inside(pl_context *ctx, pl_status *out, int32_t *code)
{
    pl_error e;
    *out = pl_synchronize(ctx, &e);
    *code = e.code;
}

START_TEST(host_functions)
{
    struct work w;
    pl_status inside = PL_OK;
    int32_t code = 0;
    make_work(&w, open_context(0, ""));
    const pl_c_value values[5] = {{.type = PL_C_I32, .u.i32 = -1},
                                  {.type = PL_C_F64, .u.f64 = 0.5},
                                  {.type = PL_C_F32, .u.f32 = 0.25f},
                                  {.type = PL_C_I64, .u.i64 = 0},
                                  {.type = PL_C_POINTER, .u.pointer = &seen_sum}};
    ck_assert_int_eq(pl_host_callback(w.ctx, NULL, (void (*)(void))add_up, values, 5, &err), PL_OK);
    const pl_c_value ask[3] = {{.type = PL_C_POINTER, .u.pointer = w.ctx},
                               {.type = PL_C_POINTER, .u.pointer = &inside},
                               {.type = PL_C_POINTER, .u.pointer = &code}};
    ck_assert_int_eq(pl_host_callback(w.ctx, NULL, (void (*)(void))ask_inside, ask, 3, &err),
                     PL_OK);
    ck_assert_int_eq(pl_synchronize(w.ctx, &err), PL_OK);
    ck_assert_double_eq(seen_sum, -0.25);
    ck_assert_int_eq(inside, PL_E_IN_CALLBACK);
    ck_assert_int_eq(code, 6112);
    ck_assert_int_eq(pl_host_callback(w.ctx, NULL, NULL, NULL, 0, &err), PL_E_INVALID);
    pl_context_destroy(w.ctx);
}
END_TEST

/* ---- driver choice: processes with a libcuda.so.1 of their own ---- */

/* Runs tests/driver_probe with its environment; its line of output. */
static const char *probe(const char *environment)
{
    static char line[512];
    char command[1024];
    snprintf(command, sizeof command, "%s %s/driver_probe", environment, PL_BUILDDIR);
    FILE *f = popen(command, "r");
    ck_assert_ptr_nonnull(f);
    if (fgets(line, sizeof line, f) == NULL)
        line[0] = '\0';
    pclose(f);
    return line;
}

static void link_driver(const char *target)
{
    char path[128];
    snprintf(path, sizeof path, "%s/libcuda.so.1", cache_folder);
    (void)unlink(path);
    ck_assert_int_eq(symlink(target, path), 0);
}

START_TEST(auto_choice)
{
    char environment[600], nodriver[300];
    snprintf(nodriver, sizeof nodriver, "%s/tests/.libs/libnodriver.so", PL_BUILDDIR);
    link_driver(nodriver);
    static const struct {
        const char *fails, *line;
    } rows[] = {
        /* status, driver code, warnings of the fallback, emulated driver taken */
        {"", "PL_OK 0 0 0\n"},
        {"Init:100", "PL_OK 0 2 1\n"}, /* no device */
        {"DeviceGetCount:100", "PL_OK 0 2 1\n"},
        {"Init:999", "PL_E_DRIVER 999 0 0\n"}, /* a broken one is no reason to emulate */
        {"Init:34", "PL_E_DRIVER 34 0 0\n"},
        {"DeviceGetCount:802", "PL_E_DRIVER 802 0 0\n"},
        {"DriverGetVersion:1", "PL_E_DRIVER 1 0 0\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(environment, sizeof environment,
                 "LD_LIBRARY_PATH=%s PLAUNCH_DRIVER=%s NODRIVER_FAIL=%s PROBE=auto", cache_folder,
                 emulator, rows[i].fails);
        ck_assert_str_eq(probe(environment), rows[i].line);
    }
    link_driver("/nonexistent");
    snprintf(environment, sizeof environment, "LD_LIBRARY_PATH=%s PLAUNCH_DRIVER=%s PROBE=cuda",
             cache_folder, emulator);
    if (pl_os_lib_open("libcuda.so.1", NULL, 0) != NULL)
        return; /* a driver is installed here: what follows needs a machine without */
    ck_assert_str_eq(probe(environment), "PL_E_DRIVER 0 0 0\n");
    snprintf(environment, sizeof environment, "LD_LIBRARY_PATH=%s PLAUNCH_DRIVER=%s PROBE=auto",
             cache_folder, emulator);
    ck_assert_str_eq(probe(environment), "PL_OK 0 2 1\n");
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("runtime_emu");
    TCase *t = tcase_create("emulated");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, two_cuda_contexts);
    tcase_add_test(t, context_stack_is_unchanged);
    tcase_add_test(t, devices_are_not_mixed_up);
    tcase_add_test(t, one_folder_two_chips);
    tcase_add_test(t, threads_launch);
    tcase_add_test(t, many_sizes);
    tcase_add_test(t, edited_bodies_give_new_results);
    tcase_add_test(t, capture_of_a_cold_kernel);
    tcase_add_test(t, cold_launch_beside_a_capture);
    tcase_add_test(t, forked_child);
    tcase_add_test(t, fault_names_the_kernel);
    tcase_add_test(t, hang_is_a_report);
    tcase_add_test(t, host_functions);
    tcase_add_test(t, auto_choice);
    suite_add_tcase(s, t);
    return s;
}
