/* Where an operation may stand: the `place` column of ops.def, and the rules of roles. */
#include "src/check/check.h"

#include "src/check/where.h"
#include "src/ir/print.h"

#define PL_DIAG_ROWS "src/check/place.def"
#define PL_DIAG_MODE_DECLARE
#include "base/diag_rows.h"
#define PL_DIAG_ROWS "src/check/place.def"
#define PL_DIAG_MODE_DEFINE
#include "base/diag_rows.h"

enum { MAX_WARPGROUPS = 8, WARPS = 4 };

struct places {
    pl_loc role_of[MAX_WARPGROUPS][WARPS]; /* line 0: free */
    bool is_taken[MAX_WARPGROUPS][WARPS];
    bool is_inner[MAX_WARPGROUPS][WARPS]; /* taken inside the role of the warpgroup */
};

static const char *block_word(enum pl_block_kind kind)
{
    static const char *const words[PL_BLOCK_COUNT] = {
        "body", "PL_FOR", "loop", "PL_IF", "PL_ELSE", "role", "PL_PRODUCE", "PL_CONSUME"};
    return words[kind];
}

/* The role of a warp, directly in that of its warpgroup: its other warps go on to the end. */
static bool is_inner_role(const struct pl_block_info *around, const struct pl_op *op)
{
    return around->kind == PL_BLOCK_ROLE && op->axis >= 0 && around->role_warp < 0 &&
           around->n_role_warpgroups == 1 && around->role_warpgroup == op->n;
}

static void check_role(struct pl_fn *fn, const struct pl_op *op, struct places *p)
{
    const struct pl_block_info *around = &fn->blocks.data[op->block];
    const bool is_inner = is_inner_role(around, op);
    if (around->kind != PL_BLOCK_BODY && !is_inner)
        pl_d_role_not_at_top(fn->diags, at(op->loc), block_word(around->kind), around->loc.line);
    const int32_t end = op->n + (op->mask > 1 ? (int32_t)op->mask : 1);
    if (op->n < 0 || op->n >= fn->n_warpgroups || end > fn->n_warpgroups || op->axis < -1 ||
        op->axis >= WARPS) {
        pl_d_role_range(fn->diags, at(op->loc),
                        op->n >= 0 && op->n < fn->n_warpgroups ? end - 1 : op->n, op->axis,
                        fn->n_warpgroups);
        return;
    }
    for (int i = op->n * WARPS; i < end * WARPS; i++) {
        const int g = i / WARPS, w = i % WARPS;
        if (op->axis >= 0 && w != op->axis)
            continue;
        if (is_inner && !p->is_inner[g][w]) {
            p->is_inner[g][w] = true;
            continue;
        }
        if (p->is_taken[g][w]) {
            pl_d_role_twice(fn->diags, at(op->loc), g, w, p->role_of[g][w].line);
            return;
        }
        p->is_taken[g][w] = true;
        p->role_of[g][w] = op->loc;
    }
}

static bool touches_arrays(const struct pl_fn *fn, const struct pl_op *op)
{
    if (op->dtype != PL_DTYPE_NONE && op->shape.rank > 0)
        return true;
    for (uint32_t i = 0; i < op->n_args; i++)
        if (op->args[i] != 0 && pl_ir_op(fn, op->args[i])->shape.rank > 0)
            return true;
    bool is_access = op->code == PL_OP_STORE || op->code == PL_OP_SWAP || op->code == PL_OP_ATOMIC;
    return is_access && pl_ir_ref(fn, op->refs[0])->shape.rank > 0;
}

/* Every warpgroup of the CTA (or cluster) has to come: not from inside a role. */
static bool is_collective(const struct pl_op *op)
{
    if (op->code == PL_OP_REDUCE || op->code == PL_OP_BAR_SYNC)
        return op->scope == PL_SCOPE_CTA || op->scope == PL_SCOPE_CLUSTER;
    return pl_op_infos[op->code].place == PL_PLACE_COLLECT;
}

static void check_op(struct pl_fn *fn, uint32_t id, void *user)
{
    const struct pl_op *op = pl_ir_op(fn, id);
    const struct pl_op_info *info = &pl_op_infos[op->code];
    const struct pl_block_info *block = &fn->blocks.data[op->block];
    bool in_role = block->role_warpgroup >= 0, in_warp = block->role_warp >= 0;
    if (op->code == PL_OP_ROLE)
        check_role(fn, op, user);
    if (in_role && is_collective(op))
        pl_d_sync_in_role(fn->diags, at(op->loc), info->name,
                          op->code == PL_OP_CLUSTER_SYNC ? "cluster" : pl_ir_scope_word(op->scope));
    else if (in_warp && (info->place == PL_PLACE_UNIT || touches_arrays(fn, op)))
        pl_d_array_in_warp(fn->diags, at(op->loc), info->name);
    else if (!in_warp && info->place == PL_PLACE_WARP)
        pl_d_only_in_warp(fn->diags, at(op->loc), info->name);
    else if ((in_warp || !in_role) && info->place == PL_PLACE_ROLE)
        pl_d_only_in_warpgroup(fn->diags, at(op->loc), info->name);
}

void pl_check_places(struct pl_fn *fn)
{
    struct places p = {0};
    pl_check_walk(fn, check_op, &p);
}
