#ifndef PL_EMU_OPS_MODE_H
#define PL_EMU_OPS_MODE_H
/*
 * The modes of one scalar instruction as its kernel reads them: opx.imm is this struct's eight bytes (private to
 * emu/ops/). A kernel uses the members that its operation has; select fills the others with 0.
 */
#include "base/num.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

enum pl_emu_mode_flag {
    PL_EMU_M_FTZ = 1 << 0,
    PL_EMU_M_SAT = 1 << 1, /* integers: clamp to the type; floats: to [+0, 1] */
    PL_EMU_M_RELU = 1 << 2,
    PL_EMU_M_SATFINITE = 1 << 3,
    PL_EMU_M_NAN = 1 << 4, /* min, max: a NaN operand is the result */
    PL_EMU_M_ABS = 1 << 5,
    PL_EMU_M_XORSIGN = 1 << 6,
    PL_EMU_M_OOB = 1 << 7,
    PL_EMU_M_NOT_C = 1 << 8,  /* the predicate source is negated */
    PL_EMU_M_CC_OUT = 1 << 9, /* write CC.CF */
    PL_EMU_M_CC_IN = 1 << 10, /* read CC.CF */
    PL_EMU_M_SIGNED = 1 << 11,
    PL_EMU_M_B_SIGNED = 1 << 12, /* of the second source, where it has a type of its own */
    PL_EMU_M_HI = 1 << 13,
    PL_EMU_M_WRAP = 1 << 14, /* shift amounts modulo the width; otherwise clamped to it */
    PL_EMU_M_LEFT = 1 << 15,
};

/* Which outcomes of a comparison make it true. */
enum pl_emu_accept { PL_EMU_LT = 1, PL_EMU_EQ = 2, PL_EMU_GT = 4, PL_EMU_UN = 8 };

enum pl_emu_bool { PL_EMU_BOOL_NONE, PL_EMU_BOOL_AND, PL_EMU_BOOL_OR, PL_EMU_BOOL_XOR };

/* What set writes for true (mode.to). */
enum pl_emu_true { PL_EMU_TRUE_ONES, PL_EMU_TRUE_F32, PL_EMU_TRUE_F16, PL_EMU_TRUE_BF16 };

enum pl_emu_testp {
    PL_EMU_TESTP_FINITE,
    PL_EMU_TESTP_INFINITE,
    PL_EMU_TESTP_NUMBER,
    PL_EMU_TESTP_NOTANUMBER,
    PL_EMU_TESTP_NORMAL,
    PL_EMU_TESTP_SUBNORMAL,
};

/* min_max: m.extra is the number of operands. */
enum pl_emu_min_max { PL_EMU_MIN, PL_EMU_MAX };

enum pl_emu_video {
    PL_EMU_VADD,
    PL_EMU_VSUB,
    PL_EMU_VABSDIFF,
    PL_EMU_VMIN,
    PL_EMU_VMAX,
    PL_EMU_VSHL,
    PL_EMU_VSHR,
    PL_EMU_VAVRG,
    PL_EMU_VSET,
    PL_EMU_VMAD,
};

enum pl_emu_video_second {
    PL_EMU_VSECOND_NONE,
    PL_EMU_VSECOND_ADD,
    PL_EMU_VSECOND_MIN,
    PL_EMU_VSECOND_MAX
};

/*
 * Video instructions have more to say: their immediate is this. Parts of a and b: in the scalar form one of the operand, of 32 >>
 * width bits; in the SIMD form n_parts of the parts of {b, a}, 3 bits each. d: the scalar form writes that part of c (width), the
 * SIMD form those parts that the mask names.
 */
struct pl_emu_video_mode {
    unsigned op : 4, second : 2, n_parts : 3, accept : 3, shift : 4;
    unsigned is_signed : 1, is_sat : 1, is_wrap : 1, a_signed : 1, b_signed : 1;
    unsigned is_plus_one : 1, is_product_negated : 1, is_c_negated : 1;
    unsigned d : 4, d_width : 2;
    unsigned a : 12, b : 12, a_width : 2, b_width : 2;
};
static_assert(sizeof(struct pl_emu_video_mode) == sizeof(uint64_t), "as the other mode");

enum pl_emu_carry { PL_EMU_CARRY_ADD, PL_EMU_CARRY_SUB, PL_EMU_CARRY_MAD };

struct pl_emu_mode {
    uint8_t round; /* enum pl_num_round */
    uint8_t
        op; /* which operation, for kernels that serve several; enum pl_emu_accept of a comparison */
    uint8_t to;     /* number format or integer bits of the destination */
    uint8_t from;   /* of the source */
    uint16_t flags; /* enum pl_emu_mode_flag */
    uint8_t n;      /* packed elements in a register: 1, 2, 4 */
    uint8_t extra;  /* enum pl_emu_bool, lop3 table, … */
};
static_assert(sizeof(struct pl_emu_mode) == sizeof(uint64_t), "a mode is the 64-bit immediate");

static inline struct pl_emu_mode pl_emu_mode_of(uint64_t imm)
{
    struct pl_emu_mode m;
    memcpy(&m, &imm, sizeof m);
    return m;
}

static inline uint64_t pl_emu_mode_imm(struct pl_emu_mode m)
{
    uint64_t imm;
    memcpy(&imm, &m, sizeof imm);
    return imm;
}

#endif
