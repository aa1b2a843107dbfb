/*
 * The second half of a reduction over a CTA or a cluster whose result is an array: each warpgroup has reduced its own part, and the same
 * threads of all of them hold the same elements. They lie in every warpgroup's scratch in row-major order, and are combined in the order
 * of warpgroups, then of CTAs, by each thread that holds them.
 */
#include "src/plan/reduce.h"

#include "base/debug.h"
#include "src/plan/array.h"
#include "src/plan/elem.h"
#include "src/plan/memory/access.h"
#include "src/plan/scalar.h"
#include "src/plan/sync.h"

struct parts {
    struct pl_lower *l;
    pl_op2 op;
    const pl_shape *s;
    const struct pl_lval *v;
};

static struct pl_opnd combine(const struct parts *p, struct pl_opnd x, struct pl_opnd y)
{
    const pl_dtype t = p->v->dtype;
    return pl_elem_binary(p->l, p->op, t, pl_rep_of(t, 1), x, y);
}

/* Row-major index of this thread's element e; 0 where it has none. */
static struct pl_opnd index_of(const struct parts *p, uint32_t e)
{
    struct pl_lower *l = p->l;
    const struct pl_lay *lay = &p->v->lay;
    const uint32_t k = e / lay->vec;
    struct pl_opnd i =
        pl_ix_add(&l->b, PL_ST_u32, pl_chunk_index(l, p->s, lay, k), pl_opnd_imm(e % lay->vec));
    pl_reg has_it = pl_lay_guard(l, lay, pl_shape_n_elems(p->s), k);
    if (has_it.id == 0)
        return i;
    return pl_opnd_reg(
        pl_build_op3(&l->b, PL_STEP_select, PL_ST_b32, i, pl_opnd_imm(0), pl_opnd_reg(has_it)));
}

/* Where an element lies in the scratch of the first warpgroup. */
static struct pl_opnd first_addr(const struct parts *p, uint32_t e)
{
    struct pl_lower *l = p->l;
    struct pl_opnd at = pl_ix_mul(&l->b, PL_ST_u32, index_of(p, e),
                                  pl_opnd_imm(pl_scratch_elem_bytes(p->v->dtype)));
    at = pl_ix_add(&l->b, PL_ST_u32, at, pl_opnd_reg(pl_shared_base(l)));
    return pl_opnd_addr(at.u.reg, l->scratch_offset);
}

static struct pl_opnd of_warpgroups(const struct parts *p, uint32_t e)
{
    struct pl_opnd addr = first_addr(p, e), x = pl_scratch_load(p->l, p->v->dtype, addr);
    for (uint32_t g = 1; g < p->l->n_threads / p->l->unit_threads; g++) {
        addr.imm += p->l->scratch_bytes;
        x = combine(p, x, pl_scratch_load(p->l, p->v->dtype, addr));
    }
    return x;
}

static struct pl_opnd of_ctas(const struct parts *p, uint32_t e)
{
    struct pl_lower *l = p->l;
    const struct pl_opnd at =
        pl_scratch_addr(l, index_of(p, e), pl_scratch_elem_bytes(p->v->dtype));
    const struct pl_opnd own =
        pl_ix_add(&l->b, PL_ST_u32, pl_opnd_reg(at.u.reg), pl_opnd_imm(at.imm));
    struct pl_opnd x = {0};
    for (uint32_t cta = 0; cta < l->n_ctas; cta++) {
        const pl_reg peer =
            pl_build_op2(&l->b, PL_STEP_peer_address, PL_ST_NONE, own, pl_opnd_imm(cta));
        const struct pl_opnd y = pl_scratch_load_peer(l, p->v->dtype, pl_opnd_addr(peer, 0));
        x = cta == 0 ? y : combine(p, x, y);
    }
    return x;
}

/* All elements through `meet`: written before it, read behind it, and not written again before all have read. */
static struct pl_lval exchange(const struct parts *p, void (*meet)(struct pl_lower *l),
                               struct pl_opnd (*total)(const struct parts *p, uint32_t e))
{
    struct pl_lower *l = p->l;
    struct pl_lval out = pl_lval_make(l, p->v->dtype, p->v->lay);
    const uint32_t n = out.lay.n_chunks * out.lay.vec;
    struct pl_opnd *elems = pl_arena_array(l->arena, n, sizeof *elems);
    pl_scratch_begin(l);
    pl_scratch_write(l, p->s, p->v);
    meet(l);
    for (uint32_t e = 0; elems != NULL && e < n; e++)
        elems[e] = total(p, e);
    if (elems != NULL)
        pl_lval_set_elems(l, &out, elems);
    meet(l);
    return out;
}

struct pl_lval pl_reduce_units(struct pl_lower *l, const struct pl_op *op, struct pl_lval v)
{
    const struct parts p = {l, (pl_op2)op->sub, &op->shape, &v};
    if (l->n_threads > l->unit_threads)
        v = exchange(&p, pl_cta_barrier, of_warpgroups);
    if (op->scope == PL_SCOPE_CLUSTER && l->n_ctas > 1)
        v = exchange(&p, pl_cluster_barrier_steps, of_ctas);
    return v;
}
