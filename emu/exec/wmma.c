/*
 * wmma.load, wmma.mma, wmma.store: PTX ISA, "Warp Level Matrix Instructions: wmma".
 *
 * How a fragment lies in the lanes is left open by the manual (docs/hardware-assumptions.md, wmma-fragment). Here it is as in mma.sync
 * (emu/exec/mma.c): blocks of 8 rows and 4 u columns, lane t with row t/4 and columns u (t % 4) … + u - 1 of each,
 * where u elements share a register, two of C and D; blocks of A, C and D by rows first, of B, whose rows are its columns, by k
 * first. Fragments of f16 A and B have room for 16 elements a lane and hold what they hold again and again.
 *
 * Order of accumulation: as mma.sync.
 */
#include "emu/exec/mma.h"

#include "base/num.h"
#include "emu/access.h"
#include "emu/exec/mem.h"
#include "emu/machine.h"
#include "emu/ops/float.h"
#include "emu/race.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum role { ROLE_A, ROLE_B, ROLE_C };

/* A matrix as rows and columns of its fragment: of B, n and k. */
struct fragment {
    enum role role;
    unsigned n_rows, n_cols, unit; /* unit: elements of a lane that lie side by side */
    unsigned bits, n_kept;         /* of an element; elements a lane holds, with repeats */
    bool is_along_rows;            /* in memory, the elements of a row are consecutive */
    uint8_t type;
};

static struct fragment fragment_of(const struct pl_ptx_ins *p, enum role role, uint8_t type,
                                   uint8_t layout)
{
    const char *s = strstr(pl_ptx_infos[p->form].mnemonic, ".m");
    while (s[2] < '0' || s[2] > '9')
        s = strstr(s + 1, ".m");
    char *end;
    unsigned m = (unsigned)strtoul(s + 2, &end, 10), n = (unsigned)strtoul(end + 1, &end, 10),
             k = (unsigned)strtoul(end + 1, &end, 10), bits = pl_ptx_types[type].bits;
    bits = bits == 19 ? 32 : bits; /* tf32 */
    struct fragment f = {.role = role,
                         .n_rows = role == ROLE_B ? n : m,
                         .n_cols = role == ROLE_C ? n : k,
                         .unit = role == ROLE_C ? 2
                                 : bits < 32    ? 32 / bits
                                                : 1,
                         .bits = bits,
                         .is_along_rows = (layout == PL_PTX_MOD_LAYOUT_A_ROW) != (role == ROLE_B),
                         .type = type};
    f.n_kept = role != ROLE_C && type == PL_PTX_TYPE_F16 ? 16 : f.n_rows * f.n_cols / 32;
    if (bits < 8)
        f.is_along_rows = true; /* A by rows, B by columns is all there is */
    return f;
}

/* Where element i of lane t stands. */
static void place_of(const struct fragment *f, unsigned i, unsigned t, unsigned *row, unsigned *col)
{
    unsigned n_blocks_down = f->n_rows / 8, n_blocks_along = f->n_cols / (4 * f->unit);
    unsigned j = i % f->unit, block = i / f->unit % (n_blocks_down * n_blocks_along);
    unsigned down = f->role == ROLE_B ? block / n_blocks_along : block % n_blocks_down,
             along = f->role == ROLE_B ? block % n_blocks_along : block / n_blocks_down;
    *row = 8 * down + t / 4;
    *col = f->unit * (4 * along + t % 4) + j;
}

static unsigned elements_in_register(const struct fragment *f)
{
    return f->bits < 32 ? 32 / f->bits : 1;
}

/* ---- memory ---- */

/* What a lane reads or writes at once: one element, or a word of them where they are narrower than a byte. */
struct memory {
    struct pl_emu_access access;
    uint64_t base, stride; /* stride in elements */
    unsigned n_elems;
};

static struct memory memory_of(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                               const struct fragment *f, unsigned address)
{
    static const uint8_t spaces[PL_PTX_MOD_COUNT] = {
        [PL_PTX_MOD_NONE] = PL_EMU_SPACE_GENERIC,
        [PL_PTX_MOD_SPACE_GLOBAL] = PL_EMU_SPACE_GLOBAL,
        [PL_PTX_MOD_SPACE_SHARED] = PL_EMU_SPACE_SHARED,
        [PL_PTX_MOD_SPACE_SHARED_CTA] = PL_EMU_SPACE_SHARED};
    unsigned bits = f->bits < 8 ? 32 : f->bits, lane = pl_emu_first_lane(w);
    struct memory m = {.access = {.space = spaces[ins->ptx->mods[PL_PTX_CAT_SPACE]],
                                  .elem_bytes = (uint8_t)(bits / 8),
                                  .n_elems = 1,
                                  .n_bytes = bits / 8},
                       .base = pl_emu_address(w, &ins->args[address], lane),
                       .stride = f->is_along_rows ? f->n_cols : f->n_rows,
                       .n_elems = bits / f->bits};
    if (ins->n_args > 2)
        m.stride = (uint32_t)pl_emu_lane(w, &ins->args[2], lane);
    return m;
}

static uint64_t address_of(const struct fragment *f, const struct memory *m, unsigned i, unsigned t)
{
    unsigned row, col;
    place_of(f, i, t, &row, &col);
    uint64_t element = f->is_along_rows ? row * m->stride + col : col * m->stride + row;
    return m->base + element * f->bits / 8;
}

/* Element (or word) i of all lanes. */
static bool touch(struct pl_emu_warp *w, const struct fragment *f, const struct memory *m,
                  unsigned i, bool is_store, void *at[PL_EMU_LANES])
{
    uint64_t addresses[PL_EMU_LANES];
    for (unsigned t = 0; t < PL_EMU_LANES; t++)
        addresses[t] = address_of(f, m, i, t);
    if (pl_race_is_on(w) &&
        pl_race_access(w, &m->access, addresses, !is_store, is_store) != PL_EMU_NEXT)
        return false;
    for (unsigned t = 0; t < PL_EMU_LANES; t++) {
        at[t] = pl_emu_access_lane(w, &m->access, t, addresses[t], !is_store, is_store,
                                   is_store ? "wmma.store" : "wmma.load");
        if (at[t] == NULL)
            return false;
    }
    return true;
}

enum pl_emu_status pl_emu_exec_wmma_load(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    const struct pl_ptx_ins *p = ins->ptx;
    const char *mnemonic = pl_ptx_infos[p->form].mnemonic;
    enum role role = strncmp(mnemonic, "wmma.load.a", 11) == 0   ? ROLE_A
                     : strncmp(mnemonic, "wmma.load.b", 11) == 0 ? ROLE_B
                                                                 : ROLE_C;
    struct fragment f = fragment_of(p, role, p->types[0], p->mods[PL_PTX_CAT_LAYOUT_A]);
    struct memory m = memory_of(w, ins, &f, 1);
    unsigned e = elements_in_register(&f);
    uint64_t words[16][PL_EMU_LANES] = {{0}};
    for (unsigned i = 0; i < f.n_kept; i += m.n_elems) {
        void *at[PL_EMU_LANES];
        if (!touch(w, &f, &m, i, false, at))
            return PL_EMU_FAULT;
        for (unsigned t = 0; t < PL_EMU_LANES; t++) {
            uint64_t v = 0;
            memcpy(&v, at[t], m.access.n_bytes);
            words[i / e][t] |= v << (i % e * f.bits);
        }
    }
    for (unsigned r = 0; r < f.n_kept / e; r++)
        for (unsigned t = 0; t < PL_EMU_LANES; t++)
            pl_emu_set_lane(w, pl_emu_vector_of(ins, 0, r), t, words[r][t]);
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_wmma_store(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    const struct pl_ptx_ins *p = ins->ptx;
    struct fragment f = fragment_of(p, ROLE_C, p->types[0], p->mods[PL_PTX_CAT_LAYOUT_A]);
    struct memory m = memory_of(w, ins, &f, 0);
    unsigned e = elements_in_register(&f);
    for (unsigned i = 0; i < f.n_kept; i++) {
        void *at[PL_EMU_LANES];
        if (!touch(w, &f, &m, i, true, at))
            return PL_EMU_FAULT;
        for (unsigned t = 0; t < PL_EMU_LANES; t++) {
            uint64_t v = pl_emu_lane(w, pl_emu_vector_of(ins, 1, i / e), t) >> (i % e * f.bits);
            memcpy(at[t], &v, m.access.n_bytes);
        }
    }
    return PL_EMU_NEXT;
}

/* ---- the product ---- */

enum { MAX_ROWS = 32, MAX_COLS = 128 };

/* Raw bits of a fragment, by row and column. */
struct matrix {
    uint64_t at[MAX_ROWS][MAX_COLS];
};

static void gather(const struct pl_emu_warp *w, const struct pl_emu_ins *ins, unsigned operand,
                   const struct fragment *f, struct matrix *out)
{
    unsigned e = elements_in_register(f), n = f->n_rows * f->n_cols / 32;
    uint64_t mask = f->bits == 64 ? UINT64_MAX : ((uint64_t)1 << f->bits) - 1;
    for (unsigned i = 0; i < n; i++)
        for (unsigned t = 0; t < PL_EMU_LANES; t++) {
            unsigned row, col;
            place_of(f, i, t, &row, &col);
            out->at[row][col] =
                pl_emu_lane(w, pl_emu_vector_of(ins, operand, i / e), t) >> (i % e * f->bits) &
                mask;
        }
}

static void scatter(struct pl_emu_warp *w, const struct pl_emu_ins *ins, const struct fragment *f,
                    const struct matrix *d)
{
    unsigned e = elements_in_register(f);
    for (unsigned r = 0; r < f->n_kept / e; r++)
        for (unsigned t = 0; t < PL_EMU_LANES; t++) {
            uint64_t v = 0;
            for (unsigned j = 0; j < e; j++) {
                unsigned row, col;
                place_of(f, r * e + j, t, &row, &col);
                v |= d->at[row][col] << (j * f->bits);
            }
            pl_emu_set_lane(w, pl_emu_vector_of(ins, 0, r), t, v);
        }
}

static double value(uint8_t type, uint64_t bits)
{
    uint32_t u = (uint32_t)bits;
    switch (type) {
    case PL_PTX_TYPE_F16: return (double)f32_of(f16_to_f32(u));
    case PL_PTX_TYPE_BF16: return (double)f32_of(bf16_to_f32(u));
    case PL_PTX_TYPE_TF32: return (double)f32_of(u & 0xffffe000u);
    default: return (double)f32_of(u);
    }
}

static uint64_t dot_float(const struct fragment *fd, const struct fragment *fa, const uint64_t *a,
                          const uint64_t *b, uint8_t c_type, uint64_t c)
{
    double sum = 0.0;
    for (unsigned k = 0; k < fa->n_cols; k++)
        sum += value(fa->type, a[k]) * value(fa->type, b[k]);
    sum += value(c_type, c);
    return fd->type == PL_PTX_TYPE_F16 ? f64_to_half(sum, 10, 15)
                                       : f32_canonical(f32_bits((float)sum));
}

static uint64_t dot_double(const struct pl_ptx_ins *p, unsigned n, const uint64_t *a,
                           const uint64_t *b, uint64_t c)
{
    uint8_t mod = p->mods[PL_PTX_CAT_RND];
    uint8_t round = mod == PL_PTX_MOD_RND_RZ   ? PL_NUM_RZ
                    : mod == PL_PTX_MOD_RND_RM ? PL_NUM_RM
                    : mod == PL_PTX_MOD_RND_RP ? PL_NUM_RP
                                               : PL_NUM_RN;
    double sum = f64_of(c);
    unsigned saved = round_enter(round);
    for (unsigned k = 0; k < n; k++)
        sum = fma(f64_of(a[k]), f64_of(b[k]), sum);
    round_leave(round, saved);
    return f64_bits(sum);
}

/* f16 products name D and C only, the others D, A, B and C. */
enum pl_emu_status pl_emu_exec_wmma(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    static _Thread_local struct matrix a, b, c;
    const struct pl_ptx_ins *p = ins->ptx;
    bool is_half = p->n_types == 2;
    uint8_t d_type = p->types[0], c_type = p->types[is_half ? 1 : 3],
            ab_type = is_half ? PL_PTX_TYPE_F16 : p->types[1];
    struct fragment fa = fragment_of(p, ROLE_A, ab_type, PL_PTX_MOD_LAYOUT_A_ROW),
                    fb = fragment_of(p, ROLE_B, ab_type, PL_PTX_MOD_LAYOUT_A_COL),
                    fc = fragment_of(p, ROLE_C, c_type, PL_PTX_MOD_LAYOUT_A_ROW),
                    fd = fragment_of(p, ROLE_C, d_type, PL_PTX_MOD_LAYOUT_A_ROW);
    gather(w, ins, 1, &fa, &a);
    gather(w, ins, 2, &fb, &b);
    gather(w, ins, 3, &fc, &c);
    for (unsigned row = 0; row < fd.n_rows; row++)
        for (unsigned col = 0; col < fd.n_cols; col++) {
            uint64_t *v = &c.at[row][col];
            const uint64_t *x = a.at[row], *y = b.at[col];
            *v = d_type == PL_PTX_TYPE_F64 ? dot_double(p, fa.n_cols, x, y, *v)
                 : d_type == PL_PTX_TYPE_S32
                     ? (uint32_t)pl_emu_sum_int(p, *v, pl_emu_dot_int(p, fa.n_cols, x, y))
                     : dot_float(&fd, &fa, x, y, c_type, *v);
        }
    scatter(w, ins, &fd, &c);
    return PL_EMU_NEXT;
}
