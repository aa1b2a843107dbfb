#ifndef PL_EMU_RACE_H
#define PL_EMU_RACE_H
/*
 * The race check (PLAUNCH_EMU_CHECK=race), as executors and the queue of asynchronous operations see it.
 *
 * Two accesses to the same bytes, one of them a write, race unless one happens before the other. What happens before what is
 * found from the synchronisation that a run performs, with vector clocks, and not from the moment at which the emulator
 * happens to move the data: a missing wait is reported also where this run had no use for it.
 *
 * Who is ordered: every thread of the grid, lane by lane; and every asynchronous operation, which takes place from its issue
 * until a wait tells a thread of its end. Operations in the async proxy see generic writes only behind fence.proxy.async;
 * generic reads need none before an async write. Tensor memory is ordered by the waits of tcgen05, by commit and mbarrier,
 * between threads only with the pair of tcgen05 fences, and by the pipelined pairs (mma to mma on one accumulator, cp to mma).
 *
 * Memory is watched in granules as fine as its accesses: shared memory of each CTA, tensor memory (16 lanes and a column), device
 * memory of the grid. Strong accesses (atomics, volatile, relaxed) do not race with each other; release and acquire through
 * them, and through fences, order threads of all clusters.
 *
 * Not seen: accesses of the host or of another grid, memory that device-side malloc hands on, a scope that is too narrow, shared
 * memory of another CTA that only a release restricted to the own one would order.
 *
 * Source: PTX ISA, Memory Consistency Model (Causality order, Proxies, Async operations); TensorCore 5th Generation Family
 * Instructions: Memory Consistency Model
 */
#include "emu/async/state.h"
#include "emu/exec/mem.h"
#include "emu/machine.h"

struct pl_emu_race_grid;

static inline bool pl_race_is_on(const struct pl_emu_warp *w)
{
    return w->cta->cluster->race != NULL;
}

/* ---- life: NULL or false where there is no memory ----------------------------------------------------------------------- */

struct pl_emu_race_grid *pl_race_grid_create(void);
void pl_race_grid_destroy(struct pl_emu_race_grid *g);
bool pl_race_start(struct pl_emu_cluster *cl); /* before the first instruction of a cluster */
void pl_race_end(struct pl_emu_cluster *cl);   /* its storage may serve another one */

/* Everything below is called only when the check is on, and answers PL_EMU_FAULT when it has raised a fault. */

/* ---- accesses of threads ------------------------------------------------------------------------------------------------ */

/* A load, store or atomic of the active lanes, each at its address. Bytes outside memory are left to the executor. */
enum pl_emu_status pl_race_access(struct pl_emu_warp *w, const struct pl_emu_access *a,
                                  const uint64_t at[PL_EMU_LANES], bool is_read, bool is_write);
/* n_bytes of a CTA's shared memory, by these lanes. */
enum pl_emu_status pl_race_shared(struct pl_emu_warp *w, uint32_t lanes, struct pl_async_place p,
                                  uint32_t n_bytes, bool is_write);
/* A write that the warp makes as one (tcgen05.alloc). */
enum pl_emu_status pl_race_shared_by_warp(struct pl_emu_warp *w, struct pl_async_place p,
                                          uint32_t n_bytes);

/* ---- asynchronous operations ---------------------------------------------------------------------------------------------- */

/* What an operation that is submitted reads and writes; pieces first, where it is scattered. */
enum pl_emu_status pl_race_piece(struct pl_async_op *op, const struct pl_async_range *r,
                                 bool is_write);
enum pl_emu_status pl_race_submit(struct pl_async_op *op);
/* Its end is made known through the mbarrier op->signal; has_completed: by this the phase is over. */
void pl_race_signal(struct pl_async_op *op, bool has_completed);
/* A lane waits for its operations of this owner in groups below `end`; is_read: for their sources only. */
void pl_race_wait_groups(struct pl_emu_warp *w, uint32_t lane, uint8_t owner, uint32_t end,
                         bool is_read);

/* ---- tensor memory ---------------------------------------------------------------------------------------------------------- */

enum { PL_RACE_TMEM_ROWS = 8, PL_RACE_TMEM_COLUMNS = 512 };
/* How an access of tensor memory stands to others in the pipelines. */
enum pl_race_pipe {
    PL_RACE_PIPE_NONE,
    PL_RACE_PIPE_D,
    PL_RACE_PIPE_OPERAND,
    PL_RACE_PIPE_CP,
    PL_RACE_PIPE_SHIFT
};
/* Columns [first, end) of the lanes, a bit each 16 of them. */
struct pl_race_cells {
    struct pl_emu_cta *cta;
    uint32_t rows;
    uint32_t first, end;
    uint8_t pipe; /* enum pl_race_pipe */
    bool is_write;
};
enum pl_emu_status pl_race_tmem(struct pl_async_op *op, const struct pl_race_cells *c);
void pl_race_tmem_alloc(struct pl_emu_cta *cta, uint32_t first, uint32_t n_columns);
enum pl_emu_status pl_race_tmem_dealloc(struct pl_emu_warp *w, struct pl_emu_cta *cta,
                                        uint32_t first, uint32_t n_columns);
void pl_race_tmem_wait(struct pl_emu_warp *w, const struct pl_async_kind *kind);
/* The group is about to execute its next instruction: it may not use a register that a tcgen05.ld still fills, nor, unless it is a
 * wgmma, one of an unfinished wgmma; of a finished one it is noted. Asked while w->is_watched. */
enum pl_emu_status pl_race_registers(struct pl_emu_warp *w, const struct pl_emu_group *g);
/* A wgmma is issued: behind wgmma.fence, and no register of it was used since. wgmma.fence. */
enum pl_emu_status pl_race_wgmma(struct pl_emu_warp *w, const struct pl_emu_ins *ins);
void pl_race_wgmma_fence(struct pl_emu_warp *w);
void pl_race_tensor_fence(struct pl_emu_warp *w, bool is_before);

/* ---- order between threads ------------------------------------------------------------------------------------------------- */

void pl_race_warp_sync(struct pl_emu_warp *w, uint32_t lanes);
/* bar: lanes arrive at barrier i of their CTA; its phase ends; a group that waited goes on. */
void pl_race_barrier_arrive(struct pl_emu_warp *w, uint32_t i);
void pl_race_barrier_pass(struct pl_emu_warp *w, uint32_t lanes, uint32_t i);
void pl_race_barrier_end(struct pl_emu_cta *cta, uint32_t i);
/* barrier.cluster */
void pl_race_cluster_arrive(struct pl_emu_warp *w, bool is_release);
void pl_race_fence_init(struct pl_emu_warp *w); /* fence.mbarrier_init */
void pl_race_cluster_end(struct pl_emu_cluster *cl);
void pl_race_cluster_wait(struct pl_emu_warp *w, bool is_acquire);
/* mbarrier: use by a lane or operation must come after the init; an arrival, a successful wait of some lanes. What is relaxed is an order
 * together with fences only: before the arrival, behind the wait. */
enum pl_emu_status pl_race_bar_init(struct pl_emu_warp *w, uint32_t lane, struct pl_async_place p);
enum pl_emu_status pl_race_bar_use(struct pl_emu_warp *w, uint32_t lane, struct pl_async_place p);
void pl_race_bar_arrive(struct pl_emu_warp *w, uint32_t lane, struct pl_async_place p,
                        bool is_release, bool has_completed);
void pl_race_bar_wait(struct pl_emu_warp *w, uint32_t lanes, struct pl_async_place p,
                      bool is_acquire);
/* Fences of the active lanes: whole; half of one, restricted to shared memory. */
void pl_race_fence(struct pl_emu_warp *w);
void pl_race_fence_shared(struct pl_emu_warp *w, bool is_acquire);
void pl_race_fence_proxy(struct pl_emu_warp *w, bool is_shared, bool is_global);
#endif
