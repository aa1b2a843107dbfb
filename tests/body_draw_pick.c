/* What the next statement is made of: types, values in sight, shapes, indexes that stay in their range. */
#include "tests/body_draw.h"

#include "base/debug.h"

#include <string.h>

pl_dtype draw_type(struct draw *d, pl_dtype_set set)
{
    pl_dtype t;
    do
        t = (pl_dtype)draw_below(d, PL_DTYPE_COUNT);
    while (t == PL_DTYPE_NONE || !draw_has_type(set, t));
    return t;
}

/* Largest magnitude up to which all integers are exact. */
double draw_exact_of(pl_dtype t)
{
    switch ((int)t) {
    case PL_F64: return 0x1p50;
    case PL_F32: return 0x1p24;
    case PL_F16: return 0x1p11;
    case PL_BF16: return 0x1p8;
    case PL_E4M3: return 0x1p4;
    case PL_E5M2: return 0x1p3;
    case PL_I64:
    case PL_U64: return 0x1p50;
    default:
        return (double)((UINT64_C(1) << (pl_dtype_bits(t) - (pl_dtype_kind_of(t) == PL_KIND_INT))) -
                        1);
    }
}

void draw_know(struct body_stmt *s, double lo, double hi)
{
    const double most = draw_exact_of(s->t);
    const bool is_unsigned = pl_dtype_kind_of(s->t) == PL_KIND_UINT;
    s->is_integral = s->t != PL_PRED && hi <= most && lo >= (is_unsigned ? 0 : -most);
    s->lo = lo;
    s->hi = hi;
}

/* ---- statements ---- */

bool draw_has_room(const struct draw *d) { return d->p->n_stmts < BODY_MAX_STMTS - 24; }

/* The next statement; it is seen by others when it makes a value. */
struct body_stmt *draw_add(struct draw *d, enum body_kind kind, pl_dtype t, const pl_shape *s)
{
    const int32_t i = d->p->n_stmts++;
    PL_ASSERT(i < BODY_MAX_STMTS);
    struct body_stmt *st = draw_stmt(d, i);
    *st = (struct body_stmt){.kind = kind,
                             .end = i + 1,
                             .args = {BODY_NONE, BODY_NONE, BODY_NONE},
                             .t = t,
                             .level = PL_SCOPE_WARPGROUP};
    for (int k = 0; k < 4; k++)
        st->index[k].val = BODY_NONE;
    if (s != NULL)
        st->s = *s;
    if (t != PL_DTYPE_NONE)
        d->visible[d->n_visible++] = i;
    d->unfinished = i;
    return st;
}

int32_t draw_index_of(const struct draw *d, const struct body_stmt *s)
{
    return (int32_t)(s - d->p->stmts);
}

static bool is_value(const struct body_stmt *s) { return s->kind != BODY_VAR; }

/* A value in sight of one of the types and, when given, of that shape; recent ones are likelier. */
int32_t draw_pick(struct draw *d, pl_dtype_set types, const pl_shape *s, enum draw_want want)
{
    int32_t found[BODY_MAX_STMTS], n = 0;
    for (int32_t i = 0; i < d->n_visible; i++) {
        const struct body_stmt *v = draw_stmt(d, d->visible[i]);
        const bool fits =
            is_value(v) && d->visible[i] != d->unfinished && draw_has_type(types, v->t) &&
            (s == NULL || (s->rank == v->s.rank && memcmp(s->d, v->s.d, sizeof s->d) == 0)) &&
            (want == WANT_ANY || (want == WANT_ARRAY) == (v->s.rank > 0));
        if (fits)
            found[n++] = d->visible[i];
    }
    if (n == 0)
        return BODY_NONE;
    return found[n > 6 && draw_chance(d, 60) ? n - 1 - draw_below(d, 6) : draw_below(d, n)];
}

int32_t draw_pick_var(struct draw *d, pl_dtype_set types, int rank)
{
    int32_t found[BODY_MAX_STMTS], n = 0;
    for (int32_t i = 0; i < d->n_visible; i++) {
        const struct body_stmt *v = draw_stmt(d, d->visible[i]);
        if (v->kind == BODY_VAR && draw_has_type(types, v->t) && (rank < 0 || v->s.rank == rank))
            found[n++] = d->visible[i];
    }
    return n == 0 ? BODY_NONE : found[draw_below(d, n)];
}

pl_scope draw_least_level(pl_scope a, pl_scope b) { return a < b ? a : b; }

void draw_level_of_args(struct draw *d, struct body_stmt *s)
{
    s->level = PL_SCOPE_GPU;
    for (int k = 0; k < 3; k++)
        if (s->args[k] >= 0)
            s->level = draw_least_level(s->level, draw_stmt(d, s->args[k])->level);
    if (s->s.rank > 0)
        s->level = PL_SCOPE_WARPGROUP;
}

/* ---- shapes and indexes ---- */

pl_shape draw_shape(struct draw *d)
{
    static const int64_t extents[] = {1,  2,  3,  4,  5,  7,  8,   12,  16,  17,
                                      31, 32, 33, 48, 64, 65, 100, 128, 129, 200};
    pl_shape s;
    do {
        s = (pl_shape){.rank = 1 + draw_below(d, 100) / 45};
        for (int i = 0; i < s.rank; i++)
            s.d[i] = extents[draw_below(d, PL_COUNT(extents))];
    } while (body_n_elems(&s) > BODY_MAX_ELEMS);
    return s;
}

pl_shape draw_like_shape(struct draw *d)
{
    return draw_chance(d, 90) ? d->shapes[draw_below(d, DRAW_N_SHAPES)] : draw_shape(d);
}

struct body_index draw_constant(int32_t v) { return (struct body_index){BODY_NONE, 0, v, 0}; }

/* Always in [lo, hi]. */
struct body_index draw_index(struct draw *d, int32_t lo, int32_t hi, pl_scope least)
{
    if (lo >= hi)
        return draw_constant(lo);
    for (int tries = 0; tries < 3; tries++) {
        const int32_t v = draw_pick(d, PL_DT(I32), NULL, WANT_SCALAR);
        if (v < 0 || !draw_stmt(d, v)->is_integral || draw_stmt(d, v)->level < least ||
            draw_stmt(d, v)->hi - draw_stmt(d, v)->lo > hi - lo)
            continue;
        const struct body_stmt *s = draw_stmt(d, v);
        const double span = s->hi - s->lo;
        int32_t scale = draw_chance(d, 70) ? 1 : draw_between(d, -3, 4);
        if (scale == 0 || span * (scale < 0 ? -scale : scale) > hi - lo)
            scale = 1;
        const int32_t least_term = (int32_t)(scale > 0 ? scale * s->lo : scale * s->hi),
                      slack = hi - lo - (int32_t)(span * (scale < 0 ? -scale : scale));
        const int32_t push = draw_chance(d, 50) ? 0 : draw_between(d, 0, slack);
        struct body_index x = {v, scale, lo - least_term + push, 0};
        if (s->lo == s->hi && draw_chance(d, 40)) { /* what is known of it, the library is told */
            const int64_t at = (int64_t)scale * (int32_t)s->lo + x.add;
            x.multiple = 16;
            while (at % x.multiple != 0)
                x.multiple /= 2;
        }
        return x;
    }
    return draw_constant(draw_between(d, lo, hi));
}
