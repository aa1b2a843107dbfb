#ifndef PL_SRC_PLAN_BUILD_H
#define PL_SRC_PLAN_BUILD_H
/*
 * Makes steps. Two sequences grow side by side: the entry, run once by every thread at its start, and the body. A pure step
 * whose sources are all known in the entry goes there, whoever asks for it, so loop-invariant index math is hoisted by
 * construction (but what only cold code wants, which stays there); and a pure step that exists already in an open scope is not made
 * again. Only registers that are written once take part: a mutable register (a variable, a phase word) is never shared or hoisted.
 *
 * A guard may be set: steps that are not pure then carry it.
 *
 * Failures: only memory. Every function stays safe on an exhausted arena; the caller tests the arena once, at the end.
 */
#include "src/plan/step.h"

enum { PL_BUILD_BUCKETS = 256 };
struct pl_known; /* a pure step that may be reused */

struct pl_build {
    struct pl_arena *arena;
    struct pl_steps *out;                   /* pool, texts, register and label counts */
    PL_VEC(struct pl_step) steps[2];        /* of the body, of the entry */
    PL_VEC(uint8_t) reg_facts[PL_RC_COUNT]; /* bits of enum pl_reg_fact */
    PL_VEC(struct pl_known) known[2];       /* of the body, of the entry */
    uint32_t buckets[2][PL_BUILD_BUCKETS];  /* newest known + 1 */
    pl_reg guard;
    bool guard_is_negated;
    bool is_in_entry; /* put steps that are not pure into the entry */
    bool is_cold;     /* seldom run: what the entry does not have yet is not put there */
    uint32_t serial;  /* changes whenever a scope opens or closes */
};

struct pl_known {
    uint32_t hash, previous; /* in the bucket, + 1 */
    uint32_t step;           /* index in its sequence */
};

enum pl_reg_fact { PL_REG_ENTRY = 1, PL_REG_MUTABLE = 2 };

/* *b is zero. */
void pl_build_init(struct pl_build *b, struct pl_arena *arena, struct pl_steps *out);
/* Join entry and body in out->list. */
void pl_build_finish(struct pl_build *b);

/* A scope: what becomes known inside is forgotten at its end. */
uint32_t pl_build_open(struct pl_build *b);
void pl_build_close(struct pl_build *b, uint32_t mark);

pl_reg pl_build_reg(struct pl_build *b, enum pl_rclass class);     /* to be written once */
pl_reg pl_build_mutable(struct pl_build *b, enum pl_rclass class); /* may be written again */
uint32_t pl_build_label(struct pl_build *b);
/* The register, written in the entry by steps that are not pure, is final from here on: as good as a pure entry value. */
void pl_build_settle(struct pl_build *b, pl_reg r);
bool pl_build_is_entry(const struct pl_build *b, pl_reg r);
bool pl_build_is_mutable(const struct pl_build *b, pl_reg r);

/* A step as asked for: attributes in any order, operands without the destination for pl_build_value. */
struct pl_sdesc {
    uint8_t op, type, from;
    uint8_t attrs[PL_STEP_MAX_ATTRS];
    uint8_t n;
    struct pl_opnd opnds[PL_STEP_MAX_OPNDS];
};

/* A step with one destination as its first operand: made, found again, or hoisted. Gives the destination. */
pl_reg pl_build_value(struct pl_build *b, const struct pl_sdesc *d);
/* A step with every operand given, at this place. */
void pl_build_step(struct pl_build *b, const struct pl_sdesc *d);
/* A list operand, copied into the pool. */
struct pl_opnd pl_build_list(struct pl_build *b, const struct pl_opnd *elems, uint32_t n);

/* A pure step of few words: attr of the row's first category or none; no operand is a list. */
pl_reg pl_build_pure(struct pl_build *b, enum pl_step_op op, enum pl_stype t, enum pl_sattr attr,
                     const struct pl_opnd *opnds, uint32_t n);

/* Short forms. */
pl_reg pl_build_op1(struct pl_build *b, enum pl_step_op op, enum pl_stype t, struct pl_opnd x);
pl_reg pl_build_op2(struct pl_build *b, enum pl_step_op op, enum pl_stype t, struct pl_opnd x,
                    struct pl_opnd y);
pl_reg pl_build_op3(struct pl_build *b, enum pl_step_op op, enum pl_stype t, struct pl_opnd x,
                    struct pl_opnd y, struct pl_opnd z);
pl_reg pl_build_compare(struct pl_build *b, enum pl_sattr cmp, enum pl_stype t, struct pl_opnd x,
                        struct pl_opnd y);
/* The same and predicate p; none: without it. */
pl_reg pl_build_compare_and(struct pl_build *b, enum pl_sattr cmp, enum pl_stype t,
                            struct pl_opnd x, struct pl_opnd y, pl_reg p);
pl_reg pl_build_convert(struct pl_build *b, enum pl_stype to, enum pl_stype from,
                        enum pl_sattr rounding, struct pl_opnd x);
void pl_build_mov(struct pl_build *b, enum pl_stype t, pl_reg to,
                  struct pl_opnd from);                   /* assignment, in place */
void pl_build_do(struct pl_build *b, enum pl_step_op op); /* no operand */
void pl_build_do1(struct pl_build *b, enum pl_step_op op, struct pl_opnd x);
void pl_build_do2(struct pl_build *b, enum pl_step_op op, struct pl_opnd x, struct pl_opnd y);
void pl_build_put_label(struct pl_build *b, uint32_t label);
void pl_build_jump(struct pl_build *b, uint32_t label, pl_reg guard,
                   bool is_negated); /* guard none: always */
/* The operand in a register: itself, or a constant moved into one. */
pl_reg pl_build_in_reg(struct pl_build *b, enum pl_stype t, struct pl_opnd x);

/*
 * What is done to one register of an array is done to all of them. The steps made for the first are learnt, when each is pure and reads
 * only what was given, what another of them made, and what is known in the entry; for the others they are made again without a look.
 *
 *     pl_repeat_start(&rep, n);
 *     for each register, with x[n] its operands:
 *         if (!pl_repeat_make(b, &rep, x, outs, n_outs)) {
 *             pl_repeat_begin(b, &rep, x);
 *             ... make outs[n_outs] from x ...
 *             pl_repeat_end(b, &rep, outs, n_outs);
 *         }
 *
 * Operands that are the same for all registers are known to be so: is_splat.
 */
enum { PL_REPEAT_STEPS = 12, PL_REPEAT_OPNDS = 3, PL_REPEAT_GIVEN = 3, PL_REPEAT_OUTS = 2 };
struct pl_repeat {
    uint32_t n_given;
    bool is_splat[PL_REPEAT_GIVEN];
    bool is_tried; /* the first register decides */
    uint32_t first, n_steps;
    struct pl_opnd given[PL_REPEAT_GIVEN];
    struct pl_step steps[PL_REPEAT_STEPS];
    struct pl_repeat_opnd {
        struct pl_opnd same;
        int8_t given, made; /* which of them; -1: none */
    } opnds[PL_REPEAT_STEPS][PL_REPEAT_OPNDS];
    pl_reg made[PL_REPEAT_STEPS];
    uint8_t outs[PL_REPEAT_OUTS];
};
static inline void pl_repeat_start(struct pl_repeat *rep, uint32_t n_given)
{
    rep->n_given = n_given;
    rep->n_steps = 0;
    rep->is_tried = false;
    for (uint32_t i = 0; i < PL_REPEAT_GIVEN; i++)
        rep->is_splat[i] = false;
}
bool pl_repeat_make(struct pl_build *b, struct pl_repeat *rep, const struct pl_opnd *x,
                    struct pl_opnd *outs, uint32_t n_outs);
void pl_repeat_begin(struct pl_build *b, struct pl_repeat *rep, const struct pl_opnd *x);
void pl_repeat_end(struct pl_build *b, struct pl_repeat *rep, const struct pl_opnd *outs,
                   uint32_t n_outs);

/*
 * Integer arithmetic with folding, on registers and constants of one of s32 u32 s64 u64. Constants are canonical: sign- or
 * zero-extended to 64 bits by the type.
 */
struct pl_opnd pl_ix_add(struct pl_build *b, enum pl_stype t, struct pl_opnd x, struct pl_opnd y);
struct pl_opnd pl_ix_sub(struct pl_build *b, enum pl_stype t, struct pl_opnd x, struct pl_opnd y);
struct pl_opnd pl_ix_mul(struct pl_build *b, enum pl_stype t, struct pl_opnd x, struct pl_opnd y);
struct pl_opnd pl_ix_div(struct pl_build *b, enum pl_stype t, struct pl_opnd x, struct pl_opnd y);
struct pl_opnd pl_ix_rem(struct pl_build *b, enum pl_stype t, struct pl_opnd x, struct pl_opnd y);
struct pl_opnd pl_ix_min(struct pl_build *b, enum pl_stype t, struct pl_opnd x, struct pl_opnd y);
struct pl_opnd pl_ix_max(struct pl_build *b, enum pl_stype t, struct pl_opnd x, struct pl_opnd y);
struct pl_opnd pl_ix_shl(struct pl_build *b, enum pl_stype t, struct pl_opnd x, uint32_t n_bits);
struct pl_opnd pl_ix_shr(struct pl_build *b, enum pl_stype t, struct pl_opnd x, uint32_t n_bits);
struct pl_opnd pl_ix_and(struct pl_build *b, enum pl_stype t, struct pl_opnd x, int64_t mask);
struct pl_opnd pl_ix_xor(struct pl_build *b, enum pl_stype t, struct pl_opnd x, struct pl_opnd y);
/* s32 or u32 to s64 or u64, and back by truncation; the same type passes. */
struct pl_opnd pl_ix_convert(struct pl_build *b, enum pl_stype to, enum pl_stype from,
                             struct pl_opnd x);
/* x * y as s64; xt, yt are s32, u32 or s64 (32-bit factors of one type use the widening product). */
struct pl_opnd pl_ix_mul64(struct pl_build *b, enum pl_stype xt, struct pl_opnd x, enum pl_stype yt,
                           struct pl_opnd y);
/* x * y + z in a 32-bit type; and with s32 factors and an s64 z. */
struct pl_opnd pl_ix_mad(struct pl_build *b, enum pl_stype t, struct pl_opnd x, struct pl_opnd y,
                         struct pl_opnd z);
struct pl_opnd pl_ix_mad64(struct pl_build *b, struct pl_opnd x, struct pl_opnd y,
                           struct pl_opnd z);
int64_t pl_ix_canonical(enum pl_stype t, int64_t v);
#endif
