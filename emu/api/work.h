#ifndef PL_EMU_API_WORK_H
#define PL_EMU_API_WORK_H
/*
 * Work and streams: what a launch, copy, fill, host function or event record becomes.
 *
 * A piece of work on a stream is an *op* in its queue, with the *marks* it waits for; completing it sets its own mark. Ops of
 * one stream run in order, on a pool of workers or on the thread that waits for them; different streams run side by side. The
 * legacy default stream is ordered with every blocking stream of its context by marks too. A fault makes the context's error
 * sticky; ops behind it are completed without being run, host functions not called.
 *
 * Threads: everything under the API lock, except pl_work_run.
 */
#include "emu/api/state.h"

struct pl_capture;
struct pl_graph_memory;
struct pl_function;
struct pl_node;

/* A point in a stream that others can wait for. */
struct pl_mark {
    uint32_t n_refs;
    bool is_done;
    uint64_t t_ns; /* when it was done */
};
struct pl_mark *pl_mark_create(void); /* one reference; NULL: no memory */
struct pl_mark *pl_mark_retain(struct pl_mark *m);
void pl_mark_release(struct pl_mark *m); /* NULL allowed */

/* One end of a copy. */
struct pl_side {
    struct pl_device *device; /* NULL: host */
    uint64_t address;
    size_t pitch_bytes, slice_bytes;
};

struct pl_copy {
    struct pl_side src, dst;
    size_t width_bytes, height, depth;
    void *held; /* the source, where it was copied when the call was made; owned, or NULL */
};

struct pl_fill {
    struct pl_device *device;
    uint64_t address;
    size_t pitch_bytes, width_elems, height;
    uint32_t value, elem_bytes;
};

struct pl_kernel_work {
    struct pl_function *function;
    CUfunction handle; /* of function: tells whether it is still loaded */
    uint32_t grid[3], block[3], cluster[3];
    uint32_t dynamic_bytes;
    size_t stack_bytes, heap_bytes; /* the context's limits at the launch */
    bool is_cooperative;
    int priority;
    void *params; /* n_params_bytes, owned */
    size_t n_params_bytes;
};

struct pl_host_work {
    CUhostFn fn;
    CUstreamCallback callback; /* of cuStreamAddCallback; NULL: fn */
    CUstream stream;
    void *user;
};

struct pl_value_work { /* cuStreamWriteValue, cuStreamWaitValue */
    struct pl_device *device;
    uint64_t address, value;
    uint32_t n_bytes; /* 4, 8 */
    unsigned flags;
};

enum pl_work_kind {
    PL_WORK_EMPTY, /* an event wait or record, a barrier: only marks */
    PL_WORK_KERNEL,
    PL_WORK_COPY,
    PL_WORK_FILL,
    PL_WORK_HOST,
    PL_WORK_FREE,        /* cuMemFreeAsync */
    PL_WORK_GRAPH_ALLOC, /* of memory that the graph has: nothing to run */
    PL_WORK_GRAPH_FREE,
    PL_WORK_WRITE_VALUE,
    PL_WORK_WAIT_VALUE,
};

struct pl_work {
    enum pl_work_kind kind;
    union {
        struct pl_kernel_work kernel;
        struct pl_copy copy;
        struct pl_fill fill;
        struct pl_host_work host;
        struct pl_value_work value;
        uint64_t free_address;
        struct pl_graph_memory *graph_memory; /* a reference */
    };
};
bool pl_work_copy(struct pl_work *to, const struct pl_work *from); /* deep; false: no memory */
void pl_work_fini(struct pl_work *w);
/* Run it on this thread, to its end, without the lock. 0, or the code that becomes sticky. */
CUresult pl_work_run(struct pl_context *ctx, const struct pl_work *w);

struct pl_op {
    struct pl_op *next;
    struct pl_work work;
    struct pl_mark *mark;
    uint32_t n_deps;
    struct pl_mark **deps;
};

struct pl_stream {
    struct pl_obj obj; /* not in the table for legacy and per-thread streams */
    struct pl_context *ctx;
    struct pl_stream *next;       /* in ctx */
    struct pl_stream *next_ready; /* in the list of streams whose first op may run */
    struct pl_op *head, *tail;    /* head may be running */
    struct pl_mark *last;         /* of the newest op; NULL: none yet */
    uint64_t id, thread_id;       /* thread_id: owner of a per-thread default stream, else 0 */
    unsigned flags;
    int priority;
    bool is_running, is_ready, is_dead; /* dead: destroyed, to be freed when its queue is empty */
    struct pl_capture *capture;         /* NULL: none */
    struct pl_node **tips;              /* capture: nodes that the next one depends on */
    uint32_t n_tips, cap_tips;
};

struct pl_stream *pl_stream_create(struct pl_context *ctx, unsigned flags, int priority);
void pl_stream_destroy(struct pl_stream *s);
/* A handle, or one of the three default streams of the current context. */
CUresult pl_stream_find(CUstream handle, struct pl_stream **out);
bool pl_stream_is_blocking(const struct pl_stream *s); /* ordered with the legacy stream */
CUstream pl_stream_handle(const struct pl_stream *s);

/*
 * Put work on a stream: a node when it is being captured, else an op. The work is taken over: *w is empty afterwards, whatever
 * the result. Extra: a mark to wait for, or NULL. Mark: receives a reference to the op's mark, or NULL.
 */
CUresult pl_stream_submit(struct pl_stream *s, struct pl_work *w, struct pl_mark *extra,
                          struct pl_mark **mark);
/* As submit, then wait for it. Refused with 900 on a stream that is being captured. */
CUresult pl_stream_run(struct pl_stream *s, struct pl_work *w);

/* Wait, helping where the waiting thread can run the stream's work itself. Give the context's sticky code. */
void pl_stream_drain(struct pl_stream *s);
void pl_mark_wait(struct pl_mark *m);
void pl_ctx_drain(struct pl_context *ctx);
bool pl_stream_is_idle(const struct pl_stream *s);
#endif
