#include "emu/slots.h"

#include <string.h>

enum { N_CLASSES = 4, MAX_SET_BITS = 1 << 28 };

struct stretch {
    uint32_t first, last; /* instructions of the function; first > last: never alive */
};

struct scan {
    const struct pl_ptx_module *m;
    const struct pl_ptx_func *f;
    const struct pl_emu_flow *flow;
    struct stretch *stretches;
    uint32_t n_words; /* of a set of registers */
    uint64_t *use, *def,
        *in; /* sets of each block: read before written, surely written, alive at its start */
};

static bool test(const uint64_t *set, uint32_t r) { return (set[r / 64] >> (r % 64) & 1) != 0; }
static void put(uint64_t *set, uint32_t r) { set[r / 64] |= (uint64_t)1 << (r % 64); }

static void touch(struct scan *s, uint32_t reg, uint32_t at)
{
    struct stretch *t = &s->stretches[reg];
    t->first = at < t->first ? at : t->first;
    t->last = at > t->last ? at : t->last;
}

static void pin(struct scan *s, uint32_t reg)
{
    touch(s, reg, 0);
    touch(s, reg, s->f->n_ins);
}

/* ---- what an instruction reads and writes ---------------------------------------------------------------------------------- */

struct sight {
    struct scan *s;
    uint32_t at, block;
    bool is_def;    /* surely writes all lanes that execute it */
    bool is_pinned; /* asynchronous: reads and writes later */
};

static void see(const struct sight *v, const struct pl_ptx_operand *o, bool is_def)
{
    struct scan *s = v->s;
    bool is_compound =
        o->kind == PL_PTX_OP_VECTOR || o->kind == PL_PTX_OP_PAIR || o->kind == PL_PTX_OP_TENSOR;
    for (uint32_t i = 0; is_compound && i < o->n; i++)
        see(v, &s->m->pool.data[o->first + i], is_def);
    if (o->reg == 0)
        return;
    uint32_t r = o->reg - 1;
    uint64_t *use = s->use + (size_t)v->block * s->n_words,
             *def = s->def + (size_t)v->block * s->n_words;
    touch(s, r, v->at);
    if (v->is_pinned)
        pin(s, r);
    if (is_def && o->kind == PL_PTX_OP_REG)
        put(def, r);
    else if (!test(def, r))
        put(use, r);
}

/* The first operand is written whole: its pattern starts with a destination, and is not an accumulator (wa). */
static bool writes_first(const struct pl_ptx_ins *i)
{
    const char *p = pl_ptx_infos[i->form].operands;
    return (p[0] == 'd' || p[0] == 'D' || p[0] == 'q' || p[0] == 'w') && p[1] != 'a' &&
           i->guard == 0 && i->form != PL_PTX_call;
}

static void see_ins(struct scan *s, uint32_t at, uint32_t block)
{
    const struct pl_ptx_ins *i = &s->m->ins.data[s->f->first_ins + at];
    struct sight v = {.s = s, .at = at, .block = block};
    v.is_pinned = (pl_ptx_infos[i->form].flags & PL_PTX_F_ASYNC) != 0;
    bool is_def = writes_first(i);
    if (i->guard != 0) {
        struct pl_ptx_operand guard = {.kind = PL_PTX_OP_REG, .reg = i->guard};
        see(&v, &guard, false);
    }
    for (uint32_t k = is_def ? 1 : 0; k < i->n_operands; k++)
        see(&v, &s->m->pool.data[i->operands + k], false);
    if (is_def && i->n_operands != 0)
        see(&v, &s->m->pool.data[i->operands], true);
}

/* ---- liveness -------------------------------------------------------------------------------------------------------------------- */

static void flow_back(struct scan *s, uint64_t *out)
{
    const struct pl_emu_flow *f = s->flow;
    bool is_changed = true;
    while (is_changed) {
        is_changed = false;
        for (uint32_t b = f->n_blocks; b-- > 0;) {
            uint64_t *in = s->in + (size_t)b * s->n_words;
            const uint64_t *use = s->use + (size_t)b * s->n_words,
                           *def = s->def + (size_t)b * s->n_words;
            memset(out, 0, s->n_words * sizeof *out);
            for (uint32_t e = f->first_succ[b]; e < f->first_succ[b + 1]; e++)
                for (uint32_t w = 0; w < s->n_words; w++)
                    out[w] |= s->in[(size_t)f->succ[e] * s->n_words + w];
            for (uint32_t w = 0; w < s->n_words; w++) {
                uint64_t now = use[w] | (out[w] & ~def[w]);
                is_changed = is_changed || now != in[w];
                in[w] = now;
            }
        }
    }
}

/* What is alive at a block's start or end is alive there in the text. */
static void stretch_over_blocks(struct scan *s)
{
    const struct pl_emu_flow *f = s->flow;
    for (uint32_t b = 0; b < f->n_blocks; b++)
        for (uint32_t r = 0; r < s->f->regs.n; r++) {
            if (test(s->in + (size_t)b * s->n_words, r))
                touch(s, r, f->first[b]);
            for (uint32_t e = f->first_succ[b]; e < f->first_succ[b + 1]; e++)
                if (test(s->in + (size_t)f->succ[e] * s->n_words, r))
                    touch(s, r, f->first[b + 1] - 1);
        }
}

/* ---- places ------------------------------------------------------------------------------------------------------------------------- */

static int class_of(uint8_t type)
{
    unsigned bits = pl_ptx_types[type].bits;
    return bits <= 1 ? -1 : bits <= 16 ? 0 : bits <= 32 ? 1 : bits <= 64 ? 2 : 3;
}

/* Chains of registers by the instruction at which their stretch begins, or ends. */
static bool chain(struct scan *s, struct pl_arena *a, uint32_t **heads, uint32_t **next,
                  bool by_end)
{
    uint32_t n = s->f->n_ins + 2;
    *heads = pl_arena_array(a, n, sizeof **heads);
    *next = pl_arena_array(a, s->f->regs.n + 1u, sizeof **next);
    if (*heads == NULL || *next == NULL)
        return false;
    for (uint32_t r = s->f->regs.n; r-- > 0;) {
        const struct stretch *t = &s->stretches[r];
        if (t->first > t->last || class_of(s->f->regs.data[r].type) < 0)
            continue;
        uint32_t at = by_end ? t->last : t->first;
        (*next)[r] = (*heads)[at];
        (*heads)[at] = r + 1;
    }
    return true;
}

static bool allot(struct scan *s, struct pl_arena *a, uint32_t *offsets, uint32_t *frame_bytes)
{
    uint32_t *starts, *next_start, *ends, *next_end;
    uint32_t *spare = pl_arena_array(
        a, s->f->regs.n + 1u, sizeof *spare); /* register whose place is free: a list a class */
    uint32_t spares[N_CLASSES] = {0};
    if (spare == NULL || !chain(s, a, &starts, &next_start, false) ||
        !chain(s, a, &ends, &next_end, true))
        return false;
    for (uint32_t at = 0; at <= s->f->n_ins; at++) {
        for (uint32_t r = starts[at]; r != 0; r = next_start[r - 1]) {
            int class = class_of(s->f->regs.data[r - 1].type);
            if (spares[class] != 0) {
                offsets[r - 1] = offsets[spares[class] - 1];
                spares[class] = spare[spares[class] - 1];
                continue;
            }
            offsets[r - 1] = *frame_bytes;
            *frame_bytes += 64u << class;
        }
        for (uint32_t r = ends[at]; r != 0; r = next_end[r - 1]) {
            int class = class_of(s->f->regs.data[r - 1].type);
            spare[r - 1] = spares[class];
            spares[class] = r;
        }
    }
    return true;
}

static void pin_passed(struct scan *s)
{
    const struct pl_ptx_func *f = s->f;
    for (uint32_t i = 0; f->has_reg_params && i < f->n_params; i++)
        pin(s, f->params[i]);
    for (uint32_t i = 0; f->has_reg_params && i < f->n_returns; i++)
        pin(s, f->returns[i]);
}

bool pl_emu_assign_slots(const struct pl_ptx_module *m, const struct pl_ptx_func *f,
                         const struct pl_emu_flow *flow, struct pl_arena *scratch,
                         uint32_t *offsets, uint32_t *frame_bytes)
{
    struct scan s = {.m = m, .f = f, .flow = flow, .n_words = f->regs.n / 64 + 1};
    size_t n_set_words = (size_t)flow->n_blocks * s.n_words;
    bool is_small = n_set_words * 64 <= MAX_SET_BITS;
    s.stretches = pl_arena_array(scratch, f->regs.n + 1u, sizeof *s.stretches);
    if (s.stretches == NULL)
        return false;
    for (uint32_t r = 0; r < f->regs.n; r++)
        s.stretches[r] = is_small ? (struct stretch){UINT32_MAX, 0} : (struct stretch){0, f->n_ins};
    pin_passed(&s);
    *frame_bytes = (*frame_bytes + 63) / 64 * 64;
    if (is_small) {
        s.use = pl_arena_array(scratch, n_set_words, sizeof *s.use);
        s.def = pl_arena_array(scratch, n_set_words, sizeof *s.def);
        s.in = pl_arena_array(scratch, n_set_words, sizeof *s.in);
        uint64_t *out = pl_arena_array(scratch, s.n_words, sizeof *out);
        if (pl_arena_is_exhausted(scratch))
            return false;
        for (uint32_t b = 0; b < flow->n_blocks; b++)
            for (uint32_t at = flow->first[b]; at < flow->first[b + 1] && at < f->n_ins; at++)
                see_ins(&s, at, b);
        flow_back(&s, out);
        stretch_over_blocks(&s);
    }
    return allot(&s, scratch, offsets, frame_bytes);
}
