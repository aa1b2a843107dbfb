#include "src/plan/build.h"

#include "base/debug.h"

#include <string.h>

void pl_build_init(struct pl_build *b, struct pl_arena *arena, struct pl_steps *out)
{
    b->arena = arena;
    b->out = out;
    pl_vec_reserve(arena, &b->steps[1], 64);
    pl_vec_reserve(arena, &b->steps[0], 256);
    pl_vec_reserve(arena, &out->pool, 1024);
    pl_vec_reserve(arena, &b->known[0], 128);
    pl_vec_reserve(arena, &b->known[1], 64);
    pl_vec_reserve(arena, &b->reg_facts[PL_RC_B32], 256);
}

void pl_build_finish(struct pl_build *b)
{
    uint32_t n = b->steps[1].n + b->steps[0].n;
    struct pl_step *all = pl_arena_array(b->arena, n, sizeof *all);
    if (all == NULL)
        return;
    if (b->steps[1].n != 0)
        memcpy(all, b->steps[1].data, b->steps[1].n * sizeof *all);
    if (b->steps[0].n != 0)
        memcpy(all + b->steps[1].n, b->steps[0].data, b->steps[0].n * sizeof *all);
    b->out->list.data = all;
    b->out->list.n = b->out->list.cap = n;
}

uint32_t pl_build_open(struct pl_build *b)
{
    b->serial++;
    return b->known[0].n;
}

void pl_build_close(struct pl_build *b, uint32_t mark)
{
    b->serial++;
    while (b->known[0].n > mark) {
        const struct pl_known *k = &b->known[0].data[--b->known[0].n];
        b->buckets[0][k->hash & (PL_BUILD_BUCKETS - 1)] = k->previous;
    }
}

static inline pl_reg new_reg(struct pl_build *b, enum pl_rclass class, uint8_t facts)
{
    uint8_t *f = pl_vec_push(b->arena, &b->reg_facts[class]);
    if (f == NULL)
        return pl_reg_make(class, 0);
    *f = facts;
    return pl_reg_make(class, b->out->n_regs[class]++);
}

pl_reg pl_build_reg(struct pl_build *b, enum pl_rclass class) { return new_reg(b, class, 0); }

pl_reg pl_build_mutable(struct pl_build *b, enum pl_rclass class)
{
    return new_reg(b, class, PL_REG_MUTABLE);
}

void pl_build_settle(struct pl_build *b, pl_reg r)
{
    uint32_t i = pl_reg_index(r);
    if (i < b->reg_facts[pl_reg_class(r)].n)
        b->reg_facts[pl_reg_class(r)].data[i] = PL_REG_ENTRY;
}

uint32_t pl_build_label(struct pl_build *b) { return b->out->n_labels++; }

static inline uint8_t facts_of(const struct pl_build *b, pl_reg r)
{
    uint32_t i = pl_reg_index(r);
    return i < b->reg_facts[pl_reg_class(r)].n ? b->reg_facts[pl_reg_class(r)].data[i] : 0;
}

bool pl_build_is_mutable(const struct pl_build *b, pl_reg r)
{
    return (facts_of(b, r) & PL_REG_MUTABLE) != 0;
}
bool pl_build_is_entry(const struct pl_build *b, pl_reg r)
{
    return (facts_of(b, r) & PL_REG_ENTRY) != 0;
}

/* ---- steps ---- */

/* The step without operands and guard. */
static struct pl_step start_step(const struct pl_sdesc *d, uint32_t n_opnds)
{
    struct pl_step s = {.op = d->op, .type = d->type, .from = d->from, .n_opnds = (uint8_t)n_opnds};
    const struct pl_step_info *info = &pl_step_infos[d->op];
    for (int i = 0; i < PL_STEP_MAX_ATTRS && d->attrs[i] != PL_SA_NONE; i++) {
        int slot = 0;
        while (slot < PL_STEP_MAX_ATTRS - 1 && info->cats[slot] != pl_sattrs[d->attrs[i]].cat)
            slot++;
        PL_ASSERT(info->cats[slot] == pl_sattrs[d->attrs[i]].cat);
        s.attrs[slot] = d->attrs[i];
    }
    return s;
}

/* n new operands at the end of the pool; NULL when memory ran out. */
static inline struct pl_opnd *extend(struct pl_build *b, uint32_t n)
{
    struct pl_steps *s = b->out;
    while (s->pool.cap - s->pool.n < n) {
        void *grown =
            pl_vec_grown(b->arena, s->pool.data, s->pool.n, &s->pool.cap, sizeof *s->pool.data);
        if (grown == NULL)
            return NULL;
        s->pool.data = grown;
    }
    s->pool.n += n;
    return s->pool.data + s->pool.n - n;
}

static inline uint32_t push_opnds(struct pl_build *b, pl_reg dest, const struct pl_opnd *opnds,
                                  uint32_t n)
{
    const uint32_t first = b->out->pool.n, n_dests = dest.id != 0;
    struct pl_opnd *o = extend(b, n + n_dests);
    if (o == NULL)
        return first;
    if (n_dests != 0)
        *o++ = pl_opnd_reg(dest);
    for (uint32_t i = 0; i < n; i++)
        o[i] = opnds[i];
    return first;
}

struct pl_opnd pl_build_list(struct pl_build *b, const struct pl_opnd *elems, uint32_t n)
{
    struct pl_opnd l = pl_opnd_index(PL_OPND_LIST, push_opnds(b, (pl_reg){0}, elems, n));
    l.n = (uint16_t)n;
    return l;
}

/* Room for one more step, to be written whole; NULL when memory ran out. */
static inline struct pl_step *next_step(struct pl_build *b, bool is_in_entry)
{
    struct pl_step *all = b->steps[is_in_entry].data;
    if (b->steps[is_in_entry].n == b->steps[is_in_entry].cap) {
        all = pl_vec_grown(b->arena, all, b->steps[is_in_entry].n, &b->steps[is_in_entry].cap,
                           sizeof *all);
        if (all == NULL)
            return NULL;
        b->steps[is_in_entry].data = all;
    }
    return &all[b->steps[is_in_entry].n++];
}

static void put_step(struct pl_build *b, const struct pl_sdesc *d, bool is_guarded)
{
    struct pl_step s = start_step(d, d->n);
    s.opnds = push_opnds(b, (pl_reg){0}, d->opnds, d->n);
    if (is_guarded) {
        s.guard = b->guard;
        s.guard_is_negated = b->guard_is_negated;
    }
    struct pl_step *at = next_step(b, b->is_in_entry);
    if (at != NULL)
        *at = s;
}

static bool is_pure(uint8_t op) { return (pl_step_infos[op].flags & PL_STEP_F_PURE) != 0; }

void pl_build_step(struct pl_build *b, const struct pl_sdesc *d)
{
    put_step(b, d, !is_pure(d->op) && d->op != PL_STEP_label);
}

static enum pl_rclass dest_class(const struct pl_step *s)
{
    switch (pl_step_infos[s->op].operands[0]) {
    case 'p': return PL_RC_PRED;
    case 'q': return PL_RC_B64;
    case 'r': return PL_RC_B32;
    default: return (enum pl_rclass)pl_stypes[s->type].class;
    }
}

struct source_facts {
    bool is_entry, has_mutable, has_list;
};

static void look_at(const struct pl_build *b, const struct pl_opnd *opnds, uint32_t n,
                    struct source_facts *f)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct pl_opnd *o = &opnds[i];
        if (o->kind == PL_OPND_LIST) {
            f->has_list = true;
            if (o->u.index + o->n <= b->out->pool.n)
                look_at(b, b->out->pool.data + o->u.index, o->n, f);
        } else if ((o->kind == PL_OPND_REG || o->kind == PL_OPND_ADDR) && o->u.reg.id != 0) {
            uint8_t facts = facts_of(b, o->u.reg);
            f->is_entry &= (facts & PL_REG_ENTRY) != 0;
            f->has_mutable |= (facts & PL_REG_MUTABLE) != 0;
        }
    }
}

/* ---- steps that exist already ---- */

_Static_assert(sizeof(struct pl_opnd) == 16, "an operand is two words");

static inline uint64_t word_at(const void *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static inline uint64_t mix(uint64_t h, uint64_t v) { return (h ^ v) * 0x9E3779B97F4A7C15u; }

static inline uint32_t hash_of(const struct pl_step *s, const struct pl_opnd *opnds, uint32_t n)
{
    uint64_t h = mix(0, pl_step_head(s));
    for (const struct pl_opnd *o = opnds; o < opnds + n; o++)
        h = mix(mix(h, word_at(o)), word_at(&o->imm));
    return (uint32_t)(h >> 32);
}

static inline bool same_opnds(const struct pl_opnd *x, const struct pl_opnd *y, uint32_t n)
{
    uint64_t differs = 0;
    for (uint32_t i = 0; i < n; i++)
        differs |= (word_at(&x[i]) ^ word_at(&y[i])) | (word_at(&x[i].imm) ^ word_at(&y[i].imm));
    return differs == 0;
}

/* The register of a known step like s, whose n operands and hash are given. None: id 0. */
static inline pl_reg find_known(const struct pl_build *b, int which, const struct pl_step *s,
                                const struct pl_opnd *opnds, uint32_t n, uint32_t hash)
{
    const struct pl_step *steps = b->steps[which].data;
    const struct pl_known *known = b->known[which].data;
    for (uint32_t k = b->buckets[which][hash & (PL_BUILD_BUCKETS - 1)]; k != 0;
         k = known[k - 1].previous) {
        const struct pl_step *e = &steps[known[k - 1].step];
        const struct pl_opnd *had = &b->out->pool.data[e->opnds];
        if (known[k - 1].hash == hash && pl_step_head(e) == pl_step_head(s) &&
            e->opnds + n < b->out->pool.n && /* else memory ran out while it was made */
            same_opnds(had + 1, opnds, n))
            return had->u.reg;
    }
    return (pl_reg){0};
}

static inline void remember(struct pl_build *b, uint32_t hash, int which)
{
    struct pl_known *k = pl_vec_push(b->arena, &b->known[which]);
    if (k == NULL)
        return;
    uint32_t n = b->steps[which].n;
    *k = (struct pl_known){hash, b->buckets[which][hash & (PL_BUILD_BUCKETS - 1)], n - 1};
    b->buckets[which][hash & (PL_BUILD_BUCKETS - 1)] = b->known[which].n;
}

/* A step that is not known; hash is its own. */
static pl_reg put_value(struct pl_build *b, const struct pl_step *s, const struct pl_opnd *opnds,
                        uint32_t n, struct source_facts f, uint32_t hash)
{
    const bool pure = is_pure(s->op), can_move = pure && !f.has_mutable;
    const int which = can_move && f.is_entry && !b->is_cold;
    const pl_reg dest = new_reg(b, dest_class(s), which == 1 ? PL_REG_ENTRY : 0);
    struct pl_step *at = next_step(b, which == 1 || b->is_in_entry);
    if (at == NULL)
        return dest;
    *at = *s;
    at->opnds = push_opnds(b, dest, opnds, n);
    if (!pure) {
        at->guard = b->guard;
        at->guard_is_negated = b->guard_is_negated;
    }
    if (can_move && !f.has_list && (which == 1 || !b->is_in_entry))
        remember(b, hash, which);
    return dest;
}

/*
 * A pure step, found again or made. Index arithmetic asks for the same ones in each chunk of an access, more often than for new ones, so
 * what its operands are is looked at last. A step of a mutable register is never known.
 */
static pl_reg pure_value(struct pl_build *b, const struct pl_step *s, const struct pl_opnd *opnds,
                         uint32_t n)
{
    const uint32_t hash = hash_of(s, opnds, n);
    pl_reg known = find_known(b, 1, s, opnds, n, hash);
    if (known.id == 0)
        known = find_known(b, 0, s, opnds, n, hash);
    if (known.id != 0)
        return known;
    struct source_facts f = {.is_entry = true};
    look_at(b, opnds, n, &f);
    return put_value(b, s, opnds, n, f, hash);
}

static bool has_list(const struct pl_sdesc *d)
{
    for (uint32_t i = 0; i < d->n; i++)
        if (d->opnds[i].kind == PL_OPND_LIST)
            return true;
    return false;
}

pl_reg pl_build_value(struct pl_build *b, const struct pl_sdesc *d)
{
    const struct pl_step s = start_step(d, d->n + 1u);
    if (is_pure(d->op) && !has_list(d))
        return pure_value(b, &s, d->opnds, d->n);
    struct source_facts f = {.is_entry = true};
    look_at(b, d->opnds, d->n, &f);
    return put_value(b, &s, d->opnds, d->n, f, 0);
}

/* ---- short forms ---- */

pl_reg pl_build_pure(struct pl_build *b, enum pl_step_op op, enum pl_stype t, enum pl_sattr attr,
                     const struct pl_opnd *opnds, uint32_t n)
{
    const struct pl_step s = {.op = (uint8_t)op,
                              .type = (uint8_t)t,
                              .n_opnds = (uint8_t)(n + 1),
                              .attrs = {(uint8_t)attr}};
    PL_ASSERT(is_pure(s.op) &&
              (attr == PL_SA_NONE || pl_sattrs[attr].cat == pl_step_infos[op].cats[0]));
    return pure_value(b, &s, opnds, n);
}

pl_reg pl_build_op1(struct pl_build *b, enum pl_step_op op, enum pl_stype t, struct pl_opnd x)
{
    return pl_build_pure(b, op, t, PL_SA_NONE, &x, 1);
}

pl_reg pl_build_op2(struct pl_build *b, enum pl_step_op op, enum pl_stype t, struct pl_opnd x,
                    struct pl_opnd y)
{
    return pl_build_pure(b, op, t, PL_SA_NONE, (const struct pl_opnd[]){x, y}, 2);
}

pl_reg pl_build_op3(struct pl_build *b, enum pl_step_op op, enum pl_stype t, struct pl_opnd x,
                    struct pl_opnd y, struct pl_opnd z)
{
    return pl_build_pure(b, op, t, PL_SA_NONE, (const struct pl_opnd[]){x, y, z}, 3);
}

pl_reg pl_build_compare(struct pl_build *b, enum pl_sattr cmp, enum pl_stype t, struct pl_opnd x,
                        struct pl_opnd y)
{
    return pl_build_pure(b, PL_STEP_compare, t, cmp, (const struct pl_opnd[]){x, y}, 2);
}

pl_reg pl_build_compare_and(struct pl_build *b, enum pl_sattr cmp, enum pl_stype t,
                            struct pl_opnd x, struct pl_opnd y, pl_reg p)
{
    return p.id == 0 ? pl_build_compare(b, cmp, t, x, y)
                     : pl_build_pure(b, PL_STEP_compare_and, t, cmp,
                                     (const struct pl_opnd[]){x, y, pl_opnd_reg(p)}, 3);
}

pl_reg pl_build_convert(struct pl_build *b, enum pl_stype to, enum pl_stype from,
                        enum pl_sattr rounding, struct pl_opnd x)
{
    const struct pl_step s = {.op = PL_STEP_convert,
                              .type = (uint8_t)to,
                              .from = (uint8_t)from,
                              .n_opnds = 2,
                              .attrs = {(uint8_t)rounding}};
    return pure_value(b, &s, &x, 1);
}

void pl_build_mov(struct pl_build *b, enum pl_stype t, pl_reg to, struct pl_opnd from)
{
    struct pl_step *at = next_step(b, b->is_in_entry);
    if (at == NULL)
        return;
    *at = (struct pl_step){.op = PL_STEP_mov,
                           .type = (uint8_t)t,
                           .n_opnds = 2,
                           .guard = b->guard,
                           .guard_is_negated = b->guard_is_negated,
                           .opnds = push_opnds(b, to, &from, 1)};
}

void pl_build_do(struct pl_build *b, enum pl_step_op op)
{
    pl_build_step(b, &(struct pl_sdesc){.op = (uint8_t)op});
}

void pl_build_do1(struct pl_build *b, enum pl_step_op op, struct pl_opnd x)
{
    pl_build_step(b, &(struct pl_sdesc){.op = (uint8_t)op, .n = 1, .opnds = {x}});
}

void pl_build_do2(struct pl_build *b, enum pl_step_op op, struct pl_opnd x, struct pl_opnd y)
{
    pl_build_step(b, &(struct pl_sdesc){.op = (uint8_t)op, .n = 2, .opnds = {x, y}});
}

void pl_build_put_label(struct pl_build *b, uint32_t label)
{
    pl_build_do1(b, PL_STEP_label, pl_opnd_index(PL_OPND_LABEL, label));
}

void pl_build_jump(struct pl_build *b, uint32_t label, pl_reg guard, bool is_negated)
{
    pl_reg old = b->guard;
    bool was_negated = b->guard_is_negated;
    PL_ASSERT(old.id == 0 || guard.id == 0);
    if (guard.id != 0) {
        b->guard = guard;
        b->guard_is_negated = is_negated;
    }
    pl_build_do1(b, PL_STEP_jump, pl_opnd_index(PL_OPND_LABEL, label));
    b->guard = old;
    b->guard_is_negated = was_negated;
}

pl_reg pl_build_in_reg(struct pl_build *b, enum pl_stype t, struct pl_opnd x)
{
    if (x.kind == PL_OPND_REG && !x.is_negated)
        return x.u.reg;
    return pl_build_op1(b, PL_STEP_mov, t, x);
}

/* ---- steps made again ---- */

static bool is_same_reg(const struct pl_opnd *x, const struct pl_opnd *y)
{
    return x->kind == PL_OPND_REG && y->kind == PL_OPND_REG && x->u.reg.id == y->u.reg.id;
}

/* Each operand that differs from register to register is one of the body, and those that were one register are. */
static bool can_repeat(const struct pl_build *b, const struct pl_repeat *rep,
                       const struct pl_opnd *x)
{
    for (uint32_t i = 0; i < rep->n_given; i++) {
        if (!rep->is_splat[i] &&
            (x[i].kind != PL_OPND_REG || x[i].is_negated || pl_build_is_entry(b, x[i].u.reg)))
            return false;
        for (uint32_t j = 0; j < i; j++)
            if (is_same_reg(&rep->given[i], &rep->given[j]) && !is_same_reg(&x[i], &x[j]))
                return false;
    }
    return !b->is_in_entry && !pl_arena_is_exhausted(b->arena);
}

void pl_repeat_begin(struct pl_build *b, struct pl_repeat *rep, const struct pl_opnd *x)
{
    rep->first = b->steps[0].n;
    for (uint32_t i = 0; i < rep->n_given; i++)
        rep->given[i] = x[i];
}

/* Where operand o comes from, in step `at`. False: nobody can tell. */
static bool find_source(const struct pl_build *b, const struct pl_repeat *rep, uint32_t at,
                        const struct pl_opnd *o, struct pl_repeat_opnd *from)
{
    *from = (struct pl_repeat_opnd){.same = *o, .given = -1, .made = -1};
    if (o->kind == PL_OPND_IMM)
        return true;
    if (o->kind != PL_OPND_REG || o->is_negated)
        return false;
    for (uint32_t i = 0; i < at; i++)
        if (rep->made[i].id == o->u.reg.id)
            from->made = (int8_t)i;
    for (uint32_t i = 0; i < rep->n_given; i++)
        if (rep->given[i].kind == PL_OPND_REG && rep->given[i].u.reg.id == o->u.reg.id)
            from->given = (int8_t)i;
    return from->made >= 0 || from->given >= 0 || pl_build_is_entry(b, o->u.reg);
}

static bool learn_step(const struct pl_build *b, struct pl_repeat *rep, uint32_t at)
{
    const struct pl_step *s = &b->steps[0].data[rep->first + at];
    const struct pl_opnd *opnds = &b->out->pool.data[s->opnds];
    bool differs = false;
    if (!is_pure(s->op) || s->n_opnds > 1 + PL_REPEAT_OPNDS || opnds[0].kind != PL_OPND_REG)
        return false;
    rep->steps[at] = *s;
    rep->made[at] = opnds[0].u.reg;
    for (uint32_t i = 0; i + 1 < s->n_opnds; i++) {
        struct pl_repeat_opnd *from = &rep->opnds[at][i];
        if (!find_source(b, rep, at, &opnds[i + 1], from))
            return false;
        differs |= from->made >= 0 || (from->given >= 0 && !rep->is_splat[from->given]);
    }
    return differs;
}

void pl_repeat_end(struct pl_build *b, struct pl_repeat *rep, const struct pl_opnd *outs,
                   uint32_t n_outs)
{
    const uint32_t n = b->steps[0].n - rep->first;
    const bool is_first = !rep->is_tried;
    rep->is_tried = true;
    if (!is_first || n > PL_REPEAT_STEPS || !can_repeat(b, rep, rep->given))
        return;
    for (uint32_t i = 0; i < n; i++)
        if (!learn_step(b, rep, i))
            return;
    for (uint32_t i = 0; i < n_outs; i++) {
        uint32_t m = 0;
        while (m < n && !(outs[i].kind == PL_OPND_REG && !outs[i].is_negated &&
                          rep->made[m].id == outs[i].u.reg.id))
            m++;
        if (m == n)
            return;
        rep->outs[i] = (uint8_t)m;
    }
    rep->n_steps = n;
}

bool pl_repeat_make(struct pl_build *b, struct pl_repeat *rep, const struct pl_opnd *x,
                    struct pl_opnd *outs, uint32_t n_outs)
{
    if (rep->n_steps == 0 || !can_repeat(b, rep, x))
        return false;
    for (uint32_t k = 0; k < rep->n_steps; k++) {
        const uint32_t n = rep->steps[k].n_opnds - 1u, first = b->out->pool.n;
        struct pl_opnd *o = extend(b, n + 1);
        struct pl_step *at = o == NULL ? NULL : next_step(b, false);
        if (at == NULL)
            return false;
        const pl_reg dest = new_reg(b, pl_reg_class(rep->made[k]), 0);
        *at = rep->steps[k];
        at->opnds = first;
        o[0] = pl_opnd_reg(dest);
        for (uint32_t i = 0; i < n; i++) {
            const struct pl_repeat_opnd *from = &rep->opnds[k][i];
            o[i + 1] = from->made >= 0    ? pl_opnd_reg(rep->made[from->made])
                       : from->given >= 0 ? x[from->given]
                                          : from->same;
        }
        rep->made[k] = dest;
    }
    for (uint32_t i = 0; i < n_outs; i++)
        outs[i] = pl_opnd_reg(rep->made[rep->outs[i]]);
    return true;
}
