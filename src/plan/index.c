/* Integer arithmetic with folding (declared in build.h): what index math is made of. */
#include "base/debug.h"
#include "src/plan/build.h"

static bool is64(enum pl_stype t) { return pl_stypes[t].bits == 64; }
static bool is_signed(enum pl_stype t) { return pl_stypes[t].kind == PL_ST_KIND_SINT; }

int64_t pl_ix_canonical(enum pl_stype t, int64_t v)
{
    if (is64(t))
        return v;
    return is_signed(t) ? (int64_t)(int32_t)(uint32_t)v : (int64_t)(uint32_t)v;
}

static struct pl_opnd constant(enum pl_stype t, uint64_t v)
{
    return pl_opnd_imm(pl_ix_canonical(t, (int64_t)v));
}
static bool both_imm(struct pl_opnd x, struct pl_opnd y)
{
    return pl_opnd_is_imm(x) && pl_opnd_is_imm(y);
}

static struct pl_opnd op2(struct pl_build *b, enum pl_step_op op, enum pl_stype t, struct pl_opnd x,
                          struct pl_opnd y)
{
    if (pl_opnd_is_imm(x)) /* constants stand second; where the order matters, in a register */
        x = pl_opnd_reg(pl_build_in_reg(b, t, x));
    return pl_opnd_reg(pl_build_op2(b, op, t, x, y));
}

static int log2_of(int64_t v)
{
    if (v <= 0 || (v & (v - 1)) != 0)
        return -1;
    int n = 0;
    while (v >> n != 1)
        n++;
    return n;
}

struct pl_opnd pl_ix_add(struct pl_build *b, enum pl_stype t, struct pl_opnd x, struct pl_opnd y)
{
    if (both_imm(x, y))
        return constant(t, (uint64_t)x.imm + (uint64_t)y.imm);
    if (pl_opnd_is(x, 0))
        return y;
    if (pl_opnd_is(y, 0))
        return x;
    return pl_opnd_is_imm(x) ? op2(b, PL_STEP_add, t, y, x) : op2(b, PL_STEP_add, t, x, y);
}

struct pl_opnd pl_ix_sub(struct pl_build *b, enum pl_stype t, struct pl_opnd x, struct pl_opnd y)
{
    if (both_imm(x, y))
        return constant(t, (uint64_t)x.imm - (uint64_t)y.imm);
    return pl_opnd_is(y, 0) ? x : op2(b, PL_STEP_sub, t, x, y);
}

struct pl_opnd pl_ix_shl(struct pl_build *b, enum pl_stype t, struct pl_opnd x, uint32_t n_bits)
{
    if (pl_opnd_is_imm(x))
        return constant(t, (uint64_t)x.imm << n_bits);
    return n_bits == 0
               ? x
               : op2(b, PL_STEP_shl, is64(t) ? PL_ST_b64 : PL_ST_b32, x, pl_opnd_imm(n_bits));
}

struct pl_opnd pl_ix_shr(struct pl_build *b, enum pl_stype t, struct pl_opnd x, uint32_t n_bits)
{
    if (pl_opnd_is_imm(x))
        return constant(t, is_signed(t) ? (uint64_t)(x.imm >> n_bits) : (uint64_t)x.imm >> n_bits);
    return n_bits == 0 ? x : op2(b, PL_STEP_shr, t, x, pl_opnd_imm(n_bits));
}

struct pl_opnd pl_ix_mul(struct pl_build *b, enum pl_stype t, struct pl_opnd x, struct pl_opnd y)
{
    if (both_imm(x, y))
        return constant(t, (uint64_t)x.imm * (uint64_t)y.imm);
    if (pl_opnd_is_imm(x)) {
        struct pl_opnd swap = x;
        x = y;
        y = swap;
    }
    if (pl_opnd_is(y, 0))
        return y;
    if (pl_opnd_is_imm(y) && log2_of(y.imm) >= 0)
        return pl_ix_shl(b, t, x, (uint32_t)log2_of(y.imm));
    return op2(b, PL_STEP_mul, t, x, y);
}

struct pl_opnd pl_ix_div(struct pl_build *b, enum pl_stype t, struct pl_opnd x, struct pl_opnd y)
{
    if (both_imm(x, y) && y.imm != 0 && (x.imm != INT64_MIN || y.imm != -1))
        return constant(t, is_signed(t) ? (uint64_t)(x.imm / y.imm)
                                        : (uint64_t)x.imm / (uint64_t)y.imm);
    if (pl_opnd_is(y, 1))
        return x;
    if (!is_signed(t) && pl_opnd_is_imm(y) && log2_of(y.imm) >= 0)
        return pl_ix_shr(b, t, x, (uint32_t)log2_of(y.imm));
    return op2(b, PL_STEP_div, t, x, y);
}

/* By a variable, from the quotient: that takes many instructions, is mostly wanted too, and the assembler would find it a second time. */
struct pl_opnd pl_ix_rem(struct pl_build *b, enum pl_stype t, struct pl_opnd x, struct pl_opnd y)
{
    if (both_imm(x, y) && y.imm != 0 && y.imm != -1)
        return constant(t, is_signed(t) ? (uint64_t)(x.imm % y.imm)
                                        : (uint64_t)x.imm % (uint64_t)y.imm);
    if (!is_signed(t) && pl_opnd_is_imm(y) && log2_of(y.imm) >= 0)
        return pl_ix_and(b, t, x, y.imm - 1);
    if (pl_opnd_is_imm(y))
        return op2(b, PL_STEP_rem, t, x, y);
    return pl_ix_sub(b, t, x, pl_ix_mul(b, t, pl_ix_div(b, t, x, y), y));
}

static bool less(enum pl_stype t, int64_t x, int64_t y)
{
    return is_signed(t) ? x < y : (uint64_t)x < (uint64_t)y;
}

struct pl_opnd pl_ix_min(struct pl_build *b, enum pl_stype t, struct pl_opnd x, struct pl_opnd y)
{
    if (both_imm(x, y))
        return less(t, x.imm, y.imm) ? x : y;
    return pl_opnd_is_imm(x) ? op2(b, PL_STEP_min, t, y, x) : op2(b, PL_STEP_min, t, x, y);
}

struct pl_opnd pl_ix_max(struct pl_build *b, enum pl_stype t, struct pl_opnd x, struct pl_opnd y)
{
    if (both_imm(x, y))
        return less(t, x.imm, y.imm) ? y : x;
    return pl_opnd_is_imm(x) ? op2(b, PL_STEP_max, t, y, x) : op2(b, PL_STEP_max, t, x, y);
}

struct pl_opnd pl_ix_and(struct pl_build *b, enum pl_stype t, struct pl_opnd x, int64_t mask)
{
    if (pl_opnd_is_imm(x))
        return constant(t, (uint64_t)x.imm & (uint64_t)mask);
    if (mask == 0)
        return pl_opnd_imm(0);
    return op2(b, PL_STEP_and, is64(t) ? PL_ST_b64 : PL_ST_b32, x, pl_opnd_imm(mask));
}

struct pl_opnd pl_ix_xor(struct pl_build *b, enum pl_stype t, struct pl_opnd x, struct pl_opnd y)
{
    if (both_imm(x, y))
        return constant(t, (uint64_t)x.imm ^ (uint64_t)y.imm);
    if (pl_opnd_is(y, 0))
        return x;
    if (pl_opnd_is(x, 0))
        return y;
    return op2(b, PL_STEP_xor, is64(t) ? PL_ST_b64 : PL_ST_b32, x, y);
}

struct pl_opnd pl_ix_convert(struct pl_build *b, enum pl_stype to, enum pl_stype from,
                             struct pl_opnd x)
{
    if (pl_opnd_is_imm(x))
        return constant(to, (uint64_t)x.imm);
    if (is64(to) == is64(from))
        return x; /* the same register, read with another sign */
    return pl_opnd_reg(pl_build_convert(b, to, from, PL_SA_NONE, x));
}

struct pl_opnd pl_ix_mul64(struct pl_build *b, enum pl_stype xt, struct pl_opnd x, enum pl_stype yt,
                           struct pl_opnd y)
{
    const bool x_fits = pl_opnd_is_imm(x) ? x.imm == (int64_t)(int32_t)x.imm : !is64(xt);
    const bool y_fits = pl_opnd_is_imm(y) ? y.imm == (int64_t)(int32_t)y.imm : !is64(yt);
    const enum pl_stype t = pl_opnd_is_imm(x) ? yt : xt;
    const bool is_shift =
        (pl_opnd_is_imm(x) && log2_of(x.imm) == 0) || (pl_opnd_is_imm(y) && log2_of(y.imm) == 0);
    const bool same = pl_opnd_is_imm(x) || pl_opnd_is_imm(y) || xt == yt;
    if (x_fits && y_fits && same && !both_imm(x, y) && !is_shift && !pl_opnd_is(x, 0) &&
        !pl_opnd_is(y, 0)) {
        if (pl_opnd_is_imm(x)) {
            struct pl_opnd swap = x;
            x = y;
            y = swap;
        }
        return pl_opnd_reg(
            pl_build_value(b, &(struct pl_sdesc){.op = PL_STEP_mul_wide,
                                                 .type = t == PL_ST_u32 ? PL_ST_u64 : PL_ST_s64,
                                                 .from = (uint8_t)t,
                                                 .n = 2,
                                                 .opnds = {x, y}}));
    }
    return pl_ix_mul(b, PL_ST_s64, pl_ix_convert(b, PL_ST_s64, xt, x),
                     pl_ix_convert(b, PL_ST_s64, yt, y));
}

struct pl_opnd pl_ix_mad(struct pl_build *b, enum pl_stype t, struct pl_opnd x, struct pl_opnd y,
                         struct pl_opnd z)
{
    if (pl_opnd_is_imm(x)) {
        struct pl_opnd swap = x;
        x = y;
        y = swap;
    }
    if (pl_opnd_is_imm(x) || pl_opnd_is(y, 0) || pl_opnd_is(y, 1) || pl_opnd_is(z, 0))
        return pl_ix_add(b, t, z, pl_ix_mul(b, t, x, y));
    return pl_opnd_reg(pl_build_op3(b, PL_STEP_mad, t, x, y, z));
}

struct pl_opnd pl_ix_mad64(struct pl_build *b, struct pl_opnd x, struct pl_opnd y, struct pl_opnd z)
{
    if (pl_opnd_is_imm(x)) {
        struct pl_opnd swap = x;
        x = y;
        y = swap;
    }
    const bool fits = !pl_opnd_is_imm(y) || y.imm == (int64_t)(int32_t)y.imm;
    if (pl_opnd_is(y, 0))
        return z;
    if (pl_opnd_is_imm(x) || !fits)
        return pl_ix_add(b, PL_ST_s64, z, pl_ix_mul64(b, PL_ST_s32, x, PL_ST_s32, y));
    return pl_opnd_reg(pl_build_value(b, &(struct pl_sdesc){.op = PL_STEP_mad_wide,
                                                            .type = PL_ST_s64,
                                                            .from = PL_ST_s32,
                                                            .n = 3,
                                                            .opnds = {x, y, z}}));
}
