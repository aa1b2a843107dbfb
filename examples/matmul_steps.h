#ifndef EXAMPLE_MATMUL_STEPS_H
#define EXAMPLE_MATMUL_STEPS_H
/*
 * What the tutorials hopper_matmul and blackwell_matmul share: c = a * b, a (m, k) and b (k, n) of bf16, c (m, n) of f32, of any m and n
 * and k of at least 1. A step is a kernel in a file of its own; here is what runs the steps, on a few extents, compares with sums of
 * whole numbers, which are exact in any order, and says how long each took.
 */
#include <plaunch.h>

struct step {
    const char *name;
    void (*body)(pl_builder *b, const void *params);
    /* grid for extents m and n; n_sms: of the device */
    pl_launch_dims (*dims)(int64_t m, int64_t n, int32_t n_sms);
};

/* The parameters of every step's kernel. */
enum { ARG_A, ARG_B, ARG_C };

static inline int64_t n_tiles(int64_t extent, int64_t tile) { return (extent + tile - 1) / tile; }

/* For a device of compute capability generation.x. 0: all right; 77: there is no such device; else a step failed. */
int run_steps(const struct step *const *steps, int n_steps, int generation);
#endif
