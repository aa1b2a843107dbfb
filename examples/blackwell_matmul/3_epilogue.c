/*
 * Step 3: a tiled epilogue. The sums leave tensor memory a chunk of columns at a time, through two staging tiles of shared memory and
 * out by tensor copies: few registers, whole lines of c in each write, and a chunk is loaded while the one before it is on its way.
 */
#include "matmul.h"

struct kernel {
    pl_ref a, b, c, a_slots, b_slots, stage, acc;
    pl_pipe pipe;
    pl_bar done;
    pl_val row, col, k_tiles;
};

static void load(pl_builder *b, const struct kernel *x)
{
    PL_FOR(b, k, 0, x->k_tiles)
    {
        PL_PRODUCE(b, x->pipe, slot)
        {
            pl_copy_gmem_to_smem(b,
                                 pl_tile(b, x->a, PL_OFF(b, x->row, k), PL_SHAPE(TILE_M, TILE_K)),
                                 pl_at(b, x->a_slots, slot), pl_full_now(b));
            pl_copy_gmem_to_smem(b,
                                 pl_tile(b, x->b, PL_OFF(b, k, x->col), PL_SHAPE(TILE_K, TILE_N)),
                                 pl_at(b, x->b_slots, slot), pl_full_now(b));
        }
    }
}

static void multiply(pl_builder *b, const struct kernel *x)
{
    PL_FOR(b, k, 0, x->k_tiles)
    {
        PL_CONSUME(b, x->pipe, slot)
        {
            const pl_mma_opt o = {.accumulate = pl_gt(b, k, 0)};
            pl_tcgen05_mma(b, x->acc, pl_at(b, x->a_slots, slot), pl_at(b, x->b_slots, slot), &o);
        }
    }
    pl_tcgen05_commit(b, x->done);
}

static void write_out(pl_builder *b, const struct kernel *x)
{
    const pl_shape s = PL_SHAPE(TILE_M, CHUNK);
    pl_ref to = pl_tile(b, x->c, PL_OFF(b, x->row, x->col), PL_SHAPE(TILE_M, TILE_N));
    for (int i = 0; i < TILE_N / CHUNK; i++) { /* a C loop: unrolled while tracing */
        pl_ref stage = pl_at(b, x->stage, i % 2);
        pl_wait_smem_to_gmem_read(b, 1); /* the copy before the last has read its tile */
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
    struct kernel x = {.a = pl_param(b, ARG_A), .b = pl_param(b, ARG_B), .c = pl_param(b, ARG_C)};
    x.a_slots = operand_slots(b, STAGES, TILE_M, TILE_K);
    x.b_slots = operand_slots(b, STAGES, TILE_K, TILE_N);
    x.stage = pl_smem(b, PL_F32, PL_SHAPE(2, TILE_M, CHUNK), PL_SWIZZLE(128));
    x.acc = pl_tmem(b, PL_F32, PL_SHAPE(TILE_M, TILE_N), 0);
    const pl_pipe_desc d = {.stages = STAGES, .producer = PL_BY_COPIES, .consumer = PL_BY_MMA};
    x.pipe = pl_pipe_make(b, &d);
    x.done = pl_barrier(b, 1);
    x.row = pl_program_id(b, 0);
    x.col = pl_program_id(b, 1);
    x.k_tiles = pl_cdiv(b, pl_dim(b, x.a, 1), TILE_K);

    PL_WARP(b, 0, 0) { load(b, &x); }
    PL_WARP(b, 0, 1) { multiply(b, &x); }
    pl_barrier_wait(b, x.done);
    write_out(b, &x);
}

static pl_launch_dims dims(int64_t m, int64_t n, int32_t n_sms)
{
    (void)n_sms;
    return (pl_launch_dims){{n_tiles(m, TILE_M), n_tiles(n, TILE_N), 1}};
}

const struct step step_epilogue = {"epilogue", body, dims};
