/*
 * Fragments: how the chunks of a rank-2 array lie in the threads of a warpgroup when the hardware, not memory, says so. A row says what
 * a fragment needs of a shape and where a thread's chunk k begins; a chunk is consecutive elements of a row.
 *
 * src/ir/layout.h says the same element by element; a test holds the two against each other.
 */
#include "src/plan/lower.h"

#include "base/debug.h"

enum { MAX_VEC = 16 };

struct thread {
    struct pl_opnd warp, lane, in_quad; /* u32 */
};

typedef void coords_function(struct pl_lower *l, const struct thread *t, const struct pl_lay *lay,
                             const pl_shape *s, uint32_t k, struct pl_coord out[2]);

static struct pl_opnd add(struct pl_lower *l, struct pl_opnd x, struct pl_opnd y)
{
    return pl_ix_add(&l->b, PL_ST_u32, x, y);
}

static struct pl_coord quad_columns(struct pl_lower *l, const struct thread *t, int64_t konst)
{
    return (struct pl_coord){pl_ix_shl(&l->b, PL_ST_u32, t->in_quad, 1), 7, konst};
}

/* 64 rows, 16 a warp: two rows of 8 columns a quad of lanes. */
static void wgmma_coords(struct pl_lower *l, const struct thread *t, const struct pl_lay *lay,
                         const pl_shape *s, uint32_t k, struct pl_coord out[2])
{
    const uint32_t per_block = (uint32_t)s->d[1] / 4, i = k / per_block, j = k % per_block;
    struct pl_opnd row =
        add(l, pl_ix_shl(&l->b, PL_ST_u32, t->warp, 4), pl_ix_shr(&l->b, PL_ST_u32, t->lane, 2));
    (void)lay;
    out[0] = (struct pl_coord){row, 56, (int64_t)64 * i + 8 * (j % 2)};
    out[1] = quad_columns(l, t, (int64_t)8 * (j / 2));
}

/* 128 rows, 32 a warp: four rows of 8 columns a quad of lanes. */
static void tcgen05_coords(struct pl_lower *l, const struct thread *t, const struct pl_lay *lay,
                           const pl_shape *s, uint32_t k, struct pl_coord out[2])
{
    const uint32_t per_block = (uint32_t)s->d[1] / 2, i = k / per_block, j = k % per_block;
    struct pl_opnd row =
        add(l, pl_ix_shl(&l->b, PL_ST_u32, t->warp, 5), pl_ix_shr(&l->b, PL_ST_u32, t->lane, 2));
    (void)lay;
    out[0] = (struct pl_coord){row, 104, (int64_t)128 * i + 8 * (j % 4)};
    out[1] = quad_columns(l, t, (int64_t)8 * (j / 4));
}

/* 128 rows, one a thread. */
static void rows_coords(struct pl_lower *l, const struct thread *t, const struct pl_lay *lay,
                        const pl_shape *s, uint32_t k, struct pl_coord out[2])
{
    const uint32_t per_row = (uint32_t)s->d[1] / lay->vec;
    struct pl_opnd row = add(l, pl_ix_shl(&l->b, PL_ST_u32, t->warp, 5), t->lane);
    out[0] = (struct pl_coord){row, 128, (int64_t)128 * (k / per_row)};
    out[1] = (struct pl_coord){pl_opnd_imm(0), 1, (int64_t)(k % per_row) * lay->vec};
}

static const struct {
    pl_layout_kind kind;
    int32_t n_rows, n_cols; /* that a shape has multiples of */
    uint16_t vec;           /* elements of a chunk; 0: as many as are in a row, at most MAX_VEC */
    coords_function *coords;
} frags[PL_FRAG_COUNT] = {
    [PL_FRAG_WGMMA] = {PL_LAYOUT_WGMMA, 64, 8, 2, wgmma_coords},
    [PL_FRAG_TCGEN05] = {PL_LAYOUT_TCGEN05, 128, 8, 2, tcgen05_coords},
    [PL_FRAG_ROWS] = {PL_LAYOUT_TMEM_NATIVE, 128, 1, 0, rows_coords},
};

enum pl_frag pl_frag_of_layout(const pl_layout *layout)
{
    for (int f = 1; f < PL_FRAG_COUNT; f++)
        if (frags[f].kind == layout->kind && layout->reduced_axes == 0)
            return (enum pl_frag)f;
    return PL_FRAG_STRIDED;
}

bool pl_frag_fits(enum pl_frag f, const pl_shape *s)
{
    return f != PL_FRAG_STRIDED && s->rank == 2 && s->d[0] % frags[f].n_rows == 0 &&
           s->d[1] % frags[f].n_cols == 0;
}

struct pl_lay pl_lay_frag(enum pl_frag f, const pl_shape *s)
{
    uint32_t vec = frags[f].vec;
    PL_ASSERT(pl_frag_fits(f, s));
    for (uint32_t v = 1; frags[f].vec == 0 && v <= MAX_VEC && s->d[1] % v == 0; v *= 2)
        vec = v;
    return (struct pl_lay){.frag = (uint8_t)f,
                           .vec = (uint16_t)vec,
                           .n_chunks = (uint32_t)(pl_shape_n_elems(s) / (128 * (int64_t)vec))};
}

void pl_frag_coords(struct pl_lower *l, const pl_shape *s, const struct pl_lay *lay, uint32_t k,
                    struct pl_coord out[PL_MAX_RANK])
{
    const struct pl_opnd rank = pl_lower_rank(l);
    const struct thread t = {.warp = pl_ix_shr(&l->b, PL_ST_u32, rank, 5),
                             .lane = pl_ix_and(&l->b, PL_ST_u32, rank, 31),
                             .in_quad = pl_ix_and(&l->b, PL_ST_u32, rank, 3)};
    frags[lay->frag].coords(l, &t, lay, s, k, out);
}
