/*
 * Reductions. Halves are summed in f32 and rounded once at the end. The order is fixed by the layout alone, so equal inputs give
 * equal bits: a balanced tree in each thread, a butterfly over the lanes, then warps, warpgroups and CTAs in rank order.
 *
 * Four ways: everything to one scalar; an axis of a fragment, in each thread and then by butterflies among the lanes that hold the rest
 * of it, whose result stays in all of them; rows of strided chunks that lie in a power-of-two group of neighbouring lanes, by butterflies
 * inside the group; and the general case through scratch, where the thread of a result element walks the axis.
 */
#include "src/plan/reduce.h"

#include "base/debug.h"
#include "src/plan/array.h"
#include "src/plan/cast.h"
#include "src/plan/elem.h"
#include "src/plan/layout.h"
#include "src/plan/memory/access.h"
#include "src/plan/scalar.h"
#include "src/plan/sync.h"
#include "src/plan/tensor/frag.h"

#include <math.h>

enum { WALK_UNROLL = 16, WARP_LANES = 32, ALL_LANES = WARP_LANES - 1 };

struct red {
    struct pl_lower *l;
    pl_op2 op;
    pl_dtype acc; /* type of the accumulation */
    enum pl_stype bits;
};

static bool is_half(pl_dtype t) { return t == PL_F16 || t == PL_BF16; }

static struct red start(struct pl_lower *l, const struct pl_op *op, pl_dtype t)
{
    struct red r = {.l = l, .op = (pl_op2)op->sub, .acc = is_half(t) ? PL_F32 : t};
    r.bits = pl_stype_bits(pl_rep_of(r.acc, 1));
    return r;
}

static struct pl_opnd combine(const struct red *r, struct pl_opnd x, struct pl_opnd y)
{
    return pl_elem_binary(r->l, r->op, r->acc, pl_rep_of(r->acc, 1), x, y);
}

/* x; the identity in threads that have none. */
static struct pl_opnd where(const struct red *r, struct pl_opnd x, pl_reg has_it)
{
    struct pl_opnd none = pl_elem_identity(r->op, r->acc);
    if (r->acc == PL_PRED) {
        struct pl_opnd p = pl_opnd_reg(has_it);
        if (none.imm != 0) /* AND: x | !has_it */
            return pl_elem_binary(r->l, PL_OR, PL_PRED, PL_REP_PRED, x,
                                  pl_opnd_reg(pl_build_op1(&r->l->b, PL_STEP_not, PL_ST_pred, p)));
        return pl_elem_binary(r->l, PL_AND, PL_PRED, PL_REP_PRED, x, p);
    }
    return pl_opnd_reg(
        pl_build_op3(&r->l->b, PL_STEP_select, r->bits, x, none, pl_opnd_reg(has_it)));
}

/* Element e of v in the accumulation type. */
static struct pl_opnd element(const struct red *r, const struct pl_lval *v, uint32_t e,
                              pl_reg has_it)
{
    struct pl_opnd x = pl_elem_cast(r->l, v->dtype, r->acc, pl_lval_elem(r->l, v, e));
    return has_it.id == 0 ? x : where(r, x, has_it);
}

static struct pl_opnd tree(const struct red *r, struct pl_opnd *x, uint32_t n)
{
    for (; n > 1; n = (n + 1) / 2)
        for (uint32_t i = 0; i < n / 2 + n % 2; i++)
            x[i] = 2 * i + 1 < n ? combine(r, x[2 * i], x[2 * i + 1]) : x[2 * i];
    return x[0];
}

/* ---- lanes ---- */

static struct pl_opnd shuffle32(struct pl_lower *l, struct pl_opnd x, uint32_t lane_xor)
{
    return pl_opnd_reg(pl_build_value(
        &l->b,
        &(struct pl_sdesc){.op = PL_STEP_shuffle,
                           .attrs = {PL_SA_LANE_bfly},
                           .n = 4,
                           .opnds = {x, pl_opnd_imm(lane_xor), pl_opnd_imm(31), pl_opnd_imm(-1)}}));
}

static struct pl_opnd shuffle(const struct red *r, struct pl_opnd x, uint32_t lane_xor)
{
    struct pl_lower *l = r->l;
    x = pl_opnd_reg(pl_build_in_reg(&l->b, r->bits, x));
    if (r->bits == PL_ST_b32)
        return shuffle32(l, x, lane_xor);
    struct pl_opnd h[2] = {pl_opnd_reg(pl_build_reg(&l->b, PL_RC_B32)),
                           pl_opnd_reg(pl_build_reg(&l->b, PL_RC_B32))};
    pl_build_step(&l->b, &(struct pl_sdesc){.op = PL_STEP_unpack,
                                            .type = PL_ST_b64,
                                            .from = PL_ST_b32,
                                            .n = 2,
                                            .opnds = {pl_build_list(&l->b, h, 2), x}});
    h[0] = shuffle32(l, h[0], lane_xor);
    h[1] = shuffle32(l, h[1], lane_xor);
    return pl_opnd_reg(
        pl_build_value(&l->b, &(struct pl_sdesc){.op = PL_STEP_pack,
                                                 .type = PL_ST_b64,
                                                 .from = PL_ST_b32,
                                                 .n = 1,
                                                 .opnds = {pl_build_list(&l->b, h, 2)}}));
}

/* Over the lanes that differ in these bits of their number only; every lane gets its group's result. */
static struct pl_opnd lanes(const struct red *r, struct pl_opnd x, uint32_t bits)
{
    struct pl_lower *l = r->l;
    if (r->acc == PL_PRED) { /* as an integer of 0 or 1 */
        struct red i = {.l = l, .op = r->op, .acc = PL_U32, .bits = PL_ST_b32};
        x = lanes(&i, pl_elem_cast(l, PL_PRED, PL_U32, x), bits);
        return pl_elem_cast(l, PL_U32, PL_PRED, x);
    }
    static const uint8_t whole[PL_OP2_COUNT] = {
        [PL_ADD] = PL_SA_RED_add, [PL_MIN] = PL_SA_RED_min, [PL_MAX] = PL_SA_RED_max,
        [PL_AND] = PL_SA_RED_and, [PL_OR] = PL_SA_RED_or,   [PL_XOR] = PL_SA_RED_xor};
    const bool is_logic = r->op == PL_AND || r->op == PL_OR || r->op == PL_XOR;
    if (bits == ALL_LANES && r->bits == PL_ST_b32 && r->acc != PL_F32 && r->acc != PL_TF32 &&
        whole[r->op] != 0) {
        const enum pl_stype st = is_logic ? PL_ST_b32 : pl_stype_of(r->acc);
        pl_reg y = pl_build_value(
            &l->b, &(struct pl_sdesc){
                       .op = PL_STEP_warp_reduce,
                       .type = (uint8_t)st,
                       .attrs = {whole[r->op]},
                       .n = 2,
                       .opnds = {pl_opnd_reg(pl_build_in_reg(&l->b, st, x)), pl_opnd_imm(-1)}});
        return pl_elem_canonical(l, r->acc, pl_opnd_reg(y));
    }
    for (uint32_t bit = WARP_LANES / 2; bit > 0; bit /= 2)
        if ((bits & bit) != 0)
            x = combine(r, x, shuffle(r, x, bit));
    return x;
}

/* ---- everything to one scalar ---- */

static struct pl_opnd thread_total(const struct red *r, const struct pl_lval *v, int64_t n_elems)
{
    struct pl_lower *l = r->l;
    const uint32_t n = v->lay.n_chunks * v->lay.vec;
    struct pl_opnd *x = pl_arena_array(l->arena, n, sizeof *x);
    if (x == NULL)
        return pl_opnd_imm(0);
    for (uint32_t e = 0; e < n; e++)
        x[e] = element(r, v, e, pl_lay_guard(l, &v->lay, n_elems, e / v->lay.vec));
    return tree(r, x, n);
}

static void set_guard(struct pl_lower *l, pl_reg p)
{
    l->b.guard = p;
    l->b.guard_is_negated = false;
}

/* n values of scratch elements, `stride` elements apart, in order. */
static struct pl_opnd in_order(const struct red *r, struct pl_opnd addr, uint32_t n, int64_t stride)
{
    struct pl_opnd x = pl_scratch_load(r->l, r->acc, addr);
    for (uint32_t i = 1; i < n; i++) {
        addr.imm += stride * pl_scratch_elem_bytes(r->acc);
        x = combine(r, x, pl_scratch_load(r->l, r->acc, addr));
    }
    return x;
}

/* One value a warp to one value for all warps of the unit, or of the CTA. */
static struct pl_opnd across_warps(const struct red *r, struct pl_opnd x, bool is_cta)
{
    struct pl_lower *l = r->l;
    const uint32_t es = pl_scratch_elem_bytes(r->acc);
    const uint32_t n_warps = (is_cta ? l->n_threads : l->unit_threads) / 32;
    if (n_warps == 1)
        return x;
    struct pl_opnd tid = pl_opnd_reg(pl_lower_sreg(l, PL_SR_tid_x));
    struct pl_opnd warp = pl_ix_shr(&l->b, PL_ST_u32, is_cta ? tid : pl_lower_rank(l), 5);
    pl_reg is_first = pl_build_compare(&l->b, PL_SA_CMP_eq, PL_ST_u32,
                                       pl_ix_and(&l->b, PL_ST_u32, tid, 31), pl_opnd_imm(0));
    struct pl_opnd to, from;
    if (is_cta) {
        const int64_t area = l->scratch_offset + (int64_t)l->scratch_bytes * (l->n_threads / 128);
        to = pl_ix_add(&l->b, PL_ST_u32, pl_ix_mul(&l->b, PL_ST_u32, warp, pl_opnd_imm(es)),
                       pl_opnd_reg(pl_shared_base(l)));
        to = pl_opnd_addr(to.u.reg, area);
        from = pl_opnd_addr((pl_reg){0}, area);
        if (l->cta_scratch_is_read)
            pl_cta_barrier(l);
    } else {
        to = pl_scratch_addr(l, warp, es);
        from = pl_scratch_addr(l, pl_opnd_imm(0), es);
        pl_scratch_begin(l);
    }
    x = pl_opnd_is_imm(x) && r->acc != PL_PRED ? pl_opnd_reg(pl_build_in_reg(&l->b, r->bits, x))
                                               : x;
    set_guard(l, is_first);
    pl_scratch_store(l, r->acc, to, x);
    set_guard(l, (pl_reg){0});
    if (is_cta) {
        pl_cta_barrier(l);
        l->cta_scratch_is_read = true;
    } else {
        pl_scratch_publish(l);
    }
    return in_order(r, from, n_warps, 1);
}

/* Every CTA writes its value into every CTA's slot for it; after the cluster's barrier each reads its own slots in order. */
static struct pl_opnd across_ctas(const struct red *r, struct pl_opnd x)
{
    struct pl_lower *l = r->l;
    if (l->n_ctas == 1)
        return x;
    const uint32_t es = pl_scratch_elem_bytes(r->acc);
    const int64_t area =
        l->scratch_offset + (int64_t)l->scratch_bytes * (l->n_threads / 128) + l->cta_scratch_bytes;
    struct pl_opnd rank = pl_opnd_reg(pl_lower_sreg(l, PL_SR_cluster_rank));
    struct pl_opnd slot =
        pl_ix_add(&l->b, PL_ST_u32, pl_ix_mul(&l->b, PL_ST_u32, rank, pl_opnd_imm(es)),
                  pl_opnd_reg(pl_shared_base(l)));
    slot = pl_ix_add(&l->b, PL_ST_u32, slot, pl_opnd_imm(area));
    struct pl_opnd tid = pl_opnd_reg(pl_lower_sreg(l, PL_SR_tid_x));
    pl_cluster_barrier_steps(l); /* the slots' earlier readers are done */
    /* Thread i writes to CTA i. */
    pl_reg to = pl_build_op2(&l->b, PL_STEP_peer_address, PL_ST_NONE, slot,
                             pl_ix_min(&l->b, PL_ST_u32, tid, pl_opnd_imm(l->n_ctas - 1)));
    pl_reg is_sender =
        pl_build_compare(&l->b, PL_SA_CMP_lt, PL_ST_u32, tid, pl_opnd_imm(l->n_ctas));
    struct pl_opnd word = r->acc == PL_PRED ? pl_elem_cast(l, PL_PRED, PL_U32, x) : x;
    struct pl_opnd elem =
        pl_opnd_reg(pl_build_in_reg(&l->b, r->acc == PL_PRED ? PL_ST_b32 : r->bits, word));
    set_guard(l, is_sender);
    pl_build_step(
        &l->b, &(struct pl_sdesc){.op = PL_STEP_store,
                                  .type = es == 8 ? PL_ST_b64 : PL_ST_b32,
                                  .attrs = {PL_SA_SPACE_peer},
                                  .n = 2,
                                  .opnds = {pl_opnd_addr(to, 0), pl_build_list(&l->b, &elem, 1)}});
    set_guard(l, (pl_reg){0});
    pl_cluster_barrier_steps(l);
    return in_order(r, pl_opnd_addr((pl_reg){0}, area), l->n_ctas, 1);
}

static void reduce_all(struct pl_lower *l, uint32_t id, const struct pl_op *op,
                       const struct pl_lval *v, int64_t n_elems)
{
    const struct red r = start(l, op, v->dtype);
    struct pl_opnd x = thread_total(&r, v, n_elems);
    const pl_reg owner = pl_lay_owner(l, &v->lay);
    if (owner.id != 0)
        x = where(&r, x, owner);
    x = lanes(&r, x, ALL_LANES);
    if (op->scope != PL_SCOPE_WARP)
        x = across_warps(&r, x, op->scope == PL_SCOPE_CTA || op->scope == PL_SCOPE_CLUSTER);
    if (op->scope == PL_SCOPE_CLUSTER)
        x = across_ctas(&r, x);
    l->vals[id] = pl_lval_scalar(op->dtype, pl_elem_cast(l, r.acc, op->dtype, x));
}

/* ---- one axis ---- */

/* Is each row of the last axis held by a power-of-two group of neighbouring lanes, in strided chunks? The group's size, or 0. */
static uint32_t row_group(const struct pl_lower *l, const pl_shape *s, const struct pl_lay *lay)
{
    const int64_t n_cols = s->d[s->rank - 1];
    if (lay->frag != PL_FRAG_STRIDED || lay->is_ragged || n_cols % lay->vec != 0)
        return 0;
    const int64_t g = n_cols / lay->vec;
    return g <= 32 && (g & (g - 1)) == 0 && l->unit_threads % (uint32_t)g == 0 ? (uint32_t)g : 0;
}

/* Read the result elements of layout v->lay from scratch, where element i lies in n_parts at index i and every `stride` behind it. */
static void read_back(const struct red *r, const pl_shape *s, uint32_t n_parts, int64_t stride,
                      struct pl_lval *v)
{
    struct pl_lower *l = r->l;
    const uint32_t es = pl_scratch_elem_bytes(r->acc), n = v->lay.n_chunks * v->lay.vec;
    struct pl_opnd *elems = pl_arena_array(l->arena, n, sizeof *elems);
    for (uint32_t e = 0; elems != NULL && e < n; e++) {
        const uint32_t k = e / v->lay.vec;
        struct pl_opnd at = pl_ix_add(&l->b, PL_ST_u32, pl_chunk_index(l, s, &v->lay, k),
                                      pl_opnd_imm(e % v->lay.vec));
        pl_reg p = pl_lay_guard(l, &v->lay, pl_shape_n_elems(s), k);
        if (p.id != 0)
            at = pl_opnd_reg(
                pl_build_op3(&l->b, PL_STEP_select, PL_ST_b32, at, pl_opnd_imm(0), pl_opnd_reg(p)));
        elems[e] = pl_elem_cast(l, r->acc, v->dtype,
                                in_order(r, pl_scratch_addr(l, at, es), n_parts, stride));
    }
    if (elems != NULL)
        pl_lval_set_elems(l, v, elems);
}

static void reduce_rows(const struct red *r, const struct pl_lval *v, uint32_t group,
                        const pl_shape *to, struct pl_lval *out)
{
    struct pl_lower *l = r->l;
    struct pl_opnd rank = pl_lower_rank(l);
    const uint32_t es = pl_scratch_elem_bytes(r->acc);
    pl_reg is_first = {0};
    if (group > 1)
        is_first = pl_build_compare(&l->b, PL_SA_CMP_eq, PL_ST_u32,
                                    pl_ix_and(&l->b, PL_ST_u32, rank, group - 1), pl_opnd_imm(0));
    struct pl_opnd row = pl_ix_div(&l->b, PL_ST_u32, rank, pl_opnd_imm(group));
    struct pl_opnd addr = pl_scratch_addr(l, row, es);
    pl_scratch_begin(l);
    for (uint32_t k = 0; k < v->lay.n_chunks; k++) {
        struct pl_opnd x[16];
        for (uint32_t i = 0; i < v->lay.vec; i++)
            x[i] = element(r, v, k * v->lay.vec + i, (pl_reg){0});
        struct pl_opnd sum = lanes(r, tree(r, x, v->lay.vec), group - 1);
        set_guard(l, is_first);
        pl_scratch_store(l, r->acc, addr, sum);
        set_guard(l, (pl_reg){0});
        addr.imm += (int64_t)(l->unit_threads / group) * es;
    }
    pl_scratch_publish(l);
    read_back(r, to, 1, 0, out);
}

/* The four warps' parts of each result element, through scratch. */
static void over_warps(const struct red *r, const pl_shape *to, const struct pl_lay *left,
                       const struct pl_opnd *parts, struct pl_lval *out)
{
    struct pl_lower *l = r->l;
    const uint32_t es = pl_scratch_elem_bytes(r->acc);
    const struct pl_opnd rank = pl_lower_rank(l), n = pl_opnd_imm(to->d[0]);
    const struct pl_opnd first =
        pl_ix_mul(&l->b, PL_ST_u32, pl_ix_shr(&l->b, PL_ST_u32, rank, 5), n);
    const pl_reg speaks = pl_build_compare(
        &l->b, PL_SA_CMP_eq, PL_ST_u32, pl_ix_and(&l->b, PL_ST_u32, rank, pl_lay_peers(left).lanes),
        pl_opnd_imm(0));
    pl_scratch_begin(l);
    for (uint32_t e = 0; e < left->n_chunks * left->vec; e++) {
        const struct pl_opnd at =
            pl_ix_add(&l->b, PL_ST_u32, pl_chunk_index(l, to, left, e / left->vec), first);
        struct pl_opnd addr = pl_scratch_addr(l, at, es);
        addr.imm += e % left->vec * es;
        set_guard(l, speaks);
        pl_scratch_store(l, r->acc, addr, parts[e]);
        set_guard(l, (pl_reg){0});
    }
    pl_scratch_publish(l);
    read_back(r, to, l->unit_threads / WARP_LANES, to->d[0], out);
}

/* An axis of a fragment; what is left is of type t. */
static struct pl_lval reduce_fragment(const struct red *r, uint32_t id, const struct pl_lval *v,
                                      const struct pl_lay *left, pl_dtype t)
{
    struct pl_lower *l = r->l;
    const uint32_t n = v->lay.n_chunks * v->lay.vec;
    const enum pl_reduce_way way = pl_reduce_way((enum pl_frag)v->lay.frag, left);
    const struct pl_op *op = pl_ir_op(l->fn, id);
    struct pl_lval out = pl_lval_make(l, t, way == PL_REDUCE_OVER_WARPS ? l->lays[id] : *left);
    uint32_t *map = pl_arena_array(l->arena, n, sizeof *map);
    struct pl_opnd *x = pl_arena_array(l->arena, n, sizeof *x),
                   *parts = pl_arena_array(l->arena, n, sizeof *parts);
    if (map == NULL || x == NULL || parts == NULL || out.regs == NULL)
        return out;
    const uint32_t n_left =
        pl_lay_map_left(&pl_ir_op(l->fn, op->args[0])->shape, &v->lay, op->axis, map);
    for (uint32_t i = 0; i < n_left; i++) {
        uint32_t n_parts = 0;
        for (uint32_t e = 0; e < n; e++)
            if (map[e] == i)
                x[n_parts++] = element(r, v, e, (pl_reg){0});
        parts[i] = lanes(r, tree(r, x, n_parts), pl_lay_peers(left).lanes);
    }
    if (way == PL_REDUCE_OVER_WARPS) {
        over_warps(r, &op->shape, left, parts, &out);
        return out;
    }
    for (uint32_t i = 0; i < n_left; i++)
        parts[i] = pl_elem_cast(l, r->acc, t, parts[i]);
    pl_lval_set_elems(l, &out, parts);
    return out;
}

/* One result element: n scratch elements, `stride` elements apart, from index `at` on. */
static struct pl_opnd walk(const struct red *r, struct pl_opnd at, int64_t n, int64_t stride)
{
    struct pl_lower *l = r->l;
    const uint32_t es = pl_scratch_elem_bytes(r->acc);
    struct pl_opnd addr = pl_scratch_addr(l, at, es);
    if (n <= WALK_UNROLL) {
        struct pl_opnd x[WALK_UNROLL];
        for (int64_t i = 0; i < n; i++, addr.imm += stride * es)
            x[i] = pl_scratch_load(l, r->acc, addr);
        return tree(r, x, (uint32_t)n);
    }
    const enum pl_rclass class = (enum pl_rclass)pl_stypes[r->bits].class;
    pl_reg acc = pl_build_mutable(&l->b, class), pos = pl_build_mutable(&l->b, PL_RC_B32);
    pl_reg end = pl_build_reg(&l->b, PL_RC_B32);
    uint32_t again = pl_build_label(&l->b);
    pl_reg base = addr.u.reg.id != 0 ? addr.u.reg : pl_shared_base(l);
    pl_build_mov(&l->b, r->bits, acc, pl_scratch_load(l, r->acc, addr));
    pl_build_mov(&l->b, PL_ST_b32, pos, pl_opnd_reg(base));
    pl_build_mov(
        &l->b, PL_ST_b32, end,
        pl_ix_add(&l->b, PL_ST_u32, pl_opnd_reg(base), pl_opnd_imm((n - 1) * stride * es)));
    pl_build_put_label(&l->b, again);
    uint32_t mark = pl_build_open(&l->b);
    struct pl_opnd next = pl_scratch_load(l, r->acc, pl_opnd_addr(pos, addr.imm + stride * es));
    pl_build_mov(&l->b, r->bits, acc, combine(r, pl_opnd_reg(acc), next));
    pl_build_step(&l->b, &(struct pl_sdesc){.op = PL_STEP_add,
                                            .type = PL_ST_u32,
                                            .n = 3,
                                            .opnds = {pl_opnd_reg(pos), pl_opnd_reg(pos),
                                                      pl_opnd_imm(stride * es)}});
    pl_reg more =
        pl_build_compare(&l->b, PL_SA_CMP_lt, PL_ST_u32, pl_opnd_reg(pos), pl_opnd_reg(end));
    pl_build_close(&l->b, mark);
    pl_build_jump(&l->b, again, more, false);
    return pl_opnd_reg(acc);
}

static struct pl_lval cast_to(struct pl_lower *l, pl_dtype t, struct pl_lval v)
{
    if (v.dtype == t)
        return v;
    struct pl_lval out = pl_lval_make(l, t, v.lay);
    const uint32_t n = v.lay.n_chunks * v.lay.vec;
    struct pl_opnd *elems = pl_arena_array(l->arena, n, sizeof *elems);
    for (uint32_t e = 0; elems != NULL && e < n; e++)
        elems[e] = pl_elem_cast(l, v.dtype, t, pl_lval_elem(l, &v, e));
    if (elems != NULL)
        pl_lval_set_elems(l, &out, elems);
    return out;
}

static void reduce_walk(const struct red *r, const struct pl_op *op, const struct pl_lval *v,
                        const pl_shape *from, struct pl_lval *out)
{
    struct pl_lower *l = r->l;
    const struct pl_lval wide = cast_to(l, r->acc, *v);
    pl_scratch_begin(l);
    pl_scratch_write(l, from, &wide);
    pl_scratch_publish(l);
    int64_t stride = 1;
    for (int a = from->rank - 1; a > op->axis; a--)
        stride *= from->d[a];
    const int64_t n = from->d[op->axis], n_out = pl_shape_n_elems(&op->shape);
    const uint32_t n_elems = out->lay.n_chunks * out->lay.vec;
    struct pl_opnd *elems = pl_arena_array(l->arena, n_elems, sizeof *elems);
    for (uint32_t e = 0; elems != NULL && e < n_elems; e++) {
        /* Result index i = q * stride + rest; its first element is q * stride * n + rest. */
        struct pl_opnd i =
            pl_ix_add(&l->b, PL_ST_u32,
                      pl_ix_mul(&l->b, PL_ST_u32, pl_lower_rank(l), pl_opnd_imm(out->lay.vec)),
                      pl_opnd_imm((int64_t)(e / out->lay.vec) * l->unit_threads * out->lay.vec +
                                  e % out->lay.vec));
        pl_reg p = pl_lay_guard(l, &out->lay, n_out, e / out->lay.vec);
        if (p.id != 0)
            i = pl_opnd_reg(
                pl_build_op3(&l->b, PL_STEP_select, PL_ST_b32, i, pl_opnd_imm(0), pl_opnd_reg(p)));
        struct pl_opnd q = pl_ix_div(&l->b, PL_ST_u32, i, pl_opnd_imm(stride));
        struct pl_opnd rest = pl_ix_rem(&l->b, PL_ST_u32, i, pl_opnd_imm(stride));
        struct pl_opnd at = pl_ix_add(
            &l->b, PL_ST_u32, pl_ix_mul(&l->b, PL_ST_u32, q, pl_opnd_imm(stride * n)), rest);
        elems[e] = pl_elem_cast(l, r->acc, out->dtype, walk(r, at, n, stride));
    }
    if (elems != NULL)
        pl_lval_set_elems(l, out, elems);
}

/* A value that is the same everywhere: n equal elements. */
static struct pl_opnd reduce_splat(const struct red *r, struct pl_opnd x, int64_t n)
{
    if (r->op == PL_MIN || r->op == PL_MAX || r->op == PL_AND || r->op == PL_OR)
        return x;
    if (r->op == PL_XOR)
        return n % 2 != 0 ? x : pl_elem_identity(PL_XOR, r->acc);
    if (r->op == PL_ADD)
        return pl_elem_binary(r->l, PL_MUL, r->acc, pl_rep_of(r->acc, 1), x,
                              pl_const_of(r->acc, n, (double)n));
    struct pl_opnd y = pl_elem_identity(PL_MUL, r->acc);
    for (; n > 0; n /= 2) {
        if (n % 2 != 0)
            y = combine(r, y, x);
        x = combine(r, x, x);
    }
    return y;
}

/* An axis of a value, in the unit: of type t, in whatever layout it comes. */
static struct pl_lval reduce_axis(const struct red *r, uint32_t id, const struct pl_lval *v,
                                  pl_dtype t)
{
    struct pl_lower *l = r->l;
    const struct pl_op *op = pl_ir_op(l->fn, id);
    const pl_shape *from = &pl_ir_op(l->fn, op->args[0])->shape;
    struct pl_lay lay;
    if (pl_lay_left(l, id, &lay) &&
        pl_reduce_way((enum pl_frag)v->lay.frag, &lay) != PL_REDUCE_WALK)
        return reduce_fragment(r, id, v, &lay, t);
    lay = l->lays[id];
    if (lay.frag != PL_FRAG_STRIDED)
        lay = pl_lay_strided(pl_shape_n_elems(&op->shape), 1, l->unit_threads);
    struct pl_lval out = pl_lval_make(l, t, lay);
    const uint32_t group = op->axis == from->rank - 1 ? row_group(l, from, &v->lay) : 0;
    if (group != 0) {
        reduce_rows(r, v, group, &op->shape, &out);
    } else {
        pl_lower_note(l, op,
                      "reduced through shared memory: the axis is not inside a group of lanes");
        reduce_walk(r, op, v, from, &out);
    }
    return out;
}

void pl_lower_reduce(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    const struct pl_lval v = pl_lval_of(l, op->args[0]);
    const pl_shape *from = &pl_ir_op(l->fn, op->args[0])->shape;
    const struct red r = start(l, op, v.dtype);
    if (v.lay.is_splat && op->scope <= PL_SCOPE_WARPGROUP) {
        struct pl_opnd x = pl_elem_cast(l, v.dtype, r.acc, v.one);
        l->vals[id] = pl_lval_scalar(
            op->dtype, pl_elem_cast(l, r.acc, op->dtype, reduce_splat(&r, x, from->d[op->axis])));
        return;
    }
    struct pl_lval spread = v;
    if (v.lay.is_splat) { /* each thread its share */
        spread = pl_lval_make(l, v.dtype, l->lays[op->args[0]]);
        for (uint32_t i = 0; i < spread.n_regs; i++)
            spread.regs[i] = pl_lval_unit(l, &v, spread.rep, i);
    }
    if (op->shape.rank == 0) {
        reduce_all(l, id, op, &spread, pl_shape_n_elems(from));
        return;
    }
    const bool is_wide = op->scope > PL_SCOPE_WARPGROUP; /* rounded when the others' are in */
    struct pl_lval out = reduce_axis(&r, id, &spread, is_wide ? r.acc : op->dtype);
    if (is_wide)
        out = cast_to(l, op->dtype, pl_reduce_units(l, op, out));
    l->vals[id] = pl_lay_same(&out.lay, &l->lays[id])
                      ? out
                      : pl_lval_relayout(l, &op->shape, &out, l->lays[id]);
}
