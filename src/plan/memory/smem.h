#ifndef PL_SRC_PLAN_MEMORY_SMEM_H
#define PL_SRC_PLAN_MEMORY_SMEM_H
/* The shared-memory map. */
#include "src/plan/lower.h"

/* Where an SMEM array lies: panels of panel_elems columns; in a panel, rows of row_bytes; panels of one 2-D slice follow each
 * other; slices (all leading axes) follow in row-major order. byte ^ swizzle(byte) on the absolute address. */
struct pl_smem_place {
    uint32_t offset_bytes, n_bytes, align_bytes;
    uint32_t n_rows, n_cols, panel_elems;
    uint32_t row_bytes, panel_bytes, slice_bytes;
    enum pl_plan_swizzle swizzle;
    bool is_placed;
};

bool pl_smem_map(struct pl_lower *l);
uint32_t pl_swizzle_span(enum pl_plan_swizzle s); /* bytes; 0 for none */
#endif
