/*
 * What a graph holds: nodes, edges, and changes of edges. Driver API reference: Graph Management.
 */
#include "emu/api/graph.h"

#include <string.h>

CUresult pl_cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    const struct pl_node *n = pl_obj_find(node, PL_OBJ_NODE);
    if (n == NULL || type == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *type = n->type;
    return CUDA_SUCCESS;
}

/*
 * The lists of the API: with no array, only the count; else at most *n entries, the rest of the array cleared, and *n how many
 * there were.
 */
struct list {
    CUgraphNode *a, *b; /* b: of edges, may be NULL */
    size_t cap, n;
};

static void put(struct list *l, const struct pl_node *a, const struct pl_node *b)
{
    if (l->a != NULL && l->n < l->cap) {
        l->a[l->n] = pl_obj_handle(&a->obj);
        if (l->b != NULL)
            l->b[l->n] = pl_obj_handle(&b->obj);
    }
    l->n++;
}

static CUresult finish_list(struct list *l, size_t *n)
{
    if (l->a == NULL) {
        *n = l->n;
        return CUDA_SUCCESS;
    }
    for (size_t i = l->n; i < l->cap; i++) {
        l->a[i] = NULL;
        if (l->b != NULL)
            l->b[i] = NULL;
    }
    *n = l->n < l->cap ? l->n : l->cap;
    return CUDA_SUCCESS;
}

CUresult pl_cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n_nodes)
{
    const struct pl_graph *g = pl_obj_find(graph, PL_OBJ_GRAPH);
    if (g == NULL || n_nodes == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct list l = {.a = nodes, .cap = *n_nodes};
    for (const struct pl_node *n = g->first; n != NULL; n = n->next)
        put(&l, n, NULL);
    return finish_list(&l, n_nodes);
}

CUresult pl_cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *n_nodes)
{
    const struct pl_graph *g = pl_obj_find(graph, PL_OBJ_GRAPH);
    if (g == NULL || n_nodes == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct list l = {.a = nodes, .cap = *n_nodes};
    for (const struct pl_node *n = g->first; n != NULL; n = n->next)
        if (n->n_deps == 0)
            put(&l, n, NULL);
    return finish_list(&l, n_nodes);
}

CUresult pl_cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *n_edges)
{
    const struct pl_graph *g = pl_obj_find(graph, PL_OBJ_GRAPH);
    if (g == NULL || n_edges == NULL || (from == NULL) != (to == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    struct list l = {.a = from, .b = to, .cap = *n_edges};
    for (const struct pl_node *n = g->first; n != NULL; n = n->next)
        for (uint32_t i = 0; i < n->n_deps; i++)
            put(&l, n->deps[i], n);
    return finish_list(&l, n_edges);
}

CUresult pl_cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *deps, size_t *n_deps)
{
    const struct pl_node *n = pl_obj_find(node, PL_OBJ_NODE);
    if (n == NULL || n_deps == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct list l = {.a = deps, .cap = *n_deps};
    for (uint32_t i = 0; i < n->n_deps; i++)
        put(&l, n->deps[i], NULL);
    return finish_list(&l, n_deps);
}

CUresult pl_cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *n_nodes)
{
    const struct pl_node *n = pl_obj_find(node, PL_OBJ_NODE);
    if (n == NULL || n_nodes == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct list l = {.a = nodes, .cap = *n_nodes};
    for (const struct pl_node *other = n->graph->first; other != NULL; other = other->next)
        for (uint32_t i = 0; i < other->n_deps; i++)
            if (other->deps[i] == n)
                put(&l, other, NULL);
    return finish_list(&l, n_nodes);
}

/* The newer forms also give edge data: all edges are plain ones. */
static CUresult clear_edges(CUresult r, CUgraphEdgeData *edges, const size_t *n)
{
    if (r == CUDA_SUCCESS && edges != NULL)
        memset(edges, 0, *n * sizeof *edges);
    return r;
}

CUresult pl_cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                               CUgraphEdgeData *edges, size_t *n_edges)
{
    return clear_edges(pl_cuGraphGetEdges(graph, from, to, n_edges), edges, n_edges);
}

CUresult pl_cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *deps,
                                          CUgraphEdgeData *edges, size_t *n_deps)
{
    return clear_edges(pl_cuGraphNodeGetDependencies(node, deps, n_deps), edges, n_deps);
}

CUresult pl_cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *nodes,
                                            CUgraphEdgeData *edges, size_t *n_nodes)
{
    return clear_edges(pl_cuGraphNodeGetDependentNodes(node, nodes, n_nodes), edges, n_nodes);
}

static CUresult find_edge(CUgraph graph, CUgraphNode from, CUgraphNode to, struct pl_node **a,
                          struct pl_node **b)
{
    const struct pl_graph *g = pl_obj_find(graph, PL_OBJ_GRAPH);
    *a = pl_obj_find(from, PL_OBJ_NODE);
    *b = pl_obj_find(to, PL_OBJ_NODE);
    bool ok = g != NULL && *a != NULL && *b != NULL && (*a)->graph == g && (*b)->graph == g;
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult pl_cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                   size_t n_deps)
{
    struct pl_node *a, *b;
    if (pl_obj_find(graph, PL_OBJ_GRAPH) == NULL || (n_deps != 0 && (from == NULL || to == NULL)))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n_deps; i++) {
        CUresult r = find_edge(graph, from[i], to[i], &a, &b);
        if (r != CUDA_SUCCESS)
            return r;
        if (pl_node_reaches(a, b))
            return CUDA_ERROR_INVALID_VALUE; /* it would close a cycle */
        if (!pl_node_depend(b, a))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

CUresult pl_cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                      const CUgraphEdgeData *edges, size_t n_deps)
{
    (void)edges;
    return pl_cuGraphAddDependencies(graph, from, to, n_deps);
}

CUresult pl_cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                      size_t n_deps)
{
    struct pl_node *a, *b;
    if (pl_obj_find(graph, PL_OBJ_GRAPH) == NULL || (n_deps != 0 && (from == NULL || to == NULL)))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n_deps; i++) {
        CUresult r = find_edge(graph, from[i], to[i], &a, &b);
        if (r != CUDA_SUCCESS)
            return r;
        uint32_t kept = 0;
        for (uint32_t j = 0; j < b->n_deps; j++)
            if (b->deps[j] != a)
                b->deps[kept++] = b->deps[j];
        if (kept == b->n_deps)
            return CUDA_ERROR_INVALID_VALUE;
        b->n_deps = kept;
    }
    return CUDA_SUCCESS;
}

CUresult pl_cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from,
                                         const CUgraphNode *to, const CUgraphEdgeData *edges,
                                         size_t n_deps)
{
    (void)edges;
    return pl_cuGraphRemoveDependencies(graph, from, to, n_deps);
}
