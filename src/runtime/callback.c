/*
 * pl_host_callback(): a C function of any signature in stream order. The driver takes one kind of function only, so it is given
 * a fixed one of ours whose data is a prepared call; nothing executable is made, and no closure is needed.
 */
#include "src/runtime/context.h"

#include <ffi.h>
#include <string.h>

enum { MAX_VALUES = 16 };

struct pl_callback {
    struct pl_callback *next; /* kept ones */
    struct pl_alloc_hooks hooks;
    bool is_kept; /* a graph may call it again: freed with the context */
    void (*fn)(void);
    ffi_cif cif;
    ffi_type *types[MAX_VALUES];
    pl_c_value values[MAX_VALUES];
    void *pointers[MAX_VALUES];
};

static ffi_type *type_of(pl_c_type t)
{
    switch (t) {
    case PL_C_I32: return &ffi_type_sint32;
    case PL_C_U32: return &ffi_type_uint32;
    case PL_C_I64: return &ffi_type_sint64;
    case PL_C_U64: return &ffi_type_uint64;
    case PL_C_F32: return &ffi_type_float;
    case PL_C_F64: return &ffi_type_double;
    case PL_C_POINTER: return &ffi_type_pointer;
    }
    return NULL;
}

/* What the driver calls, on a thread of its own. */
static void run(void *p)
{
    struct pl_callback *c = p;
    struct pl_inside *in = pl_inside_get();
    in->is_callback = true;
    ffi_call(&c->cif, c->fn, NULL, c->pointers);
    in->is_callback = false;
    if (!c->is_kept)
        c->hooks.free(c, c->hooks.user);
}

static bool fill(struct pl_callback *c, void (*fn)(void), const pl_c_value *values, size_t n)
{
    c->fn = fn;
    for (size_t i = 0; i < n; i++) {
        c->values[i] = values[i];
        c->pointers[i] = &c->values[i].u;
        c->types[i] = type_of(values[i].type);
        if (c->types[i] == NULL)
            return false;
    }
    return ffi_prep_cif(&c->cif, FFI_DEFAULT_ABI, (unsigned)n, &ffi_type_void, c->types) == FFI_OK;
}

static int64_t first_without_type(const pl_c_value *values)
{
    while (type_of(values->type) != NULL)
        values++;
    return (int64_t)values->type;
}

static void keep(struct pl_context *ctx, struct pl_callback *c)
{
    c->is_kept = true;
    c->next = atomic_load(&ctx->kept_callbacks);
    while (!atomic_compare_exchange_weak(&ctx->kept_callbacks, &c->next, c))
        ;
}

void pl_callbacks_fini(struct pl_context *ctx)
{
    struct pl_callback *next;
    for (struct pl_callback *c = atomic_load(&ctx->kept_callbacks); c != NULL; c = next) {
        next = c->next;
        ctx->hooks.free(c, ctx->hooks.user);
    }
}

static pl_status enqueue(struct pl_context *ctx, pl_stream stream, struct pl_callback *c,
                         struct pl_call *call)
{
    struct pl_place place;
    pl_status st = pl_place_find(&place, ctx, stream, call);
    if (st != PL_OK) {
        ctx->hooks.free(c, ctx->hooks.user);
        return st;
    }
    bool is_kept = place.is_capturing;
    if (is_kept)
        keep(ctx, c);
    pl_cu_result r = ctx->driver.cu.LaunchHostFunc(stream, run, c);
    if (r != PL_CU_SUCCESS && !is_kept)
        ctx->hooks.free(c, ctx->hooks.user);
    pl_place_leave(&place, ctx);
    return r == PL_CU_SUCCESS ? PL_OK : pl_context_fail(call, "cuLaunchHostFunc", r);
}

pl_status pl_host_callback(pl_context *ctx, pl_stream stream, void (*fn)(void),
                           const pl_c_value *values, size_t n_values, pl_error *err)
{
    struct pl_call call = pl_call_make("pl_host_callback", ctx, err);
    const struct pl_where nowhere = {0};
    pl_status st = pl_context_check(ctx, &call);
    if (st != PL_OK)
        return st;
    if (fn == NULL || (values == NULL && n_values != 0))
        return pl_e_bad_call(&call, PL_E_INVALID, nowhere, call.function,
                             fn == NULL ? "fn is NULL" : "values is NULL");
    if (n_values > MAX_VALUES)
        return pl_call_refuse_value(&call, "n_values", (int64_t)n_values, "16 at most");
    struct pl_callback *c = ctx->hooks.alloc(sizeof *c, ctx->hooks.user);
    if (c == NULL)
        return pl_e_out_of_memory(&call, PL_E_NOMEM, nowhere, "a callback");
    memset(c, 0, sizeof *c);
    c->hooks = ctx->hooks;
    if (!fill(c, fn, values, n_values)) {
        ctx->hooks.free(c, ctx->hooks.user);
        return pl_call_refuse_value(&call, "the type of a value", first_without_type(values),
                                    "a pl_c_type");
    }
    return enqueue(ctx, stream, c, &call);
}
