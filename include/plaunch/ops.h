#ifndef PLAUNCH_OPS_H
#define PLAUNCH_OPS_H
/*
 * The builder, second half: operations. Shapes are static; a rank-0 value combines with any shape (splat), arrays combine with
 * arrays of equal shape. Strong dtypes never promote: pl_cast is explicit; weak literals adapt.
 *
 * An operation that this version traces and checks, but does not lower yet, is refused with PL_E_UNSUPPORTED and a diagnostic
 * that names it; the list is kept by a test.
 */
#include <plaunch/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- elementwise ---- */

/* X(enumerator, name, dtypes: F float, I integer, both of 16 bits or more, B pred; any of them). pl_cast narrower ones. */
#define PL_OP1_LIST(X)                                                                             \
    X(NEG, "neg", "FI")                                                                            \
    X(ABS, "abs", "FI")                                                                            \
    X(NOT, "not", "IB")                                                                            \
    X(SQRT, "sqrt", "F")                                                                           \
    X(RSQRT, "rsqrt", "F")                                                                         \
    X(RCP, "rcp", "F")                                                                             \
    X(EXP, "exp", "F")                                                                             \
    X(EXP2, "exp2", "F")                                                                           \
    X(LOG, "log", "F")                                                                             \
    X(LOG2, "log2", "F")                                                                           \
    X(SIN, "sin", "F")                                                                             \
    X(COS, "cos", "F")                                                                             \
    X(TANH, "tanh", "F")                                                                           \
    X(FLOOR, "floor", "F")                                                                         \
    X(CEIL, "ceil", "F")                                                                           \
    X(ROUND, "round", "F") /* half to even */                                                      \
    X(TRUNC, "trunc", "F")                                                                         \
    X(POPC, "popc", "I")                                                                           \
    X(CLZ, "clz", "I")                                                                             \
    X(BREV, "brev", "I")

/* Integer division truncates; CDIV is ceil(x / y) for x >= 0, y > 0. Comparisons give pred. MIN and MAX: a NaN loses. */
#define PL_OP2_LIST(X)                                                                             \
    X(ADD, "add", "FI")                                                                            \
    X(SUB, "sub", "FI")                                                                            \
    X(MUL, "mul", "FI")                                                                            \
    X(DIV, "div", "FI")                                                                            \
    X(REM, "rem", "I")                                                                             \
    X(CDIV, "cdiv", "I")                                                                           \
    X(MIN, "min", "FI")                                                                            \
    X(MAX, "max", "FI")                                                                            \
    X(AND, "and", "IB")                                                                            \
    X(OR, "or", "IB")                                                                              \
    X(XOR, "xor", "IB")                                                                            \
    X(SHL, "shl", "I")                                                                             \
    X(SHR, "shr", "I") /* arithmetic on signed, logical on unsigned */                             \
    X(EQ, "eq", "FIB")                                                                             \
    X(NE, "ne", "FIB")                                                                             \
    X(LT, "lt", "FI")                                                                              \
    X(LE, "le", "FI")                                                                              \
    X(GT, "gt", "FI")                                                                              \
    X(GE, "ge", "FI")

typedef enum pl_op1 {
    PL_OP1_NONE,
#define PL_OP_ENUM_(id, name, kinds) PL_##id,
    PL_OP1_LIST(PL_OP_ENUM_) PL_OP1_COUNT
} pl_op1;
typedef enum pl_op2 {
    PL_OP2_NONE,
    PL_OP2_LIST(PL_OP_ENUM_) PL_OP2_COUNT
#undef PL_OP_ENUM_
} pl_op2;

PL_API pl_val pl_op1_at(pl_builder *b, pl_op1 op, pl_val x, pl_loc l);
PL_API pl_val pl_op2_at(pl_builder *b, pl_op2 op, pl_val x, pl_val y, pl_loc l);
static inline pl_val pl_op2_in_(pl_builder *b, pl_op2 op, pl_vv_ a, pl_loc l)
{
    return pl_op2_at(b, op, a.x, a.y, l);
}
#define PL_OP2_IN_(b, op, x, y)                                                                    \
    pl_op2_in_(b, op, PL_IN_ORDER_(pl_vv_, PL_V(b, x), PL_V(b, y)), PL_LOC)
#define pl_neg(b, x)     pl_op1_at(b, PL_NEG, PL_V(b, x), PL_LOC)
#define pl_abs(b, x)     pl_op1_at(b, PL_ABS, PL_V(b, x), PL_LOC)
#define pl_not(b, x)     pl_op1_at(b, PL_NOT, PL_V(b, x), PL_LOC)
#define pl_sqrt(b, x)    pl_op1_at(b, PL_SQRT, PL_V(b, x), PL_LOC)
#define pl_rsqrt(b, x)   pl_op1_at(b, PL_RSQRT, PL_V(b, x), PL_LOC)
#define pl_rcp(b, x)     pl_op1_at(b, PL_RCP, PL_V(b, x), PL_LOC)
#define pl_exp(b, x)     pl_op1_at(b, PL_EXP, PL_V(b, x), PL_LOC)
#define pl_exp2(b, x)    pl_op1_at(b, PL_EXP2, PL_V(b, x), PL_LOC)
#define pl_log(b, x)     pl_op1_at(b, PL_LOG, PL_V(b, x), PL_LOC)
#define pl_log2(b, x)    pl_op1_at(b, PL_LOG2, PL_V(b, x), PL_LOC)
#define pl_sin(b, x)     pl_op1_at(b, PL_SIN, PL_V(b, x), PL_LOC)
#define pl_cos(b, x)     pl_op1_at(b, PL_COS, PL_V(b, x), PL_LOC)
#define pl_tanh(b, x)    pl_op1_at(b, PL_TANH, PL_V(b, x), PL_LOC)
#define pl_floor(b, x)   pl_op1_at(b, PL_FLOOR, PL_V(b, x), PL_LOC)
#define pl_ceil(b, x)    pl_op1_at(b, PL_CEIL, PL_V(b, x), PL_LOC)
#define pl_round(b, x)   pl_op1_at(b, PL_ROUND, PL_V(b, x), PL_LOC)
#define pl_trunc(b, x)   pl_op1_at(b, PL_TRUNC, PL_V(b, x), PL_LOC)
#define pl_popc(b, x)    pl_op1_at(b, PL_POPC, PL_V(b, x), PL_LOC)
#define pl_clz(b, x)     pl_op1_at(b, PL_CLZ, PL_V(b, x), PL_LOC)
#define pl_brev(b, x)    pl_op1_at(b, PL_BREV, PL_V(b, x), PL_LOC)
#define pl_add(b, x, y)  PL_OP2_IN_(b, PL_ADD, x, y)
#define pl_sub(b, x, y)  PL_OP2_IN_(b, PL_SUB, x, y)
#define pl_mul(b, x, y)  PL_OP2_IN_(b, PL_MUL, x, y)
#define pl_div(b, x, y)  PL_OP2_IN_(b, PL_DIV, x, y)
#define pl_rem(b, x, y)  PL_OP2_IN_(b, PL_REM, x, y)
#define pl_cdiv(b, x, y) PL_OP2_IN_(b, PL_CDIV, x, y)
#define pl_min(b, x, y)  PL_OP2_IN_(b, PL_MIN, x, y)
#define pl_max(b, x, y)  PL_OP2_IN_(b, PL_MAX, x, y)
#define pl_and(b, x, y)  PL_OP2_IN_(b, PL_AND, x, y)
#define pl_or(b, x, y)   PL_OP2_IN_(b, PL_OR, x, y)
#define pl_xor(b, x, y)  PL_OP2_IN_(b, PL_XOR, x, y)
#define pl_shl(b, x, y)  PL_OP2_IN_(b, PL_SHL, x, y)
#define pl_shr(b, x, y)  PL_OP2_IN_(b, PL_SHR, x, y)
#define pl_eq(b, x, y)   PL_OP2_IN_(b, PL_EQ, x, y)
#define pl_ne(b, x, y)   PL_OP2_IN_(b, PL_NE, x, y)
#define pl_lt(b, x, y)   PL_OP2_IN_(b, PL_LT, x, y)
#define pl_le(b, x, y)   PL_OP2_IN_(b, PL_LE, x, y)
#define pl_gt(b, x, y)   PL_OP2_IN_(b, PL_GT, x, y)
#define pl_ge(b, x, y)   PL_OP2_IN_(b, PL_GE, x, y)

PL_API pl_val pl_fma_at(pl_builder *b, pl_val x, pl_val y, pl_val z,
                        pl_loc l); /* x*y + z, one rounding for floats */
/* To nearest even between floats; toward zero from float to integer, saturating; a NaN becomes 0. */
PL_API pl_val pl_cast_at(pl_builder *b, pl_val x, pl_dtype t, pl_loc l);
PL_API pl_val pl_bitcast_at(pl_builder *b, pl_val x, pl_dtype t, pl_loc l); /* equal widths */
PL_API pl_val pl_select_at(pl_builder *b, pl_val cond, pl_val x, pl_val y, pl_loc l);
static inline pl_val pl_fma_in_(pl_builder *b, pl_vvv_ a, pl_loc l)
{
    return pl_fma_at(b, a.x, a.y, a.z, l);
}
static inline pl_val pl_select_in_(pl_builder *b, pl_vvv_ a, pl_loc l)
{
    return pl_select_at(b, a.x, a.y, a.z, l);
}
#define pl_fma(b, x, y, z)                                                                         \
    pl_fma_in_(b, PL_IN_ORDER_(pl_vvv_, PL_V(b, x), PL_V(b, y), PL_V(b, z)), PL_LOC)
#define pl_cast(b, x, t)    pl_cast_at(b, PL_V(b, x), t, PL_LOC)
#define pl_bitcast(b, x, t) pl_bitcast_at(b, PL_V(b, x), t, PL_LOC)
#define pl_select(b, cond, x, y)                                                                   \
    pl_select_in_(b, PL_IN_ORDER_(pl_vvv_, PL_V(b, cond), PL_V(b, x), PL_V(b, y)), PL_LOC)

/* ---- arrays ---- */

typedef enum pl_scope {
    PL_SCOPE_WARP,
    PL_SCOPE_WARPGROUP,
    PL_SCOPE_CTA,
    PL_SCOPE_CLUSTER,
    PL_SCOPE_GPU,
    PL_SCOPE_SYSTEM
} pl_scope;

/* Element value = index along axis; t is an integer or float dtype. */
PL_API pl_val pl_iota_at(pl_builder *b, pl_dtype t, pl_shape s, int32_t axis, pl_loc l);
/* Inserts an axis of n_elems equal copies: (m) -> (m, n) with axis 1. */
PL_API pl_val pl_broadcast_at(pl_builder *b, pl_val x, int32_t axis, int64_t n_elems, pl_loc l);
/*
 * Reduces one axis (PL_ADD, PL_MUL, PL_MIN, PL_MAX, PL_AND, PL_OR, PL_XOR). The rows of a fragment (an accumulator, an operand of
 * pl_mma, a load of TMEM) are reduced in registers and among the lanes of a warp, with no barrier (pl_layout_reduce). Beyond the
 * unit, scope CTA or cluster also combines the results of all its warpgroups or CTAs, each of which must reach the call (so it
 * stands outside roles and under no narrower condition). The order of additions is fixed: equal inputs give equal bits. Result: x's
 * shape without the axis.
 */
PL_API pl_val pl_reduce_at(pl_builder *b, pl_op2 op, pl_val x, int32_t axis, pl_scope scope,
                           pl_loc l);
PL_API pl_val pl_layout_cast_at(pl_builder *b, pl_val x, pl_layout layout, pl_loc l);
/* One element as a rank-0 value, known to the whole unit. */
PL_API pl_val pl_extract_at(pl_builder *b, pl_val x, pl_offs index, pl_loc l);
static inline pl_val pl_extract_in_(pl_builder *b, pl_vo_ a, pl_loc l)
{
    return pl_extract_at(b, a.v, a.o, l);
}
#define pl_iota(b, t, s, axis)           pl_iota_at(b, t, s, axis, PL_LOC)
#define pl_broadcast(b, x, axis, n)      pl_broadcast_at(b, PL_V(b, x), axis, n, PL_LOC)
#define pl_reduce(b, op, x, axis, scope) pl_reduce_at(b, op, x, axis, scope, PL_LOC)
#define pl_layout_cast(b, x, layout)     pl_layout_cast_at(b, x, layout, PL_LOC)
#define pl_extract(b, x, index)                                                                    \
    pl_extract_in_(b, PL_IN_ORDER_(pl_vo_, PL_V(b, x), pl_o_(index)), PL_LOC)

/* ---- loads and stores ---- */

typedef enum pl_oob {
    PL_OOB_AUTO,   /* elements outside the tensor (or a clip) are not touched; loads give 0 */
    PL_OOB_FILL,   /* ... loads give `fill` */
    PL_OOB_PROMISE /* the caller promises there are none */
} pl_oob;

typedef struct pl_load_opt {
    pl_oob oob;
    double fill;      /* converted to the ref's dtype */
    pl_layout layout; /* {0}: AUTO */
} pl_load_opt;
typedef struct pl_store_opt {
    pl_oob oob; /* AUTO or PROMISE */
} pl_store_opt;

/*
 * What a unit did to SMEM, and to elements of GMEM (rank-0 refs), it sees as a sequential program would, whichever thread did it. Of
 * parts of arrays in GMEM a thread sees what it stored itself: pl_bar_sync comes before a load by other threads of the unit, as where
 * the layout or the window is another one. Between units barriers order, pipes, semaphores, or pl_bar_sync of the CTA.
 */
/* GMEM, SMEM, REGS (whole variables). A whole ref as a value: rank 0 is uniform. TMEM refs have their own asynchronous loads and stores. */
PL_API pl_val pl_load_at(pl_builder *b, pl_ref r, const pl_load_opt *o, pl_loc l);
/* A rank-0 value or a literal fills the whole ref. */
PL_API void pl_store_at(pl_builder *b, pl_ref r, pl_val v, const pl_store_opt *o, pl_loc l);
/* Stores v, gives what was there: SMEM and REGS. */
PL_API pl_val pl_swap_at(pl_builder *b, pl_ref r, pl_val v, pl_loc l);
static inline void pl_store_in_(pl_builder *b, pl_rv_ a, const pl_store_opt *o, pl_loc l)
{
    pl_store_at(b, a.r, a.v, o, l);
}
static inline pl_val pl_swap_in_(pl_builder *b, pl_rv_ a, pl_loc l)
{
    return pl_swap_at(b, a.r, a.v, l);
}
#define pl_load(b, r)       pl_load_at(b, r, NULL, PL_LOC)
#define pl_load_ex(b, r, o) pl_load_at(b, r, o, PL_LOC)
#define pl_store(b, r, v)   pl_store_in_(b, PL_IN_ORDER_(pl_rv_, pl_r_(r), PL_V(b, v)), NULL, PL_LOC)
#define pl_store_ex(b, r, v, o)                                                                    \
    pl_store_in_(b, PL_IN_ORDER_(pl_rv_, pl_r_(r), PL_V(b, v)), o, PL_LOC)
#define pl_swap(b, r, v) pl_swap_in_(b, PL_IN_ORDER_(pl_rv_, pl_r_(r), PL_V(b, v)), PL_LOC)

typedef enum pl_atomic {
    PL_ATOMIC_ADD,
    PL_ATOMIC_MIN,
    PL_ATOMIC_MAX,
    PL_ATOMIC_AND,
    PL_ATOMIC_OR,
    PL_ATOMIC_XOR,
    PL_ATOMIC_EXCH,
    PL_ATOMIC_CAS,
    PL_ATOMIC_COUNT
} pl_atomic;
typedef struct pl_atomic_opt {
    pl_scope scope;   /* CTA, cluster, GPU, system; {0}: GPU for GMEM, CTA for SMEM */
    int32_t want_old; /* give the old value */
    pl_val compare;   /* PL_ATOMIC_CAS */
} pl_atomic_opt;
/* On GMEM or SMEM, element by element; poison unless want_old. A rank-0 value: once for the unit. */
PL_API pl_val pl_atomic_at(pl_builder *b, pl_atomic op, pl_ref r, pl_val v, const pl_atomic_opt *o,
                           pl_loc l);
static inline pl_val pl_atomic_in_(pl_builder *b, pl_atomic op, pl_rv_ a, const pl_atomic_opt *o,
                                   pl_loc l)
{
    return pl_atomic_at(b, op, a.r, a.v, o, l);
}
#define pl_atomic_add(b, r, v)                                                                     \
    ((void)pl_atomic_in_(b, PL_ATOMIC_ADD, PL_IN_ORDER_(pl_rv_, pl_r_(r), PL_V(b, v)), NULL,       \
                         PL_LOC))
#define pl_atomic_min(b, r, v)                                                                     \
    ((void)pl_atomic_in_(b, PL_ATOMIC_MIN, PL_IN_ORDER_(pl_rv_, pl_r_(r), PL_V(b, v)), NULL,       \
                         PL_LOC))
#define pl_atomic_max(b, r, v)                                                                     \
    ((void)pl_atomic_in_(b, PL_ATOMIC_MAX, PL_IN_ORDER_(pl_rv_, pl_r_(r), PL_V(b, v)), NULL,       \
                         PL_LOC))
#define pl_atomic_and(b, r, v)                                                                     \
    ((void)pl_atomic_in_(b, PL_ATOMIC_AND, PL_IN_ORDER_(pl_rv_, pl_r_(r), PL_V(b, v)), NULL,       \
                         PL_LOC))
#define pl_atomic_or(b, r, v)                                                                      \
    ((void)pl_atomic_in_(b, PL_ATOMIC_OR, PL_IN_ORDER_(pl_rv_, pl_r_(r), PL_V(b, v)), NULL, PL_LOC))
#define pl_atomic_xor(b, r, v)                                                                     \
    ((void)pl_atomic_in_(b, PL_ATOMIC_XOR, PL_IN_ORDER_(pl_rv_, pl_r_(r), PL_V(b, v)), NULL,       \
                         PL_LOC))
#define pl_atomic_ex(b, op, r, v, o)                                                               \
    pl_atomic_in_(b, op, PL_IN_ORDER_(pl_rv_, pl_r_(r), PL_V(b, v)), o, PL_LOC)

/* ---- copies ---- */

typedef enum pl_how { PL_HOW_AUTO, PL_HOW_TMA, PL_HOW_BULK, PL_HOW_ELEMENTS } pl_how;

/*
 * A copy that reduces or multicasts is never made by elements: PL3190 where it would have to be. With pair_axis_plus1, src has twice
 * the extent of dst along that axis, and each CTA of a cluster of 2 takes its half.
 */
typedef struct pl_copy_opt {
    pl_val pred; /* rank-0 pred; id 0: always. False: 0 bytes move, the arrival still happens */
    int32_t pair_axis_plus1; /* split along this axis between the two CTAs of a pair; 0: not */
    uint32_t multicast_mask; /* CTAs of the cluster that receive it; 0: this one */
    pl_oob oob;              /* AUTO: zero fill */
    pl_op2
        reduce; /* smem -> gmem only: PL_ADD, PL_MIN, PL_MAX, PL_AND, PL_OR, PL_XOR; PL_OP2_NONE: overwrite */
    pl_how how;         /* force a lowering (a diagnostic when it cannot serve) */
    int32_t keep_in_l2; /* advice to the copy engine: 1: evict last, -1: evict first, 0: none */
} pl_copy_opt;

/*
 * src: a GMEM view; dst: SMEM of the same shape and dtype. Exactly one arrival on bar, whatever the lowering; bytes come from the
 * box issued. Parts of src outside its tensor arrive as zeros.
 */
PL_API void pl_copy_gmem_to_smem_at(pl_builder *b, pl_ref src, pl_ref dst, pl_bar bar,
                                    const pl_copy_opt *o, pl_loc l);
/* Asynchronous; pl_commit_smem first when threads wrote src; pl_wait_smem_to_gmem before src is reused or the data is needed. */
PL_API void pl_copy_smem_to_gmem_at(pl_builder *b, pl_ref src, pl_ref dst, const pl_copy_opt *o,
                                    pl_loc l);
/* Until at most n_pending of this unit's copies are unfinished; is_read_only: until src has been read (it may be reused). */
PL_API void pl_wait_smem_to_gmem_at(pl_builder *b, int32_t n_pending, int32_t is_read_only,
                                    pl_loc l);
/* Makes the unit's SMEM accesses visible to copies and matrix operations: proxy fence and unit barrier. */
PL_API void pl_commit_smem_at(pl_builder *b, pl_loc l);
/*
 * A GMEM view of static extents, into L2. Advice: dropped, with a note in the plan, on chips without TMA and where its rows are not
 * known to be 16-byte words.
 */
PL_API void pl_prefetch_at(pl_builder *b, pl_ref src, pl_loc l);
/*
 * To a cluster peer's SMEM (pl_peer): registers go out by st.async, completion on bar in the *peer* (one mbarrier, SMEM). Arrays
 * only: a rank-0 value or ref is refused. reduce: PL_OP2_NONE, or PL_ADD, MIN, MAX, AND, OR, XOR on 32-bit integers (red.async).
 */
PL_API void pl_async_store_smem_at(pl_builder *b, pl_ref dst, pl_val v, pl_bar bar, pl_op2 reduce,
                                   pl_loc l);
/*
 * Rows of a rank-2 GMEM view chosen by rows, a rank-1 value (n) of i32 or u32: dst (n, width), SMEM. One arrival on bar, of the unit
 * that executes it. Zeros where a row or column is outside src's tensor or its clip, and for an index of no row, as -1.
 */
PL_API void pl_gather_rows_at(pl_builder *b, pl_ref src, pl_val rows, pl_ref dst, pl_bar bar,
                              pl_loc l);
static inline void pl_copy_in_in_(pl_builder *b, pl_rrb_ a, const pl_copy_opt *o, pl_loc l)
{
    pl_copy_gmem_to_smem_at(b, a.x, a.y, a.bar, o, l);
}
static inline void pl_copy_out_in_(pl_builder *b, pl_rr_ a, const pl_copy_opt *o, pl_loc l)
{
    pl_copy_smem_to_gmem_at(b, a.x, a.y, o, l);
}
static inline void pl_async_store_in_(pl_builder *b, pl_rvb_ a, pl_op2 op, pl_loc l)
{
    pl_async_store_smem_at(b, a.r, a.v, a.bar, op, l);
}
#define pl_copy_gmem_to_smem(b, src, dst, bar)                                                     \
    pl_copy_in_in_(b, PL_IN_ORDER_(pl_rrb_, pl_r_(src), pl_r_(dst), pl_b_(bar)), NULL, PL_LOC)
#define pl_copy_gmem_to_smem_ex(b, src, dst, bar, o)                                               \
    pl_copy_in_in_(b, PL_IN_ORDER_(pl_rrb_, pl_r_(src), pl_r_(dst), pl_b_(bar)), o, PL_LOC)
#define pl_copy_smem_to_gmem(b, src, dst)                                                          \
    pl_copy_out_in_(b, PL_IN_ORDER_(pl_rr_, pl_r_(src), pl_r_(dst)), NULL, PL_LOC)
#define pl_copy_smem_to_gmem_ex(b, src, dst, o)                                                    \
    pl_copy_out_in_(b, PL_IN_ORDER_(pl_rr_, pl_r_(src), pl_r_(dst)), o, PL_LOC)
#define pl_wait_smem_to_gmem(b, n)      pl_wait_smem_to_gmem_at(b, n, 0, PL_LOC)
#define pl_wait_smem_to_gmem_read(b, n) pl_wait_smem_to_gmem_at(b, n, 1, PL_LOC)
#define pl_commit_smem(b)               pl_commit_smem_at(b, PL_LOC)
#define pl_prefetch(b, src)             pl_prefetch_at(b, src, PL_LOC)
#define pl_async_store_smem(b, dst, v, bar)                                                        \
    pl_async_store_in_(b, PL_IN_ORDER_(pl_rvb_, pl_r_(dst), PL_V(b, v), pl_b_(bar)), PL_OP2_NONE,  \
                       PL_LOC)
#define pl_async_reduce_smem(b, op, dst, v, bar)                                                   \
    pl_async_store_in_(b, PL_IN_ORDER_(pl_rvb_, pl_r_(dst), PL_V(b, v), pl_b_(bar)), op, PL_LOC)
#define pl_gather_rows(b, src, rows, dst, bar) pl_gather_rows_at(b, src, rows, dst, bar, PL_LOC)

/* ---- tensor memory and matrix operations ---- */

typedef struct pl_mma_opt {
    pl_val accumulate;       /* rank-0 pred; id 0: true. False is pl_lit_i(b, 0), not 0 */
    int32_t is_pair;         /* two CTAs work as one; the leader issues */
    pl_ref a_scale, b_scale; /* TMEM, both or none (block-scaled formats) */
    int32_t scale_block;     /* elements of K that share a scale: 16 or 32 */
    pl_ref sparsity;         /* TMEM metadata of a 2:4 sparse A: not served (PL2094) */
} pl_mma_opt;

/*
 * One slot of a TMEM array, or a window of its columns, to and from registers of a warpgroup: a row a thread where it has 128 rows
 * (TMEM_NATIVE; TCGEN05 when the value goes into such a pl_regs), as wgmma has them where it has 64. A loaded value can be used at
 * once; pl_wait_load_tmem before its columns are overwritten. What was stored is there for others after pl_commit_tmem.
 */
PL_API pl_val pl_async_load_tmem_at(pl_builder *b, pl_ref r, pl_loc l);
PL_API void pl_wait_load_tmem_at(pl_builder *b, pl_loc l);
PL_API void pl_async_store_tmem_at(pl_builder *b, pl_ref r, pl_val v, pl_loc l);
PL_API void pl_commit_tmem_at(pl_builder *b, pl_loc l);
/*
 * The operations of the tensor core. One thread of a unit issues them, in order: a product needs no wait for copies or products before
 * it. pl_tcgen05_commit arrives at bar when all that the unit issued is done; of a pair in both CTAs, or at the leader where bar
 * lives there. The leader of a pair issues for both.
 *
 * pl_copy_smem_to_tmem: 128 rows of a multiple of 32 bytes, of the same type and shape.
 * pl_copy_scales_to_tmem: dst (rows, columns), multiples of 128 and 4, of e8m0 or e4m3; src (rows / 128, columns / 4, 32, 16), not swizzled: scale
 * (32 i + r, j) of a block of 128 rows and 4 columns lies at (r, 4 i + j). Of a pair each CTA has the scales of its rows of x, and
 * of all columns of y.
 */
PL_API void pl_copy_smem_to_tmem_at(pl_builder *b, pl_ref src, pl_ref dst, pl_loc l);
PL_API void pl_copy_scales_to_tmem_at(pl_builder *b, pl_ref src, pl_ref dst, pl_loc l);
/*
 * d (m, n) in TMEM += x (m, k) in SMEM or TMEM * y (k, n) in SMEM; the first of a sum with accumulate false. m: 64 or 128; n: up to 256. Of
 * a pair each CTA has m rows of x and d, half of the columns of y, and all n of d.
 *
 * Types    f16 into f16 or f32; bf16, tf32 and f32 (its upper 19 bits) into f32; fp8 into f16 or f32; i8, u8 into i32 (sm_100a)
 * Scaled   into f32: fp8 by e8m0 for 32 elements; e2m1 by e8m0 for 32 or 16, or by e4m3 for 16. e2m1 lies two a byte, the first
 *          in the low half, and has K last
 * Majors   K may be either axis; across it 32-bit operands have rows of a multiple of 128 bytes: PL4190
 */
PL_API void pl_tcgen05_mma_at(pl_builder *b, pl_ref d, pl_ref x, pl_ref y, const pl_mma_opt *o,
                              pl_loc l);
PL_API void pl_tcgen05_commit_at(pl_builder *b, pl_bar bar, pl_loc l);
/* acc (m, n) in ACC += x (m, k) * y (k, n), both in SMEM. Asynchronous. pl_wgmma_val: x in registers. */
PL_API void pl_wgmma_at(pl_builder *b, pl_ref acc, pl_ref x, pl_ref y, pl_loc l);
/* accumulate, a rank-0 pred: false overwrites acc with the product, as the first step of a sum does. id 0: true. */
PL_API void pl_wgmma_if_at(pl_builder *b, pl_ref acc, pl_ref x, pl_ref y, pl_val accumulate,
                           pl_loc l);
PL_API void pl_wgmma_val_at(pl_builder *b, pl_ref acc, pl_val x, pl_ref y, pl_loc l);
/*
 * Until at most n_pending of this unit's products are unfinished. Which operands those still read is the body's to know: no store to
 * them waits.
 */
PL_API void pl_wgmma_wait_at(pl_builder *b, int32_t n_pending, pl_loc l);
PL_API pl_val pl_acc_load_at(pl_builder *b, pl_ref acc,
                             pl_loc l); /* waits for all wgmma in flight */
PL_API void pl_acc_init_at(pl_builder *b, pl_ref acc, pl_val v, pl_loc l);
/* x (m, k) * y (k, n) + c (m, n) or rank 0, values in MMA layouts, mma.sync; synchronous. */
PL_API pl_val pl_mma_at(pl_builder *b, pl_val x, pl_val y, pl_val c, pl_loc l);
static inline void pl_async_store_tmem_in_(pl_builder *b, pl_rv_ a, pl_loc l)
{
    pl_async_store_tmem_at(b, a.r, a.v, l);
}
static inline void pl_copy_smem_to_tmem_in_(pl_builder *b, pl_rr_ a, pl_loc l)
{
    pl_copy_smem_to_tmem_at(b, a.x, a.y, l);
}
static inline void pl_copy_scales_in_(pl_builder *b, pl_rr_ a, pl_loc l)
{
    pl_copy_scales_to_tmem_at(b, a.x, a.y, l);
}
static inline void pl_tcgen05_mma_in_(pl_builder *b, pl_rrr_ a, const pl_mma_opt *o, pl_loc l)
{
    pl_tcgen05_mma_at(b, a.x, a.y, a.z, o, l);
}
static inline void pl_wgmma_in_(pl_builder *b, pl_rrr_ a, pl_loc l)
{
    pl_wgmma_at(b, a.x, a.y, a.z, l);
}
static inline void pl_wgmma_if_in_(pl_builder *b, pl_rrr_ a, pl_val accumulate, pl_loc l)
{
    pl_wgmma_if_at(b, a.x, a.y, a.z, accumulate, l);
}
static inline void pl_acc_init_in_(pl_builder *b, pl_rv_ a, pl_loc l)
{
    pl_acc_init_at(b, a.r, a.v, l);
}
static inline pl_val pl_mma_in_(pl_builder *b, pl_vvv_ a, pl_loc l)
{
    return pl_mma_at(b, a.x, a.y, a.z, l);
}
#define pl_async_load_tmem(b, r) pl_async_load_tmem_at(b, r, PL_LOC)
#define pl_wait_load_tmem(b)     pl_wait_load_tmem_at(b, PL_LOC)
#define pl_async_store_tmem(b, r, v)                                                               \
    pl_async_store_tmem_in_(b, PL_IN_ORDER_(pl_rv_, pl_r_(r), PL_V(b, v)), PL_LOC)
#define pl_commit_tmem(b) pl_commit_tmem_at(b, PL_LOC)
#define pl_copy_smem_to_tmem(b, src, dst)                                                          \
    pl_copy_smem_to_tmem_in_(b, PL_IN_ORDER_(pl_rr_, pl_r_(src), pl_r_(dst)), PL_LOC)
#define pl_copy_scales_to_tmem(b, src, dst)                                                        \
    pl_copy_scales_in_(b, PL_IN_ORDER_(pl_rr_, pl_r_(src), pl_r_(dst)), PL_LOC)
#define pl_tcgen05_mma(b, d, x, y, o)                                                              \
    pl_tcgen05_mma_in_(b, PL_IN_ORDER_(pl_rrr_, pl_r_(d), pl_r_(x), pl_r_(y)), o, PL_LOC)
#define pl_tcgen05_commit(b, bar) pl_tcgen05_commit_at(b, bar, PL_LOC)
#define pl_wgmma(b, acc, x, y)                                                                     \
    pl_wgmma_in_(b, PL_IN_ORDER_(pl_rrr_, pl_r_(acc), pl_r_(x), pl_r_(y)), PL_LOC)
#define pl_wgmma_if(b, acc, x, y, accumulate)                                                      \
    pl_wgmma_if_in_(b, PL_IN_ORDER_(pl_rrr_, pl_r_(acc), pl_r_(x), pl_r_(y)), PL_V(b, accumulate), \
                    PL_LOC)
#define pl_wgmma_val(b, acc, x, y) pl_wgmma_val_at(b, acc, x, y, PL_LOC)
#define pl_wgmma_wait(b, n)        pl_wgmma_wait_at(b, n, PL_LOC)
#define pl_acc_load(b, acc)        pl_acc_load_at(b, acc, PL_LOC)
#define pl_acc_init(b, acc, v)                                                                     \
    pl_acc_init_in_(b, PL_IN_ORDER_(pl_rv_, pl_r_(acc), PL_V(b, v)), PL_LOC)
#define pl_mma(b, x, y, c)                                                                         \
    pl_mma_in_(b, PL_IN_ORDER_(pl_vvv_, PL_V(b, x), PL_V(b, y), PL_V(b, c)), PL_LOC)

/* ---- synchronisation ---- */

typedef enum pl_fence_kind {
    PL_FENCE_ASYNC, /* generic accesses before, asynchronous (TMA, matrix) accesses after, of SMEM */
    PL_FENCE_CTA,
    PL_FENCE_CLUSTER,
    PL_FENCE_GPU,
    PL_FENCE_SYSTEM,
    PL_FENCE_COUNT
} pl_fence_kind;

PL_API void pl_barrier_arrive_at(pl_builder *b, pl_bar bar,
                                 pl_loc l); /* one arrival of the executing unit */
PL_API void pl_barrier_wait_at(pl_builder *b, pl_bar bar, pl_loc l);
/* pred: a pl_barrier_wait now would not wait. Does not count as one: wait all the same. Inside PL_WARP only. */
PL_API pl_val pl_barrier_test_at(pl_builder *b, pl_bar bar, pl_loc l);
PL_API void pl_bar_sync_at(pl_builder *b, pl_scope scope, pl_loc l); /* warp, warpgroup or CTA */
PL_API void pl_cluster_sync_at(pl_builder *b, pl_loc l);
PL_API void pl_fence_at(pl_builder *b, pl_fence_kind kind, pl_loc l);
/*
 * Programmatic dependent launch, sm_90 and later. Wait: until the grids ahead in the stream are complete and what they wrote is visible,
 * to the threads that execute it; reads of GMEM come after it (PL5021), but for parameters that are is_constant. A body without it waits
 * ahead of all its code when the launch asks for options.pdl. Launch: the next grid may start, and set up.
 */
PL_API void pl_griddep_wait_at(pl_builder *b, pl_loc l);
PL_API void pl_griddep_launch_at(pl_builder *b, pl_loc l);
PL_API void pl_set_max_registers_at(pl_builder *b, int32_t n_registers,
                                    pl_loc l); /* 24..256, multiple of 8; in a warpgroup role */
PL_API void pl_semaphore_signal_at(pl_builder *b, pl_ref s, pl_val by, pl_loc l);
PL_API void pl_semaphore_wait_at(pl_builder *b, pl_ref s, pl_val at_least, pl_loc l);
PL_API pl_val pl_semaphore_read_at(pl_builder *b, pl_ref s, pl_loc l);
static inline void pl_semaphore_signal_in_(pl_builder *b, pl_rv_ a, pl_loc l)
{
    pl_semaphore_signal_at(b, a.r, a.v, l);
}
static inline void pl_semaphore_wait_in_(pl_builder *b, pl_rv_ a, pl_loc l)
{
    pl_semaphore_wait_at(b, a.r, a.v, l);
}
#define pl_barrier_arrive(b, bar)  pl_barrier_arrive_at(b, bar, PL_LOC)
#define pl_barrier_wait(b, bar)    pl_barrier_wait_at(b, bar, PL_LOC)
#define pl_barrier_test(b, bar)    pl_barrier_test_at(b, bar, PL_LOC)
#define pl_bar_sync(b, scope)      pl_bar_sync_at(b, scope, PL_LOC)
#define pl_cluster_sync(b)         pl_cluster_sync_at(b, PL_LOC)
#define pl_fence(b, kind)          pl_fence_at(b, kind, PL_LOC)
#define pl_griddep_wait(b)         pl_griddep_wait_at(b, PL_LOC)
#define pl_griddep_launch(b)       pl_griddep_launch_at(b, PL_LOC)
#define pl_set_max_registers(b, n) pl_set_max_registers_at(b, n, PL_LOC)
#define pl_semaphore_signal(b, s, by)                                                              \
    pl_semaphore_signal_in_(b, PL_IN_ORDER_(pl_rv_, pl_r_(s), PL_V(b, by)), PL_LOC)
#define pl_semaphore_wait(b, s, at_least)                                                          \
    pl_semaphore_wait_in_(b, PL_IN_ORDER_(pl_rv_, pl_r_(s), PL_V(b, at_least)), PL_LOC)
#define pl_semaphore_read(b, s) pl_semaphore_read_at(b, s, PL_LOC)

/* ---- escape ---- */

enum {
    PL_EFFECT_NONE = 1, /* a pure function of its inputs; exactly this bit, or any of the others */
    PL_EFFECT_READ_MEMORY = 2,
    PL_EFFECT_WRITE_MEMORY = 4,
    PL_EFFECT_SYNC = 8
};
/*
 * Instructions with $0, $1, ... for outputs then inputs, each ended by ';'; $$ is a dollar sign. They stand in { }: their own registers
 * and labels are nobody else's. Operands are registers, by dtype: pred in a .pred; f16 and bf16 in a .b16; 32-bit types, and 8- and
 * 16-bit integers (extended by their sign) and 8-bit floats, in a .b32; 64-bit types in a .b64. Executed by every thread of the unit,
 * for the elements it holds; a rank-0 text by all of them. PL7103 where the text cannot be read.
 */
typedef struct pl_ptx_desc {
    const char *text;
    int32_t n_outs; /* at most 4 */
    pl_dtype out_dtypes[4];
    int32_t n_ins;    /* at most 8 */
    pl_val ins[8];    /* of one shape (or rank 0); the text is applied to each element */
    uint32_t effects; /* mandatory */
} pl_ptx_desc;
/* The outputs, each of the inputs' shape, are written to outs[0..n_outs-1]. */
PL_API void pl_inline_ptx_at(pl_builder *b, const pl_ptx_desc *d, pl_val *outs, pl_loc l);
#define pl_inline_ptx(b, d, outs) pl_inline_ptx_at(b, d, outs, PL_LOC)

#ifdef __cplusplus
}
#endif
#endif
