/*
 * Memory of graphs: allocation and free nodes. The memory is there from the node's making until the last graph, executable graph
 * and launch that has the node is gone; a launch says whether it is given out. Driver API reference: Graph Management; CUDA C++
 * Programming Guide, "Graph Memory Nodes".
 */
#include "emu/api/capture.h"
#include "emu/api/graph.h"
#include "emu/api/mem.h"

#include <stdlib.h>
#include <string.h>

void pl_graph_memory_retain(struct pl_graph_memory *m) { m->n_refs++; }

void pl_graph_memory_release(struct pl_graph_memory *m)
{
    if (--m->n_refs != 0)
        return;
    m->device->graph_used_bytes -= m->n_bytes;
    pl_mem_free_now(m->address);
    free(m);
}

CUresult pl_graph_memory_free(struct pl_graph_memory *m)
{
    if (!m->is_out)
        return CUDA_ERROR_INVALID_VALUE;
    m->is_out = false;
    return CUDA_SUCCESS;
}

CUresult pl_work_from_alloc(struct pl_context *ctx, size_t n_bytes, struct pl_work *w)
{
    struct pl_device *d = ctx->device;
    struct pl_graph_memory *m = calloc(1, sizeof *m);
    CUdeviceptr ptr;
    CUresult r = m == NULL ? CUDA_ERROR_OUT_OF_MEMORY : pl_mem_alloc(ctx, n_bytes, NULL, &ptr);
    if (r != CUDA_SUCCESS) {
        free(m);
        return r;
    }
    *m = (struct pl_graph_memory){.n_refs = 1, .address = ptr, .n_bytes = n_bytes, .device = d};
    pl_alloc_start(ptr)->graph = m;
    d->graph_used_bytes += n_bytes;
    if (d->graph_used_bytes > d->graph_high_bytes)
        d->graph_high_bytes = d->graph_used_bytes;
    *w = (struct pl_work){.kind = PL_WORK_GRAPH_ALLOC, .graph_memory = m};
    return CUDA_SUCCESS;
}

CUresult pl_work_from_free(uint64_t address, struct pl_work *w)
{
    const struct pl_alloc *a = pl_alloc_start(address);
    if (a == NULL || a->graph == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    a->graph->n_refs++;
    *w = (struct pl_work){.kind = PL_WORK_GRAPH_FREE, .graph_memory = a->graph};
    return CUDA_SUCCESS;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------------------------------ */

static CUresult find_context(const CUDA_MEM_ALLOC_NODE_PARAMS *p, struct pl_context **ctx)
{
    const CUmemLocation *at = &p->poolProps.location;
    if (p->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED || p->bytesize == 0 ||
        at->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    const struct pl_device *d = pl_device_find(at->id);
    *ctx = pl_ctx_current();
    if (d == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    return *ctx != NULL && (*ctx)->device == d ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult pl_cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
                                   size_t n_deps, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    struct pl_context *ctx;
    struct pl_work w;
    CUresult r = params == NULL ? CUDA_ERROR_INVALID_VALUE : find_context(params, &ctx);
    if (r == CUDA_SUCCESS)
        r = pl_work_from_alloc(ctx, params->bytesize, &w);
    if (r != CUDA_SUCCESS)
        return r;
    uint64_t address = w.graph_memory->address;
    r = pl_graph_add_work(node, graph, deps, n_deps, &w);
    if (r == CUDA_SUCCESS)
        params->dptr = address;
    return r;
}

CUresult pl_cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
                                  size_t n_deps, CUdeviceptr ptr)
{
    struct pl_work w;
    CUresult r = pl_work_from_free(ptr, &w);
    return r != CUDA_SUCCESS ? r : pl_graph_add_work(node, graph, deps, n_deps, &w);
}

CUresult pl_cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    const struct pl_node *n = pl_obj_find(node, PL_OBJ_NODE);
    if (n == NULL || params == NULL || n->work.kind != PL_WORK_GRAPH_ALLOC)
        return CUDA_ERROR_INVALID_VALUE;
    const struct pl_graph_memory *m = n->work.graph_memory;
    *params = (CUDA_MEM_ALLOC_NODE_PARAMS){
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, m->device->ordinal}},
        .bytesize = m->n_bytes,
        .dptr = m->address};
    return CUDA_SUCCESS;
}

CUresult pl_cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *ptr)
{
    const struct pl_node *n = pl_obj_find(node, PL_OBJ_NODE);
    if (n == NULL || ptr == NULL || n->work.kind != PL_WORK_GRAPH_FREE)
        return CUDA_ERROR_INVALID_VALUE;
    *ptr = n->work.graph_memory->address;
    return CUDA_SUCCESS;
}

bool pl_graph_has_memory(const struct pl_graph *g)
{
    for (const struct pl_node *n = g->first; n != NULL; n = n->next)
        if (n->work.kind == PL_WORK_GRAPH_ALLOC || n->work.kind == PL_WORK_GRAPH_FREE)
            return true;
    return false;
}

/* ---- what a device's graphs have -------------------------------------------------------------------------------------------------------- */

CUresult pl_cuDeviceGetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute attr, void *value)
{
    const struct pl_device *d = pl_device_find(dev);
    if (d == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (value == NULL || (unsigned)attr > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    bool is_high =
        attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
    memcpy(value, is_high ? &d->graph_high_bytes : &d->graph_used_bytes, sizeof(uint64_t));
    return CUDA_SUCCESS;
}

CUresult pl_cuDeviceSetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute attr, void *value)
{
    struct pl_device *d = pl_device_find(dev);
    if (d == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (value == NULL || memcmp(value, &(uint64_t){0}, sizeof(uint64_t)) != 0 ||
        (attr != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH && attr != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
        return CUDA_ERROR_INVALID_VALUE;
    d->graph_high_bytes = d->graph_used_bytes;
    return CUDA_SUCCESS;
}

/* There is nothing kept that no graph uses. */
CUresult pl_cuDeviceGraphMemTrim(CUdevice dev)
{
    return pl_device_find(dev) == NULL ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}
