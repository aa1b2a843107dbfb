#ifndef PL_EMU_OPS_TILE_H
#define PL_EMU_OPS_TILE_H
/*
 * The product inside tensor instructions, on register fragments as they are (private to emu): 16 rows of A by n columns of B,
 * accumulated into lane arrays. PTX ISA, "Register Fragments" of wgmma: register 4 j + 2 h + b of lane t holds row t/4 + 8 h,
 * column 8 j + 2 (t % 4) + b, for j < n / 8.
 *
 * Eight lanes are a vector: two rows by four columns. So A comes with each element four times and B with each row of four
 * columns twice:
 *   a [k][4][2][8]   vector v of half h: rows 2 v and 2 v + 1 (+ 8 h), four times each
 *   b [k][n / 4][8]  vector 2 j + b: columns 8 j + b, 8 j + 2 + b, 8 j + 4 + b, 8 j + 6 + b, twice
 *
 * Order of accumulation: by ascending k, each product added to the accumulator in its type. Products of f16, bf16, tf32 and
 * fp8 values are exact in f32 unless they leave its range; sums round to nearest even each. s32 wraps.
 */
#include "emu/ops.h"

#include <stdint.h>

enum { PL_EMU_TILE_MAX_N = 256, PL_EMU_TILE_MAX_K = 32, PL_EMU_TILE_A_STRIDE = 64 };

struct pl_emu_tile {
    unsigned n, k;
    const void *a, *b;              /* float or int32_t, aligned to 32 bytes */
    void *d[PL_EMU_TILE_MAX_N / 2]; /* lane arrays: in, out */
};

typedef void pl_emu_tile_fn(const struct pl_emu_tile *t);

pl_emu_tile_fn pl_emu_tile_f32_base, pl_emu_tile_s32_base, pl_emu_tile_f32_avx2,
    pl_emu_tile_s32_avx2;

/* Of the level that pl_emu_ops_init chose. */
void pl_emu_tile_f32(const struct pl_emu_tile *t);
void pl_emu_tile_s32(const struct pl_emu_tile *t);

#endif
