#ifndef PL_SRC_PLAN_MEMORY_MEM_H
#define PL_SRC_PLAN_MEMORY_MEM_H
/* Loads and stores, by chunks. */
#include "src/plan/memory/access.h"

/* A store to a peer that is signalled there: by st.async, or by red.async of `reduce`. */
struct pl_send {
    struct pl_opnd bar; /* address of the peer's barrier */
    pl_op2 reduce;      /* PL_OP2_NONE: overwrites */
};
struct pl_access {
    uint32_t ref;
    pl_oob oob;
    bool may_be_anything; /* a chunk of 16 bytes that is outside as a whole; others are `fill` */
    double fill;
    const struct pl_send *send; /* NULL: a plain access */
};
/* The whole ref to or from registers of layout v->lay. */
void pl_load_array(struct pl_lower *l, const struct pl_access *a, struct pl_lval *v);
void pl_store_array(struct pl_lower *l, const struct pl_access *a, const struct pl_lval *v);
/* The registers of a variable or an accumulator as the value of op `id`; and back. */
void pl_load_variable(struct pl_lower *l, uint32_t id, uint32_t array);
void pl_store_variable(struct pl_lower *l, uint32_t array, const struct pl_lval *v);
/* One chunk, its first element at `at`, between memory and raw words (32-bit words, or 64-bit ones of 64-bit elements, or the one
 * 16-bit or 8-bit element). inside: which elements to touch; NULL: all. fill: bits of an element that is not loaded. */
struct pl_chunk {
    uint32_t ref, vec;
    bool
        is_down; /* its elements follow each other along the first of two axes, not along the last one */
    const struct pl_coord *at;
    const struct pl_inside *inside;
    bool may_be_anything; /* a chunk of 16 bytes that is not loaded; else each element is `fill` */
    int64_t fill;
    const struct pl_send *send;
};
/* Element v of a chunk's words. */
struct pl_opnd pl_word_elem(struct pl_lower *l, pl_dtype t, uint32_t vec, const pl_reg *words,
                            uint32_t v);
uint32_t pl_chunk_n_words(pl_dtype t, uint32_t vec);
/* The words of one chunk as registers of v, and the registers of chunk k as words. */
void pl_words_to_regs(struct pl_lower *l, const struct pl_lval *v, const pl_reg *words,
                      struct pl_opnd *regs);
void pl_regs_to_words(struct pl_lower *l, const struct pl_lval *v, uint32_t vec, uint32_t k,
                      pl_reg *words);
enum pl_stype pl_chunk_word_type(pl_dtype t, uint32_t vec);
void pl_chunk_load(struct pl_lower *l, const struct pl_chunk *c, pl_reg *words);
void pl_chunk_store(struct pl_lower *l, const struct pl_chunk *c, const pl_reg *words);

uint32_t pl_access_key(const struct pl_lower *l, uint32_t ref, struct pl_lay lay);
#endif
