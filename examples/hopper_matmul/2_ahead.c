/*
 * Step 2: the products of a step are left in flight while those of the next are issued (lag), so the tensor core never runs dry. A slot
 * is filled again one step later.
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
    pl_ref acc = pl_acc(b, PL_F32, PL_SHAPE(TILE_M, TILE_N)); /* begins with zeros */
    const pl_pipeline_desc d = {
        .stages = STAGES, .n_copies = 2, .lag = 1, .copies = copy_in, .user = &t};
    PL_PIPELINE(b, k, slot, pl_cdiv(b, pl_dim(b, t.a, 1), TILE_K), &d)
    {
        pl_wgmma(b, acc, pl_at(b, t.a_slots, slot), pl_at(b, t.b_slots, slot));
        pl_wgmma_wait(b, 1); /* those of the step before are done */
    }
    pl_store(b, pl_tile(b, pl_param(b, ARG_C), PL_OFF(b, t.row, t.col), PL_SHAPE(TILE_M, TILE_N)),
             pl_acc_load(b, acc));
}

const struct step step_ahead = {"ahead", body, one_tile_each};
