/*
 * Copies by elements: all threads of the unit move chunks of the view, each as wide as alignment allows.
 *
 *   later   where the chip copies words to shared memory by itself, a chunk of 4, 8 or 16 bytes is one such copy: no register holds it and
 *           no thread waits. Each thread arrives at the barrier when its own copies are done, so the barrier counts threads: every
 *           arrival at its group is worth all threads of the CTA (pl_bar_scales), and the leader makes up for those that did not copy.
 *   now     else loads, then stores, and the leader's arrival; before it the proxy fence where the chip has one and a barrier of the unit,
 *           but not where each thread alone reads back what it stored (own.c)
 *
 * Elements outside the tensor become zeros in shared memory, and are not written to global memory.
 */
#include "src/plan/memory/copy.h"

#include "base/debug.h"
#include "src/plan/hazard.h"
#include "src/plan/layout.h"
#include "src/plan/memory/access.h"
#include "src/plan/memory/mem.h"
#include "src/plan/memory/touch.h"
#include "src/plan/scalar.h"
#include "src/plan/sync.h"

enum { UNROLLED_CHUNKS = 8, UNROLLED_MOVES = 32, MOST_ARRIVALS = (1 << 20) - 1 };

static void set_guard(struct pl_lower *l, pl_reg p)
{
    l->b.guard = p;
    l->b.guard_is_negated = false;
}

struct round {
    const struct pl_copy *c;
    uint32_t vec, n_words;
    bool is_bounded, is_later;
    bool is_whole; /* no bound cuts a chunk */
    int64_t n_elems;
};

static void element_chunk(const struct round *r, struct pl_coord lin, bool is_ragged, bool is_load,
                          pl_reg *words)
{
    const struct pl_copy *c = r->c;
    struct pl_lower *l = c->l;
    const bool is_global = is_load == c->is_in;
    const uint32_t ref = is_global ? c->global : c->shared;
    struct pl_coord at[PL_MAX_RANK];
    struct pl_inside in = {.ok = {0}};
    pl_reg has_it = {0};
    if (is_ragged) {
        struct pl_opnd e = pl_ix_add(&l->b, PL_ST_u32, lin.thread, pl_opnd_imm(lin.konst));
        has_it = pl_build_compare(&l->b, PL_SA_CMP_lt, PL_ST_u32, e, pl_opnd_imm(r->n_elems));
    }
    pl_linear_place(l, ref, lin, at);
    const bool is_bounded = is_global && r->is_bounded;
    if (is_bounded)
        in = pl_bounds_chunk(l, ref, at);
    in.is_whole = r->is_whole;
    pl_inside_also(l, &in, has_it);
    const struct pl_chunk chunk = {
        .ref = ref, .vec = r->vec, .at = at, .inside = is_bounded ? &in : NULL};
    if (!is_bounded)
        set_guard(l, has_it);
    if (is_load)
        pl_chunk_load(l, &chunk, words);
    else
        pl_chunk_store(l, &chunk, words);
    set_guard(l, (pl_reg){0});
}

static struct pl_opnd or_none(struct pl_lower *l, struct pl_opnd n, pl_reg p)
{
    return p.id == 0 ? n
                     : pl_opnd_reg(pl_build_op3(&l->b, PL_STEP_select, PL_ST_b32, n, pl_opnd_imm(0),
                                                pl_opnd_reg(p)));
}

/* How many bytes of a chunk lie inside the tensor. */
static struct pl_opnd bytes_inside(const struct round *r, const struct pl_coord *at)
{
    struct pl_lower *l = r->c->l;
    struct pl_inside in = pl_bounds_chunk(l, r->c->global, at);
    if (r->is_whole || !in.has_hi)
        return or_none(l, pl_opnd_imm(r->vec * r->c->es), pl_inside_guard(l, &in, 0, true));
    struct pl_opnd n = pl_ix_sub(&l->b, PL_ST_s32, in.hi, pl_opnd_imm(in.konst));
    n = pl_ix_min(&l->b, PL_ST_s32, n, pl_opnd_imm(r->vec));
    n = pl_ix_max(&l->b, PL_ST_s32, n, pl_opnd_imm(0));
    /* A chunk begins at a multiple of its width: it lies below the first element as a whole, or not at all. */
    in.has_hi = false;
    return pl_ix_mul(&l->b, PL_ST_s32, or_none(l, n, pl_inside_guard(l, &in, 0, true)),
                     pl_opnd_imm(r->c->es));
}

/* One copy of a chunk to shared memory, which the chip finishes later; what lies outside is not read and arrives as zeros. */
static void later_chunk(const struct round *r, struct pl_coord lin, bool is_ragged)
{
    const struct pl_copy *c = r->c;
    struct pl_lower *l = c->l;
    const uint32_t n_bytes = r->vec * c->es;
    struct pl_coord at[PL_MAX_RANK], to[PL_MAX_RANK];
    pl_reg has_it = {0};
    if (is_ragged) {
        struct pl_opnd e = pl_ix_add(&l->b, PL_ST_u32, lin.thread, pl_opnd_imm(lin.konst));
        has_it = pl_build_compare(&l->b, PL_SA_CMP_lt, PL_ST_u32, e, pl_opnd_imm(r->n_elems));
    }
    pl_linear_coords(l, &c->g->shape, lin, at);
    pl_linear_place(l, c->shared, lin, to);
    struct pl_sdesc d = {.op = n_bytes == 16 ? PL_STEP_copy16 : PL_STEP_copy_small,
                         .n = 3,
                         .opnds = {pl_shared_addr(l, c->shared, to),
                                   pl_global_addr(l, c->global, at), pl_opnd_imm(n_bytes)}};
    if (r->is_bounded) {
        d.op = n_bytes == 16 ? PL_STEP_copy16_part : PL_STEP_copy_small_part;
        d.opnds[d.n++] = bytes_inside(r, at);
    }
    set_guard(l, has_it);
    pl_build_step(&l->b, &d);
    set_guard(l, (pl_reg){0});
}

static void later_chunks(const struct round *r, struct pl_coord start, uint32_t n,
                         bool may_be_ragged)
{
    const int64_t step = (int64_t)r->c->l->unit_threads * r->vec;
    for (uint32_t k = 0; k < n; k++) {
        struct pl_coord lin = start;
        lin.konst += (int64_t)k * step;
        later_chunk(r, lin, may_be_ragged && lin.konst + lin.bound > r->n_elems);
    }
}

/* n chunks from chunk number `first` on: all loads, then all stores. */
static void element_chunks(const struct round *r, struct pl_coord start, uint32_t n,
                           bool may_be_ragged)
{
    struct pl_lower *l = r->c->l;
    const int64_t step = (int64_t)l->unit_threads * r->vec;
    if (r->is_later) {
        later_chunks(r, start, n, may_be_ragged);
        return;
    }
    pl_reg words[UNROLLED_CHUNKS * 4 * 16];
    const enum pl_rclass class =
        (enum pl_rclass)pl_stypes[pl_chunk_word_type(r->c->ga->dtype, r->vec)].class;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t k = 0; k < n; k++) {
            struct pl_coord lin = start;
            lin.konst += (int64_t)k * step;
            const bool is_ragged = may_be_ragged && lin.konst + lin.bound > r->n_elems;
            pl_reg *w = words + k * r->n_words;
            for (uint32_t i = 0; pass == 0 && i < r->n_words; i++) {
                w[i] = pl_build_reg(&l->b, class);
                if (is_ragged && !r->is_bounded)
                    pl_build_mov(&l->b, pl_chunk_word_type(r->c->ga->dtype, r->vec), w[i],
                                 pl_opnd_imm(0));
            }
            element_chunk(r, lin, is_ragged, pass == 0, w);
        }
}

/* Loads or stores that a chunk takes at each of its ends, at most. */
static uint32_t n_moves(const struct round *r)
{
    const struct pl_lower *l = r->c->l;
    const int run = r->c->g->shape.rank - 1;
    if (r->is_later || run < 0)
        return 1;
    const uint32_t n_global = pl_access_run(l, r->c->global, run),
                   n_shared = pl_access_run(l, r->c->shared, run),
                   n = n_global < n_shared ? n_global : n_shared;
    const bool is_by_one = r->is_bounded && !r->is_whole;
    return is_by_one ? r->vec : n < r->vec ? r->vec / n : 1;
}

/* Chunks on their way at once: few where each is many moves, since those keep the memory busy, and text is not free. */
static uint32_t n_unrolled(const struct round *r)
{
    const uint32_t n = UNROLLED_MOVES / n_moves(r);
    return n < 1 ? 1 : n > UNROLLED_CHUNKS ? UNROLLED_CHUNKS : n;
}

static void element_rounds(const struct round *r)
{
    struct pl_lower *l = r->c->l;
    const uint32_t most = n_unrolled(r);
    const int64_t step = (int64_t)l->unit_threads * r->vec;
    const int64_t n_chunks = (r->n_elems + step - 1) / step;
    struct pl_opnd first = pl_ix_mul(&l->b, PL_ST_u32, pl_lower_rank(l), pl_opnd_imm(r->vec));
    if (n_chunks <= most) {
        element_chunks(r, (struct pl_coord){first, (uint32_t)step, 0}, (uint32_t)n_chunks, true);
        return;
    }
    const uint32_t n = most < 4 ? most : 4;
    pl_reg at = pl_build_reg(&l->b, PL_RC_B32); /* constant inside a round */
    const uint32_t again = pl_build_label(&l->b);
    pl_build_mov(&l->b, PL_ST_b32, at, first);
    pl_build_put_label(&l->b, again);
    uint32_t mark = pl_build_open(&l->b);
    const bool is_ragged = r->n_elems % (n * step) != 0;
    element_chunks(r, (struct pl_coord){pl_opnd_reg(at), (uint32_t)r->n_elems, 0}, n, is_ragged);
    pl_build_close(&l->b, mark);
    pl_build_step(&l->b, &(struct pl_sdesc){
                             .op = PL_STEP_add,
                             .type = PL_ST_u32,
                             .n = 3,
                             .opnds = {pl_opnd_reg(at), pl_opnd_reg(at), pl_opnd_imm(n * step)}});
    pl_reg more = pl_build_reg(&l->b, PL_RC_PRED);
    pl_build_step(&l->b, &(struct pl_sdesc){.op = PL_STEP_compare,
                                            .type = PL_ST_u32,
                                            .attrs = {PL_SA_CMP_lt},
                                            .n = 3,
                                            .opnds = {pl_opnd_reg(more), pl_opnd_reg(at),
                                                      pl_opnd_imm(r->n_elems)}});
    pl_build_jump(&l->b, again, more, false);
}

static uint32_t chunk_of(const struct pl_copy *c, int64_t n_elems)
{
    const struct pl_lower *l = c->l;
    const uint32_t vg = pl_access_vec(l, c->global), vs = pl_access_vec(l, c->shared);
    uint32_t vec = vg > vs ? vg : vs;
    while (vec > 1 && (int64_t)vec * l->unit_threads > n_elems)
        vec /= 2;
    return vec;
}

/* Elements of a chunk that the chip can copy by itself; 0: none. */
static uint32_t later_vec(const struct pl_lower *l, const struct pl_op *op)
{
    const uint32_t global = op->refs[0], shared = op->refs[1];
    const struct pl_ref_info *g = pl_ir_ref(l->fn, global);
    if (op->code != PL_OP_COPY_IN || l->has_tma ||
        (l->fn->request.target->features & PL_F_CP_ASYNC) == 0 || g->shape.rank == 0)
        return 0;
    const uint32_t vg = pl_access_vec(l, global), vs = pl_access_vec(l, shared),
                   vec = vg < vs ? vg : vs, n_bytes = vec * pl_elem_bytes(g->dtype);
    const int64_t n_arrivals = pl_ir_group_of(l->fn, op->bar)->n_arrivals;
    return (n_bytes == 4 || n_bytes == 8 || n_bytes == 16) &&
                   n_arrivals * l->n_threads <= MOST_ARRIVALS
               ? vec
               : 0;
}

void pl_bar_scales(struct pl_lower *l)
{
    for (uint32_t id = 1; id < l->fn->ops.n; id++) {
        const struct pl_op *op = pl_ir_op(l->fn, id);
        if (op->code == PL_OP_COPY_IN && later_vec(l, op) != 0)
            l->bar_scales[l->fn->bars.data[op->bar].group] = l->n_threads;
    }
}

/* How a copy moves its elements: chunks of `later` that the chip copies, or of `own` that each thread reads back, or neither. */
struct manner {
    uint32_t later, own;
};

/* Move the data by elements; arrival and fences are the caller's. */
static void move_elements(const struct pl_copy *c, bool is_outside, const struct manner *how)
{
    struct pl_lower *l = c->l;
    struct round r = {
        .c = c, .n_elems = pl_shape_n_elems(&c->g->shape), .is_later = how->later != 0};
    r.vec = how->later != 0 ? how->later : how->own != 0 ? how->own : chunk_of(c, r.n_elems);
    r.n_words = pl_chunk_n_words(c->ga->dtype, r.vec);
    const bool is_bounded = c->op->oob != PL_OOB_PROMISE && pl_bounds_needed(l, c->global);
    r.is_bounded = is_bounded;
    const int run = c->g->shape.rank - 1;
    r.is_whole = pl_bounds_whole(l, c->global, run, r.vec);
    const bool is_by_chunks =
        r.vec == 1 || (r.is_whole && pl_access_run(l, c->global, run) >= r.vec);
    if (!is_bounded || is_by_chunks || is_outside || r.is_later) {
        element_rounds(&r);
        return;
    }
    const uint32_t slow = pl_build_label(&l->b), done = pl_build_label(&l->b);
    pl_build_jump(&l->b, slow, pl_bounds_fit(l, c->global), true);
    r.is_bounded = false;
    uint32_t mark = pl_build_open(&l->b);
    element_rounds(&r);
    pl_build_close(&l->b, mark);
    pl_build_jump(&l->b, done, (pl_reg){0}, false);
    pl_build_put_label(&l->b, slow);
    r.is_bounded = true;
    mark = pl_build_open(&l->b);
    l->b.is_cold = true;
    element_rounds(&r);
    l->b.is_cold = false;
    pl_build_close(&l->b, mark);
    pl_build_put_label(&l->b, done);
}

/* Each thread's arrival when its copies are done, and those of the threads that made none. */
static void arrive_later(const struct pl_copy *c)
{
    struct pl_lower *l = c->l;
    struct pl_opnd addr = pl_bar_addr(l, c->op->bar);
    pl_arrive_part(l, addr, l->n_threads - l->unit_threads);
    pl_build_do1(&l->b, PL_STEP_copy_arrive, addr);
}

/*
 * Does a copy by elements to the same barrier follow, with nothing but values in between? Then that one's fence, meeting and arrivals
 * serve both.
 */
static bool is_joined(const struct pl_copy *c)
{
    struct pl_lower *l = c->l;
    uint32_t id = c->op->next;
    while (id != 0 && pl_op_infos[pl_ir_op(l->fn, id)->code].effects == PL_EFF_PURE)
        id = pl_ir_op(l->fn, id)->next;
    const struct pl_op *op = id != 0 ? pl_ir_op(l->fn, id) : NULL;
    if (op == NULL || op->code != PL_OP_COPY_IN || op->bar != c->op->bar ||
        pl_copy_is_async(l, op) || later_vec(l, op) != 0 ||
        pl_ir_issue_level(l->fn, id) !=
            pl_ir_issue_level(l->fn, (uint32_t)(c->op - l->fn->ops.data)))
        return false;
    const struct pl_copy next = pl_copy_make(l, op);
    return pl_array_is_async(l, next.s->array) == pl_array_is_async(l, c->s->array) &&
           pl_copy_own_vec(&next, false) == 0;
}

/* What all copies joined so far have stored may be read in any way. */
static void publish(const struct pl_copy *c)
{
    struct pl_lower *l = c->l;
    pl_fence_array(l, c->s->array);
    pl_unit_meet(l);
    for (; l->n_joined != 0; l->n_joined--)
        pl_arrive_leader(l, c->op->bar);
    pl_arrive_leader(l, c->op->bar);
}

bool pl_copy_by_elements(const struct pl_copy *c, bool is_outside)
{
    struct pl_lower *l = c->l;
    const pl_reg p = pl_copy_predicate(c);
    const uint32_t skip = pl_build_label(&l->b), later = later_vec(l, c->op);
    const struct manner how = {.later = later,
                               .own = later != 0 ? 0 : pl_copy_own_vec(c, is_outside)};
    if (later != 0)
        pl_hazard_async(l, c->s->array, true);
    else if (how.own == 0)
        pl_hazard_access(l, c->shared, c->is_in, 0);
    uint32_t mark = pl_build_open(&l->b);
    if (p.id != 0)
        pl_build_jump(&l->b, skip, p, true);
    move_elements(c, is_outside, &how);
    pl_build_close(&l->b, mark);
    if (p.id != 0)
        pl_build_put_label(&l->b, skip);
    if (later != 0)
        arrive_later(c);
    if (!c->is_in || later != 0)
        return later != 0;
    if (how.own != 0) {
        pl_hazard_arrival(l);
        pl_arrive_leader(l, c->op->bar);
        return false;
    }
    if (!is_outside && is_joined(c)) {
        l->n_joined++;
        return false;
    }
    publish(c);
    return true;
}
