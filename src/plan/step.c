#include "src/plan/step.h"

#include <stddef.h>

const struct pl_stype_info pl_stypes[PL_ST_COUNT] = {
    [PL_ST_NONE] = {"none", PL_RC_B32, 0, PL_ST_KIND_BITS},
#define STYPE(id, class, bits, kind) [PL_ST_##id] = {#id, PL_RC_##class, bits, PL_ST_KIND_##kind},
#include "src/plan/stype.def"
#undef STYPE
};

const struct pl_sattr_info pl_sattrs[PL_SA_COUNT] = {
    [PL_SA_NONE] = {"", PL_SC_NONE},
#define SCAT(id)
#define SATTR(cat, id, text) [PL_SA_##cat##_##id] = {text, PL_SC_##cat},
#include "src/plan/sattr.def"
#undef SCAT
#undef SATTR
};

const char *const pl_ssreg_names[PL_SR_COUNT] = {
    [PL_SR_NONE] = "none",
#define SSREG(id) [PL_SR_##id] = #id,
#include "src/plan/sreg.def"
#undef SSREG
};

enum { FROM_NONE, FROM_USED };

const struct pl_step_info pl_step_infos[PL_STEP_COUNT] = {
    [PL_STEP_NONE] = {"none", "", false, {0}, 0, ""},
#define PURE    PL_STEP_F_PURE
#define READS   PL_STEP_F_READS
#define WRITES  PL_STEP_F_WRITES
#define SYNC    PL_STEP_F_SYNC
#define CONTROL PL_STEP_F_CONTROL
#define ASYNC   PL_STEP_F_ASYNC
#define NEUTRAL PL_STEP_F_NEUTRAL
#define C0                                                                                         \
    {                                                                                              \
        0                                                                                          \
    }
#define C1(a)                                                                                      \
    {                                                                                              \
        PL_SC_##a                                                                                  \
    }
#define C2(a, b)                                                                                   \
    {                                                                                              \
        PL_SC_##a, PL_SC_##b                                                                       \
    }
#define C3(a, b, c)                                                                                \
    {                                                                                              \
        PL_SC_##a, PL_SC_##b, PL_SC_##c                                                            \
    }
#define C4(a, b, c, d)                                                                             \
    {                                                                                              \
        PL_SC_##a, PL_SC_##b, PL_SC_##c, PL_SC_##d                                                 \
    }
#define STEP(id, operands, from, cats, flags, meaning)                                             \
    [PL_STEP_##id] = {#id, operands, FROM_##from == FROM_USED, cats, flags, meaning},
#include "src/plan/step.def"
#undef STEP
#undef C0
#undef C1
#undef C2
#undef C3
#undef C4
#undef PURE
#undef READS
#undef WRITES
#undef SYNC
#undef CONTROL
#undef ASYNC
#undef NEUTRAL
};

uint8_t pl_step_attr(const struct pl_step *s, enum pl_scat cat)
{
    const struct pl_step_info *info = &pl_step_infos[s->op];
    for (int i = 0; i < PL_STEP_MAX_ATTRS; i++)
        if (info->cats[i] == cat)
            return s->attrs[i];
    return PL_SA_NONE;
}
