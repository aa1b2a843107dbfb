#ifndef PL_JIT_PTX_PTX_H
#define PL_JIT_PTX_PTX_H
/*
 * PTX as data: the tables (type.def, mod.def, ptx.def and its family files) and the parsed form of a module.
 *
 * Three readers share these types and know nothing of each other: the emitter builds `struct pl_ptx_ins` and prints it, the
 * parser makes them from text, the emulated driver executes what the parser made. parse(print(x)) == x for every row.
 *
 * An instruction text is a mnemonic (opcode plus dot-separated tokens) and operands. Tokens are matched against the rows of
 * the opcode: each is a fixed token of the row, a modifier from an allowed category (at most one a category), or a type
 * (in order). Exactly one row may accept a text; a test walks all pairs. Token order is free where ptxas accepts any.
 */
#include "base/arena.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- types: type.def rows TYPE(id, "text", bits, class) ----------------------------------------------------------- */

enum pl_ptx_class {
    PL_PTX_CLASS_NONE,
    PL_PTX_CLASS_BITS,   /* .b8 … .b128 */
    PL_PTX_CLASS_UINT,   /* .u8 … .u64 */
    PL_PTX_CLASS_SINT,   /* .s8 … .s64 */
    PL_PTX_CLASS_FLOAT,  /* .f16 .bf16 .tf32 .f32 .f64, fp8, fp6, fp4, ue8m0 */
    PL_PTX_CLASS_PACKED, /* .f16x2 .bf16x2 .f32x2 .u16x2 .s16x2 .e4m3x2 … */
    PL_PTX_CLASS_PRED,
};

enum pl_ptx_type {
#define TYPE(id, text, bits, class) PL_PTX_TYPE_##id,
#include "jit/ptx/type.def"
#undef TYPE
    PL_PTX_TYPE_COUNT
};

struct pl_ptx_type_info {
    const char *text; /* "u32", without the dot */
    uint16_t bits;    /* of the value; a register of the type has 1 (pred), 16, 32, 64 or 128 */
    uint8_t class;    /* enum pl_ptx_class */
};
extern const struct pl_ptx_type_info pl_ptx_types[PL_PTX_TYPE_COUNT];

/* ---- modifiers: mod.def rows CAT(id) and MOD(cat, id, "text") ------------------------------------------------------ */

enum pl_ptx_cat {
#define CAT(id) PL_PTX_CAT_##id,
#define MOD(cat, id, text)
#include "jit/ptx/mod.def"
#undef CAT
#undef MOD
    PL_PTX_CAT_COUNT
};

enum pl_ptx_mod { /* one enumeration for all categories; 0 = absent */
                  PL_PTX_MOD_NONE,
#define CAT(id)
#define MOD(cat, id, text) PL_PTX_MOD_##cat##_##id,
#include "jit/ptx/mod.def"
#undef CAT
#undef MOD
                  PL_PTX_MOD_COUNT
};

/* ---- forms: ptx.def rows INS(id, mnemonic, operands, modifiers, types, ptx, sm, flags, source) -------------------- */

enum pl_ptx_form {
    PL_PTX_NONE,
#define INS(id, ...) PL_PTX_##id,
#include "jit/ptx/ptx.def"
#undef INS
    PL_PTX_COUNT
};

enum pl_ptx_flag { /* hazard facts, read by the emulator's checks and by the mutation test */
                   PL_PTX_F_PURE = 1 << 0,  /* reads and writes registers only */
                   PL_PTX_F_MEM_R = 1 << 1, /* reads memory, at issue, in the generic proxy */
                   PL_PTX_F_MEM_W = 1 << 2, /* writes memory, at issue, in the generic proxy */
                   PL_PTX_F_ASYNC = 1 << 3, /* completes later */
                   PL_PTX_F_PROXY_ASYNC = 1 << 4, /* touches memory in the async proxy */
                   PL_PTX_F_MBAR = 1 << 5,        /* signals or tests an mbarrier */
                   PL_PTX_F_FENCE = 1 << 6,
                   PL_PTX_F_WAIT = 1 << 7, /* may block, or closes or waits for a group */
                   PL_PTX_F_ALIGNED =
                       1 << 8, /* all threads of the warp execute it together (.aligned) */
                   PL_PTX_F_CONTROL = 1 << 9, /* branch, call, return, exit */
                   PL_PTX_F_TMEM = 1 << 10,
                   PL_PTX_F_REFUSED =
                       1
                       << 11, /* known, parsed and gated, but refused by the emulated driver with the row's reason */
};

enum { PL_PTX_MAX_TYPES = 5 };

/* Which chips take a form. base: every sm >= sm. arch: the listed 'a' targets only (and 'f' families where family_sm != 0). */
struct pl_ptx_gate {
    uint16_t ptx_version; /* 10 * major + minor: 80 is 8.0 */
    uint16_t sm;          /* 90 */
    uint16_t targets;     /* bits of enum pl_ptx_target_bit in gate.h; 0 = plain "sm and newer" */
};

struct pl_ptx_info {
    const char *id;
    const char *
        mnemonic; /* opcode and fixed tokens in canonical order, with places for the rest: see ptx.def */
    const char *operands; /* operand pattern, see ptx.def */
    struct pl_ptx_gate gate;
    uint32_t flags;
    const char *source; /* PTX ISA section title */
    /* the matcher's view is private to jit/ptx */
};
extern const struct pl_ptx_info pl_ptx_infos[PL_PTX_COUNT];

/* Texts and categories of the modifiers, mod.def. */
struct pl_ptx_mod_info {
    const char *text; /* "rn", without the dot */
    uint8_t cat;      /* enum pl_ptx_cat */
};
extern const struct pl_ptx_mod_info pl_ptx_mods[PL_PTX_MOD_COUNT];

/* ---- parsed module ------------------------------------------------------------------------------------------------- */

enum pl_ptx_space {
    PL_PTX_SPACE_GENERIC,
    PL_PTX_SPACE_REG,
    PL_PTX_SPACE_CONST,
    PL_PTX_SPACE_GLOBAL,
    PL_PTX_SPACE_LOCAL,
    PL_PTX_SPACE_SHARED,
    PL_PTX_SPACE_PARAM,
};

enum pl_ptx_operand_kind {
    PL_PTX_OP_NONE,
    PL_PTX_OP_REG,  /* reg */
    PL_PTX_OP_SREG, /* special register: sreg, and dimension in sub (0 x, 1 y, 2 z, 3 w) */
    PL_PTX_OP_IMM, /* integer or float bits in imm; is_float tells; f32 bits are in the low half, f64 in all */
    PL_PTX_OP_VAR, /* address of a variable: var, offset; with reg too it is written v[reg+i], here and in ADDR: reg counts elements */
    PL_PTX_OP_ADDR, /* [base + offset]: base is a register (reg) or a variable (var), or neither (absolute) */
    PL_PTX_OP_VECTOR, /* {a, b, …}: n elements, consecutive in the operand pool from first */
    PL_PTX_OP_LABEL,  /* label: index of the target instruction */
    PL_PTX_OP_FUNC,   /* func: function index */
    PL_PTX_OP_SINK,   /* _ */
    PL_PTX_OP_PAIR,   /* d|p: two elements from first (REG or SINK each) */
    PL_PTX_OP_TENSOR, /* [map, {c…}] : elements from first: the ADDR of the map, then the VECTOR of coordinates, then optionally the VECTOR of im2col offsets */
    PL_PTX_OP_PROTO,  /* .branchtargets, .calltargets or .callprototype: index in first */
    PL_PTX_OP_RANGE, /* {reg, reg + 1, …}: n registers; only the emitter makes it, the parser gives a VECTOR */
    PL_PTX_OP_TEXT, /* modifiers of a refused form as written, ".s32.s32": first is an index into texts */
};

struct pl_ptx_operand {
    uint8_t kind;    /* enum pl_ptx_operand_kind */
    bool is_negated; /* !p */
    bool is_minus;   /* REG: -r, of video instructions */
    bool is_unified; /* ADDR: written [a].unified */
    bool is_float;   /* IMM: a float */
    uint8_t
        sub; /* SREG: dimension; IMM and is_float: 4 or 8, the bytes of the float in imm; VAR: written v[i] */
    uint16_t n;      /* VECTOR, PAIR, TENSOR: elements */
    uint16_t sreg;   /* enum pl_ptx_sreg */
    uint16_t select; /* REG: video selector, or 0; see below */
    uint32_t reg;    /* register index + 1 in the function, 0 = none */
    uint32_t var;    /* variable index + 1 in the module, 0 = none */
    uint32_t
        first; /* pool index of the first element; LABEL: instruction index (one past the last: the end of the
                           function); FUNC: function index; PROTO: index; TEXT: index into texts */
    int64_t offset; /* bytes, for VAR and ADDR */
    uint64_t imm;   /* IMM: value; 128-bit immediates do not exist */
};

/* Video selectors, ".b3120" or ".h1": up to four digits of 3 bits, the last one lowest; from bit 12 on how many; bytes or halves. */
enum { PL_PTX_SELECT_COUNT = 12, PL_PTX_SELECT_BYTES = 1 << 15 };

static inline unsigned pl_ptx_select_count(uint16_t select)
{
    return (unsigned)select >> PL_PTX_SELECT_COUNT & 7u;
}
static inline unsigned pl_ptx_select_digit(uint16_t select, unsigned i)
{
    return (unsigned)select >> 3 * i & 7u;
}

struct pl_ptx_ins {
    uint16_t form; /* enum pl_ptx_form */
    uint8_t n_types;
    uint8_t n_operands;
    uint8_t types
        [PL_PTX_MAX_TYPES]; /* enum pl_ptx_type, in text order; vector width is a modifier (V2, V4, V8) */
    uint8_t mods[PL_PTX_CAT_COUNT]; /* enum pl_ptx_mod, PL_PTX_MOD_NONE where absent */
    uint16_t shape_n;               /* N of a wgmma shape m64nNkK, else 0 */
    uint32_t guard;                 /* predicate register index + 1, 0 = unconditional */
    bool guard_is_negated;
    uint32_t operands; /* pool index of the first; the others follow */
    uint32_t line;     /* of the text, from 1 */
};

struct
    pl_ptx_reg { /* only registers that an instruction names; the others of a range %r<100> do not exist */
    const char *name; /* as written: "%r12" */
    uint8_t type;     /* enum pl_ptx_type */
    uint32_t
        scope; /* block in which it was declared (0: the function's own); names may repeat in other blocks */
};

struct
    pl_ptx_reloc { /* an address in an initialiser: variable or function + addend, at byte offset */
    uint64_t offset_bytes;
    uint8_t n_bytes;    /* how many bytes of the address lie there, */
    uint8_t first_byte; /* and from which on: 8 and 0, but for masked ones as 0xff00(x): 1 and 1 */
    uint32_t var;       /* + 1 */
    uint32_t func;      /* + 1 */
    int64_t addend;
    bool is_generic;
};

struct pl_ptx_var {
    const char *name;
    uint8_t space; /* enum pl_ptx_space */
    uint8_t type;  /* element type */
    uint32_t align_bytes;
    uint64_t n_bytes;    /* 0: extern array of unknown size */
    const uint8_t *init; /* NULL: zero (global, const) or undefined (others) */
    uint64_t init_n_bytes;
    const struct pl_ptx_reloc *relocs;
    uint32_t n_relocs;
    bool is_extern, is_visible, is_weak, is_common, is_managed;
    uint32_t func;        /* owner + 1; 0 = module scope */
    uint32_t scope;       /* block of that function, as for registers */
    int32_t param_offset; /* .param of a function: byte offset in its parameter block, else -1 */
    bool is_return;       /* .param return value of a .func, or a return register's var */
    uint32_t line;
};

struct pl_ptx_func {
    const char *name;
    bool is_entry, is_visible, is_weak, is_extern, has_body, is_noreturn;
    uint32_t first_ins, n_ins; /* in pl_ptx_module.ins: one contiguous range */
    PL_VEC(struct pl_ptx_reg) regs;
    uint32_t n_params, n_returns;
    const uint32_t *
        params; /* variable (space PARAM) or, where is_reg_param, register indices, in order; no + 1 */
    const uint32_t *returns;
    bool
        has_reg_params; /* .func (.reg .b32 r) f (.reg …): params and returns are register indices */
    uint32_t param_n_bytes;                                     /* of an entry's parameter block */
    uint32_t max_ntid[3], req_ntid[3], max_nreg, min_nctapersm; /* 0 = not given */
    uint32_t req_cluster[3], max_cluster_rank;
    bool is_explicit_cluster;
    uint32_t line;
};

struct pl_ptx_proto { /* .callprototype / .branchtargets / .calltargets */
    const char *name;
    bool is_calls;           /* .calltargets: targets are functions, else instructions */
    const uint32_t *targets; /* instruction or function indices */
    uint32_t n_targets;
    uint32_t func;    /* owner */
    const char *text; /* of a .callprototype: as written after that word, else NULL */
};

struct pl_ptx_module {
    uint16_t version; /* 10 * major + minor */
    uint16_t sm;      /* 90 */
    char suffix;      /* 0, 'a' or 'f' */
    bool is_debug, is_texmode_independent;
    PL_VEC(struct pl_ptx_var) vars;
    PL_VEC(struct pl_ptx_func) funcs;
    PL_VEC(struct pl_ptx_ins) ins;
    PL_VEC(struct pl_ptx_operand) pool; /* element 0 is unused, so that data is never NULL */
    PL_VEC(struct pl_ptx_proto) protos;
    PL_VEC(const char *) texts;
};

struct pl_ptx_error {
    uint32_t line, column; /* from 1 */
    int code;              /* diagnostic number; 0 = none */
    char text[240];        /* names the instruction as written */
};

/* Parse a whole module. False: *error says where and why (the first error); the arena then holds partial data only.
 * Every instruction is resolved to a row and gated by the module's .version and .target as ptxas does. */
bool pl_ptx_parse(const char *text, size_t n_bytes, struct pl_arena *arena,
                  struct pl_ptx_module *out, struct pl_ptx_error *error);

/* Special registers: sreg.def rows SREG(id, "text", type, dims, ptx, sm). */
enum pl_ptx_sreg {
#define SREG(id, text, type, dims, ptx, sm) PL_PTX_SREG_##id,
#include "jit/ptx/sreg.def"
#undef SREG
    PL_PTX_SREG_COUNT
};

struct pl_ptx_sreg_info {
    const char *text; /* "%tid" */
    uint8_t type;     /* enum pl_ptx_type */
    uint8_t n_dims;   /* 0: scalar, else read as .x .y .z */
    struct pl_ptx_gate gate;
};
extern const struct pl_ptx_sreg_info pl_ptx_sregs[PL_PTX_SREG_COUNT];

#endif
