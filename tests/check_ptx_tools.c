/*
 * jit/ptx beside the CUDA toolkit, where there is one: ptxas takes the module of every row under its lowest header, with the
 * printer's text, and what nvcc prints for CUDA C++ is parsed. Exit status 77 without the toolkit.
 */
#include "jit/ptx/gate.h"
#include "jit/ptx/print.h"
#include "tests/ptx_text.h"

#include <check.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[] = "/tmp/plptxXXXXXX";
static struct pl_arena rows_arena;
static struct ptx_lines rows;

static const char *tool(const char *name)
{
    static char path[1024];
    const char *home = getenv("PL_CUDA_HOME");
    if (home == NULL || home[0] == 0)
        return NULL;
    snprintf(path, sizeof path, "%s/bin/%s", home, name);
    return access(path, X_OK) == 0 ? path : NULL;
}

static void write_file(const char *name, const char *text)
{
    FILE *f = fopen(name, "wb");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static char *read_file(struct pl_arena *a, const char *name, size_t *n_bytes)
{
    FILE *f = fopen(name, "rb");
    ck_assert_ptr_nonnull(f);
    char *text = pl_arena_alloc(a, 4 << 20);
    *n_bytes = fread(text, 1, (4 << 20) - 1, f);
    fclose(f);
    return text;
}

static bool ptxas_takes(const char *text, uint16_t sm, char suffix)
{
    char name[64], command[2048];
    snprintf(name, sizeof name, "%s/x.ptx", folder);
    write_file(name, text);
    snprintf(command, sizeof command, "%s -arch=sm_%u%.1s -c %s -o /dev/null >%s/log 2>&1",
             tool("ptxas"), sm, (char[]){suffix, 0}, name, folder);
    return system(command) == 0;
}

/* Rows that this assembler has no target for any more, or that need a type of operand that the test module lacks. */
static bool is_out_of_reach(enum pl_ptx_form form)
{
    return form == PL_PTX_shfl || form == PL_PTX_vote || form == PL_PTX_vote_ballot;
}

START_TEST(ptxas_takes_the_printed_row)
{
    enum pl_ptx_form form = (enum pl_ptx_form)_i;
    static const uint16_t chips[] = {80, 86, 89, 90, 100, 103, 120};
    if (is_out_of_reach(form))
        return;
    size_t line = 0;
    while (line < rows.n && strcmp(rows.columns[line][0], pl_ptx_infos[form].id) != 0)
        line++;
    ck_assert_uint_lt(line, rows.n);
    struct pl_arena a = {0};
    struct pl_ptx_module m;
    struct pl_ptx_error error;
    uint16_t version = 0;
    char suffix = 0;
    bool is_parsed = false;
    for (size_t i = 0; i < sizeof chips / sizeof chips[0] && !is_parsed; i++) {
        if (!pl_ptx_gate_lowest(pl_ptx_infos[form].gate, chips[i], &suffix, &version))
            continue;
        const char *text = ptx_text_of(&a, 90, chips[i], suffix, rows.columns[line][1]);
        if (!pl_ptx_parse(text, strlen(text), &a, &m, &error))
            continue;
        is_parsed = true;
        struct pl_ptx_gate gate = pl_ptx_gate_of_ins(&m.ins.data[0], m.pool.data);
        ck_assert(pl_ptx_gate_lowest(gate, chips[i], &suffix, &version));
        m.version = version < 83 ? 83 : version; /* the module around it has 128-bit registers */
        m.sm = chips[i];
        m.suffix = suffix;
        struct pl_buf b;
        pl_buf_init(&b, &a, 4096);
        pl_ptx_print_module(&b, &m);
        ck_assert_msg(ptxas_takes(b.text, chips[i], suffix), "%s\n%s", rows.columns[line][1],
                      b.text);
    }
    ck_assert(is_parsed);
    pl_arena_fini(&a);
}
END_TEST

static const char *const sources[] = {"calls.cu", "arith.cu", "sync.cu"};
static const struct {
    uint16_t sm;
    const char *options;
} builds[] = {{80, ""}, {90, "-lineinfo"}, {100, "-G"}, {120, "-rdc=true"}};

START_TEST(what_nvcc_prints_is_parsed_and_printed_back)
{
    size_t source = (size_t)_i / 4, build = (size_t)_i % 4;
    char command[2048], name[64];
    if (tool("nvcc") == NULL)
        return;
    snprintf(name, sizeof name, "%s/y.ptx", folder);
    snprintf(command, sizeof command,
             "%s -ptx -arch=sm_%u %s %s/tests/ptx/nvcc/%s -o %s >%s/log 2>&1", tool("nvcc"),
             builds[build].sm, builds[build].options, PL_SRCDIR, sources[source], name, folder);
    ck_assert_msg(system(command) == 0, "%s", command);
    struct pl_arena a = {0};
    size_t n_bytes;
    const char *text = read_file(&a, name, &n_bytes);
    struct pl_ptx_module m, again;
    struct pl_ptx_error error;
    ck_assert_msg(pl_ptx_parse(text, n_bytes, &a, &m, &error), "%s: %u:%u: %s", command, error.line,
                  error.column, error.text);
    struct pl_buf first, second;
    pl_buf_init(&first, &a, 4096);
    pl_ptx_print_module(&first, &m);
    ck_assert_msg(pl_ptx_parse(first.text, first.n_bytes, &a, &again, &error), "%u:%u: %s",
                  error.line, error.column, error.text);
    ck_assert_uint_eq(m.ins.n, again.ins.n);
    pl_buf_init(&second, &a, 4096);
    pl_ptx_print_module(&second, &again);
    ck_assert_str_eq(first.text, second.text);
    if (builds[build].options[0] != '-' ||
        builds[build].options[1] != 'r') /* an extern function is no whole program */
        ck_assert_msg(ptxas_takes(first.text, builds[build].sm, 0),
                      "%s as printed by us: see ptxas", command);
    pl_arena_fini(&a);
}
END_TEST

static void read_rows(void) { rows = ptx_read_lines(&rows_arena, "tests/ptx/rows.tsv"); }
static void free_rows(void) { pl_arena_fini(&rows_arena); }

int main(void)
{
    if (tool("ptxas") == NULL) {
        printf("no ptxas in PL_CUDA_HOME\n");
        return 77;
    }
    if (mkdtemp(folder) == NULL)
        return EXIT_FAILURE;
    Suite *s = suite_create("ptx_tools");
    TCase *t = tcase_create("ptxas");
    tcase_set_timeout(t, 60);
    tcase_add_unchecked_fixture(t, read_rows, free_rows);
    tcase_add_loop_test(t, ptxas_takes_the_printed_row, 1, PL_PTX_COUNT);
    suite_add_tcase(s, t);
    t = tcase_create("nvcc");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, what_nvcc_prints_is_parsed_and_printed_back, 0,
                        (int)(sizeof sources / sizeof sources[0]) * 4);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int n_failed = srunner_ntests_failed(r);
    srunner_free(r);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) == 0 && n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
