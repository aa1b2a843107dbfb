#ifndef PL_SRC_PLAN_LOWER_H
#define PL_SRC_PLAN_LOWER_H
/*
 * Lowering: from the ops of a trace to steps. One pass in program order over the ops; each op has a function (lower.c's table).
 * Before it run: the layout walk (layout.c), which gives every array value a layout, and the shared-memory map (smem.c).
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

/* Where an SMEM array lies: panels of panel_elems columns; in a panel, rows of row_bytes; panels of one 2-D slice follow each
 * other; slices (all leading axes) follow in row-major order. byte ^ swizzle(byte) on the absolute address. */
struct pl_smem_place {
    uint32_t offset_bytes, n_bytes, align_bytes;
    uint32_t n_rows, n_cols, panel_elems;
    uint32_t row_bytes, panel_bytes, slice_bytes;
    enum pl_plan_swizzle swizzle;
    bool is_placed;
};

/* Where a TMEM array lies. */
struct pl_tmem_place {
    uint32_t first, slot_columns;
    uint32_t per_column; /* elements of a column */
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

/* What the whole program does to the memory of an SMEM array (touch.c). */
struct pl_touch {
    bool is_async;  /* accessed by the copy engine or the tensor core */
    bool is_stored; /* by threads that fence nothing themselves */
};

/* What a unit's threads did to an SMEM array since the unit's last barrier. */
struct pl_hazard {
    uint8_t has_reads, has_writes; /* by plain loads and stores */
    uint8_t has_products;          /* its reads are of products that nobody has waited for */
    uint8_t has_late_products;    /* ... or that a wait for some of them may have left unfinished */
    uint32_t read_key, write_key; /* the one access pattern, or 0 when several */
};

/* What the threads of a unit have left at a place of the program, by all ways to it. */
struct pl_hazard_state {
    struct pl_hazard *arrays;
    struct pl_tmem_state tmem;
    bool has_waits, scratch_is_read, cta_scratch_is_read;
    bool has_no_wgmma, has_values_in_flight, has_pending_out, has_products;
};

/* Chunks of one ref, in one scope, whose places differ in their constants only; and what they share, by base axis (access.c). */
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

/* ---- dtypes ---- */
enum pl_stype pl_stype_of(pl_dtype t); /* in registers: i8 is s32, f16 is f16, pred is pred */
enum pl_stype pl_stype_bits(enum pl_rep rep); /* b16, b32, b64, pred: for moves */
enum pl_rep pl_rep_of(pl_dtype t, uint32_t vec);
uint32_t pl_elem_bytes(pl_dtype t);
/* Bytes of n elements in shared memory, where 4-bit ones lie in pairs and those of 6 bits in bytes. */
int64_t pl_shared_bytes(pl_dtype t, int64_t n);
uint32_t pl_regs_per_chunk(enum pl_rep rep, uint32_t vec);
/* A constant of dtype t as an operand: integer value or float value. */
struct pl_opnd pl_const_of(pl_dtype t, int64_t i, double f);

/* ---- scalars and parameters (scalar.c) ---- */
pl_reg pl_lower_sreg(struct pl_lower *l, enum pl_ssreg r);
struct pl_opnd pl_lower_rank(struct pl_lower *l);      /* thread in its unit, u32 */
struct pl_opnd pl_lower_warpgroup(struct pl_lower *l); /* u32 */
pl_reg pl_lower_leader(struct pl_lower *l);            /* predicate */
pl_reg pl_lower_warp_leader(struct pl_lower *l);       /* of each warp */
pl_reg pl_lower_param(struct pl_lower *l, struct pl_plan_param p);
uint32_t pl_lower_param_index(struct pl_lower *l, struct pl_plan_param p);
struct pl_opnd pl_lower_scalar(struct pl_lower *l, uint32_t val); /* operand of a rank-0 value */
/* Type of a rank-0 integer value's operand: s32, u32, s64, u64. */
enum pl_stype pl_lower_int_type(const struct pl_lower *l, uint32_t val);
/* konst + terms as `t` (s32 or s64). */
struct pl_opnd pl_lower_affine(struct pl_lower *l, const struct pl_affine *a, enum pl_stype t);
bool pl_affine_is_const(const struct pl_affine *a, int64_t *v);
/* Added to sum. */
struct pl_opnd pl_lower_affine_on(struct pl_lower *l, const struct pl_affine *a, enum pl_stype t,
                                  struct pl_opnd sum);
bool pl_affine_is_entry(struct pl_lower *l, const struct pl_affine *a); /* all known in the entry */
bool pl_val_is_nonneg(const struct pl_lower *l, uint32_t val);          /* of rank 0, an integer */
bool pl_affine_is_nonneg(const struct pl_lower *l, const struct pl_affine *a);
bool pl_affine_same(const struct pl_affine *x, const struct pl_affine *y);
/* Index type of a GMEM array: s32 where the fact I32 holds, else s64. */
enum pl_stype pl_lower_index_type(const struct pl_lower *l, const struct pl_array *a);
/* The extents of two arrays are the same numbers, axis by axis. */
bool pl_has_extents_of(const struct pl_lower *l, const struct pl_array *x,
                       const struct pl_array *y);
struct pl_opnd pl_lower_extent(struct pl_lower *l, const struct pl_array *a, int axis);
/* As its own parameter, though another's may be the same number. */
struct pl_opnd pl_lower_own_extent(struct pl_lower *l, const struct pl_array *a,
                                   int axis); /* in the index type */
struct pl_opnd pl_lower_stride(struct pl_lower *l, const struct pl_array *a,
                               int axis); /* elements, index type */
bool pl_array_has_fact(const struct pl_lower *l, const struct pl_array *a, pl_fact fact);

/* One axis index of an element: a register part below `bound`, the same for all chunks, plus a constant of the chunk. */
struct pl_coord {
    struct pl_opnd thread; /* u32 */
    uint32_t bound;        /* thread < bound; 1: thread is 0 */
    int64_t konst;
};

/* ---- layouts (layout.c) ---- */
void pl_layout_walk(struct pl_lower *l);
struct pl_lay pl_lay_strided(int64_t n_elems, uint32_t vec, uint32_t n_threads);
/* Widest access of a ref along an axis that alignment proves, elements; 1..16 bytes. pl_access_vec: along the last one. */
uint32_t pl_access_run(const struct pl_lower *l, uint32_t ref, int axis);
uint32_t pl_access_vec(const struct pl_lower *l, uint32_t ref);
/* Fewest elements of a chunk that st.async can move: 4 bytes. */
uint32_t pl_send_min_vec(pl_dtype t);

/* ---- fragments (frag.c) ---- */
bool pl_lay_same(const struct pl_lay *x, const struct pl_lay *y);
bool pl_frag_fits(enum pl_frag frag, const pl_shape *s);
struct pl_lay pl_lay_frag(enum pl_frag frag, const pl_shape *s);
/* What is left of a fragment without an axis (reduced: 1 << axis), of an array of rank 1. */
bool pl_reduced_fits(enum pl_frag frag, uint32_t reduced, const pl_shape *s);
struct pl_lay pl_lay_reduced(enum pl_frag frag, uint32_t reduced, const pl_shape *s);
/* REDUCE and BROADCAST between a fragment and what is left of it without their axis: that layout; false: their array is no fragment. */
bool pl_lay_left(const struct pl_lower *l, uint32_t id, struct pl_lay *out);
/* For each element of a thread in a fragment, the one that is left of it without an axis: map[e]; their number. */
uint32_t pl_lay_map_left(const pl_shape *s, const struct pl_lay *lay, int axis, uint32_t *map);
/* How the threads reduce a fragment to what is left of it. */
enum pl_reduce_way {
    PL_REDUCE_IN_LANES,   /* in the lanes of each warp */
    PL_REDUCE_OVER_WARPS, /* there, and then the results of the four warps */
    PL_REDUCE_WALK        /* a thread walks along the axis, in shared memory */
};
enum pl_reduce_way pl_reduce_way(enum pl_frag frag, const struct pl_lay *left);
/* Who holds the same: lanes that differ in these bits of their number only, and all warps of the unit. */
struct pl_peers {
    uint32_t lanes;
    bool is_in_warps;
};
struct pl_peers pl_lay_peers(const struct pl_lay *lay);
bool pl_lay_has_peers(const struct pl_lay *lay);
/* Axis along which a chunk's elements follow each other. */
int pl_lay_run_axis(const struct pl_lay *lay, int rank);
/* Where several threads hold the same: the one that counts, a predicate; else none. */
pl_reg pl_lay_owner(struct pl_lower *l, const struct pl_lay *lay);
/* Row and column of chunk k less those of chunk 0. */
void pl_frag_offset(const pl_shape *s, const struct pl_lay *lay, uint32_t k, int64_t offset[2]);
void pl_frag_coords(struct pl_lower *l, const pl_shape *s, const struct pl_lay *lay, uint32_t k,
                    struct pl_coord out[2]);
/* The layout in which op `id` needs its i-th operand; false: in any. */
bool pl_lay_wanted(const struct pl_lower *l, uint32_t id, uint32_t i, struct pl_lay *out);
/* Do the lanes of each quad make the one layout from the other by trading bytes? */
bool pl_lay_is_trade(pl_dtype t, const struct pl_lay *from, const struct pl_lay *to);
struct pl_lval pl_lval_trade(struct pl_lower *l, const struct pl_lval *in, struct pl_lay lay);
/* Bring operands into the layouts that their op needs, and back (a value has one layout for all its other users). */
void pl_operands_convert(struct pl_lower *l, uint32_t id, struct pl_lval saved[PL_OP_MAX_ARGS]);
void pl_operands_restore(struct pl_lower *l, uint32_t id,
                         const struct pl_lval saved[PL_OP_MAX_ARGS]);
void pl_note_relayout(struct pl_lower *l, const struct pl_op *op, const struct pl_lay *from,
                      const struct pl_lay *to);

/* ---- matrices (matrix.c, mma.c) ---- */

/* How a fragment lies in shared memory, for the warp's matrix moves: not so, along its rows, across them. */
enum pl_matrix_way { PL_MATRIX_NONE, PL_MATRIX_ROWS, PL_MATRIX_TRANSPOSED };
enum pl_matrix_way pl_matrix_way(const struct pl_lower *l, uint32_t ref, const struct pl_lay *lay,
                                 bool is_load);
struct pl_matrix_words {
    pl_reg *words; /* one a chunk, 32 bits */
    bool is_load;
};
void pl_matrix_move(struct pl_lower *l, uint32_t ref, const struct pl_lay *lay,
                    enum pl_matrix_way way, struct pl_matrix_words w);
enum pl_stype pl_matrix_operand_type(pl_dtype t); /* f32 as tf32 */
/* Until no matrix operation reads a value of this loop from registers; until none is in flight. */
void pl_wgmma_settle(struct pl_lower *l);
void pl_wgmma_drain(struct pl_lower *l);
/* All 32-bit words of an operand in registers, in the order of its chunks; a value that is the same everywhere is spread. */
pl_reg *pl_matrix_operand_words(struct pl_lower *l, uint32_t val, pl_layout_kind kind);

/* ---- shared memory (smem.c) ---- */
bool pl_smem_map(struct pl_lower *l);
uint32_t pl_swizzle_span(enum pl_plan_swizzle s); /* bytes; 0 for none */

/* ---- tensor memory (tmem.c) ---- */
void pl_tmem_map(struct pl_lower *l);
uint32_t pl_tmem_scratch_need(const struct pl_lower *l, uint32_t id); /* as pl_scratch_need */
enum pl_frag pl_tmem_frag(const pl_shape *s); /* in which it is loaded and stored, unless told */
void pl_tmem_take(struct pl_lower *l); /* in the entry, before the barrier that ends the prologue */
void pl_tmem_taken(struct pl_lower *l); /* after it: the base is known */
void pl_tmem_give(struct pl_lower *l);  /* after the barrier of the epilogue */
struct pl_opnd pl_tmem_addr(struct pl_lower *l, uint32_t ref); /* of its first lane and column */
/* Loads, stores and tensor operations: waits that the threads owe, and the fences around a barrier of threads. */
void pl_tmem_settle_loads(struct pl_lower *l);
void pl_tmem_settle(struct pl_lower *l); /* stores too */
/* Stores to these columns, not waited for; all of them where it is not known which. */
void pl_tmem_note_stores(struct pl_tmem_state *t, struct pl_columns c);
struct pl_columns pl_tmem_all_columns(void);
void pl_tmem_before_barrier(struct pl_lower *l);
void pl_tmem_after_barrier(struct pl_lower *l,
                           bool is_whole);      /* all who use its columns have met */
void pl_tmem_before_tensor(struct pl_lower *l); /* the unit's threads have done theirs */
bool pl_block_has_tensor(const struct pl_lower *l, int32_t warpgroup, int32_t warp);
enum pl_sattr pl_tensor_group(const struct pl_lower *l);

/* ---- access (access.c) ---- */

/* Indices of the first element of chunk k. */
void pl_chunk_coords(struct pl_lower *l, const pl_shape *s, const struct pl_lay *lay, uint32_t k,
                     struct pl_coord out[PL_MAX_RANK]);
/* Indices of element `lin` (row-major) of a shape. */
void pl_linear_coords(struct pl_lower *l, const pl_shape *s, struct pl_coord lin,
                      struct pl_coord out[PL_MAX_RANK]);

/* The same of a ref, for addresses alone: where its elements follow each other in shared memory all of them are one row. */
void pl_chunk_place(struct pl_lower *l, uint32_t ref, const struct pl_lay *lay, uint32_t k,
                    struct pl_coord out[PL_MAX_RANK]);
void pl_linear_place(struct pl_lower *l, uint32_t ref, struct pl_coord lin,
                     struct pl_coord out[PL_MAX_RANK]);

/* Address of an element of a ref. */
struct pl_opnd pl_global_addr(struct pl_lower *l, uint32_t ref, const struct pl_coord *at);
struct pl_opnd pl_shared_addr(struct pl_lower *l, uint32_t ref, const struct pl_coord *at);
pl_reg pl_shared_base(struct pl_lower *l); /* shared address of the dynamic area */
pl_reg pl_peer_address(struct pl_lower *l, uint32_t ref,
                       pl_reg shared); /* of a shared address, in the CTA that a peer ref names */

/* Bounds of a GMEM ref: does any of its elements possibly lie outside its tensor or clip? */
bool pl_bounds_needed(const struct pl_lower *l, uint32_t ref);
/* Predicate: the whole ref is inside (uniform). */
pl_reg pl_bounds_fit(struct pl_lower *l, uint32_t ref);
/*
 * Of the chunk at `at`, which goes on along the last axis or along axis `run`, elements v with lo <= konst + v < hi are inside, s32,
 * where ok holds. Chunks that differ in the constants of their places only share lo and hi. run -1: all
 * axes are in ok. is_own: by the tensor's own extents, which no other tensor's chunks share.
 */
struct pl_inside {
    pl_reg ok; /* none: holds */
    struct pl_opnd lo, hi;
    int64_t konst;
    bool has_lo, has_hi; /* else there is no such bound */
    bool
        is_whole; /* all elements are inside, or none: the caller's, who asks pl_bounds_whole once */
};
struct pl_inside pl_bounds_chunk(struct pl_lower *l, uint32_t ref, const struct pl_coord *at);
struct pl_inside pl_bounds_run(struct pl_lower *l, uint32_t ref, const struct pl_coord *at, int run,
                               bool is_own);
/* No bound cuts chunks of vec elements along axis `run`, which begin at multiples of vec. */
bool pl_bounds_whole(const struct pl_lower *l, uint32_t ref, int run, uint32_t vec);
/* Where predicate p holds too. */
void pl_inside_also(struct pl_lower *l, struct pl_inside *in, pl_reg p);
/* Element v is inside: a predicate, none when always. is_one: no other element of the chunk is asked for. */
pl_reg pl_inside_guard(struct pl_lower *l, const struct pl_inside *in, uint32_t v, bool is_one);

/* ---- values (elem.c, cast.c) ---- */
struct pl_lval pl_lval_make(struct pl_lower *l, pl_dtype t,
                            struct pl_lay lay); /* registers not yet made */
struct pl_lval pl_lval_scalar(pl_dtype t, struct pl_opnd o);
struct pl_opnd pl_lval_unit(struct pl_lower *l, const struct pl_lval *v, enum pl_rep rep,
                            uint32_t i); /* register i, splat adapted */
struct pl_opnd pl_lval_elem(struct pl_lower *l, const struct pl_lval *v,
                            uint32_t i); /* element i, unpacked */
/* The elements of a chunk-wise list back into registers of v's rep. */
struct pl_opnd pl_pack_halves(struct pl_lower *l, struct pl_opnd lo, struct pl_opnd hi);
void pl_lval_set_elems(struct pl_lower *l, struct pl_lval *v, const struct pl_opnd *elems);
struct pl_opnd pl_elem_binary(struct pl_lower *l, pl_op2 op, pl_dtype t, enum pl_rep rep,
                              struct pl_opnd x, struct pl_opnd y);
struct pl_opnd pl_elem_cast(struct pl_lower *l, pl_dtype from, pl_dtype to,
                            struct pl_opnd x); /* cast.c */
struct pl_opnd pl_elem_to_f32(struct pl_lower *l, pl_dtype from, struct pl_opnd x);
struct pl_opnd pl_elem_from_f32(struct pl_lower *l, pl_dtype to, struct pl_opnd x);
struct pl_opnd pl_elem_canonical(struct pl_lower *l, pl_dtype t,
                                 struct pl_opnd x); /* re-extend 8- and 16-bit integers */
struct pl_opnd pl_elem_identity(pl_op2 op, pl_dtype t);

/* ---- layouts converted, scratch (array.c) ---- */
/* Bytes that an op needs of its unit's scratch part. */
uint32_t pl_scratch_need(const struct pl_lower *l, uint32_t id);
struct pl_opnd pl_scratch_addr(struct pl_lower *l, struct pl_opnd index,
                               uint32_t elem_bytes); /* of element `index` (u32) */
uint32_t pl_scratch_elem_bytes(pl_dtype t);
void pl_scratch_begin(struct pl_lower *l);   /* nobody reads it any more: it may be written */
void pl_scratch_publish(struct pl_lower *l); /* written: it may be read */
void pl_scratch_store(struct pl_lower *l, pl_dtype t, struct pl_opnd addr, struct pl_opnd elem);
struct pl_opnd pl_scratch_load(struct pl_lower *l, pl_dtype t, struct pl_opnd addr);
struct pl_opnd pl_scratch_load_peer(struct pl_lower *l, pl_dtype t,
                                    struct pl_opnd addr); /* of a CTA of the cluster */
/* First element of chunk k of a value, in row-major order. */
struct pl_opnd pl_chunk_index(struct pl_lower *l, const pl_shape *s, const struct pl_lay *lay,
                              uint32_t k);
/* Write a value's elements to scratch, row-major. */
void pl_scratch_write(struct pl_lower *l, const pl_shape *s, const struct pl_lval *v);
/* Chunk k of this layout has elements for this thread: a predicate, or none when for all. */
pl_reg pl_lay_guard(struct pl_lower *l, const struct pl_lay *lay, int64_t n_elems, uint32_t k);
/* A value that the caller needs in strided chunks (pl_scratch_need counted it). */
struct pl_lval pl_lval_strided(struct pl_lower *l, const pl_shape *s, const struct pl_lval *in);
/* The value in another layout, through scratch unless it is a trade (pl_scratch_need counted it). */
struct pl_lval pl_lval_relayout(struct pl_lower *l, const pl_shape *s, const struct pl_lval *in,
                                struct pl_lay lay);
/* What a warpgroup reduced, v in the type of the accumulation, with the parts of all that are in the op's scope (reduce_units.c). */
struct pl_lval pl_reduce_units(struct pl_lower *l, const struct pl_op *op, struct pl_lval v);
struct pl_lval pl_lval_of(struct pl_lower *l, uint32_t val); /* operand of an op: constants too */

/* What load `id` gives for elements outside the tensor reaches no memory and no other element (outside.c). */
bool pl_outside_is_unseen(const struct pl_lower *l, uint32_t id);

/* ---- memory (mem.c) ---- */

/* A store to a peer that is signalled there: by st.async, or by red.async of `reduce`. */
struct pl_send {
    struct pl_opnd bar; /* address of the peer's barrier */
    pl_op2 reduce;      /* PL_OP2_NONE: overwrites */
};
struct pl_access {
    uint32_t ref;
    pl_oob oob;
    bool may_be_anything; /* a chunk of 16 bytes that is outside as a whole; others are `fill` */
    double fill;
    const struct pl_send *send; /* NULL: a plain access */
};
/* The whole ref to or from registers of layout v->lay. */
void pl_load_array(struct pl_lower *l, const struct pl_access *a, struct pl_lval *v);
void pl_store_array(struct pl_lower *l, const struct pl_access *a, const struct pl_lval *v);
/* The registers of a variable or an accumulator as the value of op `id`; and back. */
void pl_load_variable(struct pl_lower *l, uint32_t id, uint32_t array);
void pl_store_variable(struct pl_lower *l, uint32_t array, const struct pl_lval *v);
/* One chunk, its first element at `at`, between memory and raw words (32-bit words, or 64-bit ones of 64-bit elements, or the one
 * 16-bit or 8-bit element). inside: which elements to touch; NULL: all. fill: bits of an element that is not loaded. */
struct pl_chunk {
    uint32_t ref, vec;
    bool
        is_down; /* its elements follow each other along the first of two axes, not along the last one */
    const struct pl_coord *at;
    const struct pl_inside *inside;
    bool may_be_anything; /* a chunk of 16 bytes that is not loaded; else each element is `fill` */
    int64_t fill;
    const struct pl_send *send;
};
/* Element v of a chunk's words. */
struct pl_opnd pl_word_elem(struct pl_lower *l, pl_dtype t, uint32_t vec, const pl_reg *words,
                            uint32_t v);
uint32_t pl_chunk_n_words(pl_dtype t, uint32_t vec);
/* The words of one chunk as registers of v, and the registers of chunk k as words. */
void pl_words_to_regs(struct pl_lower *l, const struct pl_lval *v, const pl_reg *words,
                      struct pl_opnd *regs);
void pl_regs_to_words(struct pl_lower *l, const struct pl_lval *v, uint32_t vec, uint32_t k,
                      pl_reg *words);
enum pl_stype pl_chunk_word_type(pl_dtype t, uint32_t vec);
void pl_chunk_load(struct pl_lower *l, const struct pl_chunk *c, pl_reg *words);
void pl_chunk_store(struct pl_lower *l, const struct pl_chunk *c, const pl_reg *words);

/* ---- tensor maps (map.c) ---- */
/* Generic address of the map, which is added to the plan when it is new there. */
struct pl_opnd pl_map_address(struct pl_lower *l, const struct pl_plan_map *m);
/* Coordinates of an element of a GMEM ref, innermost first; only the constants of `at` count. */
struct pl_opnd pl_map_coords(struct pl_lower *l, uint32_t ref, const struct pl_coord *at);
/* The view's axes are axes of its array, in order. */
bool pl_view_axes_rise(const struct pl_ref_info *r);
/* Rows of a GMEM view are runs of memory that begin at multiples of 16 bytes, as the copy engine wants them. */
bool pl_view_has_rows(const struct pl_lower *l, uint32_t ref);

/* ---- operands of the tensor core in shared memory (operand.c) ---- */
struct pl_operand {
    const struct pl_smem_place *place;
    pl_dtype dtype;
    uint32_t elem_bytes;
    bool is_tcgen05;  /* else of wgmma */
    bool is_across;   /* K is the array's row axis */
    uint32_t first;   /* elements of the start in its panel, along K (0 when across) */
    pl_reg low, high; /* words of the descriptor of the panel's begin at the first element */
};
uint32_t pl_operand_step_elems(pl_dtype t); /* of K that one instruction takes */
/* k_axis: of the ref. False when the tensor core cannot read it so, which is reported. */
bool pl_operand_make(struct pl_lower *l, const struct pl_op *op, uint32_t ref, int k_axis,
                     struct pl_operand *o);
pl_reg pl_rows_desc(struct pl_lower *l, struct pl_opnd addr); /* rows of 16 bytes; for copies */
/* The descriptor of block `block` of 64 along M (0 for the second operand, or for all of M) and step `k`. */
pl_reg pl_operand_desc(struct pl_lower *l, const struct pl_operand *o, uint32_t block, uint32_t k);

/* ---- synchronisation (sync.c) ---- */
/* All threads of the unit meet; clears the hazards. meet: for shared memory; barrier: for tensor memory, too. */
void pl_unit_meet(struct pl_lower *l);
void pl_unit_barrier(struct pl_lower *l);
void pl_cta_barrier(struct pl_lower *l);
void pl_cluster_barrier_steps(struct pl_lower *l);
uint32_t pl_access_key(const struct pl_lower *l, uint32_t ref, struct pl_lay lay); /* mem.c */
pl_reg pl_bar_value(struct pl_lower *l, uint32_t bar);
struct pl_opnd pl_bar_addr(struct pl_lower *l, uint32_t bar); /* shared address operand */
/* A barrier that only the leader of a pair waits for: arrivals of both CTAs go there. */
bool pl_bar_is_at_leader(const struct pl_lower *l, uint32_t bar);
struct pl_opnd pl_bar_leader_addr(struct pl_lower *l, uint32_t bar); /* cluster address operand */
pl_reg pl_pair_mask(struct pl_lower *l); /* both CTAs of this one's pair */
void pl_lower_prologue(struct pl_lower *l);
void pl_lower_grid_order(struct pl_lower *l); /* the wait for the grid before */
/* A CTA without work goes to the end at once, where that can be told (work.c). */
void pl_lower_work(struct pl_lower *l);
void pl_lower_epilogue(struct pl_lower *l);
/* Of the whole program: take out barriers that order nothing. */
void pl_lower_drop_barriers(struct pl_arena *arena, struct pl_steps *steps);
void pl_drain_out(struct pl_lower *l);
void pl_arrive_leader(struct pl_lower *l, uint32_t bar);
/* Do threads read what the copy takes out of shared memory, or may they at run time? */
bool pl_copy_out_is_by_threads(struct pl_lower *l, const struct pl_op *op);
/* One arrival at a barrier of the cluster, expecting n more bytes, under the guard. */
void pl_arrive_tx_peer(struct pl_lower *l, uint32_t bar, struct pl_opnd addr, struct pl_opnd n);
/* n arrivals of the leader that leave the phase open: more of the same event follow. */
void pl_arrive_part(struct pl_lower *l, struct pl_opnd addr, uint32_t n);

/* ---- hazards (hazard.c) ---- */
void pl_hazard_access(struct pl_lower *l, uint32_t ref, bool is_write, uint32_t key);
void pl_hazard_global(struct pl_lower *l, uint32_t ref, bool is_write, const struct pl_lay *lay);
/* A rank-0 access of GMEM: every thread loads, the leader stores. */
void pl_hazard_element(struct pl_lower *l, uint32_t ref, bool is_write);
void pl_hazard_async(struct pl_lower *l, uint32_t array, bool is_write);
void pl_hazard_arrival(struct pl_lower *l); /* the leader is going to arrive at a barrier alone */
/* A product reads it, until somebody waits for products. */
void pl_hazard_product(struct pl_lower *l, uint32_t ref);
void pl_hazard_products_end(struct pl_lower *l, bool is_all);
void pl_hazard_loop(struct pl_lower *l, uint32_t region_op);
void pl_hazard_clear(struct pl_lower *l);
struct pl_hazard_state *pl_hazard_save(struct pl_lower *l);
void pl_hazard_restore(struct pl_lower *l, const struct pl_hazard_state *s);
void pl_hazard_merge(struct pl_lower *l, const struct pl_hazard_state *s);
/* The state now to a saved one; NULL: none yet. */
void pl_hazard_add(struct pl_lower *l, struct pl_hazard_state **to);

/* ---- who touches shared memory (touch.c) ---- */
void pl_touch_find(struct pl_lower *l); /* after the shared-memory map */
bool pl_array_is_async(const struct pl_lower *l, uint32_t array);
/* What threads stored to this array, or to any, for the asynchronous accesses of it: a fence, or nothing where there are none. */
void pl_fence_array(struct pl_lower *l, uint32_t array);
void pl_fence_stores(struct pl_lower *l);

/* ---- the user's own instructions (inline.c) ---- */
/* The array among its inputs whose layout all of them get; 0: all are of rank 0. */
uint32_t pl_inline_array(const struct pl_lower *l, const struct pl_op *op);

/* ---- copies by elements (copy_elements.c) ---- */
void pl_bar_scales(struct pl_lower *l); /* after the shared-memory map */

/* ---- registers (pressure.c) ---- */
int32_t pl_registers_at_launch(const struct pl_lower *l); /* of a thread, at most (sync.c) */
uint32_t pl_pressure(struct pl_arena *arena, const struct pl_steps *steps); /* 32-bit ones */

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
