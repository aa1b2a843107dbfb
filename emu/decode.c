/*
 * Decoding: every operand becomes a bank and an offset, every branch a pointer, every row its kernel or executor.
 *
 * A function is decoded in one walk over its instructions. Before it, emu/flow.c finds where split groups meet; a join point
 * is inserted there. What an instruction needs that only the activation knows (the address of a local variable, a clock) is
 * computed into a temporary by an instruction inserted before it. Indices of instructions are turned into pointers at the
 * end, when the code no longer moves.
 */
#include "emu/program.h"

#include "base/debug.h"
#include "base/diag.h"
#include "emu/builtin.h"
#include "emu/device.h"
#include "emu/exec/control.h"
#include "emu/exec/mem.h"
#include "emu/faults.h"
#include "emu/flow.h"
#include "emu/rows.h"
#include "emu/slots.h"
#include "emu/warp.h"
#include "jit/ptx/print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct decoder {
    struct pl_emu_program *p;
    const struct pl_ptx_module *m;
    struct pl_arena *arena;   /* the program's */
    struct pl_arena *scratch; /* of the load */
    struct pl_diags *diags;
    /* constants, broadcast */
    PL_VEC(uint8_t) consts;
    uint32_t *const_table; /* hash table of offsets + 1 into consts; keys are the bytes there */
    uint32_t n_const_table, n_consts;
    PL_VEC(struct pl_emu_slot) slots;
    uint32_t sreg_bytes;
    /* the function */
    const struct pl_ptx_func *f;
    struct pl_emu_func *out;
    const struct pl_emu_flow *flow;
    uint32_t *reg_offsets; /* of each register in the frame */
    uint32_t frame_bytes;
    uint32_t sink; /* scratch lane array of the frame: what `_` receives */
    uint32_t *
        local_offsets; /* of each variable of the module in this activation's local memory; UINT32_MAX: none */
    uint32_t local_bytes;
    PL_VEC(struct pl_emu_ins) code;
    uint32_t *
        code_of; /* first decoded instruction of each PTX instruction of the function, and of its end */
    /* the instruction */
    const struct pl_ptx_ins *ins;
    PL_VEC(struct pl_emu_arg) args;
};

static uint32_t round_up(uint32_t v, uint32_t to) { return (v + to - 1) / to * to; }

static struct pl_where where(const struct decoder *d)
{
    return (struct pl_where){.line = d->ins != NULL ? (int)d->ins->line : (int)d->f->line};
}

static const char *ins_name(const struct decoder *d) { return pl_ptx_infos[d->ins->form].mnemonic; }

/* ---- containers and lane arrays --------------------------------------------------------------------------------------------------- */

static uint8_t container_bits(uint8_t type)
{
    unsigned bits = pl_ptx_types[type].bits;
    return (uint8_t)(bits <= 1 ? 1 : bits <= 16 ? 16 : bits <= 32 ? 32 : bits <= 64 ? 64 : 128);
}

static uint32_t lanes_bytes(unsigned bits) { return bits == 1 ? 4 : bits / 8 * PL_EMU_LANES; }

static uint32_t take_frame(struct decoder *d, unsigned bits)
{
    if (bits != 1)
        d->frame_bytes = round_up(d->frame_bytes, 64);
    uint32_t at = d->frame_bytes;
    d->frame_bytes += lanes_bytes(bits);
    return at;
}

static struct pl_emu_arg frame_arg(uint32_t offset_bytes, unsigned bits)
{
    return (struct pl_emu_arg){.kind = PL_EMU_ARG_VALUE,
                               .bank = PL_EMU_BANK_FRAME,
                               .bits = (uint8_t)bits,
                               .offset_bytes = offset_bytes};
}

/* ---- constants: each value and width once ------------------------------------------------------------------------------------------ */

static void broadcast(uint8_t *to, unsigned bits, uint64_t v)
{
    if (bits == 1) {
        uint32_t mask = v != 0 ? PL_EMU_ALL_LANES : 0;
        memcpy(to, &mask, sizeof mask);
        return;
    }
    for (uint32_t i = 0; i < PL_EMU_LANES; i++) {
        if (bits == 128) {
            struct pl_emu_u128 wide = {v, 0};
            memcpy(to + (size_t)i * 16, &wide, 16);
        } else {
            memcpy(to + (size_t)i * (bits / 8), &v, bits / 8); /* little endian, as PTX is */
        }
    }
}

static uint64_t const_hash(unsigned bits, uint64_t v)
{
    uint64_t h = (v ^ bits) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static bool grow_const_table(struct decoder *d);

/* The key of the constant at an offset: its width stands before the lanes' 64-byte line. */
static uint32_t *find_const(struct decoder *d, unsigned bits, uint64_t v)
{
    for (uint32_t at = (uint32_t)const_hash(bits, v) & (d->n_const_table - 1);;
         at = (at + 1) & (d->n_const_table - 1)) {
        uint32_t *e = &d->const_table[at];
        if (*e == 0)
            return e;
        const uint8_t *p = d->consts.data + *e - 1;
        uint64_t value, width;
        memcpy(&width, p - 16, 8);
        memcpy(&value, p - 8, 8);
        if (width == bits && value == v)
            return e;
    }
}

static bool push_consts(struct decoder *d, uint32_t n_bytes)
{
    uint32_t n = d->consts.n + n_bytes;
    while (d->consts.cap < n) {
        uint8_t *grown = pl_vec_grown(d->scratch, d->consts.data, d->consts.n, &d->consts.cap, 1);
        if (grown == NULL)
            return false;
        d->consts.data = grown;
    }
    memset(d->consts.data + d->consts.n, 0, n_bytes);
    d->consts.n = n;
    return true;
}

static uint32_t const_at(struct decoder *d, unsigned bits, uint64_t v)
{
    if (bits < 64 && bits != 1)
        v &= ((uint64_t)1 << bits) - 1;
    if (d->n_consts * 2 >= d->n_const_table && !grow_const_table(d))
        return 0;
    uint32_t *e = find_const(d, bits, v);
    if (*e != 0)
        return *e - 1;
    uint32_t offset = d->consts.n + 64; /* a 64-byte line holds the key, the lanes follow aligned */
    if (!push_consts(d, 64 + round_up(lanes_bytes(bits), 64)))
        return 0;
    uint64_t width = bits;
    memcpy(d->consts.data + offset - 16, &width, 8);
    memcpy(d->consts.data + offset - 8, &v, 8);
    broadcast(d->consts.data + offset, bits, v);
    *e = offset + 1;
    d->n_consts++;
    return offset;
}

static bool grow_const_table(struct decoder *d)
{
    uint32_t n_old = d->n_const_table;
    uint32_t *old = d->const_table;
    uint32_t n = n_old == 0 ? 64 : n_old * 2;
    uint32_t *table = pl_arena_array(d->scratch, n, sizeof *table);
    if (table == NULL)
        return false;
    d->const_table = table;
    d->n_const_table = n;
    for (uint32_t i = 0; i < n_old; i++) {
        if (old[i] == 0)
            continue;
        uint64_t value, width;
        memcpy(&width, d->consts.data + old[i] - 1 - 16, 8);
        memcpy(&value, d->consts.data + old[i] - 1 - 8, 8);
        *find_const(d, (unsigned)width, value) = old[i];
    }
    return true;
}

static struct pl_emu_arg const_arg(struct decoder *d, unsigned bits, uint64_t v)
{
    return (struct pl_emu_arg){.kind = PL_EMU_ARG_VALUE,
                               .bank = PL_EMU_BANK_CONST,
                               .bits = (uint8_t)bits,
                               .is_uniform = true,
                               .offset_bytes = const_at(d, bits, v)};
}

/* ---- special registers and shared addresses: slots of the warp ------------------------------------------------------------------------ */

static struct pl_emu_arg slot_arg(struct decoder *d, struct pl_emu_slot want)
{
    for (uint32_t i = 0; i < d->slots.n; i++) {
        struct pl_emu_slot *s = &d->slots.data[i];
        if (s->bits == want.bits && s->is_shared == want.is_shared &&
            s->is_generic == want.is_generic && s->sreg == want.sreg && s->dim == want.dim &&
            s->var == want.var && s->addend == want.addend) {
            struct pl_emu_arg a = frame_arg(s->offset_bytes, s->bits);
            a.bank = PL_EMU_BANK_SREG;
            return a;
        }
    }
    struct pl_emu_slot *s = pl_vec_push(d->scratch, &d->slots);
    struct pl_emu_arg a = frame_arg(0, want.bits);
    a.bank = PL_EMU_BANK_SREG;
    if (s == NULL)
        return a;
    *s = want;
    s->offset_bytes = a.offset_bytes = d->sreg_bytes;
    d->sreg_bytes += round_up(lanes_bytes(want.bits), 64);
    return a;
}

static struct pl_emu_arg shared_arg(struct decoder *d, uint32_t var, int64_t addend, unsigned bits,
                                    bool is_generic)
{
    struct pl_emu_arg a = slot_arg(d, (struct pl_emu_slot){.bits = (uint8_t)bits,
                                                           .is_shared = true,
                                                           .is_generic = is_generic,
                                                           .var = var,
                                                           .addend = addend});
    a.is_uniform = true;
    return a;
}

/* Special registers whose value changes while the warp runs. */
static bool is_changing(uint16_t sreg)
{
    switch (sreg) {
    case PL_PTX_SREG_clock:
    case PL_PTX_SREG_clock_hi:
    case PL_PTX_SREG_clock64:
    case PL_PTX_SREG_globaltimer:
    case PL_PTX_SREG_globaltimer_lo:
    case PL_PTX_SREG_globaltimer_hi: return true;
    default: return false;
    }
}

/* ---- emitting ---------------------------------------------------------------------------------------------------------------------------- */

static struct pl_emu_ins *emit(struct decoder *d, pl_emu_exec_fn *exec)
{
    struct pl_emu_ins *i = pl_vec_push(d->scratch, &d->code);
    if (i == NULL)
        return NULL;
    *i = (struct pl_emu_ins){0}; /* the vector is used again for each function */
    i->kind = PL_EMU_KIND_EXEC;
    i->exec = d->ins != NULL ? pl_emu_rows_wrap(d->p->device->rows, d->ins->form, exec) : exec;
    i->line = d->ins != NULL ? d->ins->line : d->f->line;
    i->ptx = d->ins;
    if (d->ins == NULL)
        return i;
    const struct pl_ptx_info *info = &pl_ptx_infos[d->ins->form];
    i->is_for_warp =
        (info->flags & PL_PTX_F_ALIGNED) != 0 || d->ins->mods[PL_PTX_CAT_ALIGN] != PL_PTX_MOD_NONE;
    i->is_barrier = strncmp(info->mnemonic, "bar", 3) == 0; /* bar, barrier, barrier.cluster */
    return i;
}

/* An inserted instruction with one destination: a fresh temporary, or none when memory ran out. */
static struct pl_emu_arg emit_temp(struct decoder *d, pl_emu_exec_fn *exec, unsigned bits,
                                   uint64_t imm)
{
    struct pl_emu_arg t = frame_arg(take_frame(d, bits), bits);
    struct pl_emu_arg *arg = PL_NEW(d->arena, struct pl_emu_arg);
    struct pl_emu_ins *i = emit(d, exec);
    if (arg == NULL || i == NULL)
        return t;
    *arg = t;
    i->args = arg;
    i->n_args = 1;
    i->imm = imm;
    return t;
}

static void emit_join(struct decoder *d)
{
    struct pl_emu_ins *j = emit(d, NULL);
    if (j == NULL)
        return;
    j->kind = PL_EMU_KIND_JOIN;
    j->ptx = NULL;
}

/* The guard predicate of the instruction, on what was emitted last for it. */
static void guard(struct decoder *d)
{
    if (d->ins->guard == 0 || d->code.n == 0)
        return;
    struct pl_emu_ins *last = &d->code.data[d->code.n - 1];
    last->has_guard = true;
    last->is_guard_negated = d->ins->guard_is_negated;
    last->guard_offset_bytes = d->reg_offsets[d->ins->guard - 1];
}

/* ---- operands -------------------------------------------------------------------------------------------------------------------------------- */

static struct pl_emu_arg reg_arg(struct decoder *d, uint32_t reg)
{
    return frame_arg(d->reg_offsets[reg], container_bits(d->f->regs.data[reg].type));
}

static const struct pl_ptx_var *var_of(const struct decoder *d, const struct pl_ptx_operand *o)
{
    return &d->m->vars.data[o->var - 1];
}

static bool is_entry_param(const struct decoder *d, const struct pl_ptx_var *v)
{
    return v->space == PL_PTX_SPACE_PARAM && v->func != 0 &&
           d->m->funcs.data[v->func - 1].is_entry && v->param_offset >= 0;
}

/* Kept in local memory: .local variables, and .param variables of device functions and calls. */
static bool is_local(const struct decoder *d, const struct pl_ptx_var *v)
{
    return v->space == PL_PTX_SPACE_LOCAL ||
           (v->space == PL_PTX_SPACE_PARAM && !is_entry_param(d, v));
}

static uint32_t local_offset(struct decoder *d, uint32_t var)
{
    if (d->local_offsets[var] != UINT32_MAX)
        return d->local_offsets[var];
    const struct pl_ptx_var *v = &d->m->vars.data[var];
    uint32_t align = v->align_bytes > 16 ? 16 : v->align_bytes == 0 ? 1 : v->align_bytes;
    d->local_bytes = round_up(d->local_bytes, align < 4 ? 4 : align);
    d->local_offsets[var] = d->local_bytes;
    d->local_bytes += (uint32_t)v->n_bytes;
    return d->local_offsets[var];
}

/* The address of a variable as a value: in its space, as mov gives it. */
static struct pl_emu_arg var_value(struct decoder *d, const struct pl_ptx_operand *o, unsigned bits)
{
    const struct pl_ptx_var *v = var_of(d, o);
    uint32_t var = o->var - 1;
    if (v->space == PL_PTX_SPACE_SHARED)
        return shared_arg(d, var, o->offset, bits, false);
    if (is_entry_param(d, v))
        return const_arg(d, bits, (uint64_t)(v->param_offset + o->offset));
    if (is_local(d, v)) {
        bool is_param =
            v->space ==
            PL_PTX_SPACE_PARAM; /* a device function's: only its generic address is of use */
        d->out->uses_local_base = true;
        return emit_temp(d, pl_emu_exec_local_address, bits,
                         local_offset(d, var) + (uint64_t)o->offset +
                             (is_param ? PL_EMU_LOCAL_WINDOW : 0));
    }
    return const_arg(d, bits, d->p->var_addresses[var] + (uint64_t)o->offset);
}

static struct pl_emu_arg sreg_value(struct decoder *d, const struct pl_ptx_operand *o,
                                    unsigned bits)
{
    if (is_changing(o->sreg))
        return emit_temp(d, pl_emu_exec_read_sreg, bits, o->sreg);
    return slot_arg(d, (struct pl_emu_slot){.bits = (uint8_t)bits, .sreg = o->sreg, .dim = o->sub});
}

/* Forms whose addresses are generic when no space is written. */
static bool takes_generic(const struct decoder *d)
{
    static const char *const heads[] = {
        "ld", "st", "atom", "red", "mbarrier", "prefetch", "cp.async.mbarrier", "wmma"};
    const char *m = ins_name(d);
    if (d->ins->mods[PL_PTX_CAT_SPACE] != PL_PTX_MOD_NONE || strncmp(m, "stmatrix", 8) == 0 ||
        strncmp(m, "ldmatrix", 8) == 0)
        return false;
    for (unsigned i = 0; i < PL_COUNT(heads); i++) {
        size_t n = strlen(heads[i]);
        if (strncmp(m, heads[i], n) == 0 && (m[n] == 0 || m[n] == '.'))
            return true;
    }
    return false;
}

static struct pl_emu_arg address_arg(struct decoder *d, const struct pl_ptx_operand *o);

/*
 * v[r+i]: number r + i times the bytes of an element, in the width of r, zero-extended; which an address is added to. ptxas 13.0
 * makes the same code of it (docs/hardware-assumptions.md, index-register).
 */
static struct pl_emu_arg emit_index(struct decoder *d, const struct pl_ptx_operand *o,
                                    struct pl_emu_arg base)
{
    unsigned bits = base.bits == 32 ? 32 : 64;
    struct pl_emu_arg t = frame_arg(take_frame(d, bits), bits);
    struct pl_emu_arg *args = pl_arena_array(d->arena, 4, sizeof *args);
    struct pl_emu_ins *i = emit(d, pl_emu_exec_index);
    if (args == NULL || i == NULL)
        return t;
    args[0] = t;
    args[1] = base;
    args[2] = reg_arg(d, o->reg - 1);
    args[3] = const_arg(d, 32, pl_ptx_types[var_of(d, o)->type].bits / 8u);
    i->args = args;
    i->n_args = 4;
    i->imm = (uint64_t)o->offset;
    return t;
}

static struct pl_emu_arg indexed_address(struct decoder *d, const struct pl_ptx_operand *o)
{
    struct pl_ptx_operand first = *o;
    first.reg = 0;
    first.offset = 0;
    struct pl_emu_arg a = emit_index(d, o, address_arg(d, &first));
    a.kind = PL_EMU_ARG_ADDR;
    return a;
}

static struct pl_emu_arg address_arg(struct decoder *d, const struct pl_ptx_operand *o)
{
    struct pl_emu_arg a = {.kind = PL_EMU_ARG_ADDR, .displacement = o->offset};
    if (o->reg != 0 && o->var != 0)
        return indexed_address(d, o);
    if (o->reg != 0) {
        a = reg_arg(d, o->reg - 1);
        a.kind = PL_EMU_ARG_ADDR;
        a.displacement = o->offset;
        return a;
    }
    if (o->var == 0)
        return a;
    const struct pl_ptx_var *v = var_of(d, o);
    if (v->space == PL_PTX_SPACE_SHARED) {
        bool is_generic = takes_generic(d);
        a = shared_arg(d, o->var - 1, 0, is_generic ? 64 : 32, is_generic);
    } else if (is_local(d, v)) {
        d->out->uses_local_base = true;
        if (v->space == PL_PTX_SPACE_LOCAL && takes_generic(d)) {
            a = emit_temp(d, pl_emu_exec_local_address, 64, PL_EMU_LOCAL_WINDOW);
        } else {
            a = frame_arg(d->out->local_base, 32);
        }
        a.displacement = local_offset(d, o->var - 1);
    } else if (is_entry_param(d, v)) {
        a.displacement = v->param_offset;
    } else {
        a.displacement = (int64_t)d->p->var_addresses[o->var - 1];
    }
    a.kind = PL_EMU_ARG_ADDR;
    a.displacement += o->offset;
    return a;
}

static struct pl_emu_arg indexed_value(struct decoder *d, const struct pl_ptx_operand *o,
                                       unsigned bits)
{
    struct pl_ptx_operand first = *o;
    first.offset = 0;
    return emit_index(d, o, var_value(d, &first, bits));
}

/* One operand; bits: container wanted of what has none of its own (immediates, special registers, addresses). */
static struct pl_emu_arg operand(struct decoder *d, const struct pl_ptx_operand *o, unsigned bits)
{
    struct pl_emu_arg a = {0};
    switch ((enum pl_ptx_operand_kind)o->kind) {
    case PL_PTX_OP_REG: a = reg_arg(d, o->reg - 1); break;
    case PL_PTX_OP_SREG: a = sreg_value(d, o, bits); break;
    case PL_PTX_OP_IMM: a = const_arg(d, bits, o->imm); break;
    case PL_PTX_OP_VAR: a = o->reg != 0 ? indexed_value(d, o, bits) : var_value(d, o, bits); break;
    case PL_PTX_OP_ADDR: a = address_arg(d, o); break;
    case PL_PTX_OP_FUNC:
        a = const_arg(d, bits, PL_EMU_FUNC_WINDOW + ((uint64_t)o->first + 1) * 16);
        break;
    case PL_PTX_OP_SINK: a.kind = PL_EMU_ARG_SINK; break;
    case PL_PTX_OP_VECTOR: a.kind = PL_EMU_ARG_VECTOR; break;
    case PL_PTX_OP_PAIR: a.kind = PL_EMU_ARG_PAIR; break;
    case PL_PTX_OP_TENSOR: a.kind = PL_EMU_ARG_TENSOR; break;
    case PL_PTX_OP_LABEL: a.kind = PL_EMU_ARG_LABEL; break;
    case PL_PTX_OP_PROTO: a.kind = PL_EMU_ARG_PROTO; break;
    case PL_PTX_OP_RANGE:
    case PL_PTX_OP_TEXT:
    case PL_PTX_OP_NONE: break;
    }
    a.is_negated = o->is_negated;
    if (a.kind == PL_EMU_ARG_LABEL || a.kind == PL_EMU_ARG_PROTO)
        a.first = o->first;
    return a;
}

/* Operand o and, for compound ones, its elements, into args at `at` (which is there). */
static void place(struct decoder *d, uint32_t at, const struct pl_ptx_operand *o, unsigned bits)
{
    struct pl_emu_arg a = operand(d, o, bits);
    bool is_compound =
        a.kind == PL_EMU_ARG_VECTOR || a.kind == PL_EMU_ARG_PAIR || a.kind == PL_EMU_ARG_TENSOR;
    if (is_compound) {
        a.n = o->n;
        a.first = d->args.n;
        for (uint32_t i = 0; i < o->n; i++)
            if (pl_vec_push(d->scratch, &d->args) == NULL)
                return;
        for (uint32_t i = 0; i < o->n; i++)
            place(d, a.first + i, &d->m->pool.data[o->first + i], bits);
    }
    d->args.data[at] = a;
}

/* All operands of the instruction into d->args, and a copy in the program's arena. */
static const struct pl_emu_arg *place_all(struct decoder *d, unsigned bits)
{
    d->args.n = 0;
    for (uint32_t i = 0; i < d->ins->n_operands; i++)
        if (pl_vec_push(d->scratch, &d->args) == NULL)
            return NULL;
    for (uint32_t i = 0; i < d->ins->n_operands; i++)
        place(d, i, &d->m->pool.data[d->ins->operands + i], bits);
    struct pl_emu_arg *out = pl_arena_array(d->arena, d->args.n + 1u, sizeof *out);
    if (out != NULL && d->args.n != 0)
        memcpy(out, d->args.data, d->args.n * sizeof *out);
    return out;
}

/* ---- ops -------------------------------------------------------------------------------------------------------------------------------------- */

struct op_operands {
    const struct pl_ptx_operand *dst, *dst2;
    const struct pl_ptx_operand *src[PL_EMU_OP_MAX_SRC];
    uint32_t n_src;
};

static void add_src(struct op_operands *o, const struct pl_ptx_operand *src)
{
    if (o->n_src < PL_EMU_OP_MAX_SRC)
        o->src[o->n_src] = src;
    o->n_src++;
}

/* The operands of a lane kernel in the order of emu/ops.h: destination (pair), then sources with vectors flattened. */
static struct op_operands flatten(const struct decoder *d)
{
    struct op_operands o = {0};
    for (uint32_t i = 0; i < d->ins->n_operands; i++) {
        const struct pl_ptx_operand *x = &d->m->pool.data[d->ins->operands + i];
        const struct pl_ptx_operand *elems = &d->m->pool.data[x->first];
        if (i == 0 && x->kind == PL_PTX_OP_PAIR) {
            o.dst = &elems[0];
            o.dst2 = &elems[1];
        } else if (i == 0) {
            o.dst = x;
        } else if (x->kind == PL_PTX_OP_VECTOR) {
            for (uint32_t k = 0; k < x->n; k++)
                add_src(&o, &elems[k]);
        } else {
            add_src(&o, x);
        }
    }
    return o;
}

static uint32_t destination(struct decoder *d, const struct pl_ptx_operand *o)
{
    return o != NULL && o->kind == PL_PTX_OP_REG ? d->reg_offsets[o->reg - 1] : d->sink;
}

static void refuse(struct decoder *d, const char *reason)
{
    pl_d_emu_refused(d->diags, where(d), ins_name(d), reason);
}

static void decode_op(struct decoder *d, const struct pl_emu_op *op)
{
    struct op_operands o = flatten(d);
    if (o.n_src > PL_EMU_OP_MAX_SRC || o.n_src < op->n_src) {
        refuse(d, "its operands are not those of its kernel");
        return;
    }
    struct pl_emu_arg src[PL_EMU_OP_MAX_SRC] = {0};
    for (uint32_t i = 0; i < op->n_src; i++) {
        src[i] = operand(d, o.src[i], op->src_bits[i]);
        if (src[i].kind != PL_EMU_ARG_VALUE) {
            refuse(d, "an operand is not a value");
            return;
        }
    }
    struct pl_emu_ins *i = emit(d, NULL);
    if (i == NULL)
        return;
    bool is_wide = op->d2_bits != 0 || op->n_src > 3 || op->uses_cc;
    i->kind = is_wide ? PL_EMU_KIND_OPX : PL_EMU_KIND_OP;
    i->full = op->full;
    i->masked = op->masked;
    i->imm = op->imm;
    i->d = destination(d, o.dst);
    i->d2 = destination(d, o.dst2);
    i->a = src[0].offset_bytes, i->a_bank = src[0].bank;
    i->b = src[1].offset_bytes, i->b_bank = src[1].bank;
    i->c = src[2].offset_bytes, i->c_bank = src[2].bank;
    i->e = src[3].offset_bytes, i->e_bank = src[3].bank;
    i->f = src[4].offset_bytes, i->f_bank = src[4].bank;
    guard(d);
}

static void decode_row_of_ops(struct decoder *d)
{
    struct pl_emu_op op = {0};
    if (d->ins->form == PL_PTX_mov || d->ins->form == PL_PTX_mov_pred) {
        const struct pl_ptx_operand *dst = &d->m->pool.data[d->ins->operands];
        unsigned bits = d->ins->form == PL_PTX_mov_pred ? 1
                        : dst->kind == PL_PTX_OP_REG    ? reg_arg(d, dst->reg - 1).bits
                                                        : container_bits(d->ins->types[0]);
        const struct pl_ptx_operand *src = dst + 1;
        PL_ASSERT(src->kind != PL_PTX_OP_REG || reg_arg(d, src->reg - 1).bits == bits);
        pl_emu_mov_select(bits, &op);
        op.imm = src->is_negated;
    } else if (!pl_emu_op_select(d->m, d->f, d->ins, &op)) {
        refuse(d, "no kernel executes this combination of modifiers and types");
        return;
    }
    decode_op(d, &op);
}

/* ---- executors ---------------------------------------------------------------------------------------------------------------------------------- */

static struct pl_emu_place place_of(struct decoder *d, const struct pl_ptx_operand *o)
{
    if (o->kind == PL_PTX_OP_VAR || (o->kind == PL_PTX_OP_ADDR && o->var != 0)) {
        const struct pl_ptx_var *v = var_of(d, o);
        return (struct pl_emu_place){.offset_bytes = local_offset(d, o->var - 1),
                                     .n_bytes = (uint32_t)v->n_bytes};
    }
    struct pl_emu_arg a = operand(d, o, 64);
    return (struct pl_emu_place){
        .is_reg = true, .bits = a.bits, .bank = a.bank, .offset_bytes = a.offset_bytes};
}

static const struct pl_emu_place *places(struct decoder *d, const struct pl_ptx_operand *list)
{
    struct pl_emu_place *out = pl_arena_array(d->arena, list->n + 1u, sizeof *out);
    for (uint32_t i = 0; out != NULL && i < list->n; i++)
        out[i] = place_of(d, &d->m->pool.data[list->first + i]);
    return out;
}

/* Control Flow Instructions: call (returns), function, (arguments), prototype */
static void decode_call(struct decoder *d, struct pl_emu_call *c, struct pl_emu_arg *target)
{
    bool is_after = false;
    for (uint32_t i = 0; i < d->ins->n_operands; i++) {
        const struct pl_ptx_operand *o = &d->m->pool.data[d->ins->operands + i];
        if (o->kind == PL_PTX_OP_FUNC) {
            c->callee = d->p->funcs[o->first];
            is_after = true;
        } else if (o->kind == PL_PTX_OP_REG) {
            *target = reg_arg(d, o->reg - 1);
            c->target = target;
            is_after = true;
        } else if (o->kind == PL_PTX_OP_VECTOR && is_after) {
            c->args = places(d, o);
            c->n_args = o->n;
        } else if (o->kind == PL_PTX_OP_VECTOR) {
            c->returns = places(d, o);
            c->n_returns = o->n;
        }
    }
    if (c->callee != NULL && !c->callee->has_body && c->callee->builtin == NULL)
        pl_d_emu_unresolved(d->diags, where(d), c->callee->info.name);
    PL_ASSERT(c->callee == NULL || c->callee->builtin != NULL || c->callee->n_params <= c->n_args);
}

static void decode_branch(struct decoder *d, struct pl_emu_branch *b, uint32_t at)
{
    uint32_t meet = d->flow->meet[at];
    b->meet_index = meet;
    if (d->ins->form == PL_PTX_bra) {
        b->target_index = d->m->pool.data[d->ins->operands].first - d->f->first_ins;
        return;
    }
    const struct pl_ptx_operand *list = &d->m->pool.data[d->ins->operands + 1];
    const struct pl_ptx_proto *p = &d->m->protos.data[list->first];
    b->n_targets = p->n_targets;
    b->target_indices = p->targets;
    b->targets = pl_arena_array(d->arena, p->n_targets + 1u, sizeof(struct pl_emu_ins *));
}

static void decode_exec(struct decoder *d, const struct pl_emu_form *form, uint32_t at)
{
    uint16_t id = d->ins->form;
    if (id == PL_PTX_call) {
        struct pl_emu_call *c = PL_NEW(d->arena, struct pl_emu_call);
        struct pl_emu_arg *target = PL_NEW(d->arena, struct pl_emu_arg);
        if (c == NULL || target == NULL)
            return;
        decode_call(d, c, target);
        struct pl_emu_ins *i = emit(d, form->exec);
        if (i != NULL)
            i->extra = c;
        guard(d);
        if (d->ins->guard != 0 || c->callee == NULL)
            emit_join(d); /* lanes that did not call, or called others, meet the rest here */
        return;
    }
    bool is_access = form->how == PL_EMU_HOW_ACCESS;
    const struct pl_emu_arg *args =
        id == PL_PTX_bra ? NULL : place_all(d, is_access ? container_bits(d->ins->types[0]) : 64);
    struct pl_emu_ins *i = emit(d, form->exec);
    if (i == NULL)
        return;
    i->args = args;
    i->n_args = d->ins->n_operands;
    if (is_access && args != NULL && !pl_emu_prepare_access(d->arena, d->m, i))
        return;
    if (id == PL_PTX_bra || id == PL_PTX_brx_idx) {
        struct pl_emu_branch *b = PL_NEW(d->arena, struct pl_emu_branch);
        if (b == NULL)
            return;
        decode_branch(d, b, at);
        i->kind = id == PL_PTX_bra ? PL_EMU_KIND_BRA : PL_EMU_KIND_EXEC;
        i->extra = b;
    }
    guard(d);
}

/* PTX ISA, shfl and vote: gone for sm_70 and up with PTX 6.4. */
static bool is_ended(const struct decoder *d)
{
    uint16_t form = d->ins->form;
    bool is_old = form == PL_PTX_shfl || form == PL_PTX_vote || form == PL_PTX_vote_ballot;
    return is_old && d->m->sm >= 70 && d->m->version >= 64;
}

static void decode_ins(struct decoder *d, uint32_t at)
{
    const struct pl_emu_form *form = &pl_emu_forms[d->ins->form];
    if (form->how == PL_EMU_HOW_REFUSED)
        refuse(d, form->reason);
    else if (is_ended(d))
        refuse(d, "without .sync it ended for sm_70 with PTX 6.4; use the form with .sync");
    else if (form->how == PL_EMU_HOW_OP)
        decode_row_of_ops(d);
    else
        decode_exec(d, form, at);
}

/* ---- functions ------------------------------------------------------------------------------------------------------------------------------------ */

static bool place_registers(struct decoder *d)
{
    d->frame_bytes = 0;
    d->reg_offsets = pl_arena_array(d->scratch, d->f->regs.n + 1u, sizeof *d->reg_offsets);
    if (d->reg_offsets == NULL)
        return false;
    for (uint32_t r = 0; r < d->f->regs.n; r++)
        if (container_bits(d->f->regs.data[r].type) == 1)
            d->reg_offsets[r] = take_frame(d, 1);
    if (!pl_emu_assign_slots(d->m, d->f, d->flow, d->scratch, d->reg_offsets, &d->frame_bytes))
        return false;
    d->sink = take_frame(d, 128);
    d->out->local_base = take_frame(d, 32);
    return true;
}

static const struct pl_emu_place *formals(struct decoder *d, const uint32_t *list, uint32_t n)
{
    struct pl_emu_place *out = pl_arena_array(d->arena, n + 1u, sizeof *out);
    for (uint32_t i = 0; out != NULL && i < n; i++) {
        if (d->f->has_reg_params) {
            struct pl_emu_arg a = reg_arg(d, list[i]);
            out[i] = (struct pl_emu_place){
                .is_reg = true, .bits = a.bits, .offset_bytes = a.offset_bytes};
        } else {
            out[i] = (struct pl_emu_place){.offset_bytes = local_offset(d, list[i]),
                                           .n_bytes = (uint32_t)d->m->vars.data[list[i]].n_bytes};
        }
    }
    return out;
}

/* Indices become pointers: the code lies where it stays. */
static void link_code(struct decoder *d, struct pl_emu_ins *code)
{
    for (uint32_t k = 0; k < d->out->n_code; k++) {
        if (code[k].ptx == NULL ||
            (code[k].ptx->form != PL_PTX_bra && code[k].ptx->form != PL_PTX_brx_idx))
            continue;
        if (code[k].extra == NULL)
            continue;
        struct pl_emu_branch *b = (struct pl_emu_branch *)(uintptr_t)code[k].extra;
        b->meet = b->meet_index == PL_EMU_NO_NODE ? NULL : &code[d->code_of[b->meet_index]];
        if (code[k].ptx->form == PL_PTX_bra)
            b->target = &code[d->code_of[b->target_index]];
        for (uint32_t i = 0; i < b->n_targets; i++)
            b->targets[i] = &code[d->code_of[b->target_indices[i] - d->f->first_ins]];
    }
}

static bool decode_body(struct decoder *d)
{
    d->code.n = 0;
    d->code_of = pl_arena_array(d->scratch, d->f->n_ins + 2u, sizeof *d->code_of);
    if (d->code_of == NULL)
        return false;
    for (uint32_t at = 0; at < d->f->n_ins; at++) {
        d->ins = &d->m->ins.data[d->f->first_ins + at];
        d->code_of[at] = d->code.n;
        if (d->flow->is_meet[at])
            emit_join(d);
        decode_ins(d, at);
    }
    d->code_of[d->f->n_ins] = d->code.n;
    d->ins = NULL;
    if (emit(d, pl_emu_exec_ret) == NULL)
        return false;
    struct pl_emu_ins *code = pl_arena_array(d->arena, d->code.n, sizeof *code);
    if (code == NULL)
        return false;
    memcpy(code, d->code.data, d->code.n * sizeof *code);
    d->out->code = code;
    d->out->n_code = d->code.n;
    link_code(d, code);
    return true;
}

static bool decode_func(struct decoder *d, uint32_t index)
{
    d->f = &d->m->funcs.data[index];
    d->out = (struct pl_emu_func *)(uintptr_t)d->p->funcs[index];
    d->ins = NULL;
    d->flow = pl_emu_flow_of(d->m, d->f, d->scratch);
    if (d->flow == NULL)
        return false;
    if (!place_registers(d))
        return false;
    d->local_bytes = 0;
    memset(d->local_offsets, 0xff, (d->m->vars.n + 1u) * sizeof *d->local_offsets);
    if (!d->f->is_entry) {
        d->out->params = formals(d, d->f->params, d->f->n_params);
        d->out->returns = formals(d, d->f->returns, d->f->n_returns);
    }
    if (!decode_body(d))
        return false;
    d->out->frame_bytes = round_up(d->frame_bytes, 64);
    d->out->local_bytes = round_up(d->local_bytes, 16);
    return !pl_arena_is_exhausted(d->arena) && !pl_arena_is_exhausted(d->scratch);
}

/* Constants and slots of all functions: the program's two other banks. */
static bool finish_banks(struct decoder *d)
{
    uint8_t *consts = pl_arena_alloc(d->arena, d->consts.n + 64u);
    struct pl_emu_slot *slots = pl_arena_array(d->arena, d->slots.n + 1u, sizeof *slots);
    if (consts == NULL || slots == NULL)
        return false;
    consts = (uint8_t *)(((uintptr_t)consts + 63) & ~(uintptr_t)63);
    if (d->consts.n != 0)
        memcpy(consts, d->consts.data, d->consts.n);
    if (d->slots.n != 0)
        memcpy(slots, d->slots.data, d->slots.n * sizeof *slots);
    d->p->consts = consts;
    d->p->slots = slots;
    d->p->n_slots = d->slots.n;
    d->p->sreg_bytes = d->sreg_bytes;
    return true;
}

bool pl_emu_decode(struct pl_emu_program *p, struct pl_diags *diags)
{
    struct pl_arena scratch = {0};
    struct decoder d = {
        .p = p, .m = &p->module, .arena = &p->arena, .scratch = &scratch, .diags = diags};
    d.local_offsets = pl_arena_array(&scratch, p->module.vars.n + 1u, sizeof *d.local_offsets);
    bool is_ok = d.local_offsets != NULL && grow_const_table(&d);
    for (uint32_t i = 0; is_ok && i < p->module.funcs.n; i++)
        if (p->module.funcs.data[i].has_body)
            is_ok = decode_func(&d, i);
    is_ok = is_ok && finish_banks(&d);
    if (!is_ok && diags->n_errors == 0)
        pl_d_emu_no_memory(diags, (struct pl_where){0});
    pl_arena_fini(&scratch);
    return is_ok && diags->n_errors == 0;
}
