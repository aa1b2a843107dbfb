/*
 * Graphs by hand: nodes, edges, queries. Driver API reference: Graph Management. Executable graphs are in emu/api/exec.c.
 */
#include "emu/api/graph.h"

#include "emu/api/capture.h"
#include "emu/api/launch.h"
#include "emu/api/mem.h"

#include <stdlib.h>
#include <string.h>

/* ---- structure ------------------------------------------------------------------------------------------------------ */

CUgraphNodeType pl_work_node_type(enum pl_work_kind kind)
{
    switch (kind) {
    case PL_WORK_EMPTY: return CU_GRAPH_NODE_TYPE_EMPTY;
    case PL_WORK_KERNEL: return CU_GRAPH_NODE_TYPE_KERNEL;
    case PL_WORK_COPY: return CU_GRAPH_NODE_TYPE_MEMCPY;
    case PL_WORK_FILL: return CU_GRAPH_NODE_TYPE_MEMSET;
    case PL_WORK_HOST: return CU_GRAPH_NODE_TYPE_HOST;
    case PL_WORK_GRAPH_ALLOC: return CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    case PL_WORK_FREE:
    case PL_WORK_GRAPH_FREE: return CU_GRAPH_NODE_TYPE_MEM_FREE;
    case PL_WORK_WRITE_VALUE:
    case PL_WORK_WAIT_VALUE: return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    }
    return CU_GRAPH_NODE_TYPE_EMPTY;
}

struct pl_graph *pl_graph_create(void)
{
    struct pl_graph *g = calloc(1, sizeof *g);
    if (g == NULL || !pl_obj_add(&g->obj, PL_OBJ_GRAPH)) {
        free(g);
        return NULL;
    }
    return g;
}

static void free_node(struct pl_node *n)
{
    if (n->child != NULL)
        pl_graph_destroy(n->child);
    pl_obj_remove(&n->obj);
    pl_work_fini(&n->work);
    free(n->params);
    free(n->deps);
    free(n);
}

void pl_graph_destroy(struct pl_graph *g)
{
    for (struct pl_node *n = g->first, *next; n != NULL; n = next) {
        next = n->next;
        free_node(n);
    }
    pl_obj_remove(&g->obj);
    free(g);
}

bool pl_node_depend(struct pl_node *n, struct pl_node *on)
{
    for (uint32_t i = 0; i < n->n_deps; i++)
        if (n->deps[i] == on)
            return true;
    struct pl_node **deps = realloc(n->deps, (n->n_deps + 1) * sizeof(struct pl_node *));
    if (deps == NULL)
        return false;
    n->deps = deps;
    n->deps[n->n_deps++] = on;
    return true;
}

struct pl_node *pl_graph_add(struct pl_graph *g, CUgraphNodeType type, struct pl_node *const *deps,
                             uint32_t n_deps)
{
    struct pl_node *n = calloc(1, sizeof *n);
    if (n == NULL)
        return NULL;
    n->graph = g;
    n->type = type;
    bool ok = pl_obj_add(&n->obj, PL_OBJ_NODE);
    for (uint32_t i = 0; ok && i < n_deps; i++)
        ok = pl_node_depend(n, deps[i]);
    if (!ok) {
        free_node(n);
        return NULL;
    }
    if (g->last != NULL)
        g->last->next = n;
    else
        g->first = n;
    g->last = n;
    g->n_nodes++;
    return n;
}

/* `order` marks what was seen; it is 0 in all nodes between calls. */
static bool reaches(struct pl_node *from, const struct pl_node *to)
{
    if (from == to)
        return true;
    from->order = 1;
    for (uint32_t i = 0; i < from->n_deps; i++)
        if (from->deps[i]->order == 0 && reaches(from->deps[i], to))
            return true;
    return false;
}

bool pl_node_reaches(const struct pl_node *from, const struct pl_node *to)
{
    bool is_reached = reaches((struct pl_node *)(uintptr_t)from, to);
    for (struct pl_node *n = from->graph->first; n != NULL; n = n->next)
        n->order = 0;
    return is_reached;
}

static bool is_captured(const struct pl_graph *g)
{
    for (const struct pl_capture *c = pl_process.captures; c != NULL; c = c->next)
        if (c->graph == g)
            return true;
    return false;
}

void pl_graph_reset(void)
{
    uint32_t i = 0;
    for (struct pl_graph *g; (g = pl_obj_next(&i, PL_OBJ_GRAPH)) != NULL;)
        if (!g->is_child)
            pl_graph_destroy(g);
    pl_exec_reset();
}

static struct pl_graph *clone_graph(const struct pl_graph *from);

/* Everything but the edges. */
static bool clone_node(const struct pl_node *from, struct pl_graph *to)
{
    struct pl_node *n = pl_graph_add(to, from->type, NULL, 0);
    if (n == NULL || !pl_work_copy(&n->work, &from->work))
        return false;
    n->event = from->event;
    n->origin = pl_obj_handle(&from->obj);
    if (from->child == NULL)
        return true;
    n->child = clone_graph(from->child);
    if (n->child != NULL)
        n->child->is_child = true;
    return n->child != NULL;
}

/* The node of `to` at the place that n has in its own graph. */
static struct pl_node *twin(const struct pl_node *n, const struct pl_graph *to)
{
    struct pl_node *t = to->first;
    for (const struct pl_node *at = n->graph->first; at != n; at = at->next)
        t = t->next;
    return t;
}

static struct pl_graph *clone_graph(const struct pl_graph *from)
{
    struct pl_graph *to = pl_graph_create();
    bool ok = to != NULL;
    for (const struct pl_node *n = from->first; ok && n != NULL; n = n->next)
        ok = clone_node(n, to);
    for (const struct pl_node *n = from->first; ok && n != NULL; n = n->next)
        for (uint32_t i = 0; ok && i < n->n_deps; i++)
            ok = pl_node_depend(twin(n, to), twin(n->deps[i], to));
    if (!ok && to != NULL)
        pl_graph_destroy(to);
    return ok ? to : NULL;
}

/* ---- creating and destroying ----------------------------------------------------------------------------------------- */

CUresult pl_cuGraphCreate(CUgraph *graph, unsigned int flags)
{
    if (graph == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct pl_graph *g = pl_graph_create();
    if (g == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *graph = pl_obj_handle(&g->obj);
    return CUDA_SUCCESS;
}

CUresult pl_cuGraphDestroy(CUgraph graph)
{
    struct pl_graph *g = pl_obj_find(graph, PL_OBJ_GRAPH);
    if (g == NULL || g->is_child)
        return CUDA_ERROR_INVALID_VALUE;
    if (is_captured(g))
        return CUDA_ERROR_ILLEGAL_STATE;
    pl_graph_destroy(g);
    return CUDA_SUCCESS;
}

CUresult pl_cuGraphClone(CUgraph *out, CUgraph graph)
{
    const struct pl_graph *g = pl_obj_find(graph, PL_OBJ_GRAPH);
    if (out == NULL || g == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (pl_graph_has_memory(g))
        return CUDA_ERROR_NOT_SUPPORTED;
    struct pl_graph *copy = clone_graph(g);
    if (copy == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = pl_obj_handle(&copy->obj);
    return CUDA_SUCCESS;
}

CUresult pl_cuGraphDestroyNode(CUgraphNode node)
{
    struct pl_node *n = pl_obj_find(node, PL_OBJ_NODE);
    if (n == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct pl_graph *g = n->graph;
    if (is_captured(g))
        return CUDA_ERROR_ILLEGAL_STATE;
    if (pl_graph_has_memory(g))
        return CUDA_ERROR_NOT_SUPPORTED;
    struct pl_node *before = NULL;
    for (struct pl_node *at = g->first; at != NULL; at = at->next) {
        uint32_t kept = 0;
        for (uint32_t i = 0; i < at->n_deps; i++)
            if (at->deps[i] != n)
                at->deps[kept++] = at->deps[i];
        at->n_deps = kept;
        if (at->next == n)
            before = at;
    }
    if (before != NULL)
        before->next = n->next;
    else
        g->first = n->next;
    if (g->last == n)
        g->last = before;
    g->n_nodes--;
    free_node(n);
    return CUDA_SUCCESS;
}

/* ---- adding nodes -------------------------------------------------------------------------------------------------------- */

/* What the functions that add a node have in common. */
struct place {
    CUgraphNode *node;
    CUgraph graph;
    const CUgraphNode *deps;
    size_t n_deps;
};

static CUresult check_place(const struct place *p)
{
    const struct pl_graph *g = pl_obj_find(p->graph, PL_OBJ_GRAPH);
    if (p->node == NULL || g == NULL || (p->deps == NULL && p->n_deps != 0))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < p->n_deps; i++) {
        const struct pl_node *n = pl_obj_find(p->deps[i], PL_OBJ_NODE);
        if (n == NULL || n->graph != g)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/* The place was checked. Takes the work over. */
static CUresult add(const struct place *p, CUgraphNodeType type, struct pl_work *w,
                    struct pl_node **out)
{
    struct pl_node *n = pl_graph_add(pl_obj_find(p->graph, PL_OBJ_GRAPH), type, NULL, 0);
    bool ok = n != NULL;
    for (size_t i = 0; ok && i < p->n_deps; i++)
        ok = pl_node_depend(n, pl_obj_find(p->deps[i], PL_OBJ_NODE));
    if (!ok) {
        pl_work_fini(w);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    n->work = *w;
    *p->node = pl_obj_handle(&n->obj);
    if (out != NULL)
        *out = n;
    return CUDA_SUCCESS;
}

/* ctx NULL: the current one. */
static CUresult find_context(CUcontext handle, struct pl_context **ctx)
{
    *ctx = handle == NULL ? pl_ctx_current() : pl_obj_find(handle, PL_OBJ_CONTEXT);
    return *ctx == NULL ? CUDA_ERROR_INVALID_CONTEXT : pl_ctx_check(*ctx);
}

CUresult pl_work_from_kernel(const CUDA_KERNEL_NODE_PARAMS *p, struct pl_work *w)
{
    struct pl_context *ctx;
    if (p == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = find_context(p->ctx, &ctx);
    if (r != CUDA_SUCCESS)
        return r;
    CUfunction func = p->func != NULL ? p->func : (CUfunction)p->kern;
    const struct pl_function *f = pl_obj_find(func, PL_OBJ_FUNCTION);
    if (f != NULL)
        ctx = f->module->ctx;
    CUlaunchConfig c = {p->gridDimX,  p->gridDimY,       p->gridDimZ, p->blockDimX, p->blockDimY,
                        p->blockDimZ, p->sharedMemBytes, NULL,        NULL,         0};
    return pl_launch_prepare(ctx, func, &c, p->kernelParams, p->extra, w);
}

CUresult pl_work_from_memset(const CUDA_MEMSET_NODE_PARAMS *p, struct pl_work *w)
{
    if (p == NULL || p->width == 0 || p->height == 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct pl_fill f = {.address = p->dst,
                        .pitch_bytes = p->pitch,
                        .width_elems = p->width,
                        .height = p->height,
                        .value = p->value,
                        .elem_bytes = p->elementSize};
    CUresult r = pl_fill_check(&f);
    *w = (struct pl_work){.kind = PL_WORK_FILL, .fill = f};
    return r;
}

CUresult pl_work_from_copy(const CUDA_MEMCPY3D *p, struct pl_work *w)
{
    *w = (struct pl_work){.kind = PL_WORK_COPY};
    return pl_copy_from_3d(p, &w->copy);
}

CUresult pl_work_from_host(const CUDA_HOST_NODE_PARAMS *p, struct pl_work *w)
{
    if (p == NULL || p->fn == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *w = (struct pl_work){.kind = PL_WORK_HOST, .host = {.fn = p->fn, .user = p->userData}};
    return CUDA_SUCCESS;
}

CUresult pl_graph_add_work(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n_deps,
                           struct pl_work *w)
{
    struct place p = {node, graph, deps, n_deps};
    CUresult r = check_place(&p);
    if (r == CUDA_SUCCESS)
        return add(&p, pl_work_node_type(w->kind), w, NULL);
    pl_work_fini(w);
    return r;
}

static CUresult add_kernel(const struct place *p, const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct pl_work w;
    CUresult r = check_place(p);
    if (r == CUDA_SUCCESS)
        r = pl_work_from_kernel(params, &w);
    return r != CUDA_SUCCESS ? r : add(p, CU_GRAPH_NODE_TYPE_KERNEL, &w, NULL);
}

CUresult pl_cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
                                    size_t n_deps, const CUDA_KERNEL_NODE_PARAMS *params)
{
    return add_kernel(&(struct place){node, graph, deps, n_deps}, params);
}

/* The first form lacks the last two members. */
static CUDA_KERNEL_NODE_PARAMS from_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    CUDA_KERNEL_NODE_PARAMS full = {0};
    memcpy(&full, p, sizeof *p);
    return full;
}

CUresult pl_cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
                                 size_t n_deps, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    if (params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS full = from_v1(params);
    return add_kernel(&(struct place){node, graph, deps, n_deps}, &full);
}

CUresult pl_cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
                                 size_t n_deps, const CUDA_MEMCPY3D *copy, CUcontext ctx)
{
    struct place p = {node, graph, deps, n_deps};
    struct pl_context *c;
    struct pl_work w;
    CUresult r = check_place(&p);
    if (r == CUDA_SUCCESS)
        r = find_context(ctx, &c);
    if (r == CUDA_SUCCESS)
        r = pl_work_from_copy(copy, &w);
    return r != CUDA_SUCCESS ? r : add(&p, CU_GRAPH_NODE_TYPE_MEMCPY, &w, NULL);
}

CUresult pl_cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
                                 size_t n_deps, const CUDA_MEMSET_NODE_PARAMS *memset,
                                 CUcontext ctx)
{
    struct place p = {node, graph, deps, n_deps};
    struct pl_context *c;
    struct pl_work w;
    CUresult r = check_place(&p);
    if (r == CUDA_SUCCESS)
        r = find_context(ctx, &c);
    if (r == CUDA_SUCCESS)
        r = pl_work_from_memset(memset, &w);
    return r != CUDA_SUCCESS ? r : add(&p, CU_GRAPH_NODE_TYPE_MEMSET, &w, NULL);
}

CUresult pl_cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
                               size_t n_deps, const CUDA_HOST_NODE_PARAMS *params)
{
    struct place p = {node, graph, deps, n_deps};
    struct pl_work w;
    CUresult r = check_place(&p);
    if (r == CUDA_SUCCESS)
        r = pl_work_from_host(params, &w);
    return r != CUDA_SUCCESS ? r : add(&p, CU_GRAPH_NODE_TYPE_HOST, &w, NULL);
}

CUresult pl_cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
                                size_t n_deps)
{
    struct place p = {node, graph, deps, n_deps};
    CUresult r = check_place(&p);
    return r != CUDA_SUCCESS ? r : add(&p, CU_GRAPH_NODE_TYPE_EMPTY, &(struct pl_work){0}, NULL);
}

CUresult pl_cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
                                     size_t n_deps, CUgraph child)
{
    struct place p = {node, graph, deps, n_deps};
    const struct pl_graph *from = pl_obj_find(child, PL_OBJ_GRAPH);
    struct pl_node *n;
    CUresult r = check_place(&p);
    if (r != CUDA_SUCCESS)
        return r;
    if (from == NULL || child == graph)
        return CUDA_ERROR_INVALID_VALUE;
    if (pl_graph_has_memory(from))
        return CUDA_ERROR_NOT_SUPPORTED;
    struct pl_graph *copy = clone_graph(from);
    if (copy == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    copy->is_child = true;
    r = add(&p, CU_GRAPH_NODE_TYPE_GRAPH, &(struct pl_work){0}, &n);
    if (r == CUDA_SUCCESS)
        n->child = copy;
    else
        pl_graph_destroy(copy);
    return r;
}

static CUresult add_event(const struct place *p, CUgraphNodeType type, CUevent event)
{
    struct pl_node *n;
    CUresult r = check_place(p);
    if (r != CUDA_SUCCESS)
        return r;
    if (pl_obj_find(event, PL_OBJ_EVENT) == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    r = add(p, type, &(struct pl_work){0}, &n);
    if (r == CUDA_SUCCESS)
        n->event = event;
    return r;
}

CUresult pl_cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
                                      size_t n_deps, CUevent event)
{
    return add_event(&(struct place){node, graph, deps, n_deps}, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
                     event);
}

CUresult pl_cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
                                    size_t n_deps, CUevent event)
{
    return add_event(&(struct place){node, graph, deps, n_deps}, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
                     event);
}

CUresult pl_cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
                              const CUgraphEdgeData *dep_edges, size_t n_deps,
                              CUgraphNodeParams *params)
{
    (void)dep_edges; /* a full dependency is a legal reading of every edge type */
    if (params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return pl_cuGraphAddKernelNode_v2(node, graph, deps, n_deps, &params->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return pl_cuGraphAddMemcpyNode(node, graph, deps, n_deps, &params->memcpy.copyParams,
                                       params->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return pl_cuGraphAddMemsetNode(node, graph, deps, n_deps, &params->memset.params,
                                       params->memset.ctx);
    case CU_GRAPH_NODE_TYPE_HOST:
        return pl_cuGraphAddHostNode(node, graph, deps, n_deps, &params->host);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return pl_cuGraphAddChildGraphNode(node, graph, deps, n_deps, params->graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY: return pl_cuGraphAddEmptyNode(node, graph, deps, n_deps);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return pl_cuGraphAddEventWaitNode(node, graph, deps, n_deps, params->event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return pl_cuGraphAddEventRecordNode(node, graph, deps, n_deps, params->event);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return pl_cuGraphAddMemAllocNode(node, graph, deps, n_deps, &params->alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return pl_cuGraphAddMemFreeNode(node, graph, deps, n_deps, params->free.dptr);
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult pl_cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n_deps,
                           CUgraphNodeParams *params)
{
    return pl_cuGraphAddNode_v2(node, graph, deps, NULL, n_deps, params);
}

/* ---- parameters of nodes --------------------------------------------------------------------------------------------------- */

/* One pointer a parameter, into the block of the node's work. */
static bool list_params(struct pl_node *n)
{
    const struct pl_kernel_work *k = &n->work.kernel;
    const struct pl_emu_func_info *info = k->function->info;
    void **list = realloc(n->params, (info->n_params + 1) * sizeof(void *));
    if (list == NULL)
        return false;
    n->params = list;
    for (uint32_t i = 0; i < info->n_params; i++)
        list[i] = (uint8_t *)k->params + info->params[i].offset_bytes;
    return true;
}

const char *pl_work_kernel_name(const struct pl_work *w)
{
    const struct pl_function *f = pl_obj_find(w->kernel.handle, PL_OBJ_FUNCTION);
    return f != NULL ? f->info->name : "";
}

/* kernelParams is the node's own: good until the node goes or gets other parameters. */
CUresult pl_cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params)
{
    struct pl_node *n = pl_obj_find(node, PL_OBJ_NODE);
    if (n == NULL || params == NULL || n->type != CU_GRAPH_NODE_TYPE_KERNEL)
        return CUDA_ERROR_INVALID_VALUE;
    const struct pl_kernel_work *k = &n->work.kernel;
    if (pl_obj_find(k->handle, PL_OBJ_FUNCTION) == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!list_params(n))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *params = (CUDA_KERNEL_NODE_PARAMS){.func = k->handle,
                                        .gridDimX = k->grid[0],
                                        .gridDimY = k->grid[1],
                                        .gridDimZ = k->grid[2],
                                        .blockDimX = k->block[0],
                                        .blockDimY = k->block[1],
                                        .blockDimZ = k->block[2],
                                        .sharedMemBytes = k->dynamic_bytes,
                                        .kernelParams = n->params};
    return CUDA_SUCCESS;
}

CUresult pl_cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    CUDA_KERNEL_NODE_PARAMS full;
    if (params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = pl_cuGraphKernelNodeGetParams_v2(node, &full);
    if (r == CUDA_SUCCESS)
        memcpy(params, &full, sizeof *params);
    return r;
}

/* A launch attribute that the new parameters do not carry stays as it is. */
static void keep_attributes(struct pl_kernel_work *to, const struct pl_kernel_work *from)
{
    memcpy(to->cluster, from->cluster, sizeof to->cluster);
    to->is_cooperative = from->is_cooperative;
    to->priority = from->priority;
}

CUresult pl_work_replace(struct pl_work *w, const CUgraphNodeParams *p)
{
    struct pl_work fresh;
    CUresult r = CUDA_ERROR_NOT_SUPPORTED;
    if (p->type == CU_GRAPH_NODE_TYPE_KERNEL && w->kind == PL_WORK_KERNEL)
        r = pl_work_from_kernel(&p->kernel, &fresh);
    else if (p->type == CU_GRAPH_NODE_TYPE_MEMCPY && w->kind == PL_WORK_COPY)
        r = pl_work_from_copy(&p->memcpy.copyParams, &fresh);
    else if (p->type == CU_GRAPH_NODE_TYPE_MEMSET && w->kind == PL_WORK_FILL)
        r = pl_work_from_memset(&p->memset.params, &fresh);
    else if (p->type == CU_GRAPH_NODE_TYPE_HOST && w->kind == PL_WORK_HOST)
        r = pl_work_from_host(&p->host, &fresh);
    else if (p->type <= CU_GRAPH_NODE_TYPE_HOST)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    if (w->kind == PL_WORK_KERNEL)
        keep_attributes(&fresh.kernel, &w->kernel);
    pl_work_fini(w);
    *w = fresh;
    return CUDA_SUCCESS;
}

CUresult pl_cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *params)
{
    struct pl_node *n = pl_obj_find(node, PL_OBJ_NODE);
    return n == NULL || params == NULL ? CUDA_ERROR_INVALID_VALUE
                                       : pl_work_replace(&n->work, params);
}

CUresult pl_cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
    if (params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_KERNEL, .kernel = *params};
    return pl_cuGraphNodeSetParams(node, &p);
}

CUresult pl_cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    if (params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS full = from_v1(params);
    return pl_cuGraphKernelNodeSetParams_v2(node, &full);
}

static struct pl_kernel_work *find_kernel_work(CUgraphNode node)
{
    struct pl_node *n = pl_obj_find(node, PL_OBJ_NODE);
    return n != NULL && n->type == CU_GRAPH_NODE_TYPE_KERNEL ? &n->work.kernel : NULL;
}

CUresult pl_cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID attr,
                                          CUkernelNodeAttrValue *value)
{
    const struct pl_kernel_work *k = find_kernel_work(node);
    if (k == NULL || value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *value = (CUkernelNodeAttrValue){0};
    switch ((int)attr) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: value->cooperative = k->is_cooperative; break;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY: value->priority = k->priority; break;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        value->clusterDim.x = k->cluster[0];
        value->clusterDim.y = k->cluster[1];
        value->clusterDim.z = k->cluster[2];
        break;
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

CUresult pl_cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID attr,
                                          const CUkernelNodeAttrValue *value)
{
    struct pl_kernel_work *k = find_kernel_work(node);
    if (k == NULL || value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)attr) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: k->is_cooperative = value->cooperative != 0; break;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY: k->priority = value->priority; break;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION: {
        CUlaunchAttribute a = {.id = attr, .value = *value};
        CUlaunchConfig c = {.gridDimX = k->grid[0],
                            .gridDimY = k->grid[1],
                            .gridDimZ = k->grid[2],
                            .attrs = &a,
                            .numAttrs = 1};
        struct pl_kernel_work asked;
        if (pl_obj_find(k->handle, PL_OBJ_FUNCTION) == NULL)
            return CUDA_ERROR_INVALID_HANDLE;
        CUresult r = pl_launch_cluster(k->function, &c, &asked);
        if (r != CUDA_SUCCESS)
            return r;
        memcpy(k->cluster, asked.cluster, sizeof k->cluster);
        break;
    }
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

CUresult pl_cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src)
{
    struct pl_kernel_work *to = find_kernel_work(dst);
    const struct pl_kernel_work *from = find_kernel_work(src);
    if (to == NULL || from == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    keep_attributes(to, from);
    return CUDA_SUCCESS;
}
