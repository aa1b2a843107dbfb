#include "emu/tcgen05.h"
#include "emu/race.h"

/* ---- matrices in shared memory ------------------------------------------------------------------------------------------------ */

/* What no descriptor, or not this one, may say; NULL: nothing is wrong. */
static const char *fault_of(uint64_t desc, const struct pl_tc_matrix *m)
{
    bool is_absolute = (desc >> 52 & 1) != 0;
    if ((desc >> 46 & 7) != 1)
        return "a version other than 1";
    if (m->span == 0xff)
        return "a swizzle mode that does not exist";
    if ((desc >> 49 & 7) != 0)
        return "a base offset, whose effect no document states,";
    if (is_absolute != m->is_k96)
        return m->is_k96 ? "no absolute leading dimension, which K = 96 needs,"
                         : "an absolute leading dimension, which only K = 96 has,";
    if (m->is_k96 && (m->span != 128 || m->is_base32))
        return "a swizzle other than 128 bytes of 16-byte atoms, which K = 96 needs,";
    if (m->is_base32 != (m->is_mn_major && m->es == 4))
        return m->is_base32
                   ? "the 32-byte atom, which only transposed 32-bit operands have,"
                   : "a layout other than the 32-byte atom, which transposed 32-bit operands need,";
    return NULL;
}

bool pl_tc_matrix_of(const struct pl_async_op *op, uint64_t desc, struct pl_tc_matrix *m)
{
    static const uint8_t spans[8] = {0, 128, 128, 0xff, 64, 0xff, 32, 0xff};
    m->start = (uint32_t)(desc & 0x3fff) << 4;
    m->lbo = (uint32_t)(desc >> 16 & 0x3fff) << 4;
    m->sbo = (uint32_t)(desc >> 32 & 0x3fff) << 4;
    m->span = spans[desc >> 61];
    m->is_base32 = desc >> 61 == 1;
    const char *what = fault_of(desc, m);
    if (what != NULL)
        pl_d_mma_desc(pl_async_faults(op), pl_async_where(op), what, desc);
    return what == NULL;
}

/* Shared offset of element (i, k), whose 16-byte chunk it is in. Formulas: PTX ISA, Canonical layouts. */
static uint32_t address_of(const struct pl_tc_matrix *m, uint32_t i, uint32_t k)
{
    uint32_t es = m->es, t = PL_TC_CHUNK_BYTES / es, w = m->span, offset;
    if (m->is_base32) {
        offset = m->start + i % 32 * 4 + i / 32 * m->lbo + k % 4 * 128 + k / 4 * m->sbo;
        return offset ^ (offset & 0x180) >> 2;
    }
    if (m->is_k96) { /* a step may begin in one line of 128 bytes and end in the next buffer's */
        uint32_t p = m->start % 128 + k;
        offset = i % 8 * 128 + i / 8 * m->sbo + p % 128 + (p < 128 ? m->start & ~127u : m->lbo);
        return offset ^ (offset & 0x380) >> 3;
    }
    if (!m->is_mn_major)
        offset = w == 0 ? i % 8 * 16 + i / 8 * m->sbo + k % t * es + k / t * m->lbo
                        : i % 8 * w + i / 8 * m->sbo + k * es;
    else
        offset = w == 0 ? i % t * es + i / t * m->sbo + k % 8 * 16 + k / 8 * m->lbo
                        : i % (w / es) * es + i / (w / es) * m->lbo + k % 8 * w + k / 8 * m->sbo;
    offset += m->start;
    uint32_t rows = w == 128 ? 0x380 : w == 64 ? 0x180 : w == 32 ? 0x080 : 0;
    return offset ^ (offset & rows) >> 3;
}

static uint32_t n_chunks(const struct pl_tc_chunks *c)
{
    return c->n_rows * c->n_k * c->m.es / PL_TC_CHUNK_BYTES;
}

bool pl_tc_next_chunk(const struct pl_async_op *op, struct pl_tc_chunks *c, struct pl_tc_chunk *out,
                      bool *is_fault)
{
    uint32_t t = PL_TC_CHUNK_BYTES / c->m.es;
    if (c->index == n_chunks(c))
        return false;
    if (c->m.is_mn_major) {
        uint32_t per_k = c->n_rows / t;
        out->i = c->index % per_k * t;
        out->k = c->index / per_k;
    } else {
        uint32_t per_i = c->n_k / t;
        out->i = c->index / per_i;
        out->k = c->index % per_i * t;
    }
    c->index++;
    uint32_t address = address_of(&c->m, out->i, out->k);
    uint32_t base = c->cta->shared.base_bytes;
    out->place = (struct pl_async_place){c->cta, address - base};
    if (address >= base && address - base + PL_TC_CHUNK_BYTES <= c->cta->shared.n_bytes)
        return true;
    pl_emu_fault_shared(op->w, (uint32_t)__builtin_ctz(op->lanes),
                        c->cta->rank << PL_EMU_RANK_SHIFT | address, PL_TC_CHUNK_BYTES,
                        "tcgen05 operand");
    *is_fault = true;
    return false;
}

void pl_tc_ctas_of(const struct pl_async_op *op, struct pl_emu_cta *ctas[2])
{
    struct pl_emu_cta *own = op->w->cta;
    ctas[0] = op->u.tmem.is_pair ? &own->cluster->ctas[own->rank & ~1u] : own;
    ctas[1] = op->u.tmem.is_pair ? &own->cluster->ctas[own->rank | 1u] : NULL;
}

bool pl_tc_check_chunks(struct pl_async_op *op, struct pl_tc_chunks c, struct pl_async_range *used)
{
    bool is_fault = false, is_checking = op->w->cta->cluster->async->is_checking;
    for (struct pl_tc_chunk k; pl_tc_next_chunk(op, &c, &k, &is_fault);) {
        struct pl_async_range r = {c.cta, k.place.offset_bytes,
                                   k.place.offset_bytes + PL_TC_CHUNK_BYTES - c.n_pad_bytes};
        if (pl_race_is_on(op->w) && pl_race_piece(op, &r, false) != PL_EMU_NEXT)
            return false;
        if (is_checking && pl_async_check_read(op, &r) != PL_EMU_NEXT)
            return false;
        if (used == NULL || c.cta != op->w->cta)
            continue;
        bool is_first = used->cta == NULL;
        used->cta = c.cta;
        used->first = is_first || r.first < used->first ? r.first : used->first;
        used->end = r.end > used->end ? r.end : used->end;
    }
    return !is_fault;
}

/* ---- who takes part, in what order ---------------------------------------------------------------------------------------------- */

bool pl_tc_check_pair(struct pl_async_op *op)
{
    uint32_t n_ctas = op->w->cta->cluster->n_ctas, rank = op->w->cta->rank;
    if (!op->u.tmem.is_pair || (rank | 1) < n_ctas)
        return true;
    pl_d_mma_pair(pl_async_faults(op), pl_async_where(op), rank, n_ctas);
    return false;
}

/* In the pipeline before op: all of its own thread; and, whoever issued them in the CTA, copies before a multiplication and those
 * into the same accumulator. */
static bool is_piped_before(const struct pl_async_op *o, const struct pl_async_op *op)
{
    if (o->w == op->w && o->lanes == op->lanes)
        return o->kind == &pl_tmem_mma || o->kind == &pl_tmem_cp || o->kind == &pl_tmem_shift ||
               o->kind == &pl_tmem_commit;
    return op->kind == &pl_tmem_mma && o->w->cta == op->w->cta &&
           (o->kind == &pl_tmem_cp ||
            (o->kind == &pl_tmem_mma && o->u.tmem.address == op->u.tmem.address));
}

enum pl_emu_status pl_tmem_finish_before(struct pl_async_op *op)
{
    struct pl_emu_async *a = op->w->cta->cluster->async;
    for (;;) {
        struct pl_async_op *o = a->first;
        while (o != NULL && !(o->serial < op->serial && is_piped_before(o, op)))
            o = o->next;
        if (o == NULL)
            return PL_EMU_NEXT;
        enum pl_emu_status s = pl_async_finish(o);
        if (s != PL_EMU_NEXT)
            return s;
    }
}

enum pl_emu_status pl_tc_submit(struct pl_async_op *op, bool is_good)
{
    if (is_good)
        return pl_async_submit(op);
    pl_async_drop(op);
    return PL_EMU_FAULT;
}
