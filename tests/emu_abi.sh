#!/bin/sh
# The types and numbers of emu/cuda_abi.h against the toolkit's cuda.h; skipped, visibly, where there is none.
set -e
: "${PL_SRCDIR:=.}" "${CC:=cc}"
header=$PL_CUDA_HOME/include/cuda.h
if [ -z "$PL_CUDA_HOME" ] || [ ! -f "$header" ]; then
    echo "skipped: no CUDA toolkit (cuda.h)"
    exit 77
fi
if ! grep -q '^#define CUDA_VERSION 130' "$header"; then
    echo "skipped: the table is of CUDA 13.0, and $header is of another release"
    exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
$CC -std=c11 -I"$PL_SRCDIR" -DPL_EMU_OWN_ABI "$PL_SRCDIR/tests/emu_abi.c" -o "$dir/ours"
$CC -std=c11 -I"$PL_SRCDIR" -I"$PL_CUDA_HOME/include" "$PL_SRCDIR/tests/emu_abi.c" -o "$dir/theirs"
"$dir/ours" >"$dir/ours.txt"
"$dir/theirs" >"$dir/theirs.txt"
diff "$dir/ours.txt" "$dir/theirs.txt"
# First versions of the exported functions, against the typedefs of the same release.
sed -n 's/^CU(\([A-Za-z0-9]*\), *\([0-9]*\),.*/PFN_\1_v\2/p' "$PL_SRCDIR/emu/api.def" | sort -u >"$dir/rows.txt"
cat "$PL_CUDA_HOME"/include/cuda*Typedefs.h | grep -o 'PFN_cu[A-Za-z0-9]*_v[0-9]*' | sort -u >"$dir/typedefs.txt"
comm -23 "$dir/rows.txt" "$dir/typedefs.txt" >"$dir/unknown.txt"
if [ -s "$dir/unknown.txt" ]; then
    echo "emu/api.def has versions that the toolkit does not:"
    cat "$dir/unknown.txt"
    exit 1
fi
echo "$(wc -l <"$dir/ours.txt") values, sizes and offsets agree"
