#include "src/runtime/quick.h"

#include "src/ir/fact.h"
#include "src/runtime/key.h"

/* Bytes that a tensor may touch. */
struct span {
    uint64_t first, end;
};

/* log2 of the bytes of an element; 255: not a whole power of two, not quick. */
static const uint8_t log_bytes[PL_DTYPE_COUNT] = {
    [PL_DTYPE_NONE] = 255,
#define PL_DTYPE(id, name, bits, kind)                                                             \
    [PL_##id] = (bits) == 8 ? 0 : (bits) == 16 ? 1 : (bits) == 32 ? 2 : (bits) == 64 ? 3 : 255,
#include <plaunch/dtype.def>
#undef PL_DTYPE
};

static inline bool is_declared(const pl_param_decl *p, const pl_tensor *t)
{
    return (unsigned)t->dtype < PL_DTYPE_COUNT && (p->dtypes >> t->dtype & 1) != 0 &&
           log_bytes[t->dtype] != 255 && t->rank >= p->min_rank && t->rank <= p->max_rank &&
           t->rank <= PL_MAX_RANK && p->role != PL_ROLE_SCALAR;
}

/* One pass over the dimensions. False: not an ordinary tensor. */
static inline bool scan(const pl_param_decl *p, const pl_tensor *t, struct span *span,
                        pl_fact_set *facts)
{
    if (!is_declared(p, t))
        return false;
    const unsigned shift = log_bytes[t->dtype];
    const int last = t->rank - 1;
    uint64_t high = 0, any = 0, outer = 0, inner = 0, is_odd = 0;
    for (int i = 0; i <= last; i++) {
        uint64_t n = (uint64_t)t->shape[i], s = (uint64_t)t->strides[i];
        any |= n | s;
        if (n <= 1) {
            is_odd |= n ^ 1; /* empty */
            inner = 1;
            continue;
        }
        is_odd |= s == 0;
        outer |= i != last ? s : 0;
        inner = s;
        high += (n - 1) * s;
        any |= high;
    }
    /* Negative numbers have their top bit set and land here too. Half of what PL_FACT_I32 allows is enough for a quick yes. */
    if (any >> 30 != 0 || is_odd != 0 || t->address == 0 ||
        (t->address & (((uint64_t)1 << shift) - 1)) != 0)
        return false;
    *span = (struct span){t->address, t->address + ((high + 1) << shift)};
    *facts =
        PL_FACT_I32 | (last < 0 || inner == 1 ? PL_FACT_UNIT_STRIDE : 0) |
        (((outer << shift | t->address) & 15) == 0 ? PL_FACT_ALIGN16 | PL_FACT_ALIGN16_OUT : 0);
    if ((((uint64_t)t->shape[last < 0 ? 0 : last] << shift) & 15) == 0 || last < 0)
        *facts |= PL_FACT_WHOLE16;
    if (((p->required | p->specialised) & PL_FACT_DENSE) != 0)
        *facts |= pl_fact_among(t, PL_FACT_DENSE);
    return (*facts & p->required) == p->required;
}

/* Each axis steps over all that the axes after it span: no two elements share an address. */
static bool is_nested(const pl_tensor *t)
{
    uint64_t inner = 0;
    for (int i = t->rank - 1; i >= 0; i--) {
        const uint64_t n = (uint64_t)t->shape[i], s = (uint64_t)t->strides[i];
        if (n > 1 && s <= inner)
            return false;
        inner += n > 1 ? (n - 1) * s : 0;
    }
    return true;
}

static bool is_scalar(const pl_param_decl *p, pl_arg_kind kind)
{
    pl_dtype t = kind == PL_ARG_I32 ? PL_I32 : kind == PL_ARG_I64 ? PL_I64 : PL_F32;
    return kind > PL_ARG_TENSOR && kind <= PL_ARG_F32 && p->role == PL_ROLE_SCALAR &&
           (p->dtypes >> t & 1) != 0;
}

static inline bool is_apart(const struct span *spans, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (spans[i].first < spans[k].end && spans[k].first < spans[i].end)
            return false;
    return true;
}

bool pl_quick_args(const pl_kernel *k, const pl_arg *args, size_t n_args, pl_fact_set *facts)
{
    struct span spans[PL_MAX_ARGS];
    pl_fact_set named = 0, broken = 0, has = 0;
    size_t n_spans = 0;
    if (n_args != k->n_params)
        return false;
    for (size_t i = 0; i < n_args; i++) {
        const pl_param_decl *p = &k->params[i];
        if (args[i].kind != PL_ARG_TENSOR) {
            if (!is_scalar(p, args[i].kind))
                return false;
            continue;
        }
        if (!scan(p, &args[i].u.tensor, &spans[n_spans], &has) || !is_apart(spans, n_spans) ||
            (p->role != PL_ROLE_IN && !is_nested(&args[i].u.tensor)))
            return false;
        n_spans++;
        named |= p->specialised;
        broken |= p->specialised & ~has;
    }
    *facts = named & ~broken;
    return true;
}

static inline bool has_shape(const pl_tensor *t, int32_t rank, const int64_t *want)
{
    if (t->rank != rank)
        return false;
    uint64_t differs = 0;
    for (int32_t d = 0; d < rank; d++)
        differs |= (uint64_t)(t->shape[d] ^ want[d]);
    return differs == 0;
}

bool pl_quick_shapes(const pl_request *r)
{
    const pl_kernel *k = r->kernel;
    for (size_t i = 0; i < r->n_args; i++) {
        const pl_tensor *t = &r->args[i].u.tensor;
        const size_t like = (size_t)k->params[i].like;
        pl_shape want;
        want.rank = -1;
        if (r->args[i].kind != PL_ARG_TENSOR)
            continue;
        if (like != 0 &&
            (like > i || r->args[like - 1].kind != PL_ARG_TENSOR ||
             !has_shape(t, r->args[like - 1].u.tensor.rank, r->args[like - 1].u.tensor.shape)))
            return false;
        if (k->expect_shape != NULL)
            k->expect_shape(r, i, &want);
        if (want.rank >= 0 && !has_shape(t, want.rank, want.d))
            return false;
    }
    return true;
}
