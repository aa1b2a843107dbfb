/* pl_bind(): a kernel as a C function of its own signature, a closure of libffi over the kernel, the context and the options. */
#include <plaunch/bind.h>

#include "base/debug.h"
#include "src/runtime/context.h"

#include <ffi.h>
#include <string.h>

static const struct pl_where nowhere = {0};

struct pl_bound {
    pl_context *ctx;
    const pl_kernel *kernel;
    pl_launch_options options; /* params: the copy below */
    ffi_closure *closure;
    pl_function code; /* where the closure is called; not always where it lies */
    ffi_cif cif;
    ffi_type *types[PL_MAX_ARGS + 2]; /* stream, parameters, error */
    pl_arg_kind kinds[PL_MAX_ARGS];
    unsigned char params[PL_MAX_PARAMS_BYTES];
};

/* The kind and type of an argument; false: a scalar of several types, or of one that is not passed. */
static bool type_of(const pl_param_decl *p, pl_arg_kind *kind, ffi_type **type)
{
    static const struct {
        pl_dtype_set dtypes;
        pl_arg_kind kind;
        ffi_type *type;
    } scalars[] = {{PL_DT(I32), PL_ARG_I32, &ffi_type_sint32},
                   {PL_DT(I64), PL_ARG_I64, &ffi_type_sint64},
                   {PL_DT(F32), PL_ARG_F32, &ffi_type_float}};
    *kind = PL_ARG_TENSOR;
    *type = &ffi_type_pointer;
    if (p->role != PL_ROLE_SCALAR)
        return true;
    for (size_t i = 0; i < PL_COUNT(scalars); i++)
        if (p->dtypes == scalars[i].dtypes) {
            *kind = scalars[i].kind;
            *type = scalars[i].type;
            return true;
        }
    return false;
}

static pl_arg arg_of(pl_arg_kind kind, const void *value)
{
    const pl_tensor *t = NULL;
    int32_t i32;
    int64_t i64;
    float f32;
    switch (kind) {
    case PL_ARG_TENSOR: memcpy(&t, value, sizeof t); return pl_arg_of_tensor_(t);
    case PL_ARG_I32: memcpy(&i32, value, sizeof i32); return pl_arg_i32(i32);
    case PL_ARG_I64: memcpy(&i64, value, sizeof i64); return pl_arg_i64(i64);
    case PL_ARG_F32: memcpy(&f32, value, sizeof f32); return pl_arg_f32(f32);
    case PL_ARG_NONE: break;
    }
    return pl_arg_none();
}

/* What libffi calls for the function: values point to its arguments. */
static void launch_bound(ffi_cif *cif, void *result, void **values, void *user)
{
    const pl_bound *b = user;
    const size_t n = b->kernel->n_params;
    pl_arg args[PL_MAX_ARGS];
    pl_stream stream;
    pl_error *err;
    (void)cif;
    memcpy(&stream, values[0], sizeof stream);
    memcpy(&err, values[n + 1], sizeof err);
    for (size_t i = 0; i < n; i++)
        args[i] = arg_of(b->kinds[i], values[i + 1]);
    *(ffi_sarg *)result =
        (pl_launch)(b->ctx, b->kernel, stream, args, n, &b->options, err); /* no place of ours */
}

static pl_status take(pl_bound *b, const pl_launch_options *options, struct pl_call *call)
{
    const pl_kernel *k = b->kernel;
    b->options = (pl_launch_options){.struct_size = sizeof b->options};
    if (options == NULL)
        return PL_OK;
    if (options->struct_size != sizeof *options)
        return pl_call_refuse_size(call, "the options", options->struct_size, sizeof *options);
    b->options = *options;
    b->options.report = NULL;
    b->options.stages = NULL;
    if (options->params == NULL || k->options_bytes == 0)
        return PL_OK;
    if (k->options_bytes > sizeof b->params)
        return pl_e_kernel_struct(call, PL_E_INVALID, nowhere, "options_bytes is above 256");
    memcpy(b->params, options->params, k->options_bytes);
    b->options.params = b->params;
    return PL_OK;
}

static pl_status describe(pl_bound *b, struct pl_call *call)
{
    const pl_kernel *k = b->kernel;
    b->types[0] = b->types[k->n_params + 1] = &ffi_type_pointer;
    for (size_t i = 0; i < k->n_params; i++)
        if (!type_of(&k->params[i], &b->kinds[i], &b->types[i + 1]))
            return pl_e_bind_scalar(call, PL_E_INVALID, (struct pl_where){.arg_plus1 = (int)i + 1},
                                    k->name, k->params[i].name);
    return ffi_prep_cif(&b->cif, FFI_DEFAULT_ABI, (unsigned)k->n_params + 2, &ffi_type_sint32,
                        b->types) == FFI_OK
               ? PL_OK
               : pl_e_no_closure(call, PL_E_NOEXEC, nowhere, k->name);
}

static pl_status close_over(pl_bound *b, struct pl_call *call)
{
    void *code = NULL;
    b->closure = ffi_closure_alloc(sizeof *b->closure, &code);
    if (b->closure == NULL ||
        ffi_prep_closure_loc(b->closure, &b->cif, launch_bound, b, code) != FFI_OK)
        return pl_e_no_closure(call, PL_E_NOEXEC, nowhere, b->kernel->name);
    memcpy(&b->code, &code, sizeof b->code);
    return PL_OK;
}

pl_status pl_bind(pl_context *ctx, const pl_kernel *kernel, const pl_launch_options *options,
                  pl_bound **out, pl_error *err)
{
    struct pl_call call = pl_call_make("pl_bind", ctx, err);
    if (out == NULL)
        return pl_e_bad_call(&call, PL_E_INVALID, nowhere, call.function, "out is NULL");
    *out = NULL;
    pl_status st = pl_context_check(ctx, &call);
    if (st != PL_OK)
        return st;
    if (kernel == NULL)
        return pl_e_kernel_struct(&call, PL_E_INVALID, nowhere, "it is NULL");
    if (kernel->struct_size != sizeof *kernel)
        return pl_call_refuse_size(&call, "the kernel", kernel->struct_size, sizeof *kernel);
    if (kernel->n_params > PL_MAX_ARGS)
        return pl_e_kernel_struct(&call, PL_E_INVALID, nowhere, "it has more than 32 parameters");
    pl_bound *b = ctx->hooks.alloc(sizeof *b, ctx->hooks.user);
    if (b == NULL)
        return pl_e_out_of_memory(&call, PL_E_NOMEM, nowhere, "a bound kernel");
    memset(b, 0, sizeof *b);
    b->ctx = ctx;
    b->kernel = kernel;
    call.kernel = kernel->name;
    st = take(b, options, &call);
    if (st == PL_OK)
        st = describe(b, &call);
    if (st == PL_OK)
        st = close_over(b, &call);
    if (st != PL_OK)
        pl_bound_destroy(b);
    else
        *out = b;
    return st;
}

pl_function pl_bound_function(const pl_bound *b) { return b != NULL ? b->code : NULL; }

void pl_bound_destroy(pl_bound *b)
{
    if (b == NULL)
        return;
    const struct pl_alloc_hooks hooks = b->ctx->hooks;
    if (b->closure != NULL)
        ffi_closure_free(b->closure);
    hooks.free(b, hooks.user);
}
