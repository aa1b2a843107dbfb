#include "tests/ops_run.h"

#include "base/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_INS = 8, MAX_CONSTS = 8 };

struct ops_code {
    struct pl_arena arena;
    struct pl_ptx_module module;
    struct pl_emu_op ops[MAX_INS];
    unsigned n_ins;
};

static const char prologue[] =
    ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k()\n{\n"
    ".reg .pred %p<10>; .reg .b8 %b<10>; .reg .b16 %h<10>; .reg .b32 %r<10>; .reg .b64 %d<10>;\n";

static bool select_all(struct ops_code *c)
{
    const struct pl_ptx_func *f = &c->module.funcs.data[0];
    for (unsigned i = 0; i < c->n_ins; i++)
        if (!pl_emu_op_select(&c->module, f, &c->module.ins.data[f->first_ins + i], &c->ops[i]))
            return false;
    return true;
}

struct ops_code *ops_compile(const char *body, char *why)
{
    struct ops_code *c = calloc(1, sizeof *c);
    size_t n_bytes = sizeof prologue + strlen(body) + 16;
    char *text = malloc(n_bytes);
    int n = snprintf(text, n_bytes, "%s%s\nret;\n}\n", prologue, body);
    struct pl_ptx_error error = {0};
    bool is_parsed = pl_ptx_parse(text, (size_t)n, &c->arena, &c->module, &error);
    free(text);
    if (!is_parsed) {
        snprintf(why, 300, "line %u: %s", error.line, error.text);
        ops_free(c);
        return NULL;
    }
    c->n_ins = c->module.funcs.data[0].n_ins - 1; /* without ret */
    if (c->n_ins == 0 || c->n_ins > MAX_INS || !select_all(c)) {
        snprintf(why, 300, "no kernel for %s", body);
        ops_free(c);
        return NULL;
    }
    return c;
}

void ops_free(struct ops_code *c)
{
    pl_arena_fini(&c->arena);
    free(c);
}

void ops_reselect(struct ops_code *c) { select_all(c); }

uint16_t ops_form(const struct ops_code *c, unsigned i)
{
    return i < c->n_ins ? c->module.ins.data[c->module.funcs.data[0].first_ins + i].form
                        : PL_PTX_NONE;
}

/* "%r3" */
static void *lanes_of_name(struct ops_frame *f, const char *name)
{
    unsigned i = (unsigned)(name[2] - '0');
    switch (name[1]) {
    case 'p': return f->p[i];
    case 'b': /* a byte in the room of 16 bits */
    case 'h': return f->h[i];
    case 'r': return f->r[i];
    default: return f->d[i];
    }
}

struct broadcast {
    _Alignas(64) uint64_t lanes[32];
};

static const void *broadcast(struct broadcast *b, uint8_t bits, uint64_t v)
{
    for (unsigned i = 0; i < 32; i++) {
        if (bits == 16)
            ((uint16_t *)b->lanes)[i] = (uint16_t)v;
        else if (bits == 32)
            ((uint32_t *)b->lanes)[i] = (uint32_t)v;
        else
            b->lanes[i] = v;
    }
    return b->lanes;
}

static void run_one(const struct ops_code *c, unsigned k, struct ops_frame *frame, uint32_t mask,
                    bool is_full)
{
    const struct pl_ptx_func *f = &c->module.funcs.data[0];
    const struct pl_ptx_ins *ins = &c->module.ins.data[f->first_ins + k];
    const struct pl_ptx_operand *pool = c->module.pool.data, *o = &pool[ins->operands];
    const struct pl_emu_op *op = &c->ops[k];
    static _Alignas(64) uint64_t scratch[2][32];
    struct broadcast consts[MAX_CONSTS];
    const void *src[PL_EMU_OP_MAX_SRC] = {NULL};
    void *d[2] = {scratch[0], op->d2_bits ? scratch[1] : NULL};
    unsigned n_dst = o->kind == PL_PTX_OP_PAIR ? 2 : 1, n_src = 0;
    for (unsigned i = 0; i < n_dst; i++) {
        const struct pl_ptx_operand *e = n_dst == 2 ? &pool[o->first + i] : o;
        if (e->kind == PL_PTX_OP_REG)
            d[i] = lanes_of_name(frame, f->regs.data[e->reg - 1].name);
    }
    for (unsigned i = 1; i < ins->n_operands; i++) {
        unsigned n = o[i].kind == PL_PTX_OP_VECTOR ? o[i].n : 1;
        for (unsigned j = 0; j < n; j++, n_src++) {
            const struct pl_ptx_operand *e =
                o[i].kind == PL_PTX_OP_VECTOR ? &pool[o[i].first + j] : &o[i];
            src[n_src] = e->kind == PL_PTX_OP_REG
                             ? lanes_of_name(frame, f->regs.data[e->reg - 1].name)
                             : broadcast(&consts[n_src], op->src_bits[n_src], e->imm);
        }
    }
    struct pl_emu_opx x = {.d2 = d[1], .e = src[3], .f = src[4], .cc = &frame->cc, .imm = op->imm};
    (is_full ? op->full : op->masked)(d[0], src[0], src[1], src[2], mask, &x);
}

void ops_run(const struct ops_code *c, struct ops_frame *frame, uint32_t mask, bool is_full)
{
    for (unsigned k = 0; k < c->n_ins; k++)
        run_one(c, k, frame, mask, is_full);
}
