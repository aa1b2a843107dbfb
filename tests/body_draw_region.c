/* Regions, and what is drawn into them. */
#include "tests/body_draw.h"

#include "base/debug.h"

#include <string.h>

enum { MAX_DEPTH = 3 };

static const struct {
    const char *name;
    int32_t weight;
    char level;
} kinds[] = {
#define BODY(id, weight, level) [BODY_##id] = {#id, weight, #level[0]},
#include "tests/body.def"
#undef BODY
};

const char *body_kind_name(enum body_kind k) { return kinds[k].name; }

struct scope_mark draw_enter(struct draw *d, int32_t region, pl_scope level, bool is_loop)
{
    const struct scope_mark m = {d->n_visible, region, d->level};
    d->level = draw_least_level(d->level, level);
    d->depth++;
    d->n_loops += is_loop;
    return m;
}

void draw_leave(struct draw *d, struct scope_mark m, bool is_loop)
{
    d->p->stmts[m.region].end = d->p->n_stmts;
    d->n_visible = m.n_visible;
    d->level = m.level;
    d->depth--;
    d->n_loops -= is_loop;
}

/* A value that is at most `most` steps from lo, or a literal. */
int32_t draw_count(struct draw *d, int32_t most, pl_scope least)
{
    const int32_t i = draw_pick(d, PL_DT(I32), NULL, WANT_SCALAR);
    return i >= 0 && draw_stmt(d, i)->is_integral && draw_stmt(d, i)->hi <= most &&
                   draw_stmt(d, i)->lo >= -3 && draw_stmt(d, i)->level >= least
               ? i
               : BODY_LIT;
}

bool draw_FOR(struct draw *d)
{
    const int32_t hi = draw_count(d, 5, PL_SCOPE_WARPGROUP);
    struct scope_mark m;
    const int32_t before = d->n_visible;
    struct body_stmt *s = draw_add(d, BODY_FOR, PL_I32, NULL);
    s->args[0] = hi;
    s->lit_i = draw_below(d, 4);
    s->axis = draw_between(d, -1, 1); /* first */
    s->n = 1 + draw_below(d, 2);      /* step */
    draw_level_of_args(d, s);
    draw_know(s, s->axis, (hi >= 0 ? draw_stmt(d, hi)->hi : (double)s->lit_i) - 1);
    if (s->hi < s->lo)
        s->hi = s->lo;
    m = draw_enter(d, draw_index_of(d, s), s->level, true);
    m.n_visible = before;
    draw_block(d, 2 + draw_below(d, 6));
    draw_leave(d, m, true);
    return true;
}

bool draw_WHILE(struct draw *d)
{
    const int32_t limit = draw_count(d, 4, PL_SCOPE_WARPGROUP),
                  var = draw_pick_var(d, DRAW_INTS, 0);
    struct body_stmt *s = draw_add(d, BODY_WHILE, PL_DTYPE_NONE, NULL);
    s->args[0] = limit;
    s->args[1] = var;
    s->lit_i = draw_below(d, 4);
    s->op = draw_below(d, 2); /* 1: PL_LOOP and pl_break_if */
    const struct scope_mark m = draw_enter(d, draw_index_of(d, s), PL_SCOPE_WARPGROUP, true);
    draw_block(d, 2 + draw_below(d, 5));
    draw_leave(d, m, true);
    return true;
}

bool draw_IF(struct draw *d)
{
    const int32_t c = draw_pick(d, DRAW_PREDS, NULL, WANT_SCALAR);
    if (c < 0)
        return false;
    const pl_scope level = draw_stmt(d, c)->level;
    struct body_stmt *s = draw_add(d, BODY_IF, PL_DTYPE_NONE, NULL);
    s->args[0] = c;
    struct scope_mark m = draw_enter(d, draw_index_of(d, s), level, false);
    draw_block(d, 1 + draw_below(d, 5));
    draw_leave(d, m, false);
    if (draw_chance(d, 50))
        return true;
    s = draw_add(d, BODY_ELSE, PL_DTYPE_NONE, NULL);
    s->args[0] = c;
    m = draw_enter(d, draw_index_of(d, s), level, false);
    draw_block(d, 1 + draw_below(d, 5));
    draw_leave(d, m, false);
    return true;
}

bool draw_ELSE(struct draw *d) { return (void)d, false; }
bool draw_SLOT(struct draw *d) { return (void)d, false; }

pl_shape draw_stage_shape(struct draw *d)
{
    pl_shape s = d->shapes[draw_below(d, DRAW_N_SHAPES)];
    while (s.rank > 2) {
        s.rank--;
        memmove(s.d, s.d + 1, 3 * sizeof s.d[0]);
    }
    return s;
}

/* What comes with a step: the view that is copied, of which one index may be the step. */
static void add_slot(struct draw *d, int32_t owner)
{
    const struct body_stmt *o = draw_stmt(d, owner);
    struct body_stmt *s = draw_add(d, BODY_SLOT, o->t, &o->s);
    s->args[0] = owner;
    if (d->p->tensors[o->view.base].is_small)
        draw_know(s, 0, 7);
    s->is_raw = true;
}

/* A step statement is seen while its view is drawn, as a rank-0 i32; then it has the type and shape of its tile. */
static struct body_stmt *add_stages(struct draw *d, enum body_kind kind, pl_scope least)
{
    const pl_shape shape = draw_stage_shape(d);
    const pl_dtype t = draw_memory_type(d);
    const int32_t n = draw_count(d, 5, least), before = d->n_visible;
    struct body_stmt *s = draw_add(d, kind, PL_I32, NULL);
    s->args[0] = n;
    s->lit_i = draw_below(d, 6);
    s->n = 1 + draw_below(d, 4);             /* stages */
    s->op = s->n > 1 ? draw_below(d, 2) : 0; /* lag */
    draw_level_of_args(d, s);
    draw_know(s, 0, 5);
    d->unfinished = BODY_NONE;
    struct body_view v;
    if (!draw_input_view(d, t, &shape, least, &v)) {
        d->p->n_stmts--;
        d->n_visible = before;
        return NULL;
    }
    s->view = v;
    s->t = t;
    s->s = shape;
    s->tr = draw_transforms(d, t, &shape);
    d->n_visible = before;
    return s;
}

bool draw_PIPELINE(struct draw *d)
{
    struct body_stmt *s = add_stages(d, BODY_PIPELINE, PL_SCOPE_CTA);
    if (s == NULL)
        return false;
    const int32_t i = draw_index_of(d, s);
    const struct scope_mark m = draw_enter(d, i, s->level, true);
    add_slot(d, i);
    draw_block(d, 2 + draw_below(d, 5));
    draw_leave(d, m, true);
    return true;
}

/* ---- blocks ---- */

static const struct {
    bool (*draw)(struct draw *d);
} drawers[] = {
#define BODY(id, weight, level) [BODY_##id] = {draw_##id},
#include "tests/body.def"
#undef BODY
};

static bool may_stand(const struct draw *d, enum body_kind k)
{
    const pl_scope least = kinds[k].level == 'C'   ? PL_SCOPE_CLUSTER
                           : kinds[k].level == 'A' ? PL_SCOPE_CTA
                                                   : PL_SCOPE_WARPGROUP;
    if (kinds[k].weight == 0 || d->level < least || (least > PL_SCOPE_WARPGROUP && d->is_in_role))
        return false;
    return !body_is_region(k) || (d->depth < MAX_DEPTH && draw_has_room(d));
}

static enum body_kind draw_kind(struct draw *d)
{
    int32_t sum = 0;
    for (int k = 0; k < BODY_KIND_COUNT; k++)
        sum += kinds[k].weight;
    int32_t at = draw_below(d, sum), k = 0;
    while (at >= kinds[k].weight)
        at -= kinds[k++].weight;
    return (enum body_kind)k;
}

void draw_block(struct draw *d, int32_t n)
{
    for (int32_t tries = 0; n > 0 && tries < 200 && draw_has_room(d); tries++) {
        const enum body_kind k = draw_kind(d);
        d->unfinished = BODY_NONE;
        if (may_stand(d, k) && drawers[k].draw(d))
            n--;
    }
}

void draw_outs(struct draw *d, int n)
{
    for (int tries = 0; n > 0 && tries < 20; tries++) {
        d->unfinished = BODY_NONE;
        n -= draw_OUT(d);
    }
}
