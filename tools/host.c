#include "tools/host.h"

#include "base/num.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GAP_BYTE = 0xA5 };

/* Formats that base/num.h knows, by dtype; integers are handled apart. */
static bool find_fmt(pl_dtype dtype, enum pl_num_fmt *fmt)
{
    static const struct {
        pl_dtype dtype;
        enum pl_num_fmt fmt;
    } map[] = {
        {PL_F64, PL_NUM_F64},   {PL_F32, PL_NUM_F32},    {PL_TF32, PL_NUM_TF32},
        {PL_F16, PL_NUM_F16},   {PL_BF16, PL_NUM_BF16},  {PL_E4M3, PL_NUM_E4M3},
        {PL_E5M2, PL_NUM_E5M2}, {PL_E8M0, PL_NUM_UE8M0},
    };
    for (size_t i = 0; i < sizeof map / sizeof map[0]; i++)
        if (map[i].dtype == dtype) {
            *fmt = map[i].fmt;
            return true;
        }
    return false;
}

static int64_t span_elems(const struct pl_host *t)
{
    int64_t last = 0;
    for (int i = 0; i < t->rank; i++) {
        if (t->shape[i] == 0)
            return 0;
        last += (t->shape[i] - 1) * t->strides[i];
    }
    return last + 1;
}

bool pl_host_init(struct pl_host *t, pl_dtype dtype, pl_shape shape,
                  const struct pl_host_place *place)
{
    static const struct pl_host_place dense = {0};
    if (place == NULL)
        place = &dense;
    *t = (struct pl_host){.dtype = dtype, .rank = shape.rank};
    const int64_t elem_bytes = pl_dtype_bits(dtype) / 8;
    int64_t stride = 1;
    const int last = shape.rank - 1;
    const bool is_swapped = place->is_transposed && shape.rank >= 2;
    for (int k = last; k >= 0; k--) {
        int axis = is_swapped && k >= last - 1 ? 2 * last - 1 - k : k;
        t->shape[axis] = shape.d[axis];
        t->strides[axis] = stride;
        int64_t row;
        if (__builtin_mul_overflow(stride, shape.d[axis] > 0 ? shape.d[axis] : 1, &row))
            return false;
        if (k == last && place->pitch_elems != 0 && shape.rank >= 2) {
            if (place->pitch_elems < row)
                return false;
            row = place->pitch_elems;
        }
        stride = row;
    }
    if (elem_bytes == 0 || place->base_offset_bytes < 0 ||
        place->base_offset_bytes % elem_bytes != 0)
        return false;
    int64_t n_bytes; /* of all rows, which is no less than what is used; then of all */
    if (__builtin_mul_overflow(stride, elem_bytes, &n_bytes) ||
        __builtin_add_overflow(n_bytes, place->base_offset_bytes, &n_bytes) ||
        __builtin_add_overflow(n_bytes, (int64_t)(2 * PL_HOST_RED_BYTES), &n_bytes))
        return false;
    t->offset_bytes = (size_t)(PL_HOST_RED_BYTES + place->base_offset_bytes);
    t->n_bytes = t->offset_bytes + (size_t)(span_elems(t) * elem_bytes) + PL_HOST_RED_BYTES;
    if (place->has_no_bytes)
        return true;
    t->bytes = malloc(t->n_bytes);
    if (t->bytes == NULL)
        return false;
    memset(t->bytes, GAP_BYTE, t->n_bytes);
    return true;
}

void pl_host_fini(struct pl_host *t)
{
    free(t->bytes);
    *t = (struct pl_host){0};
}

int64_t pl_host_n_elems(const struct pl_host *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->shape[i];
    return n;
}

static unsigned char *element(const struct pl_host *t, int64_t i)
{
    int64_t at = 0;
    for (int k = t->rank - 1; k >= 0; k--) {
        at += i % t->shape[k] * t->strides[k];
        i /= t->shape[k];
    }
    return t->bytes + t->offset_bytes + at * (pl_dtype_bits(t->dtype) / 8);
}

uint64_t pl_host_bits(const struct pl_host *t, int64_t i)
{
    uint64_t bits = 0;
    memcpy(&bits, element(t, i), (size_t)pl_dtype_bits(t->dtype) / 8);
    return bits;
}

void pl_host_set_bits(struct pl_host *t, int64_t i, uint64_t bits)
{
    memcpy(element(t, i), &bits, (size_t)pl_dtype_bits(t->dtype) / 8);
}

static double bits_to_double(pl_dtype dtype, uint64_t bits)
{
    enum pl_num_fmt fmt;
    const int n = pl_dtype_bits(dtype);
    if (find_fmt(dtype, &fmt)) {
        uint64_t wide = pl_num_pack(PL_NUM_F64, pl_num_unpack(fmt, bits), &(struct pl_num_rule){0});
        double v;
        memcpy(&v, &wide, sizeof v);
        return v;
    }
    if (pl_dtype_kind_of(dtype) == PL_KIND_INT)
        return (double)((int64_t)(bits << (64 - n)) >> (64 - n));
    return (double)bits;
}

static uint64_t double_to_bits(pl_dtype dtype, double v)
{
    enum pl_num_fmt fmt;
    uint64_t wide;
    memcpy(&wide, &v, sizeof wide);
    struct pl_num x = pl_num_unpack(PL_NUM_F64, wide);
    if (find_fmt(dtype, &fmt)) {
        const bool is_fp8 = pl_dtype_bits(dtype) == 8;
        return pl_num_pack(fmt, x, &(struct pl_num_rule){.is_satfinite = is_fp8});
    }
    const struct pl_num_int_rule rule = {.round = PL_NUM_RZ,
                                         .n_bits = (uint8_t)pl_dtype_bits(dtype),
                                         .is_signed = pl_dtype_kind_of(dtype) == PL_KIND_INT};
    return pl_num_to_int(x, &rule);
}

double pl_host_get(const struct pl_host *t, int64_t i)
{
    return bits_to_double(t->dtype, pl_host_bits(t, i));
}
void pl_host_set(struct pl_host *t, int64_t i, double v)
{
    pl_host_set_bits(t, i, double_to_bits(t->dtype, v));
}
double pl_host_round(pl_dtype dtype, double v)
{
    return bits_to_double(dtype, double_to_bits(dtype, v));
}

double pl_host_epsilon(pl_dtype dtype)
{
    enum pl_num_fmt fmt;
    return find_fmt(dtype, &fmt) ? ldexp(1.0, -pl_num_fmts[fmt].man_bits - 1) : 0.0;
}

double pl_host_tiny(pl_dtype dtype)
{
    enum pl_num_fmt fmt;
    return find_fmt(dtype, &fmt) ? ldexp(1.0, 1 - pl_num_fmts[fmt].bias - pl_num_fmts[fmt].man_bits)
                                 : 0.0;
}

/* SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014. */
uint64_t pl_rng_next(struct pl_rng *r)
{
    uint64_t z = r->state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

double pl_rng_uniform(struct pl_rng *r) { return (double)(pl_rng_next(r) >> 11) * 0x1p-53; }

double pl_rng_normal(struct pl_rng *r)
{
    double sum = -6.0; /* of twelve uniforms: variance 1 */
    for (int i = 0; i < 12; i++)
        sum += pl_rng_uniform(r);
    return sum;
}

static double random_subnormal(pl_dtype dtype, struct pl_rng *r)
{
    enum pl_num_fmt fmt;
    const int bits = find_fmt(dtype, &fmt) ? pl_num_fmts[fmt].man_bits : 0;
    const double v = pl_host_tiny(dtype) * ceil(pl_rng_uniform(r) * (ldexp(1.0, bits) - 1.0));
    return (pl_rng_next(r) & 1) != 0 ? -v : v;
}

static double random_value(pl_dtype dtype, struct pl_rng *r)
{
    if (pl_dtype_kind_of(dtype) == PL_KIND_INT)
        return floor(pl_rng_uniform(r) * 201.0) - 100.0;
    if (pl_dtype_kind_of(dtype) == PL_KIND_UINT)
        return floor(pl_rng_uniform(r) * 201.0);
    if (pl_dtype_kind_of(dtype) == PL_KIND_BOOL)
        return (double)(pl_rng_next(r) & 1);
    switch (pl_rng_next(r) % 64) {
    case 0: return 0.0;
    case 1: return -0.0;
    case 2: return pl_rng_normal(r) * 1e-3;
    case 3: return pl_rng_normal(r) * 8.0;
    case 4: return random_subnormal(dtype, r);
    default: return pl_rng_normal(r);
    }
}

void pl_host_fill_random(struct pl_host *t, struct pl_rng *r)
{
    const int64_t n = pl_host_n_elems(t);
    for (int64_t i = 0; i < n; i++)
        pl_host_set(t, i, random_value(t->dtype, r));
}

void pl_host_add_specials(struct pl_host *t, struct pl_rng *r)
{
    enum pl_num_fmt fmt;
    const int64_t n = find_fmt(t->dtype, &fmt) ? pl_host_n_elems(t) : 0;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t which = pl_rng_next(r) % 32, payload = pl_rng_next(r);
        if (which >= 4)
            continue;
        pl_host_set(t, i, which == 0 ? INFINITY : which == 1 ? -INFINITY : (double)NAN);
        if (which >= 2) /* any bits below and above the exponent and the quiet bit */
            pl_host_set_bits(t, i,
                             pl_host_bits(t, i) |
                                 (payload & (((uint64_t)1 << pl_num_fmts[fmt].man_bits) - 1)) |
                                 (which & 1) << (pl_dtype_bits(t->dtype) - 1));
    }
}

bool pl_host_is_gap_intact(const struct pl_host *t)
{
    const size_t elem_bytes = (size_t)pl_dtype_bits(t->dtype) / 8;
    unsigned char *is_used = calloc(1, t->n_bytes);
    if (is_used == NULL)
        return false;
    const int64_t n = pl_host_n_elems(t);
    for (int64_t i = 0; i < n; i++)
        memset(is_used + (element(t, i) - t->bytes), 1, elem_bytes);
    bool is_intact = true;
    for (size_t i = 0; i < t->n_bytes && is_intact; i++)
        is_intact = is_used[i] || t->bytes[i] == GAP_BYTE;
    free(is_used);
    return is_intact;
}

pl_tensor pl_host_tensor(const struct pl_host *t, uint64_t device_address)
{
    pl_tensor d = {.address = device_address + t->offset_bytes, .dtype = t->dtype, .rank = t->rank};
    memcpy(d.shape, t->shape, sizeof d.shape);
    memcpy(d.strides, t->strides, sizeof d.strides);
    return d;
}

const char *pl_host_npy_descr(pl_dtype dtype)
{
    static const struct {
        pl_dtype dtype;
        const char *descr;
    } map[] = {
        {PL_F64, "<f8"},  {PL_F32, "<f4"},  {PL_TF32, "<f4"}, {PL_F16, "<f2"}, {PL_BF16, "<u2"},
        {PL_E4M3, "|u1"}, {PL_E5M2, "|u1"}, {PL_E8M0, "|u1"}, {PL_I8, "|i1"},  {PL_I16, "<i2"},
        {PL_I32, "<i4"},  {PL_I64, "<i8"},  {PL_U8, "|u1"},   {PL_U16, "<u2"}, {PL_U32, "<u4"},
        {PL_U64, "<u8"},  {PL_PRED, "|b1"},
    };
    for (size_t i = 0; i < sizeof map / sizeof map[0]; i++)
        if (map[i].dtype == dtype)
            return map[i].descr;
    return NULL;
}

bool pl_host_load_npy(struct pl_host *t, const char *path, char *why, size_t why_bytes)
{
    struct pl_npy a;
    const char *want = pl_host_npy_descr(t->dtype);
    if (!pl_npy_read(path, &a, why, why_bytes))
        return false;
    bool is_ok = want != NULL && strcmp(a.descr, want) == 0 && a.rank == t->rank;
    for (int i = 0; is_ok && i < a.rank; i++)
        is_ok = a.shape[i] == t->shape[i];
    if (!is_ok)
        snprintf(why, why_bytes, "holds %s of rank %d; wanted %s (%s) of the given shape", a.descr,
                 a.rank, want == NULL ? "-" : want, pl_dtype_name(t->dtype));
    for (int64_t i = 0, n = is_ok ? pl_host_n_elems(t) : 0; i < n; i++)
        memcpy(element(t, i), (const char *)a.data + (size_t)i * a.elem_bytes, a.elem_bytes);
    pl_npy_fini(&a);
    return is_ok;
}

bool pl_host_save_npy(const struct pl_host *t, const char *path, char *why, size_t why_bytes)
{
    const char *descr = pl_host_npy_descr(t->dtype);
    if (descr == NULL) {
        snprintf(why, why_bytes, "%s has no .npy form", pl_dtype_name(t->dtype));
        return false;
    }
    struct pl_npy a = {.rank = t->rank, .elem_bytes = (size_t)pl_dtype_bits(t->dtype) / 8};
    snprintf(a.descr, sizeof a.descr, "%s", descr);
    memcpy(a.shape, t->shape, sizeof a.shape);
    const int64_t n = pl_host_n_elems(t);
    a.n_bytes = (size_t)n * a.elem_bytes;
    a.data = malloc(a.n_bytes == 0 ? 1 : a.n_bytes);
    bool is_ok = a.data != NULL;
    for (int64_t i = 0; is_ok && i < n; i++)
        memcpy((char *)a.data + (size_t)i * a.elem_bytes, element(t, i), a.elem_bytes);
    is_ok = is_ok && pl_npy_write(path, &a, why, why_bytes);
    pl_npy_fini(&a);
    return is_ok;
}
