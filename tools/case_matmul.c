/*
 * Arguments and float64 reference of matmul: --shape MxKxN, --set a_major=col and so on. The bound of an element:
 *
 *   sums      K products, each exact in f32 but for f32 operands (24 + 24 bits), added one by one to nearest, or in blocks of at
 *             least 8 with one truncation a block: either way at most (K + 16) u32 times the sum of their sizes, which is at most
 *             |row of a| |column of b| (Higham, "Accuracy and Stability of Numerical Algorithms", section 4.2)
 *   tf32      operands cut to 10 bits of fraction: 2^-10 each, of a subnormal one 2^-136 (the last of the 10 bits at 2^-126)
 *   underflow 2^-149 an addition
 *   epilogue  one rounding an operation; exp2 and 1/x 2 ulp each
 */
#include "tools/case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double u32 = 0x1p-24;

double pl_case_extra(const struct pl_case_spec *spec, const char *key, double otherwise)
{
    for (int i = 0; i < spec->n_extra; i++)
        if (strcmp(spec->extra[i].key, key) == 0)
            return spec->extra[i].value;
    return otherwise;
}

/* ---- reference ---- */

enum arg { A, B, Y, C, BIAS, ALPHA, BETA, N_ARGS };

/* One batch's matrices as f64, row-major. */
struct planes {
    int64_t m, n, k;
    double *a, *b;     /* (m, k), (k, n) */
    double *row, *col; /* Euclidean lengths */
    double *sum;       /* one row of the product */
};

static void fill_plane(const struct pl_host *t, int64_t batch, double *out, int64_t n)
{
    const int64_t first = t->rank > 2 ? batch * n : 0;
    for (int64_t i = 0; i < n; i++)
        out[i] = pl_host_get(t, first + i);
}

static void fill_lengths(struct planes *p)
{
    memset(p->col, 0, (size_t)p->n * sizeof *p->col);
    for (int64_t i = 0; i < p->m; i++) {
        double s = 0;
        for (int64_t k = 0; k < p->k; k++)
            s += p->a[i * p->k + k] * p->a[i * p->k + k];
        p->row[i] = sqrt(s);
    }
    for (int64_t k = 0; k < p->k; k++)
        for (int64_t j = 0; j < p->n; j++)
            p->col[j] += p->b[k * p->n + j] * p->b[k * p->n + j];
    for (int64_t j = 0; j < p->n; j++)
        p->col[j] = sqrt(p->col[j]);
}

static double activate(int32_t activation, double x)
{
    switch ((pl_activation)activation) {
    case PL_ACTIVATION_RELU: return x > 0 ? x : 0;
    case PL_ACTIVATION_SILU: return x / (1 + exp(-x));
    case PL_ACTIVATION_GELU:
        return x / 2 * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case PL_ACTIVATION_NONE:
    case PL_ACTIVATION_COUNT: break;
    }
    return x;
}

/* Relative error of the activation's own arithmetic; its slope is at most 1.13. */
static double activation_error(int32_t activation, double x)
{
    if (activation == PL_ACTIVATION_SILU || activation == PL_ACTIVATION_GELU)
        return u32 * (16 + 8 * fmin(fabs(x) * (1 + x * x), 1000));
    return 0;
}

static double scalar_of(const struct pl_case *c, enum arg i)
{
    return c->args[i].kind == PL_ARG_F32 ? (double)c->args[i].f32 : 1.0;
}

static bool is_tf32(const struct pl_case *c, const pl_matmul_options *o)
{
    const pl_dtype t = c->args[A].host.dtype;
    return t == PL_TF32 || (t == PL_F32 && !o->is_exact);
}

/* Of one sum of products, before the epilogue. */
static double sum_error(const struct pl_case *c, const pl_matmul_options *o, const struct planes *p,
                        int64_t i, int64_t j)
{
    if (c->has_whole_values || c->args[A].host.dtype == PL_I8)
        return 0;
    const double n_added = (double)(p->k + 16), lengths = p->row[i] * p->col[j];
    double error = n_added * (u32 * lengths + 0x1p-149);
    if (is_tf32(c, o))
        error += (0x1p-9 + 0x1p-19) * lengths +
                 0x1p-136 * sqrt((double)p->k) * (p->row[i] + p->col[j] + 0x1p-136);
    return error;
}

static void finish_row(struct pl_case *c, const struct planes *p, int64_t batch, int64_t i)
{
    pl_matmul_options o;
    memcpy(&o, c->options, sizeof o);
    const double alpha = scalar_of(c, ALPHA), beta = scalar_of(c, BETA);
    const pl_dtype to = c->args[Y].host.dtype;
    for (int64_t j = 0; j < p->n; j++) {
        const int64_t at = (batch * p->m + i) * p->n + j;
        double v = alpha * p->sum[j], size = fabs(v);
        double error = fabs(alpha) * sum_error(c, &o, p, i, j);
        if (c->args[C].kind == PL_ARG_TENSOR) {
            const struct pl_host *t = &c->args[C].host;
            const double x = beta * pl_host_get(t, t->rank > 2 ? at : i * p->n + j);
            v += x;
            size += fabs(x);
        }
        if (c->args[BIAS].kind == PL_ARG_TENSOR) {
            const double x = pl_host_get(&c->args[BIAS].host, j);
            v += x;
            size += fabs(x);
        }
        const bool is_exact =
            to == PL_I32 || (c->has_whole_values && size < 0x1p24 && alpha == 1 && beta == 1);
        error += is_exact ? 0 : 4 * u32 * size;
        const double x = activate(o.activation, v);
        c->want[at] = x;
        c->bound[at] =
            1.13 * error + activation_error(o.activation, v) * fabs(x) +
            (to == PL_I32 ? 0
                          : pl_host_epsilon(to) * (fabs(x) + error) * 1.001 + pl_host_tiny(to) / 2);
    }
}

static void multiply(struct pl_case *c, struct planes *p, int64_t batch)
{
    fill_plane(&c->args[A].host, batch, p->a, p->m * p->k);
    fill_plane(&c->args[B].host, batch, p->b, p->k * p->n);
    fill_lengths(p);
    for (int64_t i = 0; i < p->m; i++) {
        memset(p->sum, 0, (size_t)p->n * sizeof *p->sum);
        for (int64_t k = 0; k < p->k; k++) {
            const double x = p->a[i * p->k + k], *row = p->b + k * p->n;
            for (int64_t j = 0; j < p->n; j++)
                p->sum[j] += x * row[j];
        }
        finish_row(c, p, batch, i);
    }
}

static void reference(struct pl_case *c)
{
    const struct pl_host *a = &c->args[A].host, *y = &c->args[Y].host;
    struct planes p = {
        .m = y->shape[y->rank - 2], .n = y->shape[y->rank - 1], .k = a->shape[a->rank - 1]};
    const int64_t n_elems = pl_host_n_elems(y);
    double *all = calloc((size_t)(p.m * p.k + p.k * p.n + p.m + 2 * p.n + 1), sizeof *all);
    if (all == NULL)
        abort(); /* of the command and the tests: a reference that is not there must not pass */
    p.a = all;
    p.b = p.a + p.m * p.k;
    p.row = p.b + p.k * p.n;
    p.col = p.row + p.m;
    p.sum = p.col + p.n;
    for (int64_t batch = 0; n_elems != 0 && batch < n_elems / (p.m * p.n); batch++)
        multiply(c, &p, batch);
    free(all);
}

/* ---- arguments ---- */

struct maker {
    const struct pl_case_spec *spec;
    struct pl_case *c;
    struct pl_rng rng;
    int64_t surplus; /* of each matrix's pitch over its rows */
    bool has_failed;
};

static void add_tensor(struct maker *m, pl_dtype dtype, pl_shape s, bool is_column_major)
{
    const struct pl_case_spec *spec = m->spec;
    struct pl_case_arg *arg = &m->c->args[m->c->n_args++];
    const int64_t es = pl_dtype_bits(dtype) / 8, row = s.d[s.rank - (is_column_major ? 2 : 1)];
    const struct pl_host_place place = {
        .base_offset_bytes = es == 0 ? 0 : (spec->base_offset_bytes + es - 1) / es * es,
        .pitch_elems = m->surplus > 0 && s.rank > 1 ? row + m->surplus : 0,
        .is_transposed = is_column_major,
        .has_no_bytes = spec->has_no_values};
    *arg = (struct pl_case_arg){.kind = PL_ARG_TENSOR, .is_output = m->c->n_args == Y + 1};
    if (!pl_host_init(&arg->host, dtype, s, &place)) {
        m->has_failed = true;
        return;
    }
    if (arg->is_output || spec->has_no_values)
        return;
    if (m->c->has_whole_values)
        for (int64_t i = 0, n = pl_host_n_elems(&arg->host); i < n; i++)
            pl_host_set(&arg->host, i, floor(pl_rng_uniform(&m->rng) * 9) - 4);
    else
        pl_host_fill_random(&arg->host, &m->rng);
}

static void add_scalar(struct maker *m, const char *key)
{
    const double v = pl_case_extra(m->spec, key, NAN);
    m->c->args[m->c->n_args++] = isnan(v)
                                     ? (struct pl_case_arg){.kind = PL_ARG_NONE}
                                     : (struct pl_case_arg){.kind = PL_ARG_F32, .f32 = (float)v};
}

static pl_shape matrix(const struct pl_case_spec *spec, int64_t rows, int64_t cols)
{
    return spec->batch > 0 ? PL_SHAPE(spec->batch, rows, cols) : PL_SHAPE(rows, cols);
}

static int32_t activation_of(const char *op)
{
    static const char *const names[PL_ACTIVATION_COUNT] = {"none", "relu", "gelu", "silu"};
    int32_t i = 0;
    while (op != NULL && i < PL_ACTIVATION_COUNT && strcmp(op, names[i]) != 0)
        i++;
    return i;
}

static int32_t wish(const struct pl_case_spec *spec, const char *key)
{
    return (int32_t)pl_case_extra(spec, key, 0);
}

static void set_options(const struct pl_case_spec *spec, struct pl_case *c)
{
    const pl_matmul_options o = {.activation = activation_of(spec->op),
                                 .is_exact = wish(spec, "exact"),
                                 .tile_m = wish(spec, "tile_m"),
                                 .tile_n = wish(spec, "tile_n"),
                                 .tile_k = wish(spec, "tile_k"),
                                 .stages = wish(spec, "stages"),
                                 .cluster_m = wish(spec, "cluster_m"),
                                 .cluster_n = wish(spec, "cluster_n")};
    memcpy(c->options, &o, sizeof o);
    c->has_options = true;
}

static void add_all(struct maker *m)
{
    const struct pl_case_spec *s = m->spec;
    const int64_t rows = s->shape.d[0], depth = s->shape.d[1], cols = s->shape.d[2];
    const pl_dtype other = s->dtype == PL_I8              ? PL_I32
                           : pl_dtype_bits(s->dtype) == 8 ? PL_BF16
                                                          : s->dtype,
                   out = s->out_dtype != PL_DTYPE_NONE ? s->out_dtype
                         : other == PL_TF32            ? PL_F32
                                                       : other;
    const bool is_y_across = wish(s, "y_major") != 0;
    add_tensor(m, s->dtype, matrix(s, rows, depth), wish(s, "a_major") != 0);
    add_tensor(m, s->dtype, wish(s, "shared") != 0 ? PL_SHAPE(depth, cols) : matrix(s, depth, cols),
               wish(s, "b_major") != 0);
    add_tensor(m, out, matrix(s, rows, cols), is_y_across);
    m->c->output = Y;
    if (wish(s, "c") != 0)
        add_tensor(m, out, matrix(s, rows, cols), is_y_across);
    else
        m->c->n_args++;
    if (wish(s, "bias") != 0)
        add_tensor(m, PL_F32, PL_SHAPE(cols), false);
    else
        m->c->n_args++;
    add_scalar(m, "alpha");
    add_scalar(m, "beta");
}

bool pl_case_make_matmul(const struct pl_case_spec *spec, struct pl_case *c, char *why,
                         size_t why_bytes)
{
    struct maker m = {.spec = spec, .c = c, .rng = {spec->seed}};
    if (spec->shape.rank != 3) {
        snprintf(why, why_bytes, "matmul wants a shape MxKxN, not one of rank %d",
                 (int)spec->shape.rank);
        return false;
    }
    if (activation_of(spec->op) == PL_ACTIVATION_COUNT) {
        snprintf(why, why_bytes, "op %s is not one of none relu gelu silu", spec->op);
        return false;
    }
    m.surplus = spec->pitch_elems == 0 ? 0 : spec->pitch_elems - spec->shape.d[1];
    c->has_whole_values = spec->has_whole_values;
    set_options(spec, c);
    add_all(&m);
    if (m.has_failed || m.surplus < 0)
        snprintf(
            why, why_bytes,
            "a matrix cannot be placed in memory: pitch %lld must be 0 or at least a row of a, "
            "%lld elements, base_offset %lld 0 or more, elements whole bytes, and the whole must "
            "fit",
            (long long)spec->pitch_elems, (long long)spec->shape.d[1],
            (long long)spec->base_offset_bytes);
    c->reference = reference;
    return !m.has_failed && m.surplus >= 0;
}
