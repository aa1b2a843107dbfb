#include "bench/bench.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const struct pl_bench_entry pl_benches[] = {
#define BENCH(id, what) {#id, pl_bench_##id, what},
#include "bench/bench.def"
#undef BENCH
};
const size_t pl_bench_count = sizeof pl_benches / sizeof pl_benches[0];

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void pl_bench_add(struct pl_bench *b, const char *unit, double *samples, size_t n,
                  const char *name_fmt, ...)
{
    if (b->n_rows == b->cap) {
        const size_t cap = b->cap == 0 ? 32 : b->cap * 2;
        struct pl_bench_row *rows = realloc(b->rows, cap * sizeof *rows);
        if (rows == NULL)
            return;
        b->rows = rows;
        b->cap = cap;
    }
    qsort(samples, n, sizeof samples[0], by_value);
    struct pl_bench_row *r = &b->rows[b->n_rows++];
    *r = (struct pl_bench_row){.n = n,
                               .median = samples[n / 2],
                               .p10 = samples[n / 10],
                               .p90 = samples[n * 9 / 10],
                               .unit = unit};
    va_list ap;
    va_start(ap, name_fmt);
    vsnprintf(r->name, sizeof r->name, name_fmt, ap);
    va_end(ap);
}

void pl_bench_fini(struct pl_bench *b)
{
    free(b->rows);
    *b = (struct pl_bench){0};
}
