/* One emitted text and its mutants; mutant.h. */
#include "tests/mutant.h"

#include "base/os.h"
#include "tools/driver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEVICES = 4, CODE_DEADLOCK = 8086, CODE_LIVELOCK = 8087 };
enum { SPARE_STEPS = 30000 }; /* of a cluster; warps that spin under random orders take many */

static struct {
    struct pl_tool_driver cu;
    int (*ctx_create)(void **, unsigned, int);
    int (*ctx_destroy)(void *);
    pl_context *contexts[MAX_DEVICES];
    void *primary[MAX_DEVICES];
    int n_devices;
    char fault[4096];
} m;

/* ---- the driver ------------------------------------------------------------------------------------------------------- */

static bool find_context_functions(const char *path)
{
    void *lib = pl_os_lib_open(path, NULL, 0);
    void *create = lib != NULL ? pl_os_lib_sym(lib, "cuCtxCreate_v2") : NULL;
    void *destroy = lib != NULL ? pl_os_lib_sym(lib, "cuCtxDestroy_v2") : NULL;
    memcpy(&m.ctx_create, &create, sizeof create);
    memcpy(&m.ctx_destroy, &destroy, sizeof destroy);
    return create != NULL && destroy != NULL;
}

bool mutant_open(const char *devices, int n_devices)
{
    char why[512] = "it is not the emulated driver";
    pl_error err = {0};
    setenv("PLAUNCH_EMU_DEVICES", devices, 1);
    if (!pl_tool_driver_load(&m.cu, getenv("PLAUNCH_DRIVER"), why, sizeof why) ||
        m.cu.emu_configure == NULL || m.cu.last_fault == NULL) {
        fprintf(stderr, "PLAUNCH_DRIVER: %s\n", why);
        return false;
    }
    m.cu.emu_configure("threads", "1");
    m.cu.emu_configure("check", "race");
    for (m.n_devices = 0; m.n_devices < n_devices; m.n_devices++) {
        const int i = m.n_devices;
        const pl_context_options o = {.struct_size = sizeof o, .device = i, .cache_dir = ""};
        if (pl_context_create(&m.contexts[i], &o, &err) != PL_OK) {
            fprintf(stderr, "device %d: %s\n", i, err.text);
            return false;
        }
        if (m.cu.ctx_retain(&m.primary[i], i) != 0 ||
            !find_context_functions(pl_context_info(m.contexts[i]).driver_path)) {
            fprintf(stderr, "device %d has no contexts\n", i);
            return false;
        }
    }
    return true;
}

void mutant_close(void)
{
    for (int i = 0; i < m.n_devices; i++)
        pl_context_destroy(m.contexts[i]);
}

const char *mutant_last_fault(void) { return m.fault; }

/* ---- sites ------------------------------------------------------------------------------------------------------------ */

/* What orders something, or makes something that must be ordered. */
static bool is_event(const struct pl_ptx_ins *ins)
{
    const uint32_t flags = pl_ptx_infos[ins->form].flags;
    return (flags & (PL_PTX_F_FENCE | PL_PTX_F_MBAR | PL_PTX_F_ASYNC)) != 0 ||
           ((flags & PL_PTX_F_WAIT) != 0 &&
            strchr("dqw", pl_ptx_infos[ins->form].operands[0]) == NULL) ||
           pl_ptx_infos[ins->form].operands[0] == '\0' || ins->form == PL_PTX_bar_arrive;
}

static bool is_wait_loop(const struct pl_ptx_ins *ins)
{
    return ins->form == PL_PTX_mbarrier_try_wait || ins->form == PL_PTX_mbarrier_try_wait_parity ||
           ins->form == PL_PTX_mbarrier_test_wait || ins->form == PL_PTX_mbarrier_test_wait_parity;
}

static bool is_site(const struct pl_ptx_module *module, const struct pl_ptx_ins *ins)
{
    const struct pl_ptx_info *info = &pl_ptx_infos[ins->form];
    switch (ins->form) {
    case PL_PTX_bar_arrive:
    case PL_PTX_cp_async_mbarrier_arrive:
    case PL_PTX_tcgen05_commit: return true;
    case PL_PTX_nanosleep: /* these three may block, and order nothing */
    case PL_PTX_setmaxnreg:
    case PL_PTX_tcgen05_alloc:
    case PL_PTX_tcgen05_dealloc: return false;
    default: break;
    }
    if ((info->flags & (PL_PTX_F_FENCE | PL_PTX_F_MBAR | PL_PTX_F_WAIT)) == 0 ||
        (info->flags & PL_PTX_F_ASYNC) != 0)
        return false;
    const bool has_result = info->operands[0] != '\0' && strchr("dqw", info->operands[0]) != NULL &&
                            module->pool.data[ins->operands].kind != PL_PTX_OP_SINK;
    return !has_result || is_wait_loop(ins);
}

static void append(char *out, const char *text, size_t n)
{
    const size_t used = strlen(out);
    snprintf(out + used, MUTANT_WHERE_BYTES - used, "%.*s", (int)n, text);
}

/* Start of line `number`, from 1. */
static const char *line_at(const char *text, uint32_t number)
{
    for (; number > 1; number--)
        text = strchr(text, '\n') + 1;
    return text;
}

/* The mnemonic of an instruction as it stands in the text, without guard, and with the immediate of a wait for groups. */
static void append_mnemonic(const struct mutant_text *t, const struct pl_ptx_ins *ins, char *out)
{
    const char *s = line_at(t->text, ins->line);
    s += strspn(s, " \t");
    if (*s == '@')
        s += strcspn(s, " ") + 1;
    const bool is_bare = strstr(pl_ptx_infos[ins->form].id, "wait_group") != NULL;
    append(out, s, strcspn(s, is_bare ? ";\n" : " ;\n"));
}

static void add_site(struct mutant_text *t, uint32_t at)
{
    const struct pl_ptx_ins *ins = t->module.ins.data, *end = ins + t->module.ins.n;
    const struct pl_ptx_ins *x = ins + at, *before = x, *after = x + 1;
    struct mutant_site *s = &t->sites[t->n_sites++];
    *s = (struct mutant_site){.ins = at, .line = x->line};
    if (is_wait_loop(x) && after < end && after->guard != 0 &&
        (pl_ptx_infos[after->form].flags & PL_PTX_F_CONTROL) != 0)
        s->second_line = (after++)->line;
    while (before > ins && !is_event(--before))
        ;
    if (before != x && is_event(before))
        append_mnemonic(t, before, s->where);
    else
        append(s->where, "start", 5);
    append(s->where, " > ", 3);
    append_mnemonic(t, x, s->where);
    append(s->where, " > ", 3);
    while (after < end - 1 && !is_event(after))
        after++;
    append_mnemonic(t, after, s->where);
    const char *line = line_at(t->text, x->line);
    line += strspn(line, " \t");
    append(s->text, line, strcspn(line, "\n"));
}

static bool find_sites(struct mutant_text *t)
{
    struct pl_ptx_error error;
    if (!pl_ptx_parse(t->text, t->n_bytes, &t->arena, &t->module, &error)) {
        fprintf(stderr, "line %u: %s\n", error.line, error.text);
        return false;
    }
    for (uint32_t i = 0; i < t->module.ins.n && t->n_sites < MUTANT_MAX_SITES; i++)
        if (is_site(&t->module, &t->module.ins.data[i]))
            add_site(t, i);
    if (t->n_sites == MUTANT_MAX_SITES)
        fprintf(stderr, "%s has more than %d sites\n", t->entry, MUTANT_MAX_SITES - 1);
    return t->n_sites < MUTANT_MAX_SITES;
}

/* ---- settings --------------------------------------------------------------------------------------------------------- */

static void setting_destroy(struct mutant_setting *s, pl_context *ctx)
{
    pl_case_free(ctx, s->device);
    for (size_t i = 0; i < PL_CASE_MAX_ARGS; i++)
        free(s->want[i]);
    pl_case_fini(&s->c);
    free(s);
}

/* Arguments on the device, and what pl_launch would give the driver for them. */
static pl_status prepare(struct mutant_setting *s, pl_context *ctx, const pl_launch_options *o,
                         pl_error *err)
{
    pl_prepared *p = NULL;
    pl_status st = pl_case_upload(&s->c, ctx, s->args, s->device, err);
    if (st == PL_OK)
        st = pl_prepare(ctx, s->c.kernel, s->args, s->c.n_args, o, &p, err);
    if (st == PL_OK)
        st = pl_prepared_pack(p, s->args, s->c.n_args, &s->pack, err);
    pl_prepared_destroy(p);
    for (size_t i = 0; st == PL_OK && i < s->c.n_args; i++) {
        s->want[i] = malloc(s->c.args[i].host.n_bytes + 1);
        if (s->want[i] == NULL)
            st = PL_E_NOMEM;
    }
    return st;
}

static void put_text(const char *text, size_t n_bytes, void *user)
{
    FILE *f = user;
    fwrite(text, 1, n_bytes, f);
}

static pl_status emit(struct mutant_text *t, const struct mutant_setting *s,
                      const pl_launch_options *o, pl_error *err)
{
    const pl_emit_options e = {.struct_size = sizeof e,
                               .arch = pl_context_info(m.contexts[t->device]).arch_name,
                               .params = o->params,
                               .config = o->config};
    FILE *f = open_memstream(&t->text, &t->n_bytes);
    if (f == NULL)
        return PL_E_NOMEM;
    const pl_status st = pl_emit(s->c.kernel, s->args, s->c.n_args, &e, put_text, f, err);
    fclose(f);
    const char *name = st == PL_OK ? strstr(t->text, ".entry ") : NULL;
    if (name != NULL)
        snprintf(t->entry, sizeof t->entry, "%.*s", (int)strcspn(name + 7, "( \n"), name + 7);
    return st;
}

static uint64_t n_clusters(const pl_pack *p)
{
    return (uint64_t)p->grid[0] * p->grid[1] * p->grid[2] /
           (p->cluster[0] * p->cluster[1] * p->cluster[2]);
}

/* The whole text must end well, whatever the asynchrony, with what the reference allows. */
static bool take_wanted(struct mutant_text *t, struct mutant_setting *s)
{
    snprintf(s->step_limit, sizeof s->step_limit, "0");
    enum mutant_end end = mutant_run(t, NULL, s, "eager");
    if (end == MUTANT_REPORTED || end == MUTANT_HANGS)
        fprintf(stderr, "%s itself is reported: %s\n", t->entry, m.fault);
    struct pl_case got = s->c; /* the same case with the bytes that came out */
    for (size_t i = 0; i < s->c.n_args; i++) {
        if (s->c.args[i].kind == PL_ARG_TENSOR &&
            pl_download(m.contexts[t->device], s->want[i], s->device[i], s->c.args[i].host.n_bytes,
                        NULL) != PL_OK)
            return false;
        got.args[i].host.bytes = s->want[i];
    }
    const bool is_right = pl_case_compare(&got).is_ok;
    if (!is_right)
        fprintf(stderr, "%s itself gives a wrong result\n", t->entry);
    const uint64_t before = m.cu.emu_query("instructions");
    bool is_steady = mutant_run(t, NULL, s, "late") == MUTANT_SAME &&
                     mutant_run(t, NULL, s, "random:1") == MUTANT_SAME;
    snprintf(s->step_limit, sizeof s->step_limit, "%" PRIu64,
             SPARE_STEPS + (m.cu.emu_query("instructions") - before) / n_clusters(&s->pack));
    is_steady = is_steady && mutant_run(t, NULL, s, "eager") == MUTANT_SAME &&
                mutant_run(t, NULL, s, "random:2") == MUTANT_SAME; /* within the limit, too */
    return is_right && is_steady && end != MUTANT_REPORTED && end != MUTANT_HANGS;
}

static pl_status add_setting(struct mutant_text *t, const struct pl_case_kernel *k,
                             const struct pl_case_spec *spec, int32_t config)
{
    pl_context *ctx = m.contexts[t->device];
    char why[512] = "out of memory";
    pl_error err = {0};
    struct mutant_setting *s = calloc(1, sizeof *s);
    if (s == NULL || !pl_case_make(k, spec, &s->c, why, sizeof why)) {
        fprintf(stderr, "%s: %s\n", k->name, why);
        free(s);
        return PL_E_INTERNAL;
    }
    const pl_launch_options o = {.struct_size = sizeof o,
                                 .params = s->c.has_options ? s->c.options : NULL,
                                 .config = config};
    m.cu.ctx_set(m.primary[t->device]);
    struct mutant_text other = {.device = t->device};
    pl_status st = prepare(s, ctx, &o, &err);
    if (st == PL_OK)
        st = emit(&other, s, &o, &err);
    if (st == PL_OK && t->text != NULL && strcmp(t->text, other.text) != 0)
        st = PL_E_VARIANT;
    if (st == PL_OK && t->text == NULL) {
        t->text = other.text, t->n_bytes = other.n_bytes;
        memcpy(t->entry, other.entry, sizeof t->entry);
        other.text = NULL;
        st = find_sites(t) ? PL_OK : PL_E_INTERNAL;
    }
    free(other.text);
    if (st == PL_OK && !take_wanted(t, s)) {
        fprintf(stderr, "%s: the text itself does not run well\n", t->entry);
        st = PL_E_INTERNAL;
    } else if (st != PL_OK && st != PL_E_VARIANT && st != PL_E_INVALID && st != PL_E_UNSUPPORTED)
        fprintf(stderr, "%s: %s\n", k->name, err.text);
    if (st == PL_OK)
        t->settings[t->n_settings++] = s;
    else
        setting_destroy(s, ctx);
    return st;
}

pl_status mutant_text_make(struct mutant_text *t, const struct pl_case_kernel *k,
                           const struct pl_case_spec *spec, int device, int32_t config)
{
    *t = (struct mutant_text){.device = device};
    const pl_status st = add_setting(t, k, spec, config);
    if (st != PL_OK)
        mutant_text_fini(t);
    return st;
}

bool mutant_text_add(struct mutant_text *t, const struct pl_case_kernel *k,
                     const struct pl_case_spec *spec, int32_t config)
{
    return t->n_settings < MUTANT_MAX_SETTINGS && add_setting(t, k, spec, config) == PL_OK;
}

void mutant_text_fini(struct mutant_text *t)
{
    m.cu.ctx_set(m.primary[t->device]);
    for (size_t i = 0; i < t->n_settings; i++)
        setting_destroy(t->settings[i], m.contexts[t->device]);
    pl_arena_fini(&t->arena);
    free(t->text);
    *t = (struct mutant_text){0};
}

/* ---- runs ------------------------------------------------------------------------------------------------------------- */

/* The same number of lines, so that a report names lines of the whole text. */
static void blank(char *text, uint32_t number)
{
    char *line = text + (line_at(text, number) - text);
    memset(line, ' ', strcspn(line, "\n"));
}

static int launch(void *function, const struct mutant_setting *s)
{
    const pl_pack *p = &s->pack;
    struct pl_tool_launch_attribute cluster = {.id = PL_TOOL_ATTRIBUTE_CLUSTER};
    memcpy(cluster.value.dims, p->cluster, sizeof p->cluster);
    const bool has_cluster = p->cluster[0] * p->cluster[1] * p->cluster[2] > 1;
    struct pl_tool_launch_config c = {
        .smem_bytes = p->smem_bytes, .attrs = &cluster, .n_attrs = has_cluster};
    memcpy(c.grid, p->grid, sizeof c.grid);
    memcpy(c.block, p->block, sizeof c.block);
    void *params[PL_PACK_MAX_PARAMS];
    memcpy(params, p->params, sizeof params);
    int r = m.cu.set_attribute(function, PL_TOOL_FUNC_MAX_DYNAMIC_SMEM, (int)p->smem_bytes);
    if (r == 0 && has_cluster)
        r = m.cu.set_attribute(function, PL_TOOL_FUNC_NON_PORTABLE_CLUSTER, 1);
    return r == 0 ? m.cu.launch_ex(&c, function, params, NULL) : r;
}

/* Loads, launches and waits in a context that ends with the run: a fault loses only that one. */
static int run_text(const char *text, const struct mutant_text *t, const struct mutant_setting *s)
{
    void *ctx = NULL, *module, *function;
    int r = m.ctx_create(&ctx, 0, t->device);
    if (r != 0)
        return r;
    r = m.cu.load(&module, text);
    if (r == 0)
        r = m.cu.get_function(&function, module, t->entry);
    if (r == 0)
        r = launch(function, s);
    if (r == 0)
        r = m.cu.synchronize();
    if (r != 0)
        m.cu.last_fault(m.fault, sizeof m.fault);
    m.ctx_destroy(ctx);
    return r;
}

static enum mutant_end kind_of_fault(void)
{
    const char *code = strstr(m.fault, "PL8");
    const int number = code != NULL ? atoi(code + 2) : 0;
    return number == CODE_DEADLOCK || number == CODE_LIVELOCK ? MUTANT_HANGS : MUTANT_REPORTED;
}

static bool is_as_wanted(const struct mutant_text *t, const struct mutant_setting *s)
{
    bool is_same = true;
    for (size_t i = 0; i < s->c.n_args && is_same; i++) {
        const struct pl_host *h = &s->c.args[i].host;
        if (s->c.args[i].kind != PL_ARG_TENSOR)
            continue;
        unsigned char *got = malloc(h->n_bytes + 1);
        is_same =
            got != NULL &&
            pl_download(m.contexts[t->device], got, s->device[i], h->n_bytes, NULL) == PL_OK &&
            memcmp(got, s->want[i], h->n_bytes) == 0;
        free(got);
    }
    return is_same;
}

enum mutant_end mutant_run(const struct mutant_text *t, const struct mutant_site *site,
                           struct mutant_setting *s, const char *policy)
{
    char *text = strdup(t->text);
    if (text == NULL)
        abort();
    if (site != NULL)
        blank(text, site->line);
    if (site != NULL && site->second_line != 0)
        blank(text, site->second_line);
    m.cu.ctx_set(m.primary[t->device]);
    for (size_t i = 0; i < s->c.n_args; i++)
        if (s->c.args[i].kind == PL_ARG_TENSOR &&
            pl_upload(m.contexts[t->device], s->device[i], s->c.args[i].host.bytes,
                      s->c.args[i].host.n_bytes, NULL) != PL_OK)
            abort();
    m.cu.emu_configure("async", policy);
    m.cu.emu_configure("step_limit", s->step_limit);
    m.fault[0] = '\0';
    const int r = run_text(text, t, s);
    free(text);
    m.cu.ctx_set(m.primary[t->device]);
    m.cu.emu_configure("step_limit", "0");
    if (r != 0)
        return kind_of_fault();
    return is_as_wanted(t, s) ? MUTANT_SAME : MUTANT_WRONG;
}
