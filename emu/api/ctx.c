/*
 * Contexts: primary ones, created ones, the stack of each thread, limits, flags, peer access.
 * Driver API reference: Primary Context Management, Context Management, Peer Context Memory Access.
 */
#include "emu/api/capture.h"
#include "emu/api/state.h"
#include "emu/api/work.h"

#include <stdlib.h>

/* ---- primary contexts ------------------------------------------------------------------------------- */

/* A primary context comes back to life with the handle that it had. */
static CUresult open_primary(struct pl_device *d)
{
    if (d->primary == NULL) {
        CUresult r = pl_ctx_create(d, d->primary_flags, &d->primary);
        if (r == CUDA_SUCCESS)
            d->primary->is_primary = true;
        return r;
    }
    if (d->primary->is_active)
        return CUDA_SUCCESS;
    d->primary->flags = d->primary_flags;
    return pl_ctx_open(d->primary) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult pl_cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
    struct pl_device *d = pl_device_find(dev);
    if (ctx == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (d == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult r = open_primary(d);
    if (r != CUDA_SUCCESS)
        return r;
    d->primary_refs++;
    *ctx = pl_obj_handle(&d->primary->obj);
    return CUDA_SUCCESS;
}

CUresult pl_cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    struct pl_device *d = pl_device_find(dev);
    if (d == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (d->primary_refs == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--d->primary_refs == 0)
        pl_ctx_close(d->primary);
    return CUDA_SUCCESS;
}

CUresult pl_cuDevicePrimaryCtxRelease(CUdevice dev) { return pl_cuDevicePrimaryCtxRelease_v2(dev); }

/* Frees what the context has; who retained it still holds it, so it is alive and empty afterwards. */
CUresult pl_cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    struct pl_device *d = pl_device_find(dev);
    if (d == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (d->primary == NULL || !d->primary->is_active)
        return CUDA_SUCCESS;
    pl_ctx_close(d->primary);
    return d->primary_refs != 0 ? open_primary(d) : CUDA_SUCCESS;
}

CUresult pl_cuDevicePrimaryCtxReset(CUdevice dev) { return pl_cuDevicePrimaryCtxReset_v2(dev); }

CUresult pl_cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
    struct pl_device *d = pl_device_find(dev);
    if (d == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if ((flags & ~0xffu) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    d->primary_flags = flags;
    if (d->primary != NULL && d->primary->is_active)
        d->primary->flags = flags;
    return CUDA_SUCCESS;
}

CUresult pl_cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
    return pl_cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

CUresult pl_cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
    struct pl_device *d = pl_device_find(dev);
    if (d == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (flags == NULL || active == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = d->primary_flags;
    *active = d->primary != NULL && d->primary->is_active;
    return CUDA_SUCCESS;
}

/* ---- the stack of a thread ------------------------------------------------------------------------------ */

static CUresult push(CUcontext handle)
{
    struct pl_thread *t = pl_thread_get();
    struct pl_context *ctx = pl_obj_find(handle, PL_OBJ_CONTEXT);
    if (ctx == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!ctx->is_active)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (t->depth == PL_CTX_STACK)
        return CUDA_ERROR_OUT_OF_MEMORY;
    t->stack[t->depth++] = handle;
    return CUDA_SUCCESS;
}

static void pop(void)
{
    struct pl_thread *t = pl_thread_get();
    t->depth--;
}

CUresult pl_cuCtxPushCurrent_v2(CUcontext ctx)
{
    CUresult r = push(ctx);
    pl_process.n_pushes += r == CUDA_SUCCESS;
    return r;
}

CUresult pl_cuCtxPopCurrent_v2(CUcontext *ctx)
{
    const struct pl_thread *t = pl_thread_get();
    if (t->depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (ctx != NULL)
        *ctx = t->stack[t->depth - 1];
    pop();
    pl_process.n_pops++;
    return CUDA_SUCCESS;
}

CUresult pl_cuCtxSetCurrent(CUcontext ctx)
{
    struct pl_thread *t = pl_thread_get();
    if (ctx == NULL) {
        if (t->depth != 0)
            pop();
        return CUDA_SUCCESS;
    }
    CUcontext old = t->depth != 0 ? t->stack[--t->depth] : NULL;
    CUresult r = push(ctx);
    if (r != CUDA_SUCCESS && old != NULL)
        t->stack[t->depth++] = old;
    return r;
}

CUresult pl_cuCtxGetCurrent(CUcontext *ctx)
{
    const struct pl_thread *t = pl_thread_get();
    if (ctx == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *ctx = t->depth == 0 ? NULL : t->stack[t->depth - 1];
    return CUDA_SUCCESS;
}

/* ---- created contexts ------------------------------------------------------------------------------------ */

CUresult pl_cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice dev)
{
    struct pl_device *d = pl_device_find(dev);
    if (ctx == NULL || (flags & ~(unsigned)0xff) != 0 || (flags & 7) == 3 || (flags & 7) > 4)
        return CUDA_ERROR_INVALID_VALUE;
    if (d == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    struct pl_context *c;
    CUresult r = pl_ctx_create(d, flags, &c);
    if (r != CUDA_SUCCESS)
        return r;
    r = push(pl_obj_handle(&c->obj));
    if (r != CUDA_SUCCESS)
        pl_ctx_destroy(c);
    else
        *ctx = pl_obj_handle(&c->obj);
    return r;
}

CUresult pl_cuCtxCreate_v3(CUcontext *ctx, CUexecAffinityParam *affinity, int n_affinity,
                           unsigned int flags, CUdevice dev)
{
    if (n_affinity < 0 || (n_affinity > 0 && affinity == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    if (n_affinity > 0)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return pl_cuCtxCreate_v2(ctx, flags, dev);
}

CUresult pl_cuCtxCreate_v4(CUcontext *ctx, CUctxCreateParams *params, unsigned int flags,
                           CUdevice dev)
{
    if (params == NULL)
        return pl_cuCtxCreate_v2(ctx, flags, dev);
    if (params->cigParams != NULL)
        return CUDA_ERROR_NOT_SUPPORTED;
    return pl_cuCtxCreate_v3(ctx, params->execAffinityParams, params->numExecAffinityParams, flags,
                             dev);
}

/* Removes it from the top of the calling thread's stack too; elsewhere its handle stays, and is found to be stale. */
CUresult pl_cuCtxDestroy_v2(CUcontext handle)
{
    struct pl_context *ctx = pl_obj_find(handle, PL_OBJ_CONTEXT);
    if (ctx == NULL || ctx->is_primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    const struct pl_thread *t = pl_thread_get();
    if (t->depth != 0 && t->stack[t->depth - 1] == handle)
        pop();
    pl_ctx_destroy(ctx);
    return CUDA_SUCCESS;
}

/* ---- queries ------------------------------------------------------------------------------------------------- */

/* NULL stands for the current context. */
static CUresult find_context(CUcontext handle, struct pl_context **out)
{
    *out = handle == NULL ? pl_ctx_current() : pl_obj_find(handle, PL_OBJ_CONTEXT);
    if (*out == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    return (*out)->is_active ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult pl_cuCtxGetDevice_v2(CUdevice *dev, CUcontext handle)
{
    struct pl_context *ctx;
    if (dev == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = find_context(handle, &ctx);
    if (r == CUDA_SUCCESS)
        *dev = ctx->device->ordinal;
    return r;
}

CUresult pl_cuCtxGetDevice(CUdevice *dev) { return pl_cuCtxGetDevice_v2(dev, NULL); }

CUresult pl_cuCtxGetFlags(unsigned int *flags)
{
    if (flags == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = pl_ctx_current()->flags;
    return CUDA_SUCCESS;
}

CUresult pl_cuCtxSetFlags(unsigned int flags)
{
    if ((flags & ~0xffu) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    pl_ctx_current()->flags = flags;
    return CUDA_SUCCESS;
}

CUresult pl_cuCtxGetId(CUcontext handle, unsigned long long *id)
{
    struct pl_context *ctx;
    if (id == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = find_context(handle, &ctx);
    if (r == CUDA_SUCCESS)
        *id = ctx->id;
    return r;
}

CUresult pl_cuCtxGetApiVersion(CUcontext handle, unsigned int *version)
{
    struct pl_context *ctx;
    if (version == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = find_context(handle, &ctx);
    if (r == CUDA_SUCCESS)
        *version = ctx->api_version;
    return r;
}

CUresult pl_cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    if (least != NULL)
        *least = 0;
    if (greatest != NULL)
        *greatest = -5;
    return CUDA_SUCCESS;
}

CUresult pl_cuCtxGetCacheConfig(CUfunc_cache *config)
{
    if (config == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *config = pl_ctx_current()->cache_config;
    return CUDA_SUCCESS;
}

CUresult pl_cuCtxSetCacheConfig(CUfunc_cache config)
{
    if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
        return CUDA_ERROR_INVALID_VALUE;
    pl_ctx_current()->cache_config = config;
    return CUDA_SUCCESS;
}

CUresult pl_cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
    if (config == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *config = CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE;
    return CUDA_SUCCESS;
}

CUresult pl_cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    return (unsigned)config > 2 ? CUDA_ERROR_INVALID_VALUE
                                : CUDA_SUCCESS; /* no effect since sm_50 */
}

CUresult pl_cuCtxResetPersistingL2Cache(void) { return CUDA_SUCCESS; }
CUresult pl_cuProfilerStart(void) { return CUDA_SUCCESS; }
CUresult pl_cuProfilerStop(void) { return CUDA_SUCCESS; }

static CUresult check_limit(CUlimit limit)
{
    if ((unsigned)limit >= PL_N_LIMITS)
        return CUDA_ERROR_INVALID_VALUE;
    return limit == CU_LIMIT_SHMEM_SIZE ? CUDA_ERROR_UNSUPPORTED_LIMIT : CUDA_SUCCESS;
}

CUresult pl_cuCtxSetLimit(CUlimit limit, size_t value)
{
    CUresult r = check_limit(limit);
    if (r == CUDA_SUCCESS)
        pl_ctx_current()->limits[limit] = value;
    return r;
}

CUresult pl_cuCtxGetLimit(size_t *value, CUlimit limit)
{
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = check_limit(limit);
    if (r == CUDA_SUCCESS)
        *value = pl_ctx_current()->limits[limit];
    return r;
}

CUresult pl_cuCtxSynchronize_v2(CUcontext handle)
{
    struct pl_context *ctx;
    CUresult r = find_context(handle, &ctx);
    if (r != CUDA_SUCCESS)
        return r;
    r = pl_capture_check_context(ctx);
    if (r != CUDA_SUCCESS)
        return r;
    pl_ctx_drain(ctx);
    return ctx->sticky;
}

CUresult pl_cuCtxSynchronize(void) { return pl_cuCtxSynchronize_v2(NULL); }

/* ---- peers: kernels reach the memory of their own device only; copies go between all ------------------ */

CUresult pl_cuDeviceCanAccessPeer(int *can, CUdevice dev, CUdevice peer)
{
    if (can == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (pl_device_find(dev) == NULL || pl_device_find(peer) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *can = 0;
    return CUDA_SUCCESS;
}

CUresult pl_cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attr, CUdevice src,
                                    CUdevice dst)
{
    if (value == NULL || attr < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
        attr > CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED)
        return CUDA_ERROR_INVALID_VALUE;
    if (pl_device_find(src) == NULL || pl_device_find(dst) == NULL || src == dst)
        return CUDA_ERROR_INVALID_DEVICE;
    *value = 0;
    return CUDA_SUCCESS;
}

CUresult pl_cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    struct pl_context *ctx = pl_obj_find(peer, PL_OBJ_CONTEXT);
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return ctx == NULL || ctx == pl_ctx_current() ? CUDA_ERROR_INVALID_CONTEXT
                                                  : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

CUresult pl_cuCtxDisablePeerAccess(CUcontext peer)
{
    struct pl_context *ctx = pl_obj_find(peer, PL_OBJ_CONTEXT);
    return ctx == NULL ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}
