#ifndef PL_SRC_PLAN_MEMORY_MAP_H
#define PL_SRC_PLAN_MEMORY_MAP_H
/* Tensor maps of the copies of a kernel. */
#include "src/plan/memory/access.h"

/* Generic address of the map, which is added to the plan when it is new there. */
struct pl_opnd pl_map_address(struct pl_lower *l, const struct pl_plan_map *m);
/* Coordinates of an element of a GMEM ref, innermost first; only the constants of `at` count. */
struct pl_opnd pl_map_coords(struct pl_lower *l, uint32_t ref, const struct pl_coord *at);
/* The view's axes are axes of its array, in order. */
bool pl_view_axes_rise(const struct pl_ref_info *r);
/* Rows of a GMEM view are runs of memory that begin at multiples of 16 bytes, as the copy engine wants them. */
bool pl_view_has_rows(const struct pl_lower *l, uint32_t ref);
#endif
