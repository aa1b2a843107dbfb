/*
 * Warm launches for bench/launch_counts.sh to count under callgrind: `bench_launch_loop warm|prepared N` prepares an add of three
 * tensors and launches it N times over the driver that PLAUNCH_DRIVER names. No device memory is touched: with the do-nothing
 * driver of the tests, what is left is our own work.
 */
#include <plaunch.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const pl_error *err)
{
    fprintf(stderr, "%s\n", err->text);
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    const int is_prepared = strcmp(argv[1], "prepared") == 0;
    const long n = strtol(argv[2], NULL, 10);
    pl_error err = {0};
    pl_context *ctx = NULL;
    pl_prepared *prepared = NULL;
    uint64_t device[3];
    pl_arg args[3];
    if (pl_context_create(&ctx, NULL, &err) != PL_OK)
        return fail(&err);
    for (int i = 0; i < 3; i++) {
        if (pl_alloc(ctx, 256 * 256 * 4, &device[i], &err) != PL_OK)
            return fail(&err);
        args[i] = pl_arg_tensor(pl_tensor_make(device[i], PL_F32, PL_SHAPE(256, 256)));
    }
    if (pl_prepare(ctx, &pl_kernel_add, args, 3, NULL, &prepared, &err) != PL_OK ||
        pl_launch(ctx, &pl_kernel_add, NULL, args, 3, NULL, &err) != PL_OK)
        return fail(&err);
    for (long i = 0; i < n; i++) {
        const pl_status st = is_prepared
                                 ? pl_launch_prepared(prepared, NULL, args, 3, &err)
                                 : pl_launch(ctx, &pl_kernel_add, NULL, args, 3, NULL, &err);
        if (st != PL_OK)
            return fail(&err);
    }
    pl_prepared_destroy(prepared);
    pl_context_destroy(ctx);
    return EXIT_SUCCESS;
}
