#include "jit/ptx/table.h"

#include <assert.h>

static_assert(PL_PTX_TYPE_COUNT <= 64, "a type set is 64 bits");
static_assert(PL_PTX_MOD_COUNT <= 256 && PL_PTX_TSET_COUNT <= 256, "rows keep these in bytes");
static_assert((int)PL_PTX_VIEW_COUNT < (int)PL_PTX_VIEW_NEED, "the top bit of a view is NEED");
static_assert(PL_PTX_TARGET_COUNT <= 16, "a target set is 16 bits");

const struct pl_ptx_type_info pl_ptx_types[PL_PTX_TYPE_COUNT] = {
#define TYPE(id, text, bits, class) {text, bits, PL_PTX_CLASS_##class},
#include "jit/ptx/type.def"
#undef TYPE
};

const struct pl_ptx_mod_info pl_ptx_mods[PL_PTX_MOD_COUNT] = {
    {"", 0},
#define CAT(id)
#define MOD(cat, id, text) {text, PL_PTX_CAT_##cat},
#include "jit/ptx/mod.def"
#undef CAT
#undef MOD
};

/* Counts through mod.def: each category has the number of its first member. */
enum {
    FIRST_START_,
#define CAT(id)            FIRST_##id, FIRST_BACK_##id = FIRST_##id - 1,
#define MOD(cat, id, text) FIRST_PASS_##cat##_##id,
#include "jit/ptx/mod.def"
#undef CAT
#undef MOD
};

const uint8_t pl_ptx_cat_first[PL_PTX_CAT_COUNT] = {
#define CAT(id) FIRST_##id,
#define MOD(cat, id, text)
#include "jit/ptx/mod.def"
#undef CAT
#undef MOD
};

const struct pl_ptx_view_info pl_ptx_views[PL_PTX_VIEW_COUNT] = {
    {0, 0},
#define CAT(id) {PL_PTX_CAT_##id, UINT32_MAX},
#define MOD(cat, id, text)
#include "jit/ptx/mod.def"
#undef CAT
#undef MOD
#define B(cat, id)             UINT32_C(1) << (PL_PTX_MOD_##cat##_##id - FIRST_##cat)
#define VIEW(id, cat, members) {PL_PTX_CAT_##cat, members},
#include "jit/ptx/view.def"
#undef VIEW
#undef B
};

#define B(id) UINT64_C(1) << PL_PTX_TYPE_##id
const uint64_t pl_ptx_tsets[PL_PTX_TSET_COUNT] = {
#define TYPE(id, text, bits, class) PL_PTX_TYPE_##id == PL_PTX_TYPE_NONE ? 0 : B(id),
#include "jit/ptx/type.def"
#undef TYPE
#define TSET(id, types) types,
#include "jit/ptx/set.def"
#undef TSET
};
#undef B

/* The rows name flags, views, type sets and target sets without a prefix. */
enum {
    PURE = PL_PTX_F_PURE,
    MEM_R = PL_PTX_F_MEM_R,
    MEM_W = PL_PTX_F_MEM_W,
    ASYNC = PL_PTX_F_ASYNC,
    PROXY_ASYNC = PL_PTX_F_PROXY_ASYNC,
    MBAR = PL_PTX_F_MBAR,
    FENCE = PL_PTX_F_FENCE,
    WAIT = PL_PTX_F_WAIT,
    ALIGNED = PL_PTX_F_ALIGNED,
    CONTROL = PL_PTX_F_CONTROL,
    TMEM = PL_PTX_F_TMEM,
    REFUSED = PL_PTX_F_REFUSED,
};

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

const struct pl_ptx_info pl_ptx_infos[PL_PTX_COUNT] = {
    {"none", "", "", {0, 0, 0}, 0, ""},
#define ON(sm, set) sm, ON_##set
#define GATE(...)   GATE_OF(__VA_ARGS__, 0, 0)
#define GATE_OF(ptx, sm, targets, ...)                                                             \
    {                                                                                              \
        ptx, sm, targets                                                                           \
    }
#define INS(id, mnemonic, operands, modifiers, types, ptx, sm, flags, source)                      \
    [PL_PTX_##id] = {#id, mnemonic, operands, GATE(ptx, sm), flags, source},
#include "jit/ptx/ptx.def"
#undef INS
#undef ON
#undef GATE
#undef GATE_OF
};

enum {
    NEED = PL_PTX_VIEW_NEED,
#define CAT(id) id = PL_PTX_VIEW_##id,
#define MOD(cat, id, text)
#include "jit/ptx/mod.def"
#undef CAT
#undef MOD
#define VIEW(id, cat, members) id = PL_PTX_VIEW_##id,
#include "jit/ptx/view.def"
#undef VIEW
#define TYPE(id, text, bits, class) id = PL_PTX_TSET_##id,
#include "jit/ptx/type.def"
#undef TYPE
#define TSET(id, types) id = PL_PTX_TSET_##id,
#include "jit/ptx/set.def"
#undef TSET
};

const struct pl_ptx_row pl_ptx_rows[PL_PTX_COUNT] = {
#define M(...)                                                                                     \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define T(...)                                                                                     \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define INS(id, mnemonic, operands, modifiers, types, ptx, sm, flags, source)                      \
    [PL_PTX_##id] = {modifiers, types},
#include "jit/ptx/ptx.def"
#undef INS
#undef M
#undef T
};

const struct pl_ptx_sreg_info pl_ptx_sregs[PL_PTX_SREG_COUNT] = {
#define SREG(id, text, type, dims, ptx, sm) {text, PL_PTX_TYPE_##type, dims, {ptx, sm, 0}},
#include "jit/ptx/sreg.def"
#undef SREG
};
