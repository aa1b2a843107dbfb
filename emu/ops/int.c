/* Integer, logic, shift and selection kernels that real programs run often: levels base and avx2. */
#include "emu/ops/int.h"
#include "emu/ops/lanes.h"

/* clang-format off: a product of two sources looks like a declaration to it */

/* ---- "Integer Arithmetic Instructions: add, sub, mul, mad": modulo 2^n, so one kernel for both signs ---- */

KERNEL2(add_b16, uint16_t, uint16_t, uint16_t, A + B)
KERNEL2(add_b32, uint32_t, uint32_t, uint32_t, A + B)
KERNEL2(add_b64, uint64_t, uint64_t, uint64_t, A + B)
PAIRS2(add_b16x2, uint16_t, A + B)
KERNEL2(sub_b16, uint16_t, uint16_t, uint16_t, A - B)
KERNEL2(sub_b32, uint32_t, uint32_t, uint32_t, A - B)
KERNEL2(sub_b64, uint64_t, uint64_t, uint64_t, A - B)
KERNEL2(mul_b16, uint16_t, uint16_t, uint16_t, (uint32_t)A *B)
KERNEL2(mul_b32, uint32_t, uint32_t, uint32_t, A *B)
KERNEL2(mul_b64, uint64_t, uint64_t, uint64_t, A *B)
KERNEL2(mul_hi_u16, uint16_t, uint16_t, uint16_t, (uint32_t)A *B >> 16)
KERNEL2(mul_hi_s16, uint16_t, int16_t, int16_t, (uint32_t)((int32_t)A *B) >> 16)
KERNEL2(mul_hi_u32, uint32_t, uint32_t, uint32_t, (uint64_t)A *B >> 32)
KERNEL2(mul_hi_s32, uint32_t, int32_t, int32_t, (uint64_t)((int64_t)A *B) >> 32)
KERNEL2(mul_hi_u64, uint64_t, uint64_t, uint64_t, mul_hi_u64(A, B))
KERNEL2(mul_hi_s64, uint64_t, uint64_t, uint64_t, mul_hi_s64(A, B))
KERNEL2(mul_wide_u16, uint32_t, uint16_t, uint16_t, (uint32_t)A *B)
KERNEL2(mul_wide_s16, uint32_t, int16_t, int16_t, (int32_t)A *B)
KERNEL2(mul_wide_u32, uint64_t, uint32_t, uint32_t, (uint64_t)A *B)
KERNEL2(mul_wide_s32, uint64_t, int32_t, int32_t, (int64_t)A *B)
KERNEL3(mad_b16, uint16_t, uint16_t, uint16_t, uint16_t, (uint32_t)A *B + C)
KERNEL3(mad_b32, uint32_t, uint32_t, uint32_t, uint32_t, A *B + C)
KERNEL3(mad_b64, uint64_t, uint64_t, uint64_t, uint64_t, A *B + C)
KERNEL3(mad_hi_u16, uint16_t, uint16_t, uint16_t, uint16_t, ((uint32_t)A * B >> 16) + C)
KERNEL3(mad_hi_s16, uint16_t, int16_t, int16_t, uint16_t, ((uint32_t)((int32_t)A * B) >> 16) + C)
KERNEL3(mad_hi_u32, uint32_t, uint32_t, uint32_t, uint32_t, (uint32_t)((uint64_t)A *B >> 32) + C)
KERNEL3(mad_hi_s32, uint32_t, int32_t, int32_t, uint32_t,
        (uint32_t)((uint64_t)((int64_t)A *B) >> 32) + C)
KERNEL3(mad_hi_u64, uint64_t, uint64_t, uint64_t, uint64_t, mul_hi_u64(A, B) + C)
KERNEL3(mad_hi_s64, uint64_t, uint64_t, uint64_t, uint64_t, mul_hi_s64(A, B) + C)
KERNEL3(mad_wide_u16, uint32_t, uint16_t, uint16_t, uint32_t, (uint32_t)A *B + C)
KERNEL3(mad_wide_s16, uint32_t, int16_t, int16_t, uint32_t, (uint32_t)((int32_t)A *B) + C)
KERNEL3(mad_wide_u32, uint64_t, uint32_t, uint32_t, uint64_t, (uint64_t)A *B + C)
KERNEL3(mad_wide_s32, uint64_t, int32_t, int32_t, uint64_t, (uint64_t)((int64_t)A *B) + C)

/* ---- "Integer Arithmetic Instructions: abs, neg, min, max": abs and neg of the least value wrap ---- */

KERNEL1(neg_b16, uint16_t, uint16_t, 0u - A)
KERNEL1(neg_b32, uint32_t, uint32_t, 0u - A)
KERNEL1(neg_b64, uint64_t, uint64_t, 0u - A)
KERNEL1(abs_s16, uint16_t, uint16_t, A & 0x8000 ? 0u - A : A)
KERNEL1(abs_s32, uint32_t, uint32_t, A >> 31 ? 0u - A : A)
KERNEL1(abs_s64, uint64_t, uint64_t, A >> 63 ? 0u - A : A)
KERNEL2(min_u16, uint16_t, uint16_t, uint16_t, A < B ? A : B)
KERNEL2(min_s16, int16_t, int16_t, int16_t, A < B ? A : B)
KERNEL2(min_u32, uint32_t, uint32_t, uint32_t, A < B ? A : B)
KERNEL2(min_s32, int32_t, int32_t, int32_t, A < B ? A : B)
KERNEL2(min_u64, uint64_t, uint64_t, uint64_t, A < B ? A : B)
KERNEL2(min_s64, int64_t, int64_t, int64_t, A < B ? A : B)
PAIRS2(min_u16x2, uint16_t, A < B ? A : B)
PAIRS2(min_s16x2, int16_t, A < B ? A : B)
KERNEL2(max_u16, uint16_t, uint16_t, uint16_t, A > B ? A : B)
KERNEL2(max_s16, int16_t, int16_t, int16_t, A > B ? A : B)
KERNEL2(max_u32, uint32_t, uint32_t, uint32_t, A > B ? A : B)
KERNEL2(max_s32, int32_t, int32_t, int32_t, A > B ? A : B)
KERNEL2(max_u64, uint64_t, uint64_t, uint64_t, A > B ? A : B)
KERNEL2(max_s64, int64_t, int64_t, int64_t, A > B ? A : B)
PAIRS2(max_u16x2, uint16_t, A > B ? A : B)
PAIRS2(max_s16x2, int16_t, A > B ? A : B)

/* .relu: negative results become 0 */
KERNEL2(min_relu_s32, int32_t, int32_t, int32_t, (A < B ? A : B) < 0 ? 0 : (A < B ? A : B))
KERNEL2(max_relu_s32, int32_t, int32_t, int32_t, (A > B ? A : B) < 0 ? 0 : (A > B ? A : B))
PAIRS2(min_relu_s16x2, int16_t, (A < B ? A : B) < 0 ? 0 : (A < B ? A : B))
PAIRS2(max_relu_s16x2, int16_t, (A > B ? A : B) < 0 ? 0 : (A > B ? A : B))

/* ---- "Logic and Shift Instructions: and, or, xor, not, cnot, shl, shr": amounts are unsigned and clamp at the width ---- */

KERNEL2(and_b16, uint16_t, uint16_t, uint16_t, A &B)
KERNEL2(and_b32, uint32_t, uint32_t, uint32_t, A &B)
KERNEL2(and_b64, uint64_t, uint64_t, uint64_t, A &B)
KERNEL2(or_b16, uint16_t, uint16_t, uint16_t, A | B)
KERNEL2(or_b32, uint32_t, uint32_t, uint32_t, A | B)
KERNEL2(or_b64, uint64_t, uint64_t, uint64_t, A | B)
KERNEL2(xor_b16, uint16_t, uint16_t, uint16_t, A ^ B)
KERNEL2(xor_b32, uint32_t, uint32_t, uint32_t, A ^ B)
KERNEL2(xor_b64, uint64_t, uint64_t, uint64_t, A ^ B)
KERNEL1(not_b16, uint16_t, uint16_t, ~A)
KERNEL1(not_b32, uint32_t, uint32_t, ~A)
KERNEL1(not_b64, uint64_t, uint64_t, ~A)
KERNEL1(cnot_b16, uint16_t, uint16_t, A == 0 ? 1 : 0)
KERNEL1(cnot_b32, uint32_t, uint32_t, A == 0 ? 1 : 0)
KERNEL1(cnot_b64, uint64_t, uint64_t, A == 0 ? 1 : 0)
KERNEL2(shl_b16, uint16_t, uint16_t, uint32_t, B > 15 ? 0 : (uint32_t)A << (B & 15))
KERNEL2(shl_b32, uint32_t, uint32_t, uint32_t, B > 31 ? 0 : A << (B & 31))
KERNEL2(shl_b64, uint64_t, uint64_t, uint32_t, B > 63 ? 0 : A << (B & 63))
KERNEL2(shr_u16, uint16_t, uint16_t, uint32_t, B > 15 ? 0 : (uint32_t)A >> (B & 15))
KERNEL2(shr_u32, uint32_t, uint32_t, uint32_t, B > 31 ? 0 : A >> (B & 31))
KERNEL2(shr_u64, uint64_t, uint64_t, uint32_t, B > 63 ? 0 : A >> (B & 63))
KERNEL2(shr_s16, uint16_t, int16_t, uint32_t, (int32_t)A >> (B > 15 ? 15 : B))
KERNEL2(shr_s32, uint32_t, int32_t, uint32_t, A >> (B > 31 ? 31 : B))
KERNEL2(shr_s64, uint64_t, int64_t, uint32_t, A >> (B > 63 ? 63 : B))

KERNEL3(lop3, uint32_t, uint32_t, uint32_t, uint32_t, lop3(A, B, C, (uint32_t)(x->imm >> 8) & 0xff))
KERNEL3(shf_l_wrap, uint32_t, uint32_t, uint32_t, uint32_t, shf(A, B, C, true, true))
KERNEL3(shf_l_clamp, uint32_t, uint32_t, uint32_t, uint32_t, shf(A, B, C, true, false))
KERNEL3(shf_r_wrap, uint32_t, uint32_t, uint32_t, uint32_t, shf(A, B, C, false, true))
KERNEL3(shf_r_clamp, uint32_t, uint32_t, uint32_t, uint32_t, shf(A, B, C, false, false))

/* ---- register moves between widths, for cvt of integers ---- */

KERNEL1(move_b16, uint16_t, uint16_t, A)
KERNEL1(move_b32, uint32_t, uint32_t, A)
KERNEL1(move_b64, uint64_t, uint64_t, A)
KERNEL1(zext_16_32, uint32_t, uint16_t, A)
KERNEL1(sext_16_32, uint32_t, int16_t, A)
KERNEL1(zext_16_64, uint64_t, uint16_t, A)
KERNEL1(sext_16_64, uint64_t, int16_t, A)
KERNEL1(zext_32_64, uint64_t, uint32_t, A)
KERNEL1(sext_32_64, uint64_t, int32_t, A)
KERNEL1(trunc_32_16, uint16_t, uint32_t, A)
KERNEL1(trunc_64_32, uint32_t, uint64_t, A)
KERNEL1(trunc_64_16, uint16_t, uint64_t, A)

/* clang-format on */

/* ---- "Comparison and Selection Instructions: selp": c is a mask of lanes ---- */

#define SELP(id, T)                                                                                \
    void FULL(id)(ARGS)                                                                            \
    {                                                                                              \
        T *d = __builtin_assume_aligned(vd, 64);                                                   \
        const T *a = __builtin_assume_aligned(va, 64), *b = __builtin_assume_aligned(vb, 64);      \
        uint32_t p = *(const uint32_t *)vc ^ (uint32_t)x->imm;                                     \
        (void)mask;                                                                                \
        LANES(32)                                                                                  \
        {                                                                                          \
            const T t = a[i], f = b[i];                                                            \
            d[i] = (p & pl_emu_lane_bit[i]) ? t : f;                                               \
        }                                                                                          \
    }                                                                                              \
    void MASKED(id)(ARGS)                                                                          \
    {                                                                                              \
        T *d = __builtin_assume_aligned(vd, 64);                                                   \
        const T *a = __builtin_assume_aligned(va, 64), *b = __builtin_assume_aligned(vb, 64);      \
        uint32_t p = *(const uint32_t *)vc ^ (uint32_t)x->imm;                                     \
        LANES(32)                                                                                  \
        {                                                                                          \
            const T t = a[i], f = b[i], old = d[i], r = (p & pl_emu_lane_bit[i]) ? t : f;          \
            d[i] = (mask & pl_emu_lane_bit[i]) ? r : old;                                          \
        }                                                                                          \
    }
SELP(selp_b16, uint16_t)
SELP(selp_b32, uint32_t)
SELP(selp_b64, uint64_t)
