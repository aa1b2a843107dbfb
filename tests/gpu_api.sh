#!/bin/sh
# The emulated driver gives the answers of tests/gpu/api_probe.txt, which bench/gpu.sh compares with a chip's driver.
set -e
: "${PL_SRCDIR:=.}" "${PL_BUILDDIR:=.}"
command -v "${CC:-cc}" >/dev/null 2>&1 || { echo "no C compiler"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
"${CC:-cc}" -std=gnu11 -o "$tmp/probe" "$PL_SRCDIR/tests/gpu/api_probe.c" -ldl
"$tmp/probe" "$PL_BUILDDIR/emu/.libs/libplaunch-emu.so" >"$tmp/out"
diff "$PL_SRCDIR/tests/gpu/api_probe.txt" "$tmp/out"
