#ifndef PL_SRC_IR_LAYOUT_H
#define PL_SRC_IR_LAYOUT_H
/*
 * Layouts of register values as functions: which element of an array a thread of the warpgroup holds as its e-th one, and back. STRIDED and
 * SPLAT are of any shape; the fragment layouts tile the last two axes (of a rank-2 array) and repeat. A layout may hold an element in
 * several threads (SPLAT, MMA_B, reduced layouts): forward tells all, backward gives the first.
 *
 * Order of a thread's elements: fragment tiles row by row, inside a tile its runs as they are numbered (fragment.def).
 */
#include <plaunch/trace.h>

enum { PL_LAYOUT_THREADS = 128 };

/* ---- fragments (fragment.def) ---- */

enum pl_frag {
    PL_FRAG_STRIDED,
#define FRAGMENT(id, ...) PL_FRAG_##id,
#include "src/ir/fragment.def"
#undef FRAGMENT
    PL_FRAG_COUNT
};

struct pl_lane_part {
    uint8_t shift, bits, scale; /* scale * (lane >> shift & (2^bits - 1)) */
};

struct pl_fragment {
    const char *name;
    uint8_t rows, cols; /* of a tile */
    uint8_t run_axis, n_run;
    uint8_t n_down, down_rows, n_across, across_cols;
    uint8_t warp_rows;
    struct pl_lane_part row, col[2];
};
extern const struct pl_fragment pl_fragments[PL_FRAG_COUNT];

/* The fragment of a layout of elements of 8, 16 or 32 bits; STRIDED for itself, SPLAT and other widths. */
enum pl_frag pl_frag_of(pl_layout_kind kind, int32_t bits);
/* Runs of a thread in one tile. */
static inline int32_t pl_frag_n_runs(const struct pl_fragment *f)
{
    return f->n_down * f->n_across;
}

/* ---- values ---- */

/* A value of one layout. bits: width of its elements, which MMA_A and MMA_B depend on (8, 16, 32). */
struct pl_layout_value {
    pl_layout layout; /* STRIDED: vec > 0 */
    pl_shape shape;   /* of the value; a reduced axis is not in it */
    int32_t bits;
};

/* The layout can hold the shape: not AUTO, whole tiles, vec divides. */
bool pl_layout_fits(const struct pl_layout_value *v);
/* Elements that each thread holds (the last ones of STRIDED may hold nothing). */
int64_t pl_layout_n_elems(const struct pl_layout_value *v);
/* Index of element `elem` of thread `thread`; false when it holds nothing. The value fits. */
bool pl_layout_forward(const struct pl_layout_value *v, int32_t thread, int64_t elem,
                       int64_t index[PL_MAX_RANK]);
/* The first thread, and its element, that holds index. The value fits. */
void pl_layout_backward(const struct pl_layout_value *v, const int64_t index[PL_MAX_RANK],
                        int32_t *thread, int64_t *elem);
/* A STRIDED layout for a shape: the given vec, or for 0 the widest power of two up to most_vec that spreads it over all threads. */
pl_layout pl_layout_resolve(pl_layout layout, const pl_shape *shape, int32_t most_vec);
#endif
