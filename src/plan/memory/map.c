/*
 * Tensor maps, as data: one for each way in which the copies of a kernel look at an argument. Each launch encodes them with the
 * argument's address, extents and strides; the kernel finds them among its parameters.
 */
#include "src/plan/memory/map.h"

#include "src/plan/memory/access.h"
#include "src/plan/scalar.h"

static bool is_same_map(const struct pl_plan_map *x, const struct pl_plan_map *y)
{
    bool is_same =
        x->arg == y->arg && x->dtype == y->dtype && x->rank == y->rank && x->swizzle == y->swizzle;
    for (int d = 0; is_same && d < x->rank; d++)
        is_same = x->axes[d] == y->axes[d] && x->box_elems[d] == y->box_elems[d];
    return is_same;
}

/* The first use of a map waits for 128 bytes from memory: they are asked for when the kernel starts, by one thread. */
static void prefetch_map(struct pl_lower *l, struct pl_opnd address)
{
    struct pl_opnd tid = pl_opnd_reg(pl_lower_sreg(l, PL_SR_tid_x));
    const pl_reg outer = l->b.guard;
    const bool was_in_entry = l->b.is_in_entry;
    l->b.guard = pl_build_compare(&l->b, PL_SA_CMP_eq, PL_ST_u32, tid, pl_opnd_imm(0));
    l->b.is_in_entry = true;
    pl_build_do1(&l->b, PL_STEP_map_prefetch, address);
    l->b.is_in_entry = was_in_entry;
    l->b.guard = outer;
}

struct pl_opnd pl_map_address(struct pl_lower *l, const struct pl_plan_map *m)
{
    uint32_t map = 0;
    while (map < l->plan->maps.n && !is_same_map(&l->plan->maps.data[map], m))
        map++;
    const bool is_new = map == l->plan->maps.n;
    if (is_new) {
        struct pl_plan_map *at = pl_vec_push(l->arena, &l->plan->maps);
        if (at != NULL)
            *at = *m;
    }
    const uint32_t i = pl_lower_param_index(
        l,
        (struct pl_plan_param){.kind = PL_PLAN_TENSOR_MAP, .map = (uint16_t)map, .n_bytes = 128});
    struct pl_opnd address = pl_opnd_reg(
        pl_build_op1(&l->b, PL_STEP_param_generic, PL_ST_NONE, pl_opnd_index(PL_OPND_PARAM, i)));
    if (is_new)
        prefetch_map(l, address);
    return address;
}

struct pl_opnd pl_map_coords(struct pl_lower *l, uint32_t ref, const struct pl_coord *at)
{
    struct pl_opnd coords[PL_PLAN_MAP_RANK];
    const struct pl_ref_info *g = pl_ir_ref(l->fn, ref);
    const int rank = l->fn->arrays.data[g->array].shape.rank;
    for (int j = 0; j < rank; j++) {
        struct pl_opnd v = pl_lower_affine(l, &g->offset[j], PL_ST_s32);
        for (int i = 0; i < g->shape.rank; i++)
            if (g->axis_of[i] == j)
                v = pl_ix_add(&l->b, PL_ST_s32, v, pl_opnd_imm(at[i].konst));
        coords[rank - 1 - j] = pl_opnd_reg(pl_build_in_reg(&l->b, PL_ST_b32, v));
    }
    return pl_build_list(&l->b, coords, (uint32_t)rank);
}

bool pl_view_axes_rise(const struct pl_ref_info *r)
{
    for (int i = 1; i < r->shape.rank; i++)
        if (r->axis_of[i] <= r->axis_of[i - 1])
            return false;
    return true;
}

bool pl_view_has_rows(const struct pl_lower *l, uint32_t ref)
{
    const struct pl_ref_info *g = pl_ir_ref(l->fn, ref);
    const struct pl_array *a = &l->fn->arrays.data[g->array];
    const int rank = g->shape.rank;
    const bool has_unit =
        pl_array_has_fact(l, a, PL_FACT_UNIT_STRIDE) || pl_array_has_fact(l, a, PL_FACT_DENSE);
    return rank >= 1 && has_unit && pl_array_has_fact(l, a, PL_FACT_ALIGN16) &&
           pl_ir_ref(l->fn, g->base)->view == PL_VIEW_ROOT && pl_view_axes_rise(g) &&
           g->axis_of[rank - 1] == a->shape.rank - 1 &&
           (pl_dtype_bits(a->dtype) >= 8 || a->dtype == PL_E2M1);
}
