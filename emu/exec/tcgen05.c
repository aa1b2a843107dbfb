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
 *   .ws, P = 128 / M   lane m + M (n / (N / P)), column n % (N / P)
 * A in tensor memory has the lanes of D; its elements along k fill columns of 32 bits. With .ashift row m is read a lane below,
 * but for the last of each 32.
 *
 * Order of accumulation: emu/ops/tile.h. Scale factors multiply the elements, exactly, before the products. Saturation applies
 * to the sum of D and the products of one instruction.
 *
 * Source: PTX ISA, TensorCore 5th Generation Family Instructions: tcgen05.mma
 */
#include "emu/exec/async.h"
#include "emu/ops/tile.h"
#include "emu/race.h"
#include "emu/tcgen05_shape.h"

#include "base/debug.h"
#include "base/num.h"

#include <math.h>
#include <string.h>

enum { BLOCK_ROWS = 16, MAX_ROWS = 256, MAX_K = 96, MAX_FACTORS = 6 };

/* ---- operands in shared memory ------------------------------------------------------------------------------------------------ */

/* The chunks of an operand that a CTA holds, c->cta as given; false: a fault was raised. */
static bool chunks_of(const struct pl_async_op *op, const struct pl_tc_shape *s,
                      const struct pl_tc_operand *x, uint32_t n_rows, struct pl_tc_chunks *c)
{
    c->m = (struct pl_tc_matrix){.es = s->es, .is_mn_major = x->is_mn_major, .is_k96 = s->k == 96};
    c->n_rows = n_rows;
    c->n_k = s->is_dense4 ? s->k / 2 : s->k;
    c->n_pad_bytes = PL_TC_CHUNK_BYTES - pl_tc_chunk_data_bytes(s, x);
    c->index = 0;
    return pl_tc_matrix_of(op, x->desc, &c->m);
}

/* Check, at issue, an operand of both CTAs of a pair. */
static bool check_operand(struct pl_async_op *op, const struct pl_tc_shape *s,
                          const struct pl_tc_operand *x, uint32_t n_rows,
                          struct pl_async_range *used)
{
    struct pl_emu_cta *ctas[2];
    pl_tc_ctas_of(op, ctas);
    uint32_t n_ctas = ctas[1] != NULL ? 2 : 1;
    for (uint32_t i = 0; i < n_ctas; i++) {
        struct pl_tc_chunks c = {.cta = ctas[i]};
        if (!chunks_of(op, s, x, n_rows / n_ctas, &c) || !pl_tc_check_chunks(op, c, used))
            return false;
    }
    return true;
}

/* An operand as numbers: [row][k]. */
struct numbers {
    union pl_mma_value v[MAX_ROWS][MAX_K];
};

static bool load_numbers(struct pl_async_op *op, const struct pl_tc_shape *s,
                         const struct pl_tc_operand *x, uint32_t n_rows, struct numbers *out)
{
    struct pl_emu_cta *ctas[2];
    pl_tc_ctas_of(op, ctas);
    uint32_t n_ctas = ctas[1] != NULL ? 2 : 1, per_unit = s->is_dense4 ? 2 : 1;
    bool is_fault = false;
    for (uint32_t i = 0; i < n_ctas; i++) {
        struct pl_tc_chunks c = {.cta = ctas[i]};
        if (!chunks_of(op, s, x, n_rows / n_ctas, &c))
            return false;
        for (struct pl_tc_chunk k; pl_tc_next_chunk(op, &c, &k, &is_fault);) {
            union pl_mma_value v[32];
            uint32_t n = pl_tc_decode(s, x, pl_async_data(k.place), v), row = i * c.n_rows + k.i;
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
static struct cell cell_of(const struct pl_async_op *op, const struct pl_tc_shape *s,
                           uint32_t address, uint32_t m, uint32_t n, bool is_a)
{
    struct pl_emu_cta *ctas[2];
    pl_tc_ctas_of(op, ctas);
    uint32_t rows_a_cta = op->u.tmem.is_pair ? s->m / 2 : s->m, row = m % rows_a_cta;
    struct cell c = {pl_tmem_of(ctas[m / rows_a_cta]), address >> 16, (address & 0xffff) + n};
    if (s->m == 64 && !s->is_ws)
        row = row % 16 + 32 * (row / 16);
    c.lane += row;
    if (!is_a && s->n_parts > 1) {
        uint32_t per_part = s->n / s->n_parts;
        c.lane += s->part_rows * (n / per_part);
        c.column = (address & 0xffff) + n % per_part;
    }
    return c;
}

/* With .ashift, row m is the one below; the last of each quarter of the lanes stays. */
static uint32_t shifted_row(const struct pl_async_op *op, uint32_t m)
{
    bool is_shifted = op->pc->ptx->mods[PL_PTX_CAT_ASHIFT] != PL_PTX_MOD_NONE;
    return is_shifted && m % 32 != 31 ? m + 1 : m;
}

static bool load_a_from_tmem(struct pl_async_op *op, const struct pl_tc_shape *s,
                             struct numbers *out)
{
    uint32_t per_column = s->is_dense4 ? 8 : 4 / s->es;
    for (uint32_t m = 0; m < s->m; m++)
        for (uint32_t k = 0; k < s->k; k += per_column) {
            struct cell c =
                cell_of(op, s, op->u.tmem.a_address, shifted_row(op, m), k / per_column, true);
            union pl_mma_value v[32];
            if (!pl_tmem_check_written(op, c.t, c.lane, c.column))
                return false;
            pl_tc_decode_cell(s, c.t->cells[c.lane][c.column], v);
            memcpy(&out->v[m][k], v, per_column * sizeof *v);
        }
    return true;
}

/* ---- scale factors --------------------------------------------------------------------------------------------------------------- */

/* Where a CTA finds the factors of rows of A or columns of B: factor j of row i in byte (id + j) % 4 of lane i % 32 of each of
 * n_quarters quarters from `quarter` on, column i / 32, further factors a group of columns on. */
struct factors {
    struct pl_tmem *t;
    uint32_t address, id, quarter, n_quarters;
    uint32_t group; /* columns */
};

/* Factors of B over a pair with M = 128: each half of the columns in the two quarters that hold its part of D. */
static struct factors factors_of(const struct pl_async_op *op, const struct pl_tc_shape *s,
                                 uint32_t i_cta, bool is_a, uint32_t n)
{
    struct pl_emu_cta *ctas[2];
    pl_tc_ctas_of(op, ctas);
    struct factors f = {.t = pl_tmem_of(ctas[i_cta]),
                        .address = is_a ? op->u.tmem.scale_a : op->u.tmem.scale_b,
                        .id = is_a ? s->sfa_id : s->sfb_id,
                        .n_quarters = 4,
                        .group = !is_a && s->n > 128 ? 8 : 4};
    if (!is_a && s->n_parts == 2) {
        f.n_quarters = 2;
        f.quarter = 2 * (n / (s->n / 2));
    }
    return f;
}

/* All copies must be there and the same. */
static bool read_factor(struct pl_async_op *op, const struct pl_tc_shape *s,
                        const struct factors *f, uint32_t i, uint32_t j, float *out)
{
    uint32_t at = f->id + j, column = (f->address & 0xffff) + i / 32 + f->group * (at / 4),
             byte = 0;
    for (uint32_t q = 0; q < f->n_quarters; q++) {
        uint32_t lane = (f->address >> 16) + i % 32 + 32 * (f->quarter + q);
        if (lane >= PL_TMEM_LANES || !pl_tmem_is_allocated(f->t, column, 1)) {
            pl_d_tmem_bounds(pl_async_faults(op), pl_async_where(op), "a scale factor", 1, 1,
                             lane << 16 | column);
            return false;
        }
        if (!pl_tmem_check_written(op, f->t, lane, column))
            return false;
        uint32_t copy = f->t->cells[lane][column] >> 8 * (at % 4) & 0xff;
        if (q != 0 && copy != byte)
            return pl_tc_fault_unserved(op,
                                        "scale factors that differ between quarters of the lanes");
        byte = copy;
    }
    *out = s->is_ue4m3 ? pl_num_to_float(PL_NUM_E4M3, byte & 0x7f)
                       : pl_num_to_float(PL_NUM_UE8M0, byte);
    return true;
}

/* Rows of A are scaled by the factors of the CTA that holds them. */
static bool scale_a(struct pl_async_op *op, const struct pl_tc_shape *s, struct numbers *x)
{
    uint32_t rows_a_cta = op->u.tmem.is_pair ? s->m / 2 : s->m;
    for (uint32_t m = 0; m < s->m; m++) {
        struct factors f = factors_of(op, s, m / rows_a_cta, true, 0);
        float factor = 0;
        for (uint32_t k = 0; k < s->k; k++) {
            if (k % s->scale_k == 0 &&
                !read_factor(op, s, &f, m % rows_a_cta, k / s->scale_k, &factor))
                return false;
            x->v[m][k].f *= factor;
        }
    }
    return true;
}

/* Factors of B as CTA i_cta has them: [column][block of k]. */
static bool load_factors_of_b(struct pl_async_op *op, const struct pl_tc_shape *s, uint32_t i_cta,
                              float out[MAX_ROWS][MAX_FACTORS])
{
    uint32_t per_part = s->n_parts == 2 ? s->n / 2 : s->n;
    for (uint32_t n = 0; n < s->n; n++) {
        struct factors f = factors_of(op, s, i_cta, false, n);
        for (uint32_t j = 0; j < s->k / s->scale_k; j++)
            if (!read_factor(op, s, &f, n % per_part, j, &out[n][j]))
                return false;
    }
    return true;
}

/* ---- columns of B read as zeros (.ws) ------------------------------------------------------------------------------------------- */

/*
 * "Zero-column mask descriptor": the columns fall into 128 / M parts. The mask of a part is a sequence of runs, of zeros (the
 * column is used) and ones (it reads as 0) in turn, without the first `start` bits of it.
 */
static void zero_columns(const struct pl_async_op *op, const struct pl_tc_shape *s,
                         struct numbers *b)
{
    uint64_t d = op->u.tmem.zero_mask;
    uint32_t n_skipped = (d >> 40 & 0xff) + 1, n_used = (d >> 48 & 0xff) + 1;
    if ((d >> 39 & 1) == 0)
        return;
    for (uint32_t n = 0; n < s->n; n++) {
        uint32_t per_part = s->n / s->n_parts, part = n / per_part;
        uint32_t start = d >> 8 * part & 0xff, is_first_zero = d >> (32 + part) & 1;
        uint32_t at = (start + n % per_part) % (n_used + n_skipped);
        bool is_zero = is_first_zero ? at < n_skipped : at >= n_used;
        if (is_zero)
            memset(b->v[n], 0, sizeof b->v[n]);
    }
}

/* ---- the product ------------------------------------------------------------------------------------------------------------------ */

struct work {
    struct numbers a, b;
    float factors_b[MAX_ROWS][MAX_FACTORS];
    _Alignas(64) uint32_t tile_a[PL_EMU_TILE_MAX_K * PL_EMU_TILE_A_STRIDE];
    _Alignas(
        64) uint32_t tile_b[MAX_K / PL_EMU_TILE_MAX_K][PL_EMU_TILE_MAX_K * 2 * PL_EMU_TILE_MAX_N];
    _Alignas(64) uint32_t d[PL_EMU_TILE_MAX_N / 2][PL_EMU_LANES];
    uint32_t held[PL_EMU_TILE_MAX_N / 2][PL_EMU_LANES]; /* saturation: D before the products */
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

static void pack_b(struct work *w, const struct pl_tc_shape *s, uint32_t first_k, uint32_t n_k)
{
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t k = 0; k < n_k; k++) {
            uint32_t *p = w->tile_b[first_k / PL_EMU_TILE_MAX_K] + k * 2 * s->n + i / 8 * 16 +
                          i % 2 * 8 + i % 8 / 2;
            union pl_mma_value v = w->b.v[i][first_k + k];
            if (s->scale_k != 0)
                v.f *= w->factors_b[i][(first_k + k) / s->scale_k];
            p[0] = p[4] = v.bits;
        }
}

/* Eight columns of a row, from column n on: two lane arrays, four lanes of each in turn. */
struct eight {
    uint32_t *even, *odd;
};

static struct eight eight_of(struct work *w, uint32_t row, uint32_t n)
{
    uint32_t i = n / 8 * 4 + row / 8 * 2, lane = row % 8 * 4;
    return (struct eight){&w->d[i][lane], &w->d[i + 1][lane]};
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

static uint32_t widen(const struct pl_async_op *op, const struct pl_tc_shape *s, uint32_t v)
{
    union pl_mma_value x = {.bits = v};
    if (s->is_f16_acc)
        x.f = pl_num_f16_to_float((uint16_t)v);
    if (op->u.tmem.d_shift != 0)
        x.f = ldexpf(x.f, -op->u.tmem.d_shift);
    return x.bits;
}

static uint32_t narrow(const struct pl_tc_shape *s, uint32_t v)
{
    union pl_mma_value x = {.bits = v};
    return s->is_f16_acc ? pl_num_f16_of_float(x.f) : v;
}

static bool take_d(struct pl_async_op *op, const struct pl_tc_shape *s, struct work *w, uint32_t m0)
{
    uint32_t n_run = s->n / s->n_parts; /* cells of a row that lie together */
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
            for (uint32_t n = 0; n < n_run; n += 8) {
                struct eight e = eight_of(w, r, n0 + n);
                for (uint32_t i = 0; i < 4; i++) {
                    e.even[i] = is_plain ? from[n + 2 * i] : widen(op, s, from[n + 2 * i]);
                    e.odd[i] = is_plain ? from[n + 2 * i + 1] : widen(op, s, from[n + 2 * i + 1]);
                }
            }
        }
    return true;
}

/* The mask has a bit for each lane of the CTA, or of the two of a pair. */
static bool is_disabled(const struct pl_async_op *op, const struct pl_tc_shape *s, uint32_t m,
                        uint32_t lane)
{
    uint32_t bit = lane + (op->u.tmem.is_pair && m >= s->m / 2 ? PL_TMEM_LANES : 0);
    return (op->u.tmem.disabled_lanes[bit / 32] >> (bit % 32) & 1) != 0;
}

static void give_d(struct pl_async_op *op, const struct pl_tc_shape *s, struct work *w, uint32_t m0)
{
    uint32_t n_run = s->n / s->n_parts; /* cells of a row that lie together */
    for (uint32_t r = 0; r < BLOCK_ROWS; r++)
        for (uint32_t n0 = 0; n0 < s->n; n0 += n_run) {
            struct cell c = cell_of(op, s, op->u.tmem.address, m0 + r, n0, false);
            if (is_disabled(op, s, m0 + r, c.lane))
                continue;
            uint32_t *to = &c.t->cells[c.lane][c.column];
            for (uint32_t n = 0; n < n_run; n += 8) {
                struct eight e = eight_of(w, r, n0 + n);
                for (uint32_t i = 0; i < 4; i++) {
                    to[n + 2 * i] = narrow(s, e.even[i]);
                    to[n + 2 * i + 1] = narrow(s, e.odd[i]);
                }
            }
            mark_run_written(&c, n_run);
        }
}

static void add_saturating(const struct pl_tc_shape *s, struct work *w)
{
    for (uint32_t i = 0; i < s->n / 2; i++)
        for (uint32_t lane = 0; lane < PL_EMU_LANES; lane++) {
            int64_t sum = (int64_t)(int32_t)w->held[i][lane] + (int32_t)w->d[i][lane];
            w->d[i][lane] = (uint32_t)(sum > INT32_MAX   ? INT32_MAX
                                       : sum < INT32_MIN ? INT32_MIN
                                                         : sum);
        }
}

/* BLOCK_ROWS rows of D from m0 on; the tiles of B are packed. */
static bool multiply_block(struct pl_async_op *op, const struct pl_tc_shape *s, struct work *w,
                           uint32_t m0, uint32_t step)
{
    struct pl_emu_tile tile = {.n = s->n, .k = step, .a = w->tile_a};
    for (uint32_t i = 0; i < s->n / 2; i++)
        tile.d[i] = w->d[i];
    if (!take_d(op, s, w, m0))
        return false;
    if (s->is_saturating) {
        memcpy(w->held, w->d, sizeof w->held);
        memset(w->d, 0, sizeof w->d);
    }
    for (uint32_t k = 0; k < s->k; k += step) {
        pack_a(w, m0, k, step);
        tile.b = w->tile_b[k / step];
        if (s->is_int)
            pl_emu_tile_s32(&tile);
        else
            pl_emu_tile_f32(&tile);
    }
    if (s->is_saturating)
        add_saturating(s, w);
    give_d(op, s, w, m0);
    return true;
}

/* Each CTA scales B by its own copy of the factors. */
static bool multiply(struct pl_async_op *op, const struct pl_tc_shape *s, struct work *w)
{
    uint32_t step = s->k < PL_EMU_TILE_MAX_K ? s->k : PL_EMU_TILE_MAX_K;
    uint32_t n_times = s->scale_k != 0 && op->u.tmem.is_pair ? 2 : 1, rows = s->m / n_times;
    for (uint32_t i = 0; i < n_times; i++) {
        if (s->scale_k != 0 && !load_factors_of_b(op, s, i, w->factors_b))
            return false;
        for (uint32_t k = 0; k < s->k; k += step)
            pack_b(w, s, k, step);
        for (uint32_t m = i * rows; m < (i + 1) * rows; m += BLOCK_ROWS)
            if (!multiply_block(op, s, w, m, step))
                return false;
    }
    return true;
}

/* Not inlined: the address of a thread's variable would be looked up again at each use. */
__attribute__((noinline)) static struct work *thread_work(void)
{
    static _Thread_local struct work w;
    return &w;
}

static enum pl_emu_status write_mma(struct pl_async_op *op)
{
    struct work *w = thread_work();
    struct pl_tc_shape s;
    if (pl_tmem_finish_before(op) != PL_EMU_NEXT || !pl_tc_shape_of(op, &s))
        return PL_EMU_FAULT;
    bool is_good = op->u.tmem.is_a_in_tmem ? load_a_from_tmem(op, &s, &w->a)
                                           : load_numbers(op, &s, &s.a, s.m, &w->a);
    is_good = is_good && load_numbers(op, &s, &s.b, s.n, &w->b);
    if (is_good)
        zero_columns(op, &s, &w->b);
    is_good = is_good && (s.scale_k == 0 || scale_a(op, &s, &w->a));
    return is_good && multiply(op, &s, w) ? PL_EMU_NEXT : PL_EMU_FAULT;
}

const struct pl_async_kind pl_tmem_mma = {"tcgen05.mma", NULL, write_mma};

/* ---- issue ---------------------------------------------------------------------------------------------------------------------------- */

static bool is_ta(const struct pl_emu_ins *ins)
{
    uint16_t form = ins->ptx->form;
    return form == PL_PTX_tcgen05_mma_ta || form == PL_PTX_tcgen05_mma_scaled_ta ||
           form == PL_PTX_tcgen05_mma_ws_ta;
}

static bool is_ws(const struct pl_emu_ins *ins)
{
    return ins->ptx->form == PL_PTX_tcgen05_mma_ws || ins->ptx->form == PL_PTX_tcgen05_mma_ws_ta;
}

/* Operands after the instruction descriptor: scale factor addresses or disabled lanes, predicate, shift of D or zero columns. */
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
    uint64_t last = ins->n_args > i + 1 ? pl_emu_lane(op->w, &ins->args[i + 1], lane) : 0;
    op->u.tmem.d_shift = is_ws(ins) ? 0 : (uint8_t)last;
    op->u.tmem.zero_mask = is_ws(ins) ? last : 0;
}

static bool check_d(struct pl_async_op *op, const struct pl_tc_shape *s)
{
    struct pl_emu_cta *ctas[2];
    pl_tc_ctas_of(op, ctas);
    uint32_t n_lanes =
        s->m == 64 && !s->is_ws ? 112 : 128; /* the last of them, less 16 where M is 64 */
    uint32_t a_columns = s->k / (s->is_dense4 ? 8 : 4 / s->es);
    for (uint32_t i = 0; i < 2 && ctas[i] != NULL; i++)
        if (!pl_tmem_check(op, ctas[i], op->u.tmem.address, n_lanes, s->n / s->n_parts) ||
            (op->u.tmem.is_a_in_tmem &&
             !pl_tmem_check(op, ctas[i], op->u.tmem.a_address, n_lanes, a_columns)))
            return false;
    return true;
}

/* For the race check: `n` columns of the lanes that rows of D, or of A, have; column of row 0 at `n0`. */
static bool note_rows(struct pl_async_op *op, const struct pl_tc_shape *s, uint32_t address,
                      uint32_t n0, uint32_t n, bool is_a)
{
    struct pl_emu_cta *ctas[2];
    pl_tc_ctas_of(op, ctas);
    for (uint32_t i = 0; i < 2 && ctas[i] != NULL; i++) {
        struct pl_race_cells c = {.cta = ctas[i],
                                  .pipe = is_a ? PL_RACE_PIPE_OPERAND : PL_RACE_PIPE_D,
                                  .is_write = !is_a};
        for (uint32_t m = 0; m < s->m; m++) {
            struct cell at = cell_of(op, s, address, m, n0, is_a);
            if (at.t != pl_tmem_of(ctas[i]))
                continue;
            c.rows |= 1u << at.lane / 16;
            c.first = at.column;
        }
        c.end = c.first + n;
        if (pl_race_tmem(op, &c) != PL_EMU_NEXT)
            return false;
    }
    return true;
}

/* Scale factors of n rows or columns: a column each 32 of them, with a copy in every quarter. */
static bool note_factors(struct pl_async_op *op, uint32_t address, uint32_t n)
{
    struct pl_emu_cta *ctas[2];
    pl_tc_ctas_of(op, ctas);
    for (uint32_t i = 0; i < 2 && ctas[i] != NULL; i++) {
        struct pl_race_cells c = {.cta = ctas[i],
                                  .rows = 0xff,
                                  .first = address & 0xffff,
                                  .end = (address & 0xffff) + (n + 31) / 32,
                                  .pipe = PL_RACE_PIPE_OPERAND};
        if (pl_race_tmem(op, &c) != PL_EMU_NEXT)
            return false;
    }
    return true;
}

static bool note_cells(struct pl_async_op *op, const struct pl_tc_shape *s)
{
    uint32_t n_run = s->n / s->n_parts, a_columns = s->k / (s->is_dense4 ? 8 : 4 / s->es);
    bool is_good =
        !op->u.tmem.is_a_in_tmem || note_rows(op, s, op->u.tmem.a_address, 0, a_columns, true);
    if (is_good && s->scale_k != 0)
        is_good = note_factors(op, op->u.tmem.scale_a, op->u.tmem.is_pair ? s->m / 2 : s->m) &&
                  note_factors(op, op->u.tmem.scale_b, s->n);
    for (uint32_t n0 = 0; is_good && n0 < s->n; n0 += n_run)
        is_good = note_rows(op, s, op->u.tmem.address, n0, n_run, false);
    return is_good;
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
    struct pl_tc_shape s;
    if (!pl_tc_check_pair(op) || !pl_tc_shape_of(op, &s) || !check_d(op, &s))
        return false;
    if ((op->u.tmem.zero_mask >> 56 & 0x3f) != 0)
        return pl_tc_fault_unserved(op, "a shift of B's columns");
    return (is_ta(ins) || check_operand(op, &s, &s.a, s.m, &op->source)) &&
           check_operand(op, &s, &s.b, s.n, &op->source2) &&
           (!pl_race_is_on(w) || note_cells(op, &s));
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
