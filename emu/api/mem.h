#ifndef PL_EMU_API_MEM_H
#define PL_EMU_API_MEM_H
/*
 * Allocations as the host sees them: who made them, of what kind. Where bytes are and whether an access is inside is
 * emu/memory.h's. Threads: under the API lock.
 */
#include "emu/api/work.h"

enum pl_alloc_kind {
    PL_ALLOC_DEVICE,
    PL_ALLOC_POOL,       /* of cuMemAllocAsync */
    PL_ALLOC_HOST,       /* page-locked */
    PL_ALLOC_MANAGED,    /* host memory that every device reaches at the same address */
    PL_ALLOC_REGISTERED, /* the user's, page-locked by cuMemHostRegister */
};

struct pl_alloc {
    uint64_t address, n_bytes, id; /* id: CU_POINTER_ATTRIBUTE_BUFFER_ID */
    enum pl_alloc_kind kind;
    unsigned flags; /* of the host */
    struct pl_context *ctx;
    struct pl_pool *pool;          /* POOL */
    struct pl_graph_memory *graph; /* DEVICE: of an allocation node; NULL: of none */
};

struct pl_pool {
    struct pl_obj obj;
    struct pl_device *device;
    struct pl_pool *next;
    uint64_t release_threshold, used_bytes, used_high_bytes;
    int reuse[3]; /* the three reuse attributes: remembered */
    bool is_default, is_dead;
};

/* The allocation that holds an address, or NULL. */
struct pl_alloc *pl_alloc_find(uint64_t address);
/* Host memory that no driver call has made or registered, and that is no managed variable. */
bool pl_mem_is_pageable(uint64_t address);
struct pl_alloc *pl_alloc_start(uint64_t address); /* that begins there */
/* New device memory of a context; pool NULL: of none. */
CUresult pl_mem_alloc(struct pl_context *ctx, size_t n_bytes, struct pl_pool *pool,
                      CUdeviceptr *ptr);
CUresult pl_mem_free_now(uint64_t address);
void pl_mem_drop_context(struct pl_context *ctx);
void pl_mem_reset(void); /* the table and the pools: the devices go away */
void pl_pool_reset(void);
void pl_graph_memory_retain(struct pl_graph_memory *m);
void pl_graph_memory_release(struct pl_graph_memory *m);  /* emu/api/graphmem.c */
CUresult pl_graph_memory_free(struct pl_graph_memory *m); /* what a launch has given out */
void pl_map_reset(void); /* emu/api/map.c: ranges and physical memory */

/* What holds an address: device memory (device set) or else the host's. */
struct pl_side pl_side_of(uint64_t address);
/* Is the whole of a side of a copy inside one live allocation? Always true for the host's. */
bool pl_side_is_inside(const struct pl_side *s, size_t width_bytes, size_t height, size_t depth);

/* emu/api/copy.c, for graph nodes: check what the user gave and fill in the devices. */
CUresult pl_copy_from_3d(const CUDA_MEMCPY3D *d, struct pl_copy *c);
CUresult pl_fill_check(struct pl_fill *f);
#endif
