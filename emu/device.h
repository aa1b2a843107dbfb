#ifndef PL_EMU_DEVICE_H
#define PL_EMU_DEVICE_H
/* A device: configuration, memory, counters and the threads that run clusters. */
#include "emu/launch.h"

#include <pthread.h>

struct pl_emu_pool;

struct pl_emu_device {
    struct pl_emu_config config;
    uint32_t shared_base_bytes; /* of a CTA's window: where its own memory begins */
    struct pl_emu_memory *memory;
    struct pl_emu_pool *pool;
    pthread_mutex_t lock; /* of counters, print and heap */
    struct pl_emu_counters counters;
    uint64_t n_grids;
    uint64_t heap_used_bytes; /* device-side malloc */
    struct pl_emu_rows *rows; /* emu/rows.h; usually NULL */
};

/* The config with every 0 replaced by its default. */
struct pl_emu_config pl_emu_config_complete(struct pl_emu_config c);
#endif
