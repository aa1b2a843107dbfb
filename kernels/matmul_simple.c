/*
 * matmul for what no tensor core serves: multiplications and additions one by one, f32 (i32 for i8), in the order of K. Any chip,
 * type and stride. A block is one warpgroup and a tile of few rows; each thread keeps one or more columns of all of them, so an
 * element of b is loaded once for the rows, and one of a, the same for all threads, once for the columns.
 */
#include "kernels/matmul.h"

bool pl_mm_simple_serves(const pl_request *request, const struct pl_mm_config *p)
{
    (void)request, (void)p;
    return true;
}

/* Row m of a at k. The row is in a by construction, k by the loop. */
static pl_val load_a(pl_builder *b, const struct pl_mm_config *p, pl_ref a, pl_val m, pl_val k)
{
    const pl_load_opt inside = {.oob = PL_OOB_PROMISE};
    pl_ref row = pl_at(b, a, p->a_is_across ? k : m);
    return pl_load_ex(b, pl_at(b, row, p->a_is_across ? m : k), &inside);
}

static pl_ref row_of_b(pl_builder *b, const struct pl_mm_config *p, pl_ref w, pl_val k, pl_val n)
{
    if (p->b_is_across)
        return pl_window(b, w, PL_OFF(b, k, n), PL_SHAPE(1, p->tile_n));
    return pl_transpose(b, pl_window(b, w, PL_OFF(b, n, k), PL_SHAPE(p->tile_n, 1)));
}

void pl_mm_simple_body(pl_builder *b, const struct pl_mm_config *p)
{
    enum { MAX_ROWS = 16 };
    const struct pl_mm_problem q = pl_mm_problem_of(b, p);
    const struct pl_mm_place at =
        pl_mm_place_of(b, p, &q, pl_as_index(b, pl_param(b, PL_MM_Y), pl_program_id(b, 0)));
    pl_ref a = pl_mm_plane(b, PL_MM_A, &at), w = pl_mm_plane(b, PL_MM_B, &at),
           y = pl_mm_plane(b, PL_MM_Y, &at);
    const pl_dtype sum = pl_mm_acc_dtype(pl_dtype_of(b, a));
    const pl_shape row = PL_SHAPE(1, p->tile_n);
    pl_val first = pl_mul(b, at.row, p->tile_m), n = pl_mul(b, at.col, p->tile_n);
    pl_val last = pl_sub(b, q.m, 1), m[MAX_ROWS];
    pl_ref acc[MAX_ROWS];
    for (int32_t r = 0; r < p->tile_m; r++) {
        m[r] = pl_min(b, pl_add(b, first, r), last);
        acc[r] = pl_regs(b, sum, row, pl_layout_auto(), pl_cast(b, 0, sum));
    }
    PL_FOR(b, k, 0, q.k)
    {
        pl_val v = pl_cast(b, pl_load(b, row_of_b(b, p, w, k, n)), sum);
        for (int32_t r = 0; r < p->tile_m; r++) {
            pl_val x = pl_cast(b, load_a(b, p, a, m[r], k), sum);
            pl_store(b, acc[r], pl_fma(b, v, x, pl_load(b, acc[r])));
        }
    }
    for (int32_t r = 0; r < p->tile_m; r++) {
        const pl_offs mn = PL_OFF(b, pl_add(b, first, r), n);
        pl_val v = pl_mm_epilogue(b, p, &at, pl_load(b, acc[r]), mn, row);
        pl_store(b, pl_window(b, y, mn, row), v);
    }
}
