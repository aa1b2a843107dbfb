/*
 * Attributes and parameters of functions and kernels, occupancy.
 * Driver API reference: Execution Control, Library Management, Occupancy.
 */
#include "emu/api/launch.h"
#include "emu/api/module.h"

enum { REGISTERS_SM = 65536, DEFAULT_SHARED_BYTES = 48 * 1024 };

/* ---- attributes --------------------------------------------------------------------------------------------------- */

/* One function or kernel on one device. */
struct view {
    const struct pl_emu_func_info *info;
    const struct pl_chip *chip;
    struct pl_func_settings set;
};

static struct view view_of(const struct pl_function *f)
{
    return (struct view){f->info, f->module->ctx->device->chip, pl_function_settings(f)};
}

static uint32_t max_threads(const struct view *v)
{
    uint32_t by_registers =
        v->info->least_regs == 0 ? 1024 : REGISTERS_SM / v->info->least_regs / 32 * 32;
    return v->info->max_threads < by_registers ? v->info->max_threads : by_registers;
}

static uint32_t max_dynamic(const struct view *v)
{
    if (v->set.max_dynamic_bytes >= 0)
        return (uint32_t)v->set.max_dynamic_bytes;
    uint32_t used = v->info->static_shared_bytes;
    return used < DEFAULT_SHARED_BYTES ? DEFAULT_SHARED_BYTES - used : 0;
}

uint32_t pl_function_max_dynamic(const struct pl_function *f)
{
    struct view v = view_of(f);
    return max_dynamic(&v);
}

static int required_cluster(const struct view *v, int i)
{
    uint32_t own = v->info->req_cluster[i];
    return own != 0 ? (int)own : v->set.cluster[i] > 0 ? v->set.cluster[i] : 0;
}

static CUresult get_attribute(const struct view *v, CUfunction_attribute attr, int *value)
{
    const struct pl_emu_func_info *info = v->info;
    switch (attr) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = (int)max_threads(v); break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = (int)info->static_shared_bytes; break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *value = (int)info->const_bytes; break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = (int)info->local_bytes; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = (int)info->n_regs; break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = v->chip->sm; break;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA: *value = 0; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = (int)max_dynamic(v); break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value = v->set.carveout; break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
        *value = info->is_explicit_cluster && info->req_cluster[0] == 0;
        break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH: *value = required_cluster(v, 0); break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT: *value = required_cluster(v, 1); break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: *value = required_cluster(v, 2); break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        *value = v->set.can_be_nonportable > 0;
        break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        *value = v->set.cluster_policy > 0 ? v->set.cluster_policy : 0;
        break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult set_cluster(const struct view *v, struct pl_func_settings *s, int i, int value)
{
    if (v->info->req_cluster[0] != 0)
        return CUDA_ERROR_NOT_PERMITTED; /* .reqnctapercluster is the kernel's own word */
    if (value <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    s->cluster[i] = value;
    return CUDA_SUCCESS;
}

static CUresult set_attribute(const struct view *v, struct pl_func_settings *s,
                              CUfunction_attribute attr, int value)
{
    int optin_bytes = v->chip->smem_optin_kib * 1024;
    switch ((int)attr) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || value > optin_bytes - (int)v->info->static_shared_bytes)
            return CUDA_ERROR_INVALID_VALUE;
        s->max_dynamic_bytes = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (value < -1 || value > 100)
            return CUDA_ERROR_INVALID_VALUE;
        s->carveout = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH: return set_cluster(v, s, 0, value);
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT: return set_cluster(v, s, 1, value);
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: return set_cluster(v, s, 2, value);
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        s->can_be_nonportable = value != 0;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        if (value < 0 || value > 2)
            return CUDA_ERROR_INVALID_VALUE;
        s->cluster_policy = value;
        return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE; /* the others are facts */
    }
}

CUresult pl_cuFuncGetAttribute(int *value, CUfunction_attribute attr, CUfunction func)
{
    struct pl_function *f;
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = pl_function_find(func, pl_ctx_current(), &f);
    if (r != CUDA_SUCCESS)
        return r;
    struct view v = view_of(f);
    return get_attribute(&v, attr, value);
}

CUresult pl_cuFuncSetAttribute(CUfunction func, CUfunction_attribute attr, int value)
{
    struct pl_function *f;
    CUresult r = pl_function_find(func, pl_ctx_current(), &f);
    if (r != CUDA_SUCCESS)
        return r;
    struct view v = view_of(f);
    return set_attribute(&v, &f->set, attr, value);
}

/* dev: -1 stands for the current device nowhere in the API, so it is refused like any other. */
static CUresult view_kernel(CUkernel kernel, CUdevice dev, struct pl_kernel **k, struct view *v)
{
    const struct pl_device *d = pl_device_find(dev);
    *k = pl_obj_find(kernel, PL_OBJ_KERNEL);
    if (*k == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (d == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *v = (struct view){&(*k)->info, d->chip, (*k)->set[dev]};
    return CUDA_SUCCESS;
}

CUresult pl_cuKernelGetAttribute(int *value, CUfunction_attribute attr, CUkernel kernel,
                                 CUdevice dev)
{
    struct pl_kernel *k;
    struct view v;
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = view_kernel(kernel, dev, &k, &v);
    return r != CUDA_SUCCESS ? r : get_attribute(&v, attr, value);
}

CUresult pl_cuKernelSetAttribute(CUfunction_attribute attr, int value, CUkernel kernel,
                                 CUdevice dev)
{
    struct pl_kernel *k;
    struct view v;
    CUresult r = view_kernel(kernel, dev, &k, &v);
    return r != CUDA_SUCCESS ? r : set_attribute(&v, &k->set[dev], attr, value);
}

static CUresult check_cache_config(CUfunc_cache config)
{
    return (unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult pl_cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
    struct pl_kernel *k;
    struct view v;
    CUresult r = view_kernel(kernel, dev, &k, &v);
    return r != CUDA_SUCCESS ? r : check_cache_config(config); /* a hint without an effect */
}

CUresult pl_cuFuncSetCacheConfig(CUfunction func, CUfunc_cache config)
{
    struct pl_function *f;
    CUresult r = pl_function_find(func, pl_ctx_current(), &f);
    return r != CUDA_SUCCESS ? r : check_cache_config(config);
}

CUresult pl_cuFuncSetSharedMemConfig(CUfunction func, CUsharedconfig config)
{
    struct pl_function *f;
    CUresult r = pl_function_find(func, pl_ctx_current(), &f);
    if (r != CUDA_SUCCESS)
        return r;
    return (unsigned)config > 2 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* ---- names, parameters, loading -------------------------------------------------------------------------------------- */

static CUresult get_param(const struct pl_emu_func_info *info, size_t index, size_t *offset_bytes,
                          size_t *n_bytes)
{
    if (offset_bytes == NULL || index >= info->n_params)
        return CUDA_ERROR_INVALID_VALUE;
    *offset_bytes = info->params[index].offset_bytes;
    if (n_bytes != NULL)
        *n_bytes = info->params[index].n_bytes;
    return CUDA_SUCCESS;
}

CUresult pl_cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset_bytes,
                                 size_t *n_bytes)
{
    const struct pl_kernel *k = pl_obj_find(kernel, PL_OBJ_KERNEL);
    if (k == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    return get_param(&k->info, index, offset_bytes, n_bytes);
}

CUresult pl_cuFuncGetParamInfo(CUfunction func, size_t index, size_t *offset_bytes, size_t *n_bytes)
{
    struct pl_function *f;
    CUresult r = pl_function_find(func, pl_ctx_current(), &f);
    return r != CUDA_SUCCESS ? r : get_param(f->info, index, offset_bytes, n_bytes);
}

CUresult pl_cuFuncGetName(const char **name, CUfunction func)
{
    struct pl_function *f;
    if (name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = pl_function_find(func, pl_ctx_current(), &f);
    if (r == CUDA_SUCCESS)
        *name = f->info->name;
    return r;
}

CUresult pl_cuFuncGetModule(CUmodule *module, CUfunction func)
{
    struct pl_function *f;
    if (module == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = pl_function_find(func, pl_ctx_current(), &f);
    if (r == CUDA_SUCCESS)
        *module = pl_obj_handle(&f->module->obj);
    return r;
}

CUresult pl_cuFuncLoad(CUfunction func)
{
    struct pl_function *f;
    CUresult r = pl_function_find(func, pl_ctx_current(), &f);
    if (r == CUDA_SUCCESS)
        f->is_loaded = true;
    return r;
}

CUresult pl_cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction func)
{
    struct pl_function *f;
    if (state == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = pl_function_find(func, pl_ctx_current(), &f);
    if (r == CUDA_SUCCESS)
        *state =
            f->is_loaded ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
    return r;
}

/* ---- occupancy ------------------------------------------------------------------------------------------------------------ */

static uint32_t occupancy(const struct pl_function *f, uint32_t n_threads, size_t dynamic_bytes)
{
    struct view v = view_of(f);
    if (n_threads == 0 || n_threads > max_threads(&v) || dynamic_bytes > max_dynamic(&v))
        return 0;
    return pl_emu_occupancy(f->module->ctx->device->emu, f->code, n_threads,
                            (uint32_t)dynamic_bytes);
}

uint32_t pl_function_occupancy(const struct pl_function *f, uint32_t n_threads,
                               uint32_t dynamic_bytes)
{
    return occupancy(f, n_threads, dynamic_bytes);
}

CUresult pl_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n_blocks, CUfunction func,
                                                                 int block_threads,
                                                                 size_t dyn_bytes,
                                                                 unsigned int flags)
{
    struct pl_function *f;
    if (n_blocks == NULL || block_threads <= 0 || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = pl_function_find(func, pl_ctx_current(), &f);
    if (r == CUDA_SUCCESS)
        *n_blocks = (int)occupancy(f, (uint32_t)block_threads, dyn_bytes);
    return r;
}

CUresult pl_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n_blocks, CUfunction func,
                                                        int block_threads, size_t dyn_bytes)
{
    return pl_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(n_blocks, func, block_threads,
                                                                   dyn_bytes, 0);
}

/* Dynamic shared memory of each block size in steps of a warp, from the user's function, called without the lock. */
static void ask_dynamic(size_t out[33], CUoccupancyB2DSize dyn_of, size_t dyn_bytes, uint32_t most)
{
    pl_unlock();
    for (uint32_t w = 1; w <= 32; w++)
        out[w] = dyn_of != NULL && w * 32 <= most ? dyn_of((int)w * 32) : dyn_bytes;
    pl_lock();
}

/* The block, of whole warps, with the most resident threads; of equal ones the largest. */
CUresult pl_cuOccupancyMaxPotentialBlockSizeWithFlags(int *min_grid, int *block_threads,
                                                      CUfunction func, CUoccupancyB2DSize dyn_of,
                                                      size_t dyn_bytes, int limit_threads,
                                                      unsigned int flags)
{
    struct pl_function *f;
    size_t dynamic[33];
    if (min_grid == NULL || block_threads == NULL || limit_threads < 0 || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    uint32_t limit = limit_threads != 0 ? (uint32_t)limit_threads : 1024;
    ask_dynamic(dynamic, dyn_of, dyn_bytes, limit);
    CUresult r = pl_function_find(func, pl_ctx_current(), &f);
    if (r != CUDA_SUCCESS)
        return r;
    struct view v = view_of(f);
    uint32_t best = 0, best_blocks = 0;
    for (uint32_t w = 32; w != 0; w--) {
        uint32_t n = w * 32;
        uint32_t blocks = n > limit || n > max_threads(&v) ? 0 : occupancy(f, n, dynamic[w]);
        if (blocks * n > best * best_blocks) {
            best = n;
            best_blocks = blocks;
        }
    }
    if (best == 0)
        return CUDA_ERROR_INVALID_VALUE;
    *block_threads = (int)best;
    *min_grid = (int)best_blocks * f->module->ctx->device->n_sms;
    return CUDA_SUCCESS;
}

CUresult pl_cuOccupancyMaxPotentialBlockSize(int *min_grid, int *block_threads, CUfunction func,
                                             CUoccupancyB2DSize dyn_of, size_t dyn_bytes,
                                             int limit_threads)
{
    return pl_cuOccupancyMaxPotentialBlockSizeWithFlags(min_grid, block_threads, func, dyn_of,
                                                        dyn_bytes, limit_threads, 0);
}

CUresult pl_cuOccupancyAvailableDynamicSMemPerBlock(size_t *dyn_bytes, CUfunction func,
                                                    int n_blocks, int block_threads)
{
    struct pl_function *f;
    if (dyn_bytes == NULL || n_blocks <= 0 || block_threads <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = pl_function_find(func, pl_ctx_current(), &f);
    if (r != CUDA_SUCCESS)
        return r;
    const struct pl_chip *c = f->module->ctx->device->chip;
    /* Each block also takes 1 KiB of the system's. */
    long share = c->smem_sm_kib * 1024L / n_blocks - 1024 - (long)f->info->static_shared_bytes;
    long most = c->smem_optin_kib * 1024L - (long)f->info->static_shared_bytes;
    share = share < most ? share / 128 * 128 : most;
    if (share < 0 || occupancy(f, (uint32_t)block_threads, 0) < (uint32_t)n_blocks)
        return CUDA_ERROR_INVALID_VALUE;
    *dyn_bytes = (size_t)share;
    return CUDA_SUCCESS;
}

/* Blocks of this shape that are resident on the whole device; 0 where not one is. */
static uint32_t resident_blocks(const struct pl_function *f, const CUlaunchConfig *c)
{
    uint64_t n = (uint64_t)c->blockDimX * c->blockDimY * c->blockDimZ;
    if (n == 0 || n > 1024)
        return 0;
    return occupancy(f, (uint32_t)n, c->sharedMemBytes) * (uint32_t)f->module->ctx->device->n_sms;
}

CUresult pl_cuOccupancyMaxPotentialClusterSize(int *n_ctas, CUfunction func,
                                               const CUlaunchConfig *config)
{
    struct pl_function *f;
    if (n_ctas == NULL || config == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = pl_function_find(func, pl_ctx_current(), &f);
    if (r != CUDA_SUCCESS)
        return r;
    int most = pl_function_max_cluster(f);
    *n_ctas = resident_blocks(f, config) == 0 ? 0 : most;
    return most > 1 ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

/*
 * The emulated machine is small; a cluster is one unit of it and always runs, so a possible cluster has at least one active.
 */
CUresult pl_cuOccupancyMaxActiveClusters(int *n_clusters, CUfunction func,
                                         const CUlaunchConfig *config)
{
    struct pl_function *f;
    struct pl_kernel_work k;
    if (n_clusters == NULL || config == NULL || (config->numAttrs != 0 && config->attrs == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = pl_function_find(func, pl_ctx_current(), &f);
    if (r == CUDA_SUCCESS)
        r = pl_launch_cluster(f, config, &k);
    if (r != CUDA_SUCCESS)
        return r;
    uint32_t size = k.cluster[0] * k.cluster[1] * k.cluster[2], blocks = resident_blocks(f, config);
    uint32_t n = blocks / size;
    *n_clusters = (int)(n != 0 ? n : blocks != 0);
    return CUDA_SUCCESS;
}
