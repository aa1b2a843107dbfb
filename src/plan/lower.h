#ifndef PL_SRC_PLAN_LOWER_H
#define PL_SRC_PLAN_LOWER_H
/*
 * Lowering: from the ops of a trace to steps. One pass in program order over the ops; each op has a function (lower.c's table).
 * Before it run: the layout walk (layout.c), which gives every array value a layout, and the shared-memory map (memory/smem.c).
 *
 * Vocabulary. A *unit* executes an op: a warpgroup (128 threads), or a warp inside a warp role. *rank* is the thread's index in
 * its unit. A *chunk* is vec consecutive elements (row-major) that one thread holds: chunk k of rank t starts at element
 * (k * n_threads + t) * vec. In a fragment layout (src/ir/fragment.def; of rank-2 arrays) a chunk is a run of the fragment, chunks are
 * numbered tile by tile, and a run may go down a column. Where an axis of a fragment is reduced away (pl_layout_reduce) a thread holds
 * each row, or column, of its elements once; *peers* are threads that hold the same. The *leader* is the one elected thread of a unit
 * that issues copies and arrivals.
 *
 * Registers of a value (struct pl_lval), by dtype: pred: one predicate an element. 8- and 16-bit integers and 8-bit floats: one
 * B32 an element, sign- or zero-extended (canonical). f16 and bf16: packed in pairs in a B32 where vec is even, else one B16.
 * 32-bit types: one B32. 64-bit types: one B64.
 */
#include "src/ir/ir.h"
#include "src/ir/layout.h"
#include "src/plan/build.h"
#include "src/plan/plan.h"

#define PL_DIAG_ROWS "src/plan/plan_diag.def"
#define PL_DIAG_MODE_DECLARE
#include "base/diag_rows.h"

/* How one dtype lies in registers. */
enum pl_rep { PL_REP_PRED, PL_REP_HALF, PL_REP_HALF2, PL_REP_WORD, PL_REP_DOUBLE };

/* Layout of an array value. */
struct pl_lay {
    bool is_splat;
    uint8_t frag;      /* enum pl_frag; NONE: chunks are strided */
    uint8_t reduced;   /* 1 << axis: an array of rank 1, what a fragment leaves without that axis */
    uint16_t vec;      /* elements of a chunk */
    uint32_t n_chunks; /* of each thread; the last one may lie beyond the array for some threads */
    bool
        is_ragged; /* n_elems is not n_chunks * n_threads * vec: some chunks are beyond the array */
};

/* A value in registers. Rank 0 and splat: one operand, in `one`. Else n registers in `regs`. */
struct pl_lval {
    pl_dtype dtype;
    enum pl_rep rep;
    struct pl_lay lay;
    struct pl_opnd one;
    struct pl_opnd *regs;
    uint32_t n_regs;
    const pl_reg
        *words; /* 8-bit elements as they were loaded, four a word: then regs are not made */
};

/* Columns of tensor memory, of all that the block takes. */
struct pl_columns {
    uint32_t first, end;
};

/* What a unit's threads did to tensor memory: asked for, and not waited for; and since the unit's last barrier. */
struct pl_tmem_state {
    bool has_loads, has_stores;
    bool is_read, is_written;
    struct pl_columns stored; /* with has_stores: none of them is elsewhere */
};

/* Chunks of one ref, in one scope, whose places differ in their constants only; and what they share, by base axis
 * (memory/access.c). */
struct pl_chunks {
    uint32_t ref, serial; /* 0: none */
    struct pl_opnd threads[PL_MAX_RANK];
    int64_t konsts[PL_MAX_RANK]; /* of the window's offset */
};
struct pl_chunk_bounds {
    struct pl_chunks of;
    bool is_own;
    struct pl_opnd left[PL_MAX_RANK], skip[PL_MAX_RANK];
    bool is_safe[PL_MAX_RANK], has_lo[PL_MAX_RANK];
};
struct pl_chunk_addrs {
    struct pl_chunks of;
    struct pl_opnd begin, strides[PL_MAX_RANK];
};
struct pl_chunk_shared {
    struct pl_chunks of;
    pl_reg begin;
    int64_t offset_bytes, strides_bytes[PL_MAX_RANK];
};

struct pl_smem_place; /* src/plan/memory/smem.h */
struct pl_tmem_place; /* src/plan/tensor/tmem.h */
struct pl_touch;      /* src/plan/memory/touch.h */
struct pl_hazard;     /* src/plan/hazard.h */
struct pl_hazard_state;

enum { PL_MAX_UNITS = 8 };

struct pl_lower {
    const struct pl_fn *fn;
    struct pl_arena *arena;
    struct pl_diags *diags;
    struct pl_plan *plan;
    struct pl_build b;

    struct pl_lval *vals; /* by op id */
    struct pl_lval *vars; /* REGS arrays by array id: mutable registers */
    struct pl_lay *lays;  /* by op id: layouts of array values */
    struct pl_lay *var_lays;
    uint8_t *is_copied;            /* by op id: a load of a variable that must be a copy */
    struct pl_smem_place *places;  /* by array id */
    struct pl_hazard *hazards;     /* by array id, of the current unit */
    struct pl_touch *touches;      /* by array id: of whole memories, not of their aliases */
    struct pl_tmem_place *columns; /* by array id */
    uint32_t *bar_offsets;         /* bytes, by group id */
    uint32_t *bar_scales;          /* what an arrival counts for, by group id */
    pl_reg *phases;                /* by group id; none: not waited on */
    uint32_t
        scratch_offset; /* scratch area: one part a warpgroup, then one of the CTA, then one of the cluster */
    uint32_t scratch_bytes; /* of a warpgroup's part */
    uint32_t cta_scratch_bytes, cluster_scratch_bytes;
    bool scratch_is_read, cta_scratch_is_read; /* since the last barrier of unit or CTA */

    uint32_t tmem_slot_offset; /* shared memory: the address of the columns */
    pl_reg tmem_base;
    struct pl_tmem_state tmem;
    bool is_pair;         /* tensor operations span two CTAs */
    bool unit_has_tensor; /* the unit has tensor operations, or loads and stores of tensor memory */

    /* facts of the chip and the kernel; the second line by touch.c */
    bool has_tma, has_cluster;
    bool has_own_text, has_async_out, has_stores_to_fence, has_far_arrivals;
    bool has_shared_order; /* fences that order shared memory alone */
    uint32_t n_threads;
    uint32_t n_ctas; /* in a cluster */

    /* made in the entry when first asked for */
    pl_reg warp_leader;
    pl_reg block[3]; /* block index, unfolded */

    /* the halves of the packed register taken apart last, in this scope */
    pl_reg unpacked_word;
    uint32_t unpacked_serial;
    struct pl_opnd unpacked[2];

    /* of the chunks asked for last */
    struct pl_chunk_bounds bounds;
    struct pl_chunk_addrs addrs;
    struct pl_chunk_shared shared;
    struct { /* where a thread's first chunk begins, known in the entry */
        uint32_t vec, unit_threads;
        struct pl_opnd thread;
    } start;

    /* the executing unit */
    int32_t role_warpgroup, role_warp; /* -1: all, whole */
    int32_t n_role_warpgroups;
    uint32_t n_joined;      /* copies by elements whose arrivals the next one makes */
    bool has_met;           /* the unit's threads, in this PL_PRODUCE */
    bool has_no_wgmma;      /* certainly none is in flight in the unit */
    uint8_t *warp_arrivals; /* by barrier group: 4 where each warp of a unit arrives, else 1 */
    uint32_t unit_threads;
    int loop_depth;
    bool
        has_values_in_flight; /* matrix operations may still read registers of values made in this loop */
    bool has_waits; /* threads of the unit may still be at a barrier that its leader has passed */
    bool has_products;    /* of wgmma, that the unit has issued since it last waited for all */
    bool has_pending_out; /* the unit has issued copies out since it last waited for all */
    bool has_idle_label;
    bool waits_for_grid; /* without the body asking: pl_lower_grid_order() */
    uint32_t idle_label; /* where CTAs without work go */
    uint32_t break_labels[64];
    struct pl_hazard_state *break_states[64]; /* by the ways out of the loop so far */
    int n_loops;

    pl_status status; /* PL_E_UNSUPPORTED once something was refused */
};

/* ---- diagnostics and notes ---- */
struct pl_where pl_lower_where(const struct pl_op *op);
void pl_lower_note(struct pl_lower *l, const struct pl_op *op, const char *text);
void pl_lower_refuse(struct pl_lower *l, const struct pl_op *op, const char *what); /* PL2191 */
void pl_refuse_copy(struct pl_lower *l, const struct pl_op *op);                    /* PL3190 */

static inline bool pl_lower_has(const struct pl_lower *l, enum pl_feature feature)
{
    return (l->fn->request.target->features & (uint32_t)feature) != 0;
}

/* ---- the functions of ops ---- */
void pl_lower_op(struct pl_lower *l, uint32_t id); /* a rank-0 value, ahead of its turn */
bool pl_plan_lowers(enum pl_opcode code); /* has one: a test asks for every row of ops.def */
typedef void pl_lower_function(struct pl_lower *l, uint32_t id, const struct pl_op *op);
pl_lower_function pl_lower_const, pl_lower_scalar_arg, pl_lower_dim, pl_lower_program_id,
    pl_lower_num_programs, pl_lower_cluster_rank, pl_lower_warpgroup_id, pl_lower_assume_multiple,
    pl_lower_array, pl_lower_unary, pl_lower_binary, pl_lower_fma, pl_lower_cast, pl_lower_bitcast,
    pl_lower_select, pl_lower_iota, pl_lower_broadcast, pl_lower_reduce, pl_lower_layout_cast,
    pl_lower_extract, pl_lower_load, pl_lower_store, pl_lower_swap, pl_lower_copy_in,
    pl_lower_copy_out, pl_lower_wait_out, pl_lower_commit_smem, pl_lower_barrier_arrive,
    pl_lower_barrier_wait, pl_lower_bar_sync, pl_lower_cluster_sync, pl_lower_fence,
    pl_lower_griddep_wait, pl_lower_griddep_launch, pl_lower_async_store, pl_lower_wgmma,
    pl_lower_wgmma_wait, pl_lower_acc_load, pl_lower_acc_init, pl_lower_set_max_registers,
    pl_lower_tcgen05_mma, pl_lower_tcgen05_commit, pl_lower_copy_tmem, pl_lower_copy_scales,
    pl_lower_load_tmem, pl_lower_wait_load_tmem, pl_lower_store_tmem, pl_lower_commit_tmem,
    pl_lower_mma, pl_lower_wgmma_val, pl_lower_atomic, pl_lower_semaphore_signal,
    pl_lower_semaphore_wait, pl_lower_semaphore_read, pl_lower_prefetch, pl_lower_barrier_test,
    pl_lower_inline_ptx, pl_lower_gather_rows, pl_lower_clc_ask, pl_lower_clc_next;
#endif
