#include "emu/tcgen05_shape.h"

#include "emu/launch.h"

#include <math.h>
#include <string.h>

bool pl_tc_fault_idesc(const struct pl_async_op *op, const char *what)
{
    pl_d_mma_idesc(pl_async_faults(op), pl_async_where(op), what, op->u.tmem.idesc);
    return false;
}

bool pl_tc_fault_unserved(const struct pl_async_op *op, const char *what)
{
    pl_d_mma_unserved(pl_async_faults(op), pl_async_where(op), what);
    return false;
}

/* ---- the instruction descriptor ---------------------------------------------------------------------------------------------- */

static uint32_t bits_of(const struct pl_async_op *op, uint32_t first, uint32_t n)
{
    return op->u.tmem.idesc >> first & ((1u << n) - 1);
}

static bool is_scaled_kind(uint8_t kind)
{
    return kind == PL_PTX_MOD_KIND_MXF8F6F4 || kind == PL_PTX_MOD_KIND_MXF4 ||
           kind == PL_PTX_MOD_KIND_MXF4NVF4;
}

static bool is_dense4_kind(uint8_t kind)
{
    return kind == PL_PTX_MOD_KIND_MXF4 || kind == PL_PTX_MOD_KIND_MXF4NVF4;
}

/* Types by the number in the instruction descriptor. */
static uint8_t type_of(uint8_t kind, uint32_t number)
{
    static const uint8_t f8f6f4[8] = {PL_MMA_E4M3, PL_MMA_E5M2, PL_TC_NO_TYPE, PL_TC_E2M3,
                                      PL_TC_E3M2,  PL_TC_E2M1,  PL_TC_NO_TYPE, PL_TC_NO_TYPE};
    uint8_t type = PL_TC_NO_TYPE;
    switch (kind) {
    case PL_PTX_MOD_KIND_F16:
        type = number == 0 ? PL_MMA_F16 : number == 1 ? PL_MMA_BF16 : PL_TC_NO_TYPE;
        break;
    case PL_PTX_MOD_KIND_TF32: type = number == 2 ? PL_MMA_TF32 : PL_TC_NO_TYPE; break;
    case PL_PTX_MOD_KIND_I8:
        type = number == 0 ? PL_MMA_U8 : number == 1 ? PL_MMA_S8 : PL_TC_NO_TYPE;
        break;
    case PL_PTX_MOD_KIND_F8F6F4:
    case PL_PTX_MOD_KIND_MXF8F6F4: type = f8f6f4[number]; break;
    default: type = number == 1 ? PL_TC_E2M1 : PL_TC_NO_TYPE; /* mxf4, mxf4nvf4 */
    }
    return type;
}

static uint32_t scale_block(const struct pl_async_op *op, uint8_t kind)
{
    uint8_t vec = op->pc->ptx->mods[PL_PTX_CAT_SCALE_VEC];
    bool is_16 = vec == PL_PTX_MOD_SCALE_VEC_X4 || vec == PL_PTX_MOD_SCALE_VEC_BLOCK16;
    return is_16 && kind == PL_PTX_MOD_KIND_MXF4NVF4 ? 16 : 32;
}

static void take_scaled(const struct pl_async_op *op, uint8_t kind, struct pl_tc_shape *s)
{
    s->m = bits_of(op, 27, 2) << 7;
    s->scale_k = scale_block(op, kind);
    s->sfa_id = bits_of(op, 29, 2);
    s->sfb_id = bits_of(op, 4, 2);
    s->is_ue4m3 = bits_of(op, 23, 1) == 0;
    if (!s->is_dense4)
        return;
    s->b.type = type_of(kind, bits_of(op, 10, 2));
    s->k = bits_of(op, 31, 1) != 0 ? 96 : 64;
}

/* "Data Path Layout": which lanes the columns of D go to. */
static void take_layout(const struct pl_async_op *op, struct pl_tc_shape *s)
{
    s->n_parts = 1;
    s->part_rows = 128;
    if (s->is_ws) /* layouts D, E, G */
        s->n_parts = 128 / (s->m < 32 ? 32 : s->m);
    else if (op->u.tmem.is_pair && s->m == 128) /* layout B */
        s->n_parts = 2;
    s->part_rows = 128 / s->n_parts;
}

/* ---- what must hold ------------------------------------------------------------------------------------------------------------ */

static bool has_m(const struct pl_async_op *op, const struct pl_tc_shape *s)
{
    if (s->is_ws)
        return s->m == 32 || s->m == 64 || s->m == 128;
    if (op->u.tmem.is_pair)
        return s->m == 128 || s->m == 256;
    return s->m == 64 || s->m == 128;
}

static bool has_n(const struct pl_async_op *op, const struct pl_tc_shape *s)
{
    if (s->is_ws)
        return s->n == 64 || s->n == 128 || s->n == 256;
    uint32_t step = op->u.tmem.is_pair ? 16 : 8;
    if (s->is_int)
        step = op->u.tmem.is_pair ? 32 : s->n <= 32 ? 8 : 16;
    return s->n >= 8 && s->n <= 256 && s->n % step == 0;
}

/* Bits 4 and 5: 0 f16, 1 f32, 2 s32. */
static bool has_d_type(const struct pl_async_op *op, const struct pl_tc_shape *s, uint8_t kind)
{
    uint32_t d = bits_of(op, 4, 2);
    if (s->is_int)
        return d == 2;
    bool is_f16_ok =
        kind == PL_PTX_MOD_KIND_F8F6F4 || (s->a.type == PL_MMA_F16 && s->b.type == PL_MMA_F16);
    return d == 1 || (d == 0 && is_f16_ok);
}

static bool check_operands(const struct pl_async_op *op, const struct pl_tc_shape *s)
{
    const struct pl_tc_operand *both[2] = {&s->a, &s->b};
    for (uint32_t i = 0; i < 2; i++) {
        if (both[i]->type == PL_TC_NO_TYPE)
            return pl_tc_fault_idesc(op, "an element type that the kind does not have");
        if (both[i]->type >= PL_TC_E2M3 && both[i]->is_mn_major)
            return pl_tc_fault_idesc(op, "a transposed operand of elements below a byte");
        if (s->is_int && both[i]->is_negated)
            return pl_tc_fault_idesc(op, "a negated operand of integers");
    }
    return !(s->a.is_mn_major && op->u.tmem.is_a_in_tmem) ||
           pl_tc_fault_idesc(op, "a transposed A in tensor memory");
}

static bool check_factors(const struct pl_async_op *op, const struct pl_tc_shape *s, uint8_t kind)
{
    uint32_t n = s->k / s->scale_k, step = s->k == 96 ? (n == 6 ? 2 : 1) : n;
    if (s->sfa_id % step != 0 || s->sfb_id % step != 0)
        return pl_tc_fault_idesc(op, "a scale-factor id that the vector size does not have");
    if (s->is_ue4m3 && (kind != PL_PTX_MOD_KIND_MXF4NVF4 || s->scale_k != 16))
        return pl_tc_fault_idesc(op,
                                 "ue4m3 factors, which only blocks of 16 of kind::mxf4nvf4 have,");
    if (s->k != 96)
        return true;
    if (pl_emu_device_config(op->w->cta->cluster->grid->device)->sm != 103)
        return pl_tc_fault_idesc(op, "K = 96, which only sm_103a has,");
    if (op->u.tmem.is_a_in_tmem)
        return pl_tc_fault_unserved(op, "K = 96 and A in tensor memory");
    return (op->u.tmem.is_pair && s->m == 256) ||
           pl_tc_fault_idesc(op, "K = 96, which only M = 256 over a pair has,");
}

static bool check_shape(const struct pl_async_op *op, const struct pl_tc_shape *s, uint8_t kind)
{
    if (!check_operands(op, s))
        return false;
    if (!has_m(op, s))
        return pl_tc_fault_idesc(op, "an M that the form does not have");
    if (!has_n(op, s))
        return pl_tc_fault_idesc(op, "an N that the form does not have");
    if (bits_of(op, 2, 1) != 0)
        return pl_tc_fault_idesc(op, "sparsity, which only .sp has,");
    if (s->scale_k != 0)
        return check_factors(op, s, kind);
    if (!has_d_type(op, s, kind))
        return pl_tc_fault_idesc(op, "a type of D that the operands do not have");
    if (s->is_saturating && !s->is_int)
        return pl_tc_fault_idesc(op, "saturation of a float D");
    if (op->pc->ptx->mods[PL_PTX_CAT_ASHIFT] != PL_PTX_MOD_NONE && s->m < 128)
        return pl_tc_fault_idesc(op, "an M below 128 with .ashift");
    if (s->is_ws && op->u.tmem.is_a_in_tmem && s->m != 128)
        return pl_tc_fault_unserved(op, ".ws, M below 128 and A in tensor memory");
    return true;
}

bool pl_tc_shape_of(const struct pl_async_op *op, struct pl_tc_shape *s)
{
    uint8_t kind = op->pc->ptx->mods[PL_PTX_CAT_KIND];
    uint16_t form = op->pc->ptx->form;
    *s = (struct pl_tc_shape){.m = bits_of(op, 24, 5) << 4,
                              .n = bits_of(op, 17, 6) << 3,
                              .es = kind == PL_PTX_MOD_KIND_F16    ? 2
                                    : kind == PL_PTX_MOD_KIND_TF32 ? 4
                                                                   : 1,
                              .is_int = kind == PL_PTX_MOD_KIND_I8,
                              .is_ws =
                                  form == PL_PTX_tcgen05_mma_ws || form == PL_PTX_tcgen05_mma_ws_ta,
                              .is_dense4 = is_dense4_kind(kind),
                              .a = {type_of(kind, bits_of(op, 7, 3)), bits_of(op, 15, 1) != 0,
                                    bits_of(op, 13, 1) != 0, op->u.tmem.a_desc},
                              .b = {type_of(kind, bits_of(op, 10, 3)), bits_of(op, 16, 1) != 0,
                                    bits_of(op, 14, 1) != 0, op->u.tmem.b_desc}};
    s->k = 32 / s->es;
    if (is_scaled_kind(kind)) {
        take_scaled(op, kind, s);
    } else {
        s->is_f16_acc = !s->is_int && bits_of(op, 4, 2) == 0;
        s->is_saturating = bits_of(op, 3, 1) != 0;
    }
    take_layout(op, s);
    return check_shape(op, s, kind);
}

/* ---- elements ------------------------------------------------------------------------------------------------------------------ */

static float small_float(uint8_t type, uint32_t v)
{
    uint32_t man_bits = type == PL_TC_E2M3   ? 3
                        : type == PL_TC_E3M2 ? 2
                                             : 1,
             exp_bits = type == PL_TC_E3M2 ? 3 : 2;
    uint32_t man = v & ((1u << man_bits) - 1), exp = v >> man_bits & ((1u << exp_bits) - 1);
    int bias = (1 << (exp_bits - 1)) - 1;
    float f = exp == 0 ? ldexpf((float)man, 1 - bias - (int)man_bits)
                       : ldexpf((float)(man + (1u << man_bits)), (int)exp - bias - (int)man_bits);
    return (v >> (man_bits + exp_bits) & 1) != 0 ? -f : f;
}

static float small_value(const struct pl_tc_operand *x, uint32_t v)
{
    float f = small_float(x->type, v);
    return x->is_negated ? -f : f;
}

static uint32_t small_bits(const struct pl_tc_operand *x) { return x->type == PL_TC_E2M1 ? 4 : 6; }

uint32_t pl_tc_chunk_data_bytes(const struct pl_tc_shape *s, const struct pl_tc_operand *x)
{
    return x->type < PL_TC_E2M3 || s->is_dense4 ? PL_TC_CHUNK_BYTES : 16 * small_bits(x) / 8;
}

uint32_t pl_tc_decode(const struct pl_tc_shape *s, const struct pl_tc_operand *x,
                      const uint8_t *chunk, union pl_mma_value v[32])
{
    if (x->type < PL_TC_E2M3) {
        pl_mma_decode((enum pl_mma_elem)x->type, chunk, x->is_negated, v);
        return PL_TC_CHUNK_BYTES / s->es;
    }
    uint32_t n_bits = small_bits(x), n = s->is_dense4 ? 32 : 16;
    for (uint32_t e = 0; e < n; e++) {
        uint32_t at = e * n_bits,
                 word = chunk[at / 8] |
                        (at / 8 + 1 < PL_TC_CHUNK_BYTES ? (uint32_t)chunk[at / 8 + 1] << 8 : 0);
        v[e].f = small_value(x, word >> at % 8);
    }
    return n;
}

uint32_t pl_tc_decode_cell(const struct pl_tc_shape *s, uint32_t cell, union pl_mma_value v[32])
{
    uint8_t chunk[PL_TC_CHUNK_BYTES] = {0};
    memcpy(chunk, &cell, sizeof cell);
    if (s->a.type < PL_TC_E2M3 || s->is_dense4) {
        pl_tc_decode(s, &s->a, chunk, v);
        return s->is_dense4 ? 8 : 4 / s->es;
    }
    for (uint32_t e = 0; e < 4; e++)
        v[e].f = small_value(&s->a, s->a.type == PL_TC_E2M1 ? chunk[e] >> 2 : chunk[e]);
    return 4;
}
