/* All tables of diagnostics: codes are permanent and unique, and each row has its page, its remedy and a test that names it. */
#include "docs/explain.h"

#include <check.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct row {
    int code;
    const char *id, *severity, *format, *remedy, *source;
};
static const struct row rows[] = {
#define DIAG(code, id, severity, parameters, arguments, format, remedy, source)                    \
    {code, #id, #severity, format, remedy, source},
#include "docs/all_diags.def"
#undef DIAG
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

/* Rows of the emulated driver and of the library never meet in one program; those of jit/ptx (80xx) are in both. */
static bool may_meet(int x, int y)
{
    bool x_is_emu = x >= 8050 && x < 9000, y_is_emu = y >= 8050 && y < 9000;
    return x_is_emu == y_is_emu || x / 50 == 160 || y / 50 == 160;
}

START_TEST(codes_and_ids_are_unique)
{
    for (int i = 0; i < _i; i++) {
        ck_assert_int_ne(rows[i].code, rows[_i].code);
        if (may_meet(rows[i].code, rows[_i].code))
            ck_assert_str_ne(rows[i].id, rows[_i].id);
    }
    ck_assert(rows[_i].code >= 1000 && rows[_i].code <= 9999);
}
END_TEST

START_TEST(rows_say_what_to_do)
{
    const struct row *r = &rows[_i];
    bool is_severity = strcmp(r->severity, "ERROR") == 0 || strcmp(r->severity, "WARNING") == 0 ||
                       strcmp(r->severity, "NOTE") == 0;
    ck_assert_msg(is_severity, "PL%d: %s", r->code, r->severity);
    ck_assert_msg(r->format[0] != '\0' && r->remedy[0] != '\0' && r->source[0] != '\0', "PL%d",
                  r->code);
    ck_assert_msg(r->format[strlen(r->format) - 1] != '.' &&
                      r->format[strlen(r->format) - 1] != '\n',
                  "PL%d ends like a sentence", r->code);
}
END_TEST

static const struct pl_explain *page_of(int code)
{
    for (size_t i = 0; i < pl_n_explains; i++)
        if (pl_explains[i].code == code)
            return &pl_explains[i];
    return NULL;
}

START_TEST(rows_have_a_page)
{
    static const char *const sections[] = {"\n## When\n",    "\n## Common situations\n",
                                           "\n## Fix\n",     "\n## Test beforehand\n",
                                           "\n## Related\n", "\n## Counterpart\n"};
    const struct row *r = &rows[_i];
    const struct pl_explain *page = page_of(r->code);
    ck_assert_msg(page != NULL && page->text[0] != '\0', "docs/explain/PL%d.md is missing",
                  r->code);
    char title[120];
    snprintf(title, sizeof title, "# PL%d %s\n", r->code, r->id);
    ck_assert_msg(strncmp(page->text, title, strlen(title)) == 0, "PL%d: the first line is not: %s",
                  r->code, title);
    const char *at = page->text;
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        const char *next = strstr(at, sections[i]);
        ck_assert_msg(next != NULL, "PL%d: no section, or not in order: %s", r->code, sections[i]);
        at = next + 1;
        const char *body = next + strlen(sections[i]);
        ck_assert_msg(body[0] != '\0' && body[0] != '#', "PL%d: an empty section: %s", r->code,
                      sections[i]);
    }
    ck_assert_str_eq(page->id, r->id);
}
END_TEST

START_TEST(pages_have_a_row)
{
    bool has = false;
    for (int i = 0; i < N_ROWS; i++)
        has = has || rows[i].code == pl_explains[_i].code;
    ck_assert(has);
    ck_assert(_i == 0 || pl_explains[_i - 1].code < pl_explains[_i].code);
}
END_TEST

/* No page without a row: a retired code keeps neither. */
START_TEST(no_page_is_left_over)
{
    DIR *d = opendir(PL_SRCDIR "/docs/explain");
    ck_assert_ptr_nonnull(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        int code = 0;
        if (sscanf(e->d_name, "PL%d.md", &code) == 1)
            ck_assert_msg(page_of(code) != NULL, "%s has no row", e->d_name);
    }
    closedir(d);
}
END_TEST

/* ---- no table is left out of docs/all_diags.def ---- */

/* The rows of one .def file that the list does not have. */
static int count_unlisted(const char *path)
{
    char line[1024];
    int n = 0, code;
    FILE *f = fopen(path, "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "DIAG(%d", &code) == 1) {
            bool has = false;
            for (int i = 0; i < N_ROWS; i++)
                has = has || rows[i].code == code;
            n += !has;
        }
    if (f != NULL)
        fclose(f);
    return n;
}

START_TEST(every_table_is_listed)
{
    static const char *const folders[] = {"base", "src/ir",  "src/check", "src/plan", "src/runtime",
                                          "jit",  "jit/ptx", "emu",       "tools"};
    char folder[512], path[1024];
    snprintf(folder, sizeof folder, "%s/%s", PL_SRCDIR, folders[_i]);
    DIR *d = opendir(folder);
    ck_assert_ptr_nonnull(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        const char *dot = strrchr(e->d_name, '.');
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (dot != NULL && strcmp(dot, ".def") == 0)
            ck_assert_msg(count_unlisted(path) == 0,
                          "%s has rows that docs/all_diags.def does not list", path);
    }
    closedir(d);
}
END_TEST

/* ---- every row is raised by a test that names its code where codes are written, not by a number that happens to be there ---- */

static char *test_texts; /* all sources and data of tests/, one after the other */
static size_t n_text_bytes;

static void add_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return;
    test_texts = realloc(test_texts, n_text_bytes + (1 << 20) + 1);
    n_text_bytes += fread(test_texts + n_text_bytes, 1, 1 << 20, f);
    test_texts[n_text_bytes] = '\0';
    for (size_t i = 0; i < n_text_bytes; i++)
        if (test_texts[i] == '\0')
            test_texts[i] = ' ';
    fclose(f);
}

static void add_folder(const char *folder)
{
    DIR *d = opendir(folder);
    if (d == NULL)
        return;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        const char *dot = strrchr(e->d_name, '.');
        bool is_text = dot != NULL && (strcmp(dot, ".c") == 0 || strcmp(dot, ".h") == 0 ||
                                       strcmp(dot, ".ir") == 0 || strcmp(dot, ".ptx") == 0 ||
                                       strcmp(dot, ".sh") == 0 || strcmp(dot, ".def") == 0);
        if (is_text && strcmp(e->d_name, "check_diag.c") != 0)
            add_file(path);
    }
    closedir(d);
}

/* What stands right before a code: "PL" itself, the rows of a table of cases, the entry of a faulting kernel. */
static const char *const before_codes[] = {"PL",       "{",  "R(",           "BODY(",
                                           ".entry e", "_e", "_rows[_i] == "};
/* What stands before it on its line: a comparison with a code, or a function of tests that gives one. */
static const char *const on_lines[] = {"code, ", "code == ", "warning_of(", "bad_call("};

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Line [line, at) ends in one of the first, or holds one of the second. */
static bool is_code_place(const char *line, const char *at)
{
    for (size_t i = 0; i < sizeof before_codes / sizeof before_codes[0]; i++) {
        size_t n = strlen(before_codes[i]);
        if ((size_t)(at - line) >= n && memcmp(at - n, before_codes[i], n) == 0)
            return true;
    }
    for (size_t i = 0; i < sizeof on_lines / sizeof on_lines[0]; i++) {
        const char *mark = strstr(line, on_lines[i]);
        if (mark != NULL && mark < at && at[-1] == ' ')
            return true;
    }
    return false;
}

static bool is_raised(int number)
{
    char code[16];
    snprintf(code, sizeof code, "%d", number);
    for (const char *p = strstr(test_texts, code); p != NULL; p = strstr(p + 1, code)) {
        const char *line = p;
        while (line > test_texts && line[-1] != '\n')
            line--;
        if (!is_word(p[strlen(code)]) && is_code_place(line, p))
            return true;
    }
    return false;
}

/* Compared with the row itself. */
static bool is_row_named(const char *id)
{
    char row[80];
    snprintf(row, sizeof row, "pl_di_%s", id);
    for (const char *p = strstr(test_texts, row); p != NULL; p = strstr(p + 1, row))
        if (!is_word(p[strlen(row)]) && p[strlen(row)] != '_')
            return true;
    return false;
}

START_TEST(rows_are_raised_by_a_test)
{
    ck_assert_msg(is_raised(rows[_i].code) || is_row_named(rows[_i].id), "no test raises PL%d %s",
                  rows[_i].code, rows[_i].id);
}
END_TEST

/* The search itself: a digit elsewhere does not count. */
START_TEST(other_numbers_are_no_codes)
{
    char text[] =
        "x = 1200; y[1201]; pl_alloc(1202, n); f(a, 1203);\n{12040, 1}; PL12050\n"
        "bad_call(x);\n g(y, 1206);\nck(err.code, 1207); {1208, 0}; ck(bad_call(z), 1209)";
    char *all = test_texts;
    test_texts = text;
    for (int code = 1200; code < 1210; code++)
        ck_assert_msg(is_raised(code) == (code >= 1207), "%d", code);
    test_texts = all;
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("diag");
    TCase *t = tcase_create("rows");
    add_folder(PL_SRCDIR "/tests");
    add_folder(PL_SRCDIR "/tests/ptx");
    add_folder(PL_SRCDIR "/tests/ir");
    tcase_add_loop_test(t, codes_and_ids_are_unique, 0, N_ROWS);
    tcase_add_loop_test(t, rows_say_what_to_do, 0, N_ROWS);
    tcase_add_loop_test(t, rows_have_a_page, 0, N_ROWS);
    tcase_add_loop_test(t, pages_have_a_row, 0, (int)pl_n_explains);
    tcase_add_loop_test(t, rows_are_raised_by_a_test, 0, N_ROWS);
    tcase_add_test(t, other_numbers_are_no_codes);
    tcase_add_test(t, no_page_is_left_over);
    tcase_add_loop_test(t, every_table_is_listed, 0, 9);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
