#include "tools/cmd.h"

#include <stdio.h>
#include <string.h>

static const struct {
    pl_fact fact;
    const char *name;
} facts[] = {{PL_FACT_ALIGN16, "align16"},         {PL_FACT_I32, "i32"},
             {PL_FACT_UNIT_STRIDE, "unit_stride"}, {PL_FACT_DENSE, "dense"},
             {PL_FACT_ALIGN16_OUT, "align16_out"}, {PL_FACT_WHOLE16, "whole16"}};
static const char *const roles[] = {"in", "out", "inout", "scalar"};

static json_t *fact_names(pl_fact_set set)
{
    json_t *a = json_array();
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
        if (set & facts[i].fact)
            json_array_append_new(a, json_string(facts[i].name));
    return a;
}

static json_t *dtype_names(pl_dtype_set set)
{
    json_t *a = json_array();
    for (int t = 1; t < PL_DTYPE_COUNT; t++)
        if (set >> t & 1)
            json_array_append_new(a, json_string(pl_dtype_name((pl_dtype)t)));
    return a;
}

static json_t *kernel_json(const struct pl_case_kernel *k)
{
    json_t *params = json_array();
    for (size_t i = 0; i < k->kernel->n_params; i++) {
        const pl_param_decl *p = &k->kernel->params[i];
        json_array_append_new(
            params,
            json_pack("{s:s, s:s, s:i, s:i, s:o, s:b, s:o, s:o}", "name", p->name, "role",
                      roles[p->role], "min_rank", (int)p->min_rank, "max_rank", (int)p->max_rank,
                      "dtypes", dtype_names(p->dtypes), "optional", (int)p->is_optional, "required",
                      fact_names(p->required), "specialised", fact_names(p->specialised)));
    }
    json_t *keys = json_array();
    char text[200];
    snprintf(text, sizeof text, "base_offset pitch batch %s", k->keys);
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " "))
        json_array_append_new(keys, json_string(word));
    return json_pack("{s:s, s:s, s:i, s:o, s:o}", "name", k->name, "doc", k->kernel->doc, "configs",
                     (int)k->kernel->n_configs, "keys", keys, "params", params);
}

static void print_kernel(const struct pl_case_kernel *k)
{
    printf("%-10s %s\n", k->name, k->kernel->doc);
    for (size_t i = 0; i < k->kernel->n_params; i++) {
        const pl_param_decl *p = &k->kernel->params[i];
        printf("    %-4s %-6s", p->name, roles[p->role]);
        for (int t = 1; t < PL_DTYPE_COUNT; t++)
            if (p->dtypes >> t & 1)
                printf(" %s", pl_dtype_name((pl_dtype)t));
        if (p->role != PL_ROLE_SCALAR)
            printf(", rank %d..%d", (int)p->min_rank, (int)p->max_rank);
        printf("%s\n", p->is_optional ? ", optional" : "");
    }
    printf("    --set base_offset pitch batch %s; %d configurations\n", k->keys,
           (int)k->kernel->n_configs);
}

int pl_cmd_kernels(int argc, char **argv)
{
    const bool is_json = argc == 2 && strcmp(argv[1], "--json") == 0;
    if (argc > 2 || (argc == 2 && !is_json))
        return pl_cmd_usage("kernels", "%s is not an option here",
                            argv[strcmp(argv[1], "--json") == 0 ? 2 : 1]);
    if (!is_json) {
        for (size_t i = 0; i < pl_case_n_kernels; i++)
            print_kernel(&pl_case_kernels[i]);
        return PL_CMD_OK;
    }
    json_t *root = json_array();
    for (size_t i = 0; i < pl_case_n_kernels; i++)
        json_array_append_new(root, kernel_json(&pl_case_kernels[i]));
    return pl_cmd_print_json(root);
}
