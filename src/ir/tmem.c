#include "src/ir/tmem.h"

/* Which operands of matrix operations are this array: bit 0 accumulator, bit 1 first operand, bit 2 scales. */
static uint32_t roles_of(const struct pl_fn *fn, uint32_t array)
{
    uint32_t roles = 0;
    for (uint32_t id = 1; id < fn->ops.n; id++) {
        const struct pl_op *op = pl_ir_op(fn, id);
        if (op->code == PL_OP_COPY_SCALES && op->refs[1] != 0 &&
            pl_ir_ref(fn, op->refs[1])->array == array)
            roles |= 4;
        for (int i = 0; op->code == PL_OP_TCGEN05_MMA && i < 5; i++)
            if (op->refs[i] != 0 && pl_ir_ref(fn, op->refs[i])->array == array)
                roles |= i < 2 ? 1u << i : i > 2 ? 4 : 0;
    }
    return roles;
}

enum pl_tmem_form pl_tmem_form_of(const struct pl_fn *fn, uint32_t array)
{
    const uint32_t roles = roles_of(fn, array);
    return (roles & 4) != 0 ? PL_TMEM_SCALES : (roles & 1) != 0 ? PL_TMEM_CELLS : PL_TMEM_PACKED;
}

bool pl_tmem_is_torn(const struct pl_fn *fn, uint32_t array)
{
    const uint32_t roles = roles_of(fn, array);
    const bool is_whole = pl_dtype_bits(fn->arrays.data[array].dtype) == 32;
    return (roles & (roles - 1)) != 0 && !(roles == 3 && is_whole);
}

uint32_t pl_tmem_elems_per_column(const struct pl_fn *fn, uint32_t array)
{
    const int32_t bits = pl_dtype_bits(fn->arrays.data[array].dtype);
    const bool is_alone = pl_tmem_form_of(fn, array) == PL_TMEM_CELLS || bits >= 32 || bits < 8;
    return is_alone ? 1 : 32u / (uint32_t)bits;
}

int64_t pl_tmem_slot_columns(const struct pl_fn *fn, uint32_t array)
{
    const pl_shape *s = &fn->arrays.data[array].shape;
    const int64_t columns = s->d[s->rank - 1], n = (int64_t)pl_tmem_elems_per_column(fn, array);
    if (pl_tmem_form_of(fn, array) == PL_TMEM_SCALES)
        return (s->d[s->rank - 2] + 31) / 32 * ((columns + 3) / 4);
    return (columns + n - 1) / n;
}

int64_t pl_tmem_array_columns(const struct pl_fn *fn, uint32_t array)
{
    const pl_shape *s = &fn->arrays.data[array].shape;
    return ((s->rank > 2 ? s->d[0] : 1) * pl_tmem_slot_columns(fn, array) + 3) / 4 * 4;
}

int64_t pl_tmem_total_columns(const struct pl_fn *fn)
{
    int64_t n = 0;
    for (uint32_t a = 1; a < fn->arrays.n; a++) {
        if (fn->arrays.data[a].space != PL_SPACE_TMEM || fn->arrays.data[a].alias_of != 0)
            continue;
        int64_t most = pl_tmem_array_columns(fn, a);
        for (uint32_t o = 1; o < fn->arrays.n; o++)
            if (fn->arrays.data[o].alias_of == a && pl_tmem_array_columns(fn, o) > most)
                most = pl_tmem_array_columns(fn, o);
        n += most;
    }
    return n;
}

bool pl_tmem_is_used(const struct pl_fn *fn)
{
    for (uint32_t a = 1; a < fn->arrays.n; a++)
        if (fn->arrays.data[a].space == PL_SPACE_TMEM)
            return true;
    return false;
}

bool pl_tmem_is_pair(const struct pl_fn *fn)
{
    for (uint32_t a = 1; a < fn->arrays.n; a++)
        if (fn->arrays.data[a].space == PL_SPACE_TMEM && fn->arrays.data[a].is_pair)
            return true;
    return false;
}
