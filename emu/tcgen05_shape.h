#ifndef PL_EMU_TCGEN05_SHAPE_H
#define PL_EMU_TCGEN05_SHAPE_H
/*
 * What a tcgen05.mma multiplies: its kind and its instruction descriptor as a shape, element types and the layout of D.
 *
 * Source: PTX ISA, TensorCore 5th Generation Family Instructions: Instruction descriptor, Kind and Shape, Data Path Layout
 */
#include "emu/mma_elem.h"
#include "emu/tcgen05.h"

/* Element types of both kinds of table: those of emu/mma_elem.h, and the ones below a byte. */
enum { PL_TC_E2M3 = 16, PL_TC_E3M2, PL_TC_E2M1, PL_TC_NO_TYPE = 0xff };

struct pl_tc_operand {
    uint8_t type;
    bool is_mn_major, is_negated;
    uint64_t desc;
};

struct pl_tc_shape {
    uint32_t m, n, k, es; /* es: bytes of an element in shared memory */
    bool is_int, is_saturating, is_f16_acc;
    bool is_ws;
    bool is_dense4;     /* two elements of 4 bits a byte (then es is 1, of two elements) */
    uint32_t n_parts;   /* D: columns in so many parts, */
    uint32_t part_rows; /* each this many lanes below the one before */
    uint32_t scale_k;   /* elements along k a factor; 0: none */
    uint32_t sfa_id, sfb_id;
    bool is_ue4m3;
    struct pl_tc_operand a, b;
};

/* False: a fault was raised. */
bool pl_tc_shape_of(const struct pl_async_op *op, struct pl_tc_shape *s);

/* PL8339 and PL8341; false, for `return`. */
bool pl_tc_fault_idesc(const struct pl_async_op *op, const char *what);
bool pl_tc_fault_unserved(const struct pl_async_op *op, const char *what);

/*
 * The elements of a chunk of 16 bytes from shared memory; returns how many. Elements below a byte are packed from bit 0 of each
 * chunk, 16 of them, or 32 of 4 bits in the dense form.
 */
uint32_t pl_tc_decode(const struct pl_tc_shape *s, const struct pl_tc_operand *x,
                      const uint8_t *chunk, union pl_mma_value v[32]);

/* The bytes of a chunk that hold elements: 16, or 8 or 12 of 16 elements below a byte. */
uint32_t pl_tc_chunk_data_bytes(const struct pl_tc_shape *s, const struct pl_tc_operand *x);

/* The elements of A in a column of tensor memory, 4 / es or 8 of them: one below a byte stands in a byte of its own, one of 6
 * bits in bits 0 to 5, one of 4 in bits 2 to 5; in the dense form two a byte. */
uint32_t pl_tc_decode_cell(const struct pl_tc_shape *s, uint32_t cell, union pl_mma_value v[32]);
#endif
