#!/bin/sh
# A host of the Driver API that knows NVIDIA's cuda.h alone (tests/emu_hosts.c) and PTX of tests/hosts, on the emulated driver by
# LD_LIBRARY_PATH, on both chips and under every policy of asynchronous work. The toolkit's assembler takes the PTX too.
# Skipped, visibly, without a toolkit.
set -e
: "${PL_SRCDIR:=.}" "${PL_BUILDDIR:=.}" "${CC:=cc}"
stubs=$PL_CUDA_HOME/lib64/stubs
if [ -z "$PL_CUDA_HOME" ] || [ ! -f "$PL_CUDA_HOME/include/cuda.h" ] || [ ! -f "$stubs/libcuda.so" ]; then
    echo "skipped: no CUDA toolkit (cuda.h and the stub of libcuda.so)"
    exit 77
fi
if nm -D "$PL_BUILDDIR/emu/.libs/libplaunch-emu.so" | grep -q __asan_init; then
    echo "skipped: a program without the sanitizer cannot load a library with it"
    exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
$CC -std=c11 -Wall -Wextra -Werror -isystem "$PL_CUDA_HOME/include" "$PL_SRCDIR/tests/emu_hosts.c" -o "$dir/hosts" -L"$stubs" -lcuda
for arch in sm_90a sm_100a; do
    for policy in eager late random:1 random:2 random:3; do
        echo "$arch, $policy"
        PLAUNCH_EMU_ARCH=$arch PLAUNCH_EMU_ASYNC=$policy PLAUNCH_EMU_REPORT=stderr \
            LD_LIBRARY_PATH=$PL_BUILDDIR/emu/.libs/plaunch "$dir/hosts" "$PL_SRCDIR/tests/hosts"
    done
done
if [ -x "$PL_CUDA_HOME/bin/ptxas" ]; then
    for f in "$PL_SRCDIR"/tests/hosts/*.ptx; do
        arch=$(sed -n 's/^\.target //p' "$f")
        "$PL_CUDA_HOME/bin/ptxas" "-arch=$arch" "$f" -o "$dir/cubin"
    done
fi
