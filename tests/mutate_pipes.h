#ifndef PL_TESTS_MUTATE_PIPES_H
#define PL_TESTS_MUTATE_PIPES_H
/* The kernels of pipes.h as cases: name(stages,lag); their shape is (tiles, 16, 64 * steps), f32. */
#include "tools/case.h"

extern const struct pl_case_kernel mutate_pipes[];
extern const size_t mutate_n_pipes;
#endif
