/*
 * Forms of functions that a newer one has replaced: a program that looks its symbols up by name, or was built with an older
 * toolkit, still calls them. Source: CUDA Driver API reference of the release that had them; signatures: cudaTypedefs.h.
 */
#include "emu/api/module.h"

#include <stdlib.h>
#include <string.h>

CUresult pl_cuCtxCreate(CUcontext *ctx, unsigned int flags, CUdevice dev)
{
    return pl_cuCtxCreate_v2(ctx, flags, dev);
}

CUresult pl_cuCtxDestroy(CUcontext ctx) { return pl_cuCtxDestroy_v2(ctx); }
CUresult pl_cuCtxPushCurrent(CUcontext ctx) { return pl_cuCtxPushCurrent_v2(ctx); }
CUresult pl_cuCtxPopCurrent(CUcontext *ctx) { return pl_cuCtxPopCurrent_v2(ctx); }

/* A context has one use from its creation; the detach of the last one destroys it. */
CUresult pl_cuCtxAttach(CUcontext *ctx, unsigned int flags)
{
    if (ctx == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = pl_cuCtxGetCurrent(ctx);
    if (r == CUDA_SUCCESS)
        pl_ctx_current()->n_attached++;
    return r;
}

CUresult pl_cuCtxDetach(CUcontext handle)
{
    struct pl_context *ctx = pl_obj_find(handle, PL_OBJ_CONTEXT);
    CUcontext current;
    if (ctx == NULL || pl_cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != handle)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (ctx->n_attached == 0)
        return pl_cuCtxDestroy_v2(handle);
    ctx->n_attached--;
    return CUDA_SUCCESS;
}

CUresult pl_cuStreamDestroy(CUstream stream) { return pl_cuStreamDestroy_v2(stream); }
CUresult pl_cuEventDestroy(CUevent event) { return pl_cuEventDestroy_v2(event); }

CUresult pl_cuLinkCreate(unsigned int n_options, CUjit_option *options, void **values,
                         CUlinkState *state)
{
    return pl_cuLinkCreate_v2(n_options, options, values, state);
}

CUresult pl_cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t n_bytes,
                          const char *name, unsigned int n_options, CUjit_option *options,
                          void **values)
{
    return pl_cuLinkAddData_v2(state, type, data, n_bytes, name, n_options, options, values);
}

CUresult pl_cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path,
                          unsigned int n_options, CUjit_option *options, void **values)
{
    return pl_cuLinkAddFile_v2(state, type, path, n_options, options, values);
}

/* A place was the ordinal of a device, or CU_DEVICE_CPU. */
static CUmemLocation place_of(CUdevice dev)
{
    bool is_host = dev == CU_DEVICE_CPU;
    return (CUmemLocation){.type =
                               is_host ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE,
                           .id = is_host ? 0 : dev};
}

CUresult pl_cuMemAdvise(CUdeviceptr ptr, size_t count, CUmem_advise advice, CUdevice dev)
{
    return pl_cuMemAdvise_v2(ptr, count, advice, place_of(dev));
}

CUresult pl_cuMemPrefetchAsync(CUdeviceptr ptr, size_t count, CUdevice dev, CUstream stream)
{
    return pl_cuMemPrefetchAsync_v2(ptr, count, place_of(dev), 0, stream);
}

CUresult pl_cuStreamWaitValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                unsigned int flags)
{
    return pl_cuStreamWaitValue32_v2(stream, addr, value, flags);
}

CUresult pl_cuStreamWaitValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                                unsigned int flags)
{
    return pl_cuStreamWaitValue64_v2(stream, addr, value, flags);
}

CUresult pl_cuStreamWriteValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                 unsigned int flags)
{
    return pl_cuStreamWriteValue32_v2(stream, addr, value, flags);
}

CUresult pl_cuStreamWriteValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                                 unsigned int flags)
{
    return pl_cuStreamWriteValue64_v2(stream, addr, value, flags);
}

CUresult pl_cuStreamBatchMemOp(CUstream stream, unsigned int n, CUstreamBatchMemOpParams *ops,
                               unsigned int flags)
{
    return pl_cuStreamBatchMemOp_v2(stream, n, ops, flags);
}

CUresult pl_cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log,
                               size_t log_n_bytes)
{
    return pl_cuGraphInstantiate_v2(exec, graph, error_node, log, log_n_bytes);
}

CUresult pl_cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *error_node,
                              CUgraphExecUpdateResult *result)
{
    CUgraphExecUpdateResultInfo info = {0};
    CUresult r = pl_cuGraphExecUpdate_v2(exec, graph, &info);
    if (error_node != NULL)
        *error_node = info.errorNode;
    if (result != NULL)
        *result = info.result;
    return r;
}

/* ---- launches of before CUDA 4: block, shared memory and parameters are set first ---------------------------------------- */

static CUresult stage(CUfunction func, struct pl_staged **out)
{
    struct pl_function *f;
    CUresult r = pl_function_find(func, pl_ctx_current(), &f);
    if (r != CUDA_SUCCESS)
        return r;
    if (f->staged == NULL)
        f->staged = calloc(1, sizeof *f->staged);
    *out = f->staged;
    return f->staged != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult pl_cuFuncSetBlockShape(CUfunction func, int x, int y, int z)
{
    struct pl_staged *s;
    CUresult r = stage(func, &s);
    if (r == CUDA_SUCCESS && (x <= 0 || y <= 0 || z <= 0))
        r = CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; r == CUDA_SUCCESS && i < 3; i++)
        s->block[i] = (unsigned)(i == 0 ? x : i == 1 ? y : z);
    return r;
}

CUresult pl_cuFuncSetSharedSize(CUfunction func, unsigned int n_bytes)
{
    struct pl_staged *s;
    CUresult r = stage(func, &s);
    if (r == CUDA_SUCCESS)
        s->shared_bytes = n_bytes;
    return r;
}

CUresult pl_cuParamSetSize(CUfunction func, unsigned int n_bytes)
{
    struct pl_staged *s;
    CUresult r = stage(func, &s);
    if (r == CUDA_SUCCESS && n_bytes > sizeof s->params)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        s->n_params_bytes = n_bytes;
    return r;
}

CUresult pl_cuParamSetv(CUfunction func, int offset, void *value, unsigned int n_bytes)
{
    struct pl_staged *s;
    CUresult r = stage(func, &s);
    if (r == CUDA_SUCCESS && (value == NULL || offset < 0 || n_bytes > sizeof s->params ||
                              (unsigned)offset > sizeof s->params - n_bytes))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        memcpy(s->params + offset, value, n_bytes);
    return r;
}

CUresult pl_cuParamSeti(CUfunction func, int offset, unsigned int value)
{
    return pl_cuParamSetv(func, offset, &value, sizeof value);
}

CUresult pl_cuParamSetf(CUfunction func, int offset, float value)
{
    return pl_cuParamSetv(func, offset, &value, sizeof value);
}

CUresult pl_cuLaunchGridAsync(CUfunction func, int gx, int gy, CUstream stream)
{
    struct pl_staged *s;
    CUresult r = stage(func, &s);
    if (r == CUDA_SUCCESS && (gx <= 0 || gy <= 0))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, s->params, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &s->n_params_bytes, CU_LAUNCH_PARAM_END};
    return pl_cuLaunchKernel(func, (unsigned)gx, (unsigned)gy, 1, s->block[0], s->block[1],
                             s->block[2], s->shared_bytes, stream, NULL, extra);
}

CUresult pl_cuLaunchGrid(CUfunction func, int gx, int gy)
{
    return pl_cuLaunchGridAsync(func, gx, gy, NULL);
}

CUresult pl_cuLaunch(CUfunction func) { return pl_cuLaunchGrid(func, 1, 1); }
