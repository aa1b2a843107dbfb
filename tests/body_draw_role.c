/*
 * Roles that hand tiles on through pipes. A warp copies them in; on the way there may be a warp that multiplies and a warpgroup that
 * computes; at the end warpgroups take them, or a warp copies them out. All roles take the same steps, each in a loop of its own form.
 */
#include "tests/body_draw.h"

#include "base/debug.h"

#include <string.h>

#define ONLY_BROUGHT_ALONG(id)                                                                     \
    bool draw_##id(struct draw *d) { return (void)d, false; }
ONLY_BROUGHT_ALONG(ROLE)
ONLY_BROUGHT_ALONG(WALK)
ONLY_BROUGHT_ALONG(PRODUCE)
ONLY_BROUGHT_ALONG(CONSUME)
ONLY_BROUGHT_ALONG(TAKE)
ONLY_BROUGHT_ALONG(FILL)
ONLY_BROUGHT_ALONG(PUT)
ONLY_BROUGHT_ALONG(MULTIPLY)
ONLY_BROUGHT_ALONG(ACCUMULATE)
ONLY_BROUGHT_ALONG(SUM)
ONLY_BROUGHT_ALONG(DRAIN)

enum { ANY_WARP = -1 };

/* The links of one program. */
struct chain {
    int32_t next_warpgroup, next_warp; /* that no role has */
    int32_t last;                      /* pipe */
    bool has_product, is_by_wgmma, has_link, is_drained;
    int32_t n_group;                /* products that are added up in a step */
    bool takes_both, takes_in_turn; /* what was computed, and what it was computed from */
};

static struct body_stmt *add_link(struct draw *d, enum body_kind kind)
{
    struct body_stmt *s = draw_add(d, kind, PL_DTYPE_NONE, NULL);
    s->is_link = true;
    return s;
}

/* ---- roles, loops, slots ---- */

static struct scope_mark enter_role(struct draw *d, int32_t first, int32_t n, int32_t warp)
{
    struct body_stmt *s = draw_add(d, BODY_ROLE, PL_DTYPE_NONE, NULL);
    s->n = first;
    s->op = n;
    s->axis = warp;
    s->lit_i = draw_below(d, 2); /* by PL_WARPGROUPS, where it is one */
    return draw_enter(d, draw_index_of(d, s), PL_SCOPE_WARPGROUP, false);
}

static int32_t n_steps(const struct body_walk *w) { return w->n_outer * w->n; }

static struct scope_mark enter_walk(struct draw *d)
{
    struct body_stmt *s = draw_add(d, BODY_WALK, PL_I32, NULL);
    s->is_link = true;
    s->op = draw_below(d, 3);
    s->args[0] = d->p->walk.count;
    s->level = PL_SCOPE_CTA;
    draw_know(s, 0, n_steps(&d->p->walk) > 0 ? n_steps(&d->p->walk) - 1 : 0);
    d->unfinished = BODY_NONE;
    struct scope_mark m = draw_enter(d, draw_index_of(d, s), PL_SCOPE_CTA, true);
    m.n_visible--; /* the step is known inside only */
    return m;
}

static struct scope_mark enter_slot(struct draw *d, enum body_kind kind, int32_t pipe)
{
    struct body_stmt *s = add_link(d, kind);
    s->n = pipe;
    return draw_enter(d, draw_index_of(d, s), PL_SCOPE_CTA, false);
}

/* Several products for each step. */
static struct scope_mark enter_group(struct draw *d, int32_t n)
{
    struct body_stmt *s = draw_add(d, BODY_FOR, PL_I32, NULL);
    s->is_link = true;
    s->args[0] = BODY_LIT;
    s->lit_i = n;
    s->n = 1;
    s->level = PL_SCOPE_GPU;
    draw_know(s, 0, n - 1);
    d->unfinished = BODY_NONE;
    struct scope_mark m = draw_enter(d, draw_index_of(d, s), PL_SCOPE_GPU, true);
    m.n_visible--;
    return m;
}

static int32_t add_pipe(struct draw *d, struct body_pipe pipe)
{
    struct body *p = d->p;
    PL_ASSERT(p->n_pipes < BODY_MAX_PIPES);
    pipe.stages = 1 + draw_below(d, 4);
    pipe.lag = pipe.stages > 1 && draw_chance(d, 40);
    p->pipes[p->n_pipes] = pipe;
    return p->n_pipes++;
}

/* ---- the first: copies ---- */

static bool fill_views(struct draw *d, const struct body_pipe *p, struct body_view v[2])
{
    if (!draw_input_view(d, p->t, &p->s, PL_SCOPE_CTA, &v[0]) ||
        (p->second.rank > 0 && !draw_input_view(d, p->t, &p->second, PL_SCOPE_CTA, &v[1])))
        return false;
    for (int i = 0; p->second.rank > 0 && i < 2; i++)
        d->p->tensors[v[i].base].is_small = true;
    return true;
}

static bool draw_source(struct draw *d, struct chain *c)
{
    const int32_t pipe = c->last;
    const struct scope_mark role = enter_role(d, 0, 1, c->next_warp++);
    const struct scope_mark walk = enter_walk(d);
    struct scope_mark group = {0};
    if (c->n_group > 1)
        group = enter_group(d, c->n_group);
    struct body_view v[2];
    const bool is_ok = fill_views(d, &d->p->pipes[pipe], v);
    if (is_ok) {
        const struct scope_mark slot = enter_slot(d, BODY_PRODUCE, pipe);
        struct body_stmt *s = add_link(d, BODY_FILL);
        s->view = v[0];
        s->n = pipe;
        if (d->p->pipes[pipe].second.rank > 0)
            add_link(d, BODY_SLOT)->view = v[1];
        draw_leave(d, slot, false);
    }
    if (c->n_group > 1)
        draw_leave(d, group, true);
    draw_leave(d, walk, true);
    draw_leave(d, role, false);
    return is_ok;
}

/* ---- in between ---- */

static void draw_multiplier(struct draw *d, struct chain *c)
{
    const struct body_pipe from = d->p->pipes[c->last];
    const int32_t to = add_pipe(
        d, (struct body_pipe){.t = pl_dtype_kind_of(from.t) == PL_KIND_FLOAT ? PL_F32 : PL_I32,
                              .s = PL_SHAPE(from.s.d[0], from.second.d[0]),
                              .producer = PL_BY_MMA,
                              .is_tmem = true});
    d->p->pipes[to].stages = 1 + draw_below(d, 2);
    d->p->pipes[to].lag = d->p->pipes[to].stages > 1 && draw_chance(d, 30);
    const struct scope_mark role = enter_role(d, 0, 1, c->next_warp++);
    const struct scope_mark walk = enter_walk(d), out = enter_slot(d, BODY_PRODUCE, to);
    struct scope_mark group = {0};
    if (c->n_group > 1)
        group = enter_group(d, c->n_group);
    const int32_t step = c->n_group > 1 ? group.region : BODY_NONE;
    const struct scope_mark in = enter_slot(d, BODY_CONSUME, c->last);
    struct body_stmt *s = add_link(d, BODY_MULTIPLY);
    s->n = c->last;
    s->op = to;
    s->args[0] = step; /* from the second on it is added */
    draw_leave(d, in, false);
    if (c->n_group > 1)
        draw_leave(d, group, true);
    draw_leave(d, out, false);
    draw_leave(d, walk, true);
    draw_leave(d, role, false);
    c->last = to;
}

static void add_take(struct draw *d, int32_t pipe)
{
    const struct body_pipe *p = &d->p->pipes[pipe];
    struct body_stmt *s = draw_add(d, BODY_TAKE, p->t, &p->s);
    s->is_link = true;
    s->n = pipe;
    s->op = draw_below(d, 2); /* waits at once, where that is something */
    s->is_raw = !p->is_tmem;
}

/* A slot of the next pipe is filled while one of this is held. */
static void draw_computer(struct draw *d, struct chain *c)
{
    const int32_t n_spare = d->p->n_warpgroups - c->next_warpgroup - !c->is_drained,
                  n = n_spare > 1 && draw_chance(d, 60) ? 2 : 1;
    const struct scope_mark role = enter_role(d, c->next_warpgroup, n, ANY_WARP);
    c->next_warpgroup += n;
    d->p->pipes[c->last].n_computers = n;
    draw_block(d, draw_below(d, 3));
    const int32_t to = add_pipe(d, (struct body_pipe){.producer = PL_BY_THREADS});
    const bool takes_first = draw_chance(d, 60);
    const struct scope_mark walk = enter_walk(d),
                            outer = takes_first ? enter_slot(d, BODY_CONSUME, c->last)
                                                : enter_slot(d, BODY_PRODUCE, to),
                            inner = takes_first ? (struct scope_mark){0}
                                                : enter_slot(d, BODY_CONSUME, c->last);
    add_take(d, c->last);
    const int32_t take = d->p->n_stmts - 1;
    draw_block(d, draw_between(d, 1, 4));
    d->unfinished = BODY_NONE;
    int32_t value = draw_pick(d, DRAW_ALL, NULL, WANT_ARRAY);
    if (value < 0 || draw_stmt(d, value)->s.rank > 2)
        value = take;
    const struct body_stmt v = *draw_stmt(d, value);
    struct body_pipe *p = &d->p->pipes[to];
    p->t = v.t;
    p->s = v.s;
    p->n_producers = n;
    if (n > 1) {
        memmove(p->s.d + 1, p->s.d, 3 * sizeof p->s.d[0]);
        p->s.d[0] = n;
        p->s.rank++;
    }
    p->tr = draw_transforms(d, v.t, &p->s);
    const struct scope_mark last = takes_first ? enter_slot(d, BODY_PRODUCE, to) : inner;
    struct body_stmt *s = add_link(d, BODY_PUT);
    s->n = to;
    s->op = draw_stmt(d, role.region)->n; /* the first of the warpgroups */
    s->args[0] = value;
    draw_leave(d, last, false);
    draw_leave(d, outer, false);
    draw_leave(d, walk, true);
    draw_outs(d, draw_below(d, 2));
    draw_leave(d, role, false);
    c->last = to;
}

/* ---- the last ---- */

static bool draw_drain(struct draw *d, struct chain *c)
{
    const struct body_pipe p = d->p->pipes[c->last];
    pl_shape shape = p.s;
    shape.rank += 2;
    shape.d[0] = d->p->n_ctas;
    shape.d[1] = n_steps(&d->p->walk) > 0 ? n_steps(&d->p->walk) : 1;
    for (int i = 0; i < p.s.rank; i++)
        shape.d[2 + i] = p.s.d[i] + (draw_chance(d, 30) ? draw_between(d, -1, 2) : 0);
    for (int i = 0; i < p.s.rank; i++)
        shape.d[2 + i] += shape.d[2 + i] == 0;
    const int32_t k = draw_tensor(d, p.t, &shape, PL_ROLE_OUT);
    if (k < 0)
        return false;
    d->p->pipes[c->last].consumer = PL_BY_COPY_OUT;
    d->p->pipes[c->last].n_consumers = 1;
    const struct scope_mark role = enter_role(d, 0, 1, c->next_warp++);
    const struct scope_mark walk = enter_walk(d), in = enter_slot(d, BODY_CONSUME, c->last);
    struct body_stmt *s = add_link(d, BODY_DRAIN);
    s->n = c->last;
    s->view = (struct body_view){.base = k, .s = p.s};
    draw_step(&s->view, BODY_AT)->at[0] = (struct body_index){0, 1, 0, 0};
    draw_step(&s->view, BODY_AT)->at[0] = (struct body_index){walk.region, 1, 0, 0};
    draw_step(&s->view, BODY_WINDOW)->s = p.s;
    draw_leave(d, in, false);
    draw_leave(d, walk, true);
    draw_leave(d, role, false);
    return true;
}

/* Products of the slots, in registers; behind a group of them the sum is a value. */
static void draw_sums(struct draw *d, const struct chain *c)
{
    const struct body_pipe p = d->p->pipes[c->last];
    const pl_shape shape = PL_SHAPE(p.s.d[0], p.second.d[0]);
    struct scope_mark group = {0};
    if (c->n_group > 1)
        group = enter_group(d, c->n_group);
    const struct scope_mark in = enter_slot(d, BODY_CONSUME, c->last);
    struct body_stmt *s = add_link(d, BODY_ACCUMULATE);
    const int32_t acc = draw_index_of(d, s);
    s->n = c->last;
    s->args[0] = c->n_group > 1 ? group.region : BODY_NONE;
    s->s = shape;
    draw_leave(d, in, false);
    if (c->n_group > 1)
        draw_leave(d, group, true);
    s = draw_add(d, BODY_SUM, pl_dtype_kind_of(p.t) == PL_KIND_FLOAT ? PL_F32 : PL_I32, &shape);
    s->is_link = true;
    s->n = acc;
    draw_know(s, 0, 49.0 * (double)p.s.d[1] * c->n_group);
    draw_block(d, 1 + draw_below(d, 4));
}

static void draw_takers(struct draw *d, const struct chain *c, int32_t first, int32_t n)
{
    const struct scope_mark role = enter_role(d, first, n, ANY_WARP);
    draw_block(d, 2 + draw_below(d, 4));
    const struct scope_mark walk = enter_walk(d);
    if (c->is_by_wgmma) {
        draw_sums(d, c);
    } else {
        struct scope_mark first_in = {0};
        if (c->takes_both)
            first_in = enter_slot(d, BODY_CONSUME, 0), add_take(d, 0);
        if (c->takes_both && c->takes_in_turn)
            draw_block(d, 1 + draw_below(d, 3)), draw_leave(d, first_in, false);
        const struct scope_mark in = enter_slot(d, BODY_CONSUME, c->last);
        add_take(d, c->last);
        draw_block(d, 2 + draw_below(d, 5));
        draw_leave(d, in, false);
        if (c->takes_both && !c->takes_in_turn)
            draw_leave(d, first_in, false);
    }
    draw_leave(d, walk, true);
    draw_outs(d, 2);
    draw_leave(d, role, false);
}

/* ---- all of it ---- */

static void draw_walk(struct draw *d)
{
    struct body_walk *w = &d->p->walk;
    *w = (struct body_walk){.count = BODY_LIT,
                            .n = draw_below(d, 7),
                            .n_outer = draw_chance(d, 60) ? 1 : 1 + draw_below(d, 3),
                            .stop = draw_chance(d, 20) ? draw_below(d, 6) : 1000,
                            .skip = draw_chance(d, 20) ? draw_below(d, 3) : -1};
    w->has_tiles = draw_chance(d, 25);
    const int32_t i = draw_count(d, 6, PL_SCOPE_CTA);
    if (i >= 0 && !w->has_tiles && draw_chance(d, 50)) {
        w->count = i;
        w->n = draw_stmt(d, i)->hi > 0 ? (int32_t)draw_stmt(d, i)->hi : 0;
    }
}

/* A pair of operands for products: the second one has K last too. */
static struct body_pipe operand_pipe(struct draw *d, bool is_wgmma)
{
    static const pl_dtype types[] = {PL_F16, PL_BF16, PL_I8, PL_E4M3};
    const pl_dtype t = types[draw_below(d, PL_COUNT(types))];
    const int64_t k = 256 / pl_dtype_bits(t) * draw_between(d, 1, 2);
    const bool is_tall = !is_wgmma && draw_chance(d, 60);
    return (struct body_pipe){
        .t = t,
        .s = PL_SHAPE(is_tall ? 128 : 64, k),
        .second = PL_SHAPE(is_tall ? 16 : 8 * draw_between(d, 1, 4), k),
        .tr = {.swizzle_bytes = PL_SWIZZLE_CHOOSE},
        .producer = PL_BY_COPIES,
    };
}

static struct body_pipe tile_pipe(struct draw *d)
{
    const pl_dtype t = draw_memory_type(d);
    const pl_shape s = draw_stage_shape(d);
    return (struct body_pipe){
        .t = t, .s = s, .tr = draw_transforms(d, t, &s), .producer = PL_BY_COPIES};
}

static struct chain draw_chain(struct draw *d)
{
    const int32_t arch = d->p->arch;
    struct chain c = {.next_warpgroup = 1, .n_group = 1};
    c.has_product = arch == 100 && draw_chance(d, 60);
    c.is_by_wgmma = arch == 90 && draw_chance(d, 45);
    c.is_drained = !c.is_by_wgmma && draw_chance(d, 35);
    c.has_link = !c.is_by_wgmma && (d->p->n_warpgroups > 2 || c.is_drained) && draw_chance(d, 60);
    if (c.has_product && !c.has_link)
        c.is_drained = false; /* no copy comes from tensor memory */
    if (c.has_product || c.is_by_wgmma)
        c.n_group = draw_between(d, 1, 3);
    return c;
}

/* Who empties the pipes that nobody has said it of. */
static void set_consumers(struct draw *d, const struct chain *c)
{
    struct body *p = d->p;
    for (int32_t i = 0; i < p->n_pipes; i++)
        if (p->pipes[i].n_consumers == 0) {
            p->pipes[i].consumer = p->pipes[i].second.rank > 0 ? PL_BY_MMA : PL_BY_THREADS;
            p->pipes[i].n_consumers =
                i == c->last || (i == 0 && c->takes_both) ? p->n_warpgroups - c->next_warpgroup : 0;
            p->pipes[i].n_consumers +=
                p->pipes[i].n_computers + (p->pipes[i].second.rank > 0 && i != c->last);
        }
}

void draw_roles(struct draw *d)
{
    struct chain c = draw_chain(d);
    d->unfinished = BODY_NONE;
    draw_walk(d);
    c.last =
        add_pipe(d, c.has_product || c.is_by_wgmma ? operand_pipe(d, c.is_by_wgmma) : tile_pipe(d));
    d->is_in_role = true;
    bool is_ok = draw_source(d, &c);
    if (c.has_product)
        draw_multiplier(d, &c);
    if (c.has_link)
        draw_computer(d, &c);
    if (c.is_drained)
        is_ok = draw_drain(d, &c) && is_ok;
    c.takes_both = c.has_link && !c.has_product && !c.is_drained && draw_chance(d, 40);
    set_consumers(d, &c);
    c.takes_in_turn = draw_chance(d, 50);
    const int32_t first = c.next_warpgroup, n = d->p->n_warpgroups - first;
    const bool is_one_role = n > 1 && draw_chance(d, 50);
    for (int32_t g = 0; !c.is_drained && g < (is_one_role ? 1 : n); g++)
        draw_takers(d, &c, first + g, is_one_role ? n : 1);
    for (int32_t i = 0; !is_ok && i < d->p->n_stmts; i++)
        draw_stmt(d, i)->is_dropped = draw_stmt(d, i)->is_link;
    body_settle(d->p);
}
