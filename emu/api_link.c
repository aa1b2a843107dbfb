/*
 * Linking of PTX (cuLink…): the emulated driver executes text, so the result of linking one PTX module is that text.
 * Driver API reference: Module Management.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "emu/api_diag.h"
#include "emu/api_fatbin.h"
#include "emu/api_module.h"

#include <stdlib.h>
#include <string.h>

struct pl_link {
    struct pl_obj obj;
    struct pl_jit_options options;
    int sm;     /* compute capability * 10 of the device that the link is for */
    char *text; /* NULL: nothing was added yet */
    size_t n_bytes;
};

CUresult pl_cuLinkCreate_v2(unsigned int n_options, CUjit_option *options, void **values,
                            CUlinkState *state)
{
    if (state == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct pl_link *l = calloc(1, sizeof *l);
    if (l == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    l->sm = pl_ctx_current()->device->chip->sm;
    CUresult r = pl_jit_read(&l->options, n_options, options, values);
    if (r == CUDA_SUCCESS && !pl_obj_add(&l->obj, PL_OBJ_LINK))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS) {
        free(l);
        return r;
    }
    *state = pl_obj_handle(&l->obj);
    return CUDA_SUCCESS;
}

static CUresult refuse(const struct pl_link *l, struct pl_say *say, CUresult r)
{
    char text[600];
    pl_say_finish(say, text, sizeof text);
    if (r != CUDA_SUCCESS) {
        pl_jit_report(&l->options, text);
        pl_process_note(text);
    }
    return r;
}

static CUresult add_image(struct pl_link *l, const void *image)
{
    struct pl_say say;
    size_t n_bytes;
    char *held;
    pl_say_init(&say);
    CUresult r = pl_image_open(&image, (uint16_t)l->sm, &held, &n_bytes, &say.diags);
    if (r == CUDA_SUCCESS && l->text != NULL) {
        pl_d_link_two(&say.diags, (struct pl_where){0});
        r = CUDA_ERROR_NOT_SUPPORTED;
    }
    r = refuse(l, &say, r);
    if (r == CUDA_SUCCESS) {
        l->text = strdup(image);
        l->n_bytes = n_bytes + 1; /* with its NUL: what comes out goes straight into a load */
        r = l->text != NULL ? r : CUDA_ERROR_OUT_OF_MEMORY;
    }
    free(held);
    return r;
}

CUresult pl_cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t n_bytes,
                             const char *name, unsigned int n_options, CUjit_option *options,
                             void **values)
{
    struct pl_link *l = pl_obj_find(state, PL_OBJ_LINK);
    struct pl_jit_options ignored;
    (void)name;
    if (l == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (data == NULL || n_bytes == 0 || (unsigned)type > CU_JIT_INPUT_NVVM)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = pl_jit_read(&ignored, n_options, options, values);
    if (r != CUDA_SUCCESS)
        return r;
    if (n_bytes < 4 || pl_fatbin_is_cut(data, n_bytes))
        return CUDA_ERROR_INVALID_IMAGE;
    char *image = malloc(n_bytes + 1);
    if (image == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(image, data, n_bytes);
    image[n_bytes] = '\0';
    r = add_image(l, image);
    free(image);
    return r;
}

CUresult pl_cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
                             unsigned int n_options, CUjit_option *options, void **values)
{
    char *text;
    size_t n_bytes;
    if (pl_obj_find(state, PL_OBJ_LINK) == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (path == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = pl_file_read(path, &text, &n_bytes);
    if (r != CUDA_SUCCESS)
        return r;
    r = pl_cuLinkAddData_v2(state, type, text, n_bytes + 1, path, n_options, options, values);
    free(text);
    return r;
}

/* The result is the state's: it lives until cuLinkDestroy. */
CUresult pl_cuLinkComplete(CUlinkState state, void **out, size_t *n_bytes)
{
    struct pl_link *l = pl_obj_find(state, PL_OBJ_LINK);
    if (l == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (l->text == NULL)
        return CUDA_ERROR_INVALID_IMAGE;
    pl_jit_report(&l->options, "");
    *out = l->text;
    if (n_bytes != NULL)
        *n_bytes = l->n_bytes;
    return CUDA_SUCCESS;
}

CUresult pl_cuLinkDestroy(CUlinkState state)
{
    struct pl_link *l = pl_obj_find(state, PL_OBJ_LINK);
    if (l == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    pl_obj_remove(&l->obj);
    free(l->text);
    free(l);
    return CUDA_SUCCESS;
}
