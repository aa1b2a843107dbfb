/*
 * The conversions that real programs run often; levels base and avx2. All others are in emu/ops/convert.c.
 * PTX ISA, "Data Movement and Conversion Instructions: cvt".
 */
#include "emu/ops/float.h"

static inline uint16_t relu16(uint16_t r) { return r & 0x8000 ? 0 : r; }

KERNEL1(cvt_f16_f32, uint16_t, uint32_t, f32_to_f16(A))
KERNEL1(cvt_bf16_f32, uint16_t, uint32_t, f32_to_bf16(A))
KERNEL2(cvt_f16x2_f32, uint32_t, uint32_t, uint32_t, (uint32_t)f32_to_f16(A) << 16 | f32_to_f16(B))
KERNEL2(cvt_bf16x2_f32, uint32_t, uint32_t, uint32_t,
        (uint32_t)f32_to_bf16(A) << 16 | f32_to_bf16(B))
KERNEL2(cvt_relu_f16x2_f32, uint32_t, uint32_t, uint32_t,
        (uint32_t)relu16(f32_to_f16(A)) << 16 | relu16(f32_to_f16(B)))
KERNEL2(cvt_relu_bf16x2_f32, uint32_t, uint32_t, uint32_t,
        (uint32_t)relu16(f32_to_bf16(A)) << 16 | relu16(f32_to_bf16(B)))
KERNEL1(cvt_f32_f16, uint32_t, uint16_t, f32_canonical(f16_to_f32(A)))
KERNEL1(cvt_f32_bf16, uint32_t, uint16_t, bf16_to_f32(A)) /* a shift: NaN payloads stay */
KERNEL1(cvt_f64_f32, uint64_t, uint32_t, f64_bits((double)f32_of(A)))
KERNEL1(cvt_f32_f64, uint32_t, uint64_t, f32_bits((float)f64_of(A)))
KERNEL1(cvt_f32_s32, uint32_t, int32_t, f32_bits((float)A))
KERNEL1(cvt_f32_u32, uint32_t, uint32_t, f32_bits((float)A))
KERNEL1(cvt_f64_s32, uint64_t, int32_t, f64_bits((double)A))
KERNEL1(cvt_f64_u32, uint64_t, uint32_t, f64_bits((double)A))
KERNEL1(cvt_sat_f32_f32, uint32_t, uint32_t, f32_sat(A))

/*
 * f32 to s32: the float is rounded to an integral value in double, then clamped; NaN gives 0. Adding and taking away 1.5 * 2^52
 * rounds to nearest even, and one step back corrects for the other modes.
 */
static inline double nearest(double v) { return (v + 0x1.8p52) - 0x1.8p52; }
static inline double integral(double v, uint8_t round)
{
    const double n = nearest(v);
    const double low = n > v ? n - 1.0 : n, high = n < v ? n + 1.0 : n;
    const double zero = v < 0.0 ? high : low;
    return round == PL_NUM_RN ? n : round == PL_NUM_RZ ? zero : round == PL_NUM_RM ? low : high;
}

static inline uint32_t f32_to_s32(uint32_t u, uint8_t round)
{
    double v = (double)f32_of(u);
    v = v != v ? 0.0 : v;
    v = v < -0x1p31 ? -0x1p31 : v;
    v = v > 0x1p31 - 1.0 ? 0x1p31 - 1.0 : v;
    return (uint32_t)(int32_t)integral(v, round);
}

KERNEL1(cvt_rni_s32_f32, uint32_t, uint32_t, f32_to_s32(A, PL_NUM_RN))
KERNEL1(cvt_rzi_s32_f32, uint32_t, uint32_t, f32_to_s32(A, PL_NUM_RZ))
KERNEL1(cvt_rmi_s32_f32, uint32_t, uint32_t, f32_to_s32(A, PL_NUM_RM))
KERNEL1(cvt_rpi_s32_f32, uint32_t, uint32_t, f32_to_s32(A, PL_NUM_RP))
