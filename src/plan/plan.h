#ifndef PL_SRC_PLAN_PLAN_H
#define PL_SRC_PLAN_PLAN_H
/*
 * A plan: everything about a kernel that was decided, and nothing left to decide. It is made from a traced and checked
 * function (struct pl_fn), printed by jit/emit.h, launched by src/runtime. It names no instruction of any machine language
 * and no symbol of any driver, has a text form that parses back, and holds no address, no path, no time and no dynamic extent.
 *
 * Its parts, in the order in which they are decided: parameters (what the host passes), tensor maps (what the host encodes),
 * shared memory (who lies where), launch facts, steps (src/plan/step.h: one machine action each), notes.
 *
 * Everything lives in the arena given to pl_plan_make; strings too.
 */
#include "base/arena.h"
#include "base/buf.h"
#include "base/diag.h"
#include "base/vec.h"
#include "src/plan/step.h"

#include <plaunch/core.h>

struct pl_fn;

/* ---- kernel parameters --------------------------------------------------------------------------------------------- */

enum pl_plan_param_kind {
    PL_PLAN_ADDRESS,    /* u64 address of tensor argument `arg` (0 when absent) */
    PL_PLAN_EXTENT,     /* extent `axis` of tensor argument `arg`, elements */
    PL_PLAN_STRIDE,     /* stride `axis` of tensor argument `arg`, elements */
    PL_PLAN_SCALAR,     /* scalar argument `arg`, its own bits, n_bytes wide */
    PL_PLAN_TENSOR_MAP, /* 128 bytes: descriptor `map` of the plan, encoded */
    PL_PLAN_GRID, /* u32: logical grid extent `axis` when the host folded y and z into x (see below), else 0 */
    PL_PLAN_WORKSPACE, /* u64 address of the launch's workspace */
    PL_PLAN_PARAM_KIND_COUNT
};
extern const char *const pl_plan_param_names[PL_PLAN_PARAM_KIND_COUNT]; /* of the text form */

/*
 * One parameter of the entry. n_bytes is 4, 8 or 128; integers are little-endian two's complement, truncated to n_bytes (the
 * fact that allowed 4 says that they fit). Parameters are in order of offset, 128-byte ones first, without gaps within a size.
 *
 * Folding: a grid whose y or z exceeds 65,535 is launched as (x * y * z, 1, 1), and then *all* three PL_PLAN_GRID parameters
 * hold x, y and z; block number n is (n % x, n / x % y, n / (x * y)). Otherwise all three hold 0. A plan has these parameters
 * exactly when its body reads a block index or the number of blocks along y or z (can_fold_grid).
 */
struct pl_plan_param {
    enum pl_plan_param_kind kind;
    uint16_t arg; /* argument index */
    uint8_t axis;
    uint16_t map; /* index in pl_plan.maps */
    uint32_t offset_bytes, n_bytes, align_bytes;
};

/* ---- tensor maps --------------------------------------------------------------------------------------------------- */

enum { PL_PLAN_MAP_RANK = 5 };

enum pl_plan_swizzle {
    PL_PLAN_SWIZZLE_NONE,
    PL_PLAN_SWIZZLE_32,
    PL_PLAN_SWIZZLE_64,
    PL_PLAN_SWIZZLE_128,
    PL_PLAN_SWIZZLE_128_ATOM_32 /* 128 bytes in atoms of 32, not 16: 32-bit operands read across */
};

/*
 * One tensor map as data; each launch encodes it with the argument's address, extents and strides. Dimension 0 is the
 * innermost (fastest) one, as the driver counts. Dimension i of the map walks axis axes[i] of the argument: its extent is
 * shape[axes[i]], its stride strides[axes[i]] elements; axes[0] has stride 1. Axes of the tensor that no dimension walks
 * do not exist: every axis is in the list (rank is the tensor's rank).
 *
 * Invariants: 1 <= rank <= 5; 1 <= box_elems[i] <= 256; box_elems[0] * elem bytes is a multiple of 16, and at most the
 * swizzle span when there is a swizzle; element strides are 1, interleave is none, out-of-bounds elements read as zero.
 */
struct pl_plan_map {
    uint16_t arg;
    pl_dtype dtype; /* of the elements as the map sees them */
    uint8_t rank;
    uint8_t axes[PL_PLAN_MAP_RANK];
    uint16_t box_elems[PL_PLAN_MAP_RANK];
    enum pl_plan_swizzle swizzle;
    uint16_t l2_bytes; /* L2 promotion: 0, 64, 128, 256 */
    bool fills_nan;    /* out-of-bounds fill is NaN instead of zero (float types) */
};

/* ---- shared memory ------------------------------------------------------------------------------------------------- */

/* One area of the block's dynamic shared memory. */
struct pl_plan_area {
    const char *name; /* "smem3", "barriers", "scratch" */
    uint32_t offset_bytes, n_bytes, align_bytes;
};

/* ---- tensor memory ------------------------------------------------------------------------------------------------- */

/* Columns of one array. The block takes launch.tmem_columns of them, a power of two, in one go. */
struct pl_plan_columns {
    const char *name; /* "tmem3" */
    uint32_t first, n;
};

/* ---- launch -------------------------------------------------------------------------------------------------------- */

struct pl_plan_launch {
    uint32_t n_threads;    /* of a block, along x */
    uint32_t cluster[3];   /* CTAs; 1, 1, 1 without a cluster */
    uint32_t smem_bytes;   /* dynamic */
    uint32_t tmem_columns; /* of tensor memory; 0: none */
    uint32_t params_bytes;
    uint32_t max_registers; /* a thread's; 0: the assembler's choice */
    bool can_fold_grid;
    bool waits_for_predecessor; /* reads its inputs only after a programmatic dependency wait */
};

/* ---- the plan ------------------------------------------------------------------------------------------------------ */

struct pl_plan_note {
    const char *file; /* the op's place in the user's program; "" when unknown */
    int line;
    const char *text; /* a layout conversion, a lowering that was chosen and why */
};

struct pl_plan {
    const char *kernel; /* the kernel's name */
    uint16_t sm;        /* chip: 80, 90, 100, … */
    PL_VEC(struct pl_plan_param) params;
    PL_VEC(struct pl_plan_map) maps;
    PL_VEC(struct pl_plan_area) areas;      /* by offset */
    PL_VEC(struct pl_plan_columns) columns; /* by first column */
    struct pl_plan_launch launch;
    struct pl_steps steps;
    PL_VEC(struct pl_plan_note) notes;
};

/*
 * Decide everything.
 *
 *   fn      in   traced and checked without error
 *   arena   in   the plan's memory, and scratch; freed whole by the caller
 *   diags   out  limits found only here: shared memory, registers (rows of src/plan/plan_diag.def)
 *   out     out  the plan; complete when PL_OK
 *
 * Errors   PL_E_INVALID or PL_E_UNSUPPORTED with a diagnostic; PL_E_NOMEM
 * Threads  any; one per arena
 */
PL_MUST_CHECK pl_status pl_plan_make(const struct pl_fn *fn, struct pl_arena *arena,
                                     struct pl_diags *diags, struct pl_plan *out);

/* Text form of a plan, and back. A plan read back prints the same text and emits the same program. */
void pl_plan_print(const struct pl_plan *plan, struct pl_buf *out);

struct pl_plan_error {
    uint32_t line; /* from 1 */
    char text[160];
};
bool pl_plan_read(const char *text, size_t n_bytes, struct pl_arena *arena, struct pl_plan *out,
                  struct pl_plan_error *error);

/* Internal consistency: operand kinds and classes by step row, every register written before it is read on the straight
 * path, labels placed once, parameters and areas disjoint. Prints each fault; NULL-safe; true when there is none. */
bool pl_plan_verify(const struct pl_plan *plan, struct pl_buf *faults);
#endif
