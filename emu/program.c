#include "emu/program.h"

#include "base/debug.h"
#include "base/diag.h"
#include "emu/builtin.h"
#include "emu/device.h"
#include "emu/faults.h"
#include "emu/machine.h"
#include "emu/regs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t round_up(uint32_t v, uint32_t to) { return to == 0 ? v : (v + to - 1) / to * to; }

/* ---- does the device take the module? ---------------------------------------------------------------------------------------------- */

/* PTX ISA, .target: a plain target runs on its compute capability and newer ones, 'f' on later members of its family, 'a' on
 * its own only. */
bool pl_emu_runs_target(uint16_t sm, uint16_t target, char suffix)
{
    if (suffix == 'a')
        return target == sm;
    if (suffix == 'f')
        return target / 10 == sm / 10 && target <= sm;
    return target <= sm;
}

/* ---- variables ------------------------------------------------------------------------------------------------------------------------ */

/* Managed variables lie in the host's memory, at one address for both. CUDA C++ Programming Guide, "Unified Memory Programming" */
static const struct pl_emu_allocation *place(struct pl_emu_program *p, const struct pl_ptx_var *v)
{
    if (!v->is_managed)
        return pl_emu_memory_alloc(p->device->memory, v->n_bytes, v->align_bytes, v->name);
    if (v->n_bytes > pl_emu_memory_total_bytes(p->device->memory))
        return NULL;
    uint64_t align_bytes = v->align_bytes < 16 ? 16 : v->align_bytes;
    uint8_t *host = pl_arena_alloc(&p->arena, (size_t)(v->n_bytes + align_bytes));
    if (host == NULL)
        return NULL;
    host += -(uintptr_t)host & (align_bytes - 1);
    return pl_emu_memory_register(p->device->memory, host, v->n_bytes);
}

static bool is_placed(const struct pl_ptx_var *v)
{
    return (v->space == PL_PTX_SPACE_GLOBAL || v->space == PL_PTX_SPACE_CONST) && !v->is_extern;
}

static void place_variables(struct pl_emu_program *p, struct pl_diags *diags)
{
    uint64_t *at = pl_arena_array(&p->arena, p->module.vars.n + 1u, sizeof *at);
    p->globals = pl_arena_array(&p->arena, p->module.vars.n + 1u, sizeof *p->globals);
    if (at == NULL || p->globals == NULL)
        return;
    p->var_addresses = at;
    for (uint32_t i = 0; i < p->module.vars.n; i++) {
        const struct pl_ptx_var *v = &p->module.vars.data[i];
        struct pl_where where = {.line = (int)v->line};
        if ((v->space == PL_PTX_SPACE_GLOBAL || v->space == PL_PTX_SPACE_CONST) && v->is_extern)
            pl_d_emu_unresolved(diags, where, v->name);
        if (!is_placed(v))
            continue;
        const struct pl_emu_allocation *a = place(p, v);
        if (a == NULL) {
            pl_d_emu_var_memory(diags, where, v->name, v->n_bytes);
            continue;
        }
        if (v->init != NULL)
            memcpy(a->host, v->init, (size_t)v->init_n_bytes);
        at[i] = a->address;
        p->globals[p->n_globals++] =
            (struct pl_emu_global_info){.name = v->name,
                                        .address = a->address,
                                        .n_bytes = v->n_bytes,
                                        .is_const = v->space == PL_PTX_SPACE_CONST,
                                        .is_managed = v->is_managed,
                                        .is_visible = v->is_visible};
    }
}

/* Initialisers that hold addresses. */
static void relocate(struct pl_emu_program *p)
{
    for (uint32_t i = 0; i < p->module.vars.n; i++) {
        const struct pl_ptx_var *v = &p->module.vars.data[i];
        for (uint32_t k = 0; k < v->n_relocs && p->var_addresses[i] != 0; k++) {
            const struct pl_ptx_reloc *r = &v->relocs[k];
            uint64_t value = r->var != 0 ? p->var_addresses[r->var - 1]
                                         : PL_EMU_FUNC_WINDOW + (uint64_t)r->func * 16;
            value += (uint64_t)r->addend;
            uint8_t *host =
                pl_emu_memory_host(p->device->memory, p->var_addresses[i] + r->offset_bytes, 8);
            if (host != NULL)
                memcpy(host, &value, 8);
        }
    }
    for (uint32_t i = 0; i < p->n_globals; i++)
        if (p->globals[i].is_const)
            pl_emu_memory_set_const(p->device->memory, p->globals[i].address);
}

static void free_variables(struct pl_emu_program *p)
{
    for (uint32_t i = 0; i < p->n_globals; i++)
        pl_emu_memory_free(p->device->memory, p->globals[i].address);
}

/* ---- functions --------------------------------------------------------------------------------------------------------------------------- */

static const struct pl_emu_param_info *param_infos(struct pl_emu_program *p,
                                                   const struct pl_ptx_func *f)
{
    struct pl_emu_param_info *out = pl_arena_array(&p->arena, f->n_params + 1u, sizeof *out);
    for (uint32_t i = 0; out != NULL && f->is_entry && i < f->n_params; i++) {
        const struct pl_ptx_var *v = &p->module.vars.data[f->params[i]];
        out[i] = (struct pl_emu_param_info){.offset_bytes = (uint32_t)v->param_offset,
                                            .n_bytes = (uint32_t)v->n_bytes,
                                            .align_bytes = v->align_bytes};
    }
    return out;
}

static void describe_func(struct pl_emu_program *p, const struct pl_ptx_func *f,
                          struct pl_emu_func_info *info)
{
    uint32_t req = f->req_ntid[0] * f->req_ntid[1] * f->req_ntid[2];
    uint32_t max = f->max_ntid[0] * f->max_ntid[1] * f->max_ntid[2];
    info->name = f->name;
    info->is_entry = f->is_entry;
    info->n_params = f->n_params;
    info->params = param_infos(p, f);
    info->param_n_bytes = f->param_n_bytes;
    info->max_threads = req != 0 ? req : max != 0 && max < 1024 ? max : 1024;
    memcpy(info->req_block, f->req_ntid, sizeof info->req_block);
    memcpy(info->req_cluster, f->req_cluster, sizeof info->req_cluster);
    info->max_cluster = f->max_cluster_rank;
    info->is_explicit_cluster = f->is_explicit_cluster;
    info->min_ctas_per_sm = f->min_nctapersm;
    info->n_regs = pl_emu_regs_estimate(&p->module, f, &p->arena);
    info->least_regs = info->n_regs / 2;
}

static bool make_funcs(struct pl_emu_program *p)
{
    uint32_t n = p->module.funcs.n;
    struct pl_emu_func *all = pl_arena_array(&p->arena, n + 1u, sizeof *all);
    p->funcs = pl_arena_array(&p->arena, n + 1u, sizeof *p->funcs);
    p->listed = pl_arena_array(&p->arena, n + 1u, sizeof *p->listed);
    if (all == NULL || p->funcs == NULL || p->listed == NULL)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const struct pl_ptx_func *f = &p->module.funcs.data[i];
        all[i].program = p;
        all[i].index = i;
        all[i].line = f->line;
        all[i].has_body = f->has_body;
        all[i].n_params = f->n_params;
        all[i].n_returns = f->n_returns;
        all[i].builtin = f->has_body ? NULL : pl_emu_builtin_find(f->name);
        describe_func(p, f, &all[i].info);
        p->funcs[i] = &all[i];
        if (f->has_body)
            p->listed[p->n_listed++] = &all[i];
    }
    return !pl_arena_is_exhausted(&p->arena);
}

/* ---- what an entry reaches ------------------------------------------------------------------------------------------------------------------ */

struct reach {
    struct pl_emu_program *p;
    uint8_t *is_called;   /* functions found */
    uint8_t *is_taken;    /* functions whose address is taken */
    uint8_t *is_used_var; /* shared variables found */
    uint32_t *todo;
    uint32_t n_todo;
    bool has_pointers;             /* a call through a pointer was found */
    bool has_alloca, has_reserved; /* and a read of %reserved_smem_offset_0 or _1 */
};

static void call_func(struct reach *r, uint32_t func)
{
    if (r->is_called[func])
        return;
    r->is_called[func] = 1;
    r->todo[r->n_todo++] = func;
}

static void see_operand(struct reach *r, const struct pl_ptx_ins *i, const struct pl_ptx_operand *o)
{
    const struct pl_ptx_module *m = &r->p->module;
    if (o->kind == PL_PTX_OP_VECTOR || o->kind == PL_PTX_OP_PAIR || o->kind == PL_PTX_OP_TENSOR)
        for (uint32_t k = 0; k < o->n; k++)
            see_operand(r, i, &m->pool.data[o->first + k]);
    else if (o->kind == PL_PTX_OP_FUNC)
        call_func(r, o->first); /* called, or its address taken: both may run it */
    else if ((o->kind == PL_PTX_OP_VAR || o->kind == PL_PTX_OP_ADDR) && o->var != 0)
        r->is_used_var[o->var - 1] = 1;
    else if (o->kind == PL_PTX_OP_SREG)
        r->has_reserved = r->has_reserved || o->sreg == PL_PTX_SREG_reserved_smem_0 ||
                          o->sreg == PL_PTX_SREG_reserved_smem_1;
    if (i->form == PL_PTX_call && o->kind == PL_PTX_OP_REG)
        r->has_pointers = true;
}

static void see_func(struct reach *r, uint32_t func)
{
    const struct pl_ptx_module *m = &r->p->module;
    const struct pl_ptx_func *f = &m->funcs.data[func];
    for (uint32_t k = 0; f->has_body && k < f->n_ins; k++) {
        const struct pl_ptx_ins *i = &m->ins.data[f->first_ins + k];
        r->has_alloca = r->has_alloca || i->form == PL_PTX_alloca;
        for (uint32_t o = 0; o < i->n_operands; o++)
            see_operand(r, i, &m->pool.data[i->operands + o]);
    }
}

/* Function addresses in initialisers, which any entry may load. */
static void find_taken(struct reach *r)
{
    const struct pl_ptx_module *m = &r->p->module;
    for (uint32_t i = 0; i < m->vars.n; i++)
        for (uint32_t k = 0; k < m->vars.data[i].n_relocs; k++)
            if (m->vars.data[i].relocs[k].func != 0)
                r->is_taken[m->vars.data[i].relocs[k].func - 1] = 1;
}

static void find_reach(struct reach *r, uint32_t entry)
{
    const struct pl_ptx_module *m = &r->p->module;
    memset(r->is_called, 0, m->funcs.n);
    memset(r->is_used_var, 0, m->vars.n);
    r->n_todo = 0;
    r->has_pointers = false;
    r->has_alloca = r->has_reserved = false;
    call_func(r, entry);
    do {
        while (r->n_todo != 0)
            see_func(r, r->todo[--r->n_todo]);
        for (uint32_t i = 0; r->has_pointers && i < m->funcs.n; i++)
            if (r->is_taken[i])
                call_func(r, i);
    } while (r->n_todo != 0);
}

/* Static shared variables from the base of the device on, extern ones behind them, where dynamic memory begins. */
static bool lay_out_shared(struct reach *r, struct pl_emu_func *entry)
{
    const struct pl_ptx_module *m = &r->p->module;
    uint32_t *at = pl_arena_array(&r->p->arena, m->vars.n + 1u, sizeof *at);
    if (at == NULL)
        return false;
    memset(at, 0xff, m->vars.n * sizeof *at);
    uint32_t base = r->p->device->shared_base_bytes;
    uint64_t n_bytes = 0;
    entry->dynamic_align_bytes = 16;
    for (uint32_t i = 0; i < m->vars.n; i++) {
        const struct pl_ptx_var *v = &m->vars.data[i];
        if (v->space != PL_PTX_SPACE_SHARED || !r->is_used_var[i])
            continue;
        if (v->is_extern && v->align_bytes > entry->dynamic_align_bytes)
            entry->dynamic_align_bytes = v->align_bytes;
        if (v->is_extern)
            continue;
        n_bytes = round_up((uint32_t)n_bytes, v->align_bytes < 1 ? 1 : v->align_bytes);
        at[i] = base + (uint32_t)n_bytes;
        n_bytes += v->n_bytes;
        if (n_bytes > (1u << PL_EMU_RANK_SHIFT) / 2)
            return false;
    }
    entry->shared_bytes = (uint32_t)n_bytes;
    uint32_t dynamic = base + round_up(entry->shared_bytes, entry->dynamic_align_bytes);
    for (uint32_t i = 0; i < m->vars.n; i++)
        if (m->vars.data[i].space == PL_PTX_SPACE_SHARED && m->vars.data[i].is_extern &&
            r->is_used_var[i])
            at[i] = dynamic;
    entry->shared_offsets = at;
    entry->info.static_shared_bytes = entry->shared_bytes;
    return true;
}

/* Local memory that calls below an entry may need: the sum of all functions it reaches bounds a chain without recursion; a
 * cycle in the call graph, a pointer or an alloca makes it unknown. */
static void measure_local(struct reach *r, struct pl_emu_func *entry)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < r->p->module.funcs.n; i++)
        if (r->is_called[i])
            n += r->p->funcs[i]->local_bytes;
    entry->deepest_bytes = n > 1u << 24 ? 1u << 24 : (uint32_t)n;
    entry->is_deep_unknown = r->has_pointers || r->has_alloca;
    entry->info.local_bytes = entry->local_bytes;
    entry->uses_reserved = r->has_reserved;
}

/* The most that a setmaxnreg.inc of the entry or of what it calls asks for; 0: there is none. *has: is there a setmaxnreg? */
static uint32_t most_inc(const struct reach *r, bool *has)
{
    const struct pl_ptx_module *m = &r->p->module;
    uint32_t most = 0;
    *has = false;
    for (uint32_t i = 0; i < m->funcs.n; i++) {
        const struct pl_ptx_func *f = &m->funcs.data[i];
        for (uint32_t k = 0; r->is_called[i] && f->has_body && k < f->n_ins; k++) {
            const struct pl_ptx_ins *ins = &m->ins.data[f->first_ins + k];
            if (ins->form != PL_PTX_setmaxnreg)
                continue;
            uint32_t n = (uint32_t)m->pool.data[ins->operands].imm;
            *has = true;
            if (ins->mods[PL_PTX_CAT_REGS] == PL_PTX_MOD_REGS_INC && n > most)
                most = n;
        }
    }
    return most;
}

/*
 * Registers a thread at launch of an entry with setmaxnreg: .maxnreg, or what the threads of .minnctapersm CTAs leave each other,
 * and no more than the most that an inc asks for. An entry that fixes neither has its setmaxnreg ignored. PTX ISA, setmaxnreg, asks for
 * a launch with a valid number and leaves the number to the assembler: this is that of ptxas 13.0.
 */
static void count_launch_regs(const struct reach *r, struct pl_emu_func *entry)
{
    enum { OF_SM = 65536, MOST = 255, WARPGROUP = 128 };
    const struct pl_ptx_func *f = &r->p->module.funcs.data[entry->index];
    bool has;
    uint32_t inc = most_inc(r, &has), n = f->max_nreg;
    uint32_t n_threads = f->req_ntid[0] * f->req_ntid[1] * f->req_ntid[2];
    if (n_threads == 0)
        n_threads = f->max_ntid[0] * f->max_ntid[1] * f->max_ntid[2];
    if (n == 0 && n_threads != 0 && f->min_nctapersm != 0)
        n = OF_SM / round_up(n_threads * f->min_nctapersm, WARPGROUP) / 8 * 8;
    if (!has || n == 0)
        return;
    n = n > MOST ? MOST : n;
    entry->launch_regs = inc != 0 && inc < n ? inc : n;
    entry->info.n_regs = entry->info.least_regs = entry->launch_regs;
}

/* Is there a cycle among the functions that are called? Depth-first, colours in `state`: 1 open, 2 done. */
static bool has_cycle(struct reach *r, uint32_t func, uint8_t *state, uint32_t depth)
{
    const struct pl_ptx_module *m = &r->p->module;
    const struct pl_ptx_func *f = &m->funcs.data[func];
    enum { MAX_DEPTH = 2000 };
    if (state[func] == 1 || depth > MAX_DEPTH)
        return true;
    if (state[func] == 2)
        return false;
    state[func] = 1;
    for (uint32_t k = 0; f->has_body && k < f->n_ins; k++) {
        const struct pl_ptx_ins *i = &m->ins.data[f->first_ins + k];
        for (uint32_t o = 0; i->form == PL_PTX_call && o < i->n_operands; o++) {
            const struct pl_ptx_operand *op = &m->pool.data[i->operands + o];
            if (op->kind == PL_PTX_OP_FUNC && has_cycle(r, op->first, state, depth + 1))
                return true;
        }
    }
    state[func] = 2;
    return false;
}

static bool finish_entries(struct pl_emu_program *p, struct pl_arena *scratch)
{
    uint32_t n = p->module.funcs.n;
    struct reach r = {.p = p};
    r.is_called = pl_arena_alloc(scratch, n + 1u);
    r.is_taken = pl_arena_alloc(scratch, n + 1u);
    r.is_used_var = pl_arena_alloc(scratch, p->module.vars.n + 1u);
    r.todo = pl_arena_array(scratch, n + 1u, sizeof *r.todo);
    uint8_t *state = pl_arena_alloc(scratch, n + 1u);
    if (pl_arena_is_exhausted(scratch))
        return false;
    find_taken(&r);
    for (uint32_t i = 0; i < n; i++) {
        struct pl_emu_func *f = (struct pl_emu_func *)(uintptr_t)p->funcs[i];
        if (!f->info.is_entry || !f->has_body)
            continue;
        find_reach(&r, i);
        if (!lay_out_shared(&r, f))
            return false;
        measure_local(&r, f);
        count_launch_regs(&r, f);
        memset(state, 0, n);
        f->is_deep_unknown = f->is_deep_unknown || has_cycle(&r, i, state, 0);
    }
    return true;
}

/* ---- sizes that no chip has, as ptxas refuses them -------------------------------------------------------------------------------------- */

/* PTX ISA, "Kernel Function Parameters". */
static uint32_t most_params(const struct pl_ptx_module *m)
{
    enum { OLD_BYTES = 4352, BYTES = 32764, FROM_VERSION = 81, FROM_SM = 70 };
    return m->version >= FROM_VERSION && m->sm >= FROM_SM ? BYTES : OLD_BYTES;
}

/* ptxas 13.0: an architecture-specific target may use all that its chip has. */
static uint32_t most_static(const struct pl_emu_program *p)
{
    enum { ANYWHERE_BYTES = 48 * 1024 };
    return p->module.suffix == 'a' ? p->device->config.shared_per_cta_bytes : ANYWHERE_BYTES;
}

static void check_entry_size(const struct pl_emu_func *f, struct pl_diags *diags)
{
    struct pl_where where = {.line = (int)f->line};
    uint32_t most = most_static(f->program);
    if (f->shared_bytes > most)
        pl_d_emu_too_large(diags, where, f->info.name, f->shared_bytes, "static shared memory",
                           most);
    most = most_params(&f->program->module);
    if (f->info.param_n_bytes > most)
        pl_d_emu_too_large(diags, where, f->info.name, f->info.param_n_bytes, "parameters", most);
}

static bool check_sizes(const struct pl_emu_program *p, struct pl_diags *diags)
{
    enum { MOST_CONST_BYTES = 64 * 1024 };
    uint64_t n = 0;
    for (uint32_t i = 0; i < p->module.funcs.n; i++)
        if (p->funcs[i]->info.is_entry && p->funcs[i]->has_body)
            check_entry_size(p->funcs[i], diags);
    for (uint32_t i = 0; i < p->module.vars.n; i++) {
        const struct pl_ptx_var *v = &p->module.vars.data[i];
        uint64_t align = v->align_bytes < 1 ? 1 : v->align_bytes, before = n;
        if (v->space != PL_PTX_SPACE_CONST)
            continue;
        n = (n + align - 1) / align * align + v->n_bytes;
        if (n > MOST_CONST_BYTES && before <= MOST_CONST_BYTES)
            pl_d_emu_too_large(diags, (struct pl_where){.line = (int)v->line}, "the module", n,
                               "constant memory", MOST_CONST_BYTES);
    }
    return diags->n_errors == 0;
}

/* ---- load ------------------------------------------------------------------------------------------------------------------------------------- */

static void set_fault(struct pl_emu_fault *fault, int code, uint32_t line, const char *text)
{
    *fault = (struct pl_emu_fault){.code = code, .line = line, .result = pl_emu_result_of(code)};
    snprintf(fault->text, sizeof fault->text, "%s", text);
}

/* What ptxas says of a variable of a known size that nothing defines: "Unresolved extern variable in whole program compilation,
 * ignoring extern qualifier". */
static void define_sized_externs(struct pl_ptx_module *m)
{
    for (uint32_t i = 0; i < m->vars.n; i++)
        if (m->vars.data[i].n_bytes != 0)
            m->vars.data[i].is_extern = false;
}

static bool load(struct pl_emu_program *p, const char *text, size_t n_bytes, struct pl_diags *diags,
                 struct pl_emu_fault *fault)
{
    struct pl_ptx_error error = {0};
    if (!pl_ptx_parse(text, n_bytes, &p->arena, &p->module, &error)) {
        set_fault(fault, error.code, error.line, error.text);
        if (fault->code == 0)
            fault->result = 218; /* CUDA_ERROR_INVALID_PTX */
        return false;
    }
    uint16_t sm = p->device->config.sm;
    if (!pl_emu_runs_target(sm, p->module.sm, p->module.suffix)) {
        const char suffix[2] = {p->module.suffix, 0};
        pl_d_emu_target(diags, (struct pl_where){0}, p->module.sm, suffix, sm);
        return false;
    }
    define_sized_externs(&p->module);
    if (!make_funcs(p))
        return false;
    place_variables(p, diags);
    if (diags->n_errors != 0 || p->globals == NULL)
        return false;
    relocate(p);
    return pl_emu_decode(p, diags) && finish_entries(p, diags->arena) && check_sizes(p, diags);
}

bool pl_emu_program_load(struct pl_emu_device *d, const char *text, size_t n_bytes,
                         struct pl_emu_program **out, struct pl_emu_fault *fault)
{
    struct pl_arena scratch = {0};
    struct pl_diags diags;
    pl_diags_init(&diags, &scratch);
    *fault = (struct pl_emu_fault){0};
    struct pl_emu_program *p = calloc(1, sizeof *p);
    bool is_ok = false;
    if (p != NULL) {
        p->device = d;
        is_ok = load(p, text, strnlen(text, n_bytes), &diags, fault);
    }
    if (!is_ok && diags.list.n != 0)
        set_fault(fault, diags.list.data[0].info->code, (uint32_t)diags.list.data[0].where.line,
                  diags.list.data[0].text != NULL ? diags.list.data[0].text : "");
    else if (!is_ok && fault->code == 0 && fault->result == 0)
        set_fault(fault, pl_di_emu_no_memory.code, 0, pl_di_emu_no_memory.format);
    pl_arena_fini(&scratch);
    *out = is_ok ? p : NULL;
    if (!is_ok)
        pl_emu_program_unload(p);
    return is_ok;
}

void pl_emu_program_unload(struct pl_emu_program *p)
{
    if (p == NULL)
        return;
    free_variables(p);
    pl_arena_fini(&p->arena);
    free(p);
}

/* ---- queries ------------------------------------------------------------------------------------------------------------------------------------ */

uint32_t pl_emu_program_n_funcs(const struct pl_emu_program *p) { return p->n_listed; }

const struct pl_emu_func *pl_emu_program_func(const struct pl_emu_program *p, uint32_t i)
{
    return p->listed[i];
}

const struct pl_emu_func *pl_emu_program_find(const struct pl_emu_program *p, const char *name)
{
    for (uint32_t i = 0; i < p->n_listed; i++)
        if (strcmp(p->listed[i]->info.name, name) == 0)
            return p->listed[i];
    return NULL;
}

const struct pl_emu_func_info *pl_emu_func_info(const struct pl_emu_func *f) { return &f->info; }

uint32_t pl_emu_program_n_globals(const struct pl_emu_program *p) { return p->n_globals; }

const struct pl_emu_global_info *pl_emu_program_global(const struct pl_emu_program *p, uint32_t i)
{
    return &p->globals[i];
}
