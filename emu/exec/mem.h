#ifndef PL_EMU_EXEC_MEM_H
#define PL_EMU_EXEC_MEM_H
/*
 * Loads, stores and atomics: what decoding finds out once about an access, and the executors.
 */
#include "emu/exec.h"

struct pl_arena;

enum pl_emu_space {
    PL_EMU_SPACE_GENERIC,
    PL_EMU_SPACE_GLOBAL,
    PL_EMU_SPACE_SHARED, /* .shared and .shared::cta: the CTA's own */
    PL_EMU_SPACE_CLUSTER,
    PL_EMU_SPACE_LOCAL,
    PL_EMU_SPACE_PARAM, /* the entry's parameters */
};

/* In ins->extra. */
struct pl_emu_access {
    uint8_t space;      /* enum pl_emu_space */
    uint8_t elem_bytes; /* 1, 2, 4, 8, 16 */
    uint8_t n_elems;    /* 1, 2, 4, 8 */
    bool is_signed;     /* loads: sign-extend into a wider register */
    bool is_strong;     /* volatile, relaxed, acquire, release, …: single-copy atomic elements */
    bool is_acquire, is_release, is_sc;
    bool is_plain;    /* one or more elements into registers of exactly their width, no sinks */
    uint32_t n_bytes; /* of a lane: elem_bytes * n_elems, also the alignment */
};

/* Decode hook of every load, store and atomic: sets ins->extra. False: no memory. */
bool pl_emu_prepare_access(struct pl_arena *arena, const struct pl_ptx_module *m,
                           struct pl_emu_ins *ins);

/* Host memory of one lane's access with every check made; NULL: fault raised. what: "load", … */
void *pl_emu_access_lane(struct pl_emu_warp *w, const struct pl_emu_access *a, uint32_t lane,
                         uint64_t address, bool is_read, bool is_write, const char *what);

pl_emu_exec_fn pl_emu_exec_ld, pl_emu_exec_st, pl_emu_exec_atom;
#endif
