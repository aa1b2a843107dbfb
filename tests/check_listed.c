/*
 * Every instruction of the lists of forms (tests/ptx/gates.tsv, suffixes.tsv, forms.tsv) is decoded by the emulated driver for a
 * chip that has it, or refused at load by line and with the reason of its row: none falls between.
 */
#include "emu/exec.h"
#include "emu/launch.h"
#include "tests/ptx_text.h"

#include <check.h>
#include <string.h>

enum { REFUSED = 8050, UNRESOLVED = 8052, VERSION = 90 };

static int n_loaded, n_refused, n_wrong;

/* "sm_90a", "90+", "100f 100a": the last of the list. */
static uint16_t sm_of(const char *targets, char *suffix)
{
    const char *last = strrchr(targets, ' ');
    const char *at = last != NULL ? last + 1 : targets;
    char *end;
    at += strncmp(at, "sm_", 3) == 0 ? 3 : 0;
    uint16_t sm = (uint16_t)strtoul(at, &end, 10);
    *suffix = *end == 'a' || *end == 'f' ? *end : 0;
    return sm;
}

static bool is_refused_row(const char *text, size_t n_bytes)
{
    struct pl_arena a = {0};
    struct pl_ptx_module m;
    struct pl_ptx_error e;
    bool is_refused = false;
    if (pl_ptx_parse(text, n_bytes, &a, &m, &e))
        for (uint32_t i = 0; i < m.ins.n; i++)
            is_refused |= pl_emu_forms[m.ins.data[i].form].how == PL_EMU_HOW_REFUSED;
    pl_arena_fini(&a);
    return is_refused;
}

static void load_one(uint16_t sm, char suffix, const char *instruction)
{
    struct pl_arena a = {0};
    const char *text = ptx_text_of(&a, VERSION, sm, suffix, instruction);
    struct pl_emu_config c = {.sm = sm, .n_sms = 1, .memory_bytes = 1 << 20, .n_threads = 1};
    struct pl_emu_device *d = pl_emu_device_create(&c);
    struct pl_emu_program *p = NULL;
    struct pl_emu_fault fault = {0};
    ck_assert_ptr_nonnull(d);
    bool is_loaded = pl_emu_program_load(d, text, strlen(text), &p, &fault);
    bool is_refused = is_refused_row(text, strlen(text));
    bool is_external = fault.code == UNRESOLVED; /* a function that no module defines */
    n_loaded += is_loaded;
    n_refused += !is_loaded && fault.code == REFUSED;
    if (is_loaded ? is_refused : !is_external && (fault.code != REFUSED || !is_refused)) {
        n_wrong++;
        printf("sm_%u%c %s: PL%d %s\n", sm, suffix != 0 ? suffix : ' ', instruction, fault.code,
               fault.text);
    }
    if (is_loaded)
        pl_emu_program_unload(p);
    pl_emu_device_destroy(d);
    pl_arena_fini(&a);
}

static const struct list {
    const char *path;
    int targets, verdict, instruction; /* columns; -1: none */
} lists[] = {{"tests/ptx/gates.tsv", 1, -1, 2},
             {"tests/ptx/suffixes.tsv", 0, -1, 1},
             {"tests/ptx/forms.tsv", 0, 2, 3}};
enum { N_LISTS = sizeof lists / sizeof lists[0] };

START_TEST(listed_forms_are_decoded_or_refused_by_their_row)
{
    const struct list *l = &lists[_i];
    struct pl_arena a = {0};
    struct ptx_lines lines = ptx_read_lines(&a, l->path);
    n_loaded = n_refused = n_wrong = 0;
    for (size_t i = 0; i < lines.n; i++) {
        const char *const *c = lines.columns[i];
        char suffix;
        if (l->verdict >= 0 && strcmp(c[l->verdict], "ok") != 0)
            continue;
        uint16_t sm = sm_of(c[l->targets], &suffix);
        load_one(sm, suffix, c[l->instruction]);
    }
    printf("%s: %d decoded, %d refused, %d neither\n", l->path, n_loaded, n_refused, n_wrong);
    ck_assert_int_eq(n_wrong, 0);
    ck_assert_int_gt(n_loaded, 20);
    pl_arena_fini(&a);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("listed");
    TCase *t = tcase_create("lists");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, listed_forms_are_decoded_or_refused_by_their_row, 0, N_LISTS);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
