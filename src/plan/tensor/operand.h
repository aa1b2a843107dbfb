#ifndef PL_SRC_PLAN_TENSOR_OPERAND_H
#define PL_SRC_PLAN_TENSOR_OPERAND_H
/* Operands of the tensor core in shared memory. */
#include "src/plan/memory/smem.h"

struct pl_operand {
    const struct pl_smem_place *place;
    pl_dtype dtype;
    uint32_t elem_bytes;
    bool is_tcgen05;  /* else of wgmma */
    bool is_across;   /* K is the array's row axis */
    uint32_t first;   /* elements of the start in its panel, along K (0 when across) */
    pl_reg low, high; /* words of the descriptor of the panel's begin at the first element */
};
uint32_t pl_operand_step_elems(pl_dtype t); /* of K that one instruction takes */
/* k_axis: of the ref. False when the tensor core cannot read it so, which is reported. */
bool pl_operand_make(struct pl_lower *l, const struct pl_op *op, uint32_t ref, int k_axis,
                     struct pl_operand *o);
pl_reg pl_rows_desc(struct pl_lower *l, struct pl_opnd addr); /* rows of 16 bytes; for copies */
/* The descriptor of block `block` of 64 along M (0 for the second operand, or for all of M) and step `k`. */
pl_reg pl_operand_desc(struct pl_lower *l, const struct pl_operand *o, uint32_t block, uint32_t k);
#endif
