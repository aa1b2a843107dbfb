#ifndef PL_JIT_PTX_PRINT_H
#define PL_JIT_PTX_PRINT_H
/*
 * Canonical PTX text: of a parsed module, and, for the emitter, of instructions built without parsing.
 *
 * The emitter keeps one small operand array an instruction, which is also the pool its vectors point into:
 *
 *   struct pl_ptx_operand ops[] = {pl_ptx_reg(PL_PTX_TYPE_F32, 7), pl_ptx_addr_reg(PL_PTX_TYPE_B64, 2, 16)};
 *   struct pl_ptx_ins ins = pl_ptx_ins_make(PL_PTX_ld, 2);
 *   pl_ptx_ins_set(&ins, PL_PTX_MOD_SPACE_GLOBAL);
 *   ins.types[0] = PL_PTX_TYPE_F32;
 *   pl_ptx_print_ins(&out, &ins, ops);                      ->   ld.global.f32 %f7, [%rd2+16];
 *
 * Its registers are a type and a number: %p0 (pred), %h0 (b16), %r0 (b32), %rd0 (b64), %rq0 (b128), %f0 (f32), %fd0 (f64).
 * Its labels are numbers: $L12. Its variables are indices into pl_ptx_printer.var_names.
 *
 * Nothing here depends on the locale, allocates other than by growing the buffer, or can fail otherwise.
 */
#include "base/buf.h"
#include "jit/ptx/ptx.h"

struct pl_ptx_printer {
    struct pl_buf *buf;
    const struct pl_ptx_module *module; /* of a parsed module, else NULL */
    const struct pl_ptx_func *func;     /* whose registers are meant */
    const char *const *var_names;       /* emitter: names of variables, parameters included */
    const char *const *func_names;      /* emitter: names of functions called */
};

/* ---- operands (by value; lists are consecutive elements of the same array) ---------------------------------------- */

/* A register of the emitter: type one of PRED B16 B32 B64 B128 F32 F64; number below 2^24. */
static inline uint32_t pl_ptx_reg_id(enum pl_ptx_type type, uint32_t number)
{
    return ((uint32_t)type << 24 | number) + 1;
}

static inline struct pl_ptx_operand pl_ptx_reg(enum pl_ptx_type type, uint32_t number)
{
    return (struct pl_ptx_operand){.kind = PL_PTX_OP_REG, .reg = pl_ptx_reg_id(type, number)};
}

static inline struct pl_ptx_operand pl_ptx_not(struct pl_ptx_operand pred)
{
    pred.is_negated = !pred.is_negated;
    return pred;
}

static inline struct pl_ptx_operand pl_ptx_imm(int64_t value)
{
    return (struct pl_ptx_operand){.kind = PL_PTX_OP_IMM, .imm = (uint64_t)value};
}

static inline struct pl_ptx_operand pl_ptx_f32(uint32_t bits)
{
    return (struct pl_ptx_operand){.kind = PL_PTX_OP_IMM, .is_float = true, .sub = 4, .imm = bits};
}

static inline struct pl_ptx_operand pl_ptx_f64(uint64_t bits)
{
    return (struct pl_ptx_operand){.kind = PL_PTX_OP_IMM, .is_float = true, .sub = 8, .imm = bits};
}

static inline struct pl_ptx_operand pl_ptx_special(enum pl_ptx_sreg sreg, unsigned dim)
{
    return (struct pl_ptx_operand){
        .kind = PL_PTX_OP_SREG, .sreg = (uint16_t)sreg, .sub = (uint8_t)dim};
}

/* The address of a variable, as a value: mov.u32 %r1, smem; */
static inline struct pl_ptx_operand pl_ptx_var(uint32_t var, int64_t offset_bytes)
{
    return (struct pl_ptx_operand){.kind = PL_PTX_OP_VAR, .var = var + 1, .offset = offset_bytes};
}

static inline struct pl_ptx_operand pl_ptx_addr_reg(enum pl_ptx_type type, uint32_t number,
                                                    int64_t offset_bytes)
{
    return (struct pl_ptx_operand){
        .kind = PL_PTX_OP_ADDR, .reg = pl_ptx_reg_id(type, number), .offset = offset_bytes};
}

static inline struct pl_ptx_operand pl_ptx_addr_var(uint32_t var, int64_t offset_bytes)
{
    return (struct pl_ptx_operand){.kind = PL_PTX_OP_ADDR, .var = var + 1, .offset = offset_bytes};
}

static inline struct pl_ptx_operand pl_ptx_label(uint32_t number)
{
    return (struct pl_ptx_operand){.kind = PL_PTX_OP_LABEL, .first = number};
}

static inline struct pl_ptx_operand pl_ptx_sink(void)
{
    return (struct pl_ptx_operand){.kind = PL_PTX_OP_SINK};
}

/* {ops[first], … n elements} */
static inline struct pl_ptx_operand pl_ptx_vector(uint32_t first, uint32_t n)
{
    return (struct pl_ptx_operand){.kind = PL_PTX_OP_VECTOR, .first = first, .n = (uint16_t)n};
}

/* {reg number, number + 1, … n registers}: no elements needed. */
static inline struct pl_ptx_operand pl_ptx_range(enum pl_ptx_type type, uint32_t number, uint32_t n)
{
    return (struct pl_ptx_operand){
        .kind = PL_PTX_OP_RANGE, .reg = pl_ptx_reg_id(type, number), .n = (uint16_t)n};
}

/* ops[first]|ops[first + 1] */
static inline struct pl_ptx_operand pl_ptx_pair(uint32_t first)
{
    return (struct pl_ptx_operand){.kind = PL_PTX_OP_PAIR, .first = first, .n = 2};
}

/* [map, {coordinates}]: ops[first] is the ADDR of the map, ops[first + 1] the VECTOR or RANGE of coordinates. */
static inline struct pl_ptx_operand pl_ptx_tensor(uint32_t first)
{
    return (struct pl_ptx_operand){.kind = PL_PTX_OP_TENSOR, .first = first, .n = 2};
}

/* ---- instructions ------------------------------------------------------------------------------------------------- */

/* The form with its operands ops[0 .. n_operands), no guard, no modifiers; each type slot of its row that has one possible
 * type is filled, the others are the caller's. */
struct pl_ptx_ins pl_ptx_ins_make(enum pl_ptx_form form, unsigned n_operands);

static inline void pl_ptx_ins_set(struct pl_ptx_ins *ins, enum pl_ptx_mod mod)
{
    ins->mods[pl_ptx_mods[mod].cat] = (uint8_t)mod;
}

/* @p or @!p before it: predicate register number. */
static inline void pl_ptx_ins_guard(struct pl_ptx_ins *ins, uint32_t pred_number, bool is_negated)
{
    ins->guard = pl_ptx_reg_id(PL_PTX_TYPE_PRED, pred_number);
    ins->guard_is_negated = is_negated;
}

/* One instruction and a line end. pool is where ins->operands and the elements of its lists lie. */
void pl_ptx_print_ins(const struct pl_ptx_printer *pr, const struct pl_ptx_ins *ins,
                      const struct pl_ptx_operand *pool);

/* The same of an emitter's instruction whose mnemonic was printed before (pl_ptx_print_mnemonic), for many of one kind. */
void pl_ptx_print_ins_as(const struct pl_ptx_printer *pr, const struct pl_ptx_ins *ins,
                         const struct pl_ptx_operand *pool, const char *mnemonic, size_t n_bytes);

/* One operand that is no list. */
void pl_ptx_print_operand(const struct pl_ptx_printer *pr, const struct pl_ptx_operand *op);

/* Its mnemonic alone, "ld.global.v4.f32": for messages. */
void pl_ptx_print_mnemonic(struct pl_buf *buf, const struct pl_ptx_ins *ins);

/* ---- modules, for the emitter -------------------------------------------------------------------------------------- */

/* .version, .target, .address_size 64. */
void pl_ptx_print_header(struct pl_buf *buf, uint16_t version, uint16_t sm, char suffix);

/* Module-scope or local declaration, ".extern .shared .align 1024 .b8 smem[];": an array where n_bytes is not the type's. */
void pl_ptx_print_var(struct pl_buf *buf, const struct pl_ptx_var *var);

/* The same without ";": an initialiser may follow. */
void pl_ptx_print_var_head(struct pl_buf *buf, const struct pl_ptx_var *var);

struct pl_ptx_param {
    const char *name;
    enum pl_ptx_type type;
    uint32_t align_bytes; /* 0: the type's */
    uint64_t n_elems;     /* 0: a scalar; else an array, as a tensor map: .align 64 .b8 map[128] */
};

struct pl_ptx_entry {
    const char *name;
    const struct pl_ptx_param *params;
    uint32_t n_params;
    uint32_t max_ntid[3], req_ntid[3], min_nctapersm, max_nreg; /* 0: not given */
    uint32_t req_cluster[3];
    bool is_explicit_cluster;
};

/* ".visible .entry name(…) directives {" */
void pl_ptx_print_entry(struct pl_buf *buf, const struct pl_ptx_entry *entry);

/* ".reg .b32 %r<n>;" for the registers 0 .. n - 1 of a type; nothing where n is 0. */
void pl_ptx_print_regs(struct pl_buf *buf, enum pl_ptx_type type, uint32_t n);

/* "%r12": a register of the emitter. */
void pl_ptx_print_reg(struct pl_buf *buf, uint32_t reg_id);

/* "$L12:" */
void pl_ptx_print_label(struct pl_buf *buf, uint32_t number);

/* The closing brace of an entry. */
void pl_ptx_print_end(struct pl_buf *buf);

/* ---- parsed functions and modules ------------------------------------------------------------------------------------------ */

/* Names of parsed registers (by index) and variables, unique in their function: "%r12", "%r12$b3" in its block 3. */
void pl_ptx_print_reg_name(struct pl_buf *buf, const struct pl_ptx_func *func, uint32_t reg);
void pl_ptx_print_var_name(struct pl_buf *buf, const struct pl_ptx_var *var);

/* Number of a .branchtargets, .calltargets or .callprototype in its function: printed as $P0, $P1, … */
uint32_t pl_ptx_proto_number(const struct pl_ptx_module *module, uint32_t proto);

/* Canonical text: one instruction a line, registers and variables by name (made unique where scopes repeat a name). Debug sections, and
 * so the target option debug, are left out; else parsing it gives the same module, and printing that gives the same text. */
void pl_ptx_print_module(struct pl_buf *buf, const struct pl_ptx_module *module);
#endif
