/*
 * Comparisons: setp, set and the logic of predicates; levels base and avx2.
 *
 * Every comparison operator is a set of accepted outcomes (less, equal, greater, unordered), so one loop a type serves all
 * of them. PTX ISA, "Comparison and Selection Instructions: setp, set", "Comparisons" of "Instruction Operands".
 */
#include "emu/ops/float.h"

static inline uint32_t accept_mask(unsigned accept, unsigned outcome)
{
    return accept & outcome ? UINT32_MAX : 0;
}

#define COMPARE(name, T, prepare)                                                                  \
    static uint32_t name(const void *va, const void *vb, struct pl_emu_mode m)                     \
    {                                                                                              \
        uint32_t lt = accept_mask(m.op, PL_EMU_LT), eq = accept_mask(m.op, PL_EMU_EQ);             \
        uint32_t gt = accept_mask(m.op, PL_EMU_GT), un = accept_mask(m.op, PL_EMU_UN), r = 0;      \
        uint32_t keep =                                                                            \
            m.flags & PL_EMU_M_FTZ ? (sizeof(T) == 2 ? 0x8000u : 0x80000000u) : UINT32_MAX;        \
        (void)un, (void)keep;                                                                      \
        LANES(32)                                                                                  \
        {                                                                                          \
            LOAD(A, T, va);                                                                        \
            LOAD(B, T, vb);                                                                        \
            prepare;                                                                               \
            r |= outcome & pl_emu_lane_bit[i];                                                     \
        }                                                                                          \
        return r;                                                                                  \
    }

#define INTEGER     const uint32_t outcome = A < B ? lt : A == B ? eq : gt
#define FLOAT(l, r) const uint32_t outcome = (l) < (r) ? lt : (l) == (r) ? eq : (l) > (r) ? gt : un

/* keep: the bits of a subnormal that stay; all of them, or for .ftz the sign */
static inline float f32_value(uint32_t u, uint32_t keep)
{
    return f32_of((u & 0x7f800000u) == 0 ? u & keep : u);
}

/* One half of a register, widened; keep clears subnormals for .ftz */
static inline float f16_value(uint32_t u, uint32_t keep)
{
    u &= 0xffffu;
    return f32_of(f16_to_f32((u & 0x7c00u) == 0 ? u & keep : u));
}
static inline float bf16_value(uint32_t u) { return f32_of(u << 16); }

COMPARE(compare_u16, uint16_t, INTEGER)
COMPARE(compare_s16, int16_t, INTEGER)
COMPARE(compare_u32, uint32_t, INTEGER)
COMPARE(compare_s32, int32_t, INTEGER)
COMPARE(compare_u64, uint64_t, INTEGER)
COMPARE(compare_s64, int64_t, INTEGER)
COMPARE(compare_f32, uint32_t, const float p = f32_value(A, keep);
        const float q = f32_value(B, keep); FLOAT(p, q))
COMPARE(compare_f64, double, FLOAT(A, B))
COMPARE(compare_f16, uint16_t, const float p = f16_value(A, keep);
        const float q = f16_value(B, keep); FLOAT(p, q))
COMPARE(compare_bf16, uint16_t, const float p = bf16_value(A); const float q = bf16_value(B);
        FLOAT(p, q))
COMPARE(compare_f16_high, uint32_t, const float p = f16_value(A >> 16, keep >> 16);
        const float q = f16_value(B >> 16, keep >> 16); FLOAT(p, q))
COMPARE(compare_f16_low, uint32_t, const float p = f16_value(A, keep >> 16);
        const float q = f16_value(B, keep >> 16); FLOAT(p, q))
COMPARE(compare_bf16_high, uint32_t, const float p = bf16_value(A >> 16);
        const float q = bf16_value(B >> 16); FLOAT(p, q))
COMPARE(compare_bf16_low, uint32_t, const float p = bf16_value(A); const float q = bf16_value(B);
        FLOAT(p, q))

/* PTX ISA, "Comparison and Selection Instructions: setp": p = (a cmp b) bool c, q = !(a cmp b) bool c. */
static inline uint32_t combine(uint32_t r, const void *vc, struct pl_emu_mode m)
{
    uint32_t c = 0;
    if (m.extra != PL_EMU_BOOL_NONE)
        c = *(const uint32_t *)vc ^ (m.flags & PL_EMU_M_NOT_C ? UINT32_MAX : 0);
    switch ((enum pl_emu_bool)m.extra) {
    case PL_EMU_BOOL_NONE: return r;
    case PL_EMU_BOOL_AND: return r & c;
    case PL_EMU_BOOL_OR: return r | c;
    case PL_EMU_BOOL_XOR: return r ^ c;
    }
    return r;
}

static inline void put_mask(void *d, uint32_t r, uint32_t mask)
{
    uint32_t *p = d;
    *p = (*p & ~mask) | (r & mask);
}

#define SETP(type)                                                                                 \
    static inline void setp_##type(ARGS)                                                           \
    {                                                                                              \
        struct pl_emu_mode m = pl_emu_mode_of(x->imm);                                             \
        uint32_t r = compare_##type(va, vb, m);                                                    \
        uint32_t p = combine(r, vc, m), q = combine(~r, vc, m);                                    \
        put_mask(vd, p, mask);                                                                     \
        if (x->d2 != NULL)                                                                         \
            put_mask(x->d2, q, mask);                                                              \
    }                                                                                              \
    BOTH_OF(setp_##type)

/* For packed halves p is the low half's result and q the high one's, without a negation. */
#define SETP_PAIR(type)                                                                            \
    static inline void setp_##type##x2(ARGS)                                                       \
    {                                                                                              \
        struct pl_emu_mode m = pl_emu_mode_of(x->imm);                                             \
        uint32_t p = combine(compare_##type##_low(va, vb, m), vc, m);                              \
        uint32_t q = combine(compare_##type##_high(va, vb, m), vc, m);                             \
        put_mask(vd, p, mask);                                                                     \
        if (x->d2 != NULL)                                                                         \
            put_mask(x->d2, q, mask);                                                              \
    }                                                                                              \
    BOTH_OF(setp_##type##x2)

#define BOTH_OF(id)                                                                                \
    void FULL(id)(ARGS)                                                                            \
    {                                                                                              \
        (void)mask;                                                                                \
        id(vd, va, vb, vc, UINT32_MAX, x);                                                         \
    }                                                                                              \
    void MASKED(id)(ARGS) { id(vd, va, vb, vc, mask, x); }

/* "set": what true is, by destination type: all ones for integers, one for floats. */
static inline uint32_t true_value(struct pl_emu_mode m)
{
    static const uint32_t values[] = {[PL_EMU_TRUE_ONES] = UINT32_MAX,
                                      [PL_EMU_TRUE_F32] = 0x3f800000,
                                      [PL_EMU_TRUE_F16] = 0x3c003c00,
                                      [PL_EMU_TRUE_BF16] = 0x3f803f80};
    return values[m.to];
}

static inline void put_values(void *vd, uint32_t low, uint32_t high, uint32_t mask,
                              struct pl_emu_mode m)
{
    uint32_t value = true_value(m);
    if (m.n == 16) {
        uint16_t *d = vd;
        LANES(32)
        {
            const uint16_t old = d[i], v = (uint16_t)(low & pl_emu_lane_bit[i] ? value : 0);
            d[i] = mask & pl_emu_lane_bit[i] ? v : old;
        }
        return;
    }
    uint32_t *d = vd;
    LANES(32)
    {
        const uint32_t old = d[i];
        const uint32_t l = low & pl_emu_lane_bit[i] ? value & 0xffffu : 0;
        const uint32_t h = high & pl_emu_lane_bit[i] ? value & 0xffff0000u : 0;
        d[i] = mask & pl_emu_lane_bit[i] ? l | h : old;
    }
}

#define SET(type)                                                                                  \
    static inline void set_##type(ARGS)                                                            \
    {                                                                                              \
        struct pl_emu_mode m = pl_emu_mode_of(x->imm);                                             \
        uint32_t r = combine(compare_##type(va, vb, m), vc, m);                                    \
        put_values(vd, r, r, mask, m);                                                             \
    }                                                                                              \
    BOTH_OF(set_##type)
#define SET_PAIR(type)                                                                             \
    static inline void set_##type##x2(ARGS)                                                        \
    {                                                                                              \
        struct pl_emu_mode m = pl_emu_mode_of(x->imm);                                             \
        uint32_t low = combine(compare_##type##_low(va, vb, m), vc, m);                            \
        uint32_t high = combine(compare_##type##_high(va, vb, m), vc, m);                          \
        put_values(vd, low, high, mask, m);                                                        \
    }                                                                                              \
    BOTH_OF(set_##type##x2)

SETP(u16)
SETP(s16)
SETP(u32)
SETP(s32)
SETP(u64)
SETP(s64)
SETP(f32)
SETP(f64)
SETP(f16)
SETP(bf16)
SETP_PAIR(f16)
SETP_PAIR(bf16)
SET(u16)
SET(s16)
SET(u32)
SET(s32)
SET(u64)
SET(s64)
SET(f32)
SET(f64)
SET(f16)
SET(bf16)
SET_PAIR(f16)
SET_PAIR(bf16)

/* ---- "Logic and Shift Instructions": and, or, xor, not of .pred ---- */

#define PREDICATE(id, expr)                                                                        \
    static inline void id(ARGS)                                                                    \
    {                                                                                              \
        const uint32_t A = *(const uint32_t *)va;                                                  \
        (void)vb, (void)vc, (void)x;                                                               \
        put_mask(vd, expr, mask);                                                                  \
    }                                                                                              \
    BOTH_OF(id)
PREDICATE(and_pred, A &*(const uint32_t *)vb)
PREDICATE(or_pred, A | *(const uint32_t *)vb)
PREDICATE(xor_pred, A ^ *(const uint32_t *)vb)
PREDICATE(not_pred, ~A)
