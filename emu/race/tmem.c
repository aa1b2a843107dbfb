/*
 * Tensor memory in the race check: cells of 16 lanes and one column. All that uses it is asynchronous; order comes from
 * tcgen05.wait within a warp, from commit and mbarrier, between threads from the pair of fences, and from the pipelines.
 */
#include "emu/race/state.h"

#include "emu/tmem.h"

#include <stdlib.h>
#include <string.h>

static struct pl_race_cell *cells_of(struct pl_emu_race *r, const struct pl_emu_cta *cta)
{
    struct pl_race_cta *c = &r->ctas[cta->rank];
    if (c->tensor == NULL)
        c->tensor = calloc(PL_RACE_TMEM_ROWS * PL_RACE_TMEM_COLUMNS, sizeof *c->tensor);
    r->is_lost |= c->tensor == NULL;
    return c->tensor;
}

static enum pl_emu_status touch(struct pl_race_actor *x, const struct pl_race_cells *c)
{
    struct pl_race_cell *cells = cells_of(x->r, c->cta);
    enum pl_emu_status s = cells == NULL ? pl_async_no_memory(x->w) : PL_EMU_NEXT;
    for (uint32_t row = 0; row < PL_RACE_TMEM_ROWS; row++)
        for (uint32_t col = c->first; col < c->end && s == PL_EMU_NEXT; col++)
            if ((c->rows >> row & 1) != 0)
                s = pl_race_touch(x, &cells[row * PL_RACE_TMEM_COLUMNS + col],
                                  row * 16 << 16 | col);
    return s;
}

/* Instructions of one pipeline: the same accumulator, shape and kind. */
static uint64_t pipe_key(const struct pl_async_op *op)
{
    return (uint64_t)op->u.tmem.address << 32 | (op->u.tmem.idesc & 0x1ffe0000u) |
           op->pc->ptx->mods[PL_PTX_CAT_KIND];
}

enum pl_emu_status pl_race_tmem(struct pl_async_op *op, const struct pl_race_cells *c)
{
    struct pl_race_actor x;
    if (!pl_race_op_actor(op, c->is_write, false, &x))
        return PL_EMU_FAULT;
    struct pl_race_access *a = pl_race_access_at(x.r->grid, x.number);
    a->pipe = c->pipe;
    a->pipe_key = c->pipe == PL_RACE_PIPE_D ? pipe_key(op) : 0;
    x.sees = x.sees_write = PL_RACE_T;
    x.space = "tensor";
    x.cta = c->cta;
    return touch(&x, c);
}

void pl_race_tmem_alloc(struct pl_emu_cta *cta, uint32_t first, uint32_t n_columns)
{
    struct pl_race_cell *cells = cells_of(cta->cluster->race, cta);
    for (uint32_t row = 0; cells != NULL && row < PL_RACE_TMEM_ROWS; row++)
        memset(&cells[row * PL_RACE_TMEM_COLUMNS + first], 0, n_columns * sizeof *cells);
}

void pl_race_tmem_wait(struct pl_emu_warp *w, const struct pl_async_kind *kind)
{
    struct pl_emu_race *r = pl_race_of(w);
    struct pl_race_warp *rw = pl_race_warp_of(w);
    for (uint32_t i = 0; i < rw->n_slots; i++) {
        struct pl_race_slot *s = &r->slots[rw->slots[i]];
        if (s->kind == kind && (s->lanes & w->mask) != 0)
            s->has_ended |= s->lanes;
    }
    pl_race_update_watch(w);
}

/* The executor has checked the allocation; dealloc itself is synchronous. */
enum pl_emu_status pl_race_tmem_dealloc(struct pl_emu_warp *w, struct pl_emu_cta *cta,
                                        uint32_t first, uint32_t n_columns)
{
    struct pl_race_actor x;
    struct pl_race_cells c = {.cta = cta,
                              .rows = (1u << PL_RACE_TMEM_ROWS) - 1,
                              .first = first,
                              .end = first + n_columns,
                              .is_write = true};
    if (!pl_race_thread_actor(w, "tcgen05.dealloc", true, false, &x))
        return PL_EMU_FAULT;
    x.sees = x.sees_write = PL_RACE_T;
    x.space = "tensor";
    x.cta = cta;
    return touch(&x, &c);
}
