#include "docs/explain.h"
#include "tools/cmd.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "PL2041", "pl2041" and "2041" name one code; -1 for anything else. */
static int parse_code(const char *text)
{
    if (toupper((unsigned char)text[0]) == 'P' && toupper((unsigned char)text[1]) == 'L')
        text += 2;
    char *end;
    const long code = strtol(text, &end, 10);
    return end != text && *end == '\0' && code >= 0 && code < 10000 ? (int)code : -1;
}

static json_t *page_json(const struct pl_explain *e, bool has_text)
{
    char code[16];
    snprintf(code, sizeof code, "PL%04d", e->code);
    json_t *o = json_pack("{s:s, s:s, s:s}", "code", code, "id", e->id, "severity", e->severity);
    if (has_text)
        json_object_set_new(o, "text", json_string(e->text));
    return o;
}

static int list(bool is_json)
{
    json_t *all = json_array();
    for (size_t i = 0; i < pl_n_explains; i++) {
        if (is_json)
            json_array_append_new(all, page_json(&pl_explains[i], false));
        else
            printf("PL%04d %-8s %s\n", pl_explains[i].code, pl_explains[i].severity,
                   pl_explains[i].id);
    }
    if (is_json)
        return pl_cmd_print_json(all);
    json_decref(all);
    return PL_CMD_OK;
}

int pl_cmd_explain(int argc, char **argv)
{
    const char *wanted = NULL;
    bool is_json = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            is_json = true;
        else if (wanted == NULL && argv[i][0] != '-')
            wanted = argv[i];
        else
            return pl_cmd_usage("explain", "%s is one word too many", argv[i]);
    }
    if (wanted == NULL)
        return list(is_json);
    const int code = parse_code(wanted);
    for (size_t i = 0; i < pl_n_explains; i++) {
        const struct pl_explain *e = &pl_explains[i];
        if (e->code != code && strcmp(e->id, wanted) != 0)
            continue;
        if (is_json)
            return pl_cmd_print_json(page_json(e, true));
        fputs(e->text, stdout);
        return PL_CMD_OK;
    }
    return pl_cmd_fail("explain", "there is no diagnostic %s (plaunch explain lists them)", wanted);
}
