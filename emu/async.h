#ifndef PL_EMU_ASYNC_H
#define PL_EMU_ASYNC_H
/*
 * Asynchronous work of a cluster: what the scheduler asks of it. Copies, barriers, commits and agents live behind these
 * functions; executors of this family find their state in cluster->async, cta->async and warp->async.
 *
 * The scheduler gives the agents a turn after each round of the warps (step), wakes every blocked group whose poll says so,
 * and, when all groups of the cluster are blocked, asks for one more completion (force). When there is none left, that is
 * a deadlock, and the waits describe themselves.
 */
#include "emu/exec.h"

#include <stdbool.h>
#include <stddef.h>

struct pl_emu_cluster;
struct pl_emu_cta;
struct pl_emu_warp;

bool pl_emu_async_init(
    struct pl_emu_cluster *cl); /* before its first instruction; false: no memory */
void pl_emu_async_fini(struct pl_emu_cluster *cl); /* also after a fault */

/* Let agents work as the policy says; PL_EMU_FAULT when one of them found a fault, else PL_EMU_NEXT. Cheap when idle. */
enum pl_emu_status pl_emu_async_step(struct pl_emu_cluster *cl);
/* Every group sleeps: complete at least one pending operation. PL_EMU_NEXT: something completed; PL_EMU_BLOCKED: nothing is
 * in flight; PL_EMU_FAULT. */
enum pl_emu_status pl_emu_async_force(struct pl_emu_cluster *cl);
/* Lines for the deadlock report: the state of barriers that have pending arrivals or bytes, what is in flight. */
void pl_emu_async_describe(struct pl_emu_cluster *cl, char *text, size_t n_bytes);

/* Lanes exit (they count as arrived at the cluster barrier); the last thread of a CTA has exited (outstanding copies,
 * leaked tensor memory). PL_EMU_BLOCKED from the second: keep the CTA's shared memory, ask again later. */
enum pl_emu_status pl_emu_async_on_exit(struct pl_emu_warp *w, uint32_t lanes);
enum pl_emu_status pl_emu_async_on_cta_exit(struct pl_emu_cta *cta);
/* What these lanes wrote so far is ordered before what others do from now on: a barrier, an arrival, a fence. */
void pl_emu_async_on_release(struct pl_emu_warp *w, uint32_t lanes);
/* A generic-proxy access to shared memory by lanes of a warp, after its bounds check: proxy tracking and the rule that an
 * mbarrier object is touched by mbarrier instructions only. Called when CHECK is not off and the CTA has a barrier or has
 * used the async proxy (cta->async != NULL). address: shared::cluster. */
enum pl_emu_status pl_emu_async_on_shared(struct pl_emu_warp *w, struct pl_emu_cta *cta,
                                          uint32_t lane, uint32_t address, uint32_t n_bytes,
                                          bool is_write);
/* The same for a whole warp whose lanes access consecutive places of n_bytes each, lane 0 at `address`: true when all is well
 * (and noted), false when the lanes must be looked at one by one; nothing was noted then. */
bool pl_emu_async_on_shared_run(struct pl_emu_warp *w, struct pl_emu_cta *cta, uint32_t address,
                                uint32_t n_bytes, bool is_write);
/* For warps with scattered lanes: true when no barrier object and nothing in flight touches the bytes, so that the check above may be left
 * out for every lane; writes are then only noted. Both with cta->async != NULL. */
bool pl_emu_async_is_quiet(const struct pl_emu_cta *cta, uint32_t address, uint32_t n_bytes,
                           bool is_write);
void pl_emu_async_note_write(struct pl_emu_warp *w, struct pl_emu_cta *cta, uint32_t lane,
                             uint32_t address, uint32_t n_bytes);
#endif
