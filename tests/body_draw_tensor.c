/*
 * Statements of tensor memory and of accumulators in registers, on the chips that have them. Sums there are of whole numbers, so that no
 * order of additions matters.
 */
#include "tests/body_draw.h"

#include "base/debug.h"

#include <string.h>

enum { MOST_COLUMNS = 512, MOST_STORED = 1000 };

#define TMEM_TYPES                                                                                 \
    (PL_DT(F32) | PL_DT(F16) | PL_DT(BF16) | PL_DT(I32) | PL_DT(U32) | PL_DT(I16) | PL_DT(U16) |   \
     PL_DT(I8) | PL_DT(U8) | PL_DT(E4M3) | PL_DT(E5M2))

pl_shape draw_tmem_shape(struct draw *d)
{
    return d->p->is_pair || draw_chance(d, 60) ? PL_SHAPE(128, 8 * draw_between(d, 1, 2))
                                               : PL_SHAPE(64, 8 * draw_between(d, 1, 4));
}

/* Columns that a load or store of the rows and type takes at a time. */
static int32_t step_of(pl_dtype t, int64_t n_rows)
{
    return n_rows == 64 ? 8 : pl_dtype_bits(t) < 32 ? 32 / pl_dtype_bits(t) : 1;
}

static bool is_storable(pl_dtype t, const pl_shape *s)
{
    return draw_has_type(TMEM_TYPES, t) && s->rank == 2 && (s->d[0] == 64 || s->d[0] == 128) &&
           (s->d[0] == 128 || pl_dtype_bits(t) >= 16) && s->d[1] % step_of(t, s->d[0]) == 0 &&
           s->d[1] <= 64;
}

static bool takes_columns(struct draw *d, int32_t n)
{
    if (d->n_columns + n + 4 > MOST_COLUMNS)
        return false;
    d->n_columns += (n + 3) / 4 * 4;
    return true;
}

static int32_t add_array(struct draw *d, const struct body_tmem *a)
{
    struct body *p = d->p;
    if (p->n_tmem == BODY_MAX_TMEM ||
        !takes_columns(d, a->n_slots * a->n_columns * (a->is_shared ? 1 : p->n_warpgroups)))
        return BODY_NONE;
    p->tmem[p->n_tmem] = *a;
    return p->n_tmem++;
}

/* A slot of the array, of the unit where it has parts for each, and columns of it. */
static void view_of(struct draw *d, int32_t k, const pl_shape *s, struct body_view *v)
{
    const struct body_tmem *a = &d->p->tmem[k];
    *v = (struct body_view){.is_tmem = true, .base = k, .s = *s};
    struct body_view_step *st = draw_step(v, BODY_AT);
    const pl_scope least = d->p->is_pair ? PL_SCOPE_GPU : PL_SCOPE_CTA; /* one for both of a pair */
    if (a->is_shared)
        st->at[0] = draw_index(d, 0, a->n_slots - 1, least);
    else
        st->at[0] = (struct body_index){1, a->n_slots, draw_below(d, a->n_slots), 0};
    if (s->d[1] == a->n_columns && draw_chance(d, 70))
        return;
    st = draw_step(v, BODY_TILE);
    st->s = *s;
    st->at[1] = draw_index(d, 0, a->n_columns / (int32_t)s->d[1] - 1,
                           a->is_shared ? PL_SCOPE_CTA : PL_SCOPE_WARPGROUP);
}

static int32_t find_array(struct draw *d, pl_dtype t, const pl_shape *s, bool is_sum)
{
    const int32_t n = d->p->n_tmem, first = n == 0 ? 0 : draw_below(d, n);
    for (int32_t i = 0; i < n; i++) {
        const int32_t k = (first + i) % n;
        const struct body_tmem *a = &d->p->tmem[k];
        if (k != d->busy_tmem && a->t == t && a->is_sum == is_sum && a->n_rows == s->d[0] &&
            a->n_columns % s->d[1] == 0)
            return k;
    }
    return BODY_NONE;
}

/* Threads write a sum only when it is the unit's, and whole numbers to it. */
static bool store_to_sum(struct draw *d)
{
    const int32_t k = d->p->n_tmem == 0 ? BODY_NONE : draw_below(d, d->p->n_tmem);
    if (k < 0 || k == d->busy_tmem || !d->p->tmem[k].is_sum || d->p->tmem[k].is_shared)
        return false;
    const struct body_tmem a = d->p->tmem[k];
    const pl_shape s = PL_SHAPE(a.n_rows, a.n_columns);
    int32_t i = draw_pick(d, (pl_dtype_set)1 << a.t, &s, WANT_ANY);
    if (i < 0)
        i = draw_pick(d, (pl_dtype_set)1 << a.t, NULL, WANT_SCALAR);
    if (i < 0 || !draw_stmt(d, i)->is_integral || draw_stmt(d, i)->hi > MOST_STORED ||
        draw_stmt(d, i)->lo < -MOST_STORED)
        return false;
    struct body_stmt *st = draw_add(d, BODY_TMEM_STORE, PL_DTYPE_NONE, NULL);
    st->args[0] = i;
    view_of(d, k, &s, &st->view);
    st->op = draw_below(d, 2); /* commit */
    return true;
}

bool draw_TMEM_STORE(struct draw *d)
{
    if (d->p->arch != 100)
        return false;
    if (draw_chance(d, 25))
        return store_to_sum(d);
    const int32_t i = draw_pick(d, TMEM_TYPES, NULL, WANT_ARRAY);
    if (i < 0 || !is_storable(draw_stmt(d, i)->t, &draw_stmt(d, i)->s) ||
        (d->p->is_pair && draw_stmt(d, i)->s.d[0] == 64))
        return false;
    const struct body_stmt x = *draw_stmt(d, i);
    int32_t k = find_array(d, x.t, &x.s, false);
    if (k < 0)
        k = add_array(d,
                      &(struct body_tmem){.t = x.t,
                                          .n_slots = 1 + draw_below(d, 2),
                                          .n_rows = (int32_t)x.s.d[0],
                                          .n_columns = (int32_t)x.s.d[1] * (1 + draw_below(d, 2))});
    if (k < 0)
        return false;
    struct body_view v;
    view_of(d, k, &x.s, &v);
    struct body_stmt *s = draw_add(d, BODY_TMEM_STORE, PL_DTYPE_NONE, NULL);
    s->args[0] = i;
    s->view = v;
    s->op = draw_below(d, 2); /* commit */
    return true;
}

bool draw_TMEM_LOAD(struct draw *d)
{
    const int32_t k = d->p->n_tmem == 0 ? BODY_NONE : draw_below(d, d->p->n_tmem);
    if (k < 0 || k == d->busy_tmem)
        return false;
    const struct body_tmem a = d->p->tmem[k];
    int32_t width = a.n_columns;
    if (width % 2 == 0 && width / 2 % step_of(a.t, a.n_rows) == 0 && draw_chance(d, 30))
        width /= 2;
    const pl_shape shape = PL_SHAPE(a.n_rows, width);
    struct body_view v;
    view_of(d, k, &shape, &v);
    struct body_stmt *s = draw_add(d, BODY_TMEM_LOAD, a.t, &shape);
    s->view = v;
    s->op = draw_below(d, 4); /* 1: a wait follows; 2: through a variable in the other layout */
    if (a.n_rows != 128 || pl_dtype_bits(a.t) < 16 || width % 8 != 0)
        s->op &= 1;
    s->is_raw = !a.is_sum;
    return true;
}

/* The type of the sum. In f16 one product is exact, and several are not. */
static pl_dtype sum_type(struct draw *d, pl_dtype t)
{
    return t == PL_I8 || t == PL_U8 ? PL_I32 : t != PL_BF16 && draw_chance(d, 15) ? PL_F16 : PL_F32;
}

/* Outside roles one thread issues for the CTA. */
static bool is_of_cta(const struct draw *d) { return d->p->n_warpgroups > 1 && !d->is_in_role; }

/* Who must come to a product. */
static pl_scope least_of(const struct draw *d)
{
    return d->p->is_pair ? PL_SCOPE_CLUSTER : is_of_cta(d) ? PL_SCOPE_CTA : PL_SCOPE_WARPGROUP;
}

static int32_t sum_array(struct draw *d, pl_dtype t, const pl_shape *s)
{
    const int32_t n = d->p->n_tmem, k = n == 0 ? BODY_NONE : find_array(d, t, s, true);
    if (k >= 0 && d->p->tmem[k].is_shared == is_of_cta(d) && d->p->tmem[k].n_columns == s->d[1])
        return k;
    return add_array(d, &(struct body_tmem){.t = t,
                                            .n_slots = 1 + draw_below(d, 2),
                                            .n_rows = (int32_t)s->d[0],
                                            .n_columns = (int32_t)s->d[1],
                                            .is_sum = true,
                                            .is_shared = is_of_cta(d)});
}

static enum body_way draw_way(struct draw *d, const pl_shape *s)
{
    enum body_way way = (enum body_way)draw_below(d, 4);
    if (is_of_cta(d) && (way == BODY_BY_THREADS || way == BODY_TMEM_BY_THREADS))
        way = BODY_BY_COPY;
    if (d->p->is_pair && way >= BODY_TMEM_BY_THREADS) /* the columns are too few for it */
        way = BODY_BY_COPY;
    if (way == BODY_TMEM_BY_COPY && s->d[0] != 128)
        way = BODY_BY_COPY;
    if (way >= BODY_TMEM_BY_THREADS && s->d[1] % 16 != 0)
        way = BODY_BY_COPY;
    return way;
}

bool draw_TMEM_MMA(struct draw *d)
{
    static const pl_dtype types[] = {PL_F16, PL_BF16, PL_I8, PL_U8, PL_E4M3, PL_E5M2};
    if (d->p->arch != 100 || d->level < least_of(d))
        return false;
    const pl_dtype t = types[draw_below(d, PL_COUNT(types))], sum = sum_type(d, t);
    if (d->p->is_pair && sum == PL_I32) /* they come in 32 columns */
        return false;
    const pl_shape shape =
        d->p->is_pair || draw_chance(d, 60) ? PL_SHAPE(128, 16) : draw_tmem_shape(d);
    const pl_scope least = least_of(d) > PL_SCOPE_CTA ? PL_SCOPE_CTA : least_of(d);
    const int64_t k = 256 / pl_dtype_bits(t) * draw_between(d, 1, sum == PL_F16 ? 1 : 2);
    const pl_shape left = PL_SHAPE(shape.d[0], k),
                   right = PL_SHAPE(shape.d[1] / (d->p->is_pair ? 2 : 1), k);
    enum body_way way = draw_way(d, &shape);
    if (shape.d[0] == 64 && pl_dtype_bits(t) == 8 && way == BODY_TMEM_BY_THREADS)
        way = BODY_BY_THREADS;
    struct body_view x, y, to;
    const int32_t array = sum_array(d, sum, &shape);
    if (array < 0 || !draw_input_view(d, t, &left, least, &x) ||
        !draw_input_view(d, t, &right, least, &y) ||
        (way >= BODY_TMEM_BY_THREADS && !takes_columns(d, (int32_t)k * pl_dtype_bits(t) / 32)))
        return false;
    d->p->tensors[x.base].is_small = d->p->tensors[y.base].is_small = true;
    view_of(d, array, &shape, &to);
    const int32_t pred = sum == PL_F16        ? BODY_NONE
                         : draw_chance(d, 30) ? draw_pick(d, DRAW_PREDS, NULL, WANT_SCALAR)
                                              : BODY_NONE;
    struct body_stmt *s = draw_add(d, BODY_TMEM_MMA, PL_DTYPE_NONE, NULL);
    const int32_t mma = draw_index_of(d, s);
    s->view = to;
    s->op = (int32_t)way;
    s->axis = sum != PL_F16 && draw_chance(d, 60); /* adds to what is there */
    if (pred >= 0 && draw_stmt(d, pred)->level >= least_of(d))
        s->args[0] = pred;                                             /* ... when this holds */
    s->n = d->busy_tmem < 0 && draw_has_room(d) && draw_chance(d, 40); /* waited for later */
    draw_add(d, BODY_SLOT, PL_DTYPE_NONE, NULL)->view = x;
    draw_add(d, BODY_SLOT, PL_DTYPE_NONE, NULL)->view = y;
    if (s->n == 0)
        return true;
    d->busy_tmem = array;
    draw_block(d, draw_between(d, 1, 3));
    draw_add(d, BODY_WAIT, PL_DTYPE_NONE, NULL)->args[0] = mma;
    d->busy_tmem = BODY_NONE;
    return true;
}

/* ---- accumulators of wgmma ---- */

static int32_t find_acc(struct draw *d, pl_dtype t)
{
    struct body *p = d->p;
    for (int32_t k = 0; k < p->n_accs; k++)
        if (p->accs[k].t == t && draw_chance(d, 70))
            return k;
    if (p->n_accs == BODY_MAX_ACCS)
        return BODY_NONE;
    p->accs[p->n_accs] = (struct body_acc){t, 8 * draw_between(d, 1, 4)};
    return p->n_accs++;
}

bool draw_ACC_ADD(struct draw *d)
{
    static const pl_dtype types[] = {PL_F16, PL_BF16, PL_I8, PL_E4M3, PL_E5M2};
    if (d->p->arch != 90)
        return false;
    const pl_dtype t = types[draw_below(d, PL_COUNT(types))];
    const int32_t acc = find_acc(d, draw_is_float(t) ? PL_F32 : PL_I32);
    if (acc < 0)
        return false;
    const int64_t k = 256 / pl_dtype_bits(t) * draw_between(d, 1, 2);
    const pl_shape left = PL_SHAPE(64, k), right = PL_SHAPE(d->p->accs[acc].n_columns, k);
    struct body_view x, y;
    if (!draw_input_view(d, t, &left, PL_SCOPE_WARPGROUP, &x) ||
        !draw_input_view(d, t, &right, PL_SCOPE_WARPGROUP, &y))
        return false;
    d->p->tensors[x.base].is_small = d->p->tensors[y.base].is_small = true;
    const int32_t pred =
        draw_chance(d, 30) ? draw_pick(d, DRAW_PREDS, NULL, WANT_SCALAR) : BODY_NONE;
    struct body_stmt *s = draw_add(d, BODY_ACC_ADD, PL_DTYPE_NONE, NULL);
    s->n = acc;
    s->op = draw_chance(d, 45); /* x in registers: always added */
    s->axis = s->op == 1 || draw_chance(d, 70);
    s->args[0] = s->op == 1 ? BODY_NONE : pred;
    s->lit_i = draw_chance(d, 30) ? draw_below(d, 2) : -1; /* waits until so many are unfinished */
    draw_add(d, BODY_SLOT, PL_DTYPE_NONE, NULL)->view = x;
    draw_add(d, BODY_SLOT, PL_DTYPE_NONE, NULL)->view = y;
    return true;
}

bool draw_ACC_LOAD(struct draw *d)
{
    if (d->p->n_accs == 0)
        return false;
    const int32_t k = draw_below(d, d->p->n_accs);
    const pl_shape shape = PL_SHAPE(64, d->p->accs[k].n_columns);
    draw_add(d, BODY_ACC_LOAD, d->p->accs[k].t, &shape)->n = k;
    return true;
}

bool draw_ACC_INIT(struct draw *d)
{
    if (d->p->n_accs == 0)
        return false;
    const int32_t k = draw_below(d, d->p->n_accs);
    const pl_shape shape = PL_SHAPE(64, d->p->accs[k].n_columns);
    int32_t i = draw_pick(d, (pl_dtype_set)1 << d->p->accs[k].t, &shape, WANT_ANY);
    if (i < 0)
        i = draw_pick(d, (pl_dtype_set)1 << d->p->accs[k].t, NULL, WANT_SCALAR);
    if (i < 0 || !draw_stmt(d, i)->is_integral || draw_stmt(d, i)->hi > MOST_STORED ||
        draw_stmt(d, i)->lo < -MOST_STORED)
        return false;
    struct body_stmt *s = draw_add(d, BODY_ACC_INIT, PL_DTYPE_NONE, NULL);
    s->n = k;
    s->args[0] = i;
    return true;
}
