/*
 * The race check of the emulated driver against the race cases: every row of tests/race_cases.tsv, its family's script printed as PTX,
 * under each order of asynchrony, since what races does not depend on when the emulator moves the data.
 */
#include "emu/launch.h"
#include "tests/race_script.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 700, MAX_FAMILIES = 120, MAX_SCRIPT = 1 << 15, N_POLICIES = 3 };
enum {
    MEMORY_BYTES = 1 << 16,
    FIRST_RACE = 9000,
    DEADLOCK = 8086,
    EXIT_FIRST = 8280,
    EXIT_LAST = 8399
};

static struct row {
    char number[8], family[8], options[24], verdict[8];
} rows[MAX_ROWS];
static struct family {
    char name[8];
    char *script;
} families[MAX_FAMILIES];
static int n_rows, n_families;

/* ---- the files ------------------------------------------------------------------------------------------------------- */

static FILE *open_file(const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/tests/%s", PL_SRCDIR, name);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        perror(path);
    return f;
}

static void read_rows(void)
{
    FILE *f = open_file("race_cases.tsv");
    char line[300];
    while (f != NULL && fgets(line, sizeof line, f) != NULL && n_rows < MAX_ROWS) {
        struct row *r = &rows[n_rows];
        if (line[0] != '#' &&
            sscanf(line, "%7s %7s %23s %7s", r->number, r->family, r->options, r->verdict) == 4)
            n_rows++;
    }
    if (f != NULL)
        fclose(f);
}

static void read_families(void)
{
    FILE *f = open_file("race_cases.txt");
    static char line[4000];
    while (f != NULL && fgets(line, sizeof line, f) != NULL && n_families < MAX_FAMILIES) {
        struct family *m = &families[n_families];
        char *tab = strchr(line, '\t');
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '#' || tab == NULL)
            continue;
        *tab = '\0';
        snprintf(m->name, sizeof m->name, "%.7s", line);
        m->script = strdup(tab + 1);
        n_families++;
    }
    if (f != NULL)
        fclose(f);
}

/* ---- scripts of the cluster families: they follow from the shape of the cluster ---------------------------------------------- */

static void add(char *script, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(char *script, const char *format, ...)
{
    va_list args;
    size_t n = strlen(script);
    va_start(args, format);
    vsnprintf(script + n, MAX_SCRIPT - n, format, args);
    va_end(args);
}

/* C1, C5 to C7: two CTAs exchange a value each, for every barrier of an array. */
static void exchange(char *script, int n_bars, bool is_waiting)
{
    for (int i = 0; i < n_bars; i++)
        add(script, "K%d*2 ", i);
    for (int c = 0; c < 2; c++) {
        add(script, "%s%d.A: ", c == 0 ? "" : "| ", c);
        for (int i = 0; i < n_bars; i++) {
            add(script, "wrg G%d; arrive@0 K%d; arrive@1 K%d; ", 2 * i + c, i, i);
            if (is_waiting)
                add(script, "wait K%d; ", i);
            add(script, "rdg G%d; ", 2 * i + 1 - c);
        }
    }
}

/* C2: n CTAs in a ring, n rounds; the wait of round `left_out` is missing. */
static void ring(char *script, int n, int left_out)
{
    for (int r = 0; r < n; r++)
        add(script, "K%d*%d ", r, n);
    for (int c = 0; c < n; c++) {
        add(script, "%s%d.A: wrg G%d; ", c == 0 ? "" : "| ", c, c);
        for (int r = 0; r < n; r++) {
            for (int to = 0; to < n; to++)
                add(script, "arrive@%d K%d; ", to, r);
            if (r != left_out)
                add(script, "wait K%d; ", r);
            add(script, "rdg G%d; wrg G%d; ", r * n + (c + 1) % n, (r + 1) * n + c);
        }
        add(script, "rdg G%d; ", n * n + c);
    }
}

/* C4: a mesh; barriers reach the CTAs that differ in one collective axis, reads the slice that all of them span. */
struct mesh {
    int n[3], stride[3], n_ctas, n_threads;
    bool is_collective[3];
};

static int coord(const struct mesh *m, int cta, int axis)
{
    return cta / m->stride[axis] % m->n[axis];
}

/* How many axes two CTAs differ in; -1: also in one that is not collective. */
static int distance(const struct mesh *m, int a, int b)
{
    int n = 0;
    for (int k = 0; k < 3; k++)
        if (coord(m, a, k) != coord(m, b, k)) {
            if (!m->is_collective[k])
                return -1;
            n++;
        }
    return n;
}

static void mesh_thread(char *script, const struct mesh *m, int c, int t, bool is_waiting)
{
    add(script, "%s%d.%d: wrg G%d; ", c + t == 0 ? "" : "| ", c, t, c * m->n_threads + t);
    for (int to = 0; to < m->n_ctas; to++)
        if (distance(m, c, to) == 0 || distance(m, c, to) == 1)
            add(script, "arrive@%d K; ", to);
    if (is_waiting)
        add(script, "wait K; ");
    for (int from = 0; from < m->n_ctas; from++)
        for (int k = 0; k < m->n_threads && distance(m, c, from) >= 0; k++)
            add(script, "rdg G%d; ", from * m->n_threads + k);
}

static void mesh(char *script, const char *options)
{
    struct mesh m = {.n = {1, 1, 1}, .n_ctas = 1};
    char shape[16], axes[8];
    int is_waiting = 0, n_reaching = 1;
    sscanf(options, "%15[0-9x],%d,%7[-0-9],%d", shape, &m.n_threads, axes, &is_waiting);
    sscanf(shape, "%dx%dx%d", &m.n[0], &m.n[1], &m.n[2]);
    for (int k = 0; k < 3; k++) {
        m.stride[k] = m.n_ctas;
        m.n_ctas *= m.n[k];
        m.is_collective[k] = strchr(axes, '0' + k) != NULL;
        n_reaching += m.is_collective[k] ? m.n[k] - 1 : 0;
    }
    add(script, "K*%d ", n_reaching * m.n_threads);
    for (int c = 0; c < m.n_ctas; c++)
        for (int t = 0; t < m.n_threads; t++)
            mesh_thread(script, &m, c, t, is_waiting != 0);
}

/* C3: 2 x 2; the reader at (1, 1) reads what (0, 0) wrote, which never arrived there. */
static void diagonal(char *script)
{
    add(script, "K*3 ");
    for (int c = 0; c < 4; c++) {
        add(script, "%s%d.A: wrg G%d; ", c == 0 ? "" : "| ", c, c);
        for (int to = 0; to < 4; to++)
            if ((c ^ to) != 3)
                add(script, "arrive@%d K; ", to);
        add(script, "wait K; rdg G%d; ", c == 3 ? 0 : c);
    }
}

static bool script_of(const struct row *r, char *script)
{
    script[0] = '\0';
    switch (r->family[0] == 'C' ? r->family[1] : 0) {
    case '1': exchange(script, 1, r->options[0] == '1'); return true;
    case '2': ring(script, r->options[0] - '0', r->options[1] - '0'); return true;
    case '3': diagonal(script); return true;
    case '4': mesh(script, r->options); return true;
    case '5': exchange(script, 2, r->options[0] == '1'); return true;
    case '6': exchange(script, 6, r->options[0] == '1'); return true;
    case '7': exchange(script, 3, r->options[0] == '1'); return true;
    default: break;
    }
    for (int i = 0; i < n_families; i++)
        if (strcmp(families[i].name, r->family) == 0) {
            snprintf(script, MAX_SCRIPT, "%s", families[i].script);
            return true;
        }
    return false;
}

/* ---- runs -------------------------------------------------------------------------------------------------------------------- */

static void run(const struct race_program *p, int policy, struct pl_emu_fault *fault)
{
    static const enum pl_emu_policy policies[N_POLICIES] = {PL_EMU_ASYNC_EAGER, PL_EMU_ASYNC_LATE,
                                                            PL_EMU_ASYNC_RANDOM};
    struct pl_emu_config c = {.sm = 100,
                              .memory_bytes = 1 << 24,
                              .check = PL_EMU_CHECK_RACE,
                              .policy = policies[policy],
                              .seed = 11,
                              .n_threads = 1,
                              .step_limit = 1 << 20};
    struct pl_emu_device *d = pl_emu_device_create(&c);
    struct pl_emu_program *program = NULL;
    ck_assert_msg(pl_emu_program_load(d, p->text, strlen(p->text), &program, fault), "%u: %s\n%s",
                  fault->line, fault->text, p->text);
    uint64_t g = pl_emu_memory_alloc(pl_emu_device_memory(d), MEMORY_BYTES, 0, NULL)->address;
    struct pl_emu_launch l = {.func = pl_emu_program_find(program, "race"),
                              .params = &g,
                              .grid = {p->n_ctas, 1, 1},
                              .block = {p->n_warps * 32, 1, 1},
                              .cluster = {p->n_ctas, 1, 1}};
    if (pl_emu_launch(d, &l, fault))
        *fault = (struct pl_emu_fault){0};
    pl_emu_program_unload(program);
    pl_emu_device_destroy(d);
}

/* A race is reported as one; a phase that either of two arrivals may end, or that a thread may miss, and an init that comes late, also
 * otherwise. */
static bool is_as_told(const struct row *r, const struct pl_emu_fault *f)
{
    if (strcmp(r->verdict, "CLEAN") == 0)
        return f->code == 0;
    if (strcmp(r->verdict, "EXIT") == 0)
        return f->code >= EXIT_FIRST && f->code <= EXIT_LAST;
    if (strcmp(r->family, "B25") == 0 || strcmp(r->family, "U10") == 0 ||
        strcmp(r->family, "G5") == 0)
        return f->code != 0;
    return f->code >= FIRST_RACE;
}

START_TEST(row_is_judged)
{
    const struct row *r = &rows[_i];
    static struct race_program p;
    static char script[MAX_SCRIPT];
    ck_assert_msg(script_of(r, script), "%s: no family %s", r->number, r->family);
    ck_assert_msg(race_script_print(r->family, script, r->options, &p), "%s: %s", r->number,
                  script);
    for (int policy = 0; policy < N_POLICIES; policy++) {
        struct pl_emu_fault f = {0};
        run(&p, policy, &f);
        if (getenv("PL_RACE_PTX") != NULL && policy == 0)
            puts(p.text);
        ck_assert_msg(is_as_told(r, &f), "row %s (%s %s) is %s, policy %d: PL%d %s", r->number,
                      r->family, r->options, r->verdict, policy, f.code, f.text);
    }
}
END_TEST

int main(void)
{
    read_rows();
    read_families();
    Suite *s = suite_create("race");
    TCase *t = tcase_create("rows");
    const char *only = getenv("PL_RACE_ROW"); /* its place in the file, from 0 */
    int first = only != NULL ? atoi(only) : 0, end = only != NULL ? first + 1 : n_rows;
    tcase_add_loop_test(t, row_is_judged, first, end);
    tcase_set_timeout(t, 60);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_ENV);
    int n = srunner_ntests_failed(sr);
    srunner_free(sr);
    for (int i = 0; i < n_families; i++)
        free(families[i].script);
    return n == 0 && n_rows > 500 ? EXIT_SUCCESS : EXIT_FAILURE;
}
