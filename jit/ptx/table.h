#ifndef PL_JIT_PTX_TABLE_H
#define PL_JIT_PTX_TABLE_H
/*
 * The matcher's view of the rows, private to jit/ptx: which modifiers and types a form takes. Constant data, filled by the
 * compiler from the .def files.
 */
#include "jit/ptx/gate.h"
#include "jit/ptx/ptx.h"

/* Views of modifier categories: first one a category with all its members, then those of view.def. */
enum pl_ptx_view {
    PL_PTX_VIEW_NONE,
#define CAT(id) PL_PTX_VIEW_##id,
#define MOD(cat, id, text)
#include "jit/ptx/mod.def"
#undef CAT
#undef MOD
#define VIEW(id, cat, members) PL_PTX_VIEW_##id,
#include "jit/ptx/view.def"
#undef VIEW
    PL_PTX_VIEW_COUNT
};

enum { PL_PTX_VIEW_NEED = 0x8000 }; /* a member must be written */

struct pl_ptx_view_info {
    uint8_t cat;
    uint32_t members; /* bit i: the i-th member of the category, counted from its first */
};
extern const struct pl_ptx_view_info pl_ptx_views[PL_PTX_VIEW_COUNT];

/* Number of the first member of each category in enum pl_ptx_mod. */
extern const uint8_t pl_ptx_cat_first[PL_PTX_CAT_COUNT];

/* Type sets: first one a type, then those of set.def; 0 is none. */
enum pl_ptx_tset {
#define TYPE(id, text, bits, class) PL_PTX_TSET_##id,
#include "jit/ptx/type.def"
#undef TYPE
#define TSET(id, types) PL_PTX_TSET_##id,
#include "jit/ptx/set.def"
#undef TSET
    PL_PTX_TSET_COUNT
};
extern const uint64_t pl_ptx_tsets[PL_PTX_TSET_COUNT]; /* bit i: enum pl_ptx_type i */

enum { PL_PTX_MAX_VIEWS = 12 };

struct pl_ptx_row {
    uint16_t views[PL_PTX_MAX_VIEWS]; /* enum pl_ptx_view, with PL_PTX_VIEW_NEED; 0 ends */
    uint8_t types[PL_PTX_MAX_TYPES];  /* enum pl_ptx_tset; 0 ends */
};
extern const struct pl_ptx_row pl_ptx_rows[PL_PTX_COUNT];

static inline bool pl_ptx_view_has(uint16_t view, enum pl_ptx_mod mod)
{
    const struct pl_ptx_view_info *v = &pl_ptx_views[view & ~PL_PTX_VIEW_NEED];
    return (unsigned)pl_ptx_mods[mod].cat == v->cat &&
           (v->members >> ((unsigned)mod - pl_ptx_cat_first[v->cat]) & 1) != 0;
}
#endif
