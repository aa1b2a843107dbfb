#ifndef PL_TESTS_PTX_RANDOM_H
#define PL_TESTS_PTX_RANDOM_H
/* Random instructions of a row, as data and as text, with the registers of tests/ptx_text.h. */
#include "jit/ptx/parser.h"
#include "jit/ptx/print.h"
#include "jit/ptx/table.h"

#include <string.h>

struct ptx_random {
    uint32_t state; /* not 0 */
};

static inline uint32_t ptx_random_below(struct ptx_random *rnd, uint32_t n)
{
    rnd->state ^= rnd->state << 13;
    rnd->state ^= rnd->state >> 17;
    rnd->state ^= rnd->state << 5;
    return rnd->state % n;
}

static inline uint8_t ptx_random_member(struct ptx_random *rnd, const struct pl_ptx_view_info *view)
{
    for (;;) {
        uint32_t bit = ptx_random_below(rnd, 32);
        unsigned mod = pl_ptx_cat_first[view->cat] + bit;
        if ((view->members >> bit & 1) != 0 && mod < PL_PTX_MOD_COUNT &&
            pl_ptx_mods[mod].cat == view->cat)
            return (uint8_t)mod;
    }
}

static inline struct pl_ptx_ins ptx_random_ins(struct ptx_random *rnd, enum pl_ptx_form form)
{
    const struct pl_ptx_row *row = &pl_ptx_rows[form];
    struct pl_ptx_ins ins = pl_ptx_ins_make(form, 0);
    for (int i = 0; i < PL_PTX_MAX_VIEWS && row->views[i] != 0; i++) {
        const struct pl_ptx_view_info *view = &pl_ptx_views[row->views[i] & ~PL_PTX_VIEW_NEED];
        if ((row->views[i] & PL_PTX_VIEW_NEED) || ptx_random_below(rnd, 3) == 0)
            ins.mods[view->cat] = ptx_random_member(rnd, view);
    }
    for (int i = 0; i < ins.n_types; i++)
        do
            ins.types[i] = (uint8_t)ptx_random_below(rnd, PL_PTX_TYPE_COUNT);
        while ((pl_ptx_tsets[row->types[i]] >> ins.types[i] & 1) == 0);
    if (form == PL_PTX_cvta || form == PL_PTX_cvta_to) /* chips from sm_90 on have no other */
        ins.types[0] = PL_PTX_TYPE_U64;
    if (strchr(pl_ptx_infos[form].mnemonic, 'N') != NULL &&
        strncmp(pl_ptx_infos[form].mnemonic, "wgmma", 5) == 0)
        ins.shape_n = (uint16_t)(8 + 8 * ptx_random_below(rnd, 32));
    return ins;
}

static inline void ptx_put_register(struct ptx_random *rnd, struct pl_buf *b, unsigned type)
{
    const struct pl_ptx_type_info *t = &pl_ptx_types[type];
    const char *name = type == PL_PTX_TYPE_NONE ? "d"
                       : t->bits <= 1           ? "p"
                       : t->bits == 128         ? "x"
                       : t->bits == 64          ? "d"
                       : t->bits == 32          ? "r"
                                                : "h";
    if (type == PL_PTX_TYPE_F32)
        name = "f";
    if (type == PL_PTX_TYPE_F64)
        name = "e";
    if (t->bits == 8 && t->class != PL_PTX_CLASS_FLOAT)
        name = "b";
    bool is_pred = strcmp(name, "p") == 0;
    pl_buf_puts(b, name);
    if (!is_pred)
        pl_buf_u64(b, ptx_random_below(rnd, 4));
}

static inline void ptx_put_list(struct ptx_random *rnd, struct pl_buf *b, unsigned type, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        pl_buf_puts(b, i == 0 ? "{" : ",");
        ptx_put_register(rnd, b, type);
    }
    pl_buf_putc(b, '}');
}

/* Addresses in tensor memory are 32 bits wide. */
static inline bool ptx_has_tensor_addresses(uint16_t form)
{
    return (pl_ptx_infos[form].flags & PL_PTX_F_TMEM) != 0 && form != PL_PTX_tcgen05_alloc &&
           form != PL_PTX_tcgen05_commit;
}

static inline void ptx_put_operand(struct ptx_random *rnd, struct pl_buf *b, uint16_t form,
                                   const struct pl_ptx_spec *spec)
{
    const struct pl_ptx_type_info *t = &pl_ptx_types[spec->type];
    switch ((enum pl_ptx_want)spec->want) {
    case PL_PTX_WANT_DST:
        if (spec->is_sink_only || (spec->has_sink && ptx_random_below(rnd, 4) == 0))
            pl_buf_putc(b, '_');
        else
            ptx_put_register(rnd, b, spec->type);
        break;
    case PL_PTX_WANT_SRC:
        if (ptx_random_below(rnd, 4) == 0 && t->class != PL_PTX_CLASS_PACKED &&
            t->class != PL_PTX_CLASS_FLOAT && spec->type != 0 && t->bits != 128)
            pl_buf_u64(b, ptx_random_below(rnd, 100));
        else if (ptx_random_below(rnd, 4) == 0 &&
                 (spec->type == PL_PTX_TYPE_F32 || spec->type == PL_PTX_TYPE_F64))
            pl_buf_puts(b, ptx_random_below(rnd, 2) ? "0.5" : "0f3F490FDB");
        else
            ptx_put_register(rnd, b, spec->type);
        break;
    case PL_PTX_WANT_ANYSRC:
    case PL_PTX_WANT_REG: ptx_put_register(rnd, b, spec->type); break;
    case PL_PTX_WANT_DPRED: pl_buf_putc(b, 'q'); break;
    case PL_PTX_WANT_PRED_REG:
    case PL_PTX_WANT_SPRED: pl_buf_puts(b, ptx_random_below(rnd, 2) ? "p" : "!p"); break;
    case PL_PTX_WANT_INT: pl_buf_puts(b, "1"); break;
    case PL_PTX_WANT_REG_ADDR:
    case PL_PTX_WANT_ADDR:
        if (ptx_has_tensor_addresses(form))
            pl_buf_puts(b, ptx_random_below(rnd, 2) ? "[r1+16]" : "[r2]");
        else
            pl_buf_puts(b, ptx_random_below(rnd, 2) ? "[d1+16]" : "[d2]");
        break;
    case PL_PTX_WANT_DVEC:
    case PL_PTX_WANT_SVEC: ptx_put_list(rnd, b, spec->type, spec->n); break;
    case PL_PTX_WANT_SELECT: pl_buf_puts(b, "{0,1}"); break;
    case PL_PTX_WANT_LANES: ptx_put_list(rnd, b, PL_PTX_TYPE_B32, spec->n); break;
    case PL_PTX_WANT_UNPACK:
    case PL_PTX_WANT_PACK:
        if (t->bits == 16)
            pl_buf_puts(b, "{b0,b1}");
        else
            ptx_put_list(rnd, b,
                         t->bits == 32   ? PL_PTX_TYPE_B16
                         : t->bits == 64 ? PL_PTX_TYPE_B32
                                         : PL_PTX_TYPE_B64,
                         2);
        break;
    case PL_PTX_WANT_TENSOR:
        pl_buf_puts(b, "[d1, ");
        ptx_put_list(rnd, b, PL_PTX_TYPE_B32, spec->n);
        pl_buf_putc(b, ']');
        break;
    case PL_PTX_WANT_OFFSETS: ptx_put_list(rnd, b, PL_PTX_TYPE_B16, spec->n); break;
    case PL_PTX_WANT_LABEL: pl_buf_puts(b, "L1"); break;
    case PL_PTX_WANT_LABELS: pl_buf_puts(b, "LIST"); break;
    case PL_PTX_WANT_CALL: pl_buf_puts(b, "(ret0), ext, (arg0, arg1)"); break;
    case PL_PTX_WANT_ALL: pl_buf_puts(b, "r0, r1"); break;
    }
}

/* The instruction as text, with random operands; NULL where its modifiers exclude each other. */
static inline const char *ptx_random_text(struct ptx_random *rnd, struct pl_arena *a,
                                          const struct pl_ptx_ins *ins)
{
    struct pl_ptx_shape shape = {.ins = *ins};
    if (!pl_ptx_resolve(&shape))
        return NULL;
    struct pl_buf b;
    pl_buf_init(&b, a, 512);
    pl_ptx_print_mnemonic(&b, ins);
    const char *separator = " ";
    for (uint32_t i = 0; i < shape.n_specs; i++) {
        if (shape.specs[i].is_optional && ptx_random_below(rnd, 2))
            continue;
        pl_buf_puts(&b, separator);
        separator = ", ";
        ptx_put_operand(rnd, &b, ins->form, &shape.specs[i]);
        if (shape.specs[i].pair == 2 || (shape.specs[i].pair == 1 && ptx_random_below(rnd, 2)))
            pl_buf_puts(&b, "|z");
    }
    pl_buf_putc(&b, ';');
    return b.text;
}

/* Forms whose constants must have values that the random ones have not. */
static inline bool ptx_has_fixed_values(enum pl_ptx_form form)
{
    static const uint16_t forms[] = {
#define VALUE(form, mod, operand, low, high) PL_PTX_##form,
#define MULTIPLE(form, ...)                  PL_PTX_##form,
#include "jit/ptx/value.def"
#undef MULTIPLE
#undef VALUE
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (forms[i] == form)
            return true;
    return false;
}
#endif
