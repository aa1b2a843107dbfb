#ifndef PL_EMU_TCGEN05_H
#define PL_EMU_TCGEN05_H
/*
 * What tcgen05.mma and tcgen05.cp share: matrices in shared memory behind a descriptor, walked in chunks of 16 bytes; the CTAs
 * that take part; the chain of a thread's operations.
 *
 * Source: PTX ISA, TensorCore 5th Generation Family Instructions: Shared memory descriptor, Canonical layouts
 */
#include "emu/tmem.h"

enum { PL_TC_CHUNK_BYTES = 16 };

struct pl_tc_matrix {
    uint32_t es; /* bytes of an element */
    bool is_mn_major;
    bool
        is_k96; /* steps of 48 bytes along k; lbo is the address of the buffer that continues a line */
    /* By the descriptor: */
    uint32_t start, lbo, sbo, span; /* bytes */
    bool is_base32;
};

struct pl_tc_chunks {
    struct pl_tc_matrix m;
    struct pl_emu_cta *cta;
    uint32_t n_rows, n_k; /* n_k: along k in units of es */
    uint32_t n_pad_bytes; /* at the end of each chunk, never written: of 16 elements below a byte */
    uint32_t index;
};

struct pl_tc_chunk {
    uint32_t i, k; /* of its first element */
    struct pl_async_place place;
};

/* Complete *m, whose first three members are given, from a descriptor; false: a fault was raised. */
bool pl_tc_matrix_of(const struct pl_async_op *op, uint64_t desc, struct pl_tc_matrix *m);
/* False at the end, or at a chunk outside shared memory (*is_fault). */
bool pl_tc_next_chunk(const struct pl_async_op *op, struct pl_tc_chunks *c, struct pl_tc_chunk *out,
                      bool *is_fault);
/* Check, at issue, that every chunk is written and published. The bytes of the issuer's own CTA are in *used, if not NULL. */
bool pl_tc_check_chunks(struct pl_async_op *op, struct pl_tc_chunks c, struct pl_async_range *used);

/* The CTAs that take part, even rank first; the second is NULL without a pair. */
void pl_tc_ctas_of(const struct pl_async_op *op, struct pl_emu_cta *ctas[2]);
bool pl_tc_check_pair(struct pl_async_op *op); /* false: a fault was raised */
enum pl_emu_status pl_tc_submit(struct pl_async_op *op,
                                bool is_good); /* or drop it, and PL_EMU_FAULT */
#endif
