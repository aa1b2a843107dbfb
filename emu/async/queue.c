/*
 * The queue of a cluster and the policies that empty it.
 *
 * late prefers what a sleeping group waits for, so that everything that nobody waits for stays in flight longest; random draws
 * from the cluster's own generator, so a seed gives the same order whatever the number of host threads.
 */
#include "emu/async/state.h"

#include "base/debug.h"
#include "emu/faults.h"
#include "emu/program.h"
#include "emu/race.h"
#include "emu/tmem.h"
#include "jit/ptx/ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    IDLE_TURNS =
        4096, /* after so many rounds without a completion, late finishes one although somebody still runs */
    IDLE_POLLS = 64,   /* the same for a loop around test_wait */
    RANDOM_ONE_IN = 4, /* random: the chance of an operation to finish in a round */
};

/* ---- life ---------------------------------------------------------------------------------------------------------- */

static bool uses_async_proxy(const struct pl_emu_program *p)
{
    for (uint32_t i = 0; i < p->module.ins.n; i++)
        if ((pl_ptx_infos[p->module.ins.data[i].form].flags & PL_PTX_F_PROXY_ASYNC) != 0)
            return true;
    return false;
}

bool pl_emu_async_init(struct pl_emu_cluster *cl)
{
    struct pl_emu_async *a = calloc(1, sizeof *a);
    if (a == NULL)
        return false;
    cl->async = a;
    const struct pl_emu_config *config = pl_emu_device_config(cl->grid->device);
    a->cl = cl;
    a->policy = config->policy;
    a->is_checking = config->check != PL_EMU_CHECK_OFF;
    a->is_strict = config->check == PL_EMU_CHECK_RACE;
    a->has_proxy = uses_async_proxy(cl->grid->program);
    for (uint32_t i = 0; i < cl->n_ctas; i++)
        a->n_cluster_live += cl->ctas[i].n_threads;
    if (!a->has_proxy)
        return true;
    /* Generic writes count from the first instruction on, so the CTAs' state must be there before it. */
    size_t n_threads = (size_t)cl->n_ctas * (PL_ASYNC_THREADS_A_CTA + 1);
    a->segments = calloc(n_threads, sizeof *a->segments);
    a->n_published = calloc(n_threads, sizeof *a->n_published);
    a->n_init_fences = calloc(n_threads, sizeof *a->n_init_fences);
    bool is_complete = a->segments != NULL && a->n_published != NULL && a->n_init_fences != NULL;
    for (uint32_t i = 0; is_complete && i < cl->n_ctas; i++)
        is_complete = pl_async_cta_of(&cl->ctas[i]) != NULL;
    return is_complete;
}

static void free_list(struct pl_async_op *op)
{
    while (op != NULL) {
        struct pl_async_op *next = op->next;
        free(op->held);
        free(op);
        op = next;
    }
}

static void free_cta(struct pl_emu_cta *cta)
{
    struct pl_async_cta *c = cta->async;
    if (c != NULL) {
        free(c->bars);
        free(c->writes);
        free(c->tmem);
        free(c);
    }
    cta->async = NULL;
    for (uint32_t i = 0; i < cta->n_warps; i++) {
        free(cta->warps[i].async);
        cta->warps[i].async = NULL;
    }
}

void pl_emu_async_fini(struct pl_emu_cluster *cl)
{
    struct pl_emu_async *a = cl->async;
    if (a == NULL)
        return;
    for (uint32_t i = 0; i < cl->n_ctas; i++)
        free_cta(&cl->ctas[i]);
    free_list(a->first);
    free_list(a->unused);
    free(a->segments);
    free(a->n_published);
    free(a->n_init_fences);
    free(a->maps);
    free(a);
    cl->async = NULL;
}

struct pl_async_cta *pl_async_cta_of(struct pl_emu_cta *cta)
{
    struct pl_async_cta *c = cta->async;
    if (c != NULL)
        return c;
    c = calloc(1, sizeof *c);
    const struct pl_emu_async *a = cta->cluster->async;
    if (c != NULL && a->is_checking && a->has_proxy) {
        c->writes = calloc(cta->shared.n_bytes / 4 + 1, sizeof *c->writes);
        if (c->writes == NULL) {
            free(c);
            c = NULL;
        }
    }
    cta->async = c;
    return c;
}

struct pl_async_warp *pl_async_warp_of(struct pl_emu_warp *w)
{
    if (w->async == NULL)
        w->async = calloc(1, sizeof(struct pl_async_warp));
    return w->async;
}

enum pl_emu_status pl_async_no_memory(struct pl_emu_warp *w)
{
    pl_d_emu_no_memory(pl_emu_faults(w, pl_emu_first_lane(w)), pl_emu_where(w));
    return PL_EMU_FAULT;
}

/* ---- operations ------------------------------------------------------------------------------------------------------ */

struct pl_where pl_async_where(const struct pl_async_op *op)
{
    return (struct pl_where){.line = (int)op->line};
}

struct pl_diags *pl_async_faults(const struct pl_async_op *op)
{
    return pl_emu_faults(op->w, (uint32_t)__builtin_ctz(op->lanes));
}

struct pl_async_op *pl_async_new(struct pl_emu_warp *w, uint32_t lanes,
                                 const struct pl_async_kind *kind)
{
    struct pl_emu_async *a = w->cta->cluster->async;
    struct pl_async_op *op = a->unused;
    if (op != NULL)
        a->unused = op->next;
    else
        op = calloc(1, sizeof *op);
    if (op == NULL) {
        pl_async_no_memory(w);
        return NULL;
    }
    uint8_t *held = op->held;
    uint32_t held_cap = op->held_cap;
    memset(op, 0, offsetof(struct pl_async_op, u));
    op->held = held;
    op->held_cap = held_cap;
    op->kind = kind;
    op->w = w;
    op->lanes = lanes;
    op->pc = w->pc;
    op->line = w->pc->line;
    op->serial = ++a->n_issued;
    return op;
}

bool pl_async_hold(struct pl_async_op *op, uint32_t n_bytes)
{
    if (n_bytes <= op->held_cap)
        return true;
    uint8_t *p = realloc(op->held, n_bytes);
    if (p == NULL) {
        pl_d_emu_no_memory(pl_async_faults(op), pl_async_where(op));
        return false;
    }
    op->held = p;
    op->held_cap = n_bytes;
    return true;
}

static void unlink_op(struct pl_emu_async *a, struct pl_async_op *op)
{
    *(op->prev != NULL ? &op->prev->next : &a->first) = op->next;
    *(op->next != NULL ? &op->next->prev : &a->last) = op->prev;
    a->n_pending--;
}

static void release(struct pl_emu_async *a, struct pl_async_op *op)
{
    op->next = a->unused;
    a->unused = op;
}

void pl_async_drop(struct pl_async_op *op) { release(op->w->cta->cluster->async, op); }

/* Faults of an operation name the instruction that issued it, whatever its warp runs now. */
static enum pl_emu_status run_as_issuer(struct pl_async_op *op,
                                        enum pl_emu_status (*f)(struct pl_async_op *))
{
    const struct pl_emu_ins *pc = op->w->pc;
    op->w->pc = op->pc;
    enum pl_emu_status s = f(op);
    op->w->pc = pc;
    return s;
}

enum pl_emu_status pl_async_read(struct pl_async_op *op)
{
    if (op->stage == PL_ASYNC_HAS_READ || op->kind->read == NULL)
        return PL_EMU_NEXT;
    op->stage = PL_ASYNC_HAS_READ;
    return run_as_issuer(op, op->kind->read);
}

/* What a generic-proxy store to a peer wrote needs a fence by some thread of that peer before its async proxy sees it. */
static void note_target(const struct pl_async_op *op)
{
    const struct pl_async_range *r = &op->target;
    if (op->is_generic_proxy)
        pl_async_note_generic(r->cta, r->first, r->end - r->first, pl_async_any_thread(r->cta),
                              op->line);
    else
        pl_async_note_written(*r);
}

enum pl_emu_status pl_async_finish(struct pl_async_op *op)
{
    struct pl_emu_async *a = op->w->cta->cluster->async;
    enum pl_emu_status s = pl_async_read(op);
    /* Out of the queue first: what the write does (a signal, a nested check) must not see it in flight. */
    unlink_op(a, op);
    if (s == PL_EMU_NEXT)
        s = run_as_issuer(op, op->kind->write);
    if (s == PL_EMU_NEXT && op->target.cta != NULL)
        note_target(op);
    if (s == PL_EMU_NEXT && op->has_signal && op->signal_bytes != 0)
        s = pl_async_signal_tx(op);
    a->n_changes++;
    a->n_idle = 0;
    release(a, op);
    return s;
}

enum pl_emu_status pl_async_submit(struct pl_async_op *op)
{
    struct pl_emu_async *a = op->w->cta->cluster->async;
    if (pl_race_is_on(op->w) && pl_race_submit(op) != PL_EMU_NEXT) {
        release(a, op);
        return PL_EMU_FAULT;
    }
    if (a->is_checking &&
        (pl_async_check_source(op) != PL_EMU_NEXT || pl_async_check_target(op) != PL_EMU_NEXT)) {
        release(a, op);
        return PL_EMU_FAULT;
    }
    op->prev = a->last;
    op->next = NULL;
    *(a->last != NULL ? &a->last->next : &a->first) = op;
    a->last = op;
    a->n_pending++;
    return a->policy == PL_EMU_ASYNC_EAGER ? pl_async_finish(op) : PL_EMU_NEXT;
}

/* ---- waits of the issuer ------------------------------------------------------------------------------------------------ */

static bool is_in_groups(const struct pl_async_op *op, const struct pl_emu_warp *w, uint32_t lane,
                         uint32_t owner, uint32_t end)
{
    return op->w == w && op->owner == owner && (op->lanes >> lane & 1) != 0 && op->group < end;
}

enum pl_emu_status pl_async_wait_groups(struct pl_emu_warp *w, uint32_t lane,
                                        enum pl_async_owner owner, uint32_t end, bool is_read)
{
    struct pl_emu_async *a = w->cta->cluster->async;
    enum pl_emu_status s = PL_EMU_NEXT;
    for (struct pl_async_op *op = a->first, *next; op != NULL && s == PL_EMU_NEXT; op = next) {
        next = op->next;
        if (is_in_groups(op, w, lane, owner, end))
            s = is_read ? pl_async_read(op) : pl_async_finish(op);
    }
    return s;
}

/* ---- policies ------------------------------------------------------------------------------------------------------------ */

static uint64_t draw(struct pl_emu_cluster *cl) /* xorshift64*; emu/sched.c seeds it */
{
    uint64_t x = cl->rng != 0 ? cl->rng : 1;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    cl->rng = x;
    return x * UINT64_C(0x2545f4914f6cdd1d);
}

static bool signals(const struct pl_async_op *op, struct pl_async_place bar)
{
    return op->has_signal && op->signal.cta == bar.cta &&
           op->signal.offset_bytes == bar.offset_bytes;
}

enum pl_emu_status pl_async_poke(struct pl_emu_cluster *cl, struct pl_async_place bar)
{
    struct pl_emu_async *a = cl->async;
    if (a->n_pending == 0 || ++a->n_idle < IDLE_POLLS)
        return PL_EMU_NEXT;
    for (struct pl_async_op *op = a->first; op != NULL; op = op->next)
        if (signals(op, bar))
            return pl_async_finish(op);
    return PL_EMU_NEXT;
}

static enum pl_emu_status step_random(struct pl_emu_async *a)
{
    enum pl_emu_status s = PL_EMU_NEXT;
    for (struct pl_async_op *op = a->first, *next; op != NULL && s == PL_EMU_NEXT; op = next) {
        next = op->next;
        uint64_t r = draw(a->cl);
        if (r % RANDOM_ONE_IN == 0)
            s = r / RANDOM_ONE_IN % 2 == 0 && op->kind->read != NULL && op->stage == PL_ASYNC_ISSUED
                    ? pl_async_read(op)
                    : pl_async_finish(op);
    }
    return s;
}

enum pl_emu_status pl_emu_async_step(struct pl_emu_cluster *cl)
{
    struct pl_emu_async *a = cl->async;
    if (a->n_pending == 0)
        return PL_EMU_NEXT;
    if (a->policy == PL_EMU_ASYNC_RANDOM)
        return step_random(a);
    if (++a->n_idle < IDLE_TURNS)
        return PL_EMU_NEXT;
    return pl_async_finish(a->first);
}

/* A pending operation that signals the barrier some group sleeps on, or NULL. */
static struct pl_async_op *find_awaited(struct pl_emu_async *a)
{
    for (struct pl_async_op *op = a->first; op != NULL; op = op->next) {
        if (!op->has_signal)
            continue;
        for (uint32_t c = 0; c < a->cl->n_ctas; c++)
            for (uint32_t i = 0; i < a->cl->ctas[c].n_warps; i++) {
                const struct pl_emu_warp *w = &a->cl->ctas[c].warps[i];
                for (uint32_t g = 0; g < PL_EMU_LANES; g++)
                    if (w->groups[g].state == PL_EMU_GROUP_BLOCKED &&
                        w->groups[g].wait.where == op->signal.cta &&
                        w->groups[g].wait.a == op->signal.offset_bytes)
                        return op;
            }
    }
    return NULL;
}

static struct pl_async_op *pick(struct pl_emu_async *a)
{
    struct pl_async_op *op = find_awaited(a);
    if (op != NULL && a->policy != PL_EMU_ASYNC_RANDOM)
        return op;
    op = a->first;
    if (a->policy == PL_EMU_ASYNC_RANDOM)
        for (uint64_t n = draw(a->cl) % a->n_pending; n > 0; n--)
            op = op->next;
    return op;
}

/* Everybody sleeps and nothing is in flight. A try_wait may also end in false after a time, so each gets one such ending
 * since the last change of any barrier; a program that comes back to the same wait is stuck. */
static bool time_out(struct pl_emu_async *a)
{
    bool has_woken = false;
    for (uint32_t c = 0; c < a->cl->n_ctas; c++)
        for (uint32_t i = 0; i < a->cl->ctas[c].n_warps; i++)
            has_woken |= pl_async_time_out(&a->cl->ctas[c].warps[i]);
    return has_woken;
}

enum pl_emu_status pl_emu_async_force(struct pl_emu_cluster *cl)
{
    struct pl_emu_async *a = cl->async;
    if (a->n_pending != 0)
        return pl_async_finish(pick(a));
    return time_out(a) ? PL_EMU_NEXT : PL_EMU_BLOCKED;
}

/* ---- ends ------------------------------------------------------------------------------------------------------------------ */

static bool touches(const struct pl_async_range *r, const struct pl_emu_cta *cta)
{
    return r->cta == cta;
}

/* What the CTA's own copies still read stays until they have: CUTLASS's GEMM for sm_100 exits so where beta is 0. */
static enum pl_emu_status check_exit_in_flight(struct pl_emu_cta *cta)
{
    const struct pl_emu_async *a = cta->cluster->async;
    for (struct pl_async_op *op = a->first; op != NULL; op = op->next) {
        bool is_borne = !a->is_strict && op->w->cta == cta && op->owner == PL_ASYNC_BY_BULK;
        if (!is_borne && (touches(&op->source, cta) || touches(&op->source2, cta)) &&
            op->stage == PL_ASYNC_ISSUED) {
            pl_d_async_exit_reading(pl_async_faults(op), pl_async_where(op), op->kind->name);
            return PL_EMU_FAULT;
        }
        if (touches(&op->target, cta) || (op->has_signal && op->signal.cta == cta)) {
            pl_d_async_exit_writing(pl_async_faults(op), pl_async_where(op), op->kind->name);
            return PL_EMU_FAULT;
        }
    }
    return PL_EMU_NEXT;
}

static enum pl_emu_status check_exit_unwaited(struct pl_emu_cta *cta)
{
    for (uint32_t i = 0; i < cta->n_warps; i++) {
        const struct pl_async_warp *t = cta->warps[i].async;
        if (t != NULL && t->has_source != 0) {
            uint32_t lane = (uint32_t)__builtin_ctz(t->has_source);
            pl_d_async_exit_unwaited(pl_emu_faults(&cta->warps[i], lane),
                                     pl_emu_where(&cta->warps[i]), i * 32 + lane);
            return PL_EMU_FAULT;
        }
    }
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_async_on_cta_exit(struct pl_emu_cta *cta)
{
    struct pl_emu_async *a = cta->cluster->async;
    enum pl_emu_status s = PL_EMU_NEXT;
    if (a->is_checking) {
        s = pl_tmem_check_exit(cta);
        if (s == PL_EMU_NEXT)
            s = a->is_strict ? check_exit_unwaited(cta) : PL_EMU_NEXT;
        if (s == PL_EMU_NEXT)
            s = check_exit_in_flight(cta);
    }
    /* What is left of this CTA's work touches device memory or peers only; it ends with the CTA at the latest. */
    for (struct pl_async_op *op = a->first, *next; op != NULL && s == PL_EMU_NEXT; op = next) {
        next = op->next;
        if (op->w->cta == cta)
            s = pl_async_finish(op);
    }
    return s;
}

/* ---- report ------------------------------------------------------------------------------------------------------------------ */

static void describe_cta(const struct pl_emu_cta *cta, char *text, size_t n_bytes)
{
    const struct pl_async_cta *c = cta->async;
    for (uint32_t i = 0; c != NULL && i < c->n_bars; i++) {
        struct pl_async_place p = {(struct pl_emu_cta *)(uintptr_t)cta, c->bars[i].offset_bytes};
        if (!c->bars[i].is_live)
            continue;
        struct pl_mbar b = pl_async_bar_get(p);
        if (b.pending == b.expected && b.tx == 0)
            continue; /* nothing has begun in this phase */
        size_t n = strlen(text);
        if (n + 1 < n_bytes) {
            pl_async_bar_describe(p, text + n, n_bytes - n);
            n = strlen(text);
            snprintf(text + n, n_bytes - n, "\n");
        }
    }
}

void pl_emu_async_describe(struct pl_emu_cluster *cl, char *text, size_t n_bytes)
{
    struct pl_emu_async *a = cl->async;
    text[0] = 0;
    for (uint32_t i = 0; i < cl->n_ctas; i++)
        describe_cta(&cl->ctas[i], text, n_bytes);
    for (struct pl_async_op *op = a->first; op != NULL; op = op->next) {
        size_t n = strlen(text);
        snprintf(text + n, n_bytes - n, "in flight: %s of line %u (CTA %u, warp %u, lane %d)\n",
                 op->kind->name, op->line, op->w->cta->rank, op->w->index,
                 __builtin_ctz(op->lanes));
    }
}
