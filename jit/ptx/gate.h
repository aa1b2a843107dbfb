#ifndef PL_JIT_PTX_GATE_H
#define PL_JIT_PTX_GATE_H
/*
 * Gates: which .version and .target a form needs (ptx.def, gate.def, target.def). The parser refuses what the module's own
 * header does not allow, as the assembler does; the planner joins the gates of what it will emit and takes the lowest header.
 *
 * A gate says "at least ptx_version, and a target of at least sm", or, where targets is not 0, "one of these a and f targets".
 */
#include "jit/ptx/ptx.h"

enum pl_ptx_target_id {
#define PLAIN(sm, ptx)
#define TARGET(sm, suffix, ptx) PL_PTX_TARGET_##sm##suffix,
#define ONSET(id, targets)
#include "jit/ptx/target.def"
#undef PLAIN
#undef TARGET
#undef ONSET
    PL_PTX_TARGET_COUNT
};

/* The bit of a suffixed target in pl_ptx_gate.targets; 0 where the target is not known. */
uint16_t pl_ptx_target_bit(uint16_t sm, char suffix);

/* The first .version that names the target ("suffix" 0, 'a' or 'f'); 0 where no such target is known. */
uint16_t pl_ptx_target_version(uint16_t sm, char suffix);

/* What one instruction needs: its row, and what its modifiers, types and operands add (pool: where its operands lie). */
struct pl_ptx_gate pl_ptx_gate_of_ins(const struct pl_ptx_ins *ins,
                                      const struct pl_ptx_operand *pool);

/* Do operands change the gate of this form? */
bool pl_ptx_has_operand_gate(enum pl_ptx_form form);

/* Both: the higher version and sm, the common targets. False (and *a as it was) when no target takes both. */
bool pl_ptx_gate_join(struct pl_ptx_gate *a, struct pl_ptx_gate b);

/* The first .version in which a chip of compute capability sm takes what passes the gate. */
uint16_t pl_ptx_gate_version(struct pl_ptx_gate gate, uint16_t sm);

/* Does a module with this header take it? */
bool pl_ptx_gate_accepts_target(struct pl_ptx_gate gate, uint16_t sm, char suffix);
bool pl_ptx_gate_accepts(struct pl_ptx_gate gate, uint16_t version, uint16_t sm, char suffix);

/* The lowest header for a device of compute capability sm that takes the gate: the plain target if it can, else its family
 * target, else its architecture target. False when none can. *version is the lowest .version of form and target. */
bool pl_ptx_gate_lowest(struct pl_ptx_gate gate, uint16_t sm, char *suffix, uint16_t *version);
#endif
