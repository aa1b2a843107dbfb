/*
 * Fragments to and from shared memory by whole matrices: a warp moves up to four of 8 rows of 16 bytes, each row at the address that
 * one lane gives; lane t then holds 4 bytes of row t / 4, from byte 4 (t % 4) on, or, transposed, of 16-bit elements, those of column
 * t / 4 in rows 2 (t % 4) and the next. A chunk of a fragment that lies so in the lanes is one matrix.
 *
 * Sources: PTX ISA, "Warp Level Matrix Instructions: ldmatrix" and "stmatrix".
 */
#include "src/plan/tensor/matrix.h"

#include "base/debug.h"
#include "src/plan/layout.h"
#include "src/plan/memory/access.h"
#include "src/plan/scalar.h"
#include "src/plan/tensor/frag.h"

enum { MATRIX_ROWS = 8, ROW_BYTES = 16, MOST = 4 };

static bool is_part(const struct pl_lane_part *p, uint8_t shift, uint8_t bits, uint8_t scale)
{
    return p->shift == shift && p->bits == bits && p->scale == scale;
}

/* Lanes as in a matrix: four along the run, eight across it. */
static bool lies_in_matrices(const struct pl_fragment *f)
{
    const struct pl_lane_part *run = f->run_axis == 1 ? &f->col[0] : &f->row,
                              *other = f->run_axis == 1 ? &f->row : &f->col[0];
    return is_part(run, 0, 2, f->n_run) && is_part(other, 2, 3, 1) && f->col[1].scale == 0;
}

enum pl_matrix_way pl_matrix_way(const struct pl_lower *l, uint32_t ref, const struct pl_lay *lay,
                                 bool is_load)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, ref), *base = pl_ir_ref(l->fn, r->base);
    const struct pl_fragment *f = &pl_fragments[lay->frag];
    const uint32_t es = pl_elem_bytes(r->dtype);
    if (lay->frag == PL_FRAG_STRIDED || lay->reduced != 0 || r->space != PL_SPACE_SMEM ||
        r->peer != 0 || base->view == PL_VIEW_RESHAPE || lay->vec != f->n_run ||
        lay->vec * es != 4 || !lies_in_matrices(f) || pl_bounds_needed(l, ref) ||
        (!is_load && !pl_lower_has(l, PL_F_STMATRIX)))
        return PL_MATRIX_NONE;
    const int last = base->shape.rank - 1, run = f->run_axis;
    const int along = r->axis_of[run] == last ? run : r->axis_of[1 - run] == last ? 1 - run : -1;
    if (along < 0 || pl_access_run(l, ref, along) * es < ROW_BYTES || (along != run && es != 2))
        return PL_MATRIX_NONE;
    return along == run ? PL_MATRIX_ROWS : PL_MATRIX_TRANSPOSED;
}

/* ---- where a lane's row lies ---- */

struct group {
    uint32_t n;         /* matrices: 1, 2, 4 */
    int64_t first[2];   /* row and column of the first one */
    int64_t step[2][2]; /* [bit of the matrix number][axis] */
};

/* As many of the chunks from k on as lie in equal steps. */
static struct group group_at(const pl_shape *s, const struct pl_lay *lay, uint32_t k)
{
    struct group g = {.n = 1};
    int64_t at[MOST][2];
    const uint32_t n = lay->n_chunks - k < MOST ? lay->n_chunks - k : MOST;
    for (uint32_t i = 0; i < n; i++)
        pl_frag_offset(s, lay, k + i, at[i]);
    bool is_even = n == MOST;
    for (int a = 0; a < 2; a++) {
        g.first[a] = at[0][a];
        g.step[0][a] = n > 1 ? at[1][a] - at[0][a] : 0;
        g.step[1][a] = n > 2 ? at[2][a] - at[0][a] : 0;
        is_even = is_even && at[3][a] - at[2][a] == g.step[0][a];
    }
    for (int a = 0; a < 2; a++)
        is_even = is_even && g.step[0][a] >= 0 && g.step[1][a] >= 0;
    g.n = is_even ? MOST : n > 1 && g.step[0][0] >= 0 && g.step[0][1] >= 0 ? 2 : 1;
    return g;
}

static struct pl_opnd scaled_bit(struct pl_lower *l, uint32_t bit, int64_t scale)
{
    struct pl_opnd x = pl_ix_shr(&l->b, PL_ST_u32, pl_lower_rank(l), bit);
    return pl_ix_mul(&l->b, PL_ST_u32, pl_ix_and(&l->b, PL_ST_u32, x, 1), pl_opnd_imm(scale));
}

static struct pl_opnd row_address(struct pl_lower *l, uint32_t ref, const struct pl_lay *lay,
                                  const struct group *g, int row_axis)
{
    const struct pl_fragment *f = &pl_fragments[lay->frag];
    struct pl_coord at[2];
    for (int a = 0; a < 2; a++) {
        struct pl_opnd x = pl_opnd_imm(0);
        uint32_t bound = 1;
        if (a == 0 && f->warp_rows != 0) {
            x = pl_ix_mul(&l->b, PL_ST_u32, pl_ix_shr(&l->b, PL_ST_u32, pl_lower_rank(l), 5),
                          pl_opnd_imm(f->warp_rows));
            bound += 3u * f->warp_rows;
        }
        if (a == row_axis) {
            x = pl_ix_add(&l->b, PL_ST_u32, x,
                          pl_ix_and(&l->b, PL_ST_u32, pl_lower_rank(l), MATRIX_ROWS - 1));
            bound += MATRIX_ROWS - 1;
        }
        for (uint32_t bit = 0; 1u << bit < g->n; bit++) {
            if (g->step[bit][a] == 0)
                continue;
            x = pl_ix_add(&l->b, PL_ST_u32, x, scaled_bit(l, 3 + bit, g->step[bit][a]));
            bound += (uint32_t)g->step[bit][a];
        }
        at[a] = (struct pl_coord){x, bound, g->first[a]};
    }
    return pl_shared_addr(l, ref, at);
}

/* ---- the moves ---- */

void pl_matrix_move(struct pl_lower *l, uint32_t ref, const struct pl_lay *lay,
                    enum pl_matrix_way way, struct pl_matrix_words w)
{
    static const uint8_t counts[MOST + 1] = {0, PL_SA_NUM_x1, PL_SA_NUM_x2, 0, PL_SA_NUM_x4};
    const pl_shape *s = &pl_ir_ref(l->fn, ref)->shape;
    const int run = pl_fragments[lay->frag].run_axis;
    const int row_axis = way == PL_MATRIX_ROWS ? 1 - run : run;
    const pl_reg owner = w.is_load ? (pl_reg){0} : pl_lay_owner(l, lay);
    for (uint32_t k = 0; k < lay->n_chunks;) {
        const struct group g = group_at(s, lay, k);
        struct pl_opnd regs[MOST], addr = row_address(l, ref, lay, &g, row_axis);
        for (uint32_t i = 0; i < g.n; i++)
            regs[i] = pl_opnd_reg(w.words[k + i]);
        struct pl_opnd list = pl_build_list(&l->b, regs, g.n);
        l->b.guard = owner;
        pl_build_step(
            &l->b, &(struct pl_sdesc){
                       .op = w.is_load ? PL_STEP_load_matrix : PL_STEP_store_matrix,
                       .attrs = {counts[g.n], way == PL_MATRIX_TRANSPOSED ? PL_SA_TRANS_trans : 0},
                       .n = 2,
                       .opnds = {w.is_load ? list : addr, w.is_load ? addr : list}});
        l->b.guard = (pl_reg){0};
        k += g.n;
    }
}
