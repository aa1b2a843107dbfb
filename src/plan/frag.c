/*
 * Fragment layouts in the plan: the tables of src/ir/fragment.def as index math of a thread, and values brought from one layout to
 * another. A conversion goes through the unit's scratch area, whatever the two layouts are.
 */
#include "src/plan/lower.h"

#include "base/debug.h"

enum { MAX_VEC = 16 };

bool pl_lay_same(const struct pl_lay *x, const struct pl_lay *y)
{
    return x->vec == y->vec && x->n_chunks == y->n_chunks && x->frag == y->frag;
}

/* A tile of one column is widened to the run that a chunk may have. */
static uint32_t tile_cols(const struct pl_lay *lay)
{
    const struct pl_fragment *f = &pl_fragments[lay->frag];
    return f->run_axis == 1 ? f->cols * (uint32_t)lay->vec / f->n_run : f->cols;
}

bool pl_frag_fits(enum pl_frag frag, const pl_shape *s)
{
    const struct pl_fragment *f = &pl_fragments[frag];
    return frag != PL_FRAG_STRIDED && s->rank == 2 && s->d[0] % f->rows == 0 &&
           s->d[1] % f->cols == 0;
}

struct pl_lay pl_lay_frag(enum pl_frag frag, const pl_shape *s)
{
    const struct pl_fragment *f = &pl_fragments[frag];
    struct pl_lay lay = {.frag = (uint8_t)frag, .vec = f->n_run};
    if (f->cols == 1) /* a thread has a whole row: as much of it as one access can move */
        while (lay.vec < MAX_VEC && s->d[1] % (2 * lay.vec) == 0)
            lay.vec = (uint16_t)(2 * lay.vec);
    lay.n_chunks = (uint32_t)(s->d[0] / f->rows * (s->d[1] / tile_cols(&lay)) * pl_frag_n_runs(f));
    return lay;
}

int pl_lay_run_axis(const struct pl_lay *lay, int rank)
{
    return lay->frag != PL_FRAG_STRIDED ? pl_fragments[lay->frag].run_axis : rank - 1;
}

pl_reg pl_lay_owner(struct pl_lower *l, const struct pl_lay *lay)
{
    if (lay->frag == PL_FRAG_STRIDED || pl_fragments[lay->frag].warp_rows != 0)
        return (pl_reg){0};
    return pl_build_compare(&l->b, PL_SA_CMP_lt, PL_ST_u32, pl_lower_rank(l), pl_opnd_imm(32));
}

/* ---- coordinates ---- */

static struct pl_opnd lane_part(struct pl_lower *l, const struct pl_lane_part *p)
{
    if (p->scale == 0)
        return pl_opnd_imm(0);
    struct pl_opnd x = pl_ix_shr(&l->b, PL_ST_u32, pl_lower_rank(l), p->shift);
    x = pl_ix_and(&l->b, PL_ST_u32, x, (1 << p->bits) - 1);
    return pl_ix_mul(&l->b, PL_ST_u32, x, pl_opnd_imm(p->scale));
}

static uint32_t most(const struct pl_lane_part *p) { return p->scale * ((1u << p->bits) - 1); }

void pl_frag_offset(const pl_shape *s, const struct pl_lay *lay, uint32_t k, int64_t offset[2])
{
    const struct pl_fragment *f = &pl_fragments[lay->frag];
    const uint32_t n_runs = (uint32_t)pl_frag_n_runs(f), tile = k / n_runs, c = k % n_runs;
    const uint32_t across = (uint32_t)s->d[1] / tile_cols(lay);
    offset[0] = (int64_t)(tile / across * f->rows + c % f->n_down * f->down_rows);
    offset[1] = (int64_t)(tile % across * tile_cols(lay) + c / f->n_down * f->across_cols);
}

void pl_frag_coords(struct pl_lower *l, const pl_shape *s, const struct pl_lay *lay, uint32_t k,
                    struct pl_coord out[2])
{
    const struct pl_fragment *f = &pl_fragments[lay->frag];
    int64_t offset[2];
    pl_frag_offset(s, lay, k, offset);
    struct pl_opnd warp = pl_ix_shr(&l->b, PL_ST_u32, pl_lower_rank(l), 5);
    out[0] = (struct pl_coord){
        pl_ix_add(&l->b, PL_ST_u32, pl_ix_mul(&l->b, PL_ST_u32, warp, pl_opnd_imm(f->warp_rows)),
                  lane_part(l, &f->row)),
        3u * f->warp_rows + most(&f->row) + 1, offset[0]};
    out[1] = (struct pl_coord){
        pl_ix_add(&l->b, PL_ST_u32, lane_part(l, &f->col[0]), lane_part(l, &f->col[1])),
        most(&f->col[0]) + most(&f->col[1]) + 1, offset[1]};
}

/* ---- conversions ---- */

static struct pl_lay frag_of_value(const struct pl_lower *l, pl_layout_kind kind, uint32_t val)
{
    const struct pl_op *op = pl_ir_op(l->fn, val);
    return pl_lay_frag(pl_frag_of(kind, pl_dtype_bits(op->dtype)), &op->shape);
}

bool pl_lay_wanted(const struct pl_lower *l, uint32_t id, uint32_t i, struct pl_lay *out)
{
    const struct pl_op *op = pl_ir_op(l->fn, id);
    const uint32_t val = op->args[i];
    if (val == 0 || pl_ir_op(l->fn, val)->shape.rank == 0)
        return false;
    const bool is_memory =
        op->refs[0] != 0 && pl_ir_ref(l->fn, op->refs[0])->space != PL_SPACE_REGS;
    switch ((int)op->code) { /* the others take any layout */
    case PL_OP_UNARY:
    case PL_OP_BINARY:
    case PL_OP_FMA:
    case PL_OP_CAST:
    case PL_OP_BITCAST:
    case PL_OP_SELECT: *out = l->lays[id]; return true;
    case PL_OP_ARRAY:
    case PL_OP_STORE:
        if (is_memory)
            return false;
        *out = l->var_lays[pl_ir_ref(l->fn, op->refs[0])->array];
        return true;
    case PL_OP_SWAP: *out = l->lays[id]; return true;
    case PL_OP_ATOMIC:
        *out = op->is_flag                                             ? l->lays[id]
               : i > 0 && pl_ir_op(l->fn, op->args[0])->shape.rank > 0 ? l->lays[op->args[0]]
                                                                       : l->lays[val];
        if (out->frag != PL_FRAG_STRIDED && pl_fragments[out->frag].warp_rows == 0)
            *out = pl_lay_strided(pl_shape_n_elems(&pl_ir_op(l->fn, val)->shape), 1, 128);
        return true;
    case PL_OP_MMA:
        *out = frag_of_value(l,
                             i == 0   ? PL_LAYOUT_MMA_A
                             : i == 1 ? PL_LAYOUT_MMA_B
                                      : PL_LAYOUT_MMA_ACC,
                             val);
        return true;
    case PL_OP_WGMMA_VAL: *out = frag_of_value(l, PL_LAYOUT_MMA_A, val); return true;
    case PL_OP_ACC_INIT: *out = frag_of_value(l, PL_LAYOUT_WGMMA, val); return true;
    default: return false;
    }
}

static const char *lay_name(const struct pl_lay *lay)
{
    return lay->frag != PL_FRAG_STRIDED ? pl_fragments[lay->frag].name : "STRIDED";
}

void pl_note_relayout(struct pl_lower *l, const struct pl_op *op, const struct pl_lay *from,
                      const struct pl_lay *to)
{
    pl_lower_note(
        l, op,
        pl_arena_printf(l->arena, "layout converted through shared memory: %s(%u) to %s(%u)",
                        lay_name(from), (unsigned)from->vec, lay_name(to), (unsigned)to->vec));
}

void pl_operands_convert(struct pl_lower *l, uint32_t id, struct pl_lval saved[PL_OP_MAX_ARGS])
{
    const struct pl_op *op = pl_ir_op(l->fn, id);
    for (uint32_t i = 0; i < op->n_args; i++) {
        struct pl_lay want;
        const uint32_t val = op->args[i];
        saved[i] = l->vals[val];
        if (!pl_lay_wanted(l, id, i, &want) || l->vals[val].regs == NULL ||
            l->vals[val].lay.is_splat || pl_lay_same(&want, &l->vals[val].lay))
            continue;
        pl_note_relayout(l, op, &saved[i].lay, &want);
        l->vals[val] = pl_lval_relayout(l, &pl_ir_op(l->fn, val)->shape, &saved[i], want);
    }
}

void pl_operands_restore(struct pl_lower *l, uint32_t id,
                         const struct pl_lval saved[PL_OP_MAX_ARGS])
{
    const struct pl_op *op = pl_ir_op(l->fn, id);
    for (uint32_t i = op->n_args; i-- > 0;)
        l->vals[op->args[i]] = saved[i];
}

/* The rows (128, n) on one side, an element a thread (128) on the other. */
bool pl_rows_are_own(const struct pl_lower *l, uint32_t id)
{
    const struct pl_op *op = pl_ir_op(l->fn, id);
    if ((op->code != PL_OP_REDUCE && op->code != PL_OP_BROADCAST) || op->args[0] == 0)
        return false;
    const bool is_reduce = op->code == PL_OP_REDUCE;
    const struct pl_lay *rows = &l->lays[is_reduce ? op->args[0] : id],
                        *own = &l->lays[is_reduce ? id : op->args[0]];
    const pl_shape *own_shape = is_reduce ? &op->shape : &pl_ir_op(l->fn, op->args[0])->shape;
    return op->axis == 1 && rows->frag == PL_FRAG_ROWS && own_shape->rank == 1 &&
           own_shape->d[0] == 128 && own->frag == PL_FRAG_STRIDED && own->vec == 1 &&
           (!is_reduce || op->scope <= PL_SCOPE_WARPGROUP);
}
