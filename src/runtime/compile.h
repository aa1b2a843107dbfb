#ifndef PL_RUNTIME_COMPILE_H
#define PL_RUNTIME_COMPILE_H
/*
 * From a request to loaded code: trace, check, plan, emit, assemble, load, in one visible function each for the text
 * (pl_text_build, no device) and for the whole (pl_variant_build).
 */
#include "src/ir/ir.h"
#include "src/plan/plan.h"
#include "src/runtime/ask.h"
#include "src/runtime/launch.h"

/* One compilation. Everything lives in the arena, which is freed when the variant is loaded. */
struct pl_text {
    struct pl_arena *arena;
    struct pl_diags diags;
    struct pl_fn fn;
    struct pl_plan plan;
    struct pl_blob ptx; /* NUL behind it */
    uint16_t version;   /* .version, 10 * major + minor */
    char target[16];    /* "sm_90a" */
    char entry[64];     /* "pl_scale_1f2e3d4c" */
    bool is_from_disk;
    struct pl_build_ns ns;
};

/*
 * Trace, check, plan and emit. Nothing is emitted for a request that breaks a rule, and all its violations are told.
 *
 *   t     out  in `arena`
 *   kind  PL_TEXT_TRACE and PL_TEXT_PLAN stop before what they do not need
 *
 * The entry's name ends in eight digits of a hash of the text itself, so that kernels with one text are one module in every
 * process.
 *
 * Errors   the diagnostics of the checks; PL_E_NOMEM
 */
PL_MUST_CHECK pl_status pl_text_build(struct pl_text *t, const struct pl_ask *ask,
                                      struct pl_arena *arena, pl_text_kind kind,
                                      struct pl_call *call);

/* The whole way. The variant is loaded in the CUDA context of the run's place, and not yet published. */
PL_MUST_CHECK pl_status pl_variant_build(struct pl_variant **out, const struct pl_ask *ask,
                                         struct pl_run *run);

#endif
