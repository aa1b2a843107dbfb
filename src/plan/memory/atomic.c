/*
 * Atomic operations, element by element, and the semaphores that are made of them. A rank-0 operation is done once, by the leader of
 * the unit; what it gives is then told to the whole unit.
 */
#include "base/debug.h"
#include "src/plan/array.h"
#include "src/plan/elem.h"
#include "src/plan/hazard.h"
#include "src/plan/layout.h"
#include "src/plan/lower.h"
#include "src/plan/memory/access.h"
#include "src/plan/scalar.h"
#include "src/plan/sync.h"
#include "src/plan/tensor/frag.h"

static void set_guard(struct pl_lower *l, pl_reg p)
{
    l->b.guard = p;
    l->b.guard_is_negated = false;
}

static pl_reg both(struct pl_lower *l, pl_reg x, pl_reg y)
{
    if (x.id == 0 || y.id == 0)
        return x.id == 0 ? y : x;
    return pl_build_op2(&l->b, PL_STEP_and, PL_ST_pred, pl_opnd_reg(x), pl_opnd_reg(y));
}

/* ---- one element ---- */

struct atom {
    uint8_t op, red; /* steps: with the old value, without (0: none without) */
    uint8_t type;    /* enum pl_stype */
    uint8_t attrs[PL_STEP_MAX_ATTRS];
    enum pl_stype bits; /* of the registers */
    bool is_served;
};

static uint8_t kind_of(pl_atomic fn)
{
    return fn == PL_ATOMIC_MIN   ? PL_SA_RED_min
           : fn == PL_ATOMIC_MAX ? PL_SA_RED_max
           : fn == PL_ATOMIC_AND ? PL_SA_RED_and
           : fn == PL_ATOMIC_OR  ? PL_SA_RED_or
           : fn == PL_ATOMIC_XOR ? PL_SA_RED_xor
                                 : PL_SA_NONE;
}

static uint8_t scope_of(const struct pl_lower *l, pl_scope scope)
{
    return scope == PL_SCOPE_SYSTEM                      ? PL_SA_SCOPE_sys
           : scope == PL_SCOPE_GPU                       ? PL_SA_SCOPE_gpu
           : scope == PL_SCOPE_CLUSTER && l->has_cluster ? PL_SA_SCOPE_cluster
                                                         : PL_SA_SCOPE_cta;
}

static struct atom make_atom(const struct pl_lower *l, const struct pl_op *op)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, op->refs[0]);
    const pl_atomic fn = (pl_atomic)op->sub;
    const enum pl_stype t = pl_stype_of(r->dtype);
    struct atom a = {.bits = pl_stype_bits(pl_rep_of(r->dtype, 1)), .is_served = true};
    a.type = (uint8_t)a.bits;
    if (fn == PL_ATOMIC_ADD) {
        a.op = PL_STEP_atomic_add;
        a.red = PL_STEP_reduce_add;
        a.type = (uint8_t)(t == PL_ST_s64 ? PL_ST_u64 : t);
    } else if (fn == PL_ATOMIC_MIN || fn == PL_ATOMIC_MAX) {
        a.op = PL_STEP_atomic_minmax;
        a.red = PL_STEP_reduce_minmax;
        a.type = (uint8_t)t;
        a.is_served = r->dtype != PL_F16 && r->dtype != PL_BF16;
    } else if (fn == PL_ATOMIC_EXCH || fn == PL_ATOMIC_CAS) {
        a.op = fn == PL_ATOMIC_CAS ? PL_STEP_atomic_cas : PL_STEP_atomic_exch;
    } else {
        a.op = PL_STEP_atomic_logic;
        a.red = PL_STEP_reduce_logic;
    }
    a.attrs[0] = r->space == PL_SPACE_GMEM ? PL_SA_SPACE_global
                 : r->peer != 0            ? PL_SA_SPACE_peer
                                           : PL_SA_SPACE_shared;
    a.attrs[1] = PL_SA_SEM_relaxed;
    a.attrs[2] = scope_of(l, op->scope);
    a.attrs[3] = kind_of(fn);
    return a;
}

struct spot {
    struct pl_opnd addr, value, compare;
    pl_reg guard; /* none: always */
};

/* Gives the register of the old value, 0 where the guard is false; none when it is not wanted. */
static pl_reg do_atom(struct pl_lower *l, const struct atom *a, const struct spot *s,
                      bool wants_old)
{
    const bool is_cas = a->op == PL_STEP_atomic_cas, is_red = !wants_old && a->red != 0;
    pl_reg old = {0};
    struct pl_sdesc d = {.op = is_red ? a->red : a->op, .type = a->type};
    for (int i = 0; i < PL_STEP_MAX_ATTRS; i++)
        d.attrs[i] = a->attrs[i];
    if (!is_red) {
        old = pl_build_reg(&l->b, (enum pl_rclass)pl_stypes[a->bits].class);
        if (s->guard.id != 0)
            pl_build_mov(&l->b, a->bits, old, pl_opnd_imm(0));
        d.opnds[d.n++] = pl_opnd_reg(old);
    }
    d.opnds[d.n++] = s->addr;
    if (is_cas)
        d.opnds[d.n++] = pl_opnd_reg(pl_build_in_reg(&l->b, a->bits, s->compare));
    d.opnds[d.n++] = pl_opnd_reg(pl_build_in_reg(&l->b, a->bits, s->value));
    set_guard(l, s->guard);
    pl_build_step(&l->b, &d);
    set_guard(l, (pl_reg){0});
    return wants_old ? old : (pl_reg){0};
}

static struct pl_opnd address(struct pl_lower *l, uint32_t ref, const struct pl_coord *at)
{
    return pl_ir_ref(l->fn, ref)->space == PL_SPACE_SMEM ? pl_shared_addr(l, ref, at)
                                                         : pl_global_addr(l, ref, at);
}

/* ---- rank 0 ---- */

/* Of the one element of a ref, which may have axes. */
static struct pl_opnd first_address(struct pl_lower *l, uint32_t ref)
{
    struct pl_coord at[PL_MAX_RANK];
    for (int i = 0; i < PL_MAX_RANK; i++)
        at[i] = (struct pl_coord){.thread = pl_opnd_imm(0), .bound = 1};
    return address(l, ref, at);
}

/* The leader's 32- or 64-bit register, which holds 0 in the other lanes, for all threads of the unit. */
static struct pl_opnd from_leader(struct pl_lower *l, pl_dtype t, pl_reg r)
{
    if (l->unit_threads != 32) {
        struct pl_opnd addr = pl_scratch_addr(l, pl_opnd_imm(0), 8);
        pl_scratch_begin(l);
        set_guard(l, pl_lower_leader(l));
        pl_scratch_store(l, t, addr, pl_opnd_reg(r));
        set_guard(l, (pl_reg){0});
        pl_scratch_publish(l);
        return pl_scratch_load(l, t, addr);
    }
    struct pl_opnd h[2] = {pl_opnd_reg(r), pl_opnd_none()};
    const bool is_wide = pl_reg_class(r) == PL_RC_B64;
    if (is_wide) {
        h[0] = pl_opnd_reg(pl_build_reg(&l->b, PL_RC_B32));
        h[1] = pl_opnd_reg(pl_build_reg(&l->b, PL_RC_B32));
        pl_build_step(&l->b,
                      &(struct pl_sdesc){.op = PL_STEP_unpack,
                                         .type = PL_ST_b64,
                                         .from = PL_ST_b32,
                                         .n = 2,
                                         .opnds = {pl_build_list(&l->b, h, 2), pl_opnd_reg(r)}});
    }
    for (int i = 0; i < (is_wide ? 2 : 1); i++)
        h[i] = pl_opnd_reg(
            pl_build_value(&l->b, &(struct pl_sdesc){.op = PL_STEP_warp_reduce,
                                                     .type = PL_ST_b32,
                                                     .attrs = {PL_SA_RED_or},
                                                     .n = 2,
                                                     .opnds = {h[i], pl_opnd_imm(-1)}}));
    if (!is_wide)
        return h[0];
    return pl_opnd_reg(
        pl_build_value(&l->b, &(struct pl_sdesc){.op = PL_STEP_pack,
                                                 .type = PL_ST_b64,
                                                 .from = PL_ST_b32,
                                                 .n = 1,
                                                 .opnds = {pl_build_list(&l->b, h, 2)}}));
}

static void atomic_scalar(struct pl_lower *l, uint32_t id, const struct pl_op *op,
                          const struct atom *a)
{
    struct spot s = {.addr = first_address(l, op->refs[0]),
                     .value = pl_lower_scalar(l, op->args[0]),
                     .guard = pl_lower_leader(l)};
    if (op->n_args > 1)
        s.compare = pl_lower_scalar(l, op->args[1]);
    if (pl_bounds_needed(l, op->refs[0]))
        s.guard = both(l, pl_bounds_fit(l, op->refs[0]), s.guard);
    pl_reg old = do_atom(l, a, &s, op->is_flag);
    if (op->is_flag)
        l->vals[id] = pl_lval_scalar(op->dtype, from_leader(l, op->dtype, old));
}

/* ---- arrays ---- */

static void atomic_array(struct pl_lower *l, uint32_t id, const struct pl_op *op,
                         const struct atom *a)
{
    const pl_shape *shape = &pl_ir_ref(l->fn, op->refs[0])->shape;
    const struct pl_lval v = pl_lval_of(l, op->args[0]);
    struct pl_lval compare = v;
    if (op->n_args > 1)
        compare = pl_lval_of(l, op->args[1]);
    const struct pl_lay lay = !v.lay.is_splat         ? v.lay
                              : !compare.lay.is_splat ? compare.lay
                              : op->is_flag
                                  ? l->lays[id]
                                  : pl_lay_strided(pl_shape_n_elems(shape), 1, l->unit_threads);
    const bool is_bounded = pl_bounds_needed(l, op->refs[0]);
    const pl_reg owner = pl_lay_owner(l, &lay);
    pl_hazard_global(l, op->refs[0], true, &lay);
    struct pl_opnd *old = pl_arena_array(l->arena, (size_t)lay.n_chunks * lay.vec, sizeof *old);
    for (uint32_t k = 0; old != NULL && k < lay.n_chunks; k++) {
        struct pl_coord at[PL_MAX_RANK];
        struct pl_inside in = {.ok = {0}};
        pl_chunk_coords(l, shape, &lay, k, at);
        const pl_reg ragged =
            owner.id != 0 ? owner : pl_lay_guard(l, &lay, pl_shape_n_elems(shape), k);
        if (is_bounded)
            in = pl_bounds_chunk(l, op->refs[0], at);
        for (uint32_t i = 0; i < lay.vec; i++) {
            const uint32_t e = k * lay.vec + i;
            const struct spot s = {.addr = address(l, op->refs[0], at),
                                   .value = pl_lval_elem(l, &v, e),
                                   .compare = pl_lval_elem(l, &compare, e),
                                   .guard =
                                       both(l, ragged, pl_inside_guard(l, &in, i, lay.vec == 1))};
            old[e] = pl_opnd_reg(do_atom(l, a, &s, op->is_flag));
            at[shape->rank - 1].konst++;
        }
    }
    if (!op->is_flag || old == NULL)
        return;
    struct pl_lval out = pl_lval_make(l, op->dtype, lay);
    pl_lval_set_elems(l, &out, old);
    l->vals[id] = out;
}

void pl_lower_atomic(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, op->refs[0]);
    const struct atom a = make_atom(l, op);
    const bool is_half_warp = l->unit_threads == 32 && op->is_flag && pl_elem_bytes(r->dtype) == 2;
    if (!a.is_served || is_half_warp) {
        pl_lower_refuse(l, op,
                        pl_arena_printf(l->arena, "%s%s", pl_dtype_name(r->dtype),
                                        is_half_warp ? ", for its old value in a warp role" : ""));
        l->vals[id] = pl_lval_scalar(r->dtype, pl_opnd_imm(0));
        return;
    }
    pl_hazard_access(l, op->refs[0], true, 0);
    if (r->shape.rank == 0) {
        pl_hazard_element(l, op->refs[0], true);
        atomic_scalar(l, id, op, &a);
    } else {
        atomic_array(l, id, op, &a);
    }
}

/* ---- semaphores ---- */

static enum pl_stype counter_type(const struct pl_lower *l, const struct pl_op *op)
{
    return pl_ir_ref(l->fn, op->refs[0])->dtype == PL_I32 ? PL_ST_s32 : PL_ST_u32;
}

/* The counter, and what other units did before they signalled it. */
static void read_counter(struct pl_lower *l, struct pl_opnd addr, pl_reg to)
{
    struct pl_opnd r = pl_opnd_reg(to);
    pl_build_step(
        &l->b, &(struct pl_sdesc){.op = PL_STEP_load,
                                  .type = PL_ST_b32,
                                  .attrs = {PL_SA_SPACE_global, PL_SA_SEM_acquire, PL_SA_SCOPE_gpu},
                                  .n = 2,
                                  .opnds = {pl_build_list(&l->b, &r, 1), addr}});
}

/* All threads of the unit come first: the leader's release tells of what they wrote. */
void pl_lower_semaphore_signal(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    struct pl_opnd by = pl_lower_scalar(l, op->args[0]);
    struct pl_opnd addr = first_address(l, op->refs[0]);
    by = pl_opnd_reg(pl_build_in_reg(&l->b, PL_ST_b32, by));
    pl_unit_barrier(l);
    set_guard(l, pl_lower_leader(l));
    pl_build_step(
        &l->b, &(struct pl_sdesc){.op = PL_STEP_reduce_add,
                                  .type = (uint8_t)counter_type(l, op),
                                  .attrs = {PL_SA_SPACE_global, PL_SA_SEM_release, PL_SA_SCOPE_gpu},
                                  .n = 2,
                                  .opnds = {addr, by}});
    set_guard(l, (pl_reg){0});
}

/* The leader asks until it is so; the others wait for the leader. */
void pl_lower_semaphore_wait(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    struct pl_opnd least = pl_lower_scalar(l, op->args[0]);
    struct pl_opnd addr = first_address(l, op->refs[0]);
    const uint32_t again = pl_build_label(&l->b), done = pl_build_label(&l->b);
    const pl_reg r = pl_build_mutable(&l->b, PL_RC_B32);
    pl_build_jump(&l->b, done, pl_lower_leader(l), true);
    pl_build_put_label(&l->b, again);
    const uint32_t mark = pl_build_open(&l->b);
    read_counter(l, addr, r);
    pl_reg is_less =
        pl_build_compare(&l->b, PL_SA_CMP_lt, counter_type(l, op), pl_opnd_reg(r), least);
    pl_build_close(&l->b, mark);
    pl_build_jump(&l->b, again, is_less, false);
    pl_build_put_label(&l->b, done);
    pl_unit_barrier(l);
}

void pl_lower_semaphore_read(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    struct pl_opnd addr = first_address(l, op->refs[0]);
    const pl_reg r = pl_build_reg(&l->b, PL_RC_B32);
    pl_build_mov(&l->b, PL_ST_b32, r, pl_opnd_imm(0));
    set_guard(l, pl_lower_leader(l));
    read_counter(l, addr, r);
    set_guard(l, (pl_reg){0});
    l->vals[id] = pl_lval_scalar(op->dtype, from_leader(l, op->dtype, r));
}
