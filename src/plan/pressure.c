/*
 * How many registers a thread's values need at once, before any assembler says so: a register lives from its first writing to its last
 * reading, and through the whole of every loop that it enters alive and is read in. The assembler moves and merges, so its own count
 * differs; tests/matmul_ptxas.c prints both.
 */
#include "src/plan/lower.h"

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
    struct range *ranges[PL_RC_COUNT];
    uint32_t *labels; /* step of each label, + 1 */
    PL_VEC(struct loop) loops;
};

static void touch(struct pressure *p, pl_reg r, uint32_t at)
{
    if (r.id == 0)
        return;
    struct range *x = &p->ranges[pl_reg_class(r)][pl_reg_index(r)];
    if (x->first == 0)
        x->first = at + 1;
    x->last = at + 1;
}

static void touch_opnds(struct pressure *p, const struct pl_opnd *opnds, uint32_t n, uint32_t at)
{
    for (const struct pl_opnd *o = opnds; o < opnds + n; o++)
        if (o->kind == PL_OPND_REG || o->kind == PL_OPND_ADDR)
            touch(p, o->u.reg, at);
        else if (o->kind == PL_OPND_LIST)
            touch_opnds(p, &p->steps->pool.data[o->u.index], o->n, at);
}

static void look_at_steps(struct pressure *p, struct pl_arena *arena)
{
    for (uint32_t at = 0; at < p->steps->list.n; at++) {
        const struct pl_step *s = &p->steps->list.data[at];
        const struct pl_opnd *opnds = &p->steps->pool.data[s->opnds];
        touch_opnds(p, opnds, s->n_opnds, at); /* a guard counts nothing */
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
static void stay_through_loops(struct pressure *p, struct range *r)
{
    for (uint32_t i = 0; i < p->loops.n; i++) {
        const struct loop *l = &p->loops.data[i];
        if (r->first < l->first && r->last >= l->first && r->last < l->last)
            r->last = l->last;
    }
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
        for (uint32_t i = 0; weights[c] != 0 && i < steps->n_regs[c]; i++) {
            struct range *r = &p.ranges[c][i];
            if (r->first == 0)
                continue;
            stay_through_loops(&p, r);
            changes[r->first - 1] += weights[c];
            changes[r->last] -= weights[c];
        }
    for (uint32_t i = 0; i < n; i++) {
        now += changes[i];
        most = now > most ? now : most;
    }
    return (uint32_t)most;
}
