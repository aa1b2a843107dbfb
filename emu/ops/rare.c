/* Integer and bit kernels that gain nothing from vectors: compiled once. The rules of one lane are in emu/ops/int.h. */
#include "emu/ops/float.h"
#include "emu/ops/int.h"

#define M         pl_emu_mode_of(x->imm)
#define HAS(flag) ((M.flags & PL_EMU_M_##flag) != 0)

/* ---- "Integer Arithmetic Instructions" ---- */

KERNEL2(add_sat_s32, uint32_t, int32_t, int32_t, sat_s32((int64_t)A + B))
KERNEL2(sub_sat_s32, uint32_t, int32_t, int32_t, sat_s32((int64_t)A - B))
KERNEL3(mad_hi_sat_s32, uint32_t, int32_t, int32_t, int32_t,
        sat_s32(((int64_t)(A) * (B) >> 32) + C))
KERNEL2(mul24_lo, uint32_t, uint32_t, uint32_t, mul24(A, B, HAS(SIGNED)))
KERNEL2(mul24_hi, uint32_t, uint32_t, uint32_t, mul24(A, B, HAS(SIGNED)) >> 16)
KERNEL3(mad24_lo, uint32_t, uint32_t, uint32_t, uint32_t, (uint32_t)mul24(A, B, HAS(SIGNED)) + C)
KERNEL3(mad24_hi, uint32_t, uint32_t, uint32_t, uint32_t,
        (uint32_t)(mul24(A, B, HAS(SIGNED)) >> 16) + C)
KERNEL3(mad24_hi_sat_s32, uint32_t, uint32_t, uint32_t, int32_t,
        sat_s32((mul24(A, B, true) >> 16) + C))
KERNEL3(sad_u16, uint16_t, uint16_t, uint16_t, uint16_t, C + (A < B ? B - A : A - B))
KERNEL3(sad_s16, uint16_t, int16_t, int16_t, uint16_t, C + (A < B ? B - A : A - B))
KERNEL3(sad_u32, uint32_t, uint32_t, uint32_t, uint32_t, C + (A < B ? B - A : A - B))
KERNEL3(sad_s32, uint32_t, int32_t, int32_t, uint32_t,
        C + (A < B ? (uint32_t)B - (uint32_t)A : (uint32_t)A - (uint32_t)B))
KERNEL3(sad_u64, uint64_t, uint64_t, uint64_t, uint64_t, C + (A < B ? B - A : A - B))
KERNEL3(sad_s64, uint64_t, int64_t, int64_t, uint64_t,
        C + (A < B ? (uint64_t)B - (uint64_t)A : (uint64_t)A - (uint64_t)B))
KERNEL2(div_u16, uint16_t, uint16_t, uint16_t, div_u(A, B))
KERNEL2(div_s16, uint16_t, int16_t, int16_t, div_s(A, B))
KERNEL2(div_u32, uint32_t, uint32_t, uint32_t, div_u(A, B))
KERNEL2(div_s32, uint32_t, int32_t, int32_t, div_s(A, B))
KERNEL2(div_u64, uint64_t, uint64_t, uint64_t, div_u(A, B))
KERNEL2(div_s64, uint64_t, int64_t, int64_t, div_s(A, B))
KERNEL2(rem_u16, uint16_t, uint16_t, uint16_t, rem_u(A, B))
KERNEL2(rem_s16, uint16_t, int16_t, int16_t, rem_s(A, B))
KERNEL2(rem_u32, uint32_t, uint32_t, uint32_t, rem_u(A, B))
KERNEL2(rem_s32, uint32_t, int32_t, int32_t, rem_s(A, B))
KERNEL2(rem_u64, uint64_t, uint64_t, uint64_t, rem_u(A, B))
KERNEL2(rem_s64, uint64_t, int64_t, int64_t, rem_s(A, B))
KERNEL1(popc_b32, uint32_t, uint32_t, __builtin_popcount(A))
KERNEL1(popc_b64, uint32_t, uint64_t, __builtin_popcountll(A))
KERNEL1(clz_b32, uint32_t, uint32_t, clz32(A))
KERNEL1(clz_b64, uint32_t, uint64_t, clz64(A))
KERNEL1(brev_b32, uint32_t, uint32_t, brev32(A))
KERNEL1(brev_b64, uint64_t, uint64_t, brev64(A))
KERNEL1(bfind_32, uint32_t, uint32_t, bfind(A, 32, HAS(SIGNED), M.op))
KERNEL1(bfind_64, uint32_t, uint64_t, bfind(A, 64, HAS(SIGNED), M.op))
KERNEL3(fns, uint32_t, uint32_t, uint32_t, int32_t, fns(A, B, C))
KERNEL3(bfe_u32, uint32_t, uint32_t, uint32_t, uint32_t, bfe(A, B, C, 32, false))
KERNEL3(bfe_s32, uint32_t, uint32_t, uint32_t, uint32_t, bfe(A, B, C, 32, true))
KERNEL3(bfe_u64, uint64_t, uint64_t, uint32_t, uint32_t, bfe(A, B, C, 64, false))
KERNEL3(bfe_s64, uint64_t, uint64_t, uint32_t, uint32_t, bfe(A, B, C, 64, true))
KERNEL3(bfi_b32, uint32_t, uint32_t, uint32_t, uint32_t,
        bfi(A, B, C, ((const uint32_t *)x->e)[i], 32))
KERNEL3(bfi_b64, uint64_t, uint64_t, uint64_t, uint32_t,
        bfi(A, B, C, ((const uint32_t *)x->e)[i], 64))
KERNEL2(szext, uint32_t, uint32_t, uint32_t, szext(A, B, HAS(SIGNED), HAS(WRAP)))
KERNEL2(bmsk, uint32_t, uint32_t, uint32_t, bmsk(A, B, HAS(WRAP)))
KERNEL3(dp4a, uint32_t, uint32_t, uint32_t, uint32_t, dp4a(A, B, C, HAS(SIGNED), HAS(B_SIGNED)))
KERNEL3(dp2a, uint32_t, uint32_t, uint32_t, uint32_t,
        dp2a(A, B, C, HAS(SIGNED), HAS(B_SIGNED), HAS(HI)))
KERNEL3(prmt, uint32_t, uint32_t, uint32_t, uint32_t, prmt(A, B, C, M.op))

/* ---- "Comparison and Selection Instructions: slct": c >= 0 takes a; -0 does, NaN does not ---- */

static inline bool f32_picks_a(uint32_t c, bool is_ftz)
{
    return f32_of(is_ftz ? f32_flush(c) : c) >= 0.0f;
}

KERNEL3(slct_b16_s32, uint16_t, uint16_t, uint16_t, int32_t, C >= 0 ? A : B)
KERNEL3(slct_b32_s32, uint32_t, uint32_t, uint32_t, int32_t, C >= 0 ? A : B)
KERNEL3(slct_b64_s32, uint64_t, uint64_t, uint64_t, int32_t, C >= 0 ? A : B)
KERNEL3(slct_b16_f32, uint16_t, uint16_t, uint16_t, uint32_t, f32_picks_a(C, HAS(FTZ)) ? A : B)
KERNEL3(slct_b32_f32, uint32_t, uint32_t, uint32_t, uint32_t, f32_picks_a(C, HAS(FTZ)) ? A : B)
KERNEL3(slct_b64_f32, uint64_t, uint64_t, uint64_t, uint32_t, f32_picks_a(C, HAS(FTZ)) ? A : B)

/* ---- "Floating Point Instructions: copysign, testp": copysign takes the sign of a and the magnitude of b ---- */

KERNEL2(copysign_f32, uint32_t, uint32_t, uint32_t, (A & 0x80000000u) | (B & 0x7fffffffu))
KERNEL2(copysign_f64, uint64_t, uint64_t, uint64_t,
        (A & 0x8000000000000000u) | (B & 0x7fffffffffffffffu))

/* magnitude and the format's Inf and least normal, all without a sign */
static bool testp(uint64_t magnitude, uint64_t inf, uint64_t least_normal, enum pl_emu_testp what)
{
    switch (what) {
    case PL_EMU_TESTP_FINITE: return magnitude < inf;
    case PL_EMU_TESTP_INFINITE: return magnitude == inf;
    case PL_EMU_TESTP_NUMBER: return magnitude <= inf;
    case PL_EMU_TESTP_NOTANUMBER: return magnitude > inf;
    case PL_EMU_TESTP_NORMAL:
        return magnitude == 0 || (magnitude >= least_normal && magnitude < inf);
    case PL_EMU_TESTP_SUBNORMAL: return magnitude != 0 && magnitude < least_normal;
    }
    return false;
}

static void testp_f32(uint32_t *d, const uint32_t *a, uint32_t mask, enum pl_emu_testp what)
{
    uint32_t r = 0;
    for (unsigned i = 0; i < 32; i++)
        r |= (uint32_t)testp(a[i] & 0x7fffffffu, 0x7f800000u, 0x00800000u, what) << i;
    *d = (*d & ~mask) | (r & mask);
}

static void testp_f64(uint32_t *d, const uint64_t *a, uint32_t mask, enum pl_emu_testp what)
{
    uint32_t r = 0;
    for (unsigned i = 0; i < 32; i++)
        r |= (uint32_t)testp(a[i] & 0x7fffffffffffffffu, 0x7ff0000000000000u, 0x0010000000000000u,
                             what)
             << i;
    *d = (*d & ~mask) | (r & mask);
}

/* A kernel given as a function of a mask, for both names. */
#define BOTH(id, call)                                                                             \
    static void id(ARGS)                                                                           \
    {                                                                                              \
        (void)va, (void)vb, (void)vc;                                                              \
        call;                                                                                      \
    }                                                                                              \
    void FULL(id)(ARGS)                                                                            \
    {                                                                                              \
        (void)mask;                                                                                \
        id(vd, va, vb, vc, UINT32_MAX, x);                                                         \
    }                                                                                              \
    void MASKED(id)(ARGS) { id(vd, va, vb, vc, mask, x); }

BOTH(testp_32, testp_f32(vd, va, mask, (enum pl_emu_testp)M.op))
BOTH(testp_64, testp_f64(vd, va, mask, (enum pl_emu_testp)M.op))

/* ---- "Logic and Shift Instructions: lop3" with a predicate: p = (d != 0) op q ---- */

static void lop3_and_test(uint32_t *d, const uint32_t *a, const uint32_t *b, const uint32_t *c,
                          uint32_t mask, struct pl_emu_opx *x)
{
    struct pl_emu_mode m = M;
    uint32_t q = *(const uint32_t *)x->f ^ (HAS(NOT_C) ? UINT32_MAX : 0), nonzero = 0;
    for (unsigned i = 0; i < 32; i++) {
        uint32_t r = lop3(a[i], b[i], c[i], m.op);
        nonzero |= r != 0 ? 1u << i : 0;
        if (mask >> i & 1)
            d[i] = r;
    }
    uint32_t p = m.extra == PL_EMU_BOOL_AND ? nonzero & q : nonzero | q, *d2 = x->d2;
    if (d2 != NULL)
        *d2 = (*d2 & ~mask) | (p & mask);
}
BOTH(lop3_bool, lop3_and_test(vd, va, vb, vc, mask, x))

/*
 * ---- "Extended-Precision Integer Arithmetic Instructions" ----
 *
 * CC.CF is the carry of the adder, also after sub (a + ~b + 1): 1 means no borrow. So subc is a + ~b + CF. The manual's
 * "borrow" agrees within one family; across families the assembler's folding of sub.cc then addc decides.
 */
static void carry_chain(void *vd, const uint64_t lanes[3][32], uint32_t mask, struct pl_emu_opx *x,
                        unsigned n_bits)
{
    struct pl_emu_mode m = M;
    uint64_t all = n_bits == 64 ? UINT64_MAX : UINT32_MAX;
    bool is_sub = m.op == PL_EMU_CARRY_SUB;
    uint32_t carry_out = *x->cc;
    for (unsigned i = 0; i < 32; i++) {
        if (!(mask >> i & 1))
            continue;
        uint64_t a = lanes[0][i], b = is_sub ? ~lanes[1][i] & all : lanes[1][i];
        if (m.op == PL_EMU_CARRY_MAD) {
            uint64_t lo = a * b;
            uint64_t hi = n_bits == 64  ? (HAS(SIGNED) ? mul_hi_s64(a, b) : mul_hi_u64(a, b))
                          : HAS(SIGNED) ? (uint64_t)((int64_t)(int32_t)a * (int32_t)b) >> 32
                                        : lo >> 32;
            a = (HAS(HI) ? hi : lo) & all;
            b = lanes[2][i];
        }
        uint64_t carry_in = HAS(CC_IN) ? *x->cc >> i & 1 : is_sub;
        pl_u128 sum = (pl_u128)a + b + carry_in;
        uint32_t carry = (uint32_t)(sum >> n_bits) & 1;
        carry_out = (carry_out & ~(1u << i)) | carry << i;
        if (n_bits == 64)
            ((uint64_t *)vd)[i] = (uint64_t)sum;
        else
            ((uint32_t *)vd)[i] = (uint32_t)sum;
    }
    if (HAS(CC_OUT))
        *x->cc = carry_out;
}

static void load_lanes(uint64_t lanes[3][32], const void *const sources[3], unsigned n_bits)
{
    for (unsigned s = 0; s < 3; s++)
        for (unsigned i = 0; sources[s] != NULL && i < 32; i++)
            lanes[s][i] = n_bits == 64 ? ((const uint64_t *)sources[s])[i]
                                       : ((const uint32_t *)sources[s])[i];
}

static void carry_32(void *vd, const void *const sources[3], uint32_t mask, struct pl_emu_opx *x)
{
    uint64_t lanes[3][32] = {{0}};
    load_lanes(lanes, sources, 32);
    carry_chain(vd, (const uint64_t(*)[32])lanes, mask, x, 32);
}

static void carry_64(void *vd, const void *const sources[3], uint32_t mask, struct pl_emu_opx *x)
{
    uint64_t lanes[3][32] = {{0}};
    load_lanes(lanes, sources, 64);
    carry_chain(vd, (const uint64_t(*)[32])lanes, mask, x, 64);
}

#define SOURCES ((const void *const[3]){va, vb, M.op == PL_EMU_CARRY_MAD ? vc : NULL})
BOTH(carry_b32, carry_32(vd, SOURCES, mask, x))
BOTH(carry_b64, carry_64(vd, SOURCES, mask, x))
