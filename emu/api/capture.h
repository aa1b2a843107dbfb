#ifndef PL_EMU_API_CAPTURE_H
#define PL_EMU_API_CAPTURE_H
/*
 * Stream capture and its rules. Driver API reference: Stream Management (cuStreamBeginCapture, cuThreadExchangeStreamCaptureMode
 * and what they say of other calls). A broken rule invalidates the captures that it touches; only cuStreamIsCapturing never does.
 *
 * Threads: under the API lock.
 */
#include "emu/api/work.h"

struct pl_event;
struct pl_graph;

struct pl_capture {
    struct pl_capture *next;
    uint64_t id, thread_id; /* thread that began it */
    CUstreamCaptureMode mode;
    struct pl_stream *origin;
    struct pl_graph *graph;
    bool is_invalid;
    bool is_users_graph;      /* of cuStreamBeginCaptureToGraph */
    CUgraphNode *tip_handles; /* what cuStreamGetCaptureInfo gave out last */
};

/* 900 when this thread may not make a potentially unsafe call now; the captures concerned become invalid. */
CUresult pl_capture_check_unsafe(void);
/* 906 when s is the legacy stream and a blocking stream of its context is being captured. */
CUresult pl_capture_check_legacy(const struct pl_stream *s);
/* 900 when any stream of the context is being captured. */
CUresult pl_capture_check_context(const struct pl_context *ctx);
CUresult pl_capture_invalidate(struct pl_capture *c, CUresult code); /* gives code */
/* Make a node of the work; w stays the caller's. */
CUresult pl_capture_add(struct pl_stream *s, const struct pl_work *w);
/* A node of the child graph, which is taken over, whatever the result. */
CUresult pl_capture_add_child(struct pl_stream *s, struct pl_graph *child);
bool pl_capture_add_tip(struct pl_stream *s, struct pl_node *n);
/* An event record or wait on a stream, where a capture is concerned. */
CUresult pl_capture_record(struct pl_stream *s, struct pl_event *e);
CUresult pl_capture_wait(struct pl_stream *s, const struct pl_event *e);
/* The same with the EXTERNAL flag: a node that records or waits for the event when the graph runs. */
CUresult pl_capture_record_external(struct pl_stream *s, CUevent event);
CUresult pl_capture_wait_external(struct pl_stream *s, CUevent event);
/* The context or stream goes away: its captures end without a graph. */
void pl_capture_drop_context(struct pl_context *ctx);
void pl_capture_drop_stream(struct pl_stream *s);
void pl_graph_reset(void);
#endif
