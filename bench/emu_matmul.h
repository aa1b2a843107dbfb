#ifndef PL_BENCH_EMU_MATMUL_H
#define PL_BENCH_EMU_MATMUL_H
/* The matmuls that `plaunch bench emu` times on the emulated driver. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PL_BENCH_MATMUL_SIZE = 1024, PL_BENCH_MATMUL_TEXT_BYTES = 1 << 15 };

struct pl_bench_matmul {
    unsigned grid_x, grid_y; /* CTAs of 128 threads */
};

/* PTX of the entry matmul(a, b, out): a and b bf16, packed by blocks; out f32, tile by tile. */
struct pl_bench_matmul pl_bench_matmul_of(bool is_tcgen05, char *text, size_t n_bytes);
#endif
