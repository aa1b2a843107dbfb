#ifndef PL_SRC_PLAN_TENSOR_MATRIX_H
#define PL_SRC_PLAN_TENSOR_MATRIX_H
/* Fragments to and from shared memory by whole matrices. */
#include "src/plan/lower.h"

/* How a fragment lies in shared memory, for the warp's matrix moves: not so, along its rows, across them. */
enum pl_matrix_way { PL_MATRIX_NONE, PL_MATRIX_ROWS, PL_MATRIX_TRANSPOSED };
enum pl_matrix_way pl_matrix_way(const struct pl_lower *l, uint32_t ref, const struct pl_lay *lay,
                                 bool is_load);
struct pl_matrix_words {
    pl_reg *words; /* one a chunk, 32 bits */
    bool is_load;
};
void pl_matrix_move(struct pl_lower *l, uint32_t ref, const struct pl_lay *lay,
                    enum pl_matrix_way way, struct pl_matrix_words w);
#endif
