/*
 * Streams. Driver API reference: Stream Management, Stream Memory Operations. Capture is in emu/api/capture.c.
 */
#include "emu/api/capture.h"
#include "emu/api/event.h"
#include "emu/api/mem.h"
#include "emu/api/work.h"

enum { LEAST_PRIORITY = 0, GREATEST_PRIORITY = -5 };

CUresult pl_cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
    if (stream == NULL || flags > CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    if (priority > LEAST_PRIORITY)
        priority = LEAST_PRIORITY;
    if (priority < GREATEST_PRIORITY)
        priority = GREATEST_PRIORITY;
    struct pl_stream *s = pl_stream_create(pl_ctx_current(), flags, priority);
    if (s == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *stream = pl_stream_handle(s);
    return CUDA_SUCCESS;
}

CUresult pl_cuStreamCreate(CUstream *stream, unsigned int flags)
{
    return pl_cuStreamCreateWithPriority(stream, flags, LEAST_PRIORITY);
}

/* Returns at once; what is queued still runs. */
CUresult pl_cuStreamDestroy_v2(CUstream stream)
{
    struct pl_stream *s = pl_obj_find(stream, PL_OBJ_STREAM);
    if (s == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = pl_ctx_check(s->ctx);
    pl_capture_drop_stream(s);
    pl_stream_destroy(s);
    return r;
}

/* The stream whose property *out becomes. */
static CUresult find_for(const void *out, CUstream stream, struct pl_stream **s)
{
    return out == NULL ? CUDA_ERROR_INVALID_VALUE : pl_stream_find(stream, s);
}

CUresult pl_cuStreamGetPriority(CUstream stream, int *priority)
{
    struct pl_stream *s;
    CUresult r = find_for(priority, stream, &s);
    if (r == CUDA_SUCCESS)
        *priority = s->priority;
    return r;
}

CUresult pl_cuStreamGetFlags(CUstream stream, unsigned int *flags)
{
    struct pl_stream *s;
    CUresult r = find_for(flags, stream, &s);
    if (r == CUDA_SUCCESS)
        *flags = s->flags;
    return r;
}

CUresult pl_cuStreamGetId(CUstream stream, unsigned long long *id)
{
    struct pl_stream *s;
    CUresult r = find_for(id, stream, &s);
    if (r == CUDA_SUCCESS)
        *id = s->id;
    return r;
}

CUresult pl_cuStreamGetDevice(CUstream stream, CUdevice *dev)
{
    struct pl_stream *s;
    CUresult r = find_for(dev, stream, &s);
    if (r == CUDA_SUCCESS)
        *dev = s->ctx->device->ordinal;
    return r;
}

CUresult pl_cuStreamGetCtx(CUstream stream, CUcontext *ctx)
{
    struct pl_stream *s;
    CUresult r = find_for(ctx, stream, &s);
    if (r == CUDA_SUCCESS)
        *ctx = pl_obj_handle(&s->ctx->obj);
    return r;
}

CUresult pl_cuStreamGetCtx_v2(CUstream stream, CUcontext *ctx, CUgreenCtx *green)
{
    if (green == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *green = NULL; /* there are no green contexts */
    return pl_cuStreamGetCtx(stream, ctx);
}

CUresult pl_cuStreamQuery(CUstream stream)
{
    struct pl_stream *s;
    CUresult r = pl_stream_find(stream, &s);
    if (r == CUDA_SUCCESS)
        r = pl_ctx_check(s->ctx);
    if (r == CUDA_SUCCESS)
        r = pl_capture_check_legacy(s);
    if (r != CUDA_SUCCESS)
        return r;
    if (s->capture != NULL)
        return pl_capture_invalidate(s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return pl_stream_is_idle(s) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

/* The legacy stream is done when all that it is ordered with is. */
static void drain_blocking(struct pl_context *ctx)
{
    for (struct pl_stream *s = ctx->streams; s != NULL;) {
        if (!pl_stream_is_blocking(s) || pl_stream_is_idle(s)) {
            s = s->next;
            continue;
        }
        pl_stream_drain(s);
        s = ctx->streams;
    }
}

CUresult pl_cuStreamSynchronize(CUstream stream)
{
    struct pl_stream *s;
    CUresult r = pl_stream_find(stream, &s);
    if (r == CUDA_SUCCESS)
        r = pl_ctx_check(s->ctx);
    if (r == CUDA_SUCCESS)
        r = pl_capture_check_legacy(s);
    if (r != CUDA_SUCCESS)
        return r;
    struct pl_context *ctx = s->ctx;
    if (s->capture != NULL)
        return pl_capture_invalidate(s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (s == ctx->legacy)
        drain_blocking(ctx);
    else
        pl_stream_drain(s);
    return ctx->sticky;
}

CUresult pl_cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    struct pl_stream *s;
    CUresult r = pl_stream_find(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    const struct pl_event *e = pl_obj_find(event, PL_OBJ_EVENT);
    if (e == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags == 1 && s->capture != NULL)
        return pl_capture_wait_external(s, event);
    if (s->capture != NULL || e->capture_id != 0)
        return pl_capture_wait(s, e);
    if (e->mark == NULL || e->mark->is_done)
        return CUDA_SUCCESS; /* never recorded, or done: nothing to wait for */
    return pl_stream_submit(s, &(struct pl_work){0}, e->mark, NULL);
}

CUresult pl_cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *user,
                                unsigned int flags)
{
    struct pl_stream *s;
    CUresult r = pl_stream_find(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (callback == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->capture != NULL)
        return pl_capture_invalidate(s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    struct pl_work w = {.kind = PL_WORK_HOST,
                        .host = {.callback = callback, .stream = stream, .user = user}};
    return pl_stream_submit(s, &w, NULL, NULL);
}

CUresult pl_cuStreamAttachMemAsync(CUstream stream, CUdeviceptr ptr, size_t length,
                                   unsigned int flags)
{
    struct pl_stream *s;
    const struct pl_alloc *a = pl_alloc_find(ptr);
    (void)length;
    CUresult r = pl_stream_find(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (a == NULL || a->kind != PL_ALLOC_MANAGED || flags == 0 || flags > CU_MEM_ATTACH_SINGLE)
        return CUDA_ERROR_INVALID_VALUE;
    return pl_stream_submit(s, &(struct pl_work){0}, NULL, NULL); /* all see it always */
}

/* ---- attributes ------------------------------------------------------------------------------------------------------ */

static CUresult check_attribute(CUstreamAttrID attr)
{
    bool ok = attr == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW ||
              attr == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY ||
              attr == CU_LAUNCH_ATTRIBUTE_PRIORITY ||
              attr == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP ||
              attr == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult pl_cuStreamGetAttribute(CUstream stream, CUstreamAttrID attr, CUstreamAttrValue *value)
{
    struct pl_stream *s;
    CUresult r = pl_stream_find(stream, &s);
    if (r == CUDA_SUCCESS)
        r = value == NULL ? CUDA_ERROR_INVALID_VALUE : check_attribute(attr);
    if (r != CUDA_SUCCESS)
        return r;
    *value = (CUstreamAttrValue){0};
    if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        value->priority = s->priority;
    return CUDA_SUCCESS;
}

/* All but the priority are hints about caches and waiting, without an effect here. */
CUresult pl_cuStreamSetAttribute(CUstream stream, CUstreamAttrID attr,
                                 const CUstreamAttrValue *value)
{
    struct pl_stream *s;
    CUresult r = pl_stream_find(stream, &s);
    if (r == CUDA_SUCCESS)
        r = value == NULL ? CUDA_ERROR_INVALID_VALUE : check_attribute(attr);
    if (r == CUDA_SUCCESS && attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        s->priority = value->priority;
    return r;
}

CUresult pl_cuStreamCopyAttributes(CUstream dst, CUstream src)
{
    struct pl_stream *to, *from;
    CUresult r = pl_stream_find(dst, &to);
    if (r == CUDA_SUCCESS)
        r = pl_stream_find(src, &from);
    if (r == CUDA_SUCCESS)
        to->priority = from->priority;
    return r;
}

/* ---- memory operations ------------------------------------------------------------------------------------------------ */

static CUresult make_value(enum pl_work_kind kind, struct pl_value_work v, struct pl_work *w)
{
    struct pl_side side = pl_side_of(v.address);
    unsigned known = kind == PL_WORK_WRITE_VALUE
                         ? 1u /* without a barrier before it, which each write here has */
                         : CU_STREAM_WAIT_VALUE_NOR | CU_STREAM_WAIT_VALUE_FLUSH;
    if ((v.flags & ~known) != 0 || v.address % v.n_bytes != 0 ||
        (side.device == NULL && pl_alloc_find(v.address) == NULL) ||
        !pl_side_is_inside(&side, v.n_bytes, 1, 1))
        return CUDA_ERROR_INVALID_VALUE;
    v.device = side.device;
    *w = (struct pl_work){.kind = kind, .value = v};
    return CUDA_SUCCESS;
}

static CUresult submit_value(CUstream stream, enum pl_work_kind kind, struct pl_value_work v)
{
    struct pl_stream *s;
    struct pl_work w;
    CUresult r = pl_stream_find(stream, &s);
    if (r == CUDA_SUCCESS)
        r = make_value(kind, v, &w);
    return r != CUDA_SUCCESS ? r : pl_stream_submit(s, &w, NULL, NULL);
}

CUresult pl_cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                    unsigned int flags)
{
    return submit_value(
        stream, PL_WORK_WRITE_VALUE,
        (struct pl_value_work){.address = addr, .value = value, .n_bytes = 4, .flags = flags});
}

CUresult pl_cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                                    unsigned int flags)
{
    return submit_value(
        stream, PL_WORK_WRITE_VALUE,
        (struct pl_value_work){.address = addr, .value = value, .n_bytes = 8, .flags = flags});
}

CUresult pl_cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                   unsigned int flags)
{
    return submit_value(
        stream, PL_WORK_WAIT_VALUE,
        (struct pl_value_work){.address = addr, .value = value, .n_bytes = 4, .flags = flags});
}

CUresult pl_cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                                   unsigned int flags)
{
    return submit_value(
        stream, PL_WORK_WAIT_VALUE,
        (struct pl_value_work){.address = addr, .value = value, .n_bytes = 8, .flags = flags});
}

/* *w: empty for what only orders or flushes, since each operation sees all before it. */
static CUresult make_mem_op(const CUstreamBatchMemOpParams *op, struct pl_work *w)
{
    const struct CUstreamMemOpWaitValueParams_st *v = &op->waitValue;
    struct pl_value_work narrow = {
        .address = v->address, .value = v->value, .n_bytes = 4, .flags = v->flags};
    struct pl_value_work wide = {
        .address = v->address, .value = v->value64, .n_bytes = 8, .flags = v->flags};
    *w = (struct pl_work){.kind = PL_WORK_EMPTY};
    switch ((int)op->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32: return make_value(PL_WORK_WAIT_VALUE, narrow, w);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64: return make_value(PL_WORK_WAIT_VALUE, wide, w);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32: return make_value(PL_WORK_WRITE_VALUE, narrow, w);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64: return make_value(PL_WORK_WRITE_VALUE, wide, w);
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
    case CU_STREAM_MEM_OP_BARRIER: return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult pl_cuStreamBatchMemOp_v2(CUstream stream, unsigned int n, CUstreamBatchMemOpParams *ops,
                                  unsigned int flags)
{
    struct pl_stream *s;
    CUresult r = pl_stream_find(stream, &s);
    if (r == CUDA_SUCCESS && (ops == NULL || n == 0 || n >= 256 || flags != 0))
        r = CUDA_ERROR_INVALID_VALUE; /* cuStreamBatchMemOp: count must be less than 256 */
    struct pl_work w;
    for (unsigned i = 0; r == CUDA_SUCCESS && i < n; i++) /* a bad entry leaves nothing queued */
        r = make_mem_op(&ops[i], &w);
    for (unsigned i = 0; r == CUDA_SUCCESS && i < n; i++) {
        r = make_mem_op(&ops[i], &w);
        if (r == CUDA_SUCCESS && w.kind != PL_WORK_EMPTY)
            r = pl_stream_submit(s, &w, NULL, NULL);
    }
    return r;
}
