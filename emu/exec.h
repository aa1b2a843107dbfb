#ifndef PL_EMU_EXEC_H
#define PL_EMU_EXEC_H
/*
 * Decoded instructions and their executors.
 *
 * Decoding happens once, at load. A decoded instruction is either an *op*, a scalar lane kernel of emu/ops.h applied to the
 * lane arrays that its operands resolve to, or an *executor*, a function that sees the whole warp: everything that touches
 * memory, control or synchronisation. The tables in emu/exec/ say which row of ptx.def is what; a row that stands in neither way does
 * not compile. A row may also be refused, with a reason: then the load fails and names the line and the instruction.
 *
 * Operands are resolved to (bank, byte offset): the frame of the function activation, the constants of the program (each
 * immediate broadcast to 32 lanes) or the special registers of the warp. Executors read them through the inline functions
 * at the end of this header.
 */
#include "emu/ops.h"
#include "jit/ptx/ptx.h"

#include <stdbool.h>
#include <stdint.h>

struct pl_emu_warp;
struct pl_emu_func;
struct pl_emu_ins;

enum { PL_EMU_LANES = 32 };
#define PL_EMU_ALL_LANES 0xffffffffu

struct pl_emu_u128 {
    uint64_t lo, hi;
};

/* What an executor answers. */
enum pl_emu_status {
    PL_EMU_NEXT, /* done; go on with the next instruction */
    PL_EMU_JUMP, /* done; the executor has set pc, mask or frame of the current group itself, or ended it */
    PL_EMU_BLOCKED, /* not done: the group sleeps as its `wait` says, then the same instruction is executed again */
    PL_EMU_YIELD, /* done, and let others run first: the next instruction follows in a later turn */
    PL_EMU_FAULT, /* a diagnostic was raised (pl_emu_faults); the launch ends */
};

/*
 * An executor. The lanes it applies to are w->mask (never empty; the guard predicate is applied already); w->group is the
 * group of lanes that runs. On PL_EMU_BLOCKED it has filled w->group->wait, and finds w->group->stage as it left it when it
 * is called again (0 at first).
 */
typedef enum pl_emu_status pl_emu_exec_fn(struct pl_emu_warp *w, const struct pl_emu_ins *ins);

enum pl_emu_bank { PL_EMU_BANK_FRAME, PL_EMU_BANK_CONST, PL_EMU_BANK_SREG, PL_EMU_BANK_COUNT };

enum pl_emu_arg_kind {
    PL_EMU_ARG_NONE,
    PL_EMU_ARG_VALUE, /* a lane array: register, immediate, special register, address of a variable */
    PL_EMU_ARG_ADDR, /* [base + offset]: base is a lane array (absent when bits is 0), offset in bytes */
    PL_EMU_ARG_SINK,   /* _ */
    PL_EMU_ARG_VECTOR, /* n elements from args[first] of the instruction; each VALUE or SINK */
    PL_EMU_ARG_PAIR,   /* d|p: as VECTOR, n = 2 */
    PL_EMU_ARG_TENSOR, /* [map, {c…}{, {o…}}]: n elements: ADDR, VECTOR (, VECTOR) */
    PL_EMU_ARG_LABEL,  /* target: instruction index in first */
    PL_EMU_ARG_FUNC,   /* function index in first */
    PL_EMU_ARG_PROTO,  /* index into the module's protos in first */
};

struct pl_emu_arg {
    uint8_t kind; /* enum pl_emu_arg_kind */
    uint8_t bank; /* enum pl_emu_bank */
    uint8_t
        bits; /* container: 1 (predicate mask), 16, 32, 64, 128; ADDR: of the base, 0 without one */
    bool is_negated; /* !p */
    bool is_uniform; /* the same value in every lane: an immediate or a variable's address */
    uint16_t n;      /* elements of VECTOR, PAIR, TENSOR */
    uint32_t first;
    uint32_t offset_bytes; /* of the lane array in its bank */
    int64_t displacement;  /* ADDR: bytes added to the base */
};

struct pl_emu_ins {
    pl_emu_exec_fn *exec;        /* NULL: an op */
    pl_emu_op_fn *full, *masked; /* op */
    uint8_t kind;                /* how the interpreter's loop dispatches it (emu/warp.c) */
    uint8_t n_args; /* operands in text order; elements of compound ones follow them in args */
    bool is_guard_negated, has_guard;
    bool is_for_warp;                       /* all lanes execute it together: .aligned */
    bool is_barrier;                        /* lanes that have exited do not count */
    uint32_t guard_offset_bytes;            /* predicate in the frame */
    uint8_t d_bank, a_bank, b_bank, c_bank; /* op: operands, banks and byte offsets */
    uint32_t d, a, b, c;
    uint32_t d2, e, f; /* op with an opx: byte offsets, banks below */
    uint8_t e_bank, f_bank;
    uint32_t line; /* of the PTX text */
    uint64_t imm;  /* op: modes for opx.imm; executors may use it as their decode hook left it */
    const struct pl_ptx_ins
        *ptx; /* form, types and modifiers; NULL for a join point, which the decoder inserts */
    const struct pl_emu_arg *args;
    const void *extra; /* what the decode hook of the form has prepared; NULL without one */
};

/* The row of one form in the tables of emu/exec/. */
enum pl_emu_how { PL_EMU_HOW_OP, PL_EMU_HOW_EXEC, PL_EMU_HOW_ACCESS, PL_EMU_HOW_REFUSED };
struct pl_emu_form {
    enum pl_emu_how how;
    pl_emu_exec_fn *exec; /* EXEC, ACCESS */
    const char *reason;   /* REFUSED */
};
extern const struct pl_emu_form pl_emu_forms[PL_PTX_COUNT];

/* ---- for executors: operands ---------------------------------------------------------------------------------------- */

static inline uint8_t pl_emu_mod(const struct pl_emu_ins *ins, enum pl_ptx_cat cat)
{
    return ins->ptx->mods[cat];
}
static inline uint8_t pl_emu_type(const struct pl_emu_ins *ins, unsigned i)
{
    return ins->ptx->types[i];
}

#define PL_EMU_FOR_LANES(lane, mask)                                                               \
    for (uint32_t lane##_left_ = (mask), lane;                                                     \
         lane##_left_ != 0 && ((lane = (uint32_t)__builtin_ctz(lane##_left_)), 1);                 \
         lane##_left_ &= lane##_left_ - 1)

#endif
