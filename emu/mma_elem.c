#include "emu/mma_elem.h"

#include "base/debug.h"
#include "base/num.h"

#include <pthread.h>
#include <string.h>

enum pl_mma_elem pl_mma_elem_of(uint8_t ptx_type)
{
    static const uint8_t elems[PL_PTX_TYPE_COUNT] = {
        [PL_PTX_TYPE_F16] = PL_MMA_F16,   [PL_PTX_TYPE_BF16] = PL_MMA_BF16,
        [PL_PTX_TYPE_TF32] = PL_MMA_TF32, [PL_PTX_TYPE_E4M3] = PL_MMA_E4M3,
        [PL_PTX_TYPE_E5M2] = PL_MMA_E5M2, [PL_PTX_TYPE_S8] = PL_MMA_S8,
        [PL_PTX_TYPE_U8] = PL_MMA_U8,     [PL_PTX_TYPE_B1] = PL_MMA_B1};
    return (enum pl_mma_elem)elems[ptx_type];
}

unsigned pl_mma_elem_bytes(enum pl_mma_elem e)
{
    return e <= PL_MMA_BF16 ? 2 : e == PL_MMA_TF32 ? 4 : 1;
}

/* fp8 by table, made on first use. */
static float fp8_values[2][256];
static pthread_once_t fp8_once = PTHREAD_ONCE_INIT;

static void make_fp8_values(void)
{
    for (unsigned code = 0; code < 256; code++) {
        fp8_values[0][code] = pl_num_to_float(PL_NUM_E4M3, code);
        fp8_values[1][code] = pl_num_to_float(PL_NUM_E5M2, code);
    }
}

static void decode_16(const uint8_t *chunk, bool is_bf16, union pl_mma_value *out)
{
    uint16_t u[8];
    memcpy(u, chunk, sizeof u);
    for (unsigned e = 0; e < 8; e++) {
        if (is_bf16)
            out[e].bits = (uint32_t)u[e] << 16;
        else
            out[e].f = pl_num_f16_to_float(u[e]);
    }
}

static void decode_32(const uint8_t *chunk, union pl_mma_value *out)
{
    uint32_t u[4];
    memcpy(u, chunk, sizeof u);
    for (unsigned e = 0; e < 4; e++)
        out[e].bits = u[e] & 0xffffe000u;
}

void pl_mma_decode(enum pl_mma_elem e, const uint8_t *chunk, bool is_negated,
                   union pl_mma_value *out)
{
    unsigned n = 16 / pl_mma_elem_bytes(e);
    switch (e) {
    case PL_MMA_F16:
    case PL_MMA_BF16: decode_16(chunk, e == PL_MMA_BF16, out); break;
    case PL_MMA_TF32: decode_32(chunk, out); break;
    case PL_MMA_E4M3:
    case PL_MMA_E5M2:
        pthread_once(&fp8_once, make_fp8_values);
        for (unsigned i = 0; i < n; i++)
            out[i].f = fp8_values[e - PL_MMA_E4M3][chunk[i]];
        break;
    case PL_MMA_S8:
        for (unsigned i = 0; i < n; i++)
            out[i].i = (int8_t)chunk[i];
        return;
    case PL_MMA_U8:
        for (unsigned i = 0; i < n; i++)
            out[i].i = chunk[i];
        return;
    case PL_MMA_B1: PL_ASSERT(0 && "bits are not decoded"); return;
    }
    for (unsigned i = 0; is_negated && i < n; i++)
        out[i].bits ^= 0x80000000u;
}
