/* Random programs: what is drawn has a meaning, no races, and results that do not depend on an order of rounding. */
#include "tests/body_draw.h"

#include "base/debug.h"

#include <string.h>

/* ---- data ---- */

static uint64_t draw_bits(struct draw *d, const struct body_tensor *x)
{
    if (x->t == PL_PRED)
        return random_below(&d->r, 2);
    if (x->is_small)
        return body_of_int(x->t, draw_below(d, 8));
    switch ((int)x->t) {
    case PL_F64: return random_float(&d->r, 11, 52);
    case PL_F32: return random_float(&d->r, 8, 23);
    case PL_F16: return random_float(&d->r, 5, 10);
    case PL_BF16: return random_float(&d->r, 8, 7);
    default: return random_int(&d->r, (unsigned)pl_dtype_bits(x->t));
    }
}

static void fill_tensors(struct draw *d)
{
    for (int32_t i = 0; i < d->p->n_tensors; i++) {
        struct body_tensor *x = &d->p->tensors[i];
        const size_t n = (size_t)x->n_alloc, es = (size_t)pl_dtype_bits(x->t) / 8;
        x->data = calloc(n, es);
        x->want = calloc(n, es);
        for (size_t k = 0; k < n; k++) {
            const uint64_t v = draw_bits(d, x);
            memcpy(x->data + k * es, &v, es);
        }
    }
}

/* ---- a program ---- */

void body_draw(struct body *p, uint64_t seed, int32_t arch)
{
    *p = (struct body){.seed = seed, .arch = arch};
    struct draw d = {.p = p,
                     .r = {seed},
                     .level = PL_SCOPE_GPU,
                     .unfinished = BODY_NONE,
                     .busy = BODY_NONE,
                     .busy_tmem = BODY_NONE};
    p->has_roles = draw_chance(&d, 20);
    p->n_warpgroups = p->has_roles          ? 2 + draw_below(&d, 3)
                      : draw_chance(&d, 60) ? 1
                                            : 2 + draw_below(&d, 2);
    p->cluster = arch >= 90 && draw_chance(&d, 25) ? 2 : 1;
    p->is_pair = arch == 100 && p->cluster == 2 && !p->has_roles && draw_chance(&d, 60);
    p->n_ctas = p->cluster * (1 + draw_below(&d, 2));
    p->scalars[0] = draw_below(&d, 5);
    p->scalars[1] = draw_between(&d, -20, 40);
    static const pl_fact_set choices[] = {
        0, PL_FACT_I32, PL_FACT_ALIGN16 | PL_FACT_I32 | PL_FACT_UNIT_STRIDE,
        PL_FACT_ALIGN16 | PL_FACT_I32 | PL_FACT_UNIT_STRIDE | PL_FACT_WHOLE16,
        PL_FACT_UNIT_STRIDE | PL_FACT_DENSE | PL_FACT_ALIGN16};
    p->facts = choices[draw_below(&d, PL_COUNT(choices))];
    for (int i = 0; i < DRAW_N_SHAPES; i++)
        d.shapes[i] = i == 0 && draw_chance(&d, 30) ? PL_SHAPE(64, 8 * draw_between(&d, 1, 4))
                                                    : draw_shape(&d); /* a product's */
    if (arch == 100 && draw_chance(&d, 50))
        d.shapes[DRAW_N_SHAPES - 1] = draw_tmem_shape(&d);
    struct body_stmt *s = draw_add(&d, BODY_ID, PL_I32, NULL);
    draw_know(s, 0, p->n_ctas - 1), s->level = PL_SCOPE_CTA;
    s = draw_add(&d, BODY_ID, PL_I32, NULL);
    s->op = 1;
    draw_know(s, 0, p->n_warpgroups - 1);
    draw_block(&d, 8 + draw_below(&d, 22));
    if (p->has_roles)
        draw_roles(&d);
    else
        draw_outs(&d, 3);
    fill_tensors(&d);
}

void body_free(struct body *p)
{
    for (int32_t i = 0; i < p->n_tensors; i++) {
        free(p->tensors[i].data);
        free(p->tensors[i].want);
        p->tensors[i].data = p->tensors[i].want = NULL;
    }
}
/* ---- making smaller ---- */

static bool is_gone(const struct body *p, int32_t val)
{
    return val >= 0 && p->stmts[val].is_dropped;
}

static bool uses_gone(const struct body *p, const struct body_stmt *s)
{
    bool gone = false;
    for (int k = 0; k < 3; k++)
        gone = gone || is_gone(p, s->args[k]);
    for (int k = 0; k < 4; k++)
        gone = gone || is_gone(p, s->index[k].val);
    for (int i = 0; i < s->view.n_steps; i++)
        for (int k = 0; k < 4; k++)
            gone = gone || is_gone(p, s->view.steps[i].at[k].val);
    return gone;
}

/* Pipes are filled and emptied by all of their roles, or are not there. */
static void settle_pipes(struct body *p)
{
    bool gone = false;
    for (int32_t i = 0; i < p->n_stmts; i++)
        gone = gone || (p->stmts[i].is_dropped && p->stmts[i].is_link);
    for (int32_t i = 0; gone && i < p->n_stmts; i++)
        p->stmts[i].is_dropped = p->stmts[i].is_dropped || p->stmts[i].is_link;
}

void body_settle(struct body *p)
{
    int32_t n_before = -1, n = 0;
    while (n != n_before) {
        n_before = n;
        n = 0;
        for (int32_t i = 0; i < p->n_stmts; i++) {
            struct body_stmt *s = &p->stmts[i];
            if (s->kind == BODY_WAIT && s->is_dropped)
                p->stmts[s->args[0]].is_dropped = true;
            const int32_t n_more = body_n_more(s->kind);
            for (int32_t k = 0; k <= n_more; k++)
                s->is_dropped = s->is_dropped || uses_gone(p, s + k);
            for (int32_t k = i + 1; s->is_dropped && k < s->end + n_more; k++)
                p->stmts[k].is_dropped = true;
            if (s->is_dropped && s->kind == BODY_IF && s->end < p->n_stmts &&
                p->stmts[s->end].kind == BODY_ELSE)
                p->stmts[s->end].is_dropped = true;
        }
        settle_pipes(p);
        for (int32_t i = 0; i < p->n_stmts; i++)
            n += p->stmts[i].is_dropped;
    }
}
