#ifndef PLAUNCH_TRACE_H
#define PLAUNCH_TRACE_H
/*
 * The builder, first half: what a kernel body is made of. Values, refs, views, allocation, barriers, pipes, blocks, schedules.
 * (plaunch/ops.h has the operations.) A body is traced once per variant; each call appends to the trace.
 *
 * The builder is the one that the body was given, and handles are numbers of its trace: neither is kept for another body, where the same
 * number is something else.
 *
 * Every function is exported as pl_x_at(..., pl_loc) or pl_x_begin(..., pl_loc) (the ABI, for bindings in other languages); the
 * macro pl_x supplies file and line. Builder calls never fail visibly: the first error is kept as a diagnostic with the place,
 * the result is poison (id 0), and poison is silent everywhere. Finishing the trace reports all independent diagnostics.
 *
 * A body runs as *units*: a unit is one warpgroup (128 CUDA threads), or one warp inside PL_WARP. Code outside roles is run by every
 * warpgroup; a copy there is issued once for the CTA when its operands and conditions are the same for all warpgroups, and once by
 * each warpgroup when they differ (each is then an arrival of its own). pl_barrier_arrive there is one arrival of each warpgroup. A rank-0 value is uniform over
 * the executing unit; its level of uniformity says how much wider it is equal (grid, cluster, CTA, warpgroup, warp). Control
 * flow is on rank-0 values only, so generated code has no divergent branch except inside operations.
 */
#include <plaunch/core.h>
#include <plaunch/launch.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- handles: typed ids by value; id 0 is none or poison ---- */

typedef struct pl_val {
    uint32_t id;
} pl_val; /* immutable; scoped to the block that made it; rank 0 = uniform over the unit, else an array spread over its threads */
typedef struct pl_ref {
    uint32_t id;
} pl_ref; /* an array in a space, or a view of one; a ref in REGS is the one mutable thing */
typedef struct pl_bar {
    uint32_t id;
} pl_bar; /* an mbarrier, or a group of at most 32 (pl_bar_at selects one) */
typedef struct pl_pipe {
    uint32_t id;
} pl_pipe;

static inline pl_val pl_val_none(void)
{
    pl_val v;
    v.id = 0;
    return v;
}
static inline pl_bar pl_bar_none(void)
{
    pl_bar v;
    v.id = 0;
    return v;
}

/* ---- literals: a bare C number wherever a value is expected ---- */

/*
 * Weak: takes the dtype of the other operand (of the ref, the REGS variable, the loop bound). Alone it is i32 (or i64 when it does
 * not fit), or f32. A float literal meeting an integer operand is a diagnostic.
 */
PL_API pl_val pl_lit_i(pl_builder *b, long long v);
PL_API pl_val pl_lit_u(pl_builder *b, unsigned long long v);
PL_API pl_val pl_lit_f(pl_builder *b, double v);
static inline pl_val pl_lit_val_(pl_builder *b, pl_val v)
{
    (void)b;
    return v;
}
#ifdef __cplusplus
}
static inline pl_val pl_v_(pl_builder *, pl_val v) { return v; }
static inline pl_val pl_v_(pl_builder *b, bool v) { return pl_lit_i(b, v); }
static inline pl_val pl_v_(pl_builder *b, int v) { return pl_lit_i(b, v); }
static inline pl_val pl_v_(pl_builder *b, long v) { return pl_lit_i(b, v); }
static inline pl_val pl_v_(pl_builder *b, long long v) { return pl_lit_i(b, v); }
static inline pl_val pl_v_(pl_builder *b, unsigned v) { return pl_lit_u(b, v); }
static inline pl_val pl_v_(pl_builder *b, unsigned long v) { return pl_lit_u(b, v); }
static inline pl_val pl_v_(pl_builder *b, unsigned long long v) { return pl_lit_u(b, v); }
static inline pl_val pl_v_(pl_builder *b, float v) { return pl_lit_f(b, static_cast<double>(v)); }
static inline pl_val pl_v_(pl_builder *b, double v) { return pl_lit_f(b, v); }
#define PL_V(b, x) pl_v_((b), (x))
extern "C" {
#else
#define PL_V(b, x)                                                                                 \
    _Generic((x), pl_val                                                                           \
             : pl_lit_val_, float                                                                  \
             : pl_lit_f, double                                                                    \
             : pl_lit_f, unsigned                                                                  \
             : pl_lit_u, unsigned long                                                             \
             : pl_lit_u, unsigned long long                                                        \
             : pl_lit_u, default                                                                   \
             : pl_lit_i)((b), (x))
#endif

/*
 * The order of a trace: operands written side by side in one macro are traced from left to right, with every compiler, so that one source
 * gives one text. (C leaves the order of a call's arguments open; expressions in braces are evaluated in order by C++'s rules and by all
 * C compilers that we know.) In calls of your own functions, name the operands first where the order matters to you.
 */
#ifdef __cplusplus
#define PL_IN_ORDER_(T, ...)                                                                       \
    T { __VA_ARGS__ }
#else
#define PL_IN_ORDER_(T, ...) ((T){__VA_ARGS__})
#endif
typedef struct pl_vv_ {
    pl_val x, y;
} pl_vv_;
typedef struct pl_vvv_ {
    pl_val x, y, z;
} pl_vvv_;
typedef struct pl_rv_ {
    pl_ref r;
    pl_val v;
} pl_rv_;
typedef struct pl_rr_ {
    pl_ref x, y;
} pl_rr_;
typedef struct pl_rrr_ {
    pl_ref x, y, z;
} pl_rrr_;
typedef struct pl_rrb_ {
    pl_ref x, y;
    pl_bar bar;
} pl_rrb_;
typedef struct pl_rvb_ {
    pl_ref r;
    pl_val v;
    pl_bar bar;
} pl_rvb_;
typedef struct pl_bv_ {
    pl_bar bar;
    pl_val v;
} pl_bv_;

/* Offsets of a view, one for each axis, outermost first: PL_OFF(b, i, 0). Each entry is a rank-0 integer or a C integer. */
typedef struct pl_offs {
    int32_t rank;
    pl_val o[PL_MAX_RANK];
} pl_offs;

#define PL_OFF_1(b, p)       PL_IN_ORDER_(pl_offs, 1, {PL_V(b, p)})
#define PL_OFF_2(b, p, q)    PL_IN_ORDER_(pl_offs, 2, {PL_V(b, p), PL_V(b, q)})
#define PL_OFF_3(b, p, q, r) PL_IN_ORDER_(pl_offs, 3, {PL_V(b, p), PL_V(b, q), PL_V(b, r)})
#define PL_OFF_4(b, p, q, r, s)                                                                    \
    PL_IN_ORDER_(pl_offs, 4, {PL_V(b, p), PL_V(b, q), PL_V(b, r), PL_V(b, s)})
#define PL_OFF_5(b, p, q, r, s, t)                                                                 \
    PL_IN_ORDER_(pl_offs, 5, {PL_V(b, p), PL_V(b, q), PL_V(b, r), PL_V(b, s), PL_V(b, t)})
#define PL_OFF_6(b, p, q, r, s, t, u)                                                              \
    PL_IN_ORDER_(pl_offs, 6,                                                                       \
                 {PL_V(b, p), PL_V(b, q), PL_V(b, r), PL_V(b, s), PL_V(b, t), PL_V(b, u)})
#define PL_OFF_7(b, p, q, r, s, t, u, v)                                                           \
    PL_IN_ORDER_(                                                                                  \
        pl_offs, 7,                                                                                \
        {PL_V(b, p), PL_V(b, q), PL_V(b, r), PL_V(b, s), PL_V(b, t), PL_V(b, u), PL_V(b, v)})
#define PL_OFF_8(b, p, q, r, s, t, u, v, w)                                                        \
    PL_IN_ORDER_(pl_offs, 8,                                                                       \
                 {PL_V(b, p), PL_V(b, q), PL_V(b, r), PL_V(b, s), PL_V(b, t), PL_V(b, u),          \
                  PL_V(b, v), PL_V(b, w)})
#define PL_OFF(b, ...) PL_CAT(PL_OFF_, PL_NARG(__VA_ARGS__))(b, __VA_ARGS__)

/* A number is none of these, though C would take it for the first member. */
static inline pl_ref pl_r_(pl_ref r) { return r; }
static inline pl_bar pl_b_(pl_bar bar) { return bar; }
static inline pl_offs pl_o_(pl_offs o) { return o; }

typedef struct pl_ro_ {
    pl_ref r;
    pl_offs o;
} pl_ro_;
typedef struct pl_vo_ {
    pl_val v;
    pl_offs o;
} pl_vo_;

/* ---- layouts of register values ---- */

/*
 * How the elements of an array value lie in the threads of a unit. Rules (BUILDER.md, section 6): producers with one layout fix
 * it; SPLAT adapts to anything; an AUTO load takes its first consumer's, else STRIDED; two fixed layouts that meet are converted
 * where the pair is supported, else it is a diagnostic.
 */
typedef enum pl_layout_kind {
    PL_LAYOUT_AUTO,
    PL_LAYOUT_STRIDED, /* thread t holds elements (t + 128*j)*vec .. +vec of the row-major order */
    PL_LAYOUT_SPLAT,   /* every thread holds the one value of all elements */
    PL_LAYOUT_WGMMA,   /* 32-bit accumulator fragments of wgmma: 64 rows a warpgroup */
    PL_LAYOUT_WGMMA_8BIT,
    PL_LAYOUT_WGMMA_UPCAST_2X,
    PL_LAYOUT_WGMMA_UPCAST_4X,
    PL_LAYOUT_TCGEN05,     /* one row a thread pair, as wgmma, over 128 TMEM lanes */
    PL_LAYOUT_TMEM_NATIVE, /* one row a thread */
    PL_LAYOUT_MMA_A,       /* mma.sync m16n8 operand and accumulator fragments */
    PL_LAYOUT_MMA_B,
    PL_LAYOUT_MMA_ACC,
    PL_LAYOUT_COUNT
} pl_layout_kind;

typedef struct pl_layout {
    pl_layout_kind kind;
    int32_t vec; /* STRIDED: elements of one thread in a row; 0: the widest that the facts allow */
    uint32_t
        reduced_axes; /* bit i: axis i of the base layout was reduced away (pl_layout_reduce) */
} pl_layout;

static inline pl_layout pl_layout_make_(pl_layout_kind kind, int32_t vec)
{
    pl_layout l;
    l.kind = kind;
    l.vec = vec;
    l.reduced_axes = 0;
    return l;
}
static inline pl_layout pl_layout_auto(void) { return pl_layout_make_(PL_LAYOUT_AUTO, 0); }
static inline pl_layout pl_layout_splat(void) { return pl_layout_make_(PL_LAYOUT_SPLAT, 0); }
/* vec: 0 (the widest), or a power of two up to 16. */
static inline pl_layout pl_layout_strided(int32_t vec)
{
    return pl_layout_make_(PL_LAYOUT_STRIDED, vec);
}
static inline pl_layout pl_layout_of(pl_layout_kind kind) { return pl_layout_make_(kind, 0); }
/*
 * The layout of what is left of a fragment when `axis` is reduced: each thread holds the rows (axis 1), or the columns (axis 0), of its
 * elements once, so that several threads hold the same, and spreading it out along the axis again moves nothing. Of rank 1; AUTO takes
 * it where a value is reduced from a fragment, or spread over one.
 */
static inline pl_layout pl_layout_reduce(pl_layout l, int32_t axis)
{
    l.reduced_axes |= 1u << axis;
    return l;
}

/* ---- the launch a body is traced for ---- */

PL_API const char *pl_builder_status_name(
    const pl_builder *b);              /* "PL_OK" until a diagnostic was raised */
PL_API int32_t pl_arch(pl_builder *b); /* 80 .. 121 */
PL_API bool pl_has_tma(pl_builder *b);
PL_API bool pl_has_arg(pl_builder *b,
                       int32_t i); /* an optional argument is present in this variant */
PL_API bool pl_has_fact(pl_builder *b, int32_t i, pl_fact fact);
PL_API int32_t pl_arg_rank(pl_builder *b, int32_t i);

/*
 * Warpgroups in a block (1..8) and CTAs in a cluster; first in a body, each at most once. Without the calls: 1 warpgroup, cluster
 * 1 x 1 x 1. Grid extents must be multiples of the cluster's.
 */
PL_API void pl_block_warpgroups_at(pl_builder *b, int32_t n_warpgroups, pl_loc l);
PL_API void pl_block_cluster_at(pl_builder *b, int32_t x, int32_t y, int32_t z, pl_loc l);
#define pl_block_warpgroups(b, n)    pl_block_warpgroups_at(b, n, PL_LOC)
#define pl_block_cluster(b, x, y, z) pl_block_cluster_at(b, x, y, z, PL_LOC)

/* Tensor parameter i as a ref in GMEM; poison when it is an absent optional. Its extents are dynamic unless baked. */
PL_API pl_ref pl_param_at(pl_builder *b, int32_t i, pl_loc l);
/* Scalar parameter i, rank 0, level grid. */
PL_API pl_val pl_scalar_at(pl_builder *b, int32_t i, pl_loc l);
#define pl_param(b, i)  pl_param_at(b, i, PL_LOC)
#define pl_scalar(b, i) pl_scalar_at(b, i, PL_LOC)

/* Extent of a ref: a constant if baked or static, else a launch parameter (i32 where the fact I32 holds, else i64). */
PL_API pl_val pl_dim_at(pl_builder *b, pl_ref r, int32_t axis, pl_loc l);
/* The C integer of a baked or static extent; asking for a dynamic one is a diagnostic (and gives 1). */
PL_API int64_t pl_dim_const_at(pl_builder *b, pl_ref r, int32_t axis, pl_loc l);
PL_API pl_dtype pl_dtype_of_at(pl_builder *b, pl_ref r, pl_loc l);
PL_API pl_dtype pl_dtype_of_val_at(pl_builder *b, pl_val v, pl_loc l);
PL_API int32_t pl_rank_of_at(pl_builder *b, pl_ref r, pl_loc l);
#define pl_dim(b, r, axis)       pl_dim_at(b, r, axis, PL_LOC)
#define pl_dim_const(b, r, axis) pl_dim_const_at(b, r, axis, PL_LOC)
#define pl_dtype_of(b, r)        pl_dtype_of_at(b, r, PL_LOC)
#define pl_dtype_of_val(b, v)    pl_dtype_of_val_at(b, v, PL_LOC)
#define pl_rank_of(b, r)         pl_rank_of_at(b, r, PL_LOC)

/*
 * i32 where the fact I32 holds of all tensors, else i64, as are the extents and the value of a loop between literals; axis 0..2. Level
 * CTA, and grid for the counts.
 */
PL_API pl_val pl_program_id_at(pl_builder *b, int32_t axis, pl_loc l);
PL_API pl_val pl_num_programs_at(pl_builder *b, int32_t axis, pl_loc l);
PL_API pl_val pl_cluster_rank_at(pl_builder *b, pl_loc l); /* 0 .. CTAs in the cluster - 1 */
PL_API pl_val pl_warpgroup_id_at(pl_builder *b, pl_loc l); /* level warpgroup */
#define pl_program_id(b, axis)   pl_program_id_at(b, axis, PL_LOC)
#define pl_num_programs(b, axis) pl_num_programs_at(b, axis, PL_LOC)
#define pl_cluster_rank(b)       pl_cluster_rank_at(b, PL_LOC)
#define pl_warpgroup_id(b)       pl_warpgroup_id_at(b, PL_LOC)

/* ---- allocation: outside roles and outside loops; freed when the body ends ---- */

/*
 * How an SMEM array is arranged: tiles of (tile_rows, tile_cols) elements over the last two axes, each tile swizzled. All 0: plain
 * row-major. swizzle_bytes: 0, 32, 64, 128, or PL_SWIZZLE_CHOOSE: the plan picks what the copies and matrix operations want.
 */
enum { PL_SWIZZLE_CHOOSE = -1 };
typedef struct pl_transforms {
    int32_t tile_rows, tile_cols;
    int32_t swizzle_bytes;
    int32_t is_transposed;
} pl_transforms;

static inline pl_transforms pl_transforms_make(int32_t tile_rows, int32_t tile_cols,
                                               int32_t swizzle_bytes)
{
    pl_transforms t;
    t.tile_rows = tile_rows;
    t.tile_cols = tile_cols;
    t.swizzle_bytes = swizzle_bytes;
    t.is_transposed = 0;
    return t;
}
#define PL_SWIZZLE_AUTO   pl_transforms_make(0, 0, PL_SWIZZLE_CHOOSE)
#define PL_SWIZZLE_NONE   pl_transforms_make(0, 0, 0)
#define PL_SWIZZLE(bytes) pl_transforms_make(0, 0, bytes)
/* What wgmma and tcgen05 read: 8-row tiles as wide as the largest swizzle that divides inner_elems. */
PL_API pl_transforms pl_mma_transforms(pl_builder *b, pl_dtype t, int64_t inner_elems);

PL_API pl_ref pl_smem_at(pl_builder *b, pl_dtype t, pl_shape s, pl_transforms tr, pl_loc l);
/* TMEM: rows 64 or 128, then columns of t; leading axes are slots. is_pair: allocated by both CTAs of a pair. */
PL_API pl_ref pl_tmem_at(pl_builder *b, pl_dtype t, pl_shape s, int32_t is_pair, pl_loc l);
/* The mutable variable. init: a value or literal, rank 0 (splat) or of shape s; layout AUTO takes the first store's. */
PL_API pl_ref pl_regs_at(pl_builder *b, pl_dtype t, pl_shape s, pl_layout layout, pl_val init,
                         pl_loc l);
/* Accumulator of wgmma: shape (m, n) per warpgroup; starts at zero. */
PL_API pl_ref pl_acc_at(pl_builder *b, pl_dtype t, pl_shape s, pl_loc l);
/* A 32-bit counter in GMEM, i32 or u32: the single element of r. */
PL_API pl_ref pl_semaphore_at(pl_builder *b, pl_ref r, pl_loc l);
#define pl_smem(b, t, s, tr)           pl_smem_at(b, t, s, tr, PL_LOC)
#define pl_tmem(b, t, s, is_pair)      pl_tmem_at(b, t, s, is_pair, PL_LOC)
#define pl_regs(b, t, s, layout, init) pl_regs_at(b, t, s, layout, PL_V(b, init), PL_LOC)
#define pl_acc(b, t, s)                pl_acc_at(b, t, s, PL_LOC)
#define pl_semaphore(b, r)             pl_semaphore_at(b, r, PL_LOC)

/* ---- views: offsets are dynamic, extents static; nothing is copied ---- */

/* Drops the leading axis (slot, batch, page, expert). */
PL_API pl_ref pl_at_at(pl_builder *b, pl_ref r, pl_val i, pl_loc l);
/* Element offsets. The window may hang over the edge of its tensor (section 7 of BUILDER.md, 4 and 5). */
PL_API pl_ref pl_window_at(pl_builder *b, pl_ref r, pl_offs offsets, pl_shape s, pl_loc l);
/* Offsets counted in tiles of shape s. */
PL_API pl_ref pl_tile_at(pl_builder *b, pl_ref r, pl_offs offsets, pl_shape s, pl_loc l);
/* A run-time bound: elements of r with an index >= end along axis count as outside (loads fill, stores skip). GMEM and SMEM; once for each axis. */
PL_API pl_ref pl_clip_at(pl_builder *b, pl_ref r, int32_t axis, pl_val end, pl_loc l);
/* Swaps the last two axes. */
PL_API pl_ref pl_transpose_at(pl_builder *b, pl_ref r, pl_loc l);
/* Same elements, same row-major order, other leading axes; the last axis of a transformed ref must stay. Static shapes only. */
PL_API pl_ref pl_reshape_at(pl_builder *b, pl_ref r, pl_shape s, pl_loc l);
/* A new SMEM (or TMEM) array that shares the memory of `over` from its first byte; the larger one sets the size. */
PL_API pl_ref pl_union_at(pl_builder *b, pl_ref over, pl_dtype t, pl_shape s, pl_transforms tr,
                          pl_loc l);
/* The same SMEM array in CTA `rank` of the cluster. */
PL_API pl_ref pl_peer_at(pl_builder *b, pl_ref r, pl_val rank, pl_loc l);
static inline pl_ref pl_at_in_(pl_builder *b, pl_rv_ a, pl_loc l)
{
    return pl_at_at(b, a.r, a.v, l);
}
static inline pl_ref pl_window_in_(pl_builder *b, pl_ro_ a, pl_shape s, pl_loc l)
{
    return pl_window_at(b, a.r, a.o, s, l);
}
static inline pl_ref pl_tile_in_(pl_builder *b, pl_ro_ a, pl_shape s, pl_loc l)
{
    return pl_tile_at(b, a.r, a.o, s, l);
}
static inline pl_ref pl_clip_in_(pl_builder *b, pl_rv_ a, int32_t axis, pl_loc l)
{
    return pl_clip_at(b, a.r, axis, a.v, l);
}
static inline pl_ref pl_peer_in_(pl_builder *b, pl_rv_ a, pl_loc l)
{
    return pl_peer_at(b, a.r, a.v, l);
}
#define pl_at(b, r, i) pl_at_in_(b, PL_IN_ORDER_(pl_rv_, pl_r_(r), PL_V(b, i)), PL_LOC)
#define pl_window(b, r, offsets, s)                                                                \
    pl_window_in_(b, PL_IN_ORDER_(pl_ro_, pl_r_(r), pl_o_(offsets)), s, PL_LOC)
#define pl_tile(b, r, offsets, s)                                                                  \
    pl_tile_in_(b, PL_IN_ORDER_(pl_ro_, pl_r_(r), pl_o_(offsets)), s, PL_LOC)
#define pl_clip(b, r, axis, end)                                                                   \
    pl_clip_in_(b, PL_IN_ORDER_(pl_rv_, pl_r_(r), PL_V(b, end)), axis, PL_LOC)
#define pl_transpose(b, r)          pl_transpose_at(b, r, PL_LOC)
#define pl_reshape(b, r, s)         pl_reshape_at(b, r, s, PL_LOC)
#define pl_union(b, over, t, s, tr) pl_union_at(b, over, t, s, tr, PL_LOC)
#define pl_peer(b, r, rank)         pl_peer_in_(b, PL_IN_ORDER_(pl_rv_, pl_r_(r), PL_V(b, rank)), PL_LOC)

/* Claims that v is a multiple of n (checked on the emulated driver); gives v. */
PL_API pl_val pl_assume_multiple_at(pl_builder *b, pl_val v, int64_t n, pl_loc l);
#define pl_assume_multiple(b, v, n) pl_assume_multiple_at(b, PL_V(b, v), n, PL_LOC)

/* ---- barriers ---- */

/*
 * An mbarrier of SMEM completes a phase when n_arrivals arrivals and all announced bytes have come. An arrival is one copy, one
 * tcgen05 commit, or one pl_barrier_arrive of a unit (the plan turns a unit's arrival into as many thread arrivals as it needs).
 * Every CUDA thread that waits holds the phase bits of a group in one register; nothing resets them, so each phase must be waited
 * for by each waiter. Groups have 1..32 barriers.
 */
typedef struct pl_barrier_desc {
    int32_t n_barriers;      /* 1..32; 0 means 1 */
    int32_t n_arrivals;      /* >= 1 */
    bool starts_ready;       /* the first wait passes at once */
    bool orders_tensor_core; /* arrivals and waits also order tcgen05 operations */
} pl_barrier_desc;

PL_API pl_bar pl_barriers_at(pl_builder *b, const pl_barrier_desc *d, pl_loc l);
PL_API pl_bar pl_barrier_at(pl_builder *b, int32_t n_arrivals, pl_loc l);
/* Each CTA of the cluster arrives n_arrivals times; lives in each CTA, an arrival goes to all. */
PL_API pl_bar pl_cluster_barrier_at(pl_builder *b, int32_t n_arrivals, pl_loc l);
PL_API pl_bar pl_bar_at_at(pl_builder *b, pl_bar group, pl_val i, pl_loc l); /* one of a group */
static inline pl_bar pl_bar_at_in_(pl_builder *b, pl_bv_ a, pl_loc l)
{
    return pl_bar_at_at(b, a.bar, a.v, l);
}
#define pl_barriers(b, d)                 pl_barriers_at(b, d, PL_LOC)
#define pl_barrier(b, n_arrivals)         pl_barrier_at(b, n_arrivals, PL_LOC)
#define pl_cluster_barrier(b, n_arrivals) pl_cluster_barrier_at(b, n_arrivals, PL_LOC)
#define pl_bar_at(b, group, i)                                                                     \
    pl_bar_at_in_(b, PL_IN_ORDER_(pl_bv_, pl_b_(group), PL_V(b, i)), PL_LOC)

/* ---- pipes ---- */

typedef enum pl_by {
    PL_BY_COPIES,  /* producer: the copies of a PL_PRODUCE block arrive on the full barrier */
    PL_BY_MMA,     /* tcgen05 or wgmma: a commit, or the wait for the group */
    PL_BY_THREADS, /* each executing unit arrives once */
    PL_BY_COPY_OUT /* consumer: the slot is free when its bulk store has been read (a staging ring) */
} pl_by;
typedef enum pl_where_at { PL_EACH_CTA, PL_LEADER } pl_where_at;

/*
 * stages full and stages empty barriers plus per-thread slot and phases; owns no buffers (use pl_at(buf, slot)).
 * n_producers, n_consumers: units that arrive, for PL_BY_THREADS; 0 means 1.
 * full_at, empty_at: where the waited-on barrier lives. PL_LEADER: in the leader of a pair (the CTA of even rank), which alone waits; both
 * CTAs arrive there, so a count says the arrivals of one. Chips with tcgen05; others refuse it (PL2094).
 * What a pipe orders: the accesses of its two sides to SMEM and TMEM; in a block that is no cluster, to all memory.
 */
typedef struct pl_pipe_desc {
    int32_t stages; /* 1..32 */
    pl_by producer, consumer;
    int32_t n_producers, n_consumers;
    pl_where_at full_at, empty_at;
    int32_t
        lag; /* 0, or 1: a slot is released one iteration late (matrix operations not yet awaited) */
} pl_pipe_desc;

PL_API pl_pipe pl_pipe_make_at(pl_builder *b, const pl_pipe_desc *d, pl_loc l);
#define pl_pipe_make(b, d) pl_pipe_make_at(b, d, PL_LOC)
PL_API pl_bar pl_full_now_at(pl_builder *b,
                             pl_loc l); /* inside PL_PRODUCE: the full barrier of the slot */
#define pl_full_now(b) pl_full_now_at(b, PL_LOC)

/* ---- blocks: begin and end are the ABI, the macros are sugar ---- */

/* break or continue ends the trace of a block; return or goto out of one is reported with the line where it was opened. */
typedef struct pl_block {
    pl_builder *b;
    pl_val iv, iv2; /* the value(s) the block gives its body */
    uint32_t id;
    int32_t state;
} pl_block;

PL_API pl_block pl_for_begin(pl_builder *b, pl_val lo, pl_val hi, pl_val step, pl_loc l);
PL_API pl_block pl_loop_begin(pl_builder *b, pl_loc l);
PL_API void pl_break_if_at(pl_builder *b, pl_val cond,
                           pl_loc l); /* leaves the innermost run-time loop */
PL_API int pl_break_unless_at(pl_builder *b, pl_val cond, pl_loc l); /* returns 1 */
PL_API pl_block pl_if_begin(pl_builder *b, pl_val cond, pl_loc l);
PL_API pl_block pl_else_begin(pl_builder *b,
                              pl_loc l); /* directly after the end of a PL_IF block */
PL_API pl_block pl_role_begin(pl_builder *b, int32_t warpgroup, int32_t warp,
                              pl_loc l); /* warp -1: the whole warpgroup */
/* n warpgroups from `first` on: one role, and each of them is a unit of its own. */
PL_API pl_block pl_roles_begin(pl_builder *b, int32_t first, int32_t n, pl_loc l);
PL_API pl_block pl_produce_begin(pl_builder *b, pl_pipe p, pl_loc l);
PL_API pl_block pl_consume_begin(pl_builder *b, pl_pipe p, pl_loc l);
PL_API void pl_block_end(pl_block *k);

static inline int pl_block_live_(const pl_block *k) { return k->state < 2; }
static inline int pl_block_once_(pl_block *k, const pl_val *iv, const pl_val *iv2)
{
    (void)iv;
    (void)iv2;
    return k->state++ == 0;
}
static inline void pl_block_close_(pl_block *k)
{
    k->state = 2;
    pl_block_end(k);
}
/* k_: a name of its own for each block, so that blocks nest on one line and under -Wshadow. */
#define PL_BLOCK_K_(k_, open)                                                                      \
    for (pl_block k_ = (open); pl_block_live_(&k_); pl_block_close_(&k_))                          \
        for (; pl_block_once_(&k_, NULL, NULL);)
#define PL_BLOCK_IV_K_(k_, iv_, open)                                                              \
    for (pl_block k_ = (open); pl_block_live_(&k_); pl_block_close_(&k_))                          \
        for (pl_val iv_ = k_.iv; pl_block_once_(&k_, &iv_, NULL);)
#define PL_BLOCK_IV2_K_(k_, iv_, iv2_, open)                                                       \
    for (pl_block k_ = (open); pl_block_live_(&k_); pl_block_close_(&k_))                          \
        for (pl_val iv_ = k_.iv, iv2_ = k_.iv2; pl_block_once_(&k_, &iv_, &iv2_);)
#define PL_WHILE_K_(k_, b, cond)                                                                   \
    for (pl_block k_ = pl_loop_begin(b, PL_LOC); pl_block_live_(&k_); pl_block_close_(&k_))        \
        for (; pl_block_once_(&k_, NULL, NULL) && pl_break_unless_at(b, PL_V(b, cond), PL_LOC);)
#define PL_UNIQUE_              PL_CAT(plb_, __COUNTER__)
#define PL_BLOCK_(open)         PL_BLOCK_K_(PL_UNIQUE_, open)
#define PL_BLOCK_IV_(iv_, open) PL_BLOCK_IV_K_(PL_UNIQUE_, iv_, open)

static inline pl_block pl_for_in_(pl_builder *b, pl_vvv_ a, pl_loc l)
{
    return pl_for_begin(b, a.x, a.y, a.z, l);
}
/*
 * Run-time loops: lo, hi, step are integers of one dtype, where i32 indexes (pl_program_id, the value of a loop) and literals widen to
 * i64; the step is positive. C loops around builder calls unroll.
 */
#define PL_FOR(b, i, lo, hi)                                                                       \
    PL_BLOCK_IV_(                                                                                  \
        i, pl_for_in_(b, PL_IN_ORDER_(pl_vvv_, PL_V(b, lo), PL_V(b, hi), PL_V(b, 1)), PL_LOC))
#define PL_FOR_STEP(b, i, lo, hi, st)                                                              \
    PL_BLOCK_IV_(                                                                                  \
        i, pl_for_in_(b, PL_IN_ORDER_(pl_vvv_, PL_V(b, lo), PL_V(b, hi), PL_V(b, st)), PL_LOC))
/* cond is an expression, traced at the head of the loop, so that it is evaluated each time round. */
#define PL_WHILE(b, cond)    PL_WHILE_K_(PL_UNIQUE_, b, cond)
#define PL_LOOP(b)           PL_BLOCK_(pl_loop_begin(b, PL_LOC)) /* left by pl_break_if only */
#define pl_break_if(b, cond) pl_break_if_at(b, PL_V(b, cond), PL_LOC)
#define PL_IF(b, cond)       PL_BLOCK_(pl_if_begin(b, PL_V(b, cond), PL_LOC))
#define PL_ELSE(b)           PL_BLOCK_(pl_else_begin(b, PL_LOC))
/*
 * Roles stand at top level, are disjoint, and synchronise with nothing at entry or exit. The role of a warp may also stand directly in
 * the role of its warpgroup, after what all its warps do (pl_set_max_registers).
 */
#define PL_WARPGROUP(b, g) PL_BLOCK_(pl_role_begin(b, g, -1, PL_LOC))
/* One role for n warpgroups, which run the same code; each is a unit: copies and arrivals are its own, pl_warpgroup_id tells them apart. */
#define PL_WARPGROUPS(b, first, n) PL_BLOCK_(pl_roles_begin(b, first, n, PL_LOC))
#define PL_WARP(b, g, w)           PL_BLOCK_(pl_role_begin(b, g, w, PL_LOC))
/* slot: i32. Waits empty, runs, signals full; waits full, runs, signals empty. */
#define PL_PRODUCE(b, pipe, slot) PL_BLOCK_IV_(slot, pl_produce_begin(b, pipe, PL_LOC))
#define PL_CONSUME(b, pipe, slot) PL_BLOCK_IV_(slot, pl_consume_begin(b, pipe, PL_LOC))

/* ---- pipeline helper: copies ahead of compute, in one role ---- */

/* Issues the copies of `step` into `slot`; every copy arrives on `full`. Traced for the prologue and for the steady state. */
typedef void (*pl_stage_function)(pl_builder *b, pl_val step, pl_val slot, pl_bar full, void *user);
typedef struct pl_pipeline_desc {
    int32_t stages; /* 1..32 slots */
    int32_t
        n_copies; /* copies that one call of `copies` issues: the arrivals of a full barrier; 0 means 1 */
    int32_t
        lag; /* 0: a slot is refilled after the body that used it; 1: one step later, before the body */
    pl_stage_function copies;
    void *user;
} pl_pipeline_desc;

PL_API pl_block pl_pipeline_begin(pl_builder *b, pl_val n_steps, const pl_pipeline_desc *d,
                                  pl_loc l);
/* PL_PIPELINE(b, step, slot, n_steps, &desc) { body }: right for 0, 1, stages-1, stages, stages+1 steps. */
#define PL_PIPELINE(b, step, slot, n_steps, d)                                                     \
    PL_BLOCK_IV2_K_(PL_UNIQUE_, step, slot, pl_pipeline_begin(b, PL_V(b, n_steps), d, PL_LOC))

/* ---- schedules ---- */

typedef struct pl_sched {
    pl_val first, end, step;
    int32_t is_dynamic; /* cluster launch control: which queue of the kernel; 0: static */
} pl_sched;

/* Static persistent: tile t = cluster id, + number of clusters, ... while t < n_tiles. */
PL_API pl_sched pl_sched_static_at(pl_builder *b, pl_val n_tiles, pl_loc l);
/*
 * Dynamic (cluster launch control, sm_100 on): the grid is one row of n_tiles clusters (grid x = n_tiles * cluster x; y and z 1). Each
 * works on its own tile, then on those of clusters that have not started, until none is left. Every role that needs the tiles walks
 * them with a PL_TILES of its own, once, and sees the same ones. No pl_break_if out of it. Called outside roles: it takes 16 bytes
 * of SMEM and two barriers.
 */
PL_API pl_sched pl_sched_clc_at(pl_builder *b, pl_val n_tiles, pl_loc l);
PL_API pl_block pl_tiles_begin(pl_builder *b, pl_sched s, pl_loc l);
#define pl_sched_static(b, n_tiles) pl_sched_static_at(b, PL_V(b, n_tiles), PL_LOC)
#define pl_sched_clc(b, n_tiles)    pl_sched_clc_at(b, PL_V(b, n_tiles), PL_LOC)
#define PL_TILES(b, t, s)           PL_BLOCK_IV_(t, pl_tiles_begin(b, s, PL_LOC))
/*
 * Tile `t` of a rows x cols grid, walked in strips `width` wide so that neighbours share operands: minor = 1 runs along columns
 * first inside a strip, 0 along rows; every second strip runs backwards. row and col may be NULL.
 */
PL_API void pl_snake_at(pl_builder *b, pl_val t, pl_val rows, pl_val cols, int32_t minor,
                        int32_t width, pl_val *row, pl_val *col, pl_loc l);
static inline void pl_snake_in_(pl_builder *b, pl_vvv_ a, int32_t minor, int32_t width, pl_val *row,
                                pl_val *col, pl_loc l)
{
    pl_snake_at(b, a.x, a.y, a.z, minor, width, row, col, l);
}
#define pl_snake(b, t, rows, cols, minor, width, row, col)                                         \
    pl_snake_in_(b, PL_IN_ORDER_(pl_vvv_, PL_V(b, t), PL_V(b, rows), PL_V(b, cols)), minor, width, \
                 row, col, PL_LOC)

#ifdef __cplusplus
}
#endif
#endif
