#ifndef PL_RUNTIME_QUICK_H
#define PL_RUNTIME_QUICK_H
/*
 * A quick yes for the arguments of a warm launch. src/check/args.c has the rules; this has a narrower test that implies them
 * for ordinary tensors (present, not empty, below 2^31 elements, no negative or overlapping strides, byte ranges apart), and
 * finds the facts in the same pass. A no means only "ask the rules". A test compares the two on random arguments.
 */
#include <plaunch/launch.h>

/* True: pl_check_args() would say yes, expected shapes aside, and *facts is pl_facts_of(). */
bool pl_quick_args(const pl_kernel *kernel, const pl_arg *args, size_t n_args, pl_fact_set *facts);

/* True: every tensor has the shape that kernel->expect_shape wants. */
bool pl_quick_shapes(const pl_request *request);

#endif
