#ifndef PL_TOOLS_TAR_H
#define PL_TOOLS_TAR_H
/*
 * Plain tar archives (POSIX ustar) of small regular files: what `plaunch cache export` writes and `import` reads, so that tar(1) and
 * image builders can look into them. Equal files give equal archives: no time, owner or mode of the machine is in it.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Adds a file; name at most 99 bytes. False: the archive could not be written. */
bool pl_tar_add(FILE *tar, const char *name, const void *data, size_t n_bytes);
bool pl_tar_end(FILE *tar);

enum pl_tar_result { PL_TAR_FILE, PL_TAR_END, PL_TAR_BROKEN };

/*
 * The next regular file; what is no regular file is passed over. FILE: *data (to be freed) and name are set.
 *
 *   limit_bytes   a larger file is BROKEN
 */
enum pl_tar_result pl_tar_next(FILE *tar, char name[100], uint8_t **data, size_t *n_bytes,
                               size_t limit_bytes);
#endif
