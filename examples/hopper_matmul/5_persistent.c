/*
 * Step 5: as many CTAs as the chip holds walk the tiles of c, in strips whose neighbours share operands in L2. The pipe goes on from tile
 * to tile: the next one's operands come in while this one is written. The first step of a tile overwrites the sums of the last.
 */
#include "matmul.h"

enum { STAGES = 4, CONSUMERS = 2 };

struct kernel {
    pl_ref a, b, a_slots, b_slots;
    pl_ref stages; /* (CONSUMERS, 2, ROWS, CHUNK) of c */
    pl_pipe pipe;
    pl_val m_tiles, n_tiles, k_tiles;
    pl_sched tiles;
};

static void load_tile(pl_builder *b, const struct kernel *t, pl_val row, pl_val col)
{
    PL_FOR(b, k, 0, t->k_tiles)
    {
        PL_PRODUCE(b, t->pipe, slot)
        {
            pl_copy_gmem_to_smem(b, pl_tile(b, t->a, PL_OFF(b, row, k), PL_SHAPE(TILE_M, TILE_K)),
                                 pl_at(b, t->a_slots, slot), pl_full_now(b));
            pl_copy_gmem_to_smem(b, pl_tile(b, t->b, PL_OFF(b, k, col), PL_SHAPE(TILE_K, TILE_N)),
                                 pl_at(b, t->b_slots, slot), pl_full_now(b));
        }
    }
}

static void produce(pl_builder *b, const struct kernel *t)
{
    pl_val row, col;
    PL_TILES(b, i, t->tiles)
    {
        pl_snake(b, i, t->m_tiles, t->n_tiles, 0, 8, &row, &col);
        load_tile(b, t, row, col);
    }
}

/* The sums of a warpgroup to c from (m, n) on; stages: (2, ROWS, CHUNK). */
static void write_tile(pl_builder *b, pl_ref stages, pl_ref acc, pl_val m, pl_val n)
{
    const pl_shape s = PL_SHAPE(ROWS, CHUNK);
    for (int32_t i = 0; i < TILE_N / CHUNK; i++) {
        pl_ref stage = pl_at(b, stages, i % 2);
        pl_wait_smem_to_gmem_read(b, 1); /* at most one copy still reads: the other tile's */
        pl_store(b, stage, pl_acc_load(b, pl_tile(b, acc, PL_OFF(b, 0, i), s)));
        pl_commit_smem(b);
        pl_copy_smem_to_gmem(
            b, stage, pl_window(b, pl_param(b, ARG_C), PL_OFF(b, m, pl_add(b, n, i * CHUNK)), s));
    }
}

static void multiply_tile(pl_builder *b, const struct kernel *t, pl_ref acc, pl_val first)
{
    PL_FOR(b, k, 0, t->k_tiles)
    {
        PL_CONSUME(b, t->pipe, slot)
        {
            pl_ref rows = pl_window(b, pl_at(b, t->a_slots, slot), PL_OFF(b, first, 0),
                                    PL_SHAPE(ROWS, TILE_K));
            pl_wgmma_if(b, acc, rows, pl_at(b, t->b_slots, slot), pl_gt(b, k, 0));
        }
    }
}

static void consume(pl_builder *b, const struct kernel *t)
{
    pl_ref acc = pl_acc(b, PL_F32, PL_SHAPE(ROWS, TILE_N));
    pl_val unit = pl_sub(b, pl_warpgroup_id(b), 1), row, col;
    pl_val first = pl_mul(b, unit, ROWS);
    PL_TILES(b, i, t->tiles)
    {
        pl_snake(b, i, t->m_tiles, t->n_tiles, 0, 8, &row, &col);
        multiply_tile(b, t, acc, first);
        pl_val m = pl_add(b, pl_mul(b, row, TILE_M), first);
        write_tile(b, pl_at(b, t->stages, unit), acc, m, pl_mul(b, col, TILE_N));
    }
}

static void body(pl_builder *b, const void *params)
{
    (void)params;
    pl_block_warpgroups(b, 1 + CONSUMERS);
    const pl_pipe_desc d = {.stages = STAGES,
                            .producer = PL_BY_COPIES,
                            .consumer = PL_BY_MMA,
                            .n_consumers = CONSUMERS,
                            .lag = 1};
    struct kernel t = {.a = pl_param(b, ARG_A),
                       .b = pl_param(b, ARG_B),
                       .a_slots = operand_slots(b, STAGES, TILE_M, TILE_K),
                       .b_slots = operand_slots(b, STAGES, TILE_K, TILE_N),
                       .stages = pl_smem(b, PL_F32, PL_SHAPE(CONSUMERS, 2, ROWS, CHUNK),
                                         pl_mma_transforms(b, PL_F32, CHUNK)),
                       .pipe = pl_pipe_make(b, &d),
                       .m_tiles = pl_cdiv(b, pl_dim(b, pl_param(b, ARG_C), 0), TILE_M),
                       .n_tiles = pl_cdiv(b, pl_dim(b, pl_param(b, ARG_C), 1), TILE_N)};
    t.tiles = pl_sched_static(b, pl_mul(b, t.m_tiles, t.n_tiles));
    t.k_tiles = pl_cdiv(b, pl_dim(b, t.a, 1), TILE_K);
    PL_WARPGROUP(b, 0)
    {
        pl_set_max_registers(b, 40);
        PL_WARP(b, 0, 0) { produce(b, &t); } /* one warp is enough to issue copies */
    }
    PL_WARPGROUPS(b, 1, CONSUMERS)
    {
        pl_set_max_registers(b, 232);
        consume(b, &t);
    }
}

static pl_launch_dims dims(int64_t m, int64_t n, int32_t n_sms)
{
    const int64_t n_all = n_tiles(m, TILE_M) * n_tiles(n, TILE_N);
    return (pl_launch_dims){{n_all < n_sms ? n_all : n_sms, 1, 1}};
}

const struct step step_persistent = {"persistent", body, dims};
