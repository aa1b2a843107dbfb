#include "src/ir/fact.h"

/* Every extent, stride and reachable element offset, and what a body adds to them to step over the edge, fits in 31 bits. */
static bool fits_i32(const pl_tensor *t)
{
    const int64_t most = PL_FACT_I32_MOST;
    int64_t low = 0, high = 0;
    for (int i = 0; i < t->rank; i++) {
        int64_t n = t->shape[i], s = t->strides[i];
        if (n > most || s > most || s < -most)
            return false;
        if (n > 1 && s >= 0)
            high += (n - 1) * s;
        else if (n > 1)
            low += (n - 1) * s;
        if (high >= most || low <= -most)
            return false;
    }
    return true;
}

static bool is_aligned16(const pl_tensor *t)
{
    int64_t bits = pl_dtype_bits(t->dtype);
    if (t->address % 16 != 0)
        return false;
    for (int i = 0; i + 1 < t->rank; i++)
        if (t->shape[i] > 1 && t->strides[i] * bits % 128 != 0)
            return false;
    return true;
}

static bool is_dense(const pl_tensor *t)
{
    int64_t stride = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->shape[i] > 1 && t->strides[i] != stride)
            return false;
        stride *= t->shape[i] > 1 ? t->shape[i] : 1;
    }
    return true;
}

static bool is_whole16(const pl_tensor *t)
{
    return t->rank == 0 || t->shape[t->rank - 1] % 128 * pl_dtype_bits(t->dtype) % 128 == 0;
}

pl_fact_set pl_fact_among(const pl_tensor *t, pl_fact_set which)
{
    pl_fact_set has = 0;
    int last = t->rank - 1;
    const pl_fact_set aligned = which & (PL_FACT_ALIGN16 | PL_FACT_ALIGN16_OUT);
    if (aligned != 0 && is_aligned16(t))
        has |= aligned;
    if ((which & PL_FACT_I32) != 0 && fits_i32(t))
        has |= PL_FACT_I32;
    if ((which & PL_FACT_UNIT_STRIDE) != 0 &&
        (last < 0 || t->strides[last] == 1 || t->shape[last] <= 1))
        has |= PL_FACT_UNIT_STRIDE;
    if ((which & PL_FACT_DENSE) != 0 && is_dense(t))
        has |= PL_FACT_DENSE;
    if ((which & PL_FACT_WHOLE16) != 0 && is_whole16(t))
        has |= PL_FACT_WHOLE16;
    return has;
}

pl_fact_set pl_fact_of_array(pl_fact_set facts)
{
    return (facts & PL_FACT_ALIGN16_OUT) == 0 ? facts
                                              : (facts ^ PL_FACT_ALIGN16_OUT) | PL_FACT_ALIGN16;
}

const char *pl_fact_text(pl_fact fact)
{
    switch (fact) {
    case PL_FACT_ALIGN16:
    case PL_FACT_ALIGN16_OUT: return "its address and strides are multiples of 16 bytes";
    case PL_FACT_I32: return "its extents and offsets are below 2^31 - 2^20";
    case PL_FACT_UNIT_STRIDE: return "its last axis has stride 1";
    case PL_FACT_DENSE: return "it is row-major without gaps";
    case PL_FACT_WHOLE16: return "its last extent is a multiple of 16 bytes";
    }
    return "?";
}
