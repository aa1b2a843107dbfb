#ifndef PL_SRC_IR_FACT_H
#define PL_SRC_IR_FACT_H
/* Facts of a tensor (enum pl_fact): what the checks, the request key and the variants of a kernel agree on. */
#include <plaunch/launch.h>

/* The facts in `which` that the tensor has. */
pl_fact_set pl_fact_among(const pl_tensor *t, pl_fact_set which);
const char *pl_fact_text(
    pl_fact fact); /* "the address and the strides are multiples of 16 bytes" */
#endif
