/*
 * Executable graphs. Driver API reference: Graph Management.
 */
#include "emu/api/capture.h"
#include "emu/api/diag.h"
#include "emu/api/event.h"
#include "emu/api/graph.h"
#include "emu/api/module.h"

#include <stdlib.h>
#include <string.h>

enum { AUTO_FREE_ON_LAUNCH = 1 }; /* CUDA_GRAPH_INSTANTIATE_FLAG_… */

/* One piece of work of the executable graph, in the order of launch. */
struct item {
    CUgraphNode node; /* that it comes from: the key of later changes */
    CUgraphNodeType type;
    CUevent event;
    struct pl_work work;
    bool is_enabled;
};

struct pl_exec {
    struct pl_obj obj;
    unsigned long long flags;
    uint32_t n, cap;
    struct item *items;
};

static void free_exec(struct pl_exec *x)
{
    for (uint32_t i = 0; i < x->n; i++)
        pl_work_fini(&x->items[i].work);
    pl_obj_remove(&x->obj);
    free(x->items);
    free(x);
}

void pl_exec_reset(void)
{
    uint32_t i = 0;
    for (struct pl_exec *x; (x = pl_obj_next(&i, PL_OBJ_EXEC)) != NULL;)
        free_exec(x);
}

static bool add_item(struct pl_exec *x, const struct pl_node *n)
{
    if (x->n == x->cap) {
        uint32_t cap = x->cap == 0 ? 16 : x->cap * 2;
        struct item *items = realloc(x->items, cap * sizeof *items);
        if (items == NULL)
            return false;
        x->items = items;
        x->cap = cap;
    }
    struct item *it = &x->items[x->n];
    *it = (struct item){
        .node = pl_obj_handle(&n->obj), .type = n->type, .event = n->event, .is_enabled = true};
    if (!pl_work_copy(&it->work, &n->work))
        return false;
    x->n++;
    return true;
}

static bool add_graph(struct pl_exec *x, const struct pl_graph *g);

/* Depth first: what it depends on, then the node. */
static bool add_node(struct pl_exec *x, struct pl_node *n)
{
    if (n->order != 0)
        return true;
    n->order = 1;
    for (uint32_t i = 0; i < n->n_deps; i++)
        if (!add_node(x, n->deps[i]))
            return false;
    return n->child != NULL ? add_graph(x, n->child) : add_item(x, n);
}

static bool add_graph(struct pl_exec *x, const struct pl_graph *g)
{
    bool ok = true;
    for (struct pl_node *n = g->first; ok && n != NULL; n = n->next)
        ok = add_node(x, n);
    for (struct pl_node *n = g->first; n != NULL; n = n->next)
        n->order = 0;
    return ok;
}

static CUresult create_exec(const struct pl_graph *g, unsigned long long flags,
                            struct pl_exec **out)
{
    struct pl_exec *x = calloc(1, sizeof *x);
    if (x == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    x->flags = flags;
    if (!pl_obj_add(&x->obj, PL_OBJ_EXEC) || !add_graph(x, g)) {
        free_exec(x);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = x;
    return CUDA_SUCCESS;
}

CUresult pl_cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    const struct pl_graph *g = pl_obj_find(graph, PL_OBJ_GRAPH);
    struct pl_exec *x;
    if (exec == NULL || g == NULL || (flags & ~15ull) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if ((flags & 4) != 0)
        return CUDA_ERROR_NOT_SUPPORTED; /* launch from the device */
    CUresult r = create_exec(g, flags, &x);
    if (r == CUDA_SUCCESS)
        *exec = pl_obj_handle(&x->obj);
    return r;
}

CUresult pl_cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
                                         CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    if (params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = pl_cuGraphInstantiateWithFlags(exec, graph, params->flags);
    params->hErrNode_out = NULL;
    params->result_out =
        r == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    return r;
}

CUresult pl_cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node,
                                  char *log, size_t log_n_bytes)
{
    if (error_node != NULL)
        *error_node = NULL;
    if (log != NULL && log_n_bytes != 0)
        log[0] = '\0';
    return pl_cuGraphInstantiateWithFlags(exec, graph, 0);
}

CUresult pl_cuGraphExecDestroy(CUgraphExec exec)
{
    struct pl_exec *x = pl_obj_find(exec, PL_OBJ_EXEC);
    if (x == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    free_exec(x); /* launches made already have their own copies */
    return CUDA_SUCCESS;
}

CUresult pl_cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags)
{
    const struct pl_exec *x = pl_obj_find(exec, PL_OBJ_EXEC);
    if (x == NULL || flags == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = x->flags;
    return CUDA_SUCCESS;
}

/* ---- launch ----------------------------------------------------------------------------------------------------------- */

/* A kernel whose module is gone would run freed code: say so before anything is launched. */
static CUresult check_kernels(const struct pl_exec *x)
{
    for (uint32_t i = 0; i < x->n; i++) {
        const struct pl_work *w = &x->items[i].work;
        if (w->kind != PL_WORK_KERNEL || pl_obj_find(w->kernel.handle, PL_OBJ_FUNCTION) != NULL)
            continue;
        struct pl_say say;
        char text[400];
        pl_say_init(&say);
        pl_d_stale_graph(&say.diags, (struct pl_where){0});
        pl_say_finish(&say, text, sizeof text);
        pl_process_note(text);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    return CUDA_SUCCESS;
}

static CUresult launch_item(const struct item *it, struct pl_stream *s)
{
    struct pl_work w;
    struct pl_event *e = it->event == NULL ? NULL : pl_obj_find(it->event, PL_OBJ_EVENT);
    if (it->event != NULL && e == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!pl_work_copy(&w, &it->work))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct pl_mark *mark = NULL;
    bool is_wait = it->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT;
    CUresult r = pl_stream_submit(s, &w, is_wait ? e->mark : NULL, &mark);
    if (r == CUDA_SUCCESS && it->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) {
        pl_mark_release(e->mark);
        e->mark = pl_mark_retain(mark);
        e->capture_id = 0;
    }
    pl_mark_release(mark);
    return r;
}

/* What the exec launches, as a graph: its items one behind the other. */
static struct pl_graph *graph_of(const struct pl_exec *x)
{
    struct pl_graph *g = pl_graph_create();
    struct pl_node *last = NULL;
    bool ok = g != NULL;
    for (uint32_t i = 0; ok && i < x->n; i++) {
        const struct item *it = &x->items[i];
        CUgraphNodeType type = it->is_enabled ? it->type : CU_GRAPH_NODE_TYPE_EMPTY;
        last = pl_graph_add(g, type, &last, last != NULL ? 1 : 0);
        ok = last != NULL && (!it->is_enabled || pl_work_copy(&last->work, &it->work));
        if (ok && it->is_enabled)
            last->event = it->event;
    }
    if (!ok && g != NULL)
        pl_graph_destroy(g);
    return ok ? g : NULL;
}

/* The graph's own memory is given out once at a time, unless the exec frees it itself at its launch. */
static CUresult check_memory(const struct pl_exec *x)
{
    for (uint32_t i = 0; i < x->n; i++) {
        const struct pl_work *w = &x->items[i].work;
        if (w->kind == PL_WORK_GRAPH_ALLOC && w->graph_memory->is_out &&
            (x->flags & AUTO_FREE_ON_LAUNCH) == 0)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static void give_memory(const struct pl_exec *x)
{
    for (uint32_t i = 0; i < x->n; i++) {
        const struct pl_work *w = &x->items[i].work;
        if (w->kind == PL_WORK_GRAPH_ALLOC || w->kind == PL_WORK_GRAPH_FREE)
            w->graph_memory->is_out = w->kind == PL_WORK_GRAPH_ALLOC;
    }
}

/* In a capture, the launch is a child graph, which cannot have memory of its own. */
static CUresult capture_launch(struct pl_stream *s, const struct pl_exec *x)
{
    for (uint32_t i = 0; i < x->n; i++)
        if (x->items[i].work.kind == PL_WORK_GRAPH_ALLOC ||
            x->items[i].work.kind == PL_WORK_GRAPH_FREE)
            return pl_capture_invalidate(s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    struct pl_graph *g = graph_of(x);
    return g == NULL ? pl_capture_invalidate(s->capture, CUDA_ERROR_OUT_OF_MEMORY)
                     : pl_capture_add_child(s, g);
}

CUresult pl_cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    struct pl_stream *s;
    const struct pl_exec *x = pl_obj_find(exec, PL_OBJ_EXEC);
    CUresult r = pl_stream_find(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (x == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    r = pl_ctx_check(s->ctx);
    if (r == CUDA_SUCCESS)
        r = check_kernels(x);
    if (r == CUDA_SUCCESS && s->capture != NULL)
        return capture_launch(s, x);
    if (r == CUDA_SUCCESS)
        r = check_memory(x);
    for (uint32_t i = 0; r == CUDA_SUCCESS && i < x->n; i++)
        if (x->items[i].is_enabled)
            r = launch_item(&x->items[i], s);
    if (r == CUDA_SUCCESS)
        give_memory(x);
    return r;
}

CUresult pl_cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    struct pl_stream *s;
    CUresult r = pl_stream_find(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    return pl_obj_find(exec, PL_OBJ_EXEC) == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* ---- changes ----------------------------------------------------------------------------------------------------------- */

static struct item *find_item(CUgraphExec exec, CUgraphNode node)
{
    struct pl_exec *x = pl_obj_find(exec, PL_OBJ_EXEC);
    for (uint32_t i = 0; x != NULL && i < x->n; i++)
        if (x->items[i].node == node)
            return &x->items[i];
    return NULL;
}

CUresult pl_cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params)
{
    struct item *it = find_item(exec, node);
    return it == NULL || params == NULL ? CUDA_ERROR_INVALID_VALUE
                                        : pl_work_replace(&it->work, params);
}

CUresult pl_cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                              const CUDA_KERNEL_NODE_PARAMS *params)
{
    if (params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_KERNEL, .kernel = *params};
    return pl_cuGraphExecNodeSetParams(exec, node, &p);
}

CUresult pl_cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    CUDA_KERNEL_NODE_PARAMS full = {0};
    if (params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&full, params, sizeof *params);
    return pl_cuGraphExecKernelNodeSetParams_v2(exec, node, &full);
}

CUresult pl_cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_MEMCPY3D *copy, CUcontext ctx)
{
    if (copy == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
    p.memcpy = (CUDA_MEMCPY_NODE_PARAMS){.copyCtx = ctx, .copyParams = *copy};
    return pl_cuGraphExecNodeSetParams(exec, node, &p);
}

CUresult pl_cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_MEMSET_NODE_PARAMS *memset, CUcontext ctx)
{
    if (memset == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
    p.memset.params = *memset;
    p.memset.ctx = ctx;
    return pl_cuGraphExecNodeSetParams(exec, node, &p);
}

CUresult pl_cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                         const CUDA_HOST_NODE_PARAMS *params)
{
    if (params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_HOST, .host = *params};
    return pl_cuGraphExecNodeSetParams(exec, node, &p);
}

static CUresult set_event(CUgraphExec exec, CUgraphNode node, CUgraphNodeType type, CUevent event)
{
    struct item *it = find_item(exec, node);
    if (it == NULL || it->type != type)
        return CUDA_ERROR_INVALID_VALUE;
    if (pl_obj_find(event, PL_OBJ_EVENT) == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    it->event = event;
    return CUDA_SUCCESS;
}

CUresult pl_cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
    return set_event(exec, node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}

CUresult pl_cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
    return set_event(exec, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

static bool can_be_disabled(const struct item *it)
{
    return it->work.kind == PL_WORK_KERNEL || it->work.kind == PL_WORK_COPY ||
           it->work.kind == PL_WORK_FILL;
}

CUresult pl_cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int is_enabled)
{
    struct item *it = find_item(exec, node);
    if (it == NULL || !can_be_disabled(it))
        return CUDA_ERROR_INVALID_VALUE;
    it->is_enabled = is_enabled != 0;
    return CUDA_SUCCESS;
}

CUresult pl_cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int *is_enabled)
{
    const struct item *it = find_item(exec, node);
    if (it == NULL || is_enabled == NULL || !can_be_disabled(it))
        return CUDA_ERROR_INVALID_VALUE;
    *is_enabled = it->is_enabled;
    return CUDA_SUCCESS;
}

/* The same kinds of work in the same order, and the same functions: then the new graph's work takes the place of the old. */
static CUgraphExecUpdateResult compare(const struct pl_exec *a, const struct pl_exec *b,
                                       uint32_t *at)
{
    *at = 0;
    if (a->n != b->n)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (; *at < a->n; ++*at) {
        const struct item *x = &a->items[*at], *y = &b->items[*at];
        if (x->type != y->type)
            return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        if (x->type == CU_GRAPH_NODE_TYPE_KERNEL &&
            x->work.kernel.function->module->ctx != y->work.kernel.function->module->ctx)
            return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
    }
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

static void exchange(struct item *to, struct item *fresh)
{
    struct pl_work old = to->work;
    to->work = fresh->work;
    to->event = fresh->event;
    fresh->work = old;
}

CUresult pl_cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    struct pl_exec *x = pl_obj_find(exec, PL_OBJ_EXEC), *fresh;
    const struct pl_graph *g = pl_obj_find(graph, PL_OBJ_GRAPH);
    uint32_t at;
    if (x == NULL || g == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = check_kernels(x);
    if (r == CUDA_SUCCESS)
        r = create_exec(g, x->flags, &fresh);
    if (r != CUDA_SUCCESS)
        return r;
    r = check_kernels(fresh);
    if (r != CUDA_SUCCESS) {
        free_exec(fresh);
        return r;
    }
    CUgraphExecUpdateResult how = compare(x, fresh, &at);
    if (info != NULL)
        *info = (CUgraphExecUpdateResultInfo){.result = how,
                                              .errorNode = how != CU_GRAPH_EXEC_UPDATE_SUCCESS &&
                                                                   at < fresh->n
                                                               ? fresh->items[at].node
                                                               : NULL};
    for (uint32_t i = 0; how == CU_GRAPH_EXEC_UPDATE_SUCCESS && i < x->n; i++)
        exchange(&x->items[i], &fresh->items[i]);
    free_exec(fresh);
    return how == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS
                                               : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

/* The part of the exec that came of the node's child graph, whose nodes are its items' keys, gets the work of another graph of
 * the same shape. */
CUresult pl_cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
    struct pl_exec *x = pl_obj_find(exec, PL_OBJ_EXEC), *old, *fresh;
    const struct pl_node *n = pl_obj_find(node, PL_OBJ_NODE);
    const struct pl_graph *g = pl_obj_find(child, PL_OBJ_GRAPH);
    uint32_t at;
    if (x == NULL || g == NULL || n == NULL || n->type != CU_GRAPH_NODE_TYPE_GRAPH)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = create_exec(n->child, 0, &old);
    if (r != CUDA_SUCCESS)
        return r;
    r = create_exec(g, 0, &fresh);
    if (r == CUDA_SUCCESS) {
        r = check_kernels(old);
        if (r == CUDA_SUCCESS)
            r = check_kernels(fresh);
        if (r == CUDA_SUCCESS && compare(old, fresh, &at) != CU_GRAPH_EXEC_UPDATE_SUCCESS)
            r = CUDA_ERROR_INVALID_VALUE;
        for (uint32_t i = 0; r == CUDA_SUCCESS && i < old->n; i++)
            if (find_item(exec, old->items[i].node) == NULL)
                r = CUDA_ERROR_INVALID_VALUE;
        for (uint32_t i = 0; r == CUDA_SUCCESS && i < old->n; i++)
            exchange(find_item(exec, old->items[i].node), &fresh->items[i]);
        free_exec(fresh);
    }
    free_exec(old);
    return r;
}
