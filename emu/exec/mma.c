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
#include "emu/exec/mma.h"

#include "base/diag.h"
#include "base/num.h"
#include "emu/faults.h"
#include "emu/machine.h"
#include "emu/ops/float.h"

#include <math.h>
#include <pthread.h>
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
    return pl_emu_lane(w, pl_emu_vector_of(ins, operand, i), lane);
}

static void set_reg(struct pl_emu_warp *w, const struct pl_emu_ins *ins, unsigned i, unsigned lane,
                    uint64_t v)
{
    pl_emu_set_lane(w, pl_emu_vector_of(ins, 0, i), lane, v);
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

/* C, before D is written: they may share registers in any order. */
struct accumulator {
    uint64_t c[4][32];
};

static void load_c(const struct pl_emu_warp *w, const struct pl_emu_ins *ins, unsigned n_regs,
                   struct accumulator *out)
{
    for (unsigned i = 0; i < n_regs; i++)
        for (unsigned t = 0; t < 32; t++)
            out->c[i][t] = reg(w, ins, 3, i, t);
}

/* Row and column of accumulator element i of a lane. */
static unsigned acc_row(unsigned i, unsigned t) { return t / 4 + 8 * (i >> 1); }
static unsigned acc_col(unsigned i, unsigned t) { return 2 * (t % 4) + (i & 1); }

/* ---- floats ---- */

/* Values of the narrow formats by what stands in their place of a register, made on first use: fp4 in bits 2 to 5 of a byte
 * (kind::f8f6f4, as ldmatrix with .b4x16_p64 expands it, shifted by 2) or in a nibble, fp6 in bits 0 to 5 of a byte. */
enum narrow { IN_E5M2, IN_E4M3, IN_E3M2, IN_E2M3, IN_E2M1_BYTE, IN_E2M1_NIBBLE, N_NARROW };
static float narrow_values[N_NARROW][256];
static pthread_once_t narrow_once = PTHREAD_ONCE_INIT;

static void make_narrow_values(void)
{
    for (unsigned u = 0; u < 256; u++) {
        narrow_values[IN_E5M2][u] = pl_num_to_float(PL_NUM_E5M2, u);
        narrow_values[IN_E4M3][u] = pl_num_to_float(PL_NUM_E4M3, u);
        narrow_values[IN_E3M2][u] = pl_num_to_float(PL_NUM_E3M2, u & 63);
        narrow_values[IN_E2M3][u] = pl_num_to_float(PL_NUM_E2M3, u & 63);
        narrow_values[IN_E2M1_BYTE][u] = pl_num_to_float(PL_NUM_E2M1, u >> 2 & 15);
        narrow_values[IN_E2M1_NIBBLE][u] = pl_num_to_float(PL_NUM_E2M1, u & 15);
    }
}

static const float *narrow_table(enum pl_num_fmt fmt, unsigned container_bits)
{
    static const uint8_t tables[PL_NUM_FMT_COUNT] = {[PL_NUM_E5M2] = IN_E5M2,
                                                     [PL_NUM_E4M3] = IN_E4M3,
                                                     [PL_NUM_E3M2] = IN_E3M2,
                                                     [PL_NUM_E2M3] = IN_E2M3,
                                                     [PL_NUM_E2M1] = IN_E2M1_BYTE};
    pthread_once(&narrow_once, make_narrow_values);
    return narrow_values[container_bits == 4 ? IN_E2M1_NIBBLE : tables[fmt]];
}

/* The e elements of a register. Every format's values are exact in float. */
static void decode_word(enum pl_num_fmt fmt, unsigned container_bits, const float *table,
                        uint32_t word, float *out)
{
    unsigned e = 32 / container_bits;
    uint32_t element = container_bits == 32 ? UINT32_MAX : (1u << container_bits) - 1;
    for (unsigned j = 0; j < e; j++) {
        uint32_t u = word >> (j * container_bits) & element;
        if (container_bits <= 8)
            out[j] = table[u];
        else if (fmt == PL_NUM_F16)
            out[j] = f32_of(f16_to_f32(u));
        else
            out[j] = f32_of(fmt == PL_NUM_BF16 ? bf16_to_f32(u) : u & 0xffffe000u); /* tf32 */
    }
}

enum { MAX_FLOAT_K = 64 };

struct values {
    double a[MAX_M][MAX_FLOAT_K];
    double b[MAX_FLOAT_K][N];
};

static const uint32_t *lanes_of(const struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                unsigned operand, unsigned i)
{
    return pl_emu_lanes(w, pl_emu_vector_of(ins, operand, i));
}

static void load_values(const struct pl_emu_warp *w, const struct pl_emu_ins *ins, struct shape s,
                        bool is_a, struct values *out)
{
    enum pl_num_fmt fmt = fmt_of(ins->ptx->types[is_a ? 1 : 2]);
    const float *table = s.a_bits <= 8 ? narrow_table(fmt, s.a_bits) : NULL;
    unsigned e = 32u / s.a_bits, rows = is_a ? s.m : N, n_regs = rows * s.k / (32 * e);
    for (unsigned r = 0; r < n_regs; r++) {
        const uint32_t *lanes = lanes_of(w, ins, is_a ? 1 : 2, r);
        unsigned row_step = is_a ? 8 * (r & 1) : 0, k_step = 4 * e * (is_a ? r >> 1 : r);
        for (unsigned t = 0; t < 32; t++) {
            float v[8];
            decode_word(fmt, s.a_bits, table, lanes[t], v);
            for (unsigned j = 0; j < e; j++) {
                unsigned k = e * (t % 4) + j + k_step;
                *(is_a ? &out->a[t / 4 + row_step][k] : &out->b[k][t / 4]) = (double)v[j];
            }
        }
    }
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

/* One row of the product by ascending k; with scales, each block's sum is scaled before it is added. */
static void multiply_row(const struct pl_emu_warp *w, const struct pl_emu_ins *ins, struct shape s,
                         const struct values *v, unsigned row, double sum[N])
{
    unsigned block = s.scale_k ? s.scale_k : s.k;
    for (unsigned col = 0; col < N; col++)
        sum[col] = 0.0;
    for (unsigned first = 0; first < s.k; first += block) {
        double part[N] = {0.0};
        for (unsigned k = first; k < first + block; k++)
            for (unsigned col = 0; col < N; col++)
                part[col] += v->a[row][k] * v->b[k][col];
        for (unsigned col = 0; col < N; col++) {
            if (s.scale_k)
                part[col] *= scale(w, ins, true, row, first / block) *
                             scale(w, ins, false, col, first / block);
            sum[col] += part[col];
        }
    }
}

static void mma_float(struct pl_emu_warp *w, const struct pl_emu_ins *ins, struct shape s)
{
    struct values v;
    double sums[MAX_M][N];
    load_values(w, ins, s, true, &v);
    load_values(w, ins, s, false, &v);
    for (unsigned row = 0; row < s.m; row++)
        multiply_row(w, ins, s, &v, row, sums[row]);
    bool is_f16 = ins->ptx->types[0] == PL_PTX_TYPE_F16;
    struct accumulator acc;
    load_c(w, ins, s.m * N / (is_f16 ? 64u : 32u), &acc);
    for (unsigned i = 0; i < s.m * N / 32u; i += is_f16 ? 2 : 1) {
        const struct pl_emu_arg *d = &ins->args[ins->args[0].first + (is_f16 ? i / 2 : i)];
        for (unsigned t = 0; t < 32; t++) {
            const double *sum = &sums[acc_row(i, t)][acc_col(i, t)];
            uint32_t c = (uint32_t)acc.c[is_f16 ? i / 2 : i][t];
            uint32_t low = is_f16 ? f16_to_f32(c & 0xffff) : c, high = f16_to_f32(c >> 16);
            uint32_t r = f32_canonical(f32_bits((float)(sum[0] + (double)f32_of(low))));
            if (is_f16)
                r = f64_to_half(sum[0] + (double)f32_of(low), 10, 15) |
                    (uint32_t)f64_to_half(sum[1] + (double)f32_of(high), 10, 15) << 16;
            pl_emu_set_lane(w, d, t, r);
        }
    }
}

static void mma_double(struct pl_emu_warp *w, const struct pl_emu_ins *ins, struct shape s)
{
    static _Thread_local struct operand a, b;
    struct accumulator acc;
    gather(w, ins, s, true, &a);
    gather(w, ins, s, false, &b);
    load_c(w, ins, s.m * N / 32u, &acc);
    for (unsigned t = 0; t < 32; t++) {
        for (unsigned i = 0; i < s.m * N / 32; i++) {
            uint64_t u = acc.c[i][t];
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

int64_t pl_emu_dot_int(const struct pl_ptx_ins *p, unsigned n, const uint64_t *a, const uint64_t *b)
{
    bool is_xor = p->mods[PL_PTX_CAT_BOOL] == PL_PTX_MOD_BOOL_XOR;
    int64_t sum = 0;
    for (unsigned k = 0; k < n; k++) {
        if (p->types[1] == PL_PTX_TYPE_B1)
            sum += (int64_t)(is_xor ? a[k] ^ b[k] : a[k] & b[k]);
        else
            sum += integer(p->types[1], a[k]) * integer(p->types[2], b[k]);
    }
    return sum;
}

int64_t pl_emu_sum_int(const struct pl_ptx_ins *p, uint64_t c, int64_t dot)
{
    int64_t sum = (int32_t)(uint32_t)c + dot;
    if (p->mods[PL_PTX_CAT_SAT] == PL_PTX_MOD_NONE)
        return sum;
    return sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
}

static void mma_int(struct pl_emu_warp *w, const struct pl_emu_ins *ins, struct shape s)
{
    static _Thread_local struct operand a, b;
    struct accumulator acc;
    gather(w, ins, s, true, &a);
    gather(w, ins, s, false, &b);
    load_c(w, ins, s.m * N / 32u, &acc);
    for (unsigned t = 0; t < 32; t++) {
        for (unsigned i = 0; i < s.m * N / 32; i++) {
            int64_t dot =
                pl_emu_dot_int(ins->ptx, s.k, a.bits[acc_row(i, t)], b.bits[acc_col(i, t)]);
            set_reg(w, ins, i, t, (uint32_t)pl_emu_sum_int(ins->ptx, acc.c[i][t], dot));
        }
    }
}

enum pl_emu_status pl_emu_exec_mma(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
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
