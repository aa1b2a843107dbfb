#include "src/runtime/compile.h"

#include "base/os.h"
#include "jit/emit.h"
#include "jit/ptx/ptx.h"
#include "src/check/check.h"
#include "src/ir/fact.h"
#include "src/ir/print.h"
#include "src/runtime/store_file.h"

#include <errno.h>
#include <stdio.h>

static const struct pl_where nowhere = {0};

/* ---- the text: trace, check, plan, emit ---- */

static void make_request(struct pl_trace_request *r, const struct pl_ask *ask)
{
    const pl_kernel *k = ask->request.kernel;
    memset(r, 0, sizeof *r);
    r->kernel = k;
    memcpy(r->params, ask->config, k->params_bytes);
    r->n_args = k->n_params;
    r->target = pl_target_find(ask->request.device->arch);
    r->has_no_shared_order =
        ask->ptx_cap < pl_ptx_infos[PL_PTX_fence_acquire_restrict].gate.ptx_version;
    r->is_pdl = ask->options.pdl;
    for (size_t i = 0; i < k->n_params; i++) {
        const pl_arg *a = &ask->request.args[i];
        const pl_param_decl *p = &k->params[i];
        struct pl_arg_facts *f = &r->args[i];
        f->is_present = a->kind != PL_ARG_NONE;
        f->is_scalar = p->role == PL_ROLE_SCALAR;
        f->facts = pl_fact_of_array(p->required | (p->specialised & ask->request.facts));
        if (a->kind != PL_ARG_TENSOR) {
            f->dtype = a->kind == PL_ARG_I32   ? PL_I32
                       : a->kind == PL_ARG_I64 ? PL_I64
                       : a->kind == PL_ARG_F32 ? PL_F32
                                               : PL_DTYPE_NONE;
            continue;
        }
        f->dtype = a->u.tensor.dtype;
        f->rank = a->u.tensor.rank;
        f->like = p->like;
        for (int d = 0; d < f->rank; d++)
            f->dims[d] = (p->baked_dims >> d & 1) != 0 ? a->u.tensor.shape[d] : -1;
    }
}

/* Nanoseconds since *last, which becomes now. */
static uint64_t lap(uint64_t *last)
{
    uint64_t now = pl_os_now_ns(), ns = now - *last;
    *last = now;
    return ns;
}

static pl_status fail_build(struct pl_text *t, pl_status st, struct pl_call *call)
{
    (void)pl_call_fail_diags(call, st, &t->diags);
    if (t->arena->is_exhausted || st == PL_E_NOMEM)
        return pl_e_out_of_memory(call, PL_E_NOMEM, nowhere, "the build's scratch memory");
    return st;
}

static const char digits_to_come[] = "00000000";

/* The eight digits after the kernel's name become a hash of the text that is written with zeros there, in its head alone. */
static void name_entry(struct pl_text *t, char *ptx)
{
    size_t n = strlen(t->entry), n_digits = sizeof digits_to_come - 1;
    const uint32_t hash = (uint32_t)pl_hash64(t->ptx.data, t->ptx.n_bytes, 0);
    char named[sizeof t->entry];
    memcpy(named, t->entry, n + 1);
    for (size_t i = 0; i < n_digits; i++)
        named[n - 1 - i] = "0123456789abcdef"[hash >> (4 * i) & 15];
    memcpy(strstr(ptx, t->entry), named, n);
    memcpy(t->entry, named, n + 1);
}

static pl_status emit(struct pl_text *t, const struct pl_ask *ask)
{
    struct pl_emitted out;
    snprintf(t->entry, sizeof t->entry, "pl_%s_%s", ask->request.kernel->name, digits_to_come);
    pl_status st = pl_emit_plan(&t->plan, t->entry, ask->ptx_cap, t->arena, &t->diags, &out);
    if (st != PL_OK)
        return st;
    t->ptx = (struct pl_blob){out.text, out.n_bytes};
    t->version = out.version;
    _Static_assert(sizeof t->target == sizeof out.target, "both hold any target");
    memcpy(t->target, out.target, sizeof t->target);
    name_entry(t, out.text);
    return PL_OK;
}

static pl_status build_text(struct pl_text *t, const struct pl_ask *ask, struct pl_arena *arena,
                            pl_text_kind kind, struct pl_call *call)
{
    struct pl_trace_request request;
    uint64_t last = pl_os_now_ns();
    pl_status st = pl_ask_check_built(ask, call);
    if (st != PL_OK)
        return st;
    memset(t, 0, sizeof *t);
    t->arena = arena;
    pl_diags_init(&t->diags, arena);
    make_request(&request, ask);

    bool is_fine = pl_fn_init(&t->fn, arena, &t->diags, &request) && pl_trace_run(&t->fn);
    t->ns.trace = lap(&last);
    if (is_fine)
        is_fine = pl_check(&t->fn);
    t->ns.check = lap(&last);
    if (!is_fine)
        return fail_build(t, pl_check_is_unsupported(&t->diags) ? PL_E_UNSUPPORTED : PL_E_INVALID,
                          call);
    if (kind == PL_TEXT_TRACE)
        return PL_OK;

    st = pl_plan_make(&t->fn, arena, &t->diags, &t->plan);
    t->ns.plan = lap(&last);
    if (st != PL_OK)
        return fail_build(t, st, call);
    if (kind == PL_TEXT_PLAN)
        return PL_OK;

    st = emit(t, ask);
    t->ns.emit = lap(&last);
    return st == PL_OK ? PL_OK : fail_build(t, st, call);
}

/* A kernel's body is the user's code: while it runs, this thread may not launch. */
pl_status pl_text_build(struct pl_text *t, const struct pl_ask *ask, struct pl_arena *arena,
                        pl_text_kind kind, struct pl_call *call)
{
    const char *outer = pl_inside_build(ask->request.kernel->name);
    pl_status st = build_text(t, ask, arena, kind, call);
    (void)pl_inside_build(outer);
    return st;
}

/* ---- the binary: disk, else the assembler ---- */

enum { ENTRY_PATH_BYTES = PL_STORE_PATH_BYTES + PL_ENTRY_NAME_BYTES };

static const char *entry_path(const struct pl_store *s, const struct pl_content *content,
                              char path[ENTRY_PATH_BYTES])
{
    char name[PL_ENTRY_NAME_BYTES];
    pl_entry_name(content, name);
    snprintf(path, ENTRY_PATH_BYTES, "%s/%s", s->path, name);
    return path;
}

static void tell_corrupt(struct pl_run *run, const struct pl_store *s,
                         const struct pl_content *content, const char *why)
{
    char path[ENTRY_PATH_BYTES];
    pl_thread_count(run->thread, PL_STAT_corrupt, 1);
    (void)pl_e_cache_corrupt(run->call, PL_OK, nowhere, entry_path(s, content, path), why);
    pl_context_tell(run->call->ctx, PL_EVENT_CORRUPT, PL_LEVEL_WARNING, run->call->kernel, why, 0);
}

/* True when a tier has it. */
static bool find_stored(struct pl_stored *out, const struct pl_content *content,
                        struct pl_arena *arena, struct pl_run *run)
{
    struct pl_context *ctx = run->call->ctx;
    struct pl_store *const tiers[2] = {&ctx->read_only_store, &ctx->store};
    for (int i = 0; i < 2; i++) {
        char why[PL_STORE_WHY_BYTES];
        switch (pl_store_get(tiers[i], content, arena, out, why)) {
        case PL_STORE_HIT:
            pl_thread_count(run->thread, PL_STAT_hit_disk, 1);
            pl_context_tell(ctx, PL_EVENT_DISK_HIT, PL_LEVEL_NOTE, run->call->kernel, "", 0);
            return true;
        case PL_STORE_CORRUPT: tell_corrupt(run, tiers[i], content, why); break;
        case PL_STORE_MISS: break;
        }
    }
    return false;
}

/* Remarks that mean slow code: told as a warning, or an error on request. */
static pl_status tell_notes(const char *notes, bool is_strict, struct pl_call *call)
{
    if (notes[0] == '\0')
        return PL_OK;
    pl_context_tell(call->ctx, PL_EVENT_SLOW_CODE, PL_LEVEL_WARNING, call->kernel, notes, 0);
    if (is_strict)
        return pl_e_slow_code(call, PL_E_ASSEMBLER, nowhere, call->kernel, notes);
    return pl_e_assembler_note(call, PL_OK, nowhere, call->kernel, notes);
}

static pl_status assemble(struct pl_stored *out, const struct pl_assembler *a,
                          const struct pl_text *t, struct pl_run *run)
{
    struct pl_asm_result result;
    const struct pl_asm_request q = {
        .kernel = run->call->kernel, .target = t->target, .text = t->ptx, .arena = t->arena};
    pl_status st = pl_assemble(a, &run->call->ctx->driver, &q, &result, run->call);
    if (st != PL_OK)
        return st;
    pl_thread_count(run->thread, PL_STAT_assembled, 1);
    *out = (struct pl_stored){result.code, {result.notes, strlen(result.notes)}};
    return PL_OK;
}

/* A tier's entry, else the assembler's answer, which is then stored: slow code too, since its notes go with it. */
static pl_status find_or_assemble(struct pl_stored *out, const struct pl_content *content,
                                  const struct pl_assembler *a, struct pl_text *t,
                                  struct pl_run *run)
{
    struct pl_context *ctx = run->call->ctx;
    char why[PL_STORE_WHY_BYTES], path[ENTRY_PATH_BYTES];
    t->is_from_disk = a->is_cacheable && find_stored(out, content, t->arena, run);
    if (t->is_from_disk)
        return PL_OK;
    pl_status st = assemble(out, a, t, run);
    if (st == PL_OK && a->is_cacheable && !pl_store_put(&ctx->store, content, out, t->arena, why))
        (void)pl_e_cache_write(run->call, PL_OK, nowhere, entry_path(&ctx->store, content, path),
                               why);
    return st;
}

/* Code for a text, from disk or freshly assembled and then stored. */
static pl_status get_code(struct pl_blob *code, struct pl_content *content, struct pl_text *t,
                          const struct pl_ask *ask, struct pl_run *run)
{
    struct pl_context *ctx = run->call->ctx;
    struct pl_assembler isolated;
    const struct pl_assembler *a = &ctx->assembler;
    struct pl_stored got;
    if ((ask->options.flags & PL_ASSEMBLE_ISOLATED) != 0) {
        pl_status st = pl_assembler_find_isolated(&isolated, &ctx->driver, run->call);
        if (st != PL_OK)
            return st;
        a = &isolated;
    }
    if (!pl_content_make(content, t->arena, t->target, a->id, "", t->ptx))
        return pl_e_out_of_memory(run->call, PL_E_NOMEM, nowhere, "the content key");
    pl_status st = find_or_assemble(&got, content, a, t, run);
    if (st != PL_OK)
        return st;
    const char *notes = pl_arena_strndup(t->arena, got.notes.data, got.notes.n_bytes);
    if (notes == NULL)
        return pl_e_out_of_memory(run->call, PL_E_NOMEM, nowhere, "the assembler's notes");
    *code = got.code;
    return tell_notes(notes, (ask->options.flags & PL_STRICT_NOTES) != 0, run->call);
}

/* ---- debugging aids, off unless asked for in the environment ---- */

static void dump_text(struct pl_call *call, const struct pl_text *t)
{
    const char *folder = call->ctx->dump_folder;
    char path[sizeof call->ctx->dump_folder + sizeof t->entry + 8];
    if (folder[0] == '\0')
        return;
    snprintf(path, sizeof path, "%s/%s.ptx", folder, t->entry);
    FILE *f = fopen(path, "wb");
    bool is_whole = f != NULL && fwrite(t->ptx.data, 1, t->ptx.n_bytes, f) == t->ptx.n_bytes;
    int error = is_whole ? 0 : errno;
    if (f != NULL && fclose(f) != 0 && error == 0)
        error = errno;
    if (error != 0 && f != NULL)
        (void)remove(path);
    if (error != 0)
        (void)pl_e_dump_write(call, PL_OK, nowhere, path, strerrordesc_np(error));
}

/* One topic of PLAUNCH_DEBUG. */
static void log_topic(const struct pl_context *ctx, enum pl_topic topic, const char *name,
                      const char *text)
{
    if (ctx->log != NULL && (ctx->topics & topic) != 0)
        ctx->log(PL_LEVEL_NOTE, name, text, ctx->user);
}

static void log_topics(const struct pl_context *ctx, struct pl_text *t)
{
    if (ctx->log == NULL || ctx->topics == 0)
        return;
    struct pl_buf ir, plan;
    pl_buf_init(&ir, t->arena, 4096);
    pl_ir_print(&t->fn, &ir);
    pl_buf_init(&plan, t->arena, 4096);
    pl_plan_print(&t->plan, &plan);
    if (!t->arena->is_exhausted) {
        log_topic(ctx, PL_TOPIC_TRACE, "trace", ir.text);
        log_topic(ctx, PL_TOPIC_PLAN, "plan", plan.text);
    }
    log_topic(ctx, PL_TOPIC_PTX, "ptx", t->ptx.data);
}

/* ---- the whole ---- */

static void report_stages(const struct pl_ask *ask, const struct pl_build_ns *ns)
{
    if (ask->options.stages != NULL)
        *ask->options.stages = (pl_stage_ns){.trace = ns->trace,
                                             .check = ns->check,
                                             .plan = ns->plan,
                                             .emit = ns->emit,
                                             .assemble = ns->assemble,
                                             .load = ns->load};
}

static void count_build(struct pl_run *run, const struct pl_build_ns *ns)
{
    uint64_t total = ns->trace + ns->check + ns->plan + ns->emit + ns->assemble + ns->load;
    pl_thread_count(run->thread, PL_STAT_builds, 1);
    pl_thread_count(run->thread, PL_STAT_build_ns, total);
    pl_thread_count(run->thread, PL_STAT_load_ns, ns->load);
    pl_context_tell(run->call->ctx, PL_EVENT_BUILD, PL_LEVEL_NOTE, run->call->kernel, "", total);
}

static pl_status load(struct pl_variant **out, const struct pl_text *t, struct pl_blob code,
                      const struct pl_content *content, const struct pl_ask *ask,
                      struct pl_run *run)
{
    const struct pl_load_request q = {
        .kernel = ask->request.kernel,
        .plan = &t->plan,
        .config = ask->config,
        .args = ask->request.args,
        .facts = ask->request.facts,
        .entry = t->entry,
        .hash = content->hash,
        .code = code.data,
    };
    pl_status st = pl_place_push(&run->place, run->call->ctx, run->call);
    return st == PL_OK ? pl_variant_load(out, run->call->ctx, &q, &run->place, run->call) : st;
}

static pl_status build_in(struct pl_arena *arena, struct pl_variant **out, const struct pl_ask *ask,
                          struct pl_run *run)
{
    struct pl_text t;
    struct pl_content content;
    struct pl_blob code = {NULL, 0};
    pl_status st = pl_text_build(&t, ask, arena, PL_TEXT_PTX, run->call);
    if (st != PL_OK)
        return st;
    pl_thread_count(run->thread, PL_STAT_emitted, 1);
    dump_text(run->call, &t);
    log_topics(run->call->ctx, &t);

    uint64_t last = pl_os_now_ns();
    st = get_code(&code, &content, &t, ask, run);
    t.ns.assemble = lap(&last);
    if (st != PL_OK)
        return st;

    log_topic(run->call->ctx, PL_TOPIC_CACHE, "cache", t.is_from_disk ? "disk hit" : "assembled");

    st = load(out, &t, code, &content, ask, run);
    t.ns.load = lap(&last);
    report_stages(ask, &t.ns);
    if (st == PL_OK)
        count_build(run, &t.ns);
    return st;
}

pl_status pl_variant_build(struct pl_variant **out, const struct pl_ask *ask, struct pl_run *run)
{
    struct pl_arena arena;
    *out = NULL;
    /* Log and event functions are called under the entry's claim: a launch of the same variant would wait for itself. */
    const char *outer = pl_inside_build(ask->request.kernel->name);
    pl_arena_init(&arena, &run->call->ctx->hooks, run->call->ctx->scratch_limit_bytes);
    pl_status st = build_in(&arena, out, ask, run);
    pl_arena_fini(&arena);
    (void)pl_inside_build(outer);
    return st;
}
