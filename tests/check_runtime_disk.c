/* The disk cache and assemblers as launches meet them, over the do-nothing driver. */
#include "tests/launch_case.h"

/* ---- disk ---- */

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

/* PLAUNCH_CACHE_RO_DIR: asked first, never written, by environment or by option. */
START_TEST(a_read_only_tier_serves)
{
    char other[96];
    use_disk();
    launch_ok();
    snprintf(other, sizeof other, "%s.two", cache_folder);
    ck_assert_int_eq(mkdir(other, 0700), 0);
    for (int by_option = 0; by_option < 2; by_option++) {
        const pl_context_options o = {.cache_dir = other,
                                      .cache_ro_dir = by_option ? cache_folder : NULL};
        setenv("PLAUNCH_CACHE_RO_DIR", by_option ? "/nowhere" : cache_folder, 1);
        pl_context_destroy(ctx);
        make_context(&o);
        launch_ok();
        ck_assert_uint_eq(stats().hit_disk, 1);
        ck_assert_uint_eq(stats().assembled, 0);
    }
    unsetenv("PLAUNCH_CACHE_RO_DIR");
    set_args(3, 100, PL_F16); /* what it has not goes to the other one */
    launch_ok();
    ck_assert_uint_eq(stats().assembled, 1);
    pl_context_destroy(ctx);
    const pl_context_options alone = {.cache_dir = other};
    make_context(&alone);
    launch_ok();
    ck_assert_uint_eq(stats().hit_disk, 1);
    set_args(3, 100, PL_F32);
    launch_ok();
    ck_assert_uint_eq(stats().hit_disk, 1); /* nothing was copied there */
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", other);
    ck_assert_int_eq(system(command), 0);
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

static Suite *make_suite(void)
{
    const struct launch_group groups[] = {
        {"disk",
         {second_process_reads_the_disk, a_read_only_tier_serves, edited_body,
          damaged_entry_is_rebuilt, disk_troubles_are_told, assembler_notes,
          refusals_are_remembered, absences_are_not_remembered, open_folders_are_told,
          notes_of_stored_code}},
    };
    Suite *s = suite_create("runtime_disk");
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        add_group(s, &groups[i]);
    return s;
}
