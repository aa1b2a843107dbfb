#include "emu/ops/kernels.h"

#include "emu/ops/lanes.h"

const uint32_t pl_emu_lane_bit[32] __attribute__((aligned(64))) = {
    1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,  1u << 7,
    1u << 8,  1u << 9,  1u << 10, 1u << 11, 1u << 12, 1u << 13, 1u << 14, 1u << 15,
    1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20, 1u << 21, 1u << 22, 1u << 23,
    1u << 24, 1u << 25, 1u << 26, 1u << 27, 1u << 28, 1u << 29, 1u << 30, 1u << 31};

#define TWICE(i) 1u << (i), 1u << (i)
const uint32_t pl_emu_pair_bit[64] __attribute__((aligned(64))) = {
    TWICE(0),  TWICE(1),  TWICE(2),  TWICE(3),  TWICE(4),  TWICE(5),  TWICE(6),  TWICE(7),
    TWICE(8),  TWICE(9),  TWICE(10), TWICE(11), TWICE(12), TWICE(13), TWICE(14), TWICE(15),
    TWICE(16), TWICE(17), TWICE(18), TWICE(19), TWICE(20), TWICE(21), TWICE(22), TWICE(23),
    TWICE(24), TWICE(25), TWICE(26), TWICE(27), TWICE(28), TWICE(29), TWICE(30), TWICE(31)};

const struct pl_emu_kernel_info pl_emu_kernel_infos[PL_EMU_K_COUNT] = {
    [PL_EMU_K_none] = {"none", 0, 0, {0}},
#define KERNEL(id, d, d2, ...) [PL_EMU_K_##id] = {#id, d, d2, {__VA_ARGS__}},
#define ONCE(id, d, d2, ...)   [PL_EMU_K_##id] = {#id, d, d2, {__VA_ARGS__}},
#include "emu/ops/kernels.def"
#undef KERNEL
#undef ONCE
};

#define ONCE(id, ...) [PL_EMU_K_##id] = {pl_emu_full_##id##_once, pl_emu_masked_##id##_once},

const struct pl_emu_kernel_fns pl_emu_kernels_base[PL_EMU_K_COUNT] = {
#define KERNEL(id, ...) [PL_EMU_K_##id] = {pl_emu_full_##id##_base, pl_emu_masked_##id##_base},
#include "emu/ops/kernels.def"
#undef KERNEL
};

#ifdef PL_HOST_X86_64
const struct pl_emu_kernel_fns pl_emu_kernels_avx2[PL_EMU_K_COUNT] = {
#define KERNEL(id, ...) [PL_EMU_K_##id] = {pl_emu_full_##id##_avx2, pl_emu_masked_##id##_avx2},
#include "emu/ops/kernels.def"
#undef KERNEL
};
#endif
