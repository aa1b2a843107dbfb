/*
 * Fragment layouts in the plan: the tables of src/ir/fragment.def as index math of a thread, and values brought from one layout to
 * another. A conversion goes through the unit's scratch area, whatever the two layouts are, but for bytes of an accumulator that become
 * an operand: the lanes of a quad trade them.
 */
#include "src/plan/tensor/frag.h"

#include "base/debug.h"
#include "src/plan/array.h"
#include "src/plan/elem.h"
#include "src/plan/inline.h"
#include "src/plan/layout.h"
#include "src/plan/memory/access.h"
#include "src/plan/memory/mem.h"
#include "src/plan/scalar.h"

#include <string.h>

enum { MAX_VEC = 16 };

bool pl_lay_same(const struct pl_lay *x, const struct pl_lay *y)
{
    return x->vec == y->vec && x->n_chunks == y->n_chunks && x->frag == y->frag &&
           x->reduced == y->reduced;
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

/* As much of its row as one access can move, for a thread that has the whole of it. */
static uint16_t widest(uint32_t vec, int64_t n_cols)
{
    while (vec < MAX_VEC && n_cols % (2 * vec) == 0)
        vec *= 2;
    return (uint16_t)vec;
}

struct pl_lay pl_lay_frag(enum pl_frag frag, const pl_shape *s)
{
    const struct pl_fragment *f = &pl_fragments[frag];
    struct pl_lay lay = {.frag = (uint8_t)frag, .vec = f->n_run};
    if (f->cols == 1)
        lay.vec = widest(lay.vec, s->d[1]);
    lay.n_chunks = (uint32_t)(s->d[0] / f->rows * (s->d[1] / tile_cols(&lay)) * pl_frag_n_runs(f));
    return lay;
}

int pl_lay_run_axis(const struct pl_lay *lay, int rank)
{
    return lay->frag != PL_FRAG_STRIDED && lay->reduced == 0 ? pl_fragments[lay->frag].run_axis
                                                             : rank - 1;
}

/* ---- one axis of a fragment ---- */

/* A thread's elements along it: runs of n_run, n_runs of them in a tile, n_between apart; where the first begins is told by warp and lane. */
struct axis {
    uint8_t n_tile, n_run, n_runs, n_between, n_warp;
    struct pl_lane_part part[2];
};

static struct axis axis_of(enum pl_frag frag, int axis)
{
    const struct pl_fragment *f = &pl_fragments[frag];
    const uint8_t n_run = f->run_axis == axis ? f->n_run : 1;
    if (axis == 0)
        return (struct axis){f->rows, n_run, f->n_down, f->down_rows, f->warp_rows, {f->row}};
    return (struct axis){f->cols, n_run, f->n_across, f->across_cols, 0, {f->col[0], f->col[1]}};
}

/* Of a tile that is widened to runs of vec. */
static uint32_t n_tile_elems(const struct axis *a, uint32_t vec)
{
    return a->n_tile * vec / a->n_run;
}

static int axis_left(uint32_t reduced) { return reduced == 1 ? 1 : 0; }

static struct axis left_of(const struct pl_lay *lay)
{
    return axis_of((enum pl_frag)lay->frag, axis_left(lay->reduced));
}

static uint32_t lane_bits(const struct pl_lane_part *p)
{
    return p->scale == 0 ? 0 : ((1u << p->bits) - 1) << p->shift;
}

static uint32_t own_lanes(const struct axis *a)
{
    return lane_bits(&a->part[0]) | lane_bits(&a->part[1]);
}

/* Fragments whose rows lie alike leave one layout of rows: that of the first of them. */
static enum pl_frag first_alike(enum pl_frag frag, int axis)
{
    const struct axis wanted = axis_of(frag, axis);
    for (uint32_t i = PL_FRAG_STRIDED + 1; i < (uint32_t)frag; i++) {
        const struct axis a = axis_of((enum pl_frag)i, axis);
        if (memcmp(&a, &wanted, sizeof a) == 0) /* bytes all of them */
            return (enum pl_frag)i;
    }
    return frag;
}

bool pl_reduced_fits(enum pl_frag frag, uint32_t reduced, const pl_shape *s)
{
    return frag != PL_FRAG_STRIDED && s->rank == 1 &&
           s->d[0] % axis_of(frag, axis_left(reduced)).n_tile == 0;
}

struct pl_lay pl_lay_reduced(enum pl_frag frag, uint32_t reduced, const pl_shape *s)
{
    const struct axis a = axis_of(frag, axis_left(reduced));
    struct pl_lay lay = {.frag = (uint8_t)first_alike(frag, axis_left(reduced)),
                         .reduced = (uint8_t)reduced,
                         .vec = a.n_run};
    if (a.n_warp == 32 && a.part[0].bits == 5) /* an element a thread, in order */
        return pl_lay_strided(s->d[0], 1, 128);
    if (a.n_tile == 1)
        lay.vec = widest(lay.vec, s->d[0]);
    lay.n_chunks = (uint32_t)(s->d[0] / n_tile_elems(&a, lay.vec) * a.n_runs);
    return lay;
}

bool pl_lay_left(const struct pl_lower *l, uint32_t id, struct pl_lay *out)
{
    const struct pl_op *op = pl_ir_op(l->fn, id);
    const bool is_reduce = op->code == PL_OP_REDUCE;
    if (op->args[0] == 0)
        return false;
    const struct pl_lay *lay = &l->lays[is_reduce ? op->args[0] : id];
    const pl_shape *left = is_reduce ? &op->shape : &pl_ir_op(l->fn, op->args[0])->shape;
    if (lay->frag == PL_FRAG_STRIDED || lay->reduced != 0 || left->rank != 1)
        return false;
    *out = pl_lay_reduced((enum pl_frag)lay->frag, 1u << op->axis, left);
    return true;
}

uint32_t pl_lay_map_left(const pl_shape *s, const struct pl_lay *lay, int axis, uint32_t *map)
{
    const struct pl_fragment *f = &pl_fragments[lay->frag];
    const struct axis a = axis_of((enum pl_frag)lay->frag, 1 - axis);
    const uint32_t n_runs = (uint32_t)pl_frag_n_runs(f),
                   across = (uint32_t)s->d[1] / tile_cols(lay),
                   n_run = f->run_axis == 1 - axis ? lay->vec : 1;
    uint32_t n_left = 0;
    for (uint32_t e = 0; e < lay->n_chunks * lay->vec; e++) {
        const uint32_t k = e / lay->vec, tile = k / n_runs, c = k % n_runs,
                       along = axis == 1 ? tile / across : tile % across,
                       run = axis == 1 ? c % f->n_down : c / f->n_down;
        map[e] = (along * a.n_runs + run) * n_run + e % lay->vec % n_run;
        n_left = map[e] >= n_left ? map[e] + 1 : n_left;
    }
    return n_left;
}

/* ---- peers ---- */

struct pl_peers pl_lay_peers(const struct pl_lay *lay)
{
    if (lay->frag == PL_FRAG_STRIDED)
        return (struct pl_peers){0};
    if (lay->reduced == 0)
        return (struct pl_peers){.is_in_warps = pl_fragments[lay->frag].warp_rows == 0};
    const struct axis a = left_of(lay);
    return (struct pl_peers){.lanes = 31u & ~own_lanes(&a), .is_in_warps = a.n_warp == 0};
}

bool pl_lay_has_peers(const struct pl_lay *lay)
{
    const struct pl_peers p = pl_lay_peers(lay);
    return p.lanes != 0 || p.is_in_warps;
}

enum pl_reduce_way pl_reduce_way(enum pl_frag frag, const struct pl_lay *left)
{
    const struct pl_peers peers = pl_lay_peers(left);
    if (peers.lanes == 31 && peers.is_in_warps) /* each thread would have to have it all */
        return PL_REDUCE_WALK;
    return peers.is_in_warps && pl_fragments[frag].warp_rows != 0 ? PL_REDUCE_OVER_WARPS
                                                                  : PL_REDUCE_IN_LANES;
}

pl_reg pl_lay_owner(struct pl_lower *l, const struct pl_lay *lay)
{
    const struct pl_peers p = pl_lay_peers(lay);
    if (!pl_lay_has_peers(lay))
        return (pl_reg){0};
    const uint32_t others = p.lanes | (p.is_in_warps ? l->unit_threads - 32 : 0);
    return pl_build_compare(&l->b, PL_SA_CMP_eq, PL_ST_u32,
                            pl_ix_and(&l->b, PL_ST_u32, pl_lower_rank(l), others), pl_opnd_imm(0));
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
    if (lay->reduced != 0) {
        const struct axis a = left_of(lay);
        offset[0] =
            (int64_t)(k / a.n_runs * n_tile_elems(&a, lay->vec) + k % a.n_runs * a.n_between);
        return;
    }
    const uint32_t n_runs = (uint32_t)pl_frag_n_runs(f), tile = k / n_runs, c = k % n_runs;
    const uint32_t across = (uint32_t)s->d[1] / tile_cols(lay);
    offset[0] = (int64_t)(tile / across * f->rows + c % f->n_down * f->down_rows);
    offset[1] = (int64_t)(tile % across * tile_cols(lay) + c / f->n_down * f->across_cols);
}

static struct pl_coord coord_along(struct pl_lower *l, const struct axis *a, int64_t konst)
{
    struct pl_opnd warp = pl_opnd_imm(0);
    if (a->n_warp != 0)
        warp = pl_ix_mul(&l->b, PL_ST_u32, pl_ix_shr(&l->b, PL_ST_u32, pl_lower_rank(l), 5),
                         pl_opnd_imm(a->n_warp));
    struct pl_opnd lane =
        pl_ix_add(&l->b, PL_ST_u32, lane_part(l, &a->part[0]), lane_part(l, &a->part[1]));
    return (struct pl_coord){pl_ix_add(&l->b, PL_ST_u32, warp, lane),
                             3u * a->n_warp + most(&a->part[0]) + most(&a->part[1]) + 1, konst};
}

void pl_frag_coords(struct pl_lower *l, const pl_shape *s, const struct pl_lay *lay, uint32_t k,
                    struct pl_coord out[2])
{
    int64_t offset[2];
    pl_frag_offset(s, lay, k, offset);
    for (int i = 0; i < s->rank; i++) {
        const struct axis a =
            lay->reduced != 0 ? left_of(lay) : axis_of((enum pl_frag)lay->frag, i);
        out[i] = coord_along(l, &a, offset[i]);
    }
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
    case PL_OP_INLINE_PTX: *out = l->lays[pl_inline_array(l, op)]; return true;
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
        if (pl_lay_has_peers(out) && (out->reduced == 0 || op->is_flag))
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

/* ---- bytes traded in quads ---- */

bool pl_lay_is_trade(pl_dtype t, const struct pl_lay *from, const struct pl_lay *to)
{
    return pl_elem_bytes(t) == 1 && t != PL_PRED && from->frag == PL_FRAG_WGMMA &&
           to->frag == PL_FRAG_WGMMA_8BIT && from->reduced == 0 && to->reduced == 0;
}

static pl_reg permute(struct pl_lower *l, pl_reg x, pl_reg y, struct pl_opnd bytes)
{
    return pl_build_op3(&l->b, PL_STEP_permute, PL_ST_NONE, pl_opnd_reg(x), pl_opnd_reg(y), bytes);
}

/* Of a lane of the quad, by the lowest two bits of `lane`. PTX ISA, shfl.sync: segments of 4 lanes. */
static pl_reg of_quad(struct pl_lower *l, pl_reg x, struct pl_opnd lane)
{
    enum { SEGMENTS = 0x1c1f };
    return pl_build_value(&l->b,
                          &(struct pl_sdesc){.op = PL_STEP_shuffle,
                                             .attrs = {PL_SA_LANE_idx},
                                             .n = 4,
                                             .opnds = {pl_opnd_reg(x), lane, pl_opnd_imm(SEGMENTS),
                                                       pl_opnd_imm(-1)}});
}

/*
 * Of 16 columns of a row, lane q of a quad has 2q, 2q + 1 and 2q + 8, 2q + 9, as the halves of a word, and is to have 4q to 4q + 3: those lie
 * in lanes 2q and 2q + 1, modulo 4, in the lower halves for the first two lanes and in the upper ones for the others.
 */
struct pl_lval pl_lval_trade(struct pl_lower *l, const struct pl_lval *in, struct pl_lay lay)
{
    enum { LOWER = 0x5410, UPPER = 0x7632, RUNS = 2 };
    struct pl_lval out = pl_lval_make(l, in->dtype, lay);
    pl_reg *words = pl_arena_array(l->arena, lay.n_chunks, sizeof *words);
    const struct pl_opnd rank = pl_lower_rank(l), even = pl_ix_shl(&l->b, PL_ST_u32, rank, 1),
                         odd = pl_ix_add(&l->b, PL_ST_u32, even, pl_opnd_imm(1));
    const pl_reg is_first = pl_build_compare(&l->b, PL_SA_CMP_eq, PL_ST_u32,
                                             pl_ix_and(&l->b, PL_ST_u32, rank, 2), pl_opnd_imm(0));
    const struct pl_opnd half =
        pl_opnd_reg(pl_build_op3(&l->b, PL_STEP_select, PL_ST_b32, pl_opnd_imm(LOWER),
                                 pl_opnd_imm(UPPER), pl_opnd_reg(is_first)));
    for (uint32_t k = 0; words != NULL && k < lay.n_chunks; k++) {
        const uint32_t from = k / RUNS * 2 * RUNS + k % RUNS; /* its tiles are half as wide */
        pl_reg pair[2];
        pl_regs_to_words(l, in, in->lay.vec, from, &pair[0]);
        pl_regs_to_words(l, in, in->lay.vec, from + RUNS, &pair[1]);
        const pl_reg own = permute(l, pair[0], pair[1], pl_opnd_imm(LOWER));
        words[k] = permute(l, of_quad(l, own, even), of_quad(l, own, odd), half);
    }
    out.words = words;
    return out;
}

/* ---- operands ---- */

static const char *lay_name(struct pl_lower *l, const struct pl_lay *lay)
{
    if (lay->frag == PL_FRAG_STRIDED)
        return "STRIDED";
    return lay->reduced == 0 ? pl_fragments[lay->frag].name
                             : pl_arena_printf(l->arena, "%s of %s",
                                               axis_left(lay->reduced) == 0 ? "rows" : "columns",
                                               pl_fragments[lay->frag].name);
}

void pl_note_relayout(struct pl_lower *l, const struct pl_op *op, const struct pl_lay *from,
                      const struct pl_lay *to)
{
    pl_lower_note(l, op,
                  pl_arena_printf(
                      l->arena, "layout converted through shared memory: %s(%u) to %s(%u)",
                      lay_name(l, from), (unsigned)from->vec, lay_name(l, to), (unsigned)to->vec));
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
        if (!pl_lay_is_trade(saved[i].dtype, &saved[i].lay, &want))
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
