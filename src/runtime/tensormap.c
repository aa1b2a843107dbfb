#include "src/runtime/tensormap.h"

#include "base/hash.h"

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
    case PL_E2M1:
    case PL_E2M3:
    case PL_E3M2:
    case PL_DTYPE_NONE:
    case PL_DTYPE_COUNT: break;
    }
    return NO_TYPE;
}

static const int swizzle_span[] = {0, 32, 64, 128}; /* bytes, by enum pl_plan_swizzle */

static struct pl_where at(const struct pl_plan_map *m, int axis, int64_t seen, int64_t wanted)
{
    return (struct pl_where){.arg_plus1 = m->arg + 1,
                             .dim_plus1 = axis + 1,
                             .has_values = true,
                             .seen = seen,
                             .wanted = wanted};
}

/* One dimension: extent, stride in bytes, box. */
static pl_status make_dim(struct pl_tmap_key *key, const struct pl_plan_map *m, const pl_tensor *t,
                          int i, struct pl_call *call)
{
    const int64_t most_dim = (int64_t)1 << 32, most_stride = ((int64_t)1 << 40) - 1;
    int axis = m->axes[i];
    int64_t dim = t->shape[axis], stride = t->strides[axis];
    int elem_bytes = pl_dtype_bits(m->dtype) / 8;
    if (dim < 1 || dim > most_dim)
        return pl_e_tmap_dim(call, PL_E_INVALID, at(m, axis, dim, most_dim), m->arg, axis, dim);
    if (m->box_elems[i] < 1 || m->box_elems[i] > 256)
        return pl_e_tmap_box(call, PL_E_INVALID, at(m, axis, m->box_elems[i], 256), m->arg, axis,
                             m->box_elems[i]);
    key->dims[i] = (uint64_t)dim;
    key->box[i] = m->box_elems[i];
    if (i == 0) {
        if (stride != 1 && dim != 1)
            return pl_e_tmap_inner(call, PL_E_INVALID, at(m, axis, stride, 1), m->arg, stride);
        return PL_OK;
    }
    /* A stride that is never taken (extent 1) still has to obey the rules: any legal one does. */
    if (dim == 1)
        stride = 16 / elem_bytes;
    if (stride < 0 || stride > most_stride / elem_bytes || stride * elem_bytes % 16 != 0)
        return pl_e_tmap_stride(call, PL_E_INVALID, at(m, axis, stride, 16), m->arg, axis,
                                stride * elem_bytes);
    key->stride_bytes[i] = (uint64_t)(stride * elem_bytes);
    return PL_OK;
}

pl_status pl_tmap_key_make(struct pl_tmap_key *key, const struct pl_plan_map *m, const pl_tensor *t,
                           struct pl_call *call)
{
    memset(key, 0, sizeof *key);
    if (m->rank < 1 || m->rank > PL_PLAN_MAP_RANK)
        return pl_e_tmap_rank(call, PL_E_INVALID, at(m, -1, m->rank, PL_PLAN_MAP_RANK), m->arg,
                              m->rank);
    key->rank = m->rank;
    key->dtype = map_dtype(m->dtype);
    if (key->dtype == NO_TYPE)
        return pl_e_tmap_dtype(call, PL_E_UNSUPPORTED, at(m, -1, 0, 0), m->arg,
                               pl_dtype_name(m->dtype));
    key->address = t->address;
    if (t->address % 16 != 0)
        return pl_e_tmap_address(call, PL_E_INVALID, at(m, -1, (int64_t)(t->address % 16), 0),
                                 m->arg, (unsigned long long)t->address, 16);
    for (int i = 0; i < m->rank; i++) {
        pl_status st = make_dim(key, m, t, i, call);
        if (st != PL_OK)
            return st;
    }
    int inner_bytes = m->box_elems[0] * (pl_dtype_bits(m->dtype) / 8);
    int span = swizzle_span[m->swizzle];
    if (inner_bytes % 16 != 0)
        return pl_e_tmap_box_bytes(call, PL_E_INVALID, at(m, m->axes[0], inner_bytes, 16), m->arg,
                                   inner_bytes);
    if (span != 0 && inner_bytes != span)
        return pl_e_tmap_swizzle(call, PL_E_INVALID, at(m, m->axes[0], inner_bytes, span), m->arg,
                                 inner_bytes, span);
    key->swizzle = (uint8_t)m->swizzle;
    key->l2 = m->l2_bytes == 256   ? PL_CU_TMAP_L2_256B
              : m->l2_bytes == 128 ? PL_CU_TMAP_L2_128B
              : m->l2_bytes == 64  ? PL_CU_TMAP_L2_64B
                                   : PL_CU_TMAP_L2_NONE;
    key->fill = m->fills_nan ? PL_CU_TMAP_FILL_NAN : PL_CU_TMAP_FILL_ZERO;
    return PL_OK;
}

struct pl_tmap_line *pl_tmap_line_of(struct pl_tmap_cache *cache, const struct pl_tmap_key *key)
{
    return &cache->lines[pl_hash64(key, sizeof *key, 0) % PL_TMAP_LINES];
}
