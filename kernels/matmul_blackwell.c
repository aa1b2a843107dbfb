/*
 * matmul for the chips with tensor memory (sm_100a and its family): one warp loads, one issues the products, a warpgroup writes. CTAs, or
 * pairs of them, are persistent and walk the tiles of y; the sums of two tiles lie in tensor memory, so one is written while the next
 * is multiplied.
 *
 *   loads      one elected thread: tensor copies of a and b into a slot. Of a pair each CTA brings its own rows of a and its half of
 *              the columns of b, and both report to the leader
 *   sums       one elected thread, of a pair the leader's; its commits give a slot back, and at last the sums to the warpgroup
 *   epilogue   128 bytes of each row at a time through a ring of two staging tiles, out by tensor copies
 *
 * Operands are read as they lie, whichever axis K is. What no tensor copy serves comes in by the threads of a warpgroup; the products
 * then move to a warp behind the others.
 */
#include "kernels/matmul.h"

enum { RING = 2, SUMS = 2, LOADS = 0, EPILOGUE = 1, EXTRA = 2 };

static bool has_rows(pl_fact_set facts)
{
    const pl_fact_set need = PL_FACT_ALIGN16 | PL_FACT_UNIT_STRIDE;
    return (facts & need) == need;
}

/*
 * Whole numbers only where the chip multiplies them; pairs by the engine alone, which wants aligned rows. Without it a thread has its
 * share of a tile in registers at once: of 8-bit elements one each, too many for more than 64 columns.
 */
bool pl_mm_blackwell_serves(const pl_request *request, const struct pl_mm_config *p)
{
    const pl_dtype t = request->args[PL_MM_A].u.tensor.dtype;
    if (t == PL_I8 && request->device->arch != 100)
        return false;
    return has_rows(request->facts) ||
           (p->cluster_m == 1 && (pl_dtype_bits(t) != 8 || p->tile_n <= 64));
}

/* Tensor copies, which one warp issues; else all threads of the warpgroup move elements. */
static bool is_by_engine(pl_builder *b)
{
    return pl_has_fact(b, PL_MM_A, PL_FACT_ALIGN16) && pl_has_fact(b, PL_MM_A, PL_FACT_UNIT_STRIDE);
}

/* ---- operands ---- */

/* One operand: tiles of `rows` (of M or N) by tile_k; of a pair, those of one CTA. K is the row axis when is_across. */
struct operand {
    int32_t param, rows, depth;
    bool is_across;
    pl_ref smem; /* (stages, …) */
};

static pl_shape tile_shape(const struct operand *o)
{
    return o->is_across ? PL_SHAPE(o->depth, o->rows) : PL_SHAPE(o->rows, o->depth);
}

static struct operand make_operand(pl_builder *b, const struct pl_mm_config *p, bool is_a)
{
    struct operand o = {.param = is_a ? PL_MM_A : PL_MM_B,
                        .rows = is_a ? p->tile_m : p->tile_n / p->cluster_m,
                        .depth = p->tile_k,
                        .is_across = is_a ? p->a_is_across : p->b_is_across};
    const pl_dtype t = pl_dtype_of(b, pl_param(b, o.param));
    const pl_shape s = tile_shape(&o);
    o.smem = pl_smem(b, t, PL_SHAPE(p->stages, s.d[0], s.d[1]), pl_mma_transforms(b, t, s.d[1]));
    return o;
}

/* The tile at (row, k), in tiles, into the slot. */
static void bring(pl_builder *b, const struct operand *o, pl_ref plane, pl_offs at, pl_val slot)
{
    const pl_offs there = o->is_across ? PL_OFF(b, at.o[1], at.o[0]) : at;
    pl_ref src = pl_tile(b, plane, there, tile_shape(o));
    pl_copy_gmem_to_smem(b, src, pl_at(b, o->smem, slot), pl_full_now(b));
}

/* ---- the three sides ---- */

struct kernel {
    const struct pl_mm_config *p;
    struct pl_mm_problem q;
    struct operand a, b;
    pl_pipe operands, sums;
    pl_ref acc; /* (SUMS, tile_m, tile_n) in tensor memory */
    pl_sched sched;
    pl_val k_tiles, rank;
    pl_ref stage; /* (RING, tile_m, columns) */
    int32_t stage_cols;
};

static void load_tiles(pl_builder *b, const struct kernel *k)
{
    const int32_t n_ctas = k->p->cluster_m;
    PL_TILES(b, t, k->sched)
    {
        const struct pl_mm_place at = pl_mm_place_of(b, k->p, &k->q, t);
        pl_ref a = pl_mm_plane(b, PL_MM_A, &at), w = pl_mm_plane(b, PL_MM_B, &at);
        pl_val row = pl_add(b, pl_mul(b, at.row, n_ctas), k->rank),
               col = pl_add(b, pl_mul(b, at.col, n_ctas), k->rank);
        PL_FOR(b, i, 0, k->k_tiles)
        {
            PL_PRODUCE(b, k->operands, slot)
            {
                bring(b, &k->a, a, PL_OFF(b, row, i), slot);
                bring(b, &k->b, w, PL_OFF(b, col, i), slot);
            }
        }
    }
}

static void multiply_tiles(pl_builder *b, const struct kernel *k)
{
    PL_TILES(b, t, k->sched)
    {
        PL_PRODUCE(b, k->sums, which)
        {
            PL_FOR(b, i, 0, k->k_tiles)
            {
                PL_CONSUME(b, k->operands, slot)
                {
                    const pl_mma_opt o = {.accumulate = pl_gt(b, i, 0),
                                          .is_pair = k->p->cluster_m == 2};
                    pl_ref x = pl_at(b, k->a.smem, slot), y = pl_at(b, k->b.smem, slot);
                    pl_tcgen05_mma(b, pl_at(b, k->acc, which),
                                   k->a.is_across ? pl_transpose(b, x) : x,
                                   k->b.is_across ? y : pl_transpose(b, y), &o);
                }
            }
        }
    }
}

/* Without any K, which tensor copies do not bring, nothing was multiplied, and the sums are zero. */
static void clear_sums(pl_builder *b, const struct kernel *k, pl_ref sums)
{
    PL_IF(b, pl_eq(b, k->k_tiles, 0))
    {
        pl_async_store_tmem(b, sums, pl_cast(b, 0, pl_dtype_of(b, sums)));
        pl_commit_tmem(b);
    }
}

/* Chunk c of the sums by way of a staging tile. */
static void write_chunk(pl_builder *b, const struct kernel *k, const struct pl_mm_place *at,
                        pl_ref sums, pl_val c, pl_ref stage)
{
    const struct pl_mm_config *p = k->p;
    const pl_shape s = PL_SHAPE(p->tile_m, k->stage_cols);
    pl_val row = pl_add(b, pl_mul(b, at->row, p->cluster_m), k->rank),
           n = pl_add(b, pl_mul(b, at->col, p->tile_n), pl_mul(b, c, k->stage_cols));
    const pl_offs mn = PL_OFF(b, pl_mul(b, row, p->tile_m), n);
    pl_val sum = pl_async_load_tmem(b, pl_tile(b, sums, PL_OFF(b, 0, c), s));
    pl_val v = pl_mm_epilogue(b, p, at, sum, mn, s);
    /* what may still be on its way when a slot is written again; across tiles too, so an odd number leaves none */
    pl_wait_smem_to_gmem_read(b, p->tile_n / k->stage_cols % RING == 0 ? RING - 1 : 0);
    pl_store(b, stage, v);
    pl_commit_smem(b);
    pl_copy_smem_to_gmem(b, stage, pl_window(b, pl_mm_plane(b, PL_MM_Y, at), mn, s));
}

static void write_tile(pl_builder *b, const struct kernel *k, const struct pl_mm_place *at,
                       pl_val which)
{
    pl_ref sums = pl_at(b, k->acc, which);
    if (!is_by_engine(b))
        clear_sums(b, k, sums);
    PL_FOR(b, c, 0, k->p->tile_n / k->stage_cols)
    {
        write_chunk(b, k, at, sums, c, pl_at(b, k->stage, pl_rem(b, c, RING)));
    }
    pl_wait_load_tmem(b);
}

static void write_tiles(pl_builder *b, const struct kernel *k)
{
    PL_TILES(b, t, k->sched)
    {
        const struct pl_mm_place at = pl_mm_place_of(b, k->p, &k->q, t);
        PL_CONSUME(b, k->sums, which) { write_tile(b, k, &at, which); }
    }
}

/* ---- the whole ---- */

static void make_pipes(pl_builder *b, struct kernel *k)
{
    const pl_pipe_desc operands = {.stages = k->p->stages,
                                   .producer = PL_BY_COPIES,
                                   .consumer = PL_BY_MMA,
                                   .full_at = PL_LEADER},
                       sums = {.stages = SUMS,
                               .producer = PL_BY_MMA,
                               .consumer = PL_BY_THREADS,
                               .empty_at = PL_LEADER};
    k->operands = pl_pipe_make(b, &operands);
    k->sums = pl_pipe_make(b, &sums);
}

static void multiply_where_led(pl_builder *b, const struct kernel *k)
{
    if (k->p->cluster_m == 1)
        multiply_tiles(b, k);
    else
        PL_IF(b, pl_eq(b, k->rank, 0)) { multiply_tiles(b, k); }
}

void pl_mm_blackwell_body(pl_builder *b, const struct pl_mm_config *p)
{
    const pl_dtype y = pl_dtype_of(b, pl_param(b, PL_MM_Y)),
                   sum = pl_mm_acc_dtype(pl_dtype_of(b, pl_param(b, PL_MM_A)));
    struct kernel k = {.p = p, .stage_cols = 128 * 8 / pl_dtype_bits(y)};
    const bool by_engine = is_by_engine(b);
    pl_block_warpgroups(b, by_engine ? 2 : 3);
    pl_block_cluster(b, p->cluster_m, 1, 1);
    k.q = pl_mm_problem_of(b, p);
    k.a = make_operand(b, p, true);
    k.b = make_operand(b, p, false);
    k.stage = pl_smem(b, y, PL_SHAPE(RING, p->tile_m, k.stage_cols),
                      pl_mma_transforms(b, y, k.stage_cols));
    k.acc = pl_tmem(b, sum, PL_SHAPE(SUMS, p->tile_m, p->tile_n), p->cluster_m == 2);
    make_pipes(b, &k);
    k.sched = pl_sched_static(b, k.q.n_all);
    k.k_tiles = pl_cdiv(b, k.q.k, p->tile_k);
    k.rank = p->cluster_m == 1 ? pl_lit_i(b, 0) : pl_cluster_rank(b);
    if (by_engine) {
        PL_WARP(b, LOADS, 0) { load_tiles(b, &k); }
        PL_WARP(b, LOADS, 1) { multiply_where_led(b, &k); }
    } else {
        PL_WARPGROUP(b, LOADS) { load_tiles(b, &k); }
        PL_WARP(b, EXTRA, 0) { multiply_where_led(b, &k); }
    }
    PL_WARPGROUP(b, EPILOGUE) { write_tiles(b, &k); }
}
