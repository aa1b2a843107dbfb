#!/bin/sh
# The instruction counts of texts stay under their limits (bench/compile_counts.sh).
grep -q '^#define PL_DEBUG 1' "$PL_BUILDDIR/config.h" && { echo 'SKIP: a debugging build verifies after each pass'; exit 77; }
exec sh "$PL_SRCDIR/bench/compile_counts.sh" --gate "$PL_BUILDDIR"
