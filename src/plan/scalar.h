#ifndef PL_SRC_PLAN_SCALAR_H
#define PL_SRC_PLAN_SCALAR_H
/* Rank-0 values: dtypes in registers, parameters, special registers, affine offsets, extents and strides. */
#include "src/plan/lower.h"

enum pl_stype pl_stype_of(pl_dtype t); /* in registers: i8 is s32, f16 is f16, pred is pred */
enum pl_stype pl_stype_bits(enum pl_rep rep); /* b16, b32, b64, pred: for moves */
enum pl_rep pl_rep_of(pl_dtype t, uint32_t vec);
uint32_t pl_elem_bytes(pl_dtype t);
/* Bytes of n elements in shared memory, where 4-bit ones lie in pairs and those of 6 bits in bytes. */
int64_t pl_shared_bytes(pl_dtype t, int64_t n);
uint32_t pl_regs_per_chunk(enum pl_rep rep, uint32_t vec);
/* A constant of dtype t as an operand: integer value or float value. */
struct pl_opnd pl_const_of(pl_dtype t, int64_t i, double f);

pl_reg pl_lower_sreg(struct pl_lower *l, enum pl_ssreg r);
struct pl_opnd pl_lower_rank(struct pl_lower *l);      /* thread in its unit, u32 */
struct pl_opnd pl_lower_warpgroup(struct pl_lower *l); /* u32 */
pl_reg pl_lower_leader(struct pl_lower *l);            /* predicate */
pl_reg pl_lower_warp_leader(struct pl_lower *l);       /* of each warp */
pl_reg pl_lower_param(struct pl_lower *l, struct pl_plan_param p);
uint32_t pl_lower_param_index(struct pl_lower *l, struct pl_plan_param p);
struct pl_opnd pl_lower_scalar(struct pl_lower *l, uint32_t val); /* operand of a rank-0 value */
/* Type of a rank-0 integer value's operand: s32, u32, s64, u64. */
enum pl_stype pl_lower_int_type(const struct pl_lower *l, uint32_t val);
/* konst + terms as `t` (s32 or s64). */
struct pl_opnd pl_lower_affine(struct pl_lower *l, const struct pl_affine *a, enum pl_stype t);
struct pl_opnd pl_lower_affine_on(struct pl_lower *l, const struct pl_affine *a, enum pl_stype t,
                                  struct pl_opnd sum); /* the same, added to sum */
bool pl_affine_is_const(const struct pl_affine *a, int64_t *v);
bool pl_affine_is_entry(struct pl_lower *l, const struct pl_affine *a); /* all known in the entry */
bool pl_val_is_nonneg(const struct pl_lower *l, uint32_t val);          /* of rank 0, an integer */
bool pl_affine_is_nonneg(const struct pl_lower *l, const struct pl_affine *a);
bool pl_affine_same(const struct pl_affine *x, const struct pl_affine *y);
/* Index type of a GMEM array: s32 where the fact I32 holds, else s64. */
enum pl_stype pl_lower_index_type(const struct pl_lower *l, const struct pl_array *a);
/* The extents of two arrays are known to be the same numbers, axis by axis. */
bool pl_has_extents_of(const struct pl_lower *l, const struct pl_array *x,
                       const struct pl_array *y);
struct pl_opnd pl_lower_extent(struct pl_lower *l, const struct pl_array *a, int axis);
/* As its own parameter, though another's may be the same number. */
struct pl_opnd pl_lower_own_extent(struct pl_lower *l, const struct pl_array *a,
                                   int axis); /* in the index type */
struct pl_opnd pl_lower_stride(struct pl_lower *l, const struct pl_array *a,
                               int axis); /* elements, index type */
bool pl_array_has_fact(const struct pl_lower *l, const struct pl_array *a, pl_fact fact);

struct pl_lval pl_lval_scalar(pl_dtype t, struct pl_opnd o);
#endif
