#ifndef PL_EMU_ADDRESS_H
#define PL_EMU_ADDRESS_H
/* The addresses of the lanes of a warp, as vectors: compiled for AVX2 too on x86-64, chosen at run time. */
#include "emu/machine.h"

struct pl_emu_extent {
    uint64_t lo, hi; /* lowest and highest address of an active lane */
    uint64_t bits;   /* all their bits: the low ones tell the alignment */
    bool is_same;    /* all alike */
    bool is_run;     /* all lanes are active, each `step` bytes behind the one before */
};

/* Addresses of an ADDR operand in all lanes; inactive lanes get the address of an active one. */
void pl_emu_addresses(const struct pl_emu_warp *w, const struct pl_emu_arg *m,
                      uint64_t out[PL_EMU_LANES]);
void pl_emu_extent_of(const struct pl_emu_warp *w, const uint64_t at[PL_EMU_LANES], uint64_t step,
                      struct pl_emu_extent *out);
#endif
