/* Launches over the do-nothing driver: keys and counts, errors, capture, contexts, eviction, prepared kernels, memory. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <plaunch.h>

#include "base/debug.h"
#include "base/os.h"
#include "src/runtime/context.h"
#include "tests/nodriver.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/suite.h"

/* ---- a kernel: y = 2 x, one row of a tile after the other ---- */

struct config {
    int32_t cols;
    int32_t ignored; /* in the key, not in the text */
};

static int n_bodies;
static atomic_bool is_over; /* to a thread that goes on until then */

static void body(pl_builder *b, const void *params)
{
    const struct config *c = params;
    __atomic_add_fetch(&n_bodies, 1, __ATOMIC_RELAXED);
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    pl_offs at = PL_OFF(b, pl_program_id(b, 1), pl_program_id(b, 0));
    pl_val v = pl_load(b, pl_tile(b, x, at, PL_SHAPE(1, c->cols)));
    pl_store(b, pl_tile(b, y, at, PL_SHAPE(1, c->cols)), pl_add(b, v, v));
}

static bool configure(const pl_request *r, int32_t config, void *params)
{
    struct config *c = params;
    int64_t n = r->args[0].u.tensor.shape[1];
    c->cols = config == 1 || (config == PL_CONFIG_BEST && n > 1000) ? 512 : 128;
    c->ignored = r->options != NULL ? *(const int32_t *)r->options : 0;
    return config < 2;
}

static void launch_dims(const pl_request *r, const void *params, pl_launch_dims *out)
{
    const struct config *c = params;
    const pl_tensor *t = &r->args[1].u.tensor;
    out->grid[0] = (t->shape[1] + c->cols - 1) / c->cols;
    out->grid[1] = t->shape[0];
    out->grid[2] = 1;
}

#define DECL(name_, role_)                                                                         \
    {                                                                                              \
        .name = name_, .role = role_, .min_rank = 2, .max_rank = 2,                                \
        .dtypes = PL_DT(F32) | PL_DT(F16), .specialised = PL_FACT_ALIGN16 | PL_FACT_I32            \
    }
static const pl_param_decl decls[] = {DECL("x", PL_ROLE_IN), DECL("y", PL_ROLE_OUT)};
static const pl_kernel kernel = {
    .struct_size = sizeof kernel,
    .name = "twice",
    .params = decls,
    .n_params = 2,
    .params_bytes = sizeof(struct config),
    .options_bytes = sizeof(int32_t),
    .n_configs = 2,
    .configure = configure,
    .body = body,
    .launch_dims = launch_dims,
};

static void ignore_text(const char *text, size_t n_bytes, void *user)
{
    (void)text, (void)n_bytes, (void)user;
}

/* ---- assemblers ---- */

static pl_status noting_assembler(const struct pl_assembler *a, const struct pl_driver *driver,
                                  const struct pl_asm_request *q, struct pl_asm_result *out,
                                  struct pl_call *call)
{
    (void)a, (void)driver, (void)call;
    *out = (struct pl_asm_result){.code = q->text, .notes = "20 bytes spill stores"};
    return PL_OK;
}

static pl_status refusing_assembler(const struct pl_assembler *a, const struct pl_driver *driver,
                                    const struct pl_asm_request *q, struct pl_asm_result *out,
                                    struct pl_call *call)
{
    (void)a, (void)driver, (void)out;
    return pl_e_assembler(call, PL_E_ASSEMBLER, (struct pl_where){0}, "test", q->kernel, "no");
}

/* ---- fixture ---- */

static struct nodriver *nd;
static pl_context *ctx;
static pl_error err;
static pl_arg args[2];
static char cache_folder[64], nodriver_path[256];
static const pl_stream stream = (pl_stream)(uintptr_t)0x5000; /* of device 0's context */

static void set_args(int64_t m, int64_t n, pl_dtype t)
{
    args[0] = pl_arg_tensor(pl_tensor_make(0x7000000, t, PL_SHAPE(m, n)));
    args[1] = pl_arg_tensor(pl_tensor_make(0x7000000000, t, PL_SHAPE(m, n)));
}

static void make_context(const pl_context_options *more)
{
    pl_context_options o = more != NULL ? *more : (pl_context_options){.cache_dir = ""};
    o.struct_size = sizeof o;
    o.driver = nodriver_path;
    ck_assert_msg(pl_context_create(&ctx, &o, &err) == PL_OK, "%s", err.text);
}

static void setup(void)
{
    snprintf(nodriver_path, sizeof nodriver_path, "%s/tests/.libs/libnodriver.so", PL_BUILDDIR);
    void *lib = pl_os_lib_open(nodriver_path, NULL, 0);
    ck_assert_ptr_nonnull(lib);
    nodriver_state_function get;
    void *f = pl_os_lib_sym(lib, "nodriver_state");
    memcpy(&get, &f, sizeof get);
    nd = get();
    nd->is_recording = true;
    strcpy(cache_folder, "/tmp/plaunch-launch.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(cache_folder));
    make_context(NULL);
    set_args(3, 100, PL_F32);
}

static void teardown(void)
{
    char command[128];
    pl_context_destroy(ctx);
    ck_assert_uint_eq(nd->n_calls[ND_CtxPushCurrent] - nd->n_failed[ND_CtxPushCurrent],
                      nd->n_calls[ND_CtxPopCurrent]);
    snprintf(command, sizeof command, "rm -rf %s", cache_folder);
    ck_assert_int_eq(system(command), 0);
}

static pl_status launch_on(pl_stream s, const pl_launch_options *o)
{
    return pl_launch(ctx, &kernel, s, args, 2, o, &err);
}
static pl_status launch(void) { return launch_on(stream, NULL); }

static void launch_ok(void)
{
    pl_status st = launch();
    ck_assert_msg(st == PL_OK, "%s: %s", pl_status_name(st), err.text);
}

static pl_launch_options with(pl_compile_policy policy)
{
    return (pl_launch_options){.struct_size = sizeof(pl_launch_options), .policy = policy};
}

static pl_stats stats(void) { return pl_context_stats(ctx); }

/* ---- keys and counts ---- */

/* Case 20: dynamic extents build nothing new; issue: one kernel at 8 dynamic shapes is built once. */
START_TEST(one_build_for_all_sizes)
{
    for (int64_t m = 1; m < 200; m += 7) {
        set_args(m, 4 + m * 4 % 900, PL_F32);
        launch_ok();
        ck_assert_uint_eq(nd->config.grid[1], (unsigned)m);
        uint64_t address;
        memcpy(&address, nd->block, 8);
        ck_assert_uint_eq(address, 0x7000000);
    }
    ck_assert_uint_eq(stats().builds, 1);
    ck_assert_uint_eq(stats().miss, 1);
    ck_assert_uint_eq(stats().hit_memory, stats().launches - 1);
    ck_assert_int_eq(n_bodies, 1);
    ck_assert_uint_eq(nd->n_calls[ND_LibraryLoadData], 1);
}
END_TEST

START_TEST(variants_are_what_changes_code)
{
    launch_ok();
    set_args(3, 104, PL_F16);
    launch_ok();
    ck_assert_uint_eq(stats().builds, 2);
    args[0].u.tensor.address += 2; /* loses ALIGN16 */
    launch_ok();
    ck_assert_uint_eq(stats().builds, 3);
    set_args(3, 2000, PL_F16); /* another configuration */
    launch_ok();
    ck_assert_uint_eq(stats().builds, 4);
}
END_TEST

/* Two requests with one text share a module. */
START_TEST(one_text_is_one_module)
{
    int32_t option = 0;
    pl_launch_options o = with(PL_COMPILE_BLOCK);
    o.params = &option;
    for (option = 0; option < 5; option++)
        ck_assert_int_eq(launch_on(stream, &o), PL_OK);
    ck_assert_uint_eq(stats().builds, 5);
    ck_assert_uint_eq(nd->n_calls[ND_LibraryLoadData], 1);
}
END_TEST

static char logged[256];

static void log_topics(pl_severity_level level, const char *topic, const char *text, void *user)
{
    (void)level, (void)user;
    ck_assert_str_ne(text, "");
    strcat(strcat(logged, topic), " ");
}

START_TEST(debug_topics)
{
    const pl_context_options o = {.cache_dir = "", .log = log_topics};
    static const char *const topics[][2] = {{"", ""},
                                            {"ptx", "ptx "},
                                            {"plan,cache", "plan cache "},
                                            {"trace,plan,ptx,cache", "trace plan ptx cache "}};
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++) {
        setenv("PLAUNCH_DEBUG", topics[i][0], 1);
        pl_context_destroy(ctx);
        make_context(&o);
        logged[0] = '\0';
        launch_ok();
        launch_ok();
        ck_assert_str_eq(logged, topics[i][1]);
    }
}
END_TEST

/* What a thread remembers of its last launches is used only for what is equal in every value. */
START_TEST(equal_launches_are_remembered)
{
    static const int order[] = {0, 0, 1, 0, 2, 2, 3, 0, 4, 4, 0, 1, 1, 5, 0, 5};
    int32_t option = 0;
    pl_launch_options o = with(PL_COMPILE_BLOCK);
    o.params = &option;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        set_args(3, 128, PL_F32);
        option = 0;
        o.pdl = false;
        switch (order[i]) {
        case 1: args[1].u.tensor.address += 1024; break;
        case 2: set_args(4, 128, PL_F32); break;
        case 3: args[0].u.tensor.strides[0] += 4; break;
        case 4: option = 1; break; /* same pointer, other value */
        case 5: set_args(3, 128, PL_F16); break;
        default: break;
        }
        ck_assert_int_eq(launch_on(stream, &o), PL_OK);
        uint64_t addresses[2];
        memcpy(addresses, nd->block, sizeof addresses);
        ck_assert_uint_eq(addresses[0], args[0].u.tensor.address);
        ck_assert_uint_eq(addresses[1], args[1].u.tensor.address);
        ck_assert_uint_eq(nd->config.grid[1], (unsigned)args[0].u.tensor.shape[0]);
    }
    ck_assert_uint_eq(stats().builds, 3); /* f32, its other option, f16 */
    ck_assert_uint_eq(stats().launches, 16);
    ck_assert_uint_eq(stats().hit_memory, 13);
    args[0].u.tensor.rank = 1; /* equal up to what is wrong */
    ck_assert_int_eq(launch_on(stream, &o), PL_E_INVALID);
}
END_TEST

START_TEST(remembered_launches_and_prepared_ones)
{
    pl_prepared *p;
    for (int i = 0; i < 3; i++) { /* at the same address again, for other arguments */
        ck_assert_int_eq(pl_prepare(ctx, &kernel, args, 2, NULL, &p, &err), PL_OK);
        for (int n = 0; n < 3; n++) {
            ck_assert_int_eq(pl_launch_prepared(p, stream, args, 2, &err), PL_OK);
            ck_assert_int_eq(pl_launch_prepared(p, NULL, args, 2, &err), PL_OK);
        }
        pl_prepared_destroy(p);
        set_args(3 + i, 104, PL_F16);
    }
    ck_assert_uint_eq(stats().launches, 18);
}
END_TEST

START_TEST(stage_times)
{
    pl_stage_ns ns;
    pl_launch_options o = with(PL_COMPILE_BLOCK);
    o.stages = &ns;
    ck_assert_int_eq(launch_on(stream, &o), PL_OK);
    ck_assert(ns.trace != 0 && ns.plan != 0 && ns.emit != 0 && ns.load != 0 && ns.launch != 0);
    ck_assert_int_eq(launch_on(stream, &o), PL_OK);
    ck_assert(ns.trace == 0 && ns.plan == 0 && ns.emit == 0 && ns.load == 0 && ns.launch != 0);
}
END_TEST

/* ---- errors ---- */

/* All rules that are broken are told, nothing is written, nothing reaches the driver. */
START_TEST(broken_arguments)
{
    pl_report *report;
    pl_report_item item;
    pl_launch_options o = with(PL_COMPILE_BLOCK);
    ck_assert_int_eq(pl_report_create(&report), PL_OK);
    o.report = report;
    o.file = "program.c";
    o.line = 42;
    args[0].u.tensor.dtype = PL_I32;
    args[1].u.tensor.rank = 1;
    ck_assert_int_eq(launch_on(stream, &o), PL_E_INVALID);
    ck_assert_uint_eq(pl_report_n_errors(report), 2);
    ck_assert(pl_report_get(report, 1, &item));
    ck_assert_int_eq(item.argument, 1);
    ck_assert_int_eq(item.line, 42);
    ck_assert_str_eq(item.file, "program.c");
    ck_assert(!pl_report_get(report, 2, &item));
    ck_assert_int_eq(err.status, PL_E_INVALID);
    ck_assert_int_eq(err.argument, 0);
    ck_assert_int_eq(err.line, 42);
    ck_assert_int_eq(launch_on(stream, &o),
                     PL_E_INVALID); /* and again, and without an error object */
    ck_assert_int_eq(pl_launch(ctx, &kernel, stream, args, 2, NULL, NULL), PL_E_INVALID);
    ck_assert_uint_eq(stats().emitted, 0);
    ck_assert_uint_eq(stats().rejected, 3);
    ck_assert_uint_eq(nd->n_calls[ND_LibraryLoadData] + nd->n_calls[ND_LaunchKernelEx], 0);
    pl_report_clear(report);
    ck_assert_uint_eq(pl_report_count(report), 0);
    pl_report_destroy(report);
}
END_TEST

START_TEST(broken_scalars)
{
    const pl_param_decl three[] = {
        decls[0], decls[1], {.name = "s", .role = PL_ROLE_SCALAR, .dtypes = PL_DT_ANY}};
    pl_kernel k = kernel;
    k.params = three;
    k.n_params = 3;
    pl_arg with_scalar[3] = {args[0], args[1], pl_arg_f32(1.0f)};
    ck_assert_int_eq(pl_launch(ctx, &k, stream, with_scalar, 3, NULL, &err), PL_OK);
    with_scalar[2].kind = (pl_arg_kind)99;
    ck_assert_int_eq(pl_launch(ctx, &k, stream, with_scalar, 3, NULL, &err), PL_E_INVALID);
    ck_assert_int_eq(err.code, 6002);
    with_scalar[2] = pl_arg_none();
    ck_assert_int_eq(pl_launch(ctx, &k, stream, with_scalar, 3, NULL, &err), PL_E_INVALID);
    ck_assert_int_eq(err.code, 6003);
}
END_TEST

START_TEST(broken_kernels)
{
    static const char *const names[] = {NULL, "",    "Twice",
                                        "2x", "a-b", "a_name_that_is_longer_than_forty_characters"};
    pl_kernel k = kernel;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        k.name = names[i];
        ck_assert_int_eq(pl_launch(ctx, &k, stream, args, 2, NULL, &err), PL_E_INVALID);
        ck_assert_int_eq(err.code, 6120);
    }
    pl_kernel bad[7];
    for (int i = 0; i < 7; i++)
        bad[i] = kernel;
    bad[0].struct_size = 8;
    bad[1].body = NULL;
    bad[2].launch_dims = NULL;
    bad[3].n_params = 33;
    bad[4].params_bytes = 257;
    bad[5].n_configs = 0;
    bad[6].params = NULL;
    for (int i = 0; i < 7; i++) {
        ck_assert_int_eq(pl_launch(ctx, &bad[i], stream, args, 2, NULL, &err), PL_E_INVALID);
        ck_assert_int_eq(err.code, 6120);
    }
    ck_assert_int_eq(pl_launch(ctx, NULL, stream, args, 2, NULL, &err), PL_E_INVALID);
    ck_assert_int_eq(pl_launch(NULL, &kernel, stream, args, 2, NULL, &err), PL_E_INVALID);
    ck_assert_int_eq(pl_launch(ctx, &kernel, stream, NULL, 2, NULL, &err), PL_E_INVALID);
    pl_launch_options o = {.struct_size = 1};
    ck_assert_int_eq(launch_on(stream, &o), PL_E_INVALID);
    ck_assert_int_eq(err.code, 6110);
    o = with(PL_COMPILE_BLOCK);
    o.config = 3;
    ck_assert_int_eq(launch_on(stream, &o), PL_E_INVALID);
    ck_assert_int_eq(err.code, 6121);
}
END_TEST

static bool configure_by_table(const pl_request *r, int32_t config, void *params)
{
    static const int32_t cols[2] = {128, 512};
    (void)r;
    ck_assert_int_ge(config, PL_CONFIG_BEST);
    ck_assert_int_lt(config, 2);
    ((struct config *)params)->cols = cols[config < 0 ? 0 : config];
    return true;
}

/* A kernel may index by its configuration: no other number reaches it. */
START_TEST(configurations_that_are_not_listed)
{
    static const int32_t configs[] = {3, 4, 100, INT32_MAX, -1, -2, INT32_MIN + 1, INT32_MIN};
    pl_kernel k = kernel;
    k.configure = configure_by_table;
    pl_launch_options o = with(PL_COMPILE_BLOCK);
    pl_emit_options e = {.struct_size = sizeof e, .arch = "sm_80"};
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        o.config = e.config = configs[i];
        ck_assert_int_eq(pl_launch(ctx, &k, stream, args, 2, &o, &err), PL_E_INVALID);
        ck_assert_int_eq(err.code, 6121);
        ck_assert(err.has_values);
        ck_assert_int_eq(err.actual, (int64_t)configs[i] - 1);
        ck_assert_int_eq(err.expected, 1);
        ck_assert_int_eq(pl_emit(&k, args, 2, &e, ignore_text, NULL, &err), PL_E_INVALID);
        ck_assert_int_eq(err.code, 6121);
    }
    for (o.config = 0; o.config <= 2; o.config++)
        ck_assert_int_eq(pl_launch(ctx, &k, stream, args, 2, &o, &err), PL_OK);
}
END_TEST

/* Without a place in the options, messages name that of the call; the plain functions know none. */
START_TEST(places_of_calls)
{
    pl_prepared *p;
    pl_launch_options o = with(PL_COMPILE_BLOCK);
    args[1].u.tensor.rank = 1;
    int line = __LINE__ + 1;
    ck_assert_int_eq(pl_launch(ctx, &kernel, stream, args, 2, NULL, &err), PL_E_INVALID);
    ck_assert_int_eq(err.line, line);
    ck_assert_ptr_nonnull(strstr(err.file, "check_runtime_launch.c"));
    ck_assert_int_eq(pl_prepare(ctx, &kernel, args, 2, &o, &p, &err), PL_E_INVALID);
    ck_assert_int_eq(err.line, line + 3);
    ck_assert_ptr_null(p);
    ck_assert_int_eq(pl_prepare(ctx, &kernel, args, 2, NULL, NULL, &err), PL_E_INVALID);
    ck_assert_int_eq(err.line, line + 6);
    args[1].u.tensor.rank = 2;
    ck_assert_int_eq(pl_prepare(ctx, &kernel, args, 2, NULL, &p, &err), PL_OK);
    args[1].u.tensor.rank = 1;
    ck_assert_int_eq(pl_launch_prepared(p, stream, args, 2, &err), PL_E_INVALID);
    ck_assert_int_eq(err.line, line + 11);
    o.file = "program.c";
    o.line = 42;
    ck_assert_int_eq(pl_launch(ctx, &kernel, stream, args, 2, &o, &err), PL_E_INVALID);
    ck_assert_int_eq(err.line, 42);
    ck_assert_str_eq(err.file, "program.c");
    pl_status (*const plain)(pl_context *, const pl_kernel *, pl_stream, const pl_arg *, size_t,
                             const pl_launch_options *, pl_error *) = pl_launch;
    ck_assert_int_eq(plain(ctx, &kernel, stream, args, 2, NULL, &err), PL_E_INVALID);
    ck_assert_str_eq(err.file, "");
    ck_assert_int_eq((pl_launch)(ctx, &kernel, stream, args, 2, NULL, &err), PL_E_INVALID);
    ck_assert_int_eq((pl_launch_prepared)(p, stream, args, 2, &err), PL_E_INVALID);
    ck_assert_str_eq(err.file, "");
    pl_prepared_destroy(p);
    ck_assert_int_eq((pl_prepare)(ctx, &kernel, args, 2, NULL, &p, &err), PL_E_INVALID);
    ck_assert_str_eq(err.file, "");
}
END_TEST

static int bad_call(pl_status st) { return st == PL_E_INVALID ? err.code : -1; }

/* A NULL where something is needed is a diagnostic. */
START_TEST(null_pointers)
{
    pl_prepared *p;
    static pl_pack pack;
    uint64_t address;
    char byte;
    ck_assert_int_eq(bad_call(pl_prepare(ctx, &kernel, args, 2, NULL, NULL, &err)), 6110);
    ck_assert_int_eq(bad_call(pl_prepare(NULL, &kernel, args, 2, NULL, &p, &err)), 6110);
    ck_assert_int_eq(bad_call(pl_prepare(ctx, NULL, args, 2, NULL, &p, &err)), 6120);
    ck_assert_int_eq(bad_call(pl_prepare(ctx, &kernel, NULL, 2, NULL, &p, &err)), 6110);
    ck_assert_int_eq(bad_call(pl_prepare_all(ctx, &kernel, NULL, 2, NULL, &err)), 6110);
    ck_assert_int_eq(bad_call(pl_prepare_all(NULL, &kernel, args, 2, NULL, &err)), 6110);
    ck_assert_int_eq(pl_prepare(ctx, &kernel, args, 2, NULL, &p, &err), PL_OK);
    ck_assert_int_eq(bad_call(pl_launch_prepared(NULL, stream, args, 2, &err)), 6110);
    ck_assert_int_eq(bad_call(pl_launch_prepared(p, stream, NULL, 2, &err)), 6110);
    ck_assert_int_eq(bad_call(pl_prepared_pack(NULL, args, 2, &pack, &err)), 6110);
    ck_assert_int_eq(bad_call(pl_prepared_pack(p, NULL, 2, &pack, &err)), 6110);
    ck_assert_int_eq(bad_call(pl_prepared_pack(p, args, 2, NULL, &err)), 6110);
    ck_assert_int_eq(bad_call(pl_alloc(ctx, 16, NULL, &err)), 6110);
    ck_assert_int_eq(bad_call(pl_alloc(NULL, 16, &address, &err)), 6110);
    ck_assert_int_eq(bad_call(pl_free(NULL, 16, &err)), 6110);
    ck_assert_int_eq(bad_call(pl_upload(ctx, 16, NULL, 1, &err)), 6110);
    ck_assert_int_eq(bad_call(pl_upload(NULL, 16, &byte, 1, &err)), 6110);
    ck_assert_int_eq(bad_call(pl_download(ctx, NULL, 16, 1, &err)), 6110);
    ck_assert_int_eq(bad_call(pl_download(NULL, &byte, 16, 1, &err)), 6110);
    ck_assert_int_eq(bad_call(pl_synchronize(NULL, &err)), 6110);
    ck_assert_int_eq(bad_call(pl_host_callback(ctx, stream, NULL, NULL, 0, &err)), 6110);
    ck_assert_int_eq(bad_call(pl_context_create(NULL, NULL, &err)), 6110);
    ck_assert_int_eq(pl_upload(ctx, 16, NULL, 0, &err), PL_OK);
    ck_assert_int_eq(pl_download(ctx, NULL, 16, 0, &err), PL_OK);
    ck_assert_int_eq(pl_report_create(NULL), PL_E_INVALID);
    pl_report_clear(NULL);
    ck_assert_uint_eq(pl_report_count(NULL) + pl_report_n_errors(NULL), 0);
    ck_assert(!pl_report_get(NULL, 0, NULL));
    ck_assert_uint_eq(pl_context_last_launches(NULL, NULL, 3), 0);
    ck_assert_uint_eq(pl_context_stats(NULL).launches, 0);
    ck_assert_str_eq(pl_context_info(NULL).driver_path, "");
    pl_context_write_prometheus(NULL, ignore_text, NULL);
    pl_context_write_prometheus(ctx, NULL, NULL);
    launch_ok();
    ck_assert_uint_eq(pl_context_last_launches(ctx, NULL, 3), 1);
    pl_prepared_destroy(p);
}
END_TEST

static int n_rejected;
static char rejected_text[512], rejected_kernel[64];

static void note_rejection(const pl_event *e, void *user)
{
    (void)user;
    if (e->kind != PL_EVENT_REJECTED)
        return;
    n_rejected++;
    ck_assert_int_eq(e->level, PL_LEVEL_ERROR);
    snprintf(rejected_text, sizeof rejected_text, "%s", e->text);
    snprintf(rejected_kernel, sizeof rejected_kernel, "%s", e->kernel);
}

START_TEST(rejections_are_told)
{
    pl_prepared *p, *other;
    const pl_context_options o = {.cache_dir = "", .event = note_rejection};
    pl_context_destroy(ctx);
    make_context(&o);
    ck_assert_int_eq(pl_prepare(ctx, &kernel, args, 2, NULL, &p, &err), PL_OK);
    launch_ok();
    ck_assert_int_eq(n_rejected, 0);
    args[0].u.tensor.dtype = PL_I32;
    ck_assert_int_eq(launch(), PL_E_INVALID);
    ck_assert_int_eq(n_rejected, 1);
    ck_assert_str_eq(rejected_text, err.text);
    ck_assert_str_eq(rejected_kernel, "twice");
    ck_assert_int_eq(pl_prepare(ctx, &kernel, args, 2, NULL, &other, &err), PL_E_INVALID);
    ck_assert_int_eq(pl_prepare_all(ctx, &kernel, args, 2, NULL, &err), PL_E_INVALID);
    ck_assert_int_eq(pl_launch_prepared(p, stream, args, 2, &err), PL_E_INVALID);
    ck_assert_int_eq(n_rejected, 4);
    ck_assert_int_eq(pl_launch(ctx, &kernel, stream, args, 2, NULL, NULL), PL_E_INVALID);
    ck_assert_int_eq(n_rejected, 5);
    ck_assert_str_eq(rejected_text, "");
    ck_assert_uint_eq(stats().rejected, 5);
    pl_prepared_destroy(p);
}
END_TEST

/* A body that breaks a rule: no text. */
static void bad_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref x = pl_param(b, 0);
    pl_store(b, x, pl_load(b, pl_param(b, 7)));
}

START_TEST(broken_bodies)
{
    pl_kernel k = kernel;
    k.body = bad_body;
    ck_assert_int_eq(pl_launch(ctx, &k, stream, args, 2, NULL, &err), PL_E_INVALID);
    ck_assert_int_ne(err.code, 0);
    ck_assert_int_gt(err.line, 0);
    ck_assert_ptr_nonnull(strstr(err.file, "check_runtime_launch.c"));
    ck_assert_uint_eq(stats().emitted, 0);
    ck_assert_int_eq(pl_launch(ctx, &k, stream, args, 2, NULL, &err), PL_E_INVALID); /* not hung */
}
END_TEST

static pl_status inner_status;
static int32_t inner_code;

static void recursive_body(pl_builder *b, const void *params)
{
    pl_error e;
    inner_status = pl_launch(ctx, &kernel, stream, args, 2, NULL, &e);
    inner_code = e.code;
    body(b, params);
}

START_TEST(recursion)
{
    pl_kernel k = kernel;
    k.body = recursive_body;
    ck_assert_int_eq(pl_launch(ctx, &k, stream, args, 2, NULL, &err), PL_OK);
    ck_assert_int_eq(inner_status, PL_E_RECURSION);
    ck_assert_int_eq(inner_code, 6113);
    launch_ok();
}
END_TEST

/* What a callback of a build gets when it launches the very kernel that is being built. */
static int n_recursions, n_others;

static void launch_again_from(pl_context *c)
{
    pl_error e;
    pl_status st = pl_launch(c, &kernel, stream, args, 2, NULL, &e);
    n_recursions += st == PL_E_RECURSION && e.code == 6113;
    n_others += st != PL_E_RECURSION && st != PL_OK;
}

static void launch_from_event(const pl_event *e, void *user)
{
    (void)user;
    if (ctx != NULL && (e->kind == PL_EVENT_BUILD || e->kind == PL_EVENT_SLOW_CODE))
        launch_again_from(ctx);
}

static void launch_from_log(pl_severity_level level, const char *topic, const char *text,
                            void *user)
{
    (void)level, (void)text, (void)user;
    if (ctx != NULL && strcmp(topic, "pl_launch") != 0)
        launch_again_from(ctx);
}

/* They run under the entry's claim: a launch there would wait for itself. */
START_TEST(recursion_from_callbacks)
{
    const pl_context_options o = {
        .cache_dir = "", .event = launch_from_event, .log = launch_from_log};
    setenv("PLAUNCH_DEBUG", "ptx,cache", 1);
    pl_context_destroy(ctx);
    ctx = NULL;
    make_context(&o);
    ctx->assembler.run = noting_assembler;
    launch_ok();
    ck_assert_int_eq(n_recursions, 4); /* two topics, the note, the build */
    ck_assert_int_eq(n_others, 0);
    launch_ok();
    ck_assert_uint_eq(stats().builds, 1);
}
END_TEST

static const int launch_calls[] = {ND_StreamGetCtx,     ND_CtxGetId,          ND_CtxPushCurrent,
                                   ND_CtxGetDevice,     ND_StreamIsCapturing, ND_LibraryLoadData,
                                   ND_LibraryGetKernel, ND_KernelGetFunction, ND_FuncLoad,
                                   ND_LaunchKernelEx};

/* Each driver call of a cold launch fails once: its code comes back, and the next launch works. */
START_TEST(each_driver_call_fails)
{
    const pl_stream other = (pl_stream)(uintptr_t)0x5001; /* a context not met before */
    nd->fail_call = launch_calls[_i] + 1;
    nd->fail_after = (int)nd->n_calls[launch_calls[_i]];
    nd->fail_count = 1;
    nd->fail_code = 999;
    ck_assert_int_eq(launch_on(other, NULL), PL_E_DRIVER);
    ck_assert_int_eq(err.driver_code, 999);
    ck_assert(err.code == 6115 || err.code == 6160);
    ck_assert_int_eq(launch_on(other, NULL), PL_OK);
}
END_TEST

START_TEST(faults_name_the_last_launches)
{
    launch_ok();
    nd->fail_call = ND_LaunchKernelEx + 1;
    nd->fail_after = (int)nd->n_calls[ND_LaunchKernelEx];
    nd->fail_code = PL_CU_LAUNCH_FAILED;
    ck_assert_int_eq(launch(), PL_E_FAULT);
    ck_assert_int_eq(err.code, 6116);
    ck_assert_int_eq(err.driver_code, 719);
    ck_assert_ptr_nonnull(strstr(err.text, "pl_twice_"));
    ck_assert_ptr_nonnull(strstr(err.text, "<1x3x1>"));
    pl_launch_record last[2];
    ck_assert_uint_eq(pl_context_last_launches(ctx, last, 2), 2); /* the failing one too */
    ck_assert_str_eq(last[0].entry, last[1].entry);
    ck_assert_uint_eq(last[1].grid[1], 3);
    ck_assert_uint_eq(last[1].n_threads, nd->config.block[0]);
}
END_TEST

static void *launch_two_kinds(void *p)
{
    pl_kernel other = kernel;
    pl_arg mine[2];
    pl_error e;
    other.name = "other";
    memcpy(mine, args, sizeof mine);
    for (int i = 0; !atomic_load(&is_over); i++) {
        for (int k = 0; k < 2; k++)
            mine[k] = pl_arg_tensor(pl_tensor_make(0x7000000, PL_F32, PL_SHAPE(3 + i % 2, 100)));
        mine[1].u.tensor.address += 1 << 20;
        if (pl_launch(ctx, i % 2 ? &other : &kernel, stream, mine, 2, NULL, &e) != PL_OK)
            return p;
    }
    return NULL;
}

/* A record that was overwritten, or is being overwritten, is not given. */
START_TEST(records_are_whole)
{
    struct pl_thread *t = pl_thread_get(&ctx->threads);
    pl_launch_record r = {.entry = "pl_one"}, got;
    ck_assert(!pl_thread_recall(t, 0, &got));
    for (uint32_t i = 0; i < PL_RECENT_COUNT + 8; i++) {
        r.grid[2] = r.n_threads = i;
        pl_thread_remember(t, &r);
        ck_assert(pl_thread_recall(t, i, &got));
        ck_assert_mem_eq(&got, &r, sizeof r);
    }
    for (uint32_t i = 0; i < PL_RECENT_COUNT + 8; i++)
        ck_assert_int_eq(pl_thread_recall(t, i, &got), i >= 8);
    atomic_fetch_add(&t->recent[20].serial, 1); /* its owner is writing */
    ck_assert(!pl_thread_recall(t, 20, &got));
    ck_assert_uint_eq(pl_context_last_launches(ctx, &got, 1), PL_RECENT_COUNT - 1);
    ck_assert_uint_eq(got.n_threads, PL_RECENT_COUNT + 7);
}
END_TEST

/* Read beside launches, a record is of one launch: never one's name with another's grid. */
START_TEST(last_launches_beside_launches)
{
    pthread_t launcher;
    pl_launch_record last[32];
    unsigned n_seen = 0, n_torn = 0;
    void *failed;
    nd->is_recording = false;
    ck_assert_int_eq(pthread_create(&launcher, NULL, launch_two_kinds, args), 0);
    while (n_seen < 3000000) {
        size_t n = pl_context_last_launches(ctx, last, PL_COUNT(last));
        for (size_t i = 0; i < n && i < PL_COUNT(last); i++, n_seen++) {
            bool is_other = strncmp(last[i].entry, "pl_other_", 9) == 0;
            n_torn += last[i].grid[1] != (is_other ? 4 : 3);
        }
    }
    atomic_store(&is_over, true);
    pthread_join(launcher, &failed);
    ck_assert_ptr_null(failed);
    ck_assert_uint_eq(n_torn, 0);
}
END_TEST

/* ---- policies, capture ---- */

START_TEST(never_takes_the_nearest_prepared)
{
    pl_launch_options never = with(PL_COMPILE_NEVER), second = with(PL_COMPILE_BLOCK);
    pl_prepared *p;
    ck_assert_int_eq(launch_on(stream, &never), PL_E_NOT_CACHED);
    ck_assert_int_eq(err.code, 6122);
    second.config = 2; /* the other configuration, and tensors with fewer facts */
    args[0].u.tensor.address += 4;
    ck_assert_int_eq(pl_prepare(ctx, &kernel, args, 2, &second, &p, &err), PL_OK);
    args[0].u.tensor.address -= 4;
    ck_assert_int_eq(launch_on(stream, &never), PL_OK);
    ck_assert_uint_eq(stats().builds, 1);
    ck_assert_uint_eq(nd->config.grid[0], 1);
    set_args(3, 600, PL_F32); /* its grid is that of the variant: tiles of 512 */
    ck_assert_int_eq(launch_on(stream, &never), PL_OK);
    ck_assert_uint_eq(nd->config.grid[0], 2);
    set_args(3, 600, PL_F16); /* another dtype is no neighbour */
    ck_assert_int_eq(launch_on(stream, &never), PL_E_NOT_CACHED);
    pl_prepared_destroy(p);
}
END_TEST

/* A variant that relies on a fact does not serve tensors without it. */
START_TEST(never_respects_facts)
{
    pl_launch_options never = with(PL_COMPILE_NEVER);
    launch_ok();
    args[0].u.tensor.address += 4;
    ck_assert_int_eq(launch_on(stream, &never), PL_E_NOT_CACHED);
}
END_TEST

/* The status of an asynchronous launch once it is no longer pending. */
static pl_status launch_until_settled(const pl_kernel *k, int *n_pending)
{
    const pl_launch_options o = with(PL_COMPILE_ASYNC);
    for (*n_pending = 0; *n_pending < 100000; ++*n_pending) {
        pl_status st = pl_launch(ctx, k, stream, args, 2, &o, &err);
        if (st != PL_E_PENDING)
            return st;
        ck_assert_int_eq(err.code, 6125);
        usleep(100);
    }
    return PL_E_PENDING;
}

START_TEST(asynchronous_builds)
{
    int n_pending;
    nd->load_ns = 3000000;
    ck_assert_int_eq(launch_until_settled(&kernel, &n_pending), PL_OK);
    ck_assert_int_gt(n_pending, 0);
    ck_assert_uint_eq(stats().builds, 1);
    ck_assert_uint_eq(stats().launches, 1);
    launch_ok();
    ck_assert_uint_eq(stats().builds, 1);
    pl_kernel k = kernel;
    k.body = bad_body; /* its error comes with a later call, and stays */
    ck_assert_int_eq(launch_until_settled(&k, &n_pending), PL_E_INVALID);
    ck_assert_int_ne(err.code, 0);
    ck_assert_int_eq(launch_until_settled(&k, &n_pending), PL_E_INVALID);
    ck_assert_int_eq(n_pending, 0);
}
END_TEST

/* A blocking launch waits for the worker's build. */
START_TEST(blocking_beside_asynchronous)
{
    const pl_launch_options o = with(PL_COMPILE_ASYNC);
    nd->load_ns = 3000000;
    ck_assert_int_eq(launch_on(stream, &o), PL_E_PENDING);
    launch_ok();
    ck_assert_uint_eq(stats().builds, 1);
}
END_TEST

START_TEST(ending_with_builds_waiting)
{
    static const char *const names[6] = {"a", "b", "c", "d", "e", "f"};
    const pl_launch_options o = with(PL_COMPILE_ASYNC);
    pl_kernel k[6];
    nd->load_ns = 2000000;
    for (int i = 0; i < 6; i++) {
        k[i] = kernel;
        k[i].name = names[i];
        ck_assert_int_eq(pl_launch(ctx, &k[i], stream, args, 2, &o, &err), PL_E_PENDING);
    }
    pl_context_destroy(ctx);
    make_context(NULL);
}
END_TEST

/* Case 29. */
START_TEST(cold_launch_in_a_capture)
{
    nd->capture_status = PL_CU_CAPTURE_ACTIVE;
    ck_assert_int_eq(launch(), PL_E_CAPTURING);
    ck_assert_int_eq(err.code, 6123);
    ck_assert_uint_eq(stats().capture_miss, 1);
    ck_assert_uint_eq(nd->n_calls[ND_LibraryLoadData] + nd->n_calls[ND_CtxSynchronize], 0);
    nd->capture_status = PL_CU_CAPTURE_NONE;
    launch_ok();
    nd->capture_status = PL_CU_CAPTURE_ACTIVE;
    launch_ok();
    ck_assert_int_eq(launch_on((pl_stream)(uintptr_t)0x5001, NULL),
                     PL_E_CAPTURING); /* not loaded in that context */
    ck_assert_uint_eq(stats().capture_miss, 2);
}
END_TEST

START_TEST(legacy_stream_beside_a_capture)
{
    nd->fail_call = ND_StreamIsCapturing + 1;
    nd->fail_code = PL_CU_STREAM_CAPTURE_IMPLICIT;
    ck_assert_int_eq(launch_on(NULL, NULL), PL_E_CAPTURING);
    pl_prepared *p;
    ck_assert_int_eq(pl_prepare(ctx, &kernel, args, 2, NULL, &p, &err),
                     PL_OK); /* loads are RELAXED */
    pl_prepared_destroy(p);
}
END_TEST

/* ---- zero sizes and grids ---- */

/* Cases 62 and 71. */
START_TEST(nothing_to_do_is_success)
{
    for (int i = 0; i < 2; i++) {
        set_args(0, 5, PL_F32);
        args[0].u.tensor.address = args[1].u.tensor.address = 0;
        launch_ok();
        set_args(5, 0, PL_F32);
        launch_ok();
        ck_assert_uint_eq(stats().builds, (unsigned)i);
        ck_assert_uint_eq(stats().launches, (unsigned)i);
        set_args(5, 5, PL_F32);
        launch_ok();
    }
}
END_TEST

/* Case 61. */
START_TEST(long_grids_fold_into_x)
{
    set_args(70000, 300, PL_F32);
    launch_ok();
    ck_assert_uint_eq(nd->config.grid[0], 3 * 70000);
    ck_assert_uint_eq(nd->config.grid[1], 1);
    set_args(65535, 300, PL_F32);
    launch_ok();
    ck_assert_uint_eq(nd->config.grid[0], 3);
    ck_assert_uint_eq(nd->config.grid[1], 65535);
    set_args((int64_t)1 << 31, 1, PL_F32);
    ck_assert_int_eq(launch(), PL_E_INVALID);
    ck_assert_int_eq(err.code, 6132);
}
END_TEST

static void cluster_body(pl_builder *b, const void *params)
{
    pl_block_cluster(b, 2, 1, 1);
    body(b, params);
}

START_TEST(grids_are_multiples_of_the_cluster)
{
    pl_kernel k = kernel;
    k.body = cluster_body;
    set_args(3, 256, PL_F32);
    ck_assert_msg(pl_launch(ctx, &k, stream, args, 2, NULL, &err) == PL_OK, "%s", err.text);
    ck_assert_uint_eq(nd->config.n_attrs, 1);
    ck_assert_int_eq(nd->attrs[0].id, PL_CU_LAUNCH_CLUSTER_DIMENSION);
    ck_assert_uint_eq(nd->attrs[0].value.cluster.x, 2);
    ck_assert_uint_eq(nd->attrs[0].value.cluster.y, 1);
    set_args(3, 384, PL_F32); /* three blocks */
    ck_assert_int_eq(pl_launch(ctx, &k, stream, args, 2, NULL, &err), PL_E_INVALID);
    ck_assert_int_eq(err.code, 6134);
    ck_assert_int_eq(err.dimension, 0);
}
END_TEST

static void staged_body(pl_builder *b, const void *params)
{
    const pl_shape tile = PL_SHAPE(16, 128);
    (void)params;
    pl_offs at = PL_OFF(b, pl_program_id(b, 1), pl_program_id(b, 0));
    pl_ref s = pl_smem(b, PL_F32, tile, PL_SWIZZLE_NONE);
    pl_store(b, s, pl_load(b, pl_tile(b, pl_param(b, 0), at, tile)));
    pl_commit_smem(b);
    pl_store(b, pl_tile(b, pl_param(b, 1), at, tile), pl_load(b, s));
}

/* PL6133: the device's own figure, below its chip's, is what counts. */
START_TEST(more_shared_memory_than_the_device_has)
{
    pl_kernel k = kernel;
    k.body = staged_body;
    ctx->device.smem_bytes = 16 * 128 * 4 - 1;
    ck_assert_int_eq(pl_launch(ctx, &k, stream, args, 2, NULL, &err), PL_E_UNSUPPORTED);
    ck_assert_int_eq(err.code, 6133);
    ck_assert_int_ge(err.actual, 16 * 128 * 4);
    ck_assert_int_eq(err.expected, 16 * 128 * 4 - 1);
    ck_assert_uint_eq(nd->n_calls[ND_LibraryLoadData], 0);
    ctx->device.smem_bytes = err.actual;
    ck_assert_int_eq(pl_launch(ctx, &k, stream, args, 2, NULL, &err), PL_OK);
}
END_TEST

enum { N_MANY_PARAMS = 24 };

static void many_params_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_offs at = PL_OFF(b, pl_program_id(b, 1), pl_program_id(b, 0));
    pl_val sum = pl_load(b, pl_tile(b, pl_param(b, 0), at, PL_SHAPE(1, 128)));
    for (int i = 1; i < N_MANY_PARAMS - 1; i++)
        sum = pl_add(b, sum, pl_load(b, pl_tile(b, pl_param(b, i), at, PL_SHAPE(1, 128))));
    pl_store(b, pl_tile(b, pl_param(b, N_MANY_PARAMS - 1), at, PL_SHAPE(1, 128)), sum);
}

/* PL6135: each tensor brings its address, extents and strides. */
START_TEST(more_parameters_than_a_launch_takes)
{
    pl_param_decl many_decls[N_MANY_PARAMS];
    pl_arg many_args[N_MANY_PARAMS];
    pl_kernel k = kernel;
    for (int i = 0; i < N_MANY_PARAMS; i++) {
        many_decls[i] = decls[i == N_MANY_PARAMS - 1];
        many_args[i] = args[0];
        many_args[i].u.tensor.address += (uint64_t)i << 20;
    }
    k.params = many_decls;
    k.n_params = N_MANY_PARAMS;
    k.body = many_params_body;
    ck_assert_int_eq(pl_launch(ctx, &k, stream, many_args, N_MANY_PARAMS, NULL, &err),
                     PL_E_UNSUPPORTED);
    ck_assert_msg(err.code == 6135, "%s", err.text);
    ck_assert_uint_eq(nd->n_calls[ND_LibraryLoadData], 0);
}
END_TEST

/* ---- contexts and threads ---- */

/* Case 23: one variant, finalised in each CUDA context that launches it. */
START_TEST(two_cuda_contexts)
{
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(launch_on((pl_stream)(uintptr_t)0x5000, NULL), PL_OK);
        ck_assert_int_eq(launch_on((pl_stream)(uintptr_t)0x5001, NULL), PL_OK);
    }
    ck_assert_uint_eq(stats().builds, 1);
    ck_assert_uint_eq(nd->n_calls[ND_FuncLoad], 2);
    ck_assert_uint_eq(nd->n_calls[ND_LaunchKernelEx], 8);
}
END_TEST

/* Case 24. */
START_TEST(stream_of_another_device)
{
    ck_assert_int_eq(launch_on((pl_stream)(uintptr_t)0x5010, NULL), PL_E_INVALID);
    ck_assert_int_eq(err.code, 6131);
    ck_assert_int_eq(err.actual, 1);
    ck_assert_int_eq(err.expected, 0);
}
END_TEST

START_TEST(tensor_of_another_device)
{
    args[1].u.tensor.address |= (uint64_t)3 << 60; /* the do-nothing driver's way to say device 3 */
    ck_assert_int_eq(launch(), PL_E_INVALID);
    ck_assert_int_eq(err.code, 6130);
    ck_assert_int_eq(err.argument, 1);
    ck_assert_int_eq(err.actual, 3);
    ck_assert_uint_eq(stats().emitted, 0);
}
END_TEST

/* More contexts than there are slots: each launch finalises anew, and works. */
START_TEST(more_contexts_than_slots)
{
    for (int pass = 0; pass < 2; pass++)
        for (uintptr_t i = 0; i < 80; i++)
            ck_assert_int_eq(launch_on((pl_stream)(0x5000 + i / 16 * 0x100 + i % 16), NULL), PL_OK);
    ck_assert_uint_eq(stats().builds, 1);
    ck_assert_uint_eq(stats().launches, 160);
}
END_TEST

static void *launch_once(void *p)
{
    pl_arg mine[2];
    pl_error e;
    (void)p;
    memcpy(mine, args, sizeof mine);
    for (int i = 0; i < 50; i++)
        if (pl_launch(ctx, &kernel, i % 2 ? stream : NULL, mine, 2, NULL, &e) != PL_OK)
            return p;
    return NULL;
}

/* Case 22 through the public function; no thread has a current context. */
START_TEST(threads_share_one_build)
{
    pthread_t threads[64];
    nd->is_recording = false;
    nd->load_ns = 3000000;
    for (int i = 0; i < 64; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, launch_once, args), 0);
    for (int i = 0; i < 64; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    ck_assert_uint_eq(stats().builds, 1);
    ck_assert_uint_eq(stats().launches, 64 * 50);
    ck_assert_uint_eq(nd->n_calls[ND_LibraryLoadData], 1);
}
END_TEST

/* ---- eviction ---- */

/* Case 19: more variants than the driver holds. */
START_TEST(idle_modules_make_room)
{
    nd->max_libraries = 4;
    pl_kernel kernels[20];
    for (int pass = 0; pass < 3; pass++) {
        for (int i = 0; i < 20; i++) {
            static const char *const names[20] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j",
                                                  "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"};
            kernels[i] = kernel;
            kernels[i].name = names[i];
            ck_assert_int_eq(pl_launch(ctx, &kernels[i], stream, args, 2, NULL, &err), PL_OK);
        }
    }
    ck_assert_uint_gt(stats().evicted, 0);
    ck_assert_uint_eq(stats().launches, 60);
    ck_assert_uint_le(nd->n_calls[ND_LibraryLoadData] - nd->n_calls[ND_LibraryUnload], 4);
}
END_TEST

static pl_kernel many[12];

static void *launch_random(void *p)
{
    pl_error e;
    uint64_t state = (uint64_t)(uintptr_t)p;
    for (int i = 0; i < 300; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        if (pl_launch(ctx, &many[(state >> 40) % 12], stream, args, 2, NULL, &e) != PL_OK)
            return p;
    }
    return NULL;
}

static void make_many(void)
{
    static const char *const names[12] = {"a", "b", "c", "d", "e", "f",
                                          "g", "h", "i", "j", "k", "l"};
    for (int i = 0; i < 12; i++) {
        many[i] = kernel;
        many[i].name = names[i];
    }
}

/* Threads launch what others evict: nothing is unloaded between being found and being launched. */
START_TEST(eviction_beside_launches)
{
    pthread_t threads[4];
    nd->is_recording = false;
    nd->max_libraries = 8;
    make_many();
    for (uintptr_t i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, launch_random, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    ck_assert_uint_gt(stats().evicted, 0);
    ck_assert_uint_eq(stats().launches, 1200);
    ck_assert_uint_eq(nd->n_unloaded_launches, 0);
}
END_TEST

static struct pl_entry *the_entry;

static void note_the_entry(struct pl_entry *e, void *user)
{
    (void)user;
    the_entry = e;
}

static void *evict_now(void *p)
{
    (void)p;
    return (void *)(uintptr_t)pl_evict_idle(ctx);
}

/* Chosen while idle, pinned (as pl_prepare does, having it in use) before it is unloaded: then it stays. */
START_TEST(pinned_after_being_chosen)
{
    pthread_t evictor;
    void *n_evicted;
    launch_ok();
    pl_cache_each(&ctx->cache, note_the_entry, NULL);
    struct pl_variant *v = atomic_load(&the_entry->variant);
    struct pl_thread *mine = pl_thread_get(&ctx->threads);
    atomic_store(&mine->in_use, v);
    ck_assert_int_eq(pthread_create(&evictor, NULL, evict_now, NULL), 0);
    while (atomic_load(&the_entry->variant) != NULL)
        usleep(100);
    atomic_store(&v->is_pinned, true);
    atomic_store(&mine->in_use, NULL);
    pthread_join(evictor, &n_evicted);
    ck_assert_ptr_null(n_evicted);
    ck_assert_uint_eq(nd->n_calls[ND_LibraryUnload], 0);
    ck_assert_ptr_eq(ctx->modules.retired, v);
    launch_ok(); /* built again, on the module that is there */
    ck_assert_uint_eq(stats().builds, 2);
    ck_assert_uint_eq(nd->n_calls[ND_LibraryLoadData], 1);
}
END_TEST

static void *prepare_often(void *p)
{
    pl_error e;
    for (int i = 0; !atomic_load(&is_over); i++) {
        pl_prepared *one;
        if (pl_prepare(ctx, &many[i % 2], args, 2, NULL, &one, &e) != PL_OK)
            return p;
        if (pl_launch_prepared(one, stream, args, 2, &e) != PL_OK)
            return p;
        pl_prepared_destroy(one);
    }
    return NULL;
}

START_TEST(eviction_beside_prepares)
{
    pthread_t preparer, threads[3];
    void *failed;
    nd->is_recording = false;
    nd->max_libraries = 7;
    make_many();
    for (uintptr_t i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, launch_random, (void *)(i + 1)), 0);
    ck_assert_int_eq(pthread_create(&preparer, NULL, prepare_often, args), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    atomic_store(&is_over, true);
    pthread_join(preparer, &failed);
    ck_assert_ptr_null(failed);
    ck_assert_uint_gt(stats().evicted, 0);
    ck_assert_uint_eq(nd->n_unloaded_launches, 0);
}
END_TEST

START_TEST(pinned_modules_stay)
{
    pl_prepared *p[3];
    static const char *const names[3] = {"a", "b", "c"};
    pl_kernel k[3];
    nd->max_libraries = 2;
    for (int i = 0; i < 3; i++) {
        k[i] = kernel;
        k[i].name = names[i];
        pl_status st = pl_prepare(ctx, &k[i], args, 2, NULL, &p[i], &err);
        ck_assert_int_eq(st, i < 2 ? PL_OK : PL_E_NOMEM);
    }
    ck_assert_int_eq(pl_launch_prepared(p[0], stream, args, 2, &err), PL_OK);
    ck_assert_int_eq(pl_launch_prepared(p[0], stream, NULL, 2, &err), PL_E_INVALID);
    ck_assert_int_eq(err.code, 6110);
    ck_assert_uint_eq(nd->n_calls[ND_LibraryUnload], 0);
    pl_prepared_destroy(p[0]);
    pl_prepared_destroy(p[1]);
}
END_TEST

/* ---- prepared ---- */

START_TEST(prepared_launches)
{
    pl_prepared *p;
    ck_assert_int_eq(pl_prepare(ctx, &kernel, args, 2, NULL, &p, &err), PL_OK);
    for (int64_t n = 4; n < 1000; n += 100) {
        set_args(n, n, PL_F32);
        ck_assert_int_eq(pl_launch_prepared(p, stream, args, 2, &err), PL_OK);
        ck_assert_uint_eq(nd->config.grid[0], (unsigned)(n + 127) / 128);
        ck_assert_uint_eq(nd->config.grid[1], (unsigned)n);
    }
    set_args(0, 7, PL_F32);
    ck_assert_int_eq(pl_launch_prepared(p, stream, args, 2, &err), PL_OK);
    set_args(3, 100, PL_F16);
    ck_assert_int_eq(pl_launch_prepared(p, stream, args, 2, &err), PL_E_VARIANT);
    ck_assert_int_eq(err.code, 6124);
    set_args(3, 100, PL_F32);
    args[0].u.tensor.address += 4;
    ck_assert_int_eq(pl_launch_prepared(p, stream, args, 2, &err), PL_E_VARIANT);
    args[0].u.tensor.rank = 1;
    ck_assert_int_eq(pl_launch_prepared(p, stream, args, 2, &err), PL_E_INVALID);
    ck_assert_uint_eq(stats().builds, 1);
    pl_prepared_destroy(p);
    pl_prepared_destroy(NULL);
}
END_TEST

START_TEST(prepare_all_builds_every_variant)
{
    pl_launch_options never = with(PL_COMPILE_NEVER);
    ck_assert_int_eq(pl_prepare_all(ctx, &kernel, args, 2, NULL, &err), PL_OK);
    ck_assert_uint_eq(stats().builds, 8); /* two configurations, two facts */
    for (int i = 0; i < 8; i++) {
        set_args(3, i & 1 ? 100 : 2000, PL_F32);
        args[0].u.tensor.address += i & 2 ? 4 : 0;
        args[1].u.tensor.strides[0] = i & 4 ? (int64_t)1 << 33 : 2048;
        ck_assert_int_eq(launch_on(stream, &never), PL_OK);
    }
    ck_assert_uint_eq(stats().builds, 8);
    ck_assert_uint_eq(stats().hit_memory, 8);
}
END_TEST

START_TEST(packs_for_graphs)
{
    pl_prepared *p;
    static pl_pack pack;
    ck_assert_int_eq(pl_prepare(ctx, &kernel, args, 2, NULL, &p, &err), PL_OK);
    set_args(7, 300, PL_F32);
    ck_assert_int_eq(pl_launch_prepared(p, stream, args, 2, &err), PL_OK);
    ck_assert_int_eq(pl_prepared_pack(p, args, 2, &pack, &err), PL_OK);
    ck_assert(!pack.is_empty);
    ck_assert_ptr_nonnull(pack.function);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(pack.grid[i], nd->config.grid[i]);
        ck_assert_uint_eq(pack.block[i], nd->config.block[i]);
    }
    ck_assert_uint_eq(pack.smem_bytes, nd->config.dynamic_smem_bytes);
    ck_assert_uint_gt(pack.n_params, 2);
    ck_assert_mem_eq(pack.params[0], nd->block, 16); /* two addresses */
    for (uint32_t i = 0; i < pack.n_params; i++)
        ck_assert((unsigned char *)pack.params[i] >= pack.storage &&
                  (unsigned char *)pack.params[i] < pack.storage + sizeof pack.storage);
    set_args(0, 300, PL_F32);
    ck_assert_int_eq(pl_prepared_pack(p, args, 2, &pack, &err), PL_OK);
    ck_assert(pack.is_empty);
    pl_prepared_destroy(p);
}
END_TEST

/* ---- disk ---- */

static void use_disk(void)
{
    pl_context_destroy(ctx);
    const pl_context_options o = {.cache_dir = cache_folder};
    make_context(&o);
}

static void clear_disk(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s/*", cache_folder);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(second_process_reads_the_disk)
{
    use_disk();
    launch_ok();
    ck_assert_uint_eq(stats().hit_disk, 0);
    ck_assert_uint_eq(stats().assembled, 1);
    use_disk();
    launch_ok();
    ck_assert_uint_eq(stats().hit_disk, 1);
    ck_assert_uint_eq(stats().assembled, 0);
    ck_assert_uint_eq(stats().builds, 1);
}
END_TEST

static void other_body(pl_builder *b, const void *params)
{
    const struct config *c = params;
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    pl_offs at = PL_OFF(b, pl_program_id(b, 1), pl_program_id(b, 0));
    pl_val v = pl_load(b, pl_tile(b, x, at, PL_SHAPE(1, c->cols)));
    pl_store(b, pl_tile(b, y, at, PL_SHAPE(1, c->cols)), pl_mul(b, v, v));
}

/* An edited body of the same name never meets the old binary. */
START_TEST(edited_body)
{
    use_disk();
    launch_ok();
    pl_kernel k = kernel;
    k.body = other_body;
    use_disk();
    ck_assert_int_eq(pl_launch(ctx, &k, stream, args, 2, NULL, &err), PL_OK);
    ck_assert_uint_eq(stats().hit_disk, 0);
}
END_TEST

START_TEST(damaged_entry_is_rebuilt)
{
    char command[256];
    use_disk();
    launch_ok();
    snprintf(command, sizeof command,
             "for f in %s/[0-9a-f]*/*; do printf x | dd of=$f bs=1 seek=60 conv=notrunc "
             "2>/dev/null; done",
             cache_folder);
    ck_assert_int_eq(system(command), 0);
    use_disk();
    launch_ok();
    ck_assert_uint_eq(stats().corrupt, 1);
    ck_assert_uint_eq(stats().assembled, 1);
    use_disk();
    launch_ok();
    ck_assert_uint_eq(stats().hit_disk, 1);
}
END_TEST

/* What the report holds after a launch that may warn: the code of its only entry, 0 when it has none. */
static int warning_of(pl_status want, uint32_t flags)
{
    pl_report *report;
    pl_report_item item = {.code = 0};
    ck_assert_int_eq(pl_report_create(&report), PL_OK);
    pl_launch_options o = with(PL_COMPILE_BLOCK);
    o.report = report;
    o.flags = flags;
    ck_assert_int_eq(launch_on(stream, &o), want);
    ck_assert_uint_le(pl_report_count(report), 1);
    (void)pl_report_get(report, 0, &item);
    pl_report_destroy(report);
    return item.code;
}

START_TEST(disk_troubles_are_told)
{
    char command[256];
    const struct rlimit low = {40, RLIM_INFINITY}, high = {RLIM_INFINITY, RLIM_INFINITY};
    use_disk();
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &low), 0); /* no entry fits */
    ck_assert_int_eq(warning_of(PL_OK, 0), 6152);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &high), 0);
    use_disk();
    ck_assert_int_eq(warning_of(PL_OK, 0), 0);
    snprintf(command, sizeof command, "for f in %s/[0-9a-f]*/*; do truncate -s 50 $f; done",
             cache_folder);
    ck_assert_int_eq(system(command), 0);
    use_disk();
    ck_assert_int_eq(warning_of(PL_OK, 0), 6151);
}
END_TEST

START_TEST(assembler_notes)
{
    ctx->assembler.run = noting_assembler;
    ck_assert_int_eq(warning_of(PL_E_ASSEMBLER, PL_STRICT_NOTES), 7005);
    ck_assert_uint_eq(nd->n_calls[ND_LibraryLoadData], 0);
    ck_assert_int_eq(warning_of(PL_OK, 0), 7003);
    ck_assert_int_eq(warning_of(PL_OK, 0), 0); /* a hit has nothing to say */
}
END_TEST

/* Slow code that a lax process stored is refused by a strict one, and told by the next lax one. */
START_TEST(notes_of_stored_code)
{
    use_disk();
    ctx->assembler.run = noting_assembler;
    ck_assert_int_eq(warning_of(PL_OK, 0), 7003);
    for (int i = 0; i < 2; i++) {
        use_disk();
        ctx->assembler.run = refusing_assembler; /* nobody asks it */
        ck_assert_int_eq(warning_of(PL_E_ASSEMBLER, PL_STRICT_NOTES), 7005);
        ck_assert_ptr_nonnull(strstr(err.text, "20 bytes spill stores"));
        ck_assert_int_eq(warning_of(PL_OK, 0), 7003);
        ck_assert_uint_eq(stats().hit_disk, 2);
    }
    clear_disk(); /* and what a strict one could not use serves a lax one */
    use_disk();
    ctx->assembler.run = noting_assembler;
    ck_assert_int_eq(warning_of(PL_E_ASSEMBLER, PL_STRICT_NOTES), 7005);
    ck_assert_int_eq(warning_of(PL_OK, 0), 7003);
    ck_assert_uint_eq(stats().assembled, 1);
}
END_TEST

static void note_log(pl_severity_level level, const char *topic, const char *text, void *user)
{
    (void)topic, (void)user;
    ck_assert_int_eq(level, PL_LEVEL_WARNING);
    snprintf(logged, sizeof logged, "%s", text);
}

/* PL6150: there is no report before there is a context, so the log hears it; launches go on without the disk. */
START_TEST(open_folders_are_told)
{
    const pl_context_options o = {.cache_dir = cache_folder, .log = note_log};
    char want[256];
    pl_context_destroy(ctx);
    ck_assert_int_eq(chmod(cache_folder, 0777), 0);
    make_context(&o);
    snprintf(want, sizeof want, "the cache folder %s is not used: others may write to it",
             cache_folder);
    ck_assert_str_eq(logged, want);
    launch_ok();
    ck_assert_int_eq(rmdir(cache_folder), 0); /* nothing was put in it */
}
END_TEST

static pl_status absent_assembler(const struct pl_assembler *a, const struct pl_driver *driver,
                                  const struct pl_asm_request *q, struct pl_asm_result *out,
                                  struct pl_call *call)
{
    (void)a, (void)driver, (void)q, (void)out;
    return pl_e_assembler_absent(call, PL_E_ASSEMBLER, (struct pl_where){0}, "test", "gone");
}

/* What may pass is asked again. */
START_TEST(absences_are_not_remembered)
{
    ctx->assembler.run = absent_assembler;
    ck_assert_int_eq(launch(), PL_E_ASSEMBLER);
    ck_assert_int_eq(err.code, 7002);
    ctx->assembler.run = noting_assembler;
    launch_ok();
}
END_TEST

/* What the assembler refused is not asked again. */
START_TEST(refusals_are_remembered)
{
    ctx->assembler.run = refusing_assembler;
    ck_assert_int_eq(launch(), PL_E_ASSEMBLER);
    ck_assert_int_eq(err.code, 7001);
    ck_assert_int_eq(launch(), PL_E_ASSEMBLER);
    ck_assert_int_eq(err.code, 7001);
    ck_assert_int_eq(n_bodies, 1);
}
END_TEST

/* ---- memory ---- */

static int n_until_empty, n_live;

static void *get_scarce(size_t n_bytes, void *user)
{
    (void)user;
    if (n_until_empty-- <= 0)
        return NULL;
    n_live++;
    return malloc(n_bytes);
}

static void give_scarce(void *p, void *user)
{
    (void)user;
    n_live -= p != NULL;
    free(p);
}

START_TEST(out_of_memory_at_every_allocation)
{
    const pl_alloc_functions alloc = {.alloc = get_scarce, .free = give_scarce};
    const pl_context_options o = {.cache_dir = cache_folder, .alloc = &alloc};
    pl_context_destroy(ctx);
    bool was_enough = false;
    int n = 0;
    for (; !was_enough; n++) {
        n_until_empty = 1000;
        clear_disk(); /* so that storing needs its memory too */
        make_context(&o);
        n_until_empty = n;
        pl_status st = launch(); /* fine without storing, too */
        ck_assert_msg(st == PL_OK || st == PL_E_NOMEM, "%d: %s %s", n, pl_status_name(st),
                      err.text);
        was_enough = n_until_empty >= 0;
        n_until_empty = 1000;
        ck_assert_int_eq(launch(), PL_OK); /* it may be tried again */
        pl_context_destroy(ctx);
        ck_assert_int_eq(n_live, 0);
    }
    ck_assert_int_gt(n, 8);
    make_context(NULL);
}
END_TEST

START_TEST(scratch_limits)
{
    for (size_t limit = 1; limit < 100000000; limit *= 2) {
        pl_context_destroy(ctx);
        const pl_context_options o = {.cache_dir = "", .scratch_limit_bytes = limit};
        make_context(&o);
        pl_status st = launch();
        ck_assert_msg(st == PL_OK || (st == PL_E_NOMEM && err.code == 6114), "%zu: %s", limit,
                      err.text);
        if (st == PL_OK)
            return;
    }
    ck_abort_msg("no limit was enough");
}
END_TEST

/* A warm launch allocates nothing. */
START_TEST(warm_launches_allocate_nothing)
{
    const pl_alloc_functions alloc = {.alloc = get_scarce, .free = give_scarce};
    const pl_context_options o = {.cache_dir = "", .alloc = &alloc};
    pl_prepared *p;
    pl_context_destroy(ctx);
    n_until_empty = 1000;
    make_context(&o);
    launch_ok();
    ck_assert_int_eq(pl_prepare(ctx, &kernel, args, 2, NULL, &p, &err), PL_OK);
    n_until_empty = 0;
    for (int i = 1; i < 100; i++) {
        set_args(i, i * 4, PL_F32);
        launch_ok();
        ck_assert_int_eq(pl_launch_prepared(p, stream, args, 2, &err), PL_OK);
    }
    n_until_empty = 1000;
    pl_prepared_destroy(p);
}
END_TEST

/* ---- text without a device ---- */

static void collect(const char *text, size_t n_bytes, void *user) { strncat(user, text, n_bytes); }

START_TEST(text_without_a_device)
{
    static char text[3][100000];
    pl_emit_options o = {.struct_size = sizeof o, .arch = "sm_90a"};
    ck_assert_int_eq(pl_emit(&kernel, args, 2, &o, collect, text[0], &err), PL_OK);
    ck_assert_ptr_nonnull(strstr(text[0], ".entry pl_twice_"));
    ck_assert_ptr_null(strstr(text[0], "pl_twice_00000000"));
    set_args(77, 99, PL_F32); /* other extents, same text */
    ck_assert_int_eq(pl_emit(&kernel, args, 2, &o, collect, text[1], &err), PL_OK);
    ck_assert_str_eq(text[0], text[1]);
    o.kind = PL_TEXT_PLAN;
    ck_assert_int_eq(pl_emit(&kernel, args, 2, &o, collect, text[2], &err), PL_OK);
    ck_assert_str_ne(text[2], "");
    o.arch = "sm_75";
    ck_assert_int_eq(pl_emit(&kernel, args, 2, &o, collect, text[2], &err), PL_E_UNSUPPORTED);
    ck_assert_int_eq(err.code, 6106);
    o.arch = "90a";
    ck_assert_int_eq(pl_emit(&kernel, args, 2, &o, collect, text[2], &err), PL_E_UNSUPPORTED);
    ck_assert_int_eq(err.code, 6110); /* not "sm_0" */
    ck_assert_int_eq(pl_emit(&kernel, args, 2, NULL, collect, text[2], &err), PL_E_INVALID);
    ck_assert_uint_eq(nd->n_calls[ND_LaunchKernelEx], 0);
}
END_TEST

static Suite *make_suite(void)
{
    const struct {
        const char *name;
        const TTest *tests[16];
    } groups[] = {
        {"counts",
         {one_build_for_all_sizes, variants_are_what_changes_code, one_text_is_one_module,
          equal_launches_are_remembered, remembered_launches_and_prepared_ones, stage_times,
          debug_topics}},
        {"errors",
         {broken_arguments, broken_kernels, broken_scalars, configurations_that_are_not_listed,
          broken_bodies, recursion, recursion_from_callbacks, faults_name_the_last_launches,
          last_launches_beside_launches, records_are_whole, places_of_calls, null_pointers,
          rejections_are_told}},
        {"policies",
         {asynchronous_builds, blocking_beside_asynchronous, ending_with_builds_waiting,
          never_takes_the_nearest_prepared, never_respects_facts, cold_launch_in_a_capture,
          legacy_stream_beside_a_capture}},
        {"grids",
         {nothing_to_do_is_success, long_grids_fold_into_x, grids_are_multiples_of_the_cluster,
          more_shared_memory_than_the_device_has, more_parameters_than_a_launch_takes}},
        {"contexts",
         {two_cuda_contexts, stream_of_another_device, tensor_of_another_device,
          more_contexts_than_slots, threads_share_one_build}},
        {"eviction",
         {idle_modules_make_room, pinned_modules_stay, eviction_beside_launches,
          pinned_after_being_chosen, eviction_beside_prepares}},
        {"prepared", {prepared_launches, prepare_all_builds_every_variant, packs_for_graphs}},
        {"disk",
         {second_process_reads_the_disk, edited_body, damaged_entry_is_rebuilt,
          disk_troubles_are_told, assembler_notes, refusals_are_remembered,
          absences_are_not_remembered, open_folders_are_told, notes_of_stored_code}},
        {"memory",
         {out_of_memory_at_every_allocation, scratch_limits, warm_launches_allocate_nothing}},
        {"text", {text_without_a_device}},
    };
    Suite *s = suite_create("runtime_launch");
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        TCase *t = tcase_create(groups[i].name);
        tcase_add_checked_fixture(t, setup, teardown);
        tcase_set_timeout(t, 60);
        for (int k = 0; k < 16 && groups[i].tests[k] != NULL; k++)
            tcase_add_test(t, groups[i].tests[k]);
        if (i == 1)
            tcase_add_loop_test(t, each_driver_call_fails, 0,
                                (int)(sizeof launch_calls / sizeof *launch_calls));
        suite_add_tcase(s, t);
    }
    return s;
}
