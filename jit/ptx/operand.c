/*
 * Operands: read as they stand, then the first shape of the mnemonic that they fit is chosen, and they are finished for it
 * (float constants take its type, labels are noted). PTX ISA, "Instruction Operands".
 */
#include "jit/ptx/parser.h"

#include "base/debug.h"

#include <string.h>

enum { OP_NAME = 200 }; /* a name not declared yet: a label, or a mistake. first: the name */

struct reader {
    struct pl_ptx_parser *p;
    struct pl_ptx_operand ops[PL_PTX_MAX_OPERANDS];
    const char *at[PL_PTX_MAX_OPERANDS];
    uint8_t spec_of[PL_PTX_MAX_OPERANDS]; /* which operand of the pattern each one was taken for */
    uint32_t n;
};

static bool push(struct pl_ptx_parser *p, const struct pl_ptx_operand *op)
{
    struct pl_ptx_operand *new = pl_vec_push(p->arena, &p->m->pool);
    if (new == NULL)
        return false;
    *new = *op;
    return true;
}

/* ".x" after a vector register or special register: 0 to 3, or -1. */
static int accept_element(struct pl_ptx_parser *p)
{
    static const char letters[] = "xyzwrgba";
    if (*p->s != '.' || p->s[1] == 0)
        return -1;
    const char *at = strchr(letters, p->s[1]);
    if (at == NULL || pl_ptx_chars[(unsigned char)p->s[2]] & PL_PTX_C_NAME)
        return -1;
    p->s += 2;
    return (int)(at - letters) & 3;
}

/* ".b3120" after a register: a video selector. */
static void accept_selector(struct pl_ptx_parser *p, struct pl_ptx_operand *op)
{
    const char *s = p->s;
    if (*s != '.' || (s[1] != 'b' && s[1] != 'h'))
        return;
    unsigned digits = 0, n = 0, last = s[1] == 'b' ? '7' : '3';
    for (s += 2; *s >= '0' && (unsigned char)*s <= last && n < 4; s++, n++)
        digits = digits << 3 | (unsigned)(*s - '0');
    if (n == 0 || pl_ptx_chars[(unsigned char)*s] & PL_PTX_C_NAME)
        return;
    op->select =
        (uint16_t)(digits | n << PL_PTX_SELECT_COUNT | (p->s[1] == 'b' ? PL_PTX_SELECT_BYTES : 0u));
    p->s = s;
}

static bool read_offset(struct pl_ptx_parser *p, int64_t *offset)
{
    if (!pl_ptx_skip(p))
        return false;
    if (*p->s != '+') /* before a minus too: [d+-4] */
        return true;
    p->s++;
    return pl_ptx_read_int(p, offset);
}

static bool read_index_register(struct pl_ptx_parser *p, size_t n_bytes, struct pl_ptx_operand *op)
{
    const char *at = p->s;
    uint32_t name;
    if (!pl_ptx_intern(p, at, n_bytes, &name))
        return false;
    const struct pl_ptx_sym *sym = pl_ptx_find(p, name);
    const struct pl_ptx_type_info *t = &pl_ptx_types[sym != NULL ? sym->type : 0];
    bool is_index = sym != NULL && sym->kind == PL_PTX_SYM_REG &&
                    (t->bits == 32 || t->bits == 64) && t->class != PL_PTX_CLASS_FLOAT;
    if (!is_index)
        return pl_ptx_fail_syntax(p, "a constant index, or an integer register of 32 or 64 bits");
    p->s += n_bytes;
    op->reg = sym->index + 1;
    return true;
}

/*
 * v[i], v[r] or v[r+i], an element of an array by its number; of vectors and rows too numbers count elements of the type, as in
 * ptxas 13.0. That takes an index register of 8 or 16 bits too, whose extension nothing states. PTX ISA, Arrays as Operands.
 */
static bool read_index(struct pl_ptx_parser *p, const struct pl_ptx_var *v,
                       struct pl_ptx_operand *op)
{
    int64_t i = 0;
    p->s++;
    if (!pl_ptx_skip(p))
        return false;
    size_t n_bytes = pl_ptx_name_length(p->s);
    if (n_bytes != 0 && v->space == PL_PTX_SPACE_PARAM)
        return pl_ptx_fail_syntax(p, "a constant index");
    bool ok = n_bytes != 0 ? read_index_register(p, n_bytes, op) && read_offset(p, &i)
                           : pl_ptx_read_int(p, &i);
    if (!ok || !pl_ptx_expect(p, ']'))
        return false;
    op->offset = (int64_t)((uint64_t)i * (pl_ptx_types[v->type].bits / 8));
    op->sub = 1;
    return true;
}

static bool use_symbol(struct pl_ptx_parser *p, const struct pl_ptx_sym *sym, uint32_t name,
                       struct pl_ptx_operand *op)
{
    switch ((enum pl_ptx_sym_kind)sym->kind) {
    case PL_PTX_SYM_REG:
        op->kind = PL_PTX_OP_REG;
        op->reg = sym->index + 1;
        accept_selector(p, op);
        return true;
    case PL_PTX_SYM_REGVEC: {
        uint32_t first = sym->index, n = sym->n;
        int element = accept_element(p);
        if (element >= 0 && (uint32_t)element < n) {
            op->kind = PL_PTX_OP_REG;
            op->reg = first + (uint32_t)element + 1;
            return true;
        }
        *op = (struct pl_ptx_operand){
            .kind = PL_PTX_OP_VECTOR, .n = (uint16_t)n, .first = p->m->pool.n};
        for (uint32_t i = 0; i < n; i++)
            if (!push(p, &(struct pl_ptx_operand){.kind = PL_PTX_OP_REG, .reg = first + i + 1}))
                return false;
        return true;
    }
    case PL_PTX_SYM_VAR:
        op->kind = PL_PTX_OP_VAR;
        op->var = sym->index + 1;
        if (*p->s == '[')
            return read_index(p, &p->m->vars.data[sym->index], op);
        return read_offset(p, &op->offset);
    case PL_PTX_SYM_FUNC:
        op->kind = PL_PTX_OP_FUNC;
        op->first = sym->index;
        return true;
    case PL_PTX_SYM_PROTO:
        op->kind = PL_PTX_OP_PROTO;
        op->first = sym->index;
        return true;
    case PL_PTX_SYM_LABEL:
    case PL_PTX_SYM_RANGE: break;
    }
    op->kind = OP_NAME;
    op->first = name;
    return true;
}

/* %laneid, %tid.x, or %tid whole: a vector of four. PTX ISA, "Special Registers: %tid". */
static bool read_special(struct pl_ptx_parser *p, enum pl_ptx_sreg sreg, struct pl_ptx_operand *op)
{
    enum { N_ELEMENTS = 4 };
    struct pl_ptx_operand e = {.kind = PL_PTX_OP_SREG, .sreg = (uint16_t)sreg};
    int dim = accept_element(p);
    bool has_dims = pl_ptx_sregs[sreg].n_dims != 0;
    if (dim >= 0 && !has_dims)
        return pl_ptx_fail_syntax(p, "no element after a scalar register");
    if (dim >= 0 || !has_dims) {
        *op = e;
        op->sub = (uint8_t)(dim > 0 ? dim : 0);
        return true;
    }
    *op = (struct pl_ptx_operand){.kind = PL_PTX_OP_VECTOR, .n = N_ELEMENTS, .first = p->m->pool.n};
    for (e.sub = 0; e.sub < N_ELEMENTS; e.sub++)
        if (!push(p, &e))
            return false;
    return true;
}

static bool read_constant(struct pl_ptx_parser *p, struct pl_ptx_operand *op);

static bool read_name(struct pl_ptx_parser *p, size_t n_bytes, struct pl_ptx_operand *op)
{
    const char *at = p->s;
    if (n_bytes == 1 && *at == '_') {
        p->s++;
        op->kind = PL_PTX_OP_SINK;
        return true;
    }
    uint32_t name;
    if (!pl_ptx_intern(p, at, n_bytes, &name))
        return false;
    p->s += n_bytes;
    const struct pl_ptx_sym *sym = pl_ptx_find(p, name);
    if (p->error_at != NULL)
        return false;
    if (sym != NULL)
        return use_symbol(p, sym, name, op);
    uint32_t sreg = p->names.data[name].sreg;
    if (sreg == 0) {
        op->kind = OP_NAME;
        op->first = name;
        return true;
    }
    if (sreg - 1 == PL_PTX_SREG_warp_sz) {
        p->s = at;
        return read_constant(p, op);
    }
    return read_special(p, (enum pl_ptx_sreg)(sreg - 1), op);
}

static bool fail_undefined(struct pl_ptx_parser *p, uint32_t name, const char *at)
{
    pl_d_ptx_undefined(&p->diags, pl_ptx_at(p, at), p->names.data[name].text);
    return false;
}

static bool read_element(struct pl_ptx_parser *p, struct pl_ptx_operand *op);

/* {a, b, …}: the elements go to the pool as they come. */
static bool read_vector(struct pl_ptx_parser *p, char close, struct pl_ptx_operand *op)
{
    *op = (struct pl_ptx_operand){.kind = PL_PTX_OP_VECTOR, .first = p->m->pool.n};
    p->s++;
    if (pl_ptx_accept(p, close))
        return true;
    uint32_t n = 0;
    do {
        struct pl_ptx_operand e = {0};
        if (++n > PL_PTX_MAX_ELEMS) {
            pl_d_ptx_limit(&p->diags, pl_ptx_at(p, p->s), "elements of a list", PL_PTX_MAX_ELEMS);
            return false;
        }
        if (!read_element(p, &e) || !push(p, &e))
            return false;
    } while (pl_ptx_accept(p, ','));
    op->n = (uint16_t)n;
    return pl_ptx_expect(p, close);
}

static bool read_constant(struct pl_ptx_parser *p, struct pl_ptx_operand *op)
{
    struct pl_ptx_const c;
    if (!pl_ptx_read_const(p, &c))
        return false;
    *op = (struct pl_ptx_operand){
        .kind = PL_PTX_OP_IMM, .is_float = c.is_float, .sub = c.float_bytes, .imm = c.bits};
    return true;
}

/* A register, name, constant or sink. */
static bool read_element(struct pl_ptx_parser *p, struct pl_ptx_operand *op)
{
    if (!pl_ptx_skip(p))
        return false;
    const char *at = p->s;
    size_t n = pl_ptx_name_length(at);
    if (n == 0)
        return read_constant(p, op);
    if (!read_name(p, n, op))
        return false;
    if (op->kind == OP_NAME)
        return fail_undefined(p, op->first, at);
    if (op->kind == PL_PTX_OP_VECTOR || op->select != 0) {
        p->s = at;
        return pl_ptx_fail_syntax(p, op->select != 0 ? "no selector here"
                                                     : "one element, not a vector");
    }
    return true;
}

/* [base + offset], or [map, {…}] and other bracketed lists: the items lie together behind what they point to. */
static bool read_bracket(struct pl_ptx_parser *p, struct pl_ptx_operand *op)
{
    enum { MAX_ITEMS = 4 };
    struct pl_ptx_operand items[MAX_ITEMS] = {{0}};
    uint32_t n = 0;
    p->s++;
    do {
        if (n == MAX_ITEMS || !pl_ptx_skip(p))
            return n == MAX_ITEMS ? pl_ptx_fail_syntax(p, "']'") : false;
        struct pl_ptx_operand *item = &items[n++];
        const char *at = p->s;
        if (*at == '{') {
            if (!read_vector(p, '}', item))
                return false;
            continue;
        }
        size_t n_name = pl_ptx_name_length(at);
        if (n_name == 0) {
            item->kind = PL_PTX_OP_ADDR;
            if (!pl_ptx_read_int(p, &item->offset))
                return false;
            continue;
        }
        if (!read_name(p, n_name, item))
            return false;
        if (item->kind == OP_NAME)
            return fail_undefined(p, item->first, at);
        bool is_part = item->select != 0 || (item->kind == PL_PTX_OP_VAR && item->sub != 0);
        if ((item->kind != PL_PTX_OP_REG && item->kind != PL_PTX_OP_VAR) || is_part) {
            p->s = at;
            return pl_ptx_fail_syntax(p, "a register or variable as address");
        }
        item->kind = PL_PTX_OP_ADDR;
        if (item->var == 0 && !read_offset(p, &item->offset))
            return false;
    } while (pl_ptx_accept(p, ','));
    if (!pl_ptx_expect(p, ']'))
        return false;
    if (n == 1 && items[0].kind == PL_PTX_OP_ADDR) {
        *op = items[0];
        op->is_unified = pl_ptx_accept_word(p, ".unified");
        return true;
    }
    *op =
        (struct pl_ptx_operand){.kind = PL_PTX_OP_TENSOR, .first = p->m->pool.n, .n = (uint16_t)n};
    for (uint32_t i = 0; i < n; i++)
        if (!push(p, &items[i]))
            return false;
    return true;
}

/* What follows a first name: "d|p". */
static bool read_second(struct pl_ptx_parser *p, struct pl_ptx_operand *op)
{
    struct pl_ptx_operand first = *op, second = {0};
    p->s++;
    if (!read_element(p, &second))
        return false;
    *op = (struct pl_ptx_operand){.kind = PL_PTX_OP_PAIR, .first = p->m->pool.n, .n = 2};
    return push(p, &first) && push(p, &second);
}

/* Is there a register behind the minus? Names of constants belong to the expression. */
static bool is_register_next(struct pl_ptx_parser *p)
{
    uint32_t name;
    size_t n = pl_ptx_name_length(p->s + 1);
    if (n == 0 || !pl_ptx_intern(p, p->s + 1, n, &name))
        return false;
    const struct pl_ptx_sym *sym = pl_ptx_find(p, name);
    return sym != NULL && sym->kind == PL_PTX_SYM_REG;
}

static bool read_minus(struct pl_ptx_parser *p, struct pl_ptx_operand *op)
{
    p->s++;
    if (!read_name(p, pl_ptx_name_length(p->s), op))
        return false;
    op->is_minus = true;
    return pl_ptx_skip(p);
}

static bool read_operand(struct pl_ptx_parser *p, struct pl_ptx_operand *op)
{
    *op = (struct pl_ptx_operand){0};
    if (!pl_ptx_skip(p))
        return false;
    if (*p->s == '[')
        return read_bracket(p, op);
    if (*p->s == '{')
        return read_vector(p, '}', op);
    bool is_negated = false;
    if (*p->s == '!') {
        is_negated = true;
        p->s++;
        if (!pl_ptx_skip(p))
            return false;
    }
    size_t n = pl_ptx_name_length(p->s);
    if (n == 0 && !is_negated && *p->s == '-' && is_register_next(p))
        return read_minus(p, op);
    if (n == 0) {
        if (is_negated)
            return pl_ptx_fail_syntax(p, "a predicate");
        return read_constant(p, op);
    }
    if (!read_name(p, n, op))
        return false;
    op->is_negated = is_negated;
    if (*p->s == '|' || (pl_ptx_skip(p) && *p->s == '|'))
        return read_second(p, op);
    return p->error_at == NULL;
}

/* ---- does an operand fit? ---- */

static unsigned register_bits(enum pl_ptx_type type)
{
    unsigned bits = pl_ptx_types[type].bits;
    return bits > 1 && bits < 16 && pl_ptx_types[type].class == PL_PTX_CLASS_FLOAT ? 16 : bits;
}

/* PTX ISA, "Operand Type Checking Rules": bits go with anything of their size, integers with integers, floats with floats. */
static bool register_fits(enum pl_ptx_type reg, enum pl_ptx_type want, bool is_wide_ok)
{
    const struct pl_ptx_type_info *r = &pl_ptx_types[reg], *w = &pl_ptx_types[want];
    if (want == PL_PTX_TYPE_NONE)
        return (r->bits == 32 || r->bits == 64) && r->class != PL_PTX_CLASS_FLOAT;
    if ((r->class == PL_PTX_CLASS_PRED) != (w->class == PL_PTX_CLASS_PRED))
        return false;
    unsigned bits = register_bits(want);
    if (r->bits != bits && !(is_wide_ok && r->bits > bits && r->class != PL_PTX_CLASS_FLOAT))
        return false;
    if (r->class == PL_PTX_CLASS_BITS || w->class == PL_PTX_CLASS_BITS || reg == want)
        return true;
    bool is_int = r->class == PL_PTX_CLASS_UINT || r->class == PL_PTX_CLASS_SINT;
    if (w->class == PL_PTX_CLASS_UINT || w->class == PL_PTX_CLASS_SINT)
        return is_int;
    if (want == PL_PTX_TYPE_U16X2 || want == PL_PTX_TYPE_S16X2)
        return is_int;
    return false;
}

enum fit { FITS, WRONG_KIND, WRONG_TYPE };

/* PTX ISA, "Video Instructions": a part of one operand, or as many parts of two as the instruction computes. */
static bool select_fits(uint16_t select, const struct pl_ptx_spec *spec)
{
    unsigned n = pl_ptx_select_count(select), n_parts = spec->is_in_halves ? 2 : 4;
    bool is_bytes = (select & PL_PTX_SELECT_BYTES) != 0;
    switch ((enum pl_ptx_select)spec->select) {
    case PL_PTX_SELECT_NONE: return false;
    case PL_PTX_SELECT_PART: return n == 1 && pl_ptx_select_digit(select, 0) < (is_bytes ? 4u : 2u);
    case PL_PTX_SELECT_PARTS: return is_bytes != spec->is_in_halves && n == n_parts;
    case PL_PTX_SELECT_MASK: break;
    }
    for (unsigned i = 0; i < n; i++)
        if (pl_ptx_select_digit(select, i) >= n_parts ||
            (i > 0 && pl_ptx_select_digit(select, i) <= pl_ptx_select_digit(select, i - 1)))
            return false;
    return is_bytes != spec->is_in_halves;
}

static enum fit register_fit(const struct pl_ptx_parser *p, const struct pl_ptx_operand *op,
                             const struct pl_ptx_spec *spec)
{
    enum pl_ptx_type reg = (enum pl_ptx_type)p->func->regs.data[op->reg - 1].type;
    if (op->is_negated || (op->is_minus && !spec->is_minus_ok) ||
        (op->select != 0 && !select_fits(op->select, spec)))
        return WRONG_KIND;
    return register_fits(reg, (enum pl_ptx_type)spec->type, spec->is_wide_ok) ? FITS : WRONG_TYPE;
}

static enum fit constant_fit(const struct pl_ptx_operand *op, const struct pl_ptx_spec *spec)
{
    struct pl_ptx_const c = {op->is_float, op->sub, false, op->imm};
    const struct pl_ptx_type_info *t = &pl_ptx_types[spec->type];
    uint64_t bits;
    if (!op->is_float && t->class == PL_PTX_CLASS_FLOAT)
        return WRONG_TYPE;
    return pl_ptx_const_as(&c, (enum pl_ptx_type)spec->type, &bits) ? FITS : WRONG_TYPE;
}

/* What PTX 1 declared with 16 bits, and %gridid with 32; mov still takes the narrower type. PTX ISA, "Special Registers". */
static bool has_short_form(unsigned sreg)
{
    return sreg == PL_PTX_SREG_tid || sreg == PL_PTX_SREG_ntid || sreg == PL_PTX_SREG_ctaid ||
           sreg == PL_PTX_SREG_nctaid || sreg == PL_PTX_SREG_gridid;
}

static enum fit special_fit(const struct pl_ptx_operand *op, const struct pl_ptx_spec *spec)
{
    if (!spec->is_special_ok)
        return WRONG_KIND;
    unsigned bits = pl_ptx_types[pl_ptx_sregs[op->sreg].type].bits,
             want = pl_ptx_types[spec->type].bits;
    bool is_int = pl_ptx_types[spec->type].class != PL_PTX_CLASS_FLOAT;
    bool is_shorter = want < bits && want >= 16 && (spec->is_wide_ok || has_short_form(op->sreg));
    return is_int && (bits == want || is_shorter) ? FITS : WRONG_TYPE;
}

/* A source: register, constant, special register; an address only where the pattern says so. */
static enum fit source_fit(const struct pl_ptx_parser *p, const struct pl_ptx_operand *op,
                           const struct pl_ptx_spec *spec)
{
    switch (op->kind) {
    case PL_PTX_OP_REG: return register_fit(p, op, spec);
    case PL_PTX_OP_IMM: return spec->want == PL_PTX_WANT_REG ? WRONG_KIND : constant_fit(op, spec);
    case PL_PTX_OP_SREG: return spec->want == PL_PTX_WANT_REG ? WRONG_KIND : special_fit(op, spec);
    case PL_PTX_OP_VAR:
    case PL_PTX_OP_FUNC: {
        const struct pl_ptx_type_info *t = &pl_ptx_types[spec->type];
        if (spec->want != PL_PTX_WANT_ANYSRC)
            return WRONG_KIND;
        return (t->bits == 32 || t->bits == 64) && t->class != PL_PTX_CLASS_FLOAT ? FITS
                                                                                  : WRONG_TYPE;
    }
    }
    return WRONG_KIND;
}

static enum fit predicate_fit(const struct pl_ptx_parser *p, const struct pl_ptx_operand *op,
                              bool is_dest)
{
    if (op->kind == PL_PTX_OP_IMM)
        return is_dest || op->is_float ? WRONG_KIND
                                       : FITS; /* any integer: nvcc writes -1 for true */
    if (op->kind == PL_PTX_OP_SREG)
        return !is_dest && pl_ptx_sregs[op->sreg].type == PL_PTX_TYPE_PRED ? FITS : WRONG_KIND;
    if (op->kind != PL_PTX_OP_REG || (is_dest && op->is_negated) || op->is_minus || op->select != 0)
        return WRONG_KIND;
    return p->func->regs.data[op->reg - 1].type == PL_PTX_TYPE_PRED ? FITS : WRONG_TYPE;
}

static enum fit vector_fit(const struct pl_ptx_parser *p, const struct pl_ptx_operand *op,
                           const struct pl_ptx_spec *spec)
{
    if (op->kind != PL_PTX_OP_VECTOR || op->n != spec->n)
        return WRONG_KIND;
    struct pl_ptx_spec element = *spec;
    element.want = spec->want == PL_PTX_WANT_SVEC || spec->want == PL_PTX_WANT_SELECT
                       ? PL_PTX_WANT_SRC
                       : PL_PTX_WANT_REG;
    for (uint32_t i = 0; i < op->n; i++) {
        const struct pl_ptx_operand *e = &p->m->pool.data[op->first + i];
        if (e->kind == PL_PTX_OP_SINK && spec->want == PL_PTX_WANT_DVEC)
            continue;
        enum fit fit = source_fit(p, e, &element);
        if (fit != FITS)
            return fit;
    }
    return FITS;
}

/* mov.b64 d, {a, b}: elements of equal size that fill the type together. */
static enum fit pack_fit(const struct pl_ptx_parser *p, const struct pl_ptx_operand *op,
                         const struct pl_ptx_spec *spec)
{
    bool is_dest = spec->want == PL_PTX_WANT_UNPACK;
    unsigned bits = pl_ptx_types[spec->type].bits;
    if (op->kind != PL_PTX_OP_VECTOR || (op->n != 2 && op->n != 4))
        return WRONG_KIND;
    unsigned element_bits = bits / op->n;
    for (uint32_t i = 0; i < op->n; i++) {
        const struct pl_ptx_operand *e = &p->m->pool.data[op->first + i];
        if ((is_dest && e->kind == PL_PTX_OP_SINK) || (!is_dest && e->kind == PL_PTX_OP_IMM))
            continue;
        if (e->kind != PL_PTX_OP_REG)
            return WRONG_KIND;
        const struct pl_ptx_type_info *t = &pl_ptx_types[p->func->regs.data[e->reg - 1].type];
        if (t->bits != element_bits || t->class == PL_PTX_CLASS_PRED)
            return WRONG_TYPE;
    }
    return FITS;
}

static enum fit tensor_fit(const struct pl_ptx_parser *p, const struct pl_ptx_operand *op,
                           const struct pl_ptx_spec *spec)
{
    if (op->kind != PL_PTX_OP_TENSOR || op->n != 2 ||
        p->m->pool.data[op->first].kind != PL_PTX_OP_ADDR)
        return WRONG_KIND;
    struct pl_ptx_spec coordinates = {
        .want = PL_PTX_WANT_SVEC, .type = PL_PTX_TYPE_S32, .n = spec->n};
    return vector_fit(p, &p->m->pool.data[op->first + 1], &coordinates);
}

static enum fit address_fit(const struct pl_ptx_parser *p, const struct pl_ptx_operand *op,
                            const struct pl_ptx_spec *spec)
{
    bool is_element = spec->is_element_ok && op->kind == PL_PTX_OP_VAR && op->sub == 1;
    if (op->kind != PL_PTX_OP_ADDR && !is_element)
        return WRONG_KIND;
    if (op->reg == 0)
        return FITS;
    enum pl_ptx_type reg = (enum pl_ptx_type)p->func->regs.data[op->reg - 1].type;
    return register_fits(reg, PL_PTX_TYPE_NONE, false) ? FITS : WRONG_TYPE;
}

/* {x} where x will do: the element. */
static const struct pl_ptx_operand *unbraced(const struct pl_ptx_parser *p,
                                             const struct pl_ptx_operand *op,
                                             const struct pl_ptx_spec *spec)
{
    bool is_one = spec->is_braced_ok && op->kind == PL_PTX_OP_VECTOR && op->n == 1;
    return is_one ? &p->m->pool.data[op->first] : op;
}

static enum fit operand_fit(const struct pl_ptx_parser *p, const struct pl_ptx_operand *op,
                            const struct pl_ptx_spec *spec)
{
    struct pl_ptx_spec typed = *spec;
    op = unbraced(p, op, spec);
    switch ((enum pl_ptx_want)spec->want) {
    case PL_PTX_WANT_DST:
        if (op->kind == PL_PTX_OP_SINK)
            return spec->has_sink ? FITS : WRONG_KIND;
        if (spec->is_sink_only)
            return WRONG_KIND;
        return op->kind == PL_PTX_OP_REG ? register_fit(p, op, spec) : WRONG_KIND;
    case PL_PTX_WANT_SRC:
    case PL_PTX_WANT_REG:
    case PL_PTX_WANT_ANYSRC: return source_fit(p, op, spec);
    case PL_PTX_WANT_DPRED:
        if (op->kind == PL_PTX_OP_SINK)
            return spec->has_sink ? FITS : WRONG_KIND;
        return predicate_fit(p, op, true);
    case PL_PTX_WANT_SPRED: return predicate_fit(p, op, false);
    case PL_PTX_WANT_PRED_REG:
        return op->kind == PL_PTX_OP_REG ? predicate_fit(p, op, false) : WRONG_KIND;
    case PL_PTX_WANT_INT: return op->kind == PL_PTX_OP_IMM && !op->is_float ? FITS : WRONG_KIND;
    case PL_PTX_WANT_ADDR: return address_fit(p, op, spec);
    case PL_PTX_WANT_REG_ADDR:
        typed.want = PL_PTX_WANT_REG;
        return op->kind == PL_PTX_OP_ADDR ? address_fit(p, op, spec) : source_fit(p, op, &typed);
    case PL_PTX_WANT_DVEC:
    case PL_PTX_WANT_SVEC: return vector_fit(p, op, spec);
    case PL_PTX_WANT_SELECT:
        typed.type = PL_PTX_TYPE_U16;
        typed.n = 2;
        return vector_fit(p, op, &typed);
    case PL_PTX_WANT_LANES: typed.type = PL_PTX_TYPE_B32; return vector_fit(p, op, &typed);
    case PL_PTX_WANT_UNPACK:
    case PL_PTX_WANT_PACK: return pack_fit(p, op, spec);
    case PL_PTX_WANT_TENSOR: return tensor_fit(p, op, spec);
    case PL_PTX_WANT_OFFSETS:
        typed.type = PL_PTX_TYPE_U16;
        typed.want = PL_PTX_WANT_SVEC;
        return vector_fit(p, op, &typed);
    case PL_PTX_WANT_LABEL: return op->kind == OP_NAME ? FITS : WRONG_KIND;
    case PL_PTX_WANT_LABELS: return op->kind == PL_PTX_OP_PROTO ? FITS : WRONG_KIND;
    case PL_PTX_WANT_ALL: return op->kind != OP_NAME ? FITS : WRONG_KIND;
    case PL_PTX_WANT_CALL: break;
    }
    return WRONG_KIND;
}

static enum fit pair_fit(const struct pl_ptx_parser *p, const struct pl_ptx_operand *op,
                         const struct pl_ptx_spec *spec)
{
    if (spec->pair == 0 || op->kind != PL_PTX_OP_PAIR)
        return spec->pair == 2 ? WRONG_KIND : operand_fit(p, op, spec);
    const struct pl_ptx_spec second = {.want = PL_PTX_WANT_DPRED, .has_sink = true};
    enum fit fit = operand_fit(p, &p->m->pool.data[op->first], spec);
    return fit != FITS ? fit : operand_fit(p, &p->m->pool.data[op->first + 1], &second);
}

/* ---- choosing a shape ---- */

struct misfit {
    uint32_t operand; /* index of the first that did not fit; n where one is missing */
    enum fit fit;
    struct pl_ptx_spec spec;
};

static uint32_t required_from(const struct pl_ptx_shape *shape, uint32_t i)
{
    uint32_t n = 0;
    for (; i < shape->n_specs; i++)
        n += !shape->specs[i].is_optional;
    return n;
}

static bool fits_shape(struct reader *r, const struct pl_ptx_shape *shape, struct misfit *misfit)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < shape->n_specs; i++) {
        const struct pl_ptx_spec *spec = &shape->specs[i];
        if (spec->want == PL_PTX_WANT_ALL) {
            for (; at < r->n; at++)
                if (operand_fit(r->p, &r->ops[at], spec) != FITS)
                    break;
                else
                    r->spec_of[at] = (uint8_t)i;
            break;
        }
        if (spec->is_optional && r->n - at <= required_from(shape, i + 1))
            continue;
        enum fit fit = at < r->n ? pair_fit(r->p, &r->ops[at], spec) : WRONG_KIND;
        if (fit == FITS) {
            r->spec_of[at++] = (uint8_t)i;
        } else if (!spec->is_optional || at >= r->n) {
            *misfit = (struct misfit){at, fit, *spec};
            return false;
        }
    }
    *misfit = (struct misfit){.operand = at, .fit = WRONG_KIND, .spec = {.want = PL_PTX_WANT_CALL}};
    return at == r->n;
}

/* For the assertion that rows do not overlap: no shape but the chosen one fits. */
__attribute__((unused)) static bool is_only_fit(struct reader *r, const struct pl_ptx_shape *shapes,
                                                uint32_t n, const struct pl_ptx_shape *chosen)
{
    struct reader other = *r;
    struct misfit misfit;
    for (uint32_t i = 0; i < n; i++)
        if (&shapes[i] != chosen && fits_shape(&other, &shapes[i], &misfit))
            return false;
    return true;
}

static const char *describe(struct pl_ptx_parser *p, const struct pl_ptx_spec *spec)
{
    static const char *const names[] = {
        [PL_PTX_WANT_DST] = "a destination register",
        [PL_PTX_WANT_SRC] = "a register or constant",
        [PL_PTX_WANT_REG] = "a register",
        [PL_PTX_WANT_ANYSRC] = "a register, constant or address",
        [PL_PTX_WANT_DPRED] = "a predicate register",
        [PL_PTX_WANT_SPRED] = "a predicate",
        [PL_PTX_WANT_PRED_REG] = "a predicate register",
        [PL_PTX_WANT_INT] = "an integer constant",
        [PL_PTX_WANT_ADDR] = "an address in brackets",
        [PL_PTX_WANT_REG_ADDR] = "a register, or an address in brackets",
        [PL_PTX_WANT_DVEC] = "registers in braces",
        [PL_PTX_WANT_SVEC] = "registers in braces",
        [PL_PTX_WANT_SELECT] = "{byte id, thread id}",
        [PL_PTX_WANT_LANES] = "a lane mask in braces",
        [PL_PTX_WANT_UNPACK] = "2 or 4 registers in braces",
        [PL_PTX_WANT_PACK] = "2 or 4 registers in braces",
        [PL_PTX_WANT_TENSOR] = "[tensor map, {coordinates}]",
        [PL_PTX_WANT_OFFSETS] = "im2col offsets in braces",
        [PL_PTX_WANT_LABEL] = "a label",
        [PL_PTX_WANT_LABELS] = "the name of a .branchtargets list",
        [PL_PTX_WANT_CALL] = "no more operands",
        [PL_PTX_WANT_ALL] = "a declared name",
    };
    switch ((enum pl_ptx_select)spec->select) {
    case PL_PTX_SELECT_NONE: break;
    case PL_PTX_SELECT_PART:
        return "a register, with .b0 to .b3, .h0 or .h1 where a part of it is meant";
    case PL_PTX_SELECT_PARTS:
        return spec->is_in_halves ? "a register, with .hxy of 0 to 3 or without"
                                  : "a register, with .bwxyz of 0 to 7 or without";
    case PL_PTX_SELECT_MASK:
        return spec->is_in_halves
                   ? "a register, with .h0, .h1, .h10 or without"
                   : "a register, with a mask .b0 to .b3210 in descending order or without";
    }
    if (spec->n > 0 && (spec->want == PL_PTX_WANT_DVEC || spec->want == PL_PTX_WANT_SVEC)) {
        const char *text = pl_arena_printf(p->arena, "%u registers in braces", spec->n);
        return text != NULL ? text : "";
    }
    return names[spec->want];
}

static const char *type_of(const struct pl_ptx_parser *p, const struct pl_ptx_operand *op)
{
    switch (op->kind) {
    case PL_PTX_OP_REG:
    case PL_PTX_OP_ADDR:
        if (op->reg != 0)
            return pl_ptx_types[p->func->regs.data[op->reg - 1].type].text;
        break;
    case PL_PTX_OP_SREG: return pl_ptx_types[pl_ptx_sregs[op->sreg].type].text;
    case PL_PTX_OP_IMM: return op->is_float ? "f64 (a constant)" : "s64 (a constant)";
    case PL_PTX_OP_VECTOR:
    case PL_PTX_OP_PAIR:
        if (op->n > 0)
            return type_of(p, &p->m->pool.data[op->first]);
        break;
    }
    return "b64";
}

static bool fail_misfit(struct reader *r, const struct pl_ptx_mnemonic *mn,
                        const struct misfit *misfit, const char *at)
{
    struct pl_ptx_parser *p = r->p;
    for (uint32_t i = 0; i < r->n; i++)
        if (r->ops[i].kind == OP_NAME && misfit->spec.want != PL_PTX_WANT_LABEL)
            return fail_undefined(p, r->ops[i].first, r->at[i]);
    if (misfit->operand < r->n)
        at = r->at[misfit->operand];
    const char *text = pl_ptx_excerpt(p, mn->text, mn->n_bytes);
    int number = (int)misfit->operand + 1;
    if (misfit->fit == WRONG_TYPE && misfit->operand < r->n) {
        const char *wanted =
            misfit->spec.type != 0 ? pl_ptx_types[misfit->spec.type].text : "an address";
        if (misfit->spec.want == PL_PTX_WANT_DPRED || misfit->spec.want == PL_PTX_WANT_SPRED ||
            misfit->spec.want == PL_PTX_WANT_PRED_REG)
            wanted = "pred";
        pl_d_ptx_operand_type(&p->diags, pl_ptx_at(p, at), text, number,
                              type_of(p, &r->ops[misfit->operand]), wanted);
    } else {
        pl_d_ptx_operands(&p->diags, pl_ptx_at(p, at), text, number, describe(p, &misfit->spec));
    }
    return false;
}

/* ---- finishing ---- */

/* A float constant takes the type that the instruction gives it. */
static void finish_constant(struct pl_ptx_operand *op, enum pl_ptx_type type)
{
    if (op->kind != PL_PTX_OP_IMM || !op->is_float)
        return;
    struct pl_ptx_const c = {true, op->sub, false, op->imm};
    uint64_t bits;
    if (pl_ptx_const_as(&c, type, &bits)) {
        op->imm = bits;
        op->sub = pl_ptx_types[type].bits == 32 ? 4 : 8;
    }
}

static void finish_operand(struct pl_ptx_parser *p, struct pl_ptx_operand *op,
                           const struct pl_ptx_spec *spec)
{
    if (op->kind == PL_PTX_OP_VECTOR)
        for (uint32_t i = 0; i < op->n; i++)
            finish_constant(&p->m->pool.data[op->first + i], (enum pl_ptx_type)spec->type);
    finish_constant(op, (enum pl_ptx_type)spec->type);
}

static bool note_label(struct pl_ptx_parser *p, struct pl_ptx_operand *op, uint32_t pool_index,
                       const char *at)
{
    struct pl_ptx_fixup *f = pl_vec_push(p->arena, &p->fixups);
    if (f == NULL)
        return false;
    *f = (struct pl_ptx_fixup){.name = op->first, .at = pool_index, .text = at};
    *op = (struct pl_ptx_operand){.kind = PL_PTX_OP_LABEL};
    return true;
}

/* The operands of the chosen shape go to the pool, in a row. */
static bool store_operands(struct reader *r, const struct pl_ptx_shape *shape,
                           struct pl_ptx_ins *ins)
{
    struct pl_ptx_parser *p = r->p;
    if (shape->text != 0) {
        struct pl_ptx_operand text = {.kind = PL_PTX_OP_TEXT, .first = shape->text - 1};
        if (!push(p, &text))
            return false;
        ins->operands = p->m->pool.n - 1;
        ins->n_operands = 1;
    } else {
        ins->operands = p->m->pool.n;
    }
    for (uint32_t i = 0; i < r->n; i++) {
        r->ops[i] = *unbraced(p, &r->ops[i], &shape->specs[r->spec_of[i]]);
        finish_operand(p, &r->ops[i], &shape->specs[r->spec_of[i]]);
        if (r->ops[i].kind == PL_PTX_OP_VAR &&
            r->ops[i].sub != 0) { /* v[i] is v+bytes from here on */
            bool is_address = shape->specs[r->spec_of[i]].want == PL_PTX_WANT_ADDR;
            r->ops[i].kind = is_address ? PL_PTX_OP_ADDR : PL_PTX_OP_VAR;
            r->ops[i].sub = 0;
        }
        if (r->ops[i].kind == OP_NAME && !note_label(p, &r->ops[i], p->m->pool.n, r->at[i]))
            return false;
        if (!push(p, &r->ops[i]))
            return false;
        ins->n_operands++;
    }
    return true;
}

/* vmad negates the product or c, not both. PTX ISA, "Video Instructions: vmad". */
static bool check_minus(struct reader *r, const struct pl_ptx_mnemonic *mn,
                        const struct pl_ptx_shape *chosen)
{
    if (chosen->ins.form != PL_PTX_vmad || r->ops[1].is_minus == r->ops[2].is_minus ||
        !r->ops[3].is_minus)
        return true;
    pl_d_ptx_operands(&r->p->diags, pl_ptx_at(r->p, r->at[3]),
                      pl_ptx_excerpt(r->p, mn->text, mn->n_bytes), 4,
                      "no minus beside one of the product");
    return false;
}

/* ---- calls ---- */

static bool check_list(struct pl_ptx_parser *p, const struct pl_ptx_func *f, const char *what,
                       uint32_t wanted, uint32_t seen, const char *at)
{
    if (wanted == seen)
        return true;
    pl_d_ptx_call(&p->diags, pl_ptx_at(p, at), f->name, what, wanted, seen);
    return false;
}

/* (returns), target, (arguments), prototype: every part but the target may be absent; all four operands are made. */
static bool read_call(struct reader *r, const char *at)
{
    struct pl_ptx_parser *p = r->p;
    struct pl_ptx_operand *ops = r->ops;
    memset(ops, 0, 4 * sizeof *ops);
    ops[0].kind = ops[2].kind = PL_PTX_OP_VECTOR;
    r->n = 3;
    if (!pl_ptx_skip(p))
        return false;
    if (*p->s == '(' && !(read_vector(p, ')', &ops[0]) && pl_ptx_expect(p, ',')))
        return false;
    if (!read_element(p, &ops[1]))
        return false;
    if (ops[1].kind != PL_PTX_OP_FUNC && ops[1].kind != PL_PTX_OP_REG) {
        p->s = at;
        return pl_ptx_fail_syntax(p, "a function or register to call");
    }
    if (pl_ptx_accept(p, ',')) {
        if (!pl_ptx_skip(p))
            return false;
        bool has_list = *p->s == '(';
        if (has_list && !read_vector(p, ')', &ops[2]))
            return false;
        if (!has_list || pl_ptx_accept(p, ',')) {
            if (!read_element(p, &ops[3]))
                return false;
            if (ops[3].kind != PL_PTX_OP_PROTO)
                return pl_ptx_fail_syntax(p, "a call prototype or target list");
            r->n = 4;
        }
    }
    if (ops[1].kind != PL_PTX_OP_FUNC)
        return true;
    const struct pl_ptx_func *f = &p->m->funcs.data[ops[1].first];
    bool is_variadic = f->n_params > 0 && !f->has_reg_params &&
                       p->m->vars.data[f->params[f->n_params - 1]].n_bytes == 0;
    return check_list(p, f, "returned values", f->n_returns, ops[0].n, at) &&
           (is_variadic || check_list(p, f, "arguments", f->n_params, ops[2].n, at));
}

static bool read_list(struct reader *r, const struct pl_ptx_mnemonic *mn)
{
    struct pl_ptx_parser *p = r->p;
    if (!pl_ptx_skip(p))
        return false;
    if (*p->s == ';')
        return true;
    do {
        if (r->n == PL_PTX_MAX_OPERANDS) {
            pl_d_ptx_operands(&p->diags, pl_ptx_at(p, p->s),
                              pl_ptx_excerpt(p, mn->text, mn->n_bytes), PL_PTX_MAX_OPERANDS + 1,
                              "no more operands");
            return false;
        }
        if (!pl_ptx_skip(p))
            return false;
        r->at[r->n] = p->s;
        if (!read_operand(p, &r->ops[r->n++]))
            return false;
    } while (pl_ptx_accept(p, ','));
    return *p->s == ';' ||
           pl_ptx_fail_syntax(p,
                              "';'"); /* before the operands are judged: a comma may be missing */
}

bool pl_ptx_read_operands(struct pl_ptx_parser *p, const struct pl_ptx_mnemonic *mn,
                          struct pl_ptx_ins *ins, const char *at)
{
    struct reader r;
    r.p = p;
    r.n = 0;
    memset(r.spec_of, 0, sizeof r.spec_of);
    struct pl_ptx_shape *shapes = &p->shapes.data[mn->first_shape];
    struct pl_ptx_shape *chosen = NULL;
    if (shapes[0].n_specs > 0 && shapes[0].specs[0].want == PL_PTX_WANT_CALL) {
        if (!read_call(&r, at))
            return false;
        chosen = &shapes[0];
    } else {
        if (!read_list(&r, mn))
            return false;
        struct misfit worst = {0}, misfit;
        for (uint32_t i = 0; i < mn->n_shapes && chosen == NULL; i++) {
            if (fits_shape(&r, &shapes[i], &misfit))
                chosen = &shapes[i];
            else if (i == 0 || misfit.operand > worst.operand ||
                     (misfit.operand == worst.operand && worst.fit == WRONG_KIND &&
                      misfit.fit == WRONG_TYPE))
                worst = misfit;
        }
        if (chosen == NULL)
            return fail_misfit(&r, mn, &worst, at);
        PL_ASSERT(is_only_fit(&r, shapes, mn->n_shapes, chosen));
        if (!check_minus(&r, mn, chosen))
            return false;
    }
    uint32_t guard = ins->guard, line = ins->line;
    bool guard_is_negated = ins->guard_is_negated;
    *ins = chosen->ins;
    ins->guard = guard;
    ins->guard_is_negated = guard_is_negated;
    ins->line = line;
    if (!store_operands(&r, chosen, ins))
        return false;
    return pl_ptx_check_gate(p, chosen, ins, mn, at);
}
