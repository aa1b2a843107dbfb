#include "jit/ptx/gate.h"

#include "jit/ptx/table.h"

#include <stddef.h>

enum {
#define B(id) 1 << PL_PTX_TARGET_##id
#define PLAIN(sm, ptx)
#define TARGET(sm, suffix, ptx)
#define ONSET(id, targets) ON_##id = targets,
#include "jit/ptx/target.def"
#undef PLAIN
#undef TARGET
#undef ONSET
#undef B
};

struct target {
    uint16_t sm, version, bit;
    char suffix;
};

static const struct target targets[] = {
#define PLAIN(sm, ptx)          {sm, ptx, 0, 0},
#define TARGET(sm, suffix, ptx) {sm, ptx, 1 << PL_PTX_TARGET_##sm##suffix, #suffix[0] | 0x20},
#define ONSET(id, targets)
#include "jit/ptx/target.def"
#undef PLAIN
#undef TARGET
#undef ONSET
};

enum { N_TARGETS = sizeof targets / sizeof targets[0] };

static const struct target *find_target(uint16_t sm, char suffix)
{
    for (size_t i = 0; i < N_TARGETS; i++)
        if (targets[i].sm == sm && targets[i].suffix == suffix)
            return &targets[i];
    return NULL;
}

uint16_t pl_ptx_target_bit(uint16_t sm, char suffix)
{
    const struct target *t = find_target(sm, suffix);
    return t != NULL ? t->bit : 0;
}

uint16_t pl_ptx_target_version(uint16_t sm, char suffix)
{
    const struct target *t = find_target(sm, suffix);
    return t != NULL ? t->version : 0;
}

/* ---- gates of modifiers ---- */

#define ON(sm, set) sm, ON_##set
#define GATE_OF(ptx, sm, targets, ...)                                                             \
    {                                                                                              \
        ptx, sm, targets                                                                           \
    }
#define GATE_ARGS(...) GATE_OF(__VA_ARGS__, 0, 0)

/* Of a modifier, whatever the form. */
static const struct pl_ptx_gate gates_of_every[PL_PTX_MOD_COUNT] = {
#define EVERY(cat, mod, ptx, sm) [PL_PTX_MOD_##cat##_##mod] = GATE_ARGS(ptx, sm),
#define GATE(form, cat, mod, ptx, sm)
#include "jit/ptx/gate.def"
#undef EVERY
#undef GATE
};

/* ORDER of gate.def: the rows of a form stand together. */
static const struct mod_gate {
    uint16_t form;
    uint8_t cat, mod;
    struct pl_ptx_gate gate;
} mod_gates[] = {
#define PL_PTX_MOD_SCALE_VEC_ABSENT 0
#define EVERY(cat, mod, ptx, sm)
#define GATE(form, cat, mod, ptx, sm)                                                              \
    {PL_PTX_##form, PL_PTX_CAT_##cat, PL_PTX_MOD_##cat##_##mod, GATE_ARGS(ptx, sm)},
#include "jit/ptx/gate.def"
#undef PL_PTX_MOD_SCALE_VEC_ABSENT
#undef EVERY
#undef GATE
};
#undef ON
#undef GATE_ARGS
#undef GATE_OF

enum row_number {
    ROW_NONE,
#define EVERY(cat, mod, ptx, sm)
#define GATE(form, cat, mod, ptx, sm) ROW_##form##_##cat##_##mod,
#include "jit/ptx/gate.def"
#undef EVERY
#undef GATE
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init" /* of a form's rows the last one stays */
static const uint8_t last_row[PL_PTX_COUNT] = {
#define EVERY(cat, mod, ptx, sm)
#define GATE(form, cat, mod, ptx, sm) [PL_PTX_##form] = ROW_##form##_##cat##_##mod,
#include "jit/ptx/gate.def"
#undef EVERY
#undef GATE
};
#pragma GCC diagnostic pop

/* A form with this modifier always passes a stricter gate, so a join that finds no common target is our own contradiction;
 * the tightest then stands. */
static void tighten(struct pl_ptx_gate *a, struct pl_ptx_gate b)
{
    if (!pl_ptx_gate_join(a, b))
        a->targets = b.targets;
}

/* ---- gates of types and operands ---- */

static bool is_fp8(uint8_t type) { return type == PL_PTX_TYPE_E4M3 || type == PL_PTX_TYPE_E5M2; }

static void gate_types(const struct pl_ptx_ins *ins, struct pl_ptx_gate *g)
{
    unsigned bits = ins->n_types != 0 ? pl_ptx_types[ins->types[0]].bits : 0;
    switch (ins->form) {
    case PL_PTX_ld:
    case PL_PTX_ld_nc:
    case PL_PTX_st:
        if (ins->mods[PL_PTX_CAT_VEC] == PL_PTX_MOD_VEC_V4 && bits == 64)
            tighten(g, (struct pl_ptx_gate){88, 100, 0});
        break;
    case PL_PTX_mov:
    case PL_PTX_mov_pack:
    case PL_PTX_mov_unpack:
        if (bits == 128)
            tighten(g, (struct pl_ptx_gate){83, 70, 0});
        break;
    case PL_PTX_cvt_tf32_f32:
        if (ins->mods[PL_PTX_CAT_SAT] != 0 && ins->mods[PL_PTX_CAT_RND] != PL_PTX_MOD_RND_RNA)
            tighten(g, (struct pl_ptx_gate){86, 100, 0});
        break;
    case PL_PTX_atom_cas:
        if (bits == 16)
            tighten(g, (struct pl_ptx_gate){63, 70, 0});
        break;
    case PL_PTX_multimem_ld_reduce_acc:
        if (ins->types[0] >= PL_PTX_TYPE_E4M3 && ins->types[0] != PL_PTX_TYPE_F16X2 &&
            ins->types[0] != PL_PTX_TYPE_BF16X2)
            tighten(g, (struct pl_ptx_gate){86, 100, ON_FAM_100_ARCH_120});
        break;
    case PL_PTX_mma_m16n8k32_f32_f8f6f4:
    case PL_PTX_mma_m16n8k32_f16_f8f6f4:
        if (!is_fp8(ins->types[1]) || !is_fp8(ins->types[2]))
            tighten(g, (struct pl_ptx_gate){87, 120, ON_FAM_120});
        break;
    case PL_PTX_wgmma_s32_i8_ss:
    case PL_PTX_wgmma_s32_i8_rs:
        if (ins->types[1] != ins->types[2]) /* .s8.u8 and .u8.s8 */
            tighten(g, (struct pl_ptx_gate){84, 90, ON_HOPPER_A});
        break;
    }
}

bool pl_ptx_has_operand_gate(enum pl_ptx_form form)
{
    return form == PL_PTX_mbarrier_arrive || form == PL_PTX_mbarrier_arrive_drop ||
           form == PL_PTX_tensormap_replace_enum;
}

static void gate_operands(const struct pl_ptx_ins *ins, const struct pl_ptx_operand *pool,
                          struct pl_ptx_gate *g)
{
    const struct pl_ptx_operand *ops = &pool[ins->operands];
    if (ins->form == PL_PTX_mbarrier_arrive || ins->form == PL_PTX_mbarrier_arrive_drop) {
        if (ops[0].kind == PL_PTX_OP_SINK)
            tighten(g, (struct pl_ptx_gate){71, 80, 0});
        if (ins->n_operands == 3)
            tighten(g, (struct pl_ptx_gate){78, 90, 0});
    } else {
        uint8_t field = ins->mods[PL_PTX_CAT_TMAP];
        if (field == PL_PTX_MOD_TMAP_ELEMTYPE && ops[1].imm >= 13)
            tighten(g, (struct pl_ptx_gate){87, 100, ON_FAM_100_120});
        if (field == PL_PTX_MOD_TMAP_SWIZZLE_MODE && ops[1].imm >= 4)
            tighten(g, (struct pl_ptx_gate){88, 103, ON_ARCH_103});
    }
}

struct pl_ptx_gate pl_ptx_gate_of_ins(const struct pl_ptx_ins *ins,
                                      const struct pl_ptx_operand *pool)
{
    struct pl_ptx_gate g = pl_ptx_infos[ins->form].gate;
    const struct pl_ptx_row *row = &pl_ptx_rows[ins->form];
    for (unsigned v = 0; v < PL_PTX_MAX_VIEWS && row->views[v] != 0; v++) {
        const uint8_t mod = ins->mods[pl_ptx_views[row->views[v] & ~PL_PTX_VIEW_NEED].cat];
        if (gates_of_every[mod].ptx_version != 0)
            tighten(&g, gates_of_every[mod]);
    }
    for (unsigned i = last_row[ins->form]; i != ROW_NONE && mod_gates[i - 1].form == ins->form; i--)
        if (ins->mods[mod_gates[i - 1].cat] == mod_gates[i - 1].mod)
            tighten(&g, mod_gates[i - 1].gate);
    gate_types(ins, &g);
    if (pl_ptx_has_operand_gate((enum pl_ptx_form)ins->form))
        gate_operands(ins, pool, &g);
    return g;
}

/* ---- joins ---- */

/* The suffixed targets of compute capability sm and newer. */
static uint16_t targets_from(uint16_t sm)
{
    unsigned bits = 0;
    for (size_t i = 0; i < N_TARGETS; i++)
        if (targets[i].sm >= sm)
            bits |= targets[i].bit;
    return (uint16_t)bits;
}

bool pl_ptx_gate_join(struct pl_ptx_gate *a, struct pl_ptx_gate b)
{
    struct pl_ptx_gate g = *a;
    if (b.ptx_version > g.ptx_version)
        g.ptx_version = b.ptx_version;
    if (b.sm > g.sm)
        g.sm = b.sm;
    if (a->targets != 0 || b.targets != 0) {
        g.targets = (uint16_t)((a->targets != 0 ? a->targets : UINT16_MAX) &
                               (b.targets != 0 ? b.targets : UINT16_MAX));
        g.targets &= targets_from(g.sm);
        if (g.targets == 0)
            return false;
    }
    *a = g;
    return true;
}

bool pl_ptx_gate_accepts_target(struct pl_ptx_gate gate, uint16_t sm, char suffix)
{
    if (gate.targets == 0)
        return sm >= gate.sm;
    return (gate.targets & pl_ptx_target_bit(sm, suffix)) != 0;
}

/* Forms that begin with sm_89, its 8-bit floats, came to that chip with .version 8.1 only, where sm_90 had them from 7.8 on. */
uint16_t pl_ptx_gate_version(struct pl_ptx_gate gate, uint16_t sm)
{
    return sm == 89 && gate.sm == 89 && gate.ptx_version < 81 ? 81 : gate.ptx_version;
}

bool pl_ptx_gate_accepts(struct pl_ptx_gate gate, uint16_t version, uint16_t sm, char suffix)
{
    return version >= pl_ptx_gate_version(gate, sm) &&
           version >= pl_ptx_target_version(sm, suffix) &&
           pl_ptx_gate_accepts_target(gate, sm, suffix);
}

bool pl_ptx_gate_lowest(struct pl_ptx_gate gate, uint16_t sm, char *suffix, uint16_t *version)
{
    static const char suffixes[] = {0, 'f', 'a'};
    for (size_t i = 0; i < sizeof suffixes; i++) {
        uint16_t named = pl_ptx_target_version(sm, suffixes[i]);
        if (named == 0 || !pl_ptx_gate_accepts_target(gate, sm, suffixes[i]))
            continue;
        *suffix = suffixes[i];
        *version = pl_ptx_gate_version(gate, sm);
        if (named > *version)
            *version = named;
        return true;
    }
    return false;
}
