/*
 * Copies between global and shared memory, in one of three ways:
 *
 *   tensor    boxes of a tensor map, issued by the leader; parts outside the tensor arrive as zeros, or are not written
 *   bulk      whole rows of bytes, issued by the leader, where the view lies inside its tensor; where it does not, at run time,
 *             the elements way is taken
 *   elements  by all threads of the unit (copy_elements.c)
 *
 * A copy that reduces or goes to several CTAs has no elements way, so none that may need it at run time: it is refused.
 *
 * Whatever the way, a copy in is exactly one arrival on its barrier, also when its predicate is false (then of 0 bytes); a copy
 * out is one group for pl_wait_smem_to_gmem where the chip has such groups.
 */
#include "src/plan/memory/copy.h"

#include "base/debug.h"
#include "src/plan/hazard.h"
#include "src/plan/memory/access.h"
#include "src/plan/memory/map.h"
#include "src/plan/memory/smem.h"
#include "src/plan/scalar.h"
#include "src/plan/sync.h"

enum { BOX_MAX = 256, BULK_MAX_ROWS = 16 };

enum way { WAY_TENSOR, WAY_BULK, WAY_ELEMENTS };

static void set_guard(struct pl_lower *l, pl_reg p)
{
    l->b.guard = p;
    l->b.guard_is_negated = false;
}

/* ---- which way ---- */

static int64_t view_extent(const struct pl_ref_info *r, int base_axis)
{
    for (int i = 0; i < r->shape.rank; i++)
        if (r->axis_of[i] == base_axis)
            return r->shape.d[i];
    return 1;
}

/* Rows of the view are runs of memory on both sides, 16-byte aligned where it matters, and the chip copies by itself. */
static bool is_regular(const struct pl_copy *c)
{
    const struct pl_lower *l = c->l;
    const int last_s = pl_ir_ref(l->fn, c->s->base)->shape.rank - 1, rank = c->g->shape.rank;
    return l->has_tma && pl_view_has_rows(l, c->global) &&
           pl_ir_ref(l->fn, c->s->base)->view == PL_VIEW_ROOT && c->s->peer == 0 &&
           pl_view_axes_rise(c->s) && c->s->axis_of[rank - 1] == last_s;
}

/* Alignment of the view's first byte in shared memory: a power of two up to 1024. */
static uint32_t shared_align(const struct pl_copy *c)
{
    const struct pl_array *a = &c->l->fn->arrays.data[c->s->array];
    const int rank = a->shape.rank;
    int64_t align = c->place->align_bytes, slice = c->place->slice_bytes;
    for (int j = rank - 1; j >= 0; j--) {
        const int64_t unit = j == rank - 1 ? c->es : j == rank - 2 ? c->place->row_bytes : slice;
        int64_t m = pl_affine_multiple(c->l->fn, &c->s->offset[j]);
        if (j == rank - 1)
            m = pl_shared_bytes(a->dtype, m) / c->es;
        m = (m > 4096 ? 4096 : m) * (unit & -unit);
        align = m < align ? m : align;
        if (j <= rank - 3)
            slice *= a->shape.d[j];
    }
    return (uint32_t)align;
}

/* Columns of the shared view are all columns of the array, from the first. */
static bool has_whole_rows(const struct pl_copy *c)
{
    const struct pl_array *a = &c->l->fn->arrays.data[c->s->array];
    const int last = a->shape.rank - 1;
    int64_t off;
    return pl_affine_is_const(&c->s->offset[last], &off) && off == 0 &&
           c->s->shape.d[c->s->shape.rank - 1] == a->shape.d[last];
}

static uint32_t box_rows(int64_t n)
{
    uint32_t rows = n > BOX_MAX ? BOX_MAX : (uint32_t)n;
    while (n % rows != 0)
        rows--;
    return rows;
}

/* Two elements a byte. */
static bool is_packed(const struct pl_copy *c) { return c->ga->dtype == PL_E2M1; }

/* Only the copy engine combines with what is there, or reaches other CTAs. */
static bool needs_engine(const struct pl_copy *c)
{
    return is_packed(c) || c->op->sub != PL_OP2_NONE || c->op->mask != 0;
}

/* The arrival is at the leader of the pair, wherever the bytes go. */
static bool is_for_leader(const struct pl_copy *c)
{
    return c->is_in && pl_bar_is_at_leader(c->l, c->op->bar);
}

static bool may_hang_over(const struct pl_copy *c)
{
    return c->op->oob != PL_OOB_PROMISE && pl_bounds_needed(c->l, c->global);
}

static bool has_clip(const struct pl_copy *c)
{
    for (int j = 0; j < c->ga->shape.rank; j++)
        if (c->g->has_clip[j])
            return true;
    return false;
}

static bool can_tensor(const struct pl_copy *c)
{
    const struct pl_smem_place *p = c->place;
    const int rank = c->g->shape.rank;
    if (needs_engine(c) && has_clip(c))
        return false;
    if (!is_regular(c) || c->ga->shape.rank > PL_PLAN_MAP_RANK || c->op->oob == PL_OOB_FILL)
        return false;
    const uint32_t box_cols = p->panel_elems;
    const uint32_t align =
        p->swizzle == PL_PLAN_SWIZZLE_NONE ? 128 : 8 * pl_swizzle_span(p->swizzle);
    if (!has_whole_rows(c) || box_cols > BOX_MAX ||
        pl_shared_bytes(c->ga->dtype, box_cols) % 16 != 0 || shared_align(c) < align ||
        (box_cols != p->n_cols && p->panel_bytes % align != 0))
        return false;
    for (int i = 0; i < rank - 1; i++) {
        if (c->g->shape.d[i] > 64 * BOX_MAX || (i < rank - 2 && c->g->shape.d[i] > BOX_MAX))
            return false;
        /* Rows must follow each other in shared memory: the view has all of the array's inner axes. */
        if (i < rank - 2 && p->n_rows != (uint32_t)c->s->shape.d[rank - 2])
            return false;
    }
    return rank < 2 || box_rows(c->g->shape.d[rank - 2]) * p->row_bytes % align == 0 ||
           box_rows(c->g->shape.d[rank - 2]) == c->g->shape.d[rank - 2];
}

static int64_t n_view_rows(const struct pl_copy *c)
{
    int64_t n = 1;
    for (int i = 0; i + 1 < c->g->shape.rank; i++)
        n *= c->g->shape.d[i];
    return n;
}

static bool can_bulk(const struct pl_copy *c)
{
    const struct pl_smem_place *p = c->place;
    if (!is_regular(c) || c->op->oob == PL_OOB_FILL || c->op->mask != 0 || is_packed(c) ||
        is_for_leader(c) || /* its barrier is where the bytes go */
        (needs_engine(c) && may_hang_over(c)))
        return false;
    const int64_t row_bytes = c->g->shape.d[c->g->shape.rank - 1] * c->es;
    const bool is_plain =
        p->swizzle == PL_PLAN_SWIZZLE_NONE && (p->panel_elems == p->n_cols || p->n_rows == 1);
    const int64_t m = pl_affine_multiple(c->l->fn, &c->g->offset[c->ga->shape.rank - 1]);
    const bool reduces_here = c->op->sub == PL_OP2_NONE || c->op->sub == PL_ADD ||
                              c->op->sub == PL_MIN || c->op->sub == PL_MAX;
    return is_plain && reduces_here && row_bytes % 16 == 0 && m * c->es % 16 == 0 &&
           shared_align(c) >= 16 && n_view_rows(c) <= BULK_MAX_ROWS &&
           (n_view_rows(c) == 1 || p->row_bytes % 16 == 0);
}

static enum way choose(const struct pl_copy *c)
{
    switch (c->op->how) {
    case PL_HOW_TMA: return can_tensor(c) ? WAY_TENSOR : WAY_ELEMENTS;
    case PL_HOW_BULK: return can_bulk(c) ? WAY_BULK : WAY_ELEMENTS;
    case PL_HOW_ELEMENTS: return WAY_ELEMENTS;
    case PL_HOW_AUTO: break;
    }
    if (n_view_rows(c) == 1 && can_bulk(c))
        return WAY_BULK;
    return can_tensor(c) ? WAY_TENSOR : can_bulk(c) ? WAY_BULK : WAY_ELEMENTS;
}

pl_reg pl_copy_predicate(const struct pl_copy *c)
{
    if (c->op->args[0] == 0 || c->op->n_args == 0)
        return (pl_reg){0};
    return pl_build_in_reg(&c->l->b, PL_ST_pred, pl_lower_scalar(c->l, c->op->args[0]));
}

/* ---- issued by the leader ---- */

static pl_reg leader_and(const struct pl_copy *c)
{
    struct pl_lower *l = c->l;
    pl_reg p = pl_copy_predicate(c), leader = pl_lower_leader(l);
    return p.id == 0
               ? leader
               : pl_build_op2(&l->b, PL_STEP_and, PL_ST_pred, pl_opnd_reg(leader), pl_opnd_reg(p));
}

/* The arrival, announcing the bytes to come: on this CTA's barrier, or on that of each CTA that receives them. */
static void announce(const struct pl_copy *c)
{
    struct pl_lower *l = c->l;
    struct pl_opnd n = pl_opnd_imm(c->n_bytes);
    const pl_reg p = pl_copy_predicate(c);
    pl_hazard_arrival(l);
    if (p.id != 0)
        n = pl_opnd_reg(
            pl_build_op3(&l->b, PL_STEP_select, PL_ST_b32, n, pl_opnd_imm(0), pl_opnd_reg(p)));
    if (c->op->mask == 0 && is_for_leader(c)) {
        struct pl_opnd addr = pl_bar_leader_addr(l, c->op->bar);
        set_guard(l, pl_lower_leader(l));
        pl_arrive_tx_peer(l, c->op->bar, addr, n);
        set_guard(l, (pl_reg){0});
        return;
    }
    if (c->op->mask == 0) {
        struct pl_opnd addr = pl_bar_addr(l, c->op->bar);
        set_guard(l, pl_lower_leader(l));
        pl_build_do2(&l->b, PL_STEP_bar_arrive_tx, addr, n);
        set_guard(l, (pl_reg){0});
        return;
    }
    for (uint32_t cta = 0; cta < l->n_ctas; cta++) {
        if ((c->op->mask >> cta & 1) == 0)
            continue;
        pl_reg to = pl_build_op2(&l->b, PL_STEP_peer_address, PL_ST_NONE,
                                 pl_opnd_reg(pl_bar_value(l, c->op->bar)),
                                 pl_opnd_imm(is_for_leader(c) ? cta & ~1u : cta));
        set_guard(l, pl_lower_leader(l));
        pl_arrive_tx_peer(l, c->op->bar, pl_opnd_addr(to, 0), n);
        set_guard(l, (pl_reg){0});
    }
}

/* One box of a tensor copy. at: its first element in the view. */
struct box {
    struct pl_opnd map;
    struct pl_coord at[PL_MAX_RANK];
    pl_reg guard;
};

/* What the copy moves stays in L2 longer than other data, or goes first. */
static void add_policy(const struct pl_copy *c, struct pl_sdesc *d)
{
    if (c->op->n == 0)
        return;
    const uint8_t keep = c->op->n > 0 ? PL_SA_KEEP_last : PL_SA_KEEP_first;
    d->opnds[d->n++] = pl_opnd_reg(
        pl_build_value(&c->l->b, &(struct pl_sdesc){.op = PL_STEP_l2_policy, .attrs = {keep}}));
    int i = 0;
    while (d->attrs[i] != PL_SA_NONE)
        i++;
    d->attrs[i] = PL_SA_L2_hint;
}

static void put_box(const struct pl_copy *c, const struct box *x)
{
    struct pl_lower *l = c->l;
    const uint8_t dims = (uint8_t)(PL_SA_DIMS_d1 + c->ga->shape.rank - 1);
    struct pl_opnd shared = pl_shared_addr(l, c->shared, x->at);
    struct pl_opnd coords = pl_map_coords(l, c->global, x->at);
    static const uint8_t reds[PL_OP2_COUNT] = {
        [PL_ADD] = PL_SA_RED_add, [PL_MIN] = PL_SA_RED_min, [PL_MAX] = PL_SA_RED_max,
        [PL_AND] = PL_SA_RED_and, [PL_OR] = PL_SA_RED_or,   [PL_XOR] = PL_SA_RED_xor};
    struct pl_sdesc d = {.attrs = {dims}, .n = 3, .opnds = {x->map, coords, shared}};
    if (c->is_in) {
        d.op = c->op->mask != 0 ? PL_STEP_tensor_in_multi : PL_STEP_tensor_in;
        d.n = c->op->mask != 0 ? 5 : 4;
        d.opnds[0] = shared;
        d.opnds[1] = x->map;
        d.opnds[2] = coords;
        d.opnds[3] =
            is_for_leader(c) ? pl_bar_leader_addr(l, c->op->bar) : pl_bar_addr(l, c->op->bar);
        if (is_for_leader(c))
            d.attrs[1] = PL_SA_GROUP_pair;
        d.opnds[4] = c->op->mask != 0
                         ? pl_opnd_reg(pl_build_in_reg(&l->b, PL_ST_b16, pl_opnd_imm(c->op->mask)))
                         : pl_opnd_none();
    } else if (c->op->sub != PL_OP2_NONE) {
        d.op = PL_STEP_tensor_reduce;
        d.attrs[1] = reds[c->op->sub];
    } else {
        d.op = PL_STEP_tensor_out;
    }
    add_policy(c, &d);
    set_guard(l, x->guard);
    pl_build_step(&l->b, &d);
    set_guard(l, (pl_reg){0});
}

static void put_boxes(const struct pl_copy *c)
{
    struct pl_lower *l = c->l;
    const struct pl_smem_place *p = c->place;
    const int rank = c->g->shape.rank, g_rank = c->ga->shape.rank;
    const uint32_t rows = rank >= 2 ? box_rows(c->g->shape.d[rank - 2]) : 1;
    const bool is_split =
        p->panel_elems != p->n_cols || (rank >= 2 && rows != (uint32_t)c->g->shape.d[rank - 2]);
    struct pl_plan_map m = {.arg = (uint16_t)c->ga->param,
                            .dtype = c->ga->dtype,
                            .rank = (uint8_t)g_rank,
                            .swizzle = p->swizzle,
                            .l2_bytes = 128};
    int64_t n_outer = 1;
    for (int j = 0; j < g_rank; j++) {
        const int d = g_rank - 1 - j;
        m.axes[d] = (uint8_t)j;
        m.box_elems[d] = (uint16_t)view_extent(c->g, j);
        for (int i = 0; i < rank; i++)
            if (c->g->axis_of[i] == j) {
                if (i == rank - 1)
                    m.box_elems[d] = (uint16_t)p->panel_elems;
                else if (i == rank - 2)
                    m.box_elems[d] = (uint16_t)rows;
                else if (is_split)
                    m.box_elems[d] = 1; /* panels of a slice lie together: a box a slice */
            }
    }
    for (int i = 0; is_split && i < rank - 2; i++)
        n_outer *= c->g->shape.d[i];
    struct box x = {.map = pl_map_address(l, &m), .guard = leader_and(c)};
    for (int i = 0; i < PL_MAX_RANK; i++)
        x.at[i] = (struct pl_coord){.thread = pl_opnd_imm(0), .bound = 1};
    for (int64_t o = 0; o < n_outer; o++) {
        int64_t rest = o;
        for (int i = rank - 3; i >= 0 && is_split; i--) {
            x.at[i].konst = rest % c->g->shape.d[i];
            rest /= c->g->shape.d[i];
        }
        for (uint32_t r = 0; r < (rank >= 2 ? (uint32_t)c->g->shape.d[rank - 2] : 1); r += rows)
            for (uint32_t col = 0; col < p->n_cols; col += p->panel_elems) {
                if (rank >= 2)
                    x.at[rank - 2].konst = r;
                x.at[rank - 1].konst = col;
                put_box(c, &x);
            }
    }
}

static enum pl_stype bulk_reduce_type(pl_dtype t)
{
    if (t == PL_I64)
        return PL_ST_u64; /* the same addition */
    return pl_stype_of(t);
}

static void put_rows(const struct pl_copy *c)
{
    struct pl_lower *l = c->l;
    const int rank = c->g->shape.rank;
    const uint32_t row_bytes = (uint32_t)c->g->shape.d[rank - 1] * c->es;
    const pl_reg guard = leader_and(c);
    struct pl_coord at[PL_MAX_RANK];
    for (int i = 0; i < PL_MAX_RANK; i++)
        at[i] = (struct pl_coord){.thread = pl_opnd_imm(0), .bound = 1};
    for (int64_t n = 0; n < n_view_rows(c); n++) {
        int64_t rest = n;
        for (int i = rank - 2; i >= 0; i--) {
            at[i].konst = rest % c->g->shape.d[i];
            rest /= c->g->shape.d[i];
        }
        struct pl_opnd global = pl_global_addr(l, c->global, at),
                       shared = pl_shared_addr(l, c->shared, at);
        struct pl_sdesc d = {
            .op = PL_STEP_bulk_out, .n = 3, .opnds = {global, shared, pl_opnd_imm(row_bytes)}};
        if (c->is_in) {
            d = (struct pl_sdesc){
                .op = PL_STEP_bulk_in,
                .n = 4,
                .opnds = {shared, global, pl_opnd_imm(row_bytes), pl_bar_addr(l, c->op->bar)}};
        } else if (c->op->sub == PL_ADD) {
            d.op = PL_STEP_bulk_add;
            d.type = (uint8_t)bulk_reduce_type(c->ga->dtype);
        } else if (c->op->sub != PL_OP2_NONE) {
            d.op = PL_STEP_bulk_minmax;
            d.type = (uint8_t)bulk_reduce_type(c->ga->dtype);
            d.attrs[0] = c->op->sub == PL_MIN ? PL_SA_RED_min : PL_SA_RED_max;
        }
        add_policy(c, &d);
        set_guard(l, guard);
        pl_build_step(&l->b, &d);
        set_guard(l, (pl_reg){0});
    }
}

static pl_reg both(struct pl_lower *l, pl_reg x, pl_reg y)
{
    return x.id == 0 ? y
                     : pl_build_op2(&l->b, PL_STEP_and, PL_ST_pred, pl_opnd_reg(x), pl_opnd_reg(y));
}

/* Boxes are not stored from coordinates below zero (PTX ISA: cp.async.bulk.tensor). */
static bool may_begin_below(const struct pl_copy *c, int j)
{
    return !c->is_in && !needs_engine(c) && c->op->oob != PL_OOB_PROMISE &&
           !pl_affine_is_nonneg(c->l, &c->g->offset[j]);
}

/* Is there a clip, or a beginning, for which boxes are not made? */
static bool boxes_may_fail(const struct pl_copy *c)
{
    bool may = has_clip(c);
    for (int j = 0; j < c->ga->shape.rank; j++)
        may = may || may_begin_below(c, j);
    return may;
}

/* No clip cuts the view below its tensor's own end, and no box is stored from below its beginning: a predicate, or none when it is known. */
static pl_reg boxes_fit(const struct pl_copy *c)
{
    struct pl_lower *l = c->l;
    const enum pl_stype t = pl_lower_index_type(l, c->ga);
    pl_reg fit = {0};
    for (int j = 0; j < c->ga->shape.rank; j++) {
        if (!may_begin_below(c, j) && !c->g->has_clip[j])
            continue;
        const struct pl_opnd begin = pl_lower_affine(l, &c->g->offset[j], t);
        if (may_begin_below(c, j))
            fit = both(l, fit,
                       pl_build_compare(&l->b, PL_SA_CMP_ge, t,
                                        pl_opnd_reg(pl_build_in_reg(&l->b, t, begin)),
                                        pl_opnd_imm(0)));
        if (!c->g->has_clip[j])
            continue;
        struct pl_opnd clip =
            pl_opnd_reg(pl_build_in_reg(&l->b, t, pl_lower_affine(l, &c->g->clip[j], t)));
        struct pl_opnd end = pl_ix_add(&l->b, t, begin, pl_opnd_imm(view_extent(c->g, j)));
        end = pl_ix_min(&l->b, t, end, pl_lower_extent(l, c->ga, j));
        fit = both(l, fit, pl_build_compare(&l->b, PL_SA_CMP_ge, t, clip, end));
    }
    return fit;
}

static void issue(const struct pl_copy *c, enum way way)
{
    pl_hazard_async(c->l, c->s->array, c->is_in);
    if (c->is_in)
        announce(c);
    if (way == WAY_TENSOR)
        put_boxes(c);
    else
        put_rows(c);
}

static void note_way(const struct pl_copy *c, enum way way)
{
    static const char *const names[] = {
        "copied by tensor boxes", "copied by bulk rows; by elements where it hangs over an edge",
        "copied by elements"};
    pl_lower_note(c->l, c->op, names[way]);
}

struct pl_copy pl_copy_make(struct pl_lower *l, const struct pl_op *op)
{
    const bool is_in = op->code == PL_OP_COPY_IN;
    struct pl_copy c = {.l = l,
                        .op = op,
                        .is_in = is_in,
                        .global = op->refs[is_in ? 0 : 1],
                        .shared = op->refs[is_in ? 1 : 0]};
    c.g = pl_ir_ref(l->fn, c.global);
    c.s = pl_ir_ref(l->fn, c.shared);
    c.ga = &l->fn->arrays.data[c.g->array];
    c.place = &l->places[c.s->array];
    c.es = pl_elem_bytes(c.ga->dtype);
    c.n_bytes = (uint32_t)pl_shared_bytes(c.ga->dtype, pl_shape_n_elems(&c.g->shape));
    return c;
}

bool pl_copy_is_async(struct pl_lower *l, const struct pl_op *op)
{
    const struct pl_copy c = pl_copy_make(l, op);
    return choose(&c) != WAY_ELEMENTS;
}

bool pl_copy_out_is_by_threads(struct pl_lower *l, const struct pl_op *op)
{
    const struct pl_copy c = pl_copy_make(l, op);
    const enum way way = choose(&c);
    return way == WAY_ELEMENTS || (way == WAY_BULK ? may_hang_over(&c) : boxes_may_fail(&c));
}

static void lower_copy(struct pl_lower *l, const struct pl_op *op)
{
    const struct pl_copy made = pl_copy_make(l, op), *const c = &made;
    const enum way way = choose(c);
    note_way(c, way);
    if (c->op->how != PL_HOW_AUTO && c->op->how != PL_HOW_ELEMENTS && way == WAY_ELEMENTS)
        pl_refuse_copy(l, c->op);
    else if (way == WAY_ELEMENTS && needs_engine(c))
        pl_refuse_copy(l, c->op);
    if (way == WAY_ELEMENTS) {
        l->has_met |= pl_copy_by_elements(c, false);
    } else {
        pl_reg fit = {0};
        if (way == WAY_TENSOR)
            fit = boxes_fit(c);
        else if (may_hang_over(c))
            fit = pl_bounds_fit(l, c->global);
        if (fit.id == 0) {
            issue(c, way);
        } else {
            const uint32_t slow = pl_build_label(&l->b), done = pl_build_label(&l->b);
            struct pl_hazard_state *before = pl_hazard_save(l);
            pl_lower_leader(l);
            pl_build_jump(&l->b, slow, fit, true);
            uint32_t mark = pl_build_open(&l->b);
            issue(c, way);
            pl_build_close(&l->b, mark);
            pl_build_jump(&l->b, done, (pl_reg){0}, false);
            pl_build_put_label(&l->b, slow);
            struct pl_hazard_state *fast = pl_hazard_save(l);
            pl_hazard_restore(l, before);
            mark = pl_build_open(&l->b);
            pl_copy_by_elements(c, true);
            pl_build_close(&l->b, mark);
            pl_hazard_merge(l, fast);
            pl_build_put_label(&l->b, done);
        }
    }
    if (!c->is_in && l->has_async_out) { /* a group for each copy, so that waits count copies */
        set_guard(l, pl_lower_leader(l));
        pl_build_do(&l->b, PL_STEP_bulk_commit);
        set_guard(l, (pl_reg){0});
        l->has_pending_out = true;
    }
}

void pl_lower_copy_in(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    lower_copy(l, op);
}

void pl_lower_copy_out(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    lower_copy(l, op);
}

/* Outside roles, does each warpgroup send copies of its own? */
static bool has_warpgroup_copies(const struct pl_lower *l)
{
    for (uint32_t id = 1; id < l->fn->ops.n; id++)
        if (pl_ir_op(l->fn, id)->code == PL_OP_COPY_OUT &&
            l->fn->blocks.data[pl_ir_op(l->fn, id)->block].role_warpgroup < 0 &&
            pl_ir_issue_level(l->fn, id) > PL_LEVEL_CTA)
            return true;
    return false;
}

void pl_lower_wait_out(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    if (l->has_async_out) {
        /* Each leader that issued copies waits for its own; the CTA's is the first warpgroup's. */
        const uint32_t threads = l->unit_threads;
        if (threads > 128 && has_warpgroup_copies(l))
            l->unit_threads = 128;
        set_guard(l, pl_lower_leader(l));
        l->unit_threads = threads;
        pl_build_step(&l->b,
                      &(struct pl_sdesc){.op = PL_STEP_bulk_wait,
                                         .attrs = {op->is_flag ? PL_SA_READ_read : PL_SA_NONE},
                                         .n = 1,
                                         .opnds = {pl_opnd_imm(op->n)}});
        set_guard(l, (pl_reg){0});
        if (op->n == 0)
            l->has_pending_out = false;
    }
    /* Threads that read the source are waited for by whoever of their warpgroup overwrites it, but not by others. */
    if (l->has_async_out || l->unit_threads > 128)
        pl_unit_meet(l);
}
