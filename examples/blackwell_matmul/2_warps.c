/*
 * Step 2: roles. One warp does nothing but copy, another nothing but multiply, and a pipe between them says which slots are full and
 * which are free again. Neither waits for the other longer than it must: copies of later steps are issued while products run.
 */
#include "matmul.h"

static void body(pl_builder *b, const void *params)
{
    enum { STAGES = 4 };
    (void)params;
    pl_ref a = pl_param(b, ARG_A), w = pl_param(b, ARG_B);
    pl_ref a_slots = operand_slots(b, STAGES, TILE_M, TILE_K),
           b_slots = operand_slots(b, STAGES, TILE_K, TILE_N);
    pl_ref acc = pl_tmem(b, PL_F32, PL_SHAPE(TILE_M, TILE_N), 0);
    pl_bar done = pl_barrier(b, 1);
    const pl_pipe_desc d = {.stages = STAGES, .producer = PL_BY_COPIES, .consumer = PL_BY_MMA};
    pl_pipe pipe = pl_pipe_make(b, &d);
    pl_val row = pl_program_id(b, 0), col = pl_program_id(b, 1);
    pl_val k_tiles = pl_cdiv(b, pl_dim(b, a, 1), TILE_K);

    PL_WARP(b, 0, 0)
    {
        PL_FOR(b, k, 0, k_tiles)
        {
            PL_PRODUCE(b, pipe, slot) /* waits until the slot is free */
            {
                pl_copy_gmem_to_smem(b, pl_tile(b, a, PL_OFF(b, row, k), PL_SHAPE(TILE_M, TILE_K)),
                                     pl_at(b, a_slots, slot), pl_full_now(b));
                pl_copy_gmem_to_smem(b, pl_tile(b, w, PL_OFF(b, k, col), PL_SHAPE(TILE_K, TILE_N)),
                                     pl_at(b, b_slots, slot), pl_full_now(b));
            }
        }
    }
    PL_WARP(b, 0, 1)
    {
        PL_FOR(b, k, 0, k_tiles)
        {
            PL_CONSUME(b, pipe, slot) /* waits until it is full; a commit frees it */
            {
                const pl_mma_opt o = {.accumulate = pl_gt(b, k, 0)};
                pl_tcgen05_mma(b, acc, pl_at(b, a_slots, slot), pl_at(b, b_slots, slot), &o);
            }
        }
        pl_tcgen05_commit(b, done);
    }
    pl_barrier_wait(b, done);
    pl_store(b, pl_tile(b, pl_param(b, ARG_C), PL_OFF(b, row, col), PL_SHAPE(TILE_M, TILE_N)),
             pl_async_load_tmem(b, acc));
}

static pl_launch_dims dims(int64_t m, int64_t n, int32_t n_sms)
{
    (void)n_sms;
    return (pl_launch_dims){{n_tiles(m, TILE_M), n_tiles(n, TILE_N), 1}};
}

const struct step step_warps = {"warps", body, dims};
