#include "src/ir/layout.h"

#include "base/debug.h"

/* ---- fragment tiles ---- */

/* Row and column, inside the tile, of the i-th element of a thread: warp w of the warpgroup, lane l. */
typedef void place_function(int32_t w, int32_t l, int32_t i, int32_t bits, int32_t *row,
                            int32_t *col);

static void wgmma(int32_t w, int32_t l, int32_t i, int32_t bits, int32_t *row, int32_t *col)
{
    (void)bits;
    *row = 16 * w + l / 4 + 8 * (i >> 1);
    *col = 2 * (l % 4) + (i & 1);
}

static void wgmma_8bit(int32_t w, int32_t l, int32_t i, int32_t bits, int32_t *row, int32_t *col)
{
    (void)bits;
    *row = 16 * w + l / 4 + 8 * (i >> 2);
    *col = 4 * (l % 4) + (i & 3);
}

static void upcast_2x(int32_t w, int32_t l, int32_t i, int32_t bits, int32_t *row, int32_t *col)
{
    (void)bits;
    *row = 16 * w + l / 4 + 8 * (i >> 2);
    *col = 8 * (l & 1) + 4 * (l >> 1 & 1) + (i & 3);
}

static void upcast_4x(int32_t w, int32_t l, int32_t i, int32_t bits, int32_t *row, int32_t *col)
{
    (void)bits;
    *row = 16 * w + l / 4 + 8 * (i >> 3);
    *col = 8 * (l & 3) + (i & 7);
}

static void tcgen05(int32_t w, int32_t l, int32_t i, int32_t bits, int32_t *row, int32_t *col)
{
    (void)bits;
    *row = 32 * w + 8 * (i >> 1) + l / 4;
    *col = 2 * (l % 4) + (i & 1);
}

static void tmem_native(int32_t w, int32_t l, int32_t i, int32_t bits, int32_t *row, int32_t *col)
{
    (void)bits;
    (void)i;
    *row = 32 * w + l;
    *col = 0;
}

/* One m16 tile a warp, the warps along the rows. A register holds 32 bits: 1, 2 or 4 elements next to each other along K. */
static void mma_a(int32_t w, int32_t l, int32_t i, int32_t bits, int32_t *row, int32_t *col)
{
    int32_t n = 32 / bits, reg = i / n, slot = i % n;
    *row = 16 * w + l / 4 + 8 * (reg & 1);
    *col = 4 * n * (reg >> 1) + n * (l % 4) + slot;
}

/* (k, n), the same in every warp. */
static void mma_b(int32_t w, int32_t l, int32_t i, int32_t bits, int32_t *row, int32_t *col)
{
    int32_t n = 32 / bits, reg = i / n, slot = i % n;
    (void)w;
    *row = 4 * n * reg + n * (l % 4) + slot;
    *col = l / 4;
}

struct tile {
    int32_t rows, cols, n_elems; /* at 32 bits where they depend on the width */
    bool by_bits; /* MMA_A: cols and n_elems, MMA_B: rows and n_elems, times 32 / bits */
    place_function *place;
};
static const struct tile tiles[PL_LAYOUT_COUNT] = {
    [PL_LAYOUT_WGMMA] = {64, 8, 4, false, wgmma},
    [PL_LAYOUT_WGMMA_8BIT] = {64, 16, 8, false, wgmma_8bit},
    [PL_LAYOUT_WGMMA_UPCAST_2X] = {64, 16, 8, false, upcast_2x},
    [PL_LAYOUT_WGMMA_UPCAST_4X] = {64, 32, 16, false, upcast_4x},
    [PL_LAYOUT_TCGEN05] = {128, 8, 8, false, tcgen05},
    [PL_LAYOUT_TMEM_NATIVE] = {128, 1, 1, false, tmem_native},
    [PL_LAYOUT_MMA_A] = {64, 8, 4, true, mma_a},
    [PL_LAYOUT_MMA_B] = {8, 8, 2, true, mma_b},
    [PL_LAYOUT_MMA_ACC] = {64, 8, 4, false, wgmma},
};

static struct tile tile_of(const struct pl_layout_value *v)
{
    struct tile t = tiles[v->layout.kind];
    int32_t n = t.by_bits && v->bits > 0 && v->bits < 32 ? 32 / v->bits : 1;
    t.n_elems *= n;
    if (v->layout.kind == PL_LAYOUT_MMA_B)
        t.rows *= n;
    else
        t.cols *= n;
    return t;
}

/* Extents of the array the tiles lie over: a reduced axis counts as one tile. */
static void base_extents(const struct pl_layout_value *v, const struct tile *t, int64_t *rows,
                         int64_t *cols)
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
    if ((unsigned)l->kind >= PL_LAYOUT_COUNT || tiles[l->kind].place == NULL ||
        (l->reduced_axes & ~3u) != 0 || base_rank(v) != 2)
        return false;
    bool is_width = v->bits == 8 || v->bits == 16 || v->bits == 32;
    const struct tile t = tile_of(v);
    base_extents(v, &t, &rows, &cols);
    return (!t.by_bits || is_width) && rows > 0 && cols > 0 && rows % t.rows == 0 &&
           cols % t.cols == 0;
}

static int64_t n_total(const pl_shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++)
        n *= s->d[i];
    return n;
}

/* Element e of a thread over the base array, row and column. */
static void base_place(const struct pl_layout_value *v, const struct tile *t, int32_t thread,
                       int64_t e, int64_t *row, int64_t *col)
{
    int64_t rows, cols;
    int32_t r, c;
    base_extents(v, t, &rows, &cols);
    int64_t tile = e / t->n_elems, tiles_across = cols / t->cols;
    t->place(thread / 32, thread % 32, (int32_t)(e % t->n_elems), v->bits, &r, &c);
    *row = tile / tiles_across * t->rows + r;
    *col = tile % tiles_across * t->cols + c;
}

static int64_t n_base(const struct pl_layout_value *v, const struct tile *t)
{
    int64_t rows, cols;
    base_extents(v, t, &rows, &cols);
    return rows / t->rows * (cols / t->cols) * t->n_elems;
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
static bool is_first(const struct pl_layout_value *v, const struct tile *t, int32_t thread,
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
    const struct tile t = tile_of(v);
    int64_t n = 0, all = n_base(v, &t);
    for (int64_t e = 0; e < all; e++)
        n += v->layout.reduced_axes == 0 || is_first(v, &t, 0, e);
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
    const struct tile t = tile_of(v);
    int64_t row, col, base = 0;
    if (v->layout.reduced_axes != 0)
        for (int64_t seen = -1; seen < elem; base++)
            seen += is_first(v, &t, thread, base);
    base_place(v, &t, thread, v->layout.reduced_axes != 0 ? base - 1 : elem, &row, &col);
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
