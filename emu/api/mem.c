/*
 * Memory: device, page-locked, managed, registered; pointer attributes. Pools are in emu/api/pool.c.
 * Driver API reference: Memory Management, Unified Addressing.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "emu/api/mem.h"

#include "base/debug.h"
#include "emu/api/capture.h"
#include "emu/api/graph.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct {
    struct pl_alloc **data; /* by address */
    size_t n, cap;
} table;

/* ---- the table ------------------------------------------------------------------------------------------ */

static size_t upper(uint64_t address)
{
    size_t lo = 0, hi = table.n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (table.data[mid]->address <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

struct pl_alloc *pl_alloc_find(uint64_t address)
{
    size_t at = upper(address);
    struct pl_alloc *a = at == 0 ? NULL : table.data[at - 1];
    return a != NULL && address - a->address < a->n_bytes ? a : NULL;
}

struct pl_alloc *pl_alloc_start(uint64_t address)
{
    struct pl_alloc *a = pl_alloc_find(address);
    return a != NULL && a->address == address ? a : NULL;
}

static bool add_alloc(const struct pl_alloc *what)
{
    if (table.n == table.cap) {
        size_t cap = table.cap == 0 ? 64 : table.cap * 2;
        struct pl_alloc **data = realloc(table.data, cap * sizeof(struct pl_alloc *));
        if (data == NULL)
            return false;
        table.data = data;
        table.cap = cap;
    }
    struct pl_alloc *a = malloc(sizeof *a);
    if (a == NULL)
        return false;
    *a = *what;
    a->id = ++pl_process.next_id;
    size_t at = upper(a->address);
    memmove(&table.data[at + 1], &table.data[at], (table.n - at) * sizeof(struct pl_alloc *));
    table.data[at] = a;
    table.n++;
    pl_process.n_allocations++;
    if (a->kind == PL_ALLOC_DEVICE || a->kind == PL_ALLOC_POOL)
        pl_process.n_allocated_bytes += a->n_bytes;
    return true;
}

static void remove_alloc(struct pl_alloc *a)
{
    size_t at = upper(a->address) - 1;
    PL_ASSERT(table.data[at] == a);
    table.n--;
    memmove(&table.data[at], &table.data[at + 1], (table.n - at) * sizeof(struct pl_alloc *));
    pl_process.n_allocations--;
    if (a->kind == PL_ALLOC_DEVICE || a->kind == PL_ALLOC_POOL)
        pl_process.n_allocated_bytes -= a->n_bytes;
    free(a);
}

/* ---- device memory ------------------------------------------------------------------------------------------ */

static struct pl_emu_memory *memory_of(const struct pl_device *d)
{
    return pl_emu_device_memory(d->emu);
}

/* A large allocation has pages of its own: docs/hardware-assumptions.md, alloc-alignment. */
enum { LARGE_BYTES = 1 << 20, PAGE_BYTES = 2 << 20, SMALL_ALIGN_BYTES = 512 };

CUresult pl_mem_alloc(struct pl_context *ctx, size_t n_bytes, struct pl_pool *pool,
                      CUdeviceptr *ptr)
{
    if (n_bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct pl_emu_memory *m = memory_of(ctx->device);
    const struct pl_emu_allocation *got = pl_emu_memory_alloc(
        m, n_bytes, n_bytes >= LARGE_BYTES ? PAGE_BYTES : SMALL_ALIGN_BYTES, NULL);
    if (got == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct pl_alloc a = {.address = got->address,
                         .n_bytes = n_bytes,
                         .kind = pool != NULL ? PL_ALLOC_POOL : PL_ALLOC_DEVICE,
                         .ctx = ctx,
                         .pool = pool};
    if (!add_alloc(&a)) {
        pl_emu_memory_free(m, got->address);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ptr = a.address;
    return CUDA_SUCCESS;
}

CUresult pl_cuMemAlloc_v2(CUdeviceptr *ptr, size_t n_bytes)
{
    if (ptr == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return pl_mem_alloc(pl_ctx_current(), n_bytes, NULL, ptr);
}

CUresult pl_cuMemAllocPitch_v2(CUdeviceptr *ptr, size_t *pitch, size_t width_bytes, size_t height,
                               unsigned int elem_bytes)
{
    if (ptr == NULL || pitch == NULL || width_bytes == 0 || height == 0 ||
        (elem_bytes != 4 && elem_bytes != 8 && elem_bytes != 16))
        return CUDA_ERROR_INVALID_VALUE;
    size_t row_bytes = (width_bytes + 511) / 512 * 512;
    if (row_bytes < width_bytes || row_bytes > SIZE_MAX / height)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = pl_mem_alloc(pl_ctx_current(), row_bytes * height, NULL, ptr);
    if (r == CUDA_SUCCESS)
        *pitch = row_bytes;
    return r;
}

/* ---- host memory ---------------------------------------------------------------------------------------------- */

static void unregister_everywhere(uint64_t address, int n_devices)
{
    for (int i = 0; i < n_devices; i++)
        pl_emu_memory_free(memory_of(&pl_process.devices[i]), address);
}

static bool register_everywhere(void *ptr, size_t n_bytes)
{
    for (int i = 0; i < pl_process.n_devices; i++) {
        if (pl_emu_memory_register(memory_of(&pl_process.devices[i]), ptr, n_bytes) == NULL) {
            unregister_everywhere((uintptr_t)ptr, i);
            return false;
        }
    }
    return true;
}

static CUresult add_host(void *ptr, size_t n_bytes, enum pl_alloc_kind kind, unsigned flags)
{
    struct pl_alloc a = {.address = (uintptr_t)ptr,
                         .n_bytes = n_bytes,
                         .kind = kind,
                         .flags = flags,
                         .ctx = pl_ctx_current()};
    if (!register_everywhere(ptr, n_bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (add_alloc(&a))
        return CUDA_SUCCESS;
    unregister_everywhere(a.address, pl_process.n_devices);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult alloc_host(void **ptr, size_t n_bytes, enum pl_alloc_kind kind, unsigned flags)
{
    if (ptr == NULL || n_bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    void *p = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = add_host(p, n_bytes, kind, flags);
    if (r != CUDA_SUCCESS)
        munmap(p, n_bytes);
    else
        *ptr = p;
    return r;
}

CUresult pl_cuMemHostAlloc(void **ptr, size_t n_bytes, unsigned int flags)
{
    if ((flags & ~7u) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return alloc_host(ptr, n_bytes, PL_ALLOC_HOST, flags);
}

CUresult pl_cuMemAllocHost_v2(void **ptr, size_t n_bytes)
{
    return alloc_host(ptr, n_bytes, PL_ALLOC_HOST, 0);
}

CUresult pl_cuMemAllocManaged(CUdeviceptr *ptr, size_t n_bytes, unsigned int flags)
{
    void *p;
    if (ptr == NULL || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = alloc_host(&p, n_bytes, PL_ALLOC_MANAGED, flags);
    if (r == CUDA_SUCCESS)
        *ptr = (uintptr_t)p;
    return r;
}

CUresult pl_cuMemHostRegister_v2(void *ptr, size_t n_bytes, unsigned int flags)
{
    if (ptr == NULL || n_bytes == 0 || (flags & ~15u) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (pl_alloc_find((uintptr_t)ptr) != NULL ||
        pl_alloc_find((uintptr_t)ptr + n_bytes - 1) != NULL)
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    return add_host(ptr, n_bytes, PL_ALLOC_REGISTERED, flags);
}

CUresult pl_cuMemHostRegister(void *ptr, size_t n_bytes, unsigned int flags)
{
    return pl_cuMemHostRegister_v2(ptr, n_bytes, flags);
}

CUresult pl_cuMemHostGetDevicePointer_v2(CUdeviceptr *ptr, void *host, unsigned int flags)
{
    const struct pl_alloc *a = pl_alloc_find((uintptr_t)host);
    if (ptr == NULL || flags != 0 || a == NULL || a->kind < PL_ALLOC_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    *ptr = (uintptr_t)host; /* unified addressing: one address for both */
    return CUDA_SUCCESS;
}

CUresult pl_cuMemHostGetFlags(unsigned int *flags, void *ptr)
{
    const struct pl_alloc *a = pl_alloc_find((uintptr_t)ptr);
    if (flags == NULL || a == NULL || (a->kind != PL_ALLOC_HOST && a->kind != PL_ALLOC_REGISTERED))
        return CUDA_ERROR_INVALID_VALUE;
    *flags = a->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
}

/* ---- free -------------------------------------------------------------------------------------------------------- */

static void free_alloc(struct pl_alloc *a)
{
    uint64_t address = a->address;
    size_t n_bytes = a->n_bytes;
    enum pl_alloc_kind kind = a->kind;
    if (kind == PL_ALLOC_POOL)
        a->pool->used_bytes -= n_bytes;
    if (kind == PL_ALLOC_DEVICE || kind == PL_ALLOC_POOL)
        pl_emu_memory_free(memory_of(a->ctx->device), address);
    else
        unregister_everywhere(address, pl_process.n_devices);
    remove_alloc(a);
    if (kind == PL_ALLOC_HOST || kind == PL_ALLOC_MANAGED)
        munmap((void *)(uintptr_t)address, n_bytes);
}

CUresult pl_mem_free_now(uint64_t address)
{
    struct pl_alloc *a = pl_alloc_start(address);
    if (a == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    free_alloc(a);
    return CUDA_SUCCESS;
}

/* Freeing waits for the work of the context, which may use the memory. */
static CUresult free_after_work(uint64_t address, bool is_device)
{
    struct pl_alloc *a = pl_alloc_start(address);
    if (a == NULL || (is_device ? a->kind == PL_ALLOC_HOST : a->kind != PL_ALLOC_HOST) ||
        a->kind == PL_ALLOC_REGISTERED)
        return CUDA_ERROR_INVALID_VALUE;
    struct pl_context *ctx = a->ctx;
    CUresult r = pl_ctx_check(ctx);
    if (r != CUDA_SUCCESS)
        return r;
    pl_ctx_drain(ctx);
    a = pl_alloc_start(address);
    r = a != NULL && a->graph != NULL ? pl_graph_memory_free(a->graph) : pl_mem_free_now(address);
    return r != CUDA_SUCCESS ? r : ctx->sticky;
}

CUresult pl_cuMemFree_v2(CUdeviceptr ptr) { return free_after_work(ptr, true); }
CUresult pl_cuMemFreeHost(void *ptr) { return free_after_work((uintptr_t)ptr, false); }

CUresult pl_cuMemHostUnregister(void *ptr)
{
    struct pl_alloc *a = pl_alloc_start((uintptr_t)ptr);
    if (a == NULL || a->kind != PL_ALLOC_REGISTERED)
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    struct pl_context *ctx = a->ctx;
    pl_ctx_drain(ctx);
    CUresult r = pl_mem_free_now((uintptr_t)ptr);
    return r != CUDA_SUCCESS ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : ctx->sticky;
}

void pl_mem_drop_context(struct pl_context *ctx)
{
    for (size_t i = table.n; i-- > 0;)
        if (table.data[i]->ctx == ctx)
            free_alloc(table.data[i]);
}

/* ---- queries ------------------------------------------------------------------------------------------------------- */

CUresult pl_cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    struct pl_emu_memory *m = memory_of(pl_ctx_current()->device);
    if (free_bytes == NULL || total_bytes == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *free_bytes = pl_emu_memory_free_bytes(m);
    *total_bytes = pl_emu_memory_total_bytes(m);
    return CUDA_SUCCESS;
}

/* Variables of modules are device memory too, and not in the table: ask the devices. */
static const struct pl_emu_allocation *find_on_devices(uint64_t address, struct pl_device **device)
{
    for (int i = 0; i < pl_process.n_devices; i++) {
        struct pl_device *d = &pl_process.devices[i];
        const struct pl_emu_allocation *a = pl_emu_memory_find(memory_of(d), address);
        if (a != NULL) {
            *device = d;
            return a;
        }
    }
    return NULL;
}

bool pl_mem_is_pageable(uint64_t address)
{
    struct pl_device *d;
    return pl_alloc_find(address) == NULL && find_on_devices(address, &d) == NULL;
}

CUresult pl_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *n_bytes, CUdeviceptr ptr)
{
    struct pl_device *d;
    const struct pl_emu_allocation *a = find_on_devices(ptr, &d);
    if (a == NULL)
        return CUDA_ERROR_NOT_FOUND;
    if (base != NULL)
        *base = a->address;
    if (n_bytes != NULL)
        *n_bytes = a->n_bytes;
    return CUDA_SUCCESS;
}

struct pl_side pl_side_of(uint64_t address)
{
    struct pl_device *d;
    const struct pl_emu_allocation *a = find_on_devices(address, &d);
    return (struct pl_side){.device = a != NULL && !a->is_foreign ? d : NULL, .address = address};
}

bool pl_side_is_inside(const struct pl_side *s, size_t width_bytes, size_t height, size_t depth)
{
    if (s->device == NULL || width_bytes == 0 || height == 0 || depth == 0)
        return true;
    uint64_t n_bytes = (depth - 1) * s->slice_bytes + (height - 1) * s->pitch_bytes + width_bytes;
    return pl_emu_memory_host(memory_of(s->device), s->address, n_bytes) != NULL;
}

/* ---- pointer attributes ------------------------------------------------------------------------------------------------ */

/* What a pointer query knows. kind counts where alloc is not NULL; a variable of a module has only range and device. */
struct pointer {
    const struct pl_alloc *alloc;
    const struct pl_emu_allocation *range;
    struct pl_device *device;
    uint64_t address;
};

static bool find_pointer(uint64_t address, struct pointer *out)
{
    *out = (struct pointer){.address = address, .alloc = pl_alloc_find(address)};
    out->range = find_on_devices(address, &out->device);
    if (out->alloc != NULL)
        out->device = out->alloc->ctx->device;
    return out->range != NULL;
}

static bool is_host_kind(const struct pointer *p)
{
    return p->alloc != NULL &&
           (p->alloc->kind == PL_ALLOC_HOST || p->alloc->kind == PL_ALLOC_REGISTERED);
}

/* A variable of a module is host memory only if it is managed. */
static bool is_managed(const struct pointer *p)
{
    return p->alloc != NULL ? p->alloc->kind == PL_ALLOC_MANAGED : p->range->is_foreign;
}

static CUresult put_address(void *data, bool is_there, uint64_t address)
{
    uint64_t v = is_there ? address : 0;
    memcpy(data, &v, sizeof v);
    return is_there ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void put_int(void *data, int v) { memcpy(data, &v, sizeof v); }
static void put_u64(void *data, uint64_t v) { memcpy(data, &v, sizeof v); }

/* cuPointerGetAttribute: the C type behind data depends on the attribute. */
static CUresult get_attribute(const struct pointer *p, CUpointer_attribute attr, void *data)
{
    switch (attr) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: {
        void *h = p->alloc != NULL ? pl_obj_handle(&p->alloc->ctx->obj) : NULL;
        memcpy(data, &h, sizeof h);
        break;
    }
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        put_int(data, is_host_kind(p) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return put_address(data, true, p->address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        return put_address(data, is_host_kind(p) || is_managed(p), p->address);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: put_int(data, 0); break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        put_u64(data, p->alloc != NULL ? p->alloc->id : 0);
        break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: put_int(data, is_managed(p)); break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: put_int(data, p->device->ordinal); break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: put_u64(data, p->range->address); break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: put_u64(data, p->range->n_bytes); break;
    case CU_POINTER_ATTRIBUTE_MAPPED: put_int(data, 1); break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        put_int(data, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: {
        void *h =
            p->alloc != NULL && p->alloc->pool != NULL ? pl_obj_handle(&p->alloc->pool->obj) : NULL;
        memcpy(data, &h, sizeof h);
        break;
    }
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: put_u64(data, 0); break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: put_int(data, 0); break;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS: return CUDA_ERROR_NOT_SUPPORTED;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult pl_cuPointerGetAttribute(void *data, CUpointer_attribute attr, CUdeviceptr ptr)
{
    struct pointer p;
    if (data == NULL || !find_pointer(ptr, &p))
        return CUDA_ERROR_INVALID_VALUE;
    return get_attribute(&p, attr, data);
}

static size_t attribute_bytes(CUpointer_attribute attr)
{
    switch ((int)attr) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: return 8;
    default: return 4;
    }
}

/* Unlike the single query, an unknown pointer is no error: every value is zero, the device ordinal -2 (no device). */
CUresult pl_cuPointerGetAttributes(unsigned int n_attrs, CUpointer_attribute *attrs, void **data,
                                   CUdeviceptr ptr)
{
    struct pointer p;
    if (n_attrs == 0 || attrs == NULL || data == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    bool is_known = find_pointer(ptr, &p);
    for (unsigned i = 0; i < n_attrs; i++) {
        if (data[i] == NULL || attrs[i] < CU_POINTER_ATTRIBUTE_CONTEXT ||
            attrs[i] > CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE)
            return CUDA_ERROR_INVALID_VALUE;
        memset(data[i], 0, attribute_bytes(attrs[i]));
        if (is_known)
            (void)get_attribute(&p, attrs[i], data[i]);
        else if (attrs[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            put_int(data[i], -2);
    }
    return CUDA_SUCCESS;
}

CUresult pl_cuPointerSetAttribute(const void *value, CUpointer_attribute attr, CUdeviceptr ptr)
{
    struct pointer p;
    if (value == NULL || attr != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !find_pointer(ptr, &p))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS; /* synchronous copies are synchronous here with it or without */
}

/* Placement of managed memory: hints without an effect here. */
static CUresult check_managed(CUdeviceptr ptr, size_t count)
{
    const struct pl_alloc *a = pl_alloc_find(ptr);
    bool ok = a != NULL && a->kind == PL_ALLOC_MANAGED && count != 0 &&
              count <= a->n_bytes - (ptr - a->address);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult pl_cuMemAdvise_v2(CUdeviceptr ptr, size_t count, CUmem_advise advice,
                           CUmemLocation location)
{
    (void)location;
    if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
        return CUDA_ERROR_INVALID_VALUE;
    return check_managed(ptr, count);
}

CUresult pl_cuMemPrefetchAsync_v2(CUdeviceptr ptr, size_t count, CUmemLocation location,
                                  unsigned int flags, CUstream stream)
{
    struct pl_stream *s;
    (void)location;
    CUresult r = pl_stream_find(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    r = check_managed(ptr, count);
    return r != CUDA_SUCCESS ? r : pl_stream_submit(s, &(struct pl_work){0}, NULL, NULL);
}

void pl_mem_reset(void)
{
    while (table.n != 0)
        remove_alloc(table.data[table.n - 1]);
    free(table.data);
    table.data = NULL;
    table.cap = 0;
    pl_pool_reset();
    pl_map_reset();
}
