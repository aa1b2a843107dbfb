/*
 * Conversions. Between floats: to nearest even, one rounding. Float to integer: toward zero, saturating, NaN gives 0. Integer to
 * integer: modulo. Where the chip has no direct instruction the value passes through an f32 *rounded to odd* (truncated, its
 * last bit set when anything was lost), which a second rounding to at most 22 bits cannot tell from the exact value.
 */
#include "src/plan/cast.h"

#include "base/debug.h"
#include "src/plan/elem.h"
#include "src/plan/scalar.h"

static struct pl_opnd in_reg(struct pl_lower *l, enum pl_stype t, struct pl_opnd x)
{
    return pl_opnd_reg(pl_build_in_reg(&l->b, t, x));
}

static struct pl_opnd convert(struct pl_lower *l, enum pl_stype to, enum pl_stype from,
                              enum pl_sattr rnd, struct pl_opnd x)
{
    return pl_opnd_reg(pl_build_convert(&l->b, to, from, rnd, x));
}

static struct pl_opnd select32(struct pl_lower *l, struct pl_opnd x, struct pl_opnd y, pl_reg p)
{
    return pl_opnd_reg(pl_build_op3(&l->b, PL_STEP_select, PL_ST_b32, x, y, pl_opnd_reg(p)));
}

static bool is_float(pl_dtype t) { return pl_dtype_kind_of(t) == PL_KIND_FLOAT; }
static bool is_fp8(pl_dtype t) { return t == PL_E4M3 || t == PL_E5M2; }
static bool is_int(pl_dtype t)
{
    return pl_dtype_kind_of(t) == PL_KIND_INT || pl_dtype_kind_of(t) == PL_KIND_UINT;
}

/* x of a wider or integer type as f32, rounded to odd; exact values stay exact. */
static struct pl_opnd to_odd_f32(struct pl_lower *l, enum pl_stype from, struct pl_opnd x)
{
    const bool is_f64 = from == PL_ST_f64;
    struct pl_opnd cut = convert(l, PL_ST_f32, from, PL_SA_RND_rz, x);
    struct pl_opnd back = convert(l, from, PL_ST_f32, is_f64 ? PL_SA_NONE : PL_SA_RND_rzi, cut);
    pl_reg is_cut = pl_build_compare(&l->b, is_f64 ? PL_SA_CMP_neu : PL_SA_CMP_ne, from, back, x);
    struct pl_opnd odd =
        pl_opnd_reg(pl_build_op2(&l->b, PL_STEP_or, PL_ST_b32, cut, pl_opnd_imm(1)));
    return select32(l, odd, cut, is_cut);
}

/* ---- to f32 ---- */

/*
 * Without the instruction. e5m2 is the upper half of an f16. e4m3 has f32's layout with a bias of 7 instead of 127, so its bits in
 * place are 2^-120 of the value, subnormals too; only its one NaN is not f32's.
 */
static struct pl_opnd fp8_bits_to_f32(struct pl_lower *l, pl_dtype from, struct pl_opnd x)
{
    if (from == PL_E5M2) {
        struct pl_opnd h = in_reg(l, PL_ST_b32, pl_ix_shl(&l->b, PL_ST_u32, x, 8));
        return convert(l, PL_ST_f32, PL_ST_f16, PL_SA_NONE,
                       convert(l, PL_ST_u16, PL_ST_u32, PL_SA_NONE, h));
    }
    struct pl_opnd mag = pl_ix_and(&l->b, PL_ST_u32, x, 0x7f);
    pl_reg is_nan = pl_build_compare(&l->b, PL_SA_CMP_eq, PL_ST_u32, mag, pl_opnd_imm(0x7f));
    struct pl_opnd sign = pl_ix_shl(&l->b, PL_ST_u32, pl_ix_and(&l->b, PL_ST_u32, x, 0x80), 24);
    struct pl_opnd bits = pl_opnd_reg(
        pl_build_op2(&l->b, PL_STEP_or, PL_ST_b32, pl_ix_shl(&l->b, PL_ST_u32, mag, 20), sign));
    const struct pl_opnd scale = pl_const_of(PL_F32, 0, 0x1p120);
    struct pl_opnd v = pl_opnd_reg(pl_build_value(
        &l->b,
        &(struct pl_sdesc){.op = PL_STEP_mul, .type = PL_ST_f32, .n = 2, .opnds = {bits, scale}}));
    return select32(l, pl_opnd_imm(0x7fffffff), v, is_nan);
}

static bool has_fp8(const struct pl_lower *l)
{
    return (l->fn->request.target->features & PL_F_FP8) != 0;
}

static struct pl_opnd fp8_to_f32(struct pl_lower *l, pl_dtype from, struct pl_opnd x)
{
    if (!has_fp8(l))
        return fp8_bits_to_f32(l, from, x);
    struct pl_opnd h = convert(l, PL_ST_u16, PL_ST_u32, PL_SA_NONE, x);
    struct pl_opnd pair =
        convert(l, PL_ST_f16x2, from == PL_E4M3 ? PL_ST_e4m3x2 : PL_ST_e5m2x2, PL_SA_RND_rn, h);
    struct pl_opnd low = convert(l, PL_ST_u16, PL_ST_u32, PL_SA_NONE, pair);
    return convert(l, PL_ST_f32, PL_ST_f16, PL_SA_NONE, low);
}

/* 2^(code - 127); code 0 is subnormal in f32, 255 is NaN. */
static struct pl_opnd e8m0_to_f32(struct pl_lower *l, struct pl_opnd x)
{
    x = in_reg(l, PL_ST_b32, x);
    struct pl_opnd v = pl_ix_shl(&l->b, PL_ST_u32, x, 23);
    pl_reg is_zero = pl_build_compare(&l->b, PL_SA_CMP_eq, PL_ST_u32, x, pl_opnd_imm(0));
    pl_reg is_nan = pl_build_compare(&l->b, PL_SA_CMP_eq, PL_ST_u32, x, pl_opnd_imm(255));
    v = select32(l, pl_opnd_imm(0x00400000), v, is_zero);
    return select32(l, pl_opnd_imm(0x7fffffff), v, is_nan);
}

/* Exact, or rounded to odd where that is all the next step needs. */
static struct pl_opnd to_f32(struct pl_lower *l, pl_dtype from, struct pl_opnd x)
{
    if (from == PL_F64)
        return to_odd_f32(l, PL_ST_f64, in_reg(l, PL_ST_f64, x));
    if (is_fp8(from))
        return fp8_to_f32(l, from, in_reg(l, PL_ST_b32, x));
    if (from == PL_E8M0)
        return e8m0_to_f32(l, x);
    if (is_float(from))
        return pl_elem_to_f32(l, from, x);
    if (pl_dtype_bits(from) < 32)
        return convert(l, PL_ST_f32, pl_stype_of(from), PL_SA_RND_rn,
                       in_reg(l, pl_stype_of(from), x));
    return to_odd_f32(l, pl_stype_of(from), in_reg(l, pl_stype_of(from), x));
}

/* ---- from f32 ---- */

static struct pl_opnd f32_to_fp8(struct pl_lower *l, pl_dtype to, struct pl_opnd x)
{
    pl_reg pair = pl_build_value(
        &l->b, &(struct pl_sdesc){.op = PL_STEP_convert2,
                                  .type = to == PL_E4M3 ? PL_ST_e4m3x2 : PL_ST_e5m2x2,
                                  .from = PL_ST_f32,
                                  .attrs = {PL_SA_RND_rn, PL_SA_SAT_satfinite},
                                  .n = 2,
                                  .opnds = {pl_opnd_imm(0), x}});
    return pl_ix_and(&l->b, PL_ST_u32,
                     convert(l, PL_ST_u32, PL_ST_u16, PL_SA_NONE, pl_opnd_reg(pair)), 0xff);
}

/* Nearest power of two, ties to the even code; the sign is dropped, overflow and infinity give the largest. */
static struct pl_opnd f32_to_e8m0(struct pl_lower *l, struct pl_opnd x)
{
    struct pl_opnd mag = pl_ix_and(&l->b, PL_ST_u32, x, 0x7fffffff);
    pl_reg is_nan = pl_build_compare(&l->b, PL_SA_CMP_gt, PL_ST_u32, mag, pl_opnd_imm(0x7f800000));
    struct pl_opnd lsb = pl_ix_and(&l->b, PL_ST_u32, pl_ix_shr(&l->b, PL_ST_u32, mag, 23), 1);
    struct pl_opnd up =
        pl_ix_add(&l->b, PL_ST_u32, pl_ix_add(&l->b, PL_ST_u32, mag, pl_opnd_imm(0x3fffff)), lsb);
    struct pl_opnd code =
        pl_ix_min(&l->b, PL_ST_u32, pl_ix_shr(&l->b, PL_ST_u32, up, 23), pl_opnd_imm(254));
    return select32(l, pl_opnd_imm(255), code, is_nan);
}

/* tf32 to nearest even without the instruction: add half of the last place kept, then cut. NaN becomes the canonical one. */
static struct pl_opnd f32_to_tf32(struct pl_lower *l, struct pl_opnd x)
{
    if (pl_lower_has(l, PL_F_TF32_RN))
        return convert(l, PL_ST_tf32, PL_ST_f32, PL_SA_RND_rn, x);
    struct pl_opnd lsb = pl_ix_and(&l->b, PL_ST_u32, pl_ix_shr(&l->b, PL_ST_u32, x, 13), 1);
    struct pl_opnd up =
        pl_ix_add(&l->b, PL_ST_u32, pl_ix_add(&l->b, PL_ST_u32, x, pl_opnd_imm(0xfff)), lsb);
    pl_reg is_nan = pl_build_compare(&l->b, PL_SA_CMP_nan, PL_ST_f32, x, x);
    return select32(l, pl_opnd_imm(0x7fffe000), pl_ix_and(&l->b, PL_ST_u32, up, 0xffffe000),
                    is_nan);
}

static struct pl_opnd from_f32(struct pl_lower *l, pl_dtype to, struct pl_opnd x)
{
    x = in_reg(l, PL_ST_f32, x);
    if (to == PL_TF32)
        return f32_to_tf32(l, x);
    if (is_fp8(to))
        return f32_to_fp8(l, to, x);
    if (to == PL_E8M0)
        return f32_to_e8m0(l, x);
    return pl_elem_from_f32(l, to, x);
}

/* ---- floats and integers ---- */

/* Saturating, toward zero; a NaN gives 0 whatever the instruction makes of it. */
static struct pl_opnd float_to_int(struct pl_lower *l, pl_dtype from, pl_dtype to, struct pl_opnd x)
{
    const enum pl_stype st = pl_stype_of(to);
    enum pl_stype ft = PL_ST_f64;
    if (from == PL_F64) {
        x = in_reg(l, PL_ST_f64, x);
    } else {
        x = in_reg(l, PL_ST_f32, to_f32(l, from, x));
        ft = PL_ST_f32;
    }
    struct pl_opnd r = convert(l, st, ft, PL_SA_RND_rzi, x);
    if (ft == PL_ST_f64 || pl_stypes[st].bits == 64) {
        pl_reg is_nan = pl_build_compare(&l->b, PL_SA_CMP_nan, ft, x, x);
        r = pl_opnd_reg(pl_build_op3(&l->b, PL_STEP_select,
                                     pl_stypes[st].bits == 64 ? PL_ST_b64 : PL_ST_b32,
                                     pl_opnd_imm(0), r, pl_opnd_reg(is_nan)));
    }
    if (pl_dtype_bits(to) < 32) {
        const int64_t top = ((int64_t)1 << (pl_dtype_bits(to) - (st == PL_ST_s32))) - 1;
        r = pl_ix_min(&l->b, st, r, pl_opnd_imm(top));
        if (st == PL_ST_s32)
            r = pl_ix_max(&l->b, st, r, pl_opnd_imm(-top - 1));
    }
    return r;
}

static struct pl_opnd int_to_float(struct pl_lower *l, pl_dtype from, pl_dtype to, struct pl_opnd x)
{
    const enum pl_stype st = pl_stype_of(from);
    if (to == PL_F32 || to == PL_F64 || to == PL_F16)
        return convert(l, pl_stype_of(to), st, PL_SA_RND_rn, in_reg(l, st, x));
    return from_f32(l, to, to_f32(l, from, x));
}

static struct pl_opnd float_to_float(struct pl_lower *l, pl_dtype from, pl_dtype to,
                                     struct pl_opnd x)
{
    if (to == PL_F64) {
        x = in_reg(l, from == PL_F16 ? PL_ST_b16 : PL_ST_f32,
                   from == PL_F16 ? x : to_f32(l, from, x));
        return convert(l, PL_ST_f64, from == PL_F16 ? PL_ST_f16 : PL_ST_f32, PL_SA_NONE, x);
    }
    if (from == PL_F64 && (to == PL_F32 || to == PL_F16))
        return convert(l, pl_stype_of(to), PL_ST_f64, PL_SA_RND_rn, in_reg(l, PL_ST_f64, x));
    return from_f32(l, to, to_f32(l, from, x));
}

static struct pl_opnd to_pred(struct pl_lower *l, pl_dtype from, struct pl_opnd x)
{
    enum pl_stype st = pl_stype_of(from);
    if (pl_dtype_bits(from) < 32 && !is_int(from)) {
        x = to_f32(l, from, x);
        st = PL_ST_f32;
    }
    return pl_opnd_reg(pl_build_compare(&l->b, is_int(from) ? PL_SA_CMP_ne : PL_SA_CMP_neu, st,
                                        in_reg(l, st, x), pl_opnd_imm(0)));
}

static struct pl_opnd from_pred(struct pl_lower *l, pl_dtype to, struct pl_opnd x)
{
    const struct pl_opnd one = pl_const_of(to, 1, 1.0), zero = pl_const_of(to, 0, 0.0);
    if (pl_opnd_is_imm(x))
        return x.imm != 0 ? one : zero;
    return pl_opnd_reg(
        pl_build_op3(&l->b, PL_STEP_select, pl_stype_bits(pl_rep_of(to, 1)), one, zero, x));
}

struct pl_opnd pl_elem_cast(struct pl_lower *l, pl_dtype from, pl_dtype to, struct pl_opnd x)
{
    if (from == to)
        return x;
    if (to == PL_PRED)
        return to_pred(l, from, x);
    if (from == PL_PRED)
        return from_pred(l, to, x);
    if (is_int(from) && is_int(to))
        return pl_elem_canonical(l, to,
                                 pl_ix_convert(&l->b, pl_stype_of(to), pl_stype_of(from), x));
    if (is_int(to))
        return float_to_int(l, from, to, x);
    return is_int(from) ? int_to_float(l, from, to, x) : float_to_float(l, from, to, x);
}

/* Two results in one packed register. */
static struct pl_opnd pair_cast(struct pl_lower *l, pl_dtype from, pl_dtype to,
                                const struct pl_opnd x[2])
{
    if (from == PL_PRED || from == to)
        return pl_pack_halves(l, pl_elem_cast(l, from, to, x[0]), pl_elem_cast(l, from, to, x[1]));
    struct pl_opnd f[2];
    for (int i = 0; i < 2; i++)
        f[i] = in_reg(l, PL_ST_f32, to_f32(l, from, x[i]));
    return pl_opnd_reg(
        pl_build_value(&l->b, &(struct pl_sdesc){.op = PL_STEP_convert2,
                                                 .type = to == PL_F16 ? PL_ST_f16x2 : PL_ST_bf16x2,
                                                 .from = PL_ST_f32,
                                                 .attrs = {PL_SA_RND_rn},
                                                 .n = 2,
                                                 .opnds = {f[1], f[0]}}));
}

/* The two halves of a packed bf16 pair as f32: a shift and a mask. */
static void widen_pair(struct pl_lower *l, struct pl_opnd word, struct pl_opnd out[2])
{
    out[0] = pl_ix_shl(&l->b, PL_ST_u32, word, 16);
    out[1] = pl_ix_and(&l->b, PL_ST_u32, word, 0xffff0000);
}

/* 6- and 4-bit floats have no conversion here; to 8-bit ones it takes the chip's. */
static bool can_cast(const struct pl_lower *l, pl_dtype from, pl_dtype to)
{
    return pl_dtype_bits(from) >= 8 && pl_dtype_bits(to) >= 8 && (has_fp8(l) || !is_fp8(to));
}

void pl_lower_cast(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    const struct pl_lval in = pl_lval_of(l, op->args[0]);
    const pl_dtype from = in.dtype, to = op->dtype;
    if (from != to && !can_cast(l, from, to)) {
        pl_lower_refuse(
            l, op,
            pl_arena_printf(l->arena, "from %s to %s", pl_dtype_name(from), pl_dtype_name(to)));
        l->vals[id] = pl_lval_scalar(to, pl_opnd_imm(0));
        return;
    }
    if (in.lay.is_splat || from == to) {
        l->vals[id] = in;
        if (from != to)
            l->vals[id] = pl_lval_scalar(to, pl_elem_cast(l, from, to, in.one));
        return;
    }
    struct pl_lval out = pl_lval_make(l, to, in.lay);
    if (out.regs == NULL)
        return; /* memory ran out */
    const bool is_pair = out.rep == PL_REP_HALF2,
               widens = in.rep == PL_REP_HALF2 && from == PL_BF16 && to == PL_F32;
    const uint32_t n_outs = widens ? 2 : 1;
    struct pl_repeat rep;
    pl_repeat_start(&rep, is_pair ? 2 : 1);
    for (uint32_t r = 0; r * n_outs < out.n_regs; r++) {
        struct pl_opnd *outs = &out.regs[r * n_outs], x[2];
        if (widens) {
            x[0] = in.regs[r];
        } else {
            x[0] = pl_lval_elem(l, &in, is_pair ? 2 * r : r);
            x[1] = is_pair ? pl_lval_elem(l, &in, 2 * r + 1) : pl_opnd_none();
        }
        if (pl_repeat_make(&l->b, &rep, x, outs, n_outs))
            continue;
        pl_repeat_begin(&l->b, &rep, x);
        if (is_pair)
            outs[0] = pair_cast(l, from, to, x);
        else if (widens)
            widen_pair(l, x[0], outs);
        else
            outs[0] = pl_elem_cast(l, from, to, x[0]);
        pl_repeat_end(&l->b, &rep, outs, n_outs);
    }
    l->vals[id] = out;
}

/* ---- the same bits with another type ---- */

static struct pl_opnd elem_bitcast(struct pl_lower *l, pl_dtype from, pl_dtype to, struct pl_opnd x)
{
    const enum pl_rep in = pl_rep_of(from, 1), out = pl_rep_of(to, 1);
    if (pl_opnd_is_imm(x)) {
        const int32_t bits = pl_dtype_bits(to);
        uint64_t v = (uint64_t)x.imm & (bits == 64 ? ~(uint64_t)0 : ((uint64_t)1 << bits) - 1);
        return is_int(to) ? pl_const_of(to, (int64_t)v, 0) : pl_opnd_imm((int64_t)v);
    }
    if (in == PL_REP_HALF && out == PL_REP_WORD)
        return convert(l, to == PL_I16 ? PL_ST_s32 : PL_ST_u32,
                       to == PL_I16 ? PL_ST_s16 : PL_ST_u16, PL_SA_NONE, x);
    if (in == PL_REP_WORD && out == PL_REP_HALF)
        return convert(l, PL_ST_u16, PL_ST_u32, PL_SA_NONE, x);
    if (pl_dtype_bits(to) < 32 && is_int(to))
        return pl_elem_canonical(l, to, x);
    if (pl_dtype_bits(to) == 8) /* from a sign-extended byte */
        return pl_ix_and(&l->b, PL_ST_u32, x, 0xff);
    return x;
}

void pl_lower_bitcast(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    const struct pl_lval in = pl_lval_of(l, op->args[0]);
    if (in.lay.is_splat) {
        l->vals[id] = pl_lval_scalar(op->dtype, elem_bitcast(l, in.dtype, op->dtype, in.one));
        return;
    }
    struct pl_lval out = pl_lval_make(l, op->dtype, in.lay);
    if (in.rep == out.rep && in.rep != PL_REP_WORD) {
        out.regs = in.regs;
    } else {
        const uint32_t n = in.lay.n_chunks * in.lay.vec;
        struct pl_opnd *elems = pl_arena_array(l->arena, n, sizeof *elems);
        for (uint32_t e = 0; elems != NULL && e < n; e++)
            elems[e] = elem_bitcast(l, in.dtype, op->dtype, pl_lval_elem(l, &in, e));
        if (elems != NULL)
            pl_lval_set_elems(l, &out, elems);
    }
    l->vals[id] = out;
}
