/*
 * Tensor memory: who has which columns, how a warpgroup's registers go to it and come back, and in what order.
 *
 * Columns: the block takes all it needs in one go, by its first warp, before the barrier that ends the prologue; every thread then
 * reads their address. Arrays follow each other by falling size.
 *
 * Registers: warp w of a warpgroup reaches lanes 32 w to 32 w + 31, in whole instructions of the warp, so loads and stores of
 * different warps never meet. A thread waits for its loads when a value is first used, and for its stores before it stores to the same
 * columns again, which no order of its own gives, and before another thread may depend on them. What a matrix operation of the unit's leader needs of the other threads, one barrier of the unit gives, between the
 * fences that order tensor operations; it is put where it is needed, and not where threads meet anyway.
 *
 * Source: PTX ISA, TensorCore 5th Generation Family Instructions: Tensor Memory Allocation; tcgen05 Memory Consistency Model
 */
#include "src/plan/tensor/tmem.h"

#include "base/debug.h"
#include "src/ir/tmem.h"
#include "src/plan/array.h"
#include "src/plan/elem.h"
#include "src/plan/memory/mem.h"
#include "src/plan/scalar.h"
#include "src/plan/sync.h"
#include "src/plan/tensor/frag.h"

enum { MAX_COLUMNS = 512, WARP_LANES = 32, MAX_WORDS = 32 };

/* ---- columns ---- */

static bool is_owner(const struct pl_fn *fn, uint32_t array)
{
    return fn->arrays.data[array].space == PL_SPACE_TMEM && pl_ir_memory_of(fn, array) == array;
}

/* The columns of the owner and of all that share its memory. */
static uint32_t shared_columns(const struct pl_fn *fn, uint32_t owner)
{
    int64_t most = 0;
    for (uint32_t a = 1; a < fn->arrays.n; a++)
        if (fn->arrays.data[a].space == PL_SPACE_TMEM && pl_ir_memory_of(fn, a) == owner &&
            pl_tmem_array_columns(fn, a) > most)
            most = pl_tmem_array_columns(fn, a);
    return (uint32_t)most;
}

/* The largest that is not placed yet; 0: all are. */
static uint32_t next_owner(const struct pl_lower *l, const bool *is_placed)
{
    uint32_t best = 0;
    for (uint32_t a = 1; a < l->fn->arrays.n; a++)
        if (is_owner(l->fn, a) && !is_placed[a] &&
            (best == 0 || shared_columns(l->fn, a) > shared_columns(l->fn, best)))
            best = a;
    return best;
}

void pl_tmem_map(struct pl_lower *l)
{
    const struct pl_fn *fn = l->fn;
    bool *is_placed = pl_arena_array(l->arena, fn->arrays.n, sizeof *is_placed);
    uint32_t at = 0, taken = PL_TMEM_UNIT_COLUMNS;
    if (is_placed == NULL || !pl_tmem_is_used(fn))
        return;
    for (uint32_t a; (a = next_owner(l, is_placed)) != 0;) {
        struct pl_plan_columns *c = pl_vec_push(l->arena, &l->plan->columns);
        const uint32_t n = shared_columns(fn, a);
        if (c != NULL)
            *c = (struct pl_plan_columns){pl_arena_printf(l->arena, "tmem%u", a), at, n};
        is_placed[a] = true;
        for (uint32_t o = 1; o < fn->arrays.n; o++)
            if (fn->arrays.data[o].space == PL_SPACE_TMEM && pl_ir_memory_of(fn, o) == a)
                l->columns[o] =
                    (struct pl_tmem_place){.first = at,
                                           .slot_columns = (uint32_t)pl_tmem_slot_columns(fn, o),
                                           .per_column = pl_tmem_elems_per_column(fn, o)};
        at += n;
    }
    while (taken < at)
        taken *= 2;
    PL_ASSERT(taken <= MAX_COLUMNS); /* PL4003 */
    l->plan->launch.tmem_columns = taken;
    l->is_pair = pl_tmem_is_pair(fn);
}

enum pl_sattr pl_tensor_group(const struct pl_lower *l)
{
    return l->is_pair ? PL_SA_GROUP_pair : PL_SA_GROUP_one;
}

static void set_guard(struct pl_lower *l, pl_reg p)
{
    l->b.guard = p;
    l->b.guard_is_negated = false;
}

static pl_reg is_first_warp(struct pl_lower *l)
{
    return pl_build_compare(&l->b, PL_SA_CMP_lt, PL_ST_u32,
                            pl_opnd_reg(pl_lower_sreg(l, PL_SR_tid_x)), pl_opnd_imm(WARP_LANES));
}

static void grouped_step(struct pl_lower *l, enum pl_step_op op, uint8_t n, struct pl_opnd x,
                         struct pl_opnd y)
{
    pl_build_step(&l->b, &(struct pl_sdesc){.op = (uint8_t)op,
                                            .attrs = {(uint8_t)pl_tensor_group(l)},
                                            .n = n,
                                            .opnds = {x, y}});
}

void pl_tmem_take(struct pl_lower *l)
{
    if (l->plan->launch.tmem_columns == 0)
        return;
    set_guard(l, is_first_warp(l));
    grouped_step(l, PL_STEP_tmem_take, 2, pl_opnd_addr((pl_reg){0}, l->tmem_slot_offset),
                 pl_opnd_imm(l->plan->launch.tmem_columns));
    grouped_step(l, PL_STEP_tmem_take_last, 0, pl_opnd_none(), pl_opnd_none());
    set_guard(l, (pl_reg){0});
}

void pl_tmem_taken(struct pl_lower *l)
{
    if (l->plan->launch.tmem_columns == 0)
        return;
    l->tmem_base = pl_build_reg(&l->b, PL_RC_B32);
    const struct pl_opnd reg = pl_opnd_reg(l->tmem_base);
    pl_build_step(&l->b,
                  &(struct pl_sdesc){.op = PL_STEP_load,
                                     .type = PL_ST_b32,
                                     .attrs = {PL_SA_SPACE_shared},
                                     .n = 2,
                                     .opnds = {pl_build_list(&l->b, &reg, 1),
                                               pl_opnd_addr((pl_reg){0}, l->tmem_slot_offset)}});
    pl_build_settle(&l->b, l->tmem_base);
}

void pl_tmem_give(struct pl_lower *l)
{
    if (l->plan->launch.tmem_columns == 0)
        return;
    set_guard(l, is_first_warp(l));
    grouped_step(l, PL_STEP_tmem_give, 2, pl_opnd_reg(l->tmem_base),
                 pl_opnd_imm(l->plan->launch.tmem_columns));
    set_guard(l, (pl_reg){0});
}

/* ---- addresses ---- */

static uint32_t log2_of(uint32_t n)
{
    uint32_t log2 = 0;
    while (n >> log2 > 1)
        log2++;
    return log2;
}

struct pl_opnd pl_tmem_addr(struct pl_lower *l, uint32_t ref)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, ref);
    const struct pl_tmem_place *p = &l->columns[r->array];
    const int last = pl_ir_ref(l->fn, r->base)->shape.rank - 1;
    const uint32_t shift = log2_of(p->per_column);
    struct pl_opnd column = pl_lower_affine(l, &r->offset[last], PL_ST_s32), at = pl_opnd_imm(0);
    int64_t konst = p->first;
    column = pl_opnd_is_imm(column) ? pl_opnd_imm(column.imm >> shift)
                                    : pl_ix_shr(&l->b, PL_ST_u32, column, shift);
    if (last == 2)
        at = pl_ix_mul(&l->b, PL_ST_u32, pl_lower_affine(l, &r->offset[0], PL_ST_s32),
                       pl_opnd_imm(p->slot_columns));
    at = pl_ix_add(&l->b, PL_ST_u32, at, column);
    if (pl_opnd_is_imm(at)) {
        konst += at.imm;
        at = pl_opnd_imm(0);
    }
    at = pl_ix_add(&l->b, PL_ST_u32, at, pl_opnd_reg(l->tmem_base));
    return pl_opnd_addr(at.u.reg, konst);
}

/* The same from the first lane of the warp's quarter. */
static struct pl_opnd quarter_addr(struct pl_lower *l, uint32_t ref)
{
    struct pl_opnd a = pl_tmem_addr(l, ref);
    struct pl_opnd lanes =
        pl_ix_and(&l->b, PL_ST_u32, pl_opnd_reg(pl_lower_sreg(l, PL_SR_tid_x)), 0x60);
    lanes = pl_ix_shl(&l->b, PL_ST_u32, lanes, 16);
    a.u.reg = pl_ix_add(&l->b, PL_ST_u32, pl_opnd_reg(a.u.reg), lanes).u.reg;
    return a;
}

/* ---- order ---- */

void pl_tmem_settle_loads(struct pl_lower *l)
{
    if (l->tmem.has_loads)
        pl_build_do(&l->b, PL_STEP_tmem_wait_load);
    l->tmem.has_loads = false;
}

/* The columns of a ref; those of the whole array where its place is known at run time only. */
static struct pl_columns columns_of(const struct pl_lower *l, uint32_t ref)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, ref);
    const struct pl_tmem_place *p = &l->columns[r->array];
    const int last = pl_ir_ref(l->fn, r->base)->shape.rank - 1;
    int64_t column, slot = 0;
    if (!pl_affine_is_const(&r->offset[last], &column) ||
        (last == 2 && !pl_affine_is_const(&r->offset[0], &slot)))
        return (struct pl_columns){p->first,
                                   p->first + (uint32_t)pl_tmem_array_columns(l->fn, r->array)};
    const int64_t first = p->first + slot * p->slot_columns + column / p->per_column,
                  n = (r->shape.d[r->shape.rank - 1] + p->per_column - 1) / p->per_column;
    return (struct pl_columns){(uint32_t)first, (uint32_t)(first + n)};
}

void pl_tmem_note_stores(struct pl_tmem_state *t, struct pl_columns c)
{
    if (t->has_stores && t->stored.first < c.first)
        c.first = t->stored.first;
    if (t->has_stores && t->stored.end > c.end)
        c.end = t->stored.end;
    t->stored = c;
    t->has_stores = true;
}

struct pl_columns pl_tmem_all_columns(void) { return (struct pl_columns){0, MAX_COLUMNS}; }

static void settle_stores(struct pl_lower *l)
{
    if (l->tmem.has_stores)
        pl_build_do(&l->b, PL_STEP_tmem_wait_store);
    l->tmem.has_stores = false;
}

void pl_tmem_settle(struct pl_lower *l)
{
    pl_tmem_settle_loads(l);
    settle_stores(l);
}

void pl_tmem_before_barrier(struct pl_lower *l)
{
    if (!l->tmem.is_read && !l->tmem.is_written)
        return;
    pl_tmem_settle(l);
    pl_build_do(&l->b, PL_STEP_tensor_before);
}

void pl_tmem_after_barrier(struct pl_lower *l, bool is_whole)
{
    if (!l->tmem.is_read && !l->tmem.is_written)
        return;
    pl_build_do(&l->b, PL_STEP_tensor_after);
    if (is_whole)
        l->tmem.is_read = l->tmem.is_written = false;
}

void pl_tmem_before_tensor(struct pl_lower *l)
{
    if (l->tmem.is_read || l->tmem.is_written)
        pl_unit_barrier(l);
}

static bool is_tensor_op(enum pl_opcode code)
{
    return code == PL_OP_LOAD_TMEM || code == PL_OP_STORE_TMEM || code == PL_OP_TCGEN05_MMA ||
           code == PL_OP_COPY_TMEM || code == PL_OP_COPY_SCALES;
}

bool pl_block_has_tensor(const struct pl_lower *l, int32_t warpgroup, int32_t warp)
{
    for (uint32_t id = 1; id < l->fn->ops.n; id++) {
        const struct pl_op *op = pl_ir_op(l->fn, id);
        const struct pl_block_info *b = &l->fn->blocks.data[op->block];
        if (is_tensor_op(op->code) && b->role_warpgroup == warpgroup && b->role_warp == warp)
            return true;
    }
    return false;
}

/* ---- registers ---- */

/* How a warp's registers cover the array: the tile is repeated along the columns, in one or two halves of the lanes. */
struct cover {
    enum pl_sattr tile;
    bool is_half; /* 16-bit elements that have columns of their own */
    uint32_t n_halves, n_repeats;
    uint32_t words, columns; /* of a tile */
};

static struct cover cover_of(const struct pl_lower *l, uint32_t ref, const struct pl_lay *lay)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, ref);
    const uint32_t es = pl_elem_bytes(r->dtype);
    const bool is_rows = lay->frag == PL_FRAG_ROWS;
    struct cover c = {.tile = is_rows   ? PL_SA_TILE_r32
                              : es == 4 ? PL_SA_TILE_r16
                                        : PL_SA_TILE_r16h,
                      .is_half = es == 2 && l->columns[r->array].per_column == 1,
                      .n_halves = lay->frag == PL_FRAG_TCGEN05 ? 2 : 1};
    c.words = is_rows ? 1 : es == 4 ? 4 : 2;
    c.columns = (is_rows ? 1u : es == 4 ? 8u : 4u) * (c.is_half ? 2u : 1u);
    c.n_repeats =
        (uint32_t)r->shape.d[1] / (c.columns * (c.is_half ? 1 : l->columns[r->array].per_column));
    return c;
}

/* One instruction: `n` tiles from tile `first` on, in half `half`. words: of the whole array, in the order of its chunks. */
static void move_tiles(struct pl_lower *l, const struct cover *c, bool is_load, struct pl_opnd addr,
                       const pl_reg *words, uint32_t first, uint32_t n, uint32_t half)
{
    struct pl_opnd regs[MAX_WORDS];
    for (uint32_t i = 0; i < n * c->words; i++)
        regs[i] = pl_opnd_reg(
            words[((first + i / c->words) * c->n_halves + half) * c->words + i % c->words]);
    addr.imm += (int64_t)first * c->columns + ((int64_t)half * 16 << 16);
    struct pl_opnd list = pl_build_list(&l->b, regs, n * c->words);
    pl_build_step(
        &l->b,
        &(struct pl_sdesc){.op = is_load ? PL_STEP_tmem_load : PL_STEP_tmem_store,
                           .type = PL_ST_b32,
                           .from = PL_ST_b32,
                           .attrs = {(uint8_t)c->tile, (uint8_t)(!c->is_half ? PL_SA_NONE
                                                                 : is_load   ? PL_SA_PACK_halves
                                                                           : PL_SA_SPREAD_halves)},
                           .n = 2,
                           .opnds = {is_load ? list : addr, is_load ? addr : list}});
}

static void move_words(struct pl_lower *l, uint32_t ref, const struct pl_lay *lay, bool is_load,
                       const pl_reg *words)
{
    const struct cover c = cover_of(l, ref, lay);
    const struct pl_opnd addr = quarter_addr(l, ref);
    for (uint32_t first = 0, n; first < c.n_repeats; first += n) {
        n = MAX_WORDS / c.words;
        while (n > c.n_repeats - first)
            n /= 2;
        for (uint32_t half = 0; half < c.n_halves; half++)
            move_tiles(l, &c, is_load, addr, words, first, n, half);
    }
}

enum pl_frag pl_tmem_frag(const pl_shape *s)
{
    return s->d[0] == 64 ? PL_FRAG_WGMMA : PL_FRAG_ROWS;
}

/* Can the registers of this layout move at once? */
static bool takes_lay(const struct pl_lower *l, uint32_t ref, const struct pl_lay *lay)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, ref);
    const int64_t n_rows = r->shape.d[0];
    (void)l;
    if (n_rows == 64)
        return lay->frag == PL_FRAG_WGMMA;
    return lay->frag == PL_FRAG_ROWS ||
           (lay->frag == PL_FRAG_TCGEN05 && pl_dtype_bits(r->dtype) >= 16);
}

/* A load or store whose value has another layout goes through scratch. */
uint32_t pl_tmem_scratch_need(const struct pl_lower *l, uint32_t id)
{
    const struct pl_op *op = pl_ir_op(l->fn, id);
    const uint32_t val = op->code == PL_OP_LOAD_TMEM    ? id
                         : op->code == PL_OP_STORE_TMEM ? op->args[0]
                                                        : 0;
    if (val == 0 || pl_ir_op(l->fn, val)->shape.rank == 0 ||
        takes_lay(l, op->refs[0], &l->lays[val]))
        return 0;
    const struct pl_op *v = pl_ir_op(l->fn, val);
    return (uint32_t)pl_shape_n_elems(&v->shape) * pl_scratch_elem_bytes(v->dtype);
}

void pl_lower_load_tmem(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    const uint32_t ref = op->refs[0];
    const pl_dtype t = op->dtype;
    const struct pl_lay asked = l->lays[id];
    const struct pl_lay lay =
        takes_lay(l, ref, &asked) ? asked : pl_lay_frag(pl_tmem_frag(&op->shape), &op->shape);
    struct pl_lval v = pl_lval_make(l, t, lay);
    const uint32_t n_words = pl_chunk_n_words(t, lay.vec), n = n_words * lay.n_chunks,
                   n_regs = pl_regs_per_chunk(v.rep, lay.vec);
    pl_reg *words = pl_arena_array(l->arena, n, sizeof *words);
    if (words == NULL || v.regs == NULL)
        return;
    settle_stores(l);
    for (uint32_t i = 0; i < n; i++)
        words[i] = pl_build_reg(&l->b, PL_RC_B32);
    move_words(l, ref, &lay, true, words);
    l->tmem.has_loads = l->tmem.is_read = true;
    const bool is_taken_apart = v.rep == PL_REP_WORD && pl_elem_bytes(t) < 4;
    if (is_taken_apart || !takes_lay(l, ref, &asked))
        pl_tmem_settle_loads(l);
    for (uint32_t k = 0; k < lay.n_chunks; k++)
        pl_words_to_regs(l, &v, words + k * n_words, v.regs + k * n_regs);
    l->vals[id] = takes_lay(l, ref, &asked) ? v : pl_lval_relayout(l, &op->shape, &v, asked);
}

void pl_lower_store_tmem(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    const uint32_t ref = op->refs[0];
    const struct pl_ref_info *r = pl_ir_ref(l->fn, ref);
    struct pl_lval v = pl_lval_of(l, op->args[0]);
    struct pl_lay lay = v.lay;
    if (!takes_lay(l, ref, &lay)) {
        lay = pl_lay_frag(pl_tmem_frag(&r->shape), &r->shape);
        if (!v.lay.is_splat) {
            pl_lower_note(l, op, "layout converted through shared memory for tensor memory");
            v = pl_lval_relayout(l, &r->shape, &v, lay);
        }
    }
    const uint32_t n_words = pl_chunk_n_words(r->dtype, lay.vec);
    pl_reg *words = pl_arena_array(l->arena, (size_t)n_words * lay.n_chunks, sizeof *words);
    if (words == NULL)
        return;
    for (uint32_t k = 0; k < lay.n_chunks; k++)
        pl_regs_to_words(l, &v, lay.vec, k, words + k * n_words);
    pl_tmem_settle_loads(l);
    const struct pl_columns c = columns_of(l, ref);
    if (c.first < l->tmem.stored.end && l->tmem.stored.first < c.end)
        settle_stores(l);
    move_words(l, ref, &lay, false, words);
    pl_tmem_note_stores(&l->tmem, c);
    l->tmem.is_written = true;
}

void pl_lower_wait_load_tmem(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    (void)op;
    pl_tmem_settle_loads(l);
}

/* The barrier that other threads need comes with whatever hands the array on to them: an arrival, or a matrix operation. */
void pl_lower_commit_tmem(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    (void)op;
    settle_stores(l);
}
