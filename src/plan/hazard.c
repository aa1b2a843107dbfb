/*
 * The hazards of memory inside a unit.
 *
 * A body is a sequential program of its unit, so a load sees what the unit stored before, whichever thread did. The plan keeps,
 * for each SMEM array, what the unit's threads did to it since they last met, and puts a barrier where two accesses conflict
 * and are not by the same thread to the same elements.
 *
 * For GMEM it is the thread that sees what it did itself, and no more is promised. Where a layout has an element in several threads all
 * of them load it and one stores it, so that those count, in a slot of their own: 0, which is no array's. So it is with an element that
 * is a rank-0 value, in the slot of its tensor, or in that one too where tensors may be the same memory.
 */
#include "src/plan/hazard.h"

#include "src/plan/array.h"
#include "src/plan/memory/copy.h"
#include "src/plan/memory/mem.h"
#include "src/plan/sync.h"
#include "src/plan/tensor/frag.h"
#include "src/plan/tensor/tmem.h"

#include <string.h>

enum { OF_GMEM = 0 };

/* The threads meet: what they did is done. A product may still read, for other warps than the one that has waited. */
static void forget(struct pl_hazard *hazards, uint32_t n)
{
    for (struct pl_hazard *h = hazards; h < hazards + n; h++)
        *h = (struct pl_hazard){.has_reads = h->has_products,
                                .has_products = h->has_products,
                                .has_late_products = h->has_late_products};
}

void pl_hazard_clear(struct pl_lower *l)
{
    forget(l->hazards, l->fn->arrays.n);
    l->scratch_is_read = l->has_waits = false;
}

static void record(struct pl_hazard *h, bool is_write, uint32_t key)
{
    if (is_write) {
        h->write_key = h->has_writes && h->write_key != key ? 0 : key;
        h->has_writes = 1;
    } else {
        h->read_key = h->has_reads && h->read_key != key ? 0 : key;
        h->has_reads = 1;
    }
}

static void join(struct pl_hazard *h, const struct pl_hazard *other)
{
    if (other->has_reads)
        record(h, false, other->read_key);
    if (other->has_writes)
        record(h, true, other->write_key);
    h->has_products |= other->has_products;
    h->has_late_products |= other->has_late_products;
}

static bool conflicts(uint8_t has, uint32_t old_key, uint32_t key)
{
    return has && (old_key == 0 || old_key != key);
}

void pl_hazard_access(struct pl_lower *l, uint32_t ref, bool is_write, uint32_t key)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, ref);
    if (r->space != PL_SPACE_SMEM || r->peer != 0)
        return;
    struct pl_hazard *h = &l->hazards[pl_ir_memory_of(l->fn, r->array)];
    if (conflicts(h->has_writes, h->write_key, key) ||
        (is_write && conflicts(h->has_reads, h->read_key, key)))
        pl_unit_meet(l);
    record(h, is_write, key);
}

void pl_hazard_global(struct pl_lower *l, uint32_t ref, bool is_write, const struct pl_lay *lay)
{
    struct pl_hazard *h = &l->hazards[OF_GMEM];
    if (pl_ir_ref(l->fn, ref)->space != PL_SPACE_GMEM || !pl_lay_has_peers(lay))
        return;
    if (is_write ? h->has_reads : h->has_writes)
        pl_unit_meet(l);
    record(h, is_write, 0);
}

/* The slot of elements of the tensor of a ref. */
static uint32_t element_slot(const struct pl_lower *l, const struct pl_ref_info *r)
{
    const pl_kernel *k = l->fn->request.kernel; /* none of a trace that was read */
    return k != NULL && k->may_alias ? (uint32_t)OF_GMEM : r->array;
}

void pl_hazard_element(struct pl_lower *l, uint32_t ref, bool is_write)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, ref);
    if (r->space != PL_SPACE_GMEM)
        return;
    struct pl_hazard *h = &l->hazards[element_slot(l, r)];
    if (is_write ? h->has_reads : h->has_writes)
        pl_unit_meet(l);
    record(h, is_write, 0);
}

/* An asynchronous access by the leader: everybody's plain ones come before it. */
void pl_hazard_async(struct pl_lower *l, uint32_t array, bool is_write)
{
    struct pl_hazard *h = &l->hazards[pl_ir_memory_of(l->fn, array)];
    if (h->has_writes && l->has_tma)
        pl_build_step(&l->b,
                      &(struct pl_sdesc){.op = PL_STEP_fence_async, .attrs = {PL_SA_SPACE_shared}});
    if (h->has_writes || (is_write && h->has_reads))
        pl_unit_meet(l);
}

static void record_product(struct pl_hazard *h)
{
    record(h, false, 0);
    h->has_products = 1;
}

void pl_hazard_product(struct pl_lower *l, uint32_t ref)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, ref);
    pl_hazard_async(l, r->array, false);
    record_product(&l->hazards[pl_ir_memory_of(l->fn, r->array)]);
}

/* What is left of some is waited for later, and read by other warps until they have waited too. */
static void end_products(struct pl_hazard *hazards, uint32_t n, bool is_all)
{
    for (struct pl_hazard *h = hazards; h < hazards + n; h++) {
        if (is_all && h->has_late_products)
            record(h, false, 0);
        h->has_late_products = !is_all && (h->has_products || h->has_late_products);
        h->has_products = 0;
    }
}

/* Each warp has waited for its own: threads may write when all have. Which products a wait for some leaves is the body's to know. */
void pl_hazard_products_end(struct pl_lower *l, bool is_all)
{
    end_products(l->hazards, l->fn->arrays.n, is_all);
}

/*
 * An arrival by the leader alone may complete a phase, and what follows from it the next one. A thread that has not yet seen the phase
 * before would then wait for ever, so the unit meets first, if it has waited since it last met. Lanes of one warp wait together.
 */
void pl_hazard_arrival(struct pl_lower *l)
{
    if (l->has_waits && l->unit_threads > 32)
        pl_unit_meet(l);
}

/* The ops of a loop's body follow its region op; among them stand weak literals, which are in no block. */
static bool is_behind(const struct pl_lower *l, const struct pl_op *op, uint32_t body)
{
    return op->block != 0 && !pl_ir_block_is_in(l->fn, op->block, body);
}

/* Does a round of the loop end with threads at a barrier that others have passed? */
static bool round_ends_with_waits(const struct pl_lower *l, uint32_t body, uint32_t first)
{
    bool has_waits = false;
    for (uint32_t id = first; id < l->fn->ops.n; id++) {
        const struct pl_op *op = pl_ir_op(l->fn, id);
        if (is_behind(l, op, body))
            break;
        if (op->code == PL_OP_BARRIER_WAIT)
            has_waits = true;
        else if (op->block == body &&
                 (op->code == PL_OP_COMMIT_SMEM || op->code == PL_OP_BARRIER_ARRIVE ||
                  (op->code == PL_OP_BAR_SYNC && op->scope != PL_SCOPE_WARP)))
            has_waits = false;
    }
    return has_waits;
}

/* Does a round of the loop end with stores to tensor memory that nobody waited for? Those of a block are waited for in it, if at all. */
static bool round_ends_with_stores(const struct pl_lower *l, uint32_t body, uint32_t first)
{
    uint32_t block = 0; /* of such stores; UINT32_MAX: of several */
    for (uint32_t id = first; id < l->fn->ops.n; id++) {
        const struct pl_op *op = pl_ir_op(l->fn, id);
        if (is_behind(l, op, body))
            break;
        if (op->code == PL_OP_STORE_TMEM)
            block = block == 0 || block == op->block ? op->block : UINT32_MAX;
        else if (op->code == PL_OP_COMMIT_TMEM && (op->block == block || op->block == body))
            block = 0;
    }
    return block != 0;
}

static uint32_t foreseen_key(const struct pl_lower *l, uint32_t ref, const struct pl_lay *lay)
{
    return pl_ir_ref(l->fn, ref)->shape.rank == 0 || lay->vec == 0 ? 0
                                                                   : pl_access_key(l, ref, *lay);
}

/* May a value turn out to be one number everywhere, whatever layout was chosen for it? It is stored in another pattern then. */
static bool may_be_splat(const struct pl_lower *l, uint32_t val, int depth)
{
    const struct pl_op *op = pl_ir_op(l->fn, val);
    if (op->shape.rank == 0)
        return true;
    if (op->code == PL_OP_LOAD) {
        const struct pl_ref_info *r = pl_ir_ref(l->fn, op->refs[0]);
        return r->space == PL_SPACE_REGS && l->var_lays[r->array].is_splat;
    }
    if (op->code == PL_OP_IOTA || op->code == PL_OP_ACC_LOAD || op->code == PL_OP_LOAD_TMEM)
        return false;
    for (uint32_t i = 0; depth > 0 && i < op->n_args; i++)
        if (!may_be_splat(l, op->args[i], depth - 1))
            return false;
    return true;
}

/* To GMEM, where several threads hold the same, or an element is one for all. */
static void foresee_global(struct pl_lower *l, uint32_t id, struct pl_hazard *to)
{
    const struct pl_op *op = pl_ir_op(l->fn, id);
    const bool is_load = op->code == PL_OP_LOAD,
               is_access = is_load || op->code == PL_OP_STORE || op->code == PL_OP_ATOMIC;
    const struct pl_ref_info *r = is_access ? pl_ir_ref(l->fn, op->refs[0]) : NULL;
    if (r == NULL || r->space != PL_SPACE_GMEM)
        return;
    if (r->shape.rank == 0)
        record(&to[element_slot(l, r)], !is_load, 0);
    else if (pl_lay_has_peers(&l->lays[is_load ? id : op->args[0]]))
        record(&to[OF_GMEM], !is_load, 0);
}

/* What an op's threads do to memory, as if it had been lowered: into `to`, by array. */
static void foresee(struct pl_lower *l, uint32_t id, struct pl_hazard *to)
{
    const struct pl_op *op = pl_ir_op(l->fn, id);
    const bool is_load = op->code == PL_OP_LOAD || op->code == PL_OP_SWAP;
    const bool is_store = op->code == PL_OP_STORE || op->code == PL_OP_SWAP;
    foresee_global(l, id, to);
    if (op->code == PL_OP_ATOMIC && pl_ir_ref(l->fn, op->refs[0])->space == PL_SPACE_SMEM)
        record(&to[pl_ir_memory_of(l->fn, pl_ir_ref(l->fn, op->refs[0])->array)], true, 0);
    if (op->code == PL_OP_COPY_OUT && pl_copy_out_is_by_threads(l, op))
        record(&to[pl_ir_memory_of(l->fn, pl_ir_ref(l->fn, op->refs[0])->array)], false, 0);
    const int n_operands = op->code == PL_OP_WGMMA ? 2 : op->code == PL_OP_WGMMA_VAL;
    for (int i = 1; i <= n_operands; i++)
        record_product(&to[pl_ir_memory_of(l->fn, pl_ir_ref(l->fn, op->refs[i])->array)]);
    if (!is_load && !is_store)
        return;
    const struct pl_ref_info *r = pl_ir_ref(l->fn, op->refs[0]);
    if (r->space != PL_SPACE_SMEM)
        return;
    struct pl_hazard *h = &to[pl_ir_memory_of(l->fn, r->array)];
    if (is_load)
        record(h, false, foreseen_key(l, op->refs[0], &l->lays[id]));
    if (is_store)
        record(h, true,
               may_be_splat(l, op->args[0], 8)
                   ? 0
                   : foreseen_key(l, op->refs[0], &l->lays[op->args[0]]));
}

/* Does the unit meet there, whatever it has done? */
static bool is_meeting(const struct pl_op *op)
{
    return op->code == PL_OP_COMMIT_SMEM || op->code == PL_OP_CLUSTER_SYNC ||
           (op->code == PL_OP_BAR_SYNC && op->scope != PL_SCOPE_WARP);
}

static bool ends_products(const struct pl_op *op)
{
    return op->code == PL_OP_WGMMA_WAIT || op->code == PL_OP_ACC_LOAD || op->code == PL_OP_ACC_INIT;
}

/*
 * Before a loop: what its last round may have left when the next begins. A meeting that every round comes to leaves nothing of what was
 * before it.
 */
void pl_hazard_loop(struct pl_lower *l, uint32_t region_op)
{
    const uint32_t body = pl_ir_op(l->fn, region_op)->regions[0], n = l->fn->arrays.n;
    struct pl_hazard *left = pl_arena_array(l->arena, n, sizeof *left);
    l->has_waits |= round_ends_with_waits(l, body, region_op + 1);
    if (round_ends_with_stores(l, body, region_op + 1))
        pl_tmem_note_stores(&l->tmem, pl_tmem_all_columns());
    for (uint32_t id = region_op + 1; left != NULL && id < l->fn->ops.n; id++) {
        const struct pl_op *op = pl_ir_op(l->fn, id);
        if (is_behind(l, op, body))
            break;
        if (pl_scratch_need(l, id) != 0)
            l->scratch_is_read = l->cta_scratch_is_read = true;
        if (op->code == PL_OP_LOAD_TMEM)
            l->tmem.is_read = true;
        if (op->code == PL_OP_STORE_TMEM)
            l->tmem.is_written = true;
        if (op->block == body && is_meeting(op))
            forget(left, n);
        if (op->block == body && ends_products(op))
            end_products(left, n, op->code != PL_OP_WGMMA_WAIT || op->n == 0);
        foresee(l, id, left);
    }
    for (uint32_t a = 0; left != NULL && a < n; a++)
        join(&l->hazards[a], &left[a]);
}

struct pl_hazard_state *pl_hazard_save(struct pl_lower *l)
{
    const uint32_t n = l->fn->arrays.n;
    struct pl_hazard_state *s = pl_arena_alloc(l->arena, sizeof *s);
    struct pl_hazard *arrays = pl_arena_array(l->arena, n, sizeof *arrays);
    if (s == NULL || arrays == NULL)
        return NULL;
    memcpy(arrays, l->hazards, n * sizeof *arrays);
    *s = (struct pl_hazard_state){.arrays = arrays,
                                  .tmem = l->tmem,
                                  .has_waits = l->has_waits,
                                  .scratch_is_read = l->scratch_is_read,
                                  .cta_scratch_is_read = l->cta_scratch_is_read,
                                  .has_no_wgmma = l->has_no_wgmma,
                                  .has_values_in_flight = l->has_values_in_flight,
                                  .has_pending_out = l->has_pending_out,
                                  .has_products = l->has_products};
    return s;
}

void pl_hazard_restore(struct pl_lower *l, const struct pl_hazard_state *s)
{
    if (s == NULL)
        return;
    memcpy(l->hazards, s->arrays, l->fn->arrays.n * sizeof *s->arrays);
    l->tmem = s->tmem;
    l->has_waits = s->has_waits;
    l->scratch_is_read = s->scratch_is_read;
    l->cta_scratch_is_read = s->cta_scratch_is_read;
    l->has_no_wgmma = s->has_no_wgmma;
    l->has_values_in_flight = s->has_values_in_flight;
    l->has_pending_out = s->has_pending_out;
    l->has_products = s->has_products;
}

/* Two paths meet. */
void pl_hazard_merge(struct pl_lower *l, const struct pl_hazard_state *s)
{
    if (s == NULL)
        return;
    for (uint32_t a = 0; a < l->fn->arrays.n; a++)
        join(&l->hazards[a], &s->arrays[a]);
    l->tmem.is_read |= s->tmem.is_read;
    l->tmem.is_written |= s->tmem.is_written;
    l->tmem.has_loads |= s->tmem.has_loads;
    if (s->tmem.has_stores)
        pl_tmem_note_stores(&l->tmem, s->tmem.stored);
    l->has_waits |= s->has_waits;
    l->scratch_is_read |= s->scratch_is_read;
    l->cta_scratch_is_read |= s->cta_scratch_is_read;
    l->has_no_wgmma &= s->has_no_wgmma;
    l->has_values_in_flight |= s->has_values_in_flight;
    l->has_pending_out |= s->has_pending_out;
    l->has_products |= s->has_products;
}

void pl_hazard_add(struct pl_lower *l, struct pl_hazard_state **to)
{
    const struct pl_hazard_state *now = pl_hazard_save(l);
    pl_hazard_merge(l, *to);
    *to = pl_hazard_save(l);
    pl_hazard_restore(l, now);
}
