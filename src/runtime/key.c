#include "src/runtime/key.h"

#include "base/hash.h"

void pl_key_make(struct pl_key *key, const struct pl_key_parts *p)
{
    uint32_t n = 0;
    uint64_t *w = key->words;
    w[n++] = (uint64_t)(uintptr_t)p->kernel;
    w[n++] = (uint64_t)(uint32_t)p->arch | (uint64_t)p->ptx_cap << 32 | (uint64_t)p->is_pdl << 48 |
             (uint64_t)p->assemble_flags << 56;
    w[n++] = p->facts;
    for (size_t i = 0; i < p->kernel->n_params; i++) {
        const pl_arg *a = &p->args[i];
        uint32_t baked = p->kernel->params[i].baked_dims;
        w[n] = (uint64_t)a->kind;
        if (a->kind != PL_ARG_TENSOR) {
            n++;
            continue;
        }
        w[n++] |= (uint64_t)a->u.tensor.dtype << 8 | (uint64_t)(uint32_t)a->u.tensor.rank << 32;
        for (int d = 0; baked != 0 && d < a->u.tensor.rank; d++)
            if ((baked >> d & 1) != 0)
                w[n++] = (uint64_t)a->u.tensor.shape[d];
    }
    size_t n_bytes = p->kernel->params_bytes;
    if (n_bytes != 0) {
        size_t n_words = (n_bytes + 7) / 8;
        w[n + n_words - 1] = 0;
        memcpy(&w[n], p->params, n_bytes);
        n += (uint32_t)n_words;
    }
    key->n_words = n;
}

uint64_t pl_key_hash(const struct pl_key *key)
{
    return pl_hash64(key->words, key->n_words * sizeof *key->words, 0);
}

/* Largest element offset reached, plus one, fits in 31 bits; also no stride or extent alone exceeds that. */
static bool fits_i32(const pl_tensor *t)
{
    const int64_t most = INT32_MAX;
    int64_t low = 0, high = 0;
    for (int i = 0; i < t->rank; i++) {
        int64_t n = t->shape[i], s = t->strides[i];
        if (n > most || s > most || s < -most)
            return false;
        if (n > 1 && s >= 0)
            high += (n - 1) * s;
        else if (n > 1)
            low += (n - 1) * s;
        if (high >= most || low < -most)
            return false;
    }
    return true;
}

/* Base and every stride but the last axis's, in bytes, are multiples of 16. */
static bool is_aligned16(const pl_tensor *t)
{
    int64_t bits = pl_dtype_bits(t->dtype);
    if (t->address % 16 != 0)
        return false;
    for (int i = 0; i + 1 < t->rank; i++)
        if (t->shape[i] > 1 && t->strides[i] * bits % 128 != 0)
            return false;
    return true;
}

static bool is_dense(const pl_tensor *t)
{
    int64_t stride = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->shape[i] > 1 && t->strides[i] != stride)
            return false;
        stride *= t->shape[i] > 1 ? t->shape[i] : 1;
    }
    return true;
}

/* The facts in `which` that one tensor has. */
static pl_fact_set facts_among(const pl_tensor *t, pl_fact_set which)
{
    pl_fact_set has = 0;
    int last = t->rank - 1;
    if ((which & PL_FACT_ALIGN16) != 0 && is_aligned16(t))
        has |= PL_FACT_ALIGN16;
    if ((which & PL_FACT_I32) != 0 && fits_i32(t))
        has |= PL_FACT_I32;
    if ((which & PL_FACT_UNIT_STRIDE) != 0 &&
        (last < 0 || t->strides[last] == 1 || t->shape[last] <= 1))
        has |= PL_FACT_UNIT_STRIDE;
    if ((which & PL_FACT_DENSE) != 0 && is_dense(t))
        has |= PL_FACT_DENSE;
    return has;
}

pl_fact_set pl_tensor_facts(const pl_tensor *t) { return facts_among(t, ~(pl_fact_set)0); }

pl_fact_set pl_facts_of(const pl_kernel *kernel, const pl_arg *args)
{
    pl_fact_set named = 0, broken = 0;
    for (size_t i = 0; i < kernel->n_params; i++) {
        pl_fact_set s = kernel->params[i].specialised;
        if (s == 0 || args[i].kind != PL_ARG_TENSOR)
            continue;
        named |= s;
        broken |= s & ~facts_among(&args[i].u.tensor, s);
    }
    return named & ~broken;
}
