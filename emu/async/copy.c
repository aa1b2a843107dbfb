/*
 * What the untyped asynchronous operations do when they finish: bulk copies in all directions, cp.async, st.async and
 * red.async. Their operands were checked at issue (emu/exec/cp.c, emu/exec/tma.c); source and target lie in memory that lives as
 * long as the grid runs.
 */
#include "emu/async/state.h"

#include <string.h>

static uint8_t *target_data(const struct pl_async_op *op)
{
    return op->target.cta->shared.data + op->target.first;
}
static uint32_t target_bytes(const struct pl_async_op *op)
{
    return op->target.end - op->target.first;
}

static void reduce_into(const struct pl_async_reduce *r, uint8_t *to, const uint8_t *from,
                        uint32_t n_bytes)
{
    for (uint32_t i = 0; i < n_bytes; i += pl_async_reduce_bytes(r))
        pl_async_reduce_apply(r, to + i, from + i);
}

/* ---- bulk copies: cp.async.bulk, cp.reduce.async.bulk ------------------------------------------------------------------- */

static enum pl_emu_status write_bulk_load(struct pl_async_op *op)
{
    memcpy(target_data(op), op->u.bulk.global, op->u.bulk.n_bytes);
    pl_emu_shared_mark(op->target.cta, op->target.first, target_bytes(op));
    return PL_EMU_NEXT;
}

static enum pl_emu_status read_bulk_source(struct pl_async_op *op)
{
    uint32_t n_bytes = op->source.end - op->source.first;
    if (!pl_async_hold(op, n_bytes))
        return PL_EMU_FAULT;
    memcpy(op->held, op->source.cta->shared.data + op->source.first, n_bytes);
    return PL_EMU_NEXT;
}

static enum pl_emu_status write_bulk_store(struct pl_async_op *op)
{
    if (op->reduce.is_on)
        reduce_into(&op->reduce, op->u.bulk.global, op->held, op->u.bulk.n_bytes);
    else if (op->u.bulk.byte_mask == 0xffff)
        memcpy(op->u.bulk.global, op->held, op->u.bulk.n_bytes);
    else
        for (uint32_t i = 0; i < op->u.bulk.n_bytes; i++)
            if ((op->u.bulk.byte_mask >> (i % 16) & 1) != 0)
                op->u.bulk.global[i] = op->held[i];
    return PL_EMU_NEXT;
}

/* A reduction reads its target: every byte of it must have been written. */
static enum pl_emu_status check_reduced(const struct pl_async_op *op)
{
    const struct pl_async_range *r = &op->target;
    if (pl_emu_shared_is_written(r->cta, r->first, r->end - r->first))
        return PL_EMU_NEXT;
    uint32_t address = pl_async_address((struct pl_async_place){r->cta, r->first});
    return (enum pl_emu_status)pl_emu_fault_unwritten(op->w, (uint32_t)__builtin_ctz(op->lanes),
                                                      address, r->end - r->first, op->kind->name);
}

static enum pl_emu_status write_bulk_peer(struct pl_async_op *op)
{
    if (op->reduce.is_on) {
        if (check_reduced(op) != PL_EMU_NEXT)
            return PL_EMU_FAULT;
        reduce_into(&op->reduce, target_data(op), op->held, target_bytes(op));
        return PL_EMU_NEXT;
    }
    memcpy(target_data(op), op->held, target_bytes(op));
    pl_emu_shared_mark(op->target.cta, op->target.first, target_bytes(op));
    return PL_EMU_NEXT;
}

const struct pl_async_kind pl_async_bulk_load = {"bulk load", NULL, write_bulk_load};
const struct pl_async_kind pl_async_bulk_store = {"bulk store", read_bulk_source, write_bulk_store};
const struct pl_async_kind pl_async_bulk_peer = {"bulk copy to a peer", read_bulk_source,
                                                 write_bulk_peer};

/* ---- cp.async: generic proxy, one operation a warp instruction ----------------------------------------------------------- */

static enum pl_emu_status write_cp(struct pl_async_op *op)
{
    uint32_t n_bytes = op->u.cp.n_bytes;
    PL_EMU_FOR_LANES (lane, op->lanes) {
        struct pl_async_place to = op->u.cp.to[lane];
        uint32_t n_copied = op->u.cp.n_copied[lane];
        if (n_copied != 0)
            memcpy(pl_async_data(to), op->u.cp.from[lane], n_copied);
        memset(pl_async_data(to) + n_copied, 0, n_bytes - n_copied);
        pl_emu_shared_mark(to.cta, to.offset_bytes, n_bytes);
        pl_async_note_generic(to.cta, to.offset_bytes, n_bytes, pl_async_thread(op->w, lane),
                              op->line);
    }
    return PL_EMU_NEXT;
}

/* cp.async.mbarrier.arrive: the arrive-on of one lane, after all its earlier cp.async. */
static enum pl_emu_status write_cp_arrive(struct pl_async_op *op)
{
    struct pl_emu_async *a = op->w->cta->cluster->async;
    for (struct pl_async_op *o = a->first, *next; o != NULL; o = next) {
        next = o->next;
        if (o->w != op->w || o->kind != &pl_async_cp || (o->lanes & op->lanes) == 0 ||
            o->serial > op->serial)
            continue;
        enum pl_emu_status s = pl_async_finish(o);
        if (s != PL_EMU_NEXT)
            return s;
    }
    return pl_async_signal_arrive(op, 1);
}

const struct pl_async_kind pl_async_cp = {"cp.async", NULL, write_cp};
const struct pl_async_kind pl_async_cp_arrive = {"cp.async.mbarrier.arrive", NULL, write_cp_arrive};

/* ---- st.async, red.async: generic proxy ------------------------------------------------------------------------------------ */

static enum pl_emu_status write_store(struct pl_async_op *op)
{
    if (op->reduce.is_on && check_reduced(op) != PL_EMU_NEXT)
        return PL_EMU_FAULT;
    if (op->reduce.is_on)
        pl_async_reduce_apply(&op->reduce, target_data(op), op->u.store.value);
    else
        memcpy(target_data(op), op->u.store.value, op->u.store.n_bytes);
    pl_emu_shared_mark(op->target.cta, op->target.first, op->u.store.n_bytes);
    return PL_EMU_NEXT;
}

static enum pl_emu_status write_store_global(struct pl_async_op *op)
{
    if (op->reduce.is_on)
        pl_async_reduce_apply(&op->reduce, op->u.store.global, op->u.store.value);
    else
        memcpy(op->u.store.global, op->u.store.value, op->u.store.n_bytes);
    return PL_EMU_NEXT;
}

const struct pl_async_kind pl_async_store = {"st.async or red.async", NULL, write_store};
const struct pl_async_kind pl_async_store_global = {"st.async or red.async to global memory", NULL,
                                                    write_store_global};
