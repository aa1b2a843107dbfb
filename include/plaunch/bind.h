#ifndef PLAUNCH_BIND_H
#define PLAUNCH_BIND_H
/*
 * A kernel as an ordinary C function. Its parameters are a stream, then one for each parameter of the kernel, in order: a tensor is a
 * const pl_tensor * (NULL: an absent optional one), a scalar an int32_t, an int64_t or a float, as the kernel declares; last a
 * pl_error *, which may be NULL. It returns the status of the launch.
 */
#include <plaunch/launch.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline pl_arg pl_arg_of_tensor_(const pl_tensor *t)
{
    return t != NULL ? pl_arg_tensor(*t) : pl_arg_none();
}

/*
 * PL_DEFINE_LAUNCHER(launch_scale, pl_kernel_scale, (TENSOR, x), (TENSOR, y), (F32, factor)) defines
 *
 *   pl_status launch_scale(pl_context *, pl_stream, const pl_tensor *x, const pl_tensor *y, float factor,
 *                          const pl_launch_options *, pl_error *)
 *
 * with a macro and not a function, since C has no other way to give a function named and typed parameters. Kinds: TENSOR I32 I64 F32;
 * 1 to 12 parameters. Nothing executable is made, and the call costs no more than pl_launch().
 */
#define PL_DEFINE_LAUNCHER(name, kernel, ...)                                                      \
    static inline pl_status name(pl_context *ctx_, pl_stream stream_,                              \
                                 PL_EACH_(PL_LAUNCHER_PARAM_, __VA_ARGS__)                         \
                                     const pl_launch_options *options_,                            \
                                 pl_error *err_)                                                   \
    {                                                                                              \
        const pl_arg args_[] = {PL_EACH_(PL_LAUNCHER_ARG_, __VA_ARGS__)};                          \
        return pl_launch_at(PL_LOC, ctx_, &(kernel), stream_, args_,                               \
                            sizeof args_ / sizeof args_[0], options_, err_);                       \
    }
#define PL_LAUNCHER_PARAM_(kind, x)  PL_LAUNCHER_PARAM_##kind##_(x),
#define PL_LAUNCHER_PARAM_TENSOR_(x) const pl_tensor *x
#define PL_LAUNCHER_PARAM_I32_(x)    int32_t x
#define PL_LAUNCHER_PARAM_I64_(x)    int64_t x
#define PL_LAUNCHER_PARAM_F32_(x)    float x
#define PL_LAUNCHER_ARG_(kind, x)    PL_LAUNCHER_ARG_##kind##_(x),
#define PL_LAUNCHER_ARG_TENSOR_(x)   pl_arg_of_tensor_(x)
#define PL_LAUNCHER_ARG_I32_(x)      pl_arg_i32(x)
#define PL_LAUNCHER_ARG_I64_(x)      pl_arg_i64(x)
#define PL_LAUNCHER_ARG_F32_(x)      pl_arg_f32(x)
/* m for each of the pairs that follow, at most 12. */
#define PL_EACH_(m, ...)                                                                           \
    PL_EACH_PICK_(__VA_ARGS__, PL_EACH_12_, PL_EACH_11_, PL_EACH_10_, PL_EACH_9_, PL_EACH_8_,      \
                  PL_EACH_7_, PL_EACH_6_, PL_EACH_5_, PL_EACH_4_, PL_EACH_3_, PL_EACH_2_,          \
                  PL_EACH_1_, 0)                                                                   \
    (m, __VA_ARGS__)
#define PL_EACH_PICK_(a, b, c, d, e, f, g, h, i, j, k, l, pick, ...) pick
#define PL_EACH_1_(m, x)                                             m x
#define PL_EACH_2_(m, x, ...)                                        m x PL_EACH_1_(m, __VA_ARGS__)
#define PL_EACH_3_(m, x, ...)                                        m x PL_EACH_2_(m, __VA_ARGS__)
#define PL_EACH_4_(m, x, ...)                                        m x PL_EACH_3_(m, __VA_ARGS__)
#define PL_EACH_5_(m, x, ...)                                        m x PL_EACH_4_(m, __VA_ARGS__)
#define PL_EACH_6_(m, x, ...)                                        m x PL_EACH_5_(m, __VA_ARGS__)
#define PL_EACH_7_(m, x, ...)                                        m x PL_EACH_6_(m, __VA_ARGS__)
#define PL_EACH_8_(m, x, ...)                                        m x PL_EACH_7_(m, __VA_ARGS__)
#define PL_EACH_9_(m, x, ...)                                        m x PL_EACH_8_(m, __VA_ARGS__)
#define PL_EACH_10_(m, x, ...)                                       m x PL_EACH_9_(m, __VA_ARGS__)
#define PL_EACH_11_(m, x, ...)                                       m x PL_EACH_10_(m, __VA_ARGS__)
#define PL_EACH_12_(m, x, ...)                                       m x PL_EACH_11_(m, __VA_ARGS__)

/* ---- a function pointer, made at run time ---- */

typedef struct pl_bound pl_bound;
typedef void (*pl_function)(void); /* to be cast to the type that the kernel has */

/*
 * Make a function that launches the kernel in this context, for whoever wants a plain pointer: a language binding, a table of
 * operations. It is a closure of libffi, which where the system allows no executable memory does not exist: PL_E_NOEXEC (PL7201);
 * pl_launch() and PL_DEFINE_LAUNCHER need none.
 *
 *   options   as for pl_launch(), of every launch; copied, with the kernel's options; report and stages are not looked at. NULL: defaults
 *   out       to be destroyed before the context; NULL on failure
 *
 * Errors: PL_E_INVALID (a scalar that may be of several types has no natural one: PL7202), PL_E_NOEXEC, PL_E_NOMEM.
 * Threads: any, also of one function.
 */
PL_API PL_MUST_CHECK pl_status pl_bind(pl_context *ctx, const struct pl_kernel *kernel,
                                       const struct pl_launch_options *options, pl_bound **out,
                                       pl_error *err);
PL_API pl_function pl_bound_function(const pl_bound *b); /* NULL for NULL */
PL_API void pl_bound_destroy(pl_bound *b);               /* nobody may be in it; NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
