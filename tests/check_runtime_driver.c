/* Driver choice, contexts, forks, memory helpers, out-of-memory: over the do-nothing driver, which fails on request. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <plaunch/launch.h>

#include "base/os.h"
#include "src/runtime/context.h"
#include "tests/nodriver.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/scarce.h"
#include "tests/suite.h"

static char nodriver_path[256];
static struct nodriver *nd;
static pl_error err;
static pl_context *ctx;

static void setup(void)
{
    snprintf(nodriver_path, sizeof nodriver_path, "%s/tests/.libs/libnodriver.so", PL_BUILDDIR);
    void *lib = pl_os_lib_open(nodriver_path, NULL, 0);
    ck_assert_ptr_nonnull(lib);
    nodriver_state_function get;
    void *f = pl_os_lib_sym(lib, "nodriver_state");
    memcpy(&get, &f, sizeof get);
    nd = get();
    setenv("PLAUNCH_CACHE_DIR", "", 1);
    unsetenv("PLAUNCH_DRIVER");
}

static pl_status create(const char *driver)
{
    const pl_context_options o = {.struct_size = sizeof o, .driver = driver};
    return pl_context_create(&ctx, &o, &err);
}

/* ---- choice ---- */

START_TEST(path_opens)
{
    ck_assert_int_eq(create(nodriver_path), PL_OK);
    pl_context_facts f = pl_context_info(ctx);
    ck_assert_str_eq(f.driver_path, nodriver_path);
    ck_assert_int_eq(f.driver_version, 13000);
    ck_assert_str_eq(f.device_name, "do-nothing device");
    ck_assert_str_eq(f.arch_name, "sm_90a");
    ck_assert(f.is_emulated); /* it says so: nodriver.c */
    ck_assert_str_eq(f.assembler, "ptx");
    ck_assert_int_eq(f.device.n_sms, 132);
    pl_context_destroy(ctx);
    ck_assert_uint_eq(nd->n_calls[ND_DevicePrimaryCtxRetain], 1);
    ck_assert_uint_eq(nd->n_calls[ND_DevicePrimaryCtxRelease], 1);
}
END_TEST

START_TEST(environment_names_the_driver)
{
    setenv("PLAUNCH_DRIVER", nodriver_path, 1);
    ck_assert_int_eq(create(NULL), PL_OK);
    pl_context_destroy(ctx);
    setenv("PLAUNCH_DRIVER", "/nonexistent/driver.so", 1);
    ck_assert_int_eq(create(NULL), PL_E_DRIVER);
    ck_assert_int_eq(create(nodriver_path), PL_OK); /* the option wins */
    pl_context_destroy(ctx);
}
END_TEST

START_TEST(absent_path)
{
    ck_assert_int_eq(create("/nonexistent/driver.so"), PL_E_DRIVER);
    ck_assert_int_eq(err.code, 6101);
    ck_assert_ptr_nonnull(strstr(err.text, "/nonexistent/driver.so"));
    ck_assert_ptr_null(ctx);
}
END_TEST

START_TEST(library_that_is_no_driver)
{
    ck_assert_int_eq(create("libm.so.6"), PL_E_DRIVER);
    ck_assert_int_eq(err.code, 6102);
    ck_assert_ptr_nonnull(strstr(err.text, "cuInit"));
}
END_TEST

static const struct {
    int call, code;
} start_failures[] = {{ND_Init, 999},
                      {ND_Init, 100},
                      {ND_DeviceGetCount, 802},
                      {ND_DeviceGetCount, 100},
                      {ND_DriverGetVersion, 1}};

START_TEST(named_driver_that_does_not_start)
{
    nd->fail_call = start_failures[_i].call + 1;
    nd->fail_code = start_failures[_i].code;
    ck_assert_int_eq(create(nodriver_path), PL_E_DRIVER);
    ck_assert_int_eq(err.code, 6103);
    ck_assert_int_eq(err.driver_code, start_failures[_i].code);
    ck_assert_ptr_null(ctx);
}
END_TEST

START_TEST(every_failing_call_of_creation)
{
    static const int calls[] = {ND_DeviceGet, ND_DeviceGetAttribute, ND_DevicePrimaryCtxRetain};
    nd->fail_call = calls[_i] + 1;
    nd->fail_code = 999;
    ck_assert_int_eq(create(nodriver_path), PL_E_DRIVER);
    ck_assert_int_eq(err.code, 6115);
    ck_assert_int_eq(err.driver_code, 999);
    ck_assert_uint_eq(nd->n_calls[ND_DevicePrimaryCtxRelease], 0);
}
END_TEST

START_TEST(device_ordinals)
{
    pl_context_options o = {.struct_size = sizeof o, .driver = nodriver_path, .device = 1};
    ck_assert_int_eq(pl_context_create(&ctx, &o, &err), PL_E_INVALID);
    ck_assert_int_eq(err.code, 6105);
    ck_assert_int_eq(err.actual, 1);
    o.device = -1;
    ck_assert_int_eq(pl_context_create(&ctx, &o, &err), PL_E_INVALID);
    nd->n_devices = 2;
    o.device = 1;
    ck_assert_int_eq(pl_context_create(&ctx, &o, &err), PL_OK);
    pl_context_destroy(ctx);
}
END_TEST

START_TEST(unknown_chip)
{
    nd->arch = 75;
    ck_assert_int_eq(create(nodriver_path), PL_E_UNSUPPORTED);
    ck_assert_int_eq(err.code, 6106);
}
END_TEST

/* A function counts as there from the driver version on that it came with, whatever the library exports. */
START_TEST(functions_of_later_versions_are_not_used)
{
    nd->driver_version = 12030; /* cuFuncLoad came with 12.4 */
    ck_assert_int_eq(create(nodriver_path), PL_OK);
    ck_assert(ctx->driver.cu.FuncLoad == NULL);
    ck_assert(ctx->driver.cu.TensorMapEncodeTiled != NULL);
    pl_context_destroy(ctx);
    nd->driver_version = 12040;
    ck_assert_int_eq(create(nodriver_path), PL_OK);
    ck_assert(ctx->driver.cu.FuncLoad != NULL);
    pl_context_destroy(ctx);
    nd->driver_version = 11080;
    ck_assert_int_eq(create(nodriver_path), PL_E_DRIVER);
    ck_assert_int_eq(err.code, 6102);
    ck_assert_ptr_nonnull(strstr(err.text, "it came with CUDA 12.0"));
}
END_TEST

START_TEST(wrong_calls)
{
    pl_context_options o = {.struct_size = 3};
    ck_assert_int_eq(pl_context_create(&ctx, &o, &err), PL_E_INVALID);
    ck_assert_int_eq(err.code, 6118);
    ck_assert(err.has_values && err.actual == 3 && err.expected == sizeof o);
    o = (pl_context_options){.struct_size = sizeof o, .n_threads = -5};
    ck_assert_int_eq(pl_context_create(&ctx, &o, &err), PL_E_INVALID);
    ck_assert_int_eq(err.code, 6119);
    ck_assert_ptr_nonnull(strstr(err.text, "is -5"));
    const pl_alloc_functions none = {.user = &o};
    o = (pl_context_options){.struct_size = sizeof o, .alloc = &none};
    ck_assert_int_eq(pl_context_create(&ctx, &o, &err), PL_E_INVALID);
    ck_assert_int_eq(err.code, 6110);
    ck_assert_ptr_null(ctx);
    ck_assert_int_eq(pl_context_create(NULL, NULL, &err), PL_E_INVALID);
    ck_assert_int_eq(pl_context_create(NULL, NULL, NULL), PL_E_INVALID); /* no error object */
    ck_assert_int_eq(pl_synchronize(NULL, &err), PL_E_INVALID);
    pl_context_destroy(NULL);
}
END_TEST

/* ---- auto: in a process whose libcuda.so.1 is the one of a folder of ours ---- */

struct told {
    int n_emulated, n_other;
};

static void hear(const pl_event *e, void *user)
{
    struct told *t = user;
    t->n_emulated += e->kind == PL_EVENT_EMULATED && e->level == PL_LEVEL_WARNING;
    t->n_other += e->kind != PL_EVENT_EMULATED;
}

/* No libcuda here, and no emulated driver beside this test program: the error tells where it looked. */
START_TEST(no_driver_at_all)
{
    void *real = pl_os_lib_open("libcuda.so.1", NULL, 0);
    if (real != NULL)
        return; /* a machine with a driver: nothing to see */
    setenv("PLAUNCH_DRIVER", "", 1);
    ck_assert_int_eq(create("emulator"), PL_E_DRIVER);
    ck_assert_int_eq(err.code, 6104);
    ck_assert_ptr_nonnull(strstr(err.text, "libplaunch-emu.so"));
}
END_TEST

/* A child of ours with LD_LIBRARY_PATH to a folder where libcuda.so.1 is the do-nothing driver. */
START_TEST(auto_takes_the_real_one)
{
    struct told told = {0, 0};
    const pl_context_options o = {
        .struct_size = sizeof o, .driver = "auto", .event = hear, .user = &told};
    /* libcuda.so.1 is found by SONAME among the libraries that are already open: none is here, so auto must fall back or fail */
    pl_status st = pl_context_create(&ctx, &o, &err);
    if (st == PL_OK) {
        ck_assert_int_eq(told.n_emulated, pl_context_info(ctx).is_emulated ? 1 : 0);
        pl_context_destroy(ctx);
    } else {
        ck_assert_int_eq(st, PL_E_DRIVER);
    }
}
END_TEST

/* ---- fork ---- */

/* Cases 25 and 26. */
START_TEST(child_is_told)
{
    ck_assert_int_eq(create(nodriver_path), PL_OK);
    unsigned n_before = nd->n_calls[ND_CtxSynchronize];
    pid_t pid = fork();
    if (pid == 0) {
        pl_error e;
        bool is_told = pl_synchronize(ctx, &e) == PL_E_FORKED && e.code == 6111 &&
                       nd->n_calls[ND_CtxSynchronize] == n_before;
        pl_context_destroy(ctx); /* no driver call either */
        _exit(is_told && nd->n_calls[ND_DevicePrimaryCtxRelease] == 0 ? 0 : 1);
    }
    int status = 1;
    waitpid(pid, &status, 0);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(pl_synchronize(ctx, &err), PL_OK); /* the parent goes on */
    pl_context_destroy(ctx);
}
END_TEST

static int child_of_a_fork(void)
{
    alarm(20); /* a hang ends it */
    pl_context_destroy(ctx);
    return nd->n_calls[ND_DevicePrimaryCtxRelease] == 0 ? 0 : 1;
}

/* Another thread is in the middle of a miss at the time of the fork: in the child its locks stay taken for ever. */
START_TEST(child_destroys_beside_held_locks)
{
    int status = 1;
    ck_assert_int_eq(create(nodriver_path), PL_OK);
    for (int i = 0; i < PL_CACHE_SHARDS; i++)
        pthread_mutex_lock(&ctx->cache.shards[i].lock);
    pthread_mutex_lock(&ctx->modules.lock);
    pthread_mutex_lock(&ctx->slots_lock);
    pid_t pid = fork();
    if (pid == 0)
        _exit(child_of_a_fork());
    for (int i = 0; i < PL_CACHE_SHARDS; i++)
        pthread_mutex_unlock(&ctx->cache.shards[i].lock);
    pthread_mutex_unlock(&ctx->modules.lock);
    pthread_mutex_unlock(&ctx->slots_lock);
    waitpid(pid, &status, 0);
    ck_assert_int_eq(status, 0);
    pl_context_destroy(ctx);
}
END_TEST

/* ---- memory helpers ---- */

START_TEST(memory_helpers)
{
    uint64_t a = 1, b = 1;
    char bytes[16];
    ck_assert_int_eq(create(nodriver_path), PL_OK);
    ck_assert_int_eq(pl_alloc(ctx, 0, &a, &err), PL_OK);
    ck_assert_uint_eq(a, 0);
    ck_assert_int_eq(pl_free(ctx, a, &err), PL_OK);
    ck_assert_uint_eq(nd->n_calls[ND_MemAlloc] + nd->n_calls[ND_MemFree], 0);
    ck_assert_int_eq(pl_alloc(ctx, 16, &b, &err), PL_OK);
    ck_assert_uint_ne(b, 0);
    ck_assert_int_eq(pl_upload(ctx, b, bytes, 16, &err), PL_OK);
    ck_assert_int_eq(pl_download(ctx, bytes, b, 16, &err), PL_OK);
    ck_assert_int_eq(pl_free(ctx, b, &err), PL_OK);
    ck_assert_uint_eq(nd->n_calls[ND_CtxPushCurrent], nd->n_calls[ND_CtxPopCurrent]);
    nd->fail_call = ND_MemAlloc + 1;
    nd->fail_code = PL_CU_OUT_OF_MEMORY;
    ck_assert_int_eq(pl_alloc(ctx, 16, &b, &err), PL_E_NOMEM);
    ck_assert_int_eq(err.code, 6114);
    nd->fail_call = ND_CtxSynchronize + 1;
    nd->fail_code = PL_CU_ILLEGAL_ADDRESS;
    ck_assert_int_eq(pl_synchronize(ctx, &err), PL_E_FAULT);
    ck_assert_int_eq(err.code, 6116);
    ck_assert_int_eq(err.driver_code, 700);
    ck_assert_uint_eq(nd->n_calls[ND_CtxPushCurrent], nd->n_calls[ND_CtxPopCurrent]);
    pl_context_destroy(ctx);
}
END_TEST

/* ---- host memory ---- */

START_TEST(creation_without_memory)
{
    const pl_alloc_functions alloc = {.alloc = get_scarce, .free = give_scarce};
    const pl_context_options o = {
        .struct_size = sizeof o, .driver = nodriver_path, .alloc = &alloc};
    int n = 0;
    for (;; n++) {
        n_until_empty = n;
        pl_status st = pl_context_create(&ctx, &o, &err);
        if (st == PL_OK)
            break;
        ck_assert_int_eq(st, PL_E_NOMEM);
        ck_assert_int_eq(n_live, 0);
    }
    ck_assert_int_gt(n, 3);
    pl_context_destroy(ctx);
    ck_assert_int_eq(n_live, 0);
}
END_TEST

/* ---- cache folders, statistics ---- */

START_TEST(refused_cache_folder_is_told)
{
    struct told told = {0, 0};
    const pl_context_options o = {.struct_size = sizeof o,
                                  .driver = nodriver_path,
                                  .cache_dir = "/proc/plaunch",
                                  .event = hear,
                                  .user = &told};
    ck_assert_int_eq(pl_context_create(&ctx, &o, &err), PL_OK);
    ck_assert_int_eq(told.n_other, 1);
    pl_context_destroy(ctx);
}
END_TEST

static void collect(const char *text, size_t n_bytes, void *user) { strncat(user, text, n_bytes); }

START_TEST(statistics_have_fixed_names)
{
    static char text[8192];
    ck_assert_int_eq(create(nodriver_path), PL_OK);
    pl_context_write_prometheus(ctx, collect, text);
    static const char *const names[] = {
        "hit_memory", "hit_disk", "miss",    "builds",  "emitted", "assembled",   "rejected",
        "build_ns",   "load_ns",  "wait_ns", "corrupt", "evicted", "capture_miss"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char line[64];
        snprintf(line, sizeof line, "\nplaunch_%s 0\n", names[i]);
        ck_assert_msg(strstr(text, line) != NULL, "%s", names[i]);
    }
    pl_stats s = pl_context_stats(ctx);
    ck_assert_uint_eq(s.builds, 0);
    pl_context_destroy(ctx);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("runtime_driver");
    TCase *t = tcase_create("choice");
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, path_opens);
    tcase_add_test(t, environment_names_the_driver);
    tcase_add_test(t, absent_path);
    tcase_add_test(t, library_that_is_no_driver);
    tcase_add_loop_test(t, named_driver_that_does_not_start, 0, 5);
    tcase_add_loop_test(t, every_failing_call_of_creation, 0, 3);
    tcase_add_test(t, device_ordinals);
    tcase_add_test(t, unknown_chip);
    tcase_add_test(t, functions_of_later_versions_are_not_used);
    tcase_add_test(t, wrong_calls);
    tcase_add_test(t, no_driver_at_all);
    tcase_add_test(t, auto_takes_the_real_one);
    suite_add_tcase(s, t);
    t = tcase_create("context");
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, child_is_told);
    tcase_add_test(t, child_destroys_beside_held_locks);
    tcase_add_test(t, memory_helpers);
    tcase_add_test(t, creation_without_memory);
    tcase_add_test(t, refused_cache_folder_is_told);
    tcase_add_test(t, statistics_have_fixed_names);
    suite_add_tcase(s, t);
    return s;
}
