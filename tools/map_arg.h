#ifndef PL_TOOLS_MAP_ARG_H
#define PL_TOOLS_MAP_ARG_H
/*
 * A tensor map as an argument of `plaunch emu` writes it:
 *
 *   dtype:dims:box:swizzle[:option]...     extents and box outermost first; swizzle 0, 32, 64, 128, 128/32, 128/32flip or 128/64, the
 *                                          latter with their atoms
 *   nan              elements outside the tensor are NaN
 *   ftz              of f32 and tf32: subnormals are flushed
 *   interleave=16    or 32 bytes
 *   strides=512x64   bytes, outermost first, of all axes but the innermost; without it the tensor is dense
 *   w=0x2            im2col::w: corners, lower and upper; the box is then pixels x channels. w128=0x2: im2col::w::128
 */
#include <plaunch.h>

#include "tools/driver.h"

struct pl_map_arg {
    int type; /* CUtensorMapDataType */
    pl_shape dims, box;
    uint64_t stride_bytes[5]; /* innermost first, from axis 1 */
    int swizzle, interleave, fill;
    int wide; /* 0: tiled; 1: im2col::w; 128: im2col::w::128 */
    int lower, upper;
    uint64_t elem_bytes;
};

/* Cuts text into pieces. False: it is not understood. */
bool pl_map_arg_parse(char *text, struct pl_map_arg *out);
/* What the driver answers; image: 128 bytes, aligned so. */
int pl_map_arg_encode(const struct pl_tool_driver *api, const struct pl_map_arg *m,
                      uint64_t address, void *image);
#endif
