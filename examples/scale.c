/*
 * A user's own kernel in one file: y = 2 * x for any (rows, cols). Build it against an installed plaunch:
 *
 *   cc scale.c $(pkg-config --cflags --libs plaunch) -o scale && ./scale
 *
 * It runs on a GPU, or, where there is none, on the emulated driver.
 */
#include <plaunch.h>

#include <stdio.h>
#include <stdlib.h>

enum { TILE = 64, ROWS = 100, COLS = 200 };

static void scale_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1); /* rank 2, both dims dynamic */
    const pl_dtype t = pl_dtype_of(b, x);
    pl_ref tile = pl_smem(b, t, PL_SHAPE(TILE, TILE), PL_SWIZZLE_AUTO);
    pl_bar full = pl_barrier(b, 1); /* one arrival: the copy's */
    pl_offs at = PL_OFF(b, pl_program_id(b, 0), pl_program_id(b, 1));

    pl_copy_gmem_to_smem(b, pl_tile(b, x, at, PL_SHAPE(TILE, TILE)), tile,
                         full); /* past the edge: zeros */
    pl_barrier_wait(b, full);
    pl_store(b, tile, pl_cast(b, pl_mul(b, pl_cast(b, pl_load(b, tile), PL_F32), 2.0f), t));
    pl_commit_smem(b); /* what threads wrote, for the copy to see */
    pl_copy_smem_to_gmem(b, tile,
                         pl_tile(b, y, at, PL_SHAPE(TILE, TILE))); /* past the edge: not written */
    pl_wait_smem_to_gmem(b, 0);
}

static void scale_launch_dims(const pl_request *request, const void *params, pl_launch_dims *out)
{
    (void)params;
    const pl_tensor *x = &request->args[0].u.tensor;
    *out = (pl_launch_dims){{(x->shape[0] + TILE - 1) / TILE, (x->shape[1] + TILE - 1) / TILE, 1}};
}

static const pl_param_decl scale_params[] = {
    {.name = "x",
     .role = PL_ROLE_IN,
     .min_rank = 2,
     .max_rank = 2,
     .dtypes = PL_DT(F32) | PL_DT(BF16)},
    {.name = "y",
     .role = PL_ROLE_OUT,
     .min_rank = 2,
     .max_rank = 2,
     .dtypes = PL_DT(F32) | PL_DT(BF16),
     .like = 1}, /* has the extents of x; another size is refused */
};

static const pl_kernel scale = {
    .struct_size = sizeof(pl_kernel),
    .name = "my_scale",
    .params = scale_params,
    .n_params = 2,
    .n_configs = 1,
    .body = scale_body,
    .launch_dims = scale_launch_dims,
};

static int run(pl_context *ctx, float *data, pl_error *err)
{
    const size_t n_bytes = sizeof(float) * ROWS * COLS;
    uint64_t x = 0, y = 0;
    pl_status st = pl_alloc(ctx, n_bytes, &x, err);
    if (st == PL_OK)
        st = pl_alloc(ctx, n_bytes, &y, err);
    if (st == PL_OK)
        st = pl_upload(ctx, x, data, n_bytes, err);
    if (st == PL_OK) {
        const pl_arg args[2] = {pl_arg_tensor(pl_tensor_make(x, PL_F32, PL_SHAPE(ROWS, COLS))),
                                pl_arg_tensor(pl_tensor_make(y, PL_F32, PL_SHAPE(ROWS, COLS)))};
        st = pl_launch(ctx, &scale, NULL, args, 2, NULL, err);
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
    pl_context *ctx = NULL;
    pl_error err = {0};
    float *data = malloc(sizeof(float) * ROWS * COLS);
    if (data == NULL || pl_context_create(&ctx, NULL, &err) != PL_OK) {
        fprintf(stderr, "%s\n", err.text);
        free(data);
        return 1;
    }
    for (int i = 0; i < ROWS * COLS; i++)
        data[i] = (float)i;
    int status = run(ctx, data, &err);
    for (int i = 0; i < ROWS * COLS && status == 0; i++)
        status = data[i] != 2.0f * (float)i;
    if (status == 0)
        printf("%d x %d doubled on %s\n", ROWS, COLS, pl_context_info(ctx).device_name);
    else
        fprintf(stderr, "failed: %s\n", err.text);
    pl_context_destroy(ctx);
    free(data);
    return status;
}
