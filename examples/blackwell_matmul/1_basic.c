/*
 * Step 1: one warpgroup does it all. One of its threads keeps a pipeline of tensor copies going and issues the products, the sums lie in
 * tensor memory, and at the end every thread writes a row of the tile.
 */
#include "matmul.h"

struct tile {
    pl_ref a, b, a_slots, b_slots;
    pl_val row, col;
};

/* Issues the copies of step k; both arrive on `full`. Past the edges come zeros. */
static void copy_in(pl_builder *b, pl_val k, pl_val slot, pl_bar full, void *user)
{
    const struct tile *t = user;
    pl_copy_gmem_to_smem(b, pl_tile(b, t->a, PL_OFF(b, t->row, k), PL_SHAPE(TILE_M, TILE_K)),
                         pl_at(b, t->a_slots, slot), full);
    pl_copy_gmem_to_smem(b, pl_tile(b, t->b, PL_OFF(b, k, t->col), PL_SHAPE(TILE_K, TILE_N)),
                         pl_at(b, t->b_slots, slot), full);
}

static void body(pl_builder *b, const void *params)
{
    enum { STAGES = 4 };
    (void)params;
    struct tile t = {.a = pl_param(b, ARG_A),
                     .b = pl_param(b, ARG_B),
                     .a_slots = operand_slots(b, STAGES, TILE_M, TILE_K),
                     .b_slots = operand_slots(b, STAGES, TILE_K, TILE_N),
                     .row = pl_program_id(b, 0),
                     .col = pl_program_id(b, 1)};
    pl_ref acc = pl_tmem(b, PL_F32, PL_SHAPE(TILE_M, TILE_N), 0);
    pl_bar done = pl_barrier(b, 1);
    const pl_pipeline_desc d = {.stages = STAGES, .n_copies = 2, .copies = copy_in, .user = &t};
    PL_PIPELINE(b, k, slot, pl_cdiv(b, pl_dim(b, t.a, 1), TILE_K), &d)
    {
        const pl_mma_opt o = {.accumulate = pl_gt(b, k, 0)}; /* the first step overwrites */
        pl_tcgen05_mma(b, acc, pl_at(b, t.a_slots, slot), pl_at(b, t.b_slots, slot), &o);
        pl_tcgen05_commit(b, done); /* arrives when the products are done */
        pl_barrier_wait(b, done);   /* then the slot may be filled again */
    }
    pl_store(b, pl_tile(b, pl_param(b, ARG_C), PL_OFF(b, t.row, t.col), PL_SHAPE(TILE_M, TILE_N)),
             pl_async_load_tmem(b, acc));
}

static pl_launch_dims dims(int64_t m, int64_t n, int32_t n_sms)
{
    (void)n_sms;
    return (pl_launch_dims){{n_tiles(m, TILE_M), n_tiles(n, TILE_N), 1}};
}

const struct step step_basic = {"basic", body, dims};
