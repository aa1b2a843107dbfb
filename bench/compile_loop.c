/*
 * Texts for bench/compile_counts.sh to count under callgrind: `bench_compile_loop KERNEL ARCH N` makes the arguments of bench compile
 * and emits the kernel's text N times. No driver, no device.
 */
#include "tools/case.h"

#include <stdio.h>
#include <stdlib.h>

static void ignore(const char *text, size_t n_bytes, void *user)
{
    (void)text;
    *(size_t *)user = n_bytes;
}

int main(int argc, char **argv)
{
    const struct pl_case_kernel *k = argc == 4 ? pl_case_find(argv[1]) : NULL;
    char why[256];
    struct pl_case c;
    pl_arg args[PL_CASE_MAX_ARGS];
    pl_error err = {0};
    if (k == NULL)
        return 2;
    const struct pl_case_spec spec = {.shape = k->n_axes == 3 ? PL_SHAPE(4096, 4096, 4096)
                                                              : PL_SHAPE(512, 1024),
                                      .dtype = PL_BF16,
                                      .axis = -1,
                                      .has_no_values = true};
    if (!pl_case_make(k, &spec, &c, why, sizeof why)) {
        fprintf(stderr, "%s\n", why);
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < c.n_args; i++)
        args[i] = c.args[i].kind == PL_ARG_TENSOR
                      ? pl_arg_tensor(pl_host_tensor(&c.args[i].host, (uint64_t)(i + 1) << 40))
                  : c.args[i].kind == PL_ARG_F32 ? pl_arg_f32(c.args[i].f32)
                                                 : pl_arg_none();
    const pl_emit_options options = {
        .struct_size = sizeof options, .arch = argv[2], .params = c.has_options ? c.options : NULL};
    size_t n_bytes = 0;
    int status = EXIT_SUCCESS;
    for (long n = strtol(argv[3], NULL, 10); n > 0 && status == EXIT_SUCCESS; n--)
        if (pl_emit(k->kernel, args, c.n_args, &options, ignore, &n_bytes, &err) != PL_OK) {
            fprintf(stderr, "%s\n", err.text);
            status = EXIT_FAILURE;
        }
    pl_case_fini(&c);
    return status;
}
