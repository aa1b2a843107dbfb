/*
 * Memory apart from its addresses: ranges of addresses, physical memory, and mappings of one into the other. A range has host
 * addresses of its own, where the files of physical memory are mapped, so that neighbours are one piece for a copy or a kernel:
 * what is accessible without a gap is one allocation of the device (a run). Every change waits for the work of all contexts.
 * Driver API reference: Virtual Memory Management.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "emu/api/mem.h"

#include "base/os.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GRANULARITY_BYTES = 2 << 20 };

struct physical {
    struct pl_obj obj;
    struct pl_device *device;
    CUmemAllocationProp prop;
    uint64_t n_bytes;
    int file;
    uint32_t n_handles, n_mappings; /* given back when both are 0 */
};

struct mapping {
    struct mapping *next;
    uint64_t address, n_bytes;
    struct physical *memory;
    CUmemAccess_flags access;
};

struct run {
    struct run *next;
    struct pl_device *device;
    uint64_t address;
};

struct range {
    struct range *next;
    uint64_t address, n_bytes;
    uint8_t *host;
    struct mapping *mappings; /* by address */
    struct run *runs;
};

static struct range *all_ranges;

static struct pl_emu_memory *memory_of(const struct pl_device *d)
{
    return pl_emu_device_memory(d->emu);
}

static void drain_all(void)
{
    uint32_t i = 0;
    for (struct pl_context *ctx; (ctx = pl_obj_next(&i, PL_OBJ_CONTEXT)) != NULL;)
        pl_ctx_drain(ctx);
}

static bool is_multiple(uint64_t v) { return v % GRANULARITY_BYTES == 0; }

/* ---- physical memory ---------------------------------------------------------------------------------------------------------------- */

static void drop_physical(struct physical *m)
{
    if (m->n_handles != 0 || m->n_mappings != 0)
        return;
    pl_emu_memory_give(memory_of(m->device), m->n_bytes);
    pl_obj_remove(&m->obj);
    close(m->file);
    free(m);
}

static struct physical *find_physical(CUmemGenericAllocationHandle handle)
{
    struct physical *m = pl_obj_find((const void *)(uintptr_t)handle, PL_OBJ_PHYSICAL);
    return m != NULL && m->n_handles != 0 ? m : NULL;
}

static CUresult check_prop(const CUmemAllocationProp *p)
{
    if (p == NULL || p->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        p->location.type == CU_MEM_LOCATION_TYPE_INVALID ||
        p->location.type >= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->location.type != CU_MEM_LOCATION_TYPE_DEVICE || p->requestedHandleTypes != 0)
        return CUDA_ERROR_NOT_SUPPORTED; /* the host's; shared with other processes */
    return pl_device_find(p->location.id) == NULL ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult pl_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                          CUmemAllocationGranularity_flags option)
{
    if (granularity == NULL || (unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = check_prop(prop);
    if (r == CUDA_SUCCESS)
        *granularity = GRANULARITY_BYTES;
    return r;
}

CUresult pl_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t n_bytes,
                        const CUmemAllocationProp *prop, unsigned long long flags)
{
    if (handle == NULL || n_bytes == 0 || !is_multiple(n_bytes) || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = check_prop(prop);
    if (r != CUDA_SUCCESS)
        return r;
    struct physical *m = calloc(1, sizeof *m);
    if (m == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->device = pl_device_find(prop->location.id);
    m->prop = *prop;
    m->prop.allocFlags.compressionType = 0;
    m->n_bytes = n_bytes;
    m->n_handles = 1;
    bool is_taken = pl_emu_memory_take(memory_of(m->device), n_bytes);
    m->file = is_taken ? pl_os_memory_file(n_bytes) : -1;
    if (m->file >= 0 && pl_obj_add(&m->obj, PL_OBJ_PHYSICAL)) {
        *handle = (uintptr_t)pl_obj_handle(&m->obj);
        return CUDA_SUCCESS;
    }
    if (m->file >= 0)
        close(m->file);
    if (is_taken)
        pl_emu_memory_give(memory_of(m->device), n_bytes);
    free(m);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult pl_cuMemRelease(CUmemGenericAllocationHandle handle)
{
    struct physical *m = find_physical(handle);
    if (m == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    m->n_handles--;
    drop_physical(m);
    return CUDA_SUCCESS;
}

CUresult pl_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                   CUmemGenericAllocationHandle handle)
{
    const struct physical *m = find_physical(handle);
    if (prop == NULL || m == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *prop = m->prop;
    return CUDA_SUCCESS;
}

/* ---- ranges of addresses ------------------------------------------------------------------------------------------------------------ */

/* The range that holds all of [address, address + n_bytes), or NULL. */
static struct range *find_range(uint64_t address, uint64_t n_bytes)
{
    for (struct range *r = all_ranges; r != NULL; r = r->next)
        if (address >= r->address && address - r->address < r->n_bytes &&
            n_bytes <= r->n_bytes - (address - r->address))
            return r;
    return NULL;
}

static bool is_power_of_two(uint64_t v) { return v != 0 && (v & (v - 1)) == 0; }

/* The hint is not followed: a device's addresses lie where emu/memory.h says. */
CUresult pl_cuMemAddressReserve(CUdeviceptr *ptr, size_t n_bytes, size_t align_bytes,
                                CUdeviceptr hint, unsigned long long flags)
{
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    if (ptr == NULL || n_bytes == 0 || n_bytes % page_bytes != 0 || hint % page_bytes != 0 ||
        (align_bytes != 0 && !is_power_of_two(align_bytes)) || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct range *r = calloc(1, sizeof *r);
    void *host = mmap(NULL, n_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint64_t address = 0;
    if (r != NULL && host != MAP_FAILED)
        address = pl_emu_memory_reserve(memory_of(&pl_process.devices[0]), n_bytes,
                                        align_bytes > GRANULARITY_BYTES ? align_bytes
                                                                        : GRANULARITY_BYTES);
    if (address == 0) {
        if (host != MAP_FAILED)
            munmap(host, n_bytes);
        free(r);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *r = (struct range){all_ranges, address, n_bytes, host, NULL, NULL};
    all_ranges = r;
    *ptr = address;
    return CUDA_SUCCESS;
}

static void free_range(struct range *r)
{
    struct range **at = &all_ranges;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    munmap(r->host, r->n_bytes);
    free(r);
}

CUresult pl_cuMemAddressFree(CUdeviceptr ptr, size_t n_bytes)
{
    struct range *r = find_range(ptr, n_bytes);
    if (r == NULL || r->address != ptr || r->n_bytes != n_bytes || r->mappings != NULL)
        return CUDA_ERROR_INVALID_VALUE;
    free_range(r);
    return CUDA_SUCCESS;
}

/* ---- runs -------------------------------------------------------------------------------------------------------------------------------- */

static void drop_runs(struct range *r)
{
    for (struct run *run = r->runs, *next; run != NULL; run = next) {
        next = run->next;
        pl_emu_memory_free(memory_of(run->device), run->address);
        free(run);
    }
    r->runs = NULL;
}

static bool add_run(struct range *r, const struct mapping *first, uint64_t n_bytes)
{
    struct pl_device *d = first->memory->device;
    struct run *run = malloc(sizeof *run);
    if (run == NULL)
        return false;
    if (pl_emu_memory_map(memory_of(d), first->address, r->host + (first->address - r->address),
                          n_bytes) == NULL) {
        free(run);
        return false;
    }
    if (first->access == CU_MEM_ACCESS_FLAGS_PROT_READ)
        pl_emu_memory_set_const(memory_of(d), first->address);
    *run = (struct run){r->runs, d, first->address};
    r->runs = run;
    return true;
}

static bool continues(const struct mapping *m, const struct mapping *next)
{
    return next != NULL && next->address == m->address + m->n_bytes && next->access == m->access &&
           next->memory->device == m->memory->device;
}

static CUresult make_runs(struct range *r)
{
    drop_runs(r);
    for (const struct mapping *m = r->mappings; m != NULL; m = m->next) {
        const struct mapping *first = m;
        while (continues(m, m->next))
            m = m->next;
        if (first->access != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
            !add_run(r, first, m->address + m->n_bytes - first->address))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

/* ---- mappings -------------------------------------------------------------------------------------------------------------------------- */

/* Where a mapping of [address, address + n_bytes) belongs in the list; NULL: something is there. */
static struct mapping **find_gap(struct range *r, uint64_t address, uint64_t n_bytes)
{
    struct mapping **at = &r->mappings;
    while (*at != NULL && (*at)->address + (*at)->n_bytes <= address)
        at = &(*at)->next;
    return *at == NULL || address + n_bytes <= (*at)->address ? at : NULL;
}

CUresult pl_cuMemMap(CUdeviceptr ptr, size_t n_bytes, size_t offset_bytes,
                     CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    struct physical *memory = find_physical(handle);
    struct range *r = find_range(ptr, n_bytes);
    if (memory == NULL || r == NULL || n_bytes == 0 || flags != 0 || !is_multiple(ptr) ||
        !is_multiple(n_bytes) || !is_multiple(offset_bytes) || n_bytes > memory->n_bytes ||
        offset_bytes > memory->n_bytes - n_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    struct mapping **at = find_gap(r, ptr, n_bytes);
    if (at == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct mapping *m = malloc(sizeof *m);
    if (m == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (mmap(r->host + (ptr - r->address), n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             memory->file, (off_t)offset_bytes) == MAP_FAILED) {
        free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *m = (struct mapping){*at, ptr, n_bytes, memory, CU_MEM_ACCESS_FLAGS_PROT_NONE};
    *at = m;
    memory->n_mappings++;
    return CUDA_SUCCESS;
}

/* The link to the first of the mappings that fill [ptr, ptr + n_bytes) exactly, without a gap; NULL: they do not. */
static struct mapping **find_mappings(struct range *r, uint64_t ptr, uint64_t n_bytes)
{
    struct mapping **at = &r->mappings;
    while (*at != NULL && (*at)->address < ptr)
        at = &(*at)->next;
    uint64_t end = ptr;
    for (const struct mapping *m = *at; m != NULL && m->address == end && end < ptr + n_bytes;
         m = m->next)
        end += m->n_bytes;
    return n_bytes != 0 && end == ptr + n_bytes ? at : NULL;
}

static void remove_mapping(struct range *r, struct mapping **at)
{
    struct mapping *m = *at;
    *at = m->next;
    mmap(r->host + (m->address - r->address), m->n_bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    m->memory->n_mappings--;
    drop_physical(m->memory);
    free(m);
}

CUresult pl_cuMemUnmap(CUdeviceptr ptr, size_t n_bytes)
{
    drain_all();
    struct range *r = find_range(ptr, n_bytes);
    struct mapping **at = r == NULL ? NULL : find_mappings(r, ptr, n_bytes);
    if (at == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    drop_runs(r);
    while (*at != NULL && (*at)->address < ptr + n_bytes)
        remove_mapping(r, at);
    return make_runs(r);
}

static CUresult check_access(const CUmemAccessDesc *d, const struct mapping *first, uint64_t end)
{
    if (d->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && d->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
        d->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_VALUE;
    if (d->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    for (const struct mapping *m = first; m != NULL && m->address < end; m = m->next)
        if (m->memory->device != pl_device_find(d->location.id)) /* devices are no peers */
            return CUDA_ERROR_INVALID_DEVICE;
    return CUDA_SUCCESS;
}

CUresult pl_cuMemSetAccess(CUdeviceptr ptr, size_t n_bytes, const CUmemAccessDesc *descs,
                           size_t count)
{
    drain_all();
    struct range *r = find_range(ptr, n_bytes);
    struct mapping **at = r == NULL ? NULL : find_mappings(r, ptr, n_bytes);
    if (at == NULL || descs == NULL || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        CUresult result = check_access(&descs[i], *at, ptr + n_bytes);
        if (result != CUDA_SUCCESS)
            return result;
    }
    for (struct mapping *m = *at; m != NULL && m->address < ptr + n_bytes; m = m->next)
        m->access = descs[count - 1].flags;
    return make_runs(r);
}

static const struct mapping *mapping_at(uint64_t address)
{
    const struct range *r = find_range(address, 1);
    const struct mapping *m = r == NULL ? NULL : r->mappings;
    while (m != NULL && (address < m->address || address - m->address >= m->n_bytes))
        m = m->next;
    return m;
}

CUresult pl_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                           CUdeviceptr ptr)
{
    const struct mapping *m = mapping_at(ptr);
    if (flags == NULL || location == NULL || m == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    const struct pl_device *d = pl_device_find(location->id);
    if (d == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *flags = d == m->memory->device ? m->access : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

CUresult pl_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *ptr)
{
    const struct mapping *m = mapping_at((uintptr_t)ptr);
    if (handle == NULL || m == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    m->memory->n_handles++;
    *handle = (uintptr_t)pl_obj_handle(&m->memory->obj);
    return CUDA_SUCCESS;
}

void pl_map_reset(void)
{
    while (all_ranges != NULL) {
        drop_runs(all_ranges);
        while (all_ranges->mappings != NULL)
            remove_mapping(all_ranges, &all_ranges->mappings);
        free_range(all_ranges);
    }
    uint32_t i = 0;
    for (struct physical *m; (m = pl_obj_next(&i, PL_OBJ_PHYSICAL)) != NULL;) {
        m->n_handles = 0;
        drop_physical(m);
    }
}
