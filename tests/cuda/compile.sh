#!/bin/sh
# compile.sh SM OUT.ptx      all kernels that any chip from SM on takes, in one module
# compile.sh NAME OUT.ptx    one kernel, for the least chip that takes it
# compile.sh                 the PTX files of this folder anew, each kernel by itself
# NVCC_FLAGS: further options of the compiler
# shellcheck disable=SC2086 # which are words
set -e
cd "$(dirname "$0")"
nvcc=nvcc
if [ -n "$PL_CUDA_HOME" ]; then
    nvcc=$PL_CUDA_HOME/bin/nvcc
fi
arch_of() {
    case $1 in
    bulk_copy | cluster_exchange | cluster_ring | tensor_copy) echo sm_90 ;;
    wgmma_tile) echo sm_90a ;;
    tcgen05_pair) echo sm_100a ;;
    *) echo sm_80 ;;
    esac
}
compile_one() { "$nvcc" $NVCC_FLAGS -std=c++17 "-arch=$(arch_of "$1")" -ptx "$1.cu" -o "$2"; }
if [ -f "$1.cu" ]; then
    compile_one "$1" "$2"
    exit
fi
if [ $# -eq 2 ]; then
    all=$(mktemp -d)
    trap 'rm -rf "$all"' EXIT
    for f in *.cu; do
        least=$(arch_of "${f%.cu}")
        case $least in *a) continue ;; esac
        if [ "${least#sm_}" -le "$1" ]; then
            cat "$f" >>"$all/all.cu"
        fi
    done
    "$nvcc" $NVCC_FLAGS -std=c++17 "-arch=sm_$1" -ptx "$all/all.cu" -o "$2"
    exit
fi
for f in *.cu; do
    case ${f%.cu} in *_functions) [ "${f%.cu}" = virtual_functions ] || continue ;; esac # code of the mathematical library
    compile_one "${f%.cu}" "${f%.cu}.ptx"
done
