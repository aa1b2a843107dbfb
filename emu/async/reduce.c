/*
 * One element of a reducing copy, applied atomically: the operations of cp.reduce.async.bulk(.tensor) and red.async.
 *
 * Source: PTX ISA, cp.reduce.async.bulk, cp.reduce.async.bulk.tensor, red.async. f32 add flushes subnormal inputs and results
 * in the bulk forms; f16 and bf16 add keep them (.noftz). NaN loses in min and max, as in atom.
 */
#include "emu/async/state.h"

#include "base/debug.h"
#include "base/num.h"
#include "jit/ptx/ptx.h"

#include <string.h>

uint32_t pl_async_reduce_bytes(const struct pl_async_reduce *r)
{
    return pl_ptx_types[r->type].bits / 8u;
}

static bool is_signed(uint8_t type) { return pl_ptx_types[type].class == PL_PTX_CLASS_SINT; }

static int64_t sign_extend(uint64_t v, uint32_t n_bits)
{
    uint64_t sign = UINT64_C(1) << (n_bits - 1);
    return (int64_t)((v ^ sign) - sign);
}

static bool is_less(uint8_t type, uint64_t a, uint64_t b)
{
    uint32_t bits = pl_ptx_types[type].bits;
    return is_signed(type) ? sign_extend(a, bits) < sign_extend(b, bits) : a < b;
}

static uint64_t reduce_int(const struct pl_async_reduce *r, uint64_t d, uint64_t s)
{
    switch (r->op) {
    case PL_PTX_MOD_ATOM_ADD: return d + s;
    case PL_PTX_MOD_ATOM_MIN: return is_less(r->type, s, d) ? s : d;
    case PL_PTX_MOD_ATOM_MAX: return is_less(r->type, d, s) ? s : d;
    case PL_PTX_MOD_ATOM_INC: return d >= s ? 0 : d + 1;
    case PL_PTX_MOD_ATOM_DEC: return d == 0 || d > s ? s : d - 1;
    case PL_PTX_MOD_ATOM_AND: return d & s;
    case PL_PTX_MOD_ATOM_OR: return d | s;
    case PL_PTX_MOD_ATOM_XOR: return d ^ s;
    default: PL_ASSERT(false); return d;
    }
}

static bool find_format(uint8_t type, enum pl_num_fmt *fmt)
{
    switch (type) {
    case PL_PTX_TYPE_F16: *fmt = PL_NUM_F16; return true;
    case PL_PTX_TYPE_BF16: *fmt = PL_NUM_BF16; return true;
    case PL_PTX_TYPE_F32: *fmt = PL_NUM_F32; return true;
    case PL_PTX_TYPE_F64: *fmt = PL_NUM_F64; return true;
    default: return false;
    }
}

static uint64_t reduce_float(const struct pl_async_reduce *r, enum pl_num_fmt fmt, uint64_t d,
                             uint64_t s)
{
    struct pl_num x = pl_num_unpack(fmt, d), y = pl_num_unpack(fmt, s);
    if (r->is_ftz) {
        x = pl_num_flush(fmt, x);
        y = pl_num_flush(fmt, y);
    }
    if (r->op == PL_PTX_MOD_ATOM_ADD)
        return pl_num_pack(fmt, pl_num_add(x, y, PL_NUM_RN),
                           &(struct pl_num_rule){.is_ftz = r->is_ftz});
    if (x.class == PL_NUM_NAN || y.class == PL_NUM_NAN)
        return x.class != PL_NUM_NAN ? d : y.class != PL_NUM_NAN ? s : pl_num_fmts[fmt].nan;
    int order = pl_num_cmp(x, y);
    bool is_s_less = order > 0 || (order == 0 && y.is_negative && !x.is_negative);
    return (r->op == PL_PTX_MOD_ATOM_MIN) == is_s_less ? s : d;
}

static uint64_t reduced(const struct pl_async_reduce *r, uint64_t d, uint64_t s)
{
    enum pl_num_fmt fmt;
    return find_format(r->type, &fmt) ? reduce_float(r, fmt, d, s) : reduce_int(r, d, s);
}

/* Compare and swap until nobody came between; clusters on other threads may work on the same element. */
#define APPLY(T)                                                                                   \
    do {                                                                                           \
        T s, d = __atomic_load_n((T *)(void *)p, __ATOMIC_RELAXED);                                \
        memcpy(&s, value, sizeof s);                                                               \
        while (!__atomic_compare_exchange_n((T *)(void *)p, &d, (T)reduced(r, d, s), true,         \
                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED))                   \
            ;                                                                                      \
    } while (0)

void pl_async_reduce_apply(const struct pl_async_reduce *r, uint8_t *p, const uint8_t *value)
{
    switch (pl_async_reduce_bytes(r)) {
    case 2: APPLY(uint16_t); break;
    case 4: APPLY(uint32_t); break;
    default: APPLY(uint64_t); break;
    }
}
