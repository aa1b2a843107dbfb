/*
 * Shared memory as two proxies see it.
 *
 * A generic write becomes visible to the async proxy by a fence.proxy.async on the way from the write to the copy: in the
 * thread that wrote, or in another one behind a barrier that both came to. So what a thread writes is cut into segments, by
 * its own fences and by what orders its writes before those of others (barriers, arrivals, fences); a fence publishes the
 * segments that its thread and all others have finished. Each 4 bytes of shared memory remember their last generic writer
 * and its segment; an async read or write of bytes whose segment no fence has published is a fault. The order between the
 * fence and the copy is the business of the race check. Sub-word writes of several threads keep the last writer only.
 *
 * What is in flight is compared with every generic access: touching bytes that a copy still reads or writes is a fault
 * whenever the policy lets it be seen.
 *
 * Source: PTX ISA, Memory Consistency Model: Proxies; Proxy-preserved base causality order; Async proxy; membar / fence
 * (fence.proxy.async)
 */
#include "emu/async/state.h"

#include "base/debug.h"

#include <stdio.h>
#include <string.h>

enum { THREAD_BITS = 15, LINE_BITS = 17 };

/* ---- operands ---------------------------------------------------------------------------------------------------------- */

bool pl_async_place_at(struct pl_emu_warp *w, uint32_t lane, uint32_t address, uint32_t n_bytes,
                       uint32_t align_bytes, const char *what, struct pl_async_place *out)
{
    out->cta = pl_emu_shared_cta(w->cta->cluster, address);
    if (out->cta == NULL || !pl_emu_shared_in(out->cta, address, n_bytes)) {
        pl_emu_fault_shared(w, lane, address, n_bytes, what);
        return false;
    }
    if (address % align_bytes != 0) {
        pl_emu_fault_misaligned(w, lane, address, align_bytes, what);
        return false;
    }
    out->offset_bytes = pl_emu_shared_offset(out->cta, address);
    return true;
}

bool pl_async_shared_address(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                             const struct pl_emu_arg *a, uint32_t lane, uint32_t *address)
{
    uint64_t v = pl_emu_address(w, a, lane);
    uint8_t space = pl_emu_mod(ins, PL_PTX_CAT_SPACE);
    *address = (uint32_t)v;
    if (space == PL_PTX_MOD_SPACE_SHARED || space == PL_PTX_MOD_SPACE_SHARED_CTA)
        *address = pl_async_own(w, (uint32_t)v);
    if (space != PL_PTX_MOD_NONE)
        return true;
    if (v - PL_EMU_SHARED_WINDOW <= UINT32_MAX)
        return true; /* the window is 4 GiB aligned: its low half is the address */
    pl_d_async_not_shared(pl_emu_faults(w, lane), pl_emu_where(w), v);
    return false;
}

/* ---- generic writes -------------------------------------------------------------------------------------------------------- */

static uint32_t record_thread(uint64_t record)
{
    return (uint32_t)record & ((1u << THREAD_BITS) - 1);
}
static uint32_t record_line(uint64_t record) { return (uint32_t)record >> THREAD_BITS; }
static uint32_t record_segment(uint64_t record) { return (uint32_t)(record >> 32) - 1; }

void pl_async_note_generic(struct pl_emu_cta *cta, uint32_t offset_bytes, uint32_t n_bytes,
                           uint32_t thread, uint32_t line)
{
    struct pl_async_cta *c = cta->async;
    if (c == NULL || c->writes == NULL)
        return;
    uint32_t most = (1u << LINE_BITS) - 1;
    uint64_t segment = (uint64_t)cta->cluster->async->segments[thread] + 1;
    uint64_t record = segment << 32 | (line < most ? line : most) << THREAD_BITS | thread;
    for (uint32_t i = offset_bytes / 4; i <= (offset_bytes + n_bytes - 1) / 4; i++)
        c->writes[i] = record;
}

void pl_async_note_written(struct pl_async_range r)
{
    struct pl_async_cta *c = r.cta->async;
    if (c == NULL || c->writes == NULL)
        return;
    for (uint32_t i = r.first / 4; i < (r.end + 3) / 4; i++)
        c->writes[i] = 0;
}

void pl_async_fence_proxy(struct pl_emu_warp *w)
{
    struct pl_emu_async *a = w->cta->cluster->async;
    if (a->segments == NULL)
        return;
    PL_EMU_FOR_LANES (lane, w->mask)
        a->segments[pl_async_thread(w, lane)]++;
    a->segments[pl_async_any_thread(w->cta)]++;
    for (uint32_t i = 0; i < a->cl->n_ctas; i++) {
        size_t first = (size_t)i * (PL_ASYNC_THREADS_A_CTA + 1);
        memcpy(a->n_published + first, a->segments + first,
               a->cl->ctas[i].n_threads * sizeof *a->segments);
    }
    uint32_t any = pl_async_any_thread(w->cta);
    a->n_published[any] = a->segments[any];
}

void pl_emu_async_on_release(struct pl_emu_warp *w, uint32_t lanes)
{
    struct pl_emu_async *a = w->cta->cluster->async;
    if (a->segments == NULL)
        return;
    PL_EMU_FOR_LANES (lane, lanes)
        a->segments[pl_async_thread(w, lane)]++;
}

void pl_async_fence_init(struct pl_emu_warp *w)
{
    struct pl_emu_async *a = w->cta->cluster->async;
    if (a->n_init_fences == NULL)
        return;
    PL_EMU_FOR_LANES (lane, w->mask)
        a->n_init_fences[pl_async_thread(w, lane)]++;
}

/*
 * The record of a generic write of the range that no fence has published, or 0. An async write over it needs the fence by the
 * manual too; where a barrier lies between them it is missed only where races are looked for: compilers put tiles where a
 * small object lay (Triton the address from tcgen05.alloc), and no byte is stale then.
 */
static uint64_t find_unfenced(const struct pl_async_range *r, bool is_write)
{
    const struct pl_async_cta *c = r->cta->async;
    const struct pl_emu_async *a = r->cta->cluster->async;
    if (c == NULL || c->writes == NULL)
        return 0;
    for (uint32_t i = r->first / 4; i < (r->end + 3) / 4; i++) {
        if (c->writes[i] == 0)
            continue;
        uint32_t thread = record_thread(c->writes[i]), segment = record_segment(c->writes[i]);
        bool is_borne = is_write && !a->is_strict && segment < a->segments[thread];
        if (segment >= a->n_published[thread] && !is_borne)
            return c->writes[i];
        c->writes[i] = 0; /* published for good */
    }
    return 0;
}

static void name_thread(uint64_t record, char *text, size_t n_bytes)
{
    uint32_t rank = record_thread(record) / (PL_ASYNC_THREADS_A_CTA + 1),
             tid = record_thread(record) % (PL_ASYNC_THREADS_A_CTA + 1);
    if (tid == PL_ASYNC_ANY_THREAD)
        snprintf(text, n_bytes, "an asynchronous store to CTA %u", rank);
    else
        snprintf(text, n_bytes, "thread %u of CTA %u", tid, rank);
}

/* ---- what is in flight --------------------------------------------------------------------------------------------------- */

static bool overlaps(const struct pl_async_range *r, const struct pl_async_range *s)
{
    return r->cta != NULL && r->cta == s->cta && r->first < s->end && s->first < r->end;
}

static bool cp_overlaps(const struct pl_async_op *op, const struct pl_async_range *r)
{
    PL_EMU_FOR_LANES (lane, op->lanes) {
        struct pl_async_place to = op->u.cp.to[lane];
        if (overlaps(&(struct pl_async_range){to.cta, to.offset_bytes,
                                              to.offset_bytes + op->u.cp.n_bytes},
                     r))
            return true;
    }
    return false;
}

static bool is_being_written(const struct pl_async_op *op, const struct pl_async_range *r)
{
    return op->kind == &pl_async_cp ? cp_overlaps(op, r)
                                    : !op->reduce.is_on && overlaps(&op->target, r);
}

static bool is_being_read(const struct pl_async_op *op, const struct pl_async_range *r)
{
    return op->stage == PL_ASYNC_ISSUED && (overlaps(&op->source, r) || overlaps(&op->source2, r));
}

/* The operation in flight that conflicts with an access to r, or NULL. */
static struct pl_async_op *find_conflict(const struct pl_emu_async *a,
                                         const struct pl_async_range *r, bool is_write)
{
    for (struct pl_async_op *op = a->first; op != NULL; op = op->next)
        if (is_being_written(op, r) || (is_write && is_being_read(op, r)))
            return op;
    return NULL;
}

static uint32_t shared_address(const struct pl_async_range *r)
{
    return pl_async_address((struct pl_async_place){r->cta, r->first});
}

static enum pl_emu_status check_range(const struct pl_async_op *op, const struct pl_async_range *r,
                                      bool is_write)
{
    struct pl_emu_async *a = op->w->cta->cluster->async;
    uint64_t unfenced = op->is_generic_proxy ? 0 : find_unfenced(r, is_write);
    if (unfenced != 0) {
        char who[64];
        name_thread(unfenced, who, sizeof who);
        pl_d_proxy_unfenced(pl_async_faults(op), pl_async_where(op), op->kind->name,
                            is_write ? "writes" : "reads", shared_address(r), who,
                            record_line(unfenced));
        return PL_EMU_FAULT;
    }
    const struct pl_async_op *other = find_conflict(a, r, is_write);
    if (other == NULL || (op->reduce.is_on && other->reduce.is_on))
        return PL_EMU_NEXT;
    pl_d_async_overlap(pl_async_faults(op), pl_async_where(op), op->kind->name,
                       is_write ? "writes" : "reads", shared_address(r), other->kind->name,
                       other->line);
    return PL_EMU_FAULT;
}

enum pl_emu_status pl_async_check_read(const struct pl_async_op *op, const struct pl_async_range *r)
{
    bool is_masked = op->kind == &pl_async_bulk_store && op->u.bulk.byte_mask != 0xffff;
    if (!is_masked && !pl_emu_shared_is_written(r->cta, r->first, r->end - r->first))
        return (enum pl_emu_status)pl_emu_fault_unwritten(op->w, (uint32_t)__builtin_ctz(op->lanes),
                                                          shared_address(r), r->end - r->first,
                                                          op->kind->name);
    return check_range(op, r, false);
}

enum pl_emu_status pl_async_check_source(const struct pl_async_op *op)
{
    return op->source.cta == NULL || op->is_scattered ? PL_EMU_NEXT
                                                      : pl_async_check_read(op, &op->source);
}

enum pl_emu_status pl_async_check_target(const struct pl_async_op *op)
{
    return op->target.cta == NULL ? PL_EMU_NEXT : check_range(op, &op->target, true);
}

/* ---- generic accesses, from the executors of loads and stores -------------------------------------------------------------- */

static const struct pl_async_bar *find_bar(const struct pl_async_cta *c, uint32_t first,
                                           uint32_t end)
{
    if (first >= c->bars_end || end <= c->bars_first)
        return NULL;
    for (uint32_t i = 0; i < c->n_bars; i++)
        if (c->bars[i].is_live && first < c->bars[i].offset_bytes + PL_MBAR_N_BYTES &&
            c->bars[i].offset_bytes < end)
            return &c->bars[i];
    return NULL;
}

enum pl_emu_status pl_emu_async_on_shared(struct pl_emu_warp *w, struct pl_emu_cta *cta,
                                          uint32_t lane, uint32_t address, uint32_t n_bytes,
                                          bool is_write)
{
    const struct pl_async_cta *c = cta->async;
    if (c == NULL)
        return PL_EMU_NEXT;
    uint32_t offset = pl_emu_shared_offset(cta, address);
    const struct pl_async_bar *bar = find_bar(c, offset, offset + n_bytes);
    if (bar != NULL) {
        pl_d_mbar_touched(pl_emu_faults(w, lane), pl_emu_where(w),
                          is_write ? "store to" : "load from", address, bar->init_line);
        return PL_EMU_FAULT;
    }
    const struct pl_emu_async *a = w->cta->cluster->async;
    if (a->n_pending != 0) {
        struct pl_async_range r = {cta, offset, offset + n_bytes};
        const struct pl_async_op *op = find_conflict(a, &r, is_write);
        if (op != NULL) {
            pl_d_async_touched(pl_emu_faults(w, lane), pl_emu_where(w),
                               is_write ? "store to" : "load from", address, op->kind->name,
                               op->line, is_being_written(op, &r) ? "write" : "read");
            return PL_EMU_FAULT;
        }
    }
    if (is_write)
        pl_async_note_generic(cta, offset, n_bytes, pl_async_thread(w, lane), w->pc->line);
    return PL_EMU_NEXT;
}

/* Lanes of 4, 8 or 16 bytes: the records of their words differ in the thread alone. */
static void note_run(struct pl_emu_warp *w, struct pl_emu_cta *cta, uint32_t offset,
                     uint32_t n_bytes)
{
    struct pl_async_cta *c = cta->async;
    const uint32_t *segments = cta->cluster->async->segments + pl_async_thread(w, 0);
    uint32_t most = (1u << LINE_BITS) - 1, line = w->pc->line < most ? w->pc->line : most;
    uint64_t base = line << THREAD_BITS | pl_async_thread(w, 0);
    uint64_t *out = c->writes + offset / 4;
    for (uint32_t lane = 0; lane < PL_EMU_LANES; lane++)
        for (uint32_t i = 0; i < n_bytes / 4; i++)
            *out++ = ((uint64_t)segments[lane] + 1) << 32 | (base + lane);
}

bool pl_emu_async_on_shared_run(struct pl_emu_warp *w, struct pl_emu_cta *cta, uint32_t address,
                                uint32_t n_bytes, bool is_write)
{
    const struct pl_async_cta *c = cta->async;
    const struct pl_emu_async *a = cta->cluster->async;
    uint32_t offset = pl_emu_shared_offset(cta, address), end = offset + n_bytes * PL_EMU_LANES;
    struct pl_async_range r = {cta, offset, end};
    if (find_bar(c, offset, end) != NULL ||
        (a->n_pending != 0 && find_conflict(a, &r, is_write) != NULL))
        return false;
    if (!is_write || c->writes == NULL)
        return true;
    if (n_bytes < 4)
        return false;
    note_run(w, cta, offset, n_bytes);
    return true;
}

bool pl_emu_async_is_quiet(const struct pl_emu_cta *cta, uint32_t address, uint32_t n_bytes,
                           bool is_write)
{
    uint32_t offset = pl_emu_shared_offset(cta, address);
    struct pl_async_range r = {(struct pl_emu_cta *)(uintptr_t)cta, offset, offset + n_bytes};
    const struct pl_emu_async *a = cta->cluster->async;
    return find_bar(cta->async, r.first, r.end) == NULL &&
           (a->n_pending == 0 || find_conflict(a, &r, is_write) == NULL);
}

void pl_emu_async_note_write(struct pl_emu_warp *w, struct pl_emu_cta *cta, uint32_t lane,
                             uint32_t address, uint32_t n_bytes)
{
    pl_async_note_generic(cta, pl_emu_shared_offset(cta, address), n_bytes,
                          pl_async_thread(w, lane), w->pc->line);
}
