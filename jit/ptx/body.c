/*
 * Function bodies: nested blocks, local declarations, labels, instructions. PTX ISA, "Syntax: Statements".
 */
#include "jit/ptx/parser.h"

#include <string.h>

bool pl_ptx_skip_to(struct pl_ptx_parser *p, char c)
{
    while (p->s < p->end && *p->s != c) {
        if (*p->s == '"') {
            if (!pl_ptx_read_string(p))
                return false;
            continue;
        }
        p->line += *p->s == '\n';
        p->s++;
    }
    return pl_ptx_expect(p, c);
}

static bool skip_numbers(struct pl_ptx_parser *p)
{
    struct pl_ptx_number number;
    while (pl_ptx_skip(p) && pl_ptx_chars[(unsigned char)*p->s] & PL_PTX_C_DIGIT)
        if (!pl_ptx_read_number(p, &number))
            return false;
    return p->error_at == NULL;
}

/* .loc file line column [, function_name label [+ n], inlined_at file line column]; .file n "name" [, time, size]. No ';'. */
bool pl_ptx_skip_loc(struct pl_ptx_parser *p)
{
    if (!skip_numbers(p) || (*p->s == '"' && !pl_ptx_read_string(p)))
        return false;
    while (pl_ptx_accept(p, ',')) {
        if (pl_ptx_accept_word(p, "function_name")) {
            if (!pl_ptx_skip(p))
                return false;
            p->s += pl_ptx_name_length(p->s);
            if (pl_ptx_accept(p, '+') && !skip_numbers(p))
                return false;
        } else {
            pl_ptx_accept_word(p, "inlined_at");
            if (!skip_numbers(p))
                return false;
        }
    }
    return p->error_at == NULL;
}

/* name : .branchtargets a, b;   name : .calltargets f, g;   name : .callprototype (…) _ (…); */
static bool read_label_directive(struct pl_ptx_parser *p, uint32_t name, const char *at)
{
    bool is_branch = pl_ptx_accept_word(p, ".branchtargets");
    bool is_call = !is_branch && pl_ptx_accept_word(p, ".calltargets");
    bool is_proto = !is_branch && !is_call && pl_ptx_accept_word(p, ".callprototype");
    struct pl_ptx_sym *sym = pl_ptx_declare(p, name, PL_PTX_SYM_PROTO, at);
    struct pl_ptx_proto *proto = sym != NULL ? pl_vec_push(p->arena, &p->m->protos) : NULL;
    if (proto == NULL)
        return false;
    sym->index = p->m->protos.n - 1;
    proto->name = p->names.data[name].text;
    proto->func = p->func_index;
    if (is_proto) {
        uint32_t n;
        if (!pl_ptx_skip(p))
            return false;
        const char *start = p->s;
        if ((*p->s == '(' && !pl_ptx_read_params(p, true, &n, NULL)))
            return false;
        if (!pl_ptx_accept_word(p, "_"))
            return pl_ptx_fail_syntax(p, "'_'");
        if (!pl_ptx_skip(p) || (*p->s == '(' && !pl_ptx_read_params(p, false, &n, NULL)))
            return false;
        if (pl_ptx_accept_word(p, ".noreturn") && !pl_ptx_skip(p))
            return false;
        proto->text = pl_arena_strndup(p->arena, start, (size_t)(p->s - start));
        return proto->text != NULL && pl_ptx_expect(p, ';');
    }
    uint32_t first = p->targets.n;
    do {
        if (!pl_ptx_skip(p))
            return false;
        const char *target_at = p->s;
        size_t n;
        uint32_t target;
        if (!pl_ptx_peek_name(p, is_branch ? "a label" : "a function", &target, &n))
            return false;
        uint32_t *slot = pl_vec_push(p->arena, &p->targets);
        if (slot == NULL)
            return false;
        p->s += n;
        if (is_branch) {
            struct pl_ptx_fixup *f = pl_vec_push(p->arena, &p->fixups);
            if (f == NULL)
                return false;
            *f = (struct pl_ptx_fixup){
                .name = target, .is_target = true, .at = p->targets.n - 1, .text = target_at};
        } else {
            const struct pl_ptx_sym *f = pl_ptx_find(p, target);
            if (f == NULL || f->kind != PL_PTX_SYM_FUNC) {
                pl_d_ptx_undefined(&p->diags, pl_ptx_at(p, target_at), p->names.data[target].text);
                return false;
            }
            *slot = f->index;
        }
    } while (pl_ptx_accept(p, ','));
    /* the vector may still move: the list is taken out of it when the function ends */
    proto = &p->m->protos.data[p->m->protos.n - 1];
    proto->is_calls = is_call;
    proto->n_targets = p->targets.n - first;
    return pl_ptx_expect(p, ';');
}

static bool read_label(struct pl_ptx_parser *p, size_t n_bytes)
{
    const char *at = p->s;
    uint32_t name;
    if (!pl_ptx_intern(p, at, n_bytes, &name))
        return false;
    p->s += n_bytes;
    if (!pl_ptx_expect(p, ':') || !pl_ptx_skip(p))
        return false;
    if (*p->s == '.' &&
        (strncmp(p->s, ".branchtargets", 14) == 0 || strncmp(p->s, ".call", 5) == 0))
        return read_label_directive(p, name, at);
    struct pl_ptx_sym *sym = pl_ptx_declare(p, name, PL_PTX_SYM_LABEL, at);
    if (sym == NULL)
        return false;
    sym->index = p->m->ins.n;
    return true;
}

static bool read_guard(struct pl_ptx_parser *p, struct pl_ptx_ins *ins)
{
    p->s++;
    ins->guard_is_negated = pl_ptx_accept(p, '!');
    if (!pl_ptx_skip(p))
        return false;
    const char *at = p->s;
    size_t n;
    uint32_t name;
    if (!pl_ptx_peek_name(p, "a predicate register", &name, &n))
        return false;
    const struct pl_ptx_sym *sym = pl_ptx_find(p, name);
    if (sym == NULL || sym->kind != PL_PTX_SYM_REG) {
        if (p->error_at == NULL)
            pl_d_ptx_undefined(&p->diags, pl_ptx_at(p, at), p->names.data[name].text);
        return false;
    }
    if (sym->type != PL_PTX_TYPE_PRED) {
        pl_d_ptx_operand_type(&p->diags, pl_ptx_at(p, at), "@", 0, pl_ptx_types[sym->type].text,
                              "pred");
        return false;
    }
    p->s += n;
    ins->guard = sym->index + 1;
    return pl_ptx_skip(p);
}

static bool read_instruction(struct pl_ptx_parser *p)
{
    struct pl_ptx_ins ins;
    ins.guard = 0;
    ins.guard_is_negated = false;
    ins.line = p->line;
    if (*p->s == '@' && !read_guard(p, &ins))
        return false;
    const char *at = p->s;
    const struct pl_ptx_mnemonic *mn;
    if (pl_ptx_name_length(at) == 0)
        return pl_ptx_fail_syntax(p, "an instruction");
    if (!pl_ptx_read_mnemonic(p, &mn) || !pl_ptx_read_operands(p, mn, &ins, at) ||
        !pl_ptx_expect(p, ';'))
        return false;
    struct pl_ptx_ins *stored = pl_vec_push(p->arena, &p->m->ins);
    if (stored == NULL)
        return false;
    *stored = ins;
    return true;
}

static bool read_local_directive(struct pl_ptx_parser *p)
{
    const char *at = p->s;
    if (pl_ptx_accept_word(p, ".reg"))
        return pl_ptx_read_reg(p);
    if (pl_ptx_accept_word(p, ".loc"))
        return pl_ptx_skip_loc(p);
    if (pl_ptx_accept_word(p, ".pragma"))
        return pl_ptx_read_string(p) && pl_ptx_expect(p, ';');
    static const struct {
        const char *word;
        enum pl_ptx_space space;
    } spaces[] = {{".local", PL_PTX_SPACE_LOCAL},
                  {".shared", PL_PTX_SPACE_SHARED},
                  {".param", PL_PTX_SPACE_PARAM},
                  {".global", PL_PTX_SPACE_GLOBAL},
                  {".const", PL_PTX_SPACE_CONST}};
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++)
        if (pl_ptx_accept_word(p, spaces[i].word))
            return pl_ptx_read_var(p, spaces[i].space, (struct pl_ptx_linkage){0});
    size_t n = pl_ptx_name_length(at + 1);
    pl_d_ptx_directive(&p->diags, pl_ptx_at(p, at), pl_ptx_excerpt(p, at, n + 1));
    return false;
}

static bool read_statement(struct pl_ptx_parser *p)
{
    switch (*p->s) {
    case '{': p->s++; return pl_ptx_open_scope(p, p->s - 1);
    case ';': p->s++; return true;
    case '.': return read_local_directive(p);
    case '@': return read_instruction(p);
    }
    size_t n = pl_ptx_name_length(p->s);
    if (n == 0)
        return pl_ptx_fail_syntax(p, "a statement");
    const char *after = p->s + n;
    while (*after == ' ' || *after == '\t')
        after++;
    if (after[0] == ':' && after[1] != ':')
        return read_label(p, n);
    return read_instruction(p);
}

/* Target lists of the function, now that all labels are known, go to where they stay. */
static bool keep_targets(struct pl_ptx_parser *p, uint32_t first_proto)
{
    uint32_t *lists = pl_arena_array(p->arena, p->targets.n + 1, sizeof *lists);
    if (lists == NULL)
        return false;
    if (p->targets.n != 0)
        memcpy(lists, p->targets.data, p->targets.n * sizeof *lists);
    for (uint32_t i = first_proto; i < p->m->protos.n; i++) {
        p->m->protos.data[i].targets = lists;
        lists += p->m->protos.data[i].n_targets;
    }
    p->targets.n = 0;
    return true;
}

bool pl_ptx_read_body(struct pl_ptx_parser *p)
{
    uint32_t base = p->depth, first_proto = p->m->protos.n;
    for (;;) {
        if (!pl_ptx_skip(p))
            return false;
        if (*p->s != '}') {
            if (!read_statement(p))
                return false;
            continue;
        }
        p->s++;
        if (p->depth == base)
            return pl_ptx_close_scope(p) && keep_targets(p, first_proto);
        if (!pl_ptx_close_scope(p))
            return false;
    }
}
