/*
 * The table of the emulated driver (emu/api.def) against the library: each row exported, counted, refused when it should be;
 * entry points by version; configuration, counters, fault injection; error names; fork and exit.
 */
#include "tests/emu_driver.h"

#include <ctype.h>
#include <sys/wait.h>
#include <unistd.h>

enum need { NEED_ANY, NEED_INIT, NEED_CTX };

static const struct row {
    const char *name, *symbol, *variant, *params;
    int version;
    enum need need;
} rows[] = {
#define CU(name, version, symbol, need, capture, variant, params, args)                            \
    {#name, #symbol, #variant, #params, version, NEED_##need},
#include "emu/api.def"
#undef CU
};
enum { N_ROWS = sizeof rows / sizeof rows[0], N_ARGS = 18 };

/* ---- calling a function whose parameters are known as text ---------------------------------------------------------- */

static _Alignas(128) char scratch[4096]; /* zeroed: what every pointer points to */

static const char *const handle_types[] = {
    "CUcontext ", "CUstream ", "CUevent ",     "CUmodule ",    "CUfunction ",   "CUlibrary ",
    "CUkernel ",  "CUgraph ",  "CUgraphNode ", "CUgraphExec ", "CUmemoryPool ", "CUlinkState ",
};

static bool is_handle(const char *param)
{
    for (size_t i = 0; i < sizeof handle_types / sizeof handle_types[0]; i++)
        if (strncmp(param, handle_types[i], strlen(handle_types[i])) == 0 &&
            strchr(param, '*') == NULL)
            return true;
    return false;
}

static bool has_handle(const char *params)
{
    char text[800];
    bool has = false;
    snprintf(text, sizeof text, "%s", params + 1);
    for (char *p = strtok(text, ","); p != NULL; p = strtok(NULL, ",")) {
        while (isspace((unsigned char)*p))
            p++;
        has |= is_handle(p);
    }
    return has;
}

static uintptr_t argument_for(const char *param, uintptr_t handle)
{
    if (is_handle(param))
        return handle;
    if (strchr(param, '*') != NULL || strncmp(param, "CUhostFn", 8) == 0 ||
        strncmp(param, "CUstreamCallback", 16) == 0)
        return (uintptr_t)scratch;
    if (strncmp(param, "CUoccupancyB2DSize", 18) == 0)
        return 0;
    if (strncmp(param, "CUdeviceptr ", 12) == 0)
        return 0x123457;
    return 0;
}

/* Every argument in an integer register or stack slot: true of all signatures of the table. */
static CUresult call(const struct row *row, uintptr_t handle)
{
    typedef CUresult fn(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
                        uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
                        uintptr_t, uintptr_t, uintptr_t, uintptr_t);
    uintptr_t a[N_ARGS] = {0};
    char text[800];
    size_t n = 0;
    snprintf(text, sizeof text, "%s", row->params + 1);
    for (char *p = strtok(text, ","); p != NULL && n < N_ARGS; p = strtok(NULL, ","), n++) {
        while (isspace((unsigned char)*p))
            p++;
        a[n] = argument_for(p, handle);
    }
    fn *f;
    *(void **)&f = driver_symbol(row->symbol);
    memset(scratch, 0, sizeof scratch);
    return f(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13],
             a[14], a[15], a[16], a[17]);
}

/* ---- loops over the table ------------------------------------------------------------------------------------------------ */

START_TEST(row_is_exported)
{
    const struct row *row = &rows[_i];
    char name[100];
    driver_symbol(row->symbol);
    if (strcmp(row->variant, "PLAIN") == 0)
        return;
    snprintf(name, sizeof name, "%s_%s", row->symbol,
             strcmp(row->variant, "PTSZ") == 0 ? "ptsz" : "ptds");
    driver_symbol(name);
}
END_TEST

START_TEST(row_waits_for_init)
{
    if (rows[_i].need != NEED_ANY)
        ck_assert_msg(call(&rows[_i], 0) == CUDA_ERROR_NOT_INITIALIZED, "%s", rows[_i].symbol);
}
END_TEST

START_TEST(row_waits_for_context)
{
    ok(cu.cuInit(0));
    if (rows[_i].need == NEED_CTX)
        ck_assert_msg(call(&rows[_i], 0) == CUDA_ERROR_INVALID_CONTEXT, "%s", rows[_i].symbol);
}
END_TEST

static bool is_refusal(CUresult r)
{
    return r == CUDA_ERROR_INVALID_HANDLE || r == CUDA_ERROR_INVALID_CONTEXT ||
           r == CUDA_ERROR_INVALID_VALUE || r == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

START_TEST(row_refuses_garbage)
{
    static const uintptr_t garbage[] = {3, 0xdeadbeef, (uintptr_t)scratch, UINTPTR_MAX,
                                        0xC010001000010};
    CUcontext ctx;
    ok(cu.cuInit(0));
    ok(cu.cuCtxCreate_v2(&ctx, 0, 0));
    if (!has_handle(rows[_i].params))
        return;
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        CUresult r = call(&rows[_i], garbage[i]);
        ck_assert_msg(is_refusal(r), "%s(%#zx) gave %d", rows[_i].symbol, (size_t)garbage[i], r);
    }
}
END_TEST

/* A handle that was good: its slot has another object or none. */
START_TEST(row_refuses_stale)
{
    CUcontext ctx;
    CUstream stream;
    CUevent event;
    CUgraph graph;
    if (!has_handle(rows[_i].params))
        return;
    ok(cu.cuInit(0));
    ok(cu.cuCtxCreate_v2(&ctx, 0, 0));
    ok(cu.cuStreamCreate(&stream, 0));
    ok(cu.cuStreamDestroy_v2(stream));
    ok(cu.cuEventCreate(&event, 0));
    ok(cu.cuEventDestroy_v2(event));
    ok(cu.cuGraphCreate(&graph, 0));
    ok(cu.cuGraphDestroy(graph));
    const uintptr_t stale[] = {(uintptr_t)stream, (uintptr_t)event, (uintptr_t)graph};
    for (size_t i = 0; i < 3; i++) {
        CUresult r = call(&rows[_i], stale[i]);
        ck_assert_msg(is_refusal(r), "%s gave %d", rows[_i].symbol, r);
    }
}
END_TEST

START_TEST(row_takes_nulls)
{
    CUcontext ctx;
    ok(cu.cuInit(0));
    ok(cu.cuCtxCreate_v2(&ctx, 0, 0));
    struct row nothing = rows[_i];
    nothing.params = "()";   /* all arguments 0 */
    (void)call(&nothing, 0); /* any answer but a crash */
}
END_TEST

START_TEST(row_is_counted_and_injected)
{
    char key[120];
    const struct row *row = &rows[_i];
    ok(cu.cuInit(0));
    snprintf(key, sizeof key, "calls:%s", row->symbol);
    uint64_t before = cu.query(key);
    snprintf(key, sizeof key, "%s:2:999", row->symbol);
    ck_assert_int_eq(cu.configure("fail", key), 0);
    ck_assert_int_ne(call(row, 3), CUDA_ERROR_UNKNOWN);
    gives(call(row, 3), UNKNOWN);
    ck_assert_int_ne(call(row, 3), CUDA_ERROR_UNKNOWN);
    snprintf(key, sizeof key, "calls:%s", row->symbol);
    ck_assert_uint_ge(cu.query(key), before + 3); /* more where the name stands for several forms */
}
END_TEST

START_TEST(row_has_entry_point)
{
    const struct row *row = &rows[_i];
    void *fn = NULL;
    CUdriverProcAddressQueryResult status;
    ok(cu.cuInit(0));
    ok(cu.cuGetProcAddress_v2(row->name, &fn, row->version, 0, &status));
    ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_SUCCESS);
    ck_assert_ptr_eq(fn, driver_symbol(row->symbol));
    if (strcmp(row->variant, "PLAIN") == 0)
        return;
    char name[100];
    snprintf(name, sizeof name, "%s_%s", row->symbol,
             strcmp(row->variant, "PTSZ") == 0 ? "ptsz" : "ptds");
    ok(cu.cuGetProcAddress_v2(row->name, &fn, row->version,
                              CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
    ck_assert_ptr_eq(fn, driver_symbol(name));
}
END_TEST

/* ---- entry points, errors ------------------------------------------------------------------------------------------------------ */

START_TEST(entry_points_by_version)
{
    void *fn;
    CUdriverProcAddressQueryResult status;
    ok(cu.cuInit(0));
    ok(cu.cuGetProcAddress("cuCtxCreate", &fn, 11000, 0));
    ck_assert_ptr_eq(fn, driver_symbol("cuCtxCreate_v2"));
    ok(cu.cuGetProcAddress("cuCtxCreate", &fn, 13000, 0));
    ck_assert_ptr_eq(fn, driver_symbol("cuCtxCreate_v4"));
    ok(cu.cuGetProcAddress_v2("cuLibraryLoadData", &fn, 11080, 0, &status));
    ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    ck_assert_ptr_null(fn);
    ok(cu.cuGetProcAddress_v2("cuNoSuchThing", &fn, 13000, 0, &status));
    ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    gives(cu.cuGetProcAddress("cuNoSuchThing", &fn, 13000, 0), NOT_FOUND);
    gives(cu.cuGetProcAddress_v2("cuInit", &fn, 13010, 0, &status), INVALID_VALUE);
    gives(cu.cuGetProcAddress_v2("cuInit", &fn, 13000, 3, &status), INVALID_VALUE);
    gives(cu.cuGetProcAddress_v2(NULL, &fn, 13000, 0, &status), INVALID_VALUE);
}
END_TEST

START_TEST(older_driver_has_fewer_entry_points)
{
    void *fn;
    int version;
    CUlibrary library;
    ck_assert_int_eq(cu.configure("driver_version", "11080"), 0);
    ok(cu.cuInit(0));
    ok(cu.cuDriverGetVersion(&version));
    ck_assert_int_eq(version, 11080);
    ok(cu.cuGetProcAddress("cuLaunchKernelEx", &fn, 11080, 0));
    ck_assert_ptr_nonnull(fn);
    gives(cu.cuGetProcAddress("cuLibraryLoadData", &fn, 11080, 0), NOT_FOUND);
    gives(cu.cuLibraryLoadData(&library, "", NULL, NULL, 0, NULL, NULL, 0),
          CALL_REQUIRES_NEWER_DRIVER);
}
END_TEST

/* Exported, so that programs that link them start, but neither found by name nor served. */
START_TEST(refused_functions_say_so)
{
    static const char *const symbols[] = {
#define REFUSED(symbol, why) #symbol,
#include "emu/api/refused.def"
#undef REFUSED
    };
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        char fault[300];
        void *fn;
        CUresult (*refused)(void);
        CUdriverProcAddressQueryResult status;
        *(void **)&refused = driver_symbol(symbols[i]);
        ck_assert_int_eq(refused(), CUDA_ERROR_NOT_SUPPORTED);
        cu.last_fault(fault, sizeof fault);
        ck_assert_ptr_nonnull(strstr(fault, "PL8414"));
        ck_assert_ptr_nonnull(strstr(fault, symbols[i]));
        ok(cu.cuGetProcAddress_v2(symbols[i], &fn, 13000, 0, &status));
        ck_assert_ptr_ne(fn, *(void **)&refused);
    }
}
END_TEST

START_TEST(errors_have_names_and_texts)
{
    static const struct {
        CUresult code;
        const char *name;
    } all[] = {
#define ERROR(name, value, text) {(CUresult)value, "CUDA_" #name},
#include "emu/error.def"
#undef ERROR
    };
    const char *text;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        ok(cu.cuGetErrorName(all[i].code, &text));
        ck_assert_str_eq(text, all[i].name);
        ok(cu.cuGetErrorString(all[i].code, &text));
        ck_assert_uint_gt(strlen(text), 5);
    }
    gives(cu.cuGetErrorName((CUresult)12345, &text), INVALID_VALUE);
    ck_assert_ptr_null(text);
    gives(cu.cuGetErrorString((CUresult)12345, &text), INVALID_VALUE);
}
END_TEST

/* ---- configuration ---------------------------------------------------------------------------------------------------------------- */

static int attribute(CUdevice_attribute attr, CUdevice dev)
{
    int v = -1;
    ok(cu.cuDeviceGetAttribute(&v, attr, dev));
    return v;
}

START_TEST(configuration_is_checked)
{
    ck_assert_int_eq(cu.configure("no_such_key", "1"), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cu.configure("arch", "sm_77"), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cu.configure("async", "random:x"), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cu.configure("async", "random:18446744073709551615"), 0);
    ck_assert_int_eq(cu.configure("async", "random:18446744073709551616"),
                     CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cu.configure("check", "race"), 0);
    ck_assert_int_eq(cu.configure("sms", "0"), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cu.configure("devices", "sm_90a,"), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cu.configure("fail", "cuNoSuchThing:1:2"), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cu.configure("fail", "cuInit:0:2"), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cu.configure("fail", "cuInit:1"), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cu.configure(NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    ck_assert_uint_eq(cu.query("no_such_counter"), UINT64_MAX);
    ck_assert_uint_eq(cu.query("calls:cuNoSuchThing"), UINT64_MAX);
    ok(cu.cuInit(0));
    ck_assert_int_eq(cu.configure("arch", "sm_90a"), CUDA_ERROR_ILLEGAL_STATE);
    ck_assert_int_eq(cu.configure("reset", "maybe"), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cu.configure("reset", "1"), 0);
    ck_assert_int_eq(cu.configure("arch", "sm_103a"), 0);
    ok(cu.cuInit(0));
    ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0), 3);
}
END_TEST

START_TEST(environment_gives_defaults)
{
    int count, version;
    size_t n_bytes;
    setenv("PLAUNCH_EMU_DEVICES", "sm_80,sm_100a,120f", 1);
    setenv("PLAUNCH_EMU_SMS", "7", 1);
    setenv("PLAUNCH_EMU_DRIVER_VERSION", "12040", 1);
    setenv("PLAUNCH_EMU_MEMORY", "1048576", 1);
    ck_assert_int_eq(cu.configure("sms", "9"), 0); /* by hand wins */
    ok(cu.cuInit(0));
    ok(cu.cuDeviceGetCount(&count));
    ck_assert_int_eq(count, 3);
    ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0), 8);
    ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 1), 10);
    ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 2), 12);
    ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1), 9);
    ok(cu.cuDriverGetVersion(&version));
    ck_assert_int_eq(version, 12040);
    ok(cu.cuDeviceTotalMem_v2(&n_bytes, 0));
    ck_assert_uint_eq(n_bytes, 1048576);
    unsetenv("PLAUNCH_EMU_DEVICES");
    unsetenv("PLAUNCH_EMU_SMS");
    unsetenv("PLAUNCH_EMU_DRIVER_VERSION");
    unsetenv("PLAUNCH_EMU_MEMORY");
}
END_TEST

START_TEST(impossible_environment_fails_init)
{
    setenv("PLAUNCH_EMU_ARCH", "sm_12345", 1);
    gives(cu.cuInit(0), INVALID_VALUE);
    unsetenv("PLAUNCH_EMU_ARCH");
}
END_TEST

START_TEST(no_device)
{
    ck_assert_int_eq(cu.configure("devices", "0"), 0);
    gives(cu.cuInit(0), NO_DEVICE);
}
END_TEST

START_TEST(rules_last_and_go)
{
    int count;
    ok(cu.cuInit(0));
    ck_assert_int_eq(cu.configure("fail", "cuDeviceGetCount:2+:46"), 0);
    ok(cu.cuDeviceGetCount(&count));
    gives(cu.cuDeviceGetCount(&count), DEVICE_UNAVAILABLE);
    gives(cu.cuDeviceGetCount(&count), DEVICE_UNAVAILABLE);
    ck_assert_int_eq(cu.configure("fail", ""), 0);
    ok(cu.cuDeviceGetCount(&count));
}
END_TEST

/* ---- devices ---------------------------------------------------------------------------------------------------------------------------- */

START_TEST(attributes_of_every_chip)
{
    static const struct {
        int sm, optin_bytes, sm_bytes, threads, blocks, has_clusters;
    } want[] = {
        {80, 166912, 167936, 2048, 32, 0},  {86, 101376, 102400, 1536, 16, 0},
        {89, 101376, 102400, 1536, 24, 0},  {90, 232448, 233472, 2048, 32, 1},
        {100, 232448, 233472, 2048, 32, 1}, {103, 232448, 233472, 2048, 32, 1},
        {120, 101376, 102400, 1536, 24, 1}, {121, 101376, 102400, 1536, 24, 1},
    };
    char arch[16], name[64];
    CUdevprop prop;
    int major, minor;
    snprintf(arch, sizeof arch, "%d", want[_i].sm);
    ck_assert_int_eq(cu.configure("arch", arch), 0);
    ok(cu.cuInit(0));
    ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0),
                     want[_i].optin_bytes);
    ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 0),
                     want[_i].sm_bytes);
    ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 0),
                     want[_i].threads);
    ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 0),
                     want[_i].blocks);
    ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0), want[_i].has_clusters);
    ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 0),
                     want[_i].has_clusters);
    for (int a = 1; a <= 147; a++) {
        int v;
        ok(cu.cuDeviceGetAttribute(&v, (CUdevice_attribute)a, 0));
    }
    int v;
    gives(cu.cuDeviceGetAttribute(&v, (CUdevice_attribute)0, 0), INVALID_VALUE);
    gives(cu.cuDeviceGetAttribute(&v, (CUdevice_attribute)148, 0), INVALID_VALUE);
    gives(cu.cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 1), INVALID_DEVICE);
    ok(cu.cuDeviceGetName(name, sizeof name, 0));
    ck_assert_ptr_nonnull(strstr(name, arch));
    ok(cu.cuDeviceGetProperties(&prop, 0));
    ck_assert_int_eq(prop.maxThreadsPerBlock, 1024);
    ck_assert_int_eq(prop.SIMDWidth, 32);
    ok(cu.cuDeviceComputeCapability(&major, &minor, 0));
    ck_assert_int_eq(major * 10 + minor, want[_i].sm);
}
END_TEST

START_TEST(devices_have_identities)
{
    CUuuid a, b;
    CUdevice dev;
    char id[20];
    ck_assert_int_eq(cu.configure("devices", "2"), 0);
    ok(cu.cuInit(0));
    ok(cu.cuDeviceGetUuid_v2(&a, 0));
    ok(cu.cuDeviceGetUuid_v2(&b, 1));
    ck_assert_int_ne(memcmp(&a, &b, sizeof a), 0);
    ok(cu.cuDeviceGetPCIBusId(id, sizeof id, 1));
    ok(cu.cuDeviceGetByPCIBusId(&dev, id));
    ck_assert_int_eq(dev, 1);
    gives(cu.cuDeviceGetByPCIBusId(&dev, "0000:77:00.0"), INVALID_DEVICE);
    gives(cu.cuDeviceGet(&dev, 2), INVALID_DEVICE);
    gives(cu.cuDeviceGet(&dev, -1), INVALID_DEVICE);
}
END_TEST

/* ---- fork --------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(child_of_fork_is_refused)
{
    int count, status;
    ok(cu.cuInit(0));
    pid_t child = fork();
    if (child == 0)
        _exit(cu.cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED &&
                      cu.cuInit(0) == CUDA_ERROR_NOT_INITIALIZED
                  ? 0
                  : 1);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ok(cu.cuDeviceGetCount(&count));
}
END_TEST

START_TEST(fork_before_init_is_fine)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(cu.cuInit(0) == CUDA_SUCCESS ? 0 : 1);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ok(cu.cuInit(0));
}
END_TEST

static void call_at_exit(void)
{
    int count;
    CUresult r = cu.cuDeviceGetCount(&count);
    _exit(r == CUDA_ERROR_DEINITIALIZED || r == CUDA_SUCCESS ? 0 : 1);
}

START_TEST(calls_at_exit_are_tolerated)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        atexit(call_at_exit); /* before the library's own, so it runs after that */
        if (cu.cuInit(0) != CUDA_SUCCESS)
            _exit(2);
        exit(3);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(version_is_a_version)
{
    int major, minor, patch;
    ck_assert_int_eq(sscanf(cu.version(), "%d.%d.%d", &major, &minor, &patch), 3);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("emu_api");
    TCase *t = tcase_create("table");
    tcase_add_checked_fixture(t, driver_open, NULL);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, row_is_exported, 0, N_ROWS);
    tcase_add_loop_test(t, row_waits_for_init, 0, N_ROWS);
    tcase_add_loop_test(t, row_waits_for_context, 0, N_ROWS);
    tcase_add_loop_test(t, row_refuses_garbage, 0, N_ROWS);
    tcase_add_loop_test(t, row_refuses_stale, 0, N_ROWS);
    tcase_add_loop_test(t, row_takes_nulls, 0, N_ROWS);
    tcase_add_loop_test(t, row_is_counted_and_injected, 0, N_ROWS);
    tcase_add_loop_test(t, row_has_entry_point, 0, N_ROWS);
    suite_add_tcase(s, t);
    t = tcase_create("process");
    tcase_add_checked_fixture(t, driver_open, NULL);
    tcase_add_test(t, entry_points_by_version);
    tcase_add_test(t, older_driver_has_fewer_entry_points);
    tcase_add_test(t, refused_functions_say_so);
    tcase_add_test(t, errors_have_names_and_texts);
    tcase_add_test(t, configuration_is_checked);
    tcase_add_test(t, environment_gives_defaults);
    tcase_add_test(t, impossible_environment_fails_init);
    tcase_add_test(t, no_device);
    tcase_add_test(t, rules_last_and_go);
    tcase_add_loop_test(t, attributes_of_every_chip, 0, 8);
    tcase_add_test(t, devices_have_identities);
    tcase_add_test(t, child_of_fork_is_refused);
    tcase_add_test(t, fork_before_init_is_fine);
    tcase_add_test(t, calls_at_exit_are_tolerated);
    tcase_add_test(t, version_is_a_version);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
