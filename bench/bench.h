#ifndef PL_BENCH_BENCH_H
#define PL_BENCH_BENCH_H
/*
 * Benches: one function a question, rows of `name  n  median  p10  p90  unit`. `plaunch bench` runs them; bench.def lists them.
 * Nothing here is gated: these are times and counts to read. What does not vary (instructions, bytes) is gated by tests.
 */
#include <stdbool.h>
#include <stddef.h>

struct pl_bench_row {
    char name[96];
    size_t n; /* samples */
    double median, p10, p90;
    const char *unit; /* "us", "instructions", "bytes", "Glane-op/s", "ratio" */
};

struct pl_bench {
    struct pl_bench_row *rows;
    size_t n_rows, cap;
    char note[256]; /* why something was left out; empty when nothing was */
};

/* Adds a row from samples, which are sorted in place. n >= 1. */
void pl_bench_add(struct pl_bench *b, const char *unit, double *samples, size_t n,
                  const char *name_fmt, ...) __attribute__((format(printf, 5, 6)));
void pl_bench_fini(struct pl_bench *b);

/* False: the bench could not run; note says why. */
#define BENCH(id, what) bool pl_bench_##id(struct pl_bench *b);
#include "bench/bench.def"
#undef BENCH

struct pl_bench_entry {
    const char *name;
    bool (*run)(struct pl_bench *b);
    const char *what;
};
extern const struct pl_bench_entry pl_benches[];
extern const size_t pl_bench_count;
#endif
