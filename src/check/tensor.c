/* Tensor memory and matrix operations. */
#include "src/check/check.h"

#include "src/check/where.h"
#include "src/ir/layout.h"
#include "src/ir/print.h"
#include "src/ir/tmem.h"

#define PL_DIAG_ROWS "src/check/tensor.def"
#define PL_DIAG_MODE_DECLARE
#include "base/diag_rows.h"
#define PL_DIAG_ROWS "src/check/tensor.def"
#define PL_DIAG_MODE_DEFINE
#include "base/diag_rows.h"

/* ---- tensor memory ---- */

struct tmem {
    bool has_pair, has_single;
    pl_loc last;
};

static bool takes_dtype(pl_dtype t, int64_t rows)
{
    const int32_t bits = pl_dtype_bits(t);
    return t != PL_PRED && (bits == 16 || bits == 32 || (bits == 8 && rows == 128));
}

static void check_alloc(struct pl_fn *fn, const struct pl_array *a, struct tmem *t)
{
    int32_t rank = a->shape.rank;
    if (rank != 2 && rank != 3) {
        struct pl_where w = at_values(a->loc, rank, 2);
        pl_d_tmem_rank(fn->diags, w,
                       rank == 0   ? "()"
                       : rank == 1 ? "of rank 1"
                                   : "of rank 4 or more");
        return;
    }
    int64_t rows = a->shape.d[rank - 2];
    const bool is_scales =
        pl_tmem_form_of(fn, pl_ir_ref(fn, a->ref)->array) == PL_TMEM_SCALES && rows % 128 == 0;
    if (rows != 64 && rows != 128 && !is_scales)
        pl_d_tmem_rows(fn->diags, at_values(a->loc, rows, 128), (long long)rows);
    if (!is_scales && !takes_dtype(a->dtype, rows) && (rows == 64 || rows == 128))
        pl_d_tmem_dtype(fn->diags, at(a->loc), pl_dtype_name(a->dtype), (long long)rows);
    if (a->is_pair && rows == 64)
        pl_d_tmem_pair_rows(fn->diags, at_values(a->loc, rows, 128), (long long)rows);
    if (pl_tmem_is_torn(fn, pl_ir_ref(fn, a->ref)->array))
        pl_d_tmem_torn(fn->diags, at(a->loc));
    if (a->is_pair && pl_fn_n_ctas(fn) % 2 != 0)
        pl_d_pair_needs_cluster(fn->diags, at_values(a->loc, pl_fn_n_ctas(fn), 2),
                                pl_fn_n_ctas(fn));
    t->has_pair = t->has_pair || a->is_pair;
    t->has_single = t->has_single || !a->is_pair;
    t->last = a->loc;
}

static bool starts_at_row_0(const struct pl_fn *fn, uint32_t ref)
{
    const struct pl_ref_info *r = pl_ir_ref(fn, ref);
    const struct pl_affine *row = &r->offset[pl_ir_ref(fn, r->base)->shape.rank - 2];
    return row->n_terms == 0 && row->konst == 0;
}

/* Slots are indexed and columns sliced; the rows are lanes and stay whole. */
static void check_view(struct pl_fn *fn, const struct pl_op *op)
{
    const struct pl_ref_info *r = pl_ir_ref(fn, op->refs[0]), *parent = pl_ir_ref(fn, r->parent);
    bool is_window = r->view == PL_VIEW_WINDOW || r->view == PL_VIEW_TILE;
    if (r->view == PL_VIEW_AT && parent->shape.rank < 3)
        pl_d_tmem_rows_sliced(fn->diags, at(op->loc), "pl_at");
    if (is_window && r->shape.rank >= 2 &&
        (r->shape.d[r->shape.rank - 2] != parent->shape.d[r->shape.rank - 2] ||
         !starts_at_row_0(fn, op->refs[0])))
        pl_d_tmem_rows_sliced(fn->diags, at(op->loc), "a window");
    const int last = pl_ir_ref(fn, r->base)->shape.rank - 1;
    const int64_t wanted = pl_tmem_elems_per_column(fn, r->array),
                  seen = last < 0 ? wanted : pl_affine_multiple(fn, &r->offset[last]);
    if (is_window && seen < wanted)
        pl_d_tmem_start(fn->diags, at_values(op->loc, seen, wanted), (int)seen, (int)wanted);
}

/* A load or store: whole columns, in the steps of the fragments. */
static void check_access(struct pl_fn *fn, const struct pl_op *op)
{
    const struct pl_ref_info *r = pl_ir_ref(fn, op->refs[0]);
    if (r->space != PL_SPACE_TMEM)
        return; /* PL2001 */
    const pl_shape *s = &r->shape;
    const int32_t bits = pl_dtype_bits(r->dtype);
    const int64_t step = s->rank == 2 && s->d[0] == 64 ? 8 : bits < 32 ? 32 / bits : 1;
    if (s->rank != 2)
        pl_d_tmem_access_rank(fn->diags, at_values(op->loc, s->rank, 2), pl_op_infos[op->code].name,
                              s->rank);
    else if (s->d[1] % step != 0)
        pl_d_tmem_access_columns(fn->diags, at_values(op->loc, s->d[1], step),
                                 pl_op_infos[op->code].name, (long long)s->d[1], (int)step);
}

/* ---- matrix operations ---- */

static bool is_fp8(pl_dtype t) { return t == PL_E4M3 || t == PL_E5M2; }

static bool takes_dtypes(pl_dtype x, pl_dtype y, pl_dtype d, bool is_tcgen05)
{
    if (x == PL_F16 && y == PL_F16)
        return d == PL_F32 || d == PL_F16;
    if (is_fp8(x) && is_fp8(y))
        return d == PL_F32 || d == PL_F16;
    const bool is_int = x == PL_I8 && y == PL_I8;
    const bool is_any_int = (x == PL_I8 || x == PL_U8) && (y == PL_I8 || y == PL_U8);
    if (is_int || (is_any_int && is_tcgen05))
        return d == PL_I32;
    bool is_tf32 = (x == PL_TF32 || x == PL_F32) && (y == PL_TF32 || y == PL_F32);
    return ((x == PL_BF16 && y == PL_BF16) || is_tf32) && d == PL_F32;
}

struct mma {
    const char *name;
    pl_dtype x, y, d;
    int64_t m, n, k;
    bool is_pair, is_tcgen05, is_mma;
    pl_loc loc;
};

static void check_dtypes(struct pl_fn *fn, const struct mma *o)
{
    if (!takes_dtypes(o->x, o->y, o->d, o->is_tcgen05))
        pl_d_mma_operand_dtypes(fn->diags, at(o->loc), o->name, pl_dtype_name(o->x),
                                pl_dtype_name(o->y), pl_dtype_name(o->d));
}

/* Whole numbers come in coarser steps. */
static int64_t n_step_of(const struct mma *o)
{
    if (o->is_tcgen05 && (o->x == PL_I8 || o->x == PL_U8))
        return o->is_pair ? 32 : o->n <= 32 ? 8 : 16;
    return o->is_pair ? 16 : 8;
}

static void check_shape(struct pl_fn *fn, const struct mma *o)
{
    bool m_ok = o->is_tcgen05 ? o->m == 64 || o->m == 128 : o->m % 64 == 0;
    int64_t k_step = 256 / pl_dtype_bits(o->x), n_step = n_step_of(o),
            n_most = o->is_mma ? INT64_MAX : 256;
    if (!m_ok)
        pl_d_mma_m(fn->diags, at_values(o->loc, o->m, 64), o->name, (long long)o->m);
    if (o->n % n_step != 0 || o->n > n_most)
        pl_d_mma_n(fn->diags, at_values(o->loc, o->n, n_step), o->name, (long long)o->n);
    if (k_step == 0 || o->k % k_step != 0)
        pl_d_mma_k(fn->diags, at_values(o->loc, o->k, k_step), o->name, (long long)o->k);
}

/* Operands that the tensor core reads from SMEM come in swizzled tiles. */
static void check_smem_operand(struct pl_fn *fn, const struct mma *o, uint32_t ref)
{
    const struct pl_array *a = pl_ir_array_of(fn, ref);
    bool is_fit = a->tr.swizzle_bytes == PL_SWIZZLE_CHOOSE ||
                  (a->tr.swizzle_bytes != 0 && a->tr.tile_rows == 8);
    if (a->space == PL_SPACE_SMEM && !is_fit)
        pl_d_mma_unswizzled(fn->diags, at(o->loc), o->name);
}

static int64_t extent(const struct pl_fn *fn, uint32_t ref, int axis)
{
    return pl_ir_ref(fn, ref)->shape.d[axis];
}

static void check_tcgen05(struct pl_fn *fn, const struct pl_op *op)
{
    struct mma o = {.name = "tcgen05_mma",
                    .is_pair = op->is_flag,
                    .is_tcgen05 = true,
                    .loc = op->loc,
                    .m = extent(fn, op->refs[0], 0),
                    .n = extent(fn, op->refs[0], 1),
                    .k = extent(fn, op->refs[1], 1),
                    .d = pl_ir_ref(fn, op->refs[0])->dtype,
                    .x = pl_ir_ref(fn, op->refs[1])->dtype,
                    .y = pl_ir_ref(fn, op->refs[2])->dtype};
    if (pl_ir_ref(fn, op->refs[2])->space == PL_SPACE_TMEM)
        pl_d_mma_b_in_tmem(fn->diags, at(op->loc));
    if ((op->refs[3] == 0) != (op->refs[4] == 0))
        pl_d_mma_scales(fn->diags, at(op->loc));
    if (op->refs[3] ==
        0) /* block-scaled formats have tables of their own, checked when they are served */
        check_dtypes(fn, &o);
    check_shape(fn, &o);
    check_smem_operand(fn, &o, op->refs[1]);
    check_smem_operand(fn, &o, op->refs[2]);
}

static void check_wgmma(struct pl_fn *fn, const struct pl_op *op)
{
    bool is_val = op->code == PL_OP_WGMMA_VAL;
    uint32_t y = op->refs[is_val ? 1 : 2];
    struct mma o = {.name = pl_op_infos[op->code].name,
                    .loc = op->loc,
                    .d = pl_ir_ref(fn, op->refs[0])->dtype,
                    .x = is_val ? pl_ir_op(fn, op->args[0])->dtype
                                : pl_ir_ref(fn, op->refs[1])->dtype,
                    .y = pl_ir_ref(fn, y)->dtype,
                    .m = extent(fn, op->refs[0], 0),
                    .n = extent(fn, op->refs[0], 1),
                    .k = extent(fn, y, 0)};
    check_dtypes(fn, &o);
    check_shape(fn, &o);
    if (!is_val)
        check_smem_operand(fn, &o, op->refs[1]);
    check_smem_operand(fn, &o, y);
}

static void check_mma(struct pl_fn *fn, const struct pl_op *op)
{
    const struct pl_op *x = pl_ir_op(fn, op->args[0]);
    const struct mma o = {.name = "mma",
                          .is_mma = true,
                          .loc = op->loc,
                          .x = x->dtype,
                          .y = pl_ir_op(fn, op->args[1])->dtype,
                          .d = op->dtype,
                          .m = x->shape.d[0],
                          .n = op->shape.d[1],
                          .k = x->shape.d[1]};
    check_dtypes(fn, &o);
    check_shape(fn, &o);
}

/* ---- layouts that a program asks for ---- */

static void check_layout(struct pl_fn *fn, const char *what, const struct pl_layout_value *v,
                         pl_dtype t, pl_loc loc)
{
    const pl_layout_kind k = v->layout.kind;
    const bool is_reduced = v->layout.reduced_axes != 0;
    if (((k == PL_LAYOUT_AUTO || k == PL_LAYOUT_STRIDED) && !is_reduced) || pl_layout_fits(v))
        return;
    pl_d_layout_fit(fn->diags, at(loc), what, is_reduced ? "reduced " : "", pl_ir_layout_word(k),
                    pl_ir_shape_text(fn->arena, &v->shape), pl_dtype_name(t));
}

static void check_value_layout(struct pl_fn *fn, const struct pl_op *op)
{
    const struct pl_layout_value v = {
        .layout = op->layout, .shape = op->shape, .bits = pl_dtype_bits(op->dtype)};
    check_layout(fn, pl_op_infos[op->code].name, &v, op->dtype, op->loc);
}

static void check_variable_layout(struct pl_fn *fn, const struct pl_op *op)
{
    const struct pl_array *a = pl_ir_array_of(fn, op->refs[0]);
    const struct pl_layout_value v = {
        .layout = a->layout, .shape = a->shape, .bits = pl_dtype_bits(a->dtype)};
    check_layout(fn, "pl_regs", &v, a->dtype, op->loc);
}

static void check_op(struct pl_fn *fn, uint32_t id, void *user)
{
    const struct pl_op *op = pl_ir_op(fn, id);
    enum pl_space space = op->refs[0] == 0 ? PL_SPACE_NONE : pl_ir_ref(fn, op->refs[0])->space;
    if (op->code == PL_OP_ARRAY && space == PL_SPACE_TMEM)
        check_alloc(fn, pl_ir_array_of(fn, op->refs[0]), user);
    else if (op->code == PL_OP_VIEW && space == PL_SPACE_TMEM)
        check_view(fn, op);
    else if (op->code == PL_OP_LOAD_TMEM || op->code == PL_OP_STORE_TMEM)
        check_access(fn, op);
    else if (op->code == PL_OP_TCGEN05_MMA)
        check_tcgen05(fn, op);
    else if (op->code == PL_OP_WGMMA || op->code == PL_OP_WGMMA_VAL)
        check_wgmma(fn, op);
    else if (op->code == PL_OP_MMA)
        check_mma(fn, op);
    else if (op->code == PL_OP_LOAD || op->code == PL_OP_LAYOUT_CAST)
        check_value_layout(fn, op);
    else if (op->code == PL_OP_ARRAY && space == PL_SPACE_REGS)
        check_variable_layout(fn, op);
}

void pl_check_tensor(struct pl_fn *fn)
{
    struct tmem t = {0};
    pl_check_walk(fn, check_op, &t);
    const int32_t most = fn->request.target->n_tmem_columns;
    const int64_t n = pl_tmem_total_columns(fn);
    if (most != 0 && n > most)
        pl_d_tmem_columns(fn->diags, at_values(t.last, n, most), (int)n, most);
    if (t.has_pair && t.has_single)
        pl_d_tmem_pair(fn->diags, at(t.last));
}
