/*
 * pl_gather_rows: the rows of a GMEM view that an integer value names, side by side in shared memory. The indexes go through scratch,
 * where every thread finds that of the row it works on. One arrival, as a copy in:
 *
 *   bulk      where rows are runs of 16-byte words: a thread for each row asks for it, and announces its bytes; a row that is not
 *             wholly inside its tensor is filled by its thread
 *   elements  all threads share all elements
 *
 * What lies outside the tensor arrives as zeros, and so does a row whose index names none.
 */
#include "base/debug.h"
#include "src/plan/array.h"
#include "src/plan/elem.h"
#include "src/plan/hazard.h"
#include "src/plan/layout.h"
#include "src/plan/lower.h"
#include "src/plan/memory/access.h"
#include "src/plan/memory/map.h"
#include "src/plan/memory/mem.h"
#include "src/plan/memory/smem.h"
#include "src/plan/memory/touch.h"
#include "src/plan/scalar.h"
#include "src/plan/sync.h"

struct gather {
    struct pl_lower *l;
    const struct pl_op *op;
    uint32_t from, to; /* refs */
    const struct pl_ref_info *f, *t;
    const struct pl_array *fa;
    int64_t n_rows, n_cols;
    const struct pl_lval *index; /* splat: the one index; else in scratch */
};

/* The source row for row `to_row` of the destination, and what of its columns from `col` on is inside. */
struct source {
    struct pl_coord at[PL_MAX_RANK];
    struct pl_inside in;
};

static struct pl_opnd index_of(const struct gather *g, struct pl_opnd to_row)
{
    if (g->index->lay.is_splat)
        return pl_opnd_reg(pl_build_in_reg(&g->l->b, PL_ST_b32, g->index->one));
    return pl_scratch_load(g->l, g->index->dtype, pl_scratch_addr(g->l, to_row, 4));
}

static struct source find_source(const struct gather *g, struct pl_opnd to_row, struct pl_coord col,
                                 uint32_t vec)
{
    struct pl_lower *l = g->l;
    struct pl_opnd i = index_of(g, to_row);
    /* As unsigned a negative index is beyond every row, and so is one beyond 31 bits. */
    const int64_t rows = g->f->shape.d[0] >= 0 ? g->f->shape.d[0] : (int64_t)INT32_MAX + 1;
    const pl_reg names_a_row =
        pl_build_compare(&l->b, PL_SA_CMP_lt, PL_ST_u32, i, pl_opnd_imm(rows));
    i = pl_opnd_reg(pl_build_op3(&l->b, PL_STEP_select, PL_ST_b32, i, pl_opnd_imm(0),
                                 pl_opnd_reg(names_a_row)));
    struct source s = {.at = {{.thread = i, .bound = INT32_MAX}, col}};
    s.in = pl_bounds_chunk(l, g->from, s.at);
    s.in.is_whole = pl_bounds_whole(l, g->from, g->f->shape.rank - 1, vec);
    pl_inside_also(l, &s.in, names_a_row);
    return s;
}

/* vec elements of one row, by this thread. */
static void move_chunk(const struct gather *g, const struct source *s, const struct pl_coord *to,
                       uint32_t vec)
{
    pl_reg words[16];
    const enum pl_stype type = pl_chunk_word_type(g->fa->dtype, vec);
    const uint32_t n = pl_chunk_n_words(g->fa->dtype, vec);
    for (uint32_t i = 0; i < n; i++)
        words[i] = pl_build_reg(&g->l->b, (enum pl_rclass)pl_stypes[type].class);
    pl_chunk_load(
        g->l, &(struct pl_chunk){.ref = g->from, .vec = vec, .at = s->at, .inside = &s->in}, words);
    pl_chunk_store(g->l, &(struct pl_chunk){.ref = g->to, .vec = vec, .at = to}, words);
}

/* A loop over `start`, `start` + step, ... below end: what it is at is a register, constant in a round. */
struct loop {
    pl_reg at;
    uint32_t again, mark;
    int64_t step, end;
};

static struct loop loop_begin(struct pl_lower *l, struct pl_opnd start, int64_t step, int64_t end)
{
    struct loop p = {.at = pl_build_reg(&l->b, PL_RC_B32),
                     .again = pl_build_label(&l->b),
                     .step = step,
                     .end = end};
    pl_build_mov(&l->b, PL_ST_b32, p.at, start);
    pl_build_put_label(&l->b, p.again);
    p.mark = pl_build_open(&l->b);
    return p;
}

static void loop_end(struct pl_lower *l, const struct loop *p)
{
    const struct pl_opnd at = pl_opnd_reg(p->at);
    pl_build_close(&l->b, p->mark);
    pl_build_step(&l->b, &(struct pl_sdesc){.op = PL_STEP_add,
                                            .type = PL_ST_u32,
                                            .n = 3,
                                            .opnds = {at, at, pl_opnd_imm(p->step)}});
    const pl_reg more = pl_build_reg(&l->b, PL_RC_PRED);
    pl_build_step(&l->b, &(struct pl_sdesc){.op = PL_STEP_compare,
                                            .type = PL_ST_u32,
                                            .attrs = {PL_SA_CMP_lt},
                                            .n = 3,
                                            .opnds = {pl_opnd_reg(more), at, pl_opnd_imm(p->end)}});
    pl_build_jump(&l->b, p->again, more, false);
}

/* ---- by elements ---- */

static void by_elements(const struct gather *g)
{
    struct pl_lower *l = g->l;
    const uint32_t vec = pl_access_vec(l, g->to);
    const int64_t n = g->n_rows * g->n_cols;
    struct pl_opnd start = pl_opnd_reg(pl_build_in_reg(
        &l->b, PL_ST_u32, pl_ix_mul(&l->b, PL_ST_u32, pl_lower_rank(l), pl_opnd_imm(vec))));
    const uint32_t end = pl_build_label(&l->b);
    pl_build_jump(&l->b, end,
                  pl_build_compare(&l->b, PL_SA_CMP_ge, PL_ST_u32, start, pl_opnd_imm(n)), false);
    const struct loop p = loop_begin(l, start, (int64_t)l->unit_threads * vec, n);
    struct pl_coord to[PL_MAX_RANK];
    pl_linear_coords(l, &g->t->shape, (struct pl_coord){pl_opnd_reg(p.at), (uint32_t)n, 0}, to);
    struct pl_opnd row = pl_ix_add(&l->b, PL_ST_u32, to[0].thread, pl_opnd_imm(to[0].konst));
    const struct source s = find_source(g, row, to[1], vec);
    move_chunk(g, &s, to, vec);
    loop_end(l, &p);
    pl_build_put_label(&l->b, end);
}

/* ---- by bulk copies ---- */

static bool can_bulk(const struct gather *g)
{
    const struct pl_lower *l = g->l;
    const struct pl_smem_place *p = &l->places[g->t->array];
    const uint32_t es = pl_elem_bytes(g->fa->dtype);
    const int64_t m = pl_affine_multiple(l->fn, &g->f->offset[g->fa->shape.rank - 1]);
    const bool is_plain = p->swizzle == PL_PLAN_SWIZZLE_NONE && p->panel_elems == p->n_cols &&
                          pl_ir_ref(l->fn, g->t->base)->view == PL_VIEW_ROOT;
    return l->has_tma && pl_view_has_rows(l, g->from) && is_plain && g->t->peer == 0 &&
           g->n_cols * es % 16 == 0 && m * es % 16 == 0 && pl_access_vec(l, g->to) * es == 16;
}

/* Row `row` of the destination by this thread: asked for where all of it is inside, else filled. */
static void bulk_row(const struct gather *g, struct pl_opnd row)
{
    struct pl_lower *l = g->l;
    struct pl_coord to[PL_MAX_RANK] = {{.thread = row, .bound = (uint32_t)g->n_rows},
                                       {.thread = pl_opnd_imm(0), .bound = 1}};
    const uint32_t fill = pl_build_label(&l->b), done = pl_build_label(&l->b);
    const struct pl_opnd bytes = pl_opnd_imm(g->n_cols * pl_elem_bytes(g->fa->dtype)),
                         bar = pl_bar_addr(l, g->op->bar);
    const struct source s = find_source(g, row, to[1], (uint32_t)g->n_cols);
    pl_build_jump(&l->b, fill, pl_inside_guard(l, &s.in, (uint32_t)g->n_cols - 1, true), true);
    if (s.in.has_lo) /* the first element too, and with it all in between */
        pl_build_jump(&l->b, fill, pl_inside_guard(l, &s.in, 0, true), true);
    uint32_t mark = pl_build_open(&l->b);
    pl_build_do2(&l->b, PL_STEP_bar_expect_tx, bar, bytes);
    pl_build_step(&l->b,
                  &(struct pl_sdesc){.op = PL_STEP_bulk_in,
                                     .n = 4,
                                     .opnds = {pl_shared_addr(l, g->to, to),
                                               pl_global_addr(l, g->from, s.at), bytes, bar}});
    pl_build_jump(&l->b, done, (pl_reg){0}, false);
    pl_build_close(&l->b, mark);
    pl_build_put_label(&l->b, fill);
    const struct loop p = loop_begin(l, pl_opnd_imm(0), 1, g->n_cols);
    to[1] = (struct pl_coord){.thread = pl_opnd_reg(p.at), .bound = (uint32_t)g->n_cols};
    const struct source one = find_source(g, row, to[1], 1);
    move_chunk(g, &one, to, 1);
    loop_end(l, &p);
    pl_build_put_label(&l->b, done);
}

static void by_bulk(const struct gather *g)
{
    struct pl_lower *l = g->l;
    const struct pl_opnd rank = pl_opnd_reg(pl_build_in_reg(&l->b, PL_ST_u32, pl_lower_rank(l)));
    const uint32_t end = pl_build_label(&l->b);
    pl_hazard_async(l, g->t->array, true);
    if (g->n_rows < l->unit_threads)
        pl_build_jump(
            &l->b, end,
            pl_build_compare(&l->b, PL_SA_CMP_ge, PL_ST_u32, rank, pl_opnd_imm(g->n_rows)), false);
    const struct loop p = loop_begin(l, rank, l->unit_threads, g->n_rows);
    bulk_row(g, pl_opnd_reg(p.at));
    loop_end(l, &p);
    pl_build_put_label(&l->b, end);
}

void pl_lower_gather_rows(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    const struct pl_lval index = pl_lval_of(l, op->args[0]);
    struct gather g = {.l = l, .op = op, .from = op->refs[0], .to = op->refs[1], .index = &index};
    (void)id;
    g.f = pl_ir_ref(l->fn, g.from);
    g.t = pl_ir_ref(l->fn, g.to);
    g.fa = &l->fn->arrays.data[g.f->array];
    g.n_rows = g.t->shape.d[0];
    g.n_cols = g.t->shape.d[1];
    if (!index.lay.is_splat) {
        const pl_shape *s = &pl_ir_op(l->fn, op->args[0])->shape;
        pl_scratch_begin(l);
        pl_scratch_write(l, s, &index);
        pl_scratch_publish(l);
    }
    const bool is_bulk = can_bulk(&g);
    pl_lower_note(l, op, is_bulk ? "gathered by bulk rows" : "gathered by elements");
    pl_hazard_access(l, g.to, true, 0);
    if (is_bulk)
        by_bulk(&g);
    else
        by_elements(&g);
    pl_fence_array(l, g.t->array);
    pl_unit_meet(l);
    pl_arrive_leader(l, op->bar);
}
