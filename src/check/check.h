#ifndef PL_SRC_CHECK_CHECK_H
#define PL_SRC_CHECK_CHECK_H
/*
 * Checks: every rule that a user can break, from tables, in a documented order. All violations are collected; nothing below runs when
 * there is one (a test proves that no text is written then).
 *
 * Order of pl_check(), which is observable through the report:
 *
 *   1. served     chip features that the target lacks, and options that this version traces but does not lower (2091..)
 *   2. spaces     each ref operand in a space its operation takes; the special rows of TMEM first (2001..)
 *   3. places     where an operation may stand: top level, role, warp (5001..)
 *   4. copies     TMA, bulk and element copies, async stores (3001..)
 *   5. tensor     tensor memory and matrix operations (4001..)
 *   6. sync       barriers, pipes, roles, levels of uniformity (5010..)
 *
 * pl_check_args() is the launch side (6000..6099) and needs no trace. The builder's own diagnostics (1xxx) come before all of these.
 */
#include "src/ir/ir.h"

/* The rules on a finished trace; diagnostics go to fn->diags. True when fn->diags holds no error, of the trace either. */
bool pl_check(struct pl_fn *fn);

/* All errors are of the phase `served`: the status is PL_E_UNSUPPORTED, else PL_E_INVALID. */
bool pl_check_is_unsupported(const struct pl_diags *ds);

/* Each phase alone, for tests. */
void pl_check_served(struct pl_fn *fn);
void pl_check_spaces(struct pl_fn *fn);
void pl_check_places(struct pl_fn *fn);
void pl_check_copies(struct pl_fn *fn);
void pl_check_tensor(struct pl_fn *fn);
void pl_check_tcgen05(struct pl_fn *fn); /* the second half of `tensor` */
void pl_check_sync(struct pl_fn *fn);

/* Calls f for each op of the trace in program order. */
void pl_check_walk(struct pl_fn *fn, void (*f)(struct pl_fn *fn, uint32_t id, void *user),
                   void *user);

/* ---- launch arguments ---- */

struct pl_args_request {
    const pl_kernel *kernel;
    const void *options; /* as pl_request.options */
    const pl_arg *args;
    size_t n_args;
    const pl_device_info *device; /* for expect_shape; may be NULL */
    const char *file;             /* the caller's place; NULL: unknown */
    int line;
};

/*
 * Count, kind, presence, rank, dtype, extents, address, required facts, expected shapes, aliasing: in this order, all of them. ds NULL:
 * only the answer, at the first violation, without allocating (the warm path). Reads nothing but the request.
 */
bool pl_check_args(const struct pl_args_request *q, struct pl_diags *ds);
/* An output with an extent of 0: success without a launch. Arguments are valid. */
bool pl_args_are_empty(const pl_kernel *kernel, const pl_arg *args);
#endif
