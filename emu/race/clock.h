#ifndef PL_EMU_RACE_CLOCK_H
#define PL_EMU_RACE_CLOCK_H
/*
 * Vector clocks of the race check: what a thread knows to have happened.
 *
 * Time is counted per *agent*: a warp of the cluster, or a slot that an asynchronous operation was given (emu/race.h). An
 * entry holds for all 32 lanes of an agent, or lane by lane where the lanes are known up to different ticks; whole warps
 * are the rule, so that a clock is one number an agent. Agents are numbered within a cluster; what a thread knows of other
 * clusters of the grid hangs behind, a clock for each.
 *
 * A clock is never changed once it is shared: joining and adding make a new one, or give back one of the two.
 */
#include <stdbool.h>
#include <stdint.h>

struct pl_race_lanes {
    uint32_t agent;
    uint32_t ticks[32];
};

struct pl_race_foreign {
    uint32_t cluster;
    struct pl_race_clock *clock; /* has no foreign part of its own */
};

struct pl_race_clock {
    uint32_t n_refs;
    uint32_t n_agents; /* entries of all; agents beyond: 0 */
    uint32_t n_lanes, n_foreign;
    struct pl_race_lanes *lanes;     /* by ascending agent; ticks above those of all */
    struct pl_race_foreign *foreign; /* by ascending cluster */
    uint32_t all[];
};

/* NULL is the clock that knows nothing. All functions take NULL. */
struct pl_race_clock *pl_race_clock_ref(struct pl_race_clock *c);
void pl_race_clock_drop(struct pl_race_clock *c);
bool pl_race_clock_covers(const struct pl_race_clock *c, uint32_t agent, uint32_t lanes,
                          uint32_t tick);
/* The clock of another cluster in c, or NULL. */
const struct pl_race_clock *pl_race_clock_of_cluster(const struct pl_race_clock *c,
                                                     uint32_t cluster);

/* A clock to change, of at least n_agents entries, with what c knows; then add to it, then share it. Without memory all of
 * these answer NULL and set *is_lost: what a clock forgets would be reported as a race. */
struct pl_race_clock *pl_race_clock_copy(const struct pl_race_clock *c, uint32_t n_agents,
                                         bool *is_lost);
/* lanes of an agent whose lanes are `existing` are known up to tick. */
void pl_race_clock_add(struct pl_race_clock *c, uint32_t agent, uint32_t lanes, uint32_t existing,
                       uint32_t tick, bool *is_lost);

/* *to knows what from knows too. */
void pl_race_clock_join(struct pl_race_clock **to, struct pl_race_clock *from, bool *is_lost);
/* The same for a clock of another cluster; own: the cluster of *to. */
void pl_race_clock_join_foreign(struct pl_race_clock **to, uint32_t own, uint32_t cluster,
                                struct pl_race_clock *from, bool *is_lost);
#endif
