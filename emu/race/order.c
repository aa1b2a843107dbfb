/*
 * What happens before what: views, release and acquire, and the places that strong operations synchronise through.
 */
#include "emu/race/state.h"

#include <stdlib.h>
#include <string.h>

/* ---- sets ------------------------------------------------------------------------------------------------------------ */

void pl_race_set_join(struct pl_emu_race *r, struct pl_race_set *to, const struct pl_race_set *set)
{
    for (uint32_t k = 0; k < PL_RACE_N_SET; k++)
        pl_race_clock_join(&to->c[k], set->c[k], &r->is_lost);
}

void pl_race_set_drop(struct pl_race_set *set)
{
    for (uint32_t k = 0; k < PL_RACE_N_SET; k++) {
        pl_race_clock_drop(set->c[k]);
        set->c[k] = NULL;
    }
}

void pl_race_set_copy(struct pl_race_set *to, const struct pl_race_set *set)
{
    struct pl_race_set old = *to;
    for (uint32_t k = 0; k < PL_RACE_N_SET; k++)
        to->c[k] = pl_race_clock_ref(set->c[k]);
    pl_race_set_drop(&old);
}

/* ---- views ------------------------------------------------------------------------------------------------------------- */

void pl_race_view_drop(struct pl_race_view *v)
{
    if (v == NULL || --v->n_refs != 0)
        return;
    for (uint32_t k = 0; k < PL_RACE_N_VIEW; k++)
        pl_race_clock_drop(v->c[k]);
    free(v);
}

static struct pl_race_view *copy_view(struct pl_emu_race *r, const struct pl_race_view *old)
{
    struct pl_race_view *v = calloc(1, sizeof *v);
    if (v == NULL) {
        r->is_lost = true;
        return NULL;
    }
    v->n_refs = 1;
    for (uint32_t k = 0; old != NULL && k < PL_RACE_N_VIEW; k++)
        v->c[k] = pl_race_clock_ref(old->c[k]);
    return v;
}

/* Give the lanes v, which they share from now on. */
static void put_view(struct pl_race_warp *rw, uint32_t lanes, struct pl_race_view *v)
{
    PL_EMU_FOR_LANES (lane, lanes) {
        pl_race_view_drop(rw->views[lane]);
        rw->views[lane] = v;
        v->n_refs++;
    }
}

/* The lanes among `lanes` that have the view of the first of them. */
static uint32_t same_view(const struct pl_race_warp *rw, uint32_t lanes)
{
    const struct pl_race_view *v = rw->views[__builtin_ctz(lanes)];
    uint32_t same = 0;
    PL_EMU_FOR_LANES (lane, lanes)
        same |= (uint32_t)(rw->views[lane] == v) << lane;
    return same;
}

static bool is_equal(const struct pl_race_view *a, const struct pl_race_view *b)
{
    return memcmp(a->c, b->c, sizeof a->c) == 0;
}

/* Change the views of lanes, each once; lanes that come to know the same share theirs again. */
typedef void change_fn(struct pl_emu_race *r, struct pl_race_view *v,
                       const struct pl_race_set *set);

static void change_views(struct pl_emu_warp *w, uint32_t lanes, change_fn *change,
                         const struct pl_race_set *set)
{
    struct pl_emu_race *r = pl_race_of(w);
    struct pl_race_warp *rw = pl_race_warp_of(w);
    struct pl_race_view *last = NULL;
    for (uint32_t left = lanes; left != 0 && !r->is_lost;) {
        uint32_t same = same_view(rw, left);
        struct pl_race_view *v = copy_view(r, rw->views[__builtin_ctz(left)]);
        if (v == NULL)
            break;
        change(r, v, set);
        if (last != NULL && is_equal(last, v)) {
            put_view(rw, same, last);
            pl_race_view_drop(v);
        } else {
            put_view(rw, same, v);
            pl_race_view_drop(last);
            last = v;
        }
        left &= ~same;
    }
    pl_race_view_drop(last);
}

/* ---- knowing -------------------------------------------------------------------------------------------------------------- */

/* Lanes that know a step of an operation of their own warp by themselves. */
static uint32_t own_lanes(const struct pl_race_slot *s, uint32_t tick, uint8_t kind)
{
    if ((tick & 1) == 0)
        return kind == PL_RACE_T ? s->lanes : s->has_read | s->has_ended;
    if (s->is_generic && kind == PL_RACE_S)
        return s->is_shown_s;
    if (s->is_generic && kind == PL_RACE_D)
        return s->is_shown_d;
    return s->has_ended;
}

static bool knows_itself(const struct pl_emu_race *r, const struct pl_race_warp *rw, uint32_t lane,
                         const struct pl_race_access *a, uint32_t lanes, uint32_t tick,
                         uint8_t kind)
{
    uint32_t own = (uint32_t)(rw - r->warps);
    if (a->agent < r->n_warps) {
        if (a->agent != own || (lanes != 1u << lane && !a->is_by_warp))
            return false;
        return kind == PL_RACE_S   ? tick <= rw->shown_s[lane]
               : kind == PL_RACE_D ? tick <= rw->shown_d[lane]
                                   : true;
    }
    const struct pl_race_slot *s = &r->slots[a->agent - r->n_warps];
    if (s->warp == own && s->is_collective && tick < s->tick)
        return true; /* its warp has waited for it */
    if (s->warp != own || s->tick != (tick & ~1u))
        return false;
    return (own_lanes(s, tick, kind) & lanes) == lanes && (s->is_collective || lanes == 1u << lane);
}

/* R stands beside G: between them they may know each lane. */
static bool covers(const struct pl_race_view *v, const struct pl_race_access *a, uint32_t lanes,
                   uint32_t tick, uint8_t kind)
{
    if (v == NULL)
        return false;
    if (kind != PL_RACE_R || v->c[PL_RACE_R] == NULL)
        return pl_race_clock_covers(v->c[kind == PL_RACE_R ? PL_RACE_G : kind], a->agent, lanes,
                                    tick);
    uint32_t left = lanes;
    PL_EMU_FOR_LANES (lane, lanes)
        if (pl_race_clock_covers(v->c[PL_RACE_G], a->agent, 1u << lane, tick))
            left &= ~(1u << lane);
    return left == 0 || pl_race_clock_covers(v->c[PL_RACE_R], a->agent, left, tick);
}

static bool lane_knows(const struct pl_emu_race *r, const struct pl_race_warp *rw, uint32_t lane,
                       const struct pl_race_access *a, uint32_t lanes, uint32_t tick, uint8_t kind)
{
    const struct pl_race_view *v = rw->views[lane];
    if (a->cluster == r->cluster)
        return knows_itself(r, rw, lane, a, lanes, tick, kind) || covers(v, a, lanes, tick, kind);
    return v != NULL && pl_race_clock_covers(pl_race_clock_of_cluster(v->c[kind], a->cluster),
                                             a->agent, lanes, tick);
}

bool pl_race_knows(const struct pl_race_actor *x, const struct pl_race_access *a, uint32_t lanes,
                   uint32_t tick, uint8_t kind)
{
    const struct pl_race_warp *rw = pl_race_warp_of(x->w);
    const struct pl_race_view *known = NULL; /* to know it */
    bool is_other = a->cluster != x->r->cluster || a->agent != (uint32_t)(rw - x->r->warps);
    PL_EMU_FOR_LANES (lane, x->lanes) {
        if (known != NULL && rw->views[lane] == known)
            continue;
        if (!lane_knows(x->r, rw, lane, a, lanes, tick, kind))
            return false;
        bool is_by_view = is_other && a->cluster == x->r->cluster &&
                          covers(rw->views[lane], a, lanes, tick, kind);
        known = is_by_view ? rw->views[lane] : NULL;
    }
    return true;
}

/* ---- release ---------------------------------------------------------------------------------------------------------------- */

/* Of what a warp did as one, each of its lanes knows all. */
static uint32_t as_one(const struct pl_race_slot *s, uint32_t lanes)
{
    return s->is_collective && lanes != 0 ? s->lanes : lanes;
}

static void add_slot(struct pl_emu_race *r, struct pl_race_set *out, const struct pl_race_slot *s,
                     uint32_t lanes)
{
    uint32_t out_issue = as_one(s, s->is_out_issue & lanes),
             out_end = as_one(s, s->is_out_end & lanes);
    lanes = as_one(s, lanes);
    uint32_t agent = pl_race_agent(r, s), n = lanes & s->has_ended,
             n_s = lanes & (s->is_generic ? s->is_shown_s : s->has_ended),
             n_d = lanes & (s->is_generic ? s->is_shown_d : s->has_ended);
    uint32_t first = lanes & s->has_read, end = s->tick | 1;
    bool *is_lost = &r->is_lost;
    if (s->is_collective) {
        pl_race_clock_add(out->c[PL_RACE_G], agent, lanes, s->lanes, s->tick - 1, is_lost);
        pl_race_clock_add(out->c[PL_RACE_T], agent, lanes, s->lanes, s->out_before, is_lost);
    }
    if (first != 0)
        pl_race_clock_add(out->c[PL_RACE_G], agent, first, s->lanes, s->tick, is_lost);
    if (first != 0 && !s->is_generic) {
        pl_race_clock_add(out->c[PL_RACE_S], agent, first, s->lanes, s->tick, is_lost);
        pl_race_clock_add(out->c[PL_RACE_D], agent, first, s->lanes, s->tick, is_lost);
    }
    if (n != 0)
        pl_race_clock_add(out->c[PL_RACE_G], agent, n, s->lanes, end, is_lost);
    if (n_s != 0)
        pl_race_clock_add(out->c[PL_RACE_S], agent, n_s, s->lanes, end, is_lost);
    if (n_d != 0)
        pl_race_clock_add(out->c[PL_RACE_D], agent, n_d, s->lanes, end, is_lost);
    if (out_issue != 0)
        pl_race_clock_add(out->c[PL_RACE_T], agent, out_issue, s->lanes, s->tick, is_lost);
    if (out_end != 0)
        pl_race_clock_add(out->c[PL_RACE_T], agent, out_end, s->lanes, end, is_lost);
}

/* Own accesses that lanes have shown to the async proxy, each up to a tick of its own. */
static void add_shown(struct pl_emu_race *r, struct pl_race_clock *c, const struct pl_emu_warp *w,
                      uint32_t lanes, const uint32_t ticks[PL_EMU_LANES])
{
    for (uint32_t left = lanes; left != 0;) {
        uint32_t tick = ticks[__builtin_ctz(left)], same = 0;
        PL_EMU_FOR_LANES (lane, left)
            same |= (uint32_t)(ticks[lane] == tick) << lane;
        pl_race_clock_add(c, pl_race_index(w), same, w->existing, tick, &r->is_lost);
        left &= ~same;
    }
}

static void make_own(struct pl_emu_race *r, struct pl_race_clock **c)
{
    struct pl_race_clock *old = *c;
    *c = pl_race_clock_copy(old, r->n_warps + r->n_slots, &r->is_lost);
    pl_race_clock_drop(old);
}

/* What the lanes know, but for what each of them did itself. */
static void join_views(struct pl_emu_race *r, const struct pl_race_warp *rw, uint32_t lanes,
                       const uint8_t from[PL_RACE_N_SET], struct pl_race_set *out)
{
    for (uint32_t left = lanes; left != 0;) {
        const struct pl_race_view *v = rw->views[__builtin_ctz(left)];
        for (uint32_t k = 0; v != NULL && k < PL_RACE_N_SET; k++)
            pl_race_clock_join(&out->c[k], v->c[from[k]], &r->is_lost);
        if (v != NULL && from[PL_RACE_T] == PL_RACE_T_OUT) /* passed on as it was acquired */
            pl_race_clock_join(&out->c[PL_RACE_T], v->c[PL_RACE_T_IN], &r->is_lost);
        left &= ~same_view(rw, left);
    }
}

void pl_race_release(struct pl_emu_warp *w, uint32_t lanes, struct pl_race_set *out)
{
    static const uint8_t from[PL_RACE_N_SET] = {PL_RACE_G, PL_RACE_S, PL_RACE_D, PL_RACE_R,
                                                PL_RACE_T_OUT};
    struct pl_emu_race *r = pl_race_of(w);
    struct pl_race_warp *rw = pl_race_warp_of(w);
    uint32_t own = pl_race_index(w);
    memset(out, 0, sizeof *out);
    join_views(r, rw, lanes, from, out);
    uint32_t n_kinds = r->has_proxy ? PL_RACE_N_SET : 1;
    for (uint32_t k = 0; k < n_kinds; k++)
        if (k != PL_RACE_R) /* what is added stands in G */
            make_own(r, &out->c[k]);
    if (r->is_lost)
        return;
    pl_race_clock_add(out->c[PL_RACE_G], own, lanes, w->existing, rw->now, &r->is_lost);
    if (r->has_proxy) {
        add_shown(r, out->c[PL_RACE_S], w, lanes, rw->shown_s);
        add_shown(r, out->c[PL_RACE_D], w, lanes, rw->shown_d);
    }
    for (uint32_t i = 0; i < rw->n_slots; i++) {
        const struct pl_race_slot *s = &r->slots[rw->slots[i]];
        if ((s->lanes & lanes) != 0)
            add_slot(r, out, s, lanes);
    }
    rw->now++;
}

/* ---- acquire ----------------------------------------------------------------------------------------------------------------- */

static void add_set(struct pl_emu_race *r, struct pl_race_view *v, const struct pl_race_set *set)
{
    for (uint32_t k = PL_RACE_G; k <= PL_RACE_R; k++)
        pl_race_clock_join(&v->c[k], set->c[k], &r->is_lost);
    pl_race_clock_join(&v->c[PL_RACE_T_IN], set->c[PL_RACE_T], &r->is_lost);
}

void pl_race_acquire(struct pl_emu_warp *w, uint32_t lanes, const struct pl_race_set *set)
{
    change_views(w, lanes, add_set, set);
}

static void see_set(struct pl_emu_race *r, struct pl_race_view *v, const struct pl_race_set *set)
{
    for (uint32_t k = PL_RACE_G; k <= PL_RACE_R; k++)
        pl_race_clock_join(&v->c[PL_RACE_IN + k], set->c[k], &r->is_lost);
    pl_race_clock_join(&v->c[PL_RACE_T_IN], set->c[PL_RACE_T], &r->is_lost);
}

void pl_race_see(struct pl_emu_warp *w, uint32_t lanes, const struct pl_race_set *set)
{
    change_views(w, lanes, see_set, set);
}

/* ---- fences -------------------------------------------------------------------------------------------------------------------- */

static void acquire_seen(struct pl_emu_race *r, struct pl_race_view *v,
                         const struct pl_race_set *set)
{
    (void)set;
    for (uint32_t k = PL_RACE_G; k <= PL_RACE_R; k++)
        pl_race_clock_join(&v->c[k], v->c[PL_RACE_IN + k], &r->is_lost);
}

static void keep_known(struct pl_emu_race *r, struct pl_race_view *v, const struct pl_race_set *set)
{
    (void)set;
    for (uint32_t k = PL_RACE_G; k <= PL_RACE_R; k++)
        pl_race_clock_join(&v->c[PL_RACE_OUT + k], v->c[k], &r->is_lost);
}

static void keep_ended(struct pl_emu_race *r, struct pl_race_view *v, const struct pl_race_set *set)
{
    for (uint32_t k = PL_RACE_G; k <= PL_RACE_R; k++)
        pl_race_clock_join(&v->c[PL_RACE_OUT + k], set->c[k], &r->is_lost);
    pl_race_clock_join(&v->c[PL_RACE_T_OUT], set->c[PL_RACE_T], &r->is_lost);
}

/* Restricted to shared memory: what is known of it alone. */
static void acquire_seen_shared(struct pl_emu_race *r, struct pl_race_view *v,
                                const struct pl_race_set *set)
{
    (void)set;
    pl_race_clock_join(&v->c[PL_RACE_R], v->c[PL_RACE_IN + PL_RACE_G], &r->is_lost);
    pl_race_clock_join(&v->c[PL_RACE_R], v->c[PL_RACE_IN + PL_RACE_R], &r->is_lost);
    pl_race_clock_join(&v->c[PL_RACE_S], v->c[PL_RACE_IN + PL_RACE_S], &r->is_lost);
}

static void keep_known_shared(struct pl_emu_race *r, struct pl_race_view *v,
                              const struct pl_race_set *set)
{
    (void)set;
    pl_race_clock_join(&v->c[PL_RACE_OUT + PL_RACE_R], v->c[PL_RACE_G], &r->is_lost);
    pl_race_clock_join(&v->c[PL_RACE_OUT + PL_RACE_R], v->c[PL_RACE_R], &r->is_lost);
    pl_race_clock_join(&v->c[PL_RACE_OUT + PL_RACE_S], v->c[PL_RACE_S], &r->is_lost);
}

static void keep_ended_shared(struct pl_emu_race *r, struct pl_race_view *v,
                              const struct pl_race_set *set)
{
    pl_race_clock_join(&v->c[PL_RACE_OUT + PL_RACE_R], set->c[PL_RACE_G], &r->is_lost);
    pl_race_clock_join(&v->c[PL_RACE_OUT + PL_RACE_S], set->c[PL_RACE_S], &r->is_lost);
    pl_race_clock_join(&v->c[PL_RACE_T_OUT], set->c[PL_RACE_T], &r->is_lost);
}

/* What a lane knows of its own asynchronous operations, and has shown to the async proxy. */
static void keep_own(struct pl_emu_warp *w, uint32_t lane, change_fn *keep)
{
    struct pl_emu_race *r = pl_race_of(w);
    const struct pl_race_warp *rw = pl_race_warp_of(w);
    struct pl_race_set set = {0};
    for (uint32_t k = 0; k < PL_RACE_N_SET; k++)
        if (k != PL_RACE_R)
            make_own(r, &set.c[k]);
    for (uint32_t i = 0; i < rw->n_slots && !r->is_lost; i++) {
        const struct pl_race_slot *s = &r->slots[rw->slots[i]];
        if ((s->lanes >> lane & 1) != 0)
            add_slot(r, &set, s, 1u << lane);
    }
    add_shown(r, set.c[PL_RACE_S], w, 1u << lane, rw->shown_s);
    add_shown(r, set.c[PL_RACE_D], w, 1u << lane, rw->shown_d);
    change_views(w, 1u << lane, keep, &set);
    pl_race_set_drop(&set);
}

/* A release: this is what strong stores behind it make known. */
static void keep_all(struct pl_emu_warp *w, change_fn *known, change_fn *own)
{
    struct pl_race_warp *rw = pl_race_warp_of(w);
    rw->now++;
    change_views(w, w->mask, known, NULL);
    PL_EMU_FOR_LANES (lane, w->mask)
        if (rw->n_slots != 0 || rw->shown_s[lane] != 0 || rw->shown_d[lane] != 0)
            keep_own(w, lane, own);
}

/* With a strong operation before it a fence is an acquire, with one behind it a release. */
void pl_race_fence(struct pl_emu_warp *w)
{
    struct pl_race_warp *rw = pl_race_warp_of(w);
    change_views(w, w->mask, acquire_seen, NULL);
    PL_EMU_FOR_LANES (lane, w->mask)
        rw->out_tick[lane] = rw->out_shared[lane] = rw->now;
    keep_all(w, keep_known, keep_ended);
}

void pl_race_fence_shared(struct pl_emu_warp *w, bool is_acquire)
{
    struct pl_race_warp *rw = pl_race_warp_of(w);
    if (is_acquire) {
        change_views(w, w->mask, acquire_seen_shared, NULL);
        return;
    }
    PL_EMU_FOR_LANES (lane, w->mask)
        rw->out_shared[lane] = rw->now;
    keep_all(w, keep_known_shared, keep_ended_shared);
}

static void show_shared(struct pl_emu_race *r, struct pl_race_view *v,
                        const struct pl_race_set *set)
{
    (void)set;
    pl_race_clock_join(&v->c[PL_RACE_S], v->c[PL_RACE_G], &r->is_lost);
    pl_race_clock_join(&v->c[PL_RACE_S], v->c[PL_RACE_R], &r->is_lost);
}

static void show_device(struct pl_emu_race *r, struct pl_race_view *v,
                        const struct pl_race_set *set)
{
    (void)set;
    pl_race_clock_join(&v->c[PL_RACE_D], v->c[PL_RACE_G], &r->is_lost);
}

void pl_race_fence_proxy(struct pl_emu_warp *w, bool is_shared, bool is_global)
{
    struct pl_emu_race *r = pl_race_of(w);
    struct pl_race_warp *rw = pl_race_warp_of(w);
    PL_EMU_FOR_LANES (lane, w->mask) {
        rw->shown_s[lane] = is_shared ? rw->now : rw->shown_s[lane];
        rw->shown_d[lane] = is_global ? rw->now : rw->shown_d[lane];
    }
    rw->now++;
    for (uint32_t i = 0; i < rw->n_slots; i++) {
        struct pl_race_slot *s = &r->slots[rw->slots[i]];
        s->is_shown_s |= is_shared ? s->has_ended & w->mask : 0;
        s->is_shown_d |= is_global ? s->has_ended & w->mask : 0;
    }
    if (is_shared)
        change_views(w, w->mask, show_shared, NULL);
    if (is_global)
        change_views(w, w->mask, show_device, NULL);
}

static void tensor_out(struct pl_emu_race *r, struct pl_race_view *v, const struct pl_race_set *set)
{
    (void)set;
    pl_race_clock_join(&v->c[PL_RACE_T_OUT], v->c[PL_RACE_T], &r->is_lost);
}

static void tensor_in(struct pl_emu_race *r, struct pl_race_view *v, const struct pl_race_set *set)
{
    (void)set;
    pl_race_clock_join(&v->c[PL_RACE_T], v->c[PL_RACE_T_IN], &r->is_lost);
}

void pl_race_tensor_fence(struct pl_emu_warp *w, bool is_before)
{
    struct pl_emu_race *r = pl_race_of(w);
    struct pl_race_warp *rw = pl_race_warp_of(w);
    for (uint32_t i = 0; i < rw->n_slots && is_before; i++) {
        struct pl_race_slot *s = &r->slots[rw->slots[i]];
        if (s->owner != PL_ASYNC_BY_TMEM)
            continue;
        if (s->is_collective)
            s->out_before = s->tick - 1;
        s->is_out_issue |= s->lanes & w->mask;
        s->is_out_end |= s->has_ended & w->mask;
    }
    change_views(w, w->mask, is_before ? tensor_out : tensor_in, NULL);
}

/* ---- places of strong operations ------------------------------------------------------------------------------------------------- */

enum { N_BUCKETS = 4096 };

static struct pl_race_location **bucket_of(struct pl_emu_race *r, uint64_t key)
{
    struct pl_emu_race_grid *g = r->grid;
    if (g->locations == NULL)
        g->locations = calloc(N_BUCKETS, sizeof(struct pl_race_location *));
    if (g->locations == NULL) {
        r->is_lost = true;
        return NULL;
    }
    return &g->locations[(key ^ key >> 12 ^ key >> 32) % N_BUCKETS];
}

static struct pl_race_location *location_of(struct pl_emu_race *r, uint64_t key, bool is_made)
{
    struct pl_race_location **bucket = bucket_of(r, key), *l = bucket == NULL ? NULL : *bucket;
    while (l != NULL && (l->key != key || l->cluster != r->cluster))
        l = l->next;
    if (l != NULL || !is_made || bucket == NULL)
        return l;
    l = calloc(1, sizeof *l);
    if (l == NULL) {
        r->is_lost = true;
        return NULL;
    }
    *l = (struct pl_race_location){.key = key, .cluster = r->cluster, .next = *bucket};
    *bucket = l;
    return l;
}

void pl_race_locations_fini(struct pl_emu_race_grid *g)
{
    for (uint32_t i = 0; g->locations != NULL && i < N_BUCKETS; i++)
        for (struct pl_race_location *l = g->locations[i], *next; l != NULL; l = next) {
            next = l->next;
            pl_race_set_drop(&l->set);
            free(l);
        }
    free(g->locations);
    g->locations = NULL;
}

/* What was released at a place is seen at once (acquire) or behind the next fence. */
static void see(struct pl_emu_race *r, struct pl_race_view *v, const struct pl_race_location *l,
                bool is_acquire)
{
    for (uint32_t k = PL_RACE_G; k <= PL_RACE_R; k++) {
        struct pl_race_clock **to = &v->c[is_acquire ? k : PL_RACE_IN + k];
        if (l->cluster == r->cluster)
            pl_race_clock_join(to, l->set.c[k], &r->is_lost);
        else
            pl_race_clock_join_foreign(to, r->cluster, l->cluster, l->set.c[k], &r->is_lost);
    }
}

void pl_race_location_read(struct pl_emu_warp *w, uint32_t lane, uint64_t key, bool is_acquire)
{
    struct pl_emu_race *r = pl_race_of(w);
    struct pl_race_warp *rw = pl_race_warp_of(w);
    struct pl_race_location **bucket = bucket_of(r, key);
    struct pl_race_view *v = NULL;
    for (struct pl_race_location *l = bucket == NULL ? NULL : *bucket; l != NULL; l = l->next) {
        if (l->key != key || l->set.c[PL_RACE_G] == NULL)
            continue;
        if (v == NULL)
            v = copy_view(r, rw->views[lane]);
        if (v != NULL)
            see(r, v, l, is_acquire);
    }
    if (v != NULL) {
        put_view(rw, 1u << lane, v);
        pl_race_view_drop(v);
    }
}

void pl_race_release_fenced(struct pl_emu_warp *w, uint32_t lane, struct pl_race_set *out)
{
    static const uint8_t from[PL_RACE_N_SET] = {PL_RACE_OUT, PL_RACE_OUT + 1, PL_RACE_OUT + 2,
                                                PL_RACE_OUT + 3, PL_RACE_T_OUT};
    struct pl_emu_race *r = pl_race_of(w);
    struct pl_race_warp *rw = pl_race_warp_of(w);
    memset(out, 0, sizeof *out);
    if (rw->out_shared[lane] == 0)
        return; /* it has executed none */
    join_views(r, rw, 1u << lane, from, out);
    make_own(r, &out->c[PL_RACE_G]);
    pl_race_clock_add(out->c[PL_RACE_G], pl_race_index(w), 1u << lane, w->existing,
                      rw->out_tick[lane], &r->is_lost);
    if (rw->out_shared[lane] == rw->out_tick[lane])
        return;
    make_own(r, &out->c[PL_RACE_R]);
    pl_race_clock_add(out->c[PL_RACE_R], pl_race_index(w), 1u << lane, w->existing,
                      rw->out_shared[lane], &r->is_lost);
}

void pl_race_location_write(struct pl_emu_warp *w, uint32_t lane, uint64_t key, bool is_release,
                            bool is_update)
{
    struct pl_emu_race *r = pl_race_of(w);
    struct pl_race_location **bucket = bucket_of(r, key);
    for (struct pl_race_location *l = bucket == NULL ? NULL : *bucket; l != NULL && !is_update;
         l = l->next)
        if (l->key == key)
            pl_race_set_drop(&l->set);
    struct pl_race_set set;
    if (is_release)
        pl_race_release(w, 1u << lane, &set);
    else
        pl_race_release_fenced(w, lane, &set);
    struct pl_race_location *l = set.c[PL_RACE_G] == NULL ? NULL : location_of(r, key, true);
    if (l != NULL)
        pl_race_set_join(r, &l->set, &set);
    pl_race_set_drop(&set);
}
