/*
 * Modules: code of one context. Driver API reference: Module Management; JIT linking (cuLink…) in emu/api/link.c.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "emu/api/module.h"

#include "emu/api/diag.h"
#include "emu/api/fatbin.h"
#include "emu/api/work.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- images ------------------------------------------------------------------------------------------------- */

/* First driver that takes a PTX version. PTX ISA, Release Notes; CUDA 12.6 added none. */
static int driver_of_ptx(int major, int minor)
{
    static const struct {
        int ptx, driver;
    } rows[] = {{70, 11000}, {71, 11010}, {72, 11020}, {73, 11030}, {74, 11040}, {75, 11050},
                {76, 11060}, {77, 11070}, {78, 11080}, {80, 12000}, {81, 12010}, {82, 12020},
                {83, 12030}, {84, 12040}, {85, 12050}, {86, 12070}, {87, 12080}, {88, 12090},
                {90, 13000}, {91, 13010}, {92, 13020}, {93, 13030}, {94, 13040}, {95, 13050}};
    int want = major * 10 + minor;
    if (want < 70)
        return 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].ptx == want)
            return rows[i].driver;
    return 99999;
}

/* The text behind comments and white space. */
static const char *skip_blanks(const char *p)
{
    for (;;) {
        while (isspace((unsigned char)*p))
            p++;
        if (p[0] == '/' && p[1] == '/') {
            p += strcspn(p, "\n");
        } else if (p[0] == '/' && p[1] == '*') {
            const char *end = strstr(p + 2, "*/");
            p = end != NULL ? end + 2 : p + strlen(p);
        } else {
            return p;
        }
    }
}

/* Byte by byte, since a short text may end right behind its first bytes. */
static bool begins_with(const void *image, const char *magic)
{
    const char *b = image;
    for (size_t i = 0; i < 4; i++)
        if (b[i] != magic[i])
            return false;
    return true;
}

static bool is_cubin(const void *image)
{
    return begins_with(image, "\x7f"
                              "ELF");
}

char *pl_image_copy(const void *image)
{
    size_t n_bytes = 4;
    if (is_cubin(image))
        return strndup(image, n_bytes);
    if (!pl_fatbin_is(image))
        return strdup(image);
    const uint8_t *all = pl_fatbin_find(image, &n_bytes);
    char *copy = malloc(n_bytes);
    if (copy != NULL)
        memcpy(copy, all != NULL ? all : image, n_bytes);
    return copy;
}

CUresult pl_image_check(const void *image, size_t *n_bytes, struct pl_diags *ds)
{
    struct pl_where nowhere = {0};
    int major, minor;
    if (is_cubin(image))
        return pl_d_image_cubin(ds, nowhere), CUDA_ERROR_NO_BINARY_FOR_GPU;
    const char *p = skip_blanks(image);
    if (strncmp(p, ".version", 8) != 0)
        return pl_d_image_unknown(ds, nowhere), CUDA_ERROR_INVALID_IMAGE;
    *n_bytes = strlen(image);
    if (sscanf(skip_blanks(p + 8), "%3d.%3d", &major, &minor) == 2 &&
        driver_of_ptx(major, minor) > pl_process.settings.driver_version) {
        pl_d_image_too_new(ds, nowhere, major, minor, pl_process.settings.driver_version);
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    }
    return CUDA_SUCCESS;
}

CUresult pl_file_read(const char *path, char **out, size_t *n_bytes)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return CUDA_ERROR_FILE_NOT_FOUND;
    size_t n = 0, cap = 1 << 16;
    char *text = malloc(cap);
    while (text != NULL) {
        n += fread(text + n, 1, cap - n - 1, f);
        if (n < cap - 1)
            break;
        cap *= 2;
        char *more = realloc(text, cap);
        if (more == NULL)
            free(text);
        text = more;
    }
    fclose(f);
    if (text == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    text[n] = '\0';
    if (n >= 4 && pl_fatbin_is_cut(text, n)) {
        free(text);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    *out = text;
    *n_bytes = n;
    return CUDA_SUCCESS;
}

/* ---- JIT options ------------------------------------------------------------------------------------------------ */

/* Sizes travel in the pointer itself. Options about the compiler have nothing to act on: there is none. */
CUresult pl_jit_read(struct pl_jit_options *o, unsigned n, const CUjit_option *options,
                     void **values)
{
    *o = (struct pl_jit_options){0};
    if (n != 0 && (options == NULL || values == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n; i++) {
        switch ((int)options[i]) {
        case CU_JIT_INFO_LOG_BUFFER: o->info_log = values[i]; break;
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
            o->info_log_n_bytes = (uintptr_t)values[i] & UINT32_MAX;
            o->info_log_used = &values[i];
            break;
        case CU_JIT_ERROR_LOG_BUFFER: o->error_log = values[i]; break;
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
            o->error_log_n_bytes = (uintptr_t)values[i] & UINT32_MAX;
            o->error_log_used = &values[i];
            break;
        default:
            if ((unsigned)options[i] > CU_JIT_SPLIT_COMPILE)
                return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
}

static void fill_log(char *log, size_t log_n_bytes, void **used, const char *text)
{
    size_t n = 0;
    if (log != NULL && log_n_bytes != 0) {
        snprintf(log, log_n_bytes, "%s", text);
        n = strlen(log);
        n += n != 0; /* the NUL counts, where there is a text */
    }
    if (used != NULL)
        *used = (void *)(uintptr_t)n;
}

void pl_jit_report(const struct pl_jit_options *o, const char *error)
{
    fill_log(o->info_log, o->info_log_n_bytes, o->info_log_used, "");
    fill_log(o->error_log, o->error_log_n_bytes, o->error_log_used, error);
}

/* ---- functions -------------------------------------------------------------------------------------------------- */

void pl_func_settings_clear(struct pl_func_settings *s)
{
    *s = (struct pl_func_settings){-1, -1, -1, -1, {-1, -1, -1}};
}

static int either(int own, int other) { return own != -1 ? own : other; }

struct pl_func_settings pl_function_settings(const struct pl_function *f)
{
    struct pl_func_settings s = f->set;
    if (f->kernel == NULL)
        return s;
    const struct pl_func_settings *k = &f->kernel->set[f->module->ctx->device->ordinal];
    s.max_dynamic_bytes = either(s.max_dynamic_bytes, k->max_dynamic_bytes);
    s.carveout = either(s.carveout, k->carveout);
    s.can_be_nonportable = either(s.can_be_nonportable, k->can_be_nonportable);
    s.cluster_policy = either(s.cluster_policy, k->cluster_policy);
    for (int i = 0; i < 3; i++)
        s.cluster[i] = either(s.cluster[i], k->cluster[i]);
    return s;
}

const struct pl_emu_func *pl_function_code(const struct pl_function *f) { return f->code; }

static void remove_functions(struct pl_module *m)
{
    for (uint32_t i = 0; i < m->n_functions; i++) {
        pl_obj_remove(&m->functions[i].obj);
        free(m->functions[i].staged);
    }
    free(m->functions);
    m->functions = NULL;
    m->n_functions = 0;
}

static bool add_functions(struct pl_module *m)
{
    uint32_t n_all = pl_emu_program_n_funcs(m->program);
    m->functions = calloc(n_all + 1, sizeof *m->functions);
    if (m->functions == NULL)
        return false;
    for (uint32_t i = 0; i < n_all; i++) {
        const struct pl_emu_func *code = pl_emu_program_func(m->program, i);
        const struct pl_emu_func_info *info = pl_emu_func_info(code);
        if (!info->is_entry)
            continue;
        struct pl_function *f = &m->functions[m->n_functions];
        *f = (struct pl_function){.module = m, .code = code, .info = info};
        pl_func_settings_clear(&f->set);
        if (!pl_obj_add(&f->obj, PL_OBJ_FUNCTION))
            return false;
        m->n_functions++;
    }
    return true;
}

/* ---- load and unload ---------------------------------------------------------------------------------------------- */

static CUresult refuse(const struct pl_jit_options *o, const char *text, CUresult code)
{
    pl_jit_report(o, text);
    pl_process_note(text);
    return code;
}

CUresult pl_image_open(const void **image, uint16_t sm, char **held, size_t *n_bytes,
                       struct pl_diags *ds)
{
    *held = NULL;
    if (pl_fatbin_is(*image)) {
        CUresult r = pl_fatbin_text(*image, sm, held, ds);
        if (r != CUDA_SUCCESS)
            return r;
        *image = *held;
    }
    return pl_image_check(*image, n_bytes, ds);
}

static CUresult open_image(const struct pl_context *ctx, const void **image, char **held,
                           const struct pl_jit_options *o, size_t *n_bytes)
{
    struct pl_say say;
    char text[600];
    uint32_t most = pl_process.settings.max_libraries;
    pl_say_init(&say);
    CUresult r = pl_image_open(image, (uint16_t)ctx->device->chip->sm, held, n_bytes, &say.diags);
    if (r == CUDA_SUCCESS && most != 0 && pl_obj_count(PL_OBJ_MODULE) >= most) {
        pl_d_too_many_modules(&say.diags, (struct pl_where){0}, most);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    pl_say_finish(&say, text, sizeof text);
    return r != CUDA_SUCCESS ? refuse(o, text, r) : r;
}

CUresult pl_module_load(struct pl_context *ctx, const void *image, const struct pl_jit_options *o,
                        struct pl_module **out)
{
    size_t n_bytes;
    char *held;
    CUresult r = open_image(ctx, &image, &held, o, &n_bytes);
    struct pl_module *m = r == CUDA_SUCCESS ? calloc(1, sizeof *m) : NULL;
    if (m == NULL) {
        free(held);
        return r != CUDA_SUCCESS ? r : CUDA_ERROR_OUT_OF_MEMORY;
    }
    m->ctx = ctx;
    struct pl_emu_fault fault = {0};
    pl_unlock();
    bool ok = pl_emu_program_load(ctx->device->emu, image, n_bytes, &m->program, &fault);
    pl_lock();
    free(held);
    if (!ok) {
        char words[sizeof fault.text + 200];
        pl_fault_print(&fault, words, sizeof words);
        free(m);
        return refuse(o, words,
                      fault.result != 0 ? (CUresult)fault.result : CUDA_ERROR_INVALID_PTX);
    }
    if (!add_functions(m) || !pl_obj_add(&m->obj, PL_OBJ_MODULE)) {
        remove_functions(m);
        pl_emu_program_unload(m->program);
        free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pl_jit_report(o, "");
    m->next = ctx->modules;
    ctx->modules = m;
    *out = m;
    return CUDA_SUCCESS;
}

void pl_module_discard(struct pl_module *m)
{
    for (struct pl_module **at = &m->ctx->modules; *at != NULL; at = &(*at)->next) {
        if (*at != m)
            continue;
        *at = m->next;
        break;
    }
    remove_functions(m);
    pl_emu_program_unload(m->program);
    pl_obj_remove(&m->obj);
    free(m);
}

void pl_module_unload(struct pl_module *m)
{
    pl_ctx_drain(m->ctx);
    pl_module_discard(m);
}

void pl_module_drop_context(struct pl_context *ctx)
{
    while (ctx->modules != NULL)
        pl_module_discard(ctx->modules);
}

static CUresult load_user_module(CUmodule *module, const void *image, unsigned n_options,
                                 const CUjit_option *options, void **values)
{
    struct pl_jit_options o;
    struct pl_module *m;
    if (module == NULL || image == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = pl_jit_read(&o, n_options, options, values);
    if (r == CUDA_SUCCESS)
        r = pl_module_load(pl_ctx_current(), image, &o, &m);
    if (r != CUDA_SUCCESS)
        return r;
    pl_process.n_loads++;
    *module = pl_obj_handle(&m->obj);
    return CUDA_SUCCESS;
}

CUresult pl_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int n_options,
                               CUjit_option *options, void **values)
{
    return load_user_module(module, image, n_options, options, values);
}

CUresult pl_cuModuleLoadData(CUmodule *module, const void *image)
{
    return load_user_module(module, image, 0, NULL, NULL);
}

CUresult pl_cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
    return load_user_module(module, image, 0, NULL, NULL);
}

CUresult pl_cuModuleLoad(CUmodule *module, const char *path)
{
    char *text;
    size_t n_bytes;
    if (module == NULL || path == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = pl_file_read(path, &text, &n_bytes);
    if (r != CUDA_SUCCESS)
        return r;
    r = load_user_module(module, text, 0, NULL, NULL);
    free(text);
    return r;
}

CUresult pl_cuModuleUnload(CUmodule module)
{
    struct pl_module *m = pl_obj_find(module, PL_OBJ_MODULE);
    if (m == NULL || m->library != NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = pl_ctx_check(m->ctx);
    if (r != CUDA_SUCCESS)
        return r;
    pl_module_unload(m);
    pl_process.n_unloads++;
    return CUDA_SUCCESS;
}

CUresult pl_cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    if (mode == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

/* ---- what a module holds ----------------------------------------------------------------------------------------------- */

CUresult pl_cuModuleGetFunction(CUfunction *func, CUmodule module, const char *name)
{
    struct pl_module *m = pl_obj_find(module, PL_OBJ_MODULE);
    if (func == NULL || name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (m == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    for (uint32_t i = 0; i < m->n_functions; i++) {
        if (strcmp(m->functions[i].info->name, name) != 0)
            continue;
        *func = pl_obj_handle(&m->functions[i].obj);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult pl_cuModuleGetFunctionCount(unsigned int *count, CUmodule module)
{
    const struct pl_module *m = pl_obj_find(module, PL_OBJ_MODULE);
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (m == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    *count = m->n_functions;
    return CUDA_SUCCESS;
}

CUresult pl_cuModuleEnumerateFunctions(CUfunction *functions, unsigned int n_functions,
                                       CUmodule module)
{
    const struct pl_module *m = pl_obj_find(module, PL_OBJ_MODULE);
    if (functions == NULL && n_functions != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (m == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    for (uint32_t i = 0; i < m->n_functions && i < n_functions; i++)
        functions[i] = pl_obj_handle(&m->functions[i].obj);
    return CUDA_SUCCESS;
}

CUresult pl_module_global(const struct pl_module *m, const char *name, bool is_managed,
                          CUdeviceptr *ptr, size_t *n_bytes)
{
    uint32_t n = pl_emu_program_n_globals(m->program);
    for (uint32_t i = 0; i < n; i++) {
        const struct pl_emu_global_info *g = pl_emu_program_global(m->program, i);
        if (strcmp(g->name, name) != 0 || (is_managed && !g->is_managed))
            continue;
        if (ptr != NULL)
            *ptr = g->address;
        if (n_bytes != NULL)
            *n_bytes = g->n_bytes;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult pl_cuModuleGetGlobal_v2(CUdeviceptr *ptr, size_t *n_bytes, CUmodule module,
                                 const char *name)
{
    const struct pl_module *m = pl_obj_find(module, PL_OBJ_MODULE);
    if (name == NULL || (ptr == NULL && n_bytes == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    return m == NULL ? CUDA_ERROR_INVALID_HANDLE : pl_module_global(m, name, false, ptr, n_bytes);
}
