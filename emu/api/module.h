#ifndef PL_EMU_API_MODULE_H
#define PL_EMU_API_MODULE_H
/*
 * Loaded code: modules (of one context), libraries (of the process, with a module in each context where one was needed),
 * their functions and kernels.
 *
 * Threads: under the API lock, which a load gives back while it parses.
 */
#include "emu/api/work.h"

struct pl_diags;

struct pl_module {
    struct pl_obj obj;
    struct pl_context *ctx;
    struct pl_module *next; /* in ctx */
    struct pl_emu_program *program;
    struct pl_library *library; /* NULL: a module of the user's */
    uint32_t n_functions;       /* entries only */
    struct pl_function *functions;
};

/* What may be set of a kernel; -1: not set. */
struct pl_func_settings {
    int max_dynamic_bytes, carveout, can_be_nonportable, cluster_policy, cluster[3];
};

/* What a kernel is told before it is launched by a function without arguments: cuFuncSetBlockShape, cuParamSetv … */
struct pl_staged {
    unsigned block[3], shared_bytes;
    size_t n_params_bytes;
    uint8_t params[4096];
};

struct pl_function {
    struct pl_obj obj;
    struct pl_module *module;
    const struct pl_emu_func *code;
    const struct pl_emu_func_info *info;
    struct pl_func_settings set;
    struct pl_kernel *kernel; /* of a library, or NULL */
    bool is_loaded;
    struct pl_staged *staged; /* the next launch by cuLaunchGrid, or NULL */
};

struct pl_kernel {
    struct pl_obj obj;
    struct pl_library *library;
    struct pl_emu_func_info info; /* name and params are the kernel's own */
    struct pl_func_settings set[PL_MAX_DEVICES];
};

struct pl_library {
    struct pl_obj obj;
    char *text; /* PTX, kept to load it into more contexts */
    size_t n_text_bytes;
    uint32_t n_kernels;
    struct pl_kernel *kernels;
};

/* The JIT options of a load, as far as they have an effect here. */
struct pl_jit_options {
    char *error_log, *info_log;
    size_t error_log_n_bytes, info_log_n_bytes;
    void **error_log_used, **info_log_used; /* where the API wants the sizes written */
};
CUresult pl_jit_read(struct pl_jit_options *o, unsigned n, const CUjit_option *options,
                     void **values);
void pl_jit_report(const struct pl_jit_options *o, const char *error);

/* The text, the fat binary, or as much of something else as pl_image_check needs; NULL: no memory. */
char *pl_image_copy(const void *image);
/* PTX for this driver? Finds its length; 209 for cubins, 222 for a version too new, 200 for what is not text, each with a
 * diagnostic. */
CUresult pl_image_check(const void *image, size_t *n_bytes, struct pl_diags *ds);
/* The same of the PTX in a fat binary, for a device of compute capability sm / 10: then *image becomes *held, to be freed. */
CUresult pl_image_open(const void **image, uint16_t sm, char **held, size_t *n_bytes,
                       struct pl_diags *ds);
/* The whole of a file and a NUL; one that ends within its fat binary is INVALID_IMAGE. */
CUresult pl_file_read(const char *path, char **out, size_t *n_bytes);

CUresult pl_module_load(struct pl_context *ctx, const void *image, const struct pl_jit_options *o,
                        struct pl_module **out);
void pl_module_unload(struct pl_module *m);  /* waits for the context's work */
void pl_module_discard(struct pl_module *m); /* one that nobody has used */
/* A variable by name; ptr or n_bytes may be NULL. */
CUresult pl_module_global(const struct pl_module *m, const char *name, bool is_managed,
                          CUdeviceptr *ptr, size_t *n_bytes);
void pl_module_drop_context(struct pl_context *ctx);
void pl_module_reset(void); /* libraries */

/* A CUfunction, or a CUkernel in its place: then the function of that kernel in ctx, loaded there if need be. */
CUresult pl_function_find(CUfunction handle, struct pl_context *ctx, struct pl_function **out);
const struct pl_emu_func *pl_function_code(const struct pl_function *f);
/* What is in force: the function's own setting, else its kernel's on this device. */
struct pl_func_settings pl_function_settings(const struct pl_function *f);
void pl_func_settings_clear(struct pl_func_settings *s);
#endif
