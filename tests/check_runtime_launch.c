/* Launches over the do-nothing driver: keys and counts, grids, prepared kernels, memory, texts. */
#include "tests/launch_case.h"
#include "tests/scarce.h"

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
    setenv("PLAUNCH_DEBUG", "plans, ptx", 1); /* one is none, and is told */
    logged[0] = '\0';
    pl_context_destroy(ctx);
    make_context(&o);
    launch_ok();
    ck_assert_str_eq(logged, "pl_context_create ptx ");
    char want[64];
    snprintf(want, sizeof want, pl_di_debug_topic.format, "plans");
    ck_assert_str_eq(warned, want);
}
END_TEST

/* PLAUNCH_DUMP: the text of each build, under the name of its entry. */
START_TEST(texts_are_dumped)
{
    char path[192], text[16384];
    pl_launch_record r;
    setenv("PLAUNCH_DUMP", cache_folder, 1);
    pl_context_destroy(ctx);
    make_context(NULL);
    launch_ok();
    launch_ok(); /* a hit writes nothing */
    ck_assert_uint_eq(pl_context_last_launches(ctx, &r, 1), 2);
    snprintf(path, sizeof path, "%s/%s.ptx", cache_folder, r.entry);
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f != NULL, "%s", path);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    ck_assert_ptr_nonnull(strstr(text, r.entry));
    ck_assert_int_eq(strncmp(text, ".version ", 9), 0);
    setenv("PLAUNCH_DUMP", "/nowhere/at/all", 1); /* does not disturb, and is told */
    pl_context_destroy(ctx);
    make_context(NULL);
    pl_report *report;
    pl_report_item item = {.code = 0};
    ck_assert_int_eq(pl_report_create(&report), PL_OK);
    pl_launch_options o = with(PL_COMPILE_BLOCK);
    o.report = report;
    ck_assert_int_eq(launch_on(stream, &o), PL_OK);
    ck_assert(pl_report_get(report, 0, &item) && item.code == 6153);
    ck_assert_ptr_nonnull(strstr(item.text, "/nowhere/at/all/pl_"));
    pl_report_destroy(report);
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

/* The permission to overlap is given to a text that waits, and to no other. */
START_TEST(an_overlapping_launch_is_permitted)
{
    pl_launch_options o = with(PL_COMPILE_BLOCK);
    set_args(3, 256, PL_F32);
    ck_assert_int_eq(launch_on(stream, &o), PL_OK);
    ck_assert_uint_eq(nd->config.n_attrs, 0);
    o.pdl = true;
    for (int i = 0; i < 2; i++) { /* built, then remembered */
        ck_assert_int_eq(launch_on(stream, &o), PL_OK);
        ck_assert_uint_eq(nd->config.n_attrs, 1);
        ck_assert_int_eq(nd->attrs[0].id, PL_CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION);
        ck_assert_int_eq(nd->attrs[0].value.flag, 1);
    }
    ck_assert_uint_eq(stats().builds, 2);
}
END_TEST

static void cluster_body(pl_builder *b, const void *params)
{
    pl_block_cluster(b, 2, 1, 1);
    body(b, params);
}

/* Case 60. */
START_TEST(clusters_that_fit_nowhere_are_named)
{
    pl_kernel k = kernel;
    k.body = cluster_body;
    set_args(3, 256, PL_F32);
    nd->fits_no_cluster = true;
    ck_assert_int_eq(pl_launch(ctx, &k, stream, args, 2, NULL, &err), PL_E_UNSUPPORTED);
    ck_assert_int_eq(err.code, 6136);
    ck_assert_ptr_nonnull(strstr(err.text, "cluster of 2 blocks"));
    ck_assert_uint_eq(nd->n_calls[ND_LaunchKernelEx], 0);
    launch_ok(); /* without a cluster */
    nd->fits_no_cluster = false;
    ck_assert_int_eq(pl_launch(ctx, &k, stream, args, 2, NULL, &err), PL_OK); /* nothing was kept */
}
END_TEST

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

/* ---- tensor maps ---- */

static void mapped_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref buf = pl_smem(b, PL_F32, PL_SHAPE(32, 32), PL_SWIZZLE_NONE);
    pl_bar full = pl_barrier(b, 1);
    pl_offs at = PL_OFF(b, pl_program_id(b, 1), pl_program_id(b, 0));
    pl_copy_gmem_to_smem(b, pl_tile(b, pl_param(b, 0), at, PL_SHAPE(32, 32)), buf, full);
    pl_barrier_wait(b, full);
    pl_store(b, pl_tile(b, pl_param(b, 1), at, PL_SHAPE(32, 32)), pl_load(b, buf));
}

/* Case 37: only the drivers and chips that encode maps wrongly have theirs mended. */
START_TEST(maps_of_some_drivers_are_mended)
{
    static const struct {
        int arch, version;
        bool is_mended;
    } cases[] = {{100, 13020, true}, {120, 12090, true}, {90, 13020, false}, {100, 13040, false}};
    static const pl_param_decl staged[] = {
        {.name = "x",
         .role = PL_ROLE_IN,
         .min_rank = 2,
         .max_rank = 2,
         .dtypes = PL_DT(F32),
         .required = PL_FACT_ALIGN16 | PL_FACT_I32 | PL_FACT_UNIT_STRIDE},
        {.name = "y", .role = PL_ROLE_OUT, .min_rank = 2, .max_rank = 2, .dtypes = PL_DT(F32)}};
    pl_kernel k = kernel;
    k.params = staged;
    k.body = mapped_body;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t words[2];
        pl_context_destroy(ctx);
        nd->arch = cases[i].arch;
        nd->driver_version = cases[i].version;
        make_context(NULL);
        args[0].u.tensor.strides[0] = 112; /* 3 rows of 100 */
        ck_assert_msg(pl_launch(ctx, &k, stream, args, 2, NULL, &err) == PL_OK, "%s", err.text);
        memcpy(words, nd->block, sizeof words); /* what is largest comes first */
        ck_assert_uint_eq(words[0], args[0].u.tensor.address);
        ck_assert_uint_eq(words[1] & 0xffff, 100);
        ck_assert_msg(((words[1] >> 21 & 1) == 0) == cases[i].is_mended, "sm_%d, driver %d",
                      cases[i].arch, cases[i].version);
    }
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

/* ---- memory ---- */

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
    ck_assert_int_gt(n, 6);
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
    const struct launch_group groups[] = {
        {"counts",
         {one_build_for_all_sizes, variants_are_what_changes_code, one_text_is_one_module,
          equal_launches_are_remembered, remembered_launches_and_prepared_ones, stage_times,
          debug_topics, texts_are_dumped}},
        {"grids",
         {nothing_to_do_is_success, long_grids_fold_into_x, grids_are_multiples_of_the_cluster,
          clusters_that_fit_nowhere_are_named, an_overlapping_launch_is_permitted,
          more_shared_memory_than_the_device_has, more_parameters_than_a_launch_takes}},
        {"maps", {maps_of_some_drivers_are_mended}},
        {"prepared", {prepared_launches, prepare_all_builds_every_variant, packs_for_graphs}},
        {"memory",
         {out_of_memory_at_every_allocation, scratch_limits, warm_launches_allocate_nothing}},
        {"text", {text_without_a_device}},
    };
    Suite *s = suite_create("runtime_launch");
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        add_group(s, &groups[i]);
    return s;
}
