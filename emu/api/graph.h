#ifndef PL_EMU_API_GRAPH_H
#define PL_EMU_API_GRAPH_H
/*
 * Graphs: nodes of work with dependencies, made by hand or by capturing streams, and their executable form.
 *
 * An executable graph is the work of all nodes, child graphs included, in an order that the dependencies allow; launching puts
 * it on the stream in that order. (A driver may run branches side by side; one order is a legal choice.)
 *
 * Threads: under the API lock.
 */
#include "emu/api/work.h"

struct pl_graph;

/* What an allocation node gives. Nodes of it and their copies hold a reference each; it is freed with the last. */
struct pl_graph_memory {
    uint32_t n_refs;
    uint64_t address, n_bytes;
    struct pl_device *device;
    bool is_out; /* a launch has allocated it, and nothing has freed it since */
};

struct pl_node {
    struct pl_obj obj;
    struct pl_graph *graph;
    struct pl_node *next; /* in the graph, in order of creation */
    CUgraphNodeType type;
    struct pl_work work;    /* KERNEL, MEMCPY, MEMSET, HOST, MEM_FREE, BATCH_MEM_OP */
    struct pl_graph *child; /* GRAPH: owned */
    CUevent event;          /* EVENT_RECORD, WAIT_EVENT */
    CUgraphNode origin;     /* the node that this one is a clone of; NULL: of none */
    void *
        *params; /* KERNEL: what cuGraphKernelNodeGetParams gave, into work; NULL: not asked for */
    uint32_t n_deps, order; /* order: scratch of sorting */
    struct pl_node **deps;
};

struct pl_graph {
    struct pl_obj obj;
    struct pl_node *first, *last;
    uint32_t n_nodes;
    bool is_child; /* has no handle of its own to destroy */
};

struct pl_graph *pl_graph_create(void);
void pl_graph_destroy(struct pl_graph *g);
/* A node without work; deps may repeat. NULL: no memory. */
struct pl_node *pl_graph_add(struct pl_graph *g, CUgraphNodeType type, struct pl_node *const *deps,
                             uint32_t n_deps);
bool pl_node_depend(struct pl_node *n, struct pl_node *on); /* false: no memory */
/* true when `to` can be reached from `from` along dependencies: to comes before from, or is it */
bool pl_node_reaches(const struct pl_node *from, const struct pl_node *to);
CUgraphNodeType pl_work_node_type(enum pl_work_kind kind);

/* Work from the parameter structures of nodes, checked as a launch or a copy is. */
CUresult pl_work_from_kernel(const CUDA_KERNEL_NODE_PARAMS *p, struct pl_work *w);
CUresult pl_work_from_memset(const CUDA_MEMSET_NODE_PARAMS *p, struct pl_work *w);
CUresult pl_work_from_copy(const CUDA_MEMCPY3D *p, struct pl_work *w);
CUresult pl_work_from_host(const CUDA_HOST_NODE_PARAMS *p, struct pl_work *w);
/* emu/api/graphmem.c */
CUresult pl_work_from_alloc(struct pl_context *ctx, size_t n_bytes, struct pl_work *w);
CUresult pl_work_from_free(uint64_t address, struct pl_work *w); /* of a graph's memory */
bool pl_graph_has_memory(const struct pl_graph *g);
/* A node of the work, which is taken over, whatever the result. */
CUresult pl_graph_add_work(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n_deps,
                           struct pl_work *w);
/* Give work of the same kind new parameters; what only launch attributes say stays. */
CUresult pl_work_replace(struct pl_work *w, const CUgraphNodeParams *p);
const char *pl_work_kernel_name(const struct pl_work *w); /* "" once its module is unloaded */
void pl_exec_reset(void);
#endif
