#ifndef PL_TESTS_PLAN_DATA_H
#define PL_TESTS_PLAN_DATA_H
/* Host arrays of every element type and kernels of a few tensors, for tests that run lowered bodies (plan_run.h). */
#include "base/debug.h"
#include "base/num.h"
#include "tests/plan_run.h"
#include "tests/random.h"

static struct random_source rnd;

static const pl_fact_set all_facts =
    PL_FACT_ALIGN16 | PL_FACT_I32 | PL_FACT_UNIT_STRIDE | PL_FACT_WHOLE16;

/* ---- host arrays ---- */

static inline enum pl_num_fmt format_of(pl_dtype t)
{
    return t == PL_F64    ? PL_NUM_F64
           : t == PL_F16  ? PL_NUM_F16
           : t == PL_BF16 ? PL_NUM_BF16
           : t == PL_E4M3 ? PL_NUM_E4M3
           : t == PL_E5M2 ? PL_NUM_E5M2
           : t == PL_E8M0 ? PL_NUM_UE8M0
           : t == PL_TF32 ? PL_NUM_TF32
           : t == PL_E2M1 ? PL_NUM_E2M1
                          : PL_NUM_F32;
}

static inline bool is_float(pl_dtype t)
{
    return pl_dtype_kind_of(t) == PL_KIND_FLOAT || pl_dtype_kind_of(t) == PL_KIND_SCALE;
}

static inline double get_elem(const void *data, pl_dtype t, int64_t i)
{
    const int bytes = pl_dtype_bits(t) / 8;
    uint64_t bits = 0;
    if (t == PL_E2M1)
        return pl_num_to_double(PL_NUM_E2M1,
                                ((const unsigned char *)data)[i / 2] >> (i % 2 * 4) & 15);
    memcpy(&bits, (const char *)data + i * bytes, (size_t)bytes);
    if (is_float(t))
        return pl_num_to_double(format_of(t), bits);
    if (pl_dtype_kind_of(t) == PL_KIND_INT)
        return (double)((int64_t)(bits << (64 - 8 * bytes)) >> (64 - 8 * bytes));
    return (double)bits;
}

static inline void set_elem(void *data, pl_dtype t, int64_t i, double v)
{
    const int bytes = pl_dtype_bits(t) / 8;
    uint64_t bits = is_float(t) ? pl_num_of_double(format_of(t), v) : (uint64_t)(int64_t)v;
    if (t == PL_E2M1) {
        unsigned char *byte = (unsigned char *)data + i / 2;
        *byte = (unsigned char)((*byte & ~(15u << i % 2 * 4)) | bits << i % 2 * 4);
        return;
    }
    memcpy((char *)data + i * bytes, &bits, (size_t)bytes);
}

static inline int64_t place_of(const pl_tensor *t, int64_t linear)
{
    int64_t at = 0;
    for (int i = t->rank - 1; i >= 0; i--) {
        at += linear % t->shape[i] * t->strides[i];
        linear /= t->shape[i];
    }
    return at;
}

/* Small integers: exact in every type, and in every sum here. */
static inline void *fill_random(const pl_tensor *t)
{
    char *host = calloc(1, tensor_span(t) + 1);
    for (int64_t i = 0; i < pl_tensor_n_elems(t); i++)
        set_elem(host, t->dtype, place_of(t, i),
                 (double)random_below(&rnd, 8) + (t->dtype == PL_E8M0 ? 1 : 0));
    ck_assert_int_eq(emu.HtoD(t->address, host, tensor_span(t)), 0);
    return host;
}

static inline void *fetch(const pl_tensor *t)
{
    void *host = calloc(1, tensor_span(t) + 1);
    ck_assert_int_eq(emu.DtoH(host, t->address, tensor_span(t)), 0);
    return host;
}

static inline void fill_bytes(const pl_tensor *t, int byte)
{
    void *host = malloc(tensor_span(t) + 1);
    memset(host, byte, tensor_span(t));
    ck_assert_int_eq(emu.HtoD(t->address, host, tensor_span(t)), 0);
    free(host);
}

static inline void free_tensor(const pl_tensor *t) { emu.MemFree(t->address & ~(devptr)15); }

static inline int64_t cdiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* A kernel of n tensors, inputs first. */
#define TENSORS(name_, n_in_, n_out_)                                                              \
    static const pl_param_decl name_##_params[] = {                                                \
        {.name = "a",                                                                              \
         .role = n_in_ > 0 ? PL_ROLE_IN : PL_ROLE_OUT,                                             \
         .min_rank = 1,                                                                            \
         .max_rank = 5,                                                                            \
         .dtypes = PL_DT_ANY},                                                                     \
        {.name = "b",                                                                              \
         .role = n_in_ > 1 ? PL_ROLE_IN : PL_ROLE_OUT,                                             \
         .min_rank = 1,                                                                            \
         .max_rank = 5,                                                                            \
         .dtypes = PL_DT_ANY},                                                                     \
        {.name = "c", .role = PL_ROLE_OUT, .min_rank = 1, .max_rank = 5, .dtypes = PL_DT_ANY},     \
    };                                                                                             \
    static const pl_kernel name_ = {.struct_size = sizeof(pl_kernel),                              \
                                    .name = #name_,                                                \
                                    .params = name_##_params,                                      \
                                    .n_params = n_in_ + n_out_,                                    \
                                    .params_bytes = 64,                                            \
                                    .n_configs = 1,                                                \
                                    .body = name_##_body}

/* Rows of the whole width without a swizzle, else panels as wide as its span. */
static inline pl_transforms swizzled(pl_dtype t, int32_t span_bytes)
{
    return pl_transforms_make(0, span_bytes > 0 ? span_bytes * 8 / pl_dtype_bits(t) : 0,
                              span_bytes);
}
#endif
