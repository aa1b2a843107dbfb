/*
 * Modules and functions. PTX ISA, "Syntax" and "Directives".
 */
#include "jit/ptx/parser.h"

#include <string.h>

/* ---- header ---- */

static bool read_version(struct pl_ptx_parser *p)
{
    static const uint8_t last_minor[] = {0, 5, 3, 2, 3,
                                         0, 5, 8, 8, 4}; /* of each major version, 1 to 9 */
    if (!pl_ptx_skip(p))
        return false;
    const char *at = p->s;
    unsigned major = 0, minor = 0;
    size_t n = 0;
    while (pl_ptx_chars[(unsigned char)at[n]] & PL_PTX_C_NAME || at[n] == '.')
        n++;
    bool is_ok =
        n == 3 && at[1] == '.' && at[0] >= '1' && at[0] <= '9' && at[2] >= '0' && at[2] <= '9';
    if (is_ok) {
        major = (unsigned)(at[0] - '0');
        minor = (unsigned)(at[2] - '0');
        is_ok = minor <= last_minor[major];
    }
    if (!is_ok) {
        pl_d_ptx_version(&p->diags, pl_ptx_at(p, at), pl_ptx_excerpt(p, at, n));
        return false;
    }
    p->s += n;
    p->m->version = (uint16_t)(major * 10 + minor);
    p->has_version = true;
    return true;
}

/* One item of .target: "sm_90a" or an option. */
static bool read_target_item(struct pl_ptx_parser *p)
{
    if (pl_ptx_accept_word(p, "texmode_independent")) {
        p->m->is_texmode_independent = true;
        return true;
    }
    if (pl_ptx_accept_word(p, "debug")) {
        p->m->is_debug = true;
        return true;
    }
    if (pl_ptx_accept_word(p, "texmode_unified") || pl_ptx_accept_word(p, "map_f64_to_f32"))
        return true;
    if (!pl_ptx_skip(p))
        return false;
    const char *at = p->s;
    size_t n = pl_ptx_name_length(at), i = 3;
    unsigned sm = 0;
    for (; n > 3 && i < n && at[i] >= '0' && at[i] <= '9' && sm < 1000; i++)
        sm = sm * 10 + (unsigned)(at[i] - '0');
    char suffix = i + 1 == n ? at[i] : 0;
    bool is_known = n > 3 && memcmp(at, "sm_", 3) == 0 && (i == n || suffix != 0) &&
                    pl_ptx_target_version((uint16_t)sm, suffix) != 0;
    if (!is_known) {
        pl_d_ptx_target(&p->diags, pl_ptx_at(p, at), pl_ptx_excerpt(p, at, n == 0 ? 1 : n));
        return false;
    }
    p->s += n;
    p->m->sm = (uint16_t)sm;
    p->m->suffix = suffix;
    p->has_target = true;
    uint16_t needed = pl_ptx_target_version((uint16_t)sm, suffix);
    if (needed <= p->m->version)
        return true;
    pl_d_ptx_target_version(&p->diags, pl_ptx_at(p, at), pl_ptx_excerpt(p, at, n), needed / 10,
                            needed % 10, p->m->version / 10, p->m->version % 10);
    return false;
}

static bool fail_header(struct pl_ptx_parser *p, const char *wanted)
{
    pl_d_ptx_header(&p->diags, pl_ptx_at(p, p->s), wanted);
    return false;
}

static bool read_target(struct pl_ptx_parser *p)
{
    do {
        if (!read_target_item(p))
            return false;
    } while (pl_ptx_accept(p, ','));
    return p->has_target || fail_header(p, ".target sm_…");
}

static bool read_header(struct pl_ptx_parser *p)
{
    if (!pl_ptx_skip(p))
        return false;
    if (!pl_ptx_accept_word(p, ".version"))
        return fail_header(p, ".version");
    if (!read_version(p) || !pl_ptx_skip(p))
        return false;
    if (!pl_ptx_accept_word(p, ".target"))
        return p->error_at == NULL && fail_header(p, ".target");
    return read_target(p);
}

/* ---- gates and ranges ---- */

static const char *target_name(struct pl_ptx_parser *p, unsigned sm, char suffix)
{
    const char *text = suffix != 0 ? pl_arena_printf(p->arena, "sm_%u%c", sm, suffix)
                                   : pl_arena_printf(p->arena, "sm_%u", sm);
    return text != NULL ? text : "";
}

/* "sm_90 or newer", or "one of sm_100a sm_100f". */
static const char *wanted_targets(struct pl_ptx_parser *p, struct pl_ptx_gate gate)
{
    const char *text;
    if (gate.targets == 0) {
        text = pl_arena_printf(p->arena, "sm_%u or newer", gate.sm);
        return text != NULL ? text : "";
    }
    text = "one of";
    static const struct {
        uint16_t sm;
        char suffix;
    } targets[] = {
        {0, 0},
#define PLAIN(sm, ptx)
#define TARGET(sm, suffix, ptx) {sm, #suffix[0] | 0x20},
#define ONSET(id, targets)
#include "jit/ptx/target.def"
#undef PLAIN
#undef TARGET
#undef ONSET
    };
    for (size_t i = 1; i < sizeof targets / sizeof targets[0] && text != NULL; i++)
        if (gate.targets & pl_ptx_target_bit(targets[i].sm, targets[i].suffix))
            text = pl_arena_printf(p->arena, "%s sm_%u%c", text, targets[i].sm, targets[i].suffix);
    return text != NULL ? text : "";
}

static bool check_gate(struct pl_ptx_parser *p, struct pl_ptx_gate gate, const char *text,
                       const char *at)
{
    const struct pl_ptx_module *m = p->m;
    if (pl_ptx_gate_accepts(gate, m->version, m->sm, m->suffix))
        return true;
    uint16_t version = pl_ptx_gate_version(gate, m->sm);
    if (!pl_ptx_gate_accepts_target(gate, m->sm, m->suffix))
        pl_d_ptx_form_target(&p->diags, pl_ptx_at(p, at), text, wanted_targets(p, gate),
                             target_name(p, m->sm, m->suffix));
    else
        pl_d_ptx_form_version(&p->diags, pl_ptx_at(p, at), text, version / 10, version % 10,
                              m->version / 10, m->version % 10);
    return false;
}

/* Ranges of constants. */
static const struct {
    uint16_t form;
    uint8_t mod, operand;
    int32_t low, high, multiple; /* multiple: 0, or of what */
} values[] = {
#define VALUE(form, mod, operand, low, high)                                                       \
    {PL_PTX_##form, PL_PTX_MOD_##mod, operand, low, high, 0},
#define MULTIPLE(form, operand, of) {PL_PTX_##form, PL_PTX_MOD_NONE, operand, 0, 0, of},
#include "jit/ptx/value.def"
#undef VALUE
#undef MULTIPLE
};

static bool has_value_range(uint16_t form)
{
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        if (values[i].form == form)
            return true;
    return false;
}

static bool check_values(struct pl_ptx_parser *p, const struct pl_ptx_ins *ins,
                         const struct pl_ptx_mnemonic *mn, const char *at)
{
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        uint8_t mod = values[i].mod;
        if (values[i].form != ins->form || values[i].operand >= ins->n_operands ||
            (mod != 0 && ins->mods[pl_ptx_mods[mod].cat] != mod))
            continue;
        const struct pl_ptx_operand *op = &p->m->pool.data[ins->operands + values[i].operand];
        int64_t v = (int64_t)op->imm;
        if (op->kind == PL_PTX_OP_IMM && values[i].multiple != 0 && v % values[i].multiple != 0) {
            pl_d_ptx_multiple(&p->diags, pl_ptx_at(p, at), pl_ptx_excerpt(p, mn->text, mn->n_bytes),
                              values[i].operand + 1, (long long)v, values[i].multiple);
            return false;
        }
        if (op->kind != PL_PTX_OP_IMM || values[i].multiple != 0 ||
            (v >= values[i].low && v <= values[i].high))
            continue;
        pl_d_ptx_value(&p->diags, pl_ptx_at(p, at), pl_ptx_excerpt(p, mn->text, mn->n_bytes),
                       values[i].operand + 1, (long long)v, values[i].low, values[i].high);
        return false;
    }
    return true;
}

/* createpolicy.fractional: a part of the accesses, not none. */
static bool check_fraction(struct pl_ptx_parser *p, const struct pl_ptx_ins *ins,
                           const struct pl_ptx_mnemonic *mn, const char *at)
{
    enum { ONE = 0x3f800000 };
    if (ins->form != PL_PTX_createpolicy_fractional || ins->n_operands < 2)
        return true;
    const struct pl_ptx_operand *op = &p->m->pool.data[ins->operands + 1];
    if (op->kind != PL_PTX_OP_IMM || (op->imm > 0 && op->imm <= ONE))
        return true;
    pl_d_ptx_operands(&p->diags, pl_ptx_at(p, at), pl_ptx_excerpt(p, mn->text, mn->n_bytes), 2,
                      "a fraction above 0.0, up to 1.0");
    return false;
}

/* {byte id, thread id} of the scales of a block-scaled mma: scale_vec::1X takes any byte, 2X an even one, 4X byte 0; the
 * pair of threads for A is 0 or 1, for B 0 to 3. */
static bool check_selectors(struct pl_ptx_parser *p, const struct pl_ptx_ins *ins,
                            const struct pl_ptx_mnemonic *mn, const char *at)
{
    bool has_selectors = ins->form == PL_PTX_mma_m16n8k32_mxf8f6f4 ||
                         ins->form == PL_PTX_mma_m16n8k64_mxf4 ||
                         ins->form == PL_PTX_mma_m16n8k64_mxf4nvf4;
    for (uint32_t i = 5; has_selectors && i < ins->n_operands; i += 2) {
        uint32_t first = p->m->pool.data[ins->operands + i].first;
        const struct pl_ptx_operand *byte = &p->m->pool.data[first],
                                    *thread = &p->m->pool.data[first + 1];
        bool is_quad = ins->mods[PL_PTX_CAT_SCALE_VEC] == PL_PTX_MOD_SCALE_VEC_X4;
        unsigned step = ins->form == PL_PTX_mma_m16n8k32_mxf8f6f4 ? 1 : is_quad ? 4 : 2;
        long long last_byte = 4 - (int)step, last_thread = i == 5 ? 1 : 3;
        const struct pl_ptx_operand *bad = NULL;
        if (byte->kind == PL_PTX_OP_IMM && (byte->imm > 3 || byte->imm % step != 0))
            bad = byte;
        else if (thread->kind == PL_PTX_OP_IMM && thread->imm > (uint64_t)last_thread)
            bad = thread;
        if (bad == NULL)
            continue;
        pl_d_ptx_value(&p->diags, pl_ptx_at(p, at), pl_ptx_excerpt(p, mn->text, mn->n_bytes),
                       (int)i + 1, (long long)bad->imm, 0, bad == byte ? last_byte : last_thread);
        return false;
    }
    return true;
}

/* A special register newer than the module's header. */
static bool check_specials(struct pl_ptx_parser *p, const struct pl_ptx_ins *ins, const char *at)
{
    for (uint32_t i = 0; i < ins->n_operands; i++) {
        const struct pl_ptx_operand *op = &p->m->pool.data[ins->operands + i];
        if (op->kind == PL_PTX_OP_VECTOR && op->n != 0) /* %clusterid whole */
            op = &p->m->pool.data[op->first];
        if (op->kind == PL_PTX_OP_SREG &&
            !check_gate(p, pl_ptx_sregs[op->sreg].gate, pl_ptx_sregs[op->sreg].text, at))
            return false;
    }
    return true;
}

bool pl_ptx_check_gate(struct pl_ptx_parser *p, struct pl_ptx_shape *shape,
                       const struct pl_ptx_ins *ins, const struct pl_ptx_mnemonic *mn,
                       const char *at)
{
    if (!shape->is_gated || pl_ptx_has_operand_gate((enum pl_ptx_form)ins->form)) {
        struct pl_ptx_gate gate = pl_ptx_gate_of_ins(ins, p->m->pool.data);
        if (!check_gate(p, gate, pl_ptx_excerpt(p, mn->text, mn->n_bytes), at))
            return false;
        shape->is_gated = true;
        shape->has_values = has_value_range(ins->form);
    }
    if (!pl_ptx_check_spaces(p, ins, mn, at) ||
        (shape->has_values && !check_values(p, ins, mn, at)) || !check_selectors(p, ins, mn, at) ||
        !check_fraction(p, ins, mn, at))
        return false;
    return (ins->form != PL_PTX_mov && ins->form != PL_PTX_mov_pred) || check_specials(p, ins, at);
}

/* ---- functions ---- */

static bool read_triple(struct pl_ptx_parser *p, uint32_t out[3])
{
    for (int i = 0; i < 3; i++)
        out[i] = 1;
    for (int i = 0; i < 3; i++) {
        int64_t v;
        const char *at = p->s;
        if (!pl_ptx_read_int(p, &v))
            return false;
        if (v < 1 || v > INT32_MAX) {
            p->s = at;
            return pl_ptx_fail_syntax(p, "a positive number");
        }
        out[i] = (uint32_t)v;
        if (i == 2 || !pl_ptx_accept(p, ','))
            break;
    }
    return true;
}

static bool read_one(struct pl_ptx_parser *p, uint32_t *out)
{
    int64_t v;
    const char *at = p->s;
    if (!pl_ptx_read_int(p, &v))
        return false;
    *out = (uint32_t)v;
    if (v >= 0 && v <= INT32_MAX)
        return true;
    p->s = at;
    return pl_ptx_fail_syntax(p, "a positive number");
}

/* Performance-tuning and cluster directives between a function's head and its body. */
static bool read_function_directives(struct pl_ptx_parser *p)
{
    struct pl_ptx_func *f = p->func;
    for (;;) {
        bool is_ok = true;
        if (!pl_ptx_skip(p))
            return false;
        const char *at = p->s;
        if (*at != '.')
            return true;
        if (pl_ptx_accept_word(p, ".maxntid"))
            is_ok = read_triple(p, f->max_ntid);
        else if (pl_ptx_accept_word(p, ".reqntid"))
            is_ok = read_triple(p, f->req_ntid);
        else if (pl_ptx_accept_word(p, ".reqnctapercluster"))
            is_ok = read_triple(p, f->req_cluster);
        else if (pl_ptx_accept_word(p, ".maxnreg"))
            is_ok = read_one(p, &f->max_nreg);
        else if (pl_ptx_accept_word(p, ".minnctapersm") || pl_ptx_accept_word(p, ".maxnctapersm"))
            is_ok = read_one(p, &f->min_nctapersm);
        else if (pl_ptx_accept_word(p, ".maxclusterrank"))
            is_ok = read_one(p, &f->max_cluster_rank);
        else if (pl_ptx_accept_word(p, ".abi_preserve") ||
                 pl_ptx_accept_word(p, ".abi_preserve_control"))
            is_ok = read_one(p, &(uint32_t){0});
        else if (pl_ptx_accept_word(p, ".explicitcluster"))
            f->is_explicit_cluster = true;
        else if (pl_ptx_accept_word(p, ".noreturn"))
            f->is_noreturn = true;
        else if (pl_ptx_accept_word(p, ".pragma"))
            is_ok = pl_ptx_read_string(p) && pl_ptx_expect(p, ';');
        else if (!pl_ptx_accept_word(p, ".blocksareclusters") &&
                 !pl_ptx_accept_word(p, ".unified")) {
            pl_d_ptx_directive(&p->diags, pl_ptx_at(p, at),
                               pl_ptx_excerpt(p, at, pl_ptx_name_length(at + 1) + 1));
            return false;
        }
        if (!is_ok)
            return false;
    }
}

/* The function's name is known: it is new, or defines or repeats one that was declared. Then its record replaces that one's. */
static bool name_function(struct pl_ptx_parser *p, uint32_t name, const char *at,
                          uint32_t first_var)
{
    const struct pl_ptx_name *n = &p->names.data[name];
    const struct pl_ptx_sym *old = n->sym != 0 ? &p->syms.data[n->sym - 1] : NULL;
    p->func->name = n->text;
    if (old == NULL) {
        uint32_t depth = p->depth;
        p->depth = 0;
        struct pl_ptx_sym *sym = pl_ptx_declare(p, name, PL_PTX_SYM_FUNC, at);
        p->depth = depth;
        if (sym == NULL)
            return false;
        sym->index = p->func_index;
        return true;
    }
    struct pl_ptx_func *first = &p->m->funcs.data[old->index];
    if (old->kind != PL_PTX_SYM_FUNC || first->is_entry != p->func->is_entry) {
        pl_d_ptx_duplicate(&p->diags, pl_ptx_at(p, at), n->text);
        return false;
    }
    bool is_visible = first->is_visible, is_weak = first->is_weak;
    p->was_defined = first->has_body;
    p->earlier = *first;
    *first = *p->func;
    first->is_visible |= is_visible;
    first->is_weak |= is_weak;
    p->m->funcs.n--;
    for (uint32_t i = first_var; i < p->m->vars.n; i++)
        p->m->vars.data[i].func = old->index + 1;
    p->func_index = old->index;
    p->func = first;
    return true;
}

static bool read_head(struct pl_ptx_parser *p, uint32_t first_var)
{
    if (pl_ptx_accept_word(p, ".attribute") && !pl_ptx_skip_to(p, ')'))
        return false;
    if (!pl_ptx_skip(p))
        return false;
    if (*p->s == '(' && !pl_ptx_read_params(p, true, &p->func->n_returns, &p->func->returns))
        return false;
    if (!pl_ptx_skip(p))
        return false;
    const char *at = p->s;
    size_t n;
    uint32_t name;
    if (!pl_ptx_peek_name(p, "a function's name", &name, &n))
        return false;
    p->s += n;
    if (!name_function(p, name, at, first_var) || !pl_ptx_skip(p))
        return false;
    if (*p->s == '(' && !pl_ptx_read_params(p, false, &p->func->n_params, &p->func->params))
        return false;
    return read_function_directives(p);
}

/* A definition may leave out the linkage that its declaration has. The assembler's rule. */
static bool has_declared_linkage(const struct pl_ptx_func *declared, struct pl_ptx_linkage l)
{
    bool is_plain = !l.is_visible && !l.is_weak,
         is_same = declared->is_visible == l.is_visible && declared->is_weak == l.is_weak;
    return !l.is_extern && !declared->is_extern && (declared->name == NULL || is_plain || is_same);
}

static bool read_function(struct pl_ptx_parser *p, bool is_entry, struct pl_ptx_linkage linkage)
{
    p->func = pl_vec_push(p->arena, &p->m->funcs);
    if (p->func == NULL)
        return false;
    p->func_index = p->m->funcs.n - 1;
    p->was_defined = false;
    p->earlier = (struct pl_ptx_func){0};
    p->n_blocks = 0;
    *p->func = (struct pl_ptx_func){.is_entry = is_entry,
                                    .is_visible = linkage.is_visible,
                                    .is_weak = linkage.is_weak,
                                    .is_extern = linkage.is_extern,
                                    .line = p->line};
    const char *at = p->s;
    if (!pl_ptx_open_scope(p, at) || !read_head(p, p->m->vars.n))
        return false;
    p->func->first_ins = p->m->ins.n;
    if (p->was_defined) {
        pl_d_ptx_duplicate(&p->diags, pl_ptx_at(p, at), p->func->name);
        return false;
    }
    if (pl_ptx_accept(p, ';')) {
        bool is_ok = pl_ptx_close_scope(p);
        p->func = NULL;
        return is_ok;
    }
    if (!has_declared_linkage(&p->earlier, linkage)) {
        pl_d_ptx_linkage(&p->diags, pl_ptx_at(p, at), p->func->name);
        return false;
    }
    p->func->has_body = true;
    if (!pl_ptx_expect(p, '{') || !pl_ptx_read_body(p))
        return false;
    p->func->n_ins = p->m->ins.n - p->func->first_ins;
    p->func = NULL;
    return true;
}

/* .alias a, b; the function a is b. */
static bool read_alias(struct pl_ptx_parser *p)
{
    uint32_t index[2];
    for (int i = 0; i < 2; i++) {
        if (!pl_ptx_skip(p) || (i == 1 && !pl_ptx_expect(p, ',')) || !pl_ptx_skip(p))
            return false;
        const char *at = p->s;
        size_t n;
        uint32_t name;
        if (!pl_ptx_peek_name(p, "a function's name", &name, &n))
            return false;
        const struct pl_ptx_sym *sym = pl_ptx_find(p, name);
        if (sym == NULL || sym->kind != PL_PTX_SYM_FUNC) {
            pl_d_ptx_undefined(&p->diags, pl_ptx_at(p, at), p->names.data[name].text);
            return false;
        }
        p->s += n;
        index[i] = sym->index;
    }
    struct pl_ptx_func *f = &p->m->funcs.data[index[0]];
    const char *name = f->name;
    bool is_visible = f->is_visible, is_weak = f->is_weak;
    *f = p->m->funcs.data[index[1]];
    f->name = name;
    f->is_visible = is_visible;
    f->is_weak = is_weak;
    return pl_ptx_expect(p, ';');
}

/* ---- modules ---- */

/* .section .debug_x { … }: data for debuggers. */
static bool skip_section(struct pl_ptx_parser *p)
{
    return pl_ptx_skip_to(p, '{') && pl_ptx_skip_to(p, '}');
}

static bool read_address_size(struct pl_ptx_parser *p)
{
    int64_t bits;
    if (!pl_ptx_skip(p))
        return false;
    const char *at = p->s;
    if (!pl_ptx_read_int(p, &bits))
        return false;
    if (bits == 64)
        return true;
    pl_d_ptx_address_size(&p->diags, pl_ptx_at(p, at), (int)bits);
    return false;
}

static struct pl_ptx_linkage read_linkage(struct pl_ptx_parser *p)
{
    struct pl_ptx_linkage l = {0};
    for (;;) {
        if (pl_ptx_accept_word(p, ".visible"))
            l.is_visible = true;
        else if (pl_ptx_accept_word(p, ".extern"))
            l.is_extern = true;
        else if (pl_ptx_accept_word(p, ".weak"))
            l.is_weak = true;
        else if (pl_ptx_accept_word(p, ".common"))
            l.is_common = true;
        else
            return l;
    }
}

static bool read_module_item(struct pl_ptx_parser *p)
{
    struct pl_ptx_linkage linkage = read_linkage(p);
    if (!pl_ptx_skip(p))
        return false;
    const char *at = p->s;
    if (pl_ptx_accept_word(p, ".entry"))
        return read_function(p, true, linkage);
    if (pl_ptx_accept_word(p, ".func"))
        return read_function(p, false, linkage);
    if (pl_ptx_accept_word(p, ".global"))
        return pl_ptx_read_var(p, PL_PTX_SPACE_GLOBAL, linkage);
    if (pl_ptx_accept_word(p, ".const"))
        return pl_ptx_read_var(p, PL_PTX_SPACE_CONST, linkage);
    if (pl_ptx_accept_word(p, ".shared"))
        return pl_ptx_read_var(p, PL_PTX_SPACE_SHARED, linkage);
    if (pl_ptx_accept_word(p, ".local"))
        return pl_ptx_read_var(p, PL_PTX_SPACE_LOCAL, linkage);
    if (pl_ptx_accept_word(p, ".address_size"))
        return read_address_size(p);
    if (pl_ptx_accept_word(p, ".file") || pl_ptx_accept_word(p, ".loc"))
        return pl_ptx_skip_loc(p);
    if (pl_ptx_accept_word(p, ".section"))
        return skip_section(p);
    if (pl_ptx_accept_word(p, ".pragma"))
        return pl_ptx_read_string(p) && pl_ptx_expect(p, ';');
    if (pl_ptx_accept_word(p, ".alias"))
        return read_alias(p);
    if (pl_ptx_accept(p, ';'))
        return true;
    size_t n = *at == '.' ? pl_ptx_name_length(at + 1) : 0;
    if (n == 0)
        return pl_ptx_fail_syntax(p, "a directive");
    pl_d_ptx_directive(&p->diags, pl_ptx_at(p, at), pl_ptx_excerpt(p, at, n + 1));
    return false;
}

static bool read_module(struct pl_ptx_parser *p)
{
    if (!pl_ptx_symbols_init(p) || !pl_ptx_match_init(p) || !read_header(p))
        return false;
    for (;;) {
        if (!pl_ptx_skip(p))
            return false;
        if (p->s == p->end)
            return true;
        if (!read_module_item(p))
            return false;
    }
}

static void fill_error(const struct pl_ptx_parser *p, struct pl_ptx_error *error)
{
    *error = (struct pl_ptx_error){.line = 1, .column = 1};
    if (p->diags.list.n == 0) {
        error->code = pl_di_ptx_memory.code;
        strcpy(error->text, pl_di_ptx_memory.format);
        return;
    }
    for (const char *s = p->text; s < p->error_at && s < p->end; s++) {
        error->column++;
        if (*s == '\n') {
            error->line++;
            error->column = 1;
        }
    }
    error->code = p->diags.list.data[0].info->code;
    size_t n = strlen(p->diags.list.data[0].text);
    n = n < sizeof error->text ? n : sizeof error->text - 1;
    memcpy(error->text, p->diags.list.data[0].text, n);
}

/* Room for what a text of this length usually holds, so that the large arrays seldom move. */
static void reserve(struct pl_ptx_module *m, struct pl_arena *arena, size_t n_bytes)
{
    if (n_bytes > 16 << 20)
        return;
    uint32_t n_ins = (uint32_t)(n_bytes / 36) + 16, n_operands = (uint32_t)(n_bytes / 14) + 16;
    m->ins.data = pl_arena_array(arena, n_ins, sizeof *m->ins.data);
    m->ins.cap = m->ins.data != NULL ? n_ins : 0;
    m->pool.data = pl_arena_array(arena, n_operands, sizeof *m->pool.data);
    m->pool.cap = m->pool.data != NULL ? n_operands : 0;
}

bool pl_ptx_parse(const char *text, size_t n_bytes, struct pl_arena *arena,
                  struct pl_ptx_module *out, struct pl_ptx_error *error)
{
    while (n_bytes > 0 && text[n_bytes - 1] == 0) /* as the driver's callers pass it */
        n_bytes--;
    *out = (struct pl_ptx_module){0};
    *error = (struct pl_ptx_error){0};
    struct pl_ptx_parser *p = PL_NEW(arena, struct pl_ptx_parser);
    char *copy = pl_arena_strndup(arena, "", 0);
    if (n_bytes != 0)
        copy = pl_arena_alloc(arena,
                              n_bytes + 8); /* zeros behind the text: a look ahead needs no check */
    if (p == NULL || copy == NULL) {
        static const struct pl_ptx_parser nothing;
        fill_error(&nothing, error);
        return false;
    }
    memcpy(copy, text, n_bytes);
    p->arena = arena;
    p->m = out;
    p->text = p->s = copy;
    p->end = copy + n_bytes;
    p->line = 1;
    pl_diags_init(&p->diags, arena);
    reserve(out, arena, n_bytes);
    pl_vec_push(arena, &out->pool); /* element 0 is nobody's: the pool is never NULL */
    if (read_module(p) && !pl_arena_is_exhausted(arena))
        return true;
    fill_error(p, error);
    return false;
}
