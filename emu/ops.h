#ifndef PL_EMU_OPS_H
#define PL_EMU_OPS_H
/*
 * Scalar lane kernels: one PTX instruction applied to the 32 lanes of a warp.
 *
 * pl_emu_op_select() turns a parsed instruction into two functions at load: `full` for a warp whose 32 lanes are all active,
 * `masked` for any other mask. Both read whole lane arrays and write only active lanes. The kernels are compiled once for
 * each ISA level of the host and agree bit for bit between levels; the level is found once (pl_emu_ops_init).
 *
 * Lane arrays, by container width:
 *   1 (predicate)   one uint32_t, bit i is lane i        8, 16   uint16_t[32] (8-bit values live in the low byte)
 *   32              uint32_t[32]                         64      uint64_t[32]
 *   128             struct { uint64_t lo, hi; }[32]
 * Arrays are aligned to 64 bytes. A destination may be the same array as a source, never a part of one.
 *
 * Sources are numbered in text order with vectors flattened: a, b, c, then opx.e, opx.f. `add d, a, b` has a and b;
 * `lop3.or d|p, a, b, c, lut, q` has a, b, c, e = lut (a broadcast array), f = q (a predicate);
 * `cvt.rs.e4m3x4.f32 d, {x0, x1, x2, x3}, r` has a, b, c, e = x0 … x3 and f = r. Immediates are broadcast arrays of the
 * container width that op.src_bits gives, truncated to it; a negated predicate source (!p) is passed as it stands in the
 * register: select has put the negation in op.imm. The container of a register operand is always its own register's.
 */
#include "jit/ptx/ptx.h"

#include <stdbool.h>
#include <stdint.h>

enum { PL_EMU_OP_MAX_SRC = 5 };

/* What a kernel gets beside its three common sources. */
struct pl_emu_opx {
    void *d2; /* q of `p|q`, p of lop3's `d|p`; a scratch array where the text has none or `_` */
    const void *e; /* fourth source */
    const void *f; /* fifth source */
    uint32_t *cc;  /* CC.CF of the warp, bit i is lane i; read and written only if op.uses_cc */
    uint64_t imm;  /* op.imm */
};

typedef void pl_emu_op_fn(void *d, const void *a, const void *b, const void *c, uint32_t mask,
                          struct pl_emu_opx *x);

struct pl_emu_op {
    pl_emu_op_fn *full;   /* every lane is active; mask is ignored */
    pl_emu_op_fn *masked; /* bit i of mask: lane i is active */
    uint64_t imm;         /* modes, packed for the kernel: copy to opx.imm */
    uint8_t n_src;
    uint8_t d_bits;                      /* container of the destination: 1, 16, 32, 64, 128 */
    uint8_t d2_bits;                     /* container of the second destination; 0: none */
    uint8_t src_bits[PL_EMU_OP_MAX_SRC]; /* containers the kernel reads */
    bool uses_cc;
};

/*
 * Choose the kernels of one scalar instruction.
 *
 *   m, f   in   module and function that hold ins: operands, register widths
 *   ins    in   a parsed, gated instruction
 *   out    out  kernels and operand widths
 *
 * Returns false where ins is not a scalar row (memory, control, mov, cvta and the like are executed elsewhere).
 * Needs    pl_emu_ops_init() called once before
 * Threads  any
 */
bool pl_emu_op_select(const struct pl_ptx_module *m, const struct pl_ptx_func *f,
                      const struct pl_ptx_ins *ins, struct pl_emu_op *out);

/* ISA levels of the kernels, lowest first. */
enum pl_emu_isa { PL_EMU_ISA_BASE, PL_EMU_ISA_AVX2, PL_EMU_ISA_COUNT };

/* Find the best level of this host, at most `most`; returns the level chosen. Idempotent; call before any select.
 * Tests call it again to compare levels; not while another thread selects. */
enum pl_emu_isa pl_emu_ops_init(enum pl_emu_isa most);

#endif
