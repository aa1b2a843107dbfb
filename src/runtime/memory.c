/* Memory helpers for small programs: synchronous, on the device's primary context. */
#include "src/runtime/context.h"

/* Run with the primary context current: begin gives PL_OK, or the status to return. */
struct helper {
    struct pl_call call;
    struct pl_place place;
};

static pl_status begin(struct helper *h, const char *function, pl_context *ctx, pl_error *err)
{
    h->call = pl_call_make(function, ctx, err);
    pl_status st = pl_context_check(ctx, &h->call);
    if (st != PL_OK)
        return st;
    h->place = (struct pl_place){.cu = ctx->primary, .slot = PL_NO_SLOT};
    return pl_place_push(&h->place, ctx, &h->call);
}

static pl_status fail_null(const char *function, const char *what, pl_error *err)
{
    struct pl_call call = pl_call_make(function, NULL, err);
    return pl_e_bad_call(&call, PL_E_INVALID, (struct pl_where){0}, function, what);
}

static pl_status end(struct helper *h, const char *function, pl_cu_result r)
{
    pl_place_leave(&h->place, h->call.ctx);
    return r == PL_CU_SUCCESS ? PL_OK : pl_context_fail(&h->call, function, r);
}

pl_status pl_alloc(pl_context *ctx, size_t n_bytes, uint64_t *address, pl_error *err)
{
    struct helper h;
    if (address == NULL)
        return fail_null("pl_alloc", "address is NULL", err);
    *address = 0;
    pl_status st = begin(&h, "pl_alloc", ctx, err);
    if (st != PL_OK)
        return st;
    return end(&h, "cuMemAlloc",
               n_bytes != 0 ? ctx->driver.cu.MemAlloc(address, n_bytes) : PL_CU_SUCCESS);
}

pl_status pl_free(pl_context *ctx, uint64_t address, pl_error *err)
{
    struct helper h;
    pl_status st = begin(&h, "pl_free", ctx, err);
    if (st != PL_OK)
        return st;
    return end(&h, "cuMemFree", address != 0 ? ctx->driver.cu.MemFree(address) : PL_CU_SUCCESS);
}

pl_status pl_upload(pl_context *ctx, uint64_t to, const void *from, size_t n_bytes, pl_error *err)
{
    struct helper h;
    if (from == NULL && n_bytes != 0)
        return fail_null("pl_upload", "from is NULL", err);
    pl_status st = begin(&h, "pl_upload", ctx, err);
    if (st != PL_OK)
        return st;
    return end(&h, "cuMemcpyHtoD",
               n_bytes != 0 ? ctx->driver.cu.MemcpyHtoD(to, from, n_bytes) : PL_CU_SUCCESS);
}

pl_status pl_download(pl_context *ctx, void *to, uint64_t from, size_t n_bytes, pl_error *err)
{
    struct helper h;
    if (to == NULL && n_bytes != 0)
        return fail_null("pl_download", "to is NULL", err);
    pl_status st = begin(&h, "pl_download", ctx, err);
    if (st != PL_OK)
        return st;
    return end(&h, "cuMemcpyDtoH",
               n_bytes != 0 ? ctx->driver.cu.MemcpyDtoH(to, from, n_bytes) : PL_CU_SUCCESS);
}

pl_status pl_synchronize(pl_context *ctx, pl_error *err)
{
    struct helper h;
    pl_status st = begin(&h, "pl_synchronize", ctx, err);
    if (st != PL_OK)
        return st;
    return end(&h, "cuCtxSynchronize", ctx->driver.cu.CtxSynchronize());
}
