#ifndef PL_EMU_API_FATBIN_H
#define PL_EMU_API_FATBIN_H
/*
 * Fat binaries, as nvcc -fatbin writes them and embeds them in programs: members for several chips, machine code or PTX, of
 * which the emulated driver takes the best PTX.
 */
#include "emu/api/work.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pl_diags;

/* Is this a fat binary, or the wrapper that nvcc puts before one (fatbinary_section.h)? Reads 4 bytes. */
bool pl_fatbin_is(const void *image);

/*
 * The fat binary itself, behind its wrapper if it has one, and its length by its own header.
 *
 *   image    in   what pl_fatbin_is said yes to
 *   n_bytes  out  header and members
 *
 * Returns NULL where the header is none.
 */
const uint8_t *pl_fatbin_find(const void *image, size_t *n_bytes);

/* Of n_bytes, at least 4, of a file or buffer: a fat binary that does not end in them, or a wrapper, whose pointer is none there. */
bool pl_fatbin_is_cut(const void *image, size_t n_bytes);

/*
 * The text of the member that runs on a chip and is made for the newest one: PTX, decompressed, with a NUL.
 *
 *   image  in   what pl_fatbin_is said yes to
 *   sm     in   compute capability * 10 of the device
 *   text   out  to be freed
 *   ds     out  PL8401 no such member, or no libzstd for it; PL8413 damaged
 *
 * Returns CUDA_ERROR_NO_BINARY_FOR_GPU, INVALID_IMAGE or OUT_OF_MEMORY where it fails.
 * Source   layout: the files that nvcc 13.0 writes under each --compress-mode; LZ4 Block Format Description
 */
CUresult pl_fatbin_text(const void *image, uint16_t sm, char **text, struct pl_diags *ds);
#endif
