#include "emu/race/clock.h"

#include <stdlib.h>
#include <string.h>

#define ALL_LANES UINT32_MAX

struct pl_race_clock *pl_race_clock_ref(struct pl_race_clock *c)
{
    if (c != NULL)
        c->n_refs++;
    return c;
}

void pl_race_clock_drop(struct pl_race_clock *c)
{
    if (c == NULL || --c->n_refs != 0)
        return;
    for (uint32_t i = 0; i < c->n_foreign; i++)
        pl_race_clock_drop(c->foreign[i].clock);
    free(c->foreign);
    free(c->lanes);
    free(c);
}

static uint32_t all_of(const struct pl_race_clock *c, uint32_t agent)
{
    return c != NULL && agent < c->n_agents ? c->all[agent] : 0;
}

static const struct pl_race_lanes *lanes_of(const struct pl_race_clock *c, uint32_t agent)
{
    for (uint32_t i = 0; c != NULL && i < c->n_lanes; i++)
        if (c->lanes[i].agent == agent)
            return &c->lanes[i];
    return NULL;
}

bool pl_race_clock_covers(const struct pl_race_clock *c, uint32_t agent, uint32_t lanes,
                          uint32_t tick)
{
    if (c == NULL)
        return false;
    if (all_of(c, agent) >= tick)
        return true;
    const struct pl_race_lanes *l = lanes_of(c, agent);
    if (l == NULL)
        return false;
    for (uint32_t left = lanes; left != 0; left &= left - 1)
        if (l->ticks[__builtin_ctz(left)] < tick)
            return false;
    return true;
}

const struct pl_race_clock *pl_race_clock_of_cluster(const struct pl_race_clock *c,
                                                     uint32_t cluster)
{
    for (uint32_t i = 0; c != NULL && i < c->n_foreign; i++)
        if (c->foreign[i].cluster == cluster)
            return c->foreign[i].clock;
    return NULL;
}

/* ---- making ---------------------------------------------------------------------------------------------------------- */

static bool copy_parts(struct pl_race_clock *to, const struct pl_race_clock *c)
{
    if (c->n_lanes != 0) {
        to->lanes = malloc(c->n_lanes * sizeof *to->lanes);
        if (to->lanes == NULL)
            return false;
        memcpy(to->lanes, c->lanes, c->n_lanes * sizeof *to->lanes);
        to->n_lanes = c->n_lanes;
    }
    if (c->n_foreign != 0) {
        to->foreign = malloc(c->n_foreign * sizeof *to->foreign);
        if (to->foreign == NULL)
            return false;
        to->n_foreign = c->n_foreign;
        for (uint32_t i = 0; i < c->n_foreign; i++)
            to->foreign[i] = (struct pl_race_foreign){c->foreign[i].cluster,
                                                      pl_race_clock_ref(c->foreign[i].clock)};
    }
    return true;
}

struct pl_race_clock *pl_race_clock_copy(const struct pl_race_clock *c, uint32_t n_agents,
                                         bool *is_lost)
{
    uint32_t n_old = c != NULL ? c->n_agents : 0, n = n_old > n_agents ? n_old : n_agents;
    struct pl_race_clock *to = malloc(sizeof *to + n * sizeof to->all[0]);
    if (to == NULL) {
        *is_lost = true;
        return NULL;
    }
    *to = (struct pl_race_clock){.n_refs = 1, .n_agents = n};
    if (n_old != 0)
        memcpy(to->all, c->all, n_old * sizeof to->all[0]);
    memset(to->all + n_old, 0, (n - n_old) * sizeof to->all[0]);
    if (c == NULL || copy_parts(to, c))
        return to;
    *is_lost = true;
    pl_race_clock_drop(to);
    return NULL;
}

static void remove_lanes(struct pl_race_clock *c, struct pl_race_lanes *l)
{
    uint32_t at = (uint32_t)(l - c->lanes);
    memmove(l, l + 1, (c->n_lanes - at - 1) * sizeof *l);
    c->n_lanes--;
}

/* An entry that all lanes have reached moves to `all`. */
static void settle(struct pl_race_clock *c, struct pl_race_lanes *l)
{
    uint32_t least = UINT32_MAX, most = 0;
    for (uint32_t i = 0; i < 32; i++) {
        least = l->ticks[i] < least ? l->ticks[i] : least;
        most = l->ticks[i] > most ? l->ticks[i] : most;
    }
    if (least > c->all[l->agent])
        c->all[l->agent] = least;
    if (most <= c->all[l->agent])
        remove_lanes(c, l);
}

static struct pl_race_lanes *lanes_made(struct pl_race_clock *c, uint32_t agent, bool *is_lost)
{
    uint32_t at = 0;
    while (at < c->n_lanes && c->lanes[at].agent < agent)
        at++;
    if (at < c->n_lanes && c->lanes[at].agent == agent)
        return &c->lanes[at];
    struct pl_race_lanes *grown = realloc(c->lanes, (c->n_lanes + 1) * sizeof *grown);
    if (grown == NULL) {
        *is_lost = true;
        return NULL;
    }
    c->lanes = grown;
    memmove(grown + at + 1, grown + at, (c->n_lanes - at) * sizeof *grown);
    c->n_lanes++;
    grown[at].agent = agent;
    for (uint32_t i = 0; i < 32; i++)
        grown[at].ticks[i] = c->all[agent];
    return &grown[at];
}

void pl_race_clock_add(struct pl_race_clock *c, uint32_t agent, uint32_t lanes, uint32_t existing,
                       uint32_t tick, bool *is_lost)
{
    if (c == NULL || tick <= c->all[agent])
        return;
    lanes |= ~existing; /* lanes that do not exist have done everything that they ever will */
    if (lanes == ALL_LANES) {
        c->all[agent] = tick;
        struct pl_race_lanes *l = (struct pl_race_lanes *)(uintptr_t)lanes_of(c, agent);
        if (l != NULL)
            settle(c, l);
        return;
    }
    struct pl_race_lanes *l = lanes_made(c, agent, is_lost);
    if (l == NULL)
        return;
    for (uint32_t left = lanes; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(left);
        l->ticks[i] = tick > l->ticks[i] ? tick : l->ticks[i];
    }
    settle(c, l);
}

/* ---- joining --------------------------------------------------------------------------------------------------------- */

static bool is_within(const struct pl_race_clock *a, const struct pl_race_clock *b)
{
    uint32_t beyond = 0;
    for (uint32_t i = 0; i < a->n_agents; i++)
        beyond |= a->all[i] > (i < b->n_agents ? b->all[i] : 0);
    if (beyond != 0) /* b may still know all lanes one by one; rare, and then a join is made */
        return false;
    for (uint32_t i = 0; i < a->n_lanes; i++)
        for (uint32_t k = 0; k < 32; k++)
            if (!pl_race_clock_covers(b, a->lanes[i].agent, 1u << k, a->lanes[i].ticks[k]))
                return false;
    for (uint32_t i = 0; i < a->n_foreign; i++) {
        const struct pl_race_clock *f = pl_race_clock_of_cluster(b, a->foreign[i].cluster);
        if (f != a->foreign[i].clock && (f == NULL || !is_within(a->foreign[i].clock, f)))
            return false;
    }
    return true;
}

static void join_one_foreign(struct pl_race_clock *c, uint32_t cluster, struct pl_race_clock *from,
                             bool *is_lost)
{
    uint32_t at = 0;
    while (at < c->n_foreign && c->foreign[at].cluster < cluster)
        at++;
    if (at < c->n_foreign && c->foreign[at].cluster == cluster) {
        pl_race_clock_join(&c->foreign[at].clock, from, is_lost);
        return;
    }
    struct pl_race_foreign *grown = realloc(c->foreign, (c->n_foreign + 1) * sizeof *grown);
    if (grown == NULL) {
        *is_lost = true;
        return;
    }
    c->foreign = grown;
    memmove(grown + at + 1, grown + at, (c->n_foreign - at) * sizeof *grown);
    c->n_foreign++;
    grown[at] = (struct pl_race_foreign){cluster, pl_race_clock_ref(from)};
}

/* Agents of one cluster: all and lanes. */
static void join_agents(struct pl_race_clock *c, const struct pl_race_clock *from, bool *is_lost)
{
    for (uint32_t i = 0; i < from->n_agents; i++)
        c->all[i] = from->all[i] > c->all[i] ? from->all[i] : c->all[i];
    for (uint32_t i = 0; i < from->n_lanes; i++)
        for (uint32_t k = 0; k < 32; k++)
            pl_race_clock_add(c, from->lanes[i].agent, 1u << k, ALL_LANES, from->lanes[i].ticks[k],
                              is_lost);
    for (uint32_t i = c->n_lanes; i-- > 0;)
        settle(c, &c->lanes[i]);
}

void pl_race_clock_join(struct pl_race_clock **to, struct pl_race_clock *from, bool *is_lost)
{
    struct pl_race_clock *a = *to;
    if (from == NULL || a == from)
        return;
    if (a == NULL || is_within(a, from)) {
        *to = pl_race_clock_ref(from);
        pl_race_clock_drop(a);
        return;
    }
    if (is_within(from, a))
        return;
    struct pl_race_clock *c = pl_race_clock_copy(a, from->n_agents, is_lost);
    if (c == NULL)
        return;
    join_agents(c, from, is_lost);
    for (uint32_t i = 0; i < from->n_foreign; i++)
        join_one_foreign(c, from->foreign[i].cluster, from->foreign[i].clock, is_lost);
    *to = c;
    pl_race_clock_drop(a);
}

void pl_race_clock_join_foreign(struct pl_race_clock **to, uint32_t own, uint32_t cluster,
                                struct pl_race_clock *from, bool *is_lost)
{
    if (from == NULL)
        return;
    struct pl_race_clock *mine =
        (struct pl_race_clock *)(uintptr_t)pl_race_clock_of_cluster(from, own);
    struct pl_race_clock *c = pl_race_clock_copy(*to, mine != NULL ? mine->n_agents : 0, is_lost),
                         *agents = pl_race_clock_copy(NULL, from->n_agents, is_lost);
    if (c != NULL && agents != NULL) {
        join_agents(agents, from, is_lost);
        join_one_foreign(c, cluster, agents, is_lost);
        if (mine != NULL)
            join_agents(c, mine, is_lost);
        for (uint32_t i = 0; i < from->n_foreign; i++)
            if (from->foreign[i].cluster != own)
                join_one_foreign(c, from->foreign[i].cluster, from->foreign[i].clock, is_lost);
        pl_race_clock_drop(*to);
        *to = pl_race_clock_ref(c);
    }
    pl_race_clock_drop(agents);
    pl_race_clock_drop(c);
}
