#!/bin/sh
# The exported symbols of libplaunch.so equal the committed list: nothing leaks out, nothing is lost. PL_UPDATE=1 rewrites it.
set -u
top=${PL_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}
lib=${PL_BUILDDIR:-.}/.libs/libplaunch.so
list=$top/tests/lint/exports.txt
command -v nm >/dev/null || { echo "SKIP: nm is not installed"; exit 77; }
[ -f "$lib" ] || { echo "$lib is not built"; exit 1; }
seen=$(nm -D --defined-only "$lib" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | grep -v '^__sanitizer\|^__asan\|^__ubsan' | LC_ALL=C sort)
if [ -n "${PL_UPDATE:-}" ]; then
    echo "$seen" >"$list"
    exit 0
fi
echo "$seen" | diff "$list" - && ! echo "$seen" | grep -v '^pl_'
