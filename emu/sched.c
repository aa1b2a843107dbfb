#include "emu/sched.h"

#include "base/diag.h"
#include "emu/cluster.h"
#include "emu/device.h"
#include "emu/faults.h"
#include "emu/program.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    QUANTUM = 1 << 16, /* warp instructions of a cluster's turn */
    MAX_THREADS = 256,
    GRACE =
        64, /* turns that a cluster has left once a later one has failed: it may wait for that one for ever */
};

/*
 * A fault ends the grid, but not at once: clusters before the one that failed run on, since one of them may fail as well, and the
 * fault of the lowest cluster is reported, whichever thread came to one first.
 */

struct pl_emu_sched {
    struct pl_emu_grid *grid;
    pthread_mutex_t lock;
    pthread_cond_t is_over;
    uint32_t next; /* cluster to start */
    uint32_t n_done, n_resident, max_resident, n_running;
    struct pl_emu_cluster *first, *last; /* suspended, in order (link: sched_next) */
    struct pl_emu_cluster *spare;        /* storage to use again */
    bool is_failed;
    uint32_t failed_index; /* the lowest cluster that failed */
    struct pl_emu_fault *fault;
    uint64_t n_instructions, n_lane_ops;
    struct pl_emu_sched *next_job; /* of the pool */
    uint32_t n_helpers, max_helpers;
};

struct pl_emu_pool {
    pthread_mutex_t lock;
    pthread_cond_t has_work;
    struct pl_emu_sched *jobs;
    pthread_t threads[MAX_THREADS];
    uint32_t n_threads;
    bool is_stopping;
};

/* ---- clusters ----------------------------------------------------------------------------------------------------------------------------- */

static void push_suspended(struct pl_emu_sched *s, struct pl_emu_cluster *cl)
{
    cl->sched_next = NULL;
    if (s->last != NULL)
        s->last->sched_next = cl;
    else
        s->first = cl;
    s->last = cl;
}

static bool may_go_on(const struct pl_emu_sched *s, const struct pl_emu_cluster *cl)
{
    return !s->is_failed || (cl->index < s->failed_index && cl->n_grace < GRACE);
}

/* The first that may go on; after a fault the others stay where they are until the grid is over. */
static struct pl_emu_cluster *pop_suspended(struct pl_emu_sched *s)
{
    struct pl_emu_cluster **at = &s->first, *before = NULL;
    while (*at != NULL && !may_go_on(s, *at)) {
        before = *at;
        at = &before->sched_next;
    }
    struct pl_emu_cluster *cl = *at;
    if (cl == NULL)
        return NULL;
    *at = cl->sched_next;
    if (s->last == cl)
        s->last = before;
    cl->n_grace += s->is_failed;
    return cl;
}

static void fail_without_memory(struct pl_emu_sched *s, uint32_t index)
{
    s->is_failed = true;
    s->failed_index = index;
    s->fault->code = pl_di_emu_no_memory.code;
    s->fault->result = pl_emu_result_of(s->fault->code);
    snprintf(s->fault->text, sizeof s->fault->text, "%s", pl_di_emu_no_memory.format);
}

/* A cluster to run, locked: a new one while there is room, else the one that has waited longest. NULL: none now. */
static struct pl_emu_cluster *take(struct pl_emu_sched *s)
{
    if (s->is_failed || s->next == s->grid->n_clusters || s->n_resident == s->max_resident)
        return pop_suspended(s);
    struct pl_emu_cluster *cl = s->spare;
    uint32_t index = s->next++;
    s->n_resident++;
    if (cl != NULL)
        s->spare = cl->sched_next;
    s->n_running++; /* while it is made: the launching thread must wait for it, not ask again with the lock held */
    pthread_mutex_unlock(&s->lock);
    if (cl == NULL)
        cl = pl_emu_cluster_create(s->grid);
    bool is_ok =
        cl != NULL && pl_emu_cluster_start(cl, index, index % s->grid->device->config.n_sms);
    pthread_mutex_lock(&s->lock);
    s->n_running--;
    if (is_ok)
        return cl;
    pl_emu_cluster_destroy(cl);
    s->n_resident--;
    if (!s->is_failed || index < s->failed_index)
        fail_without_memory(s, index);
    return NULL;
}

/* The mnemonic of a row has ".%" for each modifier, which says nothing to a reader. */
static void drop_modifiers(char *text)
{
    for (char *p = text; (p = strstr(p, ".%")) != NULL;)
        memmove(p, p + 2, strlen(p + 2) + 1);
}

static void note_fault(struct pl_emu_sched *s, const struct pl_emu_cluster *cl)
{
    if (s->is_failed && s->failed_index < cl->index)
        return;
    fail_without_memory(s, cl->index);
    if (cl->faults->list.n == 0)
        return;
    const struct pl_diag *d = &cl->faults->list.data[0];
    struct pl_emu_fault *f = s->fault;
    f->code = d->info->code;
    f->result = pl_emu_result_of(f->code);
    f->line = (uint32_t)d->where.line;
    snprintf(f->text, sizeof f->text, "%s", d->text != NULL ? d->text : d->info->format);
    drop_modifiers(f->text);
    snprintf(f->entry, sizeof f->entry, "%s", s->grid->entry->info.name);
    const struct pl_emu_warp *w = cl->fault_warp;
    memcpy(f->cta, w != NULL ? w->cta->id : cl->ctas[0].id, sizeof f->cta);
    f->warp = w != NULL ? w->index : 0;
    f->lane = w != NULL ? w->fault_lane : 0;
}

static void finish(struct pl_emu_sched *s, struct pl_emu_cluster *cl)
{
    s->n_instructions += cl->n_instructions;
    s->n_lane_ops += cl->n_lane_ops;
    cl->n_instructions = cl->n_lane_ops = 0;
    s->n_resident--;
    s->n_done++;
    cl->sched_next = s->spare;
    s->spare = cl;
}

/* Run clusters until there is none to take. Called and left with the lock held. */
static void work(struct pl_emu_sched *s)
{
    struct pl_emu_cluster *cl;
    while ((cl = take(s)) != NULL) {
        s->n_running++;
        pthread_mutex_unlock(&s->lock);
        enum pl_emu_run r = pl_emu_cluster_run(cl, QUANTUM);
        pthread_mutex_lock(&s->lock);
        s->n_running--;
        if (r == PL_EMU_RUN_SUSPENDED) {
            push_suspended(s, cl);
            continue;
        }
        if (r == PL_EMU_RUN_FAULT)
            note_fault(s, cl);
        finish(s, cl);
    }
    if (s->n_running == 0)
        pthread_cond_broadcast(&s->is_over);
}

/* ---- helpers ------------------------------------------------------------------------------------------------------------------------------- */

static struct pl_emu_sched *find_job(struct pl_emu_pool *p)
{
    for (struct pl_emu_sched *j = p->jobs; j != NULL; j = j->next_job)
        if (j->n_helpers < j->max_helpers)
            return j;
    return NULL;
}

static void *help(void *arg)
{
    struct pl_emu_pool *p = arg;
    pthread_mutex_lock(&p->lock);
    while (!p->is_stopping) {
        struct pl_emu_sched *j = find_job(p);
        if (j == NULL) {
            pthread_cond_wait(&p->has_work, &p->lock);
            continue;
        }
        j->n_helpers++;
        pthread_mutex_unlock(&p->lock);
        pthread_mutex_lock(&j->lock);
        work(j);
        pthread_mutex_unlock(&j->lock);
        pthread_mutex_lock(&p->lock);
        j->max_helpers = 0; /* nothing was left to take: no need to come again */
        j->n_helpers--;
        pthread_cond_broadcast(&p->has_work);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

struct pl_emu_pool *pl_emu_pool_create(void)
{
    struct pl_emu_pool *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->has_work, NULL);
    return p;
}

void pl_emu_pool_destroy(struct pl_emu_pool *p)
{
    if (p == NULL)
        return;
    pthread_mutex_lock(&p->lock);
    p->is_stopping = true;
    pthread_cond_broadcast(&p->has_work);
    pthread_mutex_unlock(&p->lock);
    for (uint32_t i = 0; i < p->n_threads; i++)
        pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->has_work);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

static void offer(struct pl_emu_pool *p, struct pl_emu_sched *s, uint32_t n_helpers)
{
    pthread_mutex_lock(&p->lock);
    while (p->n_threads < n_helpers && p->n_threads < MAX_THREADS &&
           pthread_create(&p->threads[p->n_threads], NULL, help, p) == 0)
        p->n_threads++;
    s->max_helpers = n_helpers;
    s->next_job = p->jobs;
    p->jobs = s;
    pthread_cond_broadcast(&p->has_work);
    pthread_mutex_unlock(&p->lock);
}

/* Take the job off the list and wait until no helper looks at it any more. */
static void withdraw(struct pl_emu_pool *p, struct pl_emu_sched *s)
{
    pthread_mutex_lock(&p->lock);
    for (struct pl_emu_sched **at = &p->jobs; *at != NULL; at = &(*at)->next_job)
        if (*at == s) {
            *at = s->next_job;
            break;
        }
    while (s->n_helpers != 0)
        pthread_cond_wait(&p->has_work, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

bool pl_emu_sched_cancel(struct pl_emu_grid *g, uint32_t *index)
{
    struct pl_emu_sched *s = g->sched;
    pthread_mutex_lock(&s->lock);
    bool is_taken = !s->is_failed && s->next < g->n_clusters;
    if (is_taken) {
        *index = s->next++;
        s->n_done++; /* it will never run */
    }
    pthread_mutex_unlock(&s->lock);
    return is_taken;
}

static void destroy_list(struct pl_emu_cluster *cl)
{
    while (cl != NULL) {
        struct pl_emu_cluster *next = cl->sched_next;
        pl_emu_cluster_destroy(cl);
        cl = next;
    }
}

bool pl_emu_sched_run(struct pl_emu_pool *pool, struct pl_emu_grid *g, uint32_t n_threads,
                      uint32_t n_resident, struct pl_emu_fault *fault)
{
    struct pl_emu_sched s = {.grid = g, .max_resident = n_resident, .fault = fault};
    pthread_mutex_init(&s.lock, NULL);
    pthread_cond_init(&s.is_over, NULL);
    g->sched = &s;
    uint32_t n_helpers = n_threads - 1 < g->n_clusters - 1 ? n_threads - 1 : g->n_clusters - 1;
    if (n_helpers != 0)
        offer(pool, &s, n_helpers);
    pthread_mutex_lock(&s.lock);
    work(&s);
    while (!(s.n_running == 0 && (s.is_failed || s.n_done == g->n_clusters))) {
        if (s.n_running != 0)
            pthread_cond_wait(&s.is_over, &s.lock);
        work(&s);
    }
    pthread_mutex_unlock(&s.lock);
    if (n_helpers != 0)
        withdraw(pool, &s);
    destroy_list(s.first);
    destroy_list(s.spare);
    struct pl_emu_device *d = g->device;
    pthread_mutex_lock(&d->lock);
    d->counters.launches++;
    d->counters.instructions += s.n_instructions;
    d->counters.lane_ops += s.n_lane_ops;
    d->counters.clusters += s.n_done;
    pthread_mutex_unlock(&d->lock);
    pthread_cond_destroy(&s.is_over);
    pthread_mutex_destroy(&s.lock);
    return !s.is_failed;
}
