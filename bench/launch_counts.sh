#!/bin/sh
# Instructions of a warm launch, exactly: callgrind counts two runs that differ in the number of launches only, over the do-nothing
# driver; only instructions of libplaunch itself are counted. Usage: bench/launch_counts.sh [--gate] [BUILD]. Prints rows as the other
# benches; exit 77 without valgrind. With --gate a count over the limit (DESIGN: 1,500 for pl_launch, 700 for pl_launch_prepared) is a
# failure.
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/counts.sh"
export PLAUNCH_DRIVER="$build/tests/.libs/libnodriver.so" PLAUNCH_CACHE_DIR=
[ -f "$PLAUNCH_DRIVER" ] || { echo "SKIP: $PLAUNCH_DRIVER is not built (make check builds it)"; exit 77; }
for mode in warm prepared; do
    [ $mode = warm ] && limit=1500 || limit=700
    few=$(count bench_launch_loop $mode 100) || exit 1
    many=$(count bench_launch_loop $mode 1100) || exit 1
    each=$(((many - few) / 1000))
    printf 'launch/add/%s\t1000\t%s\t%s\t%s\tinstructions\n' $mode $each $each $each
    within $mode $each $limit
done
exit $status
