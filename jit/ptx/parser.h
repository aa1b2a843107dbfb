#ifndef PL_JIT_PTX_PARSER_H
#define PL_JIT_PTX_PARSER_H
/*
 * The parser's state, private to jit/ptx, and what its files offer each other:
 *
 *   lex.c      characters, names, numbers            expr.c     constant expressions
 *   symbols.c  names and scopes                      match.c    mnemonics: text to rows
 *   operand.c  operands: parse, choose, check        space.c    addresses and state spaces
 *   body.c     function bodies
 *   decl.c     variables, parameters, initialisers   parse.c    modules and functions
 *
 * One pass, no tree. Every function that returns bool gives false after it raised a diagnostic (or the arena ran out);
 * callers only pass that on. Work is linear in the text: each name is looked up by hash once, each mnemonic text is matched
 * against the rows once, scopes are at most PL_PTX_MAX_DEPTH deep.
 */
#include "base/vec.h"
#include "jit/ptx/diag.h"
#include "jit/ptx/table.h"

enum {
    PL_PTX_MAX_DEPTH = 64,     /* nested braces, parentheses */
    PL_PTX_MAX_OPERANDS = 16,  /* of an instruction, top level */
    PL_PTX_MAX_ELEMS = 4096,   /* of a vector or argument list */
    PL_PTX_MAX_REGS = 1 << 20, /* of a function, that instructions name */
    PL_PTX_MAX_INIT = 1 << 28, /* bytes of an initialised variable */
};

enum pl_ptx_sym_kind {
    PL_PTX_SYM_REG,    /* index: register of the function */
    PL_PTX_SYM_REGVEC, /* index: first of n registers, elements .x .y .z .w */
    PL_PTX_SYM_RANGE,  /* "%r" of %r<n>: n, type; registers are made when first named */
    PL_PTX_SYM_VAR,    /* index: variable of the module */
    PL_PTX_SYM_FUNC,
    PL_PTX_SYM_LABEL, /* index: instruction */
    PL_PTX_SYM_PROTO,
};

struct pl_ptx_sym {
    uint32_t name;  /* index into names */
    uint32_t outer; /* the symbol that it hides + 1 */
    uint32_t next;  /* next symbol of the same scope + 1 */
    uint32_t index;
    uint32_t n;
    uint32_t scope; /* number of its block, 0 the function's own */
    uint16_t depth; /* 0: module */
    uint8_t kind;
    uint8_t type;
};

struct pl_ptx_name {
    const char *text; /* NUL-terminated, in the arena */
    uint32_t n_bytes, hash;
    uint32_t sym;   /* innermost meaning + 1 */
    uint32_t range; /* innermost register range of this prefix + 1 */
    uint32_t sreg;  /* special register + 1 */
};

struct pl_ptx_scope {
    uint32_t first_sym; /* + 1 */
    uint32_t id;
    uint32_t first_fixup;
};

/* A label named before it is defined: the place to fill. */
struct pl_ptx_fixup {
    uint32_t name;
    bool is_target; /* an element of a .branchtargets list, else a pool operand */
    uint32_t at;    /* pool index; or index into targets */
    const char *text;
};

/* What an operand must be, resolved for one mnemonic. */
enum pl_ptx_want {
    PL_PTX_WANT_DST,
    PL_PTX_WANT_SRC,
    PL_PTX_WANT_REG,    /* source register, no immediate */
    PL_PTX_WANT_ANYSRC, /* source of mov and cvta: also an address */
    PL_PTX_WANT_DPRED,
    PL_PTX_WANT_SPRED,
    PL_PTX_WANT_PRED_REG, /* source, no constant */
    PL_PTX_WANT_INT,
    PL_PTX_WANT_ADDR,
    PL_PTX_WANT_REG_ADDR, /* either */
    PL_PTX_WANT_DVEC,     /* n elements */
    PL_PTX_WANT_SVEC,
    PL_PTX_WANT_SELECT, /* {byte id, thread id}: two 16-bit registers or constants */
    PL_PTX_WANT_LANES,  /* disable-output-lane mask: n 32-bit registers */
    PL_PTX_WANT_UNPACK, /* the vectors of mov */
    PL_PTX_WANT_PACK,
    PL_PTX_WANT_TENSOR,  /* n coordinates */
    PL_PTX_WANT_OFFSETS, /* n 16-bit offsets */
    PL_PTX_WANT_LABEL,
    PL_PTX_WANT_LABELS, /* brx.idx: the name of a .branchtargets list */
    PL_PTX_WANT_CALL,
    PL_PTX_WANT_ALL, /* the rest, whatever it is */
};

enum pl_ptx_select {
    PL_PTX_SELECT_NONE,
    PL_PTX_SELECT_PART,  /* .b0 … .b3, .h0, .h1 */
    PL_PTX_SELECT_PARTS, /* .hxy or .bxyzw, of two operands */
    PL_PTX_SELECT_MASK,  /* destinations of the same: .h0 .h1 .h10, .b0 … .b3210, descending */
};

struct pl_ptx_spec {
    uint8_t want; /* enum pl_ptx_want */
    uint8_t type; /* enum pl_ptx_type that the operand holds, NONE: any address size */
    uint16_t n;
    bool is_optional;
    bool has_sink;      /* '_' is allowed */
    bool is_sink_only;  /* no register there */
    bool is_wide_ok;    /* ld, st, cvt: a register may be wider than the type */
    bool is_element_ok; /* ld, st: v[i] may stand for [v+bytes] */
    bool is_special_ok; /* mov, cvt: a source may be a special register */
    bool is_minus_ok;   /* a register may have a minus */
    uint8_t select;     /* enum pl_ptx_select: which video selectors are allowed, */
    bool is_in_halves;  /* and whether of halves or of bytes */
    bool is_braced_ok;  /* a vector's place without .v2 .v4 .v8: {x} for x, as ptxas takes it */
    uint8_t
        pair; /* 0 no pair; 1 the second half may be absent; 2 must be there. It is a predicate destination. */
};

/* One way to read a mnemonic. */
struct pl_ptx_shape {
    struct pl_ptx_ins ins; /* form, types, modifiers */
    struct pl_ptx_spec specs[PL_PTX_MAX_OPERANDS];
    uint32_t n_specs;
    uint32_t text;   /* refused forms: index + 1 into module texts of the modifiers as written */
    bool is_gated;   /* the gate that does not depend on operands was checked, */
    bool has_values; /* and whether value.def has rows for the form is known */
};

struct pl_ptx_mnemonic {
    const char *text;
    uint32_t n_bytes, hash;
    uint32_t first_shape, n_shapes;
};

struct pl_ptx_parser {
    struct pl_arena *arena;
    struct pl_ptx_module *m;
    struct pl_diags diags;
    const char *error_at; /* where the first diagnostic was raised */

    const char *text, *end; /* a copy with a NUL at its end */
    const char *s;          /* next character */
    uint32_t line;          /* of s */
    uint32_t expr_depth;

    PL_VEC(struct pl_ptx_name) names;
    uint32_t *name_slots; /* open addressing: index + 1 */
    uint32_t n_name_slots;
    PL_VEC(struct pl_ptx_sym) syms;
    struct pl_ptx_scope scopes[PL_PTX_MAX_DEPTH];
    uint32_t depth;    /* of the innermost scope; 0 is the module's */
    uint32_t n_blocks; /* of the function so far */
    uint32_t
        n_inner_ranges; /* register ranges of blocks deeper than a function's own that are in scope */
    PL_VEC(struct pl_ptx_fixup) fixups;
    PL_VEC(uint32_t) targets; /* of .branchtargets, being filled */

    struct pl_ptx_func *func; /* being read */
    uint32_t func_index;

    struct pl_ptx_opcode *opcode_slots; /* open addressing */
    uint32_t *token_slots;              /* open addressing: index + 1 into tokens */
    struct pl_ptx_token *tokens;
    uint32_t n_token_slots;
    struct pl_ptx_mnemonic *mnemonics; /* open addressing over distinct texts */
    uint32_t n_mnemonic_slots, n_mnemonics;
    PL_VEC(struct pl_ptx_shape) shapes;
    bool has_version, has_target;
    bool was_defined;           /* the function being read has a body already */
    struct pl_ptx_func earlier; /* its record before this declaration; without a name: none */
};

/* ---- lex.c ---- */
enum { /* classes of characters, bits */
       PL_PTX_C_SPACE = 1,
       PL_PTX_C_NAME = 2,  /* of a name after its first character */
       PL_PTX_C_FIRST = 4, /* of a name's first */
       PL_PTX_C_DIGIT = 8,
       PL_PTX_C_HEX = 16,
};
extern const uint8_t pl_ptx_chars[256];

struct pl_ptx_number {
    bool is_float;
    uint8_t float_bytes; /* 4 for 0f…, 8 for 0d… and decimals */
    bool is_unsigned;
    uint64_t bits; /* integer, or float bits in the low float_bytes */
};

struct pl_where pl_ptx_at(struct pl_ptx_parser *p,
                          const char *at); /* note the place of a diagnostic */
const char *pl_ptx_excerpt(struct pl_ptx_parser *p, const char *at,
                           size_t n_bytes); /* for messages: printable, cut */
bool pl_ptx_skip(struct pl_ptx_parser *p);  /* spaces and comments; false: a comment without end */
bool pl_ptx_accept(struct pl_ptx_parser *p, char c); /* after spaces */
bool pl_ptx_expect(struct pl_ptx_parser *p, char c);
bool pl_ptx_fail_syntax(struct pl_ptx_parser *p, const char *wanted); /* at s */
size_t pl_ptx_name_length(const char *s); /* of the name at s; 0: none */
bool pl_ptx_read_number(struct pl_ptx_parser *p, struct pl_ptx_number *out);
bool pl_ptx_accept_word(struct pl_ptx_parser *p, const char *word); /* ".align": a whole word */
bool pl_ptx_read_string(struct pl_ptx_parser *p);                   /* "…", skipped */

/* ---- space.c ---- */
/* Addresses against the state spaces that the instruction names. */
bool pl_ptx_check_spaces(struct pl_ptx_parser *p, const struct pl_ptx_ins *ins,
                         const struct pl_ptx_mnemonic *mn, const char *at);

/* ---- expr.c ---- */
struct pl_ptx_const {
    bool is_float;
    uint8_t float_bytes; /* 4 only for a bare 0f literal, which stays exact */
    bool is_unsigned;
    uint64_t bits;
};
bool pl_ptx_read_const(struct pl_ptx_parser *p, struct pl_ptx_const *out);
bool pl_ptx_read_int(struct pl_ptx_parser *p, int64_t *out);
/* The value as an element of a type: float and integer constants become its bits. False: it has no such value. */
bool pl_ptx_const_as(const struct pl_ptx_const *c, enum pl_ptx_type type, uint64_t *bits);

/* ---- symbols.c ---- */
bool pl_ptx_symbols_init(struct pl_ptx_parser *p);
bool pl_ptx_intern(struct pl_ptx_parser *p, const char *s, size_t n_bytes, uint32_t *name);
/* The name at p->s, which stays where it is; `what` says in a message what must stand there. *n_bytes: its length. */
bool pl_ptx_peek_name(struct pl_ptx_parser *p, const char *what, uint32_t *name, size_t *n_bytes);
struct pl_ptx_sym *pl_ptx_find(
    struct pl_ptx_parser *p,
    uint32_t name); /* NULL: not declared; may make a register of a range */
/* A new symbol in the innermost scope (or, with is_module, at module scope); NULL after a diagnostic. */
struct pl_ptx_sym *pl_ptx_declare(struct pl_ptx_parser *p, uint32_t name, enum pl_ptx_sym_kind kind,
                                  const char *at);
struct pl_ptx_sym *pl_ptx_declare_range(struct pl_ptx_parser *p, uint32_t prefix, const char *at);
bool pl_ptx_open_scope(struct pl_ptx_parser *p, const char *at);
bool pl_ptx_close_scope(
    struct pl_ptx_parser *p); /* labels that stay unknown go to the outer scope, or are an error */
uint32_t pl_ptx_add_reg(struct pl_ptx_parser *p, const char *name, enum pl_ptx_type type,
                        uint32_t scope); /* index + 1 */

/* ---- match.c ---- */
bool pl_ptx_match_init(struct pl_ptx_parser *p);
/* What of the modifiers and types does not go with the rest, conflict.c; NULL: nothing. */
const char *pl_ptx_find_conflict(const struct pl_ptx_ins *ins);
/* Fill the operand pattern of a shape whose ins has form, types and modifiers. False: these exclude each other. */
bool pl_ptx_resolve(struct pl_ptx_shape *shape);
/* The mnemonic at s: its shapes. */
bool pl_ptx_read_mnemonic(struct pl_ptx_parser *p, const struct pl_ptx_mnemonic **out);

/* ---- operand.c ---- */
bool pl_ptx_read_operands(struct pl_ptx_parser *p, const struct pl_ptx_mnemonic *mn,
                          struct pl_ptx_ins *ins, const char *at);

/* ---- parse.c ---- */
/* Does the module's header allow this instruction, and are its constants in range? */
bool pl_ptx_check_gate(struct pl_ptx_parser *p, struct pl_ptx_shape *shape,
                       const struct pl_ptx_ins *ins, const struct pl_ptx_mnemonic *mn,
                       const char *at);

/* ---- decl.c ---- */
struct pl_ptx_linkage {
    bool is_extern, is_visible, is_weak, is_common;
};
bool pl_ptx_read_type(struct pl_ptx_parser *p, enum pl_ptx_type *type); /* ".b32" */
bool pl_ptx_read_reg(struct pl_ptx_parser *p);                          /* after .reg */
bool pl_ptx_read_var(struct pl_ptx_parser *p, enum pl_ptx_space space,
                     struct pl_ptx_linkage linkage);
/* "( … )" of a function or prototype; is_return; NULL params: a prototype, whose parameters have no names. */
bool pl_ptx_read_params(struct pl_ptx_parser *p, bool is_return, uint32_t *n,
                        const uint32_t **params);

/* ---- body.c ---- */
bool pl_ptx_read_body(struct pl_ptx_parser *p); /* after the opening brace, to the closing one */
bool pl_ptx_skip_loc(struct pl_ptx_parser *p);  /* after .loc or .file */
bool pl_ptx_skip_to(struct pl_ptx_parser *p, char c); /* past the next c */
#endif
