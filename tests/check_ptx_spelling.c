/*
 * The grammar of mnemonics beside the assembler's: the instruction of every row of tests/ptx/rows.tsv, and its mnemonic with
 * a token left out, written twice, moved, replaced or added, is taken by the parser where ptxas takes it and refused where ptxas
 * refuses it. Where the parser means to differ, tests/ptx/spelling.tsv has the mnemonic and the reason. Exit status 77 without
 * the toolkit.
 */
#include "jit/ptx/gate.h"
#include "jit/ptx/table.h"
#include "tests/ptx_random.h"
#include "tests/ptx_text.h"
#include "tests/ptxas.h"

#include <check.h>
#include <fnmatch.h>
#include <unistd.h>

static const struct target {
    uint16_t sm;
    char suffix;
} targets[] = {{100, 'a'}, {90, 'a'}, {103, 'a'}, {120, 'a'}};
enum {
    N_TARGETS = sizeof targets / sizeof targets[0],
    VERSION = 90,
    MAX_TOKENS = 24,
    N_RANDOM = 60
};

static char folder[] = "/tmp/plspellXXXXXX";

/* ---- the cases: one instruction a line ---- */

enum { CHUNK = 4000 }; /* cases a module */

struct one {
    const char *text;
    const char *said; /* why ptxas refuses it; NULL: it does not */
};

static const char no_answer[] = "ptxas breaks down";

struct cases {
    struct pl_arena arena;
    PL_VEC(struct one) all;
    uint32_t *slots; /* open addressing over texts: index + 1 */
    uint32_t n_slots, n_asked;
    struct one *asked[CHUNK]; /* in the last module */
};

static uint32_t hash_text(const char *s)
{
    uint32_t h = 2166136261u;
    for (; *s != 0; s++)
        h = (h ^ (unsigned char)*s) * 16777619u;
    return h;
}

static void cases_init(struct cases *c)
{
    *c = (struct cases){.n_slots = 1 << 19};
    c->slots = pl_arena_array(&c->arena, c->n_slots, sizeof *c->slots);
    ck_assert_ptr_nonnull(c->slots);
}

static void add_case(struct cases *c, const char *text)
{
    uint32_t hash = hash_text(text), at = hash & (c->n_slots - 1);
    for (; c->slots[at] != 0; at = (at + 1) & (c->n_slots - 1))
        if (strcmp(c->all.data[c->slots[at] - 1].text, text) == 0)
            return;
    struct one *one = pl_vec_push(&c->arena, &c->all);
    ck_assert_ptr_nonnull(one);
    ck_assert_uint_lt(c->all.n * 2, c->n_slots);
    *one = (struct one){.text = pl_arena_strdup(&c->arena, text)};
    c->slots[at] = c->all.n;
}

/* A mnemonic in tokens, the opcode first, and the operands behind it. */
struct words {
    const char *tokens[MAX_TOKENS];
    size_t n;
    const char *operands;
};

static struct words split(struct pl_arena *a, const char *text)
{
    struct words w = {0};
    size_t n_bytes = strcspn(text, " ;");
    char *s = pl_arena_strndup(a, text, n_bytes);
    w.operands = text + n_bytes;
    for (char *token = strtok(s, "."); token != NULL; token = strtok(NULL, ".")) {
        ck_assert_uint_lt(w.n + 1, MAX_TOKENS); /* one more is added */
        w.tokens[w.n++] = token;
    }
    return w;
}

static void add_words(struct cases *c, const struct words *w)
{
    char text[1024];
    size_t at = 0;
    for (size_t i = 0; i < w->n; i++)
        at +=
            (size_t)snprintf(text + at, sizeof text - at, "%s%s", i == 0 ? "" : ".", w->tokens[i]);
    snprintf(text + at, sizeof text - at, "%s", w->operands);
    add_case(c, text);
}

static void insert(struct words *w, size_t at, const char *token)
{
    memmove(w->tokens + at + 1, w->tokens + at, (w->n - at) * sizeof *w->tokens);
    w->tokens[at] = token;
    w->n++;
}

static void take_out(struct words *w, size_t at)
{
    w->n--;
    memmove(w->tokens + at, w->tokens + at + 1, (w->n - at) * sizeof *w->tokens);
}

/* One token left out, written twice, or moved to any other place. */
static void add_rearranged(struct cases *c, const struct words *w)
{
    for (size_t i = 1; i < w->n; i++) {
        struct words without = *w;
        take_out(&without, i);
        add_words(c, &without);
        struct words twice = *w;
        insert(&twice, i, w->tokens[i]);
        add_words(c, &twice);
        twice = *w;
        insert(&twice, w->n, w->tokens[i]);
        add_words(c, &twice);
        for (size_t to = 1; to <= without.n; to++) {
            struct words moved = without;
            insert(&moved, to, w->tokens[i]);
            add_words(c, &moved);
        }
    }
}

/* One token replaced by another word, and another word added before, at and behind each. */
static void add_changed(struct cases *c, const struct words *w, const char *word)
{
    for (size_t i = 1; i < w->n; i++) {
        struct words other = *w;
        other.tokens[i] = word;
        add_words(c, &other);
    }
    for (size_t i = 1; i <= w->n; i++) {
        struct words longer = *w;
        insert(&longer, i, word);
        add_words(c, &longer);
    }
}

static bool is_same_opcode(const char *a, const char *b)
{
    size_t n = strcspn(a, ".");
    return n == strcspn(b, ".") && memcmp(a, b, n) == 0;
}

/* The words that any row of the opcode of a form takes, each by add_changed. */
static void add_words_of_opcode(struct cases *c, const struct words *w, enum pl_ptx_form form)
{
    bool has_mod[PL_PTX_MOD_COUNT] = {0}, has_type[PL_PTX_TYPE_COUNT] = {0};
    for (int other = 1; other < PL_PTX_COUNT; other++) {
        const struct pl_ptx_row *row = &pl_ptx_rows[other];
        if (!is_same_opcode(pl_ptx_infos[form].mnemonic, pl_ptx_infos[other].mnemonic))
            continue;
        for (int v = 0; v < PL_PTX_MAX_VIEWS && row->views[v] != 0; v++)
            for (int mod = 1; mod < PL_PTX_MOD_COUNT; mod++)
                has_mod[mod] |=
                    pl_ptx_mods[mod].cat == pl_ptx_views[row->views[v] & ~PL_PTX_VIEW_NEED].cat;
        for (int t = 0; t < PL_PTX_MAX_TYPES && row->types[t] != 0; t++)
            for (int type = 1; type < PL_PTX_TYPE_COUNT; type++)
                has_type[type] |= pl_ptx_tsets[row->types[t]] >> type & 1;
    }
    for (int mod = 1; mod < PL_PTX_MOD_COUNT; mod++)
        if (has_mod[mod])
            add_changed(c, w, pl_ptx_mods[mod].text);
    for (int type = 1; type < PL_PTX_TYPE_COUNT; type++)
        if (has_type[type])
            add_changed(c, w, pl_ptx_types[type].text);
}

/* ---- both verdicts ---- */

static bool parser_takes(const char *instruction, struct target t)
{
    struct pl_arena a = {0};
    struct pl_ptx_module m;
    struct pl_ptx_error error;
    const char *text = ptx_text_of(&a, VERSION, t.sm, t.suffix, instruction);
    bool is_taken = pl_ptx_parse(text, strlen(text), &a, &m, &error);
    pl_arena_fini(&a);
    return is_taken;
}

/* The line that ptxas complains of; 0: none. One of its warnings means an error later, of the whole module. */
static unsigned long refused_line(const char *said)
{
    static const char in_error[] = ", line ", at_address[] = "32-bit address on line \'";
    const char *s = strstr(said, in_error), *address = strstr(said, at_address);
    if (address != NULL)
        return strtoul(address + strlen(at_address), NULL, 10);
    return s == NULL || strstr(said, "warning") != NULL ? 0
                                                        : strtoul(s + strlen(in_error), NULL, 10);
}

/* The module of all cases in [first, end) that are not refused yet, one a line; c->asked lists them. Returns the line of the first. */
static unsigned write_module(struct cases *c, size_t first, size_t end, struct target t, FILE *f)
{
    static const char mark[] = "@@@";
    struct pl_arena a = {0};
    const char *whole = ptx_text_of(&a, VERSION, t.sm, t.suffix, mark), *at = strstr(whole, mark);
    unsigned line = 1;
    for (const char *s = whole; s < at; s++)
        line += *s == '\n';
    fprintf(f, "%.*s", (int)(at - whole), whole);
    c->n_asked = 0;
    for (size_t i = first; i < end; i++)
        if (c->all.data[i].said == NULL) {
            fprintf(f, "%s\n", c->all.data[i].text);
            c->asked[c->n_asked++] = &c->all.data[i];
        }
    fputs(at + strlen(mark), f);
    pl_arena_fini(&a);
    return line;
}

enum answer { ALL_TAKEN, SOME_REFUSED, CRASHED };

/* Beside lines, ptxas refuses a function that has instructions of both CTA groups: any of these is a case that it takes. */
static bool is_of_module(const char *said) { return strstr(said, "CTA pair granularity") != NULL; }

static enum answer ask_module(struct cases *c, size_t first, size_t end, struct target t)
{
    char path[128], command[2048], line[1024];
    snprintf(path, sizeof path, "%s/x.ptx", folder);
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    unsigned first_line = write_module(c, first, end, t, f);
    fclose(f);
    snprintf(command, sizeof command, "%s -O0 -arch=sm_%u%c -c %s -o /dev/null 2>&1", ptxas_path(),
             t.sm, t.suffix, path);
    f = popen(command, "r");
    ck_assert_ptr_nonnull(f);
    size_t n_refused = 0;
    bool is_explained = false;
    while (fgets(line, sizeof line, f) != NULL) {
        unsigned long at = refused_line(line);
        bool is_ours = at >= first_line && at - first_line < c->n_asked;
        struct one *one = is_ours ? c->asked[at - first_line] : NULL;
        is_explained |= one != NULL || is_of_module(line);
        if (one == NULL || one->said != NULL)
            continue;
        one->said = pl_arena_strndup(&c->arena, line, strcspn(line, "\n"));
        n_refused++;
    }
    bool is_fine = pclose(f) == 0 || is_explained;
    return n_refused != 0 ? SOME_REFUSED : is_fine ? ALL_TAKEN : CRASHED;
}

/* Until the rest is taken. A module on which ptxas breaks down is halved; the case that is left has no answer. */
static void ask_ptxas(struct cases *c, size_t first, size_t end, struct target t)
{
    enum answer answer;
    do
        answer = ask_module(c, first, end, t);
    while (answer == SOME_REFUSED);
    if (answer != CRASHED)
        return;
    if (end - first == 1) {
        c->all.data[first].said = no_answer;
        return;
    }
    ask_ptxas(c, first, first + (end - first) / 2, t);
    ask_ptxas(c, first + (end - first) / 2, end, t);
}

static struct pl_arena rows_arena;
static struct ptx_lines rows;

static enum pl_ptx_form form_named(const char *id)
{
    for (int f = 1; f < PL_PTX_COUNT; f++)
        if (strcmp(pl_ptx_infos[f].id, id) == 0)
            return (enum pl_ptx_form)f;
    return PL_PTX_NONE;
}

/* A row belongs to the first target that takes it. */
static bool is_of_target(const char *text, size_t t)
{
    for (size_t first = 0; first < t; first++)
        if (parser_takes(text, targets[first]))
            return false;
    return parser_takes(text, targets[t]);
}

/* Random modifiers, types and operands of a form, as they are. */
static void add_random(struct cases *c, enum pl_ptx_form form, size_t t)
{
    const char *seed = getenv("PL_SEED");
    struct ptx_random rnd = {2463534242u + form * 2654435761u};
    if (seed != NULL)
        rnd.state = (rnd.state ^ (uint32_t)strtoul(seed, NULL, 0) * 40503u) | 1;
    if (ptx_has_fixed_values(form))
        return;
    for (int k = 0; k < N_RANDOM; k++) {
        struct pl_arena a = {0};
        struct pl_ptx_ins ins = ptx_random_ins(&rnd, form);
        const char *text = ptx_random_text(&rnd, &a, &ins);
        if (text != NULL && is_of_target(text, t))
            add_case(c, text);
        pl_arena_fini(&a);
    }
}

static void make_cases(struct cases *c, size_t t)
{
    for (size_t i = 0; i < rows.n; i++) {
        const char *const *row = rows.columns[i];
        enum pl_ptx_form form = form_named(row[0]);
        if (pl_ptx_rows[form].views[0] == PL_PTX_VIEW_ANYTHING)
            continue;
        add_random(c, form, t);
        if (!is_of_target(row[1], t))
            continue;
        struct words w = split(&c->arena, row[1]);
        add_words(c, &w);
        add_rearranged(c, &w);
        add_words_of_opcode(c, &w, form);
    }
}

/* ---- meant differences: who takes it, pattern of the instruction, why ---- */

static struct ptx_lines meant;
static bool was_met[512];

static bool is_meant(const char *text, bool is_taken)
{
    for (size_t i = 0; i < meant.n; i++)
        if (is_taken == (strcmp(meant.columns[i][0], "we") == 0) &&
            fnmatch(meant.columns[i][1], text, 0) == 0)
            return was_met[i] = true;
    return false;
}

START_TEST(spellings_are_taken_and_refused_as_by_the_assembler)
{
    size_t n_cases = 0, n_meant = 0, n_differ = 0;
    for (size_t t = 0; t < N_TARGETS; t++) {
        struct cases c;
        cases_init(&c);
        make_cases(&c, t);
        for (size_t i = 0; i < c.all.n; i += CHUNK)
            ask_ptxas(&c, i, i + CHUNK < c.all.n ? i + CHUNK : c.all.n, targets[t]);
        for (size_t i = 0; i < c.all.n; i++) {
            const struct one *one = &c.all.data[i];
            bool is_taken = parser_takes(one->text, targets[t]);
            if (one->said == no_answer || is_taken == (one->said == NULL))
                continue;
            bool is_known = is_meant(one->text, is_taken);
            n_meant += is_known;
            n_differ += !is_known;
            if (!is_known)
                printf("sm_%u%c, taken by %s: %s\t%s\n", targets[t].sm, targets[t].suffix,
                       is_taken ? "us" : "ptxas", one->text, is_taken ? one->said : "");
        }
        n_cases += c.all.n;
        pl_arena_fini(&c.arena);
    }
    printf("%zu spellings, %zu meant differences, %zu others\n", n_cases, n_meant, n_differ);
    size_t n_idle = 0;
    for (size_t i = 0; i < meant.n; i++) {
        if (was_met[i])
            continue;
        printf("no difference is like %s\t%s\n", meant.columns[i][0], meant.columns[i][1]);
        n_idle++;
    }
    fflush(stdout);
    ck_assert_uint_eq(n_idle, 0);
    ck_assert_uint_eq(n_differ, 0);
}
END_TEST

static void read_rows(void)
{
    rows = ptx_read_lines(&rows_arena, "tests/ptx/rows.tsv");
    meant = ptx_read_lines(&rows_arena, "tests/ptx/spelling.tsv");
    ck_assert_uint_lt(meant.n, sizeof was_met / sizeof was_met[0]);
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void free_rows(void)
{
    char path[64];
    snprintf(path, sizeof path, "%s/x.ptx", folder);
    unlink(path);
    rmdir(folder);
    pl_arena_fini(&rows_arena);
}

int main(void)
{
    if (ptxas_path() == NULL) {
        puts("SKIP: no assembler (PL_CUDA_HOME)");
        return 77;
    }
    Suite *s = suite_create("ptx_spelling");
    TCase *t = tcase_create("ptxas");
    tcase_set_timeout(t, 300);
    tcase_add_unchecked_fixture(t, read_rows, free_rows);
    tcase_add_test(t, spellings_are_taken_and_refused_as_by_the_assembler);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int n_failed = srunner_ntests_failed(r);
    srunner_free(r);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
