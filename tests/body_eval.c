/*
 * What a random program means: all units go through it statement by statement, a set of active ones through each region. Elements are
 * bit patterns; views are resolved one element at a time, as plaunch/trace.h says it, and not as the plan does it.
 */
#include "tests/body.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_UNITS = 16, MAX_TILES = 100 };

/* What goes through a pipe of one CTA, in order: the elements of a slot, of the second operand behind those of the first. */
struct tiles {
    uint64_t *tile[MAX_TILES];
    int32_t n;
};

struct machine {
    struct body *p;
    int32_t n_units;
    uint64_t *val[MAX_UNITS][BODY_MAX_STMTS]; /* values and variables */
    uint64_t *smem[MAX_UNITS][BODY_MAX_SMEM]; /* of each unit its own part */
    uint64_t *tmem[MAX_UNITS][BODY_MAX_TMEM]; /* the CTA's as its units see it, which is alike */
    uint64_t *acc[MAX_UNITS][BODY_MAX_ACCS];
    struct tiles tiles[MAX_UNITS][BODY_MAX_PIPES]; /* by CTA */
    int32_t n_taken[MAX_UNITS][BODY_MAX_PIPES];
};

static const struct body_stmt *stmt(const struct machine *m, int32_t i) { return &m->p->stmts[i]; }
static bool is_active(uint32_t mask, int32_t u) { return (mask >> u & 1) != 0; }
static int32_t cta_of(const struct machine *m, int32_t u) { return u / m->p->n_warpgroups; }
static int32_t warpgroup_of(const struct machine *m, int32_t u) { return u % m->p->n_warpgroups; }

static uint64_t *room(struct machine *m, int32_t u, int32_t i)
{
    if (m->val[u][i] == NULL)
        m->val[u][i] = calloc((size_t)body_n_elems(&stmt(m, i)->s), sizeof(uint64_t));
    return m->val[u][i];
}

/* Element e of a value, of which rank 0 is all. */
static uint64_t elem(const struct machine *m, int32_t u, int32_t val, int64_t e)
{
    return m->val[u][val][stmt(m, val)->s.rank == 0 ? 0 : e];
}

static int64_t scalar(const struct machine *m, int32_t u, int32_t val)
{
    return body_to_int(stmt(m, val)->t, m->val[u][val][0]);
}

static int64_t index_of(const struct machine *m, int32_t u, const struct body_index *x)
{
    return x->add + (x->val < 0 ? 0 : x->scale * scalar(m, u, x->val));
}

static bool is_float(pl_dtype t) { return pl_dtype_kind_of(t) == PL_KIND_FLOAT; }

static uint64_t literal(const struct body_stmt *s, pl_dtype t)
{
    return is_float(t) ? body_of_double(t, s->lit_f) : body_of_int(t, s->lit_i);
}

/* Element e of operand k; a literal has the type t. */
static uint64_t arg(const struct machine *m, int32_t u, const struct body_stmt *s, int k, int64_t e,
                    pl_dtype t)
{
    return s->args[k] == BODY_LIT ? literal(s, t) : elem(m, u, s->args[k], e);
}

/* ---- places ---- */

struct place {
    int64_t at[8];
    int32_t rank;
    bool is_out;
};

static void unravel(const pl_shape *s, int64_t e, struct place *x)
{
    x->rank = s->rank;
    for (int i = s->rank - 1; i >= 0; i--) {
        x->at[i] = e % s->d[i];
        e /= s->d[i];
    }
}

static int64_t ravel(const pl_shape *s, const int64_t *at)
{
    int64_t e = 0;
    for (int i = 0; i < s->rank; i++)
        e = e * s->d[i] + at[i];
    return e;
}

/* From an index of the view to one of what it is a view of. */
static void step_back(const struct machine *m, int32_t u, const struct body_view_step *s,
                      const pl_shape *before, struct place *x)
{
    switch (s->kind) {
    case BODY_AT:
        memmove(x->at + 1, x->at, (size_t)x->rank * sizeof x->at[0]);
        x->at[0] = index_of(m, u, &s->at[0]);
        x->rank++;
        break;
    case BODY_WINDOW:
    case BODY_TILE:
        for (int i = 0; i < x->rank; i++)
            x->at[i] += index_of(m, u, &s->at[i]) * (s->kind == BODY_TILE ? s->s.d[i] : 1);
        break;
    case BODY_CLIP: x->is_out = x->is_out || x->at[s->axis] >= index_of(m, u, &s->at[0]); break;
    case BODY_TRANSPOSE: {
        const int64_t last = x->at[x->rank - 1];
        x->at[x->rank - 1] = x->at[x->rank - 2];
        x->at[x->rank - 2] = last;
        break;
    }
    case BODY_RESHAPE: unravel(before, ravel(&s->s, x->at), x); break;
    }
}

static pl_shape shape_after(pl_shape s, const struct body_view_step *step)
{
    switch (step->kind) {
    case BODY_AT:
        s.rank--;
        memmove(s.d, s.d + 1, 7 * sizeof s.d[0]);
        return s;
    case BODY_WINDOW:
    case BODY_TILE:
    case BODY_RESHAPE: return step->s;
    case BODY_TRANSPOSE: {
        const int64_t last = s.d[s.rank - 1];
        s.d[s.rank - 1] = s.d[s.rank - 2];
        s.d[s.rank - 2] = last;
        return s;
    }
    case BODY_CLIP: return s;
    }
    return s;
}

/* The array that a view is of: a tensor, or the unit's part of shared memory, whose index of the warpgroup is the first step. */
static struct place locate(const struct machine *m, int32_t u, const struct body_view *v, int64_t e)
{
    const struct body_smem *a = v->is_smem ? &m->p->smem[v->base] : NULL;
    const int first = a != NULL && a->has_leading ? 1 : 0;
    pl_shape shapes[8] = {a != NULL    ? a->s
                          : v->is_tmem ? body_tmem_shape(m->p, v->base)
                                       : m->p->tensors[v->base].s};
    struct place x = {0};
    for (int i = first; i < v->n_steps; i++)
        shapes[i - first + 1] = shape_after(shapes[i - first], &v->steps[i]);
    unravel(&v->s, e, &x);
    for (int i = v->n_steps - 1; i >= first; i--)
        step_back(m, u, &v->steps[i], &shapes[i - first], &x);
    for (int i = 0; i < x.rank; i++)
        x.is_out = x.is_out || x.at[i] < 0 || x.at[i] >= shapes[0].d[i];
    return x;
}

static unsigned char *tensor_elem(const struct body_tensor *t, const struct place *x, bool is_want)
{
    int64_t at = t->offset_elems;
    for (int i = 0; i < x->rank; i++)
        at += x->at[i] * t->strides.d[i];
    return (is_want ? t->want : t->data) + at * (pl_dtype_bits(t->t) / 8);
}

static uint64_t *tmem_elem(const struct machine *m, int32_t u, int32_t array, const struct place *x)
{
    const pl_shape s = body_tmem_shape(m->p, array);
    return &m->tmem[u][array][ravel(&s, x->at)];
}

static uint64_t read_view(const struct machine *m, int32_t u, const struct body_view *v, int64_t e,
                          uint64_t fill)
{
    const struct place x = locate(m, u, v, e);
    if (x.is_out)
        return fill;
    if (v->is_smem)
        return m->smem[u][v->base][ravel(&m->p->smem[v->base].s, x.at)];
    if (v->is_tmem)
        return *tmem_elem(m, u, v->base, &x);
    const struct body_tensor *t = &m->p->tensors[v->base];
    uint64_t bits = 0;
    memcpy(&bits, tensor_elem(t, &x, t->role != PL_ROLE_IN), (size_t)pl_dtype_bits(t->t) / 8);
    return bits;
}

static void write_view(struct machine *m, int32_t u, const struct body_view *v, int64_t e,
                       uint64_t bits)
{
    const struct place x = locate(m, u, v, e);
    if (x.is_out)
        return;
    if (v->is_smem) {
        m->smem[u][v->base][ravel(&m->p->smem[v->base].s, x.at)] = bits;
        return;
    }
    if (v->is_tmem) {
        *tmem_elem(m, u, v->base, &x) = bits;
        return;
    }
    const struct body_tensor *t = &m->p->tensors[v->base];
    memcpy(tensor_elem(t, &x, true), &bits, (size_t)pl_dtype_bits(t->t) / 8);
}

/* ---- one function a kind, for one unit ---- */

static void eval_ID(struct machine *m, int32_t u, int32_t i)
{
    const struct body_stmt *s = stmt(m, i);
    const struct body *p = m->p;
    const int64_t v = s->op == 0   ? cta_of(m, u)
                      : s->op == 1 ? warpgroup_of(m, u)
                      : s->op == 2 ? p->n_ctas
                      : s->op == 3 ? cta_of(m, u) % p->cluster
                      : s->op == 4 ? p->scalars[s->n]
                                   : p->tensors[s->n].s.d[s->axis];
    room(m, u, i)[0] = body_of_int(PL_I32, v);
}

static void eval_CONST(struct machine *m, int32_t u, int32_t i)
{
    room(m, u, i)[0] = literal(stmt(m, i), stmt(m, i)->t);
}

static void eval_IOTA(struct machine *m, int32_t u, int32_t i)
{
    const struct body_stmt *s = stmt(m, i);
    for (int64_t e = 0; e < body_n_elems(&s->s); e++) {
        struct place x;
        unravel(&s->s, e, &x);
        room(m, u, i)[e] = body_of_int(s->t, x.at[s->axis]);
    }
}

static uint64_t ptx_result(int op, uint64_t x, uint64_t y)
{
    switch (op) {
    case 0: return body_op2(PL_ADD, PL_I32, x, y);
    case 1: return body_op1(PL_NOT, PL_I32, x ^ y);
    case 2: return body_fma(PL_F32, x, y, x);
    case 3: return x * y;
    case 4: return body_op2(PL_SUB, PL_I16, x, y);
    case 5: return body_op2(PL_LT, PL_I32, x, y);
    case 6: return body_op2(PL_ADD, PL_F64, x, y);
    default: return body_fma(PL_I32, x, y, y);
    }
}

static uint64_t element(const struct machine *m, int32_t u, const struct body_stmt *s, int64_t e)
{
    const pl_dtype t = s->args[0] >= 0 ? stmt(m, s->args[0])->t : PL_I32;
    const uint64_t x = arg(m, u, s, 0, e, t);
    switch ((int)s->kind) {
    case BODY_UNARY: return body_op1((pl_op1)s->op, t, x);
    case BODY_BINARY: return body_op2((pl_op2)s->op, t, x, arg(m, u, s, 1, e, t));
    case BODY_FMA: return body_fma(t, x, arg(m, u, s, 1, e, t), arg(m, u, s, 2, e, t));
    case BODY_SELECT: return x != 0 ? arg(m, u, s, 1, e, s->t) : arg(m, u, s, 2, e, s->t);
    case BODY_CAST: return body_cast(s->t, t, x);
    case BODY_PTX: return ptx_result(s->op, x, arg(m, u, s, 1, e, t));
    default: return x;
    }
}

static void eval_elements(struct machine *m, int32_t u, int32_t i)
{
    const struct body_stmt *s = stmt(m, i);
    uint64_t *out = room(m, u, i);
    for (int64_t e = 0; e < body_n_elems(&s->s); e++)
        out[e] = element(m, u, s, e);
}

#define ELEMENTS(id)                                                                               \
    static void eval_##id(struct machine *m, int32_t u, int32_t i) { eval_elements(m, u, i); }
ELEMENTS(UNARY)
ELEMENTS(BINARY)
ELEMENTS(FMA)
ELEMENTS(SELECT)
ELEMENTS(CAST)
ELEMENTS(BITCAST)
ELEMENTS(PTX)
ELEMENTS(LAYOUT_CAST)
ELEMENTS(GET)
ELEMENTS(VAR)

static void eval_BROADCAST(struct machine *m, int32_t u, int32_t i)
{
    const struct body_stmt *s = stmt(m, i);
    for (int64_t e = 0; e < body_n_elems(&s->s); e++) {
        struct place x;
        unravel(&s->s, e, &x);
        memmove(x.at + s->axis, x.at + s->axis + 1, (size_t)(7 - s->axis) * sizeof x.at[0]);
        room(m, u, i)[e] = m->val[u][s->args[0]][ravel(&stmt(m, s->args[0])->s, x.at)];
    }
}

/* All of one axis, of one unit, into what there is. */
static void reduce_into(struct machine *m, int32_t from, int32_t u, int32_t i, bool is_first)
{
    const struct body_stmt *s = stmt(m, i), *x = stmt(m, s->args[0]);
    uint64_t *out = room(m, u, i);
    for (int64_t e = 0; e < body_n_elems(&x->s); e++) {
        struct place at;
        unravel(&x->s, e, &at);
        const bool starts = is_first && at.at[s->axis] == 0;
        memmove(at.at + s->axis, at.at + s->axis + 1, (size_t)(7 - s->axis) * sizeof at.at[0]);
        const int64_t to = ravel(&s->s, at.at);
        const uint64_t v = m->val[from][s->args[0]][e];
        out[to] = starts ? v : body_op2((pl_op2)s->op, x->t, out[to], v);
    }
}

static void eval_REDUCE(struct machine *m, int32_t u, int32_t i) { reduce_into(m, u, u, i, true); }

static void eval_GATHER(struct machine *m, int32_t u, int32_t i)
{
    const int32_t n = m->p->n_warpgroups * (stmt(m, i)->n == PL_SCOPE_CLUSTER ? m->p->cluster : 1),
                  first = u / n * n;
    for (int32_t k = first; k < first + n; k++)
        reduce_into(m, k, u, i, k == first);
}

static void eval_EXTRACT(struct machine *m, int32_t u, int32_t i)
{
    const struct body_stmt *s = stmt(m, i), *x = stmt(m, s->args[0]);
    int64_t at[4];
    for (int k = 0; k < x->s.rank; k++)
        at[k] = index_of(m, u, &s->index[k]);
    room(m, u, i)[0] = m->val[u][s->args[0]][ravel(&x->s, at)];
}

static void eval_LOAD(struct machine *m, int32_t u, int32_t i)
{
    const struct body_stmt *s = stmt(m, i);
    const uint64_t fill = s->load.oob == PL_OOB_FILL ? body_of_double(s->t, s->load.fill) : 0;
    uint64_t *out = room(m, u, i);
    for (int64_t e = 0; e < body_n_elems(&s->s); e++)
        out[e] = read_view(m, u, &s->view, e, fill);
}

static void eval_STORE(struct machine *m, int32_t u, int32_t i)
{
    const struct body_stmt *s = stmt(m, i);
    for (int64_t e = 0; e < body_n_elems(&s->view.s); e++)
        write_view(m, u, &s->view, e, elem(m, u, s->args[0], e));
}

static void eval_OUT(struct machine *m, int32_t u, int32_t i) { eval_STORE(m, u, i); }

static void eval_SWAP(struct machine *m, int32_t u, int32_t i)
{
    eval_LOAD(m, u, i);
    eval_STORE(m, u, i);
}

static void eval_SET(struct machine *m, int32_t u, int32_t i)
{
    const struct body_stmt *s = stmt(m, i);
    uint64_t *var = m->val[u][s->args[0]];
    for (int64_t e = 0; e < body_n_elems(&stmt(m, s->args[0])->s); e++)
        var[e] = elem(m, u, s->args[1], e);
}

static void copy(struct machine *m, int32_t u, const struct body_view *from,
                 const struct body_view *to)
{
    for (int64_t e = 0; e < body_n_elems(&from->s); e++)
        write_view(m, u, to, e, read_view(m, u, from, e, 0));
}

static void eval_COPY_IN(struct machine *m, int32_t u, int32_t i)
{
    const struct body_stmt *s = stmt(m, i);
    if (s->args[0] < 0 || m->val[u][s->args[0]][0] != 0)
        copy(m, u, &stmt(m, i + 1)->view, &s->view);
}

static void eval_ROWS(struct machine *m, int32_t u, int32_t i)
{
    const struct body_stmt *s = stmt(m, i);
    const struct body_view *from = &stmt(m, i + 1)->view;
    const int64_t width = s->view.s.d[1];
    for (int64_t e = 0; e < body_n_elems(&s->view.s); e++) {
        const int64_t row = body_to_int(PL_I32, elem(m, u, s->args[0], e / width));
        write_view(
            m, u, &s->view, e,
            row < 0 || row >= from->s.d[0] ? 0 : read_view(m, u, from, row * width + e % width, 0));
    }
}

static void eval_WAIT(struct machine *m, int32_t u, int32_t i) { (void)m, (void)u, (void)i; }

static void eval_COPY_OUT(struct machine *m, int32_t u, int32_t i)
{
    copy(m, u, &stmt(m, i)->view, &stmt(m, i + 1)->view);
}

static pl_op2 op_of_atomic(int32_t op)
{
    static const pl_op2 ops[] = {
        [PL_ATOMIC_ADD] = PL_ADD, [PL_ATOMIC_MIN] = PL_MIN, [PL_ATOMIC_MAX] = PL_MAX,
        [PL_ATOMIC_AND] = PL_AND, [PL_ATOMIC_OR] = PL_OR,   [PL_ATOMIC_XOR] = PL_XOR};
    return ops[op];
}

static void eval_ATOMIC(struct machine *m, int32_t u, int32_t i)
{
    const struct body_stmt *s = stmt(m, i);
    for (int64_t e = 0; e < body_n_elems(&s->view.s); e++) {
        const uint64_t old = read_view(m, u, &s->view, e, 0);
        room(m, u, i)[e] = old;
        write_view(
            m, u, &s->view, e,
            body_op2(op_of_atomic(s->op), stmt(m, s->args[0])->t, old, elem(m, u, s->args[0], e)));
    }
}

/* A row of an operand, K last, as a unit sees it. */
struct factor {
    const struct body_view *v;
    int32_t unit;
    int64_t row;
};

/* Elements of operands are small whole numbers. */
static int64_t whole(pl_dtype t, uint64_t x)
{
    return body_to_int(PL_I32, body_cast(PL_I32, t, x));
}

/* Added to `sum`. */
static uint64_t product(const struct machine *m, const struct factor *x, const struct factor *y,
                        pl_dtype t, uint64_t sum)
{
    const pl_dtype from = m->p->tensors[x->v->base].t;
    const int64_t n_k = x->v->s.d[1];
    int64_t all = 0;
    for (int64_t k = 0; k < n_k; k++)
        all += whole(from, read_view(m, x->unit, x->v, x->row * n_k + k, 0)) *
               whole(from, read_view(m, y->unit, y->v, y->row * n_k + k, 0));
    return body_op2(PL_ADD, t, sum, body_of_int(t, all));
}

static uint64_t own_product(const struct machine *m, int32_t u, int32_t i, pl_dtype t, int64_t e,
                            uint64_t sum)
{
    const struct body_view *second = &stmt(m, i + 1)->view;
    const int64_t n = second->s.d[0];
    const struct factor x = {&stmt(m, i)->view, u, e / n}, y = {second, u, e % n};
    return product(m, &x, &y, t, sum);
}

static void eval_PRODUCT(struct machine *m, int32_t u, int32_t i)
{
    const struct body_stmt *s = stmt(m, i);
    uint64_t *out = room(m, u, i);
    for (int64_t e = 0; e < body_n_elems(&s->s); e++)
        out[e] = own_product(m, u, i, s->t, e, 0);
}

static void eval_TMEM_STORE(struct machine *m, int32_t u, int32_t i) { eval_STORE(m, u, i); }
static void eval_TMEM_LOAD(struct machine *m, int32_t u, int32_t i) { eval_LOAD(m, u, i); }

/* Of a pair, columns of the second half are of what the other CTA brought. */
static void eval_TMEM_MMA(struct machine *m, int32_t u, int32_t i)
{
    const struct body_stmt *s = stmt(m, i);
    const struct body_view *x = &stmt(m, i + 1)->view, *y = &stmt(m, i + 2)->view;
    const bool adds = s->args[0] >= 0 ? m->val[u][s->args[0]][0] != 0 : s->axis != 0;
    const int64_t n = s->view.s.d[1], n_own = y->s.d[0];
    const int32_t first = m->p->is_pair ? cta_of(m, u) / 2 * 2 * m->p->n_warpgroups : u;
    for (int64_t e = 0; e < body_n_elems(&s->view.s); e++) {
        const int64_t column = e % n;
        const int32_t whose =
            m->p->is_pair ? first + (int32_t)(column / n_own) * m->p->n_warpgroups : u;
        const struct factor a = {x, u, e / n}, b = {y, whose, column % n_own};
        write_view(m, u, &s->view, e,
                   product(m, &a, &b, m->p->tmem[s->view.base].t,
                           adds ? read_view(m, u, &s->view, e, 0) : 0));
    }
}

static void eval_POOL(struct machine *m, int32_t u, int32_t i)
{
    const struct body_stmt *s = stmt(m, i);
    const int32_t n = m->p->n_warpgroups, first = cta_of(m, u) * n;
    uint64_t *out = room(m, u, i);
    for (int64_t e = 0; e < body_n_elems(&s->s); e++) {
        out[e] = body_of_int(s->t, s->lit_i);
        for (int32_t k = first; k < first + n; k++)
            out[e] = body_op2(op_of_atomic(s->op), s->t, out[e], elem(m, k, s->args[0], e));
    }
}

static void eval_REDUCE_OUT(struct machine *m, int32_t u, int32_t i)
{
    const struct body_stmt *s = stmt(m, i);
    const struct body_view *to = &stmt(m, i + 1)->view;
    for (int64_t e = 0; e < body_n_elems(&to->s); e++)
        write_view(m, u, to, e,
                   body_op2((pl_op2)s->op, m->p->smem[s->view.base].t, read_view(m, u, to, e, 0),
                            read_view(m, u, &s->view, e, 0)));
}

/* By the CTA whose copy it is; all of its units have the same indexes. */
static void eval_MULTICAST(struct machine *m, int32_t u, int32_t i)
{
    const struct body_stmt *s = stmt(m, i);
    const int32_t c = cta_of(m, u) / m->p->cluster * m->p->cluster + s->n;
    for (int64_t e = 0; e < body_n_elems(&s->s); e++)
        room(m, u, i)[e] = read_view(m, c * m->p->n_warpgroups, &s->view, e, 0);
}

static void eval_UNION(struct machine *m, int32_t u, int32_t i)
{
    const struct body_stmt *s = stmt(m, i);
    eval_elements(m, u, i);
    for (int64_t e = 0; e < body_n_elems(&s->view.s); e++)
        write_view(m, u, &s->view, e, 0);
}

static void eval_PREFETCH(struct machine *m, int32_t u, int32_t i) { (void)m, (void)u, (void)i; }

static int64_t n_of_acc(const struct machine *m, int32_t k)
{
    return 64 * (int64_t)m->p->accs[k].n_columns;
}

static void eval_ACC_ADD(struct machine *m, int32_t u, int32_t i)
{
    const struct body_stmt *s = stmt(m, i);
    const bool adds = s->args[0] >= 0 ? m->val[u][s->args[0]][0] != 0 : s->axis != 0;
    uint64_t *acc = m->acc[u][s->n];
    for (int64_t e = 0; e < n_of_acc(m, s->n); e++)
        acc[e] = own_product(m, u, i + 1, m->p->accs[s->n].t, e, adds ? acc[e] : 0);
}

static void eval_ACC_LOAD(struct machine *m, int32_t u, int32_t i)
{
    const int32_t k = stmt(m, i)->n;
    memcpy(room(m, u, i), m->acc[u][k], (size_t)n_of_acc(m, k) * sizeof(uint64_t));
}

static void eval_ACC_INIT(struct machine *m, int32_t u, int32_t i)
{
    const struct body_stmt *s = stmt(m, i);
    for (int64_t e = 0; e < n_of_acc(m, s->n); e++)
        m->acc[u][s->n][e] = elem(m, u, s->args[0], e);
}

static void eval_EXCHANGE(struct machine *m, int32_t u, int32_t i)
{
    const struct body_stmt *s = stmt(m, i);
    const int32_t g = warpgroup_of(m, u), c = cta_of(m, u), n = m->p->n_warpgroups,
                  cluster = m->p->cluster;
    const int32_t from = s->n == PL_SCOPE_CLUSTER
                             ? (c / cluster * cluster + (c + s->op) % cluster) * n + g
                             : c * n + (g + s->op) % n;
    uint64_t *out = room(m, u, i);
    for (int64_t e = 0; e < body_n_elems(&s->s); e++)
        out[e] = m->val[from][s->args[0]][e];
}

/* From the CTA before, as its next one is this. */
static void eval_SEND(struct machine *m, int32_t u, int32_t i)
{
    const struct body_stmt *s = stmt(m, i);
    const int32_t g = warpgroup_of(m, u), c = cta_of(m, u), n = m->p->cluster,
                  from = (c / n * n + (c + n - s->op) % n) * m->p->n_warpgroups + g;
    uint64_t *out = room(m, u, i);
    for (int64_t e = 0; e < body_n_elems(&s->s); e++) {
        const uint64_t v = m->val[from][s->args[0]][e];
        out[e] = s->axis == PL_OP2_NONE
                     ? v
                     : body_op2((pl_op2)s->axis, s->t, body_of_int(s->t, s->lit_i), v);
    }
}

static void eval_SLOT(struct machine *m, int32_t u, int32_t i)
{
    const struct body_stmt *s = stmt(m, i);
    if (s->args[0] < 0)
        return; /* the other view of a copy */
    uint64_t *out = room(m, u, i);
    for (int64_t e = 0; e < body_n_elems(&s->s); e++)
        out[e] = read_view(m, u, &stmt(m, s->args[0])->view, e, 0);
}

/* ---- pipes ---- */

static void add_tile(struct machine *m, int32_t u, int32_t pipe)
{
    const struct body_pipe *p = &m->p->pipes[pipe];
    struct tiles *q = &m->tiles[cta_of(m, u)][pipe];
    if (q->n < MAX_TILES)
        q->tile[q->n++] = calloc(
            (size_t)(body_n_elems(&p->s) + (p->second.rank > 0 ? body_n_elems(&p->second) : 0)),
            sizeof(uint64_t));
}

/* The slot that is being filled, and the one that the unit holds. */
static uint64_t *last_tile(struct machine *m, int32_t u, int32_t pipe)
{
    const struct tiles *q = &m->tiles[cta_of(m, u)][pipe];
    return q->tile[q->n - 1];
}

static const uint64_t *held_tile(const struct machine *m, int32_t u, int32_t pipe)
{
    return m->tiles[cta_of(m, u)][pipe].tile[m->n_taken[u][pipe] - 1];
}

static void eval_FILL(struct machine *m, int32_t u, int32_t i)
{
    const int32_t pipe = stmt(m, i)->n;
    const int64_t n = body_n_elems(&m->p->pipes[pipe].s);
    uint64_t *to = last_tile(m, u, pipe);
    for (int64_t e = 0; e < n; e++)
        to[e] = read_view(m, u, &stmt(m, i)->view, e, 0);
    for (int64_t e = 0;
         m->p->pipes[pipe].second.rank > 0 && e < body_n_elems(&m->p->pipes[pipe].second); e++)
        to[n + e] = read_view(m, u, &stmt(m, i + 1)->view, e, 0);
}

static void eval_PUT(struct machine *m, int32_t u, int32_t i)
{
    const struct body_stmt *s = stmt(m, i);
    const struct body_pipe *p = &m->p->pipes[s->n];
    const int64_t n = body_n_elems(&p->s) / p->n_producers,
                  first = (warpgroup_of(m, u) - s->op) * n;
    for (int64_t e = 0; e < n; e++)
        last_tile(m, u, s->n)[first + e] = elem(m, u, s->args[0], e);
}

static void eval_TAKE(struct machine *m, int32_t u, int32_t i)
{
    const struct body_stmt *s = stmt(m, i);
    memcpy(room(m, u, i), held_tile(m, u, s->n), (size_t)body_n_elems(&s->s) * sizeof(uint64_t));
}

/* Of the operands in the slot that is held, onto what is there, or not. */
static void multiply_held(struct machine *m, int32_t u, int32_t i, pl_dtype t, uint64_t *to)
{
    const struct body_stmt *s = stmt(m, i);
    const struct body_pipe *p = &m->p->pipes[s->n];
    const uint64_t *x = held_tile(m, u, s->n), *y = x + body_n_elems(&p->s);
    const int64_t n = p->second.d[0], n_k = p->s.d[1];
    const bool adds = s->args[0] >= 0 && scalar(m, u, s->args[0]) > 0;
    for (int64_t e = 0; e < p->s.d[0] * n; e++) {
        int64_t all = 0;
        for (int64_t k = 0; k < n_k; k++)
            all += whole(p->t, x[e / n * n_k + k]) * whole(p->t, y[e % n * n_k + k]);
        to[e] = body_op2(PL_ADD, t, adds ? to[e] : 0, body_of_int(t, all));
    }
}

static void eval_MULTIPLY(struct machine *m, int32_t u, int32_t i)
{
    const int32_t to = stmt(m, i)->op;
    multiply_held(m, u, i, m->p->pipes[to].t, last_tile(m, u, to));
}

static void eval_ACCUMULATE(struct machine *m, int32_t u, int32_t i)
{
    multiply_held(m, u, i, is_float(m->p->pipes[stmt(m, i)->n].t) ? PL_F32 : PL_I32, room(m, u, i));
}

static void eval_SUM(struct machine *m, int32_t u, int32_t i)
{
    memcpy(room(m, u, i), room(m, u, stmt(m, i)->n),
           (size_t)body_n_elems(&stmt(m, i)->s) * sizeof(uint64_t));
}

static void eval_DRAIN(struct machine *m, int32_t u, int32_t i)
{
    const struct body_stmt *s = stmt(m, i);
    for (int64_t e = 0; e < body_n_elems(&s->view.s); e++)
        write_view(m, u, &s->view, e, held_tile(m, u, s->n)[e]);
}

/* ---- regions: which units go on ---- */

static int64_t limit_of(const struct machine *m, int32_t u, const struct body_stmt *s)
{
    return s->args[0] == BODY_LIT ? s->lit_i : scalar(m, u, s->args[0]);
}

/* The trip-th step that is taken; false: there are fewer. */
static bool next_step(struct machine *m, int32_t u, int32_t i, int64_t trip)
{
    const struct body_walk *w = &m->p->walk;
    const int64_t n = w->n_outer * (w->count == BODY_LIT ? w->n : scalar(m, u, w->count)),
                  stride = w->has_tiles ? m->p->n_ctas / m->p->cluster : 1,
                  first = w->has_tiles ? cta_of(m, u) / m->p->cluster : 0;
    for (int64_t k = first; k < n && k < w->stop; k += stride) {
        if (k % 3 == w->skip || trip-- > 0)
            continue;
        room(m, u, i)[0] = (uint64_t)k;
        return true;
    }
    return false;
}

/* The first warpgroup of the role that a statement stands in. */
static int32_t first_of(const struct machine *m, int32_t i)
{
    while (stmt(m, i)->kind != BODY_ROLE)
        i--;
    return stmt(m, i)->n;
}

/* Does the unit go into the region for the trip-th time? Sets what the region gives its body. */
static bool goes_in(struct machine *m, int32_t u, int32_t i, int64_t trip)
{
    const struct body_stmt *s = stmt(m, i);
    switch ((int)s->kind) {
    case BODY_IF: return trip == 0 && m->val[u][s->args[0]][0] != 0;
    case BODY_ELSE: return trip == 0 && m->val[u][s->args[0]][0] == 0;
    case BODY_ROLE:
        return trip == 0 && warpgroup_of(m, u) >= s->n && warpgroup_of(m, u) < s->n + s->op;
    case BODY_WALK: return next_step(m, u, i, trip);
    case BODY_PRODUCE:
        if (trip == 0 &&
            (m->p->pipes[s->n].n_producers < 2 || warpgroup_of(m, u) == first_of(m, i)))
            add_tile(m, u, s->n);
        return trip == 0;
    case BODY_CONSUME: m->n_taken[u][s->n] += trip == 0; return trip == 0;
    case BODY_FOR:
        room(m, u, i)[0] = body_of_int(PL_I32, s->axis + trip * s->n);
        return s->axis + trip * s->n < limit_of(m, u, s);
    case BODY_WHILE:
        return trip < limit_of(m, u, s) && (s->args[1] < 0 || (m->val[u][s->args[1]][0] & 1) == 0);
    default: break;
    }
    room(m, u, i)[0] = (uint64_t)trip;
    return trip < limit_of(m, u, s);
}

static void eval_block(struct machine *m, int32_t first, int32_t end, uint32_t mask);

static void eval_region(struct machine *m, int32_t i, uint32_t mask)
{
    for (int64_t trip = 0; mask != 0; trip++) {
        for (int32_t u = 0; u < m->n_units; u++)
            if (is_active(mask, u) && !goes_in(m, u, i, trip))
                mask &= ~(1u << u);
        if (mask != 0)
            eval_block(m, i + 1, stmt(m, i)->end, mask);
    }
}

static void eval_FOR(struct machine *m, int32_t u, int32_t i) { (void)m, (void)u, (void)i; }
static void eval_WHILE(struct machine *m, int32_t u, int32_t i) { (void)m, (void)u, (void)i; }
static void eval_IF(struct machine *m, int32_t u, int32_t i) { (void)m, (void)u, (void)i; }
static void eval_ELSE(struct machine *m, int32_t u, int32_t i) { (void)m, (void)u, (void)i; }
static void eval_PIPELINE(struct machine *m, int32_t u, int32_t i) { (void)m, (void)u, (void)i; }
static void eval_ROLE(struct machine *m, int32_t u, int32_t i) { (void)m, (void)u, (void)i; }
static void eval_WALK(struct machine *m, int32_t u, int32_t i) { (void)m, (void)u, (void)i; }
static void eval_PRODUCE(struct machine *m, int32_t u, int32_t i) { (void)m, (void)u, (void)i; }
static void eval_CONSUME(struct machine *m, int32_t u, int32_t i) { (void)m, (void)u, (void)i; }

static void (*const evals[])(struct machine *m, int32_t u, int32_t i) = {
#define BODY(id, weight, level) [BODY_##id] = eval_##id,
#include "tests/body.def"
#undef BODY
};

static void eval_block(struct machine *m, int32_t first, int32_t end, uint32_t mask)
{
    for (int32_t i = first; i < end; i = stmt(m, i)->end) {
        if (stmt(m, i)->is_dropped)
            continue;
        if (body_is_region(stmt(m, i)->kind))
            eval_region(m, i, mask);
        else
            for (int32_t u = 0; u < m->n_units; u++)
                if (is_active(mask, u))
                    evals[stmt(m, i)->kind](m, u, i);
    }
}

void body_eval(struct body *p)
{
    struct machine *m = calloc(1, sizeof *m);
    m->p = p;
    m->n_units = p->n_ctas * p->n_warpgroups;
    for (int32_t i = 0; i < p->n_tensors; i++)
        memcpy(p->tensors[i].want, p->tensors[i].data,
               (size_t)(p->tensors[i].n_alloc * pl_dtype_bits(p->tensors[i].t) / 8));
    for (int32_t u = 0; u < m->n_units; u++)
        for (int32_t k = 0; k < p->n_smem; k++)
            m->smem[u][k] = calloc((size_t)body_n_elems(&p->smem[k].s), sizeof(uint64_t));
    for (int32_t u = 0; u < m->n_units; u++)
        for (int32_t k = 0; k < p->n_tmem; k++) {
            const pl_shape s = body_tmem_shape(p, k);
            m->tmem[u][k] = calloc((size_t)body_n_elems(&s), sizeof(uint64_t));
        }
    for (int32_t u = 0; u < m->n_units; u++)
        for (int32_t k = 0; k < p->n_accs; k++)
            m->acc[u][k] = calloc((size_t)n_of_acc(m, k), sizeof(uint64_t));
    eval_block(m, 0, p->n_stmts, UINT32_MAX >> (32 - m->n_units));
    for (int32_t u = 0; u < m->n_units; u++) {
        for (int32_t k = 0; k < p->n_smem; k++)
            free(m->smem[u][k]);
        for (int32_t k = 0; k < p->n_tmem; k++)
            free(m->tmem[u][k]);
        for (int32_t k = 0; k < p->n_accs; k++)
            free(m->acc[u][k]);
        for (int32_t i = 0; i < p->n_stmts; i++)
            free(m->val[u][i]);
    }
    for (int32_t u = 0; u < MAX_UNITS; u++)
        for (int32_t k = 0; k < p->n_pipes; k++)
            for (int32_t i = 0; i < m->tiles[u][k].n; i++)
                free(m->tiles[u][k].tile[i]);
    free(m);
}
