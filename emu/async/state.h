#ifndef PL_EMU_ASYNC_STATE_H
#define PL_EMU_ASYNC_STATE_H
/*
 * Inside the asynchronous family (emu/async/ and its executors): the queue of a cluster, what is known of each CTA's
 * shared memory, what each thread has outstanding.
 *
 * An operation is submitted by an executor and *finished* later, by a policy: eager finishes it at once; late only when a wait
 * of its issuer needs it or when every group of the cluster sleeps; random finishes any at any round. An operation with a
 * source in shared memory has two steps, *read* (its source is free again) and *write*, so that wait_group.read differs
 * from wait_group. Data moves at those moments, not at issue: a program that does not wait sees old or mixed data.
 *
 * A multicast is one operation a destination CTA; a copy of many lanes of one cp.async instruction is one operation.
 */
#include "emu/async.h"
#include "emu/async/box.h"
#include "emu/async/mbar.h"
#include "emu/launch.h"
#include "emu/machine.h"

enum { PL_ASYNC_THREADS_A_CTA = 1024, PL_ASYNC_ANY_THREAD = PL_ASYNC_THREADS_A_CTA };

/* A place in shared memory: offset relative to cta->shared.data. */
struct pl_async_place {
    struct pl_emu_cta *cta;
    uint32_t offset_bytes;
};

struct pl_async_range {
    struct pl_emu_cta *cta; /* NULL: none */
    uint32_t first, end;    /* bytes [first, end) of its shared memory */
};

enum pl_async_stage { PL_ASYNC_ISSUED, PL_ASYNC_HAS_READ };

enum pl_async_owner {                       /* how the issuer learns of the end */
                      PL_ASYNC_BY_BARRIER,  /* complete-tx on a barrier */
                      PL_ASYNC_BY_BULK,     /* cp.async.bulk.wait_group of the issuing thread */
                      PL_ASYNC_BY_CP_ASYNC, /* cp.async.wait_group of the issuing thread */
                      PL_ASYNC_BY_TMEM,  /* tcgen05.wait of the issuing warp, or tcgen05.commit */
                      PL_ASYNC_BY_WGMMA, /* wgmma.wait_group of the issuing warp */
                      PL_ASYNC_BY_NOBODY, /* st.async and red.async to global memory: at the end of the CTA */
};

struct pl_async_op;
struct pl_async_kind {
    const char *name; /* for reports */
    /* Take the source out of shared memory into op->held; NULL where no step of its own is visible. */
    enum pl_emu_status (*read)(struct pl_async_op *op);
    enum pl_emu_status (*write)(struct pl_async_op *op);
};

struct pl_async_reduce { /* of a reducing copy or red.async; is_on false: plain */
    bool is_on;
    uint8_t op;   /* enum pl_ptx_mod of category ATOM */
    uint8_t type; /* enum pl_ptx_type */
    bool is_ftz;
};

struct pl_async_op {
    struct pl_async_op *next, *prev; /* in the order of issue */
    const struct pl_async_kind *kind;
    struct pl_emu_warp *w;       /* issuer */
    const struct pl_emu_ins *pc; /* the instruction that issued it */
    uint32_t lanes;              /* one bit, but for cp.async */
    uint32_t line;
    uint64_t serial;
    uint8_t stage, owner;
    uint32_t group; /* BULK, CP_ASYNC: number of the issuer's group */
    bool is_generic_proxy;
    struct pl_async_range source, source2, target; /* in shared memory, where it has them */
    bool
        is_scattered; /* the sources are bounds only: each piece was checked at issue (pl_async_check_read) */
    uint32_t race_slot; /* emu/race.h; 0: none */
    bool has_signal;
    struct pl_async_place signal;
    uint32_t signal_bytes;
    uint8_t *held; /* what was read; held_cap bytes */
    uint32_t held_cap;
    struct pl_async_reduce reduce;
    union {
        struct {
            uint8_t *global;  /* host memory */
            uint64_t address; /* of it on the device */
            uint32_t n_bytes;
            uint16_t byte_mask; /* .cp_mask */
        } bulk;
        struct {
            struct pl_tensormap map;
            uint8_t mode; /* enum pl_box_mode */
            bool is_load;
            int32_t coords[5];
            uint16_t offsets[3];
        } tensor;
        struct {
            uint8_t n_bytes; /* a lane */
            uint8_t n_copied[PL_EMU_LANES];
            struct pl_async_place to[PL_EMU_LANES];
            const uint8_t *from[PL_EMU_LANES];
            uint64_t address[PL_EMU_LANES]; /* of it on the device */
        } cp;
        struct {
            uint8_t n_bytes;
            uint8_t value[16];
            uint8_t *global; /* st.async to global memory */
            uint64_t address;
        } store;
        struct {
            uint32_t address; /* of tensor memory: D, or what a load, store or copy touches */
            uint8_t *frame;   /* registers of a load */
            uint32_t a_address, idesc, scale_a, scale_b;
            uint64_t a_desc, b_desc, zero_mask;
            bool is_a_in_tmem, is_pair, has_d;
            uint8_t d_shift;
            uint32_t disabled_lanes[8];
        } tmem;
        struct {
            uint8_t *frame; /* registers of the activation that issued it */
            uint64_t a, b;  /* descriptors; a only where A is in shared memory */
            bool is_accumulating;
        } wgmma;
    } u;
};

/* What is known of one mbarrier object. */
struct pl_async_bar {
    uint32_t offset_bytes;
    bool is_live;
    uint32_t init_line;
    /* Published by a fence.mbarrier_init of the thread since (its count was init_fences), or as its other writes are. */
    uint32_t init_thread, init_fences, init_segment;
    uint32_t last_line; /* of the last arrive, expect-tx or completion */
    uint64_t n_phases;  /* completed */
};

struct pl_async_cta {
    struct pl_async_bar *bars;
    uint32_t n_bars, cap_bars, n_live_bars;
    uint32_t bars_first, bars_end; /* bytes that hold live barriers lie in [first, end) */
    /* Generic writes not yet published to the async proxy, a word each 4 bytes: segment + 1 << 32 | line << 15 | thread;
     * 0: none. */
    uint64_t *writes;
    uint32_t
        n_pool_regs; /* setmaxnreg: registers free a thread, summed over warps; see emu/exec/cluster.c */
    bool has_pool;
    void *tmem; /* emu/exec/tmem.c */
};

struct pl_async_warp {
    uint32_t cp_group[PL_EMU_LANES]; /* number of the open group */
    uint32_t bulk_group[PL_EMU_LANES];
    uint32_t bulk_free
        [PL_EMU_LANES];  /* groups below this had their sources waited for (.read or full) */
    uint32_t has_source; /* lanes that issued bulk copies from shared memory since that wait */
    uint32_t has_bulk_in_group; /* lanes with a copy in the open bulk group */
    uint32_t cluster_arrived;   /* lanes that arrived in the current phase of the cluster barrier */
    uint32_t cluster_owed;      /* lanes that arrived and have not waited */
    uint32_t n_regs;            /* setmaxnreg */
    uint32_t wgmma_group;       /* number of the open one */
    uint64_t timed_out_at
        [PL_EMU_LANES]; /* a group's last time-out of try_wait: async->n_changes + 1 then */
};

struct pl_emu_async {
    struct pl_emu_cluster *cl;
    enum pl_emu_policy policy;
    bool is_checking;
    bool is_strict; /* races are looked for */
    bool has_proxy; /* the program uses the async proxy on shared memory */
    struct pl_async_op *first, *last, *unused;
    uint32_t n_pending;
    uint64_t n_issued;
    uint64_t n_changes; /* completions and barrier updates: progress */
    uint32_t n_idle;    /* turns since something completed, while something is pending */
    /* A thread of the cluster, and one for any of a CTA: the segment that it writes in (emu/async/proxy.c), how many of its
     * segments a fence has published, and its fences of mbarrier_init. */
    uint32_t *segments, *n_published, *n_init_fences;
    uint32_t n_cluster_arrived; /* barrier.cluster */
    uint64_t cluster_phase;
    uint32_t n_cluster_live;   /* threads */
    bool has_clc_failed;       /* a try_cancel has come back without a cluster */
    struct pl_async_map *maps; /* tensor maps seen, emu/async/tensor.c */
};

/* ---- state, made on first use; NULL when there is no memory (a fault was raised) ------------------------------------- */

struct pl_async_cta *pl_async_cta_of(struct pl_emu_cta *cta);
struct pl_async_warp *pl_async_warp_of(struct pl_emu_warp *w);
static inline uint32_t pl_async_thread(const struct pl_emu_warp *w, uint32_t lane)
{
    return w->cta->rank * (PL_ASYNC_THREADS_A_CTA + 1) + w->index * PL_EMU_LANES + lane;
}
static inline uint32_t pl_async_any_thread(const struct pl_emu_cta *cta)
{
    return cta->rank * (PL_ASYNC_THREADS_A_CTA + 1) + PL_ASYNC_ANY_THREAD;
}

/* ---- the queue: emu/async/queue.c ------------------------------------------------------------------------------------------ */

struct pl_async_op *pl_async_new(struct pl_emu_warp *w, uint32_t lanes,
                                 const struct pl_async_kind *kind);
/* Check source and target against what is in flight and unfenced, then queue or, eagerly, finish. */
enum pl_emu_status pl_async_submit(struct pl_async_op *op);
void pl_async_drop(struct pl_async_op *op); /* a new one that is not to be submitted */
enum pl_emu_status pl_async_read(struct pl_async_op *op);     /* at least the first step */
enum pl_emu_status pl_async_finish(struct pl_async_op *op);   /* all of it; op is free afterwards */
bool pl_async_hold(struct pl_async_op *op, uint32_t n_bytes); /* room in op->held; false: fault */
/* Finish (or, is_read, read) the operations of one lane's groups below `end`. */
enum pl_emu_status pl_async_wait_groups(struct pl_emu_warp *w, uint32_t lane,
                                        enum pl_async_owner owner, uint32_t end, bool is_read);
/* Finish operations that signal this barrier: a busy poll of it found nothing for long. */
enum pl_emu_status pl_async_poke(struct pl_emu_cluster *cl, struct pl_async_place bar);
enum pl_emu_status pl_async_no_memory(struct pl_emu_warp *w);
/* End with false the try_waits of this warp that sleep, unless they had their share; true: one was woken (emu/exec/mbar.c). */
bool pl_async_time_out(struct pl_emu_warp *w);

struct pl_where pl_async_where(const struct pl_async_op *op);
struct pl_diags *pl_async_faults(const struct pl_async_op *op);

/* ---- shared memory under two proxies: emu/async/proxy.c -------------------------------------------------------------------- */

/* Operand → place: rank, bounds and alignment; false: a fault was raised. */
bool pl_async_place_at(struct pl_emu_warp *w, uint32_t lane, uint32_t address, uint32_t n_bytes,
                       uint32_t align_bytes, const char *what, struct pl_async_place *out);
/* A .shared::cta address: rank bits of zero mean the own CTA, as in an absolute address. */
static inline uint32_t pl_async_own(const struct pl_emu_warp *w, uint32_t address)
{
    return address >> PL_EMU_RANK_SHIFT == 0 ? address | w->cta->rank << PL_EMU_RANK_SHIFT
                                             : address;
}
/* The shared::cluster address of an operand, by the instruction's space; without one the operand is a generic address. */
bool pl_async_shared_address(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                             const struct pl_emu_arg *a, uint32_t lane, uint32_t *address);
/* The shared::cluster address of a place. */
static inline uint32_t pl_async_address(struct pl_async_place p)
{
    return pl_emu_shared_address(p.cta, p.offset_bytes);
}
static inline uint8_t *pl_async_data(struct pl_async_place p)
{
    return p.cta->shared.data + p.offset_bytes;
}

enum pl_emu_status pl_async_check_source(
    const struct pl_async_op *op); /* fenced, written, not being written */
enum pl_emu_status pl_async_check_target(
    const struct pl_async_op *op); /* fenced, not in use by another */
/* An async-proxy write has landed: older generic writes there no longer matter. */
void pl_async_note_written(struct pl_async_range r);
/* One piece of a scattered source: written, published, not being written. */
enum pl_emu_status pl_async_check_read(const struct pl_async_op *op,
                                       const struct pl_async_range *r);
void pl_async_note_generic(struct pl_emu_cta *cta, uint32_t offset_bytes, uint32_t n_bytes,
                           uint32_t thread, uint32_t line);
void pl_async_fence_proxy(
    struct pl_emu_warp *w); /* the lanes of w->mask publish their writes of shared memory */
void pl_async_fence_init(struct pl_emu_warp *w);

/* ---- mbarrier objects in shared memory: emu/async/bar.c -------------------------------------------------------------------- */

/* A phase is over: who sleeps on it is through, even if the next one of its parity begins before he is looked at (emu/exec/mbar.c). */
void pl_async_wake(struct pl_async_place p);
/* The live barrier at a place, or NULL: a fault was raised. */
struct pl_async_bar *pl_async_bar_at(struct pl_emu_warp *w, uint32_t lane, struct pl_async_place p,
                                     const char *what);
struct pl_async_bar *pl_async_bar_find(struct pl_async_place p);
struct pl_mbar pl_async_bar_get(struct pl_async_place p);
void pl_async_bar_set(struct pl_async_place p, const struct pl_mbar *b);
/* An async operation is to signal it: it must be live and its init published. */
bool pl_async_bar_check_signal(struct pl_emu_warp *w, uint32_t lane, struct pl_async_place p);
enum pl_emu_status pl_async_signal_tx(struct pl_async_op *op);
enum pl_emu_status pl_async_signal_arrive(struct pl_async_op *op, uint32_t n_arrivals);
enum pl_emu_status pl_async_bar_error(struct pl_diags *ds, struct pl_where where,
                                      struct pl_async_place p, enum pl_mbar_error e,
                                      const struct pl_mbar *b);
void pl_async_bar_describe(struct pl_async_place p, char *text, size_t n_bytes);

/* ---- data: emu/async/copy.c, emu/async/tensor.c, emu/async/reduce.c ---------------------------------------------------------------- */

extern const struct pl_async_kind pl_async_bulk_load, pl_async_bulk_store, pl_async_bulk_peer,
    pl_async_tensor_load, pl_async_tensor_store, pl_async_cp, pl_async_cp_arrive, pl_async_store,
    pl_async_store_global;

/* One element at p (device or shared memory), atomically on the host. */
void pl_async_reduce_apply(const struct pl_async_reduce *r, uint8_t *p, const uint8_t *value);
uint32_t pl_async_reduce_bytes(const struct pl_async_reduce *r);

/* Decode the map at a generic address for this use: alignment, marker, rules, stale copies. NULL: a fault was raised. */
const struct pl_tensormap *pl_async_map_at(struct pl_emu_warp *w, uint32_t lane, uint64_t address);
/* The cluster has written a map there (tensormap.cp_fenceproxy): it must acquire it before use. False: no memory. */
bool pl_async_map_change(struct pl_emu_async *a, uint64_t address);
void pl_async_map_forget(struct pl_emu_async *a,
                         uint64_t address); /* fence.proxy.tensormap acquire */

#endif
