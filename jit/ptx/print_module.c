/* Whole parsed modules as text. */
#include "jit/ptx/print.h"

#include <string.h>

struct printer {
    struct pl_ptx_printer pr; /* first: of the function being printed */
    const struct pl_ptx_module *m;
    bool *is_label; /* by instruction, one more than there are */
};

static uint64_t read_bytes(const uint8_t *bytes, unsigned n)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < n && i < 8; i++)
        v |= (uint64_t)bytes[i] << 8 * i;
    return v;
}

static void put_reloc(const struct printer *w, const struct pl_ptx_reloc *r)
{
    struct pl_buf *buf = w->pr.buf;
    bool is_masked = r->n_bytes == 1;
    const char *name =
        r->var != 0 ? w->m->vars.data[r->var - 1].name : w->m->funcs.data[r->func - 1].name;
    if (is_masked) {
        pl_buf_puts(buf, "0xFF");
        for (unsigned i = 0; i < r->first_byte; i++)
            pl_buf_puts(buf, "00");
        pl_buf_putc(buf, '(');
    }
    if (r->is_generic)
        pl_buf_puts(buf, "generic(");
    pl_buf_puts(buf, name);
    if (r->is_generic)
        pl_buf_putc(buf, ')');
    if (r->addend != 0) {
        pl_buf_putc(buf, '+');
        pl_buf_i64(buf, r->addend);
    }
    if (is_masked)
        pl_buf_putc(buf, ')');
}

static void put_initialiser(const struct printer *w, const struct pl_ptx_var *v)
{
    struct pl_buf *buf = w->pr.buf;
    const struct pl_ptx_type_info *t = &pl_ptx_types[v->type];
    unsigned elem_bytes = (t->bits + 7u) / 8u;
    bool is_array = v->n_bytes != elem_bytes;
    uint32_t reloc = 0;
    pl_buf_puts(buf, is_array ? " = {" : " = ");
    for (uint64_t at = 0; at < v->init_n_bytes; at += elem_bytes) {
        if (at != 0)
            pl_buf_puts(buf, ", ");
        if (reloc < v->n_relocs && v->relocs[reloc].offset_bytes == at) {
            put_reloc(w, &v->relocs[reloc++]);
            continue;
        }
        uint64_t bits = read_bytes(v->init + at, elem_bytes);
        if (t->class == PL_PTX_CLASS_FLOAT && elem_bytes >= 4) {
            pl_buf_puts(buf, elem_bytes == 4 ? "0f" : "0d");
            pl_buf_hex(buf, bits, (int)elem_bytes * 2);
        } else {
            pl_buf_u64(buf, bits);
        }
    }
    if (is_array)
        pl_buf_putc(buf, '}');
}

static void put_var(const struct printer *w, const struct pl_ptx_var *v)
{
    pl_ptx_print_var_head(w->pr.buf, v);
    if (v->init != NULL)
        put_initialiser(w, v);
    pl_buf_puts(w->pr.buf, ";\n");
}

/* An initialiser may name a variable that follows, once that was declared. PTX ISA, "Linking Directives: .extern" */
static void put_forward(const struct printer *w, uint32_t index)
{
    const struct pl_ptx_var *v = &w->m->vars.data[index];
    for (uint32_t k = 0; k < v->n_relocs; k++) {
        uint32_t var = v->relocs[k].var;
        if (var <= index + 1)
            continue;
        struct pl_ptx_var later = w->m->vars.data[var - 1];
        later.is_extern = true;
        later.is_visible = later.is_weak = later.is_common = false;
        pl_ptx_print_var_head(w->pr.buf, &later);
        pl_buf_puts(w->pr.buf, ";\n");
    }
}

/* "(.param .b32 a, .param .b64 b)" */
static void put_params(const struct printer *w, const struct pl_ptx_func *f, const uint32_t *list,
                       uint32_t n)
{
    struct pl_buf *buf = w->pr.buf;
    pl_buf_putc(buf, '(');
    for (uint32_t i = 0; i < n; i++) {
        if (i != 0)
            pl_buf_puts(buf, ", ");
        if (f->has_reg_params) {
            pl_buf_puts(buf, ".reg .");
            pl_buf_puts(buf, pl_ptx_types[f->regs.data[list[i]].type].text);
            pl_buf_putc(buf, ' ');
            pl_ptx_print_reg_name(buf, f, list[i]);
        } else {
            pl_ptx_print_var_head(buf, &w->m->vars.data[list[i]]);
        }
    }
    pl_buf_putc(buf, ')');
}

static void put_word(struct pl_buf *buf, bool is_there, const char *word)
{
    if (is_there)
        pl_buf_puts(buf, word);
}

static void put_head(const struct printer *w, const struct pl_ptx_func *f)
{
    struct pl_buf *buf = w->pr.buf;
    put_word(buf, f->is_extern && !f->has_body, ".extern ");
    put_word(buf, f->is_visible, ".visible ");
    put_word(buf, f->is_weak, ".weak ");
    pl_buf_puts(buf, f->is_entry ? ".entry " : ".func ");
    if (f->n_returns != 0) {
        put_params(w, f, f->returns, f->n_returns);
        pl_buf_putc(buf, ' ');
    }
    pl_buf_puts(buf, f->name);
    put_params(w, f, f->params, f->n_params);
}

static void put_numbers(struct pl_buf *buf, const char *word, const uint32_t *v, int n)
{
    if (v[0] == 0)
        return;
    pl_buf_puts(buf, word);
    for (int i = 0; i < n; i++) {
        pl_buf_puts(buf, i == 0 ? " " : ", ");
        pl_buf_u64(buf, v[i]);
    }
}

static void put_directives(const struct printer *w, const struct pl_ptx_func *f)
{
    struct pl_buf *buf = w->pr.buf;
    put_numbers(buf, "\n.maxntid", f->max_ntid, 3);
    put_numbers(buf, "\n.reqntid", f->req_ntid, 3);
    put_numbers(buf, "\n.minnctapersm", &f->min_nctapersm, 1);
    put_numbers(buf, "\n.maxnreg", &f->max_nreg, 1);
    put_numbers(buf, "\n.reqnctapercluster", f->req_cluster, 3);
    put_numbers(buf, "\n.maxclusterrank", &f->max_cluster_rank, 1);
    put_word(buf, f->is_explicit_cluster, "\n.explicitcluster");
    put_word(buf, f->is_noreturn, "\n.noreturn");
}

static bool is_parameter(const struct pl_ptx_func *f, uint32_t reg)
{
    if (!f->has_reg_params)
        return false;
    for (uint32_t i = 0; i < f->n_params; i++)
        if (f->params[i] == reg)
            return true;
    for (uint32_t i = 0; i < f->n_returns; i++)
        if (f->returns[i] == reg)
            return true;
    return false;
}

static void put_locals(const struct printer *w, const struct pl_ptx_func *f)
{
    struct pl_buf *buf = w->pr.buf;
    uint32_t self = (uint32_t)(f - w->m->funcs.data) + 1;
    for (uint32_t i = 0; i < f->regs.n; i++) {
        if (is_parameter(f, i))
            continue;
        pl_buf_puts(buf, ".reg .");
        pl_buf_puts(buf, pl_ptx_types[f->regs.data[i].type].text);
        pl_buf_putc(buf, ' ');
        pl_ptx_print_reg_name(buf, f, i);
        pl_buf_puts(buf, ";\n");
    }
    for (uint32_t i = 0; i < w->m->vars.n; i++)
        if (w->m->vars.data[i].func == self && w->m->vars.data[i].param_offset < 0)
            put_var(w, &w->m->vars.data[i]);
    for (uint32_t i = 0; i < w->m->protos.n; i++) {
        const struct pl_ptx_proto *proto = &w->m->protos.data[i];
        if (proto->func + 1 != self)
            continue;
        pl_buf_puts(buf, "$P");
        pl_buf_u64(buf, pl_ptx_proto_number(w->m, i));
        if (proto->text != NULL) {
            pl_buf_puts(buf, ": .callprototype ");
            pl_buf_puts(buf, proto->text);
        }
        bool is_calls = proto->is_calls;
        for (uint32_t k = 0; k < proto->n_targets; k++) {
            pl_buf_puts(buf, k != 0 ? ", " : is_calls ? ": .calltargets " : ": .branchtargets ");
            if (is_calls) {
                pl_buf_puts(buf, w->m->funcs.data[proto->targets[k]].name);
            } else {
                pl_buf_puts(buf, "$L");
                pl_buf_u64(buf, proto->targets[k] - f->first_ins);
            }
        }
        pl_buf_puts(buf, ";\n");
    }
}

static void put_body(struct printer *w, const struct pl_ptx_func *f)
{
    struct pl_buf *buf = w->pr.buf;
    w->pr.func = f;
    put_head(w, f);
    put_directives(w, f);
    pl_buf_puts(buf, "\n{\n");
    put_locals(w, f);
    for (uint32_t i = f->first_ins; i <= f->first_ins + f->n_ins; i++) {
        if (w->is_label[i])
            pl_ptx_print_label(buf, i - f->first_ins);
        if (i < f->first_ins + f->n_ins)
            pl_ptx_print_ins(&w->pr, &w->m->ins.data[i], w->m->pool.data);
    }
    pl_ptx_print_end(buf);
}

/* Which instructions are branched to. A label at a function's end is the next one's first instruction too: both print it. */
static bool find_labels(struct printer *w)
{
    w->is_label = pl_arena_array(w->pr.buf->arena, w->m->ins.n + 1, sizeof *w->is_label);
    if (w->is_label == NULL)
        return false;
    for (uint32_t i = 0; i < w->m->pool.n; i++)
        if (w->m->pool.data[i].kind == PL_PTX_OP_LABEL)
            w->is_label[w->m->pool.data[i].first] = true;
    for (uint32_t i = 0; i < w->m->protos.n; i++)
        for (uint32_t k = 0; k < w->m->protos.data[i].n_targets && !w->m->protos.data[i].is_calls;
             k++)
            w->is_label[w->m->protos.data[i].targets[k]] = true;
    return true;
}

static void put_module_head(struct pl_buf *buf, const struct pl_ptx_module *m)
{
    struct pl_buf header;
    pl_buf_init(&header, buf->arena, 80);
    pl_ptx_print_header(&header, m->version, m->sm, m->suffix);
    if (header.text == NULL)
        return;
    const char *address_size = strstr(header.text, "\n.address_size");
    pl_buf_putn(buf, header.text, (size_t)(address_size - header.text));
    put_word(buf, m->is_texmode_independent, ", texmode_independent");
    pl_buf_puts(buf, address_size);
}

void pl_ptx_print_module(struct pl_buf *buf, const struct pl_ptx_module *module)
{
    struct printer w = {.pr = {.buf = buf, .module = module}, .m = module};
    if (!find_labels(&w))
        return;
    put_module_head(buf, module);
    for (uint32_t i = 0; i < module->funcs.n;
         i++) { /* first all that may be named: functions, then variables */
        const struct pl_ptx_func *f = &module->funcs.data[i];
        if (f->is_entry && f->has_body)
            continue;
        put_head(&w, f);
        put_word(buf, f->is_noreturn, " .noreturn");
        pl_buf_puts(buf, ";\n");
    }
    for (uint32_t i = 0; i < module->vars.n; i++)
        if (module->vars.data[i].func == 0) {
            put_forward(&w, i);
            put_var(&w, &module->vars.data[i]);
        }
    for (int is_entry = 0; is_entry <= 1; is_entry++)
        for (uint32_t i = 0; i < module->funcs.n; i++)
            if (module->funcs.data[i].has_body && module->funcs.data[i].is_entry == is_entry)
                put_body(&w, &module->funcs.data[i]);
}
