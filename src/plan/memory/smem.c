/*
 * The shared-memory map: how each SMEM array is arranged and where it lies.
 *
 * Arrangement: the last two axes are cut into panels of columns; a panel is row-major, panels follow each other. A swizzle wants
 * rows of exactly its span, so its panel is span bytes wide; without a swizzle one panel is the whole width, unless the program
 * left the choice to the plan and the row is wider than a box may be.
 *
 * Order: arrays by falling alignment, then barriers, then the scratch area, whose size is known only after lowering.
 */
#include "src/plan/memory/smem.h"

#include "base/debug.h"
#include "src/plan/scalar.h"

enum { BOX_MAX_ELEMS = 256 };

uint32_t pl_swizzle_span(enum pl_plan_swizzle s)
{
    static const uint8_t spans[] = {0, 32, 64, 128, 128};
    return spans[s];
}

static enum pl_plan_swizzle swizzle_of_span(int32_t bytes)
{
    return bytes == 128  ? PL_PLAN_SWIZZLE_128
           : bytes == 64 ? PL_PLAN_SWIZZLE_64
           : bytes == 32 ? PL_PLAN_SWIZZLE_32
                         : PL_PLAN_SWIZZLE_NONE;
}

struct uses {
    bool has_copies;    /* source or destination of a copy */
    bool is_transposed; /* read or written across its rows */
    bool is_operand;    /* of a matrix operation */
    bool is_across_32;  /* 32-bit operand of tcgen05 whose K is the row axis */
};

static struct uses uses_of(const struct pl_fn *fn, uint32_t array)
{
    struct uses u = {false, false, false, false};
    for (uint32_t id = 1; id < fn->ops.n; id++) {
        const struct pl_op *op = &fn->ops.data[id];
        for (int i = 0; i < PL_OP_MAX_REFS; i++) {
            if (op->refs[i] == 0 || fn->refs.data[op->refs[i]].array != array)
                continue;
            const struct pl_ref_info *r = &fn->refs.data[op->refs[i]];
            u.is_operand |= op->code == PL_OP_WGMMA || op->code == PL_OP_WGMMA_VAL ||
                            op->code == PL_OP_TCGEN05_MMA || op->code == PL_OP_COPY_TMEM;
            if (op->code == PL_OP_TCGEN05_MMA && (i == 1 || i == 2) &&
                pl_dtype_bits(r->dtype) == 32)
                u.is_across_32 |= r->axis_of[i == 1] != fn->refs.data[r->base].shape.rank - 1;
            u.has_copies |= op->code == PL_OP_COPY_IN || op->code == PL_OP_COPY_OUT;
            if ((op->code == PL_OP_LOAD || op->code == PL_OP_STORE) && r->shape.rank >= 2)
                u.is_transposed |=
                    r->axis_of[r->shape.rank - 1] != fn->refs.data[r->base].shape.rank - 1;
        }
    }
    return u;
}

/* Without a swizzle: the width of a panel whose rows fit a box. */
static uint32_t plain_panel(const struct pl_array *a, uint32_t n_cols, uint32_t es,
                            const struct uses *u)
{
    if (a->tr.tile_cols > 0 && n_cols % (uint32_t)a->tr.tile_cols == 0)
        return (uint32_t)a->tr.tile_cols;
    if (n_cols <= BOX_MAX_ELEMS || !u->has_copies || a->tr.swizzle_bytes != PL_SWIZZLE_CHOOSE)
        return n_cols;
    for (uint32_t w = BOX_MAX_ELEMS; w * es >= 16; w--)
        if (n_cols % w == 0 && w * es % 16 == 0)
            return w;
    return n_cols;
}

static enum pl_plan_swizzle choose_swizzle(const struct pl_array *a, uint32_t row_bytes,
                                           const struct uses *u)
{
    int32_t span = a->tr.swizzle_bytes;
    if (span == PL_SWIZZLE_CHOOSE) {
        span = 0;
        if (u->is_transposed || u->is_operand)
            span = row_bytes % 128 == 0  ? 128
                   : row_bytes % 64 == 0 ? 64
                   : row_bytes % 32 == 0 ? 32
                                         : 0;
    }
    if (span == 128 && row_bytes % 128 == 0 && u->is_across_32)
        return PL_PLAN_SWIZZLE_128_ATOM_32;
    return span != 0 && row_bytes % (uint32_t)span == 0 ? swizzle_of_span(span)
                                                        : PL_PLAN_SWIZZLE_NONE;
}

static uint32_t round_up(uint32_t v, uint32_t to) { return (v + to - 1) / to * to; }

static bool arrange(struct pl_lower *l, uint32_t id)
{
    const struct pl_array *a = &l->fn->arrays.data[id];
    struct pl_smem_place *p = &l->places[id];
    const struct uses u = uses_of(l->fn, id);
    const int rank = a->shape.rank;
    const uint32_t es = pl_elem_bytes(a->dtype), bits = a->dtype == PL_E2M1 ? 4 : es * 8;
    uint64_t n_slices = 1;
    for (int i = 0; i + 2 < rank; i++)
        n_slices *= (uint64_t)a->shape.d[i];
    const uint64_t n_rows = rank >= 2 ? (uint64_t)a->shape.d[rank - 2] : 1;
    const uint64_t n_cols = rank >= 1 ? (uint64_t)a->shape.d[rank - 1] : 1;
    if (n_slices > UINT32_MAX / 4 || n_rows > UINT32_MAX / 4 || n_cols > UINT32_MAX / 64 ||
        n_slices * n_rows * n_cols * es > UINT32_MAX / 4 ||
        (a->dtype == PL_E2M1 && n_cols % 2 != 0))
        return false;
    p->n_rows = (uint32_t)n_rows;
    p->n_cols = (uint32_t)n_cols;
    p->swizzle = choose_swizzle(a, (uint32_t)pl_shared_bytes(a->dtype, p->n_cols), &u);
    const uint32_t span = pl_swizzle_span(p->swizzle);
    p->panel_elems = span != 0 ? span * 8 / bits : plain_panel(a, p->n_cols, es, &u);
    p->row_bytes = (uint32_t)pl_shared_bytes(a->dtype, p->panel_elems);
    p->panel_bytes = p->n_rows * p->row_bytes;
    p->align_bytes = span != 0 ? 8 * span : u.has_copies ? 128 : 16;
    if (p->panel_elems != p->n_cols && p->n_rows > 1)
        p->panel_bytes = round_up(p->panel_bytes, p->align_bytes);
    p->slice_bytes = p->panel_bytes * (p->n_cols / p->panel_elems);
    if (n_slices > 1 && rank > 2)
        p->slice_bytes =
            round_up(p->slice_bytes, span != 0 || p->slice_bytes >= 128 ? p->align_bytes : 16);
    p->n_bytes = p->slice_bytes * (uint32_t)n_slices;
    return true;
}

static void add_area(struct pl_lower *l, const char *name, uint32_t offset, uint32_t n_bytes,
                     uint32_t align)
{
    struct pl_plan_area *a = pl_vec_push(l->arena, &l->plan->areas);
    if (a != NULL)
        *a = (struct pl_plan_area){name, offset, n_bytes, align};
}

/* "smem3" */
static const char *array_name(struct pl_lower *l, uint32_t id)
{
    struct pl_buf name;
    pl_buf_init(&name, l->arena, 16);
    pl_buf_puts(&name, "smem");
    pl_buf_u64(&name, id);
    return name.text;
}

static uint32_t place_arrays(struct pl_lower *l, uint32_t at)
{
    const struct pl_fn *fn = l->fn;
    uint32_t aligns = 0;
    for (uint32_t id = 1; id < fn->arrays.n;
         id++) { /* a union is as large and as aligned as its neediest member */
        struct pl_smem_place *p = &l->places[id], *o = &l->places[pl_ir_memory_of(fn, id)];
        if (fn->arrays.data[id].space != PL_SPACE_SMEM || p == o)
            continue;
        o->n_bytes = p->n_bytes > o->n_bytes ? p->n_bytes : o->n_bytes;
        o->align_bytes = p->align_bytes > o->align_bytes ? p->align_bytes : o->align_bytes;
    }
    for (uint32_t id = 1; id < fn->arrays.n; id++)
        aligns |= l->places[id].align_bytes;
    for (uint32_t align = 1024; align >= 16; align /= 2)
        for (uint32_t id = 1; (aligns & align) != 0 && id < fn->arrays.n; id++) {
            struct pl_smem_place *p = &l->places[id];
            if (fn->arrays.data[id].space != PL_SPACE_SMEM || pl_ir_memory_of(fn, id) != id ||
                p->align_bytes != align)
                continue;
            at = round_up(at, align);
            p->offset_bytes = at;
            add_area(l, array_name(l, id), at, p->n_bytes, align);
            at += p->n_bytes;
        }
    for (uint32_t id = 1; id < fn->arrays.n; id++)
        if (fn->arrays.data[id].space == PL_SPACE_SMEM)
            l->places[id].offset_bytes = l->places[pl_ir_memory_of(fn, id)].offset_bytes;
    return at;
}

/* False when an array alone is beyond all measure; whether the whole fits is checked when the scratch area is known. */
bool pl_smem_map(struct pl_lower *l)
{
    const struct pl_fn *fn = l->fn;
    for (uint32_t id = 1; id < fn->arrays.n; id++)
        if (fn->arrays.data[id].space == PL_SPACE_SMEM && !arrange(l, id))
            return false;
    uint32_t at = place_arrays(l, 0);
    at = round_up(at, 8);
    const uint32_t first_barrier = at;
    for (uint32_t g = 1; g < fn->groups.n; g++) {
        l->bar_offsets[g] = at;
        at += 8 * (uint32_t)fn->groups.data[g].n_barriers;
    }
    if (at != first_barrier)
        add_area(l, "barriers", first_barrier, at - first_barrier, 8);
    if (l->plan->launch.tmem_columns != 0) {
        l->tmem_slot_offset = at;
        add_area(l, "tmem", at, 8, 8);
        at += 8;
    }
    l->scratch_offset = round_up(at, 16);
    return true;
}
