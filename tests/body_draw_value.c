/* Statements that make a value from values. What is drawn has one result: no division by 0, sums that are exact in every order. */
#include "tests/body_draw.h"

#include "base/debug.h"

#include <string.h>

bool draw_ID(struct draw *d)
{
    struct body *p = d->p;
    struct body_stmt *s = draw_add(d, BODY_ID, PL_I32, NULL);
    s->op = draw_below(d, 6);
    switch (s->op) {
    case 0: draw_know(s, 0, p->n_ctas - 1), s->level = PL_SCOPE_CTA; break;
    case 1: draw_know(s, 0, p->n_warpgroups - 1); break;
    case 2: draw_know(s, p->n_ctas, p->n_ctas), s->level = PL_SCOPE_GPU; break;
    case 3: draw_know(s, 0, p->cluster - 1), s->level = PL_SCOPE_CTA; break;
    case 4:
        s->n = draw_below(d, 2);
        draw_know(s, p->scalars[s->n], p->scalars[s->n]), s->level = PL_SCOPE_GPU;
        break;
    default:
        s->level = PL_SCOPE_GPU;
        if (p->n_tensors == 0) {
            s->op = 2, draw_know(s, p->n_ctas, p->n_ctas);
            break;
        }
        s->n = draw_below(d, p->n_tensors);
        if (p->tensors[s->n].s.rank == 0) {
            s->op = 2, draw_know(s, p->n_ctas, p->n_ctas);
            break;
        }
        s->axis = draw_below(d, p->tensors[s->n].s.rank);
        draw_know(s, (double)p->tensors[s->n].s.d[s->axis], (double)p->tensors[s->n].s.d[s->axis]);
    }
    return true;
}

static void draw_literal(struct draw *d, struct body_stmt *s, pl_dtype t, int64_t lo, int64_t hi)
{
    if (pl_dtype_kind_of(t) == PL_KIND_UINT && lo < 0)
        lo = 0;
    s->lit_i = draw_between(d, lo, hi);
    s->lit_f = draw_is_float(t) ? (double)s->lit_i : 0;
    if (draw_is_float(t) && draw_chance(d, 30))
        s->lit_f += 0.375;
}

bool draw_CONST(struct draw *d)
{
    struct body_stmt *s = draw_add(d, BODY_CONST, draw_type(d, DRAW_FLOATS | DRAW_INTS), NULL);
    draw_literal(d, s, s->t, -9, 100);
    s->level = PL_SCOPE_GPU;
    if (!draw_is_float(s->t) || s->lit_f == (double)s->lit_i)
        draw_know(s, (double)s->lit_i, (double)s->lit_i);
    return true;
}

bool draw_IOTA(struct draw *d)
{
    const pl_shape shape = draw_like_shape(d);
    const pl_dtype t = draw_type(d, DRAW_FLOATS | DRAW_INTS);
    struct body_stmt *s = draw_add(d, BODY_IOTA, t, &shape);
    s->axis = draw_below(d, shape.rank);
    draw_know(s, 0, (double)(shape.d[s->axis] - 1));
    return true;
}

bool draw_UNARY(struct draw *d)
{
    static const struct {
        pl_op1 op;
        char kinds[4];
    } ops[] = {{PL_NEG, "FI"},  {PL_ABS, "FI"}, {PL_NOT, "IB"},  {PL_SQRT, "F"},
               {PL_FLOOR, "F"}, {PL_CEIL, "F"}, {PL_ROUND, "F"}, {PL_TRUNC, "F"},
               {PL_POPC, "I"},  {PL_CLZ, "I"},  {PL_BREV, "I"},  {PL_RCP, "F"}};
    const int k = draw_below(d, PL_COUNT(ops));
    pl_dtype_set types = 0;
    for (const char *c = ops[k].kinds; *c != '\0'; c++)
        types |= *c == 'F' ? DRAW_FLOATS : *c == 'I' ? DRAW_INTS : DRAW_PREDS;
    const int32_t x = draw_pick(d, types, NULL, WANT_ANY);
    if (x < 0 || (ops[k].op == PL_RCP && pl_dtype_bits(draw_stmt(d, x)->t) < 32))
        return false;
    struct body_stmt *s = draw_add(d, BODY_UNARY, draw_stmt(d, x)->t, &draw_stmt(d, x)->s);
    s->op = (int32_t)ops[k].op;
    s->args[0] = x;
    draw_level_of_args(d, s);
    const struct body_stmt *v = draw_stmt(d, x);
    if (ops[k].op == PL_ABS && v->is_integral && v->lo >= 0)
        draw_know(s, v->lo, v->hi);
    if (ops[k].op == PL_NEG && v->is_integral && !draw_is_float(v->t))
        draw_know(s, -v->hi, -v->lo);
    return true;
}

static void know_binary(struct body_stmt *s, const struct body_stmt *x, double lo, double hi)
{
    const double a = x->lo, b = x->hi;
    if (!x->is_integral)
        return;
    switch (s->op) {
    case PL_ADD: draw_know(s, a + lo, b + hi); break;
    case PL_SUB: draw_know(s, a - hi, b - lo); break;
    case PL_MUL:
        if (a >= 0 && lo >= 0)
            draw_know(s, a * lo, b * hi);
        break;
    case PL_MIN: draw_know(s, a < lo ? a : lo, b < hi ? b : hi); break;
    case PL_MAX: draw_know(s, a > lo ? a : lo, b > hi ? b : hi); break;
    default: break;
    }
}

/* The second operand of x: a value of its type that fits, or a literal in [lo, hi]. */
static void second(struct draw *d, struct body_stmt *s, int k, const struct body_stmt *x,
                   int64_t lo, int64_t hi)
{
    int32_t y = BODY_NONE;
    if (draw_chance(d, 75))
        y = x->s.rank == 0       ? draw_pick(d, (pl_dtype_set)1 << x->t, NULL, WANT_ANY)
            : draw_chance(d, 70) ? draw_pick(d, (pl_dtype_set)1 << x->t, &x->s, WANT_ANY)
                                 : draw_pick(d, (pl_dtype_set)1 << x->t, NULL, WANT_SCALAR);
    if (y >= 0 && s->s.rank > 0 && draw_stmt(d, y)->s.rank > 0 &&
        memcmp(&s->s, &draw_stmt(d, y)->s, sizeof s->s) != 0)
        y = BODY_NONE;
    s->args[k] = y < 0 ? BODY_LIT : y;
    if (y < 0)
        draw_literal(d, s, x->t, lo, hi);
    else if (s->s.rank == 0)
        s->s = draw_stmt(d, y)->s;
}

static const pl_op2 binary_ops[] = {PL_ADD, PL_SUB, PL_MUL, PL_DIV, PL_REM, PL_CDIV, PL_MIN, PL_MAX,
                                    PL_AND, PL_OR,  PL_XOR, PL_SHL, PL_SHR, PL_EQ,   PL_NE,  PL_LT,
                                    PL_LE,  PL_GT,  PL_GE,  PL_ADD, PL_MUL, PL_AND,  PL_LT};

bool draw_BINARY(struct draw *d)
{
    const pl_op2 op = binary_ops[draw_below(d, PL_COUNT(binary_ops))];
    pl_dtype_set types = DRAW_FLOATS | DRAW_INTS;
    if (op == PL_AND || op == PL_OR || op == PL_XOR)
        types = DRAW_INTS | DRAW_PREDS;
    if (op == PL_EQ || op == PL_NE)
        types |= DRAW_PREDS;
    const bool divides = op == PL_DIV || op == PL_REM || op == PL_CDIV,
               shifts = op == PL_SHL || op == PL_SHR;
    if (op == PL_REM || op == PL_CDIV || shifts)
        types = DRAW_INTS;
    const int32_t i = draw_pick(d, types, NULL, WANT_ANY);
    if (i < 0)
        return false;
    const struct body_stmt x = *draw_stmt(d, i);
    if (op == PL_CDIV && (!x.is_integral || x.lo < 0) && pl_dtype_kind_of(x.t) != PL_KIND_UINT)
        return false;
    const bool is_compare = op >= PL_EQ && op <= PL_GE;
    struct body_stmt *s = draw_add(d, BODY_BINARY, is_compare ? PL_PRED : x.t, &x.s);
    s->op = (int32_t)op;
    s->args[0] = i;
    if (x.t == PL_PRED) {
        second(d, s, 1, &x, 0, 1);
        if (s->args[1] == BODY_LIT)
            s->args[1] = i;
    } else if (shifts) {
        s->args[1] = BODY_LIT;
        s->lit_i = draw_below(d, pl_dtype_bits(x.t));
    } else if (divides && !draw_is_float(x.t)) {
        const int32_t y = draw_pick(d, (pl_dtype_set)1 << x.t, &x.s, WANT_ANY);
        s->args[1] = BODY_LIT;
        s->lit_i = draw_chance(d, 40) ? 1 << draw_below(d, 8) : 1 + draw_below(d, 100);
        if (y >= 0 && draw_stmt(d, y)->is_integral && draw_stmt(d, y)->lo >= 1)
            s->args[1] = y;
        else if (op != PL_CDIV && pl_dtype_kind_of(x.t) == PL_KIND_INT && draw_chance(d, 20))
            s->lit_i = -1 - s->lit_i;
    } else {
        second(d, s, 1, &x, op == PL_AND ? 1 : -7, op == PL_AND ? 15 : 60);
    }
    draw_level_of_args(d, s);
    if (s->args[1] == BODY_LIT && (!draw_is_float(x.t) || s->lit_f == (double)s->lit_i)) {
        const double y = (double)s->lit_i;
        if (op == PL_AND && s->lit_i >= 0 && x.t != PL_PRED)
            draw_know(s, 0, y);
        else if (op == PL_REM && s->lit_i > 0 && x.is_integral && x.lo >= 0)
            draw_know(s, 0, y - 1);
        else
            know_binary(s, &x, y, y);
    } else if (s->args[1] >= 0 && draw_stmt(d, s->args[1])->is_integral) {
        know_binary(s, &x, draw_stmt(d, s->args[1])->lo, draw_stmt(d, s->args[1])->hi);
    }
    return true;
}

bool draw_FMA(struct draw *d)
{
    const int32_t i = draw_pick(d, DRAW_FLOATS | DRAW_INTS, NULL, WANT_ANY);
    if (i < 0)
        return false;
    const struct body_stmt x = *draw_stmt(d, i);
    struct body_stmt *s = draw_add(d, BODY_FMA, x.t, &x.s);
    s->args[0] = i;
    second(d, s, 1, &x, -3, 9);
    const int32_t z = draw_pick(d, (pl_dtype_set)1 << x.t, &s->s, WANT_ANY);
    s->args[2] = z >= 0 && z != draw_index_of(d, s) ? z : i;
    draw_level_of_args(d, s);
    return true;
}

bool draw_SELECT(struct draw *d)
{
    const int32_t c = draw_pick(d, DRAW_PREDS, NULL, WANT_ANY);
    const int32_t i =
        c < 0 ? BODY_NONE
              : draw_pick(d, DRAW_ALL,
                          draw_stmt(d, c)->s.rank > 0 && draw_chance(d, 60) ? &draw_stmt(d, c)->s
                                                                            : NULL,
                          WANT_ANY);
    if (i < 0)
        return false;
    const struct body_stmt x = *draw_stmt(d, i), cond = *draw_stmt(d, c);
    if (x.s.rank > 0 && cond.s.rank > 0 && memcmp(&x.s, &cond.s, sizeof x.s) != 0)
        return false;
    struct body_stmt *s = draw_add(d, BODY_SELECT, x.t, x.s.rank > 0 ? &x.s : &cond.s);
    s->args[0] = c;
    s->args[1] = i;
    second(d, s, 2, &x, -5, 90);
    const bool is_odd =
        s->args[2] == BODY_LIT && (draw_has_type(DRAW_STORED, x.t) || x.t == PL_PRED);
    const int32_t y = is_odd ? i : s->args[2];
    s->args[2] = y;
    draw_level_of_args(d, s);
    if (x.is_integral && y >= 0 && draw_stmt(d, y)->is_integral)
        draw_know(s, x.lo < draw_stmt(d, y)->lo ? x.lo : draw_stmt(d, y)->lo,
                  x.hi > draw_stmt(d, y)->hi ? x.hi : draw_stmt(d, y)->hi);
    s->is_raw = x.is_raw && y >= 0 && draw_stmt(d, y)->is_raw;
    return true;
}

bool draw_CAST(struct draw *d)
{
    const int32_t i = draw_pick(d, DRAW_ALL, NULL, WANT_ANY);
    if (i < 0)
        return false;
    const struct body_stmt x = *draw_stmt(d, i);
    const pl_dtype_set fp8 = PL_DT(E4M3) | PL_DT(E5M2); /* no conversion to them before sm_89 */
    const pl_dtype_set types = (DRAW_ALL) & ~(d->p->arch < 89 ? fp8 : 0);
    struct body_stmt *s = draw_add(d, BODY_CAST, draw_type(d, types), &x.s);
    s->args[0] = i;
    draw_level_of_args(d, s);
    if (x.is_integral)
        draw_know(s, x.lo, x.hi);
    if (x.t == PL_PRED)
        draw_know(s, 0, 1);
    if (s->t == x.t)
        s->is_raw = x.is_raw;
    return true;
}

bool draw_BITCAST(struct draw *d)
{
    const int32_t i = draw_pick(d, DRAW_FLOATS | DRAW_INTS | DRAW_STORED, NULL, WANT_ANY);
    if (i < 0)
        return false;
    const struct body_stmt x = *draw_stmt(d, i);
    if (draw_is_float(x.t) && !x.is_raw && !x.is_integral)
        return false;
    pl_dtype t;
    do
        t = draw_type(d, DRAW_FLOATS | DRAW_INTS | DRAW_STORED);
    while (pl_dtype_bits(t) != pl_dtype_bits(x.t));
    struct body_stmt *s = draw_add(d, BODY_BITCAST, t, &x.s);
    s->args[0] = i;
    s->is_raw = true;
    draw_level_of_args(d, s);
    return true;
}

bool draw_PTX(struct draw *d)
{
    const int k = draw_below(d, 8);
    const pl_dtype t = k == 2   ? PL_F32
                       : k == 3 ? PL_I64
                       : k == 4 ? PL_I16
                       : k == 6 ? PL_F64
                                : PL_I32;
    const int32_t i = draw_pick(d, (pl_dtype_set)1 << t, NULL, WANT_ANY);
    if (i < 0)
        return false;
    const struct body_stmt x = *draw_stmt(d, i);
    const int32_t j = draw_pick(d, (pl_dtype_set)1 << t, &x.s, WANT_ANY);
    struct body_stmt *s = draw_add(d, BODY_PTX, k == 5 ? PL_PRED : t, &x.s);
    s->op = k;
    s->args[0] = i;
    s->args[1] = j;
    draw_level_of_args(d, s);
    s->level = PL_SCOPE_WARPGROUP;
    return true;
}

bool draw_BROADCAST(struct draw *d)
{
    const int32_t i = draw_pick(d, DRAW_ALL, NULL, WANT_ANY);
    if (i < 0)
        return false;
    const struct body_stmt x = *draw_stmt(d, i);
    pl_shape shape = x.s;
    const int32_t axis = draw_below(d, shape.rank + 1);
    int64_t n = 1 + draw_below(d, 8);
    const pl_shape fav = d->shapes[draw_below(d, DRAW_N_SHAPES)]; /* towards one that others have */
    if (fav.rank == shape.rank + 1)
        n = fav.d[axis];
    for (int k = shape.rank; k > axis; k--)
        shape.d[k] = shape.d[k - 1];
    shape.d[axis] = n;
    shape.rank++;
    if (shape.rank > 3 || body_n_elems(&shape) > BODY_MAX_ELEMS)
        return false;
    struct body_stmt *s = draw_add(d, BODY_BROADCAST, x.t, &shape);
    s->args[0] = i;
    s->axis = axis;
    s->n = (int32_t)n;
    s->is_integral = x.is_integral, s->lo = x.lo, s->hi = x.hi, s->is_raw = x.is_raw;
    return true;
}

static bool draw_reduction(struct draw *d, enum body_kind kind, pl_scope scope, int64_t n_units)
{
    static const pl_op2 ops[] = {PL_ADD, PL_ADD, PL_MAX, PL_MIN, PL_MUL, PL_AND, PL_OR, PL_XOR};
    const pl_op2 op = ops[draw_below(d, PL_COUNT(ops))];
    const int32_t i =
        draw_pick(d,
                  op == PL_AND || op == PL_OR || op == PL_XOR ? DRAW_INTS | DRAW_PREDS
                                                              : DRAW_FLOATS | DRAW_INTS,
                  NULL, WANT_ARRAY);
    if (i < 0)
        return false;
    const struct body_stmt x = *draw_stmt(d, i);
    const int32_t axis = draw_below(d, x.s.rank);
    const double n = (double)(x.s.d[axis] * n_units);
    if (draw_is_float(x.t) &&
        (op == PL_MUL || (op == PL_ADD && (!x.is_integral || x.hi * n > draw_exact_of(x.t) ||
                                           x.lo * n < -draw_exact_of(x.t)))))
        return false;
    pl_shape shape = x.s;
    for (int k = axis; k + 1 < shape.rank; k++)
        shape.d[k] = shape.d[k + 1];
    shape.d[--shape.rank] = 0;
    struct body_stmt *s = draw_add(d, kind, x.t, &shape);
    s->op = (int32_t)op;
    s->args[0] = i;
    s->axis = axis;
    s->n = (int32_t)scope;
    s->level = shape.rank == 0 ? scope : PL_SCOPE_WARPGROUP;
    if (x.is_integral && op == PL_ADD)
        draw_know(s, x.lo < 0 ? x.lo * n : x.lo, x.hi > 0 ? x.hi * n : x.hi);
    if (x.is_integral && (op == PL_MIN || op == PL_MAX))
        draw_know(s, x.lo, x.hi);
    return true;
}

bool draw_REDUCE(struct draw *d) { return draw_reduction(d, BODY_REDUCE, PL_SCOPE_WARPGROUP, 1); }

bool draw_GATHER(struct draw *d)
{
    const bool is_wide = d->p->cluster > 1 && d->level >= PL_SCOPE_CLUSTER && draw_chance(d, 60);
    return draw_reduction(d, BODY_GATHER, is_wide ? PL_SCOPE_CLUSTER : PL_SCOPE_CTA,
                          d->p->n_warpgroups * (is_wide ? d->p->cluster : 1));
}

bool draw_EXTRACT(struct draw *d)
{
    const int32_t i = draw_pick(d, DRAW_ALL, NULL, WANT_ARRAY);
    if (i < 0)
        return false;
    const struct body_stmt x = *draw_stmt(d, i);
    struct body_index at[4];
    for (int k = 0; k < x.s.rank; k++)
        at[k] = draw_index(d, 0, (int32_t)x.s.d[k] - 1, PL_SCOPE_WARPGROUP);
    struct body_stmt *s = draw_add(d, BODY_EXTRACT, x.t, NULL);
    s->args[0] = i;
    memcpy(s->index, at, (size_t)x.s.rank * sizeof at[0]);
    s->is_integral = x.is_integral, s->lo = x.lo, s->hi = x.hi, s->is_raw = x.is_raw;
    return true;
}

pl_layout draw_layout(struct draw *d, const pl_shape *s)
{
    int32_t vec = 1 << draw_below(d, 4);
    while (body_n_elems(s) % vec != 0)
        vec /= 2;
    return pl_layout_strided(vec);
}

bool draw_LAYOUT_CAST(struct draw *d)
{
    const int32_t i = draw_pick(d, DRAW_ALL, NULL, WANT_ARRAY);
    if (i < 0)
        return false;
    const struct body_stmt x = *draw_stmt(d, i);
    struct body_stmt *s = draw_add(d, BODY_LAYOUT_CAST, x.t, &x.s);
    s->args[0] = i;
    s->layout = draw_layout(d, &x.s);
    if (x.s.rank == 2 && x.s.d[0] % 64 == 0 && x.s.d[1] % 8 == 0 && pl_dtype_bits(x.t) == 32 &&
        draw_chance(d, 50))
        s->layout = pl_layout_of(draw_chance(d, 50) ? PL_LAYOUT_WGMMA : PL_LAYOUT_MMA_ACC);
    s->is_integral = x.is_integral, s->lo = x.lo, s->hi = x.hi, s->is_raw = x.is_raw;
    return true;
}
