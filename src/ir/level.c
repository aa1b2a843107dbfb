/*
 * Levels of uniformity: how widely a rank-0 value is known to be equal. A value is as wide as its narrowest source; a REGS variable as
 * its narrowest store and the narrowest condition around one (its value then tells which way that went). Levels only sink, so the
 * walk over all ops is repeated until nothing changes: at most one round for each level and variable in a chain.
 */
#include "src/ir/ir.h"

struct levels {
    struct pl_fn *fn;
    enum pl_level *of_array;
    enum pl_level
        *of_block; /* the narrowest condition that control flow into the block depends on */
    bool has_changed;
};

static enum pl_level narrower(enum pl_level x, enum pl_level y) { return x > y ? x : y; }

static enum pl_level of_val(const struct levels *s, uint32_t val)
{
    return val == 0 ? PL_LEVEL_GRID : s->fn->ops.data[val].level;
}

static enum pl_level of_affine(const struct levels *s, const struct pl_affine *a)
{
    enum pl_level level = PL_LEVEL_GRID;
    for (int i = 0; i < a->n_terms; i++)
        level = narrower(level, of_val(s, a->terms[i].val));
    return level;
}

static enum pl_level of_place(const struct levels *s, uint32_t ref)
{
    const struct pl_ref_info *r = pl_ir_ref(s->fn, ref);
    enum pl_level level = narrower(s->of_array[r->array], of_val(s, r->peer));
    const int rank = pl_ir_ref(s->fn, r->base)->shape.rank;
    for (int i = 0; i < rank; i++) {
        level = narrower(level, of_affine(s, &r->offset[i]));
        if (r->has_clip[i])
            level = narrower(level, of_affine(s, &r->clip[i]));
    }
    return level;
}

static enum pl_level unit_of(const struct pl_fn *fn, uint32_t block)
{
    return fn->blocks.data[block].role_warp >= 0 ? PL_LEVEL_WARP : PL_LEVEL_WARPGROUP;
}

static enum pl_level of_args(const struct levels *s, const struct pl_op *op)
{
    enum pl_level level = PL_LEVEL_GRID;
    for (uint32_t i = 0; i < op->n_args; i++)
        level = narrower(level, of_val(s, op->args[i]));
    return level;
}

static enum pl_level of_program_id(const struct pl_fn *fn, const struct pl_op *op)
{
    bool is_cluster = pl_fn_n_ctas(fn) > 1;
    return is_cluster && fn->cluster[op->axis] == 1 ? PL_LEVEL_CLUSTER : PL_LEVEL_CTA;
}

/* A program id divided by whole clusters: their number along the axis, which the CTAs of one have in common. */
static bool is_cluster_id(const struct pl_fn *fn, const struct pl_op *op)
{
    int64_t n;
    if (op->code != PL_OP_BINARY || op->sub != PL_DIV || !pl_ir_is_const(fn, op->args[1], &n))
        return false;
    const struct pl_op *x = pl_ir_op(fn, op->args[0]);
    while (x->code == PL_OP_CAST)
        x = pl_ir_op(fn, x->args[0]);
    return x->code == PL_OP_PROGRAM_ID && n > 0 && n % fn->cluster[x->axis] == 0 &&
           pl_fn_n_ctas(fn) > 1;
}

static enum pl_level of_load(const struct levels *s, const struct pl_op *op)
{
    enum pl_level level = of_place(s, op->refs[0]);
    return pl_ir_ref(s->fn, op->refs[0])->space == PL_SPACE_SMEM ? narrower(level, PL_LEVEL_CTA)
                                                                 : level;
}

static enum pl_level of_reduce(const struct pl_op *op)
{
    return op->scope == PL_SCOPE_CLUSTER ? PL_LEVEL_CLUSTER
           : op->scope == PL_SCOPE_CTA   ? PL_LEVEL_CTA
                                         : PL_LEVEL_WARPGROUP;
}

/* Ops whose result is not simply as narrow as its operands. */
static enum pl_level of_result(const struct levels *s, const struct pl_op *op)
{
    const struct pl_fn *fn = s->fn;
    if (op->code == PL_OP_PROGRAM_ID)
        return of_program_id(fn, op);
    if (is_cluster_id(fn, op))
        return PL_LEVEL_CLUSTER;
    if (op->code == PL_OP_CLUSTER_RANK)
        return PL_LEVEL_CTA;
    if (op->code == PL_OP_WARPGROUP_ID)
        return PL_LEVEL_WARPGROUP;
    if (op->code == PL_OP_CLC_NEXT)
        return PL_LEVEL_CLUSTER;
    if (op->code == PL_OP_IV)
        return of_args(s, pl_ir_op(fn, op->owner));
    if (op->code == PL_OP_LOAD)
        return of_load(s, op);
    if (op->code == PL_OP_REDUCE)
        return of_reduce(op);
    bool is_of_the_moment = (pl_op_infos[op->code].effects & (PL_EFF_SYNC | PL_EFF_READ)) != 0 ||
                            op->code == PL_OP_PTX_OUT;
    return is_of_the_moment || op->shape.rank > 0 ? unit_of(fn, op->block) : of_args(s, op);
}

static void lower(struct levels *s, enum pl_level *at, enum pl_level level)
{
    if (level > *at) {
        *at = level;
        s->has_changed = true;
    }
}

static void walk(struct levels *s, uint32_t block)
{
    for (PL_IR_FOREACH(s->fn, block, id)) {
        struct pl_op *op = &s->fn->ops.data[id];
        lower(s, &op->level, of_result(s, op));
        bool writes_regs =
            (op->code == PL_OP_STORE || op->code == PL_OP_SWAP || op->code == PL_OP_ARRAY) &&
            op->refs[0] != 0 && pl_ir_ref(s->fn, op->refs[0])->space == PL_SPACE_REGS;
        if (writes_regs)
            lower(s, &s->of_array[pl_ir_ref(s->fn, op->refs[0])->array],
                  op->code == PL_OP_ARRAY ? of_val(s, op->args[0])
                                          : narrower(of_val(s, op->args[0]), s->of_block[block]));
        enum pl_level inner = s->of_block[block];
        if (op->code == PL_OP_ROLE)
            inner = narrower(inner, op->axis >= 0 ? PL_LEVEL_WARP : PL_LEVEL_WARPGROUP);
        for (uint32_t i = 0; i < op->n_args; i++)
            inner = narrower(inner, of_val(s, op->args[i]));
        for (int i = 0; i < 2; i++)
            if (op->regions[i] != 0) {
                lower(s, &s->of_block[op->regions[i]], inner);
                walk(s, op->regions[i]);
            }
        if (op->code ==
            PL_OP_BREAK_IF) /* what follows in the loop, and its next round, depends on it */
            for (uint32_t b = block; b != 0; b = s->fn->blocks.data[b].parent) {
                lower(s, &s->of_block[b], of_val(s, op->args[0]));
                if (s->fn->blocks.data[b].kind == PL_BLOCK_FOR ||
                    s->fn->blocks.data[b].kind == PL_BLOCK_LOOP)
                    break;
            }
    }
}

void pl_ir_levels(struct pl_fn *fn)
{
    struct levels s = {.fn = fn};
    s.of_array = pl_arena_array(fn->arena, fn->arrays.n, sizeof s.of_array[0]);
    s.of_block = pl_arena_array(fn->arena, fn->blocks.n, sizeof s.of_block[0]);
    if (s.of_array == NULL || s.of_block == NULL || pl_arena_is_exhausted(fn->arena))
        return;
    do {
        s.has_changed = false;
        walk(&s, 1);
    } while (s.has_changed);
    for (uint32_t i = 1; i < fn->blocks.n; i++)
        fn->blocks.data[i].level = s.of_block[i];
}

static enum pl_level of_affine_terms(const struct pl_fn *fn, const struct pl_affine *a)
{
    enum pl_level level = PL_LEVEL_GRID;
    for (int i = 0; i < a->n_terms; i++)
        level = narrower(level, pl_ir_op(fn, a->terms[i].val)->level);
    return level;
}

enum pl_level pl_ir_issue_level(const struct pl_fn *fn, uint32_t id)
{
    const struct pl_op *op = pl_ir_op(fn, id);
    const struct pl_block_info *block = &fn->blocks.data[op->block];
    if (block->role_warpgroup >= 0)
        return block->role_warp >= 0 ? PL_LEVEL_WARP : PL_LEVEL_WARPGROUP;
    enum pl_level level = block->level;
    for (uint32_t i = 0; i < op->n_args; i++)
        level =
            narrower(level, op->args[i] == 0 ? PL_LEVEL_GRID : pl_ir_op(fn, op->args[i])->level);
    uint32_t index = op->bar == 0 ? 0 : fn->bars.data[op->bar].index;
    level = narrower(level, index == 0 ? PL_LEVEL_GRID : pl_ir_op(fn, index)->level);
    for (int r = 0; r < PL_OP_MAX_REFS; r++) {
        const struct pl_ref_info *ref = pl_ir_ref(fn, op->refs[r]);
        const int rank = op->refs[r] == 0 ? 0 : pl_ir_ref(fn, ref->base)->shape.rank;
        for (int i = 0; i < rank; i++) {
            level = narrower(level, of_affine_terms(fn, &ref->offset[i]));
            level = narrower(level,
                             ref->has_clip[i] ? of_affine_terms(fn, &ref->clip[i]) : PL_LEVEL_GRID);
        }
    }
    return level <= PL_LEVEL_CTA ? PL_LEVEL_CTA : PL_LEVEL_WARPGROUP;
}
