/*
 * A cluster exchange: four CTAs each hold a row of x, send it to every CTA's shared memory without passing through global memory,
 * and each writes the sum of all rows. pl_async_store_smem sends registers to a peer; the bytes are counted on the peer's barrier, so
 * that a wait there says that all of them have come. Build it against an installed plaunch:
 *
 *   cc async_store.c $(pkg-config --cflags --libs plaunch) -o async_store && ./async_store
 *
 * It needs clusters: a GPU of compute capability 9.0 or higher, or the emulated driver.
 */
#include <plaunch.h>

#include <stdio.h>
#include <stdlib.h>

enum { N_CTAS = 4, N = 100 };

static void exchange_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_block_cluster(b, N_CTAS, 1, 1);
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1); /* (N_CTAS, N) both */
    pl_ref inbox = pl_smem(b, PL_F32, PL_SHAPE(N_CTAS, N), PL_SWIZZLE_NONE);
    pl_bar all_here = pl_barrier(b, N_CTAS); /* one arrival a sender */
    pl_val me = pl_cluster_rank(b);
    pl_offs mine = PL_OFF(b, me, 0);

    pl_val row = pl_load(b, pl_at(b, pl_tile(b, x, mine, PL_SHAPE(1, N)), 0));
    for (int to = 0; to < N_CTAS; to++) /* slot `me` of each inbox, mine too */
        pl_async_store_smem(b, pl_at(b, pl_peer(b, inbox, to), me), row, all_here);
    pl_barrier_wait(b, all_here);

    pl_val sum = pl_reduce(b, PL_ADD, pl_load(b, inbox), 0, PL_SCOPE_WARPGROUP);
    pl_store(b, pl_at(b, pl_tile(b, y, mine, PL_SHAPE(1, N)), 0), sum);
}

static void exchange_launch_dims(const pl_request *request, const void *params, pl_launch_dims *out)
{
    (void)request;
    (void)params;
    *out = (pl_launch_dims){{N_CTAS, 1, 1}};
}

static const pl_param_decl exchange_params[] = {
    {.name = "x", .role = PL_ROLE_IN, .min_rank = 2, .max_rank = 2, .dtypes = PL_DT(F32)},
    {.name = "y", .role = PL_ROLE_OUT, .min_rank = 2, .max_rank = 2, .dtypes = PL_DT(F32)},
};

static const pl_kernel exchange = {
    .struct_size = sizeof(pl_kernel),
    .name = "exchange",
    .params = exchange_params,
    .n_params = 2,
    .n_configs = 1,
    .body = exchange_body,
    .launch_dims = exchange_launch_dims,
};

static int run(pl_context *ctx, float *data, pl_error *err)
{
    const size_t n_bytes = sizeof(float) * N_CTAS * N;
    uint64_t x = 0, y = 0;
    pl_status st = pl_alloc(ctx, n_bytes, &x, err);
    if (st == PL_OK)
        st = pl_alloc(ctx, n_bytes, &y, err);
    if (st == PL_OK)
        st = pl_upload(ctx, x, data, n_bytes, err);
    if (st == PL_OK) {
        const pl_arg args[2] = {pl_arg_tensor(pl_tensor_make(x, PL_F32, PL_SHAPE(N_CTAS, N))),
                                pl_arg_tensor(pl_tensor_make(y, PL_F32, PL_SHAPE(N_CTAS, N)))};
        st = pl_launch(ctx, &exchange, NULL, args, 2, NULL, err);
    }
    if (st == PL_OK)
        st = pl_download(ctx, data, y, n_bytes, err); /* waits for the launch */
    for (int i = 0; i < 2; i++)
        if ((i == 0 ? x : y) != 0 && pl_free(ctx, i == 0 ? x : y, NULL) != PL_OK)
            return 1;
    return st == PL_OK ? 0 : 1;
}

int main(void)
{
    static float data[N_CTAS * N];
    pl_context *ctx = NULL;
    pl_error err = {0};
    if (pl_context_create(&ctx, NULL, &err) != PL_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    if (pl_context_info(ctx).device.arch < 90) {
        puts("SKIP: this device has no clusters");
        pl_context_destroy(ctx);
        return 77;
    }
    for (int i = 0; i < N_CTAS * N; i++)
        data[i] = (float)(i % N) + 1000.0f * (float)(i / N);
    int status = run(ctx, data, &err);
    for (int i = 0; i < N_CTAS * N && status == 0; i++) /* whole numbers: the sum is exact */
        status = data[i] != 4.0f * (float)(i % N) + 6000.0f;
    if (status == 0)
        printf("%d CTAs exchanged %d numbers each on %s\n", N_CTAS, N,
               pl_context_info(ctx).device_name);
    else
        fprintf(stderr, "failed: %s\n", err.text);
    pl_context_destroy(ctx);
    return status;
}
