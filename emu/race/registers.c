/*
 * Registers of asynchronous operations in the race check: a tcgen05.ld fills its registers until tcgen05.wait::ld, a wgmma has its
 * accumulator, and A in registers, until wgmma.wait_group; and wgmma.fence must stand between other uses of those and a wgmma.
 *
 * Once a warp has such registers its instructions are looked at one by one.
 */
#include "emu/race/state.h"

#include "emu/program.h"
#include "emu/tmem.h"

#include <stdlib.h>
#include <string.h>

/* Operand o, or an element of it, is or contains register `reg`. */
static bool names(const struct pl_ptx_module *m, const struct pl_ptx_operand *o, uint32_t reg)
{
    if (o->reg == reg)
        return true;
    bool is_compound =
        o->kind == PL_PTX_OP_VECTOR || o->kind == PL_PTX_OP_PAIR || o->kind == PL_PTX_OP_TENSOR;
    for (uint32_t i = 0; is_compound && i < o->n; i++)
        if (names(m, &m->pool.data[o->first + i], reg))
            return true;
    return false;
}

static bool uses(const struct pl_ptx_module *m, const struct pl_ptx_ins *ins, uint32_t reg)
{
    for (uint32_t k = 0; reg != 0 && k < ins->n_operands; k++)
        if (names(m, &m->pool.data[ins->operands + k], reg))
            return true;
    return false;
}

/* Does the instruction name a register of an operand of the operation? */
static bool uses_operand(const struct pl_ptx_module *m, const struct pl_ptx_ins *ins,
                         const struct pl_ptx_operand *o)
{
    if (o->kind != PL_PTX_OP_VECTOR)
        return o->kind == PL_PTX_OP_REG && uses(m, ins, o->reg);
    for (uint32_t i = 0; i < o->n; i++)
        if (uses(m, ins, m->pool.data[o->first + i].reg))
            return true;
    return false;
}

static bool is_open(const struct pl_race_slot *s)
{
    return s->frame != NULL && s->has_ended != s->lanes;
}

void pl_race_update_watch(struct pl_emu_warp *w)
{
    const struct pl_emu_race *r = pl_race_of(w);
    const struct pl_race_warp *rw = pl_race_warp_of(w);
    w->is_watched = false;
    for (uint32_t i = 0; i < rw->n_slots; i++)
        w->is_watched |= is_open(&r->slots[rw->slots[i]]);
    w->is_watched |= rw->n_wgmma_regs != 0;
}

/* A load fills its first operand; of a wgmma, D and A in registers are in use, but other wgmmas may follow on them. */
static bool disturbs(const struct pl_ptx_module *m, const struct pl_emu_ins *ins,
                     const struct pl_race_slot *s)
{
    const struct pl_ptx_operand *o = &m->pool.data[s->pc->ptx->operands];
    if (s->kind == &pl_tmem_ld)
        return uses_operand(m, ins->ptx, o);
    if (ins->exec == s->pc->exec)
        return false;
    return uses_operand(m, ins->ptx, o) ||
           (o[1].kind == PL_PTX_OP_VECTOR && uses_operand(m, ins->ptx, o + 1));
}

/* ---- wgmma.fence --------------------------------------------------------------------------------------------------------- */

static bool is_wgmma(const struct pl_ptx_ins *ins)
{
    return strncmp(pl_ptx_infos[ins->form].id, "wgmma_", 6) == 0 && ins->n_operands > 2;
}

static bool uses_wgmma_regs(const struct pl_race_warp *rw, const struct pl_ptx_module *m,
                            const struct pl_ptx_operand *o)
{
    bool is_compound = o->kind == PL_PTX_OP_VECTOR || o->kind == PL_PTX_OP_PAIR;
    for (uint32_t i = 0; is_compound && i < o->n; i++)
        if (uses_wgmma_regs(rw, m, &m->pool.data[o->first + i]))
            return true;
    return o->reg != 0 && o->reg < rw->n_wgmma_regs && rw->wgmma_regs[o->reg] != 0;
}

/* Another instruction than a wgmma uses registers of one: a fence must follow before the next. */
static void note_use(const struct pl_emu_race *r, struct pl_race_warp *rw,
                     const struct pl_emu_ins *ins)
{
    const struct pl_ptx_module *m = &r->cl->grid->program->module;
    if (!rw->is_fenced || is_wgmma(ins->ptx))
        return;
    for (uint32_t k = 0; k < ins->ptx->n_operands; k++)
        if (uses_wgmma_regs(rw, m, &m->pool.data[ins->ptx->operands + k])) {
            rw->is_fenced = false;
            rw->use_line = ins->line;
        }
}

static bool add_reg(struct pl_race_warp *rw, uint32_t reg)
{
    if (reg >= rw->n_wgmma_regs) {
        uint32_t n = reg + 64;
        uint8_t *grown = realloc(rw->wgmma_regs, n);
        if (grown == NULL)
            return false;
        memset(grown + rw->n_wgmma_regs, 0, n - rw->n_wgmma_regs);
        rw->wgmma_regs = grown;
        rw->n_wgmma_regs = n;
    }
    rw->wgmma_regs[reg] = 1;
    return true;
}

/* Source: PTX ISA, wgmma.fence: before the first wgmma.mma_async, and between another access of its registers and it */
enum pl_emu_status pl_race_wgmma(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    struct pl_race_warp *rw = pl_race_warp_of(w);
    const struct pl_ptx_module *m = &w->cta->cluster->grid->program->module;
    const struct pl_ptx_operand *o = &m->pool.data[ins->ptx->operands];
    if (!rw->is_fenced) {
        pl_race_report_wgmma(w, rw->use_line);
        return PL_EMU_FAULT;
    }
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t i = 0; o[k].kind == PL_PTX_OP_VECTOR && i < o[k].n; i++)
            if (!add_reg(rw, m->pool.data[o[k].first + i].reg))
                return pl_async_no_memory(w);
    w->is_watched = true;
    return PL_EMU_NEXT;
}

void pl_race_wgmma_fence(struct pl_emu_warp *w)
{
    struct pl_race_warp *rw = pl_race_warp_of(w);
    rw->is_fenced = true;
    rw->use_line = 0;
}

enum pl_emu_status pl_race_registers(struct pl_emu_warp *w, const struct pl_emu_group *g)
{
    const struct pl_emu_race *r = pl_race_of(w);
    const struct pl_race_warp *rw = pl_race_warp_of(w);
    const struct pl_emu_ins *ins = g->pc;
    while (ins->ptx == NULL) /* a join */
        ins++;
    for (uint32_t i = 0; i < rw->n_slots; i++) {
        const struct pl_race_slot *s = &r->slots[rw->slots[i]];
        if (is_open(s) && s->frame == g->frame->regs &&
            disturbs(&r->cl->grid->program->module, ins, s)) {
            w->pc = ins;
            pl_race_report_register(w, ins, s);
            return PL_EMU_FAULT;
        }
    }
    note_use(r, pl_race_warp_of(w), ins);
    return PL_EMU_NEXT;
}
