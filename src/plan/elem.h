#ifndef PL_SRC_PLAN_ELEM_H
#define PL_SRC_PLAN_ELEM_H
/* Values in registers, and operations on one register of them. */
#include "src/plan/lower.h"

struct pl_lval pl_lval_make(struct pl_lower *l, pl_dtype t,
                            struct pl_lay lay); /* registers not yet made */
struct pl_opnd pl_lval_unit(struct pl_lower *l, const struct pl_lval *v, enum pl_rep rep,
                            uint32_t i); /* register i, splat adapted */
struct pl_opnd pl_lval_elem(struct pl_lower *l, const struct pl_lval *v,
                            uint32_t i); /* element i, unpacked */
/* The elements of a chunk-wise list back into registers of v's rep. */
struct pl_opnd pl_pack_halves(struct pl_lower *l, struct pl_opnd lo, struct pl_opnd hi);
void pl_lval_set_elems(struct pl_lower *l, struct pl_lval *v, const struct pl_opnd *elems);
struct pl_opnd pl_elem_binary(struct pl_lower *l, pl_op2 op, pl_dtype t, enum pl_rep rep,
                              struct pl_opnd x, struct pl_opnd y);
struct pl_opnd pl_elem_to_f32(struct pl_lower *l, pl_dtype from, struct pl_opnd x);
struct pl_opnd pl_elem_from_f32(struct pl_lower *l, pl_dtype to, struct pl_opnd x);
struct pl_opnd pl_elem_canonical(struct pl_lower *l, pl_dtype t,
                                 struct pl_opnd x); /* re-extend 8- and 16-bit integers */
struct pl_opnd pl_elem_identity(pl_op2 op, pl_dtype t);

struct pl_lval pl_lval_of(struct pl_lower *l, uint32_t val); /* operand of an op: constants too */
#endif
