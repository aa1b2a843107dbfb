/*
 * From a parsed instruction to its kernels. emu/ops.def has a row for each scalar form; the row's choose function picks a
 * kernel by types and modifiers and completes the mode. What is common (rounding, flags, boolean) is filled in before.
 */
#include "emu/ops.h"

#include "base/debug.h"
#include "emu/ops/convert.h"
#include "emu/ops/exact.h"
#include "emu/ops/kernels.h"
#include "emu/ops/mode.h"
#include "emu/ops/tile.h"

#include <stddef.h>
#include <string.h>

enum { MAX_CHOICES = 6 };

struct op_row;

/* One instruction on its way to a kernel. */
struct pick {
    const struct pl_ptx_module *module;
    const struct pl_ptx_func *func;
    const struct pl_ptx_ins *ins;
    const struct op_row *row;
    struct pl_emu_mode mode;
    uint64_t imm; /* where has_imm: instead of the mode */
    bool has_imm;
    uint8_t d_bits; /* not 0: container of the destination, for kernels that leave it open */
    uint8_t a_bits; /* ditto, of all sources */
};

typedef enum pl_emu_kernel choose_fn(struct pick *p);

struct op_row {
    choose_fn *choose;
    uint8_t op;
    uint16_t flags;
    uint16_t kernels[MAX_CHOICES]; /* enum pl_emu_kernel */
};

/* ---- the instruction's types and operands ---- */

static const struct pl_ptx_type_info *type_info(const struct pick *p, unsigned i)
{
    return &pl_ptx_types[p->ins->types[i]];
}

static bool has_mod(const struct pick *p, enum pl_ptx_cat cat)
{
    return p->ins->mods[cat] != PL_PTX_MOD_NONE;
}

static const struct pl_ptx_operand *operand(const struct pick *p, unsigned i)
{
    return &p->module->pool.data[p->ins->operands + i];
}

static uint8_t container(unsigned bits) { return bits == 1 ? 1 : bits <= 16 ? 16 : (uint8_t)bits; }

static uint8_t sreg_container(unsigned sreg)
{
    static const uint8_t types[] = {
#define SREG(id, text, type, ...) [PL_PTX_SREG_##id] = PL_PTX_TYPE_##type,
#include "jit/ptx/sreg.def"
#undef SREG
    };
    return container(pl_ptx_types[types[sreg]].bits);
}

/* Of a register its own; 0 where the operand has none (an immediate). */
static uint8_t container_of(const struct pick *p, const struct pl_ptx_operand *o)
{
    if (o->kind == PL_PTX_OP_REG)
        return container(pl_ptx_types[p->func->regs.data[o->reg - 1].type].bits);
    return o->kind == PL_PTX_OP_SREG ? sreg_container(o->sreg) : 0;
}

static unsigned width_index(unsigned bits) { return bits <= 16 ? 0 : bits <= 32 ? 1 : 2; }
static unsigned log2_bytes(uint8_t container_bits)
{
    return container_bits == 16 ? 1 : container_bits == 32 ? 2 : 3;
}

/* The format of a float type or of the elements of a packed one; PL_NUM_FMT_COUNT for others. */
static enum pl_num_fmt fmt_of(uint8_t type)
{
#define FMT(type, fmt) [PL_PTX_TYPE_##type] = PL_NUM_##fmt + 1
    static const uint8_t fmts[PL_PTX_TYPE_COUNT] = {
        FMT(F64, F64),     FMT(F32, F32),     FMT(F32X2, F32),     FMT(TF32, TF32),
        FMT(F16, F16),     FMT(F16X2, F16),   FMT(BF16, BF16),     FMT(BF16X2, BF16),
        FMT(E4M3X2, E4M3), FMT(E4M3X4, E4M3), FMT(E5M2X2, E5M2),   FMT(E5M2X4, E5M2),
        FMT(E3M2X2, E3M2), FMT(E3M2X4, E3M2), FMT(E2M3X2, E2M3),   FMT(E2M3X4, E2M3),
        FMT(E2M1X2, E2M1), FMT(E2M1X4, E2M1), FMT(UE8M0X2, UE8M0),
    };
#undef FMT
    return fmts[type] == 0 ? PL_NUM_FMT_COUNT : (enum pl_num_fmt)(fmts[type] - 1);
}

static bool is_packed_pair(uint8_t type)
{
    return type == PL_PTX_TYPE_F16X2 || type == PL_PTX_TYPE_BF16X2;
}

/* ---- modes ---- */

static uint8_t round_of(uint8_t mod)
{
    static const uint8_t rounds[PL_PTX_MOD_COUNT] = {
        [PL_PTX_MOD_RND_RN] = PL_NUM_RN,  [PL_PTX_MOD_RND_RNI] = PL_NUM_RN,
        [PL_PTX_MOD_RND_RZ] = PL_NUM_RZ,  [PL_PTX_MOD_RND_RZI] = PL_NUM_RZ,
        [PL_PTX_MOD_RND_RM] = PL_NUM_RM,  [PL_PTX_MOD_RND_RMI] = PL_NUM_RM,
        [PL_PTX_MOD_RND_RP] = PL_NUM_RP,  [PL_PTX_MOD_RND_RPI] = PL_NUM_RP,
        [PL_PTX_MOD_RND_RNA] = PL_NUM_RA,
    };
    return rounds[mod]; /* absent: to nearest even, the default of add, sub, mul */
}

static uint8_t bool_of(uint8_t mod)
{
    static const uint8_t bools[PL_PTX_MOD_COUNT] = {[PL_PTX_MOD_BOOL_AND] = PL_EMU_BOOL_AND,
                                                    [PL_PTX_MOD_BOOL_OR] = PL_EMU_BOOL_OR,
                                                    [PL_PTX_MOD_BOOL_XOR] = PL_EMU_BOOL_XOR};
    return bools[mod];
}

/* Is the last source a negated predicate? */
static bool has_negated_predicate(const struct pick *p)
{
    const struct pl_ptx_operand *last = operand(p, p->ins->n_operands - 1u);
    return last->is_negated;
}

static void fill_mode(struct pick *p)
{
    static const struct {
        uint16_t mod, flag;
    } flags[] = {
        {PL_PTX_MOD_FTZ_FTZ, PL_EMU_M_FTZ},
        {PL_PTX_MOD_SAT_SAT, PL_EMU_M_SAT},
        {PL_PTX_MOD_SAT_SATFINITE, PL_EMU_M_SATFINITE},
        {PL_PTX_MOD_RELU_RELU, PL_EMU_M_RELU},
        {PL_PTX_MOD_NAN_NAN, PL_EMU_M_NAN},
        {PL_PTX_MOD_ABS_ABS, PL_EMU_M_ABS},
        {PL_PTX_MOD_XORSIGN_XORSIGN, PL_EMU_M_XORSIGN},
        {PL_PTX_MOD_WRAP_WRAP, PL_EMU_M_WRAP},
        {PL_PTX_MOD_OOB_OOB, PL_EMU_M_OOB},
        {PL_PTX_MOD_HALF_HI, PL_EMU_M_HI},
        {PL_PTX_MOD_CC_CC, PL_EMU_M_CC_OUT},
    };
    p->mode.op = p->row->op;
    p->mode.flags = p->row->flags;
    p->mode.n = 1;
    p->mode.round = round_of(p->ins->mods[PL_PTX_CAT_RND]);
    p->mode.extra = bool_of(p->ins->mods[PL_PTX_CAT_BOOL]);
    for (unsigned cat = 0; cat < PL_PTX_CAT_COUNT; cat++)
        for (unsigned k = 0; k < PL_COUNT(flags); k++)
            if (p->ins->mods[cat] == flags[k].mod)
                p->mode.flags |= flags[k].flag;
    if (p->ins->n_types > 0 && type_info(p, 0)->class == PL_PTX_CLASS_SINT)
        p->mode.flags |= PL_EMU_M_SIGNED;
    if (has_negated_predicate(p))
        p->mode.flags |= PL_EMU_M_NOT_C;
}

/* ---- choosing: one function for each `choose` of ops.def ---- */

static enum pl_emu_kernel kernel(const struct pick *p, unsigned i)
{
    return (enum pl_emu_kernel)p->row->kernels[i];
}

static enum pl_emu_kernel choose_one(struct pick *p) { return kernel(p, 0); }

static enum pl_emu_kernel choose_by_bits(struct pick *p)
{
    return kernel(p, width_index(type_info(p, 0)->bits));
}

static unsigned type_index(const struct pl_ptx_type_info *t)
{
    return 2 * width_index(t->bits) + (t->class == PL_PTX_CLASS_SINT ? 1 : 0);
}

static enum pl_emu_kernel choose_by_type(struct pick *p)
{
    return kernel(p, type_index(type_info(p, 0)));
}

static enum pl_emu_kernel choose_by_sign(struct pick *p)
{
    return kernel(p, p->ins->types[0] == PL_PTX_TYPE_S16X2 ? 1 : 0);
}

static enum pl_emu_kernel choose_by_packed(struct pick *p)
{
    return kernel(p, is_packed_pair(p->ins->types[0]) ? 1 : 0);
}

static enum pl_emu_kernel choose_by_ftz_sat(struct pick *p)
{
    unsigned ftz = p->mode.flags & PL_EMU_M_FTZ ? 1 : 0, sat = p->mode.flags & PL_EMU_M_SAT ? 2 : 0;
    return kernel(p, ftz + sat);
}

static enum pl_emu_kernel choose_carry(struct pick *p) { return choose_by_bits(p); }

static enum pl_emu_kernel choose_bfind(struct pick *p)
{
    p->mode.op = has_mod(p, PL_PTX_CAT_SHIFTAMT);
    return choose_by_bits(p);
}

static enum pl_emu_kernel choose_dot(struct pick *p)
{
    if (type_info(p, 1)->class == PL_PTX_CLASS_SINT)
        p->mode.flags |= PL_EMU_M_B_SIGNED;
    return kernel(p, 0);
}

/* The table is the integer after a, b and c. */
static enum pl_emu_kernel choose_lop3(struct pick *p)
{
    p->mode.op = (uint8_t)operand(p, 4)->imm;
    return kernel(p, 0);
}

static enum pl_emu_kernel choose_shf(struct pick *p)
{
    unsigned left = p->ins->mods[PL_PTX_CAT_DIR] == PL_PTX_MOD_DIR_L ? 2 : 0;
    return kernel(p, left + (p->mode.flags & PL_EMU_M_WRAP ? 1 : 0));
}

static enum pl_emu_kernel choose_prmt(struct pick *p)
{
    uint8_t mod = p->ins->mods[PL_PTX_CAT_PRMT];
    p->mode.op = mod == PL_PTX_MOD_NONE ? 0 : (uint8_t)(mod - PL_PTX_MOD_PRMT_F4E + 1);
    return kernel(p, 0);
}

/* PTX ISA, "Comparisons": lo ls hi hs are lt le gt ge of unsigned types; the …u forms are true for NaNs as well. */
static uint8_t accept_of(uint8_t mod)
{
    enum { LT = PL_EMU_LT, EQ = PL_EMU_EQ, GT = PL_EMU_GT, UN = PL_EMU_UN };
    static const uint8_t accepts[PL_PTX_MOD_COUNT] = {
        [PL_PTX_MOD_CMP_EQ] = EQ,
        [PL_PTX_MOD_CMP_NE] = LT | GT,
        [PL_PTX_MOD_CMP_LT] = LT,
        [PL_PTX_MOD_CMP_LE] = LT | EQ,
        [PL_PTX_MOD_CMP_GT] = GT,
        [PL_PTX_MOD_CMP_GE] = GT | EQ,
        [PL_PTX_MOD_CMP_LO] = LT,
        [PL_PTX_MOD_CMP_LS] = LT | EQ,
        [PL_PTX_MOD_CMP_HI] = GT,
        [PL_PTX_MOD_CMP_HS] = GT | EQ,
        [PL_PTX_MOD_CMP_EQU] = EQ | UN,
        [PL_PTX_MOD_CMP_NEU] = LT | GT | UN,
        [PL_PTX_MOD_CMP_LTU] = LT | UN,
        [PL_PTX_MOD_CMP_LEU] = LT | EQ | UN,
        [PL_PTX_MOD_CMP_GTU] = GT | UN,
        [PL_PTX_MOD_CMP_NAN] = UN,
        [PL_PTX_MOD_CMP_GEU] = GT | EQ | UN,
        [PL_PTX_MOD_CMP_NUM] = LT | EQ | GT,
    };
    return accepts[mod];
}

static uint8_t true_of(uint8_t type)
{
    static const uint8_t trues[PL_NUM_FMT_COUNT + 1] = {[PL_NUM_F32] = PL_EMU_TRUE_F32,
                                                        [PL_NUM_F16] = PL_EMU_TRUE_F16,
                                                        [PL_NUM_BF16] = PL_EMU_TRUE_BF16,
                                                        [PL_NUM_FMT_COUNT] = PL_EMU_TRUE_ONES};
    return trues[fmt_of(type)];
}

/* setp has the compared type alone, set the result's before it. */
static enum pl_emu_kernel choose_compare(struct pick *p)
{
    const struct pl_ptx_type_info *compared = type_info(p, p->ins->n_types - 1u);
    p->mode.op = accept_of(p->ins->mods[PL_PTX_CAT_CMP]);
    if (p->ins->n_types > 1) {
        p->mode.to = true_of(p->ins->types[0]);
        p->mode.n = (uint8_t)type_info(p, 0)->bits;
        p->d_bits = container(type_info(p, 0)->bits);
    }
    return kernel(p, compared->class == PL_PTX_CLASS_FLOAT || compared->class == PL_PTX_CLASS_PACKED
                         ? 0
                         : type_index(compared));
}

static enum pl_emu_kernel choose_selp(struct pick *p)
{
    p->has_imm = true;
    p->imm = p->mode.flags & PL_EMU_M_NOT_C ? UINT32_MAX : 0;
    return choose_by_bits(p);
}

static enum pl_emu_kernel choose_testp(struct pick *p)
{
    p->mode.op = (uint8_t)(p->ins->mods[PL_PTX_CAT_TESTP] - PL_PTX_MOD_TESTP_FINITE);
    return choose_by_bits(p);
}

static void set_formats(struct pick *p, uint8_t to, uint8_t from, bool is_pair)
{
    p->mode.to = (uint8_t)fmt_of(to);
    p->mode.from = (uint8_t)fmt_of(from);
    p->mode.n = is_pair ? 2 : 1;
    p->d_bits = container(pl_ptx_types[to].bits);
    p->a_bits = container(pl_ptx_types[from].bits);
}

static enum pl_emu_kernel choose_half(struct pick *p)
{
    uint8_t type = p->ins->types[0];
    if (!(p->mode.flags & (PL_EMU_M_FTZ | PL_EMU_M_OOB)))
        return kernel(p, 0);
    set_formats(p, type, type, is_packed_pair(type));
    return PL_EMU_K_exact;
}

/* The last source has the result's type, f32; the others are f16 or bf16. */
static enum pl_emu_kernel choose_mixed(struct pick *p)
{
    set_formats(p, p->ins->types[0], p->ins->types[1], false);
    return kernel(p, 0);
}

/* kernels: plain, .ftz, .NaN; then the same for packed pairs. Anything else, and three operands: the general one. */
static enum pl_emu_kernel choose_min_max(struct pick *p)
{
    uint8_t type = p->ins->types[0];
    unsigned n_src = p->ins->n_operands - 1u, base = is_packed_pair(type) ? 3 : 0;
    enum pl_emu_kernel k = PL_EMU_K_none;
    if (p->mode.flags == 0)
        k = kernel(p, base);
    else if (p->mode.flags == PL_EMU_M_FTZ)
        k = kernel(p, base + 1);
    else if (p->mode.flags == PL_EMU_M_NAN)
        k = kernel(p, base + 2);
    if (k != PL_EMU_K_none)
        return k;
    set_formats(p, type, type, is_packed_pair(type));
    p->mode.extra = (uint8_t)n_src;
    return PL_EMU_K_min_max;
}

/* ---- video ---- */

/* One part of an operand: how many times its register is halved, and which part. */
static void scalar_part(const struct pl_ptx_operand *o, unsigned *width, unsigned *part)
{
    *width = o->select == 0 ? 0 : (o->select & PL_PTX_SELECT_BYTES) != 0 ? 2 : 1;
    *part = pl_ptx_select_digit(o->select, 0);
}

/* The parts of {b, a}, as many as the instruction computes; by default those of a, or of b. */
static unsigned simd_parts(const struct pl_ptx_operand *o, unsigned n_parts, bool is_b)
{
    unsigned parts = 0;
    for (unsigned i = 0; i < n_parts; i++)
        parts |= (o->select != 0 ? pl_ptx_select_digit(o->select, i) : i + (is_b ? n_parts : 0))
                 << 3 * i;
    return parts;
}

static unsigned simd_mask(const struct pl_ptx_operand *d)
{
    unsigned mask = d->select == 0 ? 15 : 0;
    for (unsigned i = 0; i < pl_ptx_select_count(d->select); i++)
        mask |= 1u << pl_ptx_select_digit(d->select, i);
    return mask;
}

static unsigned video_shift(const struct pick *p)
{
    uint8_t scale = p->ins->mods[PL_PTX_CAT_VSCALE];
    return scale == PL_PTX_MOD_VSCALE_SHR7 ? 7 : scale == PL_PTX_MOD_VSCALE_SHR15 ? 15 : 0;
}

/* The opcode's last digit is the number of parts. */
static unsigned video_n_parts(const struct pick *p)
{
    const char *mnemonic = pl_ptx_infos[p->ins->form].mnemonic;
    char last = mnemonic[strcspn(mnemonic, ".") - 1];
    return last == '2' ? 2 : last == '4' ? 4 : 1;
}

/* Types are those of d, a, b; vset has no first one and is unsigned. */
static enum pl_emu_kernel choose_video(struct pick *p)
{
    static const uint8_t seconds[PL_PTX_MOD_COUNT] = {[PL_PTX_MOD_ATOM_ADD] = PL_EMU_VSECOND_ADD,
                                                      [PL_PTX_MOD_ATOM_MIN] = PL_EMU_VSECOND_MIN,
                                                      [PL_PTX_MOD_ATOM_MAX] = PL_EMU_VSECOND_MAX};
    const struct pl_ptx_operand *d = operand(p, 0), *a = operand(p, 1), *b = operand(p, 2);
    bool is_vset = p->mode.op == PL_EMU_VSET, is_vmad = p->mode.op == PL_EMU_VMAD;
    unsigned first = is_vset ? 0 : 1, width, part;
    struct pl_emu_video_mode m = {.op = p->mode.op & 15u,
                                  .second = seconds[p->ins->mods[PL_PTX_CAT_ATOM]] & 3u,
                                  .n_parts = video_n_parts(p) & 7u,
                                  .accept =
                                      is_vset ? accept_of(p->ins->mods[PL_PTX_CAT_CMP]) & 7u : 0,
                                  .shift = video_shift(p) & 15u,
                                  .is_signed = !is_vset && (p->mode.flags & PL_EMU_M_SIGNED) != 0,
                                  .is_sat = (p->mode.flags & PL_EMU_M_SAT) != 0,
                                  .is_wrap = (p->mode.flags & PL_EMU_M_WRAP) != 0,
                                  .a_signed = type_info(p, first)->class == PL_PTX_CLASS_SINT,
                                  .b_signed = type_info(p, first + 1)->class == PL_PTX_CLASS_SINT,
                                  .is_plus_one = has_mod(p, PL_PTX_CAT_PO),
                                  .is_product_negated = a->is_minus != b->is_minus,
                                  .is_c_negated = is_vmad && operand(p, 3)->is_minus};
    if (m.n_parts == 1) {
        scalar_part(a, &width, &part);
        m.a_width = width & 3u, m.a = part & 7u;
        scalar_part(b, &width, &part);
        m.b_width = width & 3u, m.b = part & 7u;
        scalar_part(d, &width, &part);
        m.d_width = width & 3u, m.d = part & 7u;
    } else {
        m.a = simd_parts(a, m.n_parts, false) & 0xfffu;
        m.b = simd_parts(b, m.n_parts, true) & 0xfffu;
        m.d = simd_mask(d) & 15u;
    }
    p->has_imm = true;
    memcpy(&p->imm, &m, sizeof m);
    return kernel(p, 0);
}

/* ---- conversions ---- */

static uint8_t cvt_type(uint8_t type)
{
    const struct pl_ptx_type_info *t = &pl_ptx_types[type];
    if (t->class == PL_PTX_CLASS_FLOAT)
        return (uint8_t)fmt_of(type);
    return (uint8_t)(PL_EMU_CVT_INT | (t->class == PL_PTX_CLASS_SINT ? PL_EMU_CVT_SIGNED : 0) |
                     t->bits / 8);
}

static bool is_integral_round(uint8_t mod)
{
    return mod == PL_PTX_MOD_RND_RNI || mod == PL_PTX_MOD_RND_RZI || mod == PL_PTX_MOD_RND_RMI ||
           mod == PL_PTX_MOD_RND_RPI;
}

/* Integer types that fill their registers, without .sat: an extension, a truncation or a move. */
static enum pl_emu_kernel fast_int(const struct pick *p)
{
    static const uint16_t kernels[3][3][2] = {/* [from][to][source is signed] */
                                              {{PL_EMU_K_move_b16, PL_EMU_K_move_b16},
                                               {PL_EMU_K_zext_16_32, PL_EMU_K_sext_16_32},
                                               {PL_EMU_K_zext_16_64, PL_EMU_K_sext_16_64}},
                                              {{PL_EMU_K_trunc_32_16, PL_EMU_K_trunc_32_16},
                                               {PL_EMU_K_move_b32, PL_EMU_K_move_b32},
                                               {PL_EMU_K_zext_32_64, PL_EMU_K_sext_32_64}},
                                              {{PL_EMU_K_trunc_64_16, PL_EMU_K_trunc_64_16},
                                               {PL_EMU_K_trunc_64_32, PL_EMU_K_trunc_64_32},
                                               {PL_EMU_K_move_b64, PL_EMU_K_move_b64}}};
    const struct pl_ptx_type_info *to = type_info(p, 0), *from = type_info(p, 1);
    if (to->bits != p->d_bits || from->bits != p->a_bits || p->mode.flags & PL_EMU_M_SAT)
        return PL_EMU_K_none;
    return (enum pl_emu_kernel)
        kernels[width_index(from->bits)][width_index(to->bits)][from->class == PL_PTX_CLASS_SINT];
}

/* The frequent pairs in the one mode they are frequent in; flags other than SIGNED must be absent or as given. */
static enum pl_emu_kernel fast_float(const struct pick *p)
{
    static const struct {
        uint16_t to, from, rnd, flags, kernel;
    } rows[] = {
        {PL_PTX_TYPE_F16, PL_PTX_TYPE_F32, PL_PTX_MOD_RND_RN, 0, PL_EMU_K_cvt_f16_f32},
        {PL_PTX_TYPE_BF16, PL_PTX_TYPE_F32, PL_PTX_MOD_RND_RN, 0, PL_EMU_K_cvt_bf16_f32},
        {PL_PTX_TYPE_F16X2, PL_PTX_TYPE_F32, PL_PTX_MOD_RND_RN, 0, PL_EMU_K_cvt_f16x2_f32},
        {PL_PTX_TYPE_BF16X2, PL_PTX_TYPE_F32, PL_PTX_MOD_RND_RN, 0, PL_EMU_K_cvt_bf16x2_f32},
        {PL_PTX_TYPE_F16X2, PL_PTX_TYPE_F32, PL_PTX_MOD_RND_RN, PL_EMU_M_RELU,
         PL_EMU_K_cvt_relu_f16x2_f32},
        {PL_PTX_TYPE_BF16X2, PL_PTX_TYPE_F32, PL_PTX_MOD_RND_RN, PL_EMU_M_RELU,
         PL_EMU_K_cvt_relu_bf16x2_f32},
        {PL_PTX_TYPE_F32, PL_PTX_TYPE_F16, PL_PTX_MOD_NONE, 0, PL_EMU_K_cvt_f32_f16},
        {PL_PTX_TYPE_F32, PL_PTX_TYPE_BF16, PL_PTX_MOD_NONE, 0, PL_EMU_K_cvt_f32_bf16},
        {PL_PTX_TYPE_F64, PL_PTX_TYPE_F32, PL_PTX_MOD_NONE, 0, PL_EMU_K_cvt_f64_f32},
        {PL_PTX_TYPE_F32, PL_PTX_TYPE_F64, PL_PTX_MOD_RND_RN, 0, PL_EMU_K_cvt_f32_f64},
        {PL_PTX_TYPE_F32, PL_PTX_TYPE_S32, PL_PTX_MOD_RND_RN, 0, PL_EMU_K_cvt_f32_s32},
        {PL_PTX_TYPE_F32, PL_PTX_TYPE_U32, PL_PTX_MOD_RND_RN, 0, PL_EMU_K_cvt_f32_u32},
        {PL_PTX_TYPE_F64, PL_PTX_TYPE_S32, PL_PTX_MOD_RND_RN, 0, PL_EMU_K_cvt_f64_s32},
        {PL_PTX_TYPE_F64, PL_PTX_TYPE_U32, PL_PTX_MOD_RND_RN, 0, PL_EMU_K_cvt_f64_u32},
        {PL_PTX_TYPE_F32, PL_PTX_TYPE_F32, PL_PTX_MOD_NONE, PL_EMU_M_SAT, PL_EMU_K_cvt_sat_f32_f32},
        {PL_PTX_TYPE_S32, PL_PTX_TYPE_F32, PL_PTX_MOD_RND_RNI, 0, PL_EMU_K_cvt_rni_s32_f32},
        {PL_PTX_TYPE_S32, PL_PTX_TYPE_F32, PL_PTX_MOD_RND_RZI, 0, PL_EMU_K_cvt_rzi_s32_f32},
        {PL_PTX_TYPE_S32, PL_PTX_TYPE_F32, PL_PTX_MOD_RND_RMI, 0, PL_EMU_K_cvt_rmi_s32_f32},
        {PL_PTX_TYPE_S32, PL_PTX_TYPE_F32, PL_PTX_MOD_RND_RPI, 0, PL_EMU_K_cvt_rpi_s32_f32},
    };
    if (type_info(p, 0)->bits != p->d_bits || type_info(p, 1)->bits != p->a_bits)
        return PL_EMU_K_none;
    for (unsigned i = 0; i < PL_COUNT(rows); i++)
        if (rows[i].to == p->ins->types[0] && rows[i].from == p->ins->types[1] &&
            rows[i].rnd == p->ins->mods[PL_PTX_CAT_RND] &&
            rows[i].flags == (p->mode.flags & ~PL_EMU_M_SIGNED))
            return (enum pl_emu_kernel)rows[i].kernel;
    return PL_EMU_K_none;
}

static void set_cvt_containers(struct pick *p)
{
    uint8_t d = container_of(p, operand(p, 0)), a = container_of(p, operand(p, 1));
    p->d_bits = d ? d : container(type_info(p, 0)->bits);
    p->a_bits = a ? a : container(type_info(p, 1)->bits);
    p->mode.extra = (uint8_t)(log2_bytes(p->d_bits) | log2_bytes(p->a_bits) << 2);
}

static enum pl_emu_kernel choose_cvt(struct pick *p)
{
    set_cvt_containers(p);
    p->mode.to = cvt_type(p->ins->types[0]);
    p->mode.from = cvt_type(p->ins->types[1]);
    bool is_int = p->mode.to & p->mode.from & PL_EMU_CVT_INT;
    enum pl_emu_kernel fast = is_int ? fast_int(p) : fast_float(p);
    if (fast != PL_EMU_K_none)
        return fast;
    if (is_integral_round(p->ins->mods[PL_PTX_CAT_RND]))
        p->mode.extra |= PL_EMU_CVT_INTEGRAL;
    return kernel(p, 0);
}

static enum pl_emu_kernel choose_cvt_packed(struct pick *p)
{
    set_cvt_containers(p);
    p->mode.to = (uint8_t)fmt_of(p->ins->types[0]);
    p->mode.from = (uint8_t)fmt_of(p->ins->types[1]);
    enum pl_emu_kernel fast = fast_float(p);
    if (fast != PL_EMU_K_none)
        return fast;
    if (pl_num_fmts[p->mode.to].bits <= 8 && p->mode.to != PL_NUM_UE8M0)
        p->mode.flags |= PL_EMU_M_SATFINITE; /* part of the mnemonic */
    return kernel(p, 0);
}

static enum pl_emu_kernel choose_pack_int(struct pick *p)
{
    p->mode.n = (uint8_t)type_info(p, 0)->bits;
    return kernel(p, 0);
}

/* ---- the table and the result ---- */

static const struct op_row rows[PL_PTX_COUNT] = {
#define K(id) PL_EMU_K_##id
#define OP(form, choose, op, flags, ...)                                                           \
    [PL_PTX_##form] = {choose_##choose, op, flags, {__VA_ARGS__}},
#include "emu/ops.def"
#undef OP
#undef K
};

static const struct pl_emu_kernel_fns *kernels = pl_emu_kernels_base;
static pl_emu_tile_fn *tile_f32 = pl_emu_tile_f32_base, *tile_s32 = pl_emu_tile_s32_base;

enum pl_emu_isa pl_emu_ops_init(enum pl_emu_isa most)
{
#ifdef PL_HOST_X86_64
    if (most >= PL_EMU_ISA_AVX2 && __builtin_cpu_supports("avx2") &&
        __builtin_cpu_supports("fma")) {
        kernels = pl_emu_kernels_avx2;
        tile_f32 = pl_emu_tile_f32_avx2;
        tile_s32 = pl_emu_tile_s32_avx2;
        return PL_EMU_ISA_AVX2;
    }
#else
    (void)most;
#endif
    kernels = pl_emu_kernels_base;
    tile_f32 = pl_emu_tile_f32_base;
    tile_s32 = pl_emu_tile_s32_base;
    return PL_EMU_ISA_BASE;
}

void pl_emu_tile_f32(const struct pl_emu_tile *t) { tile_f32(t); }
void pl_emu_tile_s32(const struct pl_emu_tile *t) { tile_s32(t); }

/* Sources in text order, vectors flattened. Containers of registers must be what the kernel reads. */
static bool fill_sources(const struct pick *p, const struct pl_emu_kernel_info *info,
                         struct pl_emu_op *out)
{
    for (unsigned i = 1; i < p->ins->n_operands; i++) {
        const struct pl_ptx_operand *o = operand(p, i);
        unsigned n = o->kind == PL_PTX_OP_VECTOR ? o->n : 1;
        for (unsigned k = 0; k < n; k++) {
            if (out->n_src == PL_EMU_OP_MAX_SRC)
                return false;
            const struct pl_ptx_operand *e =
                o->kind == PL_PTX_OP_VECTOR ? &p->module->pool.data[o->first + k] : o;
            uint8_t want = info->src_bits[out->n_src], have = container_of(p, e);
            if (want == 0)
                want =
                    out->n_src > 0 && p->row->choose == choose_mixed && i == p->ins->n_operands - 1u
                        ? 32
                        : p->a_bits;
            if (want == 0 || (have != 0 && have != want))
                return false;
            out->src_bits[out->n_src++] = want;
        }
    }
    return true;
}

static bool fill_destinations(const struct pick *p, const struct pl_emu_kernel_info *info,
                              struct pl_emu_op *out)
{
    const struct pl_ptx_operand *d = operand(p, 0);
    bool is_pair = d->kind == PL_PTX_OP_PAIR;
    out->d_bits = p->d_bits ? p->d_bits : info->d_bits;
    out->d2_bits = is_pair ? info->d2_bits : 0;
    uint8_t have = container_of(p, is_pair ? &p->module->pool.data[d->first] : d);
    return have == 0 || have == out->d_bits;
}

bool pl_emu_op_select(const struct pl_ptx_module *m, const struct pl_ptx_func *f,
                      const struct pl_ptx_ins *ins, struct pl_emu_op *out)
{
    struct pick p = {.module = m, .func = f, .ins = ins, .row = &rows[ins->form]};
    if (p.row->choose == NULL)
        return false;
    fill_mode(&p);
    enum pl_emu_kernel k = p.row->choose(&p);
    if (k == PL_EMU_K_none)
        return false;
    *out = (struct pl_emu_op){.full = kernels[k].full,
                              .masked = kernels[k].masked,
                              .imm = p.has_imm ? p.imm : pl_emu_mode_imm(p.mode),
                              .uses_cc = p.row->choose == choose_carry};
    return fill_destinations(&p, &pl_emu_kernel_infos[k], out) &&
           fill_sources(&p, &pl_emu_kernel_infos[k], out);
}
