#ifndef PL_EMU_API_LAUNCH_H
#define PL_EMU_API_LAUNCH_H
/* Launches: from the arguments of the API to checked work. Threads: under the API lock. */
#include "emu/api/module.h"
#include "emu/api/work.h"

/* CTAs of the largest cluster that this function may have here; 1: the device has no clusters. */
int pl_function_max_cluster(const struct pl_function *f);
uint32_t pl_function_max_dynamic(const struct pl_function *f); /* bytes */
uint32_t pl_function_occupancy(const struct pl_function *f, uint32_t n_threads,
                               uint32_t dynamic_bytes);

/* The cluster of a launch: the attribute's, else the function's own, else 1 x 1 x 1. 912: not possible. */
CUresult pl_launch_cluster(const struct pl_function *f, const CUlaunchConfig *config,
                           struct pl_kernel_work *k);

/*
 * Work from a launch configuration: every limit checked, parameters copied.
 *
 *   ctx           context that it will run in
 *   config        dimensions, shared memory, attributes; its stream is not looked at
 *   params, extra as cuLaunchKernel takes them
 *   out           owns the parameter block
 */
CUresult pl_launch_prepare(struct pl_context *ctx, CUfunction func, const CUlaunchConfig *config,
                           void **params, void **extra, struct pl_work *out);
/* Copy parameters again into work that was prepared for the same function. */
CUresult pl_launch_params(const struct pl_function *f, void **params, void **extra,
                          struct pl_kernel_work *k);
#endif
