#ifndef PL_TESTS_OPS_RUN_H
#define PL_TESTS_OPS_RUN_H
/*
 * Run one scalar PTX instruction on lane arrays, through the parser and the selection, without the machine: what check_ops
 * and check_ops_fold share. Registers are named by width: %p 1 bit, %h 16, %r 32, %d 64, each 0 to 9.
 */
#include "emu/ops.h"

#include <stdbool.h>
#include <stdint.h>

enum { OPS_MAX_REGS = 10 };

/* One register file: reg i of each width, lane arrays as emu/ops.h lays them out. */
struct ops_frame {
    _Alignas(64) uint64_t d[OPS_MAX_REGS][32];
    _Alignas(64) uint32_t r[OPS_MAX_REGS][32];
    _Alignas(64) uint16_t h[OPS_MAX_REGS][32];
    _Alignas(64) uint32_t p[OPS_MAX_REGS][16]; /* a mask in the first word */
    uint32_t cc;
};

struct ops_code; /* parsed and selected instructions */

/* NULL: not parsed, or a form that is not scalar; why (at least 300 bytes) says so. */
struct ops_code *ops_compile(const char *body, char *why);
void ops_free(struct ops_code *c);

/* Form of instruction i; PL_PTX_NONE past the last. */
uint16_t ops_form(const struct ops_code *c, unsigned i);

/* All instructions in order; mask UINT32_MAX with is_full runs the full kernels, otherwise the masked ones. */
void ops_run(const struct ops_code *c, struct ops_frame *frame, uint32_t mask, bool is_full);

/* Take the kernels of another ISA level. */
void ops_reselect(struct ops_code *c);

#endif
