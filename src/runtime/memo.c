#include "src/runtime/memo.h"

#include <string.h>

struct pl_memo *pl_memo_line_of(struct pl_memo lines[PL_MEMO_LINES], const struct pl_memo_key *key)
{
    const uint64_t odd = 0x9e3779b97f4a7c15u;
    uint64_t h = key->owner * odd;
    if (key->n_args != 0 && key->args != NULL && key->args[0].kind == PL_ARG_TENSOR)
        h = (h ^ key->args[0].u.tensor.address) * odd;
    return &lines[h >> 61];
}
_Static_assert(PL_MEMO_LINES == 8, "three bits choose a line");

static inline bool is_same_tensor(const pl_tensor *a, const pl_tensor *b)
{
    bool is_same = a->address == b->address && a->dtype == b->dtype && a->rank == b->rank;
    for (int i = 0; is_same && i < a->rank; i++)
        is_same = a->shape[i] == b->shape[i] && a->strides[i] == b->strides[i];
    return is_same;
}

static inline bool is_same_arg(const pl_arg *a, const pl_arg *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case PL_ARG_NONE: return true;
    case PL_ARG_TENSOR: return is_same_tensor(&a->u.tensor, &b->u.tensor);
    case PL_ARG_I32: return a->u.i32 == b->u.i32;
    case PL_ARG_I64: return a->u.i64 == b->u.i64;
    case PL_ARG_F32: return memcmp(&a->u.f32, &b->u.f32, sizeof a->u.f32) == 0;
    }
    return false;
}

static bool has_same_options(const struct pl_memo *m, const pl_launch_options *o)
{
    if (o->struct_size != sizeof *o || o->stages != NULL ||
        (unsigned)o->policy > PL_COMPILE_ASYNC || o->pdl != m->is_pdl || o->flags != m->flags ||
        o->config != m->config || o->workspace != m->workspace ||
        (o->params == NULL) != (m->kernel_options == NULL))
        return false;
    return o->params == NULL || memcmp(o->params, m->option_bytes, m->n_option_bytes) == 0;
}

static bool has_no_options(const struct pl_memo *m)
{
    return !m->is_pdl && m->flags == 0 && m->config == 0 && m->workspace == 0 &&
           m->kernel_options == NULL;
}

bool pl_memo_matches(const struct pl_memo *m, const struct pl_memo_key *key)
{
    if (m->owner != key->owner || m->n_args != key->n_args || key->args == NULL)
        return false;
    if (key->options != NULL ? !has_same_options(m, key->options) : !has_no_options(m))
        return false;
    for (size_t i = 0; i < key->n_args; i++)
        if (!is_same_arg(&m->args[i], &key->args[i]))
            return false;
    return true;
}

void pl_memo_fill(struct pl_memo *m, const struct pl_memo_key *key, size_t kernel_option_bytes)
{
    static const pl_launch_options none;
    const pl_launch_options *o = key->options != NULL ? key->options : &none;
    if (key->args == NULL || key->n_args > PL_MEMO_ARGS || o->stages != NULL ||
        (o->params != NULL && kernel_option_bytes > sizeof m->option_bytes))
        return;
    m->n_args = key->n_args;
    m->is_pdl = o->pdl;
    m->flags = o->flags;
    m->config = o->config;
    m->workspace = o->workspace;
    m->kernel_options = o->params;
    m->n_option_bytes = kernel_option_bytes;
    if (o->params != NULL)
        memcpy(m->option_bytes, o->params, kernel_option_bytes);
    for (size_t i = 0; i < key->n_args; i++)
        m->args[i] = key->args[i];
    m->owner = key->owner;
}
