#include "emu/regs.h"

#include "base/arena.h"

enum { LEAST = 16, MOST = 255, SM_REGISTERS = 65536 };

/* Where a register is alive: instructions of the function, first to last. first > last: nowhere. */
struct range {
    uint32_t first, last;
};

struct scan {
    const struct pl_ptx_module *m;
    const struct pl_ptx_func *f;
    struct range *ranges;
};

static void touch(struct range *r, uint32_t at)
{
    if (at < r->first)
        r->first = at;
    if (at > r->last)
        r->last = at;
}

static void scan_operand(const struct scan *s, const struct pl_ptx_operand *o, uint32_t at)
{
    if (o->reg != 0)
        touch(&s->ranges[o->reg - 1], at);
    bool is_compound =
        o->kind == PL_PTX_OP_VECTOR || o->kind == PL_PTX_OP_PAIR || o->kind == PL_PTX_OP_TENSOR;
    for (uint32_t i = 0; is_compound && i < o->n; i++)
        scan_operand(s, &s->m->pool.data[o->first + i], at);
}

static const struct pl_ptx_ins *ins_at(const struct scan *s, uint32_t at)
{
    return &s->m->ins.data[s->f->first_ins + at];
}

static void find_ranges(const struct scan *s)
{
    for (uint32_t r = 0; r < s->f->regs.n; r++)
        s->ranges[r] = (struct range){UINT32_MAX, 0};
    for (uint32_t at = 0; at < s->f->n_ins; at++) {
        const struct pl_ptx_ins *ins = ins_at(s, at);
        if (ins->guard != 0)
            touch(&s->ranges[ins->guard - 1], at);
        for (uint32_t i = 0; i < ins->n_operands; i++)
            scan_operand(s, &s->m->pool.data[ins->operands + i], at);
    }
}

/* A register that is alive where a loop begins, and set before it, is alive to the loop's end. */
static void extend_over(const struct scan *s, uint32_t target, uint32_t branch)
{
    for (uint32_t r = 0; r < s->f->regs.n; r++) {
        struct range *g = &s->ranges[r];
        if (g->first < target && g->last >= target && g->last < branch)
            g->last = branch;
    }
}

static void extend_over_loops(const struct scan *s)
{
    for (uint32_t at = 0; at < s->f->n_ins; at++) {
        const struct pl_ptx_ins *ins = ins_at(s, at);
        for (uint32_t i = 0; i < ins->n_operands; i++) {
            const struct pl_ptx_operand *o = &s->m->pool.data[ins->operands + i];
            if (o->kind == PL_PTX_OP_LABEL && o->first - s->f->first_ins <= at)
                extend_over(s, o->first - s->f->first_ins, at);
        }
    }
}

static uint32_t most_alive(const struct scan *s, int32_t *change)
{
    for (uint32_t r = 0; r < s->f->regs.n; r++) {
        const struct range *g = &s->ranges[r];
        uint32_t bits = pl_ptx_types[s->f->regs.data[r].type].bits;
        if (g->first > g->last || bits <= 1)
            continue;
        change[g->first] += (int32_t)(bits + 31) / 32;
        change[g->last + 1] -= (int32_t)(bits + 31) / 32;
    }
    int32_t n = 0, most = 0;
    for (uint32_t at = 0; at < s->f->n_ins; at++) {
        n += change[at];
        most = n > most ? n : most;
    }
    return (uint32_t)most;
}

/* An assembler keeps to what .maxnreg says, and to what lets a block of .maxntid or .reqntid threads run. */
static uint32_t most_permitted(const struct pl_ptx_func *f)
{
    uint32_t req = f->req_ntid[0] * f->req_ntid[1] * f->req_ntid[2];
    uint32_t max = f->max_ntid[0] * f->max_ntid[1] * f->max_ntid[2];
    uint32_t n_threads = req != 0 ? req : max, most = f->max_nreg != 0 ? f->max_nreg : MOST;
    if (n_threads > 32 && SM_REGISTERS / n_threads / 8 * 8 < most)
        most = SM_REGISTERS / n_threads / 8 * 8;
    return most < MOST ? most : MOST;
}

uint32_t pl_emu_regs_estimate(const struct pl_ptx_module *m, const struct pl_ptx_func *f,
                              struct pl_arena *scratch)
{
    struct scan s = {m, f, pl_arena_array(scratch, f->regs.n + 1u, sizeof *s.ranges)};
    int32_t *change = pl_arena_array(scratch, f->n_ins + 2u, sizeof *change);
    if (s.ranges == NULL || change == NULL)
        return LEAST;
    find_ranges(&s);
    extend_over_loops(&s);
    uint32_t n = most_alive(&s, change), most = most_permitted(f);
    if (n < LEAST)
        n = LEAST;
    return n < most ? n : most;
}
