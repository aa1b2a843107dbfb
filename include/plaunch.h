#ifndef PLAUNCH_H
#define PLAUNCH_H
/*
 * plaunch: GPU kernels written at the moment they are launched. C11, usable from C++17; needs no CUDA header.
 *
 * An application describes a kernel as a C function over refs (arrays in a named memory space); pl_launch() checks it against
 * the rules of each memory space, writes PTX, caches the result, and launches it through the CUDA Driver API.
 */
#include <plaunch/bind.h>
#include <plaunch/core.h>
#include <plaunch/kernels.h>
#include <plaunch/launch.h>
#include <plaunch/ops.h>
#include <plaunch/trace.h>
#endif
