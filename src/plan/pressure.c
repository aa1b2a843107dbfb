/*
 * How many registers a thread's values need at once, before any assembler says so: a register lives from its first writing to its last
 * reading, and through the whole of every loop that it enters alive and is read in. The assembler moves and merges, so its own count
 * differs; tests/matmul_ptxas.c prints both.
 */
#include "src/plan/pressure.h"

#include "base/debug.h"

#include <string.h>

struct range {
    uint32_t first, last; /* steps, + 1; 0: none */
};
struct loop {
    uint32_t first, last;
};
struct pressure {
    const struct pl_steps *steps;
    struct range *ranges[PL_RC_COUNT]; /* of register i at i + 1; at 0 what touches none */
    uint32_t *labels;                  /* step of each label, + 1 */
    PL_VEC(struct loop) loops;
};

static inline void touch(struct range *const ranges[PL_RC_COUNT], const struct pl_opnd *o,
                         uint32_t at)
{
    if (o->kind != PL_OPND_REG && o->kind != PL_OPND_ADDR)
        return;
    struct range *r = &ranges[pl_reg_class(o->u.reg)][pl_reg_index(o->u.reg) + 1];
    if (r->first == 0)
        r->first = at;
    r->last = at;
}

/* A guard counts nothing. */
static inline void touch_opnds(struct pressure *p, const struct pl_step *s, uint32_t at)
{
    const struct pl_opnd *pool = p->steps->pool.data, *end = pool + s->opnds + s->n_opnds;
    for (const struct pl_opnd *o = pool + s->opnds; o < end; o++) {
        touch(p->ranges, o, at);
        for (uint32_t i = 0; o->kind == PL_OPND_LIST && i < o->n; i++)
            touch(p->ranges, &pool[o->u.index + i], at);
    }
}

static void look_at_steps(struct pressure *p, struct pl_arena *arena)
{
    for (uint32_t at = 0; at < p->steps->list.n; at++) {
        const struct pl_step *s = &p->steps->list.data[at];
        const struct pl_opnd *opnds = &p->steps->pool.data[s->opnds];
        touch_opnds(p, s, at + 1);
        if (s->op == PL_STEP_label)
            p->labels[opnds[0].u.index] = at + 1;
        if (s->op == PL_STEP_jump && p->labels[opnds[0].u.index] != 0) {
            struct loop *l = pl_vec_push(arena, &p->loops);
            if (l != NULL)
                *l = (struct loop){p->labels[opnds[0].u.index], at + 1};
        }
    }
}

/* Inner loops stand before outer ones, since their jumps do. */
static uint32_t last_through_loops(const struct loop *loops, uint32_t n, const struct range *r)
{
    uint32_t last = r->last;
    for (const struct loop *l = loops; l < loops + n; l++)
        if (last >= l->first && last < l->last && r->first < l->first)
            last = l->last;
    return last;
}

uint32_t pl_pressure(struct pl_arena *arena, const struct pl_steps *steps)
{
    static const uint8_t weights[PL_RC_COUNT] = {[PL_RC_B16] = 1, [PL_RC_B32] = 1, [PL_RC_B64] = 2};
    struct pressure p = {.steps = steps};
    const uint32_t n = steps->list.n;
    int32_t *changes = pl_arena_array(arena, n + 2, sizeof *changes), now = 0, most = 0;
    p.labels = pl_arena_array(arena, steps->n_labels + 1, sizeof *p.labels);
    for (int c = 0; c < PL_RC_COUNT; c++)
        p.ranges[c] = pl_arena_array(arena, steps->n_regs[c] + 1, sizeof *p.ranges[c]);
    if (pl_arena_is_exhausted(arena))
        return 0;
    look_at_steps(&p, arena);
    for (int c = 0; c < PL_RC_COUNT; c++)
        for (struct range *r = p.ranges[c] + 1; r <= p.ranges[c] + steps->n_regs[c]; r++) {
            if (r->first == 0)
                continue;
            changes[r->first] += weights[c];
            changes[last_through_loops(p.loops.data, p.loops.n, r) + 1] -= weights[c];
        }
    for (uint32_t i = 1; i <= n; i++) {
        now += changes[i];
        most = now > most ? now : most;
    }
    return (uint32_t)most;
}
