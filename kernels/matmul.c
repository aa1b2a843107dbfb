/*
 * matmul: arguments, configurations, and what the bodies share. Arranging makes few cases of many: a column-major operand is the
 * row-major matrix with its axes exchanged (and then K is its other axis), a column-major y makes the transposed problem.
 */
#include "kernels/matmul.h"

#include <string.h>

/* ---- the list ---- */

#define SIMPLE(m, n)                                                                               \
    {                                                                                              \
        .config = {.path = PL_MM_SIMPLE,                                                           \
                   .tile_m = (m),                                                                  \
                   .tile_n = (n),                                                                  \
                   .tile_k = 1,                                                                    \
                   .stages = 1,                                                                    \
                   .cluster_m = 1,                                                                 \
                   .cluster_n = 1,                                                                 \
                   .n_consumers = 1,                                                               \
                   .raster_width = 8},                                                             \
        .first_arch = 80, .last_arch = 121                                                         \
    }

/* Tiles of 128 bytes of K, and operand slots and staging that fill a CTA's shared memory, or half of it. */
#define HOPPER(m, n, stages_, cm, cn)                                                              \
    {                                                                                              \
        .config = {.path = PL_MM_HOPPER,                                                           \
                   .tile_m = (m),                                                                  \
                   .tile_n = (n),                                                                  \
                   .tile_k = 128,                                                                  \
                   .stages = (stages_),                                                            \
                   .cluster_m = (cm),                                                              \
                   .cluster_n = (cn),                                                              \
                   .n_consumers = (m) / 64,                                                        \
                   .raster_width = 8},                                                             \
        .first_arch = 90, .last_arch = 90                                                          \
    }

/* Tiles of 64 bytes of K, in slots that fill the smallest chip's shared memory, or leave room for a second CTA. The path looks at the chip. */
#define PORTABLE(m, n, stages_, n_warpgroups)                                                      \
    {                                                                                              \
        .config = {.path = PL_MM_PORTABLE,                                                         \
                   .tile_m = (m),                                                                  \
                   .tile_n = (n),                                                                  \
                   .tile_k = 64,                                                                   \
                   .stages = (stages_),                                                            \
                   .cluster_m = 1,                                                                 \
                   .cluster_n = 1,                                                                 \
                   .n_consumers = (n_warpgroups),                                                  \
                   .raster_width = 8},                                                             \
        .first_arch = 80, .last_arch = 121                                                         \
    }

/* The same; cm 2: pairs, whose tiles have twice the rows, and of b half in each CTA. */
#define BLACKWELL(m, n, stages_, cm)                                                               \
    {                                                                                              \
        .config = {.path = PL_MM_BLACKWELL,                                                        \
                   .tile_m = (m),                                                                  \
                   .tile_n = (n),                                                                  \
                   .tile_k = 128,                                                                  \
                   .stages = (stages_),                                                            \
                   .cluster_m = (cm),                                                              \
                   .cluster_n = 1,                                                                 \
                   .n_consumers = 1,                                                               \
                   .raster_width = 8},                                                             \
        .first_arch = 100, .last_arch = 109                                                        \
    }

static const struct pl_mm_row rows[] = {
    SIMPLE(1, 128),
    SIMPLE(8, 128),
    SIMPLE(8, 512),
    HOPPER(128, 256, 4, 2, 1),
    HOPPER(128, 256, 4, 1, 1),
    HOPPER(128, 128, 6, 2, 1),
    HOPPER(128, 128, 6, 1, 2),
    HOPPER(128, 128, 6, 1, 1),
    HOPPER(64, 256, 4, 1, 1),
    HOPPER(64, 128, 4, 1, 1),
    HOPPER(64, 64, 5, 1, 1),
    PORTABLE(256, 128, 4, 2),
    PORTABLE(128, 128, 4, 2),
    PORTABLE(64, 128, 4, 1),
    PORTABLE(64, 64, 5, 1),
    BLACKWELL(128, 256, 6, 2),
    BLACKWELL(128, 256, 4, 1),
    BLACKWELL(128, 128, 7, 2),
    BLACKWELL(128, 128, 6, 1),
    BLACKWELL(128, 64, 6, 1),
    BLACKWELL(64, 128, 6, 1),
    BLACKWELL(64, 64, 6, 1),
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static const struct {
    pl_mm_serves *serves;
    pl_mm_body *body;
    void (*dims)(const pl_request *, const struct pl_mm_config *, pl_launch_dims *);
} paths[PL_MM_PATH_COUNT] = {
    [PL_MM_SIMPLE] = {pl_mm_simple_serves, pl_mm_simple_body, pl_mm_tile_dims},
    [PL_MM_HOPPER] = {pl_mm_hopper_serves, pl_mm_hopper_body, pl_mm_persistent_dims},
    [PL_MM_PORTABLE] = {pl_mm_portable_serves, pl_mm_portable_body, pl_mm_tile_dims},
    [PL_MM_BLACKWELL] = {pl_mm_blackwell_serves, pl_mm_blackwell_body, pl_mm_persistent_dims},
};

/* ---- arguments ---- */

static const pl_tensor *tensor_of(const pl_request *request, size_t i)
{
    return i < request->n_args && request->args[i].kind == PL_ARG_TENSOR
               ? &request->args[i].u.tensor
               : NULL;
}

/* Extent of axis `back` from the end (1: the last). */
static int64_t extent(const pl_tensor *t, int32_t back) { return t->shape[t->rank - back]; }

/* y takes the leading axes of the operand that has more; m from a, n from b. */
static void expect_shape(const pl_request *request, size_t arg, pl_shape *want)
{
    const pl_tensor *a = tensor_of(request, PL_MM_A), *b = tensor_of(request, PL_MM_B),
                    *t = tensor_of(request, arg);
    const pl_tensor *longer = a->rank >= b->rank ? a : b;
    *want = pl_shape_of(t);
    switch (arg) {
    case PL_MM_A: return;
    case PL_MM_B:
        want->d[t->rank - 2] = extent(a, 1);
        for (int32_t i = 3; i <= t->rank && i <= a->rank; i++)
            want->d[t->rank - i] = extent(a, i);
        return;
    case PL_MM_BIAS: want->d[0] = extent(b, 1); return;
    default: break;
    }
    if (arg == PL_MM_Y || t->rank > 2) /* c may be one matrix for all */
        *want = pl_shape_of(longer);
    want->d[want->rank - 2] = extent(a, 2);
    want->d[want->rank - 1] = extent(b, 1);
}

static void exchange_axes(pl_tensor *t)
{
    const int32_t i = t->rank - 2, j = t->rank - 1;
    const int64_t n = t->shape[i], s = t->strides[i];
    t->shape[i] = t->shape[j];
    t->strides[i] = t->strides[j];
    t->shape[j] = n;
    t->strides[j] = s;
}

/* Columns are runs of memory, rows are not. */
static bool is_column_major(const pl_tensor *t)
{
    const int32_t i = t->rank - 2, j = t->rank - 1;
    return t->shape[j] > 1 && t->strides[j] != 1 && (t->strides[i] == 1 || t->shape[i] <= 1);
}

/* As many axes as y; the new leading ones are broadcast. */
static void add_axes(pl_tensor *t, const pl_tensor *y)
{
    const int32_t n_new = y->rank - t->rank;
    if (n_new <= 0)
        return;
    memmove(t->shape + n_new, t->shape, (size_t)t->rank * sizeof t->shape[0]);
    memmove(t->strides + n_new, t->strides, (size_t)t->rank * sizeof t->strides[0]);
    for (int32_t i = 0; i < n_new; i++) {
        t->shape[i] = y->shape[i];
        t->strides[i] = 0;
    }
    t->rank = y->rank;
}

/*
 * Without any K nothing is read, and no tensor map has an extent of 0: an address that no map takes, so that the bodies that use them
 * never see it.
 */
static void set_apart_if_empty(pl_tensor *a)
{
    if (extent(a, 1) == 0)
        a->address = (uint64_t)pl_dtype_bits(a->dtype) / 8;
}

static uint32_t arrange(const pl_request *request, pl_arg *args)
{
    uint32_t bits = 0;
    pl_tensor *const y = &args[PL_MM_Y].u.tensor;
    (void)request;
    set_apart_if_empty(&args[PL_MM_A].u.tensor);
    for (int i = 0; i <= PL_MM_C; i++)
        if (args[i].kind == PL_ARG_TENSOR)
            add_axes(&args[i].u.tensor, y);
    if (is_column_major(y)) {
        const pl_arg a = args[PL_MM_A];
        bits |= PL_MM_IS_MIRRORED;
        args[PL_MM_A] = args[PL_MM_B];
        args[PL_MM_B] = a;
        for (int i = 0; i <= PL_MM_C; i++)
            if (args[i].kind == PL_ARG_TENSOR)
                exchange_axes(&args[i].u.tensor);
    }
    if (is_column_major(&args[PL_MM_A].u.tensor)) {
        bits |= PL_MM_A_IS_ACROSS;
        exchange_axes(&args[PL_MM_A].u.tensor);
    }
    if (is_column_major(&args[PL_MM_B].u.tensor))
        exchange_axes(&args[PL_MM_B].u.tensor);
    else
        bits |= PL_MM_B_IS_ACROSS;
    return bits;
}

/* ---- choosing ---- */

static bool is_pair(pl_dtype_set set, pl_dtype a, pl_dtype b)
{
    return (set >> a & 1) != 0 && (set >> b & 1) != 0;
}

/* Types that go together: of equal kind and width; y of whole numbers only for whole numbers, and then nothing is scaled. */
static bool has_good_dtypes(const pl_request *request)
{
    const pl_dtype a = tensor_of(request, PL_MM_A)->dtype, b = tensor_of(request, PL_MM_B)->dtype;
    const pl_matmul_options *o = request->options;
    const bool is_known = a == b || is_pair(PL_DT(E4M3) | PL_DT(E5M2), a, b) ||
                          is_pair(PL_DT(F32) | PL_DT(TF32), a, b);
    const pl_tensor *c = tensor_of(request, PL_MM_C), *y = tensor_of(request, PL_MM_Y);
    if (!is_known || (c != NULL && c->dtype != y->dtype))
        return false;
    if (y->dtype != PL_I32)
        return true;
    return a == PL_I8 && o->activation == PL_ACTIVATION_NONE &&
           tensor_of(request, PL_MM_BIAS) == NULL &&
           request->args[PL_MM_ALPHA].kind == PL_ARG_NONE &&
           request->args[PL_MM_BETA].kind == PL_ARG_NONE;
}

static bool is_asked(int32_t wanted, int32_t has) { return wanted == 0 || wanted == has; }

/* Bytes of K as elements. */
static int32_t k_elems(const struct pl_mm_row *row, const pl_request *request)
{
    const int32_t n_bytes = row->config.tile_k,
                  bits = pl_dtype_bits(tensor_of(request, PL_MM_A)->dtype);
    return row->config.path == PL_MM_SIMPLE ? n_bytes : n_bytes * 8 / bits;
}

static bool can_serve(const struct pl_mm_row *row, const pl_request *request)
{
    const pl_matmul_options *o = request->options;
    const struct pl_mm_config *c = &row->config;
    const int32_t arch = request->device->arch;
    return arch >= row->first_arch && arch <= row->last_arch && is_asked(o->tile_m, c->tile_m) &&
           is_asked(o->tile_n, c->tile_n) && is_asked(o->tile_k, k_elems(row, request)) &&
           is_asked(o->stages, c->stages) && is_asked(o->cluster_m, c->cluster_m) &&
           is_asked(o->cluster_n, c->cluster_n) && (!o->is_exact || c->path == PL_MM_SIMPLE) &&
           paths[c->path].serves(request, c);
}

static int64_t n_batches(const pl_tensor *y) { return pl_count_rows(y, y->rank - 2); }

/*
 * Cost of a configuration: waves of clusters, times the work of a tile. A tile's work is its multiplications, or what it must load
 * where that is slower: one byte of operands a cycle and SM is worth about RATIO multiplications.
 */
static double cost(const struct pl_mm_row *row, const pl_request *request)
{
    enum { RATIO = 128 };
    const struct pl_mm_config *c = &row->config;
    const pl_tensor *y = tensor_of(request, PL_MM_Y);
    const int64_t m = c->tile_m * c->cluster_m, n = c->tile_n * c->cluster_n;
    const int64_t n_clusters =
        pl_ceil_div(extent(y, 2), m) * pl_ceil_div(extent(y, 1), n) * n_batches(y);
    int64_t n_places = request->device->n_sms / (c->cluster_m * c->cluster_n);
    if (n_places < 1)
        n_places = 1;
    const double flops = (double)c->tile_m * c->tile_n,
                 bytes = (double)c->tile_m / c->cluster_n + (double)c->tile_n / c->cluster_m;
    const double work = flops > bytes * RATIO ? flops : bytes * RATIO;
    return (double)pl_ceil_div(n_clusters, n_places) * work * (c->path == PL_MM_SIMPLE ? 64 : 1);
}

static const struct pl_mm_row *best_row(const pl_request *request)
{
    const struct pl_mm_row *best = NULL;
    double least = 0;
    for (int i = 0; i < N_ROWS; i++) {
        const double v = can_serve(&rows[i], request) ? cost(&rows[i], request) : 0;
        if (v > 0 && (best == NULL || v < least)) {
            best = &rows[i];
            least = v;
        }
    }
    return best;
}

static bool configure(const pl_request *request, int32_t config, void *params)
{
    struct pl_mm_config *p = params;
    if (!has_good_dtypes(request))
        return false;
    const struct pl_mm_row *row = config == PL_CONFIG_BEST ? best_row(request) : &rows[config];
    if (row == NULL)
        row = &rows[0]; /* y is empty, and any will do, or nothing serves */
    const pl_matmul_options *o = request->options;
    *p = row->config;
    p->tile_k = k_elems(row, request);
    p->activation = o->activation;
    p->a_is_across = (request->arrangement & PL_MM_A_IS_ACROSS) != 0;
    p->b_is_across = (request->arrangement & PL_MM_B_IS_ACROSS) != 0;
    p->bias_axis = (request->arrangement & PL_MM_IS_MIRRORED) != 0 ? 0 : 1;
    return o->activation >= 0 && o->activation < PL_ACTIVATION_COUNT && can_serve(row, request);
}

static int64_t n_cluster_tiles(const pl_request *request, const struct pl_mm_config *p)
{
    const pl_tensor *y = tensor_of(request, PL_MM_Y);
    return pl_ceil_div(extent(y, 2), (int64_t)p->tile_m * p->cluster_m) *
           pl_ceil_div(extent(y, 1), (int64_t)p->tile_n * p->cluster_n) * n_batches(y);
}

void pl_mm_tile_dims(const pl_request *request, const struct pl_mm_config *p, pl_launch_dims *out)
{
    *out = (pl_launch_dims){{n_cluster_tiles(request, p) * p->cluster_m * p->cluster_n, 1, 1}};
}

void pl_mm_persistent_dims(const pl_request *request, const struct pl_mm_config *p,
                           pl_launch_dims *out)
{
    const int64_t n_ctas = p->cluster_m * p->cluster_n, n_tiles = n_cluster_tiles(request, p);
    int64_t n = request->device->n_sms / n_ctas;
    n = n < 1 ? 1 : n;
    *out = (pl_launch_dims){{(n_tiles < n ? n_tiles : n) * n_ctas, 1, 1}};
}

static void launch_dims(const pl_request *request, const void *params, pl_launch_dims *out)
{
    const struct pl_mm_config *p = params;
    paths[p->path].dims(request, p, out);
}

/* ---- for bodies ---- */

pl_dtype pl_mm_acc_dtype(pl_dtype operand) { return operand == PL_I8 ? PL_I32 : PL_F32; }

struct pl_mm_problem pl_mm_problem_of(pl_builder *b, const struct pl_mm_config *p)
{
    pl_ref a = pl_param(b, PL_MM_A), y = pl_param(b, PL_MM_Y);
    const int32_t rank = pl_rank_of(b, y);
    struct pl_mm_problem q = {
        .m = pl_dim(b, y, rank - 2), .n = pl_dim(b, y, rank - 1), .n_lead = rank - 2};
    q.k = pl_as_index(b, y, pl_dim(b, a, p->a_is_across ? rank - 2 : rank - 1));
    q.m_tiles = pl_cdiv(b, q.m, p->tile_m * p->cluster_m);
    q.n_tiles = pl_cdiv(b, q.n, p->tile_n * p->cluster_n);
    q.n_all = pl_mul(b, q.m_tiles, q.n_tiles);
    for (int32_t i = 0; i < q.n_lead; i++)
        q.n_all = pl_mul(b, q.n_all, pl_dim(b, y, i));
    return q;
}

struct pl_mm_place pl_mm_place_of(pl_builder *b, const struct pl_mm_config *p,
                                  const struct pl_mm_problem *q, pl_val t)
{
    struct pl_mm_place at = {.n_lead = q->n_lead};
    if (q->n_lead > 0) {
        pl_val n_plane = pl_mul(b, q->m_tiles, q->n_tiles);
        pl_split_index(b, pl_param(b, PL_MM_Y), q->n_lead, pl_div(b, t, n_plane), at.lead);
        t = pl_rem(b, t, n_plane);
    }
    pl_snake(b, t, q->m_tiles, q->n_tiles, 0, p->raster_width, &at.row, &at.col);
    return at;
}

pl_ref pl_mm_plane(pl_builder *b, int32_t param, const struct pl_mm_place *at)
{
    if (!pl_has_arg(b, param))
        return (pl_ref){0};
    return pl_at_indices(b, pl_param(b, param), at->n_lead, at->lead);
}

/* x / (1 + 2^e); right at both ends: the power is 0 or infinite there. */
static pl_val gated(pl_builder *b, pl_val x, pl_val e)
{
    return pl_mul(b, x, pl_rcp(b, pl_add(b, pl_exp2(b, e), 1.0f)));
}

static pl_val activate(pl_builder *b, int32_t activation, pl_val x)
{
    const double log2e = 1.4426950408889634;
    switch ((pl_activation)activation) {
    case PL_ACTIVATION_RELU: return pl_max(b, x, 0.0f);
    case PL_ACTIVATION_SILU: return gated(b, x, pl_mul(b, x, -log2e)); /* logistic of x */
    case PL_ACTIVATION_GELU: { /* logistic of twice sqrt(2 / pi) (x + 0.044715 x^3) */
        const double slope = -log2e * 1.5957691216057308;
        return gated(b, x, pl_mul(b, x, pl_fma(b, pl_mul(b, x, x), 0.044715 * slope, slope)));
    }
    case PL_ACTIVATION_NONE:
    case PL_ACTIVATION_COUNT: break;
    }
    return x;
}

/* The part's stretch of the bias, for each of its rows (or, mirrored, columns). */
static pl_val load_bias(pl_builder *b, const struct pl_mm_config *p, const struct pl_mm_part *part)
{
    const int32_t axis = p->bias_axis;
    pl_ref stretch = pl_window(b, pl_param(b, PL_MM_BIAS), PL_OFF(b, part->mn.o[axis]),
                               PL_SHAPE(part->s.d[axis]));
    pl_val v = pl_cast(b, pl_load(b, stretch), PL_F32);
    return pl_broadcast(b, v, 1 - axis, part->s.d[1 - axis]);
}

pl_val pl_mm_finish(pl_builder *b, const struct pl_mm_config *p, const struct pl_mm_part *part)
{
    const pl_dtype to = pl_dtype_of(b, pl_param(b, PL_MM_Y));
    const bool has_c = part->c.id != 0;
    if (to == PL_I32)
        return has_c ? pl_add(b, part->sum, part->c) : part->sum;
    pl_val v = pl_cast(b, part->sum, PL_F32);
    if (pl_has_arg(b, PL_MM_ALPHA))
        v = pl_mul(b, v, pl_scalar(b, PL_MM_ALPHA));
    if (has_c) {
        pl_val c = pl_cast(b, part->c, PL_F32);
        v = pl_has_arg(b, PL_MM_BETA) ? pl_fma(b, c, pl_scalar(b, PL_MM_BETA), v) : pl_add(b, v, c);
    }
    if (pl_has_arg(b, PL_MM_BIAS))
        v = pl_add(b, v, load_bias(b, p, part));
    return pl_cast(b, activate(b, p->activation, v), to);
}

pl_val pl_mm_epilogue(pl_builder *b, const struct pl_mm_config *p, const struct pl_mm_place *at,
                      pl_val sum, pl_offs mn, pl_shape s)
{
    struct pl_mm_part part = {.sum = sum, .mn = mn, .s = s};
    if (pl_has_arg(b, PL_MM_C))
        part.c = pl_load(b, pl_window(b, pl_mm_plane(b, PL_MM_C, at), mn, s));
    return pl_mm_finish(b, p, &part);
}

bool pl_mm_is_long(pl_builder *b, const struct pl_mm_config *p)
{
    return pl_has_arg(b, PL_MM_C) || pl_has_arg(b, PL_MM_BIAS) ||
           p->activation != PL_ACTIVATION_NONE || !pl_has_fact(b, PL_MM_Y, PL_FACT_ALIGN16);
}

pl_val pl_mm_choose(pl_builder *b, pl_val i, const pl_val *parts, int32_t n)
{
    pl_val v = parts[0];
    for (int32_t k = 1; k < n; k++)
        v = pl_select(b, pl_eq(b, i, k), parts[k], v);
    return v;
}

static void body(pl_builder *b, const void *params)
{
    const struct pl_mm_config *p = params;
    paths[p->path].body(b, p);
}

/* ---- the description ---- */

#define DT_OPERANDS (PL_DT_FLOATS | PL_DT(TF32) | PL_DT(E4M3) | PL_DT(E5M2) | PL_DT(I8))
#define DT_SUMS     (PL_DT_FLOATS | PL_DT(I32))
/* Operands are copied as their own alignment allows, y and c as theirs does. Four facts in all: no PL_FACT_WHOLE16. */
#define FACTS_OUT (PL_FACT_ALIGN16_OUT | PL_FACT_I32 | PL_FACT_UNIT_STRIDE)
#define MATRIX(name_, role_, dtypes_, facts_)                                                      \
    {                                                                                              \
        .name = name_, .role = role_, .min_rank = 2, .max_rank = 5, .dtypes = dtypes_,             \
        .specialised = facts_                                                                      \
    }
#define OPTIONAL(name_, role_, rank_, dtypes_, facts_)                                             \
    {                                                                                              \
        .name = name_, .role = role_,                                                              \
        .min_rank = (rank_) == 0   ? 0                                                             \
                    : (rank_) == 1 ? 1                                                             \
                                   : 2,                                                            \
        .max_rank = rank_, .dtypes = dtypes_, .is_optional = true, .specialised = facts_           \
    }

static const pl_param_decl params_[PL_MM_N_PARAMS] = {
    [PL_MM_A] = MATRIX("a", PL_ROLE_IN, DT_OPERANDS, PL_KERNEL_FACTS),
    [PL_MM_B] = MATRIX("b", PL_ROLE_IN, DT_OPERANDS, PL_KERNEL_FACTS),
    [PL_MM_Y] = MATRIX("y", PL_ROLE_OUT, DT_SUMS, FACTS_OUT),
    [PL_MM_C] = OPTIONAL("c", PL_ROLE_IN, 5, DT_SUMS, FACTS_OUT),
    [PL_MM_BIAS] = OPTIONAL("bias", PL_ROLE_IN, 1, PL_DT_FLOATS, PL_FACT_I32),
    [PL_MM_ALPHA] = OPTIONAL("alpha", PL_ROLE_SCALAR, 0, PL_DT(F32), 0),
    [PL_MM_BETA] = OPTIONAL("beta", PL_ROLE_SCALAR, 0, PL_DT(F32), 0),
};

const pl_kernel pl_kernel_matmul = {
    .struct_size = sizeof(pl_kernel),
    .name = "matmul",
    .params = params_,
    .n_params = PL_MM_N_PARAMS,
    .params_bytes = sizeof(struct pl_mm_config),
    .options_bytes = sizeof(pl_matmul_options),
    .n_configs = N_ROWS,
    .configure = configure,
    .body = body,
    .launch_dims = launch_dims,
    .expect_shape = expect_shape,
    .arrange = arrange,
    .doc = "y = act(alpha * a b + beta * c + bias)",
};
