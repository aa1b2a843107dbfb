#ifndef PL_EMU_MMA_DESC_H
#define PL_EMU_MMA_DESC_H
/*
 * Operands of wgmma and tcgen05.mma in shared memory: the 64-bit matrix descriptor and where each element is.
 *
 * PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions: Matrix Descriptor Format", "Strides", "Shared Memory Matrix
 * Layout". Element (i, k), i along M or N, es bytes each, T = 16 / es, W = bytes of the swizzle; offset from the start address,
 * then the swizzle's XOR on the absolute address:
 *   K-major   none   (i % 8) * 16 + (i / 8) * SBO + (k % T) * es + (k / T) * LBO
 *             W      (i % 8) * W + (i / 8) * SBO + k * es
 *   MN-major  none   (i % T) * es + (i / T) * SBO + (k % 8) * 16 + (k / 8) * LBO
 *             W      (i % (W / es)) * es + (i / (W / es)) * LBO + (k % 8) * W + (k / 8) * SBO
 */
#include <stdbool.h>
#include <stdint.h>

struct pl_mma_desc {
    uint32_t start, lbo_bytes, sbo_bytes; /* start: shared address */
    uint8_t base_offset;
    uint8_t swizzle_bytes; /* 0, 32, 64, 128 */
};

static inline struct pl_mma_desc pl_mma_desc_of_wgmma(uint64_t bits)
{
    static const uint8_t swizzles[4] = {0, 128, 64, 32};
    return (struct pl_mma_desc){.start = (uint32_t)(bits & 0x3fff) << 4,
                                .lbo_bytes = (uint32_t)(bits >> 16 & 0x3fff) << 4,
                                .sbo_bytes = (uint32_t)(bits >> 32 & 0x3fff) << 4,
                                .base_offset = bits >> 49 & 7,
                                .swizzle_bytes = swizzles[bits >> 62]};
}

static inline uint32_t pl_mma_swizzle(uint32_t address, uint8_t swizzle_bytes)
{
    uint32_t rows = swizzle_bytes == 128  ? 0x380
                    : swizzle_bytes == 64 ? 0x180
                    : swizzle_bytes == 32 ? 0x080
                                          : 0;
    return address ^ (address & rows) >> 3;
}

/* Shared address of element (i, k). */
static inline uint32_t pl_mma_address(const struct pl_mma_desc *d, bool is_mn_major, uint32_t es,
                                      uint32_t i, uint32_t k)
{
    uint32_t t = 16 / es, w = d->swizzle_bytes, offset;
    if (!is_mn_major)
        offset = w == 0 ? i % 8 * 16 + i / 8 * d->sbo_bytes + k % t * es + k / t * d->lbo_bytes
                        : i % 8 * w + i / 8 * d->sbo_bytes + k * es;
    else
        offset = w == 0 ? i % t * es + i / t * d->sbo_bytes + k % 8 * 16 + k / 8 * d->lbo_bytes
                        : i % (w / es) * es + i / (w / es) * d->lbo_bytes + k % 8 * w +
                              k / 8 * d->sbo_bytes;
    return pl_mma_swizzle(d->start + offset, d->swizzle_bytes);
}

#endif
