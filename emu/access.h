#ifndef PL_EMU_ACCESS_H
#define PL_EMU_ACCESS_H
/* Where the addresses of a running program are; the rest of the interface is in emu/memory.h. */
#include "emu/machine.h"

enum pl_emu_window {
    PL_EMU_IN_GLOBAL,
    PL_EMU_IN_SHARED,
    PL_EMU_IN_LOCAL,
    PL_EMU_IN_PARAM,
    PL_EMU_IN_FUNC
};

static inline enum pl_emu_window pl_emu_window_of(uint64_t address)
{
    uint64_t n = (address >> 32) - (PL_EMU_SHARED_WINDOW >> 32);
    return n < 4 ? (enum pl_emu_window)(n + 1) : PL_EMU_IN_GLOBAL;
}

/* Host pointers as one lane sees the address; NULL: the fault was raised. what: "load", "store", … */
void *pl_emu_shared_at(struct pl_emu_warp *w, uint32_t lane, uint32_t address, uint64_t n_bytes,
                       const char *what);
void *pl_emu_local_at(struct pl_emu_warp *w, uint32_t lane, uint64_t address, uint64_t n_bytes,
                      const char *what);
void *pl_emu_param_at(struct pl_emu_warp *w, uint32_t lane, uint64_t offset, uint64_t n_bytes);

/* The allocation that holds a device address, through the warp's cache; NULL: none. */
const struct pl_emu_allocation *pl_emu_allocation_at(struct pl_emu_warp *w, uint64_t address);
#endif
