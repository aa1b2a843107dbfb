/*
 * Who touches shared memory, and how, over the whole program: so that fences and waits for asynchronous copies stand only where something
 * asynchronous is. What this pass does not know of is taken to do everything.
 *
 * An asynchronous access is one by the copy engine or the tensor core: it does not see plain stores before a proxy fence (PTX ISA, Async
 * proxy). Words that threads copy later (cp.async) are plain ones.
 */
#include "src/plan/memory/touch.h"

#include "src/plan/memory/copy.h"

/* What an op does to the shared memory that its refs name. Copies by elements and gathers fence what they store themselves. */
static struct pl_touch touch_of(struct pl_lower *l, uint32_t id)
{
    const struct pl_op *op = pl_ir_op(l->fn, id);
    switch ((int)op->code) {
    case PL_OP_ARRAY:
    case PL_OP_VIEW:
    case PL_OP_LOAD:
    case PL_OP_CLC_NEXT: return (struct pl_touch){0};
    case PL_OP_STORE:
    case PL_OP_SWAP:
    case PL_OP_ATOMIC: return (struct pl_touch){.is_stored = true};
    case PL_OP_COPY_IN:
    case PL_OP_COPY_OUT: return (struct pl_touch){.is_async = pl_copy_is_async(l, op)};
    case PL_OP_GATHER_ROWS:
    case PL_OP_WGMMA:
    case PL_OP_WGMMA_VAL:
    case PL_OP_TCGEN05_MMA:
    case PL_OP_COPY_TMEM:
    case PL_OP_COPY_SCALES: return (struct pl_touch){.is_async = l->has_tma};
    default: return (struct pl_touch){.is_async = true, .is_stored = true};
    }
}

/* Does it complete a phase, or part of one, from outside the CTA's own threads? */
static bool arrives_from_afar(const struct pl_op *op, struct pl_touch t)
{
    switch ((int)op->code) {
    case PL_OP_COPY_IN: return t.is_async;
    case PL_OP_GATHER_ROWS:
    case PL_OP_ASYNC_STORE_SMEM:
    case PL_OP_TCGEN05_COMMIT:
    case PL_OP_CLC_ASK: return true;
    case PL_OP_INLINE_PTX: return op->mask != PL_EFFECT_NONE;
    default: return false;
    }
}

static void note_op(struct pl_lower *l, uint32_t id)
{
    const struct pl_op *op = pl_ir_op(l->fn, id);
    const struct pl_touch t = touch_of(l, id);
    for (int i = 0; i < PL_OP_MAX_REFS; i++) {
        const struct pl_ref_info *r = op->refs[i] != 0 ? pl_ir_ref(l->fn, op->refs[i]) : NULL;
        if (r == NULL || r->space != PL_SPACE_SMEM)
            continue;
        struct pl_touch *all = &l->touches[pl_ir_memory_of(l->fn, r->array)];
        all->is_async |= t.is_async;
        all->is_stored |= t.is_stored;
    }
    l->has_own_text |= op->code == PL_OP_INLINE_PTX && op->mask != PL_EFFECT_NONE;
    l->has_async_out |= op->code == PL_OP_COPY_OUT && t.is_async;
    l->has_far_arrivals |= arrives_from_afar(op, t);
}

void pl_touch_find(struct pl_lower *l)
{
    l->has_far_arrivals = l->n_ctas > 1;
    for (uint32_t id = 1; id < l->fn->ops.n; id++)
        note_op(l, id);
    for (uint32_t a = 1; a < l->fn->arrays.n; a++)
        l->has_stores_to_fence |= l->touches[a].is_async && l->touches[a].is_stored;
    l->has_stores_to_fence |= l->has_own_text;
    l->has_async_out |= l->has_own_text && l->has_tma;
}

bool pl_array_is_async(const struct pl_lower *l, uint32_t array)
{
    return l->has_tma && (l->has_own_text || l->touches[pl_ir_memory_of(l->fn, array)].is_async);
}

void pl_fence_array(struct pl_lower *l, uint32_t array)
{
    if (pl_array_is_async(l, array))
        pl_build_step(&l->b,
                      &(struct pl_sdesc){.op = PL_STEP_fence_async, .attrs = {PL_SA_SPACE_shared}});
}

void pl_fence_stores(struct pl_lower *l)
{
    if (l->has_tma && l->has_stores_to_fence)
        pl_build_step(&l->b,
                      &(struct pl_sdesc){.op = PL_STEP_fence_async, .attrs = {PL_SA_SPACE_shared}});
}
