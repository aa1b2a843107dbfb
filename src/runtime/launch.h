#ifndef PL_RUNTIME_LAUNCH_H
#define PL_RUNTIME_LAUNCH_H
/*
 * A launch of a built variant: the arguments become the kernel's parameter block, the grid is folded where the hardware's
 * limits ask for it, and the driver is called. No lock, no allocation, no environment.
 */
#include "src/runtime/ask.h"
#include "src/runtime/context.h"

/* One launch or preparation on its way: who asked, the thread's block, the place, the stream. */
struct pl_run {
    struct pl_call *call;
    struct pl_thread *thread;
    struct pl_place place;
    pl_stream stream;
    struct pl_memo *memo; /* where this launch is packed, and remembered */
};

/*
 * Fill the parameter block and the grid.
 *
 *   dims  logical grid, no extent below 1
 *   run   its place's CUDA context is made current when a tensor map must be encoded
 *
 * Errors   PL6132, PL6134, PL614x
 */
PL_MUST_CHECK pl_status pl_pack_params(struct pl_packed *out, const struct pl_variant *v,
                                       const struct pl_ask *ask, const pl_launch_dims *dims,
                                       struct pl_run *run);

/* Hand a packed launch to the driver, in the place's context. */
PL_MUST_CHECK pl_status pl_launch_packed(const struct pl_variant *v, struct pl_packed *packed,
                                         bool is_pdl, struct pl_run *run);

/* Pack and launch; the run's memo holds it afterwards, or is empty. */
PL_MUST_CHECK pl_status pl_launch_variant(struct pl_variant *v, const struct pl_ask *ask,
                                          const pl_launch_dims *dims, struct pl_run *run);

/* A call's last word: a request that broke a rule is counted and told to the event function. Gives st back. */
pl_status pl_run_end(struct pl_run *run, pl_status st);

/*
 * Find or build the variant of a request, and mark it as in use by this thread (thread->in_use) until that is cleared. A miss
 * loads in the run's place. The run's memo (if any) gets the entry.
 *
 * Errors   those of a build; PL6122 … PL6125
 */
PL_MUST_CHECK pl_status pl_variant_get(struct pl_variant **out, struct pl_ask *ask,
                                       struct pl_run *run);

#endif
