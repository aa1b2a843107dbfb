/* A program of a user, built against the installed library: a kernel of the library and one of its own, on any driver. */
#include <plaunch.h>
#include <plaunch/kernels.h>

#include <stdio.h>
#include <stdlib.h>

enum { M = 7, N = 100 };

PL_DEFINE_LAUNCHER(launch_scale, pl_kernel_scale, (TENSOR, x), (TENSOR, y), (F32, factor))

static int fail(const char *what, const pl_error *err)
{
    fprintf(stderr, "%s: %s\n", what, err->text);
    return 1;
}

int main(void)
{
    static float x[M * N], y[M * N];
    pl_context *ctx;
    pl_error err;
    uint64_t dx, dy;
    for (int i = 0; i < M * N; i++)
        x[i] = (float)i;
    if (pl_context_create(&ctx, NULL, &err) != PL_OK)
        return fail("pl_context_create", &err);
    if (pl_alloc(ctx, sizeof x, &dx, &err) != PL_OK ||
        pl_alloc(ctx, sizeof y, &dy, &err) != PL_OK ||
        pl_upload(ctx, dx, x, sizeof x, &err) != PL_OK)
        return fail("memory", &err);
    pl_tensor tx = pl_tensor_make(dx, PL_F32, PL_SHAPE(M, N)),
              ty = pl_tensor_make(dy, PL_F32, PL_SHAPE(M, N));
    pl_arg args[3] = {pl_arg_tensor(tx), pl_arg_tensor(ty), pl_arg_f32(2.0f)};
    if (pl_launch(ctx, &pl_kernel_scale, NULL, args, 3, NULL, &err) != PL_OK)
        return fail("pl_launch", &err);
    if (launch_scale(ctx, NULL, &tx, &ty, 3.0f, NULL, &err) != PL_OK)
        return fail("launch_scale", &err);
    if (pl_synchronize(ctx, &err) != PL_OK || pl_download(ctx, y, dy, sizeof y, &err) != PL_OK)
        return fail("results", &err);
    for (int i = 0; i < M * N; i++)
        if (y[i] != 3.0f * x[i]) {
            fprintf(stderr, "element %d is %g\n", i, (double)y[i]);
            return 1;
        }
    pl_context_destroy(ctx);
    puts("ok");
    return 0;
}
