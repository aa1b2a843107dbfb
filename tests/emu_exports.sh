#!/bin/sh
# What libplaunch-emu.so exports: the rows of emu/api.def, their per-thread forms, those of emu/api/refused.def and the functions
# of emu/plaunch_emu.h, no more.
set -e
: "${PL_SRCDIR:=.}" "${PL_BUILDDIR:=.}" "${NM:=nm}"
lib=$PL_BUILDDIR/emu/.libs/libplaunch-emu.so
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
{
    sed -n 's/^CU([^,]*, *[^,]*, *\([A-Za-z0-9_]*\), *[A-Z]*, *[A-Z]*, *\([A-Z]*\),.*/\1 \2/p' "$PL_SRCDIR/emu/api.def" |
        while read -r symbol variant; do
            echo "$symbol"
            case $variant in
            PTSZ) echo "${symbol}_ptsz" ;;
            PTDS) echo "${symbol}_ptds" ;;
            esac
        done
    sed -n 's/^REFUSED(\([A-Za-z0-9_]*\),.*/\1/p' "$PL_SRCDIR/emu/api/refused.def"
    sed -n 's/^PLAUNCH_EMU_API.*\(plaunch_emu_[a-z_]*\)(.*/\1/p' "$PL_SRCDIR/emu/plaunch_emu.h"
} | sort >"$dir/want.txt"
"$NM" -D --defined-only "$lib" | awk '{print $3}' | grep -v '^_\(_bss_start\|edata\|end\)$' | sort >"$dir/has.txt"
diff "$dir/want.txt" "$dir/has.txt"
# A program that links the toolkit's stub must start.
stub=$PL_CUDA_HOME/lib64/stubs/libcuda.so
if [ -n "$PL_CUDA_HOME" ] && [ -f "$stub" ] && grep -q '^#define CUDA_VERSION 130' "$PL_CUDA_HOME/include/cuda.h"; then
    "$NM" -D --defined-only "$stub" | awk '$2 == "T" && $3 ~ /^cu/ {print $3}' | sort >"$dir/stub.txt"
    test -s "$dir/stub.txt"
    comm -13 "$dir/has.txt" "$dir/stub.txt" >"$dir/lacks.txt"
    if [ -s "$dir/lacks.txt" ]; then
        echo "symbols of the toolkit's stub that are not exported:"
        cat "$dir/lacks.txt"
        exit 1
    fi
fi
# A library named libcuda.so.1 would take the place of the real one in later opens; only the links beside it have that name.
if command -v readelf >/dev/null 2>&1; then
    readelf -d "$lib" | grep -q 'SONAME.*\[libplaunch-emu.so\]'
fi
test "$(readlink "$PL_BUILDDIR/emu/.libs/plaunch/libcuda.so.1")" = ../libplaunch-emu.so
test "$(readlink "$PL_BUILDDIR/emu/.libs/plaunch/libcuda.so")" = libcuda.so.1
echo "$(wc -l <"$dir/want.txt") symbols"
