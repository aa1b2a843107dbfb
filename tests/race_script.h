#ifndef PL_TESTS_RACE_SCRIPT_H
#define PL_TESTS_RACE_SCRIPT_H
/* From a script of a race case (tests/race_cases.txt) to PTX text. */
#include <stdbool.h>
#include <stdint.h>

struct race_program {
    char text[1 << 17];
    uint32_t n_warps, n_ctas; /* to launch: a block of whole warps, one cluster */
};

/*
 *   family   its name: threads of families that begin with G get no tcgen05 fences around arrive and wait
 *   script   the line behind the name
 *   options  of the row
 *
 * False: a statement is not understood; *out's text says which.
 */
bool race_script_print(const char *family, const char *script, const char *options,
                       struct race_program *out);
#endif
