/*
 * Memory pools and allocation in stream order. Driver API reference: Stream Ordered Memory Allocator.
 */
#include "emu/api/capture.h"
#include "emu/api/graph.h"
#include "emu/api/mem.h"

#include <stdlib.h>
#include <string.h>

static struct pl_pool *all_pools;

static void put_bytes(void *value, uint64_t n_bytes) { memcpy(value, &n_bytes, sizeof n_bytes); }

static struct pl_pool *create_pool(struct pl_device *d)
{
    struct pl_pool *p = calloc(1, sizeof *p);
    if (p == NULL || !pl_obj_add(&p->obj, PL_OBJ_POOL)) {
        free(p);
        return NULL;
    }
    p->device = d;
    p->reuse[0] = p->reuse[1] = p->reuse[2] = 1;
    p->next = all_pools;
    all_pools = p;
    return p;
}

static struct pl_pool *default_pool(struct pl_device *d)
{
    if (d->default_pool == NULL) {
        d->default_pool = create_pool(d);
        if (d->default_pool != NULL)
            d->default_pool->is_default = true;
    }
    return d->default_pool;
}

static struct pl_pool *current_pool(struct pl_device *d)
{
    return d->pool != NULL && !d->pool->is_dead ? d->pool : default_pool(d);
}

void pl_pool_reset(void)
{
    while (all_pools != NULL) {
        struct pl_pool *p = all_pools;
        all_pools = p->next;
        pl_obj_remove(&p->obj);
        free(p);
    }
}

static CUresult give_pool(CUdevice dev, CUmemoryPool *out,
                          struct pl_pool *(*of)(struct pl_device *))
{
    struct pl_device *d = pl_device_find(dev);
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (d == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    struct pl_pool *p = of(d);
    if (p == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = pl_obj_handle(&p->obj);
    return CUDA_SUCCESS;
}

CUresult pl_cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice dev)
{
    return give_pool(dev, pool, default_pool);
}

CUresult pl_cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    return give_pool(dev, pool, current_pool);
}

CUresult pl_cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    struct pl_device *d = pl_device_find(dev);
    struct pl_pool *p = pl_obj_find(pool, PL_OBJ_POOL);
    if (d == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (p == NULL || p->device != d)
        return CUDA_ERROR_INVALID_VALUE;
    d->pool = p;
    return CUDA_SUCCESS;
}

CUresult pl_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
    if (pool == NULL || props == NULL || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (props->handleTypes != 0 || props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct pl_device *d = pl_device_find(props->location.id);
    if (d == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    struct pl_pool *p = create_pool(d);
    if (p == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *pool = pl_obj_handle(&p->obj);
    return CUDA_SUCCESS;
}

/* Allocations outlive the handle of their pool; the structure lives on with them. */
CUresult pl_cuMemPoolDestroy(CUmemoryPool pool)
{
    struct pl_pool *p = pl_obj_find(pool, PL_OBJ_POOL);
    if (p == NULL || p->is_default)
        return CUDA_ERROR_INVALID_VALUE;
    pl_obj_remove(&p->obj);
    p->is_dead = true;
    return CUDA_SUCCESS;
}

CUresult pl_cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes)
{
    (void)keep_bytes; /* nothing is kept beyond what is used */
    return pl_obj_find(pool, PL_OBJ_POOL) != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult pl_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    struct pl_pool *p = pl_obj_find(pool, PL_OBJ_POOL);
    if (p == NULL || value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        memcpy(&p->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES], value,
               sizeof(int));
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        memcpy(&p->release_threshold, value, sizeof(uint64_t));
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: /* set back, to 0 only */
        if (memcmp(value, &(uint64_t){0}, sizeof(uint64_t)) != 0)
            return CUDA_ERROR_INVALID_VALUE;
        p->used_high_bytes = p->used_bytes;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: break;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult pl_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    const struct pl_pool *p = pl_obj_find(pool, PL_OBJ_POOL);
    if (p == NULL || value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        memcpy(value, &p->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES],
               sizeof(int));
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        return put_bytes(value, p->release_threshold), CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: return put_bytes(value, p->used_bytes), CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: return put_bytes(value, p->used_high_bytes), CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult pl_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    const struct pl_pool *p = pl_obj_find(pool, PL_OBJ_POOL);
    if (p == NULL || (map == NULL && count != 0))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            pl_device_find(map[i].location.id) == NULL)
            return CUDA_ERROR_INVALID_DEVICE;
        if (map[i].location.id != p->device->ordinal)
            return CUDA_ERROR_INVALID_VALUE; /* devices do not reach each other's memory */
    }
    return CUDA_SUCCESS;
}

CUresult pl_cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
    const struct pl_pool *p = pl_obj_find(pool, PL_OBJ_POOL);
    if (p == NULL || flags == NULL || location == NULL ||
        location->type != CU_MEM_LOCATION_TYPE_DEVICE || pl_device_find(location->id) == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = location->id == p->device->ordinal ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

/* In a capture: an allocation node. */
static CUresult capture_alloc(CUdeviceptr *ptr, size_t n_bytes, struct pl_stream *s)
{
    struct pl_work w;
    CUresult r = pl_work_from_alloc(s->ctx, n_bytes, &w);
    if (r != CUDA_SUCCESS)
        return pl_capture_invalidate(s->capture, r);
    uint64_t address = w.graph_memory->address;
    r = pl_capture_add(s, &w);
    pl_work_fini(&w);
    if (r == CUDA_SUCCESS)
        *ptr = address;
    return r;
}

/* A free node, of the memory of an allocation node. */
static CUresult capture_free(CUdeviceptr ptr, struct pl_stream *s)
{
    struct pl_work w;
    CUresult r = pl_work_from_free(ptr, &w);
    if (r != CUDA_SUCCESS)
        return pl_capture_invalidate(s->capture, r);
    r = pl_capture_add(s, &w);
    pl_work_fini(&w);
    return r;
}

/* The address is there at once; only the right to use it is in stream order. */
static CUresult alloc_async(CUdeviceptr *ptr, size_t n_bytes, struct pl_pool *pool,
                            struct pl_stream *s)
{
    CUresult r = pl_ctx_check(s->ctx);
    if (r == CUDA_SUCCESS && s->capture != NULL)
        return capture_alloc(ptr, n_bytes, s);
    if (r == CUDA_SUCCESS)
        r = pl_mem_alloc(s->ctx, n_bytes, pool, ptr);
    if (r != CUDA_SUCCESS)
        return r;
    pool->used_bytes += n_bytes;
    if (pool->used_bytes > pool->used_high_bytes)
        pool->used_high_bytes = pool->used_bytes;
    return CUDA_SUCCESS;
}

CUresult pl_cuMemAllocAsync(CUdeviceptr *ptr, size_t n_bytes, CUstream stream)
{
    struct pl_stream *s;
    CUresult r = pl_stream_find(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    struct pl_pool *pool = current_pool(s->ctx->device);
    if (ptr == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return pool == NULL ? CUDA_ERROR_OUT_OF_MEMORY : alloc_async(ptr, n_bytes, pool, s);
}

CUresult pl_cuMemAllocFromPoolAsync(CUdeviceptr *ptr, size_t n_bytes, CUmemoryPool pool,
                                    CUstream stream)
{
    struct pl_stream *s;
    CUresult r = pl_stream_find(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    struct pl_pool *p = pl_obj_find(pool, PL_OBJ_POOL);
    if (ptr == NULL || p == NULL || p->device != s->ctx->device)
        return CUDA_ERROR_INVALID_VALUE;
    return alloc_async(ptr, n_bytes, p, s);
}

CUresult pl_cuMemFreeAsync(CUdeviceptr ptr, CUstream stream)
{
    struct pl_stream *s;
    CUresult r = pl_stream_find(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    const struct pl_alloc *a = pl_alloc_start(ptr);
    if (a == NULL || a->kind > PL_ALLOC_POOL)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->capture != NULL)
        return capture_free(ptr, s);
    if (a->graph != NULL) /* the memory is the graph's; the next launch may give it out again */
        return pl_graph_memory_free(a->graph);
    struct pl_work w = {.kind = PL_WORK_FREE, .free_address = ptr};
    return pl_stream_submit(s, &w, NULL, NULL);
}
