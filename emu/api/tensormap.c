/*
 * Tensor maps. Driver API reference: Tensor Map Object Management. The rules and the image are emu/tensormap.h's.
 */
#include "emu/tensormap.h"
#include "emu/api/diag.h"
#include "emu/api/state.h"

#include <string.h>

/* What the three encoders share. */
struct common {
    CUtensorMapDataType type;
    cuuint32_t rank;
    void *address;
    const cuuint64_t *dims, *strides_bytes;
    const cuuint32_t *elem_strides;
    CUtensorMapInterleave interleave;
    CUtensorMapSwizzle swizzle;
    CUtensorMapL2promotion l2;
    CUtensorMapFloatOOBfill fill;
};

/* False when a pointer that the rank needs is NULL. A rank out of range is found by the encoder, and reads nothing here. */
static bool fill_map(struct pl_tensormap *m, const struct common *c)
{
    *m = (struct pl_tensormap){.type = (uint32_t)c->type,
                               .rank = c->rank,
                               .address = (uintptr_t)c->address,
                               .interleave = (uint32_t)c->interleave,
                               .swizzle = (uint32_t)c->swizzle,
                               .l2_promotion = (uint32_t)c->l2,
                               .fill = (uint32_t)c->fill};
    if (c->rank < 1 || c->rank > PL_TMAP_MAX_RANK)
        return true;
    if (c->dims == NULL || c->elem_strides == NULL || (c->rank > 1 && c->strides_bytes == NULL))
        return false;
    for (cuuint32_t i = 0; i < c->rank; i++) {
        m->dims[i] = c->dims[i];
        m->elem_strides[i] = c->elem_strides[i];
        if (i != 0)
            m->strides_bytes[i] = c->strides_bytes[i - 1];
    }
    return true;
}

static CUresult encode(CUtensorMap *map, const struct pl_tensormap *m)
{
    struct pl_tmap_request request = {.map = *m, .image_address = (uintptr_t)map};
    struct pl_say say;
    char text[1000];
    uint8_t image[PL_TMAP_N_BYTES];
    pl_say_init(&say);
    bool ok = pl_tensormap_encode(&request, &say.diags, image);
    pl_say_finish(&say, text, sizeof text);
    if (!ok) {
        pl_process_note(text);
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(map, image, sizeof image);
    return CUDA_SUCCESS;
}

/* Chips before sm_90 have no tensor maps. Without a current context the first device decides. */
static CUresult check_device(const CUtensorMap *map)
{
    const struct pl_context *ctx = pl_ctx_current();
    const struct pl_chip *chip =
        ctx != NULL && ctx->is_active ? ctx->device->chip : pl_process.devices[0].chip;
    if (map == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return chip->major < 9 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

CUresult pl_cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                   void *address, const cuuint64_t *dims,
                                   const cuuint64_t *strides_bytes, const cuuint32_t *box,
                                   const cuuint32_t *elem_strides, CUtensorMapInterleave interleave,
                                   CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2,
                                   CUtensorMapFloatOOBfill fill)
{
    struct common c = {type,         rank,       address, dims, strides_bytes,
                       elem_strides, interleave, swizzle, l2,   fill};
    struct pl_tensormap m;
    CUresult r = check_device(map);
    if (r != CUDA_SUCCESS)
        return r;
    if (!fill_map(&m, &c) || box == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    m.mode = PL_TMAP_TILED;
    for (cuuint32_t i = 0; rank <= PL_TMAP_MAX_RANK && i < rank; i++)
        m.box[i] = box[i];
    return encode(map, &m);
}

CUresult pl_cuTensorMapEncodeIm2col(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                    void *address, const cuuint64_t *dims,
                                    const cuuint64_t *strides_bytes, const int *lower,
                                    const int *upper, cuuint32_t n_channels, cuuint32_t n_pixels,
                                    const cuuint32_t *elem_strides,
                                    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                    CUtensorMapL2promotion l2, CUtensorMapFloatOOBfill fill)
{
    struct common c = {type,         rank,       address, dims, strides_bytes,
                       elem_strides, interleave, swizzle, l2,   fill};
    struct pl_tensormap m;
    CUresult r = check_device(map);
    if (r != CUDA_SUCCESS)
        return r;
    if (!fill_map(&m, &c) || lower == NULL || upper == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    m.mode = PL_TMAP_IM2COL;
    m.n_channels = n_channels;
    m.n_pixels = n_pixels;
    for (cuuint32_t i = 0; rank <= PL_TMAP_MAX_RANK && i + 2 < rank; i++) { /* without C and N */
        m.lower[i] = lower[i];
        m.upper[i] = upper[i];
    }
    return encode(map, &m);
}

CUresult pl_cuTensorMapEncodeIm2colWide(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                        void *address, const cuuint64_t *dims,
                                        const cuuint64_t *strides_bytes, int lower, int upper,
                                        cuuint32_t n_channels, cuuint32_t n_pixels,
                                        const cuuint32_t *elem_strides,
                                        CUtensorMapInterleave interleave,
                                        CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle,
                                        CUtensorMapL2promotion l2, CUtensorMapFloatOOBfill fill)
{
    struct common c = {type,         rank,       address, dims, strides_bytes,
                       elem_strides, interleave, swizzle, l2,   fill};
    struct pl_tensormap m;
    CUresult r = check_device(map);
    if (r != CUDA_SUCCESS)
        return r;
    if (!fill_map(&m, &c) || (unsigned)mode > CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128)
        return CUDA_ERROR_INVALID_VALUE;
    m.mode = mode == CU_TENSOR_MAP_IM2COL_WIDE_MODE_W ? PL_TMAP_IM2COL_W : PL_TMAP_IM2COL_W128;
    m.n_channels = n_channels;
    m.n_pixels = n_pixels;
    m.lower[0] = lower;
    m.upper[0] = upper;
    return encode(map, &m);
}

CUresult pl_cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
    struct pl_tensormap m;
    CUresult r = check_device(map);
    if (r != CUDA_SUCCESS)
        return r;
    uint8_t image[PL_TMAP_N_BYTES];
    memcpy(image, map, sizeof image);
    if (!pl_tensormap_unpack(image, &m))
        return CUDA_ERROR_INVALID_VALUE; /* no encoder wrote this */
    m.address = (uintptr_t)address;
    return encode(map, &m);
}
