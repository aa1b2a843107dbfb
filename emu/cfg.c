#include "emu/cfg.h"

#include <string.h>

/* Working state of one pass; the virtual exit is node n_nodes. */
struct pass {
    const struct pl_emu_cfg *g;
    const uint32_t *first_pred, *pred;
    uint32_t *order;  /* nodes in post-order of the reversed graph */
    uint32_t *number; /* position in order, PL_EMU_NO_NODE: not in this pass */
    uint32_t *idom;
    uint32_t *stack, *at;
    uint32_t n;
};

static bool make_preds(const struct pl_emu_cfg *g, struct pl_arena *a, struct pass *p)
{
    uint32_t n_edges = g->first_succ[g->n_nodes];
    uint32_t *first = pl_arena_array(a, (size_t)g->n_nodes + 2, sizeof *first);
    uint32_t *pred = pl_arena_array(a, (size_t)n_edges + 1, sizeof *pred);
    if (first == NULL || pred == NULL)
        return false;
    for (uint32_t e = 0; e < n_edges; e++)
        first[g->succ[e] + 2]++;
    for (uint32_t i = 2; i <= g->n_nodes + 1; i++)
        first[i] += first[i - 1];
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t e = g->first_succ[i]; e < g->first_succ[i + 1]; e++)
            pred[first[g->succ[e] + 1]++] = i;
    p->first_pred = first;
    p->pred = pred;
    return true;
}

/* Depth-first walk against the edges from one exit node, appending to the post-order. done marks nodes of earlier passes. */
static void walk(struct pass *p, uint32_t from, const uint8_t *done)
{
    uint32_t depth = 0;
    const uint32_t SEEN = PL_EMU_NO_NODE - 1;
    if (p->number[from] != PL_EMU_NO_NODE || done[from])
        return;
    p->number[from] = (uint32_t)SEEN;
    p->stack[0] = from;
    p->at[0] = p->first_pred[from];
    while (true) {
        uint32_t n = p->stack[depth];
        if (p->at[depth] == p->first_pred[n + 1]) {
            p->number[n] = p->n;
            p->order[p->n++] = n;
            if (depth-- == 0)
                return;
            continue;
        }
        uint32_t next = p->pred[p->at[depth]++];
        if (p->number[next] != PL_EMU_NO_NODE || done[next])
            continue;
        p->number[next] = (uint32_t)SEEN;
        p->stack[++depth] = next;
        p->at[depth] = p->first_pred[next];
    }
}

/* The common post-dominator of two nodes; the virtual exit has the highest number. */
static uint32_t meet(const struct pass *p, uint32_t a, uint32_t b)
{
    while (a != b) {
        while (p->number[a] < p->number[b])
            a = p->idom[a];
        while (p->number[b] < p->number[a])
            b = p->idom[b];
    }
    return a;
}

static void solve(struct pass *p, uint32_t exit_node, enum pl_emu_exit kind)
{
    const struct pl_emu_cfg *g = p->g;
    bool is_changed = true;
    while (is_changed) {
        is_changed = false;
        for (uint32_t i = p->n; i-- > 0;) {
            uint32_t n = p->order[i];
            uint32_t best = g->exit[n] == kind ? exit_node : PL_EMU_NO_NODE;
            for (uint32_t e = g->first_succ[n]; e < g->first_succ[n + 1]; e++) {
                uint32_t s = g->succ[e];
                if (p->number[s] == PL_EMU_NO_NODE || p->idom[s] == PL_EMU_NO_NODE)
                    continue;
                best = best == PL_EMU_NO_NODE ? s : meet(p, best, s);
            }
            if (best != p->idom[n]) {
                p->idom[n] = best;
                is_changed = true;
            }
        }
    }
}

/* Every successor is of this pass. One that is not never comes to where the others meet. */
static bool is_closed(const struct pass *p, uint32_t node)
{
    const struct pl_emu_cfg *g = p->g;
    for (uint32_t e = g->first_succ[node]; e < g->first_succ[node + 1]; e++)
        if (p->number[g->succ[e]] == PL_EMU_NO_NODE)
            return false;
    return true;
}

bool pl_emu_cfg_ipdom(const struct pl_emu_cfg *g, struct pl_arena *scratch, uint32_t *ipdom)
{
    struct pass p = {.g = g};
    size_t n = (size_t)g->n_nodes + 1;
    uint8_t *done = pl_arena_alloc(scratch, n);
    p.order = pl_arena_array(scratch, n, sizeof *p.order);
    p.number = pl_arena_array(scratch, n, sizeof *p.number);
    p.idom = pl_arena_array(scratch, n, sizeof *p.idom);
    p.stack = pl_arena_array(scratch, n, sizeof *p.stack);
    p.at = pl_arena_array(scratch, n, sizeof *p.at);
    if (!make_preds(g, scratch, &p) || pl_arena_is_exhausted(scratch))
        return false;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        ipdom[i] = PL_EMU_NO_NODE;
    for (int kind = PL_EMU_EXIT_MAIN; kind <= PL_EMU_EXIT_EARLY; kind++) {
        p.n = 0;
        memset(p.number, 0xff, n * sizeof *p.number);
        memset(p.idom, 0xff, n * sizeof *p.idom);
        for (uint32_t i = 0; i < g->n_nodes; i++)
            if (g->exit[i] == kind)
                walk(&p, i, done);
        p.number[g->n_nodes] = p.n;
        p.idom[g->n_nodes] = g->n_nodes;
        solve(&p, g->n_nodes, (enum pl_emu_exit)kind);
        for (uint32_t i = 0; i < p.n; i++) {
            uint32_t node = p.order[i];
            ipdom[node] =
                p.idom[node] == g->n_nodes || !is_closed(&p, node) ? PL_EMU_NO_NODE : p.idom[node];
            done[node] = 1;
        }
    }
    return true;
}
