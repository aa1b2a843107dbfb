/*
 * matmul for sm_90a: warpgroup 0 loads, the others multiply and write. CTAs are persistent and walk the tiles of y; a pipe of operand
 * tiles goes on across them, so the next tile's operands come in while this one is written.
 *
 *   loads      one elected thread: tensor copies of a and b into a slot. In a cluster each CTA brings its own part of the tile that
 *              they share, to all
 *   sums       in registers, 64 rows a warpgroup; the first step of a tile overwrites them; a slot is given back one step late, so
 *              that one group of products is always in flight
 *   epilogue   64 columns at a time through a ring of two staging tiles of each warpgroup, out by tensor copies
 *
 * An operand that the instruction cannot read where K is not the last axis (8- and 32-bit types) is transposed on its way in, by the
 * threads of warpgroup 0; so is whatever no tensor copy serves.
 */
#include "kernels/matmul.h"

enum {
    CONSUMER_ROWS = 64,
    RING = 2,
    PRODUCER_REGISTERS = 40,
    CONSUMER_REGISTERS = 232,
    MAX_CHUNKS = 8
};

/*
 * A tile for several CTAs comes by the engine alone: aligned, and as the instruction wants it. Without the engine three warpgroups keep
 * the registers that they begin with, too few for sums of 256 columns; and with such sums none are left to find each element of an
 * unaligned c.
 */
bool pl_mm_hopper_serves(const pl_request *request, const struct pl_mm_config *p)
{
    const pl_fact_set need = PL_FACT_ALIGN16 | PL_FACT_UNIT_STRIDE;
    const bool has_many_sums = p->n_consumers > 1 && p->tile_n > 128,
               needs_engine = p->cluster_m * p->cluster_n > 1 || has_many_sums,
               is_c_odd = request->args[PL_MM_C].kind == PL_ARG_TENSOR &&
                          (request->facts & PL_FACT_ALIGN16_OUT) == 0;
    const bool is_16_bit = pl_dtype_bits(request->args[PL_MM_A].u.tensor.dtype) == 16;
    const bool is_direct =
        is_16_bit || (request->arrangement & (PL_MM_A_IS_ACROSS | PL_MM_B_IS_ACROSS)) == 0;
    if (has_many_sums && is_c_odd)
        return false;
    return !needs_engine || ((request->facts & need) == need && is_direct);
}

/* ---- operands ---- */

/* One operand: tiles of `rows` (of M or N) by tile_k. In SMEM K is the row axis when is_across. */
struct operand {
    int32_t param, rows, depth;
    bool is_stored_across, is_across;
    int32_t n_parts; /* CTAs that share a tile of it, each bringing a part to all */
    pl_ref smem;     /* (stages, …) */
};

static pl_shape tile_shape(const struct operand *o, bool is_across)
{
    return is_across ? PL_SHAPE(o->depth, o->rows) : PL_SHAPE(o->rows, o->depth);
}

static struct operand make_operand(pl_builder *b, const struct pl_mm_config *p, bool is_a)
{
    struct operand o = {.param = is_a ? PL_MM_A : PL_MM_B,
                        .rows = is_a ? p->tile_m : p->tile_n,
                        .depth = p->tile_k,
                        .is_stored_across = is_a ? p->a_is_across : p->b_is_across,
                        .n_parts = is_a ? p->cluster_n : p->cluster_m};
    const pl_dtype t = pl_dtype_of(b, pl_param(b, o.param));
    o.is_across = o.is_stored_across && pl_dtype_bits(t) == 16;
    const pl_shape s = tile_shape(&o, o.is_across);
    o.smem = pl_smem(b, t, PL_SHAPE(p->stages, s.d[0], s.d[1]), pl_mma_transforms(b, t, s.d[1]));
    return o;
}

/* The tile at (row, k), in tiles, into the slot. */
static void bring(pl_builder *b, const struct operand *o, pl_ref plane, pl_offs at, pl_val slot)
{
    const pl_offs there = o->is_stored_across ? PL_OFF(b, at.o[1], at.o[0]) : at;
    pl_ref src = pl_tile(b, plane, there, tile_shape(o, o->is_stored_across)),
           dst = pl_at(b, o->smem, slot);
    if (o->is_stored_across != o->is_across)
        src = pl_transpose(b, src);
    if (o->n_parts == 1) {
        pl_copy_gmem_to_smem(b, src, dst, pl_full_now(b));
        return;
    }
    const pl_copy_opt to_all = {.multicast_mask = (1u << o->n_parts) - 1};
    pl_shape part = tile_shape(o, o->is_across);
    part.d[0] /= o->n_parts;
    const pl_offs mine = PL_OFF(b, pl_cluster_rank(b), 0);
    pl_copy_gmem_to_smem_ex(b, pl_tile(b, src, mine, part), pl_tile(b, dst, mine, part),
                            pl_full_now(b), &to_all);
}

/* As the instruction takes them: rows of a from `first` on, (m, k); b, (k, n). */
static pl_ref rows_of_a(pl_builder *b, const struct operand *o, pl_val slot, pl_val first)
{
    pl_ref t = pl_at(b, o->smem, slot);
    if (o->is_across)
        return pl_transpose(
            b, pl_window(b, t, PL_OFF(b, 0, first), PL_SHAPE(o->depth, CONSUMER_ROWS)));
    return pl_window(b, t, PL_OFF(b, first, 0), PL_SHAPE(CONSUMER_ROWS, o->depth));
}

static pl_ref all_of_b(pl_builder *b, const struct operand *o, pl_val slot)
{
    pl_ref t = pl_at(b, o->smem, slot);
    return o->is_across ? t : pl_transpose(b, t);
}

/* ---- the two sides ---- */

struct kernel {
    const struct pl_mm_config *p;
    struct pl_mm_problem q;
    struct operand a, b;
    pl_pipe pipe;
    pl_sched sched;
    pl_val k_tiles;
    pl_val rank_m, rank_n; /* of the CTA in its cluster */
    pl_ref stage;          /* (warpgroups, RING, CONSUMER_ROWS, columns) */
    int32_t stage_cols;
    pl_bar c_is_there; /* a barrier for each consuming warpgroup; none without c */
    bool
        is_by_engine; /* operands come by tensor copies, which one warp issues; else by all threads of warpgroup 0 */
};

/* The CTA's tile of the cluster's: row and column in tiles of a CTA. */
static struct pl_mm_place place_of(pl_builder *b, const struct kernel *k, pl_val t)
{
    struct pl_mm_place at = pl_mm_place_of(b, k->p, &k->q, t);
    if (k->p->cluster_m > 1)
        at.row = pl_add(b, pl_mul(b, at.row, k->p->cluster_m), k->rank_m);
    if (k->p->cluster_n > 1)
        at.col = pl_add(b, pl_mul(b, at.col, k->p->cluster_n), k->rank_n);
    return at;
}

static void load_tiles(pl_builder *b, const struct kernel *k)
{
    PL_TILES(b, t, k->sched)
    {
        const struct pl_mm_place at = place_of(b, k, t);
        pl_ref a = pl_mm_plane(b, PL_MM_A, &at), w = pl_mm_plane(b, PL_MM_B, &at);
        PL_FOR(b, i, 0, k->k_tiles)
        {
            PL_PRODUCE(b, k->pipe, slot)
            {
                bring(b, &k->a, a, PL_OFF(b, at.row, i), slot);
                bring(b, &k->b, w, PL_OFF(b, at.col, i), slot);
            }
        }
    }
}

/* c's chunk comes through the staging tile that the result leaves by: a thread reads and writes the same elements of it. */
static pl_val load_c(pl_builder *b, const struct kernel *k, pl_ref c, pl_ref stage, pl_val unit)
{
    pl_bar there = pl_bar_at(b, k->c_is_there, unit);
    pl_copy_gmem_to_smem(b, c, stage, there);
    pl_barrier_wait(b, there);
    return pl_load(b, stage);
}

/* Chunk i of a tile whose first row for this warpgroup is m: its sums, or where they are not chosen yet those of all n chunks. */
static void write_chunk(pl_builder *b, const struct kernel *k, const struct pl_mm_place *at,
                        pl_val m, pl_val i, const pl_val *sums, int32_t n)
{
    const pl_shape s = PL_SHAPE(CONSUMER_ROWS, k->stage_cols);
    pl_val unit = pl_sub(b, pl_warpgroup_id(b), 1),
           col = pl_add(b, pl_mul(b, at->col, k->p->tile_n), pl_mul(b, i, k->stage_cols));
    pl_ref stage = pl_at(b, pl_at(b, k->stage, unit), pl_rem(b, i, RING)),
           c = pl_mm_plane(b, PL_MM_C, at);
    struct pl_mm_part part = {.mn = PL_OFF(b, m, col), .s = s};
    /* what may still be on its way when a slot is written again; across tiles too, so an odd number leaves none */
    pl_wait_smem_to_gmem_read(b, k->p->tile_n / k->stage_cols % RING == 0 ? RING - 1 : 0);
    if (c.id != 0)
        part.c = load_c(b, k, pl_window(b, c, part.mn, s), stage, unit);
    part.sum = pl_mm_choose(b, i, sums, n);
    pl_store(b, stage, pl_mm_finish(b, k->p, &part));
    pl_commit_smem(b);
    pl_copy_smem_to_gmem(b, stage, pl_window(b, pl_mm_plane(b, PL_MM_Y, at), part.mn, s));
}

/* Chunk by chunk to y; m: the warpgroup's first row. */
static void write_tile(pl_builder *b, const struct kernel *k, const struct pl_mm_place *at,
                       pl_ref acc, pl_val m)
{
    const pl_shape s = PL_SHAPE(CONSUMER_ROWS, k->stage_cols);
    const int32_t n = k->p->tile_n / k->stage_cols;
    pl_val sums[MAX_CHUNKS];
    for (int32_t i = 0; i < n; i++)
        sums[i] = pl_acc_load(b, pl_tile(b, acc, PL_OFF(b, 0, i), s));
    if (pl_mm_is_long(b, k->p)) {
        PL_FOR(b, i, 0, n) { write_chunk(b, k, at, m, i, sums, n); }
        return;
    }
    for (int32_t i = 0; i < n; i++)
        write_chunk(b, k, at, m, pl_lit_i(b, i), &sums[i], 1);
}

static void multiply_tiles(pl_builder *b, const struct kernel *k)
{
    const pl_dtype sum = pl_mm_acc_dtype(pl_dtype_of(b, pl_param(b, PL_MM_A)));
    pl_ref acc = pl_acc(b, sum, PL_SHAPE(CONSUMER_ROWS, k->p->tile_n));
    pl_val first = pl_mul(b, pl_sub(b, pl_warpgroup_id(b), 1), CONSUMER_ROWS);
    PL_TILES(b, t, k->sched)
    {
        const struct pl_mm_place at = place_of(b, k, t);
        PL_FOR(b, i, 0, k->k_tiles)
        {
            PL_CONSUME(b, k->pipe, slot)
            {
                pl_wgmma_if(b, acc, rows_of_a(b, &k->a, slot, first), all_of_b(b, &k->b, slot),
                            pl_gt(b, i, 0));
            }
        }
        write_tile(b, k, &at, acc, pl_add(b, pl_mul(b, at.row, k->p->tile_m), first));
    }
}

/* ---- the whole ---- */

/* Registers of the loading warpgroup go to the others, but where its threads move elements; one consumer has enough as it is. */
static void share_registers(pl_builder *b, const struct kernel *k, bool is_producer)
{
    if (k->is_by_engine && k->p->n_consumers > 1)
        pl_set_max_registers(b, is_producer ? PRODUCER_REGISTERS : CONSUMER_REGISTERS);
}

static int32_t stage_cols(pl_dtype y) { return 128 * 8 / pl_dtype_bits(y); }

void pl_mm_hopper_body(pl_builder *b, const struct pl_mm_config *p)
{
    pl_block_warpgroups(b, 1 + p->n_consumers);
    pl_block_cluster(b, p->cluster_m * p->cluster_n, 1, 1);
    const pl_dtype y = pl_dtype_of(b, pl_param(b, PL_MM_Y));
    struct kernel k = {.p = p, .q = pl_mm_problem_of(b, p), .stage_cols = stage_cols(y)};
    k.a = make_operand(b, p, true);
    k.b = make_operand(b, p, false);
    k.stage = pl_smem(b, y, PL_SHAPE(p->n_consumers, RING, CONSUMER_ROWS, k.stage_cols),
                      pl_mma_transforms(b, y, k.stage_cols));
    const pl_pipe_desc d = {.stages = p->stages,
                            .producer = PL_BY_COPIES,
                            .consumer = PL_BY_MMA,
                            .n_consumers = p->n_consumers,
                            .lag = 1};
    k.pipe = pl_pipe_make(b, &d);
    k.sched = pl_sched_static(b, k.q.n_all);
    k.k_tiles = pl_cdiv(b, k.q.k, p->tile_k);
    k.rank_m = p->cluster_m > 1 ? pl_cluster_rank(b) : pl_lit_i(b, 0);
    k.rank_n = p->cluster_n > 1 ? pl_cluster_rank(b) : pl_lit_i(b, 0);
    k.is_by_engine = pl_has_fact(b, PL_MM_A, PL_FACT_ALIGN16) &&
                     pl_has_fact(b, PL_MM_A, PL_FACT_UNIT_STRIDE) &&
                     k.a.is_across == k.a.is_stored_across && k.b.is_across == k.b.is_stored_across;
    const pl_barrier_desc one_each = {.n_barriers = p->n_consumers, .n_arrivals = 1};
    if (pl_has_arg(b, PL_MM_C))
        k.c_is_there = pl_barriers(b, &one_each);

    PL_WARPGROUP(b, 0)
    {
        share_registers(b, &k, true);
        if (k.is_by_engine) {
            PL_WARP(b, 0, 0) { load_tiles(b, &k); }
        } else {
            load_tiles(b, &k);
        }
    }
    PL_WARPGROUPS(b, 1, p->n_consumers)
    {
        share_registers(b, &k, false);
        multiply_tiles(b, &k);
    }
}
