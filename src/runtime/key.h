#ifndef PL_RUNTIME_KEY_H
#define PL_RUNTIME_KEY_H
/*
 * The request key: what selects a variant in this process. Kernel address, chip, facts, flags that change code, and for each
 * argument its dtype and rank (0 when absent) and its baked extents, then the bytes of the configuration. No address of a
 * tensor, no dynamic extent or stride, no time, no path: 10,000 sizes of one kernel are one key.
 *
 * A key is words, compared and hashed as bytes; a word is never half-filled with what differs by chance.
 */
#include "src/ir/ir.h"

#include <string.h>

enum { PL_KEY_WORDS = 4 + PL_MAX_ARGS + PL_MAX_ARGS * PL_MAX_RANK + PL_MAX_PARAMS_BYTES / 8 };

struct pl_key {
    uint32_t n_words;
    uint64_t words[PL_KEY_WORDS];
};

/* What goes into a key beyond the arguments. */
struct pl_key_parts {
    const pl_kernel *kernel;
    const pl_arg *args; /* kernel->n_params of them */
    const void *params; /* kernel->params_bytes */
    pl_fact_set facts;
    int32_t arch;
    bool is_pdl;
    uint8_t assemble_flags;
    uint16_t ptx_cap; /* highest .version that the consumer takes, 10 * major + minor */
};

void pl_key_make(struct pl_key *key, const struct pl_key_parts *parts);
uint64_t pl_key_hash(const struct pl_key *key);

static inline bool pl_key_equals(const struct pl_key *a, const struct pl_key *b)
{
    return a->n_words == b->n_words &&
           memcmp(a->words, b->words, a->n_words * sizeof *a->words) == 0;
}

/* The specialised facts of a kernel that hold for these arguments (see pl_fact in plaunch/launch.h). */
pl_fact_set pl_facts_of(const pl_kernel *kernel, const pl_arg *args);

#endif
