/*
 * pl_prefetch: a GMEM view on its way to L2, asked for by the leader: one run of memory where the view is one and lies inside its
 * tensor, else the boxes of a tensor map, which may hang over an edge. It is advice, so where neither can serve it is dropped, and
 * the plan says so.
 */
#include "base/debug.h"
#include "src/plan/lower.h"
#include "src/plan/memory/access.h"
#include "src/plan/memory/map.h"
#include "src/plan/scalar.h"

enum { BOX_MAX = 256, MAX_BOXES = 64 };

/* Largest divisor of n that a box may have along an axis; along the last one its bytes are a multiple of 16. */
static uint32_t box_extent(int64_t n, uint32_t multiple)
{
    for (uint32_t e = BOX_MAX; e > 0; e--)
        if (n % e == 0 && e % multiple == 0)
            return e;
    return 0;
}

/* The map whose boxes cover the view, and how many boxes that takes along each axis of the view; false: none does. */
static bool cover(const struct pl_lower *l, const struct pl_ref_info *g, struct pl_plan_map *m,
                  int64_t n_boxes[PL_MAX_RANK])
{
    const struct pl_array *a = &l->fn->arrays.data[g->array];
    const uint32_t es = pl_elem_bytes(a->dtype);
    const int last = a->shape.rank - 1;
    int64_t total = 1;
    if (a->shape.rank > PL_PLAN_MAP_RANK)
        return false;
    *m = (struct pl_plan_map){.arg = (uint16_t)a->param,
                              .dtype = a->dtype,
                              .rank = (uint8_t)a->shape.rank,
                              .l2_bytes = 128};
    for (int j = 0; j <= last; j++) {
        m->axes[last - j] = (uint8_t)j;
        m->box_elems[last - j] = 1;
    }
    for (int i = 0; i < g->shape.rank; i++) {
        const int j = g->axis_of[i];
        const uint32_t e = box_extent(g->shape.d[i], j == last && es < 16 ? 16 / es : 1);
        if (e == 0)
            return false;
        m->box_elems[last - j] = (uint16_t)e;
        n_boxes[i] = g->shape.d[i] / e;
        total *= n_boxes[i];
    }
    return total <= MAX_BOXES;
}

static void prefetch_boxes(struct pl_lower *l, uint32_t ref, const struct pl_plan_map *m,
                           const int64_t n_boxes[PL_MAX_RANK])
{
    const struct pl_ref_info *g = pl_ir_ref(l->fn, ref);
    const int rank = g->shape.rank;
    struct pl_opnd map = pl_map_address(l, m);
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= n_boxes[i];
    for (int64_t k = 0; k < n; k++) {
        struct pl_coord at[PL_MAX_RANK] = {0};
        int64_t rest = k;
        for (int i = rank - 1; i >= 0; i--) {
            at[i].konst = rest % n_boxes[i] * (g->shape.d[i] / n_boxes[i]);
            rest /= n_boxes[i];
        }
        struct pl_opnd coords = pl_map_coords(l, ref, at);
        l->b.guard = pl_lower_leader(l);
        pl_build_step(&l->b, &(struct pl_sdesc){.op = PL_STEP_tensor_prefetch,
                                                .attrs = {(uint8_t)(PL_SA_DIMS_d1 + m->rank - 1)},
                                                .n = 2,
                                                .opnds = {map, coords}});
        l->b.guard = (pl_reg){0};
    }
}

/* The view is one row of whole 16-byte words. */
static bool is_run(const struct pl_lower *l, const struct pl_ref_info *g)
{
    const struct pl_array *a = &l->fn->arrays.data[g->array];
    const uint32_t es = pl_elem_bytes(a->dtype);
    const int64_t n = pl_shape_n_elems(&g->shape);
    return n == g->shape.d[g->shape.rank - 1] && n * es % 16 == 0 &&
           pl_affine_multiple(l->fn, &g->offset[a->shape.rank - 1]) * es % 16 == 0;
}

static void prefetch_run(struct pl_lower *l, uint32_t ref)
{
    const struct pl_ref_info *g = pl_ir_ref(l->fn, ref);
    const int64_t n_bytes = pl_shape_n_elems(&g->shape) * pl_elem_bytes(g->dtype);
    struct pl_coord at[PL_MAX_RANK];
    for (int i = 0; i < PL_MAX_RANK; i++)
        at[i] = (struct pl_coord){.thread = pl_opnd_imm(0), .bound = 1};
    struct pl_opnd global = pl_global_addr(l, ref, at);
    pl_reg guard = pl_lower_leader(l);
    if (pl_bounds_needed(l, ref))
        guard = pl_build_op2(&l->b, PL_STEP_and, PL_ST_pred, pl_opnd_reg(guard),
                             pl_opnd_reg(pl_bounds_fit(l, ref)));
    l->b.guard = guard;
    pl_build_do2(&l->b, PL_STEP_bulk_prefetch, global, pl_opnd_imm(n_bytes));
    l->b.guard = (pl_reg){0};
}

void pl_lower_prefetch(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    const struct pl_ref_info *g = pl_ir_ref(l->fn, op->refs[0]);
    struct pl_plan_map m;
    int64_t n_boxes[PL_MAX_RANK];
    (void)id;
    if (!l->has_tma)
        pl_lower_note(l, op, "not prefetched: the chip has no bulk prefetch");
    else if (!pl_view_has_rows(l, op->refs[0]))
        pl_lower_note(l, op, "not prefetched: rows of 16-byte words are not known");
    else if (is_run(l, g))
        prefetch_run(l, op->refs[0]);
    else if (cover(l, g, &m, n_boxes))
        prefetch_boxes(l, op->refs[0], &m, n_boxes);
    else
        pl_lower_note(l, op, "not prefetched: no box covers the view");
}
