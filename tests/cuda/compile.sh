#!/bin/sh
# compile.sh SM OUT.ptx    all kernels that chip SM takes, in one module
# compile.sh               the PTX files of this folder anew, each kernel by itself
set -e
cd "$(dirname "$0")"
nvcc=nvcc
if [ -n "$PL_CUDA_HOME" ]; then
    nvcc=$PL_CUDA_HOME/bin/nvcc
fi
needs_sm_90='cluster_ring bulk_copy tensor_copy'
is_for_90() { case " $needs_sm_90 " in *" $1 "*) return 0 ;; esac; return 1; }
if [ $# -eq 2 ]; then
    all=$(mktemp -d)
    trap 'rm -rf "$all"' EXIT
    for f in *.cu; do
        if [ "$1" -ge 90 ] || ! is_for_90 "${f%.cu}"; then
            cat "$f" >>"$all/all.cu"
        fi
    done
    "$nvcc" -std=c++17 "-arch=sm_$1" -ptx "$all/all.cu" -o "$2"
fi
for f in *.cu; do
    sm=80
    case ${f%.cu} in *_functions) [ "${f%.cu}" = virtual_functions ] || continue ;; esac # code of the mathematical library
    if is_for_90 "${f%.cu}"; then
        sm=90
    fi
    "$nvcc" -std=c++17 -arch=sm_$sm -ptx "$f" -o "${f%.cu}.ptx"
done
