#ifndef PL_EMU_MACHINE_H
#define PL_EMU_MACHINE_H
/*
 * The machine while a grid runs: grid, cluster, CTA, warp, lane groups, function activations.
 *
 * A cluster (one CTA where none is asked for) is the unit of scheduling: one thread runs all its warps, round robin, so
 * nothing inside a cluster needs a lock and a cluster's result does not depend on the number of threads. What clusters share
 * is device memory; atomics on it are atomic on the host.
 *
 * A warp is the unit of interpretation. Its lanes are in one or more *groups*; a group has one program counter. A branch
 * that splits a group makes two, which meet again at the immediate post-dominator (a *join*). Groups of a warp take turns,
 * so each makes progress while another spins.
 *
 * Registers are lane arrays (layouts in emu/ops.h) in the frame of a function activation: `reg[r][lane]`.
 */
#include "emu/exec.h"
#include "emu/memory.h"

#include <stdbool.h>
#include <stdint.h>

struct pl_diags;
struct pl_where;
struct pl_emu_async;
struct pl_emu_cluster;
struct pl_emu_cta;
struct pl_emu_device;
struct pl_emu_grid;
struct pl_emu_group;
struct pl_emu_program;
struct pl_emu_race;
struct pl_emu_race_grid;

enum {
    PL_EMU_MAX_WARPS = 32,               /* of a CTA: 1,024 threads */
    PL_EMU_MAX_CLUSTER = 16,             /* CTAs */
    PL_EMU_N_BARRIERS = 16,              /* of a CTA, PTX ISA "bar, barrier" */
    PL_EMU_SHARED_RESERVED_BYTES = 1024, /* of each CTA, the system's */
    PL_EMU_RANK_SHIFT = 24, /* shared::cluster address = (rank in the cluster << 24) | offset */
    PL_EMU_N_LAST = 8,
};

/* ---- function activations and lane groups ----------------------------------------------------------------------------- */

/* Where groups that a branch has split meet again. Freed when its last member has arrived or exited. */
struct pl_emu_join {
    const struct pl_emu_ins *pc; /* a join point of the code; NULL: the return of `frame` */
    struct pl_emu_frame *frame;
    struct pl_emu_join *parent; /* what the merged group meets next; also the free list's link */
    struct pl_emu_join *next;   /* of all that the warp has made */
    uint32_t members;           /* lanes that have not exited */
    uint32_t waiting;           /* lanes that are there */
};

struct pl_emu_frame {
    const struct pl_emu_func *func;
    struct pl_emu_frame *caller;        /* NULL for the entry; also the free list's link */
    const struct pl_emu_ins *return_to; /* call instruction in the caller */
    struct pl_emu_join *join;           /* its return join: parent is the caller's join */
    uint32_t local_base_bytes;          /* of this activation in each lane's local memory */
    uint32_t n_holders;                 /* its return join, and groups that fetch results */
    uint32_t alloca_bytes;              /* taken after the function's own part (alloca) */
    struct pl_emu_frame *next;          /* of all that the warp has made */
    uint8_t *regs;                      /* lane arrays, aligned to 64 bytes */
};

/* Why a group sleeps. `poll` NULL: execute again in the next round. */
struct pl_emu_wait {
    bool (*poll)(struct pl_emu_warp *w, struct pl_emu_group *g); /* true: wake the group */
    void (*describe)(struct pl_emu_warp *w, struct pl_emu_group *g, char *text,
                     size_t n_bytes); /* for the deadlock report:
                                 barrier, phase, pending arrivals and bytes, one line */
    uint64_t a, b;                    /* the executor's own: an address, a phase, a parity */
    struct pl_emu_cta *where;         /* CTA that holds what is waited for */
    bool
        is_timed; /* may end by itself (a try_wait with a time limit): woken instead of a deadlock report */
    bool is_expired; /* set by the scheduler when it has woken a timed wait that way */
};

enum pl_emu_group_state { PL_EMU_GROUP_FREE, PL_EMU_GROUP_READY, PL_EMU_GROUP_BLOCKED };

struct pl_emu_group {
    const struct pl_emu_ins *pc;
    uint32_t mask;
    uint8_t state; /* enum pl_emu_group_state */
    uint8_t stage; /* of the instruction at pc; 0 when it is first executed */
    struct pl_emu_frame *frame;
    struct pl_emu_join *join; /* NULL: none */
    struct pl_emu_wait wait;  /* BLOCKED */
    struct pl_emu_frame
        *returned; /* the call at pc has come back: activation that still holds its results */
};

/* ---- warp ----------------------------------------------------------------------------------------------------------------- */

/* A group that may spin while others of its warp are parked: does it come to the same place in the same state again? */
struct pl_emu_watch {
    const struct pl_emu_group *group; /* NULL: nobody is watched */
    const struct pl_emu_ins *pc;
    const struct pl_emu_frame *frame;
    uint64_t state; /* hash of its registers there */
    uint32_t n_left;
};

struct pl_emu_warp {
    uint8_t *bank[PL_EMU_BANK_COUNT]; /* of the group that runs */
    uint32_t mask;                    /* lanes of the instruction that runs: group and guard */
    struct pl_emu_group *group;       /* that runs */
    struct pl_emu_cta *cta;
    uint32_t index;    /* in the CTA: linear thread id / 32 */
    uint32_t existing; /* lanes that exist (the last warp of a CTA may have fewer than 32) */
    uint32_t live;     /* lanes that have not exited */
    uint32_t cc;       /* CC.CF, bit i is lane i */
    uint32_t n_groups; /* not FREE */
    uint32_t turn;     /* group that ran last */
    uint32_t n_parked; /* lanes that wait at joins */
    uint32_t
        patience; /* instructions that they wait at most before they go on alone (emu/warp.c) */
    uint64_t
        n_unmet; /* instructions since lanes last met or a group was watched, while some are parked */
    uint64_t n_parked_steps; /* instructions since lanes last met, while some are parked */
    bool is_loose; /* some went on alone: instructions for whole warps wait for the rest */
    struct pl_emu_watch watch;
    struct pl_emu_group groups[PL_EMU_LANES];
    struct pl_emu_join *free_joins, *all_joins;
    struct pl_emu_frame *free_frames, *all_frames;
    struct pl_emu_frame *entry; /* activation of the entry; kept for the next CTA */
    const struct pl_emu_allocation
        *last[PL_EMU_N_LAST]; /* lookup cache of device memory, by PTX line */
    uint8_t *local;           /* lane-major: lane * cluster's local_stride_bytes; NULL until used */
    uint64_t generation;      /* of device memory, when `last` was filled */
    uint32_t fault_lane;
    const struct pl_emu_ins *pc; /* that runs, for faults */
    bool is_watched; /* race check: every instruction is looked at for the registers that it uses */
    void *async;     /* emu/async/: per-warp state (groups of copies a thread), NULL until used */
};

/* ---- CTA, cluster, grid ------------------------------------------------------------------------------------------------------ */

struct pl_emu_barrier {  /* bar, barrier: one of 16 */
    uint32_t n_expected; /* threads; 0: every live thread of the CTA */
    uint32_t n_true;     /* red: participants whose predicate was true */
    uint32_t n_voted;    /* red: participants */
    uint32_t n_waiting;  /* groups that sleep on it */
    uint32_t n_again;    /* threads that had come before in this phase, counted once more */
    bool is_busy;        /* somebody has arrived in this phase */
    bool is_red;
    uint32_t phase;                     /* completions */
    uint32_t line;                      /* of the first arrival */
    uint32_t arrived[PL_EMU_MAX_WARPS]; /* lanes of each warp, this phase */
};

struct pl_emu_shared {
    uint8_t *data;       /* byte at base_bytes of the window first */
    uint64_t *written;   /* a bit a byte: set once something was written; NULL when CHECK=off */
    uint32_t base_bytes; /* of the device */
    uint32_t n_bytes; /* static and dynamic; valid window offsets are base … base + n_bytes - 1 */
    uint32_t cap_bytes; /* of data */
};

struct pl_emu_cta {
    struct pl_emu_cluster *cluster;
    uint32_t rank;  /* in the cluster, %cluster_ctarank */
    uint32_t id[3]; /* %ctaid */
    uint32_t n_warps, n_threads;
    uint32_t n_live; /* threads that have not exited */
    bool is_done;
    struct pl_emu_warp *warps;
    struct pl_emu_shared shared;
    struct pl_emu_barrier barriers[PL_EMU_N_BARRIERS];
    void *async; /* emu/async/: barriers, copies and tensor memory of this CTA */
};

/* Offset of a shared::cluster address in the data of its CTA; what lies below the base wraps and is too large. */
static inline uint32_t pl_emu_shared_offset(const struct pl_emu_cta *cta, uint32_t address)
{
    return (address & ((1u << PL_EMU_RANK_SHIFT) - 1)) - cta->shared.base_bytes;
}
/* Its inverse. */
static inline uint32_t pl_emu_shared_address(const struct pl_emu_cta *cta, uint32_t offset_bytes)
{
    return (cta->rank << PL_EMU_RANK_SHIFT) + cta->shared.base_bytes + offset_bytes;
}

struct pl_emu_cluster {
    struct pl_emu_grid *grid;
    uint32_t index; /* linear, in the order of launch */
    uint32_t id[3]; /* %clusterid */
    uint32_t n_ctas, n_live_ctas;
    uint32_t sm; /* %smid of its CTAs */
    struct pl_emu_cta *ctas;
    struct pl_emu_async *async; /* queue and agents, emu/async.h */
    struct pl_emu_race *race;   /* CHECK=race */
    struct pl_diags *faults;    /* of the instruction that runs; the first one ends the launch */
    struct pl_emu_warp *fault_warp; /* that raised it; NULL: an agent, or the cluster as a whole */
    uint64_t n_steps;               /* warp instructions so far: the clock */
    uint64_t n_instructions, n_lane_ops;
    uint64_t rng;                      /* random policies; seeded from (seed, index) */
    uint64_t round_start;              /* random policies: where the turns of a round begin */
    struct pl_emu_warp *straggler;     /* random policies: gets no turn */
    uint32_t n_straggler_rounds;       /* for so many rounds, or until all others sleep */
    uint32_t local_stride_bytes;       /* local memory of a lane */
    void *storage;                     /* emu/cluster.c */
    struct pl_emu_cluster *sched_next; /* list that emu/sched.c keeps it in */
    uint32_t n_grace;                  /* turns since a later cluster failed, emu/sched.c */
};

struct pl_emu_grid {
    struct pl_emu_device *device;
    const struct pl_emu_program *program;
    const struct pl_emu_func *entry;
    uint32_t grid[3], block[3], cluster[3]; /* CTAs; threads; CTAs */
    uint32_t n_clusters;
    uint32_t dynamic_shared_bytes;
    uint8_t *params; /* the entry's parameter block; address PL_EMU_PARAM_WINDOW + offset */
    uint32_t params_n_bytes;
    uint64_t id;          /* %gridid */
    uint64_t workspace;   /* of a cooperative launch: its address; else 0 */
    uint32_t stack_bytes; /* a thread, for calls of unknown depth */
    uint64_t heap_bytes;  /* of malloc, all grids together */
    bool is_explicit_cluster;
    struct pl_emu_sched *sched;    /* emu/sched.c */
    struct pl_emu_race_grid *race; /* CHECK=race */
};

/* ---- operands, for executors ---------------------------------------------------------------------------------------------------- */

static inline void *pl_emu_lanes(const struct pl_emu_warp *w,
                                 const struct pl_emu_arg *a) /* lane array of a VALUE */
{
    return w->bank[a->bank] + a->offset_bytes;
}

/* One lane of a VALUE, zero-extended; predicates give 0 or 1, negation applied. */
static inline uint64_t pl_emu_lane(const struct pl_emu_warp *w, const struct pl_emu_arg *a,
                                   uint32_t lane)
{
    const void *p = pl_emu_lanes(w, a);
    switch (a->bits) {
    case 1: return ((*(const uint32_t *)p >> lane) & 1) ^ (a->is_negated ? 1u : 0u);
    case 16: return ((const uint16_t *)p)[lane];
    case 32: return ((const uint32_t *)p)[lane];
    case 64: return ((const uint64_t *)p)[lane];
    default: return ((const struct pl_emu_u128 *)p)[lane].lo;
    }
}

/* A predicate VALUE as a mask of all lanes, negation applied. */
static inline uint32_t pl_emu_pred(const struct pl_emu_warp *w, const struct pl_emu_arg *a)
{
    uint32_t p = *(const uint32_t *)pl_emu_lanes(w, a);
    return a->is_negated ? ~p : p;
}

/* Write one lane of a register, cut to its container; a SINK takes nothing. */
static inline void pl_emu_set_lane(struct pl_emu_warp *w, const struct pl_emu_arg *a, uint32_t lane,
                                   uint64_t v)
{
    if (a->kind != PL_EMU_ARG_VALUE)
        return;
    void *p = pl_emu_lanes(w, a);
    switch (a->bits) {
    case 1: *(uint32_t *)p = (*(uint32_t *)p & ~(1u << lane)) | (uint32_t)(v & 1) << lane; break;
    case 16: ((uint16_t *)p)[lane] = (uint16_t)v; break;
    case 32: ((uint32_t *)p)[lane] = (uint32_t)v; break;
    case 64: ((uint64_t *)p)[lane] = v; break;
    default: ((struct pl_emu_u128 *)p)[lane] = (struct pl_emu_u128){v, 0}; break;
    }
}

/* Write the active lanes (w->mask) of a predicate register. */
static inline void pl_emu_set_pred(struct pl_emu_warp *w, const struct pl_emu_arg *a,
                                   uint32_t value)
{
    if (a->kind != PL_EMU_ARG_VALUE)
        return;
    uint32_t *p = pl_emu_lanes(w, a);
    *p = (*p & ~w->mask) | (value & w->mask);
}

/* The address of an ADDR operand in one lane; shared, local and const addresses are offsets in their space's window. */
static inline uint64_t pl_emu_address(const struct pl_emu_warp *w, const struct pl_emu_arg *a,
                                      uint32_t lane)
{
    uint64_t base = a->bits == 0 ? 0 : pl_emu_lane(w, a, lane);
    uint64_t v = base + (uint64_t)a->displacement;
    return a->bits == 32 ? (uint32_t)v : v;
}

/* Clock of a cluster: warp instructions, counted at the end of each turn. */
static inline uint64_t pl_emu_clock(const struct pl_emu_cluster *cl) { return cl->n_steps * 4; }

/* The first active lane: uniform operands and elected single-thread operations use it. */
static inline uint32_t pl_emu_first_lane(const struct pl_emu_warp *w)
{
    return (uint32_t)__builtin_ctz(w->mask);
}

/* For a barrier that all non-exited lanes must execute together (.aligned): NEXT when they do; anything else is the executor's
 * answer. Other instructions of that kind come to their executors with the whole warp only. emu/warp.c */
enum pl_emu_status pl_emu_group_converge(struct pl_emu_warp *w, const struct pl_emu_ins *ins);

/* ---- faults -------------------------------------------------------------------------------------------------------------------------
 *
 *     pl_d_emu_misaligned(pl_emu_faults(w, lane), pl_emu_where(w), address, 16);
 *     return PL_EMU_FAULT;
 */

struct pl_diags *pl_emu_faults(struct pl_emu_warp *w, uint32_t lane); /* notes the lane */
struct pl_where pl_emu_where(const struct pl_emu_warp *w);            /* the PTX line that runs */
#endif
