/* Kernels as C functions, over the do-nothing driver: pl_bind() and PL_DEFINE_LAUNCHER. */
#include "tests/launch_case.h"

#include <ffi.h>

/* libffi's, which gives nothing on request: case 73. */
void *__real_ffi_closure_alloc(size_t n_bytes, void **code);
void *__wrap_ffi_closure_alloc(size_t n_bytes, void **code);
static bool has_no_memory;
void *__wrap_ffi_closure_alloc(size_t n_bytes, void **code)
{
    return has_no_memory ? NULL : __real_ffi_closure_alloc(n_bytes, code);
}

/* ---- a kernel with every kind of parameter ---- */

static void mixed_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref y = pl_param(b, 4);
    pl_val v = pl_add(b, pl_cast(b, pl_scalar(b, 1), PL_F32), pl_scalar(b, 2));
    v = pl_add(b, v, pl_cast(b, pl_scalar(b, 3), PL_F32));
    if (pl_has_arg(b, 0))
        v = pl_add(b, v, pl_load(b, pl_at(b, pl_at(b, pl_param(b, 0), 0), 0)));
    pl_store(b, pl_at(b, pl_at(b, y, 0), 0), v);
}

static void one_block(const pl_request *r, const void *params, pl_launch_dims *out)
{
    (void)r, (void)params;
    *out = (pl_launch_dims){{1, 1, 1}};
}

static const pl_param_decl mixed_decls[] = {
    {.name = "x",
     .role = PL_ROLE_IN,
     .min_rank = 2,
     .max_rank = 2,
     .dtypes = PL_DT(F32),
     .is_optional = true},
    {.name = "i", .role = PL_ROLE_SCALAR, .dtypes = PL_DT(I32)},
    {.name = "f", .role = PL_ROLE_SCALAR, .dtypes = PL_DT(F32)},
    {.name = "j", .role = PL_ROLE_SCALAR, .dtypes = PL_DT(I64)},
    {.name = "y", .role = PL_ROLE_OUT, .min_rank = 2, .max_rank = 2, .dtypes = PL_DT(F32)},
};
static const pl_kernel mixed = {.struct_size = sizeof mixed,
                                .name = "mixed",
                                .params = mixed_decls,
                                .n_params = 5,
                                .n_configs = 1,
                                .body = mixed_body,
                                .launch_dims = one_block};

typedef pl_status mixed_function(pl_stream, const pl_tensor *, int32_t, float, int64_t,
                                 const pl_tensor *, pl_error *);

/* What the driver was given, whatever way the call took. */
static void expect_block(const pl_arg a[5])
{
    unsigned char seen[sizeof nd->block];
    const size_t n = nd->block_bytes;
    ck_assert_uint_gt(n, 0);
    memcpy(seen, nd->block, n);
    memset(nd->block, 0, sizeof nd->block);
    ck_assert_msg(pl_launch(ctx, &mixed, stream, a, 5, NULL, &err) == PL_OK, "%s", err.text);
    ck_assert_uint_eq(nd->block_bytes, n);
    ck_assert_mem_eq(seen, nd->block, n);
}

START_TEST(a_kernel_is_a_function)
{
    pl_bound *b;
    const pl_tensor *x = &args[0].u.tensor, *y = &args[1].u.tensor;
    ck_assert_msg(pl_bind(ctx, &mixed, NULL, &b, &err) == PL_OK, "%s", err.text);
    mixed_function *f = (mixed_function *)pl_bound_function(b);
    ck_assert_msg(f(stream, x, -7, 2.5f, INT64_C(1) << 40, y, &err) == PL_OK, "%s", err.text);
    const pl_arg all[5] = {args[0], pl_arg_i32(-7), pl_arg_f32(2.5f), pl_arg_i64(INT64_C(1) << 40),
                           args[1]};
    expect_block(all);
    ck_assert_msg(f(stream, NULL, 3, -1.0f, -5, y, NULL) == PL_OK, "%s", err.text);
    const pl_arg some[5] = {pl_arg_none(), pl_arg_i32(3), pl_arg_f32(-1.0f), pl_arg_i64(-5),
                            args[1]};
    expect_block(some);
    ck_assert_uint_eq(stats().builds, 2);                                 /* with x, and without */
    ck_assert_int_eq(f(stream, x, 1, 1.0f, 1, NULL, &err), PL_E_INVALID); /* y is not optional */
    ck_assert_int_eq(err.code, 6003);
    pl_bound_destroy(b);
}
END_TEST

START_TEST(options_are_the_functions_own)
{
    pl_bound *b;
    int32_t ignored = 5;
    pl_launch_options o = with(PL_COMPILE_NEVER);
    o.params = &ignored;
    ck_assert_msg(pl_bind(ctx, &kernel, &o, &b, &err) == PL_OK, "%s", err.text);
    pl_status (*f)(pl_stream, const pl_tensor *, const pl_tensor *, pl_error *);
    f = (pl_status(*)(pl_stream, const pl_tensor *, const pl_tensor *,
                      pl_error *))pl_bound_function(b);
    ignored = 6; /* copied: this is not seen */
    o.policy = PL_COMPILE_BLOCK;
    ck_assert_int_eq(f(stream, &args[0].u.tensor, &args[1].u.tensor, &err), PL_E_NOT_CACHED);
    ignored = 5;
    ck_assert_int_eq(launch_on(stream, &o), PL_OK);
    ck_assert_int_eq(f(stream, &args[0].u.tensor, &args[1].u.tensor, &err), PL_OK);
    ck_assert_uint_eq(stats().builds, 1);
    pl_bound_destroy(b);
}
END_TEST

START_TEST(what_cannot_be_bound)
{
    pl_bound *b = NULL;
    pl_param_decl wrong[5];
    pl_kernel k = mixed;
    memcpy(wrong, mixed_decls, sizeof wrong);
    k.params = wrong;
    wrong[1].dtypes = PL_DT(I32) | PL_DT(I64);
    ck_assert_int_eq(pl_bind(ctx, &k, NULL, &b, &err), PL_E_INVALID);
    ck_assert_int_eq(err.code, 7202);
    ck_assert_int_eq(err.argument, 1);
    has_no_memory = true; /* case 73: no closure, and everything else works */
    ck_assert_int_eq(pl_bind(ctx, &mixed, NULL, &b, &err), PL_E_NOEXEC);
    ck_assert_int_eq(err.code, 7201);
    ck_assert_ptr_null(b);
    ck_assert_ptr_null((void *)(uintptr_t)pl_bound_function(b));
    launch_ok();
    has_no_memory = false;
    pl_launch_options o = {.struct_size = 1};
    ck_assert_int_eq(pl_bind(ctx, &mixed, &o, &b, &err), PL_E_INVALID);
    ck_assert_int_eq(pl_bind(ctx, NULL, NULL, &b, &err), PL_E_INVALID);
    ck_assert_int_eq(pl_bind(ctx, &mixed, NULL, NULL, &err), PL_E_INVALID);
    ck_assert_int_eq(pl_bind(NULL, &mixed, NULL, &b, &err), PL_E_INVALID);
    pl_bound_destroy(NULL);
}
END_TEST

/* ---- typed at compile time ---- */

PL_DEFINE_LAUNCHER(launch_mixed, mixed, (TENSOR, x), (I32, i), (F32, f), (I64, j), (TENSOR, y))
PL_DEFINE_LAUNCHER(launch_twice, kernel, (TENSOR, x), (TENSOR, y))

START_TEST(launchers_are_typed)
{
    const pl_tensor *x = &args[0].u.tensor, *y = &args[1].u.tensor;
    ck_assert_msg(launch_mixed(ctx, stream, x, 4, 0.5f, -9, y, NULL, &err) == PL_OK, "%s",
                  err.text);
    const pl_arg all[5] = {args[0], pl_arg_i32(4), pl_arg_f32(0.5f), pl_arg_i64(-9), args[1]};
    expect_block(all);
    ck_assert_int_eq(launch_mixed(ctx, stream, NULL, 4, 0.5f, -9, y, NULL, NULL), PL_OK);
    ck_assert_int_eq(launch_twice(ctx, stream, x, NULL, NULL, &err), PL_E_INVALID);
    ck_assert_int_eq(err.code, 6003);
    ck_assert_ptr_nonnull(strstr(err.file, "check_runtime_bind.c"));
}
END_TEST

static Suite *make_suite(void)
{
    const struct launch_group group = {"bind",
                                       {a_kernel_is_a_function, options_are_the_functions_own,
                                        what_cannot_be_bound, launchers_are_typed}};
    Suite *s = suite_create("runtime_bind");
    add_group(s, &group);
    return s;
}
