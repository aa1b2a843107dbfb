// As embed.c, from C++17: the macros that take shapes and literals work there too.
#include <plaunch.h>

#include <cstdio>
#include <cstring>
#include <vector>

static void body(pl_builder *b, const void *)
{
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    pl_offs at = PL_OFF(b, pl_program_id(b, 0));
    pl_store(b, pl_tile(b, y, at, PL_SHAPE(128)), pl_add(b, pl_load(b, pl_tile(b, x, at, PL_SHAPE(128))), 1.0f));
}

static void dims(const pl_request *r, const void *, pl_launch_dims *out)
{
    out->grid[0] = (r->args[0].u.tensor.shape[0] + 127) / 128;
    out->grid[1] = out->grid[2] = 1;
}

static pl_param_decl decl(const char *name, pl_param_role role)
{
    pl_param_decl d = {};
    d.name = name;
    d.role = role;
    d.min_rank = d.max_rank = 1;
    d.dtypes = PL_DT(F32);
    return d;
}

PL_DEFINE_LAUNCHER(launch_copy, pl_kernel_copy, (TENSOR, from), (TENSOR, to))

int main()
{
    const pl_param_decl params[2] = {decl("x", PL_ROLE_IN), decl("y", PL_ROLE_OUT)};
    pl_kernel kernel = {};
    kernel.struct_size = sizeof kernel;
    kernel.name = "plus_one";
    kernel.params = params;
    kernel.n_params = 2;
    kernel.n_configs = 1;
    kernel.body = body;
    kernel.launch_dims = dims;

    std::vector<float> x(1000, 41.0f), y(1000);
    pl_context *ctx = nullptr;
    pl_error err;
    uint64_t dx = 0, dy = 0;
    if (pl_context_create(&ctx, nullptr, &err) != PL_OK || pl_alloc(ctx, 4000, &dx, &err) != PL_OK ||
        pl_alloc(ctx, 4000, &dy, &err) != PL_OK || pl_upload(ctx, dx, x.data(), 4000, &err) != PL_OK) {
        std::fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    pl_arg args[2] = {pl_arg_tensor(pl_tensor_make(dx, PL_F32, PL_SHAPE(1000))),
                      pl_arg_tensor(pl_tensor_make(dy, PL_F32, PL_SHAPE(1000)))};
    pl_tensor from = args[0].u.tensor, to = args[1].u.tensor;
    if (launch_copy(ctx, nullptr, &from, &to, nullptr, &err) != PL_OK ||
        pl_launch(ctx, &kernel, nullptr, args, 2, nullptr, &err) != PL_OK ||
        pl_download(ctx, y.data(), dy, 4000, &err) != PL_OK) {
        std::fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    pl_context_destroy(ctx);
    for (float v : y)
        if (v != 42.0f)
            return 1;
    std::puts("ok");
    return 0;
}
