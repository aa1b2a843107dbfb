/*
 * Step 3: a warpgroup that only copies, and two that only multiply, 64 rows each. A pipe lies between them: its full barriers count the
 * copies' bytes, its empty ones the warps that are done. Registers move from the one to the others.
 */
#include "matmul.h"

enum { STAGES = 4, CONSUMERS = 2 };

struct kernel {
    pl_ref a, b, a_slots, b_slots;
    pl_pipe pipe;
    pl_val row, col, k_tiles;
};

static void produce(pl_builder *b, const struct kernel *t)
{
    PL_FOR(b, k, 0, t->k_tiles)
    {
        PL_PRODUCE(b, t->pipe, slot)
        {
            pl_copy_gmem_to_smem(b,
                                 pl_tile(b, t->a, PL_OFF(b, t->row, k), PL_SHAPE(TILE_M, TILE_K)),
                                 pl_at(b, t->a_slots, slot), pl_full_now(b));
            pl_copy_gmem_to_smem(b,
                                 pl_tile(b, t->b, PL_OFF(b, k, t->col), PL_SHAPE(TILE_K, TILE_N)),
                                 pl_at(b, t->b_slots, slot), pl_full_now(b));
        }
    }
}

static void consume(pl_builder *b, const struct kernel *t)
{
    pl_ref acc = pl_acc(b, PL_F32, PL_SHAPE(ROWS, TILE_N));
    pl_val unit = pl_sub(b, pl_warpgroup_id(b), 1);
    pl_val first = pl_mul(b, unit, ROWS);
    PL_FOR(b, k, 0, t->k_tiles)
    {
        PL_CONSUME(b, t->pipe, slot)
        {
            pl_ref rows = pl_window(b, pl_at(b, t->a_slots, slot), PL_OFF(b, first, 0),
                                    PL_SHAPE(ROWS, TILE_K));
            pl_wgmma(b, acc, rows, pl_at(b, t->b_slots, slot));
        }
    }
    pl_val m = pl_add(b, pl_mul(b, t->row, TILE_M), first), n = pl_mul(b, t->col, TILE_N);
    pl_store(b, pl_window(b, pl_param(b, ARG_C), PL_OFF(b, m, n), PL_SHAPE(ROWS, TILE_N)),
             pl_acc_load(b, acc));
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
                       .pipe = pl_pipe_make(b, &d),
                       .row = pl_program_id(b, 0),
                       .col = pl_program_id(b, 1)};
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

const struct step step_roles = {"roles", body, one_tile_each};
