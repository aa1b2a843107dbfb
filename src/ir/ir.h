#ifndef PL_SRC_IR_IR_H
#define PL_SRC_IR_IR_H
/*
 * The trace of a kernel body: what the program means. One struct pl_fn flows trace -> check -> plan -> emit; it also carries the
 * request that it was traced for.
 *
 * Everything is a table with typed ids (index; 0 = none): ops, blocks, refs, arrays, barrier groups, pipes. A pl_val's id is the id of
 * the op that makes it; a pl_ref's id indexes refs; a pl_bar's id indexes bars. Ops stand in blocks; a block's ops are a list in program
 * order (PL_IR_FOREACH); a region op owns one or two blocks. Ids grow in program order, depth first.
 *
 * Requirements on future changes: ids survive growth, pointers into the tables do not (take them again after adding an op). Nothing
 * here knows PTX or CUDA.
 */
#include "base/arena.h"
#include "base/diag.h"
#include "base/vec.h"

#include <plaunch/launch.h>
#include <plaunch/ops.h>
#include <plaunch/trace.h>

#include <stdbool.h>
#include <stdint.h>

/* ---- tables of facts ---- */

enum pl_space {
    PL_SPACE_NONE,
#define SPACE(id, name, is_plain, is_local) PL_SPACE_##id,
#include "src/ir/space.def"
#undef SPACE
    PL_SPACE_COUNT
};
struct pl_space_info {
    const char *name;
    bool has_plain_access; /* plain load and store exist */
    bool is_local;         /* allocated by the body */
};
extern const struct pl_space_info pl_space_infos[PL_SPACE_COUNT];

#define PL_FEATURE_LIST(X)                                                                         \
    X(CP_ASYNC, "cp.async")                                                                        \
    X(MBARRIER, "mbarrier")                                                                        \
    X(MMA_SYNC, "mma.sync")                                                                        \
    X(TMA, "TMA")                                                                                  \
    X(CLUSTER, "thread block clusters")                                                            \
    X(STAS, "st.async")                                                                            \
    X(WGMMA, "wgmma")                                                                              \
    X(TCGEN05, "tcgen05 and tensor memory")                                                        \
    X(FP8, "fp8 conversion")                                                                       \
    X(FP4, "fp4 formats")                                                                          \
    X(CLC, "cluster launch control")                                                               \
    X(SETMAXNREG, "setmaxnreg")                                                                    \
    X(PDL, "programmatic dependent launch")                                                        \
    X(BF16, "bf16 arithmetic")                                                                     \
    X(TF32_RN, "rounding to tf32")                                                                 \
    X(STMATRIX, "stmatrix")                                                                        \
    X(MAP_BIT, "the tensor map bit of Blackwell")
enum pl_feature_bit {
#define PL_FEATURE_(id, text) PL_FEATURE_BIT_##id,
    PL_FEATURE_LIST(PL_FEATURE_)
#undef PL_FEATURE_
        PL_FEATURE_COUNT
};
enum pl_feature {
#define PL_FEATURE_(id, text) PL_F_##id = 1 << PL_FEATURE_BIT_##id,
    PL_FEATURE_LIST(PL_FEATURE_)
#undef PL_FEATURE_
};

/* Facts of a chip (target.def). The `a` and `f` suffixes of a PTX target are the plan's choice, from the forms used. */
struct pl_target {
    int32_t arch;
    int64_t smem_bytes;     /* most dynamic shared memory of a block */
    int32_t max_cluster;    /* CTAs; 1: no clusters */
    int32_t n_tmem_columns; /* 0: no tensor memory */
    int32_t n_sms;          /* of a usual board */
    int32_t max_threads_per_sm;
    uint32_t features; /* PL_F_* */
};
extern const struct pl_target pl_targets[];
extern const size_t pl_n_targets;
const struct pl_target *pl_target_find(int32_t arch); /* NULL when that chip is not served */

enum pl_opcode {
    PL_OP_NONE,
#define OP(id, name, result, n_args, effects, place, spaces, features) PL_OP_##id,
#include "src/ir/ops.def"
#undef OP
    PL_OP_COUNT
};
enum pl_op_result { PL_RESULT_NONE, PL_RESULT_VAL, PL_RESULT_REF, PL_RESULT_BAR, PL_RESULT_REGION };
enum pl_op_effect {
    PL_EFF_PURE = 0,
    PL_EFF_READ = 1,
    PL_EFF_WRITE = 2,
    PL_EFF_SYNC = 4,
    PL_EFF_CTRL = 8
};
enum pl_op_place {
    PL_PLACE_ANY,
    PL_PLACE_UNIT,
    PL_PLACE_ISSUE,
    PL_PLACE_COLLECT,
    PL_PLACE_WARP,
    PL_PLACE_ROLE,
    PL_PLACE_TOP
};
enum { PL_OP_MAX_ARGS = 10, PL_OP_MAX_REFS = 6 };
struct pl_op_info {
    const char *name;
    enum pl_op_result result;
    int32_t min_args, max_args;
    uint32_t effects; /* pl_op_effect */
    enum pl_op_place place;
    uint32_t spaces[PL_OP_MAX_REFS]; /* bit pl_space: allowed in that ref operand */
    uint32_t features;               /* PL_F_*, all needed */
};
extern const struct pl_op_info pl_op_infos[PL_OP_COUNT];

const char *pl_op1_name(pl_op1 op);
const char *pl_op2_name(pl_op2 op);
const char *pl_op1_kinds(pl_op1 op); /* "FI": dtypes it takes */
const char *pl_op2_kinds(pl_op2 op);
bool pl_op2_is_compare(pl_op2 op);   /* gives pred */
bool pl_op2_is_reduction(pl_op2 op); /* associative and commutative: usable in reduce and copies */

/* ---- the request a body is traced for ---- */

enum { PL_MAX_ARGS = 32, PL_MAX_PARAMS_BYTES = 256 };

struct pl_arg_facts {
    bool is_present;
    bool is_scalar;
    pl_dtype dtype;
    int32_t rank;
    int64_t dims[PL_MAX_RANK]; /* baked extents; -1: dynamic */
    pl_fact_set facts;         /* required, plus the specialised ones that hold in this variant */
    int32_t like;              /* 1 + index of the argument with the same extents; 0: none */
};
struct pl_trace_request {
    const struct pl_kernel *kernel;
    unsigned char params[PL_MAX_PARAMS_BYTES]; /* what body sees, kernel->params_bytes long */
    size_t n_args;
    struct pl_arg_facts args[PL_MAX_ARGS];
    const struct pl_target *target;
    bool is_pdl;
    /* The text's consumer is too old for fences that order shared memory alone. */
    bool has_no_shared_order;
};

/* ---- values ---- */

/* How widely a rank-0 value is known to be equal; wider is smaller. Arrays have the level of the unit (they are spread over it). */
enum pl_level { PL_LEVEL_GRID, PL_LEVEL_CLUSTER, PL_LEVEL_CTA, PL_LEVEL_WARPGROUP, PL_LEVEL_WARP };
const char *pl_level_name(enum pl_level level);

struct pl_op {
    enum pl_opcode code;
    uint32_t block; /* that it stands in; 0: a weak literal, in no block */
    uint32_t next;  /* op in the block; 0 at the end */
    pl_loc loc;

    /* result */
    pl_dtype dtype;      /* of the value; PL_DTYPE_NONE when there is none */
    pl_shape shape;      /* of the value; static */
    enum pl_level level; /* of a rank-0 value; set by pl_ir_levels() */
    bool is_index;       /* rank 0, came from ids and extents only: i32 meets i64 by widening */
    bool is_weak; /* CONST: a literal before it meets a dtype; never an operand of another op */

    /* operands */
    uint32_t n_args;
    uint32_t args[PL_OP_MAX_ARGS]; /* value ids; 0 where an optional one is absent */
    uint32_t refs[PL_OP_MAX_REFS];
    uint32_t bar, pipe;
    uint32_t regions[2]; /* blocks */
    uint32_t owner;      /* IV: the region op; PTX_OUT: the INLINE_PTX op */

    /* attributes: ops.def tells which op has which */
    int32_t sub; /* pl_op1, pl_op2, pl_atomic, pl_fence_kind */
    int32_t axis, n;
    pl_scope scope;
    pl_oob oob;
    pl_how how;
    uint32_t mask;
    bool is_flag;
    int64_t i; /* CONST of an integer or pred; ASSUME_MULTIPLE */
    double f;  /* CONST of a float; LOAD: fill */
    pl_layout layout;
    const char *text;
};

/* ---- blocks ---- */

enum pl_block_kind {
    PL_BLOCK_BODY,
    PL_BLOCK_FOR,
    PL_BLOCK_LOOP,
    PL_BLOCK_IF,
    PL_BLOCK_ELSE,
    PL_BLOCK_ROLE,
    PL_BLOCK_PRODUCE,
    PL_BLOCK_CONSUME,
    PL_BLOCK_COUNT
};
struct pl_block_info {
    enum pl_block_kind kind;
    uint32_t parent; /* block; 0 for the body */
    uint32_t owner;  /* region op; 0 for the body */
    uint32_t first, last;
    enum pl_level level; /* of the narrowest condition or role around it; set by pl_ir_levels() */
    int32_t role_warpgroup; /* the first of the role around it; -1: none */
    int32_t n_role_warpgroups;
    int32_t role_warp; /* -1: none, or the whole warpgroup */
    pl_loc loc;        /* where it was opened */
};

/* ---- places ---- */

/* A parameter, or an allocation of the body. */
struct pl_array {
    enum pl_space space;
    pl_dtype dtype;
    pl_shape shape;   /* -1: a dynamic extent (GMEM only) */
    int32_t param;    /* GMEM, SEMAPHORE: parameter index; -1 otherwise */
    pl_transforms tr; /* SMEM */
    pl_layout layout; /* REGS as asked for; AUTO: of its first store */
    bool is_pair;     /* TMEM */
    uint32_t
        alias_of; /* array whose memory this one shares from its first byte (pl_union); 0: its own */
    uint32_t ref;   /* its root ref */
    uint32_t block; /* where it was made; SMEM, TMEM, ACC: the body */
    pl_loc loc;
};

enum pl_view_kind {
    PL_VIEW_ROOT, /* the whole array */
    PL_VIEW_AT,
    PL_VIEW_WINDOW,
    PL_VIEW_TILE,
    PL_VIEW_CLIP,
    PL_VIEW_TRANSPOSE,
    PL_VIEW_RESHAPE,
    PL_VIEW_PEER,
    PL_VIEW_SEMAPHORE, /* the one element as a counter: space SEMAPHORE */
    PL_VIEW_COUNT
};

/* konst + sum of value * scale, in elements of an axis: exact integers; the plan widens each term before it adds. */
enum { PL_MAX_TERMS = 6 };
struct pl_affine {
    int64_t konst;
    int32_t n_terms;
    struct {
        uint32_t val; /* rank-0 integer value; never a constant */
        int64_t scale;
    } terms[PL_MAX_TERMS];
};

extern const struct pl_affine pl_affine_zeros[PL_MAX_RANK]; /* the offsets of a base */

/*
 * A ref: how it was made (view, parent, and the operands of that call), and the same resolved against its base: the nearest root or
 * reshape up the chain (a base has identity axes). Element (i0, i1, ...) of the ref is element x of the base, where for base axis j
 *
 *   x[j] = offset[j] + (the index i[a] with axis_of[a] == j, or 0 if there is none)
 *
 * and it is inside when x[j] < the base's extent and, where has_clip[j], x[j] < clip[j] (offsets are never negative by contract, but a
 * window may begin below 0 when the program says so: then x[j] < 0 is outside too).
 * A reshape's base elements are its parent's elements in row-major order; the parent is contiguous and wholly inside.
 */
struct pl_ref_info {
    enum pl_space space;
    pl_dtype dtype;
    pl_shape shape; /* extents of the ref; -1: dynamic (a GMEM axis that was never windowed) */
    uint32_t array;

    enum pl_view_kind view;
    uint32_t parent;
    uint32_t args[PL_MAX_RANK]; /* AT: index; WINDOW, TILE: offsets; CLIP: end; PEER: rank */
    int32_t n_args;
    int32_t axis; /* CLIP */

    uint32_t base;                /* ref id: itself for a ROOT or a RESHAPE */
    int32_t axis_of[PL_MAX_RANK]; /* base axis of each axis of the ref */
    const struct pl_affine
        *offset; /* by base axis, of the base's rank; the parent's where a view moves nothing */
    const struct pl_affine *clip; /* the same; NULL: none */
    bool has_clip[PL_MAX_RANK];
    uint32_t peer; /* value: rank of the CTA whose SMEM it is; 0: this CTA's */

    uint32_t block; /* where it was made: usable in it and in blocks inside */
    pl_loc loc;
};

/* ---- barriers and pipes ---- */

struct pl_bar_group {
    int32_t n_barriers; /* 1..32 */
    int32_t
        n_arrivals; /* of each phase; a pipe's full barrier of kind PL_BY_COPIES: the copies of its PL_PRODUCE block */
    bool starts_ready;
    bool orders_tensor_core;
    bool is_cluster; /* pl_cluster_barrier: each arrival goes to every CTA, n_arrivals from each */
    pl_where_at at;  /* where it is waited on (pipes of a pair) */
    uint32_t pipe;   /* 0: not of a pipe */
    bool is_full;    /* of a pipe: full or empty */
    uint32_t
        n_copy_arrivals; /* COPY_IN, ASYNC_STORE, GATHER ops that arrive on it, over the whole trace */
    uint32_t n_unit_arrivals; /* BARRIER_ARRIVE ops */
    uint32_t n_mma_arrivals;  /* TCGEN05_COMMIT ops */
    pl_loc loc;
};
/* A barrier: one of a group, chosen by a value (0: the only one, or the group itself before pl_bar_at). */
struct pl_bar_info {
    uint32_t group;
    uint32_t index; /* value id */
    uint32_t block;
    pl_loc loc;
};
struct pl_pipe_info {
    pl_pipe_desc desc;
    uint32_t full, empty;                  /* barrier groups */
    uint32_t full_bar, empty_bar;          /* the same as bars */
    uint32_t producer_slot, consumer_slot; /* refs: i32 REGS variables, rank 0, 0 at first */
    uint32_t held_slot; /* lag 1: ref of the slot that is released next, -1 at first; else 0 */
    uint32_t producer_block, consumer_block; /* first PRODUCE and CONSUME block seen; 0: none */
    int32_t n_produce_copies; /* COPY_IN in a PRODUCE block; -1 before the first block */
    pl_loc loc;
};

/* ---- the function ---- */

struct pl_fn {
    struct pl_arena *arena; /* holds everything below */
    struct pl_diags *diags; /* what the trace and the checks said */
    struct pl_trace_request request;

    int32_t n_warpgroups; /* 1..8 */
    int32_t cluster[3];
    PL_VEC(struct pl_op) ops;            /* [0] unused, in each table */
    PL_VEC(struct pl_block_info) blocks; /* [1] is the body */
    PL_VEC(struct pl_array) arrays;
    PL_VEC(struct pl_ref_info) refs;
    PL_VEC(struct pl_bar_group) groups;
    PL_VEC(struct pl_bar_info) bars;
    PL_VEC(struct pl_pipe_info) pipes;
    uint32_t param_refs[PL_MAX_ARGS]; /* root ref of each parameter; 0: never asked for */
    bool uses_program_axis[3];        /* program_id or num_programs of the axis was asked for */
};

/* Clears fn and makes the body block. False when the arena is exhausted. The request is copied. */
bool pl_fn_init(struct pl_fn *fn, struct pl_arena *arena, struct pl_diags *diags,
                const struct pl_trace_request *request);

/*
 * Runs the kernel's body (kernel->body with a builder over fn) and finishes the trace. True when there is no error in fn->diags and the
 * arena held; the trace is complete enough to print in either case.
 */
bool pl_trace_run(struct pl_fn *fn);

/* CTAs of a cluster. */
static inline int32_t pl_fn_n_ctas(const struct pl_fn *fn)
{
    return fn->cluster[0] * fn->cluster[1] * fn->cluster[2];
}

/* The op's value operands, place and kind, for readers of the trace. */
static inline const struct pl_op *pl_ir_op(const struct pl_fn *fn, uint32_t id)
{
    return &fn->ops.data[id];
}
static inline const struct pl_ref_info *pl_ir_ref(const struct pl_fn *fn, uint32_t id)
{
    return &fn->refs.data[id];
}
static inline const struct pl_array *pl_ir_array_of(const struct pl_fn *fn, uint32_t ref_id)
{
    return &fn->arrays.data[fn->refs.data[ref_id].array];
}
/* The array whose memory this one's is: its own, or the one that pl_union put it over. */
static inline uint32_t pl_ir_memory_of(const struct pl_fn *fn, uint32_t array)
{
    while (fn->arrays.data[array].alias_of != 0)
        array = fn->arrays.data[array].alias_of;
    return array;
}
static inline const struct pl_bar_group *pl_ir_group_of(const struct pl_fn *fn, uint32_t bar_id)
{
    return &fn->groups.data[fn->bars.data[bar_id].group];
}
/* for (PL_IR_FOREACH(fn, block, id)): ids of a block's ops in program order. */
#define PL_IR_FOREACH(fn, block_, id)                                                              \
    uint32_t id = (fn)->blocks.data[block_].first;                                                 \
    id != 0;                                                                                       \
    id = (fn)->ops.data[id].next

bool pl_ir_is_const(const struct pl_fn *fn, uint32_t val,
                    int64_t *i); /* an integer (or pred) constant */
/* The largest power of two (up to 1 << 30) that provably divides a rank-0 integer; a constant 0 gives 1 << 30. */
int64_t pl_ir_multiple(const struct pl_fn *fn, uint32_t val);
int64_t pl_affine_multiple(const struct pl_fn *fn, const struct pl_affine *a);
int64_t pl_shape_n_elems(const pl_shape *s); /* product; -1 when an extent is dynamic */
bool pl_shape_equal(const pl_shape *x, const pl_shape *y);
/* Is block `inner` inside `outer`, or the same? */
bool pl_ir_block_is_in(const struct pl_fn *fn, uint32_t inner, uint32_t outer);

/* Levels of uniformity of all rank-0 values, to a fixed point over REGS variables. Called by pl_trace_run. */
void pl_ir_levels(struct pl_fn *fn);

/*
 * Who executes an op once: PL_LEVEL_WARP in a warp role, PL_LEVEL_WARPGROUP in a warpgroup role. Outside roles: PL_LEVEL_CTA when its
 * operands and the conditions around it are the same for all warpgroups (one thread of the CTA issues the copy; commit_smem covers the
 * CTA), else PL_LEVEL_WARPGROUP (each warpgroup issues its own, each is an arrival; commit_smem covers the warpgroup).
 * For COPY_IN, COPY_OUT, COMMIT_SMEM and the other ops of place ISSUE. A barrier_arrive outside roles is one arrival of each warpgroup.
 */
enum pl_level pl_ir_issue_level(const struct pl_fn *fn, uint32_t id);

/* Our own invariants (debug builds assert it after each pass): true, or false with the first broken one in `why`. */
bool pl_ir_verify(const struct pl_fn *fn, char *why, size_t n_bytes);
#endif
