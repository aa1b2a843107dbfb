/*
 * Copies and fills, synchronous and in stream order. Driver API reference: Memory Management.
 *
 * A synchronous form runs on the legacy default stream and returns when it is done; a legal, if strict, reading of what the
 * driver promises. An asynchronous one reads and writes pinned, registered and managed memory when its turn comes. Pageable memory it
 * is done with when the call returns: the source is copied then, and a copy to it is waited for. Driver API, "API synchronization
 * behavior"; programs free such memory at once.
 */
#include "emu/api/capture.h"
#include "emu/api/mem.h"

#include <stdlib.h>
#include <string.h>

/* ---- common ------------------------------------------------------------------------------------------------ */

static bool is_valid(const struct pl_copy *c)
{
    return pl_side_is_inside(&c->src, c->width_bytes, c->height, c->depth) &&
           pl_side_is_inside(&c->dst, c->width_bytes, c->height, c->depth);
}

/* Copy the source now, densely. */
static bool hold_source(struct pl_copy *c)
{
    uint8_t *to = malloc(c->width_bytes * c->height * c->depth);
    c->held = to;
    if (to == NULL)
        return false;
    for (size_t z = 0; z < c->depth; z++)
        for (size_t y = 0; y < c->height; y++, to += c->width_bytes) {
            uint64_t from = c->src.address + z * c->src.slice_bytes + y * c->src.pitch_bytes;
            memcpy(to, (const void *)(uintptr_t)from, c->width_bytes);
        }
    c->src.address = (uintptr_t)c->held;
    c->src.pitch_bytes = c->width_bytes;
    c->src.slice_bytes = c->width_bytes * c->height;
    return true;
}

static CUresult submit_copy(const struct pl_copy *c, CUstream stream, bool is_async)
{
    struct pl_stream *s;
    CUresult r = pl_stream_find(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (c->width_bytes == 0 || c->height == 0 || c->depth == 0)
        return CUDA_SUCCESS;
    if (!is_valid(c))
        return CUDA_ERROR_INVALID_VALUE;
    struct pl_work w = {.kind = PL_WORK_COPY, .copy = *c};
    bool is_captured = s->capture != NULL;
    if (!is_async || (!is_captured && pl_mem_is_pageable(c->dst.address)))
        return pl_stream_run(s, &w);
    if (!is_captured && pl_mem_is_pageable(c->src.address) && !hold_source(&w.copy))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return pl_stream_submit(s, &w, NULL, NULL);
}

static struct pl_copy line(struct pl_side dst, struct pl_side src, size_t n_bytes)
{
    return (struct pl_copy){
        .src = src, .dst = dst, .width_bytes = n_bytes, .height = 1, .depth = 1};
}

static struct pl_side host_side(const void *p) { return pl_side_of((uintptr_t)p); }

/* A pointer that a function calls a device pointer: device memory, or host memory that devices reach. */
static bool is_reachable(uint64_t address, struct pl_side *out)
{
    *out = pl_side_of(address);
    return out->device != NULL || pl_alloc_find(address) != NULL;
}

/* ---- one-dimensional ------------------------------------------------------------------------------------------ */

static CUresult copy_h2d(CUdeviceptr dst, const void *src, size_t n_bytes, CUstream stream,
                         bool is_async)
{
    struct pl_side to;
    if (n_bytes != 0 && (src == NULL || !is_reachable(dst, &to)))
        return CUDA_ERROR_INVALID_VALUE;
    if (n_bytes == 0)
        to = pl_side_of(dst);
    struct pl_copy c = line(to, host_side(src), n_bytes);
    return submit_copy(&c, stream, is_async);
}

static CUresult copy_d2h(void *dst, CUdeviceptr src, size_t n_bytes, CUstream stream, bool is_async)
{
    struct pl_side from;
    if (n_bytes != 0 && (dst == NULL || !is_reachable(src, &from)))
        return CUDA_ERROR_INVALID_VALUE;
    if (n_bytes == 0)
        from = pl_side_of(src);
    struct pl_copy c = line(host_side(dst), from, n_bytes);
    return submit_copy(&c, stream, is_async);
}

static CUresult copy_d2d(CUdeviceptr dst, CUdeviceptr src, size_t n_bytes, CUstream stream,
                         bool is_async)
{
    struct pl_side to = pl_side_of(dst), from = pl_side_of(src);
    if (n_bytes != 0 && (!is_reachable(dst, &to) || !is_reachable(src, &from)))
        return CUDA_ERROR_INVALID_VALUE;
    struct pl_copy c = line(to, from, n_bytes);
    return submit_copy(&c, stream, is_async);
}

/* Unified addressing: each pointer says itself what it is. */
static CUresult copy_any(CUdeviceptr dst, CUdeviceptr src, size_t n_bytes, CUstream stream,
                         bool is_async)
{
    if (n_bytes != 0 && (dst == 0 || src == 0))
        return CUDA_ERROR_INVALID_VALUE;
    struct pl_copy c = line(pl_side_of(dst), pl_side_of(src), n_bytes);
    return submit_copy(&c, stream, is_async);
}

CUresult pl_cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t n_bytes)
{
    return copy_h2d(dst, src, n_bytes, NULL, false);
}

CUresult pl_cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t n_bytes, CUstream stream)
{
    return copy_h2d(dst, src, n_bytes, stream, true);
}

CUresult pl_cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t n_bytes)
{
    return copy_d2h(dst, src, n_bytes, NULL, false);
}

CUresult pl_cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t n_bytes, CUstream stream)
{
    return copy_d2h(dst, src, n_bytes, stream, true);
}

CUresult pl_cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t n_bytes)
{
    return copy_d2d(dst, src, n_bytes, NULL, false);
}

CUresult pl_cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t n_bytes, CUstream stream)
{
    return copy_d2d(dst, src, n_bytes, stream, true);
}

CUresult pl_cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t n_bytes)
{
    return copy_any(dst, src, n_bytes, NULL, false);
}

CUresult pl_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n_bytes, CUstream stream)
{
    return copy_any(dst, src, n_bytes, stream, true);
}

static CUresult check_peers(CUcontext dst_ctx, CUcontext src_ctx)
{
    bool ok = pl_obj_find(dst_ctx, PL_OBJ_CONTEXT) != NULL &&
              pl_obj_find(src_ctx, PL_OBJ_CONTEXT) != NULL;
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult pl_cuMemcpyPeer(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx,
                         size_t n_bytes)
{
    CUresult r = check_peers(dst_ctx, src_ctx);
    return r != CUDA_SUCCESS ? r : copy_d2d(dst, src, n_bytes, NULL, false);
}

CUresult pl_cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
                              CUcontext src_ctx, size_t n_bytes, CUstream stream)
{
    CUresult r = check_peers(dst_ctx, src_ctx);
    return r != CUDA_SUCCESS ? r : copy_d2d(dst, src, n_bytes, stream, true);
}

/* ---- two- and three-dimensional ----------------------------------------------------------------------------------- */

/* One end of CUDA_MEMCPY3D; of CUDA_MEMCPY2D with z and lod 0. */
struct end {
    CUmemorytype type;
    const void *host;
    CUdeviceptr device;
    size_t x_bytes, y, z, lod, pitch_bytes, height;
};

static CUresult find_end(const struct end *e, const struct pl_copy *c, struct pl_side *out)
{
    uint64_t base = e->type == CU_MEMORYTYPE_HOST ? (uintptr_t)e->host : e->device;
    size_t pitch = e->pitch_bytes != 0 ? e->pitch_bytes : e->x_bytes + c->width_bytes;
    size_t height = e->height != 0 ? e->height : e->y + c->height;
    if (e->type == CU_MEMORYTYPE_ARRAY)
        return CUDA_ERROR_NOT_SUPPORTED; /* there are no arrays */
    if (e->type < CU_MEMORYTYPE_HOST || e->type > CU_MEMORYTYPE_UNIFIED || e->lod != 0 || base == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (pitch < e->x_bytes + c->width_bytes || (c->depth > 1 && height < e->y + c->height))
        return CUDA_ERROR_INVALID_VALUE;
    struct pl_side s;
    if (!is_reachable(base, &s) && e->type == CU_MEMORYTYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    s.pitch_bytes = pitch;
    s.slice_bytes = pitch * height;
    s.address = base + e->z * s.slice_bytes + e->y * pitch + e->x_bytes;
    *out = s;
    return CUDA_SUCCESS;
}

CUresult pl_copy_from_3d(const CUDA_MEMCPY3D *d, struct pl_copy *c)
{
    if (d == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *c = (struct pl_copy){.width_bytes = d->WidthInBytes, .height = d->Height, .depth = d->Depth};
    struct end src = {d->srcMemoryType, d->srcHost, d->srcDevice, d->srcXInBytes, d->srcY,
                      d->srcZ,          d->srcLOD,  d->srcPitch,  d->srcHeight};
    struct end dst = {d->dstMemoryType, d->dstHost, d->dstDevice, d->dstXInBytes, d->dstY,
                      d->dstZ,          d->dstLOD,  d->dstPitch,  d->dstHeight};
    CUresult r = find_end(&src, c, &c->src);
    if (r == CUDA_SUCCESS)
        r = find_end(&dst, c, &c->dst);
    return r == CUDA_SUCCESS && !is_valid(c) ? CUDA_ERROR_INVALID_VALUE : r;
}

static CUresult copy_3d(const CUDA_MEMCPY3D *d, CUstream stream, bool is_async)
{
    struct pl_copy c = {0};
    bool is_empty = d != NULL && (d->WidthInBytes == 0 || d->Height == 0 || d->Depth == 0);
    CUresult r = is_empty ? CUDA_SUCCESS : pl_copy_from_3d(d, &c);
    return r != CUDA_SUCCESS ? r : submit_copy(&c, stream, is_async);
}

CUresult pl_cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy) { return copy_3d(copy, NULL, false); }

CUresult pl_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream stream)
{
    return copy_3d(copy, stream, true);
}

static CUresult copy_2d(const CUDA_MEMCPY2D *d, CUstream stream, bool is_async)
{
    if (d == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D full = {
        .srcXInBytes = d->srcXInBytes,
        .srcY = d->srcY,
        .srcMemoryType = d->srcMemoryType,
        .srcHost = d->srcHost,
        .srcDevice = d->srcDevice,
        .srcPitch = d->srcPitch,
        .dstXInBytes = d->dstXInBytes,
        .dstY = d->dstY,
        .dstMemoryType = d->dstMemoryType,
        .dstHost = d->dstHost,
        .dstDevice = d->dstDevice,
        .dstPitch = d->dstPitch,
        .WidthInBytes = d->WidthInBytes,
        .Height = d->Height,
        .Depth = 1,
    };
    return copy_3d(&full, stream, is_async);
}

CUresult pl_cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy) { return copy_2d(copy, NULL, false); }
CUresult pl_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy) { return copy_2d(copy, NULL, false); }

CUresult pl_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
    return copy_2d(copy, stream, true);
}

/* ---- fills ------------------------------------------------------------------------------------------------------------ */

CUresult pl_fill_check(struct pl_fill *f)
{
    struct pl_side s;
    if (f->elem_bytes != 1 && f->elem_bytes != 2 && f->elem_bytes != 4)
        return CUDA_ERROR_INVALID_VALUE;
    if (f->address % f->elem_bytes != 0 || f->width_elems > SIZE_MAX / f->elem_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    size_t width_bytes = f->width_elems * f->elem_bytes;
    if (width_bytes == 0 || f->height == 0)
        return CUDA_SUCCESS;
    if (f->height > 1 && (f->pitch_bytes < width_bytes || f->pitch_bytes % f->elem_bytes != 0))
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_reachable(f->address, &s))
        return CUDA_ERROR_INVALID_VALUE;
    s.pitch_bytes = f->pitch_bytes;
    f->device = s.device;
    return pl_side_is_inside(&s, width_bytes, f->height, 1) ? CUDA_SUCCESS
                                                            : CUDA_ERROR_INVALID_VALUE;
}

/* Both forms are in stream order; the one without a stream uses the default stream, and may return before it is done. */
static CUresult fill(struct pl_fill f, CUstream stream)
{
    struct pl_stream *s;
    CUresult r = pl_stream_find(stream, &s);
    if (r == CUDA_SUCCESS)
        r = pl_fill_check(&f);
    if (r != CUDA_SUCCESS || f.width_elems == 0 || f.height == 0)
        return r;
    struct pl_work w = {.kind = PL_WORK_FILL, .fill = f};
    return pl_stream_submit(s, &w, NULL, NULL);
}

static struct pl_fill row(CUdeviceptr dst, uint32_t value, uint32_t elem_bytes, size_t n_elems)
{
    return (struct pl_fill){.address = dst,
                            .width_elems = n_elems,
                            .height = 1,
                            .value = value,
                            .elem_bytes = elem_bytes};
}

CUresult pl_cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t n_elems)
{
    return fill(row(dst, value, 1, n_elems), NULL);
}

CUresult pl_cuMemsetD16_v2(CUdeviceptr dst, unsigned short value, size_t n_elems)
{
    return fill(row(dst, value, 2, n_elems), NULL);
}

CUresult pl_cuMemsetD32_v2(CUdeviceptr dst, unsigned int value, size_t n_elems)
{
    return fill(row(dst, value, 4, n_elems), NULL);
}

CUresult pl_cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n_elems, CUstream stream)
{
    return fill(row(dst, value, 1, n_elems), stream);
}

CUresult pl_cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t n_elems, CUstream stream)
{
    return fill(row(dst, value, 2, n_elems), stream);
}

CUresult pl_cuMemsetD32Async(CUdeviceptr dst, unsigned int value, size_t n_elems, CUstream stream)
{
    return fill(row(dst, value, 4, n_elems), stream);
}

static struct pl_fill rows(struct pl_fill one, size_t pitch_bytes, size_t height)
{
    one.pitch_bytes = pitch_bytes;
    one.height = height;
    return one;
}

CUresult pl_cuMemsetD2D8_v2(CUdeviceptr dst, size_t pitch_bytes, unsigned char value,
                            size_t width_elems, size_t height)
{
    return fill(rows(row(dst, value, 1, width_elems), pitch_bytes, height), NULL);
}

CUresult pl_cuMemsetD2D16_v2(CUdeviceptr dst, size_t pitch_bytes, unsigned short value,
                             size_t width_elems, size_t height)
{
    return fill(rows(row(dst, value, 2, width_elems), pitch_bytes, height), NULL);
}

CUresult pl_cuMemsetD2D32_v2(CUdeviceptr dst, size_t pitch_bytes, unsigned int value,
                             size_t width_elems, size_t height)
{
    return fill(rows(row(dst, value, 4, width_elems), pitch_bytes, height), NULL);
}

CUresult pl_cuMemsetD2D8Async(CUdeviceptr dst, size_t pitch_bytes, unsigned char value,
                              size_t width_elems, size_t height, CUstream stream)
{
    return fill(rows(row(dst, value, 1, width_elems), pitch_bytes, height), stream);
}

CUresult pl_cuMemsetD2D16Async(CUdeviceptr dst, size_t pitch_bytes, unsigned short value,
                               size_t width_elems, size_t height, CUstream stream)
{
    return fill(rows(row(dst, value, 2, width_elems), pitch_bytes, height), stream);
}

CUresult pl_cuMemsetD2D32Async(CUdeviceptr dst, size_t pitch_bytes, unsigned int value,
                               size_t width_elems, size_t height, CUstream stream)
{
    return fill(rows(row(dst, value, 4, width_elems), pitch_bytes, height), stream);
}
