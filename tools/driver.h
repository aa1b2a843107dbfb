#ifndef PL_TOOLS_DRIVER_H
#define PL_TOOLS_DRIVER_H
/*
 * The few Driver API functions that the command and the benches call by themselves, loaded by name. Types are those of the ABI
 * (CUDA 13.0 Driver API); the last ones exist on the emulated driver only and are NULL elsewhere.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pl_tool_driver {
    int (*init)(unsigned);
    int (*device_get)(int *, int);
    int (*ctx_retain)(void **, int);
    int (*ctx_set)(void *);
    int (*load)(void **, const void *);
    int (*get_function)(void **, void *, const char *);
    int (*mem_alloc)(uint64_t *, size_t);
    int (*to_device)(uint64_t, const void *, size_t);
    int (*to_host)(void *, uint64_t, size_t);
    int (*launch_ex)(const void *, void *, void **, void **);
    int (*set_attribute)(void *, int, int);
    int (*synchronize)(void);
    int (*error_name)(int, const char **);
    int (*encode)(void *, int, uint32_t, void *, const uint64_t *, const uint64_t *,
                  const uint32_t *, const uint32_t *, int, int, int, int);
    int (*encode_wide)(void *, int, uint32_t, void *, const uint64_t *, const uint64_t *, int, int,
                       uint32_t, uint32_t, const uint32_t *, int, int, int, int, int); /* 12.8 */
    int (*param_info)(void *, size_t, size_t *, size_t *);                             /* 12.4 */
    size_t (*last_fault)(char *, size_t);
    uint64_t (*emu_query)(const char *);
    int (*emu_configure)(const char *, const char *);
};

/* CUlaunchAttribute and CUlaunchConfig of the Driver API (CUDA 13.0, "Execution Control"). */
struct pl_tool_launch_attribute {
    int id;
    char pad[4];
    union {
        char bytes[64];
        unsigned dims[3];
    } value;
};
struct pl_tool_launch_config {
    unsigned grid[3], block[3], smem_bytes;
    void *stream;
    struct pl_tool_launch_attribute *attrs;
    unsigned n_attrs;
};
enum {
    PL_TOOL_ATTRIBUTE_CLUSTER = 4,
    PL_TOOL_FUNC_MAX_DYNAMIC_SMEM = 8,
    PL_TOOL_FUNC_NON_PORTABLE_CLUSTER = 14
};

/* driver: what pl_context_options.driver takes. False: why[] says what is missing. */
bool pl_tool_driver_load(struct pl_tool_driver *out, const char *driver, char *why,
                         size_t why_bytes);
#endif
