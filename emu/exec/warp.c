/*
 * Exchange between the lanes of a warp: PTX ISA, shfl.sync, vote.sync, match.sync, redux.sync, elect.sync, activemask and
 * bar.warp.sync.
 *
 * Each names the lanes that take part. Where they are in several groups, a group sleeps until those in its mask have come to
 * the same instruction; the last one executes it for all. Lanes of one group may name different, disjoint sets.
 */
#include "emu/warp.h"
#include "base/diag.h"
#include "emu/async.h"
#include "emu/exec/control.h"
#include "emu/faults.h"
#include "emu/race.h"

#include <stdio.h>
#include <string.h>

/* ---- meeting ------------------------------------------------------------------------------------------------------------------------------ */

static const struct pl_emu_arg *mask_arg(const struct pl_emu_ins *ins)
{
    return &ins->args[ins->n_args - 1]; /* the member mask is the last operand of all of them */
}

static bool poll_members(struct pl_emu_warp *w, struct pl_emu_group *g);

static void describe_members(struct pl_emu_warp *w, struct pl_emu_group *g, char *text,
                             size_t n_bytes)
{
    uint32_t members = (uint32_t)g->wait.a;
    snprintf(text, n_bytes, "%s with member mask 0x%08x: lanes 0x%08x have not come",
             pl_ptx_infos[g->pc->ptx->form].mnemonic, members,
             members & w->live & ~(uint32_t)g->wait.b);
}

/* Groups sleep at the same place: the same instruction of the same activation; any bar.warp.sync for that one. */
static bool is_with(const struct pl_emu_group *g, const struct pl_emu_group *other)
{
    if (other->state != PL_EMU_GROUP_BLOCKED || other->wait.poll != poll_members)
        return false;
    if (g->pc->ptx->form == PL_PTX_bar_warp_sync)
        return other->pc->ptx->form == PL_PTX_bar_warp_sync && other->wait.a == g->wait.a;
    return other->pc == g->pc && other->frame == g->frame;
}

/* Lanes that have come, g's included. */
static uint32_t gathered(const struct pl_emu_warp *w, const struct pl_emu_group *g)
{
    uint32_t lanes = (uint32_t)g->wait.b;
    if (w->n_groups == 1)
        return lanes;
    for (int i = 0; i < PL_EMU_LANES; i++)
        if (&w->groups[i] != g && is_with(g, &w->groups[i]))
            lanes |= (uint32_t)w->groups[i].wait.b;
    return lanes;
}

/* Does each lane that has come find all lanes it names? wait.a: the union of what g's own lanes name. */
static bool poll_members(struct pl_emu_warp *w, struct pl_emu_group *g)
{
    return ((uint32_t)g->wait.a & w->live & ~gathered(w, g)) == 0;
}

/*
 * The members of the active lanes, or BLOCKED until they are there, or FAULT. On NEXT w->mask holds all lanes for which the
 * instruction is to be executed, and groups that slept here go on behind it.
 */
static enum pl_emu_status meet(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    struct pl_emu_group *g = w->group;
    uint32_t named = 0;
    PL_EMU_FOR_LANES (lane, w->mask) {
        uint32_t m = (uint32_t)pl_emu_lane(w, mask_arg(ins), lane);
        if ((m >> lane & 1) == 0) {
            pl_d_emu_member(pl_emu_faults(w, lane), pl_emu_where(w),
                            pl_ptx_infos[ins->ptx->form].mnemonic, m);
            return PL_EMU_FAULT;
        }
        named |= m;
    }
    if ((named & w->live & ~w->mask) == 0)
        return PL_EMU_NEXT;
    g->pc = ins;
    g->wait = (struct pl_emu_wait){
        .poll = poll_members, .describe = describe_members, .a = named, .b = w->mask};
    uint32_t all = gathered(w, g);
    if ((named & w->live & ~all) != 0)
        return PL_EMU_BLOCKED;
    for (int i = 0; i < PL_EMU_LANES; i++) {
        struct pl_emu_group *other = &w->groups[i];
        if (other == g || !is_with(g, other))
            continue;
        other->state = PL_EMU_GROUP_READY;
        other->stage = 0;
        other->pc++;
    }
    w->mask = all;
    return PL_EMU_NEXT;
}

/* Lanes may have named disjoint sets. */
static void sync_named(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    for (uint32_t left = w->mask; left != 0;) {
        uint32_t members = (uint32_t)pl_emu_lane(w, mask_arg(ins), (uint32_t)__builtin_ctz(left));
        pl_race_warp_sync(w, members & left);
        left &= ~members;
    }
}

enum pl_emu_status pl_emu_exec_bar_warp_sync(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    enum pl_emu_status s = meet(w, ins);
    if (s != PL_EMU_NEXT)
        return s;
    pl_emu_async_on_release(w, w->mask);
    if (pl_race_is_on(w))
        sync_named(w, ins);
    return s;
}

/* ---- shfl ---------------------------------------------------------------------------------------------------------------------------------- */

/* Source lane of `lane`, and whether it is in range: PTX ISA, shfl.sync, "Semantics". */
static bool source_lane(uint8_t mode, uint32_t lane, uint32_t b, uint32_t c, uint32_t *from)
{
    uint32_t segment = c >> 8 & 31, clamp = c & 31;
    uint32_t most = (lane & segment) | (clamp & ~segment), least = lane & segment;
    int32_t j = 0;
    bool is_in = false;
    b &= 31;
    switch (mode) {
    case PL_PTX_MOD_SHFL_UP: j = (int32_t)lane - (int32_t)b, is_in = j >= (int32_t)most; break;
    case PL_PTX_MOD_SHFL_DOWN: j = (int32_t)(lane + b), is_in = j <= (int32_t)most; break;
    case PL_PTX_MOD_SHFL_BFLY: j = (int32_t)(lane ^ b), is_in = j <= (int32_t)most; break;
    default: j = (int32_t)(least | (b & ~segment)), is_in = j <= (int32_t)most; break;
    }
    *from = is_in ? (uint32_t)j : lane;
    return is_in;
}

/* d of a first operand d|p; *p is NULL where there is none. */
static const struct pl_emu_arg *split(const struct pl_emu_ins *ins, const struct pl_emu_arg **p)
{
    const struct pl_emu_arg *d = &ins->args[0];
    const bool is_pair = d->kind == PL_EMU_ARG_PAIR;
    *p = is_pair ? &ins->args[d->first + 1] : NULL;
    return is_pair ? &ins->args[d->first] : d;
}

/* d|p, a, b, c. A lane that reads from an inactive one is undefined: it gets what that register holds. */
static void exchange(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    const struct pl_emu_arg *p, *d = split(ins, &p);
    uint32_t old[PL_EMU_LANES], in_range = 0;
    for (uint32_t lane = 0; lane < PL_EMU_LANES; lane++)
        old[lane] = (uint32_t)pl_emu_lane(w, &ins->args[1], lane);
    PL_EMU_FOR_LANES (lane, w->mask) {
        uint32_t from;
        if (source_lane(pl_emu_mod(ins, PL_PTX_CAT_SHFL), lane,
                        (uint32_t)pl_emu_lane(w, &ins->args[2], lane),
                        (uint32_t)pl_emu_lane(w, &ins->args[3], lane), &from))
            in_range |= 1u << lane;
        pl_emu_set_lane(w, d, lane, old[from]);
    }
    if (p != NULL)
        pl_emu_set_pred(w, p, in_range);
}

/* d|p, a, b, c, members */
enum pl_emu_status pl_emu_exec_shfl(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    enum pl_emu_status s = meet(w, ins);
    if (s == PL_EMU_NEXT)
        exchange(w, ins);
    return s;
}

/* Without .sync the members are the lanes that are active: PTX ISA, shfl, which leaves to the warp who they are. */
enum pl_emu_status pl_emu_exec_shfl_active(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    exchange(w, ins);
    return PL_EMU_NEXT;
}

/* ---- vote, match, activemask, elect ------------------------------------------------------------------------------------------------------ */

static bool vote_result(uint8_t mode, uint32_t votes, uint32_t members)
{
    switch (mode) {
    case PL_PTX_MOD_VOTE_ALL: return votes == members;
    case PL_PTX_MOD_VOTE_ANY: return votes != 0;
    default: return votes == 0 || votes == members; /* uni */
    }
}

/* d, p; a lane votes with its members, with all that are active where `names_members` is false. */
static void vote(struct pl_emu_warp *w, const struct pl_emu_ins *ins, bool names_members)
{
    uint32_t votes = pl_emu_pred(w, &ins->args[1]) & w->mask, result = 0;
    uint8_t mode = pl_emu_mod(ins, PL_PTX_CAT_VOTE);
    PL_EMU_FOR_LANES (lane, w->mask) {
        uint32_t members = w->mask;
        if (names_members)
            members &= (uint32_t)pl_emu_lane(w, mask_arg(ins), lane);
        if (mode == PL_PTX_MOD_NONE)
            pl_emu_set_lane(w, &ins->args[0], lane, votes & members); /* ballot */
        else if (vote_result(mode, votes & members, members))
            result |= 1u << lane;
    }
    if (mode != PL_PTX_MOD_NONE)
        pl_emu_set_pred(w, &ins->args[0], result);
}

/* d, p, members */
enum pl_emu_status pl_emu_exec_vote(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    enum pl_emu_status s = meet(w, ins);
    if (s == PL_EMU_NEXT)
        vote(w, ins, true);
    return s;
}

enum pl_emu_status pl_emu_exec_vote_active(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    vote(w, ins, false);
    return PL_EMU_NEXT;
}

/* any: d, a, members; all: d|p, a, members */
enum pl_emu_status pl_emu_exec_match(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    enum pl_emu_status s = meet(w, ins);
    if (s != PL_EMU_NEXT)
        return s;
    const struct pl_emu_arg *p, *d = split(ins, &p);
    bool is_any = ins->ptx->form == PL_PTX_match_any_sync;
    uint64_t v[PL_EMU_LANES];
    uint32_t all_same = 0;
    for (uint32_t lane = 0; lane < PL_EMU_LANES; lane++)
        v[lane] = pl_emu_lane(w, &ins->args[1], lane);
    PL_EMU_FOR_LANES (lane, w->mask) {
        uint32_t members = (uint32_t)pl_emu_lane(w, mask_arg(ins), lane) & w->mask, same = 0;
        PL_EMU_FOR_LANES (k, members)
            same |= v[k] == v[lane] ? 1u << k : 0;
        if (same == members)
            all_same |= 1u << lane;
        pl_emu_set_lane(w, d, lane, is_any || same == members ? same : 0);
    }
    if (p != NULL)
        pl_emu_set_pred(w, p, all_same);
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_activemask(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    PL_EMU_FOR_LANES (lane, w->mask)
        pl_emu_set_lane(w, &ins->args[0], lane, w->mask);
    return PL_EMU_NEXT;
}

/* d|p, members. The leader is the lowest member (which one is unspecified). */
enum pl_emu_status pl_emu_exec_elect(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    enum pl_emu_status s = meet(w, ins);
    if (s != PL_EMU_NEXT)
        return s;
    const struct pl_emu_arg *pair = &ins->args[0];
    uint32_t leaders = 0;
    PL_EMU_FOR_LANES (lane, w->mask) {
        uint32_t members = (uint32_t)pl_emu_lane(w, mask_arg(ins), lane) & w->mask;
        uint32_t leader = (uint32_t)__builtin_ctz(members);
        pl_emu_set_lane(w, &ins->args[pair->first], lane, leader);
        leaders |= leader == lane ? 1u << lane : 0;
    }
    pl_emu_set_pred(w, &ins->args[pair->first + 1], leaders);
    return PL_EMU_NEXT;
}

/* ---- redux --------------------------------------------------------------------------------------------------------------------------------- */

static uint32_t combine_int(uint8_t op, bool is_signed, uint32_t a, uint32_t b)
{
    bool is_less = is_signed ? (int32_t)a < (int32_t)b : a < b;
    switch (op) {
    case PL_PTX_MOD_ATOM_ADD: return a + b;
    case PL_PTX_MOD_ATOM_MIN: return is_less ? a : b;
    case PL_PTX_MOD_ATOM_MAX: return is_less ? b : a;
    case PL_PTX_MOD_ATOM_AND: return a & b;
    case PL_PTX_MOD_ATOM_OR: return a | b;
    default: return a ^ b;
    }
}

static bool is_nan32(uint32_t v) { return (v & 0x7fffffffu) > 0x7f800000u; }

/* Order of float bits as integers: -0 below +0. */
static int32_t float_key(uint32_t v) { return (int32_t)(v >> 31 != 0 ? v ^ 0x7fffffffu : v); }

/* .f32: a NaN is the result with .NaN, otherwise it is ignored unless all are. */
static uint32_t combine_f32(uint8_t op, bool takes_nan, uint32_t a, uint32_t b)
{
    enum { CANONICAL_NAN = 0x7fffffff };
    if (is_nan32(a) || is_nan32(b)) {
        if (takes_nan || (is_nan32(a) && is_nan32(b)))
            return CANONICAL_NAN;
        return is_nan32(a) ? b : a;
    }
    bool is_less = float_key(a) < float_key(b);
    return (op == PL_PTX_MOD_ATOM_MIN) == is_less ? a : b;
}

uint32_t pl_emu_combine(const struct pl_emu_ins *ins, uint32_t a, uint32_t b)
{
    uint8_t op = pl_emu_mod(ins, PL_PTX_CAT_ATOM);
    if (pl_emu_type(ins, 0) == PL_PTX_TYPE_F32)
        return combine_f32(op, pl_emu_mod(ins, PL_PTX_CAT_NAN) != PL_PTX_MOD_NONE, a, b);
    return combine_int(op, pl_ptx_types[pl_emu_type(ins, 0)].class == PL_PTX_CLASS_SINT, a, b);
}

/* d, a, members */
enum pl_emu_status pl_emu_exec_redux(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    enum pl_emu_status s = meet(w, ins);
    if (s != PL_EMU_NEXT)
        return s;
    uint32_t v[PL_EMU_LANES], left = w->mask;
    bool is_abs = pl_emu_mod(ins, PL_PTX_CAT_ABS) != PL_PTX_MOD_NONE;
    for (uint32_t lane = 0; lane < PL_EMU_LANES; lane++)
        v[lane] =
            (uint32_t)pl_emu_lane(w, &ins->args[1], lane) & (is_abs ? 0x7fffffffu : UINT32_MAX);
    while (left != 0) { /* once for each set of members */
        uint32_t lane = (uint32_t)__builtin_ctz(left);
        uint32_t members = (uint32_t)pl_emu_lane(w, mask_arg(ins), lane) & w->mask,
                 result = v[lane];
        bool is_single = true;
        PL_EMU_FOR_LANES (k, members & ~(1u << lane)) {
            result = pl_emu_combine(ins, result, v[k]);
            is_single = false;
        }
        if (is_single && ins->ptx->form == PL_PTX_redux_sync_f32)
            result = pl_emu_combine(ins, result, result);
        PL_EMU_FOR_LANES (k, members)
            pl_emu_set_lane(w, &ins->args[0], k, result);
        left &= ~members;
    }
    return PL_EMU_NEXT;
}
