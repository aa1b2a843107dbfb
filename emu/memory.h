#ifndef PL_EMU_MEMORY_H
#define PL_EMU_MEMORY_H
/*
 * Memory of the emulated device.
 *
 * Device memory is a set of allocations at 64-bit device addresses, far apart (at least PL_EMU_RED_ZONE_BYTES), never
 * reused until the address space is, so that every access outside a live allocation is found and named. An allocation's
 * storage is reserved, not touched: huge sparse ones cost what is used of them. Global and const variables of a program are
 * allocations too; .global and .const addresses are generic addresses (cvta is the identity on them).
 *
 * Shared, local, parameter and function addresses have windows in the generic space; the low 32 bits are the address in
 * the space itself. shared::cluster address = (rank in the cluster << 24) | offset; a CTA's own shared::cta addresses carry
 * its rank too, so both are one numbering.
 *
 * Threads: alloc and free take a lock and must not run while a grid that uses the allocation runs; lookups are lock-free
 * between them. Accesses from clusters on different threads race only as the program itself does.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pl_emu_warp;
struct pl_emu_cta;
struct pl_emu_cluster;
struct pl_emu_memory;

enum { PL_EMU_RED_ZONE_BYTES = 1 << 16, PL_EMU_MAX_DEVICES = 16 };

/* Windows: 4 GiB each, above every device address. */
#define PL_EMU_SHARED_WINDOW 0x7e0000000000u
#define PL_EMU_LOCAL_WINDOW  0x7e0100000000u
#define PL_EMU_PARAM_WINDOW  0x7e0200000000u
#define PL_EMU_FUNC_WINDOW   0x7e0300000000u

struct pl_emu_allocation {
    uint64_t address; /* device */
    uint64_t n_bytes;
    uint8_t *host;
    const char *name; /* a variable's name, or NULL */
    uint64_t serial;  /* number of the allocation, from 1 */
    bool is_const;    /* stores fault */
    bool is_foreign;  /* storage is the caller's (registered host memory) */
    bool
        is_mapped; /* storage is the caller's, and counted by it (memory apart from its addresses) */
    bool is_freed; /* kept for reports only */
};

/* ---- the set --------------------------------------------------------------------------------------------------------------- */

/* index: which of the process's devices, 0 … PL_EMU_MAX_DEVICES - 1; each has addresses of its own, so an address tells its
 * device. */
struct pl_emu_memory *pl_emu_memory_create(uint64_t total_bytes, uint32_t index);
void pl_emu_memory_destroy(struct pl_emu_memory *m);

/*
 * New zeroed (reserved) memory. align_bytes: power of two, 0 means 256. name: kept by pointer, NULL for an allocation of
 * the host's. Returns NULL when n_bytes is 0, more than what is left of total_bytes, or the system gives none.
 */
const struct pl_emu_allocation *pl_emu_memory_alloc(struct pl_emu_memory *m, uint64_t n_bytes,
                                                    uint64_t align_bytes, const char *name);
/* Host memory seen by the device at its own host address (registered, pinned and managed memory). */
const struct pl_emu_allocation *pl_emu_memory_register(struct pl_emu_memory *m, void *host,
                                                       uint64_t n_bytes);
/* Addresses without memory, with red zones around them; they are not given out again. 0: none are left. */
uint64_t pl_emu_memory_reserve(struct pl_emu_memory *m, uint64_t n_bytes, uint64_t align_bytes);
/* Device memory at reserved addresses, whose storage is the caller's. NULL: something is there, or no memory. */
const struct pl_emu_allocation *pl_emu_memory_map(struct pl_emu_memory *m, uint64_t address,
                                                  void *host, uint64_t n_bytes);
/* Count bytes as used; false: there are not so many. And give them back. */
bool pl_emu_memory_take(struct pl_emu_memory *m, uint64_t n_bytes);
void pl_emu_memory_give(struct pl_emu_memory *m, uint64_t n_bytes);
/* address: start of an allocation. False when there is none. */
bool pl_emu_memory_free(struct pl_emu_memory *m, uint64_t address);

/* Stores of programs to it fault from now on (a .const variable). */
void pl_emu_memory_set_const(struct pl_emu_memory *m, uint64_t address);

/* Changes whenever an allocation is freed: what was found before must be looked up again. */
uint64_t pl_emu_memory_generation(const struct pl_emu_memory *m);

/* The live allocation that holds `address`, or NULL. */
const struct pl_emu_allocation *pl_emu_memory_find(const struct pl_emu_memory *m, uint64_t address);
/* Host pointer of [address, address + n_bytes), or NULL where that is not inside one live allocation. */
void *pl_emu_memory_host(const struct pl_emu_memory *m, uint64_t address, uint64_t n_bytes);
/* One sentence for a report: "12 bytes past the end of allocation 3 (4,096 bytes at 0x…)". */
void pl_emu_memory_describe(const struct pl_emu_memory *m, uint64_t address, char *text,
                            size_t text_n_bytes);

uint64_t pl_emu_memory_total_bytes(const struct pl_emu_memory *m);
uint64_t pl_emu_memory_free_bytes(const struct pl_emu_memory *m);
uint64_t pl_emu_memory_n_live(const struct pl_emu_memory *m);

/* ---- accesses of a running program, for executors and agents ------------------------------------------------------------------- */

/* Host pointer of n_bytes of device memory for a warp: through its last-allocation cache. NULL: not inside one live
 * allocation (the caller raises the fault: pl_emu_fault_global). */
void *pl_emu_global_at(struct pl_emu_warp *w, uint64_t address, uint64_t n_bytes);

/* Host pointer of n_bytes at a generic address as an executor sees it: device memory, the shared window of the cluster,
 * the parameter window, the local window of `lane`. NULL: a fault was raised. Alignment is the caller's business. */
void *pl_emu_generic_at(struct pl_emu_warp *w, uint32_t lane, uint64_t address, uint64_t n_bytes);

/* Shared memory: the CTA of the cluster that a shared::cluster address names, or NULL when its rank does not exist or the
 * CTA is gone; *offset_bytes is relative to shared.data. */
struct pl_emu_cta *pl_emu_shared_cta(const struct pl_emu_cluster *cl, uint32_t address);
bool pl_emu_shared_in(const struct pl_emu_cta *cta, uint32_t address,
                      uint64_t n_bytes); /* inside its window */

/* The initialised-bytes map. is_written: every byte was; mark: they are now. Both are cheap no-ops (true) when CHECK=off.
 * offset: as pl_emu_shared_offset (emu/machine.h) gives. */
bool pl_emu_shared_is_written(const struct pl_emu_cta *cta, uint32_t offset_bytes,
                              uint32_t n_bytes);
void pl_emu_shared_mark(struct pl_emu_cta *cta, uint32_t offset_bytes, uint32_t n_bytes);

/* Raise the fault that fits and answer PL_EMU_FAULT (as an int, to keep this header small). what: "load", "store", … */
int pl_emu_fault_global(struct pl_emu_warp *w, uint32_t lane, uint64_t address, uint64_t n_bytes,
                        const char *what);
int pl_emu_fault_shared(struct pl_emu_warp *w, uint32_t lane, uint32_t address, uint64_t n_bytes,
                        const char *what);
int pl_emu_fault_misaligned(struct pl_emu_warp *w, uint32_t lane, uint64_t address,
                            uint64_t align_bytes, const char *what);
int pl_emu_fault_unwritten(struct pl_emu_warp *w, uint32_t lane, uint32_t address, uint64_t n_bytes,
                           const char *what);
#endif
