/* The functions of plaunch/core.h that need no context: names of statuses and element types, tensors. */
#include <plaunch/core.h>

#include <string.h>

const char *pl_status_name(pl_status s)
{
    static const char *const names[] = {
#define ROW(name, text) "PL_" #name,
        PL_STATUS_LIST(ROW)
#undef ROW
    };
    return (unsigned)s < PL_STATUS_COUNT ? names[s] : "PL_E_?";
}

const char *pl_status_text(pl_status s)
{
    static const char *const texts[] = {
#define ROW(name, text) text,
        PL_STATUS_LIST(ROW)
#undef ROW
    };
    return (unsigned)s < PL_STATUS_COUNT ? texts[s] : "unknown status";
}

static const struct {
    const char *name;
    int32_t bits;
    pl_dtype_kind kind;
} dtypes[PL_DTYPE_COUNT] = {
    {"none", 0, PL_KIND_NONE},
#define PL_DTYPE(id, name, bits, kind) {name, bits, PL_KIND_##kind},
#include <plaunch/dtype.def>
#undef PL_DTYPE
};

const char *pl_dtype_name(pl_dtype t) { return dtypes[(unsigned)t < PL_DTYPE_COUNT ? t : 0].name; }
int32_t pl_dtype_bits(pl_dtype t) { return dtypes[(unsigned)t < PL_DTYPE_COUNT ? t : 0].bits; }
pl_dtype_kind pl_dtype_kind_of(pl_dtype t)
{
    return dtypes[(unsigned)t < PL_DTYPE_COUNT ? t : 0].kind;
}

pl_dtype pl_dtype_find(const char *name)
{
    for (int t = 1; name != NULL && t < PL_DTYPE_COUNT; t++)
        if (strcmp(name, dtypes[t].name) == 0)
            return (pl_dtype)t;
    return PL_DTYPE_NONE;
}

int64_t pl_tensor_n_elems(const pl_tensor *t)
{
    int64_t n = 1;
    bool is_huge = false;
    for (int i = 0; i < t->rank; i++) {
        if (t->shape[i] == 0)
            return 0;
        is_huge = is_huge || __builtin_mul_overflow(n, t->shape[i], &n);
    }
    return is_huge ? INT64_MAX : n; /* extents under broadcast strides may be any */
}
