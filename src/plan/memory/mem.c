/*
 * Loads and stores. A chunk moves between memory and *raw words*, its bytes in registers; words become the registers of a value
 * by shifts and packs, once, whichever way they were loaded.
 *
 * A bounded access asks once, for the whole window, whether all of it is inside; then it runs unguarded with the widest
 * instructions, else element by element under predicates, which are found only then. Chunks that no edge can cut (they have one element,
 * or the extent is a multiple of theirs) take one predicate each at once.
 */
#include "src/plan/memory/mem.h"

#include "base/debug.h"
#include "src/plan/array.h"
#include "src/plan/elem.h"
#include "src/plan/hazard.h"
#include "src/plan/layout.h"
#include "src/plan/memory/access.h"
#include "src/plan/memory/outside.h"
#include "src/plan/memory/smem.h"
#include "src/plan/scalar.h"
#include "src/plan/sync.h"
#include "src/plan/tensor/frag.h"
#include "src/plan/tensor/matrix.h"

/*
 * MOST_SHARED: chunks of an access whose predicates are shared with other tensors' accesses. A thread has seven predicate registers: beyond
 * them ptxas 13.0 keeps in general registers a predicate that is used twice, and finds one that is used once anew, where it is used.
 */
enum { MAX_VEC = 16, MAX_WORDS = 32, MOST_SHARED = 4 };

/* ---- raw words ---- */

uint32_t pl_chunk_n_words(pl_dtype t, uint32_t vec)
{
    const uint32_t es = pl_elem_bytes(t);
    if (es == 8)
        return vec;
    return vec * es < 4 ? 1 : vec * es / 4;
}

enum pl_stype pl_chunk_word_type(pl_dtype t, uint32_t vec)
{
    const uint32_t es = pl_elem_bytes(t);
    if (es == 8)
        return PL_ST_b64;
    return vec * es == 2 && es == 2 ? PL_ST_b16 : PL_ST_b32;
}

static enum pl_rclass word_class(pl_dtype t, uint32_t vec)
{
    return (enum pl_rclass)pl_stypes[pl_chunk_word_type(t, vec)].class;
}

/* Type of one element in memory. */
static enum pl_stype memory_type(pl_dtype t)
{
    const uint32_t es = pl_elem_bytes(t);
    return es == 8 ? PL_ST_b64 : es == 4 ? PL_ST_b32 : es == 2 ? PL_ST_b16 : PL_ST_u8;
}

static bool is_small_int(pl_dtype t)
{
    return t == PL_I8 || t == PL_U8 || t == PL_I16 || t == PL_U16;
}

static struct pl_opnd extend(struct pl_lower *l, pl_dtype t, struct pl_opnd word, uint32_t bit)
{
    const uint32_t bits = (uint32_t)pl_dtype_bits(t) < 8 ? 8 : (uint32_t)pl_dtype_bits(t);
    if (pl_dtype_kind_of(t) == PL_KIND_INT) {
        word = pl_ix_shl(&l->b, PL_ST_u32, word, 32 - bits - bit);
        return pl_ix_shr(&l->b, PL_ST_s32, word, 32 - bits);
    }
    word = pl_ix_shr(&l->b, PL_ST_u32, word, bit);
    return bit + bits == 32 ? word : pl_ix_and(&l->b, PL_ST_u32, word, ((int64_t)1 << bits) - 1);
}

/* Element v of a chunk's words, canonical. */
struct pl_opnd pl_word_elem(struct pl_lower *l, pl_dtype t, uint32_t vec, const pl_reg *words,
                            uint32_t v)
{
    const uint32_t es = pl_elem_bytes(t);
    if (es >= 4)
        return pl_opnd_reg(words[v]);
    const uint32_t per_word = 4 / es;
    struct pl_opnd w = pl_opnd_reg(words[v / per_word]);
    if (pl_chunk_word_type(t, vec) == PL_ST_b16) {
        if (!is_small_int(t))
            return w;
        return pl_opnd_reg(pl_build_convert(&l->b, t == PL_I16 ? PL_ST_s32 : PL_ST_u32,
                                            t == PL_I16 ? PL_ST_s16 : PL_ST_u16, PL_SA_NONE, w));
    }
    struct pl_opnd e = extend(l, t, w, v % per_word * es * 8);
    if (t == PL_PRED)
        return pl_opnd_reg(pl_build_compare(&l->b, PL_SA_CMP_ne, PL_ST_u32, e, pl_opnd_imm(0)));
    return e;
}

/* Words to the registers of a value. */
void pl_words_to_regs(struct pl_lower *l, const struct pl_lval *v, const pl_reg *words,
                      struct pl_opnd *regs)
{
    const uint32_t n = pl_regs_per_chunk(v->rep, v->lay.vec);
    for (uint32_t i = 0; i < n; i++)
        regs[i] = v->rep == PL_REP_HALF2 ? pl_opnd_reg(words[i])
                                         : pl_word_elem(l, v->dtype, v->lay.vec, words, i);
}

static struct pl_opnd as_byte(struct pl_lower *l, pl_dtype t, struct pl_opnd e)
{
    if (t == PL_PRED) {
        if (pl_opnd_is_imm(e))
            return e;
        return pl_opnd_reg(
            pl_build_op3(&l->b, PL_STEP_select, PL_ST_b32, pl_opnd_imm(1), pl_opnd_imm(0), e));
    }
    return e;
}

/* Small elements joined in one word, lowest first. */
static struct pl_opnd join_elems(struct pl_lower *l, pl_dtype t, const struct pl_opnd *elems,
                                 uint32_t n, uint32_t bits)
{
    struct pl_opnd w = pl_opnd_imm(0);
    for (uint32_t i = 0; i < n; i++) {
        struct pl_opnd e = as_byte(l, t, elems[i]);
        if (pl_dtype_kind_of(t) == PL_KIND_INT)
            e = pl_ix_and(&l->b, PL_ST_u32, e, ((int64_t)1 << bits) - 1);
        e = pl_ix_shl(&l->b, PL_ST_u32, e, i * bits);
        if (pl_opnd_is_imm(w) || pl_opnd_is_imm(e))
            w = pl_ix_add(&l->b, PL_ST_u32, w, e);
        else
            w = pl_opnd_reg(pl_build_op2(&l->b, PL_STEP_or, PL_ST_b32, w, e));
    }
    return w;
}

/* The registers of one chunk of a value, as words. */
void pl_regs_to_words(struct pl_lower *l, const struct pl_lval *v, uint32_t vec, uint32_t k,
                      pl_reg *words)
{
    const pl_dtype t = v->dtype;
    const uint32_t es = pl_elem_bytes(t), n = pl_chunk_n_words(t, vec);
    const enum pl_stype wt = pl_chunk_word_type(t, vec);
    if (v->words != NULL && v->lay.vec == vec) {
        for (uint32_t i = 0; i < n; i++)
            words[i] = v->words[k * n + i];
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct pl_opnd w;
        if (es >= 4) {
            w = pl_lval_elem(l, v, k * vec + i);
        } else if (es == 2 && !is_small_int(t)) {
            w = wt == PL_ST_b16 ? pl_lval_elem(l, v, k * vec)
                                : pl_lval_unit(l, v, PL_REP_HALF2, k * vec / 2 + i);
        } else {
            struct pl_opnd elems[4];
            const uint32_t m = vec < 4 / es ? vec : 4 / es;
            for (uint32_t j = 0; j < m; j++)
                elems[j] = pl_lval_elem(l, v, k * vec + i * m + j);
            w = join_elems(l, t, elems, m, 8 * es);
            if (wt == PL_ST_b16)
                w = pl_opnd_is_imm(w)
                        ? w
                        : pl_opnd_reg(pl_build_convert(&l->b, PL_ST_u16, PL_ST_u32, PL_SA_NONE, w));
        }
        words[i] = pl_build_in_reg(&l->b, wt, w);
    }
}

/* ---- one chunk ---- */

struct spot {
    struct pl_lower *l;
    const struct pl_chunk *c;
    pl_dtype t;
    uint32_t es;
    int run; /* axis of the ref along which the chunk goes */
    enum pl_sattr space;
    bool is_global;
    bool is_linear; /* consecutive elements of the chunk are consecutive in memory */
    uint32_t align_bytes, atom_bytes;
    struct pl_opnd first;
};

static struct pl_opnd address(struct spot *s, uint32_t v)
{
    if (v == 0)
        return s->first;
    if (s->is_linear && (s->atom_bytes == 0 || v * s->es < s->atom_bytes)) {
        struct pl_opnd a = s->first;
        a.imm += (int64_t)v * s->es;
        return a;
    }
    struct pl_coord at[PL_MAX_RANK];
    const struct pl_ref_info *r = pl_ir_ref(s->l->fn, s->c->ref);
    for (int i = 0; i < r->shape.rank; i++)
        at[i] = s->c->at[i];
    at[s->run].konst += v;
    return s->is_global ? pl_global_addr(s->l, s->c->ref, at) : pl_shared_addr(s->l, s->c->ref, at);
}

/* What is the same for each chunk of an access. */
static struct spot start_spot(struct pl_lower *l, uint32_t ref, bool is_down)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, ref);
    const struct pl_ref_info *base = pl_ir_ref(l->fn, r->base);
    struct spot s = {.l = l,
                     .t = r->dtype,
                     .es = pl_elem_bytes(r->dtype),
                     .run = is_down || r->shape.rank == 0 ? 0 : r->shape.rank - 1,
                     .is_global = r->space == PL_SPACE_GMEM};
    const uint32_t vec_ok = pl_access_run(l, ref, s.run);
    s.align_bytes = vec_ok * s.es;
    s.space = s.is_global    ? PL_SA_SPACE_global
              : r->peer != 0 ? PL_SA_SPACE_peer
                             : PL_SA_SPACE_shared;
    const bool is_last = r->shape.rank > 0 && r->axis_of[s.run] == base->shape.rank - 1;
    if (s.is_global) {
        const struct pl_array *a = &l->fn->arrays.data[r->array];
        s.is_linear = is_last && base->view != PL_VIEW_RESHAPE &&
                      pl_opnd_is(pl_lower_stride(l, a, a->shape.rank - 1), 1);
        return s;
    }
    const struct pl_smem_place *p = &l->places[r->array];
    const bool is_simple =
        p->swizzle == PL_PLAN_SWIZZLE_NONE && (p->panel_elems == p->n_cols || p->n_rows == 1);
    const int last = base->shape.rank - 1;
    s.is_linear =
        is_last &&
        (is_simple || base->view != PL_VIEW_RESHAPE ||
         base->shape.d[last] ==
             l->fn->arrays.data[r->array].shape.d[l->fn->arrays.data[r->array].shape.rank - 1]);
    s.atom_bytes = is_simple ? 0 : 16;
    if (!is_simple && s.align_bytes < 16)
        s.atom_bytes = s.align_bytes;
    return s;
}

static void set_chunk(struct spot *s, const struct pl_chunk *c)
{
    s->c = c;
    s->first =
        s->is_global ? pl_global_addr(s->l, c->ref, c->at) : pl_shared_addr(s->l, c->ref, c->at);
}

/* Registers to a peer, signalled on its barrier. */
static void send_step(struct spot *s, enum pl_stype t, struct pl_opnd addr, struct pl_opnd list,
                      pl_reg first)
{
    const struct pl_send *send = s->c->send;
    const enum pl_stype as_int = s->t == PL_I32 ? PL_ST_s32 : PL_ST_u32;
    struct pl_sdesc d = {
        .op = PL_STEP_store_async, .type = (uint8_t)t, .n = 3, .opnds = {addr, list, send->bar}};
    if (send->reduce != PL_OP2_NONE) {
        d.opnds[1] = pl_opnd_reg(first);
        d.type = (uint8_t)as_int;
        d.attrs[0] = send->reduce == PL_MIN   ? PL_SA_RED_min
                     : send->reduce == PL_MAX ? PL_SA_RED_max
                     : send->reduce == PL_AND ? PL_SA_RED_and
                     : send->reduce == PL_OR  ? PL_SA_RED_or
                     : send->reduce == PL_XOR ? PL_SA_RED_xor
                                              : PL_SA_NONE;
        d.op = send->reduce == PL_ADD                             ? PL_STEP_reduce_async_add
               : send->reduce == PL_MIN || send->reduce == PL_MAX ? PL_STEP_reduce_async_minmax
                                                                  : PL_STEP_reduce_async_logic;
        if (d.op == PL_STEP_reduce_async_logic)
            d.type = PL_ST_b32;
    }
    pl_build_step(&s->l->b, &d);
}

static void memory_step(struct spot *s, enum pl_step_op op, enum pl_stype t, struct pl_opnd addr,
                        const pl_reg *regs, uint32_t n)
{
    struct pl_opnd elems[4];
    for (uint32_t i = 0; i < n; i++)
        elems[i] = pl_opnd_reg(regs[i]);
    struct pl_opnd list = pl_build_list(&s->l->b, elems, n);
    const bool is_load = op == PL_STEP_load;
    if (s->c->send != NULL) {
        send_step(s, t, addr, list, regs[0]);
        return;
    }
    pl_build_step(&s->l->b,
                  &(struct pl_sdesc){.op = (uint8_t)op,
                                     .type = (uint8_t)t,
                                     .attrs = {(uint8_t)s->space},
                                     .n = 2,
                                     .opnds = {is_load ? list : addr, is_load ? addr : list}});
}

/* Whole words in runs of 4, 2 or 1, as alignment allows. */
static void move_words(struct spot *s, enum pl_step_op op, const pl_reg *words)
{
    const enum pl_stype wt = pl_chunk_word_type(s->t, s->c->vec);
    const uint32_t n = pl_chunk_n_words(s->t, s->c->vec), word_bytes = pl_stypes[wt].bits / 8u;
    const uint32_t elems_per_word = word_bytes < s->es ? 1 : word_bytes / s->es;
    for (uint32_t i = 0; i < n;) {
        uint32_t run = s->align_bytes < 16 ? s->align_bytes / word_bytes : 16 / word_bytes;
        while (run > 1 && i + run > n)
            run /= 2;
        if (run == 0 || (s->c->send != NULL && s->c->send->reduce != PL_OP2_NONE))
            run = 1;
        const bool is_byte = s->es == 1 && s->c->vec == 1;
        memory_step(s, op, is_byte ? PL_ST_u8 : wt, address(s, i * elems_per_word), words + i, run);
        i += run;
    }
}

static void set_guard(struct pl_lower *l, pl_reg p)
{
    l->b.guard = p;
    l->b.guard_is_negated = false;
}

/* Element v is to be touched: a predicate, or none when always. There are as many as elements: each is found where it is used, since
 * nobody has the registers to keep them from the entry on. */
static pl_reg element_guard(struct spot *s, uint32_t v)
{
    struct pl_build *b = &s->l->b;
    const bool was_cold = b->is_cold;
    if (s->c->inside == NULL)
        return (pl_reg){0};
    b->is_cold = true;
    const pl_reg p = pl_inside_guard(s->l, s->c->inside, v, s->c->vec == 1);
    b->is_cold = was_cold;
    return p;
}

static void pack_into(struct pl_lower *l, pl_reg word, const pl_reg *halves)
{
    struct pl_opnd h[2] = {pl_opnd_reg(halves[0]), pl_opnd_reg(halves[1])};
    pl_build_step(&l->b,
                  &(struct pl_sdesc){.op = PL_STEP_pack,
                                     .type = PL_ST_b32,
                                     .from = PL_ST_b16,
                                     .n = 2,
                                     .opnds = {pl_opnd_reg(word), pl_build_list(&l->b, h, 2)}});
}

static void load_element(struct spot *s, uint32_t v, pl_reg to)
{
    const pl_reg p = element_guard(s, v);
    const enum pl_stype mt = memory_type(s->t);
    struct pl_opnd a = address(s, v);
    if (p.id != 0)
        pl_build_mov(&s->l->b, mt == PL_ST_u8 ? PL_ST_b32 : mt, to, pl_opnd_imm(s->c->fill));
    if (p.id != 0)
        set_guard(s->l, p);
    memory_step(s, PL_STEP_load, mt, a, &to, 1);
    if (p.id != 0)
        set_guard(s->l, (pl_reg){0});
}

static void load_elements(struct spot *s, pl_reg *words)
{
    struct pl_lower *l = s->l;
    const uint32_t n_words = pl_chunk_n_words(s->t, s->c->vec);
    const uint32_t per_word = s->c->vec / n_words;
    for (uint32_t i = 0; i < n_words; i++) {
        if (per_word == 1) {
            load_element(s, i, words[i]);
            continue;
        }
        pl_reg parts[4];
        for (uint32_t j = 0; j < per_word; j++) {
            parts[j] = pl_build_reg(&l->b, s->es == 2 ? PL_RC_B16 : PL_RC_B32);
            load_element(s, i * per_word + j, parts[j]);
        }
        if (s->es == 2) {
            pack_into(l, words[i], parts);
            continue;
        }
        struct pl_opnd bytes[4];
        for (uint32_t j = 0; j < per_word; j++)
            bytes[j] = pl_opnd_reg(parts[j]);
        pl_build_mov(&l->b, PL_ST_b32, words[i], join_elems(l, PL_U8, bytes, per_word, 8));
    }
}

static void store_elements(struct spot *s, const pl_reg *words)
{
    struct pl_lower *l = s->l;
    const uint32_t n_words = pl_chunk_n_words(s->t, s->c->vec);
    const uint32_t per_word = s->c->vec / n_words;
    for (uint32_t i = 0; i < n_words; i++) {
        pl_reg parts[4] = {words[i]};
        if (per_word > 1 && s->es == 2) {
            parts[0] = pl_build_reg(&l->b, PL_RC_B16);
            parts[1] = pl_build_reg(&l->b, PL_RC_B16);
            struct pl_opnd h[2] = {pl_opnd_reg(parts[0]), pl_opnd_reg(parts[1])};
            pl_build_step(&l->b, &(struct pl_sdesc){
                                     .op = PL_STEP_unpack,
                                     .type = PL_ST_b32,
                                     .from = PL_ST_b16,
                                     .n = 2,
                                     .opnds = {pl_build_list(&l->b, h, 2), pl_opnd_reg(words[i])}});
        } else {
            for (uint32_t j = 1; j < per_word; j++)
                parts[j] = pl_ix_shr(&l->b, PL_ST_u32, pl_opnd_reg(words[i]), 8 * j).u.reg;
        }
        for (uint32_t j = 0; j < per_word; j++) {
            const uint32_t v = i * per_word + j;
            const pl_reg p = element_guard(s, v);
            struct pl_opnd a = address(s, v);
            if (p.id != 0)
                set_guard(l, p);
            memory_step(s, PL_STEP_store, memory_type(s->t), a, &parts[j], 1);
            if (p.id != 0)
                set_guard(l, (pl_reg){0});
        }
    }
}

static bool moves_words(const struct spot *s)
{
    const uint32_t n_bytes = s->es * s->c->vec;
    if (n_bytes < 4 && s->c->vec > 1)
        return false; /* a word is not filled */
    const uint32_t word_bytes = n_bytes < 4 ? n_bytes : s->es == 8 ? 8 : 4;
    return (s->c->inside == NULL || s->c->inside->is_whole) && s->align_bytes >= word_bytes &&
           s->is_linear;
}

/* The bits of an element that is not loaded, in each element of a word. */
static struct pl_opnd filled_word(const struct spot *s)
{
    const uint32_t bits = 8 * s->es;
    uint64_t w = (uint64_t)s->c->fill;
    if (bits >= 32 || pl_chunk_word_type(s->t, s->c->vec) == PL_ST_b16)
        return pl_opnd_imm(s->c->fill);
    w &= ((uint64_t)1 << bits) - 1;
    for (uint32_t n = bits; n < 32; n *= 2)
        w |= w << n;
    return pl_opnd_imm((int64_t)w);
}

/* Words of a chunk that is inside as a whole, or not at all. */
static void move_whole(struct spot *s, enum pl_step_op op, const pl_reg *words)
{
    struct pl_lower *l = s->l;
    const enum pl_stype wt = pl_chunk_word_type(s->t, s->c->vec);
    const pl_reg p = s->c->inside == NULL ? (pl_reg){0} : pl_inside_guard(l, s->c->inside, 0, true);
    const bool is_filled =
        op == PL_STEP_load && p.id != 0 && !(s->c->may_be_anything && s->es * s->c->vec >= 16);
    for (uint32_t i = 0; is_filled && i < pl_chunk_n_words(s->t, s->c->vec); i++)
        pl_build_mov(&l->b, wt, words[i], filled_word(s));
    if (p.id != 0)
        set_guard(l, p);
    move_words(s, op, words);
    if (p.id != 0)
        set_guard(l, (pl_reg){0});
}

static void load_chunk(struct spot *s, pl_reg *words)
{
    if (moves_words(s))
        move_whole(s, PL_STEP_load, words);
    else
        load_elements(s, words);
}

static void store_chunk(struct spot *s, const pl_reg *words)
{
    if (moves_words(s))
        move_whole(s, PL_STEP_store, words);
    else
        store_elements(s, words);
}

void pl_chunk_load(struct pl_lower *l, const struct pl_chunk *c, pl_reg *words)
{
    struct spot s = start_spot(l, c->ref, c->is_down);
    set_chunk(&s, c);
    load_chunk(&s, words);
}

void pl_chunk_store(struct pl_lower *l, const struct pl_chunk *c, const pl_reg *words)
{
    struct spot s = start_spot(l, c->ref, c->is_down);
    set_chunk(&s, c);
    store_chunk(&s, words);
}

/* ---- whole arrays ---- */

struct pass {
    struct pl_lower *l;
    const struct pl_access *a;
    const pl_shape *shape;
    struct pl_lay lay;
    int64_t n_elems;
    int64_t fill;
    bool is_load;
    bool is_whole;    /* no bound cuts a chunk */
    pl_reg *words;    /* of all chunks */
    uint32_t n_words; /* of one */
};

/* Threads whose chunk k lies beyond the array, or is another's to store, take no part: a predicate, none when all do. */
static pl_reg ragged_guard(struct pass *p, uint32_t k)
{
    pl_reg owner = p->is_load ? (pl_reg){0} : pl_lay_owner(p->l, &p->lay);
    return owner.id != 0 ? owner : pl_lay_guard(p->l, &p->lay, p->n_elems, k);
}

static void one_chunk(struct pass *p, struct spot *s, uint32_t k, bool is_bounded)
{
    struct pl_lower *l = p->l;
    struct pl_coord at[PL_MAX_RANK];
    struct pl_inside in = {.ok = {0}};
    const int run = pl_lay_run_axis(&p->lay, p->shape->rank);
    if (is_bounded) {
        pl_chunk_coords(l, p->shape, &p->lay, k, at);
        in = pl_bounds_run(l, p->a->ref, at, p->is_whole ? -1 : run, p->lay.n_chunks > MOST_SHARED);
    } else {
        pl_chunk_place(l, p->a->ref, &p->lay, k, at);
    }
    in.is_whole = p->is_whole;
    pl_reg ragged = ragged_guard(p, k);
    if (is_bounded)
        pl_inside_also(l, &in, ragged);
    struct pl_chunk c = {.ref = p->a->ref,
                         .vec = p->lay.vec,
                         .is_down = run != p->shape->rank - 1,
                         .at = at,
                         .inside = is_bounded ? &in : NULL,
                         .may_be_anything = p->a->may_be_anything,
                         .fill = p->fill,
                         .send = p->a->send};
    pl_reg *words = p->words + k * p->n_words;
    if (ragged.id != 0 && !is_bounded) {
        const enum pl_stype wt = pl_chunk_word_type(pl_ir_ref(l->fn, p->a->ref)->dtype, p->lay.vec);
        for (uint32_t i = 0; p->is_load && i < p->n_words; i++)
            pl_build_mov(&l->b, wt, words[i], pl_opnd_imm(0));
        set_guard(l, ragged);
    }
    set_chunk(s, &c);
    if (p->is_load)
        load_chunk(s, words);
    else
        store_chunk(s, words);
    set_guard(l, (pl_reg){0});
}

static void all_chunks(struct pass *p, bool is_bounded)
{
    const int run = pl_lay_run_axis(&p->lay, p->shape->rank);
    struct spot s = start_spot(p->l, p->a->ref, run != p->shape->rank - 1);
    for (uint32_t k = 0; k < p->lay.n_chunks; k++)
        one_chunk(p, &s, k, is_bounded);
}

/* One predicate a chunk says all. */
static bool goes_by_chunks(const struct pass *p)
{
    const int run = pl_lay_run_axis(&p->lay, p->shape->rank);
    const uint32_t vec = pl_access_run(p->l, p->a->ref, run),
                   es = pl_elem_bytes(pl_ir_ref(p->l->fn, p->a->ref)->dtype);
    return p->lay.vec == 1 || (p->is_whole && (vec >= p->lay.vec || vec * es >= 16));
}

static void run_pass(struct pass *p)
{
    struct pl_lower *l = p->l;
    const enum pl_matrix_way way =
        p->a->send == NULL ? pl_matrix_way(l, p->a->ref, &p->lay, p->is_load) : PL_MATRIX_NONE;
    if (way != PL_MATRIX_NONE) {
        pl_matrix_move(l, p->a->ref, &p->lay, way, (struct pl_matrix_words){p->words, p->is_load});
        return;
    }
    const bool is_bounded = p->a->oob != PL_OOB_PROMISE && pl_bounds_needed(l, p->a->ref);
    p->is_whole =
        pl_bounds_whole(l, p->a->ref, pl_lay_run_axis(&p->lay, p->shape->rank), p->lay.vec);
    if (!is_bounded || goes_by_chunks(p)) {
        all_chunks(p, is_bounded);
        return;
    }
    pl_reg fit = pl_bounds_fit(l, p->a->ref);
    uint32_t slow = pl_build_label(&l->b), done = pl_build_label(&l->b);
    pl_build_jump(&l->b, slow, fit, true);
    uint32_t mark = pl_build_open(&l->b);
    all_chunks(p, false);
    pl_build_close(&l->b, mark);
    pl_build_jump(&l->b, done, (pl_reg){0}, false);
    pl_build_put_label(&l->b, slow);
    mark = pl_build_open(&l->b);
    l->b.is_cold = true;
    all_chunks(p, true);
    l->b.is_cold = false;
    pl_build_close(&l->b, mark);
    pl_build_put_label(&l->b, done);
}

static bool start_pass(struct pass *p, struct pl_lower *l, const struct pl_access *a,
                       struct pl_lay lay)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, a->ref);
    *p = (struct pass){
        .l = l, .a = a, .shape = &r->shape, .lay = lay, .n_elems = pl_shape_n_elems(&r->shape)};
    p->n_words = pl_chunk_n_words(r->dtype, lay.vec);
    p->fill = pl_const_of(r->dtype, (int64_t)a->fill, a->fill).imm;
    p->words = pl_arena_array(l->arena, (size_t)p->n_words * lay.n_chunks, sizeof *p->words);
    return p->words != NULL;
}

void pl_load_array(struct pl_lower *l, const struct pl_access *a, struct pl_lval *v)
{
    struct pass p;
    if (!start_pass(&p, l, a, v->lay) || v->regs == NULL)
        return;
    p.is_load = true;
    for (uint32_t i = 0; i < p.n_words * v->lay.n_chunks; i++)
        p.words[i] = pl_build_reg(&l->b, word_class(v->dtype, v->lay.vec));
    run_pass(&p);
    if (v->rep == PL_REP_WORD && pl_elem_bytes(v->dtype) == 1 && v->lay.vec % 4 == 0) {
        v->words = p.words;
        return;
    }
    const uint32_t n_regs = pl_regs_per_chunk(v->rep, v->lay.vec);
    for (uint32_t k = 0; k < v->lay.n_chunks; k++)
        pl_words_to_regs(l, v, p.words + k * p.n_words, v->regs + k * n_regs);
}

void pl_store_array(struct pl_lower *l, const struct pl_access *a, const struct pl_lval *v)
{
    struct pass p;
    struct pl_lay lay = v->lay;
    if (v->lay.is_splat) {
        const pl_shape *s = &pl_ir_ref(l->fn, a->ref)->shape;
        const uint32_t least = a->send != NULL ? pl_send_min_vec(v->dtype) : 1;
        uint32_t vec = pl_access_vec(l, a->ref);
        while (vec > least && (int64_t)vec * l->unit_threads > pl_shape_n_elems(s))
            vec /= 2;
        lay = pl_lay_strided(pl_shape_n_elems(s), vec, l->unit_threads);
    }
    if (!start_pass(&p, l, a, lay))
        return;
    for (uint32_t k = 0; k < lay.n_chunks; k++)
        pl_regs_to_words(l, v, lay.vec, k, p.words + k * p.n_words);
    run_pass(&p);
}

/* ---- ops ---- */

void pl_load_variable(struct pl_lower *l, uint32_t id, uint32_t array)
{
    const struct pl_lval *var = &l->vars[array];
    struct pl_lval v = *var;
    const enum pl_stype bits = pl_stype_bits(v.rep);
    if (v.lay.is_splat) {
        pl_reg copy = pl_build_reg(&l->b, (enum pl_rclass)pl_stypes[bits].class);
        pl_build_mov(&l->b, bits, copy, var->one);
        v.one = pl_opnd_reg(copy);
    } else if (l->is_copied[id]) {
        v.regs = pl_arena_array(l->arena, v.n_regs, sizeof *v.regs);
        for (uint32_t i = 0; v.regs != NULL && i < v.n_regs; i++) {
            pl_reg copy = pl_build_reg(&l->b, (enum pl_rclass)pl_stypes[bits].class);
            pl_build_mov(&l->b, bits, copy, var->regs[i]);
            v.regs[i] = pl_opnd_reg(copy);
        }
    }
    l->vals[id] = v;
}

void pl_store_variable(struct pl_lower *l, uint32_t array, const struct pl_lval *v)
{
    struct pl_lval *var = &l->vars[array];
    const enum pl_stype bits = pl_stype_bits(var->rep);
    if (var->lay.is_splat) {
        pl_build_mov(&l->b, bits, var->one.u.reg, v->one);
        return;
    }
    for (uint32_t i = 0; var->regs != NULL && i < var->n_regs; i++)
        pl_build_mov(&l->b, bits, var->regs[i].u.reg, pl_lval_unit(l, v, var->rep, i));
}

/* A scalar: every thread loads it, the leader stores it. */
static pl_reg scalar_guard(struct pl_lower *l, const struct pl_access *a)
{
    return a->oob != PL_OOB_PROMISE && pl_bounds_needed(l, a->ref) ? pl_bounds_fit(l, a->ref)
                                                                   : (pl_reg){0};
}

static void load_scalar(struct pl_lower *l, const struct pl_access *a, struct pl_lval *v)
{
    const struct pl_coord none = {.thread = pl_opnd_imm(0), .bound = 1};
    const struct pl_chunk c = {.ref = a->ref, .vec = 1, .at = &none};
    const enum pl_stype wt = pl_chunk_word_type(v->dtype, 1);
    pl_reg inside = scalar_guard(l, a);
    pl_reg word = pl_build_reg(&l->b, (enum pl_rclass)pl_stypes[wt].class);
    if (inside.id != 0)
        pl_build_mov(&l->b, wt, word, pl_const_of(v->dtype, (int64_t)a->fill, a->fill));
    set_guard(l, inside);
    pl_chunk_load(l, &c, &word);
    set_guard(l, (pl_reg){0});
    v->one = pl_word_elem(l, v->dtype, 1, &word, 0);
}

static void store_scalar(struct pl_lower *l, const struct pl_access *a, const struct pl_lval *v)
{
    const struct pl_coord none = {.thread = pl_opnd_imm(0), .bound = 1};
    const struct pl_chunk c = {.ref = a->ref, .vec = 1, .at = &none};
    pl_reg inside = scalar_guard(l, a), leader = pl_lower_leader(l), word;
    pl_regs_to_words(l, v, 1, 0, &word);
    if (inside.id != 0)
        leader =
            pl_build_op2(&l->b, PL_STEP_and, PL_ST_pred, pl_opnd_reg(inside), pl_opnd_reg(leader));
    set_guard(l, leader);
    pl_chunk_store(l, &c, &word);
    set_guard(l, (pl_reg){0});
}

/*
 * What pattern an access has: two accesses of one array with the same non-zero key touch, in each thread, the same elements.
 * A window that moves has none (0): in another round of a loop it puts other elements in a thread.
 */
uint32_t pl_access_key(const struct pl_lower *l, uint32_t ref, struct pl_lay lay)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, ref);
    if (lay.is_splat || r->space != PL_SPACE_SMEM || pl_lay_has_peers(&lay))
        return 0;
    if (pl_matrix_way(l, ref, &lay, true) != PL_MATRIX_NONE) /* lanes read for each other */
        return 0;
    for (int i = 0; i < r->shape.rank; i++)
        if (r->offset[r->axis_of[i]].n_terms != 0)
            return 0;
    for (uint32_t q = 1; q < ref; q++) { /* an equal view made before */
        const struct pl_ref_info *o = pl_ir_ref(l->fn, q);
        bool is_same =
            o->array == r->array && o->base == r->base && pl_shape_equal(&o->shape, &r->shape);
        for (int i = 0; is_same && i < r->shape.rank; i++)
            is_same = o->axis_of[i] == r->axis_of[i];
        for (int j = 0; is_same && j < pl_ir_ref(l->fn, r->base)->shape.rank; j++)
            is_same = pl_affine_same(&o->offset[j], &r->offset[j]);
        if (is_same)
            return q * 1024 + lay.frag * 32u + lay.vec;
    }
    return ref * 1024 + lay.frag * 32u + lay.vec;
}

static const char part_of_variable[] =
    "a view of a pl_regs variable (take it whole, or keep its parts in variables of their own)";

static void refuse_part_of_byte(struct pl_lower *l, const struct pl_op *op, pl_dtype t)
{
    pl_lower_refuse(l, op, pl_arena_printf(l->arena, "%s, which fills no byte", pl_dtype_name(t)));
}

void pl_lower_load(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    const struct pl_ref_info *r = pl_ir_ref(l->fn, op->refs[0]);
    struct pl_access a = {
        .ref = op->refs[0], .oob = op->oob, .fill = op->oob == PL_OOB_FILL ? op->f : 0.0};
    if (pl_dtype_bits(r->dtype) < 8) { /* elements that are no bytes */
        refuse_part_of_byte(l, op, r->dtype);
        l->vals[id] = pl_lval_scalar(op->dtype, pl_opnd_imm(0));
        return;
    }
    if (r->space == PL_SPACE_REGS && r->view != PL_VIEW_ROOT) { /* a part of a variable */
        pl_lower_refuse(l, op, part_of_variable);
        l->vals[id] = pl_lval_scalar(op->dtype, pl_opnd_imm(0));
        return;
    }
    if (r->space == PL_SPACE_REGS) {
        pl_load_variable(l, id, r->array);
        const struct pl_lval v = l->vals[id];
        if (!v.lay.is_splat && v.regs != NULL && !pl_lay_same(&v.lay, &l->lays[id])) {
            pl_note_relayout(l, op, &v.lay, &l->lays[id]);
            l->vals[id] = pl_lval_relayout(l, &op->shape, &v, l->lays[id]);
        }
        return;
    }
    if (op->shape.rank == 0) {
        struct pl_lval v = pl_lval_scalar(op->dtype, pl_opnd_imm(0));
        pl_hazard_access(l, op->refs[0], false, 0);
        pl_hazard_element(l, op->refs[0], false);
        load_scalar(l, &a, &v);
        l->vals[id] = v;
        return;
    }
    struct pl_lval v = pl_lval_make(l, op->dtype, l->lays[id]);
    pl_hazard_access(l, op->refs[0], false, pl_access_key(l, op->refs[0], v.lay));
    pl_hazard_global(l, op->refs[0], false, &v.lay);
    a.may_be_anything = r->space == PL_SPACE_GMEM && pl_outside_is_unseen(l, id);
    pl_load_array(l, &a, &v);
    l->vals[id] = v;
}

void pl_lower_store(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    const struct pl_ref_info *r = pl_ir_ref(l->fn, op->refs[0]);
    const struct pl_lval v = pl_lval_of(l, op->args[0]);
    if (r->space == PL_SPACE_REGS && r->view != PL_VIEW_ROOT) {
        pl_lower_refuse(l, op, part_of_variable);
        return;
    }
    if (r->space == PL_SPACE_REGS) {
        pl_store_variable(l, r->array, &v);
        return;
    }
    const struct pl_access a = {.ref = op->refs[0], .oob = op->oob};
    pl_hazard_access(l, op->refs[0], true, pl_access_key(l, op->refs[0], v.lay));
    if (r->shape.rank == 0) {
        pl_hazard_element(l, op->refs[0], true);
        store_scalar(l, &a, &v);
        return;
    }
    pl_hazard_global(l, op->refs[0], true, &v.lay);
    pl_store_array(l, &a, &v);
}

void pl_lower_swap(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    const uint8_t was_copied = l->is_copied[id];
    l->is_copied[id] = 1; /* the old value must survive the store */
    pl_lower_load(l, id, op);
    l->is_copied[id] = was_copied;
    pl_lower_store(l, id, op);
}

/*
 * Registers to a peer. One arrival, announced by the leader with the bytes that all threads send; lanes beyond the array send
 * nothing, so the count is the array's.
 */
void pl_lower_async_store(struct pl_lower *l, uint32_t id, const struct pl_op *op)
{
    (void)id;
    const struct pl_ref_info *r = pl_ir_ref(l->fn, op->refs[0]);
    const int64_t n_elems = pl_shape_n_elems(&r->shape);
    const uint32_t es = pl_elem_bytes(r->dtype), least = pl_send_min_vec(r->dtype);
    const uint32_t vec = pl_access_vec(l, op->refs[0]);
    if (pl_dtype_bits(r->dtype) < 8) {
        refuse_part_of_byte(l, op, r->dtype);
        return;
    }
    if (vec < least) {
        pl_d_async_store_unaligned(l->diags, pl_lower_where(op));
        l->status = PL_E_INVALID;
        return;
    }
    struct pl_lval v = pl_lval_of(l, op->args[0]);
    if (!v.lay.is_splat && v.lay.vec < least)
        v = pl_lval_relayout(l, &r->shape, &v, pl_lay_strided(n_elems, least, l->unit_threads));
    const struct pl_send send = {
        .bar = pl_opnd_addr(pl_peer_address(l, op->refs[0], pl_bar_value(l, op->bar)), 0),
        .reduce = (pl_op2)op->sub};
    set_guard(l, pl_lower_leader(l));
    pl_arrive_tx_peer(l, op->bar, send.bar, pl_opnd_imm(n_elems * es));
    set_guard(l, (pl_reg){0});
    pl_store_array(l, &(struct pl_access){.ref = op->refs[0], .oob = PL_OOB_PROMISE, .send = &send},
                   &v);
}
