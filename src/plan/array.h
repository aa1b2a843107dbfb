#ifndef PL_SRC_PLAN_ARRAY_H
#define PL_SRC_PLAN_ARRAY_H
/* Arrays across threads: the scratch area, and values brought to another layout through it. */
#include "src/plan/lower.h"

/* Bytes that an op needs of its unit's scratch part. */
uint32_t pl_scratch_need(const struct pl_lower *l, uint32_t id);
struct pl_opnd pl_scratch_addr(struct pl_lower *l, struct pl_opnd index,
                               uint32_t elem_bytes); /* of element `index` (u32) */
uint32_t pl_scratch_elem_bytes(pl_dtype t);
void pl_scratch_begin(struct pl_lower *l);   /* nobody reads it any more: it may be written */
void pl_scratch_publish(struct pl_lower *l); /* written: it may be read */
void pl_scratch_store(struct pl_lower *l, pl_dtype t, struct pl_opnd addr, struct pl_opnd elem);
struct pl_opnd pl_scratch_load(struct pl_lower *l, pl_dtype t, struct pl_opnd addr);
struct pl_opnd pl_scratch_load_peer(struct pl_lower *l, pl_dtype t,
                                    struct pl_opnd addr); /* of a CTA of the cluster */
/* First element of chunk k of a value, in row-major order. */
struct pl_opnd pl_chunk_index(struct pl_lower *l, const pl_shape *s, const struct pl_lay *lay,
                              uint32_t k);
/* Write a value's elements to scratch, row-major. */
void pl_scratch_write(struct pl_lower *l, const pl_shape *s, const struct pl_lval *v);
/* Chunk k of this layout has elements for this thread: a predicate, or none when for all. */
pl_reg pl_lay_guard(struct pl_lower *l, const struct pl_lay *lay, int64_t n_elems, uint32_t k);
/* A value that the caller needs in strided chunks (pl_scratch_need counted it). */
struct pl_lval pl_lval_strided(struct pl_lower *l, const pl_shape *s, const struct pl_lval *in);
/* The value in another layout, through scratch unless it is a trade (pl_scratch_need counted it). */
struct pl_lval pl_lval_relayout(struct pl_lower *l, const pl_shape *s, const struct pl_lval *in,
                                struct pl_lay lay);
#endif
