/*
 * Arguments and float64 references of the kernel library. Each reference states its bound where it is computed:
 * u32 is the unit roundoff of f32 (2^-24), u that of the output's type. Sums of n terms by 128 threads take at most
 * n_steps = ceil(n / 128) additions in a thread and 16 more across threads and warpgroups (Higham, "Accuracy and
 * Stability of Numerical Algorithms", section 4.2: the error of a summation tree of depth h is at most h u sum |x|).
 */
#include "tools/case.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double u32 = 0x1p-24;

static double n_steps(int64_t n) { return (double)((n + 127) / 128); }

/* What rounding v to the output adds: half an ulp, or half the smallest subnormal. */
static double round_bound(pl_dtype dtype, double v)
{
    return pl_host_epsilon(dtype) * fabs(v) * 1.001 + pl_host_tiny(dtype) / 2;
}

/* ---- arguments ---- */

struct maker {
    const struct pl_case_spec *spec;
    struct pl_case *c;
    struct pl_rng rng;
    char *why;
    size_t why_bytes;
    bool has_failed;
};

static pl_shape full_shape(const struct pl_case_spec *spec)
{
    pl_shape s = spec->shape;
    if (spec->batch > 0 && s.rank < PL_MAX_RANK) {
        memmove(s.d + 1, s.d, sizeof s.d - sizeof s.d[0]);
        s.d[0] = spec->batch;
        s.rank++;
    }
    return s;
}

static struct maker start(const struct pl_case_spec *spec, struct pl_case *c, char *why,
                          size_t why_bytes)
{
    return (struct maker){
        .spec = spec, .c = c, .rng = {spec->seed}, .why = why, .why_bytes = why_bytes};
}

static void add_tensor(struct maker *m, pl_dtype dtype, pl_shape shape, bool is_output)
{
    struct pl_case_arg *a = &m->c->args[m->c->n_args];
    const pl_shape full = full_shape(m->spec);
    /* the pitch asked for is that of the kernel's main shape; a tensor with longer rows takes its own row plus the surplus */
    struct pl_host_place place = {.base_offset_bytes = m->spec->base_offset_bytes,
                                  .pitch_elems = m->spec->pitch_elems,
                                  .has_no_bytes = m->spec->has_no_values};
    if (place.pitch_elems != 0 && shape.rank >= 2 && full.rank >= 2)
        place.pitch_elems += shape.d[shape.rank - 1] - full.d[full.rank - 1];
    *a = (struct pl_case_arg){.kind = PL_ARG_TENSOR, .is_output = is_output};
    const int64_t elem_bytes =
        pl_dtype_bits(dtype) / 8; /* an offset below an element's alignment is rounded up to it */
    if (elem_bytes > 0)
        place.base_offset_bytes =
            (place.base_offset_bytes + elem_bytes - 1) / elem_bytes * elem_bytes;
    if (elem_bytes == 0 || !pl_host_init(&a->host, dtype, shape, &place)) {
        if (elem_bytes == 0)
            snprintf(m->why, m->why_bytes, "tensor %zu: elements of %s are smaller than a byte",
                     m->c->n_args, pl_dtype_name(dtype));
        else
            snprintf(m->why, m->why_bytes,
                     "tensor %zu cannot be placed in memory: pitch %lld must be 0 or at least a "
                     "row of %lld "
                     "elements, base_offset %lld 0 or more, and the whole must fit",
                     m->c->n_args, (long long)place.pitch_elems,
                     (long long)(shape.rank > 0 ? shape.d[shape.rank - 1] : 1),
                     (long long)place.base_offset_bytes);
        m->has_failed = true;
        return;
    }
    if (is_output)
        m->c->output = m->c->n_args;
    else if (!m->spec->has_no_values)
        pl_host_fill_random(&a->host, &m->rng);
    if (!is_output && m->spec->has_specials && !m->spec->has_no_values)
        pl_host_add_specials(&a->host, &m->rng);
    m->c->n_args++;
}

static void add_f32(struct maker *m, float v)
{
    m->c->args[m->c->n_args++] = (struct pl_case_arg){.kind = PL_ARG_F32, .f32 = v};
}

static pl_dtype out_dtype(const struct pl_case_spec *spec)
{
    return spec->out_dtype != PL_DTYPE_NONE ? spec->out_dtype : spec->dtype;
}

static void set_options(struct pl_case *c, const void *options, size_t n_bytes)
{
    memcpy(c->options, options, n_bytes);
    c->has_options = true;
}

/* Rows along the last axis: element j of row i is i * n + j. */
struct rows {
    int64_t m, n;
};

static struct rows rows_of(const struct pl_host *t)
{
    struct rows r = {1, t->rank > 0 ? t->shape[t->rank - 1] : 1};
    for (int i = 0; i + 1 < t->rank; i++)
        r.m *= t->shape[i];
    return r;
}

/* ---- elementwise ---- */

static void copy_reference(struct pl_case *c)
{
    const int64_t n = pl_host_n_elems(&c->args[0].host);
    for (int64_t i = 0; i < n; i++) /* exact; a cast rounds once, to nearest even */
        c->want[i] = pl_host_round(c->args[1].host.dtype, pl_host_get(&c->args[0].host, i));
}

static bool make_copy(const struct pl_case_spec *spec, struct pl_case *c, char *why,
                      size_t why_bytes)
{
    struct maker m = start(spec, c, why, why_bytes);
    add_tensor(&m, spec->dtype, full_shape(spec), false);
    add_tensor(&m, spec->dtype, full_shape(spec), true);
    c->reference = copy_reference;
    return !m.has_failed;
}

static bool make_cast(const struct pl_case_spec *spec, struct pl_case *c, char *why,
                      size_t why_bytes)
{
    struct maker m = start(spec, c, why, why_bytes);
    add_tensor(&m, spec->dtype, full_shape(spec), false);
    add_tensor(&m, spec->out_dtype != PL_DTYPE_NONE ? spec->out_dtype : PL_F32, full_shape(spec),
               true);
    c->reference = copy_reference;
    return !m.has_failed;
}

static void scale_reference(struct pl_case *c)
{
    const struct pl_host *x = &c->args[0].host, *y = &c->args[1].host;
    const int64_t n = pl_host_n_elems(x);
    for (int64_t i = 0; i < n; i++) {
        const double v = pl_host_get(x, i) * (double)c->args[2].f32; /* exact: 24 + 24 bits */
        c->want[i] = v;
        c->bound[i] = u32 * fabs(v) + 0x1p-150 + round_bound(y->dtype, v);
    }
}

static bool make_scale(const struct pl_case_spec *spec, struct pl_case *c, char *why,
                       size_t why_bytes)
{
    struct maker m = start(spec, c, why, why_bytes);
    add_tensor(&m, spec->dtype, full_shape(spec), false);
    add_tensor(&m, spec->dtype, full_shape(spec), true);
    add_f32(&m, (float)(1.0 + pl_rng_uniform(&m.rng)));
    c->reference = scale_reference;
    return !m.has_failed;
}

static void add_reference(struct pl_case *c)
{
    const struct pl_host *y = &c->args[2].host;
    const int64_t n = pl_host_n_elems(y);
    for (int64_t i = 0; i < n; i++) {
        const double v = pl_host_get(&c->args[0].host, i) + pl_host_get(&c->args[1].host, i);
        c->want[i] = v;
        c->bound[i] = u32 * fabs(v) + round_bound(y->dtype, v);
    }
}

static bool make_add(const struct pl_case_spec *spec, struct pl_case *c, char *why,
                     size_t why_bytes)
{
    struct maker m = start(spec, c, why, why_bytes);
    add_tensor(&m, spec->dtype, full_shape(spec), false);
    add_tensor(&m, spec->dtype, full_shape(spec), false);
    add_tensor(&m, spec->dtype, full_shape(spec), true);
    c->reference = add_reference;
    return !m.has_failed;
}

/* ---- transpose ---- */

static void transpose_reference(struct pl_case *c)
{
    const struct pl_host *x = &c->args[0].host;
    const int64_t rows = x->shape[x->rank - 2], cols = x->shape[x->rank - 1],
                  n = pl_host_n_elems(x);
    for (int64_t i = 0; i < n; i++) {
        const int64_t plane = i / (rows * cols), r = i / cols % rows, col = i % cols;
        c->want[plane * rows * cols + col * rows + r] = pl_host_get(x, i);
    }
}

static bool make_transpose(const struct pl_case_spec *spec, struct pl_case *c, char *why,
                           size_t why_bytes)
{
    struct maker m = start(spec, c, why, why_bytes);
    pl_shape x = full_shape(spec), y = x;
    if (x.rank < 2) {
        snprintf(why, why_bytes, "transpose wants a shape of rank 2 or more, not %d", (int)x.rank);
        return false;
    }
    y.d[y.rank - 1] = x.d[x.rank - 2];
    y.d[y.rank - 2] = x.d[x.rank - 1];
    add_tensor(&m, spec->dtype, x, false);
    if (!m.has_failed)
        add_tensor(&m, spec->dtype, y, true);
    c->reference = transpose_reference;
    return !m.has_failed;
}

/* ---- reduce ---- */

static const char *const reduce_names[PL_REDUCE_OP_COUNT] = {"sum", "mean", "max", "min"};

/* max and min pass over NaNs; +0 is above -0 (PTX ISA, "Floating Point Instructions: max"). */
static double fold(int op, double acc, double v)
{
    if (op == PL_REDUCE_SUM || op == PL_REDUCE_MEAN)
        return acc + v;
    if (isnan(v) || isnan(acc))
        return isnan(v) ? acc : v;
    const bool is_above = v > acc || (v == acc && signbit(acc) && !signbit(v));
    const bool is_below = v < acc || (v == acc && !signbit(acc) && signbit(v));
    return (op == PL_REDUCE_MAX ? is_above : is_below) ? v : acc;
}

static void reduce_reference(struct pl_case *c)
{
    const struct pl_host *x = &c->args[0].host, *y = &c->args[1].host;
    pl_reduce_options o;
    memcpy(&o, c->options, sizeof o);
    int64_t outer = 1, inner = 1;
    const int64_t n = x->shape[o.axis];
    for (int i = 0; i < x->rank; i++)
        *(i < o.axis ? &outer : &inner) *= i == o.axis ? 1 : x->shape[i];
    for (int64_t i = 0; i < outer * inner; i++) {
        double acc = o.op == PL_REDUCE_MAX   ? -INFINITY
                     : o.op == PL_REDUCE_MIN ? INFINITY
                                             : 0.0,
               sum_abs = 0.0;
        for (int64_t j = 0; j < n; j++) {
            const double v = pl_host_get(x, (i / inner * n + j) * inner + i % inner);
            acc = fold(o.op, acc, v);
            sum_abs += fabs(v);
        }
        const bool is_sum = o.op == PL_REDUCE_SUM || o.op == PL_REDUCE_MEAN;
        const double scale = o.op == PL_REDUCE_MEAN ? 1.0 / (double)n : 1.0;
        c->want[i] = is_sum ? acc * scale : acc;
        if (is_sum && n > 0) /* a mean divides once more: 2 ulp of f32 */
            c->bound[i] = (n_steps(n) + 16) * u32 * sum_abs * scale + 4 * u32 * fabs(acc * scale) +
                          round_bound(y->dtype, acc * scale);
        else /* exact, but for the rounding to the output */
            c->want[i] = pl_host_round(y->dtype, c->want[i]);
    }
}

static bool make_reduce(const struct pl_case_spec *spec, struct pl_case *c, char *why,
                        size_t why_bytes)
{
    struct maker m = start(spec, c, why, why_bytes);
    pl_shape x = full_shape(spec), y = x;
    const int axis = spec->axis < 0 ? spec->axis + x.rank : spec->axis;
    int op = 0;
    while (spec->op != NULL && op < PL_REDUCE_OP_COUNT && strcmp(spec->op, reduce_names[op]) != 0)
        op++;
    if (op == PL_REDUCE_OP_COUNT || axis < 0 || axis >= x.rank) {
        if (op == PL_REDUCE_OP_COUNT)
            snprintf(why, why_bytes, "op %s is not one of sum mean max min", spec->op);
        else
            snprintf(why, why_bytes, "axis %d is outside the %d axes of the shape", spec->axis,
                     (int)x.rank);
        return false;
    }
    y.d[axis] = 1;
    add_tensor(&m, spec->dtype, x, false);
    if (!m.has_failed)
        add_tensor(&m, out_dtype(spec), y, true);
    set_options(c, &(pl_reduce_options){.op = op, .axis = axis}, sizeof(pl_reduce_options));
    c->reference = reduce_reference;
    return !m.has_failed;
}

/* ---- softmax ---- */

static void softmax_row(struct pl_case *c, int64_t first, int64_t n)
{
    const struct pl_host *x = &c->args[0].host, *y = &c->args[1].host;
    double top = -INFINITY, sum = 0.0, span = 0.0;
    for (int64_t j = 0; j < n; j++)
        top = fmax(top, pl_host_get(x, first + j));
    for (int64_t j = 0; j < n; j++) {
        const double t = pl_host_get(x, first + j) - top;
        sum += exp(t);
        span = fmax(span, t > -100.0 ? -t : 0.0);
    }
    for (int64_t j = 0; j < n; j++) {
        const double t = pl_host_get(x, first + j) - top, v = exp(t) / sum;
        /* exponent: two roundings of t * log2(e), so 2 u32 |t| for the term and at most 2 u32 span in the sum; ex2.approx 2 ulp
         * each side; the sum's tree and one rescaling a step; the final division 2 ulp */
        const double rel =
            u32 * (40.0 + 4.0 * fmin(fabs(t), 1000.0) + 4.0 * span + 8.0 * n_steps(n));
        c->want[first + j] = v;
        c->bound[first + j] = rel * v + 0x1p-126 * 0x1p-20 + round_bound(y->dtype, v);
    }
}

static void softmax_reference(struct pl_case *c)
{
    const struct rows r = rows_of(&c->args[0].host);
    for (int64_t i = 0; i < r.m; i++)
        softmax_row(c, i * r.n, r.n);
}

static bool make_softmax(const struct pl_case_spec *spec, struct pl_case *c, char *why,
                         size_t why_bytes)
{
    struct maker m = start(spec, c, why, why_bytes);
    add_tensor(&m, spec->dtype, full_shape(spec), false);
    add_tensor(&m, out_dtype(spec), full_shape(spec), true);
    c->reference = softmax_reference;
    return !m.has_failed;
}

/* ---- rmsnorm ---- */

static void rmsnorm_reference(struct pl_case *c)
{
    const struct pl_host *x = &c->args[0].host, *w = &c->args[1].host, *y = &c->args[2].host;
    const double eps = (double)c->args[3].f32;
    const struct rows r = rows_of(x);
    for (int64_t i = 0; i < r.m; i++) {
        double sum = 0.0;
        for (int64_t j = 0; j < r.n; j++)
            sum += pl_host_get(x, i * r.n + j) * pl_host_get(x, i * r.n + j);
        const double scale = 1.0 / sqrt(sum / (double)r.n + eps);
        for (int64_t j = 0; j < r.n; j++) {
            const double weight = c->args[1].kind == PL_ARG_NONE ? 1.0 : pl_host_get(w, j),
                         v = pl_host_get(x, i * r.n + j) * scale * weight;
            /* half of the sum's relative error, rsqrt.approx 2 ulp, four roundings; products of subnormals round by 2^-150 */
            const double rel = u32 * ((n_steps(r.n) + 16.0) / 2.0 + 12.0);
            c->want[i * r.n + j] = v;
            c->bound[i * r.n + j] =
                rel * fabs(v) + round_bound(y->dtype, v) + 0x1p-149 * (1.0 + fabs(weight));
        }
    }
}

static bool make_rmsnorm(const struct pl_case_spec *spec, struct pl_case *c, char *why,
                         size_t why_bytes)
{
    struct maker m = start(spec, c, why, why_bytes);
    const pl_shape s = full_shape(spec);
    add_tensor(&m, spec->dtype, s, false);
    add_tensor(&m, spec->dtype,
               pl_shape_make(1, s.rank > 0 ? s.d[s.rank - 1] : 1, 0, 0, 0, 0, 0, 0, 0), false);
    add_tensor(&m, out_dtype(spec), s, true);
    add_f32(&m, 1e-5f);
    c->reference = rmsnorm_reference;
    return !m.has_failed;
}

/* ---- the table ---- */

static bool make_matmul(const struct pl_case_spec *spec, struct pl_case *c, char *why,
                        size_t why_bytes)
{
    return pl_case_make_matmul(spec, c, why, why_bytes);
}

const struct pl_case_kernel pl_case_kernels[] = {
#define KERNEL(id, n_axes, keys) {#id, &pl_kernel_##id, n_axes, keys, make_##id},
#include "tools/kernel.def"
#undef KERNEL
};
const size_t pl_case_n_kernels = sizeof pl_case_kernels / sizeof pl_case_kernels[0];
