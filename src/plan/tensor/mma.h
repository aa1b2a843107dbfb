#ifndef PL_SRC_PLAN_TENSOR_MMA_H
#define PL_SRC_PLAN_TENSOR_MMA_H
/* Operands of warp-level matrix operations. */
#include "src/plan/lower.h"

enum pl_stype pl_matrix_operand_type(pl_dtype t); /* f32 as tf32 */
/* All 32-bit words of an operand in registers, in the order of its chunks; a value that is the same everywhere is spread. */
pl_reg *pl_matrix_operand_words(struct pl_lower *l, uint32_t val, pl_layout_kind kind);
#endif
