/*
 * Warp-level matrix operations: a step multiplies 16 rows by 8 columns over 32 bytes of K. The four warps of a unit lie along the rows;
 * operands and accumulators are registers of the layouts MMA_A, MMA_B and MMA_ACC, whose chunks follow each other as a step takes them.
 */
#include "src/plan/tensor/mma.h"

#include "base/debug.h"
#include "src/plan/elem.h"
#include "src/plan/memory/mem.h"
#include "src/plan/tensor/frag.h"

enum { STEP_BITS = 256, TILE_ROWS = 64, TILE_COLS = 8, A_WORDS = 4, B_WORDS = 2 };

enum pl_stype pl_matrix_operand_type(pl_dtype t)
{
    return t == PL_F16    ? PL_ST_f16
           : t == PL_BF16 ? PL_ST_bf16
           : t == PL_E4M3 ? PL_ST_e4m3
           : t == PL_E5M2 ? PL_ST_e5m2
           : t == PL_I8   ? PL_ST_s8
                          : PL_ST_tf32;
}

pl_reg *pl_matrix_operand_words(struct pl_lower *l, uint32_t val, pl_layout_kind kind)
{
    const struct pl_op *op = pl_ir_op(l->fn, val);
    const struct pl_lval v = pl_lval_of(l, val);
    const struct pl_lay lay = pl_lay_frag(pl_frag_of(kind, pl_dtype_bits(op->dtype)), &op->shape);
    pl_reg *words = pl_arena_array(l->arena, lay.n_chunks, sizeof *words);
    for (uint32_t k = 0; words != NULL && k < lay.n_chunks; k++)
        pl_regs_to_words(l, &v, lay.vec, k, &words[k]);
    return words;
}

/* The accumulators that the first step adds to. */
static struct pl_opnd *start_values(struct pl_lower *l, uint32_t val, const struct pl_lval *out)
{
    const struct pl_lval v = pl_lval_of(l, val);
    struct pl_opnd *regs = pl_arena_array(l->arena, out->n_regs, sizeof *regs);
    for (uint32_t i = 0; regs != NULL && i < out->n_regs; i++)
        regs[i] = pl_opnd_reg(pl_build_in_reg(&l->b, PL_ST_b32, pl_lval_unit(l, &v, out->rep, i)));
    return regs;
}

static struct pl_opnd list_of(struct pl_lower *l, const pl_reg *regs, uint32_t n)
{
    struct pl_opnd elems[A_WORDS];
    for (uint32_t i = 0; i < n; i++)
        elems[i] = pl_opnd_reg(regs[i]);
    return pl_build_list(&l->b, elems, n);
}

void pl_lower_mma(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    const pl_dtype xt = pl_ir_op(l->fn, op->args[0])->dtype,
                   yt = pl_ir_op(l->fn, op->args[1])->dtype;
    const uint32_t k_elems = (uint32_t)pl_ir_op(l->fn, op->args[0])->shape.d[1],
                   n_steps = k_elems / (STEP_BITS / (uint32_t)pl_dtype_bits(xt)),
                   n_blocks = (uint32_t)op->shape.d[0] / TILE_ROWS,
                   n_cols = (uint32_t)op->shape.d[1] / TILE_COLS;
    const pl_reg *x = pl_matrix_operand_words(l, op->args[0], PL_LAYOUT_MMA_A),
                 *y = pl_matrix_operand_words(l, op->args[1], PL_LAYOUT_MMA_B);
    struct pl_lval out = pl_lval_make(l, op->dtype, pl_lay_frag(PL_FRAG_WGMMA, &op->shape));
    const struct pl_opnd *c = start_values(l, op->args[2], &out);
    if (x == NULL || y == NULL || c == NULL || out.regs == NULL)
        return;
    for (uint32_t i = 0; i < out.n_regs; i++)
        out.regs[i] = pl_opnd_reg(pl_build_reg(&l->b, PL_RC_B32));
    const uint32_t per_tile = out.n_regs / (n_blocks * n_cols);
    for (uint32_t s = 0; s < n_steps; s++)
        for (uint32_t m = 0; m < n_blocks; m++)
            for (uint32_t n = 0; n < n_cols; n++) {
                const uint32_t tile = (m * n_cols + n) * per_tile;
                const struct pl_opnd *from = s == 0 ? c : out.regs;
                pl_build_step(&l->b,
                              &(struct pl_sdesc){
                                  .op = op->dtype == PL_F16 ? PL_STEP_mma_half : PL_STEP_mma,
                                  .type = (uint8_t)pl_matrix_operand_type(xt),
                                  .from = (uint8_t)pl_matrix_operand_type(yt),
                                  .n = 4,
                                  .opnds = {pl_build_list(&l->b, out.regs + tile, per_tile),
                                            list_of(l, x + (m * n_steps + s) * A_WORDS, A_WORDS),
                                            list_of(l, y + (s * n_cols + n) * B_WORDS, B_WORDS),
                                            pl_build_list(&l->b, from + tile, per_tile)}});
            }
    l->vals[id] = out;
}
