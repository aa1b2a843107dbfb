/*
 * Gates against what the assembler was measured to take: tests/ptx/gates.tsv (every form on thirteen targets, and the lowest
 * .version of each), tests/ptx/forms.tsv (forms taken and refused), and the algebra of gates.
 */
#include "base/arena.h"
#include "base/buf.h"
#include "base/debug.h"
#include "jit/ptx/gate.h"
#include "jit/ptx/ptx.h"
#include "tests/ptx_text.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const struct target {
    uint16_t sm;
    char suffix;
} probed[] = {{80, 0},    {86, 0},  {89, 0},    {90, 0},    {90, 'a'}, {100, 0},  {100, 'f'},
              {100, 'a'}, {103, 0}, {103, 'f'}, {103, 'a'}, {120, 0},  {120, 'a'}};
enum { N_PROBED = sizeof probed / sizeof probed[0] };

/* The versions that the measurement tried. */
static const uint16_t versions[] = {60, 61, 62, 63, 64, 65, 70, 71, 72, 73, 74, 75,
                                    78, 80, 81, 82, 83, 84, 85, 86, 87, 88, 90};
enum { N_VERSIONS = sizeof versions / sizeof versions[0] };

static bool is_listed(const char *list, struct target t)
{
    char *end;
    unsigned long from = strtoul(list, &end, 10);
    if (*end == '+')
        return t.sm >= from;
    char word[16];
    snprintf(word, sizeof word, "%u%c", t.sm, t.suffix);
    for (const char *s = list; *s != 0;) {
        size_t n = strcspn(s, " ");
        if (n == strlen(word) && memcmp(s, word, n) == 0)
            return true;
        s += n;
        s += *s == ' ';
    }
    return false;
}

static bool is_taken(const char *form, uint16_t version, struct target t,
                     struct pl_ptx_error *error)
{
    struct pl_arena a = {0};
    struct pl_ptx_module m;
    const char *text = ptx_text_of(&a, version, t.sm, t.suffix, form);
    bool ok = pl_ptx_parse(text, strlen(text), &a, &m, error);
    pl_arena_fini(&a);
    return ok;
}

/* The first tried version at which some listed target takes the form; 0: none. Versions before 7.8 were tried on sm_80 only. */
static uint16_t lowest_version(const char *form, const char *list)
{
    struct pl_ptx_error error;
    for (size_t v = 0; v < N_VERSIONS; v++)
        for (size_t i = 0; i < N_PROBED; i++)
            if (is_listed(list, probed[i]) && (versions[v] >= 78 || probed[i].sm == 80) &&
                pl_ptx_target_version(probed[i].sm, probed[i].suffix) <= versions[v] &&
                is_taken(form, versions[v], probed[i], &error))
                return versions[v];
    return 0;
}

START_TEST(forms_are_taken_by_the_measured_targets_and_versions)
{
    struct pl_arena a = {0};
    struct ptx_lines lines = ptx_read_lines(&a, "tests/ptx/gates.tsv");
    ck_assert_uint_ge(lines.n, 389);
    int n_wrong = 0;
    for (size_t i = 0; i < lines.n; i++) {
        const char *const *c = lines.columns[i];
        struct pl_ptx_error error;
        for (size_t t = 0; t < N_PROBED; t++)
            if (is_taken(c[2], 90, probed[t], &error) != is_listed(c[1], probed[t])) {
                n_wrong++;
                printf("sm_%u%c, wanted %s: %s: %s\n", probed[t].sm,
                       probed[t].suffix ? probed[t].suffix : ' ', c[1], c[2], error.text);
            }
        uint16_t seen = lowest_version(c[2], c[1]),
                 wanted = (uint16_t)((c[0][0] - '0') * 10 + c[0][2] - '0');
        if (seen != wanted) {
            n_wrong++;
            printf("from .version %u, wanted %u: %s\n", seen, wanted, c[2]);
        }
    }
    ck_assert_int_eq(n_wrong, 0);
    pl_arena_fini(&a);
}
END_TEST

START_TEST(forms_are_taken_or_refused_as_measured)
{
    struct pl_arena a = {0};
    struct ptx_lines lines = ptx_read_lines(&a, "tests/ptx/forms.tsv");
    ck_assert_uint_ge(lines.n, 284);
    int n_wrong = 0;
    for (size_t i = 0; i < lines.n; i++) {
        const char *const *c = lines.columns[i];
        char *suffix;
        struct target t = {.sm = (uint16_t)strtoul(c[0] + 3, &suffix, 10)};
        t.suffix = *suffix;
        struct pl_ptx_error error = {0};
        bool ok = is_taken(c[3], (uint16_t)((c[1][0] - '0') * 10 + c[1][2] - '0'), t, &error);
        if (ok != (strcmp(c[2], "ok") == 0)) {
            n_wrong++;
            printf("%s %s wanted %s: %s: %s\n", c[0], c[1], c[2], c[3], error.text);
        }
    }
    ck_assert_int_eq(n_wrong, 0);
    pl_arena_fini(&a);
}
END_TEST

/* Columns: targets, instruction. */
START_TEST(suffixed_targets_take_forms_as_measured)
{
    static const struct target suffixed[] = {
        {90, 'a'},  {100, 'a'}, {100, 'f'}, {103, 'a'}, {103, 'f'}, {110, 0},   {110, 'a'},
        {110, 'f'}, {120, 0},   {120, 'a'}, {120, 'f'}, {121, 0},   {121, 'a'}, {121, 'f'}};
    struct pl_arena a = {0};
    struct ptx_lines lines = ptx_read_lines(&a, "tests/ptx/suffixes.tsv");
    ck_assert_uint_ge(lines.n, 20);
    for (size_t i = 0; i < lines.n; i++)
        for (size_t t = 0; t < sizeof suffixed / sizeof suffixed[0]; t++) {
            struct pl_ptx_error error = {0};
            bool ok = is_taken(lines.columns[i][1], 90, suffixed[t], &error);
            ck_assert_msg(ok == is_listed(lines.columns[i][0], suffixed[t]),
                          "sm_%u%c, wanted %s: %s: %s", suffixed[t].sm,
                          suffixed[t].suffix ? suffixed[t].suffix : ' ', lines.columns[i][0],
                          lines.columns[i][1], error.text);
        }
    pl_arena_fini(&a);
}
END_TEST

START_TEST(a_join_keeps_what_both_gates_take)
{
    struct pl_ptx_gate g = {0, 0, 0};
    ck_assert(pl_ptx_gate_join(&g, (struct pl_ptx_gate){70, 80, 0}));
    ck_assert(pl_ptx_gate_accepts(g, 70, 80, 0) && !pl_ptx_gate_accepts(g, 65, 80, 0) &&
              !pl_ptx_gate_accepts(g, 90, 75, 0));
    ck_assert(pl_ptx_gate_join(&g, pl_ptx_infos[PL_PTX_setmaxnreg].gate));
    ck_assert(pl_ptx_gate_accepts(g, 80, 90, 'a') && !pl_ptx_gate_accepts(g, 80, 90, 0));
    ck_assert(pl_ptx_gate_accepts(g, 88, 100, 'f') &&
              !pl_ptx_gate_accepts(g, 86, 100, 'f')); /* the target itself is 8.8 */
    struct pl_ptx_gate blackwell = g, hopper = g;
    ck_assert(pl_ptx_gate_join(&blackwell, pl_ptx_infos[PL_PTX_tcgen05_mma].gate));
    ck_assert(pl_ptx_gate_accepts_target(blackwell, 103, 'f') &&
              !pl_ptx_gate_accepts_target(blackwell, 90, 'a'));
    ck_assert(pl_ptx_gate_join(&hopper, pl_ptx_infos[PL_PTX_wgmma_fence].gate));
    ck_assert(
        !pl_ptx_gate_join(&hopper, pl_ptx_infos[PL_PTX_tcgen05_mma].gate)); /* no chip has both */
    ck_assert(pl_ptx_gate_accepts(hopper, 80, 90, 'a')); /* and the gate is as it was */
    struct pl_ptx_gate late = pl_ptx_infos[PL_PTX_setmaxnreg].gate;
    ck_assert(pl_ptx_gate_join(
        &late, pl_ptx_infos[PL_PTX_st_bulk].gate)); /* sm_100 and newer: 90a falls out */
    ck_assert(!pl_ptx_gate_accepts_target(late, 90, 'a') &&
              pl_ptx_gate_accepts_target(late, 100, 'a'));
}
END_TEST

START_TEST(the_lowest_header_has_the_least_suffix)
{
    char suffix;
    uint16_t version;
    ck_assert(
        pl_ptx_gate_lowest(pl_ptx_infos[PL_PTX_mbarrier_try_wait].gate, 90, &suffix, &version));
    ck_assert(suffix == 0 && version == 78);
    ck_assert(pl_ptx_gate_lowest(pl_ptx_infos[PL_PTX_wgmma_fence].gate, 90, &suffix, &version));
    ck_assert(suffix == 'a' && version == 80);
    ck_assert(pl_ptx_gate_lowest(pl_ptx_infos[PL_PTX_tcgen05_mma].gate, 100, &suffix, &version));
    ck_assert(suffix == 'f' && version == 88);
    ck_assert(pl_ptx_gate_lowest(pl_ptx_infos[PL_PTX_cvt_rs_x2_f32].gate, 103, &suffix, &version));
    ck_assert(suffix == 'a' && version == 88);
    ck_assert(!pl_ptx_gate_lowest(pl_ptx_infos[PL_PTX_wgmma_fence].gate, 100, &suffix, &version));
    ck_assert(pl_ptx_gate_lowest(pl_ptx_infos[PL_PTX_cvt_fp8x2_f32].gate, 89, &suffix, &version) &&
              version == 81);
    ck_assert(pl_ptx_gate_lowest(pl_ptx_infos[PL_PTX_cvt_fp8x2_f32].gate, 90, &suffix, &version) &&
              version == 78);
    ck_assert(!pl_ptx_gate_lowest(pl_ptx_infos[PL_PTX_add_int].gate, 42, &suffix, &version));
}
END_TEST

/* ORDER of gate.def: whoever looks for a form's rows stops at another form's. */
START_TEST(rows_of_a_form_stand_together)
{
    static const uint16_t forms[] = {
#define EVERY(cat, mod, ptx, sm)
#define GATE(form, cat, mod, ptx, sm) PL_PTX_##form,
#include "jit/ptx/gate.def"
#undef EVERY
#undef GATE
    };
    bool is_past[PL_PTX_COUNT] = {false};
    for (size_t i = 1; i < PL_COUNT(forms); i++) {
        is_past[forms[i - 1]] |= forms[i] != forms[i - 1];
        ck_assert_msg(!is_past[forms[i]], "%s", pl_ptx_infos[forms[i]].id);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("ptx_gate");
    TCase *t = tcase_create("measured");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, forms_are_taken_by_the_measured_targets_and_versions);
    tcase_add_test(t, forms_are_taken_or_refused_as_measured);
    tcase_add_test(t, suffixed_targets_take_forms_as_measured);
    tcase_add_test(t, a_join_keeps_what_both_gates_take);
    tcase_add_test(t, rows_of_a_form_stand_together);
    tcase_add_test(t, the_lowest_header_has_the_least_suffix);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
