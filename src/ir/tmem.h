#ifndef PL_SRC_IR_TMEM_H
#define PL_SRC_IR_TMEM_H
/*
 * Arrays of tensor memory: 128 lanes of 32-bit columns. How the elements of an array lie in its columns follows from what the
 * program does with it, so nobody says it twice and check and plan agree.
 *
 * Source: PTX ISA, TensorCore 5th Generation Family Instructions: Tensor Memory; Matrix and Data Movement Shape
 */
#include "src/ir/ir.h"

enum pl_tmem_form {
    PL_TMEM_PACKED, /* as many elements a column as fit: what a matrix operation reads as its first operand, and all the rest */
    PL_TMEM_CELLS,  /* one element a column, in its low bits: accumulators */
    PL_TMEM_SCALES /* four scale factors along K a column, 32 rows a column, in every quarter of the lanes */
};

enum { PL_TMEM_UNIT_COLUMNS = 32 }; /* an allocation is a power of two of at least these */

enum pl_tmem_form pl_tmem_form_of(const struct pl_fn *fn, uint32_t array);
/* The array is used in two forms that exclude each other. */
bool pl_tmem_is_torn(const struct pl_fn *fn, uint32_t array);
uint32_t pl_tmem_elems_per_column(const struct pl_fn *fn, uint32_t array);
/* Columns of one slot; and of all slots of the array, rounded up to 4, so that every array begins at a multiple of 4. */
int64_t pl_tmem_slot_columns(const struct pl_fn *fn, uint32_t array);
int64_t pl_tmem_array_columns(const struct pl_fn *fn, uint32_t array);
/* Columns of all arrays; those that share memory count once. */
int64_t pl_tmem_total_columns(const struct pl_fn *fn);
/* The function uses tensor memory, or a tensor operation of two CTAs. */
bool pl_tmem_is_used(const struct pl_fn *fn);
bool pl_tmem_is_pair(const struct pl_fn *fn);
#endif
