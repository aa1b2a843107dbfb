#ifndef PL_EMU_OPS_KERNELS_H
#define PL_EMU_OPS_KERNELS_H
/* Numbers and tables of the lane kernels (private to emu/ops/). */
#include "emu/ops.h"

enum pl_emu_kernel {
    PL_EMU_K_none,
#define KERNEL(id, ...) PL_EMU_K_##id,
#define ONCE(id, ...)   PL_EMU_K_##id,
#include "emu/ops/kernels.def"
#undef KERNEL
#undef ONCE
    PL_EMU_K_COUNT
};

struct pl_emu_kernel_info {
    const char *name;
    uint8_t d_bits, d2_bits;
    uint8_t src_bits[PL_EMU_OP_MAX_SRC];
};
extern const struct pl_emu_kernel_info pl_emu_kernel_infos[PL_EMU_K_COUNT];

struct pl_emu_kernel_fns {
    pl_emu_op_fn *full, *masked;
};
extern const struct pl_emu_kernel_fns pl_emu_kernels_base[PL_EMU_K_COUNT];
extern const struct pl_emu_kernel_fns pl_emu_kernels_avx2[PL_EMU_K_COUNT]; /* x86-64 only */

#define KERNEL(id, ...)                                                                            \
    pl_emu_op_fn pl_emu_full_##id##_base, pl_emu_masked_##id##_base, pl_emu_full_##id##_avx2,      \
        pl_emu_masked_##id##_avx2;
#define ONCE(id, ...) pl_emu_op_fn pl_emu_full_##id##_once, pl_emu_masked_##id##_once;
#include "emu/ops/kernels.def"
#undef KERNEL
#undef ONCE

#endif
