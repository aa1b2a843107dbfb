/* The inner product of tensor instructions; levels base and avx2. Layouts and order: emu/ops/tile.h. */
#include "emu/ops/tile.h"

#include "emu/ops/lanes.h"

typedef float vec_f32 __attribute__((vector_size(32), may_alias));
typedef uint32_t vec_s32 __attribute__((vector_size(32), may_alias)); /* unsigned: sums wrap */

/* One pair (j, b): eight accumulators stay in registers over all k. */
#define TILE(name, VEC, T)                                                                         \
    void PL_OPS_PASTE(name, PL_OPS_LEVEL)(const struct pl_emu_tile *t)                             \
    {                                                                                              \
        for (unsigned c = 0; c < t->n / 4; c++) {                                                  \
            VEC *low = t->d[c / 2 * 4 + c % 2], *high = t->d[c / 2 * 4 + 2 + c % 2];               \
            VEC s0 = low[0], s1 = low[1], s2 = low[2], s3 = low[3];                                \
            VEC s4 = high[0], s5 = high[1], s6 = high[2], s7 = high[3];                            \
            const T *pa = t->a, *pb = (const T *)t->b + 8 * c;                                     \
            for (unsigned k = 0; k < t->k; k++, pa += PL_EMU_TILE_A_STRIDE, pb += 2 * t->n) {      \
                const VEC *a = (const VEC *)pa, b = *(const VEC *)pb;                              \
                s0 += a[0] * b;                                                                    \
                s4 += a[1] * b;                                                                    \
                s1 += a[2] * b;                                                                    \
                s5 += a[3] * b;                                                                    \
                s2 += a[4] * b;                                                                    \
                s6 += a[5] * b;                                                                    \
                s3 += a[6] * b;                                                                    \
                s7 += a[7] * b;                                                                    \
            }                                                                                      \
            low[0] = s0, low[1] = s1, low[2] = s2, low[3] = s3;                                    \
            high[0] = s4, high[1] = s5, high[2] = s6, high[3] = s7;                                \
        }                                                                                          \
    }

TILE(pl_emu_tile_f32, vec_f32, float)
TILE(pl_emu_tile_s32, vec_s32, uint32_t)
