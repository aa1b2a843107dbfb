#include "jit/ptx/print.h"

#include "base/debug.h"
#include "jit/ptx/gate.h"
#include "jit/ptx/short.h"
#include "jit/ptx/table.h"

#include <string.h>

/* ---- mnemonics ---- */

enum { LONGEST_MNEMONIC = 320 };

static char *put_modifier(char *s, uint8_t mod)
{
    if (mod == 0)
        return s;
    *s++ = '.';
    return pl_ptx_put_text(s, pl_ptx_mods[mod].text);
}

static char *put_type(char *s, const struct pl_ptx_ins *ins, unsigned slot)
{
    if (slot >= ins->n_types)
        return s;
    *s++ = '.';
    return pl_ptx_put_text(s, pl_ptx_types[ins->types[slot]].text);
}

/* The row's text, with the next modifier for each ".%", the next type for each ".#", the number for the N of a shape; then
 * what is left of both. s has room for LONGEST_MNEMONIC. */
static char *put_mnemonic(char *s, const struct pl_ptx_ins *ins)
{
    const struct pl_ptx_row *row = &pl_ptx_rows[ins->form];
    unsigned view = 0, type = 0;
    for (const char *c = pl_ptx_infos[ins->form].mnemonic; *c != 0; c++) {
        if (*c == '.' && c[1] == '%') {
            s = put_modifier(s,
                             ins->mods[pl_ptx_views[row->views[view++] & ~PL_PTX_VIEW_NEED].cat]);
            c++;
        } else if (*c == '.' && c[1] == '#') {
            s = put_type(s, ins, type++);
            c++;
        } else if (*c == 'N' && ins->shape_n != 0) {
            s = pl_ptx_put_u64(s, ins->shape_n);
        } else {
            *s++ = *c;
        }
    }
    for (; view < PL_PTX_MAX_VIEWS && row->views[view] != 0; view++)
        s = put_modifier(s, ins->mods[pl_ptx_views[row->views[view] & ~PL_PTX_VIEW_NEED].cat]);
    for (; type < ins->n_types; type++)
        s = put_type(s, ins, type);
    return s;
}

void pl_ptx_print_mnemonic(struct pl_buf *buf, const struct pl_ptx_ins *ins)
{
    char *s = pl_buf_room(buf, LONGEST_MNEMONIC);
    if (s != NULL)
        pl_buf_commit(buf, put_mnemonic(s, ins));
}

struct pl_ptx_ins pl_ptx_ins_make(enum pl_ptx_form form, unsigned n_operands)
{
    struct pl_ptx_ins ins = {.form = (uint16_t)form, .n_operands = (uint8_t)n_operands};
    const struct pl_ptx_row *row = &pl_ptx_rows[form];
    while (ins.n_types < PL_PTX_MAX_TYPES && row->types[ins.n_types] != 0) {
        if (row->types[ins.n_types] < PL_PTX_TYPE_COUNT) /* a set of one */
            ins.types[ins.n_types] = row->types[ins.n_types];
        ins.n_types++;
    }
    return ins;
}

/* ---- operands ---- */

static void put_scoped(struct pl_buf *buf, const char *name, uint32_t scope)
{
    pl_buf_puts(buf, name);
    if (scope != 0) {
        pl_buf_puts(buf, "$b");
        pl_buf_u64(buf, scope);
    }
}

void pl_ptx_print_reg_name(struct pl_buf *buf, const struct pl_ptx_func *func, uint32_t reg)
{
    put_scoped(buf, func->regs.data[reg].name, func->regs.data[reg].scope);
}

void pl_ptx_print_var_name(struct pl_buf *buf, const struct pl_ptx_var *var)
{
    put_scoped(buf, var->name, var->scope);
}

static void put_register(const struct pl_ptx_printer *pr, uint32_t reg)
{
    if (pr->func != NULL) {
        pl_ptx_print_reg_name(pr->buf, pr->func, reg - 1);
        return;
    }
    char *s = pl_buf_room(pr->buf, PL_PTX_LONGEST_SHORT);
    if (s != NULL)
        pl_buf_commit(pr->buf, pl_ptx_put_reg(s, reg));
}

static void put_var(const struct pl_ptx_printer *pr, uint32_t var)
{
    if (pr->module != NULL)
        pl_ptx_print_var_name(pr->buf, &pr->module->vars.data[var - 1]);
    else
        pl_buf_puts(pr->buf, pr->var_names[var - 1]);
}

static void put_offset(struct pl_buf *buf, int64_t offset)
{
    if (offset == 0)
        return;
    pl_buf_putc(buf, '+'); /* the assembler wants it before a minus too: [%rd1+-4] */
    pl_buf_i64(buf, offset);
}

/* v[r+i], of a parsed module only: an address and no brackets around it. */
static bool is_indexed(const struct pl_ptx_operand *op) { return op->reg != 0 && op->var != 0; }

static void put_indexed(const struct pl_ptx_printer *pr, const struct pl_ptx_operand *op)
{
    const struct pl_ptx_var *v = &pr->module->vars.data[op->var - 1];
    put_var(pr, op->var);
    pl_buf_putc(pr->buf, '[');
    put_register(pr, op->reg);
    put_offset(pr->buf, op->offset / (pl_ptx_types[v->type].bits / 8));
    pl_buf_putc(pr->buf, ']');
}

static void put_address(const struct pl_ptx_printer *pr, const struct pl_ptx_operand *op)
{
    if (op->reg != 0)
        put_register(pr, op->reg);
    else if (op->var != 0)
        put_var(pr, op->var);
    else
        pl_buf_i64(pr->buf, op->offset);
    if (op->reg != 0 || op->var != 0)
        put_offset(pr->buf, op->offset);
}

/* ---- short operands: those of an emitter's instruction that need no name ---- */

static bool is_short(const struct pl_ptx_printer *pr, const struct pl_ptx_operand *op)
{
    switch (op->kind) {
    case PL_PTX_OP_IMM:
    case PL_PTX_OP_SINK: return true;
    case PL_PTX_OP_REG:
    case PL_PTX_OP_LABEL: return pr->func == NULL;
    case PL_PTX_OP_ADDR: return pr->func == NULL && op->var == 0;
    }
    return false;
}

static bool is_short_list(const struct pl_ptx_printer *pr, const struct pl_ptx_operand *op,
                          const struct pl_ptx_operand *pool)
{
    if (op->kind != PL_PTX_OP_VECTOR)
        return false;
    for (uint32_t i = 0; i < op->n; i++)
        if (!is_short(pr, &pool[op->first + i]))
            return false;
    return true;
}

static void put_special(struct pl_buf *buf, const struct pl_ptx_operand *op)
{
    pl_buf_puts(buf, pl_ptx_sregs[op->sreg].text);
    if (pl_ptx_sregs[op->sreg].n_dims != 0) {
        pl_buf_putc(buf, '.');
        pl_buf_putc(buf, "xyzw"[op->sub & 3]);
    }
}

/* {%r4, %r5, …}: the printer's longest job, so without a call a character. */
static void put_range(struct pl_buf *buf, const struct pl_ptx_operand *op)
{
    char *s = pl_buf_room(buf, (size_t)op->n * 14 + 4);
    if (s == NULL)
        return;
    *s++ = '{';
    for (uint32_t i = 0; i < op->n; i++) {
        if (i != 0)
            s = pl_ptx_put_n(s, ", ", 2);
        s = pl_ptx_put_reg(s, op->reg + i);
    }
    *s++ = '}';
    pl_buf_commit(buf, s);
}

uint32_t pl_ptx_proto_number(const struct pl_ptx_module *module, uint32_t proto)
{
    uint32_t n = 0;
    while (n < proto && module->protos.data[proto - n - 1].func == module->protos.data[proto].func)
        n++;
    return n;
}

static void put_operand(const struct pl_ptx_printer *pr, const struct pl_ptx_operand *op,
                        const struct pl_ptx_operand *pool);

static void put_list(const struct pl_ptx_printer *pr, const struct pl_ptx_operand *op,
                     const struct pl_ptx_operand *pool, const char *brackets)
{
    pl_buf_putc(pr->buf, brackets[0]);
    for (uint32_t i = 0; i < op->n; i++) {
        if (i != 0)
            pl_buf_putn(pr->buf, ", ", 2);
        put_operand(pr, &pool[op->first + i], pool);
    }
    pl_buf_putc(pr->buf, brackets[1]);
}

static void put_tensor(const struct pl_ptx_printer *pr, const struct pl_ptx_operand *op,
                       const struct pl_ptx_operand *pool)
{
    pl_buf_putc(pr->buf, '[');
    for (uint32_t i = 0; i < op->n; i++) {
        const struct pl_ptx_operand *item = &pool[op->first + i];
        if (i != 0)
            pl_buf_putn(pr->buf, ", ", 2);
        if (item->kind == PL_PTX_OP_ADDR)
            put_address(pr, item);
        else
            put_operand(pr, item, pool);
    }
    pl_buf_putc(pr->buf, ']');
}

static void put_operand(const struct pl_ptx_printer *pr, const struct pl_ptx_operand *op,
                        const struct pl_ptx_operand *pool)
{
    struct pl_buf *buf = pr->buf;
    if (op->is_negated || op->is_minus)
        pl_buf_putc(buf, op->is_minus ? '-' : '!');
    switch ((enum pl_ptx_operand_kind)op->kind) {
    case PL_PTX_OP_REG: {
        put_register(pr, op->reg);
        char *start = pl_buf_room(buf, PL_PTX_LONGEST_SHORT);
        if (start != NULL)
            pl_buf_commit(buf, pl_ptx_put_selector(start, op->select));
        break;
    }
    case PL_PTX_OP_SREG: put_special(buf, op); break;
    case PL_PTX_OP_IMM: {
        char *start = pl_buf_room(buf, PL_PTX_LONGEST_SHORT);
        if (start != NULL)
            pl_buf_commit(buf, pl_ptx_put_constant(start, op));
        break;
    }
    case PL_PTX_OP_VAR:
        if (is_indexed(op)) {
            put_indexed(pr, op);
            break;
        }
        put_var(pr, op->var);
        put_offset(buf, op->offset);
        break;
    case PL_PTX_OP_ADDR:
        if (is_indexed(op)) {
            put_indexed(pr, op);
            break;
        }
        pl_buf_putc(buf, '[');
        put_address(pr, op);
        pl_buf_putc(buf, ']');
        if (op->is_unified)
            pl_buf_puts(buf, ".unified");
        break;
    case PL_PTX_OP_VECTOR: put_list(pr, op, pool, "{}"); break;
    case PL_PTX_OP_LABEL:
        pl_buf_putn(buf, "$L", 2);
        pl_buf_u64(buf, op->first - (pr->func != NULL ? pr->func->first_ins : 0));
        break;
    case PL_PTX_OP_FUNC:
        pl_buf_puts(buf, pr->module != NULL ? pr->module->funcs.data[op->first].name
                                            : pr->func_names[op->first]);
        break;
    case PL_PTX_OP_SINK: pl_buf_putc(buf, '_'); break;
    case PL_PTX_OP_PAIR:
        put_operand(pr, &pool[op->first], pool);
        pl_buf_putc(buf, '|');
        put_operand(pr, &pool[op->first + 1], pool);
        break;
    case PL_PTX_OP_TENSOR: put_tensor(pr, op, pool); break;
    case PL_PTX_OP_PROTO:
        pl_buf_putn(buf, "$P", 2);
        pl_buf_u64(buf, pl_ptx_proto_number(pr->module, op->first));
        break;
    case PL_PTX_OP_RANGE: put_range(buf, op); break;
    case PL_PTX_OP_TEXT: pl_buf_puts(buf, pr->module->texts.data[op->first]); break;
    case PL_PTX_OP_NONE: break;
    }
}

/* call (returns), target, (arguments), prototype */
static void put_call(const struct pl_ptx_printer *pr, const struct pl_ptx_ins *ins,
                     const struct pl_ptx_operand *pool)
{
    const struct pl_ptx_operand *ops = &pool[ins->operands];
    pl_buf_putc(pr->buf, ' ');
    if (ops[0].n != 0) {
        put_list(pr, &ops[0], pool, "()");
        pl_buf_putn(pr->buf, ", ", 2);
    }
    put_operand(pr, &ops[1], pool);
    if (ops[2].n != 0) {
        pl_buf_putn(pr->buf, ", ", 2);
        put_list(pr, &ops[2], pool, "()");
    }
    if (ins->n_operands == 4) {
        pl_buf_putn(pr->buf, ", ", 2);
        put_operand(pr, &ops[3], pool);
    }
}

/* A refused form: its modifiers as they were written. */
static void put_refused_mnemonic(const struct pl_ptx_printer *pr, const struct pl_ptx_ins *ins,
                                 const struct pl_ptx_operand *text)
{
    const char *mnemonic = pl_ptx_infos[ins->form].mnemonic;
    pl_buf_putn(pr->buf, mnemonic, strcspn(mnemonic, "."));
    pl_buf_puts(pr->buf, pr->module->texts.data[text->first]);
}

static void put_guard(const struct pl_ptx_printer *pr, const struct pl_ptx_ins *ins)
{
    pl_buf_puts(pr->buf, ins->guard_is_negated ? "@!" : "@");
    put_register(pr, ins->guard);
    pl_buf_putc(pr->buf, ' ');
}

/* From ops[first] on, and the end of the line, behind s. Short operands go straight into the buffer, the others come in between. */
static void put_operands(const struct pl_ptx_printer *pr, const struct pl_ptx_ins *ins,
                         const struct pl_ptx_operand *pool, uint32_t first, char *s)
{
    struct pl_buf *buf = pr->buf;
    for (uint32_t i = first; i < ins->n_operands; i++) {
        const struct pl_ptx_operand *op = &pool[ins->operands + i];
        s = pl_ptx_more(buf, s, (op->n + 1u) * (size_t)PL_PTX_LONGEST_SHORT);
        if (s == NULL)
            return;
        if (i != first)
            *s++ = ',';
        *s++ = ' ';
        if (is_short(pr, op)) {
            s = pl_ptx_put_short(s, op);
        } else if (is_short_list(pr, op, pool)) {
            s = pl_ptx_put_short_list(s, &pool[op->first], op->n);
        } else {
            pl_buf_commit(buf, s);
            put_operand(pr, op, pool);
            s = buf->text + buf->n_bytes;
        }
    }
    s = pl_ptx_more(buf, s, 2);
    if (s != NULL)
        pl_buf_commit(buf, pl_ptx_put_n(s, ";\n", 2));
}

void pl_ptx_print_ins(const struct pl_ptx_printer *pr, const struct pl_ptx_ins *ins,
                      const struct pl_ptx_operand *pool)
{
    struct pl_buf *buf = pr->buf;
    if (ins->guard != 0)
        put_guard(pr, ins);
    bool is_refused = ins->n_operands != 0 && pool[ins->operands].kind == PL_PTX_OP_TEXT;
    if (is_refused)
        put_refused_mnemonic(pr, ins, &pool[ins->operands]);
    else
        pl_ptx_print_mnemonic(buf, ins);
    if (buf->text == NULL)
        return;
    if (ins->form != PL_PTX_call) {
        put_operands(pr, ins, pool, is_refused, buf->text + buf->n_bytes);
        return;
    }
    put_call(pr, ins, pool);
    pl_buf_putn(buf, ";\n", 2);
}

void pl_ptx_print_ins_as(const struct pl_ptx_printer *pr, const struct pl_ptx_ins *ins,
                         const struct pl_ptx_operand *pool, const char *mnemonic, size_t n_bytes)
{
    char *s = pl_buf_room(pr->buf, n_bytes + 2 * (size_t)PL_PTX_LONGEST_SHORT);
    if (s != NULL)
        put_operands(pr, ins, pool, 0, pl_ptx_put_start(s, ins, mnemonic, n_bytes));
}

void pl_ptx_print_operand(const struct pl_ptx_printer *pr, const struct pl_ptx_operand *op)
{
    put_operand(pr, op, NULL);
}

/* ---- declarations ---- */

static void put_version(struct pl_buf *buf, uint16_t version)
{
    pl_buf_u64(buf, version / 10u);
    pl_buf_putc(buf, '.');
    pl_buf_u64(buf, version % 10u);
}

static void put_target(struct pl_buf *buf, uint16_t sm, char suffix)
{
    pl_buf_puts(buf, "sm_");
    pl_buf_u64(buf, sm);
    if (suffix != 0)
        pl_buf_putc(buf, suffix);
}

void pl_ptx_print_header(struct pl_buf *buf, uint16_t version, uint16_t sm, char suffix)
{
    pl_buf_puts(buf, ".version ");
    put_version(buf, version);
    pl_buf_puts(buf, "\n.target ");
    put_target(buf, sm, suffix);
    pl_buf_puts(buf, "\n.address_size 64\n");
}

static const char *space_text(uint8_t space)
{
    switch ((enum pl_ptx_space)space) {
    case PL_PTX_SPACE_REG: return ".reg";
    case PL_PTX_SPACE_CONST: return ".const";
    case PL_PTX_SPACE_GLOBAL: return ".global";
    case PL_PTX_SPACE_LOCAL: return ".local";
    case PL_PTX_SPACE_SHARED: return ".shared";
    case PL_PTX_SPACE_PARAM: return ".param";
    case PL_PTX_SPACE_GENERIC: break;
    }
    return "";
}

static unsigned bytes_of(uint8_t type) { return (pl_ptx_types[type].bits + 7u) / 8u; }

/* ".align 4 .b8 name[16]" */
static void put_declarator(struct pl_buf *buf, const struct pl_ptx_var *v, const char *name,
                           uint32_t scope)
{
    unsigned elem_bytes = bytes_of(v->type);
    if (v->align_bytes != elem_bytes) {
        pl_buf_puts(buf, " .align ");
        pl_buf_u64(buf, v->align_bytes);
    }
    pl_buf_puts(buf, " .");
    pl_buf_puts(buf, pl_ptx_types[v->type].text);
    pl_buf_putc(buf, ' ');
    put_scoped(buf, name, scope);
    if (v->n_bytes == elem_bytes)
        return;
    pl_buf_putc(buf, '[');
    if (v->n_bytes != 0)
        pl_buf_u64(buf, v->n_bytes / elem_bytes);
    pl_buf_putc(buf, ']');
}

static void put_linkage(struct pl_buf *buf, bool is_extern, bool is_visible, bool is_weak)
{
    if (is_extern)
        pl_buf_puts(buf, ".extern ");
    if (is_visible)
        pl_buf_puts(buf, ".visible ");
    if (is_weak)
        pl_buf_puts(buf, ".weak ");
}

void pl_ptx_print_var_head(struct pl_buf *buf, const struct pl_ptx_var *var)
{
    put_linkage(buf, var->is_extern, var->is_visible, var->is_weak);
    if (var->is_common)
        pl_buf_puts(buf, ".common ");
    pl_buf_puts(buf, space_text(var->space));
    if (var->is_managed)
        pl_buf_puts(buf, " .attribute(.managed)");
    put_declarator(buf, var, var->name, var->scope);
}

void pl_ptx_print_var(struct pl_buf *buf, const struct pl_ptx_var *var)
{
    pl_ptx_print_var_head(buf, var);
    pl_buf_puts(buf, ";\n");
}

static void put_triple(struct pl_buf *buf, const char *word, const uint32_t v[3])
{
    if (v[0] == 0)
        return;
    pl_buf_putc(buf, '\n');
    pl_buf_puts(buf, word);
    for (int i = 0; i < 3; i++) {
        pl_buf_putn(buf, i == 0 ? " " : ", ", i == 0 ? 1 : 2);
        pl_buf_u64(buf, v[i]);
    }
}

static void put_number(struct pl_buf *buf, const char *word, uint32_t v)
{
    if (v == 0)
        return;
    pl_buf_putc(buf, '\n');
    pl_buf_puts(buf, word);
    pl_buf_putc(buf, ' ');
    pl_buf_u64(buf, v);
}

void pl_ptx_print_entry(struct pl_buf *buf, const struct pl_ptx_entry *entry)
{
    pl_buf_puts(buf, ".visible .entry ");
    pl_buf_puts(buf, entry->name);
    pl_buf_putc(buf, '(');
    for (uint32_t i = 0; i < entry->n_params; i++) {
        const struct pl_ptx_param *q = &entry->params[i];
        unsigned elem_bytes = bytes_of((uint8_t)q->type);
        struct pl_ptx_var v = {.type = (uint8_t)q->type,
                               .align_bytes = q->align_bytes != 0 ? q->align_bytes : elem_bytes,
                               .n_bytes = q->n_elems != 0 ? q->n_elems * elem_bytes : elem_bytes};
        pl_buf_puts(buf, i == 0 ? "\n    .param" : ",\n    .param");
        put_declarator(buf, &v, q->name, 0);
    }
    pl_buf_puts(buf, ")");
    put_triple(buf, ".maxntid", entry->max_ntid);
    put_triple(buf, ".reqntid", entry->req_ntid);
    put_number(buf, ".minnctapersm", entry->min_nctapersm);
    put_number(buf, ".maxnreg", entry->max_nreg);
    put_triple(buf, ".reqnctapercluster", entry->req_cluster);
    if (entry->is_explicit_cluster)
        pl_buf_puts(buf, "\n.explicitcluster");
    pl_buf_puts(buf, "\n{\n");
}

void pl_ptx_print_regs(struct pl_buf *buf, enum pl_ptx_type type, uint32_t n)
{
    if (n == 0)
        return;
    char name[16];
    char *s = pl_ptx_put_reg(name, pl_ptx_reg_id(type, 0));
    s[-1] = 0; /* without the number */
    pl_buf_puts(buf, ".reg .");
    pl_buf_puts(buf, pl_ptx_types[type].text);
    pl_buf_putc(buf, ' ');
    pl_buf_puts(buf, name);
    pl_buf_putc(buf, '<');
    pl_buf_u64(buf, n);
    pl_buf_puts(buf, ">;\n");
}

void pl_ptx_print_reg(struct pl_buf *buf, uint32_t reg_id)
{
    char name[16];
    pl_buf_putn(buf, name, (size_t)(pl_ptx_put_reg(name, reg_id) - name));
}

void pl_ptx_print_label(struct pl_buf *buf, uint32_t number)
{
    pl_buf_putn(buf, "$L", 2);
    pl_buf_u64(buf, number);
    pl_buf_putn(buf, ":\n", 2);
}

void pl_ptx_print_end(struct pl_buf *buf) { pl_buf_puts(buf, "}\n"); }
