#include "src/runtime/ask.h"

#include "src/check/check.h"
#include "src/runtime/quick.h"
#include "src/runtime/thread.h"

static const struct pl_where nowhere = {0};

static bool is_name(const char *s)
{
    size_t n = 0;
    if (s == NULL || s[0] < 'a' || s[0] > 'z')
        return false;
    for (; s[n] != '\0'; n++)
        if (!((s[n] >= 'a' && s[n] <= 'z') || (s[n] >= '0' && s[n] <= '9') || s[n] == '_'))
            return false;
    return n <= 40;
}

/* What is wrong with a kernel's description, or NULL. */
static const char *why_not_kernel(const pl_kernel *k)
{
    if (k == NULL)
        return "it is NULL";
    if (k->body == NULL)
        return "body is NULL";
    if (k->launch_dims == NULL)
        return "launch_dims is NULL";
    if (k->n_params > PL_MAX_ARGS)
        return "it has more than 32 parameters";
    if (k->n_params != 0 && k->params == NULL)
        return "params is NULL, and n_params is not 0";
    if (k->arrange != NULL && k->n_params > PL_ARRANGE_MAX_ARGS)
        return "it has arrange() and more than 8 parameters";
    if (k->params_bytes > PL_MAX_PARAMS_BYTES)
        return "params_bytes is above 256";
    if (k->n_configs < 1)
        return "n_configs is below 1";
    if (k->configure == NULL && k->params_bytes > k->options_bytes)
        return "without configure(), params are the options: params_bytes may not be larger";
    return NULL;
}

/* Each doubles the variants of a kernel, and what pl_prepare_all() builds. */
enum { MAX_SPECIALISED_FACTS = 4 };

static int n_specialised_facts(const pl_kernel *k)
{
    pl_fact_set all = 0;
    int n = 0;
    for (size_t i = 0; i < k->n_params; i++)
        all |= k->params[i].specialised;
    for (; all != 0; all &= all - 1)
        n++;
    return n;
}

_Static_assert(sizeof(void *) != 8 || sizeof(pl_param_decl) == 40,
               "programs pass arrays of it, and no size: another one is another libplaunch.so");

/* The body's code counts on the extents, so each was compared with those of a tensor, which stayed what it was. */
static bool are_like(const pl_kernel *k)
{
    for (size_t i = 0; i < k->n_params; i++) {
        const int32_t like = k->params[i].like;
        if (like == 0)
            continue;
        if (like < 0 || (size_t)like > i || k->arrange != NULL ||
            k->params[i].role == PL_ROLE_SCALAR || k->params[like - 1].role == PL_ROLE_SCALAR ||
            k->params[like - 1].is_optional)
            return false;
    }
    return true;
}

pl_status pl_ask_check_built(const struct pl_ask *ask, struct pl_call *call)
{
    const pl_kernel *k = ask->request.kernel;
    const int n_facts = n_specialised_facts(k);
    if (!is_name(k->name))
        return pl_e_kernel_struct(call, PL_E_INVALID, nowhere,
                                  "name is not [a-z][a-z0-9_]* of at most 40 bytes");
    if (n_facts > MAX_SPECIALISED_FACTS)
        return pl_e_kernel_struct(
            call, PL_E_INVALID,
            (struct pl_where){.has_values = true, .seen = n_facts, .wanted = MAX_SPECIALISED_FACTS},
            "its parameters specialise on more than four facts");
    if (!are_like(k))
        return pl_e_kernel_struct(call, PL_E_INVALID, nowhere,
                                  "a parameter is like one that is not an earlier tensor that is "
                                  "always there, or the kernel has arrange()");
    return PL_OK;
}

static pl_status take_options(struct pl_ask *ask, const pl_launch_options *options,
                              struct pl_call *call)
{
    if (options == NULL) {
        ask->options = (pl_launch_options){.struct_size = sizeof ask->options};
        return PL_OK;
    }
    if (options->struct_size != sizeof *options)
        return pl_call_refuse_size(call, "the options", options->struct_size, sizeof *options);
    if ((unsigned)options->policy > PL_COMPILE_ASYNC)
        return pl_call_refuse_value(call, "options->policy", (int)options->policy,
                                    "a pl_compile_policy");
    if ((options->flags & ~(uint32_t)(PL_ASSEMBLE_ISOLATED | PL_STRICT_NOTES)) != 0)
        return pl_call_refuse_value(call, "options->flags", options->flags,
                                    "PL_ASSEMBLE_ISOLATED, PL_STRICT_NOTES, or both");
    ask->options = *options;
    if (options->stages != NULL)
        *options->stages = (pl_stage_ns){0};
    call->report = options->report;
    if (options->file != NULL) {
        call->file = options->file;
        call->line = options->line;
    }
    return PL_OK;
}

static const void *zeros(void)
{
    static const uint64_t none[PL_MAX_PARAMS_BYTES / 8];
    return none;
}

static pl_status take_kernel_options(struct pl_ask *ask, struct pl_call *call)
{
    const pl_kernel *k = ask->request.kernel;
    const void *given = ask->options.params;
    if (given == NULL)
        given = k->default_options;
    if (given == NULL && k->options_bytes > PL_MAX_PARAMS_BYTES)
        return pl_e_kernel_struct(call, PL_E_INVALID, nowhere,
                                  "options_bytes is above 256 and there are no default_options");
    ask->request.options = k->options_bytes == 0 ? NULL : given != NULL ? given : zeros();
    return PL_OK;
}

/* The quick answer was no: now all of it, in words. */
static pl_status fail_args(const struct pl_args_request *q, struct pl_call *call)
{
    struct pl_arena arena = {0};
    struct pl_diags diags;
    pl_diags_init(&diags, &arena);
    (void)pl_check_args(q, &diags);
    pl_status st = pl_call_fail_diags(call, PL_E_INVALID, &diags);
    pl_arena_fini(&arena);
    return st;
}

/* A copy of the arguments that may be written. */
static void own_args(struct pl_ask *ask)
{
    for (size_t i = 0; ask->request.args != ask->args && i < ask->request.n_args; i++)
        ask->args[i] = ask->request.args[i];
    ask->request.args = ask->args;
}

/* Optional arguments at the end may be left out of the call. */
static void add_absent(struct pl_ask *ask)
{
    const pl_kernel *k = ask->request.kernel;
    size_t n = ask->request.n_args;
    while (n < k->n_params && k->params[n].is_optional)
        n++;
    if (n != k->n_params || n > PL_ARRANGE_MAX_ARGS)
        return;
    own_args(ask);
    while (ask->request.n_args < n)
        ask->args[ask->request.n_args++] = pl_arg_none();
}

static void arrange(struct pl_ask *ask)
{
    const pl_kernel *k = ask->request.kernel;
    own_args(ask);
    const pl_request given = ask->request;
    const char *outer = pl_inside_build(k->name);
    ask->request.arrangement = k->arrange(&given, ask->args);
    (void)pl_inside_build(outer);
    ask->request.facts = pl_facts_of(k, ask->args);
}

static pl_status check_given(struct pl_ask *ask, struct pl_call *call)
{
    pl_request *r = &ask->request;
    if (pl_quick_args(r->kernel, r->args, r->n_args, &r->facts) && pl_quick_shapes(r))
        return PL_OK;
    const struct pl_args_request q = {
        .kernel = r->kernel,
        .options = r->options,
        .args = r->args,
        .n_args = r->n_args,
        .device = r->device,
        .file = call->file,
        .line = call->line,
    };
    if (!pl_check_args(&q, NULL))
        return fail_args(&q, call);
    r->facts = pl_facts_of(r->kernel, r->args);
    return PL_OK;
}

pl_status pl_ask_check_args(struct pl_ask *ask, struct pl_call *call)
{
    pl_request *r = &ask->request;
    if (r->args == NULL && r->n_args != 0)
        return pl_e_bad_call(call, PL_E_INVALID, nowhere, call->function, "args is NULL");
    if (r->n_args < r->kernel->n_params)
        add_absent(ask);
    pl_status st = check_given(ask, call);
    if (st == PL_OK && r->kernel->arrange != NULL)
        arrange(ask);
    return st;
}

bool pl_ask_configure(struct pl_ask *ask, int32_t config)
{
    const pl_kernel *k = ask->request.kernel;
    if (k->params_bytes != 0)
        memset(ask->config, 0, (k->params_bytes + 7) / 8 * 8);
    if (k->configure == NULL) {
        if (k->params_bytes != 0)
            memcpy(ask->config, ask->request.options, k->params_bytes);
        return config == PL_CONFIG_BEST || config == 0;
    }
    const char *outer = pl_inside_build(k->name);
    bool is_served = k->configure(&ask->request, config, ask->config);
    (void)pl_inside_build(outer);
    return is_served;
}

int32_t pl_ask_config_index(const struct pl_ask *ask)
{
    const pl_kernel *k = ask->request.kernel;
    struct pl_ask other = *ask;
    for (int32_t i = 0; i < k->n_configs; i++)
        if (pl_ask_configure(&other, i) && memcmp(other.config, ask->config, k->params_bytes) == 0)
            return i;
    return PL_CONFIG_BEST;
}

pl_launch_dims pl_ask_dims(const struct pl_ask *ask, const void *config)
{
    pl_launch_dims dims = {{0, 0, 0}};
    const char *outer = pl_inside_build(ask->request.kernel->name);
    ask->request.kernel->launch_dims(&ask->request, config, &dims);
    (void)pl_inside_build(outer);
    return dims;
}

/* The kernel's functions index by it and need not look: no number outside of the listed ones reaches them. */
static pl_status take_config(struct pl_ask *ask, struct pl_call *call)
{
    const pl_kernel *k = ask->request.kernel;
    int64_t config = (int64_t)ask->options.config - 1; /* 0 in the options is the best one, -1 */
    bool is_listed = config >= PL_CONFIG_BEST && config < k->n_configs;
    if (is_listed && pl_ask_configure(ask, (int32_t)config))
        return PL_OK;
    int32_t last = k->n_configs - 1;
    return pl_e_no_config(
        call, PL_E_INVALID,
        (struct pl_where){.has_values = !is_listed, .seen = config, .wanted = last}, k->name,
        (int)config, (int)last);
}

pl_status pl_ask_make(struct pl_ask *ask, const pl_kernel *kernel, const pl_arg *args,
                      size_t n_args, const pl_launch_options *options, const pl_device_info *device,
                      struct pl_call *call)
{
    if (kernel != NULL && kernel->struct_size != sizeof *kernel)
        return pl_call_refuse_size(call, "the kernel", kernel->struct_size, sizeof *kernel);
    const char *why = why_not_kernel(kernel);
    ask->is_nearest = false;
    if (why != NULL)
        return pl_e_kernel_struct(call, PL_E_INVALID, nowhere, why);
    call->kernel = kernel->name;
    pl_status st = take_options(ask, options, call);
    if (st != PL_OK)
        return st;
    ask->request = (pl_request){.kernel = kernel, .args = args, .n_args = n_args, .device = device};
    st = take_kernel_options(ask, call);
    if (st == PL_OK)
        st = pl_ask_check_args(ask, call);
    if (st != PL_OK)
        return st;
    return take_config(ask, call);
}

void pl_ask_key(const struct pl_ask *ask, struct pl_key *key)
{
    const struct pl_key_parts parts = {
        .kernel = ask->request.kernel,
        .args = ask->request.args,
        .params = ask->config,
        .facts = ask->request.facts,
        .arch = ask->request.device->arch,
        .is_pdl = ask->options.pdl,
        .assemble_flags = (uint8_t)(ask->options.flags & 3),
        .ptx_cap = ask->ptx_cap,
    };
    pl_key_make(key, &parts);
}
