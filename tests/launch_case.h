#ifndef PL_TESTS_LAUNCH_CASE_H
#define PL_TESTS_LAUNCH_CASE_H
/* A kernel, a context over the do-nothing driver and a launch: what the tests of launches share. Each test has a context of its own. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <plaunch.h>

#include "base/debug.h"
#include "base/os.h"
#include "src/runtime/context.h"
#include "tests/nodriver.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/suite.h"

/* ---- a kernel: y = 2 x, one row of a tile after the other ---- */

struct config {
    int32_t cols;
    int32_t ignored; /* in the key, not in the text */
};

static int n_bodies;

static inline void body(pl_builder *b, const void *params)
{
    const struct config *c = params;
    __atomic_add_fetch(&n_bodies, 1, __ATOMIC_RELAXED);
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    pl_offs at = PL_OFF(b, pl_program_id(b, 1), pl_program_id(b, 0));
    pl_val v = pl_load(b, pl_tile(b, x, at, PL_SHAPE(1, c->cols)));
    pl_store(b, pl_tile(b, y, at, PL_SHAPE(1, c->cols)), pl_add(b, v, v));
}

static inline bool configure(const pl_request *r, int32_t config, void *params)
{
    struct config *c = params;
    int64_t n = r->args[0].u.tensor.shape[1];
    c->cols = config == 1 || (config == PL_CONFIG_BEST && n > 1000) ? 512 : 128;
    c->ignored = r->options != NULL ? *(const int32_t *)r->options : 0;
    return config < 2;
}

static inline void launch_dims(const pl_request *r, const void *params, pl_launch_dims *out)
{
    const struct config *c = params;
    const pl_tensor *t = &r->args[1].u.tensor;
    out->grid[0] = (t->shape[1] + c->cols - 1) / c->cols;
    out->grid[1] = t->shape[0];
    out->grid[2] = 1;
}

#define DECL(name_, role_)                                                                         \
    {                                                                                              \
        .name = name_, .role = role_, .min_rank = 2, .max_rank = 2,                                \
        .dtypes = PL_DT(F32) | PL_DT(F16), .specialised = PL_FACT_ALIGN16 | PL_FACT_I32            \
    }
static const pl_param_decl decls[] = {DECL("x", PL_ROLE_IN), DECL("y", PL_ROLE_OUT)};
static const pl_kernel kernel = {
    .struct_size = sizeof kernel,
    .name = "twice",
    .params = decls,
    .n_params = 2,
    .params_bytes = sizeof(struct config),
    .options_bytes = sizeof(int32_t),
    .n_configs = 2,
    .configure = configure,
    .body = body,
    .launch_dims = launch_dims,
};

static inline void ignore_text(const char *text, size_t n_bytes, void *user)
{
    (void)text, (void)n_bytes, (void)user;
}

/* A body that breaks a rule: no text. */
static inline void bad_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref x = pl_param(b, 0);
    pl_store(b, x, pl_load(b, pl_param(b, 7)));
}

/* ---- assemblers ---- */

static inline pl_status noting_assembler(const struct pl_assembler *a,
                                         const struct pl_driver *driver,
                                         const struct pl_asm_request *q, struct pl_asm_result *out,
                                         struct pl_call *call)
{
    (void)a, (void)driver, (void)call;
    *out = (struct pl_asm_result){.code = q->text, .notes = "20 bytes spill stores"};
    return PL_OK;
}

static inline pl_status refusing_assembler(const struct pl_assembler *a,
                                           const struct pl_driver *driver,
                                           const struct pl_asm_request *q,
                                           struct pl_asm_result *out, struct pl_call *call)
{
    (void)a, (void)driver, (void)out;
    return pl_e_assembler(call, PL_E_ASSEMBLER, (struct pl_where){0}, "test", q->kernel, "no");
}

/* ---- fixture ---- */

static struct nodriver *nd;
static pl_context *ctx;
static pl_error err;
static pl_arg args[2];
static char cache_folder[64], nodriver_path[256];
static const pl_stream stream = (pl_stream)(uintptr_t)0x5000; /* of device 0's context */

static inline void set_args(int64_t m, int64_t n, pl_dtype t)
{
    args[0] = pl_arg_tensor(pl_tensor_make(0x7000000, t, PL_SHAPE(m, n)));
    args[1] = pl_arg_tensor(pl_tensor_make(0x7000000000, t, PL_SHAPE(m, n)));
}

static inline void make_context(const pl_context_options *more)
{
    pl_context_options o = more != NULL ? *more : (pl_context_options){.cache_dir = ""};
    o.struct_size = sizeof o;
    o.driver = nodriver_path;
    ck_assert_msg(pl_context_create(&ctx, &o, &err) == PL_OK, "%s", err.text);
}

static inline void setup(void)
{
    snprintf(nodriver_path, sizeof nodriver_path, "%s/tests/.libs/libnodriver.so", PL_BUILDDIR);
    void *lib = pl_os_lib_open(nodriver_path, NULL, 0);
    ck_assert_ptr_nonnull(lib);
    nodriver_state_function get;
    void *f = pl_os_lib_sym(lib, "nodriver_state");
    memcpy(&get, &f, sizeof get);
    nd = get();
    nd->is_recording = true;
    strcpy(cache_folder, "/tmp/plaunch-launch.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(cache_folder));
    make_context(NULL);
    set_args(3, 100, PL_F32);
}

static inline void teardown(void)
{
    char command[128];
    pl_context_destroy(ctx);
    ck_assert_uint_eq(nd->n_calls[ND_CtxPushCurrent] - nd->n_failed[ND_CtxPushCurrent],
                      nd->n_calls[ND_CtxPopCurrent]);
    snprintf(command, sizeof command, "rm -rf %s", cache_folder);
    ck_assert_int_eq(system(command), 0);
}

static inline pl_status launch_on(pl_stream s, const pl_launch_options *o)
{
    return pl_launch(ctx, &kernel, s, args, 2, o, &err);
}
static inline pl_status launch(void) { return launch_on(stream, NULL); }

static inline void launch_ok(void)
{
    pl_status st = launch();
    ck_assert_msg(st == PL_OK, "%s: %s", pl_status_name(st), err.text);
}

static inline pl_launch_options with(pl_compile_policy policy)
{
    return (pl_launch_options){.struct_size = sizeof(pl_launch_options), .policy = policy};
}

static inline pl_stats stats(void) { return pl_context_stats(ctx); }

static inline void use_disk(void)
{
    pl_context_destroy(ctx);
    const pl_context_options o = {.cache_dir = cache_folder};
    make_context(&o);
}

static inline void clear_disk(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s/*", cache_folder);
    ck_assert_int_eq(system(command), 0);
}

static char logged[256];
static char warned[256]; /* the last one's text */

static inline void log_topics(pl_severity_level level, const char *topic, const char *text,
                              void *user)
{
    (void)level, (void)user;
    ck_assert_str_ne(text, "");
    if (level == PL_LEVEL_WARNING)
        snprintf(warned, sizeof warned, "%s", text);
    strcat(strcat(logged, topic), " ");
}

/* ---- groups of tests ---- */

struct launch_group {
    const char *name;
    const TTest *tests[16];
};

static inline TCase *add_group(Suite *s, const struct launch_group *g)
{
    TCase *t = tcase_create(g->name);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    for (int k = 0; k < 16 && g->tests[k] != NULL; k++)
        tcase_add_test(t, g->tests[k]);
    suite_add_tcase(s, t);
    return t;
}
#endif
