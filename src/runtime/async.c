#include "src/runtime/async.h"

#include "src/runtime/compile.h"

struct pl_async_job {
    struct pl_async_job *next;
    struct pl_entry *entry;
    struct pl_ask ask; /* args, options.params and request.options point into what follows */
    pl_arg args[PL_MAX_ARGS];
    unsigned char params[];
};

static struct pl_async_job *make_job(struct pl_context *ctx, struct pl_entry *e,
                                     const struct pl_ask *ask)
{
    size_t n_bytes = ask->request.options != NULL ? ask->request.kernel->options_bytes : 0;
    struct pl_async_job *j = ctx->hooks.alloc(sizeof *j + n_bytes, ctx->hooks.user);
    if (j == NULL)
        return NULL;
    j->next = NULL;
    j->entry = e;
    j->ask = *ask;
    for (size_t i = 0; i < ask->request.n_args; i++)
        j->args[i] = ask->request.args[i];
    if (n_bytes != 0)
        memcpy(j->params, ask->request.options, n_bytes);
    j->ask.request.args = j->args;
    j->ask.request.options = n_bytes != 0 ? j->params : NULL;
    j->ask.options.params = j->ask.request.options;
    j->ask.options.report = NULL;
    j->ask.options.stages = NULL;
    j->ask.options.file = NULL;
    return j;
}

/* A failure that will not pass is remembered: the next asker gets its text instead of another promise. */
static bool is_final(pl_status st)
{
    return st == PL_E_INVALID || st == PL_E_UNSUPPORTED || st == PL_E_ASSEMBLER;
}

static void run_job(struct pl_context *ctx, struct pl_async_job *j)
{
    pl_error err;
    struct pl_call call = pl_call_make("pl_launch", ctx, &err);
    struct pl_run run = {.call = &call, .thread = pl_thread_get(&ctx->threads)};
    struct pl_variant *v = NULL;
    call.kernel = j->ask.request.kernel->name;
    pl_status st = PL_E_NOMEM;
    if (run.thread != NULL)
        st = pl_place_find(&run.place, ctx, NULL, &call);
    if (st == PL_OK) {
        st = pl_variant_build(&v, &j->ask, &run);
        pl_place_leave(&run.place, ctx);
    }
    pl_cache_settle(&ctx->cache, j->entry, v, is_final(st) ? &err : NULL);
}

/* The next job; NULL when it is time to stop. */
static struct pl_async_job *take_job(struct pl_async *a)
{
    pthread_mutex_lock(&a->lock);
    while (a->first == NULL && !a->is_stopping)
        pthread_cond_wait(&a->changed, &a->lock);
    struct pl_async_job *j = a->is_stopping ? NULL : a->first;
    if (j != NULL)
        a->first = j->next;
    if (a->first == NULL)
        a->last = NULL;
    pthread_mutex_unlock(&a->lock);
    return j;
}

static void *work(void *p)
{
    struct pl_context *ctx = p;
    for (struct pl_async_job *j; (j = take_job(&ctx->async)) != NULL;) {
        run_job(ctx, j);
        ctx->hooks.free(j, ctx->hooks.user);
    }
    return NULL;
}

void pl_async_init(struct pl_async *a, int n_threads)
{
    *a = (struct pl_async){.n_wanted = n_threads < 1                      ? 1
                                       : n_threads > PL_ASYNC_MAX_THREADS ? PL_ASYNC_MAX_THREADS
                                                                          : n_threads};
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
}

void pl_async_fini(struct pl_async *a, struct pl_context *ctx, bool is_child)
{
    struct pl_async_job *next;
    if (!is_child) { /* a child has no such threads, and their lock may be taken for ever */
        pthread_mutex_lock(&a->lock);
        a->is_stopping = true;
        pthread_cond_broadcast(&a->changed);
        pthread_mutex_unlock(&a->lock);
        for (int i = 0; i < a->n_started; i++)
            pthread_join(a->threads[i], NULL);
        pthread_cond_destroy(&a->changed);
        pthread_mutex_destroy(&a->lock);
    }
    for (struct pl_async_job *j = a->first; j != NULL; j = next) {
        next = j->next;
        ctx->hooks.free(j, ctx->hooks.user);
    }
}

pl_status pl_async_add(struct pl_context *ctx, struct pl_entry *e, const struct pl_ask *ask,
                       struct pl_call *call)
{
    struct pl_async *a = &ctx->async;
    struct pl_async_job *j = make_job(ctx, e, ask);
    bool has_worker = false;
    if (j != NULL) {
        pthread_mutex_lock(&a->lock);
        if (a->n_started < a->n_wanted &&
            pthread_create(&a->threads[a->n_started], NULL, work, ctx) == 0)
            a->n_started++;
        has_worker = a->n_started != 0;
        if (has_worker) {
            *(a->last != NULL ? &a->last->next : &a->first) = j;
            a->last = j;
            pthread_cond_signal(&a->changed);
        }
        pthread_mutex_unlock(&a->lock);
    }
    if (has_worker)
        return pl_e_pending(call, PL_E_PENDING, (struct pl_where){0}, call->kernel);
    if (j != NULL)
        ctx->hooks.free(j, ctx->hooks.user);
    pl_cache_settle(&ctx->cache, e, NULL, NULL);
    return pl_e_out_of_memory(call, PL_E_NOMEM, (struct pl_where){0}, "a build's worker");
}
