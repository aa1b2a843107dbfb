#include "src/runtime/tensormap.h"

#include <string.h>

enum { NO_TYPE = 255 };

/* Element type of a map: what the hardware needs to know is the width, and the format where it fills or converts. */
static uint8_t map_dtype(pl_dtype t)
{
    switch (t) {
    case PL_F64: return PL_CU_TMAP_F64;
    case PL_F32: return PL_CU_TMAP_F32;
    case PL_TF32: return PL_CU_TMAP_F32; /* stored as f32; .tf32 would round on the way */
    case PL_F16: return PL_CU_TMAP_F16;
    case PL_BF16: return PL_CU_TMAP_BF16;
    case PL_I8:
    case PL_U8:
    case PL_PRED:
    case PL_E4M3:
    case PL_E5M2:
    case PL_E8M0: return PL_CU_TMAP_U8;
    case PL_I16:
    case PL_U16: return PL_CU_TMAP_U16;
    case PL_I32: return PL_CU_TMAP_I32;
    case PL_U32: return PL_CU_TMAP_U32;
    case PL_I64: return PL_CU_TMAP_I64;
    case PL_U64: return PL_CU_TMAP_U64;
    case PL_E2M1: return PL_CU_TMAP_16U4_ALIGN8B;
    case PL_E2M3:
    case PL_E3M2:
    case PL_DTYPE_NONE:
    case PL_DTYPE_COUNT: break;
    }
    return NO_TYPE;
}

static const int swizzle_span[] = {0, 32, 64, 128, 128}; /* bytes, by enum pl_plan_swizzle */

static struct pl_where at(const struct pl_plan_map *m, int axis, int64_t seen, int64_t wanted)
{
    return (struct pl_where){.arg_plus1 = m->arg + 1,
                             .dim_plus1 = axis + 1,
                             .has_values = true,
                             .seen = seen,
                             .wanted = wanted};
}

/* One dimension: extent, stride, box. */
static pl_status make_dim(struct pl_tmap_inputs *out, const struct pl_tmap_key *key, int i,
                          const struct pl_plan_map *m, struct pl_call *call)
{
    const int64_t most_dim = (int64_t)1 << 32, most_stride = ((int64_t)1 << 40) - 1;
    int axis = m->axes[i], elem_bits = pl_dtype_bits(key->dtype);
    int64_t dim = key->dims[i], stride = key->strides[i];
    if (dim < 1 || dim > most_dim)
        return pl_e_tmap_dim(call, PL_E_INVALID, at(m, axis, dim, most_dim), m->arg, axis, dim);
    if (key->box[i] < 1 || key->box[i] > 256)
        return pl_e_tmap_box(call, PL_E_INVALID, at(m, axis, key->box[i], 256), m->arg, axis,
                             key->box[i]);
    out->dims[i] = (uint64_t)dim;
    out->box[i] = key->box[i];
    out->ones[i] = 1;
    if (i == 0) {
        if (stride != 1 && dim != 1)
            return pl_e_tmap_inner(call, PL_E_INVALID, at(m, axis, stride, 1), m->arg, stride);
        return PL_OK;
    }
    if (dim == 1) /* never taken, but it has to obey the rules: any legal one does */
        stride = 128 / elem_bits;
    if (stride < 0 || stride > most_stride / elem_bits || stride * elem_bits % 128 != 0)
        return pl_e_tmap_stride(call, PL_E_INVALID, at(m, axis, stride, 16), m->arg, axis,
                                stride * elem_bits / 8);
    out->stride_bytes[i] = (uint64_t)(stride * elem_bits / 8);
    return PL_OK;
}

/* The box's inner extent against the copy's granule and the swizzle's span. */
static pl_status check_inner(const struct pl_tmap_key *key, const struct pl_plan_map *m,
                             struct pl_call *call)
{
    int inner_bytes = key->box[0] * pl_dtype_bits(key->dtype) / 8;
    int span = swizzle_span[key->swizzle];
    if (inner_bytes % 16 != 0)
        return pl_e_tmap_box_bytes(call, PL_E_INVALID, at(m, m->axes[0], inner_bytes, 16), m->arg,
                                   inner_bytes);
    if (span != 0 && inner_bytes != span)
        return pl_e_tmap_swizzle(call, PL_E_INVALID, at(m, m->axes[0], inner_bytes, span), m->arg,
                                 inner_bytes, span);
    return PL_OK;
}

static int l2_of(uint16_t n_bytes)
{
    return n_bytes == 256   ? PL_CU_TMAP_L2_256B
           : n_bytes == 128 ? PL_CU_TMAP_L2_128B
           : n_bytes == 64  ? PL_CU_TMAP_L2_64B
                            : PL_CU_TMAP_L2_NONE;
}

pl_status pl_tmap_inputs_make(struct pl_tmap_inputs *out, const struct pl_tmap_key *key,
                              const struct pl_plan_map *m, struct pl_call *call)
{
    if (key->rank < 1 || key->rank > PL_PLAN_MAP_RANK)
        return pl_e_tmap_rank(call, PL_E_INVALID, at(m, -1, key->rank, PL_PLAN_MAP_RANK), m->arg,
                              key->rank);
    uint8_t dtype = map_dtype(key->dtype);
    if (dtype == NO_TYPE)
        return pl_e_tmap_dtype(call, PL_E_UNSUPPORTED, at(m, -1, 0, 0), m->arg,
                               pl_dtype_name(key->dtype));
    if (key->address % 16 != 0)
        return pl_e_tmap_address(call, PL_E_INVALID, at(m, -1, (int64_t)(key->address % 16), 0),
                                 m->arg, (unsigned long long)key->address, 16);
    *out = (struct pl_tmap_inputs){.dtype = dtype,
                                   .swizzle = key->swizzle,
                                   .l2 = l2_of(key->l2_bytes),
                                   .fill =
                                       key->fills_nan ? PL_CU_TMAP_FILL_NAN : PL_CU_TMAP_FILL_ZERO};
    for (int i = 0; i < key->rank; i++) {
        pl_status st = make_dim(out, key, i, m, call);
        if (st != PL_OK)
            return st;
    }
    return check_inner(key, m, call);
}

void pl_tmap_key_make(struct pl_tmap_key *key, const struct pl_plan_map *m, const pl_tensor *t)
{
    memset(key, 0, sizeof *key);
    key->address = t->address;
    for (int i = 0; i < m->rank && i < PL_PLAN_MAP_RANK; i++) {
        key->dims[i] = t->shape[m->axes[i]];
        key->strides[i] = t->strides[m->axes[i]];
    }
    memcpy(key->box, m->box_elems, sizeof key->box);
    key->l2_bytes = m->l2_bytes;
    key->rank = m->rank;
    key->dtype = (uint8_t)m->dtype;
    key->swizzle = (uint8_t)m->swizzle;
    key->fills_nan = m->fills_nan;
}

/* What differs between launches of one kernel is the address and the extents: a few multiplications tell them apart. */
struct pl_tmap_line *pl_tmap_line_of(struct pl_tmap_cache *cache, const struct pl_tmap_key *key)
{
    const uint64_t odd = 0x9e3779b97f4a7c15u;
    uint64_t h = key->address >> 4;
    h = (h ^ (uint64_t)key->dims[0]) * odd;
    h = (h ^ (uint64_t)key->dims[1] ^ (uint64_t)key->strides[1] << 20) * odd;
    h = (h ^ (uint64_t)key->dims[2] ^ (uint64_t)key->box[0] << 40 ^ (uint64_t)key->box[1] << 50) *
        odd;
    return &cache->lines[h >> 58];
}
_Static_assert(PL_TMAP_LINES == 64, "six bits choose a line");

void pl_tmap_mend(const struct pl_tmap_key *key, uint64_t words[16])
{
    int64_t n = 1,
            last = 0; /* elements of a dense tensor of these extents; index of the last one here */
    bool is_dense = true;
    for (int i = 0; i < key->rank; i++) {
        is_dense = is_dense && (key->dims[i] == 1 || key->strides[i] == n);
        n *= key->dims[i];
        last += (key->dims[i] - 1) * key->strides[i];
    }
    if (!is_dense && (last + 1) * pl_dtype_bits((pl_dtype)key->dtype) / 8 < 128 * 1024)
        words[1] &= ~((uint64_t)1 << (85 - 64));
}
