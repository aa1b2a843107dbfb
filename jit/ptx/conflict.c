/*
 * What the rows' lists of modifiers and types allow one by one but not together. Pairs of modifiers are rows of conflict.def;
 * what depends on types is here. Measured with the assembler of CUDA 13.0.
 */
#include "jit/ptx/parser.h"

enum { ANY_FORM = PL_PTX_NONE, MOD_ABSENT = 0, MOD_SOME = 255 };

static const struct conflict {
    uint16_t form; /* ANY_FORM: all */
    struct side {
        uint8_t cat, mod;
        bool is_other; /* any member but mod */
    } a, b;
} conflicts[] = {
#define PL_PTX_ANY ANY_FORM
#define B(cat, member)                                                                             \
    {                                                                                              \
        PL_PTX_CAT_##cat, PL_PTX_MOD_##cat##_##member, false                                       \
    }
#define OTHER(cat, member)                                                                         \
    {                                                                                              \
        PL_PTX_CAT_##cat, PL_PTX_MOD_##cat##_##member, true                                        \
    }
#define SOME(cat)                                                                                  \
    {                                                                                              \
        PL_PTX_CAT_##cat, MOD_SOME, false                                                          \
    }
#define ABSENT(cat)                                                                                \
    {                                                                                              \
        PL_PTX_CAT_##cat, MOD_ABSENT, false                                                        \
    }
#define CONFLICT(form, a, b) {PL_PTX_##form, a, b},
#include "jit/ptx/conflict.def"
#undef PL_PTX_ANY
#undef B
#undef OTHER
#undef SOME
#undef ABSENT
#undef CONFLICT
};

static bool is_there(const struct pl_ptx_ins *ins, const struct side *side)
{
    uint8_t mod = ins->mods[side->cat];
    if (side->is_other || side->mod == MOD_SOME)
        return mod != 0 && mod != side->mod;
    return mod == side->mod;
}

static const char *text_of(uint8_t mod) { return pl_ptx_mods[mod].text; }

static const char *find_pair(const struct pl_ptx_ins *ins)
{
    for (size_t i = 0; i < sizeof conflicts / sizeof conflicts[0]; i++) {
        const struct conflict *c = &conflicts[i];
        if ((c->form == ANY_FORM || c->form == ins->form) && is_there(ins, &c->a) &&
            is_there(ins, &c->b))
            return text_of(ins->mods[c->a.cat]);
    }
    return NULL;
}

static unsigned bits_of(const struct pl_ptx_ins *ins, unsigned slot)
{
    return pl_ptx_types[ins->types[slot]].bits;
}
static bool is_signed(const struct pl_ptx_ins *ins, unsigned slot)
{
    return pl_ptx_types[ins->types[slot]].class == PL_PTX_CLASS_SINT;
}

/* Bits compare for equality only; lo ls hi hs are the unsigned names. */
static const char *find_comparison(const struct pl_ptx_ins *ins, unsigned slot)
{
    uint8_t cmp = ins->mods[PL_PTX_CAT_CMP];
    bool is_equality = cmp == PL_PTX_MOD_CMP_EQ || cmp == PL_PTX_MOD_CMP_NE;
    bool is_unsigned_name = cmp >= PL_PTX_MOD_CMP_LO && cmp <= PL_PTX_MOD_CMP_HS;
    if (pl_ptx_types[ins->types[slot]].class == PL_PTX_CLASS_BITS && !is_equality)
        return text_of(cmp);
    return is_signed(ins, slot) && is_unsigned_name ? text_of(cmp) : NULL;
}

/* .sat between integers where the result's type holds every value of the source's. */
static const char *find_useless_sat(const struct pl_ptx_ins *ins)
{
    bool is_wider = bits_of(ins, 0) > bits_of(ins, 1) ||
                    (bits_of(ins, 0) == bits_of(ins, 1) && is_signed(ins, 0) == is_signed(ins, 1));
    bool loses_sign = is_signed(ins, 1) && !is_signed(ins, 0);
    return ins->mods[PL_PTX_CAT_SAT] != 0 && is_wider && !loses_sign ? "sat" : NULL;
}

/* Between floats: narrowing needs a rounding, widening takes none, the same type takes one to an integer or none; .satfinite
 * and .relu exist for f16 from f32 alone, rounded to nearest or to zero. */
static const char *find_float_conversion(const struct pl_ptx_ins *ins)
{
    uint8_t rnd = ins->mods[PL_PTX_CAT_RND];
    bool is_to_int = rnd >= PL_PTX_MOD_RND_RNI && rnd <= PL_PTX_MOD_RND_RPI;
    bool has_finite =
        ins->mods[PL_PTX_CAT_SAT] == PL_PTX_MOD_SAT_SATFINITE || ins->mods[PL_PTX_CAT_RELU] != 0;
    bool is_f16_f32 = ins->types[0] == PL_PTX_TYPE_F16 && ins->types[1] == PL_PTX_TYPE_F32;
    bool is_near_or_zero = rnd == PL_PTX_MOD_RND_RN || rnd == PL_PTX_MOD_RND_RZ;
    if (bits_of(ins, 0) < bits_of(ins, 1) && (rnd == 0 || is_to_int))
        return rnd == 0 ? pl_ptx_types[ins->types[0]].text : text_of(rnd);
    if (bits_of(ins, 0) > bits_of(ins, 1) && rnd != 0)
        return text_of(rnd);
    if (ins->types[0] == ins->types[1] && rnd != 0 && !is_to_int)
        return text_of(rnd);
    if (has_finite && (!is_f16_f32 || !is_near_or_zero))
        return ins->mods[PL_PTX_CAT_RELU] != 0 ? "relu" : "satfinite";
    bool has_f32 = ins->types[0] == PL_PTX_TYPE_F32 || ins->types[1] == PL_PTX_TYPE_F32;
    return ins->mods[PL_PTX_CAT_FTZ] != 0 && !has_f32 ? "ftz" : NULL;
}

/* .ftz means an f32 on either side. */
static const char *find_idle_ftz(const struct pl_ptx_ins *ins)
{
    bool has_f32 = ins->types[0] == PL_PTX_TYPE_F32 || ins->types[1] == PL_PTX_TYPE_F32;
    return ins->mods[PL_PTX_CAT_FTZ] != 0 && !has_f32 ? "ftz" : NULL;
}

/* To bf16: from itself rounded to an integer or not at all, else rounded. */
static const char *find_bf16_rounding(const struct pl_ptx_ins *ins)
{
    uint8_t rnd = ins->mods[PL_PTX_CAT_RND];
    bool is_to_int = rnd >= PL_PTX_MOD_RND_RNI && rnd <= PL_PTX_MOD_RND_RPI;
    if (ins->types[1] == PL_PTX_TYPE_BF16)
        return rnd != 0 && !is_to_int ? text_of(rnd) : NULL;
    return rnd == 0 || is_to_int ? pl_ptx_types[ins->types[0]].text : NULL;
}

/* Vectors: up to 256 bits, in global memory and where the row takes so many; the evictions of L2 go with 256 bits of 32- or 64-bit elements. */
static const char *find_vector(const struct pl_ptx_ins *ins)
{
    uint8_t vec = ins->mods[PL_PTX_CAT_VEC];
    if (vec == 0)
        return NULL;
    unsigned n_bits = bits_of(ins, 0) * (2u << (vec - PL_PTX_MOD_VEC_V2));
    bool is_memory = ins->form == PL_PTX_ld || ins->form == PL_PTX_ld_nc || ins->form == PL_PTX_st;
    bool is_narrow =
        ins->form == PL_PTX_st_async || ins->form == PL_PTX_mov_vec || ins->form == PL_PTX_ldu;
    unsigned most = is_narrow ? 128 : 256;
    if (n_bits > most)
        return text_of(vec);
    uint8_t space = ins->mods[PL_PTX_CAT_SPACE];
    if (n_bits == 256 && space != 0 && space != PL_PTX_MOD_SPACE_GLOBAL)
        return text_of(space);
    bool has_l2 = ins->mods[PL_PTX_CAT_L2] != 0;
    return is_memory && has_l2 && n_bits != 256 ? text_of(ins->mods[PL_PTX_CAT_L2]) : NULL;
}

static const char *find_tensor_mode(const struct pl_ptx_ins *ins)
{
    uint8_t mode = ins->mods[PL_PTX_CAT_TMODE], dim = ins->mods[PL_PTX_CAT_DIM];
    if (mode == PL_PTX_MOD_TMODE_GATHER4 || mode == PL_PTX_MOD_TMODE_SCATTER4)
        return dim != PL_PTX_MOD_DIM_D2 ? text_of(mode) : NULL;
    bool is_im2col = mode != 0 && mode != PL_PTX_MOD_TMODE_TILE;
    return is_im2col && dim < PL_PTX_MOD_DIM_D3 ? text_of(mode) : NULL;
}

/* N of an integer wgmma goes in steps of 16 from 32 on. PTX ISA, wgmma.mma_async: Matrix Shape */
static const char *find_odd_n(const struct pl_ptx_ins *ins, const char *shape)
{
    return ins->shape_n > 24 && ins->shape_n % 16 != 0 ? shape : NULL;
}

static const char *find_in_types(const struct pl_ptx_ins *ins)
{
    uint8_t scale = ins->mods[PL_PTX_CAT_SCALE_VEC];
    switch (ins->form) {
    case PL_PTX_setp_int: return find_comparison(ins, 0);
    case PL_PTX_set_int:
    case PL_PTX_set_f16_int:
    case PL_PTX_set_bf16_int: return find_comparison(ins, 1);
    case PL_PTX_cvt_int_int: return find_useless_sat(ins);
    case PL_PTX_cvt_int_float:
    case PL_PTX_cvt_float_int: return find_idle_ftz(ins);
    case PL_PTX_cvt_float_float: return find_float_conversion(ins);
    case PL_PTX_cvt_bf16_float: return find_bf16_rounding(ins);
    case PL_PTX_wgmma_s32_i8_ss:
    case PL_PTX_wgmma_s32_i8_rs: return find_odd_n(ins, "m64nNk32 of that N");
    case PL_PTX_wgmma_s32_b1_ss:
    case PL_PTX_wgmma_s32_b1_rs: return find_odd_n(ins, "m64nNk256 of that N");
    case PL_PTX_mma_m8n8k4_f16: /* f16 does not hold a sum begun in f32 */
        return ins->types[0] == PL_PTX_TYPE_F16 && ins->types[3] == PL_PTX_TYPE_F32 ? "f32" : NULL;
    case PL_PTX_wmma_m16n16k16_i8: /* unlike those of mma, A and B have one type */
    case PL_PTX_wmma_m8n32k16_i8:
    case PL_PTX_wmma_m32n8k16_i8:
    case PL_PTX_wmma_m8n8k32_i4:
        return ins->types[1] != ins->types[2] ? pl_ptx_types[ins->types[2]].text : NULL;
    case PL_PTX_mma_m16n8k64_mxf4nvf4: /* four scales of ue4m3, or two of ue8m0 */
        if ((scale == PL_PTX_MOD_SCALE_VEC_X4) != (ins->types[4] == PL_PTX_TYPE_UE4M3))
            return scale != 0 ? text_of(scale) : pl_ptx_types[ins->types[4]].text;
        break;
    }
    return NULL;
}

const char *pl_ptx_find_conflict(const struct pl_ptx_ins *ins)
{
    const char *found = find_pair(ins);
    if (found == NULL && ins->mods[PL_PTX_CAT_DIM] != 0)
        found = find_tensor_mode(ins);
    if (found == NULL)
        found = find_vector(ins);
    return found != NULL ? found : find_in_types(ins);
}
