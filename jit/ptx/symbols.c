/*
 * Names and scopes. Each distinct name is interned once and knows its innermost meaning; a symbol knows the one that it
 * hides, and a scope lists its symbols, so that closing it costs one step a symbol. A register range (%r<100>) is a symbol of
 * its prefix: a register of it comes into being when an instruction first names it, as a symbol of the range's scope.
 */
#include "jit/ptx/parser.h"

#include <string.h>

static uint32_t hash_name(const char *s, size_t n_bytes)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n_bytes; i++)
        h = (h ^ (unsigned char)s[i]) * 16777619u;
    return h ^ h >> 15;
}

static bool grow_names(struct pl_ptx_parser *p)
{
    uint32_t n = p->n_name_slots == 0 ? 1024 : p->n_name_slots * 2;
    uint32_t *slots = pl_arena_array(p->arena, n, sizeof *slots);
    if (slots == NULL)
        return false;
    for (uint32_t i = 0; i < p->names.n; i++) {
        uint32_t at = p->names.data[i].hash & (n - 1);
        while (slots[at] != 0)
            at = (at + 1) & (n - 1);
        slots[at] = i + 1;
    }
    p->name_slots = slots;
    p->n_name_slots = n;
    return true;
}

bool pl_ptx_intern(struct pl_ptx_parser *p, const char *s, size_t n_bytes, uint32_t *name)
{
    if ((size_t)p->names.n * 2 >= p->n_name_slots && !grow_names(p))
        return false;
    uint32_t hash = hash_name(s, n_bytes);
    uint32_t at = hash & (p->n_name_slots - 1);
    for (; p->name_slots[at] != 0; at = (at + 1) & (p->n_name_slots - 1)) {
        const struct pl_ptx_name *n = &p->names.data[p->name_slots[at] - 1];
        if (n->hash == hash && n->n_bytes == n_bytes && memcmp(n->text, s, n_bytes) == 0) {
            *name = p->name_slots[at] - 1;
            return true;
        }
    }
    struct pl_ptx_name *n = pl_vec_push(p->arena, &p->names);
    char *text = pl_arena_strndup(p->arena, s, n_bytes);
    if (n == NULL || text == NULL)
        return false;
    *n = (struct pl_ptx_name){.text = text, .n_bytes = (uint32_t)n_bytes, .hash = hash};
    p->name_slots[at] = p->names.n;
    *name = p->names.n - 1;
    return true;
}

bool pl_ptx_peek_name(struct pl_ptx_parser *p, const char *what, uint32_t *name, size_t *n_bytes)
{
    *n_bytes = pl_ptx_name_length(p->s);
    return *n_bytes != 0 ? pl_ptx_intern(p, p->s, *n_bytes, name) : pl_ptx_fail_syntax(p, what);
}

bool pl_ptx_symbols_init(struct pl_ptx_parser *p)
{
    for (uint32_t i = 0; i < PL_PTX_SREG_COUNT; i++) {
        uint32_t name;
        if (!pl_ptx_intern(p, pl_ptx_sregs[i].text, strlen(pl_ptx_sregs[i].text), &name))
            return false;
        p->names.data[name].sreg = i + 1;
    }
    return true;
}

/* A new innermost meaning of a name at a depth that is not less than that of its present one. */
static struct pl_ptx_sym *push_sym(struct pl_ptx_parser *p, uint32_t name,
                                   enum pl_ptx_sym_kind kind, uint32_t depth)
{
    struct pl_ptx_sym *sym = pl_vec_push(p->arena, &p->syms);
    if (sym == NULL)
        return NULL;
    uint32_t *top =
        kind == PL_PTX_SYM_RANGE ? &p->names.data[name].range : &p->names.data[name].sym;
    *sym = (struct pl_ptx_sym){.name = name,
                               .outer = *top,
                               .next = p->scopes[depth].first_sym,
                               .scope = p->scopes[depth].id,
                               .depth = (uint16_t)depth,
                               .kind = (uint8_t)kind};
    *top = p->syms.n;
    p->scopes[depth].first_sym = p->syms.n;
    return sym;
}

struct pl_ptx_sym *pl_ptx_declare(struct pl_ptx_parser *p, uint32_t name, enum pl_ptx_sym_kind kind,
                                  const char *at)
{
    const struct pl_ptx_name *n = &p->names.data[name];
    if ((n->sym != 0 && p->syms.data[n->sym - 1].depth == p->depth) || n->sreg != 0) {
        pl_d_ptx_duplicate(&p->diags, pl_ptx_at(p, at), n->text);
        return NULL;
    }
    return push_sym(p, name, kind, p->depth);
}

struct pl_ptx_sym *pl_ptx_declare_range(struct pl_ptx_parser *p, uint32_t prefix, const char *at)
{
    const struct pl_ptx_name *n = &p->names.data[prefix];
    if (n->range != 0 && p->syms.data[n->range - 1].depth == p->depth) {
        pl_d_ptx_duplicate(&p->diags, pl_ptx_at(p, at), n->text);
        return NULL;
    }
    p->n_inner_ranges += p->depth > 1;
    return push_sym(p, prefix, PL_PTX_SYM_RANGE, p->depth);
}

/* The innermost range with this prefix that has a register of this number. */
static struct pl_ptx_sym *range_with(struct pl_ptx_parser *p, const char *prefix, uint32_t n_bytes,
                                     uint64_t number)
{
    uint32_t at = hash_name(prefix, n_bytes) & (p->n_name_slots - 1);
    for (; p->name_slots[at] != 0; at = (at + 1) & (p->n_name_slots - 1)) {
        const struct pl_ptx_name *n = &p->names.data[p->name_slots[at] - 1];
        if (n->range == 0 || n->n_bytes != n_bytes || memcmp(n->text, prefix, n_bytes) != 0)
            continue;
        for (uint32_t i = n->range; i != 0; i = p->syms.data[i - 1].outer)
            if (number < p->syms.data[i - 1].n)
                return &p->syms.data[i - 1];
    }
    return NULL;
}

/* The range of which a name would be a register. "x10" may be number 10 of x<> or number 0 of x1<>. */
static struct pl_ptx_sym *find_range(struct pl_ptx_parser *p, uint32_t name)
{
    const struct pl_ptx_name *n = &p->names.data[name];
    uint64_t power = 1, number = 0;
    struct pl_ptx_sym *found = NULL;
    for (uint32_t i = n->n_bytes; i-- > 1 && n->n_bytes - i <= 10 &&
                                  pl_ptx_chars[(unsigned char)n->text[i]] & PL_PTX_C_DIGIT;) {
        number += (uint64_t)(n->text[i] - '0') * power;
        power *= 10;
        bool has_leading_zero = n->text[i] == '0' && i + 1 < n->n_bytes;
        struct pl_ptx_sym *range = has_leading_zero ? NULL : range_with(p, n->text, i, number);
        if (range != NULL && (found == NULL || range->depth > found->depth))
            found = range;
    }
    return found;
}

uint32_t pl_ptx_add_reg(struct pl_ptx_parser *p, const char *name, enum pl_ptx_type type,
                        uint32_t scope)
{
    if (p->func->regs.n >= PL_PTX_MAX_REGS) {
        pl_d_ptx_limit(&p->diags, pl_ptx_at(p, p->s), "registers of a function", PL_PTX_MAX_REGS);
        return 0;
    }
    struct pl_ptx_reg *reg = pl_vec_push(p->arena, &p->func->regs);
    if (reg == NULL)
        return 0;
    *reg = (struct pl_ptx_reg){name, (uint8_t)type, scope};
    return p->func->regs.n;
}

struct pl_ptx_sym *pl_ptx_find(struct pl_ptx_parser *p, uint32_t name)
{
    const struct pl_ptx_name *n = &p->names.data[name];
    struct pl_ptx_sym *sym = n->sym != 0 ? &p->syms.data[n->sym - 1] : NULL;
    bool ends_in_digit = pl_ptx_chars[(unsigned char)n->text[n->n_bytes - 1]] & PL_PTX_C_DIGIT;
    if (!ends_in_digit || p->func == NULL ||
        (sym != NULL && p->n_inner_ranges == 0 && sym->depth > 0))
        return sym;
    struct pl_ptx_sym *range = find_range(p, name);
    if (range == NULL || (sym != NULL && sym->depth >= range->depth))
        return sym;
    enum pl_ptx_type type = (enum pl_ptx_type)range->type;
    uint32_t depth = range->depth;
    uint32_t reg = pl_ptx_add_reg(p, n->text, type, range->scope);
    sym = reg != 0 ? push_sym(p, name, PL_PTX_SYM_REG, depth) : NULL; /* range may have moved */
    if (sym != NULL) {
        sym->index = reg - 1;
        sym->type = (uint8_t)type;
    }
    return sym;
}

bool pl_ptx_open_scope(struct pl_ptx_parser *p, const char *at)
{
    if (p->depth + 1 >= PL_PTX_MAX_DEPTH) {
        pl_d_ptx_limit(&p->diags, pl_ptx_at(p, at), "nested braces", PL_PTX_MAX_DEPTH);
        return false;
    }
    p->depth++;
    p->scopes[p->depth] =
        (struct pl_ptx_scope){.id = p->depth == 1 ? 0 : ++p->n_blocks, .first_fixup = p->fixups.n};
    return true;
}

/* Fill what named a label of the closing scope; the others wait for the scope around it. */
static bool resolve_labels(struct pl_ptx_parser *p)
{
    uint32_t kept = p->scopes[p->depth].first_fixup;
    for (uint32_t i = kept; i < p->fixups.n; i++) {
        struct pl_ptx_fixup f = p->fixups.data[i];
        const struct pl_ptx_name *n = &p->names.data[f.name];
        const struct pl_ptx_sym *sym = n->sym != 0 ? &p->syms.data[n->sym - 1] : NULL;
        if (sym != NULL && sym->depth == p->depth && sym->kind == PL_PTX_SYM_LABEL) {
            if (f.is_target)
                p->targets.data[f.at] = sym->index;
            else
                p->m->pool.data[f.at].first = sym->index;
        } else if (p->depth > 1) {
            p->fixups.data[kept++] = f;
        } else {
            pl_d_ptx_label(&p->diags, pl_ptx_at(p, f.text), n->text, p->func->name);
            return false;
        }
    }
    p->fixups.n = kept;
    return true;
}

bool pl_ptx_close_scope(struct pl_ptx_parser *p)
{
    if (!resolve_labels(p))
        return false;
    for (uint32_t i = p->scopes[p->depth].first_sym; i != 0;) {
        const struct pl_ptx_sym *sym = &p->syms.data[i - 1];
        if (sym->kind == PL_PTX_SYM_RANGE) {
            p->names.data[sym->name].range = sym->outer;
            p->n_inner_ranges -= p->depth > 1;
        } else {
            p->names.data[sym->name].sym = sym->outer;
        }
        i = sym->next;
    }
    p->depth--;
    return true;
}
