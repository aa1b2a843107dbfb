#ifndef PL_TOOLS_NPY_H
#define PL_TOOLS_NPY_H
/*
 * NumPy's .npy files, format 1.0 and 2.0, little-endian, C order: what `--in` and `--out` read and write.
 * Source: numpy.lib.format, "Format Version 1.0" and "Format Version 2.0".
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PL_NPY_MAX_RANK = 8 };

struct pl_npy {
    char descr[8]; /* "<f4", "<u2", "|u1", … */
    int rank;
    int64_t shape[PL_NPY_MAX_RANK]; /* elements */
    size_t elem_bytes;
    size_t n_bytes; /* of data: product of shape * elem_bytes */
    void *data;     /* owned; C order */
};

/* False: why[] says what is wrong, in one line; out is empty. A Fortran-order file of rank > 1 is refused. */
bool pl_npy_read(const char *path, struct pl_npy *out, char *why, size_t why_bytes);
/* Writes `a`; the folder must exist. A failed write removes the partial file. */
bool pl_npy_write(const char *path, const struct pl_npy *a, char *why, size_t why_bytes);
void pl_npy_fini(struct pl_npy *a);
#endif
