/*
 * Mutation: each synchronising instruction of each kernel of the library and of pipes.h, on each kind of chip, is taken out of the emitted
 * text in turn, and the emulated driver must report the rest, or the rest must give other bytes. It looks for races, so a whole text
 * that has one ends the run. What survives stands in tests/mutate_survivors.tsv with the reason why nothing can go wrong without it.
 *
 *   mutate [--long] [--verbose] [-o FILE.md] [KERNEL [CHIP [CONFIGURATION]]]
 *
 * All configurations, with shapes that together run every instruction. Short: bf16, one order of asynchrony (a race is one under any).
 * Long: f32 too, four orders; the table goes to FILE.md. Status 1: a survivor that is not listed, or, in a whole long run, a listed one that was not met.
 */
#include "tests/mutant.h"
#include "tests/mutate_pipes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LISTED = 200, MAX_ROWS = 1000 };

static const char *const archs[] = {"sm_80", "sm_90a", "sm_100a"};
enum { N_ARCHS = sizeof archs / sizeof archs[0] };
/* Kernels whose shapes have so many axes, with the shapes that together run every instruction of their texts. */
struct subjects {
    const struct pl_case_kernel *kernels;
    const size_t *n_kernels;
    const pl_dtype *dtypes;
    size_t n_dtypes; /* a short run takes the first alone */
    const pl_shape *shapes;
    size_t n_shapes;
    const char *keys[3]; /* of --set, to be 1 */
    unsigned chips;      /* a bit each; 0: all */
    int64_t odd_elems;   /* of a product: that rows lie further apart than they are long */
};
enum { SM_80 = 1, LATER = 6 };
enum { MAX_SHAPES = 8 };

static const pl_dtype library_dtypes[] = {PL_BF16, PL_F32}, pipe_dtypes[] = {PL_F32},
                      product_dtypes[] = {PL_BF16}, byte_dtypes[] = {PL_E4M3};
/* Whole 16 bytes a row, so that staged configurations serve them, with tails: tiles; rows of some chunks; rows that fill every
 * chunk of the resident configurations, 256, 1024 and 1024 by four warpgroups; and one that no copy serves. */
static const pl_shape library_shapes[] = {{2, {70, 304}}, {2, {1, 1000}}, {2, {1, 5176}},
                                          {2, {1, 1024}}, {2, {1, 8192}}, {2, {1, 32768}},
                                          {2, {9, 131}}};
/* Of a product, on chips of two SMs: several tiles a CTA, in each direction with tails, and more steps of K than an operand pipe has
 * slots, or none; and one that no copy serves. */
static const pl_shape product_shapes[] = {
    {3, {136, 272, 528}}, {3, {9, 203, 1100}}, {3, {9, 0, 1100}}};
static const pl_shape byte_shapes[] = {{3, {136, 272, 528}}};
/* No word serves the rows, whatever K is: so without K the text is the same, and runs what it has for that. */
static const pl_shape odd_byte_shapes[] = {{3, {9, 204, 1100}}, {3, {9, 0, 1100}}};
/* Where a CTA makes one tile: a few of many steps, with tails, and one that no word serves. */
static const pl_shape tile_shapes[] = {{3, {40, 240, 72}}, {3, {9, 107, 70}}};
/* 1, 5 and 11 steps: each slot again, and one that ends in each phase. */
static const pl_shape pipe_shapes[] = {{3, {1, 16, 64}}, {3, {2, 16, 320}}, {3, {3, 16, 704}}};

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define ALL(a)   a, COUNT(a)
static const struct subjects all_subjects[] = {
    {pl_case_kernels, &pl_case_n_kernels, ALL(library_dtypes), ALL(library_shapes), {NULL}, 0, 0},
    {pl_case_kernels, &pl_case_n_kernels, ALL(product_dtypes), ALL(tile_shapes), {NULL}, SM_80, 0},
    {pl_case_kernels,
     &pl_case_n_kernels,
     ALL(product_dtypes),
     ALL(product_shapes),
     {NULL},
     LATER,
     0},
    {pl_case_kernels,
     &pl_case_n_kernels,
     ALL(byte_dtypes),
     ALL(byte_shapes),
     {"b_major"},
     LATER,
     0},
    {pl_case_kernels,
     &pl_case_n_kernels,
     ALL(byte_dtypes),
     ALL(odd_byte_shapes),
     {"b_major"},
     LATER,
     3},
    {mutate_pipes, &mutate_n_pipes, ALL(pipe_dtypes), ALL(pipe_shapes), {NULL}, 0, 0},
};

static const char *const orders[] = {"late", "random:1", "eager", "random:2"};
enum { N_SHORT_ORDERS = 1, N_ORDERS = sizeof orders / sizeof orders[0] };

static struct {
    bool is_long, is_verbose;
    const char *kernel, *chip; /* the only one; NULL: all */
    int32_t config;            /* + 1; 0: all */
    const char *file;
} ask;

/* ---- the list of survivors -------------------------------------------------------------------------------------------- */

/* kernel without its stages, "before > instruction > after", reason; separated by tabs. */
static struct listed {
    char *kernel, *where, *reason;
    unsigned n_met;
    char example[MUTANT_WHERE_BYTES + 80];
} listed[MAX_LISTED];
static size_t n_listed;

static bool read_list(void)
{
    char path[600], line[1000];
    const char *top = getenv("PL_SRCDIR");
    snprintf(path, sizeof path, "%s/tests/mutate_survivors.tsv", top != NULL ? top : ".");
    FILE *f = fopen(path, "r");
    if (f == NULL) {
        perror(path);
        return false;
    }
    while (fgets(line, sizeof line, f) != NULL && n_listed < MAX_LISTED) {
        line[strcspn(line, "\n")] = '\0';
        char *where = strchr(line, '\t'), *reason = where != NULL ? strchr(where + 1, '\t') : NULL;
        if (line[0] == '#' || reason == NULL)
            continue;
        *where = *reason = '\0';
        listed[n_listed++] =
            (struct listed){strdup(line), strdup(where + 1), strdup(reason + 1), 0, ""};
    }
    fclose(f);
    return true;
}

static struct listed *find_listed(const char *kernel, const char *where)
{
    const size_t n = strcspn(kernel, "(");
    for (size_t i = 0; i < n_listed; i++)
        if (strlen(listed[i].kernel) == n && memcmp(listed[i].kernel, kernel, n) == 0 &&
            strcmp(listed[i].where, where) == 0)
            return &listed[i];
    return NULL;
}

/* ---- one text --------------------------------------------------------------------------------------------------------- */

/* A line of the table: a kernel on a chip in one configuration, all dtypes and axes. */
struct row {
    char kernel[40];
    int arch;
    int32_t config; /* + 1 */
    unsigned n_texts, n_mutants, n_ends[MUTANT_WRONG + 1], n_listed;
};
static struct row rows[MAX_ROWS];
static size_t n_rows;
static unsigned n_unlisted;

static enum mutant_end try_all(const struct mutant_text *t, const struct mutant_site *site)
{
    const size_t n = ask.is_long ? N_ORDERS : N_SHORT_ORDERS;
    enum mutant_end end = MUTANT_SAME;
    for (size_t i = 0; i < n && end == MUTANT_SAME; i++)
        for (size_t k = 0; k < t->n_settings && end == MUTANT_SAME; k++)
            end = mutant_run(t, site, t->settings[k], orders[i]);
    return end;
}

static void note_survivor(struct row *row, const struct mutant_text *t,
                          const struct mutant_site *site, const char *what)
{
    struct listed *l = find_listed(row->kernel, site->where);
    if (l != NULL) {
        row->n_listed++;
        if (l->n_met++ == 0)
            snprintf(l->example, sizeof l->example, "%s, line %u: %s", what, site->line,
                     site->text);
    } else {
        n_unlisted++;
        printf("SURVIVES %s\t%s\n  %s %s line %u: %s\n", row->kernel, site->where, what, t->entry,
               site->line, site->text);
    }
}

static void mutate(struct row *row, const struct mutant_text *t, const char *what)
{
    static const char *const names[] = {"same", "reported", "hangs", "wrong"};
    row->n_texts++;
    for (size_t i = 0; i < t->n_sites; i++) {
        const enum mutant_end end = try_all(t, &t->sites[i]);
        row->n_mutants++;
        row->n_ends[end]++;
        if (ask.is_verbose)
            printf("%-8s %s line %u: %s\n%s", names[end], what, t->sites[i].line, t->sites[i].text,
                   mutant_last_fault());
        if (end == MUTANT_SAME)
            note_survivor(row, t, &t->sites[i], what);
    }
}

/* ---- all texts -------------------------------------------------------------------------------------------------------- */

static void set_shape(struct pl_case_spec *spec, const struct subjects *s, size_t i)
{
    spec->shape = s->shapes[i];
    spec->pitch_elems = s->odd_elems != 0 ? spec->shape.d[1] + s->odd_elems : 0;
}

static void set_keys(struct pl_case_spec *spec, const struct subjects *s)
{
    for (; s->keys[spec->n_extra] != NULL; spec->n_extra++) {
        snprintf(spec->extra[spec->n_extra].key, sizeof spec->extra[0].key, "%s",
                 s->keys[spec->n_extra]);
        spec->extra[spec->n_extra].value = 1;
    }
}

static struct row row_of(const struct subjects *s, const struct pl_case_kernel *k, int arch,
                         int32_t config)
{
    struct row row = {.arch = arch, .config = config};
    size_t n = (size_t)snprintf(row.kernel, sizeof row.kernel, "%s", k->name);
    for (int i = 0; s->keys[i] != NULL; i++)
        n += (size_t)snprintf(row.kernel + n, sizeof row.kernel - n, "%s%s%s", i == 0 ? "(" : " ",
                              s->keys[i], s->keys[i + 1] == NULL ? ")" : "");
    snprintf(row.kernel + n, sizeof row.kernel - n, "%s", s->odd_elems != 0 ? " at odd pitch" : "");
    return row;
}

/* Each text of one configuration with all the shapes that it serves. False: a text does not run at all. */
static bool mutate_config(struct row *row, const struct subjects *s, const struct pl_case_kernel *k,
                          pl_dtype dtype, int axis)
{
    bool is_done[MAX_SHAPES] = {false};
    for (size_t i = 0; i < s->n_shapes; i++) {
        struct pl_case_spec spec = {.dtype = dtype, .axis = axis, .seed = 7 + i};
        set_shape(&spec, s, i);
        set_keys(&spec, s);
        struct mutant_text t;
        char what[120];
        if (is_done[i])
            continue;
        const pl_status st = mutant_text_make(&t, k, &spec, row->arch, row->config);
        if (st == PL_E_INVALID || st == PL_E_UNSUPPORTED)
            continue;
        if (st != PL_OK)
            return false;
        for (size_t j = i + 1; j < s->n_shapes; j++) {
            set_shape(&spec, s, j);
            is_done[j] = is_done[j] || mutant_text_add(&t, k, &spec, row->config);
        }
        snprintf(what, sizeof what, "%s %s %s axis %d config %d", row->kernel, archs[row->arch],
                 pl_dtype_name(dtype), axis, (int)row->config - 1);
        mutate(row, &t, what);
        mutant_text_fini(&t);
    }
    return true;
}

static bool mutate_kernel(const struct subjects *s, const struct pl_case_kernel *k)
{
    const bool has_axis = strstr(k->keys, "axis") != NULL;
    for (int arch = 0; arch < N_ARCHS; arch++)
        for (int32_t config = 1; config <= k->kernel->n_configs; config++) {
            struct row *row = &rows[n_rows];
            if ((s->chips != 0 && (s->chips >> arch & 1) == 0) ||
                (ask.chip != NULL && strcmp(ask.chip, archs[arch]) != 0) ||
                (ask.config != 0 && ask.config != config))
                continue;
            *row = row_of(s, k, arch, config);
            for (size_t d = 0; d < (ask.is_long ? s->n_dtypes : 1); d++)
                for (int axis = -1; axis <= (has_axis ? 0 : -1); axis++)
                    if (!mutate_config(row, s, k, s->dtypes[d], axis))
                        return false;
            n_rows += row->n_texts != 0 && n_rows < MAX_ROWS - 1;
        }
    return true;
}

/* ---- the table -------------------------------------------------------------------------------------------------------- */

static unsigned n_caught(const struct row *r)
{
    return r->n_ends[MUTANT_REPORTED] + r->n_ends[MUTANT_HANGS] + r->n_ends[MUTANT_WRONG];
}

static void print_row(FILE *f, const struct row *r, const char *chip, const char *config)
{
    fprintf(f, "| %s | %s | %s | %u | %u | %u | %u | %u | %u | %u |\n", r->kernel, chip, config,
            r->n_texts, r->n_mutants, r->n_ends[MUTANT_REPORTED], r->n_ends[MUTANT_HANGS],
            r->n_ends[MUTANT_WRONG], r->n_listed, r->n_mutants - n_caught(r) - r->n_listed);
}

static void print_table(FILE *f)
{
    struct row all = {.kernel = "all"};
    fprintf(f, "| kernel | chip | configuration | texts | mutants | reported | hangs | wrong bytes "
               "| listed | survivors |\n"
               "|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < n_rows; i++) {
        char config[16];
        snprintf(config, sizeof config, "%d", (int)rows[i].config - 1);
        print_row(f, &rows[i], archs[rows[i].arch], config);
        all.n_texts += rows[i].n_texts;
        all.n_mutants += rows[i].n_mutants;
        all.n_listed += rows[i].n_listed;
        for (int e = 0; e <= MUTANT_WRONG; e++)
            all.n_ends[e] += rows[i].n_ends[e];
    }
    print_row(f, &all, "", "");
    fprintf(f, "\n%u of %u mutants are caught (%.1f %%), %u are listed, %u survive.\n",
            n_caught(&all), all.n_mutants,
            100.0 * n_caught(&all) / (all.n_mutants != 0 ? all.n_mutants : 1), all.n_listed,
            all.n_mutants - n_caught(&all) - all.n_listed);
}

/* False: a row of the list was never met. */
static bool print_listed(FILE *f)
{
    bool is_met = true;
    for (size_t i = 0; i < n_listed; i++) {
        const struct listed *l = &listed[i];
        is_met = is_met && l->n_met != 0;
        fprintf(f, "- `%s` of %s, %u times%s: %s.\n", l->where, l->kernel, l->n_met,
                l->n_met == 0 ? " (take it off the list)" : "", l->reason);
        if (l->n_met != 0)
            fprintf(f, "  First: %s\n", l->example);
    }
    return is_met;
}

static bool write_file(void)
{
    FILE *f = fopen(ask.file, "w");
    if (f == NULL) {
        perror(ask.file);
        return false;
    }
    fprintf(f,
            "# Mutation\n\n<!-- written by: make mutate PL_UPDATE=1 -->\n\n"
            "Each synchronising instruction is taken out of the PTX that plaunch emits, in turn, "
            "and the rest runs on the\n"
            "emulated driver with its race check: eager, late, and two random orders, bf16 and "
            "f32, with "
            "the shapes of tests/mutate.c.\n"
            "A mutant is caught when it is reported, hangs, or gives other bytes than the whole "
            "text.\n\n");
    print_table(f);
    fprintf(f, "\n## Listed survivors\n\nWritten as: the event before, the instruction taken out, "
               "the event after.\n\n");
    print_listed(f);
    return fclose(f) == 0;
}

static bool take_arguments(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--long") == 0)
            ask.is_long = true;
        else if (strcmp(argv[i], "--verbose") == 0)
            ask.is_verbose = true;
        else if (strcmp(argv[i], "-o") == 0 && i + 1 < argc)
            ask.file = argv[++i];
        else if (argv[i][0] != '-' && ask.kernel == NULL)
            ask.kernel = argv[i];
        else if (argv[i][0] != '-' && ask.chip == NULL)
            ask.chip = argv[i];
        else if (argv[i][0] != '-' && ask.config == 0)
            ask.config = atoi(argv[i]) + 1;
        else {
            fprintf(stderr, "usage: mutate [--long] [--verbose] [-o FILE.md] "
                            "[KERNEL [CHIP [CONFIGURATION]]]\n");
            return false;
        }
    return true;
}

/* Products take their time: in a short run only where they are named. */
static bool is_asked(const struct subjects *s, const struct pl_case_kernel *k)
{
    if (k->n_axes != s->shapes[0].rank)
        return false;
    if (ask.kernel != NULL)
        return strcmp(ask.kernel, k->name) == 0;
    return ask.is_long || s->shapes[0].rank != 3 || s->kernels != pl_case_kernels;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!take_arguments(argc, argv) || !read_list() || setenv("PLAUNCH_EMU_SMS", "2", 1) != 0 ||
        !mutant_open("sm_80,sm_90a,sm_100a", N_ARCHS))
        return 2;
    bool is_well = true;
    for (size_t i = 0; i < COUNT(all_subjects); i++)
        for (size_t k = 0; k < *all_subjects[i].n_kernels; k++)
            if (is_asked(&all_subjects[i], &all_subjects[i].kernels[k]))
                is_well = mutate_kernel(&all_subjects[i], &all_subjects[i].kernels[k]) && is_well;
    print_table(stdout);
    if (ask.is_long) {
        printf("\n");
        const bool is_met = print_listed(stdout);
        is_well = is_well && (is_met || ask.kernel != NULL);
    }
    if (ask.file != NULL)
        is_well = write_file() && is_well;
    mutant_close();
    return is_well && n_unlisted == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
