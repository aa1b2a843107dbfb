/*
 * Barriers, phases, fences.
 *
 * A phase word is a register of every thread for each barrier group that somebody waits on; bit i is the parity that the next
 * wait on barrier i expects, flipped by each wait, reset by nothing.
 */
#include "src/plan/sync.h"

#include "base/debug.h"
#include "src/plan/hazard.h"
#include "src/plan/memory/access.h"
#include "src/plan/memory/touch.h"
#include "src/plan/scalar.h"
#include "src/plan/tensor/tmem.h"
#include "src/plan/tensor/wgmma.h"
#include "src/plan/work.h"

#include <string.h>

enum { CTA_BARRIER = 0, FIRST_WARPGROUP_BARRIER = 1 };

static void set_guard(struct pl_lower *l, pl_reg p)
{
    l->b.guard = p;
    l->b.guard_is_negated = false;
}

/* ---- threads meet ---- */

/* outside roles a warpgroup alone is not all who wait with the CTA's leader, nor all who use tensor memory */
static bool is_whole(const struct pl_lower *l)
{
    return l->role_warpgroup >= 0 || l->unit_threads >= l->n_threads;
}

/* Operations of a pair reach the tensor memory of both CTAs. */
static bool is_whole_for_tensor(const struct pl_lower *l)
{
    return is_whole(l) && (l->role_warpgroup >= 0 || !l->is_pair);
}

void pl_unit_meet(struct pl_lower *l)
{
    const bool has_waits = l->has_waits && !is_whole(l);
    if (l->unit_threads == 32) {
        pl_build_do1(&l->b, PL_STEP_sync_warp, pl_opnd_imm(-1));
    } else if (l->n_threads == l->unit_threads) {
        pl_build_do2(&l->b, PL_STEP_sync_threads, pl_opnd_imm(CTA_BARRIER),
                     pl_opnd_imm(l->n_threads));
        l->cta_scratch_is_read = false;
    } else {
        struct pl_opnd id = pl_ix_add(&l->b, PL_ST_u32, pl_lower_warpgroup(l),
                                      pl_opnd_imm(FIRST_WARPGROUP_BARRIER));
        pl_build_do2(&l->b, PL_STEP_sync_threads, id, pl_opnd_imm(l->unit_threads));
    }
    pl_hazard_clear(l);
    l->has_waits = has_waits;
}

void pl_unit_barrier(struct pl_lower *l)
{
    pl_tmem_before_barrier(l);
    pl_unit_meet(l);
    pl_tmem_after_barrier(l, is_whole_for_tensor(l));
}

static void cta_meet(struct pl_lower *l)
{
    pl_build_do2(&l->b, PL_STEP_sync_threads, pl_opnd_imm(CTA_BARRIER), pl_opnd_imm(l->n_threads));
    l->cta_scratch_is_read = false;
    pl_hazard_clear(l);
}

void pl_cta_barrier(struct pl_lower *l)
{
    pl_tmem_before_barrier(l);
    cta_meet(l);
    pl_tmem_after_barrier(l, !l->is_pair);
}

static void cluster_meet(struct pl_lower *l)
{
    pl_build_step(&l->b,
                  &(struct pl_sdesc){.op = PL_STEP_cluster_arrive, .attrs = {PL_SA_SEM_release}});
    pl_build_step(&l->b,
                  &(struct pl_sdesc){.op = PL_STEP_cluster_wait, .attrs = {PL_SA_SEM_acquire}});
    l->cta_scratch_is_read = false;
    pl_hazard_clear(l);
}

void pl_cluster_barrier_steps(struct pl_lower *l)
{
    pl_tmem_before_barrier(l);
    cluster_meet(l);
    pl_tmem_after_barrier(l, true);
}

void pl_lower_bar_sync(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    if (op->scope == PL_SCOPE_WARP)
        pl_build_do1(&l->b, PL_STEP_sync_warp, pl_opnd_imm(-1));
    else if (op->scope == PL_SCOPE_WARPGROUP)
        pl_unit_barrier(l);
    else
        pl_cta_barrier(l);
}

void pl_lower_cluster_sync(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    (void)op;
    if (l->n_ctas == 1)
        pl_cta_barrier(l);
    else
        pl_cluster_barrier_steps(l);
}

void pl_lower_fence(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    static const uint8_t scopes[PL_FENCE_COUNT] = {[PL_FENCE_CTA] = PL_SA_SCOPE_cta,
                                                   [PL_FENCE_CLUSTER] = PL_SA_SCOPE_cluster,
                                                   [PL_FENCE_GPU] = PL_SA_SCOPE_gpu,
                                                   [PL_FENCE_SYSTEM] = PL_SA_SCOPE_sys};
    (void)id;
    if (op->sub == PL_FENCE_ASYNC) {
        if (l->has_tma)
            pl_build_step(&l->b, &(struct pl_sdesc){.op = PL_STEP_fence_async,
                                                    .attrs = {PL_SA_SPACE_shared}});
        return;
    }
    uint8_t scope = scopes[op->sub];
    if (scope == PL_SA_SCOPE_cluster && !l->has_cluster)
        scope = PL_SA_SCOPE_cta;
    pl_build_step(&l->b,
                  &(struct pl_sdesc){.op = PL_STEP_fence, .attrs = {PL_SA_SEM_acq_rel, scope}});
}

void pl_lower_commit_smem(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    (void)op;
    pl_fence_stores(l);
    pl_unit_meet(l);
}

/* Programmatic dependent launch: until the grids before have ended and their memory is visible; the ones after may start. */
void pl_lower_griddep_wait(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    (void)op;
    pl_build_do(&l->b, PL_STEP_grid_wait);
    l->plan->launch.waits_for_predecessor = true;
}

void pl_lower_griddep_launch(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    (void)op;
    pl_build_do(&l->b, PL_STEP_grid_launch);
}

/* ---- registers ---- */

enum { SM_REGISTERS = 65536, MOST_AT_LAUNCH = 255 };

/* What each thread is given at launch: the entry requires exactly n_threads, so the assembler and the hardware agree on it. */
int32_t pl_registers_at_launch(const struct pl_lower *l)
{
    const int32_t n = (int32_t)(SM_REGISTERS / l->n_threads / 8 * 8);
    return n > MOST_AT_LAUNCH ? MOST_AT_LAUNCH : n;
}

/* The most that the warpgroups have at once, all of them asking for what they do: more than the CTA has, and some wait for ever. */
static int32_t registers_wanted(const struct pl_lower *l)
{
    int32_t most[PL_MAX_UNITS] = {0}, sum = 0;
    const int32_t n_units = (int32_t)(l->n_threads / 128);
    for (uint32_t id = 1; id < l->fn->ops.n; id++) {
        const struct pl_op *op = pl_ir_op(l->fn, id);
        const int32_t first = l->fn->blocks.data[op->block].role_warpgroup,
                      end = first + l->fn->blocks.data[op->block].n_role_warpgroups;
        for (int32_t unit = first;
             op->code == PL_OP_SET_MAX_REGISTERS && unit >= 0 && unit < end && unit < n_units;
             unit++)
            most[unit] = op->n > most[unit] ? op->n : most[unit];
    }
    for (int32_t i = 0; i < n_units; i++)
        sum += most[i] != 0 ? most[i] : pl_registers_at_launch(l);
    return sum;
}

void pl_lower_set_max_registers(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    const int32_t base = pl_registers_at_launch(l), pool = base * (int32_t)(l->n_threads / 128),
                  wanted = registers_wanted(l);
    if (wanted > pool) {
        struct pl_where where = pl_lower_where(op);
        where.has_values = true;
        where.seen = wanted;
        where.wanted = pool;
        pl_d_register_pool(l->diags, where, wanted, pool, base);
        l->status = PL_E_INVALID;
        return;
    }
    if (op->n != base)
        pl_build_step(&l->b,
                      &(struct pl_sdesc){.op = PL_STEP_max_registers,
                                         .attrs = {op->n > base ? PL_SA_DIR_up : PL_SA_DIR_down},
                                         .n = 1,
                                         .opnds = {pl_opnd_imm(op->n)}});
}

/* ---- transaction barriers ---- */

static struct pl_opnd bar_index(struct pl_lower *l, uint32_t bar)
{
    const uint32_t val = l->fn->bars.data[bar].index;
    return val == 0 ? pl_opnd_imm(0)
                    : pl_ix_convert(&l->b, PL_ST_u32, pl_lower_int_type(l, val),
                                    pl_lower_scalar(l, val));
}

struct pl_opnd pl_bar_addr(struct pl_lower *l, uint32_t bar)
{
    const uint32_t offset = l->bar_offsets[l->fn->bars.data[bar].group];
    struct pl_opnd i = bar_index(l, bar);
    if (pl_opnd_is_imm(i))
        return pl_opnd_addr((pl_reg){0}, offset + 8 * i.imm);
    struct pl_opnd at = pl_ix_add(&l->b, PL_ST_u32, pl_ix_shl(&l->b, PL_ST_u32, i, 3),
                                  pl_opnd_reg(pl_shared_base(l)));
    return pl_opnd_addr(at.u.reg, offset);
}

/* The barrier's address as a value. */
pl_reg pl_bar_value(struct pl_lower *l, uint32_t bar)
{
    struct pl_opnd a = pl_bar_addr(l, bar);
    struct pl_opnd base = a.u.reg.id != 0 ? pl_opnd_reg(a.u.reg) : pl_opnd_reg(pl_shared_base(l));
    return pl_ix_add(&l->b, PL_ST_u32, base, pl_opnd_imm(a.imm)).u.reg;
}

bool pl_bar_is_at_leader(const struct pl_lower *l, uint32_t bar)
{
    return l->n_ctas > 1 && pl_ir_group_of(l->fn, bar)->at == PL_LEADER;
}

static struct pl_opnd pair_leader(struct pl_lower *l)
{
    return pl_ix_and(&l->b, PL_ST_u32, pl_opnd_reg(pl_lower_sreg(l, PL_SR_cluster_rank)), ~1u);
}

struct pl_opnd pl_bar_leader_addr(struct pl_lower *l, uint32_t bar)
{
    return pl_opnd_addr(pl_build_op2(&l->b, PL_STEP_peer_address, PL_ST_NONE,
                                     pl_opnd_reg(pl_bar_value(l, bar)), pair_leader(l)),
                        0);
}

pl_reg pl_pair_mask(struct pl_lower *l)
{
    struct pl_opnd both = pl_opnd_imm(3);
    if (l->n_ctas > 2)
        both = pl_opnd_reg(pl_build_op2(&l->b, PL_STEP_shl, PL_ST_b32,
                                        pl_opnd_reg(pl_build_in_reg(&l->b, PL_ST_b32, both)),
                                        pair_leader(l)));
    return pl_opnd_is_imm(both) ? pl_build_in_reg(&l->b, PL_ST_b16, both)
                                : pl_build_convert(&l->b, PL_ST_u16, PL_ST_u32, PL_SA_NONE, both);
}

void pl_arrive_part(struct pl_lower *l, struct pl_opnd addr, uint32_t n)
{
    if (n == 0)
        return;
    set_guard(l, pl_lower_leader(l));
    pl_build_step(&l->b, &(struct pl_sdesc){.op = PL_STEP_bar_arrive_part,
                                            .n = 3,
                                            .opnds = {pl_opnd_reg(pl_build_reg(&l->b, PL_RC_B64)),
                                                      addr, pl_opnd_imm(n)}});
    set_guard(l, (pl_reg){0});
}

/*
 * Slots of pipes are in shared memory, and that alone is ordered between the CTAs that share a pipe where the text may say so: what orders
 * device memory for a cluster waits until all of it has been written, in every step of a loop (sm_90 and sm_100: MEMBAR.ALL.GPU, and
 * CCTL.IVALL behind a wait; bench/sass.sh, nvdisasm 13.5). PTX ISA, membar / fence: sync_restrict; mbarrier.arrive: relaxed
 */
static bool orders_shared_only(const struct pl_lower *l, uint32_t bar)
{
    return l->has_shared_order && l->n_ctas > 1 && pl_ir_group_of(l->fn, bar)->pipe != 0;
}

static void arrive_peer(struct pl_lower *l, uint32_t bar, struct pl_opnd addr)
{
    const bool is_narrow = orders_shared_only(l, bar);
    if (is_narrow)
        pl_build_do(&l->b, PL_STEP_fence_out_shared);
    pl_build_step(&l->b,
                  &(struct pl_sdesc){.op = PL_STEP_bar_arrive_peer,
                                     .attrs = {is_narrow ? PL_SA_SEM_relaxed : PL_SA_SEM_release},
                                     .n = 1,
                                     .opnds = {addr}});
}

/* It tells of bytes that asynchronous operations bring, not of anything that threads did: no fence. */
void pl_arrive_tx_peer(struct pl_lower *l, uint32_t bar, struct pl_opnd addr, struct pl_opnd n)
{
    const uint8_t sem = orders_shared_only(l, bar) ? PL_SA_SEM_relaxed : PL_SA_SEM_release;
    pl_build_step(
        &l->b, &(struct pl_sdesc){
                   .op = PL_STEP_bar_arrive_tx_peer, .attrs = {sem}, .n = 2, .opnds = {addr, n}});
}

/* One arrival of the unit, or of the executing warp of it, all of whose threads have come. */
static void arrive(struct pl_lower *l, uint32_t bar, bool is_warps)
{
    const bool is_to_all = pl_ir_group_of(l->fn, bar)->is_cluster && l->n_ctas > 1;
    const bool is_away = is_to_all || pl_bar_is_at_leader(l, bar);
    struct pl_opnd addr;
    pl_reg who;
    if (is_to_all) { /* a thread for each CTA */
        struct pl_opnd tid = pl_opnd_reg(pl_lower_sreg(l, PL_SR_tid_x)),
                       rank = is_warps ? pl_ix_and(&l->b, PL_ST_u32, tid, 31) : pl_lower_rank(l);
        addr = pl_opnd_addr(
            pl_build_op2(&l->b, PL_STEP_peer_address, PL_ST_NONE, pl_opnd_reg(pl_bar_value(l, bar)),
                         pl_ix_min(&l->b, PL_ST_u32, rank, pl_opnd_imm(l->n_ctas - 1))),
            0);
        who = pl_build_compare(&l->b, PL_SA_CMP_lt, PL_ST_u32, rank, pl_opnd_imm(l->n_ctas));
    } else {
        addr = is_away ? pl_bar_leader_addr(l, bar) : pl_bar_addr(l, bar);
        who = is_warps ? pl_lower_warp_leader(l) : pl_lower_leader(l);
    }
    if (!is_away && !is_warps)
        pl_arrive_part(l, addr, l->bar_scales[l->fn->bars.data[bar].group] - 1);
    set_guard(l, who);
    if (is_away)
        arrive_peer(l, bar, addr);
    else
        pl_build_do1(&l->b, PL_STEP_bar_arrive1, addr);
    set_guard(l, (pl_reg){0});
}

void pl_arrive_leader(struct pl_lower *l, uint32_t bar) { arrive(l, bar, false); }

/* Where each warp arrives, no warp waits for another of its unit, and each orders what its own lanes did. */
void pl_lower_barrier_arrive(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    const bool is_warps = l->warp_arrivals[l->fn->bars.data[op->bar].group] > 1;
    (void)id;
    if (is_warps) {
        pl_tmem_before_barrier(l);
        pl_build_do1(&l->b, PL_STEP_sync_warp, pl_opnd_imm(-1));
    } else {
        pl_unit_barrier(l);
    }
    arrive(l, op->bar, is_warps);
}

/* Barriers on which only whole warpgroups arrive count warps. */
static void count_arrivals(struct pl_lower *l)
{
    enum { WARPS = 4 };
    for (uint32_t g = 1; g < l->fn->groups.n; g++) {
        const struct pl_bar_group *bg = &l->fn->groups.data[g];
        l->warp_arrivals[g] = bg->n_copy_arrivals == 0 && bg->n_mma_arrivals == 0 ? WARPS : 1;
    }
    for (uint32_t id = 1; id < l->fn->ops.n; id++) {
        const struct pl_op *op = pl_ir_op(l->fn, id);
        if (op->code == PL_OP_ASYNC_STORE_SMEM ||
            (op->code == PL_OP_BARRIER_ARRIVE && l->fn->blocks.data[op->block].role_warp >= 0))
            l->warp_arrivals[l->fn->bars.data[op->bar].group] = 1;
    }
}

static pl_reg phase_word(struct pl_lower *l, uint32_t group)
{
    if (l->phases[group].id == 0) {
        const struct pl_bar_group *g = &l->fn->groups.data[group];
        l->phases[group] = pl_build_mutable(&l->b, PL_RC_B32);
        l->b.is_in_entry = true;
        pl_build_mov(&l->b, PL_ST_b32, l->phases[group],
                     pl_opnd_imm(!g->starts_ready     ? 0
                                 : g->n_barriers == 1 ? 1
                                                      : -1));
        l->b.is_in_entry = false;
    }
    return l->phases[group];
}

/* Has the phase of this parity completed? The question carries the cluster's order where a peer may arrive. */
static pl_reg ask_phase(struct pl_lower *l, enum pl_step_op how, struct pl_opnd addr,
                        struct pl_opnd parity, uint8_t sem)
{
    pl_reg p = pl_build_reg(&l->b, PL_RC_PRED);
    struct pl_sdesc ask = {.op = (uint8_t)how, .n = 3, .opnds = {pl_opnd_reg(p), addr, parity}};
    if (l->n_ctas > 1) {
        ask.attrs[0] = sem;
        ask.attrs[1] = PL_SA_SCOPE_cluster;
    }
    pl_build_step(&l->b, &ask);
    return p;
}

/* Ask until the phase is over. Where the chip can suspend a waiting thread the question itself waits. */
static void wait_phase(struct pl_lower *l, uint32_t bar, struct pl_opnd addr, struct pl_opnd parity)
{
    const uint32_t again = pl_build_label(&l->b);
    const bool is_narrow = orders_shared_only(l, bar);
    pl_build_put_label(&l->b, again);
    pl_reg p = ask_phase(l, l->has_tma ? PL_STEP_bar_try : PL_STEP_bar_test, addr, parity,
                         is_narrow ? PL_SA_SEM_relaxed : PL_SA_SEM_acquire);
    pl_build_jump(&l->b, again, p, true);
    if (is_narrow)
        pl_build_do(&l->b, PL_STEP_fence_in_shared);
}

/* The parity that the barrier's bit of the phase word asks for. */
static struct pl_opnd parity_of(struct pl_lower *l, uint32_t bar)
{
    const uint32_t group = l->fn->bars.data[bar].group;
    struct pl_opnd word = pl_opnd_reg(phase_word(l, group));
    if (l->fn->groups.data[group].n_barriers == 1)
        return word;
    struct pl_opnd bit =
        pl_opnd_reg(pl_build_op2(&l->b, PL_STEP_shr, PL_ST_u32, word, bar_index(l, bar)));
    return pl_ix_and(&l->b, PL_ST_u32, bit, 1);
}

/* The one wait for a barrier alone, executed once: its parity is known. */
static bool is_only_wait(const struct pl_lower *l, uint32_t id, uint32_t group)
{
    if (l->loop_depth != 0 || l->fn->groups.data[group].n_barriers != 1)
        return false;
    for (uint32_t other = 1; other < l->fn->ops.n; other++) {
        const struct pl_op *op = pl_ir_op(l->fn, other);
        if ((op->code == PL_OP_BARRIER_WAIT || op->code == PL_OP_BARRIER_TEST) && other != id &&
            l->fn->bars.data[op->bar].group == group)
            return false;
    }
    return true;
}

static void turn_phase(struct pl_lower *l, uint32_t bar)
{
    const uint32_t group = l->fn->bars.data[bar].group;
    const struct pl_opnd word = pl_opnd_reg(phase_word(l, group)), i = bar_index(l, bar);
    struct pl_opnd bit = pl_opnd_imm(1);
    if (l->fn->groups.data[group].n_barriers > 1)
        bit =
            pl_opnd_is_imm(i)
                ? pl_opnd_imm((int64_t)1 << i.imm)
                : pl_opnd_reg(pl_build_op2(&l->b, PL_STEP_shl, PL_ST_b32,
                                           pl_opnd_reg(pl_build_in_reg(&l->b, PL_ST_b32, bit)), i));
    pl_build_step(&l->b,
                  &(struct pl_sdesc){
                      .op = PL_STEP_xor, .type = PL_ST_b32, .n = 3, .opnds = {word, word, bit}});
}

void pl_lower_barrier_wait(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    const uint32_t group = l->fn->bars.data[op->bar].group;
    const struct pl_bar_group *g = &l->fn->groups.data[group];
    const bool is_only = is_only_wait(l, id, group);
    wait_phase(l, op->bar, pl_bar_addr(l, op->bar),
               is_only ? pl_opnd_imm(g->starts_ready) : parity_of(l, op->bar));
    l->has_waits = true;
    if (l->unit_has_tensor && (g->orders_tensor_core || g->n_mma_arrivals != 0))
        pl_build_do(&l->b, PL_STEP_tensor_after);
    if (!is_only)
        turn_phase(l, op->bar);
}

/* Does not wait, and does not count as one. Lanes may see different moments: true when all of them see the phase complete. */
void pl_lower_barrier_test(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    struct pl_opnd addr = pl_bar_addr(l, op->bar), parity = parity_of(l, op->bar);
    const pl_reg seen = ask_phase(l, PL_STEP_bar_test, addr, parity, PL_SA_SEM_acquire),
                 all = pl_build_reg(&l->b, PL_RC_PRED);
    pl_build_step(
        &l->b, &(struct pl_sdesc){.op = PL_STEP_vote_all,
                                  .n = 3,
                                  .opnds = {pl_opnd_reg(all), pl_opnd_reg(seen), pl_opnd_imm(-1)}});
    l->vals[id] = pl_lval_scalar(PL_PRED, pl_opnd_reg(all));
}

/* ---- around the body ---- */

static void init_barriers(struct pl_lower *l)
{
    const struct pl_fn *fn = l->fn;
    if (fn->groups.n <= 1)
        return;
    struct pl_opnd tid = pl_opnd_reg(pl_lower_sreg(l, PL_SR_tid_x));
    count_arrivals(l);
    set_guard(l, pl_build_compare(&l->b, PL_SA_CMP_eq, PL_ST_u32, tid, pl_opnd_imm(0)));
    for (uint32_t g = 1; g < fn->groups.n; g++) {
        const struct pl_bar_group *bg = &fn->groups.data[g];
        const bool is_of_pair = bg->at == PL_LEADER && l->n_ctas > 1;
        const int64_t count = (int64_t)bg->n_arrivals * l->bar_scales[g] * l->warp_arrivals[g] *
                              (bg->is_cluster ? l->n_ctas
                               : is_of_pair   ? 2
                                              : 1);
        for (int i = 0; i < bg->n_barriers; i++)
            pl_build_do2(&l->b, PL_STEP_bar_init,
                         pl_opnd_addr((pl_reg){0}, l->bar_offsets[g] + 8 * (uint32_t)i),
                         pl_opnd_imm(count));
    }
    if (l->has_tma && l->has_far_arrivals)
        pl_build_do(&l->b, PL_STEP_fence_bar_init);
    set_guard(l, (pl_reg){0});
}

/* With tensor memory the whole stands in the entry, so that what follows from its address is worked out there too. */
void pl_lower_prologue(struct pl_lower *l)
{
    const bool has_tmem = l->plan->launch.tmem_columns != 0;
    if (l->fn->groups.n <= 1 && l->n_ctas == 1 && !has_tmem)
        return;
    l->b.is_in_entry = has_tmem;
    pl_lower_work(l);
    pl_tmem_take(l);
    init_barriers(l);
    if (l->n_ctas > 1)
        pl_cluster_barrier_steps(l);
    else
        pl_cta_barrier(l);
    pl_tmem_taken(l);
    l->b.is_in_entry = false;
}

/*
 * A launch that may overlap the grid before (options->pdl) with a body that does not say where to wait: every thread waits here, between
 * the set-up, which touches no GMEM, and the body; and then lets the next grid set up in turn. Permission and wait come from one decision.
 */
void pl_lower_grid_order(struct pl_lower *l)
{
    bool has_wait = false, has_launch = false;
    if (!l->fn->request.is_pdl || (l->fn->request.target->features & PL_F_PDL) == 0)
        return;
    for (uint32_t id = 1; id < l->fn->ops.n; id++) {
        has_wait |= pl_ir_op(l->fn, id)->code == PL_OP_GRIDDEP_WAIT;
        has_launch |= pl_ir_op(l->fn, id)->code == PL_OP_GRIDDEP_LAUNCH;
    }
    if (has_wait)
        return;
    l->waits_for_grid = true;
    pl_lower_griddep_wait(l, 0, NULL);
    if (!has_launch)
        pl_lower_griddep_launch(l, 0, NULL);
}

/* Until the unit's copies out have read their sources: shared memory must outlive them. */
void pl_drain_out(struct pl_lower *l)
{
    if (!l->has_pending_out)
        return;
    set_guard(l, pl_lower_leader(l));
    pl_build_step(&l->b, &(struct pl_sdesc){.op = PL_STEP_bulk_wait,
                                            .attrs = {PL_SA_READ_read},
                                            .n = 1,
                                            .opnds = {pl_opnd_imm(0)}});
    set_guard(l, (pl_reg){0});
    l->has_pending_out = false;
}

void pl_lower_epilogue(struct pl_lower *l)
{
    const bool has_tmem = l->plan->launch.tmem_columns != 0;
    pl_drain_out(l);
    pl_wgmma_drain(l); /* they read shared memory too */
    pl_tmem_settle(
        l); /* then no fence is wanted: giving columns back is no asynchronous operation */
    if (l->n_ctas > 1) /* nobody leaves while a peer may still reach into its memory */
        cluster_meet(l);
    else if (has_tmem)
        cta_meet(l);
    pl_tmem_give(l);
    if (l->has_idle_label)
        pl_build_put_label(&l->b, l->idle_label);
    /* A grid whose CTAs all leave early must not end before the one ahead of it: the next waits for this one alone. */
    if (l->has_idle_label && l->waits_for_grid)
        pl_build_do(&l->b, PL_STEP_grid_wait);
    pl_build_do(&l->b, PL_STEP_leave);
}
