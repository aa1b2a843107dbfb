/*
 * Step 6: sums of two tiles. Tensor memory has room for both, so the warpgroup that writes has one while the next is multiplied: the
 * tensor core no longer waits for the epilogue. One number has changed, SUMS.
 */
#include "matmul.h"

enum { PAIR_M = 2 * TILE_M, PAIR_N = 2 * TILE_N, SUMS = 2 };

struct kernel {
    pl_ref a, b, c, a_slots, b_slots, stage, acc;
    pl_pipe operands, sums;
    pl_val m_tiles, n_tiles, k_tiles, rank;
    pl_sched sched;
};

/* Tile t of c, row by row. */
static void place(pl_builder *b, const struct kernel *x, pl_val t, pl_val *row, pl_val *col)
{
    *row = pl_div(b, t, x->n_tiles);
    *col = pl_rem(b, t, x->n_tiles);
}

static void load(pl_builder *b, const struct kernel *x)
{
    const pl_copy_opt rows = {.pair_axis_plus1 = 1}, cols = {.pair_axis_plus1 = 2};
    pl_val row, col;
    PL_TILES(b, t, x->sched)
    {
        place(b, x, t, &row, &col);
        PL_FOR(b, k, 0, x->k_tiles)
        {
            PL_PRODUCE(b, x->operands, slot)
            {
                pl_copy_gmem_to_smem_ex(
                    b, pl_tile(b, x->a, PL_OFF(b, row, k), PL_SHAPE(PAIR_M, TILE_K)),
                    pl_at(b, x->a_slots, slot), pl_full_now(b), &rows);
                pl_copy_gmem_to_smem_ex(
                    b, pl_tile(b, x->b, PL_OFF(b, k, col), PL_SHAPE(TILE_K, PAIR_N)),
                    pl_at(b, x->b_slots, slot), pl_full_now(b), &cols);
            }
        }
    }
}

static void multiply(pl_builder *b, const struct kernel *x)
{
    PL_TILES(b, t, x->sched)
    {
        PL_PRODUCE(b, x->sums, which) /* until the writers have given back those of two tiles ago */
        {
            PL_FOR(b, k, 0, x->k_tiles)
            {
                PL_CONSUME(b, x->operands, slot)
                {
                    const pl_mma_opt o = {.accumulate = pl_gt(b, k, 0), .is_pair = 1};
                    pl_tcgen05_mma(b, pl_at(b, x->acc, which), pl_at(b, x->a_slots, slot),
                                   pl_at(b, x->b_slots, slot), &o);
                }
            }
        }
    }
}

static void write_out(pl_builder *b, const struct kernel *x)
{
    const pl_shape s = PL_SHAPE(TILE_M, CHUNK);
    pl_val row, col;
    PL_TILES(b, t, x->sched)
    {
        place(b, x, t, &row, &col);
        row = pl_add(b, pl_mul(b, row, 2), x->rank);
        pl_ref to = pl_tile(b, x->c, PL_OFF(b, row, col), PL_SHAPE(TILE_M, PAIR_N));
        PL_CONSUME(b, x->sums, which)
        {
            for (int i = 0; i < PAIR_N / CHUNK; i++) {
                pl_ref stage = pl_at(b, x->stage, i % 2);
                pl_ref from = pl_tile(b, pl_at(b, x->acc, which), PL_OFF(b, 0, i), s);
                pl_wait_smem_to_gmem_read(b, 1);
                pl_store(b, stage, pl_async_load_tmem(b, from));
                pl_commit_smem(b);
                pl_copy_smem_to_gmem(b, stage, pl_tile(b, to, PL_OFF(b, 0, i), s));
            }
            pl_wait_load_tmem(b); /* before the sums are given back */
        }
    }
    pl_wait_smem_to_gmem(b, 0);
}

static void make_pipes(pl_builder *b, struct kernel *x, int32_t stages)
{
    const pl_pipe_desc operands = {.stages = stages,
                                   .producer = PL_BY_COPIES,
                                   .consumer = PL_BY_MMA,
                                   .full_at = PL_LEADER},
                       sums = {.stages = SUMS,
                               .producer = PL_BY_MMA,
                               .consumer = PL_BY_THREADS,
                               .empty_at = PL_LEADER}; /* both CTAs' writers report to the leader */
    x->operands = pl_pipe_make(b, &operands);
    x->sums = pl_pipe_make(b, &sums);
}

static void body(pl_builder *b, const void *params)
{
    enum { STAGES = 4 };
    (void)params;
    pl_block_warpgroups(b, 2);
    pl_block_cluster(b, 2, 1, 1);
    struct kernel x = {.a = pl_param(b, ARG_A), .b = pl_param(b, ARG_B), .c = pl_param(b, ARG_C)};
    x.a_slots = operand_slots(b, STAGES, TILE_M, TILE_K);
    x.b_slots = operand_slots(b, STAGES, TILE_K, TILE_N);
    x.stage = pl_smem(b, PL_F32, PL_SHAPE(2, TILE_M, CHUNK), PL_SWIZZLE(128));
    x.acc = pl_tmem(b, PL_F32, PL_SHAPE(SUMS, TILE_M, PAIR_N), 1);
    make_pipes(b, &x, STAGES);
    x.m_tiles = pl_cdiv(b, pl_dim(b, x.a, 0), PAIR_M);
    x.n_tiles = pl_cdiv(b, pl_dim(b, x.b, 1), PAIR_N);
    x.k_tiles = pl_cdiv(b, pl_dim(b, x.a, 1), TILE_K);
    x.rank = pl_cluster_rank(b);
    x.sched = pl_sched_static(b, pl_mul(b, x.m_tiles, x.n_tiles)); /* tiles of this pair */

    PL_WARP(b, 0, 0) { load(b, &x); }
    PL_WARP(b, 0, 1)
    {
        PL_IF(b, pl_eq(b, x.rank, 0)) { multiply(b, &x); }
    }
    PL_WARPGROUP(b, 1) { write_out(b, &x); }
}

static pl_launch_dims dims(int64_t m, int64_t n, int32_t n_sms)
{
    const int64_t all = n_tiles(m, PAIR_M) * n_tiles(n, PAIR_N), most = n_sms < 2 ? 1 : n_sms / 2;
    return (pl_launch_dims){{2 * (all < most ? all : most), 1, 1}};
}

const struct step step_overlapped = {"overlapped", body, dims};
