#ifndef PL_TESTS_OPS_ROWS_H
#define PL_TESTS_OPS_ROWS_H
/*
 * Rows of tests/ptx/vectors*.tsv: form, operands, result, oracle, note.
 *
 * Operands and result are hexadecimal, most significant digit first; the number of digits is the width of the register (one
 * digit: a predicate). A note "body=TEXT" is the text to run. Where the note says "one element of the pair" the row is about one element of a packed register.
 */
#include "tests/ops_run.h"

#include <stdio.h>

enum { OPS_MAX_SOURCES = 6, OPS_LINE_BYTES = 512 };

struct ops_row {
    char form[96], note[128], oracle[16];
    char text[OPS_LINE_BYTES]; /* operands and result, for messages */
    unsigned n_src;
    uint64_t src[OPS_MAX_SOURCES], result;
    uint8_t src_digits[OPS_MAX_SOURCES], result_digits;
};

extern const char *const ops_vector_files[2];

/* A file of tests/ptx/. */
FILE *ops_open_data(const char *name);

/* The next field of a line of tab-separated values; *rest moves on. */
char *ops_field(char **rest);

/* The next row about a scalar form; an element row is spread over its packed registers. False at the end. */
bool ops_next_row(FILE *f, struct ops_row *row);

/* The text of the row's instructions: destination register 0, sources 1, 2, …; 9 for what lies between or is not looked at. */
void ops_write_body(const struct ops_row *row, char *out, size_t n_bytes);

/* The bank of a register by its hexadecimal digits: p h r d. */
char ops_bank(unsigned digits);

void ops_set_lane(struct ops_frame *f, char bank, unsigned reg, unsigned lane, uint64_t v);
uint64_t ops_get_lane(const struct ops_frame *f, char bank, unsigned reg, unsigned lane);

/* f32 results of an approximate function within its bound of each other. */
bool ops_is_within_bound(const char *form, uint64_t got, uint64_t want);
bool ops_is_nan(uint64_t u, unsigned digits);

#endif
