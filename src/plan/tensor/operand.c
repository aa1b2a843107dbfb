/*
 * Operands that the tensor core reads from shared memory by descriptors.
 *
 * An SMEM array of the plan (memory/smem.c) is what it reads: panels as wide as the swizzle span W, 8 rows of a panel are one swizzle atom of
 * 8 W bytes. Read along its rows (K is the last axis), the atoms of 8 rows follow each other (stride 8 W), and K goes on inside the
 * panel, then in the next one. Read across (K is the row axis), 8 rows of K are an atom (stride 8 W), and the panels are what follows
 * along M or N (the leading stride).
 *
 * Source: PTX ISA, Asynchronous Warpgroup Level Matrix Shared Memory Layout: Matrix Descriptor; TensorCore 5th Generation Family
 * Instructions: Shared memory descriptor
 */
#include "src/plan/tensor/operand.h"

#include "base/debug.h"
#include "src/plan/memory/access.h"
#include "src/plan/memory/smem.h"
#include "src/plan/scalar.h"

enum { STEP_BYTES = 32, BLOCK_ROWS = 64, WINDOW_MASK = 0x3ffff };

uint32_t pl_operand_step_elems(pl_dtype t) { return STEP_BYTES * 8 / (uint32_t)pl_dtype_bits(t); }

/* The address as descriptors have it: in units of 16 bytes, without the rank in a cluster, which stands above the window's own bits. */
static struct pl_opnd encoded_address(struct pl_lower *l, struct pl_opnd addr)
{
    struct pl_opnd base =
        addr.u.reg.id != 0 ? pl_opnd_reg(addr.u.reg) : pl_opnd_reg(pl_shared_base(l));
    struct pl_opnd at = pl_ix_add(&l->b, PL_ST_u32, base, pl_opnd_imm(addr.imm));
    return pl_ix_shr(&l->b, PL_ST_u32, pl_ix_and(&l->b, PL_ST_u32, at, WINDOW_MASK), 4);
}

static pl_reg joined(struct pl_lower *l, struct pl_opnd low, pl_reg high)
{
    struct pl_opnd halves[2] = {pl_opnd_reg(pl_build_in_reg(&l->b, PL_ST_b32, low)),
                                pl_opnd_reg(high)};
    return pl_build_value(&l->b, &(struct pl_sdesc){.op = PL_STEP_pack,
                                                    .type = PL_ST_b64,
                                                    .from = PL_ST_b32,
                                                    .n = 1,
                                                    .opnds = {pl_build_list(&l->b, halves, 2)}});
}

/* Rows of 16 bytes, one after the other, without a swizzle: 8 of them are 128 bytes. */
pl_reg pl_rows_desc(struct pl_lower *l, struct pl_opnd addr)
{
    const pl_reg high = pl_build_in_reg(&l->b, PL_ST_b32, pl_opnd_imm((int64_t)1 << 14 | 128 / 16));
    return joined(l, encoded_address(l, addr), high);
}

/* The upper word is the same for all steps and blocks; the lower one begins with the address. */
static void describe(struct pl_lower *l, struct pl_operand *o, struct pl_opnd addr)
{
    static const uint32_t modes[] = {[PL_PLAN_SWIZZLE_32] = 6,
                                     [PL_PLAN_SWIZZLE_64] = 4,
                                     [PL_PLAN_SWIZZLE_128] = 2,
                                     [PL_PLAN_SWIZZLE_128_ATOM_32] = 1};
    /* 8 rows repeat the pattern of a swizzle; with atoms of 32 bytes 4 do */
    const uint32_t n_rows = o->place->swizzle == PL_PLAN_SWIZZLE_128_ATOM_32 ? 4 : 8;
    const uint32_t span = pl_swizzle_span(o->place->swizzle), stride = n_rows * span;
    const uint32_t leading = o->is_across ? o->place->panel_bytes : 16;
    /* the swizzle from bit 29 or 30 of the word on, and the version, which wgmma does not have */
    const uint32_t mode = o->is_tcgen05 ? modes[o->place->swizzle] << 29 | 1u << 14
                                        : (span == 128  ? 1u
                                           : span == 64 ? 2u
                                                        : 3u)
                                              << 30;
    struct pl_opnd at = pl_ix_add(&l->b, PL_ST_u32, encoded_address(l, addr),
                                  pl_opnd_imm((int64_t)(leading / 16) << 16));
    o->low = pl_build_in_reg(&l->b, PL_ST_b32, at);
    o->high = pl_build_in_reg(&l->b, PL_ST_b32, pl_opnd_imm((int64_t)mode | stride / 16));
}

static bool refuse_view(struct pl_lower *l, const struct pl_op *op, const char *which)
{
    pl_d_operand_view(l->diags, pl_lower_where(op), pl_op_infos[op->code].name, which);
    l->status = PL_E_INVALID;
    return false;
}

/* Which types are read across: of 16 bits, by tcgen05 also of 8, and of 32 from larger atoms, from which nothing else is read. */
static bool is_readable(const struct pl_operand *o)
{
    const bool is_atom_32 = o->place->swizzle == PL_PLAN_SWIZZLE_128_ATOM_32;
    if (!o->is_across)
        return !is_atom_32;
    return o->elem_bytes == 2 ||
           (o->is_tcgen05 && (is_atom_32 || (o->elem_bytes == 1 && o->dtype != PL_E2M1)));
}

bool pl_operand_make(struct pl_lower *l, const struct pl_op *op, uint32_t ref, int k_axis,
                     struct pl_operand *o)
{
    const char *which = k_axis == 1 ? "first" : "second";
    const struct pl_ref_info *r = pl_ir_ref(l->fn, ref);
    const int last = pl_ir_ref(l->fn, r->base)->shape.rank - 1;
    *o = (struct pl_operand){.place = &l->places[r->array],
                             .dtype = r->dtype,
                             .elem_bytes = pl_elem_bytes(r->dtype),
                             .is_tcgen05 =
                                 op->code == PL_OP_TCGEN05_MMA || op->code == PL_OP_COPY_TMEM};
    const bool is_whole = r->axis_of[0] + r->axis_of[1] == 2 * last - 1 &&
                          r->axis_of[0] >= last - 1 && r->axis_of[1] >= last - 1;
    if (last < 1 || !is_whole || r->peer != 0 || o->place->swizzle == PL_PLAN_SWIZZLE_NONE ||
        pl_ir_ref(l->fn, r->base)->view == PL_VIEW_RESHAPE)
        return refuse_view(l, op, which);
    o->is_across = r->axis_of[k_axis] != last;
    if (!is_readable(o)) {
        pl_d_operand_major(l->diags, pl_lower_where(op), pl_op_infos[op->code].name,
                           pl_dtype_name(r->dtype), which);
        l->status = PL_E_INVALID;
        return false;
    }
    const struct pl_affine *row = &r->offset[last - 1], *col = &r->offset[last];
    int64_t konst = 0;
    const bool is_panel = pl_affine_multiple(l->fn, col) >= o->place->panel_elems;
    const bool is_step = !o->is_across && pl_affine_is_const(col, &konst) &&
                         konst % pl_operand_step_elems(r->dtype) == 0;
    if (pl_affine_multiple(l->fn, row) < 8 || (!is_panel && !is_step))
        return refuse_view(l, op, which);
    o->first = is_panel ? 0 : (uint32_t)(konst % o->place->panel_elems);
    struct pl_coord at[PL_MAX_RANK] = {{pl_opnd_imm(0), 1, 0}, {pl_opnd_imm(0), 1, 0}};
    at[k_axis].konst = -(int64_t)o->first;
    describe(l, o, pl_shared_addr(l, ref, at));
    return true;
}

pl_reg pl_operand_desc(struct pl_lower *l, const struct pl_operand *o, uint32_t block, uint32_t k)
{
    const struct pl_smem_place *p = o->place;
    const uint32_t step = pl_operand_step_elems(o->dtype);
    uint32_t n_bytes;
    if (o->is_across) {
        n_bytes = k * step * p->row_bytes +
                  block * (BLOCK_ROWS * o->elem_bytes / p->row_bytes) * p->panel_bytes;
    } else {
        const uint32_t along = (uint32_t)pl_shared_bytes(o->dtype, o->first + k * step);
        n_bytes = along / p->row_bytes * p->panel_bytes + along % p->row_bytes +
                  block * BLOCK_ROWS * p->row_bytes;
    }
    return joined(l, pl_ix_add(&l->b, PL_ST_u32, pl_opnd_reg(o->low), pl_opnd_imm(n_bytes / 16)),
                  o->high);
}
