/*
 * Events. Driver API reference: Event Management.
 */
#include "emu/api/event.h"

#include "emu/api/capture.h"

#include <stdlib.h>

static void free_event(struct pl_event *e)
{
    pl_obj_remove(&e->obj);
    pl_mark_release(e->mark);
    free(e->tips);
    free(e);
}

void pl_event_drop_context(struct pl_context *ctx)
{
    uint32_t i = 0;
    for (struct pl_event *e; (e = pl_obj_next(&i, PL_OBJ_EVENT)) != NULL;)
        if (e->ctx == ctx)
            free_event(e);
}

CUresult pl_cuEventCreate(CUevent *event, unsigned int flags)
{
    if (event == NULL || flags > 7)
        return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CU_EVENT_INTERPROCESS) != 0)
        return (flags & CU_EVENT_DISABLE_TIMING) != 0 ? CUDA_ERROR_NOT_SUPPORTED
                                                      : CUDA_ERROR_INVALID_VALUE;
    struct pl_event *e = calloc(1, sizeof *e);
    if (e == NULL || !pl_obj_add(&e->obj, PL_OBJ_EVENT)) {
        free(e);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    e->ctx = pl_ctx_current();
    e->flags = flags;
    *event = pl_obj_handle(&e->obj);
    return CUDA_SUCCESS;
}

CUresult pl_cuEventDestroy_v2(CUevent event)
{
    struct pl_event *e = pl_obj_find(event, PL_OBJ_EVENT);
    if (e == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = pl_ctx_check(e->ctx);
    free_event(e);
    return r;
}

CUresult pl_cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
    struct pl_stream *s;
    struct pl_mark *mark = NULL;
    CUresult r = pl_stream_find(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    struct pl_event *e = pl_obj_find(event, PL_OBJ_EVENT);
    if (e == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (e->ctx != s->ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    r = pl_ctx_check(s->ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (s->capture != NULL)
        return flags == 1 ? pl_capture_record_external(s, event) : pl_capture_record(s, e);
    r = pl_stream_submit(s, &(struct pl_work){0}, NULL, &mark);
    if (r != CUDA_SUCCESS)
        return r;
    pl_mark_release(e->mark);
    e->mark = mark;
    e->capture_id = 0;
    return CUDA_SUCCESS;
}

CUresult pl_cuEventRecord(CUevent event, CUstream stream)
{
    return pl_cuEventRecordWithFlags(event, stream, 0);
}

static CUresult find_event(CUevent event, struct pl_event **e)
{
    *e = pl_obj_find(event, PL_OBJ_EVENT);
    if (*e == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = pl_ctx_check((*e)->ctx);
    return r == CUDA_SUCCESS && (*e)->capture_id != 0 ? CUDA_ERROR_CAPTURED_EVENT : r;
}

CUresult pl_cuEventQuery(CUevent event)
{
    struct pl_event *e;
    CUresult r = find_event(event, &e);
    if (r != CUDA_SUCCESS)
        return r;
    return e->mark == NULL || e->mark->is_done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult pl_cuEventSynchronize(CUevent event)
{
    struct pl_event *e;
    CUresult r = find_event(event, &e);
    if (r != CUDA_SUCCESS || e->mark == NULL)
        return r;
    struct pl_context *ctx = e->ctx;
    struct pl_mark *mark = pl_mark_retain(e->mark);
    pl_mark_wait(mark);
    pl_mark_release(mark);
    return ctx->sticky;
}

CUresult pl_cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
    struct pl_event *a, *b;
    if (ms == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = find_event(start, &a);
    if (r == CUDA_SUCCESS)
        r = find_event(end, &b);
    if (r != CUDA_SUCCESS)
        return r;
    if (a->ctx != b->ctx || a->mark == NULL || b->mark == NULL ||
        ((a->flags | b->flags) & CU_EVENT_DISABLE_TIMING) != 0)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!a->mark->is_done || !b->mark->is_done)
        return CUDA_ERROR_NOT_READY;
    *ms = (float)((double)(int64_t)(b->mark->t_ns - a->mark->t_ns) * 1e-6);
    return CUDA_SUCCESS;
}

CUresult pl_cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    return pl_cuEventElapsedTime_v2(ms, start, end);
}
