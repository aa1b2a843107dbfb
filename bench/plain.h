#ifndef PL_BENCH_PLAIN_H
#define PL_BENCH_PLAIN_H
/* The plain kernel that ours are compared with (bench/plain_wgmma.cu): its source, and what it computes beside float64. */
#include <stdbool.h>
#include <stddef.h>

extern const char pl_bench_plain_source[];

/*
 * Runs a compiled text of it on the emulated driver, on fresh random operands of odd extents.
 *
 *   text    in    PTX
 *   worst   out   the largest error of an element, in units of what sums in f32 may lose there: at most 1 is right
 *   why     out   of n_bytes; what went wrong, where the answer is false
 */
bool pl_bench_plain_run(const char *text, double *worst, char *why, size_t n_bytes);
#endif
