#include "jit/emit.h"

#include "base/debug.h"
#include "jit/ptx/fragment.h"
#include "jit/ptx/short.h"

#include <string.h>

#define PL_DIAG_ROWS "jit/jit.def"
#define PL_DIAG_MODE_DECLARE
#include "base/diag_rows.h"
#define PL_DIAG_ROWS "jit/jit.def"
#define PL_DIAG_MODE_DEFINE
#include "base/diag_rows.h"

/* ---- the table (emit.def) ---- */

enum { MAX_FIXED = 5, MAX_POOL = 160 };
enum slot { SLOT_TYPE = PL_PTX_TYPE_COUNT, SLOT_FROM };

struct row {
    uint16_t form;
    uint8_t step;
    uint32_t types, from; /* sets of enum pl_stype; bit 0: none */
    uint8_t slots[4];     /* enum slot or enum pl_ptx_type; 0 ends */
    const char *operands;
    bool passes;
    uint16_t fixed[MAX_FIXED]; /* enum pl_ptx_mod */
};

enum type_set {
    S_NONE = 1,
#define STYPE(id, class, bits, kind) S_##id = 1 << PL_ST_##id,
#include "src/plan/stype.def"
#undef STYPE
    S_INTS = S_u16 | S_u32 | S_u64 | S_s16 | S_s32 | S_s64,
    S_BITS = S_b16 | S_b32 | S_b64,
    S_MEMORY = S_b16 | S_b32 | S_b64 | S_u8,
    S_HALF_REGS = S_b16 | S_u16 | S_s16 | S_f16 | S_bf16
};

static const struct row rows[] = {
#define PL_PTX_TYPE_TYPE SLOT_TYPE
#define PL_PTX_TYPE_FROM SLOT_FROM
#define T0                                                                                         \
    {                                                                                              \
        0                                                                                          \
    }
#define T1_(x)                                                                                     \
    {                                                                                              \
        PL_PTX_TYPE_##x                                                                            \
    }
#define T2_(x, y)                                                                                  \
    {                                                                                              \
        PL_PTX_TYPE_##x, PL_PTX_TYPE_##y                                                           \
    }
#define T3_(x, y, z)                                                                               \
    {                                                                                              \
        PL_PTX_TYPE_##x, PL_PTX_TYPE_##y, PL_PTX_TYPE_##z                                          \
    }
#define T4_(x, y, z, u)                                                                            \
    {                                                                                              \
        PL_PTX_TYPE_##x, PL_PTX_TYPE_##y, PL_PTX_TYPE_##z, PL_PTX_TYPE_##u                         \
    }
#define PICK_(x, y, z, u, f, ...) f
#define T(...)                    PICK_(__VA_ARGS__, T4_, T3_, T2_, T1_, 0)(__VA_ARGS__)
#define PASS                      true
#define DROP                      false
#define F0                                                                                         \
    {                                                                                              \
        0                                                                                          \
    }
#define F1(x)                                                                                      \
    {                                                                                              \
        PL_PTX_MOD_##x                                                                             \
    }
#define F2(x, y)                                                                                   \
    {                                                                                              \
        PL_PTX_MOD_##x, PL_PTX_MOD_##y                                                             \
    }
#define F3(x, y, z)                                                                                \
    {                                                                                              \
        PL_PTX_MOD_##x, PL_PTX_MOD_##y, PL_PTX_MOD_##z                                             \
    }
#define F4(x, y, z, u)                                                                             \
    {                                                                                              \
        PL_PTX_MOD_##x, PL_PTX_MOD_##y, PL_PTX_MOD_##z, PL_PTX_MOD_##u                             \
    }
#define F5(x, y, z, u, v)                                                                          \
    {                                                                                              \
        PL_PTX_MOD_##x, PL_PTX_MOD_##y, PL_PTX_MOD_##z, PL_PTX_MOD_##u, PL_PTX_MOD_##v             \
    }
#define ETYPE(st, pt)
#define EATTR(sa, pm)
#define ESREG(sr, pr, dim)
#define EMIT(step, types, from, form, slots, operands, passes, fixed)                              \
    {PL_PTX_##form, PL_STEP_##step, types, from, slots, operands, passes, fixed},
#include "jit/emit.def"
#undef EMIT
#undef ETYPE
#undef EATTR
#undef ESREG
#undef PL_PTX_TYPE_TYPE
#undef PL_PTX_TYPE_FROM
#undef T0
#undef T1_
#undef T2_
#undef T3_
#undef T4_
#undef PICK_
#undef T
#undef PASS
#undef DROP
#undef F0
#undef F1
#undef F2
#undef F3
#undef F4
#undef F5
};

static const uint8_t ptx_types[PL_ST_COUNT] = {
#define ETYPE(st, pt) [PL_ST_##st] = PL_PTX_TYPE_##pt,
#define EATTR(sa, pm)
#define ESREG(sr, pr, dim)
#define EMIT(...)
#include "jit/emit.def"
#undef ETYPE
#undef EATTR
#undef ESREG
#undef EMIT
};

static const uint16_t ptx_mods[PL_SA_COUNT] = {
#define ETYPE(st, pt)
#define EATTR(sa, pm) [PL_SA_##sa] = PL_PTX_MOD_##pm,
#define ESREG(sr, pr, dim)
#define EMIT(...)
#include "jit/emit.def"
#undef ETYPE
#undef EATTR
#undef ESREG
#undef EMIT
};

static const struct {
    uint16_t sreg;
    uint8_t dim;
} ptx_sregs[PL_SR_COUNT] = {
#define ETYPE(st, pt)
#define EATTR(sa, pm)
#define ESREG(sr, pr, dim) [PL_SR_##sr] = {PL_PTX_SREG_##pr, dim},
#define EMIT(...)
#include "jit/emit.def"
#undef ETYPE
#undef EATTR
#undef ESREG
#undef EMIT
};

/* ---- one step ---- */

/* What steps of one kind have in common: all but guard and operands, which the next of them puts in `ins`. All that can change an
 * instruction's gate, where operands cannot, makes the kind. */
struct kind {
    uint64_t head;           /* of the step */
    uint32_t width;          /* of its vector */
    uint32_t previous;       /* of the same bucket, + 1 */
    uint32_t first, n_bytes; /* the mnemonic, in emitter.mnemonics */
    const struct row *row;
    bool is_direct;      /* its operands are the step's, in their order, and none has a gate */
    bool has_more_gates; /* by the operands of each */
    struct pl_ptx_ins ins;
};

enum { N_BUCKETS = 64 };

struct emitter {
    const struct pl_plan *plan;
    const struct pl_steps *steps;
    struct pl_arena *arena;
    struct pl_ptx_printer printer;
    uint16_t first_row[PL_STEP_COUNT]; /* + 1 */
    PL_VEC(struct kind) kinds;
    struct pl_buf mnemonics;
    uint16_t buckets[N_BUCKETS]; /* newest kind + 1 */
    struct pl_ptx_gate gate;
    bool has_gate;                                   /* some target takes all so far */
    const struct pl_step_text *last_text, *bad_text; /* the first that cannot be read, */
    struct pl_ptx_error text_error;                  /* and why */
    /* of the instruction at hand */
    struct pl_ptx_operand *pool; /* MAX_POOL */
    uint32_t n_pool;
};

static const struct row *find_row(const struct emitter *e, const struct pl_step *s)
{
    const uint32_t type = (uint32_t)1 << s->type, from = (uint32_t)1 << s->from;
    for (size_t i = e->first_row[s->op] - 1u; i < PL_COUNT(rows) && rows[i].step == s->op; i++)
        if ((rows[i].types & type) != 0 && (rows[i].from & from) != 0)
            return &rows[i];
    return NULL;
}

static enum pl_ptx_type reg_type(enum pl_rclass class)
{
    static const uint8_t types[PL_RC_COUNT] = {PL_PTX_TYPE_PRED, PL_PTX_TYPE_B16, PL_PTX_TYPE_B32,
                                               PL_PTX_TYPE_B64, PL_PTX_TYPE_B128};
    return (enum pl_ptx_type)types[class];
}

static struct pl_ptx_operand reg_operand(pl_reg r)
{
    return pl_ptx_reg(reg_type(pl_reg_class(r)), pl_reg_index(r));
}

/* A constant of a step type: floats in their exact hexadecimal form. */
static inline struct pl_ptx_operand constant(uint8_t type, char letter, int64_t v)
{
    if (letter == 'R' || letter == 'I')
        return pl_ptx_imm((int64_t)(uint32_t)v);
    if (type == PL_ST_f32 || type == PL_ST_tf32)
        return pl_ptx_f32((uint32_t)v);
    if (type == PL_ST_f64)
        return pl_ptx_f64((uint64_t)v);
    if (pl_stypes[type].kind != PL_ST_KIND_SINT && pl_stypes[type].bits <= 32 &&
        pl_stypes[type].bits > 1)
        v = (int64_t)((uint64_t)v & (((uint64_t)1 << pl_stypes[type].bits) - 1));
    return pl_ptx_imm(v);
}

static uint32_t smem_var(const struct emitter *e) { return e->plan->params.n; }

static inline struct pl_ptx_operand address(const struct emitter *e, const struct pl_opnd *o)
{
    if (o->u.reg.id == 0)
        return pl_ptx_addr_var(smem_var(e), o->imm);
    return pl_ptx_addr_reg(reg_type(pl_reg_class(o->u.reg)), pl_reg_index(o->u.reg), o->imm);
}

static uint8_t opnd_type(const struct pl_step *s, char letter)
{
    return letter == 'f' || letter == 'v' || letter == 'w' ? s->from : s->type;
}

static inline struct pl_ptx_operand simple(const struct emitter *e, const struct pl_step *s,
                                           char letter, const struct pl_opnd *o)
{
    switch ((enum pl_opnd_kind)o->kind) {
    case PL_OPND_REG: {
        struct pl_ptx_operand r = reg_operand(o->u.reg);
        return o->is_negated ? pl_ptx_not(r) : r;
    }
    case PL_OPND_IMM: return constant(opnd_type(s, letter), letter, o->imm);
    case PL_OPND_ADDR: return address(e, o);
    case PL_OPND_LABEL: return pl_ptx_label(o->u.index);
    case PL_OPND_PARAM:
        return s->op == PL_STEP_param ? pl_ptx_addr_var(o->u.index, 0) : pl_ptx_var(o->u.index, 0);
    case PL_OPND_SREG:
        return pl_ptx_special((enum pl_ptx_sreg)ptx_sregs[o->u.index].sreg,
                              ptx_sregs[o->u.index].dim);
    case PL_OPND_NONE:
    case PL_OPND_LIST:
    case PL_OPND_TEXT: break;
    }
    return pl_ptx_sink();
}

/* The elements of a list, appended to the pool; a list of one that need not be a vector is its element. */
static struct pl_ptx_operand list(struct emitter *e, const struct pl_step *s, char letter,
                                  const struct pl_opnd *o, bool is_vector)
{
    const struct pl_opnd *elems = &e->steps->pool.data[o->u.index];
    if (o->n == 1 && !is_vector)
        return simple(e, s, letter, elems);
    const uint32_t first = e->n_pool;
    for (uint32_t i = 0; i < o->n && e->n_pool < MAX_POOL; i++)
        e->pool[e->n_pool++] = simple(e, s, letter, &elems[i]);
    return pl_ptx_vector(first, o->n);
}

static const struct pl_opnd *step_opnd(const struct emitter *e, const struct pl_step *s, uint32_t i)
{
    return &e->steps->pool.data[s->opnds + i];
}

static struct pl_ptx_operand operand(struct emitter *e, const struct pl_step *s, uint32_t i)
{
    const struct pl_opnd *o = step_opnd(e, s, i);
    const char letter = pl_step_infos[s->op].operands[i];
    if (o->kind == PL_OPND_LIST)
        return list(e, s, letter, o, letter != 'W' && letter != 'V');
    return simple(e, s, letter, o);
}

static struct pl_ptx_operand tensor(struct emitter *e, const struct pl_step *s, uint32_t map,
                                    uint32_t coords)
{
    const uint32_t first = e->n_pool;
    const pl_reg r = step_opnd(e, s, map)->u.reg;
    e->n_pool += 2;
    e->pool[first] = pl_ptx_addr_reg(PL_PTX_TYPE_B64, pl_reg_index(r), 0);
    e->pool[first + 1] = list(e, s, 'C', step_opnd(e, s, coords), true);
    return pl_ptx_tensor(first);
}

/* The instruction's operands, by the row's text, at the start of the pool; lists behind them. */
static unsigned place_operands(struct emitter *e, const struct pl_step *s, const struct row *row)
{
    unsigned n = 0;
    e->n_pool = 8;
    if (row->operands[0] == '\0') {
        for (; n < s->n_opnds; n++)
            e->pool[n] = operand(e, s, n);
        return n;
    }
    for (const char *c = row->operands; *c != '\0'; c++) {
        switch (*c) {
        case '_': e->pool[n++] = pl_ptx_sink(); break;
        case '+': e->pool[n++] = pl_ptx_imm(1); break;
        case 'A':
            c++;
            e->pool[n++] = pl_ptx_addr_reg(
                PL_PTX_TYPE_B64, pl_reg_index(step_opnd(e, s, (uint32_t)(*c - '0'))->u.reg), 0);
            break;
        case 'V':
            c++;
            e->pool[n++] = pl_ptx_var(smem_var(e), step_opnd(e, s, (uint32_t)(*c - '0'))->imm);
            break;
        case 'P': {
            const uint32_t first = e->n_pool;
            c++;
            e->pool[e->n_pool++] = pl_ptx_sink();
            e->pool[e->n_pool++] = operand(e, s, (uint32_t)(*c - '0'));
            e->pool[n++] = pl_ptx_pair(first);
            break;
        }
        case 'T':
            e->pool[n++] = tensor(e, s, (uint32_t)(c[1] - '0'), (uint32_t)(c[2] - '0'));
            c += 2;
            break;
        default: e->pool[n++] = operand(e, s, (uint32_t)(*c - '0')); break;
        }
    }
    if (pl_step_attr(s, PL_SC_L2) != PL_SA_NONE)
        e->pool[n++] = operand(e, s, s->n_opnds - 1u);
    return n;
}

/* The operand that is a memory step's vector or an accumulator, + 1. */
static const uint8_t vectors[PL_STEP_COUNT] = {
    [PL_STEP_load] = 1,       [PL_STEP_tmem_load] = 1,  [PL_STEP_wgmma] = 1,
    [PL_STEP_wgmma_half] = 1, [PL_STEP_wgmma_val] = 1,  [PL_STEP_wgmma_val_half] = 1,
    [PL_STEP_store] = 2,      [PL_STEP_tmem_store] = 2, [PL_STEP_store_async] = 2,
};

/* Registers of it; 0 for the other steps. */
static inline uint32_t vector_width(const struct emitter *e, const struct pl_step *s)
{
    const uint8_t which = vectors[s->op];
    return which != 0 ? step_opnd(e, s, which - 1u)->n : 0;
}

/* How often a warp's registers repeat their tile: a power of two. */
static enum pl_ptx_mod tile_repeats(const struct pl_step *s, uint32_t width)
{
    const uint8_t tile = pl_step_attr(s, PL_SC_TILE);
    uint32_t log2 = 0;
    for (uint32_t n = width / (tile == PL_SA_TILE_r16    ? 4
                               : tile == PL_SA_TILE_r16h ? 2
                                                         : 1);
         n > 1; n /= 2)
        log2++;
    return (enum pl_ptx_mod)(PL_PTX_MOD_NUM_X1 + log2);
}

/* The instruction of a kind of step, without its guard and operands. */
static struct pl_ptx_ins make_ins(const struct emitter *e, const struct pl_step *s,
                                  const struct row *row)
{
    struct pl_ptx_ins ins = pl_ptx_ins_make((enum pl_ptx_form)row->form, 0);
    for (unsigned i = 0; i < PL_COUNT(row->slots) && row->slots[i] != 0; i++)
        ins.types[i] = row->slots[i] == SLOT_TYPE   ? ptx_types[s->type]
                       : row->slots[i] == SLOT_FROM ? ptx_types[s->from]
                                                    : row->slots[i];
    for (int i = 0; i < PL_STEP_MAX_ATTRS && row->passes; i++)
        if (s->attrs[i] != PL_SA_NONE)
            pl_ptx_ins_set(&ins, (enum pl_ptx_mod)ptx_mods[s->attrs[i]]);
    for (int i = 0; i < MAX_FIXED && row->fixed[i] != 0; i++)
        pl_ptx_ins_set(&ins, (enum pl_ptx_mod)row->fixed[i]);
    const uint32_t width = vector_width(e, s);
    const bool is_wide = s->op == PL_STEP_wgmma || s->op == PL_STEP_wgmma_val,
               is_half = s->op == PL_STEP_wgmma_half || s->op == PL_STEP_wgmma_val_half;
    if (is_wide || is_half) /* of 64 rows, 128 threads */
        ins.shape_n = (uint16_t)(is_wide ? 2 * width : 4 * width);
    else if (s->op == PL_STEP_tmem_load || s->op == PL_STEP_tmem_store)
        pl_ptx_ins_set(&ins, tile_repeats(s, width));
    else if (width > 1)
        pl_ptx_ins_set(&ins, width == 2 ? PL_PTX_MOD_VEC_V2 : PL_PTX_MOD_VEC_V4);
    return ins;
}

static struct kind *add_kind(struct emitter *e, const struct pl_step *s, uint16_t *bucket)
{
    const struct row *row = find_row(e, s);
    struct kind *k = row == NULL ? NULL : pl_vec_push(e->arena, &e->kinds);
    PL_ASSERT(row != NULL);
    if (k == NULL)
        return NULL;
    const bool has_more_gates = pl_ptx_has_operand_gate((enum pl_ptx_form)row->form);
    *k = (struct kind){.head = pl_step_head(s),
                       .width = vector_width(e, s),
                       .previous = *bucket,
                       .first = (uint32_t)e->mnemonics.n_bytes,
                       .row = row,
                       .is_direct = row->operands[0] == '\0' &&
                                    pl_step_attr(s, PL_SC_L2) == PL_SA_NONE && !has_more_gates,
                       .has_more_gates = has_more_gates,
                       .ins = make_ins(e, s, row)};
    pl_ptx_print_mnemonic(&e->mnemonics, &k->ins);
    k->n_bytes = (uint32_t)e->mnemonics.n_bytes - k->first;
    if (k->n_bytes == 0) /* stays out of the bucket: nobody finds it */
        return NULL;
    *bucket = (uint16_t)e->kinds.n;
    return k;
}

/* Few kinds make up a program. NULL when memory ran out. */
static struct kind *kind_of(struct emitter *e, const struct pl_step *s, bool *is_new)
{
    const uint64_t head = pl_step_head(s);
    const uint32_t width = vector_width(e, s);
    uint16_t *bucket = &e->buckets[(head + width) * 0x9E3779B97F4A7C15u >> 58];
    *is_new = false;
    for (uint32_t k = *bucket; k != 0; k = e->kinds.data[k - 1].previous)
        if (e->kinds.data[k - 1].head == head && e->kinds.data[k - 1].width == width)
            return &e->kinds.data[k - 1];
    *is_new = true;
    return add_kind(e, s, bucket);
}

/* For an instruction's short operands and what stands around them, from any of them on. */
enum { OPERANDS_ROOM_BYTES = (PL_STEP_MAX_OPNDS + 2) * PL_PTX_LONGEST_SHORT };

/* Most operands are registers. */
static inline bool is_register(const struct pl_opnd *o)
{
    return o->kind == PL_OPND_REG && !o->is_negated;
}

static inline char *put_register(pl_reg r, char *at)
{
    return pl_ptx_put_numbered(at, reg_type(pl_reg_class(r)), pl_reg_index(r));
}

static char *put_elems(const struct emitter *e, const struct pl_step *s, char letter,
                       const struct pl_opnd *o, char *at)
{
    const struct pl_opnd *elems = &e->steps->pool.data[o->u.index];
    const bool is_vector = o->n != 1 || (letter != 'W' && letter != 'V');
    at = pl_ptx_more(e->printer.buf, at, o->n * (size_t)PL_PTX_LONGEST_SHORT + OPERANDS_ROOM_BYTES);
    if (at == NULL)
        return NULL;
    if (is_vector)
        *at++ = '{';
    for (uint32_t i = 0; i < o->n; i++) {
        if (i != 0)
            at = pl_ptx_put_n(at, ", ", 2);
        if (is_register(&elems[i])) {
            at = put_register(elems[i].u.reg, at);
            continue;
        }
        const struct pl_ptx_operand elem = simple(e, s, letter, &elems[i]);
        at = pl_ptx_put_short(at, &elem);
    }
    if (is_vector)
        *at++ = '}';
    return at;
}

static char *put_opnd(struct emitter *e, const struct pl_step *s, char letter,
                      const struct pl_opnd *o, char *at)
{
    struct pl_buf *text = e->printer.buf;
    if (o->kind == PL_OPND_LIST)
        return put_elems(e, s, letter, o, at);
    const struct pl_ptx_operand op = simple(e, s, letter, o);
    if (op.kind != PL_PTX_OP_SREG && op.var == 0)
        return pl_ptx_put_short(at, &op);
    pl_buf_commit(text, at); /* a name may be long */
    pl_ptx_print_operand(&e->printer, &op);
    return pl_ptx_more(text, text->text + text->n_bytes, OPERANDS_ROOM_BYTES);
}

/* Most instructions: each operand becomes text as it comes. */
static void put_direct(struct emitter *e, const struct pl_step *s, const struct kind *k)
{
    const char *letters = pl_step_infos[s->op].operands;
    struct pl_buf *text = e->printer.buf;
    char *at = pl_ptx_more(text, text->text + text->n_bytes, k->n_bytes + OPERANDS_ROOM_BYTES);
    if (at == NULL)
        return;
    at = pl_ptx_put_start(at, &k->ins, e->mnemonics.text + k->first, k->n_bytes);
    const struct pl_opnd *const first = step_opnd(e, s, 0), *const end = first + s->n_opnds;
    for (const struct pl_opnd *o = first; o < end && at != NULL; o++, letters++) {
        if (o != first)
            *at++ = ',';
        *at++ = ' ';
        at = is_register(o) ? put_register(o->u.reg, at) : put_opnd(e, s, *letters, o, at);
    }
    if (at != NULL)
        pl_buf_commit(text, pl_ptx_put_n(at, ";\n", 2));
}

static void put_instruction(struct emitter *e, const struct pl_step *s)
{
    bool is_new;
    struct kind *k = kind_of(e, s, &is_new);
    if (k == NULL)
        return;
    k->ins.guard = 0;
    if (s->guard.id != 0)
        pl_ptx_ins_guard(&k->ins, pl_reg_index(s->guard), s->guard_is_negated);
    if (!k->is_direct)
        k->ins.n_operands = (uint8_t)place_operands(e, s, k->row);
    if (is_new || k->has_more_gates)
        e->has_gate &= pl_ptx_gate_join(&e->gate, pl_ptx_gate_of_ins(&k->ins, e->pool));
    if (k->is_direct) {
        put_direct(e, s, k);
        return;
    }
    pl_ptx_print_ins_as(&e->printer, &k->ins, e->pool, e->mnemonics.text + k->first, k->n_bytes);
}

/* What the user's own instructions need is asked of the text, which only the assembler would read otherwise. */
static void join_text(struct emitter *e, const struct pl_ptx_fragment *f,
                      const struct pl_step_text *t)
{
    struct pl_ptx_gate gate;
    struct pl_ptx_error error;
    if (pl_ptx_fragment_gate(f, e->plan->sm, e->arena, &gate, &error)) {
        e->has_gate &= pl_ptx_gate_join(&e->gate, gate);
    } else if (e->bad_text == NULL) {
        e->bad_text = t;
        e->text_error = error;
    }
}

static void put_text(struct emitter *e, const struct pl_step *s)
{
    const struct pl_step_text *t = &e->steps->texts.data[step_opnd(e, s, 0)->u.index];
    uint32_t names[PL_PTX_FRAGMENT_OPERANDS];
    struct pl_ptx_fragment f = {.text = t->text, .operands = names};
    for (uint32_t l = 1; l <= 2; l++) {
        const struct pl_opnd *list = step_opnd(e, s, l);
        for (uint32_t i = 0; i < list->n && f.n_operands < PL_COUNT(names); i++) {
            const pl_reg r = e->steps->pool.data[list->u.index + i].u.reg;
            names[f.n_operands++] = pl_ptx_reg_id(reg_type(pl_reg_class(r)), pl_reg_index(r));
        }
    }
    if (t != e->last_text) /* the others differ in registers only */
        join_text(e, &f, t);
    e->last_text = t;
    pl_ptx_fragment_print(e->printer.buf, &f);
}

static void put_step(struct emitter *e, const struct pl_step *s)
{
    if (s->op == PL_STEP_label) {
        pl_ptx_print_label(e->printer.buf, step_opnd(e, s, 0)->u.index);
        return;
    }
    if (s->op == PL_STEP_text) {
        put_text(e, s);
        return;
    }
    put_instruction(e, s);
}

static void put_steps(struct emitter *e)
{
    for (size_t i = PL_COUNT(rows); i-- > 0;)
        e->first_row[rows[i].step] = (uint16_t)(i + 1);
    for (uint32_t i = 0; i < e->steps->list.n; i++)
        put_step(e, &e->steps->list.data[i]);
}

/* ---- the module ---- */

static enum pl_ptx_type param_type(const struct pl_plan_param *p)
{
    return p->n_bytes == 4 ? PL_PTX_TYPE_U32 : p->n_bytes == 8 ? PL_PTX_TYPE_U64 : PL_PTX_TYPE_B8;
}

/* "word3", or "word3_1" */
static const char *numbered(struct pl_arena *arena, const char *word, unsigned n, int axis)
{
    struct pl_buf name;
    pl_buf_init(&name, arena, 32);
    pl_buf_puts(&name, word);
    pl_buf_u64(&name, n);
    if (axis >= 0) {
        pl_buf_putc(&name, '_');
        pl_buf_u64(&name, (uint64_t)axis);
    }
    return name.text;
}

static const char *param_name(struct pl_arena *arena, const struct pl_plan_param *p)
{
    switch (p->kind) {
    case PL_PLAN_ADDRESS: return numbered(arena, "arg", p->arg, -1);
    case PL_PLAN_EXTENT: return numbered(arena, "extent", p->arg, p->axis);
    case PL_PLAN_STRIDE: return numbered(arena, "stride", p->arg, p->axis);
    case PL_PLAN_SCALAR: return numbered(arena, "scalar", p->arg, -1);
    case PL_PLAN_TENSOR_MAP: return numbered(arena, "map", p->map, -1);
    case PL_PLAN_GRID: return numbered(arena, "grid", p->axis, -1);
    case PL_PLAN_WORKSPACE: return "workspace";
    case PL_PLAN_PARAM_KIND_COUNT: break;
    }
    return "param";
}

static const char *const *make_names(const struct pl_plan *plan, struct pl_arena *arena)
{
    const char **names = pl_arena_array(arena, plan->params.n + 1, sizeof *names);
    for (uint32_t i = 0; names != NULL && i < plan->params.n; i++)
        names[i] = param_name(arena, &plan->params.data[i]);
    if (names != NULL)
        names[plan->params.n] = "smem";
    return names;
}

static void put_head(const struct pl_plan *plan, const char *entry, const char *const *names,
                     struct pl_buf *buf)
{
    if (plan->launch.smem_bytes != 0)
        pl_ptx_print_var(buf, &(struct pl_ptx_var){.name = "smem",
                                                   .space = PL_PTX_SPACE_SHARED,
                                                   .type = PL_PTX_TYPE_B8,
                                                   .align_bytes = 1024,
                                                   .is_extern = true});
    struct pl_ptx_param *params = pl_arena_array(buf->arena, plan->params.n, sizeof *params);
    for (uint32_t i = 0; params != NULL && i < plan->params.n; i++) {
        const struct pl_plan_param *p = &plan->params.data[i];
        const bool is_map = p->kind == PL_PLAN_TENSOR_MAP;
        params[i] = (struct pl_ptx_param){.name = names[i],
                                          .type = param_type(p),
                                          .align_bytes = is_map ? 128 : 0,
                                          .n_elems = is_map ? 128 : 0};
    }
    const uint32_t *c = plan->launch.cluster;
    const bool is_cluster = c[0] * c[1] * c[2] > 1;
    struct pl_ptx_entry head = {.name = entry,
                                .params = params,
                                .n_params = params == NULL ? 0 : plan->params.n,
                                .req_ntid = {plan->launch.n_threads, 1, 1},
                                .max_nreg = plan->launch.max_registers,
                                .is_explicit_cluster = is_cluster};
    for (int i = 0; i < 3 && is_cluster; i++)
        head.req_cluster[i] = c[i];
    pl_ptx_print_entry(buf, &head);
    for (int c2 = 0; c2 < PL_RC_COUNT; c2++)
        pl_ptx_print_regs(buf, reg_type((enum pl_rclass)c2), plan->steps.n_regs[c2]);
}

/* The directives of the head need something too. */
static void join_head(struct emitter *e)
{
    const uint32_t *c = e->plan->launch.cluster;
    struct pl_ptx_gate head = {.ptx_version = 70, .sm = 80};
    if (c[0] * c[1] * c[2] > 1)
        head = (struct pl_ptx_gate){.ptx_version = 78, .sm = 90};
    if (e->plan->launch.params_bytes > 4352)
        head.ptx_version = 81;
    e->has_gate &= pl_ptx_gate_join(&e->gate, head);
}

/* The emitter of a plan, with nothing put yet. NULL when memory ran out. */
static struct emitter *make_emitter(const struct pl_plan *plan, struct pl_buf *text,
                                    const char *const *names, struct pl_arena *arena)
{
    struct emitter *e = PL_NEW(arena, struct emitter);
    if (e == NULL)
        return NULL;
    e->plan = plan;
    e->steps = &plan->steps;
    e->arena = arena;
    e->printer = (struct pl_ptx_printer){.buf = text, .var_names = names};
    e->has_gate = true;
    e->pool = pl_arena_raw(arena, MAX_POOL * sizeof *e->pool);
    pl_buf_init(&e->mnemonics, arena, 1024);
    return e->pool != NULL ? e : NULL;
}

/* The target and version that all of it needs. */
static pl_status choose_target(const struct emitter *e, uint32_t max_version, char *suffix,
                               struct pl_diags *diags, struct pl_emitted *out)
{
    const struct pl_plan *plan = e->plan;
    if (e->bad_text != NULL) {
        const struct pl_where where = {.file = e->bad_text->file, .line = e->bad_text->line};
        pl_d_inline_ptx_text(diags, where, plan->sm, e->text_error.line, e->text_error.text);
        return PL_E_INVALID;
    }
    if (!e->has_gate || !pl_ptx_gate_lowest(e->gate, plan->sm, suffix, &out->version)) {
        pl_d_no_target_takes_all(diags, (struct pl_where){0}, plan->kernel, plan->sm);
        return PL_E_UNSUPPORTED;
    }
    if (max_version != 0 && out->version > max_version) {
        pl_d_ptx_version_too_new(diags, (struct pl_where){0}, plan->kernel, out->version / 10u,
                                 out->version % 10u, max_version / 10, max_version % 10);
        return PL_E_UNSUPPORTED;
    }
    char *end = pl_ptx_put_u64(pl_ptx_put_n(out->target, "sm_", 3), plan->sm);
    *end++ = *suffix;
    *end = '\0';
    return PL_OK;
}

enum { HEADER_ROOM_BYTES = 64, ABOUT_A_STEP_BYTES = 48 };

/* What only all the rest decides stands first: room is left for it, and the text begins where it does. */
static void put_header(struct pl_buf *text, char suffix, uint16_t sm, struct pl_emitted *out)
{
    struct pl_buf header;
    pl_buf_init(&header, text->arena, HEADER_ROOM_BYTES);
    pl_ptx_print_header(&header, out->version, sm, suffix);
    PL_ASSERT(header.n_bytes <= HEADER_ROOM_BYTES);
    if (pl_arena_is_exhausted(text->arena))
        return;
    out->n_bytes = text->n_bytes - HEADER_ROOM_BYTES + header.n_bytes;
    out->text = text->text + HEADER_ROOM_BYTES - header.n_bytes;
    memcpy(out->text, header.text, header.n_bytes);
}

pl_status pl_emit_plan(const struct pl_plan *plan, const char *entry, uint32_t max_version,
                       struct pl_arena *arena, struct pl_diags *diags, struct pl_emitted *out)
{
    static const char blank[HEADER_ROOM_BYTES] = "";
    struct pl_buf text;
    char suffix = 0;
    memset(out, 0, sizeof *out);
    pl_buf_init(&text, arena, ABOUT_A_STEP_BYTES * (size_t)plan->steps.list.n + 2048);
    const char *const *names = make_names(plan, arena);
    struct emitter *e = make_emitter(plan, &text, names, arena);
    if (e == NULL || names == NULL)
        return PL_E_NOMEM;
    pl_buf_putn(&text, blank, sizeof blank);
    put_head(plan, entry, names, &text);
    put_steps(e);
    pl_ptx_print_end(&text);
    join_head(e);
    if (pl_arena_is_exhausted(arena))
        return PL_E_NOMEM;
    const pl_status st = choose_target(e, max_version, &suffix, diags, out);
    if (st == PL_OK)
        put_header(&text, suffix, plan->sm, out);
    return pl_arena_is_exhausted(arena) ? PL_E_NOMEM : st;
}
