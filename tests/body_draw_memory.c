/* Statements that touch memory, and variables. */
#include "tests/body_draw.h"

#include "base/debug.h"

#include <string.h>

pl_dtype draw_memory_type(struct draw *d)
{
    return draw_type(d, draw_chance(d, 75) ? DRAW_FLOATS | DRAW_INTS : DRAW_ALL);
}

bool draw_LOAD(struct draw *d)
{
    const pl_shape shape = draw_chance(d, 15) ? (pl_shape){0} : draw_like_shape(d);
    pl_dtype t = draw_memory_type(d);
    struct body_view v;
    bool is_smem = draw_chance(d, 45);
    if (is_smem && d->p->n_smem > 0 && draw_chance(d, 70))
        t = d->p->smem[draw_below(d, d->p->n_smem)].t;
    if (is_smem)
        is_smem =
            shape.rank == 0 ? draw_smem_element(d, t, &v) : draw_smem_view(d, t, &shape, true, &v);
    if (!is_smem && !draw_input_view(d, t, &shape, PL_SCOPE_WARPGROUP, &v))
        return false;
    struct body_stmt *s = draw_add(d, BODY_LOAD, t, &shape);
    s->view = v;
    if (draw_chance(d, 20) && t != PL_PRED) {
        s->load.oob = PL_OOB_FILL;
        s->load.fill = draw_below(d, 8);
    }
    if (shape.rank > 0 && draw_chance(d, 15))
        s->load.layout = draw_layout(d, &shape);
    if (!is_smem && d->p->tensors[v.base].is_small)
        draw_know(s, 0, 7);
    s->is_raw = !is_smem;
    return true;
}

/* A value that goes to shared memory, and a view that takes it. */
static int32_t pick_for_smem(struct draw *d, bool may_turn, struct body_view *v)
{
    pl_dtype_set types = DRAW_ALL;
    if (d->p->n_smem > 0 && draw_chance(d, 60))
        types = (pl_dtype_set)1 << d->p->smem[draw_below(d, d->p->n_smem)].t;
    if (draw_chance(d, 20)) {
        const int32_t one = draw_pick(d, types, NULL, WANT_SCALAR);
        return one >= 0 && draw_smem_element(d, draw_stmt(d, one)->t, v) ? one : BODY_NONE;
    }
    const int32_t i = draw_pick(d, types, NULL, WANT_ARRAY);
    return i >= 0 && draw_smem_view(d, draw_stmt(d, i)->t, &draw_stmt(d, i)->s, may_turn, v)
               ? i
               : BODY_NONE;
}

bool draw_STORE(struct draw *d)
{
    struct body_view v;
    const int32_t i = pick_for_smem(d, true, &v);
    if (i < 0)
        return false;
    struct body_stmt *s = draw_add(d, BODY_STORE, PL_DTYPE_NONE, NULL);
    s->args[0] = i;
    s->view = v;
    return true;
}

bool draw_SWAP(struct draw *d)
{
    struct body_view v;
    const int32_t i = pick_for_smem(d, true, &v);
    if (i < 0)
        return false;
    struct body_stmt *s = draw_add(d, BODY_SWAP, draw_stmt(d, i)->t, &draw_stmt(d, i)->s);
    s->args[0] = i;
    s->view = v;
    return true;
}

bool draw_VAR(struct draw *d)
{
    const int32_t i = draw_pick(d, DRAW_ALL, NULL, WANT_ANY);
    if (i < 0)
        return false;
    const struct body_stmt x = *draw_stmt(d, i);
    pl_shape shape = x.s;
    if (shape.rank == 0 && draw_chance(d, 40))
        shape = draw_like_shape(d);
    struct body_stmt *s = draw_add(d, BODY_VAR, x.t, &shape);
    s->args[0] = i;
    if (shape.rank > 0 && draw_chance(d, 15))
        s->layout = draw_layout(d, &shape);
    return true;
}

bool draw_GET(struct draw *d)
{
    const int32_t i = draw_pick_var(d, DRAW_ALL, -1);
    if (i < 0)
        return false;
    struct body_stmt *s = draw_add(d, BODY_GET, draw_stmt(d, i)->t, &draw_stmt(d, i)->s);
    s->args[0] = i;
    return true;
}

bool draw_SET(struct draw *d)
{
    const int32_t i = draw_pick_var(d, DRAW_ALL, -1);
    if (i < 0)
        return false;
    int32_t v = draw_pick(d, (pl_dtype_set)1 << draw_stmt(d, i)->t, &draw_stmt(d, i)->s, WANT_ANY);
    if (v < 0)
        v = draw_pick(d, (pl_dtype_set)1 << draw_stmt(d, i)->t, NULL, WANT_SCALAR);
    if (v < 0)
        return false;
    struct body_stmt *s = draw_add(d, BODY_SET, PL_DTYPE_NONE, NULL);
    s->args[0] = i;
    s->args[1] = v;
    return true;
}

bool draw_COPY_IN(struct draw *d)
{
    const pl_shape shape = draw_like_shape(d);
    pl_dtype t = draw_memory_type(d);
    if (d->p->n_smem > 0 && draw_chance(d, 60))
        t = d->p->smem[draw_below(d, d->p->n_smem)].t;
    struct body_view to, from;
    if (!draw_smem_view(d, t, &shape, false, &to) ||
        !draw_input_view(d, t, &shape, PL_SCOPE_WARPGROUP, &from))
        return false;
    const int32_t pred =
        draw_chance(d, 20) ? draw_pick(d, DRAW_PREDS, NULL, WANT_SCALAR) : BODY_NONE;
    struct body_stmt *s = draw_add(d, BODY_COPY_IN, PL_DTYPE_NONE, NULL);
    const int32_t copy = draw_index_of(d, s);
    s->args[0] = pred;
    s->view = to;
    s->op = draw_chance(d, 25) ? PL_HOW_ELEMENTS : PL_HOW_AUTO;
    s->n = d->busy < 0 && draw_has_room(d) && draw_chance(d, 40); /* waited for later */
    draw_add(d, BODY_SLOT, PL_DTYPE_NONE, NULL)->view = from;     /* has the other view only */
    if (s->n == 0)
        return true;
    d->busy = to.base;
    draw_block(d, draw_between(d, 1, 3));
    draw_add(d, BODY_WAIT, PL_DTYPE_NONE, NULL)->args[0] = copy;
    d->busy = BODY_NONE;
    return true;
}

/* Rows of a rank-2 input by a rank-1 index, some of them outside. */
bool draw_ROWS(struct draw *d)
{
    const pl_shape shape = draw_like_shape(d);
    const pl_dtype t = draw_memory_type(d);
    struct body_view to;
    if (shape.rank != 2 || !draw_smem_view(d, t, &shape, false, &to))
        return false;
    const pl_shape index = PL_SHAPE(shape.d[0]),
                   from = PL_SHAPE(draw_between(d, 1, 30), shape.d[1]);
    int32_t i = draw_pick(d, PL_DT(I32), &index, WANT_ANY);
    if (i < 0 || !draw_stmt(d, i)->is_integral || draw_stmt(d, i)->hi > 1000) {
        struct body_stmt *rows = draw_add(d, BODY_IOTA, PL_I32, &index);
        draw_know(rows, 0, (double)(index.d[0] - 1));
        i = draw_index_of(d, rows);
    }
    const int32_t base = draw_tensor(d, t, &from, PL_ROLE_IN);
    if (base < 0)
        return false;
    struct body_stmt *s = draw_add(d, BODY_ROWS, PL_DTYPE_NONE, NULL);
    s->args[0] = i;
    s->view = to;
    struct body_stmt *src = draw_add(d, BODY_SLOT, PL_DTYPE_NONE, NULL);
    src->view = (struct body_view){.base = base, .s = from};
    return true;
}

bool draw_SEND(struct draw *d)
{
    static const pl_op2 ops[] = {PL_ADD, PL_MIN, PL_MAX, PL_AND, PL_OR, PL_XOR};
    const int32_t i = draw_pick(d, DRAW_ALL, NULL, WANT_ARRAY);
    if (i < 0 || d->p->cluster == 1)
        return false;
    const struct body_stmt x = *draw_stmt(d, i);
    if (x.s.d[x.s.rank - 1] * pl_dtype_bits(x.t) % 32 != 0 || x.t == PL_PRED)
        return false;
    struct body_stmt *s = draw_add(d, BODY_SEND, x.t, &x.s);
    s->args[0] = i;
    s->n = PL_SCOPE_CLUSTER;
    s->op = 1;
    if ((x.t == PL_I32 || x.t == PL_U32) && draw_chance(d, 60)) {
        s->axis = (int32_t)ops[draw_below(d, PL_COUNT(ops))]; /* onto what is there */
        s->lit_i = draw_below(d, 100);
        return true;
    }
    s->is_integral = x.is_integral, s->lo = x.lo, s->hi = x.hi, s->is_raw = x.is_raw;
    return true;
}

bool draw_WAIT(struct draw *d) { return (void)d, false; }

bool draw_COPY_OUT(struct draw *d)
{
    if (d->p->n_smem == 0)
        return false;
    const int32_t which = draw_below(d, d->p->n_smem);
    const struct body_smem *a = &d->p->smem[which];
    pl_shape shape = a->s;
    struct body_view from, to;
    const pl_dtype t = a->t;
    if (which == d->busy || shape.rank > 3 || !draw_smem_view(d, t, &shape, false, &from))
        return false;
    const int32_t k = draw_output_view(d, t, &shape, false, &to);
    if (k < 0)
        return false;
    struct body_stmt *s = draw_add(d, BODY_COPY_OUT, PL_DTYPE_NONE, NULL);
    s->view = from;
    draw_add(d, BODY_SLOT, PL_DTYPE_NONE, NULL)->view = to;
    return true;
}

bool draw_ATOMIC(struct draw *d)
{
    static const pl_atomic ops[] = {PL_ATOMIC_ADD, PL_ATOMIC_MIN, PL_ATOMIC_MAX,
                                    PL_ATOMIC_AND, PL_ATOMIC_OR,  PL_ATOMIC_XOR};
    const int32_t i =
        draw_pick(d, PL_DT(I32) | PL_DT(U32) | PL_DT(I64) | PL_DT(U64), NULL, WANT_ANY);
    if (i < 0)
        return false;
    const struct body_stmt x = *draw_stmt(d, i);
    struct body_view v;
    const bool is_shared = draw_chance(d, 50);
    const bool is_smem = x.s.rank > 0 && draw_chance(d, 35);
    int32_t k = BODY_NONE;
    if (is_smem) {
        if (!draw_smem_view(d, x.t, &x.s, true, &v))
            return false;
    } else if (is_shared) {
        pl_shape shape = {.rank = x.s.rank + 1, .d = {2}};
        for (int a = 0; a < x.s.rank; a++)
            shape.d[1 + a] = x.s.d[a] + draw_below(d, 2);
        k = draw_tensor(d, x.t, &shape, PL_ROLE_INOUT);
        if (k < 0)
            return false;
        v = (struct body_view){.base = k, .s = x.s};
        draw_step(&v, BODY_AT)->at[0] = draw_index(d, 0, 1, PL_SCOPE_WARPGROUP);
        if (x.s.rank > 0) {
            struct body_view_step *w = draw_step(&v, BODY_WINDOW);
            w->s = x.s;
        }
    } else {
        k = draw_output_view(d, x.t, &x.s, true, &v);
        if (k < 0)
            return false;
        d->p->tensors[k].role = PL_ROLE_INOUT;
    }
    const bool wants_old = (is_smem || !is_shared) && draw_chance(d, 50);
    struct body_stmt *s = draw_add(d, BODY_ATOMIC, wants_old ? x.t : PL_DTYPE_NONE, &x.s);
    s->op = (int32_t)ops[draw_below(d, PL_COUNT(ops))];
    s->args[0] = i;
    s->view = v;
    return true;
}

bool draw_POOL(struct draw *d)
{
    static const pl_atomic ops[] = {PL_ATOMIC_ADD, PL_ATOMIC_MIN, PL_ATOMIC_MAX,
                                    PL_ATOMIC_AND, PL_ATOMIC_OR,  PL_ATOMIC_XOR};
    const int32_t i =
        draw_pick(d, PL_DT(I32) | PL_DT(U32) | PL_DT(I64) | PL_DT(U64), NULL, WANT_ARRAY);
    if (i < 0)
        return false;
    const struct body_stmt x = *draw_stmt(d, i);
    struct body_stmt *s = draw_add(d, BODY_POOL, x.t, &x.s);
    s->args[0] = i;
    s->op = (int32_t)ops[draw_below(d, PL_COUNT(ops))];
    s->lit_i = draw_below(d, 100); /* what is there before */
    return true;
}

/* Only the copy engine reduces: whole rows of words, dense on both sides. */
bool draw_REDUCE_OUT(struct draw *d)
{
    static const pl_op2 ops[] = {PL_ADD, PL_ADD, PL_MIN, PL_MAX, PL_AND, PL_OR, PL_XOR};
    const pl_op2 op = ops[draw_below(d, PL_COUNT(ops))];
    const int32_t which = d->p->n_smem == 0 ? BODY_NONE : draw_below(d, d->p->n_smem);
    if (which < 0 || which == d->busy || !draw_has_engine(d))
        return false;
    const struct body_smem a = d->p->smem[which];
    const pl_dtype_set types =
        PL_DT(I32) | PL_DT(U32) | PL_DT(U64); /* in f32 it loses subnormals */
    const int64_t row_bytes = a.s.d[a.s.rank - 1] * pl_dtype_bits(a.t) / 8;
    const bool is_for_all = draw_chance(d, 50);
    struct body_view from, to;
    if (!draw_has_type(types, a.t) || row_bytes % 16 != 0 || a.s.rank > 3 ||
        !draw_smem_view(d, a.t, &a.s, false, &from))
        return false;
    const pl_shape one = {.rank = a.s.rank + 1, .d = {1, a.s.d[0], a.s.d[1], a.s.d[2]}};
    int32_t k = BODY_NONE;
    if (is_for_all && (k = draw_tensor(d, a.t, &one, PL_ROLE_INOUT)) >= 0) {
        to = (struct body_view){.base = k, .s = a.s};
        draw_step(&to, BODY_AT);
        draw_step(&to, BODY_WINDOW)->s = a.s;
    } else if (!is_for_all) {
        k = draw_output_view(d, a.t, &a.s, true, &to);
    }
    if (k < 0)
        return false;
    d->p->tensors[k].role = PL_ROLE_INOUT;
    draw_make_dense(d, k);
    struct body_stmt *s = draw_add(d, BODY_REDUCE_OUT, PL_DTYPE_NONE, NULL);
    s->op = (int32_t)op;
    s->view = from;
    draw_add(d, BODY_SLOT, PL_DTYPE_NONE, NULL)->view = to;
    return true;
}

bool draw_MULTICAST(struct draw *d)
{
    const pl_shape shape = draw_like_shape(d);
    const pl_dtype t = draw_memory_type(d);
    struct body_view v;
    if (d->p->cluster == 1 || !draw_has_engine(d) ||
        shape.d[shape.rank - 1] * pl_dtype_bits(t) % 128 != 0 ||
        !draw_dense_input_view(d, t, &shape, &v))
        return false;
    struct body_stmt *s = draw_add(d, BODY_MULTICAST, t, &shape);
    s->view = v;
    s->n = draw_below(d, 2); /* whose copy it is */
    s->tr = draw_transforms(d, t, &shape);
    s->is_raw = true;
    return true;
}

bool draw_UNION(struct draw *d)
{
    const int32_t i = draw_pick(d, DRAW_ALL, NULL, WANT_ARRAY),
                  over = d->p->n_smem == 0 ? BODY_NONE : draw_below(d, d->p->n_smem);
    if (i < 0 || over < 0 || over == d->busy || d->p->n_warpgroups > 1 || d->is_in_role)
        return false;
    const struct body_stmt x = *draw_stmt(d, i);
    struct body_stmt *s = draw_add(d, BODY_UNION, x.t, &x.s);
    s->args[0] = i;
    s->view = (struct body_view){.is_smem = true, .base = over, .s = d->p->smem[over].s};
    s->tr = draw_transforms(d, x.t, &x.s);
    s->is_integral = x.is_integral, s->lo = x.lo, s->hi = x.hi, s->is_raw = x.is_raw;
    return true;
}

bool draw_PREFETCH(struct draw *d)
{
    const pl_shape shape = draw_like_shape(d);
    struct body_view v;
    if (d->p->arch < 90 || !draw_input_view(d, draw_memory_type(d), &shape, PL_SCOPE_WARPGROUP, &v))
        return false;
    draw_add(d, BODY_PREFETCH, PL_DTYPE_NONE, NULL)->view = v;
    return true;
}

bool draw_EXCHANGE(struct draw *d)
{
    const int32_t i = draw_pick(d, DRAW_ALL, NULL, WANT_ANY);
    if (i < 0)
        return false;
    const struct body_stmt x = *draw_stmt(d, i);
    const bool is_wide = d->p->cluster > 1 && d->level >= PL_SCOPE_CLUSTER && draw_chance(d, 60);
    if (!is_wide && d->p->n_warpgroups == 1)
        return false;
    struct body_stmt *s = draw_add(d, BODY_EXCHANGE, x.t, &x.s);
    s->args[0] = i;
    s->n = (int32_t)(is_wide ? PL_SCOPE_CLUSTER : PL_SCOPE_CTA);
    s->op = 1;
    s->axis = draw_chance(d, 50); /* they meet at a barrier in shared memory */
    s->is_integral = x.is_integral, s->lo = x.lo, s->hi = x.hi, s->is_raw = x.is_raw;
    return true;
}

static bool is_product_shape(const pl_shape *s)
{
    return s->rank == 2 && s->d[0] == 64 && s->d[1] % 8 == 0 && s->d[1] <= 32;
}

bool draw_PRODUCT(struct draw *d)
{
    const pl_dtype_set types =
        PL_DT(F16) | PL_DT(BF16) | PL_DT(I8) | (d->p->arch >= 89 ? PL_DT(E4M3) | PL_DT(E5M2) : 0);
    const pl_dtype t = draw_type(d, types);
    const pl_shape like = d->shapes[draw_below(d, DRAW_N_SHAPES)],
                   shape = is_product_shape(&like) ? like : PL_SHAPE(64, 8 * draw_between(d, 1, 4));
    const int64_t k = 256 / pl_dtype_bits(t) * draw_between(d, 1, 2);
    const pl_shape left = PL_SHAPE(64, k), right = PL_SHAPE(shape.d[1], k);
    struct body_view x, y;
    if (!draw_input_view(d, t, &left, PL_SCOPE_WARPGROUP, &x) ||
        !draw_input_view(d, t, &right, PL_SCOPE_WARPGROUP, &y))
        return false;
    d->p->tensors[x.base].is_small = d->p->tensors[y.base].is_small = true;
    struct body_stmt *s = draw_add(d, BODY_PRODUCT, draw_is_float(t) ? PL_F32 : PL_I32, &shape);
    s->view = x;
    s->op = d->p->arch == 90 && draw_chance(d, 50); /* wgmma */
    s->n = (int32_t)k;
    draw_know(s, 0, 49.0 * (double)k);
    draw_add(d, BODY_SLOT, PL_DTYPE_NONE, NULL)->view = y;
    return true;
}

bool draw_OUT(struct draw *d)
{
    const int32_t i = draw_pick(d, DRAW_ALL, NULL, WANT_ANY);
    struct body_view v;
    if (i < 0)
        return false;
    const int32_t k = draw_output_view(d, draw_stmt(d, i)->t, &draw_stmt(d, i)->s, false, &v);
    if (k < 0)
        return false;
    struct body_stmt *s = draw_add(d, BODY_OUT, PL_DTYPE_NONE, NULL);
    s->args[0] = i;
    s->view = v;
    return true;
}
