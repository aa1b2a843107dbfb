/*
 * Graph nodes of every type but kernels: their parameters, the nodes of a clone, and a graph as text. Kernels are in
 * emu/api/graph.c. Driver API reference: Graph Management.
 */
#include "emu/api/graph.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct pl_node *find_node(CUgraphNode node, CUgraphNodeType type)
{
    struct pl_node *n = pl_obj_find(node, PL_OBJ_NODE);
    return n != NULL && n->type == type ? n : NULL;
}

/* ---- copies, fills, host functions ------------------------------------------------------------------------------------------------ */

/* The offsets that a copy was given are part of its addresses, so they come back as 0; and a single row has no pitch. */
CUresult pl_cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *params)
{
    const struct pl_node *n = find_node(node, CU_GRAPH_NODE_TYPE_MEMCPY);
    if (n == NULL || params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const struct pl_copy *c = &n->work.copy;
    const struct pl_side *from = &c->src, *to = &c->dst;
    *params = (CUDA_MEMCPY3D){
        .srcMemoryType = from->device != NULL ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
        .srcHost = from->device != NULL ? NULL : (const void *)(uintptr_t)from->address,
        .srcDevice = from->device != NULL ? from->address : 0,
        .dstMemoryType = to->device != NULL ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
        .dstHost = to->device != NULL ? NULL : (void *)(uintptr_t)to->address,
        .dstDevice = to->device != NULL ? to->address : 0,
        .WidthInBytes = c->width_bytes,
        .Height = c->height,
        .Depth = c->depth,
    };
    if (c->height == 1 && c->depth == 1)
        return CUDA_SUCCESS;
    params->srcPitch = from->pitch_bytes;
    params->srcHeight = from->pitch_bytes != 0 ? from->slice_bytes / from->pitch_bytes : 0;
    params->dstPitch = to->pitch_bytes;
    params->dstHeight = to->pitch_bytes != 0 ? to->slice_bytes / to->pitch_bytes : 0;
    return CUDA_SUCCESS;
}

CUresult pl_cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *params)
{
    struct pl_node *n = find_node(node, CU_GRAPH_NODE_TYPE_MEMCPY);
    if (n == NULL || params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
    p.memcpy.copyParams = *params;
    return pl_work_replace(&n->work, &p);
}

CUresult pl_cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *params)
{
    const struct pl_node *n = find_node(node, CU_GRAPH_NODE_TYPE_MEMSET);
    if (n == NULL || params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const struct pl_fill *f = &n->work.fill;
    *params = (CUDA_MEMSET_NODE_PARAMS){.dst = f->address,
                                        .pitch = f->pitch_bytes,
                                        .value = f->value,
                                        .elementSize = f->elem_bytes,
                                        .width = f->width_elems,
                                        .height = f->height};
    return CUDA_SUCCESS;
}

CUresult pl_cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params)
{
    struct pl_node *n = find_node(node, CU_GRAPH_NODE_TYPE_MEMSET);
    if (n == NULL || params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
    p.memset.params = *params;
    return pl_work_replace(&n->work, &p);
}

CUresult pl_cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS *params)
{
    const struct pl_node *n = find_node(node, CU_GRAPH_NODE_TYPE_HOST);
    if (n == NULL || params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *params = (CUDA_HOST_NODE_PARAMS){.fn = n->work.host.fn, .userData = n->work.host.user};
    return CUDA_SUCCESS;
}

CUresult pl_cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params)
{
    struct pl_node *n = find_node(node, CU_GRAPH_NODE_TYPE_HOST);
    if (n == NULL || params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_HOST, .host = *params};
    return pl_work_replace(&n->work, &p);
}

/* ---- child graphs, events ------------------------------------------------------------------------------------------------------------ */

/* The node's own graph, not a copy: changes of it are changes of the node. */
CUresult pl_cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph)
{
    const struct pl_node *n = find_node(node, CU_GRAPH_NODE_TYPE_GRAPH);
    if (n == NULL || graph == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *graph = pl_obj_handle(&n->child->obj);
    return CUDA_SUCCESS;
}

static CUresult get_event(CUgraphNode node, CUgraphNodeType type, CUevent *event)
{
    const struct pl_node *n = find_node(node, type);
    if (n == NULL || event == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *event = n->event;
    return CUDA_SUCCESS;
}

static CUresult set_event(CUgraphNode node, CUgraphNodeType type, CUevent event)
{
    struct pl_node *n = find_node(node, type);
    if (n == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (pl_obj_find(event, PL_OBJ_EVENT) == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    n->event = event;
    return CUDA_SUCCESS;
}

CUresult pl_cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent *event)
{
    return get_event(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}

CUresult pl_cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event)
{
    return set_event(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}

CUresult pl_cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent *event)
{
    return get_event(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

CUresult pl_cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event)
{
    return set_event(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

/* ---- clones, text -------------------------------------------------------------------------------------------------------------------------- */

CUresult pl_cuGraphNodeFindInClone(CUgraphNode *found, CUgraphNode original, CUgraph clone)
{
    const struct pl_graph *g = pl_obj_find(clone, PL_OBJ_GRAPH);
    if (found == NULL || original == NULL || g == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (const struct pl_node *n = g->first; n != NULL; n = n->next) {
        if (n->origin != original)
            continue;
        *found = pl_obj_handle(&n->obj);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

static const char *type_name(CUgraphNodeType type)
{
    static const char *const names[] = {
        [CU_GRAPH_NODE_TYPE_KERNEL] = "KERNEL",
        [CU_GRAPH_NODE_TYPE_MEMCPY] = "MEMCPY",
        [CU_GRAPH_NODE_TYPE_MEMSET] = "MEMSET",
        [CU_GRAPH_NODE_TYPE_HOST] = "HOST",
        [CU_GRAPH_NODE_TYPE_GRAPH] = "GRAPH",
        [CU_GRAPH_NODE_TYPE_EMPTY] = "EMPTY",
        [CU_GRAPH_NODE_TYPE_WAIT_EVENT] = "WAIT_EVENT",
        [CU_GRAPH_NODE_TYPE_EVENT_RECORD] = "EVENT_RECORD",
        [CU_GRAPH_NODE_TYPE_MEM_ALLOC] = "MEM_ALLOC",
        [CU_GRAPH_NODE_TYPE_MEM_FREE] = "MEM_FREE",
        [CU_GRAPH_NODE_TYPE_BATCH_MEM_OP] = "BATCH_MEM_OP",
    };
    return (size_t)type < sizeof names / sizeof names[0] && names[type] != NULL ? names[type]
                                                                                : "NODE";
}

static uint64_t id_of(const struct pl_node *n) { return (uintptr_t)pl_obj_handle(&n->obj); }

/* A child graph is a cluster of its node. */
static void print_graph(FILE *f, const struct pl_graph *g)
{
    for (const struct pl_node *n = g->first; n != NULL; n = n->next) {
        fprintf(f, "\"n%" PRIx64 "\" [label=\"%s%s%s\"];\n", id_of(n), type_name(n->type),
                n->type == CU_GRAPH_NODE_TYPE_KERNEL ? "\\n" : "",
                n->type == CU_GRAPH_NODE_TYPE_KERNEL ? pl_work_kernel_name(&n->work) : "");
        for (uint32_t i = 0; i < n->n_deps; i++)
            fprintf(f, "\"n%" PRIx64 "\" -> \"n%" PRIx64 "\";\n", id_of(n->deps[i]), id_of(n));
        if (n->child == NULL)
            continue;
        fprintf(f, "subgraph \"cluster_n%" PRIx64 "\" {\n", id_of(n));
        print_graph(f, n->child);
        fputs("}\n", f);
    }
}

/* What the flags ask for besides is not printed. */
CUresult pl_cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned int flags)
{
    const struct pl_graph *g = pl_obj_find(graph, PL_OBJ_GRAPH);
    (void)flags;
    if (g == NULL || path == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    FILE *f = fopen(path, "w");
    if (f == NULL)
        return CUDA_ERROR_OPERATING_SYSTEM;
    fputs("digraph dot {\n", f);
    print_graph(f, g);
    fputs("}\n", f);
    bool ok = ferror(f) == 0;
    return fclose(f) == 0 && ok ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
