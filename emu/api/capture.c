#include "emu/api/capture.h"

#include "emu/api/event.h"
#include "emu/api/graph.h"

#include <stdlib.h>
#include <string.h>

/* ---- rules ---------------------------------------------------------------------------------------------- */

CUresult pl_capture_invalidate(struct pl_capture *c, CUresult code)
{
    c->is_invalid = true;
    return code;
}

/*
 * cuThreadExchangeStreamCaptureMode: GLOBAL is disturbed by a non-relaxed capture of this thread and by a GLOBAL one of any
 * thread; THREAD_LOCAL by the former only; RELAXED by none.
 */
static bool is_disturbed(const struct pl_capture *c, const struct pl_thread *t)
{
    if (t->mode == CU_STREAM_CAPTURE_MODE_RELAXED || c->is_invalid)
        return false;
    if (c->thread_id == t->id)
        return c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return t->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult pl_capture_check_unsafe(void)
{
    CUresult r = CUDA_SUCCESS;
    for (struct pl_capture *c = pl_process.captures; c != NULL; c = c->next)
        if (is_disturbed(c, pl_thread_get()))
            r = pl_capture_invalidate(c, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return r;
}

CUresult pl_capture_check_legacy(const struct pl_stream *s)
{
    CUresult r = CUDA_SUCCESS;
    if (s != s->ctx->legacy)
        return r;
    for (struct pl_stream *other = s->ctx->streams; other != NULL; other = other->next)
        if (other->capture != NULL && pl_stream_is_blocking(other))
            r = pl_capture_invalidate(other->capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    return r;
}

CUresult pl_capture_check_context(const struct pl_context *ctx)
{
    CUresult r = CUDA_SUCCESS;
    for (struct pl_stream *s = ctx->streams; s != NULL; s = s->next)
        if (s->capture != NULL)
            r = pl_capture_invalidate(s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return r;
}

/* ---- streams in a capture ----------------------------------------------------------------------------------- */

bool pl_capture_add_tip(struct pl_stream *s, struct pl_node *n)
{
    for (uint32_t i = 0; i < s->n_tips; i++)
        if (s->tips[i] == n)
            return true;
    if (s->n_tips == s->cap_tips) {
        uint32_t cap = s->cap_tips == 0 ? 8 : s->cap_tips * 2;
        struct pl_node **tips = realloc(s->tips, cap * sizeof(struct pl_node *));
        if (tips == NULL)
            return false;
        s->tips = tips;
        s->cap_tips = cap;
    }
    s->tips[s->n_tips++] = n;
    return true;
}

/* A node behind all tips of s, which becomes its only tip. */
static CUresult add_node(struct pl_stream *s, CUgraphNodeType type, struct pl_node **out)
{
    struct pl_capture *c = s->capture;
    if (c->is_invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    *out = pl_graph_add(c->graph, type, s->tips, s->n_tips);
    s->n_tips = 0;
    return *out != NULL && pl_capture_add_tip(s, *out)
               ? CUDA_SUCCESS
               : pl_capture_invalidate(c, CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult pl_capture_add_child(struct pl_stream *s, struct pl_graph *child)
{
    struct pl_node *n;
    CUresult r = add_node(s, CU_GRAPH_NODE_TYPE_GRAPH, &n);
    if (r != CUDA_SUCCESS) {
        pl_graph_destroy(child);
        return r;
    }
    n->child = child;
    child->is_child = true;
    return CUDA_SUCCESS;
}

CUresult pl_capture_add(struct pl_stream *s, const struct pl_work *w)
{
    struct pl_node *n;
    CUresult r = add_node(s, pl_work_node_type(w->kind), &n);
    if (r == CUDA_SUCCESS && !pl_work_copy(&n->work, w))
        r = pl_capture_invalidate(s->capture, CUDA_ERROR_OUT_OF_MEMORY);
    return r;
}

CUresult pl_capture_record_external(struct pl_stream *s, CUevent event)
{
    struct pl_node *n;
    CUresult r = add_node(s, CU_GRAPH_NODE_TYPE_EVENT_RECORD, &n);
    if (r == CUDA_SUCCESS)
        n->event = event;
    return r;
}

CUresult pl_capture_wait_external(struct pl_stream *s, CUevent event)
{
    struct pl_node *n;
    CUresult r = add_node(s, CU_GRAPH_NODE_TYPE_WAIT_EVENT, &n);
    if (r == CUDA_SUCCESS)
        n->event = event;
    return r;
}

CUresult pl_capture_record(struct pl_stream *s, struct pl_event *e)
{
    if (s->capture->is_invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    struct pl_node **tips = NULL;
    if (s->n_tips != 0) {
        tips = malloc(s->n_tips * sizeof(struct pl_node *));
        if (tips == NULL)
            return CUDA_ERROR_OUT_OF_MEMORY;
        memcpy(tips, s->tips, s->n_tips * sizeof(struct pl_node *));
    }
    free(e->tips);
    e->tips = tips;
    e->n_tips = s->n_tips;
    e->capture_id = s->capture->id;
    return CUDA_SUCCESS;
}

static struct pl_capture *find_capture(uint64_t id)
{
    for (struct pl_capture *c = pl_process.captures; c != NULL; c = c->next)
        if (c->id == id)
            return c;
    return NULL;
}

/* s waits for e, and one of them is in a capture: s joins that of the event. */
CUresult pl_capture_wait(struct pl_stream *s, const struct pl_event *e)
{
    if (e->capture_id == 0)
        return pl_capture_invalidate(s->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    struct pl_capture *c = find_capture(e->capture_id);
    if (c == NULL) {
        if (s->capture != NULL)
            return pl_capture_invalidate(s->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
        return CUDA_ERROR_CAPTURED_EVENT;
    }
    if (c->is_invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (s == s->ctx->legacy)
        return pl_capture_invalidate(c, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    if (s->capture != NULL && s->capture != c) {
        s->capture->is_invalid = true;
        return pl_capture_invalidate(c, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    s->capture = c;
    for (uint32_t i = 0; i < e->n_tips; i++)
        if (!pl_capture_add_tip(s, e->tips[i]))
            return pl_capture_invalidate(c, CUDA_ERROR_OUT_OF_MEMORY);
    return CUDA_SUCCESS;
}

/* Every stream leaves the capture, which is freed; its graph stays. */
static void end_capture(struct pl_capture *c)
{
    uint32_t i = 0;
    for (struct pl_context *ctx; (ctx = pl_obj_next(&i, PL_OBJ_CONTEXT)) != NULL;) {
        for (struct pl_stream *s = ctx->streams; s != NULL; s = s->next) {
            if (s->capture != c)
                continue;
            s->capture = NULL;
            s->n_tips = 0;
        }
    }
    for (struct pl_capture **at = &pl_process.captures; *at != NULL; at = &(*at)->next) {
        if (*at != c)
            continue;
        *at = c->next;
        break;
    }
    free(c->tip_handles);
    free(c);
}

void pl_capture_drop_stream(struct pl_stream *s)
{
    struct pl_capture *c = s->capture;
    if (c == NULL)
        return;
    c->is_invalid = true;
    if (c->origin != s) {
        s->capture = NULL;
        return;
    }
    struct pl_graph *graph = c->is_users_graph ? NULL : c->graph;
    end_capture(c);
    if (graph != NULL)
        pl_graph_destroy(graph);
}

void pl_capture_drop_context(struct pl_context *ctx)
{
    for (struct pl_stream *s = ctx->streams; s != NULL; s = s->next)
        pl_capture_drop_stream(s);
}

/* ---- exported ------------------------------------------------------------------------------------------------- */

static CUresult begin(CUstream stream, struct pl_graph *graph, CUstreamCaptureMode mode)
{
    struct pl_stream *s;
    CUresult r = pl_stream_find(stream, &s);
    if (r == CUDA_SUCCESS)
        r = pl_ctx_check(s->ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (s == s->ctx->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (s->capture != NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct pl_capture *c = calloc(1, sizeof *c);
    struct pl_graph *own = graph == NULL && c != NULL ? pl_graph_create() : graph;
    if (own == NULL) {
        free(c);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *c = (struct pl_capture){.next = pl_process.captures,
                             .id = ++pl_process.next_id,
                             .thread_id = pl_thread_get()->id,
                             .mode = mode,
                             .origin = s,
                             .graph = own,
                             .is_users_graph = graph != NULL};
    pl_process.captures = c;
    s->capture = c;
    s->n_tips = 0;
    return CUDA_SUCCESS;
}

CUresult pl_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    return begin(stream, NULL, mode);
}

CUresult pl_cuStreamBeginCapture(CUstream stream)
{
    return begin(stream, NULL, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static CUresult add_handles_as_tips(struct pl_stream *s, const CUgraphNode *deps, size_t n_deps)
{
    for (size_t i = 0; i < n_deps; i++) {
        struct pl_node *n = pl_obj_find(deps[i], PL_OBJ_NODE);
        if (n == NULL || n->graph != s->capture->graph)
            return CUDA_ERROR_INVALID_VALUE;
        if (!pl_capture_add_tip(s, n))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

CUresult pl_cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *deps,
                                        const CUgraphEdgeData *dep_edges, size_t n_deps,
                                        CUstreamCaptureMode mode)
{
    struct pl_graph *g = pl_obj_find(graph, PL_OBJ_GRAPH);
    struct pl_stream *s;
    (void)dep_edges; /* full dependencies are a legal reading of every edge type */
    if (g == NULL || (deps == NULL && n_deps != 0))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = begin(stream, g, mode);
    if (r != CUDA_SUCCESS)
        return r;
    r = pl_stream_find(stream, &s);
    if (r == CUDA_SUCCESS)
        r = add_handles_as_tips(s, deps, n_deps);
    if (r != CUDA_SUCCESS)
        end_capture(s->capture);
    return r;
}

static bool is_joined(const struct pl_capture *c, const struct pl_stream *other)
{
    for (uint32_t i = 0; i < other->n_tips; i++) {
        bool is_reached = false;
        for (uint32_t j = 0; j < c->origin->n_tips && !is_reached; j++)
            is_reached = pl_node_reaches(c->origin->tips[j], other->tips[i]);
        if (!is_reached)
            return false;
    }
    return true;
}

static bool is_all_joined(const struct pl_capture *c)
{
    uint32_t i = 0;
    for (struct pl_context *ctx; (ctx = pl_obj_next(&i, PL_OBJ_CONTEXT)) != NULL;)
        for (struct pl_stream *s = ctx->streams; s != NULL; s = s->next)
            if (s->capture == c && s != c->origin && !is_joined(c, s))
                return false;
    return true;
}

CUresult pl_cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    struct pl_stream *s;
    CUresult r = pl_stream_find(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (graph == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *graph = NULL;
    struct pl_capture *c = s->capture;
    if (c == NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (c->origin != s)
        return pl_capture_invalidate(c, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread_id != pl_thread_get()->id)
        return pl_capture_invalidate(c, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    r = c->is_invalid       ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
        : !is_all_joined(c) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                            : CUDA_SUCCESS;
    struct pl_graph *g = c->graph;
    bool is_users_graph = c->is_users_graph;
    end_capture(c);
    if (r == CUDA_SUCCESS)
        *graph = pl_obj_handle(&g->obj);
    else if (!is_users_graph)
        pl_graph_destroy(g);
    return r;
}

static CUstreamCaptureStatus status_of(const struct pl_stream *s)
{
    if (s->capture == NULL)
        return CU_STREAM_CAPTURE_STATUS_NONE;
    return s->capture->is_invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                  : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/* The queries of a capture are refused on the legacy stream while another is captured, and harm nothing. */
static CUresult find_for_query(CUstream stream, struct pl_stream **out)
{
    CUresult r = pl_stream_find(stream, out);
    if (r != CUDA_SUCCESS || *out != (*out)->ctx->legacy)
        return r;
    for (const struct pl_stream *s = (*out)->ctx->streams; s != NULL; s = s->next)
        if (s->capture != NULL && pl_stream_is_blocking(s))
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    return CUDA_SUCCESS;
}

CUresult pl_cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    struct pl_stream *s;
    if (status == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = find_for_query(stream, &s);
    if (r == CUDA_SUCCESS)
        *status = status_of(s);
    return r;
}

CUresult pl_cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status,
                                      cuuint64_t *id, CUgraph *graph, const CUgraphNode **deps,
                                      size_t *n_deps)
{
    struct pl_stream *s;
    if (status == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = find_for_query(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    struct pl_capture *c = s->capture;
    *status = status_of(s);
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return CUDA_SUCCESS;
    if (id != NULL)
        *id = c->id;
    if (graph != NULL)
        *graph = pl_obj_handle(&c->graph->obj);
    if (n_deps != NULL)
        *n_deps = s->n_tips;
    if (deps == NULL)
        return CUDA_SUCCESS;
    CUgraphNode *handles = realloc(c->tip_handles, (s->n_tips + 1) * sizeof *handles);
    if (handles == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    c->tip_handles = handles;
    for (uint32_t i = 0; i < s->n_tips; i++)
        handles[i] = pl_obj_handle(&s->tips[i]->obj);
    *deps = handles;
    return CUDA_SUCCESS;
}

CUresult pl_cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status,
                                      cuuint64_t *id, CUgraph *graph, const CUgraphNode **deps,
                                      const CUgraphEdgeData **edges, size_t *n_deps)
{
    if (edges != NULL)
        *edges = NULL; /* all edges are plain ones */
    return pl_cuStreamGetCaptureInfo_v2(stream, status, id, graph, deps, n_deps);
}

CUresult pl_cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id)
{
    return pl_cuStreamGetCaptureInfo_v2(stream, status, id, NULL, NULL, NULL);
}

CUresult pl_cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *deps, size_t n_deps,
                                              unsigned int flags)
{
    struct pl_stream *s;
    CUresult r = pl_stream_find(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (deps == NULL && n_deps != 0))
        return CUDA_ERROR_INVALID_VALUE;
    if (s->capture == NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        s->n_tips = 0;
    return add_handles_as_tips(s, deps, n_deps);
}

CUresult pl_cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *deps,
                                                 const CUgraphEdgeData *dep_edges, size_t n_deps,
                                                 unsigned int flags)
{
    (void)dep_edges;
    return pl_cuStreamUpdateCaptureDependencies(stream, deps, n_deps, flags);
}

CUresult pl_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    struct pl_thread *t = pl_thread_get();
    if (mode == NULL || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode old = t->mode;
    t->mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}
