/*
 * tcgen05.mma.
 *
 * It reads shared memory when it finishes, so a buffer that is reused without commit and wait shows.
 *
 * D, rows m and columns n of the instruction (16-bit D: the low half of a cell):
 *   M = 128, one CTA   lane m                    column n
 *   M = 64, one CTA    lane m % 16 + 32 (m / 16) column n        (+16 where the address says lane 16)
 *   M = 256, pair      CTA m / 128, lane m % 128, column n
 *   M = 128, pair      CTA m / 64, lane m % 64 + 64 (n / (N / 2)), column n % (N / 2)
 * A in tensor memory has the lanes of D; its elements along k fill columns of 32 bits.
 *
 * Order of accumulation: emu/ops_tile.h. Scale factors multiply the elements, exactly, before the products.
 *
 * Source: PTX ISA, TensorCore 5th Generation Family Instructions: tcgen05.mma
 */
#include "emu/exec_async.h"
#include "emu/mma_elem.h"
#include "emu/ops_tile.h"
#include "emu/tcgen05.h"

#include "base/debug.h"
#include "base/num.h"

#include <math.h>
#include <string.h>

enum { BLOCK_ROWS = 16, MAX_ROWS = 256, MAX_K = 64 };

/* ---- descriptors ------------------------------------------------------------------------------------------------------------ */

/* Element types of both kinds of table: those of emu/mma_elem.h, and the ones below a byte. */
enum { E2M3 = 16, E3M2, E2M1 };

struct operand {
    uint8_t type;
    bool is_mn_major, is_negated;
    uint64_t desc;
};

struct shape {
    uint32_t m, n, k, es; /* es: bytes of an element in shared memory */
    bool is_int, is_f16_acc,
        is_dense4;    /* dense4: two elements of 4 bits a byte (then es is 1, of two elements) */
    uint32_t scale_k; /* elements along k a factor; 0: none */
    uint32_t sfa_id, sfb_id;
    bool is_ue4m3;
    struct operand a, b;
};

static bool fault_idesc(const struct pl_async_op *op, const char *what)
{
    pl_d_mma_idesc(pl_async_faults(op), pl_async_where(op), what, op->u.tmem.idesc);
    return false;
}

static bool fault_unserved(const struct pl_async_op *op, const char *what)
{
    pl_d_mma_unserved(pl_async_faults(op), pl_async_where(op), what);
    return false;
}

/* Types by the number in the instruction descriptor; 0xff: none. */
static uint8_t type_of(uint8_t kind, uint32_t number)
{
    static const uint8_t f8f6f4[8] = {PL_MMA_E4M3, PL_MMA_E5M2, 0xff, E2M3, E3M2, E2M1, 0xff, 0xff};
    switch (kind) {
    case PL_PTX_MOD_KIND_F16: return number == 0 ? PL_MMA_F16 : number == 1 ? PL_MMA_BF16 : 0xff;
    case PL_PTX_MOD_KIND_TF32: return number == 2 ? PL_MMA_TF32 : 0xff;
    case PL_PTX_MOD_KIND_I8: return number == 0 ? PL_MMA_U8 : number == 1 ? PL_MMA_S8 : 0xff;
    case PL_PTX_MOD_KIND_F8F6F4:
    case PL_PTX_MOD_KIND_MXF8F6F4: return f8f6f4[number];
    default: return number == 1 ? E2M1 : 0xff; /* mxf4, mxf4nvf4 */
    }
}

static bool is_scaled_kind(uint8_t kind)
{
    return kind == PL_PTX_MOD_KIND_MXF8F6F4 || kind == PL_PTX_MOD_KIND_MXF4 ||
           kind == PL_PTX_MOD_KIND_MXF4NVF4;
}

static void scale_shape(const struct pl_async_op *op, uint8_t kind, struct shape *s)
{
    uint32_t d = op->u.tmem.idesc;
    uint8_t vec = op->pc->ptx->mods[PL_PTX_CAT_SCALE_VEC];
    bool is_16 = vec == PL_PTX_MOD_SCALE_VEC_X4 || vec == PL_PTX_MOD_SCALE_VEC_BLOCK16;
    s->scale_k = is_16 && kind == PL_PTX_MOD_KIND_MXF4NVF4 ? 16 : 32;
    s->sfa_id = d >> 29 & 3;
    s->sfb_id = d >> 4 & 3;
    s->is_ue4m3 = kind == PL_PTX_MOD_KIND_MXF4NVF4 && (d >> 23 & 1) == 0;
    s->is_dense4 = kind != PL_PTX_MOD_KIND_MXF8F6F4;
}

static bool check_shape(const struct pl_async_op *op, const struct shape *s)
{
    bool is_pair = op->u.tmem.is_pair;
    if (s->a.type == 0xff || s->b.type == 0xff)
        return fault_idesc(op, "an element type that the kind does not have");
    if (is_pair ? s->m != 128 && s->m != 256 : s->m != 64 && s->m != 128)
        return fault_idesc(op, "an M that the form does not have");
    if (s->n < 8 || s->n > 256 || s->n % (is_pair ? 16 : 8) != 0)
        return fault_idesc(op, "an N that the form does not have");
    if ((op->u.tmem.idesc >> 2 & 1) != 0)
        return fault_unserved(op, "sparse A");
    if (s->is_int && (op->u.tmem.idesc >> 3 & 1) != 0)
        return fault_unserved(op, "saturation");
    if (s->scale_k != 0 && is_pair && s->m == 128)
        return fault_unserved(op, "scale factors over a pair with M = 128");
    return true;
}

static bool shape_of(const struct pl_async_op *op, struct shape *s)
{
    uint32_t d = op->u.tmem.idesc;
    uint8_t kind = op->pc->ptx->mods[PL_PTX_CAT_KIND];
    *s = (struct shape){
        .m = (d >> 24 & 31) << 4,
        .n = (d >> 17 & 63) << 3,
        .es = kind == PL_PTX_MOD_KIND_F16    ? 2
              : kind == PL_PTX_MOD_KIND_TF32 ? 4
                                             : 1,
        .is_int = kind == PL_PTX_MOD_KIND_I8,
        .a = {type_of(kind, d >> 7 & 7), (d >> 15 & 1) != 0, (d >> 13 & 1) != 0, op->u.tmem.a_desc},
        .b = {type_of(kind, d >> 10 & 7), (d >> 16 & 1) != 0, (d >> 14 & 1) != 0,
              op->u.tmem.b_desc}};
    if (is_scaled_kind(kind)) {
        scale_shape(op, kind, s);
        s->m = (d >> 27 & 3) << 7;
        if (s->is_dense4)
            s->b.type = type_of(kind, d >> 10 & 3);
    } else
        s->is_f16_acc = !s->is_int && (d >> 4 & 3) == 0;
    s->k = s->is_dense4 ? 64 : 32 / s->es;
    return check_shape(op, s);
}

/* Check, at issue, an operand of both CTAs of a pair. */
static bool check_operand(struct pl_async_op *op, const struct shape *s, const struct operand *x,
                          uint32_t n_rows, struct pl_async_range *used)
{
    struct pl_emu_cta *ctas[2];
    pl_tc_ctas_of(op, ctas);
    uint32_t n_ctas = ctas[1] != NULL ? 2 : 1;
    for (uint32_t i = 0; i < n_ctas; i++) {
        struct pl_tc_chunks c = {
            .cta = ctas[i], .n_rows = n_rows / n_ctas, .n_k = s->is_dense4 ? s->k / 2 : s->k};
        if (!pl_tc_matrix_of(op, x->desc, s->es, x->is_mn_major, &c.m) ||
            !pl_tc_check_chunks(op, c, used))
            return false;
    }
    return true;
}

/* ---- elements ------------------------------------------------------------------------------------------------------------------ */

static float small_float(uint8_t type, uint32_t v)
{
    uint32_t man_bits = type == E2M3 ? 3 : type == E3M2 ? 2 : 1, exp_bits = type == E3M2 ? 3 : 2;
    uint32_t man = v & ((1u << man_bits) - 1), exp = v >> man_bits & ((1u << exp_bits) - 1);
    int bias = (1 << (exp_bits - 1)) - 1;
    float f = exp == 0 ? ldexpf((float)man, 1 - bias - (int)man_bits)
                       : ldexpf((float)(man + (1u << man_bits)), (int)exp - bias - (int)man_bits);
    return (v >> (man_bits + exp_bits) & 1) != 0 ? -f : f;
}

/* The elements of a chunk; returns how many. Elements below a byte are packed from bit 0 of each 16-byte group, 16 of them, or
 * 32 of 4 bits in the dense form. */
static uint32_t decode(const struct shape *s, const struct operand *x, const uint8_t *chunk,
                       union pl_mma_value v[32])
{
    if (x->type < E2M3) {
        pl_mma_decode((enum pl_mma_elem)x->type, chunk, x->is_negated, v);
        return PL_TC_CHUNK_BYTES / s->es;
    }
    uint32_t bits = x->type == E2M1 ? 4 : 6, n = s->is_dense4 ? 32 : 16;
    for (uint32_t e = 0; e < n; e++) {
        uint32_t at = e * bits,
                 word = chunk[at / 8] |
                        (at / 8 + 1 < PL_TC_CHUNK_BYTES ? (uint32_t)chunk[at / 8 + 1] << 8 : 0);
        float f = small_float(x->type, word >> at % 8);
        v[e].f = x->is_negated ? -f : f;
    }
    return n;
}

/* An operand as numbers: [row][k]. */
struct numbers {
    union pl_mma_value v[MAX_ROWS][MAX_K];
};

static bool load_numbers(struct pl_async_op *op, const struct shape *s, const struct operand *x,
                         uint32_t n_rows, struct numbers *out)
{
    struct pl_emu_cta *ctas[2];
    pl_tc_ctas_of(op, ctas);
    uint32_t n_ctas = ctas[1] != NULL ? 2 : 1, per_unit = s->is_dense4 ? 2 : 1;
    bool is_fault = false;
    for (uint32_t i = 0; i < n_ctas; i++) {
        struct pl_tc_chunks c = {.cta = ctas[i], .n_rows = n_rows / n_ctas, .n_k = s->k / per_unit};
        if (!pl_tc_matrix_of(op, x->desc, s->es, x->is_mn_major, &c.m))
            return false;
        for (struct pl_tc_chunk k; pl_tc_next_chunk(op, &c, &k, &is_fault);) {
            union pl_mma_value v[32];
            uint32_t n = decode(s, x, pl_async_data(k.place), v), row = i * c.n_rows + k.i;
            for (uint32_t e = 0; e < n; e++)
                out->v[c.m.is_mn_major ? row + e : row]
                      [c.m.is_mn_major ? k.k : k.k * per_unit + e] = v[e];
        }
    }
    return !is_fault;
}

/* ---- tensor memory ------------------------------------------------------------------------------------------------------------- */

struct cell {
    struct pl_tmem *t;
    uint32_t lane, column;
};

/* Cell of row m and column n of D, or of A with n in columns of 32 bits (is_a: never split over the halves). */
static struct cell cell_of(const struct pl_async_op *op, const struct shape *s, uint32_t address,
                           uint32_t m, uint32_t n, bool is_a)
{
    struct pl_emu_cta *ctas[2];
    pl_tc_ctas_of(op, ctas);
    uint32_t lane = address >> 16, column = address & 0xffff;
    if (!op->u.tmem.is_pair)
        return (struct cell){pl_tmem_of(ctas[0]), lane + (s->m == 128 ? m : m % 16 + 32 * (m / 16)),
                             column + n};
    uint32_t per_cta = s->m / 2;
    struct cell c = {pl_tmem_of(ctas[m / per_cta]), lane + m % per_cta, column + n};
    if (s->m == 128 && !is_a) {
        c.lane += 64 * (n / (s->n / 2));
        c.column = column + n % (s->n / 2);
    }
    return c;
}

static bool load_a_from_tmem(struct pl_async_op *op, const struct shape *s, struct numbers *out)
{
    uint32_t per_column = 4 / s->es;
    for (uint32_t m = 0; m < s->m; m++)
        for (uint32_t k = 0; k < s->k; k += per_column) {
            struct cell c = cell_of(op, s, op->u.tmem.a_address, m, k / per_column, true);
            if (!pl_tmem_check_written(op, c.t, c.lane, c.column))
                return false;
            uint8_t chunk[PL_TC_CHUNK_BYTES] = {0};
            union pl_mma_value v[32];
            memcpy(chunk, &c.t->cells[c.lane][c.column], 4);
            decode(s, &s->a, chunk, v);
            memcpy(&out->v[m][k], v, per_column * sizeof *v);
        }
    return true;
}

/* Factor of row (or column) i for block j of k: lane i % 32 (the other quarters hold copies), column i / 32, byte id + j. */
static bool factor(struct pl_async_op *op, const struct shape *s, bool is_a, uint32_t i, uint32_t j,
                   float *out)
{
    struct pl_emu_cta *ctas[2];
    pl_tc_ctas_of(op, ctas);
    uint32_t n_own = is_a && ctas[1] != NULL ? s->m / 2 : MAX_ROWS,
             address = is_a ? op->u.tmem.scale_a : op->u.tmem.scale_b;
    struct pl_tmem *t = pl_tmem_of(ctas[i / n_own]);
    uint32_t row = i % n_own, lane = (address >> 16) + row % 32,
             column = (address & 0xffff) + row / 32;
    if (lane >= PL_TMEM_LANES || column >= PL_TMEM_COLUMNS ||
        !pl_tmem_check_written(op, t, lane, column))
        return false;
    uint32_t byte = t->cells[lane][column] >> 8 * ((is_a ? s->sfa_id : s->sfb_id) + j) & 0xff;
    *out = s->is_ue4m3 ? pl_num_to_float(PL_NUM_E4M3, byte & 0x7f)
                       : pl_num_to_float(PL_NUM_UE8M0, byte);
    return true;
}

static bool apply_factors(struct pl_async_op *op, const struct shape *s, bool is_a,
                          struct numbers *x)
{
    uint32_t n = is_a ? s->m : s->n;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < s->k; k += s->scale_k) {
            float f;
            if (!factor(op, s, is_a, i, k / s->scale_k, &f))
                return false;
            for (uint32_t e = 0; e < s->scale_k; e++)
                x->v[i][k + e].f *= f;
        }
    return true;
}

/* ---- the product ------------------------------------------------------------------------------------------------------------------ */

struct work {
    struct numbers a, b;
    _Alignas(64) uint32_t tile_a[PL_EMU_TILE_MAX_K * PL_EMU_TILE_A_STRIDE];
    _Alignas(
        64) uint32_t tile_b[MAX_K / PL_EMU_TILE_MAX_K][PL_EMU_TILE_MAX_K * 2 * PL_EMU_TILE_MAX_N];
    _Alignas(64) uint32_t d[PL_EMU_TILE_MAX_N / 2][PL_EMU_LANES];
};

static void pack_a(struct work *w, uint32_t first_row, uint32_t first_k, uint32_t n_k)
{
    for (uint32_t i = 0; i < BLOCK_ROWS; i++)
        for (uint32_t k = 0; k < n_k; k++) {
            uint32_t *p =
                w->tile_a + k * PL_EMU_TILE_A_STRIDE + i % 8 / 2 * 16 + i / 8 * 8 + i % 2 * 4;
            p[0] = p[1] = p[2] = p[3] = w->a.v[first_row + i][first_k + k].bits;
        }
}

static void pack_b(struct work *w, uint32_t n, uint32_t part, uint32_t n_k)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n_k; k++) {
            uint32_t *p = w->tile_b[part] + k * 2 * n + i / 8 * 16 + i % 2 * 8 + i % 8 / 2;
            p[0] = p[4] = w->b.v[i][part * PL_EMU_TILE_MAX_K + k].bits;
        }
}

static uint32_t *fragment(struct work *w, uint32_t row, uint32_t n)
{
    return &w->d[n / 8 * 4 + row / 8 * 2 + n % 2][row % 8 * 4 + n % 8 / 2];
}

/* Bits of the written map for columns [column, end) that lie in the word of `column`. */
static uint64_t written_mask(uint32_t column, uint32_t end)
{
    uint32_t first = column % 64, n = end - column < 64 - first ? end - column : 64 - first;
    return (n == 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1) << first;
}

static bool check_run_written(struct pl_async_op *op, const struct cell *c, uint32_t n)
{
    for (uint32_t column = c->column, end = c->column + n; column < end;
         column = (column | 63) + 1) {
        uint64_t missing = written_mask(column, end) & ~c->t->written[c->lane][column / 64];
        if (missing != 0 &&
            !pl_tmem_check_written(op, c->t, c->lane,
                                   (column & ~63u) + (uint32_t)__builtin_ctzll(missing)))
            return false;
    }
    return true;
}

static void mark_run_written(const struct cell *c, uint32_t n)
{
    for (uint32_t column = c->column, end = c->column + n; column < end; column = (column | 63) + 1)
        c->t->written[c->lane][column / 64] |= written_mask(column, end);
}

/* A row of D is one run of cells, or two where its halves are in different lanes. */
static uint32_t run_of(const struct pl_async_op *op, const struct shape *s)
{
    return op->u.tmem.is_pair && s->m == 128 ? s->n / 2 : s->n;
}

static uint32_t widen(const struct pl_async_op *op, const struct shape *s, uint32_t v)
{
    union pl_mma_value x = {.bits = v};
    if (s->is_f16_acc)
        x.f = pl_num_f16_to_float((uint16_t)v);
    if (op->u.tmem.d_shift != 0)
        x.f = ldexpf(x.f, -op->u.tmem.d_shift);
    return x.bits;
}

static bool take_d(struct pl_async_op *op, const struct shape *s, struct work *w, uint32_t m0)
{
    uint32_t n_run = run_of(op, s);
    bool is_plain = !s->is_f16_acc && op->u.tmem.d_shift == 0;
    if (!op->u.tmem.has_d) {
        memset(w->d, 0, s->n / 2 * sizeof w->d[0]);
        return true;
    }
    for (uint32_t r = 0; r < BLOCK_ROWS; r++)
        for (uint32_t n0 = 0; n0 < s->n; n0 += n_run) {
            struct cell c = cell_of(op, s, op->u.tmem.address, m0 + r, n0, false);
            const uint32_t *from = &c.t->cells[c.lane][c.column];
            if (!check_run_written(op, &c, n_run))
                return false;
            for (uint32_t n = 0; n < n_run; n++)
                *fragment(w, r, n0 + n) = is_plain ? from[n] : widen(op, s, from[n]);
        }
    return true;
}

static bool is_disabled(const struct pl_async_op *op, const struct shape *s, uint32_t m)
{
    uint32_t lane = op->u.tmem.is_pair ? m : s->m == 128 ? m : m % 16 + 32 * (m / 16);
    return (op->u.tmem.disabled_lanes[lane / 32] >> (lane % 32) & 1) != 0;
}

static void give_d(struct pl_async_op *op, const struct shape *s, struct work *w, uint32_t m0)
{
    uint32_t n_run = run_of(op, s);
    for (uint32_t r = 0; r < BLOCK_ROWS; r++)
        for (uint32_t n0 = 0; n0 < s->n && !is_disabled(op, s, m0 + r); n0 += n_run) {
            struct cell c = cell_of(op, s, op->u.tmem.address, m0 + r, n0, false);
            uint32_t *to = &c.t->cells[c.lane][c.column];
            for (uint32_t n = 0; n < n_run; n++) {
                union pl_mma_value x = {.bits = *fragment(w, r, n0 + n)};
                to[n] = s->is_f16_acc ? pl_num_f16_of_float(x.f) : x.bits;
            }
            mark_run_written(&c, n_run);
        }
}

static bool multiply(struct pl_async_op *op, const struct shape *s, struct work *w)
{
    uint32_t step = s->k < PL_EMU_TILE_MAX_K ? s->k : PL_EMU_TILE_MAX_K;
    for (uint32_t k = 0; k < s->k; k += step)
        pack_b(w, s->n, k / step, step);
    struct pl_emu_tile tile = {.n = s->n, .k = step, .a = w->tile_a};
    for (uint32_t i = 0; i < s->n / 2; i++)
        tile.d[i] = w->d[i];
    for (uint32_t m = 0; m < s->m; m += BLOCK_ROWS) {
        if (!take_d(op, s, w, m))
            return false;
        for (uint32_t k = 0; k < s->k; k += step) {
            pack_a(w, m, k, step);
            tile.b = w->tile_b[k / step];
            if (s->is_int)
                pl_emu_tile_s32(&tile);
            else
                pl_emu_tile_f32(&tile);
        }
        give_d(op, s, w, m);
    }
    return true;
}

static enum pl_emu_status write_mma(struct pl_async_op *op)
{
    static _Thread_local struct work w;
    struct shape s;
    if (pl_tmem_finish_before(op) != PL_EMU_NEXT || !shape_of(op, &s))
        return PL_EMU_FAULT;
    bool is_good = op->u.tmem.is_a_in_tmem ? load_a_from_tmem(op, &s, &w.a)
                                           : load_numbers(op, &s, &s.a, s.m, &w.a);
    is_good = is_good && load_numbers(op, &s, &s.b, s.n, &w.b);
    if (s.scale_k != 0)
        is_good =
            is_good && apply_factors(op, &s, true, &w.a) && apply_factors(op, &s, false, &w.b);
    return is_good && multiply(op, &s, &w) ? PL_EMU_NEXT : PL_EMU_FAULT;
}

const struct pl_async_kind pl_tmem_mma = {"tcgen05.mma", NULL, write_mma};

/* ---- issue ---------------------------------------------------------------------------------------------------------------------------- */

static bool is_ta(const struct pl_emu_ins *ins)
{
    return ins->ptx->form == PL_PTX_tcgen05_mma_ta ||
           ins->ptx->form == PL_PTX_tcgen05_mma_scaled_ta;
}

/* Operands after the instruction descriptor: scale factor addresses or disabled lanes, predicate, shift of D. */
static void take_rest(struct pl_async_op *op, const struct pl_emu_ins *ins, uint32_t lane)
{
    uint32_t i = 4;
    memset(op->u.tmem.disabled_lanes, 0, sizeof op->u.tmem.disabled_lanes);
    if (ins->args[i].kind == PL_EMU_ARG_ADDR) {
        op->u.tmem.scale_a = (uint32_t)pl_emu_address(op->w, &ins->args[i], lane);
        op->u.tmem.scale_b = (uint32_t)pl_emu_address(op->w, &ins->args[i + 1], lane);
        i += 2;
    } else if (ins->args[i].kind == PL_EMU_ARG_VECTOR) {
        const struct pl_emu_arg *v = &ins->args[i++];
        for (uint32_t e = 0; e < v->n && e < 8; e++)
            op->u.tmem.disabled_lanes[e] =
                (uint32_t)pl_emu_lane(op->w, &ins->args[v->first + e], lane);
    }
    op->u.tmem.has_d = pl_emu_lane(op->w, &ins->args[i], lane) != 0;
    op->u.tmem.d_shift =
        ins->n_args > i + 1 ? (uint8_t)pl_emu_lane(op->w, &ins->args[i + 1], lane) : 0;
}

static bool check_d(struct pl_async_op *op, const struct shape *s)
{
    struct pl_emu_cta *ctas[2];
    pl_tc_ctas_of(op, ctas);
    bool is_split = op->u.tmem.is_pair && s->m == 128;
    uint32_t n_lanes = s->m == 64 ? 112 : 128; /* the last of them, less 16 where M is 64 */
    for (uint32_t i = 0; i < 2 && ctas[i] != NULL; i++)
        if (!pl_tmem_check(op, ctas[i], op->u.tmem.address, n_lanes, is_split ? s->n / 2 : s->n) ||
            (op->u.tmem.is_a_in_tmem &&
             !pl_tmem_check(op, ctas[i], op->u.tmem.a_address, n_lanes, s->k * s->es / 4)))
            return false;
    return true;
}

static bool mma_operands(struct pl_async_op *op, const struct pl_emu_ins *ins, uint32_t lane)
{
    struct pl_emu_warp *w = op->w;
    op->owner = PL_ASYNC_BY_TMEM;
    op->is_scattered = true;
    op->u.tmem.is_pair = pl_emu_mod(ins, PL_PTX_CAT_CTA_GROUP) == PL_PTX_MOD_CTA_GROUP_G2;
    op->u.tmem.is_a_in_tmem = is_ta(ins);
    op->u.tmem.address = (uint32_t)pl_emu_address(w, &ins->args[0], lane);
    if (is_ta(ins))
        op->u.tmem.a_address = (uint32_t)pl_emu_address(w, &ins->args[1], lane);
    else
        op->u.tmem.a_desc = pl_emu_lane(w, &ins->args[1], lane);
    op->u.tmem.b_desc = pl_emu_lane(w, &ins->args[2], lane);
    op->u.tmem.idesc = (uint32_t)pl_emu_lane(w, &ins->args[3], lane);
    take_rest(op, ins, lane);
    struct shape s;
    if (!pl_tc_check_pair(op) || !shape_of(op, &s) || !check_d(op, &s))
        return false;
    if (is_ta(ins) && (s.a.type >= E2M3 || pl_emu_mod(ins, PL_PTX_CAT_ASHIFT) != PL_PTX_MOD_NONE))
        return fault_unserved(op, s.a.type >= E2M3 ? "elements below a byte in tensor memory"
                                                   : ".ashift");
    return (is_ta(ins) || check_operand(op, &s, &s.a, s.m, &op->source)) &&
           check_operand(op, &s, &s.b, s.n, &op->source2);
}

enum pl_emu_status pl_emu_exec_tc_mma(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    enum pl_emu_status s = pl_tmem_check_group(w, ins) ? PL_EMU_NEXT : PL_EMU_FAULT;
    PL_EMU_FOR_LANES (lane, w->mask) {
        struct pl_async_op *op =
            s == PL_EMU_NEXT ? pl_async_new(w, 1u << lane, &pl_tmem_mma) : NULL;
        if (op == NULL)
            return PL_EMU_FAULT;
        s = pl_tc_submit(op, mma_operands(op, ins, lane));
    }
    return s;
}
