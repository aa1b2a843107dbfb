/*
 * Launches of kernels and host functions. Driver API reference: Execution Control.
 */
#include "emu/api/launch.h"

#include "emu/api/capture.h"
#include "emu/api/diag.h"
#include "emu/api/event.h"

#include <stdlib.h>
#include <string.h>

/* ---- clusters ---------------------------------------------------------------------------------------------------- */

enum { PORTABLE_CLUSTER = 8 };

int pl_function_max_cluster(const struct pl_function *f)
{
    int most = f->module->ctx->device->chip->max_cluster;
    struct pl_func_settings s = pl_function_settings(f);
    if (most > PORTABLE_CLUSTER && s.can_be_nonportable <= 0)
        most = PORTABLE_CLUSTER;
    if (f->info->max_cluster != 0 && (uint32_t)most > f->info->max_cluster)
        most = (int)f->info->max_cluster;
    return most;
}

static const CUlaunchAttribute *find_attribute(const CUlaunchConfig *c, CUlaunchAttributeID id)
{
    for (unsigned i = c->numAttrs; i-- > 0;)
        if (c->attrs[i].id == id)
            return &c->attrs[i];
    return NULL;
}

/* Which dimensions are asked for; the reason why that is not possible, or NULL. */
static const char *choose_cluster(const struct pl_function *f, const CUlaunchConfig *c,
                                  uint32_t out[3])
{
    const uint32_t *own = f->info->req_cluster;
    const CUlaunchAttribute *attr = find_attribute(c, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
    struct pl_func_settings s = pl_function_settings(f);
    for (int i = 0; i < 3; i++)
        out[i] = own[0] != 0 ? own[i] : s.cluster[i] > 0 ? (uint32_t)s.cluster[i] : 1;
    if (attr != NULL) {
        const uint32_t asked[3] = {attr->value.clusterDim.x, attr->value.clusterDim.y,
                                   attr->value.clusterDim.z};
        if (own[0] != 0 && memcmp(asked, own, sizeof asked) != 0)
            return "the kernel's .reqnctapercluster says another";
        memcpy(out, asked, sizeof asked);
    } else if (f->info->is_explicit_cluster && own[0] == 0 && s.cluster[0] <= 0) {
        return "the kernel is .explicitcluster, so the launch must give one";
    }
    uint64_t n = (uint64_t)out[0] * out[1] * out[2];
    if (n == 0)
        return "a dimension is zero";
    if (n != 1 && n > (uint64_t)pl_function_max_cluster(f))
        return "the device or the kernel takes fewer blocks in one";
    if (c->gridDimX % out[0] != 0 || c->gridDimY % out[1] != 0 || c->gridDimZ % out[2] != 0)
        return "it does not divide the grid";
    return NULL;
}

static CUresult check_cluster(const struct pl_function *f, const CUlaunchConfig *c,
                              struct pl_kernel_work *k, struct pl_diags *ds)
{
    const char *why = choose_cluster(f, c, k->cluster);
    if (why == NULL)
        return CUDA_SUCCESS;
    pl_d_launch_cluster(ds, (struct pl_where){0}, f->info->name, k->cluster[0], k->cluster[1],
                        k->cluster[2], why);
    return CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

/* ---- checks -------------------------------------------------------------------------------------------------------- */

static CUresult check_dims(const struct pl_function *f, const CUlaunchConfig *c,
                           struct pl_diags *ds)
{
    const struct pl_where nowhere = {0};
    bool is_grid_possible =
        c->gridDimX - 1 < INT32_MAX && c->gridDimY - 1 < 65535 && c->gridDimZ - 1 < 65535;
    bool is_block_possible = c->blockDimX - 1 < 1024 && c->blockDimY - 1 < 1024 &&
                             c->blockDimZ - 1 < 64 &&
                             (uint64_t)c->blockDimX * c->blockDimY * c->blockDimZ <= 1024;
    if (!is_grid_possible)
        pl_d_launch_dims(ds, nowhere, f->info->name, "grid", c->gridDimX, c->gridDimY, c->gridDimZ);
    if (!is_block_possible)
        pl_d_launch_dims(ds, nowhere, f->info->name, "block", c->blockDimX, c->blockDimY,
                         c->blockDimZ);
    return is_grid_possible && is_block_possible ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool is_required_block(const struct pl_emu_func_info *info, const CUlaunchConfig *c)
{
    const uint32_t *r = info->req_block;
    return r[0] == 0 || (r[0] == c->blockDimX && r[1] == c->blockDimY && r[2] == c->blockDimZ);
}

static CUresult check_block(const struct pl_function *f, const CUlaunchConfig *c,
                            struct pl_diags *ds)
{
    const struct pl_where nowhere = {0};
    const struct pl_emu_func_info *info = f->info;
    uint32_t n_threads = c->blockDimX * c->blockDimY * c->blockDimZ;
    if (n_threads > info->max_threads || !is_required_block(info, c)) {
        pl_d_launch_threads(ds, nowhere, info->name, n_threads, info->max_threads);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (info->least_regs * ((n_threads + 31) / 32 * 32) > 65536) {
        pl_d_launch_registers(ds, nowhere, info->name, info->least_regs, n_threads);
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    }
    uint32_t most = pl_function_max_dynamic(f);
    if (c->sharedMemBytes > most) {
        pl_d_launch_dynamic(ds, nowhere, info->name, c->sharedMemBytes, most);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult check_cooperative(const struct pl_function *f, const CUlaunchConfig *c,
                                  struct pl_diags *ds)
{
    uint64_t n = (uint64_t)c->gridDimX * c->gridDimY * c->gridDimZ;
    uint64_t most =
        (uint64_t)f->module->ctx->device->n_sms *
        pl_function_occupancy(f, c->blockDimX * c->blockDimY * c->blockDimZ, c->sharedMemBytes);
    if (n <= most)
        return CUDA_SUCCESS;
    pl_d_launch_cooperative(ds, (struct pl_where){0}, f->info->name, n, most);
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

static CUresult check_attributes(const CUlaunchConfig *c, struct pl_kernel_work *k)
{
    if (c->numAttrs != 0 && c->attrs == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < c->numAttrs; i++) {
        const CUlaunchAttribute *a = &c->attrs[i];
        if ((unsigned)a->id > CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING ||
            a->id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY)
            return CUDA_ERROR_INVALID_VALUE;
        if (a->id == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE &&
            a->value.deviceUpdatableKernelNode.deviceUpdatable != 0)
            return CUDA_ERROR_NOT_SUPPORTED;
        if (a->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
            k->is_cooperative = a->value.cooperative != 0;
        if (a->id == CU_LAUNCH_ATTRIBUTE_PRIORITY)
            k->priority = a->value.priority;
    }
    return CUDA_SUCCESS;
}

static CUresult check_all(const struct pl_function *f, const CUlaunchConfig *c,
                          struct pl_kernel_work *k, struct pl_diags *ds)
{
    CUresult r = check_attributes(c, k);
    if (r == CUDA_SUCCESS)
        r = check_dims(f, c, ds);
    if (r == CUDA_SUCCESS)
        r = check_block(f, c, ds);
    if (r == CUDA_SUCCESS)
        r = check_cluster(f, c, k, ds);
    if (r == CUDA_SUCCESS && k->is_cooperative)
        r = check_cooperative(f, c, ds);
    return r;
}

static CUresult finish(struct pl_say *say, CUresult r)
{
    char text[600];
    bool has_text = say->diags.list.n != 0;
    pl_say_finish(say, text, sizeof text);
    if (has_text)
        pl_process_note(text);
    return r;
}

CUresult pl_launch_cluster(const struct pl_function *f, const CUlaunchConfig *config,
                           struct pl_kernel_work *k)
{
    struct pl_say say;
    pl_say_init(&say);
    return finish(&say, check_cluster(f, config, k, &say.diags));
}

/* ---- parameters ----------------------------------------------------------------------------------------------------- */

static CUresult copy_buffer(const struct pl_function *f, void **extra, struct pl_kernel_work *k)
{
    const void *buffer = NULL;
    const size_t *n_bytes = NULL;
    for (size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[i + 1];
        else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            n_bytes = extra[i + 1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (buffer == NULL || n_bytes == NULL)
        return k->n_params_bytes == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    size_t padded = (k->n_params_bytes + 15) / 16 * 16; /* a C struct ends at its own alignment */
    if (*n_bytes >= k->n_params_bytes && *n_bytes <= padded) {
        memcpy(k->params, buffer, k->n_params_bytes);
        return CUDA_SUCCESS;
    }
    struct pl_say say;
    pl_say_init(&say);
    pl_d_launch_params(&say.diags, (struct pl_where){0}, f->info->name, *n_bytes,
                       (unsigned)k->n_params_bytes);
    return finish(&say, *n_bytes < k->n_params_bytes ? CUDA_ERROR_INVALID_VALUE
                                                     : CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
}

static CUresult fail_null(const struct pl_function *f, uint32_t i)
{
    struct pl_say say;
    pl_say_init(&say);
    pl_d_launch_param_null(&say.diags, (struct pl_where){0}, f->info->name, i, f->info->n_params);
    return finish(&say, CUDA_ERROR_INVALID_VALUE);
}

CUresult pl_launch_params(const struct pl_function *f, void **params, void **extra,
                          struct pl_kernel_work *k)
{
    const struct pl_emu_func_info *info = f->info;
    if (params != NULL && extra != NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (extra != NULL)
        return copy_buffer(f, extra, k);
    if (params == NULL)
        return info->n_params == 0 ? CUDA_SUCCESS : fail_null(f, 0);
    for (uint32_t i = 0; i < info->n_params; i++) {
        if (params[i] == NULL)
            return fail_null(f, i);
        memcpy((char *)k->params + info->params[i].offset_bytes, params[i],
               info->params[i].n_bytes);
    }
    return CUDA_SUCCESS;
}

/* ---- launch ----------------------------------------------------------------------------------------------------------- */

static void fill_dims(struct pl_kernel_work *k, const CUlaunchConfig *c)
{
    const uint32_t grid[3] = {c->gridDimX, c->gridDimY, c->gridDimZ};
    const uint32_t block[3] = {c->blockDimX, c->blockDimY, c->blockDimZ};
    memcpy(k->grid, grid, sizeof grid);
    memcpy(k->block, block, sizeof block);
    k->dynamic_bytes = c->sharedMemBytes;
}

CUresult pl_launch_prepare(struct pl_context *ctx, CUfunction func, const CUlaunchConfig *config,
                           void **params, void **extra, struct pl_work *out)
{
    struct pl_function *f;
    CUresult r = pl_function_find(func, ctx, &f);
    if (r != CUDA_SUCCESS)
        return r;
    if (f->module->ctx != ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    struct pl_kernel_work k = {.function = f,
                               .handle = pl_obj_handle(&f->obj),
                               .stack_bytes = ctx->limits[CU_LIMIT_STACK_SIZE],
                               .heap_bytes = ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE]};
    struct pl_say say;
    pl_say_init(&say);
    r = finish(&say, check_all(f, config, &k, &say.diags));
    if (r != CUDA_SUCCESS)
        return r;
    fill_dims(&k, config);
    k.n_params_bytes = f->info->param_n_bytes;
    k.params = calloc(1, k.n_params_bytes + 1);
    if (k.params == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = pl_launch_params(f, params, extra, &k);
    if (r != CUDA_SUCCESS) {
        free(k.params);
        return r;
    }
    f->is_loaded = true;
    *out = (struct pl_work){.kind = PL_WORK_KERNEL, .kernel = k};
    return CUDA_SUCCESS;
}

/* Events of the programmatic attributes: recorded when the kernel is done, the latest moment that they allow. */
static CUresult record_events(const CUlaunchConfig *c, struct pl_mark *mark)
{
    for (unsigned i = 0; i < c->numAttrs; i++) {
        const CUlaunchAttribute *a = &c->attrs[i];
        if (a->id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT &&
            a->id != CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
            continue;
        struct pl_event *e = pl_obj_find(a->value.programmaticEvent.event, PL_OBJ_EVENT);
        if (e == NULL || (e->flags & CU_EVENT_DISABLE_TIMING) == 0)
            return CUDA_ERROR_INVALID_VALUE;
        if (mark == NULL)
            continue; /* only a check, or captured */
        pl_mark_release(e->mark);
        e->mark = pl_mark_retain(mark);
        e->capture_id = 0;
    }
    return CUDA_SUCCESS;
}

CUresult pl_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction func, void **params,
                             void **extra)
{
    struct pl_stream *s;
    struct pl_work w;
    struct pl_mark *mark = NULL;
    if (config == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = pl_stream_find(config->hStream, &s);
    if (r == CUDA_SUCCESS)
        r = pl_ctx_check(s->ctx);
    if (r == CUDA_SUCCESS)
        r = pl_launch_prepare(s->ctx, func, config, params, extra, &w);
    if (r != CUDA_SUCCESS)
        return r;
    r = record_events(config, NULL);
    if (r != CUDA_SUCCESS) {
        pl_work_fini(&w);
        return r;
    }
    r = pl_stream_submit(s, &w, NULL, &mark);
    if (r == CUDA_SUCCESS && mark != NULL)
        r = record_events(config, mark);
    pl_mark_release(mark);
    return r;
}

CUresult pl_cuLaunchKernel(CUfunction func, unsigned int gx, unsigned int gy, unsigned int gz,
                           unsigned int bx, unsigned int by, unsigned int bz,
                           unsigned int smem_bytes, CUstream stream, void **params, void **extra)
{
    CUlaunchConfig c = {gx, gy, gz, bx, by, bz, smem_bytes, stream, NULL, 0};
    return pl_cuLaunchKernelEx(&c, func, params, extra);
}

CUresult pl_cuLaunchCooperativeKernel(CUfunction func, unsigned int gx, unsigned int gy,
                                      unsigned int gz, unsigned int bx, unsigned int by,
                                      unsigned int bz, unsigned int smem_bytes, CUstream stream,
                                      void **params)
{
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {.cooperative = 1}};
    CUlaunchConfig c = {gx, gy, gz, bx, by, bz, smem_bytes, stream, &a, 1};
    return pl_cuLaunchKernelEx(&c, func, params, NULL);
}

CUresult pl_cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *user)
{
    struct pl_stream *s;
    CUresult r = pl_stream_find(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (fn == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct pl_work w = {.kind = PL_WORK_HOST, .host = {.fn = fn, .user = user}};
    return pl_stream_submit(s, &w, NULL, NULL);
}
