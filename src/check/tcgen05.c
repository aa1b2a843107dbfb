/* What the operands of tcgen05 operations must be to each other. */
#include "src/check/check.h"

#include "src/check/where.h"
#include "src/ir/tmem.h"

#include <stdio.h>

#define PL_DIAG_ROWS "src/check/tcgen05.def"
#define PL_DIAG_MODE_DECLARE
#include "base/diag_rows.h"
#define PL_DIAG_ROWS "src/check/tcgen05.def"
#define PL_DIAG_MODE_DEFINE
#include "base/diag_rows.h"

static const struct pl_ref_info *ref_of(const struct pl_fn *fn, const struct pl_op *op, int i)
{
    return pl_ir_ref(fn, op->refs[i]);
}

static int64_t round_up(int64_t v, int64_t to) { return (v + to - 1) / to * to; }

/* ---- pairs ---- */

static void check_pair(struct pl_fn *fn, const struct pl_op *op)
{
    static const char *const names[] = {"result", "x", "y", "a_scale", "b_scale"};
    for (int i = 0; i < 5; i++) {
        if (op->refs[i] == 0 || ref_of(fn, op, i)->space != PL_SPACE_TMEM)
            continue;
        if (pl_ir_array_of(fn, op->refs[i])->is_pair != op->is_flag)
            pl_d_mma_pair(fn->diags, at(op->loc), op->is_flag, names[i]);
    }
}

static void check_a_in_tmem(struct pl_fn *fn, const struct pl_op *op)
{
    const int64_t n = ref_of(fn, op, 0)->shape.d[1], step = op->is_flag ? 32 : 16;
    if (ref_of(fn, op, 1)->space == PL_SPACE_TMEM && n % step != 0)
        pl_d_mma_n_of_tmem_a(fn->diags, at(op->loc), (long long)n, (int)step);
}

/* ---- scales ---- */

static bool is_fp8(pl_dtype t) { return t == PL_E4M3 || t == PL_E5M2; }

/* Which scales, for how many elements each, go with operands of a type. */
static const struct {
    bool is_4_bit;
    pl_dtype scale;
    int32_t block;
} scalings[] = {
    {false, PL_E8M0, 32}, {true, PL_E8M0, 32}, {true, PL_E8M0, 16}, {true, PL_E4M3, 16}};

static void check_scale_types(struct pl_fn *fn, const struct pl_op *op)
{
    const pl_dtype x = ref_of(fn, op, 1)->dtype, y = ref_of(fn, op, 2)->dtype,
                   xs = ref_of(fn, op, 3)->dtype, ys = ref_of(fn, op, 4)->dtype;
    const bool is_4_bit = x == PL_E2M1 && y == PL_E2M1 && ref_of(fn, op, 1)->space == PL_SPACE_SMEM;
    bool is_ok = false;
    for (size_t i = 0; i < sizeof scalings / sizeof scalings[0]; i++)
        is_ok |= scalings[i].is_4_bit == is_4_bit && scalings[i].scale == xs && xs == ys &&
                 scalings[i].block == op->n;
    is_ok = is_ok && (is_4_bit || (is_fp8(x) && is_fp8(y)));
    if (!is_ok || ref_of(fn, op, 0)->dtype != PL_F32)
        pl_d_scale_types(fn->diags, at(op->loc), pl_dtype_name(x), pl_dtype_name(y),
                         pl_dtype_name(xs), pl_dtype_name(ys), op->n);
}

/* n: rows of x or columns of y that are scaled. */
static void check_scale_shape(struct pl_fn *fn, const struct pl_op *op, int i, int64_t n)
{
    const pl_shape *s = &ref_of(fn, op, i)->shape;
    const int64_t block = op->n > 0 ? op->n : 32, k = ref_of(fn, op, 1)->shape.d[1],
                  rows = round_up(n, 128), cols = round_up((k + block - 1) / block, 4);
    if (s->rank != 2 || s->d[0] != rows || s->d[1] != cols)
        pl_d_scale_shape(fn->diags, at(op->loc), i == 3 ? "a_scale" : "b_scale", (long long)s->d[0],
                         (long long)(s->rank > 1 ? s->d[1] : 0), (long long)rows, (long long)cols);
}

static void check_scales(struct pl_fn *fn, const struct pl_op *op)
{
    const pl_shape *d = &ref_of(fn, op, 0)->shape;
    if (op->refs[3] == 0 || op->refs[4] == 0)
        return; /* none, or PL4015 */
    check_scale_types(fn, op);
    if (d->d[0] != 128)
        pl_d_scaled_rows(fn->diags, at(op->loc), (long long)d->d[0]);
    check_scale_shape(fn, op, 3, d->d[0]);
    check_scale_shape(fn, op, 4, d->d[1]);
}

/* ---- copies ---- */

static const char *text_of(const struct pl_ref_info *r, char *text, size_t n_bytes)
{
    int n = snprintf(text, n_bytes, "%s (", pl_dtype_name(r->dtype));
    for (int i = 0; i < r->shape.rank; i++)
        n += snprintf(text + n, n_bytes - (size_t)n, i == 0 ? "%lld" : ", %lld",
                      (long long)r->shape.d[i]);
    snprintf(text + n, n_bytes - (size_t)n, ")");
    return text;
}

static void check_copy(struct pl_fn *fn, const struct pl_op *op)
{
    const struct pl_ref_info *s = ref_of(fn, op, 0), *d = ref_of(fn, op, 1);
    const int32_t bits = pl_dtype_bits(s->dtype);
    char from[200], to[200];
    const bool is_ok = s->dtype == d->dtype && pl_shape_equal(&s->shape, &d->shape) &&
                       d->shape.rank == 2 && d->shape.d[0] == 128 &&
                       d->shape.d[1] * bits % 256 == 0 && bits >= 8 &&
                       (bits == 32 || pl_tmem_form_of(fn, d->array) == PL_TMEM_PACKED);
    if (!is_ok)
        pl_d_tmem_copy(fn->diags, at(op->loc), text_of(s, from, sizeof from),
                       text_of(d, to, sizeof to));
}

static void check_scale_copy(struct pl_fn *fn, const struct pl_op *op)
{
    const struct pl_ref_info *s = ref_of(fn, op, 0), *d = ref_of(fn, op, 1);
    const pl_shape *f = &s->shape, *t = &d->shape;
    char from[200], to[200];
    const bool is_ok = s->dtype == d->dtype && pl_dtype_bits(s->dtype) == 8 && t->rank == 2 &&
                       t->d[0] % 128 == 0 && t->d[1] % 4 == 0 && f->rank == 4 &&
                       f->d[0] == t->d[0] / 128 && f->d[1] == t->d[1] / 4 && f->d[2] == 32 &&
                       f->d[3] == 16 && pl_ir_array_of(fn, op->refs[0])->tr.swizzle_bytes <= 0;
    if (!is_ok)
        pl_d_scale_copy(fn->diags, at(op->loc), text_of(s, from, sizeof from),
                        text_of(d, to, sizeof to));
}

static void check_op(struct pl_fn *fn, uint32_t id, void *user)
{
    (void)user;
    const struct pl_op *op = pl_ir_op(fn, id);
    if (op->code == PL_OP_TCGEN05_MMA) {
        check_pair(fn, op);
        check_a_in_tmem(fn, op);
        check_scales(fn, op);
    } else if (op->code == PL_OP_COPY_TMEM || op->code == PL_OP_COPY_SCALES) {
        if (ref_of(fn, op, 0)->space != PL_SPACE_SMEM || ref_of(fn, op, 1)->space != PL_SPACE_TMEM)
            return; /* PL2001 */
        if (op->code == PL_OP_COPY_TMEM)
            check_copy(fn, op);
        else
            check_scale_copy(fn, op);
    }
}

void pl_check_tcgen05(struct pl_fn *fn) { pl_check_walk(fn, check_op, NULL); }
