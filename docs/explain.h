#ifndef PL_DOCS_EXPLAIN_H
#define PL_DOCS_EXPLAIN_H
/* The pages of docs/explain as a table in the program, made by docs/explain.awk; sorted by code. */
#include <stddef.h>

struct pl_explain {
    int code;
    const char *id, *severity; /* "tmem_plain_store"; "error", "warning" or "note" */
    const char *text;          /* the page, Markdown; "" when there is none */
};
extern const struct pl_explain pl_explains[];
extern const size_t pl_n_explains;
#endif
