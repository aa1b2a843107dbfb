/*
 * Where an address may be: a variable in an address operand must be in the space that the instruction names for that operand.
 * PTX ISA, "State Spaces", "Addresses as Operands"; measured with the assembler of CUDA 13.0.
 */
#include "jit/ptx/parser.h"

#include <string.h>

enum { MAX_SPACES = 4 };

static const char *const space_names[] = {
    [PL_PTX_SPACE_GENERIC] = "generic", [PL_PTX_SPACE_REG] = "reg",
    [PL_PTX_SPACE_CONST] = "const",     [PL_PTX_SPACE_GLOBAL] = "global",
    [PL_PTX_SPACE_LOCAL] = "local",     [PL_PTX_SPACE_SHARED] = "shared",
    [PL_PTX_SPACE_PARAM] = "param"};

static enum pl_ptx_space space_of_mod(uint8_t mod)
{
    static const uint8_t spaces[PL_PTX_MOD_COUNT] = {
        [PL_PTX_MOD_SPACE_CONST] = PL_PTX_SPACE_CONST,
        [PL_PTX_MOD_SPACE_GLOBAL] = PL_PTX_SPACE_GLOBAL,
        [PL_PTX_MOD_SPACE_LOCAL] = PL_PTX_SPACE_LOCAL,
        [PL_PTX_MOD_SPACE_SHARED] = PL_PTX_SPACE_SHARED,
        [PL_PTX_MOD_SPACE_SHARED_CTA] = PL_PTX_SPACE_SHARED,
        [PL_PTX_MOD_SPACE_SHARED_CLUSTER] = PL_PTX_SPACE_SHARED,
        [PL_PTX_MOD_SPACE_PARAM] = PL_PTX_SPACE_PARAM,
        [PL_PTX_MOD_SPACE_PARAM_ENTRY] = PL_PTX_SPACE_PARAM,
        [PL_PTX_MOD_SPACE_PARAM_FUNC] = PL_PTX_SPACE_PARAM};
    return (enum pl_ptx_space)spaces[mod];
}

static bool is_token(const char *s, size_t n_bytes, const char *token)
{
    return strlen(token) == n_bytes && memcmp(s, token, n_bytes) == 0;
}

/* The spaces that the mnemonic names, in order; returns how many. */
static unsigned spaces_of(const struct pl_ptx_ins *ins, enum pl_ptx_space out[MAX_SPACES])
{
    unsigned n = 0;
    if (ins->mods[PL_PTX_CAT_SPACE] != 0)
        out[n++] = space_of_mod(ins->mods[PL_PTX_CAT_SPACE]);
    for (const char *s = pl_ptx_infos[ins->form].mnemonic; *s != 0 && n < MAX_SPACES;) {
        size_t n_bytes = strcspn(s, ".");
        if (is_token(s, n_bytes, "global"))
            out[n++] = PL_PTX_SPACE_GLOBAL;
        else if (n_bytes >= 6 && memcmp(s, "shared", 6) == 0)
            out[n++] = PL_PTX_SPACE_SHARED;
        s += n_bytes + (s[n_bytes] == '.');
    }
    return n;
}

/* Which space an instruction expects behind address i: those of its mnemonic in order; then, and where it names none, a
 * barrier's is shared memory. */
static enum pl_ptx_space expected_space(const struct pl_ptx_ins *ins, unsigned i)
{
    enum pl_ptx_space spaces[MAX_SPACES];
    unsigned n = spaces_of(ins, spaces);
    if (i < n)
        return spaces[i];
    bool has_barrier = (pl_ptx_infos[ins->form].flags & PL_PTX_F_MBAR) != 0;
    bool is_barrier = n > 0 || strncmp(pl_ptx_infos[ins->form].mnemonic, "mbarrier", 8) == 0;
    return has_barrier && is_barrier ? PL_PTX_SPACE_SHARED : PL_PTX_SPACE_GENERIC;
}

struct check {
    struct pl_ptx_parser *p;
    const struct pl_ptx_ins *ins;
    const struct pl_ptx_mnemonic *mn;
    const char *at;
    int operand; /* from 1, for messages */
};

static bool fail_space(const struct check *c, enum pl_ptx_space seen, const char *wanted)
{
    pl_d_ptx_space(&c->p->diags, pl_ptx_at(c->p, c->at),
                   pl_ptx_excerpt(c->p, c->mn->text, c->mn->n_bytes), c->operand, space_names[seen],
                   wanted);
    return false;
}

static bool is_load(uint16_t form)
{
    return form == PL_PTX_ld || form == PL_PTX_ld_b128 || form == PL_PTX_ld_nc ||
           form == PL_PTX_ld_nc_b128;
}

static bool is_store(uint16_t form) { return form == PL_PTX_st || form == PL_PTX_st_b128; }

static bool check_variable(const struct check *c, const struct pl_ptx_var *v,
                           enum pl_ptx_space wanted)
{
    if (wanted != PL_PTX_SPACE_GENERIC && v->space != wanted)
        return fail_space(c, (enum pl_ptx_space)v->space, space_names[wanted]);
    bool is_input = v->space == PL_PTX_SPACE_PARAM && v->param_offset >= 0 && !v->is_return;
    if (!is_store(c->ins->form) || !is_input)
        return true;
    pl_d_ptx_param_write(&c->p->diags, pl_ptx_at(c->p, c->at), v->name);
    return false;
}

static bool fail_width(const struct check *c, const char *seen, const char *wanted)
{
    pl_d_ptx_operand_type(&c->p->diags, pl_ptx_at(c->p, c->at),
                          pl_ptx_excerpt(c->p, c->mn->text, c->mn->n_bytes), c->operand, seen,
                          wanted);
    return false;
}

/* From sm_90 on global and generic addresses are 64 bits wide; those of a barrier are generic where no space is named. */
static bool check_width(const struct check *c, const struct pl_ptx_operand *op,
                        enum pl_ptx_space wanted)
{
    const struct pl_ptx_type_info *t = &pl_ptx_types[c->p->func->regs.data[op->reg - 1].type];
    enum pl_ptx_space spaces[MAX_SPACES];
    bool is_barrier = strncmp(pl_ptx_infos[c->ins->form].mnemonic, "mbarrier.", 9) == 0;
    bool is_memory = is_barrier || is_load(c->ins->form) || is_store(c->ins->form) ||
                     strncmp(pl_ptx_infos[c->ins->form].mnemonic, "atom", 4) == 0 ||
                     strncmp(pl_ptx_infos[c->ins->form].mnemonic, "red.", 4) == 0;
    bool is_long = is_barrier ? spaces_of(c->ins, spaces) == 0
                              : wanted == PL_PTX_SPACE_GENERIC || wanted == PL_PTX_SPACE_GLOBAL;
    if (!is_memory || !is_long || t->bits == 64 || c->p->m->sm < 90)
        return true;
    return fail_width(c, t->text, "u64");
}

/* Addresses in tensor memory are 32-bit values in registers. PTX ISA, "Tensor Memory Addressing". */
static bool check_tensor_address(const struct check *c, const struct pl_ptx_operand *op)
{
    if (op->reg == 0)
        return fail_width(c, "none, a constant", "b32");
    const struct pl_ptx_type_info *t = &pl_ptx_types[c->p->func->regs.data[op->reg - 1].type];
    return t->bits == 32 || fail_width(c, t->text, "b32");
}

/* From sm_90 on there are no 32-bit generic addresses to make or to take apart. */
static bool check_generic(const struct check *c)
{
    bool is_cvta = c->ins->form == PL_PTX_cvta || c->ins->form == PL_PTX_cvta_to;
    bool is_short = is_cvta && c->ins->types[0] == PL_PTX_TYPE_U32 && c->p->m->sm >= 90;
    return !is_short || fail_width(c, "u32", "u64");
}

static bool check_address(const struct check *c, const struct pl_ptx_operand *op,
                          enum pl_ptx_space wanted)
{
    bool is_unified_ok =
        is_load(c->ins->form) && (wanted == PL_PTX_SPACE_GENERIC || wanted == PL_PTX_SPACE_GLOBAL);
    if (op->is_unified && (!is_unified_ok || op->var != 0))
        return fail_space(c, wanted, "global, which .unified is for");
    if (op->var != 0)
        return check_variable(c, &c->p->m->vars.data[op->var - 1], wanted);
    if (op->reg != 0)
        return check_width(c, op, wanted);
    if (wanted == PL_PTX_SPACE_LOCAL)
        return true;
    pl_d_ptx_absolute(&c->p->diags, pl_ptx_at(c->p, c->at),
                      pl_ptx_excerpt(c->p, c->mn->text, c->mn->n_bytes), (long long)op->offset);
    return false;
}

/* A tensor map may be anywhere but in shared and local memory. */
static bool check_map(const struct check *c, const struct pl_ptx_operand *op)
{
    if (op->var == 0)
        return true;
    enum pl_ptx_space seen = (enum pl_ptx_space)c->p->m->vars.data[op->var - 1].space;
    return (seen != PL_PTX_SPACE_SHARED && seen != PL_PTX_SPACE_LOCAL) ||
           fail_space(c, seen, "global, const or param");
}

/* Values that name a variable: cvta (not .to, which takes what it is given), mapa, getctarank. */
static bool has_value_space(uint16_t form)
{
    return form == PL_PTX_cvta || form == PL_PTX_mapa || form == PL_PTX_getctarank;
}

bool pl_ptx_check_spaces(struct pl_ptx_parser *p, const struct pl_ptx_ins *ins,
                         const struct pl_ptx_mnemonic *mn, const char *at)
{
    struct check c = {p, ins, mn, at, 1};
    if (!check_generic(&c))
        return false;
    unsigned n_addresses = 0;
    bool is_tmem = (pl_ptx_infos[ins->form].flags & PL_PTX_F_TMEM) != 0;
    bool is_pointer = ins->form == PL_PTX_tcgen05_alloc || ins->form == PL_PTX_tcgen05_commit;
    for (uint32_t i = 0; i < ins->n_operands; i++) {
        const struct pl_ptx_operand *op = &p->m->pool.data[ins->operands + i];
        c.operand = (int)i + 1;
        bool is_good = true;
        if (op->kind == PL_PTX_OP_ADDR && is_tmem)
            is_good = is_pointer || check_tensor_address(&c, op);
        else if (op->kind == PL_PTX_OP_ADDR)
            is_good = check_address(&c, op, expected_space(ins, n_addresses++));
        else if (op->kind == PL_PTX_OP_TENSOR) {
            is_good = check_map(&c, &p->m->pool.data[op->first]);
            n_addresses++;
        } else if (op->kind == PL_PTX_OP_VAR && has_value_space(ins->form))
            is_good = check_variable(&c, &p->m->vars.data[op->var - 1], expected_space(ins, 0));
        if (!is_good)
            return false;
    }
    return true;
}
