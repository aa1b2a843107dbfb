/*
 * wgmma: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".
 *
 * Each warp of the warpgroup computes its own 16 rows: warp w has rows 16 w … 16 w + 15 of A and D, all of B. An instruction is
 * an operation of the asynchronous queue: it reads shared memory and registers, and writes the accumulator, when the policy
 * or a wait finishes it, those of a warp in order. Order of accumulation: emu/ops/tile.h.
 *
 *   A in registers   as mma.sync: register r, element j: row t/4 + 8 (r & 1), k = e (t % 4) + j + 4 e (r >> 1), e = 32 / bits
 *   D                register 4 j + 2 h + b: row t/4 + 8 h, column 8 j + 2 (t % 4) + b; f16: register 2 j + h, halves b
 */
#include "emu/exec/mma.h"

#include "base/diag.h"
#include "base/num.h"
#include "emu/async/state.h"
#include "emu/faults.h"
#include "emu/machine.h"
#include "emu/mma_desc.h"
#include "emu/mma_elem.h"
#include "emu/ops/tile.h"
#include "emu/race.h"

#define PL_DIAG_ROWS "emu/matrix.def"
#define PL_DIAG_MODE_DEFINE
#include "base/diag_rows.h"

#include <string.h>

enum { ROWS = 16 };

/* What the row and types of an instruction say. */
struct shape {
    unsigned n, k,
        es; /* es: bytes of an element in shared memory; .b1 counts in bytes of 8 elements, k too */
    enum pl_mma_elem a, b;
    bool is_a_in_regs, is_int, is_f16_acc;
};

static struct shape shape_of(const struct pl_emu_ins *ins)
{
    const struct pl_ptx_ins *p = ins->ptx;
    struct shape s = {.n = p->shape_n,
                      .a = pl_mma_elem_of(p->types[1]),
                      .b = pl_mma_elem_of(p->types[2]),
                      .is_a_in_regs = ins->args[1].kind == PL_EMU_ARG_VECTOR,
                      .is_int = p->types[0] == PL_PTX_TYPE_S32,
                      .is_f16_acc = p->types[0] == PL_PTX_TYPE_F16};
    s.es = pl_mma_elem_bytes(s.a);
    s.k = 32 / s.es; /* every shape has 32 bytes along k */
    return s;
}

/* ---- operands ---- */

/* Lane array of a register; the frame is that of the issue. */
static void *lanes(const struct pl_async_op *op, const struct pl_emu_arg *a)
{
    uint8_t *base = a->bank == PL_EMU_BANK_FRAME ? op->u.wgmma.frame : op->w->bank[a->bank];
    return base + a->offset_bytes;
}

/* Integers after the predicate: imm-scale-a, imm-scale-b, imm-trans-a, imm-trans-b; 0 where the form has none. */
static int64_t immediate(const struct pl_async_op *op, unsigned i)
{
    const struct pl_emu_ins *ins = op->pc;
    unsigned at = 4 + i;
    if (at >= ins->n_args)
        return 0;
    const struct pl_emu_arg *a = &ins->args[at];
    return a->bits == 64 ? (int64_t)pl_emu_lane(op->w, a, 0) : (int32_t)pl_emu_lane(op->w, a, 0);
}

/* imm-trans-b is the last integer; with A in registers there is no imm-trans-a. */
static bool is_transposed(const struct pl_async_op *op, const struct shape *s, bool is_a)
{
    if (is_a)
        return !s->is_a_in_regs && immediate(op, 2) != 0;
    return immediate(op, s->is_a_in_regs ? 2 : 3) != 0;
}

/* 16 bytes of an operand at a shared address of the CTA; NULL: fault raised. */
static const uint8_t *chunk_at(const struct pl_async_op *op, uint32_t address)
{
    const struct pl_emu_cta *cta = op->w->cta;
    uint32_t base = cta->shared.base_bytes, offset = address - base;
    if (address < base || offset + 16 > cta->shared.n_bytes) {
        pl_emu_fault_shared(op->w, 0, address, 16, "wgmma.mma_async");
        return NULL;
    }
    if (!pl_emu_shared_is_written(cta, offset, 16)) {
        pl_emu_fault_unwritten(op->w, 0, address, 16, "wgmma.mma_async");
        return NULL;
    }
    return cta->shared.data + offset;
}

/* A tile in shared memory, from row (or column) `first`. */
struct source {
    struct pl_mma_desc desc;
    enum pl_mma_elem elem;
    bool is_mn_major, is_negated;
    unsigned first, n, k, es;
};

enum { MAX_CHUNKS = PL_EMU_TILE_MAX_N * 32 / 16 };

/* The bytes of an operand, chunk after chunk, whatever their layout. */
struct raw {
    _Alignas(16) uint8_t chunks[MAX_CHUNKS][16];
    unsigned n;
};

static bool read_raw(const struct pl_async_op *op, const struct source *s, struct raw *raw)
{
    unsigned t = 16 / s->es, n_i = s->is_mn_major ? s->n / t : s->n,
             n_k = s->is_mn_major ? s->k : s->k / t;
    raw->n = 0;
    for (unsigned ci = 0; ci < n_i; ci++)
        for (unsigned ck = 0; ck < n_k; ck++) {
            unsigned i = s->is_mn_major ? ci * t : ci, k = s->is_mn_major ? ck : ck * t;
            const uint8_t *from =
                chunk_at(op, pl_mma_address(&s->desc, s->is_mn_major, s->es, s->first + i, k));
            if (from == NULL)
                return false;
            memcpy(raw->chunks[raw->n++], from, 16);
        }
    return true;
}

typedef void store_fn(void *out, unsigned i, unsigned k, unsigned stride, union pl_mma_value v);

/* Element (i, k) of A goes to its fragment, four times; of B, twice (emu/ops/tile.h). */
static void store_a(void *out, unsigned i, unsigned k, unsigned stride, union pl_mma_value v)
{
    (void)stride;
    uint32_t *p =
        (uint32_t *)out + k * PL_EMU_TILE_A_STRIDE + i % 8 / 2 * 16 + i / 8 * 8 + i % 2 * 4;
    p[0] = p[1] = p[2] = p[3] = v.bits;
}

static void store_b(void *out, unsigned i, unsigned k, unsigned stride, union pl_mma_value v)
{
    uint32_t *p = (uint32_t *)out + k * stride + i / 8 * 16 + i % 2 * 8 + i % 8 / 2;
    p[0] = p[4] = v.bits;
}

static void decode_raw(const struct source *s, const struct raw *raw, store_fn *store, void *out)
{
    unsigned t = 16 / s->es, n_k = s->is_mn_major ? s->k : s->k / t;
    union pl_mma_value v[16];
    for (unsigned c = 0; c < raw->n; c++) {
        unsigned i = s->is_mn_major ? c / n_k * t : c / n_k,
                 k = s->is_mn_major ? c % n_k : c % n_k * t;
        pl_mma_decode(s->elem, raw->chunks[c], s->is_negated, v);
        for (unsigned e = 0; e < t; e++)
            store(out, i + (s->is_mn_major ? e : 0), k + (s->is_mn_major ? 0 : e), 2 * s->n, v[e]);
    }
}

/*
 * Decoded B tiles of this thread, found by their bytes: the four warps of a warpgroup multiply by the same one. What decides the
 * result besides the bytes is in the key.
 */
struct cached_b {
    struct raw raw;
    unsigned key;
    _Alignas(64) uint32_t values[PL_EMU_TILE_MAX_K * 2 * PL_EMU_TILE_MAX_N];
};

enum { N_CACHED = 4 };

/* NULL: fault raised. */
static const uint32_t *load_b(const struct pl_async_op *op, const struct source *s)
{
    static _Thread_local struct cached_b cache[N_CACHED];
    static _Thread_local struct raw raw;
    uint32_t start = s->desc.start;
    struct cached_b *entry = &cache[(start >> 5 ^ start >> 11) % N_CACHED];
    unsigned key = 1u | (unsigned)s->elem << 1 | (unsigned)s->is_mn_major << 8 |
                   (unsigned)s->is_negated << 9 | s->n << 10;
    if (!read_raw(op, s, &raw))
        return NULL;
    if (entry->key == key && memcmp(entry->raw.chunks, raw.chunks, (size_t)raw.n * 16) == 0)
        return entry->values;
    entry->key = key;
    entry->raw = raw;
    decode_raw(s, &raw, store_b, entry->values);
    return entry->values;
}

static bool load_a(const struct pl_async_op *op, const struct source *s, void *out)
{
    static _Thread_local struct raw raw;
    if (!read_raw(op, s, &raw))
        return false;
    decode_raw(s, &raw, store_a, out);
    return true;
}

/* A from four registers. */
static void load_registers(const struct pl_async_op *op, const struct shape *s, bool is_negated,
                           void *out)
{
    unsigned e = 4 / s->es;
    union pl_mma_value v[16];
    for (unsigned r = 0; r < 4; r++) {
        const uint32_t *from = lanes(op, &op->pc->args[op->pc->args[1].first + r]);
        for (unsigned t = 0; t < 32; t++) {
            uint32_t chunk[4] = {from[t]};
            pl_mma_decode(s->a, (const uint8_t *)chunk, is_negated, v);
            for (unsigned j = 0; j < e; j++)
                store_a(out, t / 4 + 8 * (r & 1), e * (t % 4) + j + 4 * e * (r >> 1), 0, v[j]);
        }
    }
}

/* ---- the product ---- */

struct work {
    _Alignas(64) uint32_t a[PL_EMU_TILE_MAX_K * PL_EMU_TILE_A_STRIDE];
    const uint32_t *b;
    _Alignas(64) float halves[PL_EMU_TILE_MAX_N / 2][32]; /* f16 accumulators, widened */
};

static const struct pl_emu_arg *d_arg(const struct pl_async_op *op, unsigned i)
{
    return &op->pc->args[op->pc->args[0].first + i];
}

static void widen_acc(const struct pl_async_op *op, const struct shape *s, struct work *w)
{
    for (unsigned r = 0; r < s->n / 4; r++) { /* r = 2 j + h */
        const uint32_t *d = lanes(op, d_arg(op, r));
        for (unsigned t = 0; t < 32; t++) {
            w->halves[2 * r][t] = pl_num_f16_to_float((uint16_t)d[t]);
            w->halves[2 * r + 1][t] = pl_num_f16_to_float((uint16_t)(d[t] >> 16));
        }
    }
}

static void narrow_acc(const struct pl_async_op *op, const struct shape *s, const struct work *w)
{
    for (unsigned r = 0; r < s->n / 4; r++) {
        uint32_t *d = lanes(op, d_arg(op, r));
        for (unsigned t = 0; t < 32; t++)
            d[t] = pl_num_f16_of_float(w->halves[2 * r][t]) |
                   (uint32_t)pl_num_f16_of_float(w->halves[2 * r + 1][t]) << 16;
    }
}

/* .satfinite: the sum of one instruction is clamped to .s32; products of an instruction alone fit. */
static void add_saturated(int32_t *d, const int32_t *product)
{
    for (unsigned t = 0; t < 32; t++) {
        int64_t sum = (int64_t)d[t] + product[t];
        d[t] = (int32_t)(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);
    }
}

static void multiply(const struct pl_async_op *op, const struct shape *s, struct work *w)
{
    struct pl_emu_tile tile = {.n = s->n, .k = s->k, .a = w->a, .b = w->b};
    bool is_sat =
        op->pc->ptx->mods[PL_PTX_CAT_SAT] != PL_PTX_MOD_NONE && op->u.wgmma.is_accumulating;
    bool is_staged = s->is_f16_acc || is_sat;
    if (s->is_f16_acc)
        widen_acc(op, s, w);
    for (unsigned r = 0; r < s->n / 2; r++) {
        tile.d[r] = is_staged ? (void *)w->halves[r] : lanes(op, d_arg(op, r));
        if (!op->u.wgmma.is_accumulating || is_sat)
            memset(tile.d[r], 0, sizeof w->halves[r]);
    }
    if (s->is_int)
        pl_emu_tile_s32(&tile);
    else
        pl_emu_tile_f32(&tile);
    for (unsigned r = 0; is_sat && r < s->n / 2; r++)
        add_saturated(lanes(op, d_arg(op, r)), (const int32_t *)(const void *)w->halves[r]);
    if (s->is_f16_acc)
        narrow_acc(op, s, w);
}

/* .b1: and, then popc, over 256 bits a row; scale-d as ever. */
static bool multiply_bits(const struct pl_async_op *op, const struct shape *s,
                          const uint8_t a[ROWS][32], const struct source *from_b)
{
    for (unsigned col = 0; col < s->n; col++) {
        uint8_t b[32];
        for (unsigned half = 0; half < 2; half++) {
            const uint8_t *chunk =
                chunk_at(op, pl_mma_address(&from_b->desc, false, 1, col, 16 * half));
            if (chunk == NULL)
                return false;
            memcpy(b + 16 * half, chunk, 16);
        }
        for (unsigned row = 0; row < ROWS; row++) {
            int32_t *d = lanes(op, d_arg(op, col / 8 * 4 + row / 8 * 2 + col % 2)), sum = 0;
            unsigned t = row % 8 * 4 + col % 8 / 2;
            for (unsigned i = 0; i < 32; i++)
                sum += __builtin_popcount((unsigned)(a[row][i] & b[i]));
            d[t] = op->u.wgmma.is_accumulating ? (int32_t)((uint32_t)d[t] + (uint32_t)sum) : sum;
        }
    }
    return true;
}

static bool rows_of_bits(const struct pl_async_op *op, const struct shape *s,
                         const struct source *from, uint8_t a[ROWS][32])
{
    for (unsigned row = 0; row < ROWS; row++)
        for (unsigned half = 0; half < 2; half++) {
            if (s->is_a_in_regs) { /* 32 bits a register: k = 32 (t % 4) + 128 (r >> 1) */
                const uint32_t *r =
                    lanes(op, &op->pc->args[op->pc->args[1].first + row / 8 + 2 * half]);
                memcpy(a[row] + 16 * half, r + row % 8 * 4, 16);
                continue;
            }
            const uint8_t *chunk =
                chunk_at(op, pl_mma_address(&from->desc, false, 1, from->first + row, 16 * half));
            if (chunk == NULL)
                return false;
            memcpy(a[row] + 16 * half, chunk, 16);
        }
    return true;
}

static enum pl_emu_status finish_older(const struct pl_async_op *op);

static enum pl_emu_status run(struct pl_async_op *op)
{
    static _Thread_local struct work w;
    struct shape s = shape_of(op->pc);
    unsigned row = op->w->index % 4 * ROWS;
    bool is_float = !s.is_int;
    struct source a = {pl_mma_desc_of_wgmma(op->u.wgmma.a),
                       s.a,
                       is_transposed(op, &s, true),
                       is_float && immediate(op, 0) < 0,
                       row,
                       ROWS,
                       s.k,
                       s.es};
    struct source b = {pl_mma_desc_of_wgmma(op->u.wgmma.b),
                       s.b,
                       is_transposed(op, &s, false),
                       is_float && immediate(op, 1) < 0,
                       0,
                       s.n,
                       s.k,
                       s.es};
    if (finish_older(op) != PL_EMU_NEXT)
        return PL_EMU_FAULT;
    if (s.a == PL_MMA_B1) {
        uint8_t bits[ROWS][32];
        bool is_done =
            rows_of_bits(op, &s, &a, bits) && multiply_bits(op, &s, (const uint8_t(*)[32])bits, &b);
        return is_done ? PL_EMU_NEXT : PL_EMU_FAULT;
    }
    if (s.is_a_in_regs)
        load_registers(op, &s, a.is_negated, w.a);
    else if (!load_a(op, &a, w.a))
        return PL_EMU_FAULT;
    if ((w.b = load_b(op, &b)) == NULL)
        return PL_EMU_FAULT;
    multiply(op, &s, &w);
    return PL_EMU_NEXT;
}

static enum pl_emu_status nothing(struct pl_async_op *op)
{
    (void)op;
    return PL_EMU_NEXT;
}

static const struct pl_async_kind wgmma_kind = {"wgmma.mma_async", NULL, run};
static const struct pl_async_kind wgmma_a_kind = {"wgmma.mma_async", NULL,
                                                  nothing}; /* marks A's memory as in use */

static bool is_wgmma(const struct pl_async_op *op)
{
    return op->kind == &wgmma_kind || op->kind == &wgmma_a_kind;
}

/* The accumulator is a chain: what this warp issued before ends before. op itself is out of the queue by now. */
static enum pl_emu_status finish_older(const struct pl_async_op *op)
{
    struct pl_emu_async *a = op->w->cta->cluster->async;
    enum pl_emu_status s = PL_EMU_NEXT;
    for (struct pl_async_op *o = a->first; o != NULL && s == PL_EMU_NEXT;) {
        bool is_older = is_wgmma(o) && o->w == op->w && o->serial < op->serial;
        if (is_older)
            s = pl_async_finish(o);
        o = is_older ? a->first : o->next; /* finishing may have taken more out */
    }
    return s;
}

/* ---- issue ---- */

/* A descriptor is the same in all threads and has a base offset that is understood. */
static bool read_descriptor(struct pl_emu_warp *w, const struct pl_emu_arg *arg, const char *name,
                            uint64_t *out)
{
    uint32_t first = pl_emu_first_lane(w);
    const char *why = NULL;
    *out = pl_emu_lane(w, arg, first);
    PL_EMU_FOR_LANES (lane, w->mask) {
        if (pl_emu_lane(w, arg, lane) != *out)
            why = "differs between the threads of a warp";
    }
    if (why == NULL && pl_mma_desc_of_wgmma(*out).base_offset != 0)
        why = "has a base offset, whose effect no document states";
    if (why == NULL)
        return true;
    pl_d_matrix_descriptor(pl_emu_faults(w, first), pl_emu_where(w), "wgmma.mma_async", name, *out,
                           why);
    return false;
}

/* Shared memory between the first and the last byte of an operand. */
static struct pl_async_range range_of(struct pl_emu_warp *w, const struct source *s)
{
    struct pl_async_range r = {w->cta, UINT32_MAX, 0};
    unsigned t = 16 / s->es;
    for (unsigned i = 0; i < s->n; i += s->is_mn_major ? t : 1)
        for (unsigned k = 0; k < s->k; k += s->is_mn_major ? 1 : t) {
            uint32_t at = pl_mma_address(&s->desc, s->is_mn_major, s->es, s->first + i, k) -
                          w->cta->shared.base_bytes;
            r.first = at < r.first ? at : r.first;
            r.end = at + 16 > r.end ? at + 16 : r.end;
        }
    return r;
}

static struct pl_async_op *new_op(struct pl_emu_warp *w, const struct pl_async_kind *kind,
                                  uint32_t group)
{
    struct pl_async_op *op = pl_async_new(w, w->mask, kind);
    if (op != NULL) {
        op->owner = PL_ASYNC_BY_WGMMA;
        op->group = group;
        op->u.wgmma.frame = w->bank[PL_EMU_BANK_FRAME];
    }
    return op;
}

/* The range must lie in the CTA's memory before the queue may look at it. */
static bool set_source(struct pl_async_op *op, struct pl_async_range r)
{
    if (r.first < r.end && r.end <= op->w->cta->shared.n_bytes) {
        op->source = r;
        return true;
    }
    pl_emu_fault_shared(op->w, pl_emu_first_lane(op->w), r.first + r.cta->shared.base_bytes,
                        r.end - r.first, "wgmma.mma_async");
    pl_async_drop(op);
    return false;
}

static enum pl_emu_status submit(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                                 struct pl_async_warp *aw, const uint64_t desc[2])
{
    struct shape s = shape_of(ins);
    struct pl_async_op *op = new_op(w, &wgmma_kind, aw->wgmma_group);
    if (op == NULL)
        return PL_EMU_FAULT;
    op->u.wgmma.a = desc[0];
    op->u.wgmma.b = desc[1];
    op->u.wgmma.is_accumulating = pl_emu_lane(w, &ins->args[3], pl_emu_first_lane(w)) != 0;
    if (w->cta->cluster->async->is_checking) {
        struct source b = {pl_mma_desc_of_wgmma(desc[1]),
                           s.b,
                           is_transposed(op, &s, false),
                           false,
                           0,
                           s.n,
                           s.k,
                           s.es};
        struct source a = {pl_mma_desc_of_wgmma(desc[0]),
                           s.a,
                           is_transposed(op, &s, true),
                           false,
                           w->index % 4 * ROWS,
                           ROWS,
                           s.k,
                           s.es};
        if (!set_source(op, range_of(w, &b)))
            return PL_EMU_FAULT;
        struct pl_async_op *mark =
            s.is_a_in_regs ? NULL : new_op(w, &wgmma_a_kind, aw->wgmma_group);
        if (mark != NULL &&
            (!set_source(mark, range_of(w, &a)) || pl_async_submit(mark) != PL_EMU_NEXT)) {
            pl_async_drop(op);
            return PL_EMU_FAULT;
        }
        op->serial = ++w->cta->cluster->async->n_issued; /* after its mark */
    }
    return pl_async_submit(op);
}

enum pl_emu_status pl_emu_exec_wgmma(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    struct pl_async_warp *aw = pl_async_warp_of(w);
    uint64_t desc[2] = {0, 0};
    if (aw == NULL)
        return pl_async_no_memory(w);
    if (w->cta->n_threads % 128 != 0) {
        pl_d_matrix_warpgroup(pl_emu_faults(w, pl_emu_first_lane(w)), pl_emu_where(w),
                              "wgmma.mma_async", w->cta->n_threads);
        return PL_EMU_FAULT;
    }
    if (ins->args[1].kind != PL_EMU_ARG_VECTOR && !read_descriptor(w, &ins->args[1], "A", &desc[0]))
        return PL_EMU_FAULT;
    if (!read_descriptor(w, &ins->args[2], "B", &desc[1]))
        return PL_EMU_FAULT;
    if (pl_race_is_on(w) && pl_race_wgmma(w, ins) != PL_EMU_NEXT)
        return PL_EMU_FAULT;
    enum pl_emu_status s = submit(w, ins, aw, desc);
    return s == PL_EMU_NEXT && pl_race_is_on(w) ? PL_EMU_YIELD : s; /* what follows is looked at */
}

/* wgmma.fence orders registers and memory between wgmma and other code: program order does, here. */
enum pl_emu_status pl_emu_exec_wgmma_fence(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    (void)ins;
    if (pl_race_is_on(w))
        pl_race_wgmma_fence(w);
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_wgmma_commit(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    (void)ins;
    struct pl_async_warp *aw = pl_async_warp_of(w);
    if (aw == NULL)
        return pl_async_no_memory(w);
    aw->wgmma_group++;
    return PL_EMU_NEXT;
}

/* wait_group N: all but the N youngest committed groups are complete. */
enum pl_emu_status pl_emu_exec_wgmma_wait(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    struct pl_async_warp *aw = pl_async_warp_of(w);
    if (aw == NULL)
        return pl_async_no_memory(w);
    uint64_t n = pl_emu_lane(w, &ins->args[0], 0);
    uint32_t end = n >= aw->wgmma_group ? 0 : aw->wgmma_group - (uint32_t)n;
    struct pl_emu_async *a = w->cta->cluster->async;
    enum pl_emu_status s = PL_EMU_NEXT;
    if (pl_race_is_on(w))
        pl_race_wait_groups(w, pl_emu_first_lane(w), PL_ASYNC_BY_WGMMA, end, false);
    for (struct pl_async_op *o = a->first; o != NULL && s == PL_EMU_NEXT;) {
        bool is_due = is_wgmma(o) && o->w == w && o->group < end;
        if (is_due)
            s = pl_async_finish(o);
        o = is_due ? a->first : o->next;
    }
    return s;
}
