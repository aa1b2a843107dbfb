/*
 * Elementwise operations. One function lowers an operation on registers; arrays apply it register by register.
 *
 * 8- and 16-bit integers are computed in 32 bits and made canonical again. f16 and bf16: add, sub, mul, fma, min, max, neg and
 * abs are native and packed (bf16 add, sub and mul by the fused form before sm_90, which rounds the same); everything else
 * goes through f32 and is rounded once at its end. Division and square root of f32 and f64 are correctly rounded; the other
 * functions are the hardware's approximations, refined where a bare one would be worse than 2 ulp.
 */
#include "src/plan/elem.h"

#include "base/debug.h"
#include "src/plan/memory/mem.h"
#include "src/plan/scalar.h"

#include <math.h>

/* ---- values ---- */

struct pl_lval pl_lval_make(struct pl_lower *l, pl_dtype t, struct pl_lay lay)
{
    struct pl_lval v = {.dtype = t, .rep = pl_rep_of(t, lay.vec), .lay = lay};
    v.n_regs = lay.n_chunks * pl_regs_per_chunk(v.rep, lay.vec);
    v.regs = pl_arena_array(l->arena, v.n_regs, sizeof *v.regs);
    if (v.regs == NULL)
        v.n_regs = 0;
    return v;
}

struct pl_opnd pl_pack_halves(struct pl_lower *l, struct pl_opnd lo, struct pl_opnd hi)
{
    if (pl_opnd_is_imm(lo) && pl_opnd_is_imm(hi))
        return pl_opnd_imm(
            (int64_t)(((uint64_t)hi.imm & 0xffff) << 16 | ((uint64_t)lo.imm & 0xffff)));
    struct pl_opnd h[2] = {pl_opnd_reg(pl_build_in_reg(&l->b, PL_ST_b16, lo)),
                           pl_opnd_reg(pl_build_in_reg(&l->b, PL_ST_b16, hi))};
    return pl_opnd_reg(
        pl_build_value(&l->b, &(struct pl_sdesc){.op = PL_STEP_pack,
                                                 .type = PL_ST_b32,
                                                 .from = PL_ST_b16,
                                                 .n = 1,
                                                 .opnds = {pl_build_list(&l->b, h, 2)}}));
}

static void unpack_halves(struct pl_lower *l, struct pl_opnd word, struct pl_opnd out[2])
{
    if (pl_opnd_is_imm(word)) {
        out[0] = pl_opnd_imm(word.imm & 0xffff);
        out[1] = pl_opnd_imm((int64_t)((uint64_t)word.imm >> 16 & 0xffff));
        return;
    }
    if (l->unpacked_word.id == word.u.reg.id && l->unpacked_serial == l->b.serial) {
        out[0] = l->unpacked[0];
        out[1] = l->unpacked[1];
        return;
    }
    out[0] = pl_opnd_reg(pl_build_reg(&l->b, PL_RC_B16));
    out[1] = pl_opnd_reg(pl_build_reg(&l->b, PL_RC_B16));
    pl_build_step(&l->b, &(struct pl_sdesc){.op = PL_STEP_unpack,
                                            .type = PL_ST_b32,
                                            .from = PL_ST_b16,
                                            .n = 2,
                                            .opnds = {pl_build_list(&l->b, out, 2), word}});
    l->unpacked_word = pl_build_is_mutable(&l->b, word.u.reg) ? (pl_reg){0} : word.u.reg;
    l->unpacked_serial = l->b.serial;
    l->unpacked[0] = out[0];
    l->unpacked[1] = out[1];
}

struct pl_opnd pl_lval_unit(struct pl_lower *l, const struct pl_lval *v, enum pl_rep rep,
                            uint32_t i)
{
    if (v->words != NULL)
        return pl_lval_elem(l, v, i);
    if (!v->lay.is_splat)
        return i < v->n_regs ? v->regs[i] : pl_opnd_imm(0);
    return rep == PL_REP_HALF2 ? pl_pack_halves(l, v->one, v->one) : v->one;
}

struct pl_opnd pl_lval_elem(struct pl_lower *l, const struct pl_lval *v, uint32_t i)
{
    if (v->lay.is_splat)
        return v->one;
    if (v->words != NULL)
        return pl_word_elem(l, v->dtype, v->lay.vec, v->words + i / v->lay.vec * (v->lay.vec / 4u),
                            i % v->lay.vec);
    if (v->rep != PL_REP_HALF2)
        return i < v->n_regs ? v->regs[i] : pl_opnd_imm(0);
    struct pl_opnd halves[2];
    unpack_halves(l, i / 2 < v->n_regs ? v->regs[i / 2] : pl_opnd_imm(0), halves);
    return halves[i % 2];
}

void pl_lval_set_elems(struct pl_lower *l, struct pl_lval *v, const struct pl_opnd *elems)
{
    for (uint32_t i = 0; i < v->n_regs; i++)
        v->regs[i] =
            v->rep == PL_REP_HALF2 ? pl_pack_halves(l, elems[2 * i], elems[2 * i + 1]) : elems[i];
}

/* ---- one register ---- */

static struct pl_opnd op1(struct pl_lower *l, enum pl_step_op op, enum pl_stype t, struct pl_opnd x)
{
    return pl_opnd_reg(pl_build_op1(&l->b, op, t, pl_opnd_reg(pl_build_in_reg(&l->b, t, x))));
}

static struct pl_opnd rounded(struct pl_lower *l, enum pl_step_op op, enum pl_stype t,
                              enum pl_sattr rnd, uint32_t n, const struct pl_opnd *x)
{
    struct pl_opnd opnds[3];
    for (uint32_t i = 0; i < n; i++)
        opnds[i] = x[i];
    opnds[0] = pl_opnd_reg(pl_build_in_reg(&l->b, t, opnds[0]));
    return pl_opnd_reg(pl_build_pure(&l->b, op, t, rnd, opnds, n));
}

/* Half types take registers only. */
static struct pl_opnd half_op(struct pl_lower *l, enum pl_step_op op, enum pl_stype t,
                              enum pl_sattr rnd, uint32_t n, const struct pl_opnd *x)
{
    const enum pl_stype bits = pl_stypes[t].bits == 32 ? PL_ST_b32 : PL_ST_b16;
    struct pl_opnd opnds[3];
    for (uint32_t i = 0; i < n; i++)
        opnds[i] = pl_opnd_reg(pl_build_in_reg(&l->b, bits, x[i]));
    return pl_opnd_reg(pl_build_pure(&l->b, op, t, rnd, opnds, n));
}

struct pl_opnd pl_elem_canonical(struct pl_lower *l, pl_dtype t, struct pl_opnd x)
{
    if (t != PL_I8 && t != PL_U8 && t != PL_I16 && t != PL_U16)
        return x;
    const uint32_t bits = (uint32_t)pl_dtype_bits(t);
    if (pl_opnd_is_imm(x))
        return pl_const_of(t, x.imm, 0);
    if (pl_dtype_kind_of(t) == PL_KIND_UINT)
        return pl_ix_and(&l->b, PL_ST_u32, x, ((int64_t)1 << bits) - 1);
    return pl_ix_shr(&l->b, PL_ST_s32, pl_ix_shl(&l->b, PL_ST_u32, x, 32 - bits), 32 - bits);
}

struct pl_opnd pl_elem_to_f32(struct pl_lower *l, pl_dtype from, struct pl_opnd x)
{
    if (from == PL_F32 || from == PL_TF32)
        return x;
    if (from == PL_BF16) { /* the upper half of an f32 */
        if (pl_opnd_is_imm(x))
            return pl_opnd_imm((int64_t)(((uint64_t)x.imm & 0xffff) << 16));
        return pl_pack_halves(l, pl_opnd_imm(0), x);
    }
    PL_ASSERT(from == PL_F16);
    return pl_opnd_reg(pl_build_convert(&l->b, PL_ST_f32, PL_ST_f16, PL_SA_NONE,
                                        pl_opnd_reg(pl_build_in_reg(&l->b, PL_ST_b16, x))));
}

struct pl_opnd pl_elem_from_f32(struct pl_lower *l, pl_dtype to, struct pl_opnd x)
{
    if (to == PL_F32)
        return x;
    if (to == PL_TF32)
        return pl_opnd_reg(pl_build_convert(&l->b, PL_ST_tf32, PL_ST_f32, PL_SA_RND_rna, x));
    return pl_opnd_reg(pl_build_convert(&l->b, pl_stype_of(to), PL_ST_f32, PL_SA_RND_rn, x));
}

static bool is_float(pl_dtype t) { return pl_dtype_kind_of(t) == PL_KIND_FLOAT; }
static bool is_half(pl_dtype t) { return t == PL_F16 || t == PL_BF16; }
static enum pl_stype half_type(pl_dtype t, enum pl_rep rep)
{
    if (t == PL_F16)
        return rep == PL_REP_HALF2 ? PL_ST_f16x2 : PL_ST_f16;
    return rep == PL_REP_HALF2 ? PL_ST_bf16x2 : PL_ST_bf16;
}

/* A constant half, or two of them, by f32 value. */
static struct pl_opnd half_const(pl_dtype t, enum pl_rep rep, double v)
{
    uint64_t bits = (uint64_t)pl_const_of(t, 0, v).imm;
    return pl_opnd_imm((int64_t)(rep == PL_REP_HALF2 ? bits << 16 | bits : bits));
}

typedef struct pl_opnd f32_function(struct pl_lower *l, int sub, struct pl_opnd x,
                                    struct pl_opnd y);

/* A half operation through f32: both halves of a pair, rounded once. */
static struct pl_opnd through_f32(struct pl_lower *l, f32_function *f, int sub, pl_dtype t,
                                  enum pl_rep rep, struct pl_opnd x, struct pl_opnd y)
{
    if (rep == PL_REP_HALF)
        return pl_elem_from_f32(l, t, f(l, sub, pl_elem_to_f32(l, t, x), pl_elem_to_f32(l, t, y)));
    struct pl_opnd xs[2], ys[2], r[2];
    unpack_halves(l, x, xs);
    unpack_halves(l, y, ys);
    for (int i = 0; i < 2; i++)
        r[i] = pl_opnd_reg(pl_build_in_reg(
            &l->b, PL_ST_b32, f(l, sub, pl_elem_to_f32(l, t, xs[i]), pl_elem_to_f32(l, t, ys[i]))));
    return pl_opnd_reg(pl_build_value(&l->b, &(struct pl_sdesc){.op = PL_STEP_convert2,
                                                                .type = (uint8_t)half_type(t, rep),
                                                                .from = PL_ST_f32,
                                                                .attrs = {PL_SA_RND_rn},
                                                                .n = 2,
                                                                .opnds = {r[1], r[0]}}));
}

/* ---- unary ---- */

static struct pl_opnd f32_imm(double v) { return pl_const_of(PL_F32, 0, v); }

static struct pl_opnd f32_mul(struct pl_lower *l, struct pl_opnd x, double y)
{
    const struct pl_opnd xs[2] = {x, f32_imm(y)};
    return rounded(l, PL_STEP_mul, PL_ST_f32, PL_SA_RND_rn, 2, xs);
}

/*
 * e^x = 2^(x log2 e). The product is kept to more than 24 bits: hi = x * c_hi, lo = fma(x, c_hi, -hi) + x * c_lo; then 2^hi * (1 +
 * lo ln 2), which keeps the hardware's 2 ulp for the whole range. Where 2^hi is 0 or infinite the correction is skipped by
 * its size: |lo| is at most 2^-17, and fma(inf, lo, inf) is inf.
 */
static struct pl_opnd f32_exp(struct pl_lower *l, struct pl_opnd x)
{
    const double c_hi = 1.44269502162933349609375; /* log2 e to 24 bits */
    const double c_lo = 1.92596299112661746887e-8;
    struct pl_opnd hi = f32_mul(l, x, c_hi);
    struct pl_opnd neg_hi = op1(l, PL_STEP_neg, PL_ST_f32, hi);
    const struct pl_opnd e1[3] = {x, f32_imm(c_hi), neg_hi};
    struct pl_opnd lo = rounded(l, PL_STEP_fma, PL_ST_f32, PL_SA_RND_rn, 3, e1);
    const struct pl_opnd e2[3] = {x, f32_imm(c_lo), lo};
    lo = rounded(l, PL_STEP_fma, PL_ST_f32, PL_SA_RND_rn, 3, e2);
    struct pl_opnd p = op1(l, PL_STEP_exp2, PL_ST_f32, hi);
    /* At an infinite or NaN exponent lo is NaN: 2^hi alone is the answer there. */
    pl_reg is_finite = pl_build_compare(&l->b, PL_SA_CMP_lt, PL_ST_f32,
                                        op1(l, PL_STEP_abs, PL_ST_f32, hi), f32_imm(1e30));
    const struct pl_opnd e3[3] = {p, f32_mul(l, lo, 0.693147182464599609375), p};
    struct pl_opnd better = rounded(l, PL_STEP_fma, PL_ST_f32, PL_SA_RND_rn, 3, e3);
    return pl_opnd_reg(
        pl_build_op3(&l->b, PL_STEP_select, PL_ST_b32, better, p, pl_opnd_reg(is_finite)));
}

static struct pl_opnd f32_unary(struct pl_lower *l, int sub, struct pl_opnd x, struct pl_opnd y)
{
    (void)y;
    x = pl_opnd_reg(pl_build_in_reg(&l->b, PL_ST_f32, x));
    switch ((pl_op1)sub) {
    case PL_NEG: return op1(l, PL_STEP_neg, PL_ST_f32, x);
    case PL_ABS: return op1(l, PL_STEP_abs, PL_ST_f32, x);
    case PL_SQRT: return rounded(l, PL_STEP_sqrt, PL_ST_f32, PL_SA_RND_rn, 1, &x);
    case PL_RSQRT: return op1(l, PL_STEP_rsqrt, PL_ST_f32, x);
    case PL_RCP: return rounded(l, PL_STEP_rcp, PL_ST_f32, PL_SA_RND_rn, 1, &x);
    case PL_EXP: return f32_exp(l, x);
    case PL_EXP2: return op1(l, PL_STEP_exp2, PL_ST_f32, x);
    case PL_LOG: return f32_mul(l, op1(l, PL_STEP_log2, PL_ST_f32, x), 0.693147180559945309417);
    case PL_LOG2: return op1(l, PL_STEP_log2, PL_ST_f32, x);
    case PL_SIN: return op1(l, PL_STEP_sin, PL_ST_f32, x);
    case PL_COS: return op1(l, PL_STEP_cos, PL_ST_f32, x);
    case PL_TANH: return op1(l, PL_STEP_tanh, PL_ST_f32, x);
    case PL_FLOOR:
        return pl_opnd_reg(pl_build_convert(&l->b, PL_ST_f32, PL_ST_f32, PL_SA_RND_rmi, x));
    case PL_CEIL:
        return pl_opnd_reg(pl_build_convert(&l->b, PL_ST_f32, PL_ST_f32, PL_SA_RND_rpi, x));
    case PL_ROUND:
        return pl_opnd_reg(pl_build_convert(&l->b, PL_ST_f32, PL_ST_f32, PL_SA_RND_rni, x));
    case PL_TRUNC:
        return pl_opnd_reg(pl_build_convert(&l->b, PL_ST_f32, PL_ST_f32, PL_SA_RND_rzi, x));
    case PL_NOT:
    case PL_POPC:
    case PL_CLZ:
    case PL_BREV:
    case PL_OP1_NONE:
    case PL_OP1_COUNT: break;
    }
    PL_ASSERT(0 && "not a float operation");
    return x;
}

/* f64: exact operations natively, the others through f32 (as documented for the public operations). */
static struct pl_opnd f64_unary(struct pl_lower *l, pl_op1 sub, struct pl_opnd x)
{
    x = pl_opnd_reg(pl_build_in_reg(&l->b, PL_ST_f64, x));
    switch (sub) {
    case PL_NEG: return op1(l, PL_STEP_neg, PL_ST_f64, x);
    case PL_ABS: return op1(l, PL_STEP_abs, PL_ST_f64, x);
    case PL_SQRT: return rounded(l, PL_STEP_sqrt, PL_ST_f64, PL_SA_RND_rn, 1, &x);
    case PL_RCP: return rounded(l, PL_STEP_rcp, PL_ST_f64, PL_SA_RND_rn, 1, &x);
    case PL_RSQRT: {
        struct pl_opnd s = rounded(l, PL_STEP_sqrt, PL_ST_f64, PL_SA_RND_rn, 1, &x);
        return rounded(l, PL_STEP_rcp, PL_ST_f64, PL_SA_RND_rn, 1, &s);
    }
    case PL_FLOOR:
        return pl_opnd_reg(pl_build_convert(&l->b, PL_ST_f64, PL_ST_f64, PL_SA_RND_rmi, x));
    case PL_CEIL:
        return pl_opnd_reg(pl_build_convert(&l->b, PL_ST_f64, PL_ST_f64, PL_SA_RND_rpi, x));
    case PL_ROUND:
        return pl_opnd_reg(pl_build_convert(&l->b, PL_ST_f64, PL_ST_f64, PL_SA_RND_rni, x));
    case PL_TRUNC:
        return pl_opnd_reg(pl_build_convert(&l->b, PL_ST_f64, PL_ST_f64, PL_SA_RND_rzi, x));
    case PL_EXP:
    case PL_EXP2:
    case PL_LOG:
    case PL_LOG2:
    case PL_SIN:
    case PL_COS:
    case PL_TANH: {
        struct pl_opnd narrow =
            pl_opnd_reg(pl_build_convert(&l->b, PL_ST_f32, PL_ST_f64, PL_SA_RND_rn, x));
        return pl_opnd_reg(pl_build_convert(&l->b, PL_ST_f64, PL_ST_f32, PL_SA_NONE,
                                            f32_unary(l, (int)sub, narrow, narrow)));
    }
    case PL_NOT:
    case PL_POPC:
    case PL_CLZ:
    case PL_BREV:
    case PL_OP1_NONE:
    case PL_OP1_COUNT: break;
    }
    PL_ASSERT(0 && "not a float operation");
    return x;
}

/* popc, clz and brev of narrow integers see their own width only. */
static struct pl_opnd int_bits(struct pl_lower *l, pl_op1 sub, pl_dtype t, struct pl_opnd x)
{
    const int32_t bits = pl_dtype_bits(t);
    const enum pl_stype bt = bits == 64 ? PL_ST_b64 : PL_ST_b32;
    x = pl_opnd_reg(pl_build_in_reg(&l->b, bt, x));
    if (bits < 32)
        x = pl_ix_and(&l->b, PL_ST_u32, x, ((int64_t)1 << bits) - 1);
    struct pl_opnd r;
    if (sub == PL_POPC)
        r = pl_opnd_reg(pl_build_op1(&l->b, PL_STEP_popc, bt, x));
    else if (sub == PL_CLZ)
        r = pl_ix_sub(&l->b, PL_ST_s32, pl_opnd_reg(pl_build_op1(&l->b, PL_STEP_clz, bt, x)),
                      pl_opnd_imm(bits < 32 ? 32 - bits : 0));
    else
        return pl_elem_canonical(l, t,
                                 pl_ix_shr(&l->b, bits == 64 ? PL_ST_u64 : PL_ST_u32,
                                           pl_opnd_reg(pl_build_op1(&l->b, PL_STEP_brev, bt, x)),
                                           bits < 32 ? 32 - (uint32_t)bits : 0));
    return bits == 64 ? pl_ix_convert(&l->b, pl_stype_of(t), PL_ST_u32, r) : r;
}

static struct pl_opnd int_unary(struct pl_lower *l, pl_op1 sub, pl_dtype t, struct pl_opnd x)
{
    const enum pl_stype st = pl_stype_of(t);
    const enum pl_stype signed_t = pl_stypes[st].bits == 64 ? PL_ST_s64 : PL_ST_s32;
    const enum pl_stype bits_t = pl_stypes[st].bits == 64 ? PL_ST_b64 : PL_ST_b32;
    switch (sub) {
    case PL_NEG: return pl_elem_canonical(l, t, op1(l, PL_STEP_neg, signed_t, x));
    case PL_ABS:
        return st == signed_t ? pl_elem_canonical(l, t, op1(l, PL_STEP_abs, signed_t, x)) : x;
    case PL_NOT: return pl_elem_canonical(l, t, op1(l, PL_STEP_not, bits_t, x));
    case PL_POPC:
    case PL_CLZ:
    case PL_BREV: return int_bits(l, sub, t, x);
    case PL_SQRT:
    case PL_RSQRT:
    case PL_RCP:
    case PL_EXP:
    case PL_EXP2:
    case PL_LOG:
    case PL_LOG2:
    case PL_SIN:
    case PL_COS:
    case PL_TANH:
    case PL_FLOOR:
    case PL_CEIL:
    case PL_ROUND:
    case PL_TRUNC:
    case PL_OP1_NONE:
    case PL_OP1_COUNT: break;
    }
    PL_ASSERT(0 && "not an integer operation");
    return x;
}

static struct pl_opnd elem_unary(struct pl_lower *l, pl_op1 sub, pl_dtype t, enum pl_rep rep,
                                 struct pl_opnd x)
{
    if (t == PL_PRED)
        return pl_opnd_is_imm(x) ? pl_opnd_imm(x.imm == 0)
                                 : pl_opnd_reg(pl_build_op1(&l->b, PL_STEP_not, PL_ST_pred, x));
    if (is_half(t)) {
        if (sub == PL_NEG || sub == PL_ABS)
            return half_op(l, sub == PL_NEG ? PL_STEP_neg : PL_STEP_abs, half_type(t, rep),
                           PL_SA_NONE, 1, &x);
        return through_f32(l, f32_unary, (int)sub, t, rep, x, x);
    }
    if (t == PL_F64)
        return f64_unary(l, sub, x);
    return is_float(t) ? f32_unary(l, (int)sub, x, x) : int_unary(l, sub, t, x);
}

/* ---- binary ---- */

static struct pl_opnd float_binary(struct pl_lower *l, int sub, enum pl_stype t, struct pl_opnd x,
                                   struct pl_opnd y)
{
    static const struct {
        uint8_t step, rounding;
    } ops[PL_OP2_COUNT] = {
        [PL_ADD] = {PL_STEP_add, PL_SA_RND_rn}, [PL_SUB] = {PL_STEP_sub, PL_SA_RND_rn},
        [PL_MUL] = {PL_STEP_mul, PL_SA_RND_rn}, [PL_DIV] = {PL_STEP_div, PL_SA_RND_rn},
        [PL_MIN] = {PL_STEP_min, PL_SA_NONE},   [PL_MAX] = {PL_STEP_max, PL_SA_NONE}};
    PL_ASSERT(ops[sub].step != PL_STEP_NONE && "not a float operation");
    return rounded(l, (enum pl_step_op)ops[sub].step, t, (enum pl_sattr)ops[sub].rounding, 2,
                   (const struct pl_opnd[]){x, y});
}

static struct pl_opnd f32_binary(struct pl_lower *l, int sub, struct pl_opnd x, struct pl_opnd y)
{
    return float_binary(l, sub, PL_ST_f32, x, y);
}

static struct pl_opnd half_binary(struct pl_lower *l, pl_op2 sub, pl_dtype t, enum pl_rep rep,
                                  struct pl_opnd x, struct pl_opnd y)
{
    const enum pl_stype ht = half_type(t, rep);
    const bool is_fused = t == PL_BF16 && !pl_lower_has(l, PL_F_BF16);
    const struct pl_opnd xs[2] = {x, y};
    if (sub == PL_MIN || sub == PL_MAX)
        return half_op(l, sub == PL_MIN ? PL_STEP_min : PL_STEP_max, ht, PL_SA_NONE, 2, xs);
    if (sub == PL_ADD || sub == PL_SUB || sub == PL_MUL) {
        if (!is_fused)
            return half_op(l,
                           sub == PL_ADD   ? PL_STEP_add
                           : sub == PL_SUB ? PL_STEP_sub
                                           : PL_STEP_mul,
                           ht, PL_SA_RND_rn, 2, xs);
        const struct pl_opnd c = half_const(t, rep,
                                            sub == PL_ADD   ? 1.0
                                            : sub == PL_SUB ? -1.0
                                                            : -0.0);
        const struct pl_opnd add[3] = {x, c, y}, sub3[3] = {y, c, x}, mul[3] = {x, y, c};
        return half_op(l, PL_STEP_fma, ht, PL_SA_RND_rn, 3,
                       sub == PL_ADD   ? add
                       : sub == PL_SUB ? sub3
                                       : mul);
    }
    return through_f32(l, f32_binary, (int)sub, t, rep, x, y);
}

static struct pl_opnd int_shift(struct pl_lower *l, pl_op2 sub, pl_dtype t, struct pl_opnd x,
                                struct pl_opnd y)
{
    const enum pl_stype st = pl_stype_of(t);
    if (pl_stypes[st].bits == 64)
        y = pl_ix_convert(&l->b, PL_ST_u32, PL_ST_u64,
                          pl_ix_min(&l->b, PL_ST_u64, y, pl_opnd_imm(64)));
    x = pl_opnd_reg(pl_build_in_reg(&l->b, st, x));
    if (sub == PL_SHR)
        return pl_opnd_reg(pl_build_op2(&l->b, PL_STEP_shr, st, x, y));
    return pl_elem_canonical(
        l, t,
        pl_opnd_reg(pl_build_op2(&l->b, PL_STEP_shl,
                                 pl_stypes[st].bits == 64 ? PL_ST_b64 : PL_ST_b32, x, y)));
}

static struct pl_opnd bitwise(struct pl_lower *l, enum pl_step_op op, enum pl_stype st,
                              struct pl_opnd x, struct pl_opnd y)
{
    const enum pl_stype bt = pl_stypes[st].bits == 64 ? PL_ST_b64 : PL_ST_b32;
    return pl_opnd_reg(pl_build_op2(&l->b, op, bt, pl_opnd_reg(pl_build_in_reg(&l->b, bt, x)), y));
}

/* x >= 0, y > 0: (x + y - 1) / y as unsigned, which cannot overflow where x and y have a bit to spare; else x / y, and 1 for a rest. */
static struct pl_opnd ceil_div(struct pl_lower *l, enum pl_stype st, struct pl_opnd x,
                               struct pl_opnd y)
{
    const bool is_64 = pl_stypes[st].bits == 64;
    const enum pl_stype ut = is_64 ? PL_ST_u64 : PL_ST_u32;
    if (st != ut)
        return pl_ix_div(&l->b, ut,
                         pl_ix_add(&l->b, ut, x, pl_ix_sub(&l->b, ut, y, pl_opnd_imm(1))), y);
    const struct pl_opnd q = pl_ix_div(&l->b, ut, x, y), rest = pl_ix_rem(&l->b, ut, x, y);
    return pl_ix_add(&l->b, ut, q, pl_ix_min(&l->b, ut, rest, pl_opnd_imm(1)));
}

static struct pl_opnd int_binary(struct pl_lower *l, pl_op2 sub, pl_dtype t, struct pl_opnd x,
                                 struct pl_opnd y)
{
    const enum pl_stype st = pl_stype_of(t);
    switch (sub) {
    case PL_ADD: return pl_elem_canonical(l, t, pl_ix_add(&l->b, st, x, y));
    case PL_SUB: return pl_elem_canonical(l, t, pl_ix_sub(&l->b, st, x, y));
    case PL_MUL: return pl_elem_canonical(l, t, pl_ix_mul(&l->b, st, x, y));
    case PL_DIV: return pl_elem_canonical(l, t, pl_ix_div(&l->b, st, x, y));
    case PL_REM: return pl_ix_rem(&l->b, st, x, y);
    case PL_CDIV: return ceil_div(l, st, x, y);
    case PL_MIN: return pl_ix_min(&l->b, st, x, y);
    case PL_MAX: return pl_ix_max(&l->b, st, x, y);
    case PL_AND: return bitwise(l, PL_STEP_and, st, x, y);
    case PL_OR: return bitwise(l, PL_STEP_or, st, x, y);
    case PL_XOR: return bitwise(l, PL_STEP_xor, st, x, y);
    case PL_SHL:
    case PL_SHR: return int_shift(l, sub, t, x, y);
    case PL_EQ:
    case PL_NE:
    case PL_LT:
    case PL_LE:
    case PL_GT:
    case PL_GE:
    case PL_OP2_NONE:
    case PL_OP2_COUNT: break;
    }
    PL_ASSERT(0 && "not an integer operation");
    return x;
}

static struct pl_opnd pred_binary(struct pl_lower *l, pl_op2 sub, struct pl_opnd x,
                                  struct pl_opnd y)
{
    enum pl_step_op op = sub == PL_AND ? PL_STEP_and : sub == PL_OR ? PL_STEP_or : PL_STEP_xor;
    x = pl_opnd_reg(pl_build_in_reg(&l->b, PL_ST_pred, x));
    y = pl_opnd_reg(pl_build_in_reg(&l->b, PL_ST_pred, y));
    pl_reg r = pl_build_op2(&l->b, op, PL_ST_pred, x, y);
    if (sub == PL_EQ)
        r = pl_build_op1(&l->b, PL_STEP_not, PL_ST_pred, pl_opnd_reg(r));
    return pl_opnd_reg(r);
}

static enum pl_sattr compare_attr(pl_op2 sub, bool is_float_type)
{
    static const uint8_t attrs[PL_OP2_COUNT] = {
        [PL_EQ] = PL_SA_CMP_eq, [PL_NE] = PL_SA_CMP_ne, [PL_LT] = PL_SA_CMP_lt,
        [PL_LE] = PL_SA_CMP_le, [PL_GT] = PL_SA_CMP_gt, [PL_GE] = PL_SA_CMP_ge};
    return is_float_type && sub == PL_NE ? PL_SA_CMP_neu : (enum pl_sattr)attrs[sub];
}

/* Elements, not pairs: the result is one predicate an element. */
static struct pl_opnd elem_compare(struct pl_lower *l, pl_op2 sub, pl_dtype t, struct pl_opnd x,
                                   struct pl_opnd y)
{
    if (t == PL_PRED)
        return pred_binary(l, sub, x, y);
    enum pl_stype st = pl_stype_of(t);
    if (is_half(t)) {
        x = pl_elem_to_f32(l, t, x);
        y = pl_elem_to_f32(l, t, y);
        st = PL_ST_f32;
    }
    x = pl_opnd_reg(pl_build_in_reg(&l->b, st, x));
    return pl_opnd_reg(pl_build_compare(&l->b, compare_attr(sub, is_float(t)), st, x, y));
}

struct pl_opnd pl_elem_binary(struct pl_lower *l, pl_op2 op, pl_dtype t, enum pl_rep rep,
                              struct pl_opnd x, struct pl_opnd y)
{
    if (t == PL_PRED)
        return pred_binary(l, op, x, y);
    if (is_half(t))
        return half_binary(l, op, t, rep, x, y);
    if (is_float(t))
        return float_binary(l, (int)op, pl_stype_of(t), x, y);
    return int_binary(l, op, t, x, y);
}

struct pl_opnd pl_elem_identity(pl_op2 op, pl_dtype t)
{
    const bool is_f = is_float(t);
    const int32_t bits = pl_dtype_bits(t);
    const bool is_unsigned = pl_dtype_kind_of(t) == PL_KIND_UINT;
    const int64_t top = bits >= 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;
    if (op == PL_MUL)
        return pl_const_of(t, 1, 1.0);
    if (op == PL_MIN)
        return is_f ? pl_const_of(t, 0, (double)INFINITY)
                    : pl_const_of(t, is_unsigned ? -1 : top, 0);
    if (op == PL_MAX)
        return is_f ? pl_const_of(t, 0, -(double)INFINITY)
                    : pl_const_of(t, is_unsigned ? 0 : -top - 1, 0);
    if (op == PL_AND)
        return pl_const_of(t, -1, 0);
    return pl_const_of(t, 0, is_f ? -0.0 : 0.0); /* ADD, OR, XOR */
}

/* ---- ops ---- */

struct pl_lval pl_lval_of(struct pl_lower *l, uint32_t val)
{
    const struct pl_op *op = pl_ir_op(l->fn, val);
    return op->code == PL_OP_CONST ? pl_lval_scalar(op->dtype, pl_const_of(op->dtype, op->i, op->f))
                                   : l->vals[val];
}

/* The layout of the result: that of the first operand that is spread over the threads, else splat. */
static struct pl_lay joint_lay(const struct pl_lval *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!v[i].lay.is_splat)
            return v[i].lay;
    return v[0].lay;
}

typedef struct pl_opnd reg_function(struct pl_lower *l, const struct pl_op *op, pl_dtype t,
                                    enum pl_rep rep, const struct pl_opnd *x);

static void start_repeat(struct pl_repeat *rep, const struct pl_lval *in, uint32_t n)
{
    pl_repeat_start(rep, n);
    for (uint32_t i = 0; i < n; i++)
        rep->is_splat[i] = in[i].lay.is_splat;
}

/* Apply f to each register of up to three operands of one dtype and one layout. */
static void by_register(struct pl_lower *l, uint32_t id, const struct pl_op *op, reg_function *f)
{
    struct pl_lval in[3];
    struct pl_opnd x[3];
    const uint32_t n = op->n_args;
    for (uint32_t i = 0; i < n; i++)
        in[i] = pl_lval_of(l, op->args[i]);
    const struct pl_lay lay = joint_lay(in, n);
    if (lay.is_splat) {
        for (uint32_t i = 0; i < n; i++)
            x[i] = in[i].one;
        l->vals[id] = pl_lval_scalar(op->dtype, f(l, op, op->dtype, pl_rep_of(op->dtype, 1), x));
        return;
    }
    struct pl_lval out = pl_lval_make(l, op->dtype, lay);
    struct pl_repeat rep;
    start_repeat(&rep, in, n);
    for (uint32_t r = 0; r < out.n_regs; r++) {
        for (uint32_t i = 0; i < n; i++)
            x[i] = pl_lval_unit(l, &in[i], out.rep, r);
        if (pl_repeat_make(&l->b, &rep, x, &out.regs[r], 1))
            continue;
        pl_repeat_begin(&l->b, &rep, x);
        out.regs[r] = f(l, op, op->dtype, out.rep, x);
        pl_repeat_end(&l->b, &rep, &out.regs[r], 1);
    }
    l->vals[id] = out;
}

/* Apply f to each element: operands and result may lie differently in registers (comparisons, selections). */
static void by_element(struct pl_lower *l, uint32_t id, const struct pl_op *op, reg_function *f)
{
    struct pl_lval in[3];
    struct pl_opnd x[3];
    const uint32_t n = op->n_args;
    const pl_dtype t = pl_ir_op(l->fn, op->args[n - 1])->dtype;
    for (uint32_t i = 0; i < n; i++)
        in[i] = pl_lval_of(l, op->args[i]);
    const struct pl_lay lay = joint_lay(in, n);
    if (lay.is_splat) {
        for (uint32_t i = 0; i < n; i++)
            x[i] = in[i].one;
        l->vals[id] = pl_lval_scalar(op->dtype, f(l, op, t, pl_rep_of(t, 1), x));
        return;
    }
    struct pl_lval out = pl_lval_make(l, op->dtype, lay);
    const uint32_t n_elems = lay.n_chunks * lay.vec;
    struct pl_opnd *elems = pl_arena_array(l->arena, n_elems, sizeof *elems);
    for (uint32_t e = 0; elems != NULL && e < n_elems; e++) {
        for (uint32_t i = 0; i < n; i++)
            x[i] = pl_lval_elem(l, &in[i], e);
        elems[e] = f(l, op, t, pl_rep_of(t, 1), x);
    }
    if (elems != NULL)
        pl_lval_set_elems(l, &out, elems);
    l->vals[id] = out;
}

static struct pl_opnd unary_reg(struct pl_lower *l, const struct pl_op *op, pl_dtype t,
                                enum pl_rep rep, const struct pl_opnd *x)
{
    return elem_unary(l, (pl_op1)op->sub, t, rep, x[0]);
}

/* Integers of rank 0 that are known not to be below 0 are divided as unsigned ones, which takes the chip fewer instructions. */
static bool divides_unsigned(const struct pl_lower *l, const struct pl_op *op, pl_dtype t)
{
    return (op->sub == PL_DIV || op->sub == PL_REM) && (t == PL_I32 || t == PL_I64) &&
           op->shape.rank == 0 && pl_val_is_nonneg(l, op->args[0]) &&
           pl_val_is_nonneg(l, op->args[1]);
}

static struct pl_opnd binary_reg(struct pl_lower *l, const struct pl_op *op, pl_dtype t,
                                 enum pl_rep rep, const struct pl_opnd *x)
{
    if (divides_unsigned(l, op, t))
        t = t == PL_I32 ? PL_U32 : PL_U64;
    return pl_elem_binary(l, (pl_op2)op->sub, t, rep, x[0], x[1]);
}

static struct pl_opnd compare_elem(struct pl_lower *l, const struct pl_op *op, pl_dtype t,
                                   enum pl_rep rep, const struct pl_opnd *x)
{
    (void)rep;
    return elem_compare(l, (pl_op2)op->sub, t, x[0], x[1]);
}

static struct pl_opnd fma_reg(struct pl_lower *l, const struct pl_op *op, pl_dtype t,
                              enum pl_rep rep, const struct pl_opnd *x)
{
    (void)op;
    if (is_half(t))
        return half_op(l, PL_STEP_fma, half_type(t, rep), PL_SA_RND_rn, 3, x);
    if (is_float(t))
        return rounded(l, PL_STEP_fma, pl_stype_of(t), PL_SA_RND_rn, 3, x);
    const enum pl_stype st = pl_stype_of(t);
    return pl_elem_canonical(l, t, pl_ix_add(&l->b, st, pl_ix_mul(&l->b, st, x[0], x[1]), x[2]));
}

static struct pl_opnd select_elem(struct pl_lower *l, const struct pl_op *op, pl_dtype t,
                                  enum pl_rep rep, const struct pl_opnd *x)
{
    (void)op;
    if (pl_opnd_is_imm(x[0]))
        return x[0].imm != 0 ? x[1] : x[2];
    if (t == PL_PRED) { /* c ? a : b = (c & a) | (!c & b) */
        struct pl_opnd a = pred_binary(l, PL_AND, x[0], x[1]);
        struct pl_opnd nc = pl_opnd_reg(pl_build_op1(&l->b, PL_STEP_not, PL_ST_pred, x[0]));
        return pred_binary(l, PL_OR, a, pred_binary(l, PL_AND, nc, x[2]));
    }
    const enum pl_stype bits = pl_stype_bits(rep);
    return pl_opnd_reg(pl_build_op3(&l->b, PL_STEP_select, bits, x[1], x[2], x[0]));
}

void pl_lower_unary(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    by_register(l, id, op, unary_reg);
}

void pl_lower_binary(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    if (pl_op2_is_compare((pl_op2)op->sub))
        by_element(l, id, op, compare_elem);
    else
        by_register(l, id, op, binary_reg);
}

void pl_lower_fma(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    by_register(l, id, op, fma_reg);
}

void pl_lower_select(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    by_element(l, id, op, select_elem);
}
