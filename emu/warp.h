#ifndef PL_EMU_WARP_H
#define PL_EMU_WARP_H
/*
 * The interpreter of a warp and the life of its lane groups: split, meet, call, return, exit.
 */
#include "emu/machine.h"

/* How the loop dispatches a decoded instruction (pl_emu_ins.kind). */
enum pl_emu_kind {
    PL_EMU_KIND_OP,   /* lane kernel of up to three sources */
    PL_EMU_KIND_OPX,  /* lane kernel with second destination, more sources or carry */
    PL_EMU_KIND_EXEC, /* executor */
    PL_EMU_KIND_BRA,  /* bra */
    PL_EMU_KIND_JOIN, /* inserted where split groups meet */
};

/* What a turn of a warp came to. */
enum pl_emu_turn {
    PL_EMU_TURN_RAN,   /* at least one instruction was completed */
    PL_EMU_TURN_IDLE,  /* every group sleeps */
    PL_EMU_TURN_FAULT, /* a diagnostic was raised */
};

/* Make the lanes `existing` of a warp ready to execute the entry. False: no memory. */
bool pl_emu_warp_start(struct pl_emu_warp *w, const struct pl_emu_func *entry, uint32_t existing);
void pl_emu_warp_fini(struct pl_emu_warp *w);

/* Let one group of the warp execute up to n_max instructions. */
enum pl_emu_turn pl_emu_warp_turn(struct pl_emu_warp *w, uint32_t n_max);

/* Lanes that wait where their warp meets go on without the rest. False: there are none. */
bool pl_emu_warp_let_go(struct pl_emu_warp *w);

/* ---- for control executors; each leaves w->group valid ----------------------------------------------------------- */

/* Split off `lanes` of the current group to go on at `pc`; `meet` is where the two sides meet again (NULL: nowhere but the
 * return). The current group keeps the rest, which must not be empty. False: no memory, fault raised. */
bool pl_emu_group_split(struct pl_emu_warp *w, uint32_t lanes, const struct pl_emu_ins *pc,
                        const struct pl_emu_ins *meet);
/* The current group has come to its innermost join and waits there, or goes on merged when it is the last. */
void pl_emu_group_arrive(struct pl_emu_warp *w);
/* Lanes of the current group exit. The group ends when none are left. */
enum pl_emu_status pl_emu_group_exit(struct pl_emu_warp *w, uint32_t lanes);
/* Enter func with all lanes of the current group; parameters are not moved. False: fault raised. */
bool pl_emu_group_enter(struct pl_emu_warp *w, const struct pl_emu_func *func,
                        const struct pl_emu_ins *from);
/* The results of a call have been fetched: its activation may be used again. */
void pl_emu_frame_release(struct pl_emu_warp *w, struct pl_emu_frame *f);
#endif
