/*
 * Libraries: code of the process, in each context when it is needed there. Driver API reference: Library Management.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "base/debug.h"
#include "emu/api/capture.h"
#include "emu/api/module.h"

#include <stdlib.h>
#include <string.h>

/* ---- loading ---------------------------------------------------------------------------------------------------- */

static struct pl_module *find_instance(const struct pl_library *lib, const struct pl_context *ctx)
{
    for (struct pl_module *m = ctx->modules; m != NULL; m = m->next)
        if (m->library == lib)
            return m;
    return NULL;
}

static void bind(struct pl_module *m, struct pl_library *lib)
{
    m->library = lib;
    PL_ASSERT(lib->n_kernels == 0 || lib->n_kernels == m->n_functions);
    for (uint32_t i = 0; i < m->n_functions && i < lib->n_kernels; i++)
        m->functions[i].kernel = &lib->kernels[i];
}

static CUresult instantiate(struct pl_library *lib, struct pl_context *ctx, struct pl_module **out)
{
    *out = find_instance(lib, ctx);
    if (*out != NULL)
        return CUDA_SUCCESS;
    struct pl_module *m;
    CUresult r = pl_capture_check_unsafe(); /* a lazy first load is as unsafe as any */
    if (r == CUDA_SUCCESS)
        r = pl_module_load(ctx, lib->text, &(struct pl_jit_options){0}, &m);
    if (r != CUDA_SUCCESS)
        return r;
    *out = find_instance(lib, ctx); /* another thread may have been first while the lock was open */
    if (*out != NULL) {
        pl_module_discard(m);
        return CUDA_SUCCESS;
    }
    bind(m, lib);
    *out = m;
    return CUDA_SUCCESS;
}

/* The figures of an entry outlive the module that they come from. */
static bool copy_info(struct pl_emu_func_info *to, const struct pl_emu_func_info *from)
{
    size_t n_bytes = from->n_params * sizeof *from->params;
    struct pl_emu_param_info *params = malloc(n_bytes + 1);
    *to = *from;
    to->name = strdup(from->name);
    to->params = params;
    if (params != NULL && n_bytes != 0)
        memcpy(params, from->params, n_bytes);
    return to->name != NULL && params != NULL;
}

static void free_info(struct pl_emu_func_info *info)
{
    free((void *)(uintptr_t)info->name);
    free((void *)(uintptr_t)info->params);
}

static void free_library(struct pl_library *lib)
{
    for (uint32_t i = 0; i < lib->n_kernels; i++) {
        pl_obj_remove(&lib->kernels[i].obj);
        free_info(&lib->kernels[i].info);
    }
    pl_obj_remove(&lib->obj);
    free(lib->kernels);
    free(lib->text);
    free(lib);
}

static bool init_kernel(struct pl_kernel *k, struct pl_library *lib, const struct pl_function *f)
{
    k->library = lib;
    for (int i = 0; i < PL_MAX_DEVICES; i++)
        pl_func_settings_clear(&k->set[i]);
    return copy_info(&k->info, f->info) && pl_obj_add(&k->obj, PL_OBJ_KERNEL);
}

static bool add_kernels(struct pl_library *lib, const struct pl_module *m)
{
    lib->kernels = calloc(m->n_functions + 1, sizeof *lib->kernels);
    if (lib->kernels == NULL)
        return false;
    for (uint32_t i = 0; i < m->n_functions; i++) {
        lib->n_kernels++;
        if (!init_kernel(&lib->kernels[i], lib, &m->functions[i]))
            return false;
    }
    return true;
}

/*
 * A library needs no context, but its text is checked and its kernels are listed at the load: in the current context, where it
 * then stays, or in a context of the moment on the first device that takes it.
 */
static CUresult load_first(struct pl_library *lib, const struct pl_jit_options *o)
{
    struct pl_context *ctx = pl_ctx_current();
    struct pl_module *m;
    if (ctx != NULL && ctx->is_active) {
        CUresult r = pl_module_load(ctx, lib->text, o, &m);
        if (r != CUDA_SUCCESS)
            return r;
        bool ok = add_kernels(lib, m);
        if (ok)
            bind(m, lib);
        return ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult first = CUDA_SUCCESS;
    for (int i = 0; i < pl_process.n_devices; i++) {
        struct pl_context *moment;
        CUresult r = pl_ctx_create(&pl_process.devices[i], 0, &moment);
        if (r != CUDA_SUCCESS)
            return r;
        r = pl_module_load(moment, lib->text, o, &m);
        bool ok = r == CUDA_SUCCESS && add_kernels(lib, m);
        pl_ctx_destroy(moment);
        if (r == CUDA_SUCCESS)
            return ok ? r : CUDA_ERROR_OUT_OF_MEMORY;
        if (first == CUDA_SUCCESS)
            first = r;
    }
    return first;
}

static CUresult check_library_options(CUlibraryOption *options, void **values, unsigned n)
{
    if (n != 0 && options == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    (void)
        values; /* the text is always copied, so whether the caller preserves it is of no interest */
    for (unsigned i = 0; i < n; i++)
        if ((unsigned)options[i] > CU_LIBRARY_BINARY_IS_PRESERVED)
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult pl_cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *options,
                              void **values, unsigned int n_options, CUlibraryOption *lib_options,
                              void **lib_values, unsigned int n_lib_options)
{
    struct pl_jit_options o;
    if (library == NULL || code == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = pl_jit_read(&o, n_options, options, values);
    if (r == CUDA_SUCCESS)
        r = check_library_options(lib_options, lib_values, n_lib_options);
    if (r != CUDA_SUCCESS)
        return r;
    struct pl_library *lib = calloc(1, sizeof *lib);
    if (lib == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    lib->text = pl_image_copy(code);
    r = lib->text == NULL ? CUDA_ERROR_OUT_OF_MEMORY : load_first(lib, &o);
    if (r == CUDA_SUCCESS && !pl_obj_add(&lib->obj, PL_OBJ_LIBRARY))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS) {
        free_library(lib);
        return r;
    }
    pl_process.n_loads++;
    *library = pl_obj_handle(&lib->obj);
    return CUDA_SUCCESS;
}

CUresult pl_cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *options,
                                  void **values, unsigned int n_options,
                                  CUlibraryOption *lib_options, void **lib_values,
                                  unsigned int n_lib_options)
{
    char *text;
    size_t n_bytes;
    if (library == NULL || path == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = pl_file_read(path, &text, &n_bytes);
    if (r != CUDA_SUCCESS)
        return r;
    r = pl_cuLibraryLoadData(library, text, options, values, n_options, lib_options, lib_values,
                             n_lib_options);
    free(text);
    return r;
}

/* Every context loses its module of the library, after the work that may use it. */
static void drop_instances(struct pl_library *lib)
{
    uint32_t i = 0;
    for (struct pl_context *ctx; (ctx = pl_obj_next(&i, PL_OBJ_CONTEXT)) != NULL;) {
        struct pl_module *m = find_instance(lib, ctx);
        if (m != NULL)
            pl_module_unload(m);
    }
}

CUresult pl_cuLibraryUnload(CUlibrary library)
{
    struct pl_library *lib = pl_obj_find(library, PL_OBJ_LIBRARY);
    if (lib == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    drop_instances(lib);
    free_library(lib);
    pl_process.n_unloads++;
    return CUDA_SUCCESS;
}

void pl_module_reset(void)
{
    uint32_t i = 0;
    for (struct pl_library *lib; (lib = pl_obj_next(&i, PL_OBJ_LIBRARY)) != NULL;)
        free_library(lib);
}

/* ---- what a library holds -------------------------------------------------------------------------------------------- */

CUresult pl_cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    const struct pl_library *lib = pl_obj_find(library, PL_OBJ_LIBRARY);
    if (kernel == NULL || name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (lib == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    for (uint32_t i = 0; i < lib->n_kernels; i++) {
        if (strcmp(lib->kernels[i].info.name, name) != 0)
            continue;
        *kernel = pl_obj_handle(&lib->kernels[i].obj);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult pl_cuLibraryGetKernelCount(unsigned int *count, CUlibrary library)
{
    const struct pl_library *lib = pl_obj_find(library, PL_OBJ_LIBRARY);
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (lib == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    *count = lib->n_kernels;
    return CUDA_SUCCESS;
}

CUresult pl_cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int n_kernels, CUlibrary library)
{
    const struct pl_library *lib = pl_obj_find(library, PL_OBJ_LIBRARY);
    if (kernels == NULL && n_kernels != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (lib == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    for (uint32_t i = 0; i < lib->n_kernels && i < n_kernels; i++)
        kernels[i] = pl_obj_handle(&lib->kernels[i].obj);
    return CUDA_SUCCESS;
}

/* The module of a library in the current context. */
static CUresult current_instance(CUlibrary library, struct pl_module **out)
{
    struct pl_library *lib = pl_obj_find(library, PL_OBJ_LIBRARY);
    return lib == NULL ? CUDA_ERROR_INVALID_HANDLE : instantiate(lib, pl_ctx_current(), out);
}

CUresult pl_cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
    struct pl_module *m;
    if (module == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = current_instance(library, &m);
    if (r == CUDA_SUCCESS)
        *module = pl_obj_handle(&m->obj);
    return r;
}

CUresult pl_cuLibraryGetGlobal(CUdeviceptr *ptr, size_t *n_bytes, CUlibrary library,
                               const char *name)
{
    struct pl_module *m;
    if (name == NULL || (ptr == NULL && n_bytes == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = current_instance(library, &m);
    return r != CUDA_SUCCESS ? r : pl_module_global(m, name, false, ptr, n_bytes);
}

CUresult pl_cuLibraryGetManaged(CUdeviceptr *ptr, size_t *n_bytes, CUlibrary library,
                                const char *name)
{
    struct pl_module *m;
    if (name == NULL || (ptr == NULL && n_bytes == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = current_instance(library, &m);
    return r != CUDA_SUCCESS ? r : pl_module_global(m, name, true, ptr, n_bytes);
}

CUresult pl_cuLibraryGetUnifiedFunction(void **fptr, CUlibrary library, const char *symbol)
{
    if (fptr == NULL || symbol == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return pl_obj_find(library, PL_OBJ_LIBRARY) == NULL ? CUDA_ERROR_INVALID_HANDLE
                                                        : CUDA_ERROR_NOT_FOUND;
}

/* ---- kernels --------------------------------------------------------------------------------------------------------- */

static uint32_t index_of(const struct pl_kernel *k) { return (uint32_t)(k - k->library->kernels); }

CUresult pl_function_find(CUfunction handle, struct pl_context *ctx, struct pl_function **out)
{
    *out = pl_obj_find(handle, PL_OBJ_FUNCTION);
    if (*out != NULL)
        return CUDA_SUCCESS;
    struct pl_kernel *k = pl_obj_find(handle, PL_OBJ_KERNEL);
    struct pl_module *m;
    if (k == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (ctx == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult r = instantiate(k->library, ctx, &m);
    if (r != CUDA_SUCCESS)
        return r;
    *out = &m->functions[index_of(k)];
    return CUDA_SUCCESS;
}

CUresult pl_cuKernelGetFunction(CUfunction *func, CUkernel kernel)
{
    struct pl_function *f;
    if (func == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (pl_obj_find(kernel, PL_OBJ_KERNEL) == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = pl_function_find((CUfunction)kernel, pl_ctx_current(), &f);
    if (r == CUDA_SUCCESS)
        *func = pl_obj_handle(&f->obj);
    return r;
}

CUresult pl_cuKernelGetLibrary(CUlibrary *library, CUkernel kernel)
{
    const struct pl_kernel *k = pl_obj_find(kernel, PL_OBJ_KERNEL);
    if (library == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (k == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    *library = pl_obj_handle(&k->library->obj);
    return CUDA_SUCCESS;
}

CUresult pl_cuKernelGetName(const char **name, CUkernel kernel)
{
    const struct pl_kernel *k = pl_obj_find(kernel, PL_OBJ_KERNEL);
    if (name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (k == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    *name = k->info.name;
    return CUDA_SUCCESS;
}
