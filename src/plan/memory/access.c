/* From elements to addresses and bounds. */
#include "src/plan/memory/access.h"

#include "base/debug.h"
#include "src/plan/memory/smem.h"
#include "src/plan/scalar.h"
#include "src/plan/tensor/frag.h"

#include <string.h>

/* ---- indices ---- */

static struct pl_coord coord_const(int64_t v)
{
    return (struct pl_coord){.thread = pl_opnd_imm(0), .bound = 1, .konst = v};
}

/* x = q * d + r. Exact where the constant is a multiple of d, or no carry can occur; else the sum is taken first. */
static void split(struct pl_lower *l, struct pl_coord x, uint32_t d, struct pl_coord *q,
                  struct pl_coord *r)
{
    const struct pl_opnd dd = pl_opnd_imm(d);
    const int64_t rest = x.konst % d;
    if (rest != 0 && x.bound > d - (uint64_t)rest) {
        x.thread = pl_ix_add(&l->b, PL_ST_u32, x.thread, pl_opnd_imm(x.konst));
        x.bound += (uint32_t)x.konst;
        x.konst = 0;
    }
    if (x.bound <= d) {
        *q = coord_const(x.konst / d);
        *r = (struct pl_coord){x.thread, x.bound, x.konst % d};
        return;
    }
    *q = (struct pl_coord){pl_ix_div(&l->b, PL_ST_u32, x.thread, dd), (x.bound + d - 1) / d,
                           x.konst / d};
    *r = (struct pl_coord){pl_ix_rem(&l->b, PL_ST_u32, x.thread, dd), d, 0};
}

void pl_linear_coords(struct pl_lower *l, const pl_shape *s, struct pl_coord lin,
                      struct pl_coord out[PL_MAX_RANK])
{
    for (int a = s->rank - 1; a > 0; a--)
        split(l, lin, (uint32_t)s->d[a], &lin, &out[a]);
    if (s->rank > 0)
        out[0] = lin;
}

static struct pl_opnd thread_start(struct pl_lower *l, uint32_t vec)
{
    if (l->start.vec == vec && l->start.unit_threads == l->unit_threads)
        return l->start.thread;
    const struct pl_opnd at = pl_ix_mul(&l->b, PL_ST_u32, pl_lower_rank(l), pl_opnd_imm(vec));
    if (pl_build_is_entry(&l->b, at.u.reg)) {
        l->start.vec = vec;
        l->start.unit_threads = l->unit_threads;
        l->start.thread = at;
    }
    return at;
}

static struct pl_coord chunk_start(struct pl_lower *l, const struct pl_lay *lay, uint32_t k)
{
    const uint32_t vec = lay->vec;
    return (struct pl_coord){.thread = thread_start(l, vec),
                             .bound = l->unit_threads * vec,
                             .konst = (int64_t)k * l->unit_threads * vec};
}

void pl_chunk_coords(struct pl_lower *l, const pl_shape *s, const struct pl_lay *lay, uint32_t k,
                     struct pl_coord out[PL_MAX_RANK])
{
    if (lay->frag != PL_FRAG_STRIDED)
        pl_frag_coords(l, s, lay, k, out);
    else
        pl_linear_coords(l, s, chunk_start(l, lay, k), out);
}

/* Do the elements of a ref follow each other in shared memory? */
static bool is_one_row(const struct pl_lower *l, const struct pl_ref_info *r)
{
    const struct pl_array *a = &l->fn->arrays.data[r->array];
    const struct pl_smem_place *p = &l->places[r->array];
    const int n_before = a->shape.rank - r->shape.rank;
    if (r->space != PL_SPACE_SMEM || pl_ir_ref(l->fn, r->base)->view != PL_VIEW_ROOT ||
        pl_dtype_bits(a->dtype) < 8 || p->swizzle != PL_PLAN_SWIZZLE_NONE ||
        p->panel_elems != p->n_cols)
        return false;
    for (int i = 0; i < r->shape.rank; i++)
        if (r->axis_of[i] != n_before + i || (i != 0 && r->shape.d[i] != a->shape.d[n_before + i]))
            return false;
    const bool has_gaps = p->slice_bytes != (uint32_t)p->n_rows * p->row_bytes;
    return r->shape.rank > 0 && (r->shape.rank <= 2 || !has_gaps);
}

void pl_linear_place(struct pl_lower *l, uint32_t ref, struct pl_coord lin,
                     struct pl_coord out[PL_MAX_RANK])
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, ref);
    if (!is_one_row(l, r)) {
        pl_linear_coords(l, &r->shape, lin, out);
        return;
    }
    for (int i = 0; i < r->shape.rank - 1; i++)
        out[i] = coord_const(0);
    out[r->shape.rank - 1] = lin;
}

void pl_chunk_place(struct pl_lower *l, uint32_t ref, const struct pl_lay *lay, uint32_t k,
                    struct pl_coord out[PL_MAX_RANK])
{
    if (lay->frag != PL_FRAG_STRIDED)
        pl_frag_coords(l, &pl_ir_ref(l->fn, ref)->shape, lay, k, out);
    else
        pl_linear_place(l, ref, chunk_start(l, lay, k), out);
}

static bool is_known_in_entry(const struct pl_lower *l, struct pl_opnd x)
{
    return pl_opnd_is_imm(x) || pl_build_is_entry(&l->b, x.u.reg);
}

/* ---- a sum of scaled terms: what is known in the entry first, so that the rest of a loop adds little ---- */

struct term {
    struct pl_opnd x;
    int64_t scale; /* 1 in 64 bits */
};

struct sum {
    struct term terms[2 * PL_MAX_RANK + 2];
    int n;
    struct pl_opnd last; /* added behind all terms: what differs from chunk to chunk */
    int64_t konst;
};

static void add_scaled(struct sum *s, struct pl_opnd x, int64_t scale)
{
    if (pl_opnd_is_imm(x))
        s->konst = (int64_t)((uint64_t)s->konst + (uint64_t)x.imm * (uint64_t)scale);
    else
        s->terms[s->n++] = (struct term){x, scale};
}

static void add_term(struct sum *s, struct pl_opnd x) { add_scaled(s, x, 1); }

static pl_reg finish_sum(struct pl_lower *l, struct sum *s, enum pl_stype t)
{
    struct pl_opnd r = pl_opnd_imm(0);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < s->n; i++)
            if (pl_build_is_entry(&l->b, s->terms[i].x.u.reg) == (pass == 0))
                r = pl_ix_mad(&l->b, t, s->terms[i].x, pl_opnd_imm(s->terms[i].scale), r);
    r = pl_ix_add(&l->b, t, r, s->last);
    if (s->konst != (int32_t)s->konst || s->n == 0) {
        r = pl_ix_add(&l->b, t, r, pl_opnd_imm(pl_ix_canonical(t, s->konst)));
        s->konst = 0;
    }
    return pl_build_in_reg(&l->b, t, r);
}

/* ---- what chunks share ---- */

static bool are_same_chunks(const struct pl_lower *l, const struct pl_chunks *c, uint32_t ref,
                            const struct pl_coord *at)
{
    if (c->ref != ref || c->serial != l->b.serial)
        return false;
    for (int i = 0; i < pl_ir_ref(l->fn, ref)->shape.rank; i++)
        if (memcmp(&c->threads[i], &at[i].thread, sizeof at[i].thread) != 0)
            return false;
    return true;
}

static void start_chunks(const struct pl_lower *l, struct pl_chunks *c, uint32_t ref,
                         const struct pl_coord *at)
{
    *c = (struct pl_chunks){.ref = ref, .serial = l->b.serial};
    for (int i = 0; i < pl_ir_ref(l->fn, ref)->shape.rank; i++)
        c->threads[i] = at[i].thread;
}

/* A chunk's own constant along base axis j. */
static int64_t konst_along(const struct pl_ref_info *r, int j, const struct pl_coord *at)
{
    for (int i = 0; i < r->shape.rank; i++)
        if (r->axis_of[i] == j)
            return at[i].konst;
    return 0;
}

/* ---- GMEM ---- */

/* Element `at` of a ref with a reshaped base, as an element of the reshape's parent. */
static uint32_t through_reshape(struct pl_lower *l, uint32_t ref, const struct pl_coord *at,
                                struct pl_coord out[PL_MAX_RANK])
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, ref);
    const struct pl_ref_info *base = pl_ir_ref(l->fn, r->base);
    struct pl_coord lin = coord_const(0);
    int64_t scale = pl_shape_n_elems(&base->shape);
    for (int j = 0; j < base->shape.rank; j++) {
        scale /= base->shape.d[j] > 0 ? base->shape.d[j] : 1;
        struct pl_opnd off = pl_lower_affine(l, &r->offset[j], PL_ST_s32);
        if (pl_opnd_is_imm(off)) {
            lin.konst += off.imm * scale;
        } else {
            lin.thread = pl_ix_add(&l->b, PL_ST_u32, lin.thread,
                                   pl_ix_mul(&l->b, PL_ST_u32, off, pl_opnd_imm(scale)));
            lin.bound = UINT32_MAX / 2; /* anywhere */
        }
        for (int a = 0; a < r->shape.rank; a++)
            if (r->axis_of[a] == j) {
                lin.konst += at[a].konst * scale;
                lin.thread =
                    pl_ix_add(&l->b, PL_ST_u32, lin.thread,
                              pl_ix_mul(&l->b, PL_ST_u32, at[a].thread, pl_opnd_imm(scale)));
                if (lin.bound < UINT32_MAX / 2)
                    lin.bound += (at[a].bound - 1) * (uint32_t)scale;
            }
    }
    pl_linear_coords(l, &pl_ir_ref(l->fn, base->parent)->shape, lin, out);
    return base->parent;
}

/* Where a chunk stands along axis j of its array, but for its own constant: offset of the window, its constant, place of the thread. */
struct axis_index {
    struct pl_opnd off, thread;
    int64_t konst;
};

/* Offset and place are one number where both are known in the entry: the ends of windows fit in 31 bits (PL_FACT_I32_MOST). */
static struct axis_index index_along(struct pl_lower *l, const struct pl_ref_info *r, int j,
                                     enum pl_stype t, const struct pl_coord *at)
{
    struct axis_index x = {.thread = pl_opnd_imm(0)};
    for (int i = 0; i < r->shape.rank; i++)
        if (r->axis_of[i] == j)
            x.thread = at[i].thread;
    const bool is_one =
        t == PL_ST_s32 && is_known_in_entry(l, x.thread) && pl_affine_is_entry(l, &r->offset[j]);
    x.off = pl_lower_affine_on(l, &r->offset[j], t, is_one ? x.thread : pl_opnd_imm(0));
    if (is_one)
        x.thread = pl_opnd_imm(0);
    if (t == PL_ST_s32 && pl_opnd_is_imm(x.off)) {
        x.konst = x.off.imm;
        x.off = pl_opnd_imm(0);
    }
    return x;
}

/* The bytes along one axis. What differs from chunk to chunk is added last, to what they share. */
static void add_axis(struct pl_lower *l, struct sum *s, struct axis_index x, struct pl_opnd stride,
                     enum pl_stype t, int64_t es)
{
    const struct pl_opnd stride_bytes = pl_ix_mul64(&l->b, t, stride, t, pl_opnd_imm(es));
    const bool is_imm = pl_opnd_is_imm(stride);
    const struct {
        struct pl_opnd index;
        enum pl_stype type;
    } parts[2] = {{x.off, t}, {x.thread, PL_ST_s32}};
    for (int i = 0; i < 2; i++) {
        if (pl_opnd_is(parts[i].index, 0))
            continue;
        const enum pl_stype by = is_imm ? parts[i].type : t;
        struct pl_opnd bytes =
            pl_ix_mul64(&l->b, parts[i].type, parts[i].index, by, is_imm ? stride_bytes : stride);
        add_term(s, is_imm ? bytes : pl_ix_mul(&l->b, PL_ST_s64, bytes, pl_opnd_imm(es)));
    }
    if (x.konst == 0)
        return;
    if (is_imm)
        add_term(s, pl_opnd_imm(x.konst * stride_bytes.imm));
    else
        s->last = pl_ix_add(&l->b, PL_ST_s64, s->last,
                            pl_ix_mul(&l->b, PL_ST_s64, stride_bytes, pl_opnd_imm(x.konst)));
}

static struct pl_opnd global_base(struct pl_lower *l, const struct pl_array *a)
{
    const pl_reg generic = pl_lower_param(
        l,
        (struct pl_plan_param){.kind = PL_PLAN_ADDRESS, .arg = (uint16_t)a->param, .n_bytes = 8});
    return pl_opnd_reg(
        pl_build_op1(&l->b, PL_STEP_global_address, PL_ST_NONE, pl_opnd_reg(generic)));
}

static struct pl_opnd wide_addr(struct pl_lower *l, uint32_t ref, const struct pl_coord *at)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, ref);
    const struct pl_array *a = &l->fn->arrays.data[r->array];
    const enum pl_stype t = pl_lower_index_type(l, a);
    struct sum s = {.last = pl_opnd_imm(0)};
    add_term(&s, global_base(l, a));
    for (int j = 0; j < a->shape.rank; j++) {
        struct axis_index x = index_along(l, r, j, t, at);
        x.konst += konst_along(r, j, at);
        add_axis(l, &s, x, pl_lower_stride(l, a, j), t, pl_elem_bytes(a->dtype));
    }
    pl_reg base = finish_sum(l, &s, PL_ST_s64);
    return pl_opnd_addr(base, s.konst);
}

/*
 * No index is below 0 and the offset of each element inside the tensor fits in 32 bits (PL_FACT_I32): so does that of the chunks' begin,
 * which is a chunk's without its constants: it is inside where any of the chunks is.
 */
static bool is_narrow(const struct pl_lower *l, const struct pl_ref_info *r,
                      const struct pl_array *a)
{
    if (pl_lower_index_type(l, a) != PL_ST_s32)
        return false;
    for (int j = 0; j < a->shape.rank; j++)
        if (!pl_affine_is_nonneg(l, &r->offset[j]))
            return false;
    return true;
}

/* Where chunks begin: the offset in elements, of what is known in the entry and of the rest, as bytes on the tensor's address. */
static void find_begin(struct pl_lower *l, const struct pl_ref_info *r, const struct pl_coord *at,
                       struct pl_chunk_addrs *c)
{
    const struct pl_array *a = &l->fn->arrays.data[r->array];
    struct pl_opnd n[2] = {pl_opnd_imm(0), pl_opnd_imm(0)};
    for (int j = a->shape.rank - 1; j >= 0; j--) {
        const struct axis_index x = index_along(l, r, j, PL_ST_s32, at);
        const struct pl_opnd parts[2] = {x.off, x.thread};
        c->of.konsts[j] = x.konst;
        c->strides[j] = pl_lower_stride(l, a, j);
        for (int i = 0; i < 2; i++) {
            const bool is_rest = !is_known_in_entry(l, parts[i]);
            n[is_rest] = pl_ix_mad(&l->b, PL_ST_s32, parts[i], c->strides[j], n[is_rest]);
        }
    }
    c->begin = global_base(l, a);
    for (int i = 0; i < 2; i++)
        c->begin = pl_ix_mad64(&l->b, n[i], pl_opnd_imm(pl_elem_bytes(a->dtype)), c->begin);
}

static struct pl_opnd narrow_addr(struct pl_lower *l, uint32_t ref, const struct pl_coord *at)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, ref);
    const struct pl_array *a = &l->fn->arrays.data[r->array];
    const int64_t es = pl_elem_bytes(a->dtype);
    struct pl_chunk_addrs *c = &l->addrs;
    if (!are_same_chunks(l, &c->of, ref, at)) {
        start_chunks(l, &c->of, ref, at);
        find_begin(l, r, at, c);
    }
    struct pl_opnd addr = c->begin;
    int64_t konst = 0;
    for (int j = 0; j < a->shape.rank; j++) {
        const int64_t n_bytes = (c->of.konsts[j] + konst_along(r, j, at)) * es;
        if (pl_opnd_is_imm(c->strides[j]))
            konst += n_bytes * c->strides[j].imm;
        else
            addr = pl_ix_mad64(&l->b, c->strides[j], pl_opnd_imm(n_bytes), addr);
    }
    if (konst != (int32_t)konst) {
        addr = pl_ix_add(&l->b, PL_ST_s64, addr, pl_opnd_imm(konst));
        konst = 0;
    }
    return pl_opnd_addr(addr.u.reg, konst);
}

struct pl_opnd pl_global_addr(struct pl_lower *l, uint32_t ref, const struct pl_coord *at)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, ref);
    if (pl_ir_ref(l->fn, r->base)->view == PL_VIEW_RESHAPE) {
        struct pl_coord inner[PL_MAX_RANK];
        uint32_t parent = through_reshape(l, ref, at, inner);
        return pl_global_addr(l, parent, inner);
    }
    return l->addrs.of.ref == ref || is_narrow(l, r, &l->fn->arrays.data[r->array])
               ? narrow_addr(l, ref, at)
               : wide_addr(l, ref, at);
}

/* ---- SMEM ---- */

pl_reg pl_shared_base(struct pl_lower *l)
{
    return pl_build_op1(&l->b, PL_STEP_shared_base, PL_ST_NONE, pl_opnd_imm(0));
}

pl_reg pl_peer_address(struct pl_lower *l, uint32_t ref, pl_reg shared)
{
    const uint32_t peer = pl_ir_ref(l->fn, ref)->peer;
    return pl_build_op2(
        &l->b, PL_STEP_peer_address, PL_ST_NONE, pl_opnd_reg(shared),
        pl_ix_convert(&l->b, PL_ST_u32, pl_lower_int_type(l, peer), pl_lower_scalar(l, peer)));
}

/* Index j of the base: offset plus coordinate. */
static struct pl_coord base_index(struct pl_lower *l, const struct pl_ref_info *r, int j,
                                  const struct pl_coord *at)
{
    struct pl_coord x = coord_const(0);
    for (int i = 0; i < r->shape.rank; i++)
        if (r->axis_of[i] == j)
            x = at[i];
    struct pl_opnd off = pl_lower_affine(l, &r->offset[j], PL_ST_s32);
    if (pl_opnd_is_imm(off)) {
        x.konst += off.imm;
    } else {
        x.thread = pl_ix_add(&l->b, PL_ST_u32, x.thread, off);
        x.bound = UINT32_MAX / 2;
    }
    return x;
}

static void add_coord(struct sum *s, struct pl_coord x, uint32_t scale)
{
    s->konst += x.konst * scale;
    add_scaled(s, x.thread, scale);
}

/* Columns of a swizzled row: byte offset in the row, with bits 4.. exchanged by the row number. */
static void add_swizzled(struct pl_lower *l, struct sum *s, const struct pl_smem_place *p,
                         struct pl_coord row, struct pl_coord col, uint32_t es)
{
    const uint32_t span = pl_swizzle_span(p->swizzle);
    const uint32_t atom_log2 = p->swizzle == PL_PLAN_SWIZZLE_128_ATOM_32 ? 5 : 4;
    const uint32_t shift = span == 128 ? 0 : span == 64 ? 1 : 2;
    struct pl_opnd r = row.thread;
    if (row.konst % 8 != 0)
        r = pl_ix_add(&l->b, PL_ST_u32, r, pl_opnd_imm(row.konst % 8));
    struct pl_opnd x =
        pl_ix_and(&l->b, PL_ST_u32, pl_ix_shr(&l->b, PL_ST_u32, r, shift), (span >> atom_log2) - 1);
    struct pl_opnd c =
        pl_ix_add(&l->b, PL_ST_u32, pl_ix_mul(&l->b, PL_ST_u32, col.thread, pl_opnd_imm(es)),
                  pl_opnd_imm(col.konst * es));
    add_term(s, pl_ix_xor(&l->b, PL_ST_u32, c, pl_ix_shl(&l->b, PL_ST_u32, x, atom_log2)));
}

/* Bytes from one element to the next along the last three axes of an array and before, where they do not depend on the place. */
static bool find_strides(const struct pl_array *a, const struct pl_smem_place *p,
                         int64_t strides_bytes[PL_MAX_RANK])
{
    const int rank = a->shape.rank;
    const bool has_panels = p->panel_elems != p->n_cols && p->n_rows > 1;
    int64_t n_bytes = p->slice_bytes;
    if (p->swizzle != PL_PLAN_SWIZZLE_NONE || has_panels || a->dtype == PL_E2M1)
        return false;
    for (int j = rank - 3; j >= 0; j--) {
        strides_bytes[j] = n_bytes;
        n_bytes *= a->shape.d[j];
    }
    if (rank >= 2)
        strides_bytes[rank - 2] = p->row_bytes;
    if (rank >= 1)
        strides_bytes[rank - 1] = pl_elem_bytes(a->dtype);
    return true;
}

/* The bytes that a chunk's own constants make. */
static int64_t konst_bytes(const struct pl_chunk_shared *c, const struct pl_ref_info *r,
                           const struct pl_coord *at)
{
    int64_t n = 0;
    for (int i = 0; i < r->shape.rank; i++)
        n += at[i].konst * c->strides_bytes[r->axis_of[i]];
    return n;
}

static struct pl_opnd find_shared_addr(struct pl_lower *l, uint32_t ref, const struct pl_coord *at)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, ref);
    const struct pl_array *a = &l->fn->arrays.data[r->array];
    const struct pl_smem_place *p = &l->places[r->array];
    const uint32_t es = pl_elem_bytes(a->dtype);
    const int rank = a->shape.rank;
    struct sum s = {.last = pl_opnd_imm(0), .konst = p->offset_bytes};
    uint32_t slices = p->slice_bytes;
    for (int j = rank - 3; j >= 0; j--) {
        add_coord(&s, base_index(l, r, j, at), slices);
        slices *= (uint32_t)a->shape.d[j];
    }
    struct pl_coord row = rank >= 2 ? base_index(l, r, rank - 2, at) : coord_const(0);
    struct pl_coord col = rank >= 1 ? base_index(l, r, rank - 1, at) : coord_const(0);
    add_coord(&s, row, p->row_bytes);
    if (p->panel_elems != p->n_cols && p->n_rows > 1) {
        struct pl_coord panel;
        split(l, col, p->panel_elems, &panel, &col);
        add_coord(&s, panel, p->panel_bytes);
    }
    if (a->dtype == PL_E2M1) { /* two a byte: whole bytes only are asked for */
        col.thread = pl_ix_shr(&l->b, PL_ST_u32, col.thread, 1);
        col.konst /= 2;
    }
    if (p->swizzle != PL_PLAN_SWIZZLE_NONE)
        add_swizzled(l, &s, p, row, col, es);
    else
        add_coord(&s, col, es);
    if (s.n == 0 && r->peer == 0)
        return pl_opnd_addr((pl_reg){0}, s.konst);
    /* The windows of the CTAs are laid out alike: the base is mapped, once, and the rest added. */
    pl_reg start = pl_shared_base(l);
    s.terms[s.n++] = s.terms[0];
    s.terms[0] =
        (struct term){pl_opnd_reg(r->peer != 0 ? pl_peer_address(l, ref, start) : start), 1};
    return pl_opnd_addr(finish_sum(l, &s, PL_ST_u32), s.konst);
}

struct pl_opnd pl_shared_addr(struct pl_lower *l, uint32_t ref, const struct pl_coord *at)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, ref);
    struct pl_chunk_shared *c = &l->shared;
    if (pl_ir_ref(l->fn, r->base)->view == PL_VIEW_RESHAPE) {
        struct pl_coord inner[PL_MAX_RANK];
        uint32_t parent = through_reshape(l, ref, at, inner);
        return pl_shared_addr(l, parent, inner);
    }
    if (are_same_chunks(l, &c->of, ref, at))
        return pl_opnd_addr(c->begin, c->offset_bytes + konst_bytes(c, r, at));
    const struct pl_opnd addr = find_shared_addr(l, ref, at);
    if (addr.u.reg.id != 0 &&
        find_strides(&l->fn->arrays.data[r->array], &l->places[r->array], c->strides_bytes)) {
        start_chunks(l, &c->of, ref, at);
        c->begin = addr.u.reg;
        c->offset_bytes = addr.imm - konst_bytes(c, r, at);
    }
    return addr;
}

/* ---- bounds ---- */

static int64_t view_extent(const struct pl_ref_info *r, int j)
{
    for (int i = 0; i < r->shape.rank; i++)
        if (r->axis_of[i] == j)
            return r->shape.d[i];
    return 1;
}

static bool axis_is_safe(const struct pl_ref_info *r, const struct pl_array *a, int j)
{
    int64_t off;
    if (r->space !=
        PL_SPACE_GMEM) /* views of the body's own arrays are inside; only a clip bounds them */
        return !r->has_clip[j];
    return a->shape.d[j] >= 0 && !r->has_clip[j] && pl_affine_is_const(&r->offset[j], &off) &&
           off >= 0 && off + view_extent(r, j) <= a->shape.d[j];
}

bool pl_bounds_needed(const struct pl_lower *l, uint32_t ref)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, ref);
    const struct pl_array *a = &l->fn->arrays.data[r->array];
    const struct pl_ref_info *base = pl_ir_ref(l->fn, r->base);
    if (r->space == PL_SPACE_GMEM && base->view == PL_VIEW_RESHAPE)
        return false;
    for (int j = 0; j < base->shape.rank; j++)
        if (!axis_is_safe(r, a, j))
            return true;
    return false;
}

static enum pl_stype bounds_type(const struct pl_lower *l, const struct pl_ref_info *r,
                                 const struct pl_array *a)
{
    return r->space == PL_SPACE_GMEM ? pl_lower_index_type(l, a) : PL_ST_s32;
}

/* Where the tensor or the clip ends along base axis j, in the index type; is_own: by the tensor's own extent. */
static struct pl_opnd end_of(struct pl_lower *l, const struct pl_ref_info *r,
                             const struct pl_array *a, int j, bool is_own)
{
    const enum pl_stype t = bounds_type(l, r, a);
    struct pl_opnd end = pl_opnd_imm(0);
    if (r->space == PL_SPACE_GMEM)
        end = is_own ? pl_lower_own_extent(l, a, j) : pl_lower_extent(l, a, j);
    if (r->has_clip[j]) {
        struct pl_opnd clip = pl_lower_affine(l, &r->clip[j], t);
        end = r->space == PL_SPACE_GMEM ? pl_ix_min(&l->b, t, end, clip) : clip;
    }
    return end;
}

/* Elements from the window's start to there. */
static struct pl_opnd room(struct pl_lower *l, const struct pl_ref_info *r,
                           const struct pl_array *a, int j)
{
    const enum pl_stype t = bounds_type(l, r, a);
    return pl_ix_sub(&l->b, t, end_of(l, r, a, j, false), pl_lower_affine(l, &r->offset[j], t));
}

static bool may_begin_below(const struct pl_lower *l, const struct pl_ref_info *r, int j)
{
    return r->space == PL_SPACE_GMEM && !pl_affine_is_nonneg(l, &r->offset[j]);
}

static pl_reg and_preds(struct pl_lower *l, pl_reg x, pl_reg y)
{
    return x.id == 0 ? y
                     : pl_build_op2(&l->b, PL_STEP_and, PL_ST_pred, pl_opnd_reg(x), pl_opnd_reg(y));
}

pl_reg pl_bounds_fit(struct pl_lower *l, uint32_t ref)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, ref);
    const struct pl_array *a = &l->fn->arrays.data[r->array];
    const enum pl_stype t = bounds_type(l, r, a);
    const int n_axes = pl_ir_ref(l->fn, r->base)->shape.rank;
    pl_reg fit = {0};
    for (int j = 0; j < n_axes; j++) {
        if (axis_is_safe(r, a, j))
            continue;
        struct pl_opnd n = pl_opnd_imm(view_extent(r, j));
        struct pl_opnd have = pl_opnd_reg(pl_build_in_reg(&l->b, t, room(l, r, a, j)));
        fit = pl_build_compare_and(&l->b, PL_SA_CMP_ge, t, have, n, fit);
        if (may_begin_below(l, r, j)) {
            struct pl_opnd off =
                pl_opnd_reg(pl_build_in_reg(&l->b, t, pl_lower_affine(l, &r->offset[j], t)));
            fit = pl_build_compare_and(&l->b, PL_SA_CMP_ge, t, off, pl_opnd_imm(0), fit);
        }
    }
    return fit;
}

/* A window index count as s32: clamped where the index type is wider; only its order against small numbers matters. */
static struct pl_opnd as_s32(struct pl_lower *l, enum pl_stype t, struct pl_opnd v)
{
    if (t == PL_ST_s32)
        return v;
    v = pl_ix_min(&l->b, PL_ST_s64, v, pl_opnd_imm(1 << 30));
    v = pl_ix_max(&l->b, PL_ST_s64, v, pl_opnd_imm(-(1 << 30)));
    return pl_ix_convert(&l->b, PL_ST_s32, PL_ST_s64, v);
}

static int32_t first_like(const struct pl_fn *fn, int32_t param)
{
    while (fn->request.args[param].like != 0)
        param = fn->request.args[param].like - 1;
    return param;
}

/* The last axis of an array ends at a multiple of n elements, as it says itself or another that has its extents. */
static bool is_last_whole(const struct pl_lower *l, const struct pl_array *a, uint32_t n)
{
    const struct pl_fn *fn = l->fn;
    for (int32_t i = 0; a->param >= 0 && i < (int32_t)fn->request.n_args; i++) {
        const struct pl_arg_facts *f = &fn->request.args[i];
        if (f->is_present && !f->is_scalar && (f->facts & PL_FACT_WHOLE16) != 0 &&
            first_like(fn, i) == first_like(fn, a->param) &&
            128 % (n * (uint32_t)pl_dtype_bits(f->dtype)) == 0)
            return true;
    }
    return false;
}

/* Base axis j of a bounded ref ends, and the window begins, at multiples of n elements. */
static bool is_cut_at_multiples(const struct pl_lower *l, const struct pl_ref_info *r,
                                const struct pl_array *a, int j, uint32_t n)
{
    bool is_end_fine = true;
    if (r->space == PL_SPACE_GMEM)
        is_end_fine = a->shape.d[j] >= 0 ? a->shape.d[j] % n == 0
                                         : j == a->shape.rank - 1 && is_last_whole(l, a, n);
    return is_end_fine && pl_affine_multiple(l->fn, &r->offset[j]) % n == 0 &&
           (!r->has_clip[j] || pl_affine_multiple(l->fn, &r->clip[j]) % n == 0);
}

bool pl_bounds_whole(const struct pl_lower *l, uint32_t ref, int run, uint32_t vec)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, ref);
    const struct pl_array *a = &l->fn->arrays.data[r->array];
    return r->shape.rank == 0 || vec == 1 || axis_is_safe(r, a, r->axis_of[run]) ||
           is_cut_at_multiples(l, r, a, r->axis_of[run], vec);
}

struct pl_inside pl_bounds_chunk(struct pl_lower *l, uint32_t ref, const struct pl_coord *at)
{
    return pl_bounds_run(l, ref, at, pl_ir_ref(l->fn, ref)->shape.rank - 1, true);
}

static pl_reg compare_and(struct pl_lower *l, enum pl_sattr cmp, struct pl_opnd x, int64_t konst,
                          pl_reg p)
{
    return pl_build_compare_and(&l->b, cmp, PL_ST_s32,
                                pl_opnd_reg(pl_build_in_reg(&l->b, PL_ST_s32, x)),
                                pl_opnd_imm(konst), p);
}

static void find_bounds(struct pl_lower *l, const struct pl_ref_info *r, const struct pl_coord *at,
                        bool is_own, struct pl_chunk_bounds *c)
{
    const struct pl_array *a = &l->fn->arrays.data[r->array];
    const enum pl_stype t = bounds_type(l, r, a);
    const int n_axes = pl_ir_ref(l->fn, r->base)->shape.rank;
    for (int j = 0; j < n_axes; j++) {
        c->is_safe[j] = axis_is_safe(r, a, j);
        if (c->is_safe[j])
            continue;
        const struct axis_index x = index_along(l, r, j, t, at);
        c->of.konsts[j] = x.konst;
        c->left[j] = pl_ix_sub(&l->b, PL_ST_s32,
                               as_s32(l, t, pl_ix_sub(&l->b, t, end_of(l, r, a, j, is_own), x.off)),
                               x.thread);
        c->has_lo[j] = may_begin_below(l, r, j);
        c->skip[j] = pl_opnd_imm(0);
        if (c->has_lo[j])
            c->skip[j] =
                pl_ix_sub(&l->b, PL_ST_s32,
                          as_s32(l, t, pl_ix_sub(&l->b, t, pl_opnd_imm(0), x.off)), x.thread);
    }
}

/* What is known in the entry is asked first, so that a loop asks little; the first axes last, along which chunks differ. */
struct pl_inside pl_bounds_run(struct pl_lower *l, uint32_t ref, const struct pl_coord *at, int run,
                               bool is_own)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, ref);
    const int n_axes = pl_ir_ref(l->fn, r->base)->shape.rank;
    const int run_axis = run >= 0 && r->shape.rank > 0 ? r->axis_of[run] : -1;
    struct pl_chunk_bounds *c = &l->bounds;
    struct pl_inside in = {.ok = {0}};
    if (c->is_own != is_own || !are_same_chunks(l, &c->of, ref, at)) {
        start_chunks(l, &c->of, ref, at);
        c->is_own = is_own;
        find_bounds(l, r, at, is_own, c);
    }
    if (run_axis >= 0 && !c->is_safe[run_axis])
        in = (struct pl_inside){.hi = c->left[run_axis],
                                .lo = c->skip[run_axis],
                                .konst = c->of.konsts[run_axis] + konst_along(r, run_axis, at),
                                .has_hi = true,
                                .has_lo = c->has_lo[run_axis]};
    for (int pass = 0; pass < 2; pass++)
        for (int j = n_axes - 1; j >= 0; j--) {
            const int64_t konst = c->of.konsts[j] + konst_along(r, j, at);
            if (c->is_safe[j] || j == run_axis || is_known_in_entry(l, c->left[j]) != (pass == 0))
                continue;
            in.ok = compare_and(l, PL_SA_CMP_gt, c->left[j], konst, in.ok);
            if (c->has_lo[j])
                in.ok = compare_and(l, PL_SA_CMP_le, c->skip[j], konst, in.ok);
        }
    return in;
}

void pl_inside_also(struct pl_lower *l, struct pl_inside *in, pl_reg p)
{
    if (p.id != 0)
        in->ok = and_preds(l, in->ok, p);
}

/* Many elements of a chunk share one selection of the bound; a single one is cheaper with two predicates. */
pl_reg pl_inside_guard(struct pl_lower *l, const struct pl_inside *in, uint32_t v, bool is_one)
{
    const int64_t at = in->konst + v;
    struct pl_opnd hi = in->hi;
    pl_reg guard = in->ok;
    if (in->has_hi && !is_one && in->ok.id != 0) {
        hi = pl_opnd_reg(pl_build_op3(&l->b, PL_STEP_select, PL_ST_b32, hi, pl_opnd_imm(INT32_MIN),
                                      pl_opnd_reg(in->ok)));
        guard = (pl_reg){0};
    }
    if (in->has_hi)
        guard = compare_and(l, PL_SA_CMP_gt, hi, at, guard);
    if (in->has_lo)
        guard = compare_and(l, PL_SA_CMP_le, in->lo, at, guard);
    return guard;
}
