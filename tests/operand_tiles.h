#ifndef PL_TESTS_OPERAND_TILES_H
#define PL_TESTS_OPERAND_TILES_H
/* Operands of matrix operations in two slots of SMEM, for bodies that multiply step by step, and ways out for a result in registers. */
#include <plaunch.h>

/* swizzle: span in bytes; 0: none, -1: left to the plan. */
static inline pl_transforms operand_transforms(pl_dtype t, int32_t swizzle)
{
    return swizzle < 0    ? PL_SWIZZLE_AUTO
           : swizzle == 0 ? PL_SWIZZLE_NONE
                          : pl_transforms_make(8, swizzle * 8 / pl_dtype_bits(t), swizzle);
}

/* How an operand's step lies: (rows, k), or (k, rows) when it is across. */
struct tile_form {
    int32_t rows, k, swizzle, is_across;
};

/* The operand's GMEM and its slots (2, rows, k) or (2, k, rows). */
struct tile {
    pl_ref gmem, smem;
    struct tile_form form;
};

static inline pl_shape tile_shape(const struct tile_form *f)
{
    return f->is_across ? PL_SHAPE(f->k, f->rows) : PL_SHAPE(f->rows, f->k);
}

static inline struct tile make_tile(pl_builder *b, pl_ref gmem, struct tile_form form)
{
    const pl_dtype t = pl_dtype_of(b, gmem);
    const pl_shape s = tile_shape(&form);
    return (struct tile){
        gmem, pl_smem(b, t, PL_SHAPE(2, s.d[0], s.d[1]), operand_transforms(t, form.swizzle)),
        form};
}

static inline void fill_tile(pl_builder *b, const struct tile *t, pl_val step, pl_val slot,
                             pl_bar bar)
{
    const pl_offs at = t->form.is_across ? PL_OFF(b, step, 0) : PL_OFF(b, 0, step);
    pl_copy_gmem_to_smem(b, pl_tile(b, t->gmem, at, tile_shape(&t->form)), pl_at(b, t->smem, slot),
                         bar);
}

/* The (n_rows, k) view of a slot, from row `first`. */
static inline pl_ref tile_rows(pl_builder *b, const struct tile *t, pl_val slot, pl_val first,
                               int32_t n_rows)
{
    pl_ref r = pl_at(b, t->smem, slot);
    return t->form.is_across
               ? pl_transpose(b, pl_window(b, r, PL_OFF(b, 0, first), PL_SHAPE(t->form.k, n_rows)))
               : pl_window(b, r, PL_OFF(b, first, 0), PL_SHAPE(n_rows, t->form.k));
}

/* The (k, rows) view of a slot: the second operand. */
static inline pl_ref tile_columns(pl_builder *b, const struct tile *t, pl_val slot)
{
    pl_ref r = pl_at(b, t->smem, slot);
    return t->form.is_across ? r : pl_transpose(b, r);
}

enum out_way { OUT_GMEM, OUT_SMEM, OUT_STRIDED, OUT_ROW_SUMS };

/* v (m, n) of each warpgroup to `to`, its window of the result. */
static inline void write_out(pl_builder *b, enum out_way way, int32_t n_warpgroups, pl_ref to,
                             pl_val v, pl_shape s)
{
    const pl_dtype t = pl_dtype_of(b, to);
    v = pl_cast(b, v, t);
    if (way == OUT_SMEM) { /* through shared memory, and by a copy */
        pl_ref all = pl_smem(b, t, PL_SHAPE(n_warpgroups, s.d[0], s.d[1]), PL_SWIZZLE_AUTO);
        pl_ref stage = pl_at(b, all, pl_warpgroup_id(b));
        pl_store(b, stage, v);
        pl_commit_smem(b);
        pl_copy_smem_to_gmem(b, stage, to);
        pl_wait_smem_to_gmem(b, 0);
    } else if (way == OUT_STRIDED) {
        pl_store(b, to, pl_layout_cast(b, v, pl_layout_strided(4)));
    } else if (way == OUT_ROW_SUMS) { /* each row less its sum: a reduction and a broadcast */
        pl_val sum = pl_reduce(b, PL_ADD, v, 1, PL_SCOPE_WARPGROUP);
        pl_store(b, to, pl_sub(b, v, pl_broadcast(b, sum, 1, s.d[1])));
    } else {
        pl_store(b, to, v);
    }
}
#endif
