/* Launch arguments against a kernel's declaration: pure, also on the warm path of every launch. */
#include "src/check/check.h"

#include "base/buf.h"
#include "src/ir/fact.h"

#define PL_DIAG_ROWS "src/check/args.def"
#define PL_DIAG_MODE_DECLARE
#include "base/diag_rows.h"

#define PL_DIAG_ROWS "src/check/args.def"
#define PL_DIAG_MODE_DEFINE
#include "base/diag_rows.h"

enum { NO_DIM = -1 };
static const int64_t MAX_EXTENT = (int64_t)1 << 40;
static const int64_t MAX_BYTES = (int64_t)1 << 47;

/* Bytes that a tensor may touch: [first, end), empty when it has no elements. */
struct span {
    uint64_t first, end;
};

struct args {
    const struct pl_args_request *q;
    struct pl_diags *ds; /* NULL: only the answer */
    bool is_ok;
    struct span
        spans[PL_MAX_ARGS]; /* of the tensors, once they are checked; {0} for anything else */
};

/* Notes a violation; true when the caller is to describe it. */
static bool broken(struct args *a)
{
    a->is_ok = false;
    return a->ds != NULL;
}

static struct pl_where at(const struct args *a, size_t arg, int dim)
{
    return (struct pl_where){
        .file = a->q->file, .line = a->q->line, .arg_plus1 = (int)arg + 1, .dim_plus1 = dim + 1};
}

static struct pl_where at_values(const struct args *a, size_t arg, int dim, int64_t seen,
                                 int64_t wanted)
{
    struct pl_where w = at(a, arg, dim);
    w.has_values = true;
    w.seen = seen;
    w.wanted = wanted;
    return w;
}

static const char *kind_name(pl_arg_kind kind)
{
    static const char *const names[] = {"absent argument", "tensor", "i32 scalar", "i64 scalar",
                                        "f32 scalar"};
    return (unsigned)kind < sizeof names / sizeof names[0] ? names[kind] : "broken argument";
}

static const char *dtype_names(struct args *a, pl_dtype_set set)
{
    struct pl_buf t;
    pl_buf_init(&t, a->ds->arena, 64);
    for (int i = 1, n = 0; i < PL_DTYPE_COUNT; i++)
        if ((set >> i & 1) != 0) {
            pl_buf_puts(&t, n++ == 0 ? "" : " or ");
            pl_buf_puts(&t, pl_dtype_name((pl_dtype)i));
        }
    return t.text != NULL ? t.text : "none";
}

static pl_dtype scalar_dtype(pl_arg_kind kind)
{
    return kind == PL_ARG_I32   ? PL_I32
           : kind == PL_ARG_I64 ? PL_I64
           : kind == PL_ARG_F32 ? PL_F32
                                : PL_DTYPE_NONE;
}

static void check_scalar(struct args *a, size_t i)
{
    const pl_param_decl *p = &a->q->kernel->params[i];
    pl_arg_kind kind = a->q->args[i].kind;
    pl_dtype t = scalar_dtype(kind);
    if (t == PL_DTYPE_NONE) {
        if (broken(a))
            pl_d_arg_kind(a->ds, at(a, i, NO_DIM), p->name, kind_name(kind), "scalar");
    } else if ((p->dtypes >> t & 1) == 0 && broken(a)) {
        pl_d_arg_dtype(a->ds, at(a, i, NO_DIM), p->name, pl_dtype_name(t),
                       dtype_names(a, p->dtypes));
    }
}

/* Extents and strides; notes the span. False when they cannot be. */
static bool check_extents(struct args *a, size_t i, const pl_tensor *t)
{
    const int64_t bits = pl_dtype_bits(t->dtype), most = MAX_BYTES * 8 / bits;
    int64_t low = 0, high = 0;
    bool is_empty = false;
    for (int d = 0; d < t->rank; d++) {
        int64_t n = t->shape[d], reach;
        bool is_ok = n >= 0 && n <= MAX_EXTENT &&
                     !__builtin_mul_overflow(n > 1 ? n - 1 : 0, t->strides[d], &reach);
        is_empty = is_empty || n == 0;
        if (is_ok && reach >= 0 && reach <= most)
            high += reach;
        else if (is_ok && reach < 0 && reach >= -most)
            low += reach;
        else
            is_ok = false;
        if (!is_ok || high - low > most) {
            if (broken(a))
                pl_d_arg_extent(a->ds, at_values(a, i, d, n, MAX_EXTENT),
                                a->q->kernel->params[i].name, d, (long long)n);
            return false;
        }
    }
    if (!is_empty)
        a->spans[i] = (struct span){t->address + (uint64_t)(low * bits / 8),
                                    t->address + (uint64_t)(((high + 1) * bits + 7) / 8)};
    return true;
}

static void check_address(struct args *a, size_t i, const pl_tensor *t)
{
    const char *name = a->q->kernel->params[i].name;
    int32_t bits = pl_dtype_bits(t->dtype), bytes = bits < 8 ? 1 : bits / 8;
    if (t->address == 0) {
        if (broken(a))
            pl_d_arg_null(a->ds, at(a, i, NO_DIM), name);
    } else if (t->address % (uint64_t)bytes != 0 && broken(a)) {
        pl_d_arg_misaligned(a->ds,
                            at_values(a, i, NO_DIM, (int64_t)(t->address % (uint64_t)bytes), 0),
                            name, (unsigned long long)t->address, bytes);
    }
}

static void check_facts(struct args *a, size_t i, const pl_tensor *t)
{
    const pl_param_decl *p = &a->q->kernel->params[i];
    pl_fact_set missing = p->required == 0 ? 0 : p->required & ~pl_fact_among(t, p->required);
    for (pl_fact_set f = 1; missing != 0; f <<= 1) {
        if ((missing & f) != 0 && broken(a))
            pl_d_arg_fact(a->ds, at(a, i, NO_DIM), p->name, pl_fact_text((pl_fact)f));
        missing &= ~f;
    }
}

/* ---- elements that share an address ---- */

static int64_t abs64(int64_t v) { return v < 0 ? -v : v; }

/*
 * Do two tensors with the same strides share an element, when one begins `delta` elements after the other? Index differences d with
 * sum d * stride = delta are looked for from the axis of the largest stride down; at each axis only the two multiples next to what is
 * left can lead anywhere when strides are nested (each one spans the smaller axes), as those of views of one array are.
 */
static bool shares_element(const pl_tensor *x, const pl_tensor *y, int64_t delta,
                           uint32_t axes_left)
{
    int largest = -1;
    for (int d = 0; d < x->rank; d++)
        if ((axes_left >> d & 1) != 0 &&
            (largest < 0 || abs64(x->strides[d]) > abs64(x->strides[largest])))
            largest = d;
    if (largest < 0 || x->strides[largest] == 0)
        return delta == 0;
    int64_t s = x->strides[largest], q = delta / s;
    for (int64_t d = q - 1; d <= q + 1; d++)
        if (d < x->shape[largest] && -d < y->shape[largest] &&
            shares_element(x, y, delta - d * s, axes_left & ~(1u << largest)))
            return true;
    return false;
}

static int64_t gcd(int64_t x, int64_t y)
{
    while (y != 0) {
        const int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return x;
}

/* Two axes that come back to one address: some steps along the one are some steps along the other. */
static bool axes_meet(const pl_tensor *t, int d, int e)
{
    const int64_t x = abs64(t->strides[d]), y = abs64(t->strides[e]), g = gcd(x, y);
    return y / g < t->shape[d] && x / g < t->shape[e];
}

/*
 * The axis along which an element of t meets another one, -1: none. Certain overlap only: of one axis, of two, or of one step along an
 * axis and the others as shares_element() looks for them.
 */
static int overlapping_axis(const pl_tensor *t)
{
    uint32_t long_axes = 0;
    for (int d = 0; d < t->rank; d++)
        if (t->shape[d] > 1 && t->strides[d] == 0)
            return d;
        else if (t->shape[d] > 1)
            long_axes |= 1u << d;
    for (int d = 0; d < t->rank; d++) {
        if ((long_axes >> d & 1) == 0)
            continue;
        for (int e = d + 1; e < t->rank; e++)
            if ((long_axes >> e & 1) != 0 && axes_meet(t, d, e))
                return abs64(t->strides[d]) >= abs64(t->strides[e]) ? d : e;
        if (shares_element(t, t, t->strides[d], long_axes & ~(1u << d)))
            return d;
    }
    return -1;
}

static bool is_written(const pl_param_decl *p)
{
    return p->role == PL_ROLE_OUT || p->role == PL_ROLE_INOUT;
}

static void check_tensor(struct args *a, size_t i)
{
    const pl_param_decl *p = &a->q->kernel->params[i];
    const pl_tensor *t = &a->q->args[i].u.tensor;
    if (t->dtype <= PL_DTYPE_NONE || t->dtype >= PL_DTYPE_COUNT) {
        if (broken(a))
            pl_d_arg_bad_dtype(a->ds, at(a, i, NO_DIM), p->name, (int)t->dtype);
        return;
    }
    if (t->rank < p->min_rank || t->rank > p->max_rank || t->rank < 0 || t->rank > PL_MAX_RANK) {
        if (broken(a))
            pl_d_arg_rank(a->ds, at_values(a, i, NO_DIM, t->rank, p->min_rank), p->name, t->rank,
                          p->min_rank, p->max_rank);
        return;
    }
    if ((p->dtypes >> t->dtype & 1) == 0 && broken(a))
        pl_d_arg_dtype(a->ds, at(a, i, NO_DIM), p->name, pl_dtype_name(t->dtype),
                       dtype_names(a, p->dtypes));
    if (!check_extents(a, i, t))
        return;
    if (a->spans[i].end != 0) {
        check_address(a, i, t);
        const int d = is_written(p) ? overlapping_axis(t) : -1;
        if (d >= 0 && broken(a))
            pl_d_arg_output_overlaps_itself(a->ds, at(a, i, d), p->name, d,
                                            (long long)t->strides[d]);
    }
    check_facts(a, i, t);
}

/* ---- one argument against another ---- */

static bool same_strides(const pl_tensor *x, const pl_tensor *y)
{
    if (x->rank != y->rank || x->dtype != y->dtype)
        return false;
    for (int d = 0; d < x->rank; d++)
        if (x->strides[d] != y->strides[d])
            return false;
    return true;
}

static bool is_same_tensor(const pl_tensor *x, const pl_tensor *y)
{
    if (x->address != y->address || !same_strides(x, y))
        return false;
    for (int d = 0; d < x->rank; d++)
        if (x->shape[d] != y->shape[d])
            return false;
    return true;
}

/*
 * Certain overlap only, of tensors that have elements and whose spans meet: interleaved tensors of different strides are let pass,
 * unless they begin at one address, where both have their element 0.
 */
static bool overlap(const pl_tensor *x, const pl_tensor *y)
{
    if (x->address == y->address)
        return true;
    if (pl_fact_among(x, PL_FACT_DENSE) != 0 && pl_fact_among(y, PL_FACT_DENSE) != 0)
        return true;
    int64_t bits = pl_dtype_bits(x->dtype), apart = (int64_t)(y->address - x->address) * 8;
    return same_strides(x, y) && apart % bits == 0 &&
           shares_element(x, y, apart / bits, (1u << x->rank) - 1);
}

static void check_aliases(struct args *a)
{
    const pl_kernel *k = a->q->kernel;
    for (size_t i = 0; i < k->n_params; i++) {
        const struct span x = a->spans[i];
        for (size_t j = 0; x.end != 0 && is_written(&k->params[i]) && j < k->n_params; j++) {
            const struct span y = a->spans[j];
            if (j == i || x.first >= y.end || y.first >= x.end)
                continue;
            const pl_tensor *t = &a->q->args[i].u.tensor, *u = &a->q->args[j].u.tensor;
            bool is_other_written = is_written(&k->params[j]);
            if ((is_other_written && j < i) || !overlap(t, u) ||
                (k->may_alias && !is_other_written && is_same_tensor(t, u)))
                continue;
            if (broken(a))
                pl_d_arg_alias(a->ds, at(a, i, NO_DIM), k->params[i].name, k->params[j].name);
        }
    }
}

static void check_shape(struct args *a, size_t i, int32_t rank, const int64_t *want)
{
    const char *name = a->q->kernel->params[i].name;
    const pl_tensor *t = &a->q->args[i].u.tensor;
    if (rank != t->rank) {
        if (broken(a))
            pl_d_arg_shape_rank(a->ds, at_values(a, i, NO_DIM, t->rank, rank), name, t->rank, rank);
        return;
    }
    for (int d = 0; d < t->rank; d++)
        if (t->shape[d] != want[d] && broken(a))
            pl_d_arg_shape(a->ds, at_values(a, i, d, t->shape[d], want[d]), name, d,
                           (long long)t->shape[d], (long long)want[d]);
}

/* Extents by the others': of the parameter that it is like, and as the kernel's function says. */
static void check_expected(struct args *a)
{
    const pl_kernel *k = a->q->kernel;
    const pl_request request = {.kernel = k,
                                .options = a->q->options,
                                .args = a->q->args,
                                .n_args = a->q->n_args,
                                .device = a->q->device};
    for (size_t i = 0; i < k->n_params; i++) {
        const int32_t like = k->params[i].like;
        pl_shape want = {.rank = -1};
        if (a->q->args[i].kind != PL_ARG_TENSOR)
            continue;
        if (like > 0 && (size_t)like <= i && a->q->args[like - 1].kind == PL_ARG_TENSOR)
            check_shape(a, i, a->q->args[like - 1].u.tensor.rank,
                        a->q->args[like - 1].u.tensor.shape);
        if (k->expect_shape != NULL)
            k->expect_shape(&request, i, &want);
        if (want.rank >= 0)
            check_shape(a, i, want.rank, want.d);
    }
}

bool pl_check_args(const struct pl_args_request *q, struct pl_diags *ds)
{
    const pl_kernel *k = q->kernel;
    struct args a;
    a.q = q;
    a.ds = ds;
    a.is_ok = true;
    if (q->n_args != k->n_params || k->n_params > PL_MAX_ARGS) {
        if (broken(&a))
            pl_d_arg_count(ds,
                           (struct pl_where){.file = q->file,
                                             .line = q->line,
                                             .has_values = true,
                                             .seen = (int64_t)q->n_args,
                                             .wanted = (int64_t)k->n_params},
                           k->name, q->n_args, k->n_params);
        return false;
    }
    for (size_t i = 0; i < k->n_params; i++) {
        const pl_param_decl *p = &k->params[i];
        pl_arg_kind kind = q->args[i].kind;
        a.spans[i] = (struct span){0, 0};
        if (kind == PL_ARG_NONE) {
            if (!p->is_optional && broken(&a))
                pl_d_arg_missing(ds, at(&a, i, NO_DIM), p->name);
        } else if (p->role == PL_ROLE_SCALAR) {
            check_scalar(&a, i);
        } else if (kind != PL_ARG_TENSOR) {
            if (broken(&a))
                pl_d_arg_kind(ds, at(&a, i, NO_DIM), p->name, kind_name(kind), "tensor");
        } else {
            check_tensor(&a, i);
        }
        if (!a.is_ok && ds == NULL)
            return false;
    }
    if (!a.is_ok)
        return false; /* what follows compares arguments that are valid one by one */
    check_expected(&a);
    check_aliases(&a);
    return a.is_ok;
}

bool pl_args_are_empty(const pl_kernel *kernel, const pl_arg *args)
{
    for (size_t i = 0; i < kernel->n_params; i++)
        if (is_written(&kernel->params[i]) && args[i].kind == PL_ARG_TENSOR &&
            pl_tensor_n_elems(&args[i].u.tensor) == 0)
            return true;
    return false;
}
