#!/bin/sh
# The instruction counts of a warm launch stay under their limits (bench/launch_counts.sh).
exec sh "$PL_SRCDIR/bench/launch_counts.sh" --gate "$PL_BUILDDIR"
