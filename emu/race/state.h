#ifndef PL_EMU_RACE_STATE_H
#define PL_EMU_RACE_STATE_H
/*
 * Inside the race check (emu/race*.c): what threads know, what asynchronous operations have got, what was accessed.
 *
 * A thread's knowledge is a *view*, shared by the lanes of a warp that know the same. Left out of it, because each lane would
 * differ there from its neighbours, is what a lane did itself: its own accesses, the operations that it has waited for, the
 * fences that it has executed. These stand in the state of its warp and in the slots of its operations, and are added when
 * the lane releases something to others.
 *
 * A slot stands for one operation at a time, with two ticks: the even one is its first step (source read, or, for tcgen05,
 * issued in its place of the pipeline), the odd one its end. It is given away again only to an operation whose issuer knows
 * the end of the one before, so that who knows the new one rightly seems to know the old. Operations that a warp issues and waits
 * for as one follow each other in a slot as soon as the warp has waited.
 */
#include "emu/race.h"
#include "emu/race/clock.h"

enum {
    PL_RACE_PAGE_BYTES = 1024,
    PL_RACE_MOST_SHIFT = 4, /* granules of 16 bytes, until an access is finer */
};

/* ---- accesses --------------------------------------------------------------------------------------------------------- */

/* Who accessed and how: one for each executed instruction, or several of a loop that nothing tells apart. Never freed before
 * the grid ends; cells name them by number, from 1. */
struct pl_race_access {
    uint32_t cluster, agent, tick;
    uint32_t warp, lanes; /* that executed it: index in the cluster */
    uint32_t line;
    const char *name; /* "load", "bulk load", … */
    bool is_write, is_strong, is_async;
    bool is_generic;  /* a write that the async proxy sees behind a fence only */
    bool is_per_lane; /* a cell belongs to one lane, which it names */
    bool
        is_by_warp; /* all lanes of a warp made it as one: each comes behind it in its own program order */
    uint8_t owner; /* enum pl_async_owner of an operation */
    uint8_t pipe;  /* enum pl_race_pipe */
    uint64_t pipe_key;
};

struct pl_race_cell {
    uint32_t write;      /* number of the last write; 0: none */
    uint32_t read;       /* of a read since then; 0: none */
    uint32_t read_lanes; /* of it */
    uint32_t write_lane : 5;
    uint32_t more       : 27; /* further reads: number of a node; 0: none */
};

struct pl_race_read {
    uint32_t access, lanes, next;
};

struct pl_race_page {
    uint32_t shift; /* of the granule */
    struct pl_race_cell cells[];
};

/* Memory that begins at 0: an array of pages (shared), or a table of those in use (device). */
struct pl_race_space {
    struct pl_race_page **pages;
    uint64_t *keys;  /* page number + 1; NULL: an array */
    uint32_t n, cap; /* cap: a power of two for a table */
};

/* ---- order -------------------------------------------------------------------------------------------------------------- */

enum pl_race_kind {
    PL_RACE_G,     /* generic: has happened */
    PL_RACE_S,     /* as the async proxy sees shared memory */
    PL_RACE_D,     /* as the async proxy sees device memory */
    PL_RACE_R,     /* G of shared memory alone, beside G: by fences restricted to it */
    PL_RACE_T,     /* tensor memory and its pipelines */
    PL_RACE_N_SET, /* those are what is released */
    PL_RACE_T_OUT = PL_RACE_N_SET, /* behind tcgen05.fence::before_thread_sync: T of a release */
    PL_RACE_T_IN,                  /* acquired, before tcgen05.fence::after_thread_sync */
    PL_RACE_OUT, /* four: G, S, D, R at the last fence, for strong stores behind it */
    PL_RACE_IN = PL_RACE_OUT + 4, /* four: what strong loads have seen, for the next fence */
    PL_RACE_N_VIEW = PL_RACE_IN + 4
};

/* What is given from one thread to another. */
struct pl_race_set {
    struct pl_race_clock *c[PL_RACE_N_SET];
};

struct pl_race_view {
    uint32_t n_refs;
    struct pl_race_clock *c[PL_RACE_N_VIEW];
};

struct pl_race_slot {
    uint32_t tick; /* even */
    uint32_t warp, lanes;
    uint32_t group;
    uint8_t owner;
    const struct pl_async_kind *kind;
    const struct pl_emu_ins *pc;
    const uint8_t *frame;           /* of a tcgen05.ld or wgmma: the registers of its activation */
    bool is_generic, is_collective; /* collective: its warp waits as one */
    /* lanes that have waited for its source, for its end; whose fence has shown it to the async proxy; that have executed
     * tcgen05.fence::before_thread_sync behind its issue, behind their wait */
    uint32_t has_read, has_ended, is_shown_s, is_shown_d, is_out_issue, is_out_end;
    uint32_t
        out_before; /* collective: ticks of older operations in the slot that such a fence came behind */
    struct pl_race_set end; /* what who learns of its end knows */
};

/* A bulk store: what makes it the same as another one of its instruction. */
struct pl_race_store {
    const struct pl_emu_ins *pc;
    uint64_t serial, address;
    uint32_t lane, first, n_bytes;
    int32_t coords[5];
};

struct pl_race_warp {
    uint32_t now;                      /* tick of its accesses; moves on at a release */
    uint32_t out_tick[PL_EMU_LANES];   /* before its last fence */
    uint32_t out_shared[PL_EMU_LANES]; /* the same, also of fences restricted to shared memory */
    uint32_t shown_s[PL_EMU_LANES];
    uint32_t shown_d[PL_EMU_LANES]; /* before its last fence.proxy.async */
    struct pl_race_view *views[PL_EMU_LANES];
    uint32_t *slots; /* of its operations */
    uint32_t n_slots, cap_slots;
    uint32_t last_load,
        last_load_tick; /* access and tick of a load that may stand for the next one */
    uint8_t *
        wgmma_regs; /* by number of a register: an operand of some wgmma that this warp has executed */
    uint32_t n_wgmma_regs;
    bool is_fenced;    /* no such register was used since its last wgmma.fence */
    uint32_t use_line; /* that used one; 0: none did */
    struct pl_race_store last_store;
    struct pl_race_set *tensor; /* a lane: what its tcgen05.commit makes known; NULL: nothing */
};

struct pl_race_bar { /* an mbarrier, or a place that threads synchronise through */
    uint64_t key;
    struct pl_race_set now, done; /* done: at the end of the last phase */
    /* Its init, until all threads of the cluster know of it by fence.mbarrier_init and barrier.cluster. */
    enum { PL_RACE_INIT_OLD, PL_RACE_INIT_NEW, PL_RACE_INIT_FENCED, PL_RACE_INIT_TOLD } init;
    uint32_t init_warp, init_lane;
};

struct pl_race_location { /* device or shared memory accessed by strong operations */
    uint64_t key;
    uint32_t cluster; /* that released */
    struct pl_race_set set;
    struct pl_race_location *next; /* of the same place, by another cluster */
};

struct pl_race_cta {
    struct pl_race_space shared;
    struct pl_race_cell *tensor; /* [row][column] */
    struct pl_race_set barriers[PL_EMU_N_BARRIERS], ended[PL_EMU_N_BARRIERS];
};

struct pl_emu_race {
    struct pl_emu_race_grid *grid;
    struct pl_emu_cluster *cl;
    uint32_t cluster, n_warps; /* of the cluster */
    bool has_proxy;
    bool is_lost; /* no memory: nothing that it says counts */
    struct pl_race_cta *ctas;
    struct pl_race_warp *warps;
    struct pl_race_slot *slots;
    uint32_t n_slots, cap_slots;
    struct pl_race_bar *bars;
    uint32_t n_bars, cap_bars;
    struct pl_race_set gathering, ended; /* barrier.cluster */
};

struct pl_emu_race_grid {
    struct pl_race_access **chunks; /* 4,096 each */
    uint32_t n_accesses, n_chunks;
    struct pl_race_read *reads;
    uint32_t n_reads, cap_reads, free_read;
    struct pl_race_space device;
    struct pl_race_location **locations; /* hashed */
    bool is_lost;
};

/* Who accesses now. */
struct pl_race_actor {
    struct pl_emu_race *r;
    struct pl_emu_warp *w;
    uint32_t lanes; /* that act as one */
    uint32_t number;
    const struct pl_race_access *access;
    uint8_t sees;       /* enum pl_race_kind: what it must know of others */
    uint8_t sees_write; /* the same of generic writes */
    bool is_write;
    struct pl_race_slot *slot; /* NULL: a thread itself */
    const char *space;         /* for reports */
    struct pl_emu_cta *cta;    /* of shared and tensor memory */
};

/* ---- emu/race/shadow.c ---------------------------------------------------------------------------------------------------------- */

struct pl_race_access *pl_race_access_at(const struct pl_emu_race_grid *g, uint32_t number);
/* 0: no memory. */
uint32_t pl_race_access_add(struct pl_emu_race_grid *g, const struct pl_race_access *a);
bool pl_race_space_init(struct pl_race_space *s, uint32_t n_bytes);
void pl_race_space_fini(struct pl_race_space *s);
/* Check an access of one cell against what it remembers, and remember it. address: of the cell, for reports. */
enum pl_emu_status pl_race_touch(struct pl_race_actor *x, struct pl_race_cell *c, uint64_t address);
/* The last write of these bytes comes before whatever follows. */
void pl_race_settle_write(struct pl_race_space *s, uint64_t address, uint64_t n_bytes);
enum pl_emu_status pl_race_touch_range(struct pl_race_actor *x, struct pl_race_space *s,
                                       uint64_t address, uint64_t n_bytes);

/* ---- emu/race/order.c ------------------------------------------------------------------------------------------------------------ */

static inline struct pl_emu_race *pl_race_of(const struct pl_emu_warp *w)
{
    return w->cta->cluster->race;
}
static inline uint32_t pl_race_index(const struct pl_emu_warp *w)
{
    return w->cta->rank * w->cta->n_warps + w->index;
}
static inline struct pl_race_warp *pl_race_warp_of(const struct pl_emu_warp *w)
{
    return &pl_race_of(w)->warps[pl_race_index(w)];
}
/* Every acting lane knows that these lanes made the access (tick: of it, or an earlier step). */
bool pl_race_knows(const struct pl_race_actor *x, const struct pl_race_access *a, uint32_t lanes,
                   uint32_t tick, uint8_t kind);
/* What lanes of a warp know and did, for others: the owner drops it. */
void pl_race_release(struct pl_emu_warp *w, uint32_t lanes, struct pl_race_set *out);
void pl_race_acquire(struct pl_emu_warp *w, uint32_t lanes, const struct pl_race_set *set);
/* The same without being a release or an acquire: what was known at the lane's last fence; what the next fence will acquire. */
void pl_race_release_fenced(struct pl_emu_warp *w, uint32_t lane, struct pl_race_set *out);
void pl_race_see(struct pl_emu_warp *w, uint32_t lanes, const struct pl_race_set *set);
void pl_race_set_join(struct pl_emu_race *r, struct pl_race_set *to, const struct pl_race_set *set);
void pl_race_set_copy(struct pl_race_set *to, const struct pl_race_set *set);
void pl_race_set_drop(struct pl_race_set *set);
/* A view to change, of the lanes that have `old` among `lanes`. */
struct pl_race_view *pl_race_view_of(struct pl_emu_race *r, struct pl_race_warp *rw, uint32_t lane);
void pl_race_view_drop(struct pl_race_view *v);
/* Strong operations on a place: what was released there is seen; what is known now is released. */
void pl_race_location_read(struct pl_emu_warp *w, uint32_t lane, uint64_t key, bool is_acquire);
void pl_race_location_write(struct pl_emu_warp *w, uint32_t lane, uint64_t key, bool is_release,
                            bool is_update);
void pl_race_locations_fini(struct pl_emu_race_grid *g);

static inline void pl_race_place_shared(struct pl_race_actor *x, struct pl_emu_cta *cta)
{
    x->space = "shared";
    x->cta = cta;
    x->sees = x->sees_write = PL_RACE_R;
}
static inline void pl_race_place_device(struct pl_race_actor *x)
{
    x->space = "global";
    x->cta = NULL;
    x->sees = x->sees_write = PL_RACE_G;
}

/* ---- race.c ------------------------------------------------------------------------------------------------------------------- */

/* An access that lanes of the running warp make; x->lanes are all of them. False: no memory, a fault was raised. */
bool pl_race_thread_actor(struct pl_emu_warp *w, const char *name, bool is_write, bool is_strong,
                          struct pl_race_actor *x);

/* ---- emu/race/async.c ------------------------------------------------------------------------------------------------------------- */

/* The slot of an operation, given to it at first; NULL: no memory. */
struct pl_race_slot *pl_race_slot_of(struct pl_async_op *op);
static inline uint32_t pl_race_agent(const struct pl_emu_race *r, const struct pl_race_slot *s)
{
    return r->n_warps + (uint32_t)(s - r->slots);
}
/* w->is_watched anew, after a wait. */
void pl_race_update_watch(struct pl_emu_warp *w);
/* The actor of an operation with a new access; first_step: of its tick. False: no memory. */
bool pl_race_op_actor(struct pl_async_op *op, bool is_write, bool is_first_step,
                      struct pl_race_actor *x);

/* ---- emu/race/report.c ------------------------------------------------------------------------------------------------------------- */

/* An instruction of the group that runs uses a register of the operation in a slot, which may not have ended. */
void pl_race_report_register(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                             const struct pl_race_slot *s);
/* A wgmma without wgmma.fence behind the use of its registers in a line; 0: without one at all. */
void pl_race_report_wgmma(struct pl_emu_warp *w, uint32_t use_line);
/* The access of x and an earlier one, a, by these lanes, are not ordered; is_known: but for a fence. */
void pl_race_report(const struct pl_race_actor *x, const struct pl_race_access *a, uint32_t lanes,
                    uint64_t address, bool is_known);
#endif
