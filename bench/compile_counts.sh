#!/bin/sh
# Instructions of a text, from request to PTX, exactly: callgrind counts two runs that differ in the number of texts only; only
# instructions of libplaunch itself are counted. Usage: bench/compile_counts.sh [--gate] [BUILD]. Prints rows as the other benches; exit
# 77 without valgrind. With --gate a count over its limit is a failure: the limits are a quarter above what gcc 12 reached (-O2), so that
# a pass that walks too often shows; lower them when it is less.
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/counts.sh"
while read -r kernel chip limit; do
    few=$(count bench_compile_loop "$kernel" "$chip" 1) || exit 1
    many=$(count bench_compile_loop "$kernel" "$chip" 6) || exit 1
    each=$(((many - few) / 5))
    printf 'compile/%s/%s\t5\t%s\t%s\t%s\tinstructions\n' "$kernel" "$chip" $each $each $each
    within "$kernel for $chip" $each "$limit"
done <<LIMITS
copy sm_80 166000
copy sm_90a 137000
scale sm_80 258000
scale sm_90a 280000
cast sm_80 205000
add sm_80 239000
add sm_90a 254000
softmax sm_90a 800000
matmul sm_80 2675000
matmul sm_90a 1958000
matmul sm_100a 1484000
LIMITS
exit $status
