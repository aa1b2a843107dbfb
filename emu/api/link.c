/*
 * Linking of PTX (cuLink…): the emulated driver executes text, so the result of linking one PTX module is that text, and of
 * several the text of emu/api/link_ptx.c. What contradicts an earlier input is 300 when it is added, what none defines 209 at the end
 * (docs/hardware-assumptions.md, api-link-errors).
 * Driver API reference: Module Management.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "emu/api/diag.h"
#include "emu/api/fatbin.h"
#include "emu/api/link_ptx.h"
#include "emu/api/module.h"
#include "emu/program.h"

#include <stdlib.h>
#include <string.h>

struct pl_link {
    struct pl_obj obj;
    struct pl_jit_options options;
    int sm; /* compute capability * 10 of the device that the link is for */
    struct pl_emu_link parts;
    CUresult failed; /* of an input: the link cannot be completed any more */
    char *text;      /* of the only input, or of the result; NULL: nothing was added yet */
    size_t n_bytes;  /* with the NUL: what comes out goes straight into a load */
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

static CUresult keep_text(struct pl_link *l, const char *text, size_t n_bytes)
{
    char *copy = strndup(text, n_bytes);
    if (copy == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    free(l->text);
    l->text = copy;
    l->n_bytes = n_bytes + 1;
    return CUDA_SUCCESS;
}

/* What an input that does not parse is reported as: the same words as at a load. */
static CUresult refuse_syntax(struct pl_link *l, const struct pl_ptx_error *error)
{
    struct pl_emu_fault fault = {.code = error->code, .line = error->line};
    char words[sizeof fault.text + 200];
    memcpy(fault.text, error->text, sizeof error->text);
    pl_fault_print(&fault, words, sizeof words);
    pl_jit_report(&l->options, words);
    pl_process_note(words);
    return CUDA_ERROR_INVALID_PTX;
}

static CUresult add_text(struct pl_link *l, const char *text, size_t n_bytes)
{
    struct pl_say say;
    struct pl_ptx_error error = {0};
    pl_say_init(&say);
    bool ok = pl_emu_link_add(&l->parts, text, n_bytes, &say.diags, &error);
    bool is_said = say.diags.n_errors != 0;
    CUresult r = refuse(l, &say, is_said ? CUDA_ERROR_INVALID_SOURCE : CUDA_SUCCESS);
    if (!ok && !is_said)
        r = error.text[0] != '\0' ? refuse_syntax(l, &error) : CUDA_ERROR_OUT_OF_MEMORY;
    return r != CUDA_SUCCESS ? r : keep_text(l, text, n_bytes);
}

static CUresult add_image(struct pl_link *l, const void *image)
{
    struct pl_say say;
    size_t n_bytes;
    char *held;
    pl_say_init(&say);
    CUresult r =
        refuse(l, &say, pl_image_open(&image, (uint16_t)l->sm, &held, &n_bytes, &say.diags));
    if (r == CUDA_SUCCESS) {
        r = add_text(l, image, n_bytes);
        l->failed = r;
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

/* The text of all inputs; of a single one as it came, so that lines in faults are its own. */
static CUresult finish_text(struct pl_link *l)
{
    struct pl_say say;
    struct pl_arena scratch = {0};
    struct pl_buf text;
    pl_say_init(&say);
    pl_buf_init(&text, &scratch, 1 << 12);
    bool ok = pl_emu_link_finish(&l->parts, &say.diags, &text);
    CUresult r = say.diags.n_errors != 0 ? CUDA_ERROR_NO_BINARY_FOR_GPU
                 : ok                    ? CUDA_SUCCESS
                                         : CUDA_ERROR_OUT_OF_MEMORY;
    r = refuse(l, &say, r);
    if (r == CUDA_SUCCESS && l->parts.n_parts > 1)
        r = keep_text(l, text.text, text.n_bytes);
    pl_arena_fini(&scratch);
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
        return l->failed != CUDA_SUCCESS ? l->failed : CUDA_ERROR_INVALID_IMAGE;
    CUresult r = l->failed != CUDA_SUCCESS ? l->failed : finish_text(l);
    if (r != CUDA_SUCCESS)
        return r;
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
    pl_emu_link_fini(&l->parts);
    free(l->text);
    free(l);
    return CUDA_SUCCESS;
}
