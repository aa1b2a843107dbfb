/*
 * Step 4: two CTAs multiply as one. Each brings its own rows of a and half of the columns of b, the tensor cores of both read both
 * halves, and each CTA keeps the sums of its rows: a tile of twice the rows and columns for half the traffic of b. The leader, of rank
 * 0, issues for the pair: both CTAs' copies report to its barriers, and its commits arrive in both.
 */
#include "matmul.h"

enum { PAIR_M = 2 * TILE_M, PAIR_N = 2 * TILE_N };

struct kernel {
    pl_ref a, b, c, a_slots, b_slots, stage, acc;
    pl_pipe pipe;
    pl_bar done;
    pl_val row, col, k_tiles, rank; /* row and col: in tiles of the pair */
};

static void load(pl_builder *b, const struct kernel *x)
{
    const pl_copy_opt rows = {.pair_axis_plus1 = 1}, cols = {.pair_axis_plus1 = 2};
    PL_FOR(b, k, 0, x->k_tiles)
    {
        PL_PRODUCE(b, x->pipe, slot)
        {
            pl_copy_gmem_to_smem_ex(
                b, pl_tile(b, x->a, PL_OFF(b, x->row, k), PL_SHAPE(PAIR_M, TILE_K)),
                pl_at(b, x->a_slots, slot), pl_full_now(b), &rows);
            pl_copy_gmem_to_smem_ex(
                b, pl_tile(b, x->b, PL_OFF(b, k, x->col), PL_SHAPE(TILE_K, PAIR_N)),
                pl_at(b, x->b_slots, slot), pl_full_now(b), &cols);
        }
    }
}

static void multiply(pl_builder *b, const struct kernel *x)
{
    PL_FOR(b, k, 0, x->k_tiles)
    {
        PL_CONSUME(b, x->pipe, slot)
        {
            const pl_mma_opt o = {.accumulate = pl_gt(b, k, 0), .is_pair = 1};
            pl_tcgen05_mma(b, x->acc, pl_at(b, x->a_slots, slot), pl_at(b, x->b_slots, slot), &o);
        }
    }
    pl_tcgen05_commit(b, x->done); /* arrives in both CTAs */
}

static void write_out(pl_builder *b, const struct kernel *x)
{
    const pl_shape s = PL_SHAPE(TILE_M, CHUNK);
    pl_val row = pl_add(b, pl_mul(b, x->row, 2), x->rank);
    pl_ref to = pl_tile(b, x->c, PL_OFF(b, row, x->col), PL_SHAPE(TILE_M, PAIR_N));
    for (int i = 0; i < PAIR_N / CHUNK; i++) {
        pl_ref stage = pl_at(b, x->stage, i % 2);
        pl_wait_smem_to_gmem_read(b, 1);
        pl_store(b, stage, pl_async_load_tmem(b, pl_tile(b, x->acc, PL_OFF(b, 0, i), s)));
        pl_commit_smem(b);
        pl_copy_smem_to_gmem(b, stage, pl_tile(b, to, PL_OFF(b, 0, i), s));
    }
    pl_wait_smem_to_gmem(b, 0);
}

static void body(pl_builder *b, const void *params)
{
    enum { STAGES = 4 };
    (void)params;
    pl_block_cluster(b, 2, 1, 1);
    struct kernel x = {.a = pl_param(b, ARG_A), .b = pl_param(b, ARG_B), .c = pl_param(b, ARG_C)};
    x.a_slots = operand_slots(b, STAGES, TILE_M, TILE_K);
    x.b_slots = operand_slots(b, STAGES, TILE_K, TILE_N);
    x.stage = pl_smem(b, PL_F32, PL_SHAPE(2, TILE_M, CHUNK), PL_SWIZZLE(128));
    x.acc = pl_tmem(b, PL_F32, PL_SHAPE(TILE_M, PAIR_N), 1);
    const pl_pipe_desc d = {.stages = STAGES,
                            .producer = PL_BY_COPIES,
                            .consumer = PL_BY_MMA,
                            .full_at = PL_LEADER}; /* the leader waits, both free their slots */
    x.pipe = pl_pipe_make(b, &d);
    x.done = pl_barrier(b, 1);
    x.row = pl_div(b, pl_program_id(b, 0), 2);
    x.col = pl_program_id(b, 1);
    x.k_tiles = pl_cdiv(b, pl_dim(b, x.a, 1), TILE_K);
    x.rank = pl_cluster_rank(b);

    PL_WARP(b, 0, 0) { load(b, &x); }
    PL_WARP(b, 0, 1)
    {
        PL_IF(b, pl_eq(b, x.rank, 0)) { multiply(b, &x); }
    }
    pl_barrier_wait(b, x.done);
    write_out(b, &x);
}

static pl_launch_dims dims(int64_t m, int64_t n, int32_t n_sms)
{
    (void)n_sms;
    return (pl_launch_dims){{2 * n_tiles(m, PAIR_M), n_tiles(n, PAIR_N), 1}};
}

const struct step step_pair = {"pair", body, dims};
