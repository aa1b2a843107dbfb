#ifndef PL_SRC_PLAN_STEP_H
#define PL_SRC_PLAN_STEP_H
/*
 * Steps: the machine actions that a plan ends in. A step has a row (step.def), a type (stype.def), attributes (sattr.def),
 * operands and maybe a guard; its registers are virtual, of five classes, and as many as needed. Each step becomes exactly one
 * instruction, so whoever reads the steps knows the program.
 *
 * Steps, operands and registers are plain data in the plan's arena. build.h makes them; jit/emit.h prints them.
 */
#include "base/arena.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- registers ---- */

enum pl_rclass { PL_RC_PRED, PL_RC_B16, PL_RC_B32, PL_RC_B64, PL_RC_B128, PL_RC_COUNT };

/* id 0: none. Registers are numbered from 0 in each class, in order of making. */
typedef struct {
    uint32_t id;
} pl_reg;

static inline pl_reg pl_reg_make(enum pl_rclass class, uint32_t index)
{
    return (pl_reg){((index + 1) << 3) | (uint32_t) class};
}
static inline enum pl_rclass pl_reg_class(pl_reg r) { return (enum pl_rclass)(r.id & 7); }
static inline uint32_t pl_reg_index(pl_reg r) { return (r.id >> 3) - 1; }

/* ---- types ---- */

enum pl_stype_kind {
    PL_ST_KIND_BITS,
    PL_ST_KIND_UINT,
    PL_ST_KIND_SINT,
    PL_ST_KIND_FLOAT,
    PL_ST_KIND_PACKED,
    PL_ST_KIND_PRED
};

enum pl_stype {
    PL_ST_NONE,
#define STYPE(id, class, bits, kind) PL_ST_##id,
#include "src/plan/stype.def"
#undef STYPE
    PL_ST_COUNT
};

struct pl_stype_info {
    const char *name;
    uint8_t class; /* enum pl_rclass */
    uint8_t bits;  /* in memory */
    uint8_t kind;  /* enum pl_stype_kind */
};
extern const struct pl_stype_info pl_stypes[PL_ST_COUNT];

/* ---- attributes ---- */

enum pl_scat {
    PL_SC_NONE,
#define SCAT(id) PL_SC_##id,
#define SATTR(cat, id, text)
#include "src/plan/sattr.def"
#undef SCAT
#undef SATTR
    PL_SC_COUNT
};

enum pl_sattr {
    PL_SA_NONE,
#define SCAT(id)
#define SATTR(cat, id, text) PL_SA_##cat##_##id,
#include "src/plan/sattr.def"
#undef SCAT
#undef SATTR
    PL_SA_COUNT
};

struct pl_sattr_info {
    const char *text;
    uint8_t cat; /* enum pl_scat */
};
extern const struct pl_sattr_info pl_sattrs[PL_SA_COUNT];

/* ---- rows ---- */

enum pl_step_op {
    PL_STEP_NONE,
#define STEP(id, ...) PL_STEP_##id,
#include "src/plan/step.def"
#undef STEP
    PL_STEP_COUNT
};

enum pl_step_flag {
    PL_STEP_F_PURE = 1, /* registers only: may be shared, moved, dropped */
    PL_STEP_F_READS = 2,
    PL_STEP_F_WRITES = 4,
    PL_STEP_F_SYNC = 8,
    PL_STEP_F_CONTROL = 16,
    PL_STEP_F_ASYNC = 32,
    /* Of no lane's own accounts: the lanes of a warp need not meet behind it. */
    PL_STEP_F_NEUTRAL = 64
};

enum { PL_STEP_MAX_ATTRS = 4, PL_STEP_MAX_OPNDS = 7 };

struct pl_step_info {
    const char *name;
    const char *operands; /* letters of step.def */
    bool has_from;
    uint8_t cats[PL_STEP_MAX_ATTRS]; /* enum pl_scat */
    uint8_t flags;
    const char *meaning;
};
extern const struct pl_step_info pl_step_infos[PL_STEP_COUNT];

enum pl_ssreg {
    PL_SR_NONE,
#define SSREG(id) PL_SR_##id,
#include "src/plan/sreg.def"
#undef SSREG
    PL_SR_COUNT
};
extern const char *const pl_ssreg_names[PL_SR_COUNT];

/* ---- operands and steps ---- */

enum pl_opnd_kind {
    PL_OPND_NONE,
    PL_OPND_REG,   /* reg; is_negated for a predicate */
    PL_OPND_IMM,   /* imm: the bits, of the operand's type */
    PL_OPND_ADDR,  /* [reg + imm]; without reg, imm bytes into the dynamic shared area */
    PL_OPND_LIST,  /* n operands from `index` in the pool */
    PL_OPND_LABEL, /* label `index` */
    PL_OPND_PARAM, /* plan parameter `index` */
    PL_OPND_SREG,  /* enum pl_ssreg in index */
    PL_OPND_TEXT   /* text `index` */
};

struct pl_opnd {
    uint8_t kind; /* enum pl_opnd_kind */
    bool is_negated;
    uint16_t n;
    union {
        pl_reg reg;
        uint32_t index;
    } u;
    int64_t imm;
};

struct pl_step {
    uint8_t op;   /* enum pl_step_op */
    uint8_t type; /* enum pl_stype, 0 where the row needs none */
    uint8_t from; /* enum pl_stype */
    uint8_t n_opnds;
    uint8_t attrs
        [PL_STEP_MAX_ATTRS]; /* enum pl_sattr, in the order of the row's categories; 0: absent */
    pl_reg guard;            /* predicate; none: always */
    bool guard_is_negated;
    uint32_t opnds; /* pool index of the first */
};

/* Instructions by the user (pl_inline_ptx), and where they were asked for. */
struct pl_step_text {
    const char *text, *file;
    int32_t line;
};

struct pl_steps {
    PL_VEC(struct pl_step) list;
    PL_VEC(struct pl_opnd) pool;
    PL_VEC(struct pl_step_text) texts;
    uint32_t n_regs[PL_RC_COUNT];
    uint32_t n_labels;
};

static inline struct pl_opnd pl_opnd_none(void) { return (struct pl_opnd){0}; }
static inline struct pl_opnd pl_opnd_reg(pl_reg r)
{
    return (struct pl_opnd){.kind = PL_OPND_REG, .u.reg = r};
}
static inline struct pl_opnd pl_opnd_not(pl_reg r)
{
    return (struct pl_opnd){.kind = PL_OPND_REG, .is_negated = true, .u.reg = r};
}
static inline struct pl_opnd pl_opnd_imm(int64_t v)
{
    return (struct pl_opnd){.kind = PL_OPND_IMM, .imm = v};
}
static inline struct pl_opnd pl_opnd_index(enum pl_opnd_kind kind, uint32_t index)
{
    return (struct pl_opnd){.kind = (uint8_t)kind, .u.index = index};
}
static inline struct pl_opnd pl_opnd_addr(pl_reg base, int64_t offset_bytes)
{
    return (struct pl_opnd){.kind = PL_OPND_ADDR, .u.reg = base, .imm = offset_bytes};
}

static inline bool pl_opnd_is_imm(struct pl_opnd o) { return o.kind == PL_OPND_IMM; }
static inline bool pl_opnd_is(struct pl_opnd o, int64_t v)
{
    return o.kind == PL_OPND_IMM && o.imm == v;
}

/* What a step is but for its operands and guard, in one word, to compare; never 0. */
static inline uint64_t pl_step_head(const struct pl_step *s)
{
    uint64_t head;
    _Static_assert(offsetof(struct pl_step, attrs) + PL_STEP_MAX_ATTRS == sizeof head,
                   "op, types, number of operands and attributes come first");
    memcpy(&head, s, sizeof head);
    return head;
}

/* The attribute of a category, 0 when absent. */
uint8_t pl_step_attr(const struct pl_step *s, enum pl_scat cat);
#endif
