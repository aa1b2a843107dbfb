#ifndef PL_EMU_OPS_LANES_H
#define PL_EMU_OPS_LANES_H
/*
 * How a lane kernel is written (private to emu/ops/).
 *
 * Most kernels are one expression over A, B, C (the lane's sources), expanded into two loops: `full` stores every lane,
 * `masked` computes every lane and blends, so both vectorise. An expression must therefore be defined for any bits: it
 * may not trap, loop without end, or touch memory.
 *
 * Files that include this are compiled once for each ISA level with PL_OPS_LEVEL set to base or avx2; kernels
 * that gain nothing from vectors live in files compiled once (level `once`). Results are the same bits at each level:
 * contraction is off, fma is always fmaf() or fma(), and NaNs are made canonical explicitly.
 */
#if defined __OPTIMIZE__ && !defined __clang__
/* gcc's -O2, which usually stands last on the command line, vectorises only what costs nothing. */
#pragma GCC optimize("O3")
#endif

#include "base/debug.h"
#include "emu/ops.h"
#include "emu/ops/kernels.h"
#include "emu/ops/mode.h"

#include <string.h>

#ifndef PL_OPS_LEVEL
#define PL_OPS_LEVEL once
#endif

#define PL_OPS_PASTE_(a, b) a##_##b
#define PL_OPS_PASTE(a, b)  PL_OPS_PASTE_(a, b)
#define FULL(id)            PL_OPS_PASTE(pl_emu_full_##id, PL_OPS_LEVEL)
#define MASKED(id)          PL_OPS_PASTE(pl_emu_masked_##id, PL_OPS_LEVEL)

#ifdef __clang__
/* Not every loop can be vectorised, nor any at -O0; that is no defect. */
#pragma clang diagnostic ignored "-Wpass-failed"
#define IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define IVDEP _Pragma("GCC ivdep")
#endif

/* A destination may be the very array of a source, so lanes do not depend on each other. */
#define LANES(n) IVDEP for (unsigned i = 0; i < (n); i++)

#define ARGS                                                                                       \
    void *vd, const void *va, const void *vb, const void *vc, uint32_t mask, struct pl_emu_opx *x

/* Selecting by a table of lane bits vectorises at every level, a variable shift does not. */
extern const uint32_t pl_emu_lane_bit[32];
extern const uint32_t
    pl_emu_pair_bit[64]; /* bit of the lane that element i of a packed pair belongs to */

static inline uint32_t f32_bits(float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static inline float f32_of(uint32_t u)
{
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
}

static inline uint64_t f64_bits(double v)
{
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static inline double f64_of(uint64_t u)
{
    double v;
    memcpy(&v, &u, sizeof v);
    return v;
}

/* KERNELn(id, elements, lane bit table, destination type, source types…, expression) */
#define KERNEL_BOTH(id, loads, n, bits, TD, expr)                                                  \
    void FULL(id)(ARGS)                                                                            \
    {                                                                                              \
        TD *d = __builtin_assume_aligned(vd, 64);                                                  \
        (void)vb, (void)vc, (void)mask, (void)x;                                                   \
        LANES(n)                                                                                   \
        {                                                                                          \
            loads;                                                                                 \
            d[i] = (TD)(expr);                                                                     \
        }                                                                                          \
    }                                                                                              \
    void MASKED(id)(ARGS)                                                                          \
    {                                                                                              \
        TD *d = __builtin_assume_aligned(vd, 64);                                                  \
        (void)vb, (void)vc, (void)x;                                                               \
        LANES(n)                                                                                   \
        {                                                                                          \
            loads;                                                                                 \
            const TD result = (TD)(expr), old = d[i];                                              \
            d[i] = (mask & (bits)[i]) ? result : old;                                              \
        }                                                                                          \
    }

#define LOAD(name, T, v)                                                                           \
    const T name = ((const T *)__builtin_assume_aligned(v, 64))[i];                                \
    (void)name
#define KERNEL1(id, TD, TA, expr) KERNEL_BOTH(id, LOAD(A, TA, va), 32, pl_emu_lane_bit, TD, expr)
#define KERNEL2(id, TD, TA, TB, expr)                                                              \
    KERNEL_BOTH(id, LOAD(A, TA, va); LOAD(B, TB, vb), 32, pl_emu_lane_bit, TD, expr)
#define KERNEL3(id, TD, TA, TB, TC, expr)                                                          \
    KERNEL_BOTH(id, LOAD(A, TA, va); LOAD(B, TB, vb);                                              \
                LOAD(C, TC, vc), 32, pl_emu_lane_bit, TD, expr)
#define PAIRS1(id, T, expr) KERNEL_BOTH(id, LOAD(A, T, va), 64, pl_emu_pair_bit, T, expr)
#define PAIRS2(id, T, expr)                                                                        \
    KERNEL_BOTH(id, LOAD(A, T, va); LOAD(B, T, vb), 64, pl_emu_pair_bit, T, expr)
#define PAIRS3(id, T, expr)                                                                        \
    KERNEL_BOTH(id, LOAD(A, T, va); LOAD(B, T, vb); LOAD(C, T, vc), 64, pl_emu_pair_bit, T, expr)

#endif
