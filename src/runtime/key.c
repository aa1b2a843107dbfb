#include "src/runtime/key.h"

#include "base/hash.h"
#include "src/ir/fact.h"

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

pl_fact_set pl_facts_of(const pl_kernel *kernel, const pl_arg *args)
{
    pl_fact_set named = 0, broken = 0;
    for (size_t i = 0; i < kernel->n_params; i++) {
        pl_fact_set s = kernel->params[i].specialised;
        if (s == 0 || args[i].kind != PL_ARG_TENSOR)
            continue;
        named |= s;
        broken |= s & ~pl_fact_among(&args[i].u.tensor, s);
    }
    return named & ~broken;
}
