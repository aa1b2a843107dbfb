/* Arithmetic on elements as bit patterns: integers modulo their width, floats rounded once to nearest even. */
#include "tests/body.h"

#include "base/num.h"

#include <math.h>
#include <string.h>

static enum pl_num_fmt format_of(pl_dtype t)
{
    return t == PL_F64    ? PL_NUM_F64
           : t == PL_F16  ? PL_NUM_F16
           : t == PL_BF16 ? PL_NUM_BF16
           : t == PL_E4M3 ? PL_NUM_E4M3
           : t == PL_E5M2 ? PL_NUM_E5M2
                          : PL_NUM_F32;
}

static bool is_float(pl_dtype t) { return pl_dtype_kind_of(t) == PL_KIND_FLOAT; }
static bool is_fp8(pl_dtype t) { return t == PL_E4M3 || t == PL_E5M2; }
static unsigned bits_of(pl_dtype t) { return (unsigned)pl_dtype_bits(t); }
static uint64_t cut(pl_dtype t, uint64_t v) { return v & UINT64_MAX >> (64 - bits_of(t)); }
static uint64_t sign_of(pl_dtype t) { return (uint64_t)1 << (bits_of(t) - 1); }

int64_t body_to_int(pl_dtype t, uint64_t x)
{
    const unsigned shift = 64 - bits_of(t);
    return pl_dtype_kind_of(t) == PL_KIND_INT ? (int64_t)(x << shift) >> shift : (int64_t)x;
}

static struct pl_num num_of(pl_dtype t, uint64_t x)
{
    if (is_float(t))
        return pl_num_unpack(format_of(t), x);
    return pl_dtype_kind_of(t) == PL_KIND_INT ? pl_num_of_i64(body_to_int(t, x)) : pl_num_of_u64(x);
}

static uint64_t pack(pl_dtype t, struct pl_num x)
{
    const struct pl_num_rule rule = {.is_satfinite = is_fp8(t)};
    return pl_num_pack(format_of(t), x, &rule);
}

bool body_is_nan(pl_dtype t, uint64_t x) { return is_float(t) && num_of(t, x).class == PL_NUM_NAN; }

uint64_t body_of_int(pl_dtype t, int64_t v)
{
    return is_float(t) ? pack(t, pl_num_of_i64(v)) : t == PL_PRED ? v != 0 : cut(t, (uint64_t)v);
}

uint64_t body_of_double(pl_dtype t, double v)
{
    uint64_t x;
    memcpy(&x, &v, sizeof x);
    return is_float(t) ? pack(t, pl_num_unpack(PL_NUM_F64, x)) : body_of_int(t, (int64_t)v);
}

uint64_t body_cast(pl_dtype to, pl_dtype from, uint64_t x)
{
    if (to == from)
        return x;
    if (is_float(to))
        return pack(to, num_of(from, x));
    if (to == PL_PRED)
        return is_float(from) ? num_of(from, x).class != PL_NUM_ZERO : x != 0;
    if (!is_float(from))
        return cut(to, (uint64_t)body_to_int(from, x));
    const struct pl_num_int_rule rule = {.round = PL_NUM_RZ,
                                         .n_bits = (uint8_t)bits_of(to),
                                         .is_signed = pl_dtype_kind_of(to) == PL_KIND_INT};
    return pl_num_to_int(num_of(from, x), &rule);
}

static uint64_t float_op1(pl_op1 op, pl_dtype t, uint64_t x)
{
    const struct pl_num v = num_of(t, x);
    switch ((int)op) {
    case PL_NEG: return x ^ sign_of(t);
    case PL_ABS: return x & ~sign_of(t);
    case PL_SQRT: return pack(t, pl_num_sqrt(v));
    case PL_RCP: return pack(t, pl_num_div(pl_num_of_i64(1), v));
    case PL_FLOOR: return pack(t, pl_num_round_integral(v, PL_NUM_RM));
    case PL_CEIL: return pack(t, pl_num_round_integral(v, PL_NUM_RP));
    case PL_ROUND: return pack(t, pl_num_round_integral(v, PL_NUM_RN));
    default: return pack(t, pl_num_round_integral(v, PL_NUM_RZ));
    }
}

uint64_t body_op1(pl_op1 op, pl_dtype t, uint64_t x)
{
    if (is_float(t))
        return float_op1(op, t, x);
    const unsigned n = bits_of(t);
    uint64_t r = 0;
    switch ((int)op) {
    case PL_NEG: return cut(t, 0 - x);
    case PL_ABS:
        return cut(t, pl_dtype_kind_of(t) == PL_KIND_INT && body_to_int(t, x) < 0 ? 0 - x : x);
    case PL_NOT: return t == PL_PRED ? !x : cut(t, ~x);
    case PL_POPC: return (uint64_t)__builtin_popcountll(x);
    case PL_CLZ: return x == 0 ? n : (uint64_t)__builtin_clzll(x) - (64 - n);
    default:
        for (unsigned i = 0; i < n; i++)
            r |= (x >> i & 1) << (n - 1 - i);
        return r;
    }
}

/* -1, 0, 1, and 2 where there is no order. */
static int order(pl_dtype t, uint64_t x, uint64_t y)
{
    if (is_float(t))
        return pl_num_cmp(num_of(t, x), num_of(t, y));
    if (pl_dtype_kind_of(t) != PL_KIND_INT)
        return x < y ? -1 : x > y;
    const int64_t a = body_to_int(t, x), b = body_to_int(t, y);
    return a < b ? -1 : a > b;
}

static uint64_t least(pl_dtype t, uint64_t x, uint64_t y, bool is_max)
{
    if (body_is_nan(t, x))
        return y;
    if (body_is_nan(t, y))
        return x;
    int o = order(t, x, y);
    if (o == 0 && is_float(t)) /* +0 is larger than -0 */
        o = (x & sign_of(t)) != 0 ? -1 : 1;
    return (o < 0) != is_max ? x : y;
}

static bool compare(pl_op2 op, int o)
{
    switch ((int)op) {
    case PL_EQ: return o == 0;
    case PL_NE: return o != 0;
    case PL_LT: return o == -1;
    case PL_LE: return o == -1 || o == 0;
    case PL_GT: return o == 1;
    default: return o == 1 || o == 0;
    }
}

static uint64_t float_op2(pl_op2 op, pl_dtype t, uint64_t x, uint64_t y)
{
    const struct pl_num a = num_of(t, x), b = num_of(t, y);
    switch ((int)op) {
    case PL_ADD: return pack(t, pl_num_add(a, b, PL_NUM_RN));
    case PL_SUB: return pack(t, pl_num_add(a, pl_num_neg(b), PL_NUM_RN));
    case PL_MUL: return pack(t, pl_num_mul(a, b));
    default: return pack(t, pl_num_div(a, b));
    }
}

static uint64_t divide(pl_op2 op, pl_dtype t, uint64_t x, uint64_t y)
{
    if (pl_dtype_kind_of(t) != PL_KIND_INT)
        return op == PL_REM ? x % y : op == PL_DIV ? x / y : x / y + (x % y != 0);
    const int64_t a = body_to_int(t, x), b = body_to_int(t, y);
    if (b == -1)
        return op == PL_REM ? 0 : cut(t, 0 - x);
    return cut(t, (uint64_t)(op == PL_REM ? a % b : op == PL_DIV ? a / b : a / b + (a % b != 0)));
}

uint64_t body_op2(pl_op2 op, pl_dtype t, uint64_t x, uint64_t y)
{
    if (op == PL_MIN || op == PL_MAX)
        return least(t, x, y, op == PL_MAX);
    if (op >= PL_EQ && op <= PL_GE)
        return compare(op, order(t, x, y));
    if (is_float(t))
        return float_op2(op, t, x, y);
    switch ((int)op) {
    case PL_ADD: return cut(t, x + y);
    case PL_SUB: return cut(t, x - y);
    case PL_MUL: return cut(t, x * y);
    case PL_AND: return x & y;
    case PL_OR: return x | y;
    case PL_XOR: return x ^ y;
    case PL_SHL: return cut(t, x << y);
    case PL_SHR:
        return cut(t, (uint64_t)(pl_dtype_kind_of(t) == PL_KIND_INT ? body_to_int(t, x) >> y
                                                                    : (int64_t)(x >> y)));
    default: return divide(op, t, x, y);
    }
}

uint64_t body_fma(pl_dtype t, uint64_t x, uint64_t y, uint64_t z)
{
    if (!is_float(t))
        return cut(t, x * y + z);
    return pack(t, pl_num_fma(num_of(t, x), num_of(t, y), num_of(t, z), PL_NUM_RN));
}
