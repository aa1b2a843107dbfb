#include "bench/bench.h"
#include "tools/cmd.h"

#include <stdio.h>
#include <string.h>

static json_t *rows_json(const struct pl_bench *b)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < b->n_rows; i++) {
        const struct pl_bench_row *r = &b->rows[i];
        json_array_append_new(rows, json_pack("{s:s, s:I, s:f, s:f, s:f, s:s}", "name", r->name,
                                              "n", (json_int_t)r->n, "median", r->median, "p10",
                                              r->p10, "p90", r->p90, "unit", r->unit));
    }
    return rows;
}

static int run_one(const struct pl_bench_entry *e, json_t *into)
{
    struct pl_bench b = {0};
    pl_cmd_progress("bench %s: %s", e->name, e->what);
    const bool is_ok = e->run(&b);
    if (into != NULL)
        json_object_set_new(
            into, e->name,
            json_pack("{s:b, s:s, s:o}", "ok", (int)is_ok, "note", b.note, "rows", rows_json(&b)));
    for (size_t i = 0; i < b.n_rows && into == NULL; i++)
        printf("%s\t%zu\t%.4g\t%.4g\t%.4g\t%s\n", b.rows[i].name, b.rows[i].n, b.rows[i].median,
               b.rows[i].p10, b.rows[i].p90, b.rows[i].unit);
    if (b.note[0] != '\0')
        fprintf(stderr, "bench %s: %s\n", e->name, b.note);
    pl_bench_fini(&b);
    return is_ok ? PL_CMD_OK : PL_CMD_FAILED;
}

static bool is_asked(int argc, char **argv, const char *name)
{
    bool has_names = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) == 0)
            return true;
        has_names = has_names || argv[i][0] != '-';
    }
    return !has_names;
}

int pl_cmd_bench(int argc, char **argv)
{
    bool is_json = false;
    for (int i = 1; i < argc; i++) {
        bool is_known = strcmp(argv[i], "--json") == 0;
        is_json = is_json || is_known;
        for (size_t k = 0; k < pl_bench_count; k++)
            is_known = is_known || strcmp(argv[i], pl_benches[k].name) == 0;
        if (!is_known)
            return pl_cmd_usage("bench", "no bench named %s", argv[i]);
    }
    json_t *root = is_json ? json_object() : NULL;
    int status = PL_CMD_OK;
    if (!is_json)
        printf("name\tn\tmedian\tp10\tp90\tunit\n");
    for (size_t k = 0; k < pl_bench_count; k++)
        if (is_asked(argc, argv, pl_benches[k].name) && run_one(&pl_benches[k], root) != PL_CMD_OK)
            status = PL_CMD_FAILED;
    if (is_json && pl_cmd_print_json(root) != PL_CMD_OK)
        status = PL_CMD_FAILED;
    return status;
}
