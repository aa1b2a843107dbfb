#!/bin/sh
# What stands between the tensor instructions: matmul of 8192 x 8192 x 8192 for each chip and type, and a plain CUDA C++ kernel of our
# own (bench/plain_wgmma.cu), assembled, disassembled, and the main loop of each counted (sass_loop.awk says what). A second row counts
# the loop that issues the tensor copies, where there is one. Counts are of the text of the loop, not of how often each is executed.
# Usage: bench/sass.sh [BUILD]. Needs ptxas and nvdisasm, and nvcc for the plain kernel, on PATH or in CUDA_HOME/bin (PyPI:
# nvidia-cuda-nvdisasm); exit 77 without the first two.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../build}" && pwd) || exit 1
PATH=$PATH${CUDA_HOME:+:$CUDA_HOME/bin}
for tool in ptxas nvdisasm; do
    command -v $tool >/dev/null 2>&1 || { echo "SKIP: $tool is not on PATH nor in CUDA_HOME/bin"; exit 77; }
done
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
row='%-7s %-5s %-8s %5s %5s %6s  %5s %6s %7s %8s %6s %6s %6s\n'
# shellcheck disable=SC2059
printf "$row" kernel type chip regs spill bytes loop tensor between barriers fences phases shared

count() { # kernel, type, chip, bytes of text; the assembler's words are in $tmp/log, the binary in $tmp/cubin
    regs=$(sed -n 's/.*Used \([0-9]*\) registers.*/\1/p' "$tmp/log" | head -n 1)
    spill=$(sed -n 's/.* \([0-9]*\) bytes spill stores.*/\1/p' "$tmp/log" | head -n 1)
    nvdisasm -c "$tmp/cubin" >"$tmp/sass" || exit 1
    # shellcheck disable=SC2046,SC2059
    printf "$row" "$1" "$2" "$3" "$regs" "$spill" "$4" $(awk -v what='^(HGMMA|IGMMA|QGMMA|UTC[A-Z]*MMA|HMMA|IMMA|QMMA|OMMA)' -f "$here/sass_loop.awk" "$tmp/sass")
    grep -q UTMALDG "$tmp/sass" || return 0
    # shellcheck disable=SC2046,SC2059
    printf "$row" ' loads' '' '' '' '' '' $(awk -v what='^UTMALDG' -f "$here/sass_loop.awk" "$tmp/sass")
}

ours() { # chip, type, majors
    arch=$1 type=$2
    shift 2
    "$build/plaunch" ptx matmul --shape 8192x8192x8192 --dtype "$type" --arch "$arch" "$@" -o "$tmp/ptx" || exit 1
    ptxas -v -arch="$arch" "$tmp/ptx" -o "$tmp/cubin" >"$tmp/log" 2>&1 || { cat "$tmp/log" >&2; exit 1; }
    count matmul "$type" "$arch" $(($(wc -c <"$tmp/ptx")))
}

for arch in sm_80 sm_89 sm_90a sm_100a sm_120a; do
    ours $arch bf16
    [ $arch = sm_80 ] || ours $arch e4m3 --set b_major=col
done
ours sm_90a tf32 --set b_major=col
ours sm_90a i8 --set b_major=col
if command -v nvcc >/dev/null 2>&1; then
    nvcc -arch=sm_90a -cubin -Xptxas -v -o "$tmp/cubin" "$here/plain_wgmma.cu" >"$tmp/log" 2>&1 || { cat "$tmp/log" >&2; exit 1; }
    count plain bf16 sm_90a -
else
    echo 'SKIP: nvcc is not on PATH nor in CUDA_HOME/bin; no plain kernel'
fi
