#include "src/ir/layout.h"

#include "base/debug.h"

/* ---- fragments ---- */

#define TILE(rows, cols) rows, cols
#define RUN(axis, n)     axis, n
#define DOWN(n, step)    n, step
#define ACROSS(n, step)  n, step
#define WARP(rows)       rows
#define ROW(s, n_bits, m)                                                                          \
    {                                                                                              \
        s, n_bits, m                                                                               \
    }
#define COL(s, n_bits, m)                                                                          \
    {                                                                                              \
        s, n_bits, m                                                                               \
    }
#define NONE                                                                                       \
    {                                                                                              \
        0, 0, 0                                                                                    \
    }
#define FRAGMENT(id, tile, run, down, across, warp, row, col, col2)                                \
    [PL_FRAG_##id] = {#id, tile, run, down, across, warp, row, {col, col2}},
const struct pl_fragment pl_fragments[PL_FRAG_COUNT] = {
#include "src/ir/fragment.def"
};
#undef FRAGMENT
#undef TILE
#undef RUN
#undef DOWN
#undef ACROSS
#undef WARP
#undef ROW
#undef COL
#undef NONE

/* By element width: 8, 16, 32. */
static const uint8_t frags[PL_LAYOUT_COUNT][3] = {
#define SAME(id)                                                                                   \
    {                                                                                              \
        PL_FRAG_##id, PL_FRAG_##id, PL_FRAG_##id                                                   \
    }
    [PL_LAYOUT_WGMMA] = SAME(WGMMA),
    [PL_LAYOUT_WGMMA_8BIT] = SAME(WGMMA_8BIT),
    [PL_LAYOUT_WGMMA_UPCAST_2X] = SAME(WGMMA_UPCAST_2X),
    [PL_LAYOUT_WGMMA_UPCAST_4X] = SAME(WGMMA_UPCAST_4X),
    [PL_LAYOUT_TCGEN05] = SAME(TCGEN05),
    [PL_LAYOUT_TMEM_NATIVE] = SAME(ROWS),
    [PL_LAYOUT_MMA_A] = {PL_FRAG_WGMMA_8BIT, PL_FRAG_WGMMA, PL_FRAG_MMA_A32},
    [PL_LAYOUT_MMA_B] = {PL_FRAG_MMA_B8, PL_FRAG_MMA_B16, PL_FRAG_MMA_B32},
    [PL_LAYOUT_MMA_ACC] = SAME(WGMMA),
#undef SAME
};

enum pl_frag pl_frag_of(pl_layout_kind kind, int32_t bits)
{
    const bool is_width = bits == 8 || bits == 16 || bits == 32;
    if ((unsigned)kind >= PL_LAYOUT_COUNT)
        return PL_FRAG_STRIDED;
    if (!is_width) /* 1 bit, 64 bits: only what does not pack elements */
        return kind == PL_LAYOUT_MMA_A || kind == PL_LAYOUT_MMA_B ? PL_FRAG_STRIDED
                                                                  : (enum pl_frag)frags[kind][2];
    return (enum pl_frag)frags[kind][bits / 16];
}

static int32_t lane_part(const struct pl_lane_part *p, int32_t lane)
{
    return p->scale * (lane >> p->shift & ((1 << p->bits) - 1));
}

/* Row and column, inside the tile, of the i-th element of a thread: warp w of the warpgroup, lane l. */
static void place(const struct pl_fragment *f, int32_t w, int32_t l, int32_t i, int32_t *row,
                  int32_t *col)
{
    const int32_t c = i / f->n_run, in_run = i % f->n_run;
    *row = f->warp_rows * w + lane_part(&f->row, l) + c % f->n_down * f->down_rows;
    *col = lane_part(&f->col[0], l) + lane_part(&f->col[1], l) + c / f->n_down * f->across_cols;
    *(f->run_axis == 0 ? row : col) += in_run;
}

static const struct pl_fragment *fragment_of(const struct pl_layout_value *v)
{
    return &pl_fragments[pl_frag_of(v->layout.kind, v->bits)];
}

static int32_t n_tile_elems(const struct pl_fragment *f) { return pl_frag_n_runs(f) * f->n_run; }

/* Extents of the array the tiles lie over: a reduced axis counts as one tile. */
static void base_extents(const struct pl_layout_value *v, const struct pl_fragment *t,
                         int64_t *rows, int64_t *cols)
{
    bool no_rows = (v->layout.reduced_axes & 1) != 0, no_cols = (v->layout.reduced_axes & 2) != 0;
    *rows = no_rows ? t->rows : v->shape.d[0];
    *cols = no_cols ? t->cols : v->shape.d[no_rows ? 0 : 1];
}

static int32_t base_rank(const struct pl_layout_value *v)
{
    return v->shape.rank + (int32_t)(v->layout.reduced_axes & 1) +
           (int32_t)(v->layout.reduced_axes >> 1 & 1);
}

/* ---- the interface ---- */

bool pl_layout_fits(const struct pl_layout_value *v)
{
    const pl_layout *l = &v->layout;
    int64_t n = 1, rows, cols;
    for (int i = 0; i < v->shape.rank; i++)
        n *= v->shape.d[i];
    if (l->kind == PL_LAYOUT_SPLAT)
        return true;
    if (l->kind == PL_LAYOUT_STRIDED)
        return l->reduced_axes == 0 && l->vec > 0 && (l->vec & (l->vec - 1)) == 0 &&
               n % l->vec == 0;
    if (pl_frag_of(l->kind, v->bits) == PL_FRAG_STRIDED || (l->reduced_axes & ~3u) != 0 ||
        base_rank(v) != 2)
        return false;
    const struct pl_fragment *t = fragment_of(v);
    const bool is_whole = l->kind != PL_LAYOUT_MMA_A || (l->reduced_axes & 2) != 0;
    const int32_t k = is_whole ? t->cols : 256 / v->bits; /* of an instruction */
    base_extents(v, t, &rows, &cols);
    return rows > 0 && cols > 0 && rows % t->rows == 0 && cols % k == 0;
}

static int64_t n_total(const pl_shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++)
        n *= s->d[i];
    return n;
}

/* Element e of a thread over the base array, row and column. */
static void base_place(const struct pl_layout_value *v, const struct pl_fragment *t, int32_t thread,
                       int64_t e, int64_t *row, int64_t *col)
{
    int64_t rows, cols;
    int32_t r, c;
    base_extents(v, t, &rows, &cols);
    const int32_t n_elems = n_tile_elems(t);
    int64_t tile = e / n_elems, tiles_across = cols / t->cols;
    place(t, thread / 32, thread % 32, (int32_t)(e % n_elems), &r, &c);
    *row = tile / tiles_across * t->rows + r;
    *col = tile % tiles_across * t->cols + c;
}

static int64_t n_base(const struct pl_layout_value *v, const struct pl_fragment *t)
{
    int64_t rows, cols;
    base_extents(v, t, &rows, &cols);
    return rows / t->rows * (cols / t->cols) * n_tile_elems(t);
}

/* What is left of a place when axes are reduced away. */
static int64_t reduced_index(const struct pl_layout_value *v, int64_t row, int64_t col,
                             int64_t index[PL_MAX_RANK])
{
    int n = 0;
    if ((v->layout.reduced_axes & 1) == 0)
        index[n++] = row;
    if ((v->layout.reduced_axes & 2) == 0)
        index[n++] = col;
    return n == 0 ? 0 : n == 1 ? index[0] : row << 32 | col;
}

/* In a reduced layout a thread keeps one element for each index that is left: the first. */
static bool is_first(const struct pl_layout_value *v, const struct pl_fragment *t, int32_t thread,
                     int64_t e)
{
    int64_t row, col, mine[PL_MAX_RANK], other[PL_MAX_RANK];
    base_place(v, t, thread, e, &row, &col);
    int64_t key = reduced_index(v, row, col, mine);
    for (int64_t i = 0; i < e; i++) {
        base_place(v, t, thread, i, &row, &col);
        if (reduced_index(v, row, col, other) == key)
            return false;
    }
    return true;
}

int64_t pl_layout_n_elems(const struct pl_layout_value *v)
{
    if (v->layout.kind == PL_LAYOUT_SPLAT)
        return 1;
    if (v->layout.kind == PL_LAYOUT_STRIDED) {
        int64_t chunk = (int64_t)v->layout.vec * PL_LAYOUT_THREADS;
        return (n_total(&v->shape) + chunk - 1) / chunk * v->layout.vec;
    }
    const struct pl_fragment *t = fragment_of(v);
    int64_t n = 0, all = n_base(v, t);
    for (int64_t e = 0; e < all; e++)
        n += v->layout.reduced_axes == 0 || is_first(v, t, 0, e);
    return n;
}

static void unravel(const pl_shape *s, int64_t flat, int64_t index[PL_MAX_RANK])
{
    for (int i = s->rank - 1; i >= 0; i--) {
        index[i] = flat % s->d[i];
        flat /= s->d[i];
    }
}

bool pl_layout_forward(const struct pl_layout_value *v, int32_t thread, int64_t elem,
                       int64_t index[PL_MAX_RANK])
{
    PL_ASSERT(pl_layout_fits(v));
    if (v->layout.kind == PL_LAYOUT_SPLAT) {
        unravel(&v->shape, 0, index);
        return true;
    }
    if (v->layout.kind == PL_LAYOUT_STRIDED) {
        int64_t vec = v->layout.vec,
                flat = (thread + PL_LAYOUT_THREADS * (elem / vec)) * vec + elem % vec;
        if (flat >= n_total(&v->shape))
            return false;
        unravel(&v->shape, flat, index);
        return true;
    }
    const struct pl_fragment *t = fragment_of(v);
    int64_t row, col, base = 0;
    if (v->layout.reduced_axes != 0)
        for (int64_t seen = -1; seen < elem; base++)
            seen += is_first(v, t, thread, base);
    base_place(v, t, thread, v->layout.reduced_axes != 0 ? base - 1 : elem, &row, &col);
    (void)reduced_index(v, row, col, index);
    return true;
}

static bool same_index(const pl_shape *s, const int64_t x[PL_MAX_RANK],
                       const int64_t y[PL_MAX_RANK])
{
    for (int i = 0; i < s->rank; i++)
        if (x[i] != y[i])
            return false;
    return true;
}

void pl_layout_backward(const struct pl_layout_value *v, const int64_t index[PL_MAX_RANK],
                        int32_t *thread, int64_t *elem)
{
    int64_t flat = 0, vec = v->layout.vec, at[PL_MAX_RANK];
    *thread = 0;
    *elem = 0;
    for (int i = 0; i < v->shape.rank; i++)
        flat = flat * v->shape.d[i] + index[i];
    if (v->layout.kind == PL_LAYOUT_STRIDED) {
        *thread = (int32_t)(flat / vec % PL_LAYOUT_THREADS);
        *elem = flat / (vec * PL_LAYOUT_THREADS) * vec + flat % vec;
        return;
    }
    if (v->layout.kind == PL_LAYOUT_SPLAT)
        return;
    int64_t n =
        pl_layout_n_elems(v); /* a search: fragments are small, and this is not on a hot path */
    for (*thread = 0; *thread < PL_LAYOUT_THREADS; ++*thread)
        for (*elem = 0; *elem < n; ++*elem)
            if (pl_layout_forward(v, *thread, *elem, at) && same_index(&v->shape, at, index))
                return;
    PL_ASSERT(false); /* every index of the shape is held by some thread */
}

pl_layout pl_layout_resolve(pl_layout layout, const pl_shape *shape, int32_t most_vec)
{
    if (layout.kind != PL_LAYOUT_STRIDED || layout.vec != 0)
        return layout;
    int64_t n = n_total(shape);
    layout.vec = 1;
    while (layout.vec * 2 <= most_vec && n % (layout.vec * 2) == 0 &&
           n / (layout.vec * 2) >= PL_LAYOUT_THREADS)
        layout.vec *= 2;
    return layout;
}
