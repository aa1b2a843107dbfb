/* PTX ISA, "Control Flow Instructions" and "Miscellaneous Instructions". bra is in the interpreter's loop (emu/warp.c). */
#include "emu/exec/control.h"

#include "base/debug.h"
#include "base/diag.h"
#include "emu/builtin.h"
#include "emu/faults.h"
#include "emu/program.h"
#include "emu/warp.h"

#include <string.h>

enum pl_emu_status pl_emu_exec_nothing(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    (void)w, (void)ins;
    return PL_EMU_NEXT;
}

/* A policy is opaque and only a hint; any value serves. */
enum pl_emu_status pl_emu_exec_createpolicy(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    PL_EMU_FOR_LANES (lane, w->mask)
        pl_emu_set_lane(w, &ins->args[0], lane, 0);
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_exit(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    (void)ins;
    return pl_emu_group_exit(w, w->mask);
}

enum pl_emu_status pl_emu_exec_trap(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    (void)ins;
    pl_d_emu_trap(pl_emu_faults(w, pl_emu_first_lane(w)), pl_emu_where(w));
    return PL_EMU_FAULT;
}

enum pl_emu_status pl_emu_exec_nanosleep(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    (void)w, (void)ins;
    return PL_EMU_YIELD;
}

/* Lanes whose guard is false go on behind the instruction; the others are the group from here on. */
static bool drop_unguarded(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                           const struct pl_emu_ins *meet)
{
    uint32_t rest = w->group->mask & ~w->mask;
    return rest == 0 || pl_emu_group_split(w, rest, ins + 1, meet);
}

enum pl_emu_status pl_emu_exec_ret(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    struct pl_emu_group *g = w->group;
    if (g->frame->caller == NULL)
        return pl_emu_group_exit(w, w->mask);
    if (!drop_unguarded(w, ins, NULL))
        return PL_EMU_FAULT;
    PL_ASSERT(g->join != NULL && g->join->pc == NULL && g->join->frame == g->frame);
    pl_emu_group_arrive(w);
    return PL_EMU_JUMP;
}

/* ---- brx.idx: one target after the other splits off ----------------------------------------------------------------------------------- */

enum pl_emu_status pl_emu_exec_brx(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    const struct pl_emu_branch *b = ins->extra;
    if (!drop_unguarded(w, ins, b->meet))
        return PL_EMU_FAULT;
    uint32_t first = pl_emu_first_lane(w), same = 0;
    uint64_t index = pl_emu_lane(w, &ins->args[0], first);
    PL_EMU_FOR_LANES (lane, w->mask)
        if (pl_emu_lane(w, &ins->args[0], lane) == index)
            same |= 1u << lane;
    if (index >= b->n_targets) {
        pl_d_emu_bad_index(pl_emu_faults(w, first), pl_emu_where(w), index, b->n_targets);
        return PL_EMU_FAULT;
    }
    if (same == w->mask)
        w->group->pc = b->targets[index];
    else if (!pl_emu_group_split(w, same, b->targets[index], b->meet))
        return PL_EMU_FAULT;
    return PL_EMU_JUMP;
}

/* ---- call ------------------------------------------------------------------------------------------------------------------------------- */

static void *reg_lanes(struct pl_emu_warp *w, const struct pl_emu_frame *f,
                       const struct pl_emu_place *p)
{
    return (p->bank == PL_EMU_BANK_FRAME ? f->regs : w->bank[p->bank]) + p->offset_bytes;
}

/* A parameter or result moves from one activation's place to another's, for the active lanes. */
static void move(struct pl_emu_warp *w, const struct pl_emu_frame *to_frame,
                 const struct pl_emu_place *to, const struct pl_emu_frame *from_frame,
                 const struct pl_emu_place *from)
{
    size_t stride = w->cta->cluster->local_stride_bytes;
    PL_EMU_FOR_LANES (lane, w->mask) {
        uint8_t *d = to->is_reg
                         ? (uint8_t *)reg_lanes(w, to_frame, to) + lane * (to->bits / 8u)
                         : w->local + lane * stride + to_frame->local_base_bytes + to->offset_bytes;
        const uint8_t *s =
            from->is_reg
                ? (const uint8_t *)reg_lanes(w, from_frame, from) + lane * (from->bits / 8u)
                : w->local + lane * stride + from_frame->local_base_bytes + from->offset_bytes;
        uint32_t n_to = to->is_reg ? to->bits / 8u : to->n_bytes;
        uint32_t n_from = from->is_reg ? from->bits / 8u : from->n_bytes;
        memcpy(d, s, n_to < n_from ? n_to : n_from);
    }
}

static void move_all(struct pl_emu_warp *w, const struct pl_emu_frame *to_frame,
                     const struct pl_emu_place *to, const struct pl_emu_frame *from_frame,
                     const struct pl_emu_place *from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (to[i].is_reg && to[i].bits == 1) { /* a predicate: a mask, not lanes */
            uint32_t *d = reg_lanes(w, to_frame, &to[i]);
            const uint32_t *s = reg_lanes(w, from_frame, &from[i]);
            *d = (*d & ~w->mask) | (*s & w->mask);
        } else {
            move(w, to_frame, &to[i], from_frame, &from[i]);
        }
    }
}

static enum pl_emu_status finish_call(struct pl_emu_warp *w, const struct pl_emu_call *c)
{
    struct pl_emu_group *g = w->group;
    struct pl_emu_frame *f = g->returned;
    uint32_t n = c->n_returns < f->func->n_returns ? c->n_returns : f->func->n_returns;
    move_all(w, g->frame, c->returns, f, f->func->returns, n);
    pl_emu_frame_release(w, f);
    g->returned = NULL;
    return PL_EMU_NEXT;
}

/* The function behind a pointer; NULL: fault raised. */
static const struct pl_emu_func *function_at(struct pl_emu_warp *w, uint64_t address,
                                             const struct pl_emu_call *c)
{
    const struct pl_emu_program *p = w->cta->cluster->grid->program;
    uint64_t index = (address - PL_EMU_FUNC_WINDOW) / 16 - 1;
    const char *why = NULL;
    if (address < PL_EMU_FUNC_WINDOW + 16 || address % 16 != 0 || index >= p->module.funcs.n)
        why = "is not the address of a function";
    else if (!p->funcs[index]->has_body && p->funcs[index]->builtin == NULL)
        why = "is a function without a body";
    else if (p->funcs[index]->n_params > c->n_args)
        why = "is a function with more parameters than the call gives";
    if (why == NULL)
        return p->funcs[index];
    pl_d_emu_bad_call(pl_emu_faults(w, pl_emu_first_lane(w)), pl_emu_where(w), address, why);
    return NULL;
}

/* The callee of the first lane; lanes with another one split off, to execute the call again. NULL: fault raised. */
static const struct pl_emu_func *choose_callee(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    const struct pl_emu_call *c = ins->extra;
    if (c->callee != NULL)
        return c->callee;
    uint64_t address = pl_emu_lane(w, c->target, pl_emu_first_lane(w));
    uint32_t same = 0;
    PL_EMU_FOR_LANES (lane, w->mask)
        if (pl_emu_lane(w, c->target, lane) == address)
            same |= 1u << lane;
    if (same != w->mask && !pl_emu_group_split(w, w->mask & ~same, ins, ins + 1))
        return NULL;
    w->mask = same;
    return function_at(w, address, c);
}

/* Control Flow Instructions: call. Executed a second time when the callee has returned, to fetch the results. */
enum pl_emu_status pl_emu_exec_call(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    const struct pl_emu_call *c = ins->extra;
    struct pl_emu_group *g = w->group;
    if (g->returned != NULL)
        return finish_call(w, c);
    if (c->callee != NULL && c->callee->builtin != NULL)
        return c->callee->builtin(w, ins);
    if (!drop_unguarded(w, ins, ins + 1))
        return PL_EMU_FAULT;
    const struct pl_emu_func *func = choose_callee(w, ins);
    if (func == NULL)
        return PL_EMU_FAULT;
    if (func->builtin != NULL) {
        enum pl_emu_status s = func->builtin(w, ins);
        g->pc = ins + 1;
        return s == PL_EMU_NEXT ? PL_EMU_JUMP : s; /* the group may have become smaller */
    }
    const struct pl_emu_frame *from = g->frame;
    if (!pl_emu_group_enter(w, func, ins))
        return PL_EMU_FAULT;
    move_all(w, g->frame, func->params, from, c->args, func->n_params);
    return PL_EMU_JUMP;
}
