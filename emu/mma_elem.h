#ifndef PL_EMU_MMA_ELEM_H
#define PL_EMU_MMA_ELEM_H
/* Elements of matrix operands in 16-byte chunks of shared memory, as the f32 or s32 that the product wants. */
#include "jit/ptx/ptx.h"

#include <stdbool.h>
#include <stdint.h>

enum pl_mma_elem {
    PL_MMA_F16,
    PL_MMA_BF16,
    PL_MMA_TF32, /* the low 13 bits of a word are dropped */
    PL_MMA_E4M3,
    PL_MMA_E5M2,
    PL_MMA_S8,
    PL_MMA_U8,
    PL_MMA_B1,
};

union pl_mma_value {
    float f;
    int32_t i;
    uint32_t bits;
};

enum pl_mma_elem pl_mma_elem_of(uint8_t ptx_type);
unsigned pl_mma_elem_bytes(enum pl_mma_elem e); /* .b1: 1, of 8 elements */

/* 16 bytes to 16 / bytes values; is_negated: floats change their sign. */
void pl_mma_decode(enum pl_mma_elem e, const uint8_t *chunk, bool is_negated,
                   union pl_mma_value *out);

#endif
