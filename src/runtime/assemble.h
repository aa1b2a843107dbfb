#ifndef PL_RUNTIME_ASSEMBLE_H
#define PL_RUNTIME_ASSEMBLE_H
/*
 * From PTX text to code that the driver loads. Which assembler serves is decided once per context:
 *
 *   ptx         emulated driver: the text itself is the code (stored and reloaded through the same disk cache)
 *   nvjitlink   in process, opened at run time
 *   ptxas       a process of its own (PL_ASSEMBLE_ISOLATED), never through a shell
 *   driver      cuLinkCreate / AddData / Complete: also yields a binary for the disk cache
 *   jit         the driver's loader compiles the text; nothing to cache
 *
 * A toolkit of a newer major than the driver is not used: its binaries may not load.
 */
#include "base/arena.h"
#include "src/runtime/call.h"
#include "src/runtime/store.h"

struct pl_driver;

struct pl_asm_request {
    const char *kernel;
    const char *target;  /* "sm_90a" */
    struct pl_blob text; /* NUL behind it */
    struct pl_arena *arena;
};

struct pl_asm_result {
    struct pl_blob code; /* in the arena; PTX has a NUL behind it */
    const char *notes;   /* the assembler's remarks that mean slow code; "" when none */
};

struct pl_assembler {
    char id[64]; /* name and version: part of the content key */
    pl_status (*run)(const struct pl_assembler *a, const struct pl_driver *driver,
                     const struct pl_asm_request *request, struct pl_asm_result *result,
                     struct pl_call *call);
    void *lib;         /* nvjitlink */
    char path[256];    /* ptxas */
    bool is_cacheable; /* its output is worth storing */
};

/* The best one for a driver. */
void pl_assembler_choose(struct pl_assembler *a, const struct pl_driver *driver);

/* ptxas of the driver's CUDA major or older, for PL_ASSEMBLE_ISOLATED; the identity stays itself. Error: PL7002. */
PL_MUST_CHECK pl_status pl_assembler_find_isolated(struct pl_assembler *a,
                                                   const struct pl_driver *driver,
                                                   struct pl_call *call);

/*
 * Errors   PL7001 refused, PL7004 nothing written, PL7002: PL_E_ASSEMBLER; PL_E_NOMEM
 */
PL_MUST_CHECK pl_status pl_assemble(const struct pl_assembler *a, const struct pl_driver *driver,
                                    const struct pl_asm_request *request,
                                    struct pl_asm_result *result, struct pl_call *call);

/* The error says that the text will not do, however often it is asked; an assembler that is absent or cut off may be back. */
bool pl_assembler_has_refused(const pl_error *e);

#endif
