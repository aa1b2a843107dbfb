#ifndef PL_EMU_OPS_CONVERT_H
#define PL_EMU_OPS_CONVERT_H
/* How the types of a cvt stand in struct pl_emu_mode: a float is its enum pl_num_fmt, an integer is coded here. */
#include "emu/ops/mode.h"

enum {
    PL_EMU_CVT_INT = 0x80,
    PL_EMU_CVT_SIGNED = 0x40,
    PL_EMU_CVT_BYTES = 0x0f, /* 1, 2, 4, 8 */
};

/* mode.extra: log2 of the bytes of the destination's container in bits 0-1, of the source's in bits 2-3 (1 to 3) */
enum {
    PL_EMU_CVT_INTEGRAL =
        0x10 /* round to an integral value: .rni .rzi .rmi .rpi of float to float */
};

static inline unsigned pl_emu_cvt_bits(uint8_t type) { return 8u * (type & PL_EMU_CVT_BYTES); }

#endif
