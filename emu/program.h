#ifndef PL_EMU_PROGRAM_H
#define PL_EMU_PROGRAM_H
/*
 * A loaded program: what emu/decode.c makes of a parsed module, once, and every launch reads.
 *
 * Addresses of shared variables depend on the entry (each lays out only what it reaches) and on the CTA's rank, so they and
 * the special registers live in the warp's special-register bank: one lane array a slot, filled when the warp is made.
 * Everything that a function keeps in local memory (its .local variables, its formal parameters, the .param variables of
 * its calls) has an offset in the activation's part of local memory.
 */
#include "base/arena.h"
#include "base/diag.h"
#include "base/vec.h"
#include "emu/exec.h"
#include "emu/launch.h"
#include "jit/ptx/ptx.h"

#include <stdbool.h>
#include <stdint.h>

/* Local addresses start here, so that a null pointer into local memory is found. */
enum { PL_EMU_LOCAL_BASE = 64 };

/* One lane array of the special-register bank. */
struct pl_emu_slot {
    uint32_t offset_bytes;
    uint8_t bits;    /* 1, 32 or 64 */
    bool is_shared;  /* address of a shared variable, else a special register */
    bool is_generic; /* shared: the generic address */
    uint16_t sreg;   /* enum pl_ptx_sreg */
    uint8_t dim;     /* 0 x … 3 w */
    uint32_t var;    /* shared: variable index */
    int64_t addend;
};

/* Where a parameter or return value lives: in local memory, or in a register. */
struct pl_emu_place {
    bool is_reg;
    uint8_t bits;          /* of the register's container */
    uint8_t bank;          /* of the register: an argument may be a constant */
    uint32_t offset_bytes; /* in the activation's local memory, or of the lane array in the frame */
    uint32_t n_bytes;      /* of a local place */
};

/* Functions that the device runtime provides (vprintf, malloc, …). */
typedef enum pl_emu_status pl_emu_builtin_fn(struct pl_emu_warp *w, const struct pl_emu_ins *ins);

struct pl_emu_func {
    struct pl_emu_func_info info;
    const struct pl_emu_program *program;
    uint32_t index; /* in the module */
    uint32_t line;
    bool has_body;
    pl_emu_builtin_fn *builtin;    /* extern function of the device runtime, or NULL */
    const struct pl_emu_ins *code; /* ends in a return */
    uint32_t n_code;
    uint32_t frame_bytes;   /* multiple of 64 */
    uint32_t local_bytes;   /* one activation's part of a lane's local memory; multiple of 16 */
    uint32_t deepest_bytes; /* local memory of the deepest call chain, this activation included */
    bool is_deep_unknown;   /* recursion, calls through pointers or alloca below it */
    bool uses_local_base;
    bool uses_reserved; /* entry: it reads where the system's shared memory is */
    uint32_t
        local_base; /* uint32_t lanes in the frame: address of this activation's local memory */
    uint32_t n_params, n_returns;
    const struct pl_emu_place *params, *returns;
    /* entry: shared variables that it reaches */
    uint32_t shared_bytes; /* static, from the base of the device */
    uint32_t dynamic_align_bytes;
    uint32_t launch_regs; /* of a thread, where setmaxnreg counts from; 0: it is ignored */
    const uint32_t *shared_offsets; /* of each variable of the module; UINT32_MAX: not reached */
};

/* What a call instruction carries in ins->extra. */
struct pl_emu_call {
    const struct pl_emu_func *callee; /* NULL: through a pointer, target */
    const struct pl_emu_arg *target;
    uint32_t n_args, n_returns;
    const struct pl_emu_place *args, *returns; /* in the caller's activation */
};

/* What a branch carries in ins->extra. The indices count PTX instructions of the function; linking makes the pointers. */
struct pl_emu_branch {
    const struct pl_emu_ins *target; /* bra */
    const struct pl_emu_ins
        *meet; /* join point where the sides meet again; NULL: the end of the function */
    const struct pl_emu_ins **targets; /* brx.idx */
    uint32_t n_targets;
    uint32_t target_index, meet_index; /* PL_EMU_NO_NODE: none */
    const uint32_t *target_indices;    /* of the module */
};

struct pl_emu_program {
    struct pl_emu_device *device;
    struct pl_arena arena;
    struct pl_ptx_module module;       /* in the arena */
    const struct pl_emu_func **funcs;  /* of every function of the module, bodies or not */
    const struct pl_emu_func **listed; /* those with a body */
    uint32_t n_listed;
    struct pl_emu_global_info *globals;
    uint32_t n_globals;
    const uint64_t *var_addresses; /* of each global and const variable, else 0 */
    uint8_t *consts;               /* bank CONST, aligned to 64 */
    const struct pl_emu_slot *slots;
    uint32_t n_slots, sreg_bytes; /* bank SREG */
};

/* Decode every function with a body. The module, funcs and var_addresses are there. False: diags say why. */
bool pl_emu_decode(struct pl_emu_program *p, struct pl_diags *diags);
#endif
