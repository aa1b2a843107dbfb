/*
 * Tensor memory on its own: a tile goes through the memory that the tensor core of sm_100 accumulates in, and comes back doubled.
 * Stores and loads are asynchronous. A store is done, for whoever reads it next, after pl_commit_tmem; a value that was loaded can be
 * used at once, and pl_wait_load_tmem says that the columns may be overwritten. Build it against an installed plaunch:
 *
 *   cc tmem_roundtrip.c $(pkg-config --cflags --libs plaunch) -o tmem_roundtrip && ./tmem_roundtrip
 *
 * It needs a GPU of compute capability 10.0, or the emulated driver with PLAUNCH_EMU_DEVICES=sm_100a.
 */
#include <plaunch.h>

#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 128, COLS = 96, SLOTS = 2 };

/* x, y (tiles * ROWS, COLS) of f32: the tiles take turns in the two slots. */
static void roundtrip_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    const pl_shape s = PL_SHAPE(ROWS, COLS);
    pl_ref slots = pl_tmem(b, PL_F32, PL_SHAPE(SLOTS, ROWS, COLS), 0);

    PL_FOR(b, i, 0, pl_cdiv(b, pl_dim(b, x, 0), ROWS))
    {
        pl_ref slot = pl_at(b, slots, pl_rem(b, i, SLOTS));
        pl_async_store_tmem(b, slot, pl_load(b, pl_tile(b, x, PL_OFF(b, i, 0), s)));
        pl_commit_tmem(b);
        pl_val v = pl_async_load_tmem(b, slot); /* one row of the tile in each thread */
        pl_store(b, pl_tile(b, y, PL_OFF(b, i, 0), s), pl_mul(b, v, 2.0f)); /* past the end: not */
        pl_wait_load_tmem(b);
    }
}

static void one_block(const pl_request *request, const void *params, pl_launch_dims *out)
{
    (void)request;
    (void)params;
    *out = (pl_launch_dims){{1, 1, 1}};
}

static const pl_param_decl params[] = {
    {.name = "x", .role = PL_ROLE_IN, .min_rank = 2, .max_rank = 2, .dtypes = PL_DT(F32)},
    {.name = "y", .role = PL_ROLE_OUT, .min_rank = 2, .max_rank = 2, .dtypes = PL_DT(F32)},
};

static const pl_kernel roundtrip = {
    .struct_size = sizeof(pl_kernel),
    .name = "my_roundtrip",
    .params = params,
    .n_params = 2,
    .n_configs = 1,
    .body = roundtrip_body,
    .launch_dims = one_block,
};

enum { N_ROWS = 300, N = N_ROWS * COLS };

static int run(pl_context *ctx, float *data, pl_error *err)
{
    uint64_t x = 0, y = 0;
    pl_status st = pl_alloc(ctx, N * sizeof *data, &x, err);
    if (st == PL_OK)
        st = pl_alloc(ctx, N * sizeof *data, &y, err);
    if (st == PL_OK)
        st = pl_upload(ctx, x, data, N * sizeof *data, err);
    if (st == PL_OK) {
        const pl_arg args[2] = {pl_arg_tensor(pl_tensor_make(x, PL_F32, PL_SHAPE(N_ROWS, COLS))),
                                pl_arg_tensor(pl_tensor_make(y, PL_F32, PL_SHAPE(N_ROWS, COLS)))};
        st = pl_launch(ctx, &roundtrip, NULL, args, 2, NULL, err);
    }
    if (st == PL_OK)
        st = pl_download(ctx, data, y, N * sizeof *data, err);
    for (int i = 0; i < 2; i++)
        if ((i == 0 ? x : y) != 0 && pl_free(ctx, i == 0 ? x : y, NULL) != PL_OK)
            return 1;
    return st == PL_OK ? 0 : 1;
}

int main(void)
{
    static float data[N];
    pl_context *ctx = NULL;
    pl_error err = {0};
    if (pl_context_create(&ctx, NULL, &err) != PL_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    if (pl_context_info(ctx).device.arch / 10 != 10) {
        puts("SKIP: this device has no tensor memory");
        pl_context_destroy(ctx);
        return 77;
    }
    for (int i = 0; i < N; i++)
        data[i] = (float)i;
    int status = run(ctx, data, &err);
    for (int i = 0; i < N && status == 0; i++)
        status = data[i] != 2.0f * (float)i;
    if (status == 0)
        printf("%d rows through tensor memory on %s\n", N_ROWS, pl_context_info(ctx).device_name);
    else
        fprintf(stderr, "failed: %s\n", err.text);
    pl_context_destroy(ctx);
    return status;
}
