/*
 * PTX ISA, "Parallel Synchronization and Communication Instructions": atom, red.
 *
 * A lane's operation is one compare-and-swap loop on the host, so that clusters on other threads see it whole. Lanes go in
 * order, the lowest first. 128-bit operations take a lock of their own: hosts without a 16-byte exchange have no other way,
 * and PTX gives no atomicity between them and narrower ones.
 */
#include "base/num.h"
#include "emu/access.h"
#include "emu/address.h"
#include "emu/exec/mem.h"
#include "emu/machine.h"
#include "emu/race.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct operation {
    uint16_t form;
    uint8_t op;   /* enum pl_ptx_mod of the ATOM category */
    uint8_t type; /* enum pl_ptx_type */
    bool is_cas, is_exch;
    bool is_flushed; /* f32 addition in global memory flushes subnormals */
};

/* ---- values -------------------------------------------------------------------------------------------------------------------------- */

static bool is_less(const struct operation *o, uint64_t a, uint64_t b)
{
    switch (o->type) {
    case PL_PTX_TYPE_S32: return (int32_t)a < (int32_t)b;
    case PL_PTX_TYPE_S64: return (int64_t)a < (int64_t)b;
    case PL_PTX_TYPE_U32: return (uint32_t)a < (uint32_t)b;
    default: return a < b;
    }
}

static float flush(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7f800000u) == 0)
        bits &= 0x80000000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t add_f32(uint32_t a, uint32_t b, bool is_flushed)
{
    float x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    float r = is_flushed ? flush(flush(x) + flush(y)) : x + y;
    uint32_t bits;
    memcpy(&bits, &r, sizeof bits);
    return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : bits;
}

static uint64_t add_f64(uint64_t a, uint64_t b)
{
    double x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    x += y;
    memcpy(&a, &x, sizeof a);
    return a;
}

/* One 16-bit float: add, or min and max, which ignore a NaN unless both are. */
static uint16_t combine_half(enum pl_num_fmt fmt, uint8_t op, uint16_t a, uint16_t b)
{
    static const struct pl_num_rule nearest = {.round = PL_NUM_RN};
    struct pl_num x = pl_num_unpack(fmt, a), y = pl_num_unpack(fmt, b);
    if (op == PL_PTX_MOD_ATOM_ADD)
        return (uint16_t)pl_num_pack(fmt, pl_num_add(x, y, PL_NUM_RN), &nearest);
    bool is_x_nan = x.class == PL_NUM_NAN, is_y_nan = y.class == PL_NUM_NAN;
    if (is_x_nan && is_y_nan)
        return 0x7fff;
    if (is_x_nan || is_y_nan)
        return is_x_nan ? b : a;
    int16_t ka = (int16_t)(a >> 15 != 0 ? a ^ 0x7fff : a),
            kb = (int16_t)(b >> 15 != 0 ? b ^ 0x7fff : b);
    return (op == PL_PTX_MOD_ATOM_MIN) == (ka < kb) ? a : b;
}

static uint64_t combine_float(const struct operation *o, uint64_t old, uint64_t s)
{
    switch (o->type) {
    case PL_PTX_TYPE_F32: return add_f32((uint32_t)old, (uint32_t)s, o->is_flushed);
    case PL_PTX_TYPE_F64: return add_f64(old, s);
    case PL_PTX_TYPE_F16: return combine_half(PL_NUM_F16, o->op, (uint16_t)old, (uint16_t)s);
    case PL_PTX_TYPE_BF16: return combine_half(PL_NUM_BF16, o->op, (uint16_t)old, (uint16_t)s);
    default: break;
    }
    enum pl_num_fmt fmt = o->type == PL_PTX_TYPE_F16X2 ? PL_NUM_F16 : PL_NUM_BF16;
    uint32_t lo = combine_half(fmt, o->op, (uint16_t)old, (uint16_t)s);
    uint32_t hi = combine_half(fmt, o->op, (uint16_t)(old >> 16), (uint16_t)(s >> 16));
    return hi << 16 | lo;
}

static bool is_float(uint8_t type)
{
    return pl_ptx_types[type].class == PL_PTX_CLASS_FLOAT ||
           pl_ptx_types[type].class == PL_PTX_CLASS_PACKED;
}

static uint64_t combine(const struct operation *o, uint64_t old, uint64_t s, uint64_t t)
{
    if (o->is_cas)
        return old == s ? t : old;
    if (o->is_exch)
        return s;
    if (is_float(o->type))
        return combine_float(o, old, s);
    switch (o->op) {
    case PL_PTX_MOD_ATOM_ADD: return old + s;
    case PL_PTX_MOD_ATOM_MIN: return is_less(o, s, old) ? s : old;
    case PL_PTX_MOD_ATOM_MAX: return is_less(o, old, s) ? s : old;
    case PL_PTX_MOD_ATOM_INC: return old >= s ? 0 : old + 1;
    case PL_PTX_MOD_ATOM_DEC: return old == 0 || old > s ? s : old - 1;
    case PL_PTX_MOD_ATOM_AND: return old & s;
    case PL_PTX_MOD_ATOM_OR: return old | s;
    default: return old ^ s;
    }
}

/* ---- memory ----------------------------------------------------------------------------------------------------------------------------- */

static uint64_t update16(uint16_t *p, const struct operation *o, uint64_t s, uint64_t t)
{
    uint16_t old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(p, &old, (uint16_t)combine(o, old, s, t), true,
                                        __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        ;
    return old;
}

static uint64_t update32(uint32_t *p, const struct operation *o, uint64_t s, uint64_t t)
{
    uint32_t old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(p, &old, (uint32_t)combine(o, old, s, t), true,
                                        __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        ;
    return old;
}

static uint64_t update64(uint64_t *p, const struct operation *o, uint64_t s, uint64_t t)
{
    uint64_t old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(p, &old, combine(o, old, s, t), true, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED))
        ;
    return old;
}

static struct pl_emu_u128 wide_lane(const struct pl_emu_warp *w, const struct pl_emu_arg *a,
                                    uint32_t lane)
{
    return ((const struct pl_emu_u128 *)pl_emu_lanes(w, a))[lane];
}

static void update128(struct pl_emu_warp *w, const struct pl_emu_arg *d, uint8_t *p,
                      const struct operation *o, const struct pl_emu_arg *src, uint32_t lane)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct pl_emu_u128 old, s = wide_lane(w, src, lane);
    struct pl_emu_u128 value = o->is_cas ? wide_lane(w, src + 1, lane) : s;
    pthread_mutex_lock(&lock);
    memcpy(&old, p, sizeof old);
    if (!o->is_cas || (old.lo == s.lo && old.hi == s.hi))
        memcpy(p, &value, sizeof value);
    pthread_mutex_unlock(&lock);
    if (d != NULL && d->kind == PL_EMU_ARG_VALUE)
        ((struct pl_emu_u128 *)pl_emu_lanes(w, d))[lane] = old;
}

static const struct pl_emu_arg *element(const struct pl_emu_ins *ins, const struct pl_emu_arg *a,
                                        uint32_t k)
{
    return a->kind == PL_EMU_ARG_VECTOR ? &ins->args[a->first + k] : a;
}

static void update_lane(struct pl_emu_warp *w, const struct pl_emu_ins *ins,
                        const struct operation *o, uint32_t lane, uint8_t *p)
{
    const struct pl_emu_access *a = ins->extra;
    bool is_red = ins->args[0].kind == PL_EMU_ARG_ADDR;
    const struct pl_emu_arg *dst = is_red ? NULL : &ins->args[0], *src = &ins->args[is_red ? 1 : 2];
    if (a->elem_bytes == 16) {
        update128(w, dst, p, o, src, lane);
        return;
    }
    for (uint32_t k = 0; k < a->n_elems; k++, p += a->elem_bytes) {
        uint64_t s = pl_emu_lane(w, element(ins, src, k), lane), old;
        uint64_t t = o->is_cas ? pl_emu_lane(w, src + 1, lane) : 0;
        if (a->elem_bytes == 2)
            old = update16((uint16_t *)(void *)p, o, (uint16_t)s, t);
        else if (a->elem_bytes == 4)
            old = update32((uint32_t *)(void *)p, o, (uint32_t)s, t);
        else
            old = update64((uint64_t *)(void *)p, o, s, t);
        if (dst != NULL)
            pl_emu_set_lane(w, element(ins, dst, k), lane, old);
    }
}

static bool is_global(const struct pl_emu_access *a, uint64_t address)
{
    return a->space == PL_EMU_SPACE_GLOBAL ||
           (a->space == PL_EMU_SPACE_GENERIC && pl_emu_window_of(address) == PL_EMU_IN_GLOBAL);
}

/* atom: d, [m], s(, t)(, policy); red: [m], s(, policy) */
enum pl_emu_status pl_emu_exec_atom(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    const struct pl_emu_access *a = ins->extra;
    const struct pl_emu_arg *m = &ins->args[ins->args[0].kind == PL_EMU_ARG_ADDR ? 0 : 1];
    uint16_t form = ins->ptx->form;
    struct operation o = {.form = form,
                          .op = pl_emu_mod(ins, PL_PTX_CAT_ATOM),
                          .type = pl_emu_type(ins, 0),
                          .is_cas = form == PL_PTX_atom_cas || form == PL_PTX_atom_cas_b128,
                          .is_exch = form == PL_PTX_atom_exch || form == PL_PTX_atom_exch_b128};
    if (pl_race_is_on(w)) {
        uint64_t all[PL_EMU_LANES];
        pl_emu_addresses(w, m, all);
        if (pl_race_access(w, a, all, true, true) != PL_EMU_NEXT)
            return PL_EMU_FAULT;
    }
    PL_EMU_FOR_LANES (lane, w->mask) {
        uint64_t at = pl_emu_address(w, m, lane);
        void *p = pl_emu_access_lane(w, a, lane, at, true, true, "atomic");
        if (p == NULL)
            return PL_EMU_FAULT;
        o.is_flushed = is_global(a, at);
        update_lane(w, ins, &o, lane, p);
    }
    return PL_EMU_NEXT;
}
