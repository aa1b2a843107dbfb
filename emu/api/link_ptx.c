/*
 * A part is appended table by table, so that an index of it becomes the same index plus a base. Only symbols are looked up: two
 * maps tell what a variable or function of the part is called in the result. Lookup is linear: links have few symbols.
 */
#include "emu/api/link_ptx.h"

#include "emu/api/diag.h"
#include "emu/builtin.h"
#include "jit/ptx/print.h"

#include <string.h>

struct part {
    const struct pl_ptx_module *m;
    uint32_t *vars, *funcs;            /* index in the part to index in the result */
    uint32_t pool, ins, protos, texts; /* bases */
    uint32_t own_vars, own_funcs;      /* symbols of the result before this part */
};

/* ---- symbols -------------------------------------------------------------------------------------------------------- */

static bool is_module_scope(const struct pl_ptx_var *v) { return v->func == 0; }

static bool is_global_var(const struct pl_ptx_var *v)
{
    return is_module_scope(v) && (v->is_extern || v->is_visible || v->is_weak || v->is_common);
}

/* A prototype without a body can only mean a function of another module. */
static bool is_global_func(const struct pl_ptx_func *f)
{
    return f->is_entry || f->is_visible || f->is_weak || f->is_extern || !f->has_body;
}

/* The result's symbol of this name: variable or function, neither inside a function. False: none. */
struct symbol {
    bool is_func;
    uint32_t index;
};

static bool find_symbol(const struct pl_emu_link *l, const struct part *p, const char *name,
                        struct symbol *out)
{
    for (uint32_t i = 0; i < p->own_vars; i++)
        if (is_module_scope(&l->out.vars.data[i]) && strcmp(l->out.vars.data[i].name, name) == 0)
            return *out = (struct symbol){false, i}, true;
    for (uint32_t i = 0; i < p->own_funcs; i++)
        if (strcmp(l->out.funcs.data[i].name, name) == 0)
            return *out = (struct symbol){true, i}, true;
    return false;
}

static bool is_global(const struct pl_emu_link *l, struct symbol s)
{
    return s.is_func ? is_global_func(&l->out.funcs.data[s.index])
                     : is_global_var(&l->out.vars.data[s.index]);
}

static bool names_in(const struct pl_ptx_module *m, const char *name)
{
    for (uint32_t i = 0; i < m->vars.n; i++)
        if (strcmp(m->vars.data[i].name, name) == 0)
            return true;
    for (uint32_t i = 0; i < m->funcs.n; i++) {
        const struct pl_ptx_func *f = &m->funcs.data[i];
        if (strcmp(f->name, name) == 0)
            return true;
        for (uint32_t r = 0; r < f->regs.n; r++)
            if (strcmp(f->regs.data[r].name, name) == 0)
                return true;
    }
    return false;
}

/* A name that nothing has, no register or variable of a function either: those would hide it. */
static const char *fresh_name(struct pl_emu_link *l, const struct part *p, const char *name)
{
    const char *text;
    do
        text = pl_arena_printf(&l->arena, "%s$%u", name, ++l->n_renamed);
    while (text != NULL && (names_in(&l->out, text) || names_in(p->m, text)));
    return text;
}

/* Make room for a symbol of the part: of two alike where one is of file scope, that one is renamed. True and *same: both are
 * global, and mean one thing. */
static bool settle_name(struct pl_emu_link *l, const struct part *p, const char **name,
                        bool is_global_here, bool *has_same, struct symbol *same)
{
    *has_same = false;
    if (!find_symbol(l, p, *name, same))
        return true;
    if (is_global_here && is_global(l, *same)) {
        *has_same = true;
        return true;
    }
    const char *fresh = fresh_name(l, p, *name);
    if (fresh == NULL)
        return false;
    if (!is_global_here)
        *name = fresh;
    else if (same->is_func)
        l->out.funcs.data[same->index].name = fresh;
    else
        l->out.vars.data[same->index].name = fresh;
    return true;
}

static bool mismatch(struct pl_diags *diags, const char *name, const char *what)
{
    pl_d_link_mismatch(diags, (struct pl_where){0}, name, what);
    return false;
}

/* ---- variables ------------------------------------------------------------------------------------------------------- */

/* PTX ISA, "Linking Directives: .common": the largest of them is allocated; a definition that is not common wins. */
static bool is_stronger(const struct pl_ptx_var *a, const struct pl_ptx_var *than)
{
    if (a->is_extern || than->is_extern)
        return !a->is_extern;
    if (a->is_common && than->is_common)
        return a->n_bytes > than->n_bytes;
    return (than->is_common && !a->is_common) || (than->is_weak && !a->is_weak);
}

static bool is_yielding(const struct pl_ptx_var *v)
{
    return v->is_extern || v->is_weak || v->is_common;
}

static bool join_var(struct pl_ptx_var *out, const struct pl_ptx_var *v, struct pl_diags *diags)
{
    if (out->space != v->space)
        return mismatch(diags, v->name, "state space");
    bool are_sized = out->n_bytes != 0 && v->n_bytes != 0;
    if (are_sized && out->n_bytes != v->n_bytes && !(out->is_common && v->is_common))
        return mismatch(diags, v->name, "size");
    if (!is_yielding(out) && !is_yielding(v)) {
        pl_d_link_twice(diags, (struct pl_where){0}, v->name);
        return false;
    }
    uint32_t align_bytes = out->align_bytes > v->align_bytes ? out->align_bytes : v->align_bytes;
    if (is_stronger(v, out))
        *out = *v;
    out->align_bytes = align_bytes;
    return true;
}

static bool add_var(struct pl_emu_link *l, struct part *p, uint32_t index, struct pl_diags *diags)
{
    struct pl_ptx_var v = p->m->vars.data[index];
    bool has_same = false;
    struct symbol same;
    if (is_module_scope(&v) && !settle_name(l, p, &v.name, is_global_var(&v), &has_same, &same))
        return false;
    if (has_same && same.is_func)
        return mismatch(diags, v.name, "kind (variable and function)");
    struct pl_ptx_reloc *relocs = pl_arena_array(&l->arena, v.n_relocs + 1u, sizeof *relocs);
    if (relocs == NULL)
        return false;
    if (v.n_relocs != 0)
        memcpy(relocs, v.relocs, v.n_relocs * sizeof *relocs);
    v.relocs = relocs; /* still of the part: see remap_relocs */
    if (has_same) {
        p->vars[index] = same.index;
        return join_var(&l->out.vars.data[same.index], &v, diags);
    }
    struct pl_ptx_var *out = pl_vec_push(&l->arena, &l->out.vars);
    if (out == NULL)
        return false;
    *out = v;
    p->vars[index] = l->out.vars.n - 1;
    return true;
}

/* Once all symbols of the part are known. Those of a variable that gave way to another are not reached. */
static void remap_relocs(struct pl_emu_link *l, const struct part *p)
{
    for (uint32_t i = 0; i < p->m->vars.n; i++) {
        const struct pl_ptx_var *from = &p->m->vars.data[i];
        struct pl_ptx_var *to = &l->out.vars.data[p->vars[i]];
        if (to->init != from->init)
            continue;
        struct pl_ptx_reloc *relocs = (struct pl_ptx_reloc *)(uintptr_t)to->relocs;
        for (uint32_t k = 0; k < to->n_relocs; k++) {
            const struct pl_ptx_reloc *r = &from->relocs[k];
            relocs[k].var = r->var != 0 ? p->vars[r->var - 1] + 1 : 0;
            relocs[k].func = r->func != 0 ? p->funcs[r->func - 1] + 1 : 0;
        }
    }
}

/* ---- functions -------------------------------------------------------------------------------------------------------- */

static const uint32_t DROPPED = UINT32_MAX; /* owner of what a body had that gave way to another */

/* A later body takes a function over: what is local to the earlier one goes. */
static void drop_body(struct pl_emu_link *l, const struct part *p, uint32_t func)
{
    for (uint32_t i = 0; i < p->own_vars; i++)
        if (l->out.vars.data[i].func == func + 1)
            l->out.vars.data[i].func = DROPPED;
    for (uint32_t i = 0; i < p->protos; i++)
        if (l->out.protos.data[i].func == func)
            l->out.protos.data[i].func = DROPPED;
}

static bool join_func(struct pl_emu_link *l, const struct part *p, uint32_t func,
                      const struct pl_ptx_func *f, struct pl_diags *diags)
{
    struct pl_ptx_func *out = &l->out.funcs.data[func];
    if (out->n_params != f->n_params || out->n_returns != f->n_returns)
        return mismatch(diags, f->name, "number of parameters");
    if (out->has_body && f->has_body && !out->is_weak && !f->is_weak) {
        pl_d_link_twice(diags, (struct pl_where){0}, f->name);
        return false;
    }
    if (f->has_body && (!out->has_body || (out->is_weak && !f->is_weak))) {
        drop_body(l, p, func);
        *out = *f;
    }
    return true;
}

static bool add_func(struct pl_emu_link *l, struct part *p, uint32_t index, struct pl_diags *diags)
{
    struct pl_ptx_func f = p->m->funcs.data[index];
    bool has_same;
    struct symbol same;
    if (!settle_name(l, p, &f.name, is_global_func(&f), &has_same, &same))
        return false;
    if (has_same && !same.is_func)
        return mismatch(diags, f.name, "kind (variable and function)");
    f.first_ins += p->ins;
    if (has_same) {
        p->funcs[index] = same.index;
        return join_func(l, p, same.index, &f, diags);
    }
    struct pl_ptx_func *out = pl_vec_push(&l->arena, &l->out.funcs);
    if (out == NULL)
        return false;
    *out = f;
    p->funcs[index] = l->out.funcs.n - 1;
    return true;
}

static const uint32_t *remap_list(struct pl_emu_link *l, const uint32_t *list, uint32_t n,
                                  const uint32_t *map)
{
    uint32_t *out = pl_arena_array(&l->arena, n + 1u, sizeof *out);
    for (uint32_t i = 0; out != NULL && i < n; i++)
        out[i] = map[list[i]];
    return out;
}

/* Did the result take the part's body of this function? */
static bool is_kept(const struct pl_emu_link *l, const struct part *p, uint32_t func)
{
    return p->m->funcs.data[func].first_ins + p->ins == l->out.funcs.data[p->funcs[func]].first_ins;
}

/* Parameters of the functions that the part gives the result; and whose local variables are whose. */
static void remap_funcs(struct pl_emu_link *l, const struct part *p)
{
    for (uint32_t i = 0; i < p->m->funcs.n; i++) {
        const struct pl_ptx_func *from = &p->m->funcs.data[i];
        struct pl_ptx_func *to = &l->out.funcs.data[p->funcs[i]];
        if (to->params != from->params || to->returns != from->returns || to->has_reg_params)
            continue;
        to->params = remap_list(l, from->params, from->n_params, p->vars);
        to->returns = remap_list(l, from->returns, from->n_returns, p->vars);
    }
    for (uint32_t i = 0; i < p->m->vars.n; i++) {
        uint32_t func = p->m->vars.data[i].func;
        if (func == 0)
            continue;
        l->out.vars.data[p->vars[i]].func =
            is_kept(l, p, func - 1) ? p->funcs[func - 1] + 1 : DROPPED;
    }
}

/* ---- bodies ------------------------------------------------------------------------------------------------------------ */

static bool add_operand(struct pl_emu_link *l, const struct part *p,
                        const struct pl_ptx_operand *from)
{
    struct pl_ptx_operand *o = pl_vec_push(&l->arena, &l->out.pool);
    if (o == NULL)
        return false;
    *o = *from;
    if (o->var != 0)
        o->var = p->vars[o->var - 1] + 1;
    switch ((enum pl_ptx_operand_kind)o->kind) {
    case PL_PTX_OP_VECTOR:
    case PL_PTX_OP_PAIR:
    case PL_PTX_OP_TENSOR: o->first += p->pool; break;
    case PL_PTX_OP_LABEL: o->first += p->ins; break;
    case PL_PTX_OP_FUNC: o->first = p->funcs[o->first]; break;
    case PL_PTX_OP_PROTO: o->first += p->protos; break;
    case PL_PTX_OP_TEXT: o->first += p->texts; break;
    case PL_PTX_OP_NONE:
    case PL_PTX_OP_REG:
    case PL_PTX_OP_SREG:
    case PL_PTX_OP_IMM:
    case PL_PTX_OP_VAR:
    case PL_PTX_OP_ADDR:
    case PL_PTX_OP_SINK:
    case PL_PTX_OP_RANGE: break;
    }
    return true;
}

static bool add_proto(struct pl_emu_link *l, const struct part *p, const struct pl_ptx_proto *from)
{
    uint32_t *targets = pl_arena_array(&l->arena, from->n_targets + 1u, sizeof *targets);
    struct pl_ptx_proto *out = pl_vec_push(&l->arena, &l->out.protos);
    if (targets == NULL || out == NULL)
        return false;
    for (uint32_t i = 0; i < from->n_targets; i++)
        targets[i] = from->is_calls ? p->funcs[from->targets[i]] : from->targets[i] + p->ins;
    *out = *from;
    out->targets = targets;
    out->func = is_kept(l, p, from->func) ? p->funcs[from->func] : DROPPED;
    return true;
}

static bool add_bodies(struct pl_emu_link *l, const struct part *p)
{
    const struct pl_ptx_module *m = p->m;
    bool ok = true;
    for (uint32_t i = 1; ok && i < m->pool.n; i++)
        ok = add_operand(l, p, &m->pool.data[i]);
    for (uint32_t i = 0; ok && i < m->ins.n; i++) {
        struct pl_ptx_ins *ins = pl_vec_push(&l->arena, &l->out.ins);
        ok = ins != NULL;
        if (ok) {
            *ins = m->ins.data[i];
            ins->operands += p->pool;
        }
    }
    for (uint32_t i = 0; ok && i < m->protos.n; i++)
        ok = add_proto(l, p, &m->protos.data[i]);
    for (uint32_t i = 0; ok && i < m->texts.n; i++) {
        const char **text = pl_vec_push(&l->arena, &l->out.texts);
        ok = text != NULL;
        if (ok)
            *text = m->texts.data[i];
    }
    return ok;
}

/* The driver compiles each input for the chip; one text needs the newest version and the narrowest target of them. */
static void join_head(struct pl_ptx_module *out, const struct pl_ptx_module *m)
{
    if (m->version > out->version)
        out->version = m->version;
    bool is_narrower = m->suffix == 'a' ? out->suffix != 'a' : m->suffix != 0 && out->suffix == 0;
    if (m->sm > out->sm || (m->sm == out->sm && is_narrower)) {
        out->sm = m->sm;
        out->suffix = m->suffix;
    }
    out->is_texmode_independent |= m->is_texmode_independent;
}

static bool add_part(struct pl_emu_link *l, const struct pl_ptx_module *m, struct pl_diags *diags)
{
    struct part p = {.m = m,
                     .ins = l->out.ins.n,
                     .protos = l->out.protos.n,
                     .texts = l->out.texts.n,
                     .own_vars = l->out.vars.n,
                     .own_funcs = l->out.funcs.n};
    p.vars = pl_arena_array(&l->arena, m->vars.n + 1u, sizeof *p.vars);
    p.funcs = pl_arena_array(&l->arena, m->funcs.n + 1u, sizeof *p.funcs);
    if (p.vars == NULL || p.funcs == NULL)
        return false;
    if (l->out.pool.n == 0 && pl_vec_push(&l->arena, &l->out.pool) == NULL)
        return false;
    p.pool = l->out.pool.n - 1;
    for (uint32_t i = 0; i < m->vars.n; i++)
        if (!add_var(l, &p, i, diags))
            return false;
    for (uint32_t i = 0; i < m->funcs.n; i++)
        if (!add_func(l, &p, i, diags))
            return false;
    remap_relocs(l, &p);
    remap_funcs(l, &p);
    join_head(&l->out, m);
    return add_bodies(l, &p) && !pl_arena_is_exhausted(&l->arena);
}

bool pl_emu_link_add(struct pl_emu_link *l, const char *text, size_t n_bytes,
                     struct pl_diags *diags, struct pl_ptx_error *error)
{
    struct pl_ptx_module m = {0};
    if (!pl_ptx_parse(text, n_bytes, &l->arena, &m, error))
        return false;
    l->n_parts++;
    return add_part(l, &m, diags);
}

/* ---- the result --------------------------------------------------------------------------------------------------------- */

static bool is_func_used(const struct pl_ptx_module *m, uint32_t func)
{
    for (uint32_t i = 0; i < m->pool.n; i++)
        if (m->pool.data[i].kind == PL_PTX_OP_FUNC && m->pool.data[i].first == func)
            return true;
    for (uint32_t i = 0; i < m->vars.n; i++)
        for (uint32_t k = 0; k < m->vars.data[i].n_relocs; k++)
            if (m->vars.data[i].relocs[k].func == func + 1)
                return true;
    return false;
}

/* Memory of a launch, which no module defines, is extern for good: dynamic shared memory, which has no size. */
static bool is_var_missing(const struct pl_ptx_var *v)
{
    bool is_dynamic = v->space == PL_PTX_SPACE_SHARED && v->n_bytes == 0;
    return is_module_scope(v) && v->is_extern && !is_dynamic;
}

static bool check_resolved(const struct pl_ptx_module *m, struct pl_diags *diags)
{
    bool ok = true;
    for (uint32_t i = 0; i < m->vars.n; i++)
        if (is_var_missing(&m->vars.data[i])) {
            pl_d_link_unresolved(diags, (struct pl_where){0}, m->vars.data[i].name);
            ok = false;
        }
    for (uint32_t i = 0; i < m->funcs.n; i++) {
        const struct pl_ptx_func *f = &m->funcs.data[i];
        if (f->has_body || pl_emu_builtin_find(f->name) != NULL || !is_func_used(m, i))
            continue;
        pl_d_link_unresolved(diags, (struct pl_where){0}, f->name);
        ok = false;
    }
    return ok;
}

bool pl_emu_link_finish(struct pl_emu_link *l, struct pl_diags *diags, struct pl_buf *out)
{
    if (!check_resolved(&l->out, diags))
        return false;
    pl_ptx_print_module(out, &l->out);
    return !pl_arena_is_exhausted(out->arena);
}

void pl_emu_link_fini(struct pl_emu_link *l) { pl_arena_fini(&l->arena); }
