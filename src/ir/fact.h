#ifndef PL_SRC_IR_FACT_H
#define PL_SRC_IR_FACT_H
/* Facts of a tensor (enum pl_fact): what the checks, the request key and the variants of a kernel agree on. */
#include <plaunch/launch.h>

/*
 * The largest extent and offset of PL_FACT_I32. Bodies that rely on it compute the ends of windows in 32 bits before they compare
 * them with the extent, so room is left below 2^31 for a window that begins inside the tensor and ends outside: 2^20 elements, more
 * than four times what an SMEM or register tile can hold.
 */
enum { PL_FACT_I32_MOST = INT32_MAX - (1 << 20) };

/* The facts in `which` that the tensor has. */
pl_fact_set pl_fact_among(const pl_tensor *t, pl_fact_set which);
/* What a body is told of an array, of the facts of its variant: to which group it belongs does not matter there. */
pl_fact_set pl_fact_of_array(pl_fact_set facts);
const char *pl_fact_text(
    pl_fact fact); /* "the address and the strides are multiples of 16 bytes" */
#endif
