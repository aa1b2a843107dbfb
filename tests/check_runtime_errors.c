/* What is wrong with a launch, and that it is told: over the do-nothing driver, which fails on request. */
#include "tests/launch_case.h"

static atomic_bool is_over; /* to a thread that goes on until then */

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

static uint32_t arrange_nothing(const pl_request *r, pl_arg *a)
{
    (void)r, (void)a;
    return 0;
}

/* Extents that the code counts on: compared at each launch; and only with those that are there, and stay. */
START_TEST(parameters_that_are_like_others)
{
    static const int16_t likes[] = {1, 2, 3, -1, 1, 1};
    enum { FINE = 0, TO_OPTIONAL = 4, ARRANGED = 5 };
    static pl_kernel k[PL_COUNT(likes)]; /* a kernel that was launched stays */
    static pl_param_decl pairs[PL_COUNT(likes)][2];
    for (size_t i = 0; i < PL_COUNT(likes); i++) {
        memcpy(pairs[i], decls, sizeof pairs[i]);
        pairs[i][1].like = likes[i];
        pairs[i][0].is_optional = i == TO_OPTIONAL;
        k[i] = kernel;
        k[i].params = pairs[i];
        k[i].arrange = i == ARRANGED ? arrange_nothing : NULL;
        ck_assert_int_eq(pl_launch(ctx, &k[i], stream, args, 2, NULL, &err),
                         i == FINE ? PL_OK : PL_E_INVALID);
        ck_assert(i == FINE || (err.code == 6120 && strstr(err.text, "like") != NULL));
    }
    args[1].u.tensor.shape[1]--;
    ck_assert_int_eq(pl_launch(ctx, &k[FINE], stream, args, 2, NULL, &err), PL_E_INVALID);
    ck_assert_int_eq(err.code, 6011);
    args[1].u.tensor.rank = 1;
    ck_assert_int_eq(pl_launch(ctx, &k[FINE], stream, args, 2, NULL, &err), PL_E_INVALID);
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
    const pl_fact_set four =
        PL_FACT_ALIGN16 | PL_FACT_ALIGN16_OUT | PL_FACT_I32 | PL_FACT_UNIT_STRIDE;
    static pl_kernel many[2]; /* a kernel that was launched stays */
    static pl_param_decl facts[2][2];
    for (int i = 0; i < 2; i++) {
        memcpy(facts[i], decls, sizeof facts[i]);
        facts[i][0].specialised = four;
        facts[i][1].specialised = i == 0 ? PL_FACT_WHOLE16 : PL_FACT_I32; /* five; four in all */
        many[i] = kernel;
        many[i].params = facts[i];
        ck_assert_int_eq(pl_launch(ctx, &many[i], stream, args, 2, NULL, &err),
                         i == 0 ? PL_E_INVALID : PL_OK);
        ck_assert(i != 0 || (err.code == 6120 && strstr(err.text, "four facts") != NULL));
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
        ck_assert_int_eq(err.code, i == 0 ? 6118 : 6120);
    }
    ck_assert_int_eq(pl_launch(ctx, NULL, stream, args, 2, NULL, &err), PL_E_INVALID);
    ck_assert_int_eq(pl_launch(NULL, &kernel, stream, args, 2, NULL, &err), PL_E_INVALID);
    ck_assert_int_eq(pl_launch(ctx, &kernel, stream, NULL, 2, NULL, &err), PL_E_INVALID);
    pl_launch_options o = {.struct_size = 1};
    ck_assert_int_eq(launch_on(stream, &o), PL_E_INVALID);
    ck_assert_int_eq(err.code, 6118);
    ck_assert(err.has_values && err.actual == 1 && err.expected == sizeof o);
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
START_TEST(options_that_mean_nothing)
{
    pl_launch_options o = with((pl_compile_policy)7);
    launch_ok(); /* remembered: the next one is not taken for the same */
    const uint64_t n = nd->n_calls[ND_LaunchKernelEx];
    ck_assert_int_eq(launch_on(stream, &o), PL_E_INVALID);
    ck_assert_int_eq(err.code, 6119);
    ck_assert_ptr_nonnull(strstr(err.text, "policy"));
    o = with(PL_COMPILE_BLOCK);
    o.flags = PL_STRICT_NOTES | 8;
    ck_assert_int_eq(launch_on(stream, &o), PL_E_INVALID);
    ck_assert_int_eq(err.code, 6119);
    ck_assert_ptr_nonnull(strstr(err.text, "flags"));
    ck_assert_int_eq(pl_prepare_all(ctx, &kernel, args, 2, &o, &err), PL_E_INVALID);
    args[1].u.tensor.strides[0] = 50; /* rows of 100 elements */
    ck_assert_int_eq(launch(), PL_E_INVALID);
    ck_assert_int_eq(err.code, 6009);
    ck_assert_uint_eq(nd->n_calls[ND_LaunchKernelEx], n);
}
END_TEST

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
    ck_assert_ptr_nonnull(strstr(err.file, "check_runtime_errors.c"));
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

START_TEST(broken_bodies)
{
    pl_kernel k = kernel;
    k.body = bad_body;
    ck_assert_int_eq(pl_launch(ctx, &k, stream, args, 2, NULL, &err), PL_E_INVALID);
    ck_assert_int_ne(err.code, 0);
    ck_assert_int_gt(err.line, 0);
    ck_assert_ptr_nonnull(strstr(err.file, "launch_case.h"));
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

static Suite *make_suite(void)
{
    const struct launch_group groups[] = {
        {"errors",
         {broken_arguments, parameters_that_are_like_others, broken_kernels, broken_scalars,
          options_that_mean_nothing, configurations_that_are_not_listed, broken_bodies, recursion,
          recursion_from_callbacks, faults_name_the_last_launches, last_launches_beside_launches,
          records_are_whole, places_of_calls, null_pointers, rejections_are_told}},
    };
    Suite *s = suite_create("runtime_errors");
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        TCase *t = add_group(s, &groups[i]);
        tcase_add_loop_test(t, each_driver_call_fails, 0,
                            (int)(sizeof launch_calls / sizeof *launch_calls));
    }
    return s;
}
