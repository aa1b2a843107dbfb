/*
 * matmul for chips whose matrix instructions are a warp's own (sm_80 to sm_89; sm_120 and sm_121): a tile of y a CTA, all of whose
 * warpgroups multiply.
 *
 *   loads      a ring of operand slots of 64 bytes of K, refilled while others are multiplied: by words that arrive later, or by
 *              tensor copies where the chip has them
 *   sums       in registers, 32 columns each; a step of the instruction at a time goes from a slot to registers, so that few hold
 *              operands
 *   epilogue   32 columns at a time through shared memory, where the slots were, and out in whole rows
 */
#include "kernels/matmul.h"

enum { PART_COLS = 32, STEP_BYTES = 32, MAX_PARTS = 4 };

/*
 * The chip, and its types. The largest tiles where tensor copies leave threads their registers, and only the smallest ones of what is
 * moved byte by byte.
 */
bool pl_mm_portable_serves(const pl_request *request, const struct pl_mm_config *p)
{
    const pl_dtype a = request->args[PL_MM_A].u.tensor.dtype;
    const int32_t arch = request->device->arch;
    const bool is_fp8 = a == PL_E4M3 || a == PL_E5M2, is_8_bit = pl_dtype_bits(a) == 8;
    const bool is_aligned =
        (request->facts & PL_FACT_ALIGN16) != 0 && (request->facts & PL_FACT_UNIT_STRIDE) != 0;
    const bool is_direct =
        is_aligned && (request->arrangement & (PL_MM_A_IS_ACROSS | PL_MM_B_IS_ACROSS)) == 0;
    return (arch < 90 || arch >= 120) && (arch >= 89 || !is_fp8) &&
           (p->tile_m <= 128 || (arch >= 120 && is_aligned)) &&
           (p->tile_m * p->tile_n <= 64 * 64 || !is_8_bit || is_direct);
}

/*
 * One operand: tiles of `rows` (of M or N) by depth. In SMEM K is the row axis when is_across: for 16-bit types alone, which the matrix
 * loads transpose; others that are stored so are transposed on their way in.
 */
struct operand {
    pl_ref plane, smem; /* smem: (stages, ...) */
    pl_val at;          /* row of the tile in the plane, in tiles */
    int32_t rows, depth, step;
    bool is_stored_across, is_across;
};

static pl_shape tile_shape(const struct operand *o, bool is_across)
{
    return is_across ? PL_SHAPE(o->depth, o->rows) : PL_SHAPE(o->rows, o->depth);
}

/* Elements moved one by one are there when their threads go on: more than two slots would hold code, not time. */
static int32_t n_slots(pl_builder *b, const struct pl_mm_config *p)
{
    const int32_t bits = pl_dtype_bits(pl_dtype_of(b, pl_param(b, PL_MM_A)));
    const bool is_aligned = pl_has_fact(b, PL_MM_A, PL_FACT_ALIGN16) &&
                            pl_has_fact(b, PL_MM_A, PL_FACT_UNIT_STRIDE),
               is_across = p->a_is_across || p->b_is_across;
    return (bits < 32 && !is_aligned) || (bits == 8 && is_across) ? 2 : p->stages;
}

static struct operand make_operand(pl_builder *b, const struct pl_mm_config *p,
                                   const struct pl_mm_place *at, bool is_a)
{
    const int32_t stages = n_slots(b, p);
    struct operand o = {.plane = pl_mm_plane(b, is_a ? PL_MM_A : PL_MM_B, at),
                        .at = is_a ? at->row : at->col,
                        .rows = is_a ? p->tile_m : p->tile_n,
                        .depth = p->tile_k,
                        .is_stored_across = (is_a ? p->a_is_across : p->b_is_across) != 0};
    const pl_dtype t = pl_dtype_of(b, o.plane);
    o.is_across = o.is_stored_across && pl_dtype_bits(t) == 16;
    const pl_shape s = tile_shape(&o, o.is_across);
    o.step = STEP_BYTES * 8 / pl_dtype_bits(t);
    o.smem = pl_smem(b, t, PL_SHAPE(stages, s.d[0], s.d[1]), pl_mma_transforms(b, t, s.d[1]));
    return o;
}

struct operands {
    struct operand a, b;
    int32_t rows;    /* of a warpgroup */
    int32_t n_parts; /* of the columns, each with sums of its own */
    int32_t cols;    /* of a part */
};

static void bring(pl_builder *b, pl_val k, pl_val slot, pl_bar full, void *user)
{
    const struct operands *both = user;
    for (int i = 0; i < 2; i++) {
        const struct operand *o = i == 0 ? &both->a : &both->b;
        const pl_offs at = o->is_stored_across ? PL_OFF(b, k, o->at) : PL_OFF(b, o->at, k);
        pl_ref from = pl_tile(b, o->plane, at, tile_shape(o, o->is_stored_across));
        if (o->is_stored_across != o->is_across)
            from = pl_transpose(b, from);
        pl_copy_gmem_to_smem(b, from, pl_at(b, o->smem, slot), full);
    }
}

/* Step s of a slot, from row `first` on: (n, step). */
static pl_ref part_of(pl_builder *b, const struct operand *o, pl_ref slot, pl_val first, int32_t n,
                      int32_t s)
{
    const int32_t k = s * o->step;
    if (o->is_across)
        return pl_transpose(b, pl_window(b, slot, PL_OFF(b, k, first), PL_SHAPE(o->step, n)));
    return pl_window(b, slot, PL_OFF(b, first, k), PL_SHAPE(n, o->step));
}

/* The slot's products added to the sums of the warpgroup, whose first row is `first`. */
static void multiply(pl_builder *b, const struct operands *both, pl_val slot, pl_val first,
                     const pl_ref *sums)
{
    const struct operand *x = &both->a, *y = &both->b;
    pl_ref x_slot = pl_at(b, x->smem, slot), y_slot = pl_at(b, y->smem, slot);
    pl_val v[MAX_PARTS];
    for (int32_t i = 0; i < both->n_parts; i++)
        v[i] = pl_load(b, sums[i]);
    for (int32_t s = 0; s < x->depth / x->step; s++) {
        pl_val left = pl_load(b, part_of(b, x, x_slot, first, both->rows, s));
        for (int32_t i = 0; i < both->n_parts; i++) {
            pl_ref right = part_of(b, y, y_slot, pl_lit_i(b, i * both->cols), both->cols, s);
            v[i] = pl_mma(b, left, pl_load(b, pl_transpose(b, right)), v[i]);
        }
    }
    for (int32_t i = 0; i < both->n_parts; i++)
        pl_store(b, sums[i], v[i]);
}

struct target {
    const struct pl_mm_config *p;
    const struct pl_mm_place *at;
    pl_ref stage, y;
    pl_val m; /* first row of the warpgroup */
    pl_shape s;
};

/* Part i of the columns. */
static void write_part(pl_builder *b, const struct target *t, pl_val i, pl_val sum)
{
    pl_val n = pl_add(b, pl_mul(b, t->at->col, t->p->tile_n), pl_mul(b, i, t->s.d[1]));
    const pl_offs mn = PL_OFF(b, t->m, n);
    pl_val v = pl_mm_epilogue(b, t->p, t->at, sum, mn, t->s);
    pl_wait_smem_to_gmem_read(b, 0);
    pl_store(b, t->stage, v);
    pl_commit_smem(b);
    pl_copy_smem_to_gmem(b, t->stage, pl_window(b, t->y, mn, t->s));
}

/* Part by part to y, through the memory of a's slots, which nobody reads any more. */
static void write_tile(pl_builder *b, const struct pl_mm_config *p, const struct pl_mm_place *at,
                       const struct operands *both, const pl_ref *sums)
{
    pl_ref y = pl_mm_plane(b, PL_MM_Y, at);
    const pl_dtype t = pl_dtype_of(b, y);
    const pl_shape s = PL_SHAPE(both->rows, both->cols);
    pl_ref all = pl_union(b, both->a.smem, t, PL_SHAPE(p->n_consumers, s.d[0], s.d[1]),
                          pl_mma_transforms(b, t, s.d[1]));
    pl_ref stage = pl_at(b, all, pl_warpgroup_id(b));
    pl_val m = pl_add(b, pl_mul(b, at->row, p->tile_m), pl_mul(b, pl_warpgroup_id(b), both->rows));
    const struct target out = {.p = p, .at = at, .stage = stage, .y = y, .m = m, .s = s};
    pl_val v[MAX_PARTS];
    for (int32_t i = 0; i < both->n_parts; i++)
        v[i] = pl_load(b, sums[i]);
    pl_bar_sync(b, PL_SCOPE_CTA);
    if (pl_mm_is_long(b, p)) {
        PL_FOR(b, i, 0, both->n_parts)
        {
            write_part(b, &out, i, pl_mm_choose(b, i, v, both->n_parts));
        }
    } else {
        for (int32_t i = 0; i < both->n_parts; i++)
            write_part(b, &out, pl_lit_i(b, i), v[i]);
    }
    pl_wait_smem_to_gmem(b, 0);
}

void pl_mm_portable_body(pl_builder *b, const struct pl_mm_config *p)
{
    pl_block_warpgroups(b, p->n_consumers);
    const struct pl_mm_problem q = pl_mm_problem_of(b, p);
    const struct pl_mm_place at =
        pl_mm_place_of(b, p, &q, pl_as_index(b, pl_param(b, PL_MM_Y), pl_program_id(b, 0)));
    struct operands both = {.a = make_operand(b, p, &at, true),
                            .b = make_operand(b, p, &at, false),
                            .rows = p->tile_m / p->n_consumers,
                            .n_parts = (p->tile_n + PART_COLS - 1) / PART_COLS};
    both.cols = p->tile_n / both.n_parts;
    const pl_dtype sum = pl_mm_acc_dtype(pl_dtype_of(b, both.a.plane));
    pl_ref sums[MAX_PARTS];
    for (int32_t i = 0; i < both.n_parts; i++)
        sums[i] =
            pl_regs(b, sum, PL_SHAPE(both.rows, both.cols), pl_layout_auto(), pl_cast(b, 0, sum));
    pl_val first = pl_mul(b, pl_warpgroup_id(b), both.rows);
    const pl_pipeline_desc d = {
        .stages = n_slots(b, p), .n_copies = 2, .lag = 1, .copies = bring, .user = &both};
    PL_PIPELINE(b, k, slot, pl_cdiv(b, q.k, p->tile_k), &d)
    {
        multiply(b, &both, slot, first, sums);
    }
    write_tile(b, p, &at, &both, sums);
}
