#!/bin/sh
# Instructions of a text, from request to PTX, exactly: callgrind counts two runs that differ in the number of texts only; only
# instructions of libplaunch itself are counted. Usage: bench/compile_counts.sh [--gate] [BUILD]. Prints rows as the other benches; exit
# 77 without valgrind. With --gate a count over its limit is a failure: the limits are a quarter above what gcc 12 reached (-O2), so that
# a pass that walks too often shows; lower them when it is less.
set -u
here=$(cd "$(dirname "$0")" && pwd)
gate=no
[ "${1:-}" = --gate ] && { gate=yes; shift; }
build=${1:-${PL_BUILDDIR:-build}}
command -v valgrind >/dev/null 2>&1 || { echo 'SKIP: valgrind is not installed'; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
count() { # kernel, chip, texts
    "$build/libtool" --mode=execute valgrind --tool=callgrind --callgrind-out-file="$tmp/out" "$build/bench_compile_loop" "$1" "$2" "$3" >"$tmp/log" 2>&1 ||
        { cat "$tmp/log" >&2; exit 1; }
    awk -f "$here/callgrind_self.awk" "$tmp/out"
}
status=0
printf 'name\tn\tmedian\tp10\tp90\tunit\n'
while read -r kernel chip limit; do
    few=$(count "$kernel" "$chip" 1) || exit 1
    many=$(count "$kernel" "$chip" 6) || exit 1
    each=$(((many - few) / 5))
    printf 'compile/%s/%s\t5\t%s\t%s\t%s\tinstructions\n' "$kernel" "$chip" $each $each $each
    [ $each -le "$limit" ] || { echo "$kernel for $chip: $each instructions, at most $limit wanted" >&2; [ $gate = yes ] && status=1; }
done <<LIMITS
copy sm_80 270000
copy sm_90a 140000
scale sm_90a 325000
add sm_80 430000
add sm_90a 284000
softmax sm_90a 876000
matmul sm_80 3385000
matmul sm_90a 1990000
matmul sm_100a 1497000
LIMITS
exit $status
