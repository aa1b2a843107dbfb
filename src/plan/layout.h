#ifndef PL_SRC_PLAN_LAYOUT_H
#define PL_SRC_PLAN_LAYOUT_H
/* The layout walk: which layout each array value has. */
#include "src/plan/lower.h"

void pl_layout_walk(struct pl_lower *l);
struct pl_lay pl_lay_strided(int64_t n_elems, uint32_t vec, uint32_t n_threads);
/* Widest access of a ref along an axis that alignment proves, elements; 1..16 bytes. pl_access_vec: along the last one. */
uint32_t pl_access_run(const struct pl_lower *l, uint32_t ref, int axis);
uint32_t pl_access_vec(const struct pl_lower *l, uint32_t ref);
/* Fewest elements of a chunk that st.async can move: 4 bytes. */
uint32_t pl_send_min_vec(pl_dtype t);
#endif
