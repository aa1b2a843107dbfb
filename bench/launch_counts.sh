#!/bin/sh
# Instructions of a warm launch, exactly: callgrind counts two runs that differ in the number of launches only, over the do-nothing
# driver; only instructions of libplaunch itself are counted. Usage: bench/launch_counts.sh [BUILD]. Prints rows as the other benches; exit 77 without valgrind. With --gate a count over
# the limit (DESIGN: 1,500 for pl_launch, 700 for pl_launch_prepared) is a failure.
set -u
here=$(cd "$(dirname "$0")" && pwd)
gate=no
[ "${1:-}" = --gate ] && { gate=yes; shift; }
build=${1:-${PL_BUILDDIR:-build}}
command -v valgrind >/dev/null 2>&1 || { echo 'SKIP: valgrind is not installed'; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export PLAUNCH_DRIVER="$build/tests/.libs/libnodriver.so" PLAUNCH_CACHE_DIR=
[ -f "$PLAUNCH_DRIVER" ] || { echo "SKIP: $PLAUNCH_DRIVER is not built (make check builds it)"; exit 77; }
count() { # mode, launches
    "$build/libtool" --mode=execute valgrind --tool=callgrind --callgrind-out-file="$tmp/out" "$build/bench_launch_loop" "$1" "$2" >"$tmp/log" 2>&1 ||
        { cat "$tmp/log" >&2; exit 1; }
    awk -f "$here/callgrind_self.awk" "$tmp/out"
}
status=0
printf 'name\tn\tmedian\tp10\tp90\tunit\n'
for mode in warm prepared; do
    [ $mode = warm ] && limit=1500 || limit=700
    few=$(count $mode 100) || exit 1
    many=$(count $mode 1100) || exit 1
    each=$(((many - few) / 1000))
    printf 'launch/add/%s\t1000\t%s\t%s\t%s\tinstructions\n' $mode $each $each $each
    [ $each -le $limit ] || { echo "$mode: $each instructions, at most $limit wanted" >&2; [ $gate = yes ] && status=1; }
done
exit $status
