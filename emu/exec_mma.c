/*
 * mma.sync: PTX ISA, "Warp Level Matrix Instructions: mma". Dense forms, row.col.
 *
 * Fragments, for elements of b bits, e = 32 / b in a register, lane t (f64: one element a register, e = 1):
 *   A   register r, element j: row t/4 + 8 (r & 1), k = e (t % 4) + j + 4 e (r >> 1); shapes of 8 rows: k = e (t % 4) + j
 *   B   register r, element j: column t/4,          k = e (t % 4) + j + 4 e r
 *   C D register i: row t/4 + 8 (i >> 1), column 2 (t % 4) + (i & 1); f16 packs a pair of columns in a register
 *
 * Order of accumulation: the products of a row and a column, exact in double, are added in double by ascending k, then C is
 * added and the sum is rounded once, to nearest even. Hardware promises less. f64 uses fma by ascending k from C.
 */
#include "emu/exec_mma.h"

#include "base/diag.h"
#include "base/num.h"
#include "emu/faults.h"
#include "emu/machine.h"

#include <math.h>
#include <string.h>

enum { MAX_M = 16, N = 8, MAX_K = 256 };

/* What the operands of a form hold. */
struct shape {
    uint16_t m, k;
    uint8_t a_bits;   /* of a container in a register: 1 (b1), 4, 8, 16, 32, 64 */
    uint16_t scale_k; /* elements along k that share a scale factor; 0: no factors */
};

/* m8n8k16 … m16n8k256 from the row's mnemonic, so that the table of forms is stated once. */
static struct shape shape_of(const struct pl_ptx_ins *p)
{
    const char *s = strstr(pl_ptx_infos[p->form].mnemonic, ".m");
    struct shape r = {.m = s[2] == '8' ? 8 : 16};
    for (s = strchr(s, 'k') + 1; *s >= '0' && *s <= '9'; s++)
        r.k = (uint16_t)(r.k * 10 + (*s - '0'));
    unsigned bits = pl_ptx_types[p->types[1]].bits;
    r.a_bits = (uint8_t)(bits == 6 ? 8 : bits == 19 ? 32 : bits);
    if (p->form == PL_PTX_mma_m16n8k32_f32_f8f6f4 || p->form == PL_PTX_mma_m16n8k32_f16_f8f6f4 ||
        p->form == PL_PTX_mma_m16n8k32_mxf8f6f4)
        r.a_bits = 8; /* narrower elements stand in a byte each */
    if (p->form == PL_PTX_mma_m16n8k32_mxf8f6f4 || p->form == PL_PTX_mma_m16n8k64_mxf4)
        r.scale_k = 32;
    if (p->form == PL_PTX_mma_m16n8k64_mxf4nvf4)
        r.scale_k = p->mods[PL_PTX_CAT_SCALE_VEC] == PL_PTX_MOD_SCALE_VEC_X4 ? 16 : 32;
    return r;
}

static enum pl_num_fmt fmt_of(uint8_t type)
{
    static const uint8_t fmts[PL_PTX_TYPE_COUNT] = {
        [PL_PTX_TYPE_F16] = PL_NUM_F16,   [PL_PTX_TYPE_BF16] = PL_NUM_BF16,
        [PL_PTX_TYPE_TF32] = PL_NUM_TF32, [PL_PTX_TYPE_F32] = PL_NUM_F32,
        [PL_PTX_TYPE_E4M3] = PL_NUM_E4M3, [PL_PTX_TYPE_E5M2] = PL_NUM_E5M2,
        [PL_PTX_TYPE_E3M2] = PL_NUM_E3M2, [PL_PTX_TYPE_E2M3] = PL_NUM_E2M3,
        [PL_PTX_TYPE_E2M1] = PL_NUM_E2M1, [PL_PTX_TYPE_UE8M0] = PL_NUM_UE8M0,
        [PL_PTX_TYPE_UE4M3] = PL_NUM_E4M3};
    return (enum pl_num_fmt)fmts[type];
}

/* ---- operands ---- */

/* Register i of a vector operand, one lane. */
static uint64_t reg(const struct pl_emu_warp *w, const struct pl_emu_ins *ins, unsigned operand,
                    unsigned i, unsigned lane)
{
    const struct pl_emu_arg *a = &ins->args[operand];
    return pl_emu_lane(w, a->kind == PL_EMU_ARG_VECTOR ? &ins->args[a->first + i] : a, lane);
}

static void set_reg(struct pl_emu_warp *w, const struct pl_emu_ins *ins, unsigned i, unsigned lane,
                    uint64_t v)
{
    const struct pl_emu_arg *a = &ins->args[0];
    pl_emu_set_lane(w, a->kind == PL_EMU_ARG_VECTOR ? &ins->args[a->first + i] : a, lane, v);
}

/* Raw bits of A or B: [row or column][k]. */
struct operand {
    uint64_t bits[MAX_M][MAX_K];
};

static void gather(const struct pl_emu_warp *w, const struct pl_emu_ins *ins, struct shape s,
                   bool is_a, struct operand *out)
{
    unsigned reg_bits = s.a_bits == 64 ? 64 : 32, e = reg_bits / s.a_bits, rows = is_a ? s.m : N;
    unsigned n_regs = rows * s.k / (32 * e);
    uint64_t element = s.a_bits == 64 ? UINT64_MAX : ((uint64_t)1 << s.a_bits) - 1;
    for (unsigned r = 0; r < n_regs; r++) {
        unsigned row_step = is_a && s.m == 16 ? 8 * (r & 1) : 0,
                 k_step = 4 * e * (is_a && s.m == 16 ? r >> 1 : r);
        for (unsigned t = 0; t < 32; t++) {
            uint64_t v = reg(w, ins, is_a ? 1 : 2, r, t);
            for (unsigned j = 0; j < e; j++)
                out->bits[t / 4 + row_step][e * (t % 4) + j + k_step] =
                    v >> (j * s.a_bits % 64) & element;
        }
    }
}

/* Row and column of accumulator element i of a lane. */
static unsigned acc_row(unsigned i, unsigned t) { return t / 4 + 8 * (i >> 1); }
static unsigned acc_col(unsigned i, unsigned t) { return 2 * (t % 4) + (i & 1); }

/* ---- floats ---- */

/* fp4 stands in bits 2 to 5 of its byte, fp6 in bits 0 to 5 (kind::f8f6f4, as ldmatrix with .b4x16_p64 expands it, shifted by 2). */
static double value(enum pl_num_fmt fmt, uint64_t bits, unsigned container_bits)
{
    if (fmt == PL_NUM_E2M1 && container_bits == 8)
        bits = bits >> 2 & 15;
    return pl_num_to_double(fmt, bits & (UINT64_MAX >> (64 - pl_num_fmts[fmt].bits)));
}

struct values {
    double v[MAX_M][64];
};

static void to_values(const struct operand *raw, enum pl_num_fmt fmt, struct shape s, unsigned rows,
                      struct values *out)
{
    for (unsigned r = 0; r < rows; r++)
        for (unsigned k = 0; k < s.k; k++)
            out->v[r][k] = value(fmt, raw->bits[r][k], s.a_bits);
}

/*
 * Scale factors ("Block scaling for mma.sync"): operands sfa, {byte-id, thread-id}, sfb, {byte-id, thread-id}. Row m of A has
 * its factors in lane 4 (m % 8) + 2 thread-id + m / 8, column n of B in lane 4 n + thread-id, factor s in byte byte-id + s.
 */
static double scale(const struct pl_emu_warp *w, const struct pl_emu_ins *ins, bool is_a,
                    unsigned index, unsigned factor)
{
    unsigned operand = is_a ? 4 : 6;
    unsigned byte = (unsigned)reg(w, ins, operand + 1, 0, 0),
             thread = (unsigned)reg(w, ins, operand + 1, 1, 0);
    unsigned lane =
        is_a ? 4 * (index % 8) + 2 * (thread & 1) + index / 8 : 4 * index + (thread & 3);
    uint64_t word = reg(w, ins, operand, 0, lane);
    enum pl_num_fmt fmt = fmt_of(ins->ptx->n_types > 4 ? ins->ptx->types[4] : PL_PTX_TYPE_UE8M0);
    uint64_t bits = word >> (8 * ((byte + factor) & 3)) & 0xff;
    return pl_num_to_double(fmt, fmt == PL_NUM_E4M3 ? bits & 0x7f : bits);
}

static double dot(const struct pl_emu_warp *w, const struct pl_emu_ins *ins, struct shape s,
                  const double *a, const double *b, unsigned row, unsigned col)
{
    unsigned block = s.scale_k ? s.scale_k : s.k;
    double sum = 0.0;
    for (unsigned first = 0; first < s.k; first += block) {
        double part = 0.0;
        for (unsigned k = first; k < first + block; k++)
            part += a[k] * b[k];
        if (s.scale_k)
            part *=
                scale(w, ins, true, row, first / block) * scale(w, ins, false, col, first / block);
        sum += part;
    }
    return sum;
}

static uint64_t round_sum(enum pl_num_fmt fmt, double v)
{
    const struct pl_num_rule nearest = {0};
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    return pl_num_convert(fmt, PL_NUM_F64, u, &nearest);
}

static void mma_float(struct pl_emu_warp *w, const struct pl_emu_ins *ins, struct shape s)
{
    static _Thread_local struct operand raw;
    struct values a, b;
    enum pl_num_fmt acc = fmt_of(ins->ptx->types[0]);
    gather(w, ins, s, true, &raw);
    to_values(&raw, fmt_of(ins->ptx->types[1]), s, s.m, &a);
    gather(w, ins, s, false, &raw);
    to_values(&raw, fmt_of(ins->ptx->types[2]), s, N, &b);
    unsigned n_acc = (unsigned)(s.m * N) / 32, packed = acc == PL_NUM_F16 ? 2 : 1,
             acc_bits = pl_num_fmts[acc].bits;
    for (unsigned t = 0; t < 32; t++) {
        for (unsigned i = 0; i < n_acc; i += packed) {
            uint64_t c = reg(w, ins, 3, i / packed, t), d = 0;
            for (unsigned j = 0; j < packed; j++) {
                unsigned row = acc_row(i + j, t), col = acc_col(i + j, t);
                double start =
                    pl_num_to_double(acc, c >> (j * acc_bits) & (UINT64_MAX >> (64 - acc_bits)));
                double sum = dot(w, ins, s, a.v[row], b.v[col], row, col) + start;
                d |= round_sum(acc, sum) << (j * acc_bits);
            }
            set_reg(w, ins, i / packed, t, d);
        }
    }
}

static void mma_double(struct pl_emu_warp *w, const struct pl_emu_ins *ins, struct shape s)
{
    static _Thread_local struct operand a, b;
    gather(w, ins, s, true, &a);
    gather(w, ins, s, false, &b);
    for (unsigned t = 0; t < 32; t++) {
        for (unsigned i = 0; i < s.m * N / 32; i++) {
            uint64_t u = reg(w, ins, 3, i, t);
            double sum, x, y;
            memcpy(&sum, &u, sizeof sum);
            for (unsigned k = 0; k < s.k; k++) {
                memcpy(&x, &a.bits[acc_row(i, t)][k], sizeof x);
                memcpy(&y, &b.bits[acc_col(i, t)][k], sizeof y);
                sum = fma(x, y, sum);
            }
            memcpy(&u, &sum, sizeof u);
            set_reg(w, ins, i, t, u);
        }
    }
}

/* ---- integers and bits ---- */

static int64_t integer(uint8_t type, uint64_t bits)
{
    unsigned n = pl_ptx_types[type].bits;
    bool is_negative = pl_ptx_types[type].class == PL_PTX_CLASS_SINT && bits >> (n - 1) & 1;
    return (int64_t)bits - (is_negative ? (int64_t)1 << n : 0);
}

static int64_t dot_int(const struct pl_ptx_ins *p, struct shape s, const uint64_t *a,
                       const uint64_t *b)
{
    bool is_xor = p->mods[PL_PTX_CAT_BOOL] == PL_PTX_MOD_BOOL_XOR;
    int64_t sum = 0;
    for (unsigned k = 0; k < s.k; k++) {
        if (s.a_bits == 1)
            sum += (int64_t)(is_xor ? a[k] ^ b[k] : a[k] & b[k]);
        else
            sum += integer(p->types[1], a[k]) * integer(p->types[2], b[k]);
    }
    return sum;
}

/* .satfinite clamps the sum to .s32; without it the sum wraps. */
static void mma_int(struct pl_emu_warp *w, const struct pl_emu_ins *ins, struct shape s)
{
    static _Thread_local struct operand a, b;
    bool is_sat = ins->ptx->mods[PL_PTX_CAT_SAT] != PL_PTX_MOD_NONE;
    gather(w, ins, s, true, &a);
    gather(w, ins, s, false, &b);
    for (unsigned t = 0; t < 32; t++) {
        for (unsigned i = 0; i < s.m * N / 32; i++) {
            int64_t sum = (int32_t)(uint32_t)reg(w, ins, 3, i, t);
            sum += dot_int(ins->ptx, s, a.bits[acc_row(i, t)], b.bits[acc_col(i, t)]);
            if (is_sat)
                sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
            set_reg(w, ins, i, t, (uint32_t)sum);
        }
    }
}

enum pl_emu_status pl_emu_exec_mma(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    if (!pl_emu_is_converged(w)) {
        pl_d_emu_not_converged(pl_emu_faults(w, pl_emu_first_lane(w)), pl_emu_where(w), "mma.sync",
                               w->mask, w->live);
        return PL_EMU_FAULT;
    }
    struct shape s = shape_of(ins->ptx);
    enum pl_ptx_class class = (enum pl_ptx_class)pl_ptx_types[ins->ptx->types[0]].class;
    if (ins->ptx->types[0] == PL_PTX_TYPE_F64)
        mma_double(w, ins, s);
    else if (class == PL_PTX_CLASS_FLOAT)
        mma_float(w, ins, s);
    else
        mma_int(w, ins, s);
    return PL_EMU_NEXT;
}
