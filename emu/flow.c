#include "emu/flow.h"

#include <string.h>

struct builder {
    const struct pl_ptx_module *m;
    const struct pl_ptx_func *f;
    const struct pl_ptx_ins *ins; /* of the function */
    uint32_t n_ins;
    uint8_t *is_leader;
    uint32_t *block_of; /* of each instruction */
    uint32_t n_blocks;
    uint32_t *first, *first_succ, *succ;
    uint8_t *exit;
};

static bool ends_block(uint16_t form)
{
    return form == PL_PTX_bra || form == PL_PTX_brx_idx || form == PL_PTX_ret ||
           form == PL_PTX_exit || form == PL_PTX_trap;
}

/* A call from which nothing comes back. */
static bool is_last_call(const struct builder *b, const struct pl_ptx_ins *i)
{
    if (i->form != PL_PTX_call || i->guard != 0)
        return false;
    for (uint32_t k = 0; k < i->n_operands; k++) {
        const struct pl_ptx_operand *o = &b->m->pool.data[i->operands + k];
        if (o->kind == PL_PTX_OP_FUNC)
            return b->m->funcs.data[o->first].is_noreturn;
    }
    return false;
}

/* Targets of a branch, counted from the function's first instruction. */
static uint32_t targets_of(const struct builder *b, const struct pl_ptx_ins *i,
                           const uint32_t **list)
{
    if (i->form == PL_PTX_bra) {
        *list = &b->m->pool.data[i->operands].first;
        return 1;
    }
    if (i->form == PL_PTX_brx_idx) {
        const struct pl_ptx_proto *p = &b->m->protos.data[b->m->pool.data[i->operands + 1].first];
        *list = p->targets;
        return p->n_targets;
    }
    return 0;
}

static void find_leaders(struct builder *b)
{
    b->is_leader[0] = 1;
    for (uint32_t k = 0; k < b->n_ins; k++) {
        const uint32_t *list;
        uint32_t n = targets_of(b, &b->ins[k], &list);
        for (uint32_t t = 0; t < n; t++)
            b->is_leader[list[t] - b->f->first_ins] = 1;
        if (ends_block(b->ins[k].form) || is_last_call(b, &b->ins[k]))
            b->is_leader[k + 1] = 1;
    }
}

static void number_blocks(struct builder *b)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k <= b->n_ins;
         k++) { /* the end is a block of its own: an implicit return */
        if (b->is_leader[k] || k == b->n_ins)
            b->first[n++] = k;
        b->block_of[k] = n - 1;
    }
    b->first[n] = b->n_ins + 1;
    b->n_blocks = n;
}

/* Successors and exits of one block; writes at most 1 + targets edges from `at`, returns the new end. */
static uint32_t connect(struct builder *b, uint32_t block, uint32_t at)
{
    uint32_t k = b->first[block + 1] - 1;
    if (k == b->n_ins) {
        b->exit[block] = b->f->is_entry ? PL_EMU_EXIT_EARLY : PL_EMU_EXIT_MAIN;
        return at;
    }
    const struct pl_ptx_ins *i = &b->ins[k];
    const uint32_t *list;
    uint32_t n = targets_of(b, i, &list);
    for (uint32_t t = 0; t < n; t++)
        b->succ[at++] = b->block_of[list[t] - b->f->first_ins];
    if (i->form == PL_PTX_ret)
        b->exit[block] = b->f->is_entry ? PL_EMU_EXIT_EARLY : PL_EMU_EXIT_MAIN;
    else if (i->form == PL_PTX_exit || i->form == PL_PTX_trap || is_last_call(b, i))
        b->exit[block] = PL_EMU_EXIT_EARLY;
    bool falls_through = !(ends_block(i->form) && i->guard == 0) && !is_last_call(b, i);
    if (falls_through)
        b->succ[at++] = block + 1;
    return at;
}

static bool is_reached(const struct builder *b, uint32_t block)
{
    if (block == 0)
        return true;
    for (uint32_t e = 0; e < b->first_succ[b->n_blocks]; e++)
        if (b->succ[e] == block)
            return true;
    return false;
}

/* An entry's lanes leave one by one; where the textually last ones leave is what all others head for. */
static void choose_main_exit(struct builder *b)
{
    if (!b->f->is_entry)
        return;
    for (uint32_t block = b->n_blocks; block-- > 0;) {
        uint32_t k = b->first[block + 1] - 1;
        bool leaves =
            k == b->n_ins || b->ins[k].form == PL_PTX_ret || b->ins[k].form == PL_PTX_exit;
        if (leaves && is_reached(b, block)) {
            b->exit[block] = PL_EMU_EXIT_MAIN;
            return;
        }
    }
}

static bool build(struct builder *b, struct pl_arena *a)
{
    size_t n = (size_t)b->n_ins + 2;
    b->is_leader = pl_arena_alloc(a, n);
    b->block_of = pl_arena_array(a, n, sizeof *b->block_of);
    b->first = pl_arena_array(a, n + 1, sizeof *b->first);
    b->exit = pl_arena_alloc(a, n);
    b->first_succ = pl_arena_array(a, n + 1, sizeof *b->first_succ);
    if (pl_arena_is_exhausted(a))
        return false;
    find_leaders(b);
    number_blocks(b);
    size_t n_edges = b->n_blocks;
    for (uint32_t k = 0; k < b->n_ins; k++) {
        const uint32_t *list;
        n_edges += targets_of(b, &b->ins[k], &list);
    }
    b->succ = pl_arena_array(a, n_edges + 1, sizeof *b->succ);
    if (b->succ == NULL)
        return false;
    uint32_t at = 0;
    for (uint32_t block = 0; block < b->n_blocks; block++) {
        b->first_succ[block] = at;
        at = connect(b, block, at);
    }
    b->first_succ[b->n_blocks] = at;
    choose_main_exit(b);
    return true;
}

/* Lanes that come to a bare end of the kernel leave at once: nobody meets there, and barriers wait for no one who is there. */
static bool is_bare_end(const struct builder *b, uint32_t block)
{
    const struct pl_ptx_ins *i = &b->ins[b->first[block]];
    bool leaves = i->form == PL_PTX_exit || (i->form == PL_PTX_ret && b->f->is_entry);
    return leaves && i->guard == 0;
}

const struct pl_emu_flow *pl_emu_flow_of(const struct pl_ptx_module *m, const struct pl_ptx_func *f,
                                         struct pl_arena *scratch)
{
    struct builder b = {.m = m, .f = f, .ins = m->ins.data + f->first_ins, .n_ins = f->n_ins};
    struct pl_emu_flow *flow = PL_NEW(scratch, struct pl_emu_flow);
    uint32_t *meet = pl_arena_array(scratch, (size_t)f->n_ins + 1, sizeof *meet);
    uint8_t *is_meet = pl_arena_alloc(scratch, (size_t)f->n_ins + 1);
    if (pl_arena_is_exhausted(scratch) || !build(&b, scratch))
        return NULL;
    uint32_t *ipdom = pl_arena_array(scratch, b.n_blocks, sizeof *ipdom);
    struct pl_emu_cfg g = {
        .n_nodes = b.n_blocks, .first_succ = b.first_succ, .succ = b.succ, .exit = b.exit};
    if (ipdom == NULL || !pl_emu_cfg_ipdom(&g, scratch, ipdom))
        return NULL;
    memset(meet, 0xff, ((size_t)f->n_ins + 1) * sizeof *meet);
    for (uint32_t k = 0; k < b.n_ins; k++) {
        const struct pl_ptx_ins *i = &b.ins[k];
        bool can_split = i->form == PL_PTX_brx_idx || (i->form == PL_PTX_bra && i->guard != 0);
        uint32_t at = can_split ? ipdom[b.block_of[k]] : PL_EMU_NO_NODE;
        if (at == PL_EMU_NO_NODE || b.first[at] == b.n_ins || is_bare_end(&b, at))
            continue;
        meet[k] = b.first[at];
        is_meet[b.first[at]] = 1;
    }
    *flow = (struct pl_emu_flow){.meet = meet,
                                 .is_meet = is_meet,
                                 .n_blocks = b.n_blocks,
                                 .first = b.first,
                                 .first_succ = b.first_succ,
                                 .succ = b.succ};
    return flow;
}
