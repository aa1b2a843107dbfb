/* Copies and the arrangement of SMEM that they need. A lowering that the plan may choose freely has no rule here; a forced one has. */
#include "src/check/check.h"

#include "src/check/where.h"
#include "src/ir/fact.h"

#define PL_DIAG_ROWS "src/check/copy.def"
#define PL_DIAG_MODE_DECLARE
#include "base/diag_rows.h"
#define PL_DIAG_ROWS "src/check/copy.def"
#define PL_DIAG_MODE_DEFINE
#include "base/diag_rows.h"

static int64_t row_bytes(int64_t n_elems, pl_dtype t) { return n_elems * pl_dtype_bits(t) / 8; }

/* ---- allocations ---- */

static void check_smem(struct pl_fn *fn, const struct pl_array *a)
{
    int32_t rank = a->shape.rank, swizzle = a->tr.swizzle_bytes;
    int64_t rows = rank > 1 ? a->shape.d[rank - 2] : 1, cols = rank > 0 ? a->shape.d[rank - 1] : 1;
    if (swizzle == PL_SWIZZLE_CHOOSE)
        return;
    if (swizzle != 0 && swizzle != 32 && swizzle != 64 && swizzle != 128) {
        pl_d_swizzle_bytes(fn->diags, at(a->loc), swizzle);
        return;
    }
    if (a->tr.tile_rows != 0 && (a->tr.tile_rows < 0 || rows % a->tr.tile_rows != 0))
        pl_d_tile_extent(fn->diags, at_values(a->loc, rows, a->tr.tile_rows), "rows",
                         a->tr.tile_rows, (long long)rows);
    if (a->tr.tile_cols != 0 && (a->tr.tile_cols < 0 || cols % a->tr.tile_cols != 0))
        pl_d_tile_extent(fn->diags, at_values(a->loc, cols, a->tr.tile_cols), "columns",
                         a->tr.tile_cols, (long long)cols);
    int64_t width = row_bytes(a->tr.tile_cols > 0 ? a->tr.tile_cols : cols, a->dtype);
    if (swizzle != 0 && width != swizzle)
        pl_d_swizzle_inner(fn->diags, at_values(a->loc, width, swizzle), swizzle, (long long)width);
}

/* ---- copies ---- */

/* What both ways of a reducing copy do, by tensor boxes and by bulk rows (PTX ISA, cp.reduce.async.bulk: .op and .type), but for f64. */
static bool reduces(pl_op2 op, pl_dtype t)
{
    const pl_dtype_set ints = PL_DT(I32) | PL_DT(U32) | PL_DT(I64) | PL_DT(U64),
                       halves = PL_DT(F16) | PL_DT(BF16);
    const pl_dtype_set takers = op == PL_ADD                   ? ints | halves | PL_DT(F32)
                                : op == PL_MIN || op == PL_MAX ? ints | halves
                                : op == PL_AND || op == PL_OR || op == PL_XOR ? ints
                                                                              : 0;
    return (takers >> t & 1) != 0;
}

/* What TMA alone asks for, when the caller insists on it. */
static void check_tma(struct pl_fn *fn, const struct pl_op *op, const struct pl_ref_info *gmem)
{
    const struct pl_array *array = &fn->arrays.data[gmem->array];
    int n_axes = 0;
    for (int i = 0; i < gmem->shape.rank; i++) {
        n_axes += gmem->shape.d[i] > 1;
        if (gmem->shape.d[i] > 256)
            pl_d_tma_box(fn->diags, at_values(op->loc, gmem->shape.d[i], 256), i,
                         (long long)gmem->shape.d[i]);
    }
    if (n_axes > 5)
        pl_d_tma_rank(fn->diags, at_values(op->loc, n_axes, 5), n_axes);
    int64_t bytes =
        gmem->shape.rank == 0 ? 0 : row_bytes(gmem->shape.d[gmem->shape.rank - 1], gmem->dtype);
    if (bytes % 16 != 0 || bytes == 0)
        pl_d_tma_row_bytes(fn->diags, at_values(op->loc, bytes, 16), (long long)bytes);
    const pl_fact need[2] = {PL_FACT_ALIGN16, PL_FACT_UNIT_STRIDE};
    for (int i = 0; i < 2 && array->param >= 0; i++)
        if ((fn->request.args[array->param].facts & need[i]) == 0)
            pl_d_tma_fact(fn->diags, at(op->loc), fn->request.kernel->params[array->param].name,
                          pl_fact_text(need[i]));
}

static bool is_clipped(const struct pl_ref_info *r)
{
    for (int i = 0; i < PL_MAX_RANK; i++)
        if (r->has_clip[i])
            return true;
    return false;
}

static void check_copy(struct pl_fn *fn, const struct pl_op *op)
{
    bool is_in = op->code == PL_OP_COPY_IN,
         has_tma = (fn->request.target->features & PL_F_TMA) != 0;
    const struct pl_ref_info *gmem = pl_ir_ref(fn, op->refs[is_in ? 0 : 1]);
    const struct pl_ref_info *smem = pl_ir_ref(fn, op->refs[is_in ? 1 : 0]);
    int32_t n = pl_fn_n_ctas(fn);
    if (smem->space == PL_SPACE_SMEM && is_clipped(smem))
        pl_d_smem_clipped(fn->diags, at(op->loc), pl_op_infos[op->code].name);
    if (op->mask != 0 && (n == 1 || (op->mask >> n) != 0))
        pl_d_multicast_mask(fn->diags, at(op->loc), op->mask, n);
    if (op->axis != 0 && n != 2)
        pl_d_pair_cluster(fn->diags, at_values(op->loc, n, 2), n);
    if (is_in && op->sub != PL_OP2_NONE)
        pl_d_reduce_on_load(fn->diags, at(op->loc));
    if (!is_in && op->sub != PL_OP2_NONE && !reduces((pl_op2)op->sub, gmem->dtype))
        pl_d_copy_reduce_dtype(fn->diags, at(op->loc), pl_op2_name((pl_op2)op->sub),
                               pl_dtype_name(gmem->dtype));
    if ((op->how == PL_HOW_TMA || op->how == PL_HOW_BULK) && !has_tma)
        pl_d_copy_chip(fn->diags, at(op->loc), op->how == PL_HOW_TMA ? "TMA" : "bulk copy",
                       fn->request.target->arch);
    else if (op->how == PL_HOW_TMA && gmem->space == PL_SPACE_GMEM)
        check_tma(fn, op, gmem);
}

static void check_async_store(struct pl_fn *fn, const struct pl_op *op)
{
    const struct pl_ref_info *r = pl_ir_ref(fn, op->refs[0]);
    int64_t bits = r->shape.rank == 0 ? 0 : r->shape.d[r->shape.rank - 1] * pl_dtype_bits(r->dtype);
    if (r->space != PL_SPACE_SMEM || r->shape.rank == 0)
        return;
    if (is_clipped(r))
        pl_d_smem_clipped(fn->diags, at(op->loc), pl_op_infos[op->code].name);
    if (r->peer == 0)
        pl_d_async_store_local(fn->diags, at(op->loc));
    if (bits % 32 != 0)
        pl_d_async_store_bytes(fn->diags, at_values(op->loc, bits / 8, 4), (long long)(bits / 8));
    bool is_served =
        reduces((pl_op2)op->sub, r->dtype) && (r->dtype == PL_I32 || r->dtype == PL_U32);
    if (op->sub != PL_OP2_NONE && !is_served)
        pl_d_async_reduce_dtype(fn->diags, at(op->loc), pl_op2_name((pl_op2)op->sub),
                                pl_dtype_name(r->dtype));
}

static void check_op(struct pl_fn *fn, uint32_t id, void *user)
{
    (void)user;
    const struct pl_op *op = pl_ir_op(fn, id);
    if (op->code == PL_OP_ARRAY && pl_ir_ref(fn, op->refs[0])->space == PL_SPACE_SMEM)
        check_smem(fn, pl_ir_array_of(fn, op->refs[0]));
    else if (op->code == PL_OP_COPY_IN || op->code == PL_OP_COPY_OUT)
        check_copy(fn, op);
    else if (op->code == PL_OP_ASYNC_STORE_SMEM)
        check_async_store(fn, op);
    else if (op->code == PL_OP_GATHER_ROWS) {
        pl_dtype t = pl_ir_op(fn, op->args[0])->dtype;
        if (t != PL_I32 && t != PL_U32)
            pl_d_gather_index(fn->diags, at(op->loc), pl_dtype_name(t));
    }
}

/* ---- what lies beyond the edge (BUILDER.md 7.4) ---- */

/* What the elements beyond a tensor's edge hold in a value. */
enum beyond { NOTHING, ZERO, OTHER };

struct tails {
    enum beyond *of_val;   /* by op */
    enum beyond *of_array; /* REGS and SMEM, by array */
    int *line_of_val, *line_of_array;
};

static enum beyond worse(enum beyond x, enum beyond y) { return x > y ? x : y; }

/* May the view hang over the edge of its tensor? Only axes that were windowed with an offset or extent the tensor need not have. */
static bool may_hang(const struct pl_fn *fn, const struct pl_ref_info *r)
{
    const struct pl_ref_info *base = pl_ir_ref(fn, r->base);
    for (int i = 0; r->space == PL_SPACE_GMEM && i < r->shape.rank; i++) {
        int32_t axis = r->axis_of[i];
        const struct pl_affine *o = &r->offset[axis];
        bool is_known = base->shape.d[axis] >= 0 && o->n_terms == 0;
        bool is_unit = r->shape.d[i] == 1; /* one row, chosen by an index: the program says which */
        if (r->has_clip[axis] || (!is_unit && !(is_known && o->konst >= 0 &&
                                                o->konst + r->shape.d[i] <= base->shape.d[axis])))
            return true;
    }
    return false;
}

static enum beyond through_unary(pl_op1 op, enum beyond x)
{
    bool keeps_zero = op == PL_NEG || op == PL_ABS || op == PL_SQRT || op == PL_SIN ||
                      op == PL_TANH || op == PL_FLOOR || op == PL_CEIL || op == PL_ROUND ||
                      op == PL_TRUNC || op == PL_POPC || op == PL_BREV;
    return x == ZERO && !keeps_zero ? OTHER : x;
}

static enum beyond through_binary(const struct tails *t, const struct pl_op *op)
{
    enum beyond x = t->of_val[op->args[0]], y = t->of_val[op->args[1]];
    if (x == NOTHING && y == NOTHING)
        return NOTHING;
    if ((op->sub == PL_MUL || op->sub == PL_AND) && (x == ZERO || y == ZERO))
        return ZERO;
    if (op->sub == PL_DIV && x == ZERO)
        return ZERO;
    bool both_zero = x == ZERO && y == ZERO;
    return both_zero && (op->sub == PL_ADD || op->sub == PL_SUB || op->sub == PL_MIN ||
                         op->sub == PL_MAX)
               ? ZERO
               : OTHER;
}

static enum beyond through(const struct tails *t, const struct pl_op *op)
{
    enum beyond x = NOTHING;
    for (uint32_t i = 0; i < op->n_args; i++)
        x = worse(x, t->of_val[op->args[i]]);
    if (op->code == PL_OP_UNARY)
        return through_unary((pl_op1)op->sub, x);
    if (op->code == PL_OP_BINARY)
        return through_binary(t, op);
    if (op->code == PL_OP_FMA) {
        bool product = t->of_val[op->args[0]] == ZERO || t->of_val[op->args[1]] == ZERO;
        enum beyond sum = t->of_val[op->args[2]];
        return product && sum == NOTHING ? ZERO : product ? sum : x == NOTHING ? NOTHING : OTHER;
    }
    return op->code == PL_OP_SELECT ? NOTHING : x; /* the program chose */
}

static bool is_neutral(pl_op2 op, enum beyond x)
{
    return x == NOTHING || (x == ZERO && (op == PL_ADD || op == PL_OR || op == PL_XOR));
}

static void track_op(struct pl_fn *fn, uint32_t id, void *user)
{
    struct tails *t = user;
    const struct pl_op *op = pl_ir_op(fn, id);
    uint32_t array = op->refs[0] == 0 ? 0 : pl_ir_ref(fn, op->refs[0])->array;
    for (uint32_t i = 0; i < op->n_args; i++)
        if (t->of_val[op->args[i]] != NOTHING)
            t->line_of_val[id] = t->line_of_val[op->args[i]];
    if (op->code == PL_OP_LOAD) {
        const struct pl_ref_info *r = pl_ir_ref(fn, op->refs[0]);
        bool is_edge = may_hang(fn, r) || is_clipped(r), is_gmem = r->space == PL_SPACE_GMEM;
        t->of_val[id] = !is_edge                 ? (is_gmem ? NOTHING : t->of_array[array])
                        : op->oob == PL_OOB_AUTO ? ZERO
                                                 : NOTHING;
        t->line_of_val[id] = is_edge || is_gmem ? op->loc.line : t->line_of_array[array];
    } else if (op->code == PL_OP_COPY_IN) {
        uint32_t to = pl_ir_ref(fn, op->refs[1])->array;
        if (op->oob == PL_OOB_AUTO && may_hang(fn, pl_ir_ref(fn, op->refs[0]))) {
            t->of_array[to] = worse(t->of_array[to], ZERO);
            t->line_of_array[to] = op->loc.line;
        }
    } else if (op->code == PL_OP_STORE && pl_ir_ref(fn, op->refs[0])->space != PL_SPACE_GMEM) {
        if (t->of_val[op->args[0]] != NOTHING)
            t->line_of_array[array] = t->line_of_val[op->args[0]];
        t->of_array[array] = worse(t->of_array[array], t->of_val[op->args[0]]);
    } else if (op->code == PL_OP_REDUCE) {
        enum beyond x = t->of_val[op->args[0]];
        if (!is_neutral((pl_op2)op->sub, x))
            pl_d_fill_not_neutral(fn->diags, at(op->loc), pl_op2_name((pl_op2)op->sub),
                                  t->line_of_val[op->args[0]]);
    } else {
        t->of_val[id] = through(t, op);
    }
}

static void check_tails(struct pl_fn *fn)
{
    struct tails t = {
        .of_val = pl_arena_array(fn->arena, fn->ops.n, sizeof(enum beyond)),
        .of_array = pl_arena_array(fn->arena, fn->arrays.n, sizeof(enum beyond)),
        .line_of_val = pl_arena_array(fn->arena, fn->ops.n, sizeof(int)),
        .line_of_array = pl_arena_array(fn->arena, fn->arrays.n, sizeof(int)),
    };
    if (!pl_arena_is_exhausted(fn->arena))
        pl_check_walk(fn, track_op, &t);
}

void pl_check_copies(struct pl_fn *fn)
{
    pl_check_walk(fn, check_op, NULL);
    check_tails(fn);
}
