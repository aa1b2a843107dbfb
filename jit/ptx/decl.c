/*
 * Declarations: registers, variables with initialisers, parameters. PTX ISA, "State Spaces, Types, and Variables".
 */
#include "jit/ptx/parser.h"

#include <string.h>

bool pl_ptx_read_type(struct pl_ptx_parser *p, enum pl_ptx_type *type)
{
    if (!pl_ptx_skip(p))
        return false;
    size_t n = *p->s == '.' ? pl_ptx_name_length(p->s + 1) : 0;
    for (uint32_t t = 1; n != 0 && t < PL_PTX_TYPE_COUNT; t++)
        if (strlen(pl_ptx_types[t].text) == n && memcmp(pl_ptx_types[t].text, p->s + 1, n) == 0) {
            p->s += n + 1;
            *type = (enum pl_ptx_type)t;
            return true;
        }
    return pl_ptx_fail_syntax(p, "a type");
}

/* ".v2" or ".v4" before a type; 1 where there is none. */
static uint32_t accept_vector(struct pl_ptx_parser *p)
{
    return pl_ptx_accept_word(p, ".v2")   ? 2
           : pl_ptx_accept_word(p, ".v4") ? 4
           : pl_ptx_accept_word(p, ".v8") ? 8
                                          : 1;
}

static bool read_new_name(struct pl_ptx_parser *p, const char **at, uint32_t *name)
{
    if (!pl_ptx_skip(p))
        return false;
    *at = p->s;
    size_t n = pl_ptx_name_length(p->s);
    if (n == 0 || (n == 1 && *p->s == '%'))
        return pl_ptx_fail_syntax(p, "a name");
    p->s += n;
    return pl_ptx_intern(p, *at, n, name);
}

static bool declare_reg(struct pl_ptx_parser *p, uint32_t name, const char *at,
                        enum pl_ptx_type type, uint32_t n_elems)
{
    struct pl_ptx_sym *sym =
        pl_ptx_declare(p, name, n_elems > 1 ? PL_PTX_SYM_REGVEC : PL_PTX_SYM_REG, at);
    if (sym == NULL)
        return false;
    sym->type = (uint8_t)type;
    sym->n = n_elems;
    sym->index = p->func->regs.n;
    uint32_t scope = sym->scope;
    for (uint32_t i = 0; i < n_elems; i++) {
        const char *text = p->names.data[name].text;
        if (n_elems > 1)
            text = pl_arena_printf(p->arena, "%s_%u", text, i);
        if (text == NULL || pl_ptx_add_reg(p, text, type, scope) == 0)
            return false;
    }
    return true;
}

/* .reg [.v2] .type name, name<n>, …; */
bool pl_ptx_read_reg(struct pl_ptx_parser *p)
{
    uint32_t n_elems = accept_vector(p);
    enum pl_ptx_type type;
    if (!pl_ptx_read_type(p, &type))
        return false;
    do {
        const char *at;
        uint32_t name;
        if (!read_new_name(p, &at, &name))
            return false;
        if (!pl_ptx_accept(p, '<')) {
            if (!declare_reg(p, name, at, type, n_elems))
                return false;
            continue;
        }
        struct pl_ptx_number n;
        if (!pl_ptx_skip(p) || !(pl_ptx_chars[(unsigned char)*p->s] & PL_PTX_C_DIGIT))
            return pl_ptx_fail_syntax(p, "a number of registers");
        if (!pl_ptx_read_number(p, &n))
            return false;
        if (n.is_float || n.bits > UINT32_MAX || n_elems > 1)
            return pl_ptx_fail_syntax(p, "a number of scalar registers");
        struct pl_ptx_sym *range = pl_ptx_declare_range(p, name, at);
        if (range == NULL)
            return false;
        range->type = (uint8_t)type;
        range->n = (uint32_t)n.bits;
        if (!pl_ptx_expect(p, '>'))
            return false;
    } while (pl_ptx_accept(p, ','));
    return pl_ptx_expect(p, ';');
}

/* ---- initialisers ---- */

struct init {
    uint8_t *bytes;
    uint64_t n_bytes; /* of the variable; 0: the initialiser decides */
    uint64_t cap_bytes;
    uint64_t at;
    uint64_t end; /* one past the last byte written */
    enum pl_ptx_type type;
    uint32_t elem_bytes;
    const char *name;
    PL_VEC(struct pl_ptx_reloc) relocs;
};

static bool fail_init(struct pl_ptx_parser *p, const struct init *in, const char *at,
                      const char *what)
{
    pl_d_ptx_initialiser(&p->diags, pl_ptx_at(p, at), in->name, what);
    return false;
}

static bool reserve(struct pl_ptx_parser *p, struct init *in, const char *at)
{
    uint64_t wanted = in->at + in->elem_bytes;
    if (in->n_bytes != 0 && wanted > in->n_bytes)
        return fail_init(p, in, at, "more values than elements");
    if (wanted > PL_PTX_MAX_INIT)
        return fail_init(p, in, at, "too large");
    if (wanted > in->cap_bytes) {
        uint64_t cap = in->n_bytes != 0 && in->n_bytes <= 4096 ? in->n_bytes : wanted * 2 + 64;
        uint8_t *bytes = pl_arena_alloc(p->arena, cap);
        if (bytes == NULL)
            return false;
        if (in->end != 0)
            memcpy(bytes, in->bytes, in->end);
        in->bytes = bytes;
        in->cap_bytes = cap;
    }
    in->end = wanted > in->end ? wanted : in->end;
    return true;
}

/* A name, generic(name) or mask(name), and an addend. mask: 0xff << 8 * i takes byte i of the address. */
static bool read_address(struct pl_ptx_parser *p, struct init *in, uint64_t mask)
{
    bool is_generic = pl_ptx_accept_word(p, "generic");
    if (is_generic && !pl_ptx_expect(p, '('))
        return false;
    const char *at;
    uint32_t name;
    if (!read_new_name(p, &at, &name))
        return false;
    const struct pl_ptx_sym *sym = pl_ptx_find(p, name);
    if (sym == NULL || (sym->kind != PL_PTX_SYM_VAR && sym->kind != PL_PTX_SYM_FUNC)) {
        pl_d_ptx_undefined(&p->diags, pl_ptx_at(p, at), p->names.data[name].text);
        return false;
    }
    struct pl_ptx_reloc r = {
        .offset_bytes = in->at, .is_generic = is_generic, .n_bytes = (uint8_t)in->elem_bytes};
    if (sym->kind == PL_PTX_SYM_VAR)
        r.var = sym->index + 1;
    else
        r.func = sym->index + 1;
    if (is_generic && !pl_ptx_expect(p, ')'))
        return false;
    if (!pl_ptx_skip(p))
        return false;
    if (*p->s == '+' || *p->s == '-') {
        p->s += *p->s == '+';
        if (!pl_ptx_read_int(p, &r.addend))
            return false;
    }
    if (mask != 0) {
        r.n_bytes = 1;
        while ((mask >> (8 * r.first_byte) & 0xff) == 0)
            r.first_byte++;
        if (mask >> (8 * r.first_byte) != 0xff)
            return fail_init(p, in, at, "a mask selects one whole byte");
    } else if (in->elem_bytes != 4 && in->elem_bytes != 8) {
        return fail_init(p, in, at, "an address needs 4 or 8 bytes");
    }
    struct pl_ptx_reloc *kept = pl_vec_push(p->arena, &in->relocs);
    if (kept == NULL)
        return false;
    *kept = r;
    return true;
}

static bool read_scalar(struct pl_ptx_parser *p, struct init *in)
{
    if (!pl_ptx_skip(p))
        return false;
    const char *at = p->s;
    if (!reserve(p, in, at))
        return false;
    if (pl_ptx_name_length(at) != 0 && strncmp(at, "WARP_SZ", 7) != 0) {
        if (!read_address(p, in, 0))
            return false;
    } else {
        struct pl_ptx_const c;
        uint64_t bits;
        if (!pl_ptx_read_const(p, &c))
            return false;
        if (!c.is_float && c.bits != 0 && pl_ptx_accept(p, '(')) {
            if (!read_address(p, in, c.bits) || !pl_ptx_expect(p, ')'))
                return false;
        } else if (!pl_ptx_const_as(&c, in->type, &bits)) {
            return fail_init(p, in, at, "a float for an integer element");
        } else {
            for (uint32_t i = 0; i < in->elem_bytes && i < 8; i++)
                in->bytes[in->at + i] = (uint8_t)(bits >> 8 * i);
        }
    }
    in->at += in->elem_bytes;
    return true;
}

/* Braces fill dimension by dimension: what an inner pair leaves out is zero. sizes: bytes of one element of each dimension. */
static bool read_braces(struct pl_ptx_parser *p, struct init *in, const uint64_t *sizes,
                        uint32_t n_dims, uint32_t dim)
{
    const char *at = p->s;
    if (dim >= n_dims)
        return fail_init(p, in, at, "more braces than dimensions");
    uint64_t start = in->at;
    p->s++;
    if (pl_ptx_accept(p, '}'))
        return true;
    do {
        if (!pl_ptx_skip(p))
            return false;
        if (*p->s == '}')
            break;
        if (*p->s != '{') {
            if (!read_scalar(p, in))
                return false;
            continue;
        }
        uint64_t inner = in->at;
        if (dim + 1 < n_dims && (in->at - start) % sizes[dim] != 0)
            return fail_init(p, in, p->s, "braces in the middle of a row");
        if (!read_braces(p, in, sizes, n_dims, dim + 1))
            return false;
        if (in->at > inner + sizes[dim])
            return fail_init(p, in, at, "more values than elements");
        in->at = inner + sizes[dim];
    } while (pl_ptx_accept(p, ','));
    return pl_ptx_expect(p, '}');
}

/* ---- variables ---- */

enum { MAX_DIMS = 8 };

struct decl {
    enum pl_ptx_space space;
    struct pl_ptx_linkage linkage;
    enum pl_ptx_type type;
    uint32_t n_vector, align_bytes;
    bool is_managed;
};

static uint32_t bytes_of(enum pl_ptx_type type) { return (pl_ptx_types[type].bits + 7u) / 8u; }

static bool read_align(struct pl_ptx_parser *p, uint32_t *align_bytes)
{
    int64_t n;
    const char *at = p->s;
    if (!pl_ptx_read_int(p, &n))
        return false;
    if (n < 1 || n > 1 << 20 || (n & (n - 1)) != 0) {
        p->s = at;
        return pl_ptx_fail_syntax(p, "a power of two");
    }
    *align_bytes = (uint32_t)n;
    return true;
}

/* .attribute(.managed, .unified(a, b)) */
static bool read_attribute(struct pl_ptx_parser *p, bool *is_managed)
{
    if (!pl_ptx_expect(p, '('))
        return false;
    do {
        if (pl_ptx_accept_word(p, ".managed")) {
            *is_managed = true;
        } else if (pl_ptx_accept_word(p, ".unified")) {
            if (pl_ptx_accept(p, '(') && !pl_ptx_skip_to(p, ')'))
                return false;
        } else {
            return pl_ptx_fail_syntax(p, "an attribute");
        }
    } while (pl_ptx_accept(p, ','));
    return pl_ptx_expect(p, ')');
}

/* What stands between the state space and the name, in any order. */
static bool read_decl(struct pl_ptx_parser *p, struct decl *d)
{
    d->n_vector = 1;
    for (;;) {
        bool ok = true;
        if (pl_ptx_accept_word(p, ".align"))
            ok = read_align(p, &d->align_bytes);
        else if (pl_ptx_accept_word(p, ".attribute"))
            ok = read_attribute(p, &d->is_managed);
        else
            break;
        if (!ok)
            return false;
    }
    d->n_vector = accept_vector(p);
    if (!pl_ptx_read_type(p, &d->type))
        return false;
    if (d->align_bytes == 0)
        d->align_bytes = bytes_of(d->type) * d->n_vector;
    return true;
}

/* "[4][8]": bytes of one element of each dimension in sizes, the count of the first in *n_first (0: open). */
static bool read_dims(struct pl_ptx_parser *p, uint32_t elem_bytes, uint64_t *sizes,
                      uint32_t *n_dims, uint64_t *n_first)
{
    uint64_t counts[MAX_DIMS] = {0};
    uint32_t n = 0;
    while (pl_ptx_accept(p, '[')) {
        int64_t count = 0;
        if (n == MAX_DIMS)
            return pl_ptx_fail_syntax(p, "at most 8 dimensions");
        if (!pl_ptx_accept(p, ']')) {
            const char *at = p->s;
            if (!pl_ptx_read_int(p, &count))
                return false;
            if (count < 0 || count > INT64_C(1) << 40 || (count == 0 && n != 0)) {
                p->s = at;
                return pl_ptx_fail_syntax(p, "a number of elements");
            }
            if (!pl_ptx_expect(p, ']'))
                return false;
        } else if (n != 0) {
            return pl_ptx_fail_syntax(p, "a number of elements");
        }
        counts[n++] = (uint64_t)count;
    }
    uint64_t bytes = elem_bytes;
    for (uint32_t i = n; i-- > 0;) {
        sizes[i] = bytes;
        if (i != 0 && counts[i] > (UINT64_C(1) << 44) / bytes)
            return pl_ptx_fail_syntax(p, "a smaller array");
        bytes *= i != 0 ? counts[i] : 1;
    }
    *n_dims = n;
    *n_first = n != 0 ? counts[0] : 1;
    if (n != 0 && counts[0] > (UINT64_C(1) << 44) / sizes[0])
        return pl_ptx_fail_syntax(p, "a smaller array");
    return true;
}

static bool read_initialiser(struct pl_ptx_parser *p, struct pl_ptx_var *v, const uint64_t *sizes,
                             uint32_t n_dims, uint32_t n_vector)
{
    struct init in = {.n_bytes = v->n_bytes, .type = (enum pl_ptx_type)v->type, .name = v->name};
    in.elem_bytes = bytes_of(in.type);
    uint64_t scalar_size[MAX_DIMS + 1] = {0};
    if (n_dims != 0)
        memcpy(scalar_size, sizes, n_dims * sizeof *sizes);
    if (n_vector > 1)
        scalar_size[n_dims++] = in.elem_bytes;
    if (!pl_ptx_skip(p))
        return false;
    bool ok = *p->s == '{' ? read_braces(p, &in, scalar_size, n_dims, 0) : read_scalar(p, &in);
    if (!ok)
        return false;
    if (v->n_bytes == 0)
        v->n_bytes = in.end;
    v->init = in.bytes;
    v->init_n_bytes = in.end;
    v->relocs = in.relocs.data;
    v->n_relocs = in.relocs.n;
    return true;
}

/* The variable of a module-scope name that may be declared first and defined later. */
static bool find_declared(struct pl_ptx_parser *p, uint32_t name, const struct decl *d,
                          uint32_t *index)
{
    const struct pl_ptx_name *n = &p->names.data[name];
    if (p->depth != 0 || n->sym == 0)
        return false;
    const struct pl_ptx_sym *sym = &p->syms.data[n->sym - 1];
    if (sym->kind != PL_PTX_SYM_VAR)
        return false;
    const struct pl_ptx_var *v = &p->m->vars.data[sym->index];
    if (v->space != d->space || v->type != d->type ||
        (!v->is_extern && !d->linkage.is_extern && !v->is_weak))
        return false;
    *index = sym->index;
    return true;
}

static struct pl_ptx_var *new_var(struct pl_ptx_parser *p, const struct decl *d, uint32_t name,
                                  const char *at, uint32_t *index)
{
    struct pl_ptx_var *v;
    if (find_declared(p, name, d, index)) {
        v = &p->m->vars.data[*index];
        if (d->linkage.is_extern && !v->is_extern)
            return v; /* a definition stays one */
    } else {
        struct pl_ptx_sym *sym = pl_ptx_declare(p, name, PL_PTX_SYM_VAR, at);
        v = sym != NULL ? pl_vec_push(p->arena, &p->m->vars) : NULL;
        if (v == NULL)
            return NULL;
        sym->index = *index = p->m->vars.n - 1;
    }
    *v = (struct pl_ptx_var){.name = p->names.data[name].text,
                             .space = (uint8_t)d->space,
                             .type = (uint8_t)d->type,
                             .align_bytes = d->align_bytes,
                             .is_extern = d->linkage.is_extern,
                             .is_visible = d->linkage.is_visible,
                             .is_weak = d->linkage.is_weak,
                             .is_common = d->linkage.is_common,
                             .is_managed = d->is_managed,
                             .func = p->func != NULL ? p->func_index + 1 : 0,
                             .scope = p->scopes[p->depth].id,
                             .param_offset = -1,
                             .line = p->line};
    return v;
}

static bool read_one_var(struct pl_ptx_parser *p, const struct decl *d)
{
    const char *at;
    uint32_t name, n_dims = 0, index, range = 0;
    uint64_t sizes[MAX_DIMS] = {0}, n_first = 1;
    if (!read_new_name(p, &at, &name))
        return false;
    if (pl_ptx_accept(p, '<')) { /* .param .b32 x<4>; declares x0 … x3 */
        struct pl_ptx_number n;  /* no expression: '>' would be part of it */
        if (!pl_ptx_skip(p) || !(pl_ptx_chars[(unsigned char)*p->s] & PL_PTX_C_DIGIT))
            return pl_ptx_fail_syntax(p, "a number of variables");
        if (!pl_ptx_read_number(p, &n) || !pl_ptx_expect(p, '>'))
            return false;
        if (n.is_float || n.bits < 1 || n.bits > PL_PTX_MAX_ELEMS)
            return pl_ptx_fail_syntax(p, "a smaller range");
        range = (uint32_t)n.bits;
    }
    if (!read_dims(p, bytes_of(d->type) * d->n_vector, sizes, &n_dims, &n_first))
        return false;
    for (uint32_t i = 0; i < (range != 0 ? range : 1); i++) {
        uint32_t this_name = name;
        if (range != 0) {
            const char *text = pl_arena_printf(p->arena, "%s%u", p->names.data[name].text, i);
            if (text == NULL || !pl_ptx_intern(p, text, strlen(text), &this_name))
                return false;
        }
        struct pl_ptx_var *v = new_var(p, d, this_name, at, &index);
        if (v == NULL)
            return false;
        v->n_bytes = n_dims != 0 ? n_first * sizes[0] : bytes_of(d->type) * d->n_vector;
    }
    if (!pl_ptx_accept(p, '='))
        return true;
    struct pl_ptx_var v = p->m->vars.data[index];
    if (!read_initialiser(p, &v, sizes, n_dims, d->n_vector))
        return false;
    p->m->vars.data[index] = v;
    return true;
}

bool pl_ptx_read_var(struct pl_ptx_parser *p, enum pl_ptx_space space,
                     struct pl_ptx_linkage linkage)
{
    struct decl d = {.space = space, .linkage = linkage};
    if (*p->s == '[') { /* .const[2]: the banks of old */
        p->s++;
        if (!pl_ptx_skip_to(p, ']'))
            return false;
    }
    if (!read_decl(p, &d))
        return false;
    do {
        if (!read_one_var(p, &d))
            return false;
    } while (pl_ptx_accept(p, ','));
    return pl_ptx_expect(p, ';');
}

/* ---- parameters ---- */

/* .ptr [.space] [.align n] after the type of an entry's parameter: facts for the optimiser. */
static bool skip_ptr(struct pl_ptx_parser *p)
{
    uint32_t align_bytes;
    if (!pl_ptx_accept_word(p, ".ptr"))
        return true;
    static const char *const spaces[] = {".const", ".global", ".local", ".shared"};
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++)
        if (pl_ptx_accept_word(p, spaces[i]))
            break;
    return !pl_ptx_accept_word(p, ".align") || read_align(p, &align_bytes);
}

/* One parameter; of a prototype its name is '_' and it declares nothing. */
static bool read_param(struct pl_ptx_parser *p, bool is_return, bool is_proto, uint32_t *index)
{
    bool is_reg = pl_ptx_accept_word(p, ".reg");
    if (!is_reg && !pl_ptx_accept_word(p, ".param"))
        return pl_ptx_fail_syntax(p, ".param or .reg");
    struct decl d = {.space = PL_PTX_SPACE_PARAM};
    if (!read_decl(p, &d) || !skip_ptr(p))
        return false;
    const char *at;
    uint32_t name;
    uint32_t n_dims = 0;
    uint64_t sizes[MAX_DIMS] = {0}, n_first = 1;
    if (is_proto) {
        if (!pl_ptx_skip(p))
            return false;
        p->s += pl_ptx_name_length(p->s);
        return read_dims(p, bytes_of(d.type) * d.n_vector, sizes, &n_dims, &n_first);
    }
    if (!read_new_name(p, &at, &name))
        return false;
    if (is_reg) {
        p->func->has_reg_params = true;
        *index = p->func->regs.n;
        return declare_reg(p, name, at, d.type, 1);
    }
    struct pl_ptx_var *v = new_var(p, &d, name, at, index);
    if (v == NULL || !read_dims(p, bytes_of(d.type) * d.n_vector, sizes, &n_dims, &n_first))
        return false;
    v->n_bytes = n_dims != 0 ? n_first * sizes[0] : bytes_of(d.type) * d.n_vector;
    v->is_return = is_return;
    return true;
}

/* Where each lies in the parameter block: in order, each at its alignment. */
static bool place_param(struct pl_ptx_parser *p, uint32_t index, uint64_t *at)
{
    enum { LARGEST = 1 << 20 };
    struct pl_ptx_var *v = &p->m->vars.data[index];
    *at = (*at + v->align_bytes - 1) / v->align_bytes * v->align_bytes;
    v->param_offset = (int32_t)*at;
    if (v->n_bytes > LARGEST || *at + v->n_bytes > LARGEST) {
        pl_d_ptx_limit(&p->diags, pl_ptx_at(p, p->s), "bytes of parameters", LARGEST);
        return false;
    }
    *at += v->n_bytes;
    return true;
}

bool pl_ptx_read_params(struct pl_ptx_parser *p, bool is_return, uint32_t *n,
                        const uint32_t **params)
{
    PL_VEC(uint32_t) list = {0};
    uint64_t at = 0;
    *n = 0;
    if (!pl_ptx_expect(p, '('))
        return false;
    if (!pl_ptx_accept(p, ')')) {
        do {
            uint32_t index = 0;
            uint32_t *slot = pl_vec_push(p->arena, &list);
            if (slot == NULL || !read_param(p, is_return, params == NULL, &index))
                return false;
            *slot = index;
            if (params != NULL && !p->func->has_reg_params && !place_param(p, index, &at))
                return false;
            if (list.n > PL_PTX_MAX_ELEMS) {
                pl_d_ptx_limit(&p->diags, pl_ptx_at(p, p->s), "parameters", PL_PTX_MAX_ELEMS);
                return false;
            }
        } while (pl_ptx_accept(p, ','));
        if (!pl_ptx_expect(p, ')'))
            return false;
    }
    *n = list.n;
    if (params != NULL) {
        *params = list.data;
        if (p->func->is_entry)
            p->func->param_n_bytes = (uint32_t)at;
    }
    return true;
}
