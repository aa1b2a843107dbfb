/*
 * Devices: count, names, attributes, properties. Driver API reference: Initialization, Version Management, Device Management.
 */
#include "base/debug.h"
#include "emu/api/config.h"
#include "emu/api/state.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

CUresult pl_cuInit(unsigned int flags)
{
    struct pl_process *p = &pl_process;
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    pl_lock();
    CUresult r = CUDA_SUCCESS;
    switch ((enum pl_phase)atomic_load(&p->phase)) {
    case PL_PHASE_READY: break;
    case PL_PHASE_FORKED: r = CUDA_ERROR_NOT_INITIALIZED; break;
    case PL_PHASE_ENDED: r = CUDA_ERROR_DEINITIALIZED; break;
    case PL_PHASE_COLD:
        r = pl_config_read_environment();
        if (r == CUDA_SUCCESS)
            r = pl_process_init();
        if (r == CUDA_SUCCESS)
            atomic_store(&p->phase, PL_PHASE_READY);
        break;
    }
    pl_unlock();
    return r;
}

CUresult pl_cuDriverGetVersion(int *version)
{
    if (version == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    pl_lock();
    if (atomic_load(&pl_process.phase) == PL_PHASE_COLD)
        (void)pl_config_read_environment(); /* cuInit reports what is wrong with it */
    *version = pl_process.settings.driver_version;
    pl_unlock();
    return CUDA_SUCCESS;
}

CUresult pl_cuDeviceGet(CUdevice *dev, int ordinal)
{
    if (dev == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (pl_device_find(ordinal) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *dev = ordinal;
    return CUDA_SUCCESS;
}

CUresult pl_cuDeviceGetCount(int *count)
{
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *count = pl_process.n_devices;
    return CUDA_SUCCESS;
}

CUresult pl_cuDeviceGetName(char *name, int len, CUdevice dev)
{
    const struct pl_device *d = pl_device_find(dev);
    if (name == NULL || len <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (d == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)len, "%s", d->chip->name);
    return CUDA_SUCCESS;
}

/* "plaunch-emu", compute capability, ordinal: different for each device, the same in each run. */
CUresult pl_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    const struct pl_device *d = pl_device_find(dev);
    if (uuid == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (d == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *uuid = (CUuuid){{'p', 'l', 'a', 'u', 'n', 'c', 'h', '-', 'e', 'm', 'u', 0, 0, 0, 0, 0}};
    uuid->bytes[13] = (char)d->chip->sm;
    uuid->bytes[15] = (char)d->ordinal;
    return CUDA_SUCCESS;
}

CUresult pl_cuDeviceGetUuid(CUuuid *uuid, CUdevice dev) { return pl_cuDeviceGetUuid_v2(uuid, dev); }

CUresult pl_cuDeviceGetLuid(char *luid, unsigned int *node_mask, CUdevice dev)
{
    if (luid == NULL || node_mask == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return pl_device_find(dev) == NULL ? CUDA_ERROR_INVALID_DEVICE
                                       : CUDA_ERROR_NOT_SUPPORTED; /* a notion of Windows */
}

CUresult pl_cuDeviceTotalMem_v2(size_t *n_bytes, CUdevice dev)
{
    const struct pl_device *d = pl_device_find(dev);
    if (n_bytes == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (d == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *n_bytes = pl_emu_memory_total_bytes(pl_emu_device_memory(d->emu));
    return CUDA_SUCCESS;
}

static bool find_attribute(const struct pl_device *d, CUdevice_attribute attr, int *value)
{
    const struct pl_chip *c = d->chip;
    switch (attr) {
#define ATTR(name, id, figure)                                                                     \
    case CU_DEVICE_ATTRIBUTE_##name:                                                               \
        *value = figure;                                                                           \
        return true;
#include "emu/device_attr.def"
#undef ATTR
    }
    return false;
}

CUresult pl_cuDeviceGetAttribute(int *value, CUdevice_attribute attr, CUdevice dev)
{
    const struct pl_device *d = pl_device_find(dev);
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (d == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    return find_attribute(d, attr, value) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult pl_cuDeviceGetExecAffinitySupport(int *value, CUexecAffinityType type, CUdevice dev)
{
    if (value == NULL || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
        return CUDA_ERROR_INVALID_VALUE;
    if (pl_device_find(dev) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *value = 0;
    return CUDA_SUCCESS;
}

CUresult pl_cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
    const struct pl_device *d = pl_device_find(dev);
    if (prop == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (d == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    static const struct {
        CUdevice_attribute attr;
        size_t offset_bytes;
    } fields[] = {
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, offsetof(CUdevprop, maxThreadsPerBlock)},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, offsetof(CUdevprop, maxThreadsDim[0])},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, offsetof(CUdevprop, maxThreadsDim[1])},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, offsetof(CUdevprop, maxThreadsDim[2])},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, offsetof(CUdevprop, maxGridSize[0])},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, offsetof(CUdevprop, maxGridSize[1])},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, offsetof(CUdevprop, maxGridSize[2])},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, offsetof(CUdevprop, sharedMemPerBlock)},
        {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, offsetof(CUdevprop, totalConstantMemory)},
        {CU_DEVICE_ATTRIBUTE_WARP_SIZE, offsetof(CUdevprop, SIMDWidth)},
        {CU_DEVICE_ATTRIBUTE_MAX_PITCH, offsetof(CUdevprop, memPitch)},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, offsetof(CUdevprop, regsPerBlock)},
        {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, offsetof(CUdevprop, clockRate)},
        {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, offsetof(CUdevprop, textureAlign)},
    };
    for (size_t i = 0; i < PL_COUNT(fields); i++) {
        int value = 0;
        find_attribute(d, fields[i].attr, &value);
        memcpy((char *)prop + fields[i].offset_bytes, &value, sizeof value);
    }
    return CUDA_SUCCESS;
}

CUresult pl_cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
    const struct pl_device *d = pl_device_find(dev);
    if (major == NULL || minor == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (d == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *major = d->chip->major;
    *minor = d->chip->minor;
    return CUDA_SUCCESS;
}

/* Domain 0, bus ordinal + 1, device 0: what the PCI attributes say. */
CUresult pl_cuDeviceGetPCIBusId(char *id, int len, CUdevice dev)
{
    if (id == NULL || len < 13)
        return CUDA_ERROR_INVALID_VALUE;
    if (pl_device_find(dev) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(id, (size_t)len, "0000:%02X:00.0", ((unsigned)dev + 1) & 0xff);
    return CUDA_SUCCESS;
}

CUresult pl_cuDeviceGetByPCIBusId(CUdevice *dev, const char *id)
{
    if (dev == NULL || id == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < pl_process.n_devices; i++) {
        char full[16];
        pl_cuDeviceGetPCIBusId(full, sizeof full, i);
        if (strcasecmp(id, full) == 0 || strcasecmp(id, full + 5) == 0)
            return *dev = i, CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_DEVICE;
}
