/*
 * Operations on whole arrays that move elements between threads, and the scratch area through which they do it.
 *
 * Scratch protocol, per unit: pl_scratch_begin (earlier readers are done), writes, pl_scratch_publish (everybody has
 * written), reads. Elements lie in scratch as in registers: 2 bytes for halves, 4 for words and predicates, 8 for 64-bit types.
 */
#include "src/plan/array.h"

#include "base/debug.h"
#include "src/plan/cast.h"
#include "src/plan/elem.h"
#include "src/plan/layout.h"
#include "src/plan/memory/access.h"
#include "src/plan/scalar.h"
#include "src/plan/sync.h"
#include "src/plan/tensor/frag.h"
#include "src/plan/tensor/tmem.h"

uint32_t pl_scratch_elem_bytes(pl_dtype t)
{
    const enum pl_rep rep = pl_rep_of(t, 1);
    return rep == PL_REP_DOUBLE ? 8 : rep == PL_REP_HALF ? 2 : 4;
}

static enum pl_stype scratch_type(pl_dtype t)
{
    const uint32_t bytes = pl_scratch_elem_bytes(t);
    return bytes == 8 ? PL_ST_b64 : bytes == 2 ? PL_ST_b16 : PL_ST_b32;
}

static uint32_t whole_array(pl_dtype t, const pl_shape *s)
{
    const int64_t n = pl_shape_n_elems(s);
    const uint32_t es = t == PL_F16 || t == PL_BF16 ? 4 : pl_scratch_elem_bytes(t);
    return n > UINT32_MAX / 16 ? UINT32_MAX / 2 : ((uint32_t)n * es + 15) / 16 * 16;
}

/* In this layout, with no way through scratch. */
static bool stays(const struct pl_lower *l, uint32_t val, const struct pl_lay *want)
{
    const struct pl_lay *lay = &l->lays[val];
    return pl_lay_same(want, lay) || pl_lay_is_trade(pl_ir_op(l->fn, val)->dtype, lay, want);
}

/* Of the operands that are brought into other layouts. */
static uint32_t operands_need(const struct pl_lower *l, uint32_t id)
{
    const struct pl_op *op = pl_ir_op(l->fn, id);
    uint32_t need = 0;
    for (uint32_t i = 0; i < op->n_args; i++) {
        struct pl_lay want;
        const struct pl_op *arg = pl_ir_op(l->fn, op->args[i]);
        if (!pl_lay_wanted(l, id, i, &want) || stays(l, op->args[i], &want))
            continue;
        const uint32_t n = whole_array(arg->dtype, &arg->shape);
        need = n > need ? n : need;
    }
    return need;
}

/* A broadcast that adds an axis of one element: the elements stay where they are. */
static bool only_adds_an_axis(const struct pl_lower *l, uint32_t id)
{
    const struct pl_op *op = pl_ir_op(l->fn, id);
    return op->code == PL_OP_BROADCAST && op->shape.d[op->axis] == 1 &&
           l->lays[id].frag == PL_FRAG_STRIDED && pl_lay_same(&l->lays[op->args[0]], &l->lays[id]);
}

static uint32_t reduce_need(const struct pl_lower *l, uint32_t id)
{
    enum { WARPS = 4 };
    const struct pl_op *op = pl_ir_op(l->fn, id), *arg = pl_ir_op(l->fn, op->args[0]);
    const uint32_t result = whole_array(op->dtype, &op->shape);
    struct pl_lay left;
    if (op->shape.rank == 0)
        return 64;
    if (!pl_lay_left(l, id, &left))
        return whole_array(arg->dtype, &arg->shape);
    switch (pl_reduce_way((enum pl_frag)l->lays[op->args[0]].frag, &left)) {
    case PL_REDUCE_IN_LANES:
        return pl_lay_same(&left, &l->lays[id]) && op->scope <= PL_SCOPE_WARPGROUP ? 0 : result;
    case PL_REDUCE_OVER_WARPS: return WARPS * result;
    case PL_REDUCE_WALK: break;
    }
    return whole_array(arg->dtype, &arg->shape);
}

static uint32_t own_need(const struct pl_lower *l, uint32_t id)
{
    const struct pl_op *op = pl_ir_op(l->fn, id);
    const bool is_send =
        op->code == PL_OP_ASYNC_STORE_SMEM && pl_ir_op(l->fn, op->args[0])->shape.rank > 0 &&
        l->lays[op->args[0]].vec < pl_send_min_vec(pl_ir_op(l->fn, op->args[0])->dtype);
    if ((op->code == PL_OP_ATOMIC && op->is_flag && op->shape.rank == 0) ||
        op->code == PL_OP_SEM_READ)
        return 64;
    const uint32_t moved = pl_tmem_scratch_need(l, id);
    if (moved != 0)
        return moved;
    if (op->code == PL_OP_GATHER_ROWS)
        return (uint32_t)pl_shape_n_elems(&pl_ir_op(l->fn, op->args[0])->shape) * 4;
    if (op->code == PL_OP_LOAD && op->shape.rank > 0 &&
        pl_ir_ref(l->fn, op->refs[0])->space == PL_SPACE_REGS)
        return pl_lay_same(&l->lays[id], &l->var_lays[pl_ir_ref(l->fn, op->refs[0])->array])
                   ? 0
                   : whole_array(op->dtype, &op->shape);
    if (!is_send && op->code != PL_OP_REDUCE && op->code != PL_OP_BROADCAST &&
        op->code != PL_OP_LAYOUT_CAST && op->code != PL_OP_EXTRACT)
        return 0;
    const struct pl_op *arg = pl_ir_op(l->fn, op->args[0]);
    if (arg->shape.rank == 0 || pl_shape_n_elems(&arg->shape) <= 0)
        return 0;
    if (only_adds_an_axis(l, id) ||
        (op->code == PL_OP_LAYOUT_CAST && stays(l, op->args[0], &l->lays[id])))
        return 0;
    if (op->code == PL_OP_REDUCE)
        return reduce_need(l, id);
    struct pl_lay left;
    if (op->code == PL_OP_BROADCAST && pl_lay_left(l, id, &left) &&
        pl_lay_same(&left, &l->lays[op->args[0]]))
        return 0;
    if (op->code == PL_OP_EXTRACT && l->lays[op->args[0]].frag == PL_FRAG_STRIDED)
        return 64;
    return whole_array(arg->dtype, &arg->shape);
}

uint32_t pl_scratch_need(const struct pl_lower *l, uint32_t id)
{
    const uint32_t own = own_need(l, id), operands = operands_need(l, id);
    return own > operands ? own : operands;
}

struct pl_opnd pl_scratch_addr(struct pl_lower *l, struct pl_opnd index, uint32_t elem_bytes)
{
    struct pl_opnd at = pl_ix_mul(&l->b, PL_ST_u32, index, pl_opnd_imm(elem_bytes));
    int64_t konst = l->scratch_offset;
    struct pl_opnd wg = pl_lower_warpgroup(l);
    if (pl_opnd_is_imm(wg))
        konst += wg.imm * l->scratch_bytes;
    else
        at = pl_ix_add(&l->b, PL_ST_u32, at,
                       pl_ix_mul(&l->b, PL_ST_u32, wg, pl_opnd_imm(l->scratch_bytes)));
    if (pl_opnd_is_imm(at))
        return pl_opnd_addr((pl_reg){0}, konst + at.imm);
    at = pl_ix_add(&l->b, PL_ST_u32, at, pl_opnd_reg(pl_shared_base(l)));
    return pl_opnd_addr(at.u.reg, konst);
}

void pl_scratch_begin(struct pl_lower *l)
{
    if (l->scratch_is_read)
        pl_unit_meet(l);
}

void pl_scratch_publish(struct pl_lower *l)
{
    pl_unit_meet(l);
    l->scratch_is_read = true;
}

static void memory_step(struct pl_lower *l, enum pl_step_op op, enum pl_sattr space,
                        enum pl_stype t, struct pl_opnd addr, pl_reg reg)
{
    struct pl_opnd elem = pl_opnd_reg(reg);
    struct pl_opnd list = pl_build_list(&l->b, &elem, 1);
    const bool is_load = op == PL_STEP_load;
    pl_build_step(&l->b,
                  &(struct pl_sdesc){.op = (uint8_t)op,
                                     .type = (uint8_t)t,
                                     .attrs = {(uint8_t)space},
                                     .n = 2,
                                     .opnds = {is_load ? list : addr, is_load ? addr : list}});
}

void pl_scratch_store(struct pl_lower *l, pl_dtype t, struct pl_opnd addr, struct pl_opnd elem)
{
    if (t == PL_PRED && !pl_opnd_is_imm(elem))
        elem = pl_opnd_reg(
            pl_build_op3(&l->b, PL_STEP_select, PL_ST_b32, pl_opnd_imm(1), pl_opnd_imm(0), elem));
    const enum pl_stype st = scratch_type(t);
    memory_step(l, PL_STEP_store, PL_SA_SPACE_shared, st, addr, pl_build_in_reg(&l->b, st, elem));
}

static struct pl_opnd load_from(struct pl_lower *l, enum pl_sattr space, pl_dtype t,
                                struct pl_opnd addr)
{
    const enum pl_stype st = scratch_type(t);
    pl_reg r = pl_build_reg(&l->b, (enum pl_rclass)pl_stypes[st].class);
    memory_step(l, PL_STEP_load, space, st, addr, r);
    if (t == PL_PRED)
        r = pl_build_compare(&l->b, PL_SA_CMP_ne, PL_ST_u32, pl_opnd_reg(r), pl_opnd_imm(0));
    return pl_opnd_reg(r);
}

struct pl_opnd pl_scratch_load(struct pl_lower *l, pl_dtype t, struct pl_opnd addr)
{
    return load_from(l, PL_SA_SPACE_shared, t, addr);
}

struct pl_opnd pl_scratch_load_peer(struct pl_lower *l, pl_dtype t, struct pl_opnd addr)
{
    return load_from(l, PL_SA_SPACE_peer, t, addr);
}

pl_reg pl_lay_guard(struct pl_lower *l, const struct pl_lay *lay, int64_t n_elems, uint32_t k)
{
    const int64_t first = (int64_t)k * l->unit_threads * lay->vec;
    if (lay->frag != PL_FRAG_STRIDED)
        return (pl_reg){0};
    if (first + (int64_t)l->unit_threads * lay->vec <= n_elems)
        return (pl_reg){0};
    return pl_build_compare(&l->b, PL_SA_CMP_lt, PL_ST_u32, pl_lower_rank(l),
                            pl_opnd_imm((n_elems - first + lay->vec - 1) / lay->vec));
}

/* First element of chunk k, in row-major order. */
static struct pl_opnd chunk_start(struct pl_lower *l, uint32_t vec, uint32_t k)
{
    struct pl_opnd e = pl_ix_mul(&l->b, PL_ST_u32, pl_lower_rank(l), pl_opnd_imm(vec));
    return pl_ix_add(&l->b, PL_ST_u32, e, pl_opnd_imm((int64_t)k * l->unit_threads * vec));
}

/* The same in any layout. */
struct pl_opnd pl_chunk_index(struct pl_lower *l, const pl_shape *s, const struct pl_lay *lay,
                              uint32_t k)
{
    struct pl_coord at[PL_MAX_RANK];
    if (lay->frag == PL_FRAG_STRIDED)
        return chunk_start(l, lay->vec, k);
    pl_chunk_coords(l, s, lay, k, at);
    if (s->rank == 1)
        return pl_ix_add(&l->b, PL_ST_u32, at[0].thread, pl_opnd_imm(at[0].konst));
    struct pl_opnd row = pl_ix_mul(&l->b, PL_ST_u32, at[0].thread, pl_opnd_imm(s->d[1]));
    return pl_ix_add(&l->b, PL_ST_u32, pl_ix_add(&l->b, PL_ST_u32, row, at[1].thread),
                     pl_opnd_imm(at[0].konst * s->d[1] + at[1].konst));
}

static void set_guard(struct pl_lower *l, pl_reg p)
{
    l->b.guard = p;
    l->b.guard_is_negated = false;
}

void pl_scratch_write(struct pl_lower *l, const pl_shape *s, const struct pl_lval *v)
{
    const uint32_t es = pl_scratch_elem_bytes(v->dtype);
    const pl_reg owner = pl_lay_owner(l, &v->lay);
    const int64_t step = pl_lay_run_axis(&v->lay, s->rank) == s->rank - 1 ? 1 : s->d[s->rank - 1];
    for (uint32_t k = 0; k < v->lay.n_chunks; k++) {
        struct pl_opnd addr = pl_scratch_addr(l, pl_chunk_index(l, s, &v->lay, k), es);
        pl_reg p = owner.id != 0 ? owner : pl_lay_guard(l, &v->lay, pl_shape_n_elems(s), k);
        for (uint32_t i = 0; i < v->lay.vec; i++) {
            struct pl_opnd e = pl_lval_elem(l, v, k * v->lay.vec + i);
            set_guard(l, p);
            pl_scratch_store(l, v->dtype, addr, e);
            set_guard(l, (pl_reg){0});
            addr.imm += step * es;
        }
    }
}

/* Which of the first n addresses is this one; n: none. Rows of a fragment have the same columns, so what is spread over them is read once. */
static uint32_t first_at(const struct pl_opnd *addrs, uint32_t n, const struct pl_opnd *addr)
{
    uint32_t i = 0;
    while (i < n && (addrs[i].u.reg.id != addr->u.reg.id || addrs[i].imm != addr->imm))
        i++;
    return i;
}

/*
 * A value of shape `to` whose element i is the scratch element that lies at the row-major index, in shape `from`, of i without
 * axis `axis` (-1: the shapes are equal). Threads beyond the array read element 0.
 */
static void gather(struct pl_lower *l, const pl_shape *from, const pl_shape *to, int axis,
                   struct pl_lval *v)
{
    const uint32_t es = pl_scratch_elem_bytes(v->dtype);
    const uint32_t n = v->lay.n_chunks * v->lay.vec;
    const int run = pl_lay_run_axis(&v->lay, to->rank);
    struct pl_opnd *elems = pl_arena_array(l->arena, n, sizeof *elems),
                   *addrs = pl_arena_array(l->arena, v->lay.n_chunks, sizeof *addrs);
    for (uint32_t k = 0; elems != NULL && addrs != NULL && k < v->lay.n_chunks; k++) {
        struct pl_coord at[PL_MAX_RANK];
        pl_chunk_coords(l, to, &v->lay, k, at);
        struct pl_opnd lin = pl_opnd_imm(0);
        int64_t scale = 1,
                step = 0; /* of a run, which stands still along the axis that is not there */
        for (int f = from->rank - 1; f >= 0; f--) {
            const int t = axis >= 0 && f >= axis ? f + 1 : f;
            const struct pl_coord *c = &at[t];
            step = t == run ? scale : step;
            struct pl_opnd x = pl_ix_add(&l->b, PL_ST_u32, c->thread, pl_opnd_imm(c->konst));
            lin = pl_ix_add(&l->b, PL_ST_u32, lin,
                            pl_ix_mul(&l->b, PL_ST_u32, x, pl_opnd_imm(scale)));
            scale *= from->d[f];
        }
        pl_reg p = pl_lay_guard(l, &v->lay, pl_shape_n_elems(to), k);
        if (p.id != 0)
            lin = pl_opnd_reg(pl_build_op3(&l->b, PL_STEP_select, PL_ST_b32, lin, pl_opnd_imm(0),
                                           pl_opnd_reg(p)));
        struct pl_opnd addr = pl_scratch_addr(l, lin, es);
        addrs[k] = addr;
        const uint32_t same = axis >= 0 ? first_at(addrs, k, &addr) : k;
        for (uint32_t i = 0; i < v->lay.vec; i++) {
            if (same < k)
                elems[k * v->lay.vec + i] = elems[same * v->lay.vec + i];
            else if (i == 0 || step != 0)
                elems[k * v->lay.vec + i] = pl_scratch_load(l, v->dtype, addr);
            else
                elems[k * v->lay.vec + i] = elems[k * v->lay.vec];
            addr.imm += step * es;
        }
    }
    if (elems != NULL)
        pl_lval_set_elems(l, v, elems);
}

void pl_lower_iota(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    const struct pl_lay lay = l->lays[id];
    struct pl_lval out = pl_lval_make(l, op->dtype, lay);
    const uint32_t n = lay.n_chunks * lay.vec;
    struct pl_opnd *elems = pl_arena_array(l->arena, n, sizeof *elems);
    const bool is_run = op->axis == pl_lay_run_axis(&lay, op->shape.rank);
    for (uint32_t k = 0; elems != NULL && k < lay.n_chunks; k++) {
        struct pl_coord at[PL_MAX_RANK];
        pl_chunk_coords(l, &op->shape, &lay, k, at);
        for (uint32_t i = 0; i < lay.vec; i++) {
            struct pl_opnd x =
                pl_ix_add(&l->b, PL_ST_u32, at[op->axis].thread,
                          pl_opnd_imm(at[op->axis].konst + (is_run ? (int64_t)i : 0)));
            elems[k * lay.vec + i] = pl_elem_cast(l, PL_U32, op->dtype, x);
        }
    }
    if (elems != NULL)
        pl_lval_set_elems(l, &out, elems);
    l->vals[id] = out;
}

/* What is left of a fragment, back in all of it: each thread has the elements that it needs. */
static void spread(struct pl_lower *l, const pl_shape *s, int axis, const struct pl_lval *in,
                   struct pl_lval *out)
{
    const uint32_t n = out->lay.n_chunks * out->lay.vec;
    uint32_t *map = pl_arena_array(l->arena, n, sizeof *map);
    struct pl_opnd *elems = pl_arena_array(l->arena, n, sizeof *elems);
    if (map == NULL || elems == NULL)
        return;
    (void)pl_lay_map_left(s, &out->lay, axis, map);
    for (uint32_t e = 0; e < n; e++)
        elems[e] = pl_lval_elem(l, in, map[e]);
    pl_lval_set_elems(l, out, elems);
}

void pl_lower_broadcast(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    const struct pl_lval in = pl_lval_of(l, op->args[0]);
    if (in.lay.is_splat || (only_adds_an_axis(l, id) && pl_lay_same(&in.lay, &l->lays[id]))) {
        l->vals[id] = in;
        return;
    }
    const pl_shape *from = &pl_ir_op(l->fn, op->args[0])->shape;
    struct pl_lval out = pl_lval_make(l, op->dtype, l->lays[id]);
    struct pl_lay left;
    if (pl_lay_left(l, id, &left) && pl_lay_same(&left, &in.lay)) {
        spread(l, &op->shape, op->axis, &in, &out);
        l->vals[id] = out;
        return;
    }
    pl_lower_note(l, op, "broadcast through shared memory");
    pl_scratch_begin(l);
    pl_scratch_write(l, from, &in);
    pl_scratch_publish(l);
    gather(l, from, &op->shape, op->axis, &out);
    l->vals[id] = out;
}

struct pl_lval pl_lval_relayout(struct pl_lower *l, const pl_shape *s, const struct pl_lval *in,
                                struct pl_lay lay)
{
    if (pl_lay_is_trade(in->dtype, &in->lay, &lay))
        return pl_lval_trade(l, in, lay);
    struct pl_lval out = pl_lval_make(l, in->dtype, lay);
    pl_scratch_begin(l);
    pl_scratch_write(l, s, in);
    pl_scratch_publish(l);
    gather(l, s, s, -1, &out);
    return out;
}

struct pl_lval pl_lval_strided(struct pl_lower *l, const pl_shape *s, const struct pl_lval *in)
{
    if (in->lay.frag == PL_FRAG_STRIDED)
        return *in;
    return pl_lval_relayout(l, s, in, pl_lay_strided(pl_shape_n_elems(s), 2, l->unit_threads));
}

void pl_lower_layout_cast(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    const struct pl_lval in = pl_lval_of(l, op->args[0]);
    if (in.lay.is_splat || pl_lay_same(&in.lay, &l->lays[id])) {
        l->vals[id] = in;
        return;
    }
    if (!pl_lay_is_trade(in.dtype, &in.lay, &l->lays[id]))
        pl_note_relayout(l, op, &in.lay, &l->lays[id]);
    l->vals[id] = pl_lval_relayout(l, &op->shape, &in, l->lays[id]);
}

/* The thread that has the element puts it in scratch, all read it. */
void pl_lower_extract(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    const struct pl_op *arg = pl_ir_op(l->fn, op->args[0]);
    struct pl_lval in = pl_lval_of(l, op->args[0]);
    if (in.lay.is_splat) {
        l->vals[id] = in;
        return;
    }
    in = pl_lval_strided(l, &arg->shape, &in);
    struct pl_opnd lin = pl_opnd_imm(0);
    int64_t scale = 1;
    for (int a = arg->shape.rank - 1; a >= 0; a--) {
        const uint32_t val = op->args[1 + a];
        struct pl_opnd x =
            pl_ix_convert(&l->b, PL_ST_u32, pl_lower_int_type(l, val), pl_lower_scalar(l, val));
        lin = pl_ix_add(&l->b, PL_ST_u32, lin, pl_ix_mul(&l->b, PL_ST_u32, x, pl_opnd_imm(scale)));
        scale *= arg->shape.d[a];
    }
    pl_scratch_begin(l);
    lin = pl_opnd_reg(pl_build_in_reg(&l->b, PL_ST_u32, lin));
    struct pl_opnd addr = pl_scratch_addr(l, pl_opnd_imm(0), 8);
    for (uint32_t e = 0; e < in.lay.n_chunks * in.lay.vec; e++) {
        struct pl_opnd at = pl_ix_add(&l->b, PL_ST_u32, chunk_start(l, in.lay.vec, e / in.lay.vec),
                                      pl_opnd_imm(e % in.lay.vec));
        pl_reg is_mine = pl_build_compare(&l->b, PL_SA_CMP_eq, PL_ST_u32, lin, at);
        struct pl_opnd x = pl_lval_elem(l, &in, e);
        set_guard(l, is_mine);
        pl_scratch_store(l, in.dtype, addr, x);
        set_guard(l, (pl_reg){0});
    }
    pl_scratch_publish(l);
    l->vals[id] = pl_lval_scalar(op->dtype, pl_scratch_load(l, op->dtype, addr));
}
