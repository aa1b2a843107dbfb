/* PTX ISA, "Data Movement and Conversion Instructions": mov, cvta, isspacep; "Stack Manipulation Instructions". */
#include "base/diag.h"
#include "emu/access.h"
#include "emu/exec/control.h"
#include "emu/faults.h"
#include "emu/program.h"

#include "base/os.h"

#include <string.h>

/* ---- mov: lane kernels ---------------------------------------------------------------------------------------------------------------- */

static void mov32_full(void *d, const void *a, const void *b, const void *c, uint32_t mask,
                       struct pl_emu_opx *x)
{
    (void)b, (void)c, (void)mask, (void)x;
    memmove(d, a, 128);
}

static void mov64_full(void *d, const void *a, const void *b, const void *c, uint32_t mask,
                       struct pl_emu_opx *x)
{
    (void)b, (void)c, (void)mask, (void)x;
    memmove(d, a, 256);
}

static void mov16_full(void *d, const void *a, const void *b, const void *c, uint32_t mask,
                       struct pl_emu_opx *x)
{
    (void)b, (void)c, (void)mask, (void)x;
    memmove(d, a, 64);
}

static void mov128_full(void *d, const void *a, const void *b, const void *c, uint32_t mask,
                        struct pl_emu_opx *x)
{
    (void)b, (void)c, (void)mask, (void)x;
    memmove(d, a, 512);
}

static void mov32_masked(void *d, const void *a, const void *b, const void *c, uint32_t mask,
                         struct pl_emu_opx *x)
{
    (void)b, (void)c, (void)x;
    uint32_t *to = d;
    const uint32_t *from = a;
    for (uint32_t i = 0; i < PL_EMU_LANES; i++) {
        uint32_t m = 0u - (mask >> i & 1);
        to[i] = (to[i] & ~m) | (from[i] & m);
    }
}

static void mov64_masked(void *d, const void *a, const void *b, const void *c, uint32_t mask,
                         struct pl_emu_opx *x)
{
    (void)b, (void)c, (void)x;
    uint64_t *to = d;
    const uint64_t *from = a;
    for (uint32_t i = 0; i < PL_EMU_LANES; i++) {
        uint64_t m = 0u - (uint64_t)(mask >> i & 1);
        to[i] = (to[i] & ~m) | (from[i] & m);
    }
}

static void mov16_masked(void *d, const void *a, const void *b, const void *c, uint32_t mask,
                         struct pl_emu_opx *x)
{
    (void)b, (void)c, (void)x;
    uint16_t *to = d;
    const uint16_t *from = a;
    PL_EMU_FOR_LANES (i, mask)
        to[i] = from[i];
}

static void mov128_masked(void *d, const void *a, const void *b, const void *c, uint32_t mask,
                          struct pl_emu_opx *x)
{
    (void)b, (void)c, (void)x;
    struct pl_emu_u128 *to = d;
    const struct pl_emu_u128 *from = a;
    PL_EMU_FOR_LANES (i, mask)
        to[i] = from[i];
}

/* x->imm: the source is negated. */
static void mov1_masked(void *d, const void *a, const void *b, const void *c, uint32_t mask,
                        struct pl_emu_opx *x)
{
    (void)b, (void)c;
    uint32_t *to = d, from = *(const uint32_t *)a;
    if (x->imm != 0)
        from = ~from;
    *to = (*to & ~mask) | (from & mask);
}

bool pl_emu_mov_select(unsigned bits, struct pl_emu_op *out)
{
    *out = (struct pl_emu_op){.n_src = 1, .d_bits = (uint8_t)bits, .src_bits = {(uint8_t)bits}};
    switch (bits) {
    case 1: out->full = out->masked = mov1_masked; return true;
    case 16: out->full = mov16_full, out->masked = mov16_masked; return true;
    case 32: out->full = mov32_full, out->masked = mov32_masked; return true;
    case 64: out->full = mov64_full, out->masked = mov64_masked; return true;
    case 128: out->full = mov128_full, out->masked = mov128_masked; return true;
    default: return false;
    }
}

/* ---- packing: the first element of the vector is the least significant -------------------------------------------------------------- */

static unsigned elem_bits(const struct pl_emu_ins *ins, unsigned n)
{
    return pl_ptx_types[ins->ptx->types[0]].bits / n;
}

static void get_wide(const struct pl_emu_warp *w, const struct pl_emu_arg *a, uint32_t lane,
                     struct pl_emu_u128 *v)
{
    if (a->bits == 128)
        *v = ((const struct pl_emu_u128 *)pl_emu_lanes(w, a))[lane];
    else
        *v = (struct pl_emu_u128){pl_emu_lane(w, a, lane), 0};
}

enum pl_emu_status pl_emu_exec_mov_pack(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    const struct pl_emu_arg *d = &ins->args[0], *v = &ins->args[1];
    unsigned bits = elem_bits(ins, v->n);
    uint64_t keep = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    PL_EMU_FOR_LANES (lane, w->mask) {
        uint64_t word[2] = {0, 0};
        for (uint32_t k = 0; k < v->n; k++)
            word[k * bits / 64] |= (pl_emu_lane(w, &ins->args[v->first + k], lane) & keep)
                                   << (k * bits % 64);
        if (d->bits == 128)
            ((struct pl_emu_u128 *)pl_emu_lanes(w, d))[lane] =
                (struct pl_emu_u128){word[0], word[1]};
        else
            pl_emu_set_lane(w, d, lane, word[0]);
    }
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_mov_unpack(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    const struct pl_emu_arg *v = &ins->args[0], *s = &ins->args[1];
    unsigned bits = elem_bits(ins, v->n);
    uint64_t keep = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    PL_EMU_FOR_LANES (lane, w->mask) {
        struct pl_emu_u128 from;
        get_wide(w, s, lane, &from);
        for (uint32_t k = 0; k < v->n; k++) {
            uint64_t word = k * bits < 64 ? from.lo : from.hi;
            pl_emu_set_lane(w, &ins->args[v->first + k], lane, word >> (k * bits % 64) & keep);
        }
    }
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_mov_vec(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    const struct pl_emu_arg *d = &ins->args[0], *s = &ins->args[1];
    PL_EMU_FOR_LANES (lane, w->mask) {
        uint64_t v[8];
        for (uint32_t k = 0; k < s->n && k < 8; k++)
            v[k] = pl_emu_lane(w, &ins->args[s->first + k], lane);
        for (uint32_t k = 0; k < d->n && k < 8; k++)
            pl_emu_set_lane(w, &ins->args[d->first + k], lane, v[k]);
    }
    return PL_EMU_NEXT;
}

/* ---- generic addressing ----------------------------------------------------------------------------------------------------------------- */

static uint64_t window_base(uint8_t space)
{
    switch (space) {
    case PL_PTX_MOD_SPACE_SHARED:
    case PL_PTX_MOD_SPACE_SHARED_CTA:
    case PL_PTX_MOD_SPACE_SHARED_CLUSTER: return PL_EMU_SHARED_WINDOW;
    case PL_PTX_MOD_SPACE_LOCAL: return PL_EMU_LOCAL_WINDOW;
    case PL_PTX_MOD_SPACE_PARAM:
    case PL_PTX_MOD_SPACE_PARAM_ENTRY: return PL_EMU_PARAM_WINDOW;
    default: return 0;
    }
}

enum pl_emu_status pl_emu_exec_cvta(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    uint64_t base = window_base(pl_emu_mod(ins, PL_PTX_CAT_SPACE));
    PL_EMU_FOR_LANES (lane, w->mask) {
        uint64_t v = pl_emu_lane(w, &ins->args[1], lane);
        bool is_generic =
            base == 0 || v >> 32 != 0; /* a device function's parameter is generic already */
        pl_emu_set_lane(w, &ins->args[0], lane, is_generic ? v : base + (uint32_t)v);
    }
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_cvta_to(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    uint64_t base = window_base(pl_emu_mod(ins, PL_PTX_CAT_SPACE));
    PL_EMU_FOR_LANES (lane, w->mask) {
        uint64_t v = pl_emu_lane(w, &ins->args[1], lane);
        pl_emu_set_lane(w, &ins->args[0], lane, base == 0 ? v : v - base);
    }
    return PL_EMU_NEXT;
}

static bool is_in_space(struct pl_emu_warp *w, uint8_t space, uint64_t v)
{
    enum pl_emu_window in = pl_emu_window_of(v);
    switch (space) {
    case PL_PTX_MOD_SPACE_SHARED_CLUSTER: return in == PL_EMU_IN_SHARED;
    case PL_PTX_MOD_SPACE_SHARED:
    case PL_PTX_MOD_SPACE_SHARED_CTA:
        return in == PL_EMU_IN_SHARED && (uint32_t)v >> PL_EMU_RANK_SHIFT == w->cta->rank;
    case PL_PTX_MOD_SPACE_LOCAL: return in == PL_EMU_IN_LOCAL;
    case PL_PTX_MOD_SPACE_PARAM:
    case PL_PTX_MOD_SPACE_PARAM_ENTRY: return in == PL_EMU_IN_PARAM;
    default: break;
    }
    const struct pl_emu_allocation *a = in == PL_EMU_IN_GLOBAL ? pl_emu_allocation_at(w, v) : NULL;
    bool is_const = a != NULL && a->is_const;
    return space == PL_PTX_MOD_SPACE_CONST ? is_const : in == PL_EMU_IN_GLOBAL && !is_const;
}

enum pl_emu_status pl_emu_exec_isspacep(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    uint32_t result = 0;
    PL_EMU_FOR_LANES (lane, w->mask) {
        uint64_t v = pl_emu_lane(w, &ins->args[1], lane);
        if (is_in_space(w, pl_emu_mod(ins, PL_PTX_CAT_SPACE), v))
            result |= 1u << lane;
    }
    pl_emu_set_pred(w, &ins->args[0], result);
    return PL_EMU_NEXT;
}

/* ---- inserted by the decoder --------------------------------------------------------------------------------------------------------------- */

/* PTX ISA, "Special Registers": the clock counts warp instructions of the cluster. */
enum pl_emu_status pl_emu_exec_read_sreg(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    uint64_t v = 0;
    switch ((unsigned)ins->imm) {
    case PL_PTX_SREG_clock: v = (uint32_t)pl_emu_clock(w->cta->cluster); break;
    case PL_PTX_SREG_clock_hi: v = pl_emu_clock(w->cta->cluster) >> 32; break;
    case PL_PTX_SREG_clock64: v = pl_emu_clock(w->cta->cluster); break;
    case PL_PTX_SREG_globaltimer: v = pl_os_now_ns(); break;
    case PL_PTX_SREG_globaltimer_lo: v = (uint32_t)pl_os_now_ns(); break;
    case PL_PTX_SREG_globaltimer_hi: v = pl_os_now_ns() >> 32; break;
    default: break;
    }
    PL_EMU_FOR_LANES (lane, w->mask)
        pl_emu_set_lane(w, &ins->args[0], lane, v);
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_local_address(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    uint64_t v = ins->imm + w->group->frame->local_base_bytes;
    PL_EMU_FOR_LANES (lane, w->mask)
        pl_emu_set_lane(w, &ins->args[0], lane, v);
    return PL_EMU_NEXT;
}

/* v[r+i]: the address of v plus r times the bytes of an element plus those of i, which wrap in the width of r. */
enum pl_emu_status pl_emu_exec_index(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    const struct pl_emu_arg *base = &ins->args[1], *index = &ins->args[2];
    PL_EMU_FOR_LANES (lane, w->mask) {
        uint64_t at = base->kind == PL_EMU_ARG_ADDR ? pl_emu_address(w, base, lane)
                                                    : pl_emu_lane(w, base, lane);
        uint64_t n_bytes =
            pl_emu_lane(w, index, lane) * pl_emu_lane(w, &ins->args[3], lane) + ins->imm;
        if (index->bits == 32)
            n_bytes = (uint32_t)n_bytes;
        pl_emu_set_lane(w, &ins->args[0], lane, at + n_bytes);
    }
    return PL_EMU_NEXT;
}

/* ---- stack: an activation's own part of local memory grows at its end --------------------------------------------------------------------- */

enum pl_emu_status pl_emu_exec_alloca(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    struct pl_emu_frame *f = w->group->frame;
    uint64_t align = ins->n_args > 2 ? pl_emu_lane(w, &ins->args[2], pl_emu_first_lane(w)) : 8;
    uint64_t most = 0;
    PL_EMU_FOR_LANES (lane, w->mask) {
        uint64_t n = pl_emu_lane(w, &ins->args[1], lane);
        most = n > most ? n : most;
    }
    align = align < 16 ? 16 : align;
    uint64_t at = f->local_base_bytes + f->func->local_bytes + f->alloca_bytes;
    at = (at + align - 1) / align * align;
    if (at + most > w->cta->cluster->local_stride_bytes) {
        pl_d_emu_stack_overflow(pl_emu_faults(w, pl_emu_first_lane(w)), pl_emu_where(w), "alloca",
                                w->cta->cluster->local_stride_bytes);
        return PL_EMU_FAULT;
    }
    f->alloca_bytes =
        (uint32_t)(at + (most + 15) / 16 * 16 - f->local_base_bytes - f->func->local_bytes);
    PL_EMU_FOR_LANES (lane, w->mask)
        pl_emu_set_lane(w, &ins->args[0], lane, at);
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_stacksave(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    PL_EMU_FOR_LANES (lane, w->mask)
        pl_emu_set_lane(w, &ins->args[0], lane, w->group->frame->alloca_bytes);
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_emu_exec_stackrestore(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    w->group->frame->alloca_bytes = (uint32_t)pl_emu_lane(w, &ins->args[0], pl_emu_first_lane(w));
    return PL_EMU_NEXT;
}
