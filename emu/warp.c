#include "emu/warp.h"

#include "base/debug.h"
#include "base/diag.h"
#include "base/hash.h"
#include "emu/async.h"
#include "emu/barrier.h"
#include "emu/faults.h"
#include "emu/program.h"
#include "emu/race.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- joins and frames: small free lists, emptied when the warp's storage goes ------------------------------------------- */

static struct pl_emu_join *new_join(struct pl_emu_warp *w)
{
    struct pl_emu_join *j = w->free_joins;
    if (j != NULL) {
        w->free_joins = j->parent;
        return j;
    }
    j = malloc(sizeof *j);
    if (j == NULL)
        return NULL;
    j->next = w->all_joins;
    w->all_joins = j;
    return j;
}

static void free_join(struct pl_emu_warp *w, struct pl_emu_join *j)
{
    j->members = j->waiting = 0;
    j->parent = w->free_joins;
    w->free_joins = j;
}

static struct pl_emu_frame *make_frame(struct pl_emu_warp *w, const struct pl_emu_func *func)
{
    struct pl_emu_frame *f = calloc(1, sizeof *f);
    if (f == NULL)
        return NULL;
    f->func = func;
    f->regs = aligned_alloc(64, func->frame_bytes);
    if (f->regs == NULL) {
        free(f);
        return NULL;
    }
    f->next = w->all_frames;
    w->all_frames = f;
    return f;
}

static struct pl_emu_frame *new_frame(struct pl_emu_warp *w, const struct pl_emu_func *func)
{
    for (struct pl_emu_frame **at = &w->free_frames; *at != NULL; at = &(*at)->caller)
        if ((*at)->func == func) {
            struct pl_emu_frame *f = *at;
            *at = f->caller;
            return f;
        }
    return make_frame(w, func);
}

void pl_emu_frame_release(struct pl_emu_warp *w, struct pl_emu_frame *f)
{
    if (--f->n_holders != 0)
        return;
    f->caller = w->free_frames;
    w->free_frames = f;
}

/* Registers are undefined at first in PTX; zeros make a program that reads one do the same every time. */
static void reset_frame(struct pl_emu_frame *f, uint32_t local_base_bytes)
{
    memset(f->regs, 0, f->func->frame_bytes);
    f->local_base_bytes = local_base_bytes;
    f->alloca_bytes = 0;
    if (f->func->uses_local_base) {
        uint32_t *lanes = (uint32_t *)(void *)(f->regs + f->func->local_base);
        for (int i = 0; i < PL_EMU_LANES; i++)
            lanes[i] = local_base_bytes;
    }
}

/*
 * Lanes that wait where a split warp meets could wait for ever when the others spin on something only they can do (a lock
 * that one of them holds). After so many instructions of the warp it is looked whether a group spins: whether it comes to
 * the same place with the same registers again. Then the parked lanes go on alone, and after many more in any case.
 */
enum { MOST_PATIENCE = 20000, LEAST_PATIENCE = 300, LONGEST_SPIN = 4096 };
#define END_OF_PATIENCE ((uint64_t)1 << 23)

bool pl_emu_warp_start(struct pl_emu_warp *w, const struct pl_emu_func *entry, uint32_t existing)
{
    if (w->entry == NULL)
        w->entry = make_frame(w, entry);
    if (w->entry == NULL)
        return false;
    reset_frame(w->entry, PL_EMU_LOCAL_BASE);
    w->existing = w->live = existing;
    w->cc = 0;
    w->n_groups = 1;
    w->turn = 0;
    w->n_parked = 0;
    w->is_watched = false;
    w->n_unmet = 0;
    w->n_parked_steps = 0;
    w->patience = MOST_PATIENCE;
    w->is_loose = false;
    w->watch.group = NULL;
    w->groups[0] = (struct pl_emu_group){
        .pc = entry->code, .mask = existing, .state = PL_EMU_GROUP_READY, .frame = w->entry};
    w->group = &w->groups[0];
    return true;
}

void pl_emu_warp_fini(struct pl_emu_warp *w)
{
    for (struct pl_emu_join *j = w->all_joins, *next; j != NULL; j = next) {
        next = j->next;
        free(j);
    }
    for (struct pl_emu_frame *f = w->all_frames, *next; f != NULL; f = next) {
        next = f->next;
        free(f->regs);
        free(f);
    }
    w->all_joins = w->free_joins = NULL;
    w->all_frames = w->free_frames = w->entry = NULL;
}

/* ---- groups ------------------------------------------------------------------------------------------------------------------- */

static struct pl_emu_group *new_group(struct pl_emu_warp *w)
{
    for (int i = 0; i < PL_EMU_LANES; i++)
        if (w->groups[i].state == PL_EMU_GROUP_FREE) {
            w->n_groups++;
            return &w->groups[i];
        }
    PL_ASSERT(0 && "more groups than lanes");
    return NULL;
}

static void end_group(struct pl_emu_warp *w, struct pl_emu_group *g)
{
    g->state = PL_EMU_GROUP_FREE;
    w->n_groups--;
}

bool pl_emu_group_split(struct pl_emu_warp *w, uint32_t lanes, const struct pl_emu_ins *pc,
                        const struct pl_emu_ins *meet)
{
    struct pl_emu_group *g = w->group;
    bool is_outer = g->join != NULL && g->join->pc == meet && g->join->frame == g->frame;
    if (meet != NULL && !is_outer) {
        struct pl_emu_join *j = new_join(w);
        if (j == NULL) {
            pl_d_emu_no_memory(pl_emu_faults(w, pl_emu_first_lane(w)), pl_emu_where(w));
            return false;
        }
        *j = (struct pl_emu_join){
            .next = j->next, .pc = meet, .frame = g->frame, .parent = g->join, .members = g->mask};
        g->join = j;
    }
    struct pl_emu_group *other = new_group(w);
    *other = (struct pl_emu_group){
        .pc = pc, .mask = lanes, .state = PL_EMU_GROUP_READY, .frame = g->frame, .join = g->join};
    g->mask &= ~lanes;
    return true;
}

/* All members of a join are there: group g (current or fresh) goes on from it. */
static void resume(struct pl_emu_warp *w, struct pl_emu_group *g, struct pl_emu_join *j)
{
    struct pl_emu_frame *f = j->frame;
    w->n_parked -= (uint32_t)__builtin_popcount(j->waiting);
    if (w->n_parked ==
        0) { /* else an outer join still waits, perhaps for lanes that spin through this one */
        w->n_unmet = 0;
        w->n_parked_steps = 0;
    }
    *g = (struct pl_emu_group){.pc = j->pc,
                               .mask = j->waiting,
                               .state = PL_EMU_GROUP_READY,
                               .frame = f,
                               .join = j->parent};
    if (j->pc == NULL) { /* a return: the call is executed once more, to fetch the results */
        g->pc = f->return_to;
        g->frame = f->caller;
        g->returned = f;
    }
    free_join(w, j);
}

/* The lanes that wait at a join go on without the others. */
static void let_go(struct pl_emu_warp *w, struct pl_emu_join *j)
{
    struct pl_emu_group *g = new_group(w);
    struct pl_emu_frame *f = j->frame;
    *g = (struct pl_emu_group){.pc = j->pc,
                               .mask = j->waiting,
                               .state = PL_EMU_GROUP_READY,
                               .frame = f,
                               .join = j->parent};
    if (j->pc == NULL) {
        g->pc = f->return_to;
        g->frame = f->caller;
        g->returned = f;
        f->n_holders++;
    }
    w->n_parked -= (uint32_t)__builtin_popcount(j->waiting);
    j->members &= ~j->waiting;
    j->waiting = 0;
}

bool pl_emu_warp_let_go(struct pl_emu_warp *w)
{
    if (w->n_parked == 0)
        return false;
    for (struct pl_emu_join *j = w->all_joins; j != NULL; j = j->next)
        if (j->members != 0 && j->waiting != 0)
            let_go(w, j);
    w->is_loose = true;
    w->n_unmet = 0;
    w->watch.group = NULL;
    w->n_parked_steps = 0;
    w->patience = w->patience / 8 < LEAST_PATIENCE ? LEAST_PATIENCE : w->patience / 8;
    return true;
}

void pl_emu_group_arrive(struct pl_emu_warp *w)
{
    struct pl_emu_group *g = w->group;
    struct pl_emu_join *j = g->join;
    j->waiting |= g->mask;
    w->n_parked += (uint32_t)__builtin_popcount(g->mask);
    if (j->waiting == j->members)
        resume(w, g, j);
    else
        end_group(w, g);
}

/* Take exited lanes out of every join they belong to; a join whose other members all wait lets them go. */
static void leave_joins(struct pl_emu_warp *w, struct pl_emu_join *j, uint32_t lanes)
{
    bool is_inner = true; /* no join nearer to the lanes has members left */
    while (j != NULL) {
        struct pl_emu_join *parent = j->parent;
        j->members &= ~lanes;
        if (j->members == 0) {
            if (j->pc == NULL)
                pl_emu_frame_release(w, j->frame);
            free_join(w, j);
        } else {
            if (is_inner && j->waiting == j->members)
                resume(w, new_group(w), j);
            is_inner = false;
        }
        j = parent;
    }
}

enum pl_emu_status pl_emu_group_exit(struct pl_emu_warp *w, uint32_t lanes)
{
    struct pl_emu_group *g = w->group;
    struct pl_emu_cta *cta = w->cta;
    w->live &= ~lanes;
    cta->n_live -= (uint32_t)__builtin_popcount(lanes);
    g->mask &= ~lanes;
    if (g->mask == 0)
        end_group(w, g);
    else
        g->pc++;
    leave_joins(w, g->join, lanes);
    enum pl_emu_status s = pl_emu_async_on_exit(w, lanes);
    if (s == PL_EMU_FAULT)
        return s;
    pl_emu_barriers_on_exit(cta);
    return PL_EMU_JUMP;
}

static bool poll_converged(struct pl_emu_warp *w, struct pl_emu_group *g);

static uint32_t came_together(const struct pl_emu_warp *w, const struct pl_emu_group *g)
{
    uint32_t lanes = g->mask;
    for (int i = 0; i < PL_EMU_LANES; i++) {
        const struct pl_emu_group *o = &w->groups[i];
        if (o != g && o->state == PL_EMU_GROUP_BLOCKED && o->wait.poll == poll_converged &&
            o->pc == g->pc && o->frame == g->frame && o->join == g->join)
            lanes |= o->mask;
    }
    return lanes;
}

/*
 * The rest will never come here: lanes wait for group g at a join, or at another instruction for the whole warp. As long as
 * neither holds, they may still come, or exit: PTX ISA, "barrier": a thread waits for all non-exited threads of its warp, and so
 * does a warp of an early return in one lane of a branch.
 */
static bool is_split_for_good(const struct pl_emu_warp *w, const struct pl_emu_group *g)
{
    for (const struct pl_emu_join *j = g->join; j != NULL; j = j->parent)
        if (j->waiting != 0)
            return true;
    for (int i = 0; i < PL_EMU_LANES; i++) {
        const struct pl_emu_group *o = &w->groups[i];
        if (o != g && o->state == PL_EMU_GROUP_BLOCKED && o->wait.poll == poll_converged &&
            !(o->pc == g->pc && o->frame == g->frame && o->join == g->join))
            return true;
    }
    return false;
}

static bool poll_converged(struct pl_emu_warp *w, struct pl_emu_group *g)
{
    return came_together(w, g) == w->live || (!w->is_loose && is_split_for_good(w, g));
}

/* The lanes that are not here may still come, or exit: worth waiting for. */
static bool may_converge(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    struct pl_emu_group *g = w->group;
    g->pc = ins;
    return w->mask == g->mask && (w->is_loose || !is_split_for_good(w, g));
}

static void describe_converged(struct pl_emu_warp *w, struct pl_emu_group *g, char *text,
                               size_t n_bytes)
{
    snprintf(text, n_bytes, "an instruction for the whole warp: lanes 0x%08x have not come",
             w->live & ~came_together(w, g));
}

enum pl_emu_status pl_emu_group_converge(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    struct pl_emu_group *g = w->group;
    if (w->mask == w->live)
        return PL_EMU_NEXT;
    if (!may_converge(w, ins)) {
        pl_d_emu_not_converged(pl_emu_faults(w, pl_emu_first_lane(w)), pl_emu_where(w),
                               pl_ptx_infos[ins->ptx->form].mnemonic, w->mask, w->live);
        return PL_EMU_FAULT;
    }
    if (came_together(w, g) != w->live) {
        g->wait = (struct pl_emu_wait){.poll = poll_converged, .describe = describe_converged};
        return PL_EMU_BLOCKED;
    }
    for (int i = 0; i < PL_EMU_LANES; i++)
        if (&w->groups[i] != g && w->groups[i].state != PL_EMU_GROUP_FREE)
            end_group(w, &w->groups[i]);
    g->mask = w->live;
    g->state = PL_EMU_GROUP_READY;
    return PL_EMU_JUMP; /* execute it again, whole */
}

/*
 * An instruction for the whole warp, and not all lanes are here. Barriers ask for non-exited threads only; for the others the
 * behaviour is undefined if any thread in the warp has exited (PTX ISA: mma, ldmatrix, stmatrix, tcgen05.alloc, tcgen05.ld,
 * tcgen05.st).
 */
static enum pl_emu_status exec_in_part(struct pl_emu_warp *w, const struct pl_emu_ins *i)
{
    if (w->mask != w->live && may_converge(w, i))
        return pl_emu_group_converge(w, i);
    if (i->is_barrier)
        return i->exec(w, i);
    pl_d_emu_not_converged(pl_emu_faults(w, pl_emu_first_lane(w)), pl_emu_where(w),
                           pl_ptx_infos[i->ptx->form].mnemonic, w->mask, w->existing);
    return PL_EMU_FAULT;
}

bool pl_emu_group_enter(struct pl_emu_warp *w, const struct pl_emu_func *func,
                        const struct pl_emu_ins *from)
{
    struct pl_emu_group *g = w->group;
    uint32_t base =
        g->frame->local_base_bytes + g->frame->func->local_bytes + g->frame->alloca_bytes;
    if (base + func->local_bytes > w->cta->cluster->local_stride_bytes) {
        pl_d_emu_stack_overflow(pl_emu_faults(w, pl_emu_first_lane(w)), pl_emu_where(w),
                                func->info.name, w->cta->cluster->local_stride_bytes);
        return false;
    }
    struct pl_emu_join *j = new_join(w);
    struct pl_emu_frame *f = new_frame(w, func);
    if (j == NULL || f == NULL) {
        pl_d_emu_no_memory(pl_emu_faults(w, pl_emu_first_lane(w)), pl_emu_where(w));
        return false;
    }
    reset_frame(f, base);
    f->caller = g->frame;
    f->return_to = from;
    f->n_holders = 1;
    *j = (struct pl_emu_join){.next = j->next, .frame = f, .parent = g->join, .members = g->mask};
    g->join = j;
    g->frame = f;
    g->pc = func->code;
    g->stage = 0;
    return true;
}

/* ---- the loop -------------------------------------------------------------------------------------------------------------------- */

static enum pl_emu_status branch(struct pl_emu_warp *w, const struct pl_emu_ins *i, uint32_t taken)
{
    const struct pl_emu_branch *b = i->extra;
    w->pc = i;
    w->mask = taken;
    w->group->pc = i + 1;
    return pl_emu_group_split(w, taken, b->target, b->meet) ? PL_EMU_JUMP : PL_EMU_FAULT;
}

struct tally {
    uint64_t n_done, n_lanes;
};

static inline void run_opx(struct pl_emu_warp *w, const struct pl_emu_ins *i, uint32_t mask,
                           struct pl_emu_opx *x)
{
    x->imm = i->imm;
    x->d2 = w->bank[PL_EMU_BANK_FRAME] + i->d2;
    x->e = w->bank[i->e_bank] + i->e;
    x->f = w->bank[i->f_bank] + i->f;
    (mask == PL_EMU_ALL_LANES ? i->full : i->masked)(
        w->bank[i->d_bank] + i->d, w->bank[i->a_bank] + i->a, w->bank[i->b_bank] + i->b,
        w->bank[i->c_bank] + i->c, mask, x);
}

/* Execute the current group until its budget is used, it sleeps or ends. */
static enum pl_emu_status run(struct pl_emu_warp *w, uint32_t n_max, struct tally *t)
{
    struct pl_emu_group *g = w->group;
    const struct pl_emu_ins *i = g->pc;
    uint32_t active = g->mask;
    uint64_t n_done = 0, n_lanes = 0;
    struct pl_emu_opx x = {.cc = &w->cc};
    enum pl_emu_status status = PL_EMU_NEXT;
    w->bank[PL_EMU_BANK_FRAME] = g->frame->regs;
    while (n_done < n_max) {
        uint32_t mask = active;
        if (i->has_guard) {
            uint32_t p = *(const uint32_t *)(const void *)(w->bank[PL_EMU_BANK_FRAME] +
                                                           i->guard_offset_bytes);
            mask &= i->is_guard_negated ? ~p : p;
            if (mask == 0) {
                i++;
                n_done++;
                continue;
            }
        }
        switch ((enum pl_emu_kind)i->kind) {
        case PL_EMU_KIND_OP:
            x.imm = i->imm;
            (mask == PL_EMU_ALL_LANES ? i->full : i->masked)(
                w->bank[i->d_bank] + i->d, w->bank[i->a_bank] + i->a, w->bank[i->b_bank] + i->b,
                w->bank[i->c_bank] + i->c, mask, &x);
            i++;
            break;
        case PL_EMU_KIND_OPX:
            run_opx(w, i, mask, &x);
            i++;
            break;
        case PL_EMU_KIND_BRA:
            if (mask == active) {
                i = ((const struct pl_emu_branch *)i->extra)->target;
                break;
            }
            status = branch(w, i, mask);
            if (status == PL_EMU_FAULT)
                goto out;
            i = g->pc;
            active = g->mask;
            break;
        case PL_EMU_KIND_JOIN:
            if (g->join == NULL || g->join->pc != i || g->join->frame != g->frame) {
                i++;
                continue;
            }
            w->pc = i;
            w->mask = mask;
            pl_emu_group_arrive(w);
            if (g->state != PL_EMU_GROUP_READY)
                goto out;
            i = g->pc;
            active = g->mask;
            continue;
        case PL_EMU_KIND_EXEC:
            g->pc = i;
            w->pc = i;
            w->mask = mask;
            status = i->is_for_warp && mask != w->existing ? exec_in_part(w, i) : i->exec(w, i);
            if (status == PL_EMU_NEXT) {
                g->stage = 0;
                i++;
                break;
            }
            if (status == PL_EMU_JUMP) {
                n_done++;
                n_lanes += (unsigned)__builtin_popcount(mask);
                g = w->group;
                if (g->state != PL_EMU_GROUP_READY)
                    goto out;
                i = g->pc;
                active = g->mask;
                w->bank[PL_EMU_BANK_FRAME] = g->frame->regs;
                continue;
            }
            if (status == PL_EMU_YIELD) {
                g->stage = 0;
                i++;
                n_done++;
            } else if (status == PL_EMU_BLOCKED) {
                g->state = PL_EMU_GROUP_BLOCKED;
            }
            g->pc = i;
            goto out;
        }
        n_done++;
        n_lanes += mask == PL_EMU_ALL_LANES ? 32u : (unsigned)__builtin_popcount(mask);
    }
    g->pc = i;
out:
    t->n_done += n_done;
    t->n_lanes += n_lanes;
    return status;
}

/* The next group that can run, or NULL. */
static struct pl_emu_group *pick(struct pl_emu_warp *w)
{
    struct pl_emu_group *only = &w->groups[w->turn];
    if (w->n_groups == 1 && only->state == PL_EMU_GROUP_READY)
        return only;
    if (w->n_groups == 1 && only->state == PL_EMU_GROUP_BLOCKED && only->wait.poll != NULL &&
        !only->wait.is_expired && !only->wait.poll(w, only))
        return NULL;
    for (uint32_t k = 1; k <= PL_EMU_LANES; k++) {
        uint32_t at = (w->turn + k) % PL_EMU_LANES;
        struct pl_emu_group *g = &w->groups[at];
        if (g->state == PL_EMU_GROUP_FREE)
            continue;
        if (g->state == PL_EMU_GROUP_BLOCKED && !g->wait.is_expired && g->wait.poll != NULL &&
            !g->wait.poll(w, g))
            continue;
        w->turn = at;
        g->state = PL_EMU_GROUP_READY;
        return g;
    }
    return NULL;
}

/* ---- parked lanes -------------------------------------------------------------------------------------------------------- */

static uint64_t registers_of(const struct pl_emu_group *g)
{
    return pl_hash64(g->frame->regs, g->frame->func->frame_bytes, 0);
}

static void start_watch(struct pl_emu_warp *w, const struct pl_emu_group *g)
{
    if (g->state != PL_EMU_GROUP_READY)
        return;
    w->watch = (struct pl_emu_watch){.group = g,
                                     .pc = g->pc,
                                     .frame = g->frame,
                                     .state = registers_of(g),
                                     .n_left = LONGEST_SPIN};
}

/* The watched group has executed one instruction. */
static void look(struct pl_emu_warp *w)
{
    struct pl_emu_watch *v = &w->watch;
    bool is_back = v->group->pc == v->pc && v->group->frame == v->frame;
    if (is_back && registers_of(v->group) == v->state) {
        pl_emu_warp_let_go(w);
    } else if (is_back || v->group->state == PL_EMU_GROUP_FREE || --v->n_left == 0) {
        v->group = NULL;
        w->n_unmet -= w->n_unmet < w->patience ? w->n_unmet : w->patience;
    }
}

/* While groups are split they take short turns, so that they meet again soon and spinning ones let the others on. */
enum { SPLIT_SLICE = 48 };

static uint32_t slice(const struct pl_emu_warp *w, const struct pl_emu_group *g, uint32_t n_left)
{
    if (w->is_watched)
        return 1;
    if (w->n_groups == 1 && w->n_parked == 0)
        return n_left;
    uint32_t n = w->watch.group == g ? 1 : SPLIT_SLICE;
    return n < n_left ? n : n_left;
}

enum pl_emu_turn pl_emu_warp_turn(struct pl_emu_warp *w, uint32_t n_max)
{
    struct tally t = {0};
    enum pl_emu_status s = PL_EMU_NEXT;
    for (int n_tries = 0; n_tries < 2 * PL_EMU_LANES && t.n_done < n_max; n_tries++) {
        struct pl_emu_group *g = pick(w);
        if (g == NULL)
            break;
        w->group = g;
        uint64_t before = t.n_done;
        if (w->is_watched && (s = pl_race_registers(w, g)) == PL_EMU_FAULT)
            break;
        s = run(w, slice(w, g, n_max - (uint32_t)t.n_done), &t);
        if (s == PL_EMU_FAULT)
            break;
        w->n_unmet += w->n_parked != 0 ? t.n_done - before : 0;
        if (w->watch.group == g)
            look(w);
        else if (w->n_unmet > w->patience && w->watch.group == NULL)
            start_watch(w, g);
        if (s == PL_EMU_YIELD || (s == PL_EMU_BLOCKED && w->n_groups == 1))
            break;
    }
    struct pl_emu_cluster *cl = w->cta->cluster;
    cl->n_steps += t.n_done;
    cl->n_instructions += t.n_done;
    cl->n_lane_ops += t.n_lanes;
    if (s == PL_EMU_FAULT)
        return PL_EMU_TURN_FAULT;
    w->n_parked_steps = w->n_parked != 0 ? w->n_parked_steps + t.n_done : 0;
    if (w->n_parked_steps > END_OF_PATIENCE)
        pl_emu_warp_let_go(w);
    return t.n_done != 0 ? PL_EMU_TURN_RAN : PL_EMU_TURN_IDLE;
}
