/* pl_emit(): the text that a launch would build, without a driver or a device. */
#include "src/ir/print.h"
#include "src/runtime/compile.h"

#include <stdio.h>
#include <stdlib.h>

static const struct pl_where nowhere = {0};

/* "sm_90a" -> 90, 0 when it is none. */
static int arch_of(const char *name)
{
    if (name == NULL || strncmp(name, "sm_", 3) != 0)
        return 0;
    char *end;
    long n = strtol(name + 3, &end, 10);
    bool has_suffix = (end[0] == 'a' || end[0] == 'f') && end[1] == '\0';
    return n > 0 && n < 1000 && (end[0] == '\0' || has_suffix) ? (int)n : 0;
}

static pl_status fail_arch(const char *name, struct pl_call *call)
{
    char what[128];
    snprintf(what, sizeof what, "options->arch is %.40s, not a name such as sm_90 or sm_90a",
             name == NULL ? "NULL" : name);
    return pl_e_bad_call(call, PL_E_UNSUPPORTED, nowhere, call->function, what);
}

/* A whole chip, as far as a kernel's configure() may ask. */
static pl_device_info device_of(const struct pl_target *t)
{
    return (pl_device_info){.arch = t->arch,
                            .n_sms = t->n_sms,
                            .smem_bytes = t->smem_bytes,
                            .max_cluster = t->max_cluster,
                            .max_threads_per_sm = t->max_threads_per_sm};
}

static void put_text(struct pl_text *t, pl_text_kind kind,
                     void (*put)(const char *text, size_t n_bytes, void *user), void *user)
{
    struct pl_buf b;
    if (kind == PL_TEXT_PTX) {
        put(t->ptx.data, t->ptx.n_bytes, user);
        return;
    }
    pl_buf_init(&b, t->arena, 4096);
    if (kind == PL_TEXT_PLAN)
        pl_plan_print(&t->plan, &b);
    else
        pl_ir_print(&t->fn, &b);
    if (!t->arena->is_exhausted)
        put(b.text, b.n_bytes, user);
}

static pl_status emit_in(struct pl_arena *arena, const struct pl_ask *ask, const pl_emit_options *o,
                         void (*put)(const char *text, size_t n_bytes, void *user), void *user,
                         struct pl_call *call)
{
    struct pl_text t;
    pl_status st = pl_text_build(&t, ask, arena, o->kind, call);
    if (st != PL_OK)
        return st;
    if (o->stages != NULL)
        *o->stages = (pl_stage_ns){
            .trace = t.ns.trace, .check = t.ns.check, .plan = t.ns.plan, .emit = t.ns.emit};
    put_text(&t, o->kind, put, user);
    return arena->is_exhausted
               ? pl_e_out_of_memory(call, PL_E_NOMEM, nowhere, "the build's scratch memory")
               : PL_OK;
}

pl_status pl_emit(const pl_kernel *kernel, const pl_arg *args, size_t n_args,
                  const pl_emit_options *options,
                  void (*put)(const char *text, size_t n_bytes, void *user), void *user,
                  pl_error *err)
{
    struct pl_call call = pl_call_make("pl_emit", NULL, err);
    struct pl_arena arena = {0};
    struct pl_ask ask;
    if (options == NULL || put == NULL)
        return pl_e_bad_call(&call, PL_E_INVALID, nowhere, call.function,
                             options == NULL ? "options is NULL: they name the chip"
                                             : "put is NULL");
    if (options->struct_size != sizeof *options)
        return pl_call_refuse_size(&call, "the options", options->struct_size, sizeof *options);
    if ((unsigned)options->kind > PL_TEXT_TRACE)
        return pl_call_refuse_value(&call, "options->kind", (int)options->kind, "a pl_text_kind");
    const int arch = arch_of(options->arch);
    const struct pl_target *target = pl_target_find(arch);
    if (arch == 0)
        return fail_arch(options->arch, &call);
    if (target == NULL)
        return pl_e_device_arch(&call, PL_E_UNSUPPORTED, nowhere, arch);
    const struct pl_inside *in = pl_inside_get();
    if (in->building != NULL)
        return pl_e_recursion(&call, PL_E_RECURSION, nowhere, call.function, in->building);
    const pl_launch_options launch = {.struct_size = sizeof launch,
                                      .params = options->params,
                                      .pdl = options->pdl,
                                      .report = options->report,
                                      .config = options->config};
    const pl_device_info device = device_of(target);
    ask.ptx_cap = options->max_ptx_version > 0 ? (uint16_t)options->max_ptx_version : UINT16_MAX;
    pl_status st = pl_ask_make(&ask, kernel, args, n_args, &launch, &device, &call);
    if (st == PL_OK)
        st = emit_in(&arena, &ask, options, put, user, &call);
    pl_arena_fini(&arena);
    return st;
}
