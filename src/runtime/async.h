#ifndef PL_RUNTIME_ASYNC_H
#define PL_RUNTIME_ASYNC_H
/*
 * PL_COMPILE_ASYNC: builds handed to worker threads, started when first needed. The caller has claimed the entry; a worker
 * builds it and settles it, so everybody who asks meanwhile sees the same build.
 */
#include "src/runtime/ask.h"

#include <pthread.h>

enum { PL_ASYNC_MAX_THREADS = 16 };

struct pl_async_job;
struct pl_entry;

struct pl_async {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct pl_async_job *first, *last;
    bool is_stopping;
    int n_wanted, n_started; /* threads */
    pthread_t threads[PL_ASYNC_MAX_THREADS];
};

void pl_async_init(struct pl_async *a, int n_threads);

/* Stop: what runs is finished, what waits is given up (its entries may be asked for again). is_child: after fork. */
void pl_async_fini(struct pl_async *a, struct pl_context *ctx, bool is_child);

/* Hand over a claimed entry with a copy of the request. Error: PL6114, and the entry is settled. */
PL_MUST_CHECK pl_status pl_async_add(struct pl_context *ctx, struct pl_entry *e,
                                     const struct pl_ask *ask, struct pl_call *call);

#endif
